"""Draw ``docs/images/report*.png``: the report of ``ddlearn demo`` in a browser, as it is clicked and drawn in.

Run ``python docs/make_report_pictures.py`` in an environment with ``ddlearn[test]``, where Chromium is installed
(``make test-browser`` installs it).
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from ddlearn.cli import app

IMAGES = Path(__file__).parent.resolve() / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
SEVEN = [[(0.28, 0.2), (0.7, 0.2), (0.45, 0.82)]]
OCCLUDER = [(1 / 8, 2 / 8), (1 / 8, 6 / 8)]
# Among the fives, the first that the occluder hides from the model, but not from the model that looks for errors.
FIND_RESCUED = """() => {
    const {data, model, explain, explainWithErrors, renderStrokes} = ddlearn;
    const stroke = {tool: "occlude", shade: 1, width: 2 * model.ink.thickness, points: [[1, 2], [1, 6]]};
    return data.samples.filter((_, place) => data.labels[place] === 5).findIndex((sample) => {
        const occluded = renderStrokes(sample, [stroke], true);
        return explain(occluded).label !== 5 && explainWithErrors(occluded, 0.3).label === 5;
    });
}"""
DESKTOP = {"viewport": {"width": 1180, "height": 900}}
PHONE = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2, "is_mobile": True, "has_touch": True}


def draw(page: Any, strokes: list[list[tuple[float, float]]]) -> None:
    """Draw strokes on the pad with the mouse, and wait until errors have been looked for."""
    page.locator("#pad").scroll_into_view_if_needed()
    box = page.locator("#pad").bounding_box()
    for points in strokes:
        places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
        page.mouse.move(*places[0])
        page.mouse.down()
        for place in places[1:]:
            page.mouse.move(*place, steps=12)
        page.mouse.up()
    page.wait_for_selector("#verdict-corrected[data-waiting=false]")


def take_pictures(browser: Any, url: str) -> None:
    """Take all pictures of the page."""
    page = browser.new_context(**DESKTOP).new_page()
    page.goto(url)
    page.locator("#summary").screenshot(path=IMAGES / "report_summary.png")
    page.locator("#dictionary").screenshot(path=IMAGES / "report_dictionary.png")
    page.locator("#training").screenshot(path=IMAGES / "report_training.png")
    page.select_option("#sample-filter", label="5")
    page.locator("#thumbnails .sample").nth(page.evaluate(FIND_RESCUED)).click()
    page.click("#tool-occlude")
    page.locator("#budget").fill("30")
    draw(page, [OCCLUDER])
    page.click("#verdict-corrected")
    draw(page, [])
    page.locator("#explorer .explorer").screenshot(path=IMAGES / "report_occluded.png")
    page.reload()
    page.click("#clear")
    draw(page, SEVEN)
    page.evaluate("document.getElementById('chooser').hidden = true")  # the drawing is what this picture is about
    page.locator("#explorer").screenshot(path=IMAGES / "report.png")
    phone = browser.new_context(**PHONE, color_scheme="dark").new_page()
    phone.goto(url)
    phone.click("#clear")
    draw(phone, SEVEN)
    phone.evaluate("document.querySelector('#pad').scrollIntoView({block: 'start'})")
    phone.screenshot(path=IMAGES / "report_phone.png")


def main() -> None:
    """Write the page of the demo, and take its pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder, "report.html")
        app(["demo", "--output", str(path)], standalone_mode=False)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        take_pictures(browser, path.as_uri())
        browser.close()


if __name__ == "__main__":
    main()
