"""The atoms of a dictionary, grouped by class, as images or curves."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...estimators.ksvd import KSVD
from ..colors import get_class_color
from .base import Axes, Display, find_model, preprocess, resolve_image_shape, show_atoms
from .drawing import GREY, SMALL_SIZE, TICK_SIZE, Box, Floats, Scale, height_ratio, measure_axes, measure_text, to_label

Positions = NDArray[np.intp]

_SIZE = (10.0, 7.2)  # largest size of a new figure, in inches, as are the others
_MOST_IMAGES, _MOST_CURVES = 400, 100
_LARGEST_CELL = 1.1
_BAR, _GAP = 0.09, 0.12  # width of the color bar of a class, and the space between groups
_PADDING = 0.08  # empty fraction of a cell
_MANY_GROUPS = 15  # from here on, names are small
_NO_CLASS = -1


class DictionaryDisplay(Display):
    """The atoms of a dictionary as images or curves, grouped by the class that each atom supports.

    The sign of an atom is arbitrary, since its coefficients can change sign too.  :meth:`from_estimator` flips atoms
    such that their mean coefficient is positive, and groups them by the class whose score they raise most: for atom k
    with mean coefficient m, the class j of largest ``m * coef_[j, k]``.  Within a class, the atoms that raise the
    score most come first.  All atoms share one gray scale, with zero in the middle.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        The atoms.
    atom_class : array-like of shape (n_components,) or None, default=None
        Position of each atom's class in `classes`, -1 for an unused atom; by default there are no groups.
    weight : array-like of shape (n_components,) or None, default=None
        Atoms of larger weight come first; by default the order is that of the dictionary.
    classes : array-like of shape (n_classes,) or None, default=None
        The names of the classes; required with `atom_class`.
    image_shape : tuple of int or None, default=None
        ``(height, width)`` or ``(height, width, 3)`` of images; by default atoms are drawn as curves.
    max_atoms : int or None, default=None
        Largest number of atoms to draw, the first of every group; by default 400 images or 100 curves.

    Attributes
    ----------
    groups_ : list of (int, ndarray)
        The class of each group (-1 for none) and its atoms in the order in which they are drawn.
    ax_, figure_ : matplotlib Axes and Figure
        Where the display was drawn.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ddlearn import DDLClassifier, DictionaryDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DDLClassifier(n_components=50, max_iter=2, random_state=0).fit(X, y)
    >>> display = DictionaryDisplay.from_estimator(model, image_shape=(8, 8))
    >>> sum(len(atoms) for _, atoms in display.groups_)
    50
    """

    def __init__(
        self,
        components: ArrayLike,
        *,
        atom_class: ArrayLike | None = None,
        weight: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        image_shape: ArrayLike | None = None,
        max_atoms: int | None = None,
    ):
        self.components = np.atleast_2d(np.asarray(components))
        if not self.components.size:
            raise ValueError(f"components has shape {np.shape(components)}: pass at least one atom, one row per atom.")
        n_atoms = len(self.components)
        self.atom_class = np.full(n_atoms, _NO_CLASS) if atom_class is None else np.asarray(atom_class, dtype=np.intp)
        self.weight = -np.arange(n_atoms, dtype=np.float64) if weight is None else np.asarray(weight)
        self.classes = None if classes is None else np.asarray(classes)
        self.image_shape = resolve_image_shape(image_shape, self.components.shape[1])
        self.max_atoms = max_atoms
        for name, array in (("atom_class", self.atom_class), ("weight", self.weight)):
            if array.shape != (n_atoms,):
                raise ValueError(f"{name} has shape {array.shape}, but there are {n_atoms} atoms.")
        n_classes = 0 if self.classes is None else len(self.classes)
        if self.atom_class.max() >= n_classes:
            raise ValueError(f"atom_class contains {self.atom_class.max()}, but classes has {n_classes} names.")
        if max_atoms is not None and max_atoms < 1:
            raise ValueError(f"max_atoms must be at least 1, got {max_atoms}.")

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: ArrayLike | None = None,
        *,
        image_shape: ArrayLike | None = None,
        max_atoms: int | None = None,
        ax: Axes | None = None,
    ) -> DictionaryDisplay:
        """Draw the dictionary of a fitted model.

        Parameters
        ----------
        estimator : DDLClassifier, KSVD or Pipeline
            The fitted model, or a pipeline that ends with it.  The atoms of KSVD, which has no classes, are one group.
        X : array-like of shape (n_samples, n_features) or None, default=None
            Samples whose codes determine the use of atoms.  By default the training codes ``codes_``; without them, as
            for KSVD, atoms are neither flipped nor sorted by use, and those of a classifier are grouped by ``coef_``.
        image_shape : tuple of int or None, default=None
            Shape of images; by default that of the model, or curves if it has none.
        max_atoms : int or None, default=None
            As for the class.
        ax : matplotlib Axes or None, default=None
            Axes to draw on; by default those of a new figure.
        """
        model = find_model(estimator, KSVD)
        n_atoms, n_features = len(model.components_), model.n_features_in_
        codes = getattr(model, "codes_", None)
        if X is not None:
            codes = model._encode(preprocess(estimator, X)).to_csr(n_atoms)
        signs, atom_class, weight = _describe_atoms(codes, getattr(model, "coef_", None), n_atoms)
        return cls(
            show_atoms(model) * signs[:, None],
            atom_class=atom_class,
            weight=weight,
            classes=getattr(model, "classes_", None),
            image_shape=resolve_image_shape(image_shape, n_features, model),
            max_atoms=max_atoms,
        ).plot(ax=ax)

    def _draw(self, ax: Axes | None) -> None:
        self.groups_ = self._choose_atoms()
        labels = {} if self.classes is None else dict(enumerate(map(to_label, self.classes))) | {_NO_CLASS: "not used"}
        names = [labels.get(position, "") for position, _ in self.groups_]
        font_size = SMALL_SIZE if len(names) >= _MANY_GROUPS else TICK_SIZE
        label_width = max(measure_text(name, font_size) for name in names) + _BAR + 0.08 if any(names) else 0.0
        sizes = [len(atoms) for _, atoms in self.groups_]
        room = _SIZE if ax is None else measure_axes(ax)
        boxes, width, height = _lay_out(sizes, height_ratio(self.image_shape), label_width, *room)
        ax = self._open_axes(ax, width, height, margins=(0.1, 0.4))
        scale = Scale.around_zero(self.components)
        for (position, atoms), name, places in zip(self.groups_, names, boxes, strict=True):
            for atom, box in zip(atoms, places, strict=True):
                box.draw(ax, self.components[atom], self.image_shape, scale)
            if name:
                left, top, bottom = places[0].left, places[0].top, places[-1].top + places[-1].height
                color = GREY if position == _NO_CLASS else get_class_color(position)
                ax.fill_between([left - _BAR - 0.03, left - 0.03], top, bottom, color=color, lw=0)
                self._write(left - _BAR - 0.08, (top + bottom) / 2, name, font_size, ha="right")
        n_shown, n_atoms = sum(sizes), len(self.components)
        count = f"{n_atoms}" if n_shown == n_atoms else f"{n_shown} of {n_atoms}"
        self._frame_canvas(f"Dictionary: {count} atoms", width, height)

    def _choose_atoms(self) -> list[tuple[int, Positions]]:
        """Return the groups in the order of the classes, with at most `max_atoms` atoms, the first of every group."""
        order = np.lexsort((-self.weight, self.atom_class % np.iinfo(np.intp).max))  # -1 becomes the last
        positions, starts = np.unique(self.atom_class[order], return_index=True)
        rank = np.arange(len(order)) - starts[np.searchsorted(positions, self.atom_class[order])]
        limit = self.max_atoms or (_MOST_CURVES if self.image_shape is None else _MOST_IMAGES)
        kept = order[np.sort(np.argsort(rank, kind="stable")[:limit])]
        classes = list(dict.fromkeys(self.atom_class[kept].tolist()))
        return [(position, kept[self.atom_class[kept] == position]) for position in classes]


def _describe_atoms(codes: Any, coef: Floats | None, n_atoms: int) -> tuple[Floats, Positions, Floats | None]:
    """Return the sign of each atom, its class, and the weight to sort it by."""
    signs, no_class = np.ones(n_atoms), np.full(n_atoms, _NO_CLASS)
    if codes is None:
        return (signs, no_class, None) if coef is None else (signs, coef.argmax(axis=0), coef.max(axis=0))
    mean = np.asarray(codes.mean(axis=0), dtype=np.float64).ravel()
    signs = np.where(mean < 0, -1.0, 1.0)
    use = np.asarray(abs(codes).mean(axis=0), dtype=np.float64).ravel()
    if coef is None:
        return signs, no_class, use
    evidence = mean * coef
    return signs, np.where(use > 0, evidence.argmax(axis=0), _NO_CLASS), evidence.max(axis=0)


def _lay_out(
    sizes: list[int], ratio: float, label_width: float, width: float, height: float
) -> tuple[list[list[Box]], float, float]:
    """Return the boxes of each group, in up to four stacks with the largest possible cells, and the drawing's size."""
    best: tuple[float, int, list[list[int]]] = (0.0, 0, [])
    for n_columns in range(1, max(sizes) + 1):
        rows = [-(-size // n_columns) for size in sizes]
        for n_stacks in range(1, min(4, len(sizes)) + 1):
            stacks = _split(rows, -(-sum(rows) // n_stacks))
            across = (width / len(stacks) - label_width - _GAP) / n_columns
            most_rows = max(sum(rows[group] for group in stack) for stack in stacks)
            most_gaps = max(len(stack) for stack in stacks) - 1
            down = (height - most_gaps * _GAP) / (most_rows * ratio)
            best = max(best, (min(across, down, _LARGEST_CELL), n_columns, stacks))
    cell, n_columns, stacks = best
    if not stacks:
        raise ValueError(f"ax is {width:.1f} x {height:.1f} inches, too small for this dictionary: pass larger axes.")
    boxes, bottom = [], 0.0
    stack_width = label_width + n_columns * cell + _GAP
    side = cell - _PADDING * min(cell, cell * ratio), cell * ratio - _PADDING * min(cell, cell * ratio)
    for number, stack in enumerate(stacks):
        left, top = number * stack_width + label_width, 0.0
        for group in stack:
            cells = (divmod(rank, n_columns) for rank in range(sizes[group]))
            boxes.append([Box(left + column * cell, top + row * cell * ratio, *side) for row, column in cells])
            top += -(-sizes[group] // n_columns) * cell * ratio + _GAP
        bottom = max(bottom, top - _GAP)
    return boxes, len(stacks) * stack_width - _GAP, bottom


def _split(rows: list[int], target: int) -> list[list[int]]:
    """Return the groups in stacks of about `target` rows."""
    stacks: list[list[int]] = [[]]
    filled = 0
    for group, n_rows in enumerate(rows):
        if stacks[-1] and filled + n_rows / 2 > target:
            stacks.append([])
            filled = 0
        stacks[-1].append(group)
        filled += n_rows
    return stacks
