"""The dictionary step: what each strategy minimises, what it leaves alone, and a slow twin of every kernel."""

import numpy as np
import pytest
from conftest import normalise
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from ddlearn.dictionary import (
    DICTIONARY_UPDATES,
    INITIAL_DICTIONARIES,
    AtomUpdate,
    ExactKSVDUpdate,
    KSVDUpdate,
    init_dictionary,
)
from ddlearn.kernels import sweep as kernel
from ddlearn.kernels.codes import measure_errors
from ddlearn.model.codes import RowCodes

ALL = sorted(DICTIONARY_UPDATES)
MONOTONE = [name for name in ALL if DICTIONARY_UPDATES[name].is_monotone]
# Wide enough apart that no atom is ever taken for a duplicate: the sweep is then all that happens.
NO_DUPLICATES = {"max_coherence": 1.1}


def make_codes(dense, n_places):
    return RowCodes.from_csr(csr_array(dense), n_places, dense.dtype)


def make_problem(seed=0, n_samples=60, n_features=7, n_components=10, n_places=3, dtype=np.float64):
    """Samples that the codes explain in part, every atom in use, precisions over two decades."""
    rng = np.random.default_rng(seed)
    dictionary = rng.standard_normal((n_components, n_features))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    dense = np.zeros((n_samples, n_components))
    for i in range(n_samples):
        support = rng.permutation(n_components)[: min(n_places, n_components)]
        support[0] = i % n_components
        dense[i, support] = rng.standard_normal(len(support)) + 0.1
    X = dense @ dictionary + 0.5 * rng.standard_normal((n_samples, n_features))
    precision = 10 ** rng.uniform(-1, 1, n_samples)
    return X.astype(dtype), make_codes(dense.astype(dtype), n_places), dictionary.astype(dtype), precision.astype(dtype)


def run(update, X, codes, dictionary, precision, **kwargs):
    return DICTIONARY_UPDATES.resolve(update).update(X, codes, dictionary, precision, **kwargs)


def to_dense(codes, n_components):
    return codes.to_csr(n_components).toarray()


def error(X, codes, dictionary, weights):
    residuals = X - to_dense(codes, len(dictionary)) @ dictionary
    return weights @ (residuals**2).sum(axis=1)


def naive_ksvd(X, dense, dictionary, weights, *, exact=False, updates_codes=True):
    """The textbook: for each atom, the matrix of residuals without it."""
    dense, dictionary = dense.copy(), dictionary.copy()
    for j in range(len(dictionary)):
        rows = np.flatnonzero(dense[:, j])
        if rows.size == 0:
            continue
        residuals = X[rows] - dense[rows] @ dictionary + np.outer(dense[rows, j], dictionary[j])
        if exact:
            direction = np.linalg.svd(residuals)[2][0]
            direction *= np.sign(dense[rows, j] @ residuals @ direction)
        else:
            direction = residuals.T @ (weights[rows] * dense[rows, j])
        dictionary[j] = direction / np.linalg.norm(direction)
        if updates_codes:
            dense[rows, j] = residuals @ dictionary[j]
    return dictionary, dense


# Closer than the conformance check can ask of strategies of any kind.
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", ALL)
def test_rows_are_unit_and_dtype_is_kept(name, dtype):
    updated = run(name, *make_problem(dtype=dtype))
    assert updated.dictionary.dtype == updated.codes.values.dtype == dtype
    np.testing.assert_allclose(np.linalg.norm(updated.dictionary, axis=1), 1, rtol=10 * np.finfo(dtype).eps)


@pytest.mark.parametrize("name", [name for name in ALL if DICTIONARY_UPDATES[name].is_additive])
def test_statistics_of_blocks_add(name):
    X, codes, dictionary, precision = make_problem()
    update = DICTIONARY_UPDATES.resolve(name)
    cuts = [slice(0, 13), slice(13, 14), slice(14, None)]
    parts = [update.statistics(X[cut], codes.rows(cut), precision[cut], len(dictionary)) for cut in cuts]
    atoms = update.update_from(parts[0] + parts[1] + parts[2], dictionary)
    np.testing.assert_allclose(atoms, run(update, X, codes, dictionary, precision).dictionary, atol=1e-10)


# -- every strategy ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("name", MONOTONE)
def test_monotone_updates_do_not_raise_the_weighted_error_and_leave_codes_alone(name, seed):
    X, codes, dictionary, precision = make_problem(seed)
    values = [error(X, codes, dictionary, precision)]
    for _ in range(4):  # also where little is left to gain
        dictionary, given_codes, _ = run(name, X, codes, dictionary, precision)
        np.testing.assert_array_equal(given_codes.values, codes.values)  # and so margins
        values.append(error(X, codes, dictionary, precision))
    assert (np.diff(values) <= 1e-10 * values[0]).all()
    assert values[-1] < values[0]


@pytest.mark.parametrize("name", ["ksvd", "exact_ksvd"])
def test_ksvd_does_not_raise_the_unweighted_error(name):
    X, codes, dictionary, precision = make_problem()
    updated = run(name, X, codes, dictionary, precision)
    ones = np.ones(len(X))
    assert error(X, *updated[1::-1], ones) < error(X, codes, dictionary, ones)


@pytest.mark.parametrize("name", ALL)
def test_scale_of_precision_does_not_matter(name):
    X, codes, dictionary, precision = make_problem()
    one = run(name, X, codes, dictionary, precision)
    other = run(name, X, codes, dictionary, 1e30 * precision)
    np.testing.assert_allclose(other.dictionary, one.dictionary, atol=1e-10)


@pytest.mark.parametrize("name", ALL)
def test_order_of_samples_does_not_matter(name):
    X, codes, dictionary, precision = make_problem()
    codes = make_codes(np.where(np.arange(10) == 4, 0, to_dense(codes, 10)), 3)  # atom 4 will be replaced
    order = np.random.default_rng(1).permutation(len(X))
    one = run(name, X, codes, dictionary, precision)
    other = run(name, X[order], codes.rows(order), dictionary, precision[order])
    assert one.replaced.tolist() == other.replaced.tolist() == [4]
    np.testing.assert_allclose(other.dictionary, one.dictionary, atol=1e-9)
    np.testing.assert_allclose(other.codes.values, one.codes.values[order], atol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_rotating_features_rotates_atoms(name):
    X, codes, dictionary, precision = make_problem()
    rotation = np.linalg.qr(np.random.default_rng(1).standard_normal((X.shape[1], X.shape[1])))[0]
    one = run(name, X, codes, dictionary, precision)
    other = run(name, X @ rotation, codes, dictionary @ rotation, precision)
    np.testing.assert_allclose(other.dictionary, one.dictionary @ rotation, atol=1e-9)
    np.testing.assert_allclose(other.codes.values, one.codes.values, atol=1e-9)


@pytest.mark.parametrize("name", ALL)
def test_single_precision_is_close(name):
    double = run(name, *make_problem())
    single = run(name, *make_problem(dtype=np.float32))
    np.testing.assert_allclose(single.dictionary, double.dictionary, atol=1e-4)


@pytest.mark.bitwise
@pytest.mark.parametrize("name", ALL)
def test_number_of_threads_does_not_change_a_bit(name):
    problem = make_problem(n_samples=700)
    problem[1].values[problem[1].indices == 3] = 0  # unused, so that errors are measured too
    problem = (problem[0], make_codes(to_dense(problem[1], 10), 3), *problem[2:])
    one, many = run(name, *problem, n_jobs=1), run(name, *problem, n_jobs=3)
    assert one.replaced.tolist() == [3]
    np.testing.assert_array_equal(many.dictionary, one.dictionary)
    np.testing.assert_array_equal(many.codes.values, one.codes.values)


@pytest.mark.parametrize("name", ALL)
def test_inputs_may_be_read_only_and_on_disk(name, tmp_path):
    X, codes, dictionary, precision = make_problem()
    np.save(tmp_path / "X.npy", X)
    for array in (X, *codes, dictionary, precision):
        array.flags.writeable = False
    expected = run(name, X, codes, dictionary, precision)
    mapped = run(name, np.load(tmp_path / "X.npy", mmap_mode="r"), codes, dictionary, precision)
    np.testing.assert_array_equal(mapped.dictionary, expected.dictionary)
    fortran = run(name, np.asfortranarray(X), codes, dictionary, precision)
    np.testing.assert_allclose(fortran.dictionary, expected.dictionary, atol=1e-12)


# -- edges ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sizes",
    [
        {"n_places": 1},
        {"n_samples": 4, "n_components": 10},
        {"n_components": 1, "n_places": 1},
        {"n_features": 1},
        {"n_features": 33, "n_components": 2, "n_places": 2},
    ],
)
@pytest.mark.parametrize("name", ALL)
def test_extreme_sizes(name, sizes):
    problem = make_problem(**sizes)
    updated = run(name, *problem)
    assert np.isfinite(updated.dictionary).all()
    assert np.isfinite(updated.codes.values).all()
    np.testing.assert_allclose(np.linalg.norm(updated.dictionary, axis=1), 1)


@pytest.mark.parametrize("name", ALL)
def test_degenerate_samples(name):
    X, codes, dictionary, precision = make_problem()
    X[:20] = X[0]  # the same sample many times
    X[20:30] = 0  # zero samples, although they have codes
    updated = run(name, X, codes, dictionary, precision)
    np.testing.assert_allclose(np.linalg.norm(updated.dictionary, axis=1), 1)
    assert np.isfinite(updated.codes.values).all()


@pytest.mark.parametrize("name", ALL)
def test_an_atom_without_direction_stays_or_is_replaced(name):
    X, codes, dictionary, precision = make_problem(n_places=1)
    X[codes.indices[:, 0] == 6] = 0  # all users of atom 6 are zero
    updated = run(name, X, codes, dictionary, precision)
    np.testing.assert_allclose(np.linalg.norm(updated.dictionary, axis=1), 1)
    if updated.replaced.size == 0:
        np.testing.assert_array_equal(updated.dictionary[6], dictionary[6])
    else:  # K-SVD sets the codes to zero, which leaves the atom unused
        assert updated.replaced.tolist() == [6]


@pytest.mark.parametrize("name", ALL)
def test_without_any_code_nothing_but_replacement_happens(name):
    X, _, dictionary, precision = make_problem()
    updated = run(name, X, RowCodes.empty(len(X), 3, X.dtype), dictionary, precision)
    kept = np.setdiff1d(np.arange(len(dictionary)), updated.replaced)
    np.testing.assert_array_equal(updated.dictionary[kept], dictionary[kept])
    assert not updated.codes.values.any()
    zeros = run(name, np.zeros_like(X), RowCodes.empty(len(X), 3, X.dtype), dictionary, precision)
    assert zeros.replaced.size == 0


@pytest.mark.parametrize("name", ["ksvd", "exact_ksvd"])
def test_entries_that_become_zero_leave_the_layout_valid(name):
    X = np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    codes = RowCodes(np.array([[0, 1], [0, 0], [0, 0]], np.int32), np.array([[1e-8, 1.0], [1.0, 0.0], [2.0, 0.0]]))
    dictionary = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    updated = run(name, X, codes, dictionary, np.ones(3))
    used = updated.codes.values != 0
    assert not (used[:, 1:] & ~used[:, :-1]).any()
    assert not updated.codes.indices[~used].any()


# -- each strategy against its definition --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("update", "n_features", "textbook", "tolerance"),
    [
        (KSVDUpdate(**NO_DUPLICATES), 7, {"weights": np.ones(60)}, 1e-12),
        (ExactKSVDUpdate(**NO_DUPLICATES), 4, {"exact": True}, 1e-8),  # with more users of an atom than features
        (ExactKSVDUpdate(**NO_DUPLICATES), 40, {"exact": True}, 1e-8),  # with fewer
        ("atom", 7, {"updates_codes": False}, 1e-12),
    ],
)
def test_updates_equal_the_textbook(update, n_features, textbook, tolerance):
    X, codes, dictionary, precision = make_problem(n_features=n_features)
    updated = run(update, X, codes, dictionary, precision)
    atoms, dense = naive_ksvd(X, to_dense(codes, 10), dictionary, **{"weights": precision} | textbook)
    np.testing.assert_allclose(updated.dictionary, atoms, atol=tolerance)
    np.testing.assert_allclose(to_dense(updated.codes, 10), dense, atol=tolerance)


def test_atom_is_the_exact_minimiser_on_the_sphere():
    X, codes, dictionary, precision = make_problem(n_components=1, n_places=1)
    atom = run("atom", X, codes, dictionary, precision).dictionary
    least = error(X, codes, atom, precision)
    others = np.random.default_rng(2).standard_normal((500, X.shape[1]))
    others = np.concatenate([others, atom + 1e-3 * others])
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    assert all(error(X, codes, other[None], precision) > least for other in others)
    dense = to_dense(codes, 1)
    gradient = -2 * (precision[:, None] * dense).T @ (X - dense @ atom)
    tangential = gradient - (gradient @ atom.T) * atom
    np.testing.assert_allclose(tangential, 0, atol=1e-10 * np.abs(gradient).max())


def test_block_coordinate_sweeps_are_repeated_atom_updates():
    X, codes, dictionary, precision = make_problem()
    once = run("atom", X, codes, dictionary, precision).dictionary
    np.testing.assert_array_equal(run(AtomUpdate(n_sweeps=1), X, codes, dictionary, precision).dictionary, once)
    twice = run("atom", X, codes, once, precision).dictionary
    np.testing.assert_array_equal(run(AtomUpdate(n_sweeps=2), X, codes, dictionary, precision).dictionary, twice)


def test_many_sweeps_end_where_every_atom_is_optimal():
    X, codes, dictionary, precision = make_problem()
    end = run(AtomUpdate(n_sweeps=500), X, codes, dictionary, precision).dictionary
    np.testing.assert_allclose(run("atom", X, codes, end, precision).dictionary, end, atol=1e-8)


# -- replaced atoms ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ALL)
def test_unused_atoms_become_the_worst_represented_samples(name):
    X, codes, dictionary, precision = make_problem()
    dense = to_dense(codes, 10)
    dense[:, [2, 7]] = 0
    X[[5, 11]] *= 10  # badly represented, but no outliers of a hundred samples
    updated = run(name, X, make_codes(dense, 3), dictionary, precision)
    assert updated.replaced.tolist() == [2, 7]
    new_codes = to_dense(updated.codes, 10)
    assert not new_codes[:, [2, 7]].any()
    errors = ((X - new_codes @ updated.dictionary) ** 2).sum(axis=1)
    worst = np.argsort(-errors)[:2]
    np.testing.assert_allclose(
        updated.dictionary[[2, 7]], X[worst] / np.linalg.norm(X[worst], axis=1, keepdims=True), atol=1e-12
    )


def test_no_sample_becomes_two_atoms_and_zero_samples_none():
    X, codes, dictionary, precision = make_problem()
    dense = to_dense(codes, 10)
    dense[:, :3] = 0
    X[:5] = 50 * np.eye(7)[0]  # the worst five are one
    X[5:10], dense[5:10, 5] = 0, 100  # zero samples with enormous codes: their error is the largest of all
    updated = run("atom", X, make_codes(dense, 4), dictionary, precision)
    assert updated.replaced.tolist() == [0, 1, 2]
    coherence = np.abs(updated.dictionary[:3] @ updated.dictionary.T) - np.eye(3, 10)
    assert coherence.max() <= 0.99


def test_outliers_do_not_become_atoms():
    X, codes, dictionary, precision = make_problem(n_samples=200)
    dense = to_dense(codes, 10)
    dense[:, 2] = 0
    X[17] *= 1000
    dense[17] = 0
    codes = make_codes(dense, 3)
    outlier = X[17] / np.linalg.norm(X[17])
    careful = run(AtomUpdate(), X, codes, dictionary, precision)
    careless = run(AtomUpdate(outlier_fraction=0), X, codes, dictionary, precision)
    assert careful.replaced.tolist() == careless.replaced.tolist() == [2]
    np.testing.assert_allclose(careless.dictionary[2], outlier)
    assert abs(careful.dictionary[2] @ outlier) < 0.99


def make_duplicates():
    """Atoms 3 and 8 span the same line for any update, atom 8 used less."""
    X, codes, dictionary, precision = make_problem()
    dense = to_dense(codes, 10)
    only = np.arange(60) % 10 == 3
    dense[:, [3, 8]] = 0
    dense[only] = 0
    line = np.eye(7)[0]
    dense[only, 3] = 1
    few = np.flatnonzero(only)[:2]
    dense[few, 3], dense[few, 8] = 0, 1
    X[only] = line
    return X, make_codes(dense, 3), dictionary, precision, few


@pytest.mark.parametrize("name", ALL)
def test_near_duplicates_are_replaced_unless_the_update_is_monotone(name):
    *problem, few = make_duplicates()
    updated = run(name, *problem)
    if DICTIONARY_UPDATES.resolve(name).is_monotone:
        assert updated.replaced.size == 0
        assert abs(updated.dictionary[3] @ updated.dictionary[8]) > 0.99
        return
    assert updated.replaced.tolist() == [8]  # the one that is used less
    # Its users go to its twin, and their reconstructions stay: to drop their codes would cost more than a bad atom.
    handed = to_dense(updated.codes, 10)[few]
    np.testing.assert_allclose(handed[:, 3], 1)
    assert np.count_nonzero(handed) == len(few)
    assert np.abs(updated.dictionary[8] @ np.delete(updated.dictionary, 8, 0).T).max() <= 0.99


# -- initial dictionaries ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rng", [np.random.RandomState(0), np.random.default_rng(0)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("init", sorted(INITIAL_DICTIONARIES))
def test_initial_atoms_are_unit_vectors(init, dtype, rng):
    X = make_problem(dtype=dtype)[0]
    for n_components in (5, 150):
        atoms = init_dictionary(init, X, None, n_components, rng)
        assert atoms.dtype == dtype
        assert atoms.shape == (n_components, 7)
        np.testing.assert_allclose(np.linalg.norm(atoms, axis=1), 1, rtol=1e-6)
        assert np.abs(atoms @ atoms.T - np.eye(n_components)).max() < 1 - 1e-6


def source_rows(atoms, X):
    """The sample that each atom comes from."""
    similarity = atoms @ (X / np.linalg.norm(X, axis=1, keepdims=True)).T
    assert (similarity.max(axis=1) > 1 - 1e-9).all()
    return similarity.argmax(axis=1)


def test_sample_atoms_are_balanced_over_classes():
    X = make_problem(n_samples=100)[0]
    class_index = np.repeat([0, 1, 2], [80, 15, 5])
    rows = source_rows(init_dictionary("samples", X, class_index, 14, np.random.RandomState(0)), X)
    assert len(set(rows)) == 14
    assert sorted(np.bincount(class_index[rows])) == [4, 5, 5]
    rows = source_rows(init_dictionary("samples", X, class_index, 60, np.random.RandomState(0)), X)
    assert np.bincount(class_index[rows]).tolist() == [40, 15, 5]  # small classes give all they have


def test_every_class_is_equally_likely_to_get_the_odd_atom():
    X, class_index = make_problem()[0], np.repeat([0, 1, 2], 20)
    rng = np.random.RandomState(0)
    chosen = [class_index[source_rows(init_dictionary("samples", X, class_index, 1, rng), X)[0]] for _ in range(300)]
    assert np.bincount(chosen).min() > 70


def test_unlabelled_samples_come_last():
    X, class_index = make_problem()[0], np.repeat([-1, 0, 1], 20)
    rows = source_rows(init_dictionary("samples", X, class_index, 40, np.random.RandomState(0)), X)
    assert (class_index[rows] >= 0).all()
    rows = source_rows(init_dictionary("samples", X, class_index, 45, np.random.RandomState(0)), X)
    assert (class_index[rows] < 0).sum() == 5


def test_zero_and_repeated_samples_are_drawn_once_or_never():
    X = np.zeros((30, 4))
    X[10:20] = [1, 2, 3, 4]
    X[20:25] = [-2, -4, -6, -8]
    X[25:] = [4, 3, 2, 1]
    atoms = init_dictionary("samples", X, None, 6, np.random.RandomState(0))
    on_lines = np.abs(atoms @ np.array([[1, 2, 3, 4], [4, 3, 2, 1]]).T / np.sqrt(30)) > 1 - 1e-9
    assert on_lines.sum(axis=0).tolist() == [1, 1]
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=1), 1)
    all_zero = init_dictionary("samples", np.zeros((5, 4)), None, 3, np.random.RandomState(0))
    np.testing.assert_allclose(np.linalg.norm(all_zero, axis=1), 1)


def test_given_atoms_are_normalised_and_not_changed():
    X, given_atoms = np.zeros((5, 2), np.float32), np.array([[3.0, 4.0], [0.0, 1e-200]])
    atoms = init_dictionary(given_atoms, X, None, 2, np.random.RandomState(0))
    np.testing.assert_allclose(atoms, [[0.6, 0.8], [0, 1]], rtol=1e-6)
    assert atoms.dtype == np.float32
    assert given_atoms[0, 0] == 3


@pytest.mark.parametrize(
    ("init", "message"),
    [
        ("sample", "choose one of"),
        (np.ones((3, 2)), r"shape \(3, 2\).*n_components=2"),
        ([[1.0, 2.0], [np.nan, 1.0]], "Row 1 of init holds NaN"),
        ([[1.0, 2.0], [0.0, 0.0]], "Row 1 of init is zero"),
    ],
)
def test_bad_initial_dictionaries_are_refused(init, message):
    with pytest.raises(ValueError, match=message):
        init_dictionary(init, np.ones((4, 2)), None, 2, np.random.RandomState(0))


# -- resolve and check ---------------------------------------------------------------------------------------------


def test_integer_samples_are_refused():
    X, codes, dictionary, precision = make_problem()
    with pytest.raises(TypeError, match="float32 or float64"):
        run("atom", X.astype(int), codes, dictionary, precision)


# -- the kernels' slow twins ---------------------------------------------------------------------------------------


@st.composite
def kernel_problems(draw):
    n_samples, n_features = draw(st.integers(1, 9)), draw(st.integers(1, 19))
    n_components = draw(st.integers(1, 6))
    n_places = draw(st.integers(1, n_components))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    dense = rng.standard_normal((n_samples, n_components))
    rank = rng.standard_normal(dense.shape).argsort(axis=1).argsort(axis=1)
    dense[rank >= rng.integers(0, n_places + 1, (n_samples, 1))] = 0  # rows of every length, empty ones too
    dictionary = rng.standard_normal((n_components, n_features))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    X = rng.standard_normal((n_samples, n_features))
    weights = rng.uniform(0.1, 1, n_samples)
    weights[rng.random(n_samples) < 0.1] = 0
    dense, dictionary, X, weights = (array.astype(dtype) for array in (dense, dictionary, X, weights))
    return X, dense, make_codes(dense, n_places), dictionary, weights


def close(actual, expected):
    tolerance = 2e-4 if actual.dtype == np.float32 else 1e-10
    np.testing.assert_allclose(actual, expected, atol=tolerance, rtol=tolerance)


kernel_settings = settings(max_examples=60, deadline=None, derandomize=True)


@kernel_settings
@given(kernel_problems(), st.integers(0, 19))
def test_add_data_sums_twin(problem, cut):
    X, dense, codes, dictionary, weights = problem
    cut = min(cut, X.shape[1])
    data_sums = np.zeros_like(dictionary)
    kernel.add_data_sums(X, *codes, weights, 0, cut, data_sums)
    kernel.add_data_sums(X, *codes, weights, cut, X.shape[1], data_sums)
    close(data_sums, (weights[:, None] * dense).T @ X)


@kernel_settings
@given(kernel_problems())
def test_add_code_gram_twin(problem):
    _, dense, codes, dictionary, weights = problem
    code_gram = np.zeros((len(dictionary), len(dictionary)))
    kernel.add_code_gram(*codes, weights, code_gram)
    np.testing.assert_allclose(code_gram, (weights[:, None] * dense).T @ dense, atol=1e-5)


def index_users(codes, n_components):
    starts, users = np.zeros(n_components + 1, np.int64), np.zeros(codes.values.size, np.int64)
    kernel.index_users(*codes, starts, users)
    return starts, users


@kernel_settings
@given(kernel_problems())
def test_index_users_twin(problem):
    _, dense, codes, dictionary, _ = problem
    starts, users = index_users(codes, len(dictionary))
    for k in range(len(dictionary)):
        assert users[starts[k] : starts[k + 1]].tolist() == np.flatnonzero(dense[:, k]).tolist()


@kernel_settings
@given(kernel_problems())
def test_sweep_ksvd_twin(problem):
    X, dense, codes, dictionary, _ = problem
    n_components, n_features = dictionary.shape
    expected_atoms, expected_codes = naive_ksvd(
        *(a.astype(np.float64) for a in (X, dense, dictionary)), np.ones(len(X))
    )
    atoms, values = dictionary.copy(), codes.values.copy()
    vectors = (np.empty(size, X.dtype) for size in (n_features, max(n_components, len(X)), n_components))
    workspace = *vectors, np.full(n_components, -1, np.int64), np.empty(n_components, np.int64)
    data_sums = (dense.T @ X).astype(X.dtype)
    kernel.sweep_ksvd(X, data_sums, *index_users(codes, n_components), codes.indices, values, atoms, *workspace)
    residuals = X - to_dense(RowCodes(codes.indices, values), n_components) @ atoms
    # Errors agree even where an atom's direction is almost undetermined; directions where it is not.
    close(np.sum(residuals**2), np.sum((X - expected_codes @ expected_atoms) ** 2))
    if X.dtype == np.float64 and n_features > 1:
        np.testing.assert_allclose(atoms, expected_atoms, atol=1e-6)


@kernel_settings
@given(kernel_problems())
def test_sweep_atoms_twin(problem):
    X, dense, _, dictionary, weights = (a.astype(np.float64) if isinstance(a, np.ndarray) else a for a in problem)
    weights = weights + 0.1
    n_components, n_features = dictionary.shape
    expected, _ = naive_ksvd(X, dense, dictionary, weights, updates_codes=False)
    atoms, weighted = dictionary.copy(), weights[:, None] * dense
    workspace = np.empty(n_features), np.empty(n_components), np.empty(n_components, np.int64)
    kernel.sweep_atoms(weighted.T @ dense, weighted.T @ X, atoms, *workspace)
    np.testing.assert_allclose(atoms, expected, atol=1e-6)


@kernel_settings
@given(kernel_problems())
def test_measure_errors_twin(problem):
    X, dense, codes, dictionary, _ = problem
    errors = np.empty(len(X), X.dtype)
    measure_errors(X, *codes, dictionary, np.empty(X.shape[1], X.dtype), errors)
    close(errors, ((X - dense @ dictionary) ** 2).sum(axis=1))


def test_first_atoms_are_not_close_to_each_other_while_there_are_others():
    # K-SVD replaces near-duplicates, and to replace dozens of them in its first sweep raised the objective.
    rng = np.random.default_rng(0)
    X = np.repeat(normalise(rng.standard_normal((40, 20))), 4, axis=0) + 1e-3 * rng.standard_normal((160, 20))

    def largest_coherence(n_components):
        atoms = init_dictionary("samples", X, np.arange(160) % 2, n_components, np.random.RandomState(0))
        assert len(atoms) == n_components
        return np.abs(np.triu(atoms @ atoms.T, 1)).max()

    assert largest_coherence(40) <= 0.99
    assert largest_coherence(41) > 0.99  # there are no others left
    samples = normalise(X)
    atoms = init_dictionary("samples", X, None, 160, np.random.RandomState(0))
    np.testing.assert_allclose((atoms @ samples.T).max(axis=1), 1)  # samples, and no combinations of them


@pytest.mark.parametrize(("dtype", "exponents"), [(np.float32, (-42, 26, 40)), (np.float64, (-330, 250, 400))])
@pytest.mark.parametrize("name", sorted(set(DICTIONARY_UPDATES) - {"exact_ksvd"}))  # whose singular vectors round
def test_units_do_not_matter(name, dtype, exponents):
    # Directions have the units of squared samples; their squares were out of range at 1e9 in single precision.
    rng = np.random.default_rng(0)
    X, dictionary = rng.standard_normal((60, 8)).astype(dtype), normalise(rng.standard_normal((12, 8))).astype(dtype)
    codes = RowCodes(np.sort(rng.permuted(np.tile(np.arange(12, dtype=np.int32), (60, 1)), axis=1)[:, :3], axis=1),
                     rng.standard_normal((60, 3)).astype(dtype))  # fmt: skip
    expected = DICTIONARY_UPDATES[name]().update(X, codes, dictionary, np.ones(60))
    for exponent in exponents:
        unit = dtype(2) ** dtype(exponent)
        scaled = RowCodes(codes.indices, codes.values * unit)
        updated = DICTIONARY_UPDATES[name]().update(X * unit, scaled, dictionary, np.ones(60) / float(unit) ** 2)
        np.testing.assert_array_equal(updated.dictionary, expected.dictionary)
        np.testing.assert_array_equal(updated.codes.values, expected.codes.values * unit)
