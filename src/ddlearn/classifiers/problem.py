r"""The problem of one class: its penalised cost, the gradient of that, and its Hessian as a solver.

.. math:: \sum_i \Omega\bigl(l_{ij} (w_j^T x_i + b_j)\bigr) + \frac{\lambda_j}{2} \|w_j\|^2

The Hessian is that of a weighted least squares problem: a trainer gives the weights.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from .._classifier_kernel import add_gradient, add_hessian, compute_scores
from ..codes import RowCodes
from ..losses import Loss

Array = NDArray[np.floating]
Solver = Callable[[Array], Array]

# Shares of the mean diagonal, tried in turn until the Hessian has a Cholesky factor.
_JITTERS = (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0)


class Iterate(NamedTuple):
    """A classifier, its coefficients and then its intercept, with what it does on the samples."""

    classifier: Array
    scores: Array
    data_cost: float
    penalised_cost: float


class Problem(NamedTuple):
    """One class: the samples labelled for it, the loss and the penalty.  All sums are in float64."""

    codes: RowCodes
    labels: Array
    loss: Loss
    used: NDArray[np.bool_]
    penalty: float
    fit_intercept: bool

    def scores(self, classifier: Array) -> Array:
        scores = np.empty(len(self.labels))
        compute_scores(self.codes.indices, self.codes.values, classifier, scores)
        return scores

    def evaluate(self, classifier: Array, scores: Array) -> Iterate:
        data_cost = float(self.loss.value(self.labels * scores).sum())
        coef = classifier[:-1]
        return Iterate(classifier, scores, data_cost, data_cost + self.penalty / 2 * float(coef @ coef))

    def gradient(self, classifier: Array, margin_slopes: Array) -> Array:
        """Return the gradient of the penalised cost, without the intercept's entry where that is not fitted."""
        gradient = np.append(self.penalty * classifier[:-1], 0.0)
        add_gradient(self.codes.indices, self.codes.values, self.labels * margin_slopes, gradient)
        return gradient if self.fit_intercept else gradient[:-1]

    def factorise(self, weights: Array, hessian: Array) -> Solver:
        """Solve with the penalised Hessian for these weights, which is built in the (K + 1, K + 1) array given."""
        hessian[:] = 0
        add_hessian(self.codes.indices, self.codes.values, weights, hessian)
        diagonal = np.einsum("kk->k", hessian)  # a view that can be written to
        diagonal[:-1] += self.penalty
        diagonal[diagonal == 0] = 1  # no weight, no slope: any number leaves that coefficient where it is
        return _factorise(hessian if self.fit_intercept else hessian[:-1, :-1])

    def factorise_parabola(self, hessian: Array) -> Solver:
        """Do the same for a quadratic loss, whose weights are known before any margin is."""
        return self.factorise(self.loss.curvature(np.zeros_like(self.labels)), hessian)


def _factorise(hessian: Array) -> Solver:
    """Return a function that solves with the matrix whose lower triangle is given."""
    diagonal = np.einsum("kk->k", hessian)
    scale = diagonal.mean()
    for jitter in np.diff(_JITTERS, prepend=0.0):
        diagonal += jitter * scale
        try:
            # The transpose is in Fortran order, LAPACK's own, and its upper triangle is the one that is filled.
            factor = cho_factor(hessian.T, lower=False, check_finite=False)
        except LinAlgError:
            continue
        return lambda right_side: cho_solve(factor, right_side, check_finite=False)
    raise FloatingPointError("A classifier's Hessian is not finite: the codes hold values that overflow when squared.")


def _mean_curvature(loss: Loss) -> float:
    """Return the mean of the second derivative over the margins from -1 to 1; at a single margin a hinge has none."""
    left, right = loss.gradient(np.array([-1.0, 1.0]))
    return float(right - left) / 2


def pose_problem(
    codes: RowCodes, labels: Array, loss: Loss, ridge: float, n_components: int, fit_intercept: bool
) -> Problem:
    """Leave out the samples that are not labelled for the class, and scale the ridge to those that are."""
    known = labels != 0
    if not known.all():
        codes, labels = codes.rows(np.flatnonzero(known)), labels[known]
    squares = codes.values.ravel().astype(np.float64) ** 2
    squared_norms = np.bincount(codes.indices.ravel(), weights=squares, minlength=n_components)
    used = squared_norms > 0
    # The reference point is fixed, so that all rounds, and all calls on the same codes, minimise one function.
    penalty = ridge * _mean_curvature(loss) * squared_norms[used].mean() if used.any() else 0.0
    return Problem(codes, np.ascontiguousarray(labels, np.float64), loss, used, float(penalty), fit_intercept)
