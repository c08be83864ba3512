"""Rows in blocks: the one place where work is spread over threads, or over processes where a whole fit is one item.

Kernels are serial and release the GIL; a block of rows is the unit of work.  What a row becomes depends on its tile
only, a fixed group of rows, never on the number of threads or on how many tiles a block has: results are bitwise
equal for every ``n_jobs`` and every block size.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context
from typing import TypeVar

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Workspace = TypeVar("Workspace")
Result = TypeVar("Result")

# BLAS may round a row's products differently when other rows stand around it. So matrix products are always made of
# the same tiles, aligned to the first row. 256 rows keep BLAS at full speed and a block's correlations in the L2 cache.
TILE_ROWS = 256


def split_rows(n_rows: int, block_rows: int = TILE_ROWS) -> list[slice]:
    """Cut rows into consecutive blocks of whole tiles.

    Parameters
    ----------
    n_rows : int
        How many rows there are.
    block_rows : int, default=TILE_ROWS
        The size of a block, rounded up to whole tiles.

    Returns
    -------
    list of slice
        The blocks in order; the last may be shorter.

    Examples
    --------
    >>> split_rows(600)
    [slice(0, 256, None), slice(256, 512, None), slice(512, 600, None)]
    """
    step = -(-block_rows // TILE_ROWS) * TILE_ROWS
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


@cache
def _blas_controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries, so only once


class _BlasLimit:
    """One BLAS thread for as long as anybody is inside; the user's setting comes back when the last one leaves.

    The number of BLAS threads belongs to the process, so callers in several threads have to share one limit: were each
    to restore what it found, the second would find and leave behind the first one's limit.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._n_inside = 0

    @contextmanager
    def __call__(self) -> Iterator[None]:
        is_inside = False  # Ctrl-C may come at any line
        try:
            with self._lock:
                if self._n_inside == 0:
                    self._limiter = _blas_controller().limit(limits=1, user_api="blas")
                is_inside = True
                self._n_inside += 1
            yield
        finally:
            with self._lock:
                self._n_inside -= is_inside
                if is_inside and self._n_inside == 0:
                    self._limiter.restore_original_limits()


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
    When a block fails, or on Ctrl-C, the other threads stop after the block they are at, and the error is raised.

    Parameters
    ----------
    work : callable
        Takes a block of rows and the calling thread's workspace.
    blocks : list of slice
        From :func:`split_rows`.
    make_workspace : callable
        Called once in each thread: the arrays that its blocks overwrite one after another.
    n_jobs : int or None, default=None
        How many threads, after joblib's conventions: None is 1 unless a ``joblib.parallel_config`` says otherwise, -1
        all cores.

    Returns
    -------
    list
        One result per block.

    Examples
    --------
    >>> map_blocks(lambda block, _: block.stop - block.start, split_rows(600), lambda: None, n_jobs=2)
    [256, 256, 88]
    """
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


def map_processes(
    work: Callable[[Item], Result], items: Sequence[Item], *, n_processes: int
) -> Iterator[tuple[int, Result]]:
    """Call ``work(item)`` for every item, each in one of several processes, and yield results as they come.

    For items of seconds to minutes, such as fits, which then run on one thread each: that wastes nothing between the
    parallel parts of a fit.  When an item fails, those not begun are dropped, and the error is raised.

    Parameters
    ----------
    work : callable
        Takes an item; both must be picklable if there are several processes.
    items : sequence
        What to work on, begun in this order.
    n_processes : int
        How many processes at most, after joblib's conventions; 1 is this one.

    Yields
    ------
    tuple of int and object
        The position of an item, and its result.

    Examples
    --------
    >>> list(map_processes(len, ["a", "bc"], n_processes=1))
    [(0, 1), (1, 2)]
    """
    n_processes = min(effective_n_jobs(n_processes), len(items))
    if n_processes <= 1:
        yield from ((position, work(item)) for position, item in enumerate(items))
        return
    # A forked process would inherit threads of BLAS and Numba in the middle of what they do.
    pool = ProcessPoolExecutor(n_processes, get_context("spawn"), _use_one_thread)
    try:
        positions = {pool.submit(work, item): position for position, item in enumerate(items)}
        for future in as_completed(positions):
            yield positions[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)  # those begun are waited for, so that nobody begins them again meanwhile


def _use_one_thread() -> None:
    """Make a worker process one thread among many, and let Ctrl-C end it without a word."""
    import signal

    import scipy.linalg  # noqa: F401 - it has a BLAS of its own, which can be limited when it is loaded

    ThreadpoolController().limit(limits=1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
