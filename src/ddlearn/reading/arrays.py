"""NumPy's files: an archive of arrays (.npz), or one array (.npy)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .errors import DataError, check_magic
from .labels import to_labels
from .samples import Samples

# Names under which the arrays of an archive are looked for.
SAMPLE_ARRAYS = ("X", "data", "images")
LABEL_ARRAYS = ("y", "target", "labels")


def _read_npz(path: Path) -> Samples:
    check_magic(path, b"PK\x03\x04", "archive (.npz)", "numpy.savez_compressed(path, X=samples, y=labels)")
    with np.load(path, allow_pickle=False) as archive:
        samples_name, labels_name = (
            next((name for name in names if name in archive), None) for names in (SAMPLE_ARRAYS, LABEL_ARRAYS)
        )
        if samples_name is None:
            raise DataError(
                f"{path} has the arrays {', '.join(archive) or 'none'}; the samples must be called "
                f"{', '.join(SAMPLE_ARRAYS)}, their labels {', '.join(LABEL_ARRAYS)}."
            )
        labels = None if labels_name is None else to_labels(archive[labels_name], f"{path}, array {labels_name!r}")
        return _from_array(archive[samples_name], f"{path}, array {samples_name!r}")._replace(labels=labels)


def _read_npy(path: Path) -> Samples:
    check_magic(path, b"\x93NUMPY", "array (.npy)", "numpy.save(path, samples)")
    # What does not fit memory stays on disk.
    return _from_array(np.load(path, mmap_mode="r", allow_pickle=False), str(path))


def _from_array(array: NDArray[Any], place: str) -> Samples:
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
