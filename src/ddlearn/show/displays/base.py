"""The base class of the displays, and how displays and reports read an estimator, samples and image shapes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import prod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from ...describe.base import IDENTITY
from ...estimators.classifier import DDLClassifier
from ...estimators.minibatch import MiniBatchDDLClassifier
from .drawing import TICK_SIZE, TITLE_SIZE, Axes, Floats, ImageShape, measure_axes


class Display(ABC):
    """Draws its data on given axes or in a new figure, and keeps them as ``ax_`` and ``figure_``."""

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the display, and return it.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw on; by default those of a new figure.  A display of several panels divides their area.
        """
        self._draw(ax)
        return self

    @abstractmethod
    def _draw(self, ax: Axes | None) -> None:
        """Draw, on the axes of :meth:`_open_axes`."""

    def _open_axes(self, ax: Axes | None, width: float, height: float, margins: tuple[float, float] = (0, 0)) -> Axes:
        """Return the given axes, or new ones for a drawing of this size in inches; in smaller ones text shrinks."""
        self._shrinkage = 1.0
        if ax is None:
            size = width + margins[0], height + margins[1]
            ax = import_pyplot().subplots(figsize=size, layout="constrained")[1]
        else:
            own_width, own_height = measure_axes(ax)
            self._shrinkage = min(1.0, own_width / width, own_height / height)
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _write(self, x: float, y: float, text: str, size: float = TICK_SIZE, **style: Any) -> None:
        """Write text centered at a point, at most of this font size."""
        self.ax_.text(x, y, text, fontsize=self._shrinkage * size, **{"ha": "center", "va": "center"} | style)

    def _frame_canvas(self, title: str, width: float, height: float) -> None:
        """Make the axes a canvas of this size without ticks, whose y points down."""
        self.ax_.set_title(title, fontsize=TITLE_SIZE)
        self.ax_.set(xlim=(0, width), ylim=(height, 0), aspect="equal")
        self.ax_.set_axis_off()


def import_pyplot() -> Any:
    """Return matplotlib.pyplot, or explain how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError('Displays need matplotlib: pip install "ddlearn[plot]".') from error
    return plt


def find_model(estimator: Any, *others: type) -> Any:
    """Return the fitted model, a classifier or one of `others`, itself or at the end of a pipeline."""
    kinds = (DDLClassifier, MiniBatchDDLClassifier, *others)
    model = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
    if not isinstance(model, kinds):
        names = " or ".join(kind.__name__ for kind in kinds)
        advice = " Pass its best_estimator_." if hasattr(estimator, "best_estimator_") else ""
        raise TypeError(
            f"Expected a fitted {names} or a pipeline that ends with one, got {type(model).__name__}.{advice}"
        )
    check_is_fitted(model, "components_")
    return model


def show_atoms(model: Any) -> Floats:
    """Return the atoms in the units of the samples: what they add to a sample of size 1."""
    description: Any = getattr(model, "description_", IDENTITY)  # KSVD has none
    return description.show(model.components_)


def preprocess(estimator: Any, X: Any) -> Any:
    """Return samples as the last step of a pipeline receives them."""
    has_steps_before = isinstance(estimator, Pipeline) and len(estimator.steps) > 1
    return estimator[:-1].transform(X) if has_steps_before else X


def preprocess_one(estimator: Any, x: Any) -> Any:
    """Return one sample as a matrix of one row, as the last step of a pipeline receives it."""
    if hasattr(x, "to_frame"):  # a row of a data frame keeps its feature names
        x = x.to_frame().T
    x = x if hasattr(x, "columns") else np.atleast_2d(x)
    if x.ndim != 2 or len(x) != 1:
        raise ValueError(f"x must be one sample, got shape {x.shape}: pass one row, such as X[0].")
    return preprocess(estimator, x)


def resolve_image_shape(image_shape: ArrayLike | None, n_features: int, model: Any = None) -> ImageShape | None:
    """Return the image shape that was given or else the model's, None if samples are not images."""
    if image_shape is None:
        image_shape = getattr(model, "image_shape", None)
    if image_shape is None:
        return None
    shape = tuple(int(side) for side in np.atleast_1d(image_shape))
    is_known_kind = len(shape) == 2 or (len(shape) == 3 and shape[2] == 3)
    if not is_known_kind or min(shape) < 1 or prod(shape) != n_features:
        raise ValueError(
            f"image_shape={shape} does not match {n_features} features: pass (height, width), or (height, width, 3) "
            "for color images, whose product is the number of features."
        )
    return shape
