"""A description makes of samples, in units of their own, rows of about unit norm, in which all mathematics is done.

NaN marks missing features, of samples and of rows.  Whatever is learned is learned from known features.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from ..model.codes import Flags, Floats
from ..model.strategies import Strategy
from ..parallel import Parts
from .checks import check_finite, measure_energies

# The choice of a description and the search for outliers look at about this many samples.
_MOST_LOOKED_AT = 1000


class Rows(Protocol):
    """Some consecutive samples before they are described, and their labels of -1, 0 (unknown) and +1."""

    @property
    def X(self) -> Floats: ...
    @property
    def labels(self) -> NDArray[np.int8]: ...
    @property
    def first_row(self) -> int: ...


def _take_some(rows: Rows, stride: int) -> tuple[Floats, NDArray[np.int8]]:
    places = slice(-rows.first_row % stride, None, stride)
    return np.array(rows.X[places]), rows.labels[places]


def take_some(parts: Parts[Rows], n_samples: int) -> tuple[Floats, NDArray[np.int8]]:
    """Return evenly spaced samples and their labels, wherever they are."""
    samples, labels = zip(*parts.collect(_take_some, -(-n_samples // _MOST_LOOKED_AT)), strict=True)
    return np.concatenate(samples), np.concatenate(labels)


class Description(Strategy, ABC):
    """What is coded of a sample, learned from training samples with or without labels.

    ``apply`` and ``invert`` carry NaN, which marks missing features, from samples to rows and back: arithmetic does it.

    Examples
    --------
    >>> from ddlearn import Description, UnitNorm
    >>> isinstance(UnitNorm(), Description)
    True
    """

    # Whether a described image can be distorted as the image can ("kept"), images are distorted before they are
    # described ("described"), or neither ("lost").
    images: Literal["kept", "described", "lost"] = "kept"
    needs_all_samples = False  # to learn, all at once; otherwise sums over parts of them do
    learned: tuple[str, ...] = ()  # the parameters that are learned, arrays with a number for each feature

    @abstractmethod
    def learn(self, parts: Parts[Rows]) -> Description:
        """Return the description with what it needs to know of the samples; raise if one has infinite values."""

    @abstractmethod
    def apply(self, X: Floats) -> Floats:
        """Return the rows that are coded, in the precision of the samples."""

    @abstractmethod
    def invert(self, rows: Floats) -> Floats:
        """Return the samples, divided by their norms, of which these are the rows."""

    def show(self, atoms: Floats) -> Floats:
        """Return what atoms add to a sample of norm 1, per unit of their coefficients."""
        return self.invert(atoms) - self.invert(np.zeros_like(atoms[:1]))

    def measure_norms(self, X: Floats) -> Floats:
        """Return by what number of its own each sample is divided, of shape (n_samples, 1)."""
        return np.ones((len(X), 1), X.dtype)

    def count_features(self, n_features: int) -> int:
        """Return the number of features of rows; raise if samples with this number cannot be described."""
        return self.apply(np.zeros((1, n_features))).shape[1]

    def export(self) -> dict[str, Any] | None:
        """Return the description as numbers, for other languages; None if these do not define it.

        A row is (sample - mean) / spread, feature by feature, and the numbers of ``constant`` follow.  With ``energy``,
        the share of each feature in squared norms, it is divided by the norm.  What is left out does nothing.
        A subclass that describes otherwise returns numbers of its own, or None.
        """
        return None


class Identity(Description):
    """Samples as they are.

    Examples
    --------
    >>> from ddlearn import DDLClassifier, Identity
    >>> DDLClassifier(description=Identity())
    DDLClassifier(description=Identity())
    """

    def learn(self, parts: Parts[Rows]) -> Identity:
        return self  # the first coding looks for samples that are not finite

    def apply(self, X: Floats) -> Floats:
        return X

    def invert(self, rows: Floats) -> Floats:
        return rows

    def count_features(self, n_features: int) -> int:
        return n_features

    def export(self) -> dict[str, Any]:
        return {}


IDENTITY = Identity()


def describe(
    description: Description, X: Floats, first_row: int = 0, *, remedy: str = "remove or impute such values"
) -> tuple[Floats, Floats]:
    """Return the rows of samples without missing features, and their squared norms; raise if one cannot be coded."""
    try:
        rows = description.apply(X)
    except ValueError:
        check_finite(X, first_row, remedy=remedy)  # most likely the cause
        raise
    return rows, measure_energies(rows, first_row, remedy=remedy, original=X)


def describe_known(
    description: Description, X: Floats, is_known: Flags, first_row: int = 0, *, remedy: str
) -> tuple[Floats, Flags]:
    """Return the rows of samples, with zeros in place of what is missing, and which features of rows are known.

    It raises if a sample cannot be coded; missing features of samples are 0.
    """
    check_finite(X, first_row, remedy=remedy)
    rows = description.apply(mark_missing(X, is_known))
    is_known = ~np.isnan(rows) & is_known.any(axis=1, keepdims=True)  # a constant is nothing that is known of a sample
    rows = np.where(is_known, rows, rows.dtype.type(0))
    measure_energies(rows, first_row, remedy=remedy, original=X)
    return rows, is_known


def mark_missing(X: Floats, is_known: Flags) -> Floats:
    """Return samples with NaN in place of missing features."""
    return X if is_known.all() else np.where(is_known, X, X.dtype.type(np.nan))
