"""Digits are scikit-learn's, planted problems hold what was planted."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from ddlearn import KSVD
from ddlearn.datasets import load_digits_images, make_planted


def test_digits_are_scikit_learns():
    from sklearn.datasets import load_digits

    digits = load_digits_images()
    np.testing.assert_array_equal(digits.data, load_digits().data / 16)
    np.testing.assert_array_equal(digits.target, load_digits().target)
    assert digits.image_shape == (8, 8)
    assert digits.data.dtype == np.float32
    X, y = load_digits_images(return_X_y=True)
    assert X.shape == (1797, 64)
    assert y.shape == (1797,)


def test_planted_codes_rebuild_the_samples():
    planted = make_planted(200, 20, 30, 3, n_nonzero_coefs=4, random_state=0)
    np.testing.assert_allclose(planted.codes @ planted.dictionary, planted.data, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(planted.dictionary, axis=1), 1)
    np.testing.assert_array_equal(np.diff(planted.codes.indptr), 4)
    assert planted.codes.has_canonical_format
    assert np.abs(planted.codes.data).min() >= 1
    assert np.abs(planted.codes.data).max() < 2


def test_planted_noise_has_the_deviation_asked_for():
    planted = make_planted(2000, noise=0.3, random_state=0)
    assert np.std(planted.data - planted.codes @ planted.dictionary) == pytest.approx(0.3, rel=0.02)


@pytest.mark.parametrize(
    ("n_components", "n_classes", "n_nonzero_coefs"), [(30, 3, 3), (7, 3, 1), (5, 5, 5), (4, 1, 2)]
)
def test_planted_classes(n_components, n_classes, n_nonzero_coefs):
    planted = make_planted(301, 20, n_components, n_classes, n_nonzero_coefs=n_nonzero_coefs, random_state=0)
    counts = np.bincount(planted.target, minlength=n_classes)
    assert counts.max() - counts.min() <= 1
    is_own = planted.atom_class == planted.target[:, None]
    codes = planted.codes.toarray()
    assert ((codes > 0) & is_own).any(axis=1).all()
    assert not ((codes > 0) & ~is_own).any()
    scores = planted.codes @ planted.coef.T
    right = scores[np.arange(301), planted.target].copy()
    scores[np.arange(301), planted.target] = -np.inf
    assert (right >= scores.max(axis=1) + 2).all()


def test_planted_is_drawn_by_the_seed():
    one, again, other = (make_planted(50, noise=0.1, random_state=seed) for seed in (0, 0, 1))
    for key in ("data", "target", "dictionary"):
        np.testing.assert_array_equal(one[key], again[key])
        assert not np.array_equal(one[key], other[key])
    X, y = make_planted(50, noise=0.1, random_state=0, return_X_y=True)
    np.testing.assert_array_equal(X, one.data)
    np.testing.assert_array_equal(y, one.target)


def test_planted_dictionary_is_recovered():
    planted = make_planted(1500, noise=0.01, random_state=0)
    model = KSVD(30, n_nonzero_coefs=3, max_iter=60, tol=0, random_state=0).fit(planted.data)
    found = np.abs(planted.dictionary @ model.components_.T).max(axis=1) > 0.99
    assert found.mean() >= 0.9


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_samples": 0}, "n_samples must be an integer of at least 1, got 0"),
        ({"n_features": 2.5}, "n_features must be an integer of at least 1, got 2.5"),
        ({"n_nonzero_coefs": 31}, "n_nonzero_coefs=31 exceeds the n_components=30 atoms"),
        ({"n_classes": 31}, "n_classes=31 exceeds the n_components=30 atoms"),
        ({"noise": -1}, "noise must be a finite number of at least 0, got -1"),
        ({"noise": np.nan}, "noise must be a finite number of at least 0, got nan"),
    ],
    ids=str,
)
def test_planted_errors(parameters, message):
    with pytest.raises(ValueError, match=message):
        make_planted(**parameters)


def test_importing_is_cheap():
    script = "import sys, ddlearn.datasets; print('sklearn.datasets' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"
