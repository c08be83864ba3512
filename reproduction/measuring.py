"""Models fitted once and judged often, with intervals and times."""

from __future__ import annotations

import json
from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest

from .images import Floats
from .sparse_representation import SRC, SparseErrors


class Fits:
    """Models fitted to one training set, each on first use."""

    def __init__(self, X: Floats, y: NDArray[np.integer], n_jobs: int | None):
        self._data = X, y
        self._n_jobs = n_jobs
        self._models: dict[str, tuple[Any, float]] = {}

    def get(self, make: Callable[..., Any], settings: dict[str, Any]) -> tuple[Any, float]:
        """Return the fitted ``make`` model and the seconds its fit took."""
        key = f"{make.__name__} {json.dumps(settings, sort_keys=True)}"
        if key not in self._models:
            start = perf_counter()
            self._models[key] = make(**settings, n_jobs=self._n_jobs).fit(*self._data), perf_counter() - start
        return self._models[key]


def warm_up(model: Any, X: Floats) -> None:
    """Predict one sample: some code is compiled at its first call, which is no part of the time."""
    model.predict(X[:1])


def find_interval(n_hits: int, n_all: int) -> list[float]:
    """Return Wilson's interval of 95 % for a share."""
    interval = binomtest(n_hits, n_all).proportion_ci(0.95, method="wilson")
    return [float(interval.low), float(interval.high)]


def judge_model(model: Any, X: Floats, y: NDArray[np.integer]) -> dict[str, Any]:
    """Return how many samples a model gets right, with the Wilson interval of 95 %, and how long it takes."""
    warm_up(model, X)
    start = perf_counter()
    if isinstance(model, SRC):
        solution = model.solve(X)
        predicted, notes = model.classify(solution), describe_solution(solution)
    else:
        predicted, notes = model.predict(X), {"C": model.best_params_["C"]} if hasattr(model, "best_params_") else {}
    seconds = perf_counter() - start
    n_correct = int(np.count_nonzero(predicted == y))
    return {
        "n_samples": len(y),
        "n_correct": n_correct,
        "accuracy": n_correct / len(y),
        "interval": find_interval(n_correct, len(y)),
        "predict_seconds": seconds,
        "wrong": np.flatnonzero(predicted != y).tolist(),
        "notes": notes,
    }


def describe_solution(solution: SparseErrors) -> dict[str, float]:
    """Return how well a solver has done."""
    return {
        "mean_iterations": float(solution.n_iter.mean()),
        "max_iterations": int(solution.n_iter.max()),
        "largest_primal_residual": float(solution.primal_residual.max()),
        "largest_dual_residual": float(solution.dual_residual.max()),
    }
