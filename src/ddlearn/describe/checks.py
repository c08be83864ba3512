"""What a sample must be before it is coded: finite, within the range of its dtype, an image of the stated shape."""

from __future__ import annotations

from functools import cache
from numbers import Integral
from typing import Any

import numpy as np

from ..model.codes import Floats


def measure_energies(
    X: Floats,
    first_row: int,
    *,
    name: str = "X",
    remedy: str = "remove or impute such values",
    original: Floats | None = None,
) -> Floats:
    """Return the squared norm of each row; raise an error if it is not finite or out of the range of the dtype.

    An error names the value in the original rows, if these are scaled ones.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        energies = np.vecdot(X, X)
    smallest, largest = find_range_of_squares(X.dtype)
    if energies.min() >= smallest and energies.max() <= largest:
        return energies
    check_finite(X if original is None else original, first_row, name=name, remedy=remedy)
    for position in np.flatnonzero(~((energies >= smallest) & (energies <= largest))):
        row = X[position]
        if row.any():
            raise ValueError(
                f"Row {first_row + position} of {name} has values as large as {np.abs(row).max():.3g}, whose squares "
                f"are out of the range of {X.dtype}: rescale the data."
            )
    return energies


@cache
def find_range_of_squares(dtype: np.dtype) -> tuple[Any, Any]:
    """Return the smallest and largest squared norms of samples that can be coded in a precision."""
    limits = np.finfo(dtype)
    # Below the smallest normal number over eps, products silently lose digits.
    return limits.tiny / limits.eps, limits.max * limits.eps


def check_finite(X: Floats, first_row: int, *, name: str = "X", remedy: str = "remove or impute such values") -> None:
    """Raise an error that names the first value that is not finite."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):  # which takes less time than to look at each value
            return
    rows, features = np.nonzero(~np.isfinite(X))
    if rows.size:
        word = "NaN" if np.isnan(X[rows[0], features[0]]) else "infinity"
        raise ValueError(f"{name} contains {word} in row {first_row + rows[0]}, feature {features[0]}: {remedy}.")


def check_image_shape(image_shape: tuple[int, int], n_features: int) -> None:
    """Raise an error unless rows with this number of features can be images of this shape."""
    is_pair = isinstance(image_shape, tuple | list) and len(image_shape) == 2
    if not is_pair or not all(
        isinstance(side, Integral) and type(side) is not bool and side > 0 for side in image_shape
    ):
        raise ValueError(f"image_shape must be a pair of positive integers (height, width), got {image_shape!r}.")
    height, width = image_shape
    if height * width != n_features:
        raise ValueError(
            f"image_shape={tuple(image_shape)} has {height} x {width} = {height * width} pixels, but X has "
            f"{n_features} features: pass the height and width of the images in X."
        )
