"""Codes: their layout, CSR and back; and the model: scores and residuals."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from conftest import make_problem
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ddlearn.model.codes import Model, RowCodes, measure_residuals


@given(n_samples=st.integers(1, 9), n_components=st.integers(1, 12), density=st.floats(0, 1), seed=st.integers(0, 99))
def test_csr_there_and_back(n_samples, n_components, density, seed):
    rng, shape = np.random.default_rng(seed), (n_samples, n_components)
    codes = csr_array(rng.standard_normal(shape) * (rng.random(shape) < density))
    back = RowCodes.from_csr(codes, n_components, np.float64).to_csr(n_components)
    back.check_format(full_check=True)
    assert back.has_canonical_format
    np.testing.assert_array_equal(back.toarray(), codes.toarray())


def test_layout_is_ascending_with_unused_places_last():
    codes = csr_array(np.array([[0.0, 0, 5, 1], [0, 0, 0, 0]]))
    indices, values = RowCodes.from_csr(codes, 3, np.float32)
    np.testing.assert_array_equal(indices, [[2, 3, 0], [0, 0, 0]])
    np.testing.assert_array_equal(values, [[5, 1, 0], [0, 0, 0]])
    assert indices.dtype == np.int32
    assert values.dtype == np.float32


def test_unsorted_duplicate_and_explicit_zero_entries_are_tidied_and_the_argument_kept():
    given_codes = csr_array((np.array([1.0, 2.0, 3.0, 0.0]), np.array([3, 1, 3, 0]), np.array([0, 4])), shape=(1, 4))
    indices, values = RowCodes.from_csr(given_codes, 2, np.float64)
    np.testing.assert_array_equal(indices, [[1, 3]])
    np.testing.assert_array_equal(values, [[2, 4]])
    assert given_codes.nnz == 4


def test_too_many_entries_name_the_row():
    with pytest.raises(ValueError, match=r"Row 1 .* has 3 nonzeros, more than n_nonzero_coefs=2"):
        RowCodes.from_csr(csr_array(np.array([[1.0, 0, 0], [1, 2, 3]])), 2, np.float64)


@given(n_samples=st.integers(0, 5), n_components=st.integers(1, 9), seed=st.integers(0, 999), data=st.data())
def test_sorting_keeps_the_codes_and_returns_the_layout_of_from_csr(n_samples, n_components, seed, data):
    rng = np.random.default_rng(seed)
    n_places = data.draw(st.integers(1, n_components))
    shape = (n_samples, n_places)
    atoms = rng.permuted(np.tile(np.arange(n_components, dtype=np.int32), (n_samples, 1)), axis=1)[:, :n_places]
    values = rng.standard_normal(shape).astype(np.float32) * (rng.random(shape) < 0.7)
    dense = np.zeros((n_samples, n_components), np.float32)
    np.put_along_axis(dense, atoms, values, axis=1)
    codes = RowCodes(atoms, values).sort()
    expected = RowCodes.from_csr(csr_array(dense), n_places, np.float32)
    for mine, theirs in zip(codes, expected, strict=True):
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype


@pytest.fixture
def coded():
    """A model, samples and codes that are not those of any coder."""
    problem = make_problem("planted", seed=0)
    model = Model(problem.dictionary, problem.coef, problem.intercept, problem.class_cost)
    rng = np.random.default_rng(0)
    dense = rng.standard_normal((60, 30)) * (rng.random((60, 30)) < 0.1)
    return model, problem.X, dense, RowCodes.from_csr(csr_array(dense), 30, np.float64)


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_residuals_and_scores_equal_dense_ones(coded, n_jobs):
    model, X, dense, codes = coded
    expected = np.sum((X - dense @ model.dictionary) ** 2, axis=1)
    np.testing.assert_allclose(measure_residuals(X, codes, model.dictionary, n_jobs), expected, rtol=1e-10)
    scores = dense @ model.coef.T
    np.testing.assert_allclose(model.scores(codes) - model.intercept, scores, atol=1e-12)
    np.testing.assert_allclose(model.scores(codes), scores + model.intercept, atol=1e-12)


def test_the_weight_of_the_labels_divides_the_class_costs_alone(coded):
    model, *_ = coded
    weighted = model.weigh_labels(4.0)
    np.testing.assert_array_equal(weighted.class_cost, model.class_cost / 4)
    assert weighted.dictionary is model.dictionary
    assert weighted.coef is model.coef


def test_a_model_is_pickled_without_what_it_caches(coded):
    model, _, _, codes = coded
    size = len(pickle.dumps(model))
    scores = model.scores(codes)
    assert len(pickle.dumps(model)) == size
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).scores(codes), scores)


def test_trimming_leaves_out_places_that_no_row_uses_and_filling_takes_as_many_as_there_are():
    codes = RowCodes(np.array([[1, 4, 0, 0], [2, 0, 0, 0]], np.int32), np.array([[1.0, 2, 0, 0], [3, 0, 0, 0]]))
    trimmed = codes.trim()
    assert trimmed.values.shape == (2, 2)
    np.testing.assert_array_equal(trimmed.to_csr(5).toarray(), codes.to_csr(5).toarray())
    assert RowCodes.empty(2, 4, float).trim().values.shape == (2, 1)
    longer, shorter = RowCodes(np.full((2, 3), 7, np.int32), np.full((2, 3), 7.0)), RowCodes.empty(2, 1, float)
    longer.fill(trimmed)
    shorter.fill(trimmed)
    np.testing.assert_array_equal(longer.to_csr(5).toarray(), codes.to_csr(5).toarray())
    np.testing.assert_array_equal(shorter.to_csr(5).toarray(), [[0, 1, 0, 0, 0], [0, 0, 3, 0, 0]])
