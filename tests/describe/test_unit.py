"""Unit norm: agreement with scikit-learn, norms of incomplete samples, and what does not matter."""

from __future__ import annotations

import numpy as np
import pytest
from described import draw_table, learn, quick
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from ddlearn import Refiner, UnitNorm


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_unit_norm_is_that_of_scikit_learn(dtype):
    X = draw_table(dtype=dtype)[0]
    X[3] = 0
    rows = learn("unit", X).apply(X)
    assert rows.dtype == dtype
    np.testing.assert_allclose(rows, normalize(X), rtol=10 * np.finfo(dtype).eps)


def test_the_norm_of_a_sample_with_missing_features_is_estimated_from_the_others():
    rng = np.random.default_rng(0)
    X = rng.gamma(2.0, 1.0, (400, 30)) * np.linspace(1, 3, 30)
    description = learn("unit", X)
    np.testing.assert_allclose(description.energy.sum(), 1)
    is_known = rng.random(X.shape) < 0.7
    estimated = description.measure_norms(np.where(is_known, X, np.nan))[:, 0]
    ratio = estimated / np.linalg.norm(X, axis=1)
    assert abs(ratio.mean() - 1) < 0.02  # the norm of what is known would be 16 % too small
    assert ratio.std() < 0.1


@pytest.mark.parametrize(
    ("dtype", "factors", "tolerance"),
    [(np.float64, [0.125, 0.5, 7.0, 64.0], 1e-8), (np.float64, [1, 1, 1e30], 1e-8), (np.float32, [1, 1, 1e30], 1e-3)],
)
def test_the_norms_of_samples_do_not_matter(dtype, factors, tolerance):
    X, y = load_digits(return_X_y=True)
    X, y = X[:300].astype(dtype), y[:300]
    resized = X * np.random.default_rng(0).choice(factors, (300, 1)).astype(dtype)
    model, other = quick(description="unit").fit(X, y), quick(description="unit").fit(resized, y)
    np.testing.assert_allclose(other.components_, model.components_, atol=tolerance)
    np.testing.assert_array_equal(other.predict(resized), model.predict(X))


def test_the_size_of_a_sample_does_not_depend_on_wrong_features():
    X, y = load_digits(return_X_y=True)
    model = quick(description="unit", n_components=100).fit(X[:1000], y[:1000]).set_params(robustness=0.1)
    broken = X[1000:1200].copy()
    broken[:, 20] = 1e4
    found = model.explain(broken)
    assert np.mean(found.error[:, 20] > 5e3) > 0.95
    np.testing.assert_allclose(found.norms, np.linalg.norm(X[1000:1200], axis=1), rtol=0.3)
    assert model.score(broken, y[1000:1200]) > model.score(X[1000:1200], y[1000:1200]) - 0.1


@pytest.mark.parametrize(
    "images", [{"alignment": "translation"}, {"n_views": 3}, {"refine": Refiner(1, jitter="affine")}], ids=str
)
def test_images_are_distorted_after_unit_norm_and_not_after_standardisation(images):
    X, y = load_digits(return_X_y=True)
    X, y = X[:200], y[:200]
    model = quick(image_shape=(8, 8), **images).fit(X, y)
    assert isinstance(model.description_, UnitNorm)
    np.testing.assert_allclose(model.predict_proba(4 * X), model.predict_proba(X))
    with pytest.raises(ValueError, match=rf"^{next(iter(images))}=.* distorts images, .* use description='unit'"):
        quick(image_shape=(8, 8), description="standard", **images).fit(X, y)
