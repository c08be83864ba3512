"""From a file, a folder of images or the name of a data set to samples and labels.

What is wrong with a file is a :class:`DataError` that names the file and the place.  Rows are counted from 0, as
everywhere in Python.  Nothing is ever unpickled.
"""

from __future__ import annotations

import csv
import difflib
import os
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["BrokenImage", "DataError", "Samples", "read_data"]

# Names under which the arrays of an archive are looked for, and columns that hold labels unless another is named.
SAMPLE_ARRAYS = ("X", "data", "images")
LABEL_ARRAYS = ("y", "target", "labels")
LABEL_COLUMNS = ("label", "labels", "class", "target", "y")

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".pgm", ".ppm", ".pbm", ".webp"})
DEFAULT_IMAGE_SIZE = (32, 32)  # of images that differ in size

_SUBSETS: dict[str, dict[str, str]] = {"": {}, "train": {"subset": "train"}, "test": {"subset": "test"}}
# Data sets by name: their function in ``datasets``, and what it is asked for each part, as in "usps:train".  Faces have
# no official split: a random half of each person's images is for training, unless the part says "lighting".
NAMED_SETS: dict[str, tuple[str, dict[str, dict[str, str]]]] = {
    "digits": ("load_digits_images", {"": {}}),
    "usps": ("load_usps", _SUBSETS),
    "mnist": ("load_mnist", _SUBSETS),
    "yaleb": (
        "load_yaleb",
        {part: options and options | {"split": "half"} for part, options in _SUBSETS.items()}
        | {f"lighting:{part}": {"split": "lighting", "subset": part} for part in ("train", "test")},
    ),
}

# A sparse file of few bytes can stand for an array of any size; larger ones than this are refused before they are made.
_MOST_BYTES = 2**33
_LONGEST_LINE = 2**24
_ROWS_AT_ONCE = 4096  # when an array is searched for infinities
_INTEGER = re.compile(r"-?(0|[1-9]\d{0,17})(\.0*)?")  # not 007, which is a name, nor 20 digits, which overflow
_DECIMAL = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d*)?")
_CSV_PLACE = re.compile(r"In CSV column #(\d+): Row #(\d+): .*?invalid value '(.*)'", re.DOTALL)


class DataError(ValueError):
    """Something is wrong with a data file; the message names the file, the place and what to do.

    Examples
    --------
    >>> from ddlearn.reading import DataError
    >>> issubclass(DataError, ValueError)
    True
    """


class BrokenImage(NamedTuple):
    """An image file that could not be read, and why.

    Parameters
    ----------
    name : str
        The file.
    reason : str
        What is wrong with it.

    Examples
    --------
    >>> from ddlearn.reading import BrokenImage
    >>> BrokenImage("cats/7.png", "cut short").name
    'cats/7.png'
    """

    name: str
    reason: str


class Samples(NamedTuple):
    """What was read.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        The samples, float32 or float64.
    labels : ndarray of shape (n_samples,) or None
        Their classes: integers if all of them are, otherwise text; None if the source has none.
    feature_names : list of str or None
        Names of the columns, where the source has them.
    image_shape : tuple of int or None
        Height and width, or height, width and 3 for colour, where the samples are known to be images.
    sample_names : list of str or None
        Names of the samples, where they have some: the files of a folder of images.
    broken : list of BrokenImage
        Images that were left out.

    Examples
    --------
    >>> from ddlearn.reading import read_data
    >>> read_data("digits").image_shape
    (8, 8)
    """

    X: NDArray[np.floating]
    labels: NDArray[Any] | None = None
    feature_names: list[str] | None = None
    image_shape: tuple[int, ...] | None = None
    sample_names: list[str] | None = None
    broken: Sequence[BrokenImage] = ()


def read_data(
    path: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    label_column: str | None = None,
    n_features: int | None = None,
    image_size: tuple[int, int] | None = None,
    colour: bool = False,
    strict: bool = False,
) -> Samples:
    r"""Read samples, and labels where there are some.

    Parameters
    ----------
    path : str or path
        A file ``.npz``, ``.npy``, ``.csv`` (also ``.tsv``, ``.txt``), ``.parquet``, ``.svm`` (also ``.libsvm``,
        ``.svmlight``) or of an image; a folder of images, with one sub-folder for each class or none; or one of the
        data sets "digits", "usps", "mnist" and "yaleb", with the part after a colon, as in "usps:train".
    labels : str, path or None, default=None
        A file of labels alone, ``.npy``, or ``.csv`` or ``.txt`` with one label a line.
    label_column : str or None, default=None
        Which column of a table holds the labels: its name, its number from 0, or "last".  By default the one that is
        named label, labels, class, target or y, or else the last one.
    n_features : int or None, default=None
        The number of features that a model expects.  A table of so many columns has no labels.
    image_size : tuple of int or None, default=None
        Height and width that images are brought to, by scaling and cropping at the centre.  By default the size that
        all of them have, or 32 x 32 if they differ.
    colour : bool, default=False
        Whether images are read in colour, three numbers a pixel, or in grey.
    strict : bool, default=False
        Whether a broken image is an error, or is left out and listed.

    Returns
    -------
    Samples
        The samples and what is known of them.  Numbers of a table are those in the file, as float32; arrays keep
        float32 and float64; pixels are from 0 (black) to 1 (white).  NaN stays NaN.

    Raises
    ------
    DataError
        If a file cannot be read, or holds text or infinities where numbers belong.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from ddlearn.reading import read_data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "flowers.csv"
    >>> _ = path.write_text("width,height,label\n1.5,2,rose\n3,4.5,tulip\n")
    >>> samples = read_data(path)
    >>> samples.X.tolist(), samples.labels.tolist()
    ([[1.5, 2.0], [3.0, 4.5]], ['rose', 'tulip'])
    """
    source = Path(path)
    if labels is not None and label_column is not None:
        raise DataError(f"{path}: labels are asked for from {labels} and from column {label_column!r}: give one.")
    if label_column is not None and source.suffix.lower() not in {*_TEXT_TABLES, ".parquet"}:
        raise DataError(f"{path}: only tables (.csv, .parquet) have a label column, here {label_column!r}.")
    if not source.exists():
        samples = _load_named(os.fspath(path))
    elif source.is_dir() or source.suffix.lower() in IMAGE_SUFFIXES:
        with _as_data_error(source):
            samples = _read_images(source, image_size, colour, strict)
    else:
        with _as_data_error(source):
            samples = _read_file(source, labels is None, label_column, n_features)
    if labels is not None:
        samples = samples._replace(labels=_read_labels(Path(labels), len(samples.X)))
    _check_samples(source, samples)
    return samples


@contextmanager
def _as_data_error(path: Path) -> Iterator[None]:
    """Turn whatever a parser makes of foreign or damaged bytes into a DataError."""
    try:
        yield
    except (DataError, ModuleNotFoundError):
        raise
    except Exception as error:  # parsers of foreign bytes fail in any way: struct.error, EOFError, MemoryError, ...
        reason = " ".join(str(error).split())
        raise DataError(f"{path} cannot be read ({type(error).__name__}: {reason})") from error


def _read_file(path: Path, has_labels: bool, label_column: str | None, n_features: int | None) -> Samples:
    suffix = path.suffix.lower()
    if suffix in _TEXT_TABLES:
        return _read_csv(path, has_labels, label_column, n_features)
    if suffix == ".parquet":
        return _read_parquet(path, has_labels, label_column, n_features)
    if suffix in _ARRAY_READERS:
        return _ARRAY_READERS[suffix](path)
    if suffix in _SPARSE_SUFFIXES:
        return _read_svmlight(path, n_features)
    known = ", ".join([*_ARRAY_READERS, *_TEXT_TABLES, ".parquet", *_SPARSE_SUFFIXES])
    raise DataError(f"{path}: files ending in {suffix!r} are not known; use {known}, an image or a folder of images.")


def _check_samples(source: Path, samples: Samples) -> None:
    if samples.X.ndim != 2 or 0 in samples.X.shape:
        raise DataError(f"{source} holds no samples: its numbers have the shape {samples.X.shape}.")
    if samples.labels is not None and len(samples.labels) != len(samples.X):
        raise DataError(f"{source} has {len(samples.X)} samples, but {len(samples.labels)} labels.")
    for start in range(0, len(samples.X), _ROWS_AT_ONCE):  # the flags of all rows at once would be large
        is_infinite = np.isinf(samples.X[start : start + _ROWS_AT_ONCE])
        if is_infinite.any():
            row, column = np.argwhere(is_infinite)[0]
            raise DataError(
                f"{source}, row {start + row}, column {_name_column(column, samples.feature_names)}: the number is "
                "infinite, or too large; leave the cell empty (NaN) if it is not known."
            )


def _name_column(column: int, names: list[str] | None) -> str:
    return repr(names[column]) if names else str(column)


def _require(module: str, path: Path, extra: str) -> Any:
    """Import a library of an extra, or say how to install it."""
    import importlib

    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        raise ModuleNotFoundError(f'{path} needs {package}: pip install "ddlearn[{extra}]"', name=package) from error


# Arrays ---------------------------------------------------------------------------------------------------------------


def _read_npz(path: Path) -> Samples:
    _check_magic(path, b"PK\x03\x04", "archive (.npz)", "numpy.savez_compressed(path, X=samples, y=labels)")
    with np.load(path, allow_pickle=False) as archive:
        samples_name, labels_name = (
            next((name for name in names if name in archive), None) for names in (SAMPLE_ARRAYS, LABEL_ARRAYS)
        )
        if samples_name is None:
            raise DataError(
                f"{path} has the arrays {', '.join(archive) or 'none'}; the samples must be called "
                f"{', '.join(SAMPLE_ARRAYS)}, their labels {', '.join(LABEL_ARRAYS)}."
            )
        labels = None if labels_name is None else _to_labels(archive[labels_name], f"{path}, array {labels_name!r}")
        return _from_array(archive[samples_name], f"{path}, array {samples_name!r}")._replace(labels=labels)


def _read_npy(path: Path) -> Samples:
    _check_magic(path, b"\x93NUMPY", "array (.npy)", "numpy.save(path, samples)")
    # What does not fit memory stays on disk.
    return _from_array(np.load(path, mmap_mode="r", allow_pickle=False), str(path))


def _check_magic(path: Path, magic: bytes, kind: str, command: str) -> None:
    """Refuse other files here, since NumPy takes them for pickles and advises to load them all the same."""
    with path.open("rb") as file:
        if file.read(len(magic)) != magic:
            raise DataError(f"{path} is not a NumPy {kind}, such as {command} writes.")


def _from_array(array: NDArray[Any], place: str) -> Samples:
    """Return rows of numbers; images (three axes, or four for colour) are laid out as rows."""
    if array.dtype.kind not in "buif":
        raise DataError(f"{place} holds {array.dtype}, not real numbers.")
    is_image = array.ndim == 3 or (array.ndim == 4 and array.shape[3] == 3)
    if array.ndim != 2 and not is_image:
        raise DataError(
            f"{place} has the shape {array.shape}; give (n_samples, n_features), images as (n_samples, height, width), "
            "or colour images as (n_samples, height, width, 3)."
        )
    if not is_image:
        return Samples(array.astype(_to_float_dtype(array.dtype), copy=False))
    numbers = array.astype(_to_float_dtype(array.dtype), copy=False)
    if array.dtype == np.uint8:  # pixels, as in image files
        numbers = numbers / np.float32(255)
    return Samples(numbers.reshape(len(array), -1), image_shape=array.shape[1:])


def _to_float_dtype(dtype: np.dtype) -> np.dtype:
    """Return float32 where it holds all values of a type, and otherwise float64."""
    return np.result_type(dtype, np.float32) if dtype.itemsize <= 4 else np.dtype(np.float64)


def _to_labels(array: NDArray[Any], place: str) -> NDArray[Any]:
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "buifUS":
        raise DataError(
            f"{place} has the shape {array.shape} and holds {array.dtype}; labels are one number or text a sample."
        )
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.trunc(array)).all():
        return array.astype(np.int64)
    return array.astype(str) if array.dtype.kind == "S" else array


class _TextLabels:
    """Labels that come as text, a block at a time; a text that comes a million times is kept once."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.positions: list[NDArray[np.int32]] = []

    def add(self, texts: Iterable[str]) -> None:
        """Take the next labels."""
        numbers = [self.known.setdefault(text.strip(), len(self.known)) for text in texts]
        self.positions.append(np.array(numbers, np.int32))

    def finish(self) -> NDArray[Any]:
        """Return integers if all labels are, numbers if all are, and otherwise text."""
        values: NDArray[Any] = np.array(list(self.known), dtype=str)
        if all(_INTEGER.fullmatch(text) for text in self.known):
            values = np.array([int(text.partition(".")[0]) for text in self.known])
        elif all(_DECIMAL.fullmatch(text) for text in self.known):
            values = values.astype(float)
        return values[np.concatenate(self.positions)]


def _read_labels(path: Path, n_samples: int) -> NDArray[Any]:
    """Read a file of labels alone; a text file with one line more than there are samples begins with a header."""
    if not path.is_file():
        raise DataError(f"{path}: no such file of labels.")
    with _as_data_error(path):
        if path.suffix.lower() == ".npy":
            _check_magic(path, b"\x93NUMPY", "array (.npy)", "numpy.save(path, labels)")
            return _to_labels(np.load(path, allow_pickle=False), str(path))
        if path.suffix.lower() not in (".csv", ".txt"):
            raise DataError(f"{path}: labels are read from .npy, .csv or .txt, not {path.suffix!r}.")
        with path.open(encoding="utf-8-sig", newline="") as lines:
            rows = [row for row in csv.reader(lines) if row]
    wide = next((number for number, row in enumerate(rows) if len(row) > 1), None)
    if wide is not None:
        raise DataError(f"{path}, row {wide}: there are {len(rows[wide])} cells; give one label a line.")
    values = [row[0] for row in rows]
    labels = _TextLabels()
    labels.add(values[1:] if len(values) == n_samples + 1 else values)
    return labels.finish()


def _read_svmlight(path: Path, n_features: int | None) -> Samples:
    from sklearn.datasets import load_svmlight_file

    # As in LIBSVM, features are counted from 1, unless one has the number 0.
    X, y = load_svmlight_file(str(path), n_features=n_features, dtype=np.float32)
    _check_size(path, X.shape, X.dtype.itemsize, "most of it zeros: choose fewer features")
    return Samples(X.toarray(), _to_labels(np.asarray(y), str(path)))


def _check_size(path: Path, shape: tuple[int, int], itemsize: int, advice: str) -> None:
    n_bytes = shape[0] * shape[1] * itemsize
    if n_bytes > _MOST_BYTES:
        raise DataError(
            f"{path} stands for {shape[0]} x {shape[1]} numbers, {n_bytes / 2**30:.0f} GiB in memory, {advice}."
        )


# Tables ---------------------------------------------------------------------------------------------------------------


class _Layout(NamedTuple):
    """How a text table is built."""

    delimiter: str
    names: list[str] | None
    n_columns: int
    n_skipped: int  # lines up to the first row of data
    longest: int  # bytes in the first lines


def _read_csv(path: Path, has_labels: bool, label_column: str | None, n_features: int | None) -> Samples:
    """Stream a text table into one float32 array."""
    reader = _require("pyarrow.csv", path, "cli")
    layout = _inspect_csv(path)
    label = _find_label_column(path, layout.names, layout.n_columns, has_labels, label_column, n_features)
    features = [column for column in range(layout.n_columns) if column != label]
    X = np.empty((_count_lines(path), len(features)), np.float32)  # the system gives memory only to rows that are used
    labels = _TextLabels()
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
    return Samples(X[:n_rows], None if label is None else labels.finish(), names)


def _open_csv(reader: Any, path: Path, layout: _Layout, label: int | None) -> Any:
    import pyarrow

    columns = [str(column) for column in range(layout.n_columns)]  # headers may name two columns alike
    types = {name: pyarrow.string() if int(name) == label else pyarrow.float32() for name in columns}
    return reader.open_csv(
        path,
        # One thread: otherwise error messages do not know the row.
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
                raise DataError(f"{path}: the first line is longer than {_LONGEST_LINE} bytes; is this a table?")
            # Old Macintosh files end lines with a carriage return alone.
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
    """Whether the first row holds names: one for labels, no number at all, or text above a number."""
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
    """Return the number of lines, or more."""
    with path.open("rb") as file:
        return 1 + sum(block.count(b"\n") + block.count(b"\r") for block in iter(lambda: file.read(_LONGEST_LINE), b""))


def _find_label_column(
    path: Path,
    names: list[str] | None,
    n_columns: int,
    has_labels: bool,
    label_column: str | None,
    n_features: int | None,
) -> int | None:
    if label_column is not None:
        return _resolve_column(path, names, n_columns, label_column)
    if not has_labels or n_columns == n_features:
        return None
    named = [number for number, name in enumerate(names or []) if name.lower() in LABEL_COLUMNS]
    return named[0] if named else n_columns - 1


def _resolve_column(path: Path, names: list[str] | None, n_columns: int, wanted: str) -> int:
    if names and wanted in names:
        return names.index(wanted)
    if wanted == "last":
        return n_columns - 1
    if re.fullmatch(r"-?\d+", wanted) and -n_columns <= int(wanted) < n_columns:
        return int(wanted) % n_columns
    known = f"; its columns are {', '.join(names[:20])}{', ...' if len(names) > 20 else ''}" if names else ""
    raise DataError(
        f"{path} has no column {wanted!r} among its {n_columns}{known}. Columns go by name, by number from 0, or "
        f"'last'{_suggest(wanted, names or [])}"
    )


def _suggest(wanted: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(wanted, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else "."


def _explain_csv_error(path: Path, layout: _Layout, error: ValueError) -> DataError:
    """Say where a cell is that is no number; other messages name the row by themselves."""
    place = _CSV_PLACE.search(str(error))
    if place is None:
        reason = " ".join(str(error).removeprefix("CSV parse error: ").replace("Row #", "line ").split())
        return DataError(f"{path}: {reason}")
    column, line, text = int(place[1]), int(place[2]), place[3]
    return DataError(
        f"{path}, row {line - 1 - layout.n_skipped} (line {line} of the file), column "
        f"{_name_column(column, layout.names)}: {text!r} is not a number. If this is the column of the labels, "
        "name it by label_column (--label-column)."
    )


def _read_parquet(path: Path, has_labels: bool, label_column: str | None, n_features: int | None) -> Samples:
    parquet = _require("pyarrow.parquet", path, "cli")
    with parquet.ParquetFile(path) as table:
        schema = table.schema_arrow
        label = _find_label_column(path, schema.names, len(schema), has_labels, label_column, n_features)
        features = [column for column in range(len(schema)) if column != label]
        dtypes = [_check_number_column(path, schema.field(column)) for column in features]
        X = np.empty((table.metadata.num_rows, len(features)), np.result_type(np.float32, *dtypes))
        labels = _TextLabels()
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
    return _to_float_dtype(np.dtype(field.type.to_pandas_dtype()))


# Images ---------------------------------------------------------------------------------------------------------------


def _read_images(source: Path, size: tuple[int, int] | None, colour: bool, strict: bool) -> Samples:
    _require("PIL.Image", source, "cli")
    files, classes = _list_images(source)
    broken: dict[Path, str] = {}
    if size is None:
        size = _choose_size(_try_each(files, _measure_image, broken).values())
    _check_size(source, (len(files), size[0] * size[1]), 12 if colour else 4, "too many pixels: give a smaller size")
    pixels = _try_each(
        [file for file in files if file not in broken], lambda file: _load_pixels(file, size, colour), broken
    )
    named = [BrokenImage(_relative(file, source), broken[file]) for file in files if file in broken]
    if named and (strict or not pixels or source.is_file()):
        listing = "; ".join(f"{name} ({reason})" for name, reason in named[:10])
        raise DataError(f"{source}: {len(named)} of {len(files)} images cannot be read: {listing}.")
    labels = None if classes is None else np.array([classes[file] for file in pixels])
    X = np.stack(list(pixels.values())).reshape(len(pixels), -1)
    return Samples(X, labels, None, (*size, 3) if colour else size, [_relative(file, source) for file in pixels], named)


def _list_images(source: Path) -> tuple[list[Path], dict[Path, str] | None]:
    """Return the image files in order, and the class of each, if sub-folders tell it."""
    if source.is_file():
        return [source], None
    alone = _find_images(source.iterdir())
    classes = {
        file: folder.name
        for folder in sorted(source.iterdir())
        if folder.is_dir() and not folder.name.startswith(".")
        for file in _find_images(folder.rglob("*"))
    }
    if alone and classes:
        raise DataError(
            f"{source} has images beside the sub-folders of its classes, such as {alone[0].name}: "
            "move them into a sub-folder, or out."
        )
    if not alone and not classes:
        raise DataError(f"{source} has no images: expected a sub-folder of images for each class, or images.")
    return (list(classes), classes) if classes else (alone, None)


def _find_images(paths: Iterable[Path]) -> list[Path]:
    return sorted(
        path
        for path in paths
        if path.suffix.lower() in IMAGE_SUFFIXES and not path.name.startswith(".") and path.is_file()
    )


def _try_each(files: list[Path], read: Callable[[Path], Any], broken: dict[Path, str]) -> dict[Path, Any]:
    """Return what each file gives; those that give none are added to the broken ones."""
    results = {}
    for file in files:
        try:
            results[file] = read(file)
        except Exception as error:  # damaged files fail in any way inside the many decoders
            broken[file] = f"{type(error).__name__}: {error}"
    return results


def _measure_image(path: Path) -> tuple[int, int]:
    with _open_image(path) as image:
        return image.height, image.width


def _choose_size(sizes: Iterable[tuple[int, int]]) -> tuple[int, int]:
    different = Counter(sizes)
    return next(iter(different)) if len(different) == 1 else DEFAULT_IMAGE_SIZE


def _load_pixels(path: Path, size: tuple[int, int], colour: bool) -> NDArray[np.float32]:
    from PIL import ImageOps

    with _open_image(path) as image:
        if image.mode.startswith("I"):  # 16 bits a pixel; Pillow's own conversion cuts at 255
            image = image.point(lambda value: value * (1 / 256)).convert("L")
        image = image.convert("RGB" if colour else "L")
        if (image.height, image.width) != size:
            image = ImageOps.fit(image, size[::-1])
        return np.asarray(image, np.float32) / np.float32(255)


@contextmanager
def _open_image(path: Path) -> Iterator[Any]:
    from PIL import Image, ImageOps

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about odd metadata
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        with Image.open(path) as image:
            yield ImageOps.exif_transpose(image)


def _relative(file: Path, source: Path) -> str:
    return file.name if source.is_file() else file.relative_to(source).as_posix()


# Data sets ------------------------------------------------------------------------------------------------------------


def _load_named(text: str) -> Samples:
    """Load a data set by its name and part, such as "usps:train" or "yaleb:lighting:test"."""
    from . import datasets

    name, _, part = text.partition(":")
    if name not in NAMED_SETS:
        raise DataError(
            f"{text}: there is no such file or folder, and no data set of that name (they are {', '.join(NAMED_SETS)})"
            f"{_suggest(name, NAMED_SETS)}"
        )
    function, parts = NAMED_SETS[name]
    if part not in parts:
        known = ", ".join(f"{name}:{part}" if part else name for part in parts)
        raise DataError(f"{text}: there is no such part of this data set, only {known}{_suggest(part, parts)}")
    bunch = getattr(datasets, function)(**parts[part])
    return Samples(bunch.data, bunch.target, image_shape=tuple(bunch.image_shape))


_ARRAY_READERS: dict[str, Callable[[Path], Samples]] = {".npz": _read_npz, ".npy": _read_npy}
_TEXT_TABLES = (".csv", ".tsv", ".txt")
_SPARSE_SUFFIXES = (".svm", ".libsvm", ".svmlight")
