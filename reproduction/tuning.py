"""How far one gets when cross-validation on USPS chooses: inference, alignment, T, and the weight of the labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from .cells import Record, Runner
from .images import DATASETS
from .setups import Setup
from .tables import format_table, write_tables
from .trials import (
    FORMER,
    LOSS_TITLES,
    RULES,
    Trial,
    align,
    get_error,
    get_trial,
    run_trials,
)

LOSSES = ("square", "logistic")
BUDGETS = (1, 3)
WEIGHTS = (1.0, 10.0)  # of the classification term
N_FOLDS = 3


class Candidate(NamedTuple):
    """A trial of the search, and the way it infers labels."""

    record: Record
    variant: str

    @property
    def validation_error(self) -> float:
        """In per cent."""
        return 100 * self.record["result"]["validation"][self.variant]


def _list_rules(dataset: str, *, is_aligned_in_training: bool) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return what is set before the fit, and the rules that are tried after it."""
    if is_aligned_in_training:
        return align(dataset) | {"align_training": True}, RULES
    return {}, RULES | {f"{name}, aligned": rule | align(dataset) for name, rule in RULES.items()}


def list_candidates(setup: Setup) -> list[Trial]:
    """Return the trials of the search."""
    trials = []
    for is_aligned_in_training in (False, True):
        settings, rules = _list_rules(setup.dataset, is_aligned_in_training=is_aligned_in_training)
        trials += [
            setup._replace(n_nonzero_coefs=budget).make_trial(
                "ddl",
                FORMER | settings | {"loss": loss, "classification_weight": weight},
                setup.seeds[0],
                variants=rules,
                n_folds=N_FOLDS,
            )
            for loss in LOSSES
            for budget in BUDGETS
            for weight in WEIGHTS
        ]
    return trials


def run_tuning(
    runner: Runner,
    *,
    digits: Setup = Setup(n_components=1500),  # noqa: B008 - it does not change
    other_dataset: str = "mnist",
    max_train: int | None = None,
    max_test: int | None = None,
) -> list[Record]:
    """Choose by cross-validation on the training images of USPS, and try the choice on USPS and MNIST.

    The search has the first seed, the trial of the choice all of them; the limits are those of the other data set.
    """
    search = run_trials(list_candidates(digits), runner)
    candidates = [Candidate(record, variant) for record in search for variant in get_trial(record).variants]
    candidates.sort(key=lambda candidate: candidate.validation_error)
    best = candidates[0]
    chosen = get_trial(best.record)._replace(n_folds=0)
    limits: dict[str, Any] = {"max_train": max_train, "max_test": max_test}
    trials = [chosen._replace(seed=seed) for seed in digits.seeds] + [_move(chosen, other_dataset)._replace(**limits)]
    tried = run_trials(trials, runner)
    write_tables(runner.output, "tuning", _format(candidates, tried), search + tried)
    return search + tried


def _move(trial: Trial, dataset: str) -> Trial:
    """Return the trial for images of another size."""

    def resize(settings: dict[str, Any]) -> dict[str, Any]:
        return settings | ({"image_shape": DATASETS[dataset].image_shape} if "image_shape" in settings else {})

    variants = {name: resize(settings) for name, settings in trial.variants.items()}
    return trial._replace(dataset=dataset, settings=resize(trial.settings), variants=variants)


def _describe(candidate: Candidate) -> list[str]:
    settings = get_trial(candidate.record).settings
    when = "in training and test" if "align_training" in settings else "at test time"
    rule, _, aligned = candidate.variant.partition(", ")
    alignment = when if aligned or "align_training" in settings else "none"
    size = [str(settings["n_nonzero_coefs"]), f"{settings['classification_weight']:g}"]
    return [LOSS_TITLES[settings["loss"]], *size, rule, alignment, f"{candidate.validation_error:.2f}"]


def _format(candidates: Sequence[Candidate], tried: Sequence[Record]) -> str:
    """Return the best of the search, and the test errors of its choice."""
    variant, trial = candidates[0].variant, get_trial(tried[0])
    *on_digits, elsewhere = [get_error(record, variant) for record in tried]
    other = get_trial(tried[-1]).dataset
    header = ["loss", "T", "classification term x", "inference", "alignment", "cross-validation error (%)"]
    return (
        f"# Chosen by cross-validation\n\nLoss, T, weight of the classification term (which the paper leaves no choice "
        f"of), inference and alignment were chosen by {N_FOLDS}-fold cross-validation on the training "
        f"images of {trial.dataset.upper()} (one seed); the choice was then tried on the test images of "
        f"{trial.dataset.upper()}, and without another choice on {other.upper()}. K = "
        f"{trial.settings['n_components']}, the largest of the grid, which cross-validation chose there.\n\n"
        + format_table(
            ["the choice, tried on", "test error (%)"],
            [
                [f"{trial.dataset}, {len(on_digits)} seeds", ", ".join(f"{error:.2f}" for error in on_digits)],
                [f"{other}, one seed", f"{elsewhere:.2f}"],
            ],
        )
        + f"\nThe search, the ten best of {len(candidates)}:\n\n"
        + format_table(header, [_describe(candidate) for candidate in candidates[:10]])
    )
