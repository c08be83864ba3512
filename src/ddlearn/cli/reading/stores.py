"""Stores of Zarr (.zarr): folders of arrays in compressed chunks."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .arrays import LABEL_ARRAYS, choose_arrays
from .errors import DataError, require
from .unread import Unread, UnreadFile, cut_rows


def inspect_zarr(path: Path) -> UnreadFile:
    """Return what the metadata of a store of samples tells: of a group with samples and labels, or of one array."""
    node = _open(path)
    if _is_array(node):
        return UnreadFile(path, _inspect_array(path, None))
    samples, labels = choose_arrays(path, sorted(node.array_keys()))
    return UnreadFile(path, _inspect_array(path, samples), None if labels is None else _inspect_array(path, labels))


def inspect_zarr_labels(path: Path) -> Unread:
    """Return what the metadata of a store of labels tells."""
    node = _open(path)
    if _is_array(node):
        return _inspect_array(path, None)
    name = next((name for name in LABEL_ARRAYS if name in node), None)
    if name is None:
        raise DataError(
            f"{path} has the arrays {', '.join(sorted(node.array_keys())) or 'none'}; labels must be called "
            f"{', '.join(LABEL_ARRAYS)}."
        )
    return _inspect_array(path, name)


def _open(path: Path) -> Any:
    return require("zarr", path, "dask").open(path, mode="r")


def _is_array(node: Any) -> bool:
    return hasattr(node, "shape")


def _open_array(path: Path, name: str | None) -> Any:
    array = _open(path) if name is None else _open(path)[name]
    stored = array.metadata.to_dict()
    codecs = [stored.get(kind) for kind in ("codecs", "filters", "compressor")]
    if "pickle" in str(codecs):  # which would run whatever the file says
        raise DataError(f"{path} is packed by pickle, which may run any code: write it with another codec.")
    return array


def _inspect_array(path: Path, name: str | None) -> Unread:
    array = _open_array(path, name)
    n_together = (array.shards or array.chunks)[0] if array.ndim else 1
    place = str(path) if name is None else f"{path}, array {name!r}"
    dtype = np.dtype(str) if array.dtype.kind == "T" else array.dtype
    return Unread(place, array.shape, dtype, cut_rows(path, array.shape, partial(_load_rows, path, name), n_together))


def _load_rows(path: Path, name: str | None, start: int, stop: int) -> NDArray[Any]:
    rows = np.asarray(_open_array(path, name)[start:stop])
    return np.array(rows.tolist(), dtype=str) if rows.dtype.kind == "T" else rows  # text of any length
