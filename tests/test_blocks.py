"""Threads over row blocks: order, errors, Ctrl-C, and the shared BLAS limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from ddlearn.blocks import TILE_ROWS, map_blocks, single_threaded_blas, split_rows


def blas_threads() -> set[int]:
    return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}


@given(n_rows=st.integers(0, 5000), block_rows=st.integers(1, 3000))
def test_blocks_cover_the_rows_once_and_start_on_tiles(n_rows, block_rows):
    blocks = split_rows(n_rows, block_rows)
    assert [row for block in blocks for row in range(block.start, block.stop)] == list(range(n_rows))
    assert all(block.start % TILE_ROWS == 0 for block in blocks)


@pytest.mark.parametrize("n_jobs", [1, 2, 3, None, -1])
def test_results_come_in_the_order_of_the_blocks(n_jobs):
    blocks = split_rows(10_000)
    assert map_blocks(lambda block, _: block.start, blocks, lambda: None, n_jobs=n_jobs) == [b.start for b in blocks]


def test_each_thread_has_one_workspace():
    owners: dict[int, set[int]] = {}

    def work(block: slice, workspace: list) -> None:
        owners.setdefault(id(workspace), set()).add(threading.get_ident())
        time.sleep(0.001)

    kept = []
    map_blocks(work, split_rows(10_000), lambda: kept.append([]) or kept[-1], n_jobs=3)
    assert len(kept) <= 3
    assert all(len(threads) == 1 for threads in owners.values())


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_an_error_stops_the_other_blocks_and_is_raised(n_jobs, error):
    done = []
    n_threads = threading.active_count()

    def work(block: slice, _: None) -> None:
        if block.start == TILE_ROWS:
            raise error("here")
        done.append(block)
        time.sleep(0.002)

    with pytest.raises(error, match="here"):
        map_blocks(work, split_rows(100 * TILE_ROWS), lambda: None, n_jobs=n_jobs)
    assert len(done) < 20
    assert threading.active_count() == n_threads


def test_blas_has_one_thread_inside_and_the_users_number_after():
    before = blas_threads()
    inside = map_blocks(lambda block, _: blas_threads(), split_rows(600), lambda: None, n_jobs=2)
    assert inside == [{1}] * 3
    assert blas_threads() == before


def test_overlapping_callers_share_the_blas_limit():
    # Each restoring what it found would leave the first caller's limit of 1 behind for ever.
    before = blas_threads()
    first = single_threaded_blas()
    first.__enter__()
    second = single_threaded_blas()
    second.__enter__()
    first.__exit__(None, None, None)
    assert blas_threads() == {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before


def test_a_map_inside_a_map_does_not_wait_for_itself():
    def outer(block: slice, _: None) -> int:
        return sum(map_blocks(lambda b, _: b.stop - b.start, split_rows(1000), lambda: None, n_jobs=2))

    assert map_blocks(outer, split_rows(2000), lambda: None, n_jobs=2) == [1000] * 8


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_ctrl_c_ends_a_long_coding_at_once():
    script = (
        "import signal, numpy as np, ddlearn\n"
        # A job in the background inherits that Ctrl-C is ignored; this test must not.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "rng = np.random.default_rng(0)\n"
        "X, D = rng.standard_normal((200_000, 64)), rng.standard_normal((400, 64))\n"
        "ddlearn.sparse_encode(X[:300], D, n_nonzero_coefs=20)\n"
        "print('coding', flush=True)\n"
        "while True:\n"
        "    ddlearn.sparse_encode(X, D, n_nonzero_coefs=20, n_jobs=2)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "coding\n"
            time.sleep(0.3)
            start = time.perf_counter()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=20)
        finally:
            process.kill()
    assert time.perf_counter() - start < 3
    assert "KeyboardInterrupt" in errors
