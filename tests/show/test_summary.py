"""The summary: each check warns where it should, and only there."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest
from conftest import make_pursuit, make_refiner
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import train_test_split

from ddlearn import DDLClassifier
from ddlearn.show.summary import GOOD, UNKNOWN, WARNING, describe_refinement


def verdict(name, summary):
    """Return the verdict of a check."""
    return next(check.verdict for check in summary.checks if check.name == name)


@pytest.fixture(scope="module")
def digits():
    """Return training samples, test samples, and a quick model of digits."""
    X, X_test, y, y_test = train_test_split(*load_digits(return_X_y=True), train_size=600, random_state=0)
    model = make_pursuit(60, n_nonzero_coefs=4, description="unit", max_iter=3, random_state=0).fit(X, y)
    return (X, y), (X_test, y_test), model


def test_without_samples_it_says_what_it_cannot_know(digits):
    summary = digits[2].summary()
    assert {verdict(name, summary) for name in ("Calibration", "Logistic regression")} == {UNKNOWN}
    assert summary.error == digits[2].history_[-1].label_free_error
    assert "coded like new ones" in str(summary)


def test_the_error_is_that_of_the_given_samples(digits):
    _, (X, y), model = digits
    summary = model.summary(X, y)
    assert summary.error == pytest.approx(1 - model.score(X, y))
    assert verdict("Training data", summary) == GOOD
    for check in summary.checks:
        assert (check.verdict == GOOD) <= (check.remedy == "")
        assert check.finding in str(summary)


@pytest.mark.parametrize("description", ["unit", "standard"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_training_samples_are_recognised_in_any_order(description, dtype):
    X, y = load_iris(return_X_y=True)
    X = np.column_stack([X, np.ones(len(X))]).astype(dtype)  # with a feature that does not vary
    order = np.random.default_rng(0).permutation(len(X))
    model = make_pursuit(10, description=description, max_iter=1, random_state=0).fit(X, y)
    assert verdict("Training data", model.summary(X[order].astype(float), y[order])) == WARNING
    assert verdict("Training data", model.summary(X[order[1:]], y[order[1:]])) == GOOD
    others = X + 0.01 * np.random.default_rng(0).standard_normal(X.shape).astype(dtype)
    assert verdict("Training data", model.summary(others, y)) == GOOD


def test_a_model_that_loses_to_a_straight_line_is_told(digits):
    _, (X, y), good = digits
    assert verdict("Logistic regression", good.summary(X, y)) == GOOD
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 6))
    y = np.argmax(X[:, :2], axis=1)  # the norm of a sample does not matter, but one atom tells too little
    model = make_pursuit(4, n_nonzero_coefs=1, description="unit", max_iter=1, random_state=0).fit(X[:200], y[:200])
    unlabelled = np.where(np.arange(200) < 20, -1, y[:200])  # the marker of no label is no class
    for training in (None, (X[:200], y[:200]), (X[:200], unlabelled)):
        found = model.summary(X[200:], y[200:], training=training)
        assert verdict("Logistic regression", found) == WARNING


def test_probabilities_that_are_too_sure_are_told(digits):
    _, (X, y), model = digits
    sure = copy(model).set_params(classification_weight=100.0)
    assert verdict("Calibration", sure.summary(X, y)) == WARNING
    assert "too sure" in str(sure.summary(X, y))


def test_small_classes_unused_atoms_and_short_fits_are_told():
    X, y = load_iris(return_X_y=True)
    X, y = X[:105], y[:105]  # five of the last class
    model = make_pursuit(40, n_nonzero_coefs=1, description="unit", max_iter=1, tol=0, random_state=0).fit(X, y)
    model.codes_.data[model.codes_.indices > 20] = 0
    summary = model.summary()
    assert verdict("Class sizes", summary) == WARNING
    assert verdict("Unused atoms", summary) == WARNING
    assert verdict("Training length", summary) == WARNING


def test_the_error_of_a_refined_model_is_never_that_from_before():
    X, y = load_iris(return_X_y=True)
    given = {"sparse_coder": "ormp", "n_nonzero_coefs": 2, "max_iter": 1, "random_state": 0, "description": "unit"}
    unmeasured = DDLClassifier(12, refine=make_refiner(cost="softmax"), **given).fit(X, y).summary()
    assert unmeasured.error is None
    assert "not measured" in str(unmeasured)
    model = DDLClassifier(12, refine=make_refiner(2, cost="softmax", validation_fraction=0.2), **given).fit(X, y)
    best = min(model.refinement_, key=lambda record: record.validation_cost)
    assert model.summary().error == best.validation_error


def test_floors_that_bind_are_told():
    X, y = load_iris(return_X_y=True)
    model = make_pursuit(10, scales="jeffreys", max_iter=1, random_state=0).fit(X, y)
    model.history_[-1] = model.history_[-1]._replace(floor_share=0.4)
    assert verdict("Floors and priors", model.summary()) == WARNING


def test_multilabel_models_have_a_summary():
    X, y = load_iris(return_X_y=True)
    model = make_pursuit(10, max_iter=1, random_state=0).fit(X, np.eye(3, dtype=int)[y])
    assert model.summary(X, np.eye(3)[y]).facts["atoms"].startswith("10")


def test_a_model_that_was_not_refined_does_not_speak_of_epochs():
    assert describe_refinement(0, 0) == "none: it did not help in trials"
    assert describe_refinement(10, 7) == "10 epochs, best after epoch 7"
