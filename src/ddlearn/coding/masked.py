r"""Sparse coding with some of the features, and of samples that may move while they are coded.

For a sample :math:`y` of which only some features are kept (:math:`P` sets the others to zero), with tangents
:math:`J` along which it may move by :math:`\delta` (``alignment.py``; without alignment there are none),

.. math::
    \min_{x, \delta} \|P(y + J^T\delta - D^T x)\|^2 + \lambda \|\tau + \delta\|^2
    \quad\text{subject to}\quad \|x\|_0 \le T.

Features that are not kept are missing or wrong: error atoms of the paper's testing model :math:`y = D^T x + e + n` with
known support, each of which fits its feature exactly for every :math:`x`.  No Gram matrix per sample is computed: that
of the kept features is the one of all features minus the products of those left out, which is the row problem of a
:class:`~ddlearn.SparseCoder` with features as classes, of weight -1 where left out.  The best :math:`\delta` for given
:math:`x` is linear in :math:`x`; substituting it projects the tangents out of the problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels.warp import factor_rows, pull_rows, solve_rows
from ..model.codes import Flags, Floats, RowCodes
from ..parallel import TILE_ROWS
from .encoder import Encoder


class Tangents(NamedTuple):
    """Derivatives of the samples of a block with respect to their moves, and the moves so far."""

    derivatives: Floats  # (n_rows, n_parameters, n_features)
    damping: Floats  # (n_rows,) positive; limits moves that no feature determines
    position: Floats  # (n_rows, n_parameters)

    def rows(self, rows: NDArray[np.intp] | slice) -> Tangents:
        return Tangents(*(array[rows] for array in self))


class MaskedFit(NamedTuple):
    """The solution for a block of rows."""

    codes: RowCodes
    residuals: Floats  # (n_rows, n_features) y + J'delta - D'x, of all features, kept or not
    moves: Floats  # (n_rows, n_parameters) delta


@dataclass(frozen=True)
class MaskedCoder:
    """Solves the problem of this file for blocks of rows."""

    encoder: Encoder

    def solve(
        self, samples: Floats, is_kept: Flags, tangents: Tangents | None = None, n_nonzero_coefs: int | None = None
    ) -> MaskedFit:
        """Code a block of rows, by default with T atoms; samples are finite, also where features are not kept."""
        encoder = self.encoder
        if tangents is None:
            codes = encoder.encode_tile(samples, is_kept, n_nonzero_coefs=n_nonzero_coefs)
            return MaskedFit(codes, self.subtract(samples, codes), np.zeros((len(samples), 0), samples.dtype))
        system = _MoveSystem(tangents, is_kept)
        kept, directions = np.where(is_kept, samples, 0), system.project(encoder.dictionary)
        correlations = encoder.correlate(kept) - combine(system.pull(kept), directions)
        classes = encoder.leave_out(is_kept)
        codes = encoder.solve(correlations, n_nonzero_coefs, classes=classes, directions=directions)
        residuals = self.subtract(samples, codes)
        moves = system.solve(residuals)
        return MaskedFit(codes, residuals + combine(moves, tangents.derivatives), moves)

    def subtract(self, samples: Floats, codes: RowCodes) -> Floats:
        """Return samples less their reconstruction."""
        return samples - codes.to_csr(len(self.encoder.dictionary)) @ self.encoder.dictionary


class _MoveSystem:
    r"""The normal equations of the moves, :math:`(J P J^T + \lambda I) \delta = -(J P r + \lambda\tau)`."""

    def __init__(self, tangents: Tangents, is_kept: Flags):
        self.tangents = tangents
        self.basis = tangents.derivatives * is_kept[:, None, :]
        n_rows, n_parameters, _ = self.basis.shape
        self.factor = np.zeros((n_rows, n_parameters, n_parameters), self.basis.dtype)
        factor_rows(self.basis, tangents.damping, self.factor)

    def project(self, dictionary: Floats) -> Floats:
        """Return the products of the basis with the atoms, in tiles as :meth:`Encoder.correlate` does."""
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
        """Return the best moves, given the residuals of the codes."""
        pull = self.pull(residuals)
        moves = np.empty_like(pull)
        solve_rows(self.factor, pull, moves)
        return moves


def combine(factors: Floats, rows: Floats) -> Floats:
    """Return a linear combination of rows per sample: (n, p) and (n, p, m) give (n, m)."""
    return np.matmul(factors[:, None, :], rows)[:, 0]
