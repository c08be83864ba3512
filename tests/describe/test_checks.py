"""What is refused of samples, with the place of a value and what to do, before a fit and before a prediction."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_pursuit, make_stream

from ddlearn import Alignment, Refiner, Robustness
from ddlearn.describe.checks import check_image_shape, check_training, has_missing

MASK = Robustness(missing="mask")


def quick(**parameters):
    return make_pursuit(**{"n_components": 20, "max_iter": 1, "random_state": 0} | parameters)


def test_has_missing_is_about_nan_alone():
    X = np.ones((3000, 2))
    assert not has_missing(X)
    X[0, 0] = np.inf
    assert not has_missing(X)
    X[2999, 1] = np.nan
    assert has_missing(X)


@pytest.mark.parametrize(
    ("places", "value", "takes_missing", "message"),
    [
        (
            (3, 5),
            np.nan,
            False,
            r'NaN in row 3, feature 5: leave .* robustness=Robustness\(missing="mask"\) .*, or .*impu',
        ),
        ((3, 5), np.inf, True, r"infinity in row 3, feature 5"),
        ((3, slice(None)), np.nan, True, r"nothing but NaN in row 3: leave this sample out"),
        ((slice(None), 5), np.nan, True, r"nothing but NaN in feature 5: leave this feature out"),
    ],
)
def test_what_cannot_be_learned_from_is_named(digits, places, value, takes_missing, message):
    X, y = digits[0].copy(), digits[1]
    X[7, 1] = np.nan if takes_missing else 0
    X[places] = value
    with pytest.raises(ValueError, match=message):
        quick(robustness=MASK if takes_missing else None).fit(X, y)


def test_a_feature_with_a_name_is_named():
    with pytest.raises(ValueError, match=r"NaN in row 0, feature 1 \('age'\)"):
        check_training(np.array([[0.0, np.nan]]), False, np.array(["size", "age"], object))


def test_modes_that_cannot_leave_features_out_say_so(digits):
    X, y = digits[0].copy(), digits[1]
    X[0, 3] = np.nan
    with pytest.raises(ValueError, match=r"NaN in row 0, feature .*: batches must be complete"):
        make_stream(20, robustness=MASK).partial_fit(X, y, classes=range(10))
    moving = {"alignment": Alignment("translation", training=True), "image_shape": (8, 8)}
    with pytest.raises(ValueError, match=r"alignment=Alignment\(.*moves training images, which must be complete"):
        quick(robustness=MASK, **moving).fit(X, y)


@pytest.mark.parametrize("description", ["unit", "standard", None])
@pytest.mark.parametrize("robustness", [None, 3])
@pytest.mark.parametrize(("bad", "word"), [(np.nan, "NaN"), (np.inf, "infinity")])
def test_new_samples_that_are_not_finite_are_named_as_they_came(digits, description, robustness, bad, word):
    X, y = digits[0].copy(), digits[1]
    model = quick(description=description, robustness=robustness).fit(X, y)
    X[5, 2] = bad
    with pytest.raises(ValueError, match=f"X contains {word} in row 5, feature 2: impute such values, or leave"):
        model.predict(X)


@pytest.mark.parametrize(
    ("image_shape", "message"),
    [
        ((12, 12), "has 12 x 12 = 144 pixels, but X has 64 features"),
        ((8.0, 8), "must be a pair of positive integers"),
        ((True, 64), "must be a pair of positive integers"),
        ((8, 8, 1), "must be a pair of positive integers"),
        (64, "must be a pair of positive integers"),
    ],
)
def test_an_image_shape_that_is_none_is_refused(image_shape, message):
    with pytest.raises(ValueError, match=message):
        check_image_shape(image_shape, 64)


@pytest.mark.parametrize(
    "parameters", [{}, {"alignment": "affine"}, {"n_views": 2}, {"refine": Refiner(1, jitter="affine")}], ids=str
)
def test_image_shape_is_checked_once_for_all_that_moves_images(digits, parameters):
    with pytest.raises(ValueError, match="has 3 x 3 = 9 pixels, but X has 64"):
        quick(image_shape=(3, 3), **parameters).fit(*digits)
    model = quick(image_shape=(8, 8), **parameters).fit(*digits)
    with pytest.raises(ValueError, match="has 3 x 3 = 9 pixels, but X has 64"):
        model.set_params(image_shape=(3, 3)).predict(digits[0])
