r"""The MAP objective (Eq. 3 of the paper) in its four terms, and the scales that minimise it.

.. math::
    \underbrace{\sum_i \frac{\|y_i - D^T x_i\|^2}{2\sigma_i^2}}_{\text{representation}}
    + \underbrace{\sum_i \frac{M + 2}{2} \ln \sigma_i^2}_{\text{log noise}}
    + \underbrace{\sum_j \sum_i \frac{\Omega(z_{ij})}{\gamma_j}}_{\text{classification}}
    + \underbrace{\sum_j (N_j + 1) \ln \gamma_j}_{\text{log class cost}}

over N samples with M features, of which :math:`N_j` are labelled for class j.  It is unbounded below: a sample that
is an atom has :math:`\sigma_i \to 0`, separable classes have :math:`\gamma_j \to 0`.  So floors on both are part of
the model.

A coder with a penalty on codes implies a prior on them whose scale is tied to the noise of the sample (its constant is
left out): :math:`\|y_i - D^T x_i\|^2` plus twice the penalty, the *misfit*, replaces the squared residual.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from .codes import Floats, Model, RowCodes, measure_residuals
from .coding.coders import SparseCoder
from .coding.encoder import resolve_sparse_coder
from .losses import Loss, check_number, resolve_loss
from .parallel import Parts, find_median


class MapObjective(NamedTuple):
    """The four terms of Eq. 3.

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

    @property
    def total(self) -> float:
        """The objective, the sum of its terms."""
        return sum(self)


def sum_costs(labels: Floats, scores: Floats, loss: Loss) -> NDArray[np.float64]:
    """Return each class's sum of classification costs; a label of 0 costs nothing."""
    costs = np.abs(labels) * loss.value(labels * scores)
    return costs.sum(axis=0, dtype=np.float64)


def sum_noise_terms(misfits: Floats, noise_variance: Floats, n_features: int) -> tuple[float, float]:
    """Return what some samples add to the first two terms."""
    variance = noise_variance.astype(np.float64)
    representation = float(np.sum(misfits / (2 * variance)))
    return representation, float((n_features + 2) / 2 * np.sum(np.log(variance)))


def scale_classes(
    costs: Floats, n_labelled: NDArray, floor: float, classification_weight: float
) -> tuple[NDArray[np.float64], tuple[float, float]]:
    r"""Return the class costs, :math:`\sum_i \Omega(z_{ij}) / (N_j + 1)` or the floor, and the last two terms."""
    class_cost = np.maximum(costs / (n_labelled + 1), floor)
    return class_cost, sum_class_terms(costs, class_cost, n_labelled, classification_weight)


def sum_class_terms(
    costs: Floats, class_cost: Floats, n_labelled: NDArray, classification_weight: float = 1.0
) -> tuple[float, float]:
    """Return the last two terms; ``costs`` come from :func:`sum_costs`.

    The weight is on both terms: on the costs alone, the class costs would grow with it and undo it.
    """
    return (
        float(classification_weight * np.sum(costs / class_cost)),
        float(classification_weight * np.sum((n_labelled + 1) * np.log(class_cost))),
    )


class Floors(NamedTuple):
    """The smallest noise variance and class cost that a fit allows."""

    noise_variance: float
    class_cost: float


def estimate_noise_per_sample(misfits: Floats, mean: float, n_features: int, floor: float) -> Floats:
    r"""Return :math:`\sigma_i^2 = r_i^2 / (M + 2)` for misfits :math:`r_i^2`, the paper's estimate, or the floor."""
    return np.maximum(misfits / (n_features + 2), misfits.dtype.type(floor))


def estimate_shared_noise(misfits: Floats, mean: float, n_features: int, floor: float) -> Floats:
    r"""Return one variance for all samples, :math:`\sum_i r_i^2 / (N (M + 2))`, or the floor."""
    return np.full_like(misfits, max(mean / (n_features + 2), floor))


# From some misfits, the mean of all misfits, the number of features and the floor.
NOISE_MODELS: dict[str, Callable[[Floats, float, int, float], Floats]] = {
    "per_sample": estimate_noise_per_sample,
    "shared": estimate_shared_noise,
}


class Scales(BaseEstimator):
    r"""How the scales of the objective, :math:`\sigma_i^2` and :math:`\gamma_j`, are estimated.

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
    >>> from ddlearn import DDLClassifier, Scales
    >>> DDLClassifier(scales=Scales(noise="shared"))
    DDLClassifier(scales=Scales(noise='shared'))
    """

    def __init__(self, noise: str = "per_sample", *, noise_floor: float = 0.1, cost_floor: float = 0.3):
        self.noise = noise
        self.noise_floor = noise_floor
        self.cost_floor = cost_floor

    def check_parameters(self) -> None:
        """Raise unless all parameters make sense."""
        if self.noise not in NOISE_MODELS:
            raise ValueError(f"noise={self.noise!r} is not known; choose one of {sorted(NOISE_MODELS)}.")
        for name in ("noise_floor", "cost_floor"):
            check_number(name, getattr(self, name), Real)
            if getattr(self, name) == 0:
                raise ValueError(f"{name} must be above 0: without a floor the objective is unbounded below.")

    def estimate_noise(
        self, misfits: Floats, mean: float, n_features: int, floor: float
    ) -> tuple[Floats, tuple[float, float]]:
        """Return the noise variances of some samples, given the mean misfit of all, and the first two terms."""
        variance = NOISE_MODELS[self.noise](misfits, mean, n_features, floor)
        return variance, sum_noise_terms(misfits, variance, n_features)

    def set_floors(
        self,
        parts: Parts[Any],
        n_samples: int,
        dtype: np.dtype,
        costs: Floats,
        n_labelled: NDArray[np.integer],
        n_features: int,
    ) -> Floors:
        """Return floors relative to the median scales of the first codes, whose misfits the parts hold.

        They are set once, so that they do not move while the objective is lowered.  The misfits of samples that are
        atoms are rounding errors and say nothing about the noise, so the median is over the others.
        """
        median = find_median(parts.map_attribute("misfits"), n_samples, dtype, float(np.finfo(dtype).eps))
        return self.scale_floors(1.0 if np.isnan(median) else median / (n_features + 2), costs, n_labelled)

    def scale_floors(self, typical_variance: float, costs: Floats, n_labelled: NDArray) -> Floors:
        """Return floors relative to a typical noise variance and the median class cost."""
        typical_cost = np.median(costs / (n_labelled + 1)) or 1.0
        return Floors(float(self.noise_floor * typical_variance), float(self.cost_floor * typical_cost))


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
    sparse_coder: str | SparseCoder = "omp",
) -> MapObjective:
    r"""Evaluate the paper's objective (Eq. 3), term by term.

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
    sparse_coder : str or SparseCoder, default="omp"
        The coder, whose penalty on codes counts if it has one.

    Returns
    -------
    MapObjective
        The four terms; their sum is ``total``.

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
    model = Model(dictionary, coef, np.asarray(intercept, dtype=X.dtype), class_cost)
    costs = sum_costs(labels, model.scores(rows), resolve_loss(loss))
    misfits = resolve_sparse_coder(sparse_coder).measure_misfit(measure_residuals(X, rows, dictionary), rows)
    return MapObjective(
        *sum_noise_terms(misfits, variance, X.shape[1]),
        *sum_class_terms(costs, class_cost, np.count_nonzero(labels, axis=0)),
    )
