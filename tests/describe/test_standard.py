"""Standardised features: agreement with scikit-learn, digits that are kept, outliers, and the constant."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_stream
from described import draw_table, learn, quick
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import StandardScaler

from ddlearn import Robustness, Standard, UnitNorm


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("constant", [0.0, 0.5, 1.0])
def test_standardised_features_are_those_of_scikit_learn_with_a_mean_squared_norm_of_one(dtype, constant):
    X = draw_table(dtype=dtype)[0]
    rows = learn(Standard(constant), X).apply(X)
    assert rows.dtype == dtype
    expected = StandardScaler().fit_transform(X.astype(float)) / np.sqrt(6 * (1 + constant**2))
    np.testing.assert_allclose(rows[:, :6], expected, atol=100 * np.finfo(dtype).eps * 1e2)
    assert rows.shape[1] == 6 + (constant > 0)
    np.testing.assert_allclose(np.mean(np.sum(rows.astype(float) ** 2, axis=1)), 1, rtol=1e-4)
    if constant:
        np.testing.assert_allclose(rows[:, 6], constant / np.sqrt(1 + constant**2), rtol=1e-6)


def test_moments_keep_their_digits_where_the_mean_is_large():
    values = np.arange(1000.0).reshape(-1, 1)
    description = learn("standard", values + 2.0**40, n_rows=64)
    np.testing.assert_allclose(description.deviation, values.std(axis=0), rtol=1e-12)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_feature_that_varies_by_rounding_alone_says_nothing(dtype):
    X = draw_table(dtype=dtype)[0]
    X[:, 2] = 0.1
    X[:, 3] = np.where(np.arange(len(X)) % 2, 0.1, np.nextafter(dtype(0.1), dtype(1)))
    description = learn("standard", X)
    assert (description.deviation == 0).tolist() == [False, False, True, True, False, False]
    new = X.copy()
    new[:, 2:4] = 1e6
    np.testing.assert_array_equal(description.apply(new), description.apply(X))


@pytest.mark.parametrize("description", ["unit", "standard"])
def test_what_is_learned_is_learned_from_known_features(description):
    X, y = draw_table(3000)
    X = np.abs(X) if description == "unit" else X
    gaps = np.where(np.random.default_rng(1).random(X.shape) < 0.3, np.nan, X)
    gaps[:50, 2] = np.nan  # in the whole first part
    whole, known = learn(description, X, y), learn(description, gaps, y)
    if description == "standard":
        np.testing.assert_allclose(known.mean, np.nanmean(gaps, axis=0), rtol=1e-12)
        np.testing.assert_allclose(known.deviation, np.nanstd(gaps, axis=0), rtol=1e-12)
    else:
        np.testing.assert_allclose(known.energy.sum(), 1, rtol=1e-12)
        assert np.abs(known.energy - whole.energy).max() < 0.1


def test_a_value_that_decides_a_deviation_alone_is_named():
    X, y = draw_table()
    X[17, 4] = 1e100
    message = r"X is 1e\+100 in row 17, feature 4, while nine of ten .* \(1 features"
    with pytest.warns(UserWarning, match=message):
        quick(description="standard").fit(X, y)
    gaps = X.copy()
    gaps[::3, 4] = np.nan
    with pytest.warns(UserWarning, match=message):
        learn("standard", gaps, y)
    X[17, 4] = 1e200
    with pytest.raises(ValueError, match=r"Row 17 of X has values as large as 1e\+200"):
        quick(description="standard").fit(X, y)
    X[:, 4] = np.arange(len(X)) == 3  # a rare property is no outlier
    quick(description="standard").fit(X, y)


def test_the_units_of_columns_do_not_matter_for_a_standardised_model():
    X, y = draw_table()
    model = quick(description="standard").fit(X, y)
    factors = np.array([1000.0, 1, 0.5, 7, 1, 1e-4])
    other = quick(description="standard").fit(factors * X + 3, y)
    np.testing.assert_allclose(other.decision_function(factors * X + 3), model.decision_function(X), rtol=1e-5)
    np.testing.assert_allclose(other.components_, model.components_, atol=1e-7)
    assert model.components_.shape == (30, 7)
    assert model.n_features_in_ == 6


@pytest.mark.parametrize("read", [load_iris, load_wine, load_breast_cancer])
def test_standardising_outside_and_inside_is_the_same(read):
    X, y = read(return_X_y=True)
    description = learn("standard", X, n_rows=len(X))
    inside = quick(description="standard").fit(X, y)
    outside = quick(description=None).fit(description.apply(X), y)
    np.testing.assert_array_equal(inside.components_, outside.components_)
    np.testing.assert_array_equal(inside.decision_function(X), outside.decision_function(description.apply(X)))


def test_a_constant_is_what_pursuits_need_to_tell_centred_classes_apart():
    rng = np.random.default_rng(0)
    y = np.arange(600) % 5
    X = 3 * rng.standard_normal((5, 2))[y] + 0.5 * rng.standard_normal((600, 2))
    scores = [
        make_stream(description=Standard(c), random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:])
        for c in (0, 1)
    ]
    assert scores[1] > scores[0] + 0.1


def test_a_stream_is_described_as_its_first_batch_was():
    X, y = draw_table(400)
    model = make_stream(30, description="standard", random_state=0).partial_fit(X[:200], y[:200], classes=[0, 1])
    first = model.description_
    np.testing.assert_allclose(first.mean, X[:200].mean(axis=0))
    model.partial_fit(X[200:], y[200:])
    assert model.description_ is first
    assert model.score(X, y) > 0.85
    with pytest.raises(ValueError, match=r"description is UnitNorm\(\) now, but Standard"):
        model.set_params(description="unit").partial_fit(X, y)
    with pytest.raises(ValueError, match="cannot be learned from 1 sample: begin with more"):
        make_stream(description="standard").partial_fit(X[:1], y[:1], classes=[0, 1])
    assert isinstance(make_stream().partial_fit(X[:1], y[:1], classes=[0, 1]).description_, UnitNorm)


@pytest.mark.parametrize("description", ["unit", "standard"])
def test_missing_features_are_guessed_from_the_others(description):
    X, y = load_digits(return_X_y=True)
    model = quick(description=description, robustness=Robustness(missing="mask"), n_components=100).fit(
        X[:1000], y[:1000]
    )
    rng = np.random.default_rng(0)
    mask = rng.random(X[1000:].shape) < 0.3
    broken = np.where(mask, np.nan, X[1000:])
    assert model.score(broken, y[1000:]) > 0.8
    reconstruction = model.explain(broken).reconstruction
    assert np.linalg.norm((reconstruction - X[1000:])[mask]) < 0.6 * np.linalg.norm(X[1000:][mask])
