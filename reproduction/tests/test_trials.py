"""Trials on small digits: what is measured is what the model does when it is fitted by hand."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from reproduction import trials
from reproduction.baseline import make_baseline
from reproduction.images import DATASETS, load_rows, spread
from reproduction.models import make_classifier
from reproduction.trials import (
    METHODS,
    PAPER,
    UNLABELED,
    Trial,
    get_error,
    get_trial,
    make_cell,
    measure_trial,
)
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.neighbors import KNeighborsClassifier

from ddlearn import DDLClassifier
from ddlearn.estimators import ksvd

SETTINGS = {"n_components": 40, "max_iter": 3}
PEERS = ("D-KSVD", "LC-KSVD")


def make_trial(method="ddl", settings=SETTINGS, **changes) -> Trial:
    return Trial("digits", method, settings, **{"max_train": 300, "max_test": 200} | changes)


@pytest.fixture
def digits():
    data = load_rows("digits", 0)
    trained, tested = spread(len(data.y_train), 300), spread(len(data.y_test), 200)
    return data.X_train[trained], data.y_train[trained], data.X_test[tested], data.y_test[tested]


@pytest.fixture
def fits(monkeypatch):
    """Return the labels that every fit of a DDLClassifier gets."""
    seen = []
    fit = DDLClassifier.fit

    def fit_and_note(self, X, y):
        seen.append(y.copy())
        return fit(self, X, y)

    monkeypatch.setattr(DDLClassifier, "fit", fit_and_note)
    return seen


# -- data --------------------------------------------------------------------------------------------------------------


def test_rows_are_a_split_of_unit_norm_in_single_precision():
    data, again, other = load_rows("digits", 0), load_rows("digits", 0), load_rows("digits", 1)
    assert data.X_train.dtype == data.X_test.dtype == np.float32
    for X in (data.X_train, data.X_test):
        np.testing.assert_allclose(np.linalg.norm(X, axis=1), 1, atol=1e-6)
        assert X.shape[1] == np.prod(DATASETS["digits"].image_shape)
    assert len(data.X_train) + len(data.X_test) == 1797
    assert again is data  # read once
    assert (data.y_train != other.y_train).any()  # another seed, another split


# -- what is measured --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 3])
def test_the_test_error_is_that_of_the_model_fitted_by_hand(seed):
    data = load_rows("digits", seed)
    trained, tested = spread(1000, 300), spread(797, 200)
    model = make_classifier(**SETTINGS, random_state=seed).fit(data.X_train[trained], data.y_train[trained])
    result = measure_trial(make_trial(seed=seed), None)
    judged = result["test"]["fast"]
    assert judged["error"] == pytest.approx(1 - model.score(data.X_test[tested], data.y_test[tested]), abs=1e-12)
    assert judged["n_test"] == 200
    assert judged["interval"][0] < judged["error"] < judged["interval"][1]
    assert result["objective"] == [record.objective for record in model.history_]
    assert result["n_iter"] == model.n_iter_ == 3
    assert "validation_error" not in result


@pytest.mark.parametrize(("method", "make"), [("ddl", make_classifier), ("baseline", make_baseline)])
def test_the_validation_error_is_that_of_cross_validation(digits, method, make):
    X, y, *_ = digits
    scores = cross_val_score(
        make(**SETTINGS, random_state=0), X, y, cv=StratifiedKFold(3, shuffle=True, random_state=0)
    )
    result = measure_trial(make_trial(method, n_folds=3), None)
    assert result["validation_error"] == pytest.approx(1 - scores.mean(), abs=1e-12)


def test_every_variant_is_cross_validated(digits):
    X, y, *_ = digits
    folds = StratifiedKFold(2, shuffle=True, random_state=0)
    variants = {"fast": {}, "full": {"inference": "full"}}
    result = measure_trial(make_trial(n_folds=2, variants=variants), None)
    for name, settings in variants.items():
        scores = cross_val_score(make_classifier(**SETTINGS, **settings, random_state=0), X, y, cv=folds)
        assert result["validation"][name] == pytest.approx(1 - scores.mean(), abs=1e-12)


def test_test_samples_have_no_say_in_the_validation_error():
    results = [measure_trial(make_trial(n_folds=2, max_test=n), None) for n in (50, 200)]
    assert results[0]["validation"] == results[1]["validation"]
    assert results[0]["objective"] == results[1]["objective"]


def test_variants_are_judged_on_one_fit_and_equal_models_fitted_with_their_settings(fits):
    variants = {"fast": {}, "full": {"inference": "full"}, "few": {"inference": "full", "n_candidates": 2}}
    together = measure_trial(make_trial(variants=variants), None)["test"]
    assert len(fits) == 1
    assert together.keys() == variants.keys()
    for name, settings in variants.items():
        alone = measure_trial(make_trial(settings=SETTINGS | settings), None)["test"]["fast"]
        assert together[name]["error"] == alone["error"]
    assert len(fits) == 4


# -- labels ------------------------------------------------------------------------------------------------------------


def test_as_many_labels_are_wrong_as_asked_for_and_each_is_another_class(digits, fits):
    _, y, *_ = digits
    measure_trial(make_trial(flipped=0.3), None)
    measure_trial(make_trial(flipped=0.3), None)
    assert np.count_nonzero(fits[0] != y) == round(0.3 * 300)
    assert set(fits[0]) == set(y)
    assert len(set((fits[0] - y)[fits[0] != y] % 10)) == 9  # each of the other classes
    np.testing.assert_array_equal(fits[0], fits[1])
    np.testing.assert_array_equal(load_rows("digits", 0).y_train[spread(1000, 300)], y)  # the data are left alone


@pytest.mark.parametrize("share", [0.1, 0.01])
def test_a_share_of_each_class_keeps_its_label_and_at_least_two(digits, fits, share):
    _, y, *_ = digits
    result = measure_trial(make_trial(labelled=share), None)
    measure_trial(make_trial("ddl, labelled alone", {"n_components": 20}, labelled=share), None)
    for label in range(10):
        n_kept = np.count_nonzero((fits[0] == label) & (y == label))
        assert n_kept == max(round(share * np.count_nonzero(y == label)), 2)
    assert set(fits[0][fits[0] != y]) == {UNLABELED}
    np.testing.assert_array_equal(fits[1], fits[0][fits[0] != UNLABELED])  # the same ones, and no others
    assert result["test"]["fast"]["error"] < 0.6


def test_all_labels_are_as_they_were_unless_asked_for(digits, fits):
    measure_trial(make_trial(), None)
    np.testing.assert_array_equal(fits[0], digits[1])


# -- methods -----------------------------------------------------------------------------------------------------------


def make_settings(method) -> dict:
    if method in PEERS:
        return {"n_components": 40, "n_nonzero_coefs": 5, "max_iter": 2, "init_iter": 2}
    return {"n_components": 40} if method.startswith(("ddl", "baseline")) else {}


@pytest.mark.parametrize("method", [method for method in METHODS if method not in PEERS])
def test_every_method_learns(method):
    assert measure_trial(make_trial(method, make_settings(method)), None)["test"]["fast"]["error"] < 0.3


@pytest.mark.parametrize("method", PEERS)
def test_every_peer_learns(method):
    pytest.importorskip("dictlearn")
    assert measure_trial(make_trial(method, make_settings(method)), None)["test"]["fast"]["error"] < 0.6


@pytest.mark.parametrize("method", PEERS)
def test_without_the_peers_package_the_error_says_what_to_install(method, monkeypatch):
    monkeypatch.setitem(sys.modules, "dictlearn", None)
    with pytest.raises(ImportError, match="not installed: pip install dictlearn"):
        measure_trial(make_trial(method, make_settings(method)), None)


def test_settings_reach_a_method_without_a_seed(digits):
    X, y, X_test, y_test = digits
    neighbours = KNeighborsClassifier(n_neighbors=9).fit(X, y)
    result = measure_trial(make_trial("nearest neighbour", {"n_neighbors": 9}), None)
    assert result["test"]["fast"]["error"] == pytest.approx(1 - neighbours.score(X_test, y_test), abs=1e-12)


def test_the_chosen_c_of_the_svm_is_told():
    result = measure_trial(make_trial("linear SVM", {"C": [0.5, 2.0]}), None)
    assert result["best"]["C"] in (0.5, 2.0)


def test_a_dictionary_of_all_differs_from_the_baseline_in_its_first_atoms_alone(digits, monkeypatch):
    # With all labels known both see the same samples, but only the baseline draws as many atoms from each class.
    both = [make_trial(method) for method in ("baseline", "baseline, dictionary of all")]
    drawn = []
    draw = ksvd.init_dictionary

    def draw_without_classes(init, X, class_index, *rest):
        drawn.append(class_index)
        return draw(init, X, None, *rest)

    monkeypatch.setattr(ksvd, "init_dictionary", draw_without_classes)
    baseline, of_all = (measure_trial(trial, None)["test"]["fast"]["error"] for trial in both)
    assert baseline == of_all
    assert drawn[0] is not None
    assert drawn[1] is None


def test_a_dictionary_of_all_learns_from_samples_without_label(digits):
    X, y, X_test, _ = digits
    hidden = np.where(np.arange(300) % 5 == 0, y, UNLABELED)
    method = METHODS["baseline, dictionary of all"]
    fitted = method.fit(method.make(**SETTINGS, random_state=0), X, hidden)
    by_hand = make_baseline(**SETTINGS, random_state=0)
    by_hand["ksvd"].fit(X)
    by_hand["classifier"].fit(by_hand["ksvd"].transform(X[::5]), y[::5])
    np.testing.assert_array_equal(fitted["ksvd"].components_, by_hand["ksvd"].components_)
    np.testing.assert_array_equal(fitted.predict(X_test), by_hand.predict(X_test))


# -- cells -------------------------------------------------------------------------------------------------------------


def test_a_cell_holds_its_trial_and_its_name_tells_what_is_not_the_papers():
    trial = make_trial(settings=PAPER | {"n_components": 40, "loss": "logistic", "max_iter": 3}, seed=7)
    cell = make_cell(trial, None)
    assert cell.name == "digits-ddl-40-logistic-3-7"
    assert get_trial({"parameters": cell.parameters}) == trial
    assert cell.measure.func is trials.measure_trial
    assert cell.measure.args == (trial, None)


def test_larger_harder_and_validated_trials_count_for_more_effort():
    small = trials.guess_effort(make_trial())
    for harder in (
        make_trial(settings=SETTINGS | {"n_components": 400}),
        make_trial(settings=SETTINGS | {"loss": "smooth_hinge"}),
        make_trial(n_folds=3),
        make_trial()._replace(dataset="usps"),
    ):
        assert trials.guess_effort(harder) > small


def test_errors_are_told_in_per_cent():
    record = {"result": {"test": {"fast": {"error": 0.05}, "full": {"error": 0.04}}}}
    assert get_error(record) == 5
    assert get_error(record, "full") == 4
