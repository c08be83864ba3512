"""How facts look: tables, and the sentences above them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from rich.markup import escape
from rich.table import Table

_MOST_CLASSES = 15  # in a confusion matrix; of more classes only the worst confusions are shown


def make_table(title: str | None, columns: Iterable[str], *, n_text: int = 1) -> Table:
    """Return a table whose first columns are text, and whose others are numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < n_text else "right", overflow="fold")
    return table


def make_facts_table(title: str | None, facts: dict[str, str]) -> Table:
    """Return a table with a row for each fact."""
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, escape(value))
    return table


def make_fit_table(facts: dict[str, Any], n_bytes: int | None = None) -> Table:
    """Return how a fit went, with the size of its file if there is one."""
    preset = [] if facts.get("preset") is None else [f"preset {facts['preset']}"]
    settings = ", ".join([*preset, *(f"{name}={value}" for name, value in facts["settings"].items())])
    end = ", the objective has settled" if facts["converged"] else f" of {facts['max_iter']}, not settled yet"
    rows = {
        "data": f"{facts['data']}: {facts['n_samples']:,} samples, {facts['n_features']:,} features, "
        f"{len(facts['classes'])} classes",
        "settings": settings,
        "dictionary": f"{facts['n_components']} atoms, at most {facts['n_nonzero_coefs']} in a code",
        "iterations": f"{facts['n_iter']}{end}",
        "objective": f"{facts['objective']:,.0f}",
        "training error": f"{facts['training_error']:.2%} (codes that saw the labels)",
        "label-free error": f"{facts['label_free_error']:.2%} (training samples coded as new ones are)",
    }
    if "refinement" in facts:
        rows["refinement"] = _describe_refinement(facts["refinement"])
    rows["time"] = f"{facts['seconds']:.1f} s"
    if n_bytes is not None:
        rows["file"] = f"{facts['file']} ({n_bytes / 1e6:.1f} MB)"
    return make_facts_table("Fitted", rows)


def _describe_refinement(facts: dict[str, Any]) -> str:
    epochs = f"{facts['n_epochs']} epochs, the model after epoch {facts['best_epoch']} is kept"
    if math.isnan(facts["validation_error"]):
        return epochs
    return (
        f"{epochs}: held-out error {facts['validation_error']:.2%}, before refinement "
        f"{facts['validation_error_before']:.2%}"
    )


def make_error_tables(data: str, facts: dict[str, Any]) -> list[Any]:
    """Return the error, a table of the classes and one of their confusions."""
    low, high = facts["error_interval"]
    summary = (
        f"[bold]Error {facts['error']:.2%}[/] (95 % interval {low:.2%} to {high:.2%}): "
        f"{facts['n_wrong']:,} of {facts['n_samples']:,} samples of {escape(data)} are wrong"
    )
    table = make_table("Classes", ("class", "samples", "error", "precision", "recall", "F1"))
    names = [escape(str(name)) for name in facts["classes"].tolist()]
    for name, support, *scores in zip(
        names, facts["n_samples_of_class"], facts["precision"], facts["recall"], facts["f1"], strict=True
    ):
        precision, recall, f1 = map(float, scores)
        table.add_row(name, f"{support:,}", *map(_percent, (1 - recall, precision, recall, f1)))
    return [summary, "", table, "", _make_confusion_table(names, facts["confusion"])]


def _percent(share: float) -> str:
    return "-" if math.isnan(share) else f"{share:.1%}"


def _make_confusion_table(names: list[str], confusion: Any) -> Table:
    if len(names) > _MOST_CLASSES:
        worst = sorted(
            ((int(confusion[i, j]), names[i], names[j]) for i, j in zip(*confusion.nonzero(), strict=True) if i != j),
            reverse=True,
        )
        table = make_table("Most frequent confusions", ("class", "taken for", "samples"), n_text=2)
        for count, truth, prediction in worst[:10]:
            table.add_row(truth, prediction, str(count))
        return table
    table = make_table("Confusion: one row for each class, one column for each prediction", ("", *names))
    for i, name in enumerate(names):
        cells = [str(count) if count else "·" for count in confusion[i].tolist()]
        if confusion[i, i]:
            cells[i] = f"[bold green]{cells[i]}[/]"
        table.add_row(f"[bold]{name}[/]", *cells)
    return table


def make_reason_tables(facts: dict[str, Any]) -> list[Any]:
    """Return why a sample gets its class: a table of its atoms and one of the evidence."""
    prediction, runner_up = (escape(str(facts[name])) for name in ("prediction", "runner_up"))
    truth = "" if facts["label"] is None else f" (its label is {escape(str(facts['label']))})"
    summary = f"Sample {escape(facts['sample'])} is taken for [bold]{prediction}[/]{truth}."
    detail = f"{len(facts['atoms'])} atoms explain {facts['explained']:.1%} of its energy."
    for kind in ("wrong", "missing"):
        if facts[f"n_{kind}_features"]:
            detail += f" {facts[f'n_{kind}_features']} features are {kind}, and left out."
    atoms = make_table("Atoms", ("atom", "coefficient", f"vote for {prediction}", f"vote for {runner_up}"), n_text=0)
    for values in zip(
        *(facts[name] for name in ("atoms", "coefficients", "votes_for_prediction", "votes_for_runner_up")), strict=True
    ):
        atoms.add_row(str(values[0]), *(f"{value:.3f}" for value in values[1:]))
    evidence = make_table("Evidence", ("class", "evidence", "probability"))
    ranked = sorted(zip(facts["evidence"], facts["classes"], facts["probability"], strict=True), reverse=True)
    for value, class_, probability in ranked[:_MOST_CLASSES]:
        evidence.add_row(escape(str(class_)), f"{value:.2f}", f"{probability:.1%}")
    return [summary, detail, "", atoms, "", evidence]
