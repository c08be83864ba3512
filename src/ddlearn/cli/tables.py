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
    settings = [*preset, *(f"{name}={value}" for name, value in facts["settings"].items())]
    column = "" if facts["label_column"] is None else f"; labels from column {facts['label_column']!r}"
    error = "not measured: use --test-size 0.2 or --cv 5, or ddlearn evaluate with other samples"
    if facts["error"] is not None:
        error = f"{facts['error']:.2%} {facts['error_source']}"
    rows = {"file": facts["data"]} | facts["summary"] | {"settings": ", ".join(settings), "error": error}
    rows["data"] += column
    rows["time"] = f"{facts['seconds']:.1f} s"
    if n_bytes is not None:
        rows["model"] = f"{facts['file']} ({n_bytes / 1e6:.1f} MB)"
    return make_facts_table("Fitted", rows)


def make_error_tables(where: str, facts: dict[str, Any]) -> list[Any]:
    """Return the error, a table of the classes and one of the confusions; ``where`` is such as "of digits"."""
    low, high = facts["error_interval"]
    summary = (
        f"[bold]Error {facts['error']:.2%}[/] (95 % interval {low:.2%} to {high:.2%}): "
        f"{facts['n_wrong']:,} of {facts['n_samples']:,} samples {escape(where)} are misclassified\n"
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
    votes = {"votes_for_prediction": prediction, "votes_for_runner_up": runner_up}
    if "votes_for_label" in facts:
        votes["votes_for_label"] = f"{escape(str(facts['label']))}, its label"
    atoms = make_table("Atoms", ("atom", "coefficient", *(f"vote for {name}" for name in votes.values())), n_text=0)
    for values in zip(*(facts[name] for name in ("atoms", "coefficients", *votes)), strict=True):
        atoms.add_row(str(values[0]), *(f"{value:.3f}" for value in values[1:]))
    columns = ("class", "votes", "intercept", "score", "class cost", "evidence", "probability")
    evidence = make_table("From votes to evidence", columns)
    places = sorted(range(len(facts["classes"])), key=lambda place: -facts["evidence"][place])
    for place in places[:_MAX_CLASSES]:
        sums = [float(facts[name][place]) for name in ("votes", "intercept", "class_cost", "evidence")]
        numbers = [sums[0], sums[1], sums[0] + sums[1], sums[2], sums[3]]
        is_label = facts["label"] is not None and str(facts["classes"][place]) == str(facts["label"])
        name = escape(str(facts["classes"][place])) + (" (its label)" if is_label else "")
        evidence.add_row(name, *(f"{number:.3g}" for number in numbers), f"{facts['probability'][place]:.1%}")
    how = (
        "The score is the sum of votes and intercept. Evidence is the cost of the opposite score less that of the "
        "score, divided by the class cost. Probabilities are the softmax of the evidence."
    )
    if not facts["is_direct"]:
        how += " This model adds the evidence of other views or codes of the sample, so that it differs from the score."
    return [summary, detail, "", atoms, "", evidence, how]


def make_comparison_table(results: Iterable[Any]) -> Table:
    """Return the errors of models on the same samples."""
    columns = ("model", "error", "95 % interval", "beside ddlearn", "95 % interval", "fit", "predict 1000")
    table = make_table("Errors on samples not learned from", columns)
    for one in results:
        low, high = one.error_interval
        gap = ("", "")
        if one.difference is not None:
            below, above = one.difference_interval
            colour = "red" if below > 0 else "green" if above < 0 else "none"
            gap = f"[{colour}]{100 * one.difference:+.2f}[/]", f"{100 * below:+.2f} to {100 * above:+.2f}"
        times = f"{one.fit_seconds:.2g} s", f"{one.predict_seconds:.2g} s"
        table.add_row(one.name, f"{one.error:.2%}", f"{low:.2%} to {high:.2%}", *gap, *times)
    return table


def make_look_tables(facts: dict[str, Any], notes: list[str]) -> list[Any]:
    """Return what is in the samples: facts, and a table of the classes."""
    scale, shape = facts["scale"], facts["image_shape"]
    kind = "" if shape is None else f", images of {' x '.join(map(str, shape))}"
    rows = {"samples": f"{facts['n_samples']:,} of {facts['n_features']:,} features{kind}"}
    classes = facts.get("classes", {})
    if classes:
        column = "" if facts["label_column"] is None else f", from column {facts['label_column']!r}"
        rows["classes"] = f"{len(classes)}{column}; {min(classes.values()):,} to {max(classes.values()):,} samples each"
    else:
        rows["classes"] = "no labels"
    rows["missing"] = f"{facts['n_missing']:,} values, in {facts['n_incomplete_samples']:,} samples"
    rows["copies"] = f"{facts['n_copies']:,} samples are copies of others"
    if facts["n_contradictions"]:
        rows["copies"] += f"; {facts['n_contradictions']:,} times with another label"
    rows["values"] = f"{scale['smallest']:.4g} to {scale['largest']:.4g}"
    if shape is None:
        rows["values"] += f"; spreads of features differ by up to a factor of {scale['ratio_of_spreads']:.2g}"
        rows["values"] += " (the model scales them)" if scale["ratio_of_spreads"] > 10 else ""
    shown: list[Any] = [make_facts_table(facts["data"], rows)]
    if 1 < len(classes) <= _MAX_CLASSES:
        table = make_table("Classes", ("class", "samples", "share"))
        for name, size in sorted(classes.items(), key=lambda pair: -pair[1]):
            table.add_row(escape(str(name)), f"{size:,}", f"{size / facts['n_samples']:.1%}")
        shown += ["", table]
    return [*shown, *(["", *map(escape, notes)] if notes else []), "", f"Next: [bold]{escape(facts['next'])}[/]"]


def draw_reasons(console: Console, model: DDLClassifier, sample: Any, facts: dict[str, Any], shape: Any) -> Any:
    """Return pictures of a sample, of its reconstruction, and of each atom in its code."""
    from rich.columns import Columns

    images = {"sample": sample, "reconstruction": model.explain(sample[None]).reconstruction[0]}
    atoms = model.description_.show(model.components_)
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
