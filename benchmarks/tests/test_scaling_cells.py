"""Chunks of the scaling measurement: even, planted, and different."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.scaling_cells import cut_evenly, make_chunk


@pytest.mark.parametrize(
    ("n_rows", "n_workers", "chunk_rows"), [(10_000, 2, 65536), (10**6, 2, 65536), (999, 3, 256), (40_000, 2, 1681)]
)
def test_every_worker_gets_as_many_chunks_of_whole_tiles(n_rows, n_workers, chunk_rows):
    sizes = cut_evenly(n_rows, n_workers, chunk_rows)
    assert sum(sizes) == n_rows
    assert max(sizes) <= chunk_rows
    assert len(sizes) % n_workers <= 1  # the last chunk may be used up by rounding to tiles
    assert all(size % 256 == 0 for size in sizes[:-1])


def test_chunks_are_planted_and_differ():
    X, y = make_chunk(0, 2000)
    again, other = make_chunk(0, 2000), make_chunk(1, 2000)
    assert np.array_equal(X, again[0])
    assert not np.array_equal(X, other[0])
    assert X.dtype == np.float32
    assert set(y) == set(range(10))
