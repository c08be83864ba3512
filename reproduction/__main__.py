"""``python -m reproduction NAME``: measure the paper's figures and tables again."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Sequence
from pathlib import Path

from .experiments import FULL, QUICK, RUNS, list_new_cells, reproduce


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(prog="python -m reproduction", description=__doc__)
    names = [*RUNS, "all"]
    parser.add_argument(
        "experiment", metavar="NAME", choices=names, help=f"one of {', '.join(names)}, which is the paper's"
    )
    parser.add_argument(
        "-o", "--output", type=Path, default=Path("results"), help="folder for tables, figures and finished cells"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a small run of minutes, in a folder of its own inside the output"
    )
    parser.add_argument(
        "--only",
        metavar="PART",
        action="append",
        default=[],
        help="of beyond: a data set (usps), or one of its methods (usps:svm)",
    )
    parser.add_argument("--jobs", type=int, default=-1, help="cells measured at once; -1 is one per core")
    parser.add_argument("--debug", action="store_true", help="show where an error comes from")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run an experiment, show its progress on stderr, and return the exit code."""
    options = parse_arguments(arguments)
    logging.basicConfig(format="%(message)s")
    logging.getLogger("reproduction").setLevel(logging.INFO)
    folder = options.output / "quick" if options.quick else options.output
    try:
        records = reproduce(
            options.experiment,
            folder,
            scale=QUICK if options.quick else FULL,
            only=options.only,
            n_jobs=1,
            n_processes=options.jobs,
        )
    except KeyboardInterrupt:
        print("Interrupted; the same command goes on with what is left.", file=sys.stderr)
        return 130
    except Exception as error:
        if options.debug:
            raise
        print(f"Error: {error}", file=sys.stderr)
        return 1
    cells = [record for of_one in list_new_cells(records).values() for record in of_one]
    seconds = sum(record["seconds"] for record in cells)
    print(f"{len(cells)} cells, {seconds / 60:.1f} minutes of work; see {folder}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
