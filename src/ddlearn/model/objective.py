r"""The MAP objective (Eq. 3 of the paper) in its terms, the priors that give it a minimum, and the scales that do.

.. math::
    \underbrace{\sum_i \frac{\|y_i - D^T x_i\|^2}{2\sigma_i^2}}_{\text{representation}}
    + \underbrace{\sum_i \frac{M + 2}{2} \ln \sigma_i^2}_{\text{log noise}}
    + \underbrace{\sum_j \sum_i \frac{\Omega(z_{ij})}{\gamma_j}}_{\text{classification}}
    + \underbrace{\sum_j (N_j + 1) \ln \gamma_j}_{\text{log class cost}}

over N samples with M features, of which :math:`N_j` are labelled for class j.  It is unbounded below: a sample that
is an atom has :math:`\sigma_i \to 0`, separable classes have :math:`\gamma_j \to 0` and :math:`w_j \to \infty`.  So
proper priors are part of the model (:class:`Priors`), whose minus logarithms are the fifth term,

.. math::
    \sum_i \Bigl[\frac{d_0 s_0^2}{2\sigma_i^2} + \frac{d_0}{2} \ln \sigma_i^2\Bigr]
    + \sum_j \Bigl[\frac{\lambda_j \|w_j\|^2}{2\gamma_j}
    + \kappa (N_j + 1) \Bigl(\frac{\gamma_j^{(0)}}{\gamma_j} + \ln \gamma_j\Bigr)\Bigr] .

Both scales that minimise the sum have a closed form.  The constant of the Gaussian prior on :math:`w_j`, which depends
on :math:`\gamma_j`, is left out: the ridge then weighs against the costs alone, whatever their scale.

A coder with a penalty on codes implies a prior on them whose scale is tied to the noise of the sample (its constant is
left out, too): :math:`\|y_i - D^T x_i\|^2` plus twice the penalty, the *misfit*, replaces the squared residual.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import digamma, polygamma
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from .codes import Flags, Floats, Model, RowCodes, measure_residuals
from .losses import Loss, check_number, resolve, resolve_loss

NOISE_MODELS = ("per_sample", "shared")
# The prior of the noise weighs at most as much as this many samples: all variances are then nearly equal.
_MOST_NOISE_WEIGHT = 100
# And at least as much as one feature, so that a sample that is an atom has a variance.
_LEAST_NOISE_WEIGHT = 1.0


class MapObjective(NamedTuple):
    """The four terms of Eq. 3, and what the priors add.

    Parameters
    ----------
    representation : float
        Misfits over twice their variances.
    log_noise : float
        Logarithms of the variances.
    classification : float
        Classification costs over the class costs.
    log_class_cost : float
        Logarithms of the class costs.
    prior : float, default=0.0
        What the :class:`Priors` of variances, class costs and classifiers add; 0 for the paper's objective.

    Examples
    --------
    >>> from ddlearn import MapObjective
    >>> MapObjective(representation=3.0, log_noise=-10.0, classification=2.0, log_class_cost=-1.0).total
    -6.0
    """

    representation: float
    log_noise: float
    classification: float
    log_class_cost: float
    prior: float = 0.0

    @property
    def total(self) -> float:
        """The objective, the sum of its terms."""
        return sum(self)


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
    >>> from ddlearn import Priors
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


def penalise(coef: Floats, ridge: Floats) -> NDArray[np.float64]:
    """Return the penalty of each classifier."""
    coef = coef.astype(np.float64, copy=False)
    return ridge / 2 * np.vecdot(coef, coef)


Terms = tuple[float, float, float]  # two terms of Eq. 3, and what the priors of their scales add


def sum_costs(
    labels: Floats, scores: Floats, loss: Loss, weights: NDArray[np.float64] | None = None
) -> NDArray[np.float64]:
    """Return each class's sum of classification costs; a label of 0 costs nothing."""
    costs = np.abs(labels) * loss.value(labels * scores)
    return costs.sum(axis=0, dtype=np.float64) if weights is None else weights @ costs.astype(np.float64)


def sum_noise_terms(
    misfits: Floats,
    noise_variance: Floats,
    n_features: float | NDArray,
    priors: Priors,
    weights: NDArray[np.float64] | None = None,
) -> Terms:
    """Return what some samples add to the first two terms, and to that of the priors."""
    variance = noise_variance.astype(np.float64)

    def add_up(terms: Floats) -> float:
        return float(np.sum(terms) if weights is None else weights @ terms)

    logs, weight = np.log(variance), priors.noise_weight
    prior = weight / 2 * (priors.noise_variance * add_up(1 / variance) + add_up(logs))
    return add_up(misfits / (2 * variance)), add_up((n_features + 2) / 2 * logs), prior


def scale_classes(
    costs: Floats, coef: Floats, n_labelled: NDArray, priors: Priors, classification_weight: float
) -> tuple[NDArray[np.float64], Terms]:
    r"""Return the class costs, and the terms that they are in; ``costs`` come from :func:`sum_costs`.

    .. math:: \gamma_j = \frac{\sum_i \Omega(z_{ij}) + \frac{\lambda_j}{2} \|w_j\|^2
        + \kappa (N_j + 1) \gamma_j^{(0)}}{(1 + \kappa)(N_j + 1)} , \quad\text{or the floor.}
    """
    typical = priors.cost_weight * (n_labelled + 1) * priors.class_cost
    class_cost = (costs + penalise(coef, priors.ridge) + typical) / ((1 + priors.cost_weight) * (n_labelled + 1))
    class_cost = np.maximum(class_cost, priors.cost_floor)
    return class_cost, sum_class_terms(costs, coef, class_cost, n_labelled, priors, classification_weight)


def sum_class_terms(
    costs: Floats,
    coef: Floats,
    class_cost: Floats,
    n_labelled: NDArray,
    priors: Priors,
    classification_weight: float = 1.0,
) -> Terms:
    """Return the last two terms, and what the priors of classifiers and class costs add.

    The weight is on all of them: on the costs alone, the class costs would grow with it and undo it.
    """
    logs = (n_labelled + 1) * np.log(class_cost)
    typical = priors.cost_weight * ((n_labelled + 1) * priors.class_cost / class_cost + logs)
    terms = costs / class_cost, logs, penalise(coef, priors.ridge) / class_cost + typical
    classification, log_class_cost, prior = (float(classification_weight * np.sum(term)) for term in terms)
    return classification, log_class_cost, prior


class LogSums(NamedTuple):
    """Sums over samples that are no copies of an atom, of the logarithms of their misfits; and over all samples."""

    n_noisy: float
    logs: float
    squared_logs: float
    energy: float  # the squared norms of all samples


@dataclass(frozen=True)
class FirstNoise:
    """What is known of the misfits of the first codes."""

    n_samples: float
    n_features: float  # that are known of a sample, on average
    eps: float  # a misfit that is a smaller share of the squared norm of its sample is rounding
    unit: float  # of misfits in logarithms: a power of two, so that the unit of the samples changes no other digit
    sums: LogSums
    find_median: Callable[[], float]  # misfit of the samples that are no copies of an atom; NaN if all are

    @property
    def rounding_variance(self) -> float:
        """The noise variance if all misfits are rounding: it may be anything that is not larger."""
        return self.eps * (self.sums.energy / self.n_samples or 1.0) / (self.n_features + 2)


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


def fit_noise_prior(sums: LogSums, n_features: float) -> tuple[float, float]:
    r"""Return the weight :math:`d_0` and the logarithm of :math:`s_0^2` by empirical Bayes, from at least one misfit.

    If :math:`\sigma_i^2` has a scaled inverse chi-squared distribution, misfits over their number M of features have
    an F distribution, whose logarithm has the variance :math:`\psi'(M/2) + \psi'(d_0/2)`.

    References
    ----------
    Smyth, "Linear models and empirical Bayes methods for assessing differential expression in microarray experiments",
    Statistical Applications in Genetics and Molecular Biology 3, 2004, Section 6.2.
    """
    mean, largest = sums.logs / sums.n_noisy, _MOST_NOISE_WEIGHT * (n_features + 2)
    spread = (sums.squared_logs - sums.n_noisy * mean**2) / max(sums.n_noisy - 1, 1)
    excess = spread - float(polygamma(1, n_features / 2))
    if excess <= polygamma(1, largest / 2):
        weight = float(largest)
    else:
        weight = max(2 * invert_trigamma(excess), _LEAST_NOISE_WEIGHT)
    return weight, float(mean - digamma(n_features / 2) + digamma(weight / 2) - np.log(weight))


def expect_logs(n_samples: int, priors: Priors, n_features: int, unit: float) -> LogSums:
    """Return sums over this many samples for which empirical Bayes finds these priors, more or less."""
    weight = max(priors.noise_weight, _LEAST_NOISE_WEIGHT)
    log_variance = np.log(priors.noise_variance / unit)
    mean = float(log_variance + digamma(n_features / 2) - digamma(weight / 2) + np.log(weight))
    spread = float(polygamma(1, n_features / 2) + polygamma(1, weight / 2))
    energy = n_samples * priors.noise_variance * (n_features + 2)
    return LogSums(n_samples, n_samples * mean, (n_samples - 1) * spread + n_samples * mean**2, energy)


class Scales(BaseEstimator, ABC):
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
        """Raise unless all parameters make sense."""
        if self.noise not in NOISE_MODELS:
            raise ValueError(f"noise={self.noise!r} is not known; choose one of {sorted(NOISE_MODELS)}.")

    @abstractmethod
    def set_priors(
        self, noise: FirstNoise, costs: Floats, coef: Floats, n_labelled: NDArray, ridge: Floats, loss: Loss
    ) -> Priors:
        """Return the priors, from the noise of the first codes, and costs and coefficients of classifiers for them.

        They are set once, so that they do not move while the objective is lowered.
        """

    def estimate_noise(
        self, misfits: Floats, mean: float, n_features: float | NDArray, priors: Priors, is_copy: Flags | None = None
    ) -> tuple[Floats, Terms]:
        """Return the noise variances of some samples, given the mean misfit of all, and the terms that they are in.

        ``n_features`` are the known ones, of each sample or for a variance that all share of a sample on average.

        Copies of an atom, if they are named, have the typical variance.
        """
        used = misfits
        if self.noise == "shared":
            used = np.full_like(misfits, mean)
        elif is_copy is not None:
            typical = (n_features + 2) * priors.noise_variance
            used = np.where(is_copy, typical, misfits).astype(misfits.dtype)
        variance = priors.estimate_noise(used, n_features)
        return variance, sum_noise_terms(misfits, variance, n_features, priors)


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
        self, noise: FirstNoise, costs: Floats, coef: Floats, n_labelled: NDArray, ridge: Floats, loss: Loss
    ) -> Priors:
        sums = noise.sums
        if sums.n_noisy:
            noise_weight, log_variance = fit_noise_prior(sums, noise.n_features)
            noise_variance = noise.unit * float(np.exp(log_variance))
        else:
            noise_weight, noise_variance = _LEAST_NOISE_WEIGHT, noise.rounding_variance
        # At least as if one sample cost what it does without a classifier: separable classes may cost nothing at all.
        class_cost = np.maximum(costs + penalise(coef, ridge), loss.value(np.zeros(1))) / (n_labelled + 1)
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
        self, noise: FirstNoise, costs: Floats, coef: Floats, n_labelled: NDArray, ridge: Floats, loss: Loss
    ) -> Priors:
        median = noise.find_median() / (noise.n_features + 2)
        median = noise.rounding_variance if np.isnan(median) else median
        typical = float(np.median((costs + penalise(coef, ridge)) / (n_labelled + 1))) or 1.0
        floors = float(self.noise_floor * median), float(self.cost_floor * typical)
        return Priors(0.0, median, floors[0], 0.0, np.full(len(ridge), typical), floors[1], ridge)


SCALES: dict[str, type[Scales]] = {"conjugate": ConjugateScales, "jeffreys": JeffreysScales}


def resolve_scales(scales: str | Scales) -> Scales:
    """Return the scales registered under a name, or the object itself.

    Examples
    --------
    >>> resolve_scales("jeffreys")
    JeffreysScales()
    """
    resolved = resolve("scales", scales, SCALES, Scales)
    resolved.check_parameters()
    return resolved


class HasMisfit(Protocol):
    """What the objective needs of a sparse coder, which lives in a room above."""

    def measure_misfit(self, squared_residuals: Floats, codes: RowCodes, /) -> Floats: ...


def map_objective(
    X: ArrayLike,
    labels: ArrayLike,
    dictionary: ArrayLike,
    coef: ArrayLike,
    intercept: ArrayLike,
    codes: csr_array,
    *,
    noise_variance: ArrayLike,
    class_cost: ArrayLike,
    loss: str | Loss,
    sparse_coder: HasMisfit | None = None,
    classification_weight: float = 1.0,
    priors: Priors | None = None,
) -> MapObjective:
    r"""Evaluate the objective that a fit lowers, Eq. 3 of the paper with priors, term by term.

    Parameters
    ----------
    X, labels, dictionary, coef, intercept : array-like
        As for :func:`discriminative_encode`.
    codes : sparse matrix of shape (n_samples, n_components)
        The codes.
    noise_variance : array-like of shape (n_samples,)
        The paper's :math:`\sigma_i^2`.
    class_cost : array-like of shape (n_classes,)
        The paper's :math:`\gamma_j`.
    loss : str or Loss
        The classification cost.
    sparse_coder : SparseCoder or None, default=None
        The coder, if it has a penalty, which is added to the misfits.
    classification_weight : float, default=1.0
        What all terms of classifiers and class costs are multiplied by.
    priors : Priors or None, default=None
        The attribute ``priors_`` of a fitted model; by default those of the paper, which add nothing.

    Returns
    -------
    MapObjective
        The terms; their sum is ``total``.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from ddlearn import map_objective
    >>> terms = map_objective(
    ...     [[1.0, 1.0]], [[1]], [[1.0, 0.0]], [[0.5]], [0.0], csr_array([[1.0]]),
    ...     noise_variance=[1.0], class_cost=[0.5], loss="square",
    ... )
    >>> terms.representation, terms.log_noise, terms.classification
    (0.5, 0.0, 0.5)
    """
    X = check_array(X, dtype=[np.float64, np.float32], order="C", input_name="X")
    dictionary, labels, coef = (
        check_array(array, dtype=X.dtype, order="C", input_name=name)
        for name, array in (("dictionary", dictionary), ("labels", labels), ("coef", coef))
    )
    codes = csr_array(codes)
    shapes = {"codes": (len(X), len(dictionary)), "labels": (len(X), len(coef)), "coef": (len(coef), len(dictionary))}
    for name, array in (("codes", codes), ("labels", labels), ("coef", coef)):
        if array.shape != shapes[name]:
            raise ValueError(f"{name} has shape {array.shape}, expected {shapes[name]}.")
    rows = RowCodes.from_csr(codes, max(int(np.diff(codes.indptr).max(initial=0)), 1), X.dtype)
    variance = np.broadcast_to(np.asarray(noise_variance, dtype=np.float64), len(X))
    class_cost = np.broadcast_to(np.asarray(class_cost, dtype=np.float64), labels.shape[1])
    priors = Priors.flat(len(coef)) if priors is None else priors
    model = Model(dictionary, coef, np.asarray(intercept, dtype=X.dtype), class_cost)
    costs = sum_costs(labels, model.scores(rows), resolve_loss(loss))
    misfits = measure_residuals(X, rows, dictionary)
    if sparse_coder is not None:
        misfits = sparse_coder.measure_misfit(misfits, rows)
    n_labelled = np.count_nonzero(labels, axis=0)
    noise_terms = sum_noise_terms(misfits, variance, X.shape[1], priors)
    class_terms = sum_class_terms(costs, coef, class_cost, n_labelled, priors, classification_weight)
    return MapObjective(*noise_terms[:2], *class_terms[:2], prior=noise_terms[2] + class_terms[2])
