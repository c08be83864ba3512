"""Tables of Parquet (.parquet), whose columns have types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from .arrays import to_float_dtype
from .columns import find_label_column
from .errors import DataError, require
from .labels import TextLabels
from .samples import Samples


def read_parquet(path: Path, has_labels: bool, label_column: str | None, n_features: int | None) -> Samples:
    """Read a table a batch at a time into one array of float32, or of float64 if a column needs it."""
    parquet = require("pyarrow.parquet", path, "cli")
    with parquet.ParquetFile(path) as table:
        schema = table.schema_arrow
        label = find_label_column(path, schema.names, len(schema), has_labels, label_column, n_features)
        features = [column for column in range(len(schema)) if column != label]
        dtypes = [_check_number_column(path, schema.field(column)) for column in features]
        X = np.empty((table.metadata.num_rows, len(features)), np.result_type(np.float32, *dtypes))
        labels = TextLabels()
        n_rows = 0
        for batch in table.iter_batches():
            for target, column in enumerate(features):
                X[n_rows : n_rows + batch.num_rows, target] = batch.column(column).to_numpy(zero_copy_only=False)
            if label is not None:
                labels.add("" if value is None else str(value) for value in batch.column(label).to_pylist())
            n_rows += batch.num_rows
    names = [schema.names[column] for column in features]
    return Samples(X, None if label is None or not len(X) else labels.finish(), names)


def _check_number_column(path: Path, field: Any) -> np.dtype:
    from pyarrow import types

    if not (types.is_integer(field.type) or types.is_floating(field.type) or types.is_boolean(field.type)):
        raise DataError(
            f"{path}, column {field.name!r} holds {field.type}, not numbers. If this is the column of the labels, "
            "name it by label_column (--label-column)."
        )
    return to_float_dtype(np.dtype(field.type.to_pandas_dtype()))
