"""Draw ``docs/images/report*.png``: three reports in a browser, on a desktop and, in dark mode, on a phone.

Run ``python docs/make_report_pictures.py`` in an environment with ``ddlearn[test]``, where Chromium is installed
(``make test-browser`` installs it).
"""

from __future__ import annotations

import io
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from playwright.sync_api import sync_playwright
from sklearn.datasets import load_breast_cancer, make_blobs
from sklearn.model_selection import train_test_split

from ddlearn import DDLClassifier, write_report
from ddlearn.cli import app
from ddlearn.datasets import load_digits_images

IMAGES = Path(__file__).parent.resolve() / "images"
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
SEVEN = [(0.28, 0.2), (0.7, 0.2), (0.45, 0.82)]
DESKTOP = {"viewport": {"width": 1180, "height": 1180}}
PHONE = {"viewport": {"width": 390, "height": 1180}, "is_mobile": True, "has_touch": True, "color_scheme": "dark"}
GAP = 16  # pixels between desktop and phone


def write_digits(path: Path) -> None:
    """Write the report of a default model of scikit-learn's digits."""
    images = load_digits_images()
    X, X_test, y, y_test = train_test_split(
        images.data, images.target, train_size=1000, stratify=images.target, random_state=0
    )
    model = DDLClassifier(image_shape=(8, 8), random_state=0).fit(X, y)
    write_report(model, path, X_test, y_test, title="Handwritten digits", data_name="digits", training=(X, y))


def write_table(path: Path) -> None:
    """Write the report of a table by the command line: a fit to one CSV file, and a report on another."""
    frame = load_breast_cancer(as_frame=True).frame
    frame["diagnosis"] = np.array(["malignant", "benign"])[frame.pop("target")]
    train, test = train_test_split(frame, test_size=0.3, stratify=frame["diagnosis"], random_state=0)
    folder = path.parent
    train.to_csv(folder / "train.csv", index=False)
    test.to_csv(folder / "cancer.csv", index=False)
    model = str(folder / "cancer.safetensors")
    app(["fit", str(folder / "train.csv"), "-o", model, "--seed", "0"], standalone_mode=False)
    report = ["report", model, str(folder / "cancer.csv"), "-o", str(path), "--title", "Breast cancer, a table"]
    app(report, standalone_mode=False)


def write_many_classes(path: Path) -> None:
    """Write the report of a hundred classes, which overlap."""
    X, y = make_blobs(3000, 64, centers=100, cluster_std=4.5, center_box=(-6, 6), random_state=0)
    names = np.array([f"species {number:03d}" for number in y])
    X, X_test, y, y_test = train_test_split(X, names, train_size=0.5, stratify=names, random_state=0)
    model = DDLClassifier(random_state=0).fit(X, y)
    write_report(model, path, X_test, y_test, title="A hundred species", training=(X, y))


REPORTS = {"digits": write_digits, "table": write_table, "many_classes": write_many_classes}


def compress(pictures: list[bytes], name: str) -> None:
    """Write pictures beside each other as one, with a palette that keeps rare colours."""
    parts = [Image.open(io.BytesIO(picture)).convert("RGB") for picture in pictures]
    width = sum(part.width for part in parts) + GAP * (len(parts) - 1)
    whole = Image.new("RGB", (width, max(part.height for part in parts)), "white")
    left = 0
    for part in parts:
        whole.paste(part, (left, 0))
        left += part.width + GAP
    whole.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(IMAGES / name, optimize=True)


def open_page(browser: Any, url: str, **options: Any) -> Any:
    """Open a page, and wait until it has checked its predictions."""
    page = browser.new_context(**options).new_page()
    page.goto(url)
    page.wait_for_selector("#check >> text=agree with")
    return page


def draw(page: Any, points: list[tuple[float, float]]) -> None:
    """Draw a stroke on an empty pad with the mouse."""
    page.click("#clear")
    page.locator("#pad").scroll_into_view_if_needed()
    box = page.locator("#pad").bounding_box()
    places = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in points]
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place, steps=12)
    page.mouse.up()
    page.wait_for_selector("#results[aria-busy=false]")


def shoot(page: Any, selector: str) -> bytes:
    """Return a picture of an element, as far as it fits a window."""
    page.evaluate(f"document.querySelector('{selector}').scrollIntoView({{block: 'start', behavior: 'instant'}})")
    box = page.locator(selector).bounding_box()
    window = page.viewport_size
    clip = {
        "x": box["x"],
        "y": box["y"],
        "width": box["width"],
        "height": min(box["height"], window["height"] - box["y"]),
    }
    return page.screenshot(clip=clip)


def take_pictures(browser: Any, name: str, url: str) -> None:
    """Take the pictures of one report: its top on a desktop, its explorer on a phone."""
    page, phone = open_page(browser, url, **DESKTOP), open_page(browser, url, **PHONE)
    pictures = [shoot(page, "#explorer" if name == "table" else "#summary"), shoot(phone, "#explorer")]
    compress(pictures, f"report_{name}.png")
    if name == "digits":
        compress([shoot(page, "#training")], "report_training.png")
        draw(page, SEVEN)
        page.evaluate("document.getElementById('chooser').hidden = true")  # the drawing is what this picture is about
        compress([shoot(page, "#explorer")], "report.png")


def main() -> None:
    """Write the reports, and take their pictures."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name, write in REPORTS.items():
            path = Path(folder, f"{name}.html")
            write(path)
            take_pictures(browser, name, path.as_uri())
        browser.close()


if __name__ == "__main__":
    main()
