"""The costs that refinement lowers, against finite differences and their definitions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from sklearn.metrics import log_loss

from ddlearn import Logistic, Square
from ddlearn.inference.rules import compute_evidence
from ddlearn.model.losses import LOSSES
from ddlearn.model.measures import find_temperature
from ddlearn.refinement.costs import REFINEMENT_COSTS

COSTS = [("one_vs_all", loss) for loss in LOSSES] + [("softmax", "square")]
CLASS_COST = np.array([0.5, 1.0, 2.0, 0.7])
STEP = 1e-6


def make_cost(name, loss):
    return REFINEMENT_COSTS[name](LOSSES[loss](), CLASS_COST, 1.0)


def draw(n_rows=40, strength=1.0, seed=0):
    """Return scores, and labels of classes that score higher the stronger they are."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(4, size=n_rows)
    labels = np.where(classes[:, None] == np.arange(4), 1.0, -1.0)
    return rng.standard_normal((n_rows, 4)) + strength * labels, labels, classes


@pytest.mark.parametrize(("name", "loss"), COSTS)
def test_gradients_of_costs_are_those_of_the_values(name, loss):
    cost = make_cost(name, loss)
    scores, labels, _ = draw()
    gradient = cost.gradient(scores, labels)
    for j in range(4):
        step = 1e-6 * (np.arange(4) == j)
        slope = (cost.value(scores + step, labels) - cost.value(scores - step, labels)) / 2e-6
        np.testing.assert_allclose(gradient[:, j], slope, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("name", "loss"), COSTS)
def test_costs_of_float32_are_float32(name, loss):
    cost = make_cost(name, loss)
    scores, labels, _ = (array.astype(np.float32) for array in draw())
    assert cost.value(scores, labels).dtype == cost.gradient(scores, labels).dtype == np.float32


@pytest.mark.parametrize("loss", LOSSES)
def test_one_vs_all_is_the_papers_term_and_labels_that_are_not_known_cost_nothing(loss):
    cost = make_cost("one_vs_all", loss)
    scores, labels, _ = draw()
    labels[::3, 1] = 0
    term = np.where(labels != 0, LOSSES[loss]().value(labels * scores), 0) / CLASS_COST
    value = cost.value(scores, labels)
    np.testing.assert_allclose(value / value.sum(), term.sum(axis=1) / term.sum(), rtol=1e-12)
    assert (cost.gradient(scores, labels)[::3, 1] == 0).all()
    np.testing.assert_array_equal(cost.set_class_cost(None), CLASS_COST)


def test_softmax_is_cross_entropy():
    scores, labels, classes = draw()
    value = make_cost("softmax", "square").value(scores, labels)
    assert np.mean(value) == pytest.approx(log_loss(classes, softmax(scores, axis=1)))


@pytest.mark.parametrize("loss", ["square", "logistic"])
def test_with_the_usual_temperature_softmax_of_the_evidence_is_that_of_the_scores(loss):
    cost = make_cost("softmax", loss)
    scores = draw()[0]
    evidence = compute_evidence(scores, cost.loss, cost.set_class_cost(cost.usual_temperature))
    np.testing.assert_allclose(softmax(evidence, axis=1), softmax(scores, axis=1), rtol=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", REFINEMENT_COSTS)
def test_one_class_cost_for_all_keeps_the_class_of_largest_score_and_makes_probabilities_likely(name, loss):
    cost = make_cost(name, loss)
    # Scores where costs with labels of the wrong sign are still finite.
    train, test = (draw(2000, 0.5, seed) for seed in range(2))
    temperature = find_temperature(cost.unit_evidence(train[0]), train[1])
    class_cost = cost.set_class_cost(temperature)
    assert (class_cost == class_cost[0]).all()
    weighted = REFINEMENT_COSTS[name](cost.loss, CLASS_COST, 3.0).set_class_cost(temperature)
    np.testing.assert_allclose(weighted / 3.0, class_cost)  # prediction divides by the weight of the labels
    scores, _, classes = test
    evidence = compute_evidence(scores, cost.loss, class_cost)
    np.testing.assert_array_equal(evidence.argmax(axis=1), scores.argmax(axis=1))
    plain = compute_evidence(scores, cost.loss, np.ones(4))
    assert log_loss(classes, softmax(evidence, axis=1)) <= log_loss(classes, softmax(plain, axis=1)) + 1e-3


def test_only_one_vs_all_takes_several_labels():
    assert {name for name, cost in REFINEMENT_COSTS.items() if cost.takes_multilabel} == {"one_vs_all"}


@pytest.mark.parametrize(("weight", "is_parabola"), [(CLASS_COST, False), (np.ones(4), True)])
def test_a_parabola_is_the_whole_cost(weight, is_parabola):
    scores, labels, _ = draw()
    assert REFINEMENT_COSTS["one_vs_all"](Logistic(), weight, 1.0).parabola is None
    cost = REFINEMENT_COSTS["one_vs_all"](Square(), weight, 1.0)
    assert (cost.parabola is not None) == is_parabola
    if is_parabola:
        half_curvature, wanted = cost.parabola
        expected = half_curvature * np.sum((scores - wanted * labels) ** 2, axis=1)
        np.testing.assert_allclose(cost.value(scores, labels), expected)
