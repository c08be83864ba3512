"""What the checks of all plug-in points rest on."""

from __future__ import annotations

from numbers import Integral, Real

import pytest
from sklearn.base import BaseEstimator

from ddlearn.strategies import check_number, find_copy_problems, report_problems


class Plain(BaseEstimator):
    pass


@pytest.mark.parametrize(("value", "kind"), [(0, Integral), (3, Integral), (0.5, Real), (2, Real)])
def test_numbers_of_at_least_zero_pass(value, kind):
    check_number("name", value, kind)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (-1, Real),
        (float("nan"), Real),
        (float("inf"), Real),
        (True, Integral),
        (1.5, Integral),
        ("1", Real),
        (None, Real),
    ],
)
def test_others_are_refused_by_name_and_value(value, kind):
    with pytest.raises(ValueError, match=f"name must be an? .* of at least 0, got {value!r}"):
        check_number("name", value, kind)


def test_what_cannot_be_copied_is_told():
    class Local(BaseEstimator):  # pickle does not find a class inside a function
        pass

    assert list(find_copy_problems(Plain(), "Plain")) == []
    (problem,) = find_copy_problems(Local(), "Plain")
    assert "derive from Plain" in problem


def test_a_report_has_one_line_for_each_different_problem():
    report_problems(Plain(), "thing", [])
    with pytest.raises(ValueError, match=r"^Plain\(\) is not a usable thing:\n- a\n- b$"):
        report_problems(Plain(), "thing", ["a", "b", "a"])
