"""Faces behind a square, and faces with random pixels, after the protocol of Wright et al. (PAMI 2009)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

import numpy as np
from benchsets import load_yaleb
from sklearn.datasets import load_sample_image

from .images import SEED, Floats, Split, to_rows


@cache
def _make_occluder(side: int) -> Floats:
    """Return an unrelated picture, square, with grey levels from 0 to 1."""
    from PIL import Image

    grey = Image.fromarray(load_sample_image("china.jpg")).convert("L")
    square = grey.crop((0, 0, min(grey.size), min(grey.size)))
    return np.asarray(square.resize((side, side)), np.float32) / 255


def occlude(images: Floats, level: float, rng: np.random.Generator) -> Floats:
    """Hide a square of each image behind an unrelated picture.

    Parameters
    ----------
    images : ndarray of shape (n_images, height, width)
        Images from grey level 0.
    level : float
        Share of the pixels that are hidden, from 0 to 1; the side of the square is rounded down.
    rng : numpy.random.Generator
        Decides where the square is, anew for each image.

    Returns
    -------
    ndarray of shape (n_images, height, width)
        The disturbed images.  The picture is scaled to the largest grey level of all images.
    """
    _, height, width = images.shape
    side = int(np.sqrt(level * height * width))
    occluded = images.copy()
    if side == 0:
        return occluded
    occluder = _make_occluder(side) * images.max()
    tops = rng.integers(height - side + 1, size=len(images))
    lefts = rng.integers(width - side + 1, size=len(images))
    for image, top, left in zip(occluded, tops, lefts, strict=True):
        image[top : top + side, left : left + side] = occluder
    return occluded


def corrupt(images: Floats, level: float, rng: np.random.Generator) -> Floats:
    """Replace random pixels by random values.

    Parameters
    ----------
    images : ndarray of shape (n_images, height, width)
        Images from grey level 0.
    level : float
        Share of the pixels that are replaced, from 0 to 1.
    rng : numpy.random.Generator
        Decides which pixels, and their values, uniform between 0 and the largest of the same image.

    Returns
    -------
    ndarray of shape (n_images, height, width)
        The disturbed images.
    """
    corrupted = images.copy()
    n_pixels = images[0].size
    n_replaced = round(level * n_pixels)
    for pixels in corrupted.reshape(len(images), n_pixels):
        replaced = rng.choice(n_pixels, n_replaced, replace=False)
        pixels[replaced] = rng.uniform(0, pixels.max(), n_replaced)
    return corrupted


DISTURBANCES: dict[str, Callable[[Floats, float, np.random.Generator], Floats]] = {
    "occlusion": occlude,
    "corruption": corrupt,
}


class Condition(NamedTuple):
    """What is done to the test faces; at level 0 nothing is, of whatever kind."""

    kind: str
    level: float

    def apply(self, images: Floats) -> Floats:
        """Return the images, disturbed; the same at every call, so that all methods see the same."""
        if self.level == 0:
            return images
        seed = [SEED, list(DISTURBANCES).index(self.kind), round(100 * self.level)]
        return DISTURBANCES[self.kind](images, self.level, np.random.default_rng(seed))


def list_conditions(kind: str, levels: Sequence[float]) -> list[Condition]:
    """Return what is done at each level."""
    return [Condition(kind, level) if level else Condition("none", 0.0) for level in levels]


def load_lit_faces(lights: tuple[int, ...], hidden: float, seed: int) -> Split:
    """Return faces of 96 x 84 pixels to learn from with light from the front, to test from aside and partly hidden."""
    size = (96, 84)
    load = partial(load_yaleb, size=size, split="lighting", test_lights=lights, return_X_y=True)
    (X_train, y_train), (X_test, y_test) = (load(subset=subset) for subset in ("train", "test"))
    images = Condition("occlusion", hidden).apply(X_test.reshape(-1, *size))
    return Split(to_rows(X_train), y_train, to_rows(images), y_test)
