"""Samples of many units in parts, descriptions learned from them, and a description as a user would write one."""

from __future__ import annotations

import numpy as np
from conftest import make_pursuit

from ddlearn import DDLClassifier, Description
from ddlearn.describe.choice import fit_description
from ddlearn.fitting.data import TrainingPart
from ddlearn.parallel import Parts


def in_parts(X, y=None, n_rows=50):
    """Return samples as the parts of a fit."""
    y = np.zeros(len(X), int) if y is None else y
    labels = np.where(y[:, None] == np.arange(y.max() + 1), 1, -1).astype(np.int8)
    blocks = [slice(start, start + n_rows) for start in range(0, len(X), n_rows)]
    return Parts([TrainingPart.of(X[rows], labels[rows], first_row=rows.start) for rows in blocks])


def learn(description, X, y=None, n_rows=50, image_shape=None):
    return fit_description(description, in_parts(X, y, n_rows), len(X), image_shape)


def draw_table(n_samples=200, n_features=6, dtype=np.float64):
    """Return columns of different units, and classes that depend on two of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    return (X * np.logspace(-2, 3, n_features) + np.logspace(1, -2, n_features)).astype(dtype), y


def quick(**parameters) -> DDLClassifier:
    return make_pursuit(**{"n_components": 30, "max_iter": 2, "random_state": 0} | parameters)


def _find_largest(rows):
    return np.nanmax(np.abs(rows.X), axis=0)


class TwoSided(Description):
    """What is above zero, and apart from it what is below, of each feature: twice as many features."""

    images = "lost"
    learned = ("unit",)

    def __init__(self, unit=None):
        self.unit = unit

    def learn(self, parts):
        return TwoSided(np.max(parts.collect(_find_largest), axis=0) * np.sqrt(parts.gather()[0].X.shape[1]))

    def apply(self, X):
        relative = X / self.unit.astype(X.dtype)
        return np.hstack([np.maximum(relative, 0), np.maximum(-relative, 0)])

    def invert(self, rows):
        above, below = np.hsplit(rows, 2)
        return (above - below) * self.unit.astype(rows.dtype)
