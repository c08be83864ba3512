"""The commands; what needs NumPy, scikit-learn or the estimators is imported when a command runs, to keep help fast."""

from __future__ import annotations

import csv
import io
import re
import sys
from collections import Counter
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..files.store import make_sure_of_room, write_atomically
from . import tables
from .options import FLAG, OWN_DEFAULTS, merge_settings, parse_word, read_parameters
from .running import command
from .source import SOURCE_OPTIONS, Source, read_source
from .terminal import Terminal, clean, escape

if TYPE_CHECKING:
    from ..estimators.classifier import DDLClassifier
    from .reading import Samples

_LARGE_PAGE = 10e6  # bytes above which a page is slow to send and to open
_BYTES_AS_TEXT = 16 / 3  # of a float32 value in a page
_OTHER_FORMATS = {".pkl", ".pickle", ".joblib", ".onnx", ".pt", ".h5", ".npz", ".npy", ".csv", ".json", ".html"}
_PRESETS = ("paper", "fast", "accurate")  # written again, since to import the presets takes seconds
_PREDICTION_COLUMNS = ("sample", "prediction", "probability")

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file written by fit.")]
Jobs = Annotated[int, typer.Option("--jobs", "--n-jobs", help="Number of threads; -1 uses all cores.")]
TestSize = Annotated[
    float | None,
    typer.Option("--test-size", metavar="SHARE", help="Hold out this share of the samples, and evaluate."),
]
Folds = Annotated[
    int | None, typer.Option("--cv", metavar="FOLDS", min=2, help="Measure the error by cross-validation.")
]


@command
def fit(
    terminal: Terminal,
    source: Source,
    settings: dict[str, Any],
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="MODEL", help="The file to write; by default DATA's name.safetensors."),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            parser=partial(parse_word, _PRESETS),
            metavar="NAME",
            help="Good options in one word: paper, fast or accurate.",
        ),
    ] = None,
    test_size: TestSize = None,
    cv: Folds = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", hidden=True, help="TOML or JSON with model options; the command line overrides it."
        ),
    ] = None,
    nested: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME.OPTION=VALUE",
            hidden=True,
            help="An option of a part of the model, such as inference.n_candidates=3; can be repeated.",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="PATH", hidden=True, help="Save the state of the fit in this file.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", metavar=FLAG, hidden=True, help="Continue from the checkpoint, if there is one.")
    ] = False,
) -> None:
    """Learn a dictionary and classifiers from labelled samples.

    With --test-size, also evaluate the model on samples held out, and write a report of them beside the model.
    """
    settings = merge_settings(config, settings, nested or ())
    if resume and checkpoint is None:
        raise typer.BadParameter("--resume needs --checkpoint PATH.")
    output = output or _name_model(source.data)
    if output.suffix.lower() in _OTHER_FORMATS:  # before the fit
        raise typer.BadParameter(
            f"model files are safetensors, not {output.suffix}: give a name such as "
            f"{output.with_suffix('.safetensors').name}."
        )
    _check_output(output, source, config, checkpoint)
    if checkpoint is not None:
        _check_output(checkpoint, source, config)
    from ..files.models import save
    from .evaluation import run_trials, split_samples, take_rows
    from .look import list_odd_columns, refuse_missing
    from .model import estimate_bytes, fit_model, make_model, measure_trials, summarize_fit

    samples = _read_to_learn(terminal, source)
    if settings.get("robustness__missing") != "mask":
        refuse_missing(samples, source.data)
    for note in list_odd_columns(samples):
        terminal.note(note)
    make = partial(make_model, settings, samples, preset)
    make_sure_of_room(output, estimate_bytes(make(), samples))
    learned, errors, where = samples, None, ""
    if cv is not None or test_size is not None:
        splits = split_samples(samples, test_size, cv, settings)
    if cv is not None:
        where = f"of {source.data}, in {cv} folds"
        trials = run_trials(terminal, samples, splits, make, "cross-validation")
        errors = measure_trials(terminal, (trial for trial, _ in trials))
    elif test_size is not None:
        learned, held_out = (take_rows(samples, rows) for rows in splits[0])
    model = make()
    seconds = fit_model(terminal, model, learned, checkpoint, resume)
    save(model, output)
    if test_size is not None:
        where = f"held out of {source.data}"
        errors = measure_trials(terminal, [(model, held_out.X, held_out.labels)])
    facts = summarize_fit(source.data, model, settings, seconds) | {"preset": preset, "file": output}
    if errors is not None:
        source_of_error = f"of {errors['n_samples']:,} samples {where}"
        facts |= {"error": errors["error"], "error_source": source_of_error, "evaluate": errors}
    terminal.report(tables.make_fit_table(facts, output.stat().st_size))
    if errors is not None:
        terminal.show("", *tables.make_error_tables(where, errors))
    if test_size is not None:
        page, name = output.with_suffix(".html"), f"{source.data} (held out)"
        facts["report"] = _write_page(terminal, model, held_out, page, output.stem, name, learned)
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
    from .model import load_model, predict_best, read_for_model

    if output is not None:
        _check_output(output, source, model)
    fitted = load_model(model, jobs)
    samples = read_for_model(terminal, fitted, source)
    positions, probabilities = predict_best(terminal, fitted, samples.X)
    predictions = fitted.classes_[positions].tolist()
    names = samples.sample_names or range(len(predictions))
    rows = zip(names, predictions, map(float, probabilities), strict=True)
    if output is not None:
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
    from .look import require_labels
    from .model import load_model, measure_trials, read_for_model

    fitted = load_model(model, jobs)
    samples = read_for_model(terminal, fitted, source)
    labels = require_labels(samples, source.data)
    _warn_of_training_data(terminal, fitted, samples, source.data)
    facts = measure_trials(terminal, [(fitted, samples.X, labels)])
    terminal.show(*tables.make_error_tables(f"of {source.data}", facts))
    terminal.answer({"model": model, "data": source.data} | facts)


@command
def explain(
    terminal: Terminal,
    model: Model,
    source: Source,
    row: Annotated[
        str | None, typer.Option(metavar="ROW", help="The sample: its number, counted from 0, or its file name.")
    ] = None,
    picture: Annotated[bool, typer.Option("--picture", metavar=FLAG, help="Draw images in block characters.")] = False,
    jobs: Jobs = -1,
) -> None:
    """Explain the class of a sample by its atoms and the evidence for each class."""
    from .model import explain_sample, find_row, load_model, read_for_model

    fitted = load_model(model, jobs)
    samples = read_for_model(terminal, fitted, source)
    place = find_row(samples, row, source.data)
    shape = samples.image_shape or fitted.image_shape
    if picture and shape is None:
        raise ValueError(f"--picture needs images, and the samples of {source.data} are not known to be images.")
    facts = explain_sample(fitted, samples, place)
    terminal.show(*tables.make_reason_tables(facts))
    if picture:
        terminal.show("", tables.draw_reasons(terminal.out, fitted, samples.X[place], facts, shape))
    terminal.answer(facts)


@command
def compare(
    terminal: Terminal,
    source: Source,
    only: Annotated[
        list[str] | None, typer.Option(metavar="MODEL", help="Compare only this model, by its name; can be repeated.")
    ] = None,
    test_size: TestSize = None,
    cv: Folds = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="A figure to write: .png, .svg or .pdf.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the splits and the models.")] = OWN_DEFAULTS["random_state"],
    jobs: Jobs = -1,
) -> None:
    """Compare our presets with other classifiers on the same splits, by default five folds."""
    from .evaluation import choose_contenders, compare_models, draw_results, split_samples

    if output is not None:
        _check_output(output, source)
    settings = {"random_state": seed, "n_jobs": jobs}
    samples = _read_to_learn(terminal, source)
    splits = split_samples(samples, test_size, 5 if cv is None and test_size is None else cv, settings)
    results = compare_models(terminal, samples, splits, choose_contenders(samples, settings, only or ()))
    terminal.show(tables.make_comparison_table(results))
    if output is not None:
        draw_results(results, source.data, output)
        terminal.report(f"{escape(str(output))}: errors and their intervals")
    terminal.answer({"data": source.data, "results": [one._asdict() for one in results]})


@command
def look(terminal: Terminal, source: Source) -> None:
    """Show what is in DATA before a fit, and the command to run next."""
    from .look import check_guess, list_odd_columns, look_at

    samples = read_source(terminal, source)
    try:
        check_guess(samples, source.data)
    except ValueError as error:
        terminal.note(str(error))
        samples = samples._replace(labels=None)
    facts = look_at(source, samples)
    terminal.show(*tables.make_look_tables(facts, list_odd_columns(samples)))
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
    from .look import require_labels
    from .model import load_model, match_labels, read_for_model

    _check_page(output, source, model)
    given = [one.opts[0] for one in context.command.params if one.name in SOURCE_OPTIONS and context.params[one.name]]
    if source is None and given:
        raise typer.BadParameter(f"{', '.join(given)} is for reading DATA, but there is none: give it after MODEL.")
    fitted = load_model(model, jobs)
    name = model.name if source is None else source.data
    samples = None if source is None else read_for_model(terminal, fitted, source)
    if samples is not None and samples.labels is not None:
        match_labels(terminal, fitted, require_labels(samples, name))
        _warn_of_training_data(terminal, fitted, samples, name)
    terminal.answer({"model": model} | _write_page(terminal, fitted, samples, output, title or model.stem, name))


@command
def info(terminal: Terminal, model: Model) -> None:
    """Show the content of a model file, the error of the model, and what to do about it."""
    from ..files.format import ModelFileError
    from ..files.models import load, read_model_file
    from .model import refuse_data

    refuse_data(model)
    content, arrays = read_model_file(model)
    defaults = {name: parameter.default for name, parameter in read_parameters().items()}
    stored = content["parameters"]
    given = {name: _simplify(stored[name]) for name in defaults if stored.get(name, defaults[name]) != defaults[name]}
    facts = {"file": model, "bytes": model.stat().st_size, "class": content["class"]}
    facts |= content["summary"] | {"settings": given}
    rows = {name: _to_cell(value) for name, value in facts.items()}
    rows["arrays"] = ", ".join(f"{name} {'x'.join(map(str, array.shape))}" for name, array in sorted(arrays.items()))
    terminal.show(tables.make_facts_table(None, rows))
    try:
        summary = load(model).summary() if content["class"] != "KSVD" else None
    except ModelFileError as error:  # it needs an object of the user
        terminal.note(str(error))
        summary = None
    if summary is not None:
        terminal.show("", escape(str(summary)))
        facts |= {"error": summary.error, "error_source": summary.error_source}
        facts["checks"] = [check._asdict() for check in summary.checks]
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

    from .model import explain_sample, fit_model, make_model, measure_trials, summarize_fit

    if output is not None:
        _check_page(output)
    samples = read_source(terminal, Source("digits"))
    X, X_test, y, y_test = train_test_split(
        samples.X, samples.labels, train_size=1000, stratify=samples.labels, random_state=0
    )
    settings = dict(OWN_DEFAULTS)
    model = make_model(settings, samples)
    seconds = fit_model(terminal, model, samples._replace(X=X, labels=y))
    fit_facts = summarize_fit("1000 digits of scikit-learn", model, settings, seconds)
    errors = measure_trials(terminal, [(model, X_test, y_test)])
    test = samples._replace(X=X_test, labels=y_test)
    reasons = explain_sample(model, test, 0)
    terminal.show(tables.make_fit_table(fit_facts), "", *tables.make_error_tables("of the other digits", errors), "")
    terminal.show(
        *tables.make_reason_tables(reasons), "", tables.draw_reasons(terminal.out, model, X_test[0], reasons, (8, 8))
    )
    terminal.show("")
    facts = {"fit": fit_facts, "evaluate": errors, "explain": reasons}
    if output is not None:
        facts["report"] = _write_page(terminal, model, test, output, "Handwritten digits", "digits of scikit-learn")
    terminal.show("Now with your data: [bold]ddlearn look DATA[/], then [bold]ddlearn fit DATA --test-size 0.2[/]")
    terminal.answer(facts)


def _read_to_learn(terminal: Terminal, source: Source) -> Samples:
    from .look import check_guess, require_labels

    samples = read_source(terminal, source)
    require_labels(samples, source.data)
    check_guess(samples, source.data)
    return samples


def _check_output(output: Path, source: Source | None, *others: Path | None) -> None:
    """Fail before the work, not after it, and before a file is replaced that is read."""
    if not output.parent.is_dir():
        raise typer.BadParameter(f"the folder {output.parent} of {output.name} does not exist: create it first.")
    if output.is_dir():
        raise typer.BadParameter(f"{output} is a folder: give a file name.")
    inputs = [*([] if source is None else source.list_files()), *(other for other in others if other is not None)]
    for one in inputs:
        if output.resolve() == one.resolve():
            raise typer.BadParameter(
                f"{output} is also read by this command, and would be replaced: give another name."
            )
        if one.is_dir() and output.resolve().is_relative_to(one.resolve()):
            raise typer.BadParameter(f"{output} lies in {one}, which this command reads: give another folder by -o.")


def _name_model(data: str) -> Path:
    """Return the default name of a model: that of the data, in this folder."""
    name = Path(data).stem
    is_plain = re.fullmatch(r"[\w.-]+", name)  # not a pattern of files
    return Path(f"{name if is_plain else 'model'}.safetensors")


def _warn_of_training_data(terminal: Terminal, model: DDLClassifier, samples: Samples, name: str) -> None:
    from ..show.summary import is_training_data

    if is_training_data(model, samples.X):
        terminal.note(
            f"Warning: the model was fitted to {name}, so that this error says little about new samples. Measure it "
            "with ddlearn fit --test-size 0.2 or --cv 5."
        )


def _check_page(output: Path, source: Source | None = None, *others: Path) -> None:
    """Fail before a page overwrites a model whose name was given by mistake."""
    if output.suffix.lower() not in (".html", ".htm") and not output.is_dir():
        raise typer.BadParameter(
            f"{output} does not end in .html, but the report is a page for a browser: give a name such as "
            f"{output.with_suffix('.html').name}."
        )
    _check_output(output, source, *others)


def _write_predictions(file: Any, rows: Iterable[tuple[Any, Any, float]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_PREDICTION_COLUMNS)
    writer.writerows((name, prediction, f"{probability:.6g}") for name, prediction, probability in rows)


def _write_page(
    terminal: Terminal,
    model: DDLClassifier,
    samples: Samples | None,
    output: Path,
    title: str,
    name: str,
    learned: Samples | None = None,
) -> dict[str, Any]:
    from ..show.report.writing import write_report

    shown: dict[str, Any] = {}
    if samples is not None:
        shown = {name: getattr(samples, name) for name in ("X", "sample_names", "image_shape")} | {"y": samples.labels}
    if learned is not None:
        shown["training"] = learned.X, learned.labels
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
    match stored:
        case {"type": "strategy", "name": name, "parameters": dict(parameters)}:
            return f"{name}({', '.join(f'{key}={_simplify(value)}' for key, value in parameters.items())})"
        case dict():
            return stored.get("items") or stored.get("class") or stored.get("type")
    return stored


def _to_cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items()) or "all at their defaults"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


COMMANDS = (look, fit, predict, evaluate, explain, report, compare, info, demo)  # in the order of the help
