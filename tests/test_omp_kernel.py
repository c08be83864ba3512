"""The pursuit kernel against its slow twin, and its promises on degenerate problems."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import pursue

from ddlearn._omp_kernel import make_pursuit_workspace, pursue_rows
from ddlearn.codes import RowCodes


def run_kernel(gram, correlations, coef, weight, pull, budget, *, is_off_support_norm, energies=None, tol=-np.inf):
    dtype = gram.dtype
    codes = RowCodes.empty(len(correlations), budget, dtype)
    codes.values[:] = np.nan  # what was there before must not matter
    energies = np.zeros(len(correlations), dtype) if energies is None else energies
    workspace = make_pursuit_workspace(budget, len(gram), len(coef), dtype)
    floors = {np.dtype(np.float64): (4e-28, 1e-10), np.dtype(np.float32): (1e-10, 1e-5)}[dtype]
    pursue_rows(
        gram,
        correlations,
        coef,
        weight,
        pull,
        energies,
        np.full(len(correlations), tol, dtype),
        *map(dtype.type, floors),
        is_off_support_norm,
        workspace,
        codes.indices,
        codes.values,
    )
    return codes


def draw(n_rows, n_atoms, n_features, n_classes, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    atoms, X = rng.standard_normal((n_atoms, n_features)), rng.standard_normal((n_rows, n_features))
    atoms *= rng.uniform(0.1, 10, (n_atoms, 1))
    coef, pull = rng.standard_normal((n_classes, n_atoms)), rng.standard_normal((n_rows, n_classes))
    weight = rng.uniform(0, 2, (n_rows, n_classes))
    return [array.astype(dtype) for array in (atoms @ atoms.T, X @ atoms.T, coef, weight, pull)]


def row_problem(gram, correlations, coef, weight, pull, row):
    return gram + coef.T @ (weight[row][:, None] * coef), correlations[row] + coef.T @ pull[row]


pursuits = pytest.mark.parametrize("is_off_support_norm", [False, True], ids=["omp", "ormp"])


@pursuits
@given(
    n_rows=st.integers(1, 4),
    n_atoms=st.integers(1, 140),  # below, at and above the blocks of the search
    n_features=st.integers(3, 12),
    n_classes=st.integers(0, 9),
    seed=st.integers(0, 10_000),
    data=st.data(),
)
def test_equals_the_slow_twin(is_off_support_norm, n_rows, n_atoms, n_features, n_classes, seed, data):
    # With as many atoms as features any last atom makes the residual zero, and ORMP's choice is a tie.
    budget = data.draw(st.integers(1, min(n_atoms, n_features - 1)))
    problem = draw(n_rows, n_atoms, n_features, n_classes, seed)
    x = run_kernel(*problem, budget, is_off_support_norm=is_off_support_norm).to_csr(n_atoms).toarray()
    for row in range(n_rows):
        expected = pursue(*row_problem(*problem, row), budget, is_off_support_norm=is_off_support_norm)
        np.testing.assert_allclose(x[row], expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pursuits
@given(
    n_atoms=st.integers(2, 20), n_features=st.integers(1, 6), n_classes=st.integers(0, 3), seed=st.integers(0, 10_000)
)
def test_degenerate_dictionaries_give_finite_codes_that_are_optimal_on_their_support(
    is_off_support_norm, n_atoms, n_features, n_classes, seed
):
    # More atoms than features, duplicates up to sign and scale, zero atoms, a zero sample, and a budget for all of it.
    rng = np.random.default_rng(seed)
    atoms = rng.standard_normal((n_atoms, n_features))
    atoms[1] = atoms[0]
    atoms[n_atoms // 2] = -2 * atoms[0]
    atoms[n_atoms - 1] = 0
    X = rng.standard_normal((5, n_features))
    X[0], X[1] = 0, atoms[0]
    coef, pull = rng.standard_normal((n_classes, n_atoms)), rng.standard_normal((5, n_classes))
    problem = (atoms @ atoms.T, X @ atoms.T, coef, rng.uniform(0, 2, (5, n_classes)), pull)
    codes = run_kernel(*problem, n_atoms, is_off_support_norm=is_off_support_norm)
    x = codes.to_csr(n_atoms).toarray()
    assert np.isfinite(x).all()
    for row in range(5):
        Q, c = row_problem(*problem, row)
        support = np.flatnonzero(x[row])
        np.testing.assert_allclose((Q @ x[row] - c)[support], 0, atol=1e-6 * (1 + np.abs(c).max()))
    if n_classes == 0:
        assert not x[0].any()
        assert np.count_nonzero(x[1]) == 1


@pursuits
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_layout_is_ascending_and_unused_places_are_zero(is_off_support_norm, dtype):
    problem = draw(20, 30, 4, 0, seed=1, dtype=dtype)
    codes = run_kernel(*problem, 10, is_off_support_norm=is_off_support_norm)  # 4 features: 10 atoms are dependent
    used = codes.values != 0
    assert used.sum(axis=1).max() < 10
    assert not codes.indices[~used].any()
    assert all((np.diff(row[row_used]) > 0).all() for row, row_used in zip(codes.indices, used, strict=True))
    assert codes.values.dtype == dtype


@pursuits
def test_tolerance_ends_a_row_at_the_first_residual_below_it(is_off_support_norm):
    rng = np.random.default_rng(0)
    atoms, X = rng.standard_normal((40, 15)), rng.standard_normal((30, 15))
    energies = np.sum(X**2, axis=1)
    empty = np.empty((0, 40)), np.empty((30, 0)), np.empty((30, 0))

    def residuals(budget, tol=-np.inf):
        codes = run_kernel(
            atoms @ atoms.T,
            X @ atoms.T,
            *empty,
            budget,
            is_off_support_norm=is_off_support_norm,
            energies=energies,
            tol=tol,
        )
        x = codes.to_csr(40).toarray()
        return np.sum((X - x @ atoms) ** 2, axis=1), np.count_nonzero(x, axis=1)

    tol = 3.0
    reached, n_used = residuals(15, tol)
    assert (reached <= tol + 1e-9).all()
    for n_atoms in range(1, 15):
        one_less, _ = residuals(n_atoms)
        assert (one_less[n_used == n_atoms + 1] > tol).all()
    assert not residuals(15, energies.max())[1].any()


def test_of_equal_atoms_the_first_is_chosen():
    gram = np.ones((70, 70))
    codes = run_kernel(gram, np.ones((1, 70)), np.empty((0, 70)), *np.empty((2, 1, 0)), 3, is_off_support_norm=False)
    np.testing.assert_array_equal(codes.indices, [[0, 0, 0]])
    np.testing.assert_array_equal(codes.values, [[1, 0, 0]])
