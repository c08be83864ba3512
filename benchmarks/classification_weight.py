"""Cross-validation of ``classification_weight``, on training data only: ``python -m benchmarks.classification_weight``.

Every weight that a rule asks for is tried with both losses and both inference rules.  Every finished cell is kept in
benchmarks/results/classification_weight.json, so an interrupted run goes on where it was; ``--table`` prints what there
is as Markdown.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import StratifiedKFold

from ddlearn import DDLClassifier
from ddlearn.datasets import make_planted

from .labelled import Labelled, training_part

RESULTS = Path(__file__).parent / "results" / "classification_weight.json"
N_FOLDS = 3
INFERENCE = ("fast", "full")


class Problem(NamedTuple):
    """A data set, and the size of the models that are fitted to it."""

    n_samples: int
    n_components: int
    n_nonzero_coefs: int


PROBLEMS = {
    "digits": Problem(1000, 200, 5),
    "usps": Problem(3000, 400, 5),
    "mnist": Problem(3000, 400, 5),
    "yale": Problem(1207, 400, 15),
    "planted": Problem(1500, 60, 3),
}
# The boosted losses take up to eight times the time of a fit.
SEEDS = {"square": (0, 1, 2, 3), "logistic": (0, 1)}
# From the number of features and of classes.
RULES: dict[str, Callable[[int, int], float | str]] = {
    "1": lambda n_features, n_classes: 1.0,
    "auto": lambda n_features, n_classes: "auto",
    "root of the ratio": lambda n_features, n_classes: ((n_features + 2) / (2 * n_classes)) ** 0.5,
    "the ratio (M + 2) / 2C": lambda n_features, n_classes: (n_features + 2) / (2 * n_classes),
}


def read_problem(name: str) -> Labelled:
    """Return the samples of a problem."""
    if name == "planted":
        planted = make_planted(PROBLEMS[name].n_samples, 64, 60, 5, n_nonzero_coefs=3, noise=0.2, random_state=0)
        return Labelled(planted.data.astype(np.float32), planted.target)
    X, y = training_part(name).take(PROBLEMS[name].n_samples)
    return Labelled(X.astype(np.float32), y)


def cross_validate(name: str, loss: str, weight: float | str) -> dict[str, list[float]]:
    """Return the validation errors in per cent of each inference rule, and the weight, for each fold and seed."""
    problem, (X, y) = PROBLEMS[name], read_problem(name)
    errors: dict[str, list[float]] = {rule: [] for rule in INFERENCE} | {"weight": []}
    for seed in SEEDS[loss]:
        for train, validate in StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(X, y):
            model = DDLClassifier(
                problem.n_components,
                n_nonzero_coefs=problem.n_nonzero_coefs,
                loss=loss,
                classification_weight=weight,
                random_state=seed,
            ).fit(X[train], y[train])
            errors["weight"].append(model.classification_weight_)
            for rule in INFERENCE:
                model.set_params(inference=rule)
                errors[rule].append(100 * (1 - model.score(X[validate], y[validate])))
    return errors


def list_cells() -> Iterator[tuple[str, str, float | str]]:
    """Yield data set, loss and weight of every cell."""
    for loss in SEEDS:
        for name in PROBLEMS:
            X, y = read_problem(name)
            for rule in RULES.values():
                yield name, loss, rule(X.shape[1], len(np.unique(y)))


def print_table(results: dict[str, Any]) -> None:
    """Print the errors as Markdown."""
    print("| weight | loss | rule | " + " | ".join(PROBLEMS) + " | mean |")
    print("| --- | --- | --- |" + " --- |" * (len(PROBLEMS) + 1))
    weights: dict[tuple[str, str], list[float | str]] = {(name, loss): [] for name in PROBLEMS for loss in SEEDS}
    for name, loss, weight in list_cells():
        weights[name, loss].append(weight)
    for loss in SEEDS:
        for inference in INFERENCE:
            for position, rule in enumerate(RULES):
                cells = [results.get(_key(name, loss, weights[name, loss][position])) for name in PROBLEMS]
                if all(cells):
                    _print_row(rule, loss, inference, [cell[inference] for cell in cells])


def _print_row(rule: str, loss: str, inference: str, errors: list[list[float]]) -> None:
    texts = " | ".join(f"{np.mean(each):.2f} ± {np.std(each) / np.sqrt(len(each)):.2f}" for each in errors)
    print(f"| {rule} | {loss} | {inference} | {texts} | {np.mean([np.mean(each) for each in errors]):.2f} |")


def _key(name: str, loss: str, weight: float | str) -> str:
    return json.dumps([name, PROBLEMS[name], loss, SEEDS[loss], N_FOLDS, weight])


def main() -> None:
    """Fill in the cells that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true", help="print what there is and stop")
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if not arguments.table:
        RESULTS.parent.mkdir(exist_ok=True)
        for name, loss, weight in list_cells():
            key = _key(name, loss, weight)
            if key not in results:
                results[key] = cross_validate(name, loss, weight)
                RESULTS.write_text(json.dumps(results, indent=1))
                means = {what: round(float(np.mean(each)), 2) for what, each in results[key].items()}
                print(key, means, file=sys.stderr, flush=True)
    print_table(results)


if __name__ == "__main__":
    main()
