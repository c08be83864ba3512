"""The commands: fit, predict, evaluate, explain, report, info, demo, datasets, reproduce.

Each reads, works and shows; how, is in the other files.  NumPy, scikit-learn and the package itself are imported by the
commands that need them: help must not wait for them.
"""

from __future__ import annotations

import csv
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.markup import escape

from .cluster import (
    Address,
    Workers,
    choose_cluster,
    choose_update,
    open_client,
)
from .config import merge_settings
from .facts import (
    collect_errors,
    collect_fit_facts,
    collect_reasons,
    match_labels,
)
from .model import (
    Jobs,
    Model,
    fit_model,
    load_model,
    make_model,
    name_features,
    predict_best,
    read_for_model,
)
from .options import OWN_DEFAULTS, read_parameters
from .pictures import draw_reasons, write_page
from .running import command
from .source import (
    SOURCE_OPTIONS,
    Source,
    load_labels,
    read_source,
    refuse_parts,
    require_labels,
)
from .tables import (
    make_error_tables,
    make_facts_table,
    make_fit_table,
    make_reason_tables,
    make_table,
)
from .terminal import Terminal

# Those of ``reproduction.reproduction``, which takes a second to import.
EXPERIMENTS = (
    *("losses", "usps", "usps_chosen", "parameters", "mnist", "yaleb", "claims", "ablation", "tuning", "all"),
    *("beyond", "faces", "alignment", "pictures"),
)
_PAGES = frozenset({".html", ".htm"})  # what browsers open
_PREDICTION_COLUMNS = ("sample", "prediction", "probability")


@command
def fit(
    terminal: Terminal,
    source: Source,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="The file to write.")],
    settings: dict[str, Any],
    preset: Annotated[
        Literal["paper", "fast", "accurate"] | None,
        typer.Option(help="Good model options in one word; a configuration file and the command line win."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML or JSON with model options; the command line wins.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Keep the state of the fit in this file.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint, if there is one.")] = False,
    dask: Address = None,
    workers: Workers = None,
) -> None:
    """Learn a dictionary and classifiers from labelled samples."""
    settings = merge_settings(config, settings)
    if resume and checkpoint is None:
        raise typer.BadParameter("--resume needs --checkpoint PATH.")
    _check_folder(output)
    cluster = choose_cluster(source.data, dask, workers)
    if cluster is not None:
        settings = choose_update(terminal, settings)
    with open_client(terminal, cluster) as n_places:
        samples = read_source(terminal, source, n_places=n_places)
        y = require_labels(samples, source.data)
        model = make_model(settings, samples, preset)
        seconds = fit_model(terminal, model, samples.X, y, checkpoint, resume)
    name_features(model, samples.feature_names)
    from ..files.models import save

    save(model, output)
    facts = collect_fit_facts(source.data, model, settings, seconds) | {"preset": preset, "file": output}
    terminal.report(make_fit_table(facts, output.stat().st_size))
    terminal.answer(facts)


@command
def predict(
    terminal: Terminal,
    model: Model,
    source: Source,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="A .csv to write; by default stdout.")
    ] = None,
    jobs: Jobs = -1,
) -> None:
    """Write the class of each sample, and its probability, as CSV."""
    if output is not None:
        _check_folder(output)
    fitted = load_model(model, jobs)
    samples = read_for_model(terminal, fitted, source)
    positions, probabilities = predict_best(terminal, fitted, samples.X)
    classes = fitted.classes_.tolist()
    n_samples = len(positions)
    rows = zip(
        samples.sample_names or range(n_samples),
        (classes[position] for position in positions),
        map(float, probabilities),
        strict=True,
    )
    if output is not None:
        with output.open("w", encoding="utf-8", newline="") as file:
            _write_predictions(file, rows)
        terminal.report(f"{n_samples:,} predictions written to {escape(str(output))}")
        counts = Counter(classes[position] for position in positions)
        terminal.answer({"n_samples": n_samples, "file": output, "counts": counts})
    elif terminal.is_json:
        terminal.answer({"predictions": [dict(zip(_PREDICTION_COLUMNS, row, strict=True)) for row in rows]})
    else:
        _write_predictions(sys.stdout, rows)


@command
def evaluate(terminal: Terminal, model: Model, source: Source, jobs: Jobs = -1) -> None:
    """Measure the error on labelled samples, class by class."""
    fitted = load_model(model, jobs)
    samples = load_labels(read_for_model(terminal, fitted, source))
    facts = collect_errors(terminal, fitted, samples.X, require_labels(samples, source.data))
    terminal.show(*make_error_tables(source.data, facts))
    terminal.answer({"model": model, "data": source.data} | facts)


@command
def explain(
    terminal: Terminal,
    model: Model,
    source: Source,
    row: Annotated[int, typer.Option(metavar="NUMBER", help="Which sample, counted from 0.", min=0)],
    picture: Annotated[bool, typer.Option("--picture", help="Draw images in block characters.")] = False,
    jobs: Jobs = -1,
) -> None:
    """Show why a sample gets its class: its atoms, and the evidence for each class."""
    refuse_parts(source, "explain")
    fitted = load_model(model, jobs)
    samples = read_for_model(terminal, fitted, source)
    if row >= len(samples.X):
        raise typer.BadParameter(f"--row {row}: {source.data} has {len(samples.X)} samples, 0 to {len(samples.X) - 1}.")
    shape = samples.image_shape or fitted.image_shape
    if picture and shape is None:
        raise ValueError(f"{source.data} is not known to hold images: --picture needs images.")
    facts = collect_reasons(fitted, samples, row)
    terminal.show(*make_reason_tables(facts))
    if picture:
        terminal.show("", draw_reasons(terminal.out, fitted, samples.X[row], facts, shape))
    terminal.answer(facts)


@command
def report(
    terminal: Terminal,
    context: typer.Context,
    model: Model,
    source: Source | None = None,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The page to write, .html.")] = Path(
        "report.html"
    ),
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="What stands above the page.")] = None,
    jobs: Jobs = -1,
) -> None:
    """Write a page for a browser: errors, atoms, training, and samples to explore, or to draw."""
    _check_page(output)
    if source is None:
        _refuse_options_of_data(context)
    else:
        refuse_parts(source, "report")
    name = model.name if source is None else source.data
    fitted = load_model(model, jobs)
    samples = None if source is None else read_for_model(terminal, fitted, source)
    if samples is not None and samples.labels is not None:
        match_labels(terminal, fitted, require_labels(samples, name))
    facts = write_page(terminal, fitted, samples, output, title or model.stem, name)
    terminal.answer({"model": model} | facts)


@command
def info(terminal: Terminal, model: Model) -> None:
    """Show what is in a model file."""
    from ..files.format import MODEL, read_container

    content, arrays = read_container(model, MODEL)
    given = {
        name: _simplify(content["parameters"][name])
        for name, parameter in read_parameters().items()
        if content["parameters"].get(name, parameter.default) != parameter.default
    }
    facts = {"file": model, "bytes": model.stat().st_size, "class": content["class"]}
    facts |= content["summary"] | {"settings": given}
    rows = {name: _to_cell(value) for name, value in facts.items()}
    rows["arrays"] = ", ".join(f"{name} {'x'.join(map(str, array.shape))}" for name, array in sorted(arrays.items()))
    terminal.show(make_facts_table(None, rows))
    terminal.answer(facts)


@command
def demo(
    terminal: Terminal,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the interactive report too, .html.")
    ] = None,
) -> None:
    """Learn scikit-learn's digits and show all of it, in seconds."""
    from sklearn.model_selection import train_test_split

    if output is not None:
        _check_page(output)
    samples = read_source(terminal, Source("digits", None, None, None, False, False))
    X, X_test, y, y_test = train_test_split(
        samples.X, samples.labels, train_size=1000, stratify=samples.labels, random_state=0
    )
    # Three atoms a digit, so that its code is read at a glance.
    settings = {"n_nonzero_coefs": 3, "n_jobs": OWN_DEFAULTS["n_jobs"], "random_state": 0}
    model = make_model(settings, samples)
    seconds = fit_model(terminal, model, X, y)
    fit_facts = collect_fit_facts("1000 digits of scikit-learn", model, settings, seconds)
    errors = collect_errors(terminal, model, X_test, y_test)
    test = samples._replace(X=X_test, labels=y_test)
    reasons = collect_reasons(model, test, 0)
    terminal.show(make_fit_table(fit_facts), "", *make_error_tables("the other digits", errors), "")
    terminal.show(*make_reason_tables(reasons), "", draw_reasons(terminal.out, model, X_test[0], reasons, (8, 8)))
    terminal.show("")
    facts = {"fit": fit_facts, "evaluate": errors, "explain": reasons}
    if output is not None:
        facts["report"] = write_page(terminal, model, test, output, "Handwritten digits", "digits of scikit-learn")
    terminal.show("Now with data of yours: [bold]ddlearn fit DATA -o model.safetensors[/]")
    terminal.answer(facts)


@command
def datasets(terminal: Terminal) -> None:
    """List the data sets that DATA can name: which are here, and how to get the others."""
    from ..datasets import find_datasets
    from .reading.named import NAMED_SETS

    found = find_datasets()
    table = make_table(None, ("name", "ask for", "where", "size", "checksum"), n_text=3)
    for name, (_, all_parts) in NAMED_SETS.items():
        facts, parts = found[name], ", ".join(f"{name}:{part}" if part else name for part in all_parts)
        size = "" if facts["bytes"] is None else f"{facts['bytes'] / 1e6:.1f} MB"
        table.add_row(name, parts, escape(facts["where"] or "not here"), size, escape(facts["checksum"]))
    terminal.show(table)
    for facts in found.values():
        if facts["advice"]:
            terminal.show("", escape(facts["advice"]))
    terminal.answer(found)


@command
def reproduce(
    terminal: Terminal,
    experiment: Annotated[str, typer.Argument(metavar="EXPERIMENT", help=f"One of {', '.join(EXPERIMENTS)}.")],
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where tables, figures and finished cells go.")
    ] = Path("results"),
    quick: Annotated[
        bool, typer.Option("--quick", help="A small run of minutes, in a folder of its own inside the output.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="PART", help="Of beyond: a data set (usps), or one of its methods (usps:svm)."),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", help="Cells measured at once; -1 is one a core.")] = -1,
) -> None:
    """Measure the paper's figures and tables again; what was interrupted goes on where it was."""
    if experiment not in EXPERIMENTS:
        raise typer.BadParameter(f"{experiment!r} is not known; choose one of {', '.join(EXPERIMENTS)}.")
    from ..experiments.reproduction import FULL, QUICK, list_new_cells
    from ..experiments.reproduction import reproduce as run

    folder = output / "quick" if quick else output
    with terminal.show_log("reproduction"):
        scale = QUICK if quick else FULL
        records = run(experiment, folder, scale=scale, only=only or (), n_jobs=1, n_processes=jobs)
    cells = [record for of_one in list_new_cells(records).values() for record in of_one]
    n_cells, seconds = len(cells), sum(record["seconds"] for record in cells)
    terminal.report(f"{n_cells} cells, {seconds / 60:.1f} minutes of work; see {escape(str(folder))}.")
    terminal.answer({"experiments": list(records), "folder": folder, "n_cells": n_cells, "seconds": seconds})


def _check_folder(output: Path) -> None:
    """Fail before the work, not after it."""
    if not output.parent.is_dir():
        raise typer.BadParameter(f"the folder {output.parent} of {output.name} does not exist: create it first.")
    if output.is_dir():
        raise typer.BadParameter(f"{output} is a folder: name a file.")


def _check_page(output: Path) -> None:
    """Fail before the work, and before a page takes the place of a model whose name was given by mistake."""
    _check_folder(output)
    if output.suffix.lower() not in _PAGES:
        raise typer.BadParameter(
            f"{output} does not end in .html, but the report is a page for a browser: give a name such as "
            f"{output.with_suffix('.html').name}."
        )


def _refuse_options_of_data(context: typer.Context) -> None:
    """Fail for options that say how DATA is read, where there is none."""
    given = [
        option.opts[0]
        for option in context.command.params
        if option.name in SOURCE_OPTIONS and context.params[option.name] not in (None, False)
    ]
    if given:
        raise typer.BadParameter(f"{', '.join(given)} tells how DATA is read, but there is none: give it after MODEL.")


def _write_predictions(file: Any, rows: Iterable[tuple[Any, Any, float]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_PREDICTION_COLUMNS)
    writer.writerows((name, prediction, f"{probability:.6g}") for name, prediction, probability in rows)


def _simplify(stored: Any) -> Any:
    """Return a stored parameter as people write it: a tuple by its items, an object by its name and parameters."""
    if not isinstance(stored, dict):
        return stored
    if stored["type"] == "strategy":
        parameters = ", ".join(f"{name}={_simplify(value)}" for name, value in stored["parameters"].items())
        return f"{stored['name']}({parameters})"
    return stored.get("items") or stored.get("class") or stored["type"]


def _to_cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items()) or "all at their defaults"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


COMMANDS = (fit, predict, evaluate, explain, report, info, demo, datasets, reproduce)  # in the order of the help
