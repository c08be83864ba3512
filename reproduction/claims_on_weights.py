"""The claim that trade-offs come from the data (Section 2): estimated scales against one that is searched for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .cells import Cell, Record
from .setups import Setup
from .tables import format_table
from .trials import (
    JEFFREYS,
    LOSS_TITLES,
    LOW_FLOORS,
    PAPER,
    RULES,
    describe_errors,
    get_trial,
    make_cell,
)

WEIGHT_LOSSES = ("square", "logistic")
# Floors above all scales make every noise variance and every class cost one constant, in the ratio of the medians of
# the first codes: then classification_weight is the fixed lambda of other methods, in units of that ratio.
FIXED: dict[str, Any] = JEFFREYS | {"noise_floor": 100.0, "cost_floor": 100.0}
LAMBDAS = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
ESTIMATED: dict[str, dict[str, Any]] = {"default priors": {}, "the paper's priors": JEFFREYS | LOW_FLOORS}
# The objective of fixed scales has another unit, in which the stop rule would end fits at once; so all have the same
# number of iterations.
_ALL_ITERATIONS: dict[str, Any] = {"tol": 0.0, "max_iter": 20}
N_FOLDS = 3


def list_weight_cells(setup: Setup, n_jobs: int | None) -> list[Cell]:
    """Return fits with estimated scales, and with fixed ones over a grid of lambda."""
    scales = [*ESTIMATED.values(), *(FIXED | {"classification_weight": weight} for weight in LAMBDAS)]
    settings = PAPER | _ALL_ITERATIONS
    return [
        make_cell(
            setup.make_trial("ddl", settings | {"loss": loss} | scale, seed, variants=RULES, n_folds=N_FOLDS), n_jobs
        )
        for loss in WEIGHT_LOSSES
        for scale in scales
        for seed in setup.seeds
    ]


def report_weights(records: Sequence[Record], output: Path) -> str:
    """Report the error with estimated scales, with the lambda that cross-validation chose, and over all lambdas."""
    rows = [
        [f"{LOSS_TITLES[loss]}, {rule}", *_report_row(records, loss, rule)] for loss in WEIGHT_LOSSES for rule in RULES
    ]
    header = ["loss, rule", *ESTIMATED, "fixed lambda, by cross-validation", *(f"{weight:g}" for weight in LAMBDAS)]
    return format_table(header, rows)


def _report_row(records: Sequence[Record], loss: str, rule: str) -> list[str]:
    of_loss = [record for record in records if get_trial(record).settings["loss"] == loss]
    estimated = [
        describe_errors([record for record in of_loss if _get_floor(record) == priors.get("noise_floor")], rule)
        for priors in ESTIMATED.values()
    ]
    fixed = [record for record in of_loss if _get_floor(record) == FIXED["noise_floor"]]
    chosen = choose_by_seed(fixed, rule)
    lambdas = ", ".join(f"{_get_weight(record):g}" for record in chosen)
    grid = [describe_errors([record for record in fixed if _get_weight(record) == weight], rule) for weight in LAMBDAS]
    return [*estimated, f"{describe_errors(chosen, rule)} ({lambdas})", *grid]


def _get_floor(record: Record) -> float | None:
    return get_trial(record).settings.get("noise_floor")


def _get_weight(record: Record) -> float:
    return get_trial(record).settings["classification_weight"]


def choose_by_seed(records: Sequence[Record], rule: str) -> list[Record]:
    """Return for each seed the record of least validation error."""
    seeds = dict.fromkeys(get_trial(record).seed for record in records)
    return [
        min(
            (record for record in records if get_trial(record).seed == seed),
            key=lambda record: record["result"]["validation"][rule],
        )
        for seed in seeds
    ]
