r"""Random distortions of images, which teach a classifier what does not change the class.

Each image is warped by its own displacement field, the sum of a translation, a linear map and a smooth random field
(Simard, Steinkraus and Platt, ICDAR 2003).  The smooth field is white noise after a Gaussian filter, but drawn
directly: white noise :math:`Z` on a coarse grid between smoothing matrices, :math:`B_v Z B_u^T`.  Translation and
linear map are further rows and columns of :math:`Z`, for the constants and coordinates in :math:`B_v` and :math:`B_u`.
"""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from ..kernels.jitter import BORDER, displace_columns, displace_rows
from ..model.codes import Floats
from ..model.strategies import Registry, Strategy, check_number

_LARGEST = 1000  # displacement or distance in pixels; beyond, nothing is left of an image
_MARGIN = 2  # bumps beyond the border; the next one would contribute at most exp(-9) to the pixels there

# Parameters by name.
JITTERS: dict[str, dict[str, float]] = {"affine": {}, "elastic": {"elastic": 0.3}}


class Jitter(Strategy):
    """Random distortions of images: shifts, linear maps, and smooth deformations.

    Distorted images have the norm of the originals.  Between pixels they are interpolated by cubic convolution, which
    hardly blurs; outside its border an image is zero.

    Parameters
    ----------
    shift : float, default=0.5
        Standard deviation of the translation in pixels, along rows and along columns.
    linear : float, default=0.5
        Standard deviation of each of the four terms of the linear map (scales, shears and rotations), in pixels of
        movement at the border, that is, at half the longer side from the center.
    elastic : float, default=0.0
        Root mean square of the smooth random displacements in pixels, along rows and along columns.
    smoothness : float, default=4.0
        Range of smooth displacements: the standard deviation in pixels of the Gaussian that smooths white noise.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import Jitter
    >>> Jitter(shift=0.5, linear=0).draw(1, (2, 2), np.random.default_rng(0)).round(2)
    array([[[[ 0.56,  0.56],
             [ 0.56,  0.56]],
    <BLANKLINE>
            [[-0.4 , -0.4 ],
             [-0.4 , -0.4 ]]]])
    """

    def __init__(self, shift: float = 0.5, *, linear: float = 0.5, elastic: float = 0.0, smoothness: float = 4.0):
        self.shift = shift
        self.linear = linear
        self.elastic = elastic
        self.smoothness = smoothness

    def check_parameters(self) -> None:
        for name in ("shift", "linear", "elastic", "smoothness"):
            check_number(name, getattr(self, name), Real, most=_LARGEST)
        if self.smoothness == 0:
            raise ValueError(f"smoothness must be a number above 0, got {self.smoothness!r}.")

    def draw(
        self,
        n_images: int,
        image_shape: tuple[int, int],
        rng: np.random.Generator,
        dtype: DTypeLike = np.float64,
        chosen: Any = slice(None),
    ) -> Floats:
        """Return displacement fields, of shape (n_images, 2, height, width).

        For each pixel they have the offset, down and to the right, where its value comes from.  Random numbers are
        always drawn in float32, so that distortions do not depend on the dtype.
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
        factors = factors[chosen]
        # (One product of large matrices, then many of small ones: of small ones alone, it takes a third longer.)
        along_rows = factors.reshape(-1, along_u.shape[1]).astype(dtype, copy=False) @ along_u.astype(dtype).T
        return along_v.astype(dtype) @ along_rows.reshape(len(factors), 2, along_v.shape[1], -1)

    def _make_bases(self, image_shape: tuple[int, int]) -> tuple[Floats, Floats]:
        """Return the basis of fields along each axis: a constant, the coordinate, and bumps for elastic fields."""
        half_side = max(max(image_shape) - 1, 1) / 2  # the same unit along both axes, or rotations would be shears
        bases = []
        for side in image_shape:
            coordinate = (np.arange(side) - (side - 1) / 2) / half_side
            bumps = [_make_bumps(side, self.smoothness)] if self.elastic > 0 else []
            bases.append(np.hstack([np.ones((side, 1)), coordinate[:, None], *bumps]))
        return bases[0], bases[1]


def _make_bumps(side: int, smoothness: float) -> Floats:
    """Return Gaussian bumps on a coarse grid, as columns; the squares of each row sum to 1.

    White noise times the bumps has variance 1 and, up to exp(-pi^2), the correlations of white noise after a Gaussian
    filter of standard deviation `smoothness`, if the distance of the bumps is at most that.
    """
    step = max(smoothness, 1.0)  # a grid finer than the pixels would add nothing
    n_inside = int(np.ceil((side - 1) / step)) + 1
    centres = step * np.arange(-_MARGIN, n_inside + _MARGIN)
    bumps = np.exp(-0.5 * ((np.arange(side)[:, None] - centres) / smoothness) ** 2)
    return bumps / np.linalg.norm(bumps, axis=1, keepdims=True)


def displace(X: Floats, fields: Floats) -> Floats:
    """Return images warped by the fields of :meth:`Jitter.draw`, one row per image, each independent of the others."""
    n_images, _, height, width = fields.shape
    images = np.ascontiguousarray(X).reshape(n_images, height, width)
    framed = np.zeros((height + 2 * BORDER, width + 2 * BORDER), images.dtype)
    displaced = np.empty_like(images)
    displace_rows(images, np.ascontiguousarray(fields), framed, displaced)
    return displaced.reshape(X.shape)


def displace_alike(X: Floats, field: Floats) -> Floats:
    """Return images that are all warped by the same field, as :func:`displace` does with one for each."""
    by_pixel = np.ascontiguousarray(X.T)
    displaced = np.empty_like(by_pixel)
    displace_columns(by_pixel, field, np.empty(16, X.dtype), np.empty(16, np.int32), displaced)
    images = np.ascontiguousarray(displaced.T)
    energy, energy_seen = np.vecdot(X, X), np.vecdot(images, images)
    images *= np.sqrt(energy / np.where(energy_seen > 0, energy_seen, 1))[:, None]
    return images


def _make_named(jitter: Any) -> Any:
    if isinstance(jitter, str):
        if jitter not in JITTERS:
            raise ValueError(f"jitter={jitter!r} is not known; choose one of {sorted(JITTERS)}.")
        return Jitter(**JITTERS[jitter])
    return jitter


JITTER: Registry[Jitter] = Registry(
    "jitter", Jitter, shorthand=_make_named, expected=f"None, one of {sorted(JITTERS)}, or a Jitter object"
)


def make_jitter(jitter: str | Jitter | None, image_shape: tuple[int, int] | None) -> Jitter | None:
    """Return the distortion, or None without one; raise an error if samples are not images."""
    made = JITTER.resolve(jitter)
    if made is not None and image_shape is None:
        raise ValueError("jitter distorts images: set image_shape=(height, width).")
    return made
