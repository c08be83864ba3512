"""Pictures of what the model makes of single images: ``python -m reproduction pictures``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.ndimage import affine_transform

from ddlearn import DDLClassifier
from ddlearn.describe.choice import make_description

from .beyond import BEYOND_SETTINGS
from .cells import Record, Runner
from .digits import USPS_ALIGNMENT
from .disturbances import Condition
from .faces import ERROR_BUDGET, FACE_MODEL
from .images import (
    SEED,
    USPS_SHAPE,
    Floats,
    load_digits,
    load_faces,
    load_rows,
    spread,
    to_rows,
)
from .models import apply_variant, make_classifier, make_former_model
from .tables import (
    BLACK,
    BLUE,
    GREEN,
    ORANGE,
    RED,
    make_figure,
    save_figure,
)


def draw_occluded_faces(
    runner: Runner, *, size: tuple[int, int] = (96, 84), level: float = 0.3, n_faces: int = 4
) -> None:
    """Draw what the model makes of occluded faces, with and without gross errors.

    The faces are spread evenly over the test images, not chosen by how well they do.
    """
    faces = load_faces(size)
    model = make_classifier(**FACE_MODEL, n_jobs=runner.n_jobs).fit(to_rows(faces.X_train), faces.y_train)
    shown = spread(len(faces.y_test), n_faces)
    X = to_rows(Condition("occlusion", level).apply(faces.X_test[shown]))
    before, after = (
        apply_variant(model, FACE_MODEL, {"error_budget": budget}).explain(X) for budget in (0, ERROR_BUDGET)
    )
    true_class = np.searchsorted(model.classes_, faces.y_test[shown])
    titles = ("original", "occluded", "error found", "reconstruction", "evidence")
    figure = make_figure(2.2 * len(titles), 2.4 * n_faces)
    grid = figure.subplots(n_faces, len(titles), squeeze=False)
    for row in range(n_faces):
        images = (faces.X_test[shown[row]], X[row], after.error[row], after.reconstruction[row])
        for axes, image, title in zip(grid[row], images, titles, strict=False):
            is_error = title == "error found"
            limit = np.abs(image).max()
            axes.imshow(
                image.reshape(faces.X_test.shape[1:]),
                cmap="PuOr" if is_error else "gray",
                vmin=-limit if is_error else 0,
                vmax=limit,
            )
            axes.set_axis_off()
        _draw_evidence(grid[row, -1], [before.evidence[row], after.evidence[row]], true_class[row])
    for axes, title in zip(grid[0], titles, strict=True):
        axes.set_title(title, fontsize=14)
    figure.legend(*grid[0, -1].get_legend_handles_labels(), loc="outside lower right", ncols=2, fontsize=12)
    save_figure(figure, runner.output, "occluded_faces")


def _draw_evidence(axes: Any, evidence: Sequence[Floats], true_class: int) -> None:
    """Draw the evidence for the true class and for its best rival, without and with gross errors."""
    of_truth = [values[true_class] for values in evidence]
    of_rival = [np.delete(values, true_class).max() for values in evidence]
    positions = np.arange(len(evidence))
    axes.bar(positions - 0.2, of_truth, 0.4, color=BLUE, label="true class")
    axes.bar(positions + 0.2, of_rival, 0.4, color=ORANGE, label="best rival")
    axes.axhline(0, color="black", lw=0.8)
    axes.set_xticks(positions, ["without\nerrors", "with\nerrors"], fontsize=11)
    axes.set_yticks([])


def draw_misaligned_digits(runner: Runner) -> None:
    """Draw digits out of place: as they come, registered, and rebuilt from atoms, with the label before and after.

    The digits are the first of each class among the test images, each turned by up to 12 degrees and moved by up to
    1.5 pixels.
    """
    digits = load_digits()
    model = make_former_model(random_state=SEED, n_jobs=runner.n_jobs).fit(to_rows(digits.X_train), digits.y_train)
    shown = np.unique(digits.y_test, return_index=True)[1]
    rng = np.random.default_rng(SEED)
    X = to_rows(np.array([_move(digits.X_test[position], rng) for position in shown]))
    labels_before = model.predict(X)
    apply_variant(model, {}, {"alignment": USPS_ALIGNMENT, "image_shape": USPS_SHAPE})
    explanation, labels_after = model.explain(X), model.predict(X)
    figure = make_figure(1.2 * len(shown), 4.2)
    rows = {"moved": X, "registered": explanation.samples, "rebuilt": explanation.reconstruction}
    for line, (title, images) in zip(figure.subplots(3, len(shown), squeeze=False), rows.items(), strict=True):
        for axes, image in zip(line, images, strict=True):
            axes.imshow(image.reshape(USPS_SHAPE), cmap="gray_r", vmin=0)
            axes.set_xticks([])
            axes.set_yticks([])
        line[0].set_ylabel(title, fontsize=14)
    labels = zip(labels_before, labels_after, digits.y_test[shown], strict=True)
    for axes, (before, after, truth) in zip(figure.axes, labels, strict=False):
        colour = RED if after != truth else GREEN if before != truth else BLACK
        axes.set_title(f"{before} → {after}", fontsize=14, color=colour)
    figure.suptitle("Label without and with alignment (green: mended, red: wrong)", fontsize=14)
    save_figure(figure, runner.output, "misaligned_digits")


def _move(image: Floats, rng: np.random.Generator) -> Floats:
    """Return the image turned about its middle and moved."""
    angle = np.radians(rng.uniform(-12, 12))
    rotation = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    middle = (np.array(image.shape) - 1) / 2
    return affine_transform(image, rotation, middle - rotation @ middle + rng.uniform(-1.5, 1.5, 2), order=1)


def draw_learned_sketches(runner: Runner, *, row: str = "usps", n_atoms: int = 5) -> None:
    """Draw sketches of the atoms of gradients that speak most for each digit, after refinement."""
    digits, settings = load_rows(row, SEED), BEYOND_SETTINGS[row]
    model = DDLClassifier(**settings, random_state=SEED, n_jobs=runner.n_jobs)
    model.fit(digits.X_train, digits.y_train)
    scaling = make_description(settings["description"], settings["image_shape"])
    figure = make_figure(1.1 * len(model.classes_), 1.2 * n_atoms)
    columns = figure.subplots(n_atoms, len(model.classes_)).T
    for label, weights, column in zip(model.classes_, model.coef_, columns, strict=True):
        strongest = np.argsort(-weights)[:n_atoms]
        for axes, sketch in zip(column, scaling.invert(model.components_[strongest]), strict=True):
            limit = np.abs(sketch).max()
            image = sketch.reshape(settings["image_shape"])
            axes.imshow(image, cmap="gray_r", vmin=-limit, vmax=limit, interpolation="gaussian")
            axes.set_axis_off()
        column[0].set_title(str(label), fontsize=14)
    save_figure(figure, runner.output, "beyond_learned")


def draw_pictures(runner: Runner) -> list[Record]:
    """Draw the occluded faces, the misaligned digits and what was learned; there is nothing to measure."""
    runner = runner.use_threads()
    draw_learned_sketches(runner)
    draw_occluded_faces(runner)
    draw_misaligned_digits(runner)
    return []
