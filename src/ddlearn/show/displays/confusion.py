"""The confusion matrix, with an example image of every kind of mistake."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ..colors import get_class_color
from ..errors import check_labels, find_positions, match_types
from .base import Axes, Display, resolve_image_shape
from .drawing import LABEL_SIZE, SMALL_SIZE, TICK_SIZE, TITLE_SIZE, Box, Scale, choose_ink, measure_text, to_label

_MOST_CLASSES_WITH_IMAGES = 16  # beyond, cells are too small for images
_BAR = 0.1  # width of the color bar of a class, in inches
_SMALLEST = 3.0  # smallest width of the matrix, in inches
_MANY_CLASSES = 20  # from here on, text is small


class ConfusionDisplay(Display):
    """Confusion matrix with one row per true class, one column per predicted class, and an image of each mistake.

    The image is the most convincing mistake of its cell if evidence is available, otherwise the first.  Cells without
    samples are empty; with more than 16 classes, cells contain numbers only.

    Parameters
    ----------
    counts : array-like of shape (n_classes, n_classes)
        Number of samples per true class (row) and predicted class (column).
    classes : array-like of shape (n_classes,)
        The names of the classes.
    examples : mapping of (int, int) to ndarray or None, default=None
        Images for cells (true, predicted), of shape (height, width) or (height, width, 3).

    Attributes
    ----------
    image_ : matplotlib AxesImage
        The shades of the cells: the fraction of the true class.
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn.

    Examples
    --------
    >>> from ddlearn import ConfusionDisplay
    >>> ConfusionDisplay.from_predictions(["cat", "dog", "dog"], ["cat", "dog", "cat"]).counts
    array([[1, 0],
           [1, 1]])
    """

    def __init__(
        self, counts: ArrayLike, classes: ArrayLike, *, examples: dict[tuple[int, int], NDArray[Any]] | None = None
    ):
        self.counts = np.asarray(counts)
        self.classes = np.asarray(classes)
        self.examples = examples or {}
        if self.counts.shape != (len(self.classes), len(self.classes)):
            raise ValueError(f"counts has shape {self.counts.shape}, but there are {len(self.classes)} classes.")

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: ArrayLike, y: ArrayLike, *, image_shape: ArrayLike | None = None, ax: Axes | None = None
    ) -> ConfusionDisplay:
        """Predict the classes of samples and draw the confusion matrix.

        Parameters
        ----------
        estimator : classifier
            Any fitted classifier with ``classes_``, or a pipeline.
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            True classes.  Classes unknown to the model come last.
        image_shape : tuple of int or None, default=None
            Shape of the images in the rows of X; by default that of the model, or numbers only if it has none.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; by default those of a new figure.
        """
        check_is_fitted(estimator)
        model = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
        if getattr(model, "is_multilabel_", False):
            raise ValueError(
                "A confusion matrix needs one label per sample, but the model predicts several: draw one matrix per "
                "label with from_predictions(y[:, j], model.predict(X)[:, j])."
            )
        check_labels(y, getattr(model, "unlabeled", None))
        shape = resolve_image_shape(image_shape, np.shape(X)[1], model)
        evidence = None if shape is None else _compute_evidence(estimator, X)  # only used to choose images
        options = {"labels": estimator.classes_, "images": X, "image_shape": shape, "evidence": evidence}
        return cls.from_predictions(y, estimator.predict(X), **options, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_pred: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        images: ArrayLike | None = None,
        image_shape: ArrayLike | None = None,
        evidence: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> ConfusionDisplay:
        """Draw the confusion matrix of true and predicted classes.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True classes.  If only one of true and predicted classes are text, both are compared as text.
        y_pred : array-like of shape (n_samples,)
            Predicted classes.
        labels : array-like of shape (n_classes,) or None, default=None
            The order of the classes, such as ``classes_`` of the model, which gives each class the color it has in
            other displays; other classes that occur come last.  By default the sorted classes that occur.
        images : array-like of shape (n_samples, ...) or None, default=None
            The samples as images, or as rows together with `image_shape`.
        image_shape : tuple of int or None, default=None
            ``(height, width)`` or ``(height, width, 3)`` of images that are rows.
        evidence : array-like of shape (n_samples, n_classes) or None, default=None
            The decision values, one column per class of `labels`.  The example of a cell is then the mistake with the
            largest lead of the predicted class over the true one.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; by default those of a new figure.
        """
        check_consistent_length(y_true, y_pred, images, evidence)
        truth, guess = (column_or_1d(y) for y in (y_true, y_pred))
        check_labels(y_true)
        truth, guess, known = match_types(truth, guess, guess[:0] if labels is None else np.asarray(labels))
        classes = np.concatenate([known, np.setdiff1d(np.concatenate([truth, guess]), known)])
        cells = np.stack([find_positions(classes, names) for names in (truth, guess)])
        counts = np.zeros((len(classes), len(classes)), np.intp)
        np.add.at(counts, tuple(cells), 1)
        pictures = _to_images(images, image_shape)
        examples = {} if pictures is None else _choose_examples(cells, evidence, len(classes))
        return cls(counts, classes, examples={cell: pictures[row] for cell, row in examples.items()}).plot(ax=ax)

    def _draw(self, ax: Axes | None) -> None:
        n_classes = len(self.classes)
        font_size = SMALL_SIZE - 1 if n_classes >= _MANY_CLASSES else TICK_SIZE
        names = [to_label(name) for name in self.classes]
        size = max(n_classes * float(np.clip(10 / n_classes, 0.29, 0.75)), _SMALLEST)
        longest = max(measure_text(name, font_size) for name in names)
        rotation = 90 if longest > size / n_classes else 0
        ax = self._open_axes(ax, size, size, margins=(0.5 + longest, 0.6 + longest if rotation else 0.9))
        from matplotlib.colors import PowerNorm

        shares = self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1)
        # The square root makes one per cent of mistakes visible beside ninety-nine per cent of hits.
        self.image_ = ax.imshow(shares, cmap="Blues", norm=PowerNorm(0.5, 0, 1.6), zorder=0)
        inks = choose_ink(self.image_.to_rgba(shares))
        examples = self.examples if n_classes <= _MOST_CLASSES_WITH_IMAGES else {}
        for (row, column), count in np.ndenumerate(self.counts):
            if count:
                self._draw_cell(row, column, examples.get((row, column)), font_size, inks[row, column])
        self._draw_edges(n_classes, _BAR / size * n_classes)
        ax.set_xticks(range(n_classes), names, rotation=rotation)
        ax.set_yticks(range(n_classes), names)
        ax.tick_params(length=0, pad=4)
        accuracy = np.trace(self.counts) / max(self.counts.sum(), 1)
        ax.set_title(f"Accuracy {accuracy:.1%} on {self.counts.sum()} samples", fontsize=TITLE_SIZE)
        ax.set_xlabel("Predicted class", fontsize=LABEL_SIZE)
        ax.set_ylabel("True class", fontsize=LABEL_SIZE)
        ax.tick_params(which="both", labelsize=font_size)

    def _draw_cell(self, row: int, column: int, example: Any, font_size: float, ink: str) -> None:
        """Write the number of a cell, below its image if there is one."""
        y = float(row)
        if example is not None:
            box = Box(column - 0.46, row - 0.46, 0.92, 0.6).fit(example.shape)
            box.draw(self.ax_, example.ravel(), example.shape, Scale.across(example))
            y, font_size = row + 0.32, 0.9 * font_size
        self._write(column, y, str(self.counts[row, column]), font_size, color=ink)

    def _draw_edges(self, n_classes: int, bar: float) -> None:
        """Draw the lines between cells, and the colors of the classes along the left and lower edge."""
        ax, low, high = self.ax_, -0.5, n_classes - 0.5
        for position in range(n_classes):
            ends, color = (position - 0.46, position + 0.46), get_class_color(position)
            ax.fill_between(ends, high, high + bar, color=color, lw=0)
            ax.fill_between([low - bar, low], *ends, color=color, lw=0)
        for edge in np.arange(n_classes + 1) - 0.5:
            ax.plot([low, high], [edge, edge], color="#DDDDDD", lw=0.6, zorder=1)
            ax.plot([edge, edge], [low, high], color="#DDDDDD", lw=0.6, zorder=1)
        ax.set(xlim=(low - bar, high), ylim=(high + bar, low))
        ax.spines[:].set_visible(False)


def _compute_evidence(estimator: Any, X: ArrayLike) -> Any:
    """Return the evidence for each class, or None if the estimator provides none."""
    if not hasattr(estimator, "decision_function"):
        return None
    evidence = np.asarray(estimator.decision_function(X))
    if evidence.ndim == 1:  # two classes: evidence for the second minus the first
        return np.column_stack([-evidence / 2, evidence / 2])
    return evidence if evidence.shape[1] == len(estimator.classes_) else None


def _to_images(images: ArrayLike | None, image_shape: ArrayLike | None) -> Any:
    """Return samples as images, or None if they are none."""
    if images is None:
        return None
    images = np.asarray(images)
    if image_shape is not None:
        return images.reshape(len(images), *resolve_image_shape(image_shape, images[0].size))  # type: ignore[misc]
    return images if images.ndim > 2 else None


def _choose_examples(cells: NDArray[np.intp], evidence: Any, n_classes: int) -> dict[tuple[int, int], int]:
    """Return the row of the example of each kind of mistake."""
    truth, guess = cells
    wrong = np.flatnonzero(truth != guess)
    if evidence is not None:
        evidence = np.asarray(evidence)
        evidence = np.pad(evidence, ((0, 0), (0, n_classes - evidence.shape[1])))  # 0 for classes unknown to the model
        lead = evidence[wrong, guess[wrong]] - evidence[wrong, truth[wrong]]
        wrong = wrong[np.argsort(-lead, kind="stable")]
    chosen: dict[tuple[int, int], int] = {}
    for row in wrong:
        chosen.setdefault((int(truth[row]), int(guess[row])), int(row))
    return chosen
