"""What evidence and probabilities are worth: errors, log-loss, expected calibration error, and the best temperature."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from .codes import Flags, Floats

_N_BINS = 15  # of equal width, as is usual for the expected calibration error (Guo et al., 2017)
# Evidence may be multiplied by factors between these powers of e.
_SCALE_RANGE = (-7.0, 7.0)


class Calibration(NamedTuple):
    """How far probabilities can be believed."""

    log_loss: float  # mean of minus the logarithm of the label's probability
    calibration_error: float  # expected difference between the probability of a prediction and how often it is right


class Reliability(NamedTuple):
    """Predictions by their probability: the points of the reliability curve, one per bin that is not empty."""

    n_samples: NDArray[np.intp]
    probability: Floats  # mean probability of the predictions
    accuracy: Floats  # share of them that are right


def count_errors(
    labels: NDArray, evidence: Floats, is_multilabel: bool, weights: NDArray | float = 1.0
) -> tuple[float, float]:
    """Return how many labelled samples are misclassified, and how many there are, each by its weight.

    For multilabel targets labels are counted, not samples.
    """
    labelled = labels.any(axis=1)
    weights = np.broadcast_to(weights, len(labels))[labelled]
    labels, evidence = labels[labelled], evidence[labelled]
    if is_multilabel:
        known = labels != 0
        is_wrong = np.where(evidence > 0, 1, -1)[known] != labels[known]
        weights = np.repeat(weights, np.count_nonzero(known, axis=1))
    else:
        is_wrong = labels[np.arange(len(labels)), evidence.argmax(axis=1)] != 1
    return float(weights @ is_wrong), float(weights.sum())


def log_sum_exp(scores: Floats) -> Floats:
    """Return the logarithm of each row's sum of exponentials: SciPy's, without its many calls for a few numbers."""
    by_class = np.ascontiguousarray(scores.T)  # along a few columns, NumPy's maxima and sums take thrice as long
    largest = by_class.max(axis=0)
    return largest + np.log(np.exp(by_class - largest).sum(axis=0))


def measure_log_loss(evidence: Floats, labels: Floats, doubt: float = 0.0) -> Floats:
    """Return the negative logarithm of the probability of each row's class, which may be any with some doubt."""
    right = np.take_along_axis(evidence, labels.argmax(axis=1)[:, None], axis=1)[:, 0]
    return log_sum_exp(evidence) - (1 - doubt) * right - doubt * np.mean(evidence, axis=1)


def find_temperature(evidence: Floats, labels: Floats, weights: NDArray[np.float64] | float = 1.0) -> float:
    """Return by what evidence must be divided for the likeliest classes."""
    # As if there were one more sample that could be of any class: a few without error are no reason for certainty.
    doubt, weights = 1 / (len(evidence) + 1), np.broadcast_to(weights, len(evidence))

    def mean_log_loss(power: float) -> float:
        temperature = 1 / float(np.exp(power))
        return float(np.average(measure_log_loss(evidence / temperature, labels, doubt), weights=weights))

    return 1 / float(np.exp(minimize_scalar(mean_log_loss, bounds=_SCALE_RANGE, method="bounded").x))


def measure_reliability(of_prediction: Floats, is_right: Flags) -> Reliability:
    """Compare the probabilities of predictions with how often they are right."""
    position = np.minimum((of_prediction * _N_BINS).astype(int), _N_BINS - 1)
    n_samples = np.bincount(position, minlength=_N_BINS)
    filled = n_samples > 0
    n_samples = n_samples[filled]
    totals = (np.bincount(position, values, minlength=_N_BINS)[filled] for values in (of_prediction, is_right))
    probability, accuracy = (total / n_samples for total in totals)
    return Reliability(n_samples, probability, accuracy)


def measure_calibration(of_label: Floats, of_prediction: Floats, is_right: Flags) -> Calibration:
    """Compare the probabilities of labels and of predictions with what came true."""
    smallest = np.finfo(of_label.dtype).eps
    n_samples, probability, accuracy = measure_reliability(of_prediction, is_right)
    mean_log_loss = -np.mean(np.log(np.maximum(of_label, smallest)), dtype=np.float64)
    return Calibration(float(mean_log_loss), float(np.abs(probability - accuracy) @ n_samples / len(is_right)))


def measure_calibration_error(evidence: Floats, labels: Floats) -> float:
    """Return the calibration error of the probabilities of the classes whose logarithm is the evidence."""
    probabilities = np.exp(evidence - log_sum_exp(evidence)[:, None])
    right = np.take_along_axis(probabilities, labels.argmax(axis=1)[:, None], axis=1)[:, 0]
    largest = probabilities.max(axis=1)
    return measure_calibration(right, largest, right == largest).calibration_error
