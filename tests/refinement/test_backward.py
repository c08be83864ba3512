"""What refinement lowers, and its gradient through label-free codes, against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import normalise
from scipy.special import softmax
from sklearn.metrics import log_loss

from ddlearn import LOSSES, OMP, ORMP, ElasticNet, Logistic, Square, sparse_encode
from ddlearn.coding.encoder import Encoder
from ddlearn.inference.rules import compute_evidence
from ddlearn.kernels.codes import keep_larger_half
from ddlearn.model.codes import RowCodes
from ddlearn.model.measures import find_temperature
from ddlearn.refinement.backward import REFINEMENT_COSTS, Parameters, TaskGradient

COSTS = [("one_vs_all", loss) for loss in LOSSES] + [("softmax", "square")]
CLASS_COST = np.array([0.5, 1.0, 2.0, 0.7])
STEP = 1e-6
N_COMPONENTS, N_FEATURES, N_CLASSES = 8, 6, 3
CODERS = {
    "elastic net": (ElasticNet(0.3, l1_ratio=0.5, tol=1e-13), N_COMPONENTS),
    "positive": (ElasticNet(0.3, l1_ratio=0.5, positive=True, tol=1e-13), N_COMPONENTS),
    "omp": (OMP(), 3),
    "ormp": (ORMP(), 3),
}

# -- costs -------------------------------------------------------------------------------------------------------------


def make_cost(name, loss):
    return REFINEMENT_COSTS[name](LOSSES[loss](), CLASS_COST, 1.0)


def draw(n_rows=40, strength=1.0, seed=0):
    """Return scores, and labels of classes that score higher the stronger they are."""
    rng = np.random.default_rng(seed)
    classes = rng.integers(4, size=n_rows)
    labels = np.where(classes[:, None] == np.arange(4), 1.0, -1.0)
    return rng.standard_normal((n_rows, 4)) + strength * labels, labels, classes


@pytest.mark.parametrize(("name", "loss"), COSTS)
def test_gradients_of_costs_are_those_of_the_values(name, loss):
    cost = make_cost(name, loss)
    scores, labels, _ = draw()
    gradient = cost.gradient(scores, labels)
    for j in range(4):
        step = 1e-6 * (np.arange(4) == j)
        slope = (cost.value(scores + step, labels) - cost.value(scores - step, labels)) / 2e-6
        np.testing.assert_allclose(gradient[:, j], slope, rtol=0, atol=1e-7)


@pytest.mark.parametrize(("name", "loss"), COSTS)
def test_costs_of_float32_are_float32(name, loss):
    cost = make_cost(name, loss)
    scores, labels, _ = (array.astype(np.float32) for array in draw())
    assert cost.value(scores, labels).dtype == cost.gradient(scores, labels).dtype == np.float32


@pytest.mark.parametrize("loss", LOSSES)
def test_one_vs_all_is_the_papers_term_and_labels_that_are_not_known_cost_nothing(loss):
    cost = make_cost("one_vs_all", loss)
    scores, labels, _ = draw()
    labels[::3, 1] = 0
    term = np.where(labels != 0, LOSSES[loss]().value(labels * scores), 0) / CLASS_COST
    value = cost.value(scores, labels)
    np.testing.assert_allclose(value / value.sum(), term.sum(axis=1) / term.sum(), rtol=1e-12)
    assert (cost.gradient(scores, labels)[::3, 1] == 0).all()
    np.testing.assert_array_equal(cost.set_class_cost(None), CLASS_COST)


def test_softmax_is_cross_entropy():
    scores, labels, classes = draw()
    value = make_cost("softmax", "square").value(scores, labels)
    assert np.mean(value) == pytest.approx(log_loss(classes, softmax(scores, axis=1)))


@pytest.mark.parametrize("loss", ["square", "logistic"])
def test_with_the_usual_temperature_softmax_of_the_evidence_is_that_of_the_scores(loss):
    cost = make_cost("softmax", loss)
    scores = draw()[0]
    evidence = compute_evidence(scores, cost.loss, cost.set_class_cost(cost.usual_temperature))
    np.testing.assert_allclose(softmax(evidence, axis=1), softmax(scores, axis=1), rtol=1e-10)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("name", REFINEMENT_COSTS)
def test_one_class_cost_for_all_keeps_the_class_of_largest_score_and_makes_probabilities_likely(name, loss):
    cost = make_cost(name, loss)
    # Scores where costs with labels of the wrong sign are still finite.
    train, test = (draw(2000, 0.5, seed) for seed in range(2))
    temperature = find_temperature(cost.unit_evidence(train[0]), train[1])
    class_cost = cost.set_class_cost(temperature)
    assert (class_cost == class_cost[0]).all()
    weighted = REFINEMENT_COSTS[name](cost.loss, CLASS_COST, 3.0).set_class_cost(temperature)
    np.testing.assert_allclose(weighted / 3.0, class_cost)  # prediction divides by the weight of the labels
    scores, _, classes = test
    evidence = compute_evidence(scores, cost.loss, class_cost)
    np.testing.assert_array_equal(evidence.argmax(axis=1), scores.argmax(axis=1))
    plain = compute_evidence(scores, cost.loss, np.ones(4))
    assert log_loss(classes, softmax(evidence, axis=1)) <= log_loss(classes, softmax(plain, axis=1)) + 1e-3


def test_only_one_vs_all_takes_several_labels():
    assert {name for name, cost in REFINEMENT_COSTS.items() if cost.takes_multilabel} == {"one_vs_all"}


@pytest.mark.parametrize(("weight", "is_parabola"), [(CLASS_COST, False), (np.ones(4), True)])
def test_a_parabola_is_the_whole_cost(weight, is_parabola):
    scores, labels, _ = draw()
    assert REFINEMENT_COSTS["one_vs_all"](Logistic(), weight, 1.0).parabola is None
    cost = REFINEMENT_COSTS["one_vs_all"](Square(), weight, 1.0)
    assert (cost.parabola is not None) == is_parabola
    if is_parabola:
        half_curvature, wanted = cost.parabola
        expected = half_curvature * np.sum((scores - wanted * labels) ** 2, axis=1)
        np.testing.assert_allclose(cost.value(scores, labels), expected)


# -- the gradient through codes ----------------------------------------------------------------------------------------


class Case:
    """A random model, samples of unit size, and labels."""

    def __init__(self, coder, cost, n_rows=6, dtype=np.float64):
        rng = np.random.default_rng(0)
        dictionary = normalise(rng.standard_normal((N_COMPONENTS, N_FEATURES)))
        coef, intercept = rng.standard_normal((N_COMPONENTS, N_CLASSES)), rng.standard_normal(N_CLASSES)
        linear_coef = rng.standard_normal((N_FEATURES, N_CLASSES))
        self.model = Parameters(*(array.astype(dtype) for array in (dictionary, coef, linear_coef, intercept)))
        self.X = rng.standard_normal((n_rows, N_FEATURES)).astype(dtype)
        self.labels = np.where(rng.integers(N_CLASSES, size=n_rows)[:, None] == np.arange(N_CLASSES), 1.0, -1.0)
        self.labels = self.labels.astype(dtype)
        sparse_coder, n_nonzero_coefs = CODERS[coder]
        kind, loss = cost
        class_cost = np.array([0.5, 1.0, 2.0])
        cost = REFINEMENT_COSTS[kind](LOSSES[loss](), class_cost, 1.0)
        encoder = Encoder.of(self.model.dictionary, sparse_coder, n_nonzero_coefs)
        self.gradient = TaskGradient(encoder, cost, n_jobs=1)

    def moved(self):
        """Go through all models that differ in one number, by a step forth and a step back."""
        for name, array in self.model._asdict().items():
            for place in np.ndindex(array.shape):
                step = np.zeros_like(array)
                step[place] = STEP
                yield name, place, [self.model._replace(**{name: array + sign * step}) for sign in (1, -1)]

    def mean_cost(self, model):
        return np.mean(self.gradient.cost.value(self.gradient.measure(model, self.X).scores, self.labels))

    def find_supports(self, dictionary):
        encoder = self.gradient.encoder
        codes = sparse_encode(self.X, dictionary, n_nonzero_coefs=encoder.n_nonzero_coefs, method=encoder.sparse_coder)
        return np.sign(codes.toarray())

    def leave_out_rows_that_change(self):
        """Keep the samples whose atoms, and their signs, are the same in all models that are compared."""
        supports = self.find_supports(self.model.dictionary)
        for name, _, models in self.moved():
            if name == "dictionary":
                for model in models:
                    is_same = (self.find_supports(normalise(model.dictionary)) == supports).all(axis=1)
                    self.X, self.labels, supports = self.X[is_same], self.labels[is_same], supports[is_same]
        assert len(self.X) >= 3
        assert (supports != 0).sum(axis=1).max() > 1


@pytest.mark.parametrize("coder", CODERS)
@pytest.mark.parametrize("cost", COSTS, ids=" ".join)
def test_the_gradient_is_that_of_finite_differences(coder, cost):
    case = Case(coder, cost)
    case.leave_out_rows_that_change()
    gradient, scores = case.gradient.differentiate(case.model, case.X, case.labels)
    np.testing.assert_array_equal(scores, case.gradient.measure(case.model, case.X).scores)
    for name, place, (forth, back) in case.moved():
        slope = (case.mean_cost(forth) - case.mean_cost(back)) / (2 * STEP)
        assert getattr(gradient, name)[place] == pytest.approx(slope, abs=1e-6), (name, place)


@pytest.mark.parametrize("coder", CODERS)
def test_a_sample_that_no_atom_explains_moves_the_intercepts_only(coder):
    case = Case(coder, ("softmax", "square"))
    case.X[:] = 0
    gradient, scores = case.gradient.differentiate(case.model, case.X, case.labels)
    assert not gradient.dictionary.any()
    assert not gradient.coef_by_atom.any()
    assert gradient.intercept.any()
    np.testing.assert_array_equal(scores, np.broadcast_to(case.model.intercept, scores.shape))


@pytest.mark.parametrize("coder", CODERS)
def test_float32_stays_float32_and_agrees(coder):
    gradients = []
    for dtype in (np.float64, np.float32):
        case = Case(coder, ("softmax", "square"), dtype=dtype)
        gradient, scores = case.gradient.differentiate(case.model, case.X, case.labels)
        assert {array.dtype for array in (*gradient, scores)} == {np.dtype(dtype)}
        gradients.append(gradient)
    for double, single in zip(*gradients, strict=True):
        np.testing.assert_allclose(single, double, rtol=0, atol=2e-2 * np.abs(double).max())


@pytest.mark.parametrize("coder", CODERS)
def test_it_is_bitwise_the_same_on_two_threads(coder):
    case = Case(coder, ("softmax", "square"), n_rows=200)
    results = []
    for n_jobs in (1, 2):
        case.gradient.n_jobs = n_jobs
        gradient, scores = case.gradient.differentiate(case.model, case.X, case.labels)
        measured = case.gradient.measure(case.model, case.X)
        results.append([*gradient, scores, *measured])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


def test_samples_are_coded_as_sparse_encode_codes_them():
    case = Case("ormp", ("softmax", "square"), n_rows=100)
    codes = sparse_encode(case.X, case.model.dictionary, n_nonzero_coefs=3, method="ormp")
    measured = case.gradient.measure(case.model, case.X)
    np.testing.assert_allclose(measured.scores, codes @ case.model.coef_by_atom + case.model.intercept, atol=1e-12)
    residuals = case.X - codes @ case.model.dictionary
    np.testing.assert_allclose(measured.misfit, np.sum(residuals**2, axis=1), atol=1e-12)


@pytest.mark.parametrize("n_places", [0, 2, N_COMPONENTS])
def test_codes_to_start_from_do_not_change_the_gradient_and_are_overwritten_by_larger_halves(n_places):
    case = Case("elastic net", ("softmax", "square"), n_rows=200)
    expected, _ = case.gradient.differentiate(case.model, case.X, case.labels)
    codes = RowCodes.empty(200, n_places, np.float64)
    codes.fill(case.gradient.encoder.encode(case.X[::-1].copy()))  # of other samples
    gradient, _ = case.gradient.differentiate(case.model, case.X, case.labels, codes=codes)
    for found, wanted in zip(gradient, expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-9)
    own = RowCodes.empty(200, n_places, np.float64)
    keep_larger_half(*case.gradient.encoder.encode(case.X), case.X.shape[1], *own)
    np.testing.assert_array_equal(codes.indices, own.indices)
    np.testing.assert_allclose(codes.values, own.values, atol=1e-9)
