"""The number of atoms from the samples: the criterion is what it says, and the choice is right where one knows it."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_pursuit, normalise
from sklearn.datasets import load_digits, make_multilabel_classification

from ddlearn import (
    LOSSES,
    Checkpoint,
    DDLClassifier,
    load,
    save,
)
from ddlearn.datasets import make_planted
from ddlearn.estimators.settings import resolve_fit
from ddlearn.fitting.data import cut_into_parts
from ddlearn.refinement.size import SizeSearch, _has_passed_best, _Trial, choose_size


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return normalise(X)[:400], y[:400]


def automatic(**parameters) -> DDLClassifier:
    return make_pursuit(**{"n_components": "auto", "max_iter": 2, "random_state": 0} | parameters)


def untimed(sizes):
    return [size._replace(seconds=0.0) for size in sizes]


def make_search(X, y, unlabeled=None, **parameters) -> SizeSearch:
    training, _ = cut_into_parts(X, y, unlabeled)
    model = make_pursuit(**parameters)
    model.n_features_in_ = X.shape[1]
    settings = resolve_fit(model, training.facts, 100, False, "memory")
    return SizeSearch(training, settings, "samples", np.random.RandomState(0))


# -- the criterion -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", ["square", "logistic"])
def test_the_criterion_is_the_label_code_of_samples_that_a_short_fit_has_not_seen(digits, loss):
    X, y = digits
    search = make_search(X, y, loss=loss)
    size = search.run()[1]

    model = make_pursuit(size.n_components, loss=loss, tol=0.1, random_state=search.seed)
    seen = [np.flatnonzero((row == X).all(axis=1))[0] for row in search.learned.whole.X]
    model.fit(X[seen], y[seen])
    new = np.setdiff1d(np.arange(len(X)), seen)
    scores = model.transform(X[new]) @ model.coef_.T + model.intercept_
    margins = np.where(y[new, None] == model.classes_, scores, -scores)
    solved = 0.01 * model.loss_.value(np.zeros(1))  # what no class is below
    code_length = np.log(np.maximum(model.loss_.value(margins).mean(axis=0), solved)).sum()

    assert size.code_length == pytest.approx(code_length, rel=1e-6)
    assert size.error == pytest.approx(1 - model.score(X[new], y[new]))


def test_a_quarter_of_each_class_is_held_out_and_no_sample_both_learned_and_held_out(digits):
    X, y = digits
    search = make_search(X, y)
    learned, held_out = search.learned, search.held_out
    np.testing.assert_array_equal(held_out.facts.n_positive, np.bincount(y) // 4)
    np.testing.assert_array_equal(learned.facts.n_positive + held_out.facts.n_positive, np.bincount(y))
    both = np.concatenate([learned.whole.X, held_out.whole.X])
    np.testing.assert_array_equal(np.sort(both, axis=0), np.sort(X, axis=0))


def test_unlabelled_samples_are_learned_from_and_not_held_out(digits):
    X, y = digits
    y = np.where(np.arange(len(y)) < 200, y, -1)
    search = make_search(X, y, unlabeled=-1)
    n_held_out = (np.bincount(y[:200]) // 4).sum()
    assert search.held_out.facts.n_samples == search.held_out.facts.n_with_label == n_held_out
    assert search.learned.facts.n_samples == len(X) - n_held_out


def tried(n_components, code_length, influence=(0.0, 0.0)):
    return _Trial(n_components, code_length, np.array(influence), 0.0)


def test_the_search_ends_beyond_the_best_and_not_in_doubt():
    falling = [tried(10, 3.0), tried(20, 2.0)]
    assert not _has_passed_best(falling)
    assert _has_passed_best([*falling, tried(40, 2.1)])  # no doubt at all: the influences are the same
    doubtful = tried(40, 2.1, (1.0, -1.0))
    assert not _has_passed_best([*falling, doubtful])
    assert _has_passed_best([*falling, doubtful, tried(80, 2.01, (9.0, -9.0))])
    assert not _has_passed_best([*falling, doubtful, tried(80, 1.9)])


# -- the choice --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_planted_atoms_are_counted_by_the_nearest_size_or_the_next(seed):
    X, y = make_planted(1000, 64, 60, 5, noise=0.1, random_state=seed, return_X_y=True)
    model = automatic(n_nonzero_coefs=3, max_iter=20, random_state=seed).fit(X, y)
    assert len(model.components_) in (62, 125)  # of 15, 31, 62, 125, 250, 500, 1000; there are 60
    assert len(model.components_) == choose_size(model.dictionary_sizes_, 0)


def test_the_model_is_that_of_the_chosen_size_given_as_a_number(digits):
    model = automatic().fit(*digits)
    given = make_pursuit(len(model.components_), max_iter=2, random_state=0).fit(*digits)
    np.testing.assert_array_equal(model.components_, given.components_)
    np.testing.assert_array_equal(model.coef_, given.coef_)
    assert not hasattr(given, "dictionary_sizes_")


def test_it_depends_on_the_seed_and_not_on_the_unit_of_the_samples(digits):
    X, y = digits
    sizes = automatic().fit(X, y).dictionary_sizes_
    assert untimed(automatic().fit(X, y).dictionary_sizes_) == untimed(sizes)
    assert untimed(automatic(random_state=1).fit(X, y).dictionary_sizes_) != untimed(sizes)
    scaled = automatic().fit(1000 * X, y).dictionary_sizes_
    assert [size.n_components for size in scaled] == [size.n_components for size in sizes]
    np.testing.assert_allclose([s.code_length for s in scaled], [s.code_length for s in sizes], rtol=1e-5)


def test_a_coder_with_parameters_to_estimate_measures_with_those_of_its_fit(digits):
    # The search once measured with the coder as it had been before the estimate, which cannot code.
    X, y = digits
    sizes = automatic(sparse_coder="elastic_net", n_nonzero_coefs=20).fit(X[:400], y[:400]).dictionary_sizes_
    assert len(sizes) > 1
    assert all(np.isfinite(size.code_length) for size in sizes)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_every_loss_has_a_criterion(digits, loss):
    X, y = digits
    model = automatic(loss=loss, max_iter=1).fit(X[:200], y[:200])
    best = min(model.dictionary_sizes_, key=lambda size: size.code_length)
    assert best.n_components == len(model.components_) <= 200
    assert best.standard_error == 0
    assert all(size.standard_error > 0 for size in model.dictionary_sizes_ if size is not best)


def test_several_labels_a_sample():
    X, Y = make_multilabel_classification(200, 20, n_classes=4, random_state=0)
    model = automatic(max_iter=1).fit(X, Y)
    assert [size.n_components for size in model.dictionary_sizes_][:2] == [6, 12]  # from 200, the largest, by halves
    assert all(0 <= size.error <= 1 for size in model.dictionary_sizes_)


def test_sizes_are_at_least_the_budget_and_at_most_the_number_of_labelled_samples(digits):
    X, y = digits
    assert make_search(X, y)._list_sizes() == [12, 25, 50, 100, 200, 400]
    assert make_search(X, y, n_nonzero_coefs=40)._list_sizes() == [50, 100, 200, 400]


def test_with_too_few_samples_the_default_holds(digits):
    X, y = digits[0][:30], digits[1][:30] % 2
    model = automatic().fit(X, y)
    assert model.dictionary_sizes_ == []
    assert len(model.components_) == len(make_pursuit(max_iter=2, random_state=0).fit(X, y).components_)


def test_atoms_that_are_given_decide_their_number(digits):
    X, y = digits
    model = automatic(init=X[:25]).fit(X, y)
    for fitted in (model, model.set_params(warm_start=True, init="samples").fit(X, y)):
        assert len(fitted.components_) == 25
        assert not hasattr(fitted, "dictionary_sizes_")  # there was no search


# -- where it is kept --------------------------------------------------------------------------------------------------


def test_a_file_tells_what_was_tried(digits, tmp_path):
    model = automatic().fit(*digits)
    save(model, tmp_path / "m")
    restored = load(tmp_path / "m")
    assert restored.dictionary_sizes_ == model.dictionary_sizes_
    assert restored.dictionary_sizes_[0].n_components == model.dictionary_sizes_[0].n_components


def test_a_resumed_fit_does_not_search_again(digits, tmp_path):
    path = tmp_path / "fit.checkpoint"
    searched = automatic(random_state=None, max_iter=1).set_callbacks(Checkpoint(path)).fit(*digits)
    resumed = automatic(random_state=None).set_callbacks(Checkpoint(path, resume=True)).fit(*digits)
    assert resumed.dictionary_sizes_ == searched.dictionary_sizes_  # with the same seconds
    assert resumed.components_.shape == searched.components_.shape
    assert resumed.n_iter_ == 2


def test_samples_on_a_cluster_are_refused(digits):
    dask_array = pytest.importorskip("dask.array")
    X, y = (dask_array.from_array(array, chunks=100) for array in digits)
    with pytest.raises(ValueError, match=r"n_components='auto' needs all samples in one place.* use a number"):
        automatic(dictionary_update="block_coordinate").fit(X, y)
