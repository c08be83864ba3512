r"""What refinement lowers: a cost of the scores :math:`s_j = w_j^T x + b_j` of label-free codes.

One-vs-all, :math:`\sum_j \Omega(l_j s_j)/\gamma_j`, is the classification term of Eq. 3 with codes that did not see the
labels.  Softmax, :math:`-\ln\, (e^{s_y} / \sum_j e^{s_j})`, is for samples of one class each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp, softmax

from ..inference.rules import compute_evidence
from ..losses import Loss

Floats = NDArray[np.floating]

# Scores, and the cost of all classes, may be multiplied by factors between these, as powers of e.
_SCALE_RANGE = (-7.0, 7.0)


class RefinementCost(ABC):
    """A cost of scores for given labels of -1, 0 (not known) and +1; its methods work row by row."""

    takes_multilabel = True

    def __init__(self, loss: Loss, class_cost: Floats):
        self.loss = loss
        self.class_cost = class_cost

    @abstractmethod
    def value(self, scores: Floats, labels: Floats) -> Floats:
        """Return the cost of each row."""

    @abstractmethod
    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        """Return the derivative of each row's cost by its scores."""

    @abstractmethod
    def weigh(self, scores: Floats) -> Floats:
        """Return the evidence of each class, by which the cost judges errors."""

    def scale_scores(self, scores: Floats, labels: Floats, penalty: float) -> float:
        """Return the factor for classifiers before the first step, where their size costs so much now."""
        return 1.0

    def set_class_cost(self, scores: Floats, labels: Floats) -> Floats:
        """Return the class costs that go with refined classifiers."""
        return self.class_cost


class OneVsAllCost(RefinementCost):
    """The classification term of Eq. 3, for any loss; class costs stay what they were."""

    def __init__(self, loss: Loss, class_cost: Floats):
        super().__init__(loss, class_cost)
        self.weight = np.mean(class_cost) / class_cost / len(class_cost)

    def value(self, scores: Floats, labels: Floats) -> Floats:
        return np.abs(labels) * self.loss.value(labels * scores) @ self.weight.astype(scores.dtype)

    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        return labels * self.loss.gradient(labels * scores) * self.weight.astype(scores.dtype)

    def weigh(self, scores: Floats) -> Floats:
        return compute_evidence(scores, self.loss, self.class_cost)


class SoftmaxCost(RefinementCost):
    """The cross-entropy of one class against all others.

    The label rule stays that of the loss; one class cost for all makes the class of largest score the class of largest
    evidence.  Its size is the one that makes probabilities most likely.
    """

    takes_multilabel = False

    def value(self, scores: Floats, labels: Floats) -> Floats:
        right = np.take_along_axis(scores, labels.argmax(axis=1)[:, None], axis=1)[:, 0]
        return logsumexp(scores, axis=1) - right

    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        return softmax(scores, axis=1) - (labels > 0)

    def weigh(self, scores: Floats) -> Floats:
        return scores

    def scale_scores(self, scores: Floats, labels: Floats, penalty: float) -> float:
        # Where classes are separable, only the penalty keeps scores finite.
        return _find_scale(lambda scale: self.value(scale * scores, labels) + scale**2 * penalty)

    def set_class_cost(self, scores: Floats, labels: Floats) -> Floats:
        evidence = compute_evidence(scores, self.loss, np.ones(scores.shape[1]))
        # As if there were one more sample that could be of any class: a few without error do not make one certain.
        doubt = 1 / (len(scores) + 1)

        def doubtful_cost(scale: float) -> Floats:
            scaled = scale * evidence
            anyone = logsumexp(scaled, axis=1) - np.mean(scaled, axis=1)
            return (1 - doubt) * self.value(scaled, labels) + doubt * anyone

        return np.full_like(self.class_cost, 1 / _find_scale(doubtful_cost))


def _find_scale(costs_at: Callable[[float], Floats]) -> float:
    """Return the positive factor at which the mean of the rows' costs is lowest."""

    def mean_cost(power: float) -> float:
        return float(np.mean(costs_at(float(np.exp(power)))))

    return float(np.exp(minimize_scalar(mean_cost, bounds=_SCALE_RANGE, method="bounded").x))


REFINEMENT_COSTS: dict[str, type[RefinementCost]] = {"softmax": SoftmaxCost, "one_vs_all": OneVsAllCost}
