"""A description makes of samples, in units of their own, rows of about unit norm, in which all mathematics is done.

Whatever is learned from training samples is learned from their known features; NaN marks the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..model.codes import Flags, Floats
from ..model.strategies import Strategy
from ..parallel import Parts
from .checks import check_finite
from .missing import fill_first, has_missing

# The choice of a description and the search for outliers look at about this many samples.
_MOST_LOOKED_AT = 1000


class Rows(Protocol):
    """Some consecutive samples before they are scaled, and their labels of -1, 0 (unknown) and +1."""

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


def take_known(rows: Rows, tile: slice) -> tuple[Floats, Flags]:
    """Return samples with zeros in place of missing features, and which features are known."""
    samples = np.asarray(rows.X[tile])
    is_known = ~np.isnan(samples)
    samples = samples if is_known.all() else np.where(is_known, samples, samples.dtype.type(0))
    check_finite(samples, rows.first_row + tile.start)
    return samples, is_known


class Description(Strategy, ABC):
    """How samples are scaled before they are coded, learned from training samples with or without labels.

    Examples
    --------
    >>> from ddlearn import Description, UnitNorm
    >>> isinstance(UnitNorm(), Description)
    True
    """

    keeps_images = True  # whether a scaled image can be distorted as the image can
    describes_images = False  # whether it is applied to images, which are distorted before
    has_sizes = False  # whether each sample is divided by a size of its own
    sees_all = False  # whether it must see all samples at once to learn

    def of_images(self, image_shape: tuple[int, int] | None) -> Description:
        """Return the description for images of a shape, None if samples are not images; raise if it needs such."""
        return self

    @abstractmethod
    def learn(self, parts: Parts[Rows]) -> Description:
        """Return the description with what it needs to know of the samples; raise if one has infinite values."""

    def warn_of_outliers(self, parts: Parts[Rows], n_samples: int) -> None:
        """Warn of samples by which all others are scaled."""

    def count_features(self, n_features: int) -> int:
        """Return the number of features of scaled samples."""
        return n_features

    def measure(self, X: Floats, is_known: Flags | None = None) -> Floats:
        """Return the size of each sample, of shape (n_samples, 1), by which it is divided; missing features are 0."""
        return np.ones((len(X), 1), X.dtype)

    @abstractmethod
    def apply(self, X: Floats, sizes: Floats | None = None) -> Floats:
        """Return scaled samples, in the precision of the samples."""

    def apply_to_known(self, X: Floats, is_known: Flags, sizes: Floats) -> tuple[Floats, Flags]:
        """Return scaled samples with zeros in place of missing features, and which scaled features are known."""
        return self.apply(X, sizes), is_known

    def apply_and_fill(self, X: Floats) -> tuple[Floats, Flags | None]:
        """Return scaled training samples with missing features filled, and which are known; None if all are."""
        if not has_missing(X):
            return self.apply(X), None
        is_known = ~np.isnan(X)
        samples = np.where(is_known, X, X.dtype.type(0))
        scaled, is_known = self.apply_to_known(samples, is_known, self.measure(samples, is_known))
        return fill_first(scaled, is_known), is_known

    def to_features(self, flags: Flags, n_features: int) -> Flags:
        """Return which features of samples are flagged, given which features of scaled samples are."""
        return flags[:, :n_features]  # without the constant that description may append

    @abstractmethod
    def invert(self, scaled: Floats, sizes: Floats | None = None) -> Floats:
        """Return the samples of which these are the scaled ones; without sizes they have a size of 1."""

    def show(self, atoms: Floats) -> Floats:
        """Return what atoms add to a sample of size 1, per unit of their coefficients."""
        return self.invert(atoms) - self.invert(np.zeros_like(atoms[:1]))


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

    def apply(self, X: Floats, sizes: Floats | None = None) -> Floats:
        return X

    def invert(self, scaled: Floats, sizes: Floats | None = None) -> Floats:
        return scaled


IDENTITY = Identity()
