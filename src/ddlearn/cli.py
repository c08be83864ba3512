"""The command ``ddlearn``: fit, predict, evaluate, explain, info, demo, datasets.

The options of ``fit`` are the parameters of :class:`~ddlearn.DDLClassifier`, read from its source, so that they cannot
differ from it.  NumPy, scikit-learn and the package itself are imported by the commands that need them: help must not
wait for them.  Results go to stdout, progress, notes and errors to stderr.

In order: the options, what all commands share, data and models, what a model tells (a dictionary of facts, which
--json prints), how facts look, and the commands.
"""

from __future__ import annotations

import ast
import csv
import difflib
import functools
import inspect
import json
import math
import os
import re
import sys
import textwrap
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, NoReturn

try:
    import typer
    from rich.console import Console, Group
    from rich.markup import escape
    from rich.table import Table
except ModuleNotFoundError as error:  # nobody imports this file but to run it
    raise SystemExit(f'The command line needs {error.name}: pip install "ddlearn[cli]"') from error

if TYPE_CHECKING:
    from .estimator import DDLClassifier
    from .reading import Samples

__all__ = ["main"]

INTERRUPTED = 130  # what shells report for a command ended by Ctrl-C
_SECONDS_TO_WAIT = 2  # before a progress bar appears
_ROWS_AT_ONCE = 4096  # between two steps of the progress bar of a prediction
_WIDTH_OF_PIPES = 120  # of tables, where there is no terminal that has a width
_MOST_CLASSES = 15  # in a confusion matrix; of more classes only the worst confusions are shown
_PREDICTION_COLUMNS = ("sample", "prediction", "probability")
_PICTURE_SIDE = 16  # pixels of a picture in the terminal, at most
_SHADES = {True: " ░▒▓█", False: " .+#@"}  # by whether the terminal knows Unicode

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Discriminative dictionary learning: fit a classifier to images or tables, use it, and see why it decides.",
)


# The parameters of DDLClassifier as options ---------------------------------------------------------------------------


class Parameter(NamedTuple):
    """A parameter of DDLClassifier, as its source tells it."""

    name: str
    kind: str
    default: Any
    description: str
    choices: tuple[str, ...]  # all texts that it may be, or none if the docstring does not list them

    def check(self, value: Any, place: str) -> Any:
        """Return a value of a configuration file as the constructor takes it, or say what is wrong."""
        if self.kind == "tuple[int, int]":
            return _parse_size("x".join(map(str, value)) if isinstance(value, list) else str(value))
        expected = _VALUE_TYPES[self.kind]
        if not isinstance(value, expected) or (isinstance(value, bool) and bool not in expected):
            names = " or ".join(type_.__name__ for type_ in expected)
            raise typer.BadParameter(f"{place}: {self.name} = {value!r}, but it must be {names}.")
        if self.choices and value not in self.choices:
            raise typer.BadParameter(f"{place}: {self.name} = {value!r}, but it must be one of {self.choices}.")
        return value


# By the first type of an annotation: what a configuration file may hold.
_VALUE_TYPES: dict[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "Any": (str, int, float),
}
# Other names, as short as people type them.
_ALIASES = {"random_state": "seed", "n_jobs": "jobs"}
# A program is alone on its machine more often than a library is.
_OWN_DEFAULTS = {"n_jobs": -1}
# There is no earlier fit to go on from (see --resume), and no command that gives out codes.
_NO_OPTIONS = frozenset({"warm_start", "sparse_output"})


@functools.cache
def read_parameters() -> dict[str, Parameter]:
    """Read the constructor of DDLClassifier from its source: to import it would take seconds."""
    tree = ast.parse(Path(__file__).with_name("estimator.py").read_text(encoding="utf-8"))
    class_ = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "DDLClassifier")
    constructor = next(node for node in class_.body if isinstance(node, ast.FunctionDef) and node.name == "__init__")
    described = _read_descriptions(ast.get_docstring(class_) or "")
    arguments = [*constructor.args.args[1:], *constructor.args.kwonlyargs]
    defaults = [*constructor.args.defaults, *constructor.args.kw_defaults]
    return {
        argument.arg: Parameter(
            argument.arg,
            ast.unparse(argument.annotation).split(" | ")[0] if argument.annotation else "Any",
            _OWN_DEFAULTS.get(argument.arg, ast.literal_eval(default) if default else None),
            *described[argument.arg],
        )
        for argument, default in zip(arguments, defaults, strict=True)
        if argument.arg not in _NO_OPTIONS
    }


def _read_descriptions(docstring: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return what a numpydoc docstring says of each parameter, in one line of plain text, and its choices."""
    section = re.split(r"\n\n?(?:Parameters|Attributes)\n-+\n", docstring)[1]
    entries = re.findall(r"^(\w+) : (.*)\n((?:[ \t]+.*\n?|\n)+)", section + "\n", re.MULTILINE)
    return {name: (_to_plain_text(text), _list_choices(type_)) for name, type_, text in entries}


def _list_choices(type_: str) -> tuple[str, ...]:
    """Return the texts that a numpydoc type such as '{"omp", "ormp"} or SparseCoder' lists."""
    choices = re.match(r"\{(.*?)\}", type_)
    return ast.literal_eval(f"({choices[1]},)") if choices else ()


def _to_plain_text(text: str) -> str:
    text = re.sub(r":\w+:`~?([^`]*)`|``([^`]*)``", lambda match: match[1] or match[2], text)
    text = re.sub(r",\s+or\s+an\s+object", "", text)  # which a command line cannot give
    return " ".join(textwrap.dedent(text).split())


def _make_option(parameter: Parameter) -> inspect.Parameter:
    """Return a parameter for typer; None means that the option was not given."""
    flag = parameter.name.replace("_", "-")
    names = [f"--{flag}"]
    if parameter.name in _ALIASES:
        names.insert(0, f"--{_ALIASES[parameter.name]}")
    types: dict[str, Any] = {"int": int, "bool": bool}
    parsers: dict[str, Callable[[str], Any]] = {"float": _parse_number, "tuple[int, int]": _parse_size}
    if parameter.kind == "bool":
        names = [f"--{flag}/--no-{flag}"]
    option = typer.Option(
        *names,
        parser=parsers.get(parameter.kind),
        metavar={"float": "NUMBER", "tuple[int, int]": "HxW"}.get(parameter.kind),
        help=escape(parameter.description),
        show_default=False if parameter.default is None else str(parameter.default),
        rich_help_panel="Model (the parameters of DDLClassifier)",
    )
    type_: Any = Literal.__getitem__(parameter.choices) if parameter.choices else types.get(parameter.kind, str)
    return inspect.Parameter(
        parameter.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[type_ | None, option]
    )


def _parse_number(text: str) -> int | float:
    """Return an integer where there is one: to error_budget, 1 and 1.0 are different."""
    try:
        return int(text) if re.fullmatch(r"[+-]?\d+", text) else float(text)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not a number.") from None


def _parse_size(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"([1-9]\d{0,4})x([1-9]\d{0,4})", text)
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a height and a width in pixels, such as 32x24.")
    return int(match[1]), int(match[2])


def _merge_settings(config: Path | None, given: dict[str, Any]) -> dict[str, Any]:
    """Join the settings of the configuration file and of the command line, which wins."""
    settings = {"n_jobs": _OWN_DEFAULTS["n_jobs"]} | ({} if config is None else _read_config(config))
    return settings | {name: value for name, value in given.items() if value is not None}


def _read_config(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        content = json.loads(text) if path.suffix.lower() == ".json" else tomllib.loads(text)
    except (OSError, ValueError) as error:  # both parsers raise ValueErrors
        raise typer.BadParameter(f"{path} cannot be read as TOML (or JSON, if it is named .json): {error}") from None
    if not isinstance(content, dict):
        raise typer.BadParameter(f"{path} holds a {type(content).__name__}: write names and values of options.")
    parameters = read_parameters()
    full_names = {alias: name for name, alias in _ALIASES.items()} | {name: name for name in parameters}
    settings = {}
    for key, value in content.items():
        name = full_names.get(key.replace("-", "_"))
        if name is None:
            near = difflib.get_close_matches(key, full_names, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(full_names))}."
            raise typer.BadParameter(f"{path}: there is no option {key!r}; {hint}")
        settings[name] = parameters[name].check(value, str(path))
    return settings


# What all commands share ----------------------------------------------------------------------------------------------


class Terminal:
    """Where a command shows things; only here is decided what --quiet and --json leave out."""

    def __init__(self, *, quiet: bool = False, as_json: bool = False):
        self.is_quiet = quiet
        self.is_json = as_json
        self.out = _make_console(to_stderr=False)
        self.err = _make_console(to_stderr=True)
        self.has_progress = self.err.is_terminal and not quiet

    def show(self, *things: Any) -> None:
        """Show what was asked for."""
        if not self.is_json:
            self.out.print(*things, sep="\n")

    def report(self, *things: Any) -> None:
        """Show what was done, which --quiet leaves out."""
        if not self.is_quiet:
            self.show(*things)

    def note(self, text: str) -> None:
        """Tell of something on the side."""
        if not self.is_quiet:
            self.err.print(escape(text))

    def fail(self, text: str) -> None:
        """Tell what went wrong."""
        self.err.print(f"[bold red]Error:[/] {escape(text)}", soft_wrap=True)

    def answer(self, facts: dict[str, Any]) -> None:
        """Give the one JSON object of --json."""
        if self.is_json:
            typer.echo(json.dumps(_to_json(facts), allow_nan=False))

    @contextmanager
    def progress(self, *columns: str) -> Iterator[Any]:
        """Yield a rich Progress on stderr that appears when two seconds have passed."""
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        begin = perf_counter()

        class PatientProgress(Progress):
            def get_renderables(self) -> Iterable[Any]:
                return super().get_renderables() if perf_counter() - begin >= _SECONDS_TO_WAIT else ()

        with PatientProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            *(TextColumn(column) for column in columns),
            TimeRemainingColumn(),
            TextColumn("left"),
            console=self.err,
            disable=not self.has_progress,
            transient=True,
            speed_estimate_period=3600,  # iterations may take minutes
        ) as bar:
            yield bar


def _make_console(*, to_stderr: bool) -> Console:
    console = Console(stderr=to_stderr, highlight=False, emoji=False)  # in usps:train: there is no tram
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _WIDTH_OF_PIPES
    return console


def _to_json(value: Any) -> Any:
    """Return what JSON can hold: NumPy's types as Python's, NaN and infinity as null."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, dict):
        return {str(key): _to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(item) for item in value]
    if isinstance(value, Path):
        return str(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _offer(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


# Options that all commands have, by the name of the parameter.
_SHARED_OPTIONS = [
    _offer("quiet", Annotated[bool, typer.Option("--quiet", "-q", help="No progress, notes and summaries.")], False),
    _offer("as_json", Annotated[bool, typer.Option("--json", help="Print one JSON object.")], False),
    _offer("debug", Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")], False),
]


def _command(function: Callable[..., None]) -> Callable[..., None]:
    """Make a function a command: with a terminal, the options that all have, and messages instead of tracebacks.

    A parameter `source` becomes DATA and the options that say how it is read; `settings`, those of the model.
    """
    own = {
        name: one for name, one in inspect.signature(function, eval_str=True).parameters.items() if name != "terminal"
    }

    @functools.wraps(function)
    def run(*, quiet: bool, as_json: bool, debug: bool, **options: Any) -> None:
        terminal = Terminal(quiet=quiet, as_json=as_json)
        if "source" in own:
            options["source"] = Source(**{name: options.pop(name) for name in _SOURCE_OPTIONS})
        if "settings" in own:
            options["settings"] = {name: options.pop(name) for name in read_parameters()}
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, *_: terminal.note(f"Warning: {message}")
            # Names are compared before, where the data have some.
            warnings.filterwarnings("ignore", "X does not have valid feature names")
            try:
                function(terminal, **options)
            except KeyboardInterrupt:
                terminal.fail("interrupted.")
                raise typer.Exit(INTERRUPTED) from None
            except Exception as error:
                if debug or _is_for_typer(error):
                    raise
                _fail(terminal, error)

    parameters = [option for one in own.values() for option in _expand(one)] + _SHARED_OPTIONS
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    app.command(name=function.__name__)(run)
    return run


def _expand(parameter: inspect.Parameter) -> list[inspect.Parameter]:
    """Return the options that a parameter of a command stands for."""
    if parameter.name == "source":
        return list(_SOURCE_OPTIONS.values())
    if parameter.name == "settings":
        return [_make_option(one) for one in read_parameters().values()]
    return [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)]


def _is_for_typer(error: Exception) -> bool:
    """Whether it asks for an exit or tells of wrong usage, or nobody reads our output any more."""
    return isinstance(error, typer.Exit | typer.BadParameter | BrokenPipeError)


def _fail(terminal: Terminal, error: Exception) -> NoReturn:
    if isinstance(error, OSError) and error.filename:
        terminal.fail(f"{error.filename}: {error.strerror}.")
    elif isinstance(error, ValueError | OSError | ImportError):
        terminal.fail(str(error))
    elif isinstance(error, MemoryError):
        terminal.fail(f"there is not enough memory ({error}): give fewer samples, features or atoms.")
    else:
        terminal.fail(
            f"{type(error).__name__}: {error}\nThis is a mistake in ddlearn: please report what --debug shows."
        )
    raise typer.Exit(1)


# Data and models ------------------------------------------------------------------------------------------------------

Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A file that fit has written.")]
Jobs = Annotated[int, typer.Option("--jobs", "--n-jobs", help="Number of threads; -1 is all cores.")]


@dataclass(frozen=True)
class Source:
    """DATA, and how it shall be read."""

    data: str
    labels: Path | None
    label_column: str | None
    image_size: tuple[int, int] | None
    colour: bool
    strict: bool


_SOURCE_OPTIONS = {
    option.name: option
    for option in (
        _offer(
            "data",
            Annotated[
                str,
                typer.Argument(
                    metavar="DATA",
                    help="A file (.npz, .npy, .csv, .parquet, .svm), a folder of images with a sub-folder for each "
                    "class, or a data set such as usps:train.",
                ),
            ],
        ),
        _offer(
            "labels",
            Annotated[
                Path | None,
                typer.Option(metavar="FILE", help="A file of labels: .npy, or .csv or .txt with one label a line."),
            ],
            None,
        ),
        _offer(
            "label_column",
            Annotated[
                str | None,
                typer.Option(
                    metavar="COLUMN",
                    help="The column of a table with the labels: its name, its number from 0, or last. By default the "
                    "one named label, class, target or y, or else the last.",
                ),
            ],
            None,
        ),
        _offer(
            "image_size",
            Annotated[
                Any,
                typer.Option(
                    metavar="HxW",
                    parser=_parse_size,
                    help="Scale and crop images to this height and width. By default the size that all images have, "
                    "or 32x32 if they differ; for a model, the size it was fitted to.",
                ),
            ],
            None,
        ),
        _offer("colour", Annotated[bool, typer.Option("--colour", help="Read images in colour, not in grey.")], False),
        _offer(
            "strict",
            Annotated[bool, typer.Option("--strict", help="Fail if an image is broken, instead of leaving it out.")],
            False,
        ),
    )
}


def _read(terminal: Terminal, source: Source, n_features: int | None = None) -> Samples:
    """Read data, and tell which images were left out."""
    from .reading import read_data

    with terminal.progress() as bar:
        bar.add_task(f"reading {escape(source.data)}", total=None)
        options = asdict(source)
        samples = read_data(options.pop("data"), n_features=n_features, **options)
    if samples.broken:
        terminal.note(f"Left out {len(samples.broken)} broken image(s):")
        for name, reason in samples.broken:
            terminal.note(f"  {name} ({reason})")
    return samples


def _require_labels(samples: Samples, data: str) -> Any:
    from .reading import DataError

    if samples.labels is None:
        raise DataError(
            f"{data} has no labels: give them by --labels FILE, or for images in one sub-folder for each class."
        )
    empty = [row for row, label in enumerate(samples.labels.tolist()) if label == ""]
    if empty:
        raise DataError(
            f"{data}, row {empty[0]}: there is no label (nor in {len(empty) - 1} other rows); write a word such as "
            "unknown there, and fit with --unlabeled unknown."
        )
    return samples.labels


def _load_model(path: Path, jobs: int) -> DDLClassifier:
    from .persistence import load

    model = load(path)
    if not hasattr(model, "components_") or getattr(model, "is_multilabel_", True):
        raise ValueError(
            f"{path} holds no classifier with one label a sample: use it from Python, where ddlearn.load reads it."
        )
    return model.set_params(n_jobs=jobs)


def _read_for_model(terminal: Terminal, model: DDLClassifier, source: Source) -> Samples:
    """Read samples as the model expects them: images of its size, columns in its order."""
    if source.image_size is None:
        size, colour = _guess_images(model, source.colour)
        source = replace(source, image_size=size, colour=colour)
    samples = _read(terminal, source, model.n_features_in_)
    expected = getattr(model, "feature_names_in_", None)
    if samples.feature_names is None or expected is None or samples.feature_names == list(expected):
        return samples
    return samples._replace(X=samples.X[:, _order_columns(source.data, samples.feature_names, list(expected))])


def _guess_images(model: DDLClassifier, colour: bool) -> tuple[tuple[int, int] | None, bool]:
    """Return the size of the model's images; the estimator keeps it for grey images only, and others are square."""
    if model.image_shape is not None:
        height, width = model.image_shape
        return (height, width), False
    side = math.isqrt(model.n_features_in_ // 3)
    return ((side, side), True) if 3 * side**2 == model.n_features_in_ else (None, colour)


def _order_columns(data: str, names: list[str], expected: list[str]) -> list[int]:
    from .reading import DataError

    missing, unknown = (
        [name for name in some if name not in others] for some, others in ((expected, names), (names, expected))
    )
    if missing or unknown:
        lists = [
            f"{word} {', '.join(map(repr, some[:5]))}{', ...' if len(some) > 5 else ''}"
            for word, some in (("without", missing), ("with", unknown))
            if some
        ]
        raise DataError(f"{data} has other columns than the model was fitted to: {' and '.join(lists)}.")
    if len(set(names)) < len(names):
        raise DataError(f"{data} has columns of the same name, and in another order than the model was fitted to.")
    return [names.index(name) for name in expected]


def _match_types(labels: Any, classes: Any) -> tuple[Any, Any]:
    """Return both as text if one is: a folder is named by text even where the class is a number."""
    if (labels.dtype.kind == "U") != (classes.dtype.kind == "U"):
        return labels.astype(str), classes.astype(str)
    return labels, classes


# What a model tells --------------------------------------------------------------------------------------------------


class _FitProgress:
    """A scikit-learn callback that moves a progress bar."""

    columns = ("{task.completed}/{task.total}", "objective {task.fields[objective]}", "error {task.fields[error]}")

    def __init__(self, bar: Any, max_iter: int):
        self.bar = bar
        self.task = bar.add_task("fitting", total=max_iter, objective="-", error="-")

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing to set up."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Wait for the end of the iteration."""

    def on_fit_task_end(self, estimator: Any, context: Any, *, metadata: dict[str, Any]) -> None:
        """Show the objective and the error on label-free codes, which is the one that new samples will have."""
        if context.task_name == "iteration":
            self.bar.update(
                self.task,
                completed=metadata["iteration"],
                objective=f"{metadata['objective']:,.0f}",
                error=f"{metadata['label_free_error']:.2%}",
            )

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing to take down."""


def _check_folder(output: Path) -> None:
    """Fail before the work, not after it."""
    if not output.parent.is_dir():
        raise typer.BadParameter(f"the folder {output.parent} of {output.name} does not exist: create it first.")
    if output.is_dir():
        raise typer.BadParameter(f"{output} is a folder: name a file.")


def _make_model(settings: dict[str, Any], samples: Samples) -> DDLClassifier:
    from .estimator import DDLClassifier

    if samples.image_shape is not None and len(samples.image_shape) == 2:  # colour has three numbers a pixel
        settings = {"image_shape": samples.image_shape} | settings
    marker = settings.get("unlabeled")
    if isinstance(marker, str) and samples.labels is not None and samples.labels.dtype.kind in "iu":
        settings = settings | {"unlabeled": int(_parse_number(marker))}
    return DDLClassifier(**settings)


def _name_features(model: DDLClassifier, names: list[str] | None) -> None:
    """Keep names as scikit-learn does for a data frame, without the copy of all data that a data frame would be."""
    import numpy as np

    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)


def _fit(
    terminal: Terminal, model: DDLClassifier, X: Any, y: Any, checkpoint: Path | None = None, resume: bool = False
) -> float:
    """Fit under a progress bar; return the seconds it took."""
    begin = perf_counter()
    with terminal.progress(*_FitProgress.columns) as bar:
        callbacks: list[Any] = [_FitProgress(bar, model.max_iter)]
        if checkpoint is not None:
            from .checkpoint import Checkpoint

            callbacks.append(Checkpoint(checkpoint, resume=resume))
        model.set_callbacks(*callbacks).fit(X, y)
    return perf_counter() - begin


def _collect_fit_facts(data: str, model: DDLClassifier, settings: dict[str, Any], seconds: float) -> dict[str, Any]:
    last = model.history_[-1]
    return {
        "data": data,
        "n_samples": len(model.noise_variance_),
        "n_features": model.n_features_in_,
        "classes": model.classes_,
        "settings": settings,
        "n_components": len(model.components_),
        "n_nonzero_coefs": model.n_nonzero_coefs_,
        "n_iter": model.n_iter_,
        "max_iter": model.max_iter,
        "converged": model.converged_,
        "objective": last.objective,
        "training_error": last.training_error,
        "label_free_error": last.label_free_error,
        "seconds": seconds,
    }


def _predict_probabilities(terminal: Terminal, model: DDLClassifier, X: Any) -> Any:
    """Return probabilities of the classes, under a progress bar."""
    import numpy as np

    with terminal.progress("{task.completed:,}/{task.total:,}") as bar:
        starts = range(0, len(X), _ROWS_AT_ONCE)
        task = bar.add_task("predicting", total=len(X))
        parts = []
        for start in starts:
            parts.append(model.predict_proba(X[start : start + _ROWS_AT_ONCE]))
            bar.update(task, completed=start + len(parts[-1]))
        return np.concatenate(parts)


def _collect_errors(terminal: Terminal, model: DDLClassifier, X: Any, labels: Any) -> dict[str, Any]:
    import numpy as np
    from scipy.stats import binomtest
    from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

    labels, known = _match_types(labels, model.classes_)
    predictions = known[_predict_probabilities(terminal, model, X).argmax(axis=1)]
    unknown = np.setdiff1d(labels, known)
    if unknown.size:
        terminal.note(f"Labels that the model does not know, and so gets wrong: {', '.join(map(str, unknown[:10]))}")
    classes = np.unique(np.concatenate([labels, predictions]))
    n_wrong = int(np.count_nonzero(labels != predictions))
    interval = binomtest(n_wrong, len(labels)).proportion_ci(0.95, method="wilson")
    precision, recall, f1, support = precision_recall_fscore_support(
        labels, predictions, labels=classes, zero_division=np.nan
    )
    return {
        "n_samples": len(labels),
        "n_wrong": n_wrong,
        "error": n_wrong / len(labels),
        "error_interval": [interval.low, interval.high],
        "classes": classes,
        "n_samples_of_class": support,
        "precision": precision,
        "recall": recall,
        "f1": f1,
        "confusion": confusion_matrix(labels, predictions, labels=classes),
    }


def _collect_reasons(model: DDLClassifier, samples: Samples, row: int) -> dict[str, Any]:
    import numpy as np
    from scipy.special import softmax

    found = model.explain(samples.X[row : row + 1])
    evidence = found.evidence[0]
    best, second = np.argsort(-evidence, kind="stable")[:2]
    order = np.argsort(-np.abs(found.codes.data), kind="stable")
    atoms, coefficients = found.codes.indices[order], found.codes.data[order]
    return {
        "row": row,
        "sample": samples.sample_names[row] if samples.sample_names else str(row),
        "label": None if samples.labels is None else samples.labels[row],
        "prediction": model.classes_[best],
        "runner_up": model.classes_[second],
        "atoms": atoms,
        "coefficients": coefficients,
        "votes_for_prediction": coefficients * model.coef_[best, atoms],
        "votes_for_runner_up": coefficients * model.coef_[second, atoms],
        "classes": model.classes_,
        "evidence": evidence,
        "probability": softmax(evidence),
        "n_wrong_features": int(np.count_nonzero(found.error)),
        "n_missing_features": int(np.count_nonzero(found.is_missing)),
        "explained": float(
            1
            - np.sum((found.samples - found.reconstruction - found.error) ** 2)
            / max(np.sum(found.samples**2), np.finfo(float).tiny)
        ),
    }


def _find_set(name: str) -> dict[str, Any]:
    """Tell where a data set is, and whether its files are what they should be."""
    from .datasets import _SOURCES, CorruptDatasetError, _list_folders, _read_archive, _read_originals

    if name not in _SOURCES:
        return {"where": "in scikit-learn", "bytes": None, "checksum": "", "advice": None}
    source, folders = _SOURCES[name], _list_folders(None)
    for folder in folders:
        archive, originals = folder / source.archive, [folder / original.name for original in source.originals]
        files = [archive] if archive.is_file() else originals
        if not all(file.is_file() for file in files):
            continue
        facts = {"where": str(files[0] if len(files) == 1 else folder), "bytes": sum(f.stat().st_size for f in files)}
        try:
            _read_archive(archive, source.sha256) if files == [archive] else _read_originals(source, folder)
        except CorruptDatasetError as error:
            return facts | {"checksum": "wrong", "advice": str(error)}
        return facts | {"checksum": "good", "advice": None}
    names = " and ".join(original.name for original in source.originals)
    advice = (
        f"{source.title}: put {source.archive}, or {names}, into {' or '.join(map(str, folders))}; or install "
        f'"ddlearn[data]", and it is downloaded from {source.mirrors[0]} when it is first used.'
    )
    return {"where": None, "bytes": None, "checksum": "", "advice": advice}


# How facts look ------------------------------------------------------------------------------------------------------


def _make_table(title: str | None, columns: Iterable[str], *, n_text: int = 1) -> Table:
    """Return a table whose first columns are text, and whose others are numbers."""
    table = Table(title=title, title_justify="left", title_style="bold", header_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number < n_text else "right", overflow="fold")
    return table


def _make_facts_table(title: str | None, facts: dict[str, str]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", show_header=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, escape(value))
    return table


def _make_fit_table(facts: dict[str, Any], n_bytes: int | None = None) -> Table:
    settings = ", ".join(f"{name}={value}" for name, value in facts["settings"].items())
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
        "time": f"{facts['seconds']:.1f} s",
    }
    if n_bytes is not None:
        rows["file"] = f"{facts['file']} ({n_bytes / 1e6:.1f} MB)"
    return _make_facts_table("Fitted", rows)


def _make_error_tables(data: str, facts: dict[str, Any]) -> list[Any]:
    low, high = facts["error_interval"]
    summary = (
        f"[bold]Error {facts['error']:.2%}[/] (95 % interval {low:.2%} to {high:.2%}): "
        f"{facts['n_wrong']:,} of {facts['n_samples']:,} samples of {escape(data)} are wrong"
    )
    table = _make_table("Classes", ("class", "samples", "error", "precision", "recall", "F1"))
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
        table = _make_table("Most frequent confusions", ("class", "taken for", "samples"), n_text=2)
        for count, truth, prediction in worst[:10]:
            table.add_row(truth, prediction, str(count))
        return table
    table = _make_table("Confusion: one row for each class, one column for each prediction", ("", *names))
    for i, name in enumerate(names):
        cells = [str(count) if count else "·" for count in confusion[i].tolist()]
        if confusion[i, i]:
            cells[i] = f"[bold green]{cells[i]}[/]"
        table.add_row(f"[bold]{name}[/]", *cells)
    return table


def _make_reason_tables(facts: dict[str, Any]) -> list[Any]:
    prediction, runner_up = (escape(str(facts[name])) for name in ("prediction", "runner_up"))
    truth = "" if facts["label"] is None else f" (its label is {escape(str(facts['label']))})"
    summary = f"Sample {escape(facts['sample'])} is taken for [bold]{prediction}[/]{truth}."
    detail = f"{len(facts['atoms'])} atoms explain {facts['explained']:.1%} of its energy."
    for kind in ("wrong", "missing"):
        if facts[f"n_{kind}_features"]:
            detail += f" {facts[f'n_{kind}_features']} features are {kind}, and left out."
    atoms = _make_table("Atoms", ("atom", "coefficient", f"vote for {prediction}", f"vote for {runner_up}"), n_text=0)
    for values in zip(
        *(facts[name] for name in ("atoms", "coefficients", "votes_for_prediction", "votes_for_runner_up")), strict=True
    ):
        atoms.add_row(str(values[0]), *(f"{value:.3f}" for value in values[1:]))
    evidence = _make_table("Evidence", ("class", "evidence", "probability"))
    ranked = sorted(zip(facts["evidence"], facts["classes"], facts["probability"], strict=True), reverse=True)
    for value, class_, probability in ranked[:_MOST_CLASSES]:
        evidence.add_row(escape(str(class_)), f"{value:.2f}", f"{probability:.1%}")
    return [summary, detail, "", atoms, "", evidence]


def _draw_reasons(console: Console, model: DDLClassifier, sample: Any, facts: dict[str, Any], shape: Any) -> Any:
    from rich.columns import Columns

    code = model.components_[facts["atoms"]].T @ facts["coefficients"]
    images = {"sample": sample, "its atoms together": code}
    images |= {
        f"{coefficient:+.2f} x atom {atom}": model.components_[atom]
        for atom, coefficient in zip(facts["atoms"], facts["coefficients"], strict=True)
    }
    return Columns(
        [Group(f"[bold]{name}[/]", _draw(image.reshape(shape), console)) for name, image in images.items()],
        padding=(0, 2),
    )


def _draw(image: Any, console: Console) -> str:
    """Return an image as lines of shades, each pixel two characters wide, since characters are tall."""
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


def _simplify(stored: Any) -> Any:
    """Return a stored parameter as people write it: a tuple by its items, an object by its name."""
    if not isinstance(stored, dict):
        return stored
    return stored.get("items") or stored.get("name") or stored["type"]


def _to_cell(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={item}" for name, item in value.items()) or "all at their defaults"
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _write_predictions(file: Any, rows: Sequence[tuple[Any, Any, float]]) -> None:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(_PREDICTION_COLUMNS)
    writer.writerows((name, prediction, f"{probability:.6g}") for name, prediction, probability in rows)


# Commands ------------------------------------------------------------------------------------------------------------


@_command
def fit(
    terminal: Terminal,
    source: Source,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="MODEL", help="The file to write.")],
    settings: dict[str, Any],
    config: Annotated[
        Path | None, typer.Option(metavar="FILE", help="TOML or JSON with model options; the command line wins.")
    ] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Keep the state of the fit in this file.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint, if there is one.")] = False,
) -> None:
    """Learn a dictionary and classifiers from labelled samples."""
    settings = _merge_settings(config, settings)
    if resume and checkpoint is None:
        raise typer.BadParameter("--resume needs --checkpoint PATH.")
    _check_folder(output)
    samples = _read(terminal, source)
    y = _require_labels(samples, source.data)
    model = _make_model(settings, samples)
    seconds = _fit(terminal, model, samples.X, y, checkpoint, resume)
    _name_features(model, samples.feature_names)
    from .persistence import save

    save(model, output)
    facts = _collect_fit_facts(source.data, model, settings, seconds) | {"file": output}
    terminal.report(_make_fit_table(facts, output.stat().st_size))
    terminal.answer(facts)


@_command
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
    fitted = _load_model(model, jobs)
    samples = _read_for_model(terminal, fitted, source)
    probabilities = _predict_probabilities(terminal, fitted, samples.X)
    predictions = fitted.classes_[probabilities.argmax(axis=1)].tolist()
    names = samples.sample_names or range(len(samples.X))
    rows = list(zip(names, predictions, probabilities.max(axis=1).tolist(), strict=True))
    if output is not None:
        with output.open("w", encoding="utf-8", newline="") as file:
            _write_predictions(file, rows)
        terminal.report(f"{len(rows):,} predictions written to {escape(str(output))}")
        terminal.answer({"n_samples": len(rows), "file": output, "counts": Counter(predictions)})
    elif terminal.is_json:
        terminal.answer({"predictions": [dict(zip(_PREDICTION_COLUMNS, row, strict=True)) for row in rows]})
    else:
        _write_predictions(sys.stdout, rows)


@_command
def evaluate(terminal: Terminal, model: Model, source: Source, jobs: Jobs = -1) -> None:
    """Measure the error on labelled samples, class by class."""
    fitted = _load_model(model, jobs)
    samples = _read_for_model(terminal, fitted, source)
    facts = _collect_errors(terminal, fitted, samples.X, _require_labels(samples, source.data))
    terminal.show(*_make_error_tables(source.data, facts))
    terminal.answer({"model": model, "data": source.data} | facts)


@_command
def explain(
    terminal: Terminal,
    model: Model,
    source: Source,
    row: Annotated[int, typer.Option(metavar="NUMBER", help="Which sample, counted from 0.", min=0)],
    picture: Annotated[bool, typer.Option("--picture", help="Draw images in block characters.")] = False,
    jobs: Jobs = -1,
) -> None:
    """Show why a sample gets its class: its atoms, and the evidence for each class."""
    fitted = _load_model(model, jobs)
    samples = _read_for_model(terminal, fitted, source)
    if row >= len(samples.X):
        raise typer.BadParameter(f"--row {row}: {source.data} has {len(samples.X)} samples, 0 to {len(samples.X) - 1}.")
    shape = samples.image_shape or fitted.image_shape
    if picture and shape is None:
        raise ValueError(f"{source.data} is not known to hold images: --picture needs images.")
    facts = _collect_reasons(fitted, samples, row)
    terminal.show(*_make_reason_tables(facts))
    if picture:
        terminal.show("", _draw_reasons(terminal.out, fitted, samples.X[row], facts, shape))
    terminal.answer(facts)


@_command
def info(terminal: Terminal, model: Model) -> None:
    """Show what is in a model file."""
    from .container import MODEL, read_container

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
    terminal.show(_make_facts_table(None, rows))
    terminal.answer(facts)


@_command
def demo(terminal: Terminal) -> None:
    """Learn scikit-learn's digits and show all of it, in seconds and without a file."""
    from sklearn.model_selection import train_test_split

    samples = _read(terminal, Source("digits", None, None, None, False, False))
    X, X_test, y, y_test = train_test_split(
        samples.X, samples.labels, train_size=1000, stratify=samples.labels, random_state=0
    )
    settings = {"n_jobs": _OWN_DEFAULTS["n_jobs"], "random_state": 0}
    model = _make_model(settings, samples)
    seconds = _fit(terminal, model, X, y)
    fit_facts = _collect_fit_facts("1000 digits of scikit-learn", model, settings, seconds)
    errors = _collect_errors(terminal, model, X_test, y_test)
    test = samples._replace(X=X_test, labels=y_test)
    reasons = _collect_reasons(model, test, 0)
    terminal.show(_make_fit_table(fit_facts), "", *_make_error_tables("the other digits", errors), "")
    terminal.show(*_make_reason_tables(reasons), "", _draw_reasons(terminal.out, model, X_test[0], reasons, (8, 8)))
    terminal.show("", "Now with data of yours: [bold]ddlearn fit DATA -o model.safetensors[/]")
    terminal.answer({"fit": fit_facts, "evaluate": errors, "explain": reasons})


@_command
def datasets(terminal: Terminal) -> None:
    """List the data sets that DATA can name: which are here, and how to get the others."""
    from .reading import NAMED_SETS

    found = [_find_set(name) for name in NAMED_SETS]
    table = _make_table(None, ("name", "ask for", "where", "size", "checksum"), n_text=3)
    for name, facts in zip(NAMED_SETS, found, strict=True):
        parts = ", ".join(f"{name}:{part}" if part else name for part in NAMED_SETS[name][1])
        size = "" if facts["bytes"] is None else f"{facts['bytes'] / 1e6:.1f} MB"
        table.add_row(name, parts, escape(facts["where"] or "not here"), size, escape(facts["checksum"]))
    terminal.show(table)
    for facts in found:
        if facts["advice"]:
            terminal.show("", escape(facts["advice"]))
    terminal.answer(dict(zip(NAMED_SETS, found, strict=True)))


@app.callback(invoke_without_command=True)
def _version(
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        import ddlearn

        typer.echo(f"ddlearn {ddlearn.__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line: what ``ddlearn`` and ``python -m ddlearn`` call."""
    app(prog_name="ddlearn")
