"""The experiments, on small synthetic images: solver, disturbances, cells that survive a kill, tables and figures."""

from __future__ import annotations

import csv
import json
import logging
import time
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from reproduction import (
    SRC,
    Cell,
    Split,
    corrupt,
    digits,
    disturbances,
    faces,
    occlude,
    pictures,
    run_cells,
    solve_sparse_errors,
    tables,
)
from reproduction import cells as cell_files
from scipy.optimize import linprog
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import normalize

from ddlearn import experiments

SIZE = (24, 21)
N_PIXELS = SIZE[0] * SIZE[1]
N_CLASSES = 4


def draw_images(n_per_class, seed):
    """Images of a class lie in a random subspace of few dimensions; values are positive, as grey levels are."""
    rng = np.random.default_rng(seed)
    bases = np.random.default_rng(0).uniform(0, 1, (N_CLASSES, 3, N_PIXELS))
    labels = np.repeat(np.arange(N_CLASSES), n_per_class)
    weights = rng.uniform(0.2, 1, (len(labels), 1, 3))
    return (weights @ bases[labels])[:, 0].reshape(-1, *SIZE).astype(np.float32), labels


class CountingModel(ClassifierMixin, BaseEstimator):
    """Stands in for DDLClassifier: nearest mean of a class; notes what is fitted and predicted, and with what."""

    calls: list = []  # noqa: RUF012

    def __init__(
        self,
        n_components=None,
        n_nonzero_coefs=None,
        classification_weight="auto",
        error_budget=0,
        inference="fast",
        alignment=None,
        image_shape=None,
        align_training=False,
        random_state=None,
        n_jobs=None,
    ):
        self.n_components = n_components
        self.n_nonzero_coefs = n_nonzero_coefs
        self.classification_weight = classification_weight
        self.error_budget = error_budget
        self.inference = inference
        self.alignment = alignment
        self.image_shape = image_shape
        self.align_training = align_training
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X, y):
        self.calls.append(("fit", self.get_params()))
        self.classes_ = np.unique(y)
        self.means_ = normalize([X[y == label].mean(axis=0) for label in self.classes_])
        return self

    def predict(self, X):
        if len(X) > 1:  # one sample is a warm-up
            self.calls.append(("predict", self.get_params()))
        return self.classes_[(X @ self.means_.T).argmax(axis=1)]

    def explain(self, X):
        return SimpleNamespace(error=X - X.mean(), reconstruction=X, samples=X, evidence=X @ self.means_.T)


@pytest.fixture
def synthetic(monkeypatch):
    """Run the experiments on synthetic images."""
    split = Split(*draw_images(6, 1), *draw_images(5, 2))
    monkeypatch.setattr(faces, "load_face_lights", lambda: np.tile([1, 2], len(split.y_train) // 2))
    for module in (faces, pictures):
        monkeypatch.setattr(module, "load_faces", lambda size: split)
    for module in (digits, pictures):
        monkeypatch.setattr(module, "load_digits", lambda: split)
        monkeypatch.setattr(module, "USPS_SHAPE", SIZE)


def change_face_model(monkeypatch, **changes):
    for name in ("ddlearn", "ddlearn, gross errors"):
        monkeypatch.setitem(faces.FACE_METHODS, name, faces.FACE_METHODS[name]._replace(**changes))


@pytest.fixture
def calls(synthetic, monkeypatch):
    """Run the experiments with a model that counts, and return its calls."""
    for module in (digits, pictures):
        monkeypatch.setattr(module, "DDLClassifier", CountingModel)
    monkeypatch.setattr(CountingModel, "calls", [])
    change_face_model(monkeypatch, make=CountingModel)
    return CountingModel.calls


def run_small_faces(output, methods=("nearest neighbour", "ddlearn", "ddlearn, gross errors")):
    return experiments.run_faces(
        output, size=SIZE, methods=methods, occlusions=(0.0, 0.3), corruptions=(0.0, 0.5), n_jobs=1
    )


def l1_objective(sample, atoms):
    """Return the least ||x||_1 + ||e||_1 with sample = x @ atoms + e, each split in its positive and negative part."""
    columns = np.hstack([atoms.T, np.eye(len(sample))])
    program = linprog(np.ones(2 * columns.shape[1]), A_eq=np.hstack([columns, -columns]), b_eq=sample)
    assert program.success
    return program.fun


def test_the_solver_finds_the_optimum_of_linear_programming():
    rng = np.random.default_rng(0)
    atoms = normalize(rng.standard_normal((15, 40)))
    samples = normalize(rng.standard_normal((6, 40)))
    found = solve_sparse_errors(samples, atoms, tol=1e-7, max_iter=20000)
    np.testing.assert_allclose(found.codes @ atoms + found.error, samples, atol=1e-5)
    objective = np.abs(found.codes).sum(axis=1) + np.abs(found.error).sum(axis=1)
    np.testing.assert_allclose(objective, [l1_objective(sample, atoms) for sample in samples], rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_planted_codes_and_errors_are_found(dtype):
    rng = np.random.default_rng(1)
    atoms = normalize(rng.standard_normal((30, 200))).astype(dtype)
    codes = np.zeros((300, 30), dtype)  # more than a block of rows
    error = np.zeros((300, 200), dtype)
    for row in range(300):
        codes[row, rng.choice(30, 3, replace=False)] = rng.choice([-1, 1], 3) * rng.uniform(0.5, 1, 3)
        error[row, rng.choice(200, 20, replace=False)] = rng.uniform(-0.5, 0.5, 20)
    samples = codes @ atoms + error
    scale = np.linalg.norm(samples, axis=1, keepdims=True)
    found = solve_sparse_errors(samples / scale, atoms, tol=1e-5, max_iter=5000, n_jobs=2)
    assert found.codes.dtype == found.error.dtype == dtype
    assert max(found.primal_residual.max(), found.dual_residual.max()) <= 1e-5
    np.testing.assert_allclose(found.codes, codes / scale, atol=1e-3)
    np.testing.assert_allclose(found.error, error / scale, atol=1e-3)


def test_the_solver_reports_what_it_did_not_reach():
    rng = np.random.default_rng(2)
    atoms, samples = normalize(rng.standard_normal((10, 30))), normalize(rng.standard_normal((4, 30)))
    found = solve_sparse_errors(samples, atoms, tol=1e-12, max_iter=25)
    assert (found.n_iter == 25).all()
    assert (np.maximum(found.primal_residual, found.dual_residual) > 1e-12).all()


def test_src_recognises_occluded_images():
    X_train, y_train = draw_images(8, 1)
    X_test, y_test = draw_images(5, 2)
    model = SRC().fit(X_train.reshape(-1, N_PIXELS), y_train)
    occluded = occlude(X_test, 0.3, np.random.default_rng(0))
    assert model.score(X_test.reshape(-1, N_PIXELS), y_test) == 1
    assert model.score(occluded.reshape(-1, N_PIXELS), y_test) == 1


@pytest.mark.parametrize("disturb", [occlude, corrupt])
def test_as_many_pixels_change_as_the_level_says(disturb):
    images, _ = draw_images(5, 3)
    for level in (0.1, 0.25, 0.5):
        share = np.mean(disturb(images, level, np.random.default_rng(0)) != images, axis=(1, 2))
        side = np.floor(np.sqrt(level * N_PIXELS))
        expected = side**2 / N_PIXELS if disturb is occlude else round(level * N_PIXELS) / N_PIXELS
        np.testing.assert_allclose(share, expected, atol=1e-6)


@pytest.mark.parametrize("disturb", [occlude, corrupt])
def test_level_zero_changes_nothing_and_the_input_is_never_changed(disturb):
    images, _ = draw_images(2, 3)
    before = images.copy()
    np.testing.assert_array_equal(disturb(images, 0.0, np.random.default_rng(0)), before)
    disturb(images, 0.5, np.random.default_rng(0))
    np.testing.assert_array_equal(images, before)


def test_an_occlusion_is_one_square_that_moves():
    images, _ = draw_images(10, 3)
    changed = occlude(images, 0.2, np.random.default_rng(0)) != images
    side = int(np.sqrt(0.2 * N_PIXELS))
    corners = set()
    for image in changed:
        rows, columns = np.flatnonzero(image.any(axis=1)), np.flatnonzero(image.any(axis=0))
        assert len(rows) == len(columns) == side
        assert image[rows[0] : rows[0] + side, columns[0] : columns[0] + side].all()
        corners.add((rows[0], columns[0]))
    assert len(corners) > 10


def test_random_values_stay_within_the_image():
    images, _ = draw_images(3, 3)
    images *= np.linspace(0.1, 1, len(images), dtype=np.float32)[:, None, None]
    corrupted = corrupt(images, 0.8, np.random.default_rng(0))
    assert (corrupted >= 0).all()
    assert (corrupted.max(axis=(1, 2)) <= images.max(axis=(1, 2))).all()


def test_a_condition_gives_the_same_images_every_time_and_others_at_other_levels():
    images, _ = draw_images(3, 3)
    for kind in disturbances.DISTURBANCES:
        first, again = (disturbances.Condition(kind, 0.3).apply(images) for _ in range(2))
        np.testing.assert_array_equal(first, again)
        assert (first != disturbances.Condition(kind, 0.4).apply(images)).any()


def make_cells(values, measured):
    """Return cells whose result is their value; `measured` gets the values that were really measured."""

    def make(value):
        def measure():
            if value == "kill":
                raise KeyboardInterrupt
            measured.append(value)
            return {"value": value}

        return Cell(f"cell-{value}", {"value": value}, measure)

    return [make(value) for value in values]


def test_a_second_run_measures_nothing(tmp_path):
    measured = []
    first = run_cells(make_cells([1, 2, 3], measured), tmp_path)
    assert run_cells(make_cells([1, 2, 3], measured), tmp_path) == first
    assert measured == [1, 2, 3]
    assert [record["result"]["value"] for record in first] == [1, 2, 3]
    assert first[0].keys() >= {"parameters", "seconds", "versions", "measured"}


def test_a_killed_run_keeps_all_that_was_finished(tmp_path):
    measured = []
    with pytest.raises(KeyboardInterrupt):
        run_cells(make_cells([1, 2, "kill", 3], measured), tmp_path)
    assert len(list(tmp_path.iterdir())) == 2
    run_cells(make_cells([1, 2, 3], measured), tmp_path)
    assert measured == [1, 2, 3]


def test_a_run_killed_while_it_writes_leaves_no_half_cell(tmp_path, monkeypatch):
    def fail(source, target):
        raise KeyboardInterrupt

    measured = []
    with monkeypatch.context() as patch:
        patch.setattr("ddlearn.files.atomic.os.replace", fail)
        with pytest.raises(KeyboardInterrupt):
            run_cells(make_cells([1], measured), tmp_path)
    assert run_cells(make_cells([1], measured), tmp_path)[0]["result"] == {"value": 1}
    assert measured == [1, 1]


def test_other_parameters_are_measured_again_and_old_ones_are_kept(tmp_path):
    measured = []
    cell = make_cells([1], measured)[0]
    changed = cell._replace(parameters={"value": 1, "tol": 0.1})
    for each in (cell, changed, cell, changed):
        run_cells([each], tmp_path)
    assert measured == [1, 1]


def test_progress_tells_the_time_left(tmp_path, caplog):
    caplog.set_level(logging.INFO, "ddlearn")
    run_cells(make_cells([1, 2], []), tmp_path)
    lines = caplog.messages
    assert len(lines) == 2
    assert lines[0].startswith("[1/2] cell-1: ")
    assert "min left" in lines[0]


def measure_square(log, folder, value):
    """Note that a cell is measured; "bad" fails the first time, when all others have been."""
    log.mkdir(exist_ok=True)
    n_before = len(list(log.glob(f"{value}-*")))
    (log / f"{value}-{n_before}").touch()
    if value == "bad" and n_before == 0:
        for _ in range(200):
            if len(list(folder.glob("cell-*.json"))) == 3:
                raise ValueError("once")
            time.sleep(0.05)
    return {"value": value, "nested": {"twice": 2 * value}}


def make_picklable_cells(values, tmp_path):
    """Return cells that other processes can measure; the longer a value's name, the sooner it is over."""
    return [
        Cell(
            f"cell-{value}",
            {"value": value},
            partial(measure_square, tmp_path / "log", tmp_path / "cells", value),
            1 / len(str(value)),
        )
        for value in values
    ]


def run_picklable_cells(values, tmp_path, n_processes):
    """Run the cells, and return their records and how often each value was measured so far."""
    records = run_cells(make_picklable_cells(values, tmp_path), tmp_path / "cells", n_processes=n_processes)
    measured = sorted(path.name.split("-")[0] for path in (tmp_path / "log").iterdir())
    return records, measured


def test_cells_measured_by_two_processes_are_those_of_one(tmp_path):
    values = [1, 22, 333, 1]  # one of them twice
    found = []
    for n_processes in (1, 2):
        folder = tmp_path / str(n_processes)
        folder.mkdir()
        records, measured = run_picklable_cells(values, folder, n_processes)
        assert measured == ["1", "22", "333"]
        assert [record["result"]["value"] for record in records] == values
        files = sorted((folder / "cells").iterdir())
        assert [path.suffix for path in files] == [".json"] * 3  # no half a file beside them
        assert [json.loads(path.read_text()) for path in files] == records[:3]
        found.append([{k: v for k, v in record.items() if k not in ("seconds", "measured")} for record in records])
        assert run_picklable_cells(values, folder, n_processes) == (records, measured)
    assert found[0] == found[1]


@pytest.mark.parametrize("n_processes", [1, 2])
def test_a_run_that_failed_goes_on_with_what_is_left(tmp_path, n_processes):
    values = [1, 2, 3, "bad"]
    with pytest.raises(ValueError, match="once"):
        run_picklable_cells(values, tmp_path, n_processes)
    records, measured = run_picklable_cells(values, tmp_path, n_processes)
    assert [record["result"]["value"] for record in records] == values
    assert measured == ["1", "2", "3", "bad", "bad"]


def test_long_cells_are_begun_first_where_there_are_several_processes(tmp_path, monkeypatch):
    begun = []

    def map_in_order(work, items, *, n_processes):
        begun.append([cell.parameters["value"] for cell in items])
        assert n_processes == 4
        return ((position, work(item)) for position, item in enumerate(items))

    monkeypatch.setattr(cell_files, "map_processes", map_in_order)
    records, _ = run_picklable_cells([333, 1, 22], tmp_path, 4)
    assert begun == [[1, 22, 333]]
    assert [record["result"]["value"] for record in records] == [333, 1, 22]


def test_nested_results_become_columns_with_dotted_names(tmp_path):
    result = {"error": 0.5, "test": {"fast": {"error": 0.25, "interval": [0.1, 0.4]}, "full": {"error": 0.125}}}
    result["objective"] = [3.0, 2.0, 1.0]
    record = {"name": "a", "parameters": {"settings": {"loss": "square"}}, "seconds": 1.5, "measured": "now"}
    tables.write_tables(tmp_path, "both", "text", [record | {"result": result}, record | {"result": {"best": 3}}])
    with (tmp_path / "both.csv").open() as file:
        rows = list(csv.DictReader(file))
    common = {"name": "a", "settings.loss": "square", "seconds": "1.5", "measured": "now"}
    ends = {"test.fast.interval.low": "0.1", "test.fast.interval.high": "0.4"}
    assert rows == [
        common | {"error": "0.5", "test.fast.error": "0.25", "test.full.error": "0.125", "best": ""} | ends,
        common | {"error": "", "test.fast.error": "", "test.full.error": "", "best": "3"} | dict.fromkeys(ends, ""),
    ]
    kept = json.loads((tmp_path / "both.json").read_text())
    assert kept[0]["result"] == result  # lists are there
    assert (tmp_path / "both.md").read_text() == "text"


def test_faces_are_measured_once(tmp_path, calls):
    pytest.importorskip("matplotlib", reason="draws figures")
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


def test_changed_settings_of_a_method_are_measured_again(tmp_path, calls, monkeypatch):
    pytest.importorskip("matplotlib", reason="draws figures")
    run_small_faces(tmp_path)
    n_calls = len(calls)
    method = faces.FACE_METHODS["ddlearn, gross errors"]
    monkeypatch.setitem(
        faces.FACE_METHODS, "ddlearn, gross errors", method._replace(test_settings={"error_budget": 0.4})
    )
    run_small_faces(tmp_path)
    assert [what for what, _ in calls[n_calls:]] == ["fit", "predict", "predict", "predict"]


def test_tables_of_faces_hold_what_the_cells_hold(tmp_path, calls):
    pytest.importorskip("matplotlib", reason="draws figures")
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


def test_digits_share_fits_and_their_table_holds_what_the_cells_hold(tmp_path, calls):
    pytest.importorskip("matplotlib", reason="draws figures")
    records = experiments.run_alignment(tmp_path, seeds=(0, 1), n_jobs=1)
    fits = [call for what, call in calls if what == "fit"]
    assert [(call["random_state"], call["align_training"]) for call in fits] == [
        (0, False),
        (0, True),
        (1, False),
        (1, True),
    ]
    predictions = [call for what, call in calls if what == "predict"]
    for record, call in zip(records, predictions, strict=True):
        for name in ("inference", "alignment", "align_training"):
            assert record["parameters"][name] == call[name]
    markdown = (tmp_path / "alignment.md").read_text()
    for first, second in zip(records[:9], records[9:], strict=True):
        errors = [100 * (1 - record["result"]["accuracy"]) for record in (first, second)]
        assert f"{np.mean(errors):.2f} ± {np.std(errors):.2f}" in markdown
    n_calls = len(calls)
    assert experiments.run_alignment(tmp_path, seeds=(0, 1), n_jobs=1) == records
    assert len(calls) == n_calls


def test_figures_are_written(tmp_path, calls):
    pytest.importorskip("matplotlib", reason="draws figures")
    run_small_faces(tmp_path)
    experiments.run_alignment(tmp_path, seeds=(0,))
    experiments.draw_occluded_faces(tmp_path, size=SIZE, n_faces=2)
    experiments.draw_misaligned_digits(tmp_path)
    for name in ("faces", "alignment", "occluded_faces", "misaligned_digits"):
        assert (tmp_path / f"{name}.svg").stat().st_size > 1000
        assert (tmp_path / f"{name}.png").read_bytes().startswith(b"\x89PNG")


def test_the_real_classifier_runs_through_it_all(tmp_path, synthetic, monkeypatch):
    pytest.importorskip("matplotlib", reason="draws figures")
    settings = {"n_components": 16, "n_nonzero_coefs": 4, "random_state": 0}
    monkeypatch.setattr(pictures, "FACE_MODEL", settings)
    change_face_model(monkeypatch, fit_settings=settings)
    records = run_small_faces(tmp_path, methods=("ddlearn", "ddlearn, gross errors"))
    accuracy = {(r["name"].split("-")[1], r["parameters"]["method"]): r["result"]["accuracy"] for r in records}
    assert accuracy["none", "ddlearn"] == 1
    assert accuracy["occlusion", "ddlearn, gross errors"] > 0.9
    assert len(experiments.run_alignment(tmp_path, seeds=(0,))) == len(digits.DIGIT_SETTINGS)
    pictures.draw_pictures(tmp_path)
