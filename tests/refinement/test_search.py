"""The search for settings and sizes: it tries what is open, keeps what is given, and takes what is best held out."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from conftest import make_pursuit, normalise
from sklearn.datasets import load_digits, load_iris, make_multilabel_classification

from ddlearn import Checkpoint, DDLClassifier, ElasticNet, Refiner, Standard, load, save
from ddlearn.datasets import make_planted
from ddlearn.estimators.settings import make_settings
from ddlearn.fitting.data import cut_into_parts
from ddlearn.model.losses import LOSSES
from ddlearn.refinement.refiner import hold_out
from ddlearn.refinement.search import COLUMNS, SettingsSearch, Trial, _list_sizes, choose_size, take_best

DECAYS = ("weight_decay", "linear_decay")
QUICK = {"description": None, "n_components": 20, "max_iter": 0, "random_state": 0}


def list_rows(model, **wanted):
    """Return the rows of what was tried that have these values, as dicts."""
    rows = [dict(zip(model.search_, row, strict=True)) for row in zip(*model.search_.values(), strict=True)]
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def find_best(rows):
    """Return the best row."""
    return min(rows, key=lambda row: row["log_loss"])


def get(row, *names):
    return tuple(row[name] for name in names)


@pytest.fixture(scope="module")
def planted():
    return make_planted(200, 10, 15, noise=0.1, random_state=0, return_X_y=True)


@pytest.fixture(scope="module")
def searched(planted):
    return DDLClassifier(refine=1, **QUICK).fit(*planted)


# -- settings ----------------------------------------------------------------------------------------------------------


def test_the_best_of_each_cost_is_refined_and_one_of_them_is_the_model(planted, searched):
    finalists = list_rows(searched, epochs=1)
    for cost in {row["cost"] for row in finalists}:
        best = find_best(list_rows(searched, cost=cost, epochs=0))
        of_cost = {get(row, "alpha", *DECAYS) for row in finalists if row["cost"] == cost}
        assert of_cost == {(best["alpha"], 0.03, 1.0), get(best, "alpha", *DECAYS)}
    chosen = list_rows(searched)[-1]
    assert chosen == find_best(finalists)
    assert chosen["alpha"] == searched.sparse_coder_.alpha
    refiner = Refiner(1, cost=chosen["cost"], **{name: chosen[name] for name in DECAYS})
    coder = ElasticNet(**searched.sparse_coder_.get_params())
    given = DDLClassifier(refine=refiner, sparse_coder=coder, **QUICK).fit(*planted)
    np.testing.assert_array_equal(given.components_, searched.components_)
    np.testing.assert_array_equal(given.coef_, searched.coef_)
    np.testing.assert_allclose(searched.class_cost_, chosen["temperature"])


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
    assert len(list_rows(model, epochs=1)) == len(n_folds)


def test_few_samples_of_two_round_classes_get_a_linear_classifier_without_epochs():
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    model = DDLClassifier(random_state=0).fit(rng.standard_normal((80, 4)) + 2 * y[:, None], y)
    chosen = list_rows(model)[-1]
    assert get(chosen, "description", *DECAYS, "cost") == ("Standard", 30.0, 1.0, "softmax")
    assert len(model.refinement_) == 1  # the record before the first epoch
    assert 0 <= chosen["calibration_error"] < 0.2


def test_a_number_of_epochs_that_is_given_is_kept(planted, searched):
    assert len(searched.refinement_) == 2
    assert len(DDLClassifier(refine=0, **QUICK).fit(*planted).refinement_) == 1


def test_one_sample_far_from_the_others_does_not_decide_the_description():
    """It costs more than all others together if its square counts, as it does in the first cost."""
    X, y = make_planted(200, 6, 10, noise=0.1, random_state=0, return_X_y=True)
    X = X * np.logspace(-2, 2, 6)
    X[17] *= 30
    model = DDLClassifier(20, max_iter=0, refine=1, random_state=0).fit(X, y)
    assert isinstance(model.description_, Standard)


def test_penalties_are_tried_from_strong_to_weak_and_then_decays_around_the_best(searched):
    for cost in ("one_vs_all", "softmax"):
        tried = list_rows(searched, cost=cost, epochs=0)
        first = [row for row in tried if get(row, *DECAYS) == get(tried[0], *DECAYS)]
        assert len(first) > 1
        assert all(before["alpha"] > after["alpha"] for before, after in pairwise(first))
        for name in DECAYS:
            values = sorted({row[name] for row in tried})
            best = find_best(tried)[name]
            assert values[0] < best < values[-1] or best in (3e-4, 30.0, 1e-2, 1e3)  # or at an end of its range


def test_what_is_given_is_not_searched_for(planted):
    refiner = Refiner(1, weight_decay=0.5, cost="softmax")
    model = DDLClassifier(refine=refiner, sparse_coder=ElasticNet(0.1), **QUICK).fit(*planted)
    assert {get(row, "alpha", "weight_decay", "cost") for row in list_rows(model)} == {(0.1, 0.5, "softmax")}
    assert len(set(model.search_["linear_decay"])) > 1
    given = Refiner(1, weight_decay=0.5, linear_decay=2.0)
    model.set_params(refine=given).fit(*planted)
    assert not hasattr(model, "search_")


def test_a_coder_without_penalty_has_no_strength(planted):
    model = DDLClassifier(refine=1, sparse_coder="omp", **QUICK).fit(*planted)
    assert np.isnan(model.search_["alpha"]).all()


def test_the_search_does_not_depend_on_threads_or_on_the_unit(planted, searched):
    X, y = planted
    for model in (DDLClassifier(refine=1, n_jobs=2, **QUICK).fit(X, y), DDLClassifier(refine=1, **QUICK).fit(8 * X, y)):
        for name in DECAYS:
            np.testing.assert_array_equal(model.search_[name], searched.search_[name])
        np.testing.assert_allclose(model.search_["mean_cost"], searched.search_["mean_cost"], rtol=1e-3)


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
    assert len(list_rows(model)) > 2


def test_multilabel_targets_are_searched_too(planted):
    X, y = planted
    model = DDLClassifier(refine=1, **QUICK).fit(X, np.stack([y == 0, y > 1], axis=1).astype(int))
    assert len(list_rows(model)) > 2
    assert np.isnan(model.search_["log_loss"]).all()


def test_the_description_is_searched_for_too():
    # Features of different units: unit norm would leave but the largest.
    X, y = make_planted(300, 6, 10, noise=0.1, random_state=0, return_X_y=True)
    X = X * np.logspace(-3, 3, 6)
    model = DDLClassifier(20, max_iter=0, refine=1, random_state=0).fit(X, y)
    assert isinstance(model.description_, Standard)
    assert find_best(list_rows(model, cost="one_vs_all", epochs=0))["description"] == "Standard"
    assert set(model.search_["description"]) == {"Standard", "UnitNorm"}


# -- sizes -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return normalise(X)[:400], y[:400]


def automatic(**parameters) -> DDLClassifier:
    return make_pursuit(**{"n_components": "auto", "max_iter": 2, "random_state": 0} | parameters)


def resolve(X, y, unlabeled=None, **parameters):
    """Return a training set and the settings of its fit."""
    training, _ = cut_into_parts(X, y, unlabeled)
    model = make_pursuit(**parameters)
    model.n_features_in_ = X.shape[1]
    return training, make_settings(model, training, False)[1].loop


@pytest.mark.parametrize("n_unlabelled", [0, 50])
@pytest.mark.parametrize("loss", ["square", "logistic"])
def test_the_error_is_that_of_a_short_fit_on_samples_that_it_has_not_seen(digits, loss, n_unlabelled):
    X, y = digits
    y = np.where(np.arange(len(y)) < n_unlabelled, -1, y)
    training, settings = resolve(X, y, unlabeled=-1, loss=loss)
    n_components, rows = choose_size(training, settings, "samples")
    _, new = hold_out(y, 0.25, 3)
    seen = np.setdiff1d(np.arange(len(X)), new)  # unlabelled ones, too
    model = make_pursuit(n_components, loss=loss, tol=0.1, random_state=0, unlabeled=-1).fit(X[seen], y[seen])
    assert rows[-1]["n_components"] == n_components
    assert rows[-1]["error"] == pytest.approx(1 - model.score(X[new], y[new]))


def test_a_path_ends_beyond_the_best_and_not_in_doubt():
    def follow(*pairs, **options):
        """Return the best of trials with two losses, and how many of them were looked at."""
        taken = []
        trials = (taken.append(pair) or Trial(len(taken), {}, np.array(pair)) for pair in pairs)
        return take_best(trials, **options).choice, len(taken)

    falling = (3.0, 3.0), (2.0, 2.0)
    assert follow(*falling) == (2, 2)
    assert follow(*falling, (2.1, 2.1), (2.2, 2.2), (1.0, 1.0)) == (2, 4)
    assert follow(*falling, (2.1, 2.1), (2.2, 2.2), is_costly=True) == (2, 3)  # no doubt at all
    assert follow(*falling, (3.1, 1.1), (1.9, 1.9), is_costly=True) == (4, 4)


@pytest.mark.parametrize("seed", range(3))
def test_planted_atoms_are_counted_by_the_nearest_size_or_the_next(seed):
    X, y = make_planted(1000, 64, 60, 5, noise=0.1, random_state=seed, return_X_y=True)
    model = automatic(n_nonzero_coefs=3, max_iter=20, random_state=seed).fit(X, y)
    assert len(model.components_) in (62, 125)  # of 15, 31, 62, 125, 250, 500, 1000; there are 60
    assert len(model.components_) == model.search_["n_components"][-1]


def test_the_model_is_that_of_the_chosen_size_given_as_a_number(digits):
    model = automatic().fit(*digits)
    given = make_pursuit(len(model.components_), max_iter=2, random_state=0).fit(*digits)
    np.testing.assert_array_equal(model.components_, given.components_)
    np.testing.assert_array_equal(model.coef_, given.coef_)
    assert not hasattr(given, "search_")
    assert not np.isfinite(model.search_["temperature"]).any()  # of short fits, not of the model


def test_sizes_and_settings_are_in_one_table_whose_last_row_is_the_model(planted):
    model = DDLClassifier(refine=1, **QUICK | {"n_components": "auto"}).fit(*planted)
    assert list(model.search_) == list(COLUMNS)
    sizes = [row for row in list_rows(model) if np.isnan(row["weight_decay"])]
    assert find_best(sizes)["n_components"] == len(model.components_)
    assert len(sizes) < len(list_rows(model))
    assert model.search_["alpha"][-1] == model.sparse_coder_.alpha


def test_sizes_do_not_depend_on_the_unit_of_the_samples(digits):
    X, y = digits
    model, scaled = automatic().fit(X, y), automatic().fit(1000 * X, y)
    np.testing.assert_array_equal(scaled.search_["n_components"], model.search_["n_components"])
    np.testing.assert_allclose(scaled.search_["log_loss"], model.search_["log_loss"], rtol=1e-5)


def test_a_coder_with_parameters_to_estimate_measures_with_those_of_its_fit(digits):
    # The search once measured with the coder as it had been before the estimate, which cannot code.
    X, y = digits
    search = automatic(sparse_coder="elastic_net", n_nonzero_coefs=20).fit(X[:400], y[:400]).search_
    assert len(search["log_loss"]) > 1
    assert np.isfinite(search["log_loss"]).all()


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_sizes_are_chosen_with_every_loss(digits, loss):
    X, y = digits
    model = automatic(loss=loss, max_iter=1).fit(X[:200], y[:200])
    assert find_best(list_rows(model))["n_components"] == len(model.components_) <= 200


def test_several_labels_a_sample():
    X, Y = make_multilabel_classification(200, 20, n_classes=4, random_state=0)
    model = automatic(max_iter=1).fit(X, Y)
    assert sorted(model.search_["n_components"])[:2] == [6, 12]  # from 200, the largest, by halves
    assert ((model.search_["error"] >= 0) & (model.search_["error"] <= 1)).all()


def test_sizes_are_at_least_the_budget_and_at_most_the_number_of_labelled_samples(digits):
    assert _list_sizes(*resolve(*digits)) == [12, 25, 50, 100, 200, 400]
    assert _list_sizes(*resolve(*digits, n_nonzero_coefs=40)) == [50, 100, 200, 400]


def test_with_too_few_samples_the_default_holds(digits):
    X, y = digits[0][:30], digits[1][:30] % 2
    model = automatic().fit(X, y)
    assert not hasattr(model, "search_")
    assert len(model.components_) == len(make_pursuit(max_iter=2, random_state=0).fit(X, y).components_)


def test_atoms_that_are_given_decide_their_number(digits):
    X, y = digits
    model = automatic(init=X[:25]).fit(X, y)
    for fitted in (model, model.set_params(warm_start=True, init="samples").fit(X, y)):
        assert len(fitted.components_) == 25
        assert not hasattr(fitted, "search_")


# -- where it is kept --------------------------------------------------------------------------------------------------


def test_a_file_has_what_was_tried(digits, tmp_path):
    model = automatic().fit(*digits)
    save(model, tmp_path / "m")
    restored = load(tmp_path / "m")
    assert list(restored.search_) == list(model.search_)
    for name, column in model.search_.items():
        np.testing.assert_array_equal(restored.search_[name], column)
        assert restored.search_[name].dtype == column.dtype


def test_a_resumed_fit_finds_the_same_size(digits, tmp_path):
    path = tmp_path / "fit.checkpoint"
    searched = automatic(random_state=None, max_iter=1).set_callbacks(Checkpoint(path)).fit(*digits)
    resumed = automatic(random_state=None).set_callbacks(Checkpoint(path, resume=True)).fit(*digits)
    assert resumed.components_.shape == searched.components_.shape
    assert resumed.n_iter_ == 2


def test_samples_on_a_cluster_are_refused(digits):
    dask_array = pytest.importorskip("dask.array")
    X, y = (dask_array.from_array(array, chunks=100) for array in digits)
    with pytest.raises(ValueError, match=r"n_components='auto' needs all samples in one place.* use a number"):
        automatic(dictionary_update="block_coordinate").fit(X, y)
