"""Predictions for Dask arrays: lazy, each chunk where it is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..parallel.dask import Packed, chunk_like

# Attributes that new samples do not need.
_NOT_NEEDED = ("codes_", "noise_variance_", "history_", "stream_")


def predict_lazily(method: Callable[..., Any], model: Any, X: Any, mask: Any = None) -> Any:
    """Return ``method(model, X)`` or ``method(model, X, mask)`` for the rows of a Dask array, as a lazy Dask array.

    The rows must not depend on each other.
    """
    import dask.array as da
    from dask import delayed

    check_is_fitted(model, "n_features_in_")
    if X.ndim != 2 or X.shape[1] != model.n_features_in_:
        raise ValueError(
            f"X has shape {X.shape}, but {type(model).__name__} is expecting {model.n_features_in_} features as input."
        )
    X = X.rechunk({1: -1})
    # The result for one sample shows shape and dtype of all results.
    template = method(model, np.ones((1, model.n_features_in_), X.dtype))
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
        model=delayed(Packed(_slim(model)), traverse=False),
        mask=vector,
        empty=template[:0],
        dtype=template.dtype,
        meta=template[:0],
        drop_axis=None if is_matrix else 1,
        chunks=(X.chunks[0], (template.shape[1],)) if is_matrix else None,
    )


def _apply(*arrays: Any, method: Callable[..., Any], model: Packed, mask: Any, empty: Any) -> Any:
    """Call the method on a chunk, which may have no rows."""
    if len(arrays[0]) == 0:
        return empty
    X = np.require(arrays[0], requirements="A")  # as in memory, where results are to be the same
    if len(arrays) == 2:
        mask = arrays[1]
    return method(model.value, X) if mask is None else method(model.value, X, mask)


def _slim(model: Any) -> Any:
    """Return the model with what new samples need, and one thread: a worker has one for each chunk."""
    slim = copy.copy(model)
    for name in _NOT_NEEDED:
        vars(slim).pop(name, None)
    slim.n_jobs = 1
    if hasattr(slim, "set_callbacks"):
        slim.set_callbacks()  # which may hold anything, such as a lock
    return slim


def score_lazily(predictions: Any, y: Any, sample_weight: Any) -> float:
    """Return the share of correct predictions of a Dask array; rows of labels must be correct as a whole."""
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
