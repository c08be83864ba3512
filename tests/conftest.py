"""Small problems that several test files share."""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("default", deadline=None, max_examples=60)  # the first example compiles
settings.register_profile("nightly", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


class Problem(NamedTuple):
    """A coding problem with classes."""

    X: np.ndarray
    labels: np.ndarray
    dictionary: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    noise_variance: np.ndarray
    class_cost: np.ndarray
    n_nonzero_coefs: int

    def arguments(self) -> dict:
        return self._asdict()

    def astype(self, dtype: type) -> Problem:
        return Problem(*(value.astype(dtype) if isinstance(value, np.ndarray) else value for value in self))


def normalise(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def make_problem(kind: str, seed: int, n_samples: int = 60) -> Problem:
    """`random`: nothing fits anything. `planted`: samples are sparse in the dictionary and codes tell the classes."""
    rng = np.random.default_rng(seed)
    n_features, n_components, n_classes, n_nonzero_coefs = 20, 30, 4, 5
    dictionary = normalise(rng.standard_normal((n_components, n_features)))
    classes = rng.integers(n_classes, size=n_samples)
    if kind == "random":
        X = rng.standard_normal((n_samples, n_features))
        coef = rng.standard_normal((n_classes, n_components))
    else:
        owner = np.arange(n_components) % n_classes  # the class that an atom speaks for
        coef = np.where(owner == np.arange(n_classes)[:, None], 1.0, -0.5) + 0.1 * rng.standard_normal((n_classes, 30))
        codes = np.zeros((n_samples, n_components))
        for code, class_ in zip(codes, classes, strict=True):
            code[rng.choice(np.flatnonzero(owner == class_), 3, replace=False)] = 1 + rng.random(3)
        X = codes @ dictionary + 0.1 * rng.standard_normal((n_samples, n_features))
    return Problem(
        X=X,
        labels=np.where(classes[:, None] == np.arange(n_classes), 1.0, -1.0),
        dictionary=dictionary,
        coef=coef,
        intercept=0.3 * rng.standard_normal(n_classes),
        noise_variance=0.5 + rng.random(n_samples),
        class_cost=0.3 + rng.random(n_classes),
        n_nonzero_coefs=n_nonzero_coefs,
    )


@pytest.fixture(params=["random", "planted"])
def problem(request: pytest.FixtureRequest) -> Problem:
    return make_problem(request.param, seed=0)
