r"""Registration of images to the dictionary while they are coded (after Wagner et al., PAMI 2012).

An image :math:`y` is warped by a map of the plane near the identity, :math:`y \circ \tau`.  Each round computes the
tangents :math:`J = \partial (y \circ \tau) / \partial \tau` of the warped image, solves for code and move together
(``masked.py``), and warps the image anew:

.. math:: \min_{x, \delta} \|y \circ \tau + J^T \delta - D^T x\|^2 + \lambda \|y\|^2 \|\tau + \delta\|^2 .

The unit of all parameters is the pixel; rotation, scale and shear are measured by the movement at the border, so that
one damping :math:`\lambda` suits them all.  A round that does not lower the cost of an image is undone, and is the last
of this image.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral, Real
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike

from ..kernels.warp import differentiate_rows, warp_rows
from ..model.codes import Flags, Floats
from ..model.strategies import Registry, Strategy, check_number
from ..parallel import map_blocks, split_rows
from .coders import MOST_ROUNDS, SparseCoder
from .masked import MaskedFit, Tangents, combine

# Beyond these limits an image could be warped into one of another class.
_LARGEST_ANGLE = np.deg2rad(15)
_LARGEST_SCALING = 0.15
_LARGEST_TANGENTS = 2**21  # values in the tangents of the images that are registered at a time: 16 MB
_MOST_MISSING = 0.5  # a warped pixel is missing if a larger fraction of it comes from missing pixels
_ROUNDING_ERRORS = 10  # smaller decreases of the cost, relative to the squared norm of the image, do not count
_LARGEST_STEP = 1.0  # pixels; beyond, tangents are a poor approximation of the image
_SIDE_PER_PIXEL_OF_SHIFT = 9  # shifts of up to 2 pixels for images of 16, 3 for images of 28


class Transform(NamedTuple):
    """A family of affine maps: the map for given parameters, its derivatives, and the kinds of the parameters."""

    to_affine: Callable[[Floats], Floats]  # (n, n_parameters) -> (n, 2, 3) less the identity
    derivatives: Callable[[Floats], Floats]  # (n, n_parameters) -> (n, n_parameters, 2, 3)
    limits: tuple[str, ...]  # for each parameter: "shift", "scaling" or "angle"


def _linear(basis: ArrayLike, *limits: str) -> Transform:
    """Return a family of maps that are linear in their parameters."""
    basis = np.asarray(basis, float)
    return Transform(
        to_affine=lambda parameters: np.einsum("np,pij->nij", parameters, basis),
        derivatives=lambda parameters: np.broadcast_to(basis, (len(parameters), *basis.shape)),
        limits=limits,
    )


def _rotate(parameters: Floats) -> Floats:
    maps = np.zeros((len(parameters), 2, 3), parameters.dtype)
    cosine, sine = np.cos(parameters[:, 0]), np.sin(parameters[:, 0])
    maps[:, 0, 0] = maps[:, 1, 1] = cosine - 1
    maps[:, 0, 1], maps[:, 1, 0] = -sine, sine
    maps[:, :, 2] = parameters[:, 1:]
    return maps


def _rotate_derivatives(parameters: Floats) -> Floats:
    maps = np.zeros((len(parameters), 3, 2, 3), parameters.dtype)
    cosine, sine = np.cos(parameters[:, 0]), np.sin(parameters[:, 0])
    maps[:, 0, 0, 0] = maps[:, 0, 1, 1] = -sine
    maps[:, 0, 0, 1], maps[:, 0, 1, 0] = -cosine, cosine
    maps[:, 1, 0, 2] = maps[:, 2, 1, 2] = 1
    return maps


_SHIFT_U, _SHIFT_V = [[0, 0, 1], [0, 0, 0]], [[0, 0, 0], [0, 0, 1]]
_SCALE, _TURN = [[1, 0, 0], [0, 1, 0]], [[0, -1, 0], [1, 0, 0]]
_AFFINE = np.eye(6).reshape(6, 2, 3)
_IDENTITY = np.eye(2, 3)

TRANSFORMS: dict[str, Transform] = {
    "translation": _linear([_SHIFT_U, _SHIFT_V], "shift", "shift"),
    "euclidean": Transform(_rotate, _rotate_derivatives, ("angle", "shift", "shift")),
    "similarity": _linear([_SCALE, _TURN, _SHIFT_U, _SHIFT_V], "scaling", "angle", "shift", "shift"),
    "affine": _linear(_AFFINE, "scaling", "angle", "shift", "angle", "scaling", "shift"),
}


class View(NamedTuple):
    """Images warped by their maps."""

    parameters: Floats  # (n_rows, n_parameters) in pixels
    samples: Floats  # (n_rows, n_features)
    is_known: Flags  # (n_rows, n_features)
    slopes_u: Floats  # (n_rows, n_features) derivatives of the images along columns at the places that samples show
    slopes_v: Floats  # (n_rows, n_features) along rows


class Alignment(Strategy):
    r"""Registers images to a dictionary while they are coded.

    Parameters
    ----------
    transform : {"translation", "euclidean", "similarity", "affine"}, default="affine"
        The family of maps: shifts; shifts and rotations; these and one scale; all affine maps.
    n_rounds : int, default=3
        Largest number of rounds; each computes the tangents and moves the image.
    damping : float, default=0.003
        Cost of a movement by one pixel, relative to the squared norm of the image.
    tol : float, default=0.2
        An image is done when a round moves it by at most this many pixels.
    max_shift : float or None, default=None
        Largest shift in pixels, along columns and along rows; by default a ninth of the shorter side: 2 for images of
        16 x 16, 3 for 28 x 28.  Scales are limited to 0.85 to 1.15 and angles to 15 degrees (for affine maps, the
        entries of the matrix on and off the diagonal).
    training : bool, default=False
        Whether training images are registered too, by one round in each iteration.  ``codes_`` and ``noise_variance_``
        are then those of the registered images.

    Examples
    --------
    >>> from ddlearn import Alignment
    >>> Alignment("translation", n_rounds=5)
    Alignment(n_rounds=5, transform='translation')
    """

    def __init__(
        self,
        transform: str = "affine",
        *,
        n_rounds: int = 3,
        damping: float = 0.003,
        tol: float = 0.2,
        max_shift: float | None = None,
        training: bool = False,
    ):
        self.transform = transform
        self.n_rounds = n_rounds
        self.damping = damping
        self.tol = tol
        self.max_shift = max_shift
        self.training = training

    def check_parameters(self) -> None:
        if self.transform not in TRANSFORMS:
            raise ValueError(f"transform={self.transform!r} is not known; choose one of {sorted(TRANSFORMS)}.")
        if not isinstance(self.n_rounds, Integral) or not 1 <= self.n_rounds <= MOST_ROUNDS:
            raise ValueError(
                f"n_rounds must be an integer of at least 1, at most {MOST_ROUNDS}, got {self.n_rounds!r}."
            )
        check_number("tol", self.tol, Real)
        for name in ("damping", "max_shift"):
            value = getattr(self, name)
            is_default = value is None and name == "max_shift"
            if not is_default and not (isinstance(value, Real) and 0 < value < np.inf):
                raise ValueError(f"{name} must be a number above 0, got {value!r}.")


class MovingCoder(Protocol):
    """A coder of samples that may move."""

    def fit(self, samples: Floats, is_known: Flags, tangents: Tangents | None) -> MaskedFit:
        """Find codes and moves of a block of rows."""

    def measure_cost(self, residuals: Floats, is_known: Flags) -> Floats:
        """Return the cost of each row's residuals."""


class Registration:
    """Registers blocks of images of one shape; the alignment has been checked."""

    def __init__(self, alignment: Alignment, image_shape: tuple[int, int]):
        height, width = image_shape
        half_side = max(max(image_shape) - 1, 1) / 2
        max_shift = alignment.max_shift
        if max_shift is None:
            max_shift = max(round(min(image_shape) / _SIDE_PER_PIXEL_OF_SHIFT), 1)
        units = {"shift": 1.0, "scaling": 1 / half_side, "angle": 1 / half_side}
        largest = {"shift": max_shift, "scaling": _LARGEST_SCALING, "angle": _LARGEST_ANGLE}
        transform = TRANSFORMS[alignment.transform]
        self.alignment, self.transform, self.image_shape = alignment, transform, image_shape
        self.units = np.array([units[kind] for kind in transform.limits])  # natural parameters per pixel of movement
        self.largest = np.array([largest[kind] / units[kind] for kind in transform.limits])
        row, column = np.mgrid[:height, :width]
        self.coordinates = np.stack(
            [column.ravel() - (width - 1) / 2, row.ravel() - (height - 1) / 2, np.ones(height * width)]
        )

    def to_affine(self, parameters: Floats) -> Floats:
        return self.transform.to_affine(parameters * self.units) + _IDENTITY

    def _warp(self, samples: Floats, is_known: Flags, parameters: Floats) -> View:
        affine = self.to_affine(parameters)
        warped, *slopes = warp_images(samples, affine, self.image_shape)
        if not is_known.all():
            share_missing, _, _ = warp_images((~is_known).astype(samples.dtype), affine, self.image_shape)
            is_known = share_missing < _MOST_MISSING
        return View(parameters, warped, is_known, *slopes)

    def _move(
        self, here: View, samples: Floats, is_known: Flags, damping: Floats, coder: MovingCoder
    ) -> tuple[View, Floats]:
        """Return the view after the best move, and its residuals with the codes found before the move."""
        dtype = samples.dtype
        maps = self.transform.derivatives(here.parameters * self.units) * self.units[:, None, None]
        derivatives = np.empty((*here.parameters.shape, samples.shape[1]), dtype)  # (n_rows, n_parameters, n_features)
        slopes = np.stack([here.slopes_u, here.slopes_v])
        differentiate_rows(slopes, self.coordinates.astype(dtype), maps.astype(dtype), derivatives)
        fit = coder.fit(here.samples, here.is_known, Tangents(derivatives, damping, here.parameters))
        reconstruction = here.samples + combine(fit.moves, derivatives) - fit.residuals
        step = np.clip(fit.moves, -_LARGEST_STEP, _LARGEST_STEP)
        parameters = np.clip(here.parameters + step, -self.largest, self.largest).astype(dtype)
        there = self._warp(samples, is_known, parameters)
        return there, there.samples - reconstruction

    def register(
        self,
        samples: Floats,
        is_known: Flags,
        coder: MovingCoder,
        parameters: Floats | None = None,
        n_rounds: int | None = None,
    ) -> View:
        """Register the rows of a block, starting from given parameters or from the identity."""
        n_parameters = len(self.units)
        if parameters is None:
            parameters = np.zeros((len(samples), n_parameters), samples.dtype)
        step = max(_LARGEST_TANGENTS // (n_parameters * samples.shape[1]), 1)
        runs = [slice(start, start + step) for start in range(0, len(samples), step)]
        views = [self._register(samples[run], is_known[run], parameters[run], coder, n_rounds) for run in runs]
        return views[0] if len(views) == 1 else View._make(map(np.concatenate, zip(*views, strict=True)))

    def register_all(
        self, X: Floats, coder: MovingCoder, parameters: Floats | None, n_rounds: int | None, n_jobs: int | None
    ) -> tuple[Floats, Floats]:
        """Return complete images after some more rounds, and their parameters."""

        def work(block: slice, _: None) -> View:
            before = None if parameters is None else parameters[block]
            return self.register(X[block], np.ones(X[block].shape, bool), coder, before, n_rounds)

        views = map_blocks(work, split_rows(len(X)), lambda: None, n_jobs=n_jobs)
        return np.concatenate([view.samples for view in views]), np.concatenate([view.parameters for view in views])

    def _register(
        self, samples: Floats, is_known: Flags, parameters: Floats, coder: MovingCoder, n_rounds: int | None
    ) -> View:
        energies = np.vecdot(samples, samples)
        damping = self.alignment.damping * np.where(energies > 0, energies, 1)  # a blank image stays where it is
        rounding = _ROUNDING_ERRORS * np.finfo(samples.dtype).eps * energies
        view = self._warp(samples, is_known, parameters)
        residuals = coder.fit(view.samples, view.is_known, None).residuals
        if not is_known.all():
            # Missing pixels are replaced by their reconstruction, since they affect their neighbors when the image
            # moves. (Only complete images start from maps other than the identity.)
            samples = np.where(is_known, samples, view.samples - residuals)
        cost = coder.measure_cost(residuals, view.is_known) + damping * np.vecdot(parameters, parameters)
        active = np.arange(len(samples))
        for _ in range(self.alignment.n_rounds if n_rounds is None else n_rounds):
            if active.size == 0:
                break
            here = View._make(array[active] for array in view)
            there, residuals = self._move(here, samples[active], is_known[active], damping[active], coder)
            new_cost = coder.measure_cost(residuals, there.is_known)
            new_cost += damping[active] * np.vecdot(there.parameters, there.parameters)
            is_lower = new_cost < cost[active] - rounding[active]
            is_moving = np.abs(there.parameters - here.parameters).max(axis=1) > self.alignment.tol
            for kept, new in zip(view, there, strict=True):
                kept[active[is_lower]] = new[is_lower]
            cost[active[is_lower]] = new_cost[is_lower]
            active = active[is_lower & is_moving]
        return view


def warp_images(samples: Floats, affine: Floats, image_shape: tuple[int, int]) -> tuple[Floats, Floats, Floats]:
    """Return images warped by affine maps, and their derivatives along columns and rows, one row per image."""
    images = np.ascontiguousarray(samples).reshape(-1, *image_shape)
    warped, slopes_u, slopes_v = np.empty((3, *images.shape), samples.dtype)
    warp_rows(images, affine.astype(np.float64), warped, slopes_u, slopes_v)
    shape = samples.shape
    return warped.reshape(shape), slopes_u.reshape(shape), slopes_v.reshape(shape)


ALIGNMENT: Registry[Alignment] = Registry(
    "alignment",
    Alignment,
    shorthand=lambda alignment: Alignment(alignment) if isinstance(alignment, str) else alignment,
    expected=f"None, one of {sorted(TRANSFORMS)}, or an Alignment object",
)


def make_registration(
    alignment: str | Alignment | None, image_shape: tuple[int, int] | None, sparse_coder: SparseCoder
) -> Registration | None:
    """Return the registration, or None without alignment; raise an error if the coder or the samples do not suit."""
    alignment = ALIGNMENT.resolve(alignment)
    if alignment is None:
        return None
    if image_shape is None:
        raise ValueError("alignment moves images: set image_shape=(height, width).")
    if not sparse_coder.projects_directions:
        raise ValueError(
            f"{sparse_coder!r} cannot code images while they are aligned, since it does not declare "
            "projects_directions: use sparse_coder='ormp', or alignment=None."
        )
    return Registration(alignment, image_shape)
