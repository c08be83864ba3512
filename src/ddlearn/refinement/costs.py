r"""What refinement lowers, a cost of the scores of samples.

With scores :math:`s_j = w_j^T x + b_j`, one-vs-all, :math:`\sum_j \Omega(l_j s_j)/\gamma_j`, is the classification term
of Eq. 3 with label-free codes.  Softmax, :math:`-\ln\, (e^{s_y} / \sum_j e^{s_j})`, is for samples of one class each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.codes import Floats
from ..model.losses import Loss, compute_evidence
from ..model.measures import (
    count_errors,
    find_temperature,
    log_sum_exp,
    measure_calibration_error,
    measure_log_loss,
)


class RefinementCost(ABC):
    """A cost of scores for given labels of -1, 0 (unknown) and +1; its methods work row by row.

    Class costs weigh the labels of a sample, which may be several.  Where each sample has one class they are equal, so
    that the class of largest score has the largest evidence, and their size, the temperature, is the one that makes
    held-out labels likeliest.
    """

    name: str  # in the registry
    takes_multilabel = True
    # Half the curvature by a score, and the score of lowest cost for a label of +1, if the cost is a parabola.
    parabola: tuple[float, float] | None = None

    def __init__(self, loss: Loss, class_cost: Floats, label_weight: float):
        self.loss = loss
        self.class_cost = class_cost
        self.label_weight = label_weight

    @abstractmethod
    def value(self, scores: Floats, labels: Floats) -> Floats:
        """Return the cost of each row."""

    @abstractmethod
    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        """Return the derivative of each row's cost by its scores."""

    def differentiate(self, scores: Floats, labels: Floats) -> tuple[Floats, Floats]:
        """Return the cost of each row, and its derivative by the scores."""
        return self.value(scores, labels), self.gradient(scores, labels)

    @property
    @abstractmethod
    def usual_temperature(self) -> float:
        """The temperature of evidence where it cannot be estimated on held-out samples."""

    def evidence(self, scores: Floats) -> Floats:
        """Return the evidence for each class, from which errors are counted."""
        return compute_evidence(scores, self.loss, self.class_cost)

    def unit_evidence(self, scores: Floats) -> Floats:
        """Return the evidence with class costs of 1, which a temperature divides."""
        return compute_evidence(scores, self.loss, np.ones(scores.shape[1]))

    def set_class_cost(self, temperature: float | None) -> Floats:
        """Return the class costs of refined classifiers: those before, or one for all."""
        if temperature is None:
            return self.class_cost
        # Prediction divides class costs by the weight of the labels.
        return np.full_like(self.class_cost, temperature) * self.label_weight


class OneVsAllCost(RefinementCost):
    """The classification term of Eq. 3, for any loss."""

    name = "one_vs_all"
    usual_temperature = 1.0

    def __init__(self, loss: Loss, class_cost: Floats, label_weight: float):
        super().__init__(loss, class_cost, label_weight)
        self.weight = np.mean(class_cost) / class_cost / len(class_cost)
        if loss.is_quadratic and np.ptp(self.weight) == 0:
            slope, curvature = float(loss.gradient(np.zeros(1))[0]), float(loss.curvature(np.zeros(1))[0])
            self.parabola = float(self.weight[0]) * curvature / 2, -slope / curvature

    def value(self, scores: Floats, labels: Floats) -> Floats:
        return np.abs(labels) * self.loss.value(labels * scores) @ self.weight.astype(scores.dtype)

    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        return labels * self.loss.gradient(labels * scores) * self.weight.astype(scores.dtype)


class SoftmaxCost(RefinementCost):
    """The cross-entropy of one class against all others; labels are predicted by the evidence of the loss."""

    name = "softmax"
    takes_multilabel = False

    def value(self, scores: Floats, labels: Floats) -> Floats:
        return log_sum_exp(scores) - np.einsum("ij,ij->i", scores, (labels > 0).astype(scores.dtype))

    def gradient(self, scores: Floats, labels: Floats) -> Floats:
        return self.differentiate(scores, labels)[1]

    def differentiate(self, scores: Floats, labels: Floats) -> tuple[Floats, Floats]:
        is_right, logarithms = (labels > 0).astype(scores.dtype), log_sum_exp(scores)
        probabilities = np.exp(scores - logarithms[:, None])
        return logarithms - np.einsum("ij,ij->i", scores, is_right), probabilities - is_right

    @property
    def usual_temperature(self) -> float:
        # As in training, where scores are the evidence.
        return float(compute_evidence(np.ones(1), self.loss, np.ones(1))[0])


REFINEMENT_COSTS: dict[str, type[RefinementCost]] = {cost.name: cost for cost in (OneVsAllCost, SoftmaxCost)}


class Worth(NamedTuple):
    """What scores are worth; for multilabel targets the last three are NaN."""

    cost: float  # mean
    error: float  # share of misclassified samples (multilabel: labels)
    log_loss: float  # mean, with the temperature that suits the samples best
    calibration_error: float
    temperature: float


def measure_worth(
    scores: Floats, labels: Floats, weights: NDArray[np.float64], cost: RefinementCost, is_multilabel: bool
) -> tuple[Worth, Floats, Floats]:
    """Return what scores are worth, and the cost and the log-loss of each sample."""
    evidence, costs, unit_evidence = cost.evidence(scores), cost.value(scores, labels), cost.unit_evidence(scores)
    n_wrong, n_counted = count_errors(labels, evidence, is_multilabel, weights)
    mean_cost, error = float(np.average(costs, weights=weights)), n_wrong / (n_counted or 1)
    if is_multilabel:
        return Worth(mean_cost, error, *[float("nan")] * 3), costs, np.full_like(costs, np.nan)
    temperature = find_temperature(unit_evidence, labels, weights)
    log_losses = measure_log_loss(unit_evidence / temperature, labels)
    log_loss = float(np.average(log_losses, weights=weights))
    calibration_error = measure_calibration_error(unit_evidence / temperature, labels)
    return Worth(mean_cost, error, log_loss, calibration_error, temperature), costs, log_losses
