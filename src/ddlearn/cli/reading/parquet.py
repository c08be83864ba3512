"""Parquet tables (.parquet)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .arrays import to_float_dtype
from .columns import Wanted, choose_columns
from .samples import DataError, Samples, check_size, require
from .text_tables import join_batches


def read_parquet(path: Path, wanted: Wanted) -> Samples:
    """Read a table into one array of float32, or of float64 if a column needs it, one record batch at a time."""
    with require("pyarrow.parquet", path, "cli").ParquetFile(path) as table:
        schema = table.schema_arrow
        marked = (schema.pandas_metadata or {}).get("index_columns", ())  # a name, or a description of a range
        index = [number for number, name in enumerate(schema.names) if name in marked]
        chosen = choose_columns(path, schema.names, len(schema), wanted, index)
        dtypes = [_check_number_column(path, schema.field(column)) for column in chosen.features]
        shape, dtype = (table.metadata.num_rows, len(chosen.features)), np.result_type(np.float32, *dtypes)
        check_size(path, shape, dtype.itemsize, "use .npy")
        places = [*chosen.features, *([] if chosen.label is None else [chosen.label])]
        batches = ([batch.column(place) for place in places] for batch in table.iter_batches())
        names = [schema.names[column] for column in chosen.features]
        return join_batches(path, np.empty(shape, dtype), batches, chosen, names)


def _check_number_column(path: Path, field: Any) -> np.dtype:
    from pyarrow import types

    if not (types.is_integer(field.type) or types.is_floating(field.type) or types.is_boolean(field.type)):
        raise DataError(
            f"{path}, column {field.name!r} holds {field.type}, not numbers: give --label-column "
            f"{field.name!r} if these are the labels, or leave the column out by --ignore {field.name!r}."
        )
    return to_float_dtype(np.dtype(field.type.to_pandas_dtype()))
