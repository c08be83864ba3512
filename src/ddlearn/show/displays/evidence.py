"""What each atom of a sample says for each class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ..colors import get_class_color
from .figures import (
    LABEL_SIZE,
    SMALL_SIZE,
    TICK_SIZE,
    TITLE_SIZE,
    choose_ink,
    find_shrinkage,
    format_number,
    measure_text,
    open_axes,
    to_label,
)
from .models import (
    preprocess,
    resolve_image_shape,
    to_one_row,
    unwrap,
)
from .pictures import (
    Box,
    Floats,
    Scale,
    draw_picture,
    frame_canvas,
    height_ratio,
    outline,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH, _HEIGHT = 0.86, 0.36  # of a number's cell, in inches
_PICTURE = 0.7  # height of the row of atoms
_BAR, _GAP = 0.14, 0.12
_MARK = 0.75  # space for the words beside a row


class EvidenceDisplay:
    r"""Contribution of each atom of a sample to the score of each class, as a table of coloured numbers.

    The score of class j is the sum of its row, :math:`s_j = \sum_k x_k w_{jk} + b_j`: what each atom says, and the
    intercept.  Beside the scores stands the evidence, which is what the model decides by.

    Parameters
    ----------
    contributions : array-like of shape (n_classes, n_used)
        Coefficient times classifier weight, for the atoms that the sample uses.
    intercept : array-like of shape (n_classes,)
        The intercepts.
    evidence : array-like of shape (n_classes,)
        The evidence for each class.
    classes : array-like of shape (n_classes,)
        The names of the classes.
    is_predicted : array-like of shape (n_classes,)
        Which class the model predicts, or which ones if samples may have several.
    true_label : object, default=None
        The true class, to be marked; for several labels, the zeros and ones.
    atoms : array-like of shape (n_used, n_features) or None, default=None
        The atoms, drawn above their columns.
    atom_numbers : array-like of shape (n_used,) or None, default=None
        The rows of the atoms in the dictionary; by default counted from 0.
    image_shape : tuple of int or None, default=None
        Height and width of images.  By default atoms are curves.
    max_atoms : int, default=8
        Columns for atoms at most: those that contribute most, and one for the sum of the others.
    max_classes : int, default=12
        Rows at most: the classes of largest evidence, and the true one.

    Attributes
    ----------
    scores : ndarray of shape (n_classes,)
        The scores, sums of contributions and intercept.
    shown_classes_ : ndarray
        Positions of the classes that have a row.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        Their figure.

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
        contributions: ArrayLike,
        intercept: ArrayLike,
        evidence: ArrayLike,
        classes: ArrayLike,
        is_predicted: ArrayLike,
        *,
        true_label: Any = None,
        atoms: ArrayLike | None = None,
        atom_numbers: ArrayLike | None = None,
        image_shape: ArrayLike | None = None,
        max_atoms: int = 8,
        max_classes: int = 12,
    ):
        self.contributions = np.asarray(contributions, dtype=np.float64)
        self.intercept = np.asarray(intercept, dtype=np.float64)
        self.evidence = np.asarray(evidence, dtype=np.float64)
        self.classes = np.asarray(classes)
        self.is_predicted = np.asarray(is_predicted, dtype=bool)
        self.true_label = true_label
        self.atoms = None if atoms is None else np.asarray(atoms)
        n_used = self.contributions.shape[1]
        self.atom_numbers = np.arange(n_used) if atom_numbers is None else np.asarray(atom_numbers)
        self.image_shape = None if self.atoms is None else resolve_image_shape(image_shape, None, self.atoms.shape[1])
        self.max_atoms = max_atoms
        self.max_classes = max_classes
        for name, most in (("max_atoms", max_atoms), ("max_classes", max_classes)):
            if most < 1:
                raise ValueError(f"{name} must be at least 1, got {most}.")
        self.scores = self.contributions.sum(axis=1) + self.intercept
        self._is_true = self._find_truth()

    def _find_truth(self) -> Any:
        """Return which classes are the true ones."""
        if self.true_label is None:
            return np.zeros(len(self.classes), bool)
        if np.shape(self.true_label) == self.classes.shape:
            return np.asarray(self.true_label) == 1
        is_true = np.array([name == self.true_label for name in self.classes.tolist()], dtype=bool)
        if not is_true.any():
            raise ValueError(f"true_label={self.true_label!r} is none of the classes {self.classes.tolist()}.")
        return is_true

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
        """Code and judge one sample as a fitted model does, and draw the reasons.

        Parameters
        ----------
        estimator : DDLClassifier or Pipeline
            The model, or a pipeline that ends with it.
        x : array-like of shape (n_features,) or (1, n_features)
            The sample.
        true_label : object, default=None
            Its class, to be marked; for several labels, the zeros and ones.
        mask : array-like of shape (n_features,) or None, default=None
            True where a feature is missing.
        image_shape : tuple of int or None, default=None
            Height and width of images; by default that of the model, and without it atoms are curves.
        max_atoms : int, default=8
            Columns for atoms at most.
        max_classes : int, default=12
            Rows at most.
        ax : matplotlib Axes or None, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        EvidenceDisplay
            The display.
        """
        model = unwrap(estimator)
        explanation = model.explain(preprocess(estimator, to_one_row(x)), mask)
        evidence, used = explanation.evidence[0], explanation.codes.indices
        is_predicted = evidence > 0 if model.is_multilabel_ else np.arange(len(evidence)) == evidence.argmax()
        return cls(
            model.coef_[:, used].astype(np.float64) * explanation.codes.data,
            model.intercept_,
            evidence,
            model.classes_,
            is_predicted,
            true_label=true_label,
            atoms=model.components_[used] * np.sign(explanation.codes.data)[:, None],
            atom_numbers=used,
            image_shape=resolve_image_shape(image_shape, model, model.components_.shape[1]),
            max_atoms=max_atoms,
            max_classes=max_classes,
        ).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> EvidenceDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        EvidenceDisplay
            The display itself.
        """
        self.shown_classes_ = self._choose_classes()
        shown_atoms, columns = self._choose_columns()
        names = [to_label(self.classes[position]) for position in self.shown_classes_]
        left = max(measure_text(name, LABEL_SIZE) for name in names) + _BAR + 0.12
        top = 0.3 + (_PICTURE + 0.08 if self.atoms is not None else 0.0)
        width = left + (len(columns) + 2) * _WIDTH + _GAP + _MARK
        height = top + len(names) * _HEIGHT
        self._shrinkage = find_shrinkage(ax, width, height)
        ax = open_axes(ax, width + 0.1, height + 0.4)
        self._draw_heads(ax, shown_atoms, list(columns), left, top)
        self._draw_numbers(ax, np.column_stack(list(columns.values())), left, top)
        for row, (position, name) in enumerate(zip(self.shown_classes_, names, strict=True)):
            self._draw_class(ax, position, name, Box(left, top + row * _HEIGHT, width - left - _MARK, _HEIGHT))
        n_classes = len(self.classes)
        which = "" if len(names) == n_classes else f" ({len(names)} of {n_classes} classes)"
        ax.set_title(f"What the atoms of a sample say for each class{which}", fontsize=TITLE_SIZE)
        frame_canvas(ax, width, height)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _choose_classes(self) -> Any:
        """Return the classes of largest evidence and the true ones, in the order of the classes."""
        rank = np.argsort(np.argsort(-self.evidence, kind="stable"))
        return np.flatnonzero((rank < self.max_classes) | self._is_true)

    def _choose_columns(self) -> tuple[Any, dict[str, Floats]]:
        """Return the atoms that have a column, those that say most first, and all columns that sum to the score."""
        order = np.argsort(-np.abs(self.contributions).max(axis=0), kind="stable")
        n_kept = len(order) if len(order) <= self.max_atoms else self.max_atoms - 1
        shown, others = order[:n_kept], order[n_kept:]
        columns: dict[str, Floats] = {f"atom {self.atom_numbers[atom]}": self.contributions[:, atom] for atom in shown}
        if len(others):
            columns[f"{len(others)} others"] = self.contributions[:, others].sum(axis=1)
        return shown, columns | {"intercept": self.intercept}

    def _draw_heads(self, ax: Axes, shown_atoms: Any, titles: list[str], left: float, top: float) -> None:
        """Draw the atoms, and what each column is."""
        heads = [*titles, "= score", "evidence"]
        for number, title in enumerate(heads):
            x = left + (number + 0.5) * _WIDTH + (_GAP if number >= len(titles) else 0)
            self._write(ax, x, top - 0.05, title, va="bottom")
        if self.atoms is None or not len(shown_atoms):
            return
        scale = Scale.around_zero(self.atoms, 1.0)
        for number, atom in enumerate(shown_atoms):
            box = Box(left + number * _WIDTH + 0.04, 0.0, _WIDTH - 0.08, _PICTURE).fit(height_ratio(self.image_shape))
            draw_picture(ax, self.atoms[atom], self.image_shape, box, scale)

    def _draw_numbers(self, ax: Axes, table: Floats, left: float, top: float) -> None:
        """Draw the coloured table of contributions."""
        shown = table[self.shown_classes_]
        largest = float(np.abs(table).max()) or 1.0
        n_rows, n_columns = shown.shape
        extent = (left, left + n_columns * _WIDTH, top + n_rows * _HEIGHT, top)
        cells = ax.imshow(shown, extent=extent, cmap="PuOr_r", vmin=-largest, vmax=largest, aspect="auto")
        inks = choose_ink(cells.to_rgba(shown))
        for (row, column), value in np.ndenumerate(shown):
            x, y = left + (column + 0.5) * _WIDTH, top + (row + 0.5) * _HEIGHT
            self._write(ax, x, y, format_number(value, largest), color=inks[row, column])

    def _draw_class(self, ax: Axes, position: int, name: str, box: Box) -> None:
        """Draw the name of a class, its sums, and whether it is the predicted or the true one."""
        is_predicted, right, middle = self.is_predicted[position], box.left + box.width, box.top + box.height / 2
        weight = "bold" if is_predicted else "normal"
        bar = [box.left - _BAR - 0.04, box.left - 0.04]
        ax.fill_between(bar, box.top + 0.02, box.top + box.height - 0.02, color=get_class_color(position), lw=0)
        self._write(ax, bar[0] - 0.06, middle, name, LABEL_SIZE, weight=weight, ha="right")
        for values, offset in ((self.scores, 1.5), (self.evidence, 0.5)):
            text = format_number(values[position], float(np.abs(values).max()))
            self._write(ax, right - offset * _WIDTH, middle, text, weight=weight)
        marks = [word for word, holds in (("predicted", is_predicted), ("true", self._is_true[position])) if holds]
        self._write(ax, right + 0.06, middle, "\n".join(marks), SMALL_SIZE, linespacing=0.95, ha="left")
        if is_predicted:
            outline(ax, box, "black", 1.6)

    def _write(self, ax: Axes, x: float, y: float, text: str, size: float = TICK_SIZE, **style: Any) -> None:
        ax.text(x, y, text, fontsize=self._shrinkage * size, **{"ha": "center", "va": "center"} | style)
