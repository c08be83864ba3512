"""Pursuits: against scikit-learn, spams and least squares, and the atoms that they choose."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from conftest import both_dtypes, draw_samples, measure_residuals, normalise
from scipy.sparse import csr_array
from sklearn.linear_model import orthogonal_mp_gram

from ddlearn import OMP, ORMP, sparse_encode
from ddlearn.coding.encoder import SPARSE_CODERS

every_pursuit = pytest.mark.parametrize("method", sorted(set(SPARSE_CODERS) - {"elastic_net"}))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(("n_nonzero_coefs", "tol"), [(1, None), (3, None), (10, None), (20, 4.0)])
def test_omp_equals_scikit_learn(seed, n_nonzero_coefs, tol):
    X, D = draw_samples(seed=seed, n_components=60)
    stop = {"n_nonzero_coefs": n_nonzero_coefs} if tol is None else {"tol": tol, "norms_squared": np.sum(X**2, axis=1)}
    codes = sparse_encode(X, D, n_nonzero_coefs=n_nonzero_coefs, method=OMP(tol, n_swaps=0))
    np.testing.assert_allclose(codes.toarray(), orthogonal_mp_gram(D @ D.T, D @ X.T, **stop).T, atol=1e-8)
    assert tol is None or len(set(np.diff(codes.indptr))) > 2


def test_ormp_equals_spams():
    spams = pytest.importorskip("spams", reason="spams is in the bench extra")
    X, D = draw_samples(n_samples=300)
    expected = spams.omp(np.asfortranarray(X.T), np.asfortranarray(D.T), L=6, eps=0.0).T.toarray()
    codes = sparse_encode(X, D, n_nonzero_coefs=6, method=ORMP(n_swaps=0))
    np.testing.assert_allclose(codes.toarray(), expected, atol=1e-8)


def test_each_ormp_step_takes_the_atom_that_lowers_the_error_most():
    X, D = draw_samples(n_samples=10)
    supports = [
        [set(row.indices) for row in map(csr_array, sparse_encode(X, D, n_nonzero_coefs=t, method=ORMP(n_swaps=0)))]
        for t in (1, 2, 3, 4)
    ]
    for before, after in itertools.pairwise(supports):
        for x, old, new in zip(X, before, after, strict=True):
            errors = {}
            for atom in set(range(len(D))) - old:
                chosen = D[sorted(old | {atom})]
                errors[atom] = np.linalg.norm(x - np.linalg.lstsq(chosen.T, x)[0] @ chosen)
            assert new == old | {min(errors, key=errors.get)}


@every_pursuit
def test_code_is_the_least_squares_solution_on_its_support(method):
    X, D = draw_samples()
    codes = sparse_encode(X, D, n_nonzero_coefs=6, method=method).toarray()
    assert (np.count_nonzero(codes, axis=1) <= 6).all()
    gradient = (codes @ D - X) @ D.T
    np.testing.assert_allclose(gradient[codes != 0], 0, atol=1e-10)


@every_pursuit
@both_dtypes
def test_atoms_need_not_have_unit_norm(method, dtype):
    X, D = draw_samples(dtype=dtype)
    scale = np.random.default_rng(1).uniform(0.01, 100, len(D)).astype(dtype)
    codes = sparse_encode(X, D * scale[:, None], n_nonzero_coefs=5, method=method).toarray()
    expected = sparse_encode(X, D, n_nonzero_coefs=5, method=method).toarray()
    np.testing.assert_allclose(codes * scale, expected, atol=1e-3 if dtype == np.float32 else 1e-10)


@every_pursuit
@both_dtypes
def test_a_sample_that_is_an_atom_gets_one_coefficient(method, dtype):
    rng = np.random.default_rng(0)
    D = normalise(rng.random((300, 784)) ** 4).astype(dtype)  # correlated, like images
    codes = sparse_encode(3 * D, D, n_nonzero_coefs=10, method=method)
    assert codes.nnz == 300
    np.testing.assert_allclose(codes.toarray(), 3 * np.eye(300), atol=1e-5)


@every_pursuit
def test_sparse_samples_of_well_separated_atoms_are_recovered(method):
    rng = np.random.default_rng(0)
    D = normalise(rng.standard_normal((80, 200)))
    expected = np.zeros((100, 80))
    for row in expected:
        row[rng.choice(80, 4, replace=False)] = rng.uniform(1, 2, 4) * rng.choice([-1, 1], 4)
    codes = sparse_encode(expected @ D, D, n_nonzero_coefs=12, method=method)
    assert codes.nnz == 400  # the budget is not used up: the residual is zero to rounding
    np.testing.assert_allclose(codes.toarray(), expected, atol=1e-10)


@every_pursuit
@both_dtypes
def test_budgets_up_to_all_atoms_reach_least_squares(method, dtype):
    X, D = draw_samples(n_components=12, dtype=dtype)  # fewer atoms than features
    codes = sparse_encode(X, D, n_nonzero_coefs=12, method=method)
    expected = np.linalg.lstsq(D.T.astype(np.float64), X.T.astype(np.float64))[0].T
    np.testing.assert_allclose(codes.toarray(), expected, atol=1e-3 if dtype == np.float32 else 1e-10)


@every_pursuit
@both_dtypes
def test_budgets_above_the_number_of_features_leave_no_residual(method, dtype):
    X, D = draw_samples(n_components=40, n_features=8, dtype=dtype)
    codes = sparse_encode(X, D, n_nonzero_coefs=30, method=method)
    assert np.isfinite(codes.data).all()
    assert measure_residuals(X, D, codes).max() < (1e-4 if dtype == np.float32 else 1e-10)
    assert np.diff(codes.indptr).max() <= 8  # as many independent atoms as features leave a residual of zero
