"""Recognise digits that are out of place, and draw where alignment moves them.

Needs USPS (``ddlearn.datasets.load_usps`` says where to put it) and matplotlib; writes
docs/images/misaligned_digits.png and .svg.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from sklearn.preprocessing import normalize

from ddlearn import DDLClassifier
from ddlearn.alignment import warp_images
from ddlearn.datasets import load_usps
from ddlearn.experiments import draw_misaligned_digits

SHAPE = (16, 16)


def main() -> None:
    """Move the first thousand test digits by a pixel or so, and classify them with and without alignment."""
    X_train, y_train = load_usps(subset="train", return_X_y=True)
    X_test, y_test = (array[:1000] for array in load_usps(subset="test", return_X_y=True))
    maps = np.tile(np.eye(2, 3), (len(X_test), 1, 1))
    maps[:, :, 2] = np.random.default_rng(0).uniform(-1, 1, (len(X_test), 2))
    moved = warp_images(X_test, maps, SHAPE)[0]

    model = DDLClassifier(image_shape=SHAPE, random_state=0, n_jobs=-1).fit(normalize(X_train), y_train)
    for alignment in (None, "translation", "affine"):
        model.set_params(alignment=alignment)
        errors = [1 - model.score(normalize(X), y_test) for X in (X_test, moved)]
        print(f"alignment={alignment!s:12} error {errors[0]:6.2%}, digits moved by up to a pixel {errors[1]:6.2%}")

    draw_misaligned_digits(Path(__file__).parents[2] / "docs" / "images", n_jobs=-1)


if __name__ == "__main__":
    main()
