"""The report as written by Python: its content is what the library computes, and no text in it is executed.

test_report_page.py tests the page in a browser.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
from copy import copy
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from conftest import make_pursuit
from hypothesis import example, given
from hypothesis import strategies as st
from reference import SquaredHinge
from scipy.sparse import csr_array, random_array
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ddlearn import (
    KSVD,
    ORMP,
    AlternatingErrors,
    DDLClassifier,
    Robustness,
    SmoothHinge,
    load,
    save,
    write_report,
)
from ddlearn.inference.rules import compute_evidence
from ddlearn.model.losses import LOSSES
from ddlearn.show.colors import get_class_color
from ddlearn.show.report.ink import measure_ink, measure_look, measure_thickness
from ddlearn.show.report.packing import pack, pack_rows, tabulate_evidence
from ddlearn.show.report.samples import choose, list_cells, list_users

SAME = 1e-6  # of a row's range: what bytes in steps may be away from it


# -- what the page's script does, in Python ----------------------------------------------------------------------------


def unpack(packed: dict) -> np.ndarray:
    values = np.frombuffer(base64.b64decode(packed["bytes"]), np.dtype(packed["dtype"]).newbyteorder("<"))
    return values.reshape(packed["shape"])


def unpack_rows(packed: dict) -> np.ndarray:
    rows = unpack(packed["values"]).astype(float)
    if "step" not in packed:
        return rows
    return unpack(packed["offset"])[:, None] + unpack(packed["step"])[:, None] * rows


def interpolate(table: dict, scores: np.ndarray) -> np.ndarray:
    """The cubic between two entries that has their values and slopes, written by its basis; odd."""
    grid, values, slopes = (unpack(table[name]) for name in ("scores", "values", "slopes"))
    sizes = np.abs(scores)
    i = np.clip(np.searchsorted(grid, sizes, side="right") - 1, 0, len(grid) - 2)
    width = grid[i + 1] - grid[i]
    t = (sizes - grid[i]) / width
    return np.sign(scores) * (
        values[i] * (2 * t**3 - 3 * t**2 + 1)
        + width * slopes[i] * (t**3 - 2 * t**2 + t)
        + values[i + 1] * (3 * t**2 - 2 * t**3)
        + width * slopes[i + 1] * (t**3 - t**2)
    )


class Page(HTMLParser):
    """What a browser finds in a file."""

    def __init__(self, path):
        super().__init__()
        self.bytes = path.read_bytes()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self.open: str | None = None
        self.feed(self.bytes.decode())
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.open = tag
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag):
        self.open = None

    def handle_data(self, data):
        if self.open is not None:
            self.texts[self.open][-1] += data

    def count(self, tag: str) -> int:
        return sum(one == tag for one, _ in self.tags)

    @property
    def content(self) -> dict[str, Any]:
        return json.loads(self.texts["script"][0])


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


@pytest.fixture(scope="module")
def model(digits):
    X, y = digits
    return make_pursuit(40, max_iter=2, random_state=0).fit(X[:400], y[:400])


@pytest.fixture(scope="module")
def test_digits(digits):
    return tuple(part[400:700] for part in digits)


@pytest.fixture
def write(tmp_path):
    """Write a report and read it as a browser would."""

    def write(*arguments, **options) -> Page:
        path = tmp_path / "report.html"
        model, *data = arguments
        write_report(model, path, *data, **options)
        return Page(path)

    return write


def change(model: DDLClassifier, **parameters) -> DDLClassifier:
    return copy(model).set_params(**parameters)


# -- packing -----------------------------------------------------------------------------------------------------------


@given(st.sampled_from(["f4", "f8", "u1"]), st.lists(st.integers(0, 5), min_size=1, max_size=3), st.integers(0, 2**32))
def test_packed_arrays_come_back_bit_by_bit(dtype, shape, seed):
    array = np.random.default_rng(seed).integers(0, 255, shape).astype(dtype) * (1 if dtype == "u1" else np.pi)
    array = array.astype(np.dtype(dtype).newbyteorder(">"))  # the bytes are little-endian whatever the machine
    packed = json.loads(json.dumps(pack(array[..., ::-1], dtype)))  # a view that is not contiguous
    np.testing.assert_array_equal(unpack(packed), array[..., ::-1])
    assert unpack(packed).dtype == dtype


@st.composite
def make_rows(draw) -> np.ndarray:
    """Rows in steps, nearly in steps, in none, or not finite, of any size, place and precision."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_levels = draw(st.sampled_from([1, 2, 3, 17, 200, 256, 257, 1000]))
    rows = rng.integers(0, n_levels, (draw(st.integers(1, 4)), draw(st.integers(1, 300)))).astype(float)
    rows += 10.0 ** draw(st.integers(-12, 0)) * rng.standard_normal(rows.shape) * draw(st.booleans())
    rows = rows * 10.0 ** draw(st.integers(-20, 20)) + draw(st.sampled_from([0.0, -1.0, 3e5]))
    rows[0, 0] = draw(st.sampled_from([rows[0, 0]] * 3 + [np.nan, np.inf, -np.inf]))
    return rows.astype(draw(st.sampled_from([np.float32, np.float64])))


@given(make_rows())
@example(np.array([[0, 1e-6, 2e-6, 3e-6, 5e-5, 1]]))  # differences that are rounding one by one, but not in sum
@example(np.array([[0, 0.25002, 0.5, 0.75, 1]]))  # a small share of a step is no small share of the range
def test_bytes_stand_only_for_rows_that_they_equal(rows):
    packed = pack_rows(rows)
    decoded = unpack_rows(packed)
    if "step" in packed:
        assert packed["values"]["dtype"] == "u1"  # 255 steps at most
        extent = np.ptp(rows.astype(float), axis=1, keepdims=True)
        assert (np.abs(decoded - rows) <= 1.001 * SAME * extent).all()
    else:
        np.testing.assert_array_equal(decoded, rows)


@given(st.integers(0, 2**32), st.integers(2, 256), st.booleans())
def test_photographs_take_a_byte_a_value(seed, n_levels, has_few_levels):
    """However they have been scaled, and whichever levels occur, if one is black: the smallest gap need be no step.

    In single precision, rows of less contrast than a fifth of their values are rounded by more than the tolerance.
    """
    rng = np.random.default_rng(seed)
    levels = rng.choice(n_levels, min(n_levels, 4), replace=False) if has_few_levels else np.arange(n_levels)
    X = rng.choice(levels, (5, 100)).astype(np.float32)
    X[:, 0] = n_levels - 1  # no row is nothing
    X[:, 1] = 0
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    for scaled in (X, X / 255, (X / 255).astype(np.float32), X / norms, (X - X.mean()) / (X.std() + 1)):
        assert "step" in pack_rows(scaled)


# -- evidence ----------------------------------------------------------------------------------------------------------


SOME_LOSSES = {name: kind() for name, kind in LOSSES.items()} | {"own": SquaredHinge(), "sharp": SmoothHinge(1000.0)}


@pytest.mark.parametrize("largest", [0.0, 0.7, 3.1, 8.0, 1000.0])
@pytest.mark.parametrize("name", SOME_LOSSES)
def test_the_table_is_the_evidence_of_any_loss(name, largest):
    loss = SOME_LOSSES[name]
    table = tabulate_evidence(loss, np.array([[-largest, 0.1]]))
    limit = unpack(table["scores"])[-1]
    assert 4 <= limit <= 100
    assert limit >= min(2 * largest, 100)  # drawings may exceed the scores seen
    scores = np.random.default_rng(0).uniform(-limit, limit, 50_000)
    scores = np.concatenate([scores, unpack(table["scores"]), 1 + np.linspace(-0.01, 0.01, 2001), [limit, -limit]])
    expected = compute_evidence(scores, loss, np.ones(1))
    np.testing.assert_allclose(interpolate(table, scores), expected, rtol=SAME, atol=SAME)
    np.testing.assert_array_equal(interpolate(table, -scores), -interpolate(table, scores))
    assert len(json.dumps(table)) < 2**16


# -- ink ---------------------------------------------------------------------------------------------------------------


def draw_frame(side: int, length: int, width: int, row: int = 10, column: int = 10) -> np.ndarray:
    """Draw a closed stroke: the outline of a square."""
    image = np.zeros((side, side))
    image[row : row + length, column : column + length] = 1
    image[row + width : row + length - width, column + width : column + length - width] = 0
    return image


def measure(images: np.ndarray) -> dict | None:
    rows = images.reshape(len(images), -1)
    return measure_ink(rows, images.shape[1:], measure_look(rows))


@pytest.mark.parametrize("width", [1, 2, 3, 5, 8])
def test_the_thickness_is_the_width_of_the_stroke(width):
    image = draw_frame(100, 80, width)
    assert measure_thickness(0.3 * image) == pytest.approx(width, rel=0.01)  # ink may be pale
    line = np.zeros((20, 400))
    line[5 : 5 + width, 10:390] = 1
    ends = 1 + width / 380  # of a stroke that is open belong to its outline
    assert measure_thickness(line) == pytest.approx(width / ends, rel=0.01)
    assert measure_thickness(line[5 : 5 + width, 10:390]) == measure_thickness(line)  # ink at the border has an outline
    for axis in (0, 1):  # a soft edge has its contours side by side, and area and total variation integrate over them
        image = np.apply_along_axis(np.convolve, axis, image, np.array([1, 4, 6, 4, 1]) / 16, mode="same")
    assert width < 8 or measure_thickness(image) == pytest.approx(width, rel=0.03)


@given(
    st.integers(0, 14), st.integers(0, 14), st.sampled_from(["light", "dark"]), st.integers(6, 14), st.integers(1, 3)
)
def test_ink_is_measured_at_any_position(row, column, kind, length, width):
    images = draw_frame(30, length, width, row, column)[None].repeat(3, axis=0)
    ground, ink = (0.0, 200.0) if kind == "light" else (255.0, 10.0)
    found = measure(ground + (ink - ground) * images)
    assert (found["ground"], found["ink"]) == (ground, ink)
    assert found["longest_side"] == length
    assert found["thickness"] == pytest.approx(measure_thickness(images[0]))
    assert found["centre"] == pytest.approx([row + length / 2, column + length / 2])


def draw_hooks(n_images: int, place) -> np.ndarray:
    """Draw upright strokes with a foot of any length to the right, each put where `place` says it is centred."""
    images = np.zeros((n_images, 40, 40))
    for image, foot in zip(images, np.linspace(2, 15, n_images).astype(int), strict=True):
        shape = np.zeros((16, foot + 3))
        shape[:, :3] = 1
        shape[-3:] = 1
        row, column = (round(20 - centre) for centre in place(shape))
        image[row : row + 16, column : column + foot + 3] = shape
    return images


def find_box_centre(shape):
    return [side / 2 for side in shape.shape]


def find_mass_centre(shape):
    return [
        np.average(np.arange(side) + 0.5, weights=shape.sum(axis=1 - axis)) for axis, side in enumerate(shape.shape)
    ]


@pytest.mark.parametrize(("place", "is_by_mass"), [(find_box_centre, False), (find_mass_centre, True)])
def test_centering_by_box_or_by_mass_is_recognized(place, is_by_mass):
    found = measure(draw_hooks(40, place))
    assert found["is_centred_by_mass"] == is_by_mass
    assert found["centre"] == pytest.approx([20, 20], abs=0.5)


def test_photographs_and_colour_are_no_ink():
    rng = np.random.default_rng(0)
    assert measure(rng.random((20, 16, 16))) is None
    waves = np.sin(np.arange(16) / 3 + rng.random((20, 1, 1)) * 6) * np.cos(np.arange(16)[:, None] / 4)
    assert measure(waves) is None
    assert measure(np.zeros((5, 8, 8))) is None
    images = draw_frame(30, 12, 2)[None, :, :, None].repeat(4, axis=0).repeat(3, axis=3)
    assert measure(images) is None


@given(st.integers(0, 2**32), st.floats(0.01, 100), st.sampled_from([np.float32, np.float64]))
def test_a_norm_that_all_samples_share_is_found(seed, norm, dtype):
    X = np.random.default_rng(seed).random((30, 20)) + 0.1
    X[3] = 0  # of an empty image there is none
    assert measure_look(X)["norm"] is None
    norms = np.linalg.norm(X, axis=1, keepdims=True)
    same = (norm * X / np.where(norms > 0, norms, 1)).astype(dtype)
    look = measure_look(same)
    assert look["norm"] == pytest.approx(norm, rel=1e-4)
    assert look["low"] < np.median(same) < look["high"]


def test_the_look_of_what_is_missing():
    X = np.array([[0.0, np.nan, 4.0], [np.nan, 3.0, 4.0]])
    assert measure_look(X)["high"] == pytest.approx(4, abs=0.02)
    assert measure_look(np.full((2, 3), np.nan)) == {"low": 0.0, "high": 1.0, "norm": None}
    one_dot = np.zeros((1, 1000))
    one_dot[0, 3] = 5
    assert (measure_look(one_dot)["low"], measure_look(one_dot)["high"]) == (0, 5)  # rarer than the percentiles


def test_of_many_samples_some_of_all_classes_are_measured():
    """The percentiles of all 60 000 images of MNIST take seconds, those of 2000 are the same."""
    images = np.concatenate([[draw_frame(16, 4, 1, 3, 3)] * 2500, [draw_frame(16, 10, 1, 3, 3)] * 5000])
    assert measure(images)["longest_side"] == 10
    X = np.random.default_rng(0).random((20_000, 5)) + np.arange(20_000)[:, None] % 10  # only multiples of 10 are seen
    assert measure_look(X) == measure_look(X[::10])
    assert measure_look(X)["high"] < 1
    X[::10] /= np.linalg.norm(X[::10], axis=1, keepdims=True)
    assert measure_look(X)["norm"] == pytest.approx(1)


# -- selection ---------------------------------------------------------------------------------------------------------


@st.composite
def make_cells(draw):
    n_classes, n_samples = draw(st.integers(2, 6)), draw(st.integers(1, 300))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    return rng.integers(0, n_classes, n_samples), rng.integers(0, n_classes, n_samples)


@given(make_cells(), st.integers(1, 400))
def test_samples_are_different_and_of_every_cell_errors_first(cells, n_samples):
    labels, predictions = cells
    lists = list_cells(labels, predictions)
    rows = choose([lists, [np.arange(5).clip(max=len(labels) - 1)]], n_samples)
    assert len(set(rows.tolist())) == len(rows) <= n_samples
    kinds = list(zip(labels.tolist(), predictions.tolist(), strict=True))
    for (label, prediction), of_cell in zip([kinds[one[0]] for one in lists], lists, strict=True):
        expected = [row for row, kind in enumerate(kinds) if kind == (label, prediction)][:12]
        assert of_cell.tolist() == expected
    are_errors = [kinds[row][0] != kinds[row][1] for row in rows[: len(set(kinds))]]
    assert are_errors == sorted(are_errors, reverse=True)
    if n_samples >= len(set(kinds)):
        assert {kinds[row] for row in rows} == set(kinds)
    if n_samples >= len(labels):
        assert set(rows.tolist()) >= {row for one in lists for row in one.tolist()}


@given(st.integers(0, 2**32), st.integers(1, 30), st.integers(1, 12))
def test_users_of_an_atom_have_the_largest_coefficients(seed, n_samples, n_atoms):
    rng = np.random.default_rng(seed)
    codes = csr_array(random_array((n_samples, n_atoms), density=0.4, rng=rng, data_sampler=rng.standard_normal))
    users = list_users(codes)
    assert len(users) == n_atoms
    for sizes, of_atom in zip(np.abs(codes.toarray()).T, users, strict=True):
        expected = sorted(np.flatnonzero(sizes).tolist(), key=lambda row: -sizes[row])[:6]
        assert of_atom.tolist() == expected


# -- content -----------------------------------------------------------------------------------------------------------


def check_expected(content, model, X):
    """What the page must find is what the library finds, in double precision."""
    found, expected = content["expected"], model.predict_proba(X[content["rows"]].astype(float))
    assert found["labels"] == expected.argmax(axis=1).tolist()
    np.testing.assert_array_equal(unpack(found["probability"]), expected.max(axis=1))


def test_the_samples_of_the_page_are_those_of_the_library(write, model, test_digits):
    X, y = test_digits
    content = write(model, X, y).content["data"]
    rows, names, predictions = content["rows"], np.array(content["classes"]), model.predict(X)
    np.testing.assert_allclose(unpack_rows(content["samples"]), X[rows], atol=SAME)
    assert "step" in content["samples"]  # these are images in 16 steps
    check_expected(content, model, X)
    assert names[content["labels"]].tolist() == [str(label) for label in y[rows]]
    assert names[content["predictions"]].tolist() == [str(label) for label in predictions[rows]]
    confusion = np.array(content["errors"]["confusion"])  # of all samples
    assert confusion.sum(axis=1).tolist() == content["errors"]["n_samples_of_class"] == np.bincount(y).tolist()
    assert confusion.sum(axis=0).tolist() == np.bincount(predictions, minlength=10).tolist()
    assert content["errors"]["n_wrong"] == np.count_nonzero(y != predictions) > 0
    assert content["n_samples"] == content["errors"]["n_samples"] == 300
    assert {(y[row], predictions[row]) for row in rows} == set(zip(y, predictions, strict=True))
    sizes = np.abs(model.transform(X).toarray())
    for atom, places in enumerate(content["users"]):
        order = np.argsort(-sizes[:, atom], kind="stable")[:6]
        assert [rows[place] for place in places] == [row for row in order if sizes[row, atom] > 0 and row in rows]


def test_the_model_is_in_the_page(write, model):
    content = write(model).content
    assert content["data"] is None
    described = content["model"]
    np.testing.assert_array_equal(unpack(described["dictionary"]), model.components_)
    np.testing.assert_array_equal(unpack(described["coef"]), model.coef_)
    np.testing.assert_array_equal(unpack(described["intercept"]), model.intercept_)
    np.testing.assert_array_equal(unpack(described["class_cost"]), model.class_cost_)
    assert described["classes"] == [str(j) for j in range(10)]
    assert described["colors"] == [get_class_color(j) for j in range(10)]
    assert described["n_nonzero_coefs"] == 5
    assert described["errors"]["noise_scale"] == pytest.approx(np.sqrt(model.median_noise_variance_))
    assert described["notes"] == []
    assert content["training"]["history"]["objective"] == [record.objective for record in model.history_]
    assert content["training"]["class_cost"] == model.class_cost_.tolist()
    assert sum(content["training"]["noise"]["counts"]) == 400


def test_evidence_in_the_page_is_that_of_the_model(write, digits, test_digits):
    """Scores from the codes, evidence from the table, over the class costs: all that the page's script does."""
    X, y = digits
    model = make_pursuit(30, max_iter=1, loss="logistic", classification_weight=0.5, random_state=0)
    content = write(model.fit(X[:300], y[:300]), *test_digits).content
    described, rows = content["model"], content["data"]["rows"]
    scores = model.transform(test_digits[0][rows]) @ unpack(described["coef"]).T
    evidence = interpolate(described["evidence"], scores + unpack(described["intercept"])) / unpack(
        described["class_cost"]
    )
    np.testing.assert_allclose(evidence, model.decision_function(test_digits[0][rows]), rtol=1e-5, atol=1e-5)
    assert evidence.argmax(axis=1).tolist() == content["data"]["predictions"]


def count_uses(codes):
    """Return what a page holds of the use of atoms; a mean of one that is not used would be shown as measured."""
    n_used, sums = np.count_nonzero(codes, axis=0), codes.sum(axis=0)
    means = [total / n if n else None for total, n in zip(sums, n_used, strict=True)]
    return {"n_codes": len(codes), "n_used": n_used.tolist(), "mean": pytest.approx(means)}


def test_the_use_of_atoms_is_that_in_training_or_else_that_of_the_samples(write, model, test_digits):
    atoms = write(model, *test_digits).content["atoms"]
    assert atoms == count_uses(model.codes_.toarray()) | {"source": "training samples"}
    forgetful = copy(model)
    del forgetful.codes_, forgetful.noise_variance_
    for X in (test_digits[0], test_digits[0][:3]):
        content = write(forgetful, X).content
        assert content["atoms"] == count_uses(model.transform(X).toarray()) | {"source": "samples of this report"}
        assert content["training"]["noise"] is None
    assert None in content["atoms"]["mean"]
    content = write(forgetful, image_shape=(8, 8)).content
    assert content["atoms"] == {"n_codes": None, "n_used": [0] * 40, "mean": [None] * 40, "source": None}
    assert content["model"]["look"] == {"low": 0.0, "high": 1.0, "norm": None}
    assert content["model"]["ink"] is None


def test_a_loaded_model_has_the_same_page(write, model, test_digits, tmp_path):
    save(model, tmp_path / "m")
    assert write(load(tmp_path / "m"), *test_digits).content == write(model, *test_digits).content


def test_labels_that_the_model_does_not_know_are_classes_of_the_data(write, model, test_digits):
    X, y = test_digits
    content = write(model, X, y + 5).content
    assert content["model"]["classes"] == [str(j) for j in range(10)]
    names, predictions = content["data"]["classes"], model.predict(X)
    assert names == [str(j) for j in np.union1d(y + 5, predictions)]
    assert [names[j] for j in content["data"]["labels"]] == [str(y[row] + 5) for row in content["data"]["rows"]]
    recall = dict(zip(names, content["data"]["errors"]["recall"], strict=True))
    assert recall["14"] == 0
    assert recall["0"] is None  # NaN is no JSON
    assert content["data"]["errors"]["n_wrong"] == np.count_nonzero(predictions != y + 5)


@pytest.mark.parametrize("kind", [str, object])
def test_labels_as_text_for_a_model_of_numbers(write, digits, kind):
    X, y = digits[0][:400], 2 * digits[1][:400]  # as text, "10" comes before "2"
    model = make_pursuit(30, max_iter=1, random_state=0).fit(X, y)
    content = write(model, X, y.astype(str).astype(kind)).content["data"]
    assert content["classes"] == sorted(str(2 * j) for j in range(10))
    assert content["errors"]["n_wrong"] == np.count_nonzero(model.predict(X) != y)
    assert [content["classes"][j] for j in content["labels"]] == [str(y[row]) for row in content["rows"]]
    predictions = [content["classes"][j] for j in content["predictions"]]
    assert predictions == [str(label) for label in model.predict(X[content["rows"]])]


def test_without_labels_there_are_predictions(write, model, test_digits):
    X, _ = test_digits
    content = write(model, X, sample_names=[f"image {row}" for row in range(300)], data_name="digits").content["data"]
    assert content["errors"] is content["labels"] is None
    predictions = [content["classes"][j] for j in content["predictions"]]
    assert predictions == [str(label) for label in model.predict(X[content["rows"]])]
    assert content["names"] == [f"image {row}" for row in content["rows"]]
    assert content["name"] == "digits"


def test_a_pipeline_is_shown_from_its_last_step_on(write, digits):
    """Its atoms live behind the earlier steps, so that samples are shown as those leave them."""
    X, y = digits
    pipeline = make_pipeline(StandardScaler(), make_pursuit(30, max_iter=1, random_state=0)).fit(X[:300], y[:300])
    seen = pipeline[:-1].transform(X[300:400])
    content, expected = write(pipeline, X[300:400], y[300:400]).content, write(pipeline[-1], seen, y[300:400]).content
    assert content["data"] == expected["data"]
    assert content["data"]["errors"]["n_wrong"] == np.count_nonzero(pipeline.predict(X[300:400]) != y[300:400])
    [note] = content["model"].pop("notes")
    assert "samples, atoms and drawings are shown as it receives them, after standardscaler." in note
    assert expected["model"].pop("notes") == []
    assert content["model"] == expected["model"]
    assert write(make_pipeline(pipeline[-1])).content["model"]["notes"] == []  # no step before it


@pytest.mark.parametrize("n_samples", [1, 2])
def test_few_samples_of_one_class(write, model, test_digits, n_samples):
    X, _ = test_digits
    X = X[:1].repeat(n_samples, axis=0)
    content = write(model, X, model.predict(X), image_shape=(8, 8)).content["data"]
    assert content["errors"]["confusion"] == [[n_samples]]
    assert content["rows"] == list(range(n_samples))


def test_two_classes(write):
    X, y = load_iris(return_X_y=True)
    X, y = X[:100], np.array(["setosa", "versicolor"])[y[:100]]
    model = make_pursuit(10, n_nonzero_coefs=2, max_iter=2, random_state=0).fit(X, y)
    content = write(model, X, y).content
    assert content["model"]["classes"] == content["data"]["classes"] == ["setosa", "versicolor"]
    assert unpack(content["model"]["coef"]).shape == (2, 10)
    assert content["data"]["errors"]["n_wrong"] == np.count_nonzero(model.predict(X) != y)
    assert content["model"]["ink"] is content["model"]["image_shape"] is None


def test_single_precision_and_names_of_features(write, digits):
    pandas = pytest.importorskip("pandas")
    X, y = digits
    frame = pandas.DataFrame(X, columns=[f"pixel {j}" for j in range(64)]).astype(np.float32)
    model = make_pursuit(30, max_iter=1, random_state=0).fit(frame[:300], y[:300])
    content = write(model, frame[300:400], pandas.Series(y[300:400])).content  # and no warning that names are missing
    assert content["model"]["feature_names"] == frame.columns.tolist()
    assert model.feature_names_in_.tolist() == frame.columns.tolist()
    nameless = change(model)
    del nameless.feature_names_in_
    check_expected(content["data"], nameless, X[300:400])


@pytest.mark.parametrize("container", ["default", "pandas"])
def test_the_kind_of_output_does_not_matter(write, model, test_digits, container):
    dense = change(model).set_output(transform=container)
    expected, found = write(model, *test_digits).content, write(dense, *test_digits).content
    del expected["model"]["settings"], found["model"]["settings"]
    assert found == expected


def test_missing_features_are_left_out_of_codes(write, model, test_digits):
    X, y = test_digits[0][:40].copy(), test_digits[1][:40]
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    tolerant = change(model, robustness=Robustness(missing="mask"))
    content = write(tolerant, X, y, image_shape=(8, 8)).content["data"]
    rows = content["rows"]
    np.testing.assert_array_equal(unpack_rows(content["samples"]), X[rows])
    check_expected(content, tolerant, X)
    predictions = [int(content["classes"][j]) for j in content["predictions"]]
    assert predictions == tolerant.predict(X[rows]).tolist()
    with pytest.warns(UserWarning, match="all features are missing"):
        content = write(tolerant, np.full((2, 64), np.nan), y[:2], image_shape=(8, 8)).content
    prior = content["model"]["prior_evidence"]
    assert content["data"]["expected"]["labels"] == [int(np.argmax(prior))] * 2


def test_predictions_are_the_models_and_codes_are_plain(write, model, test_digits):
    """What full inference, registration and gross errors change is told, since the page's script does not do it."""
    X, y = test_digits[0][:20], test_digits[1][:20]
    full = change(model, inference="full", robustness=6, alignment="translation", image_shape=(8, 8))
    content = write(full, X, y).content
    assert content["data"]["errors"]["n_wrong"] == np.count_nonzero(full.predict(X) != y)
    rows = content["data"]["rows"]
    check_expected(content["data"], model, X)
    assert not np.array_equal(full.transform(X[rows]).data, model.transform(X[rows]).data)
    notes = content["model"]["notes"]
    assert [word for word in ("full inference", "aligned", "alternating") if any(word in note for note in notes)] == [
        "full inference",
        "aligned",
    ]
    assert (full.inference, full.alignment, full.robustness) == ("full", "translation", 6)


class OwnCoder(ORMP):
    """Might do anything."""


def test_a_coder_of_ones_own_is_not_imitated(write, digits, model):
    X, y = digits
    own = make_pursuit(30, max_iter=1, sparse_coder=OwnCoder(), random_state=0).fit(X[:200], y[:200])
    assert write(own, X[200:250]).content["model"]["pursuit"] is None
    for coder, uses_residual_norm in (("omp", False), ("ormp", True)):
        content = write(copy(own).set_params(sparse_coder=coder).fit(X[:200], y[:200])).content
        expected = {"uses_residual_norm": uses_residual_norm, "tol": 0, "n_swaps": 10 if uses_residual_norm else 0}
        assert content["model"]["pursuit"] == expected
    tolerant = make_pursuit(30, max_iter=1, sparse_coder=ORMP(tol=0.5), random_state=0).fit(X[:200], y[:200])
    assert write(tolerant).content["model"]["pursuit"]["tol"] == 0.5


@pytest.mark.parametrize(
    ("budget", "share"), [(0, 0.2), (16, 0.25), (np.int64(16), 0.25), (0.3, 0.3), (np.float32(0.5), 0.5)]
)
def test_the_budget_of_wrong_features_is_a_share(write, model, budget, share):
    assert write(change(model, robustness=budget)).content["model"]["errors"]["budget"] == pytest.approx(share)


def test_how_gross_errors_are_looked_for(write, model):
    errors = write(
        change(model, robustness=Robustness(error_search=AlternatingErrors(trim=2.0, threshold=4.0, max_iter=7)))
    ).content["model"]
    assert errors["errors"].items() >= {"trim": 2.0, "threshold": 4.0, "max_iter": 7}.items()
    assert errors["notes"] == []
    greedy = write(change(model, robustness=Robustness(error_search="greedy"))).content["model"]
    assert greedy["errors"].items() >= {"trim": 1.0, "threshold": 3.0, "max_iter": 5}.items()
    assert len(greedy["notes"]) == 1
    assert "by alternating" in greedy["notes"][0]


def test_settings_that_are_not_the_defaults_are_shown(write, model, digits):
    settings = write(model).content["model"]["settings"]
    assert settings == {
        "atoms": "40",
        "atoms in a code": "at most 5",
        "loss": "Square",
        "sparse coder": "ORMP",
        "description": type(model.description_).__name__,
        "max_iter": "2",
        "refine": "classifiers",
        "random_state": "0",
    }
    for init in (digits[0][:40], digits[0][:40].tolist()):  # not 2560 numbers
        assert write(change(model, init=init)).content["model"]["settings"]["init"] == "an array"


@pytest.mark.parametrize("variance", [np.full(9, 1e-4), np.array([1.0, 1.0 + 4e-16, 1.0]), np.full(3, 2.0, np.float32)])
def test_noise_that_is_the_same_for_all_samples(write, model, variance):
    """Of which NumPy makes a histogram from -0.5 to 0.5, or none: "too many bins for data range"."""
    shared = copy(model)
    shared.noise_variance_ = variance
    noise = write(shared).content["training"]["noise"]
    deviation = float(np.sqrt(variance[0]))
    assert 0 < noise["edges"][0] < deviation < noise["edges"][-1] < 2 * deviation
    assert sum(noise["counts"]) == max(noise["counts"]) == len(variance)


def test_samples_have_room_for_a_megabyte_however_they_pack(write):
    """The first hundred are in steps, the others are not: a page must not be four times as large for that."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 5, (1500, 1024)) / 4
    X[100:] += rng.random((1400, 1024)) / 10
    y = np.arange(1500) % 4
    model = make_pursuit(300, n_nonzero_coefs=5, max_iter=1, refine=None, init=X[:300], tol=1).fit(X[:300], y[:300])
    samples = write(model, X, y).content["data"]["samples"]
    assert unpack(samples["values"]).nbytes <= 1.2e6
    assert len(unpack(samples["values"])) > 140  # in double precision, as they are
    whole = write(model, np.rint(4 * X) / 4, y).content["data"]["samples"]
    assert 1e6 < unpack(whole["values"]).nbytes <= 1.2e6


# -- the page ----------------------------------------------------------------------------------------------------------

NASTY = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<!-- <script> ]]> ' \" ` &amp; &lt; \\u003c \u2028 \u2029 \x00 {{ title }} {% if %} é 数",
]


@pytest.fixture(scope="module")
def nasty_page(tmp_path_factory, digits):
    """A page all of whose texts are attempts to get out of it."""
    X, y = digits
    model = make_pursuit(20, max_iter=1, random_state=0).fit(X[:300], np.array(NASTY)[y[:300] % 3])
    model.feature_names_in_ = np.array([f"{NASTY[j % 3]} {j}" for j in range(64)], object)
    path = tmp_path_factory.mktemp("page") / "report.html"
    labels, names = np.array(NASTY)[y[300:400] % 3], [f"{NASTY[row % 3]} {row}" for row in range(100)]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X[300:400], columns=model.feature_names_in_)
    write_report(model, path, frame, labels, title=NASTY[0] + NASTY[2], data_name=NASTY[1], sample_names=names)
    return Page(path)


def test_no_text_becomes_an_element(nasty_page, write, model):
    plain = write(model)
    assert [tag for tag, _ in nasty_page.tags if tag != "span"] == [tag for tag, _ in plain.tags if tag != "span"]
    assert nasty_page.count("script") == 2
    assert nasty_page.count("img") == 0
    assert all(not name.startswith("on") for _, attributes in nasty_page.tags for name in attributes)
    assert nasty_page.bytes.count(b"</script") == 2


def test_all_text_comes_back_as_it_was(nasty_page):
    content = nasty_page.content
    assert content["model"]["classes"] == content["data"]["classes"] == sorted(NASTY)
    assert content["model"]["feature_names"] == [f"{NASTY[j % 3]} {j}" for j in range(64)]
    assert content["data"]["names"] == [f"{NASTY[row % 3]} {row}" for row in content["data"]["rows"]]
    assert content["data"]["name"] == NASTY[1]
    assert nasty_page.texts["title"] == nasty_page.texts["h1"] == [NASTY[0] + NASTY[2]]


def test_the_policy_allows_this_style_and_this_script_and_nothing_else(nasty_page):
    policies = [one["content"] for tag, one in nasty_page.tags if tag == "meta" and "http-equiv" in one]
    assert len(policies) == 1
    rules = dict(rule.split(maxsplit=1) for rule in policies[0].split("; "))

    def hash_of(text):
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert nasty_page.count("style") == 1
    assert [attributes for tag, attributes in nasty_page.tags if tag == "script"] == [
        {"type": "application/json", "id": "content"},
        {},
    ]
    assert rules == {
        "default-src": "'none'",
        "script-src": hash_of(nasty_page.texts["script"][1]),
        "style-src": hash_of(nasty_page.texts["style"][0]),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert b"\r" not in nasty_page.bytes  # browsers would change it before they hash
    policy_place = nasty_page.bytes.index(b"Content-Security-Policy")
    assert policy_place < min(nasty_page.bytes.index(tag) for tag in (b"<style", b"<script", b"<link", b"<title"))


def test_the_page_asks_for_nothing(write, model, test_digits):
    page = write(model, *test_digits, image_shape=(8, 8))
    for tag, attributes in page.tags:
        assert not {"src", "srcset", "action", "style", "data", "poster", "ping"} & set(attributes), tag
        assert attributes.get("href", "#").startswith(("#", "data:,")), tag
    style, script = page.texts["style"][0], page.texts["script"][1]
    assert not re.search(r"url\(|@import|//", style)
    loaders = (
        r"\bfetch\b|XMLHttpRequest|WebSocket|EventSource|sendBeacon|\bimport\b|Worker|\beval\b|innerHTML|outerHTML"
    )
    assert not re.search(loaders + "|insertAdjacentHTML|document.write|new Function|localStorage|cookie", script)
    text = page.bytes.decode().replace("http://www.w3.org/2000/svg", "")  # the name of SVG, which nothing loads
    assert "://" not in text


def test_the_main_facts_are_visible_without_scripts(write, model, test_digits):
    page = write(model, *test_digits, title="Digits")
    facts = [text for text in page.texts["span"] if text]
    assert facts[:4] == ["10 classes", "40 atoms", "64 features", "300 samples"]
    assert re.fullmatch(r"made on \d{4}-\d\d-\d\d by ddlearn \S+", facts[4])
    assert page.texts["h1"] == ["Digits"]
    assert page.count("noscript") == 1


def test_the_name_of_a_file_that_is_no_text_can_be_a_title(write, model):
    assert write(model, title="caf\udce9").texts["h1"] == ["caf?"]


def test_a_model_of_mnist_fits_into_five_megabytes(write):
    rng = np.random.default_rng(0)
    X = (rng.integers(0, 256, (4000, 784)) / 255).astype(np.float32)  # more than the page has room for
    y = np.arange(4000) % 10
    model = make_pursuit(500, max_iter=1, refine=None, init=X[:500], random_state=0).fit(X[:500], y[:500])
    page = write(model, X, y, image_shape=(28, 28))
    assert len(page.bytes) < 5e6
    data, described = page.content["data"], page.content["model"]
    np.testing.assert_array_equal(unpack(described["dictionary"]), model.components_.astype(np.float32))
    assert "step" in data["samples"]
    assert data["n_samples"] == sum(map(sum, data["errors"]["confusion"])) == 4000
    assert len(set(zip(data["labels"], data["predictions"], strict=True))) == np.count_nonzero(
        data["errors"]["confusion"]
    )


# -- mistakes ----------------------------------------------------------------------------------------------------------


def make_multilabel(X: np.ndarray, y: np.ndarray) -> DDLClassifier:
    return make_pursuit(20, max_iter=1).fit(X[:200], np.stack([y[:200] < 5, y[:200] > 3], axis=1))


MISTAKES = [  # from a model, samples and labels to the arguments; options; message
    (lambda m, X, y: (make_pursuit(),), {}, "not fitted yet"),
    (lambda m, X, y: (make_multilabel(X, y),), {}, "one label per sample, but this one predicts several"),
    (lambda m, X, y: (KSVD(20, max_iter=1).fit(X),), {}, "Expected a fitted DDLClassifier .* got KSVD"),
    (lambda m, X, y: (make_pipeline(StandardScaler(), KSVD(20)),), {}, "or a pipeline that ends with one, got KSVD"),
    (lambda m, X, y: (m, X[:3], ["1", "2", None]), {}, "y contains None in row 2: leave out samples"),
    (lambda m, X, y: (m, X[:2], [np.nan, 2.0]), {}, "y contains nan in row 0: leave out samples"),
    (lambda m, X, y: (change(m, unlabeled=-1), X[:3], [1, -1, 2]), {},
     r"y contains -1 in row 1, which marks samples without a label .*: leave them out"),
    (lambda m, X, y: (m, X[:, :5], y), {}, "X has 5 features, but DDLClassifier is expecting 64"),
    (lambda m, X, y: (m, X[:0]), {}, "0 sample"),
    (lambda m, X, y: (m, X, y[:7]), {}, r"inconsistent numbers of samples: \[300, 7\]"),
    (lambda m, X, y: (m, X, y[:, None]), {}, r"one class per sample, got an array of shape \(300, 1\)"),
    (lambda m, X, y: (m, None, y), {}, "y and sample_names describe samples: pass them as X"),
    (lambda m, X, y: (m,), {"sample_names": ["a"]}, "y and sample_names describe samples"),
    (lambda m, X, y: (m, X, y), {"sample_names": ["a"]}, r"inconsistent numbers of samples: \[300, 300, 1\]"),
    (lambda m, X, y: (m, np.where(np.eye(300, 64), np.nan, X), y), {}, "Input X contains NaN"),
    (lambda m, X, y: (change(m, robustness=Robustness(missing="mask")), np.where(np.eye(300, 64), np.inf, X), y), {},
     "Input X contains infinity"),
    *((lambda m, X, y: (m, X), {"image_shape": shape}, "does not match 64 features")
      for shape in ((8, 9), (64,), (4, 4, 4), (2, 2, 2, 8), (-8, -8), (8, 8, 3))),
]  # fmt: skip


@pytest.mark.parametrize(("make", "options", "message"), MISTAKES, ids=[message[:30] for *_, message in MISTAKES])
def test_mistakes_raise_errors_and_keep_an_existing_report(model, test_digits, tmp_path, make, options, message):
    model, *data = make(model, *test_digits)
    path = tmp_path / "report.html"
    path.write_text("an older report")
    with pytest.raises((ValueError, TypeError, NotFittedError), match=message):
        write_report(model, path, *data, **options)
    assert path.read_text() == "an older report"
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_a_missing_jinja2_is_an_error_with_the_extra_to_install(model, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ImportError, match=r'A report needs jinja2: pip install "ddlearn\[report\]"'):
        write_report(model, tmp_path / "report.html")
    assert list(tmp_path.iterdir()) == []


def test_a_report_needs_no_matplotlib():
    """It shares its checks with the figures, but what draws those is another extra."""
    script = "import sys; sys.modules['matplotlib'] = None; from ddlearn import write_report"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


def test_the_model_is_not_changed(model, test_digits, tmp_path):
    changed = change(model, robustness=5, inference="full")
    before = {name: copy(value) for name, value in vars(changed).items()}
    write_report(changed, tmp_path / "report.html", test_digits[0][:20], test_digits[1][:20])
    assert vars(changed).keys() == before.keys()
    for name, value in before.items():
        assert repr(getattr(changed, name)) == repr(value)
