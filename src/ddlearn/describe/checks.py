"""What samples must be: rows of numbers, finite or missing, in the range of their dtype, images of the stated shape."""

from __future__ import annotations

from functools import cache
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model.codes import Flags, Floats
from ..parallel import split_rows

_REMEDY_FOR_MISSING = (
    'leave missing values out by robustness=Robustness(missing="mask") (on the command line --set '
    "robustness.missing=mask), or put an imputer before the classifier in a pipeline"
)


def check_form(X: Any) -> None:
    """Raise if samples are images, with an axis for rows and one for columns, or have a mask, which would be lost."""
    if isinstance(X, np.ma.MaskedArray):
        raise ValueError(
            "X is a masked array, whose mask would be ignored: pass X.filled(np.nan) and set "
            "robustness=Robustness(missing='mask'), or X.data if nothing is masked."
        )
    shape = getattr(X, "shape", ())
    if len(shape) in (3, 4):
        images = f" and image_shape={tuple(shape[1:])}" if len(shape) == 3 else ""
        raise ValueError(
            f"Found array with dim {len(shape)}, of shape {tuple(shape)}, but a sample is one row of numbers: for "
            f"images use X.reshape(len(X), -1){images}."
        )


def measure_energies(
    X: Floats,
    first_row: int,
    *,
    name: str = "X",
    remedy: str = "remove or impute such values",
    original: Floats | None = None,
) -> Floats:
    """Return the squared norm of each row; raise an error if it is not finite or out of the range of the dtype.

    An error names the value in the original rows, if these are described ones.
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


def has_missing(X: Floats) -> bool:
    """Whether a feature of any sample is NaN."""
    return any(np.isnan(X[rows]).any() for rows in split_rows(len(X)))


def check_training(X: Floats, takes_missing: bool, names: NDArray | None = None) -> None:
    """Raise unless training samples are finite, except for missing features where these are taken."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(X.sum()):
            return
    for rows in split_rows(len(X)):
        take_known(X[rows], rows.start)
    is_missing = np.isnan(X)
    if not is_missing.any():
        return
    if not takes_missing:
        row, feature = np.argwhere(is_missing)[0]
        raise ValueError(f"X contains NaN in row {row}, {_name(feature, names)}: {_REMEDY_FOR_MISSING}.")
    if is_missing.all(axis=1).any():
        row = is_missing.all(axis=1).argmax()
        raise ValueError(f"X contains nothing but NaN in row {row}: leave this sample out.")
    if is_missing.all(axis=0).any():
        feature = is_missing.all(axis=0).argmax()
        raise ValueError(f"X contains nothing but NaN in {_name(feature, names)}: leave this feature out.")


def _name(feature: np.intp, names: NDArray | None) -> str:
    return f"feature {feature}" if names is None else f"feature {feature} ({names[feature]!r})"


def take_known(X: Floats, first_row: int) -> tuple[Floats, Flags]:
    """Return samples with zeros in place of missing features, and which are known; raise if one is infinite."""
    samples = np.asarray(X)
    is_known = ~np.isnan(samples)
    samples = samples if is_known.all() else np.where(is_known, samples, samples.dtype.type(0))
    check_finite(samples, first_row)
    return samples, is_known


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
