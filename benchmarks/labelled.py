"""Labelled data for fits: scikit-learn's digits always, the benchmark images when ``DDLEARN_DATA`` names their folder.

Only training parts are handed out by :func:`training_part`; what defaults are chosen on must never be a test set.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from .problems import find_data_folder

SEED = 0


class Labelled(NamedTuple):
    """Samples of unit norm and their classes."""

    X: NDArray[np.floating]
    y: NDArray[np.integer]

    def take(self, n_samples: int) -> Labelled:
        """Return ``n_samples`` samples, drawn with the classes in proportion."""
        if n_samples >= len(self.y):
            return self
        kept, _ = train_test_split(np.arange(len(self.y)), train_size=n_samples, stratify=self.y, random_state=SEED)
        return Labelled(self.X[kept], self.y[kept])


def read_digits(_: Path | None = None) -> Labelled:
    """Return all of scikit-learn's digits."""
    X, y = load_digits(return_X_y=True)
    return Labelled(normalize(X), y)


def _read_digits_training(_: Path) -> Labelled:
    return read_digits().take(1000)


def _read_usps(folder: Path) -> Labelled:
    arrays = np.load(folder / "usps.npz")
    return Labelled(normalize(arrays["X_train"]), arrays["y_train"].astype(int))


def _read_mnist(folder: Path) -> Labelled:
    arrays = np.load(folder / "mnist.npz")
    return Labelled(normalize(arrays["X_train"].reshape(60000, -1).astype(np.float32)), arrays["y_train"].astype(int))


def _read_yale(folder: Path) -> Labelled:
    arrays = np.load(folder / "yaleb.npz")
    X = arrays["X"].reshape(-1, 24, 4, 21, 4).mean(axis=(2, 4)).reshape(len(arrays["X"]), -1)
    faces = Labelled(normalize(X.astype(np.float32)), arrays["y"].astype(int))
    return faces.take(len(faces.y) // 2)


TRAINING_PARTS: dict[str, Callable[[Path], Labelled]] = {
    "digits": _read_digits_training,
    "usps": _read_usps,
    "mnist": _read_mnist,
    "yale": _read_yale,
}


def training_part(name: str) -> Labelled:
    """Return the training part of a data set."""
    folder = find_data_folder()
    if folder is None and name != "digits":
        raise FileNotFoundError(f"The data set {name!r} needs DDLEARN_DATA to name the folder of the benchmark images.")
    return TRAINING_PARTS[name](folder)
