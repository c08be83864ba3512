"""Parts in this process: their attributes, and ranks and medians that are those of NumPy on all numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from ddlearn.parallel import Parts, find_median, select_ranks


def test_parts_and_their_attributes_are_gathered():
    parts = Parts([1 + 2j, 3 - 1j])
    assert parts.gather() == [1 + 2j, 3 - 1j]
    assert parts.gather("imag") == [2, -1]


DTYPES = [np.float32, np.float64]


def draw_numbers(dtype):
    return arrays(
        dtype,
        st.integers(1, 40),
        elements=st.floats(0, float(np.finfo(dtype).max), width=8 * np.dtype(dtype).itemsize, allow_subnormal=True),
    )


@pytest.mark.parametrize("dtype", DTYPES)
@given(data=st.data())
def test_every_rank_is_that_of_the_sorted_numbers(dtype, data):
    numbers = data.draw(draw_numbers(dtype))
    cut = data.draw(st.integers(0, len(numbers)))
    parts = Parts([numbers[:cut], numbers[cut:]])
    found = select_ranks(parts, list(range(len(numbers))), numbers.dtype)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.sort(numbers))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n_left_out", [0, 1, 2])
@pytest.mark.parametrize("n_numbers", [3, 4, 9, 100])
def test_the_median_is_numpys(dtype, n_left_out, n_numbers):
    numbers = np.random.default_rng(0).standard_exponential(n_numbers).astype(dtype)
    parts = Parts([numbers[: n_numbers // 3], numbers[n_numbers // 3 :]])
    expected = np.median(np.sort(numbers)[n_left_out:].astype(np.float64))
    largest_left_out = np.sort(numbers)[n_left_out - 1] if n_left_out else 0.0
    share = float(largest_left_out) / float(numbers.max()) * (1 + 1e-6)
    assert find_median(parts, n_numbers, numbers.dtype, share) == expected


def test_the_median_of_nothing_is_nan():
    assert np.isnan(find_median(Parts([np.zeros(3)]), 3, np.dtype(float), 1e-16))
