"""Text files: tables (.csv, .tsv, .txt), read in bounded memory, and sparse rows (.svm, .libsvm, .svmlight)."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .columns import LABEL_COLUMNS, Columns, Wanted, choose_columns
from .labels import TextLabels, to_labels
from .samples import DataError, Samples, check_size, name_column, require

TEXT_TABLES = (".csv", ".tsv", ".txt")
SPARSE_SUFFIXES = (".svm", ".libsvm", ".svmlight")
_LONGEST_LINE = 2**24
_MOST_COLUMNS = 100_000  # the parser takes some 10 KB for each
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
_CSV_PLACE = re.compile(r"In CSV column #(\d+): Row #(\d+): .*?invalid value '(.*)'", re.DOTALL)


class _Layout(NamedTuple):
    """The layout of a text table."""

    delimiter: str
    names: list[str] | None
    n_columns: int
    n_skipped: int  # lines before the first row of data
    longest: int  # bytes of the longer of the first two lines
    decimal_point: str


def read_csv(path: Path, wanted: Wanted) -> Samples:
    """Stream a text table into one array; single precision would move the predictions of unscaled tables."""
    reader = require("pyarrow.csv", path, "cli")
    layout = _inspect_csv(path)
    if layout.n_columns > _MOST_COLUMNS:
        raise DataError(f"{path} has {layout.n_columns:,} columns, more than {_MOST_COLUMNS:,}: use .npy or .npz.")
    chosen = choose_columns(path, layout.names, layout.n_columns, wanted)
    X = np.empty((_count_lines(path), len(chosen.features)))  # memory is allocated only when rows are written
    names = None if layout.names is None else [layout.names[column] for column in chosen.features]
    try:
        with _open_csv(reader, path, layout, chosen) as batches:
            samples = join_batches(path, X, (batch.columns for batch in batches), chosen, names)
    except DataError:
        raise
    except ValueError as error:
        raise _explain_csv_error(path, layout, error) from error
    if not len(samples.X):
        raise DataError(f"{path} has a header, but no rows.")
    return samples


def join_batches(
    path: Path, X: NDArray[np.floating], batches: Iterable[list[Any]], chosen: Columns, names: list[str] | None
) -> Samples:
    """Fill X from batches of the chosen columns, of which the last holds the labels, if there are any."""
    labels, n_rows, n_features = TextLabels(), 0, X.shape[1]
    for columns in batches:
        block = X[n_rows : n_rows + len(columns[0])]
        for target, column in enumerate(columns[:n_features]):
            block[:, target] = column.to_numpy(zero_copy_only=False)  # an empty cell is NaN
        for column in columns[n_features:]:
            labels.add("" if value is None else str(value) for value in column.to_pylist())
        n_rows += len(block)
    texts = None if chosen.label is None or not n_rows else labels.finish(path)
    samples = Samples(X[:n_rows], texts, names, label_name=chosen.label_name)
    return samples._replace(is_guessed=chosen.is_guessed, notes=chosen.notes)


def read_svmlight(path: Path, n_features: int | None) -> Samples:
    """Read a sparse file of SVMlight or LIBSVM into a dense array."""
    from sklearn.datasets import load_svmlight_file

    # As in LIBSVM, features are counted from 1, unless one has the number 0.
    X, y = load_svmlight_file(str(path), n_features=n_features)
    check_size(path, X.shape, X.dtype.itemsize, "most of them are zeros, choose fewer features")
    return Samples(X.toarray(), to_labels(np.asarray(y), str(path)))


def _open_csv(reader: Any, path: Path, layout: _Layout, chosen: Columns) -> Any:
    import pyarrow

    columns = [str(column) for column in range(layout.n_columns)]  # headers may repeat a name
    types = {str(column): pyarrow.float64() for column in chosen.features}
    if chosen.label is not None:
        types[str(chosen.label)] = pyarrow.string()
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
        reader.ConvertOptions(
            column_types=types,
            include_columns=list(types),  # others may hold anything
            strings_can_be_null=False,
            decimal_point=layout.decimal_point,
        ),
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
            if line[:2] in (b"\xff\xfe", b"\xfe\xff"):
                raise DataError(f"{path} is UTF-16: save it as UTF-8.")
            for text in line.decode("utf-8-sig" if not first_lines else "utf-8").splitlines():
                if text.strip():
                    first_lines.append(text)
                elif not first_lines:
                    n_blank += 1
    if not first_lines:
        raise DataError(f"{path} is empty.")
    delimiter = max(",;\t", key=first_lines[0].count)
    first, *rest = (next(csv.reader([line], delimiter=delimiter)) for line in first_lines[:2])
    cells = [*first, *(rest[0] if rest else [])]
    decimal_point = "," if delimiter != "," and any(_DECIMAL_COMMA.fullmatch(cell.strip()) for cell in cells) else "."
    has_header = _is_header(
        *([cell.replace(decimal_point, ".") for cell in row] for row in (first, rest[0] if rest else []))
    )
    return _Layout(
        delimiter=delimiter,
        names=[name.strip() for name in first] if has_header else None,
        n_columns=len(first),
        n_skipped=n_blank + has_header,
        longest=max(len(line.encode()) for line in first_lines),
        decimal_point=decimal_point,
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
    name = name_column(column, layout.names)
    remedy = (
        "write numbers with a decimal point, and without commas between thousands."
        if re.fullmatch(r"[+-]?[\d.]*\d,[\d.,]+", text)
        else f"give --label-column {name} if these are the labels, or leave the column out by --ignore {name}."
    )
    return DataError(
        f"{path}, row {line - 1 - layout.n_skipped} (line {line} of the file), column {name}: {text!r} is not a "
        f"number: {remedy}"
    )
