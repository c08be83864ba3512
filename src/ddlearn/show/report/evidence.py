r"""The evidence function of a loss as a table, which ``classify.js`` interpolates.

The fast rule of inference needs only :math:`\Omega(-s) - \Omega(s)` of a loss, an odd function of a score.  A table of
it works for every loss, including those of users, without a second implementation in JavaScript.  Between two entries
the function is a cubic with the values and slopes of both.  Intervals are halved until the cubic is exact, so that the
table is fine where the loss bends and coarse where it is smooth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...losses import Loss
from .packing import Json, pack

Floats = NDArray[np.floating]

_N_INTERVALS = 64  # initially
_TOLERANCE = 1e-9  # error of the cubic in the middle of an interval, relative to the value there or to 1
_N_HALVINGS = 30  # a kink remains in an interval that was halved this often
_MARGIN = 4.0  # of the table over the largest score seen, since a drawing may exceed it
_SMALLEST_LIMIT, _LARGEST_LIMIT = 4.0, 100.0  # beyond, losses that grow exponentially overflow


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
