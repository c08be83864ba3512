"""The documentation is whole: every page can be reached, every public name and option is in the reference.

``make docs`` builds it, with warnings as errors; that takes minutes and is no test here.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer

import ddlearn
import ddlearn.cli.reading
import ddlearn.datasets
from ddlearn.cli import app

DOCS = Path(__file__).parents[1] / "docs"
WRITTEN_BY_THE_BUILD = {"_build", "generated", "gallery"}


def load_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def reference():
    return load_file(DOCS / "api" / "reference.py")


def list_pages() -> set[str]:
    pages = (page.relative_to(DOCS) for page in DOCS.rglob("*.md"))
    return {str(page.with_suffix("")) for page in pages if not WRITTEN_BY_THE_BUILD & set(page.parts)}


def list_entries(page: str) -> list[str]:
    """The pages that the toctrees of a page name, relative to docs."""
    trees = re.findall(r"```\{toctree\}\n(.*?)```", (DOCS / f"{page}.md").read_text(), re.DOTALL)
    lines = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    targets = [re.sub(r".* <(.*)>$", r"\1", line) for line in lines]  # "Title <page>", or "page" alone
    entries = [str(Path(page).parent / target) for target in targets]
    matching = [sorted(DOCS.glob(f"{entry}.md")) if "*" in entry else [DOCS / entry] for entry in entries]
    return [str(path.relative_to(DOCS).with_suffix("")) for paths in matching for path in paths]


def test_every_page_can_be_reached():
    reached, waiting = set(), ["index"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        if not WRITTEN_BY_THE_BUILD & set(Path(page).parts):
            waiting += set(list_entries(page)) - reached
    assert list_pages() == {page for page in reached if not WRITTEN_BY_THE_BUILD & set(Path(page).parts)}


def test_every_topic_is_listed(reference):
    topics = [topic.slug for topic in reference.group_by_topic()]
    assert list_entries("api/index") == [f"api/generated/{name}" for name in (*topics, reference.COMMAND_LINE)]


def test_every_public_name_has_a_page_that_a_topic_lists(reference, tmp_path):
    reference.write_reference(tmp_path)
    public = [f"ddlearn.{name}" for name in ddlearn.__all__]
    public += [f"ddlearn.datasets.{name}" for name in ddlearn.datasets.__all__]
    public += [f"ddlearn.cli.reading.{name}" for name in ddlearn.cli.reading.__all__]
    topics = "".join((tmp_path / f"{topic.slug}.rst").read_text() for topic in reference.group_by_topic())
    for name in public:
        module, _, short = name.rpartition(".")
        page = (tmp_path / f"{name}.rst").read_text()
        assert f".. currentmodule:: {module}\n" in page
        assert re.search(rf"^\.\. (autoclass|autofunction|py:data):: {short}$", page, re.MULTILINE), name
        assert re.search(rf"^   {re.escape(name)}$", topics, re.MULTILINE), name


def test_the_index_has_every_name_and_every_command(reference):
    index = reference.describe_index()
    for name, member in ((name, reference.find(name)) for name in reference.list_public_names()):
        assert not callable(member) or f"   {name.removeprefix('ddlearn.')}\n" in index + "\n", name
    assert all(f"``ddlearn {name}``" in index for name in typer.main.get_command(app).commands)


def test_a_public_name_of_no_topic_is_an_error(reference, monkeypatch):
    novelty = type("Novelty", (), {"__module__": "ddlearn.novelties"})
    monkeypatch.setattr(ddlearn, "Novelty", novelty, raising=False)
    monkeypatch.setattr(ddlearn, "__all__", [*ddlearn.__all__, "Novelty"])
    with pytest.raises(LookupError, match=r"ddlearn\.Novelty .* 'novelties' is in no topic"):
        reference.group_by_topic()


def test_pages_that_stay_the_same_are_left_alone_and_others_deleted(reference, tmp_path):
    # Sphinx reads again what is newer than its last build.
    reference.write_reference(tmp_path)
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    (tmp_path / "ddlearn.Gone.rst").write_text("Gone\n====\n")
    reference.write_reference(tmp_path)
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before


def test_every_option_of_every_command_is_in_the_reference(reference):
    page = reference.describe_commands()
    sections = {part.split("\n")[0]: part for part in page.split("\n## ddlearn ")[1:]}
    commands = typer.main.get_command(app).commands
    assert list(sections) == list(commands)
    for name, command in commands.items():
        for parameter in command.params:
            flags = [parameter.metavar] if parameter.param_type_name == "argument" else parameter.opts
            assert all(f"`{flag}`" in sections[name] for flag in flags), (name, flags)


def test_the_settings_of_the_build_can_be_read(monkeypatch):
    if importlib.util.find_spec("sphinx-mathjax-offline") is None:
        pytest.skip('needs pip install "ddlearn[docs]", which `make docs` does')
    monkeypatch.delenv("DDLEARN_DATA", raising=False)
    monkeypatch.delitem(sys.modules, "reference", raising=False)  # the tests have a module of that name, too
    monkeypatch.setattr(sys, "path", sys.path.copy())
    conf = load_file(DOCS / "conf.py")
    assert all(Path(DOCS, path).exists() for path in conf.html_static_path)
    # Examples are run, except those that load images which are not there.
    pattern = re.compile(conf.sphinx_gallery_conf["filename_pattern"])
    for path in (DOCS.parent / "examples").glob("*/*.py"):
        assert bool(pattern.search(str(path))) != bool(re.search(r"load_(usps|mnist|yaleb)\(", path.read_text())), path
