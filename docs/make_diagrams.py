"""Draw the two diagrams of the documentation: ``python docs/make_diagrams.py`` writes SVG files to ``docs/images``."""

from __future__ import annotations

from html import escape
from pathlib import Path

IMAGES = Path(__file__).parent / "images"
INK, FAINT, LINE = "#1f2937", "#4b5563", "#6b7280"
BLUE, GREEN, SAND, GREY = "#e3edf9", "#e2f2e6", "#faf1dc", "#f1f3f5"
CODE = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"


class Drawing:
    """SVG elements on a white card, which reads on dark pages too."""

    def __init__(self, title: str, width: int, height: int):
        self.width, self.height = width, height
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
            f'font-family="sans-serif" font-size="14" fill="{INK}" role="img">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            f'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="{LINE}"/></marker></defs>',
            f'<rect x="1" y="1" width="{width - 2}" height="{height - 2}" rx="10" fill="#ffffff" stroke="#d1d5db"/>',
        ]

    def text(self, x: float, y: float, words: str, style: str = "") -> None:
        """Write one line; ``style`` holds further attributes."""
        self.parts.append(f'<text x="{x}" y="{y}" {style}>{escape(words)}</text>')

    def box(self, x: float, y: float, width: float, lines: list[tuple[str, str]], fill: str, gap: int = 19) -> float:
        """Draw a box around lines, each with its style, and return where it ends."""
        height = gap * len(lines) + 12
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="7" fill="{fill}" stroke="#c3cad3"/>'
        )
        for number, (words, style) in enumerate(lines):
            self.text(x + 12, y + gap * (number + 1) + 1, words, style)
        return y + height

    def frame(self, x: float, y: float, width: float, height: float) -> None:
        """Draw a dashed frame around a group."""
        self.parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="10" fill="none" stroke="{LINE}" '
            'stroke-dasharray="5 4"/>'
        )

    def arrow(self, path: str) -> None:
        """Draw an arrow along an SVG path."""
        self.parts.append(f'<path d="{path}" fill="none" stroke="{LINE}" stroke-width="1.5" marker-end="url(#tip)"/>')

    def save(self, name: str) -> None:
        """Write the file."""
        (IMAGES / name).write_text("\n".join([*self.parts, "</svg>", ""]))


BOLD, PLAIN = 'font-weight="bold"', ""
SMALL = f'font-size="13" fill="{FAINT}"'
MONO = f'font-family="{CODE}" font-size="13"'

# Question; setting; what it is worth (docs/settings.md).
QUESTIONS = [
    (["Are the samples images?"], ["image_shape=(height, width)"], "pictures in plots and reports"),
    (
        ["Does the error matter", "more than time?"],
        ['from_preset("accurate")'],
        "USPS 4.3 to 1.9 % error; 18 s in place of 4 to fit",
    ),
    (["Must it be small or quick?"], ["n_components=100"], "USPS 4.3 to 4.7 % error; a third of the size and time"),
    (
        ["Are some classes rare?"],
        ['class_weight="balanced"'],
        "only five eights: 36 % of others found, not 24",
    ),
    (["Do samples lack labels?"], ["unlabeled=-1"], "helps where there is no refinement"),
    (["Are values missing?"], ['robustness=Robustness(missing="mask")'], "they are left out, exactly"),
    (
        ["Are parts hidden", "or corrupted?"],
        ["robustness=0.3"],
        "faces half hidden: 25 to 97 % right; clean digits: harm",
    ),
    (["Are images out of place?"], ['refine=Refiner(40, jitter="affine")'], "or alignment, if you cannot fit again"),
    (["Too many for memory?"], ["a memory map, batches or Dask"], "see Data larger than memory"),
]


def draw_settings() -> None:
    """Draw the questions that lead to the settings, from top to bottom."""
    drawing = Drawing("Which settings? From the defaults, question by question", 760, 726)
    start = [
        ("DDLClassifier()", MONO),
        ("chooses description, penalties and costs on held-out samples, and refines the model", PLAIN),
    ]
    y = drawing.box(24, 22, 712, start, GREEN)
    for question, setting, worth in QUESTIONS:
        top = y + 20
        beside = top if len(question) > 1 else top + 9
        drawing.arrow(f"M140,{y} V{beside - 2}")
        bottom = drawing.box(24, beside, 232, [(line, BOLD) for line in question], BLUE)
        drawing.box(326, top, 410, [*((line, MONO) for line in setting), (worth, SMALL)], SAND)
        drawing.arrow(f"M256,{top + 25} H322")
        drawing.text(276, top + 19, "yes", SMALL)
        if question is not QUESTIONS[-1][0]:
            drawing.parts.append(f'<path d="M140,{bottom} V{top + 50}" stroke="{LINE}" stroke-width="1.5"/>')
        y = top + 50
    drawing.save("settings.svg")


# The files in the order in which `python -m benchmarks.trace` visits them.
FIT = [
    ("DDLClassifier.fit", "estimators/classifier.py: checks X and y"),
    ("samples in parts", "fitting/labels.py, data.py: labels become -1, 0, +1"),
    ("settings", "estimators/settings.py: parameters to objects"),
    ("search, description", "refinement/search.py; describe"),
    ("first atoms", "estimators/run.py; dictionary/initial.py"),
]
LOOP = [
    ("codes", "coding: discriminative.py, rows.py; kernels"),
    ("classifiers", "classifiers: trainer.py, problem.py"),
    ("dictionary", "dictionary: updates.py, upkeep.py; kernels"),
    ("scales and objective", "model: scales.py, objective.py"),
]
AFTER = [
    ("refinement on label-free codes", "refinement: epochs.py, backward.py, adam.py"),
    ("fitted attributes and a predictor", "estimators: run.py, prediction.py"),
]
PREDICT = [
    ("DDLClassifier.predict", "estimators/prediction.py: checks X"),
    ("the predictor that the model keeps", "inference/predictor.py"),
    ("blocks of rows", "parallel/threads.py"),
    ("rows that are coded", "describe: base.py, unit.py"),
    ("only if set: registered, errors left out", "coding: robust.py, alignment.py"),
    ("code without labels", "coding: encoder.py, elastic_net.py; kernels"),
    ("evidence for each class", "inference/rules.py: fast or full; model/losses.py"),
    ("class of largest evidence", "estimators/prediction.py: argmax, classes_"),
]
LAYERS = [  # tests/test_package.py has them too, and enforces them
    ("outside", "checks, files, show, datasets, cli"),
    ("estimators", "estimators"),
    ("refinement", "refinement"),
    ("whole runs", "fitting, inference"),
    ("steps", "dictionary, classifiers"),
    ("codes", "coding"),
    ("samples", "describe"),
    ("mathematics", "model"),
    ("arithmetic", "kernels, parallel (the only one that knows of threads)"),
]


def draw_architecture() -> None:
    """Draw fit and predict, each as one line through the files, and the layers of imports."""
    drawing = Drawing("fit and predict, each as one line through the files, and the layers of imports", 800, 1112)
    left, right, width = 22, 412, 366
    drawing.text(left, 34, "fit, one line", f'{BOLD} font-size="16"')
    drawing.text(right, 34, "predict, one line", f'{BOLD} font-size="16"')

    def chain(x: float, y: float, steps: list[tuple[str, ...]], width: float, fill: str) -> float:
        for number, (name, *files) in enumerate(steps):
            if number:
                drawing.arrow(f"M{x + 30},{y} v16")
                y += 18
            y = drawing.box(x, y, width, [(name, BOLD), *((line, SMALL) for line in files)], fill)
        return y

    y = chain(left, 48, FIT, width, BLUE)
    drawing.arrow(f"M{left + 30},{y} v44")
    drawing.text(left + 44, y + 22, "fitting/loop.py: until the objective settles", SMALL)
    top = y + 46
    y = chain(left + 14, top, LOOP, width - 56, GREEN)
    drawing.frame(left, y_frame := top - 12, width, y + 12 - y_frame)
    drawing.arrow(f"M{left + width - 42},{y - 26} h18 V{top + 26} h-16")
    drawing.arrow(f"M{left + 30},{y + 12} v14")
    chain(left, y + 28, AFTER, width, BLUE)
    chain(right, 48, PREDICT, width, SAND)

    y = 846
    drawing.text(left, y, "layers: a room imports from its own layer and from those below", f'{BOLD} font-size="16"')
    y += 12
    for name, files in LAYERS:
        drawing.parts.append(
            f'<rect x="{left}" y="{y}" width="756" height="25" rx="5" fill="{GREY}" stroke="#d5dae0"/>'
        )
        drawing.text(left + 12, y + 17, name, f'{BOLD} font-size="13"')
        drawing.text(left + 112, y + 17, files, MONO)
        y += 27
    drawing.save("architecture.svg")


if __name__ == "__main__":
    draw_settings()
    draw_architecture()
