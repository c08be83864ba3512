r"""Gradients in place of pixels: strokes and edges say more of a class than brightness, and change less with the light.

Of an image y, the gradient at each pixel (by Sobel's filters) is divided by the mean size of gradients around it, as
light and ink differ from place to place.  It is then written in the two of eight directions that are next to it,
:math:`g = \sum_o c_o u_o` with :math:`c_o \ge 0`, and the :math:`c_o` are added up over cells of a few pixels, which
forgives small shifts.  The root of these sums, divided by its norm,

.. math:: z = \sqrt{p} / \|\sqrt{p}\|, \qquad p = P c(\nabla y),

is the row that is coded: a histogram of directions in each cell; :math:`z^T z'` measures how two of them overlap.  So
:math:`z` does not change if y is multiplied by a positive number, nor if a constant is added.  Such features are usual
for handwriting (Liu, Nakashima, Sako and Fujisawa, Pattern Recognition 36, 2003), and for pictures as SIFT and HOG.

The way back, for looking at atoms, is :math:`p = z^2`, from it the gradients :math:`\sum_o p_o u_o` of cells, and the
least image with such gradients.  Cells forget what is finer than they are, so this is a sketch of the image.
"""

from __future__ import annotations

from functools import cache
from math import prod
from numbers import Integral

import numpy as np
from numpy.typing import NDArray

from ..kernels.orientations import pool_gradients_rows
from ..model.codes import Floats
from ..model.strategies import check_number
from ..parallel import Parts
from .base import Description, Rows
from .checks import check_image_shape

_PIXELS_PER_CELL, _USUAL_CELLS = 2, 10  # along the longer side, if not said otherwise
_MOST_CELLS, _MOST_DIRECTIONS = 64, 64
_LARGEST_SIDE = 4096  # of an image; of a file, it decides how much memory is used
# The mean gradient around a pixel is taken to be at least this share of that of the image: a flat region stays flat.
_LEAST_GRADIENT = 0.1
_Pair = tuple[Floats, Floats]
_RIDGE = 0.02  # of the image with given gradients, relative to a bound of the largest eigenvalue


class Gradients(Description):
    """Describes images by the directions of their gradients in cells of a few pixels.

    For images whose light, ink or exact position say nothing of the class: digits, letters, faces.  Images are
    distorted by jitter and views before they are described.

    Parameters
    ----------
    n_cells : int or None, default=None
        Number of cells along the longer side of an image, each as high as it is wide as far as possible.  By default
        one for two pixels, but at most 10.
    n_directions : int, default=8
        Number of directions; a row has as many features for each cell.
    image_shape : tuple of int or None, default=None
        Height and width of the images; by default those of the model.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import Gradients
    >>> description = Gradients(2, n_directions=4, image_shape=(4, 4))
    >>> step = np.repeat([[0.0, 0.0, 1.0, 1.0]], 4, axis=0).reshape(1, 16)  # it rises to the right
    >>> description.apply(step).reshape(4, 4).round(2)
    array([[0.5, 0.5, 0.5, 0.5],
           [0. , 0. , 0. , 0. ],
           [0. , 0. , 0. , 0. ],
           [0. , 0. , 0. , 0. ]])
    >>> bool(np.allclose(description.apply(3 * step + 1), description.apply(step)))
    True
    """

    images = "described"

    def __init__(
        self, n_cells: int | None = None, *, n_directions: int = 8, image_shape: tuple[int, int] | None = None
    ):
        self.n_cells = n_cells
        self.n_directions = n_directions
        self.image_shape = image_shape

    def check_parameters(self) -> None:
        check_number("n_directions", self.n_directions, Integral, most=_MOST_DIRECTIONS)
        if self.n_directions < 3:
            raise ValueError(f"n_directions must be at least 3, got {self.n_directions!r}.")
        if self.n_cells is not None:
            check_number("n_cells", self.n_cells, Integral, most=_MOST_CELLS)
            if self.n_cells == 0:
                raise ValueError("n_cells must be at least 1, got 0.")

    def learn(self, parts: Parts[Rows]) -> Gradients:
        self.get_shape()  # raises if samples are not images
        return self

    def count_features(self, n_features: int) -> int:
        """Return the number of features of rows; raise if samples are not images of the shape."""
        shape = self.get_shape()
        check_image_shape(shape, n_features)
        if max(shape) > _LARGEST_SIDE:
            raise ValueError(f"image_shape={shape} is larger than {_LARGEST_SIDE} x {_LARGEST_SIDE} pixels.")
        return self.n_directions * prod(self._count_cells())

    def get_shape(self) -> tuple[int, int]:
        """Return height and width of the images."""
        if not isinstance(self.image_shape, tuple | list) or len(self.image_shape) != 2:
            raise ValueError("description='gradients' describes images: set image_shape=(height, width).")
        return self.image_shape[0], self.image_shape[1]

    def _count_cells(self) -> tuple[int, int]:
        """Return the number of cells down and to the right."""
        height, width = self.get_shape()
        longer = max(height, width)
        most = min(-(-longer // _PIXELS_PER_CELL), _USUAL_CELLS) if self.n_cells is None else min(self.n_cells, longer)
        return max(round(most * height / longer), 1), max(round(most * width / longer), 1)

    def _make_directions(self) -> Floats:
        """Return unit vectors at equal angles, from the right downwards."""
        angles = 2 * np.pi * np.arange(self.n_directions) / self.n_directions
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)

    def apply(self, X: Floats) -> Floats:
        n_features = self.count_features(X.shape[1])  # raises if samples are not images of the shape
        dtype, shape, n_cells = X.dtype, self.get_shape(), self._count_cells()
        (down, share_down), (right, share_right) = map(_find_cells, shape, n_cells)
        weights = np.outer(*(_spread_cells(*pair).sum(axis=1) for pair in zip(shape, n_cells, strict=True)))
        largest = np.abs(X).max(axis=1, keepdims=True)
        if np.isnan(largest).any():
            raise ValueError(
                "description='gradients' needs all pixels of an image, since each is part of several gradients: impute "
                "missing pixels, or use description='unit'."
            )
        with np.errstate(invalid="ignore"):  # infinity over infinity, which is reported later
            images = np.ascontiguousarray(X / np.where(largest > 0, largest, 1)).reshape(-1, *shape)
        pooled = np.zeros((len(X), self.n_directions, *n_cells), dtype)
        pool_gradients_rows(
            images, down, share_down.astype(dtype), right, share_right.astype(dtype),
            self._make_directions().astype(dtype), weights.astype(dtype), dtype.type(_LEAST_GRADIENT),
            np.empty((2, *shape), dtype), np.empty(n_cells, dtype), pooled,
        )  # fmt: skip
        roots = np.sqrt(np.maximum(pooled, 0).reshape(len(X), n_features))  # rounding may leave less than nothing
        norms = np.sqrt(np.vecdot(roots, roots))[:, None]
        return roots / np.where(norms > 0, norms, 1)

    def invert(self, rows: Floats) -> Floats:
        n_images, n_cells, dtype = len(rows), self._count_cells(), rows.dtype
        is_lost = np.isnan(rows)
        rows = np.where(is_lost, dtype.type(0), rows)
        pooled = (rows * np.abs(rows)).reshape(n_images, self.n_directions, -1)
        gradients = np.einsum("nok,od->ndk", pooled, self._make_directions().astype(dtype))
        operators, inverse = _find_way_back(self.get_shape(), n_cells)
        weights = (gradients.reshape(n_images, -1) @ inverse.astype(dtype)).reshape(n_images, 2, *n_cells)
        images = np.zeros((n_images, *self.get_shape()), dtype)
        for place, (down, right) in enumerate(operators):
            images += down.T.astype(dtype) @ weights[:, place] @ right.astype(dtype)
        if is_lost.any():  # pixels in cells most of whose directions are
            share = is_lost.reshape(n_images, self.n_directions, *n_cells).mean(axis=1)
            along_v, along_u = map(_spread_cells, self.get_shape(), n_cells)
            images[along_v.T @ share @ along_u > 0.5] = np.nan
        return images.reshape(n_images, -1)


def _find_cells(side: int, n_cells: int) -> tuple[NDArray[np.intp], Floats]:
    """Return for each pixel along a side the first of its two cells, and by how much it belongs to the second."""
    place = np.clip((np.arange(side) + 0.5) * n_cells / side - 0.5, 0, n_cells - 1)
    first = np.floor(place).astype(np.intp)
    return first, place - first


def _spread_cells(side: int, n_cells: int) -> Floats:
    """Return by how much each pixel along a side (columns) belongs to each cell (rows)."""
    (first, share), pixels = _find_cells(side, n_cells), np.arange(side)
    weights = np.zeros((n_cells, side))
    np.add.at(weights, (first, pixels), 1 - share)
    np.add.at(weights, (np.minimum(first + 1, n_cells - 1), pixels), share)
    return weights


@cache
def _find_way_back(image_shape: tuple[int, int], n_cells: tuple[int, int]) -> tuple[list[_Pair], Floats]:
    """Return what makes of the gradients of cells the least image that has them.

    The gradients along u, and those along v, are the image between two matrices, here as pairs.  The image is the sum
    of weights between the same matrices, transposed, and weights are the gradients times the other matrix.
    """
    smoothed: list[Floats] = []
    sloped: list[Floats] = []
    for side, n_along in zip(image_shape, n_cells, strict=True):
        before, after = np.maximum(np.arange(side) - 1, 0), np.minimum(np.arange(side) + 1, side - 1)
        cells, identity = _spread_cells(side, n_along), np.eye(side)
        smoothed.append(cells @ (identity[before] + 2 * identity + identity[after]))
        sloped.append(cells @ (identity[after] - identity[before]))
    operators: list[_Pair] = [(smoothed[0], sloped[1]), (sloped[0], smoothed[1])]
    square = np.block(
        [[np.kron(down @ other.T, right @ across.T) for other, across in operators] for down, right in operators]
    )
    square[np.diag_indices_from(square)] += _RIDGE * np.abs(square).sum(axis=0).max()
    return operators, np.linalg.inv(square)
