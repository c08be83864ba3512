"""Work of seconds to minutes per item, such as whole fits, in several processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import TypeVar

from joblib import effective_n_jobs
from threadpoolctl import ThreadpoolController

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_processes(
    work: Callable[[Item], Result], items: Sequence[Item], *, n_processes: int
) -> Iterator[tuple[int, Result]]:
    """Call ``work(item)`` for every item in several processes, and yield positions and results as they come.

    For items of seconds to minutes, such as fits, which then run on one thread each.  When an item fails, those not
    begun are dropped, and the error is raised.  ``n_processes`` is a maximum, as in joblib; 1 is this process, which
    pickles nothing.

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
        pool.shutdown(cancel_futures=True)  # waits for items that have begun, lest the caller begin them again


def _use_one_thread() -> None:
    """Limit a worker process to one thread, and let Ctrl-C end it silently."""
    import signal

    import scipy.linalg  # noqa: F401 - its own BLAS can only be limited once it is loaded

    ThreadpoolController().limit(limits=1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
