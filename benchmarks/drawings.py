"""How often does the report recognise a drawing?  Digits of a few strokes, slanted and wobbled, drawn on its page.

Run ``python -m benchmarks.drawings [digits] [usps] [mnist]`` in an environment with ``ddlearn[test]`` where Chromium is
installed, with ``DDLEARN_DATA`` for the last two.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from benchsets import load_mnist, load_usps
from playwright.sync_api import sync_playwright
from sklearn.model_selection import train_test_split

from ddlearn import DDLClassifier, write_report
from ddlearn.cli.reading import read_data

FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
N_DRAWINGS = 20  # of each digit
# Corners of strokes, in shares of the pad; a 7 with and without a bar.
_TURN = np.linspace(0, 2 * np.pi, 17) - np.pi / 2
DIGITS = {
    "0": [np.stack([0.5 + 0.2 * np.cos(_TURN), 0.5 + 0.32 * np.sin(_TURN)], axis=1).tolist()],
    "1": [[(0.5, 0.15), (0.5, 0.85)]],
    "2": [[(0.3, 0.3), (0.4, 0.18), (0.6, 0.18), (0.68, 0.32), (0.55, 0.55), (0.3, 0.82), (0.72, 0.82)]],
    "3": [[(0.32, 0.2), (0.55, 0.16), (0.66, 0.3), (0.48, 0.47), (0.68, 0.62), (0.6, 0.82), (0.32, 0.82)]],
    "4": [[(0.58, 0.85), (0.58, 0.15), (0.28, 0.6), (0.75, 0.6)]],
    "5": [[(0.68, 0.18), (0.36, 0.18), (0.34, 0.45), (0.58, 0.45), (0.68, 0.62), (0.58, 0.82), (0.32, 0.82)]],
    "6": [
        [(0.6, 0.15), (0.4, 0.35), (0.32, 0.65), (0.45, 0.84), (0.64, 0.75), (0.62, 0.58), (0.45, 0.54), (0.34, 0.65)]
    ],
    "7": [[(0.28, 0.2), (0.7, 0.2), (0.45, 0.82)]],
    "7 with a bar": [[(0.28, 0.2), (0.7, 0.2), (0.45, 0.82)], [(0.4, 0.5), (0.68, 0.5)]],
    "8": [
        [
            (0.5, 0.48),
            (0.35, 0.3),
            (0.5, 0.15),
            (0.65, 0.3),
            (0.5, 0.48),
            (0.32, 0.68),
            (0.5, 0.85),
            (0.68, 0.68),
            (0.5, 0.48),
        ]
    ],
    "9": [[(0.66, 0.32), (0.52, 0.17), (0.36, 0.3), (0.45, 0.47), (0.64, 0.42), (0.66, 0.3), (0.62, 0.85)]],
}


def wobble(strokes: list[list[tuple[float, float]]], rng: np.random.Generator) -> list[np.ndarray]:
    """Return strokes turned, slanted to the right and moved corner by corner, with points as dense as a mouse gives."""
    angle, slant, width = rng.normal(0, 0.12), rng.normal(0.15, 0.12), rng.uniform(0.8, 1.2)
    turn = np.array([[width * np.cos(angle), np.sin(angle)], [-np.sin(angle) - slant, np.cos(angle)]])
    wobbled = []
    for stroke in strokes:
        corners = (np.array(stroke) - 0.5 + rng.normal(0, 0.02, (len(stroke), 2))) @ turn + 0.5
        places = np.linspace(0, len(corners) - 1, 12 * (len(corners) - 1) + 1)
        wobbled.append(np.stack([np.interp(places, np.arange(len(corners)), side) for side in corners.T], axis=1))
    return wobbled


def fit(name: str) -> tuple[DDLClassifier, Any, Any]:
    """Return a default model, test samples and their labels."""
    if name == "digits":
        images = read_data(name)
        X, X_test, y, y_test = train_test_split(
            images.X, images.labels, train_size=1000, stratify=images.labels, random_state=0
        )
    else:
        load = {"usps": load_usps, "mnist": load_mnist}[name]
        images, test = load(subset="train"), load(subset="test")
        X, y, X_test, y_test = images.data, images.target, test.data, test.target
    model = DDLClassifier(image_shape=images.image_shape, n_jobs=-1, random_state=0)
    return model.fit(X, y), X_test, y_test


def count_recognised(page: Any) -> dict[str, int]:
    """Return, for each kind of digit, how many of its drawings get its label."""
    rng = np.random.default_rng(0)
    height, width = page.evaluate("ddlearn.model.image_shape")
    counts = {}
    for kind, strokes in DIGITS.items():
        drawings = [
            [
                {"tool": "draw", "shade": 1, "width": 1, "points": (points * [width, height]).tolist()}
                for points in wobble(strokes, rng)
            ]
            for _ in range(N_DRAWINGS)
        ]
        labels = page.evaluate(
            "drawings => drawings.map(strokes => "
            "ddlearn.model.classes[ddlearn.explain(ddlearn.renderStrokes(null, strokes, true)).label])",
            drawings,
        )
        counts[kind] = labels.count(kind[0])
    return counts


def main() -> None:
    """Draw on the page of each data set named."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for name in sys.argv[1:] or ["digits"]:
            path = Path(folder, f"{name}.html")
            model, X, y = fit(name)
            write_report(model, path, X, y)
            page = browser.new_page()
            page.goto(path.as_uri())
            counts = count_recognised(page)
            print(f"{name} ({path.stat().st_size / 1e6:.1f} MB), of {N_DRAWINGS} drawings each:")
            print("  " + ", ".join(f"{kind}: {count}" for kind, count in counts.items()))
        browser.close()


if __name__ == "__main__":
    main()
