"""The way of a sample through the package: which functions a call visits, file by file.

``python -m benchmarks.trace`` prints, for ``fit`` and ``predict``, every function of the package at its first visit in
the order of the calls, and counts files, switches from one file to another, and come-backs: switches into a file that
had been left before.  Compiled functions are not seen, only the Python functions that call them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

PACKAGE = "ddlearn"


class Visit(NamedTuple):
    """A function at its first visit."""

    file: str
    function: str


class Counts(NamedTuple):
    """How straight a way is."""

    n_files: int
    n_functions: int
    n_switches: int
    n_come_backs: int


def trace(call: Callable[[], object]) -> list[Visit]:
    """Return the functions of the package that a call visits, each once, in order; nested functions have their file."""
    visits: dict[Visit, None] = {}
    folder = str(Path(sys.modules[PACKAGE].__file__ or "").parent)

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename.startswith(folder):
            file = os.path.relpath(frame.f_code.co_filename, folder)
            visits.setdefault(Visit(file, frame.f_code.co_qualname))

    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(visits)


def count(visits: list[Visit]) -> Counts:
    """Count files, functions, switches and come-backs of a way."""
    seen: set[str] = set()
    n_switches = n_come_backs = 0
    previous = None
    for visit in visits:
        if visit.file != previous:
            n_switches += previous is not None
            n_come_backs += visit.file in seen
        seen.add(visit.file)
        previous = visit.file
    return Counts(len(seen), len(visits), n_switches, n_come_backs)


def trace_fit_and_predict() -> dict[str, list[Visit]]:
    """Trace a default fit of two iterations, and the prediction of one sample by the fitted model."""
    from sklearn.datasets import load_digits

    from ddlearn import DDLClassifier

    X, y = load_digits(return_X_y=True)
    X, y = X[:60], y[:60]
    model = DDLClassifier(n_components=12, n_nonzero_coefs=3, max_iter=2, random_state=0)
    model.fit(X, y).predict(X[:1])  # loads compiled functions, which is no part of the way
    ways = {"fit": trace(lambda: model.fit(X, y))}
    ways["predict"] = trace(lambda: model.predict(X[:1]))
    return ways


def main() -> None:
    """Print the ways."""
    for name, visits in trace_fit_and_predict().items():
        print(f"{name}: " + ", ".join(f"{value} {key[2:]}" for key, value in count(visits)._asdict().items()))
        previous = None
        for visit in visits:
            if visit.file != previous:
                print(f"  {visit.file}")
            print(f"    {visit.function}")
            previous = visit.file


if __name__ == "__main__":
    main()
