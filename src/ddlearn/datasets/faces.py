"""Faces: Extended Yale B, at six sizes, parted at random or by the angle of the light."""

from __future__ import annotations

import os
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch, check_random_state

from .downloading import load_arrays
from .images import bundle, check_subset, scale

# The blocks that tile the stored 96 x 84 faces and keep their proportions: divisors of both sides.
_YALEB_SIZES = {(96 // side, 84 // side): side for side in (1, 2, 3, 4, 6, 12)}

# Degrees between light and camera axis that part the lighting subsets.  The usual wording is 12, 25, 50 and 77; these
# cuts avoid rounding at exactly 25 and 50 degrees and keep the two lights at 51.1 degrees in subset 3, which gives the
# usual counts.
_LIGHTING_CUTS = (12, 25.5, 52, 77)
_LIGHTINGS = (1, 2, 3, 4, 5)


def load_yaleb(
    *,
    size: tuple[int, int] = (24, 21),
    split: str | None = None,
    subset: str = "all",
    train_lights: ArrayLike = (1, 2),
    test_lights: ArrayLike = (3,),
    random_state: int = 0,
    data_home: str | os.PathLike[str] | None = None,
    return_X_y: bool = False,
) -> Bunch | tuple[NDArray[Any], NDArray[Any]]:
    """Load the Extended Yale Face Database B, cropped: 2414 faces of 38 people under 64 lights.

    Parameters
    ----------
    size : {(96, 84), (48, 42), (32, 28), (24, 21), (16, 14), (8, 7)}, default=(24, 21)
        Height and width.  Images are stored at 96 x 84; smaller ones are the means of square blocks of pixels.
    split : {"half", "lighting"} or None, default=None
        How to part training from test images, since no split is official.  "half": a random half of each person's
        images (the larger one, if the number is odd) is for training, the other for testing.  "lighting": the lighting
        subsets in `train_lights` and `test_lights`; images of other lights are left out.  None: no parts, all images.
    subset : {"train", "test", "all"}, default="all"
        Which part of the split; "all" is both, in the stored order.
    train_lights : int or array-like of int, default=(1, 2)
        Lighting subsets, 1 (frontal) to 5 (extreme), for training; used by ``split="lighting"`` alone.
    test_lights : int or array-like of int, default=(3,)
        Lighting subsets for testing; used by ``split="lighting"`` alone.
    random_state : int, default=0
        The seed of ``split="half"``: an integer, since two calls, one for each part, must draw the same halves.
    data_home : str, path or None, default=None
        The only folder to look in and download to.  By default the folder that the environment variable
        ``DDLEARN_DATA`` names, then ``~/.cache/ddlearn``.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` alone.

    Returns
    -------
    Bunch, or tuple of two ndarrays
        With ``data``, float32 of shape (n_samples, height * width), pixels from 0 (black) to 1 (white); ``images``, the
        same numbers of shape (n_samples, height, width); ``image_shape``; ``target``, the person, 0 to 37;
        ``target_names``; ``subject``, the person's number in the file names; ``azimuth`` and ``elevation`` of the light
        in degrees; ``lighting``, the lighting subset of each image; and ``DESCR``.

    Raises
    ------
    DatasetNotFoundError
        If the set is not in the folders and cannot be downloaded.
    CorruptDatasetError
        If a file is damaged or another version.

    Notes
    -----
    The set is ``yaleb.npz``, or ``CroppedYale.zip`` with the 192 x 168 images, without ambient-light images and those
    whose name ends in ``.bad``.  It is free for research; cite Georghiades, Belhumeur and Kriegman, IEEE TPAMI 23(6),
    2001, and Lee, Ho and Kriegman, IEEE TPAMI 27(5), 2005.

    The lighting subsets go by the angle between light and camera axis, arccos(cos azimuth cos elevation): up to 12, 25,
    50, 77 degrees and beyond, with 263, 456, 455, 526 and 714 images.

    Examples
    --------
    >>> from ddlearn.datasets import load_yaleb
    >>> load_yaleb(split="lighting", subset="test").data.shape  # doctest: +SKIP
    (455, 504)
    """
    block = _check_face_size(size)
    _check_face_split(split, subset, random_state)
    parts = _check_lights(train_lights, test_lights)
    arrays = load_arrays("yaleb", data_home)
    person, azimuth, elevation = arrays["y"], arrays["azimuth"], arrays["elevation"]
    lighting = _find_lighting(azimuth, elevation)
    if split == "half":
        in_train = _draw_halves(person, random_state)
        in_test = ~in_train
    elif split == "lighting":
        in_train, in_test = (np.isin(lighting, lights) for lights in parts)
    else:
        in_train = in_test = np.ones(len(person), bool)
    rows = np.flatnonzero({"train": in_train, "test": in_test, "all": in_train | in_test}[subset])
    return bundle(
        _average_blocks(arrays["X"][rows], block),
        person[rows],
        np.array([f"yaleB{number:02}" for number in np.unique(arrays["subject"])]),
        "Extended Yale B, cropped: 2414 frontal faces of 38 people under 64 lights, 0 (black) to 1 (white), after "
        "Georghiades et al., IEEE TPAMI 23(6), 2001, and Lee et al., IEEE TPAMI 27(5), 2005. For research.",
        return_X_y,
        subject=arrays["subject"][rows].astype(np.int64),
        azimuth=azimuth[rows].astype(np.int64),
        elevation=elevation[rows].astype(np.int64),
        lighting=lighting[rows],
    )


def _check_face_size(size: tuple[int, int]) -> int:
    try:
        return _YALEB_SIZES[tuple(size)]  # type: ignore[index]
    except (KeyError, TypeError):
        raise ValueError(f"size must be one of {', '.join(map(str, _YALEB_SIZES))}, got {size!r}.") from None


def _check_face_split(split: str | None, subset: str, random_state: int) -> None:
    check_subset(subset)
    if split not in ("half", "lighting", None):
        raise ValueError(f"split must be 'half', 'lighting' or None, got {split!r}.")
    if split is None and subset != "all":
        raise ValueError(f"subset={subset!r} needs a split: pass split='half' or split='lighting'.")
    if split == "half" and not isinstance(random_state, Integral):
        raise ValueError(
            f"random_state must be an integer for split='half', got {random_state!r}: "
            "otherwise training and test images, loaded by two calls, would overlap."
        )


def _check_lights(train_lights: ArrayLike, test_lights: ArrayLike) -> tuple[NDArray[Any], NDArray[Any]]:
    train, test = np.atleast_1d(train_lights), np.atleast_1d(test_lights)
    for name, lights in {"train_lights": train, "test_lights": test}.items():
        if not lights.size or not np.isin(lights, _LIGHTINGS).all():
            raise ValueError(f"{name} must name lighting subsets from 1 to 5, got {lights.tolist()}.")
    if shared := np.intersect1d(train, test).tolist():
        raise ValueError(f"train_lights and test_lights share {shared}: an image is for training or for testing.")
    return train, test


def _find_lighting(azimuth: NDArray[np.integer], elevation: NDArray[np.integer]) -> NDArray[np.int64]:
    angle = np.degrees(np.arccos(np.cos(np.radians(azimuth)) * np.cos(np.radians(elevation))))
    return 1 + np.digitize(angle, _LIGHTING_CUTS).astype(np.int64)


def _draw_halves(person: NDArray[np.integer], random_state: int) -> NDArray[np.bool_]:
    rng = check_random_state(int(random_state))  # NumPy never changes what it draws: a split stays as it is
    in_train = np.zeros(len(person), bool)
    for one in np.unique(person):
        rows = rng.permutation(np.flatnonzero(person == one))
        in_train[rows[: (len(rows) + 1) // 2]] = True
    return in_train


def _average_blocks(images: NDArray[np.uint8], side: int) -> NDArray[np.float32]:
    count, height, width = images.shape
    blocks = images.reshape(count, height // side, side, width // side, side)
    return scale(blocks.sum(axis=(2, 4), dtype=np.uint16), 255 * side**2)  # at most 144 * 255, which uint16 holds
