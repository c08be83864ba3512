"""Presets: plain parameters that fit any data, and images better."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import normalise
from reproduction.models import make_classifier
from reproduction.trials import LITERAL, METHODS, PAPER
from sklearn.datasets import load_digits, load_wine
from sklearn.preprocessing import scale

from ddlearn import OMP, DDLClassifier, JeffreysScales, Refiner
from ddlearn.coding.encoder import SPARSE_CODERS
from ddlearn.estimators.presets import PRESETS

QUICK = {"n_components": 30, "max_iter": 2, "random_state": 0}


def test_the_paper_is_the_one_that_the_experiments_reproduce():
    preset, experiments = DDLClassifier.from_preset("paper"), make_classifier(**PAPER | LITERAL)
    for name in ("init", "refine", "label_coding", "dictionary_update", "max_iter"):
        assert repr(getattr(preset, name)) == repr(getattr(experiments, name))
    assert preset.label_coding == "printed"
    assert preset.classification_weight == 2 * experiments.classification_weight == 1.0  # the factor that is lacking
    assert preset.scales == "jeffreys"
    assert isinstance(experiments.scales, JeffreysScales)  # with floors near zero
    coders = [SPARSE_CODERS.resolve(one.sparse_coder) for one in (preset, experiments)]
    assert [(type(coder), coder.n_swaps) for coder in coders] == [(OMP, 0)] * 2


@pytest.mark.parametrize("name", ["ddl", "ddl, labelled alone"])
def test_the_experiments_keep_the_map_estimate(name):
    assert METHODS[name].make(**PAPER).classification_weight == 1
    assert METHODS[name].make(**PAPER, classification_weight=0.5).classification_weight == 0.5


def test_accurate_distorts_only_what_is_known_to_be_an_image():
    model = DDLClassifier.from_preset("accurate")
    assert isinstance(model.refine, Refiner)
    assert model.refine.jitter is None
    assert model.n_views == 1
    model = DDLClassifier.from_preset("accurate", image_shape=(8, 8))
    assert model.refine.jitter is not None
    assert model.n_views > 1
    assert DDLClassifier.from_preset("accurate", image_shape=None).refine.jitter is None


def test_overrides_win():
    model = DDLClassifier.from_preset("accurate", image_shape=(8, 8), refine=None, n_views=1, tol=0.5)
    assert (model.refine, model.n_views, model.tol) == (None, 1, 0.5)


def test_models_of_a_preset_share_nothing():
    model = DDLClassifier.from_preset("accurate").set_params(refine__epochs=3)
    assert model.refine.epochs == 3
    assert DDLClassifier.from_preset("accurate").refine.epochs == 60


def test_what_is_not_known_is_named():
    with pytest.raises(ValueError, match=r"There is no preset 'acurate' among .*; did you mean 'accurate'\?"):
        DDLClassifier.from_preset("acurate")
    with pytest.raises(TypeError, match=r"DDLClassifier has no parameter 'n_component'; did you mean 'n_components'\?"):
        DDLClassifier.from_preset("fast", n_component=3)
    with pytest.raises(TypeError, match=r"DDLClassifier has no parameter 'zzz'\."):
        DDLClassifier.from_preset("fast", zzz=3)


def make_brief(name, **overrides):
    model = DDLClassifier.from_preset(name, **QUICK, **overrides)
    return model.set_params(refine__epochs=1) if isinstance(model.refine, Refiner) else model


@pytest.mark.parametrize("name", PRESETS)
def test_presets_fit_images_and_what_is_no_image(name):
    X, y = load_digits(return_X_y=True)
    X = normalise(X)
    model = make_brief(name, image_shape=(8, 8)).fit(X[:300], y[:300])
    assert model.score(X[300:600], y[300:600]) > 0.6
    X, y = load_wine(return_X_y=True)
    X = normalise(scale(X))
    order = np.random.default_rng(0).permutation(len(X))
    model = make_brief(name).fit(X[order[:100]], y[order[:100]])
    assert model.score(X[order[100:]], y[order[100:]]) > 0.8
