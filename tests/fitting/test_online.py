"""Streams: sums of batches are sums of the whole, one batch is one iteration, and what goes wrong changes nothing."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from conftest import make_pursuit, make_stream
from sklearn.base import clone
from sklearn.datasets import load_digits

from ddlearn import (
    Alignment,
    AtomUpdate,
    ClassifierTrainer,
    ConjugateScales,
    ConvergenceDisplay,
    JeffreysScales,
    MiniBatchDDLClassifier,
    PrintedCoding,
    load,
    save,
)
from ddlearn.classifiers import resolve_trainer
from ddlearn.classifiers.memory import CostParabolas, train_with_memory
from ddlearn.classifiers.problem import (
    ExpansionRequest,
    LabelledCodes,
    summarise_and_expand,
)
from ddlearn.datasets import make_planted
from ddlearn.model.codes import RowCodes
from ddlearn.model.losses import LOSSES
from ddlearn.parallel import Parts

N_COMPONENTS = 12


class FixedAtoms(AtomUpdate):
    """An update that leaves the atoms alone."""

    def update_from(self, statistics, dictionary):
        return dictionary

    def replace_unused(self, dictionary, unused, find_worst):
        return dictionary, unused[:0]


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)


@pytest.fixture(scope="module")
def planted():
    return make_planted(900, noise=0.05, random_state=0, return_X_y=True)


def random_atoms(n_features=20, n_components=N_COMPONENTS):
    return np.random.default_rng(0).standard_normal((n_components, n_features))


SIZES = {"n_components": N_COMPONENTS, "n_nonzero_coefs": 3, "random_state": 0}


def make_model(**parameters):
    return make_stream(**SIZES | parameters)


def make_fit(**parameters):
    return make_pursuit(**SIZES | parameters)


def with_fixed_codes(**parameters):
    """A model whose codes depend on nothing but the sample, so that sums can be compared."""
    fixed = {"description": None, "dictionary_update": FixedAtoms(), "init": random_atoms()}
    fixed |= {"label_coding": PrintedCoding(max_iter=0), "scales": JeffreysScales(noise_floor=1e-9)}
    return (make_fit if "max_iter" in parameters else make_model)(**fixed | parameters)


def feed(model, X, y, batch_size, classes=None):
    classes = np.unique(y) if classes is None else classes
    for start in range(0, len(X), batch_size):
        model.partial_fit(X[start : start + batch_size], y[start : start + batch_size], classes=classes)
    return model


def get_sums(model):
    """All that is summed over samples, in units that do not depend on the first batch."""
    stream = model.stream_
    unit = stream.misfits.unit
    sums = [stream.statistics.code_gram / unit, stream.statistics.data_sums / unit]
    for taught in (stream.with_labels, stream.label_free):
        memory = taught.memory
        sums += [memory.squared_norms, memory.n_of_label, memory.constants, memory.linear, memory.hessians]
    return [*sums, stream.sum_of_misfits, stream.n_labelled, stream.n_positive, np.array(stream.label_weight)]


def assert_same_sums(found, expected):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-8, atol=1e-8 * np.abs(other).max())


def test_sums_of_batches_are_those_of_the_whole(planted):
    X, y = planted
    assert_same_sums(
        get_sums(feed(with_fixed_codes(forgetting=0), X, y, 250)),
        get_sums(feed(with_fixed_codes(forgetting=0), X, y, len(X))),
    )


def test_a_batch_counts_as_its_place_in_the_stream_says(planted):
    X, y = planted
    ends, rho = np.array([100, 400, 900]), 1.7
    model = with_fixed_codes(forgetting=rho)
    expected = None
    for start, end in zip([0, *ends], ends, strict=False):
        model.partial_fit(X[start:end], y[start:end], classes=[0, 1, 2])
        alone = with_fixed_codes().partial_fit(X[start:end], y[start:end], classes=[0, 1, 2])
        counted = [(end / ends[-1]) ** rho * each for each in get_sums(alone)]
        expected = counted if expected is None else [one + other for one, other in zip(expected, counted, strict=True)]
    assert_same_sums(get_sums(model), expected)


def test_with_a_square_loss_and_fixed_codes_batches_train_the_classifiers_of_the_whole(planted):
    X, y = planted
    streamed = feed(with_fixed_codes(forgetting=0), X, y, 130)
    whole = with_fixed_codes(max_iter=0).fit(X, y)
    np.testing.assert_allclose(streamed.coef_, whole.coef_, atol=1e-10)
    np.testing.assert_allclose(streamed.intercept_, whole.intercept_, atol=1e-10)
    np.testing.assert_allclose(streamed.class_prior_, whole.class_prior_)


def make_labelled_codes(seed=0, n_samples=80, n_classes=3):
    rng = np.random.default_rng(seed)
    indices = rng.permuted(np.tile(np.arange(N_COMPONENTS), (n_samples, 1)), axis=1)[:, :3].astype(np.int32)
    codes = RowCodes(indices, rng.standard_normal(indices.shape))
    labels = np.where(rng.integers(n_classes, size=n_samples)[:, None] == np.arange(n_classes), 1, -1)
    return LabelledCodes(codes, labels.astype(np.int8))


@pytest.mark.parametrize("name", LOSSES)
def test_a_memory_touches_the_costs_it_remembers(name):
    # Value and gradient where training ended, for a square loss everywhere; and it ends where that of the trainer does.
    loss, part = LOSSES.resolve(name), make_labelled_codes()
    trainer = resolve_trainer("auto", loss)
    nothing = CostParabolas.nothing(3, N_COMPONENTS, loss)
    start = np.zeros((3, N_COMPONENTS)), np.zeros(3)
    options = {"penalties": np.ones(3), "n_jobs": None}
    coef, intercept, memory = train_with_memory(trainer, nothing, [part], loss, *start, **options)
    for found, expected in zip(
        (coef, intercept), trainer.train(part.codes, part.labels, loss, *start, **options), strict=True
    ):
        np.testing.assert_array_equal(found, expected)
    places = [np.column_stack([coef, intercept])]
    if loss.is_quadratic:
        places.append(np.random.default_rng(1).standard_normal((3, N_COMPONENTS + 1)))
    for classifiers in places:
        request = ExpansionRequest(
            loss, loss.curvature, trainer.sample_weights, [0, 2], classifiers[[0, 2]], "none", None
        )
        remembered, real = memory.expand(request), part.expand(request)
        np.testing.assert_allclose(remembered.costs, real.costs, rtol=1e-9)
        np.testing.assert_allclose(remembered.gradients, real.gradients, atol=1e-9)


def test_the_memory_of_two_batches_is_the_sum():
    loss, parts = LOSSES.resolve("logistic"), [make_labelled_codes(0), make_labelled_codes(1)]
    classifiers = np.random.default_rng(2).standard_normal((3, N_COMPONENTS + 1))
    request = ExpansionRequest(
        loss, loss.curvature, lambda gradient, curvature: curvature, range(3), classifiers, "each", None
    )
    nothing = CostParabolas.nothing(3, N_COMPONENTS, loss)
    one_by_one = nothing
    for part in parts:
        one_by_one = one_by_one.add(*summarise_and_expand(part, request), classifiers)
    both = nothing.add(*Parts(parts).add_up(summarise_and_expand, request), classifiers)
    for name in ("squared_norms", "n_of_label", "constants", "linear", "hessians"):
        np.testing.assert_allclose(getattr(one_by_one, name), getattr(both, name), atol=1e-10)


@pytest.mark.parametrize("name", LOSSES)
def test_one_batch_is_a_fit_of_one_iteration(digits, name):
    X, y = digits[0][:600], digits[1][:600]
    common = {"loss": name, "dictionary_update": "atom", "n_components": 50, "n_nonzero_coefs": 5}
    streamed = feed(make_model(**common), X, y, 600)
    fitted = make_fit(**common, max_iter=1).fit(X, y)
    np.testing.assert_allclose(streamed.components_, fitted.components_, atol=1e-7)
    for one, other in zip(streamed.priors_, fitted.priors_, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    for one, other in zip(streamed.history_, fitted.history_, strict=True):
        assert one.objective == pytest.approx(other.objective)
        assert one.training_error == other.training_error
    if name == "square":  # others are trained in rounds, which start elsewhere and end near the minimum
        np.testing.assert_allclose(streamed.coef_, fitted.coef_, atol=1e-9)
        np.testing.assert_allclose(streamed.intercept_, fitted.intercept_, atol=1e-9)
    assert np.mean(streamed.predict(X) == fitted.predict(X)) > 0.95


def test_the_order_within_batches_does_not_matter(planted):
    X, y = planted
    order = np.concatenate([start + np.random.default_rng(1).permutation(300) for start in (0, 300, 600)])
    one = feed(make_model(init=random_atoms()), X, y, 300)
    other = feed(make_model(init=random_atoms()), X[order], y[order], 300)
    np.testing.assert_allclose(one.components_, other.components_, atol=1e-8)
    np.testing.assert_allclose(one.coef_, other.coef_, atol=1e-8)


def test_a_planted_dictionary_is_found():
    found: dict[float, list[float]] = {0.0: [], 10.0: []}
    for seed in (1, 2, 3):  # 24 to 28 of 30 atoms, by chance of the first batch
        problem = make_planted(6000, noise=0.02, random_state=seed)
        for rho, shares in found.items():
            model = feed(make_model(n_components=30, forgetting=rho), problem.data, problem.target, 300)
            shares.append(np.mean(np.abs(problem.dictionary @ model.components_.T).max(axis=1) > 0.99))
        assert model.score(problem.data, problem.target) > 0.93
    assert np.mean(found[10.0]) >= 0.8  # each sample seen once
    assert np.mean(found[0.0]) < np.mean(found[10.0])  # codes of the first atoms are in the sums for ever


def test_digits_are_learned_nearly_as_well_as_by_a_fit(digits):
    common, advantages = {"n_components": 60, "n_nonzero_coefs": 5}, []
    for seed in range(3):  # one draw says little: -0.024 to 0.012
        order = np.random.default_rng(seed).permutation(len(digits[0]))
        X, y = digits[0][order], digits[1][order]
        model = make_model(**common)
        for _ in range(3):
            feed(model, X[:1300], y[:1300], 325)
        fitted = make_fit(**common).fit(X[:1300], y[:1300])
        advantages.append(model.score(X[1300:], y[1300:]) - fitted.score(X[1300:], y[1300:]))
    assert np.mean(advantages) > -0.02


def test_after_a_drift_a_stream_that_forgets_recovers():
    X, y = make_planted(3600, noise=0.05, random_state=0, return_X_y=True)
    changed = (y + 1) % 3  # from the 1800th sample on, what was one class is the next
    drifting = np.where(np.arange(len(y)) < 1800, y, changed)
    errors = {}
    for rho in (0.0, 8.0):
        model = feed(make_model(n_components=30, forgetting=rho), X[:3000], drifting[:3000], 200)
        errors[rho] = 1 - model.score(X[3000:], changed[3000:])
        reported = [record.label_free_error for record in model.history_]
        assert reported[10] > 3 * reported[9]  # the batch after the drift
    assert errors[8.0] < 0.1
    assert errors[0.0] > errors[8.0] + 0.3


def test_no_class_costs_more_than_without_a_classifier(planted):
    X, y = planted
    model = make_model(loss="exponential", n_components=30).partial_fit(X[:450], y[:450], classes=[0, 1, 2])
    model.partial_fit(X[450:], (y[450:] + 1) % 3)  # classifiers that were sure of themselves are wrong
    assert (model.class_cost_ <= 1).all()


def test_errors_of_the_history_are_those_before_the_batch_was_learned(planted):
    X, y = planted
    model = feed(make_model(), X[:600], y[:600], 300)
    expected = 1 - model.score(X[600:], y[600:])
    assert model.partial_fit(X[600:], y[600:]).history_[-1].label_free_error == pytest.approx(expected)
    assert [record.iteration for record in model.history_] == [0, 1, 2, 3]
    assert model.n_iter_ == 3
    assert not model.converged_
    assert model.n_samples_seen_ == 900
    assert ConvergenceDisplay.from_estimator(model).figure_ is not None


class Stop(BaseException):
    """Neither an error nor an interrupt that pytest would take for its own."""


def test_what_fails_leaves_the_model_as_it_was(planted, monkeypatch):
    X, y = planted
    model = feed(make_model(), X[:600], y[:600], 300)
    before, copies = dict(vars(model)), pickle.dumps(model)
    broken = X[600:].copy()
    broken[5, 3] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(broken, y[600:])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[600:, :5], y[600:])
    monkeypatch.setattr("ddlearn.fitting.online.BatchLoop.update_scales", lambda *_: (_ for _ in ()).throw(Stop))
    with pytest.raises(Stop):
        model.partial_fit(X[600:], y[600:])
    assert vars(model).keys() == before.keys()
    assert all(vars(model)[name] is before[name] for name in before)
    assert pickle.dumps(model) == copies


@pytest.mark.bitwise
@pytest.mark.parametrize("loss", ["square", "logistic"])
@pytest.mark.parametrize("way", ["threads", "pickled", "mapped"])
def test_neither_threads_nor_a_pickle_nor_a_file_change_a_stream(digits, tmp_path, loss, way):
    X, y = digits[0][:900], digits[1][:900]
    one, other = (make_model(n_components=60, loss=loss, n_jobs=n_jobs) for n_jobs in (1, 1 + (way == "threads")))
    feed(one, X, y, 300)
    if way == "mapped":
        np.save(tmp_path / "X.npy", X)
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    feed(other, X[:600], y[:600], 300, classes=range(10))
    if way == "pickled":
        other = pickle.loads(pickle.dumps(other))
    other.partial_fit(X[600:], y[600:])
    for name in ("components_", "coef_", "intercept_", "class_cost_"):
        assert np.array_equal(getattr(one, name), getattr(other, name))


def clone_with_stream(model, **parameters):
    return pickle.loads(pickle.dumps(model)).set_params(**parameters)


class Whole(ClassifierTrainer):
    """A trainer that needs all samples."""

    is_additive = False

    def train(self, codes, labels, loss, coef, intercept, *, penalties=None, n_jobs=None):
        return coef, intercept


REFUSED_AT_FIRST = {
    "forgetting must be a number": {"forgetting": -1},
    "n_components='auto' cannot be honoured by partial_fit": {"n_components": "auto"},
    r"use Alignment\(training=False\), or DDLClassifier": {
        "alignment": Alignment("translation", training=True),
        "image_shape": (4, 5),
    },
    "classifier_trainer=.* cannot be honoured by partial_fit": {"classifier_trainer": Whole()},
    "dictionary_update='ksvd' cannot .* use 'atom' or 'block_coord": {"dictionary_update": "ksvd"},
    "dictionary_update='guarded_ksvd' cannot": {"dictionary_update": "guarded_ksvd"},
    "dictionary_update='exact_ksvd' cannot": {"dictionary_update": "exact_ksvd"},
    "classes must be passed on the first call to partial_fit": {"classes": None},
    r"label\(s\) \[2\] in y do not exist in the initial classes \[0, 1\]": {"classes": [0, 1]},
    "at least two classes": {"classes": [0]},
    r"do not exist in the initial classes \['0', '1', '2'\]": {"classes": ["0", "1", "2"]},
    "begin with labelled ones": {"unlabeled": -1, "y": np.full(900, -1)},
    "column numbers 0 to 2": {"classes": ["a", "b", "c"], "y": np.eye(3, dtype=int)[np.arange(900) % 3]},
}


@pytest.mark.parametrize("message", REFUSED_AT_FIRST)
def test_what_no_stream_can_begin_with_is_refused(planted, message):
    X, y = planted
    batch = {"y": y, "classes": [0, 1, 2]}
    parameters = dict(REFUSED_AT_FIRST[message])
    batch |= {name: parameters.pop(name) for name in ("y", "classes") if name in parameters}
    with pytest.raises(ValueError, match=message):
        make_model(**parameters).partial_fit(X, **batch)


REFUSED_LATER = {
    "n_components is 30 now, but 12": {"n_components": 30},
    "loss is 'Logistic' now, but 'Square'": {"loss": "logistic"},
    "not the same as on last call to partial_fit": {"classes": [0, 1, 2, 3]},
    "matrix of zeros and ones in some batches": {"y": np.eye(3, dtype=int)[np.arange(900) % 3]},
    "mixes labels of the types": {"y": np.array(["a", 1] * 450, dtype=object)},
}


def test_what_is_not_of_the_same_model_is_refused(planted):
    X, y = planted
    model = make_model().partial_fit(X, y, classes=[2, 0, 1])
    assert model.classes_.tolist() == [0, 1, 2]
    model.partial_fit(X, y).partial_fit(X, y, classes=[1, 2, 0])
    for message, changes in REFUSED_LATER.items():
        batch = {"y": y} | {name: value for name, value in changes.items() if name in ("y", "classes")}
        with pytest.raises(ValueError, match=message):
            clone_with_stream(model, **{n: v for n, v in changes.items() if n not in batch}).partial_fit(X, **batch)


@pytest.mark.parametrize("changes", [{"dictionary_update": "block_coordinate"}, {"scales": ConjugateScales("shared")}])
def test_updates_and_scales_are_used(planted, changes):
    plain, other = (feed(make_model(**each), *planted, 300) for each in ({}, changes))
    assert not np.array_equal(plain.components_, other.components_)


def test_a_batch_may_lack_classes(planted):
    X, y = planted
    order = np.argsort(y, kind="stable")  # first class 0 alone, in the end class 2 alone
    model = feed(make_model(forgetting=0), X[order], y[order], 150)
    assert model.predict_proba(X).shape == (900, 3)
    assert model.score(X, y) > 0.6
    missing = make_model().partial_fit(X, y, classes=[0, 1, 2, 3])
    assert np.isfinite(missing.decision_function(X)).all()
    assert 3 not in missing.predict(X)


def test_one_sample_a_batch(planted):
    X, y = planted
    model = feed(make_model(), X[:150], y[:150], 1)
    assert model.n_iter_ == 150
    assert all(np.isfinite(getattr(model, name)).all() for name in ("components_", "coef_", "class_cost_"))
    np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1)
    assert model.score(X[150:], y[150:]) > 0.5  # a guess would be right in a third


def test_a_first_batch_with_fewer_samples_than_atoms_is_made_up_for(planted):
    X, y = planted
    scores = []
    for n_first in (3, 150):
        model = make_model().partial_fit(X[:n_first], y[:n_first], classes=[0, 1, 2])
        scores.append(feed(model, X[n_first:750], y[n_first:750], 50).score(X[750:], y[750:]))
    assert scores[0] > scores[1] - 0.15
    assert scores[0] > 0.6


def test_copies_and_zeros(planted):
    X, y = planted
    copied = feed(make_model(), np.repeat(X[:1], 60, axis=0), np.arange(60) % 3, 20, classes=[0, 1, 2])
    assert np.isfinite(copied.predict_proba(X)).all()
    zeros = make_model().partial_fit(np.zeros((30, 20)), np.arange(30) % 3, classes=[0, 1, 2])
    assert np.isfinite(zeros.partial_fit(X, y).predict_proba(X)).all()


def test_a_stream_may_forget_all_but_the_last_batch(planted):
    X, y = planted
    model = make_model(unlabeled=-1, forgetting=1e6)
    for labels in (y, y, np.full(900, -1)):
        model.partial_fit(X, labels, classes=[0, 1, 2])
    np.testing.assert_allclose(model.class_prior_, 1 / 3)
    assert np.isfinite(model.predict_proba(X)).all()


def test_single_precision_stays(planted):
    X, y = planted
    single = feed(make_model(init=random_atoms()), X.astype(np.float32), y, 300)
    double = feed(make_model(init=random_atoms()), X, y, 300)
    assert single.components_.dtype == single.coef_.dtype == np.float32
    np.testing.assert_allclose(single.components_, double.components_, atol=0.02)
    assert single.partial_fit(X, y).components_.dtype == np.float32  # as the first batch


@pytest.mark.parametrize("loss", ["square", "logistic"])
def test_how_a_large_batch_is_cut_does_not_matter(planted, monkeypatch, loss):
    X, y = planted
    whole = feed(make_model(loss=loss), X, y, 450)
    monkeypatch.setattr("ddlearn.fitting.data.PART_ROWS", 100)
    cut = feed(make_model(loss=loss), X, y, 450)
    np.testing.assert_allclose(cut.components_, whole.components_, atol=1e-8)
    np.testing.assert_allclose(cut.coef_, whole.coef_, atol=1e-7)


def test_a_dask_array_is_refused(planted):
    dask_array = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="use DDLClassifier"):
        make_model().partial_fit(dask_array.from_array(planted[0]), planted[1], classes=[0, 1, 2])


def test_unlabelled_samples_shape_atoms_and_not_classifiers(planted):
    X, y = planted
    model = make_model(unlabeled=-1).partial_fit(X[:300], y[:300], classes=[-1, 0, 1, 2])
    assert model.classes_.tolist() == [0, 1, 2]
    memory, prior = model.stream_.label_free.memory, model.class_prior_
    model.partial_fit(X[300:600], np.full(300, -1))
    np.testing.assert_allclose(model.stream_.label_free.memory.hessians, 0.5**2 * memory.hessians)
    np.testing.assert_allclose(model.class_prior_, prior)
    assert np.isnan(model.history_[-1].label_free_error)


def test_multilabel_targets(planted):
    X, y = planted
    Y = np.column_stack([y == 0, y == 1, y > 0]).astype(int)
    model = make_model(n_components=30)
    for start in (0, 300):
        model.partial_fit(X[start : start + 300], Y[start : start + 300])
    model.partial_fit(X[600:], Y[600:], classes=[0, 1, 2])
    assert model.is_multilabel_
    assert np.mean(model.predict(X) == Y) > 0.85
    with pytest.raises(ValueError, match="y has 2 columns, but there are 3 classes"):
        model.partial_fit(X, Y[:, :2])


def test_a_fit_begins_anew(planted):
    X, y = planted
    model = feed(make_model(batch_size=200), X, y, 300).fit(X, y)
    assert not hasattr(clone(model), "stream_")
    fresh = make_model(batch_size=200).fit(X, y)
    assert model.n_samples_seen_ == 900
    assert model.n_iter_ == round(900 / 200)  # batches
    assert np.array_equal(model.components_, fresh.components_)
    assert np.array_equal(model.coef_, fresh.coef_)
    assert model.score(X, y) > 0.7


@pytest.mark.parametrize("loss", LOSSES)
def test_after_a_fit_a_small_batch_moves_the_model_little(planted, loss):
    X, y = planted
    before = make_fit(n_components=30, loss=loss).fit(X[:800], y[:800])
    model = MiniBatchDDLClassifier.go_on_from(before, forgetting=2.0).partial_fit(X[800:803], y[800:803])
    assert before.n_samples_seen_ == 800
    assert not hasattr(model, "codes_")
    assert not hasattr(model, "noise_variance_")
    assert model.n_samples_seen_ == 803
    assert np.vecdot(model.components_, before.components_).min() > 0.95
    assert np.linalg.norm(model.coef_ - before.coef_) < 0.15 * np.linalg.norm(before.coef_)
    assert not np.array_equal(model.components_, before.components_)
    assert np.mean(model.predict(X) == before.predict(X)) > 0.95


def test_a_saved_stream_goes_on_from_its_model(planted, tmp_path):
    X, y = planted
    model = feed(make_model(n_components=30), X[:600], y[:600], 200)
    save(model, tmp_path / "stream.safetensors")
    restored = load(tmp_path / "stream.safetensors")
    assert np.array_equal(restored.predict_proba(X), model.predict_proba(X))
    restored.partial_fit(X[600:], y[600:])
    assert restored.n_samples_seen_ == 900
    assert restored.score(X, y) > model.score(X, y) - 0.05


def test_an_atom_that_is_of_no_use_for_long_is_replaced(planted):
    X, y = planted
    X = np.column_stack([X, np.zeros(len(X))])
    model = make_model(init=np.column_stack([random_atoms(), np.zeros(N_COMPONENTS)])).partial_fit(X, y, [0, 1, 2])
    useless = model.components_.copy()
    useless[4] = np.eye(21)[20]  # no sample has anything there
    model = MiniBatchDDLClassifier.go_on_from(make_fit(init=useless).fit(X[:50], y[:50]))
    model.components_ = useless
    n_replaced = [
        feed(model, X[start : start + 60], y[start : start + 60], 60).history_[-1].n_replaced for start in (0, 60, 120)
    ]
    assert n_replaced == [0, 0, 1]  # with 12 atoms, after more than 120 samples
    assert model.components_[4, 20] == 0
    stream = model.stream_
    assert not stream.statistics.code_gram[4].any()
    assert not stream.with_labels.model.coef[:, 4].any()  # no classifier has been trained with the new one yet
    assert not stream.with_labels.memory.hessians[:, 4].any()
    assert not stream.with_labels.memory.hessians[:, :, 4].any()
