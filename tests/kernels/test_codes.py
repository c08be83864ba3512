"""Kernels on rows of codes against dense NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ddlearn.kernels.codes import change_rows, combine_rows, keep_larger_half, order_rows, score_rows
from ddlearn.model.codes import RowCodes

shapes = given(
    n_samples=st.integers(1, 6),
    n_components=st.integers(1, 9),
    n_classes=st.integers(0, 4),
    density=st.sampled_from([0.0, 0.3, 1.0]),
    seed=st.integers(0, 999),
)


def draw_codes(n_samples, n_components, density, rng):
    shape = n_samples, n_components
    dense = rng.standard_normal(shape) * (rng.random(shape) < density)
    return dense, RowCodes.from_csr(csr_array(dense), n_components, np.float64)


@shapes
def test_score_rows(n_samples, n_components, n_classes, density, seed):
    rng = np.random.default_rng(seed)
    dense, codes = draw_codes(n_samples, n_components, density, rng)
    coef = rng.standard_normal((n_classes, n_components))
    scores = np.full((n_samples, n_classes), np.nan)
    score_rows(codes.indices, codes.values, np.ascontiguousarray(coef.T), scores)
    np.testing.assert_allclose(scores, dense @ coef.T, atol=1e-12)


@shapes
def test_change_rows(n_samples, n_components, n_classes, density, seed):
    rng = np.random.default_rng(seed)
    old_dense, old = draw_codes(n_samples, n_components, density, rng)
    new_dense, new = draw_codes(n_samples, n_components, 0.5, rng)
    change, size = np.full((2, n_samples), np.nan)
    change_rows(old.indices, old.values, new.indices, new.values, change, size)
    np.testing.assert_allclose(change, np.sum((new_dense - old_dense) ** 2, axis=1), atol=1e-12)
    np.testing.assert_allclose(size, np.sum(old_dense**2, axis=1), atol=1e-12)


@pytest.mark.parametrize(("n_places", "n_features"), [(0, 20), (2, 20), (8, 20), (8, 6)])
def test_the_kernel_that_keeps_the_larger_half_agrees_with_its_twin(n_places, n_features):
    rng = np.random.default_rng(0)
    counts = [0, 1, 2, 7, 10]
    indices, values = np.zeros((5, 10), np.int32), np.zeros((5, 10))
    for i, n_used in enumerate(counts):
        indices[i, :n_used] = np.sort(rng.choice(50, n_used, replace=False))
        values[i, :n_used] = rng.standard_normal(n_used)
    kept_indices, kept_values = np.full((5, n_places), 9, np.int32), np.full((5, n_places), 9.0)
    keep_larger_half(indices, values, n_features, kept_indices, kept_values)
    for i, n_used in enumerate(counts):
        order = np.argsort(-np.abs(values[i, :n_used]))[: min(-(-n_used // 2), n_places)]
        if n_features < n_used <= n_places:
            order = np.arange(n_used)
        assert kept_indices[i, : len(order)].tolist() == indices[i, order].tolist()
        assert kept_values[i, : len(order)].tolist() == values[i, order].tolist()
        assert not kept_indices[i, len(order) :].any()
        assert not kept_values[i, len(order) :].any()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("n_features", [1, 4, 30])
def test_a_combination_of_rows_is_a_product_that_leaves_out_zeros(n_features, dtype):
    rng = np.random.default_rng(n_features)
    vector, rows = rng.standard_normal(n_features).astype(dtype), rng.standard_normal((n_features, 7)).astype(dtype)
    vector[1::3] = 0
    rows[1::3] = np.nan  # which are not read
    out = np.full(7, np.nan, dtype)
    combine_rows(vector, rows, np.empty_like(vector), np.empty(n_features, np.int32), out)
    np.testing.assert_allclose(out, vector @ np.nan_to_num(rows), rtol=1e-5, atol=1e-6)


@shapes
def test_order_rows(n_samples, n_components, n_classes, density, seed):
    rng = np.random.default_rng(seed)
    dense, codes = draw_codes(n_samples, n_components, density, rng)
    dense[:, 0], codes.values[codes.indices == 0] = 0, 0  # an entry in use becomes zero
    order = rng.permutation(n_components)
    indices, values = (np.ascontiguousarray(array[:, order]) for array in codes)
    order_rows(indices, values)
    expected = RowCodes.from_csr(csr_array(dense), n_components, np.float64)
    np.testing.assert_array_equal(indices, expected.indices)
    np.testing.assert_array_equal(values, expected.values)
