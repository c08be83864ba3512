"""Presets: plain parameters that fit any data, and images better."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import normalise
from reproduction.trials import PAPER
from sklearn.datasets import load_digits, load_wine
from sklearn.preprocessing import scale

from ddlearn import DDLClassifier, Refiner
from ddlearn.estimators.presets import PRESETS

QUICK = {"n_components": 30, "max_iter": 2, "random_state": 0}
BRIEF = QUICK | {"refine": 1}


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_is_nothing_but_parameters(name):
    preset = PRESETS[name]
    model = DDLClassifier.from_preset(name)
    image_model = DDLClassifier.from_preset(name, image_shape=(8, 8))
    for made, parameters in ((model, preset.parameters), (image_model, preset.parameters | preset.of_images)):
        for parameter, value in parameters.items():
            assert repr(getattr(made, parameter)) == repr(value)  # objects are copies
    assert preset.reason.endswith(".")


def test_the_paper_is_the_one_that_the_experiments_reproduce():
    assert PRESETS["paper"].parameters.items() >= PAPER.items()
    assert PRESETS["paper"].parameters["classification_weight"] == 1.0


def test_accurate_distorts_only_what_is_known_to_be_an_image():
    model = DDLClassifier.from_preset("accurate")
    assert model.jitter is None
    assert model.n_views == 1
    assert isinstance(model.refine, Refiner)
    assert (model.sparse_coder, model.loss) == ("elastic_net", "logistic")
    model = DDLClassifier.from_preset("accurate", image_shape=(8, 8))
    assert model.jitter is not None
    assert model.n_views > 1
    assert DDLClassifier.from_preset("accurate", image_shape=None).jitter is None


def test_overrides_win():
    model = DDLClassifier.from_preset("accurate", image_shape=(8, 8), refine=None, n_views=1, jitter=None, tol=0.5)
    assert (model.refine, model.n_views, model.jitter, model.tol) == (None, 1, None, 0.5)


def test_models_of_a_preset_share_nothing():
    model = DDLClassifier.from_preset("accurate").set_params(refine__epochs=3)
    assert model.refine.epochs == 3
    assert DDLClassifier.from_preset("accurate").refine.epochs == 30


def test_what_is_not_known_is_named():
    with pytest.raises(ValueError, match=r"There is no preset 'exact'; choose one of 'paper', 'fast', 'accurate'\."):
        DDLClassifier.from_preset("exact")
    with pytest.raises(TypeError, match=r"DDLClassifier has no parameter 'n_component'; did you mean 'n_components'\?"):
        DDLClassifier.from_preset("fast", n_component=3)
    with pytest.raises(TypeError, match=r"DDLClassifier has no parameter 'zzz'\."):
        DDLClassifier.from_preset("fast", zzz=3)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_fit_images_and_what_is_no_image(name):
    X, y = load_digits(return_X_y=True)
    X = normalise(X)
    overrides = BRIEF if "refine" in PRESETS[name].parameters else QUICK
    model = DDLClassifier.from_preset(name, image_shape=(8, 8), **overrides).fit(X[:300], y[:300])
    assert model.score(X[300:600], y[300:600]) > 0.6
    X, y = load_wine(return_X_y=True)
    X = normalise(scale(X))
    order = np.random.default_rng(0).permutation(len(X))
    model = DDLClassifier.from_preset(name, **overrides).fit(X[order[:100]], y[order[:100]])
    assert model.score(X[order[100:]], y[order[100:]]) > 0.8
