"""Samples and labels from a file or a folder of images.

An invalid file raises a :class:`DataError` that names the file and the place.  Rows are counted from 0.  Nothing is
ever unpickled.  Each kind of file has its own module; this one chooses between them.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

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

_READERS: dict[str, Callable[[Path, Wanted], Samples]] = {
    ".npz": lambda path, _: read_npz(path),
    ".npy": lambda path, _: read_npy(path),
    **dict.fromkeys(TEXT_TABLES, read_csv),
    ".parquet": read_parquet,
    **dict.fromkeys(SPARSE_SUFFIXES, lambda path, wanted: read_svmlight(path, wanted.n_features)),
}
DATA_SUFFIXES = {*_READERS, *IMAGE_SUFFIXES}
_ROWS_AT_ONCE = 4096  # checked for infinite values


def read_data(
    path: str | os.PathLike[str],
    *,
    labels: str | os.PathLike[str] | None = None,
    image_size: tuple[int, int] | None = None,
    colour: bool = False,
    strict: bool = False,
    **of_tables: Any,
) -> Samples:
    r"""Read samples, and labels if there are any.

    ``path`` is a file, a folder of images, a pattern of files such as ``parts/X-*.npy``, or "digits"; `labels`,
    `image_size`, `colour` and `strict` are those of the command line, and so are `of_tables`: `has_labels`,
    `label_column`, and `ignore`, the columns to leave out.

    Values of a text table are float64; parquet and arrays keep float32 and float64; pixels are from 0 (black) to 1
    (white).  NaN stays NaN.  A single ``.npy`` file of floats stays on disk.

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
    wanted = Wanted(labels is None, **of_tables)
    if labels is not None and (column := wanted.label_column) is not None:
        raise DataError(f"{path}: labels are given by {labels} and by column {column!r}: give only one of them.")
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
            f"{path}: there is no such file or folder{place}. Give a file ({', '.join(_READERS)}), a folder of "
            f"images, or digits, the images that come with scikit-learn{suggest(path.name, [*near, 'digits'])}"
        )
    from ...datasets import load_digits_images

    X, y = load_digits_images(return_X_y=True)
    return Samples(X, y, image_shape=(8, 8))


def _read_file(path: Path, wanted: Wanted) -> Samples:
    suffix = path.suffix.lower()
    if suffix in _READERS:
        return _READERS[suffix](path, wanted)
    if suffix == ".safetensors":
        raise DataError(f"{path} is a model, not data: give MODEL first and DATA second.")
    if suffix in (".gz", ".zip", ".bz2", ".xz"):
        raise DataError(f"{path} is compressed: unpack it first.")
    raise DataError(
        f"{path}: files ending in {suffix!r} are unknown; use {', '.join(_READERS)}, an image or a folder of images."
    )


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
