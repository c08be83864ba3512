"""Time, memory and traffic of a fit against the number of rows, and what that means for a cluster.

``python -m benchmarks.scaling`` measures, in memory and on workers of this machine, prints tables and writes them with
a figure into docs/scaling.md; ``DDLEARN_DATA=folder`` adds MNIST.  Every finished cell is kept in a file, so an
interrupted run goes on where it was.  A cell is not measured again when the library has changed: delete the folder for
that.
"""

from __future__ import annotations

import argparse
import json
import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from reproduction.cells import Cell, Record, run_cells

from .disturbance import watch_others
from .problems import DATA_VARIABLE, find_data_folder
from .report import ROOT, describe_machine, put_between_markers
from .run import call_module, log
from .scaling_cells import CHUNK_ROWS, LARGE_CHUNK_ROWS
from .scaling_page import describe, draw

RESULTS = Path(__file__).parent / "results" / "scaling"
PAGE = ROOT / "docs" / "scaling.md"
SIZES = (10_000, 100_000, 1_000_000, 5_000_000)
WORKERS = (1, 2)
# The same rows in these numbers of parts show what a part costs, whatever its size.  A million rows on two workers are
# in 16 parts, and five million in 78: what goes over the wires can be compared.
N_PARTS = (16, 78)
PARTS_ROWS = 78 * 2048
BATCH_SIZES = (256, 4096)  # of refinement
LARGE_PARTS = 4  # of a million rows, from which the projection with such parts is made


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scaling", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="+", type=int, default=SIZES, help="numbers of rows")
    parser.add_argument("--workers", nargs="+", type=int, default=WORKERS, help="numbers of workers, and of threads")
    parser.add_argument(
        "--parts", nargs="+", type=int, default=N_PARTS, help="into how many parts to cut the same rows"
    )
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for a file a cell")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page that holds the tables between two markers")
    options = parser.parse_args(arguments)
    if min(*options.sizes, *options.workers, *options.parts) < 1:
        parser.error("--sizes, --workers and --parts must be at least 1")
    return options


def _measure(kind: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """Measure in a new process, which has neither memory nor threads of an earlier measurement."""
    with watch_others() as disturbance:
        result = call_module("scaling_cells", kind, json.dumps(parameters))
    return result | {"others_cores": disturbance.cores, "machine": describe_machine()}


def list_cells(sizes: Sequence[int], workers: Sequence[int], n_parts: Sequence[int]) -> list[Cell]:
    """Return what is to be measured."""
    planned: list[tuple[str, dict[str, Any], float]] = []
    for n_workers in workers:
        for n_rows in sizes:
            planned.append(("memory", {"n_rows": n_rows, "n_jobs": n_workers}, n_rows / n_workers))
            planned.append(("workers", {"n_rows": n_rows, "n_workers": n_workers}, n_rows / n_workers))
    n_rows, n_workers = min(max(sizes), PARTS_ROWS), max(workers)
    for count in n_parts:
        cut = {"n_rows": n_rows, "n_workers": n_workers, "chunk_rows": min(-(-n_rows // count), CHUNK_ROWS)}
        planned.append(("workers", cut, n_rows / n_workers))
    if max(sizes) >= LARGE_PARTS * LARGE_CHUNK_ROWS:
        n_rows = LARGE_PARTS * LARGE_CHUNK_ROWS
        large = {"n_rows": n_rows, "n_workers": n_workers, "chunk_rows": LARGE_CHUNK_ROWS}
        planned.append(("workers", large, n_rows / n_workers))
    planned.append(("keeping", {"n_rows": min(max(sizes), PARTS_ROWS), "n_workers": n_workers}, 1e6))
    planned.append(("default", {"n_workers": n_workers}, 2e6))
    if find_data_folder() is None:
        log(f"skipping MNIST: {DATA_VARIABLE} names no folder")
    else:
        planned.append(("mnist", {"n_workers": max(workers)}, 2e6))
        planned += [("refined", {"n_workers": max(workers), "batch_size": size}, 2e6) for size in BATCH_SIZES]
    start = 300_000  # rows whose fit takes as long as starting the processes
    return [
        Cell(kind, {"kind": kind} | parameters, partial(_measure, kind, parameters), start + effort)
        for kind, parameters, effort in planned
    ]


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what is missing, print, and write the page."""
    options = parse_arguments(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    records: list[Record] = run_cells(list_cells(options.sizes, options.workers, options.parts), options.results)
    text = describe(records)
    print(text)
    put_between_markers(options.page, text)
    draw(records, options.page.parent / "images")


if __name__ == "__main__":
    main()
