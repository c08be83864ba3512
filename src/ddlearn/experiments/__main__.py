"""``python -m ddlearn.experiments``: run one experiment."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .digits import run_usps
from .faces import run_faces
from .pictures import draw_pictures

# A run of a minute or two that goes through everything; its numbers say little.
_QUICK: dict[str, dict[str, Any]] = {
    "faces": {"size": (24, 21), "occlusions": (0.0, 0.3), "corruptions": (0.0, 0.5), "max_test": 76},
    "usps": {"seeds": (0,), "max_train": 1000, "max_test": 200},
}

EXPERIMENTS: dict[str, Callable[..., Any]] = {"faces": run_faces, "usps": run_usps, "pictures": draw_pictures}


def main() -> None:
    """Run one experiment."""
    parser = argparse.ArgumentParser(prog="python -m ddlearn.experiments", description="Run one experiment.")
    parser.add_argument("experiment", choices=EXPERIMENTS)
    parser.add_argument("--output", type=Path, default=Path("results"), help="folder for tables and figures")
    parser.add_argument("--quick", action="store_true", help="a small run, in a folder of its own inside the output")
    parser.add_argument("--jobs", type=int, default=-1, help="number of threads; -1 is all cores")
    arguments = parser.parse_args()
    output = arguments.output / "quick" if arguments.quick else arguments.output
    settings = _QUICK.get(arguments.experiment, {}) if arguments.quick else {}
    try:
        EXPERIMENTS[arguments.experiment](output, n_jobs=arguments.jobs, **settings)
    except OSError as error:  # data that are not there: the message says where to put them
        sys.exit(f"Error: {error}")


if __name__ == "__main__":
    main()
