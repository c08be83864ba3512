"""Files of arrays: NumPy's .npy and .npz, and Zarr stores (.zarr)."""

from __future__ import annotations

import zipfile
from collections.abc import Collection
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .labels import check_texts, to_labels
from .lazy_arrays import LazyArray, LazyChunk, LazyFile, cut_rows
from .samples import DataError, Samples, check_magic, check_size, require

# Names of the arrays in an archive or a store.
_SAMPLE_ARRAYS = ("X", "data", "images")
_LABEL_ARRAYS = ("y", "target", "labels")


def read_npz(path: Path) -> Samples:
    """Read an archive with samples and perhaps labels."""
    file = inspect_npz(path)
    for one in (file.samples, *([] if file.labels is None else [file.labels])):
        check_size(one.place, one.shape, one.dtype.itemsize, "use .npy, which stays on disk")
    labels = None if file.labels is None else to_labels(file.labels.chunks[0].read(), file.labels.place)
    return to_rows(file.samples.chunks[0].read(), file.samples.place)._replace(labels=labels)


def read_npy(path: Path) -> Samples:
    """Open an array, which stays on disk."""
    return to_rows(_open_npy(path), str(path))


def inspect_npz(path: Path) -> LazyFile:
    """Read the headers of an archive; each of its arrays is one chunk, since it is compressed as a whole."""
    check_magic(path, b"PK\x03\x04", "archive (.npz)", "numpy.savez_compressed(path, X=samples, y=labels)")
    with zipfile.ZipFile(path) as archive:
        names = [name.removesuffix(".npy") for name in archive.namelist()]
        samples, labels = _choose_arrays(path, names)
        lazy = {name: _inspect_member(path, archive, name) for name in (samples, labels) if name is not None}
    return LazyFile(path, lazy[samples], None if labels is None else lazy[labels])


def inspect_npy(path: Path) -> LazyArray:
    """Read the header of an array."""
    array = _open_npy(path)
    return LazyArray(str(path), array.shape, array.dtype, cut_rows(path, array.shape, partial(_load_npy, path)))


def inspect_zarr(path: Path) -> LazyFile:
    """Read the metadata of a store of samples: one array, or a group with samples and perhaps labels."""
    names = _list_zarr(path)
    if names is None:
        return LazyFile(path, _inspect_zarr_array(path, None))
    samples, labels = _choose_arrays(path, names)
    lazy_labels = None if labels is None else _inspect_zarr_array(path, labels)
    return LazyFile(path, _inspect_zarr_array(path, samples), lazy_labels)


def inspect_zarr_labels(path: Path) -> LazyArray:
    """Read the metadata of a store of labels."""
    names = _list_zarr(path)
    name = next((name for name in _LABEL_ARRAYS if name in (names or ())), None)
    if names is not None and name is None:
        known, expected = ", ".join(names) or "none", ", ".join(_LABEL_ARRAYS)
        raise DataError(f"{path} has the arrays {known}; labels must be called {expected}.")
    return _inspect_zarr_array(path, name)


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
    """Return the names of the samples and of the labels among the arrays of a file."""
    samples, labels = (next((name for name in some if name in names), None) for some in (_SAMPLE_ARRAYS, _LABEL_ARRAYS))
    if samples is None:
        known, expected, theirs = ", ".join(names) or "none", ", ".join(_SAMPLE_ARRAYS), ", ".join(_LABEL_ARRAYS)
        raise DataError(f"{path} has the arrays {known}; the samples must be called {expected}, their labels {theirs}.")
    return samples, labels


def _inspect_member(path: Path, archive: zipfile.ZipFile, name: str) -> LazyArray:
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    with archive.open(f"{name}.npy") as member:
        shape, _, dtype = readers[np.lib.format.read_magic(member)](member)
    if dtype.hasobject:
        raise DataError(f"{path}, array {name!r} holds Python objects, which are never read: save {name}.astype(str).")
    chunk = LazyChunk(path, 0, shape, partial(_load_member, path, name))
    return LazyArray(f"{path}, array {name!r}", shape, dtype, [chunk])


def _load_member(path: Path, name: str) -> NDArray[Any]:
    with np.load(path, allow_pickle=False) as archive:
        return archive[name]


def _open_npy(path: Path) -> NDArray[Any]:
    check_magic(path, b"\x93NUMPY", "array (.npy)", "numpy.save(path, samples)")
    return np.load(path, mmap_mode="r", allow_pickle=False)  # may be larger than the memory


def _load_npy(path: Path, start: int, stop: int) -> NDArray[Any]:
    return np.asarray(_open_npy(path)[start:stop])  # still on disk, but of the plain type that Dask expects


def _list_zarr(path: Path) -> list[str] | None:
    """Return the names of the arrays in a group, or None if the store is one array."""
    node = require("zarr", path, "dask").open(path, mode="r")
    return None if hasattr(node, "shape") else sorted(node.array_keys())


def _open_zarr_array(path: Path, name: str | None) -> Any:
    node = require("zarr", path, "dask").open(path, mode="r")
    array = node if name is None else node[name]
    stored = array.metadata.to_dict()
    codecs = [stored.get(kind) for kind in ("codecs", "filters", "compressor")]
    if "pickle" in str(codecs):  # unpickling can run arbitrary code
        raise DataError(f"{path} is encoded by pickle, which can run arbitrary code: write it with another codec.")
    return array


def _inspect_zarr_array(path: Path, name: str | None) -> LazyArray:
    array = _open_zarr_array(path, name)
    n_together = (array.shards or array.chunks)[0] if array.ndim else 1
    place = str(path) if name is None else f"{path}, array {name!r}"
    dtype = np.dtype(str) if array.dtype.kind == "T" else array.dtype
    check_size(place, (n_together, *array.shape[1:]), dtype.itemsize, "this is one chunk of it")
    chunks = cut_rows(path, array.shape, partial(_load_zarr, path, name), n_together)
    return LazyArray(place, array.shape, dtype, chunks)


def _load_zarr(path: Path, name: str | None, start: int, stop: int) -> NDArray[Any]:
    rows = np.asarray(_open_zarr_array(path, name)[start:stop])
    if rows.dtype.kind != "T":
        return rows
    texts = rows.tolist()  # of variable length
    check_texts(path, texts)
    return np.array(texts, dtype=str)
