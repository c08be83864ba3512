"""Parquet tables (.parquet)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .arrays import to_float_dtype
from .columns import Columns, Wanted, choose_columns
from .labels import TextLabels
from .samples import DataError, Samples, check_size, require


class _Layout(NamedTuple):
    """The columns of a table."""

    names: list[str]
    chosen: Columns
    dtype: np.dtype  # common to all features


def read_parquet(path: Path, wanted: Wanted) -> Samples:
    """Read a table into one array of float32, or of float64 if a column needs it, one record batch at a time."""
    with require("pyarrow.parquet", path, "cli").ParquetFile(path) as table:
        layout = _inspect_columns(path, table.schema_arrow, wanted)
        shape = (table.metadata.num_rows, len(layout.chosen.features))
        check_size(path, shape, layout.dtype.itemsize, "use .npy")
        X = _read_features(table, layout)
        labels = TextLabels()
        if layout.chosen.label is not None:
            for column in _read_column(table, layout.names, layout.chosen.label):
                labels.add("" if value is None else str(value) for value in column.to_pylist())
    chosen, names = layout.chosen, [layout.names[column] for column in layout.chosen.features]
    return Samples(X, None if chosen.label is None or not len(X) else labels.finish(path), names)._replace(
        label_name=chosen.label_name, is_guessed=chosen.is_guessed, notes=chosen.notes
    )


def _inspect_columns(path: Path, schema: Any, wanted: Wanted) -> _Layout:
    marked = (schema.pandas_metadata or {}).get("index_columns", ())  # a name, or a description of a range
    index = [number for number, name in enumerate(schema.names) if name in marked]
    chosen = choose_columns(path, schema.names, len(schema), wanted, index)
    dtypes = [_check_number_column(path, schema.field(column)) for column in chosen.features]
    return _Layout(schema.names, chosen, np.result_type(np.float32, *dtypes))


def _read_features(table: Any, layout: _Layout) -> NDArray[np.floating]:
    X = np.empty((table.metadata.num_rows, len(layout.chosen.features)), layout.dtype)
    start = 0
    for batch in table.iter_batches():
        for target, column in enumerate(layout.chosen.features):
            X[start : start + batch.num_rows, target] = batch.column(column).to_numpy(zero_copy_only=False)
        start += batch.num_rows
    return X


def _read_column(table: Any, names: list[str], column: int) -> Iterator[Any]:
    """Yield one column in batches; if its name is unique, without reading the others."""
    name = names[column]
    is_unique = names.count(name) == 1
    for batch in table.iter_batches(columns=[name] if is_unique else None):
        yield batch.column(batch.schema.names.index(name) if is_unique else column)


def _check_number_column(path: Path, field: Any) -> np.dtype:
    from pyarrow import types

    if not (types.is_integer(field.type) or types.is_floating(field.type) or types.is_boolean(field.type)):
        raise DataError(
            f"{path}, column {field.name!r} holds {field.type}, not numbers: give --label-column "
            f"{field.name!r} if these are the labels, or leave the column out by --ignore {field.name!r}."
        )
    return to_float_dtype(np.dtype(field.type.to_pandas_dtype()))
