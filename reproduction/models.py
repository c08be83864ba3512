"""Models made from the settings of a cell: the only place that knows the constructor of :class:`ddlearn.DDLClassifier`.

A cell is known by its settings, so settings keep the names that they had when the first cells were measured.
:func:`translate` gives them their present names, and :func:`nest` gathers options into the objects that hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sklearn.base import BaseEstimator, clone

from ddlearn import Alignment, DDLClassifier, FullInference, JeffreysScales, PrintedCoding, Refiner, Robustness
from ddlearn.classifiers import resolve_trainer
from ddlearn.coding.discriminative import LABEL_CODINGS
from ddlearn.coding.encoder import SPARSE_CODERS
from ddlearn.model.scales import SCALES

Settings = Mapping[str, Any]

NEW_NAMES = {
    "coding": "label_coding",
    "noise": "scales__noise",
    "noise_floor": "scales__noise_floor",
    "cost_floor": "scales__cost_floor",
    "max_coding_iter": "label_coding__max_iter",
    "coding_tol": "label_coding__tol",
    "n_coding_swaps": "label_coding__n_swaps",
    "n_swaps": "sparse_coder__n_swaps",
    "ridge": "classifier_trainer__ridge",
    "n_candidates": "inference__n_candidates",
    "error_budget": "robustness__error_budget",
    "error_route": "robustness__error_search",
    "missing": "robustness__missing",
    "jitter": "refine__jitter",
    "align_training": "alignment__training",
}
# Parameters that take an object with options, and its class.
HOLDERS: dict[str, type[BaseEstimator]] = {
    "scales": JeffreysScales,
    "label_coding": PrintedCoding,
    "inference": FullInference,
    "robustness": Robustness,
    "refine": Refiner,
    "alignment": Alignment,
}
_NAMED = ("refine", "alignment")  # a number of epochs or a name in place of the object is its first argument
# Those whose name decides the class.
_CLASSES: dict[str, Mapping[str, Any]] = {"scales": SCALES, "label_coding": LABEL_CODINGS}
_SET_AFTERWARDS = ("sparse_coder__", "classifier_trainer__")  # options of objects that depend on other parameters
_GONE = ("refit", "test_noise")  # which is a value of `refine` now, and which there is no more
# What no cell says, since it was the default when cells were first measured.
TAKEN_FOR_GRANTED: dict[str, Any] = {
    "description": None,
    "loss": "square",
    "sparse_coder": "ormp",
    "refine": "classifiers",
    "max_iter": 50,
}
# What cells that were measured before the core was rebuilt took for granted; they are known by max_coding_iter.
FORMER_CHOICES: dict[str, Any] = {"scales": "jeffreys", "dictionary_update": "ksvd"}


def make_classifier(**settings: Any) -> DDLClassifier:
    """Return a model with these settings."""
    parameters = translate(settings)
    later = {name: value for name, value in parameters.items() if name.startswith(_SET_AFTERWARDS)}
    at_once = {name: value for name, value in parameters.items() if name not in later}
    # Experiments scale their images themselves, to unit norm.
    model = DDLClassifier(**TAKEN_FOR_GRANTED | nest(at_once))
    for name, value in later.items():
        holder, _, option = name.partition("__")
        named = getattr(model, holder)
        is_coder = holder == "sparse_coder"
        strategy = SPARSE_CODERS.resolve(named) if is_coder else resolve_trainer(named, model.loss)
        setattr(model, holder, clone(strategy).set_params(**{option: value}))
    return model


def make_former_model(**settings: Any) -> DDLClassifier:
    """Return a model as experiments had it that name no settings, and were not measured again."""
    return make_classifier(**{"max_coding_iter": 100} | settings)


def apply_variant(model: Any, settings: Settings, variant: Settings) -> Any:
    """Return the model, which was made from these settings, with those of a variant set after the fit."""
    return model.set_params(**nest(translate_variant(settings, variant)))


def translate(settings: Settings) -> dict[str, Any]:
    """Return the settings of a cell under their present names, options of an object as ``scales__noise``."""
    former = FORMER_CHOICES if "max_coding_iter" in settings else {}
    parameters = former | {NEW_NAMES.get(name, name): value for name, value in settings.items() if name not in _GONE}
    if settings.keys() & {"refit", "refine"} and settings.get("refine") is None:
        parameters["refine"] = "classifiers" if settings.get("refit", True) else None
    if settings.get("inference") != "full":  # the fast rule has no options
        parameters = {name: value for name, value in parameters.items() if not name.startswith("inference__")}
    return parameters


def translate_variant(settings: Settings, variant: Settings) -> dict[str, Any]:
    """Return the parameters that a variant changes, with all options of the same object."""
    before, after = translate(settings), translate({**settings, **variant})
    changed = {_get_holder(name) for name, value in after.items() if name not in before or before[name] != value}
    return {name: value for name, value in after.items() if _get_holder(name) in changed}


def _get_holder(name: str) -> str:
    return name.partition("__")[0]


def nest(parameters: Settings) -> dict[str, Any]:
    """Return parameters with options such as ``scales__noise`` gathered into the objects that hold them."""
    nested = {name: value for name, value in parameters.items() if "__" not in name}
    for holder, make in HOLDERS.items():
        prefix = f"{holder}__"
        options = {name.removeprefix(prefix): value for name, value in parameters.items() if name.startswith(prefix)}
        base = nested.get(holder)
        if options and isinstance(base, BaseEstimator):
            nested[holder] = clone(base).set_params(**options)
        elif options:
            named = [base] if holder in _NAMED and base is not None else []
            nested[holder] = _CLASSES.get(holder, {}).get(base, make)(*named, **options)
    return nested
