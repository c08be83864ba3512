"""Faces with gross errors, on synthetic images."""

from __future__ import annotations

import csv
import json

import pytest
from reproduction import faces
from reproduction.cells import Runner
from reproduction.faces import run_faces

from .synthetic import SIZE


def run_small_faces(output, methods=("nearest neighbour", "ddlearn", "ddlearn, gross errors")):
    return run_faces(Runner(output), size=SIZE, methods=methods, occlusions=(0.0, 0.3), corruptions=(0.0, 0.5))


def test_faces_are_measured_once(tmp_path, calls, no_figures):
    records = run_small_faces(tmp_path)
    assert len(records) == 3 * 3  # no disturbance is shared by both kinds
    assert [what for what, _ in calls].count("fit") == 1
    assert {(what, call["error_budget"]) for what, call in calls if what == "predict"} == {
        ("predict", 0),
        ("predict", 0.5),
    }
    n_calls = len(calls)
    assert run_small_faces(tmp_path) == records
    assert len(calls) == n_calls


def test_changed_settings_of_a_method_are_measured_again(tmp_path, calls, no_figures, monkeypatch):
    run_small_faces(tmp_path)
    n_calls = len(calls)
    method = faces.FACE_METHODS["ddlearn, gross errors"]
    monkeypatch.setitem(
        faces.FACE_METHODS, "ddlearn, gross errors", method._replace(test_settings={"error_budget": 0.4})
    )
    run_small_faces(tmp_path)
    assert [what for what, _ in calls[n_calls:]] == ["fit", "predict", "predict", "predict"]


def test_tables_of_faces_hold_what_the_cells_hold(tmp_path, calls, no_figures):
    records = run_small_faces(tmp_path, methods=("nearest neighbour", "linear SVM", "SRC"))
    assert json.loads((tmp_path / "faces.json").read_text()) == records
    with (tmp_path / "faces.csv").open() as file:
        rows = list(csv.DictReader(file))
    markdown = (tmp_path / "faces.md").read_text()
    for record, row in zip(records, rows, strict=True):
        result = record["result"]
        assert float(row["accuracy"]) == result["accuracy"] == result["n_correct"] / result["n_samples"]
        assert result["n_samples"] - result["n_correct"] == len(result["wrong"])
        low, high = result["interval"]
        assert low <= result["accuracy"] <= high
        assert f"{100 * result['accuracy']:.1f} ({100 * low:.1f} to {100 * high:.1f})" in markdown
    assert faces.PUBLISHED_LABEL in markdown
    assert "Linear SVM: C = " in markdown
    assert "SRC: at most " in markdown


def test_the_figure_is_written(tmp_path, calls):
    pytest.importorskip("matplotlib")
    run_small_faces(tmp_path)
    assert (tmp_path / "faces.svg").stat().st_size > 1000
    assert (tmp_path / "faces.png").read_bytes().startswith(b"\x89PNG")


def test_the_real_classifier_finds_gross_errors(tmp_path, synthetic, change_face_model, no_figures):
    change_face_model(fit_settings={"n_components": 16, "n_nonzero_coefs": 4, "random_state": 0})
    records = run_small_faces(tmp_path, methods=("ddlearn", "ddlearn, gross errors"))
    accuracy = {(r["name"].split("-")[1], r["parameters"]["method"]): r["result"]["accuracy"] for r in records}
    assert accuracy["none", "ddlearn"] == 1
    assert accuracy["occlusion", "ddlearn, gross errors"] > 0.9
