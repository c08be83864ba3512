"""Rows in parts that may lie in several places: the maps and the sums that a fit is made of (Algorithm 2).

A part is whatever is known of some rows.  A fit never looks at parts itself: it sends a step to where they are, with
what all of them need, and gets back sums.  :class:`LocalParts` are in this process, memory-mapped or not; those of
``cluster.py`` are on the workers of a Dask cluster.  Sums are added in the same order everywhere, so that the place
makes no difference to the result, only the way the rows are cut.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Generic, TypeVar

Part = TypeVar("Part", covariant=True)
OtherPart = TypeVar("OtherPart")
Result = TypeVar("Result")

# Rows of a part in this process: enough to make a step's overhead nothing, few enough that what a step needs beside
# the rows themselves, such as scores for each class, stays small.
PART_ROWS = 65536
# So many sums are added in one place, before the next level of the tree.
FAN_IN = 8


def add(one: Any, other: Any) -> Any:
    """Return the sum of two results; tuples are added entry by entry."""
    if isinstance(one, tuple):
        entries = [add(*pair) for pair in zip(one, other, strict=True)]
        return type(one)(*entries) if hasattr(one, "_fields") else tuple(entries)
    return one + other


def fold(results: Sequence[Any]) -> Any:
    """Return the sum of some results, from the first to the last."""
    return reduce(add, results)


def add_in_tree(results: Sequence[Result], join: Callable[[Sequence[Result]], Result] = fold) -> Result:
    """Return the sum of all results, in an order that depends on their number alone."""
    while len(results) > 1:
        results = [join(results[start : start + FAN_IN]) for start in range(0, len(results), FAN_IN)]
    return results[0]


def _itself(part):
    return part


class Parts(ABC, Generic[Part]):
    """Parts in an order.  They do not change: a step that changes rows returns new parts."""

    @abstractmethod
    def map(self, step: Callable[..., OtherPart], *shared: Any) -> Parts[OtherPart]:
        """Return the parts that ``step(part, *shared)`` makes."""

    @abstractmethod
    def map_each(self, step: Callable[..., OtherPart], arguments: Sequence[Any]) -> Parts[OtherPart]:
        """Return the parts that ``step(part, argument)`` makes, with an argument of its own for each."""

    @abstractmethod
    def add_up(self, measure: Callable[..., Result], *shared: Any) -> Result:
        """Return the sum of what ``measure(part, *shared)`` returns: numbers, arrays, tuples, or what defines ``+``."""

    @abstractmethod
    def map_and_add_up(
        self, step: Callable[..., tuple[OtherPart, Result]], *shared: Any
    ) -> tuple[Parts[OtherPart], Result]:
        """Do both, for a step that returns a part and a summand."""

    @abstractmethod
    def collect(self, look: Callable[..., Result], *shared: Any) -> list[Result]:
        """Return what ``look(part, *shared)`` returns for each part; all of it comes to the caller."""

    def gather(self, name: str | None = None) -> list[Any]:
        """Return the parts, or their attributes of a name."""
        from operator import attrgetter

        return self.collect(attrgetter(name) if name else _itself)

    def release(self) -> None:
        """Let go of these parts and all that came from them, wherever they are."""


class LocalParts(Parts[Part]):
    """Parts in this process, one after another; a step may use threads.

    Parameters
    ----------
    parts : sequence
        The parts.

    Examples
    --------
    >>> parts = LocalParts([[1, 2], [3]])
    >>> parts.add_up(lambda part, factor: factor * sum(part), 10)
    60
    """

    def __init__(self, parts: Sequence[Part]):
        self.parts = list(parts)

    def map(self, step: Callable[..., OtherPart], *shared: Any) -> LocalParts[OtherPart]:
        return LocalParts([step(part, *shared) for part in self.parts])

    def map_each(self, step: Callable[..., OtherPart], arguments: Sequence[Any]) -> LocalParts[OtherPart]:
        return LocalParts([step(part, argument) for part, argument in zip(self.parts, arguments, strict=True)])

    def add_up(self, measure: Callable[..., Result], *shared: Any) -> Result:
        groups = [self.parts[start : start + FAN_IN] for start in range(0, len(self.parts), FAN_IN)]
        # Added as they come, so that the summands of a few parts at most are there at once.
        return add_in_tree([reduce(add, (measure(part, *shared) for part in group)) for group in groups])

    def map_and_add_up(
        self, step: Callable[..., tuple[OtherPart, Result]], *shared: Any
    ) -> tuple[LocalParts[OtherPart], Result]:
        pairs = [step(part, *shared) for part in self.parts]
        return LocalParts([part for part, _ in pairs]), add_in_tree([result for _, result in pairs])

    def collect(self, look: Callable[..., Result], *shared: Any) -> list[Result]:
        return [look(part, *shared) for part in self.parts]
