"""Strategies: the parts of the method that users can exchange, by name, by an object, or by a shorthand for one.

Each kind has a base class, derived from :class:`Strategy`, and a :class:`Registry` of the names, which is the one way
from the value of a parameter to an object.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from inspect import getattr_static
from numbers import Integral
from typing import Any, TypeVar

import numpy as np
from sklearn.base import BaseEstimator


class Strategy(BaseEstimator):
    """What all strategies are: objects with parameters, which ``clone``, ``repr`` and a grid search understand."""

    def check_parameters(self) -> None:
        """Raise a ValueError if a constructor parameter is invalid; called before the object is used."""


S = TypeVar("S")


class Registry(dict[str, type[S]]):
    """The strategies of one kind by name, to which users may add their own.

    A kind without names has one class, and its parameter may be None.
    """

    def __init__(
        self,
        kind: str,  # as messages call it
        base: Any,  # the class from which strategies of this kind derive
        named: Mapping[str, Any] | None = None,
        *,
        shorthand: Callable[[Any], Any] | None = None,  # returns the object that a value stands for, if any
        expected: str = "",  # all that the parameter of a kind without names may be, for messages
        by_flag: Mapping[str, Any] | None = None,  # other base classes, of objects that set a flag
    ):
        super().__init__(named or {})
        self.kind, self.base, self.expected = kind, base, expected
        self.shorthand, self.by_flag = shorthand, by_flag or {}

    def resolve(self, value: Any) -> Any:
        """Return the strategy registered under a name, with its default parameters, or the object itself, checked.

        An object serves if it has every public attribute that the base class declares, methods and flags alike, so that
        callers never have to ask which ones there are.
        """
        strategy: Any = value if self.shorthand is None else self.shorthand(value)
        if not self:
            if strategy is None:
                return None
            if not isinstance(strategy, self.base):
                raise TypeError(f"{self.kind} must be {self.expected}, got {strategy!r}.")
        elif isinstance(strategy, str) and strategy in self:
            strategy = self[strategy]()
        elif self.by_flag or not isinstance(strategy, self.base):
            self._check_interface(strategy)
        strategy.check_parameters()
        return strategy

    def _check_interface(self, value: Any) -> None:
        """Raise unless an object from elsewhere can take the place of those that are registered."""
        if isinstance(value, str):
            names = sorted(self)
            hint = "".join(f" Did you mean {near!r}?" for near in get_close_matches(value, names, n=1))
            raise ValueError(
                f"{value!r} is not a known {self.kind}; choose one of {names} or pass an object derived from "
                f"{self.base.__name__}.{hint}"
            )
        if isinstance(value, type):
            raise TypeError(
                f"{value!r} is not a usable {self.kind}, but a class: pass an object, {value.__name__}(...)."
            )
        base = next((base for flag, base in self.by_flag.items() if getattr(value, flag, False)), self.base)
        declared = dict.fromkeys([*vars(base), "check_parameters"])
        # Looked up without evaluating properties, which may raise before a fit.
        missing = [name for name in declared if name[0] != "_" and getattr_static(value, name, self) is self]
        if missing:
            raise TypeError(
                f"{value!r} is not a usable {self.kind}: it lacks {', '.join(missing)}; derive from {base.__name__}, "
                f"or use one of {sorted(self)}."
            )


def check_number(name: str, value: Any, kind: type, *, most: float = np.inf) -> None:
    """Raise unless a parameter is a finite number of that kind, not negative and at most ``most``."""
    word = "an integer" if kind is Integral else "a number"
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    try:
        is_in_range = is_number and 0 <= float(value) < np.inf
    except OverflowError:
        raise ValueError(f"{name} must be {word} in the range of float64, and is too large.") from None
    if not is_in_range:
        raise ValueError(f"{name} must be {word} of at least 0, got {value!r}.")
    if value > most:
        raise ValueError(f"{name} must be at most {most:g}, got {value!r}.")
