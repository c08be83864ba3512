"""A trial: a model of given settings, fitted to a training set and judged once on the test set."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import Pipeline
from sklearn.svm import LinearSVC

from ddlearn import DDLClassifier

from .baseline import make_baseline
from .cells import (
    Cell,
    Record,
    Runner,
    slug,
)
from .images import (
    DATASETS,
    SEED,
    UNLABELED,
    Floats,
    Split,
    hide_labels,
    load_rows,
    spread,
)
from .measuring import find_interval, warm_up
from .models import apply_variant, make_classifier
from .sparse_representation import SRC
from .tables import (
    BLUE,
    GREEN,
    ORANGE,
    RED,
)

Labels = NDArray[np.integer]

# DDL in the tables: the library's own defaults, but W is not trained again in the end, since the paper does not.
PAPER: dict[str, Any] = {"init": "samples", "refit": False}
BASELINE: dict[str, Any] = {"max_iter": 20}  # turns of K-SVD
# So low that hardly anything reaches them.
LOW_FLOORS: dict[str, Any] = {"noise_floor": 1e-4, "cost_floor": 1e-3}
JEFFREYS: dict[str, Any] = {"scales": "jeffreys"}
# Algorithm 2 as the paper prints it, but for steps that would raise a sample's objective, which are undone.
LITERAL: dict[str, Any] = {
    "sparse_coder": "omp",
    "n_swaps": 0,
    "coding": "printed",
    "dictionary_update": "ksvd",
    "classification_weight": 0.5,
    "tol": 0.0,
    "max_iter": 20,
}
LITERAL |= JEFFREYS | LOW_FLOORS
# DDL in the tables before the core was rebuilt: printed coding, floors, plain K-SVD. Cells with these settings are kept
# where they were not measured again.
FORMER: dict[str, Any] = {"max_iter": 20, "max_coding_iter": 100, "init": "samples", "refit": False}

BOTH: dict[str, dict[str, Any]] = {"baseline": BASELINE, "ddl": PAPER}  # methods, with their settings
RULES: dict[str, dict[str, Any]] = {"fast": {}, "full": {"inference": "full"}}  # one coding, or Eq. 5
LOSSES = ("square", "exponential", "logistic", "smooth_hinge")  # the paper's four, in its order
LOSS_TITLES = {"square": "SQ", "exponential": "EXP", "logistic": "LOG", "smooth_hinge": "HINGE"}
LOSS_COLOURS = {"square": BLUE, "exponential": RED, "logistic": GREEN, "smooth_hinge": ORANGE}


def align(dataset: str) -> dict[str, Any]:
    """Return the settings that align images of a data set."""
    return {"alignment": "affine", "image_shape": DATASETS[dataset].image_shape}


class Trial(NamedTuple):
    """All that decides the result of a trial."""

    dataset: str  # a key of ``images.DATASETS``
    method: str  # a key of ``METHODS``
    settings: dict[str, Any]
    variants: dict[str, dict[str, Any]] = {"fast": {}}  # noqa: RUF012 - settings after the fit, each judged on its own
    seed: int = SEED  # of the first atoms, of a random split, and of what is done to the labels
    n_folds: int = 0  # of a cross-validation on the training samples
    flipped: float = 0.0  # share of the training labels that are wrong
    labelled: float = 1.0  # share of the training samples that have a label
    max_train: int | None = None
    max_test: int | None = None


def _make_svm(C: Sequence[float], random_state: int, n_jobs: int | None) -> GridSearchCV:
    """Return a linear SVM that chooses C by cross-validation."""
    svm = LinearSVC(random_state=random_state, max_iter=10000)
    return GridSearchCV(svm, {"C": C}, cv=StratifiedKFold(3, shuffle=True, random_state=SEED), n_jobs=n_jobs)


def _make_peer(name: str, random_state: int, n_jobs: int | None, **settings: Any) -> BaseEstimator:
    """Return a model of dictlearn, which has no threads and comes with the extra ``reproduce``."""
    try:
        from dictlearn import classification  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        raise ImportError(
            f"{name} is measured with dictlearn, which is not installed: pip install dictlearn."
        ) from error
    return getattr(classification, name)(**settings, random_state=random_state)


def _fit_labelled(model: Any, X: Floats, y: Labels) -> Any:
    """Fit to the samples that have a label."""
    is_labelled = y != UNLABELED
    return model.fit(X[is_labelled], y[is_labelled])


def _fit_dictionary_to_all(model: Pipeline, X: Floats, y: Labels) -> Pipeline:
    """Fit the baseline: its dictionary to all samples, its classifiers to those with a label."""
    is_labelled = y != UNLABELED
    codes = model[0].fit(X).transform(X[is_labelled])
    model[1].fit(codes, y[is_labelled])
    return model


def _fit_all(model: DDLClassifier, X: Floats, y: Labels) -> DDLClassifier:
    """Fit to all samples, with and without label."""
    return model.fit(X, y)


class Method(NamedTuple):
    """What makes a model, and how it is fitted."""

    make: Callable[..., Any]
    fit: Callable[[Any, Floats, Labels], Any] = _fit_labelled


def _ignore_seed(make: Callable[..., Any]) -> Callable[..., Any]:
    def make_model(random_state: int, **settings: Any) -> Any:
        return make(**settings)

    return make_model


DICTLEARN_METHODS = {"D-KSVD": "DDLClassifier", "LC-KSVD": "LCDLClassifier"}
METHODS = {
    "ddl": Method(partial(make_classifier, unlabeled=UNLABELED), _fit_all),
    "ddl, labelled alone": Method(make_classifier),
    "baseline": Method(make_baseline),
    "baseline, dictionary of all": Method(make_baseline, _fit_dictionary_to_all),
    "nearest neighbour": Method(_ignore_seed(partial(KNeighborsClassifier, n_neighbors=1))),
    "linear SVM": Method(partial(_make_svm, C=[0.1, 1.0, 10.0, 100.0])),
    "SRC": Method(_ignore_seed(SRC)),
} | {name: Method(partial(_make_peer, peer)) for name, peer in DICTLEARN_METHODS.items()}


def make_cell(trial: Trial, n_jobs: int | None) -> Cell:
    """Return the cell of a trial."""
    settings = " ".join(str(value) for name, value in trial.settings.items() if FORMER.get(name) != value)
    return Cell(
        slug(f"{trial.dataset} {trial.method} {settings} {trial.seed}"),
        trial._asdict(),
        partial(measure_trial, trial, n_jobs),
        guess_effort(trial),
    )


def run_trials(trials: Sequence[Trial], runner: Runner) -> list[Record]:
    """Measure the trials that have no cell in the output folder yet, and return the records of all."""
    return runner.run([make_cell(trial, runner.n_jobs) for trial in trials])


# Times of a fit by loss, relative to each other, from K=1500 on USPS: boosting factorises a Hessian a class and round.
_LOSS_EFFORT = {"square": 1.0, "exponential": 7.0, "logistic": 7.0, "smooth_hinge": 12.0}
_DATASET_EFFORT = {"digits": 0.2, "usps": 1.0, "mnist": 15.0, "yaleb": 3.0}


def guess_effort(trial: Trial) -> float:
    """Return about how long a trial takes, relative to others; only the time left depends on it."""
    n_components = trial.settings.get("n_components") or 500
    loss = _LOSS_EFFORT.get(trial.settings.get("loss", "square"), 7.0)
    return _DATASET_EFFORT[trial.dataset] * loss * (1 + 0.6 * trial.n_folds) * (0.1 + (n_components / 1000) ** 1.5)


def load_samples(trial: Trial) -> Split:
    """Return what a trial learns from and is judged by."""
    data = load_rows(trial.dataset, trial.seed)
    trained, tested = spread(len(data.y_train), trial.max_train), spread(len(data.y_test), trial.max_test)
    return Split(data.X_train[trained], data.y_train[trained], data.X_test[tested], data.y_test[tested])


def measure_trial(trial: Trial, n_jobs: int | None) -> dict[str, Any]:
    """Fit and judge."""
    if trial.n_folds and (trial.flipped or trial.labelled < 1):
        raise ValueError("Cross-validation would be judged by labels that the trial hides: set n_folds=0.")
    data = load_samples(trial)
    method = METHODS[trial.method]
    model = method.make(**trial.settings, random_state=trial.seed, n_jobs=n_jobs)
    result: dict[str, Any] = {}
    if trial.n_folds:
        result["validation"] = _cross_validate(trial, model, data)
        result["validation_error"] = next(iter(result["validation"].values()))  # of the first variant
    start = perf_counter()
    fitted = method.fit(clone(model), data.X_train, _disturb_labels(data.y_train, trial))
    result["fit_seconds"] = perf_counter() - start
    result |= _describe_fit(fitted)
    result["test"] = {
        name: _judge(apply_variant(deepcopy(fitted), trial.settings, settings), data.X_test, data.y_test)
        for name, settings in trial.variants.items()
    }
    return result


def _cross_validate(trial: Trial, model: Any, data: Split) -> dict[str, float]:
    """Return each variant's mean error over parts of the training samples, after learning from the other parts."""
    fit = METHODS[trial.method].fit
    errors: dict[str, list[float]] = {name: [] for name in trial.variants}
    folds = StratifiedKFold(trial.n_folds, shuffle=True, random_state=SEED).split(data.X_train, data.y_train)
    for trained, tried in folds:
        fitted = fit(clone(model), data.X_train[trained], data.y_train[trained])
        for name, settings in trial.variants.items():
            predicted = apply_variant(deepcopy(fitted), trial.settings, settings).predict(data.X_train[tried])
            errors[name].append(np.mean(predicted != data.y_train[tried]))
    return {name: float(np.mean(of_folds)) for name, of_folds in errors.items()}


def _disturb_labels(y: Labels, trial: Trial) -> Labels:
    """Return the labels with some of them wrong, or some of them missing."""
    rng = np.random.default_rng(trial.seed)
    y, classes = y.astype(np.int64), np.unique(y)
    n_wrong = round(trial.flipped * len(y))
    wrong = rng.permutation(len(y))[:n_wrong]
    y[wrong] = classes[(np.searchsorted(classes, y[wrong]) + rng.integers(1, len(classes), n_wrong)) % len(classes)]
    return hide_labels(y, trial.labelled, rng) if trial.labelled < 1 else y


def _describe_fit(model: Any) -> dict[str, Any]:
    """Return the history of the fit."""
    if not isinstance(model, DDLClassifier):
        return {"best": model.best_params_} if hasattr(model, "best_params_") else {}
    history = model.history_
    return {
        "n_iter": model.n_iter_,
        "converged": bool(model.converged_),
        "objective": [record.objective for record in history],
        "training_error": [record.training_error for record in history],
        "label_free_error": [record.label_free_error for record in history],
        "moved": {
            name: [getattr(record, f"n_{name}") for record in history]
            for name in ("refitted", "reselected", "swapped", "rejected")
        },
    }


def _judge(model: Any, X: Floats, y: Labels) -> dict[str, Any]:
    """Return the error on test samples with its Wilson interval of 95 %, and the time."""
    warm_up(model, X)
    start = perf_counter()
    predicted = model.predict(X)
    seconds = perf_counter() - start
    n_wrong = int(np.count_nonzero(predicted != y))
    return {
        "error": n_wrong / len(y),
        "interval": find_interval(n_wrong, len(y)),
        "n_test": len(y),
        "predict_seconds": seconds,
    }


def get_trial(record: Record) -> Trial:
    """Return the trial of a record."""
    return Trial(**record["parameters"])


def get_error(record: Record, variant: str = "fast") -> float:
    """Return the test error in per cent."""
    return 100 * record["result"]["test"][variant]["error"]


def describe_errors(records: Sequence[Record], variant: str = "fast") -> str:
    """Return mean and standard deviation of the test error over seeds, in per cent."""
    errors = [get_error(record, variant) for record in records]
    return f"{np.mean(errors):.2f}" + (f" ± {np.std(errors, ddof=1):.2f}" if len(errors) > 1 else "")


def describe_data(records: Sequence[Record]) -> str:
    """Return which training and test data a table is about."""
    trial, n_test = get_trial(records[0]), next(iter(records[0]["result"]["test"].values()))["n_test"]
    n_train = "all" if trial.max_train is None else f"{trial.max_train}"
    return f"{trial.dataset.upper()}, images of unit norm, {n_train} training images and {n_test} test images"
