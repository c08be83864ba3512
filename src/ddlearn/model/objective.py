r"""The MAP objective (Eq. 3 of the paper) in its terms, the priors that give it a minimum, and the scales that do.

.. math::
    \underbrace{\sum_i \frac{\|y_i - D^T x_i\|^2}{2\sigma_i^2}}_{\text{representation}}
    + \underbrace{\sum_i \frac{M + 2}{2} \ln \sigma_i^2}_{\text{log noise}}
    + \underbrace{\sum_j \sum_i \frac{\Omega(z_{ij})}{\gamma_j}}_{\text{classification}}
    + \underbrace{\sum_j (N_j + 1) \ln \gamma_j}_{\text{log class cost}}

over N samples with M features, of which :math:`N_j` are labelled for class j.  It is unbounded below: a sample that
is an atom has :math:`\sigma_i \to 0`, separable classes have :math:`\gamma_j \to 0` and :math:`w_j \to \infty`.  So
proper priors are part of the model, whose minus logarithms are the fifth term (``scales.py``).

A coder with a penalty on codes implies a prior on them whose scale is tied to the noise of the sample (its constant is
left out, too): :math:`\|y_i - D^T x_i\|^2` plus twice the penalty, the *misfit*, replaces the squared residual.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.utils import check_array

from .codes import Floats, Model, RowCodes, measure_residuals
from .losses import LOSSES, Loss
from .scales import Priors, penalise

Weights = NDArray[np.float64] | float  # of samples; a number is that of all
Terms = tuple[float, float, float]  # two terms of Eq. 3, and what the priors of their scales add


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
    >>> from ddlearn.model.objective import MapObjective
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

    @classmethod
    def of(cls, noise_terms: Terms, class_terms: Terms) -> MapObjective:
        """Return the objective from the terms of samples and those of classes."""
        return cls(*noise_terms[:2], *class_terms[:2], prior=noise_terms[2] + class_terms[2])


def sum_costs(labels: Floats, scores: Floats, loss: Loss, weights: Weights = 1.0) -> NDArray[np.float64]:
    """Return each class's sum of classification costs; a label of 0 costs nothing."""
    costs = np.abs(labels) * loss.value(labels * scores)
    return np.sum(np.atleast_1d(weights)[:, None] * costs, axis=0, dtype=np.float64)


def sum_noise_terms(
    misfits: Floats, noise_variance: Floats, n_features: float | NDArray, priors: Priors, weights: Weights = 1.0
) -> Terms:
    """Return what some samples add to the first two terms, and to that of the priors."""
    variance = noise_variance.astype(np.float64)

    def add_up(terms: Floats) -> float:
        return float(np.sum(weights * terms))

    logs, weight = np.log(variance), priors.noise_weight
    prior = weight / 2 * (priors.noise_variance * add_up(1 / variance) + add_up(logs))
    return add_up(misfits / (2 * variance)), add_up((n_features + 2) / 2 * logs), prior


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
    costs = sum_costs(labels, model.scores(rows), LOSSES.resolve(loss))
    misfits = measure_residuals(X, rows, dictionary)
    if sparse_coder is not None:
        misfits = sparse_coder.measure_misfit(misfits, rows)
    n_labelled = np.count_nonzero(labels, axis=0)
    noise_terms = sum_noise_terms(misfits, variance, X.shape[1], priors)
    class_terms = sum_class_terms(costs, coef, class_cost, n_labelled, priors, classification_weight)
    return MapObjective.of(noise_terms, class_terms)
