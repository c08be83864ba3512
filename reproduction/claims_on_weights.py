"""The claim that trade-offs come from the data (Section 2): estimated scales against one that is searched for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .cells import Cell, Record
from .setups import Setup
from .tables import format_table
from .trials import (
    FORMER,
    LOSS_TITLES,
    LOW_FLOORS,
    describe_errors,
    get_trial,
    make_cell,
)

WEIGHT_LOSSES = ("square", "logistic")
# Floors far above all scales make every noise variance and every class cost one constant, in the ratio of the medians
# of the first codes: then classification_weight is the fixed lambda of other methods, in units of that ratio.
FIXED: dict[str, Any] = {"noise_floor": 1e4, "cost_floor": 1e4}
LAMBDAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
ESTIMATED: dict[str, dict[str, Any]] = {"estimated, default floors": {}, "estimated, low floors": LOW_FLOORS}
# Terms of constants would stop a fit with fixed scales after one iteration; so all have the paper's 20.
_ALL_ITERATIONS: dict[str, Any] = {"tol": 0.0}
N_FOLDS = 3


def list_weight_cells(setup: Setup, n_jobs: int | None) -> list[Cell]:
    """Return fits with estimated scales, and with fixed ones over a grid of lambda."""
    scales = [*ESTIMATED.values(), *(FIXED | {"classification_weight": weight} for weight in LAMBDAS)]
    settings = FORMER | _ALL_ITERATIONS
    return [
        make_cell(setup.make_trial("ddl", settings | {"loss": loss} | scale, seed, n_folds=N_FOLDS), n_jobs)
        for loss in WEIGHT_LOSSES
        for scale in scales
        for seed in setup.seeds
    ]


def report_weights(records: Sequence[Record], output: Path) -> str:
    """Report the error with estimated scales, with the lambda that cross-validation chose, and over all lambdas."""
    rows = []
    for loss in WEIGHT_LOSSES:
        of_loss = [record for record in records if get_trial(record).settings["loss"] == loss]
        fixed = [record for record in of_loss if _get_floor(record) == FIXED["noise_floor"]]
        estimated = [
            describe_errors([record for record in of_loss if _get_floor(record) == floors.get("noise_floor")])
            for floors in ESTIMATED.values()
        ]
        chosen = choose_by_seed(fixed)
        lambdas = ", ".join(f"{_get_weight(record):g}" for record in chosen)
        grid = [describe_errors([record for record in fixed if _get_weight(record) == weight]) for weight in LAMBDAS]
        rows.append([LOSS_TITLES[loss], *estimated, f"{describe_errors(chosen)} ({lambdas})", *grid])
    header = ["loss", *ESTIMATED, "fixed lambda, by cross-validation", *(f"{weight:g}" for weight in LAMBDAS)]
    return format_table(header, rows)


def _get_floor(record: Record) -> float | None:
    return get_trial(record).settings.get("noise_floor")


def _get_weight(record: Record) -> float:
    return get_trial(record).settings["classification_weight"]


def choose_by_seed(records: Sequence[Record]) -> list[Record]:
    """Return for each seed the record of least validation error."""
    seeds = dict.fromkeys(get_trial(record).seed for record in records)
    return [
        min(
            (record for record in records if get_trial(record).seed == seed),
            key=lambda record: record["result"]["validation_error"],
        )
        for seed in seeds
    ]
