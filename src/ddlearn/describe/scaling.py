r"""Description: samples in units of their own become samples of about unit norm, in which all mathematics is done.

"unit" divides a sample by its norm, :math:`z = y / \|y\|`.  Of a sample with missing features the norm is not known.
It is estimated from the known ones, by the share of the energy that these have in training samples:
:math:`\|y\|^2 \approx \sum_f y_f^2 / \sum_f e_f` over the known features f, where :math:`e_f` is the mean of
:math:`z_f^2` over the training samples of which feature f is known.  Whatever is learned from training samples is
learned from their known features; NaN marks the others.

"standard" takes mean :math:`m_f` and standard deviation :math:`s_f` of each feature out of the samples,

.. math:: z_f = \frac{y_f - m_f}{s_f \sqrt{F (1 + \kappa^2)}}, \qquad z_0 = \frac{\kappa}{\sqrt{1 + \kappa^2}},

for the F features that vary; the others say nothing, and are 0.  The mean of :math:`\|z\|^2` is 1.  The constant
:math:`z_0` is there because centred samples lie on all sides of the origin: a pursuit takes y and -y for much the same,
and a dictionary has no offset.  With a constant, atoms are points among the samples, and not only directions.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import reduce
from numbers import Real
from operator import add
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from ..model.codes import Flags, Floats
from ..model.losses import check_number
from ..parallel import Parts, split_rows
from .checks import check_finite, measure_energies
from .missing import fill_first, has_missing

_LARGEST_CONSTANT = 1e6  # beyond, nothing else would be left of a sample
# A feature whose deviation is at most so many rounding errors of its size is constant.
_ROUNDING_ERRORS = 100
# A feature has outliers if its deviation is so many times what nine of ten values deviate from the median.
_OUTLYING, _MOST_VALUES = 1e3, 0.9
# The choice of a description and the search for outliers look at about this many samples.
_MOST_LOOKED_AT = 1000
# Shares of energy and the norms of samples with missing features depend on each other, and settle in so many rounds.
_ENERGY_ROUNDS = 5


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


class Description(BaseEstimator, ABC):
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

    def check_parameters(self) -> None:
        """Raise an error if a parameter is invalid."""

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


class Unscaled(Description):
    """Samples as they are.

    Examples
    --------
    >>> from ddlearn import DDLClassifier, Unscaled
    >>> DDLClassifier(description=Unscaled())
    DDLClassifier(description=Unscaled())
    """

    def learn(self, parts: Parts[Rows]) -> Unscaled:
        return self  # the first coding looks for samples that are not finite

    def apply(self, X: Floats, sizes: Floats | None = None) -> Floats:
        return X

    def invert(self, scaled: Floats, sizes: Floats | None = None) -> Floats:
        return scaled


def _take_known(rows: Rows, tile: slice) -> tuple[Floats, Flags]:
    """Return samples with zeros in place of missing features, and which features are known."""
    samples = np.asarray(rows.X[tile])
    is_known = ~np.isnan(samples)
    samples = samples if is_known.all() else np.where(is_known, samples, samples.dtype.type(0))
    check_finite(samples, rows.first_row + tile.start)
    return samples, is_known


def _sum_shares(rows: Rows, energy: NDArray[np.float64] | None) -> tuple[NDArray[np.intp], NDArray[np.float64], int]:
    """Return of how many samples that are not zero each feature is known, its squares, and how many values are missing.

    The squares are those after description to unit norm, by what is known of the energy so far.
    """
    n_features, n_missing = rows.X.shape[1], 0
    total, n_known, description = np.zeros(n_features), np.zeros(n_features, np.intp), UnitNorm(energy)
    for tile in split_rows(len(rows.X)):
        samples, is_known = _take_known(rows, tile)
        scaled = samples / description.measure(samples, is_known)
        total += np.sum(np.square(scaled, dtype=np.float64), axis=0)
        n_known += is_known[samples.any(axis=1)].sum(axis=0)
        n_missing += int(np.count_nonzero(~is_known))
    return n_known, total, n_missing


def _measure_norms(X: Floats) -> Floats:
    """Return the norm of each row, 1 for a row of zeros, without overflow."""
    largest = np.abs(X).max(axis=1, keepdims=True)
    largest = np.where(largest > 0, largest, 1)
    with np.errstate(under="ignore", invalid="ignore"):  # what is not finite stays so, and is reported later
        relative = X / largest
        norms = np.sqrt(np.vecdot(relative, relative))[:, None]
    return largest * np.where(norms > 0, norms, 1)


class UnitNorm(Description):
    """Divides each sample by its norm.

    For samples whose values have one unit and whose strength says nothing, such as images and spectra.

    Parameters
    ----------
    energy : ndarray of shape (n_features,) or None, default=None
        The share of each feature in the squared norm of a sample, from which the norm of a sample with missing features
        is estimated; by default learned from the training samples.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import UnitNorm
    >>> UnitNorm().apply(np.array([[3.0, 4.0]]))
    array([[0.6, 0.8]])
    """

    has_sizes = True

    def __init__(self, energy: NDArray[np.float64] | None = None):
        self.energy = energy

    def learn(self, parts: Parts[Rows]) -> UnitNorm:
        if self.energy is not None:
            return self
        energy = None
        for _ in range(_ENERGY_ROUNDS):
            n_known, total, n_missing = parts.add_up(_sum_shares, energy)
            energy = total / np.maximum(n_known, 1) if n_known.any() else np.full(len(total), 1 / len(total))
            if not n_missing:
                break
            energy /= energy.sum() or 1.0
        return UnitNorm(energy)

    def measure(self, X: Floats, is_known: Flags | None = None) -> Floats:
        norms = _measure_norms(X)
        if is_known is None or is_known.all():
            return norms
        share = is_known.mean(axis=1) if self.energy is None else is_known @ self.energy
        share = np.where((share > 0) & ~is_known.all(axis=1), np.minimum(share, 1), 1)
        return norms / np.sqrt(share).astype(X.dtype)[:, None]

    def apply(self, X: Floats, sizes: Floats | None = None) -> Floats:
        with np.errstate(invalid="ignore"):
            return X / (_measure_norms(X) if sizes is None else sizes)

    def invert(self, scaled: Floats, sizes: Floats | None = None) -> Floats:
        return scaled if sizes is None else scaled * sizes


@dataclass(frozen=True)
class _Moments:
    """Number, mean and sum of squared deviations of known features; the sum of two is that of all their samples.

    Added as by Chan, Golub and LeVeque (1979), which loses no digits where the mean is large.
    """

    n_known: NDArray[np.intp]
    mean: NDArray[np.float64]
    deviations: NDArray[np.float64]
    eps: float  # of the precision of the samples

    @classmethod
    def of(cls, rows: Rows) -> _Moments:
        def measure(tile: slice) -> _Moments:
            samples, is_known = _take_known(rows, tile)
            measure_energies(samples, rows.first_row + tile.start)  # raises if squares are out of range
            n_known = is_known.sum(axis=0)
            mean = samples.sum(axis=0, dtype=np.float64) / np.maximum(n_known, 1)
            deviations = np.sum(np.square(np.where(is_known, samples - mean, 0)), axis=0)
            return cls(n_known, mean, deviations, float(np.finfo(samples.dtype).eps))

        return reduce(add, map(measure, split_rows(len(rows.X))))

    def __add__(self, other: _Moments) -> _Moments:
        n_known = self.n_known + other.n_known
        shift, share = other.mean - self.mean, other.n_known / np.maximum(n_known, 1)
        deviations = self.deviations + other.deviations + np.square(shift) * (self.n_known * share)
        return _Moments(n_known, self.mean + share * shift, deviations, self.eps)


class Standard(Description):
    r"""Subtracts the mean of each feature, divides by its standard deviation, and appends a constant.

    For tables, whose columns have units of their own.

    Parameters
    ----------
    constant : float, default=1.0
        The constant, relative to the root mean square of the norm of the other features; 0 for none.
    mean, deviation : ndarray of shape (n_features,) or None, default=None
        Mean and standard deviation of the features, 0 for features that do not vary; by default learned from the
        training samples.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import Standard
    >>> description = Standard(mean=np.array([10.0]), deviation=np.array([2.0]))
    >>> description.apply(np.array([[10.0], [12.0]])) * np.sqrt(2)
    array([[0., 1.],
           [1., 1.]])
    """

    keeps_images = False

    def __init__(
        self,
        constant: float = 1.0,
        *,
        mean: NDArray[np.float64] | None = None,
        deviation: NDArray[np.float64] | None = None,
    ):
        self.constant = constant
        self.mean: Any = mean
        self.deviation: Any = deviation

    def check_parameters(self) -> None:
        check_number("constant", self.constant, Real, most=_LARGEST_CONSTANT)

    def learn(self, parts: Parts[Rows]) -> Standard:
        if self.mean is not None and self.deviation is not None:
            return self
        moments = parts.add_up(_Moments.of)
        if moments.n_known.max() == 1:
            raise ValueError(
                "description='standard' cannot be learned from 1 sample: begin with more, or use description='unit'."
            )
        deviation = np.sqrt(moments.deviations / np.maximum(moments.n_known, 1))
        deviation[deviation <= _ROUNDING_ERRORS * moments.eps * np.hypot(moments.mean, deviation)] = 0
        return Standard(self.constant, mean=moments.mean, deviation=deviation)

    def warn_of_outliers(self, parts: Parts[Rows], n_samples: int) -> None:
        X, _ = take_some(parts, n_samples)
        X = np.where(np.isnan(X).all(axis=0), self.mean.astype(X.dtype), X)
        median = np.nanmedian(X, axis=0)
        usual = np.nanquantile(np.abs(X - median), _MOST_VALUES, axis=0)
        has_outliers = (usual > 0) & (self.deviation > _OUTLYING * usual)
        if has_outliers.any():
            feature = int(has_outliers.argmax())
            found: list[tuple[float, float, int]] = parts.collect(_find_extreme, feature, float(median[feature]))
            _, value, row = max(found)
            warnings.warn(
                f"X is {value:.3g} in row {row}, feature {feature}, while nine of ten samples are within "
                f"{usual[feature]:.3g} of {median[feature]:.3g} there: described so, that feature is nearly the same "
                f"for all other samples ({np.count_nonzero(has_outliers)} features have such values). Correct or "
                "remove them, or use description='unit'.",
                UserWarning,
                stacklevel=5,
            )

    def count_features(self, n_features: int) -> int:
        return n_features + (self.constant > 0)

    @property
    def _norm(self) -> float:
        """The root of F (1 + kappa^2)."""
        n_varying = max(int(np.count_nonzero(self.deviation)), 1)
        return float(np.sqrt(n_varying * (1 + self.constant**2)))

    def apply(self, X: Floats, sizes: Floats | None = None) -> Floats:
        dtype, n_features = X.dtype, X.shape[1]
        with np.errstate(divide="ignore"):
            factor = np.where(self.deviation > 0, 1 / (self.deviation * self._norm), 0).astype(dtype)
        scaled = np.empty((len(X), self.count_features(n_features)), dtype)
        with np.errstate(invalid="ignore"):  # infinity times 0, which is reported later
            np.subtract(X, self.mean.astype(dtype), out=scaled[:, :n_features])
            scaled[:, :n_features] *= factor
        scaled[:, n_features:] = self.constant / np.sqrt(1 + self.constant**2)
        return scaled

    def apply_to_known(self, X: Floats, is_known: Flags, sizes: Floats) -> tuple[Floats, Flags]:
        scaled, known = self.apply(X), np.ones((len(X), self.count_features(X.shape[1])), bool)
        known[:, : X.shape[1]] = is_known
        return np.where(known, scaled, scaled.dtype.type(0)), known

    def invert(self, scaled: Floats, sizes: Floats | None = None) -> Floats:
        return self.show(scaled) + self.mean.astype(scaled.dtype)

    def show(self, atoms: Floats) -> Floats:
        return atoms[:, : len(self.deviation)] * (self.deviation * self._norm).astype(atoms.dtype)


class Transformed(Description):
    """Scales by a transformer of scikit-learn, which is fitted to the training samples.

    Where it centres the samples, nothing is put in place of the origin, as :class:`Standard` does.  Model files hold
    scikit-learn's scalers, such as ``MinMaxScaler``, and no other transformers.

    Parameters
    ----------
    transformer : object
        With ``fit``, ``transform`` and ``inverse_transform``.

    Examples
    --------
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from ddlearn import DDLClassifier
    >>> model = DDLClassifier(description=MinMaxScaler(), random_state=0)
    >>> model = model.fit([[0, 1], [2, 3], [9, 1], [9, 2]], [0, 0, 1, 1])
    >>> model.description_
    Transformed(transformer=MinMaxScaler())
    """

    sees_all = True

    def __init__(self, transformer: Any):
        self.transformer = transformer

    def check_parameters(self) -> None:
        missing = [name for name in ("fit", "transform", "inverse_transform") if not hasattr(self.transformer, name)]
        if missing:
            raise TypeError(
                f"description={self.transformer!r} has no {' and no '.join(missing)}: use 'auto', 'unit', 'standard', "
                "None, or a transformer that can be inverted, so that atoms and reconstructions can be shown."
            )

    def learn(self, parts: Parts[Rows]) -> Transformed:
        X = np.concatenate([rows.X for rows in parts.gather()])
        return Transformed(clone(self.transformer).fit(X))  # which takes NaN, or says that it does not

    def count_features(self, n_features: int) -> int:
        return self.apply(np.zeros((1, n_features))).shape[1]

    def apply(self, X: Floats, sizes: Floats | None = None) -> Floats:
        return np.ascontiguousarray(self.transformer.transform(X), dtype=X.dtype)

    def apply_to_known(self, X: Floats, is_known: Flags, sizes: Floats) -> tuple[Floats, Flags]:
        scaled = self.apply(X)
        if scaled.shape != is_known.shape:
            if not is_known.all():
                raise ValueError(
                    f"{self.transformer!r} makes {scaled.shape[1]} features of {X.shape[1]}, so that none is known if "
                    "one is missing: impute missing features, or use description='standard'."
                )
            return scaled, np.ones(scaled.shape, bool)
        return np.where(is_known, scaled, scaled.dtype.type(0)), is_known

    def invert(self, scaled: Floats, sizes: Floats | None = None) -> Floats:
        return np.ascontiguousarray(self.transformer.inverse_transform(scaled), dtype=scaled.dtype)


def _find_extreme(rows: Rows, feature: int, median: float) -> tuple[float, float, int]:
    """Return by how much a value differs from the median most, the value, and its row."""
    distance = np.nan_to_num(np.abs(np.asarray(rows.X[:, feature], np.float64) - median), nan=-1.0)
    place = int(distance.argmax())
    return float(distance[place]), float(rows.X[place, feature]), rows.first_row + place
