"""Table 1 of the paper: baseline and DDL on MNIST and Extended Yale B, for the four losses; USPS in the same form."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .cells import Record, Runner
from .setups import Setup
from .tables import format_table, write_tables
from .trials import (
    BOTH,
    LOSS_TITLES,
    LOSSES,
    RULES,
    Trial,
    align,
    describe_data,
    describe_errors,
    get_error,
    get_trial,
    run_trials,
)
from .usps_grid import METHOD_TITLES, choose, measure_grid

# Errors in per cent. MNIST and faces: Table 1 of the paper. USPS has no table there; the text says how far DDL is below
# the baseline and below two published methods, which gives about these numbers for the best of its losses.
PUBLISHED: dict[tuple[str, str], dict[str, float]] = {
    ("mnist", "baseline"): {"square": 8.35, "exponential": 6.91, "logistic": 5.77, "smooth_hinge": 4.92},
    ("mnist", "ddl"): {"square": 1.41, "exponential": 1.28, "logistic": 1.01, "smooth_hinge": 0.72},
    ("yaleb", "baseline"): {"square": 10.23, "exponential": 9.65, "logistic": 9.23, "smooth_hinge": 9.17},
    ("yaleb", "ddl"): {"square": 8.89, "exponential": 7.82, "logistic": 7.57, "smooth_hinge": 7.30},
}
IMPLIED = (
    "The paper has no number; that it is 0.5 % better than task-driven dictionary learning (2.84 % as reported) and "
    "4.5 % better than its baseline implies about 2.3 % for DDL and 6.8 % for the baseline."
)

MNIST_ATOMS = 500
ALIGNED_LOSSES = ("square", "logistic")
FACE_ATOMS = 600
FACE_BUDGETS = (5, 10, 20, 30)  # the paper's is the first
# On the same splits as DDL. Where there are several settings, cross-validation on the first training half chooses. The
# relatives of K-SVD have 570 atoms, 15 a person, and T = 30, as with their authors; but LC-KSVD, which in dictlearn
# begins with dictionaries of one person each, has T = 15. Their authors' weights of the label terms are for
# other features than pixels, so weights are searched for.
_PEER: dict[str, Any] = {"init_method": "trained", "max_iter": 20}
_PEER_WEIGHTS = (0.001, 0.01, 0.1, 0.25, 1.0, 4.0)
FACE_PEERS: dict[str, list[dict[str, Any]]] = {
    "SRC": [{}],
    "nearest neighbour": [{}],
    "linear SVM": [{}],
    "D-KSVD": [_PEER | {"n_components": 570, "n_nonzero_coefs": 30, "alpha": weight} for weight in _PEER_WEIGHTS],
    "LC-KSVD": [
        _PEER | {"n_components": 15, "n_nonzero_coefs": 15, "alpha": weight, "beta": weight} for weight in _PEER_WEIGHTS
    ],
}
PEER_TITLES = {
    "SRC": "SRC, all training samples as atoms",
    "nearest neighbour": "nearest neighbour",
    "linear SVM": "linear SVM, C by cross-validation",
    "D-KSVD": "D-KSVD (dictlearn), 15 atoms a person",
    "LC-KSVD": "LC-KSVD (dictlearn), 15 atoms a person",
}
_PEER_FOLDS = 2
_FEW_HALVES = {30: 6}  # for the budget that takes longest
_N_HYPOTHESES = 5  # of the full rule with the larger budgets, which are not the paper's
_SHORT_RULES = RULES | {"full": RULES["full"] | {"n_candidates": _N_HYPOTHESES}}

Size = tuple[int, int]  # K and T


class Row(NamedTuple):
    """A row of the table: a method, and the way it infers labels."""

    title: str
    method: str
    variant: str


ROWS = (
    Row("baseline", "baseline", "fast"),
    Row("DDL", "ddl", "fast"),
    Row("DDL, full inference (Eq. 5)", "ddl", "full"),
    Row("DDL, aligned at test time", "ddl", "fast, aligned"),
    Row("DDL, full inference, aligned at test time", "ddl", "full, aligned"),
)


def list_trials(
    dataset: str,
    sizes: Mapping[tuple[str, str], Size],
    *,
    seeds: Sequence[int],
    rules: Mapping[str, dict[str, Any]] = RULES,
    aligned_losses: Sequence[str] = (),
    max_train: int | None = None,
    max_test: int | None = None,
) -> list[Trial]:
    """Return the trials of a table, baselines first.

    ``sizes`` has K and T for each pair of method and loss.  DDL is tried with all rules, and for ``aligned_losses``
    with all of them on aligned images too.
    """
    aligned = {f"{name}, aligned": rule | align(dataset) for name, rule in rules.items()}
    trials = []
    for (method, loss), (n_components, n_nonzero_coefs) in sizes.items():
        settings = BOTH[method] | {"n_components": n_components, "n_nonzero_coefs": n_nonzero_coefs, "loss": loss}
        variants: dict[str, dict[str, Any]] = {"fast": {}}
        if method == "ddl":
            variants = dict(rules) | (aligned if loss in aligned_losses else {})
        trials += [
            Trial(dataset, method, settings, variants, seed, max_train=max_train, max_test=max_test) for seed in seeds
        ]
    return trials


def run_table(runner: Runner, name: str, title: str, trials: Sequence[Trial]) -> list[Record]:
    """Measure the trials and write their table, whose entries name K and T."""
    records = run_trials(trials, runner)
    blocks = _format_blocks(records, by_size=False)
    write_tables(runner.output, name, f"{title} {describe_data(records)}.\n\n{blocks}", records)
    return records


def _format_blocks(records: Sequence[Record], *, by_size: bool) -> str:
    """Return one table, with K and T in each entry; or one for each K and T, where all losses are tried with them."""
    losses = [record for record in records if "loss" in get_trial(record).settings]
    blocks: dict[str, list[Record]] = {}
    for record in losses:
        blocks.setdefault(_describe_size(_get_size(record)) if by_size else "", []).append(record)
    parts = [_format_block(block, size) for size, block in blocks.items()]
    peers = [record for record in records if "loss" not in get_trial(record).settings]
    if peers:
        parts.append(_format_peers(peers))
    return "\n".join(parts)


def _get_size(record: Record) -> Size:
    settings = get_trial(record).settings
    return settings["n_components"], settings["n_nonzero_coefs"]


def _describe_size(size: Size) -> str:
    return f"K = {size[0]}, T = {size[1]}"


def _format_block(records: Sequence[Record], size: str) -> str:
    """Return the rows of the table that these records fill."""
    losses = list(dict.fromkeys(get_trial(record).settings["loss"] for record in records))
    rows = []
    for row in ROWS:
        groups = {loss: _find(records, row, loss) for loss in losses}
        if any(groups.values()):
            rows.append([row.title, *(_format_group(group, row, bool(size)) for group in groups.values())])
    dataset = get_trial(records[0]).dataset
    for method, title in (("baseline", "paper, baseline"), ("ddl", "paper, DDL")):
        if (dataset, method) in PUBLISHED:
            rows.append([title, *(f"{PUBLISHED[dataset, method][loss]:.2f}" for loss in losses)])
    return format_table([size or "test error (%)", *(LOSS_TITLES[loss] for loss in losses)], rows)


def _find(records: Sequence[Record], row: Row, loss: str) -> list[Record]:
    def belongs(trial: Trial) -> bool:
        return (trial.method, trial.settings["loss"]) == (row.method, loss) and row.variant in trial.variants

    return [record for record in records if belongs(get_trial(record))]


def _format_group(records: Sequence[Record], row: Row, has_size_in_header: bool) -> str:
    """Return mean and deviation over seeds, how far that is from the paper, and K and T."""
    if not records:
        return ""
    trial = get_trial(records[0])
    parts = [describe_errors(records, row.variant)]
    published = PUBLISHED.get((trial.dataset, trial.method), {}).get(trial.settings["loss"])
    if published is not None:
        mean = np.mean([get_error(record, row.variant) for record in records])
        parts.append(f"({mean - published:+.2f})")
    if not has_size_in_header:
        parts.append(f"at {_describe_size(_get_size(records[0]))}")
    return " ".join(parts)


def _format_peers(records: Sequence[Record]) -> str:
    rows = []
    for method in dict.fromkeys(get_trial(record).method for record in records):
        group = [record for record in records if get_trial(record).method == method]
        settings = get_trial(group[0]).settings
        shown = {"T": "n_nonzero_coefs", "alpha": "alpha", "beta": "beta"}
        details = [f"{title} = {settings[name]:g}" for title, name in shown.items() if name in settings]
        times = [np.median([record["result"]["fit_seconds"] for record in group])]
        times.append(np.median([record["result"]["test"]["fast"]["predict_seconds"] for record in group]))
        title = ", ".join([PEER_TITLES[method], *details])
        rows.append([title, describe_errors(group), *(f"{time:.1f}" for time in times)])
    return format_table(["on the same splits", "test error (%)", "seconds to fit", "seconds to predict"], rows)


def list_chosen_trials(
    dataset: str, grid: Sequence[Record], n_components: int | None = None, **details: Any
) -> list[Trial]:
    """Return the trials with the K and T that cross-validation chose for each loss and rule; or T for a given K."""
    allowed = [record for record in grid if n_components in (None, _get_size(record)[0])]
    losses = dict.fromkeys(get_trial(record).settings["loss"] for record in grid)
    trials = []
    for loss in losses:
        sizes = {method: choose(allowed, method, loss)[:2] for method in METHOD_TITLES}
        fast, full = sizes["ddl"], sizes["ddl, full"]
        trials += list_trials(dataset, {("baseline", loss): sizes["baseline"]}, **details)
        for size in dict.fromkeys((fast, full)):
            rules = {name: RULES[name] for name, chosen in (("fast", fast), ("full", full)) if chosen == size}
            trials += list_trials(dataset, {("ddl", loss): size}, rules=rules, **details)
    return trials


def run_chosen_usps(runner: Runner, *, grid: Mapping[str, Any], seeds: Sequence[int] = range(3)) -> list[Record]:
    """Measure USPS at the K and T that cross-validation chose, with full inference and with alignment."""
    records = measure_grid(runner, **grid)
    limits: dict[str, Any] = {name: grid.get(name) for name in ("max_train", "max_test")}
    dataset = grid.get("dataset", "usps")
    trials = list_chosen_trials(dataset, records, seeds=seeds, aligned_losses=ALIGNED_LOSSES, **limits)
    title = (
        f"# USPS at the K and T that cross-validation chose\n\nMean and standard deviation over {len(seeds)} seeds "
        f"(the first is that of the grid). Each rule has its own choice, without alignment. "
        f"Alignment is affine, with the library's defaults. {IMPLIED}"
    )
    return run_table(runner, "usps_chosen", title, trials)


def run_mnist(
    runner: Runner,
    *,
    grid: Mapping[str, Any],
    dataset: str = "mnist",
    n_components: int = MNIST_ATOMS,
    max_train: int | None = None,
    max_test: int | None = None,
) -> list[Record]:
    """Measure Table 1, left: MNIST with the T that was chosen on USPS for this K, for each loss its own."""
    limits: dict[str, Any] = {"max_train": max_train, "max_test": max_test}
    trials = list_chosen_trials(
        dataset, measure_grid(runner, **grid), n_components, seeds=(0,), aligned_losses=ALIGNED_LOSSES, **limits
    )
    title = (
        f"# MNIST (Table 1, left)\n\nOne seed; K = {n_components}, T of each method, loss and rule "
        "was chosen by cross-validation on USPS training images, no MNIST image had a say. In brackets the distance "
        "from the paper's number."
    )
    return run_table(runner, "mnist", title, trials)


def _choose_settings(
    runner: Runner, dataset: str, method: str, candidates: Sequence[dict[str, Any]], limits: dict[str, Any]
) -> dict[str, Any]:
    """Return the settings of least cross-validation error on the first training half."""
    if len(candidates) == 1:
        return candidates[0]
    trials = [Trial(dataset, method, settings, n_folds=_PEER_FOLDS, **limits) for settings in candidates]
    records = run_trials(trials, runner)
    return candidates[int(np.argmin([record["result"]["validation_error"] for record in records]))]


def run_yaleb(
    runner: Runner,
    *,
    faces: Setup = Setup("yaleb", FACE_ATOMS, seeds=range(10)),  # noqa: B008 - it does not change
    budgets: Sequence[int] = FACE_BUDGETS,
    peers: Mapping[str, Sequence[dict[str, Any]]] = FACE_PEERS,
) -> list[Record]:
    """Measure Table 1, right: faces in random halves with several T, and other methods on the same halves.

    Of each peer's settings in ``peers``, cross-validation chooses.
    """
    limits: dict[str, Any] = {"max_train": faces.max_train, "max_test": faces.max_test}
    trials = []
    for budget in budgets:
        trials += list_trials(
            faces.dataset,
            {(method, loss): (faces.n_components, budget) for loss in LOSSES for method in BOTH},
            seeds=faces.seeds[: _FEW_HALVES.get(budget)],
            rules=RULES if budget == budgets[0] else _SHORT_RULES,
            **limits,
        )
    for method, candidates in peers.items():
        settings = _choose_settings(runner, faces.dataset, method, candidates, limits)
        trials += [Trial(faces.dataset, method, settings, seed=seed, **limits) for seed in faces.seeds]
    title = (
        "# Faces in random halves (Table 1, right)\n\nA random half of each person's images (24 x 21 pixels) to learn "
        f"from and the other half to test with; mean and standard deviation over {len(faces.seeds)} such splits "
        f"({_FEW_HALVES[30]} with T = 30). The paper has K = {FACE_ATOMS} and T = {FACE_BUDGETS[0]}; the larger "
        "budgets are ours, none was chosen by its test error. To save time their full rule tries the "
        f"{_N_HYPOTHESES} best classes of the fast rule, not all 38. In brackets the distance from the paper's number."
    )
    records = run_trials(trials, runner)
    blocks = _format_blocks(records, by_size=True)
    write_tables(runner.output, "yaleb", f"{title} {describe_data(records)}.\n\n{blocks}", records)
    return records
