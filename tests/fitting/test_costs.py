"""What refinement lowers: derivatives against finite differences, and class costs that make probabilities likely."""

from __future__ import annotations

import numpy as np
import pytest
from ddlearn.fitting.loop.refinement import REFINEMENT_COSTS
from ddlearn.inference.rules.rules import compute_evidence
from scipy.special import softmax
from sklearn.metrics import log_loss

from ddlearn import LOSSES, Logistic

CASES = [("one_vs_all", loss) for loss in LOSSES] + [("softmax", "logistic")]
CLASS_COST = np.array([0.5, 1.0, 2.0, 0.7])


def make(name, loss):
    return REFINEMENT_COSTS[name](LOSSES[loss](), CLASS_COST)


def draw(n_rows=40, strength=1.0, seed=0):
    """Return scores, and labels of classes that score higher the stronger they are."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(4, size=n_rows)
    labels = np.where(classes[:, None] == np.arange(4), 1.0, -1.0)
    return rng.standard_normal((n_rows, 4)) + strength * labels, labels, classes


@pytest.mark.parametrize(("name", "loss"), CASES)
def test_gradients_are_those_of_the_values(name, loss):
    cost = make(name, loss)
    scores, labels, _ = draw()
    gradient = cost.gradient(scores, labels)
    for j in range(4):
        step = 1e-6 * (np.arange(4) == j)
        slope = (cost.value(scores + step, labels) - cost.value(scores - step, labels)) / 2e-6
        np.testing.assert_allclose(gradient[:, j], slope, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("name", "loss"), CASES)
def test_float32_stays_float32(name, loss):
    cost = make(name, loss)
    scores, labels, _ = (array.astype(np.float32) for array in draw())
    assert cost.value(scores, labels).dtype == cost.gradient(scores, labels).dtype == np.float32


@pytest.mark.parametrize("loss", LOSSES)
def test_one_vs_all_is_the_papers_term_and_labels_that_are_not_known_cost_nothing(loss):
    cost = make("one_vs_all", loss)
    scores, labels, _ = draw()
    labels[::3, 1] = 0
    term = np.where(labels != 0, LOSSES[loss]().value(labels * scores), 0) / CLASS_COST
    value = cost.value(scores, labels)
    np.testing.assert_allclose(value / value.sum(), term.sum(axis=1) / term.sum(), rtol=1e-12)
    assert (cost.gradient(scores, labels)[::3, 1] == 0).all()
    np.testing.assert_array_equal(cost.set_class_cost(scores, labels), CLASS_COST)


def test_softmax_is_cross_entropy():
    scores, labels, classes = draw()
    value = make("softmax", "square").value(scores, labels)
    assert np.mean(value) == pytest.approx(log_loss(classes, softmax(scores, axis=1)))


def test_softmax_scales_scores_to_the_lowest_cost():
    cost = make("softmax", "logistic")
    scores, labels, _ = draw(400)
    for factor in (0.01, 1.0, 100.0):
        scale = cost.scale_scores(factor * scores, labels, 0.0)
        around = [np.mean(cost.value(step * scale * factor * scores, labels)) for step in (0.95, 1.0, 1.05)]
        assert around[1] == min(around)
    # Of classes that scores separate, the penalty decides.
    scores = 10 * labels
    assert cost.scale_scores(scores, labels, 1.0) < cost.scale_scores(scores, labels, 0.01) < 1


@pytest.mark.parametrize("loss", LOSSES)
def test_one_class_cost_for_all_keeps_the_class_of_largest_score_and_makes_probabilities_likely(loss):
    cost = make("softmax", loss)
    # Scores where costs with labels of the wrong sign are still finite.
    train, test = (draw(2000, 0.5, seed) for seed in range(2))
    class_cost = cost.set_class_cost(*train[:2])
    assert (class_cost == class_cost[0]).all()
    scores, _, classes = test
    evidence = compute_evidence(scores, cost.loss, class_cost)
    np.testing.assert_array_equal(evidence.argmax(axis=1), scores.argmax(axis=1))
    plain = compute_evidence(scores, cost.loss, np.ones(4))
    assert log_loss(classes, softmax(evidence, axis=1)) <= log_loss(classes, softmax(plain, axis=1)) + 1e-3


def test_only_one_vs_all_takes_several_labels():
    assert {name for name, cost in REFINEMENT_COSTS.items() if cost.takes_multilabel} == {"one_vs_all"}


def test_errors_are_judged_by_evidence_or_by_scores():
    scores = draw()[0]
    expected = compute_evidence(scores, Logistic(), CLASS_COST)
    np.testing.assert_array_equal(make("one_vs_all", "logistic").weigh(scores), expected)
    np.testing.assert_array_equal(make("softmax", "logistic").weigh(scores), scores)
