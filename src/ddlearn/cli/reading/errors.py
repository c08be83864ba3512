"""What can be wrong with a data file, and how it is told: by the file, the place and what to do."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# A sparse file of few bytes can stand for an array of any size; larger ones than this are refused before they are made.
_MOST_BYTES = 2**33


class DataError(ValueError):
    """Something is wrong with a data file; the message names the file, the place and what to do.

    Examples
    --------
    >>> from ddlearn.cli.reading import DataError
    >>> issubclass(DataError, ValueError)
    True
    """


@contextmanager
def as_data_error(path: Path) -> Iterator[None]:
    """Turn whatever a parser makes of foreign or damaged bytes into a DataError."""
    try:
        yield
    except (DataError, ModuleNotFoundError):
        raise
    except Exception as error:  # parsers of foreign bytes fail in any way: struct.error, EOFError, MemoryError, ...
        reason = " ".join(str(error).split())
        raise DataError(f"{path} cannot be read ({type(error).__name__}: {reason})") from error


def require(module: str, path: str | Path, extra: str) -> Any:
    """Import a library of an extra, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        raise ModuleNotFoundError(f'{path} needs {package}: pip install "ddlearn[{extra}]"', name=package) from error


def check_magic(path: Path, magic: bytes, kind: str, command: str) -> None:
    """Refuse other files here, since NumPy takes them for pickles and advises to load them all the same."""
    with path.open("rb") as file:
        if file.read(len(magic)) != magic:
            raise DataError(f"{path} is not a NumPy {kind}, such as {command} writes.")


def check_size(path: Path, shape: tuple[int, int], itemsize: int, advice: str) -> None:
    """Refuse an array that would fill the memory."""
    n_bytes = shape[0] * shape[1] * itemsize
    if n_bytes > _MOST_BYTES:
        raise DataError(
            f"{path} stands for {shape[0]} x {shape[1]} numbers, {n_bytes / 2**30:.0f} GiB in memory, {advice}."
        )


def name_column(column: int, names: list[str] | None) -> str:
    """Return how a message calls a column."""
    return repr(names[column]) if names else str(column)


def suggest(wanted: str, known: Iterable[str]) -> str:
    """Return the end of a message: the name that was probably meant."""
    near = difflib.get_close_matches(wanted, list(known), 1)
    return f"; did you mean {near[0]!r}?" if near else "."
