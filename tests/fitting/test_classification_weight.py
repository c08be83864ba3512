"""The weight of the labels from the samples: what it measures, where it is 1, and who remembers it."""

from __future__ import annotations

import numpy as np
import pytest
from reproduction.trials import METHODS, PAPER
from sklearn.datasets import load_digits

from ddlearn import (
    Checkpoint,
    DDLClassifier,
    load,
    save,
)
from ddlearn.datasets import make_planted
from ddlearn.show.report.content import _describe_model


def smooth(samples):
    """Let neighbouring features tell the same, as those of images do."""
    window = np.ones(9) / 9
    return np.array([np.convolve(sample, window, mode="same") for sample in samples])


@pytest.fixture(scope="module")
def signals():
    """Return two classes of smooth signals in smooth noise."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 2
    shapes = smooth(rng.standard_normal((8, 60)))
    mixing = rng.random((240, 8)) * np.where(y[:, None] == np.arange(8) % 2, 2.0, 0.5)
    return mixing @ shapes + 0.5 * smooth(rng.standard_normal((240, 60))), y


def model(**parameters) -> DDLClassifier:
    return DDLClassifier(**{"n_components": 20, "n_nonzero_coefs": 3, "max_iter": 2, "random_state": 0} | parameters)


def test_the_default_is_estimated():
    assert DDLClassifier().classification_weight == "auto"


def test_it_is_the_excess_of_residuals_along_the_first_atoms(signals):
    X, y = signals
    fitted = model(init=X[:20], max_iter=0).fit(X, y)
    residuals = X - fitted.transform(X) @ fitted.components_
    along = np.mean((residuals @ fitted.components_.T) ** 2)
    overall = np.mean(residuals**2)  # what white noise of this size has in any direction
    assert fitted.classification_weight_ == pytest.approx(along / overall, rel=1e-6)
    assert fitted.classification_weight_ > 1.5


def test_noise_that_is_white_leaves_the_map_estimate():
    X, y = make_planted(800, 64, 60, 5, noise=0.2, random_state=0, return_X_y=True)
    fitted = model(n_components=60).fit(X, y)
    assert fitted.classification_weight_ == pytest.approx(1, abs=0.15)


def test_it_is_never_below_one_and_never_makes_labels_tell_more_than_features(signals):
    X, y = load_digits(return_X_y=True)
    assert model().fit(X[:300], y[:300]).classification_weight_ == 1
    X, y = signals
    many = np.arange(240) % 30
    assert model().fit(X, many).classification_weight_ == pytest.approx(62 / 60)  # (M + 2) / 2C


def test_unit_and_order_of_the_samples_do_not_matter(signals):
    X, y = signals
    order = np.random.default_rng(0).permutation(len(X))
    weights = [
        model(init=X[:20], max_iter=0).fit(samples, labels).classification_weight_
        for samples, labels in ((X, y), (1000 * X, y), (X[order], y[order]))
    ]
    np.testing.assert_allclose(weights, weights[0], rtol=1e-6)


def test_samples_that_are_all_atoms_tell_nothing(signals):
    X, y = signals[0][:20], signals[1][:20]
    assert model(init=X, max_iter=0).fit(X, y).classification_weight_ == 1


def test_the_estimate_is_what_the_same_number_would_be(signals):
    estimated = model().fit(*signals)
    given = model(classification_weight=estimated.classification_weight_).fit(*signals)
    np.testing.assert_array_equal(estimated.coef_, given.coef_)
    np.testing.assert_array_equal(estimated.predict_proba(signals[0]), given.predict_proba(signals[0]))
    assert given.classification_weight_ == estimated.classification_weight_
    assert model(classification_weight=1).fit(*signals).history_[-1] != estimated.history_[-1]


def test_it_can_be_changed_after_the_fit_and_back(signals):
    X, _ = signals
    fitted = model().fit(*signals)
    evidence = fitted.decision_function(X)
    fitted.set_params(classification_weight=2 * fitted.classification_weight_)
    np.testing.assert_allclose(fitted.decision_function(X), 2 * evidence, rtol=1e-12)
    fitted.set_params(classification_weight="auto")
    np.testing.assert_array_equal(fitted.decision_function(X), evidence)


def test_a_stream_keeps_the_weight_of_its_first_batch(signals):
    X, y = signals
    stream = model().partial_fit(X[:120], y[:120], classes=[0, 1])
    weight = stream.classification_weight_
    assert weight > 1.5
    assert stream.partial_fit(X[120:], y[120:]).classification_weight_ == weight
    assert weight == model(dictionary_update="atom").fit(X[:120], y[:120]).classification_weight_


def test_a_file_keeps_it_and_one_without_it_can_be_read(signals, tmp_path):
    X, _ = signals
    fitted = model().fit(*signals)
    save(fitted, tmp_path / "new")
    restored = load(tmp_path / "new")
    assert restored.classification_weight_ == fitted.classification_weight_
    np.testing.assert_array_equal(restored.predict_proba(X), fitted.predict_proba(X))

    older = model(classification_weight=0.5).fit(*signals)
    del older.classification_weight_  # as versions without an estimate had it
    save(older, tmp_path / "old")
    restored = load(tmp_path / "old")
    np.testing.assert_array_equal(restored.predict_proba(X), older.predict_proba(X))
    with pytest.raises(ValueError, match="classification_weight='auto' is known to a fit"):
        restored.set_params(classification_weight="auto").predict(X)


def test_a_resumed_fit_goes_on_with_it(signals, tmp_path):
    path = tmp_path / "fit.checkpoint"
    model(max_iter=1, tol=0).set_callbacks(Checkpoint(path)).fit(*signals)
    resumed = model(tol=0).set_callbacks(Checkpoint(path, resume=True)).fit(*signals)
    at_once = model(tol=0).fit(*signals)
    assert resumed.classification_weight_ == at_once.classification_weight_
    np.testing.assert_array_equal(resumed.coef_, at_once.coef_)


def test_a_report_weighs_as_the_model_does(signals):
    fitted = model(loss="logistic").fit(*signals)
    estimated = _describe_model(fitted, None)["class_cost"]
    fitted.set_params(classification_weight=fitted.classification_weight_)
    assert _describe_model(fitted, None)["class_cost"] == estimated
    assert _describe_model(fitted.set_params(classification_weight=1.0), None)["class_cost"] != estimated


@pytest.mark.parametrize("name", ["ddl", "ddl, labelled alone"])
def test_the_papers_experiments_keep_the_map_estimate(name):
    assert METHODS[name].make(**PAPER).classification_weight == 1
    assert METHODS[name].make(**PAPER, classification_weight=0.5).classification_weight == 0.5
