"""Constructor parameters: each is honoured or refused in every mode, and parameters of strategies are reached."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_pursuit, make_refiner, make_stream
from modes import MODES, NOTHING, REFUSED, draw_samples, is_same, list_cases
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV

from ddlearn import DDLClassifier, FullInference, GreedyErrors, MiniBatchDDLClassifier, Robustness


def fit(model):
    X, y = draw_samples()
    model.fit(X, y)
    return model.fit(X, y) if model.warm_start else model


def fit_batches(model):
    X, y = draw_samples()
    for batch in (slice(0, 60), slice(60, 120)):
        model.partial_fit(X[batch], y[batch], classes=[0, 1, 2])
    return model


FITS = {"memory": fit, "batches": fit_batches}


@pytest.fixture(scope="module")
def plain_fits():
    return {}  # by the mode, and the parameters that a case needs besides its own


@pytest.mark.parametrize("mode", MODES)
def test_every_parameter_has_a_case_in_every_mode(mode):
    estimator = MiniBatchDDLClassifier if mode == "batches" else DDLClassifier
    assert {case.name for case in list_cases(mode)} == set(estimator._get_param_names())


def test_no_case_is_the_default():
    for mode in MODES:
        for case in list_cases(mode):
            default, _ = case.make_models(mode)
            assert repr(case.value) != repr(getattr(default, case.name))


@pytest.mark.parametrize(
    ("mode", "case"),
    [pytest.param(mode, case, id=f"{mode}-{case.name}-{case.value}") for mode in FITS for case in list_cases(mode)],
)
def test_a_parameter_is_honoured_or_refused(plain_fits, mode, case):
    plain, changed = case.make_models(mode)
    effect = getattr(case, mode)
    if effect == REFUSED:
        with pytest.raises(ValueError, match=rf"^{case.name}=.*cannot be honoured"):
            FITS[mode](changed)
        assert not hasattr(changed, "components_")
    else:
        X, _ = draw_samples()
        key = mode, repr(case.others)
        if key not in plain_fits:
            plain_fits[key] = FITS[mode](plain)
        same = is_same(plain_fits[key], FITS[mode](changed), effect, X)
        assert same == (effect == NOTHING)


@pytest.mark.parametrize("mode", FITS)
def test_defaults_work_in_every_mode(mode):
    make = {"memory": make_pursuit, "batches": make_stream}[mode]
    assert FITS[mode](make()).score(*draw_samples()) > 0.6


def test_codes_and_noise_variances_are_kept_of_samples_in_memory_only(tmp_path):
    model, (X, y) = fit(make_pursuit(10, random_state=0)), draw_samples()
    assert model.codes_.shape == (120, 10)
    assert model.noise_variance_.shape == (120,)
    np.save(tmp_path / "X.npy", X)
    for description in ("unit", None):  # those of an earlier fit do not stay
        model.set_params(description=description).fit(np.load(tmp_path / "X.npy", mmap_mode="r"), y)
        assert not hasattr(model, "codes_")
        assert not hasattr(model, "noise_variance_")


# -- parameters of strategies ------------------------------------------------------------------------------------------


def test_parameters_of_an_object_are_reached_through_the_model():
    model = make_pursuit(robustness=Robustness(0.1), inference="full")
    model.set_params(robustness__error_search=GreedyErrors(), robustness__error_search__threshold=3.0)
    assert repr(clone(model).robustness) == repr(Robustness(0.1, error_search=GreedyErrors(3.0)))
    assert not [name for name in model.get_params() if name.startswith("inference__")]  # a name is only a name


def test_a_value_that_cannot_be_is_refused_by_fit_and_not_before():
    model = make_pursuit(inference="slow", robustness="much", refine=1.5)
    assert clone(model).get_params()["inference"] == "slow"
    with pytest.raises(TypeError, match="refine must be"):
        fit(model)


def test_a_grid_search_over_a_parameter_of_a_strategy():
    model = make_pursuit(10, max_iter=1, inference=FullInference(), random_state=0)
    search = GridSearchCV(model, {"inference__n_candidates": [1, 2]}, cv=2).fit(*draw_samples())
    assert [parameters["inference__n_candidates"] for parameters in search.cv_results_["params"]] == [1, 2]
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_the_shape_of_images_is_that_of_samples_as_they_come():
    # Standardised samples have one more feature, the constant.
    X, y = np.random.default_rng(0).random((20, 6)), np.arange(20) % 2
    model = make_pursuit(4, description="standard", image_shape=(2, 3), refine=make_refiner(), random_state=0)
    assert model.fit(X, y).predict(X).shape == y.shape
