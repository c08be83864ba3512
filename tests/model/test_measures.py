"""Log-loss, the temperature of least log-loss, expected calibration error, and the reliability curve."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import log_loss

from ddlearn.model.measures import find_temperature, measure_calibration, measure_log_loss, measure_reliability


def test_calibration_is_log_loss_and_the_expected_difference_of_confidence_and_accuracy():
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(3), 20000)
    labels = (probabilities.cumsum(axis=1) < rng.random((20000, 1))).sum(axis=1)
    of_label = np.take_along_axis(probabilities, labels[:, None], axis=1)[:, 0]
    best = probabilities.argmax(axis=1)
    calibrated = measure_calibration(of_label, probabilities.max(axis=1), best == labels)
    assert calibrated.log_loss == pytest.approx(log_loss(labels, probabilities))
    assert calibrated.calibration_error < 0.02
    certain = measure_calibration(of_label, np.ones(20000), best == labels)
    assert certain.calibration_error == pytest.approx(np.mean(best != labels))


def test_a_label_that_was_impossible_costs_much_but_not_infinitely():
    assert 30 < measure_calibration(np.zeros(1), np.ones(1), np.zeros(1, bool)).log_loss < 40


def test_the_points_of_the_reliability_curve_are_means_of_bins():
    probability = np.array([0.51, 0.52, 0.91, 1.0])
    found = measure_reliability(probability, np.array([True, False, True, True]))
    assert found.n_samples.tolist() == [2, 1, 1]
    np.testing.assert_allclose(found.probability, [0.515, 0.91, 1.0])
    np.testing.assert_allclose(found.accuracy, [0.5, 1.0, 1.0])


def draw_evidence():
    rng = np.random.default_rng(0)
    classes = rng.integers(4, size=400)
    labels = np.where(classes[:, None] == np.arange(4), 1.0, -1.0)
    return 0.5 * labels + rng.normal(size=labels.shape), labels, classes


def test_a_temperature_with_weights_is_that_of_repeated_samples():
    evidence, labels, _ = draw_evidence()
    weights = np.where(evidence.argmax(axis=1) == labels.argmax(axis=1), 1, 3)
    repeated = find_temperature(*(np.repeat(array, weights, axis=0) for array in (evidence, labels)))
    assert find_temperature(evidence, labels, weights) == pytest.approx(repeated, rel=0.01)  # they are less in doubt
    assert find_temperature(evidence, labels) != pytest.approx(repeated, rel=0.01)


def test_log_loss_is_that_of_the_probabilities():
    evidence, labels, classes = draw_evidence()
    assert np.mean(measure_log_loss(evidence, labels)) == pytest.approx(log_loss(classes, softmax(evidence, axis=1)))
