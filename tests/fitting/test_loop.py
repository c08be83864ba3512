"""Each step of Algorithm 2 lowers the objective in its own variables; and the weight of the labels in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import normalise
from reference import dsc_objective, pursue_stacked
from sklearn.datasets import load_digits

from ddlearn import (
    DICTIONARY_UPDATES,
    LOSSES,
    AtomUpdate,
    Checkpoint,
    DDLClassifier,
    DiscriminativeCoding,
    Scales,
    SquareLev,
    load,
    map_objective,
    save,
)
from ddlearn.classifiers import resolve_trainer
from ddlearn.codes import RowCodes
from ddlearn.coding import encoder
from ddlearn.coding.encoder import resolve_sparse_coder
from ddlearn.datasets import make_planted
from ddlearn.dictionary import draw_dictionary, resolve_dictionary_update
from ddlearn.fitting.data import TrainingSet, collect_labels, fetch_candidates
from ddlearn.fitting.loop import (
    FitSettings,
    FitState,
    RowState,
    begin,
    encode,
    put_row_state,
    run,
    train_classifiers,
    update_dictionary,
    update_scales,
)
from ddlearn.objective import NOISE_MODELS
from ddlearn.parallel import PART_ROWS

MONOTONE_UPDATES = sorted(name for name in DICTIONARY_UPDATES if resolve_dictionary_update(name).is_monotone)
every_loss = pytest.mark.parametrize("loss", [loss_class() for loss_class in LOSSES.values()], ids=list(LOSSES))


def make_settings(loss, **changes) -> FitSettings:
    settings = FitSettings(
        loss=loss,
        sparse_coder=resolve_sparse_coder("omp"),
        n_nonzero_coefs=4,
        coding=DiscriminativeCoding(max_iter=20),
        dictionary_update=resolve_dictionary_update("atom"),
        classifier_trainer=resolve_trainer("auto", loss),
        scales=Scales(cost_floor=0.1),
        classification_weight=1.0,
        fit_intercept=True,
        is_multilabel=False,
        max_iter=5,
        tol=0.0,
        registration=None,
        n_jobs=1,
    )
    return replace(settings, **changes)


def start_fit(loss, seed=0, n_components=60, part_rows=PART_ROWS, **changes):
    """Return the training set of 400 digits, and the progress of a fit before its first iteration."""
    X, y = load_digits(return_X_y=True)
    X, y = normalise(X)[:400], y[:400]
    training = TrainingSet.of_arrays(X, np.where(y[:, None] == np.arange(10), 1, -1), part_rows)
    rng = np.random.RandomState(seed)
    candidates = fetch_candidates(training, n_components, rng)
    dictionary = draw_dictionary("samples", candidates, n_components, 64, training.facts.dtype, rng)
    return training, begin(training, make_settings(loss, **changes), dictionary)


def run_to_end(training, progress):
    return run(progress, training, lambda progress: progress)


def put_rows(state, training, **changes):
    """Return a state with other unknowns of the samples."""
    return state.put_rows(replace(state.collect_rows(), **changes), training.facts.row_slices)


def get_codes(state):
    return state.collect_rows().codes.to_csr(len(state.model.dictionary))


def evaluate(state, settings, training) -> float:
    """Return the objective by the public function, with the weight of the labels."""
    model = state.model
    terms = map_objective(
        training.X,
        collect_labels(training),
        model.dictionary,
        model.coef,
        model.intercept,
        get_codes(state),
        noise_variance=state.collect_rows().noise_variance,
        class_cost=model.class_cost,
        loss=settings.loss,
        sparse_coder=settings.sparse_coder,
    )
    return terms.representation + terms.log_noise + settings.weight * (terms.classification + terms.log_class_cost)


def assert_no_step_raises_the_objective(training, progress, n_iter=4):
    settings, state, floors = progress.settings, progress.state, progress.floors
    before = progress.history[-1].objective
    assert evaluate(state, settings, training) == pytest.approx(before, rel=1e-12)
    for _ in range(n_iter):
        for step in (
            lambda state: encode(state, settings)[0],
            lambda state: train_classifiers(state, settings, training),
            lambda state: update_dictionary(state, settings, training, floors)[0],
            lambda state: update_scales(state, settings, training, floors).state,
        ):
            state = step(state)
            after = evaluate(state, settings, training)
            assert after <= before + 1e-10 * abs(before)
            before = after


@every_loss
@pytest.mark.parametrize("update", MONOTONE_UPDATES)
@pytest.mark.parametrize("noise", sorted(NOISE_MODELS))
def test_no_step_raises_the_objective_with_monotone_settings(loss, update, noise):
    assert_no_step_raises_the_objective(
        *start_fit(loss, dictionary_update=resolve_dictionary_update(update), scales=Scales(noise, cost_floor=0.1))
    )


@every_loss
@pytest.mark.parametrize("weight", [0.5, 10.0])
def test_no_step_raises_the_objective_with_weighted_labels(loss, weight):
    assert_no_step_raises_the_objective(*start_fit(loss, classification_weight=weight), n_iter=2)


def test_the_printed_dictionary_step_can_raise_the_objective():
    # Plain K-SVD ignores the noise variances. If the objective never rose, "monotone" would be an idle word.
    training, progress = start_fit(LOSSES["square"](), dictionary_update=resolve_dictionary_update("ksvd"))
    settings, state, floors = progress.settings, progress.state, progress.floors
    rises = []
    for _ in range(6):
        state = train_classifiers(encode(state, settings)[0], settings, training)
        before = evaluate(state, settings, training)
        state, _ = update_dictionary(state, settings, training, floors)
        rises.append(evaluate(state, settings, training) > before)
        state = update_scales(state, settings, training, floors).state
    assert any(rises)


@every_loss
@pytest.mark.parametrize("update", MONOTONE_UPDATES)
def test_a_monotone_dictionary_step_leaves_every_score_as_it_was(loss, update):
    training, progress = start_fit(loss, dictionary_update=resolve_dictionary_update(update))
    state, _ = encode(progress.state, progress.settings)
    after, _ = update_dictionary(state, progress.settings, training, progress.floors)
    scores, before = (get_codes(each) @ each.model.coef.T for each in (after, state))
    np.testing.assert_allclose(scores, before, atol=1e-9)


def test_scales_minimise_the_objective_above_their_floors():
    training, progress = start_fit(LOSSES["logistic"]())
    settings, state, floors = progress.settings, progress.state, progress.floors
    variances, class_cost = state.collect_rows().noise_variance, state.model.class_cost
    rng = np.random.default_rng(0)
    for _ in range(20):
        variance = np.maximum(variances * rng.uniform(0.5, 2, 400), floors.noise_variance)
        costs = np.maximum(class_cost * rng.uniform(0.5, 2, 10), floors.class_cost)
        other = replace(
            put_rows(state, training, noise_variance=variance), model=replace(state.model, class_cost=costs)
        )
        assert evaluate(other, settings, training) >= progress.history[-1].objective


@pytest.mark.parametrize("weight", [0.5, 1.0, 10.0])
def test_class_costs_minimise_the_objective_whatever_the_weight(weight):
    # Were the weight on the costs alone, the best class cost would be that many times larger, and undo it.
    training, progress = start_fit(LOSSES["logistic"](), classification_weight=weight)
    state = progress.state
    assert (state.model.class_cost > 1.05 * progress.floors.class_cost).all()
    for j in range(10):
        for factor in (0.96, 1.04):
            costs = state.model.class_cost.copy()
            costs[j] *= factor
            other = replace(state, model=replace(state.model, class_cost=costs))
            assert evaluate(other, progress.settings, training) > progress.history[-1].objective


def make_printed_matrices(x, y, labels, model, noise_variance, loss):
    """Return what Algorithm 1 of the paper gives to TSC, with H_jj^2 = Omega_2 / (2 gamma_j) as it is printed there."""
    sigma = np.sqrt(noise_variance)
    G = (labels[:, None] * model.coef).T
    margin = G.T @ x + labels * model.intercept
    H = np.diag(np.sqrt(loss.curvature(margin) / (2 * model.class_cost)))
    delta = margin - loss.gradient(margin) / loss.curvature(margin)
    A = np.vstack([model.dictionary.T / sigma, H @ G.T])
    return A, np.concatenate([y / sigma, H @ (delta - labels * model.intercept)])


def test_half_the_weight_is_the_papers_printed_algorithm():
    loss = LOSSES["square"]()
    training, progress = start_fit(loss, classification_weight=0.5)
    state, model, variances = progress.state, progress.state.model, progress.state.collect_rows().noise_variance
    expected, n_moved = get_codes(state).toarray(), 0
    for row, (y, labels) in enumerate(zip(training.X, collect_labels(training), strict=True)):
        x = expected[row].copy()
        found = pursue_stacked(*make_printed_matrices(x, y, labels, model, variances[row], loss), 4)
        rest = (y, labels, model.dictionary, model.coef, model.intercept, variances[row], 2 * model.class_cost, loss)
        if dsc_objective(found, *rest) < dsc_objective(x, *rest):  # the guard
            expected[row] = found
            n_moved += 1
    assert n_moved > 300
    codes = get_codes(encode(state, progress.settings)[0]).toarray()
    np.testing.assert_allclose(codes, expected, atol=1e-7)
    derived = get_codes(encode(state, replace(progress.settings, classification_weight=1.0))[0]).toarray()
    assert np.abs(derived - expected).max() > 0.01


@every_loss
def test_a_vanishing_weight_gives_codes_without_labels(loss):
    # From empty codes: every code is better than none, so that the guard takes what the pursuit finds.
    training, progress = start_fit(loss, classification_weight=1e-12)
    empty = put_rows(progress.state, training, codes=RowCodes.empty(400, 4, np.float64))
    label_free = progress.state.encoder.encode(training.X).to_csr(60)
    codes = get_codes(encode(empty, progress.settings)[0])
    np.testing.assert_allclose(codes.toarray(), label_free.toarray(), atol=1e-5)
    weighted = replace(progress.settings, classification_weight=1.0)
    assert abs(get_codes(encode(empty, weighted)[0]) - label_free).max() > 0.01


def test_classifiers_of_replaced_atoms_start_from_zero():
    training, progress = start_fit(LOSSES["square"]())
    state = progress.state
    codes = state.collect_rows().codes
    values = np.where(codes.indices == 7, 0, codes.values)  # no sample uses atom 7
    state = put_rows(state, training, codes=RowCodes(codes.indices, values).sort())
    state = replace(state, model=replace(state.model, coef=np.ones_like(state.model.coef)))
    after, n_replaced = update_dictionary(state, progress.settings, training, progress.floors)
    assert n_replaced == 1
    assert not after.model.coef[:, 7].any()
    assert after.model.coef[:, 8].all()


@every_loss
def test_records_add_up_and_count(loss):
    history = run_to_end(*start_fit(loss, max_iter=3)).history
    assert [record.iteration for record in history] == [0, 1, 2, 3]
    for record in history:
        terms = record.representation + record.log_noise + record.classification + record.log_class_cost
        assert record.objective == pytest.approx(terms, rel=1e-12)
        assert 0 <= record.floor_share <= 1
        assert 0 <= record.training_error <= 1
        assert 0 <= record.label_free_error <= 1
    assert all(record.n_accepted > 0 for record in history[1:])
    # Before the first iteration all codes are label-free, and all of the 400 samples are monitored.
    assert history[0].training_error == history[0].label_free_error


def test_initial_atoms_are_at_the_floor():
    _, progress = start_fit(LOSSES["square"](), n_components=60)
    assert progress.history[0].floor_share >= 60 / 400


def test_it_stops_when_the_objective_settles_or_a_callback_asks_it_to():
    training, start = start_fit(LOSSES["square"](), max_iter=50, tol=1e-3)
    result = run_to_end(training, start)
    assert result.converged
    assert result.n_iter < 50
    stopped = run(start, training, lambda progress: progress._replace(stopped=progress.n_iter == 2))
    assert stopped.n_iter == 2
    assert not stopped.converged


def test_the_first_iteration_never_settles_the_objective():
    # On scikit-learn's digits its terms cancelled by chance: the fit ended after one iteration, at a higher objective.
    result = run_to_end(*start_fit(LOSSES["square"](), max_iter=50, tol=1e9))
    assert result.converged
    assert result.n_iter == 2


def get_arrays(state):
    model = state.model
    return [model.dictionary, model.coef, model.intercept, model.class_cost, state.collect_rows().noise_variance]


@pytest.mark.parametrize("n_jobs", [2, 3])
def test_results_do_not_depend_on_the_number_of_threads(n_jobs):
    one, several = (run_to_end(*start_fit(LOSSES["logistic"](), n_jobs=jobs, max_iter=3)).state for jobs in (1, n_jobs))
    for mine, theirs in zip(get_arrays(several), get_arrays(one), strict=True):
        np.testing.assert_array_equal(mine, theirs)


@every_loss
@pytest.mark.parametrize("update", ["ksvd", "block_coordinate", "mod"])
def test_the_way_samples_are_cut_does_not_matter(loss, update):
    # Sums are added in another order, so the last digits differ.
    changes = {"dictionary_update": resolve_dictionary_update(update), "max_iter": 3}
    one, two = (run_to_end(*start_fit(loss, part_rows=rows, **changes)).state for rows in (PART_ROWS, 256))
    assert [len(state.parts.parts) for state in (one, two)] == [1, 2]  # of 400 samples
    for mine, theirs in zip(get_arrays(two), get_arrays(one), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-7)


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
    model = run_to_end(*start_fit(LOSSES["square"](), part_rows=256, **changes)).state.model
    assert (trainer.n_calls, update.n_calls) == (3, 2)
    expected = run_to_end(*start_fit(LOSSES["square"](), max_iter=2)).state.model
    np.testing.assert_allclose(model.dictionary, expected.dictionary, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("puts_whole", [True, False])
def test_the_unknowns_of_rows_are_cut_and_joined(puts_whole):
    training = TrainingSet.of_arrays(np.zeros((600, 2)), np.ones((600, 1)), 256)
    rng = np.random.default_rng(0)
    codes = RowCodes(rng.integers(5, size=(600, 3)), rng.random((600, 3)))
    known = RowState(codes, rng.random(600), rng.random((600, 6)))
    state = FitState(None, None, training.parts)
    if puts_whole:
        state = replace(state, parts=training.parts.map(put_row_state, known))
    else:
        state = state.put_rows(known, training.facts.row_slices)
    joined = state.collect_rows()
    np.testing.assert_array_equal(joined.codes.indices, codes.indices)
    np.testing.assert_array_equal(joined.codes.values, codes.values)
    np.testing.assert_array_equal(joined.noise_variance, known.noise_variance)
    np.testing.assert_array_equal(joined.positions, known.positions)


@pytest.mark.parametrize("update", ["ksvd", "block_coordinate"])
def test_a_fit_computes_one_gram_matrix_per_dictionary(monkeypatch, update):
    sizes = []

    def count(dictionary, n_jobs=None, compute=encoder.compute_gram):
        sizes.append(len(dictionary))
        return compute(dictionary, n_jobs)

    monkeypatch.setattr(encoder, "compute_gram", count)
    X, y = load_digits(return_X_y=True)
    DDLClassifier(30, dictionary_update=update, max_iter=3, tol=0, random_state=0).fit(X[:200], y[:200])
    assert sizes == [30] * 4  # the first dictionary and three updates; the last training of classifiers needs no other


# -- the weight of the labels ------------------------------------------------------------------------------------------


def smooth(samples):
    """Let neighbouring features be alike, as those of images are."""
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


def make_model(**parameters) -> DDLClassifier:
    return DDLClassifier(**{"n_components": 20, "n_nonzero_coefs": 3, "max_iter": 2, "random_state": 0} | parameters)


def test_the_weight_is_estimated_by_default():
    assert DDLClassifier().classification_weight == "auto"


def test_the_estimate_is_the_excess_of_residuals_along_the_first_atoms(signals):
    X, y = signals
    fitted = make_model(init=X[:20], max_iter=0).fit(X, y)
    residuals = X - fitted.transform(X) @ fitted.components_
    along = np.mean((residuals @ fitted.components_.T) ** 2)
    overall = np.mean(residuals**2)  # what white noise of this size has in any direction
    assert fitted.classification_weight_ == pytest.approx(along / overall, rel=1e-6)
    assert fitted.classification_weight_ > 1.5


def test_white_noise_leaves_the_map_estimate():
    X, y = make_planted(800, 64, 60, 5, noise=0.2, random_state=0, return_X_y=True)
    fitted = make_model(n_components=60).fit(X, y)
    assert fitted.classification_weight_ == pytest.approx(1, abs=0.15)


def test_the_estimate_is_never_below_one_nor_makes_labels_weigh_more_than_features(signals):
    X, y = load_digits(return_X_y=True)
    assert make_model().fit(X[:300], y[:300]).classification_weight_ == 1
    X, y = signals
    many = np.arange(240) % 30
    assert make_model().fit(X, many).classification_weight_ == pytest.approx(62 / 60)  # (M + 2) / 2C


def test_unit_and_order_of_the_samples_do_not_change_the_estimate(signals):
    X, y = signals
    order = np.random.default_rng(0).permutation(len(X))
    weights = [
        make_model(init=X[:20], max_iter=0).fit(samples, labels).classification_weight_
        for samples, labels in ((X, y), (1000 * X, y), (X[order], y[order]))
    ]
    np.testing.assert_allclose(weights, weights[0], rtol=1e-6)


def test_samples_that_are_all_atoms_leave_the_map_estimate(signals):
    X, y = signals[0][:20], signals[1][:20]
    assert make_model(init=X, max_iter=0).fit(X, y).classification_weight_ == 1


def test_the_estimated_weight_does_what_the_same_number_does(signals):
    estimated = make_model().fit(*signals)
    given = make_model(classification_weight=estimated.classification_weight_).fit(*signals)
    np.testing.assert_array_equal(estimated.coef_, given.coef_)
    np.testing.assert_array_equal(estimated.predict_proba(signals[0]), given.predict_proba(signals[0]))
    assert given.classification_weight_ == estimated.classification_weight_
    assert make_model(classification_weight=1).fit(*signals).history_[-1] != estimated.history_[-1]


def test_the_weight_can_be_changed_after_the_fit_and_back(signals):
    X, _ = signals
    fitted = make_model().fit(*signals)
    evidence = fitted.decision_function(X)
    fitted.set_params(classification_weight=2 * fitted.classification_weight_)
    np.testing.assert_allclose(fitted.decision_function(X), 2 * evidence, rtol=1e-12)
    fitted.set_params(classification_weight="auto")
    np.testing.assert_array_equal(fitted.decision_function(X), evidence)


def test_a_stream_keeps_the_weight_of_its_first_batch(signals):
    X, y = signals
    stream = make_model(max_iter=20).partial_fit(X[:120], y[:120], classes=[0, 1])
    weight = stream.classification_weight_
    assert weight > 1.5
    assert stream.partial_fit(X[120:], y[120:]).classification_weight_ == weight
    assert weight == make_model(dictionary_update="atom").fit(X[:120], y[:120]).classification_weight_


def test_a_file_keeps_the_weight_and_one_without_it_can_be_read(signals, tmp_path):
    X, _ = signals
    fitted = make_model().fit(*signals)
    save(fitted, tmp_path / "new")
    restored = load(tmp_path / "new")
    assert restored.classification_weight_ == fitted.classification_weight_
    np.testing.assert_array_equal(restored.predict_proba(X), fitted.predict_proba(X))

    older = make_model(classification_weight=0.5).fit(*signals)
    del older.classification_weight_  # as versions without an estimate had it
    save(older, tmp_path / "old")
    restored = load(tmp_path / "old")
    np.testing.assert_array_equal(restored.predict_proba(X), older.predict_proba(X))
    with pytest.raises(ValueError, match="classification_weight='auto' is estimated by fit"):
        restored.set_params(classification_weight="auto").predict(X)


def test_a_resumed_fit_goes_on_with_the_weight(signals, tmp_path):
    path = tmp_path / "fit.checkpoint"
    make_model(max_iter=1, tol=0).set_callbacks(Checkpoint(path)).fit(*signals)
    resumed = make_model(tol=0).set_callbacks(Checkpoint(path, resume=True)).fit(*signals)
    at_once = make_model(tol=0).fit(*signals)
    assert resumed.classification_weight_ == at_once.classification_weight_
    np.testing.assert_array_equal(resumed.coef_, at_once.coef_)


def test_a_report_weighs_as_the_model_does(signals):
    from ddlearn.show.report.content import _describe_model

    fitted = make_model(loss="logistic").fit(*signals)
    estimated = _describe_model(fitted, None)["class_cost"]
    fitted.set_params(classification_weight=fitted.classification_weight_)
    assert _describe_model(fitted, None)["class_cost"] == estimated
    assert _describe_model(fitted.set_params(classification_weight=1.0), None)["class_cost"] != estimated
