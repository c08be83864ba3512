"""All experiments by name, in full and in small: what ``python -m reproduction`` runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .ablation import run_ablation
from .beyond import BEYOND_SETTINGS, run_beyond
from .cells import Record, Runner
from .claims import run_claims
from .digits import run_alignment
from .faces import run_faces
from .loss_curves import run_losses
from .parameters import run_parameters
from .pictures import draw_pictures
from .setups import Setup
from .table_one import (
    FACE_PEERS,
    run_chosen_usps,
    run_mnist,
    run_yaleb,
)
from .tables import format_table
from .trials import DICTLEARN_METHODS
from .tuning import run_tuning
from .usps_grid import run_usps

Run = Callable[..., list[Record]]
Arguments = Mapping[str, dict[str, Any]]

# In the order of "all": later ones take K and T from the grid of USPS.
PAPER_RUNS: dict[str, Run] = {
    "losses": run_losses,
    "usps": run_usps,
    "usps_chosen": run_chosen_usps,
    "parameters": run_parameters,
    "mnist": run_mnist,
    "yaleb": run_yaleb,
    "claims": run_claims,
    "ablation": run_ablation,
    "tuning": run_tuning,
}
# What the paper has no table of: the best settings beside other methods, and images under noise.
RUNS = PAPER_RUNS | {
    "beyond": run_beyond,
    "faces": run_faces,
    "alignment": run_alignment,
    "pictures": draw_pictures,
}
DIVISIBLE = ("beyond",)  # whose parts can be run one by one
TITLES = {
    "losses": "the four costs (Fig. 1)",
    "usps": "error on USPS over K and T (Fig. 2 and 3)",
    "usps_chosen": "USPS at the chosen K and T, full inference and alignment",
    "parameters": "sigma, gamma and the dictionary (Fig. 4)",
    "mnist": "MNIST (Table 1, left)",
    "yaleb": "Extended Yale B (Table 1, right)",
    "claims": "the paper's other claims",
    "ablation": "one choice at a time",
    "tuning": "chosen by cross-validation, the weight of the labels included",
}

FULL: Arguments = {name: {} for name in RUNS} | {name: {"grid": {}} for name in ("usps_chosen", "mnist")}


def _shrink(
    grid: dict[str, Any],
    digits: Setup,
    faces: Setup,
    mnist: dict[str, Any],
    budgets: Sequence[int],
    peers: Mapping[str, Sequence[dict[str, Any]]],
) -> Arguments:
    """Return the arguments of small runs."""
    size = {"n_components": digits.n_components, "n_nonzero_coefs": digits.n_nonzero_coefs}
    chosen = {"grid": grid}
    both = {"digits": digits, "faces": faces}
    return {
        "losses": {},
        "usps": grid,
        "usps_chosen": chosen | {"seeds": digits.seeds},
        "parameters": {"digits": digits},
        "mnist": chosen | mnist,
        "yaleb": {"faces": faces, "budgets": budgets, "peers": peers},
        "claims": both,
        "ablation": both,
        "tuning": {"digits": digits, "other_dataset": mnist.get("dataset", "mnist")}
        | {name: mnist[name] for name in ("max_train", "max_test")},
        "beyond": {
            "most_seeds": 1,
            "settings": dict.fromkeys(BEYOND_SETTINGS, size),
            "max_train": 500,
            "max_test": 200,
        },
        "faces": {"size": (24, 21), "occlusions": (0.0, 0.3), "corruptions": (0.0, 0.5), "max_test": 76},
        "alignment": {"seeds": (0,), "max_train": 1000, "max_test": 200},
        "pictures": {},
    }


# Minutes instead of hours: it goes through everything, but its numbers say little.
QUICK = _shrink(
    grid={"sizes": (50, 200), "budgets": (1, 3), "n_folds": 2, "max_train": 2000, "max_test": 500},
    digits=Setup("usps", 100, 3, (0,), max_train=2000, max_test=500),
    faces=Setup("yaleb", 300, 5, (0,), max_test=300),
    mnist={"n_components": 200, "max_train": 3000, "max_test": 500},
    budgets=(5, 20),
    peers={"SRC": [{}], "nearest neighbour": [{}], "linear SVM": [{}]},
)


def reproduce(
    name: str,
    output: str | Path,
    *,
    scale: Arguments = FULL,
    only: Sequence[str] = (),
    n_jobs: int | None = None,
    n_processes: int = 1,
) -> dict[str, list[Record]]:
    """Run one experiment, or "all" of the paper; cells that are in the output folder are not measured again.

    Parameters
    ----------
    name : str
        A key of ``RUNS``, or "all".
    output : str or Path
        Folder for tables, figures and finished cells.
    scale : dict of dict, default=FULL
        Arguments of each experiment.
    only : sequence of str, default=()
        Parts of an experiment that has some, such as "usps" or "usps:svm" of "beyond"; by default all.
    n_jobs : int or None, default=None
        Threads inside a cell.
    n_processes : int, default=1
        Cells measured at once.

    Returns
    -------
    dict of list of dict
        The records of each experiment that ran.
    """
    runner = Runner(Path(output), n_jobs, n_processes)
    if only and name not in DIVISIBLE:
        raise ValueError(f"{name!r} has no parts to be run alone; those that have: {', '.join(DIVISIBLE)}.")
    _require("matplotlib", "figures are drawn")
    if name in ("yaleb", "all") and any(
        method in DICTLEARN_METHODS for method in scale["yaleb"].get("peers", FACE_PEERS)
    ):
        _require("dictlearn", "D-KSVD and LC-KSVD are measured")
    names = list(PAPER_RUNS) if name == "all" else [name]
    parts = {"only": only} if only else {}
    records = {one: RUNS[one](runner, **scale[one], **parts) for one in names}
    if name == "all":
        (runner.output / "times.md").write_text(_format_times(records))
    return records


def _require(package: str, purpose: str) -> None:
    """Raise before hours of work, not after them."""
    if find_spec(package) is None:
        raise ImportError(f'{package} is not installed, with which {purpose}: pip install ".[reproduce]"')


def list_new_cells(records: Mapping[str, Sequence[Record]]) -> dict[str, list[Record]]:
    """Return the records of each experiment without those that an earlier experiment has measured."""
    counted: set[str] = set()
    cells: dict[str, list[Record]] = {}
    for name, of_one in records.items():
        cells[name] = []
        for record in of_one:
            key = f"{record['name']} {json.dumps(record['parameters'], sort_keys=True)}"
            if key not in counted:
                counted.add(key)
                cells[name].append(record)
    return cells


def _format_times(records: Mapping[str, Sequence[Record]]) -> str:
    """Return how long the cells of each experiment took, each on one thread."""
    cells = list_new_cells(records)
    seconds = {name: sum(record["seconds"] for record in of_one) for name, of_one in cells.items()}
    rows = [[TITLES[name], str(len(of_one)), f"{seconds[name] / 60:.1f}"] for name, of_one in cells.items()]
    rows.append(["all", str(sum(map(len, cells.values()))), f"{sum(seconds.values()) / 60:.1f}"])
    return "# Times\n\n" + format_table(["experiment", "cells", "minutes on one core"], rows)
