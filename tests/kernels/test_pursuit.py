"""The pursuit kernel against its slow twin, and its promises on degenerate problems."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import draw_row_problems, leave_out, row_problem
from hypothesis import given
from hypothesis import strategies as st
from reference import pursue

from ddlearn.kernels.pursuit import make_pursuit_workspace, pursue_rows
from ddlearn.model.codes import RowCodes


def run_kernel(
    gram, correlations, coef, weight, pull, budget, *, is_off_support_norm, energies=None, tol=-np.inf, directions=None
):
    dtype = gram.dtype
    directions = np.empty((len(correlations), 0, len(gram)), dtype) if directions is None else directions
    codes = RowCodes.empty(len(correlations), budget, dtype)
    codes.values[:] = np.nan  # what was there before must not matter
    energies = np.zeros(len(correlations), dtype) if energies is None else energies
    workspace = make_pursuit_workspace(budget, len(gram), len(coef), directions.shape[1], dtype)
    floors = {np.dtype(np.float64): (4e-28, 1e-10), np.dtype(np.float32): (1e-10, 1e-5)}[dtype]
    problem = gram, correlations, coef, weight, pull, directions.reshape(-1, len(gram)), energies
    limits = np.full(len(correlations), tol, dtype), *map(dtype.type, floors), is_off_support_norm
    pursue_rows(*problem, *limits, workspace, *codes)
    return codes


pursuits = pytest.mark.parametrize("is_off_support_norm", [False, True], ids=["omp", "ormp"])


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
    problem = draw_row_problems(20, 30, 4, 0, seed=1, dtype=dtype)
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
    problem = atoms @ atoms.T, X @ atoms.T, np.empty((0, 40)), *np.empty((2, 30, 0))
    how = {"is_off_support_norm": is_off_support_norm, "energies": energies}

    def residuals(budget, tol=-np.inf):
        x = run_kernel(*problem, budget, tol=tol, **how).to_csr(40).toarray()
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


@pursuits
@pytest.mark.parametrize("most_directions", [0, 1, 6])
@given(
    n_rows=st.integers(1, 4),
    n_atoms=st.integers(1, 140),  # below, at and above the blocks of the search
    n_features=st.integers(3, 12),
    n_classes=st.integers(0, 9),
    seed=st.integers(0, 10_000),
    data=st.data(),
)
def test_equals_the_slow_twin(is_off_support_norm, most_directions, n_rows, n_atoms, n_features, n_classes, seed, data):
    n_directions = min(most_directions, n_features - 2)
    # With as many atoms as features any last atom makes the residual zero, and ORMP's choice is a tie.
    budget = data.draw(st.integers(1, min(n_atoms, n_features - n_directions - 1)))
    rng = np.random.default_rng(seed)
    atoms, X = rng.standard_normal((n_atoms, n_features)), rng.standard_normal((n_rows, n_features))
    atoms *= rng.uniform(0.1, 10, (n_atoms, 1))
    basis = np.linalg.qr(rng.standard_normal((n_rows, n_features, n_directions)))[0]
    basis *= data.draw(st.sampled_from([0.3, 1.0]), label="share that is projected out")
    directions = np.ascontiguousarray(basis.mT @ atoms.T)
    projected = X - np.einsum("nmp,nqp,nq->nm", basis, basis, X)
    coef, pull = rng.standard_normal((n_classes, n_atoms)), rng.standard_normal((n_rows, n_classes))
    problem = atoms @ atoms.T, projected @ atoms.T, coef, rng.uniform(0, 2, (n_rows, n_classes)), pull
    codes = run_kernel(*problem, budget, is_off_support_norm=is_off_support_norm, directions=directions)
    x = codes.to_csr(n_atoms).toarray()
    for row in range(n_rows):
        Q, c = row_problem(*problem, row)
        Q -= directions[row].T @ directions[row]
        expected = pursue(Q, c, budget, is_off_support_norm=is_off_support_norm)
        np.testing.assert_allclose(x[row], expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pursuits
@given(
    n_rows=st.integers(1, 4), n_atoms=st.integers(1, 140), n_features=st.integers(3, 12), seed=st.integers(0, 10_000)
)
def test_weights_of_minus_one_leave_features_out_as_in_the_slow_twin(
    is_off_support_norm, n_rows, n_atoms, n_features, seed
):
    rng = np.random.default_rng(seed)
    atoms, X = rng.standard_normal((n_atoms, n_features)), rng.standard_normal((n_rows, n_features))
    is_kept = rng.random((n_rows, n_features)) < 0.7
    is_kept[:, :2] = True
    budget = min(n_atoms, is_kept.sum(axis=1).min() - 1)
    x = run_kernel(*leave_out(atoms, X, is_kept), budget, is_off_support_norm=is_off_support_norm).to_csr(n_atoms)
    for row, kept in enumerate(is_kept):
        reduced = atoms[:, kept]
        expected = pursue(reduced @ reduced.T, reduced @ X[row, kept], budget, is_off_support_norm=is_off_support_norm)
        np.testing.assert_allclose(x[[row]].toarray()[0], expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@pursuits
@given(n_classes=st.integers(1, 12), seed=st.integers(0, 10_000))
def test_classes_without_weight_and_pull_make_no_difference_at_all(is_off_support_norm, n_classes, seed):
    gram, correlations, coef, weight, pull = draw_row_problems(1, 30, 12, n_classes, seed)
    is_used = np.random.default_rng(seed).random(n_classes) < 0.5
    weight[:, ~is_used] = pull[:, ~is_used] = 0
    codes = run_kernel(gram, correlations, coef, weight, pull, 6, is_off_support_norm=is_off_support_norm)
    used = [np.ascontiguousarray(array) for array in (coef[is_used], weight[:, is_used], pull[:, is_used])]
    expected = run_kernel(gram, correlations, *used, 6, is_off_support_norm=is_off_support_norm)
    np.testing.assert_array_equal(codes.indices, expected.indices)
    np.testing.assert_array_equal(codes.values, expected.values)


@pursuits
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("first", [0, 3])
def test_an_atom_that_lies_in_the_features_left_out_is_never_chosen(is_off_support_norm, seed, first):
    # The budget is for more atoms than are independent; then no atom is left that offers anything.
    rng = np.random.default_rng(seed)
    atoms, X = rng.standard_normal((8, 7)), rng.standard_normal((3, 7))
    is_kept = np.arange(7) < 4
    atoms[first : first + 2, is_kept] = 0
    x = run_kernel(*leave_out(atoms, X, np.tile(is_kept, (3, 1))), 8, is_off_support_norm=is_off_support_norm)
    x = x.to_csr(8).toarray()
    assert not x[:, first : first + 2].any()
    np.testing.assert_allclose((x @ atoms)[:, is_kept], X[:, is_kept], atol=1e-8)


@pursuits
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("planted", [[0, 0], [2, 3e-9]])
def test_atoms_that_lie_in_the_directions_are_never_chosen_nor_in_the_way_of_others(is_off_support_norm, seed, planted):
    # What directions leave of an atom, and of its correlation, are rounding errors; their quotient can be anything.
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.standard_normal((9, 3)))
    others = rng.standard_normal((2, 9))
    atoms = np.concatenate([rng.standard_normal((25, 3)) @ basis.T, others])
    y = planted @ others
    correlations = atoms @ (y - basis @ (basis.T @ y))
    directions = np.ascontiguousarray(basis.T @ atoms.T)[None]
    problem = atoms @ atoms.T, correlations[None], np.empty((0, 27)), *np.empty((2, 1, 0))
    codes = run_kernel(*problem, 4, is_off_support_norm=is_off_support_norm, directions=directions)
    x = codes.to_csr(27).toarray()[0]
    assert not x[:25].any()
    np.testing.assert_allclose(x[25:], planted, rtol=1e-5)


@pursuits
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("dtype", "left"), [(np.float64, 1e-4), (np.float32, 0.1)])
def test_atoms_that_are_equal_in_the_kept_features_are_not_chosen_twice_however_little_is_kept(
    is_off_support_norm, seed, dtype, left
):
    # What the Gram matrix of the kept features has in rounding errors is measured by the whole atoms.
    rng = np.random.default_rng(seed)
    atoms, X = rng.standard_normal((6, 12)), rng.standard_normal((1, 12))
    is_kept = np.arange(12)[None] < 4
    atoms[:, :4] *= left
    atoms[3:, :4] = atoms[:3, :4]
    problem = (array.astype(dtype) for array in leave_out(atoms, X, is_kept))
    codes = run_kernel(*problem, 6, is_off_support_norm=is_off_support_norm)
    assert np.count_nonzero(codes.values) <= 3


@pursuits
@pytest.mark.parametrize("n_directions", [0, 2])
def test_no_rows_give_no_codes(is_off_support_norm, n_directions):
    problem = draw_row_problems(0, 5, 4, 2, seed=0)
    codes = run_kernel(*problem, 3, is_off_support_norm=is_off_support_norm, directions=np.empty((0, n_directions, 5)))
    assert codes.values.shape == (0, 3)
