"""The kernels of refinement against NumPy: unused places, atoms that others span, both precisions."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import normalise
from hypothesis import assume, given
from hypothesis import strategies as st

from ddlearn.kernels.backward import (
    add_gradient_rows,
    add_outer_rows,
    combine_atoms,
    differentiate_scores_rows,
    normalise_rows,
    solve_support_rows,
    step_rows,
)
from ddlearn.model.codes import RowCodes

TOLERANCE = {np.float64: 1e-9, np.float32: 1e-3}
both_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])
seeds = st.integers(0, 10_000)


def draw_codes(rng, n_rows, n_components, n_places, dtype):
    """Return codes with atoms in order, and from none to all places used."""
    codes = RowCodes.empty(n_rows, n_places, dtype)
    for indices, values in zip(*codes, strict=True):
        n_used = rng.integers(n_places + 1)
        indices[:n_used] = np.sort(rng.choice(n_components, n_used, replace=False))
        values[:n_used] = rng.choice([-1, 1], n_used) * (0.1 + rng.random(n_used))
    return codes


def draw_sizes(rng):
    n_components = int(rng.integers(1, 9))
    return int(rng.integers(0, 5)), n_components, int(rng.integers(1, n_components + 1)), int(rng.integers(1, 7))


def draw_many_atoms(n_components, rng):
    """Return more atoms than features, which a ridge keeps apart."""
    return normalise(rng.standard_normal((n_components, 2)))


def draw_near_orthogonal(n_components, rng):
    return normalise(np.eye(n_components) + 0.2 * rng.standard_normal((n_components, n_components)))


@both_dtypes
@pytest.mark.parametrize(
    ("draw", "ridge"), [(draw_near_orthogonal, 0.0), (draw_near_orthogonal, 0.3), (draw_many_atoms, 0.3)]
)
@given(seed=seeds)
def test_a_system_is_solved_on_each_support(seed, draw, ridge, dtype):
    rng = np.random.default_rng(seed)
    n_rows, n_components, n_places, _ = draw_sizes(rng)
    atoms = draw(n_components, rng).astype(dtype)
    gram = atoms @ atoms.T
    codes = draw_codes(rng, n_rows, n_components, n_places, dtype)
    right_side = rng.standard_normal((n_rows, n_places)).astype(dtype)
    solution = np.full_like(right_side, np.nan)
    workspace = np.full((n_places, n_places), np.nan, dtype), np.empty(n_places, dtype)
    solve_support_rows(gram, atoms, dtype(ridge), dtype(1e-6), *codes, right_side, *workspace, solution)
    for i in range(n_rows):
        n_used = np.count_nonzero(codes.values[i])
        support = codes.indices[i, :n_used]
        expected = np.linalg.solve(gram[np.ix_(support, support)] + ridge * np.eye(n_used), right_side[i, :n_used])
        np.testing.assert_allclose(solution[i, :n_used], expected, rtol=0, atol=10 * TOLERANCE[dtype])
        assert (solution[i, n_used:] == 0).all()


@both_dtypes
@given(seed=seeds)
def test_an_atom_that_the_ones_before_it_span_gets_nothing_and_takes_nothing(seed, dtype):
    rng = np.random.default_rng(seed)
    atoms = normalise(rng.standard_normal((3, 4)))
    # The third is the first, the fourth lies between the first two.
    atoms = np.stack([atoms[0], atoms[1], atoms[0], normalise(atoms[:1] + atoms[1:2])[0], atoms[2]])
    gram = (atoms @ atoms.T).astype(dtype)
    codes = RowCodes(np.arange(5, dtype=np.int32)[None], np.ones((1, 5), dtype))
    right_side = rng.standard_normal((1, 5)).astype(dtype)
    solution = np.full_like(right_side, np.nan)
    workspace = np.empty((5, 5), dtype), np.empty(5, dtype)
    solve_support_rows(gram, atoms.astype(dtype), dtype(0), dtype(1e-4), *codes, right_side, *workspace, solution)
    independent = [0, 1, 4]
    subgram = gram[np.ix_(independent, independent)]
    assume(np.linalg.eigvalsh(subgram)[0] > 1e-3)  # otherwise the last is spanned by the others, to the tolerance
    expected = np.zeros(5)
    expected[independent] = np.linalg.solve(subgram, right_side[0, independent])
    scale = np.linalg.cond(subgram) * np.abs(expected).max()
    np.testing.assert_allclose(solution[0], expected, rtol=0, atol=TOLERANCE[dtype] * scale)


@both_dtypes
@given(seed=seeds)
def test_scores_are_differentiated_by_the_entries_of_codes(seed, dtype):
    rng = np.random.default_rng(seed)
    n_rows, n_components, n_places, n_classes = draw_sizes(rng)
    codes = draw_codes(rng, n_rows, n_components, n_places, dtype)
    coef_by_atom = rng.standard_normal((n_components, n_classes)).astype(dtype)
    score_gradient = rng.standard_normal((n_rows, n_classes)).astype(dtype)
    code_gradient = np.full((n_rows, n_places), np.nan, dtype)  # what was there does not matter
    differentiate_scores_rows(*codes, coef_by_atom, score_gradient, code_gradient)
    dense = np.take_along_axis(score_gradient @ coef_by_atom.T, codes.indices.astype(np.intp), axis=1)
    np.testing.assert_allclose(code_gradient, np.where(codes.values != 0, dense, 0), rtol=0, atol=TOLERANCE[dtype])


@both_dtypes
@given(seed=seeds)
def test_atoms_are_combined_and_added_to(seed, dtype):
    rng = np.random.default_rng(seed)
    n_rows, n_components, n_places, n_features = draw_sizes(rng)
    codes = draw_codes(rng, n_rows, n_components, n_places, dtype)
    factors = rng.standard_normal((n_rows, n_places)).astype(dtype)  # also where no atom is used
    dense = np.zeros((n_rows, n_components))
    np.add.at(dense, (np.arange(n_rows)[:, None], codes.indices), np.where(codes.values != 0, factors, 0))
    atoms = rng.standard_normal((n_components, n_features)).astype(dtype)
    before = rng.standard_normal((n_rows, n_features)).astype(dtype)
    out = before.copy()
    combine_atoms(*codes, factors, atoms, out)
    np.testing.assert_allclose(out, before + dense @ atoms, rtol=0, atol=TOLERANCE[dtype])
    # And the other way round.
    gradient = atoms.copy()
    images = rng.standard_normal((n_rows, n_features)).astype(dtype)
    add_gradient_rows(*codes, factors, before, images, gradient)
    code = codes.to_csr(n_components).toarray()
    expected = atoms + dense.T @ before - code.T @ images
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=TOLERANCE[dtype])
    whole = atoms.copy()
    add_outer_rows(*codes, before, whole)
    np.testing.assert_allclose(whole, atoms + code.T @ before, rtol=0, atol=TOLERANCE[dtype])


@both_dtypes
@given(seed=seeds)
def test_a_step_is_adams(seed, dtype):
    rng = np.random.default_rng(seed)
    slope, mean, values = rng.standard_normal((3, 4, 5)).astype(dtype)
    square = rng.random((4, 5)).astype(dtype)
    new_mean, new_square = 0.9 * mean + 0.1 * slope, 0.99 * square + 0.01 * slope**2
    expected = values - 0.3 * (2.0 * new_mean) / (np.sqrt(3.0 * new_square) + 1e-4)
    step_rows(slope, mean, square, *map(dtype, (0.9, 0.99, 2.0, 3.0, 0.3, 1e-4)), values)
    for found, wanted in ((mean, new_mean), (square, new_square), (values, expected)):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, wanted, rtol=0, atol=TOLERANCE[dtype])


@both_dtypes
def test_rows_are_scaled_to_unit_norm(dtype):
    rows = np.random.default_rng(0).standard_normal((5, 7)).astype(dtype)
    expected = normalise(rows)
    normalise_rows(rows)
    np.testing.assert_allclose(rows, expected, rtol=10 * np.finfo(dtype).eps)
