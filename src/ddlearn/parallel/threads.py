"""Blocks of rows on several threads.

Kernels are serial and release the GIL; each thread handles one block of rows at a time.  The result of a row depends
only on its tile, a fixed group of rows, never on the number of threads or on the number of tiles in a block: results
are bitwise equal for every ``n_jobs`` and every block size.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TypeVar

from joblib import effective_n_jobs
from threadpoolctl import LibController, ThreadpoolController

Workspace = TypeVar("Workspace")
Result = TypeVar("Result")

# BLAS may round the products of a row differently depending on its place among the rows around it: OpenBLAS's Haswell
# kernels do in float32, whatever the number of rows, and those of SkylakeX have another path for small products. So
# matrix products are always made of the same tiles, aligned to the first row, and what reads rows a few at a time
# aligns its blocks to tiles as well. 256 rows keep BLAS at full speed and correlations in the L2 cache.
TILE_ROWS = 256


def split_rows(n_rows: int, block_rows: int = TILE_ROWS, *, unit: int = TILE_ROWS) -> list[slice]:
    """Cut rows into consecutive blocks of ``block_rows``, rounded up to whole tiles of ``unit`` rows.

    >>> split_rows(600)
    [slice(0, 256, None), slice(256, 512, None), slice(512, 600, None)]
    """
    step = -(-block_rows // unit) * unit
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


@cache
def _find_blas() -> list[LibController]:
    # Looks through all loaded libraries, so only once. To make a limit of threadpoolctl takes half as long as the
    # product of a sample with the atoms, so numbers of threads are set directly.
    return ThreadpoolController().select(user_api="blas").lib_controllers


class _BlasLimit:
    """One BLAS thread as long as any caller is inside; the last one to leave restores the user's setting.

    The number of BLAS threads belongs to the process, so callers in several threads share one limit: if each restored
    the setting it found, the second would find and leave behind the limit of the first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0
        self._limited: list[tuple[LibController, int]] = []  # with the user's number of threads

    @contextmanager
    def __call__(self) -> Iterator[None]:
        is_inside = False  # Ctrl-C may come at any line
        try:
            with self._lock:
                if self._n_inside == 0:
                    self._limited = [(blas, n) for blas in _find_blas() if (n := blas.get_num_threads()) != 1]
                    for blas, _ in self._limited:
                        blas.set_num_threads(1)
                is_inside = True
                self._n_inside += 1
            yield
        finally:
            with self._lock:
                self._n_inside -= is_inside
                if is_inside and self._n_inside == 0:
                    for blas, n_threads in self._limited:
                        blas.set_num_threads(n_threads)


single_threaded_blas = _BlasLimit()


def map_blocks(
    work: Callable[[slice, Workspace], Result],
    blocks: list[slice],
    make_workspace: Callable[[], Workspace],
    *,
    n_jobs: int | None = None,
) -> list[Result]:
    """Call ``work(block, workspace)`` for every block, on several threads, and return the results in order.

    The calling thread works too, so calls from several threads, or from inside another map, never wait for each other.
    When a block fails, or on Ctrl-C, the other threads stop after their current block, and the error is raised.
    ``make_workspace`` is called once per thread, for arrays that all its blocks overwrite.

    >>> map_blocks(lambda block, _: block.stop - block.start, split_rows(600), lambda: None, n_jobs=2)
    [256, 256, 88]
    """
    if len(blocks) == 1:
        with single_threaded_blas():
            return [work(blocks[0], make_workspace())]
    results: list[Result] = [None] * len(blocks)  # type: ignore[list-item]
    pending = deque(enumerate(blocks))

    def run() -> None:
        try:
            workspace = make_workspace()
            while True:
                try:
                    position, block = pending.popleft()
                except IndexError:
                    return
                results[position] = work(block, workspace)
        except BaseException:
            pending.clear()
            raise

    n_helpers = min(effective_n_jobs(n_jobs), len(blocks)) - 1
    with single_threaded_blas():
        if n_helpers < 1:
            run()
            return results
        with ThreadPoolExecutor(n_helpers) as helpers:
            try:
                futures = [helpers.submit(run) for _ in range(n_helpers)]
                run()
            except BaseException:  # Ctrl-C while the helpers were being started
                pending.clear()
                raise
        for future in futures:
            future.result()
    return results
