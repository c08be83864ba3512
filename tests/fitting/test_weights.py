"""Weights of samples and classes: a sample of weight 2 counts as two in every term of the objective."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_pursuit, make_stream, normalise
from sklearn.base import clone
from sklearn.datasets import load_digits, make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, recall_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ddlearn import Checkpoint, ConjugateScales, DDLClassifier, ElasticNet, RowCodes, load, save
from ddlearn.classifiers import CLASSIFIER_TRAINERS, resolve_trainer
from ddlearn.classifiers.problem import LabelledCodes
from ddlearn.dictionary import DICTIONARY_UPDATES
from ddlearn.fitting.data import TrainingSet, list_class_weights
from ddlearn.model.losses import LOSSES
from ddlearn.model.measures import count_errors
from ddlearn.parallel import Parts


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return normalise(X[:300]), y[:300]


def draw_weights(n_samples=300):
    return np.random.default_rng(0).integers(1, 4, n_samples).astype(float)


def repeat(weights, *arrays):
    return [np.repeat(array, weights.astype(int), axis=0) for array in arrays]


def fit(X, y, weights=None, **parameters):
    """Fit from given atoms: those that are drawn depend on the number of samples."""
    fixed = {"description": None, "init": X[:40], "max_iter": 2, "tol": 0, "random_state": 0}
    return make_pursuit(**fixed | parameters).fit(X, y, sample_weight=weights)


def fit_both(digits, **parameters):
    (X, y), weights = digits, draw_weights()
    atoms = {"init": X[:40]}
    return fit(X, y, weights, **atoms | parameters), fit(*repeat(weights, X, y), **atoms | parameters)


def assert_same(one, other, **tolerance):
    for name in ("components_", "coef_", "intercept_", "class_cost_", "class_prior_"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), **tolerance)


REPEATED = [
    *({"dictionary_update": update, "max_iter": 2} for update in sorted(DICTIONARY_UPDATES)),
    *({"loss": loss} for loss in sorted(LOSSES)),
    *({"scales": ConjugateScales("shared")}, {"sparse_coder": ElasticNet(0.1)}, {"refine": None}, {"unlabeled": 3}),
]


@pytest.mark.parametrize("parameters", REPEATED, ids=str)
def test_weights_are_repetitions(digits, parameters):
    weighted, repeated = fit_both(digits, **{"max_iter": 1} | parameters)
    tolerance = 1e-5 if "loss" in parameters else 1e-7  # most are trained in rounds, which end near the minimum
    assert_same(weighted, repeated, rtol=10 * tolerance, atol=tolerance)
    if "dictionary_update" in parameters:
        for name in ("objective", "representation", "classification", "prior", "training_error", "label_free_error"):
            mine, theirs = (getattr(model.history_[-1], name) for model in (weighted, repeated))
            assert mine == pytest.approx(theirs, rel=1e-7)


@pytest.mark.parametrize(
    "model",
    [
        make_pursuit(40, dictionary_update="ksvd", max_iter=2, random_state=0),
        make_pursuit(40, dictionary_update="atom", refine=None, loss="logistic", max_iter=2, random_state=0),
        DDLClassifier(40, random_state=0),  # searched and refined
    ],
    ids=["ksvd", "atom", "default"],
)
def test_weights_of_one_are_none(digits, model):
    # They drew other mini-batches, and so made another model.
    X, y = digits
    plain, weighted = clone(model).fit(X, y), clone(model).fit(X, y, sample_weight=np.ones(300))
    for name in ("components_", "coef_", "intercept_", "class_cost_", "class_prior_"):
        np.testing.assert_array_equal(getattr(weighted, name), getattr(plain, name))


def test_samples_of_weight_zero_are_left_out(digits):
    X, y = digits
    weights = (np.arange(300) % 4 > 0).astype(float)
    model, without = fit(X, y, weights), fit(X[weights > 0], y[weights > 0], init=X[:40])
    assert_same(model, without, rtol=1e-9, atol=1e-10)
    assert model.codes_.shape[0] == model.n_samples_seen_ == 225


@pytest.mark.parametrize("name", sorted(CLASSIFIER_TRAINERS))
def test_trainers_weigh_costs_gradients_and_hessians(name):
    rng = np.random.default_rng(0)
    weights = draw_weights(80)
    indices = np.sort(np.array([rng.choice(12, 3, replace=False) for _ in range(80)]).astype(np.int32), axis=1)
    values, labels = rng.standard_normal((80, 3)), rng.choice([-1.0, 0.0, 1.0], (80, 2), p=[0.45, 0.1, 0.45])
    loss = LOSSES.resolve(next(loss for loss in LOSSES if CLASSIFIER_TRAINERS[name]().supports(LOSSES.resolve(loss))))
    trainer = resolve_trainer(name, loss)
    start = loss, np.zeros((2, 12)), np.zeros(2)
    weighted = trainer.train_on(Parts([LabelledCodes(RowCodes(indices, values), labels, weights=weights)]), *start)
    whole = RowCodes(*repeat(weights, indices, values)), *repeat(weights, labels)
    for mine, theirs in zip(weighted, trainer.train_on(Parts([LabelledCodes(*whole)]), *start), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("is_multilabel", [False, True])
def test_errors_count_by_weight(is_multilabel):
    rng = np.random.default_rng(0)
    labels, evidence = rng.choice([-1, 0, 1], (50, 4)), rng.standard_normal((50, 4))
    weights = draw_weights(50)
    repeated = count_errors(*repeat(weights, labels, evidence), is_multilabel)
    assert count_errors(labels, evidence, is_multilabel, weights) == pytest.approx(repeated)


def test_facts_are_those_of_repeated_samples(digits):
    X, y = digits
    labels, weights = np.where(y[:, None] == np.arange(10), 1, -1), draw_weights()
    facts = TrainingSet.of_arrays(X, labels, 128, weights=weights).facts
    repeated = TrainingSet.of_arrays(*repeat(weights, X, labels), 128).facts
    np.testing.assert_allclose(facts.n_labelled, repeated.n_labelled)
    np.testing.assert_allclose(facts.n_positive, repeated.n_positive)
    assert (facts.weight, facts.label_weight) == (repeated.weight, repeated.label_weight)
    assert facts.n_with_label == 300


# -- classes -----------------------------------------------------------------------------------------------------------


def test_weights_of_classes_are_weights_of_their_samples(digits):
    X, y = digits
    by_class = fit(X, y, class_weight={3: 2.5, 8: 0.5})
    by_sample = fit(X, y, np.where(y == 3, 2.5, np.where(y == 8, 0.5, 1.0)))
    assert_same(by_class, by_sample, rtol=1e-12)
    both = fit(X, y, draw_weights(), class_weight={3: 2.5})
    assert_same(both, fit(X, y, draw_weights() * np.where(y == 3, 2.5, 1.0)), rtol=1e-12)


def test_balanced_classes_weigh_the_same(digits):
    X, y = digits
    few = np.flatnonzero((y != 8) | (np.arange(300) < 60))
    model = fit(X[few], y[few], class_weight="balanced")
    np.testing.assert_allclose(model.class_prior_, 0.1)
    facts = TrainingSet.of_arrays(X, np.where(y[:, None] == np.arange(10), 1, -1)).facts
    targets = type("Targets", (), {"classes": np.arange(10), "is_multilabel": False})
    assert list_class_weights("balanced", targets, facts)[:10] @ facts.n_positive == pytest.approx(300)


@pytest.mark.parametrize("loss", ["square", "logistic"])
def test_a_balanced_model_finds_more_of_a_rare_class(loss):
    X, y = make_classification(1500, 20, n_informative=8, weights=[0.95], random_state=0)
    recalls = []
    for class_weight in (None, "balanced"):
        model = make_pursuit(100, class_weight=class_weight, loss=loss, random_state=0).fit(X[:750], y[:750])
        recalls.append(recall_score(y[750:], model.predict(X[750:])))
    assert recalls[1] > recalls[0] + 0.1


REFUSED = {
    r"names \[11\], but the classes are": {"class_weight": {11: 1.0}},
    "is 0.0 for the class 1: weights are numbers above 0": {"class_weight": {1: 0.0}},
    "must be a dict of weights by class, 'balanced' or None": {"class_weight": "equal"},
    # Whose squares overflow.
    r"class_weight has the value 1e\+300: weights are at most 1e\+15": {"class_weight": {1: 1e300}},
    r"sample_weight has the value 1e\+300": {"weights": np.where(np.arange(300) == 3, 1e300, 1.0)},
    "at least one non-zero": {"weights": np.zeros(300)},
    "targets are multilabel: use sample_weight": {
        "y": np.eye(2, dtype=int)[np.arange(300) % 2],
        "class_weight": "balanced",
    },
}


@pytest.mark.parametrize("message", REFUSED)
def test_weights_are_checked(digits, message):
    with pytest.raises(ValueError, match=message):
        fit(**{"X": digits[0], "y": digits[1]} | REFUSED[message])


def test_several_labels_a_sample_have_its_weight(digits):
    X, y = digits
    indicator = np.stack([y % 2, y > 4], axis=1).astype(int)
    assert_same(*fit_both((X, indicator)), rtol=1e-6, atol=1e-7)


# -- elsewhere ---------------------------------------------------------------------------------------------------------


def test_a_batch_with_weights_is_one_with_repetitions(digits):
    X, y = digits
    weights = draw_weights()
    models = []
    for samples, target, weight in ((X, y, weights), (*repeat(weights, X, y), None)):
        model = make_stream(description=None, init=X[:40], random_state=0)
        models.append(model.partial_fit(samples, target, classes=range(10), sample_weight=weight))
    assert_same(*models, rtol=1e-6, atol=1e-7)
    again = models[0].partial_fit(X, y, sample_weight=weights)
    assert again.n_samples_seen_ == 600


def test_a_batch_leaves_samples_of_weight_zero_out(digits):
    X, y = digits
    kept = np.arange(300) % 4 > 0
    models = [make_stream(description=None, init=X[:40], random_state=0) for _ in range(2)]
    for rows in (slice(0, 150), slice(150, 300)):
        models[0].partial_fit(X[rows], y[rows], classes=range(10), sample_weight=kept[rows].astype(float))
        models[1].partial_fit(X[rows][kept[rows]], y[rows][kept[rows]], classes=range(10))
    assert_same(*models, rtol=1e-9, atol=1e-10)
    assert models[0].n_samples_seen_ == 225


def test_a_batch_knows_weights_of_classes(digits):
    X, y = digits
    models = [make_stream(description=None, init=X[:40], random_state=0) for _ in range(2)]
    models[0].set_params(class_weight={3: 2.0, 8: 0.5}).partial_fit(X, y, classes=range(10))
    weights = np.where(y == 3, 2.0, np.where(y == 8, 0.5, 1.0))
    models[1].partial_fit(X, y, classes=range(10), sample_weight=weights)
    assert_same(*models, rtol=1e-12)
    with pytest.raises(ValueError, match="sees each sample once: use a dict of weights by class"):
        models[0].set_params(class_weight="balanced").partial_fit(X, y)


@pytest.mark.parametrize("n_samples", [1500, 5000], ids=["with cross-validation", "always refined"])
def test_the_default_finds_a_rare_class_if_it_is_balanced(n_samples):
    # The criterion of the search and the temperature see the weights, and the majority does not outvote them.
    X, y = make_classification(n_samples, 20, n_informative=8, weights=[0.95], random_state=0)
    half = n_samples // 2
    model = DDLClassifier(100, class_weight="balanced", random_state=0).fit(X[:half], y[:half])
    linear = make_pipeline(StandardScaler(), LogisticRegression(class_weight="balanced")).fit(X[:half], y[:half])
    ours, theirs = (balanced_accuracy_score(y[half:], each.predict(X[half:])) for each in (model, linear))
    assert ours > theirs - 0.05


def test_checkpoints_know_the_weights(digits, tmp_path):
    path = tmp_path / "fit.checkpoint"
    X, y = digits
    model = make_pursuit(20, max_iter=2, random_state=0).set_callbacks(Checkpoint(path))
    model.fit(X, y, sample_weight=draw_weights())
    model.set_callbacks(Checkpoint(path, resume=True))
    with pytest.raises(ValueError, match="y was"):
        model.fit(X, y)


def test_files_hold_weights_of_classes(digits, tmp_path):
    X, y = digits
    names = np.array([f"digit {label}" for label in y])
    for target, class_weight in ((y, {3: 2.0, 4: 0.5}), (names, {"digit 3": 2.0}), (y, "balanced")):
        save(fit(X, target, class_weight=class_weight), tmp_path / "model.safetensors")
        assert load(tmp_path / "model.safetensors").class_weight == class_weight
