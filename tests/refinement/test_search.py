"""The search for settings: it tries what is open, keeps what is given, and takes what held-out samples say is best."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_iris

from ddlearn import DDLClassifier, ElasticNet, Refiner, Standard
from ddlearn.datasets import make_planted
from ddlearn.refinement.search import SettingsSearch


def find_best(tried, is_softmax=False):
    """Return the best record of a cost before refinement."""
    return min(
        (record for record in tried if record.is_softmax == is_softmax and not record.epochs),
        key=lambda record: record.log_loss,
    )


QUICK = {"description": None, "n_components": 20, "max_iter": 0, "random_state": 0}


@pytest.fixture(scope="module")
def planted():
    return make_planted(200, 10, 15, noise=0.1, random_state=0, return_X_y=True)


@pytest.fixture(scope="module")
def searched(planted):
    return DDLClassifier(refine=1, **QUICK).fit(*planted)


def test_the_best_of_each_cost_is_refined_and_one_of_them_is_the_model(planted, searched):
    finalists = [record for record in searched.search_ if record.epochs]
    for is_softmax in {record.is_softmax for record in finalists}:
        best = find_best(searched.search_, is_softmax)
        of_cost = {record[1:4] for record in finalists if record.is_softmax == is_softmax}
        assert of_cost == {(best.alpha, 0.03, 1.0), best[1:4]}
    chosen = searched.search_[-1]
    assert chosen == min(finalists, key=lambda record: record.log_loss)
    assert chosen.alpha == searched.sparse_coder_.alpha
    refiner = Refiner(
        1,
        weight_decay=chosen.weight_decay,
        linear_decay=chosen.linear_decay,
        cost="softmax" if chosen.is_softmax else "one_vs_all",
    )
    coder = ElasticNet(**searched.sparse_coder_.get_params())
    given = DDLClassifier(refine=refiner, sparse_coder=coder, **QUICK).fit(*planted)
    np.testing.assert_array_equal(given.components_, searched.components_)
    np.testing.assert_array_equal(given.coef_, searched.coef_)
    np.testing.assert_allclose(searched.class_cost_, chosen.temperature)


def test_with_each_fold_half_of_the_refined_settings_drop_out(planted, monkeypatch):
    n_folds = Counter()
    score = SettingsSearch._score_refined

    def count(search, fold, setting, epochs):
        n_folds[setting] += 1
        return score(search, fold, setting, epochs)

    monkeypatch.setattr(SettingsSearch, "_score_refined", count)
    model = DDLClassifier(refine=1, **QUICK).fit(*planted)
    expected = {1: [4], 2: [4, 1], 3: [4, 2, 1], 4: [4, 2, 1, 1]}[len(n_folds)]
    assert sorted(n_folds.values(), reverse=True) == expected
    assert len([record for record in model.search_ if record.epochs]) == len(n_folds)


def test_few_samples_of_two_round_classes_get_a_linear_classifier_without_epochs():
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    model = DDLClassifier(random_state=0).fit(rng.standard_normal((80, 4)) + 2 * y[:, None], y)
    chosen = model.search_[-1]
    assert (chosen.is_standardised, chosen.weight_decay, chosen.linear_decay) == (True, 30.0, 1.0)
    assert chosen.is_softmax
    assert len(model.refinement_) == 1  # the record before the first epoch
    assert 0 <= chosen.calibration_error < 0.2


def test_a_number_of_epochs_that_is_given_is_kept(planted, searched):
    assert len(searched.refinement_) == 2
    assert len(DDLClassifier(refine=0, **QUICK).fit(*planted).refinement_) == 1


def test_one_sample_far_from_the_others_does_not_decide_the_scaling():
    """It costs more than all others together if its square counts, as it does in the first cost."""
    X, y = make_planted(200, 6, 10, noise=0.1, random_state=0, return_X_y=True)
    X = X * np.logspace(-2, 2, 6)
    X[17] *= 30
    model = DDLClassifier(20, max_iter=0, refine=1, random_state=0).fit(X, y)
    assert isinstance(model.description_, Standard)


def test_a_cost_that_is_given_is_the_only_one(planted):
    model = DDLClassifier(refine=Refiner(1, cost="softmax"), **QUICK).fit(*planted)
    assert all(record.is_softmax for record in model.search_)


def test_penalties_are_tried_from_strong_to_weak_and_then_decays_around_the_best(searched):
    for is_softmax in (False, True):
        tried = [record for record in searched.search_ if record.is_softmax == is_softmax and not record.epochs]
        first = [record for record in tried if record[2:4] == tried[0][2:4]]
        assert len(first) > 1
        assert all(before.alpha > after.alpha for before, after in pairwise(first))
        for name in ("weight_decay", "linear_decay"):
            values = sorted({getattr(record, name) for record in tried})
            best = getattr(find_best(tried, is_softmax), name)
            assert values[0] < best < values[-1] or best in (3e-4, 30.0, 1e-2, 1e3)  # or at an end of its range


def test_what_is_given_is_not_searched_for(planted):
    model = DDLClassifier(refine=Refiner(1, weight_decay=0.5), sparse_coder=ElasticNet(0.1), **QUICK).fit(*planted)
    assert {(record.alpha, record.weight_decay) for record in model.search_} == {(0.1, 0.5)}
    assert len({record.linear_decay for record in model.search_}) > 1
    given = Refiner(1, weight_decay=0.5, linear_decay=2.0)
    model.set_params(refine=given).fit(*planted)
    assert not hasattr(model, "search_")


def test_a_coder_without_penalty_has_no_strength(planted):
    model = DDLClassifier(refine=1, sparse_coder="omp", **QUICK).fit(*planted)
    assert all(np.isnan(record.alpha) for record in model.search_)


def test_the_search_does_not_depend_on_threads_or_on_the_unit(planted, searched):
    X, y = planted
    for model in (DDLClassifier(refine=1, n_jobs=2, **QUICK).fit(X, y), DDLClassifier(refine=1, **QUICK).fit(8 * X, y)):
        for mine, theirs in zip(model.search_, searched.search_, strict=True):
            assert mine[2:4] == theirs[2:4]
            assert mine.cost == pytest.approx(theirs.cost, rel=1e-3)


def test_too_few_samples_are_not_searched():
    X, y = load_iris(return_X_y=True)
    model = DDLClassifier(refine=1, n_components=3, random_state=0).fit(X[::20], y[::20])
    assert not hasattr(model, "search_")
    assert model.sparse_coder_.alpha > 0


def test_a_class_of_one_sample_and_samples_without_label_are_no_obstacle(planted):
    X, y = planted
    y = np.r_[y, 7]
    y[:20] = -1
    model = DDLClassifier(refine=1, unlabeled=-1, **QUICK).fit(np.vstack([X, X[:1]]), y)
    assert 7 in model.classes_
    assert len(model.search_) > 2


def test_multilabel_targets_are_searched_too(planted):
    X, y = planted
    model = DDLClassifier(refine=1, **QUICK).fit(X, np.stack([y == 0, y > 1], axis=1).astype(int))
    assert len(model.search_) > 2


def test_the_scaling_is_searched_for_too():
    # Features of different units: unit norm would leave but the largest.
    X, y = make_planted(300, 6, 10, noise=0.1, random_state=0, return_X_y=True)
    X = X * np.logspace(-3, 3, 6)
    model = DDLClassifier(20, max_iter=0, refine=1, random_state=0).fit(X, y)
    assert isinstance(model.description_, Standard)
    assert find_best(model.search_).is_standardised
    assert {record.is_standardised for record in model.search_} == {False, True}
