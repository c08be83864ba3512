"""Claims of the paper on labels: some of them wrong (Section 3.2), and some of them missing (Section 3.5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .cells import Cell, Record
from .setups import Setup, describe_errors
from .tables import BLUE, GREEN, ORANGE, RED, format_table, make_figure, save_figure
from .trials import LOSS_TITLES, LOSSES, PAPER, get_error, get_trial, make_cell

FLIPPED = (0.0, 0.1, 0.2, 0.3)
_LOSS_STYLES = {
    "square": (BLUE, "o"),
    "exponential": (RED, "D"),
    "logistic": (GREEN, "^"),
    "smooth_hinge": (ORANGE, "s"),
}
_METHODS = {"ddl": PAPER, "baseline": {}}

LABELLED = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_SAMPLES_PER_ATOM = 2  # labelled ones: with more atoms than labels, most atoms have no say in the classes
LEARNERS = {
    "ddl": "DDL, unlabelled samples too",
    "ddl, labelled alone": "DDL, labelled samples alone",
    "baseline, dictionary of all": "baseline: K-SVD of all samples, then classifiers",
}
_LEARNER_STYLES = dict(zip(LEARNERS, ((BLUE, "o"), (ORANGE, "s"), (GREEN, "^")), strict=True))


def list_flipped_cells(setup: Setup, n_jobs: int | None) -> list[Cell]:
    """Return fits to ever more wrong labels."""
    return [
        make_cell(setup.make_trial(method, settings | {"loss": loss}, seed, flipped=share), n_jobs)
        for method, settings in _METHODS.items()
        for loss in LOSSES
        for share in FLIPPED
        for seed in setup.seeds
    ]


def report_flipped(records: Sequence[Record], output: Path) -> str:
    """Tell and draw the error over the share of wrong labels."""
    figure = make_figure(10, 4.5)
    rows = []
    for axes, method in zip(figure.subplots(1, 2, sharey=True), _METHODS, strict=True):
        for loss in LOSSES:
            groups = [
                [
                    record
                    for record in records
                    if (trial := get_trial(record)).method == method
                    and trial.settings["loss"] == loss
                    and trial.flipped == share
                ]
                for share in FLIPPED
            ]
            rows.append([method, LOSS_TITLES[loss], *map(describe_errors, groups)])
            errors = [[get_error(record) for record in group] for group in groups]
            colour, marker = _LOSS_STYLES[loss]
            shares = [100 * share for share in FLIPPED]
            axes.plot(shares, np.mean(errors, axis=1), color=colour, marker=marker, ms=8, lw=2, label=LOSS_TITLES[loss])
        axes.set_title({"ddl": "DDL", "baseline": "Baseline"}[method], fontsize=14)
        axes.set_xlabel("Wrong training labels (%)", fontsize=13)
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("Test error (%)", fontsize=13)
    figure.axes[0].legend(fontsize=12)
    save_figure(figure, output, "claims_wrong_labels")
    return format_table(["method", "loss", *(f"{share:.0%} wrong" for share in FLIPPED)], rows)


def _count_atoms(setup: Setup, share: float, n_samples: int) -> int:
    return int(min(setup.n_components, max(share * n_samples / _SAMPLES_PER_ATOM, 2 * setup.n_nonzero_coefs)))


def list_labelled_cells(setup: Setup, n_jobs: int | None, n_samples: int) -> list[Cell]:
    """Return fits with ever more labels; dictionaries grow with their number, up to the size of the others."""
    cells = []
    for method in LEARNERS:
        settings = {} if method.startswith("baseline") else PAPER
        for share in LABELLED:
            size = {"n_components": _count_atoms(setup, share, n_samples), "loss": "square"}
            for seed in setup.seeds:
                trial = setup.make_trial(method, settings | size, seed, labelled=share)
                cells.append(make_cell(trial, n_jobs))
    return cells


def report_labelled(records: Sequence[Record], output: Path) -> str:
    """Tell and draw the error over the share of labelled samples."""
    figure = make_figure(8, 5)
    axes = figure.subplots()
    rows = []
    for method, title in LEARNERS.items():
        groups = [
            [record for record in records if get_trial(record).method == method and get_trial(record).labelled == share]
            for share in LABELLED
        ]
        rows.append([title, *map(describe_errors, groups)])
        errors = np.array([[get_error(record) for record in group] for group in groups])
        colour, marker = _LEARNER_STYLES[method]
        axes.errorbar(
            [100 * share for share in LABELLED],
            errors.mean(axis=1),
            errors.std(axis=1, ddof=1) if errors.shape[1] > 1 else None,
            color=colour,
            marker=marker,
            ms=8,
            lw=2,
            capsize=3,
            label=title,
        )
    axes.set_xscale("log")
    ticks = [round(100 * share) for share in LABELLED]
    axes.set_xticks(ticks, ticks)
    axes.set_xticks([], minor=True)
    axes.set_xlabel("Training samples with a label (%)", fontsize=13)
    axes.set_ylabel("Test error (%)", fontsize=13)
    axes.grid(alpha=0.3)
    axes.legend(fontsize=12)
    save_figure(figure, output, "claims_few_labels")
    sizes = {trial.labelled: trial.settings["n_components"] for trial in map(get_trial, records)}
    return format_table(["", *(f"{share:.0%} labelled (K = {sizes[share]})" for share in LABELLED)], rows)
