"""K-SVD finds planted dictionaries."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import normalise
from sklearn.datasets import load_digits

from ddlearn import KSVD, sparse_encode
from ddlearn.dictionary import DICTIONARY_UPDATES


def plant(seed=0, n_samples=1500, n_components=30, n_features=20, n_nonzero_coefs=3, noise=0.01):
    rng = np.random.default_rng(seed)
    atoms = normalise(rng.standard_normal((n_components, n_features)))
    codes = np.zeros((n_samples, n_components))
    for code in codes:
        code[rng.choice(n_components, n_nonzero_coefs, replace=False)] = rng.uniform(
            0.5, 1.5, n_nonzero_coefs
        ) * rng.choice([-1, 1], n_nonzero_coefs)
    return codes @ atoms + noise * rng.standard_normal((n_samples, n_features)), atoms


@pytest.mark.parametrize("update", ["ksvd", "exact_ksvd", "atom"])
def test_planted_atoms_are_found_up_to_sign_and_order(update):
    X, atoms = plant()
    model = KSVD(30, n_nonzero_coefs=3, dictionary_update=update, max_iter=60, tol=0, random_state=0).fit(X)
    found = np.abs(atoms @ model.components_.T).max(axis=1) > 0.99
    assert found.mean() >= 0.9


@pytest.mark.parametrize("update", sorted(DICTIONARY_UPDATES))
def test_error_falls_by_a_lot_and_is_what_transform_leaves(update):
    X = normalise(load_digits().data)[:500]
    model = KSVD(50, dictionary_update=update, max_iter=8, random_state=0).fit(X)
    assert model.error_[-1] < 0.7 * model.error_[0]
    assert len(model.error_) == model.n_iter_ + 1
    residual = X - model.inverse_transform(model.transform(X))
    assert np.sum(residual**2) == pytest.approx(model.error_[-1], rel=1e-8)


def test_transform_is_sparse_encode_with_the_atoms():
    X = normalise(load_digits().data)[:300]
    model = KSVD(40, n_nonzero_coefs=3, max_iter=3, random_state=0).fit(X)
    expected = sparse_encode(X, model.components_, n_nonzero_coefs=3, method="ormp")
    np.testing.assert_array_equal(model.transform(X).toarray(), expected.toarray())
    framed = model.set_output(transform="pandas").transform(X)
    np.testing.assert_array_equal(framed.to_numpy(), expected.toarray())


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_components": 0}, "n_components must be an integer of at least 1, got 0"),
        ({"n_components": 3, "n_nonzero_coefs": 4}, "exceeds the 3 atoms"),
        ({"dictionary_update": "svd"}, "svd"),
        ({"max_iter": -1}, "max_iter must be an integer of at least 0, got -1"),
    ],
    ids=str,
)
def test_errors(parameters, message):
    with pytest.raises(ValueError, match=message):
        KSVD(**parameters).fit(np.ones((5, 4)))


def test_a_failed_fit_leaves_the_model_as_it_was():
    X = normalise(load_digits().data)[:100]
    model = KSVD(10, max_iter=1, random_state=0).fit(X)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        model.fit(X[:, :5], np.zeros(3))
    assert model.transform(X).shape == (100, 10)
