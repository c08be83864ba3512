r"""The gradient of a classification cost through label-free codes (Mairal, Bach and Ponce, PAMI 2012).

A code :math:`x` with support :math:`S`, elastic net or least squares on a support that greedy pursuit chose, satisfies
:math:`(G_{SS} + \lambda_2 I)\, x_S = D_S y - \lambda_1 \mathrm{sign}(x_S)` with :math:`G = D D^T`, atoms as rows.
As long as neither support nor signs change, a cost :math:`f(x, W)` has by the dictionary the derivative

.. math::
    \nabla_D f = \beta\, r^T - x\, (D^T \beta)^T, \qquad
    (G_{SS} + \lambda_2 I)\, \beta_S = (\nabla_x f)_S, \quad r = y - D^T x,

with :math:`\beta` zero outside :math:`S`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..codes import RowCodes
from ..coding import (
    PIVOT_FLOOR,
    SparseCoder,
    compute_gram,
    measure_misfit,
    no_classes,
)
from ..kernels.codes import score_rows
from ..kernels.gradient import (
    add_gradient_rows,
    add_outer_rows,
    combine_rows,
    differentiate_scores_rows,
    solve_support_rows,
)
from ..parallel import map_blocks
from .costs import RefinementCost

Floats = NDArray[np.floating]

_BLOCK_ROWS = 64  # that one thread codes at a time, always the same, since products of matrices may depend on it


class RefinedModel(NamedTuple):
    """What refinement changes: D, W and b."""

    dictionary: Floats  # (n_components, n_features) of unit norm
    coef_by_atom: Floats  # (n_components, n_classes)
    intercept: Floats  # (n_classes,)

    def copy(self) -> RefinedModel:
        """Return the same in other memory."""
        return RefinedModel(*(array.copy() for array in self))


class Judged(NamedTuple):
    """What a pass over samples tells."""

    scores: Floats  # (n_rows, n_classes)
    misfit: Floats  # (n_rows,)


class _Coded(NamedTuple):
    """A mini-batch on its way; blocks of rows are filled in side by side."""

    codes: RowCodes
    scores: Floats
    solution: Floats  # beta, in the places of the codes
    score_gradient: Floats
    residuals: Floats  # r
    images: Floats  # D'beta

    @classmethod
    def empty(cls, n_rows: int, n_places: int, n_classes: int, n_features: int, dtype: np.dtype) -> _Coded:
        codes = RowCodes.empty(n_rows, n_places, dtype)
        scores, score_gradient = np.empty((2, n_rows, n_classes), dtype)
        residuals, images = np.zeros((2, n_rows, n_features), dtype)
        return cls(codes, scores, np.empty_like(codes.values), score_gradient, residuals, images)


class TaskGradient:
    """Codes samples as new ones are coded, and differentiates the cost of their scores."""

    def __init__(self, sparse_coder: SparseCoder, n_nonzero_coefs: int, cost: RefinementCost, n_jobs: int | None):
        self.sparse_coder = sparse_coder
        self.n_nonzero_coefs = n_nonzero_coefs
        self.ridge = float(getattr(sparse_coder, "ridge", 0.0))
        self.cost = cost
        self.n_jobs = n_jobs

    def judge(self, model: RefinedModel, X: Floats) -> Judged:
        """Return the scores of samples, and the misfits of their codes."""
        gram = compute_gram(model.dictionary, self.n_jobs)
        scores = np.empty((len(X), len(model.intercept)), X.dtype)
        misfit = np.empty(len(X), X.dtype)

        def work(rows: slice, _: None) -> None:
            codes, residuals = self._encode(model, gram, X[rows])
            score_rows(codes.indices, codes.values, model.coef_by_atom, scores[rows])
            misfit[rows] = measure_misfit(self.sparse_coder, np.vecdot(residuals, residuals), codes)

        map_blocks(work, _cut(len(X)), lambda: None, n_jobs=self.n_jobs)
        return Judged(scores + model.intercept, misfit)

    def differentiate(self, model: RefinedModel, X: Floats, labels: Floats) -> tuple[RefinedModel, Floats]:
        """Return the gradient of the mean cost, in the shape of a model, and the scores."""
        n_rows, n_features = X.shape
        n_classes, dtype = len(model.intercept), X.dtype
        gram = compute_gram(model.dictionary, self.n_jobs)
        coded = _Coded.empty(n_rows, self.n_nonzero_coefs, n_classes, n_features, dtype)

        def differentiate_rows(rows: slice, factor: Floats) -> None:
            codes, coded.residuals[rows] = self._encode(model, gram, X[rows])
            coded.codes.indices[rows], coded.codes.values[rows] = codes
            score_rows(*codes, model.coef_by_atom, coded.scores[rows])
            coded.scores[rows] += model.intercept
            coded.score_gradient[rows] = self.cost.gradient(coded.scores[rows], labels[rows]) / n_rows
            solution = coded.solution[rows]
            code_gradient = np.zeros_like(solution)
            differentiate_scores_rows(*codes, model.coef_by_atom, coded.score_gradient[rows], code_gradient)
            ridge, pivot = dtype.type(self.ridge), dtype.type(PIVOT_FLOOR[dtype])
            solve_support_rows(gram, ridge, pivot, *codes, code_gradient, factor, solution)
            combine_rows(*codes, solution, model.dictionary, coded.images[rows])

        budget = (self.n_nonzero_coefs, self.n_nonzero_coefs)
        map_blocks(differentiate_rows, _cut(n_rows), lambda: np.empty(budget, dtype), n_jobs=self.n_jobs)
        return self._add_up(model, coded), coded.scores

    def _encode(self, model: RefinedModel, gram: Floats, X: Floats) -> tuple[RowCodes, Floats]:
        """Return label-free codes of a block, and what they leave over."""
        codes = self.sparse_coder.encode(
            gram,
            X @ model.dictionary.T,
            *no_classes(len(X), len(gram), X.dtype),
            n_nonzero_coefs=self.n_nonzero_coefs,
            energies=np.vecdot(X, X),
        )
        residuals = X.copy()
        combine_rows(*codes, -codes.values, model.dictionary, residuals)
        return codes, residuals

    def _add_up(self, model: RefinedModel, coded: _Coded) -> RefinedModel:
        codes, gradient = coded.codes, RefinedModel(*(np.zeros_like(array) for array in model))
        add_outer_rows(*codes, coded.score_gradient, gradient.coef_by_atom)
        add_gradient_rows(*codes, coded.solution, coded.residuals, coded.images, gradient.dictionary)
        gradient.intercept[:] = coded.score_gradient.sum(axis=0)
        return gradient


def _cut(n_rows: int) -> list[slice]:
    return [slice(start, min(start + _BLOCK_ROWS, n_rows)) for start in range(0, n_rows, _BLOCK_ROWS)]
