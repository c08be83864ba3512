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

from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..codes import Flags, Floats, RowCodes
from ..kernels.warp import factor_rows, pull_rows, solve_rows
from ..parallel import TILE_ROWS
from .encoder import Encoder


class Tangents(NamedTuple):
    """How the samples of a block change when they are moved, and how far they have moved."""

    derivatives: Floats  # (n_rows, n_parameters, n_features)
    damping: Floats  # (n_rows,) positive; keeps moves small that no feature supports
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


@dataclass(frozen=True)
class MaskedCoder:
    """Solves the problem of this file for blocks of rows; arguments have been checked."""

    encoder: Encoder

    def solve(
        self,
        samples: Floats,
        is_kept: Flags,
        tangents: Tangents | None = None,
        n_nonzero_coefs: int | None = None,
    ) -> MaskedFit:
        """Code a block of rows, with T atoms unless another number is given; samples are finite everywhere."""
        encoder = self.encoder if n_nonzero_coefs is None else replace(self.encoder, n_nonzero_coefs=n_nonzero_coefs)
        codes, system = self._encode(encoder, samples, is_kept, tangents)
        residuals = samples - codes.to_csr(len(encoder.dictionary)) @ encoder.dictionary
        if tangents is None or system is None:
            return MaskedFit(codes, residuals, np.zeros((len(samples), 0), samples.dtype))
        moves = system.solve(residuals)
        return MaskedFit(codes, residuals + combine(moves, tangents.derivatives), moves)

    def encode(self, samples: Floats, is_kept: Flags) -> RowCodes:
        """Return codes only, for samples that do not move."""
        return self._encode(self.encoder, samples, is_kept, None)[0]

    def _encode(
        self, encoder: Encoder, samples: Floats, is_kept: Flags, tangents: Tangents | None
    ) -> tuple[RowCodes, _MoveSystem | None]:
        if is_kept.all() and tangents is None:
            return encoder.encode_block(encoder.correlate(samples), np.vecdot(samples, samples)), None
        dtype = samples.dtype
        samples = np.where(is_kept, samples, 0)
        coef = self.encoder.atoms_by_feature
        weight = np.where(is_kept, dtype.type(0), dtype.type(-1))
        if is_kept.all():
            coef, weight = coef[:0], weight[:, :0]
        correlations = encoder.correlate(samples)
        more: dict[str, Floats] = {"energies": np.vecdot(samples, samples)}
        system = None
        if tangents is not None:
            system = _MoveSystem(tangents, is_kept)
            more = {"directions": system.project(encoder.dictionary)}
            correlations -= combine(system.pull(samples), more["directions"])
        codes = encoder.sparse_coder.encode(
            encoder.gram,
            correlations,
            coef,
            weight,
            np.zeros_like(weight),
            n_nonzero_coefs=encoder.n_nonzero_coefs,
            **more,  # type: ignore[arg-type]
        )
        return codes, system


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
    """Return the sum of the squared residuals of each row's known features without the largest of them."""
    squared = np.where(is_known, residuals, 0) ** 2
    if not budgets.any():
        return squared.sum(axis=1)
    squared.sort(axis=1)
    squared[np.arange(squared.shape[1]) >= squared.shape[1] - budgets[:, None]] = 0
    return squared.sum(axis=1)
