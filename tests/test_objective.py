"""The objective: its four terms, and the scales that minimise them."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from conftest import make_problem
from scipy.optimize import minimize_scalar

from ddlearn import LOSSES, MapObjective, Scales, map_objective, sparse_encode
from ddlearn.objective import (
    NOISE_MODELS,
    estimate_noise_per_sample,
    estimate_shared_noise,
    scale_classes,
    sum_class_terms,
    sum_costs,
    sum_noise_terms,
)
from ddlearn.parallel import LocalParts

every_loss = pytest.mark.parametrize("loss", [loss_class() for loss_class in LOSSES.values()], ids=list(LOSSES))


@pytest.fixture
def coded():
    problem = make_problem("planted", seed=0)
    codes = sparse_encode(problem.X, problem.dictionary, n_nonzero_coefs=problem.n_nonzero_coefs)
    return problem, codes


@every_loss
def test_terms_are_those_of_the_negative_log_posterior(coded, loss):
    # Eq. 3 written as probabilities: Gaussian residuals, exponential costs, Jeffreys priors 1/sigma^2 and 1/gamma.
    problem, codes = coded
    labels = problem.labels.copy()
    labels[:7] = 0
    n_features = problem.X.shape[1]
    minus_log = 0.0
    for i, (y, x) in enumerate(zip(problem.X, codes.toarray(), strict=True)):
        variance = problem.noise_variance[i]
        residual = y - x @ problem.dictionary
        minus_log -= np.sum(-(residual**2) / (2 * variance)) - n_features / 2 * np.log(variance) - np.log(variance)
        for j, gamma in enumerate(problem.class_cost):
            if labels[i, j]:
                z = labels[i, j] * (problem.coef[j] @ x + problem.intercept[j])
                minus_log -= -loss.value(np.array(z)) / gamma - np.log(gamma)
    minus_log += np.sum(np.log(problem.class_cost))
    terms = map_objective(
        problem.X,
        labels,
        problem.dictionary,
        problem.coef,
        problem.intercept,
        codes,
        noise_variance=problem.noise_variance,
        class_cost=problem.class_cost,
        loss=loss,
    )
    assert terms.total == pytest.approx(minus_log, rel=1e-12)
    assert terms.total == pytest.approx(
        terms.representation + terms.log_noise + terms.classification + terms.log_class_cost, rel=1e-15
    )


def test_noise_variance_minimises_its_terms():
    n_features = 20
    for squared_residual in (1e-3, 1.0, 50.0):

        def cost(variance, squared_residual=squared_residual):
            return squared_residual / (2 * variance) + (n_features + 2) / 2 * np.log(variance)

        best = minimize_scalar(cost, bounds=(1e-8, 100), method="bounded", options={"xatol": 1e-12}).x
        assert estimate_noise_per_sample(np.array([squared_residual]), 0.0, n_features, 0.0)[0] == pytest.approx(
            best, rel=1e-4
        )


def test_shared_noise_minimises_the_sum_over_samples():
    residuals, n_features = np.array([0.2, 1.0, 7.0]), 9

    def cost(variance):
        return np.sum(residuals / (2 * variance) + (n_features + 2) / 2 * np.log(variance))

    best = minimize_scalar(cost, bounds=(1e-6, 10), method="bounded", options={"xatol": 1e-12}).x
    shared = estimate_shared_noise(residuals, residuals.mean(), n_features, 0.0)
    assert shared == pytest.approx(best, rel=1e-4)
    assert len(np.unique(shared)) == 1


def test_class_cost_minimises_its_terms():
    def cost(gamma):
        return 5.0 / gamma + (3 + 1) * np.log(gamma)  # three labelled samples

    best = minimize_scalar(cost, bounds=(1e-6, 50), method="bounded", options={"xatol": 1e-12}).x
    class_cost, terms = scale_classes(np.array([5.0]), np.array([3]), 0.0, 1.0)
    assert class_cost[0] == pytest.approx(best, rel=1e-4)
    assert sum(terms) == pytest.approx(cost(best))


@pytest.mark.parametrize("noise", sorted(NOISE_MODELS))
def test_floors_hold(noise):
    assert (NOISE_MODELS[noise](np.zeros(5), 0.0, 10, 0.25) == 0.25).all()
    assert scale_classes(np.zeros(2), np.array([3, 3]), 0.5, 1.0)[0].tolist() == [0.5, 0.5]


def set_floors_of(residuals, costs, **shares):
    """Set floors from samples with two features in two parts, all of them labelled."""
    parts = LocalParts([SimpleNamespace(misfits=some) for some in (residuals[:2], residuals[2:])])
    n_labelled = np.full(len(costs), len(residuals))
    return Scales(**shares).set_floors(parts, len(residuals), residuals.dtype, costs, n_labelled, 2)


def test_floors_are_shares_of_the_median_over_samples_with_a_residual():
    # Samples that are atoms have none, and there may be more of them than of the others.
    residuals = np.array([0, 0, 1e-30, 1e-31, 8.0, 12.0, 16.0])
    floors = set_floors_of(residuals, np.array([4.0, 8.0, 40.0]), noise_floor=0.1, cost_floor=0.5)
    assert floors.noise_variance == pytest.approx(0.1 * 12 / 4)
    assert floors.class_cost == pytest.approx(0.5 * 8 / 8)


def test_floors_are_positive_even_without_any_residual_or_cost():
    floors = set_floors_of(np.zeros(3), np.zeros(2), noise_floor=0.1, cost_floor=0.1)
    assert min(floors) > 0


@every_loss
def test_an_unknown_label_costs_nothing(loss):
    scores = np.array([[3.0, -2.0]])
    assert sum_costs(np.array([[0.0, 1.0]]), scores, loss)[0] == 0


def test_objective_compares_with_the_size_of_its_terms():
    terms = MapObjective(representation=5.0, log_noise=-6.0, classification=2.0, log_class_cost=-1.0)
    assert terms.total == 0


@pytest.mark.parametrize("weight", [0.5, 10.0])
def test_the_weight_multiplies_the_two_terms_of_the_classifiers(weight):
    costs, class_cost, n_labelled = np.array([1.0, 4.0]), np.array([0.25, 2.0]), np.array([2, 3])
    classification, cost = sum_class_terms(costs, class_cost, n_labelled, weight)
    assert classification == pytest.approx(weight * (1 / 0.25 + 4 / 2), rel=1e-14)
    assert cost == pytest.approx(weight * (3 * np.log(0.25) + 4 * np.log(2)), rel=1e-14)


def test_scaling_the_data_shifts_only_the_noise_term():
    residuals = np.array([1.0, 2.0, 3.0])
    before, scaled = (
        sum_noise_terms(factor * residuals, estimate_noise_per_sample(factor * residuals, 0.0, 4, 0), 4)
        for factor in (1, 100)
    )
    assert scaled[0] == pytest.approx(before[0])
    assert scaled[1] == pytest.approx(before[1] + 3 * (4 + 2) / 2 * np.log(100))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"noise": "none"}, r"noise='none' is not known; choose one of \['per_sample', 'shared'\]"),
        ({"noise_floor": 0}, "noise_floor must be above 0: without a floor the objective is unbounded below"),
        ({"cost_floor": 0}, "cost_floor must be above 0"),
        ({"cost_floor": -1.0}, "cost_floor must be a number of at least 0, got -1.0"),
    ],
    ids=str,
)
def test_scales_without_a_minimum_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        Scales(**parameters).check_parameters()
