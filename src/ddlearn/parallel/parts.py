"""Rows in parts that may be in several places: the maps and sums of which a fit is made (Algorithm 2).

A part holds consecutive rows and what is known of them.  A fit never looks at parts itself: it sends a step to where
they are, with the arguments that all of them share, and gets back sums.  :class:`Parts` are in this process,
memory-mapped or not; those of ``dask.py`` are on the workers of a Dask cluster.  Sums are added in the same order
everywhere, so that the result depends on how the rows are cut, but not on where they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

Part = TypeVar("Part", covariant=True)
OtherPart = TypeVar("OtherPart")
Result = TypeVar("Result")
Floats = NDArray[np.floating]

# Rows of a part in this process: enough to make the overhead of a step negligible, few enough that its intermediate
# results, such as the scores of all classes, stay small.
PART_ROWS = 65536
# Number of summands that are added in one place, before the next level of the tree.
FAN_IN = 8
_DIGIT_BITS = 16


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
    """Return the sum of all results, in an order that depends only on their number."""
    while len(results) > 1:
        results = [join(results[start : start + FAN_IN]) for start in range(0, len(results), FAN_IN)]
    return results[0]


def _get(part: Any, name: str | None) -> Any:
    return part if name is None else getattr(part, name)


@dataclass(eq=False)
class Parts(Generic[Part]):
    """An ordered list of parts: in this process, one after another; in derived classes, elsewhere.

    Parts do not change: a step that changes rows returns new parts.  A step may use threads.

    >>> parts = Parts([[1, 2], [3]])
    >>> parts.add_up(lambda part, factor: factor * sum(part), 10)
    60
    """

    parts: Sequence[Part]

    is_local: ClassVar[bool] = True  # whether they are in this process

    def map(self, step: Callable[..., OtherPart], *shared: Any) -> Parts[OtherPart]:
        """Return the parts ``step(part, *shared)``."""
        return Parts([step(part, *shared) for part in self.parts])

    def map_each(self, step: Callable[..., OtherPart], arguments: Sequence[Any]) -> Parts[OtherPart]:
        """Return the parts ``step(part, argument)``, with one argument per part."""
        return Parts([step(part, argument) for part, argument in zip(self.parts, arguments, strict=True)])

    def add_up(self, measure: Callable[..., Result], *shared: Any) -> Result:
        """Return the sum of ``measure(part, *shared)``: numbers, arrays, tuples, or objects that define ``+``."""
        groups = [self.parts[start : start + FAN_IN] for start in range(0, len(self.parts), FAN_IN)]
        # Added one by one, so that only a few summands are in memory at once.
        sums = [reduce(add, (measure(part, *shared) for part in group)) for group in groups]
        return sums[0] if len(sums) == 1 else add_in_tree(sums)

    def map_and_add_up(
        self, step: Callable[..., tuple[OtherPart, Result]], *shared: Any
    ) -> tuple[Parts[OtherPart], Result]:
        """Return the new parts and the sum, for a step that returns a part and a summand."""
        pairs = [step(part, *shared) for part in self.parts]
        parts, results = zip(*pairs, strict=True)
        return Parts(parts), results[0] if len(results) == 1 else add_in_tree(results)

    def collect(self, look: Callable[..., Result], *shared: Any) -> list[Result]:
        """Return ``look(part, *shared)`` of each part, all of them in this process."""
        return [look(part, *shared) for part in self.parts]

    def gather(self, name: str | None = None) -> list[Any]:
        """Return the attribute ``name`` of each part, or the parts themselves, in this process."""
        return self.collect(_get, name)

    def settle(self) -> Parts[Part]:
        """Return these parts, dataclasses, as those of which later steps change only some fields."""
        return self

    def fits_locally(self, n_bytes: int) -> bool:
        """Whether parts of this size are small enough to be gathered in this process."""
        return True

    def release(self) -> None:
        """Free these parts and all that came from them, wherever they are."""


def _count_digits(numbers: Floats, shift: int, prefixes: list[int]) -> NDArray[np.int64]:
    """Count the values of the sixteen bits above the lowest ``shift``, of the numbers that start with each prefix."""
    bits = np.abs(numbers).view(f"u{numbers.dtype.itemsize}")
    counts = np.zeros((len(prefixes), 2**_DIGIT_BITS), np.int64)
    n_known_bits = 8 * numbers.dtype.itemsize - shift - _DIGIT_BITS
    for count, prefix in zip(counts, prefixes, strict=True):
        alike = bits[bits >> (shift + _DIGIT_BITS) == prefix] if n_known_bits else bits
        values = (alike >> shift).astype(np.int64) & (2**_DIGIT_BITS - 1)
        count += np.bincount(values, minlength=2**_DIGIT_BITS)
    return counts


def select_ranks(parts: Parts[Floats], ranks: list[int], dtype: np.dtype) -> Floats:
    """Return the numbers of given ranks, counted from 0 for the smallest, among all numbers (none negative or NaN).

    The bits of a nonnegative floating-point number, read as an integer, are in the order of the numbers.  So the number
    of a given rank is found digit by digit: count how many numbers have each value of their first sixteen bits, take
    the value in which the rank falls, and continue with the next sixteen bits of those.  A pass brings back 65536
    counts, however many numbers there are; two passes are enough for float32, four for float64.

    >>> parts = Parts([np.array([3.0, 1.0]), np.array([2.0])])
    >>> select_ranks(parts, [0, 1], np.dtype(float))
    array([1., 2.])
    """
    n_bits = 8 * dtype.itemsize
    prefixes, remaining = [0] * len(ranks), list(ranks)
    for shift in range(n_bits - _DIGIT_BITS, -1, -_DIGIT_BITS):
        different = sorted(set(prefixes))  # neighbouring ranks often share a prefix
        counts = parts.add_up(_count_digits, shift, different)
        for position, prefix in enumerate(prefixes):
            cumulative = np.cumsum(counts[different.index(prefix)])
            value = int(np.searchsorted(cumulative, remaining[position], side="right"))
            remaining[position] -= int(cumulative[value - 1]) if value else 0
            prefixes[position] = prefix << _DIGIT_BITS | value
    return np.array(prefixes, f"u{dtype.itemsize}").view(dtype)


def _find_largest(numbers: Floats) -> float:
    return float(numbers.max())


def _count_up_to(numbers: Floats, limit: float) -> int:
    return int(np.count_nonzero(numbers <= limit))


def find_median(parts: Parts[Floats], n_numbers: int, dtype: np.dtype, smallest_share: float | None = None) -> float:
    """Return the median of ``n_numbers`` numbers in all parts, as NumPy does.

    Numbers that are at most ``smallest_share`` of the largest do not count; if none is left, the result is NaN.

    >>> find_median(Parts([np.array([3.0, 1.0]), np.array([2.0, 7.0])]), 4, np.dtype(float))
    2.5
    """
    n_left_out = 0
    if smallest_share is not None:
        n_left_out = parts.add_up(_count_up_to, smallest_share * max(parts.collect(_find_largest)))
        if n_left_out == n_numbers:
            return float("nan")
    ends = n_left_out + n_numbers - 1  # the first rank plus the last
    middle = select_ranks(parts, [ends // 2, -(-ends // 2)], dtype)
    return float(np.mean(middle.astype(np.float64)))
