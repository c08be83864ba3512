"""Arrays as text, for JSON: ``unpack.js`` reads them."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

Json = dict[str, Any]

_SAME = 1e-6  # relative to the range of a row, values this close differ by rounding: float32 has 7 digits
_MOST_STEPS = np.iinfo(np.uint8).max


def pack(array: NDArray[Any], dtype: str) -> Json:
    """Return an array as JSON: little-endian bytes in base64."""
    array = np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<"))
    return {"dtype": dtype, "shape": list(array.shape), "bytes": b64encode(array.tobytes()).decode("ascii")}


def pack_rows(rows: NDArray[np.floating]) -> Json:
    """Return rows as JSON: a byte per value if each row is ``offset + step * bytes``, as photographs are, or float32."""
    spaced = []
    for row in rows.astype(float):
        spaced.append(_find_steps(row))
        if spaced[-1] is None:
            return {"values": pack(rows, "f4")}
    offsets, steps, counts = (np.array(part) for part in zip(*spaced, strict=True))
    return {"values": pack(counts, "u1"), "offset": pack(offsets, "f8"), "step": pack(steps, "f8")}


def _find_steps(row: NDArray[np.floating]) -> Any:
    """Return offset, step and number of steps per value, or None if a row is not evenly spaced in at most 255 steps."""
    if not np.isfinite(row).all():
        return None
    low, extent = row.min(), np.ptp(row)
    if extent == 0:
        return low, 0.0, np.zeros_like(row)
    levels = (np.unique(row) - low) / extent
    if np.count_nonzero(np.diff(levels) > _SAME) > _MOST_STEPS:
        return None
    n_steps = np.arange(1, _MOST_STEPS + 1)
    # All step counts are tried, since the smallest gap need not be one step, as in 0, 2, 5.
    places = n_steps[:, None] * levels
    is_even = np.abs(places - np.rint(places)).max(axis=1) <= _SAME * n_steps
    if not is_even.any():
        return None
    step = extent / n_steps[is_even.argmax()]
    return low, step, np.rint((row - low) / step)
