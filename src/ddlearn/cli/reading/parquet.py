"""Parquet tables (.parquet)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...parallel import PART_ROWS
from .arrays import to_float_dtype
from .columns import Columns, Wanted, choose_columns
from .labels import TextLabels, check_texts
from .lazy_arrays import LazyArray, LazyChunk, LazyFile
from .samples import DataError, Samples, check_size, require


class _Layout(NamedTuple):
    """The columns of a table."""

    names: list[str]
    chosen: Columns
    dtype: np.dtype  # common to all features


def read_parquet(path: Path, wanted: Wanted) -> Samples:
    """Read a table into one array of float32, or of float64 if a column needs it, one record batch at a time."""
    with _open_parquet(path) as table:
        layout = _inspect_columns(path, table.schema_arrow, wanted)
        shape = (table.metadata.num_rows, len(layout.chosen.features))
        check_size(path, shape, layout.dtype.itemsize, "use parts, or .npy")
        X = _read_features(table, layout)
        labels = TextLabels()
        if layout.chosen.label is not None:
            for column in _read_column(table, layout.names, layout.chosen.label):
                labels.add(_to_texts(column))
    chosen, names = layout.chosen, [layout.names[column] for column in layout.chosen.features]
    return Samples(X, None if chosen.label is None or not len(X) else labels.finish(path), names)._replace(
        label_name=chosen.label_name, is_guessed=chosen.is_guessed, notes=chosen.notes
    )


def inspect_parquet(path: Path, wanted: Wanted) -> LazyFile:
    """Read the footer of a table; chunks consist of whole row groups, each of which is compressed as a whole."""
    with _open_parquet(path) as table:
        schema, metadata = table.schema_arrow, table.metadata
        layout = _inspect_columns(path, schema, wanted)
    sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]

    def cut(load: Callable[..., NDArray[Any]], *row_shape: int) -> list[LazyChunk]:
        return [
            LazyChunk(
                path, sum(sizes[: run[0]]), (sum(sizes[i] for i in run), *row_shape), partial(load, path, layout, run)
            )
            for run in _join_groups(sizes)
        ]

    n_rows, n_columns = metadata.num_rows, len(layout.chosen.features)
    samples = LazyArray(str(path), (n_rows, n_columns), layout.dtype, cut(_load_features, n_columns))
    labels = None
    if layout.chosen.label is not None:
        field = schema.field(layout.chosen.label)
        place = f"{path}, column {field.name!r}"
        labels = LazyArray(place, (n_rows,), _get_label_dtype(field), cut(_load_labels))
    names = [layout.names[column] for column in layout.chosen.features]
    return LazyFile(path, samples, labels, names, layout.chosen)


def _open_parquet(path: Path) -> Any:
    return require("pyarrow.parquet", path, "cli").ParquetFile(path)


def _inspect_columns(path: Path, schema: Any, wanted: Wanted) -> _Layout:
    marked = (schema.pandas_metadata or {}).get("index_columns", ())  # a name, or a description of a range
    index = [number for number, name in enumerate(schema.names) if name in marked]
    chosen = choose_columns(path, schema.names, len(schema), wanted, index)
    dtypes = [_check_number_column(path, schema.field(column)) for column in chosen.features]
    return _Layout(schema.names, chosen, np.result_type(np.float32, *dtypes))


def _join_groups(sizes: list[int]) -> list[list[int]]:
    """Return the row groups to read together, with at most PART_ROWS rows unless one group has more."""
    runs: list[list[int]] = []
    for group, n_rows in enumerate(sizes):
        if runs and sum(sizes[one] for one in runs[-1]) + n_rows <= PART_ROWS:
            runs[-1].append(group)
        else:
            runs.append([group])
    return runs


def _read_features(table: Any, layout: _Layout, groups: list[int] | None = None) -> NDArray[np.floating]:
    chosen = range(table.metadata.num_row_groups) if groups is None else groups
    n_rows = sum(table.metadata.row_group(group).num_rows for group in chosen)
    X = np.empty((n_rows, len(layout.chosen.features)), layout.dtype)
    start = 0
    for batch in table.iter_batches(row_groups=groups):
        for target, column in enumerate(layout.chosen.features):
            X[start : start + batch.num_rows, target] = batch.column(column).to_numpy(zero_copy_only=False)
        start += batch.num_rows
    return X


def _read_column(table: Any, names: list[str], column: int, groups: list[int] | None = None) -> Iterator[Any]:
    """Yield one column in batches; if its name is unique, without reading the others."""
    name = names[column]
    is_unique = names.count(name) == 1
    for batch in table.iter_batches(row_groups=groups, columns=[name] if is_unique else None):
        yield batch.column(batch.schema.names.index(name) if is_unique else column)


def _load_features(path: Path, layout: _Layout, groups: list[int]) -> NDArray[np.floating]:
    with _open_parquet(path) as table:
        return _read_features(table, layout, groups)


def _load_labels(path: Path, layout: _Layout, groups: list[int]) -> NDArray[Any]:
    assert layout.chosen.label is not None
    with _open_parquet(path) as table:
        is_number = _get_label_dtype(table.schema_arrow.field(layout.chosen.label)).kind != "U"
        columns = _read_column(table, layout.names, layout.chosen.label, groups)
        if is_number:
            return np.concatenate([column.to_numpy(zero_copy_only=False) for column in columns])
        texts = [text.strip() for column in columns for text in _to_texts(column)]
        check_texts(path, texts)
        return np.array(texts)


def _to_texts(column: Any) -> Iterator[str]:
    return ("" if value is None else str(value) for value in column.to_pylist())


def _get_label_dtype(field: Any) -> np.dtype:
    from pyarrow import types

    is_number = types.is_integer(field.type) or types.is_floating(field.type)
    return np.dtype(field.type.to_pandas_dtype()) if is_number else np.dtype(str)


def _check_number_column(path: Path, field: Any) -> np.dtype:
    from pyarrow import types

    if not (types.is_integer(field.type) or types.is_floating(field.type) or types.is_boolean(field.type)):
        raise DataError(
            f"{path}, column {field.name!r} holds {field.type}, not numbers: give --label-column "
            f"{field.name!r} if these are the labels, or leave the column out by --ignore {field.name!r}."
        )
    return to_float_dtype(np.dtype(field.type.to_pandas_dtype()))
