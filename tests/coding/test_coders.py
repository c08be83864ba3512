"""Traditional sparse coding: against scikit-learn, spams and least squares, and what must not change a code."""

from __future__ import annotations

import itertools
import threading
import tracemalloc

import numpy as np
import pytest
from conftest import normalise
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.sparse import csr_array
from sklearn.linear_model import orthogonal_mp_gram

from ddlearn import (
    OMP,
    SPARSE_CODERS,
    sparse_encode,
)
from ddlearn.coding import adapt_coder, encode_rows
from ddlearn.parallel import TILE_ROWS

every_method = pytest.mark.parametrize("method", sorted(SPARSE_CODERS))
every_pursuit = pytest.mark.parametrize("method", sorted(set(SPARSE_CODERS) - {"elastic_net"}))
both_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])


def draw(n_samples=50, n_components=40, n_features=20, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X, D = rng.standard_normal((n_samples, n_features)), rng.standard_normal((n_components, n_features))
    return X.astype(dtype), normalise(D).astype(dtype)


def residual(X, D, codes):
    return np.sum((X - codes @ D) ** 2, axis=1)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("n_nonzero_coefs", [1, 3, 10])
def test_omp_equals_scikit_learn(seed, n_nonzero_coefs):
    X, D = draw(seed=seed, n_components=60)
    expected = orthogonal_mp_gram(D @ D.T, D @ X.T, n_nonzero_coefs=n_nonzero_coefs).T
    codes = sparse_encode(X, D, n_nonzero_coefs=n_nonzero_coefs)
    np.testing.assert_allclose(codes.toarray(), expected, atol=1e-8)


def test_omp_with_a_tolerance_equals_scikit_learn():
    X, D = draw()
    tol = 4.0
    expected = orthogonal_mp_gram(D @ D.T, D @ X.T, tol=tol, norms_squared=np.sum(X**2, axis=1)).T
    codes = sparse_encode(X, D, n_nonzero_coefs=20, tol=tol)
    np.testing.assert_allclose(codes.toarray(), expected, atol=1e-8)
    assert len(set(np.diff(codes.indptr))) > 2


def test_ormp_equals_spams():
    spams = pytest.importorskip("spams", reason="spams is in the bench extra")
    X, D = draw(n_samples=300)
    expected = spams.omp(np.asfortranarray(X.T), np.asfortranarray(D.T), L=6, eps=0.0).T.toarray()
    np.testing.assert_allclose(sparse_encode(X, D, n_nonzero_coefs=6, method="ormp").toarray(), expected, atol=1e-8)


def test_each_ormp_step_takes_the_atom_that_lowers_the_error_most():
    X, D = draw(n_samples=10)
    supports = [
        [set(row.indices) for row in map(csr_array, sparse_encode(X, D, n_nonzero_coefs=t, method="ormp"))]
        for t in (1, 2, 3, 4)
    ]
    for before, after in itertools.pairwise(supports):
        for x, old, new in zip(X, before, after, strict=True):
            errors = {}
            for atom in set(range(len(D))) - old:
                chosen = D[sorted(old | {atom})]
                errors[atom] = np.linalg.norm(x - np.linalg.lstsq(chosen.T, x)[0] @ chosen)
            assert new == old | {min(errors, key=errors.get)}


@every_pursuit
def test_code_is_the_least_squares_solution_on_its_support(method):
    X, D = draw()
    codes = sparse_encode(X, D, n_nonzero_coefs=6, method=method).toarray()
    assert (np.count_nonzero(codes, axis=1) <= 6).all()
    gradient = (codes @ D - X) @ D.T
    np.testing.assert_allclose(gradient[codes != 0], 0, atol=1e-10)


@every_pursuit
@both_dtypes
def test_atoms_need_not_have_unit_norm(method, dtype):
    X, D = draw(dtype=dtype)
    scale = np.random.default_rng(1).uniform(0.01, 100, len(D)).astype(dtype)
    codes = sparse_encode(X, D * scale[:, None], n_nonzero_coefs=5, method=method).toarray()
    expected = sparse_encode(X, D, n_nonzero_coefs=5, method=method).toarray()
    np.testing.assert_allclose(codes * scale, expected, atol=1e-3 if dtype == np.float32 else 1e-10)


@every_pursuit
@both_dtypes
def test_a_sample_that_is_an_atom_gets_one_coefficient(method, dtype):
    rng = np.random.default_rng(0)
    D = normalise(rng.random((300, 784)) ** 4).astype(dtype)  # correlated, like images
    codes = sparse_encode(3 * D, D, n_nonzero_coefs=10, method=method)
    assert codes.nnz == 300
    np.testing.assert_allclose(codes.toarray(), 3 * np.eye(300), atol=1e-5)


@every_pursuit
def test_sparse_samples_of_well_separated_atoms_are_recovered(method):
    rng = np.random.default_rng(0)
    D = normalise(rng.standard_normal((80, 200)))
    expected = np.zeros((100, 80))
    for row in expected:
        row[rng.choice(80, 4, replace=False)] = rng.uniform(1, 2, 4) * rng.choice([-1, 1], 4)
    codes = sparse_encode(expected @ D, D, n_nonzero_coefs=12, method=method)
    assert codes.nnz == 400  # the budget is not used up: the residual is zero to rounding
    np.testing.assert_allclose(codes.toarray(), expected, atol=1e-10)


@every_pursuit
@both_dtypes
def test_budgets_up_to_all_atoms_reach_least_squares(method, dtype):
    X, D = draw(n_components=12, dtype=dtype)  # fewer atoms than features
    codes = sparse_encode(X, D, n_nonzero_coefs=12, method=method)
    expected = np.linalg.lstsq(D.T.astype(np.float64), X.T.astype(np.float64))[0].T
    np.testing.assert_allclose(codes.toarray(), expected, atol=1e-3 if dtype == np.float32 else 1e-10)


@every_pursuit
@both_dtypes
def test_budgets_above_the_number_of_features_leave_no_residual(method, dtype):
    X, D = draw(n_components=40, n_features=8, dtype=dtype)
    codes = sparse_encode(X, D, n_nonzero_coefs=30, method=method)
    assert np.isfinite(codes.data).all()
    assert residual(X, D, codes).max() < (1e-4 if dtype == np.float32 else 1e-10)
    assert np.diff(codes.indptr).max() <= 8  # as many independent atoms as features leave a residual of zero


@every_method
def test_more_atoms_than_samples(method):
    X, D = draw(n_samples=1, n_components=500)
    assert sparse_encode(X, D, n_nonzero_coefs=3, method=method).shape == (1, 500)


@every_method
@given(
    X=hnp.arrays(
        st.sampled_from([np.float64, np.float32]),
        hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=6),
        elements=st.floats(-100, 100, width=32).map(lambda v: 0.0 if abs(v) < 1e-6 else v),
    ),
    n_components=st.integers(1, 7),
    data=st.data(),
)
def test_anything_finite_gives_finite_codes_of_its_dtype_that_do_not_raise_the_residual(method, X, n_components, data):
    D = data.draw(
        hnp.arrays(X.dtype, (n_components, X.shape[1]), elements=st.sampled_from([-2, -1, 0, 0, 1, 1.5])), label="D"
    )
    budget = data.draw(st.integers(1, n_components))
    codes = sparse_encode(X, D, n_nonzero_coefs=budget, method=method)
    assert codes.dtype == X.dtype
    assert np.isfinite(codes.data).all()
    assert (np.diff(codes.indptr) <= budget).all()
    energy = np.sum(X.astype(np.float64) ** 2, axis=1)
    slack = 1e-3 if X.dtype == np.float32 else 1e-8
    assert (residual(X.astype(np.float64), D.astype(np.float64), codes) <= energy * (1 + slack)).all()


@every_method
@both_dtypes
def test_bitwise_equal_for_every_number_of_threads_and_block_size(method, dtype):
    X, D = draw(n_samples=3 * TILE_ROWS + 77, dtype=dtype)
    coder = adapt_coder(SPARSE_CODERS[method](), X, D, 5)
    expected = encode_rows(X, D, coder, 5)
    for n_jobs in (1, 2, 3, -1):
        for block_rows in (1, TILE_ROWS, 2 * TILE_ROWS, 10_000):
            codes = encode_rows(X, D, coder, 5, n_jobs=n_jobs, block_rows=block_rows)
            np.testing.assert_array_equal(codes.indices, expected.indices)
            np.testing.assert_array_equal(codes.values, expected.values)


def test_calls_from_several_threads_at_once():
    X, D = draw(n_samples=2000)
    expected = sparse_encode(X, D, n_nonzero_coefs=4).toarray()
    results = {}

    def call(number):
        results[number] = sparse_encode(X, D, n_nonzero_coefs=4, n_jobs=2).toarray()

    threads = [threading.Thread(target=call, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6
    for result in results.values():
        np.testing.assert_array_equal(result, expected)


@every_method
def test_float32_is_close_to_float64(method):
    X, D = draw()
    single = sparse_encode(X.astype(np.float32), D.astype(np.float32), n_nonzero_coefs=5, method=method)
    double = sparse_encode(X, D, n_nonzero_coefs=5, method=method)
    np.testing.assert_allclose(residual(X, D, single), residual(X, D, double), rtol=1e-3)


@every_method
def test_permuting_samples_and_atoms_permutes_codes(method):
    X, D = draw()
    rng = np.random.default_rng(3)
    rows, atoms = rng.permutation(len(X)), rng.permutation(len(D))
    codes = sparse_encode(X, D, n_nonzero_coefs=5, method=method).toarray()
    permuted = sparse_encode(X[rows], D[atoms], n_nonzero_coefs=5, method=method).toarray()
    np.testing.assert_allclose(permuted, codes[np.ix_(rows, atoms)], atol=1e-10)


def test_no_dense_codes_in_memory():
    X, D = draw(n_samples=30_000, n_components=400)
    sparse_encode(X[:10], D, n_nonzero_coefs=3)
    tracemalloc.start()
    sparse_encode(X, D, n_nonzero_coefs=3, n_jobs=2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    dense_codes = 30_000 * 400 * 8
    assert peak < dense_codes / 8


@pytest.mark.parametrize("order", ["C", "F"])
def test_arguments_are_read_only(order):
    X, D = draw()
    expected = sparse_encode(X, D, n_nonzero_coefs=3).toarray()
    X, D = np.array(X, order=order), np.array(D, order=order)
    X.flags.writeable = D.flags.writeable = False
    np.testing.assert_allclose(sparse_encode(X, D, n_nonzero_coefs=3).toarray(), expected, atol=1e-12)


def test_lists_and_integers_are_taken_as_float64():
    codes = sparse_encode([[2, 0], [0, 3]], [[1, 0], [0, 1]], n_nonzero_coefs=1)
    assert codes.dtype == np.float64
    np.testing.assert_array_equal(codes.toarray(), [[2, 0], [0, 3]])


def test_atoms_take_the_dtype_of_the_samples():
    X, D = draw()
    assert sparse_encode(X.astype(np.float32), D, n_nonzero_coefs=2).dtype == np.float32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_nonzero_coefs": 41}, "n_nonzero_coefs=41 exceeds the 40 atoms"),
        ({"n_nonzero_coefs": 0}, "at least 1, got 0"),
        ({"n_nonzero_coefs": 2.5}, "got 2.5"),
        ({"n_nonzero_coefs": True}, "got True"),
        ({"method": "lars"}, r"'lars' is not a known sparse coder; choose one of \['elastic_net', 'omp', 'ormp'\]"),
        ({"tol": -1.0}, "tol must be None or a number of at least 0, got -1.0"),
        ({"tol": float("nan")}, "got nan"),
        ({"method": OMP(), "tol": 1.0}, "constructor"),
        ({"X": np.ones((3, 7))}, "X has 7 features, but the atoms in dictionary have 20"),
        ({"X": np.empty((0, 20))}, "0 sample"),
        ({"X": np.ones(20)}, "Expected 2D array"),
        ({"dictionary": np.full((40, 20), np.inf)}, "dictionary contains infinity"),
        ({"X": np.full((3, 20), 1e200)}, "values as large as 1e[+]200, whose squares leave the range of float64"),
        ({"X": np.full((3, 20), 1e-30, np.float32)}, "leave the range of float32: rescale"),
    ],
    ids=str,
)
def test_errors_name_the_value_and_the_remedy(change, message):
    X, D = draw()
    arguments = {"X": X, "dictionary": D, "n_nonzero_coefs": 3} | change
    with pytest.raises(ValueError, match=message):
        sparse_encode(**arguments)


@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_a_value_that_is_not_finite_is_named(bad, word, n_jobs):
    X, D = draw(n_samples=1000)
    X[777, 5] = bad
    with pytest.raises(ValueError, match=f"X contains {word} in row 777, feature 5"):
        sparse_encode(X, D, n_nonzero_coefs=3, n_jobs=n_jobs)


def test_a_class_is_refused():
    X, D = draw()
    with pytest.raises(TypeError, match=r"is not a usable sparse coder, but a class: pass an object, OMP\(...\)"):
        sparse_encode(X, D, n_nonzero_coefs=3, method=OMP)
