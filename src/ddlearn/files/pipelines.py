"""Pipelines as models: scalers before a classifier become part of its own description, which model files hold."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler
from sklearn.utils.validation import check_is_fitted

from ..describe.standard import Standard
from ..estimators.classifier import DDLClassifier

_REMEDY = "save the classifier alone, or keep the whole pipeline with skops or joblib"


def fold_pipeline(pipeline: Pipeline) -> DDLClassifier:
    """Return a classifier that does what a pipeline does, or raise an error that names the step that it cannot do."""
    check_is_fitted(pipeline)
    *steps, (_, model) = pipeline.steps
    if not isinstance(model, DDLClassifier):
        raise TypeError(f"The last step of the pipeline is {model!r}, not a DDLClassifier: {_REMEDY}.")
    folded = copy(model)
    for name, step in reversed(steps):
        if step is not None and step != "passthrough":
            folded.description_ = _fold(name, step, folded.description_, folded.n_features_in_)
    if steps and hasattr(pipeline, "feature_names_in_"):
        folded.feature_names_in_ = pipeline.feature_names_in_
    return folded


def _fold(name: str, step: Any, description: Any, n_features: int) -> Any:
    """Return a description that does what the step and then the description do."""
    numbers = description.export()
    if isinstance(step, Normalizer) and step.norm == "l2" and numbers is not None and "energy" in numbers:
        return description  # a second division by the norm changes nothing
    affine = _read_affine(step, n_features)
    if affine is None:
        raise TypeError(
            f"The step {name!r} of the pipeline, {step!r}, cannot be part of a model file: leave it to the model, "
            f"by description='standard' or 'unit'; {_REMEDY}."
        )
    offset, spread = affine
    if numbers == {}:
        return Standard(0.0, mean=offset, deviation=spread / np.sqrt(n_features))  # which it multiplies by the root
    if numbers is not None and "mean" in numbers:
        mean, deviation = offset + spread * numbers["mean"], spread * numbers["deviation"]
        return clone(description).set_params(mean=mean, deviation=deviation)
    raise TypeError(
        f"The model describes samples by {type(description).__name__} after the step {name!r}, and a model file "
        f"cannot hold both: fit it with description='standard' or None, or leave that step out; {_REMEDY}."
    )


def _read_affine(step: Any, n_features: int) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
    """Return what a scaler subtracts from each feature, and by what it divides; None if it does something else."""
    nothing, one = np.zeros(n_features), np.ones(n_features)
    if isinstance(step, StandardScaler):
        return (nothing if step.mean_ is None or not step.with_mean else step.mean_), _or(step.scale_, one)
    if isinstance(step, RobustScaler):
        return _or(step.center_, nothing), _or(step.scale_, one)
    if isinstance(step, MaxAbsScaler):
        return nothing, step.scale_
    if isinstance(step, MinMaxScaler) and not step.clip:
        return -step.min_ / step.scale_, 1 / step.scale_
    return None


def _or(value: Any, default: NDArray[np.float64]) -> NDArray[np.float64]:
    return default if value is None else value
