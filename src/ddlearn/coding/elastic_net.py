r"""The elastic net: codes with a penalty instead of a budget, the Laplacian prior mentioned in the paper.

For a sample :math:`y`, with :math:`\lambda_1 = \alpha\rho` and :math:`\lambda_2 = \alpha(1 - \rho)`,

.. math:: \min_x \tfrac12 \|y - D^T x\|^2 + \lambda_1 \|x\|_1 + \tfrac12 \lambda_2 \|x\|^2 .

The prior density of a code is proportional to :math:`\exp(-(\lambda_1 \|x\|_1 + \lambda_2 \|x\|^2/2)/\sigma^2)`, whose
scale is tied to the noise of the sample as in the Bayesian lasso (Park and Casella 2008).  So the penalty is part of
the misfit :math:`\|y - D^T x\|^2 + 2\lambda_1 \|x\|_1 + \lambda_2 \|x\|^2`, which replaces the squared residual
wherever the objective or a noise variance is computed.

By default :math:`\alpha` is estimated from the noise.  The correlations of white noise of standard deviation
:math:`\sigma` with K atoms of unit norm are at most about :math:`\lambda_1 = \sigma\sqrt{2 \ln K}`.  This
:math:`\lambda_1`, and :math:`\sigma` as the root mean square residual of the codes, together solve a convex problem
(the scaled lasso, Sun and Zhang 2012) and are updated alternately.
"""

from __future__ import annotations

from functools import cache
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone

from ..kernels.elastic_net import make_elastic_net_workspace, solve_elastic_net_rows
from ..model.codes import Floats, RowCodes
from ..model.strategies import check_number
from .coders import MOST_ROUNDS, PIVOT_FLOOR, RowProblem, SparseCoder, pose_rows

# A smaller change, in multiples of the machine epsilon and relative to the largest coefficient, is a rounding error.
_ROUNDING_ERRORS = 4
_MAX_UPDATES = 20  # of noise and codes in adapt
_ADAPT_TOL = 0.01  # relative change of the mean squared residual; noise is never so white that more would be exact
_ATOMS_OWN_SHARE = 1e-6  # a sample with a smaller relative residual is a copy of an atom, without noise to measure
# Smallest and largest penalty relative to the norm of the samples: there may be no noise, and with few features, where
# atoms point in all directions, everything looks like noise.
_SMALLEST_SHARE = 1e-3
_LARGEST_SHARE = 0.2
_CANDIDATE_SHARES = (0.15, 0.05, 0.015)  # that a search chooses from


class ElasticNet(SparseCoder):
    r"""Elastic net: as many atoms as a sample needs, limited by a penalty.

    Minimizes :math:`\|y - D^T x\|^2/2 + \alpha\rho \|x\|_1 + \alpha(1 - \rho) \|x\|^2/2` up to a duality gap.  Codes
    change smoothly with the sample, whereas those of pursuits jump from one set of atoms to another.  The budget T is
    not part of the model, but only limits memory: change it only if codes are too large.

    Parameters
    ----------
    alpha : float or None, default=None
        Strength of the penalty.  By default it is chosen by the cost of held-out samples where the model is refined,
        see :class:`Refiner`.  Otherwise it is estimated from the noise of the samples with the initial dictionary,
        :math:`\alpha\rho = \sigma\sqrt{2 \ln K}`, but at most a fifth of their norm.
    l1_ratio : float, default=0.7
        Fraction :math:`\rho` of the penalty that is on absolute values, above 0; 1 is the lasso.
    norm : float, default=1.0
        Norm of the samples that ``alpha`` and ``l1_ratio`` are meant for: the two parts of the penalty have different
        units, and the one on absolute values is multiplied by it.  With ``alpha=None`` it is that of the samples.
    positive : bool, default=False
        Whether coefficients must not be negative.
    tol : float, default=1e-5
        Largest duality gap, relative to half the squared norm of the sample.
    max_rounds : int, default=1000
        Largest number of rounds in which atoms enter a code; usually a few suffice.

    See Also
    --------
    ORMP : At most T atoms, without a penalty.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import ElasticNet, sparse_encode
    >>> coder = ElasticNet(0.5, l1_ratio=1.0)
    >>> sparse_encode([[3.0, 2.0, 0.1]], np.eye(3), method=coder).toarray()
    array([[2.5, 1.5, 0. ]])
    """

    projects_directions = True
    has_penalty = True
    default_budget = 256

    def __init__(
        self,
        alpha: float | None = None,
        *,
        l1_ratio: float = 0.7,
        norm: float = 1.0,
        positive: bool = False,
        tol: float = 1e-5,
        max_rounds: int = 1000,
    ):
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.norm = norm
        self.positive = positive
        self.tol = tol
        self.max_rounds = max_rounds

    @property
    def is_adapted(self) -> bool:  # type: ignore[override]
        """Whether the strength of the penalty is known."""
        return self.alpha is not None

    @property
    def ridge(self) -> float:  # type: ignore[override]
        """The penalty's addition to the squared norms of atoms."""
        return self._get_alpha() * (1 - self.l1_ratio)

    @property
    def lasso(self) -> float:
        """The penalty on absolute values."""
        return self._get_alpha() * self.l1_ratio * float(self.norm)

    def _get_alpha(self) -> float:
        if self.alpha is None:
            raise ValueError(
                "ElasticNet(alpha=None) estimates alpha from the samples of a fit, and has not been fitted: pass a "
                "number, or use the coder that adapt returns."
            )
        return float(self.alpha)

    def check_parameters(self) -> None:
        if self.alpha is not None:
            check_number("alpha", self.alpha, Real)
        check_number("l1_ratio", self.l1_ratio, Real)
        check_number("norm", self.norm, Real)
        check_number("tol", self.tol, Real)
        check_number("max_rounds", self.max_rounds, Integral, most=MOST_ROUNDS)
        if self.max_rounds == 0:
            raise ValueError("max_rounds must be at least 1, got 0.")
        if not isinstance(self.positive, bool | np.bool_):
            raise ValueError(f"positive must be True or False, got {self.positive!r}.")
        if self.alpha == 0 or self.norm == 0 or not 0 < self.l1_ratio <= 1:
            raise ValueError(
                f"alpha={self.alpha!r}, norm={self.norm!r} and l1_ratio={self.l1_ratio!r}: alpha must be above 0, and "
                "l1_ratio above 0 and at most 1, and norm above 0, since otherwise codes are not sparse."
            )

    def measure_penalty(self, values: Floats) -> Floats:
        lasso, ridge = (values.dtype.type(number) for number in (self.lasso, self.ridge))
        return lasso * np.abs(values).sum(axis=1) + ridge / 2 * np.vecdot(values, values)

    def solve(self, problem: RowProblem) -> RowCodes:
        gram, coef, energies = problem.gram, problem.coef, problem.energies
        (n_rows, n_components), (_, n_directions, _) = problem.correlations.shape, problem.directions.shape
        n_classes, budget, dtype = len(coef), problem.n_nonzero_coefs, gram.dtype
        spare = {} if problem.workspaces is None else problem.workspaces
        energies = _bound_energies(gram, problem.correlations) if energies is None else energies
        codes = RowCodes(np.zeros((n_rows, budget), np.int32), np.zeros((n_rows, budget), dtype))
        if problem.start is not None:
            codes.fill(problem.start)
        (rounding, largest), lasso, ridge = _find_limits(dtype), self.lasso, self.ridge
        atoms, by_feature = np.empty((n_components, 0), dtype), np.empty((0, n_components), dtype)
        # In terms of features, only the ridge keeps matrices from being singular, and no weight may be negative.
        if (
            problem.atoms is not None
            and len(problem.atoms[1]) + n_classes < budget
            and ridge > rounding * gram.trace()
            and not (n_classes and problem.weight.min() < 0)
        ):
            # Classes take the place of some features; models in read-only memory are copied.
            atoms, by_feature = (np.require(each, requirements="W") for each in problem.atoms)
            if n_classes:
                room = np.empty((n_components, n_classes), dtype)
                atoms, by_feature = np.hstack([atoms, room]), np.vstack([by_feature, room.T])
        sizes = budget, n_components, n_classes, n_directions, len(by_feature), dtype
        key = make_elastic_net_workspace, *sizes
        workspace = spare.pop(key, None) or make_elastic_net_workspace(*sizes)
        samples = problem.directions.reshape(-1, n_components), atoms, by_feature, energies
        penalty = dtype.type(lasso), dtype.type(ridge), self.positive
        limits = float(self.tol) / 2 * energies, self.max_rounds, dtype.type(PIVOT_FLOOR[dtype]), rounding
        bits = type(largest)(-1) if self.positive else largest, type(largest)((1 << n_components.bit_length()) - 1)
        gaps = np.empty(n_rows, dtype)
        solve_elastic_net_rows(*problem[:5], *samples, *penalty, *limits, *bits, workspace, *codes, gaps)
        if n_classes == 0:  # missing features are as many classes as there are features: too large to keep
            spare[key] = workspace
        return codes

    def list_candidates(self, norm: float) -> list[SparseCoder]:
        return [self] if self.is_adapted else [self._scale(strength, norm) for strength in _CANDIDATE_SHARES]

    def adapt(self, samples: Floats, dictionary: Floats, n_nonzero_coefs: int) -> ElasticNet:
        self.check_parameters()
        if self.is_adapted:
            return self
        # In double precision, so that alpha hardly depends on the dtype of the samples.
        samples, dictionary = samples.astype(np.float64), dictionary.astype(np.float64)
        gram, correlations = dictionary @ dictionary.T, samples @ dictionary.T
        energies = np.vecdot(samples, samples)
        is_noisy = _bound_energies(gram, correlations) < (1 - _ATOMS_OWN_SHARE) * energies
        if is_noisy.any():
            correlations, energies = correlations[is_noisy], energies[is_noisy]
        energy = float(energies.mean()) or 1.0
        largest_noise = np.sqrt(2 * np.log(max(len(gram), 2)) / samples.shape[1])  # per norm of the residual
        problem, residual = pose_rows(gram, correlations, n_nonzero_coefs, energies=energies), energy
        for _ in range(_MAX_UPDATES):
            strength = np.clip(largest_noise * np.sqrt(residual / energy), _SMALLEST_SHARE, _LARGEST_SHARE)
            coder = self._scale(strength, np.sqrt(energy))
            codes = coder.solve(problem)
            x = codes.to_csr(len(gram))
            explained = np.sum((2 * correlations - x @ gram) * x.toarray(), axis=1)
            before, residual = residual, float(np.mean(np.maximum(energies - explained, 0)))
            problem = problem._replace(start=codes)
            if abs(before - residual) <= _ADAPT_TOL * before:
                break
        return coder

    def _scale(self, strength: float, norm: float) -> ElasticNet:
        """Return the coder for samples of this norm whose penalty on absolute values is `strength` for norm 1."""
        return clone(self).set_params(alpha=float(strength / self.l1_ratio), norm=float(norm))


@cache
def _find_limits(dtype: np.dtype) -> tuple[Any, Any]:
    """Return the change that is a rounding error, and the largest integer with as many bits as a number."""
    bits = np.iinfo(np.int64 if dtype == np.float64 else np.int32)
    return dtype.type(_ROUNDING_ERRORS * np.finfo(dtype).eps), bits.dtype.type(bits.max)


def _bound_energies(gram: Floats, correlations: Floats) -> Floats:
    """Return a lower bound of the squared norms of samples: what the best atom alone explains."""
    norms = np.diagonal(gram)
    inverse = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    return np.max(correlations**2 * inverse, axis=1)
