r"""Noise variances and class costs: the priors that give the objective a minimum, and the values of least objective.

Minus their logarithms, the priors are the fifth term of ``objective.py``,

.. math::
    \sum_i \Bigl[\frac{d_0 s_0^2}{2\sigma_i^2} + \frac{d_0}{2} \ln \sigma_i^2\Bigr]
    + \sum_j \Bigl[\frac{\lambda_j \|w_j\|^2}{2\gamma_j}
    + \kappa (N_j + 1) \Bigl(\frac{\gamma_j^{(0)}}{\gamma_j} + \ln \gamma_j\Bigr)\Bigr] .

Given priors, both scales have a closed form.  The constant of the Gaussian prior on :math:`w_j`, which depends on
:math:`\gamma_j`, is left out: the ridge then weighs against the costs alone, whatever their scale.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, polygamma

from .codes import Flags, Floats
from .losses import Loss
from .strategies import Registry, Strategy, check_number

FindMedian = Callable[[], float]  # which passes over all samples, and so is called only where it is needed
NOISE_MODELS = ("per_sample", "shared")
# The prior of the noise weighs at most as much as this many samples: all variances are then nearly equal.
_MOST_NOISE_WEIGHT = 100
# And at least as much as one feature, so that a sample that is an atom has a variance.
_LEAST_NOISE_WEIGHT = 1.0


class Priors(NamedTuple):
    r"""What is assumed of noise variances, class costs and classifiers, fixed at the first codes of a fit.

    Parameters
    ----------
    noise_weight : float
        How much the prior of a noise variance weighs, in features: :math:`d_0`.
    noise_variance : float
        The typical noise variance, :math:`s_0^2`.
    noise_floor : float
        No noise variance is smaller.
    cost_weight : float
        How much the prior of a class cost weighs, relative to the samples: :math:`\kappa`.
    class_cost : ndarray of shape (n_classes,)
        The typical class costs, :math:`\gamma_j^{(0)}`.
    cost_floor : float
        No class cost is smaller.
    ridge : ndarray of shape (n_classes,)
        The penalties on the squared norms of the classifiers, :math:`\lambda_j`.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn.model.scales import Priors
    >>> priors = Priors(2.0, 0.5, 0.0, 0.3, np.ones(3), 0.0, np.zeros(3))
    >>> priors.estimate_noise(np.array([0.0, 4.0]), n_features=6)
    array([0.1, 0.5])
    """

    noise_weight: float
    noise_variance: float
    noise_floor: float
    cost_weight: float
    class_cost: NDArray[np.float64]
    cost_floor: float
    ridge: Floats

    @classmethod
    def flat(cls, n_classes: int) -> Priors:
        """Return those of the paper, which add nothing to Eq. 3."""
        return cls(0.0, 1.0, 0.0, 0.0, np.ones(n_classes), 0.0, np.zeros(n_classes))

    def estimate_noise(self, misfits: Floats, n_features: float | NDArray) -> Floats:
        r"""Return :math:`\sigma_i^2 = (r_i^2 + d_0 s_0^2) / (M + 2 + d_0)` for misfits :math:`r_i^2`, or the floor."""
        variance = (misfits + self.noise_weight * self.noise_variance) / (n_features + 2 + self.noise_weight)
        return np.maximum(variance, self.noise_floor).astype(misfits.dtype)

    def estimate_class_cost(self, costs: Floats, coef: Floats, n_labelled: NDArray) -> NDArray[np.float64]:
        r"""Return the class costs of least objective, given each class's sum of classification costs.

        .. math:: \gamma_j = \frac{\sum_i \Omega(z_{ij}) + \frac{\lambda_j}{2} \|w_j\|^2
            + \kappa (N_j + 1) \gamma_j^{(0)}}{(1 + \kappa)(N_j + 1)} , \quad\text{or the floor.}
        """
        typical = self.cost_weight * (n_labelled + 1) * self.class_cost
        class_cost = costs + penalise(coef, self.ridge) + typical
        return np.maximum(class_cost / ((1 + self.cost_weight) * (n_labelled + 1)), self.cost_floor)


def penalise(coef: Floats, ridge: Floats) -> NDArray[np.float64]:
    """Return the penalty of each classifier."""
    coef = coef.astype(np.float64, copy=False)
    return ridge / 2 * np.vecdot(coef, coef)


@dataclass(frozen=True)
class MisfitSums:
    """Sums over the misfits of first codes, each sample by its weight, from which the prior of the noise is estimated.

    A copy of an atom has no misfit but rounding, which is no noise: logarithms are of the other samples alone.
    """

    n_features: float  # that are known of a sample, on average
    eps: float  # a misfit that is a smaller share of the squared norm of its sample is rounding
    unit: float  # of misfits in logarithms: a power of two, so that the unit of the samples changes no other digit
    n_samples: float = 0.0
    n_noisy: float = 0.0  # samples that are no copies of an atom
    logs: float = 0.0
    squared_logs: float = 0.0
    energy: float = 0.0  # the squared norms of all samples

    @classmethod
    def expected(cls, n_samples: float, priors: Priors, n_features: int, eps: float, unit: float) -> MisfitSums:
        """Return sums over this many samples for which empirical Bayes finds these priors, more or less."""
        weight = max(priors.noise_weight, _LEAST_NOISE_WEIGHT)
        log_variance = np.log(priors.noise_variance / unit)
        mean = float(log_variance + digamma(n_features / 2) - digamma(weight / 2) + np.log(weight))
        spread = float(polygamma(1, n_features / 2) + polygamma(1, weight / 2))
        squared_logs = (n_samples - 1) * spread + n_samples * mean**2
        energy = n_samples * priors.noise_variance * (n_features + 2)
        return cls(n_features, eps, unit, n_samples, n_samples, n_samples * mean, squared_logs, energy)

    def __add__(self, other: MisfitSums) -> MisfitSums:
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in _SUMS})

    def forget(self, factor: float) -> MisfitSums:
        """Return sums in which all samples count less."""
        return replace(self, **{name: factor * getattr(self, name) for name in _SUMS})

    @property
    def rounding_variance(self) -> float:
        """The noise variance if all misfits are rounding: it may be anything that is not larger."""
        return self.eps * (self.energy / self.n_samples or 1.0) / (self.n_features + 2)


_SUMS = [field.name for field in fields(MisfitSums)][3:]


def find_unit(number: float) -> float:
    """Return the power of two next above a number.

    >>> find_unit(3.0)
    4.0
    """
    return float(np.ldexp(1.0, np.frexp(number)[1]))


def invert_trigamma(value: float) -> float:
    """Return where the trigamma function, the second derivative of the log-gamma function, has a value above 0.

    >>> round(invert_trigamma(float(polygamma(1, 2.5))), 12)
    2.5
    """
    place = 0.5 + 1 / value  # never beyond the solution, from where Newton's method on 1 / trigamma is monotone
    for _ in range(50):
        trigamma = float(polygamma(1, place))
        step = trigamma * (1 - trigamma / value) / float(polygamma(2, place))
        place += step
        if abs(step) <= 1e-12 * place:
            break
    return place


def fit_noise_prior(sums: MisfitSums) -> tuple[float, float]:
    r"""Return the weight :math:`d_0` and the logarithm of :math:`s_0^2` by empirical Bayes, from at least one misfit.

    If :math:`\sigma_i^2` has a scaled inverse chi-squared distribution, misfits over their number M of features have
    an F distribution, whose logarithm has the variance :math:`\psi'(M/2) + \psi'(d_0/2)`.

    References
    ----------
    Smyth, "Linear models and empirical Bayes methods for assessing differential expression in microarray experiments",
    Statistical Applications in Genetics and Molecular Biology 3, 2004, Section 6.2.
    """
    n_features = sums.n_features
    mean, largest = sums.logs / sums.n_noisy, _MOST_NOISE_WEIGHT * (n_features + 2)
    spread = (sums.squared_logs - sums.n_noisy * mean**2) / max(sums.n_noisy - 1, 1)
    excess = spread - float(polygamma(1, n_features / 2))
    if excess <= polygamma(1, largest / 2):
        weight = float(largest)
    else:
        weight = max(2 * invert_trigamma(excess), _LEAST_NOISE_WEIGHT)
    return weight, float(mean - digamma(n_features / 2) + digamma(weight / 2) - np.log(weight))


class Scales(Strategy, ABC):
    r"""How the scales of the objective, :math:`\sigma_i^2` and :math:`\gamma_j`, are estimated: by which priors.

    Subclasses implement :meth:`set_priors`.  Given priors, the scales are those of least objective.

    Parameters
    ----------
    noise : {"per_sample", "shared"}, default="per_sample"
        One noise variance per sample, as in the paper, or one for all.

    See Also
    --------
    ConjugateScales : Priors that give the objective a minimum.
    JeffreysScales : Those of the paper, and floors.

    Examples
    --------
    >>> from ddlearn import ConjugateScales, Scales
    >>> isinstance(ConjugateScales(), Scales)
    True
    """

    def __init__(self, noise: str = "per_sample"):
        self.noise = noise

    def check_parameters(self) -> None:
        if self.noise not in NOISE_MODELS:
            raise ValueError(f"noise={self.noise!r} is not known; choose one of {sorted(NOISE_MODELS)}.")

    @abstractmethod
    def set_priors(
        self, sums: MisfitSums, find_median: FindMedian, costs: Floats, n_labelled: NDArray, ridge: Floats, loss: Loss
    ) -> Priors:
        """Return the priors, from the misfits of first codes, and each class's costs with its classifier's penalty.

        The median misfit, of samples that are no copies of an atom, is found on demand; it is NaN if all are copies.
        Priors are set once, so that they do not move while the objective is lowered.
        """

    def estimate_noise(
        self, misfits: Floats, mean: float, n_features: float | NDArray, priors: Priors, is_copy: Flags | None = None
    ) -> Floats:
        """Return the noise variances of some samples, given the mean misfit of all.

        ``n_features`` are the known ones, of each sample or for a variance that all share of a sample on average.
        Copies of an atom, if they are marked, have the typical variance.
        """
        used = misfits
        if self.noise == "shared":
            used = np.full_like(misfits, mean)
        elif is_copy is not None:
            typical = (n_features + 2) * priors.noise_variance
            used = np.where(is_copy, typical, misfits).astype(misfits.dtype)
        return priors.estimate_noise(used, n_features)


class ConjugateScales(Scales):
    r"""Conjugate priors, under which the objective has a minimum and no scale a bound.

    Noise variances have a scaled inverse chi-squared prior, estimated by empirical Bayes from the misfits of the first
    codes; class costs an inverse gamma prior around those of the first codes.

    Parameters
    ----------
    noise : {"per_sample", "shared"}, default="per_sample"
        One noise variance per sample, as in the paper, or one for all.
    cost_weight : float, default=0.3
        How much the class costs of the first codes weigh, relative to the present ones.

    Examples
    --------
    >>> from ddlearn import ConjugateScales, DDLClassifier
    >>> DDLClassifier(scales=ConjugateScales(noise="shared"))
    DDLClassifier(scales=ConjugateScales(noise='shared'))
    """

    def __init__(self, noise: str = "per_sample", *, cost_weight: float = 0.3):
        super().__init__(noise)
        self.cost_weight = cost_weight

    def check_parameters(self) -> None:
        super().check_parameters()
        check_number("cost_weight", self.cost_weight, Real)
        if self.cost_weight == 0:
            raise ValueError("cost_weight must be above 0: without a prior the objective is unbounded below.")

    def set_priors(
        self, sums: MisfitSums, find_median: FindMedian, costs: Floats, n_labelled: NDArray, ridge: Floats, loss: Loss
    ) -> Priors:
        if sums.n_noisy:
            noise_weight, log_variance = fit_noise_prior(sums)
            noise_variance = sums.unit * float(np.exp(log_variance))
        else:
            noise_weight, noise_variance = _LEAST_NOISE_WEIGHT, sums.rounding_variance
        # At least as if one sample cost what it does without a classifier: separable classes may cost nothing at all.
        class_cost = np.maximum(costs, loss.value(np.zeros(1))) / (n_labelled + 1)
        return Priors(noise_weight, noise_variance, 0.0, float(self.cost_weight), class_cost, 0.0, ridge)


class JeffreysScales(Scales):
    r"""The priors of the paper, :math:`1/\sigma_i^2` and :math:`1/\gamma_j`, with floors.

    Parameters
    ----------
    noise : {"per_sample", "shared"}, default="per_sample"
        One noise variance per sample, as in the paper, or one for all.
    noise_floor : float, default=0.1
        No noise variance falls below this share of the median for the first codes.  Without a floor the objective has
        no minimum.
    cost_floor : float, default=0.3
        The same for class costs.

    Examples
    --------
    >>> from ddlearn import DDLClassifier, JeffreysScales
    >>> DDLClassifier(scales=JeffreysScales(cost_floor=0.1))
    DDLClassifier(scales=JeffreysScales(cost_floor=0.1))
    """

    def __init__(self, noise: str = "per_sample", *, noise_floor: float = 0.1, cost_floor: float = 0.3):
        super().__init__(noise)
        self.noise_floor = noise_floor
        self.cost_floor = cost_floor

    def check_parameters(self) -> None:
        super().check_parameters()
        for name in ("noise_floor", "cost_floor"):
            check_number(name, getattr(self, name), Real)
            if getattr(self, name) == 0:
                raise ValueError(f"{name} must be above 0: without a floor the objective is unbounded below.")

    def set_priors(
        self, sums: MisfitSums, find_median: FindMedian, costs: Floats, n_labelled: NDArray, ridge: Floats, loss: Loss
    ) -> Priors:
        median = find_median() / (sums.n_features + 2)
        median = sums.rounding_variance if np.isnan(median) else median
        typical = float(np.median(costs / (n_labelled + 1))) or 1.0
        floors = float(self.noise_floor * median), float(self.cost_floor * typical)
        return Priors(0.0, median, floors[0], 0.0, np.full(len(ridge), typical), floors[1], ridge)


SCALES: Registry[Scales] = Registry("scales", Scales, {"conjugate": ConjugateScales, "jeffreys": JeffreysScales})
