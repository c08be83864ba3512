"""Data in parts, such as ``parts/X-*.npy`` or a Zarr store, as Dask arrays: only headers are read here."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...parallel import PART_ROWS, TILE_ROWS
from .arrays import inspect_npy, inspect_npz, inspect_zarr, inspect_zarr_labels, to_rows
from .columns import Wanted, refuse_columns
from .labels import read_labels, to_labels
from .lazy_arrays import LazyArray, LazyChunk, LazyFile
from .parquet import inspect_parquet
from .samples import DataError, Samples, as_data_error, check_regular, list_differences, require

_GLOB = re.compile(r"[*?\[]")
_ARRAY_INSPECTORS: dict[str, Callable[[Path], LazyFile]] = {
    ".npy": lambda path: LazyFile(path, inspect_npy(path)),
    ".npz": inspect_npz,
    ".zarr": inspect_zarr,
}
_LABEL_INSPECTORS: dict[str, Callable[[Path], LazyArray]] = {".npy": inspect_npy, ".zarr": inspect_zarr_labels}
PART_SUFFIXES = (*_ARRAY_INSPECTORS, ".parquet")


def is_in_parts(path: str | os.PathLike[str]) -> bool:
    """Whether a path is a pattern of files, with ``*``, ``?`` or ``[``, or a Zarr store."""
    if Path(path).exists():
        return Path(path).suffix.lower() == ".zarr"
    return _GLOB.search(os.fspath(path)) is not None


def read_parts(
    pattern: str | os.PathLike[str],
    labels: str | os.PathLike[str] | None,
    wanted: Wanted,
) -> Samples:
    """Return data in parts as Dask arrays; see ``read_data``."""
    files = [_inspect(path, wanted) for path in find_parts(pattern)]
    _check_alike(files)
    rows = [to_rows(file.samples.make_row(), file.samples.place) for file in files]
    X = _assemble(
        [chunk for file in files for chunk in file.samples.chunks],
        _load_samples,
        np.result_type(*(row.X.dtype for row in rows)),
        rows[0].X.shape[1:],
    )
    y = _read_label_parts(labels, files) if labels is not None else _assemble_labels([file.labels for file in files])
    if y is not None and y.chunks != X.chunks[:1]:
        y = y.rechunk(X.chunks[:1])
    samples, columns = Samples(X, y, files[0].feature_names, rows[0].image_shape), files[0].columns
    if columns is None:
        return samples
    return samples._replace(label_name=columns.label_name, is_guessed=columns.is_guessed, notes=columns.notes)


def spread(samples: Samples, n_chunks: int) -> Samples:
    """Return samples as Dask arrays with at least that number of chunks, if there are enough rows."""
    X: Any
    labels: Any
    X, labels = (_cut(one) if isinstance(one, np.ndarray) else one for one in (samples.X, samples.labels))
    samples = samples._replace(X=X, labels=labels)
    heights = X.chunks[0]
    most = -(-sum(heights) // n_chunks)
    if len(heights) >= n_chunks or most >= max(heights):
        return samples
    shares = {height: -(-height // most) for height in heights}
    cut = tuple((height + share) // shares[height] for height in heights for share in range(shares[height]))
    return samples._replace(X=X.rechunk({0: cut}), labels=None if labels is None else labels.rechunk({0: cut}))


def iterate_chunks(array: Any) -> Iterator[NDArray[Any]]:
    """Yield the chunks of a Dask array, one in memory at a time, or a NumPy array as a whole."""
    if isinstance(array, np.ndarray):
        yield array
        return
    for chunk in range(array.numblocks[0]):
        yield array.blocks[chunk].compute(scheduler="synchronous")


def iterate_tiles(array: Any) -> Iterator[NDArray[Any]]:
    """Yield the chunks of an array cut where tiles of rows end, so that results are those of one file, bit for bit."""
    rest = None
    for chunk in iterate_chunks(array):
        rows = chunk if rest is None else np.concatenate([rest, chunk])
        n_whole = len(rows) - len(rows) % TILE_ROWS
        if n_whole:
            yield rows[:n_whole]
        rest = rows[n_whole:]
    if rest is not None and len(rest):
        yield rest


def find_empty_labels(labels: Any) -> tuple[int, int]:
    """Return the number of labels that are empty text, and the row of the first."""
    if labels.dtype.kind not in "UO":
        return 0, 0
    empty = [np.flatnonzero(chunk == "") for chunk in iterate_chunks(labels)]
    starts = np.cumsum([0, *labels.chunks[0]]) if hasattr(labels, "chunks") else [0]
    rows = np.concatenate([start + found for start, found in zip(starts, empty, strict=False)])
    return len(rows), int(rows[0]) if len(rows) else 0


def find_parts(pattern: str | os.PathLike[str]) -> list[Path]:
    """Return files in natural order, as absolute paths, since other processes may read them."""
    text = os.fspath(pattern)
    found = [text] if os.path.exists(text) else _match(text)
    if not found:
        raise DataError(f"{text}: there is no such file.")

    def split(path: str) -> list[Any]:  # into text and numbers in alternation, to have part-2 before part-10
        return [int(text) if number % 2 else text for number, text in enumerate(re.split(r"([0-9]+)", path))]

    return [Path(path).absolute() for path in sorted(found, key=split)]


def _match(pattern: str) -> list[str]:
    """Return the files of a pattern; ``**`` does not follow links, which may lead anywhere."""
    if "**" not in pattern:
        return glob.glob(pattern)
    parts = Path(pattern).parts
    n_fixed = next(place for place, part in enumerate(parts) if _GLOB.search(part))
    root = Path(*parts[:n_fixed])
    found = root.glob(str(Path(*parts[n_fixed:])))
    return [str(path) for path in found if not any(part.startswith(".") for part in path.relative_to(root).parts)]


def _inspect(path: Path, wanted: Wanted) -> LazyFile:
    suffix = path.suffix.lower()
    if suffix not in PART_SUFFIXES:
        raise DataError(f"{path}: parts must be {', '.join(PART_SUFFIXES)}, not {suffix!r}.")
    if suffix != ".parquet":
        refuse_columns(path, wanted)
    with as_data_error(path):
        if suffix != ".zarr":
            check_regular(path)
        if suffix == ".parquet":
            return inspect_parquet(path, wanted)
        return _ARRAY_INSPECTORS[suffix](path)


def _check_alike(files: Sequence[LazyFile]) -> None:
    """Check that all parts have samples with the same features."""
    first = files[0]
    for file in files:
        samples = file.samples
        if file.path.suffix.lower() != first.path.suffix.lower():
            raise DataError(f"{file.path} is another kind of file than {first.path}: give parts of one kind.")
        if 0 in samples.shape:
            raise DataError(f"{samples.place} has no samples: its array has shape {samples.shape}.")
        if file.feature_names != first.feature_names:
            differences = list_differences(file.feature_names or [], first.feature_names or []) or "in another order"
            raise DataError(f"{file.path} has other columns than {first.path}: {differences}.")
        if samples.shape[1:] != first.samples.shape[1:]:
            raise DataError(
                f"{samples.place} has shape {samples.shape}, but {first.samples.place} {first.samples.shape}: all "
                "parts must have the same features."
            )
        if (file.labels is None) != (first.labels is None):
            with_labels, without = (first.path, file.path) if file.labels is None else (file.path, first.path)
            raise DataError(f"{without} has no labels, but {with_labels} has: either all parts have labels, or none.")


def _read_label_parts(pattern: str | os.PathLike[str], files: Sequence[LazyFile]) -> Any:
    paths = find_parts(pattern)
    n_samples = sum(file.samples.n_rows for file in files)
    if len(paths) == 1 and paths[0].suffix.lower() in (".csv", ".txt"):
        texts = read_labels(paths[0], n_samples)
        _check_count(str(paths[0]), len(texts), os.fspath(pattern), n_samples)
        return _cut(texts)
    labels = []
    for path in paths:
        if path.suffix.lower() not in _LABEL_INSPECTORS:
            raise DataError(f"{path}: parts of labels must be {', '.join(_LABEL_INSPECTORS)}, not {path.suffix!r}.")
        with as_data_error(path):
            if path.suffix.lower() != ".zarr":
                check_regular(path)
            labels.append(_LABEL_INSPECTORS[path.suffix.lower()](path))
    if len(labels) == len(files):
        for one, file in zip(labels, files, strict=True):
            _check_count(one.place, one.n_rows, file.samples.place, file.samples.n_rows)
    elif len(labels) == 1:
        _check_count(labels[0].place, labels[0].n_rows, f"the {len(files)} parts of samples", n_samples)
    else:
        raise DataError(
            f"{pattern}: there are {len(labels)} parts of labels for {len(files)} of samples, starting with "
            f"{files[0].path}; give one for each, or one for all."
        )
    return _assemble_labels(labels)


def _check_count(labels: str, n_labels: int, samples: str, n_samples: int) -> None:
    if n_labels != n_samples:
        raise DataError(f"{labels} has {n_labels} labels, but {samples} {n_samples} samples.")


def _assemble_labels(labels: Sequence[LazyArray | None]) -> Any:
    """Return labels as one Dask array, or None if the parts have none."""
    there = [one for one in labels if one is not None]
    if not there:
        return None
    dtypes = [to_labels(one.make_row(), one.place).dtype for one in there]
    for one, dtype in zip(there, dtypes, strict=True):
        if (dtype.kind == "U") != (dtypes[0].kind == "U"):
            raise DataError(
                f"{one.place} has labels of another type than {there[0].place}: {dtype} and {dtypes[0]}; write all "
                "labels as numbers, or all as text."
            )
    # Dask truncates text to the width in the first chunk: text of unknown width must be an object.
    is_wide = any(one.dtype == np.dtype(str) for one in there)
    dtype = np.dtype(object) if is_wide else np.result_type(*dtypes)
    return _assemble([chunk for one in there for chunk in one.chunks], _load_labels, dtype, ())


def _assemble(
    chunks: Sequence[LazyChunk], load: Callable[..., NDArray[Any]], dtype: np.dtype, row_shape: tuple[int, ...]
) -> Any:
    """Return a Dask array with one chunk for each lazy chunk, or several if it is large."""
    array = require("dask.array", chunks[0].path, "dask")
    heights = tuple(chunk.shape[0] for chunk in chunks)
    rows = array.from_array(np.fromiter(chunks, dtype=object), chunks=1, name=False).map_blocks(
        load,
        dtype,
        chunks=(heights, *((width,) for width in row_shape)),
        new_axis=list(range(1, 1 + len(row_shape))) or None,
        dtype=dtype,
        meta=np.empty((0,) * (1 + len(row_shape)), dtype),
    )
    cut = tuple(min(PART_ROWS, height - start) for height in heights for start in range(0, height, PART_ROWS))
    return rows if cut == heights else rows.rechunk({0: cut})


def _cut(values: NDArray[Any]) -> Any:
    array = require("dask.array", "Data in chunks", "dask")
    return array.from_array(np.asarray(values), chunks=(PART_ROWS, *values.shape[1:]), name=False)


def _load_samples(chunks: NDArray[Any], dtype: np.dtype) -> NDArray[np.floating]:
    (chunk,) = chunks
    return to_rows(chunk.read(), str(chunk.path)).X.astype(dtype, copy=False)


def _load_labels(chunks: NDArray[Any], dtype: np.dtype) -> NDArray[Any]:
    (chunk,) = chunks
    labels = to_labels(chunk.read(), str(chunk.path))
    if labels.dtype.kind == "f":
        row = int(np.argmax(~np.isfinite(labels) | (labels != np.trunc(labels))))
        raise DataError(
            f"{chunk.path}, row {chunk.start + row}: the label is {labels[row]}; labels must be integers, with one "
            "such as -1 for unlabelled samples (fit with --unlabeled -1), or text."
        )
    if dtype.kind != "O":
        return labels.astype(dtype, copy=False)
    texts, positions = np.unique(labels, return_inverse=True)
    return texts.astype(dtype)[positions]  # each distinct text is stored once
