r"""The elastic net: codes with a penalty in place of a budget, the Laplacian prior that the paper names.

For a sample :math:`y`, with :math:`\lambda_1 = \alpha\rho` and :math:`\lambda_2 = \alpha(1 - \rho)`,

.. math:: \min_x \tfrac12 \|y - D^T x\|^2 + \lambda_1 \|x\|_1 + \tfrac12 \lambda_2 \|x\|^2 .

As a probability, a code has the density :math:`\exp(-(\lambda_1 \|x\|_1 + \lambda_2 \|x\|^2/2)/\sigma^2)` up to a
constant that is left out: its scale is tied to the noise of the sample, as in the Bayesian lasso (Park and Casella
2008).  So the penalty belongs to the misfit :math:`\|y - D^T x\|^2 + 2\lambda_1 \|x\|_1 + \lambda_2 \|x\|^2`, which
takes the place of the squared residual wherever the objective or a noise variance is computed.

Without :math:`\alpha`, the noise decides: atoms of unit norm see white noise of standard deviation :math:`\sigma` as
correlations of that size, the largest of K of which is about :math:`\sigma\sqrt{2 \ln K}`.  With :math:`\lambda_1`
there, and :math:`\sigma` the root mean square of the residuals that codes with this :math:`\lambda_1` leave, both are
the solution of one convex problem (the scaled lasso, Sun and Zhang 2012), found by turns.
"""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from sklearn.base import clone

from ..codes import RowCodes
from ..kernels.elastic_net import make_elastic_net_workspace, solve_elastic_net_rows
from ..strategies import check_number
from .coders import Floats, SparseCoder, no_classes
from .pursuit import PIVOT_FLOOR

# A change of so many rounding errors, relative to the largest coefficient, is none.
_ROUNDING_ERRORS_OF_COEFFICIENT = 4
# Turns of noise and codes: they settle to a few per cent, and more would be more exact than the noise is white.
_TURNS = 20
_SETTLED = 0.01
# A sample that an atom explains but for this share of its energy is that atom, and tells nothing of the noise.
_ATOMS_OWN_SHARE = 1e-6
# The least and the most that the penalty is, relative to the samples' norm: there may be no noise, and among few
# features, where atoms lie in all directions, everything looks like noise.
_SMALLEST_SHARE = 1e-3
_LARGEST_SHARE = 0.2


class ElasticNet(SparseCoder):
    r"""Elastic net: as many atoms as a sample needs, at a price.

    Minimises :math:`\|y - D^T x\|^2/2 + \alpha\rho \|x\|_1 + \alpha(1 - \rho) \|x\|^2/2`, to a known duality gap.
    Codes change smoothly with the sample, where those of pursuits jump from one choice of atoms to another.  The budget
    T is no part of the model but room in memory: leave it alone unless codes are too large.

    Parameters
    ----------
    alpha : float or None, default=None
        The strength of the penalty.  By default it comes from the noise of the samples,
        :math:`\alpha\rho = \sigma\sqrt{2 \ln K}`, when a fit has its first dictionary, but is at most a fifth of
        their norm.
    l1_ratio : float, default=0.7
        The share :math:`\rho` of the penalty that is on absolute values, above 0; 1 is the lasso.  The two parts are in
        different units.  So without alpha, this is the share for samples of unit norm, and both numbers become what
        they have to be for the samples that there are.
    positive : bool, default=False
        Whether coefficients may not be negative.
    tol : float, default=1e-5
        The largest duality gap, relative to half the squared norm of the sample.
    max_rounds : int, default=1000
        Rounds at most in which atoms enter a code; a few are enough.

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
    starts_from_codes = True
    has_penalty = True
    default_budget = 256

    def __init__(
        self,
        alpha: float | None = None,
        *,
        l1_ratio: float = 0.7,
        positive: bool = False,
        tol: float = 1e-5,
        max_rounds: int = 1000,
    ):
        self.alpha = alpha
        self.l1_ratio = l1_ratio
        self.positive = positive
        self.tol = tol
        self.max_rounds = max_rounds

    @property
    def is_adapted(self) -> bool:  # type: ignore[override]
        """Whether the strength of the penalty is known."""
        return self.alpha is not None

    @property
    def ridge(self) -> float:
        """What the penalty adds to the squared norms of atoms."""
        return self._get_alpha() * (1 - self.l1_ratio)

    def _get_alpha(self) -> float:
        if self.alpha is None:
            raise ValueError(
                "ElasticNet(alpha=None) gets its alpha from the samples of a fit, and there has been none: give a "
                "number, or use what adapt returns."
            )
        return float(self.alpha)

    def _check_parameters(self) -> None:
        if self.alpha is not None:
            check_number("alpha", self.alpha, Real)
        check_number("l1_ratio", self.l1_ratio, Real)
        check_number("tol", self.tol, Real)
        check_number("max_rounds", self.max_rounds, Integral)
        if self.max_rounds == 0:
            raise ValueError("max_rounds must be at least 1, got 0.")
        if not isinstance(self.positive, bool | np.bool_):
            raise ValueError(f"positive must be True or False, got {self.positive!r}.")
        if self.alpha == 0 or not 0 < self.l1_ratio <= 1:
            raise ValueError(
                f"alpha={self.alpha!r} and l1_ratio={self.l1_ratio!r}: alpha must be above 0, and l1_ratio above 0 and "
                "at most 1, or codes are not sparse."
            )

    def measure_penalty(self, values: Floats) -> Floats:
        lasso, ridge = (values.dtype.type(number) for number in (self._get_alpha() * self.l1_ratio, self.ridge))
        return lasso * np.abs(values).sum(axis=1) + ridge / 2 * np.vecdot(values, values)

    def encode(
        self,
        gram: Floats,
        correlations: Floats,
        coef: Floats,
        weight: Floats,
        pull: Floats,
        *,
        n_nonzero_coefs: int,
        energies: Floats | None = None,
        directions: Floats | None = None,
        init_codes: RowCodes | None = None,
    ) -> RowCodes:
        self._check_parameters()
        dtype = gram.dtype
        n_rows, n_components = correlations.shape
        directions = np.empty((n_rows, 0, n_components), dtype) if directions is None else directions
        if energies is None:
            energies = _bound_energies(gram, correlations)
        codes = RowCodes.empty(n_rows, n_nonzero_coefs, dtype)
        if init_codes is not None:
            codes.indices[:], codes.values[:] = init_codes
        solve_elastic_net_rows(
            gram,
            correlations,
            coef,
            weight,
            pull,
            directions.reshape(-1, n_components),
            energies,
            dtype.type(self._get_alpha() * self.l1_ratio),
            dtype.type(self.ridge),
            self.positive,
            (self.tol / 2 * energies).astype(dtype),
            self.max_rounds,
            dtype.type(PIVOT_FLOOR[dtype]),
            dtype.type(_ROUNDING_ERRORS_OF_COEFFICIENT * np.finfo(dtype).eps),
            make_elastic_net_workspace(n_nonzero_coefs, n_components, len(coef), directions.shape[1], dtype),
            codes.indices,
            codes.values,
            np.empty(n_rows, dtype),
        )
        return codes

    def adapt(self, samples: Floats, dictionary: Floats, n_nonzero_coefs: int) -> ElasticNet:
        """Return this coder with the alpha that suits the noise, if it has none.

        Parameters
        ----------
        samples : ndarray of shape (n_samples, n_features)
            Some of the samples to be coded.
        dictionary : ndarray of shape (n_components, n_features)
            The atoms that there are first.
        n_nonzero_coefs : int
            The budget T.

        Returns
        -------
        ElasticNet
            A coder whose alpha is a number.
        """
        self._check_parameters()
        if self.is_adapted:
            return self
        # In double precision, so that the number does not depend on that of the samples by much.
        samples, dictionary = samples.astype(np.float64), dictionary.astype(np.float64)
        gram, correlations = dictionary @ dictionary.T, samples @ dictionary.T
        energies = np.vecdot(samples, samples)
        is_noisy = _bound_energies(gram, correlations) < (1 - _ATOMS_OWN_SHARE) * energies
        if is_noisy.any():
            correlations, energies = correlations[is_noisy], energies[is_noisy]
        energy = float(energies.mean()) or 1.0
        largest_noise = np.sqrt(2 * np.log(max(len(gram), 2)) / samples.shape[1])  # per norm of the residual
        terms = no_classes(len(energies), len(gram), gram.dtype)
        codes, residual = None, energy
        for _ in range(_TURNS):
            strength = np.clip(largest_noise * np.sqrt(residual / energy), _SMALLEST_SHARE, _LARGEST_SHARE)
            coder = self._scale(strength, np.sqrt(energy))
            codes = coder.encode(
                gram, correlations, *terms, n_nonzero_coefs=n_nonzero_coefs, energies=energies, init_codes=codes
            )
            before, residual = residual, _measure_mean_residual(codes, gram, correlations, energies)
            if abs(before - residual) <= _SETTLED * before:
                break
        return coder

    def _scale(self, strength: float, norm: float) -> ElasticNet:
        """Return the coder for samples of some norm that has this penalty on absolute values if they have norm 1."""
        lasso, ridge = strength * norm, strength * (1 - self.l1_ratio) / self.l1_ratio
        return clone(self).set_params(alpha=float(lasso + ridge), l1_ratio=float(lasso / (lasso + ridge)))


def _bound_energies(gram: Floats, correlations: Floats) -> Floats:
    """Return the least that the squared norms of samples can be: what the best atom alone explains."""
    norms = np.diagonal(gram)
    inverse = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    return np.max(correlations**2 * inverse, axis=1)


def _measure_mean_residual(codes: RowCodes, gram: Floats, correlations: Floats, energies: Floats) -> float:
    x = codes.to_csr(len(gram))
    explained = np.sum((2 * correlations - x @ gram) * x.toarray(), axis=1)
    return float(np.mean(np.maximum(energies - explained, 0)))
