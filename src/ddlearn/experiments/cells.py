"""Cells of a table: each is measured once, and kept in a file of its own, so that an interrupted run goes on."""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Callable, Sequence
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from time import perf_counter, strftime
from typing import Any, NamedTuple

import numpy as np

import ddlearn

Record = dict[str, Any]


class Cell(NamedTuple):
    """One entry of a table: its name, all that decides its result, and what measures it."""

    name: str
    parameters: dict[str, Any]
    measure: Callable[[], dict[str, Any]]


def run_cells(cells: Sequence[Cell], folder: Path, *, n_jobs: int | None = None) -> list[Record]:
    """Measure the cells that have no file yet, and return the records of all.

    Parameters
    ----------
    cells : sequence of Cell
        What to measure, in this order.
    folder : Path
        Where each cell has a file.  It is written at once, and whole or not at all.
    n_jobs : int or None, default=None
        What the cells work with; kept in the record, since times depend on it.

    Returns
    -------
    list of dict
        For each cell its name, parameters, result, seconds, versions and when it was measured.
    """
    folder.mkdir(parents=True, exist_ok=True)
    n_left = sum(not _cell_path(cell, folder).exists() for cell in cells)
    seconds_of_one: list[float] = []
    records = []
    for number, cell in enumerate(cells, start=1):
        path = _cell_path(cell, folder)
        if not path.exists():
            record = _measure(cell, n_jobs)
            _write_whole(path, json.dumps(record, indent=1))
            seconds_of_one.append(record["seconds"])
            minutes_left = np.mean(seconds_of_one) * (n_left - len(seconds_of_one)) / 60
            print(
                f"[{number}/{len(cells)}] {cell.name}: {record['seconds']:.1f} s, about {minutes_left:.0f} min left",
                file=sys.stderr,
                flush=True,
            )
        records.append(json.loads(path.read_text()))
    return records


def _cell_path(cell: Cell, folder: Path) -> Path:
    """Return the file of a cell; other parameters have another file."""
    digest = sha256(json.dumps(cell.parameters, sort_keys=True).encode()).hexdigest()
    return folder / f"{cell.name}-{digest[:12]}.json"


def _measure(cell: Cell, n_jobs: int | None) -> Record:
    start = perf_counter()
    result = cell.measure()
    return {
        "name": cell.name,
        "parameters": cell.parameters,
        "result": result,
        "seconds": perf_counter() - start,
        "n_jobs": n_jobs,
        "versions": _list_versions(),
        "measured": strftime("%Y-%m-%d %H:%M:%S"),
    }


def _list_versions() -> dict[str, str]:
    packages = ("numpy", "scipy", "scikit-learn", "numba")
    return {"ddlearn": ddlearn.__version__, "python": platform.python_version()} | {
        package: version(package) for package in packages
    }


def _write_whole(path: Path, text: str) -> None:
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(text)
    os.replace(temporary, path)


def slug(text: str) -> str:
    """Return a file name."""
    return re.sub(r"[^a-z0-9.]+", "-", text.lower()).strip("-")
