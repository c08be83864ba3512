"""The elastic-net kernel against plain coordinate descent on dense matrices, and against its optimality conditions."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import normalise
from hypothesis import given
from hypothesis import strategies as st

from ddlearn.kernels.elastic_net import make_elastic_net_workspace, solve_elastic_net_rows
from ddlearn.model.codes import RowCodes

PIVOT_FLOOR = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}


def solve(Q, c, l1, l2, is_positive=False, n_passes=300):
    """Coordinate descent on x'Qx/2 - c'x + l1 |x|_1 + l2 x'x/2, atom by atom."""
    x = np.zeros(len(c))
    for _ in range(n_passes):
        before = x.copy()
        for k in range(len(c)):
            if Q[k, k] + l2 <= 0:
                continue
            slope = c[k] - Q[k] @ x + Q[k, k] * x[k]
            shrunk = np.sign(slope) * max(abs(slope) - l1, 0)
            x[k] = (max(shrunk, 0) if is_positive else shrunk) / (Q[k, k] + l2)
        if np.abs(x - before).max() <= 1e-14:
            break
    return x  # or near it: atoms that are alike take many passes


def measure(Q, c, x, l1, l2):
    return x @ Q @ x / 2 - c @ x + l1 * np.abs(x).sum() + l2 * x @ x / 2


class Rows:
    """Row problems with classes and directions."""

    def __init__(self, n_rows, n_atoms, n_features, n_classes, n_directions, rng, dtype=np.float64):
        atoms = normalise(rng.standard_normal((n_atoms, n_features)))
        samples = normalise(rng.standard_normal((n_rows, n_features)))
        self.coef = rng.standard_normal((n_classes, n_atoms)).astype(dtype)
        self.weight = (rng.random((n_rows, n_classes)) * (rng.random((n_rows, n_classes)) < 0.7)).astype(dtype)
        self.pull = (self.weight * rng.standard_normal((n_rows, n_classes))).astype(dtype)
        basis = np.linalg.qr(rng.standard_normal((n_rows, n_features, n_directions)))[0]
        n_directions = basis.shape[2]
        self.directions = (basis.mT @ atoms.T).reshape(-1, n_atoms).astype(dtype)
        inside = samples - (basis @ (basis.mT @ samples[:, :, None]))[:, :, 0]
        self.gram, self.correlations = (atoms @ atoms.T).astype(dtype), (inside @ atoms.T).astype(dtype)
        self.energies = np.vecdot(inside, inside).astype(dtype)
        self.atoms = atoms.astype(dtype)
        self.n_directions = n_directions

    def dense(self, i):
        own = self.directions[i * self.n_directions : (i + 1) * self.n_directions].astype(np.float64)
        coef = self.coef.astype(np.float64)
        Q = self.gram + coef.T @ (self.weight[i][:, None] * coef) - own.T @ own
        return Q, self.correlations[i] + coef.T @ self.pull[i]

    def measure(self, codes, l1, l2):
        """Return F of each row."""
        x = codes.to_csr(len(self.gram)).toarray()
        return np.array([measure(*self.dense(i), own, l1, l2) for i, own in enumerate(x)])

    def solve(self, l1, l2, is_positive=False, tol=1e-12, budget=None, start=None, max_rounds=1000, features=False):
        n_rows, n_atoms = self.correlations.shape
        dtype = self.gram.dtype
        codes = RowCodes.empty(n_rows, budget or n_atoms, dtype) if start is None else start
        gaps = np.full(n_rows, np.nan, dtype)
        atoms = np.empty((n_atoms, 0), dtype)
        if features:
            atoms = np.hstack([self.atoms, np.full_like(self.coef.T, np.nan)])
        arguments = self.gram, self.correlations, self.coef, self.weight, self.pull, self.directions
        kept = [argument.copy() for argument in arguments]  # for arrays marked as read-only it would be compiled again
        bits = np.iinfo(np.int64 if dtype == np.float64 else np.int32)
        sizes = codes.indices.shape[1], n_atoms, len(self.coef), self.n_directions, atoms.shape[1]
        solve_elastic_net_rows(
            *arguments,
            atoms,
            np.ascontiguousarray(atoms.T),
            self.energies,
            dtype.type(l1),
            dtype.type(l2),
            is_positive,
            (tol * self.energies).astype(dtype),
            max_rounds,
            dtype.type(PIVOT_FLOOR[dtype]),
            dtype.type(4 * np.finfo(dtype).eps),
            bits.dtype.type(-1 if is_positive else bits.max),
            bits.dtype.type((1 << n_atoms.bit_length()) - 1),
            make_elastic_net_workspace(*sizes, dtype),
            *codes,
            gaps,
        )
        for argument, before in zip(arguments, kept, strict=True):
            np.testing.assert_array_equal(argument, before)
        return codes, gaps


@given(
    n_rows=st.integers(1, 3),
    n_atoms=st.sampled_from([1, 2, 5, 11, 20, 66]),
    n_features=st.integers(1, 12),
    n_classes=st.integers(0, 3),
    n_directions=st.integers(0, 2),
    penalties=st.sampled_from([(0.1, 0.05), (0.3, 0.0), (0.03, 0.001), (0.02, 0.5)]),
    is_positive=st.booleans(),
    seed=st.integers(0, 999),
)
def test_codes_are_no_worse_than_those_of_coordinate_descent_and_the_gap_says_so(
    n_rows, n_atoms, n_features, n_classes, n_directions, penalties, is_positive, seed
):
    rows = Rows(n_rows, n_atoms, n_features, n_classes, n_directions, np.random.default_rng(seed))
    codes, gaps = rows.solve(*penalties, is_positive)
    assert not (is_positive and (codes.values < 0).any())
    for i, found in enumerate(rows.measure(codes, *penalties)):
        expected = solve(*rows.dense(i), *penalties, is_positive, n_passes=20)
        assert found <= measure(*rows.dense(i), expected, *penalties) + 1e-12
    assert (gaps <= 1e-10).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("is_positive", [False, True])
@pytest.mark.parametrize("l2", [0.05, 0.0])
def test_optimality_conditions_hold(dtype, is_positive, l2):
    l1 = 0.05
    rows = Rows(20, 130, 20, 3, 2, np.random.default_rng(0), dtype)
    codes, _ = rows.solve(l1, l2, is_positive)
    x = codes.to_csr(130).toarray().astype(np.float64)
    atol = 1e-4 if dtype == np.float32 else 1e-10
    for i in range(20):
        Q, c = rows.dense(i)
        slope = c - Q @ x[i] - l2 * x[i]
        used = x[i] != 0
        np.testing.assert_allclose(slope[used], l1 * np.sign(x[i][used]), atol=atol)
        assert (slope if is_positive else np.abs(slope))[~used].max() <= l1 + atol


def make_alike(n_rows, n_atoms, n_features, rng, dtype=np.float64, n_classes=0):
    """Return rows of positive samples and atoms that are alike, as spectra are: many atoms share in a code."""
    rows = Rows(n_rows, n_atoms, n_features, n_classes, 0, rng, dtype)
    drawn = rng.gamma(2, 1, (n_rows + n_atoms, 3)) @ rng.uniform(0.5, 1.5, (3, n_features))
    drawn = normalise(drawn + 0.02 * drawn.mean() * rng.standard_normal(drawn.shape))
    samples, rows.atoms = drawn[:n_rows].astype(dtype), drawn[n_rows:].astype(dtype)
    rows.gram, rows.correlations = rows.atoms @ rows.atoms.T, samples @ rows.atoms.T
    rows.energies = np.vecdot(samples, samples)
    return rows


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("is_positive", [False, True])
@pytest.mark.parametrize("n_classes", [0, 3])
@pytest.mark.parametrize("penalties", [(0.05, 0.05), (0.005, 0.005), (0.0005, 0.0005)])
def test_in_terms_of_features_the_codes_are_the_same(penalties, n_classes, is_positive, dtype):
    # Coordinate descent crawled here, at 64 times the time of a homotopy: nearly all atoms are alike.
    rows = make_alike(20, 150, 12, np.random.default_rng(0), dtype, n_classes)
    tol = 1e-12 if dtype == np.float64 else 1e-5
    codes, gaps = rows.solve(*penalties, is_positive, tol, features=True)
    expected, _ = rows.solve(*penalties, is_positive, tol)
    assert (np.count_nonzero(codes.values, axis=1) > 12).any()  # or features have not been used
    assert (gaps <= tol * rows.energies).all()
    x, y = (some.to_csr(150).toarray() for some in (codes, expected))
    if dtype == np.float64:
        np.testing.assert_allclose(x, y, atol=1e-8)
        np.testing.assert_array_equal(x != 0, y != 0)
    assert (rows.measure(codes, *penalties) <= rows.measure(expected, *penalties) + 10 * tol).all()


def test_in_single_precision_features_meet_the_gap_without_a_further_round():
    # Rounded slopes made the gap of the atoms look too large, and rounds on more atoms than features followed.
    rows = make_alike(20, 150, 12, np.random.default_rng(0), np.float32)
    codes, _ = rows.solve(0.05, 0.05, tol=1e-5, features=True)
    again, gaps = rows.solve(0.05, 0.05, tol=1e-5, start=codes, max_rounds=1, features=True)
    is_in_features = np.count_nonzero(again.values, axis=1) > 12
    assert is_in_features.any()
    assert (gaps <= 1e-5 * rows.energies)[is_in_features].all()


def test_a_code_that_has_no_room_is_not_found_in_terms_of_features():
    rows = make_alike(20, 150, 12, np.random.default_rng(0))
    expected, _ = rows.solve(0.05, 0.05, budget=20)
    codes, _ = rows.solve(0.05, 0.05, budget=20, features=True)
    assert (rows.measure(codes, 0.05, 0.05) <= rows.measure(expected, 0.05, 0.05) + 1e-9).all()


@pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-3])
def test_the_gap_bounds_the_distance_from_the_minimum(tol):
    rows = Rows(30, 60, 20, 0, 0, np.random.default_rng(1))
    rough, gaps = rows.solve(0.1, 0.05, tol=tol)
    exact, _ = rows.solve(0.1, 0.05, tol=1e-14)
    assert (gaps <= tol * rows.energies).all()
    excess = rows.measure(rough, 0.1, 0.05) - rows.measure(exact, 0.1, 0.05)
    assert (excess <= gaps + 1e-12).all()
    assert excess.max() > 1e-8  # or nothing has been shown


@pytest.mark.parametrize("is_positive", [False, True])
def test_twins_and_more_atoms_than_features_do_not_stop_it(is_positive):
    # The linear systems are singular then; moves along the dependence must end at a vertex.
    rows = Rows(20, 60, 10, 0, 0, np.random.default_rng(2))
    atoms = np.arange(60) % 30
    rows.gram = np.ascontiguousarray(rows.gram[np.ix_(atoms, atoms)])
    rows.correlations = np.ascontiguousarray(rows.correlations[:, atoms])
    codes, gaps = rows.solve(1e-3, 0.0, is_positive)
    assert (gaps <= 1e-10).all()
    assert (np.count_nonzero(codes.values, axis=1) <= 10).all()


def test_where_a_row_starts_does_not_matter():
    rows = Rows(10, 40, 20, 2, 1, np.random.default_rng(3))
    expected, _ = rows.solve(0.1, 0.05)
    other, _ = Rows(10, 40, 20, 2, 1, np.random.default_rng(4)).solve(0.02, 0.0)
    codes, _ = rows.solve(0.1, 0.05, start=RowCodes(other.indices.copy(), other.values.copy()))
    np.testing.assert_allclose(codes.to_csr(40).toarray(), expected.to_csr(40).toarray(), atol=1e-10)
    kept, _ = rows.solve(0.1, 0.05, start=RowCodes(expected.indices.copy(), expected.values.copy()), max_rounds=1)
    np.testing.assert_array_equal(kept.values, expected.values)


def test_negative_coefficients_to_start_from_are_dropped_where_none_may_be():
    rows = Rows(10, 40, 20, 0, 0, np.random.default_rng(5))
    expected, _ = rows.solve(0.1, 0.05, is_positive=True)
    signed, _ = rows.solve(0.1, 0.05)
    assert (signed.values < 0).any()
    codes, _ = rows.solve(0.1, 0.05, is_positive=True, start=signed)
    np.testing.assert_allclose(codes.to_csr(40).toarray(), expected.to_csr(40).toarray(), atol=1e-10)


@pytest.mark.parametrize(
    ("n_classes", "n_directions", "budget"),
    [(2, 0, 1), (2, 0, 3), (4, 3, 1)],  # with more classes and directions than room it wrote behind the end of an array
)
def test_a_budget_that_is_too_small_is_kept_and_what_is_in_it_is_optimal(n_classes, n_directions, budget):
    rows = Rows(20, 40, 20, n_classes, n_directions, np.random.default_rng(6))
    rows.weight = np.maximum(rows.weight, 0.1)
    codes, _ = rows.solve(0.02, 0.01, budget=budget)
    for i in range(20):
        Q, c = rows.dense(i)
        used = codes.indices[i][codes.values[i] != 0]
        expected = solve(Q[np.ix_(used, used)], c[used], 0.02, 0.01)
        np.testing.assert_allclose(codes.values[i][: len(used)], expected, atol=1e-8)


def test_zero_atoms_and_zero_samples_get_nothing():
    rows = Rows(3, 8, 5, 0, 0, np.random.default_rng(7))
    rows.gram[2] = rows.gram[:, 2] = rows.correlations[:, 2] = 0
    rows.correlations[0], rows.energies[0] = 0, 0
    codes, gaps = rows.solve(0.1, 0.0)
    assert not codes.values[0].any()
    assert 2 not in codes.indices[codes.values != 0]
    assert np.isfinite(gaps).all()
