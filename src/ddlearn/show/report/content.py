"""What the page tells, as one JSON object: the model, its training, its atoms, its errors, and some samples."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...coding import OMP, ORMP
from ...coding.errors import AlternatingErrors, resolve_error_route
from ...estimators.classifier import DDLClassifier, get_label_weight
from ..colors import get_class_color
from ..errors import match_types, measure_errors
from .evidence import tabulate_evidence
from .ink import (
    N_LOOKED_AT,
    UNKNOWN_LOOK,
    measure_ink,
    measure_look,
    thin_out,
)
from .packing import Json, pack, pack_rows
from .selection import choose, list_cells, list_users

Floats = NDArray[np.floating]

_SAMPLE_BYTES = 1_200_000  # for samples, before they are written as text
_MOST_SAMPLES = 3000
_DOUBLE_BYTES = 1_500_000  # up to this size the dictionary is kept in double precision; above, in single
_N_BINS = 31  # of the histogram of noise; with one in the middle, for noise that is the same everywhere
_USUAL_BUDGET = 0.2  # share of features that may be wrong, for a model that does not say
_IS_SAME_NOISE = 1e-6  # relative difference of deviations that no histogram need show


@dataclass(frozen=True)
class Data:
    """Samples to show, all checked."""

    X: Floats
    labels: NDArray[Any] | None
    name: str
    sample_names: list[str] | None


def collect_content(
    model: DDLClassifier, data: Data | None, image_shape: tuple[int, ...] | None, steps_before: list[str]
) -> Json:
    """Return all that the page shows; samples are as the steps of a pipeline before the model have left them."""
    model_of_arrays = _copy_without_names(model)
    plain = copy(model_of_arrays).set_params(alignment=None, error_budget=0, inference="fast")
    codes = None if data is None else csr_array(plain.transform(data.X))
    training_codes = getattr(model, "codes_", None)
    known = [some for some in (training_codes, codes) if some is not None]
    scores = np.concatenate([model.intercept_[None], *(some @ model.coef_.T + model.intercept_ for some in known)])
    looked_at = data.X if data is not None else _rebuild_samples(model)
    return {
        "model": _describe_model(model, image_shape)
        | {"evidence": tabulate_evidence(model.loss_, scores), "notes": _list_notes(model, steps_before)}
        | _describe_look(looked_at, image_shape),
        "training": _describe_training(model),
        "atoms": _describe_atoms(model, known[0] if known else None, training_codes is not None),
        "data": None if data is None or codes is None else _describe_data(model_of_arrays, plain, data, codes),
    }


def _copy_without_names(model: DDLClassifier) -> DDLClassifier:
    """Return the model for samples that have been checked: they are an array by now, and scikit-learn would warn."""
    bare = copy(model)
    bare.__dict__.pop("feature_names_in_", None)
    return bare


def _rebuild_samples(model: DDLClassifier) -> Floats | None:
    """Return the training samples as their codes have them, if the model has kept those."""
    codes = getattr(model, "codes_", None)
    return None if codes is None else thin_out(codes, N_LOOKED_AT) @ model.components_


def _describe_look(samples: Floats | None, image_shape: tuple[int, ...] | None) -> Json:
    look = UNKNOWN_LOOK if samples is None else measure_look(samples)
    ink = None if samples is None or image_shape is None else measure_ink(samples, image_shape, look)
    return {"look": look, "ink": ink}


def _describe_model(model: DDLClassifier, image_shape: tuple[int, ...] | None) -> Json:
    route = resolve_error_route(model.error_route)
    alternating = route if isinstance(route, AlternatingErrors) else AlternatingErrors()
    n_wrong_or_share = model.error_budget
    budget = n_wrong_or_share / (model.n_features_in_ if isinstance(n_wrong_or_share, Integral) else 1)
    return {
        "classes": [str(name) for name in model.classes_.tolist()],
        "colors": [get_class_color(position) for position in range(len(model.classes_))],
        "n_nonzero_coefs": model.n_nonzero_coefs_,
        "image_shape": None if image_shape is None else list(image_shape),
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        "dictionary": pack(model.components_, "f8" if 8 * model.components_.size <= _DOUBLE_BYTES else "f4"),
        "coef": pack(model.coef_, "f8"),
        "intercept": pack(model.intercept_, "f8"),
        "class_cost": pack(model.class_cost_ / get_label_weight(model), "f8"),
        "pursuit": _describe_pursuit(model),
        "errors": {
            "budget": float(budget or _USUAL_BUDGET),
            "trim": float(alternating.trim),
            "threshold": float(alternating.threshold),
            "max_iter": int(alternating.max_iter),
            "noise_scale": float(np.sqrt(model.median_noise_variance_)),
        },
        "settings": _describe_settings(model),
    }


def _describe_pursuit(model: DDLClassifier) -> Json | None:
    """Return what the page's script needs to code as the library does, None for a coder that it does not know."""
    coder = model.sparse_coder_
    if type(coder) not in (OMP, ORMP):
        return None
    return {"is_off_support_norm": coder.is_off_support_norm, "tol": float(coder.tol or 0)}


def _list_notes(model: DDLClassifier, steps_before: list[str]) -> list[str]:
    """Tell what is done to new samples that the page does not do."""
    notes = []
    if steps_before:
        notes.append(
            "This model is the last step of a pipeline: samples, atoms and drawings are what it sees, after "
            f"{', '.join(steps_before)}."
        )
    if model.inference != "fast":
        notes.append(
            f"Predictions in the summary were made by {model.inference} inference; the explorer uses the fast rule, so "
            "that its label may differ."
        )
    if model.alignment is not None:
        notes.append(
            "For predictions in the summary, images were registered to the dictionary; the explorer codes them where "
            "they are, so that its label may differ."
        )
    if not isinstance(resolve_error_route(model.error_route), AlternatingErrors):
        notes.append("The explorer looks for gross errors by the alternating route, not by the one of this model.")
    return notes


def _describe_settings(model: DDLClassifier) -> Json:
    """Return the parameters that are not at their defaults, and those that everyone asks for."""
    defaults = DDLClassifier().get_params(deep=False)
    given = model.get_params(deep=False)
    settings = {"atoms": len(model.components_), "atoms in a code": f"at most {model.n_nonzero_coefs_}"}
    settings |= {"loss": type(model.loss_).__name__, "sparse coder": type(model.sparse_coder_).__name__}
    shown = {"n_components", "n_nonzero_coefs", "loss", "sparse_coder", "n_jobs"}
    for name, value in given.items():
        if name not in shown and repr(value) != repr(defaults[name]):
            settings[name] = "an array" if np.ndim(value) > 1 else str(value)
    return {name: str(value) for name, value in settings.items()}


def _describe_training(model: DDLClassifier) -> Json:
    history = [record._asdict() for record in model.history_]
    variance = getattr(model, "noise_variance_", None)
    return {
        "history": {name: [_to_number(record[name]) for record in history] for name in history[0]},
        "converged": bool(model.converged_),
        "noise": None if variance is None else _describe_noise(np.sqrt(variance), float(np.sqrt(model.noise_floor_))),
        "class_cost": [float(cost) for cost in model.class_cost_],
        "cost_floor": float(model.cost_floor_),
    }


def _describe_noise(deviations: Floats, floor: float) -> Json:
    low, high = float(deviations.min()), float(deviations.max())
    if high - low <= _IS_SAME_NOISE * high:  # one bar, where NumPy would make bins from below 0 to above 1, or none
        low, high = 0.9 * low, 1.1 * high
    counts, edges = np.histogram(deviations.astype(float), bins=_N_BINS, range=(low, high))
    return {"counts": counts.tolist(), "edges": edges.tolist(), "floor": floor, "median": float(np.median(deviations))}


def _to_number(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None  # JSON knows no NaN


def _describe_atoms(model: DDLClassifier, codes: csr_array | None, are_of_training: bool) -> Json:
    """Return how often each atom is used, and its mean coefficient where it is, None for an atom that is not."""
    n_atoms = len(model.components_)
    if codes is None:
        return {"n_codes": None, "n_used": [0] * n_atoms, "mean": [None] * n_atoms, "source": None}
    n_used = np.bincount(codes.indices[codes.data != 0], minlength=n_atoms)
    sums = np.asarray(codes.sum(axis=0)).ravel().tolist()
    return {
        "n_codes": codes.shape[0],
        "n_used": n_used.tolist(),
        "mean": [total / n if n else None for total, n in zip(sums, n_used.tolist(), strict=True)],
        "source": "training samples" if are_of_training else "samples of this report",
    }


def _describe_data(model: DDLClassifier, plain: DDLClassifier, data: Data, codes: csr_array) -> Json:
    predictions, names = model.predict_proba(data.X).argmax(axis=1), model.classes_
    labels, errors = None, None
    if data.labels is not None:
        given, known = match_types(data.labels, model.classes_)
        errors = measure_errors(given, known[predictions])
        names = errors.classes
        labels, predictions = np.searchsorted(names, given), np.searchsorted(names, known)[predictions]
    cells = list_cells(predictions if labels is None else labels, predictions)
    users = list_users(codes)
    rows, samples = _choose_samples(data.X, [cells, users])
    content = {
        "name": data.name,
        "n_samples": len(data.X),
        "classes": [str(name) for name in names.tolist()],
        "errors": None if errors is None else _to_json(errors._asdict()),
        "rows": rows.tolist(),
        "names": None if data.sample_names is None else [data.sample_names[row] for row in rows],
        "labels": None if labels is None else labels[rows].tolist(),
        "predictions": predictions[rows].tolist(),
        "samples": samples,
        "users": _list_chosen_users(users, rows),
    }
    exact = csr_array(plain.transform(data.X[rows].astype(float)))
    return content | {
        "codes": {"starts": exact.indptr.tolist(), "atoms": exact.indices.tolist(), "values": pack(exact.data, "f8")}
    }


def _choose_samples(X: Floats, groups: list[list[NDArray[np.intp]]]) -> tuple[NDArray[np.intp], Json]:
    """Return which samples are shown, and them: as many as there is room for, which depends on how they pack."""
    for bytes_a_value in (1, 4):
        n_samples = int(np.clip(_SAMPLE_BYTES // (bytes_a_value * X.shape[1]), 1, _MOST_SAMPLES))
        rows = choose(groups, n_samples)
        samples = pack_rows(X[rows])
        if np.dtype(samples["values"]["dtype"]).itemsize <= bytes_a_value:
            break
    return rows, samples


def _list_chosen_users(users: list[NDArray[np.intp]], rows: NDArray[np.intp]) -> list[list[int]]:
    """Return, for each atom, the places on the page of the samples that use it most."""
    places = {row: place for place, row in enumerate(rows.tolist())}
    return [[places[row] for row in of_atom.tolist() if row in places] for of_atom in users]


def _to_json(facts: dict[str, Any]) -> Json:
    facts = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in facts.items()}
    for name in ("precision", "recall", "f1"):
        facts[name] = [_to_number(value) for value in facts[name]]
    facts["classes"] = [str(name) for name in facts["classes"]]
    return facts
