"""Losses: derivatives, convexity, extremes, limits; and the check for a loss of your own."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import EVERY_LOSS
from scipy.special import expit

from ddlearn import (
    Exponential,
    Logistic,
    Loss,
    SmoothHinge,
    SoftplusHinge,
    Square,
)
from ddlearn.model.losses import _sigmoid, _sigmoid_slope, _softplus

every_loss = pytest.mark.parametrize("loss", EVERY_LOSS, ids=repr)


@every_loss
@given(margin=st.floats(-20, 20))
def test_gradient_is_the_slope_of_the_value(loss, margin):
    step = 1e-5
    points = np.array([margin - step, margin, margin + step])
    value, gradient = loss.value(points), loss.gradient(points)
    slope = (value[2] - value[0]) / (2 * step)
    assert gradient[1] == pytest.approx(slope, rel=1e-5, abs=1e-5)


@every_loss
@given(margin=st.floats(-20, 20))
def test_curvature_lies_between_the_slopes_of_the_gradient(loss, margin):
    step = 1e-5
    left, here, right = loss.gradient(np.array([margin - step, margin, margin + step]))
    slopes = [(here - left) / step, (right - here) / step]
    curvature = loss.curvature(np.array([margin]))[0]
    slack = 1e-4 * (1 + max(np.abs(slopes)))
    assert min(slopes) - slack <= curvature <= max(slopes) + slack


@every_loss
@given(margins=st.tuples(st.floats(-1000, 1000), st.floats(-1000, 1000)), share=st.floats(0, 1))
def test_value_is_convex(loss, margins, share):
    ends = loss.value(np.array(margins))
    between = loss.value(np.array([share * margins[0] + (1 - share) * margins[1]]))[0]
    assert between <= (share * ends[0] + (1 - share) * ends[1]) * (1 + 1e-9) + 1e-9


@every_loss
@given(at=st.floats(-30, 30), elsewhere=st.floats(-30, 30))
def test_surrogate_curvature_is_newton_or_a_majoriser(loss, at, elsewhere):
    point, other = np.array([at]), np.array([elsewhere])
    surrogate = loss.surrogate_curvature(point)
    if surrogate != loss.curvature(point):
        parabola = loss.value(point) + loss.gradient(point) * (other - point) + surrogate / 2 * (other - point) ** 2
        assert loss.value(other) <= parabola + 1e-9


@every_loss
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extreme_margins_are_finite_and_dtype_is_kept(loss, dtype):
    margins = np.array([-1000, -500, -88.8, 0, 88.8, 500, 1000], dtype=dtype)
    for method in (loss.value, loss.gradient, loss.curvature, loss.surrogate_curvature):
        result = method(margins)
        assert result.dtype == dtype
        assert np.isfinite(result).all()


@pytest.mark.parametrize(("dtype", "accuracy", "largest"), [(np.float64, 1e-15, 700), (np.float32, 5e-7, 80)])
def test_logistic_functions_have_all_digits(dtype, accuracy, largest):
    x = np.concatenate([np.linspace(-largest, largest, 20001), np.linspace(-3, 3, 20001)]).astype(dtype)
    exact = x.astype(np.float64)
    expected = {
        _softplus: np.maximum(exact, 0) + np.log1p(np.exp(-np.abs(exact))),
        _sigmoid: expit(exact),
        _sigmoid_slope: expit(exact) * expit(-exact),
    }
    for function, values in expected.items():
        found = function(x)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, values, rtol=accuracy)
        assert np.isfinite(function(np.array([-1e3, 1e3, -1e30, 1e30], dtype))).all()
    np.testing.assert_allclose(_softplus(x), np.logaddexp(0, exact), rtol=accuracy)
    np.testing.assert_array_equal(_sigmoid(np.array([-1e3, 0, 1e3], dtype)), [0, 0.5, 1])
    np.testing.assert_array_equal(_softplus(np.array([-1e3, 1e3], dtype)), [0, 1e3])


def test_formulas_of_the_paper_and_curvature_against_value_of_figure_1b():
    # Exponential: the curvature equals the value v. Logistic: e^-v (1 - e^-v), at most 1/4, reached at v = ln 2.
    z = np.linspace(-5, 5, 101)
    for loss, expected in ((Square(), (1 - z) ** 2), (Exponential(), np.exp(-z)), (Logistic(), np.log(1 + np.exp(-z)))):
        np.testing.assert_allclose(loss.value(z), expected)
    np.testing.assert_allclose(Exponential().curvature(z), Exponential().value(z))
    value = Logistic().value(z)
    np.testing.assert_allclose(Logistic().curvature(z), np.exp(-value) * (1 - np.exp(-value)), rtol=1e-12)
    assert Logistic().curvature(z).max() == pytest.approx(1 / 4)


@pytest.mark.parametrize("hinge_class", [SmoothHinge, SoftplusHinge])
def test_smooth_hinges_tend_to_the_hinge_at_the_stated_rate(hinge_class):
    z = np.linspace(-3, 5, 4001)
    hinge = np.maximum(0, 1 - z)
    for sharpness in (1.0, 4.0, 64.0):
        gap = np.max(np.abs(hinge_class(sharpness=sharpness).value(z) - hinge))
        stated = {SmoothHinge: 1 / (4 * sharpness), SoftplusHinge: np.log(2) / sharpness}[hinge_class]
        assert gap == pytest.approx(stated, rel=1e-3)


def test_exponential_continues_smoothly_below_its_last_exponent():
    z = -Exponential.largest_exponent + np.array([-1e-7, 1e-7])
    for method in (Exponential().value, Exponential().gradient, Exponential().curvature):
        below, above = method(z)
        assert below == pytest.approx(above, rel=1e-6)


def test_a_loss_with_a_method_missing_cannot_be_made():
    with pytest.raises(TypeError, match="curvature"):
        type("Half", (Loss,), {"value": lambda self, z: z, "gradient": lambda self, z: z})()
