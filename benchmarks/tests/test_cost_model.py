"""The cost model finds planted costs, and projects them."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.cost_model import TEN_GIGABITS, CostModel, Line, find_limit, fit_costs, project

PLANTED = CostModel(
    seconds_per_row=4e-6,
    worker_seconds_per_part=0.02,
    scheduler_seconds=Line(0.05, 0.008),
    client_seconds=Line(0.03, 0.002),
    broadcast_bytes=6e4,
    summand_bytes=2e5,
    scheduler_bytes=Line(6e5, 2e4),
    scheduler_memory=Line(1e6, 1e5),
)


def _cost(n_rows, n_workers, n_parts, n_iterations):
    """What a cell of the planted model would measure."""
    model = PLANTED
    return {
        "n_rows": n_rows,
        "n_workers": n_workers,
        "n_parts": n_parts,
        "cpu_seconds": {
            "worker": model.seconds_per_row * n_rows + model.worker_seconds_per_part * n_parts,
            "scheduler": model.scheduler_seconds.at(n_parts),
            "client": model.client_seconds.at(n_parts),
        },
        "n_bytes": {
            "client to scheduler": model.broadcast_bytes + 1e3 * n_parts,
            "worker to scheduler": model.summand_bytes + 5e3 * n_parts,
            "scheduler to client": 3.4e5 + 1.4e4 * n_parts,
            "worker to worker": 1e5 * n_parts,
        },
        "scheduler_memory_bytes": n_iterations * model.scheduler_memory.at(n_parts),
    }


def test_the_cost_model_finds_planted_costs():
    cells = [_cost(*cell, n_iterations=5) for cell in [(10_000, 1, 2), (10**6, 2, 16), (10**5, 2, 2), (10**5, 2, 64)]]
    found = fit_costs(cells, n_iterations=5)
    np.testing.assert_allclose(np.hstack(list(found)), np.hstack(list(PLANTED)), rtol=1e-6)


def test_workers_share_rows_and_parts_and_nothing_else():
    alone, many = (project(PLANTED, 10**9, n_workers, 62_500) for n_workers in (1, 100))
    assert alone.total == pytest.approx(sum(alone))
    assert alone.rows == pytest.approx(4000)
    assert (many.rows, many.parts) == pytest.approx((alone.rows / 100, alone.parts / 100))
    assert (many.scheduler, many.client, many.wire) == (alone.scheduler, alone.client, alone.wire)
    assert many.broadcast == pytest.approx(100 * alone.broadcast)
    assert alone.reduction == 0  # nothing has to leave the only worker
    # 160 parts of each worker, and five levels of eight above them.
    assert many.reduction == pytest.approx((160 + 5 * 8) * PLANTED.summand_bytes / TEN_GIGABITS)


def test_scaling_ends_where_workers_wait_as_long_as_they_work():
    limit = find_limit(PLANTED, 10**9, 62_500)
    seconds = project(PLANTED, 10**9, limit, 62_500)
    assert seconds.rows + seconds.parts == pytest.approx(seconds.total / 2, rel=0.1)
    # Larger parts, fewer tasks: the scheduler is asked less often.
    assert find_limit(PLANTED, 10**9, 1_000_000) > 5 * limit


def test_more_workers_than_parts_do_not_help():
    assert project(PLANTED, 1000, 50, 100).rows == project(PLANTED, 1000, 10, 100).rows
