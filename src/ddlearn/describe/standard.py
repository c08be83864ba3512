r"""Features without their mean :math:`m_f`, divided by their standard deviation :math:`s_f`, and a constant.

.. math:: z_f = \frac{y_f - m_f}{s_f \sqrt{F (1 + \kappa^2)}}, \qquad z_0 = \frac{\kappa}{\sqrt{1 + \kappa^2}},

for the F features that vary; the others say nothing, and are 0.  The mean of :math:`\|z\|^2` is 1.  The constant
:math:`z_0` is there because centred samples lie on all sides of the origin: a pursuit takes y and -y for much the same,
and a dictionary has no offset.  With a constant, atoms are points among the samples, and not only directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from numbers import Real
from operator import add
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model.codes import Floats
from ..model.strategies import check_number
from ..parallel import Parts, split_rows, warn_user
from .base import Description, Rows, take_some
from .checks import measure_energies, take_known

_LARGEST_CONSTANT = 1e6  # beyond, nothing else would be left of a sample
# A feature whose deviation is at most so many rounding errors of its size is constant.
_ROUNDING_ERRORS = 100
# A feature has outliers if its deviation is so many times what nine of ten values deviate from the median.
_OUTLYING, _MOST_VALUES = 1e3, 0.9


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

    images = "lost"
    learned = ("mean", "deviation")

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

    @property
    def _norm(self) -> float:
        """The root of F (1 + kappa^2)."""
        n_varying = max(int(np.count_nonzero(self.deviation)), 1)
        return float(np.sqrt(n_varying * (1 + self.constant**2)))

    def apply(self, X: Floats) -> Floats:
        dtype, n_features = X.dtype, X.shape[1]
        with np.errstate(divide="ignore"):
            factor = np.where(self.deviation > 0, 1 / (self.deviation * self._norm), 0).astype(dtype)
        rows = np.empty((len(X), n_features + (self.constant > 0)), dtype)
        with np.errstate(invalid="ignore"):  # infinity times 0, which is reported later
            np.subtract(X, self.mean.astype(dtype), out=rows[:, :n_features])
            rows[:, :n_features] *= factor
        rows[:, n_features:] = self.constant / np.sqrt(1 + self.constant**2)
        return rows

    def invert(self, rows: Floats) -> Floats:
        return self.show(rows) + self.mean.astype(rows.dtype)

    def show(self, atoms: Floats) -> Floats:
        return atoms[:, : len(self.deviation)] * (self.deviation * self._norm).astype(atoms.dtype)

    def export(self) -> dict[str, Any]:
        spread = self.deviation * self._norm
        constant = self.apply(self.mean[None])[0, len(spread) :]
        return {"mean": self.mean, "deviation": self.deviation, "spread": spread, "constant": constant.tolist()}


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
            samples, is_known = take_known(rows.X[tile], rows.first_row + tile.start)
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


def warn_of_outliers(
    parts: Parts[Rows], n_samples: int, mean: NDArray[np.float64], deviation: NDArray[np.float64]
) -> None:
    """Warn of samples whose values decide the deviation of a feature, by which all others are divided."""
    X, _ = take_some(parts, n_samples)
    X = np.where(np.isnan(X).all(axis=0), mean.astype(X.dtype), X)
    median = np.nanmedian(X, axis=0)
    usual = np.nanquantile(np.abs(X - median), _MOST_VALUES, axis=0)
    has_outliers = (usual > 0) & (deviation > _OUTLYING * usual)
    if has_outliers.any():
        feature = int(has_outliers.argmax())
        found: list[tuple[float, float, int]] = parts.collect(_find_extreme, feature, float(median[feature]))
        _, value, row = max(found)
        warn_user(
            f"X is {value:.3g} in row {row}, feature {feature}, while nine of ten samples are within "
            f"{usual[feature]:.3g} of {median[feature]:.3g} there: described so, that feature is nearly the same "
            f"for all other samples ({np.count_nonzero(has_outliers)} features have such values). Correct or "
            "remove them, or use description='unit'.",
        )


def _find_extreme(rows: Rows, feature: int, median: float) -> tuple[float, float, int]:
    """Return by how much a value differs from the median most, the value, and its row."""
    distance = np.nan_to_num(np.abs(np.asarray(rows.X[:, feature], np.float64) - median), nan=-1.0)
    place = int(distance.argmax())
    return float(distance[place]), float(rows.X[place, feature]), rows.first_row + place
