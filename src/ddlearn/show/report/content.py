"""The content of the page as one JSON object: the model, its training, its atoms, its errors, and some samples."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from copy import copy
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone

from ...coding.coders import OMP, ORMP, SparseCoder
from ...coding.elastic_net import ElasticNet
from ...coding.robust import ERROR_SEARCHES, ROBUSTNESS, AlternatingErrors, Robustness
from ...estimators.classifier import DDLClassifier
from ...inference.rules import INFERENCE_RULES, FastInference
from ...model.codes import Model
from ...refinement.refiner import find_best
from ..colors import get_class_color
from ..errors import find_positions, match_types
from ..summary import Evaluation, is_calibrated, summarise
from .ink import N_LOOKED_AT, UNKNOWN_LOOK, measure_ink, measure_look, thin_out
from .packing import Json, make_column, pack, tabulate_evidence
from .samples import Data, describe_data

_PURSUITS = {OMP, ORMP}  # those that pursuit.js implements; a subclass may do anything
_EXACT = 1e-10  # duality gap of codes
_FEW_FEATURES = 30  # make a table, even without names
_DOUBLE_BYTES = 1_500_000  # up to this size the dictionary is stored in double precision
_N_BINS = 31  # of the histogram of noise, an odd number to center noise that is the same everywhere
_USUAL_BUDGET = 0.2  # fraction of features that may be wrong, if the model does not say
_IS_SAME_NOISE = 1e-6  # relative range of noise levels that needs no histogram


def collect_content(
    model: DDLClassifier, data: Data | None, image_shape: tuple[int, ...] | None, steps_before: list[str]
) -> Json:
    """Return the content of the page; samples are as the last step of a pipeline receives them."""
    nameless = copy(model)  # validated samples are arrays, and scikit-learn would warn of missing feature names
    nameless.__dict__.pop("feature_names_in_", None)
    if isinstance(model.sparse_coder_, ElasticNet):  # the scripts go to the minimum, and must find the same classes
        nameless.sparse_coder_ = clone(model.sparse_coder_).set_params(tol=min(model.sparse_coder_.tol, _EXACT))
    no_errors = Robustness(missing=ROBUSTNESS.resolve(model.robustness).missing)
    plain = copy(nameless).set_params(alignment=None, robustness=no_errors, inference="fast")  # as in the scripts
    training_codes = getattr(model, "codes_", None)
    seen = None if data is None else _evaluate(nameless, plain, data)
    known = [some for some in (training_codes, None if seen is None else seen.codes) if some is not None]
    scores = np.concatenate([model.intercept_[None], *(some @ model.coef_.T + model.intercept_ for some in known)])
    samples, look, ink = None if data is None else data.X, UNKNOWN_LOOK, None
    if samples is None and training_codes is not None:
        samples = model.inverse_transform(thin_out(training_codes, N_LOOKED_AT))
    if samples is not None:
        look = measure_look(samples)
        ink = None if image_shape is None else measure_ink(samples, image_shape, look)
    summary, predictor = summarise(model, seen), plain._predictor(np.dtype(np.float64))
    views = pack(np.asarray(predictor.views), "f8") if len(predictor.views) else None  # displacements; not the first
    return {
        "model": _describe_model(model, image_shape)
        | {"evidence": tabulate_evidence(model.loss_, scores), "notes": _list_notes(model, steps_before)}
        | {"look": look, "ink": ink, "table": _describe_table(model, image_shape, samples)}
        | {"views": views, "prior_evidence": predictor.prior_evidence.tolist()},
        "summary": {
            "error": summary.error,
            "error_source": summary.error_source,
            "checks": [check._asdict() for check in summary.checks],
        },
        "training": _describe_training(model),
        "atoms": _describe_atoms(model, seen),
        "data": None if data is None or seen is None else describe_data(nameless, plain, data, seen),
    }


def _evaluate(model: DDLClassifier, plain: DDLClassifier, data: Data) -> Evaluation:
    labels = None
    if data.labels is not None:
        given, known = match_types(data.labels, model.classes_)
        labels = find_positions(known, given)
    return Evaluation(data.X, labels, model.predict_proba(data.X), csr_array(plain.transform(data.X)), data.training)


def _describe_table(
    model: DDLClassifier, image_shape: tuple[int, ...] | None, samples: NDArray[np.floating] | None
) -> Json | None:
    """Return mean and spread of the columns of a table; None for images, and for signals, whose features are alike."""
    names = getattr(model, "feature_names_in_", ())
    has_words = any(not str(name).replace(".", "").isdigit() for name in names)
    if image_shape is not None or not (has_words or model.n_features_in_ <= _FEW_FEATURES):
        return None
    numbers = model.description_.export() or {}
    if "deviation" in numbers:
        mean, spread = numbers["mean"], numbers["deviation"]
    elif samples is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of columns without any value
            mean, spread = np.nan_to_num(np.nanmean(samples, axis=0)), np.nan_to_num(np.nanstd(samples, axis=0))
    else:
        mean, spread = np.zeros(model.n_features_in_), np.ones(model.n_features_in_)
    return {"mean": pack(mean, "f8"), "spread": pack(np.where(spread > 0, spread, 1), "f8")}


def _describe_model(model: DDLClassifier, image_shape: tuple[int, ...] | None) -> Json:
    robustness = ROBUSTNESS.resolve(model.robustness)
    search = ERROR_SEARCHES.resolve(robustness.error_search)
    alternating = search if isinstance(search, AlternatingErrors) else AlternatingErrors()
    budget = robustness.error_budget / (model.n_features_in_ if isinstance(robustness.error_budget, Integral) else 1)
    fitted = Model(model.components_, model.coef_, model.intercept_, model.class_cost_)
    numbers = model.description_.export()
    is_known = numbers is not None
    atoms = model.components_ if is_known else model.description_.show(model.components_)
    return {
        "classes": [str(name) for name in model.classes_.tolist()],
        "colors": [get_class_color(position) for position in range(len(model.classes_))],
        "n_nonzero_coefs": model.n_nonzero_coefs_,
        "image_shape": None if image_shape is None else list(image_shape),
        "feature_names": [str(name) for name in getattr(model, "feature_names_in_", [])],
        "n_features": model.n_features_in_,
        "description": {name: pack(value, "f8") for name, value in (numbers or {}).items() if name != "deviation"},
        "dictionary": pack(atoms, "f8" if 8 * atoms.size <= _DOUBLE_BYTES else "f4"),
        "coef": pack(model.coef_, "f8"),
        "intercept": pack(model.intercept_, "f8"),
        "class_cost": pack(fitted.weigh_labels(model.classification_weight).class_cost, "f8"),
        "pursuit": _describe_coder(model.sparse_coder_) if is_known else None,
        "errors": {
            "budget": float(budget or _USUAL_BUDGET),
            "trim": float(alternating.trim),
            "threshold": float(alternating.threshold),
            "max_iter": int(alternating.max_iter),
            "noise_scale": float(np.sqrt(model.median_noise_variance_)),
        },
        "uses_errors": bool(robustness.error_budget),
        "is_calibrated": is_calibrated(model),
        "settings": _describe_settings(model),
    }


def _describe_coder(coder: SparseCoder) -> Json | None:
    """Return what pursuit.js and elastic_net.js need to know; None for a coder that they do not implement."""
    if type(coder) in _PURSUITS:
        return {
            "uses_residual_norm": coder.uses_residual_norm,  # type: ignore[attr-defined]
            "tol": float(coder.tol or 0),  # type: ignore[attr-defined]
            "n_swaps": int(coder.n_swaps),  # type: ignore[attr-defined]
        }
    if type(coder) is ElasticNet:
        return {"lasso": coder.lasso, "ridge": coder.ridge, "positive": bool(coder.positive)}
    return None


def _list_notes(model: DDLClassifier, steps_before: list[str]) -> list[str]:
    """Return how the page differs from the predictions of the model."""
    search = ERROR_SEARCHES.resolve(ROBUSTNESS.resolve(model.robustness).error_search)
    rule = INFERENCE_RULES.resolve(model.inference)
    notes = {
        "This model is the last step of a pipeline: samples, atoms and drawings are shown as it receives them, after "
        f"{', '.join(steps_before)}.": bool(steps_before),
        "Predictions in the summary use full inference; the explorer uses the fast rule, so its label may differ.": (
            not isinstance(rule, FastInference)
        ),
        "For predictions in the summary, images were aligned with the dictionary; the explorer codes them as they are, "
        "so its label may differ.": model.alignment is not None,
        "The explorer searches for gross errors by alternating, not by the search of this model.": (
            not isinstance(search, AlternatingErrors)
        ),
        "Predictions in the summary leave gross errors out: see Robustness in the explorer.": bool(
            ROBUSTNESS.resolve(model.robustness).error_budget
        ),
    }
    return [note for note, applies in notes.items() if applies]


def _describe_settings(model: DDLClassifier) -> dict[str, str]:
    """Return the most important parameters, and those that differ from their defaults."""
    defaults = type(model)().get_params(deep=False)
    settings = {"atoms": str(len(model.components_)), "atoms in a code": f"at most {model.n_nonzero_coefs_}"}
    settings |= {"loss": type(model.loss_).__name__, "sparse coder": type(model.sparse_coder_).__name__}
    settings["description"] = type(model.description_).__name__
    shown = {"n_components", "description", "n_nonzero_coefs", "loss", "sparse_coder", "n_jobs"}
    for name, value in model.get_params(deep=False).items():
        if name not in shown and repr(value) != repr(defaults[name]):
            settings[name] = "an array" if np.ndim(value) > 1 else str(value)
    return settings


def _describe_training(model: DDLClassifier) -> Json:
    variance = getattr(model, "noise_variance_", None)
    epochs = getattr(model, "refinement_", None)
    return {
        "history": _transpose(model.history_),
        "refinement": None if epochs is None else _transpose(epochs) | {"best": find_best(epochs).epoch},
        "search": {name: make_column(values) for name, values in getattr(model, "search_", {}).items()},
        "converged": bool(model.converged_),
        "noise": None
        if variance is None
        else _describe_noise(np.sqrt(variance), float(np.sqrt(model.priors_.noise_floor))),
        "class_cost": [float(cost) for cost in model.class_cost_],
        "cost_floor": model.priors_.cost_floor,
    }


def _transpose(records: Sequence[Any]) -> Json:
    """Return records as one list per field, with None for what is not finite, which JSON lacks."""
    if not records:
        return {}
    columns = zip(records[0]._fields, zip(*records, strict=True), strict=True)
    return {name: make_column(np.asarray(values, float)) for name, values in columns}


def _describe_noise(sigma: NDArray[np.floating], floor: float) -> Json:
    low, high = float(sigma.min()), float(sigma.max())
    if high - low <= _IS_SAME_NOISE * high:  # one bar; NumPy would choose a range of 1, or fail
        low, high = 0.9 * low, 1.1 * high
    counts, edges = np.histogram(sigma.astype(float), bins=_N_BINS, range=(low, high))
    return {"counts": counts.tolist(), "edges": edges.tolist(), "floor": floor, "median": float(np.median(sigma))}


def _describe_atoms(model: DDLClassifier, seen: Evaluation | None) -> Json:
    """Return how often each atom is used, its mean coefficient where it is, None for an unused atom, and by whom."""
    codes, source, n_atoms = getattr(model, "codes_", None), "training samples", len(model.components_)
    if seen is not None and (codes is None or hasattr(model, "refinement_")):  # which has changed the atoms since
        codes, source = seen.codes, "samples of this report"
    if codes is None:
        return {"n_codes": None, "n_used": [0] * n_atoms, "mean": [None] * n_atoms, "source": None}
    n_used = np.bincount(codes.indices[codes.data != 0], minlength=n_atoms).tolist()
    sums = np.asarray(codes.sum(axis=0)).ravel().tolist()
    return {
        "n_codes": codes.shape[0],
        "n_used": n_used,
        "mean": [total / n if n else None for total, n in zip(sums, n_used, strict=True)],
        "source": source,
    }
