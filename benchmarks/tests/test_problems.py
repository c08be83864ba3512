"""The problems are what they say, and the grader agrees with a plain computation."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.problems import QUICK_SIZES, SIZES, Problem, grade, make_problem
from scipy.sparse import csr_array, random_array

from ddlearn import ElasticNet, sparse_encode


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_grader_agrees_with_a_dense_computation(dtype):
    rng = np.random.default_rng(0)
    codes = csr_array(random_array((5000, 7), density=0.3, rng=rng, dtype=np.float64))
    codes.data[::5] = 0  # a stored zero is no nonzero
    X, dictionary = rng.standard_normal((5000, 4)).astype(dtype), rng.standard_normal((7, 4)).astype(dtype)
    found = grade(Problem(X, dictionary, 7), codes)
    dense = codes.toarray()
    residual = X.astype(np.float64) - dense @ dictionary.astype(np.float64)
    assert found.mean_squared_residual == pytest.approx(np.mean(np.sum(residual**2, axis=1)), rel=1e-12)
    assert found.mean_nonzeros == pytest.approx(np.mean(np.count_nonzero(dense, axis=1)))
    assert found.max_nonzeros == np.count_nonzero(dense, axis=1).max()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ["usps-300-3", "yale-600-5", *QUICK_SIZES])
def test_synthetic_problems_have_the_stated_shapes_and_unit_rows(name, dtype):
    size = (SIZES | QUICK_SIZES)[name]
    problem = make_problem(name, dtype)
    assert problem.X.shape == (size.n_samples, size.n_features)
    assert problem.dictionary.shape == (size.n_components, size.n_features)
    assert problem.n_nonzero_coefs == size.n_nonzero_coefs
    for rows in (problem.X, problem.dictionary):
        assert rows.dtype == dtype
        assert rows.flags.c_contiguous
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)
    assert (problem.X >= 0).all()


def test_a_problem_is_the_same_every_time():
    first, second = make_problem("quick-40-3"), make_problem("quick-40-3")
    assert np.array_equal(first.X, second.X)
    assert np.array_equal(first.dictionary, second.dictionary)


def test_the_gap_is_zero_at_the_minimum_and_bounds_the_excess():
    problem = make_problem("quick-40-net")
    lasso, ridge = problem.penalty
    coder = ElasticNet(lasso + ridge, l1_ratio=lasso / (lasso + ridge), tol=1e-13)
    codes = sparse_encode(problem.X, problem.dictionary, method=coder)
    assert grade(problem, codes).largest_gap == pytest.approx(0, abs=1e-12)

    def cost(x):
        residual = problem.X - x @ problem.dictionary
        return np.sum(residual**2, axis=1) / 2 + lasso * np.abs(x).sum(axis=1) + ridge / 2 * np.sum(x**2, axis=1)

    worse = 1.1 * codes.toarray()
    assert grade(problem, csr_array(worse)).largest_gap >= np.max(2 * (cost(worse) - cost(codes.toarray()))) > 1e-4
