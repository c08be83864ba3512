"""What figures and reports need of a model: the model itself, its shape of images, and samples as it sees them."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ...estimators.classifier import DDLClassifier

ImageShape = tuple[int, ...]


def unwrap(estimator: Any, *kinds: type) -> Any:
    """Return the fitted model, which may be the last step of a pipeline."""
    kinds = kinds or (DDLClassifier,)
    model = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if not isinstance(model, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        is_search = hasattr(estimator, "best_estimator_")
        advice = "pass its best_estimator_" if is_search else "pass one, or a pipeline that ends with one"
        raise TypeError(f"What shows a model needs a fitted {names}, got {type(model).__name__}: {advice}.")
    check_is_fitted(model, "components_")
    return model


def preprocess(estimator: Any, X: Any) -> Any:
    """Return samples as the last step of a pipeline sees them."""
    if isinstance(estimator, Pipeline) and len(estimator.steps) > 1:
        return estimator[:-1].transform(X)
    return X


def to_one_row(x: Any) -> Any:
    """Return one sample as a matrix of one row."""
    if hasattr(x, "to_frame"):  # a row of a data frame keeps the names of its features
        x = x.to_frame().T
    x = x if hasattr(x, "columns") else np.atleast_2d(x)
    if x.ndim != 2 or len(x) != 1:
        raise ValueError(f"x must be one sample, got shape {x.shape}: pass one row, such as X[0].")
    return x


def resolve_image_shape(image_shape: ArrayLike | None, model: Any, n_features: int) -> ImageShape | None:
    """Return the height and width of images, with a 3 for colours, or None for signals."""
    if image_shape is None:
        image_shape = getattr(model, "image_shape", None)
    if image_shape is None:
        return None
    shape = tuple(int(side) for side in np.atleast_1d(image_shape))
    is_known_kind = len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
    if not is_known_kind or min(shape) < 1 or prod(shape) != n_features:
        raise ValueError(
            f"image_shape={shape} does not fit {n_features} features: give height and width, or height, width and 3 "
            "for colour, whose product is the number of features."
        )
    return shape
