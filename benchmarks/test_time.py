"""Cross-validation of how new samples are treated, on training data only: ``python -m benchmarks.test_time``.

Settings that act on new samples need no new fit: each fold is fitted once, or twice where training samples are
registered too, and judged in all ways.  Every fitted fold is kept in benchmarks/results/test_time.json, so an
interrupted run goes on where it was; the table of what there is comes at the end.
"""

from __future__ import annotations

import json
import sys
from copy import copy
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from ddlearn import Alignment, DDLClassifier, FullInference

from .labelled import Labelled, training_part

RESULTS = Path(__file__).parent / "results" / "test_time.json"
N_FOLDS = 3
# name: samples used, image shape, constructor settings
TRIALS: dict[str, tuple[int, tuple[int, int], dict[str, Any]]] = {
    "digits": (1000, (8, 8), {}),
    "usps": (7291, (16, 16), {}),
    "usps-300-3": (7291, (16, 16), {"n_components": 300, "n_nonzero_coefs": 3}),
    "mnist": (6000, (28, 28), {}),
    "yale": (1207, (24, 21), {"n_nonzero_coefs": 20}),
}
TRANSFORMS = ("translation", "euclidean", "similarity", "affine")
DAMPINGS = (0.003, 0.01, 0.03, 0.1)
# How the model is fitted, and the ways in which it is then judged.
FITS: dict[str, dict[str, Any]] = {
    "refit": {},
    "no refit": {"refine": None},
    **{f"aligned {t}": {"alignment": Alignment(t, training=True)} for t in ("translation", "similarity", "affine")},
}
RULES: dict[str, dict[str, Any]] = {
    "fast": {"inference": "fast"},
    "full": {"inference": "full"},
    "full 3 candidates": {"inference": FullInference(3)},
}
ALIGNMENTS: dict[str, dict[str, Any]] = {
    f"{transform} {damping}": {"inference": "fast", "alignment": Alignment(transform, damping=damping)}
    for transform in TRANSFORMS
    for damping in DAMPINGS
}


def list_judgements(fit: str) -> dict[str, dict[str, Any]]:
    """Return the ways to judge a model that was fitted in that way."""
    if "alignment" in FITS[fit]:
        return {"as fitted": {"inference": "fast"}, "as fitted, full": {"inference": "full"}}
    return RULES | (ALIGNMENTS if fit == "refit" else {})


def judge(data: Labelled, trial: str, fit: str, fold: int) -> dict[str, dict[str, float]]:
    """Fit one fold and return error and time of every judgement."""
    _, image_shape, settings = TRIALS[trial]
    train, test = list(StratifiedKFold(N_FOLDS, shuffle=True, random_state=0).split(data.X, data.y))[fold]
    settings = settings | {"image_shape": image_shape} | FITS[fit]
    # With the weight that was the default when the tables were made.
    model = DDLClassifier(**settings, description=None, classification_weight=1.0, n_jobs=-1, random_state=0)
    model.fit(data.X[train], data.y[train])
    results = {}
    for name, changes in list_judgements(fit).items():
        changed = copy(model).set_params(**changes)
        start = perf_counter()
        error = 1 - changed.score(data.X[test], data.y[test])
        results[name] = {"error": error, "seconds": perf_counter() - start}
    return results


def print_table(results: dict[str, Any]) -> None:
    """Print mean errors as Markdown."""
    cells: dict[str, dict[str, list[float]]] = {}
    for key, judgements in results.items():
        trial, fit, _ = key.split("/")
        for name, measured in judgements.items():
            cells.setdefault(f"{fit}: {name}", {}).setdefault(trial, []).append(measured["error"])
    print("| | " + " | ".join(TRIALS) + " |")
    print("| --- |" + " --- |" * len(TRIALS))
    for name, errors in cells.items():
        means = [f"{100 * np.mean(errors[trial]):.2f} %" if trial in errors else "" for trial in TRIALS]
        print(f"| {name} | " + " | ".join(means) + " |")


def main() -> None:
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.parent.mkdir(exist_ok=True)
    for fold in range(N_FOLDS):
        for trial, (n_samples, _, _) in TRIALS.items():
            data = training_part(trial.split("-")[0]).take(n_samples)
            for fit in FITS:
                key = f"{trial}/{fit}/{fold}"
                if key not in results:
                    results[key] = judge(data, trial, fit, fold)
                    RESULTS.write_text(json.dumps(results, indent=1))
                    print(key, file=sys.stderr, flush=True)
    print_table(results)


if __name__ == "__main__":
    main()
