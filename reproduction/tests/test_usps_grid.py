"""The grid of Figures 2 and 3, on small digits."""

from __future__ import annotations

import csv
import json

import pytest
from reproduction import trials, usps_grid
from reproduction.cells import Runner
from reproduction.trials import PAPER, get_error, get_trial
from reproduction.usps_grid import choose, run_usps

SIZES, BUDGETS, LOSSES = (10, 20), (1, 2), ("square", "logistic")


def run_small(output):
    small = {"sizes": SIZES, "budgets": BUDGETS, "losses": LOSSES, "n_folds": 2, "max_train": 150, "max_test": 60}
    return run_usps(Runner(output), dataset="digits", **small)


@pytest.fixture(scope="module")
def grid(tmp_path_factory):
    pytest.importorskip("matplotlib", reason="draws figures")
    output = tmp_path_factory.mktemp("grid")
    return output, run_small(output)


def read_all(output):
    return {path.name: path.read_bytes() for path in output.iterdir() if path.is_file()}


def test_every_method_loss_size_and_budget_is_measured_once(grid):
    _, records = grid
    settings = [(trial := get_trial(record)).settings | {"method": trial.method} for record in records]
    keys = [(s["method"], s["loss"], s["n_components"], s["n_nonzero_coefs"]) for s in settings]
    assert len(set(keys)) == len(keys) == 2 * 2 * 2 * 2
    assert all(PAPER.items() <= s.items() for s in settings if s["method"] == "ddl")
    assert not any(PAPER.keys() & s.keys() for s in settings if s["method"] == "baseline")
    for record in records:
        result = record["result"]
        assert result["validation"]["fast"] == result["validation_error"]
        assert result["validation"].keys() == result["test"].keys()
        assert result["test"]["fast"]["n_test"] == 60
        assert 0 < result["test"]["fast"]["error"] < 0.6  # guessing is wrong nine times in ten


def test_a_second_run_gives_the_same_bytes_and_measures_nothing(grid, measure_nothing):
    output, records = grid
    before = read_all(output)
    assert run_small(output) == records
    assert read_all(output) == before
    assert before.keys() == {f"usps.{suffix}" for suffix in ("md", "csv", "json")} | {
        f"usps_figure_{number}.{suffix}" for number in (2, 3, "3_full") for suffix in ("svg", "png")
    }


def test_tables_hold_what_the_cells_hold(grid):
    output, records = grid
    assert json.loads((output / "usps.json").read_text()) == records
    with (output / "usps.csv").open() as file:
        rows = list(csv.DictReader(file))
    markdown = (output / "usps.md").read_text()
    for record, row in zip(records, rows, strict=True):
        assert 100 * float(row["test.fast.error"]) == get_error(record)
        assert float(row["validation_error"]) == record["result"]["validation_error"]
        assert int(row["settings.n_components"]) == record["parameters"]["settings"]["n_components"]
    for method in usps_grid.METHOD_TITLES:
        for loss in LOSSES:
            chosen = choose(records, method, loss)
            line = f"| {trials.LOSS_TITLES[loss]} | {method} | {chosen.describe()} | {chosen.validation_error:.2f} % |"
            assert line in markdown


def test_figures_are_written(grid):
    output, _ = grid
    for number in (2, 3, "3_full"):
        assert (output / f"usps_figure_{number}.png").read_bytes().startswith(b"\x89PNG")
        assert (output / f"usps_figure_{number}.svg").stat().st_size > 1000


def make_record(n_components, n_nonzero_coefs, validation_error, test_error, method="ddl", loss="square"):
    settings = {"n_components": n_components, "n_nonzero_coefs": n_nonzero_coefs, "loss": loss}
    return {
        "parameters": {"dataset": "usps", "method": method, "settings": settings},
        "result": {"validation": {"fast": validation_error}, "test": {"fast": {"error": test_error}}},
    }


def test_the_choice_is_that_of_least_validation_error_and_few_atoms_on_ties():
    records = [
        make_record(800, 5, 0.04, 0.07),
        make_record(300, 3, 0.04, 0.08),
        make_record(300, 5, 0.05, 0.05),
        make_record(50, 1, 0.06, 0.05),
        make_record(50, 2, 0.01, 0.01, method="baseline"),
        make_record(50, 2, 0.02, 0.02, loss="logistic"),
    ]
    for order in (records, records[::-1]):
        chosen = choose(order, "ddl", "square")
        assert chosen[:2] == (300, 3)
        assert chosen[2:] == pytest.approx((4, 8))
        assert chosen.describe() == "K = 300, T = 3: 8.00 %"
        assert choose(order, "ddl", "square", "test_error")[:2] == (50, 1)
        assert choose(order, "ddl", "logistic").test_error == pytest.approx(2)
        assert choose(order, "baseline", "square").test_error == pytest.approx(1)
