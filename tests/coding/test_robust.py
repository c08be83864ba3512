"""What may be wrong with a test sample: planted errors are found, what is right is not touched; budgets and masks."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from conftest import normalise

from ddlearn import ORMP, AlternatingErrors, GreedyErrors, Robustness, sparse_encode
from ddlearn.coding.encoder import Encoder
from ddlearn.coding.masked import MaskedCoder, MaskedFit
from ddlearn.coding.robust import (
    ERROR_SEARCHES,
    ROBUSTNESS,
    RobustCoder,
    check_error_budget,
    check_mask,
    find_right,
    measure_spread,
)

every_search = pytest.mark.parametrize(
    "search", [search() for search in ERROR_SEARCHES.values()], ids=list(ERROR_SEARCHES)
)


def plant(n_wrong, seed=0, n_samples=30, n_features=200, n_components=60, n_nonzero_coefs=4, noise=0.0):
    """Samples that are sparse in a random dictionary, with some features far off."""
    rng = np.random.default_rng(seed)
    dictionary = normalise(rng.standard_normal((n_components, n_features)))
    codes, error = np.zeros((n_samples, n_components)), np.zeros((n_samples, n_features))
    for row in range(n_samples):
        atoms = rng.choice(n_components, n_nonzero_coefs, replace=False)
        codes[row, atoms] = rng.choice([-1, 1], n_nonzero_coefs) * (1 + rng.random(n_nonzero_coefs))
        features = rng.choice(n_features, n_wrong, replace=False)
        error[row, features] = rng.choice([-1, 1], n_wrong) * (1 + rng.random(n_wrong))
    X = codes @ dictionary + error + noise * rng.standard_normal(error.shape)
    return X, dictionary, codes, error


class Found(NamedTuple):
    fit: MaskedFit
    is_kept: np.ndarray
    is_wrong: np.ndarray


def find(search, X, dictionary, budget, *, n_nonzero_coefs=4, is_known=None, noise_scale=0.0):
    coder = MaskedCoder(Encoder.of(dictionary, ORMP(), n_nonzero_coefs))
    is_known = np.ones(X.shape, bool) if is_known is None else is_known
    return Found(*search.find(coder, X, is_known, np.full(len(X), budget), noise_scale))


@pytest.mark.parametrize(
    ("search", "n_wrong"),
    [(AlternatingErrors(), 1), (AlternatingErrors(), 30), (GreedyErrors(), 1), (GreedyErrors(), 10)],
)
def test_planted_errors_and_codes_are_recovered_exactly(search, n_wrong):
    X, dictionary, codes, error = plant(n_wrong)
    found = find(search, X, dictionary, budget=40)
    np.testing.assert_array_equal(found.is_wrong, error != 0)
    np.testing.assert_allclose(found.fit.codes.to_csr(60).toarray(), codes, atol=1e-10)
    np.testing.assert_allclose(np.where(found.is_wrong, found.fit.residuals, 0), error, atol=1e-10)


def test_alternating_finds_errors_in_four_of_ten_features_that_greedy_cannot():
    X, dictionary, codes, error = plant(80)
    found, greedy = (find(search, X, dictionary, budget=100) for search in (AlternatingErrors(), GreedyErrors()))
    is_recovered, is_recovered_greedily = (
        np.isclose(result.fit.codes.to_csr(60).toarray(), codes, atol=1e-8).all(axis=1) for result in (found, greedy)
    )
    assert is_recovered.mean() > 0.9
    assert is_recovered_greedily.mean() < 0.1
    np.testing.assert_array_equal(found.is_wrong[is_recovered], error[is_recovered] != 0)


@every_search
def test_no_budget_is_plain_coding_bitwise(search):
    X, dictionary, _, _ = plant(10)
    found = find(search, X, dictionary, budget=0)
    expected = sparse_encode(X, dictionary, n_nonzero_coefs=4, method="ormp")
    np.testing.assert_array_equal(found.fit.codes.to_csr(60).toarray(), expected.toarray())
    assert not found.is_wrong.any()
    assert found.is_kept.all()


@every_search
@pytest.mark.parametrize("budget", [1, 5, 150])
def test_the_budget_is_kept(search, budget):
    X, dictionary, _, _ = plant(30, noise=0.1)
    found = find(search, X, dictionary, budget=budget)
    assert found.is_wrong.sum(axis=1).max() <= budget
    assert (~found.is_kept).sum(axis=1).max() <= budget


@every_search
def test_features_that_are_missing_are_neither_used_nor_wrong(search):
    X, dictionary, codes, error = plant(10)
    is_known = np.random.default_rng(1).random(X.shape) > 0.2
    found = find(search, np.where(is_known, X, 1e6), dictionary, budget=30, is_known=is_known)
    assert not (found.is_wrong & ~is_known).any()
    assert not (found.is_kept & ~is_known).any()
    np.testing.assert_allclose(found.fit.codes.to_csr(60).toarray(), codes, atol=1e-10)
    np.testing.assert_array_equal(found.is_wrong, (error != 0) & is_known)


@every_search
def test_noise_of_the_training_samples_is_no_error(search):
    X, dictionary, _, _ = plant(0, noise=0.05)
    found = find(search, X, dictionary, budget=40, noise_scale=0.1)
    assert found.is_wrong.mean() < 0.002


@every_search
def test_errors_scale_with_the_samples(search):
    X, dictionary, _, _ = plant(10, noise=0.02)
    once, twice = (find(search, factor * X, dictionary, budget=30, noise_scale=factor * 0.02) for factor in (1, 2))
    np.testing.assert_array_equal(once.is_wrong, twice.is_wrong)
    np.testing.assert_allclose(2 * once.fit.codes.values, twice.fit.codes.values, rtol=1e-10)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5])
def test_spread_is_that_of_right_features_whatever_the_wrong_ones_do(share):
    rng = np.random.default_rng(0)
    residuals = rng.standard_normal((5, 4000))
    budget = int(share * 4000)
    residuals[:, :budget] = 1e6
    spread = measure_spread(residuals, residuals, np.ones(residuals.shape, bool), np.full(5, budget), 0.0)
    # With no wrong feature the estimate is the standard deviation; a share b of them moves it by at most the factor
    # of the quantiles (1 - b)/2 of all and 1/2 of the right ones, which is 2.2 for a half.
    assert (spread > 0.9).all()
    assert (spread < 0.1 + {0.0: 1.0, 0.2: 1.35, 0.5: 2.2}[share]).all()


def test_the_largest_residuals_are_wrong_and_no_more_than_the_budget():
    residuals = np.array([[0.1, -5.0, 3.0, 0.2, 7.0]])
    known = np.ones((1, 5), bool)
    budget, limit = np.array([2]), np.array([1.0])
    np.testing.assert_array_equal(find_right(residuals, known, budget, limit), [[True, False, True, True, False]])
    known[0, 4] = False
    np.testing.assert_array_equal(find_right(residuals, known, budget, limit), [[True, False, False, True, False]])


def make_coder(robustness, noise_scale=0.0):
    rng = np.random.default_rng(0)
    dictionary = normalise(rng.standard_normal((30, 20)))
    return RobustCoder(Encoder.of(dictionary, ORMP(), 3), robustness, noise_scale)


def draw(n_rows=8):
    return np.random.default_rng(1).standard_normal((n_rows, 20))


def test_a_mask_and_nan_mark_missing_features_alike():
    X, mask = draw(), np.random.default_rng(2).random((8, 20)) < 0.3
    with_nan = np.where(mask, np.nan, X)
    by_mask, by_nan = make_coder(Robustness()), make_coder(Robustness(missing="mask"))
    for samples, is_known in (by_mask.find_known(X, mask), by_nan.find_known(with_nan, None)):
        np.testing.assert_array_equal(is_known, ~mask)
        np.testing.assert_array_equal(samples, np.where(mask, 0, X))
    # Without robustness, NaN is not missing, so that it is found to be an error.
    assert by_mask.find_known(with_nan, None)[1].all()


@pytest.mark.parametrize(
    ("budget", "expected"), [(3, [3, 3, 0]), (0.3, [6, 3, 0]), (0.29999, [5, 2, 0]), (19, [19, 9, 0])]
)
def test_a_budget_is_a_number_of_features_or_a_share_of_the_known_ones_and_leaves_one(budget, expected):
    # Of the last of the three rows no feature is known.
    is_known = np.arange(20) < np.array([20, 10, 0])[:, None]
    found = make_coder(Robustness(budget), noise_scale=1e-9).code(np.where(is_known, draw(3), 0), is_known)
    assert ((~found.is_kept & is_known).sum(axis=1) <= expected).all()
    residuals = np.tile(np.arange(1.0, 21.0), (3, 1))
    residuals[:2, :10] = np.random.default_rng(0).permuted(residuals[:2, :10], axis=1)
    cost = make_coder(Robustness(budget)).measure_cost(residuals, is_known)
    for row, (n_known, n_left_out) in enumerate(zip([20, 10, 0], expected, strict=True)):
        kept = np.arange(1.0, n_known - n_left_out + 1)
        assert cost[row] == pytest.approx(np.sum(kept**2) * 20 / max(n_known, 1))


@pytest.mark.parametrize(
    ("robustness", "message"),
    [
        (Robustness(20), "error_budget=20 leaves none of the 20 features to be right"),
        (Robustness(1.0), "error_budget=1.0 is a fraction of the features and must be below 1"),
        (Robustness(-1), "error_budget must be a number of features .* got -1"),
        (Robustness(float("nan")), "error_budget must be a number of features .* got nan"),
        (Robustness(float("inf")), "error_budget=inf is a fraction of the features"),
        (Robustness("all"), "error_budget must be a number of features .* got 'all'"),
        (Robustness(True), "error_budget must be a number of features .* got True"),
        (Robustness(missing="ignore"), r"missing='ignore' is not known; choose one of \['error', 'mask'\]"),
        (Robustness(error_search="magic"), "'magic' is not a known error search"),
        (Robustness(error_search=AlternatingErrors(trim=float("nan"))), "trim must be a number of at least 0, got nan"),
        (Robustness(error_search=AlternatingErrors(threshold=-2)), "threshold must be a number of at least 0, got -2"),
        (Robustness(error_search=AlternatingErrors(max_iter=1.5)), "max_iter must be an integer of at least 0"),
        (Robustness(error_search=AlternatingErrors(trim="a")), "trim must be a number of at least 0, got 'a'"),
        (Robustness(error_search=GreedyErrors(threshold=-5)), "threshold must be a number of at least 0, got -5"),
    ],
    ids=str,
)
def test_parameters_that_cannot_be_are_refused(robustness, message):
    with pytest.raises(ValueError, match=message):
        check_error_budget(ROBUSTNESS.resolve(robustness).error_budget, 20)


def test_a_mask_may_be_that_of_one_sample():
    assert check_mask(None, (3, 4)) is None
    one = np.array([True, False, False, True])
    np.testing.assert_array_equal(check_mask(one, (3, 4)), np.tile(one, (3, 1)))
