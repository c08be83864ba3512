"""Files of arrays: NumPy's .npy and .npz."""

from __future__ import annotations

import zipfile
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .labels import check_label_type, to_labels
from .samples import DataError, Samples, check_magic, check_size

# Names of the arrays in an archive or a store.
_SAMPLE_ARRAYS = ("X", "data", "images")
_LABEL_ARRAYS = ("y", "target", "labels")
_MOST_NAMES = 20  # in a message


def read_npz(path: Path) -> Samples:
    """Read an archive with samples and perhaps labels."""
    check_magic(path, b"PK\x03\x04", "archive (.npz)", "numpy.savez_compressed(path, X=samples, y=labels)")
    with zipfile.ZipFile(path) as archive:
        X, y = _choose_arrays(path, [name.removesuffix(".npy") for name in archive.namelist()])
        _check_member(path, archive, X)
        if y is not None:
            check_label_type(_check_member(path, archive, y), _name_member(path, y))
    with np.load(path, allow_pickle=False) as arrays:
        labels = None if y is None else to_labels(arrays[y], _name_member(path, y))
        return to_rows(arrays[X], _name_member(path, X))._replace(labels=labels)


def read_npy(path: Path) -> Samples:
    """Open an array, which stays on disk, since it may be larger than the memory."""
    check_magic(path, b"\x93NUMPY", "array (.npy)", "numpy.save(path, samples)")
    return to_rows(np.load(path, mmap_mode="r", allow_pickle=False), str(path))


def to_rows(array: NDArray[Any], place: str) -> Samples:
    """Return one row per sample; images (three axes, or four for colour) are flattened."""
    if array.dtype.kind not in "buif":
        raise DataError(f"{place} has type {array.dtype}, not real numbers.")
    is_image = array.ndim == 3 or (array.ndim == 4 and array.shape[3] == 3)
    if array.ndim != 2 and not is_image:
        raise DataError(
            f"{place} has shape {array.shape}; give (n_samples, n_features), images as (n_samples, height, width), "
            "or colour images as (n_samples, height, width, 3)."
        )
    numbers = array.astype(to_float_dtype(array.dtype), copy=False)
    if not is_image:
        return Samples(numbers)
    if array.dtype == np.uint8:  # pixels, as in image files
        numbers = numbers / np.float32(255)
    return Samples(numbers.reshape(len(array), -1), image_shape=array.shape[1:])


def to_float_dtype(dtype: np.dtype) -> np.dtype:
    """Return float32 if it holds all values of a type, and otherwise float64."""
    return np.result_type(dtype, np.float32) if dtype.itemsize <= 4 else np.dtype(np.float64)


def _choose_arrays(path: Path, names: Collection[str]) -> tuple[str, str | None]:
    """Return the names of the samples and of the labels among the arrays of an archive."""
    samples, labels = (next((name for name in some if name in names), None) for some in (_SAMPLE_ARRAYS, _LABEL_ARRAYS))
    if samples is None:
        known = ", ".join([*names][:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "") or "none"
        expected, theirs = ", ".join(_SAMPLE_ARRAYS), ", ".join(_LABEL_ARRAYS)
        raise DataError(f"{path} has the arrays {known}; the samples must be called {expected}, their labels {theirs}.")
    return samples, labels


def _check_member(path: Path, archive: zipfile.ZipFile, name: str) -> np.dtype:
    """Return the type of an array, from its header, unless it holds objects or would exhaust the memory."""
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    with archive.open(f"{name}.npy") as member:
        shape, _, dtype = readers[np.lib.format.read_magic(member)](member)
    if dtype.hasobject:
        raise DataError(f"{path}, array {name!r} holds Python objects, which are never read: save {name}.astype(str).")
    check_size(_name_member(path, name), shape, dtype.itemsize, "use .npy, which stays on disk")
    return dtype


def _name_member(path: Path, name: str) -> str:
    return f"{path}, array {name!r}"
