"""Experiments on synthetic images, with a model that notes how it is used."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from reproduction import (
    cells,
    claims_on_fitting,
    claims_on_labels,
    digits,
    faces,
    loss_curves,
    parameters,
    pictures,
    usps_grid,
)
from reproduction.images import Split
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import normalize

from .synthetic import SIZE, draw_images


class CountingModel(ClassifierMixin, BaseEstimator):
    """Takes the place of DDLClassifier: nearest mean of a class; notes what is fitted and predicted with what."""

    calls: list = []  # noqa: RUF012

    def __init__(self, settings=None):
        self.settings = settings

    def fit(self, X, y):
        self.calls.append(("fit", self.settings))
        self.classes_ = np.unique(y)
        self.means_ = normalize([X[y == label].mean(axis=0) for label in self.classes_])
        return self

    def predict(self, X):
        if len(X) > 1:  # one sample is a warm-up
            self.calls.append(("predict", self.settings))
        return self.classes_[(X @ self.means_.T).argmax(axis=1)]

    def explain(self, X):
        return SimpleNamespace(error=X - X.mean(), reconstruction=X, samples=X, evidence=X @ self.means_.T)


def make_counting(**settings):
    return CountingModel(settings)


def vary_counting(model, settings, variant):
    if variant:
        model.settings = model.settings | variant
    return model


@pytest.fixture
def synthetic(monkeypatch):
    """Run the experiments on synthetic images."""
    split = Split(*draw_images(6, 1), *draw_images(5, 2))
    monkeypatch.setattr(faces, "load_face_lights", lambda: np.tile([1, 2], len(split.y_train) // 2))
    for module in (faces, pictures):
        monkeypatch.setattr(module, "load_faces", lambda size: split)
    for module in (digits, pictures):
        monkeypatch.setattr(module, "load_digits", lambda: split)
        monkeypatch.setattr(module, "USPS_SHAPE", SIZE)


@pytest.fixture
def change_face_model(monkeypatch):
    """Return a function that changes how ddlearn takes part in the experiment on faces."""

    def change(**changes):
        for name in ("ddlearn", "ddlearn, gross errors"):
            monkeypatch.setitem(faces.FACE_METHODS, name, faces.FACE_METHODS[name]._replace(**changes))

    return change


@pytest.fixture
def calls(synthetic, change_face_model, monkeypatch):
    """Run the experiments with a model that counts, and return its calls."""
    for module in (digits, faces, pictures):
        monkeypatch.setattr(module, "apply_variant", vary_counting)
        for name in ("make_classifier", "make_former_model"):
            monkeypatch.setattr(module, name, make_counting, raising=False)
    monkeypatch.setattr(CountingModel, "calls", [])
    change_face_model(make=make_counting)
    return CountingModel.calls


@pytest.fixture
def no_figures(monkeypatch):
    """Draw, but write no figure, which takes most of the time of a small experiment."""
    for module in (claims_on_fitting, claims_on_labels, digits, faces, loss_curves, parameters, usps_grid):
        monkeypatch.setattr(module, "save_figure", lambda *arguments: None)


@pytest.fixture
def measure_nothing(monkeypatch):
    """Fail where a cell is measured."""

    def fail(*arguments, **details):
        raise AssertionError("a finished cell was measured again")

    monkeypatch.setattr(cells, "_measure", fail)
