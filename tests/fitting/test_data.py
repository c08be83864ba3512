"""The training set in parts: views of arrays that may be on disk, and little memory for large ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.memory_map import measure_memory
from ddlearn.fitting.loop.data import (
    RowState,
    TrainingSet,
    cut_into_parts,
    get_row_state,
)

from ddlearn.parallel import PART_ROWS


def test_parts_are_views_of_the_samples(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, np.arange(1200.0).reshape(600, 2))
    X = np.load(path, mmap_mode="r")
    training, targets = cut_into_parts(X, np.arange(600) % 3, None)
    (part,) = training.parts.parts
    assert np.shares_memory(part.X, X)
    assert type(part.X) is np.ndarray  # Numba does not know memory maps
    assert targets.classes.tolist() == [0, 1, 2]
    several = TrainingSet.of_arrays(X, part.labels, 256)
    assert [len(part) for part in several.parts.parts] == [256, 256, 88]
    assert [part.first_row for part in several.parts.parts] == [0, 256, 512]
    assert all(np.shares_memory(part.X, X) for part in several.parts.parts)


def test_facts_count_labels():
    labels = np.array([[1, -1], [-1, 1], [0, 0], [-1, 0]])
    facts = TrainingSet.of_arrays(np.zeros((4, 3)), labels, 256).facts
    assert facts.n_labelled.tolist() == [3, 2]
    assert facts.n_positive.tolist() == [1, 1]
    assert facts.n_with_label == 3
    assert (facts.n_samples, facts.n_features, facts.n_classes) == (4, 3, 2)


def test_what_is_known_of_rows_is_cut_and_joined():
    training = TrainingSet.of_arrays(np.zeros((600, 2)), np.ones((600, 1)), 256)
    rng = np.random.default_rng(0)
    codes = type(get_row_state(training.parts.parts[0]).codes)(rng.integers(5, size=(600, 3)), rng.random((600, 3)))
    known = RowState(codes, rng.random(600), rng.random((600, 6)))
    joined = RowState.join([known.rows(rows) for rows in training.facts.row_slices])
    np.testing.assert_array_equal(joined.codes.indices, codes.indices)
    np.testing.assert_array_equal(joined.codes.values, codes.values)
    np.testing.assert_array_equal(joined.noise_variance, known.noise_variance)
    np.testing.assert_array_equal(joined.positions, known.positions)


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")


@needs_proc
def test_a_memory_mapped_fit_needs_less_memory_than_its_data(tmp_path):
    n_samples = PART_ROWS + 1000
    assert measure_memory(tmp_path / "X.npy", n_samples, "block_coordinate") < n_samples * 256 * 4


@needs_proc
@pytest.mark.nightly
@pytest.mark.parametrize("update", ["ksvd", "block_coordinate"])
def test_a_large_memory_mapped_fit_stays_below_its_cap(tmp_path, update):
    # 2 million such rows, 2 GB on disk, shall take less than 1 GB: 500 bytes a row, of which a fifth is tried here.
    n_samples = 400_000
    assert measure_memory(tmp_path / "X.npy", n_samples, update) < 500 * n_samples
