"""Arrays as text: what the page's script unpacks."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

Json = dict[str, Any]

# Of a row's range, the difference between values that are the same but for rounding: float32 keeps 7 digits.
_SAME = 1e-6
_MOST_STEPS = np.iinfo(np.uint8).max


def pack(array: NDArray[Any], dtype: str) -> Json:
    """Return an array as JSON: little-endian bytes in base64."""
    array = np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<"))
    return {"dtype": dtype, "shape": list(array.shape), "bytes": b64encode(array.tobytes()).decode("ascii")}


def pack_rows(rows: NDArray[np.floating]) -> Json:
    """Return rows as JSON; a byte a value where every row has evenly spaced values, as photographs have, else float32.

    A row is then ``offset + step * bytes``.
    """
    offsets, steps = np.zeros(len(rows)), np.zeros(len(rows))
    counts = np.zeros(rows.shape, np.uint8)
    for position, row in enumerate(rows.astype(float)):
        spaced = _find_steps(row)
        if spaced is None:
            return {"values": pack(rows, "f4")}
        offsets[position], steps[position], counts[position] = spaced
    return {"values": pack(counts, "u1"), "offset": pack(offsets, "f8"), "step": pack(steps, "f8")}


def _find_steps(row: NDArray[np.floating]) -> tuple[float, float, NDArray[np.floating]] | None:
    """Return offset, step and whole numbers of steps of a row, None if it has no such step, or too many."""
    if not np.isfinite(row).all():
        return None
    low, extent = row.min(), np.ptp(row)
    if extent == 0:
        return low, 0.0, np.zeros_like(row)
    levels = (np.unique(row) - low) / extent
    if np.count_nonzero(np.diff(levels) > _SAME) > _MOST_STEPS:
        return None
    n_steps = np.arange(1, _MOST_STEPS + 1)
    # All numbers are tried: the smallest gap need not be one step, as in 0, 2, 5.
    places = n_steps[:, None] * levels
    is_even = np.abs(places - np.rint(places)).max(axis=1) <= _SAME * n_steps
    if not is_even.any():
        return None
    step = extent / n_steps[is_even.argmax()]
    return low, step, np.rint((row - low) / step)
