"""The atoms of a dictionary, class by class, as images or curves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...estimators.baseline import KSVD
from ...estimators.classifier import DDLClassifier
from ..colors import get_class_color
from .figures import (
    GREY,
    SMALL_SIZE,
    TICK_SIZE,
    TITLE_SIZE,
    measure_axes,
    measure_text,
    open_axes,
    to_label,
)
from .models import preprocess, resolve_image_shape, unwrap
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

Positions = NDArray[np.intp]

_SIZE = (10.0, 7.2)  # of a new figure, in inches, at most
_MOST_IMAGES, _MOST_CURVES = 400, 100
_LARGEST_CELL = 1.1
_BAR, _GAP = 0.09, 0.12  # the bar of a class, and the space between groups, in inches
_PADDING = 0.08  # share of a cell that stays empty
_MANY_GROUPS = 15  # from here on names are small
_NO_CLASS = -1


class DictionaryDisplay:
    """The atoms of a dictionary as images or curves, in groups: each atom with the class that it speaks for.

    An atom's sign is arbitrary, since its coefficients can turn too.  :meth:`from_estimator` turns each atom so that
    its coefficients are positive on average, and groups atoms by the class that gains most when they are used:
    with the mean coefficient m of atom k, the one of largest ``m * coef_[j, k]``.  Within a class the atoms that say
    most come first.  All atoms have the same scale, with zero in the middle.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        The atoms.
    atom_class : array-like of shape (n_components,) or None, default=None
        Position of each atom's class in `classes`; -1 for an atom that is not used.  By default there are no groups.
    weight : array-like of shape (n_components,) or None, default=None
        Atoms of larger weight come first; by default the order is that of the dictionary.
    classes : array-like of shape (n_classes,) or None, default=None
        The names of the classes; needed with `atom_class`.
    image_shape : tuple of int or None, default=None
        Height and width of images, with a third number 3 for colours.  By default atoms are curves.
    max_atoms : int or None, default=None
        How many atoms to draw, the first ones of every group; by default 400 images or 100 curves.

    Attributes
    ----------
    groups_ : list of (int, ndarray)
        The class of each group (-1 for none) and its atoms in the order in which they are drawn.
    ax_ : matplotlib Axes
        The axes.
    figure_ : matplotlib Figure
        Their figure.

    See Also
    --------
    CodeDisplay : The atoms that one sample uses.

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
            raise ValueError(f"components has shape {np.shape(components)}: give one atom at least, a row each.")
        n_atoms = len(self.components)
        self.atom_class = np.full(n_atoms, _NO_CLASS) if atom_class is None else np.asarray(atom_class, dtype=np.intp)
        self.weight = -np.arange(n_atoms, dtype=np.float64) if weight is None else np.asarray(weight)
        self.classes = None if classes is None else np.asarray(classes)
        self.image_shape = resolve_image_shape(image_shape, None, self.components.shape[1])
        self.max_atoms = max_atoms
        self._check(n_atoms)

    def _check(self, n_atoms: int) -> None:
        for name, array in (("atom_class", self.atom_class), ("weight", self.weight)):
            if array.shape != (n_atoms,):
                raise ValueError(f"{name} has shape {array.shape}, but there are {n_atoms} atoms.")
        n_classes = 0 if self.classes is None else len(self.classes)
        if self.atom_class.max() >= n_classes:
            raise ValueError(f"atom_class holds {self.atom_class.max()}, but classes has {n_classes} names.")
        if self.max_atoms is not None and self.max_atoms < 1:
            raise ValueError(f"max_atoms must be at least 1, got {self.max_atoms}.")

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
            The model, or a pipeline that ends with it.  KSVD knows no classes: its atoms are one group.
        X : array-like of shape (n_samples, n_features) or None, default=None
            Samples whose codes say how atoms are used.  By default the training codes ``codes_``; without them, as for
            KSVD, atoms are neither turned nor sorted by use, and a classifier's are grouped by ``coef_`` alone.
        image_shape : tuple of int or None, default=None
            Height and width of images; by default that of the model, and without it atoms are curves.
        max_atoms : int or None, default=None
            How many atoms to draw at most.
        ax : matplotlib Axes or None, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        DictionaryDisplay
            The display.
        """
        model = unwrap(estimator, DDLClassifier, KSVD)
        n_atoms = len(model.components_)
        codes = getattr(model, "codes_", None)
        if X is not None:
            codes = model._encode(preprocess(estimator, X)).to_csr(n_atoms)
        signs, atom_class, weight = _describe_atoms(codes, getattr(model, "coef_", None), n_atoms)
        return cls(
            model.components_ * signs[:, None],
            atom_class=atom_class,
            weight=weight,
            classes=getattr(model, "classes_", None),
            image_shape=resolve_image_shape(image_shape, model, model.components_.shape[1]),
            max_atoms=max_atoms,
        ).plot(ax=ax)

    @classmethod
    def from_dictionary(
        cls,
        dictionary: ArrayLike,
        *,
        image_shape: ArrayLike | None = None,
        max_atoms: int | None = None,
        ax: Axes | None = None,
    ) -> DictionaryDisplay:
        """Draw atoms as they are, without groups.

        Parameters
        ----------
        dictionary : array-like of shape (n_components, n_features)
            One atom a row.
        image_shape : tuple of int or None, default=None
            Height and width of images; by default atoms are curves.
        max_atoms : int or None, default=None
            How many atoms to draw at most.
        ax : matplotlib Axes or None, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        DictionaryDisplay
            The display.
        """
        return cls(dictionary, image_shape=image_shape, max_atoms=max_atoms).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> DictionaryDisplay:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Where to draw; by default in a new figure.

        Returns
        -------
        DictionaryDisplay
            The display itself.
        """
        self.groups_ = self._choose_atoms()
        names = [self._name(position) for position, _ in self.groups_]
        letters = SMALL_SIZE if len(names) >= _MANY_GROUPS else TICK_SIZE
        label_width = max(measure_text(name, letters) for name in names) + _BAR + 0.08 if any(names) else 0.0
        sizes = [len(atoms) for _, atoms in self.groups_]
        layout = _lay_out(
            sizes, height_ratio(self.image_shape), label_width, *(_SIZE if ax is None else measure_axes(ax))
        )
        ax = open_axes(ax, layout.width + 0.1, layout.height + 0.4)
        scale = Scale.around_zero(self.components)
        for (position, atoms), name, (left, top) in zip(self.groups_, names, layout.corners, strict=True):
            boxes = [layout.place(left, top, rank) for rank in range(len(atoms))]
            for atom, box in zip(atoms, boxes, strict=True):
                draw_picture(ax, self.components[atom], self.image_shape, box, scale)
            if name:
                bottom = boxes[-1].top + boxes[-1].height
                color = GREY if position == _NO_CLASS else get_class_color(position)
                ax.fill_between([left - _BAR - 0.03, left - 0.03], top, bottom, color=color, lw=0)
                ax.text(left - _BAR - 0.08, (top + bottom) / 2, name, fontsize=letters, ha="right", va="center")
        ax.set_title(self._title(), fontsize=TITLE_SIZE)
        frame_canvas(ax, layout.width, layout.height)
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _choose_atoms(self) -> list[tuple[int, Positions]]:
        """Return the groups in the order of the classes, cut down to the first atoms of each if there are too many."""
        order = np.lexsort((-self.weight, self.atom_class % np.iinfo(np.intp).max))  # -1 becomes the last
        positions, starts = np.unique(self.atom_class[order], return_index=True)
        rank = np.arange(len(order)) - starts[np.searchsorted(positions, self.atom_class[order])]
        limit = self.max_atoms or (_MOST_CURVES if self.image_shape is None else _MOST_IMAGES)
        kept = order[np.sort(np.argsort(rank, kind="stable")[:limit])]
        classes = list(dict.fromkeys(self.atom_class[kept].tolist()))
        return [(position, kept[self.atom_class[kept] == position]) for position in classes]

    def _name(self, position: int) -> str:
        if self.classes is None:
            return ""
        return "not used" if position == _NO_CLASS else to_label(self.classes[position])

    def _title(self) -> str:
        n_shown, n_atoms = sum(len(atoms) for _, atoms in self.groups_), len(self.components)
        return f"Dictionary: {n_atoms} atoms" if n_shown == n_atoms else f"Dictionary: {n_shown} of {n_atoms} atoms"


def _describe_atoms(codes: Any, coef: Floats | None, n_atoms: int) -> tuple[Floats, Positions, Floats | None]:
    """Return each atom's sign, its class, and the weight that it is sorted by."""
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


class _Layout(NamedTuple):
    """Where atoms are drawn, in inches."""

    cell: float  # width of a cell
    ratio: float  # height over width of a cell
    n_columns: int  # cells side by side in a group
    corners: list[tuple[float, float]]  # left and top of each group
    width: float
    height: float

    def place(self, left: float, top: float, rank: int) -> Box:
        """Return the box of the atom of that rank in a group."""
        row, column = divmod(rank, self.n_columns)
        width, height = self.cell, self.cell * self.ratio
        padding = _PADDING * min(width, height)
        return Box(left + column * width, top + row * height, width - padding, height - padding)


def _lay_out(sizes: list[int], ratio: float, label_width: float, width: float, height: float) -> _Layout:
    """Return the arrangement with the largest cells: groups below each other in one stack or more side by side."""
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
        raise ValueError(f"ax is {width:.1f} x {height:.1f} inches, too small for this dictionary: draw it larger.")
    corners, bottom = [], 0.0
    stack_width = label_width + n_columns * cell + _GAP
    for number, stack in enumerate(stacks):
        top = 0.0
        for group in stack:
            corners.append((number * stack_width + label_width, top))
            top += -(-sizes[group] // n_columns) * cell * ratio + _GAP
        bottom = max(bottom, top - _GAP)
    return _Layout(cell, ratio, n_columns, corners, len(stacks) * stack_width - _GAP, bottom)


def _split(rows: list[int], target: int) -> list[list[int]]:
    """Return the groups in stacks of about that many rows."""
    stacks: list[list[int]] = [[]]
    filled = 0
    for group, n_rows in enumerate(rows):
        if stacks[-1] and filled + n_rows / 2 > target:
            stacks.append([])
            filled = 0
        stacks[-1].append(group)
        filled += n_rows
    return stacks
