"""Claims of the paper on the fit: where it starts (Section 3.4), and how many steps coding takes (Section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..discriminative_coding import discriminative_encode
from ..estimator import DDLClassifier
from .cells import Cell, Record, slug
from .images import load_rows, spread
from .setups import Setup, describe_errors
from .tables import BLUE, ORANGE, format_table, make_figure, save_figure
from .trials import LOSS_TITLES, LOSSES, PAPER, get_trial, make_cell

STARTS = {"samples": "training samples", "gaussian": "Gaussian vectors"}
_START_COLOURS = {"samples": BLUE, "gaussian": ORANGE}
_START_LOSSES = ("square", "logistic")
_MOST_ITERATIONS = 100  # more than the paper's 20, to see when each would stop by itself
CODING_STEPS = (1, 2, 3, 5, 10, 30, 100)


def list_start_cells(setup: Setup, n_jobs: int | None) -> list[Cell]:
    """Return fits from both kinds of first dictionary."""
    return [
        make_cell(
            setup.make_trial("ddl", PAPER | {"loss": loss, "init": start, "max_iter": _MOST_ITERATIONS}, seed), n_jobs
        )
        for loss in _START_LOSSES
        for start in STARTS
        for seed in setup.seeds
    ]


def report_starts(records: Sequence[Record], output: Path) -> str:
    """Tell after how many iterations the fits stopped, and draw their objectives."""
    rows = []
    figure = make_figure(10, 4.5)
    panels = dict(zip(_START_LOSSES, figure.subplots(1, 2), strict=True))
    for loss, axes in panels.items():
        for start, title in STARTS.items():
            group = [
                record
                for record in records
                if (settings := get_trial(record).settings)["loss"] == loss and settings["init"] == start
            ]
            results = [record["result"] for record in group]
            for result in results:
                label = title if result is results[0] else None
                objective = np.array(result["objective"]) / 1e6
                axes.plot(objective, color=_START_COLOURS[start], alpha=0.7, lw=2, label=label)
            iterations = [result["n_iter"] for result in results]
            rows.append(
                [
                    LOSS_TITLES[loss],
                    title,
                    f"{np.mean(iterations):.1f} ({min(iterations)} to {max(iterations)})",
                    f"{np.mean([result['objective'][-1] for result in results]) / 1e6:.4f}",
                    describe_errors(group),
                ]
            )
        axes.set_title(LOSS_TITLES[loss], fontsize=14)
        axes.set_xlabel("Iteration", fontsize=13)
        axes.set_ylabel("MAP objective (millions)", fontsize=13)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=12)
    save_figure(figure, output, "claims_start")
    header = ["loss", "first atoms", "iterations until settled", "objective in the end (millions)", "test error (%)"]
    return format_table(header, rows)


def list_step_cells(setup: Setup, n_jobs: int | None) -> list[Cell]:
    """Return one measurement of coding steps for each loss."""
    parameters: dict[str, Any] = {"n_components": setup.n_components, "n_nonzero_coefs": setup.n_nonzero_coefs}
    parameters |= {"dataset": setup.dataset, "max_train": setup.max_train, "steps": CODING_STEPS}
    return [
        Cell(
            slug(f"{setup.dataset} steps {loss}"),
            parameters | {"loss": loss, "experiment": "coding steps"},
            partial(measure_steps, **parameters, loss=loss, n_jobs=n_jobs),
        )
        for loss in LOSSES
    ]


def measure_steps(
    dataset: str,
    loss: str,
    n_components: int,
    n_nonzero_coefs: int,
    max_train: int | None,
    steps: Sequence[int],
    n_jobs: int | None,
) -> dict[str, Any]:
    """Code training samples with ever more Newton steps, from their label-free codes, after two outer iterations."""
    data = load_rows(dataset, 0)
    trained = spread(len(data.y_train), max_train)
    X, y = data.X_train[trained], data.y_train[trained]
    settings = PAPER | {"max_iter": 2, "tol": 0.0}
    model = DDLClassifier(
        n_components, n_nonzero_coefs=n_nonzero_coefs, loss=loss, **settings, random_state=0, n_jobs=n_jobs
    ).fit(X, y)
    labels = np.where(y[:, None] == model.classes_, 1, -1)

    def encode(n_steps: int) -> Any:
        return discriminative_encode(
            X,
            labels,
            model.components_,
            model.coef_,
            model.intercept_,
            noise_variance=model.noise_variance_,
            class_cost=model.class_cost_,
            loss=model.loss_,
            n_nonzero_coefs=n_nonzero_coefs,
            sparse_coder=model.sparse_coder_,
            max_coding_iter=n_steps,
            n_jobs=n_jobs,
        )

    coded = {n_steps: encode(n_steps) for n_steps in steps}
    last = coded[max(steps)][0].toarray()
    size = np.linalg.norm(last, axis=1)
    changes = {
        n_steps: np.linalg.norm(codes.toarray() - last, axis=1) / np.maximum(size, np.finfo(size.dtype).tiny)
        for n_steps, (codes, _) in coded.items()
    }
    final = coded[max(steps)][1]
    return {
        "share_unfinished": {str(n_steps): float(np.mean(change > 1e-3)) for n_steps, change in changes.items()},
        "largest_change": {str(n_steps): float(change.max()) for n_steps, change in changes.items()},
        "accepted_per_sample": final.n_accepted / len(X),
        "rejected_per_sample": final.n_rejected / len(X),
    }


def report_steps(records: Sequence[Record], output: Path) -> str:
    """Tell how many samples still change after a number of steps."""
    rows = []
    for record in records:
        result = record["result"]
        unfinished = [f"{100 * share:.2f}" for share in result["share_unfinished"].values()]
        steps = [f"{result[name]:.2f}" for name in ("accepted_per_sample", "rejected_per_sample")]
        rows.append([LOSS_TITLES[record["parameters"]["loss"]], *unfinished[:-1], *steps])
    counts = [f"after {n_steps}" for n_steps in records[0]["parameters"]["steps"][:-1]]
    return format_table(["% of codes not final", *counts, "steps taken", "steps undone"], rows)
