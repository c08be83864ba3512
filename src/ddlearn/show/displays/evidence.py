"""What each atom of a sample contributes to the score of each class."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...estimators.classifier import DDLClassifier
from ..colors import get_class_color
from ..explanation import Explanation
from .base import Axes, Display, find_model, preprocess_one, resolve_image_shape, show_atoms
from .drawing import LABEL_SIZE, SMALL_SIZE, Box, Floats, Scale, choose_ink, measure_text, to_label

_WIDTH, _HEIGHT = 0.86, 0.36  # of a number's cell, in inches
_PICTURE = 0.7  # height of the row of atoms
_BAR, _GAP = 0.14, 0.12
_MARK = 0.75  # room for the marks "predicted" and "true"


class EvidenceDisplay(Display):
    r"""Contribution of each atom of a sample to the score of each class, as a table of colored numbers.

    The score of class j is the sum of its row, :math:`s_j = \sum_k x_k w_{jk} + b_j`: the contributions of the atoms
    plus the intercept.  Next to the scores is the evidence, by which the model decides.

    Parameters
    ----------
    model : DDLClassifier
        The fitted model.
    explanation : Explanation
        The result of ``model.explain`` for one sample.
    true_label : object, default=None
        The true class, which is marked; for a multilabel model, a vector of zeros and ones.
    image_shape : tuple of int or None, default=None
        Shape of images; by default that of the model, or curves if it has none.
    max_atoms : int, default=8
        Largest number of atom columns: the atoms that contribute most, and one for the sum of the others.
    max_classes : int, default=12
        Largest number of rows: the classes of largest evidence.  The true class is always shown.

    Attributes
    ----------
    contributions : ndarray of shape (n_classes, n_used)
        Coefficient times classifier weight, for the atoms that the sample uses.
    scores : ndarray of shape (n_classes,)
        The scores, sums of contributions and intercept.
    evidence : ndarray of shape (n_classes,)
        The evidence for each class.
    is_predicted : ndarray of shape (n_classes,)
        True for the class that the model predicts, or for all predicted classes of a multilabel model.
    shown_classes_ : ndarray
        Positions of the classes that have a row.
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn.

    See Also
    --------
    CodeDisplay : The sample as the sum of its atoms.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ddlearn import DDLClassifier, EvidenceDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DDLClassifier(n_components=50, max_iter=2, random_state=0).fit(X, y)
    >>> display = EvidenceDisplay.from_estimator(model, X[0], y[0], image_shape=(8, 8))
    >>> int(display.scores.argmax()), int(y[0])
    (0, 0)
    """

    def __init__(
        self,
        model: DDLClassifier,
        explanation: Explanation,
        *,
        true_label: Any = None,
        image_shape: ArrayLike | None = None,
        max_atoms: int = 8,
        max_classes: int = 12,
    ):
        code, used = explanation.codes.data, explanation.codes.indices
        self.contributions = model.coef_[:, used].astype(np.float64) * code
        self.intercept = model.intercept_.astype(np.float64)
        self.scores = self.contributions.sum(axis=1) + self.intercept
        self.evidence = explanation.evidence[0].astype(np.float64)
        self.classes = model.classes_
        best = np.arange(len(self.classes)) == self.evidence.argmax()
        self.is_predicted = self.evidence > 0 if model.is_multilabel_ else best
        self.true_label = true_label
        self.atoms = show_atoms(model)[used] * np.sign(code)[:, None]
        self.atom_numbers = used
        self.image_shape = resolve_image_shape(image_shape, model.n_features_in_, model)
        self.max_atoms, self.max_classes = max_atoms, max_classes
        for name, most in (("max_atoms", max_atoms), ("max_classes", max_classes)):
            if most < 1:
                raise ValueError(f"{name} must be at least 1, got {most}.")
        if np.shape(true_label) == self.classes.shape:
            self._is_true = np.asarray(true_label) == 1
        else:
            self._is_true = np.array([name == true_label for name in self.classes.tolist()], dtype=bool)
            if true_label is not None and not self._is_true.any():
                raise ValueError(f"true_label={true_label!r} is not one of the classes {self.classes.tolist()}.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        x: ArrayLike,
        true_label: Any = None,
        *,
        mask: ArrayLike | None = None,
        image_shape: ArrayLike | None = None,
        max_atoms: int = 8,
        max_classes: int = 12,
        ax: Axes | None = None,
    ) -> EvidenceDisplay:
        """Classify one sample with a fitted model, and draw the contributions of its atoms.

        Parameters
        ----------
        estimator : DDLClassifier or Pipeline
            The fitted model, or a pipeline that ends with it.
        x : array-like of shape (n_features,) or (1, n_features)
            The sample.
        true_label, image_shape, max_atoms, max_classes : optional
            As for the class.
        mask : array-like of shape (n_features,) or None, default=None
            True where a feature is missing.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; by default those of a new figure.
        """
        model = find_model(estimator)
        explanation = model.explain(preprocess_one(estimator, x), mask)
        limits = {"max_atoms": max_atoms, "max_classes": max_classes}
        return cls(model, explanation, true_label=true_label, image_shape=image_shape, **limits).plot(ax=ax)

    def _draw(self, ax: Axes | None) -> None:
        rank = np.argsort(np.argsort(-self.evidence, kind="stable"))
        self.shown_classes_ = np.flatnonzero((rank < self.max_classes) | self._is_true)
        shown_atoms, columns = self._choose_columns()
        names = [to_label(self.classes[position]) for position in self.shown_classes_]
        left = max(measure_text(name, LABEL_SIZE) for name in names) + _BAR + 0.12
        top = _PICTURE + 0.38
        width = left + (len(columns) + 2) * _WIDTH + _GAP + _MARK
        height = top + len(names) * _HEIGHT
        self._open_axes(ax, width, height, margins=(0.1, 0.4))
        self._draw_heads(shown_atoms, list(columns), left, top)
        self._draw_numbers(np.column_stack(list(columns.values())), left, top)
        for row, (position, name) in enumerate(zip(self.shown_classes_.tolist(), names, strict=True)):
            self._draw_class(position, name, Box(left, top + row * _HEIGHT, width - left - _MARK, _HEIGHT))
        n_classes = len(self.classes)
        which = "" if len(names) == n_classes else f" ({len(names)} of {n_classes} classes)"
        self._frame_canvas(f"Contribution of each atom to the score of each class{which}", width, height)

    def _choose_columns(self) -> tuple[Any, dict[str, Floats]]:
        """Return the atoms with a column, those that contribute most first, and all columns, which sum to the score."""
        order = np.argsort(-np.abs(self.contributions).max(axis=0), kind="stable")
        n_kept = len(order) if len(order) <= self.max_atoms else self.max_atoms - 1
        shown, others = order[:n_kept], order[n_kept:]
        columns: dict[str, Floats] = {f"atom {self.atom_numbers[atom]}": self.contributions[:, atom] for atom in shown}
        if len(others):
            columns[f"{len(others)} others"] = self.contributions[:, others].sum(axis=1)
        return shown, columns | {"intercept": self.intercept}

    def _draw_heads(self, shown_atoms: Any, titles: list[str], left: float, top: float) -> None:
        """Draw the atoms and the titles of the columns."""
        heads = [*titles, "= score", "evidence"]
        for number, title in enumerate(heads):
            x = left + (number + 0.5) * _WIDTH + (_GAP if number >= len(titles) else 0)
            self._write(x, top - 0.05, title, va="bottom")
        scale = Scale.around_zero(self.atoms, 1.0) if len(shown_atoms) else Scale(-1, 1)
        for number, atom in enumerate(shown_atoms):
            box = Box(left + number * _WIDTH + 0.04, 0.0, _WIDTH - 0.08, _PICTURE).fit(self.image_shape)
            box.draw(self.ax_, self.atoms[atom], self.image_shape, scale)

    def _draw_numbers(self, table: Floats, left: float, top: float) -> None:
        """Draw the colored table of contributions."""
        shown = table[self.shown_classes_]
        largest = float(np.abs(table).max()) or 1.0
        n_rows, n_columns = shown.shape
        extent = (left, left + n_columns * _WIDTH, top + n_rows * _HEIGHT, top)
        cells = self.ax_.imshow(shown, extent=extent, cmap="PuOr_r", vmin=-largest, vmax=largest, aspect="auto")
        inks = choose_ink(cells.to_rgba(shown))
        for (row, column), value in np.ndenumerate(shown):
            x, y = left + (column + 0.5) * _WIDTH, top + (row + 0.5) * _HEIGHT
            self._write(x, y, _format(float(value), largest), color=inks[row, column])

    def _draw_class(self, position: int, name: str, box: Box) -> None:
        """Draw the name of a class, its sums, and whether it is predicted or true."""
        is_predicted, right, middle = self.is_predicted[position], box.left + box.width, box.top + box.height / 2
        weight = "bold" if is_predicted else "normal"
        bar = [box.left - _BAR - 0.04, box.left - 0.04]
        bar_ends = box.top + 0.02, box.top + box.height - 0.02
        self.ax_.fill_between(bar, *bar_ends, color=get_class_color(position), lw=0)
        self._write(bar[0] - 0.06, middle, name, LABEL_SIZE, weight=weight, ha="right")
        for values, offset in ((self.scores, 1.5), (self.evidence, 0.5)):
            text = _format(float(values[position]), float(np.abs(values).max()))
            self._write(right - offset * _WIDTH, middle, text, weight=weight)
        marks = [word for word, holds in (("predicted", is_predicted), ("true", self._is_true[position])) if holds]
        self._write(right + 0.06, middle, "\n".join(marks), SMALL_SIZE, linespacing=0.95, ha="left")
        if is_predicted:
            box.outline(self.ax_, "black", 1.6)


def _format(value: float, largest: float) -> str:
    """Return a number with its sign, with as many digits as the largest number beside it deserves."""
    styles = {10: "+.2f", 100: "+.1f", 1_000_000: "+,.0f"}
    style = next((style for limit, style in styles.items() if largest < limit), "+.1e")
    return format(value, style).replace("-", "\N{MINUS SIGN}")
