"""Invariant 12 of design.md: the label rule against enumeration of all hypotheses."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax

from ddlearn import LOSSES
from ddlearn.inference import compute_evidence, count_errors, label_probabilities

every_loss = pytest.mark.parametrize("loss", [loss_class() for loss_class in LOSSES.values()], ids=list(LOSSES))


@every_loss
def test_evidence_equals_enumeration_of_the_classes(loss):
    rng = np.random.default_rng(0)
    scores, class_cost = rng.standard_normal((50, 6)), rng.uniform(0.3, 2, 6)
    log_p = np.empty_like(scores)
    for j in range(6):
        labels = np.where(np.arange(6) == j, 1, -1)
        log_p[:, j] = -np.sum(loss.value(labels * scores) / class_cost, axis=1)
    expected = np.exp(log_p) / np.exp(log_p).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(softmax(compute_evidence(scores, loss, class_cost), axis=1), expected, rtol=1e-10)


@every_loss
def test_label_probabilities_equal_enumeration_of_each_label(loss):
    rng = np.random.default_rng(0)
    scores, class_cost = rng.standard_normal((50, 6)), rng.uniform(0.3, 2, 6)
    plus, minus = (np.exp(-loss.value(label * scores) / class_cost) for label in (1, -1))
    np.testing.assert_allclose(
        label_probabilities(compute_evidence(scores, loss, class_cost)), plus / (plus + minus), rtol=1e-10
    )


def test_class_costs_can_overrule_scores():
    class_cost = np.array([1.0, 0.1])
    evidence = compute_evidence(np.array([[1.0, 0.5]]), LOSSES["square"](), class_cost)
    assert evidence.argmax() == 1


def test_errors_count_labelled_samples_only():
    labels = np.array([[1.0, -1], [-1, 1], [0, 0]])
    evidence = np.array([[1.0, 0], [1.0, 0], [1.0, 0]])
    assert count_errors(labels, evidence, is_multilabel=False) == 0.5
    assert count_errors(labels, evidence - 0.5, is_multilabel=True) == 0.5
