r"""The gradient of a classification cost through label-free codes (Mairal, Bach and Ponce, PAMI 2012).

A code :math:`x` with support :math:`S`, elastic net or least squares on a support that greedy pursuit chose, satisfies
:math:`(G_{SS} + \lambda_2 I)\, x_S = D_S y - \lambda_1 \mathrm{sign}(x_S)` with :math:`G = D D^T`, atoms as rows.
As long as neither support nor signs change, a cost :math:`f(x, W)` has by the dictionary the derivative

.. math::
    \nabla_D f = \beta\, r^T - x\, (D^T \beta)^T, \qquad
    (G_{SS} + \lambda_2 I)\, \beta_S = (\nabla_x f)_S, \quad r = y - D^T x,

with :math:`\beta` zero outside :math:`S`.

Classifiers are a sum, :math:`W = U + D V`: a vote of each atom by itself, and that of a linear classifier :math:`V` of
samples for the atom.  Their scores are :math:`U^T x + V^T (D^T x) + b`, a linear classifier of the reconstruction
and a correction by the atoms.  Since a code that is hardly penalised reconstructs its sample, linear classification of
samples is a special case, and penalties on :math:`U` and on :math:`V` decide how far from it the model is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..coding.coders import PIVOT_FLOOR
from ..coding.encoder import PRODUCT_ROWS, Encoder
from ..kernels.backward import (
    add_gradient_rows,
    add_outer_rows,
    combine_atoms,
    differentiate_scores_rows,
    solve_support_rows,
)
from ..kernels.codes import keep_larger_half, score_rows
from ..kernels.pursuit import allocate_rows
from ..model.codes import Floats, Model, RowCodes
from ..parallel import map_blocks, split_rows
from .costs import RefinementCost


class RefinedModel(NamedTuple):
    """What refinement changes, and everything in its shape: D, U, V and b, gradients and their averages."""

    dictionary: Floats  # (n_components, n_features) of unit norm
    own_coef: Floats  # (n_components, n_classes) U
    linear_coef: Floats  # (n_features, n_classes) V
    intercept: Floats  # (n_classes,)

    @property
    def coef_by_atom(self) -> Floats:
        """The classifiers, (n_components, n_classes)."""
        return self.own_coef + self.dictionary @ self.linear_coef

    def copy(self) -> RefinedModel:
        """Return the same in other memory."""
        return RefinedModel(*(array.copy() for array in self))


@dataclass(frozen=True)
class TaskGradient:
    """Codes samples as new ones are coded, and differentiates the cost of their scores."""

    encoder: Encoder  # of the dictionary before refinement
    cost: RefinementCost
    n_jobs: int | None

    def measure(self, model: RefinedModel, X: Floats) -> tuple[Floats, Floats]:
        """Return the scores of samples, and the misfits of their codes."""
        encoder, class_cost = self.encoder.with_dictionary(model.dictionary, self.n_jobs), np.ones_like(model.intercept)
        codes = encoder.encode(X, n_jobs=self.n_jobs).trim()
        shared = Model(model.dictionary, model.coef_by_atom.T, model.intercept, class_cost)
        squared_residuals, scores = shared.measure(X, codes, self.n_jobs)
        return scores, encoder.sparse_coder.measure_misfit(squared_residuals, codes)

    def differentiate(
        self,
        model: RefinedModel,
        X: Floats,
        labels: Floats,
        weights: NDArray[np.float64],
        codes: RowCodes | None = None,
        n_in_batch: int | None = None,
        encoder: Encoder | None = None,
    ) -> tuple[RefinedModel, Floats]:
        """Return the gradient of the mean cost of samples, each by its weight, and the scores.

        The mean of all weights is 1.  Coding starts from ``codes``, which are overwritten by the larger halves of the
        new ones.  The samples may be some of a mini-batch, whose gradient is then the sum of such results.
        """
        n_rows, dtype = len(X), X.dtype
        factors = weights.astype(dtype)[:, None]
        encoder = self.encoder.with_dictionary(model.dictionary, self.n_jobs) if encoder is None else encoder
        coef_by_atom, n_in_batch = model.coef_by_atom, n_in_batch or n_rows
        n_places = encoder.n_nonzero_coefs
        ridge, pivot = dtype.type(encoder.sparse_coder.ridge), dtype.type(PIVOT_FLOOR[dtype])
        scores, score_gradient = np.empty((2, n_rows, len(model.intercept)), dtype)

        def differentiate_rows(rows: slice, workspace: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
            start = None if codes is None else codes.rows(rows)
            coded = encoder.encode_tile(X[rows], start=start).trim()
            if start is not None:
                # Smaller entries may leave a code of the next dictionary, which costs more than to let them enter.
                keep_larger_half(*coded, X.shape[1], *start)
            score_rows(*coded, coef_by_atom, scores[rows])
            scores[rows] += model.intercept
            score_gradient[rows] = factors[rows] * self.cost.gradient(scores[rows], labels[rows]) / n_in_batch
            code_gradient, solution = np.empty((2, *coded.values.shape), dtype)
            residuals = X[rows].copy()
            combine_atoms(*coded, -coded.values, encoder.dictionary, residuals)
            differentiate_scores_rows(*coded, coef_by_atom, score_gradient[rows], code_gradient)
            solve_support_rows(
                encoder.gram, encoder.dictionary, ridge, pivot, *coded, code_gradient, *workspace, solution
            )
            code_gradient_in_features = np.zeros_like(residuals)
            combine_atoms(*coded, solution, model.dictionary, code_gradient_in_features)
            by_dictionary, by_coef = np.zeros_like(model.dictionary), np.zeros_like(coef_by_atom)
            add_gradient_rows(*coded, solution, residuals, code_gradient_in_features, by_dictionary)
            add_outer_rows(*coded, score_gradient[rows], by_coef)
            return by_dictionary, by_coef

        blocks = split_rows(n_rows, PRODUCT_ROWS, unit=PRODUCT_ROWS)

        def make_workspace() -> tuple[Floats, Floats]:
            return allocate_rows(n_places, n_places, dtype), np.empty(n_places, dtype)

        parts = map_blocks(differentiate_rows, blocks, make_workspace, n_jobs=self.n_jobs)
        by_dictionary, by_coef = parts[0]
        for of_dictionary, of_coef in parts[1:]:
            by_dictionary += of_dictionary
            by_coef += of_coef
        by_dictionary += by_coef @ model.linear_coef.T
        by_linear_coef = model.dictionary.T @ by_coef
        return RefinedModel(by_dictionary, by_coef, by_linear_coef, score_gradient.sum(axis=0)), scores
