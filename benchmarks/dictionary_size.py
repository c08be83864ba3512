"""What ``n_components="auto"`` chooses, beside a grid of sizes: ``python -m benchmarks.dictionary_size``.

Default settings (faces: 20 atoms in a code), official splits, test errors, one thread.  Every finished cell is kept in
benchmarks/results/dictionary_size.json, so an interrupted run goes on where it was; ``--table`` prints what there is as
Markdown.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from reproduction.images import load_rows

from ddlearn import DDLClassifier

RESULTS = Path(__file__).parent / "results" / "dictionary_size.json"
SEEDS = (0, 1, 2)
GRID = (50, 100, 200, 300, 500, 800, 1200)
# Name: atoms in a code.
DATASETS: dict[str, int | None] = {"yaleb": 20, "usps": None, "mnist": None}


def measure(dataset: str, n_components: int | str, seed: int) -> dict[str, Any]:
    """Fit once; return the size, the test error in per cent, the processor's seconds, and what was tried."""
    data = load_rows(dataset, seed)
    model = DDLClassifier(n_components, description=None, n_nonzero_coefs=DATASETS[dataset], random_state=seed)
    start = process_time()
    model.fit(data.X_train, data.y_train)
    return {
        "n_components": len(model.components_),
        "seconds": process_time() - start,
        "error": 100 * (1 - model.score(data.X_test, data.y_test)),
        "tried": {name: column.tolist() for name, column in getattr(model, "search_", {}).items()},
    }


def _key(dataset: str, n_components: int | str, seed: int) -> str:
    return json.dumps([dataset, n_components, seed])


def fill_in(results: dict[str, Any], dataset: str, seed: int) -> None:
    """Measure what is missing: the automatic choice, the same size given as a number, and the grid."""

    def need(n_components: int | str) -> dict[str, Any]:
        key = _key(dataset, n_components, seed)
        if key not in results:
            results[key] = measure(dataset, n_components, seed)
            RESULTS.write_text(json.dumps(results, indent=1))
            found = {name: value for name, value in results[key].items() if name != "tried"}
            print(key, found, file=sys.stderr, flush=True)
        return results[key]

    need(need("auto")["n_components"])
    for n_components in GRID:
        need(n_components)


def print_table(results: dict[str, Any]) -> None:
    """Print choices and errors as Markdown, one row for each data set and seed that is complete."""
    sizes = " | ".join(map(str, GRID))
    print(f"| data, seed | chosen | its error | seconds in all | times one fit | {sizes} | best | above best |")
    print("| --- |" + " --- |" * (len(GRID) + 6))
    for dataset in DATASETS:
        for seed in SEEDS:
            choice = results.get(_key(dataset, "auto", seed))
            grid = [results.get(_key(dataset, n_components, seed)) for n_components in GRID]
            if choice and all(grid):
                _print_row(f"{dataset}, {seed}", choice, results[_key(dataset, choice["n_components"], seed)], grid)


def _print_row(name: str, choice: dict[str, Any], same: dict[str, Any], grid: list[dict[str, Any]]) -> None:
    errors = [cell["error"] for cell in grid]
    best = min(errors)
    cells = [
        name,
        f"{choice['n_components']}",
        f"{choice['error']:.2f}",
        f"{choice['seconds']:.1f}",
        f"{choice['seconds'] / same['seconds']:.2f}",
        *(f"{error:.2f}" for error in errors),
        f"{best:.2f}",
        f"{100 * (choice['error'] / best - 1):+.0f} %",
    ]
    print("| " + " | ".join(cells) + " |")


def main() -> None:
    """Fill in the cells that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true", help="print what there is and stop")
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="how many seeds")
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if not arguments.table:
        RESULTS.parent.mkdir(exist_ok=True)
        warm_up()
        for dataset in DATASETS:
            for seed in SEEDS[: arguments.seeds]:
                fill_in(results, dataset, seed)
    print_table(results)


def warm_up() -> None:
    """Fit once, so that compiling is not measured."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 8)).astype(np.float32)
    DDLClassifier("auto", max_iter=1).fit(X, np.arange(200) % 2)


if __name__ == "__main__":
    main()
