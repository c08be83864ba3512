"""Write the pages of the API reference: one a topic and one a public name, and the options of the command line.

``conf.py`` calls :func:`write_reference` before pages are read.  What is public is asked of ``ddlearn.__all__``,
``ddlearn.datasets.__all__`` and ``ddlearn.cli.reading.__all__``, so a new name is in the reference once it is public;
if its file belongs to no topic yet, the build fails and says so.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import typer

import ddlearn
from ddlearn.cli import app

COMMAND_LINE = "command_line"  # the page that tells all options


class Topic(NamedTuple):
    """A page of the reference: what it is about, and the files whose public names it lists."""

    slug: str
    title: str
    text: str
    files: tuple[str, ...]


TOPICS = (
    Topic(
        "classifier",
        "The classifier",
        "The whole framework as a scikit-learn classifier and transformer, what it remembers of its iterations, and "
        "why it decides as it does. See :doc:`/classifier` and :doc:`/inference`.",
        ("estimator", "fitting", "dictionary_size", "prediction"),
    ),
    Topic(
        "plotting",
        "Plots and reports",
        "What a model has learned and why it decides, as figures and as a page of HTML. See :doc:`/report`.",
        ("plotting", "report", "class_colors"),
    ),
    Topic(
        "baseline",
        "Dictionary without classes, and the baseline",
        "K-SVD as a transformer, and the paper's baseline: learn a dictionary, then classifiers on its codes.",
        ("ksvd",),
    ),
    Topic(
        "coding",
        "Sparse coding",
        "Traditional and discriminative codes. See :doc:`/discriminative_coding`.",
        ("sparse_coding", "discriminative_coding", "codes"),
    ),
    Topic(
        "losses",
        "Losses",
        "Convex costs of a margin. A loss of yours is three functions; :func:`check_loss` tells what is wrong.",
        ("losses",),
    ),
    Topic(
        "trainers",
        "Classifier trainers",
        "What learns the linear classifiers on the codes.",
        ("classifiers",),
    ),
    Topic(
        "updates",
        "Dictionary updates",
        "What moves the atoms in each iteration.",
        ("dictionary",),
    ),
    Topic(
        "refinement",
        "Refinement",
        "Dictionary and classifiers that follow the gradient of the classification cost after the fit.",
        ("refinement",),
    ),
    Topic(
        "robustness",
        "Gross errors, alignment and distortions",
        "Samples that are partly wrong, images that are out of place, and images distorted to learn from them. "
        "See :doc:`/inference`.",
        ("gross_errors", "alignment", "jitter"),
    ),
    Topic(
        "objective",
        "The objective",
        "The paper's MAP objective (Eq. 3), term by term.",
        ("objective",),
    ),
    Topic(
        "files",
        "Model files and checkpoints",
        "Models as files in which nothing can be executed, and fits that survive a crash. See :doc:`/model_files`.",
        ("persistence", "container", "checkpoint"),
    ),
    Topic(
        "clusters",
        "Clusters",
        "What can go wrong when a fit runs on Dask. See :doc:`/cluster`.",
        ("blocks",),
    ),
    Topic(
        "datasets",
        "Data sets",
        "Images to learn from, and a planted problem with a known dictionary. See :doc:`/datasets`.",
        ("datasets",),
    ),
    Topic(
        "reading",
        "Reading files",
        "From a file or a folder of images to samples and labels, as the command line does it.",
        ("reading",),
    ),
)


def list_public_names() -> dict[str, str]:
    """Return the file of each public name: ``{"ddlearn.KSVD": "ksvd", "ddlearn.datasets.load_usps": "datasets"}``."""
    homes = {f"ddlearn.{name}": ddlearn._HOMES[name] for name in ddlearn.__all__}
    for module in ("datasets", "reading"):
        homes |= {f"ddlearn.{module}.{name}": module for name in import_module(f"ddlearn.{module}").__all__}
    return homes


def group_by_topic() -> dict[Topic, list[str]]:
    """Return the public names of each topic that has some."""
    groups: dict[Topic, list[str]] = {topic: [] for topic in TOPICS}
    for name, file in list_public_names().items():
        topic = next((topic for topic in TOPICS if file in topic.files), None)
        if topic is None:
            raise LookupError(f"{name} is public, but its file {file!r} is in no topic: add it to one in {__file__}.")
        groups[topic].append(name)
    return {topic: names for topic, names in groups.items() if names}


def write_reference(folder: Path) -> None:
    """Write all pages into a folder; those that would not change are left alone, those of names now gone deleted."""
    pages = {f"{COMMAND_LINE}.md": describe_commands()}
    for topic, names in group_by_topic().items():
        pages[f"{topic.slug}.rst"] = describe_topic(topic, names)
        pages |= {f"{name}.rst": describe_name(name) for name in names}
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path.name not in pages:
            path.unlink()
    for name, text in pages.items():
        path = folder / name
        if not path.exists() or path.read_text(encoding="utf-8") != text:  # a page that is written is read again
            path.write_text(text, encoding="utf-8")


def describe_topic(topic: Topic, names: list[str]) -> str:
    """Return the page of a topic: a table of its names, with the first sentence of each."""
    described = "\n".join(f"   {name.removeprefix('ddlearn.')}" for name in names if callable(find(name)))
    registries = "\n".join(
        f"- :data:`~{name}`: names that a parameter takes, and their classes"
        for name in names
        if not callable(find(name))
    )
    listed = "\n".join(f"   {name}" for name in names)
    return "\n\n".join(
        [
            _underline(topic.title),
            ".. currentmodule:: ddlearn",
            topic.text,
            f".. autosummary::\n   :nosignatures:\n\n{described}",
            registries,
            f".. toctree::\n   :hidden:\n\n{listed}\n",
        ]
    )


def describe_name(name: str) -> str:
    """Return the page of a class, a function or a registry of names."""
    module, _, short = name.rpartition(".")
    member = find(name)
    if inspect.isclass(member):
        body = f".. autoclass:: {short}\n" + "".join(f"   {option}\n" for option in _list_class_options(member))
    elif callable(member):
        body = f".. autofunction:: {short}\n"
    else:
        body = _describe_registry(short, member)
    gallery = f".. minigallery:: {name}\n   :add-heading: In the gallery\n   :heading-level: -\n"
    return "\n\n".join([_underline(short), f".. currentmodule:: {module}", body, gallery])


def find(name: str) -> Any:
    """Return the object of a full name."""
    module, _, short = name.rpartition(".")
    return getattr(import_module(module), short)


def _list_class_options(class_: type) -> Iterator[str]:
    """Tell autodoc which methods to describe: those of this library."""
    foreign = [base.__name__ for base in class_.__mro__ if not base.__module__.startswith("ddlearn")]
    yield ":members:"
    yield f":inherited-members: {', '.join(foreign)}"
    fields = getattr(class_, "_fields", ())
    if fields:  # of a named tuple; the docstring describes them
        yield f":exclude-members: {', '.join(fields)}"


def _describe_registry(short: str, registry: dict[str, type]) -> str:
    """Return a table of the names that a parameter may be, and what they stand for."""
    rows = "\n".join(f'   * - ``"{key}"``\n     - :class:`{one.__name__}`' for key, one in registry.items())
    return (
        f".. py:data:: {short}\n\n   What goes by name: a dictionary from names to classes.\n\n"
        f".. list-table::\n   :header-rows: 1\n\n   * - name\n     - class\n{rows}\n"
    )


def describe_commands() -> str:
    """Return a page with all commands, their arguments and options, as ``--help`` tells them."""
    group = typer.main.get_command(app)
    parts = [
        "# The command line: all options",
        "What `ddlearn COMMAND --help` shows. How the commands are used: [the command line](/command_line.md).",
    ]
    for name, command in group.commands.items():
        arguments = [one.metavar for one in command.params if one.param_type_name == "argument"]
        usage = " ".join(["ddlearn", name, *arguments, "[OPTIONS]"])
        rows = "\n".join(_describe_parameter(one) for one in command.params)
        parts += [f"## ddlearn {name}", command.help, f"```text\n{usage}\n```", f"| | |\n| --- | --- |\n{rows}"]
    return "\n\n".join(parts) + "\n"


def _describe_parameter(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        names = f"`{parameter.metavar}`"
    else:
        names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    text = (parameter.help or "").replace("\\[", "[").replace("|", "\\|")  # rich's escape, and Markdown's
    default = parameter.show_default if isinstance(parameter.show_default, str) else parameter.default
    has_default = default is not None and not isinstance(default, bool) and parameter.param_type_name == "option"
    return f"| {names} | {text}{f' Default: `{default}`.' if has_default else ''} |"


def _underline(title: str) -> str:
    return f"{title}\n{'=' * len(title)}"
