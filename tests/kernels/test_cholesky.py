"""The Cholesky kernels against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from ddlearn.kernels.cholesky import eliminate_row, solve_factored


def factorise(matrix):
    """Return the factor with inverses on its diagonal."""
    factor = np.tril(matrix)
    for k in range(len(factor)):
        pivot = eliminate_row(factor, k)
        factor[k, k] = 1 / np.sqrt(pivot) if pivot > 1e-10 else 0
    return factor


@pytest.mark.parametrize("n", [1, 4, 5, 11, 30])
def test_kernel_factors_and_solves_as_numpy_does(n):
    rng = np.random.default_rng(n)
    root = rng.standard_normal((n, 2 * n))
    matrix, right = root @ root.T, rng.standard_normal(n)
    factor, solution = factorise(matrix), right.copy()
    solve_factored(factor, solution, n)
    expected = np.linalg.cholesky(matrix)
    np.fill_diagonal(expected, 1 / expected.diagonal())
    np.testing.assert_allclose(np.tril(factor), expected, atol=1e-10)
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, right), atol=1e-9)


def test_kernel_gives_zero_to_a_row_that_depends_on_others():
    root = np.random.default_rng(0).standard_normal((6, 8))
    root[3] = root[0] - 2 * root[1]
    right = np.random.default_rng(1).standard_normal(6)
    factor, solution = factorise(root @ root.T), right.copy()
    solve_factored(factor, solution, 6)
    others = np.delete(np.arange(6), 3)
    expected = np.linalg.solve((root @ root.T)[np.ix_(others, others)], right[others])
    np.testing.assert_allclose(solution[others], expected, atol=1e-9)
    assert solution[3] == 0
