"""What probabilities are worth: log-loss, expected calibration error, and the reliability curve."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_N_BINS = 15  # of equal width, as is usual for the expected calibration error (Guo et al., 2017)


class Calibration(NamedTuple):
    """How far probabilities can be believed."""

    log_loss: float  # mean of minus the logarithm of the label's probability
    calibration_error: float  # expected difference between the probability of a prediction and how often it is right


class Reliability(NamedTuple):
    """Predictions by their probability: the points of the reliability curve, one per bin that is not empty."""

    n_samples: NDArray[np.intp]
    probability: NDArray[np.floating]  # mean probability of the predictions
    accuracy: NDArray[np.floating]  # share of them that are right


def measure_reliability(of_prediction: NDArray[np.floating], is_right: NDArray[np.bool_]) -> Reliability:
    """Compare the probabilities of predictions with how often they are right."""
    position = np.minimum((of_prediction * _N_BINS).astype(int), _N_BINS - 1)
    n_samples = np.bincount(position, minlength=_N_BINS)
    filled = n_samples > 0
    n_samples = n_samples[filled]
    totals = (np.bincount(position, values, minlength=_N_BINS)[filled] for values in (of_prediction, is_right))
    probability, accuracy = (total / n_samples for total in totals)
    return Reliability(n_samples, probability, accuracy)


def measure_calibration(
    of_label: NDArray[np.floating], of_prediction: NDArray[np.floating], is_right: NDArray[np.bool_]
) -> Calibration:
    """Compare the probabilities of labels and of predictions with what came true."""
    smallest = np.finfo(of_label.dtype).eps
    n_samples, probability, accuracy = measure_reliability(of_prediction, is_right)
    log_loss = -np.mean(np.log(np.maximum(of_label, smallest)), dtype=np.float64)
    return Calibration(float(log_loss), float(np.abs(probability - accuracy) @ n_samples / len(is_right)))
