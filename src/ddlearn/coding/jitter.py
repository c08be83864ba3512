r"""Random distortions of images, by which a classifier learns what does not change the class.

Each image is seen through its own displacement field, the sum of a translation, a linear map and a smooth random field
(Simard, Steinkraus and Platt, ICDAR 2003).  The smooth field is what white noise becomes under a Gaussian filter, but
drawn directly: white noise :math:`Z` on a coarse grid between smoothing matrices, :math:`B_v Z B_u^T`.  Translation and
linear map are more rows and columns of :math:`Z`, those of constants and coordinates in :math:`B_v` and :math:`B_u`.
"""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from ..codes import Floats
from ..kernels.jitter import displace_rows
from ..strategies import check_number
from .alignment import check_image_shape

_MARGIN = 2  # bumps beyond the border; to the pixels there the next one would add a share of at most exp(-9)

# What goes by name: parameters of a Jitter.
JITTERS: dict[str, dict[str, float]] = {"affine": {}, "elastic": {"elastic": 0.3}}


class Jitter(BaseEstimator):
    """Distorts images at random: shifts them, maps them linearly, and bends them smoothly.

    Distorted images have the norm of the originals.  Between pixels they are interpolated by cubic convolution, which
    hardly blurs; outside its border an image is zero.

    Parameters
    ----------
    shift : float, default=0.5
        Standard deviation of the translation in pixels, along rows and along columns.
    linear : float, default=0.5
        Standard deviation of each of the four terms of the linear map (scales, shears and rotations), in pixels of
        movement at the border: at half the longer side from the centre.
    elastic : float, default=0.0
        Root mean square of the smooth random displacements in pixels, along rows and along columns.
    smoothness : float, default=4.0
        How far smooth displacements reach: the standard deviation in pixels of the Gaussian that smooths white noise
        to them.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import Jitter
    >>> bar = np.zeros((1, 7, 7))
    >>> bar[0, 1:6, 3] = 1
    >>> X = bar.reshape(1, 49)
    >>> distorted = Jitter(elastic=0.7).distort(X, (7, 7), np.random.default_rng(0))
    >>> bool(np.isclose(np.linalg.norm(distorted), np.linalg.norm(X)))
    True
    """

    def __init__(self, shift: float = 0.5, *, linear: float = 0.5, elastic: float = 0.0, smoothness: float = 4.0):
        self.shift = shift
        self.linear = linear
        self.elastic = elastic
        self.smoothness = smoothness

    def check_parameters(self) -> None:
        """Raise unless all parameters make sense."""
        for name in ("shift", "linear", "elastic", "smoothness"):
            check_number(name, getattr(self, name), Real)
        if self.smoothness == 0:
            raise ValueError(f"smoothness must be a number above 0, got {self.smoothness!r}.")

    def draw(
        self, n_images: int, image_shape: tuple[int, int], rng: np.random.Generator, dtype: DTypeLike = np.float64
    ) -> Floats:
        """Return displacement fields, which say for each pixel how far from it to look.

        All random numbers are drawn here, always in float32, so that the distortions are the same in both types.

        Parameters
        ----------
        n_images : int
            Number of fields to draw.
        image_shape : tuple of int
            Height and width of the images.
        rng : numpy.random.Generator
            Where random numbers come from.
        dtype : numpy.dtype, default=numpy.float64
            The type of the images, float32 or float64.

        Returns
        -------
        ndarray of shape (n_images, 2, height, width)
            Displacements along rows' numbers (down) and along columns' numbers (right), in pixels.
        """
        along_v, along_u = self._make_bases(image_shape)
        factors = np.zeros((n_images, 2, along_v.shape[1], along_u.shape[1]), np.float32)
        affine = rng.standard_normal((n_images, 2, 3), np.float32)
        factors[:, :, 0, 0] = self.shift * affine[:, :, 0]
        factors[:, :, 1, 0] = self.linear * affine[:, :, 1]
        factors[:, :, 0, 1] = self.linear * affine[:, :, 2]
        if self.elastic > 0:
            bends = factors[:, :, 2:, 2:]
            bends[:] = rng.standard_normal(bends.shape, np.float32)
            bends *= self.elastic
        return along_v.astype(dtype) @ (factors.astype(dtype, copy=False) @ along_u.astype(dtype).T)

    def distort(self, X: ArrayLike, image_shape: tuple[int, int], rng: np.random.Generator) -> Floats:
        """Return distorted images, each with a new field.

        Parameters
        ----------
        X : array-like of shape (n_images, height * width)
            The images, one a row.
        image_shape : tuple of int
            Their height and width.
        rng : numpy.random.Generator
            Where random numbers come from.

        Returns
        -------
        ndarray of shape (n_images, height * width)
            The distorted images, float32 if `X` is, else float64.
        """
        self.check_parameters()
        X = check_array(X, dtype=[np.float64, np.float32])
        check_image_shape(image_shape, X.shape[1])
        return displace(X, self.draw(len(X), image_shape, rng, X.dtype))

    def _make_bases(self, image_shape: tuple[int, int]) -> tuple[Floats, Floats]:
        """Return, for both axes, what a field is made of: a constant, the coordinate, and bumps if fields are bent."""
        half_side = max(max(image_shape) - 1, 1) / 2  # the same unit along both axes, or rotations would be shears
        bases = []
        for side in image_shape:
            coordinate = (np.arange(side) - (side - 1) / 2) / half_side
            parts = [np.ones((side, 1)), coordinate[:, None]]
            if self.elastic > 0:
                parts.append(_make_bumps(side, self.smoothness))
            bases.append(np.hstack(parts))
        return bases[0], bases[1]


def _make_bumps(side: int, smoothness: float) -> Floats:
    """Return Gaussian bumps on a coarse grid, as columns; the squares of each row sum to 1.

    White noise times the bumps has variance 1 everywhere and, up to exp(-pi^2), the correlations of white noise on all
    points under a Gaussian filter of standard deviation `smoothness`, if bumps are no farther apart than that.
    """
    step = max(smoothness, 1.0)  # a grid finer than the pixels would add nothing
    n_inside = int(np.ceil((side - 1) / step)) + 1
    centres = step * np.arange(-_MARGIN, n_inside + _MARGIN)
    bumps = np.exp(-0.5 * ((np.arange(side)[:, None] - centres) / smoothness) ** 2)
    return bumps / np.linalg.norm(bumps, axis=1, keepdims=True)


def displace(X: Floats, fields: Floats) -> Floats:
    """Return images seen through the fields of :meth:`Jitter.draw`, one image a row; rows do not depend on others."""
    n_images, _, height, width = fields.shape
    images = np.ascontiguousarray(X).reshape(n_images, height, width)
    displaced = np.empty_like(images)
    displace_rows(images, np.ascontiguousarray(fields), displaced)
    return displaced.reshape(X.shape)


def resolve_jitter(jitter: str | Jitter | None, image_shape: tuple[int, int] | None, n_features: int) -> Jitter | None:
    """Return the distortion to use, or None if it is off; raise if image_shape does not allow it."""
    if image_shape is not None:
        check_image_shape(image_shape, n_features)
    if jitter is None:
        return None
    if isinstance(jitter, str):
        jitter = _make_jitter(jitter)
    if not isinstance(jitter, Jitter):
        raise TypeError(f"jitter must be None, one of {sorted(JITTERS)}, or a Jitter object, got {jitter!r}.")
    jitter.check_parameters()
    if image_shape is None:
        raise ValueError("jitter distorts images: set image_shape=(height, width).")
    return jitter


def _make_jitter(name: str) -> Jitter:
    if name not in JITTERS:
        raise ValueError(f"jitter={name!r} is not known; choose one of {sorted(JITTERS)}.")
    return Jitter(**JITTERS[name])
