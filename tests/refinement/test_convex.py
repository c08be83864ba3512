"""Classifiers of given codes: optimal, and between atoms that vote by themselves and a linear classifier of samples."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import normalise
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

from ddlearn.model.losses import LOSSES
from ddlearn.refinement.convex import Decays, train_on_codes
from ddlearn.refinement.costs import REFINEMENT_COSTS

N_SAMPLES, N_COMPONENTS, N_FEATURES, N_CLASSES = 200, 12, 5, 3


def draw(seed=0, n_features=N_FEATURES):
    """Return codes, labels of classes that depend on them, and a dictionary."""
    rng = np.random.default_rng(seed)
    codes = rng.standard_normal((N_SAMPLES, N_COMPONENTS)) * (rng.random((N_SAMPLES, N_COMPONENTS)) < 0.4)
    scores = codes @ rng.standard_normal((N_COMPONENTS, N_CLASSES)) + 0.5 * rng.standard_normal((N_SAMPLES, N_CLASSES))
    labels = np.where(scores.argmax(axis=1)[:, None] == np.arange(N_CLASSES), 1.0, -1.0)
    return csr_array(codes), labels, normalise(rng.standard_normal((N_COMPONENTS, n_features)))


def make_cost(name="softmax", loss="logistic"):
    return REFINEMENT_COSTS[name](LOSSES[loss](), np.ones(N_CLASSES), 1.0)


def train(codes, labels, dictionary, cost, decays, fit_intercept=True, weights=None):
    weights = np.ones(len(labels)) if weights is None else weights
    return train_on_codes(codes, labels, dictionary, cost, decays, fit_intercept, weights)


def measure(codes, labels, fitted, cost, decays):
    scores = codes @ fitted.coef_by_atom + fitted.intercept
    penalty = decays.own * np.sum(fitted.own_coef**2) + decays.linear * np.sum(fitted.linear_coef**2)
    return np.mean(cost.value(scores, labels)) + penalty / 2


@pytest.mark.parametrize(
    ("name", "loss"), [("softmax", "logistic"), ("one_vs_all", "logistic"), ("one_vs_all", "square")]
)
@pytest.mark.parametrize("n_features", [N_FEATURES, 3 * N_COMPONENTS], ids=["few features", "many"])
def test_no_change_of_a_variable_lowers_the_objective(name, loss, n_features):
    codes, labels, dictionary = draw(n_features=n_features)
    cost, decays = make_cost(name, loss), Decays(0.01, 0.003)
    fitted = train(codes, labels, dictionary, cost, decays)
    lowest = measure(codes, labels, fitted, cost, decays)
    rng = np.random.default_rng(1)
    for field in ("own_coef", "linear_coef", "intercept"):
        for _ in range(5):
            array = getattr(fitted, field)
            moved = fitted._replace(**{field: array + 0.1 * rng.standard_normal(array.shape)})
            assert measure(codes, labels, moved, cost, decays) > lowest


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weights", [None, np.linspace(0.5, 2, N_SAMPLES)], ids=["equal", "weighted"])
def test_the_closed_form_of_squares_has_no_slope(fit_intercept, weights):
    codes, labels, dictionary = draw()
    cost, decays = make_cost("one_vs_all", "square"), Decays(0.01, 0.003)
    fitted = train(codes, labels, dictionary, cost, decays, fit_intercept, weights)
    shares = np.full(N_SAMPLES, 1 / N_SAMPLES) if weights is None else weights / weights.sum()
    slopes = cost.gradient(codes @ fitted.coef_by_atom + fitted.intercept, labels) * shares[:, None]
    np.testing.assert_allclose(codes.T @ slopes, -decays.own * fitted.own_coef, atol=1e-12)
    np.testing.assert_allclose(dictionary.T @ (codes.T @ slopes), -decays.linear * fitted.linear_coef, atol=1e-12)
    if fit_intercept:
        np.testing.assert_allclose(slopes.sum(axis=0), 0, atol=1e-12)
    else:
        assert not fitted.intercept.any()


def test_what_only_atoms_say_is_logistic_regression_of_codes():
    codes, labels, dictionary = draw()
    fitted = train(codes, labels, dictionary, make_cost(), Decays(0.02, 1e6))
    regression = LogisticRegression(C=1 / (0.02 * N_SAMPLES), tol=1e-8).fit(codes, labels.argmax(axis=1))
    probabilities = regression.predict_proba(codes)
    scores = codes @ fitted.coef_by_atom + fitted.intercept
    np.testing.assert_allclose(np.exp(-make_cost().value(scores, labels)), probabilities[labels > 0], atol=0.01)


def test_what_atoms_have_in_common_is_logistic_regression_of_reconstructions():
    codes, labels, dictionary = draw()
    precisions, squared_unit = (1e9, 1.0), float(N_FEATURES)  # as for features of unit size
    decays = Decays.of(precisions, squared_unit, N_SAMPLES, N_FEATURES)
    fitted = train(codes, labels, dictionary, make_cost(), decays)
    reconstructions = codes @ dictionary
    probabilities = (
        LogisticRegression(tol=1e-8).fit(reconstructions, labels.argmax(axis=1)).predict_proba(reconstructions)
    )
    scores = reconstructions @ fitted.linear_coef + fitted.intercept
    np.testing.assert_allclose(np.exp(-make_cost().value(scores, labels)), probabilities[labels > 0], atol=0.01)
    np.testing.assert_allclose(fitted.own_coef, 0, atol=1e-5)


def test_alike_atoms_vote_alike():
    # The prior of their votes is correlated; without what they have in common, an atom that is never used has no vote.
    codes, labels, dictionary = draw()
    dictionary[1] = normalise(dictionary[:1] + 0.01)[0]
    values = codes.toarray()
    values[:, 1] = 0
    fitted = train(csr_array(values), labels, dictionary, make_cost(), Decays(0.1, 0.001))
    np.testing.assert_allclose(fitted.own_coef[1], 0, atol=1e-3)
    one, other = fitted.linear_coef.T @ dictionary[:2].T, fitted.coef_by_atom[1]
    np.testing.assert_allclose(other, one[:, 1], atol=1e-3)


def test_without_intercepts_there_are_none_and_the_precision_is_that_of_the_dictionary():
    codes, labels, dictionary = draw()
    fitted = train(codes, labels, dictionary.astype(np.float32), make_cost(), Decays(0.1, 0.1), False)
    assert not fitted.intercept.any()
    assert {array.dtype for array in fitted} == {np.dtype(np.float32)}


def test_the_unit_of_the_samples_does_not_matter():
    codes, labels, dictionary = draw()
    scores = []
    for unit in (1.0, 100.0):
        decays = Decays.of((0.1, 1.0), unit**2, N_SAMPLES, N_FEATURES)
        fitted = train(unit * codes, labels, dictionary, make_cost(), decays)
        scores.append(unit * codes @ fitted.coef_by_atom + fitted.intercept)
    np.testing.assert_allclose(*scores, atol=1e-2)


def test_a_sample_of_weight_two_counts_as_two():
    codes, labels, dictionary = draw()
    weights = np.where(np.arange(N_SAMPLES) < 50, 2.0, 1.0)
    twice = np.r_[np.arange(N_SAMPLES), np.arange(50)]
    weighted = train(codes, labels, dictionary, make_cost(), Decays(0.1, 0.1), weights=weights)
    repeated = train(codes[twice], labels[twice], dictionary, make_cost(), Decays(0.1, 0.1))
    np.testing.assert_allclose(weighted.coef_by_atom, repeated.coef_by_atom, atol=1e-3)
