"""What readers return and raise: samples, and errors that name the file, the place in it and what to do."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_MAX_BYTES = 2**33  # of an array in memory; a file of a few bytes can describe an array of any size


class Samples(NamedTuple):
    """Samples that were read, with their labels and names."""

    X: NDArray[np.floating]  # float32 or float64; of a .npy file, a memory map
    labels: NDArray[Any] | None = None  # integers if all are integers, otherwise text; None if the source has none
    feature_names: list[str] | None = None  # of columns, if the source has them
    image_shape: tuple[int, ...] | None = None  # of images: height and width, and 3 for colour
    sample_names: list[str] | None = None  # the files of a folder of images
    broken: Sequence[tuple[str, str]] = ()  # the images that could not be read and were skipped, and the reasons
    label_name: str | None = None  # the column of a table that holds the labels: its name, or number without a header
    is_guessed: bool = False  # whether that column was taken only because it is the last
    notes: Sequence[str] = ()  # for the user, on how the source was read


class DataError(ValueError):
    """A data file is invalid; the message names the file, the place in it and what to do."""


@contextmanager
def as_data_error(path: Path) -> Iterator[None]:
    """Turn any error of a parser into a DataError."""
    try:
        yield
    except (DataError, ModuleNotFoundError):
        raise
    except Exception as error:  # parsers raise anything for damaged bytes: struct.error, EOFError, MemoryError, ...
        reason = " ".join(str(error).split())
        raise DataError(f"{path} cannot be read ({type(error).__name__}: {reason})") from error


def require(module: str, user: str | Path, extra: str) -> Any:
    """Import an optional library, or raise an error that says how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        raise ModuleNotFoundError(f'{user} needs {package}: pip install "ddlearn[{extra}]"', name=package) from error


def check_regular(path: Path) -> None:
    """Refuse pipes and devices, which have no end, or make a reader wait for ever."""
    if not path.is_file():
        raise DataError(f"{path} is not a regular file: copy what it delivers to a file.")


def check_magic(path: Path, magic: bytes, kind: str, command: str) -> None:
    """Refuse files without NumPy's magic bytes, which NumPy would take for pickles."""
    with path.open("rb") as file:
        if file.read(len(magic)) != magic:
            raise DataError(f"{path} is not a NumPy {kind} as written by {command}.")


def check_size(place: str | Path, shape: tuple[int, ...], itemsize: int, advice: str) -> None:
    """Refuse an array that would exhaust the memory."""
    n_bytes = math.prod(shape) * itemsize
    if n_bytes > _MAX_BYTES:
        sides = " x ".join(map(str, shape))
        raise DataError(f"{place} has {sides} values, {n_bytes / 2**30:.0f} GiB in memory: {advice}.")


def name_column(column: int, names: Sequence[str] | None) -> str:
    """Return a column's name for messages, or its number."""
    return repr(names[column]) if names else str(column)


def list_some(texts: Sequence[str]) -> str:
    """Return the first five texts, and how many more there are."""
    return ", ".join(texts[:5]) + (f" and {len(texts) - 5} more" if len(texts) > 5 else "")


def list_differences(names: Sequence[str], expected: Sequence[str]) -> str:
    """Return which columns are missing and which are unexpected, at most five of each."""
    missing = [name for name in expected if name not in names]
    unknown = [name for name in names if name not in expected]
    return " and ".join(
        f"{word} {', '.join(map(repr, some[:5]))}{', ...' if len(some) > 5 else ''}"
        for word, some in (("without", missing), ("with", unknown))
        if some
    )
