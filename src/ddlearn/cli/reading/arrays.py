"""NumPy's files: an archive of arrays (.npz), or one array (.npy)."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Collection
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import DataError, check_magic
from .labels import to_labels
from .samples import Samples
from .unread import (
    Piece,
    Unread,
    UnreadFile,
    cut_rows,
)

# Names under which the arrays of an archive are looked for.
SAMPLE_ARRAYS = ("X", "data", "images")
LABEL_ARRAYS = ("y", "target", "labels")


def choose_arrays(path: Path, names: Collection[str]) -> tuple[str, str | None]:
    """Return the names of the samples and of their labels among the arrays that a file has."""
    samples, labels = (next((name for name in some if name in names), None) for some in (SAMPLE_ARRAYS, LABEL_ARRAYS))
    if samples is None:
        raise DataError(
            f"{path} has the arrays {', '.join(names) or 'none'}; the samples must be called "
            f"{', '.join(SAMPLE_ARRAYS)}, their labels {', '.join(LABEL_ARRAYS)}."
        )
    return samples, labels


def _check_npz(path: Path) -> None:
    check_magic(path, b"PK\x03\x04", "archive (.npz)", "numpy.savez_compressed(path, X=samples, y=labels)")


def _read_npz(path: Path) -> Samples:
    _check_npz(path)
    with np.load(path, allow_pickle=False) as archive:
        samples_name, labels_name = choose_arrays(path, list(archive))
        labels = None if labels_name is None else to_labels(archive[labels_name], f"{path}, array {labels_name!r}")
        return to_rows(archive[samples_name], f"{path}, array {samples_name!r}")._replace(labels=labels)


def inspect_npz(path: Path) -> UnreadFile:
    """Return what the headers of an archive tell; each of its arrays is one piece, since it is packed as a whole."""
    _check_npz(path)
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        samples, labels = (
            None if name is None else _inspect_member(path, archive, name) for name in choose_arrays(path, names)
        )
    assert samples is not None
    return UnreadFile(path, samples, labels)


def _inspect_member(path: Path, archive: zipfile.ZipFile, name: str) -> Unread:
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    with archive.open(f"{name}.npy") as member:
        shape, _, dtype = readers[np.lib.format.read_magic(member)](member)
    return Unread(f"{path}, array {name!r}", shape, dtype, [Piece(path, 0, shape, partial(_load_member, path, name))])


def _load_member(path: Path, name: str) -> NDArray[Any]:
    with np.load(path, allow_pickle=False) as archive:
        return archive[name]


def _open_npy(path: Path) -> NDArray[Any]:
    check_magic(path, b"\x93NUMPY", "array (.npy)", "numpy.save(path, samples)")
    return np.load(path, mmap_mode="r", allow_pickle=False)  # what does not fit memory stays on disk


def _read_npy(path: Path) -> Samples:
    return to_rows(_open_npy(path), str(path))


def inspect_npy(path: Path) -> Unread:
    """Return what the header of an array tells."""
    array = _open_npy(path)
    return Unread(str(path), array.shape, array.dtype, cut_rows(path, array.shape, partial(_load_rows, path)))


def _load_rows(path: Path, start: int, stop: int) -> NDArray[Any]:
    return np.asarray(_open_npy(path)[start:stop])  # still on disk; a plain array to whoever looks


def to_rows(array: NDArray[Any], place: str) -> Samples:
    """Return rows of numbers; images (three axes, or four for colour) are laid out as rows."""
    if array.dtype.kind not in "buif":
        raise DataError(f"{place} holds {array.dtype}, not real numbers.")
    is_image = array.ndim == 3 or (array.ndim == 4 and array.shape[3] == 3)
    if array.ndim != 2 and not is_image:
        raise DataError(
            f"{place} has the shape {array.shape}; give (n_samples, n_features), images as (n_samples, height, width), "
            "or colour images as (n_samples, height, width, 3)."
        )
    if not is_image:
        return Samples(array.astype(to_float_dtype(array.dtype), copy=False))
    numbers = array.astype(to_float_dtype(array.dtype), copy=False)
    if array.dtype == np.uint8:  # pixels, as in image files
        numbers = numbers / np.float32(255)
    return Samples(numbers.reshape(len(array), -1), image_shape=array.shape[1:])


def to_float_dtype(dtype: np.dtype) -> np.dtype:
    """Return float32 where it holds all values of a type, and otherwise float64."""
    return np.result_type(dtype, np.float32) if dtype.itemsize <= 4 else np.dtype(np.float64)


ARRAY_READERS: dict[str, Callable[[Path], Samples]] = {".npz": _read_npz, ".npy": _read_npy}
