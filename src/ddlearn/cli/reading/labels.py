"""Labels: integers if all of them are, numbers if all are, and otherwise text; from arrays, columns and files."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .parts import check_parts, find_files, is_pattern
from .samples import DataError, as_data_error, check_magic, check_regular

_LONGEST_LABEL = 1000  # characters; all labels take the space of the longest
_INTEGER = re.compile(r"-?(0|[1-9]\d{0,17})(\.0*)?")  # not 007, which is a name, nor 20 digits, which overflow
_DECIMAL = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d*)?")


def check_label_type(dtype: np.dtype, place: str) -> None:
    """Refuse text so wide that a small compressed file would fill the memory."""
    if dtype.kind in "US" and (width := dtype.itemsize // np.dtype(f"{dtype.kind}1").itemsize) > _LONGEST_LABEL:
        raise DataError(f"{place} has labels of up to {width} characters; a label has at most {_LONGEST_LABEL}.")


def to_labels(array: NDArray[Any], place: str) -> NDArray[Any]:
    """Return an array as labels, with whole numbers as integers."""
    check_label_type(array.dtype, place)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1 or array.dtype.kind not in "buifUS":
        raise DataError(
            f"{place} has shape {array.shape} and type {array.dtype}; labels are one number or text per sample."
        )
    if array.dtype.kind == "f" and np.isfinite(array).all() and (array == np.trunc(array)).all():
        return array.astype(np.int64)
    return array.astype(str) if array.dtype.kind == "S" else array


class TextLabels:
    """Labels read as text in batches; each distinct text is stored once."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.positions: list[NDArray[np.int32]] = []

    def add(self, texts: Iterable[str]) -> None:
        """Append labels."""
        numbers = [self.known.setdefault(text.strip(), len(self.known)) for text in texts]
        self.positions.append(np.array(numbers, np.int32))

    def finish(self, place: str | Path) -> NDArray[Any]:
        """Return integers if all labels are integers, numbers if all are numbers, and otherwise text."""
        for text in self.known:
            if len(text) > _LONGEST_LABEL or "\n" in text or "\r" in text:
                raise DataError(
                    f"{place}: the label that begins with {text[:40]!r} has {len(text)} characters in "
                    f"{len(text.splitlines())} lines; a label has one, of at most {_LONGEST_LABEL}. Is a quote not "
                    "closed?"
                )
        values: NDArray[Any] = np.array(list(self.known), dtype=str)
        if all(_INTEGER.fullmatch(text) for text in self.known):
            values = np.array([int(text.partition(".")[0]) for text in self.known])
        elif all(_DECIMAL.fullmatch(text) for text in self.known):
            values = values.astype(float)
        return values[np.concatenate(self.positions)]


def read_labels(path: str | os.PathLike[str], n_samples: int) -> NDArray[Any]:
    """Read the labels of all samples from a file, or from the .npy files of a pattern."""
    files = find_files(path)
    if is_pattern(path):
        check_parts(files, (".npy",))
    return np.concatenate([_read_file(file, n_samples) for file in files])


def _read_file(path: Path, n_samples: int) -> NDArray[Any]:
    """Read a file of labels; a text file with one line more than there are samples has a header."""
    if not path.exists():
        raise DataError(f"{path}: no such file of labels.")
    check_regular(path)
    with as_data_error(path):
        if path.suffix.lower() == ".npy":
            check_magic(path, b"\x93NUMPY", "array (.npy)", "numpy.save(path, labels)")
            return np.array(to_labels(np.load(path, mmap_mode="r", allow_pickle=False), str(path)))
        if path.suffix.lower() not in (".csv", ".txt"):
            raise DataError(f"{path}: labels are read from .npy, .csv or .txt, not {path.suffix!r}.")
        with path.open(encoding="utf-8-sig", newline="") as lines:
            rows = [row for row in csv.reader(lines) if row]
    wide = next((number for number, row in enumerate(rows) if len(row) > 1), None)
    if wide is not None:
        raise DataError(f"{path}, row {wide}: there are {len(rows[wide])} cells; give one label per line.")
    labels = TextLabels()
    labels.add(row[0] for row in (rows[1:] if len(rows) == n_samples + 1 else rows))
    return labels.finish(path)
