"""What all strategies share: they are looked up by name or taken as objects, and their numbers are checked."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from inspect import getattr_static
from numbers import Integral
from typing import Any, TypeVar

import numpy as np

Strategy = TypeVar("Strategy")


def resolve(role: str, value: str | Strategy, registry: Mapping[str, type[Strategy]], base: type) -> Strategy:
    """Return the strategy registered under a name, with its default parameters, or the object itself.

    An object serves if it has every public attribute that the base class declares, methods and flags alike, so that
    callers never have to ask which ones there are.
    """
    names = sorted(registry)
    if isinstance(value, str) and registry:
        if value in registry:
            return registry[value]()
        hint = "".join(f" Did you mean {name!r}?" for name in get_close_matches(value, names, n=1))
        raise ValueError(
            f"{value!r} is not a known {role}; choose one of {names} or pass an object derived from "
            f"{base.__name__}.{hint}"
        )
    if isinstance(value, type):
        raise TypeError(f"{value!r} is not a usable {role}, but a class: pass an object, {value.__name__}(...).")
    # Looked up without evaluating properties, which may raise before a fit.
    missing = [name for name in vars(base) if not name.startswith("_") and getattr_static(value, name, base) is base]
    if missing:
        remedy = f"derive from {base.__name__}, or use one of {names}." if names else f"pass {base.__name__}(...)."
        raise TypeError(f"{value!r} is not a usable {role}: it lacks {', '.join(missing)}; {remedy}")
    return value


def check_number(name: str, value: Any, kind: type) -> None:
    """Raise unless a parameter is a finite number of that kind, not negative."""
    is_number = isinstance(value, kind)
    if not is_number or isinstance(value, bool) or not 0 <= value < np.inf:
        word = "an integer" if kind is Integral else "a number"
        raise ValueError(f"{name} must be {word} of at least 0, got {value!r}.")
