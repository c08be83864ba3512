"""Measure sparse coding side by side with its peers.

``DDLEARN_DATA=folder`` for the real images.  Contenders take turns, in several rounds, and each one's best time counts:
whatever else the machine does then hits all of them alike.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from .contenders import CONTENDERS
from .disturbance import DISTURBING_CORES, is_disturbed, watch_others
from .problems import (
    DATA_VARIABLE,
    QUICK_SIZES,
    SIZES,
    find_data_folder,
)
from .report import (
    RESULTS,
    ROOT,
    describe_machine,
    format_first_calls,
    format_times,
    format_verdicts,
    write_results,
)
from .targets import Cell, judge

TIME_LIMIT = 600  # seconds for one contender, warm-up and all
QUICK_BUDGET = ["--repetitions", "1", "--seconds", "0"]
FULL_SIZES = [name for name in SIZES if name.endswith("-lasso") or "-2000-" in name]
SHORT_BUDGET = ["--seconds", "0.3", "--max-seconds", "2"]


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tiny synthetic problem once: does it run at all?")
    parser.add_argument("--full", action="store_true", help="slow peers, the lasso and one thread too, in two rounds")
    parser.add_argument("--sizes", nargs="+", choices=SIZES)
    parser.add_argument("--dtypes", nargs="+", choices=["float64", "float32"], default=["float64", "float32"])
    parser.add_argument("--threads", nargs="+", type=int)
    parser.add_argument("--rounds", type=int, help="turns that every contender gets")
    parser.add_argument("--contenders", nargs="+", choices=CONTENDERS)
    parser.add_argument("--results", type=Path, default=RESULTS, help="folder for coding.json")
    options = parser.parse_args(arguments)
    is_full = options.full
    options.sizes = options.sizes or [name for name in SIZES if is_full or name not in FULL_SIZES]
    options.threads = options.threads or ([1, 2] if is_full else [2])
    options.rounds = (2 if is_full else 1) if options.rounds is None else options.rounds
    options.contenders = options.contenders or [
        name for name, contender in CONTENDERS.items() if is_full or not contender.is_slow
    ]
    if options.rounds < 1 or min(options.threads) < 1:
        parser.error("--rounds and --threads must be at least 1")
    if options.quick:
        options.sizes, options.dtypes, options.threads, options.rounds = list(QUICK_SIZES), options.dtypes[:1], [2], 1
        os.environ.pop(DATA_VARIABLE, None)
    return options


def log(message: str) -> None:
    """Report progress where it does not mix with the tables."""
    print(message, file=sys.stderr, flush=True)


def call_module(module: str, *arguments: str, environment: dict[str, str] | None = None) -> dict[str, Any]:
    """Run a module of this package in a new process and return the JSON it prints."""
    finished = subprocess.run(
        [sys.executable, "-m", f"benchmarks.{module}", *arguments],
        cwd=ROOT,
        env=os.environ | (environment or {}),
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
        check=False,
    )
    if finished.returncode != 0:
        raise RuntimeError((finished.stderr.strip().splitlines() or ["no message"])[-1])
    return json.loads(finished.stdout.splitlines()[-1])


def find_skipped(names: Sequence[str]) -> dict[str, str]:
    """Return why some contenders cannot run, and log it."""
    skipped = {name: reason for name in names if (reason := CONTENDERS[name].why_not()) is not None}
    for name, reason in skipped.items():
        log(f"skipping {CONTENDERS[name].label}: {reason}")
    return skipped


def measure_group(group: Sequence[Cell], budget: Sequence[str]) -> dict[Cell, dict[str, Any]]:
    """Give contenders that share a process their turn."""
    first = group[0]
    with watch_others() as others:
        measured = call_module(
            "worker",
            *(cell.contender for cell in group),
            *("--size", first.size, "--dtype", first.dtype, "--threads", str(first.threads)),
            *budget,
            environment=CONTENDERS[first.contender].environment(first.threads),
        )
    return {cell: measured[cell.contender] | {"others_cores": others.cores} for cell in group}


def group_contenders(cells: Sequence[Cell]) -> list[list[Cell]]:
    """Return the contenders of one problem by package and environment."""
    groups: dict[Any, list[Cell]] = {}
    for cell in cells:
        contender = CONTENDERS[cell.contender]
        groups.setdefault((contender.needs, contender.blas_threads), []).append(cell)
    return list(groups.values())


def keep_better(old: dict[str, Any] | None, new: dict[str, Any]) -> dict[str, Any]:
    """Join two turns of a contender: the better one, with the repetitions of both."""
    if old is None:
        return new
    return min(old, new, key=lambda turn: turn["seconds"]) | {"repetitions": old["repetitions"] + new["repetitions"]}


def measure_all(
    options: argparse.Namespace, names: Sequence[str]
) -> tuple[dict[Cell, dict[str, Any]], dict[Cell, str]]:
    """Measure every contender in every cell, in turns; one that fails does not stop the others."""
    measurements: dict[Cell, dict[str, Any]] = {}
    failures: dict[Cell, str] = {}
    budget = QUICK_BUDGET if options.quick else [] if options.full else SHORT_BUDGET
    for size, dtype, threads in product(options.sizes, options.dtypes, options.threads):
        cells = [
            Cell(size, dtype, threads, name)
            for name in names
            if CONTENDERS[name].takes((SIZES | QUICK_SIZES)[size].penalty)
        ]
        for turn in range(options.rounds):
            log(f"{size}, {dtype}, threads: {threads}, round {turn + 1} of {options.rounds}")
            again = [c for c in cells if turn == 0 or not (CONTENDERS[c.contender].is_slow or c in failures)]
            for group in group_contenders(again):
                try:
                    measured = measure_group(group, budget)
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    failures |= dict.fromkeys(group, str(error))
                    log(f"  {', '.join(CONTENDERS[cell.contender].label for cell in group)} failed: {error}")
                    continue
                for cell, found in measured.items():
                    measurements[cell] = keep_better(measurements.get(cell), found)
                    log(f"  {CONTENDERS[cell.contender].label}: {1e3 * found['seconds']:.1f} ms")
    return measurements, failures


def measure_first_calls(dtypes: Sequence[str], n_tries: int) -> dict[str, dict[str, float]]:
    """Return the best times of import and first calls; a try before the first one fills Numba's cache."""
    from ddlearn import DDLClassifier, save

    best = {}
    for dtype in dtypes:
        log(f"first call, {dtype}")
        X = np.random.default_rng(1).standard_normal((300, 64)).astype(dtype)
        with TemporaryDirectory() as folder:
            path = str(Path(folder) / "model.ddl")
            save(DDLClassifier(100, max_iter=1, random_state=0).fit(X, np.arange(300) % 3), path)
            tries = [call_module("first_call", dtype, path) for _ in range(1 + n_tries)][1:]
        best[dtype] = {key: min(times[key] for times in tries) for key in tries[0]}
    return best


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_arguments(arguments)
    machine = describe_machine()
    skipped = find_skipped(options.contenders)
    measurements, failures = measure_all(options, [name for name in options.contenders if name not in skipped])
    first_calls = measure_first_calls(options.dtypes, n_tries=3 if options.full else 1)
    verdicts = judge(measurements)
    data = "synthetic" if find_data_folder() is None else "real"

    facts = f"{machine['cpu']}, {machine['cores']} cores, {machine['date']}, commit {machine['commit'][:10]}"
    print(f"Sparse coding, {data} images, best times. {facts}\n")
    print("\n".join(format_times(measurements)))
    print(format_verdicts(verdicts), format_first_calls(first_calls), sep="\n\n")
    if any(is_disturbed(measured["others_cores"]) for measured in measurements.values()):
        print(f"\n* other processes used more than {DISTURBING_CORES:g} cores meanwhile: do not trust, run again.")
    for name, reason in skipped.items():
        print(f"\nNot measured: {CONTENDERS[name].label}, since {reason}.")
    for cell, message in failures.items():
        print(f"\nFailed: {CONTENDERS[cell.contender].label} at {cell.size}, {cell.dtype}: {message}")
    if options.quick:
        print("\nTiny problem, run once: this shows that the benchmark works, not how fast anything is.")

    report = {
        "machine": machine,
        "data": data,
        "is_quick": options.quick,
        "is_full": options.full,
        "skipped": skipped,
        "failures": [cell._asdict() | {"message": message} for cell, message in failures.items()],
        "measurements": [cell._asdict() | measured for cell, measured in measurements.items()],
        "ratios": [asdict(verdict) for verdict in verdicts],
        "first_calls": first_calls,
    }
    write_results("coding", report, options.results)


if __name__ == "__main__":
    main()
