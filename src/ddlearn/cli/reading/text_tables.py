"""Text files: tables (.csv, .tsv, .txt), read in bounded memory, and sparse rows (.svm, .libsvm, .svmlight)."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .labels import LABEL_COLUMNS, TextLabels, find_label_column, to_labels
from .samples import DataError, Samples, check_size, name_column, require

TEXT_TABLES = (".csv", ".tsv", ".txt")
SPARSE_SUFFIXES = (".svm", ".libsvm", ".svmlight")
_LONGEST_LINE = 2**24
_MOST_COLUMNS = 100_000  # the parser takes some 10 KB for each
_CSV_PLACE = re.compile(r"In CSV column #(\d+): Row #(\d+): .*?invalid value '(.*)'", re.DOTALL)


class _Layout(NamedTuple):
    """The layout of a text table."""

    delimiter: str
    names: list[str] | None
    n_columns: int
    n_skipped: int  # lines before the first row of data
    longest: int  # bytes of the longer of the first two lines


def read_csv(path: Path, has_labels: bool, label_column: str | None, n_features: int | None) -> Samples:
    """Stream a text table into one float32 array."""
    reader = require("pyarrow.csv", path, "cli")
    layout = _inspect_csv(path)
    if layout.n_columns > _MOST_COLUMNS:
        raise DataError(f"{path} has {layout.n_columns:,} columns, more than {_MOST_COLUMNS:,}: use .npy or .npz.")
    label = find_label_column(path, layout.names, layout.n_columns, has_labels, label_column, n_features)
    features = [column for column in range(layout.n_columns) if column != label]
    X = np.empty((_count_lines(path), len(features)), np.float32)  # memory is allocated only when rows are written
    labels = TextLabels()
    n_rows = 0
    try:
        with _open_csv(reader, path, layout, label) as batches:
            for batch in batches:
                block = X[n_rows : n_rows + batch.num_rows]
                for target, column in enumerate(features):
                    block[:, target] = batch.column(column).to_numpy(zero_copy_only=False)  # an empty cell is NaN
                if label is not None:
                    labels.add(batch.column(label).to_pylist())
                n_rows += batch.num_rows
    except ValueError as error:
        raise _explain_csv_error(path, layout, error) from error
    if n_rows == 0:
        raise DataError(f"{path} has a header, but no rows.")
    names = None if layout.names is None else [layout.names[column] for column in features]
    return Samples(X[:n_rows], None if label is None else labels.finish(path), names)


def read_svmlight(path: Path, n_features: int | None) -> Samples:
    """Read a sparse file of SVMlight or LIBSVM into a dense array."""
    from sklearn.datasets import load_svmlight_file

    # As in LIBSVM, features are counted from 1, unless one has the number 0.
    X, y = load_svmlight_file(str(path), n_features=n_features, dtype=np.float32)
    check_size(path, X.shape, X.dtype.itemsize, "most of them are zeros, choose fewer features")
    return Samples(X.toarray(), to_labels(np.asarray(y), str(path)))


def _open_csv(reader: Any, path: Path, layout: _Layout, label: int | None) -> Any:
    import pyarrow

    columns = [str(column) for column in range(layout.n_columns)]  # headers may repeat a name
    types = {name: pyarrow.string() if int(name) == label else pyarrow.float32() for name in columns}
    return reader.open_csv(
        path,
        # One thread: otherwise error messages lack the row.
        reader.ReadOptions(
            column_names=columns,
            skip_rows=layout.n_skipped,
            use_threads=False,
            block_size=max(2**20, 8 * layout.longest),
        ),
        reader.ParseOptions(delimiter=layout.delimiter),
        reader.ConvertOptions(column_types=types, strings_can_be_null=False),
    )


def _inspect_csv(path: Path) -> _Layout:
    first_lines: list[str] = []
    n_blank = 0
    with path.open("rb") as file:
        while len(first_lines) < 2 and (line := file.readline(_LONGEST_LINE)):
            if len(line) == _LONGEST_LINE:
                raise DataError(
                    f"{path}: the first line is longer than {_LONGEST_LINE} bytes: this is probably not a table."
                )
            # Lines of old Macintosh files end in a carriage return.
            for text in line.decode("utf-8-sig" if not first_lines else "utf-8").splitlines():
                if text.strip():
                    first_lines.append(text)
                elif not first_lines:
                    n_blank += 1
    if not first_lines:
        raise DataError(f"{path} is empty.")
    delimiter = max(",;\t", key=first_lines[0].count)
    first, *rest = (next(csv.reader([line], delimiter=delimiter)) for line in first_lines[:2])
    has_header = _is_header(first, rest[0] if rest else [])
    return _Layout(
        delimiter=delimiter,
        names=[name.strip() for name in first] if has_header else None,
        n_columns=len(first),
        n_skipped=n_blank + has_header,
        longest=max(len(line.encode()) for line in first_lines),
    )


def _is_header(first: list[str], second: list[str]) -> bool:
    """Whether the first row has names: that of a label column, no numbers at all, or text above a number."""
    if any(cell.strip().lower() in LABEL_COLUMNS for cell in first) or not any(map(_is_number, first)):
        return True
    return any(not _is_number(above) and _is_number(below) for above, below in zip(first, second, strict=False))


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True


def _count_lines(path: Path) -> int:
    """Return an upper bound of the number of lines."""
    with path.open("rb") as file:
        return 1 + sum(block.count(b"\n") + block.count(b"\r") for block in iter(lambda: file.read(_LONGEST_LINE), b""))


def _explain_csv_error(path: Path, layout: _Layout, error: ValueError) -> DataError:
    """Locate a cell that is not a number; other messages name the row already."""
    place = _CSV_PLACE.search(str(error))
    if place is None:
        reason = " ".join(str(error).removeprefix("CSV parse error: ").replace("Row #", "line ").split())
        return DataError(f"{path}: {reason}")
    column, line, text = int(place[1]), int(place[2]), place[3]
    return DataError(
        f"{path}, row {line - 1 - layout.n_skipped} (line {line} of the file), column "
        f"{name_column(column, layout.names)}: {text!r} is not a number. If this is the label column, "
        "give it as label_column (--label-column)."
    )
