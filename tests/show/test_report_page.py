"""The report in a real browser: it codes as the library does, whatever one clicks, types or draws.

Without Chromium these tests are skipped, unless DDLEARN_REQUIRE_BROWSER is set, as `make test-browser` does.
"""

from __future__ import annotations

import os
import shutil
from copy import copy
from importlib import import_module
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from conftest import make_pursuit, make_refiner
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import train_test_split

from ddlearn import ORMP, DDLClassifier, ElasticNet, Robustness, write_report
from ddlearn.datasets import load_digits_images
from ddlearn.model.losses import LOSSES

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
IS_REQUIRED = bool(os.environ.get("DDLEARN_REQUIRE_BROWSER"))
if CHROMIUM is None and not IS_REQUIRED:
    pytest.skip("there is no Chromium: make test-browser installs it", allow_module_level=True)
sync_api = import_module("playwright.sync_api") if IS_REQUIRED else pytest.importorskip("playwright.sync_api")

FLAGS = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
SEVEN = [(0.28, 0.2), (0.7, 0.2), (0.45, 0.82)]  # as in benchmarks/drawings.py


@pytest.fixture(scope="module")
def browser():
    flags = [*FLAGS, "--no-sandbox"] if os.geteuid() == 0 else FLAGS  # Chromium has no sandbox for root
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser):
    """Return what opens a file; in the end, nothing may have been complained about or asked of a network."""
    contexts, complaints = [], []

    def open_page(path, **options):
        context = browser.new_context(**({"viewport": {"width": 1200, "height": 900}} | options))
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on("request", lambda request: request.url.startswith(("file:", "data:")) or complaints.append(request.url))
        page.goto(path.as_uri())
        contexts.append(context)
        return page

    open_page.complaints = complaints
    yield open_page
    for context in contexts:
        context.close()
    assert not complaints


def fit_digits(**parameters):
    images = load_digits_images()
    X, X_test, y, y_test = train_test_split(
        images.data, images.target, train_size=1000, stratify=images.target, random_state=0
    )
    model = make_pursuit(image_shape=(8, 8), **{"random_state": 0} | parameters).fit(X, y)
    return model, X_test, y_test


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Return a model with short codes, its test images, and its page."""
    model, X, y = fit_digits(n_nonzero_coefs=3, random_state=1)
    path = tmp_path_factory.mktemp("page") / "digits.html"
    write_report(model, path, X, y, title="Digits", data_name="digits")
    return model, X, y, path


def draw(page, points):
    """Draw a stroke on the pad with the mouse."""
    page.locator("#pad").scroll_into_view_if_needed()
    box = page.locator("#pad").bounding_box()
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=10)
    page.mouse.up()
    settle(page)


def settle(page):
    """Wait until the page has coded what is on the pad, which it does once a frame."""
    page.wait_for_selector("#results[aria-busy=false]", state="attached")


def read_sample(page):
    """Return the sample that is on the pad."""
    return np.array(page.evaluate("Array.from(ddlearn.currentSample())"))[None]


def choose(page, number=0):
    """Choose a sample among the thumbnails."""
    page.locator("#thumbnails .sample").nth(number).click()
    settle(page)


def read_picture(page, selector):
    """Return the grey values of a picture, from 0 to 1."""
    values = page.evaluate(
        """selector => {
            const canvas = document.querySelector(selector);
            return Array.from(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data);
        }""",
        selector,
    )
    return np.array(values).reshape(-1, 4)[:, :3] / 255


def read_code(page):
    """Return atoms and coefficients of the code in the table, in the order of their numbers."""
    buttons = page.locator("#code [data-atom]").all()
    pairs = [(int(one.get_attribute("data-atom")), float(one.get_attribute("data-coefficient"))) for one in buttons]
    return [list(part) for part in zip(*sorted(pairs), strict=True)]


def wait_for_errors(page):
    """Open what is folded, and wait until gross errors have been looked for."""
    page.evaluate("document.getElementById('robustness').open = true")
    page.wait_for_selector("#verdict-corrected[data-waiting=false]")


def check_predictions(page):
    """Wait until the page has compared its predictions with those of the library, and return what it found."""
    found = page.evaluate("ddlearn.checkPredictions()")
    assert found["nChecked"] == len(page.evaluate("ddlearn.data.rows"))
    return found


def explain_all(page, samples, call="explain(s)"):
    """Return codes as a dense matrix, evidence and wrong features, as the page finds them for many samples."""
    found = page.evaluate(
        f"""rows => rows.map(row => {{
            const s = Float64Array.from(row, v => v === null ? NaN : v);
            const found = ddlearn.{call};
            return [found.code.atoms, Array.from(found.code.values), Array.from(found.evidence),
                    found.isWrong && Array.from(found.isWrong)];
        }})""",
        [[None if np.isnan(value) else value for value in row] for row in samples.astype(float).tolist()],
    )
    n_atoms = page.evaluate("ddlearn.model.nAtoms")
    codes = np.zeros((len(found), n_atoms))
    for row, (atoms, values, _, _) in enumerate(found):
        codes[row, atoms] = values
    return codes, np.array([one[2] for one in found]), [one[3] for one in found]


@pytest.mark.parametrize(
    "parameters",
    [
        {"n_components": 120, "sparse_coder": "omp"},
        {"n_components": 300, "sparse_coder": "ormp", "n_nonzero_coefs": 9},
        {"n_components": 80, "n_nonzero_coefs": 1, "loss": "logistic"},
        {"n_components": 40, "sparse_coder": ORMP(tol=0.5)},
        {"n_components": 60, "sparse_coder": ORMP(n_swaps=5)},
        {"n_components": 60, "sparse_coder": ElasticNet(0.1), "max_iter": 1, "n_views": 3},
    ],
    ids=str,
)
def test_codes_and_evidence_are_those_of_the_library(parameters, open_page, tmp_path):
    model, X, y = fit_digits(**parameters)
    write_report(model, tmp_path / "page.html", X, y)
    page = open_page(tmp_path / "page.html")
    X = X[:300].astype(float)
    codes, evidence, _ = explain_all(page, X)
    np.testing.assert_allclose(codes, model.transform(X).toarray(), atol=1e-5)
    np.testing.assert_allclose(evidence, model.decision_function(X), rtol=1e-5, atol=1e-5 * np.abs(evidence).max())
    found = check_predictions(page)
    assert found["nAgreeing"] == found["nChecked"]
    assert found["largest"] < 1e-5
    page.wait_for_selector("#check >> text=agree with")
    assert page.inner_text("#check").startswith(f"All {found['nChecked']} predictions")


@pytest.mark.parametrize("share", [0.1, 0.3, 0.5])
def test_gross_errors_are_those_of_the_library(share, demo, open_page):
    model, X, _, path = demo
    rng = np.random.default_rng(0)
    X = X[:100].astype(float)
    images = X.reshape(-1, 8, 8)
    for image in images:
        top, left = rng.integers(5, size=2)
        image[top : top + 4, left : left + 4] = rng.random()
    codes, evidence, is_wrong = explain_all(open_page(path), X, f"explainWithErrors(s, {share})")
    expected = copy(model).set_params(robustness=share).explain(X)
    np.testing.assert_allclose(codes, expected.codes.toarray(), atol=1e-5)
    np.testing.assert_allclose(evidence, expected.evidence, rtol=1e-5, atol=1e-5 * np.abs(evidence).max())
    np.testing.assert_array_equal(np.array(is_wrong, bool), expected.error != 0)


def test_images_without_gross_errors_have_all_their_views(demo, open_page, tmp_path):
    model, X, y, _ = demo
    model = copy(model).set_params(n_views=3)
    write_report(model, tmp_path / "page.html", X[:30], y[:30])
    samples = X[:30].astype(float)
    samples = np.concatenate([samples, model.explain(samples).reconstruction])  # sums of atoms have no errors
    _, evidence, is_wrong = explain_all(open_page(tmp_path / "page.html"), samples, "explainWithErrors(s, 0.05)")
    expected = copy(model).set_params(robustness=0.05).explain(samples)
    np.testing.assert_allclose(evidence, expected.evidence, rtol=1e-5, atol=1e-5 * np.abs(evidence).max())
    assert not np.any(is_wrong, axis=1).all()


def test_missing_features_are_left_out_as_in_the_library(demo, open_page, tmp_path):
    model, X, y, _ = demo
    masked = copy(model).set_params(robustness=Robustness(missing="mask"))
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X.astype(float))[:200]
    write_report(masked, tmp_path / "page.html", X, y[:200])
    page = open_page(tmp_path / "page.html")
    codes, _, _ = explain_all(page, X)
    np.testing.assert_allclose(codes, masked.transform(X).toarray(), atol=1e-5)
    found = check_predictions(page)
    assert found["nAgreeing"] == found["nChecked"]


def test_standardised_features_are_coded_as_in_the_library(open_page, tmp_path):
    X, y = load_iris(return_X_y=True)
    X = np.column_stack([1000 * X[:, :2] + 1e4, X[:, 2:], np.ones(len(X))])  # other units, and nothing at all
    model = make_pursuit(
        20, description="standard", n_nonzero_coefs=3, robustness=Robustness(missing="mask"), random_state=0
    )
    model.fit(X, y)
    X[::5, 1] = np.nan
    write_report(model, tmp_path / "page.html", X, y)
    page = open_page(tmp_path / "page.html")
    codes, evidence, _ = explain_all(page, X)
    expected = model.explain(X)
    np.testing.assert_allclose(codes, expected.codes.toarray(), atol=1e-5)
    np.testing.assert_allclose(evidence, expected.evidence, rtol=1e-5, atol=1e-5 * np.abs(evidence).max())
    found = check_predictions(page)
    assert found["nAgreeing"] == found["nChecked"]
    rebuilt = page.evaluate("Array.from(ddlearn.takeApart(ddlearn.explain(ddlearn.data.samples[7])).reconstruction)")
    row = page.evaluate("ddlearn.data.rows[7]")
    np.testing.assert_allclose(rebuilt, expected.reconstruction[row], rtol=1e-4)


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_evidence_of_every_loss(loss, open_page, tmp_path):
    model, X, y = fit_digits(n_components=60, loss=loss, max_iter=2)
    write_report(model, tmp_path / "page.html", X, y)
    _, evidence, _ = explain_all(open_page(tmp_path / "page.html"), X[:200])
    expected = model.decision_function(X[:200].astype(float))
    np.testing.assert_allclose(evidence, expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
    np.testing.assert_array_equal(evidence.argmax(axis=1), expected.argmax(axis=1))


def test_a_drawn_seven_is_recognised_with_its_atoms(demo, open_page):
    model, _, _, path = demo
    page = open_page(path)
    page.click("#clear")
    assert page.is_hidden("#results")  # an empty pad, ready to be drawn on
    draw(page, SEVEN)
    assert page.get_attribute("#verdict-plain", "data-label") == "7"
    sample = read_sample(page)
    assert model.predict(sample) == [7]
    code = model.transform(sample).tocsr()
    atoms, values = read_code(page)
    assert atoms == sorted(code.indices.tolist())
    np.testing.assert_allclose(values, code.data[np.argsort(code.indices)], atol=1e-5)


def test_a_drawing_has_the_size_place_and_pen_of_the_data(demo, open_page):
    # Drawn small, in a corner, with a thick pen: it must come out as if drawn large in the middle.
    _, _, _, path = demo
    page = open_page(path)
    page.click("#clear")
    draw(page, SEVEN)
    large = read_sample(page)
    page.click("#clear")
    page.locator("#pen").fill("3")
    draw(page, [(0.05 + x / 3, 0.05 + y / 3) for x, y in SEVEN])
    small = read_sample(page)
    assert np.linalg.norm(large - small) < 0.15 * np.linalg.norm(large)
    assert 0.9 < large.max() <= 1 + 1e-9
    rows = np.flatnonzero(large.reshape(8, 8).max(axis=1) > 0.25)
    assert (rows[0], rows[-1]) == (0, 7)
    page.click("#fit")
    assert np.linalg.norm(large - read_sample(page)) > 0.5 * np.linalg.norm(large)


def test_erasing_and_occluding_change_the_pixels_under_the_pen_only(demo, open_page):
    model, _, _, path = demo
    page = open_page(path)
    choose(page)
    before = read_sample(page)
    page.click("#tool-occlude")
    page.select_option("#shade", "0.5")
    draw(page, [(0.1, 0.9), (0.2, 0.9)])
    occluded = read_sample(page)
    is_changed = (occluded != before).reshape(8, 8)
    assert is_changed[7, 1]
    assert not is_changed[:4].any()
    assert occluded.reshape(8, 8)[7, 1] == pytest.approx(128 / 255, abs=1e-6)
    wait_for_errors(page)
    share = page.evaluate("ddlearn.explorer.share")
    corrected = copy(model).set_params(robustness=share)
    assert page.get_attribute("#verdict-corrected", "data-label") == str(corrected.predict(occluded)[0])
    assert page.get_attribute("#verdict-plain", "data-label") == str(model.predict(occluded)[0])
    page.click("#tool-erase")
    draw(page, [(0.02, 0.1), (0.98, 0.1)])
    assert (read_sample(page).reshape(8, 8)[0] == 0).all()
    for _ in range(2):
        page.click("#undo")
    np.testing.assert_array_equal(read_sample(page), before)


def test_contributions_sum_to_scores(demo, open_page):
    model, _, _, path = demo
    page = open_page(path)
    choose(page)
    rows = page.locator("#code tbody tr").all()
    cells = [[float(cell.inner_text()) for cell in row.locator("td").all()] for row in rows]
    parts, (intercept, score, _) = [row[1:] for row in cells[:-3]], cells[-3:]
    np.testing.assert_allclose(np.sum(parts, axis=0) + intercept, score, atol=0.04)  # of rounded numbers
    classes = [int(text) for text in page.locator("#code thead .chip").all_inner_texts()]
    np.testing.assert_allclose(intercept, model.intercept_[classes], atol=0.006)


def test_summary_counts_and_shows_the_errors(demo, open_page):
    model, X, y, path = demo
    page = open_page(path)
    wrong = model.predict(X) != y
    assert page.inner_text("#error") == f"Error {100 * wrong.mean():.2f} %"
    assert f"accuracy {100 - 100 * wrong.mean():.2f} %" in page.inner_text("#errors")
    truth, prediction = y[wrong][0], model.predict(X)[wrong][0]
    count = np.sum((y == truth) & (model.predict(X) == prediction))
    page.click(f"[aria-label='{count} samples of {truth} taken for {prediction}']")
    assert page.locator("#dialog .sample").count() == count
    page.locator("#dialog .sample").first.click()
    assert page.is_hidden("#dialog")
    settle(page)
    assert page.inner_text("#verdict-plain .truth") == f"wrong: it is {truth}"
    assert page.get_attribute("#verdict-plain", "data-label") == str(prediction)


def test_gallery_sorts_filters_and_tells_of_atoms(demo, open_page):
    model, _, _, path = demo
    page = open_page(path)

    def shown():
        return page.locator("#gallery .atom").evaluate_all("all => all.map(one => Number(one.dataset.atom))")

    n_used = np.bincount(model.codes_.indices, minlength=len(model.components_))
    assert sorted(shown()) == list(range(len(model.components_)))
    page.select_option("#atom-order", "usage")
    assert (np.diff(n_used[shown()]) <= 0).all()
    mean = np.asarray(model.codes_.sum(axis=0)).ravel() / np.maximum(n_used, 1)
    votes = model.coef_ * np.where(n_used > 0, mean, 1)
    page.select_option("#atom-order", "evidence")
    assert (np.diff(votes.max(axis=0)[shown()]) <= 1e-9).all()
    page.select_option("#atom-class", "3")
    assert sorted(shown()) == np.flatnonzero(votes.argmax(axis=0) == 3).tolist()
    page.locator("#gallery .atom").first.click()
    assert page.inner_text("#dialog-title").startswith("Atom")
    bars = [float(one.inner_text()) for one in page.locator("#dialog .bars .number").all()]
    np.testing.assert_allclose(bars, np.sort(votes[:, shown()[0]])[::-1], rtol=0.01, atol=0.002)
    page.locator("#dialog .sample").first.click()
    assert page.is_hidden("#dialog")


def test_all_of_it_by_keyboard(demo, open_page):
    page = open_page(demo[3])
    page.locator("#clear").press("Enter")
    page.focus("#pad")
    for key in [*["ArrowUp"] * 10, " ", *["ArrowDown"] * 20, " "]:
        page.keyboard.press(key)
    settle(page)
    assert page.get_attribute("#verdict-plain", "data-label") == "1"
    assert page.evaluate("ddlearn.explorer.strokes.length") == 1
    page.keyboard.press("Control+z")
    assert page.is_hidden("#results")
    page.locator("#gallery .atom").first.press("Enter")
    assert page.is_visible("#dialog")
    page.keyboard.press("Escape")
    assert page.is_hidden("#dialog")
    page.reload()  # Tab goes on from where one has been
    page.select_option("#sample-filter", "wrong")  # few thumbnails to walk past
    page.evaluate("document.querySelector('#thumbnails .sample').click(); document.activeElement.blur()")
    wait_for_errors(page)
    page.locator("h1").click()
    settle(page)
    page.evaluate("window.reached = []; document.addEventListener('focusin', e => reached.push(e.target.id))")
    for _ in range(120):
        page.keyboard.press("Tab")
    reached = set(page.evaluate("reached"))
    assert {"theme", "tool-draw", "pad", "verdict-plain", "budget", "sample-filter"} <= reached


def test_on_a_phone_with_a_finger(demo, open_page):
    page = open_page(demo[3], viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    cut = "[...document.querySelectorAll('.scroll')].filter(one => one.scrollWidth > one.clientWidth + 1)"
    assert page.evaluate(f"{cut}.length") >= 2  # the classes and the confusion matrix, which say so
    assert page.evaluate(f"{cut}.every(one => one.classList.contains('is-cut'))")
    page.tap("#clear")
    page.locator("#pad").scroll_into_view_if_needed()
    box = page.locator("#pad").bounding_box()
    touch = page.context.new_cdp_session(page)
    path = np.concatenate([np.linspace(a, b, 12) for a, b in pairwise(SEVEN)])
    for number, (x, y) in enumerate(path):
        point = {"x": box["x"] + x * box["width"], "y": box["y"] + y * box["height"]}
        kind = "touchStart" if number == 0 else "touchMove"
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
    touch.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    settle(page)
    assert page.get_attribute("#verdict-plain", "data-label") == "7"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def read_brightness(page):
    return sum(page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"))


def test_dark_mode_follows_the_system_and_the_button(demo, open_page):
    assert read_brightness(open_page(demo[3])) > 700
    page = open_page(demo[3], color_scheme="dark")
    assert read_brightness(page) < 150
    page.select_option("#atom-class", "3")
    shown = page.locator("#gallery .atom").count()
    page.click("#theme")
    assert read_brightness(page) > 700
    assert (page.input_value("#atom-class"), page.locator("#gallery .atom").count()) == ("3", shown)


@pytest.mark.parametrize("is_chosen", [False, True], ids=["system", "button"])
def test_paper_is_white_even_in_dark_mode(is_chosen, demo, open_page):
    page = open_page(demo[3], color_scheme="light" if is_chosen else "dark")
    if is_chosen:
        page.click("#theme")
    assert read_brightness(page) < 150
    page.emulate_media(media="print")
    assert read_brightness(page) > 700
    assert page.is_hidden("nav")
    assert page.is_hidden("#tools")
    gallery = page.evaluate(
        "[document.querySelector('#gallery').scrollHeight, document.querySelector('#gallery').clientHeight]"
    )
    assert gallery[0] == gallery[1]  # all of it, not what fits a window


def test_text_in_data_is_text(demo, open_page, tmp_path):
    _, X, y, _ = demo
    hostile = np.array(
        ["<script>window.hacked = 1</script>", "<img src=x onerror=alert(1)>", '"><b>three', "'\u2028&amp;"]
    )
    is_used = y < 4
    other = make_pursuit(n_components=40, max_iter=2, random_state=0, image_shape=(8, 8))
    other.fit(X[is_used], hostile[y[is_used]])
    names = [f"</script><script>window.hacked = {row}</script>.png" for row in range(is_used.sum())]
    path = tmp_path / "page.html"
    write_report(
        other, path, X[is_used], hostile[y[is_used]], title="<script>window.hacked = 2</script>", sample_names=names
    )
    page = open_page(path)
    page.locator("#gallery .atom").first.click()
    page.keyboard.press("Escape")
    choose(page)
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.inner_text("h1") == "<script>window.hacked = 2</script>"
    assert set(hostile[:3]) <= {text.strip() for text in page.locator("#confusion th[scope=row]").all_inner_texts()}
    assert names[0].split(".png")[0][:10] in page.inner_text("#sample-name")


def test_the_policy_stops_what_does_not_belong_to_the_page(demo, open_page):
    page = open_page(demo[3])
    with page.expect_console_message(lambda message: "Content Security Policy" in message.text):
        page.evaluate(
            """() => {
                const script = document.createElement("script");
                script.textContent = "window.hacked = 1";
                document.body.append(script);
            }"""
        )
    assert page.evaluate("window.hacked") is None
    open_page.complaints.clear()


def test_signals_are_curves_and_can_be_changed(open_page, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    time = np.linspace(0, 1, 90)
    X = np.sin(2 * np.pi * (y[:, None] + 1) * (time + 0.1 * rng.random((300, 1)))) + 0.1 * rng.standard_normal(
        (300, 90)
    )
    model = make_pursuit(n_components=30, random_state=0).fit(X[:200], y[:200])
    write_report(model, tmp_path / "page.html", X[200:], y[200:])
    page = open_page(tmp_path / "page.html")
    assert page.locator("#pad.curve").count() == 1
    codes, _, _ = explain_all(page, X[200:])
    np.testing.assert_allclose(codes, model.transform(X[200:]).toarray(), atol=1e-5)
    before = page.inner_text("#evidence")
    draw(page, [(0.2, 0.1), (0.8, 0.1)])
    assert page.inner_text("#evidence") != before
    page.click("#undo")
    settle(page)
    assert page.inner_text("#evidence") == before
    is_inked = read_picture(page, "#parts canvas").reshape(240, 480, 3).any(axis=2)
    assert is_inked.any(axis=0).all()  # a curve from end to end
    assert page.is_hidden("#features table")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """Return a model of a table whose columns have different units, the table, and its page."""
    X, y = load_iris(return_X_y=True)
    names = ["sepal length", "sepal width", "petal length", "<b>petal width"]
    frame = pd.DataFrame(X * [1000.0, 1, 1, 0.01] + [1e5, 0, 0, 0], columns=names)
    model = make_pursuit(n_components=20, description="standard", n_nonzero_coefs=2, random_state=0).fit(frame, y)
    path = tmp_path_factory.mktemp("table") / "iris.html"
    write_report(model, path, frame, y, sample_names=[f"flower {row}" for row in range(150)])
    return model, frame, path


def test_a_table_has_bars_of_standard_deviations_and_no_pens(table, open_page):
    model, frame, path = table
    page = open_page(path)
    assert page.locator("#pad, #tools button").count() == 0
    codes, _, _ = explain_all(page, frame.to_numpy())
    np.testing.assert_allclose(codes, model.transform(frame).toarray(), atol=1e-5)
    found = check_predictions(page)
    assert found["nAgreeing"] == found["nChecked"] > 100
    deviations = (read_sample(page)[0] - frame.mean()) / frame.std(ddof=0)
    picture = read_picture(page, "#parts canvas").reshape(240, 480, 3)
    for f, deviation in enumerate(deviations.clip(-3, 3)):
        column = picture[:, 60 + 120 * f].any(axis=1)
        assert column.sum() / 240 * 6 == pytest.approx(abs(deviation), abs=0.1)
    assert page.locator("#features th[scope=row]").all_inner_texts() == list(frame.columns)


def test_the_values_of_a_table_can_be_changed(table, open_page):
    model, frame, path = table
    page = open_page(path)
    before = read_sample(page)
    page.fill("#features input >> nth=2", "1.2")
    page.keyboard.press("Enter")
    settle(page)
    changed = before.copy()
    changed[0, 2] = 1.2
    np.testing.assert_array_equal(read_sample(page), changed)
    expected = model.explain(pd.DataFrame(changed, columns=frame.columns))
    assert page.get_attribute("#verdict-plain", "data-label") == str(expected.evidence.argmax())
    assert page.locator("#features tbody tr").nth(2).locator(".rebuilt").inner_text() == pytest.approx(
        f"{expected.reconstruction[0, 2]:.3g}"
    )
    page.click("#undo")
    np.testing.assert_array_equal(read_sample(page), before)


def test_an_atom_of_a_table_names_its_top_features(table, open_page):
    model, frame, path = table
    page = open_page(path)
    page.click("#gallery [data-atom='3']")
    shown = page.locator("#dialog .atom-facts .bars").first.locator(".name").all_inner_texts()
    strength = np.abs(model.description_.show(model.components_)[3] / frame.std(ddof=0).to_numpy())
    assert shown == [frame.columns[f] for f in np.argsort(-strength)]


def test_samples_are_found_by_name_and_by_address(table, open_page):
    page = open_page(table[2])
    page.fill("#sample-search", "flower 14")
    shown = page.locator("#thumbnails .sample").evaluate_all("all => all.map(one => one.title.split(':')[0])")
    assert set(shown) == {name for name in page.evaluate("ddlearn.data.names") if name.startswith("flower 14")}
    page.locator("#thumbnails .sample").first.click()
    settle(page)
    link = page.get_attribute("#sample-link", "href")
    assert page.inner_text("#sample-name") == shown[0]
    other = open_page(table[2])
    other.goto(table[2].as_uri() + link)
    other.reload()
    assert other.inner_text("#sample-name") == shown[0]


def test_wrong_samples_are_a_table_to_download(demo, open_page):
    model, X, y, path = demo
    page = open_page(path)
    with page.expect_download() as download:
        page.click("#wrong-csv")
    found = pd.read_csv(download.value.path())
    rows = np.flatnonzero(model.predict(X) != y)
    assert found["row"].tolist() == rows.tolist()
    assert found["label"].tolist() == y[rows].tolist()
    assert found["prediction"].tolist() == model.predict(X[rows]).tolist()
    np.testing.assert_allclose(found["probability"], model.predict_proba(X[rows].astype(float)).max(axis=1), atol=1e-5)


def test_a_mistake_is_seen_at_first_sight(demo, open_page):
    model, X, y, path = demo
    page = open_page(path)
    settle(page)
    row = page.evaluate("ddlearn.data.rows[ddlearn.explorer.place]")
    assert page.inner_text("#verdict-plain .truth") == f"wrong: it is {y[row]}"
    evidence = np.sort(model.decision_function(X[row : row + 1])[0])[::-1]
    bars = page.locator("#evidence .bars")
    shown = [float(text.split(" ")[0]) for text in bars.locator(".number").all_inner_texts()]
    np.testing.assert_allclose(shown, evidence, rtol=0.01, atol=0.01)
    assert bars.locator("li:has(.mark-of-bar) .name").inner_text().startswith(str(y[row]))
    assert f"Margin {evidence[0] - evidence[1]:.3g}" in page.inner_text("#evidence .hint")
    captions = page.locator("#thumbnails .caption").evaluate_all(
        "all => all.every(one => one.scrollWidth <= one.clientWidth)"
    )
    assert captions  # nothing is cut off


def test_switching_an_atom_off_has_the_effect_of_a_model_without_it(demo, open_page, tmp_path):
    model, X, y, _ = demo
    X, y = X[:150], y[:150]
    write_report(model, tmp_path / "page.html", X, y)
    page = open_page(tmp_path / "page.html")
    atom = int(np.bincount(model.transform(X).indices).argmax())
    without = copy(model)
    without.components_ = model.components_.copy()
    without.components_[atom] = 0
    rows = page.evaluate("ddlearn.data.rows")
    before, after = model.predict(X[rows].astype(float)), without.predict(X[rows].astype(float))
    page.click(f"#gallery [data-atom='{atom}']")
    page.click("#switch")
    page.wait_for_selector("#switch-effect >> text=predictions change")
    text = page.inner_text("#switch-effect")
    assert f"({np.sum(before != y[rows])} to {np.sum(after != y[rows])} wrong)" in text
    assert f"{np.sum(before != after)} of {len(rows)} predictions change" in text
    page.keyboard.press("Escape")
    assert f"atom {atom}" in page.inner_text("#switched")
    assert atom not in read_code(page)[0]
    page.click("#switched button")
    page.wait_for_selector("#switched", state="hidden")
    codes, _, _ = explain_all(page, X)
    np.testing.assert_allclose(codes, model.transform(X.astype(float)).toarray(), atol=1e-5)


def test_checks_come_first_with_what_to_do(demo, open_page):
    model, X, y, path = demo
    page = open_page(path)
    texts = page.locator("#checks li").all_inner_texts()
    expected = {check.name: check for check in model.summary(X.astype(float), y).checks}
    assert len(texts) == len(expected)
    verdicts = [expected[text.split("\n")[1]].verdict for text in texts]
    assert verdicts == sorted(verdicts, key=["warning", "good", "unknown"].index)
    for text in texts:
        check = expected[text.split("\n")[1]]
        assert check.finding in text
        assert check.remedy in text


def test_of_many_classes_the_worst_come_first(open_page, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(600) % 30
    X = rng.standard_normal((30, 40))[y] + 0.9 * rng.standard_normal((600, 40))
    model = make_pursuit(n_components=60, max_iter=1, random_state=0).fit(X[:300], y[:300])
    write_report(model, tmp_path / "page.html", X[300:], y[300:])
    page = open_page(tmp_path / "page.html")
    predictions, truth = model.predict(X[300:]), y[300:]
    errors = np.array([np.mean(predictions[truth == j] != j) for j in range(30)])

    def shown(column):
        return page.locator("#classes tbody tr").evaluate_all(
            f"all => all.map(row => parseFloat(row.children[{column}].textContent))"
        )

    np.testing.assert_allclose(shown(2), np.round(100 * np.sort(errors)[::-1][:10], 1), atol=0.051)
    page.click("#all-classes")
    page.click("#sort-0")
    assert shown(0) == list(range(30))
    page.click("#sort-0")
    assert shown(0) == list(range(29, -1, -1))
    confusion = np.zeros((30, 30), int)
    np.add.at(confusion, (truth, predictions), 1)
    np.fill_diagonal(confusion, 0)
    counts = [int(text) for text in page.locator("#confusion > div .cell").all_inner_texts()]
    assert counts == np.sort(confusion.ravel())[::-1][:10].tolist()
    assert page.locator("#confusion .confusion").count() == 0
    page.click("#confusion summary")
    page.wait_for_selector("#confusion .confusion tbody tr:nth-of-type(30)")
    assert len(set(page.evaluate("ddlearn.model.colors"))) == 30


def test_atoms_that_do_equally_well_are_no_difference(open_page, tmp_path):
    # With as many atoms as features, any last atom leaves nothing: which one is chosen is a matter of rounding.
    X, y = load_iris(return_X_y=True)
    model = make_pursuit(n_components=20, description=None, n_nonzero_coefs=4, max_iter=2, random_state=0).fit(X, y)
    write_report(model, tmp_path / "page.html", X, y)
    page = open_page(tmp_path / "page.html")
    found = check_predictions(page)
    assert found["nAgreeing"] + found["nTies"] == found["nChecked"]
    codes, _, _ = explain_all(page, X)
    np.testing.assert_allclose(codes @ model.components_, X, atol=1e-9)


def test_without_samples_one_can_still_draw(demo, open_page, tmp_path):
    write_report(demo[0], tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    assert page.is_visible("#blank-hint")
    page.emulate_media(media="print")
    assert page.is_hidden("#pad")  # ink is not wasted on an empty pad
    page.emulate_media(media="screen")
    draw(page, SEVEN)
    assert page.get_attribute("#verdict-plain", "data-label") == str(demo[0].predict(read_sample(page))[0])


def test_the_page_of_a_refined_model_codes_draws_and_shows_its_refinement(open_page, tmp_path):
    images = load_digits_images()
    X, X_test, y, y_test = train_test_split(
        images.data, images.target, train_size=500, stratify=images.target, random_state=0
    )
    coder = ElasticNet(0.1)
    refiner = make_refiner(3, cost="softmax", validation_fraction=0.2)
    model = DDLClassifier(
        100, sparse_coder=coder, description="unit", refine=refiner, image_shape=(8, 8), n_views=2, random_state=0
    )
    model.fit(X, y)
    write_report(model, tmp_path / "page.html", X_test[:300], y_test[:300])
    page = open_page(tmp_path / "page.html")
    found = check_predictions(page)
    assert found["nAgreeing"] == found["nChecked"]
    assert found["largest"] < 1e-5
    samples = X_test[:20].astype(float)
    exact = copy(model)
    exact.sparse_coder_ = clone(model.sparse_coder_).set_params(tol=1e-13)
    codes, evidence, _ = explain_all(page, samples)
    np.testing.assert_allclose(codes, exact.transform(samples).toarray(), atol=1e-5)
    np.testing.assert_allclose(evidence, exact.decision_function(samples), atol=1e-5 * np.abs(evidence).max())
    page.click("#clear")
    draw(page, SEVEN)
    assert page.get_attribute("#verdict-plain", "data-label") == "7"
    for name in ("Cost", "Error"):
        label = page.get_attribute(f"#refinement svg[aria-label^='{name}']", "aria-label")
        assert "training samples" in label
        assert "held-out samples" in label
    best = min(reversed(model.refinement_), key=lambda record: record.validation_cost).epoch
    assert f"Refined for 3 epochs, of which the model after epoch {best}" in page.inner_text("#iterations")
    assert page.is_hidden("#search")  # nothing was searched for


def test_what_was_tried_is_in_the_page(open_page, tmp_path):
    X, y = load_iris(return_X_y=True)
    model = DDLClassifier(12, sparse_coder="ormp", n_nonzero_coefs=2, refine=1, random_state=0).fit(X, y)
    write_report(model, tmp_path / "page.html", X, y)
    page = open_page(tmp_path / "page.html")
    page.click("#search summary")
    assert page.locator("#search tbody tr").count() == len(model.search_["error"])
    chosen = page.locator("#search tbody tr").first.inner_text().split("\t")
    assert chosen[0] == "chosen"
    assert float(chosen[4]) == pytest.approx(model.search_["weight_decay"][-1], rel=0.01)
    assert chosen[-1] == f"{100 * model.search_['error'][-1]:.1f} %"


class OwnCoder(ORMP):
    """A coder of a user, which no script of ours knows."""


@pytest.mark.parametrize(
    "own", [{"sparse_coder": OwnCoder()}, {"description": "gradients"}], ids=["coder", "gradients"]
)
def test_what_the_page_does_not_know_is_not_imitated(open_page, tmp_path, own):
    X, y = load_digits(return_X_y=True)
    model = make_pursuit(n_components=40, image_shape=(8, 8), max_iter=1, random_state=0, **own).fit(X, y)
    write_report(model, tmp_path / "page.html", X, y, image_shape=(8, 8))
    page = open_page(tmp_path / "page.html")
    assert "Python only" in page.inner_text("#explorer")
    assert page.locator("#gallery .atom").count() == 40


def test_parts_are_what_they_are_called(demo, open_page):
    model, _, _, path = demo
    page = open_page(path)
    choose(page)
    sample = read_sample(page)[0]
    reconstruction = model.explain(sample[None]).reconstruction[0]
    seen, rebuilt, left = (read_picture(page, f"#parts figure:nth-of-type({number}) canvas") for number in (1, 2, 3))
    np.testing.assert_allclose(seen[:, 0], np.clip(sample, 0, 1), atol=1 / 255)
    np.testing.assert_allclose(rebuilt[:, 0], np.clip(reconstruction, 0, 1), atol=1 / 255)
    np.testing.assert_allclose(left[:, 0], np.clip(sample - reconstruction, 0, 1), atol=0.26)  # blue is 0.25 red
    wait_for_errors(page)
    page.click("#verdict-corrected")
    page.wait_for_selector("#parts figure:nth-of-type(4)")
    share = page.evaluate("ddlearn.explorer.share")
    found = copy(model).set_params(robustness=share).explain(sample[None])
    is_orange = (np.abs(read_picture(page, "#parts figure:nth-of-type(4) canvas") - [0.902, 0.624, 0]) < 0.01).all(
        axis=1
    )
    np.testing.assert_array_equal(is_orange, found.error[0] != 0)


def test_training_is_that_of_the_model(demo, open_page):
    model, _, _, path = demo
    page = open_page(path)
    first, last = model.history_[0], model.history_[-1]
    for title, name in {"Representation": "representation", "Classification": "classification"}.items():
        label = page.get_attribute(f"#convergence svg[aria-label^='{title}']", "aria-label")
        assert label == f"{title}: {title} {round(getattr(first, name)):,} to {round(getattr(last, name)):,}"
    assert f"{model.n_iter_} iterations" in page.inner_text("#iterations")
    costs = [float(one.inner_text()) for one in page.locator("#costs .number").all()]
    np.testing.assert_allclose(costs, np.sort(model.class_cost_)[::-1], rtol=0.01)
    assert "floor" not in page.inner_text("#costs")  # proper priors need none


def test_nothing_of_the_last_sample_is_left(demo, open_page):
    page = open_page(demo[3])
    choose(page, 3)
    wait_for_errors(page)
    page.click("#verdict-corrected")
    page.select_option("#sample-filter", "4")
    choose(page, 5)
    assert page.get_attribute("#verdict-corrected", "data-label") in ("", "4")  # not that of the sample before
    wait_for_errors(page)
    sample = read_sample(page)[0]
    np.testing.assert_allclose(read_picture(page, "#parts canvas")[:, 0], sample, atol=1 / 255)
    page.click("#clear")
    settle(page)
    for name in ("#results", "#contributions"):
        assert page.is_hidden(name)


def test_taking_back_a_stroke_that_is_being_drawn(demo, open_page):
    page = open_page(demo[3])
    page.click("#clear")
    page.focus("#pad")
    for key in ["ArrowUp", " ", "ArrowUp", "Control+z", "ArrowUp", "ArrowLeft"]:
        page.keyboard.press(key)
    settle(page)
    assert page.evaluate("ddlearn.explorer.strokes.length") == 0
    page.click("#tool-erase")
    draw(page, [(0.2, 0.2), (0.8, 0.2)])
    assert page.is_visible("#blank-hint")  # to erase on an empty pad is to draw nothing


def test_only_one_pointer_draws(demo, open_page):
    page = open_page(demo[3])
    box = page.locator("#pad").bounding_box()
    page.mouse.move(box["x"] + 20, box["y"] + 20)
    page.mouse.down(button="right")
    page.mouse.move(box["x"] + 60, box["y"] + 60)
    page.mouse.up(button="right")
    assert page.evaluate("ddlearn.explorer.strokes.length") == 0
    page.evaluate(
        """() => {
            const pad = document.getElementById("pad");
            const box = pad.getBoundingClientRect();
            const send = (kind, pointerId, x) => pad.dispatchEvent(new PointerEvent(kind, {
                pointerId, isPrimary: pointerId === 1, clientX: box.x + x, clientY: box.y + 50, bubbles: true}));
            pad.setPointerCapture = () => {};
            send("pointerdown", 1, 10);
            send("pointerdown", 2, 200);
            send("pointermove", 1, 20);
            send("pointermove", 2, 210);
        }"""
    )
    assert page.evaluate("ddlearn.explorer.strokes.map(stroke => stroke.points.length)") == [2]


def test_the_focus_stays_where_it_is(demo, open_page):
    page = open_page(demo[3])
    choose(page)
    wait_for_errors(page)
    for name in ("tool-erase", "verdict-corrected", "undo", "clear"):
        page.focus(f"#{name}")
        page.keyboard.press("Enter")
        page.wait_for_timeout(200)  # errors have been looked for
        assert page.evaluate("document.activeElement.id") == name


def test_missing_features_are_shown_as_missing(demo, open_page, tmp_path):
    model, X, y, _ = demo
    X = X[:20].astype(float)
    X[:, 20:30] = np.nan
    write_report(copy(model).set_params(robustness=Robustness(missing="mask")), tmp_path / "page.html", X, y[:20])
    page = open_page(tmp_path / "page.html")
    choose(page)
    violet = np.array([96, 64, 112]) / 255
    for number in (1, 3):  # what the model sees, and what is left
        picture = read_picture(page, f"#parts figure:nth-of-type({number}) canvas")
        assert (np.abs(picture[20:30] - violet) < 0.01).all()
        assert not (np.abs(picture[30:] - violet) < 0.01).all(axis=1).any()


@pytest.mark.parametrize("image_shape", [None, (200, 250, 3)], ids=["curve", "colour"])
def test_many_features(image_shape, open_page, tmp_path):
    # A list of so many arguments is too long for a function of the browser.
    rng = np.random.default_rng(0)
    y = np.arange(12) % 2
    X = rng.random((12, 150_000)) + y[:, None]
    model = make_pursuit(n_components=3, n_nonzero_coefs=1, max_iter=1, random_state=0).fit(X, y)
    write_report(model, tmp_path / "page.html", X[:2], y[:2], image_shape=image_shape)
    page = open_page(tmp_path / "page.html")
    settle(page)
    assert page.get_attribute("#verdict-plain", "data-label") == str(model.predict(read_sample(page))[0])


def test_long_names_fit_a_phone(demo, open_page, tmp_path):
    _, X, y, _ = demo
    names = np.array([f"a class whose name is long, and longer than it ought to be {digit}" for digit in range(10)])
    model = make_pursuit(n_components=40, max_iter=2, random_state=0, image_shape=(8, 8)).fit(X, names[y])
    files = [f"folder/with/a/very/long/path/and_a_file_name_without_any_space_in_it_{row}.png" for row in range(len(X))]
    write_report(model, tmp_path / "page.html", X, names[y], sample_names=files)
    page = open_page(tmp_path / "page.html", viewport={"width": 390, "height": 844}, is_mobile=True, has_touch=True)
    choose(page)
    wait_for_errors(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_tall_images_fit_the_window(open_page, tmp_path):
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    X = rng.random((60, 60 * 20)) + y[:, None] * np.linspace(0, 1, 1200)
    model = make_pursuit(n_components=10, max_iter=1, random_state=0, image_shape=(60, 20)).fit(X, y)
    write_report(model, tmp_path / "page.html", X, y)
    page = open_page(tmp_path / "page.html", viewport={"width": 390, "height": 844})
    box = page.locator("#pad").bounding_box()
    assert box["height"] <= 0.7 * 844 + 2
    assert box["height"] / box["width"] == pytest.approx(3, rel=0.02)
    draw(page, [(0.5, 0.5)])
    (point,) = page.evaluate("ddlearn.explorer.strokes[0].points")
    np.testing.assert_allclose(point, [10, 30], atol=0.5)
