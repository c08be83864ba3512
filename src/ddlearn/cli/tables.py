"""Results as text: tables, the sentences above them, and images in block characters."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.table import Table

from .terminal import escape

if TYPE_CHECKING:
    from ..estimators.classifier import DDLClassifier

_MAX_CLASSES = 15  # in a confusion matrix; with more classes only the worst confusions are shown
_PICTURE_SIDE = 16  # maximum height and width of a picture, in pixels
_SHADES = {True: " ░▒▓█", False: " .+#@"}  # with and without Unicode


def make_table(title: str | None, columns: Iterable[str], *, n_text: int = 1) -> Table:
    """Return a table whose first columns are text and the others numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < n_text else "right", overflow="fold")
    return table


def make_facts_table(title: str | None, facts: dict[str, str]) -> Table:
    """Return a table with one row per fact."""
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(escape(name), escape(value))
    return table


def make_fit_table(facts: dict[str, Any], n_bytes: int | None = None) -> Table:
    """Return a summary of a fit, with the size of its file if there is one."""
    preset = [] if facts.get("preset") is None else [f"preset {facts['preset']}"]
    settings = ", ".join([*preset, *(f"{name}={value}" for name, value in facts["settings"].items())])
    end = ", converged" if facts["converged"] else f" of {facts['max_iter']}, not converged"
    rows = {
        "data": f"{facts['data']}: {facts['n_samples']:,} samples, {facts['n_features']:,} features, "
        f"{len(facts['classes'])} classes",
        "settings": settings,
        "scaling": facts["scaling"],
        "dictionary": f"{facts['n_components']} atoms, at most {facts['n_nonzero_coefs']} per code",
        "iterations": f"{facts['n_iter']}{end}",
        "objective": f"{facts['objective']:,.0f}",
        "training error": f"{facts['training_error']:.2%} (codes computed with labels)",
        "label-free error": f"{facts['label_free_error']:.2%} (codes computed as for new samples)",
    }
    if "refinement" in facts:
        refinement = facts["refinement"]
        rows["refinement"] = f"{refinement['n_epochs']} epochs, best after epoch {refinement['best_epoch']}"
        if not math.isnan(refinement["validation_error"]):
            after, before = refinement["validation_error"], refinement["validation_error_before"]
            rows["refinement"] += f": held-out error {after:.2%}, before refinement {before:.2%}"
    if "search" in facts:
        search = facts["search"]
        when = "in trials" if search["epochs"] else "before refinement"
        rows["search"] = f"best of {search['n_tried']}, held-out error {search['error']:.2%} {when}"
    rows["time"] = f"{facts['seconds']:.1f} s"
    if n_bytes is not None:
        rows["file"] = f"{facts['file']} ({n_bytes / 1e6:.1f} MB)"
    return make_facts_table("Fitted", rows)


def make_error_tables(data: str, facts: dict[str, Any]) -> list[Any]:
    """Return the error, a table of the classes and one of the confusions."""
    low, high = facts["error_interval"]
    summary = (
        f"[bold]Error {facts['error']:.2%}[/] (95 % interval {low:.2%} to {high:.2%}): "
        f"{facts['n_wrong']:,} of {facts['n_samples']:,} samples of {escape(data)} are misclassified\n"
        f"Probabilities: log-loss {facts['log_loss']:.3f}, expected calibration error {facts['calibration_error']:.2%}"
    )
    table = make_table("Classes", ("class", "samples", "error", "precision", "recall", "F1"))
    names = [escape(str(name)) for name in facts["classes"].tolist()]
    for name, support, *scores in zip(
        names, facts["n_samples_of_class"], facts["precision"], facts["recall"], facts["f1"], strict=True
    ):
        precision, recall, f1 = map(float, scores)
        shares = (1 - recall, precision, recall, f1)
        table.add_row(name, f"{support:,}", *("-" if math.isnan(share) else f"{share:.1%}" for share in shares))
    return [summary, "", table, "", _make_confusion_table(names, facts["confusion"])]


def _make_confusion_table(names: list[str], confusion: Any) -> Table:
    if len(names) > _MAX_CLASSES:
        worst = sorted(
            ((int(confusion[i, j]), names[i], names[j]) for i, j in zip(*confusion.nonzero(), strict=True) if i != j),
            reverse=True,
        )
        table = make_table("Most frequent confusions", ("class", "predicted as", "samples"), n_text=2)
        for count, truth, prediction in worst[:10]:
            table.add_row(truth, prediction, str(count))
        return table
    table = make_table("Confusion: one row per class, one column per prediction", ("", *names))
    for i, name in enumerate(names):
        cells = [str(count) if count else "·" for count in confusion[i].tolist()]
        if confusion[i, i]:
            cells[i] = f"[bold green]{cells[i]}[/]"
        table.add_row(f"[bold]{name}[/]", *cells)
    return table


def make_reason_tables(facts: dict[str, Any]) -> list[Any]:
    """Return the explanation of a prediction: a table of the atoms and one of the evidence."""
    prediction, runner_up = (escape(str(facts[name])) for name in ("prediction", "runner_up"))
    truth = "" if facts["label"] is None else f" (its label is {escape(str(facts['label']))})"
    summary = f"Sample {escape(facts['sample'])} is classified as [bold]{prediction}[/]{truth}."
    detail = f"{len(facts['atoms'])} atoms explain {facts['explained']:.1%} of its energy."
    for kind in ("wrong", "missing"):
        if facts[f"n_{kind}_features"]:
            detail += f" {facts[f'n_{kind}_features']} features are {kind}, and ignored."
    atoms = make_table("Atoms", ("atom", "coefficient", f"vote for {prediction}", f"vote for {runner_up}"), n_text=0)
    for values in zip(
        *(facts[name] for name in ("atoms", "coefficients", "votes_for_prediction", "votes_for_runner_up")), strict=True
    ):
        atoms.add_row(str(values[0]), *(f"{value:.3f}" for value in values[1:]))
    evidence = make_table("Evidence", ("class", "evidence", "probability"))
    ranked = sorted(zip(facts["evidence"], facts["classes"], facts["probability"], strict=True), reverse=True)
    for value, class_, probability in ranked[:_MAX_CLASSES]:
        evidence.add_row(escape(str(class_)), f"{value:.2f}", f"{probability:.1%}")
    return [summary, detail, "", atoms, "", evidence]


def draw_reasons(console: Console, model: DDLClassifier, sample: Any, facts: dict[str, Any], shape: Any) -> Any:
    """Return pictures of a sample, of its reconstruction, and of each atom in its code."""
    from rich.columns import Columns

    images = {"sample": sample, "reconstruction": model.explain(sample[None]).reconstruction[0]}
    atoms = model.scaling_.show(model.components_)
    images |= {
        f"{coefficient:+.2f} x atom {atom}": atoms[atom]
        for atom, coefficient in zip(facts["atoms"], facts["coefficients"], strict=True)
    }
    return Columns(
        [Group(f"[bold]{name}[/]", _draw(image.reshape(shape), console)) for name, image in images.items()],
        padding=(0, 2),
    )


def _draw(image: Any, console: Console) -> str:
    """Return an image as lines of shades, two characters per pixel, since characters are tall."""
    import numpy as np

    if image.ndim == 3:
        image = image.mean(axis=2)
    step = -(-max(image.shape) // _PICTURE_SIDE)
    height, width = (side // step * step for side in image.shape)
    image = image[:height, :width].reshape(height // step, step, width // step, step).mean(axis=(1, 3))
    low, high = np.nanmin(image), np.nanmax(image)
    shades = _SHADES[console.encoding.startswith("utf")]
    levels = np.nan_to_num((image - low) / max(high - low, 1e-12)) * (len(shades) - 1)
    return "\n".join("".join(2 * shades[round(level)] for level in line) for line in levels.tolist())
