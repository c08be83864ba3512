"""Claims of the paper on labels: some of them wrong (Section 3.2), and some of them missing (Section 3.5)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .cells import Cell, Record
from .setups import Setup
from .tables import (
    BLUE,
    GREEN,
    ORANGE,
    RED,
    SKY,
    format_table,
    make_figure,
    save_figure,
)
from .trials import (
    BOTH,
    LOSS_COLOURS,
    LOSS_TITLES,
    LOSSES,
    describe_errors,
    get_error,
    get_trial,
    make_cell,
)

FLIPPED = (0.0, 0.1, 0.2, 0.3)
_FEW_SEEDS = 2
_METHOD_TITLES = {"ddl": "DDL", "baseline": "Baseline"}
_MARKERS = dict(zip(LOSSES, "oD^s", strict=True))

LABELLED = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_SAMPLES_PER_ATOM = 2  # labelled ones: with more atoms than labels, most atoms say nothing about the classes


class Learner(NamedTuple):
    """A way to learn from samples of which some have labels, and how it is drawn."""

    title: str
    method: str
    has_all_atoms: bool  # or as many as the labels allow
    colour: str
    marker: str


LEARNERS = (
    Learner("DDL, unlabelled samples too", "ddl", False, BLUE, "o"),
    Learner("DDL, labelled samples alone", "ddl, labelled alone", False, ORANGE, "s"),
    Learner("baseline, K-SVD of all samples", "baseline, dictionary of all", False, GREEN, "^"),
    Learner("DDL, unlabelled samples too, all atoms", "ddl", True, SKY, "v"),
    Learner("baseline, K-SVD of all samples, all atoms", "baseline, dictionary of all", True, RED, "D"),
)


def list_flipped_cells(setup: Setup, n_jobs: int | None) -> list[Cell]:
    """Return fits to ever more wrong labels."""
    return [
        make_cell(setup.make_trial(method, settings | {"loss": loss}, seed, flipped=share), n_jobs)
        for method, settings in BOTH.items()
        for loss in LOSSES
        for share in FLIPPED
        for seed in setup.seeds[:_FEW_SEEDS]
    ]


def report_flipped(records: Sequence[Record], output: Path) -> str:
    """Report and draw the error over the share of wrong labels."""
    figure = make_figure(10, 4.5)
    rows = []
    for axes, method in zip(figure.subplots(1, 2, sharey=True), _METHOD_TITLES, strict=True):
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
            axes.plot(
                [100 * share for share in FLIPPED],
                np.mean(errors, axis=1),
                color=LOSS_COLOURS[loss],
                marker=_MARKERS[loss],
                ms=8,
                lw=2,
                label=LOSS_TITLES[loss],
            )
        axes.set_title(_METHOD_TITLES[method], fontsize=14)
        axes.set_xlabel("Wrong training labels (%)", fontsize=13)
        axes.grid(alpha=0.3)
    figure.axes[0].set_ylabel("Test error (%)", fontsize=13)
    figure.axes[0].legend(fontsize=12)
    save_figure(figure, output, "claims_wrong_labels")
    return format_table(["method", "loss", *(f"{share:.0%} wrong" for share in FLIPPED)], rows)


def _count_atoms(setup: Setup, learner: Learner, share: float, n_samples: int) -> int:
    n_allowed = max(share * n_samples / _SAMPLES_PER_ATOM, 2 * setup.n_nonzero_coefs)
    return setup.n_components if learner.has_all_atoms else int(min(setup.n_components, n_allowed))


def list_labelled_cells(setup: Setup, n_jobs: int | None, n_samples: int) -> list[Cell]:
    """Return fits with ever more labels."""
    cells = []
    for learner in LEARNERS:
        settings = BOTH["baseline" if learner.method.startswith("baseline") else "ddl"]
        for share in LABELLED:
            size = {"n_components": _count_atoms(setup, learner, share, n_samples), "loss": "square"}
            for seed in setup.seeds:
                trial = setup.make_trial(learner.method, settings | size, seed, labelled=share)
                cells.append(make_cell(trial, n_jobs))
    return cells


def report_labelled(records: Sequence[Record], output: Path) -> str:
    """Report and draw the error over the share of labelled samples."""
    figure = make_figure(8, 5.5)
    axes = figure.subplots()
    rows = []
    groups = iter(_group_by_seeds(records))  # in the order of their cells
    for learner in LEARNERS:
        of_shares = [next(groups) for _ in LABELLED]
        sizes = [get_trial(group[0]).settings["n_components"] for group in of_shares]
        texts = [f"{describe_errors(group)} (K = {size})" for group, size in zip(of_shares, sizes, strict=True)]
        rows.append([learner.title, *texts])
        errors = np.array([[get_error(record) for record in group] for group in of_shares])
        axes.errorbar(
            [100 * share for share in LABELLED],
            errors.mean(axis=1),
            errors.std(axis=1, ddof=1) if errors.shape[1] > 1 else None,
            color=learner.colour,
            marker=learner.marker,
            ms=8,
            lw=2,
            capsize=3,
            label=learner.title,
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
    return format_table(["", *(f"{share:.0%} labelled" for share in LABELLED)], rows)


def _group_by_seeds(records: Sequence[Record]) -> list[list[Record]]:
    """Return consecutive records that differ in their seed alone."""
    groups: list[list[Record]] = []
    for record in records:
        if not groups or get_trial(groups[-1][-1]).seed >= get_trial(record).seed:
            groups.append([])
        groups[-1].append(record)
    return groups
