"""Cross-validation of the defaults of DDLClassifier, on training data only: ``python -m benchmarks.defaults``.

One setting is changed at a time.  Every finished cell is kept in benchmarks/results/defaults.json, so an interrupted
run goes on where it was; ``--table`` prints what there is as Markdown.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from reproduction.models import make_classifier
from sklearn.base import BaseEstimator
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline

from ddlearn import KSVD, CodeClassifier
from ddlearn.classifiers import resolve_trainer
from ddlearn.losses import resolve_loss

from .labelled import training_part

RESULTS = Path(__file__).parent / "results" / "defaults.json"
N_FOLDS = 3
SEEDS = (0, 1)
# name: samples used, atoms, nonzeros; small enough for a hundred fits each
TRIALS = {"digits": (1000, 200, 5), "usps": (3000, 400, 5), "mnist": (3000, 400, 5), "yale": (1207, 400, 15)}

# What the constructor had when these trials were run; a variant names what it changes.
REFERENCE: dict[str, Any] = {
    "loss": "square",
    "sparse_coder": "ormp",
    "dictionary_update": "ksvd",
    "noise": "per_sample",
    "noise_floor": 0.1,
    "cost_floor": 0.3,
    "classification_weight": 1.0,
    "refit": True,
    "max_iter": 20,
    "ridge": 1e-3,
    "max_rounds": 10,
}
VARIANTS: dict[str, list[Any]] = {
    "loss": ["logistic", "exponential", "smooth_hinge", "softplus_hinge"],
    "sparse_coder": ["omp"],
    "dictionary_update": ["weighted_ksvd", "exact_ksvd", "atom", "mod"],
    "noise": ["shared"],
    "noise_floor": [0.01, 0.03, 0.3, 1.0],
    "cost_floor": [0.03, 0.1, 1.0, 3.0],
    "refit": [False],
    "max_iter": [0, 5, 10, 40],
    "ridge": [1e-4, 1e-2, 3e-2],
}
LOSS_VARIANTS: dict[str, list[Any]] = {
    "ridge": [1e-4, 1e-2, 3e-2, 1e-1],
    "max_rounds": [1, 3],
    "cost_floor": [0.03, 1.0],
}


def make_model(settings: dict[str, Any], n_components: int, n_nonzero_coefs: int, seed: int) -> BaseEstimator:
    """Return the estimator of a cell; "baseline" is K-SVD and classifiers with the same strategies."""
    settings = dict(settings)
    trainer = resolve_trainer("auto", resolve_loss(settings["loss"]))
    trainer.set_params(ridge=settings.pop("ridge"), max_rounds=settings.pop("max_rounds"))
    if settings.pop("baseline", False):
        coder, update = settings["sparse_coder"], settings["dictionary_update"]
        ksvd = KSVD(
            n_components,
            n_nonzero_coefs=n_nonzero_coefs,
            sparse_coder=coder,
            dictionary_update=update,
            n_jobs=-1,
            random_state=seed,
        )
        return make_pipeline(ksvd, CodeClassifier(settings["loss"], classifier_trainer=trainer, n_jobs=-1))
    return make_classifier(
        n_components=n_components,
        n_nonzero_coefs=n_nonzero_coefs,
        classifier_trainer=trainer,
        n_jobs=-1,
        random_state=seed,
        **settings,
    )


def cross_validate(name: str, settings: dict[str, Any]) -> dict[str, float]:
    """Return mean and standard error of the validation error in per cent, and the seconds a fit takes."""
    n_samples, n_components, n_nonzero_coefs = TRIALS[name]
    X, y = training_part(name).take(n_samples)
    errors, seconds = [], []
    for seed in SEEDS:
        for train, validate in StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(X, y):
            model = make_model(settings, n_components, n_nonzero_coefs, seed)
            start = perf_counter()
            model.fit(X[train], y[train])
            seconds.append(perf_counter() - start)
            errors.append(100 * (1 - model.score(X[validate], y[validate])))
    return {
        "error": float(np.mean(errors)),
        "standard_error": float(np.std(errors) / np.sqrt(len(errors))),
        "seconds": float(np.mean(seconds)),
    }


def list_cells() -> list[tuple[str, dict[str, Any]]]:
    """Return label and settings of every row of the table."""
    cells = [("reference", dict(REFERENCE)), ("baseline", REFERENCE | {"baseline": True})]
    for name, values in VARIANTS.items():
        cells += [(f"{name}={value}", REFERENCE | {name: value}) for value in values]
    for loss in ("logistic", "smooth_hinge"):
        cells.append((f"baseline, loss={loss}", REFERENCE | {"baseline": True, "loss": loss}))
        for name, values in LOSS_VARIANTS.items():
            cells += [(f"loss={loss}, {name}={value}", REFERENCE | {"loss": loss, name: value}) for value in values]
    return cells


def print_table(results: dict[str, Any]) -> None:
    """Print the errors as Markdown."""
    print("| setting | " + " | ".join(TRIALS) + " | mean | seconds a fit (" + ", ".join(TRIALS) + ") |")
    print("| --- |" + " --- |" * (len(TRIALS) + 2))
    for label, settings in list_cells():
        cells = [results.get(_key(name, settings)) for name in TRIALS]
        if all(cells):
            errors = " | ".join(f"{cell['error']:.2f} ± {cell['standard_error']:.2f}" for cell in cells)
            mean = np.mean([cell["error"] for cell in cells])
            seconds = ", ".join(f"{cell['seconds']:.2f}" for cell in cells)
            print(f"| {label} | {errors} | {mean:.2f} | {seconds} |")


def _key(name: str, settings: dict[str, Any]) -> str:
    return json.dumps([name, TRIALS[name], N_FOLDS, SEEDS, settings], sort_keys=True)


def main() -> None:
    """Fill in the cells that are missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", action="store_true", help="print what there is and stop")
    arguments = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if not arguments.table:
        RESULTS.parent.mkdir(exist_ok=True)
        for label, settings in list_cells():
            for name in TRIALS:
                if _key(name, settings) not in results:
                    results[_key(name, settings)] = cross_validate(name, settings)
                    RESULTS.write_text(json.dumps(results, indent=1))
                    print(f"{label:40}{name:10}{results[_key(name, settings)]}", file=sys.stderr, flush=True)
    print_table(results)


if __name__ == "__main__":
    main()
