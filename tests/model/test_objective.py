"""The objective: its terms, the priors, and the scales that minimise it."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import every_loss, make_problem, make_pursuit
from sklearn.datasets import load_digits

from ddlearn import ConjugateScales, ElasticNet, map_objective, sparse_encode
from ddlearn.fitting.labels import Targets
from ddlearn.model.objective import sum_class_terms, sum_noise_terms
from ddlearn.model.scales import Priors


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


PRIORS = Priors(3.4, 0.02, 0.0, 0.3, np.array([0.3, 2.0]), 0.0, np.array([0.7, 0.1]))


def test_priors_are_what_their_densities_say():
    # A scaled inverse chi-squared density of the variances, an inverse gamma one of the class costs, a Gaussian one of
    # the classifiers: minus their logarithms, without Jeffreys' factors 1/x that Eq. 3 has, and without constants.
    priors, variance, class_cost = PRIORS, np.array([0.3, 0.01, 5.0]), np.array([0.1, 4.0])
    weight, typical = priors.noise_weight, priors.noise_variance
    minus_log = sum(weight / 2 * np.log(v) + weight * typical / (2 * v) for v in variance)
    assert sum_noise_terms(np.ones(3), variance, 5, priors)[2] == pytest.approx(minus_log, rel=1e-14)
    coef, n_labelled = np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([9, 4])
    shape = priors.cost_weight * (n_labelled + 1)
    minus_log = np.sum(shape * np.log(class_cost) + shape * priors.class_cost / class_cost)
    minus_log += np.sum(priors.ridge * [25.0, 1.0] / (2 * class_cost))
    assert sum_class_terms(np.ones(2), coef, class_cost, n_labelled, priors)[2] == pytest.approx(minus_log, rel=1e-14)


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
        {"scales": ConjugateScales("shared", cost_weight=1.0), "dictionary_update": "block_coordinate"},
        {"sparse_coder": ElasticNet(), "classification_weight": 2.0},
    ],
    ids=str,
)
def test_map_objective_is_the_objective_of_the_fit(loss, parameters):
    X, y, model = fit_digits(loss=loss, **parameters)
    terms = map_objective(
        X,
        Targets(model.classes_, False).encode(y, None),
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


@pytest.mark.parametrize("weight", [0.5, 10.0])
def test_the_weight_multiplies_the_terms_of_the_classifiers(weight):
    costs, coef, class_cost = np.array([1.0, 4.0]), np.ones((2, 3)), np.array([0.25, 2.0])
    arguments = costs, coef, class_cost, np.array([2, 3]), PRIORS
    plain = sum_class_terms(*arguments)
    assert plain[:2] == pytest.approx((1 / 0.25 + 4 / 2, 3 * np.log(0.25) + 4 * np.log(2)), rel=1e-14)
    assert sum_class_terms(*arguments, weight) == pytest.approx(weight * np.array(plain), rel=1e-14)


def test_scaling_the_data_shifts_only_the_logarithms():
    misfits, priors = np.array([1.0, 2.0, 3.0]), PRIORS
    before, scaled = (
        sum_noise_terms(factor * misfits, there.estimate_noise(factor * misfits, 4), 4, there)
        for factor, there in ((1, priors), (100, priors._replace(noise_variance=100 * priors.noise_variance)))
    )
    assert scaled[0] == pytest.approx(before[0])
    assert scaled[1] == pytest.approx(before[1] + 3 * (4 + 2) / 2 * np.log(100))
    assert scaled[2] == pytest.approx(before[2] + 3 * priors.noise_weight / 2 * np.log(100))
