"""The state of a fit as named arrays, and back: of the loop (Algorithm 2), and of a refinement that comes after it.

What comes back fits the data and is sound: every array has the shape and type that the samples ask for, and every
number is finite.
"""

from __future__ import annotations

import numpy as np

from ..codes import RowCodes
from ..fitting.loop import AlternatingFit, FitState
from ..fitting.refinement import (
    MOST_SEEDS,
    EpochRecord,
    Moments,
    RefinedModel,
    RefinementProgress,
)
from .codec import Json, decode_history, encode_history
from .format import Arrays

# What samples share; the rest belongs to each of them.
_SHARED_ARRAYS = ("dictionary", "coef", "intercept", "class_cost")
# All that has the shape of a model, where refinement is.
_OF_REFINEMENT = ("model", "average", "best", "gradient_mean", "gradient_square")


def lay_out_state(state: FitState) -> Arrays:
    """Return the unknowns of Eq. 3 under their names."""
    rows = state.collect_rows()
    arrays = {name: getattr(state, name) for name in _SHARED_ARRAYS}
    arrays |= {"code_indices": rows.codes.indices, "code_values": rows.codes.values}
    arrays["noise_variance"] = rows.noise_variance
    return arrays if rows.positions is None else arrays | {"positions": rows.positions}


def read_state(arrays: Arrays, loop: AlternatingFit) -> FitState:
    """Return the unknowns of Eq. 3 from arrays that have been checked."""
    codes = RowCodes(arrays["code_indices"], arrays["code_values"])
    rows = RowState(codes, arrays["noise_variance"], arrays.get("positions"))
    shared = {name: arrays[name] for name in _SHARED_ARRAYS}
    return FitState(**shared, parts=loop.training.parts).put_rows(rows, loop.facts.row_slices)


def lay_out_refinement(progress: RefinementProgress) -> tuple[Json, Arrays]:
    """Return where refinement is: what is JSON of it, and its arrays under their names."""
    moments = progress.moments
    models = (progress.model, progress.average, progress.best, moments.mean, moments.square)
    arrays = {
        _name_array(of, part): array
        for of, model in zip(_OF_REFINEMENT, models, strict=True)
        for part, array in model._asdict().items()
    }
    content = {
        "history": encode_history(progress.history),
        "n_steps": moments.n_steps,
        "seed": progress.seed,
        "stopped": progress.stopped,
    }
    return content, arrays


def read_refinement(content: Json, arrays: Arrays) -> RefinementProgress:
    """Return where refinement was, from arrays that have been checked."""
    history = decode_history(content["history"], EpochRecord)
    for name, largest in {"n_steps": np.inf, "seed": MOST_SEEDS - 1}.items():
        if type(content[name]) is not int or not 0 <= content[name] <= largest:
            raise ValueError(f"{name} of the refinement is {content[name]!r}")
    model, average, best, mean, square = (
        RefinedModel(*(arrays[_name_array(of, part)] for part in RefinedModel._fields)) for of in _OF_REFINEMENT
    )
    if any((squares < 0).any() for squares in square):
        raise ValueError("there are squares of gradients below 0")
    moments = Moments(mean, square, content["n_steps"])
    return RefinementProgress(model, average, moments, best, history, content["seed"], bool(content["stopped"]))


def check_arrays(arrays: Arrays, loop: AlternatingFit, *, has_refinement: bool) -> None:
    """Raise unless the state fits the data and is sound."""
    n_components = len(arrays.get("dictionary", ()))
    shapes = _list_shapes(loop, n_components)
    if has_refinement:
        shapes |= _list_shapes_of_refinement(loop, n_components)
    dtypes = dict.fromkeys(shapes, loop.facts.dtype) | {"code_indices": np.int32, "class_cost": np.float64}
    if set(arrays) != set(shapes):
        raise ValueError(f"it has the arrays {sorted(arrays)} instead of {sorted(shapes)}")
    for name, array in arrays.items():
        if array.shape != shapes[name] or array.dtype != dtypes[name]:
            raise ValueError(f"{name} is {array.dtype} of shape {array.shape}, expected {shapes[name]}")
        if not np.isfinite(array).all():
            raise ValueError(f"{name} has values that are not finite")
    indices = arrays["code_indices"]
    if indices.size and not 0 <= indices.min() <= indices.max() < n_components:
        raise ValueError(f"codes use atoms that are not among the {n_components}")


def _list_shapes(loop: AlternatingFit, n_components: int) -> dict[str, tuple[int, ...]]:
    facts = loop.facts
    code_shape = (facts.n_samples, loop.settings.n_nonzero_coefs)
    shapes: dict[str, tuple[int, ...]] = {
        "dictionary": (n_components, facts.n_features),
        "coef": (facts.n_classes, n_components),
        "intercept": (facts.n_classes,),
        "noise_variance": (facts.n_samples,),
        "class_cost": (facts.n_classes,),
        "code_indices": code_shape,
        "code_values": code_shape,
    }
    if loop.settings.registration is not None:
        shapes["positions"] = (facts.n_samples, len(loop.settings.registration.frame.units))
    return shapes


def _list_shapes_of_refinement(loop: AlternatingFit, n_components: int) -> dict[str, tuple[int, ...]]:
    facts = loop.facts
    shapes: dict[str, tuple[int, ...]] = {
        "dictionary": (n_components, facts.n_features),
        "coef_by_atom": (n_components, facts.n_classes),
        "intercept": (facts.n_classes,),
    }
    return {_name_array(of, part): shape for of in _OF_REFINEMENT for part, shape in shapes.items()}


def _name_array(of: str, part: str) -> str:
    return f"refinement.{of}.{part}"
