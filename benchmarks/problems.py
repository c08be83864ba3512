"""The coding problems, and the one grader of everybody's codes.

Real images when the environment variable ``DDLEARN_DATA`` names a folder with ``usps.npz``, ``mnist.npz`` and
``yaleb.npz``, synthetic ones of the same sizes otherwise.  A problem depends on its size and on a fixed seed only, so
every process that makes it has the same one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

DATA_VARIABLE = "DDLEARN_DATA"
SEED = 20110620
# Atoms are samples moved by this much of their norm: close to images, yet no sample is its own atom.
ATOM_NOISE = 0.05
N_BLOBS = 6
GRADER_ROWS = 2048

Floats = NDArray[np.floating]


@dataclass(frozen=True)
class Size:
    """The dimensions of a problem.

    Attributes
    ----------
    n_samples, image_shape, n_components, n_nonzero_coefs : int and tuple of int
        N, the shape whose product is the number of features, K and T.
    is_digits : bool
        Digits have harder targets than faces.
    read : callable or None
        Reads the real images, one a row, from the data folder.
    """

    n_samples: int
    image_shape: tuple[int, int]
    n_components: int
    n_nonzero_coefs: int
    is_digits: bool
    read: Callable[[Path], Floats] | None = None

    @property
    def n_features(self) -> int:
        """Number of pixels."""
        return self.image_shape[0] * self.image_shape[1]


def _read_usps(folder: Path) -> Floats:
    return np.load(folder / "usps.npz")["X_train"]


def _read_mnist(folder: Path) -> Floats:
    return np.load(folder / "mnist.npz")["X_train"][:20000].reshape(20000, -1)


def _read_yale(folder: Path) -> Floats:
    faces = np.load(folder / "yaleb.npz")["X"]
    return faces.reshape(-1, 24, 4, 21, 4).mean(axis=(2, 4)).reshape(len(faces), -1)


SIZES = {
    "usps-300-3": Size(7291, (16, 16), 300, 3, True, _read_usps),
    "usps-500-5": Size(7291, (16, 16), 500, 5, True, _read_usps),
    "mnist-500-5": Size(20000, (28, 28), 500, 5, True, _read_mnist),
    "yale-600-5": Size(2414, (24, 21), 600, 5, False, _read_yale),
}
# For a look at whether the benchmark runs; too small to say anything about speed.
QUICK_SIZES = {"quick-40-3": Size(600, (8, 8), 40, 3, True)}


@dataclass(frozen=True)
class Problem:
    """Samples to code with the atoms of a dictionary.

    Attributes
    ----------
    X : ndarray of shape (n_samples, n_features)
        Samples of unit norm.
    dictionary : ndarray of shape (n_components, n_features)
        Atoms of unit norm.
    n_nonzero_coefs : int
        The budget T.
    """

    X: Floats
    dictionary: Floats
    n_nonzero_coefs: int

    def head(self, n_samples: int) -> Problem:
        """Return the problem of the first samples only."""
        return replace(self, X=self.X[:n_samples])


@dataclass(frozen=True)
class Grade:
    """How well codes solve a problem.

    Attributes
    ----------
    mean_squared_residual : float
        Mean over the samples of the squared norm of what the code leaves over.
    mean_nonzeros, max_nonzeros : float and int
        Nonzeros a row.
    """

    mean_squared_residual: float
    mean_nonzeros: float
    max_nonzeros: int


def find_data_folder() -> Path | None:
    """Return the folder of the real images, None for synthetic ones."""
    folder = os.environ.get(DATA_VARIABLE)
    return Path(folder) if folder else None


def make_blobs(n_samples: int, image_shape: tuple[int, int], rng: np.random.Generator) -> Floats:
    """Return images that are sums of a few soft spots: smooth, not negative and alike, as digits and faces are."""
    spots = (n_samples, N_BLOBS, 1)
    profiles = []
    for length in image_shape:
        place, width = rng.uniform(0.1, 0.9, spots), rng.uniform(0.06, 0.2, spots)
        profiles.append(np.exp(-0.5 * ((np.arange(length) / length - place) / width) ** 2))
    down, across = profiles
    brightness = rng.uniform(0.3, 1.0, spots)
    return (np.swapaxes(down * brightness, 1, 2) @ across).reshape(n_samples, -1)


def make_problem(name: str, dtype: DTypeLike = np.float64, folder: Path | None = None) -> Problem:
    """Return the problem of that name.

    Parameters
    ----------
    name : str
        A key of ``SIZES`` or ``QUICK_SIZES``.
    dtype : dtype, default=float64
        What samples and atoms are rounded to, after both have been made in float64.
    folder : Path or None, default=None
        Where the real images are; None for synthetic ones.

    Returns
    -------
    Problem
        The same one for the same arguments.
    """
    size = (SIZES | QUICK_SIZES)[name]
    rng = np.random.default_rng(SEED)
    is_real = folder is not None and size.read is not None
    images = size.read(folder) if is_real else make_blobs(size.n_samples, size.image_shape, rng)
    X = _normalise(np.asarray(images, np.float64))
    chosen = X[rng.choice(len(X), size.n_components, replace=False)]
    noise = rng.standard_normal(chosen.shape) * (ATOM_NOISE / np.sqrt(size.n_features))
    dictionary = _normalise(chosen + noise)
    return Problem(X.astype(dtype), dictionary.astype(dtype), size.n_nonzero_coefs)


def _normalise(rows: Floats) -> Floats:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.where(norms > 0, norms, 1)


def grade(problem: Problem, codes: csr_array) -> Grade:
    """Grade codes in float64, whatever they were computed in; no contender grades itself.

    Parameters
    ----------
    problem : Problem
        What was to be solved.
    codes : csr_array of shape (n_samples, n_components)
        The codes.

    Returns
    -------
    Grade
        Residual and nonzeros.
    """
    codes = csr_array(codes, dtype=np.float64, copy=True)
    codes.eliminate_zeros()
    dictionary = problem.dictionary.astype(np.float64)
    squared_residual = 0.0
    for start in range(0, len(problem.X), GRADER_ROWS):  # so that no second copy of all samples is needed
        rows = slice(start, start + GRADER_ROWS)
        squared_residual += np.sum((problem.X[rows] - codes[rows] @ dictionary) ** 2)
    counts = np.diff(codes.indptr)
    return Grade(float(squared_residual / len(problem.X)), float(counts.mean()), int(counts.max()))
