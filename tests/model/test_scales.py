"""Noise variances and class costs: the priors, and the values that minimise the objective."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import every_loss
from scipy.optimize import minimize_scalar
from scipy.special import polygamma

from ddlearn import ConjugateScales, JeffreysScales
from ddlearn.model.losses import LOSSES
from ddlearn.model.objective import sum_class_terms, sum_noise_terms
from ddlearn.model.scales import (
    SCALES,
    MisfitSums,
    Priors,
    find_unit,
    fit_noise_prior,
    invert_trigamma,
)
from ddlearn.parallel import Parts, find_median

PRIORS = {
    "conjugate": Priors(3.4, 0.02, 0.0, 0.3, np.array([0.3, 2.0]), 0.0, np.array([0.7, 0.1])),
    "flat": Priors.flat(2),
}


def minimise(cost):
    """Return where a function of a scale is least, over many orders of magnitude."""
    return float(np.exp(minimize_scalar(lambda log: cost(np.exp(log)), bounds=(-25, 25), options={"xatol": 1e-10}).x))


@pytest.mark.parametrize("priors", PRIORS.values(), ids=list(PRIORS))
@pytest.mark.parametrize("misfit", [1e-3, 1.0, 50.0])
def test_noise_variance_minimises_its_terms(priors, misfit):
    misfits = np.array([misfit])
    best = minimise(lambda variance: sum(sum_noise_terms(misfits, np.array([variance]), 20, priors)))
    assert priors.estimate_noise(misfits, 20)[0] == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("scales", SCALES.values(), ids=list(SCALES))
@pytest.mark.parametrize("priors", PRIORS.values(), ids=list(PRIORS))
def test_shared_noise_minimises_the_sum_over_samples(scales, priors):
    misfits = np.array([0.2, 1.0, 7.0])
    best = minimise(lambda variance: sum(sum_noise_terms(misfits, np.full(3, variance), 9, priors)))
    shared = scales("shared").estimate_noise(misfits, misfits.mean(), 9, priors)
    assert shared == pytest.approx(best, rel=1e-6)
    assert len(np.unique(shared)) == 1


@pytest.mark.parametrize("priors", PRIORS.values(), ids=list(PRIORS))
@pytest.mark.parametrize("weight", [0.5, 1.0, 10.0])
def test_class_costs_minimise_their_terms_whatever_the_weight(priors, weight):
    # Were the weight on the costs alone, the best class cost would be that many times larger, and undo it.
    costs, coef, n_labelled = np.array([5.0, 0.01]), np.array([[1.0, -2.0], [0.5, 0.0]]), np.array([3, 7])
    class_cost = priors.estimate_class_cost(costs, coef, n_labelled)
    for j in range(2):

        def cost(gamma, j=j):
            there = np.where(np.arange(2) == j, gamma, class_cost)
            return sum(sum_class_terms(costs, coef, there, n_labelled, priors, weight))

        assert class_cost[j] == pytest.approx(minimise(cost), rel=1e-6)


def test_floors_hold():
    priors = Priors.flat(2)._replace(noise_floor=0.25, cost_floor=0.5)
    assert (priors.estimate_noise(np.zeros(5), 10) == 0.25).all()
    assert priors.estimate_class_cost(np.zeros(2), np.zeros((2, 3)), np.array([3, 3])).tolist() == [0.5, 0.5]


def summarise(misfits, n_features=2, energy=100.0):
    """Return the sums over samples in two parts, and what finds their median."""
    parts, eps = Parts([misfits[:2], misfits[2:]]), np.finfo(misfits.dtype).eps
    logs = np.log(misfits[misfits > 1e-20] / 4.0)
    sums = MisfitSums(n_features, eps, 4.0, len(misfits), len(logs), logs.sum(), logs @ logs, energy)
    return sums, lambda: find_median(parts, len(misfits), misfits.dtype, eps)


def sum_logs(logs, n_features):
    return MisfitSums(n_features, 0.0, 1.0, len(logs), len(logs), logs.sum(), logs @ logs)


def test_floors_are_shares_of_the_median_over_samples_with_a_residual():
    # Samples that are atoms have none, and there may be more of them than of the others.
    noise = summarise(np.array([0, 0, 1e-30, 1e-31, 8.0, 12.0, 16.0]))
    costs, n_labelled = np.array([4.0, 8.0, 40.0]), np.full(3, 7)
    scales = JeffreysScales(noise_floor=0.1, cost_floor=0.5)
    priors = scales.set_priors(*noise, costs, n_labelled, np.ones(3), LOSSES["square"]())
    assert priors.noise_floor == pytest.approx(0.1 * 12 / 4)
    assert priors.cost_floor == pytest.approx(0.5 * 8 / 8)
    assert (priors.noise_weight, priors.cost_weight) == (0, 0)


@every_loss
@pytest.mark.parametrize("scales", SCALES.values(), ids=list(SCALES))
@pytest.mark.parametrize("energy", [0.0, 12.0])
def test_scales_are_positive_even_without_any_residual_cost_or_label(loss, scales, energy):
    noise = summarise(np.zeros(3), energy=energy)
    priors = scales().set_priors(*noise, np.zeros(2), np.array([0, 5]), np.zeros(2), loss)
    assert np.isfinite(np.concatenate([np.atleast_1d(value) for value in priors])).all()
    assert (priors.estimate_noise(np.zeros(2), 2) > 0).all()
    assert priors.noise_variance <= 1e-15 * (energy or 3.0)  # it is not known, but hardly more than rounding
    assert (priors.estimate_class_cost(np.zeros(2), np.zeros((2, 4)), np.array([0, 5])) > 0).all()


@pytest.mark.parametrize("value", [1e-6, 1e-3, 0.1, 1.0, 30.0, 1e4])
def test_trigamma_is_inverted(value):
    assert polygamma(1, invert_trigamma(value)) == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize(("weight", "variance", "n_features"), [(3.4, 0.02, 256), (1.6, 5.0, 60), (40.0, 1e-6, 20)])
def test_empirical_bayes_recovers_a_planted_prior(weight, variance, n_features):
    rng = np.random.default_rng(0)
    sigma2 = weight * variance / rng.chisquare(weight, 20000)
    logs = np.log(sigma2 * rng.chisquare(n_features, 20000))
    found, log_variance = fit_noise_prior(sum_logs(logs, n_features))
    assert found == pytest.approx(weight, rel=0.05)
    assert np.exp(log_variance) == pytest.approx(variance, rel=0.05)


def test_equal_misfits_make_the_prior_strong_and_wild_ones_weak():
    logs = np.full(50, np.log(7.0))
    weight, log_variance = fit_noise_prior(sum_logs(logs, 10))
    assert weight == 100 * 12
    assert np.exp(log_variance) == pytest.approx(0.7, rel=0.15)  # the mean logarithm of chi-squared is below its mean
    wild = np.linspace(-60, 60, 50)
    assert fit_noise_prior(sum_logs(wild, 10))[0] == 1


@pytest.mark.parametrize("weight", [1.5, 12.0])
def test_expected_sums_are_those_of_the_prior(weight):
    priors = Priors.flat(2)._replace(noise_weight=weight, noise_variance=0.3)
    found, log_variance = fit_noise_prior(MisfitSums.expected(1000, priors, 64, 0.0, 2.0))
    assert found == pytest.approx(weight, rel=1e-8)
    assert 2 * np.exp(log_variance) == pytest.approx(0.3, rel=1e-8)


@pytest.mark.parametrize("number", [1e-30, 0.3, 1.0, 5.0, 1e20])
def test_the_unit_of_misfits_is_a_power_of_two_and_grows_with_them(number):
    unit = find_unit(number)
    assert number < unit <= 2 * number
    assert np.frexp(unit)[0] == 0.5
    assert find_unit(16 * number) == 16 * unit


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        (JeffreysScales("none"), r"noise='none' is not known; choose one of \['per_sample', 'shared'\]"),
        (
            JeffreysScales(noise_floor=0),
            "noise_floor must be above 0: without a floor the objective is unbounded below",
        ),
        (JeffreysScales(cost_floor=0), "cost_floor must be above 0"),
        (JeffreysScales(cost_floor=-1.0), "cost_floor must be a number of at least 0, got -1.0"),
        (ConjugateScales(cost_weight=0), "cost_weight must be above 0: without a prior the objective is unbounded"),
        (ConjugateScales(noise="none"), "noise='none' is not known"),
        ("conjugat", "'conjugat' is not a known scales; .* Did you mean 'conjugate'"),
    ],
    ids=str,
)
def test_scales_without_a_minimum_are_refused(scales, message):
    with pytest.raises(ValueError, match=message):
        SCALES.resolve(scales)
