"""One sample decomposed: atoms times coefficients, their sum, and the residual."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...estimators.ksvd import KSVD
from .base import Axes, Display, find_model, preprocess_one, resolve_image_shape, show_atoms
from .drawing import LABEL_SIZE, Box, Floats, Scale, height_ratio

_IMAGE_WIDTH, _CURVE_WIDTH = 1.5, 2.3  # in inches, as are the others
_GAP, _CAPTION = 0.35, 0.3  # room for a sign between pictures, and for the caption below them
_BETWEEN = 0.15  # space between the sample and the atoms
_MOST_COLUMNS = 6


class CodeDisplay(Display):
    """A sample as the sum of its atoms times their coefficients, gross errors if there are any, and a residual.

    The sign of an atom is arbitrary: atoms are drawn such that their coefficients are positive.  The sample and its
    parts share one gray scale; the atoms share another.

    Parameters
    ----------
    sample : array-like of shape (n_features,)
        The sample, with NaN where features are missing.
    atoms : array-like of shape (n_used, n_features)
        The atoms that its code uses.
    coefficients : array-like of shape (n_used,)
        Their coefficients.
    error : array-like of shape (n_features,) or None, default=None
        The gross errors found in the sample, if any.
    atom_numbers : array-like of shape (n_used,) or None, default=None
        The rows of the atoms in the dictionary; by default counted from 0.
    image_shape : tuple of int or None, default=None
        ``(height, width)`` or ``(height, width, 3)`` of images; by default everything is drawn as curves.
    origin : array-like of shape (n_features,) or None, default=None
        What the atoms are added to, such as the mean of the training samples if these were standardised; by default
        there is none.

    Attributes
    ----------
    reconstruction : ndarray of shape (n_features,)
        The origin plus the sum of atoms times coefficients.
    rest : ndarray of shape (n_features,)
        The sample minus reconstruction and gross errors.
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn.

    See Also
    --------
    EvidenceDisplay : What the atoms of a sample contribute to the score of each class.

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
        origin: ArrayLike | None = None,
    ):
        self.sample = np.asarray(sample)
        self.atoms = np.asarray(atoms).reshape(-1, len(self.sample))
        self.coefficients = np.asarray(coefficients)
        self.error = None if error is None else np.asarray(error)
        self.atom_numbers = np.arange(len(self.atoms)) if atom_numbers is None else np.asarray(atom_numbers)
        self.image_shape = resolve_image_shape(image_shape, len(self.sample))
        self.origin = None if origin is None else np.asarray(origin)
        self.reconstruction = self.coefficients @ self.atoms + (0 if self.origin is None else self.origin)
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
        """Code one sample with a fitted model, without labels, and draw its parts.

        Parameters
        ----------
        estimator : DDLClassifier, KSVD or Pipeline
            The fitted model, or a pipeline that ends with it.
        x : array-like of shape (n_features,) or (1, n_features)
            The sample.
        mask : array-like of shape (n_features,) or None, default=None
            True where a feature is missing; only for a DDLClassifier.
        image_shape : tuple of int or None, default=None
            Shape of images; by default that of the model, or curves if it has none.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; by default those of a new figure.
        """
        model, x = find_model(estimator, KSVD), preprocess_one(estimator, x)
        if isinstance(model, KSVD):
            if mask is not None:
                raise ValueError("mask needs a DDLClassifier: KSVD codes complete samples only.")
            sample, code, error = np.asarray(x)[0], model._encode(x).to_csr(len(model.components_)), None
            size, origin = 1.0, None
        else:
            explanation = model.explain(x, mask)
            sample = np.where(explanation.is_missing[0], np.nan, explanation.samples[0])
            code, error = explanation.codes, explanation.error[0] if explanation.error[0].any() else None
            size, origin = explanation.norms[0], model.inverse_transform(0 * code)[0]
        order = np.argsort(-np.abs(code.data), kind="stable")
        return cls(
            sample,
            show_atoms(model)[code.indices[order]],
            size * code.data[order],
            error=error,
            atom_numbers=code.indices[order],
            image_shape=resolve_image_shape(image_shape, len(sample), model),
            origin=None if origin is None or not origin.any() else origin,
        ).plot(ax=ax)

    def _draw(self, ax: Axes | None) -> None:
        parts = {"sample": self.sample, "reconstruction": self.reconstruction}
        if self.error is not None:
            parts["gross error"] = self.error
        parts["residual"] = self.rest
        first = int(self.origin is not None)  # of the atoms, among the terms of the reconstruction
        n_terms = first + len(self.atoms)
        n_columns = max(len(parts), min(n_terms, _MOST_COLUMNS))
        n_rows = 1 + -(-n_terms // n_columns)
        cell = _CURVE_WIDTH if self.image_shape is None else _IMAGE_WIDTH
        row_height = cell * height_ratio(self.image_shape) + _CAPTION
        width, height = n_columns * (cell + _GAP) + 0.05, n_rows * row_height + _BETWEEN
        self._open_axes(ax, width, height, margins=(0.1, 0.35))

        def place(row: int, column: int) -> Box:
            top = row * row_height + (_BETWEEN if row else 0)
            return Box(column * (cell + _GAP) + _GAP, top, cell, row_height - _CAPTION)

        self._draw_parts(parts, [place(0, column) for column in range(len(parts))])
        boxes = [place(1 + rank // n_columns, rank % n_columns) for rank in range(n_terms)]
        if self.origin is not None:
            self._draw_term(boxes[0], self.origin, Scale.across(self.sample, self.reconstruction), "origin", "=")
        atom_scale = Scale.around_zero(self.atoms, 1.0) if len(self.atoms) else Scale(-1, 1)
        for rank, (number, coefficient) in enumerate(zip(self.atom_numbers, self.coefficients, strict=True)):
            caption, sign = rf"{abs(coefficient):.3g} $\times$ atom {number}", "+" if rank + first else "="
            self._draw_term(boxes[rank + first], np.sign(coefficient) * self.atoms[rank], atom_scale, caption, sign)
        self._frame_canvas(f"A sample and its {len(self.atoms)} atoms", width, height)

    def _draw_parts(self, parts: dict[str, Floats], boxes: list[Box]) -> None:
        scale = Scale.across(self.sample, self.reconstruction)
        half = (scale.high - scale.low) / 2
        around_zero = Scale(-half, half)  # differences get the same contrast
        if self.image_shape is None:  # curves have room for all parts
            scale = around_zero = Scale.across(*parts.values(), np.zeros(1))
        scales, signs = (scale, scale, around_zero, around_zero), ("", "=", "+", "+")
        for title, box, scale, sign in zip(parts, boxes, scales, signs, strict=False):
            self._draw_term(box, parts[title], scale, title, sign)

    def _draw_term(self, box: Box, values: Floats, scale: Scale, caption: str, sign: str) -> None:
        """Draw a picture with its caption below, and the sign of the sum to its left."""
        box.draw(self.ax_, values, self.image_shape, scale)
        self._write(box.left + box.width / 2, box.top + box.height + 0.05, caption, va="top")
        self._write(box.left - _GAP / 2, box.top + box.height / 2, sign, 1.5 * LABEL_SIZE)
