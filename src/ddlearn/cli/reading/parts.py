"""Data in parts, such as ``parts/X-*.npy`` or a Zarr store, as Dask arrays: rows are read when they are needed.

Only headers are looked at here.  What is wrong with the rows themselves is found by the task that reads them.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ...parallel import PART_ROWS
from .arrays import inspect_npy, inspect_npz, to_rows
from .errors import DataError, as_data_error, require
from .labels import check_one_source, read_labels, to_labels
from .parquet import inspect_parquet
from .samples import Samples
from .stores import inspect_zarr, inspect_zarr_labels
from .unread import Piece, Unread, UnreadFile

_GLOB = re.compile(r"[*?\[]")
_ARRAY_INSPECTORS: dict[str, Callable[[Path], UnreadFile]] = {
    ".npy": lambda path: UnreadFile(path, inspect_npy(path)),
    ".npz": inspect_npz,
    ".zarr": inspect_zarr,
}
_LABEL_INSPECTORS: dict[str, Callable[[Path], Unread]] = {".npy": inspect_npy, ".zarr": inspect_zarr_labels}
PART_SUFFIXES = (*_ARRAY_INSPECTORS, ".parquet")


def is_in_parts(path: str | os.PathLike[str]) -> bool:
    """Whether a path stands for many files, by ``*``, ``?`` or ``[``, or for a Zarr store; a file is what it is.

    Examples
    --------
    >>> is_in_parts("parts/X-*.npy"), is_in_parts("X.npy")
    (True, False)
    """
    if Path(path).exists():
        return Path(path).suffix.lower() == ".zarr"
    return _GLOB.search(os.fspath(path)) is not None


def read_parts(
    pattern: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    label_column: str | None = None,
    n_features: int | None = None,
) -> Samples:
    """Return data in parts as Dask arrays, of which nothing is read yet.

    Parameters
    ----------
    pattern : str or path
        Files ``.npy``, ``.npz`` or ``.parquet``, or Zarr stores, as in ``parts/X-*.npy`` or ``parts/**/*.parquet``; or
        one of them.  They go in the order of their names, with part-2 before part-10.  A store is an array, or a group
        with arrays that are named as in an ``.npz``.
    labels : str, path or None, default=None
        Where labels are alone: ``.npy`` or Zarr, one for each part of the samples, in the same order, or one for all;
        or one ``.csv`` or ``.txt`` with a label a line.
    label_column : str or None, default=None
        Which column of ``.parquet`` holds the labels, as in :func:`read_data`.
    n_features : int or None, default=None
        The number of features that a model expects.  A table of so many columns has no labels.

    Returns
    -------
    Samples
        Its ``X`` and ``labels`` are Dask arrays in the same chunks of 65536 rows at most, of which none spans two
        parts.  Labels that are text stay text, even if it looks like numbers.

    Raises
    ------
    DataError
        If headers cannot be read or parts do not fit together; later, of whoever computes the arrays, if rows cannot
        be read or are not as many as the header said.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from ddlearn.cli.reading import read_parts
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> for part in range(3):
    ...     np.savez(folder / f"{part}.npz", X=np.full((2, 4), part), y=[0, 1])
    >>> samples = read_parts(folder / "*.npz")
    >>> samples.X.chunks, samples.labels.compute().tolist()
    (((2, 2, 2), (4,)), [0, 1, 0, 1, 0, 1])
    """
    check_one_source(pattern, labels, label_column)
    files = [_inspect(path, labels is None, label_column, n_features) for path in _find_parts(pattern)]
    _check_alike(files)
    rows = [to_rows(file.samples.make_row(), file.samples.place) for file in files]
    X = _assemble(
        [piece for file in files for piece in file.samples.pieces],
        _load_samples,
        np.result_type(*(row.X.dtype for row in rows)),
        rows[0].X.shape[1:],
    )
    y = _read_label_parts(labels, files) if labels is not None else _assemble_labels([file.labels for file in files])
    if y is not None and y.chunks != X.chunks[:1]:
        y = y.rechunk(X.chunks[:1])
    return Samples(X, y, files[0].feature_names, rows[0].image_shape)


def cut_into_chunks(samples: Samples) -> Samples:
    """Return samples that are in memory as Dask arrays, whose chunks go to whoever works on them."""
    labels = samples.labels
    return samples._replace(X=_cut(samples.X), labels=None if labels is None else _cut(labels))


def spread(samples: Samples, n_places: int) -> Samples:
    """Return samples in Dask arrays of at least one chunk for each of the places that work on them, if rows suffice."""
    X: Any = samples.X
    labels: Any = samples.labels
    heights = X.chunks[0]
    most = -(-sum(heights) // n_places)
    if len(heights) >= n_places or most >= max(heights):
        return samples
    cut = tuple(share for height in heights for share in _share(height, -(-height // most)))
    return samples._replace(X=X.rechunk({0: cut}), labels=None if labels is None else labels.rechunk({0: cut}))


def _share(n_rows: int, n_shares: int) -> list[int]:
    """Return shares of rows that differ by one at most."""
    return [(n_rows + share) // n_shares for share in range(n_shares)]


def iterate_blocks(array: Any) -> Iterator[NDArray[Any]]:
    """Yield the blocks of a Dask array, one in memory at a time; an array that is there already is one block."""
    if isinstance(array, np.ndarray):
        yield array
        return
    for block in range(array.numblocks[0]):
        yield array.blocks[block].compute(scheduler="synchronous")


def find_empty_labels(labels: Any) -> tuple[int, int]:
    """Return how many labels of a Dask array are empty texts, and the first of their rows."""
    if labels.dtype.kind not in "UO":
        return 0, 0
    counts, firsts = (
        labels.map_blocks(_count_empty, chunks=(1, 2), new_axis=1, dtype=np.int64, meta=np.empty((0, 0), np.int64))
        .compute()
        .T
    )
    block = int(np.argmax(counts > 0))
    return int(counts.sum()), int(sum(labels.chunks[0][:block]) + firsts[block])


def _count_empty(labels: NDArray[Any]) -> NDArray[np.int64]:
    is_empty = labels == ""
    return np.array([[np.count_nonzero(is_empty), np.argmax(is_empty)]])


def _find_parts(pattern: str | os.PathLike[str]) -> list[Path]:
    """Return files in their order; in full, since other processes may read them."""
    text = os.fspath(pattern)
    found = [text] if os.path.exists(text) else glob.glob(text, recursive=True)
    if not found:
        raise DataError(f"{text}: there is no such file.")
    return [Path(path).absolute() for path in sorted(found, key=_to_natural_order)]


def _to_natural_order(path: str) -> list[Any]:
    """Return what sorts part-2 before part-10: text and numbers take turns."""
    return [int(piece) if turn % 2 else piece for turn, piece in enumerate(re.split(r"([0-9]+)", path))]


def _inspect(path: Path, has_labels: bool, label_column: str | None, n_features: int | None) -> UnreadFile:
    suffix = path.suffix.lower()
    if suffix not in PART_SUFFIXES:
        raise DataError(f"{path}: parts are {', '.join(PART_SUFFIXES)}, not {suffix!r}; write them as one of these.")
    if label_column is not None and suffix != ".parquet":
        raise DataError(f"{path}: only tables (.parquet) have a label column, here {label_column!r}.")
    with as_data_error(path):
        if suffix == ".parquet":
            return inspect_parquet(path, has_labels, label_column, n_features)
        return _ARRAY_INSPECTORS[suffix](path)


def _check_alike(files: Sequence[UnreadFile]) -> None:
    """Check that all parts have samples with the same features."""
    first = files[0]
    for file in files:
        samples = file.samples
        if file.path.suffix.lower() != first.path.suffix.lower():
            raise DataError(f"{file.path} is another kind of file than {first.path}: give parts of one kind.")
        if 0 in samples.shape:
            raise DataError(f"{samples.place} holds no samples: its numbers have the shape {samples.shape}.")
        if file.feature_names != first.feature_names:
            _refuse_columns(file, first)
        if samples.shape[1:] != first.samples.shape[1:]:
            raise DataError(
                f"{samples.place} has the shape {samples.shape}, but {first.samples.place} {first.samples.shape}: all "
                "parts must have the same features."
            )
        if (file.labels is None) != (first.labels is None):
            with_labels, without = (first.path, file.path) if file.labels is None else (file.path, first.path)
            raise DataError(f"{without} has no labels, but {with_labels} has: all parts must have some, or none.")


def _refuse_columns(file: UnreadFile, first: UnreadFile) -> NoReturn:
    names, expected = file.feature_names or [], first.feature_names or []
    more, fewer = sorted({*names} - {*expected}), sorted({*expected} - {*names})
    lists = [f"{word} {', '.join(map(repr, some[:5]))}" for word, some in (("with", more), ("without", fewer)) if some]
    raise DataError(
        f"{file.path} has other columns than {first.path}: {' and '.join(lists) or 'in another order'}. All parts must "
        "have the same."
    )


def _read_label_parts(pattern: str | os.PathLike[str], files: Sequence[UnreadFile]) -> Any:
    paths = _find_parts(pattern)
    n_samples = sum(file.samples.n_rows for file in files)
    if len(paths) == 1 and paths[0].suffix.lower() in (".csv", ".txt"):
        texts = read_labels(paths[0], n_samples)
        _check_count(str(paths[0]), len(texts), os.fspath(pattern), n_samples)
        return _cut(texts)
    labels = [_inspect_labels(path) for path in paths]
    if len(labels) == len(files):
        for one, file in zip(labels, files, strict=True):
            _check_count(one.place, one.n_rows, file.samples.place, file.samples.n_rows)
    elif len(labels) == 1:
        _check_count(labels[0].place, labels[0].n_rows, f"the {len(files)} parts of samples", n_samples)
    else:
        raise DataError(
            f"{pattern}: there are {len(labels)} parts of labels for {len(files)} of samples, which begin with "
            f"{files[0].path}; give one for each, or one for all."
        )
    return _assemble_labels(labels)


def _inspect_labels(path: Path) -> Unread:
    suffix = path.suffix.lower()
    if suffix not in _LABEL_INSPECTORS:
        raise DataError(f"{path}: labels in parts are {', '.join(_LABEL_INSPECTORS)}, not {suffix!r}.")
    with as_data_error(path):
        return _LABEL_INSPECTORS[suffix](path)


def _check_count(labels: str, n_labels: int, samples: str, n_samples: int) -> None:
    if n_labels != n_samples:
        raise DataError(f"{labels} has {n_labels} labels, but {samples} {n_samples} samples.")


def _assemble_labels(labels: Sequence[Unread | None]) -> Any:
    """Return labels as one Dask array, or None where parts have none."""
    there = [one for one in labels if one is not None]
    if not there:
        return None
    dtypes = [to_labels(one.make_row(), one.place).dtype for one in there]
    for one, dtype in zip(there, dtypes, strict=True):
        if (dtype.kind == "U") != (dtypes[0].kind == "U"):
            raise DataError(
                f"{one.place} has labels of another type than {there[0].place}: {dtype} and {dtypes[0]}; write all of "
                "them as numbers, or all as text."
            )
    # Dask joins blocks of text as wide as the first of them, and cuts the others: where the width is not known, text is
    # an object.
    is_wide = any(one.dtype == np.dtype(str) for one in there)
    dtype = np.dtype(object) if is_wide else np.result_type(*dtypes)
    return _assemble([piece for one in there for piece in one.pieces], _load_labels, dtype, ())


def _assemble(
    pieces: Sequence[Piece], load: Callable[..., NDArray[Any]], dtype: np.dtype, row_shape: tuple[int, ...]
) -> Any:
    """Return a Dask array with a chunk for each piece, or several if it is large."""
    array = require("dask.array", pieces[0].path, "dask")
    heights = tuple(piece.shape[0] for piece in pieces)
    rows = array.from_array(np.fromiter(pieces, dtype=object), chunks=1, name=False).map_blocks(
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


def _load_samples(pieces: NDArray[Any], dtype: np.dtype) -> NDArray[np.floating]:
    (piece,) = pieces
    return to_rows(piece.read(), str(piece.path)).X.astype(dtype, copy=False)


def _load_labels(pieces: NDArray[Any], dtype: np.dtype) -> NDArray[Any]:
    (piece,) = pieces
    labels = to_labels(piece.read(), str(piece.path))
    if labels.dtype.kind == "f":  # a label is missing, or none that a class can have
        row = int(np.argmax(~np.isfinite(labels) | (labels != np.trunc(labels))))
        raise DataError(
            f"{piece.path}, row {piece.start + row}: the label is {labels[row]}; labels are whole numbers, with one "
            "such as -1 for no label (fit with --unlabeled -1), or text."
        )
    if dtype.kind != "O":
        return labels.astype(dtype, copy=False)
    texts, positions = np.unique(labels, return_inverse=True)
    return texts.astype(dtype)[positions]  # a text that comes a million times is kept once
