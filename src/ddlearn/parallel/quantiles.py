"""Exact order statistics of numbers that lie in several places: medians and quantiles without bringing them together.

The bits of a floating-point number that is not negative, read as an integer, are in the order of the numbers.  So the
number of a given rank is found digit by digit: count how many numbers have each value of their first sixteen bits,
take the value in which the rank falls, and go on with the next sixteen bits of those.  A pass brings back counts,
65536 of them whatever the number of numbers, and two or four passes are all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .parts import Parts

Floats = NDArray[np.floating]

_DIGIT_BITS = 16


class _Digit(NamedTuple):
    """Which digit to count, of the numbers that begin like this."""

    shift: int  # bits below it
    prefixes: list[int]


def _count_digits(numbers: Floats, digit: _Digit) -> NDArray[np.int64]:
    bits = np.abs(numbers).view(f"u{numbers.dtype.itemsize}")
    counts = np.zeros((len(digit.prefixes), 2**_DIGIT_BITS), np.int64)
    above = 8 * numbers.dtype.itemsize - digit.shift - _DIGIT_BITS  # bits that are known already
    for count, prefix in zip(counts, digit.prefixes, strict=True):
        alike = bits[bits >> (digit.shift + _DIGIT_BITS) == prefix] if above else bits
        values = (alike >> digit.shift).astype(np.int64) & (2**_DIGIT_BITS - 1)
        count += np.bincount(values, minlength=2**_DIGIT_BITS)
    return counts


def select_ranks(parts: Parts[Floats], ranks: list[int], dtype: np.dtype) -> Floats:
    """Return the numbers of given ranks, counted from 0 for the smallest, among all numbers of all parts.

    Parameters
    ----------
    parts : Parts of ndarray
        Numbers, none negative and none NaN.
    ranks : list of int
        Each below the count of all numbers.
    dtype : numpy.dtype
        float32 or float64, that of the numbers.

    Returns
    -------
    ndarray of shape (n_ranks,)
        Some of the numbers.

    Examples
    --------
    >>> from ddlearn.parallel import LocalParts
    >>> parts = LocalParts([np.array([3.0, 1.0]), np.array([2.0])])
    >>> select_ranks(parts, [0, 1], np.dtype(float))
    array([1., 2.])
    """
    n_bits = 8 * dtype.itemsize
    prefixes, remaining = [0] * len(ranks), list(ranks)
    for shift in range(n_bits - _DIGIT_BITS, -1, -_DIGIT_BITS):
        different = sorted(set(prefixes))  # neighbours begin alike, as a rule
        counts = parts.add_up(_count_digits, _Digit(shift, different))
        for position, prefix in enumerate(prefixes):
            cumulative = np.cumsum(counts[different.index(prefix)])
            value = int(np.searchsorted(cumulative, remaining[position], side="right"))
            remaining[position] -= int(cumulative[value - 1]) if value else 0
            prefixes[position] = prefix << _DIGIT_BITS | value
    return np.array(prefixes, f"u{dtype.itemsize}").view(dtype)


def find_median(parts: Parts[Floats], n_numbers: int, dtype: np.dtype, n_left_out: int = 0) -> float:
    """Return the median of all numbers, or of all but so many of the smallest, as NumPy does.

    Parameters
    ----------
    parts : Parts of ndarray
        Numbers, none negative and none NaN.
    n_numbers : int
        How many there are, those left out included.
    dtype : numpy.dtype
        float32 or float64, that of the numbers.
    n_left_out : int, default=0
        So many of the smallest numbers do not count.

    Returns
    -------
    float
        The middle one, or the mean of the middle two.

    Examples
    --------
    >>> from ddlearn.parallel import LocalParts
    >>> find_median(LocalParts([np.array([3.0, 1.0]), np.array([2.0, 7.0])]), 4, np.dtype(float))
    2.5
    """
    ends = n_left_out + n_numbers - 1  # the first rank and the last
    middle = select_ranks(parts, [ends // 2, -(-ends // 2)], dtype)
    return float(np.mean(middle.astype(np.float64)))
