"""What each choice is worth, one changed at a time, on USPS and faces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from .cells import Record
from .setups import Setup
from .tables import format_table, write_tables
from .trials import (
    LITERAL,
    LOSS_TITLES,
    LOW_FLOORS,
    PAPER,
    RULES,
    Trial,
    align,
    describe_errors,
    get_trial,
    run_trials,
)
from .usps_grid import choose, measure_grid

ABLATION_LOSSES = ("square", "logistic")
REFERENCE = "reference"


class Change(NamedTuple):
    """A row of the table: what is set before the fit, and what after it."""

    title: str
    fit_settings: dict[str, Any]
    test_settings: dict[str, Any] = {}  # noqa: RUF012 - never changed


def list_changes(dataset: str) -> list[Change]:
    """Return the rows."""
    return [
        Change(REFERENCE, {}),
        Change(
            "weight in Algorithm 1 as printed (half)", {"classification_weight": 0.5}, {"classification_weight": 1.0}
        ),
        Change("classification term x 3", {"classification_weight": 3.0}),
        Change("classification term x 10", {"classification_weight": 10.0}),
        Change("classification term x 30", {"classification_weight": 30.0}),
        Change("trained x 10, inference x 1", {"classification_weight": 10.0}, {"classification_weight": 1.0}),
        Change("dictionary: weighted K-SVD", {"dictionary_update": "weighted_ksvd"}),
        Change("dictionary: atoms alone, weighted", {"dictionary_update": "atom"}),
        Change("one sigma for all samples in training", {"noise": "shared"}),
        Change("one sigma in full inference", {}, {"test_noise": "shared"}),
        Change("sigma profiled in full inference", {}, {"test_noise": "profiled"}),
        Change("aligned at test time", {}, align(dataset)),
        Change("aligned in training and test", align(dataset) | {"align_training": True}),
        Change("W trained again on label-free codes", {"refit": True}),
        Change("OMP in place of ORMP", {"sparse_coder": "omp"}),
        Change("floors near zero", LOW_FLOORS),
        Change("20 iterations, whatever the objective does", {"tol": 0.0}),
        Change("20 iterations, floors near zero", {"tol": 0.0} | LOW_FLOORS),
        Change(
            "as printed: half weight, OMP, 20 iterations, floors near zero", LITERAL, {"classification_weight": 1.0}
        ),
    ]


def list_trials(setup: Setup, losses: Mapping[str, tuple[int, int]]) -> list[Trial]:
    """Return the trials of a data set, with K and T for each loss; rows that share a fit are variants of one trial."""
    fits: dict[str, tuple[dict[str, Any], dict[str, dict[str, Any]]]] = {}
    for change in list_changes(setup.dataset):
        _, variants = fits.setdefault(repr(change.fit_settings), (change.fit_settings, {}))
        for rule, settings in RULES.items():
            variants[_name(change, rule)] = settings | change.test_settings
    return [
        setup._replace(n_components=n_components, n_nonzero_coefs=n_nonzero_coefs).make_trial(
            "ddl", PAPER | settings | {"loss": loss}, seed, variants=variants
        )
        for loss, (n_components, n_nonzero_coefs) in losses.items()
        for settings, variants in fits.values()
        for seed in setup.seeds
    ]


def _use_own_size(setup: Setup) -> dict[str, tuple[int, int]]:
    return dict.fromkeys(ABLATION_LOSSES, (setup.n_components, setup.n_nonzero_coefs))


def _name(change: Change, rule: str) -> str:
    return f"{change.title}: {rule}"


def run_ablation(
    output: str | Path,
    *,
    grid: Mapping[str, Any],
    digits: Setup = Setup(n_components=500),  # noqa: B008 - it does not change
    faces: Setup = Setup("yaleb", 600, 5),  # noqa: B008
    n_jobs: int | None = None,
    n_processes: int = 1,
) -> list[Record]:
    """Change one choice at a time.

    Parameters
    ----------
    output : str or Path
        Folder for tables and finished cells.
    grid : dict
        Arguments of :func:`measure_grid`, whose cells choose K and T for the digits.
    digits : Setup, default=USPS with K = 500 and T = 3, three seeds
        Digits; they are tried with the chosen K and T, and with these.
    faces : Setup, default=Extended Yale B with the paper's K = 600 and T = 5, three seeds
        Faces.
    n_jobs : int or None, default=None
        Threads inside a cell.
    n_processes : int, default=1
        Cells measured at once.

    Returns
    -------
    list of dict
        The records of all cells.
    """
    output = Path(output)
    usps = measure_grid(output, **grid, n_jobs=n_jobs, n_processes=n_processes)
    trials = {
        f"{digits.dataset}, chosen": list_trials(
            digits, {loss: choose(usps, "ddl", loss)[:2] for loss in ABLATION_LOSSES}
        ),
        digits.dataset: list_trials(digits, _use_own_size(digits)),
        f"{faces.dataset} (faces)": list_trials(faces, _use_own_size(faces)),
    }
    run = partial(run_trials, output=output, n_jobs=n_jobs, n_processes=n_processes)
    records = run([trial for of_one in trials.values() for trial in of_one])
    by_dataset = {name: run(of_one) for name, of_one in trials.items()}  # from the cache
    write_tables(output, "ablation", _format(by_dataset, list_changes(digits.dataset)), records)
    return records


def _format(records: Mapping[str, Sequence[Record]], changes: Sequence[Change]) -> str:
    """Return one table: a row a change, a column for data set, loss and rule."""
    columns = [(name, loss, rule) for name in records for loss in ABLATION_LOSSES for rule in RULES]
    rows = [
        [change.title, *(_find(records[name], change, loss, rule) for name, loss, rule in columns)]
        for change in changes
    ]
    header = ["", *(f"{name} {LOSS_TITLES[loss]}, {rule}" for name, loss, rule in columns)]
    settings = [(name, get_trial(record)) for name, of_one in records.items() for record in of_one]
    sizes = dict.fromkeys(
        f"{name} {LOSS_TITLES[trial.settings['loss']]}: K = {trial.settings['n_components']}, "
        f"T = {trial.settings['n_nonzero_coefs']}"
        for name, trial in settings
    )
    n_seeds = len({trial.seed for _, trial in settings})
    return (
        f"# One choice at a time\n\nTest error (%), mean and standard deviation over {n_seeds} seeds (first atoms; and "
        "random halves of the faces). The reference is Algorithm 2 with the derived weight, ORMP, plain K-SVD, one "
        f"sigma a sample, the default floors, no alignment, W from the last iteration. {'; '.join(sizes)}. Those "
        "called chosen were chosen by cross-validation on training samples. Every cell used the test set once; nothing "
        "was chosen by "
        "it. 'fast' is one coding, 'full' is Eq. 5.\n\n" + format_table(header, rows)
    )


def _find(records: Sequence[Record], change: Change, loss: str, rule: str) -> str:
    variant = _name(change, rule)
    group = [
        record
        for record in records
        if (trial := get_trial(record)).settings["loss"] == loss and variant in trial.variants
    ]
    return describe_errors(group, variant)
