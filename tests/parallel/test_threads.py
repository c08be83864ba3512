"""Threads over row blocks and processes over items: order, errors, Ctrl-C, and the BLAS limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import active_children
from operator import neg
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info

from ddlearn.parallel import (
    TILE_ROWS,
    Parts,
    map_blocks,
    map_processes,
    single_threaded_blas,
    split_rows,
)
from ddlearn.parallel.parts import add_in_tree
from ddlearn.parallel.threads import _find_blas


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


@pytest.fixture
def found_blas():
    """Have the libraries looked for anew: spams, which other tests import, brings a BLAS of its own."""
    _find_blas.cache_clear()


@pytest.mark.usefixtures("found_blas")
def test_blas_has_one_thread_inside_and_the_users_number_after():
    before = blas_threads()
    inside = map_blocks(lambda block, _: blas_threads(), split_rows(600), lambda: None, n_jobs=2)
    assert inside == [{1}] * 3
    assert blas_threads() == before


@pytest.mark.usefixtures("found_blas")
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
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert "KeyboardInterrupt" in errors


# -- processes: what they call is found here by name, so it has to stand at the top level ------------------------------


def note(folder: Path, item: int) -> int:
    """Leave a file behind, so that all processes can see what was begun."""
    (folder / str(item)).touch()
    if item == 0:
        raise KeyError("here")
    time.sleep(0.05)
    return item


def wait_for_the_other(folder: Path, item: int) -> int:
    """Return when both items have been begun: one process alone would wait for ever."""
    (folder / str(item)).touch()
    for _ in range(400):
        if len(list(folder.iterdir())) == 2:
            return os.getpid()
        time.sleep(0.05)
    raise TimeoutError


def list_threads(_: int) -> list[int]:
    import scipy.linalg  # noqa: F401 - the second BLAS

    return [library["num_threads"] for library in threadpool_info()]


@pytest.mark.parametrize("n_processes", [None, 1, 2])
def test_results_of_processes_come_with_the_position_of_their_item(n_processes):
    items = [5, 3, 8, 1]
    results = list(map_processes(neg, items, n_processes=n_processes))
    assert sorted(results) == [(0, -5), (1, -3), (2, -8), (3, -1)]


def test_one_process_is_this_one_and_goes_item_by_item():
    done = []  # a process of its own would fill a list of its own, and could not be given a method of this one
    results = map_processes(done.append, [1, 2], n_processes=1)
    assert done == []
    assert next(results) == (0, None)
    assert done == [1]


def test_items_are_worked_on_at_the_same_time(tmp_path):
    results = dict(map_processes(partial(wait_for_the_other, tmp_path), [0, 1], n_processes=2))
    assert len({*results.values(), os.getpid()}) == 3


@pytest.mark.parametrize("n_processes", [1, 2])
def test_an_item_that_fails_raises_its_error_and_drops_those_not_begun(tmp_path, n_processes):
    with pytest.raises(KeyError, match="here"):
        list(map_processes(partial(note, tmp_path), range(60), n_processes=n_processes))
    for process in active_children():
        process.join(10)
    begun = sorted(int(path.name) for path in tmp_path.iterdir())
    assert begun == list(range(len(begun)))
    assert len(begun) < 40


def test_processes_have_one_thread_each():
    for _, threads in map_processes(list_threads, [0, 1], n_processes=2):
        assert set(threads) == {1}


def test_a_process_that_dies_is_an_error_and_not_waited_for():
    with pytest.raises(BrokenProcessPool):
        list(map_processes(os._exit, [1, 1, 1], n_processes=2))


# -- parts -------------------------------------------------------------------------------------------------------------


@given(n_parts=st.integers(1, 200))
def test_sums_are_added_in_an_order_that_depends_on_their_number_alone(n_parts):
    # Text tells the order; and how the parts lie must make no difference to it.
    words = [f"({number})" for number in range(n_parts)]
    parts = Parts(words)
    expected = "".join(words)
    assert add_in_tree(words) == expected
    assert parts.add_up(lambda word: word) == expected
    assert parts.map_and_add_up(lambda word: (word, word))[1] == expected


def test_floating_point_sums_round_alike_with_and_without_keeping_the_parts():
    numbers = [10.0 ** (number % 7) / 3 for number in range(100)]
    parts = Parts(numbers)
    together = parts.map_and_add_up(lambda number: (number, number))[1]
    assert parts.add_up(lambda number: number) == together == add_in_tree(numbers)


def test_tuples_are_added_entry_by_entry_and_keep_their_type():
    class Pair(NamedTuple):
        count: int
        size: tuple[float, float]

    total = Parts([1, 2]).add_up(lambda part: Pair(part, (1.0, float(part))))
    assert total == Pair(3, (2.0, 3.0))
    assert isinstance(total, Pair)


def test_parts_do_not_change():
    parts = Parts([1, 2])
    assert parts.map(lambda part, factor: part * factor, 10).collect(lambda part: part) == [10, 20]
    assert parts.map_each(lambda part, own: part + own, [5, 7]).collect(lambda part: part) == [6, 9]
    assert parts.collect(lambda part: part) == [1, 2]
