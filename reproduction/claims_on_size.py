"""Claims of the paper on size (Section 4): T beyond 3 brings little, K has an optimum, half of SRC's atoms suffice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .cells import Cell, Record
from .setups import Setup
from .tables import format_table
from .trials import (
    BOTH,
    FORMER,
    PAPER,
    RULES,
    describe_errors,
    get_trial,
    make_cell,
)

_FORMER_BOTH: dict[str, dict[str, Any]] = {"baseline": {}, "ddl": FORMER}
_LARGE_FACTORS = (2.5, 5, 10, 15)  # of K = 300 on digits
_LARGE_BUDGETS = (1, 3)
_SIZE_FACTORS = (0.25, 0.5, 1, 2)  # of the paper's K = 600; SRC has about 1200 atoms, all training samples
_BUDGET_FACTORS = (1, 4)  # of the paper's T = 5
_SRC_SHARES = (0.5, 1.0)  # of the training samples


def list_large_cells(setup: Setup, n_jobs: int | None) -> list[Cell]:
    """Return models with ever more atoms, up to more than half of the training samples, for the quickest loss."""
    return [
        make_cell(
            setup._replace(n_components=round(factor * setup.n_components), n_nonzero_coefs=budget).make_trial(
                method, settings | {"loss": "square"}, seed
            ),
            n_jobs,
        )
        for method, settings in _FORMER_BOTH.items()
        for budget in _LARGE_BUDGETS
        for factor in _LARGE_FACTORS
        for seed in setup.seeds
    ]


def report_large(records: Sequence[Record], output: Path) -> str:
    """Report the error over K."""
    sizes = list(dict.fromkeys(get_trial(record).settings["n_components"] for record in records))
    rows = []
    for method in BOTH:
        for budget in _LARGE_BUDGETS:
            groups = [
                [
                    record
                    for record in records
                    if (trial := get_trial(record)).method == method
                    and trial.settings["n_components"] == size
                    and trial.settings["n_nonzero_coefs"] == budget
                ]
                for size in sizes
            ]
            rows.append([method, str(budget), *map(describe_errors, groups)])
    return format_table(["method", "T", *(f"K = {size}" for size in sizes)], rows)


def list_half_cells(setup: Setup, n_jobs: int | None) -> list[Cell]:
    """Return DDL of several sizes beside SRC with all training samples and with half of them."""
    sizes = [round(factor * setup.n_components) for factor in _SIZE_FACTORS]
    budgets = [factor * setup.n_nonzero_coefs for factor in _BUDGET_FACTORS]
    trials = [
        setup._replace(n_components=size, n_nonzero_coefs=budget).make_trial(
            "ddl", PAPER | {"loss": "square"}, seed, variants=RULES
        )
        for budget in budgets
        for size in sizes
        for seed in setup.seeds
    ]
    trials += [
        setup.make_trial("SRC", {}, seed, labelled=share)._replace(settings={})
        for share in _SRC_SHARES
        for seed in setup.seeds
    ]
    return [make_cell(trial, n_jobs) for trial in trials]


def report_halves(records: Sequence[Record], output: Path) -> str:
    """Report the errors side by side."""
    rows = []
    for share in _SRC_SHARES:
        group = [
            record for record in records if (trial := get_trial(record)).method == "SRC" and trial.labelled == share
        ]
        rows.append([f"SRC, {share:.0%} of the training samples as atoms", describe_errors(group), ""])
    fitted = [record for record in records if get_trial(record).method == "ddl"]
    for size in dict.fromkeys(
        (trial.settings["n_components"], trial.settings["n_nonzero_coefs"]) for trial in map(get_trial, fitted)
    ):
        group = [
            record
            for record in fitted
            if (settings := get_trial(record).settings)["n_components"] == size[0]
            and settings["n_nonzero_coefs"] == size[1]
        ]
        errors = [describe_errors(group, rule) for rule in RULES]
        rows.append([f"DDL, K = {size[0]}, T = {size[1]}", *errors])
    return format_table(["", "test error (%)", "full inference"], rows)
