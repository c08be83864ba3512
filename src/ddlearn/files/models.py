"""Fitted models as files: ``save`` and ``load``.

A model file (``format.py``) holds the constructor parameters and all fitted attributes of one estimator (``codec.py``),
and a summary for readers with other tools.  Before a model is made, its attributes are checked against each other:
arrays agree on their sizes, every number is in a range where predictions are finite, and what predictions depend on
passes the checks of a fit.  What a file can make a prediction allocate or repeat is bounded.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ..describe.base import Description
from ..estimators.classifier import DDLClassifier
from ..estimators.ksvd import KSVD
from ..estimators.minibatch import MiniBatchDDLClassifier
from ..estimators.prediction import DictionaryClassifier
from ..estimators.settings import ROLES, check_fitted
from ..fitting.loop import IterationRecord
from ..refinement.refiner import EpochRecord, find_best
from ..refinement.search import COLUMNS
from .codec import STORABLE_SCALERS, Decoder, check_priors, encode, encode_float, encode_or_name
from .format import MODEL, Arrays, Container, Json, blame_file, check_array, read_container, write_container
from .pipelines import fold_pipeline

# The fitted attributes.  Arrays agree on sizes that have the same name.
_SHAPES: dict[str, tuple[str, ...]] = {
    "components_": ("n_components", "n_described_features"),
    "coef_": ("n_classes", "n_components"),
    "intercept_": ("n_classes",),
    "class_cost_": ("n_classes",),
    "class_prior_": ("n_classes",),
    "noise_variance_": ("n_samples",),
    "codes_": ("n_samples", "n_components"),
    "error_": ("n_records",),
    "classes_": ("n_classes",),
    "feature_names_in_": ("n_features",),
}
_LABELS = {"classes_", "feature_names_in_"}  # the other arrays hold floats
_ALWAYS_DOUBLE = {"class_cost_", "class_prior_", "error_"}  # the other floats have the precision of the samples
_NUMBERS: dict[str, type] = {
    "median_noise_variance_": float,
    **dict.fromkeys(("n_nonzero_coefs_", "n_features_in_", "n_samples_seen_", "n_iter_"), int),
    **dict.fromkeys(("converged_", "is_multilabel_"), bool),
}
_STRATEGIES = {"description_", "loss_", "sparse_coder_"}
_RECORDS: Any = {"history_": IterationRecord, "refinement_": EpochRecord}
_SMALLEST_SCALE = 1e-100  # of a feature
_POSITIVE = {"class_cost_", "noise_variance_"}
_MOST_GRAM_BYTES = 2**33  # of the products of all atoms with each other, which a prediction needs
_MOST_VIEW_BYTES = 2**30  # of the distortions of all views
_NOT_TOLD = {"n_records", "n_described_features"}  # sizes that the summary leaves out
_MODELS: dict[str, type[BaseEstimator]] = {cls.__name__: cls for cls in (DDLClassifier, MiniBatchDDLClassifier, KSVD)}
_NAMES = {"n_features_in_", "feature_names_in_"}
_OF_CLASSIFIERS = {*_SHAPES, *_NUMBERS, *_STRATEGIES, *_RECORDS, "priors_", "search_", "target_name_"} - {"error_"}
_ATTRIBUTES = {
    "DDLClassifier": _OF_CLASSIFIERS,
    "MiniBatchDDLClassifier": _OF_CLASSIFIERS,
    "KSVD": {"components_", "error_", "n_nonzero_coefs_", "n_iter_", "sparse_coder_"} | _NAMES,
}
_OPTIONAL = {"feature_names_in_", "target_name_", "codes_", "noise_variance_", "search_", "refinement_"}


def save(model: DictionaryClassifier | KSVD | Pipeline, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to a file, in one step; an existing file is replaced.

    Strategies are stored by name and parameters.  An object of a class of your own, such as a loss, is only named in
    the file: pass it to :func:`load`.  Callbacks and ``set_output`` are not part of a model.

    Parameters
    ----------
    model : DDLClassifier, MiniBatchDDLClassifier, KSVD or Pipeline
        The model.  A pipeline of scalers and a :class:`DDLClassifier` becomes one classifier that scales samples itself
        and predicts the same; other steps are refused.
    path : str or path-like
        The file; its folder must exist.

    Raises
    ------
    OSError
        If the file cannot be written; an existing file is unchanged then.

    See Also
    --------
    load : Reads the file.
    Checkpoint : Stores a fit that is still running.

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
    if isinstance(model, Pipeline):
        model = fold_pipeline(model)
    name = type(model).__name__
    if _MODELS.get(name) is not type(model):
        raise TypeError(
            f"{name} cannot be saved, only {', '.join(_MODELS)}, and pipelines of scalers and DDLClassifier."
        )
    check_is_fitted(model)
    attributes = {key: value for key, value in vars(model).items() if key in _ATTRIBUTES[name]}
    try:
        sizes = _check_attributes(name, attributes)
    except ValueError as error:
        raise ValueError(f"This {name} cannot be saved: {error}.") from error
    arrays: Arrays = {}
    parameters = model.get_params(deep=False)
    content = {
        "class": name,
        "parameters": {key: encode_or_name(f"parameters.{key}", value, arrays) for key, value in parameters.items()},
        "attributes": {
            key: (encode_or_name if key in _STRATEGIES else encode)(key, value, arrays)
            for key, value in attributes.items()
        },
        "summary": {size: length for size, length in sizes.items() if size not in _NOT_TOLD} | _summarise(attributes),
    }
    write_container(path, MODEL, content, arrays)


def load(path: str | os.PathLike[str], **strategies: Any) -> Any:
    """Read a model from a file.

    Nothing in the file is executed.  Predictions are bitwise those of the model that was saved, on the same machine.

    Parameters
    ----------
    path : str or path-like
        The file.
    **strategies : object
        Objects of classes of your own that the model was fitted with, by the name of the parameter, such as
        ``loss=MyLoss()`` or ``robustness__error_search=MySearch()``.  Their parameters are set as the file has them.

    Returns
    -------
    DDLClassifier, MiniBatchDDLClassifier or KSVD
        The fitted model.

    Raises
    ------
    ModelFileError
        If the file is not a complete and valid model file, or if an object has to be passed; the message names it.

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
    content, arrays = read_model_file(path)
    decoder = Decoder(arrays, strategies)
    with blame_file(path):
        model = _restore(content, decoder)
    unused = ", ".join(sorted(set(strategies) - decoder.used))
    if unused:
        raise TypeError(f"{unused} cannot be passed: {os.fspath(path)} stores these parameters completely.")
    return model


def read_model_file(path: str | os.PathLike[str]) -> Container:
    """Return the content and arrays of a model file, without making a model."""
    stored = read_container(path, MODEL)
    with blame_file(path):
        _check_content(stored.content)
    return stored


def _check_content(content: Json) -> None:
    """Raise unless the content has the form of a model's, whose values are checked when the model is made."""
    if content["class"] not in _MODELS:
        raise ValueError(f"it is a model of the class {content['class']}, which is not one of {', '.join(_MODELS)}")
    for part in ("parameters", "attributes", "summary"):
        if not isinstance(content[part], dict):
            raise TypeError(f"its {part} are a {type(content[part]).__name__}")
    for name, value in content["summary"].items():
        if isinstance(value, list | dict) and value != encode_float(np.nan):
            raise TypeError(f"{name} of its summary is {value!r}")


def _restore(content: Json, decoder: Decoder) -> BaseEstimator:
    name = content["class"]
    parameters, attributes = (
        {key: decoder.decode(key, value) for key, value in content[part].items()}
        for part in ("parameters", "attributes")
    )
    _check_attributes(name, attributes)
    model = _MODELS[name](**parameters)
    for key, value in attributes.items():
        setattr(model, key, value)
    if isinstance(model, DictionaryClassifier):
        _check_predictions(model)
    return model


def _check_predictions(model: DictionaryClassifier) -> None:
    """Raise if new samples cannot be treated as the parameters say, or not with bounded memory."""
    check_fitted(model)
    n_features = model.n_features_in_
    if not model.sparse_coder_.is_adapted:
        raise ValueError(f"sparse_coder_ is {model.sparse_coder_!r}, whose penalty is not known")
    if 2 * model.n_views * n_features * model.components_.itemsize > _MOST_VIEW_BYTES:
        raise ValueError(f"{model.n_views} views of images with {n_features} pixels are too many")
    if np.ndim(model.unlabeled):
        raise ValueError(f"unlabeled is a {type(model.unlabeled).__name__} of several values, not a label")


def _check_attributes(name: str, attributes: dict[str, Any]) -> dict[str, int]:
    """Check the attributes, also against each other; return the sizes."""
    missing, surplus = _ATTRIBUTES[name] - _OPTIONAL - set(attributes), set(attributes) - _ATTRIBUTES[name]
    if missing or surplus:
        raise ValueError(f"the attributes {sorted(missing)} are missing, and {sorted(surplus)} are not known")
    for key in attributes.keys() & _NUMBERS.keys():
        if type(attributes[key]) is not _NUMBERS[key] or not 0 <= attributes[key] < np.inf:
            raise ValueError(f"{key} is {attributes[key]!r}")
    if not isinstance(attributes.get("target_name_", ""), str):
        raise TypeError(f"target_name_ is {attributes['target_name_']!r}")
    if "priors_" in attributes:
        check_priors(attributes["priors_"], len(attributes["coef_"]))
    for key in attributes.keys() & _STRATEGIES:
        if ROLES[key[:-1]].resolve(attributes[key]) is not attributes[key]:  # raises if the object cannot be used
            raise TypeError(f"{key} is {attributes[key]!r}, which is not an object")
    for key in attributes.keys() & _RECORDS.keys():
        if not isinstance(attributes[key], list) or not all(isinstance(row, _RECORDS[key]) for row in attributes[key]):
            raise TypeError(f"{key} is not a list of {_RECORDS[key].__name__}")
        if not attributes[key]:
            raise ValueError(f"{key} is empty")
    if "search_" in attributes:
        _check_search(attributes["search_"])
    dtype = attributes["components_"].dtype
    if dtype not in (np.float32, np.float64):
        raise ValueError(f"the model has the precision {dtype}")
    sizes = {"n_features": attributes["n_features_in_"], "n_records": attributes.get("n_iter_", 0) + 1}
    if "history_" in attributes and len(attributes["history_"]) != sizes["n_records"]:
        raise ValueError(f"n_iter_ is {attributes['n_iter_']}, but history_ has {len(attributes['history_'])} records")
    sizes["n_described_features"] = sizes["n_features"]
    if "description_" in attributes:
        sizes["n_described_features"] = _check_description(attributes["description_"], sizes["n_features"], dtype)
    if "n_samples_seen_" in attributes:
        sizes["n_samples"] = attributes["n_samples_seen_"]
    for key in _SHAPES:
        if key in attributes:
            _check_array(key, attributes[key], sizes, dtype)
    if sizes["n_features"] == 0 or sizes["n_components"] ** 2 * dtype.itemsize > _MOST_GRAM_BYTES:
        raise ValueError(f"it has {sizes['n_components']} atoms for {sizes['n_features']} features")
    if "n_classes" in sizes and sizes["n_classes"] < (1 if attributes.get("is_multilabel_") else 2):
        raise ValueError(f"it has {sizes['n_classes']} classes")
    if "classes_" in attributes and len(np.unique(attributes["classes_"])) != sizes["n_classes"]:
        raise ValueError("classes_ has duplicates")
    if not 1 <= attributes.get("n_nonzero_coefs_", 1) <= sizes["n_components"]:
        raise ValueError(f"n_nonzero_coefs_ is {attributes['n_nonzero_coefs_']} for {sizes['n_components']} atoms")
    return sizes


def _check_description(description: Description, n_features: int, dtype: np.dtype) -> int:
    """Check what was learned, and return the number of features of described samples."""
    for name, value in description.get_params(deep=False).items():
        if hasattr(value, "transform"):
            if type(value) not in STORABLE_SCALERS.values():
                raise ValueError(
                    f"it describes samples by {value!r}, while files hold {', '.join(STORABLE_SCALERS)}: use one of "
                    "these, or pass samples that are transformed"
                )
            with np.errstate(all="ignore"):
                rows = description.apply(np.repeat([[0], [1]], n_features, axis=1).astype(dtype))
            check_array("description_ of zeros and ones", rows, rows.shape, dtype)
            _check_range("description_ of zeros and ones", rows, is_positive=False)
        if name in description.learned:
            check_array(f"{name} of description_", value, (n_features,), np.float64)
            _check_range(f"{name} of description_", value, is_positive=False)
            if name != "mean" and ((value < 0) | ((value > 0) & (value < _SMALLEST_SCALE))).any():
                raise ValueError(f"{name} of description_ has values that are negative, or too small")
    return description.count_features(n_features)  # raises if images of its shape have other pixels


def _check_range(key: str, values: NDArray[np.floating], is_positive: bool) -> None:
    """Raise unless squares of values can be weighed, as a loss squares scores, and positive ones can be divided by."""
    most = np.finfo(values.dtype).max
    if (np.abs(values) > np.cbrt(most)).any() or (is_positive and (values < 1 / np.sqrt(most)).any()):
        raise ValueError(f"{key} has values that are out of range")


def _check_search(table: Any) -> None:
    """Check the columns of the table of what was tried."""
    if not isinstance(table, dict) or list(table) != list(COLUMNS):
        raise ValueError(f"search_ is no table of the columns {list(COLUMNS)}")
    n_rows = max(np.size(table["error"]), 1)
    for name, kind in COLUMNS.items():
        column = table[name]
        dtype = getattr(column, "dtype", np.dtype(object))
        is_right = (dtype.kind == "U" if kind is str else dtype == kind) and column.shape == (n_rows,)
        if not is_right or (kind is not str and ((column < 0) | np.isinf(column)).any()):  # NaN is nothing
            raise ValueError(f"the column {name!r} of search_ is {column!r:.100}")


def _check_array(key: str, array: Any, sizes: dict[str, int], dtype: np.dtype) -> None:
    is_sparse = key == "codes_"
    if not isinstance(array, csr_array if is_sparse else np.ndarray) or len(array.shape) != len(_SHAPES[key]):
        raise TypeError(f"{key} is a {type(array).__name__} of shape {np.shape(array)}")
    for size, length in zip(_SHAPES[key], array.shape, strict=True):
        if sizes.setdefault(size, length) != length:
            raise ValueError(f"{key} has shape {array.shape}, but {size} is {sizes[size]}")
    if key not in _LABELS:
        values: Any = array.data if is_sparse else array
        check_array(key, values, values.shape, np.float64 if key in _ALWAYS_DOUBLE else dtype)
        _check_range(key, values, is_positive=key in _POSITIVE)
        if key == "class_prior_" and not ((values >= 0) & (values <= 1)).all():
            raise ValueError("class_prior_ has values that are not probabilities")


def _summarise(attributes: dict[str, Any]) -> dict[str, Json]:
    """Return what readers want to know of a model besides its sizes."""
    summary: dict[str, Json] = {key[:-1]: attributes[key] for key in ("n_iter_", "converged_") if key in attributes}
    if "description_" in attributes:
        summary["description"] = type(attributes["description_"]).__name__
    if "history_" in attributes:
        last = attributes["history_"][-1]._asdict()
        # Refinement has changed the model since, and with it the errors.
        told = ("objective",) if "refinement_" in attributes else ("objective", "training_error", "label_free_error")
        summary |= {key: encode_float(last[key]) for key in told}
    if "refinement_" in attributes:
        best = find_best(attributes["refinement_"])
        summary |= {"n_epochs": len(attributes["refinement_"]) - 1, "best_epoch": best.epoch}
        if np.isfinite(best.validation_error):  # NaN if no samples were held out
            summary["validation_error"] = best.validation_error
    return summary
