r"""Samples divided by their norms, :math:`z = y / \|y\|`.

The norm of a sample with missing features is estimated from the known ones, by the share of the energy that these have
in training samples: :math:`\|y\|^2 \approx \sum_f y_f^2 / \sum_f e_f` over the known features f, where :math:`e_f` is
the mean of :math:`z_f^2` over the training samples of which feature f is known.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..model.codes import Floats
from ..parallel import Parts, split_rows
from .base import Description, Rows
from .checks import take_known

# Shares of energy and the norms of samples with missing features depend on each other, and settle in so many rounds.
_ENERGY_ROUNDS = 5


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

    learned = ("energy",)

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

    def apply(self, X: Floats) -> Floats:
        with np.errstate(invalid="ignore"):
            return X / self.measure_norms(X)

    def invert(self, rows: Floats) -> Floats:
        return rows

    def measure_norms(self, X: Floats) -> Floats:
        norms = _measure_norms(X)
        if not np.isnan(norms).any():
            return norms
        is_known = ~np.isnan(X)
        share = is_known.mean(axis=1) if self.energy is None else is_known @ self.energy
        share = np.where((share > 0) & ~is_known.all(axis=1), np.minimum(share, 1), 1)
        return _measure_norms(np.where(is_known, X, X.dtype.type(0))) / np.sqrt(share).astype(X.dtype)[:, None]

    def export(self) -> dict[str, Any]:
        return {"energy": np.asarray(self.energy)}


def _sum_shares(rows: Rows, energy: NDArray[np.float64] | None) -> tuple[NDArray[np.intp], NDArray[np.float64], int]:
    """Return of how many samples that are not zero each feature is known, its squares, and how many values are missing.

    The squares are those of samples divided by their norms, which are estimated by what is known of the energy so far.
    """
    n_features, n_missing = rows.X.shape[1], 0
    total, n_known = np.zeros(n_features), np.zeros(n_features, np.intp)
    for tile in split_rows(len(rows.X)):
        norms = UnitNorm(energy).measure_norms(np.asarray(rows.X[tile]))
        samples, is_known = take_known(rows.X[tile], rows.first_row + tile.start)
        described = samples / norms
        total += np.sum(np.square(described, dtype=np.float64), axis=0)
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
    return largest * np.where(norms == 0, 1, norms)
