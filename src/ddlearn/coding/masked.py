r"""Sparse coding when not every feature counts, and when a sample may move while it is coded.

For a sample :math:`y` of which only some features are kept (:math:`P` sets the others to zero), with tangents
:math:`J` along which it may move by :math:`\delta` (``alignment.py``; without alignment there are none),

.. math::
    \min_{x, \delta} \|P(y + J^T\delta - D^T x)\|^2 + \lambda \|\tau + \delta\|^2
    \quad\text{subject to}\quad \|x\|_0 \le T.

Error atoms of the paper's testing model :math:`y = D^T x + e + n` whose support is known are features that are not
kept: each fits its feature exactly, whatever :math:`x` is.  So are missing features.  Nothing of that size is formed:
the Gram matrix of the kept features is that of all features less the products of those left out, which is a row
problem of a :class:`~ddlearn.SparseCoder` whose classes are the features, with weight -1 where one is left out.  The
best :math:`\delta` for given :math:`x` is linear in :math:`x`; putting it in projects the tangents out of the problem.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..codes import RowCodes
from ..kernels.warp import factor_rows, pull_rows, solve_rows
from ..parallel import TILE_ROWS
from . import (
    Floats,
    SparseCoder,
    compute_gram,
    correlate,
    no_classes,
)

Flags = NDArray[np.bool_]


class Tangents(NamedTuple):
    """How the samples of a block change when they are moved, and where they stand."""

    derivatives: Floats  # (n_rows, n_parameters, n_features)
    damping: Floats  # (n_rows,) positive; keeps moves small that no feature speaks for
    position: Floats  # (n_rows, n_parameters) the move so far

    def rows(self, rows: NDArray[np.intp]) -> Tangents:
        return Tangents(*(array[rows] for array in self))


class MaskedFit(NamedTuple):
    """The solution for a block of rows."""

    codes: RowCodes
    residuals: Floats  # (n_rows, n_features) y + J'delta - D'x, of all features, kept or not
    moves: Floats  # (n_rows, n_parameters) delta


class RowProblem(Protocol):
    """What registration needs to know of coding."""

    def fit(self, samples: Floats, is_known: Flags, tangents: Tangents | None) -> MaskedFit:
        """Find codes and moves of a block of rows."""

    def measure_cost(self, residuals: Floats, is_known: Flags) -> Floats:
        """Return the cost of each row's residuals."""


class MaskedCoder:
    """Solves the problem of this file for blocks of rows; arguments have been checked."""

    def __init__(self, dictionary: Floats, sparse_coder: SparseCoder, n_nonzero_coefs: int, n_jobs: int | None = None):
        self.dictionary = dictionary
        self.gram = compute_gram(dictionary, n_jobs)
        self.atoms_by_feature = np.ascontiguousarray(dictionary.T)
        self.sparse_coder = sparse_coder
        self.n_nonzero_coefs = n_nonzero_coefs

    def solve(
        self,
        samples: Floats,
        is_kept: Flags,
        tangents: Tangents | None = None,
        n_nonzero_coefs: int | None = None,
    ) -> MaskedFit:
        """Code a block of rows, with T atoms unless another number is given; samples are finite everywhere."""
        codes, system = self._encode(
            samples, is_kept, tangents, self.n_nonzero_coefs if n_nonzero_coefs is None else n_nonzero_coefs
        )
        residuals = samples - codes.to_csr(len(self.dictionary)) @ self.dictionary
        if tangents is None or system is None:
            return MaskedFit(codes, residuals, np.zeros((len(samples), 0), samples.dtype))
        moves = system.solve(residuals)
        return MaskedFit(codes, residuals + combine(moves, tangents.derivatives), moves)

    def encode(self, samples: Floats, is_kept: Flags) -> RowCodes:
        """Return codes only, for samples that stay where they are."""
        return self._encode(samples, is_kept, None, self.n_nonzero_coefs)[0]

    def _encode(
        self, samples: Floats, is_kept: Flags, tangents: Tangents | None, n_nonzero_coefs: int
    ) -> tuple[RowCodes, _MoveSystem | None]:
        n_rows, n_components, dtype = len(samples), len(self.dictionary), samples.dtype
        terms = no_classes(n_rows, n_components, dtype)
        if not is_kept.all():
            samples = np.where(is_kept, samples, 0)
            left_out = np.where(is_kept, dtype.type(0), dtype.type(-1))
            terms = self.atoms_by_feature, left_out, np.zeros_like(left_out)
        correlations = correlate(samples, self.dictionary, np.empty((n_rows, n_components), dtype))
        energies = np.vecdot(samples, samples)
        if tangents is None:
            encoded = self.sparse_coder.encode(
                self.gram, correlations, *terms, n_nonzero_coefs=n_nonzero_coefs, energies=energies
            )
            return encoded, None
        system = _MoveSystem(tangents, is_kept)
        directions = system.project(self.dictionary)
        correlations -= combine(system.pull(samples), directions)
        encoded = self.sparse_coder.encode(
            self.gram, correlations, *terms, n_nonzero_coefs=n_nonzero_coefs, directions=directions
        )
        return encoded, system


class _MoveSystem:
    r"""The normal equations of the moves, :math:`(J P J^T + \lambda I) \delta = -(J P r + \lambda\tau)`."""

    def __init__(self, tangents: Tangents, is_kept: Flags):
        self.tangents = tangents
        self.basis = tangents.derivatives * is_kept[:, None, :]
        n_rows, n_parameters, _ = self.basis.shape
        self.factor = np.zeros((n_rows, n_parameters, n_parameters), self.basis.dtype)
        factor_rows(self.basis, tangents.damping, self.factor)

    def project(self, dictionary: Floats) -> Floats:
        """Return the basis' products with the atoms, tile by tile, as for :func:`correlate`."""
        n_rows, n_parameters, n_features = self.basis.shape
        flat = self.basis.reshape(-1, n_features)
        out = np.empty((len(flat), len(dictionary)), flat.dtype)
        step = TILE_ROWS * n_parameters
        for start in range(0, len(flat), step):
            np.matmul(flat[start : start + step], dictionary.T, out=out[start : start + step])
        return out.reshape(n_rows, n_parameters, -1)

    def pull(self, samples: Floats) -> Floats:
        """Return the right-hand side in the basis."""
        pull = np.empty(self.factor.shape[:2], self.basis.dtype)
        pull_rows(self.basis, self.factor, self.tangents.damping, self.tangents.position, samples, pull)
        return pull

    def solve(self, residuals: Floats) -> Floats:
        """Return the best moves of samples whose codes leave these residuals."""
        pull = self.pull(residuals)
        moves = np.empty_like(pull)
        solve_rows(self.factor, pull, moves)
        return moves


def combine(factors: Floats, rows: Floats) -> Floats:
    """Return, for each sample, a combination of its rows: (n, p) and (n, p, m) give (n, m)."""
    return np.matmul(factors[:, None, :], rows)[:, 0]


def trim_cost(residuals: Floats, is_known: Flags, budgets: NDArray[np.int64]) -> Floats:
    """Return the sum of the squared residuals of each row's known features, less so many of the largest."""
    squared = np.where(is_known, residuals, 0) ** 2
    if not budgets.any():
        return squared.sum(axis=1)
    squared.sort(axis=1)
    squared[np.arange(squared.shape[1]) >= squared.shape[1] - budgets[:, None]] = 0
    return squared.sum(axis=1)
