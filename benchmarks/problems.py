"""The coding problems, and the one grader of all codes.

Real images when the environment variable ``DDLEARN_DATA`` names a folder with ``usps.npz``, ``mnist.npz`` and
``yaleb.npz``, synthetic ones of the same sizes otherwise.  A problem depends on its size and on a fixed seed only, so
every process that makes it has the same one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy.sparse import csr_array

DATA_VARIABLE = "DDLEARN_DATA"
SEED = 20110620
# Atoms are samples moved by this much of their norm: close to images, yet no sample is its own atom.
ATOM_NOISE = 0.05
N_BLOBS = 6
GRADER_ROWS = 2048
# Images and iterations of K-SVD that the atoms are learned with: enough for realistic codes of the elastic net, about
# 10 to 15 nonzeros on digits.
LEARNED_FROM = 5000
LEARNING_TURNS = 3

Floats = NDArray[np.floating]


class Penalty(NamedTuple):
    """What codes cost: ``lasso`` times the sum of their sizes, and ``ridge / 2`` times that of their squares."""

    lasso: float
    ridge: float


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
    penalty : Penalty or None
        A penalty on codes in place of the budget; atoms are learned then, since those of samples explain too much.
    """

    n_samples: int
    image_shape: tuple[int, int]
    n_components: int
    n_nonzero_coefs: int
    is_digits: bool
    read: Callable[[Path], Floats] | None = None
    penalty: Penalty | None = None

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
# Few samples, since some peers take milliseconds for each; the first of those that atoms are learned from.
NET, LASSO = Penalty(0.1, 0.05), Penalty(0.1, 0.0)
PENALISED_SIZES = {
    f"{name}-{word}": Size(2000, shape, n_components, n_components, True, read, penalty)
    for word, penalty in (("net", NET), ("lasso", LASSO))
    for name, shape, n_components, read in (
        ("usps-300", (16, 16), 300, _read_usps),
        ("usps-1000", (16, 16), 1000, _read_usps),
        ("usps-2000", (16, 16), 2000, _read_usps),
        ("mnist-500", (28, 28), 500, _read_mnist),
    )
}
SIZES |= PENALISED_SIZES
# For a look at whether the benchmark runs; too small to say anything about speed.
QUICK_SIZES = {
    "quick-40-3": Size(600, (8, 8), 40, 3, True),
    "quick-40-net": Size(600, (8, 8), 40, 40, True, penalty=NET),
}


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
    penalty : Penalty or None
        A penalty on codes in place of it.
    is_positive : bool
        Whether codes may not be negative.
    """

    X: Floats
    dictionary: Floats
    n_nonzero_coefs: int
    penalty: Penalty | None = None
    is_positive: bool = False

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
    largest_gap : float or None
        With a penalty, the largest duality gap of a row, relative to half its squared norm.
    """

    mean_squared_residual: float
    mean_nonzeros: float
    max_nonzeros: int
    largest_gap: float | None = None


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
    n_images = size.n_samples if size.penalty is None else LEARNED_FROM
    images = size.read(folder) if is_real else make_blobs(n_images, size.image_shape, rng)
    if size.penalty is not None:
        return _make_penalised(size, np.asarray(images[:n_images], np.float64), dtype)
    X = normalise(np.asarray(images, np.float64))
    chosen = X[rng.choice(len(X), size.n_components, replace=False)]
    noise = rng.standard_normal(chosen.shape) * (ATOM_NOISE / np.sqrt(size.n_features))
    dictionary = normalise(chosen + noise)
    return Problem(X.astype(dtype), dictionary.astype(dtype), size.n_nonzero_coefs)


def _make_penalised(size: Size, images: Floats, dtype: DTypeLike) -> Problem:
    from ddlearn import KSVD

    X = normalise(images)
    learner = KSVD(size.n_components, max_iter=LEARNING_TURNS, random_state=SEED % 2**31)
    dictionary = learner.fit(X).components_
    return Problem(X[: size.n_samples].astype(dtype), dictionary.astype(dtype), size.n_nonzero_coefs, size.penalty)


def normalise(rows: Floats) -> Floats:
    """Return the rows with unit norm."""
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
    gap = None if problem.penalty is None else _find_largest_gap(problem, codes, problem.penalty)
    return Grade(float(squared_residual / len(problem.X)), float(counts.mean()), int(counts.max()), gap)


def _find_largest_gap(problem: Problem, codes: csr_array, penalty: Penalty) -> float:
    """Return the largest duality gap; a ridge is a lasso with further features, in which the sample is zero."""
    X, dictionary, x = problem.X.astype(np.float64), problem.dictionary.astype(np.float64), codes.toarray()
    residual = X - x @ dictionary
    squared = np.vecdot(residual, residual) + penalty.ridge * np.vecdot(x, x)
    slopes = residual @ dictionary.T - penalty.ridge * x
    steepest = (slopes if problem.is_positive else np.abs(slopes)).max(axis=1)
    feasible = penalty.lasso / np.maximum(steepest, penalty.lasso)
    primal = squared / 2 + penalty.lasso * np.abs(x).sum(axis=1)
    dual = feasible * np.vecdot(residual, X) - feasible**2 * squared / 2
    return float(np.max((primal - dual) / (np.vecdot(X, X) / 2)))
