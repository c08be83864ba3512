r"""What the scripts of the page unpack: arrays as text, and the evidence function of a loss as a table.

The fast rule of inference needs only :math:`\Omega(-s) - \Omega(s)` of a loss, an odd function of a score.  A table of
it works for every loss, including those of users, without a second implementation in JavaScript.  Between two entries
the function is a cubic with the values and slopes of both; intervals are halved until the cubic is exact.
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...model.losses import Loss

Floats = NDArray[np.floating]
Json = dict[str, Any]

_SAME = 1e-6  # relative to the range of a row, values this close differ by rounding: float32 has 7 digits
_MOST_STEPS = np.iinfo(np.uint8).max
_N_INTERVALS = 64  # initially
_TOLERANCE = 1e-9  # error of the cubic in the middle of an interval, relative to the value there or to 1
_N_HALVINGS = 30  # a kink remains in an interval that was halved this often
_MARGIN = 4.0  # of the table over the largest score seen, since a drawing may exceed it
_SMALLEST_LIMIT, _LARGEST_LIMIT = 4.0, 100.0  # beyond, losses that grow exponentially overflow


def pack(array: NDArray[Any], dtype: str) -> Json:
    """Return an array as JSON: little-endian bytes in base64."""
    array = np.ascontiguousarray(array, dtype=np.dtype(dtype).newbyteorder("<"))
    return {"dtype": dtype, "shape": list(array.shape), "bytes": b64encode(array.tobytes()).decode("ascii")}


def make_column(values: NDArray[Any]) -> list[Any]:
    """Return a list, with None for what is not finite, which JSON lacks."""
    return [None if isinstance(value, float) and not np.isfinite(value) else value for value in values.tolist()]


def pack_rows(rows: Floats) -> Json:
    """Return rows as JSON: a byte per value if each row is ``offset + step * bytes``, as in photographs, or floats.

    Those of single precision stay so; of tables, whose columns may have large offsets, every digit counts.
    """
    spaced = []
    for row in rows.astype(float):
        spaced.append(_find_steps(row))
        if spaced[-1] is None:
            with np.errstate(over="ignore"):
                is_single = np.array_equal(rows.astype("f4"), rows, equal_nan=True)
            return {"values": pack(rows, "f4" if is_single else "f8")}
    offsets, steps, counts = (np.array(part) for part in zip(*spaced, strict=True))
    return {"values": pack(counts, "u1"), "offset": pack(offsets, "f8"), "step": pack(steps, "f8")}


def _find_steps(row: Floats) -> Any:
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


def tabulate_evidence(loss: Loss, scores: Floats) -> Json:
    """Return values and slopes for scores from 0 to a limit well above those seen."""
    largest = float(np.abs(scores).max(initial=0))
    limit = float(np.clip(_MARGIN * largest, _SMALLEST_LIMIT, _LARGEST_LIMIT))
    grid = np.linspace(0, limit, _N_INTERVALS + 1)
    for _ in range(_N_HALVINGS):
        middles = (grid[1:] + grid[:-1]) / 2
        (values, slopes), (exact, _) = _evaluate(loss, grid), _evaluate(loss, middles)
        cubic = (values[1:] + values[:-1]) / 2 - np.diff(grid) * np.diff(slopes) / 8
        is_rough = np.abs(cubic - exact) > _TOLERANCE * np.maximum(np.abs(exact), 1)
        if not is_rough.any():
            break
        grid = np.sort(np.concatenate([grid, middles[is_rough]]))
    values, slopes = _evaluate(loss, grid)
    return {"scores": pack(grid, "f8"), "values": pack(values, "f8"), "slopes": pack(slopes, "f8")}


def _evaluate(loss: Loss, scores: Floats) -> tuple[Floats, Floats]:
    """Return values and slopes of the evidence function."""
    return loss.value(-scores) - loss.value(scores), -loss.gradient(-scores) - loss.gradient(scores)
