"""Swaps after the pursuit in traditional coding: never worse, and no swap is left that would be better."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from conftest import both_dtypes, measure_residuals, normalise
from reference import minimum_on

from ddlearn import OMP, ORMP, sparse_encode
from ddlearn.coding.encoder import Encoder

both = pytest.mark.parametrize("pursuit", [OMP, ORMP])
SMALLEST_GAIN = 1e-6  # of a swap, as a share of what the code explains


def draw(n_samples=60, n_components=40, n_features=20, seed=0):
    rng = np.random.default_rng(seed)
    common = rng.standard_normal(n_features)  # atoms are correlated, so that pursuits go wrong
    return rng.standard_normal((n_samples, n_features)), normalise(
        common + rng.standard_normal((n_components, n_features))
    )


def encode(X, D, coder, n_nonzero_coefs=4):
    return sparse_encode(X, D, n_nonzero_coefs=n_nonzero_coefs, method=coder).toarray()


@both
@pytest.mark.parametrize("seed", range(3))
@both_dtypes
def test_residuals_only_fall_with_the_number_of_swaps(pursuit, seed, dtype):
    X, D = (array.astype(dtype) for array in draw(seed=seed))
    residuals = [measure_residuals(X, D, encode(X, D, pursuit(n_swaps=n))) for n in (0, 1, 2, 10, 100)]
    for before, after in pairwise(residuals):
        assert (after <= before * (1 + (1e-5 if dtype == np.float32 else 1e-12))).all()
    assert residuals[-1].mean() < 0.99 * residuals[0].mean()


def assert_no_swap_is_better(Q, c, x, slack):
    support, here = set(np.flatnonzero(x).tolist()), c @ x
    others = set(range(len(c))) - support
    best = min(minimum_on(Q, c, support - {out} | {k})[1] for out in support for k in others)
    assert -best - here <= slack * here


@both
def test_no_swap_lowers_the_residual(pursuit):
    X, D = draw(n_samples=20)
    codes = encode(X, D, pursuit(n_swaps=1000))
    for sample, x in zip(X, codes, strict=True):
        np.testing.assert_allclose((D @ (sample - x @ D))[x != 0], 0, atol=1e-10)
        assert_no_swap_is_better(D @ D.T, D @ sample, x, 1.01 * SMALLEST_GAIN)


@both
def test_no_swap_lowers_the_residual_of_the_known_features(pursuit):
    X, D = draw(n_samples=20)
    is_kept = np.random.default_rng(0).random(X.shape) < 0.7
    is_kept[:, :6] = True
    without, with_swaps = (
        Encoder.of(D, pursuit(n_swaps=n), 4).encode(X, is_kept).to_csr(40).toarray() for n in (0, 1000)
    )
    before, after = (np.sum(np.where(is_kept, X - x @ D, 0) ** 2, axis=1) for x in (without, with_swaps))
    assert (after <= before * (1 + 1e-12)).all()
    assert after.mean() < before.mean()
    for sample, kept, x in zip(X, is_kept, with_swaps, strict=True):
        some = D[:, kept]
        assert_no_swap_is_better(some @ some.T, some @ sample[kept], x, 1.01 * SMALLEST_GAIN)


@both
def test_a_row_that_has_reached_the_tolerance_gets_no_more_atoms(pursuit):
    X, D = draw()
    tol = 0.3 * np.mean(X**2) * X.shape[1]
    without, with_swaps = (encode(X, D, pursuit(tol, n_swaps=n), 20) for n in (0, 10))
    np.testing.assert_array_equal(np.count_nonzero(with_swaps, axis=1), np.count_nonzero(without, axis=1))
    residuals = measure_residuals(X, D, with_swaps)
    assert (residuals <= np.maximum(tol, measure_residuals(X, D, without)) * (1 + 1e-12)).all()
    assert len(np.unique(np.count_nonzero(with_swaps, axis=1))) > 2


@both
@both_dtypes
def test_samples_without_a_residual_keep_their_few_atoms(pursuit, dtype):
    _, D = draw()
    planted = np.zeros((40, 40))
    planted[np.arange(40), np.arange(40)] = 2
    planted[0] = 0
    codes = encode((planted @ D).astype(dtype), D.astype(dtype), pursuit(), 5)
    np.testing.assert_allclose(codes, planted, atol=1e-5)
    np.testing.assert_array_equal(codes != 0, planted != 0)


@both
def test_one_atom_is_the_pursuit_alone(pursuit):
    # The first atom of a pursuit is the best there is.
    X, D = draw()
    np.testing.assert_array_equal(encode(X, D, pursuit(), 1), encode(X, D, pursuit(n_swaps=0), 1))
