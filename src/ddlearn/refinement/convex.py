r"""Classifiers of given label-free codes: the convex part of refinement, and where it starts.

For codes :math:`x_i` in a dictionary :math:`D`, classifiers :math:`W = U + D V` and their intercepts minimise

.. math:: \frac1N \sum_i f(W^T x_i + b, l_i) + \frac{\bar e}{2N} \Big(\rho \|U\|^2 + \frac{\tau}{M} \|V\|^2\Big),

where :math:`\bar e` is the mean squared norm of the samples, so that their unit does not matter.  In other words, the
votes of atoms have a Gaussian prior of covariance :math:`I/\rho + M D D^T/\tau`: atoms that look alike vote alike.
The larger :math:`\rho`, the closer is the model to a linear classifier of reconstructed samples, for which
:math:`\tau = 1` is the penalty of scikit-learn's logistic regression of features of unit size.

If the cost is a parabola of each score, this is a least-squares problem with a closed form, which one factorisation
solves for all classes; otherwise it is left to L-BFGS.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, cholesky, qr, solve_triangular
from scipy.optimize import minimize
from scipy.sparse import csr_array

from ..model.codes import Floats
from ..parallel import single_threaded_blas
from .backward import RefinedModel
from .costs import RefinementCost

_MAX_ITER = 100
_GRADIENT_TOL = 1e-4
_DECREASE_TOL = 1e-6  # relative decrease of the objective
_SMALLEST_DECAY = 1e-12  # of variables that would otherwise have no scale


class Decays(NamedTuple):
    """What half the squared norms of U and of V cost, beside the mean cost of a sample."""

    own: float
    linear: float

    @classmethod
    def of(cls, precisions: tuple[float, float], squared_unit: float, n_samples: int, n_features: int) -> Decays:
        """Return the costs from rho and tau, for so many samples with this mean squared norm."""
        unit = squared_unit / n_samples
        return cls(precisions[0] * unit, precisions[1] * unit / n_features)


def train_on_codes(
    codes: csr_array,
    labels: Floats,
    dictionary: Floats,
    cost: RefinementCost,
    decays: Decays,
    fit_intercept: bool,
    weights: NDArray[np.float64],  # of the samples
) -> RefinedModel:
    """Return the dictionary with the best classifiers."""
    arrays = codes.astype(np.float64), labels.astype(np.float64), dictionary.astype(np.float64)
    solve = _minimise_lbfgs if cost.parabola is None or not labels.all() else _solve_least_squares
    with single_threaded_blas():
        classifiers = solve(*arrays, cost, decays, fit_intercept, weights / weights.sum())
    return RefinedModel(dictionary, *(array.astype(dictionary.dtype) for array in classifiers))


def _solve_least_squares(
    codes: csr_array,
    labels: Floats,
    atoms: Floats,
    cost: RefinementCost,
    decays: Decays,
    fit_intercept: bool,
    shares: NDArray[np.float64],
) -> tuple[NDArray[np.float64], ...]:
    """Minimise h sum_i share_i |W'x_i + b - m l_i|^2 + tr(W' inv(S) W) / 2, where S is the covariance of the votes."""
    assert cost.parabola is not None
    half_curvature, wanted = cost.parabola
    own, linear = (max(decay, _SMALLEST_DECAY) for decay in decays)
    weighted = codes.multiply(shares[:, None]).tocsr()
    gram, products = (codes.T @ weighted).toarray(), weighted.T @ (wanted * labels)
    mean_code, mean_target = shares @ codes, shares @ (wanted * labels)
    if fit_intercept:  # it takes care of the means
        gram -= np.outer(mean_code, mean_code)
        products -= np.outer(mean_code, mean_target)
    # With S = T T' and W = T Z the matrix is the unit matrix and something positive: well conditioned for any decays.
    covariance = atoms @ atoms.T / linear
    covariance.flat[:: len(atoms) + 1] += 1 / own
    root = cholesky(covariance, lower=True)
    matrix = 2 * half_curvature * (root.T @ gram @ root)
    matrix.flat[:: len(atoms) + 1] += 1
    votes = cho_solve(cho_factor(matrix, lower=True), 2 * half_curvature * (root.T @ products))
    pressure = solve_triangular(root, votes, lower=True, trans="T")  # inv(S) W
    intercept = mean_target - mean_code @ (root @ votes) if fit_intercept else np.zeros(labels.shape[1])
    return pressure / own, atoms.T @ pressure / linear, intercept


def _minimise_lbfgs(
    codes: csr_array,
    labels: Floats,
    atoms: Floats,
    cost: RefinementCost,
    decays: Decays,
    fit_intercept: bool,
    shares: NDArray[np.float64],
) -> tuple[NDArray[np.float64], ...]:
    """Minimise any convex cost by L-BFGS."""
    basis, n_classes = None, labels.shape[1]
    if len(atoms) < atoms.shape[1]:
        # Nothing of V outside the span of the atoms lowers the cost: as many coordinates as atoms are enough.
        basis, triangle = qr(atoms.T, mode="economic")
        atoms = triangle.T
    n_components, n_features = atoms.shape
    sizes = n_components * n_classes, n_features * n_classes, n_classes
    by_atom = codes.T.tocsr()
    # In units in which all penalties are alike, so that one step length suits all variables.
    own_unit, linear_unit = (1 / np.sqrt(max(decay, _SMALLEST_DECAY)) for decay in decays)

    def unpack(variables: NDArray[np.float64]) -> tuple[NDArray[np.float64], ...]:
        own, linear, intercept = np.split(variables, np.cumsum(sizes)[:2])
        return own_unit * own.reshape(-1, n_classes), linear_unit * linear.reshape(-1, n_classes), intercept

    def measure(variables: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        own, linear, intercept = unpack(variables)
        scores = codes @ (own + atoms @ linear) + intercept
        values, slopes = cost.differentiate(scores, labels)
        slopes *= shares[:, None]
        by_coef = by_atom @ slopes
        by_own = own_unit * (by_coef + decays.own * own)
        by_linear = linear_unit * (atoms.T @ by_coef + decays.linear * linear)
        by_intercept = slopes.sum(axis=0) * fit_intercept
        penalty = decays.own * np.sum(own**2) + decays.linear * np.sum(linear**2)
        return float(shares @ values + penalty / 2), np.concatenate([by_own.ravel(), by_linear.ravel(), by_intercept])

    options: Any = {"maxiter": _MAX_ITER, "gtol": _GRADIENT_TOL, "ftol": _DECREASE_TOL}
    found = minimize(measure, np.zeros(sum(sizes)), jac=True, method="L-BFGS-B", options=options)
    own, linear, intercept = unpack(found.x)
    return own, linear if basis is None else basis @ linear, intercept
