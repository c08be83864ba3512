"""Samples and labels from a file or a folder of images.

An invalid file raises a :class:`DataError` that names the file and the place.  Rows are counted from 0.  Nothing is
ever unpickled.  Each kind of file has its own module; this one chooses between them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ..terminal import suggest
from .arrays import read_npy, read_npz
from .columns import Wanted, refuse_columns
from .images import IMAGE_SUFFIXES, read_images
from .labels import read_labels
from .parquet import read_parquet
from .parts import PART_SUFFIXES, check_parts, find_files, is_pattern, join_samples
from .samples import DataError, Samples, as_data_error, check_regular, name_column
from .text_tables import SPARSE_SUFFIXES, TEXT_TABLES, read_csv, read_svmlight

__all__ = ["DataError", "Samples", "read_data"]

_ARRAY_READERS = {".npz": read_npz, ".npy": read_npy}
DATA_SUFFIXES = {*_ARRAY_READERS, *TEXT_TABLES, ".parquet", *SPARSE_SUFFIXES, *IMAGE_SUFFIXES}
_ROWS_AT_ONCE = 4096  # checked for infinite values


def read_data(
    path: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    label_column: str | None = None,
    ignore: Sequence[str] = (),
    n_features: int | None = None,
    feature_names: Sequence[str] = (),
    label_name: str | None = None,
    image_size: tuple[int, int] | None = None,
    colour: bool = False,
    strict: bool = False,
) -> Samples:
    r"""Read samples, and labels if there are any.

    Parameters
    ----------
    path : str or path
        A file ``.npz``, ``.npy``, ``.csv`` (also ``.tsv``, ``.txt``), ``.parquet``, ``.svm`` (also ``.libsvm``,
        ``.svmlight``) or an image; a folder of images, with one sub-folder per class or none; or "digits", those of
        scikit-learn.  The rows of many ``.npy``, ``.npz`` or ``.parquet`` files, as in ``parts/X-*.npy``, are joined in
        the order of the files' names, with part-2 before part-10.
    labels : str, path or None, default=None
        A file of labels, ``.npy``, or ``.csv`` or ``.txt`` with one label per line, or many files
        ``.npy``, as in ``parts/y-*.npy``.
    label_column : str or None, default=None
        The column of a table with the labels: its name, its number from 0, or "last".  By default the one named label,
        labels, class, target or y, or else the last one.
    ignore : sequence of str, default=()
        Columns of a table to leave out, by name or number.  An index that pandas has written is left out in any case.
    n_features : int or None, default=None
        The number of features that a model expects.  A table with this number of columns has no labels.
    feature_names : sequence of str, default=()
        The features that a model expects: a table with a header is read in this order, without its other columns.
    label_name : str or None, default=None
        The label column of the table that the model was fitted to, if this table has it.
    image_size : tuple of int or None, default=None
        Height and width to which images are scaled and cropped at the centre.  By default the size of the images, or
        32 x 32 if sizes differ.
    colour : bool, default=False
        Whether to read images in colour, with three values per pixel, or in grey.
    strict : bool, default=False
        Whether a broken image is an error, or is skipped and listed.

    Returns
    -------
    Samples
        Values of a text table are float64; parquet and arrays keep float32 and float64; pixels are from 0 (black) to 1
        (white).  NaN stays NaN.  A single ``.npy`` file of floats stays on disk.

    Raises
    ------
    DataError
        If data cannot be read or are not finite numbers.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from ddlearn.cli.reading import read_data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "flowers.csv"
    >>> _ = path.write_text("width,height,label\n1.5,2,rose\n3,4.5,tulip\n")
    >>> samples = read_data(path)
    >>> samples.X.tolist(), samples.labels.tolist()
    ([[1.5, 2.0], [3.0, 4.5]], ['rose', 'tulip'])
    """
    if labels is not None and label_column is not None:
        raise DataError(f"{path}: labels are given by {labels} and by column {label_column!r}: give only one of them.")
    wanted = Wanted(labels is None, label_column, ignore, n_features, feature_names, label_name)
    files = find_files(path)
    if is_pattern(path):
        check_parts(files, PART_SUFFIXES)
    as_images = partial(read_images, size=image_size, colour=colour, strict=strict)
    samples = join_samples(files, [_read_one(file, wanted, as_images) for file in files])
    if labels is not None:
        samples = samples._replace(labels=read_labels(labels, len(samples.X)))
    _check_samples(Path(path), samples)
    return samples


def _read_one(path: Path, wanted: Wanted, as_images: Callable[[Path], Samples]) -> Samples:
    suffix = path.suffix.lower()
    if suffix not in {*TEXT_TABLES, ".parquet"}:
        refuse_columns(path, wanted)
    if not path.exists():
        return _load_named(path)
    with as_data_error(path):
        if path.is_dir() or suffix in IMAGE_SUFFIXES:
            return as_images(path)
        check_regular(path)
        return _read_file(path, wanted)


def _load_named(path: Path) -> Samples:
    """Load the digits; any other name is that of a file which does not exist."""
    if os.fspath(path) != "digits":
        near = [] if not path.parent.is_dir() else [one.name for one in path.parent.iterdir()]
        place = f", nor a folder {path.parent}" if not path.parent.is_dir() else ""
        raise DataError(
            f"{path}: there is no such file or folder{place}. Give a file ({_list_suffixes()}), a folder of images, or "
            f"digits, the images that come with scikit-learn{suggest(path.name, [*near, 'digits'])}"
        )
    from ...datasets import load_digits_images

    X, y = load_digits_images(return_X_y=True)
    return Samples(X, y, image_shape=(8, 8))


def _read_file(path: Path, wanted: Wanted) -> Samples:
    suffix = path.suffix.lower()
    if suffix in TEXT_TABLES:
        return read_csv(path, wanted)
    if suffix == ".parquet":
        return read_parquet(path, wanted)
    if suffix in _ARRAY_READERS:
        return _ARRAY_READERS[suffix](path)
    if suffix in SPARSE_SUFFIXES:
        return read_svmlight(path, wanted.n_features)
    if suffix == ".safetensors":
        raise DataError(f"{path} is a model, not data: give MODEL first and DATA second.")
    if suffix in (".gz", ".zip", ".bz2", ".xz"):
        raise DataError(f"{path} is compressed: unpack it first.")
    raise DataError(
        f"{path}: files ending in {suffix!r} are unknown; use {_list_suffixes()}, an image or a folder of images."
    )


def _list_suffixes() -> str:
    return ", ".join([*_ARRAY_READERS, *TEXT_TABLES, ".parquet", *SPARSE_SUFFIXES])


def _check_samples(source: Path, samples: Samples) -> None:
    if samples.X.ndim != 2 or 0 in samples.X.shape:
        raise DataError(f"{source} has no samples: its array has shape {samples.X.shape}.")
    if samples.labels is not None and len(samples.labels) != len(samples.X):
        raise DataError(f"{source} has {len(samples.X)} samples, but {len(samples.labels)} labels.")
    for start in range(0, len(samples.X), _ROWS_AT_ONCE):
        is_infinite = np.isinf(samples.X[start : start + _ROWS_AT_ONCE])
        if is_infinite.any():
            row, column = np.argwhere(is_infinite)[0]
            raise DataError(
                f"{source}, row {start + row}, column {name_column(column, samples.feature_names)}: the value is "
                "infinite, or too large; leave the cell empty (NaN) if it is unknown."
            )
