"""Each step of Algorithm 2 lowers the objective in its own variables."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import normalise
from ddlearn.fitting.loop.data import TrainingSet
from ddlearn.fitting.loop.loop import AlternatingFit
from ddlearn.fitting.loop.steps import FitSettings
from reference import dsc_objective, pursue_stacked
from sklearn.datasets import load_digits

from ddlearn import DICTIONARY_UPDATES, LOSSES
from ddlearn.classifiers import SquareLev, resolve_trainer
from ddlearn.codes import RowCodes
from ddlearn.coding import encode_rows, resolve_sparse_coder
from ddlearn.dictionary import AtomUpdate, init_dictionary, resolve_dictionary_update
from ddlearn.objective import NOISE_MODELS
from ddlearn.parallel import PART_ROWS

MONOTONE_UPDATES = sorted(name for name in DICTIONARY_UPDATES if resolve_dictionary_update(name).is_monotone)
every_loss = pytest.mark.parametrize("loss", [loss_class() for loss_class in LOSSES.values()], ids=list(LOSSES))


def make_settings(loss, **changes) -> FitSettings:
    settings = FitSettings(
        loss=loss,
        sparse_coder=resolve_sparse_coder("omp"),
        dictionary_update=resolve_dictionary_update("atom"),
        classifier_trainer=resolve_trainer("auto", loss),
        noise="per_sample",
        n_nonzero_coefs=4,
        fit_intercept=True,
        is_multilabel=False,
        max_iter=5,
        tol=0.0,
        max_coding_iter=20,
        coding_tol=1e-4,
        noise_floor=0.1,
        cost_floor=0.1,
        classification_weight=1.0,
        n_jobs=1,
    )
    return replace(settings, **changes)


def make_fit(loss, seed=0, n_components=60, part_rows=PART_ROWS, **changes):
    X, y = load_digits(return_X_y=True)
    X, y = normalise(X)[:400], y[:400]
    rng = np.random.RandomState(seed)
    labels = np.where(y[:, None] == np.arange(10), 1.0, -1.0)
    fitting = AlternatingFit(TrainingSet.of_arrays(X, labels, part_rows), make_settings(loss, **changes), rng)
    return fitting, fitting.initialise(init_dictionary("samples", X, y, n_components, rng))


def put_rows(fitting, state, **changes):
    """Return a state in which something is known of the samples that the fit did not find out."""
    return state.put_rows(state.collect_rows()._replace(**changes), fitting.facts.row_slices)


def assert_no_step_raises_the_objective(fitting, start, n_iter=4):
    (state, objective, _), floors = start
    before = objective.total
    for _ in range(n_iter):
        for step in (
            lambda state: fitting.encode(state)[0],
            fitting.train_classifiers,
            lambda state: fitting.update_dictionary(state, floors)[0],
            lambda state: fitting.update_scales(state, floors).state,
        ):
            state = step(state)
            after = fitting.evaluate(state).total
            assert after <= before + 1e-10 * abs(before)
            before = after


@every_loss
@pytest.mark.parametrize("update", MONOTONE_UPDATES)
@pytest.mark.parametrize("noise", sorted(NOISE_MODELS))
def test_no_step_raises_the_objective_with_monotone_settings(loss, update, noise):
    assert_no_step_raises_the_objective(
        *make_fit(loss, dictionary_update=resolve_dictionary_update(update), noise=noise)
    )


@every_loss
@pytest.mark.parametrize("weight", [0.5, 10.0])
def test_no_step_raises_the_objective_with_weighted_labels(loss, weight):
    assert_no_step_raises_the_objective(*make_fit(loss, classification_weight=weight), n_iter=2)


def test_the_printed_dictionary_step_can_raise_the_objective():
    # Plain K-SVD ignores the noise variances. If the objective never rose, "monotone" would be an idle word.
    fitting, ((state, _, _), floors) = make_fit(LOSSES["square"](), dictionary_update=resolve_dictionary_update("ksvd"))
    rises = []
    for _ in range(6):
        state = fitting.train_classifiers(fitting.encode(state)[0])
        before = fitting.evaluate(state).total
        state, _ = fitting.update_dictionary(state, floors)
        rises.append(fitting.evaluate(state).total > before)
        state = fitting.update_scales(state, floors).state
    assert any(rises)


@every_loss
def test_the_dictionary_step_leaves_every_score_as_it_was_if_it_says_so(loss):
    for name in MONOTONE_UPDATES:
        fitting, ((state, _, _), floors) = make_fit(loss, dictionary_update=resolve_dictionary_update(name))
        state, _ = fitting.encode(state)
        after, _ = fitting.update_dictionary(state, floors)
        np.testing.assert_allclose(
            after.codes.to_csr(60) @ after.coef.T, state.codes.to_csr(60) @ state.coef.T, atol=1e-9
        )


def test_scales_minimise_the_objective_above_their_floors():
    fitting, ((state, objective, _), floors) = make_fit(LOSSES["logistic"]())
    rng = np.random.default_rng(0)
    for _ in range(20):
        variance = np.maximum(state.noise_variance * rng.uniform(0.5, 2, 400), floors.noise_variance)
        other = replace(
            put_rows(fitting, state, noise_variance=variance),
            class_cost=np.maximum(state.class_cost * rng.uniform(0.5, 2, 10), floors.class_cost),
        )
        assert fitting.evaluate(other).total >= objective.total


@pytest.mark.parametrize("weight", [0.5, 1.0, 10.0])
def test_class_costs_minimise_the_objective_whatever_the_weight(weight):
    # Were the weight on the costs alone, the best class cost would be that many times larger, and undo it.
    fitting, ((state, objective, _), floors) = make_fit(LOSSES["logistic"](), classification_weight=weight)
    assert (state.class_cost > 1.05 * floors.class_cost).all()
    for j in range(10):
        for factor in (0.96, 1.04):
            other = state.class_cost.copy()
            other[j] *= factor
            assert fitting.evaluate(replace(state, class_cost=other)).total > objective.total


def make_printed_matrices(x, y, labels, state, noise_variance, loss):
    """Return what Algorithm 1 of the paper gives to TSC, with H_jj^2 = Omega_2 / (2 gamma_j) as it is printed there."""
    sigma = np.sqrt(noise_variance)
    G = (labels[:, None] * state.coef).T
    margin = G.T @ x + labels * state.intercept
    H = np.diag(np.sqrt(loss.curvature(margin) / (2 * state.class_cost)))
    delta = margin - loss.gradient(margin) / loss.curvature(margin)
    A = np.vstack([state.dictionary.T / sigma, H @ G.T])
    return A, np.concatenate([y / sigma, H @ (delta - labels * state.intercept)])


def test_half_the_weight_is_the_papers_printed_algorithm():
    loss = LOSSES["square"]()
    fitting, ((state, _, _), _) = make_fit(loss, classification_weight=0.5)
    start = state.codes.to_csr(60).toarray()
    expected, n_moved = start.copy(), 0
    (part,) = fitting.training.parts.parts
    for row, (x, y, labels) in enumerate(zip(start, part.X, part.labels, strict=True)):
        variance = state.noise_variance[row]
        found = pursue_stacked(*make_printed_matrices(x, y, labels, state, variance, loss), 4)
        rest = (y, labels, state.dictionary, state.coef, state.intercept, variance, 2 * state.class_cost, loss)
        if dsc_objective(found, *rest) < dsc_objective(x, *rest):  # the guard
            expected[row] = found
            n_moved += 1
    assert n_moved > 300
    codes = fitting.encode(state)[0].codes.to_csr(60).toarray()
    np.testing.assert_allclose(codes, expected, atol=1e-7)
    derived = make_fit(loss, classification_weight=1.0)[0].encode(state)[0].codes.to_csr(60).toarray()
    assert np.abs(derived - expected).max() > 0.01


@every_loss
def test_a_vanishing_weight_gives_codes_without_labels(loss):
    # From empty codes: every code is better than none, so that the guard takes what the pursuit finds.
    fitting, ((state, _, _), _) = make_fit(loss, classification_weight=1e-12)
    empty = put_rows(fitting, state, codes=RowCodes.empty(400, 4, np.float64))
    coder = fitting.settings.sparse_coder
    label_free = encode_rows(fitting.training.X, state.dictionary, coder, 4, n_jobs=1).to_csr(60)
    codes = fitting.encode(empty)[0].codes.to_csr(60)
    np.testing.assert_allclose(codes.toarray(), label_free.toarray(), atol=1e-5)
    fitting.settings = replace(fitting.settings, classification_weight=1.0)
    assert abs(fitting.encode(empty)[0].codes.to_csr(60) - label_free).max() > 0.01


def test_classifiers_of_replaced_atoms_start_from_zero():
    fitting, ((state, _, _), floors) = make_fit(LOSSES["square"]())
    codes = state.codes
    codes.values[codes.indices == 7] = 0  # now nobody uses atom 7
    order = np.argsort(codes.values == 0, axis=1, kind="stable")
    indices, values = (np.take_along_axis(array, order, axis=1) for array in codes)
    indices[values == 0] = 0
    state = put_rows(fitting, state, codes=RowCodes(indices, values))
    state = replace(state, coef=np.ones_like(state.coef))
    after, n_replaced = fitting.update_dictionary(state, floors)
    assert n_replaced == 1
    assert not after.coef[:, 7].any()
    assert after.coef[:, 8].all()


@every_loss
def test_records_add_up_and_count(loss):
    fitting, start = make_fit(loss, max_iter=3)
    result = fitting.run(fitting.begin(*start), lambda progress: False)
    assert [record.iteration for record in result.history] == [0, 1, 2, 3]
    for record in result.history:
        terms = record.representation + record.noise + record.classification + record.cost
        assert record.objective == pytest.approx(terms, rel=1e-12)
        assert 0 <= record.floor_share <= 1
        assert 0 <= record.training_error <= 1
        assert 0 <= record.label_free_error <= 1
    assert all(record.n_accepted > 0 for record in result.history[1:])
    # Before the first iteration all codes are label-free, and all of the 400 samples are watched.
    assert result.history[0].training_error == result.history[0].label_free_error


def test_initial_atoms_are_at_the_floor():
    fitting, start = make_fit(LOSSES["square"](), n_components=60)
    result = replace(fitting.settings, max_iter=0)
    fitting.settings = result
    record = fitting.run(fitting.begin(*start), lambda progress: False).history[0]
    assert record.floor_share >= 60 / 400


def test_it_stops_when_the_objective_settles_or_when_told_to():
    fitting, start = make_fit(LOSSES["square"](), max_iter=50, tol=1e-3)
    result = fitting.run(fitting.begin(*start), lambda progress: False)
    assert result.converged
    assert result.n_iter < 50
    told = fitting.run(fitting.begin(*start), lambda progress: progress.n_iter == 2)
    assert told.n_iter == 2
    assert not told.converged


def test_the_first_iteration_never_settles_the_objective():
    # On scikit-learn's digits its terms cancelled by chance: the fit ended after one iteration, at a higher objective.
    fitting, start = make_fit(LOSSES["square"](), max_iter=50, tol=1e9)
    result = fitting.run(fitting.begin(*start), lambda progress: False)
    assert result.converged
    assert result.n_iter == 2


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_results_do_not_depend_on_the_number_of_threads(n_jobs):
    results = []
    for jobs in (1, n_jobs):
        fitting, start = make_fit(LOSSES["logistic"](), n_jobs=jobs, max_iter=3)
        results.append(fitting.run(fitting.begin(*start), lambda progress: False).state)
    for name in ("dictionary", "coef", "intercept", "noise_variance", "class_cost"):
        np.testing.assert_array_equal(getattr(results[0], name), getattr(results[1], name))


@every_loss
@pytest.mark.parametrize("update", ["ksvd", "block_coordinate", "mod"])
def test_the_way_samples_are_cut_does_not_matter(loss, update):
    # Sums are added in another order, so the last digits differ.
    states = []
    for part_rows in (PART_ROWS, 256):  # 400 samples: one part, or two
        changes = {"dictionary_update": resolve_dictionary_update(update), "max_iter": 3}
        fitting, start = make_fit(loss, part_rows=part_rows, **changes)
        states.append(fitting.run(fitting.begin(*start), lambda progress: False).state)
    assert [len(state.parts.parts) for state in states] == [1, 2]
    for name in ("dictionary", "coef", "intercept", "noise_variance", "class_cost"):
        np.testing.assert_allclose(getattr(states[1], name), getattr(states[0], name), rtol=1e-6, atol=1e-7)


def test_first_atoms_come_from_all_classes_also_where_only_some_samples_are_candidates(monkeypatch):
    monkeypatch.setattr("ddlearn.fitting.loop._MOST_CANDIDATES", 100)
    X = np.eye(500) + 1.0
    y = np.minimum(np.arange(500) // 100, 3) * (np.arange(500) != 7) + 4 * (np.arange(500) == 7)  # class 4 is rare
    labels = np.where(y[:, None] == np.arange(5), 1, -1)
    found = []
    for part_rows in (256, 1024):
        training = TrainingSet.of_arrays(X, labels, part_rows)
        fitting = AlternatingFit(training, make_settings(LOSSES["square"]()), np.random.RandomState(0))
        class_index, rows = fitting._list_candidates()
        assert np.bincount(class_index).tolist() == [20, 20, 20, 40, 1]
        assert (y[rows] == class_index).all()
        found.append(class_index)
    np.testing.assert_array_equal(*found)


class OwnTrainer(SquareLev):
    """Derives from a trainer that works on sums, but wants all samples at once."""

    is_additive = False

    def train(self, *arguments, **options):
        self.n_calls = getattr(self, "n_calls", 0) + 1
        return super().train(*arguments, **options)


class OwnUpdate(AtomUpdate):
    """The same for the dictionary."""

    is_additive = False

    def update(self, *arguments, **options):
        self.n_calls = getattr(self, "n_calls", 0) + 1
        return super().update(*arguments, **options)


def test_strategies_with_their_own_way_with_all_samples_are_given_all():
    trainer, update = OwnTrainer(), OwnUpdate()
    changes = {"classifier_trainer": trainer, "dictionary_update": update, "max_iter": 2}
    fitting, start = make_fit(LOSSES["square"](), part_rows=256, **changes)
    state = fitting.run(fitting.begin(*start), lambda progress: False).state
    assert (trainer.n_calls, update.n_calls) == (3, 2)
    fitting, start = make_fit(LOSSES["square"](), max_iter=2)
    expected = fitting.run(fitting.begin(*start), lambda progress: False).state
    np.testing.assert_allclose(state.dictionary, expected.dictionary, rtol=1e-8, atol=1e-10)
