"""From a file, a folder of images or the name of a data set to samples and labels.

What is wrong with a file is a :class:`DataError` that names the file and the place.  Rows are counted from 0, as
everywhere in Python.  Nothing is ever unpickled.  Each format has a file of its own; here is chosen between them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from .arrays import ARRAY_READERS
from .errors import DataError, as_data_error, name_column
from .images import IMAGE_SUFFIXES, read_images
from .labels import check_one_source, read_labels
from .named import load_named
from .parquet import read_parquet
from .parts import (
    PART_SUFFIXES,
    cut_into_chunks,
    is_in_parts,
    read_parts,
    spread,
)
from .samples import BrokenImage, Samples
from .svmlight import SPARSE_SUFFIXES, read_svmlight
from .text_tables import TEXT_TABLES, read_csv

__all__ = ["BrokenImage", "DataError", "Samples", "read_data", "read_in_chunks", "read_parts"]

_ROWS_AT_ONCE = 4096  # when an array is searched for infinities


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
        data sets "digits", "usps", "mnist" and "yaleb", with the part after a colon, as in "usps:train".  Many files,
        as in ``parts/X-*.npy``, and Zarr stores are for :func:`read_parts`, which is called for them.
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
    >>> from ddlearn.cli.reading import read_data
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "flowers.csv"
    >>> _ = path.write_text("width,height,label\n1.5,2,rose\n3,4.5,tulip\n")
    >>> samples = read_data(path)
    >>> samples.X.tolist(), samples.labels.tolist()
    ([[1.5, 2.0], [3.0, 4.5]], ['rose', 'tulip'])
    """
    if is_in_parts(path):
        return read_parts(path, labels=labels, label_column=label_column, n_features=n_features)
    source = Path(path)
    check_one_source(path, labels, label_column)
    if label_column is not None and source.suffix.lower() not in {*TEXT_TABLES, ".parquet"}:
        raise DataError(f"{path}: only tables (.csv, .parquet) have a label column, here {label_column!r}.")
    if not source.exists():
        samples = load_named(os.fspath(path))
    elif source.is_dir() or source.suffix.lower() in IMAGE_SUFFIXES:
        with as_data_error(source):
            samples = read_images(source, image_size, colour, strict)
    else:
        with as_data_error(source):
            samples = _read_file(source, labels is None, label_column, n_features)
    if labels is not None:
        samples = samples._replace(labels=read_labels(Path(labels), len(samples.X)))
    _check_samples(source, samples)
    return samples


def read_in_chunks(
    path: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    label_column: str | None = None,
    n_places: int = 1,
    **options: Any,
) -> Samples:
    """Read what ``read_data`` reads, as Dask arrays: from the files by whoever works on it, where that is possible.

    Parameters
    ----------
    path : str or path
        As in ``read_data``.  Of ``.npy``, ``.npz``, ``.parquet`` and Zarr, only headers are read here.
    labels, label_column
        As in :func:`read_parts`.
    n_places : int, default=1
        How many work on it at once: there are as many chunks, if rows suffice.
    **options : object
        Of ``read_data``, for other data.

    Returns
    -------
    Samples
        Its ``X`` and ``labels`` are Dask arrays in the same chunks of 65536 rows at most.

    Examples
    --------
    >>> from ddlearn.cli.reading import read_in_chunks
    >>> read_in_chunks("digits", n_places=2).X.chunks
    ((898, 899), (64,))
    """
    source = Path(path)
    if is_in_parts(path) or (source.is_file() and source.suffix.lower() in PART_SUFFIXES):
        return spread(read_parts(path, labels=labels, label_column=label_column), n_places)
    samples = read_data(path, labels=labels, label_column=label_column, **options)
    return spread(cut_into_chunks(samples), n_places)


def _read_file(path: Path, has_labels: bool, label_column: str | None, n_features: int | None) -> Samples:
    suffix = path.suffix.lower()
    if suffix in TEXT_TABLES:
        return read_csv(path, has_labels, label_column, n_features)
    if suffix == ".parquet":
        return read_parquet(path, has_labels, label_column, n_features)
    if suffix in ARRAY_READERS:
        return ARRAY_READERS[suffix](path)
    if suffix in SPARSE_SUFFIXES:
        return read_svmlight(path, n_features)
    known = ", ".join([*ARRAY_READERS, *TEXT_TABLES, ".parquet", *SPARSE_SUFFIXES])
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
                f"{source}, row {start + row}, column {name_column(column, samples.feature_names)}: the number is "
                "infinite, or too large; leave the cell empty (NaN) if it is not known."
            )
