"""Data to learn from: digits that are always there, three public image sets, and a planted problem.

The public sets (USPS, MNIST, Extended Yale B) are files.  They are looked for in the folder that the environment
variable ``DDLEARN_DATA`` names, then in the cache folder, ``~/.cache/ddlearn`` (or ``$XDG_CACHE_HOME/ddlearn``).
Otherwise they are downloaded into the cache folder, which needs ``pip install "ddlearn[data]"``.  In a folder, a set is
either one NumPy archive or the files of its original distribution, and it is used only if its checksum is right.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import re
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.utils import Bunch, check_random_state

__all__ = [
    "CorruptDatasetError",
    "DatasetNotFoundError",
    "find_datasets",
    "load_digits_images",
    "load_mnist",
    "load_usps",
    "load_yaleb",
    "make_planted",
]

DATA_VARIABLE = "DDLEARN_DATA"

# The blocks that tile the stored 96 x 84 faces and keep their proportions: divisors of both sides.
_YALEB_SIZES = {(96 // side, 84 // side): side for side in (1, 2, 3, 4, 6, 12)}

# Degrees between light and camera axis that part the lighting subsets.  The usual wording is 12, 25, 50 and 77; these
# cuts avoid rounding at exactly 25 and 50 degrees and keep the two lights at 51.1 degrees in subset 3, which gives the
# usual counts.
_LIGHTING_CUTS = (12, 25.5, 52, 77)
_LIGHTINGS = (1, 2, 3, 4, 5)

_YALEB_FACE = re.compile(r"yaleB(\d\d)_P00A([+-]\d{3})E([+-]\d\d)\.pgm")
_PGM_HEADER = re.compile(rb"P5\s+(?:#[^\n]*\n\s*)*168\s+192\s+255\s")


class DatasetNotFoundError(FileNotFoundError):
    """A data set is in none of the folders and could not be downloaded; the message says what to put where.

    Examples
    --------
    >>> from ddlearn.datasets import DatasetNotFoundError
    >>> issubclass(DatasetNotFoundError, FileNotFoundError)
    True
    """


class CorruptDatasetError(OSError):
    """A file is not what its name says: damaged, cut short, or another version.

    Examples
    --------
    >>> from ddlearn.datasets import CorruptDatasetError
    >>> issubclass(CorruptDatasetError, OSError)
    True
    """


def load_digits_images(*, return_X_y: bool = False) -> Bunch | tuple[NDArray[Any], NDArray[Any]]:
    """Load scikit-learn's digits: 1797 images of 8 x 8 pixels, which need no file.

    Parameters
    ----------
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` alone.

    Returns
    -------
    Bunch, or tuple of two ndarrays
        With ``data``, float32 of shape (1797, 64), pixels from 0 (background) to 1 (ink); ``images``, the same numbers
        of shape (1797, 8, 8); ``image_shape``; ``target``, the digits; ``target_names``; and ``DESCR``.

    See Also
    --------
    load_usps : Digits of 16 x 16 pixels.
    load_mnist : Digits of 28 x 28 pixels.

    Examples
    --------
    >>> from ddlearn.datasets import load_digits_images
    >>> digits = load_digits_images()
    >>> digits.data.shape, digits.image_shape
    ((1797, 64), (8, 8))
    >>> X, y = load_digits_images(return_X_y=True)
    >>> float(X.min()), float(X.max())
    (0.0, 1.0)
    """
    from sklearn.datasets import load_digits  # late: it would make importing ddlearn slower

    digits = load_digits()
    return _bundle(
        _scale(digits.images, 16),
        digits.target,
        np.arange(10),
        "scikit-learn's digits: 1797 handwritten digits of 8 x 8 pixels, 0 (background) to 1 (ink), the test part of "
        "Alpaydin and Kaynak, Optical Recognition of Handwritten Digits, UCI, 1998.",
        return_X_y,
    )


def load_usps(
    *, subset: str = "all", data_home: str | os.PathLike[str] | None = None, return_X_y: bool = False
) -> Bunch | tuple[NDArray[Any], NDArray[Any]]:
    """Load the USPS digits: 7291 training and 2007 test images of 16 x 16 pixels, in the official order.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        Which part of the official split; "all" is "train" followed by "test".
    data_home : str, path or None, default=None
        The only folder to look in and download to.  By default the folder that the environment variable
        ``DDLEARN_DATA`` names, then ``~/.cache/ddlearn``.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` alone.

    Returns
    -------
    Bunch, or tuple of two ndarrays
        With ``data``, float32 of shape (n_samples, 256), pixels from 0 (background) to 1 (ink); ``images``, the same
        numbers of shape (n_samples, 16, 16); ``image_shape``; ``target``, the digits; ``target_names``; and ``DESCR``.

    Raises
    ------
    DatasetNotFoundError
        If the set is not in the folders and cannot be downloaded.
    CorruptDatasetError
        If a file is damaged or another version.

    Notes
    -----
    The set is ``usps.npz``, or ``zip.train.gz`` and ``zip.test.gz`` of Hastie, Tibshirani and Friedman, *The Elements
    of Statistical Learning*, whose values :math:`v` from -1 to 1 become :math:`(v + 1) / 2`.

    Examples
    --------
    >>> from ddlearn.datasets import load_usps
    >>> load_usps(subset="train").data.shape  # doctest: +SKIP
    (7291, 256)
    """
    parts = _subset_parts(subset)
    arrays = _load_arrays("usps", data_home)
    return _bundle(
        _join(arrays, "X", parts).reshape(-1, 16, 16),
        _join(arrays, "y", parts),
        np.arange(10),
        "USPS: digits from envelopes, 7291 for training and 2007 for testing, 16 x 16 pixels, 0 (background) to 1 "
        "(ink), after LeCun et al., 1990, and Hull, IEEE TPAMI 16(5), 1994.",
        return_X_y,
    )


def load_mnist(
    *, subset: str = "all", data_home: str | os.PathLike[str] | None = None, return_X_y: bool = False
) -> Bunch | tuple[NDArray[Any], NDArray[Any]]:
    """Load the MNIST digits: 60000 training and 10000 test images of 28 x 28 pixels, in the official order.

    Parameters
    ----------
    subset : {"train", "test", "all"}, default="all"
        Which part of the official split; "all" is "train" followed by "test".
    data_home : str, path or None, default=None
        The only folder to look in and download to.  By default the folder that the environment variable
        ``DDLEARN_DATA`` names, then ``~/.cache/ddlearn``.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` alone.

    Returns
    -------
    Bunch, or tuple of two ndarrays
        With ``data``, float32 of shape (n_samples, 784), pixels from 0 (background) to 1 (ink); ``images``, the same
        numbers of shape (n_samples, 28, 28); ``image_shape``; ``target``, the digits; ``target_names``; and ``DESCR``.

    Raises
    ------
    DatasetNotFoundError
        If the set is not in the folders and cannot be downloaded.
    CorruptDatasetError
        If a file is damaged or another version.

    Notes
    -----
    The set is ``mnist.npz``, or the four files ``train-images-idx3-ubyte.gz``, ``train-labels-idx1-ubyte.gz``,
    ``t10k-images-idx3-ubyte.gz`` and ``t10k-labels-idx1-ubyte.gz`` of LeCun, Cortes and Burges.

    Examples
    --------
    >>> from ddlearn.datasets import load_mnist
    >>> load_mnist(subset="test").data.shape  # doctest: +SKIP
    (10000, 784)
    """
    parts = _subset_parts(subset)
    arrays = _load_arrays("mnist", data_home)
    return _bundle(
        _scale(_join(arrays, "X", parts), 255),
        _join(arrays, "y", parts),
        np.arange(10),
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
    arrays = _load_arrays("yaleb", data_home)
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
    return _bundle(
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


def find_datasets(*, data_home: str | os.PathLike[str] | None = None) -> dict[str, dict[str, Any]]:
    """Tell where the data sets are, and whether their files are what they should be; nothing is downloaded.

    Parameters
    ----------
    data_home : str, path or None, default=None
        The only folder to look in.  By default the folder that the environment variable ``DDLEARN_DATA`` names, then
        ``~/.cache/ddlearn``.

    Returns
    -------
    dict of dict
        For "digits", "usps", "mnist" and "yaleb": ``where``, the file, the folder of several files, or None if they are
        not here; ``bytes``, their size, or None; ``checksum``, "good", "wrong" or, where there is no file, empty; and
        ``advice``, what to do to get the data, or None if they can be loaded.

    See Also
    --------
    load_usps : Loads, and downloads if need be, one of the sets.

    Examples
    --------
    >>> from ddlearn.datasets import find_datasets
    >>> found = find_datasets(data_home="no such folder")
    >>> found["digits"]["where"], found["usps"]["where"]
    ('in scikit-learn', None)
    """
    digits = {"where": "in scikit-learn", "bytes": None, "checksum": "", "advice": None}
    folders = _list_folders(data_home)
    return {"digits": digits} | {name: _describe_files(source, folders) for name, source in _SOURCES.items()}


def make_planted(
    n_samples: int = 1000,
    n_features: int = 20,
    n_components: int = 30,
    n_classes: int = 3,
    *,
    n_nonzero_coefs: int = 3,
    noise: float = 0.0,
    random_state: int | np.random.RandomState | None = None,
    return_X_y: bool = False,
) -> Bunch | tuple[NDArray[Any], NDArray[Any]]:
    """Draw samples that are sparse in a known dictionary, whose atoms tell the classes.

    Atoms are Gaussian vectors scaled to unit norm, and belong to the classes in turn.  All classes have the same number
    of samples, give or take one, in random order.  The code of a sample has exactly `n_nonzero_coefs` nonzeros: one on
    a random atom of its class, the others on random other atoms of any class.  Their sizes are uniform in [1, 2); they
    are positive on atoms of the sample's class and negative on all others.  The samples are ``codes @ dictionary`` plus
    Gaussian noise.  So the classifiers in ``coef``, +1 on a class's own atoms and -1 on the others, tell the classes
    from the codes without error: the right score leads by 2 at least.

    Parameters
    ----------
    n_samples : int, default=1000
        Number of samples.
    n_features : int, default=20
        Number of features.
    n_components : int, default=30
        Number of atoms, at least `n_classes`.
    n_classes : int, default=3
        Number of classes.
    n_nonzero_coefs : int, default=3
        Nonzeros in each code, at most `n_components`.
    noise : float, default=0.0
        Standard deviation of the noise on each feature.
    random_state : int, RandomState or None, default=None
        Decides all that is drawn; the same integer gives the same samples.
    return_X_y : bool, default=False
        Whether to return ``(data, target)`` alone.

    Returns
    -------
    Bunch, or tuple of two ndarrays
        With ``data``, float64 of shape (n_samples, n_features); ``target``, the classes; ``target_names``;
        ``dictionary`` of shape (n_components, n_features); ``codes``, CSR of shape (n_samples, n_components); ``coef``
        of shape (n_classes, n_components); ``atom_class``, the class that each atom belongs to; and ``DESCR``.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn.datasets import make_planted
    >>> planted = make_planted(200, random_state=0)
    >>> planted.data.shape, planted.codes.shape
    ((200, 20), (200, 30))
    >>> bool(np.allclose(planted.codes @ planted.dictionary, planted.data))
    True
    >>> bool(np.all((planted.codes @ planted.coef.T).argmax(axis=1) == planted.target))
    True
    """
    _check_planted(n_samples, n_features, n_components, n_classes, n_nonzero_coefs, noise)
    rng = check_random_state(random_state)
    dictionary = rng.standard_normal((n_components, n_features))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    atom_class = np.arange(n_components) % n_classes
    target = rng.permutation(np.arange(n_samples) % n_classes)
    codes = _plant_codes(target, atom_class, n_nonzero_coefs, rng)
    data = codes @ dictionary + noise * rng.standard_normal((n_samples, n_features))
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        target_names=np.arange(n_classes),
        dictionary=dictionary,
        codes=codes,
        coef=np.where(atom_class == np.arange(n_classes)[:, None], 1.0, -1.0),
        atom_class=atom_class,
        DESCR=f"Planted: {n_samples} samples, each {n_nonzero_coefs}-sparse in {n_components} atoms that belong to "
        f"{n_classes} classes, noise {noise}.",
    )


def _check_planted(
    n_samples: int, n_features: int, n_components: int, n_classes: int, n_nonzero_coefs: int, noise: float
) -> None:
    sizes = {
        "n_samples": n_samples,
        "n_features": n_features,
        "n_components": n_components,
        "n_classes": n_classes,
        "n_nonzero_coefs": n_nonzero_coefs,
    }
    for name, value in sizes.items():
        if not isinstance(value, Integral) or value < 1:
            raise ValueError(f"{name} must be an integer of at least 1, got {value!r}.")
    for name in ("n_classes", "n_nonzero_coefs"):
        if sizes[name] > n_components:
            raise ValueError(f"{name}={sizes[name]} exceeds the n_components={n_components} atoms: ask for more atoms.")
    if not 0 <= noise < np.inf:
        raise ValueError(f"noise must be a finite number of at least 0, got {noise!r}.")


def _plant_codes(
    target: NDArray[np.integer], atom_class: NDArray[np.integer], n_nonzero_coefs: int, rng: np.random.RandomState
) -> csr_array:
    indices = np.empty((len(target), n_nonzero_coefs), np.int32)
    for class_ in np.unique(target):  # class by class, to hold the lots of one class at a time
        members = np.flatnonzero(target == class_)
        own_atoms = np.flatnonzero(atom_class == class_)
        lots = rng.random_sample((len(members), len(atom_class)))
        first = own_atoms[lots[:, own_atoms].argmin(axis=1)]
        lots[np.arange(len(members)), first] = -1
        indices[members] = np.sort(lots.argsort(axis=1)[:, :n_nonzero_coefs], axis=1)
    values = rng.uniform(1, 2, indices.shape)
    values[atom_class[indices] != target[:, None]] *= -1
    row_starts = np.arange(0, indices.size + 1, n_nonzero_coefs, dtype=np.int32)
    return csr_array((values.ravel(), indices.ravel(), row_starts), shape=(len(target), len(atom_class)))


def _bundle(
    images: NDArray[np.float32],
    target: NDArray[Any],
    target_names: NDArray[Any],
    description: str,
    return_X_y: bool,
    **more: NDArray[Any],
) -> Bunch | tuple[NDArray[Any], NDArray[Any]]:
    data = images.reshape(len(images), -1)
    target = target.astype(np.int64)  # files hold uint8, in which differences of labels overflow
    if return_X_y:
        return data, target
    return Bunch(
        data=data,
        target=target,
        target_names=target_names,
        images=images,
        image_shape=images.shape[1:],
        DESCR=description,
        **more,
    )


def _scale(values: NDArray[Any], white: float) -> NDArray[np.float32]:
    return np.divide(values, white, dtype=np.float32)


def _subset_parts(subset: str) -> tuple[str, ...]:
    _check_subset(subset)
    return ("train", "test") if subset == "all" else (subset,)


def _check_subset(subset: str) -> None:
    if subset not in ("train", "test", "all"):
        raise ValueError(f"subset must be 'train', 'test' or 'all', got {subset!r}.")


def _join(arrays: Mapping[str, NDArray[Any]], name: str, parts: tuple[str, ...]) -> NDArray[Any]:
    return np.concatenate([arrays[f"{name}_{part}"] for part in parts])


def _check_face_size(size: tuple[int, int]) -> int:
    try:
        return _YALEB_SIZES[tuple(size)]  # type: ignore[index]
    except (KeyError, TypeError):
        raise ValueError(f"size must be one of {', '.join(map(str, _YALEB_SIZES))}, got {size!r}.") from None


def _check_face_split(split: str | None, subset: str, random_state: int) -> None:
    _check_subset(subset)
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
    return _scale(blocks.sum(axis=(2, 4), dtype=np.uint16), 255 * side**2)  # at most 144 * 255, which uint16 holds


# Files: where they are, how they are read, and how they are verified.


@dataclass(frozen=True)
class _Original:
    """A file of the original distribution, which holds some of the arrays."""

    name: str
    arrays: tuple[str, ...]
    read: Callable[[bytes], tuple[NDArray[Any], ...]]
    digest: str


@dataclass(frozen=True)
class _Source:
    """A data set: one archive of ours, or the original files, and where those can be downloaded."""

    title: str
    archive: str
    sha256: str
    originals: tuple[_Original, ...]
    mirrors: tuple[str, ...]


def _load_arrays(name: str, data_home: str | os.PathLike[str] | None) -> Mapping[str, NDArray[Any]]:
    source = _SOURCES[name]
    folders = _list_folders(data_home)
    files = _find_files(source, folders)
    if files:
        return _read_files(source, files)
    _download_originals(source, folders)
    return _read_originals(source, folders[-1])


def _find_files(source: _Source, folders: list[Path]) -> list[Path]:
    """List the files of the first folder that has the archive, or all original files; none if no folder has them."""
    for folder in folders:
        originals = [folder / original.name for original in source.originals]
        for files in ([folder / source.archive], originals):
            if all(file.is_file() for file in files):
                return files
    return []


def _read_files(source: _Source, files: list[Path]) -> Mapping[str, NDArray[Any]]:
    if files[0].name == source.archive:
        return _read_archive(files[0], source.sha256)
    return _read_originals(source, files[0].parent)


def _describe_files(source: _Source, folders: list[Path]) -> dict[str, Any]:
    files = _find_files(source, folders)
    if not files:
        return {"where": None, "bytes": None, "checksum": "", "advice": _advise(source, folders)}
    where = files[0] if len(files) == 1 else files[0].parent
    facts = {"where": str(where), "bytes": sum(file.stat().st_size for file in files)}
    try:
        _read_files(source, files)
    except CorruptDatasetError as error:
        return facts | {"checksum": "wrong", "advice": str(error)}
    return facts | {"checksum": "good", "advice": None}


def _advise(source: _Source, folders: list[Path]) -> str:
    names = " and ".join(original.name for original in source.originals)
    return (
        f"{source.title}: put {source.archive}, or {names}, into {' or '.join(map(str, folders))}; or install "
        f'"ddlearn[data]", and it is downloaded from {source.mirrors[0]} when it is first used.'
    )


def _list_folders(data_home: str | os.PathLike[str] | None) -> list[Path]:
    """List where to look, the folder to download to last."""
    if data_home is not None:
        return [Path(data_home).expanduser()]
    # The same folder on every platform, and with or without pooch: what was downloaded once is found again.
    cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "ddlearn"
    given = os.environ.get(DATA_VARIABLE)
    return [Path(given).expanduser(), cache] if given else [cache]


def _read_archive(path: Path, sha256: str) -> Mapping[str, NDArray[Any]]:
    content = path.read_bytes()  # once: what is verified is what is used
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise _corrupt(path, f"its SHA-256 is {found}, expected {sha256}")
    return np.load(io.BytesIO(content), allow_pickle=False)


def _read_originals(source: _Source, folder: Path) -> dict[str, NDArray[Any]]:
    arrays: dict[str, NDArray[Any]] = {}
    for original in source.originals:
        path = folder / original.name
        content = path.read_bytes()
        try:
            arrays |= _convert(original, content)
        except ValueError as error:
            raise _corrupt(path, str(error)) from error
    return arrays


def _corrupt(path: Path, reason: str) -> CorruptDatasetError:
    return CorruptDatasetError(
        f"{path} is damaged or another version: {reason}. "
        "Put a good copy in its place, or delete it and load again: it is then looked for elsewhere or downloaded."
    )


def _convert(original: _Original, content: bytes) -> dict[str, NDArray[Any]]:
    try:
        arrays = original.read(content)
    except Exception as error:  # foreign or damaged bytes can fail in any way inside zip, gzip and number parsers
        raise ValueError(f"it cannot be read as {original.name} ({type(error).__name__}: {error})") from error
    found = _digest(arrays)
    if found != original.digest:
        raise ValueError(f"the SHA-256 of the numbers in it is {found}, expected {original.digest}")
    return dict(zip(original.arrays, arrays, strict=True))


def _digest(arrays: tuple[NDArray[Any], ...]) -> str:
    """Return the SHA-256 of the types, shapes and numbers of arrays, the same on every machine."""
    total = hashlib.sha256()
    for array in arrays:
        array = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        total.update(f"{array.dtype.str}{array.shape}".encode())
        total.update(array.data)
    return total.hexdigest()


def _download_originals(source: _Source, folders: list[Path]) -> None:
    for original in source.originals:
        failures = []
        for mirror in source.mirrors:
            try:
                _download(original, mirror, folders[-1])
                break
            except ImportError as error:
                raise _not_found(source, folders, ['downloads need pooch: pip install "ddlearn[data]"']) from error
            except (OSError, ValueError) as error:  # from the network or the file system; from _convert
                failures.append(f"{mirror}{original.name}: {error}")
        else:
            raise _not_found(source, folders, failures)


def _download(original: _Original, mirror: str, folder: Path) -> None:
    """Download a file unless it is there.  It appears in the folder whole and verified, or not at all."""
    import pooch  # late: only a download needs it

    def download_and_verify(url: str, path: str, _: object) -> None:
        pooch.HTTPDownloader()(url, path, None)
        _convert(original, Path(path).read_bytes())

    # pooch downloads to a temporary file and gives it its name when the downloader has returned.
    files = pooch.Pooch(folder, mirror, registry={original.name: None})
    files.fetch(original.name, downloader=download_and_verify)


def _not_found(source: _Source, folders: list[Path], failures: list[str]) -> DatasetNotFoundError:
    names = " and ".join(original.name for original in source.originals)
    places = [f"{folder}{'' if folder.is_dir() else ' (does not exist yet)'}" for folder in folders]
    return DatasetNotFoundError(
        "\n  ".join([f"{source.title} is not on this machine and could not be downloaded:", *failures])
        + "\n  ".join([f"\nPut {source.archive} (or {names}) into one of these folders:", *places])
        + f"\nor set the environment variable {DATA_VARIABLE} to the folder that has it, "
        + f"for example: export {DATA_VARIABLE}=/path/to/folder"
    )


def _unpack(content: bytes) -> bytes:
    # Some servers declare gzip as an encoding of the transfer, and then it is already undone.
    return gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content


def _read_usps_text(content: bytes) -> tuple[NDArray[Any], ...]:
    """Read lines of a digit and 256 values from -1 to 1."""
    table = np.loadtxt(io.BytesIO(_unpack(content)), dtype=np.float32, ndmin=2)
    return (table[:, 1:] + 1) / 2, table[:, 0].astype(np.uint8)


def _read_idx(content: bytes) -> tuple[NDArray[Any], ...]:
    """Read MNIST's format: two zeros, the type (8 is uint8), the number of axes, their lengths, then the values."""
    content = _unpack(content)
    if content[:3] != b"\0\0\x08":
        raise ValueError("no idx file of bytes")
    n_axes = content[3]
    shape = np.frombuffer(content, ">u4", n_axes, offset=4)
    return (np.frombuffer(content, np.uint8, offset=4 + 4 * n_axes).reshape(shape),)


def _read_yaleb_zip(content: bytes) -> tuple[NDArray[Any], ...]:
    """Read the faces by subject and file name, each reduced to 96 x 84 by the mean of 2 x 2 pixels, rounded half up."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        paths = {path.rpartition("/")[2]: path for path in archive.namelist()}
        # The pattern leaves out ambient light, images marked .bad, and what file managers add.
        faces = [match for match in map(_YALEB_FACE.fullmatch, sorted(paths)) if match]
        images = [_halve(_read_pgm(archive.read(paths[face.string]))) for face in faces]
    subject, azimuth, elevation = np.array([face.groups() for face in faces]).astype(np.int16).T
    person = np.unique(subject, return_inverse=True)[1]
    return np.stack(images), person.astype(np.uint8), subject.astype(np.uint8), azimuth, elevation


def _read_pgm(content: bytes) -> NDArray[np.uint8]:
    header = _PGM_HEADER.match(content)
    if header is None:
        raise ValueError("no binary PGM image of 192 x 168 pixels")
    return np.frombuffer(content, np.uint8, offset=header.end()).reshape(192, 168)


def _halve(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    height, width = image.shape
    total = image.reshape(height // 2, 2, width // 2, 2).sum(axis=(1, 3), dtype=np.uint16)
    return ((total + 2) // 4).astype(np.uint8)


# What is verified.  `sha256` is that of our archive; no address of it is public, so archives are only found in folders.
# `digest` is that of the arrays which an original file is converted to (see _digest), computed from our archive: we
# know no checksum of the original files themselves, and this way a file from any mirror, packed in any way, will do.
# The addresses are those in wide use (for MNIST one of torchvision's, for USPS the book's page, for the faces their
# authors' page).  None could be tried where this was written, and the faces are reported to be gone from theirs
# (tensorly/Proceedings_IEEE_companion_notebooks, issue 6).
_SOURCES = {
    "usps": _Source(
        title="USPS",
        archive="usps.npz",
        sha256="5ef472409c949aacd83a55ec0470fc65a5a1f9933360e7035a442e0dec6896c7",
        originals=(
            _Original(
                "zip.train.gz",
                ("X_train", "y_train"),
                _read_usps_text,
                "f175e99738c3e6e022f1f5b124cfee0c4819251805ba25557da6a6ba215f2357",
            ),
            _Original(
                "zip.test.gz",
                ("X_test", "y_test"),
                _read_usps_text,
                "79021f607637959c39f7c84174ab940f1e1c13c6cc9e286ab03468bf068aec22",
            ),
        ),
        mirrors=(
            "https://hastie.su.domains/ElemStatLearn/datasets/",
            "https://web.stanford.edu/~hastie/ElemStatLearn/datasets/",
        ),
    ),
    "mnist": _Source(
        title="MNIST",
        archive="mnist.npz",
        sha256="d2fc8bab397b964798b4c839bd1e705e10a4bb65f4d56a88002229d145796751",
        originals=(
            _Original(
                "train-images-idx3-ubyte.gz",
                ("X_train",),
                _read_idx,
                "157fe16da1dbced4a1376f4be5df2d665d51d11177dcaf7aa4848b1ff033343f",
            ),
            _Original(
                "train-labels-idx1-ubyte.gz",
                ("y_train",),
                _read_idx,
                "e6a049a9876d2010dddfc2322bb8cad03f5934de9a0b5012c7251eca5b5a7201",
            ),
            _Original(
                "t10k-images-idx3-ubyte.gz",
                ("X_test",),
                _read_idx,
                "fbf9701b11f5659e6366884b0bbf01ea129fb049e3239251eddb226ada72239e",
            ),
            _Original(
                "t10k-labels-idx1-ubyte.gz",
                ("y_test",),
                _read_idx,
                "6a90c4ebf8538b9b76438e5dddb0f5afc42d636e8e259d894485f9314cdad47d",
            ),
        ),
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist/",
            "https://storage.googleapis.com/cvdf-datasets/mnist/",
        ),
    ),
    "yaleb": _Source(
        title="Extended Yale B",
        archive="yaleb.npz",
        sha256="c72244fc7a3088143402af5b23de20519de6d25d7f876684156e45075d0f932f",
        originals=(
            _Original(
                "CroppedYale.zip",
                ("X", "y", "subject", "azimuth", "elevation"),
                _read_yaleb_zip,
                "89040d9012ce1dad6aa332bfd793ccb1b1009744e0321757bf88682f7466f603",
            ),
        ),
        mirrors=("http://vision.ucsd.edu/extyaleb/CroppedYaleBZip/",),
    ),
}
