"""Where a fit runs: in this process, or on a Dask cluster that exists or is started on this machine."""

from __future__ import annotations

import functools
import importlib.util
import logging
import signal
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated, Any, NamedTuple

import typer

from .terminal import Terminal

SECONDS_TO_CONNECT = 10

_SILENT = logging.CRITICAL + 1  # an interrupted cluster logs critical messages, too
_IGNORE_INTERRUPTS = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"  # of workers started later

Address = Annotated[
    str | None,
    typer.Option(
        "--dask", metavar="ADDRESS", help="Fit on the Dask cluster with this scheduler, such as tcp://10.0.0.1:8786."
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(metavar="NUMBER", min=1, help="Fit on a Dask cluster with this number of processes, started here."),
]


class Cluster(NamedTuple):
    """An existing cluster, by its address, or one to start, by its number of processes."""

    address: str | None
    n_workers: int


def choose_cluster(data: str, address: str | None, n_workers: int | None) -> Cluster | None:
    """Return the cluster of the options, or the one that data in parts need; None is this process."""
    if address is not None and n_workers is not None:
        raise typer.BadParameter("--dask uses an existing cluster and --workers starts one: give only one of them.")
    if address is None and n_workers is None:
        from .reading import is_in_parts

        return Cluster(None, 1) if is_in_parts(data) else None
    return Cluster(address, n_workers or 0)


@contextmanager
def open_client(terminal: Terminal, cluster: Cluster | None) -> Iterator[int | None]:
    """Run the body on a cluster and yield its number of threads, or None without a cluster.

    A cluster that was started here is closed in any case.
    """
    if cluster is None:
        yield None
        return
    from .reading import require

    distributed = require("distributed", "A fit on Dask", "dask")
    connect = _start if cluster.address is None else _connect
    with _quiet(), connect(distributed, cluster) as client:
        n_threads = sum(client.nthreads().values())
        if n_threads == 0:
            terminal.note("The cluster has no workers yet: the fit starts as soon as there are workers.")
        yield max(n_threads, 1)


@contextmanager
def _start(distributed: Any, cluster: Cluster) -> Iterator[Any]:
    from dask.system import CPU_COUNT

    with ExitStack() as stack:
        with _without_interrupts():
            local = distributed.LocalCluster(
                n_workers=cluster.n_workers,
                threads_per_worker=max(1, CPU_COUNT // cluster.n_workers),
                memory_limit=0,  # Dask would count mapped files, and copy them to another place on the same disk
                dashboard_address="127.0.0.1:0",  # None would take a fixed port, and warn if it is in use
                scheduler_kwargs={"dashboard": False},
                silence_logs=_SILENT,
                preload=[_IGNORE_INTERRUPTS],
            )
            stack.enter_context(local)
            client = stack.enter_context(distributed.Client(local))
        yield client


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C while a cluster starts, when it cannot be closed yet; its processes inherit this.

    A terminal sends Ctrl-C to all processes, and each worker would print a traceback; this process closes them instead.
    """
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@contextmanager
def _connect(distributed: Any, cluster: Cluster) -> Iterator[Any]:
    try:
        distributed.comm.resolve_address(cluster.address)  # a client prints a traceback for an invalid address
        client = distributed.Client(cluster.address, timeout=SECONDS_TO_CONNECT)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {cluster.address} ({error}): start one with `dask scheduler`, or give the "
            "address that it prints."
        ) from error
    with client:
        _check_installed(client)
        yield client


def _check_installed(client: Any) -> None:
    """Refuse clusters without ddlearn, whose workers would exit silently on their first task."""
    look = functools.partial(importlib.util.find_spec, "ddlearn")
    for place, found in {"the scheduler": client.run_on_scheduler(look), **client.run(look)}.items():
        if found is None:
            raise ConnectionError(f"{place} has no ddlearn: install it for the scheduler and for all workers.")


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
