"""Beyond the paper, on small digits: what a cell holds, what is measured again, and what the tables say."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from reproduction import beyond
from reproduction.beyond import (
    BEYOND_SETTINGS,
    CONTENDERS,
    CURVE_ATOMS,
    CURVE_IMAGES,
    PEER_GRIDS,
    ROWS,
    VARIANT,
    Entry,
    choose_parts,
    list_entries,
    measure_entry,
    run_beyond,
    tell_reached,
)
from reproduction.cells import Runner
from reproduction.images import hide_labels, load_rows, spread
from sklearn.svm import SVC

from ddlearn import DDLClassifier, Logistic

TRIED = Path(__file__).parents[2] / "docs" / "archive" / "reproduction" / "beyond_tried.csv"
SMALL = {"n_components": 30, "max_iter": 2, "description": None, "sparse_coder": "ormp", "refine": "classifiers"}
LIMITS = {"max_train": 200, "max_test": 100}


def run_small(output, **changes):
    settings = {"most_seeds": 2, "settings": dict.fromkeys(ROWS, SMALL), **LIMITS}
    return run_beyond(Runner(output, n_jobs=1), **settings | changes)


def make_entry(method, settings=None, **changes) -> Entry:
    return Entry("digits", method, PEER_GRIDS.get(method, SMALL) if settings is None else settings, **LIMITS | changes)


@pytest.fixture
def digits():
    data = load_rows("digits", 1)
    trained, tested = spread(1000, 200), spread(797, 100)
    return data.X_train[trained], data.y_train[trained], data.X_test[tested], data.y_test[tested]


@pytest.fixture(scope="module", autouse=True)
def small_grids():
    """Let peers choose from little."""
    svm = {"C": [10.0], "gamma_factor": [1.0, 3.0]}
    small = {"logistic": {"C": [1.0]}, "svm": svm, "svm_gradients": svm, "knn": {"n_neighbors": [1, 9]}}
    with patch.dict(PEER_GRIDS, small):
        yield


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    output = tmp_path_factory.mktemp("beyond")
    return output, run_small(output, only=["digits"])


def get_errors(records, method):
    of_one = [record["result"]["test"][VARIANT] for record in records if record["parameters"]["method"] == method]
    return [100 * test["error"] for test in of_one]


# -- one cell ----------------------------------------------------------------------------------------------------------


def test_the_size_of_ddl_is_that_of_what_predictions_need():
    result = measure_entry(make_entry("ddl", seed=1), 1)
    assert result["n_components"] == 30
    assert result["n_parameters"] == 30 * 64 + 30 * 10 + 10 + 10
    assert result["model_bytes"] >= 4 * result["n_parameters"]  # single precision
    assert result["chosen"] == SMALL
    assert result["validation_error"] is None
    assert result["refinement"] == []


def test_gamma_is_in_units_of_scale(digits):
    X, y, X_test, y_test = digits
    result = measure_entry(make_entry("svm", {"C": [10.0], "gamma_factor": [1.0]}, seed=1), 1)
    model = SVC(C=10.0, gamma="scale").fit(X, y)
    assert result["chosen"]["gamma"] == pytest.approx(model._gamma, rel=1e-5)
    assert result["test"][VARIANT]["error"] == pytest.approx(1 - model.score(X_test, y_test), abs=1e-12)
    n_vectors = len(model.support_vectors_)
    assert result["n_parameters"] == n_vectors * 64 + 9 * n_vectors + 45  # coefficients of 45 pairs of classes
    assert result["model_bytes"] == 8 * result["n_parameters"]


def test_only_a_part_of_many_images_is_searched_on_but_all_are_learned_from(digits, monkeypatch):
    X, y, *_ = digits
    monkeypatch.setitem(ROWS, "digits", ROWS["digits"]._replace(max_search=60))
    seen = []

    def choose(entry, X_search, y_search, n_jobs):
        seen.append((X_search, y_search))
        return beyond._choose_neighbours(entry, X_search, y_search, n_jobs)

    monkeypatch.setitem(CONTENDERS, "knn", CONTENDERS["knn"]._replace(choose=choose))
    result = measure_entry(make_entry("knn", seed=1), 1)
    kept = spread(200, 60)
    np.testing.assert_array_equal(seen[0][0], X[kept])
    np.testing.assert_array_equal(seen[0][1], y[kept])
    assert result["n_train"] == 200
    assert result["n_parameters"] == 200 * 65


class Epoch(NamedTuple):
    epoch: int
    validation_error: float | None
    seconds: float


def test_the_held_out_error_is_that_of_the_best_epoch(monkeypatch):
    epochs = [Epoch(0, 0.3, 1.0), Epoch(1, np.float32(0.25), 2.0), Epoch(2, float("nan"), 3.0), Epoch(3, None, 4.0)]
    fit = DDLClassifier.fit

    def fit_and_refine(self, X, y):
        fit(self, X, y).refinement_ = epochs
        return self

    monkeypatch.setattr(DDLClassifier, "fit", fit_and_refine)
    result = measure_entry(make_entry("ddl", seed=0), 1)
    assert result["validation_error"] == 0.25
    assert [epoch["validation_error"] for epoch in result["refinement"]] == [0.3, 0.25, None, None]
    assert json.loads(json.dumps(result)) == result


# -- the whole ---------------------------------------------------------------------------------------------------------


def test_seeds_count_where_something_is_random():
    seeds = {}
    for entry in list_entries():
        seeds.setdefault((entry.row, entry.method), []).append(entry.seed)
    assert seeds.keys() == {(name, method) for name, row in ROWS.items() for method in row.methods}
    for (name, method), of_one in seeds.items():
        if name != "size":
            is_fixed = name in ("usps", "mnist") and method != "ddl"
            assert of_one == list(range(1 if is_fixed else ROWS[name].n_seeds))
    assert [len(seeds["size", method]) for method in ("ddl", "svc")] == [len(CURVE_ATOMS), len(CURVE_IMAGES)]


def test_every_row_has_settings_that_ddl_knows():
    assert BEYOND_SETTINGS.keys() == ROWS.keys()
    for settings in BEYOND_SETTINGS.values():
        assert DDLClassifier(**settings).description is settings["description"]


def test_other_settings_of_ddl_are_measured_again_and_peers_are_not():
    first, second = (
        {(e.row, e.method): e.make_cell(1).parameters for e in list_entries(1, dict.fromkeys(ROWS, settings))}
        for settings in (SMALL, SMALL | {"loss": Logistic()})
    )
    assert {part for part in first if first[part] != second[part]} == {(name, "ddl") for name in ROWS}
    assert second["usps", "ddl"]["settings"]["loss"] == "Logistic()"  # objects go by what makes them


def test_labels_that_are_missing_are_learned_in_turns_by_ddl_and_left_out_for_others(monkeypatch):
    data = load_rows("digits", 0)
    y = hide_labels(data.y_train, 0.1, np.random.default_rng(0))
    monkeypatch.setitem(ROWS, "digits", ROWS["digits"]._replace(load=lambda seed: data._replace(y_train=y)))
    results = {
        method: measure_entry(Entry("digits", method, settings, 0), 1)
        for method, settings in (("ddl", SMALL), ("knn", PEER_GRIDS["knn"]))
    }
    assert results["knn"]["n_train"] == np.count_nonzero(y != -1) < 120
    assert results["ddl"]["n_train"] == 1000
    assert results["ddl"]["n_components"] == 30
    assert all(result["test"][VARIANT]["error"] < 0.3 for result in results.values())


def test_a_second_run_measures_nothing_and_writes_the_same(measured, measure_nothing):
    output, records = measured
    before = {path.name: path.read_bytes() for path in output.iterdir() if path.is_file()}
    assert before.keys() == {"beyond.md", "beyond.csv", "beyond.json"}
    assert run_small(output, only=["digits"]) == records
    assert {path.name: path.read_bytes() for path in output.iterdir() if path.is_file()} == before


def test_a_part_alone_is_measured_and_the_table_keeps_what_was_finished(tmp_path):
    alone = run_small(tmp_path, only=["digits:knn"])
    assert {record["parameters"]["method"] for record in alone} == {"knn"}
    both = run_small(tmp_path, only=["digits:svm"])
    assert [record["parameters"]["method"] for record in both] == ["svm", "svm", "knn", "knn"]
    assert both[2:] == alone
    markdown = (tmp_path / "beyond.md").read_text()
    assert "nearest neighbours" in markdown
    assert "| not measured |" in markdown  # DDL


def test_cells_of_other_settings_are_not_in_the_table(tmp_path):
    run_small(tmp_path, only=["digits:knn"])
    records = run_small(tmp_path, only=["digits:knn"], max_train=150)
    assert [record["result"]["n_train"] for record in records] == [150, 150]
    assert len(list((tmp_path / "cells").iterdir())) == 4  # but kept


def test_parts_are_data_sets_or_methods_of_one():
    assert choose_parts(["usps"]) == {("usps", method) for method in ROWS["usps"].methods}
    assert choose_parts(["usps:svm", "mnist:ddl"]) == {("usps", "svm"), ("mnist", "ddl")}
    for name in ("svm", "usps:forest", ""):
        with pytest.raises(ValueError, match=rf"'{name}' is no part.*usps, mnist, yaleb, digits.*ddl, logistic"):
            choose_parts([name])


def test_tables_hold_what_the_cells_hold(measured):
    output, records = measured
    assert json.loads((output / "beyond.json").read_text()) == records
    methods = ROWS["digits"].methods
    assert len(records) == 2 * len(methods)
    with (output / "beyond.csv").open() as file:
        rows = list(csv.DictReader(file))
    lines = (output / "beyond.md").read_text().splitlines()
    for record, row in zip(records, rows, strict=True):
        assert float(row[f"test.{VARIANT}.error"]) == record["result"]["test"][VARIANT]["error"]
        assert int(row["model_bytes"]) == record["result"]["model_bytes"]
    for method in methods:
        errors = get_errors(records, method)
        shown = f"{np.mean(errors):.2f} ± {abs(errors[0] - errors[1]) / np.sqrt(2):.2f}"
        start = f"| {ROWS['digits'].title} | {CONTENDERS[method].title} | 200 / 100 | {shown} | 2 |"
        assert len([line for line in lines if line.startswith(start)]) == 1
        assert max(errors) < 30  # guessing is wrong nine times in ten


def make_record(error, n_components):
    return {"result": {"test": {VARIANT: {"error": error}}, "n_components": n_components}}


def test_targets_are_for_the_mean_over_seeds_and_not_for_too_many_atoms():
    row = ROWS["yaleb"]
    assert row.targets == (1.2, 0.8)
    assert tell_reached(row, [make_record(0.013, 600), make_record(0.011, 600)]) == "1.2: yes, 0.8: no"
    assert tell_reached(row, [make_record(0.013, 600), make_record(0.0112, 600)]) == "1.2: no, 0.8: no"
    assert tell_reached(row, [make_record(0.005, 600)]) == "1.2: yes, 0.8: yes"
    assert tell_reached(row, [make_record(0.005, 601)]) == "1.2: no, 0.8: no"
    assert tell_reached(ROWS["usps"], [make_record(0.02, 5000)]) == "2.2: yes, 1.9: no"
    assert tell_reached(row, []) == ""


def test_the_file_of_what_was_tried_has_its_columns():
    with TRIED.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["data set", "settings", "held-out or test error (%)", "seconds", "note"]
    assert {len(row) for row in rows} <= {5}


def test_the_error_is_drawn_against_the_size_when_both_methods_are_measured(tmp_path):
    def make(method, size):
        test = {VARIANT: {"error": 0.02, "predict_milliseconds": size / 1e6}}
        return {"parameters": {"row": "size", "method": method}, "result": {"model_bytes": size, "test": test}}

    beyond._draw_sizes(tmp_path, [make("ddl", 1000), make("ddl", 2000)])
    assert not list(tmp_path.iterdir())
    beyond._draw_sizes(tmp_path, [make("ddl", 1000), make("ddl", 2000), make("svc", 9000)])
    assert {path.name for path in tmp_path.iterdir()} == {"beyond_size.png", "beyond_size.svg"}
