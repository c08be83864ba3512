"""The report in a real browser: it codes as the library does, whatever one clicks, types or draws.

Without Chromium these tests are skipped, unless DDLEARN_REQUIRE_BROWSER is set, as `make test-browser` does.
"""

from __future__ import annotations

import os
import shutil
from itertools import pairwise

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import train_test_split

from ddlearn import LOSSES, ORMP, DDLClassifier, write_report
from ddlearn.datasets import load_digits_images

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
IS_REQUIRED = bool(os.environ.get("DDLEARN_REQUIRE_BROWSER"))
if CHROMIUM is None and not IS_REQUIRED:
    pytest.skip("there is no Chromium: make test-browser installs it", allow_module_level=True)
sync_api = pytest.importorskip("playwright.sync_api") if not IS_REQUIRED else __import__("playwright.sync_api").sync_api

FLAGS = ["--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update"]
SEVEN = [(0.28, 0.2), (0.7, 0.2), (0.45, 0.82)]  # in shares of the pad


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
    model = DDLClassifier(image_shape=(8, 8), random_state=0, **parameters).fit(X, y)
    return model, X_test, y_test


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Return the model of the demo, its test images, and its page."""
    model, X, y = fit_digits(n_nonzero_coefs=3)
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


def read_sample(page):
    """Return the sample that the page has coded last."""
    return np.array(
        page.evaluate(
            """() => {
                const {explorer, data, renderStrokes} = ddlearn;
                const base = explorer.place === null ? null : data.samples[explorer.place];
                return Array.from(renderStrokes(base, explorer.strokes, explorer.isFitted));
            }"""
        )
    )[None]


def read_code(page):
    """Return atoms and coefficients of the code in the table, in the order of their numbers."""
    buttons = page.locator("#code [data-atom]").all()
    pairs = [(int(one.get_attribute("data-atom")), float(one.get_attribute("data-coefficient"))) for one in buttons]
    return [list(part) for part in zip(*sorted(pairs), strict=True)]


def wait_for_errors(page):
    page.wait_for_selector("#verdict-corrected[data-waiting=false]")


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
    assert page.evaluate("ddlearn.compareCodes().largest") < 1e-5
    assert "agree with" in page.inner_text("#check")


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
    found = DDLClassifier(**model.get_params()).set_params(error_budget=share)
    found.__dict__.update({name: value for name, value in vars(model).items() if name.endswith("_")})
    expected = found.explain(X)
    np.testing.assert_allclose(codes, expected.codes.toarray(), atol=1e-5)
    np.testing.assert_allclose(evidence, expected.evidence, rtol=1e-5, atol=1e-5 * np.abs(evidence).max())
    np.testing.assert_array_equal(np.array(is_wrong, bool), expected.error != 0)


def test_missing_features_are_left_out_as_in_the_library(demo, open_page, tmp_path):
    model, X, y, _ = demo
    masked = DDLClassifier(**(model.get_params() | {"missing": "mask"}))
    masked.__dict__.update({name: value for name, value in vars(model).items() if name.endswith("_")})
    X = np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X.astype(float))[:200]
    write_report(masked, tmp_path / "page.html", X, y[:200])
    page = open_page(tmp_path / "page.html")
    codes, _, _ = explain_all(page, X)
    np.testing.assert_allclose(codes, masked.transform(X).toarray(), atol=1e-5)
    assert page.evaluate("ddlearn.compareCodes().largest") < 1e-5


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
    page.evaluate("document.querySelector('#thumbnails .sample').click()")
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
    corrected = DDLClassifier(**(model.get_params() | {"error_budget": share}))
    corrected.__dict__.update({name: value for name, value in vars(model).items() if name.endswith("_")})
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
    page.locator("#thumbnails .sample").first.click()
    rows = page.locator("#code tbody tr").all()
    cells = [[float(cell.inner_text()) for cell in row.locator("td").all()] for row in rows]
    parts, (intercept, score, _) = [row[1:] for row in cells[:-3]], cells[-3:]
    np.testing.assert_allclose(np.sum(parts, axis=0) + intercept, score, atol=0.04)  # of rounded numbers
    np.testing.assert_allclose(intercept, model.intercept_, atol=0.006)


def test_summary_counts_and_shows_the_errors(demo, open_page):
    model, X, y, path = demo
    page = open_page(path)
    wrong = model.predict(X) != y
    assert page.inner_text("#error") == f"Error {100 * wrong.mean():.2f} %"
    truth, prediction = y[wrong][0], model.predict(X)[wrong][0]
    count = np.sum((y == truth) & (model.predict(X) == prediction))
    page.click(f"[aria-label='{count} samples of {truth} taken for {prediction}']")
    assert page.locator("#dialog .sample").count() == count
    page.locator("#dialog .sample").first.click()
    assert page.is_hidden("#dialog")
    assert f"its label is {truth}" in page.inner_text("#sample-name")
    assert page.get_attribute("#verdict-plain", "data-label") == str(prediction)


def test_gallery_sorts_filters_and_tells_of_atoms(demo, open_page):
    model, _, _, path = demo
    page = open_page(path)

    def shown():
        return [int(one.get_attribute("data-atom")) for one in page.locator("#gallery .atom").all()]

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
    np.testing.assert_allclose(bars, votes[:, shown()[0]], rtol=0.01, atol=0.002)
    page.locator("#dialog .sample").first.click()
    assert page.is_hidden("#dialog")


def test_all_of_it_by_keyboard(demo, open_page):
    page = open_page(demo[3])
    page.locator("#clear").press("Enter")
    page.focus("#pad")
    for key in [*["ArrowUp"] * 10, " ", *["ArrowDown"] * 20, " "]:
        page.keyboard.press(key)
    assert page.get_attribute("#verdict-plain", "data-label") == "1"
    assert page.evaluate("ddlearn.explorer.strokes.length") == 1
    page.keyboard.press("Control+z")
    assert page.is_hidden("#results")
    page.locator("#gallery .atom").first.press("Enter")
    assert page.is_visible("#dialog")
    page.keyboard.press("Escape")
    assert page.is_hidden("#dialog")
    reached = set()
    page.reload()  # Tab goes on from where one has been
    for _ in range(60):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("document.activeElement.id || document.activeElement.className"))
    assert {"theme", "tool-draw", "pad", "verdict-plain", "budget", "sample-filter"} <= reached


def test_on_a_phone_with_a_finger(demo, open_page):
    page = open_page(demo[3], viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
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
    assert page.get_attribute("#verdict-plain", "data-label") == "7"
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_dark_mode_and_print(demo, open_page):
    def brightness(page):
        return sum(page.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"))

    assert brightness(open_page(demo[3])) > 700
    page = open_page(demo[3], color_scheme="dark")
    assert brightness(page) < 150
    page.click("#theme")
    assert brightness(page) > 700
    page.emulate_media(media="print")
    assert page.is_hidden("nav")
    assert page.is_visible("#gallery")
    assert len(page.pdf()) > 10_000


def test_text_in_data_is_text(demo, open_page, tmp_path):
    _, X, y, _ = demo
    hostile = np.array(
        ["<script>window.hacked = 1</script>", "<img src=x onerror=alert(1)>", '"><b>three', "'\u2028&amp;"]
    )
    is_used = y < 4
    other = DDLClassifier(n_components=40, max_iter=2, random_state=0, image_shape=(8, 8))
    other.fit(X[is_used], hostile[y[is_used]])
    names = [f"</script><script>window.hacked = {row}</script>.png" for row in range(is_used.sum())]
    path = tmp_path / "page.html"
    write_report(
        other, path, X[is_used], hostile[y[is_used]], title="<script>window.hacked = 2</script>", sample_names=names
    )
    page = open_page(path)
    page.locator("#gallery .atom").first.click()
    page.keyboard.press("Escape")
    page.locator("#thumbnails .sample").first.click()
    assert page.evaluate("window.hacked") is None
    assert page.locator("img").count() == 0
    assert page.inner_text("h1") == "<script>window.hacked = 2</script>"
    assert set(hostile[:3]) <= set(page.locator("#confusion th[scope=row]").all_inner_texts())
    assert names[0].split(".png")[0][:10] in page.inner_text("#sample-name")


def test_the_policy_stops_what_does_not_belong_to_the_page(demo, open_page):
    page = open_page(demo[3])
    page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.hacked = 1";
            document.body.append(script);
        }"""
    )
    assert page.evaluate("window.hacked") is None
    assert any("Content Security Policy" in complaint for complaint in open_page.complaints)
    open_page.complaints.clear()


def test_signals_are_curves_and_can_be_changed(open_page, tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(3, size=300)
    time = np.linspace(0, 1, 90)
    X = np.sin(2 * np.pi * (y[:, None] + 1) * (time + 0.1 * rng.random((300, 1)))) + 0.1 * rng.standard_normal(
        (300, 90)
    )
    model = DDLClassifier(n_components=30, random_state=0).fit(X[:200], y[:200])
    write_report(model, tmp_path / "page.html", X[200:], y[200:])
    page = open_page(tmp_path / "page.html")
    assert page.locator("#pad.curve").count() == 1
    codes, _, _ = explain_all(page, X[200:])
    np.testing.assert_allclose(codes, model.transform(X[200:]).toarray(), atol=1e-5)
    before = page.inner_text("#evidence")
    draw(page, [(0.2, 0.1), (0.8, 0.1)])
    assert page.inner_text("#evidence") != before
    page.click("#undo")
    assert page.inner_text("#evidence") == before


def test_few_features_are_bars(open_page, tmp_path):
    X, y = load_iris(return_X_y=True)
    model = DDLClassifier(n_components=20, n_nonzero_coefs=2, random_state=0).fit(X, y)
    write_report(model, tmp_path / "page.html", X, y)
    page = open_page(tmp_path / "page.html")
    codes, _, _ = explain_all(page, X)
    np.testing.assert_allclose(codes, model.transform(X).toarray(), atol=1e-5)
    assert page.locator("#pad.curve").count() == 1


def test_atoms_that_do_equally_well_are_no_difference(open_page, tmp_path):
    # With as many atoms as features, any last atom leaves nothing: which one is chosen is a matter of rounding.
    X, y = load_iris(return_X_y=True)
    model = DDLClassifier(n_components=20, n_nonzero_coefs=4, random_state=0).fit(X, y)
    write_report(model, tmp_path / "page.html", X, y)
    page = open_page(tmp_path / "page.html")
    codes, _, _ = explain_all(page, X)
    np.testing.assert_allclose(codes @ model.components_, X, atol=1e-9)
    assert page.evaluate("ddlearn.compareCodes().nTies") > 0
    assert "agree with" in page.inner_text("#check")


def test_without_samples_one_can_still_draw(demo, open_page, tmp_path):
    write_report(demo[0], tmp_path / "page.html")
    page = open_page(tmp_path / "page.html")
    assert page.is_visible("#blank-hint")
    draw(page, SEVEN)
    assert page.get_attribute("#verdict-plain", "data-label") == str(demo[0].predict(read_sample(page))[0])


class OwnCoder(ORMP):
    """A coder of a user, which no script of ours knows."""


def test_a_coder_of_ones_own_is_not_imitated(open_page, tmp_path):
    X, y = load_digits(return_X_y=True)
    model = DDLClassifier(n_components=40, sparse_coder=OwnCoder(), max_iter=1, random_state=0).fit(X, y)
    write_report(model, tmp_path / "page.html", X, y, image_shape=(8, 8))
    page = open_page(tmp_path / "page.html")
    assert "Python only" in page.inner_text("#explorer")
    assert page.locator("#gallery .atom").count() == 40
