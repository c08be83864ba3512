"""The paper's figures and tables in a tiny form, on scikit-learn's digits: all of them, twice."""

from __future__ import annotations

import csv
import json
import re

import pytest
from reproduction import (
    ablation,
    claims_on_fitting,
    claims_on_labels,
    claims_on_size,
    claims_on_weights,
    experiments,
    loss_curves,
    parameters,
    trials,
    tuning,
    usps_grid,
)
from reproduction.ablation import CHANGES
from reproduction.claims import list_claims
from reproduction.experiments import FULL, PAPER_RUNS, QUICK, RUNS, TITLES, reproduce
from reproduction.setups import Setup

N_ITERATIONS = 6  # of a fit at most, in place of the paper's 20
LIMITS = {"max_train": 100, "max_test": 30}
GRID = {"dataset": "digits", "sizes": (10, 16), "budgets": (1, 2), "losses": ("square", "logistic"), "n_folds": 2}
GRID |= LIMITS
DIGITS = Setup("digits", 16, 2, (0,), **LIMITS)
FACES = DIGITS._replace(n_components=32, max_train=90)  # in place of faces
TINY = experiments._shrink(
    grid=GRID,
    digits=DIGITS,
    faces=FACES,
    mnist={"dataset": "digits", "n_components": 16, "max_train": 110, "max_test": 30},
    budgets=(1, 2),
    peers={"nearest neighbour": [{}], "linear SVM": [{}, {"C": [1.0]}]},
)


@pytest.fixture(scope="module", autouse=True)
def few_values():
    """Try fewer values of what an experiment varies."""
    with pytest.MonkeyPatch.context() as patch:
        for settings in (trials.PAPER, trials.FORMER):
            patch.setitem(settings, "max_iter", N_ITERATIONS)
        patch.setattr(claims_on_fitting, "_PAPERS_ITERATIONS", N_ITERATIONS)
        patch.setitem(claims_on_fitting._START_SETTINGS, "max_iter", N_ITERATIONS + 1)
        patch.setattr(claims_on_labels, "FLIPPED", (0.0, 0.3))
        patch.setattr(claims_on_labels, "LABELLED", (0.2, 1.0))
        patch.setattr(claims_on_size, "_LARGE_FACTORS", (2.5, 5))
        patch.setattr(claims_on_weights, "LAMBDAS", (0.1, 10.0))
        patch.setitem(claims_on_weights._ALL_ITERATIONS, "max_iter", N_ITERATIONS)
        patch.setattr(claims_on_weights, "N_FOLDS", 2)
        patch.setattr(claims_on_weights, "WEIGHT_LOSSES", ("square",))
        patch.setattr(tuning, "N_FOLDS", 2)
        patch.setattr(tuning, "LOSSES", ("square",))
        patch.setattr(ablation, "ABLATION_LOSSES", ("square",))
        for module in (loss_curves, parameters, usps_grid):  # whose own tests look at their figures
            patch.setattr(module, "save_figure", lambda *arguments: None)
        yield


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """Where everything has been measured once."""
    pytest.importorskip("matplotlib", reason="draws figures")
    folder = tmp_path_factory.mktemp("all")
    reproduce("all", folder, scale=TINY, n_jobs=1)
    return folder


def read_all(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


def test_every_experiment_leaves_a_table_for_people_and_for_machines(output):
    for name in PAPER_RUNS:
        markdown = (output / f"{name}.md").read_text()
        assert markdown.startswith("# ")
        records = json.loads((output / f"{name}.json").read_text())
        with (output / f"{name}.csv").open() as file:
            assert len(list(csv.DictReader(file))) == len(records)
        for record in records:
            assert record["parameters"]
            assert record["seconds"] >= 0
            assert {"ddlearn", "numpy", "python"} <= set(record["versions"])
    for figure in ("claims_start", "claims_few_labels", "claims_wrong_labels"):
        assert (output / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (output / f"{figure}.svg").read_bytes()


def test_a_second_run_measures_nothing_and_writes_the_same(output, measure_nothing, no_figures):
    before = read_all(output)
    reproduce("all", output, scale=TINY, n_jobs=1)
    after = read_all(output)
    assert before.keys() == after.keys()
    assert [name for name in before if before[name] != after[name]] == []


def test_the_chosen_models_have_the_k_and_t_of_cross_validation(output):
    grid = json.loads((output / "usps.json").read_text())
    chosen = json.loads((output / "usps_chosen.json").read_text())
    for record in chosen:
        trial = trials.get_trial(record)
        same_loss = [
            one
            for one in grid
            if (other := trials.get_trial(one)).method == trial.method
            and other.settings["loss"] == trial.settings["loss"]
        ]
        same = next(one for one in same_loss if trials.get_trial(one).settings == trial.settings)
        for rule in trial.variants.keys() & trials.RULES.keys():
            validation = same["result"]["validation"][rule]
            assert validation == min(one["result"]["validation"][rule] for one in same_loss)
            # The same model as in the grid: the test error of the first seed is no second draw.
            assert record["result"]["test"][rule]["error"] == same["result"]["test"][rule]["error"]


def test_the_table_of_the_ablation_holds_what_the_cells_hold(output):
    markdown = (output / "ablation.md").read_text()
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in markdown.splitlines() if line.startswith("| ")}
    records = json.loads((output / "ablation.json").read_text())
    for change in CHANGES:
        errors = [
            100 * record["result"]["test"][f"{change.title}: {rule}"]["error"]
            for rule in ("fast", "full")
            for record in records
            if f"{change.title}: {rule}" in (trial := trials.get_trial(record)).variants
            and trial.max_train == FACES.max_train
        ]
        assert re.findall(r"\d+\.\d\d", rows[change.title])[-2:] == [f"{error:.2f}" for error in errors]


def test_every_claim_has_cells_and_a_section(output):
    claims = list_claims(DIGITS, FACES, n_jobs=1)
    markdown = (output / "claims.md").read_text()
    for claim in claims:
        assert claim.cells
        assert f"## {claim.title}" in markdown


def test_the_square_loss_needs_one_step(output):
    records = json.loads((output / "claims.json").read_text())
    steps = [record for record in records if "share_unfinished" in record["result"]]
    unfinished = {record["parameters"]["loss"]: record["result"]["share_unfinished"]["1"] for record in steps}
    assert unfinished["square"] == 0
    assert unfinished["exponential"] > 0


def test_fits_with_fixed_weights_are_not_over_after_one_iteration(output):
    # Constant terms of the objective once made every change look small.
    records = json.loads((output / "claims.json").read_text())
    floor = claims_on_weights.FIXED["noise_floor"]
    fixed = [record for record in records if record["parameters"].get("settings", {}).get("noise_floor") == floor]
    assert fixed
    assert {record["result"]["n_iter"] for record in fixed} == {N_ITERATIONS}


def test_test_errors_have_no_say_in_the_tuning(output):
    records = json.loads((output / "tuning.json").read_text())
    search = [record for record in records if record["parameters"]["n_folds"]]
    errors = {
        (number, variant): error
        for number, record in enumerate(search)
        for variant, error in record["result"]["validation"].items()
    }
    number, variant = min(errors, key=errors.__getitem__)
    assert len(errors) == 2 * 2 * (4 + 2)
    tried = [record for record in records if not record["parameters"]["n_folds"]]
    assert tried[0]["parameters"]["settings"] == search[number]["parameters"]["settings"]
    assert f"{100 * tried[-1]['result']['test'][variant]['error']:.2f} |" in (output / "tuning.md").read_text()


@pytest.mark.parametrize(("package", "name"), [("matplotlib", "losses"), ("dictlearn", "yaleb")])
def test_what_is_missing_is_told_before_the_work(tmp_path, monkeypatch, package, name):
    monkeypatch.setattr(experiments, "find_spec", lambda wanted: None if wanted == package else object())
    with pytest.raises(ImportError, match=rf"{package} is not installed.*pip install"):
        reproduce(name, tmp_path)
    assert not list(tmp_path.iterdir())


def test_every_scale_names_every_experiment():
    assert FULL.keys() == QUICK.keys() == TINY.keys() == RUNS.keys()
    assert TITLES.keys() == PAPER_RUNS.keys()


def test_times_are_those_of_the_cells(output):
    # All cells of the folder, each once: but for the search of peers' settings, every one of them is in a table.
    cells = [json.loads(path.read_text()) for path in (output / "cells").iterdir()]
    search = [
        cell for cell in cells if cell["parameters"].get("method") == "linear SVM" and cell["parameters"]["n_folds"]
    ]
    shown = [cell for cell in cells if cell not in search]
    assert len(search) == 2
    total = sum(cell["seconds"] for cell in shown)
    assert (output / "times.md").read_text().splitlines()[-1] == f"| all | {len(shown)} | {total / 60:.1f} |"
