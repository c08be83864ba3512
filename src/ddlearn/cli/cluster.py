"""Where a fit runs: in this process, or on a Dask cluster that exists or is started on this machine."""

from __future__ import annotations

import functools
import importlib.util
import logging
import signal
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any

import typer

from .terminal import Terminal

SECONDS_TO_CONNECT = 10

_SILENT = logging.CRITICAL + 1  # an interrupted cluster logs critical messages, too
_IGNORE_INTERRUPTS = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"  # of workers started later

Address = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        hidden=True,
        help="Fit on the Dask cluster with this scheduler, such as tcp://10.0.0.1:8786.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(
        metavar="NUMBER", hidden=True, min=1, help="Fit on a Dask cluster with this number of processes, started here."
    ),
]


def count_workers(data: str, address: str | None, n_workers: int | None) -> int:
    """Return the number of processes to start: data in parts need one; 0 without a cluster or for an existing one."""
    if address is not None and n_workers is not None:
        raise typer.BadParameter("--dask uses an existing cluster and --workers starts one: give only one of them.")
    from .reading.parts import is_in_parts

    return n_workers or int(address is None and is_in_parts(data))


@contextmanager
def open_client(terminal: Terminal, address: str | None, n_workers: int) -> Iterator[int | None]:
    """Run the body on a cluster, closed in any case if started here; yield its threads, or None without a cluster."""
    if address is None and n_workers == 0:
        yield None
        return
    from .reading.samples import require

    distributed = require("distributed", "A fit on Dask", "dask")
    connection = _start(distributed, n_workers) if address is None else _connect(distributed, address)
    with _quiet(), connection as client:
        n_threads = sum(client.nthreads().values())
        if n_threads == 0:
            terminal.note("The cluster has no workers yet: the fit starts as soon as there are workers.")
        yield max(n_threads, 1)


@contextmanager
def _start(distributed: Any, n_workers: int) -> Iterator[Any]:
    from dask.system import CPU_COUNT

    with ExitStack() as stack:
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)  # inherited by its processes, which print no tracebacks
        try:
            local = distributed.LocalCluster(
                n_workers=n_workers,
                threads_per_worker=max(1, CPU_COUNT // n_workers),
                memory_limit=0,  # Dask would count mapped files, and copy them to another place on the same disk
                dashboard_address="127.0.0.1:0",  # None would take a fixed port, and warn if it is in use
                scheduler_kwargs={"dashboard": False},
                silence_logs=_SILENT,
                preload=[_IGNORE_INTERRUPTS],
            )
            stack.enter_context(local)
            client = stack.enter_context(distributed.Client(local))
        finally:
            signal.signal(signal.SIGINT, handler)
        yield client


@contextmanager
def _connect(distributed: Any, address: str) -> Iterator[Any]:
    try:
        distributed.comm.resolve_address(address)  # a client prints a traceback for an invalid address
        client = distributed.Client(address, timeout=SECONDS_TO_CONNECT)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {address} ({error}): start one with `dask scheduler`, or give the "
            "address that it prints."
        ) from error
    with client:
        look = functools.partial(importlib.util.find_spec, "ddlearn")  # without it workers exit silently
        for place, found in {"the scheduler": client.run_on_scheduler(look), **client.run(look)}.items():
            if found is None:
                raise ConnectionError(f"{place} has no ddlearn: install it for the scheduler and for all workers.")
        yield client


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Dask's log, since errors are raised anyway, and its warning about data that are sent to workers."""
    handlers: list[Any] = [*logging.getLogger("distributed").handlers, logging.getLogger("asyncio")]
    levels = [handler.level for handler in handlers]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sending large graph")
        for handler in handlers:
            handler.setLevel(_SILENT)
        try:
            yield
        finally:
            for handler, level in zip(handlers, levels, strict=True):
                handler.setLevel(level)
