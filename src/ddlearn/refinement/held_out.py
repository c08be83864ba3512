"""Samples that are held out: which ones, and what the scores of a model for them are worth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..model.codes import Floats
from ..model.measures import count_errors, find_temperature, measure_calibration_error, measure_log_loss
from .costs import RefinementCost

_SEED = 0  # the same for every fit, so that a resumed fit holds out the same samples


def hold_out(class_index: NDArray[np.intp], share: float, first: int = 0) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of labelled samples to learn from, and of a share of each class to hold out, both shuffled.

    In the order in which samples are shuffled, ``first`` is the first of each class to be held out: with a share of 1/4
    the numbers 0 to 3 make four folds.  Other than by scikit-learn's ``StratifiedKFold``, which refuses classes with
    fewer samples than folds, a class of one sample is always learned from.  The class of a sample without label is -1.
    """
    rows = np.random.RandomState(_SEED).permutation(np.flatnonzero(class_index >= 0))
    by_class = rows[np.argsort(class_index[rows], kind="stable")]
    _, start, place, n_members = np.unique(
        class_index[by_class], return_index=True, return_inverse=True, return_counts=True
    )
    turn = np.arange(len(rows)) - start[place] - first
    is_held_out = np.zeros(len(class_index), bool)
    is_held_out[by_class] = (np.ceil((turn + 1) * share) > np.ceil(turn * share)) & (n_members[place] > 1)
    return rows[~is_held_out[rows]], rows[is_held_out[rows]]


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
    evidence, costs = cost.evidence(scores), cost.value(scores, labels)
    n_wrong, n_counted = count_errors(labels, evidence, is_multilabel, weights)
    mean_cost, error = float(np.average(costs, weights=weights)), n_wrong / (n_counted or 1)
    if is_multilabel:
        return Worth(mean_cost, error, *[float("nan")] * 3), costs, np.full_like(costs, np.nan)
    evidence = cost.unit_evidence(scores)
    temperature = find_temperature(evidence, labels, weights)
    log_losses = measure_log_loss(evidence / temperature, labels)
    log_loss = float(np.average(log_losses, weights=weights))
    calibration_error = measure_calibration_error(evidence / temperature, labels)
    return Worth(mean_cost, error, log_loss, calibration_error, temperature), costs, log_losses
