r"""The evidence function of any loss as a table, which the page's script interpolates.

The fast rule (``inference.py``) needs of a loss only :math:`\Omega(-s) - \Omega(s)`, an odd function of one score.  A
table of it serves every loss, those of users too, with no second version in another language.  Between two entries
stands a cubic with the values and slopes of both; intervals are halved until that is exact, so that the table is fine
where a loss bends and coarse where it is smooth.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...losses import Loss
from .packing import pack

Floats = NDArray[np.floating]

_N_INTERVALS = 64  # to begin with
_TOLERANCE = 1e-9  # of the cubic in the middle of an interval, relative to the value there or to 1
_N_HALVINGS = 30  # a kink stays, in an interval this many times halved
_MARGIN = 4.0  # times the largest score seen, which a drawing may exceed
_SMALLEST_LIMIT = 4.0
_LARGEST_LIMIT = 100.0  # beyond it, losses that grow exponentially leave the range of numbers


def tabulate_evidence(loss: Loss, scores: Floats) -> dict[str, Any]:
    """Return values and slopes at scores from 0 to a limit far above those that were seen."""
    largest = float(np.abs(scores).max(initial=0))
    limit = float(np.clip(_MARGIN * largest, _SMALLEST_LIMIT, _LARGEST_LIMIT))
    grid = np.linspace(0, limit, _N_INTERVALS + 1)
    for _ in range(_N_HALVINGS):
        middles = (grid[1:] + grid[:-1]) / 2
        values = _evaluate(loss, middles)
        is_rough = np.abs(_interpolate_middles(loss, grid) - values) > _TOLERANCE * np.maximum(np.abs(values), 1)
        if not is_rough.any():
            break
        grid = np.sort(np.concatenate([grid, middles[is_rough]]))
    return {name: pack(array, "f8") for name, array in _tabulate(loss, grid).items()}


def _tabulate(loss: Loss, grid: Floats) -> dict[str, Floats]:
    return {
        "scores": grid,
        "values": _evaluate(loss, grid),
        "slopes": -loss.gradient(-grid) - loss.gradient(grid),
    }


def _evaluate(loss: Loss, scores: Floats) -> Floats:
    return loss.value(-scores) - loss.value(scores)


def _interpolate_middles(loss: Loss, grid: Floats) -> Floats:
    """Return the cubics in the middles of their intervals."""
    _, values, slopes = _tabulate(loss, grid).values()
    return (values[1:] + values[:-1]) / 2 - np.diff(grid) * np.diff(slopes) / 8
