"""Claims of the paper on the fit: where it starts (Section 3.4), and how many steps coding takes (Section 3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ddlearn import DDLClassifier, Descent, DiscriminativeCoding, PrintedCoding, Scales, discriminative_encode
from ddlearn.model.scales import Priors

from .cells import Cell, Record, slug
from .images import Floats
from .models import make_classifier
from .setups import Setup
from .tables import (
    BLUE,
    ORANGE,
    format_table,
    make_figure,
    save_figure,
)
from .trials import (
    LOSS_TITLES,
    LOSSES,
    PAPER,
    Trial,
    get_trial,
    guess_effort,
    load_samples,
)

STARTS = {"samples": "training samples", "gaussian": "Gaussian vectors"}
_START_COLOURS = {"samples": BLUE, "gaussian": ORANGE}
_START_LOSSES = ("square", "logistic")
_START_SETTINGS = PAPER | {"tol": 0.0, "max_iter": 60}  # no stop rule decides how many iterations are needed
_PAPERS_ITERATIONS = 20
CODING_STEPS = (1, 2, 3, 5, 10, 30, 100)


class SamePriors(Scales):
    """The priors of another fit: they depend on the first codes, and the objective on them."""

    def __init__(self, priors: Priors):
        super().__init__()
        self.priors = priors

    def set_priors(self, *first_codes: Any) -> Priors:
        """Return the priors of the other fit."""
        return self.priors


def list_start_cells(setup: Setup, n_jobs: int | None) -> list[Cell]:
    """Return fits from both kinds of first dictionary."""
    trials = [
        setup.make_trial("ddl", _START_SETTINGS | {"loss": loss}, seed)
        for loss in _START_LOSSES
        for seed in setup.seeds
    ]
    return [
        Cell(
            slug(f"{trial.dataset} start {trial.settings['loss']} {trial.seed}"),
            trial._asdict(),
            partial(measure_starts, trial, n_jobs),
            effort=10 * guess_effort(trial),
        )
        for trial in trials
    ]


def measure_starts(trial: Trial, n_jobs: int | None) -> dict[str, Any]:
    """Fit from both starts, and from other samples; return how each went and how alike the dictionaries are."""
    data = load_samples(trial)

    def fit(start: str, seed: int, **scales: Scales) -> DDLClassifier:
        settings = trial.settings | {"init": start, "random_state": seed, "n_jobs": n_jobs} | scales
        return make_classifier(**settings).fit(data.X_train, data.y_train)

    from_samples = fit("samples", trial.seed)
    same = SamePriors(from_samples.priors_)
    models = {"samples": from_samples, "gaussian": fit("gaussian", trial.seed, scales=same)}
    others = fit("samples", trial.seed + 1)
    results: dict[str, Any] = {
        start: {
            "objective": [record.objective for record in model.history_],
            "error": float(np.mean(model.predict(data.X_test) != data.y_test)),
        }
        for start, model in models.items()
    }
    samples = models["samples"].components_
    return results | {
        "likeness": compare_dictionaries(samples, models["gaussian"].components_),
        "likeness_of_samples": compare_dictionaries(samples, others.components_),
    }


def compare_dictionaries(one: Floats, other: Floats) -> float:
    """Return the mean over atoms of the largest |cosine| with an atom of the other dictionary."""
    return float(np.abs(one @ other.T).max(axis=1).mean())


def count_iterations(result: dict[str, Any], start: str) -> int:
    """Return how many iterations a start takes to where the slower one is after those of the paper."""
    level = max(result[one]["objective"][_PAPERS_ITERATIONS] for one in STARTS)
    return int(np.argmax(np.array(result[start]["objective"]) <= level))


def report_starts(records: Sequence[Record], output: Path) -> str:
    """Report after how many iterations the fits have settled, and draw their objectives."""
    rows = []
    figure = make_figure(10, 4.5)
    for loss, axes in zip(_START_LOSSES, figure.subplots(1, 2), strict=True):
        results = [record["result"] for record in records if get_trial(record).settings["loss"] == loss]
        for start, title in STARTS.items():
            objectives = [result[start]["objective"] for result in results]
            for number, objective in enumerate(objectives):
                label = None if number else title
                axes.plot(np.array(objective) / 1e6, color=_START_COLOURS[start], alpha=0.7, lw=2, label=label)
            counts = [count_iterations(result, start) for result in results]
            errors = [100 * result[start]["error"] for result in results]
            rows.append(
                [
                    LOSS_TITLES[loss],
                    title,
                    f"{np.mean(counts):.1f} ({min(counts)} to {max(counts)})",
                    f"{np.mean([objective[-1] for objective in objectives]) / 1e6:.4f}",
                    f"{np.mean(errors):.2f}",
                ]
            )
        axes.set_title(LOSS_TITLES[loss], fontsize=14)
        axes.set_xlabel("Iteration", fontsize=13)
        axes.set_ylabel("MAP objective (millions)", fontsize=13)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=12)
    save_figure(figure, output, "claims_start")
    likeness, reference = (
        np.mean([record["result"][name] for record in records]) for name in ("likeness", "likeness_of_samples")
    )
    header = ["loss", "first atoms", "iterations", "objective in the end (millions)", "test error (%)"]
    return (
        format_table(header, rows)
        + f"\nMean |cosine| of an atom with the most similar one of the other dictionary: {likeness:.3f} between the "
        f"two kinds of start, {reference:.3f} between two draws of training samples.\n"
    )


def list_step_cells(setup: Setup, n_jobs: int | None) -> list[Cell]:
    """Return one measurement of coding steps for each loss."""
    parameters: dict[str, Any] = {"n_components": setup.n_components, "n_nonzero_coefs": setup.n_nonzero_coefs}
    parameters |= {"dataset": setup.dataset, "max_train": setup.max_train, "steps": CODING_STEPS}
    return [
        Cell(
            slug(f"{setup.dataset} steps {loss}"),
            parameters | {"loss": loss, "experiment": "steps of the descent, from the last codes"},
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
    """Code training samples after two outer iterations, by the printed steps and ours.

    How many printed steps it takes is counted from label-free codes; what steps bring is measured from the codes of the
    last iteration, where training goes on.
    """
    data = load_samples(Trial(dataset, "ddl", {}, max_train=max_train))
    X, y = data.X_train, data.y_train
    settings = PAPER | {"max_iter": 2, "tol": 0.0}
    settings |= {"n_components": n_components, "n_nonzero_coefs": n_nonzero_coefs, "loss": loss}
    model = make_classifier(**settings, random_state=0, n_jobs=n_jobs).fit(X, y)
    labels = np.where(y[:, None] == model.classes_, 1, -1)

    def encode(coding: DiscriminativeCoding, start: Any = None) -> Any:
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
            init_codes=start,
            label_coding=coding,
            n_jobs=n_jobs,
        )

    printed = {n_steps: encode(PrintedCoding(max_iter=n_steps)) for n_steps in steps}
    last, _ = printed[max(steps)]
    _, as_printed = encode(PrintedCoding(max_iter=max(steps)), model.codes_)
    _, ours = encode(Descent(), model.codes_)
    gain = float(np.sum(ours.objective_before - ours.objective_after))
    kinds = zip(ours.n_moved, ours.decrease.sum(axis=0), strict=True)
    return {
        "share_unfinished": {str(n_steps): _compare(codes, last) for n_steps, (codes, _) in printed.items()},
        "printed_gain": float(np.sum(as_printed.objective_before - as_printed.objective_after)) / gain,
        "printed_rejected": float(np.mean(as_printed.n_rejected > 0)),
        "gain": {kind: float(decrease) / gain for kind, decrease in kinds},
        "moved": {kind: count / len(X) for kind, count in ours.n_moved.items()},
        "rejected": float(ours.n_rejected.mean()),
        "objective": [float(np.mean(values)) for values in (ours.objective_before, ours.objective_after)],
    }


def _compare(codes: Any, last: Any) -> float:
    """Return the share of the codes that differ from the last ones by more than 0.1 %."""
    change, size = (np.linalg.norm(rows.toarray(), axis=1) for rows in (codes - last, last))
    return float(np.mean(change > 1e-3 * size))


def report_steps(records: Sequence[Record], output: Path) -> str:
    """Report how many samples still change after a number of printed steps, and what each of ours brings."""
    unfinished, gains = [], []
    for record in records:
        result, title = record["result"], LOSS_TITLES[record["parameters"]["loss"]]
        shares = list(result["share_unfinished"].values())[:-1]
        unfinished.append([title, *(f"{100 * share:.2f}" for share in shares)])
        numbers = [*result["gain"].values(), result["printed_gain"], *result["moved"].values()]
        numbers.append(result["printed_rejected"])
        gains.append([title, *(f"{100 * number:.1f}" for number in numbers)])
    counts = [f"after {n_steps}" for n_steps in records[0]["parameters"]["steps"][:-1]]
    kinds = list(records[0]["result"]["gain"])
    header = ["%", *(f"gained by {kind}" for kind in kinds), "gained by the printed steps"]
    header += [*(f"samples moved by {kind}" for kind in kinds), "samples with a printed step that was undone"]
    return (
        format_table(["% of printed codes not final", *counts], unfinished)
        + "\nFrom the codes of the iteration before, as in training: what each kind of step of the library's coding "
        "contributes to its decrease of the samples' objective, and what the printed steps reach of the same "
        "decrease.\n\n" + format_table(header, gains)
    )
