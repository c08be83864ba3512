r"""Missing features of training samples, marked by NaN.

The objective sums over known features only.  Its minimum is also that of the whole sum over the missing features
:math:`y_f` as well, which are :math:`(D^T x)_f` at the minimum.  So updates that know nothing of missing features
minimise it, too, if samples are filled with their reconstructions after each round (block coordinate descent): none of
the steps raises the objective, and where they end, codes of filled samples are those of the known features.  Noise
variances count known features, :math:`M_i` in place of M.

The first fill, before there is a dictionary, is what a Gaussian model of the samples expects: with mean m and
covariance C, and noise of variance s, :math:`y = m + C (C + s I)^{-1} (y - m)` at missing features, repeated from
:math:`y = m` on.  In a dictionary of samples with poor fills, each of these samples would represent itself and keep its
fill.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..model.codes import Flags, Floats, RowCodes
from ..parallel import map_blocks, single_threaded_blas, split_rows
from .base import Description

# The Gaussian model is estimated from about this many samples, in so many rounds, with so much noise relative to the
# mean variance of features.
_MOST_LOOKED_AT = 1000
_N_ROUNDS = 10
_NOISE = 0.3


def describe_and_fill(description: Description, X: Floats) -> tuple[Floats, Flags | None]:
    """Return the rows of training samples, missing features filled, and which are known; None if all are."""
    rows = description.apply(X)
    is_known = ~np.isnan(rows)
    return (rows, None) if is_known.all() else (fill_first(rows, is_known), is_known)


def fill_with_codes(
    X: Floats, is_known: Flags, codes: RowCodes, dictionary: Floats, n_jobs: int | None = None
) -> Floats:
    """Return samples with their reconstructions in place of missing features."""
    filled = np.empty_like(X)

    def fill(rows: slice, _: None) -> None:
        filled[rows] = np.where(is_known[rows], X[rows], codes.rows(rows).to_csr(len(dictionary)) @ dictionary)

    map_blocks(fill, split_rows(len(X)), lambda: None, n_jobs=n_jobs)
    return filled


def fill_first(X: Floats, is_known: Flags) -> Floats:
    """Return samples with what the Gaussian model expects in place of missing features."""
    n_known = np.maximum(is_known.sum(axis=0), 1)
    mean = np.sum(X, axis=0, dtype=np.float64, where=is_known) / n_known
    some = slice(None, None, -(-len(X) // _MOST_LOOKED_AT))
    filled = np.where(is_known[some], X[some], mean)
    with single_threaded_blas():
        for _ in range(_N_ROUNDS):
            mean = filled.mean(axis=0)
            smooth = _make_smoother(filled - mean)
            filled = np.where(is_known[some], filled, mean + smooth(filled - mean))
        result = np.empty_like(X)
        for rows in split_rows(len(X)):
            filled = np.where(is_known[rows], X[rows], mean)
            for _ in range(_N_ROUNDS):
                filled = np.where(is_known[rows], filled, mean + smooth(filled - mean))
            result[rows] = filled
    return result


def _make_smoother(centred: NDArray[np.float64]) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """Return the product with C (C + s I)^-1, in terms of features or of samples, whichever are fewer."""
    n_samples, n_features = centred.shape
    noise = _NOISE * np.vecdot(centred, centred).sum() / n_features or 1.0
    if n_features <= n_samples:
        scatter = centred.T @ centred
        smoother = np.linalg.solve(scatter + noise * np.eye(n_features), scatter)
        return lambda rows: rows @ smoother
    solved = np.linalg.solve(centred @ centred.T + noise * np.eye(n_samples), centred)
    return lambda rows: rows @ centred.T @ solved
