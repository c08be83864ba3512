"""One sample taken apart: atoms times coefficients, their sum, and what that leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ...estimators.baseline import KSVD
from ...estimators.classifier import DDLClassifier
from .figures import (
    LABEL_SIZE,
    TICK_SIZE,
    TITLE_SIZE,
    find_shrinkage,
    open_axes,
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
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_CELL = {True: 1.5, False: 2.3}  # width in inches, by whether it holds an image
_GAP, _CAPTION = 0.35, 0.3  # space for a sign between pictures, and for the words below them
_BETWEEN = 0.15  # space between the sample and the atoms
_MOST_COLUMNS = 6


class CodeDisplay:
    """A sample as the sum of its atoms times their coefficients, of gross errors if there are any, and of the rest.

    An atom's sign is arbitrary: atoms are drawn such that their coefficients are positive.  The sample and its parts
    have one scale, the atoms, which have unit norm, another.

    Parameters
    ----------
    sample : array-like of shape (n_features,)
        The sample, with NaN where features are missing.
    atoms : array-like of shape (n_used, n_features)
        The atoms that its code uses.
    coefficients : array-like of shape (n_used,)
        Their coefficients.
    error : array-like of shape (n_features,) or None, default=None
        The gross errors found in the sample; by default none were looked for.
    atom_numbers : array-like of shape (n_used,) or None, default=None
        The rows of the atoms in the dictionary; by default counted from 0.
    image_shape : tuple of int or None, default=None
        Height and width of images, with a third number 3 for colours.  By default all is drawn as curves.

    Attributes
    ----------
    reconstruction : ndarray of shape (n_features,)
        The sum of atoms times coefficients.
    rest : ndarray of shape (n_features,)
        The sample less reconstruction and gross errors.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        Their figure.

    See Also
    --------
    EvidenceDisplay : What the atoms of a sample say for each class.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_digits
    >>> from ddlearn import CodeDisplay, DDLClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DDLClassifier(n_components=50, max_iter=2, random_state=0).fit(X, y)
    >>> display = CodeDisplay.from_estimator(model, X[0], image_shape=(8, 8))
    >>> bool(np.allclose(display.reconstruction + display.rest, X[0]))
    True
    """

    def __init__(
        self,
        sample: ArrayLike,
        atoms: ArrayLike,
        coefficients: ArrayLike,
        *,
        error: ArrayLike | None = None,
        atom_numbers: ArrayLike | None = None,
        image_shape: ArrayLike | None = None,
    ):
        self.sample = np.asarray(sample)
        self.atoms = np.asarray(atoms).reshape(-1, len(self.sample))
        self.coefficients = np.asarray(coefficients)
        self.error = None if error is None else np.asarray(error)
        self.atom_numbers = np.arange(len(self.atoms)) if atom_numbers is None else np.asarray(atom_numbers)
        self.image_shape = resolve_image_shape(image_shape, None, len(self.sample))
        self.reconstruction = self.coefficients @ self.atoms
        self.rest = self.sample - self.reconstruction - (0 if self.error is None else self.error)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        x: ArrayLike,
        *,
        mask: ArrayLike | None = None,
        image_shape: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> CodeDisplay:
        """Code one sample as a fitted model does, without labels, and draw its parts.

        Parameters
        ----------
        estimator : DDLClassifier, KSVD or Pipeline
            The model, or a pipeline that ends with it.
        x : array-like of shape (n_features,) or (1, n_features)
            The sample.
        mask : array-like of shape (n_features,) or None, default=None
            True where a feature is missing; only a DDLClassifier knows what to do then.
        image_shape : tuple of int or None, default=None
            Height and width of images; by default that of the model, and without it all is drawn as curves.
        ax : matplotlib Axes or None, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        CodeDisplay
            The display.
        """
        model = unwrap(estimator, DDLClassifier, KSVD)
        sample, code, error = _take_apart(model, preprocess(estimator, to_one_row(x)), mask)
        order = np.argsort(-np.abs(code.data), kind="stable")
        return cls(
            sample,
            model.components_[code.indices[order]],
            code.data[order],
            error=error if error.any() else None,
            atom_numbers=code.indices[order],
            image_shape=resolve_image_shape(image_shape, model, model.components_.shape[1]),
        ).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> CodeDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        CodeDisplay
            The display itself.
        """
        parts = {"sample": self.sample, "reconstruction": self.reconstruction}
        if self.error is not None:
            parts["gross error"] = self.error
        parts["what is left"] = self.rest
        n_columns = max(len(parts), min(len(self.atoms), _MOST_COLUMNS))
        n_rows = 1 + -(-len(self.atoms) // n_columns)
        cell = _CELL[self.image_shape is not None]
        row_height = cell * height_ratio(self.image_shape) + _CAPTION
        width, height = n_columns * (cell + _GAP) + 0.05, n_rows * row_height + _BETWEEN
        shrinkage = find_shrinkage(ax, width, height)
        ax = open_axes(ax, width + 0.1, height + 0.35)

        def place(row: int, column: int) -> Box:
            top = row * row_height + (_BETWEEN if row else 0)
            return Box(column * (cell + _GAP) + _GAP, top, cell, row_height - _CAPTION)

        self._draw_parts(ax, parts, [place(0, column) for column in range(len(parts))], shrinkage)
        boxes = [place(1 + rank // n_columns, rank % n_columns) for rank in range(len(self.atoms))]
        self._draw_atoms(ax, boxes, shrinkage)
        ax.set_title(f"A sample and its {len(self.atoms)} atoms", fontsize=TITLE_SIZE)
        frame_canvas(ax, width, height)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_parts(self, ax: Axes, parts: dict[str, Floats], boxes: list[Box], shrinkage: float) -> None:
        scale = Scale.across(self.sample, self.reconstruction)
        around_zero = Scale(-scale.span / 2, scale.span / 2)  # what is a difference has as many shades for a unit
        if self.image_shape is None:  # curves have room for all
            scale = around_zero = Scale.across(*parts.values(), np.zeros(1))
        for number, ((title, values), box) in enumerate(zip(parts.items(), boxes, strict=True)):
            draw_picture(ax, values, self.image_shape, box, scale if number < 2 else around_zero)
            _annotate(ax, box, title, ("", "=", "+", "+")[number], shrinkage)

    def _draw_atoms(self, ax: Axes, boxes: list[Box], shrinkage: float) -> None:
        scale = Scale.around_zero(self.atoms, 1.0) if len(self.atoms) else Scale(-1, 1)
        for rank, (number, coefficient, box) in enumerate(
            zip(self.atom_numbers, self.coefficients, boxes, strict=True)
        ):
            draw_picture(ax, np.sign(coefficient) * self.atoms[rank], self.image_shape, box, scale)
            _annotate(ax, box, rf"{abs(coefficient):.3g} $\times$ atom {number}", "+" if rank else "=", shrinkage)


def _take_apart(model: Any, x: Any, mask: ArrayLike | None) -> tuple[Floats, Any, Floats]:
    """Return the sample as it was coded, its code, and the gross errors."""
    if isinstance(model, KSVD):
        if mask is not None:
            raise ValueError("mask is for a DDLClassifier: KSVD codes complete samples only.")
        sample = np.asarray(x)[0]
        return sample, model._encode(x).to_csr(len(model.components_)), np.zeros(len(sample))
    explanation = model.explain(x, mask)
    sample = np.where(explanation.is_missing[0], np.nan, explanation.samples[0])
    return sample, explanation.codes, explanation.error[0]


def _annotate(ax: Axes, box: Box, caption: str, sign: str, shrinkage: float) -> None:
    """Write below a picture what it is, and before it what is done with it."""
    middle, bottom = box.left + box.width / 2, box.top + box.height
    ax.text(middle, bottom + 0.05, caption, fontsize=shrinkage * TICK_SIZE, ha="center", va="top")
    sign_size = shrinkage * 1.5 * LABEL_SIZE
    ax.text(box.left - _GAP / 2, box.top + box.height / 2, sign, fontsize=sign_size, ha="center", va="center")
