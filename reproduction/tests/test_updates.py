"""The dictionary updates that are plug-ins: their conformance, and each against its definition."""

import numpy as np
import pytest
from reproduction.updates import MODUpdate, WeightedKSVDUpdate
from scipy.sparse import csr_array
from sklearn.datasets import load_digits

from ddlearn import AtomUpdate, DDLClassifier, KSVDUpdate, RowCodes, check_dictionary_update

N_ATOMS = 10


@pytest.fixture
def problem():
    """Samples that the codes explain in part, every atom in use, precisions over two decades."""
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((N_ATOMS, 7))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    dense = rng.standard_normal((60, N_ATOMS))
    dense[rng.permuted(np.tile(np.arange(N_ATOMS), (60, 1)), axis=1) > 2] = 0
    X = dense @ dictionary + 0.5 * rng.standard_normal((60, 7))
    return X, RowCodes.from_csr(csr_array(dense), 3, X.dtype), dictionary, 10 ** rng.uniform(-1, 1, 60)


def measure_error(X, codes, dictionary, precision):
    return precision @ ((X - codes.to_csr(N_ATOMS) @ dictionary) ** 2).sum(axis=1)


@pytest.mark.parametrize("update", [WeightedKSVDUpdate(), MODUpdate()])
def test_each_is_a_usable_update_that_lowers_the_weighted_error_and_serves_a_fit(update, problem):
    check_dictionary_update(update)
    X, codes, dictionary, precision = problem
    updated = update.update(X, codes, dictionary, precision)
    assert measure_error(X, updated.codes, updated.dictionary, precision) < measure_error(*problem)
    digits, y = (array[:200] for array in load_digits(return_X_y=True))
    model = DDLClassifier(20, dictionary_update=update, sparse_coder="ormp", max_iter=3, refine=None, random_state=0)
    assert model.fit(digits, y).score(digits, y) > 0.7


def test_weighted_ksvd_equals_the_textbook(problem):
    X, codes, dictionary, precision = problem
    updated = WeightedKSVDUpdate(max_coherence=1.1).update(*problem)
    dense, atoms = codes.to_csr(N_ATOMS).toarray(), dictionary.copy()
    for j in range(N_ATOMS):
        rows = np.flatnonzero(dense[:, j])
        residuals = X[rows] - dense[rows] @ atoms + np.outer(dense[rows, j], atoms[j])
        direction = residuals.T @ (precision[rows] * dense[rows, j])
        atoms[j] = direction / np.linalg.norm(direction)
        dense[rows, j] = residuals @ atoms[j]
    np.testing.assert_allclose(updated.dictionary, atoms, atol=1e-12)
    np.testing.assert_allclose(updated.codes.to_csr(N_ATOMS).toarray(), dense, atol=1e-12)


def test_equal_precisions_make_weighted_ksvd_plain(problem):
    X, codes, dictionary, _ = problem
    plain, weighted = (
        update.update(X, codes, dictionary, np.full(60, 0.3)) for update in (KSVDUpdate(), WeightedKSVDUpdate())
    )
    np.testing.assert_array_equal(weighted.dictionary, plain.dictionary)
    np.testing.assert_array_equal(weighted.codes.values, plain.codes.values)


def test_mod_reconstructs_as_weighted_least_squares_do(problem):
    X, codes, _, precision = problem
    updated = MODUpdate().update(*problem)
    dense, roots = codes.to_csr(N_ATOMS).toarray(), np.sqrt(precision)[:, None]
    solution = np.linalg.lstsq(roots * dense, roots * X)[0]
    np.testing.assert_allclose(updated.codes.to_csr(N_ATOMS) @ updated.dictionary, dense @ solution, atol=1e-8)


def test_mod_stays_where_samples_do_not_determine_the_atoms(problem):
    X, codes, dictionary, precision = problem
    few = X[:5], codes.rows(slice(5)), dictionary, precision[:5]
    updated = MODUpdate().update(*few)
    assert measure_error(few[0], updated.codes, updated.dictionary, few[3]) <= measure_error(*few)
    unused = np.setdiff1d(np.arange(N_ATOMS), few[1].indices)
    np.testing.assert_allclose(updated.dictionary[unused], dictionary[unused])
    assert np.abs(updated.codes.values).max() < 100


def test_mod_falls_back_to_a_sweep_when_an_atom_vanishes():
    dense = np.array([[1.0, 1.0], [1.0, 0.0], [2.0, 1.0]])
    X = dense[:, :1] * np.array([[0.0, 0.0, 1.0]])  # the first atom explains all: least squares makes the second zero
    arguments = X, RowCodes.from_csr(csr_array(dense), 2, X.dtype), np.eye(2, 3), np.ones(3)
    updated, swept = (update.update(*arguments) for update in (MODUpdate(), AtomUpdate()))
    np.testing.assert_array_equal(updated.codes.values, swept.codes.values)
    np.testing.assert_allclose(updated.dictionary, swept.dictionary)
