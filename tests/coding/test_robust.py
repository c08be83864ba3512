"""What may be wrong with a test sample: budgets, masks, and the cost that registration lowers."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import normalise

from ddlearn import ORMP, Robustness, sparse_encode
from ddlearn.coding.encoder import Encoder
from ddlearn.coding.masked import MaskedCoder
from ddlearn.coding.robust import ROBUSTNESS, RobustCoder, check_error_budget, check_mask


def make_coder(robustness, noise_scale=0.0):
    rng = np.random.default_rng(0)
    dictionary = normalise(rng.standard_normal((30, 20)))
    return RobustCoder(MaskedCoder(Encoder.of(dictionary, ORMP(), 3)), robustness, noise_scale)


def draw(n_rows=8):
    return np.random.default_rng(1).standard_normal((n_rows, 20))


def test_complete_samples_without_a_budget_are_coded_as_by_sparse_encode_bitwise():
    coder, X = make_coder(Robustness()), draw()
    coded = coder.code(X, np.ones(X.shape, bool))
    expected = sparse_encode(X, coder.coder.encoder.dictionary, n_nonzero_coefs=3, method="ormp")
    np.testing.assert_array_equal(coded.codes.to_csr(30).toarray(), expected.toarray())
    assert coded.is_kept.all()
    assert not coded.is_wrong.any()


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
        (Robustness("all"), "error_budget must be a number of features .* got 'all'"),
        (Robustness(True), "error_budget must be a number of features .* got True"),
        (Robustness(missing="ignore"), r"missing='ignore' is not known; choose one of \['error', 'mask'\]"),
        (Robustness(error_search="magic"), "'magic' is not a known error search"),
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
    for wrong in (np.zeros(3, bool), np.zeros((3, 4)), np.zeros((4, 3), bool)):
        with pytest.raises(ValueError, match=r"mask must be True where a feature is missing, .* \(3, 4\)"):
            check_mask(wrong, (3, 4))
