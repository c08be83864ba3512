"""Methods on rows that wait when the rows are a Dask array: predictions of each chunk, made where the chunk is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..parallel.dask import chunk_like, is_on_dask

# What a model knows that no new sample needs.
_NOT_NEEDED = ("codes_", "noise_variance_", "history_", "stream_")


def lazy_on_dask(method: Callable[..., Any]) -> Callable[..., Any]:
    """Make a method on rows return a lazy Dask array for one.

    The method is ``method(self, X)`` or ``method(self, X, mask)``; rows must not depend on each other.
    """

    @wraps(method)
    def call(self: Any, X: Any, *masks: Any, **named: Any) -> Any:
        if not is_on_dask(X):
            return method(self, X, *masks, **named)
        return _map_rows(method, self, X, *masks, **named)

    return call


def _map_rows(method: Callable[..., Any], model: Any, X: Any, mask: Any = None) -> Any:
    import dask.array as da
    from dask import delayed

    check_is_fitted(model, "n_features_in_")
    if X.ndim != 2 or X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"X has shape {X.shape}, but {type(model).__name__} is expecting {model.n_features_in_} features as input."
        )
    X = X.rechunk({1: -1})
    # An atom is a sample as good as any: what comes of it tells the kind of what will come.
    template = method(model, model.components_[:1].astype(X.dtype))
    arrays, vector = [X], None
    if mask is not None and np.ndim(mask) == 2:
        arrays.append(da.asarray(mask).rechunk(X.chunks))
    elif mask is not None:
        vector = np.asarray(mask)
    is_matrix = template.ndim == 2
    return da.map_blocks(
        _apply,
        *arrays,
        method=method,
        model=delayed(_slim(model), traverse=False),
        mask=vector,
        empty=template[:0],
        dtype=template.dtype,
        meta=template[:0],
        drop_axis=None if is_matrix else 1,
        chunks=(X.chunks[0], (template.shape[1],)) if is_matrix else None,
    )


def _apply(*arrays: Any, method: Callable[..., Any], model: Any, mask: Any, empty: Any) -> Any:
    """Call the method on a chunk; one without rows has nothing to check."""
    X = arrays[0]
    if len(X) == 0:
        return empty
    if len(arrays) == 2:
        return method(model, X, arrays[1])
    return method(model, X) if mask is None else method(model, X, mask)


def _slim(model: Any) -> Any:
    """Return the model with all that new samples need, and one thread: a worker has one for each chunk."""
    slim = copy.copy(model)
    for name in _NOT_NEEDED:
        vars(slim).pop(name, None)
    slim.n_jobs = 1
    if hasattr(slim, "set_callbacks"):
        slim.set_callbacks()  # which may hold anything, such as a lock
    return slim


def score_lazily(predictions: Any, y: Any, sample_weight: Any) -> float:
    """Return the share of right predictions of a Dask array; rows of labels must be right as a whole."""
    y = chunk_like(predictions, y)
    if y.ndim == 2 and y.shape[1] == 1 and predictions.ndim == 1:
        y = y[:, 0]
    if y.ndim != predictions.ndim or y.shape[1:] != predictions.shape[1:]:
        raise ValueError(f"y has shape {y.shape}, but predictions have shape {predictions.shape}.")
    if {y.dtype.kind, predictions.dtype.kind} in ({"U", kind} for kind in "buif"):
        raise ValueError(
            f"y holds {y.dtype}, but the model's classes are {predictions.dtype}: give labels of one type."
        )
    is_right = predictions == y
    if is_right.ndim == 2:
        is_right = is_right.all(axis=1)
    if sample_weight is None:
        return float(is_right.mean().compute())
    weight = chunk_like(predictions, sample_weight)
    right, total = (is_right * weight).sum(), weight.sum()
    return float((right / total).compute())
