"""The objective: its terms, the priors, and the scales that minimise it."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_problem, make_pursuit
from scipy.optimize import minimize_scalar
from scipy.special import polygamma
from sklearn.datasets import load_digits

from ddlearn import (
    LOSSES,
    SCALES,
    ConjugateScales,
    ElasticNet,
    JeffreysScales,
    MapObjective,
    Priors,
    map_objective,
    sparse_encode,
)
from ddlearn.fitting.labels import encode_labels
from ddlearn.model.objective import (
    NOISE_MODELS,
    FirstNoise,
    LogSums,
    expect_logs,
    find_unit,
    fit_noise_prior,
    invert_trigamma,
    penalise,
    resolve_scales,
    scale_classes,
    sum_class_terms,
    sum_costs,
    sum_noise_terms,
)
from ddlearn.parallel import LocalParts, find_median

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
    assert terms.prior == 0
    assert terms.total == pytest.approx(
        terms.representation + terms.log_noise + terms.classification + terms.log_class_cost, rel=1e-15
    )


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
    shared, terms = scales("shared").estimate_noise(misfits, misfits.mean(), 9, priors)
    assert shared == pytest.approx(best, rel=1e-6)
    assert terms == sum_noise_terms(misfits, shared, 9, priors)
    assert len(np.unique(shared)) == 1


@pytest.mark.parametrize("priors", PRIORS.values(), ids=list(PRIORS))
@pytest.mark.parametrize("weight", [0.5, 1.0, 10.0])
def test_class_costs_minimise_their_terms_whatever_the_weight(priors, weight):
    # Were the weight on the costs alone, the best class cost would be that many times larger, and undo it.
    costs, coef, n_labelled = np.array([5.0, 0.01]), np.array([[1.0, -2.0], [0.5, 0.0]]), np.array([3, 7])
    class_cost, terms = scale_classes(costs, coef, n_labelled, priors, weight)
    for j in range(2):

        def cost(gamma, j=j):
            there = np.where(np.arange(2) == j, gamma, class_cost)
            return sum(sum_class_terms(costs, coef, there, n_labelled, priors, weight))

        best = minimise(cost)
        assert class_cost[j] == pytest.approx(best, rel=1e-6)
        assert sum(terms) == pytest.approx(cost(best))


def test_priors_are_what_their_densities_say():
    # A scaled inverse chi-squared density of the variances, an inverse gamma one of the class costs, a Gaussian one of
    # the classifiers: minus their logarithms, without Jeffreys' factors 1/x that Eq. 3 has, and without constants.
    priors, variance, class_cost = PRIORS["conjugate"], np.array([0.3, 0.01, 5.0]), np.array([0.1, 4.0])
    weight, typical = priors.noise_weight, priors.noise_variance
    minus_log = sum(weight / 2 * np.log(v) + weight * typical / (2 * v) for v in variance)
    assert sum_noise_terms(np.ones(3), variance, 5, priors)[2] == pytest.approx(minus_log, rel=1e-14)
    coef, n_labelled = np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([9, 4])
    shape = priors.cost_weight * (n_labelled + 1)
    minus_log = np.sum(shape * np.log(class_cost) + shape * priors.class_cost / class_cost)
    minus_log += np.sum(priors.ridge * [25.0, 1.0] / (2 * class_cost))
    assert sum_class_terms(np.ones(2), coef, class_cost, n_labelled, priors)[2] == pytest.approx(minus_log, rel=1e-14)


def test_floors_hold():
    priors = Priors.flat(2)._replace(noise_floor=0.25, cost_floor=0.5)
    assert (priors.estimate_noise(np.zeros(5), 10) == 0.25).all()
    assert scale_classes(np.zeros(2), np.zeros((2, 3)), np.array([3, 3]), priors, 1.0)[0].tolist() == [0.5, 0.5]


def summarise(misfits, n_features=2, energy=100.0):
    """Return what is known of the noise of samples in two parts."""
    parts = LocalParts([misfits[:2], misfits[2:]])
    noisy = misfits[misfits > 1e-20]
    logs = np.log(noisy / 4.0)
    sums = LogSums(len(noisy), logs.sum(), logs @ logs, energy)
    eps = np.finfo(misfits.dtype).eps
    return FirstNoise(
        len(misfits), n_features, eps, 4.0, sums, lambda: find_median(parts, len(misfits), misfits.dtype, eps)
    )


def test_floors_are_shares_of_the_median_over_samples_with_a_residual():
    # Samples that are atoms have none, and there may be more of them than of the others.
    noise = summarise(np.array([0, 0, 1e-30, 1e-31, 8.0, 12.0, 16.0]))
    costs, n_labelled = np.array([4.0, 8.0, 40.0]), np.full(3, 7)
    scales = JeffreysScales(noise_floor=0.1, cost_floor=0.5)
    priors = scales.set_priors(noise, costs, np.zeros((3, 5)), n_labelled, np.ones(3), LOSSES["square"]())
    assert priors.noise_floor == pytest.approx(0.1 * 12 / 4)
    assert priors.cost_floor == pytest.approx(0.5 * 8 / 8)
    assert (priors.noise_weight, priors.cost_weight) == (0, 0)


@every_loss
@pytest.mark.parametrize("scales", SCALES.values(), ids=list(SCALES))
@pytest.mark.parametrize("energy", [0.0, 12.0])
def test_scales_are_positive_even_without_any_residual_cost_or_label(loss, scales, energy):
    noise = summarise(np.zeros(3), energy=energy)
    priors = scales().set_priors(noise, np.zeros(2), np.zeros((2, 4)), np.array([0, 5]), np.zeros(2), loss)
    assert np.isfinite(np.concatenate([np.atleast_1d(value) for value in priors])).all()
    assert (priors.estimate_noise(np.zeros(2), 2) > 0).all()
    assert priors.noise_variance <= 1e-15 * (energy or 3.0)  # it is not known, but hardly more than rounding
    class_cost, terms = scale_classes(np.zeros(2), np.zeros((2, 4)), np.array([0, 5]), priors, 1.0)
    assert (class_cost > 0).all()
    assert np.isfinite(terms).all()


@pytest.mark.parametrize("value", [1e-6, 1e-3, 0.1, 1.0, 30.0, 1e4])
def test_trigamma_is_inverted(value):
    assert polygamma(1, invert_trigamma(value)) == pytest.approx(value, rel=1e-10)


@pytest.mark.parametrize(("weight", "variance", "n_features"), [(3.4, 0.02, 256), (1.6, 5.0, 60), (40.0, 1e-6, 20)])
def test_empirical_bayes_recovers_a_planted_prior(weight, variance, n_features):
    rng = np.random.default_rng(0)
    sigma2 = weight * variance / rng.chisquare(weight, 20000)
    logs = np.log(sigma2 * rng.chisquare(n_features, 20000))
    found, log_variance = fit_noise_prior(LogSums(20000, logs.sum(), logs @ logs, 0.0), n_features)
    assert found == pytest.approx(weight, rel=0.05)
    assert np.exp(log_variance) == pytest.approx(variance, rel=0.05)


def test_equal_misfits_make_the_prior_strong_and_wild_ones_weak():
    logs = np.full(50, np.log(7.0))
    weight, log_variance = fit_noise_prior(LogSums(50, logs.sum(), logs @ logs, 0.0), 10)
    assert weight == 100 * 12
    assert np.exp(log_variance) == pytest.approx(0.7, rel=0.15)  # the mean logarithm of chi-squared is below its mean
    wild = np.linspace(-60, 60, 50)
    assert fit_noise_prior(LogSums(50, wild.sum(), wild @ wild, 0.0), 10)[0] == 1


@pytest.mark.parametrize("weight", [1.5, 12.0])
def test_expected_sums_are_those_of_the_prior(weight):
    priors = Priors.flat(2)._replace(noise_weight=weight, noise_variance=0.3)
    found, log_variance = fit_noise_prior(expect_logs(1000, priors, 64, 2.0), 64)
    assert found == pytest.approx(weight, rel=1e-8)
    assert 2 * np.exp(log_variance) == pytest.approx(0.3, rel=1e-8)


@pytest.mark.parametrize("number", [1e-30, 0.3, 1.0, 5.0, 1e20])
def test_the_unit_of_misfits_is_a_power_of_two_and_grows_with_them(number):
    unit = find_unit(number)
    assert number < unit <= 2 * number
    assert np.frexp(unit)[0] == 0.5
    assert find_unit(16 * number) == 16 * unit


def fit_digits(**parameters):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300], y[:300]
    quick = {"n_components": 40, "n_nonzero_coefs": 4, "max_iter": 3, "tol": 0.0, "refine": None, "random_state": 0}
    return X, y, make_pursuit(**quick | {"description": None} | parameters).fit(X, y)


@every_loss
@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"classification_weight": 3.0},
        {"scales": "jeffreys", "classification_weight": 0.5},
        {"scales": ConjugateScales("shared", cost_weight=1.0), "dictionary_update": "mod"},
        {"sparse_coder": ElasticNet(), "classification_weight": 2.0},
    ],
    ids=str,
)
def test_map_objective_is_the_objective_of_the_fit(loss, parameters):
    X, y, model = fit_digits(loss=loss, **parameters)
    terms = map_objective(
        X,
        encode_labels(y, model.classes_, None, False),
        model.components_,
        model.coef_,
        model.intercept_,
        model.codes_,
        noise_variance=model.noise_variance_,
        class_cost=model.class_cost_,
        loss=model.loss_,
        sparse_coder=model.sparse_coder_,
        classification_weight=model.classification_weight,
        priors=model.priors_,
    )
    last = model.history_[-1]
    assert terms.total == pytest.approx(last.objective, rel=1e-10)
    for name, value in terms._asdict().items():
        assert value == pytest.approx(getattr(last, name), rel=1e-9), name


def test_penalties_are_ridges_of_squared_norms():
    coef = np.array([[3.0, 4.0], [1.0, 0.0]], np.float32)
    assert penalise(coef, np.array([2.0, 0.5])).tolist() == [25.0, 0.25]


@every_loss
def test_an_unknown_label_costs_nothing(loss):
    scores = np.array([[3.0, -2.0]])
    assert sum_costs(np.array([[0.0, 1.0]]), scores, loss)[0] == 0


def test_objective_compares_with_the_size_of_its_terms():
    terms = MapObjective(representation=5.0, log_noise=-6.0, classification=2.0, log_class_cost=-1.0)
    assert terms.total == 0


@pytest.mark.parametrize("weight", [0.5, 10.0])
def test_the_weight_multiplies_the_terms_of_the_classifiers(weight):
    costs, coef, class_cost = np.array([1.0, 4.0]), np.ones((2, 3)), np.array([0.25, 2.0])
    arguments = costs, coef, class_cost, np.array([2, 3]), PRIORS["conjugate"]
    plain = sum_class_terms(*arguments)
    assert plain[:2] == pytest.approx((1 / 0.25 + 4 / 2, 3 * np.log(0.25) + 4 * np.log(2)), rel=1e-14)
    assert sum_class_terms(*arguments, weight) == pytest.approx(weight * np.array(plain), rel=1e-14)


def test_scaling_the_data_shifts_only_the_logarithms():
    misfits, priors = np.array([1.0, 2.0, 3.0]), PRIORS["conjugate"]
    before, scaled = (
        sum_noise_terms(factor * misfits, there.estimate_noise(factor * misfits, 4), 4, there)
        for factor, there in ((1, priors), (100, priors._replace(noise_variance=100 * priors.noise_variance)))
    )
    assert scaled[0] == pytest.approx(before[0])
    assert scaled[1] == pytest.approx(before[1] + 3 * (4 + 2) / 2 * np.log(100))
    assert scaled[2] == pytest.approx(before[2] + 3 * priors.noise_weight / 2 * np.log(100))


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
        resolve_scales(scales)


def test_noise_models_are_those_of_both_strategies():
    for scales in SCALES.values():
        for noise in NOISE_MODELS:
            scales(noise).check_parameters()
