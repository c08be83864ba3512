"""Coding with features left out and with tangents, against the explicit problems that it never forms."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import both_dtypes, normalise
from hypothesis import given
from hypothesis import strategies as st
from reference import pursue

from ddlearn import OMP, ORMP, ElasticNet
from ddlearn.coding.encoder import Encoder
from ddlearn.coding.masked import MaskedCoder, Tangents, combine
from ddlearn.parallel import TILE_ROWS

both_coders = pytest.mark.parametrize("coder", [OMP(), ORMP()], ids=repr)
seeds = st.integers(0, 10_000)


def draw(n_rows=8, n_atoms=30, n_features=20, share=0.6, seed=0):
    """Return a dictionary, samples, and flags of the features kept: all of the first row, some of the others."""
    rng = np.random.default_rng(seed)
    dictionary, samples = rng.standard_normal((n_atoms, n_features)), rng.standard_normal((n_rows, n_features))
    is_kept = rng.random((n_rows, n_features)) < share
    is_kept[0], is_kept[:, :6] = True, True
    return normalise(dictionary), samples, is_kept


def draw_tangents(n_rows, n_parameters, n_features, damping, seed=0):
    rng = np.random.default_rng([seed, 1])  # other numbers than those of the dictionary
    return Tangents(
        derivatives=rng.standard_normal((n_rows, n_parameters, n_features)),
        damping=damping * rng.uniform(1, 2, n_rows),
        position=rng.standard_normal((n_rows, n_parameters)),
    )


def make_coder(dictionary, coder, n_nonzero_coefs):
    return MaskedCoder(Encoder.of(dictionary, coder, n_nonzero_coefs))


def stack(dictionary, sample, kept, tangents, row):
    """Return M and b such that the problem of masked.py is to minimise ||M (x, delta) - b||^2, one row."""
    J, damping, position = (array[row] for array in tangents)
    n_parameters = len(J)
    root = np.sqrt(damping)
    M = np.block(
        [
            [dictionary[:, kept].T, -J[:, kept].T],
            [np.zeros((n_parameters, len(dictionary))), root * np.eye(n_parameters)],
        ]
    )
    return M, np.concatenate([sample[kept], -root * position])


def dense(codes, n_atoms):
    return codes.to_csr(n_atoms).toarray()


@pytest.mark.parametrize(
    ("coder", "accuracy"), [(OMP(), 1e-8), (ORMP(), 1e-8), (ElasticNet(0.15, tol=1e-12), 1e-5)], ids=repr
)
@given(n_atoms=st.integers(5, 60), n_features=st.integers(7, 25), share=st.floats(0, 1), seed=seeds)
def test_leaving_features_out_is_coding_without_them(coder, accuracy, n_atoms, n_features, share, seed):
    dictionary, samples, is_kept = draw(4, n_atoms, n_features, share, seed)
    fit = make_coder(dictionary, coder, 4).solve(samples, is_kept)
    x = dense(fit.codes, n_atoms)
    for row, kept in enumerate(is_kept):
        reduced = np.ascontiguousarray(dictionary[:, kept])
        expected = dense(Encoder.of(reduced, coder, 4).encode(np.ascontiguousarray(samples[[row]][:, kept])), n_atoms)
        np.testing.assert_allclose(x[[row]], expected, rtol=accuracy, atol=accuracy)
    np.testing.assert_allclose(fit.residuals, samples - x @ dictionary, atol=1e-12)
    assert fit.moves.shape == (4, 0)


@both_coders
@both_dtypes
def test_with_all_features_it_is_sparse_coding_to_the_last_bit(coder, dtype):
    dictionary, samples, _ = (array.astype(dtype) for array in draw(n_rows=TILE_ROWS + 33))
    masked, everything = make_coder(dictionary, coder, 5), np.ones(samples.shape, bool)
    expected = Encoder.of(dictionary, coder, 5).encode(samples)
    for codes in (masked.solve(samples, everything).codes, masked.encoder.encode(samples, everything)):
        np.testing.assert_array_equal(codes.indices, expected.indices)
        np.testing.assert_array_equal(codes.values, expected.values)
    fewer = masked.solve(samples, everything, n_nonzero_coefs=2).codes
    np.testing.assert_array_equal(fewer.values, Encoder.of(dictionary, coder, 2).encode(samples).values)


@both_coders
@pytest.mark.parametrize("moves", [False, True])
@given(seed=seeds)
def test_values_of_features_left_out_make_no_difference_at_all(coder, moves, seed):
    dictionary, samples, is_kept = draw(seed=seed)
    tangents = draw_tangents(8, 3, 20, 0.5, seed) if moves else None
    masked = make_coder(dictionary, coder, 4)
    fit = masked.solve(samples, is_kept, tangents)
    other = np.where(is_kept, samples, 1e3 * np.random.default_rng(seed).standard_normal(samples.shape))
    if tangents is not None:
        tangents = tangents._replace(derivatives=np.where(is_kept[:, None], tangents.derivatives, -7.0))
    other_fit = masked.solve(other, is_kept, tangents)
    np.testing.assert_array_equal(other_fit.codes.indices, fit.codes.indices)
    np.testing.assert_array_equal(other_fit.codes.values, fit.codes.values)
    np.testing.assert_array_equal(other_fit.moves, fit.moves)
    np.testing.assert_array_equal(other_fit.residuals[is_kept], fit.residuals[is_kept])


@both_coders
@given(
    n_features=st.integers(12, 25),
    n_parameters=st.integers(1, 6),
    damping=st.sampled_from([1e-3, 1.0, 1e9]),
    share=st.floats(0.5, 1),
    seed=seeds,
)
def test_code_and_move_are_optimal_on_the_support_of_the_twin(coder, n_features, n_parameters, damping, share, seed):
    dictionary, samples, is_kept = draw(3, 30, n_features, share, seed)
    is_kept[:, :12] = True
    tangents = draw_tangents(3, n_parameters, n_features, damping, seed)
    fit = make_coder(dictionary, coder, 4).solve(samples, is_kept, tangents)
    x = dense(fit.codes, 30)
    for row, kept in enumerate(is_kept):
        M, b = stack(dictionary, samples[row], kept, tangents, row)
        basis, _ = np.linalg.qr(M[:, 30:])
        left = M[:, :30] - basis @ (basis.T @ M[:, :30])  # what no move can imitate
        twin = pursue(left.T @ left, left.T @ b, 4, is_off_support_norm=coder.uses_residual_norm)
        support = np.flatnonzero(twin)
        columns = [*support, *range(30, 30 + n_parameters)]
        solution = np.linalg.lstsq(M[:, columns], b, rcond=None)[0]
        np.testing.assert_array_equal(np.flatnonzero(x[row]), support)
        np.testing.assert_allclose(np.append(x[row, support], fit.moves[row]), solution, rtol=1e-7, atol=1e-7)
    expected = samples + combine(fit.moves, tangents.derivatives) - x @ dictionary
    np.testing.assert_allclose(fit.residuals, expected, atol=1e-10)


@both_coders
def test_a_sample_that_has_moved_off_the_dictionary_along_its_tangents_is_brought_back(coder):
    dictionary, _, is_kept = draw(n_features=100)
    tangents = draw_tangents(8, 2, 100, 1e-12)
    planted = np.zeros((8, 30))
    planted[:, [3, 11, 27]] = [2.0, -3.0, 2.5]
    samples = planted @ dictionary - combine(tangents.position, tangents.derivatives)
    fit = make_coder(dictionary, coder, 3).solve(np.where(is_kept, samples, 99.0), is_kept, tangents)
    np.testing.assert_allclose(dense(fit.codes, 30), planted, atol=1e-8)
    np.testing.assert_allclose(fit.moves, tangents.position, atol=1e-8)
    np.testing.assert_allclose(fit.residuals[is_kept], 0, atol=1e-8)


@both_coders
def test_an_atom_that_is_a_tangent_is_not_used_when_moves_are_free(coder):
    dictionary, samples, is_kept = draw()
    tangents = draw_tangents(8, 2, 20, 1e-13)
    tangents.derivatives[:, 0] = 3 * dictionary[:8]
    x = dense(make_coder(dictionary, coder, 5).solve(samples, is_kept, tangents).codes, 30)
    assert not np.diagonal(x).any()
    assert np.count_nonzero(x[:, :8]) > 0


@both_coders
@pytest.mark.parametrize("moves", [False, True])
def test_a_row_of_which_nothing_is_kept_gets_no_code_and_moves_back(coder, moves):
    dictionary, samples, is_kept = draw()
    is_kept[2] = False
    tangents = draw_tangents(8, 3, 20, 0.1) if moves else None
    fit = make_coder(dictionary, coder, 4).solve(samples, is_kept, tangents)
    assert not fit.codes.values[2].any()
    assert np.isfinite(fit.codes.values).all()
    if tangents is not None:
        np.testing.assert_allclose(fit.moves[2], -tangents.position[2])


@both_coders
def test_kept_features_may_be_tiny_beside_those_left_out(coder):
    dictionary, samples, is_kept = (array.astype(np.float32) for array in draw())
    is_kept = is_kept > 0
    samples[is_kept] *= np.float32(1e-17)  # their squares are at the end of the range of float32
    fit = make_coder(dictionary, coder, 4).solve(samples, is_kept)
    scaled = make_coder(dictionary, coder, 4).solve(np.where(is_kept, samples * np.float32(1e17), 0), is_kept)
    np.testing.assert_array_equal(fit.codes.indices, scaled.codes.indices)
    np.testing.assert_allclose(fit.codes.values, 1e-17 * scaled.codes.values, rtol=1e-2)
