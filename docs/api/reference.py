"""Write the pages of the API reference: one per topic, one per public name, and the options of the command line.

``conf.py`` calls :func:`write_reference` before pages are read.  The public names are those of ``ddlearn.__all__``,
``ddlearn.datasets.__all__`` and ``ddlearn.cli.reading.__all__``, so a new name is in the reference once it is public.
If its module belongs to no topic, the build fails and says so.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import typer

from ddlearn.cli import app

COMMAND_LINE = "command_line"  # the page with all options
INDEX = "index.inc"  # what api/index.md includes
MODULES = ("ddlearn", "ddlearn.datasets", "ddlearn.cli.reading")  # which users import from


class Topic(NamedTuple):
    """A page of the reference: what it is about, and the modules whose public names it lists."""

    slug: str
    title: str
    text: str
    modules: tuple[str, ...]


TOPICS = (
    Topic(
        "classifier",
        "The classifier",
        "The whole framework as a scikit-learn classifier and transformer, the explanation of its decisions, and "
        "``ROLES``, the names that parameters may have. See :doc:`/settings` and :doc:`/theory`.",
        ("estimators.classifier", "model.strategies", "show.summary", "show.explanation"),
    ),
    Topic(
        "minibatch",
        "Learning from batches",
        "The classifier for samples that come in batches and are not kept. See :doc:`/streaming`.",
        ("estimators.minibatch",),
    ),
    Topic(
        "plotting",
        "Plots and reports",
        "What a model has learned and why it decides, as figures and as a page of HTML. See :doc:`/report`.",
        ("show",),
    ),
    Topic(
        "ksvd",
        "Dictionary without classes",
        "K-SVD as a transformer.",
        ("estimators.ksvd",),
    ),
    Topic(
        "coding",
        "Sparse coding",
        "Descriptions of samples, traditional and discriminative codes. See :doc:`/defaults` and :doc:`/theory`.",
        (
            "describe.base",
            "describe.unit",
            "describe.standard",
            "describe.transformer",
            "describe.gradients",
            "describe.choice",
            "coding.coders",
            "coding.elastic_net",
            "coding.encoder",
            "coding.discriminative",
            "coding.rows",
            "coding.descent",
            "coding.printed",
            "model.codes",
        ),
    ),
    Topic(
        "losses",
        "Losses",
        "Convex costs of a margin.",
        ("model.losses",),
    ),
    Topic(
        "trainers",
        "Classifier trainers",
        "The parameter ``classifier_trainer``: how the linear classifiers are learned on the codes.",
        ("classifiers",),
    ),
    Topic(
        "updates",
        "Dictionary updates",
        "The parameter ``dictionary_update``: how the atoms are changed in each iteration.",
        ("dictionary",),
    ),
    Topic(
        "refinement",
        "Refinement",
        "The parameter ``refine``: after the fit, dictionary and classifiers follow the gradient of the classification "
        "cost. See :doc:`/refinement`.",
        ("refinement.refiner", "refinement.search", "describe.jitter"),
    ),
    Topic(
        "inference",
        "Inference",
        "The parameters ``inference``, ``robustness`` and ``alignment``: the label rules, samples that are partly "
        "wrong or incomplete, and images that are out of place. See :doc:`/inference`.",
        ("inference.rules", "coding.robust", "coding.alignment"),
    ),
    Topic(
        "objective",
        "The objective",
        "The paper's MAP objective (Eq. 3), term by term, and the parameter ``scales``.",
        ("model.objective", "model.scales"),
    ),
    Topic(
        "checks",
        "Checks of your own strategies",
        "Each tries an object on a small problem and lists what is wrong with it. See :doc:`/extend`.",
        ("checks",),
    ),
    Topic(
        "files",
        "Model files and checkpoints",
        "Models as files in which nothing can be executed, and fits that survive a crash. See :doc:`/model_files`.",
        ("files",),
    ),
    Topic(
        "clusters",
        "Clusters",
        "What can go wrong when a fit runs on Dask. See :doc:`/cluster`.",
        ("parallel",),
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
        "From a file or a folder of images to samples and labels, as on the command line.",
        ("cli.reading",),
    ),
)


def list_public_names() -> dict[str, str]:
    """Return the module of each public name: ``{"ddlearn.KSVD": "estimators.ksvd", ...}``."""
    names = [f"{module}.{name}" for module in MODULES for name in import_module(module).__all__ if name[0] != "_"]
    return {name: _find_module(find(name)) for name in names}


def _find_module(member: Any) -> str:
    """Return where an object is defined, or for the table of roles where registries are."""
    owner = next(iter(member.values())) if isinstance(member, dict) else member
    return owner.__module__.removeprefix("ddlearn.")


def find_topic(module: str) -> Topic | None:
    """Return the topic that names a module, or else the folder that it is in."""
    while module:
        for topic in TOPICS:
            if module in topic.modules:
                return topic
        module = module.rpartition(".")[0]
    return None


def group_by_topic() -> dict[Topic, list[str]]:
    """Return the public names of each topic."""
    groups: dict[Topic, list[str]] = {topic: [] for topic in TOPICS}
    for name, module in list_public_names().items():
        topic = find_topic(module)
        if topic is None:
            raise LookupError(f"{name} is public, but its module {module!r} is in no topic: add it in {__file__}.")
        groups[topic].append(name)
    modules = list_public_names()
    return {
        topic: sorted(names, key=lambda name: _find_position(topic, modules[name]))
        for topic, names in groups.items()
        if names
    }


def _find_position(topic: Topic, module: str) -> int:
    """Return which of a topic's modules it is: what matters most comes first."""
    return next((place for place, one in enumerate(topic.modules) if f"{module}.".startswith(f"{one}.")), 0)


def write_reference(folder: Path) -> None:
    """Write all pages into a folder; leave alone those that would not change, and delete those of names now gone."""
    pages = {f"{COMMAND_LINE}.md": describe_commands(), INDEX: describe_index()}
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


def describe_index() -> str:
    """Return all names and commands in tables, each with its first sentence."""
    parts = [".. currentmodule:: ddlearn"]
    for topic, names in group_by_topic().items():
        parts += [f".. rubric:: :doc:`{topic.title} <generated/{topic.slug}>`", _summarise(names)]
    commands = typer.main.get_command(app).commands.items()
    rows = "\n".join(f"   * - ``ddlearn {name}``\n     - {command.help.split('.')[0]}." for name, command in commands)
    return "\n\n".join(
        [
            *parts,
            f".. rubric:: :doc:`The command line <generated/{COMMAND_LINE}>`",
            f".. list-table::\n\n{rows}\n",
        ]
    )


def _summarise(names: list[str]) -> str:
    described = "\n".join(f"   {name.removeprefix('ddlearn.')}" for name in names if callable(find(name)))
    return f".. autosummary::\n   :nosignatures:\n\n{described}"


def describe_topic(topic: Topic, names: list[str]) -> str:
    """Return the page of a topic: a table of its names, with the first sentence of each."""
    registries = "\n".join(
        f"- :data:`~{name}`: the names that parameters take" for name in names if not callable(find(name))
    )
    listed = "\n".join(f"   {name}" for name in names)
    return "\n\n".join(
        [
            _underline(topic.title),
            ".. currentmodule:: ddlearn",
            topic.text,
            _summarise(names),
            registries,
            f".. toctree::\n   :hidden:\n\n{listed}\n",
        ]
    )


def describe_name(name: str) -> str:
    """Return the page of a class, a function or a registry."""
    module, _, short = name.rpartition(".")
    member = find(name)
    if inspect.isclass(member):
        body = f".. autoclass:: {short}\n" + "".join(f"   {option}\n" for option in _list_class_options(member))
    elif callable(member):
        body = f".. autofunction:: {short}\n"
    else:
        body = _describe_roles(short, member)
    gallery = f".. minigallery:: {name}\n   :add-heading: In the gallery\n   :heading-level: -\n"
    return "\n\n".join([_underline(short), f".. currentmodule:: {module}", body, gallery])


def find(name: str) -> Any:
    """Return the object of a full name."""
    module, _, short = name.rpartition(".")
    return getattr(import_module(module), short)


def _list_class_options(class_: type) -> Iterator[str]:
    """Yield the options of autodoc: the methods of this library are described."""
    foreign = [base.__name__ for base in class_.__mro__ if not base.__module__.startswith("ddlearn")]
    yield ":members:"
    yield f":inherited-members: {', '.join(foreign)}"
    fields = getattr(class_, "_fields", ())
    if fields:  # of a named tuple; the docstring describes them
        yield f":exclude-members: {', '.join(fields)}"


def _describe_roles(short: str, roles: Mapping[str, Mapping[str, type]]) -> str:
    """Return a table of the names that parameters take, and their classes."""
    rows = "\n".join(
        f"   * - ``{role}``\n     - " + ", ".join(f'``"{name}"`` ({one.__name__})' for name, one in registry.items())
        for role, registry in roles.items()
        if registry
    )
    return (
        f".. py:data:: {short}\n\n   The names that each parameter takes, and their classes.\n"
        "   A class that is put into ``ROLES[parameter]`` is found by its name.\n\n"
        f".. list-table::\n   :header-rows: 1\n\n   * - parameter\n     - names\n{rows}\n"
    )


def describe_commands() -> str:
    """Return a page with all commands, their arguments and options, as ``--help`` shows them."""
    group = typer.main.get_command(app)
    parts = [
        "# The command line: all options",
        "What `ddlearn COMMAND --help` shows. How to use the commands: [the command line](/command_line.md).",
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
