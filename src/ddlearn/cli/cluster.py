"""Where a fit runs: in this process, or on the workers of a Dask cluster, of this machine or of others."""

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
# What fits on a cluster can do, since its sums come from workers that do not see each other's rows.
ADDITIVE_UPDATE = "block_coordinate"

_SILENT = logging.CRITICAL + 1  # an interrupted cluster has critical things to say, too
_IGNORE_INTERRUPTS = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"  # of workers started later

# What fit asks for.
Address = Annotated[
    str | None,
    typer.Option(
        "--dask", metavar="ADDRESS", help="Fit on the Dask cluster with this scheduler, such as tcp://10.0.0.1:8786."
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(metavar="NUMBER", min=1, help="Fit by so many processes of this machine: a Dask cluster of its own."),
]


class Cluster(NamedTuple):
    """A cluster that is there, by its address, or one to start, by the number of its processes."""

    address: str | None
    n_workers: int


def choose_cluster(data: str, address: str | None, n_workers: int | None) -> Cluster | None:
    """Return the cluster that was asked for, or that data in parts need; None is this process."""
    if address is not None and n_workers is not None:
        raise typer.BadParameter("--dask is for a cluster that is there, --workers starts one: give one of them.")
    if address is None and n_workers is None:
        from .reading.parts import is_in_parts

        return Cluster(None, 1) if is_in_parts(data) else None
    return Cluster(address, n_workers or 0)


def choose_update(terminal: Terminal, settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings with a dictionary update that works on a cluster, unless they name one."""
    if "dictionary_update" in settings:
        return settings
    terminal.note(f"On Dask, the dictionary is updated by {ADDITIVE_UPDATE} (--dictionary-update).")
    return settings | {"dictionary_update": ADDITIVE_UPDATE}


@contextmanager
def open_client(terminal: Terminal, cluster: Cluster | None) -> Iterator[int | None]:
    """Let what is done inside run on a cluster; yield how many rows' parts it works on at once, or None.

    A cluster that was started here ends here, however the work ends.
    """
    if cluster is None:
        yield None
        return
    from .reading.errors import require

    distributed = require("distributed", "A fit on Dask", "dask")
    connect = _start if cluster.address is None else _connect
    with _quiet(), connect(distributed, cluster) as client:
        n_places = sum(client.nthreads().values())
        if n_places == 0:
            terminal.note("The cluster has no workers yet: the fit begins when there are some.")
        yield max(n_places, 1)


@contextmanager
def _start(distributed: Any, cluster: Cluster) -> Iterator[Any]:
    from dask.system import CPU_COUNT

    with ExitStack() as stack:
        with _without_interrupts():
            local = distributed.LocalCluster(
                n_workers=cluster.n_workers,
                threads_per_worker=max(1, CPU_COUNT // cluster.n_workers),
                memory_limit=0,  # Dask counts mapped files, and would copy them to another place on the same disk
                dashboard_address="127.0.0.1:0",  # None is a port that others have too, with a warning
                scheduler_kwargs={"dashboard": False},
                silence_logs=_SILENT,
                preload=[_IGNORE_INTERRUPTS],
            )
            stack.enter_context(local)
            client = stack.enter_context(distributed.Client(local))
        yield client


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C for the second in which a cluster cannot be ended yet; its processes inherit that.

    A terminal sends Ctrl-C to all processes, and each worker would show a traceback.  They are ended by this process.
    """
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@contextmanager
def _connect(distributed: Any, cluster: Cluster) -> Iterator[Any]:
    try:
        distributed.comm.resolve_address(cluster.address)  # a client with an address that is none ends in a traceback
        client = distributed.Client(cluster.address, timeout=SECONDS_TO_CONNECT)
    except (OSError, ValueError) as error:
        raise ConnectionError(
            f"no Dask scheduler answers at {cluster.address} ({error}): start one by `dask scheduler`, or give the "
            "address that it shows."
        ) from error
    with client:
        _check_installed(client)
        yield client


def _check_installed(client: Any) -> None:
    """Refuse clusters without ddlearn, whose workers would end without a word when they get their first task."""
    look = functools.partial(importlib.util.find_spec, "ddlearn")
    for place, found in {"the scheduler": client.run_on_scheduler(look), **client.run(look)}.items():
        if found is None:
            raise ConnectionError(f"{place} has no ddlearn: install it for the scheduler and for all workers.")


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out what Dask tells of its workers: what matters comes as an error; and that data in memory go to them."""
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
