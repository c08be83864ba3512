"""The command line: its options are the estimator's, its numbers scikit-learn's, its errors one line."""

from __future__ import annotations

import ast
import csv
import errno
import inspect
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import typer
from conftest import make_pursuit, make_refiner
from PIL import Image
from rich.console import Console
from sklearn.datasets import load_digits
from typer.main import get_command
from typer.testing import CliRunner

import ddlearn
from ddlearn import DDLClassifier, Jitter, load, save
from ddlearn.cli import app, commands
from ddlearn.cli.options import (
    NO_OPTIONS,
    OWN_DEFAULTS,
    make_option,
    merge_settings,
    parse_parameters,
    parse_value,
    read_options,
    read_parameters,
)
from ddlearn.cli.terminal import Terminal
from ddlearn.estimators.presets import PRESETS
from ddlearn.files.format import MODEL, read_container, write_container
from ddlearn.show.errors import measure_errors

PURSUIT = ["--sparse-coder", "ormp", "--refine", "classifiers"]
SMALL = ["--n-components", "40", "--max-iter", "2", "--seed", "0", "--jobs", "1"]
QUICK = [*SMALL, *PURSUIT]
# Two epochs of refinement, with nothing left to search for.
REFINED = ["--description", "unit", "--sparse-coder", "ormp", "--refine", "2",
           "--set", "refine.weight_decay=0.1", "--set", "refine.linear_decay=1"]  # fmt: skip
SOURCE = Path(__file__).parents[2] / "src"


def run(*arguments: object, code: int = 0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def read_words(result) -> str:
    """Return what a command has printed as one line, without the frames of tables."""
    return " ".join((result.stdout + result.stderr).replace("│", " ").split())


def run_python(*arguments: str) -> subprocess.CompletedProcess:
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment)


def run_json(*arguments: object) -> dict:
    result = run(*arguments, "--json")
    assert result.stdout.count("\n") == 1
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return (X / 16).astype(np.float32), y


@pytest.fixture(scope="module")
def folder(tmp_path_factory, digits):
    """Archives of training and test digits, and a model of them."""
    path = tmp_path_factory.mktemp("digits")
    X, y = digits
    np.savez(path / "train.npz", images=X[:400].reshape(-1, 8, 8), y=y[:400])
    np.savez(path / "test.npz", X=X[400:700], y=y[400:700])
    model = make_pursuit(40, max_iter=2, random_state=0, image_shape=(8, 8)).fit(X[:400], y[:400])
    save(model, path / "model.safetensors")
    multilabel = make_pursuit(20, max_iter=1).fit(X[:200], np.stack([y[:200] < 5, y[:200] > 3], axis=1))
    save(multilabel, path / "multilabel.safetensors")
    np.save(path / "narrow.npy", X[:5, :3])
    return path


def write_csv(path: Path, X: np.ndarray, y: np.ndarray) -> None:
    """Write a table with empty cells for NaN."""
    names = [f"pixel {number}" for number in range(X.shape[1])]
    rows = [["" if np.isnan(value) else value for value in row] for row in X]
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([[*names, "label"], *([*row, label] for row, label in zip(rows, y, strict=True))])


def write_images(folder: Path, X: np.ndarray, y: np.ndarray) -> None:
    for number, (row, label) in enumerate(zip(X, y, strict=True)):
        path = folder / f"digit {label}" / f"{number:03}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.uint8(np.rint(row * 255)).reshape(8, 8)).save(path)


# -- options -----------------------------------------------------------------------------------------------------------


def test_options_are_the_parameters_of_the_constructor():
    constructor = inspect.signature(DDLClassifier).parameters
    assert set(read_parameters()) == set(constructor)
    objects_only = {name for name, parameter in read_parameters().items() if not parameter.kinds}
    assert set(read_options()) == set(constructor) - NO_OPTIONS - objects_only
    assert all(constructor[name].default is None for name in objects_only)
    for name, parameter in read_parameters().items():
        assert parameter.default == OWN_DEFAULTS.get(name, constructor[name].default)
        assert len(parameter.description) > 10
    flags = {flag for option in get_command(app).commands["fit"].params for flag in option.opts}
    assert {f"--{name.replace('_', '-')}" for name in read_options()} | {"--seed", "--jobs"} <= flags


def test_empty_cells_are_missing_if_the_model_says_so(digits, tmp_path):
    X, y = digits[0][:200].copy(), digits[1][:200]
    X[::3, 20], X[5, 30] = np.nan, np.nan
    write_csv(tmp_path / "table.csv", X, y)
    fit = ["fit", tmp_path / "table.csv", "-o", tmp_path / "model.safetensors", *QUICK]
    message = read_words(run(*fit, code=1))
    assert "row 0, column 'pixel 20': the value is missing, as are 67 others" in message
    assert "--set robustness.missing=mask" in message
    run(*fit, "--set", "robustness.missing=mask")
    assert run_json("evaluate", tmp_path / "model.safetensors", tmp_path / "table.csv")["error"] < 0.2


CONSTRUCTOR = '''
class DDLClassifier:
    """A classifier.

    Parameters
    ----------
    inference : {"fast", "full"} or FullInference, default="fast"
        How new samples are classified.
    refine : "classifiers", int, Refiner or None, default="classifiers"
        Epochs.
    robustness : float, Robustness or None, default=None
        Error budget.
    scales : Scales or None, default=None
        Floors.
    fit_intercept : bool or None, default=None
        Whether to fit intercepts.
    """

    def __init__(self, inference: str | FullInference = "fast", *, refine: str | int | Refiner | None = "classifiers",
                 robustness: Robustness | float | None = None, scales: Scales | None = None,
                 fit_intercept: bool | None = None):
        pass
'''


def test_objects_are_options_if_they_have_a_shorthand(monkeypatch, tmp_path):
    parameters = parse_parameters(CONSTRUCTOR)
    monkeypatch.setattr("ddlearn.cli.options.read_parameters", lambda: parameters)
    assert set(read_options()) == {"inference", "refine", "robustness", "fit_intercept"}
    options = {name: get_args(make_option(parameter).annotation) for name, parameter in read_options().items()}
    assert options["inference"][1].metavar == "fast|full"
    assert get_args(options["fit_intercept"][0])[0] is bool
    parse = {name: options[name][1].parser for name in ("refine", "robustness")}
    assert [parse["refine"](text) for text in ("classifiers", "none", "3")] == ["classifiers", "none", 3]
    assert [parse["robustness"](text) for text in ("3", "0.25")] == [3, 0.25]
    for name in parse:
        with pytest.raises(typer.BadParameter, match="'often' is not a number"):
            parse[name]("often")
    assert merge_settings(None, {"refine": "none", "robustness": None}) == OWN_DEFAULTS | {"refine": None}
    (tmp_path / "c.toml").write_text('refine = "none"\nrobustness = 0.1\nfit_intercept = true')
    expected = OWN_DEFAULTS | {"refine": None, "robustness": 0.1, "fit_intercept": True}
    assert merge_settings(tmp_path / "c.toml", {}) == expected


def test_help_tells_what_the_docstring_tells_and_has_two_screens(monkeypatch):
    parameters = read_parameters()
    assert parameters["max_iter"].description.startswith("Most iterations of the joint fit. By default 1")
    assert parameters["sparse_coder"].description.startswith("How codes are found: two pursuits")
    assert parameters["sparse_coder"].words == ("omp", "ormp", "elastic_net")
    assert "object" not in parameters["loss"].description  # of no use in a shell
    help_text = read_words(run("fit", "--help"))
    assert "--max-iter" not in help_text
    assert "--seed" in help_text
    help_text = read_words(run("fit", "--help-all"))
    assert "Most iterations of the joint fit. By default 1" in help_text
    assert "--checkpoint" in help_text
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERMINAL_WIDTH", "80")
    assert run("fit", "--help").stdout.count("\n") <= 80


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            ["--loss", "logistic", "--robustness", "3", "--tol", "1e-2"],
            {"loss": "logistic", "robustness": 3, "tol": 0.01},
        ),
        (["--description", "unit", "--image-shape", "4x16"], {"description": "unit", "image_shape": [4, 16]}),
        (["--robustness", "0.25"], {"robustness": 0.25}),
        (["--random-state", "7", "--n-jobs", "2"], {"random_state": 7, "n_jobs": 2}),
        (["--refine", "1", "--n-views", "3"], {"refine": 1, "n_views": 3}),
    ],
)
def test_options_reach_the_model(folder, tmp_path, options, expected):
    output = tmp_path / "model.safetensors"
    facts = run_json("fit", folder / "train.npz", "-o", output, *QUICK, *options)
    assert facts["settings"].items() >= expected.items()
    parameters = load(output).get_params()
    for name, value in expected.items():
        expected_value = tuple(value) if isinstance(value, list) else value
        assert parameters[name] == expected_value
        assert type(parameters[name]) is type(expected_value)  # a robustness of 3.0 would be a share


def test_a_refined_fit_tells_its_error_on_samples_held_out(folder, tmp_path):
    output = tmp_path / "model.safetensors"
    command = ["fit", folder / "train.npz", "-o", output, *QUICK, "--refine", "3"]
    shown = read_words(run(*command))
    errors = load(output).search_["error"]
    assert f"{len(errors)} settings tried" in shown
    assert f"error {errors[-1]:.2%} of held-out training samples, in trials of the chosen settings" in shown
    assert "3 epochs, best after epoch 3" in shown
    assert "label-free" not in shown  # which was before refinement
    facts = run_json(*command)
    assert facts["error"] == errors[-1]
    assert facts["search"]["error"] == errors[-1]
    assert facts["refinement"]["n_epochs"] == 3
    facts = run_json("info", output)
    assert facts["n_epochs"] == 3
    assert facts["settings"]["refine"] == 3


def test_info_shows_the_parameters_of_objects(digits, tmp_path):
    X, y = digits
    refine = make_refiner(validation_fraction=0, jitter=Jitter(0.3))
    model = make_pursuit(40, max_iter=1, refine=refine, image_shape=(8, 8), random_state=0).fit(X[:400], y[:400])
    save(model, tmp_path / "model.safetensors")
    shown = read_words(run("info", tmp_path / "model.safetensors"))
    assert "refine=refiner(" in shown
    assert "epochs=1" in shown
    assert "jitter=jitter(elastic=0.0, linear=0.5, shift=0.3, smoothness=4.0)" in shown
    assert "validation_error" not in shown  # there is none, and no NaN


# -- presets -----------------------------------------------------------------------------------------------------------


def test_the_command_offers_every_preset():
    assert tuple(PRESETS) == commands._PRESETS


@pytest.mark.parametrize("name", PRESETS)
def test_presets_from_the_command_line(folder, tmp_path, name):
    output = tmp_path / "model.safetensors"
    quick = [*SMALL, "--refine", "1"] if "refine" in PRESETS[name].parameters else SMALL
    facts = run_json("fit", folder / "train.npz", "--preset", name, "-o", output, *quick)
    assert facts["preset"] == name
    parameters = load(output).get_params(deep=False)
    given = {"n_components": 40, "max_iter": 2, "random_state": 0, "n_jobs": 1, "image_shape": (8, 8)}
    given |= {"refine": 1} if "--refine" in quick else {}
    expected = PRESETS[name].parameters | PRESETS[name].of_images | given
    assert {key: repr(parameters[key]) for key in expected} == {key: repr(value) for key, value in expected.items()}


def test_a_configuration_file_wins_over_the_preset_and_the_command_line_over_both(folder, tmp_path):
    (tmp_path / "c.toml").write_text('loss = "square"\nmax_iter = 3\n')
    output = tmp_path / "model.safetensors"
    command = ["fit", folder / "test.npz", "-o", output, "--config", tmp_path / "c.toml", "--jobs", "1"]
    run(*command, "--preset", "accurate", "--max-iter", "1", "--refine", "1", "--n-components", "40")
    model = load(output)
    assert (model.sparse_coder, model.loss, model.max_iter) == ("elastic_net", "square", 1)
    assert (model.refine, model.n_views) == (1, 1)  # rows of an archive are not known to be images
    shown = " ".join(run(*command, "--preset", "fast", "--max-iter", "1").stdout.replace("│", " ").split())
    assert "preset fast, n_jobs=1, random_state=0, loss=square, max_iter=1" in shown


def test_all_cores_are_used_unless_told_otherwise(folder, tmp_path):
    facts = run_json("fit", folder / "train.npz", "-o", tmp_path / "m", "--n-components", "20", *PURSUIT)
    assert facts["settings"] == OWN_DEFAULTS | {"n_components": 20, "sparse_coder": "ormp", "refine": "classifiers"}
    assert OWN_DEFAULTS == {"n_jobs": -1, "random_state": 0}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n_component = 3", "; did you mean 'n_components'?"),
        ("warm_start = true", "no option 'warm_start'"),
        ('n_components = "many"', "n_components = 'many': 'many' is not a number"),
        ("max_iter = true", "max_iter = True: 'True' is not a number"),
        ("inference = 'slow'", "inference = 'slow': 'slow' is not one of fast, full"),
        ("image_shape = [8]", "'8' is not a height and a width"),
        ("n_components = ", "cannot be read as TOML"),
        ("max_iter = 2.5", "'2.5' is not an integer"),
    ],
)
def test_a_wrong_configuration_is_wrong_usage(folder, tmp_path, text, message):
    config = tmp_path / "c.toml"
    config.write_text(text)
    result = run("fit", folder / "train.npz", "-o", tmp_path / "m", "--config", config, code=2)
    assert message in read_words(result)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("-1", -1),
        ("0.2", 0.2),
        ("1e-4", 1e-4),
        ("true", True),
        ("False", False),
        ("none", None),
        ("8x6", (8, 6)),
        ("affine", "affine"),
        ("", ""),
    ],
)
def test_values_of_nested_options(text, value):
    parsed = parse_value(text)
    assert parsed == value
    assert type(parsed) is type(value)


FLAT = {"n_components": 30, "random_state": 5, "loss": "logistic", "image_shape": (8, 8)}
NESTED = {"tol": 1, "inference__n_candidates": 2, "refine__jitter__kind": "a", "scales__floor": None}


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.toml", 'n_components = 30\nseed = 5\nmax-iter = 3\nloss = "logistic"\nimage_shape = [8, 8]', FLAT),
        ("a.json", '{"n_components": 30, "random_state": 5, "loss": "logistic", "image_shape": "8x8"}', FLAT),
        ("a.toml", 'tol = 1\n[inference]\nn-candidates = 2\n[refine.jitter]\nkind = "a"\n[scales]\nfloor = "none"',
         NESTED),
        ("a.toml", 'tol = 1\ninference.n_candidates = 2\nrefine.jitter.kind = "a"\nscales.floor = "none"', NESTED),
        ("a.json", '{"tol": 1, "inference.n_candidates": 2, "refine": {"jitter.kind": "a"}, "scales.floor": "none"}',
         NESTED),
    ],
)  # fmt: skip
def test_the_command_line_wins_over_the_configuration_file(tmp_path, name, text, expected):
    (tmp_path / name).write_text(text)
    settings = merge_settings(tmp_path / name, {"max_iter": 2}, ["inference.n_candidates=3", "refine.batch-size=7"])
    given = {"max_iter": 2, "inference__n_candidates": 3, "refine__batch_size": 7}
    assert settings == OWN_DEFAULTS | expected | given


def test_nested_options_reach_the_objects_of_the_model(folder, tmp_path):
    command = ["fit", folder / "train.npz", "--preset", "accurate", "-o", tmp_path / "m", *SMALL]
    facts = run_json(*command, "--set", "refine.epochs=1", "--set", "refine.validation_fraction=0.2")
    assert facts["settings"].items() >= {"refine__epochs": 1, "refine__validation_fraction": 0.2}.items()
    refine = load(tmp_path / "m").refine
    assert (refine.epochs, refine.validation_fraction) == (1, 0.2)
    failure = run(*command, "--set", "refine.epoch=1", code=1).stderr
    assert "there is no nested option 'refine.epoch' of this model, which has " in failure
    assert "did you mean 'refine.epochs'?" in failure


def test_nested_options_of_a_part_that_is_given_by_name(folder, tmp_path):
    run("fit", folder / "train.npz", "-o", tmp_path / "m", *QUICK, "--inference", "full",
        "--set", "inference.n_candidates=2")  # fmt: skip
    assert load(tmp_path / "m").get_params()["inference__n_candidates"] == 2


# -- the way of an image -----------------------------------------------------------------------------------------------


def test_from_a_folder_of_images_to_predictions_and_a_report(tmp_path, monkeypatch, digits):
    monkeypatch.chdir(tmp_path)
    X, y = digits
    write_images(tmp_path / "train", X[:300], y[:300])
    write_images(tmp_path / "test", X[300:400], y[300:400])
    (tmp_path / "train" / "digit 0" / "broken.png").write_bytes(b"\x89PNG")
    model, predictions = tmp_path / "model.safetensors", tmp_path / "predictions.csv"
    result = run("fit", "train", "-o", model, *QUICK)
    assert "Skipped 1 broken image(s):" in result.stderr
    assert "digit 0/broken.png" in result.stderr
    assert "300 training samples, 64 features, 10 classes" in result.stdout
    assert load(model).image_shape == (8, 8)
    run("predict", model, tmp_path / "test", "-o", predictions)
    facts = run_json("evaluate", model, tmp_path / "test")
    with predictions.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == facts["n_samples"] == 100
    wrong = [row for row in rows if Path(row["sample"]).parent.name != row["prediction"]]
    assert len(wrong) == facts["n_wrong"] < 30
    assert all(0.1 <= float(row["probability"]) <= 1 for row in rows)
    run("report", model, tmp_path / "test", "-o", tmp_path / "page.html")
    content = read_report(tmp_path / "page.html")
    data = content["data"]
    assert content["model"]["image_shape"] == [8, 8]
    assert content["model"]["classes"] == [f"digit {j}" for j in range(10)]
    assert [Path(name).parent.name for name in data["names"]] == [data["classes"][j] for j in data["labels"]]
    assert data["errors"]["n_wrong"] == facts["n_wrong"]
    failure = run("fit", tmp_path / "train", "-o", model, "--strict", code=1)
    assert "1 of 301 images cannot be read" in failure.stderr


def test_new_images_are_brought_to_the_size_of_the_model(tmp_path, digits):
    rng = np.random.default_rng(0)
    for number in range(12):
        pixels = rng.integers(0, 256, (9, 7, 3), dtype=np.uint8)
        pixels[..., number % 2] = 255
        path = tmp_path / "train" / "rg"[number % 2] / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(path)
    Image.fromarray(np.full((20, 30, 3), (255, 80, 80), np.uint8)).save(tmp_path / "new.png")
    model = tmp_path / "model.safetensors"
    options = ["--n-components", "6", "--n-nonzero-coefs", "2", "--seed", "0"]
    run("fit", tmp_path / "train", "-o", model, "--colour", "--image-size", "6x6", *options)
    assert load(model).n_features_in_ == 108
    assert run("predict", model, tmp_path / "new.png").stdout.splitlines()[1].startswith("new.png,r,")
    run("fit", tmp_path / "train", "-o", model, *options)  # grey, 9 x 7
    assert run("predict", model, tmp_path / "new.png").stdout.count("\n") == 2


# -- tables ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def flowers(tmp_path_factory):
    """A table with names, and a model of it."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("flowers")
    kinds = ["rose", "tulip"] * 40
    rows = [f"{1 + rng.random():.4f},{kind},{(kind == 'rose') + rng.random() / 2:.4f}" for kind in kinds]
    (path / "train.csv").write_text("width,kind,height\n" + "\n".join(rows))
    (path / "new.csv").write_text("height,width\n1.1,1.5\n0.1,1.5\n")
    run("fit", path / "train.csv", "-o", path / "m", "--label-column", "kind", "--n-components", "8",
        "--n-nonzero-coefs", "2", "--seed", "0")  # fmt: skip
    return path


def test_columns_are_found_by_name(flowers):
    lines = run("predict", flowers / "m", flowers / "new.csv").stdout.splitlines()
    assert [line.split(",")[:2] for line in lines[1:]] == [["0", "rose"], ["1", "tulip"]]
    assert load(flowers / "m").target_name_ == "kind"  # which need not be given again
    assert run_json("evaluate", flowers / "m", flowers / "train.csv")["error"] < 0.1


def make_rows(header: str, make_row, n_rows: int = 40) -> str:
    return "\n".join([header, *(make_row(i) for i in range(n_rows))])


ODD = make_rows("id,one,size,kind", lambda i: f"{900 + i},1,{i % 2 + i / 100:.3f},{'ab'[i % 2]}")
GUESSED = make_rows("kind,length,size", lambda i: f"{'ab'[i % 2]},{i % 3},{i % 7 + i}")
MARKED = make_rows("a,b,label", lambda i: f"{i % 2},{i % 3},{-1 if i % 5 == 0 else i % 2}")
NOTED = "note,height,width\ngood,1.1,1.5\nbad,0.1,1.5\n"
FIT = "fit a.csv -o m --n-components 4 --n-nonzero-coefs 1 --sparse-coder ormp --refine classifiers"


@pytest.mark.filterwarnings("always:y contains -1")
@pytest.mark.parametrize(
    ("text", "command", "code", "words"),
    [
        (NOTED, "predict FLOWERS/m a.csv", 0, ["0,rose,", "1,tulip,", "does not know column 'note': ignored"]),
        (NOTED, "evaluate FLOWERS/m a.csv", 1, ["give the column of a table by --label-column NAME"]),
        ("width,depth\n1,2\n", "predict FLOWERS/m a.csv", 1, ["without 'height' and with 'depth'"]),
        (ODD, FIT, 0, ["Column 'one' has the same value in every row", "labels from column 'kind'",
                       "Column 'id' has another whole number in every row, like an identifier"]),
        (ODD, f"{FIT} --ignore id --ignore one --json", 0, ['"n_features": 1,']),
        (GUESSED, f"{FIT} --ignore kind", 1, ["column 'size' was taken for the labels, since it is the last"]),
        (GUESSED, f"{FIT} --label-column kind --json", 0, ['"label_column": "kind"']),
        (GUESSED, "look a.csv --ignore kind", 0, ["column 'size' was taken for the labels", "no labels"]),
        (MARKED, f"{FIT} --unlabeled -1 --json", 0, ['"classes": [0, 1]']),
        (MARKED, f"{FIT} --json", 0, ['"classes": [-1, 0, 1]', "Warning: y contains -1"]),
        ("a,b,label\n1,2,x\n3,4,\n", FIT, 1, ["row 1: there is no label"]),
    ],
)  # fmt: skip
def test_what_commands_say_of_tables(flowers, tmp_path, monkeypatch, text, command, code, words):
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(text)
    result = run(*command.replace("FLOWERS", str(flowers)).split(), code=code)
    said = read_words(result)
    assert all(one in said for one in words), said


def test_an_array_on_disk_stays_there_on_its_way_to_the_model(folder, digits, tmp_path, monkeypatch):
    np.save(tmp_path / "X.npy", digits[0])
    np.save(tmp_path / "y.npy", digits[1])
    given = []
    for name in ("fit", "predict_proba"):
        method = getattr(DDLClassifier, name)
        monkeypatch.setattr(
            DDLClassifier, name, lambda model, X, *y, method=method: given.append(X) or method(model, X, *y)
        )
    run("fit", tmp_path / "X.npy", "--labels", tmp_path / "y.npy", "-o", tmp_path / "m", *QUICK)
    run("predict", folder / "model.safetensors", tmp_path / "X.npy")
    assert {type(X) for X in given} == {np.memmap}


# -- numbers -----------------------------------------------------------------------------------------------------------


def test_the_model_is_the_one_that_python_fits(folder, digits, tmp_path):
    facts = run_json("fit", folder / "train.npz", "-o", tmp_path / "m", *QUICK)
    expected = load(folder / "model.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "m").components_, expected.components_)
    assert facts["iteration"]["objective"] == expected.history_[-1].objective
    assert facts["iteration"]["label_free_error"] == expected.history_[-1].label_free_error
    assert facts["n_iter"] == 2
    assert "refinement" not in facts


def test_evaluate_counts_errors(folder, digits):
    X, y = (part[400:700] for part in digits)
    expected = measure_errors(y, load(folder / "model.safetensors").predict(X))
    assert expected.n_wrong > 0
    facts = run_json("evaluate", folder / "model.safetensors", folder / "test.npz")
    for name, value in expected._asdict().items():
        np.testing.assert_array_equal(facts[name], value, name)
    shown = run("evaluate", folder / "model.safetensors", folder / "test.npz").stdout
    assert f"Error {expected.error:.2%}" in shown
    assert "Confusion" in shown


def test_labels_of_another_type_are_matched(folder, digits, tmp_path):
    X, y = digits
    np.savez(tmp_path / "a.npz", X=X[400:500], y=y[400:500].astype(str))
    assert run_json("evaluate", folder / "model.safetensors", tmp_path / "a.npz")["error"] < 0.3  # "3" is 3


def test_with_many_classes_the_worst_confusions_are_shown(tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((80, 10)), np.arange(80) % 20
    np.savez(tmp_path / "a.npz", X=X, y=y)
    save(make_pursuit(20, max_iter=1, random_state=0).fit(X, y), tmp_path / "m")
    assert "Most frequent confusions" in run("evaluate", tmp_path / "m", tmp_path / "a.npz").stdout


def test_explain_takes_the_evidence_apart(folder, digits, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")  # no cell wraps
    X, y = (part[400:700] for part in digits)
    path, data = folder / "model.safetensors", folder / "test.npz"
    model = load(path)
    ranks = np.argsort(-model.decision_function(X), axis=1)
    row = int(np.flatnonzero((ranks[:, 0] != y) & (ranks[:, 1] != y))[0])  # its label is neither first nor second
    facts = run_json("explain", path, data, "--row", row)
    code = model.transform(X[row : row + 1])
    assert sorted(facts["atoms"]) == sorted(code.indices.tolist())
    assert facts["evidence"] == pytest.approx(model.decision_function(X[row : row + 1])[0].tolist(), rel=1e-4)
    best, place = (facts["classes"].index(facts[name]) for name in ("prediction", "label"))
    assert (best, facts["label"]) == (ranks[row, 0], y[row])
    votes = (code @ model.coef_.T)[0]
    np.testing.assert_allclose(facts["votes"], votes, rtol=1e-4)
    found = [sum(facts[f"votes_for_{name}"]) for name in ("prediction", "label")]
    np.testing.assert_allclose(found, votes[[best, place]], rtol=1e-4)
    scores = np.add(facts["votes"], facts["intercept"])
    saved = (model.loss_.value(-scores) - model.loss_.value(scores)) / np.array(facts["class_cost"])
    np.testing.assert_allclose(facts["evidence"], saved, rtol=1e-4)
    shown = run("explain", path, data, "--row", row, "--picture").stdout
    for words in (f"vote for {facts['prediction']}", f"vote for {y[row]}, its label", f"{y[row]} (its label)", "██",
                  "Evidence is the cost of the opposite score less that of the score"):  # fmt: skip
        assert words in shown


def test_one_image_needs_no_row_and_others_are_found_by_name(folder, tmp_path, digits):
    write_images(tmp_path / "new", digits[0][400:403], digits[1][400:403])
    images, model = sorted((tmp_path / "new").glob("*/*.png")), folder / "model.safetensors"
    one = run_json("explain", model, images[1])
    by_name = run_json("explain", model, tmp_path / "new", "--row", images[1].name)
    assert one["evidence"] == by_name["evidence"]
    assert by_name["label"] == images[1].parent.name
    failure = read_words(run("explain", model, tmp_path / "new", code=2))
    assert "has 3 samples: choose one by --row, from 0 to 2" in failure
    failure = read_words(run("explain", model, tmp_path / "new", "--row", "001.pgn", code=2))
    assert "did you mean" in failure


# -- samples that were not learned from --------------------------------------------------------------------------------


def test_fit_evaluates_on_samples_held_out(folder, tmp_path, digits):
    output = tmp_path / "m.safetensors"
    facts = run_json("fit", folder / "train.npz", "-o", output, *QUICK, "--test-size", "0.25")
    assert facts["n_samples"] == 300
    assert facts["evaluate"]["n_samples"] == 100
    assert facts["evaluate"]["n_samples_of_class"] == pytest.approx([10] * 10, abs=1)  # as in the whole
    assert facts["error"] == facts["evaluate"]["error"]
    assert "100 samples held out of" in facts["error_source"]
    data = read_report(tmp_path / "m.html")["data"]
    assert data["errors"]["n_wrong"] == facts["evaluate"]["n_wrong"]
    images = np.load(folder / "train.npz")["images"].reshape(400, -1)
    np.testing.assert_array_equal(run_json("fit", folder / "train.npz", "-o", output, *QUICK, "--test-size", "0.25")
                                  ["evaluate"]["confusion"], facts["evaluate"]["confusion"])  # fmt: skip
    assert load(output).score(images, digits[1][:400]) > 1 - facts["error"]  # most of it was learned


def test_fit_cross_validates_and_learns_from_all(folder, tmp_path):
    output = tmp_path / "m"
    facts = run_json("fit", folder / "train.npz", "-o", output, *QUICK, "--cv", "2")
    assert facts["n_samples"] == facts["evaluate"]["n_samples"] == 400
    assert "in 2 folds" in facts["error_source"]
    np.testing.assert_array_equal(load(output).components_, load(folder / "model.safetensors").components_)


def test_unlabelled_samples_are_learned_from_and_never_held_out(tmp_path, digits):
    X, y = digits[0][:200], digits[1][:200].copy()
    y[::2] = -1
    np.savez(tmp_path / "a.npz", X=X, y=y)
    fit = ["fit", tmp_path / "a.npz", "-o", tmp_path / "m", *QUICK, "--unlabeled", "-1"]
    facts = run_json(*fit, "--test-size", "0.3")
    assert (facts["n_samples"], facts["evaluate"]["n_samples"]) == (170, 30)


def test_whoever_evaluates_the_training_samples_is_told(folder, digits, tmp_path):
    model = folder / "model.safetensors"
    for command in (["evaluate"], ["report", "-o", tmp_path / "r.html"]):
        result = run(command[0], model, folder / "train.npz", *command[1:])
        assert "Warning: the model was fitted to" in result.stderr
        assert run(command[0], model, folder / "test.npz", *command[1:]).stderr == ""


def test_compare_has_the_same_splits_for_all(tmp_path, digits, monkeypatch):
    from ddlearn.cli import evaluation

    X, y = digits
    np.savez(tmp_path / "a.npz", X=X[:150], y=y[:150])
    seen = []

    class Nearest:
        def fit(self, X, y):
            seen.append(X.sum())
            self.X, self.y = X, y
            return self

        def predict(self, X):
            return self.y[((X[:, None] - self.X) ** 2).sum(axis=2).argmin(axis=1)]

    class Constant(Nearest):
        def predict(self, X):
            return np.full(len(X), 3)

    contenders = {"ddlearn": Nearest, "SVC": Constant}
    monkeypatch.setattr(evaluation, "list_contenders", lambda *_: contenders)
    figure = tmp_path / "a.svg"
    facts = run_json("compare", tmp_path / "a.npz", "--cv", "3", "-o", figure)
    assert seen[:3] == seen[3:]
    ours, other = facts["results"]
    assert ours["difference"] is None
    assert other["difference"] == pytest.approx(other["error"] - ours["error"])
    # Of the differences, the standard error of a mean, written out.
    gap, share = other["difference"], other["difference_interval"]
    assert share[0] < gap < share[1]
    n_changed = 150 * gap  # no sample is wrong by the nearest neighbour and right by the constant, or few are
    assert (share[1] - share[0]) / 2 == pytest.approx(1.96 * np.sqrt(gap * (1 - gap) / 150), rel=0.2), n_changed
    assert "<svg" in figure.read_text()
    shown = run("compare", tmp_path / "a.npz", "--test-size", "0.3", "--only", "SVC").stdout
    assert f"{100 * gap:+.0f}"[:2] in shown
    assert "did you mean 'SVC'" in read_words(run("compare", tmp_path / "a.npz", "--only", "SVM", code=2))


def test_models_that_are_wrong_alike_are_not_equal_for_certain():
    from ddlearn.cli.evaluation import _find_interval

    low, high = _find_interval(0, 0, 100)
    assert -low == high > 0.01
    assert _find_interval(30, 10, 10_000) == pytest.approx([0.00076, 0.00324], abs=2e-5)  # 1.96 sqrt(40) / 10,000
    assert _find_interval(10, 30, 100) == pytest.approx([-value for value in _find_interval(30, 10, 100)[::-1]])


def test_compare_offers_our_presets_and_others(digits):
    from ddlearn.cli.evaluation import REFERENCE, list_contenders
    from ddlearn.cli.reading import Samples

    contenders = list_contenders(Samples(*digits, image_shape=(8, 8)), dict(OWN_DEFAULTS))
    ours = [name for name in contenders if name.startswith(REFERENCE)]
    assert ours == [REFERENCE, *(f"{REFERENCE} {name}" for name in PRESETS)]
    assert len(contenders) == len(ours) + 4
    assert contenders["ddlearn accurate"]().n_views == 8
    for make in contenders.values():
        assert {"fit", "predict"} <= set(dir(make()))


def test_look_tells_what_is_there_and_what_to_run(tmp_path):
    rows = [f"{500 + i},{i % 5},,{'a' if i else 'b'}" for i in range(30)]
    (tmp_path / "a.csv").write_text("id,x,y y,kind\n" + "\n".join([*rows, "499,1,2,a", "499,1,2,b"]))
    facts = run_json("look", tmp_path / "a.csv", "--label-column", "kind")
    assert facts["classes"] == {"a": 30, "b": 2}
    assert (facts["n_samples"], facts["n_features"], facts["n_missing"]) == (32, 3, 30)
    assert (facts["n_copies"], facts["n_contradictions"]) == (1, 1)
    words = facts["next"].split()
    assert words[:3] == ["ddlearn", "fit", str(tmp_path / "a.csv")]
    assert "--label-column kind --class-weight balanced --set robustness.missing=mask --test-size 0.2" in facts["next"]
    shown = read_words(run("look", tmp_path / "a.csv", "--label-column", "kind"))
    assert "1 samples are copies of others; 1 times with another label" in shown
    assert "from column 'kind'; 2 to 30 samples each" in shown
    assert "Next: ddlearn fit" in shown
    assert "images of 8 x 8" in run("look", "digits").stdout


def test_names_of_models(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run("fit", folder / "train.npz", *QUICK)
    assert (tmp_path / "train.safetensors").exists()
    assert commands._name_model("parts/X-*.npy") == Path("model.safetensors")


def test_predictions_go_to_stdout_or_a_file(folder, tmp_path, digits):
    printed = run("predict", folder / "model.safetensors", folder / "test.npz").stdout
    output = tmp_path / "p.csv"
    result = run("predict", folder / "model.safetensors", folder / "test.npz", "-o", output, "--quiet")
    assert result.output == ""
    assert output.read_text() == printed
    listed = run_json("predict", folder / "model.safetensors", folder / "test.npz")["predictions"]
    expected = load(folder / "model.safetensors").predict(digits[0][400:700])
    assert [row["prediction"] for row in listed] == expected.tolist()
    counts = run_json("predict", folder / "model.safetensors", folder / "test.npz", "-o", output)["counts"]
    assert counts["3"] == np.count_nonzero(expected == 3)


def test_info_reads_the_header(folder):
    facts = run_json("info", folder / "model.safetensors")
    assert facts["n_components"] == 40
    assert facts["n_samples"] == 400
    assert facts["settings"]["image_shape"] == [8, 8]
    shown = run("info", folder / "model.safetensors").stdout
    assert "components_ 40x64" in shown
    assert "Checks" in shown
    assert {check["name"] for check in facts["checks"]} == {
        check.name for check in load(folder / "model.safetensors").summary().checks
    }


def test_demo_shows_all_of_it():
    shown = run("demo").stdout
    for word in ("Fitted", "settings tried", "95 % interval", "Confusion", "vote for", "Evidence", "██"):
        assert word in shown


def read_report(path: Path) -> dict:
    """Return what a page holds."""
    return json.loads(path.read_text().split('id="content">')[1].split("</script>")[0])


def test_report_of_a_model_and_data(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page, model, data = tmp_path / "report.html", folder / "model.safetensors", folder / "test.npz"
    shown = run("report", model).stdout
    assert f"report.html ({page.stat().st_size / 1e6:.1f} MB): open it in a browser." in shown
    assert "<title>model</title>" in page.read_text()
    assert read_report(page)["data"] is None
    assert read_report(page)["model"]["image_shape"] == [8, 8]
    arguments = ["report", model, data, "-o", page, "--title", "Digits & <more>"]
    assert run_json(*arguments) == {"model": str(model), "file": str(page), "bytes": page.stat().st_size}
    assert "<title>Digits &amp; &lt;more&gt;</title>" in page.read_text()
    content = read_report(page)["data"]
    assert content["name"] == str(data)
    assert content["errors"]["confusion"] == run_json("evaluate", model, data)["confusion"]
    assert run(*arguments, "--quiet").output == ""
    for name in ("r.HTML", "r.htm"):
        run("report", model, "-o", name)
        assert read_report(tmp_path / name)["data"] is None


def test_report_of_a_table_without_labels(flowers, tmp_path):
    page = tmp_path / "page.html"
    result = run("report", flowers / "m", flowers / "new.csv", "-o", page)
    assert "Warning" not in result.stderr
    content = read_report(page)
    assert content["model"]["feature_names"] == ["width", "height"]
    assert content["data"]["errors"] is content["data"]["labels"] is None
    found = {row: content["data"]["classes"][j]
             for row, j in zip(content["data"]["rows"], content["data"]["predictions"], strict=True)}  # fmt: skip
    assert found == {0: "rose", 1: "tulip"}


def test_labels_that_are_not_right_are_told_in_a_report_as_in_evaluate(folder, digits, tmp_path):
    X, y = digits
    model, data, page = folder / "model.safetensors", tmp_path / "a.npz", tmp_path / "r.html"
    np.savez(data, X=X[400:500], y=y[400:500] + 5)
    notes = [run("evaluate", model, data).stderr, run("report", model, data, "-o", page).stderr]
    assert notes[0] == notes[1] != ""
    assert "unknown to the model, counted as errors: 10, 11, 12, 13, 14" in notes[1]
    assert read_report(page)["data"]["errors"]["n_wrong"] == run_json("evaluate", model, data)["n_wrong"]
    page.unlink()
    table = tmp_path / "a.csv"
    rows = [",".join(map(str, row)) for row in X[:2].tolist()]
    table.write_text(f"{','.join(f'p{j}' for j in range(64))},label\n{rows[0]},zero\n{rows[1]},\n")
    save(load(model).set_params(unlabeled="zero"), tmp_path / "m")
    for command, more in (("evaluate", []), ("report", ["-o", page])):
        assert "row 1: there is no label" in run(command, model, table, *more, code=1).stderr
    table.write_text(table.read_text()[:-1] + "one\n")
    for command, more in (("evaluate", []), ("report", ["-o", page])):
        failure = run(command, tmp_path / "m", table, *more, code=1).stderr
        assert "y contains 'zero' in row 0, which marks samples without a label" in failure
    assert not page.exists()


def test_why_a_page_is_large_is_told(folder, tmp_path, monkeypatch):
    page = tmp_path / "r.html"
    assert run("report", folder / "model.safetensors", "-o", page).stderr == ""
    monkeypatch.setattr("ddlearn.cli.commands._LARGE_PAGE", page.stat().st_size - 1)
    note = read_words(run("report", folder / "model.safetensors", "-o", page))
    assert "large because its dictionary of 40 atoms x 64 features takes 0.0 MB: fewer atoms or smaller images" in note
    assert run("report", folder / "model.safetensors", "-o", page, "--quiet").stderr == ""


def test_demo_writes_its_report(tmp_path):
    page = tmp_path / "demo.html"
    facts = run_json("demo", "-o", page)
    assert facts["report"] == {"file": str(page), "bytes": page.stat().st_size}
    content = read_report(page)
    assert content["data"]["errors"]["confusion"] == facts["evaluate"]["confusion"]
    assert content["model"]["ink"]["longest_side"] == 8  # digits that one can draw


def test_a_fit_goes_on_from_its_checkpoint(folder, tmp_path):
    whole, resumed, checkpoint = tmp_path / "whole", tmp_path / "resumed", tmp_path / "checkpoint"
    options = [folder / "train.npz", "--n-components", "40", "--seed", "0", "--tol", "0", "--jobs", "1", *REFINED]
    run("fit", *options, "-o", whole, "--max-iter", "4")
    run("fit", *options, "-o", resumed, "--max-iter", "2", "--checkpoint", checkpoint)
    run("fit", *options, "-o", resumed, "--max-iter", "4", "--checkpoint", checkpoint, "--resume")
    np.testing.assert_array_equal(load(resumed).components_, load(whole).components_)
    assert load(resumed).n_iter_ == 4
    assert len(load(resumed).refinement_) == 3
    failure = run("fit", *options, "-o", resumed, "--checkpoint", checkpoint, "--resume", "--seed", "1", code=1)
    assert "cannot be resumed: random_state was 0 and is 1 now" in failure.stderr


# -- data in parts -----------------------------------------------------------------------------------------------------


def test_parts_are_fitted_and_predicted_as_one_file(folder, digits, tmp_path):
    X, y = (part[:400] for part in digits)
    for number, rows in enumerate((slice(0, 150), slice(150, 250), slice(250, 400))):
        np.save(tmp_path / f"X-{number}.npy", X[rows].reshape(-1, 8, 8))
        np.save(tmp_path / f"y-{number}.npy", y[rows])
    parts = [tmp_path / "X-*.npy", "--labels", tmp_path / "y-*.npy"]
    run("fit", *parts, "-o", tmp_path / "m", *QUICK)
    model = load(folder / "model.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "m").components_, model.components_)
    of_file, of_parts = (run_json("evaluate", tmp_path / "m", *data) for data in ([folder / "train.npz"], parts))
    assert of_parts | {"data": None} == of_file | {"data": None}
    run_json("explain", tmp_path / "m", parts[0], "--row", "399")


# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["fit", "train.npz", "-o", "m", "--n-components", "many"], 2, "--n-components"),
        (["fit", "train.npz", "-o", "m", "--set", "max_iter=3"], 2, "write NAME.OPTION=VALUE"),
        (["fit", "train.npz", "-o", "m", "--tol", "small"], 2, "'small' is not a number"),
        (["fit", "train.npz", "-o", "m", "--image-size", "8"], 2, "'8' is not a height and a width"),
        (["fit", "train.npz", "-o", "m", "--resume"], 2, "--resume needs --checkpoint"),
        (["fit", "train.npz", "-o", "nowhere/m"], 2, "the folder nowhere of m does not exist"),
        (["fit", "train.npz", "-o", "m", "--lambda", "1"], 2, "--lambda"),
        (["fit", "train.npz", "-o", "m", "--preset", "acurate"], 2, "did you mean 'accurate'?"),
        (["fit", "train.npz", "-o", "m", "--refine", "often"], 2, "--refine"),
        (["fit", "train.npz", "-o", "m", "--refine", "-1"], 1, "epochs must be an integer of at least 0, got -1"),
        (["fit", "test.npz", "-o", "m", "--refine", "1", "--set", "refine.jitter=affine"], 1, "give --image-shape HxW"),
        (["fit", "test.npz", "-o", "m", "--n-views", "2"], 1, "give --image-shape HxW"),
        (["fit", "train.npz", "-o", "m.pkl"], 2, "such as m.safetensors"),
        (["fit", "train.npz", "-o", "m.CSV"], 2, "such as m.safetensors"),
        (["fit", "train.npz", "-o", "m", "--cv", "2", "--test-size", "0.5"], 2, "give only one of them"),
        (["fit", "train.npz", "-o", "m", "--test-size", "1.5"], 2, "give a share between 0 and 1"),
        (["fit", "train.npz", "-o", "m", "--cv", "500"], 2, "cannot be divided like this"),
        (["fit", "narrow.npy", "-o", "m"], 1, "a file by --labels FILE"),
        (["evaluate", "test.npz", "model.safetensors"], 2, "give MODEL first and DATA second"),
        (["predict", ".", "model.safetensors"], 2, "give MODEL first and DATA second"),
        (["predict", "multilabel.safetensors", "test.npz"], 1, "one label per sample"),
        (["report", "multilabel.safetensors"], 1, "one label per sample"),
        (["fitt"], 2, "fit"),
        (["explain", "model.safetensors", "test.npz", "--row", "300"], 2, "has 300 samples, 0 to 299"),
        (["fit", "train.npz", "-o", "m", "--loss", "hinge"], 2, "'hinge' is not one of square"),
        (["fit", "nothing.npz", "-o", "m"], 1, "nothing.npz: there is no such file"),
        (["fit", "model.safetensors", "-o", "m"], 1, "is a model, not data: give MODEL first"),
        (["predict", "train.npz", "test.npz"], 2, "train.npz is data, not a model"),
        (["predict", "nothing", "test.npz"], 1, "nothing: No such file or directory."),
        (["fit", "train.npz", "-o", "m", "--dictionary-update", "svd"], 1, "svd"),
        (["predict", "model.safetensors", "narrow.npy"], 1, "X has 3 features, but DDLClassifier is expecting 64"),
        (["info", "train.npz"], 2, "train.npz is data, not a model"),
        (["report", "nothing"], 1, "nothing: No such file or directory."),
        (["report", "train.npz"], 2, "train.npz is data, not a model"),
        (["report", "model.safetensors", "narrow.npy"], 1, "X has 3 features, but DDLClassifier is expecting 64"),
        (["report", "model.safetensors", "nothing.npz"], 1, "nothing.npz: there is no such file"),
        (["report", "nothing", "-o", "nowhere/r.html"], 2, "the folder nowhere of r.html does not exist"),
        (["report", "model.safetensors", "-o", "."], 2, "is a folder: give a file name"),
        (["demo", "-o", "nowhere/r.html"], 2, "the folder nowhere of r.html does not exist"),
        (["demo", "-o", "digits.pdf"], 2, "digits.pdf does not end in .html"),
        (["report", "nothing", "--labels", "y.npy"], 2, "--labels is for reading DATA, but there is none"),
        (["report", "nothing", "--strict", "--colour"], 2, "--colour, --strict is for reading DATA"),
        (["report", "nothing", "--image-size", "8x8"], 2, "--image-size is for reading DATA"),
        (["report", "nothing", "--label-column", "last"], 2, "--label-column is for reading DATA"),
    ],
)
def test_mistakes_are_told_in_a_line_and_by_the_exit_code(folder, monkeypatch, arguments, code, message):
    monkeypatch.chdir(folder)
    result = run(*arguments, code=code)
    assert message in read_words(result)
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_debug_shows_the_traceback(folder):
    (folder / "broken.safetensors").write_bytes(b"nothing of a model")
    result = CliRunner().invoke(app, ["info", str(folder / "broken.safetensors"), "--debug"])
    assert isinstance(result.exception, ValueError)


def test_a_mistake_of_ours_is_called_one(folder, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("boom")

    monkeypatch.setattr("ddlearn.cli.reading.read_data", fail)
    result = run("predict", folder / "model.safetensors", "x.npz", code=1)
    assert "RuntimeError: boom" in result.stderr
    assert "This is a bug in ddlearn" in result.stderr


def test_without_jinja2_there_is_no_report(folder, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    failure = run("report", folder / "model.safetensors", "-o", tmp_path / "r.html", code=1)
    assert 'A report needs jinja2: pip install "ddlearn[report]".' in failure.stderr.replace("\n", " ")
    assert list(tmp_path.iterdir()) == []


def test_without_the_extra_the_message_says_what_to_install():
    script = "import sys; sys.modules['typer'] = None; import ddlearn.cli"
    result = run_python("-c", script)
    assert result.returncode == 1
    assert result.stderr == 'The command line needs typer: pip install "ddlearn[cli]"\n'


# -- terminals and pipes -----------------------------------------------------------------------------------------------


# The least that help by the same library can take.
EMPTY_APPLICATION = """
import typer

app = typer.Typer()


@app.command()
def fit(data: str) -> None:
    "Fit a model."


@app.command()
def predict(data: str) -> None:
    "Predict."


app()
"""


def measure_own_seconds(command: list[str]) -> float:
    """Return the least processor time of two runs: the wall clock would depend on other processes."""
    seconds = []
    for _ in range(2):
        before = os.times()
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"PYTHONPATH": str(SOURCE)})
        after = os.times()
        seconds.append(after.children_user + after.children_system - before.children_user - before.children_system)
    return min(seconds)


def test_help_answers_at_once():
    # About 1.4 times the time of an empty application; NumPy alone would double it. Seconds depend on the machine.
    empty = measure_own_seconds([sys.executable, "-c", EMPTY_APPLICATION, "fit", "--help"])
    assert measure_own_seconds([sys.executable, "-m", "ddlearn", "fit", "--help"]) < 2.5 * empty


def test_help_imports_nothing_large():
    script = (
        "import sys; from ddlearn.cli import main; sys.argv = ['ddlearn', 'fit', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n"
        "    large = {'numpy', 'scipy', 'sklearn', 'numba', 'pyarrow', 'PIL', 'dask', 'distributed'}\n"
        "    print(sorted(large & set(sys.modules)))"
    )
    result = run_python("-c", script)
    assert ast.literal_eval(result.stdout.splitlines()[-1]) == []


def test_pipes_get_no_control_characters(folder, tmp_path):
    model, data = str(folder / "model.safetensors"), str(folder / "test.npz")
    commands = [
        ["evaluate", model, data],
        ["explain", model, data, "--row", "0", "--picture"],
        ["fit", "nothing.npz", "-o", str(tmp_path / "m")],
        ["fit", "--help"],
    ]
    # One process for all of them, since most of its time is the start.
    script = (
        "import sys\nfrom ddlearn.cli import main\n"
        f"for arguments in {commands!r}:\n"
        "    sys.argv[1:] = arguments\n"
        "    try:\n        main()\n    except SystemExit as error:\n        print('exit', error.code)\n"
    )
    result = run_python("-c", script)
    assert re.findall(r"^exit (\d)$", result.stdout, re.MULTILINE) == ["0", "0", "1", "0"]
    assert "nothing.npz" in result.stderr
    text = result.stdout + result.stderr
    assert [character for character in text if ord(character) < 32 and character != "\n"] == []


def test_a_terminal_without_unicode(folder):
    arguments = ["explain", folder / "model.safetensors", folder / "test.npz", "--row", "0", "--picture"]
    result = CliRunner(charset="ascii").invoke(app, list(map(str, arguments)))
    assert result.exit_code == 0, result.output
    assert result.stdout.isascii()
    assert "@@" in result.stdout


def test_a_reader_that_goes_away_is_no_error(folder, tmp_path, digits):
    np.save(tmp_path / "many.npy", np.tile(digits[0][:100], (200, 1)))  # more lines than a pipe holds
    command = f"{sys.executable} -m ddlearn predict {folder}/model.safetensors {tmp_path}/many.npy | head -n 1"
    result = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(SOURCE)}
    )
    assert result.stdout == "sample,prediction,probability\n"
    assert result.stderr == ""


def test_ctrl_c_ends_with_130_and_no_traceback(folder, tmp_path):
    # A job in the background inherits that Ctrl-C is ignored; this one must not.
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from ddlearn.cli import main; main()"
    )
    checkpoint = tmp_path / "checkpoint"
    options = ["--tol", "0", "--max-iter", "1000000", "--checkpoint", checkpoint, *QUICK[:2]]
    process = subprocess.Popen(
        [sys.executable, "-c", script, "fit", *map(str, [folder / "train.npz", "-o", tmp_path / "m", *options])],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(SOURCE)},
    )
    while not checkpoint.exists() and process.poll() is None:  # the fit is running
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 130, errors
    assert output == ""
    assert errors.splitlines() == ["Error: interrupted."]
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(("seconds", "is_shown"), [(0, True), (60, False)])
def test_progress_appears_on_stderr_when_it_takes_long(folder, tmp_path, monkeypatch, capsys, seconds, is_shown):
    drawn = io.StringIO()

    def make_console(*, to_stderr):
        return Console(file=drawn, force_terminal=True, width=120) if to_stderr else Console()

    monkeypatch.setattr("ddlearn.cli.terminal.make_console", make_console)
    monkeypatch.setattr("ddlearn.cli.terminal.SECONDS_TO_WAIT", seconds)
    fit = ["fit", folder / "train.npz", "-o", tmp_path / "m", *SMALL, *REFINED]
    told = run(*fit).stderr  # bars and lines of the estimator
    model = load(tmp_path / "m")
    assert model.verbose == 0
    assert f"fitting 2/2: objective {model.history_[-1].objective:,.0f}" in told
    assert f"refining 2/2: cost {model.refinement_[-1].training_cost:.3g}" in told
    assert ("reading" in drawn.getvalue()) == is_shown
    assert run(*fit, "--quiet").stderr == ""


def test_json_holds_no_nan(capsys):
    Terminal(as_json=True).answer({"error": float("nan"), 3: [np.float32(0.5), np.int64(2), Path("a")], "b": np.True_})
    assert json.loads(capsys.readouterr().out) == {"error": None, "3": [0.5, 2, "a"], "b": True}


def test_names_are_shown_as_they_are(tmp_path, monkeypatch, capsys):
    # rich would take ":train:" for a picture of a tram and "[red]" for a colour.
    monkeypatch.chdir(tmp_path)
    X, y = np.eye(6), np.array(["[red]", ":train:"] * 3)
    np.savez("a[b]:train:.npz", X=X, y=y)
    shown = run("fit", "a[b]:train:.npz", "-o", "m", "--n-components", "4", "--n-nonzero-coefs", "1").stdout
    shown += run("evaluate", "m", "a[b]:train:.npz").stdout
    assert shown.count("a[b]:train:.npz") == 2
    assert "│ [red] " in shown
    assert "│ :train: " in shown


def test_version():
    assert run("--version").stdout == f"ddlearn {ddlearn.__version__}\n"


# -- files from strangers, and files that must not be lost -------------------------------------------------------------

NASTY = "cat\x1b]0;renamed\x07\x9b2J\u202etac\nsecond line"


@pytest.fixture
def full_disk(monkeypatch):
    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", fail)


@pytest.mark.usefixtures("full_disk")
def test_an_interrupted_or_full_disk_leaves_the_old_predictions(folder, tmp_path):
    output = tmp_path / "predictions.csv"
    output.write_text("old")
    result = run("predict", folder / "model.safetensors", folder / "test.npz", "-o", output, code=1)
    assert "No space left" in result.stderr
    assert output.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["predictions.csv"]


@pytest.mark.parametrize(
    "command",
    [
        "predict model data.npz -o model",
        "predict model data.npz -o data.npz",
        "predict model X.npy --labels y.npy -o y.npy",
        "predict model part-*.npy -o part-1.npy",
        "predict model data.npz -o link",
        "report model page.html -o page.html",
        "report model data.npz -o model",  # the mistake of a moment must not cost a fit of hours
        "fit data.npz -o data.npz",
        "fit X.npy --labels y.npy -o y.npy",
        "fit data.npz -o new --checkpoint data.npz",
        "fit data.npz -o new --checkpoint new",
        "fit data.npz --config settings.toml -o settings.toml",
        "predict model images -o images/a/0.png",
        "predict model images -o images/new.csv",
        "predict model images -o elsewhere/0.png",
        "report model images -o images/a/page.html",
        "fit images -o images/a/0.png",
    ],
)
def test_what_a_command_reads_it_does_not_replace(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    for name in ("model", "data.npz", "X.npy", "y.npy", "part-1.npy", "page.html"):
        (tmp_path / name).write_text("precious")
    (tmp_path / "settings.toml").write_text("tol = 1e-3")
    (tmp_path / "link").symlink_to("data.npz")
    for name in ("images/a/0.png", "elsewhere/0.png"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("precious")
    (tmp_path / "images" / "b").symlink_to(tmp_path / "elsewhere")  # a class may be a link
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    message = read_words(run(*command.split(), code=2))
    reasons = ("is also read", "model files are safetensors", "which this command reads", "does not end in .html")
    assert any(reason in message for reason in reasons)
    assert {path: path.read_bytes() for path in before} == before
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == {*before}


def test_no_command_prints_what_a_terminal_would_obey(digits, tmp_path, monkeypatch):
    # Names of classes, files and arrays from strangers; rich's own sequences are off, as there is no terminal.
    monkeypatch.setenv("COLUMNS", "1000")  # no name wraps
    X, y = digits
    names = np.where(y == 0, NASTY, y.astype(str))[:200]
    model = make_pursuit(20, max_iter=1, random_state=0, image_shape=(8, 8)).fit(X[:200], names)
    save(model, tmp_path / "model")
    data = tmp_path / f"data{NASTY[:20]}.npz"
    np.savez(data, X=X[:50], y=np.where(y == 1, NASTY[::-1], names[0])[:50])
    np.savez(tmp_path / "other.npz", **{NASTY: X[:50]})
    images = tmp_path / NASTY.replace("\n", "")
    write_images(images, X[:4], [NASTY] * 4)
    (images / "broken").mkdir()
    (images / "broken" / f"{NASTY}.png").write_text("no image")
    outputs = [
        run("evaluate", tmp_path / "model", data),
        run("evaluate", tmp_path / "model", images),
        run("explain", tmp_path / "model", data, "--row", "0"),
        run("info", tmp_path / "model"),
        run("report", tmp_path / "model", data, "-o", tmp_path / f"{NASTY}.html"),
        run("predict", tmp_path / "model", data, "-o", tmp_path / f"{NASTY}.csv"),
        run("fit", images, "-o", tmp_path / NASTY, "--quiet", code=1),
        run("fit", tmp_path / "other.npz", "-o", tmp_path / "new", code=1),
        run("fit", tmp_path / f"{NASTY}.npz", "-o", tmp_path / "new", code=1),
        run("fit", data, "-o", tmp_path / NASTY / NASTY, code=2),
        run("predict", tmp_path / f"{NASTY}", data, code=1),
    ]
    for result in outputs:
        assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", result.stdout + result.stderr), result.output
    assert r"cat\x1b]0;renamed\x07\x9b2J\u202etac\nsecond line" in outputs[0].stdout


def test_file_names_that_are_not_text_are_printed_all_the_same(digits, tmp_path):
    write_images(tmp_path / "images", digits[0][:2], digits[1][:2])
    name = os.fsdecode(b"broken\xff.png")
    try:
        (tmp_path / "images" / "digit 0" / name).write_text("no image")
    except OSError:
        pytest.skip("this file system has only names that are text")
    result = run("fit", tmp_path / "images", "-o", tmp_path / "new", "--strict", code=1)
    assert r"broken\udcff.png" in result.stderr


@pytest.mark.parametrize(
    "changes",
    [
        {"summary": []},
        {"summary": {"n_classes": []}},
        {"summary": None},
        {"parameters": []},
        {"parameters": {"loss": {}}},
        {"parameters": {"loss": {"type": "strategy"}}},
        {"parameters": {"loss": [[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]}},
        {"attributes": 3},
        {"class": ["KSVD"]},
        {"class": NASTY},
    ],
    ids=str,
)
def test_info_says_what_is_wrong_with_a_file(folder, tmp_path, changes):
    content, arrays = read_container(folder / "model.safetensors", MODEL)
    write_container(tmp_path / "model", MODEL, content | changes, arrays)
    for options in ([], ["--json"]):
        result = CliRunner().invoke(app, ["info", str(tmp_path / "model"), *options])
        assert "bug in ddlearn" not in result.stderr
        assert result.exit_code == (0 if "loss" in str(changes) and "[[" not in str(changes) else 1)


@pytest.mark.usefixtures("full_disk")
def test_a_fit_does_not_begin_without_room_for_its_model(folder, tmp_path, monkeypatch):
    monkeypatch.setattr("ddlearn.cli.model.fit_model", lambda *_: pytest.fail("the fit began"))
    result = run("fit", folder / "train.npz", "-o", tmp_path / "new", *QUICK, code=1)
    assert "No space left" in result.stderr
    assert not list(tmp_path.iterdir())
