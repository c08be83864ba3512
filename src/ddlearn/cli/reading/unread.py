"""Arrays that stay in their files: what the headers tell, and the pieces of rows that are read one at a time."""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...parallel import PART_ROWS
from .errors import DataError, as_data_error


class Piece(NamedTuple):
    """Some rows of a file, and how they are read: by whoever needs them, at another time and perhaps elsewhere."""

    path: Path
    start: int
    shape: tuple[int, ...]
    load: Callable[[], NDArray[Any]]

    def read(self) -> NDArray[Any]:
        """Read the rows, which must be as many as the header said."""
        if not self.path.exists():
            raise DataError(
                f"{self.path} has gone, or {platform.node()} does not see it: all workers need the same files under "
                "the same paths."
            )
        with as_data_error(self.path):
            rows = self.load()
        if rows.shape != self.shape:
            raise DataError(
                f"{self.path} has changed: from row {self.start} on, it had rows of the shape {self.shape}, and now "
                f"{rows.shape}. Read it again."
            )
        return rows


class Unread(NamedTuple):
    """An array in a file."""

    place: str  # how messages call it
    shape: tuple[int, ...]
    dtype: np.dtype
    pieces: list[Piece]

    @property
    def n_rows(self) -> int:
        """The length of the first axis."""
        return self.shape[0] if self.shape else 0

    def make_row(self) -> NDArray[Any]:
        """Return a row as the file has them, to see what becomes of it."""
        return np.zeros((1, *self.shape[1:]), self.dtype)


class UnreadFile(NamedTuple):
    """A file of samples."""

    path: Path
    samples: Unread
    labels: Unread | None = None
    feature_names: list[str] | None = None


def cut_rows(
    path: Path, shape: tuple[int, ...], load: Callable[[int, int], NDArray[Any]], n_together: int = 1
) -> list[Piece]:
    """Return the pieces of an array that is read by ranges of rows, of which some are stored together."""
    n_rows = shape[0] if shape else 0
    step = max(PART_ROWS // n_together, 1) * n_together
    ranges = [(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
    return [Piece(path, start, (stop - start, *shape[1:]), partial(load, start, stop)) for start, stop in ranges]
