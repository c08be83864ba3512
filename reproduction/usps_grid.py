"""Figures 2 and 3 of the paper: the test error of the baseline and of DDL on USPS over K and T, one panel a loss."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .cells import Record, Runner
from .tables import (
    BLUE,
    GREEN,
    ORANGE,
    SKY,
    format_table,
    make_figure,
    save_figure,
    write_tables,
)
from .trials import (
    BOTH,
    LOSS_TITLES,
    LOSSES,
    RULES,
    Trial,
    describe_data,
    get_error,
    get_trial,
    run_trials,
)

SIZES = (50, 100, 200, 500)  # K
BUDGETS = (1, 2, 3, 5)  # T
METHOD_TITLES = {
    "baseline": "Baseline: K-SVD, then classifiers (Fig. 2)",
    "ddl": "DDL (Fig. 3)",
    "ddl, full": "DDL, full inference (Fig. 3)",
}
_STYLES = dict(zip(BUDGETS, ((SKY, "v"), (GREEN, "^"), (BLUE, "o"), (ORANGE, "s")), strict=True))


_TICKS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 50)  # per cent


class Choice(NamedTuple):
    """A setting of the grid, and its errors in per cent."""

    n_components: int
    n_nonzero_coefs: int
    validation_error: float
    test_error: float

    def describe(self) -> str:
        """Return K, T and the test error."""
        return f"K = {self.n_components}, T = {self.n_nonzero_coefs}: {self.test_error:.2f} %"


def measure_grid(
    runner: Runner,
    *,
    dataset: str = "usps",
    sizes: Sequence[int] = SIZES,
    budgets: Sequence[int] = BUDGETS,
    losses: Sequence[str] = LOSSES,
    n_folds: int = 2,
    max_train: int | None = None,
    max_test: int | None = None,
) -> list[Record]:
    """Measure the error over the grid of K and T, by cross-validation on the training samples and on the test set."""
    trials = [
        Trial(
            dataset,
            method,
            settings | {"n_components": size, "n_nonzero_coefs": budget, "loss": loss},
            RULES if method == "ddl" else {"fast": {}},
            n_folds=n_folds,
            max_train=max_train,
            max_test=max_test,
        )
        for method, settings in BOTH.items()
        for loss in losses
        for size in sizes
        for budget in budgets
    ]
    return run_trials(trials, runner)


def run_usps(runner: Runner, **arguments: Any) -> list[Record]:
    """Measure the grid, write its tables and draw it; the arguments are those of :func:`measure_grid`."""
    output, records = runner.output, measure_grid(runner, **arguments)
    write_tables(output, "usps", _format(records), records)
    for method, number in zip(METHOD_TITLES, ("2", "3", "3_full"), strict=True):
        _draw(output, f"usps_figure_{number}", records, method)
    return records


def choose(records: Sequence[Record], method: str, loss: str, by: str = "validation_error") -> Choice:
    """Return the K and T of least error: by cross-validation, or by "test_error", as the paper did."""
    return min(list_choices(records, method, loss), key=lambda choice: (getattr(choice, by), choice.n_components))


def list_choices(records: Sequence[Record], method: str, loss: str) -> list[Choice]:
    """Return the grid of a loss and of a method, a key of ``METHOD_TITLES``; each rule has a choice of its own."""
    method, rule = ("ddl", "full") if method == "ddl, full" else (method, "fast")
    return [
        Choice(
            trial.settings["n_components"],
            trial.settings["n_nonzero_coefs"],
            100 * record["result"]["validation"][rule],
            get_error(record, rule),
        )
        for record in records
        if (trial := get_trial(record)).method == method and trial.settings["loss"] == loss
    ]


def _list(records: Sequence[Record], name: str) -> list[Any]:
    return list(dict.fromkeys(get_trial(record).settings[name] for record in records))


def _format(records: Sequence[Record]) -> str:
    """Return what was chosen from the grid as Markdown."""
    n_folds = get_trial(records[0]).n_folds
    sizes = _list(records, "n_components")
    iterations = [record["result"]["n_iter"] for record in records if "n_iter" in record["result"]]
    chosen_sizes = [
        choose(records, method, loss).n_components for method in METHOD_TITLES for loss in _list(records, "loss")
    ]
    parts = [
        f"# Error over K and T\n\n{describe_data(records)}; one seed. Test errors in per cent. K and T are chosen by "
        f"{n_folds}-fold cross-validation on the training images; each model of the grid was then fitted to all of "
        "them and tried once on the test images. The paper reports the smallest test error of its grid, which is too "
        f"good by construction; that number is given beside ours. {chosen_sizes.count(max(sizes))} of the "
        f"{len(chosen_sizes)} choices have the largest K of the grid. The baseline has up to 20 turns of K-SVD; DDL "
        f"stops when the objective has settled, after {np.median(iterations):.0f} iterations in the median "
        f"({min(iterations)} to {max(iterations)}).\n"
    ]
    header = [
        "loss",
        "method",
        "chosen by cross-validation",
        "cross-validation",
        "smallest of the grid, as in the paper",
    ]
    rows = []
    for loss in _list(records, "loss"):
        for method in METHOD_TITLES:
            chosen, smallest = (choose(records, method, loss, by) for by in ("validation_error", "test_error"))
            validation = f"{chosen.validation_error:.2f} %"
            rows.append([LOSS_TITLES[loss], method, chosen.describe(), validation, smallest.describe()])
    parts += [format_table(header, rows), _format_gaps(records), "The whole grid is in `usps.csv`.\n"]
    return "\n".join(parts)


def _format_gaps(records: Sequence[Record]) -> str:
    """Return how the error of the chosen DDL models grows from what they learned from to what they have never seen."""
    rows = []
    for loss, method in product(_list(records, "loss"), ("ddl", "ddl, full")):
        chosen = choose(records, method, loss)
        record = next(
            record
            for record in records
            if (trial := get_trial(record)).method == "ddl"
            and trial.settings["loss"] == loss
            and (trial.settings["n_components"], trial.settings["n_nonzero_coefs"]) == chosen[:2]
        )
        training = [100 * record["result"][name][-1] for name in ("training_error", "label_free_error")]
        errors = [*training, chosen.validation_error, chosen.test_error]
        rows.append([f"{LOSS_TITLES[loss]}, {method}", *(f"{error:.2f}" for error in errors)])
    header = ["DDL, error (%) on", "training images, codes that saw the labels", "training images, label-free codes"]
    return "Where the error of the chosen models comes from:\n\n" + format_table(
        [*header, "other training images (cross-validation)", "test images"], rows
    )


def _draw(output: Path, name: str, records: Sequence[Record], method: str) -> None:
    """Draw the test error over K, one line a budget, one panel a loss, the best settings beneath."""
    losses = _list(records, "loss")
    # Of all methods, whose figures are to be compared.
    errors = [
        choice.test_error for one, loss in product(METHOD_TITLES, losses) for choice in list_choices(records, one, loss)
    ]
    figure = make_figure(11, 9)
    panels = figure.subplots(2, 2, sharex=True, sharey=True).flat
    for axes, loss in zip(panels, losses, strict=False):
        for budget in _list(records, "n_nonzero_coefs"):
            line = [choice for choice in list_choices(records, method, loss) if choice.n_nonzero_coefs == budget]
            colour, marker = _STYLES.get(budget, (BLUE, "o"))
            axes.plot(
                [choice.n_components for choice in line],
                [choice.test_error for choice in line],
                color=colour,
                marker=marker,
                ms=7,
                lw=2,
                label=f"T = {budget}",
            )
        chosen, smallest = (choose(records, method, loss, by) for by in ("validation_error", "test_error"))
        axes.set_xscale("log")
        axes.set_yscale("log")
        sizes = _list(records, "n_components")
        axes.set_xticks(sizes, sizes)
        axes.set_xticks([], minor=True)
        axes.set_ylim(0.95 * min(errors), 1.05 * max(errors))
        ticks = [tick for tick in _TICKS if min(errors) <= tick <= max(errors)]
        axes.set_yticks(ticks, ticks)
        axes.set_yticks([], minor=True)
        axes.tick_params(labelsize=12, labelbottom=True)
        axes.grid(alpha=0.3)
        axes.set_title(LOSS_TITLES[loss], fontsize=15)
        axes.set_xlabel(
            f"K\nchosen by cross-validation: {chosen.describe()}\nsmallest on the test set: {smallest.describe()}",
            fontsize=12,
        )
        axes.set_ylabel("Test error (%)", fontsize=14)
    figure.suptitle(METHOD_TITLES[method], fontsize=16)
    figure.legend(*figure.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5, fontsize=13)
    save_figure(figure, output, name)
