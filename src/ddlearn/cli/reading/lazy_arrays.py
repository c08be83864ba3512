"""Arrays that stay in their files: shapes and types from the headers, and chunks of rows that are read when needed."""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...parallel import PART_ROWS
from .columns import Columns
from .samples import DataError, as_data_error, check_size

_MOST_CHUNKS = 10**6  # of an array; a few bytes of metadata can claim any number of rows


class LazyChunk(NamedTuple):
    """Rows of a file that are read together, later and perhaps by another process."""

    path: Path
    start: int
    shape: tuple[int, ...]
    load: Callable[[], NDArray[Any]]

    def read(self) -> NDArray[Any]:
        """Read the rows and check that they have the shape found in the header."""
        if not self.path.exists():
            raise DataError(
                f"{self.path} was removed, or is not visible to {platform.node()}: all workers need the same files "
                "under the same paths."
            )
        with as_data_error(self.path):
            rows = self.load()
        if rows.shape != self.shape:
            raise DataError(
                f"{self.path} has changed: the rows from {self.start} had shape {self.shape}, and now {rows.shape}. "
                "Read it again."
            )
        return rows


class LazyArray(NamedTuple):
    """An array in a file."""

    place: str  # its name in messages
    shape: tuple[int, ...]
    dtype: np.dtype
    chunks: list[LazyChunk]

    @property
    def n_rows(self) -> int:
        """Length of the first axis."""
        return self.shape[0] if self.shape else 0

    def make_row(self) -> NDArray[Any]:
        """Return a row of zeros, to find out its type and shape after conversion."""
        check_size(self.place, (1, *self.shape[1:]), self.dtype.itemsize, "this is one row")
        return np.zeros((1, *self.shape[1:]), self.dtype)


class LazyFile(NamedTuple):
    """A file of samples."""

    path: Path
    samples: LazyArray
    labels: LazyArray | None = None
    feature_names: list[str] | None = None
    columns: Columns | None = None  # of a table


def cut_rows(
    path: Path, shape: tuple[int, ...], load: Callable[[int, int], NDArray[Any]], n_together: int = 1
) -> list[LazyChunk]:
    """Return chunks of an array that is read by ranges of rows, in multiples of the rows stored together."""
    n_rows = shape[0] if shape else 0
    step = max(PART_ROWS // n_together, 1) * n_together
    if n_rows > _MOST_CHUNKS * step:
        raise DataError(f"{path} claims {n_rows} rows, more than {_MOST_CHUNKS} chunks of {step}.")
    ranges = [(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
    return [LazyChunk(path, start, (stop - start, *shape[1:]), partial(load, start, stop)) for start, stop in ranges]
