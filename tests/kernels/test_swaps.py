"""The replacement kernel against exhaustive search, and its promises on degenerate problems."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from conftest import draw_row_problems, leave_out, row_problem
from hypothesis import example, given
from hypothesis import strategies as st
from reference import minimum_on

from ddlearn.coding.coders import PIVOT_FLOOR
from ddlearn.kernels.swaps import make_replacement_workspace, replace_rows
from ddlearn.model.codes import RowCodes

both_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])
SHAPES = [(6, 12, 8, 0, 3), (5, 20, 7, 3, 4), (4, 40, 10, 9, 2), (4, 5, 6, 2, 5), (6, 15, 4, 2, 1)]  # the last is T
many = 1000


def choose(n_rows, n_atoms, budget, seed, dtype=np.float64, n_used=None):
    """Return codes with random supports, of T atoms or of any number up to that."""
    rng = np.random.default_rng([seed, 1])
    codes = RowCodes.empty(n_rows, budget, dtype)
    for row in range(n_rows):
        n = budget if n_used is None else n_used[row]
        codes.indices[row, :n] = np.sort(rng.choice(n_atoms, n, replace=False))
        codes.values[row, :n] = 1
    return codes


def supports(codes):
    return [set(row[used].tolist()) for row, used in zip(codes.indices, codes.values != 0, strict=True)]


def run(problem, codes, n_swaps=many, smallest_gain=1e-9, *, sources=None, n_kicks=0, may_grow=False):
    """Return improved copies of codes, and the number of swaps."""
    codes = RowCodes(codes.indices.copy(), codes.values.copy())
    (n_rows, budget), dtype, coef = codes.values.shape, codes.values.dtype, problem[2]
    sources, n_taken = np.arange(n_rows) if sources is None else sources, np.empty(n_rows, np.int32)
    limits = np.full(n_rows, smallest_gain, dtype), dtype.type(PIVOT_FLOOR[dtype]), n_swaps, n_kicks, may_grow
    workspace = make_replacement_workspace(budget, coef.shape[1], len(coef), dtype)
    replace_rows(*problem, sources, *limits, workspace, *codes, n_taken)
    return codes, n_taken


@pytest.mark.parametrize("may_grow", [False, True])
@pytest.mark.parametrize(("n_swaps", "n_kicks"), [(1, 0), (2, 0), (many, 0), (1, 3), (many, 1), (many, 3)])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_equals_exhaustive_search(shape, n_swaps, n_kicks, may_grow):
    (n_rows, n_atoms, *_, budget), problem = shape, draw_row_problems(*shape[:4], n_swaps)
    n_used = 1 + np.arange(n_rows) % budget if may_grow else None
    start = choose(n_rows, n_atoms, budget, n_swaps, n_used=n_used)
    how = {"n_kicks": n_kicks, "may_grow": may_grow}
    codes, n_taken = run(problem, start, n_swaps, **how)
    x = codes.to_csr(n_atoms).toarray()
    for row, support in enumerate(supports(start)):
        Q, c = row_problem(*problem, row)
        expected, n = reference.replace_atoms(Q, c, support, budget, 1e-9, n_swaps, **how)
        np.testing.assert_allclose(x[row], expected, rtol=1e-6, atol=1e-8 * np.abs(expected).max())
        assert n_taken[row] == n


@pytest.mark.parametrize("seed", range(5))
def test_weights_of_minus_one_leave_features_out_as_in_exhaustive_search(seed):
    rng = np.random.default_rng(seed)
    atoms, X = rng.standard_normal((20, 9)), rng.standard_normal((5, 9))
    is_kept = rng.random((5, 9)) < 0.7
    is_kept[:, :5] = True
    start = choose(5, 20, 3, seed)
    codes, n_taken = run(leave_out(atoms, X, is_kept), start)
    x = codes.to_csr(20).toarray()
    for row, kept in enumerate(is_kept):
        reduced = atoms[:, kept]
        Q, c, norms = reduced @ reduced.T, reduced @ X[row, kept], np.sum(atoms**2, axis=1)
        expected, n = reference.replace_atoms(Q, c, supports(start)[row], 3, 1e-9, many, norms=norms)
        np.testing.assert_allclose(x[row], expected, rtol=1e-6, atol=1e-8)
        assert n_taken[row] == n


@both_dtypes
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("may_grow", [False, True])
def test_the_code_is_the_minimum_on_its_support_and_no_swap_improves_it(shape, dtype, may_grow):
    n_rows, n_atoms, *_, budget = shape
    problem = draw_row_problems(*shape[:4], seed=7, dtype=dtype)
    start = choose(n_rows, n_atoms, budget, 7, dtype)
    gain = {np.float64: 1e-8, np.float32: 1e-2}[dtype]
    codes, n_taken = run(problem, start, smallest_gain=gain, may_grow=may_grow)
    assert (n_taken < many).all()
    assert codes.values.dtype == dtype
    for row, (x, support) in enumerate(zip(codes.to_csr(n_atoms).toarray(), supports(codes), strict=True)):
        Q, c = (array.astype(np.float64) for array in row_problem(*problem, row))
        expected, here = minimum_on(Q, c, support)
        np.testing.assert_allclose(x, expected, atol=(1e-9 if dtype == np.float64 else 1e-3) * np.abs(expected).max())
        free = set(range(n_atoms)) - support
        swaps = [minimum_on(Q, c, support - {out} | {k})[1] for k in free for out in support]
        assert here - min(swaps, default=here) <= 2 * gain


@pytest.mark.parametrize("may_grow", [False, True])
def test_many_swaps_are_single_swaps_one_after_the_other(may_grow):
    problem, codes = draw_row_problems(20, 40, 10, 3, seed=0), choose(20, 40, 4, 0, n_used=1 + np.arange(20) % 4)
    expected, n_expected = run(problem, codes, may_grow=may_grow)
    n_taken = np.zeros(20, int)
    for _ in range(n_expected.max()):
        codes, n = run(problem, codes, 1, may_grow=may_grow)
        n_taken += n
    np.testing.assert_array_equal(codes.indices, expected.indices)
    np.testing.assert_allclose(codes.values, expected.values, rtol=1e-7)
    np.testing.assert_array_equal(n_taken, n_expected)
    assert n_taken.max() > 3


def test_kicks_only_lower_the_minimum_and_more_of_them_lower_it_more():
    problem, start = draw_row_problems(100, 60, 12, 3, seed=2), choose(100, 60, 5, 2)
    x = [run(problem, start, n_kicks=n)[0].to_csr(60).toarray() for n in (0, 1, 5)]
    minima = np.array([[-row_problem(*problem, row)[1] @ codes[row] for row in range(100)] for codes in x])
    assert (minima[1:] <= minima[0] + 1e-9).all()
    assert (minima[1] < minima[0] - 1e-6).sum() > 10
    assert minima[2].mean() < minima[1].mean() < minima[0].mean()


@pytest.mark.parametrize("may_grow", [False, True])
def test_rows_of_one_sample_read_the_same_correlations(may_grow):
    gram, correlations, coef, weight, pull = draw_row_problems(10, 20, 8, 3, seed=1)
    sources, codes = np.arange(10) // 3, choose(10, 20, 3, 1)
    found, n_taken = run((gram, correlations[:4], coef, weight, pull), codes, sources=sources, may_grow=may_grow)
    repeated = np.ascontiguousarray(correlations[sources])
    expected, n_expected = run((gram, repeated, coef, weight, pull), codes, may_grow=may_grow)
    np.testing.assert_array_equal(found.indices, expected.indices)
    np.testing.assert_array_equal(found.values, expected.values)
    np.testing.assert_array_equal(n_taken, n_expected)


def test_without_an_atom_nothing_is_swapped_but_one_may_enter():
    problem, nothing = draw_row_problems(8, 20, 8, 2, seed=0), RowCodes.empty(8, 3, np.float64)
    codes, n_taken = run(problem, nothing)
    assert not n_taken.any()
    assert not codes.values.any()
    codes, n_taken = run(problem, nothing, 1, may_grow=True)
    x = codes.to_csr(20).toarray()
    for row in range(8):
        Q, c = row_problem(*problem, row)
        best = np.argmax(c**2 / np.diag(Q))
        assert set(np.flatnonzero(x[row])) == {best}
        assert x[row, best] == pytest.approx(c[best] / Q[best, best])
    assert (n_taken == 1).all()


def test_with_all_atoms_in_use_there_is_nothing_to_swap():
    problem = draw_row_problems(4, 6, 9, 2, seed=0)
    codes, n_taken = run(problem, choose(4, 6, 6, 0))
    assert not n_taken.any()
    for row, x in enumerate(codes.to_csr(6).toarray()):
        np.testing.assert_allclose(x, np.linalg.solve(*row_problem(*problem, row)), rtol=1e-8)


@both_dtypes
@pytest.mark.parametrize(("n_kicks", "may_grow"), [(0, False), (0, True), (3, True)])
@given(n_atoms=st.integers(4, 20), n_features=st.integers(1, 6), n_classes=st.integers(0, 2), seed=st.integers(0, 9999))
@example(n_atoms=4, n_features=1, n_classes=1, seed=1930)  # classes that outweigh the atoms
@example(n_atoms=20, n_features=1, n_classes=2, seed=7564)  # nearly dependent atoms at the start
def test_degenerate_dictionaries_give_finite_codes_that_are_no_worse(
    dtype, n_kicks, may_grow, n_atoms, n_features, n_classes, seed
):
    # More atoms than features, duplicates up to sign and scale, zero atoms, and a zero sample.
    rng = np.random.default_rng(seed)
    atoms, X = rng.standard_normal((n_atoms, n_features)), rng.standard_normal((5, n_features))
    atoms[1], atoms[n_atoms // 2], atoms[n_atoms - 1] = atoms[0], -2 * atoms[0], 0
    X[0] = 0
    coef, pull = rng.standard_normal((n_classes, n_atoms)), rng.standard_normal((5, n_classes))
    weight = rng.uniform(0, 2, (5, n_classes))
    coef[:, [1, n_atoms - 1]] = coef[:, [0, 0]] * [1, 0]
    coef[:, n_atoms // 2] = -2 * coef[:, 0]
    problem = [array.astype(dtype) for array in (atoms @ atoms.T, X @ atoms.T, coef, weight, pull)]
    start = choose(5, n_atoms, 3, seed, dtype)
    how = {"n_kicks": n_kicks, "may_grow": may_grow}
    codes, _ = run(problem, start, smallest_gain=1e-9 if dtype == np.float64 else 1e-3, **how)
    x = codes.to_csr(n_atoms).toarray().astype(np.float64)
    assert np.isfinite(x).all()
    equal = [0, 1, n_atoms // 2]
    assert not x[:, n_atoms - 1].any()
    assert (np.count_nonzero(x[:, equal], axis=1) <= 1).all()
    for row in range(5):
        Q, c = (array.astype(np.float64) for array in row_problem(*problem, row))
        support = sorted(supports(start)[row])
        before = -c[support] @ np.linalg.lstsq(Q[np.ix_(support, support)], c[support])[0]
        slack = (1e-7 if dtype == np.float64 else 1e-2) * (1 + np.abs(c).max() ** 2)
        spectrum = np.linalg.eigvalsh(Q[np.ix_(support, support)])
        is_nearly_dependent = ((spectrum > 1e-12 * spectrum[-1]) & (spectrum < 1e-2 * spectrum[-1])).any()
        if dtype == np.float64 or not is_nearly_dependent:  # float32 takes such atoms for dependent ones
            assert x[row] @ Q @ x[row] - 2 * c @ x[row] <= before + slack


@both_dtypes
def test_layout_is_ascending_and_unused_places_are_zero(dtype):
    problem, start = (
        draw_row_problems(20, 30, 9, 2, seed=1, dtype=dtype),
        choose(20, 30, 5, 1, dtype, 1 + np.arange(20) % 5),
    )
    for may_grow in (False, True):
        codes, _ = run(problem, start, 3, may_grow=may_grow)
        used = codes.values != 0
        assert not codes.indices[~used].any()
        assert all((np.diff(row[row_used]) > 0).all() for row, row_used in zip(codes.indices, used, strict=True))


def test_no_rows_give_no_codes():
    codes, n_taken = run(draw_row_problems(0, 5, 4, 2, seed=0), RowCodes.empty(0, 3, np.float64))
    assert codes.values.shape == (0, 3)
    assert n_taken.shape == (0,)
