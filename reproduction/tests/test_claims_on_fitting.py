"""What the claims on the fit count and compare."""

from __future__ import annotations

import numpy as np
from reproduction.claims_on_fitting import compare_dictionaries, count_iterations


def test_iterations_are_counted_to_where_the_slower_start_is_after_twenty():
    slow, quick = [float(30 - n) for n in range(25)], [float(30 - 3 * n) for n in range(25)]
    result = {"samples": {"objective": quick}, "gaussian": {"objective": slow}}
    assert count_iterations(result, "gaussian") == 20
    assert count_iterations(result, "samples") == 7  # 30 - 3 * 7 = 9 is the first not above 10


def test_dictionaries_are_compared_up_to_order_and_sign():
    atoms = np.eye(4)[:3]
    assert compare_dictionaries(atoms, -atoms[::-1]) == 1
    assert compare_dictionaries(atoms, np.eye(4)[3:]) == 0
