"""What each choice is worth, one changed at a time, on USPS and faces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .cells import Record, Runner
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
    runner: Runner,
    *,
    grid: Mapping[str, Any],
    digits: Setup = Setup(n_components=500),  # noqa: B008 - it does not change
    faces: Setup = Setup("yaleb", 600, 5),  # noqa: B008
) -> list[Record]:
    """Change one choice at a time: on digits with the K and T that the grid chose and with their own, and on faces."""
    usps = measure_grid(runner, **grid)
    trials = {
        f"{digits.dataset}, chosen": list_trials(
            digits, {loss: choose(usps, "ddl", loss)[:2] for loss in ABLATION_LOSSES}
        ),
        digits.dataset: list_trials(digits, _use_own_size(digits)),
        f"{faces.dataset} (faces)": list_trials(faces, _use_own_size(faces)),
    }
    records = run_trials([trial for of_one in trials.values() for trial in of_one], runner)
    by_dataset = {name: run_trials(of_one, runner) for name, of_one in trials.items()}  # from the cache
    write_tables(runner.output, "ablation", _format(by_dataset, list_changes(digits.dataset)), records)
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
