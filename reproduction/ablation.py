"""What each choice is worth, one changed at a time, on USPS and faces."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .cells import Record, Runner
from .setups import Setup
from .tables import format_table, write_tables
from .trials import (
    JEFFREYS,
    LITERAL,
    LOSS_TITLES,
    LOW_FLOORS,
    PAPER,
    RULES,
    Trial,
    describe_errors,
    get_trial,
    run_trials,
)

ABLATION_LOSSES = ("square", "logistic")
FACE_LOSSES = ABLATION_LOSSES[:1]  # the quickest, whose fits take seconds
REFERENCE = "reference"


class Change(NamedTuple):
    """A row of the table: what is set before the fit, and what after it."""

    title: str
    fit_settings: dict[str, Any]
    test_settings: dict[str, Any] = {}  # noqa: RUF012 - never changed


_LIKE_THE_REFERENCE = {"classification_weight": 1.0}  # in inference
CHANGES = [
    Change(REFERENCE, {}),
    Change("discriminative coding as printed", {"coding": "printed"}),
    Change("no replacement in traditional coding", {"n_swaps": 0}),
    Change("no replacement at all", {"n_swaps": 0, "coding": "descent", "n_coding_swaps": 0}),
    Change("OMP in place of ORMP", {"sparse_coder": "omp"}),
    Change("the paper's priors, with floors", JEFFREYS),
    Change("the paper's priors, floors near zero", JEFFREYS | LOW_FLOORS),
    Change("one sigma for all samples in training", {"scales": "conjugate", "noise": "shared"}),
    Change("weight in Algorithm 1 as printed (half)", {"classification_weight": 0.5}, _LIKE_THE_REFERENCE),
    Change("classification term x 3", {"classification_weight": 3.0}),
    Change("classification term x 10", {"classification_weight": 10.0}),
    Change("dictionary: K-SVD without guard", {"dictionary_update": "ksvd"}),
    Change("dictionary: atoms alone, weighted", {"dictionary_update": "atom"}),
    Change("ridge of the classifiers 0.001", {"ridge": 1e-3}),
    Change("W trained again on label-free codes", {"refit": True}),
    Change("as printed: all of it", LITERAL, _LIKE_THE_REFERENCE),
]


def list_trials(setup: Setup, losses: Sequence[str]) -> list[Trial]:
    """Return the trials of a data set; rows that share a fit are variants of one trial."""
    fits: dict[str, tuple[dict[str, Any], dict[str, dict[str, Any]]]] = {}
    for change in CHANGES:
        _, variants = fits.setdefault(repr(change.fit_settings), (change.fit_settings, {}))
        for rule, settings in RULES.items():
            variants[_name(change, rule)] = settings | change.test_settings
    return [
        setup.make_trial("ddl", PAPER | settings | {"loss": loss}, seed, variants=variants)
        for loss in losses
        for settings, variants in fits.values()
        for seed in setup.seeds
    ]


def _name(change: Change, rule: str) -> str:
    return f"{change.title}: {rule}"


def run_ablation(
    runner: Runner,
    *,
    digits: Setup = Setup(seeds=(0, 1)),  # noqa: B008 - it does not change
    faces: Setup = Setup("yaleb", 600, 5, (0, 1)),  # noqa: B008
) -> list[Record]:
    """Change one choice at a time, on digits and on faces."""
    trials = {
        digits.dataset: list_trials(digits, ABLATION_LOSSES),
        f"{faces.dataset} (faces)": list_trials(faces, FACE_LOSSES),
    }
    records = run_trials([trial for of_one in trials.values() for trial in of_one], runner)
    by_dataset = {name: run_trials(of_one, runner) for name, of_one in trials.items()}  # from the cache
    write_tables(runner.output, "ablation", _format(by_dataset), records)
    return records


def _format(records: Mapping[str, Sequence[Record]]) -> str:
    """Return one table: a row a change, a column for data set, loss and rule."""
    losses = {
        name: list(dict.fromkeys(get_trial(record).settings["loss"] for record in of_one))
        for name, of_one in records.items()
    }
    columns = [(name, loss, rule) for name in records for loss in losses[name] for rule in RULES]
    rows = [
        [change.title, *(_find(records[name], change, loss, rule) for name, loss, rule in columns)]
        for change in CHANGES
    ]
    header = ["", *(f"{name} {LOSS_TITLES[loss]}, {rule}" for name, loss, rule in columns)]
    settings = [(name, get_trial(record)) for name, of_one in records.items() for record in of_one]
    sizes = dict.fromkeys(
        f"{name}: K = {trial.settings['n_components']}, T = {trial.settings['n_nonzero_coefs']}"
        for name, trial in settings
    )
    n_seeds = len({trial.seed for _, trial in settings})
    return (
        f"# One choice at a time\n\nTest error (%), mean and standard deviation over {n_seeds} seeds (first atoms; and "
        "random halves of the faces). The reference is the library's default, but W is that of the last iteration: "
        "coding by descent, ORMP with replacement of atoms, conjugate priors with one sigma a sample, the weight of "
        f"the MAP, guarded K-SVD, ridge 0.03. {'; '.join(sizes)}. Every cell used the test set once; nothing was "
        "chosen by it. 'fast' is one coding, 'full' is Eq. 5. As printed is discriminative coding as printed, with "
        "OMP, half the weight, Jeffreys priors with floors near zero, plain K-SVD, 20 iterations.\n\n"
        + format_table(header, rows)
    )


def _find(records: Sequence[Record], change: Change, loss: str, rule: str) -> str:
    variant = _name(change, rule)
    group = [
        record
        for record in records
        if (trial := get_trial(record)).settings["loss"] == loss and variant in trial.variants
    ]
    return describe_errors(group, variant)
