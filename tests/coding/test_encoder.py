"""Traditional sparse coding of whole arrays: what must not change a code, memory, and bad input."""

from __future__ import annotations

import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from conftest import both_dtypes, draw_samples, measure_residuals
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ddlearn import OMP, sparse_encode
from ddlearn.coding.encoder import SPARSE_CODERS, Encoder, adapt_coder, compute_gram
from ddlearn.parallel import TILE_ROWS

every_method = pytest.mark.parametrize("method", sorted(SPARSE_CODERS))


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
    assert (measure_residuals(X.astype(np.float64), D.astype(np.float64), codes) <= energy * (1 + slack)).all()


@pytest.mark.bitwise
@pytest.mark.parametrize("coder", [*(coder() for coder in SPARSE_CODERS.values()), OMP(n_swaps=10)], ids=repr)
@both_dtypes
def test_bitwise_equal_for_every_number_of_threads_and_cut_between_tiles(coder, dtype):
    X, D = draw_samples(n_samples=3 * TILE_ROWS + 77, dtype=dtype)
    coder = adapt_coder(coder, X, D, 5)
    encoder = Encoder.of(D, coder, 5)
    expected = encoder.encode(X)
    for n_jobs, first in [(1, 0), (2, 0), (3, 0), (-1, 0), (1, TILE_ROWS), (1, 2 * TILE_ROWS)]:
        codes = encoder.encode(X[first:], n_jobs=n_jobs)
        np.testing.assert_array_equal(codes.indices, expected.indices[first:])
        np.testing.assert_array_equal(codes.values, expected.values[first:])


def test_calls_from_several_threads_at_once():
    X, D = draw_samples(n_samples=2000)
    expected = sparse_encode(X, D, n_nonzero_coefs=4).toarray()
    with ThreadPoolExecutor(6) as pool:
        for codes in pool.map(lambda _: sparse_encode(X, D, n_nonzero_coefs=4, n_jobs=2), range(6)):
            np.testing.assert_array_equal(codes.toarray(), expected)


@every_method
def test_float32_is_close_to_float64(method):
    X, D = draw_samples()
    single = sparse_encode(X.astype(np.float32), D, n_nonzero_coefs=5, method=method)
    assert single.dtype == np.float32  # atoms take the dtype of the samples
    double = sparse_encode(X, D, n_nonzero_coefs=5, method=method)
    np.testing.assert_allclose(measure_residuals(X, D, single), measure_residuals(X, D, double), rtol=1e-3)


@every_method
def test_permuting_samples_and_atoms_permutes_codes(method):
    X, D = draw_samples()
    rng = np.random.default_rng(3)
    rows, atoms = rng.permutation(len(X)), rng.permutation(len(D))
    codes = sparse_encode(X, D, n_nonzero_coefs=5, method=method).toarray()
    permuted = sparse_encode(X[rows], D[atoms], n_nonzero_coefs=5, method=method).toarray()
    np.testing.assert_allclose(permuted, codes[np.ix_(rows, atoms)], atol=1e-10)


def test_no_dense_codes_in_memory():
    X, D = draw_samples(n_samples=30_000, n_components=400)
    sparse_encode(X[:10], D, n_nonzero_coefs=3)
    tracemalloc.start()
    sparse_encode(X, D, n_nonzero_coefs=3, n_jobs=2)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    dense_codes = 30_000 * 400 * 8
    assert peak < dense_codes / 8


@pytest.mark.parametrize("order", ["C", "F"])
def test_arguments_are_read_only(order):
    X, D = draw_samples()
    expected = sparse_encode(X, D, n_nonzero_coefs=3).toarray()
    X, D = np.array(X, order=order), np.array(D, order=order)
    X.flags.writeable = D.flags.writeable = False
    np.testing.assert_allclose(sparse_encode(X, D, n_nonzero_coefs=3).toarray(), expected, atol=1e-12)


def test_lists_and_integers_are_taken_as_float64():
    codes = sparse_encode([[2, 0], [0, 3]], [[1, 0], [0, 1]], n_nonzero_coefs=1)
    assert codes.dtype == np.float64
    np.testing.assert_array_equal(codes.toarray(), [[2, 0], [0, 3]])


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
        ({"X": np.full((3, 20), 1e200)}, "values as large as 1e[+]200, whose squares are out of the range of float64"),
        ({"X": np.full((3, 20), 1e-30, np.float32)}, "are out of the range of float32: rescale"),
    ],
    ids=str,
)
def test_errors_name_the_value_and_the_remedy(change, message):
    X, D = draw_samples()
    arguments = {"X": X, "dictionary": D, "n_nonzero_coefs": 3} | change
    with pytest.raises(ValueError, match=message):
        sparse_encode(**arguments)


@every_method  # the elastic net must not estimate its penalty from such values before
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (np.inf, "infinity"), (-np.inf, "infinity")])
def test_a_value_that_is_not_finite_is_named(method, bad, word, n_jobs):
    X, D = draw_samples(n_samples=1000)
    X[777, 5] = bad
    with pytest.raises(ValueError, match=f"X contains {word} in row 777, feature 5"):
        sparse_encode(X, D, n_nonzero_coefs=3, method=method, n_jobs=n_jobs)


@pytest.mark.bitwise
@pytest.mark.parametrize("n_components", [1, 64, 65, 700])
def test_a_gram_matrix_holds_the_products_of_all_atoms_whatever_the_number_of_threads(n_components):
    _, D = draw_samples(n_components=n_components)
    gram = compute_gram(D, 1)
    np.testing.assert_allclose(gram, D @ D.T, atol=1e-14)
    np.testing.assert_array_equal(compute_gram(D, 2), gram)


@pytest.mark.bitwise
@both_dtypes
def test_a_last_row_alone_is_multiplied_the_same_in_every_block(dtype):
    # One row is multiplied without BLAS, so where a tile of one row stands must not matter.
    X, D = draw_samples(n_samples=2 * TILE_ROWS + 1, dtype=dtype)
    encoder = Encoder.of(D, OMP(), 3)
    products = encoder.correlate(X)
    np.testing.assert_array_equal(products[-1:], encoder.correlate(X[-1:]))
    np.testing.assert_allclose(products, X @ D.T, rtol=1e-4, atol=1e-5)


@every_method
def test_threads_share_an_encoder_and_a_workspace_has_one_of_them_at_a_time(method):
    # One row at a time, so that all of them are in the coder at once: two in one workspace would mix their codes.
    X, D = draw_samples(n_samples=64)
    encoder = Encoder.of(D, adapt_coder(SPARSE_CODERS[method](), X, D, 5), 5)
    expected = [encoder.encode_tile(X[[row]]) for row in range(len(X))]
    kept = list(encoder.workspaces.values())
    encoder.encode_tile(X[:1])
    assert all(one is other for one, other in zip(kept, encoder.workspaces.values(), strict=True))  # used again
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda row: encoder.encode_tile(X[[row]]), list(range(len(X))) * 5))
    for codes, wanted in zip(found, expected * 5, strict=True):
        np.testing.assert_array_equal(codes.values, wanted.values)
