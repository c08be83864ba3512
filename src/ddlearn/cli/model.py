"""What commands do with a model: make, fit, load, predict, evaluate and explain; results are dictionaries of facts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import parse_number
from .source import Source, read_source
from .terminal import Terminal

if TYPE_CHECKING:
    from ..estimators.classifier import DDLClassifier
    from ..fitting.run import Snapshot
    from .reading import Samples

_ROWS_AT_ONCE = 4096  # predicted between two updates of the progress bar

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file written by fit.")]
Jobs = Annotated[int, typer.Option("--jobs", "--n-jobs", help="Number of threads; -1 uses all cores.")]


def make_model(settings: dict[str, Any], samples: Samples, preset: str | None = None) -> DDLClassifier:
    """Make a classifier; the shape of images and the type of the unlabelled marker come from the samples."""
    from ..estimators.classifier import DDLClassifier
    from .reading.samples import suggest

    nested = {name: value for name, value in settings.items() if "__" in name}
    own = {name: value for name, value in settings.items() if name not in nested}
    if samples.image_shape is not None and len(samples.image_shape) == 2:
        own = {"image_shape": samples.image_shape} | own
    elif samples.image_shape is not None and preset != "paper":  # colour images, which the model does not know as such
        own = {"scale": "unit"} | own
    marker = own.get("unlabeled")
    if isinstance(marker, str) and samples.labels is not None and samples.labels.dtype.kind in "iu":
        own["unlabeled"] = int(parse_number(marker))
    model = DDLClassifier(**own) if preset is None else DDLClassifier.from_preset(preset, **own)
    try:
        return model.set_params(**nested)
    except ValueError as error:
        known = [name.replace("__", ".") for name in model.get_params(deep=True) if "__" in name]
        unknown = [name for name in (name.replace("__", ".") for name in nested) if name not in known]
        if not unknown:
            raise
        raise ValueError(
            f"there is no nested option {unknown[0]!r} of this model, which has {', '.join(known) or 'none'}"
            f"{suggest(unknown[0], known)}"
        ) from error


def fit_model(
    terminal: Terminal, model: DDLClassifier, samples: Samples, checkpoint: Path | None = None, resume: bool = False
) -> float:
    """Fit with a progress bar; return the time in seconds."""
    import numpy as np

    begin = perf_counter()
    with terminal.progress(*_FitProgress.columns) as bar:
        callbacks: list[Any] = [_FitProgress(bar)]
        if checkpoint is not None:
            from ..files.checkpoint import Checkpoint

            callbacks.append(Checkpoint(checkpoint, resume=resume))
        model.set_callbacks(*callbacks).fit(samples.X, samples.labels)
    if samples.feature_names is not None:  # as scikit-learn does for a data frame, without copying the data into one
        model.feature_names_in_ = np.array(samples.feature_names, dtype=object)
    return perf_counter() - begin


class _FitProgress:
    """A scikit-learn callback with a progress bar for the iterations, and one for the epochs of refinement."""

    columns = ("{task.completed}/{task.total}", "{task.fields[result]}")

    def __init__(self, bar: Any):
        self.bar = bar
        self.refining: Any = None

    def setup(self, estimator: Any, context: Any) -> None:
        """Do nothing."""

    on_fit_task_end = teardown = setup

    def on_fit_task_begin(self, estimator: Any, context: Any, *, metadata: dict[str, Any] | None) -> None:
        """Register for iterations and epochs, which is cheaper than a callback, for which the fit makes a model."""
        if metadata is None:  # an iteration begins
            return
        run = metadata["run"]
        fitting = self.bar.add_task("fitting", total=run.settings.max_iter, result="")
        run.keepers.append(partial(self._show, fitting, run.plan.refiner))

    def _show(self, task: Any, refiner: Any, snapshot: Snapshot) -> None:
        """Show the objective and the error to expect for new samples, or cost and held-out error of refinement."""
        if snapshot.refinement is None:
            iteration = snapshot.progress.history[-1]
            result = f"objective {iteration.objective:,.0f}  error {iteration.label_free_error:.2%}"
            self.bar.update(task, completed=iteration.iteration, result=result)
            return
        if self.refining is None:
            self.refining = self.bar.add_task("refining", total=refiner.epochs, result="")
        record = snapshot.refinement.history[-1]
        result = f"cost {record.training_cost:.3g}"
        if not math.isnan(record.validation_error):
            result += f"  held-out error {record.validation_error:.2%}"
        self.bar.update(self.refining, completed=record.epoch, result=result)


def load_model(path: Path, jobs: int) -> DDLClassifier:
    """Load a classifier with one label per sample."""
    from ..files.models import load

    model = load(path)
    if not hasattr(model, "components_") or getattr(model, "is_multilabel_", True):
        raise ValueError(f"{path} is not a classifier with one label per sample: use ddlearn.load in Python.")
    return model.set_params(n_jobs=jobs)


def read_for_model(terminal: Terminal, model: DDLClassifier, source: Source) -> Samples:
    """Read samples for a model: images of its size, columns in its order."""
    if source.image_size is None:
        side = math.isqrt(model.n_features_in_ // 3)
        if model.image_shape is not None:  # of grey images; colour images are assumed square
            source = replace(source, image_size=tuple(model.image_shape), colour=False)
        elif 3 * side**2 == model.n_features_in_:
            source = replace(source, image_size=(side, side), colour=True)
    samples = read_source(terminal, source, model.n_features_in_)
    names, expected = samples.feature_names, list(getattr(model, "feature_names_in_", ()))
    if not names or not expected or names == expected:
        return samples
    from .reading.samples import DataError, list_differences

    if differences := list_differences(names, expected):
        raise DataError(f"{source.data} has other columns than the model was fitted to: {differences}.")
    if len(set(names)) < len(names):
        raise DataError(f"{source.data} repeats names of columns, in another order than the model was fitted to.")
    return samples._replace(X=samples.X[:, [names.index(name) for name in expected]])


def predict_in_chunks(terminal: Terminal, model: DDLClassifier, X: Any) -> Iterator[Any]:
    """Yield the probabilities of some rows after the other, with one chunk in memory at a time."""
    from .reading.parts import iterate_chunks

    with terminal.progress("{task.completed:,}/{task.total:,}") as bar:
        task = bar.add_task("predicting", total=len(X))
        for chunk in iterate_chunks(X):
            for start in range(0, len(chunk), _ROWS_AT_ONCE):
                found = model.predict_proba(chunk[start : start + _ROWS_AT_ONCE])
                yield found
                bar.advance(task, len(found))


def predict_best(terminal: Terminal, model: DDLClassifier, X: Any) -> tuple[Any, Any]:
    """Return the position of the best class of each row, and its probability."""
    import numpy as np

    best = [(found.argmax(axis=1), found.max(axis=1)) for found in predict_in_chunks(terminal, model, X)]
    positions, probabilities = map(np.concatenate, zip(*best, strict=True))
    return positions, probabilities


def summarize_fit(data: str, model: DDLClassifier, settings: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return the result of a fit."""
    last = model.history_[-1]
    facts = {
        "data": data,
        "n_samples": model.n_samples_seen_,
        "n_features": model.n_features_in_,
        "classes": model.classes_,
        "settings": settings,
        "scaling": type(model.scaling_).__name__,
        "n_components": len(model.components_),
        "n_nonzero_coefs": model.n_nonzero_coefs_,
        "n_iter": model.n_iter_,
        "max_iter": model.n_iter_ if model.max_iter is None else model.max_iter,
        "converged": model.converged_,
        "objective": last.objective,
        "training_error": last.training_error,
        "label_free_error": last.label_free_error,
        "seconds": seconds,
    }
    if hasattr(model, "refinement_"):
        from ..fitting.refine import find_best

        best = find_best(model.refinement_)
        facts["refinement"] = {
            "n_epochs": len(model.refinement_) - 1,
            "best_epoch": best.epoch,
            "validation_error": best.validation_error,
            "validation_error_before": model.refinement_[0].validation_error,
        }
    if getattr(model, "search_", None):
        facts["search"] = {"n_tried": len(model.search_)} | model.search_[-1]._asdict()
    return facts


def match_labels(terminal: Terminal, model: DDLClassifier, labels: Any) -> tuple[Any, Any]:
    """Return labels and the model's classes with the same type, and note labels that are not among the classes."""
    import numpy as np

    from ..show.errors import check_labels, match_types
    from .reading.parts import iterate_chunks

    labels = np.concatenate(list(iterate_chunks(labels)))
    if labels.dtype.kind == "O":
        labels = labels.astype(str)
    check_labels(labels, model.unlabeled)
    labels, known = match_types(labels, model.classes_)
    unknown = np.setdiff1d(labels, known)
    if unknown.size:
        terminal.note(f"Labels unknown to the model, counted as errors: {', '.join(map(str, unknown[:10]))}")
    return labels, known


def measure_model(terminal: Terminal, model: DDLClassifier, X: Any, labels: Any) -> dict[str, Any]:
    """Return the errors of a model, in total and by class, and what its probabilities are worth."""
    import numpy as np

    from ..inference.calibration import measure_calibration
    from ..show.errors import measure_errors

    labels, known = match_labels(terminal, model, labels)
    predictions, of_prediction, of_label, start = [], [], [], 0
    for found in predict_in_chunks(terminal, model, X):
        best, is_label = found.argmax(axis=1), labels[start : start + len(found), None] == known
        predictions.append(known[best])
        of_prediction.append(found.max(axis=1))
        of_label.append(np.sum(found * is_label, axis=1))  # an unknown label had no probability
        start += len(found)
    all_predictions = np.concatenate(predictions)
    probabilities = np.concatenate(of_label), np.concatenate(of_prediction)
    calibration = measure_calibration(*probabilities, labels == all_predictions)
    return measure_errors(labels, all_predictions)._asdict() | calibration._asdict()


def explain_sample(model: DDLClassifier, samples: Samples, row: int) -> dict[str, Any]:
    """Return the atoms and the evidence behind the prediction of a sample."""
    import numpy as np
    from scipy.special import softmax

    found = model.explain(samples.X[row : row + 1])
    evidence = found.evidence[0]
    best, second = np.argsort(-evidence, kind="stable")[:2]
    order = np.argsort(-np.abs(found.codes.data), kind="stable")
    atoms, coefficients = found.codes.indices[order], found.codes.data[order]
    residual = found.samples - found.reconstruction - found.error
    energy = np.sum(
        (found.samples - model.inverse_transform(0 * found.codes)) ** 2
    )  # about the mean, if it was removed
    return {
        "row": row,
        "sample": samples.sample_names[row] if samples.sample_names else str(row),
        "label": None if samples.labels is None else samples.labels[row],
        "prediction": model.classes_[best],
        "runner_up": model.classes_[second],
        "atoms": atoms,
        "coefficients": coefficients,
        "votes_for_prediction": coefficients * model.coef_[best, atoms],
        "votes_for_runner_up": coefficients * model.coef_[second, atoms],
        "classes": model.classes_,
        "evidence": evidence,
        "probability": softmax(evidence),
        "n_wrong_features": int(np.count_nonzero(found.error)),
        "n_missing_features": int(np.count_nonzero(found.is_missing)),
        "explained": float(1 - np.sum(residual**2) / max(energy, np.finfo(float).tiny)),
    }
