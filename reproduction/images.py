"""The images of the experiments, as images: faces by their lights, digits in the official split."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple, cast

import numpy as np
from benchsets import load_mnist, load_usps, load_yaleb
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize
from sklearn.utils import Bunch

from ddlearn.datasets import load_digits_images

Floats = NDArray[np.floating]

USPS_SHAPE = (16, 16)
UNLABELED = -1
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


def _load_parts(load: Callable[..., Any]) -> Split:
    (X_train, y_train), (X_test, y_test) = (load(subset=subset, return_X_y=True) for subset in ("train", "test"))
    return Split(X_train, y_train, X_test, y_test)


def _load_official(load: Callable[..., Any], seed: int) -> Split:
    return _load_parts(load)  # the same for every seed


def _load_halves(seed: int) -> Split:
    """Return faces: half of each person's to learn from, the other half to test with."""
    return _load_parts(partial(load_yaleb, size=(24, 21), split="half", random_state=seed))


def _load_small(seed: int) -> Split:
    """Return scikit-learn's digits, which need no file."""
    X, y = load_digits_images(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=1000, stratify=y, random_state=seed)
    return Split(X_train, y_train, X_test, y_test)


class ImageSet(NamedTuple):
    """How a data set is loaded, and the height and width of its images."""

    load: Callable[[int], Split]
    image_shape: tuple[int, int]


DATASETS = {
    "digits": ImageSet(_load_small, (8, 8)),
    "usps": ImageSet(partial(_load_official, load_usps), USPS_SHAPE),
    "mnist": ImageSet(partial(_load_official, load_mnist), (28, 28)),
    "yaleb": ImageSet(_load_halves, (24, 21)),
}


@cache
def load_rows(dataset: str, seed: int) -> Split:
    """Return a data set as float32 rows of unit norm, split by that seed where the split is random; kept in memory."""
    data = DATASETS[dataset].load(seed)
    X_train, X_test = (to_rows(images.astype(np.float32)) for images in (data.X_train, data.X_test))
    return Split(X_train, data.y_train, X_test, data.y_test)


def spread(n_images: int, n_kept: int | None) -> NDArray[np.intp]:
    """Return the positions of at most ``n_kept`` images, spread evenly over all of them; None keeps all."""
    return np.linspace(0, n_images - 1, min(n_kept or n_images, n_images)).astype(np.intp)


def to_rows(images: Floats) -> Floats:
    """Return images as rows of unit norm."""
    return normalize(images.reshape(len(images), -1))


def load_few(n_images: int, seed: int) -> Split:
    """Return MNIST with some of its training images, the classes in proportion, drawn by the seed."""
    data = load_rows("mnist", SEED)
    kept, _ = train_test_split(
        np.arange(len(data.y_train)), train_size=n_images, stratify=data.y_train, random_state=seed
    )
    return data._replace(X_train=data.X_train[kept], y_train=data.y_train[kept])


def hide_labels(y: NDArray[np.integer], share: float, rng: np.random.Generator) -> NDArray[np.integer]:
    """Return labels of which only a share of each class, but at least two, are known."""
    y = y.astype(np.int64)
    is_kept = np.zeros(len(y), bool)
    for label in np.unique(y):
        members = rng.permutation(np.flatnonzero(y == label))
        is_kept[members[: max(round(share * len(members)), 2)]] = True
    return np.where(is_kept, y, UNLABELED)


def load_few_labels(share: float, seed: int) -> Split:
    """Return USPS with labels for a share of its training images, drawn by the seed."""
    data = load_rows("usps", SEED)
    return data._replace(y_train=hide_labels(data.y_train, share, np.random.default_rng(seed)))
