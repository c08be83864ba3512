"""Contenders of one package on one problem, in a process of their own; prints one line of JSON.

A process for each package, since BLAS and OpenMP read their number of threads at their start and their pools disturb
each other.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict
from time import perf_counter

from .contenders import CONTENDERS, Run, collect_codes
from .problems import (
    QUICK_SIZES,
    SIZES,
    Problem,
    find_data_folder,
    grade,
    make_problem,
)

WARM_UP_ROWS = 512


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.worker", description=__doc__)
    parser.add_argument("contenders", nargs="+", choices=CONTENDERS)
    parser.add_argument("--size", choices=[*SIZES, *QUICK_SIZES], required=True)
    parser.add_argument("--dtype", choices=["float64", "float32"], default="float64")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repetitions", type=int, default=4, help="repetitions at least")
    parser.add_argument("--seconds", type=float, default=1.0, help="and at least so long")
    parser.add_argument("--max-seconds", type=float, default=3.0, help="but no more repetitions after so long")
    return parser.parse_args(arguments)


def time_repeatedly(run: Run, repetitions: int, seconds: float, max_seconds: float) -> list[float]:
    """Return the seconds of each call."""
    times: list[float] = []
    while sum(times) < max_seconds and (len(times) < repetitions or sum(times) < seconds):
        start = perf_counter()
        run()
        times.append(perf_counter() - start)
    return times


def measure(name: str, problem: Problem, options: argparse.Namespace) -> dict:
    """Warm a contender up, time it, and have its codes graded."""
    contender = CONTENDERS[name]
    contender.prepare(problem.head(WARM_UP_ROWS), options.threads)()  # compiles, starts threads and processes
    run = contender.prepare(problem, options.threads)
    times = time_repeatedly(run, options.repetitions, options.seconds, options.max_seconds)
    graded = asdict(grade(problem, collect_codes(run(), problem))) if contender.makes_codes else None
    return {"seconds": min(times), "repetitions": len(times), "grade": graded}


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_arguments(arguments)
    problem = make_problem(options.size, options.dtype, find_data_folder())
    print(json.dumps({name: measure(name, problem, options) for name in options.contenders}))


if __name__ == "__main__":
    main()
