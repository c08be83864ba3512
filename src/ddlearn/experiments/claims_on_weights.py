"""The claim that trade-offs come from the data (Section 2): estimated scales against one that is searched for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .cells import Cell, Record
from .setups import Setup, describe_errors
from .tables import format_table
from .trials import LOSS_TITLES, PAPER, get_trial, make_cell

WEIGHT_LOSSES = ("square", "logistic")
# Floors far above all scales make every noise variance and every class cost one constant, in the ratio of the medians
# of the first codes: then classification_weight is the fixed lambda of other methods, in units of that ratio.
FIXED: dict[str, Any] = {"noise_floor": 1e4, "cost_floor": 1e4}
LAMBDAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
N_FOLDS = 3


def list_weight_cells(setup: Setup, n_jobs: int | None) -> list[Cell]:
    """Return fits with estimated scales, and with fixed ones over a grid of lambda."""
    settings = [{}, *(FIXED | {"classification_weight": weight} for weight in LAMBDAS)]
    return [
        make_cell(setup.make_trial("ddl", PAPER | {"loss": loss} | some, seed, n_folds=N_FOLDS), n_jobs)
        for loss in WEIGHT_LOSSES
        for some in settings
        for seed in setup.seeds
    ]


def report_weights(records: Sequence[Record], output: Path) -> str:
    """Tell the error with estimated scales, with the lambda that cross-validation chose, and over all lambdas."""
    rows = []
    for loss in WEIGHT_LOSSES:
        of_loss = [record for record in records if get_trial(record).settings["loss"] == loss]
        estimated = [record for record in of_loss if "noise_floor" not in get_trial(record).settings]
        fixed = [record for record in of_loss if "noise_floor" in get_trial(record).settings]
        chosen = _choose_by_seed(fixed)
        lambdas = sorted({_get_weight(record) for record in chosen})
        grid = [describe_errors([record for record in fixed if _get_weight(record) == weight]) for weight in LAMBDAS]
        row = [LOSS_TITLES[loss], describe_errors(estimated), describe_errors(chosen)]
        rows.append([*row, ", ".join(f"{weight:g}" for weight in lambdas), *grid])
    header = [
        "loss",
        "estimated",
        "fixed, by cross-validation",
        "lambdas chosen",
        *(f"{weight:g}" for weight in LAMBDAS),
    ]
    return format_table(header, rows)


def _get_weight(record: Record) -> float:
    return get_trial(record).settings["classification_weight"]


def _choose_by_seed(records: Sequence[Record]) -> list[Record]:
    """Return for each seed the record of least validation error."""
    seeds = dict.fromkeys(get_trial(record).seed for record in records)
    return [
        min(
            (record for record in records if get_trial(record).seed == seed),
            key=lambda record: record["result"]["validation_error"],
        )
        for seed in seeds
    ]
