"""Which classes are taken for which, with an image of every kind of mistake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from ..colors import get_class_color
from ..errors import check_labels, match_types, measure_errors
from .figures import (
    LABEL_SIZE,
    SMALL_SIZE,
    TICK_SIZE,
    TITLE_SIZE,
    choose_ink,
    find_shrinkage,
    measure_text,
    open_axes,
    to_label,
)
from .models import resolve_image_shape
from .pictures import (
    Box,
    Scale,
    draw_picture,
    height_ratio,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_CLASSES_WITH_IMAGES = 16  # beyond, cells are too small for them
_BAR = 0.1  # width of a class's colour, in inches
_SMALLEST = 3.0  # inches that the matrix is wide at least
_MANY_CLASSES = 20  # from here on letters are small


class ConfusionDisplay:
    """Confusion matrix: a row a true class, a column a predicted one, and in each wrong cell an image of the mistake.

    The image is that of the most convincing mistake where evidence is known, else of the first.  Cells without samples
    are empty; with more than 16 classes there are numbers only.

    Parameters
    ----------
    counts : array-like of shape (n_classes, n_classes)
        How many samples of each class got each label.
    classes : array-like of shape (n_classes,)
        The names of the classes.
    examples : mapping of (int, int) to ndarray or None, default=None
        For cells (true, predicted), an image as it is drawn: of shape (height, width) or (height, width, 3).

    Attributes
    ----------
    image_ : matplotlib AxesImage
        The shades, each cell's share of its true class.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        Their figure.

    See Also
    --------
    EvidenceDisplay : Why a sample got its class.

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
        cls,
        estimator: Any,
        X: ArrayLike,
        y: ArrayLike,
        *,
        image_shape: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> ConfusionDisplay:
        """Classify samples and draw where the labels differ.

        Parameters
        ----------
        estimator : classifier
            Any fitted classifier with ``classes_``, also a pipeline.
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : array-like of shape (n_samples,)
            Their classes.  Those that the model does not know come last.
        image_shape : tuple of int or None, default=None
            Height and width of the images that the rows of X are; by default that of the model, and without it there
            are numbers only.
        ax : matplotlib Axes or None, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        ConfusionDisplay
            The display.
        """
        check_is_fitted(estimator)
        model = estimator.steps[-1][1] if isinstance(estimator, Pipeline) else estimator
        if getattr(model, "is_multilabel_", False):
            raise ValueError(
                "The model gives several labels to a sample, which no confusion matrix can show: make one for each "
                "label with from_predictions(y[:, j], model.predict(X)[:, j])."
            )
        check_labels(y, getattr(model, "unlabeled", None))
        predicted = estimator.predict(X)
        shape = resolve_image_shape(image_shape, model, np.shape(X)[1])
        return cls.from_predictions(
            y,
            predicted,
            labels=estimator.classes_,
            images=X,
            image_shape=shape,
            evidence=None if shape is None else _judge(estimator, X),  # it only serves to choose images
            ax=ax,
        )

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
        """Draw where true and predicted labels differ.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True classes.  Text is compared with numbers as text, since folders are named by text.
        y_pred : array-like of shape (n_samples,)
            Predicted classes.
        labels : array-like of shape (n_classes,) or None, default=None
            All classes in order, such as ``classes_`` of the model, which gives each class the colour that it has in
            other displays; others that occur come after them.  By default those that occur, sorted.
        images : array-like of shape (n_samples, ...) or None, default=None
            The samples as rows, with `image_shape`, or as images.
        image_shape : tuple of int or None, default=None
            Height and width of the images that are rows.
        evidence : array-like of shape (n_samples, n_classes) or None, default=None
            What the classifier decided by, a column for each of `labels`; the example of a mistake is then the one of
            largest evidence for the wrong class over that for the true one.
        ax : matplotlib Axes or None, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        ConfusionDisplay
            The display.
        """
        check_consistent_length(y_true, y_pred, images, evidence)
        truth, guess = (column_or_1d(y) for y in (y_true, y_pred))
        check_labels(y_true)
        truth, guess, known = match_types(truth, guess, guess[:0] if labels is None else np.asarray(labels))
        errors = measure_errors(truth, guess)
        classes = np.concatenate([known, np.setdiff1d(errors.classes, known)])
        positions = {name: position for position, name in enumerate(classes.tolist())}
        counts = np.zeros((len(classes), len(classes)), np.intp)
        present = [positions[name] for name in errors.classes.tolist()]
        counts[np.ix_(present, present)] = errors.confusion
        pictures = _to_images(images, image_shape)
        if pictures is None:
            return cls(counts, classes).plot(ax=ax)
        cells = np.array([[positions[name] for name in names.tolist()] for names in (truth, guess)])
        chosen = _choose_examples(cells, None if evidence is None else _add_columns(evidence, len(classes)))
        return cls(counts, classes, examples={cell: pictures[row] for cell, row in chosen.items()}).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> ConfusionDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        ConfusionDisplay
            The display itself.
        """
        n_classes = len(self.classes)
        letters = SMALL_SIZE - 1 if n_classes >= _MANY_CLASSES else TICK_SIZE
        names = [to_label(name) for name in self.classes]
        size = max(n_classes * float(np.clip(10 / n_classes, 0.29, 0.75)), _SMALLEST)
        longest = max(measure_text(name, letters) for name in names)
        is_upright = longest > size / n_classes
        shrinkage = find_shrinkage(ax, size, size)
        ax = open_axes(ax, size + 0.5 + longest, size + (0.6 + longest if is_upright else 0.9))
        from matplotlib.colors import PowerNorm

        shares = self.counts / np.maximum(self.counts.sum(axis=1, keepdims=True), 1)
        # The root shows one per cent of mistakes beside ninety-nine of hits.
        self.image_ = ax.imshow(shares, cmap="Blues", norm=PowerNorm(0.5, 0, 1.6), zorder=0)
        inks = choose_ink(self.image_.to_rgba(shares))
        has_images = bool(self.examples) and n_classes <= _MOST_CLASSES_WITH_IMAGES
        for (row, column), count in np.ndenumerate(self.counts):
            if count:
                example = self.examples.get((row, column)) if has_images else None
                _draw_cell(ax, row, column, count, example, shrinkage * letters, inks[row, column])
        _name_axes(ax, names, letters, is_upright, _BAR / size * n_classes)
        accuracy = np.trace(self.counts) / max(self.counts.sum(), 1)
        ax.set_title(f"{accuracy:.1%} of {self.counts.sum()} samples right", fontsize=TITLE_SIZE)
        self.ax_, self.figure_ = ax, ax.figure
        return self


def _name_axes(ax: Axes, names: list[str], letters: float, is_upright: bool, bar: float) -> None:
    """Write the names of the classes, each with its colour along the edge."""
    n_classes = len(names)
    ax.set_xticks(range(n_classes), names, fontsize=letters, rotation=90 if is_upright else 0)
    ax.set_yticks(range(n_classes), names, fontsize=letters)
    ax.set_xlabel("Predicted class", fontsize=LABEL_SIZE)
    ax.set_ylabel("True class", fontsize=LABEL_SIZE)
    ax.tick_params(length=0, pad=4)
    ends = (-0.5, n_classes - 0.5)
    for position in range(n_classes):
        color = get_class_color(position)
        ax.fill_between([position - 0.46, position + 0.46], ends[1], ends[1] + bar, color=color, lw=0)
        ax.fill_between([ends[0] - bar, ends[0]], position - 0.46, position + 0.46, color=color, lw=0)
    for edge in np.arange(n_classes + 1) - 0.5:
        ax.plot(ends, [edge, edge], color="#DDDDDD", lw=0.6, zorder=1)
        ax.plot([edge, edge], ends, color="#DDDDDD", lw=0.6, zorder=1)
    ax.set(xlim=(ends[0] - bar, ends[1]), ylim=(ends[1] + bar, ends[0]))
    ax.spines[:].set_visible(False)


def _draw_cell(ax: Axes, row: int, column: int, count: int, example: Any, letters: float, ink: str) -> None:
    """Write the number of a cell, below its image if there is one."""
    if example is None:
        ax.text(column, row, str(count), fontsize=letters, color=ink, ha="center", va="center")
        return
    box = Box(column - 0.46, row - 0.46, 0.92, 0.6).fit(height_ratio(example.shape))
    draw_picture(ax, example.ravel(), example.shape, box, Scale.across(example))
    ax.text(column, row + 0.32, str(count), fontsize=0.9 * letters, color=ink, ha="center", va="center")


def _judge(estimator: Any, X: ArrayLike) -> Any:
    """Return the evidence for each class, or None if the estimator tells of none."""
    if not hasattr(estimator, "decision_function"):
        return None
    evidence = np.asarray(estimator.decision_function(X))
    if evidence.ndim == 1:  # two classes: that of the second less that of the first
        return np.column_stack([-evidence / 2, evidence / 2])
    return evidence if evidence.shape[1] == len(estimator.classes_) else None


def _to_images(images: ArrayLike | None, image_shape: ArrayLike | None) -> Any:
    """Return samples as images, or None if there are none."""
    if images is None:
        return None
    images = np.asarray(images)
    if image_shape is not None:
        return images.reshape(len(images), *resolve_image_shape(image_shape, None, images[0].size))  # type: ignore[misc]
    return images if images.ndim > 2 else None


def _add_columns(evidence: ArrayLike, n_classes: int) -> Any:
    """Return evidence with zeros for the classes that the classifier does not know, which it says nothing of."""
    evidence = np.asarray(evidence)
    return np.pad(evidence, ((0, 0), (0, max(n_classes - evidence.shape[1], 0))))


def _choose_examples(cells: NDArray[np.intp], evidence: Any) -> dict[tuple[int, int], int]:
    """Return the sample that stands for each kind of mistake."""
    truth, guess = cells
    wrong = np.flatnonzero(truth != guess)
    if evidence is not None:
        lead = evidence[wrong, guess[wrong]] - evidence[wrong, truth[wrong]]
        wrong = wrong[np.argsort(-lead, kind="stable")]
    chosen: dict[tuple[int, int], int] = {}
    for row in wrong:
        chosen.setdefault((int(truth[row]), int(guess[row])), int(row))
    return chosen
