"""The commands; NumPy, scikit-learn and the estimators are imported where they are needed, to keep help fast."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from . import tables
from .cluster import Address, Workers, count_workers, open_client
from .model import (
    Jobs,
    Model,
    explain_sample,
    fit_model,
    load_model,
    make_model,
    match_labels,
    measure_model,
    predict_best,
    read_for_model,
    summarize_fit,
)
from .options import OWN_DEFAULTS, merge_settings, read_parameters
from .running import command
from .source import SOURCE_OPTIONS, Source, read_source, refuse_parts, require_labels
from .terminal import Terminal, clean, escape

if TYPE_CHECKING:
    from ..estimators.classifier import DDLClassifier
    from .reading import Samples

_LARGE_PAGE = 10e6  # bytes above which a page is slow to send and to open
_BYTES_AS_TEXT = 16 / 3  # of a float32 value in a page
_PREDICTION_COLUMNS = ("sample", "prediction", "probability")


@command
def fit(
    terminal: Terminal,
    source: Source,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="The model file to write.")],
    settings: dict[str, Any],
    nested: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME.OPTION=VALUE",
            help="An option of a part of the model, such as inference.n_candidates=3; can be repeated.",
        ),
    ] = None,
    preset: Annotated[
        Literal["paper", "fast", "accurate"] | None,
        typer.Option(help="A set of model options; a configuration file and the command line override it."),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="TOML or JSON with model options; the command line overrides it."),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Save the state of the fit in this file.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the checkpoint, if there is one.")] = False,
    dask: Address = None,
    workers: Workers = None,
) -> None:
    """Learn a dictionary and classifiers from labelled samples."""
    settings = merge_settings(config, settings, nested or ())
    if resume and checkpoint is None:
        raise typer.BadParameter("--resume needs --checkpoint PATH.")
    _check_output(output, source, config, checkpoint)
    if checkpoint is not None:
        _check_output(checkpoint, source, config)
    n_workers = count_workers(source.data, dask, workers)
    with open_client(terminal, dask, n_workers) as n_threads:
        samples = read_source(terminal, source, n_chunks=n_threads)
        require_labels(samples, source.data)
        model = make_model(settings, samples, preset)
        seconds = fit_model(terminal, model, samples, checkpoint, resume)
    from ..files.models import save

    save(model, output)
    facts = summarize_fit(source.data, model, settings, seconds) | {"preset": preset, "file": output}
    terminal.report(tables.make_fit_table(facts, output.stat().st_size))
    terminal.answer(facts)


@command
def predict(
    terminal: Terminal,
    model: Model,
    source: Source,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="The .csv to write; by default stdout.")
    ] = None,
    jobs: Jobs = -1,
) -> None:
    """Write the class of each sample and its probability as CSV."""
    if output is not None:
        _check_output(output, source, model)
    fitted = load_model(model, jobs)
    samples = read_for_model(terminal, fitted, source)
    positions, probabilities = predict_best(terminal, fitted, samples.X)
    predictions = fitted.classes_[positions].tolist()
    names = samples.sample_names or range(len(predictions))
    rows = zip(names, predictions, map(float, probabilities), strict=True)
    if output is not None:
        from ..files.atomic import write_atomically

        text = io.StringIO()
        _write_predictions(text, rows)
        write_atomically(output, text.getvalue().encode("utf-8", "backslashreplace"))  # file names may be other bytes
        terminal.report(f"{len(predictions):,} predictions written to {escape(str(output))}")
        terminal.answer({"n_samples": len(predictions), "file": output, "counts": Counter(predictions)})
    elif terminal.is_json:
        terminal.answer({"predictions": [dict(zip(_PREDICTION_COLUMNS, row, strict=True)) for row in rows]})
    else:
        shown = ((clean(name), clean(one), share) for name, one, share in rows) if sys.stdout.isatty() else rows
        _write_predictions(sys.stdout, shown)


@command
def evaluate(terminal: Terminal, model: Model, source: Source, jobs: Jobs = -1) -> None:
    """Measure the error on labelled samples, in total and by class."""
    fitted = load_model(model, jobs)
    samples = read_for_model(terminal, fitted, source)
    facts = measure_model(terminal, fitted, samples.X, require_labels(samples, source.data))
    terminal.show(*tables.make_error_tables(source.data, facts))
    terminal.answer({"model": model, "data": source.data} | facts)


@command
def explain(
    terminal: Terminal,
    model: Model,
    source: Source,
    row: Annotated[int, typer.Option(metavar="NUMBER", help="The sample, counted from 0.", min=0)],
    picture: Annotated[bool, typer.Option("--picture", help="Draw images in block characters.")] = False,
    jobs: Jobs = -1,
) -> None:
    """Explain the class of a sample by its atoms and the evidence for each class."""
    refuse_parts(source, "explain")
    fitted = load_model(model, jobs)
    samples = read_for_model(terminal, fitted, source)
    if row >= len(samples.X):
        raise typer.BadParameter(f"--row {row}: {source.data} has {len(samples.X)} samples, 0 to {len(samples.X) - 1}.")
    shape = samples.image_shape or fitted.image_shape
    if picture and shape is None:
        raise ValueError(f"--picture needs images, and the samples of {source.data} are not known to be images.")
    facts = explain_sample(fitted, samples, row)
    terminal.show(*tables.make_reason_tables(facts))
    if picture:
        terminal.show("", tables.draw_reasons(terminal.out, fitted, samples.X[row], facts, shape))
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
    title: Annotated[str | None, typer.Option(metavar="TEXT", help="The title of the page.")] = None,
    jobs: Jobs = -1,
) -> None:
    """Write a page for a browser: errors, atoms, training, and samples to explore or to draw."""
    _check_page(output, source, model)
    if source is not None:
        refuse_parts(source, "report")
    elif given := [one.opts[0] for one in context.command.params if _is_given(one, context)]:
        raise typer.BadParameter(f"{', '.join(given)} is for reading DATA, but there is none: give it after MODEL.")
    fitted = load_model(model, jobs)
    name = model.name if source is None else source.data
    samples = None if source is None else read_for_model(terminal, fitted, source)
    if samples is not None and samples.labels is not None:
        match_labels(terminal, fitted, require_labels(samples, name))
    terminal.answer({"model": model} | _write_page(terminal, fitted, samples, output, title or model.stem, name))


@command
def info(terminal: Terminal, model: Model) -> None:
    """Show the content of a model file."""
    from ..files.models import read_model_file

    content, arrays = read_model_file(model)
    defaults = {name: parameter.default for name, parameter in read_parameters().items()}
    stored = content["parameters"]
    given = {name: _simplify(stored[name]) for name in defaults if stored.get(name, defaults[name]) != defaults[name]}
    facts = {"file": model, "bytes": model.stat().st_size, "class": content["class"]}
    facts |= content["summary"] | {"settings": given}
    rows = {name: _to_cell(value) for name, value in facts.items()}
    rows["arrays"] = ", ".join(f"{name} {'x'.join(map(str, array.shape))}" for name, array in sorted(arrays.items()))
    terminal.show(tables.make_facts_table(None, rows))
    terminal.answer(facts)


@command
def demo(
    terminal: Terminal,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Also write the interactive report, .html.")
    ] = None,
) -> None:
    """Fit, evaluate and explain a model of scikit-learn's digits, in seconds."""
    from sklearn.model_selection import train_test_split

    if output is not None:
        _check_page(output)
    samples = read_source(terminal, Source("digits"))
    X, X_test, y, y_test = train_test_split(
        samples.X, samples.labels, train_size=1000, stratify=samples.labels, random_state=0
    )
    # Short codes are easy to read, and the explorer of the report has pursuits only.
    of_demo = {"sparse_coder": "ormp", "n_nonzero_coefs": 3, "refine": "classifiers", "random_state": 1}
    settings = OWN_DEFAULTS | of_demo
    model = make_model(settings, samples)
    seconds = fit_model(terminal, model, samples._replace(X=X, labels=y))
    fit_facts = summarize_fit("1000 digits of scikit-learn", model, settings, seconds)
    errors = measure_model(terminal, model, X_test, y_test)
    test = samples._replace(X=X_test, labels=y_test)
    reasons = explain_sample(model, test, 0)
    terminal.show(tables.make_fit_table(fit_facts), "", *tables.make_error_tables("the other digits", errors), "")
    terminal.show(
        *tables.make_reason_tables(reasons), "", tables.draw_reasons(terminal.out, model, X_test[0], reasons, (8, 8))
    )
    terminal.show("")
    facts = {"fit": fit_facts, "evaluate": errors, "explain": reasons}
    if output is not None:
        facts["report"] = _write_page(terminal, model, test, output, "Handwritten digits", "digits of scikit-learn")
    terminal.show("Now with your data: [bold]ddlearn fit DATA -o model.safetensors[/]")
    terminal.answer(facts)


@command
def datasets(terminal: Terminal) -> None:
    """List the data sets that DATA can name, where they are, and how to get the others."""
    from ..datasets import find_datasets
    from .reading import NAMED_SETS

    found = find_datasets()
    shown = tables.make_table(None, ("name", "DATA", "where", "size", "checksum"), n_text=3)
    for name, (_, all_parts) in NAMED_SETS.items():
        facts, parts = found[name], ", ".join(f"{name}:{part}" if part else name for part in all_parts)
        size = "" if facts["bytes"] is None else f"{facts['bytes'] / 1e6:.1f} MB"
        shown.add_row(name, parts, escape(facts["where"] or "missing"), size, escape(facts["checksum"]))
    terminal.show(shown)
    for facts in found.values():
        if facts["advice"]:
            terminal.show("", escape(facts["advice"]))
    terminal.answer(found)


def _check_output(output: Path, source: Source | None, *others: Path | None) -> None:
    """Fail before the work, not after it, and before a file is replaced that is read."""
    if not output.parent.is_dir():
        raise typer.BadParameter(f"the folder {output.parent} of {output.name} does not exist: create it first.")
    if output.is_dir():
        raise typer.BadParameter(f"{output} is a folder: give a file name.")
    inputs = [*([] if source is None else source.list_files()), *(other for other in others if other is not None)]
    if output.resolve() in {one.resolve() for one in inputs}:
        raise typer.BadParameter(f"{output} is also read by this command, and would be replaced: give another name.")


def _check_page(output: Path, source: Source | None = None, *others: Path) -> None:
    """Fail before a page overwrites a model whose name was given by mistake."""
    _check_output(output, source, *others)
    if output.suffix.lower() not in (".html", ".htm"):
        raise typer.BadParameter(
            f"{output} does not end in .html, but the report is a page for a browser: give a name such as "
            f"{output.with_suffix('.html').name}."
        )


def _is_given(option: Any, context: typer.Context) -> bool:
    return option.name in SOURCE_OPTIONS and context.params[option.name] not in (None, False)


def _write_predictions(file: Any, rows: Iterable[tuple[Any, Any, float]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_PREDICTION_COLUMNS)
    writer.writerows((name, prediction, f"{probability:.6g}") for name, prediction, probability in rows)


def _write_page(
    terminal: Terminal, model: DDLClassifier, samples: Samples | None, output: Path, title: str, name: str
) -> dict[str, Any]:
    from ..show.report.writing import write_report

    shown: dict[str, Any] = {}
    if samples is not None:
        shown = {name: getattr(samples, name) for name in ("X", "sample_names", "image_shape")} | {"y": samples.labels}
    with terminal.progress() as bar:
        bar.add_task(f"writing {escape(str(output))}", total=None)
        write_report(model, output, **shown, title=title, data_name=name)
    n_bytes = output.stat().st_size
    terminal.report(f"{escape(str(output))} ({n_bytes / 1e6:.1f} MB): open it in a browser.")
    if n_bytes > _LARGE_PAGE:
        n_atoms, n_features = len(model.components_), model.n_features_in_
        terminal.note(
            f"The page is large because its dictionary of {n_atoms:,} atoms x {n_features:,} features takes "
            f"{n_atoms * n_features * _BYTES_AS_TEXT / 1e6:.1f} MB: fewer atoms or smaller images make it smaller."
        )
    return {"file": output, "bytes": n_bytes}


def _simplify(stored: Any) -> Any:
    """Return a stored parameter as text: a tuple as its items, an object as its name and parameters."""
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


COMMANDS = (fit, predict, evaluate, explain, report, info, demo, datasets)  # in the order of the help
