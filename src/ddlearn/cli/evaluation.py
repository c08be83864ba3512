"""Models on samples that they have not seen: ``fit --test-size`` and ``--cv``, and ``compare``."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler
from sklearn.svm import SVC

from ..estimators.presets import PRESETS
from ..show.errors import measure_errors
from .model import Trial, make_model
from .reading import Samples
from .reading.samples import require
from .terminal import Terminal, escape, suggest

Split = tuple[NDArray[Any], NDArray[Any]]  # rows to learn from, and rows to predict

REFERENCE = "ddlearn"  # with its defaults, which the others are compared with


def split_samples(
    samples: Samples, test_size: float | None, n_folds: int | None, settings: dict[str, Any]
) -> list[Split]:
    """Return the rows to learn from and those held out, of one split or of each fold, with the classes in proportion.

    Unlabelled samples are learned from.
    """
    if test_size is not None and n_folds is not None:
        raise typer.BadParameter("--test-size and --cv both measure the error: give only one of them.")
    if test_size is not None and not 0 < test_size < 1:
        raise typer.BadParameter(f"--test-size {test_size:g}: give a share between 0 and 1, such as 0.2.")
    seed = settings.get("random_state")
    all_labels: Any = samples.labels
    is_labelled = all_labels.astype(str) != str(settings.get("unlabeled"))
    rows, labels = np.flatnonzero(is_labelled), all_labels[is_labelled]
    smallest = int(np.unique(labels, return_counts=True)[1].min())
    splitter: Any
    if test_size is None:
        splitter = StratifiedKFold if smallest >= (n_folds or 2) else KFold
        splitter = splitter(n_folds, shuffle=True, random_state=seed)
    else:
        splitter = StratifiedShuffleSplit if smallest > 1 else ShuffleSplit
        splitter = splitter(1, test_size=test_size, random_state=seed)
    try:
        found = list(splitter.split(rows, labels))
    except ValueError as error:  # fewer samples than folds, or than classes
        raise typer.BadParameter(f"the samples cannot be divided like this: {error}") from None
    unlabelled = np.flatnonzero(~is_labelled)
    return [(np.sort(np.append(rows[learned], unlabelled)), rows[held_out]) for learned, held_out in found]


def take_rows(samples: Samples, rows: NDArray[Any]) -> Samples:
    """Return some of the samples."""
    names = samples.sample_names
    return samples._replace(
        X=samples.X[rows],
        labels=samples.labels[rows],  # type: ignore[index]
        sample_names=None if names is None else [names[row] for row in rows],
    )


def run_trials(
    terminal: Terminal, samples: Samples, splits: list[Split], make: Callable[[], Any], name: str
) -> Iterator[tuple[Trial, float]]:
    """Fit one new model after the other, each to the first part of a split; yield the seconds of the fit, too."""
    labels: Any = samples.labels
    with terminal.progress("{task.completed}/{task.total}") as bar:
        task = bar.add_task(escape(name), total=len(splits))
        for learned, held_out in splits:
            begin = perf_counter()
            model = make().fit(samples.X[learned], labels[learned])
            yield (model, samples.X[held_out], labels[held_out]), perf_counter() - begin
            bar.advance(task)


class Result(NamedTuple):
    """How one model did on samples that it had not seen, and beside the reference."""

    name: str
    error: float
    error_interval: list[float]
    difference: float | None  # of errors, reference subtracted; None for the reference itself
    difference_interval: list[float] | None  # 95 %, paired by samples
    fit_seconds: float
    predict_seconds: float  # for 1000 samples


def list_contenders(samples: Samples, settings: dict[str, Any]) -> dict[str, Callable[[], Any]]:
    """Return how to make the models that are compared: our presets, and well-known ones with their defaults."""
    scaler = StandardScaler if samples.image_shape is None else Normalizer
    seed, n_jobs = settings["random_state"], settings["n_jobs"]
    ours = {REFERENCE: None} | {f"{REFERENCE} {name}": name for name in PRESETS}
    return {name: lambda preset=preset: make_model(settings, samples, preset) for name, preset in ours.items()} | {
        "logistic regression": lambda: make_pipeline(scaler(), LogisticRegression(max_iter=1000)),
        "SVC": lambda: make_pipeline(scaler(), SVC()),
        "random forest": lambda: RandomForestClassifier(random_state=seed, n_jobs=n_jobs),
        "nearest neighbours": lambda: make_pipeline(scaler(), KNeighborsClassifier(3)),
    }


def choose_contenders(samples: Samples, settings: dict[str, Any], names: Iterable[str]) -> dict[str, Callable[[], Any]]:
    """Return the models of these names, or all of them; the reference is always there."""
    known = list_contenders(samples, settings)
    names = [REFERENCE, *names] if names else list(known)
    for name in names:
        if name not in known:
            raise typer.BadParameter(f"--only {name}: the models are {', '.join(known)}{suggest(name, known)}")
    return {name: known[name] for name in dict.fromkeys(names)}


def compare_models(
    terminal: Terminal, samples: Samples, splits: list[Split], contenders: dict[str, Callable[[], Any]]
) -> list[Result]:
    """Return the results of all models on the same splits; the first is the reference."""
    results: list[Result] = []
    reference: Any = None
    for name, make in contenders.items():
        predictions, labels, fit_seconds, predict_seconds = [], [], [], []
        for (model, X, given), seconds in run_trials(terminal, samples, splits, make, name):
            begin = perf_counter()
            predictions.append(model.predict(X))
            predict_seconds.append((perf_counter() - begin) * 1000 / len(X))
            fit_seconds.append(seconds)
            labels.append(given)
        errors = measure_errors(np.concatenate(labels), np.concatenate(predictions))
        is_wrong = np.concatenate(labels) != np.concatenate(predictions)
        difference = interval = None
        if reference is None:
            reference = is_wrong
        else:
            n_worse, n_better = int(np.sum(is_wrong & ~reference)), int(np.sum(reference & ~is_wrong))
            difference = (n_worse - n_better) / len(is_wrong)
            interval = _find_interval(n_worse, n_better, len(is_wrong))
        seconds = float(np.mean(fit_seconds)), float(np.mean(predict_seconds))
        results.append(Result(name, errors.error, errors.error_interval, difference, interval, *seconds))
    return results


def _find_interval(n_worse: int, n_better: int, n_samples: int) -> list[float]:
    """Return the 95 % interval of a difference of paired shares, by Agresti and Min (2005): half a sample in each cell.

    Without it, two models that are wrong for the same samples would seem to be equal for certain.
    """
    worse, better, total = n_worse + 0.5, n_better + 0.5, n_samples + 2
    middle = (worse - better) / total
    half = 1.96 * math.sqrt((worse + better) / total - middle**2) / math.sqrt(total)
    return [middle - half, middle + half]


def draw_results(results: list[Result], title: str, output: Path) -> None:
    """Draw the errors with their intervals into a file."""
    require("matplotlib", "A figure", "plot")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 0.45 * len(results) + 1.2), layout="constrained")
    axes = figure.subplots()
    for place, one in enumerate(results):
        low, high = one.error_interval
        colour = "C0" if one.name.startswith(REFERENCE) else "0.45"
        axes.plot([100 * low, 100 * high], [place, place], color=colour, linewidth=2)
        axes.plot(100 * one.error, place, "o", color=colour)
    axes.set_yticks(range(len(results)), [one.name for one in results])
    axes.invert_yaxis()
    axes.set_xlim(left=0)
    axes.set_xlabel("error on samples not learned from, % (95 % interval)")
    axes.set_title(title, loc="left")
    figure.savefig(output)
