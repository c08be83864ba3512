"""What an iteration on a cluster costs, as sums over rows, parts and workers; fitted to measurements, and projected.

Of a fit of N rows in P parts on W workers one iteration takes

    rows        c N / W         the workers' computing, for each row
    parts       p P / W         what the workers do for each part, whatever its size: tasks, Gram matrices, sums
    scheduler   s0 + s P        one process, however many workers there are
    client      k0 + k P        likewise: graphs of tasks, and what is solved from the sums
    wire        (a + b P) / B   bytes through the scheduler at a bandwidth of B
    broadcast   d W / B         what all workers need comes to each of them once, all from the same worker
    reduction   r P / (W B)     every summand travels once; and the top of the tree, 8 of them a level

Seconds are of processors (``traffic.py``), so that they do not depend on how many processes share the cores of the
machine that measured them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, log
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import nnls

FAN_IN = 8  # as in ddlearn.parallel.parts
TEN_GIGABITS = 1.25e9  # bytes a second
MOST_WORKERS = 100_000


class Line(NamedTuple):
    """A cost that grows with the number of parts."""

    fixed: float
    per_part: float

    def at(self, n_parts: int) -> float:
        """Return the cost of a number of parts."""
        return self.fixed + self.per_part * n_parts


class CostModel(NamedTuple):
    """Costs of one iteration."""

    seconds_per_row: float
    worker_seconds_per_part: float
    scheduler_seconds: Line
    client_seconds: Line
    broadcast_bytes: float  # what comes from the client, of which every worker gets a copy
    summand_bytes: float  # what a part adds to the sums
    scheduler_bytes: Line  # in and out
    scheduler_memory: Line  # what the scheduler keeps of the iteration until the fit ends


class Projection(NamedTuple):
    """Seconds of one iteration, by what takes them."""

    rows: float
    parts: float
    scheduler: float
    client: float
    wire: float
    broadcast: float
    reduction: float

    @property
    def total(self) -> float:
        """All of it, one after another."""
        return sum(self)


def _fit(columns: Sequence[Sequence[float]], measured: Sequence[float]) -> list[float]:
    """Return coefficients that are not negative, with the least squared relative errors."""
    target = np.array(measured, float)
    scale = np.maximum(target, target.mean() / 10)  # memory that did not grow has no relative error
    return nnls(np.array(columns, float).T / scale[:, None], target / scale)[0].tolist()


def fit_costs(measurements: Sequence[Mapping[str, Any]], n_iterations: int) -> CostModel:
    """Fit the model to what was measured on workers.

    Parameters
    ----------
    measurements : sequence of dict
        With "n_rows", "n_parts", and what ``scaling_cells.measure_on_workers`` returns; with several numbers of parts
        for about the same number of rows, or else the two cannot be told apart.
    n_iterations : int
        How many iterations the scheduler's memory grew with.

    Returns
    -------
    CostModel
        The costs of one iteration.
    """
    n_parts = [cell["n_parts"] for cell in measurements]
    ones = [1.0] * len(n_parts)

    def fit_line(measured: Sequence[float]) -> Line:
        return Line(*_fit([ones, n_parts], measured))

    def get_bytes(way: str) -> list[float]:
        return [cell["n_bytes"].get(way, 0) for cell in measurements]

    def get_seconds(role: str) -> list[float]:
        return [cell["cpu_seconds"][role] for cell in measurements]

    through = [sum(n_bytes for way, n_bytes in cell["n_bytes"].items() if "scheduler" in way) for cell in measurements]
    memory = [cell["scheduler_memory_bytes"] / n_iterations for cell in measurements]
    per_row, per_part = _fit([[cell["n_rows"] for cell in measurements], n_parts], get_seconds("worker"))
    return CostModel(
        per_row,
        per_part,
        fit_line(get_seconds("scheduler")),
        fit_line(get_seconds("client")),
        fit_line(get_bytes("client to scheduler")).fixed,
        fit_line(get_bytes("worker to scheduler")).fixed,
        fit_line(through),
        fit_line(memory),
    )


def project(
    model: CostModel, n_rows: int, n_workers: int, part_rows: int, bandwidth: float = TEN_GIGABITS
) -> Projection:
    """Return where the seconds of an iteration go, if workers have equal numbers of parts."""
    n_parts = ceil(n_rows / part_rows)
    most_parts = ceil(n_parts / n_workers)  # of a worker: with too few parts the others wait, or do nothing
    n_levels = ceil(log(max(n_parts, 1), FAN_IN)) if n_workers > 1 else 0
    n_travelling = most_parts + FAN_IN * n_levels if n_workers > 1 else 0
    return Projection(
        rows=model.seconds_per_row * min(most_parts * part_rows, n_rows),
        parts=model.worker_seconds_per_part * most_parts,
        scheduler=model.scheduler_seconds.at(n_parts),
        client=model.client_seconds.at(n_parts),
        wire=model.scheduler_bytes.at(n_parts) / bandwidth,
        broadcast=model.broadcast_bytes * n_workers / bandwidth,
        reduction=model.summand_bytes * n_travelling / bandwidth,
    )


def find_limit(model: CostModel, n_rows: int, part_rows: int) -> int:
    """Return the most workers that are still used by half: twice as many are a third faster at most."""
    alone = project(model, n_rows, 1, part_rows).total
    candidates = np.unique(np.geomspace(1, MOST_WORKERS, 400).astype(int)).tolist()
    useful = [n for n in candidates if alone >= 0.5 * n * project(model, n_rows, n, part_rows).total]
    return max(useful)
