"""Warnings name the line that called the library, however deep in it they arise."""

from __future__ import annotations

import contextlib
import functools
import sys
import warnings
from pathlib import Path

import joblib
import sklearn

# Between the line of a user and that of a warning: this package, estimators and pools that call it, and decorators.
_INSIDE = (
    str(Path(__file__).parents[1]),
    str(Path(sklearn.__file__).parent),
    str(Path(joblib.__file__).parent),
    contextlib.__file__,
    functools.__file__,
)


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of the library from which it was called."""
    frame, stack_level = sys._getframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame, stack_level = frame.f_back, stack_level + 1
    warnings.warn(message, category, stacklevel=stack_level)
