"""The look of images, measured so that a drawing made on the page can be given the same look.

Digits and other characters are strokes on a background.  Every data set has its own way to scale and center them, which
is measured on its images; ``drawing.js`` then scales, places and draws in the same way.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from .packing import Json

Floats = NDArray[np.floating]
Rows = TypeVar("Rows", Floats, csr_array)

N_LOOKED_AT = 2000  # largest number of samples measured
UNKNOWN_LOOK: Json = {"low": 0.0, "high": 1.0, "norm": None}
_EXTREMES = (0.5, 99.5)  # percentiles drawn as black and white
_IS_GROUND, _IS_INK = 0.1, 0.25  # largest and smallest distance from the background, relative to the range
_SMALLEST_GROUND_SHARE = 0.35  # fraction of background pixels in images of strokes
_IS_SAME_NORM = 1e-4  # relative standard deviation of the norms of samples


def measure_look(samples: Floats) -> Json:
    """Return the range of values, and the norm if all samples have the same."""
    samples = thin_out(samples, N_LOOKED_AT)  # percentiles of all of MNIST would take seconds
    if np.isnan(samples).all():
        return UNKNOWN_LOOK
    low, high = np.nanpercentile(samples, _EXTREMES)
    if low == high:
        low, high = float(np.nanmin(samples)), float(np.nanmax(samples))
    norms = np.sqrt(np.nansum(samples.astype(float) ** 2, axis=1))
    norms = norms[norms > 0]
    is_same = norms.size > 1 and np.std(norms) <= _IS_SAME_NORM * np.mean(norms)
    return {"low": float(low), "high": float(high), "norm": float(np.mean(norms)) if is_same else None}


def measure_ink(samples: Floats, image_shape: tuple[int, ...], look: Json) -> Json | None:
    """Return size, position and thickness of strokes on a background, or None if images are something else."""
    if len(image_shape) != 2 or look["high"] == look["low"]:
        return None
    images = np.nan_to_num(thin_out(samples, N_LOOKED_AT).astype(float)).reshape(-1, *image_shape)
    borders = [images[:, 0], images[:, -1], images[:, :, 0], images[:, :, -1]]
    ground = float(np.median(np.concatenate([border.ravel() for border in borders])))
    span = max(look["high"] - ground, ground - look["low"])
    if np.mean(np.abs(images - ground) <= _IS_GROUND * span) < _SMALLEST_GROUND_SHARE:
        return None
    is_dark = look["high"] - ground < ground - look["low"]
    ink = np.clip((ground - images if is_dark else images - ground) / span, 0, 1)
    strokes = [_measure_strokes(image) for image in ink if (image > _IS_INK).any()]
    if not strokes:
        return None
    side, thickness, by_box, by_mass = (np.array(values) for values in zip(*strokes, strict=True))
    is_by_mass = by_mass.std(axis=0).sum() < by_box.std(axis=0).sum()
    return {
        "ground": ground,
        "ink": look["low"] if is_dark else look["high"],
        "longest_side": float(np.median(side)),
        "thickness": float(np.median(thickness)),
        "is_centred_by_mass": bool(is_by_mass),
        "centre": (by_mass if is_by_mass else by_box).mean(axis=0).tolist(),
    }


def thin_out(rows: Rows, n_rows: int) -> Rows:
    """Return at most `n_rows` evenly spaced rows: the first ones may all be of one class."""
    return rows[:: -(-rows.shape[0] // n_rows)]


def _measure_strokes(image: Floats) -> tuple[int, float, tuple[float, float], list[float]]:
    """Return the longest side, the thickness, the center of the bounding box and the center of mass, in pixels."""
    rows, columns = (np.flatnonzero((image > _IS_INK).any(axis=axis)) for axis in (1, 0))
    box = ((rows[0] + rows[-1] + 1) / 2, (columns[0] + columns[-1] + 1) / 2)
    weights = image / image.sum()
    mass = [float(weights.sum(axis=1 - axis) @ (np.arange(image.shape[axis]) + 0.5)) for axis in (0, 1)]
    return int(max(np.ptp(rows), np.ptp(columns))) + 1, measure_thickness(image), box, mass


def measure_thickness(image: Floats) -> float:
    """Return twice the area over the length of the outline, which is the width of a long stroke."""
    padded = np.pad(image, 1)
    down, right = padded[1:, :-1] - padded[:-1, :-1], padded[:-1, 1:] - padded[:-1, :-1]
    return 2 * float(image.sum() / np.hypot(down, right).sum())
