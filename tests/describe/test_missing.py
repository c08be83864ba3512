"""Missing features of training samples: what fills them, and fits that leave them out of every step."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_pursuit, normalise
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags

from ddlearn import ConjugateScales, DDLClassifier, ElasticNet, Refiner, Robustness
from ddlearn.coding.encoder import Encoder
from ddlearn.datasets import make_planted
from ddlearn.describe.missing import _make_smoother, fill_first, fill_with_codes
from ddlearn.model.codes import RowCodes, measure_residuals
from ddlearn.model.objective import sum_class_terms, sum_costs, sum_noise_terms

MASK = Robustness(missing="mask")
both_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def leave_out(X, share=0.2, seed=0):
    """Return samples with NaN in place of a share of their features."""
    return np.where(np.random.default_rng(seed).random(X.shape) < share, X.dtype.type(np.nan), X)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:300], y[:300]


def quick(**parameters) -> DDLClassifier:
    return make_pursuit(**{"n_components": 30, "robustness": MASK, "random_state": 0} | parameters)


# -- fills -------------------------------------------------------------------------------------------------------------


@both_dtypes
def test_a_fill_by_codes_leaves_the_error_of_known_features(dtype):
    rng = np.random.default_rng(0)
    X, dictionary = rng.standard_normal((9, 7)).astype(dtype), normalise(rng.standard_normal((5, 7))).astype(dtype)
    is_known = rng.random(X.shape) < 0.6
    codes = RowCodes(rng.integers(5, size=(9, 2)).astype(np.int32), rng.standard_normal((9, 2)).astype(dtype))
    filled = fill_with_codes(X, is_known, codes, dictionary)
    expected = codes.to_csr(5).toarray() @ dictionary
    np.testing.assert_array_equal(filled[is_known], X[is_known])
    np.testing.assert_allclose(filled[~is_known], expected[~is_known], rtol=1e-5)
    masked_error = np.sum(np.where(is_known, X - expected, 0) ** 2, axis=1)
    np.testing.assert_allclose(measure_residuals(filled, codes, dictionary), masked_error, rtol=1e-4)
    assert filled.dtype == dtype


def test_fill_and_code_in_turn_never_raises_the_masked_objective_and_masked_codes_stay():
    rng = np.random.default_rng(0)
    X, is_known = rng.standard_normal((20, 10)), rng.random((20, 10)) < 0.7
    dictionary, coder = normalise(rng.standard_normal((15, 10))), ElasticNet(0.2, tol=1e-12)
    encoder = Encoder.of(dictionary, coder, 15)
    masked = encoder.encode(X, is_known)
    filled, last = np.where(is_known, X, 0), np.inf
    for _ in range(100):
        codes = encoder.encode(filled)
        filled = fill_with_codes(X, is_known, codes, dictionary)
        objective = coder.measure_misfit(measure_residuals(filled, codes, dictionary), codes).sum()
        assert objective <= last * (1 + 1e-12)
        last = objective
    filled = fill_with_codes(X, is_known, masked, dictionary)
    least = coder.measure_misfit(measure_residuals(filled, masked, dictionary), masked).sum()
    assert least <= last <= least * (1 + 1e-5)
    np.testing.assert_allclose(encoder.encode(filled).to_csr(15).toarray(), masked.to_csr(15).toarray(), atol=1e-6)


@pytest.mark.parametrize("shape", [(40, 6), (5, 12)])
def test_the_smoother_is_the_same_in_terms_of_features_and_of_samples(shape):
    centred = np.random.default_rng(0).standard_normal(shape)
    n_features, scatter = shape[1], centred.T @ centred
    noise = 0.3 * np.trace(scatter) / n_features
    expected = centred @ np.linalg.solve(scatter + noise * np.eye(n_features), scatter)
    np.testing.assert_allclose(_make_smoother(centred)(centred), expected, atol=1e-12)


@both_dtypes
def test_the_first_fill_knows_how_features_vary_together(dtype):
    rng = np.random.default_rng(0)
    X = (5 + rng.standard_normal((2500, 2)) @ rng.standard_normal((2, 8))).astype(dtype)
    is_known = rng.random(X.shape) > 0.2
    filled = fill_first(np.where(is_known, X, dtype(0)), is_known)
    np.testing.assert_array_equal(filled[is_known], X[is_known])
    assert filled.dtype == dtype
    error, spread = (filled - X)[~is_known].std(), (X - X.mean(axis=0))[~is_known].std()
    assert error < 0.5 * spread


def test_constant_samples_are_filled_with_the_constant():
    is_known = np.array([[True, False], [False, True], [True, True]])
    np.testing.assert_allclose(fill_first(np.where(is_known, 2.0, 0.0), is_known), 2.0)


def test_the_tag_of_scikit_learn_says_whether_nan_is_taken():
    for robustness, takes_nan in ((None, False), (0.1, False), (Robustness(), False), (MASK, True)):
        assert get_tags(DDLClassifier(robustness=robustness)).input_tags.allow_nan is takes_nan


# -- fits --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("refine", [None, "classifiers", 1])
def test_without_missing_features_the_fit_is_bitwise_the_same(digits, refine):
    plain, masked = (
        quick(refine=refine, max_iter=2, robustness=robustness).fit(*digits) for robustness in (None, MASK)
    )
    for name in ("components_", "coef_", "intercept_", "class_cost_", "noise_variance_"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(masked, name))


@pytest.mark.parametrize("noise", ["per_sample", "shared"])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_objective_is_that_of_known_features_with_noise_that_counts_them(digits, noise, weighted):
    X, y = leave_out(normalise(digits[0]), 0.3), digits[1]
    weights = np.random.default_rng(1).uniform(0.5, 2, len(X)) if weighted else None
    model = quick(description=None, refine=None, max_iter=2, scales=ConjugateScales(noise)).fit(X, y, weights)
    is_known, weights = ~np.isnan(X), np.ones(len(X)) if weights is None else weights
    misfits = np.nansum((X - model.codes_ @ model.components_) ** 2, axis=1)
    n_known = is_known.sum(axis=1)
    used, counts = misfits, n_known
    if noise == "shared":
        used, counts = (np.full(len(X), np.average(values, weights=weights)) for values in (misfits, n_known))
    np.testing.assert_allclose(model.noise_variance_, model.priors_.estimate_noise(used, counts), rtol=1e-9)
    labels = np.where(y[:, None] == model.classes_, 1.0, -1.0)
    costs = sum_costs(labels, model.codes_ @ model.coef_.T + model.intercept_, model.loss_, weights)
    terms = sum_noise_terms(misfits, model.noise_variance_, n_known, model.priors_, weights)
    n_labelled = np.full(10, weights.sum())
    terms += sum_class_terms(costs, model.coef_, model.class_cost_, n_labelled, model.priors_)
    assert model.history_[-1].objective == pytest.approx(sum(terms), rel=1e-9)


@pytest.mark.parametrize(
    "parameters",
    [
        {"sparse_coder": "omp"},
        {"sparse_coder": "ormp", "dictionary_update": "atom", "scales": ConjugateScales("shared")},
        {"sparse_coder": "elastic_net", "description": "standard", "loss": "logistic"},
        {"dictionary_update": "block_coordinate", "scales": "jeffreys", "description": StandardScaler()},
    ],
    ids=str,
)
def test_the_objective_never_rises(digits, parameters):
    model = quick(max_iter=8, tol=0, **parameters).fit(leave_out(digits[0]), digits[1])
    objective = np.array([record.objective for record in model.history_])
    assert (np.diff(objective) <= 1e-12 * np.abs(objective).max()).all()
    assert objective[-1] < objective[0]


def test_planted_atoms_are_found_as_in_complete_samples():
    planted = make_planted(1500, noise=0.02, random_state=0)
    X, y = planted.data, planted.target
    gaps = leave_out(X)

    def learn(samples):
        how = {"description": None, "n_nonzero_coefs": 3, "dictionary_update": "atom", "max_iter": 100, "tol": 0}
        model = quick(**how).fit(samples[:1000], y[:1000])
        likeness = np.abs(planted.dictionary @ model.components_.T).max(axis=1)
        return np.count_nonzero(likeness > 0.95), model.score(X[1000:], y[1000:])

    (n_complete, complete), (n_masked, masked), (n_zeros, zeros) = map(learn, (X, gaps, np.nan_to_num(gaps)))
    assert n_masked >= n_complete - 2 > n_zeros + 3
    assert masked > max(complete - 0.02, zeros + 0.02)


def test_the_default_model_on_digits_is_better_than_one_of_filled_samples():
    X, y = load_digits(return_X_y=True)
    gaps = leave_out(X, 0.3)
    errors = {}
    for name, samples in {"mask": gaps, "zeros": np.nan_to_num(gaps)}.items():
        model = DDLClassifier(200, robustness=MASK, refine=Refiner(5), random_state=0)
        errors[name] = 1 - model.fit(samples[:600], y[:600]).score(samples[600:1200], y[600:1200])
    assert errors["mask"] < 0.8 * errors["zeros"]


@pytest.mark.parametrize(
    "parameters",
    [
        {"refine": Refiner(1, validation_fraction=0.2)},
        {"refine": Refiner(1, jitter="affine"), "image_shape": (8, 8), "description": "unit"},
        {"sparse_coder": "elastic_net", "refine": Refiner(1)},  # with a search for settings
        {"n_components": "auto", "max_iter": 1},
        {"unlabeled": 3},
        {"class_weight": "balanced"},
        {"description": StandardScaler(), "init": "gaussian"},
    ],
    ids=str,
)
def test_other_options_work_with_missing_features(digits, parameters):
    X, y = leave_out(digits[0].astype(np.float32)), digits[1]
    X.setflags(write=False)
    before = X.copy()
    one, two = (quick(**{"max_iter": 2} | parameters, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2))
    np.testing.assert_array_equal(X, before)
    assert one.components_.dtype == np.float32
    np.testing.assert_array_equal(one.components_, two.components_)
    assert one.score(X, y) > 0.5
    again = one.set_params(warm_start=True).fit(X, y)
    assert np.isfinite(again.decision_function(X)).all()


def test_a_memory_mapped_file_may_have_missing_features(digits, tmp_path):
    np.save(tmp_path / "X.npy", leave_out(digits[0]))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    models = [quick(max_iter=2).fit(X, digits[1]) for X in (mapped, np.array(mapped))]
    np.testing.assert_array_equal(models[0].components_, models[1].components_)
