"""Cells of a table: each is measured once, and kept in a file of its own, so that an interrupted run goes on."""

from __future__ import annotations

import json
import logging
import platform
import re
from collections.abc import Callable, Sequence
from functools import cache, partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, strftime
from typing import Any, NamedTuple

import ddlearn
from ddlearn.files.store import write_atomically
from ddlearn.parallel import map_processes

Record = dict[str, Any]

_LOGGER = logging.getLogger(__name__)  # progress; the command line shows it


class Cell(NamedTuple):
    """One entry of a table: its name, all that decides its result, and what measures it."""

    name: str
    parameters: dict[str, Any]
    measure: Callable[[], dict[str, Any]]
    effort: float = 1.0  # how long it takes, roughly, relative to the others; used to estimate the time left


class Runner(NamedTuple):
    """Where an experiment writes its results, and how its cells are measured."""

    output: Path
    n_jobs: int | None = None  # threads inside a cell
    n_processes: int = 1  # cells measured at once, which is faster than threads inside one

    def run(self, cells: Sequence[Cell]) -> list[Record]:
        """Measure the cells that are not in the output folder yet, and return the records of all."""
        return run_cells(cells, self.output / "cells", n_jobs=self.n_jobs, n_processes=self.n_processes)

    def use_threads(self) -> Runner:
        """Return a runner for cells that share fitted models: one cell at a time, on threads instead of processes."""
        return self._replace(n_jobs=self.n_processes, n_processes=1)


def run_cells(cells: Sequence[Cell], folder: Path, *, n_jobs: int | None = None, n_processes: int = 1) -> list[Record]:
    """Measure the cells that have no file yet, and return the records of all.

    Parameters
    ----------
    cells : sequence of Cell
        What to measure, in this order; with several processes, long ones first.
    folder : Path
        Where each cell has a file.  It is written at once, and whole or not at all.
    n_jobs : int or None, default=None
        What the cells work with; kept in the record, since times depend on it.
    n_processes : int, default=1
        How many cells are measured at once, after joblib's conventions; if several, they must be picklable.

    Returns
    -------
    list of dict
        For each cell its name, parameters, result, seconds, versions and when it was measured.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [_cell_path(cell, folder) for cell in cells]
    missing = list({path: cell for path, cell in zip(paths, cells, strict=True) if not path.exists()}.values())
    if n_processes != 1:
        missing.sort(key=lambda cell: -cell.effort)  # no long one is left over for the end
    progress = _Progress(missing)
    work = partial(_measure, folder=folder, n_jobs=n_jobs)
    for position, seconds in map_processes(work, missing, n_processes=n_processes):
        progress.log(missing[position], seconds)
    return [json.loads(path.read_text()) for path in paths]


class _Progress:
    """Logs each finished cell, and about how long the others will take."""

    def __init__(self, cells: Sequence[Cell]):
        self._start = perf_counter()
        self._n_cells, self._n_done = len(cells), 0
        self._effort, self._effort_done = sum(cell.effort for cell in cells), 0.0

    def log(self, cell: Cell, seconds: float) -> None:
        self._n_done += 1
        self._effort_done += cell.effort
        elapsed = perf_counter() - self._start
        minutes_left = elapsed * (self._effort / self._effort_done - 1) / 60
        _LOGGER.info(
            f"[{self._n_done}/{self._n_cells}] {cell.name}: {seconds:.1f} s, about {minutes_left:.0f} min left"
        )


def _cell_path(cell: Cell, folder: Path) -> Path:
    """Return the file of a cell; other parameters have another file."""
    digest = sha256(json.dumps(cell.parameters, sort_keys=True).encode()).hexdigest()
    return folder / f"{cell.name}-{digest[:12]}.json"


def _measure(cell: Cell, folder: Path, n_jobs: int | None) -> float:
    """Measure a cell, write its file, and return the seconds it took."""
    start = perf_counter()
    result = cell.measure()
    record: Record = {
        "name": cell.name,
        "parameters": cell.parameters,
        "result": result,
        "seconds": perf_counter() - start,
        "n_jobs": n_jobs,
        "versions": _list_versions(),
        "measured": strftime("%Y-%m-%d %H:%M:%S"),
    }
    write_atomically(_cell_path(cell, folder), json.dumps(record, indent=1).encode())
    return record["seconds"]


@cache
def _list_versions() -> dict[str, str]:
    packages = ("numpy", "scipy", "scikit-learn", "numba")
    return {"ddlearn": ddlearn.__version__, "python": platform.python_version()} | {
        package: version(package) for package in packages
    }


def slug(text: str) -> str:
    """Return a file name."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")
