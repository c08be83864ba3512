"""The gradient of a cost through label-free codes, against finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import make_refiner, normalise
from sklearn.datasets import load_digits

from ddlearn import OMP, ORMP, DDLClassifier, ElasticNet, sparse_encode
from ddlearn.coding.encoder import Encoder
from ddlearn.kernels.codes import keep_larger_half
from ddlearn.model.codes import Model, RowCodes
from ddlearn.model.losses import LOSSES
from ddlearn.refinement.backward import RefinedModel, TaskGradient
from ddlearn.refinement.costs import REFINEMENT_COSTS

COSTS = [("one_vs_all", loss) for loss in LOSSES] + [("softmax", "square")]
STEP = 1e-6
N_COMPONENTS, N_FEATURES, N_CLASSES = 8, 6, 3
CODERS = {
    "elastic net": (ElasticNet(0.3, l1_ratio=0.5, tol=1e-13), N_COMPONENTS),
    "positive": (ElasticNet(0.3, l1_ratio=0.5, positive=True, tol=1e-13), N_COMPONENTS),
    "omp": (OMP(), 3),
    "ormp": (ORMP(), 3),
}


class Case:
    """A random model, samples of unit size, and labels."""

    def __init__(self, coder, cost, n_rows=6, dtype=np.float64):
        rng = np.random.default_rng(0)
        dictionary = normalise(rng.standard_normal((N_COMPONENTS, N_FEATURES)))
        coef, intercept = rng.standard_normal((N_COMPONENTS, N_CLASSES)), rng.standard_normal(N_CLASSES)
        linear_coef = rng.standard_normal((N_FEATURES, N_CLASSES))
        self.model = RefinedModel(*(array.astype(dtype) for array in (dictionary, coef, linear_coef, intercept)))
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
        return np.mean(self.gradient.cost.value(self.gradient.measure(model, self.X)[0], self.labels))

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
    gradient, scores = case.gradient.differentiate(case.model, case.X, case.labels, np.ones(len(case.X)))
    np.testing.assert_array_equal(scores, case.gradient.measure(case.model, case.X)[0])
    for name, place, (forth, back) in case.moved():
        slope = (case.mean_cost(forth) - case.mean_cost(back)) / (2 * STEP)
        assert getattr(gradient, name)[place] == pytest.approx(slope, abs=1e-6), (name, place)


@pytest.mark.parametrize("coder", CODERS)
def test_a_sample_that_no_atom_explains_moves_the_intercepts_only(coder):
    case = Case(coder, ("softmax", "square"))
    case.X[:] = 0
    gradient, scores = case.gradient.differentiate(case.model, case.X, case.labels, np.ones(len(case.X)))
    assert not gradient.dictionary.any()
    assert not gradient.coef_by_atom.any()
    assert gradient.intercept.any()
    np.testing.assert_array_equal(scores, np.broadcast_to(case.model.intercept, scores.shape))


@pytest.mark.parametrize("coder", CODERS)
def test_float32_stays_float32_and_agrees(coder):
    gradients = []
    for dtype in (np.float64, np.float32):
        case = Case(coder, ("softmax", "square"), dtype=dtype)
        gradient, scores = case.gradient.differentiate(case.model, case.X, case.labels, np.ones(len(case.X)))
        assert {array.dtype for array in (*gradient, scores)} == {np.dtype(dtype)}
        gradients.append(gradient)
    for double, single in zip(*gradients, strict=True):
        np.testing.assert_allclose(single, double, rtol=0, atol=2e-2 * np.abs(double).max())


@pytest.mark.bitwise
@pytest.mark.parametrize("coder", CODERS)
def test_it_is_bitwise_the_same_on_two_threads(coder):
    case = Case(coder, ("softmax", "square"), n_rows=200)
    results = []
    for n_jobs in (1, 2):
        task = replace(case.gradient, n_jobs=n_jobs)
        gradient, scores = task.differentiate(case.model, case.X, case.labels, np.ones(len(case.X)))
        measured = task.measure(case.model, case.X)
        results.append([*gradient, scores, *measured])
    for one, other in zip(*results, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.bitwise
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("coder", ["elastic_net", "ormp"])
def test_samples_are_coded_as_transform_codes_them_bit_for_bit(coder, dtype):
    # Else training would be on other codes than prediction. The last row is alone in its block of 128.
    X, y = load_digits(return_X_y=True)
    X = X[:385].astype(dtype)
    model = DDLClassifier(40, sparse_coder=coder, refine=make_refiner(), random_state=0).fit(X, y[:385])
    codes = RowCodes.from_csr(model.transform(X), model.n_nonzero_coefs_, dtype)
    fitted = Model(model.components_, model.coef_, model.intercept_, model.class_cost_)
    samples = model.description_.apply(X)
    squared_residuals, expected = fitted.measure(samples, codes)
    encoder = Encoder.of(model.components_, model.sparse_coder_, model.n_nonzero_coefs_)
    refined = RefinedModel(fitted.dictionary, fitted.coef_by_atom, np.zeros((64, 10), dtype), fitted.intercept)
    labels = np.where(y[:385, None] == np.arange(10), 1, -1).astype(dtype)
    for n_jobs in (1, 2):
        cost = REFINEMENT_COSTS["softmax"](model.loss_, model.class_cost_, 1.0)
        gradient = TaskGradient(encoder, cost, n_jobs)
        scores, misfit = gradient.measure(refined, samples)
        np.testing.assert_array_equal(scores, expected)
        expected_misfit = encoder.sparse_coder.measure_misfit(squared_residuals, codes)
        np.testing.assert_allclose(misfit, expected_misfit, rtol=1e-6)  # of codes without unused places
        scores = gradient.differentiate(refined, samples, labels, np.ones(len(samples)))[1]
        np.testing.assert_array_equal(scores, expected)
        found = encoder.encode(samples, n_jobs=n_jobs)
        np.testing.assert_array_equal(found.indices, codes.indices)
        np.testing.assert_array_equal(found.values, codes.values)


@pytest.mark.parametrize("n_places", [0, 2, N_COMPONENTS])
def test_codes_to_start_from_do_not_change_the_gradient_and_are_overwritten_by_larger_halves(n_places):
    case = Case("elastic net", ("softmax", "square"), n_rows=200)
    expected, _ = case.gradient.differentiate(case.model, case.X, case.labels, np.ones(len(case.X)))
    codes = RowCodes.empty(200, n_places, np.float64)
    codes.fill(case.gradient.encoder.encode(case.X[::-1].copy()))  # of other samples
    gradient, _ = case.gradient.differentiate(case.model, case.X, case.labels, np.ones(len(case.X)), codes=codes)
    for found, wanted in zip(gradient, expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-9)
    own = RowCodes.empty(200, n_places, np.float64)
    keep_larger_half(*case.gradient.encoder.encode(case.X), case.X.shape[1], *own)
    np.testing.assert_array_equal(codes.indices, own.indices)
    np.testing.assert_allclose(codes.values, own.values, atol=1e-9)
