"""Fitted models as files: ``save`` and ``load``.

A model file (``container.py``) holds the constructor parameters and all fitted attributes (``stored_values.py``) of one
estimator, and a summary for people who look into it with another tool.  What a file says is compared with itself before
a model is made of it: every array has the shape that the others ask for, and every number is finite.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from ..coding import resolve_sparse_coder
from ..estimators.baseline import KSVD, CodeClassifier
from ..estimators.classifier import DDLClassifier
from ..fitting.loop import IterationRecord
from ..fitting.refinement import EpochRecord, find_best
from ..fitting.size import DictionarySize
from ..losses import resolve_loss
from .codec import (
    Decoder,
    Json,
    encode,
    encode_or_name,
)
from .format import (
    MODEL,
    blame_file,
    read_container,
    write_container,
)

__all__ = ["load", "save"]

Shape = tuple[str, ...]

# The strategies among the attributes, and what raises if one cannot serve.
_STRATEGIES: dict[str, Callable[[Any], Any]] = {"loss_": resolve_loss, "sparse_coder_": resolve_sparse_coder}
_SPARSE = {"codes_"}
# What histories are made of.
_RECORDS: dict[str, type[Any]] = {"history_": IterationRecord, "refinement_": EpochRecord}
# What the rows of a table are.
_TABLES: dict[str, Callable[..., tuple[Any, ...]]] = {"dictionary_sizes_": DictionarySize}
_ALWAYS_DOUBLE = {"class_cost_", "class_prior_", "error_"}  # others have the dtype of the samples


@dataclass(frozen=True)
class ModelLayout:
    """The fitted attributes of a class of models; sizes that have the same name are the same."""

    model_class: type[BaseEstimator]
    floats: dict[str, Shape]  # arrays of finite floats
    names: dict[str, Shape]  # arrays of labels
    scalars: dict[str, type]
    strategies: tuple[str, ...] = ()
    record: str | None = None  # what has one entry for the start and one for each iteration
    optional: frozenset[str] = frozenset({"feature_names_in_"})
    tables: tuple[str, ...] = ()  # lists of named tuples, all optional
    epochs: str | None = None  # what has one entry for the start and one for each epoch of refinement, optional

    @property
    def attributes(self) -> set[str]:
        records = {name for name in (self.record, self.epochs) if name}
        return {*self.floats, *self.names, *self.scalars, *self.strategies, *self.tables} | records


_LAYOUTS = {
    layout.model_class.__name__: layout
    for layout in (
        ModelLayout(
            DDLClassifier,
            floats={
                "components_": ("n_components", "n_features"),
                "coef_": ("n_classes", "n_components"),
                "intercept_": ("n_classes",),
                "class_cost_": ("n_classes",),
                "class_prior_": ("n_classes",),
                "noise_variance_": ("n_samples",),
                "codes_": ("n_samples", "n_components"),
            },
            names={"classes_": ("n_classes",), "feature_names_in_": ("n_features",)},
            scalars={
                "median_noise_variance_": float,
                "classification_weight_": float,
                "noise_floor_": float,
                "cost_floor_": float,
                "n_nonzero_coefs_": int,
                "n_features_in_": int,
                "n_samples_seen_": int,
                "n_iter_": int,
                "converged_": bool,
                "is_multilabel_": bool,
            },
            strategies=("loss_", "sparse_coder_"),
            record="history_",
            optional=frozenset(
                {"feature_names_in_", "codes_", "noise_variance_", "classification_weight_", "refinement_", *_TABLES}
            ),
            tables=tuple(_TABLES),
            epochs="refinement_",
        ),
        ModelLayout(
            KSVD,
            floats={"components_": ("n_components", "n_features"), "error_": ("n_errors",)},
            names={"feature_names_in_": ("n_features",)},
            scalars={"n_nonzero_coefs_": int, "n_features_in_": int, "n_iter_": int},
            strategies=("sparse_coder_",),
            record="error_",
        ),
        ModelLayout(
            CodeClassifier,
            floats={"coef_": ("n_classes", "n_features"), "intercept_": ("n_classes",)},
            names={"classes_": ("n_classes",), "feature_names_in_": ("n_features",)},
            scalars={"n_features_in_": int},
        ),
    )
}


def save(model: DDLClassifier | KSVD | CodeClassifier, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, which replaces one that is there in one step.

    Strategies are stored by name and parameters.  An object of a class of your own, such as a loss, is only named in
    the file: pass it to :func:`load`.  Callbacks and ``set_output`` are not part of a model.

    Parameters
    ----------
    model : DDLClassifier, KSVD or CodeClassifier
        The model; of a pipeline, save the steps.
    path : str or path-like
        The file; its folder must exist.

    Raises
    ------
    OSError
        If the file cannot be written; one that was there is unchanged then.

    See Also
    --------
    load : Reads the file.
    Checkpoint : Keeps a fit that is still running.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_digits
    >>> from ddlearn import DDLClassifier, load, save
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DDLClassifier(n_components=50, max_iter=2, random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(model, os.path.join(folder, "digits.safetensors"))
    ...     restored = load(os.path.join(folder, "digits.safetensors"))
    >>> bool((restored.predict_proba(X) == model.predict_proba(X)).all())
    True
    """
    name = type(model).__name__
    if name not in _LAYOUTS or type(model) is not _LAYOUTS[name].model_class:
        raise TypeError(f"{name} cannot be saved, only {', '.join(_LAYOUTS)}: save the steps of a pipeline one by one.")
    check_is_fitted(model)
    layout = _LAYOUTS[name]
    attributes = {key: value for key, value in vars(model).items() if key in layout.attributes}
    try:
        sizes = _check_attributes(attributes, layout)
    except ValueError as error:
        raise ValueError(f"This {name} cannot be saved: {error}.") from error
    arrays: dict[str, NDArray[Any]] = {}

    def keep(name: str, array: NDArray[Any]) -> str:
        arrays[name] = array
        return name

    content = {
        "class": name,
        "parameters": {
            key: encode_or_name(f"parameters.{key}", value, keep) for key, value in model.get_params(deep=False).items()
        },
        "attributes": {
            key: (encode_or_name if key in _STRATEGIES else encode)(key, value, keep)
            for key, value in attributes.items()
        },
        "summary": _summarise(model, sizes),
    }
    write_container(path, MODEL, content, arrays)


def load(path: str | os.PathLike[str], **strategies: Any) -> Any:
    """Read a model from a file.

    Nothing in the file is executed.  Predictions are bitwise those of the model that was saved.

    Parameters
    ----------
    path : str or path-like
        The file.
    **strategies : object
        Objects of classes of your own that the model was fitted with, under the name of the parameter, such as
        ``loss=MyLoss()``.  They get the parameters that the file tells of them.

    Returns
    -------
    DDLClassifier, KSVD or CodeClassifier
        The fitted model.

    Raises
    ------
    ModelFileError
        If the file is anything but a whole model file, or if an object is missing; it says which.

    See Also
    --------
    save : Writes the file.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_digits
    >>> from ddlearn import KSVD, load, save
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "dictionary.safetensors")
    ...     save(KSVD(20, max_iter=2, random_state=0).fit(load_digits().data), path)
    ...     load(path).components_.shape
    (20, 64)
    """
    content, arrays = read_container(path, MODEL)
    decoder = Decoder(arrays, strategies)
    with blame_file(path):
        model = _restore(content, decoder)
    unused = sorted(set(strategies) - decoder.used)
    if unused:
        raise TypeError(f"{', '.join(unused)} cannot be passed: {os.fspath(path)} holds it or has none.")
    return model


def _restore(content: Json, decoder: Decoder) -> BaseEstimator:
    if content["class"] not in _LAYOUTS:
        raise ValueError(f"it is a model of the class {content['class']}")
    layout = _LAYOUTS[content["class"]]
    parameters = {key: decoder.decode(key, value) for key, value in content["parameters"].items()}
    attributes = {key: decoder.decode(key, value) for key, value in content["attributes"].items()}
    attributes |= {name: _read_table(name, attributes[name]) for name in set(layout.tables) & set(attributes)}
    _check_attributes(attributes, layout)
    model = layout.model_class(**parameters)
    for name, value in attributes.items():
        setattr(model, name, value)
    return model


def _check_attributes(attributes: Mapping[str, Any], layout: ModelLayout) -> dict[str, int]:
    """Compare the attributes with each other; return the sizes that they agree on."""
    missing = layout.attributes - layout.optional - set(attributes)
    surplus = set(attributes) - layout.attributes
    if missing or surplus:
        raise ValueError(f"the model lacks {sorted(missing)}, and {sorted(surplus)} are not known")
    for name, kind in layout.scalars.items():
        if name in attributes:
            _check_scalar(name, attributes[name], kind)
    sizes = {"n_features": attributes["n_features_in_"]}
    if "n_samples_seen_" in attributes:
        sizes["n_samples"] = attributes["n_samples_seen_"]
    for name, shape in (layout.floats | layout.names).items():
        if name in attributes:
            _check_shape(name, attributes[name], shape, sizes)
    _check_floats({name: attributes[name] for name in layout.floats if name in attributes})
    for name in layout.strategies:
        _STRATEGIES[name](attributes[name])
    if "classes_" in attributes and len(np.unique(attributes["classes_"])) != sizes["n_classes"]:
        raise ValueError("classes_ holds a class twice")
    if not 1 <= attributes.get("n_nonzero_coefs_", 1) <= sizes.get("n_components", 1):
        raise ValueError(f"n_nonzero_coefs_ is {attributes['n_nonzero_coefs_']} for {sizes['n_components']} atoms")
    for name in set(_RECORDS) & set(attributes):
        _check_history(name, attributes[name])
    for name in set(layout.tables) & set(attributes):
        _check_table(name, attributes[name])
    if layout.record and len(attributes[layout.record]) != attributes["n_iter_"] + 1:
        raise ValueError(f"n_iter_ is {attributes['n_iter_']}, but {layout.record} tells of another number")
    return sizes


def _check_history(name: str, history: Any) -> None:
    is_list = isinstance(history, list) and len(history) > 0
    if not is_list or not all(isinstance(record, _RECORDS[name]) for record in history):
        raise TypeError(f"{name} is not a list of records")


def _read_table(name: str, rows: Any) -> list[tuple[Any, ...]]:
    if not isinstance(rows, list):
        raise TypeError(f"{name} is a {type(rows).__name__}")
    return [_TABLES[name](*row) for row in rows]


def _check_table(name: str, table: list[tuple[Any, ...]]) -> None:
    for row in table:
        if not all(type(value) in (int, float) and np.isfinite(value) for value in row):
            raise ValueError(f"{name} has the row {row}")


def _check_scalar(name: str, value: Any, kind: type) -> None:
    is_kind = type(value) is kind
    if not is_kind or not 0 <= value < np.inf:
        raise ValueError(f"{name} is {value!r}")


def _check_shape(name: str, array: Any, shape: Shape, sizes: dict[str, int]) -> None:
    expected = csr_array if name in _SPARSE else np.ndarray
    if not isinstance(array, expected):
        raise TypeError(f"{name} is a {type(array).__name__}")
    if len(array.shape) != len(shape):
        raise ValueError(f"{name} has shape {array.shape}")
    for size, length in zip(shape, array.shape, strict=True):
        if sizes.setdefault(size, length) != length:
            raise ValueError(f"{name} has shape {array.shape}, but {size} is {sizes[size]}")


def _check_floats(arrays: Mapping[str, Any]) -> None:
    """Raise unless all values are finite and, of arrays in the precision of the samples, of one dtype."""
    dtype = next(array.dtype for array in arrays.values())
    for name, array in arrays.items():
        if array.dtype != (np.float64 if name in _ALWAYS_DOUBLE else dtype) or dtype not in (np.float32, np.float64):
            raise ValueError(f"{name} has dtype {array.dtype}")
        if not np.isfinite(array.data if name in _SPARSE else array).all():
            raise ValueError(f"{name} has values that are not finite")


def _summarise(model: BaseEstimator, sizes: dict[str, int]) -> dict[str, Json]:
    """Return what people want to know of a model."""
    known = {name: getattr(model, f"{name}_") for name in ("n_iter", "converged") if hasattr(model, f"{name}_")}
    summary: dict[str, Json] = sizes | known
    if hasattr(model, "history_"):
        last = model.history_[-1]
        for name in ("objective", "training_error", "label_free_error"):
            summary[name] = encode(name, getattr(last, name), lambda name, array: None)
    if hasattr(model, "refinement_"):
        best = find_best(model.refinement_)
        summary |= {"n_epochs": len(model.refinement_) - 1, "best_epoch": best.epoch}
        if np.isfinite(best.validation_error):  # or no samples were held out
            summary["validation_error"] = best.validation_error
    return summary
