"""The pursuit of atoms and wrong features together against its slow twin, what it recovers, and what it never does."""

from __future__ import annotations

import numpy as np
import pytest
import reference
from conftest import normalise
from hypothesis import given
from hypothesis import strategies as st

from ddlearn import OMP, sparse_encode
from ddlearn.kernels.errors import pursue_with_errors
from ddlearn.model.codes import RowCodes

both_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])
seeds = st.integers(0, 10_000)


def run_kernel(dictionary, samples, n_nonzero_coefs, n_errors, *, threshold=1e-9, is_known=None):
    """Return dense codes and the features that are kept."""
    dtype = samples.dtype
    norms = np.linalg.norm(dictionary, axis=1)
    inverse_norms = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    is_kept = np.ones(samples.shape, bool) if is_known is None else is_known.copy()
    codes = RowCodes.empty(len(samples), n_nonzero_coefs, dtype)
    codes.values[:] = np.nan  # what was there before must not matter
    budgets = np.broadcast_to(n_errors, len(samples)).astype(np.int64)
    thresholds = np.broadcast_to(threshold, len(samples)).astype(dtype)
    floors = map(dtype.type, (100 * np.finfo(dtype).eps, {8: 1e-10, 4: 1e-5}[dtype.itemsize]))
    atoms_by_feature = np.ascontiguousarray(dictionary.T)
    pursue_with_errors(atoms_by_feature, inverse_norms, samples, budgets, thresholds, *floors, is_kept, *codes)
    return codes.sort().to_csr(len(dictionary)).toarray(), is_kept


def residuals(dictionary, samples, x, is_kept):
    return np.where(is_kept, samples - x @ dictionary, 0)


@given(n_atoms=st.integers(1, 30), n_features=st.integers(6, 20), size=st.sampled_from([0, 3, 10]), seed=seeds)
def test_equals_the_slow_twin(n_atoms, n_features, size, seed):
    # Fewer atoms and errors than features, so that the residual does not vanish.
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal((n_atoms, n_features)) * rng.uniform(0.1, 10, (n_atoms, 1))
    samples = rng.standard_normal((3, n_features)) + size * (rng.random((3, n_features)) < 0.2)
    is_known = rng.random((3, n_features)) < 0.9
    is_known[:, :5] = True
    n_nonzero_coefs, n_errors = int(rng.integers(1, min(n_atoms, 2) + 1)), rng.integers(0, 3, 3)
    thresholds = rng.choice([0.0, 0.5, 2.0], 3)
    x, is_kept = run_kernel(dictionary, samples, n_nonzero_coefs, n_errors, threshold=thresholds, is_known=is_known)
    for row in range(3):
        code, wrong = reference.pursue_with_errors(
            samples[row], dictionary, n_nonzero_coefs, n_errors[row], thresholds[row], is_known[row]
        )
        np.testing.assert_array_equal(np.flatnonzero(is_known[row] & ~is_kept[row]), np.sort(wrong))
        np.testing.assert_allclose(x[row], code, rtol=1e-6, atol=1e-6 * np.abs(code).max())


@given(n_atoms=st.integers(1, 40), n_features=st.integers(2, 20), seed=seeds, data=st.data())
def test_without_a_budget_for_errors_it_is_orthogonal_matching_pursuit(n_atoms, n_features, seed, data):
    rng = np.random.default_rng(seed)
    dictionary = normalise(rng.standard_normal((n_atoms, n_features)))
    samples = rng.standard_normal((3, n_features))
    n_nonzero_coefs = data.draw(st.integers(1, min(n_atoms, n_features - 1)))
    x, is_kept = run_kernel(dictionary, samples, n_nonzero_coefs, 0)
    expected = sparse_encode(samples, dictionary, n_nonzero_coefs=n_nonzero_coefs, method=OMP(n_swaps=0)).toarray()
    assert is_kept.all()
    np.testing.assert_allclose(x, expected, rtol=1e-6, atol=1e-6 * np.abs(expected).max())


@both_dtypes
@pytest.mark.parametrize("n_errors", [10, 25])
def test_sparse_codes_and_large_sparse_errors_are_recovered(dtype, n_errors):
    rng = np.random.default_rng(0)
    n_samples, n_features, n_atoms = 30, 200, 80
    dictionary = normalise(rng.standard_normal((n_atoms, n_features)))
    expected, errors = np.zeros((n_samples, n_atoms)), np.zeros((n_samples, n_features))
    for code, error in zip(expected, errors, strict=True):
        code[rng.choice(n_atoms, 3, replace=False)] = rng.uniform(2, 3, 3) * rng.choice([-1, 1], 3)
        error[rng.choice(n_features, 10, replace=False)] = rng.uniform(5, 10, 10) * rng.choice([-1, 1], 10)
    samples = expected @ dictionary + errors
    accuracy = 1e-10 if dtype == np.float64 else 1e-4
    x, is_kept = run_kernel(dictionary.astype(dtype), samples.astype(dtype), 6, n_errors, threshold=accuracy)
    np.testing.assert_array_equal(is_kept, errors == 0)
    np.testing.assert_array_equal(x != 0, expected != 0)  # budgets are not used up
    np.testing.assert_allclose(x, expected, atol=accuracy)


@given(n_features=st.integers(1, 15), n_errors=st.integers(0, 20), seed=seeds)
def test_features_that_are_not_known_are_neither_used_nor_counted(n_features, n_errors, seed):
    rng = np.random.default_rng(seed)
    dictionary, samples = rng.standard_normal((12, n_features)), 3 * rng.standard_normal((4, n_features))
    is_known = rng.random((4, n_features)) < 0.6
    x, is_kept = run_kernel(dictionary, samples, 3, n_errors, is_known=is_known)
    samples[~is_known] = np.nan
    other_x, other_kept = run_kernel(dictionary, samples, 3, n_errors, is_known=is_known)
    np.testing.assert_array_equal(other_x, x)
    np.testing.assert_array_equal(other_kept, is_kept)
    assert not (is_kept & ~is_known).any()
    assert ((is_known & ~is_kept).sum(axis=1) <= n_errors).all()


@both_dtypes
@given(
    n_atoms=st.integers(1, 12),
    n_features=st.integers(1, 8),
    n_nonzero_coefs=st.integers(1, 6),
    n_errors=st.integers(0, 9),
    threshold=st.sampled_from([0.0, 1e-6, 0.5]),
    seed=seeds,
)
def test_degenerate_problems_give_finite_codes_that_are_optimal_on_the_features_kept(
    dtype, n_atoms, n_features, n_nonzero_coefs, n_errors, threshold, seed
):
    # Multiples of 0.1: atoms that are zero, equal, dependent, or that live in few features; ties; a zero sample.
    rng = np.random.default_rng(seed)
    dictionary = 0.1 * rng.integers(-2, 3, (n_atoms, n_features)) * rng.integers(0, 2, (n_atoms, n_features))
    samples = 0.1 * rng.integers(-30, 31, (6, n_features))
    dictionary, samples = dictionary.astype(dtype), samples.astype(dtype)
    samples[0] = 0
    x, is_kept = run_kernel(dictionary, samples, n_nonzero_coefs, n_errors, threshold=threshold)
    assert np.isfinite(x).all()
    assert (np.count_nonzero(x, axis=1) <= n_nonzero_coefs).all()
    assert not x[:, ~dictionary.any(axis=1)].any()
    assert not x[0].any()
    assert is_kept[0].all()
    gradient = residuals(dictionary, samples, x, is_kept) @ dictionary.T
    np.testing.assert_allclose(gradient[x != 0], 0, atol=1e-8 if dtype == np.float64 else 1e-2)


def test_an_atom_that_loses_all_its_features_to_errors_is_given_up():
    rng, n_lost = np.random.default_rng(0), 0
    for _ in range(40):
        dictionary = np.append(normalise(rng.standard_normal((1, 2))), [[0.0]], axis=1)
        samples = rng.uniform(1, 5, (50, 1)) * dictionary * [1.1, 1, 1]
        x, is_kept = run_kernel(dictionary, samples, 1, 3, threshold=0.0)  # rounding errors count as errors too
        is_lost = ~is_kept[:, :2].any(axis=1)
        assert not x[is_lost].any()
        n_lost += is_lost.sum()
    assert n_lost > 0


@given(n_errors=st.integers(1, 12), seed=seeds)
def test_no_residual_above_the_threshold_is_left_unless_the_budget_is_spent(n_errors, seed):
    rng = np.random.default_rng(seed)
    dictionary, samples = rng.standard_normal((20, 15)), rng.standard_normal((8, 15))
    thresholds = rng.uniform(0.2, 1.5, 8)
    x, is_kept = run_kernel(dictionary, samples, 3, n_errors, threshold=thresholds)
    left = np.abs(residuals(dictionary, samples, x, is_kept)).max(axis=1)
    assert ((left <= thresholds) | ((~is_kept).sum(axis=1) == n_errors)).all()


def test_no_feature_below_the_threshold_is_ever_called_wrong():
    rng = np.random.default_rng(0)
    dictionary, samples = normalise(rng.standard_normal((20, 15))), rng.standard_normal((8, 15))
    x, is_kept = run_kernel(dictionary, samples, 3, 15, threshold=np.inf)
    assert is_kept.all()
    np.testing.assert_array_equal(x, run_kernel(dictionary, samples, 3, 0)[0])
    assert not run_kernel(dictionary, samples, 3, 15, threshold=0.01)[1].all()


def test_an_atom_that_is_nearly_another_is_passed_over_for_the_next():
    dictionary = np.array([[1, 0, 0], [1, 1e-7, 0], [0, 0, 1]])
    x, is_kept = run_kernel(dictionary, np.array([[2, 1, 1e-9]]), 3, 3, threshold=np.inf)
    np.testing.assert_allclose(x, [[0, 2 + 1e-7, 1e-9]], rtol=1e-6)
    assert is_kept.all()


def test_of_an_atom_and_a_feature_that_are_equally_correlated_the_atom_is_chosen():
    dictionary, sample = np.array([[1.0, 0.0, 0.0]]), np.array([[2.0, 1.0, 0.0]])
    x, is_kept = run_kernel(dictionary, sample, 1, 1)
    np.testing.assert_array_equal(x, [[2]])
    np.testing.assert_array_equal(is_kept, [[True, False, True]])
