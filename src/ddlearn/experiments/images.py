"""The images of the experiments, as images: faces by their lights, digits in the official split."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import normalize
from sklearn.utils import Bunch

from ..datasets import load_usps, load_yaleb

Floats = NDArray[np.floating]

USPS_SHAPE = (16, 16)
SEED = 0


class Split(NamedTuple):
    """Images and classes to learn from, and others to test with."""

    X_train: Floats
    y_train: NDArray[np.integer]
    X_test: Floats
    y_test: NDArray[np.integer]


def load_faces(size: tuple[int, int]) -> Split:
    """Return Extended Yale B as images: lighting subsets 1 and 2 to learn from, subset 3 to test with."""
    X_train, y_train = load_yaleb(size=size, split="lighting", subset="train", return_X_y=True)
    X_test, y_test = load_yaleb(size=size, split="lighting", subset="test", return_X_y=True)
    return Split(X_train.reshape(-1, *size), y_train, X_test.reshape(-1, *size), y_test)


def load_face_lights() -> NDArray[np.integer]:
    """Return the lighting subset of each training image."""
    return cast(Bunch, load_yaleb(split="lighting", subset="train")).lighting


def load_digits() -> Split:
    """Return USPS as images, official split."""
    X_train, y_train = load_usps(subset="train", return_X_y=True)
    X_test, y_test = load_usps(subset="test", return_X_y=True)
    return Split(X_train.reshape(-1, *USPS_SHAPE), y_train, X_test.reshape(-1, *USPS_SHAPE), y_test)


def spread(n_images: int, n_kept: int | None) -> NDArray[np.intp]:
    """Return positions of so many images, spread evenly over all of them; None keeps all."""
    return np.linspace(0, n_images - 1, min(n_kept or n_images, n_images)).astype(np.intp)


def to_rows(images: Floats) -> Floats:
    """Return images as rows of unit norm."""
    return normalize(images.reshape(len(images), -1))
