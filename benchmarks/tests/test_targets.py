"""A target is met by the same work in less time."""

from __future__ import annotations

import pytest
from benchmarks.contenders import CONTENDERS
from benchmarks.targets import TARGETS, Cell, judge


def _measured(seconds, residual):
    return {"seconds": seconds, "grade": {"mean_squared_residual": residual}, "others_cores": None}


def test_targets_name_contenders():
    assert {name for target in TARGETS for name in (target.numerator, target.denominator)} <= set(CONTENDERS)


@pytest.mark.parametrize(
    ("spams_seconds", "our_residual", "verdict"),
    [(2.5, 0.1, "met"), (2.4, 0.1, "missed"), (9.0, 0.2, "solves less")],
)
def test_a_target_is_met_only_by_the_same_work_in_less_time(spams_seconds, our_residual, verdict):
    measurements = {
        Cell("usps-300-3", "float64", 2, "ormp"): _measured(1.0, our_residual),
        Cell("usps-300-3", "float64", 2, "spams"): _measured(spams_seconds, 0.1),
        Cell("usps-300-3", "float64", 1, "spams"): _measured(99.0, 0.1),  # targets are for two threads
    }
    (found,) = judge(measurements)
    assert found.verdict == verdict
    assert found.ratio == spams_seconds


@pytest.mark.parametrize(("product_seconds", "verdict"), [(0.5, "missed"), (0.9, "out of reach")])
def test_a_speed_that_the_bare_product_has_not_is_out_of_reach(product_seconds, verdict):
    measurements = {
        Cell("usps-300-3", "float64", 2, "ormp"): _measured(1.0, 0.1),
        Cell("usps-300-3", "float64", 2, "spams"): _measured(2.0, 0.1),
        Cell("usps-300-3", "float64", 2, "product"): _measured(product_seconds, 0.1),
    }
    assert [found.verdict for found in judge(measurements)] == [verdict, ""]


@pytest.mark.parametrize(
    ("our_gap", "verdict"), [(1e-8, "met"), (1e-6, "met"), (2e-6, "solves less")], ids=["smaller", "small", "larger"]
)
def test_with_a_penalty_the_gap_says_who_solves_less(our_gap, verdict):
    measurements = {
        Cell("usps-300-net", "float64", 2, name): {
            "seconds": seconds,
            "grade": {"mean_squared_residual": 0.1, "largest_gap": gap},
            "others_cores": None,
        }
        for name, seconds, gap in (("net", 1.0, our_gap), ("spams_lasso", 3.1, 1e-7))
    }
    (found,) = judge(measurements)
    assert found.verdict == verdict
