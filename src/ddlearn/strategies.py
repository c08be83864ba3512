"""What all plug-in points share: numbers among their parameters, copies of them, and the report of their checks."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator
from numbers import Integral
from typing import Any

import numpy as np
from sklearn.base import clone


def check_number(name: str, value: Any, kind: type) -> None:
    """Raise unless a parameter is a finite number of that kind, not negative."""
    is_number = isinstance(value, kind)
    if not is_number or isinstance(value, bool) or not 0 <= value < np.inf:
        word = "an integer" if kind is Integral else "a number"
        raise ValueError(f"{name} must be {word} of at least 0, got {value!r}.")


def find_copy_problems(strategy: Any, base: str) -> Iterator[str]:
    """Tell if an object cannot be cloned and pickled, as grid searches and worker processes do."""
    try:
        clone(strategy)
        pickle.loads(pickle.dumps(strategy))
    except Exception as error:  # a plug-in may fail in any way; the report names it
        yield f"it cannot be cloned and pickled ({type(error).__name__}: {error}); derive from {base}."


def report_problems(strategy: Any, role: str, problems: Iterable[str]) -> None:
    """Raise with one line for each different problem, if there are any."""
    lines = [f"- {problem}" for problem in dict.fromkeys(problems)]
    if lines:
        raise ValueError("\n".join([f"{strategy!r} is not a usable {role}:", *lines]))
