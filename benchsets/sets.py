"""The loaders: USPS (16 x 16), MNIST (28 x 28) and the faces of Extended Yale B."""

from __future__ import annotations

import os
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import Bunch, check_random_state

from .files import load_arrays

Folder: TypeAlias = str | os.PathLike[str]
Loaded: TypeAlias = Bunch | tuple[NDArray[Any], NDArray[Any]]  # with return_X_y

# Sides of the square blocks that divide the stored 96 x 84 faces evenly, by the size that they result in.
_YALEB_SIZES: dict[Any, int] = {(96 // side, 84 // side): side for side in (1, 2, 3, 4, 6, 12)}

# Degrees between light and camera axis that separate the lighting subsets: 12, 25, 50 and 77 in the literature, changed
# to avoid rounding at exactly 25 and 50 and to keep the two lights at 51.1 degrees in subset 3, as the usual counts do.
_LIGHTING_CUTS = (12, 25.5, 52, 77)


def load_usps(*, subset: str = "all", data_home: Folder | None = None, return_X_y: bool = False) -> Loaded:
    """Load the USPS digits: 7291 training and 2007 test images of 16 x 16 pixels, in the official order.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        The part of the official split; "all" is "train" followed by "test".
    data_home : str, path or None, default=None
        The only folder to search and download to, instead of ``$DDLEARN_DATA`` and ``~/.cache/ddlearn``.
    return_X_y : bool, default=False
        Whether to return only ``(data, target)``.

    Returns
    -------
    Bunch, or tuple of two ndarrays
        With ``data``, float32 of shape (n_samples, 256), pixels from 0 (background) to 1 (ink); ``images``, the same
        values of shape (n_samples, 16, 16); ``image_shape``; ``target``, the digits; ``target_names``; and ``DESCR``.

    Notes
    -----
    The set is ``usps.npz``, or ``zip.train.gz`` and ``zip.test.gz`` of Hastie, Tibshirani and Friedman, *The Elements
    of Statistical Learning*, whose values :math:`v` from -1 to 1 become :math:`(v + 1) / 2`.

    Examples
    --------
    >>> from benchsets import load_usps
    >>> load_usps(subset="train").data.shape  # doctest: +SKIP
    (7291, 256)
    """
    X, y = _load_parts("usps", subset, data_home)
    return _bundle(
        X.reshape(-1, 16, 16),
        y,
        "USPS: digits from envelopes, 7291 for training and 2007 for testing, 16 x 16 pixels, 0 (background) to 1 "
        "(ink), after LeCun et al., 1990, and Hull, IEEE TPAMI 16(5), 1994.",
        return_X_y,
    )


def load_mnist(*, subset: str = "all", data_home: Folder | None = None, return_X_y: bool = False) -> Loaded:
    """Load the MNIST digits: 60000 training and 10000 test images of 28 x 28 pixels, in the official order.

    Parameters
    ----------
    subset, data_home, return_X_y : object
        As for :func:`load_usps`.

    Returns
    -------
    Bunch, or tuple of two ndarrays
        As from :func:`load_usps`, with ``data`` of shape (n_samples, 784).

    Notes
    -----
    The set is ``mnist.npz``, or the four files ``train-images-idx3-ubyte.gz``, ``train-labels-idx1-ubyte.gz``,
    ``t10k-images-idx3-ubyte.gz`` and ``t10k-labels-idx1-ubyte.gz`` of LeCun, Cortes and Burges.

    Examples
    --------
    >>> from benchsets import load_mnist
    >>> load_mnist(subset="test").data.shape  # doctest: +SKIP
    (10000, 784)
    """
    X, y = _load_parts("mnist", subset, data_home)
    return _bundle(
        _scale(X, 255),
        y,
        "MNIST: handwritten digits, 60000 for training and 10000 for testing, 28 x 28 pixels, 0 (background) to 1 "
        "(ink), after LeCun, Bottou, Bengio and Haffner, Proc. IEEE 86(11), 1998.",
        return_X_y,
    )


def load_yaleb(
    *,
    size: tuple[int, int] = (24, 21),
    split: str | None = None,
    subset: str = "all",
    train_lights: ArrayLike = (1, 2),
    test_lights: ArrayLike = (3,),
    random_state: int = 0,
    data_home: Folder | None = None,
    return_X_y: bool = False,
) -> Loaded:
    """Load the Extended Yale Face Database B, cropped: 2414 faces of 38 people under 64 lights.

    Parameters
    ----------
    size : {(96, 84), (48, 42), (32, 28), (24, 21), (16, 14), (8, 7)}, default=(24, 21)
        Height and width.  Images are stored at 96 x 84; smaller ones are the means of square blocks of pixels.
    split : {"half", "lighting"} or None, default=None
        How to split into training and test images; no split is official.  "half": a random half of each person's
        images (the larger one, if the number is odd) is for training, the rest for testing.  "lighting": the lighting
        subsets in `train_lights` and `test_lights`; other images are omitted.  None: no split, all images.
    subset : {"train", "test", "all"}, default="all"
        The part of the split; "all" is both, in the stored order.
    train_lights : int or array-like of int, default=(1, 2)
        Lighting subsets, 1 (frontal) to 5 (extreme), for training.  Only used if ``split="lighting"``.
    test_lights : int or array-like of int, default=(3,)
        Lighting subsets for testing.  Only used if ``split="lighting"``.
    random_state : int, default=0
        The seed of ``split="half"``: an integer, since two calls, one for each part, must draw the same halves.
    data_home, return_X_y : object
        As for :func:`load_usps`.

    Returns
    -------
    Bunch, or tuple of two ndarrays
        With ``data``, float32 of shape (n_samples, height * width), pixels from 0 (black) to 1 (white); ``images``, the
        same values of shape (n_samples, height, width); ``image_shape``; ``target``, the person, 0 to 37;
        ``target_names``; ``subject``, the person's number in the file names; ``azimuth`` and ``elevation`` of the light
        in degrees; ``lighting``, the lighting subset of each image; and ``DESCR``.

    Notes
    -----
    The set is ``yaleb.npz``, or ``CroppedYale.zip`` with the 192 x 168 images, without ambient-light images and those
    whose name ends in ``.bad``.  It is free for research; cite Georghiades, Belhumeur and Kriegman, IEEE TPAMI 23(6),
    2001, and Lee, Ho and Kriegman, IEEE TPAMI 27(5), 2005.

    The lighting subsets are defined by the angle between light and camera axis, arccos(cos azimuth cos elevation): up
    to 12, 25, 50, 77 degrees and beyond, with 263, 456, 455, 526 and 714 images.

    Examples
    --------
    >>> from benchsets import load_yaleb
    >>> load_yaleb(split="lighting", subset="test").data.shape  # doctest: +SKIP
    (455, 504)
    """
    lights = _check_faces(size, split, subset, train_lights, test_lights, random_state)
    arrays = load_arrays("yaleb", data_home)
    person, azimuth, elevation = arrays["y"], arrays["azimuth"], arrays["elevation"]
    angle = np.degrees(np.arccos(np.cos(np.radians(azimuth)) * np.cos(np.radians(elevation))))
    lighting = 1 + np.digitize(angle, _LIGHTING_CUTS).astype(np.int64)
    in_train, in_test = (np.isin(lighting, chosen) for chosen in lights)
    if split != "lighting":
        in_train = _draw_halves(person, random_state) if split == "half" else np.ones(len(person), bool)
        in_test = ~in_train
    rows = np.flatnonzero({"train": in_train, "test": in_test, "all": in_train | in_test}[subset])
    side = _YALEB_SIZES[tuple(size)]
    blocks = arrays["X"][rows].reshape(len(rows), size[0], side, size[1], side)
    return _bundle(
        _scale(blocks.sum(axis=(2, 4), dtype=np.uint16), 255 * side**2),  # at most 144 * 255, which uint16 holds
        person[rows],
        "Extended Yale B, cropped: 2414 frontal faces of 38 people under 64 lights, 0 (black) to 1 (white), after "
        "Georghiades et al., IEEE TPAMI 23(6), 2001, and Lee et al., IEEE TPAMI 27(5), 2005. For research.",
        return_X_y,
        target_names=np.array([f"yaleB{number:02}" for number in np.unique(arrays["subject"])]),
        subject=arrays["subject"][rows].astype(np.int64),
        azimuth=azimuth[rows].astype(np.int64),
        elevation=elevation[rows].astype(np.int64),
        lighting=lighting[rows],
    )


def _load_parts(name: str, subset: str, data_home: Folder | None) -> list[NDArray[Any]]:
    """Return X and y of a subset of an official split."""
    _check_subset(subset)
    arrays = load_arrays(name, data_home)
    parts = ("train", "test") if subset == "all" else (subset,)
    return [np.concatenate([arrays[f"{array}_{part}"] for part in parts]) for array in "Xy"]


def _bundle(
    images: NDArray[np.float32], target: NDArray[Any], description: str, return_X_y: bool, **more: NDArray[Any]
) -> Loaded:
    """Return images as rows of pixels with their labels; digits unless ``more`` has other names of the classes."""
    data = images.reshape(len(images), -1)
    more = {"target_names": np.arange(10)} | more
    target = target.astype(np.int64)  # files hold uint8, in which differences of labels overflow
    if return_X_y:
        return data, target
    return Bunch(data=data, target=target, images=images, image_shape=images.shape[1:], DESCR=description, **more)


def _scale(values: NDArray[Any], white: float) -> NDArray[np.float32]:
    return np.divide(values, white, dtype=np.float32)


def _check_subset(subset: str) -> None:
    if subset not in ("train", "test", "all"):
        raise ValueError(f"subset must be 'train', 'test' or 'all', got {subset!r}.")


def _check_faces(
    size: Any, split: str | None, subset: str, train_lights: ArrayLike, test_lights: ArrayLike, random_state: Any
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Check the arguments of load_yaleb; return the lighting subsets for training and for testing as arrays."""
    _check_subset(subset)
    if not isinstance(size, tuple | list) or tuple(size) not in _YALEB_SIZES:
        raise ValueError(f"size must be one of {', '.join(map(str, _YALEB_SIZES))}, got {size!r}.")
    if split not in ("half", "lighting", None):
        raise ValueError(f"split must be 'half', 'lighting' or None, got {split!r}.")
    if split is None and subset != "all":
        raise ValueError(f"subset={subset!r} needs a split: pass split='half' or split='lighting'.")
    if split == "half" and not isinstance(random_state, Integral):
        raise ValueError(
            f"random_state must be an integer for split='half', got {random_state!r}: "
            "otherwise training and test images, loaded by two calls, would overlap."
        )
    train, test = np.atleast_1d(train_lights), np.atleast_1d(test_lights)
    for name, lights in {"train_lights": train, "test_lights": test}.items():
        if not lights.size or not np.isin(lights, (1, 2, 3, 4, 5)).all():
            raise ValueError(f"{name} must be lighting subsets from 1 to 5, got {lights.tolist()}.")
    if shared := np.intersect1d(train, test).tolist():
        raise ValueError(f"train_lights and test_lights share {shared}: use each for training or for testing.")
    return train, test


def _draw_halves(person: NDArray[np.integer], random_state: int) -> NDArray[np.bool_]:
    rng = check_random_state(int(random_state))  # RandomState's stream is frozen, so splits never change
    in_train = np.zeros(len(person), bool)
    for one in np.unique(person):
        rows = rng.permutation(np.flatnonzero(person == one))
        in_train[rows[: (len(rows) + 1) // 2]] = True
    return in_train
