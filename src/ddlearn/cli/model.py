"""What commands do with a model: make, fit, load, predict, evaluate and explain; results are dictionaries of facts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import parse_number
from .source import Source, read_source
from .terminal import Terminal, suggest

if TYPE_CHECKING:
    from ..estimators.classifier import DDLClassifier
    from .reading import Samples

_USUAL_ATOMS, _USUAL_CODE = 500, 30  # number of atoms, and of numbers that a code takes
_ROWS_AT_ONCE = 4096  # predicted between two updates of the progress bar
_DATA_SUFFIXES = {
    ".csv",
    ".tsv",
    ".txt",
    ".parquet",
    ".npz",
    ".npy",
    ".svm",
    ".libsvm",
    ".png",
    ".jpg",
    ".jpeg",
}

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file written by fit.")]
Jobs = Annotated[int, typer.Option("--jobs", "--n-jobs", help="Number of threads; -1 uses all cores.")]


def make_model(settings: dict[str, Any], samples: Samples, preset: str | None = None) -> DDLClassifier:
    """Make a classifier; the shape of images and the type of the unlabelled marker come from the samples."""
    from ..estimators.classifier import DDLClassifier

    nested = {name: value for name, value in settings.items() if "__" in name}
    own = {name: value for name, value in settings.items() if name not in nested}
    if samples.image_shape is not None and len(samples.image_shape) == 2:
        own = {"image_shape": samples.image_shape} | own
    elif samples.image_shape is not None and preset != "paper":  # colour images, which the model does not know as such
        own = {"description": "unit"} | own
    marker = own.get("unlabeled")
    if isinstance(marker, str) and samples.labels is not None and samples.labels.dtype.kind in "iu":
        own["unlabeled"] = int(parse_number(marker))
    model = DDLClassifier(**own) if preset is None else DDLClassifier.from_preset(preset, **own)
    _set_nested(model, nested)
    return model


def _set_nested(model: DDLClassifier, nested: dict[str, Any]) -> None:
    """Set options of strategies; one that is given by name becomes the object of that name."""
    for name, value in sorted(nested.items()):  # an object comes before what is set on it
        path, known = name.replace("__", "."), list(_list_nested(model))
        if path not in known:
            raise ValueError(
                f"there is no nested option {path!r} of this model, which has {', '.join(known) or 'none'}"
                f"{suggest(path, known)}"
            )
        owner: Any = model
        *parts, key = path.split(".")
        for part in parts:
            setattr(owner, part, _make_strategy(part, getattr(owner, part)))
            owner = getattr(owner, part)
        owner.set_params(**{key: value})


def _list_nested(owner: Any, prefix: str = "") -> Iterator[str]:
    for name, value in owner.get_params(deep=False).items():
        if prefix:
            yield prefix + name
        if hasattr(strategy := _make_strategy(name, value), "get_params"):
            yield from _list_nested(strategy, f"{prefix}{name}.")


def _make_strategy(role: str, value: Any) -> Any:
    """Return the object that a name stands for; "auto", and what fit will refuse, stand for none."""
    from ..estimators.settings import ROLES

    if role not in ROLES or hasattr(value, "get_params"):
        return value
    with suppress(TypeError, ValueError):
        return ROLES[role].resolve(value)
    return value


def estimate_bytes(model: DDLClassifier, samples: Samples) -> int:
    """Return about the size of a model's file: the atoms and the codes of the samples."""
    n_atoms = model.n_components if isinstance(model.n_components, int) else _USUAL_ATOMS
    n_codes = len(samples.X) * _USUAL_CODE
    return samples.X.dtype.itemsize * (n_atoms * samples.X.shape[1] + n_codes)


def fit_model(
    terminal: Terminal, model: DDLClassifier, samples: Samples, checkpoint: Path | None = None, resume: bool = False
) -> float:
    """Fit, with bars on a terminal; return the time in seconds."""
    import numpy as np

    begin = perf_counter()
    if checkpoint is not None:
        from ..files.checkpoint import Checkpoint

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
    if path.is_dir() or path.suffix.lower() in _DATA_SUFFIXES:
        raise typer.BadParameter(f"{path} is data, not a model: give MODEL first and DATA second.")


def load_model(path: Path, jobs: int) -> DDLClassifier:
    """Load a classifier with one label per sample."""
    from ..files.models import load

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


def predict_in_chunks(terminal: Terminal, model: DDLClassifier, X: Any) -> Iterator[Any]:
    """Yield the probabilities of some rows after the other."""
    with terminal.progress("{task.completed:,}/{task.total:,}") as bar:
        task = bar.add_task("predicting", total=len(X))
        for start in range(0, len(X), _ROWS_AT_ONCE):
            found = model.predict_proba(X[start : start + _ROWS_AT_ONCE])
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
    from ..show.summary import summarise

    last, summary = model.history_[-1], summarise(model)
    facts = {
        "data": data,
        "n_samples": model.n_samples_seen_,
        "n_features": model.n_features_in_,
        "classes": model.classes_,
        "settings": settings,
        "description": type(model.description_).__name__,
        "n_components": len(model.components_),
        "n_nonzero_coefs": model.n_nonzero_coefs_,
        "n_iter": model.n_iter_,
        "max_iter": model.n_iter_ if model.max_iter is None else model.max_iter,
        "converged": model.converged_,
        "objective": last.objective,
        "error": summary.error,
        "error_source": summary.error_source,
        "label_column": getattr(model, "target_name_", None),
        "seconds": seconds,
    }
    if not hasattr(model, "refinement_"):  # refinement has changed the model since
        facts |= {"training_error": last.training_error, "label_free_error": last.label_free_error}
    else:
        from ..refinement.refiner import find_best

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

    check_labels(labels, model.unlabeled)
    labels, known = match_types(labels, model.classes_)
    unknown = np.setdiff1d(labels, known)
    if unknown.size:
        terminal.note(f"Labels unknown to the model, counted as errors: {', '.join(map(str, unknown[:10]))}")
    return labels, known


def measure_trials(terminal: Terminal, trials: Iterable[tuple[DDLClassifier, Any, Any]]) -> dict[str, Any]:
    """Return the errors of models on their samples and labels, in total and by class, and of their probabilities."""
    import numpy as np

    from ..model.measures import measure_calibration
    from ..show.errors import match_types, measure_errors

    predictions, all_labels, of_prediction, of_label = [], [], [], []
    for model, X, given in trials:
        labels, known = match_labels(terminal, model, given)
        all_labels.append(labels)
        start = 0
        for found in predict_in_chunks(terminal, model, X):
            best, is_label = found.argmax(axis=1), labels[start : start + len(found), None] == known
            predictions.append(known[best])
            of_prediction.append(found.max(axis=1))
            of_label.append(np.sum(found * is_label, axis=1))  # an unknown label had no probability
            start += len(found)
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
    import numpy as np
    from scipy.special import softmax

    from ..show.errors import find_positions

    found = model.explain(samples.X[row : row + 1])
    evidence = found.evidence[0]
    best, second = np.argsort(-evidence, kind="stable")[:2]
    order = np.argsort(-np.abs(found.codes.data), kind="stable")
    atoms, coefficients = found.codes.indices[order], found.codes.data[order]
    residual = found.samples - found.reconstruction - found.error
    energy = np.sum(
        (found.samples - model.inverse_transform(0 * found.codes)) ** 2
    )  # about the mean, if it was removed
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
    if label is not None and (place := int(find_positions(model.classes_, np.array([label]))[0])) not in (
        -1,
        best,
        second,
    ):
        facts["votes_for_label"] = votes[place]
    return facts
