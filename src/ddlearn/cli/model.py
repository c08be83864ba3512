"""What commands do with a model: make, fit, load, predict, evaluate and explain; results are dictionaries of facts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import typer
from numpy.typing import NDArray
from scipy.special import softmax

from ..estimators.classifier import DDLClassifier
from ..estimators.settings import ROLES
from ..files.checkpoint import Checkpoint
from ..files.models import load
from ..model.measures import measure_calibration
from ..refinement.refiner import find_best
from ..show.errors import check_labels, find_positions, match_types, measure_errors
from .options import NESTED, parse_number
from .reading import DATA_SUFFIXES, Samples
from .source import Source, read_source
from .terminal import Terminal, suggest

Trial = tuple[Any, Any, Any]  # a model, samples that it has not seen, and their labels

_USUAL_ATOMS, _USUAL_CODE = 500, 30  # number of atoms, and of numbers that a code takes
_ROWS_AT_ONCE = 4096  # predicted between two updates of the progress bar


def make_model(settings: dict[str, Any], samples: Samples, preset: str | None = None) -> DDLClassifier:
    """Make a classifier; the shape of images and the type of the unlabelled marker come from the samples."""
    own = {name: value for name, value in settings.items() if NESTED not in name}
    if samples.image_shape is not None and len(samples.image_shape) == 2:
        own = {"image_shape": samples.image_shape} | own
    elif samples.image_shape is not None and preset != "paper":  # of colour images, which have no shape for the model
        own = {"description": "unit"} | own
    marker = own.get("unlabeled")
    if isinstance(marker, str) and samples.labels is not None and samples.labels.dtype.kind in "iu":
        own["unlabeled"] = int(parse_number(marker))
    model = DDLClassifier(**own) if preset is None else DDLClassifier.from_preset(preset, **own)
    for name, value in sorted(settings.items()):  # an object comes before its options
        if NESTED in name:
            _set_nested(model, name.split(NESTED), value)
    return model


def _set_nested(owner: Any, path: list[str], value: Any, prefix: str = "") -> None:
    """Set an option of a strategy; a strategy that is given by name becomes the object of that name."""
    name, *rest = path
    known = {one: _make_strategy(one, given) for one, given in owner.get_params(deep=False).items()}
    if rest:
        known = {one: strategy for one, strategy in known.items() if hasattr(strategy, "get_params")}
    if name not in known:
        names = [prefix + one for one in known]
        raise ValueError(
            f"there is no nested option {prefix + name!r} of this model, which has {', '.join(names) or 'none'}"
            f"{suggest(prefix + name, names)}"
        )
    if rest:
        owner.set_params(**{name: known[name]})
        _set_nested(known[name], rest, value, f"{prefix}{name}.")
    else:
        owner.set_params(**{name: value})


def _make_strategy(role: str, value: Any) -> Any:
    """Return the object that a name stands for; "auto", and what fit will refuse, stand for none."""
    if role not in ROLES or hasattr(value, "get_params"):
        return value
    with suppress(TypeError, ValueError):
        return ROLES[role].resolve(value)
    return value


def estimate_bytes(model: DDLClassifier, samples: Samples) -> int:
    """Return about the size of a model's file: the atoms and the codes of the samples."""
    n_atoms = model.n_components if isinstance(model.n_components, int) else _USUAL_ATOMS
    return samples.X.dtype.itemsize * (n_atoms * samples.X.shape[1] + len(samples.X) * _USUAL_CODE)


def fit_model(
    terminal: Terminal, model: DDLClassifier, samples: Samples, checkpoint: Path | None = None, resume: bool = False
) -> float:
    """Fit, with bars on a terminal; return the time in seconds."""
    begin = perf_counter()
    if checkpoint is not None:
        model.set_callbacks(Checkpoint(checkpoint, resume=resume))
    model.set_params(verbose=int(terminal.has_progress)).fit(samples.X, samples.labels)
    model.verbose = 0  # a model file has no terminal
    if samples.feature_names is not None:  # as scikit-learn does for a data frame, without copying the data into one
        model.feature_names_in_ = np.array(samples.feature_names, dtype=object)
    if samples.label_name is not None:
        model.target_name_ = samples.label_name
    return perf_counter() - begin


def refuse_data(path: Path) -> None:
    """Fail if what should be a model is data."""
    if path.is_dir() or path.suffix.lower() in DATA_SUFFIXES:
        raise typer.BadParameter(f"{path} is data, not a model: give MODEL first and DATA second.")


def load_model(path: Path, jobs: int) -> DDLClassifier:
    """Load a classifier with one label per sample."""
    refuse_data(path)
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
    return read_source(
        terminal,
        source,
        n_features=model.n_features_in_,
        feature_names=list(getattr(model, "feature_names_in_", ())),
        label_name=getattr(model, "target_name_", None),
    )


def predict_in_blocks(terminal: Terminal, model: DDLClassifier, X: NDArray[Any]) -> Iterator[NDArray[Any]]:
    """Yield the probabilities of some rows after the other."""
    with terminal.progress("{task.completed:,}/{task.total:,}") as bar:
        task = bar.add_task("predicting", total=len(X))
        for start in range(0, len(X), _ROWS_AT_ONCE):
            found = model.predict_proba(X[start : start + _ROWS_AT_ONCE])
            yield found
            bar.advance(task, len(found))


def predict_best(terminal: Terminal, model: DDLClassifier, X: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the position of the best class of each row, and its probability."""
    best = [(found.argmax(axis=1), found.max(axis=1)) for found in predict_in_blocks(terminal, model, X)]
    positions, probabilities = map(np.concatenate, zip(*best, strict=True))
    return positions, probabilities


def summarize_fit(data: str, model: DDLClassifier, settings: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Return the result of a fit: numbers for scripts, and the facts of the model's summary."""
    summary = model.summary()
    facts = {
        "data": data,
        "n_samples": model.n_samples_seen_,
        "n_features": model.n_features_in_,
        "classes": model.classes_,
        "settings": settings,
        "n_components": len(model.components_),
        "n_iter": model.n_iter_,
        "converged": model.converged_,
        "iteration": model.history_[-1]._asdict(),
        "error": summary.error,
        "error_source": summary.error_source,
        "label_column": getattr(model, "target_name_", None),
        "seconds": seconds,
        "summary": summary.facts,
    }
    if hasattr(model, "refinement_"):
        facts["refinement"] = find_best(model.refinement_)._asdict() | {"n_epochs": len(model.refinement_) - 1}
    if hasattr(model, "search_"):
        chosen = {name: column[-1].item() for name, column in model.search_.items()}
        facts["search"] = {"n_tried": len(model.search_["error"])} | chosen
    return facts


def match_labels(terminal: Terminal, model: DDLClassifier, labels: Any) -> tuple[Any, Any]:
    """Return labels and the model's classes with the same type, and note labels that are not among the classes."""
    check_labels(labels, model.unlabeled)
    labels, known = match_types(labels, model.classes_)
    unknown = np.setdiff1d(labels, known)
    if unknown.size:
        terminal.note(f"Labels unknown to the model, counted as errors: {', '.join(map(str, unknown[:10]))}")
    return labels, known


def measure_trials(terminal: Terminal, trials: Iterable[Trial]) -> dict[str, Any]:
    """Return the errors of models on their samples and labels, in total and by class, and of their probabilities."""
    predictions, all_labels, of_prediction, of_label = [], [], [], []
    for model, X, given in trials:
        labels, known = match_labels(terminal, model, given)
        all_labels.append(labels)
        for start, found in zip(count(0, _ROWS_AT_ONCE), predict_in_blocks(terminal, model, X), strict=False):
            is_label = labels[start : start + len(found), None] == known
            predictions.append(known[found.argmax(axis=1)])
            of_prediction.append(found.max(axis=1))
            of_label.append(np.sum(found * is_label, axis=1))  # an unknown label had no probability
    labels, predicted = match_types(np.concatenate(all_labels), np.concatenate(predictions))
    probabilities = np.concatenate(of_label), np.concatenate(of_prediction)
    calibration = measure_calibration(*probabilities, labels == predicted)
    return measure_errors(labels, predicted)._asdict() | calibration._asdict()


def find_row(samples: Samples, row: str | None, data: str) -> int:
    """Return the number of a sample that is given by its number or the name of its file; a single one needs none."""
    n_samples, names = len(samples.X), samples.sample_names or []
    if row is None and n_samples == 1:
        return 0
    if row is None:
        raise typer.BadParameter(f"{data} has {n_samples} samples: choose one by --row, from 0 to {n_samples - 1}.")
    if row.isdecimal() and int(row) < n_samples:
        return int(row)
    found = [number for number, name in enumerate(names) if row in (name, Path(name).name)]
    if len(found) == 1:
        return found[0]
    hint = suggest(row, [*names, *(Path(name).name for name in names)])
    several = f", or {row} in {len(found)} folders: give its folder, too" if found else ""
    raise typer.BadParameter(f"--row {row}: {data} has {n_samples} samples, 0 to {n_samples - 1}{several}{hint}")


def explain_sample(model: DDLClassifier, samples: Samples, row: int) -> dict[str, Any]:
    """Return the atoms behind the prediction of a sample, their votes, and how these become evidence."""
    found = model.explain(samples.X[row : row + 1])
    evidence = found.evidence[0]
    best, second = np.argsort(-evidence, kind="stable")[:2]
    order = np.argsort(-np.abs(found.codes.data), kind="stable")
    atoms, coefficients = found.codes.indices[order], found.codes.data[order]
    residual = found.samples - found.reconstruction - found.error
    energy = np.sum((found.samples - model.inverse_transform(0 * found.codes)) ** 2)  # about a mean that was removed
    votes = coefficients * model.coef_[:, atoms]
    label = None if samples.labels is None else samples.labels[row]
    facts = {
        "row": row,
        "sample": samples.sample_names[row] if samples.sample_names else str(row),
        "label": label,
        "prediction": model.classes_[best],
        "runner_up": model.classes_[second],
        "atoms": atoms,
        "coefficients": coefficients,
        "votes_for_prediction": votes[best],
        "votes_for_runner_up": votes[second],
        "classes": model.classes_,
        "votes": votes.sum(axis=1),
        "intercept": model.intercept_,
        "class_cost": model.class_cost_,
        "evidence": evidence,
        "is_direct": model.n_views == 1 and model.inference == "fast",
        "probability": softmax(evidence),
        "n_wrong_features": int(np.count_nonzero(found.error)),
        "n_missing_features": int(np.count_nonzero(found.is_missing)),
        "explained": float(1 - np.sum(residual**2) / max(energy, np.finfo(float).tiny)),
    }
    place = -1 if label is None else int(find_positions(model.classes_, np.array([label]))[0])
    if place not in (-1, best, second):
        facts["votes_for_label"] = votes[place]
    return facts
