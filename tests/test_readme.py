"""The code on pages runs, their commands exist, and their links lead somewhere.

A page is one session, top to bottom, in an empty folder: its ```python blocks share their names, and what a block or a
command writes is there for those below it.  Of the ```console blocks, lines ``$ ddlearn ...`` are

* parsed, all of them: a command, an option or a value that does not exist fails;
* run, if all that they read is there: scikit-learn's digits, or files that the page has written above;
* not run otherwise (the reader's own ``train``).

In the pages of ``COMPLETE`` every command is run.  Pages of the archive are records of their time: only their links are
looked at.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import pytest
import typer
from typer.testing import CliRunner

from ddlearn.cli import app

ROOT = Path(__file__).parents[1]
GENERATED = {"_build", "generated", "gallery"}  # folders that the build of the documentation writes
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if not GENERATED & set(page.parts)),
]
COMPLETE = {"tutorial.md", "install.md"}
LANGUAGES = {"", "bash", "bibtex", "console", "json", "python", "text", "toml"}
INPUTS = ("data", "model", "labels", "config")  # the parameters of commands that name what is read


class Block(NamedTuple):
    """A fenced block of a page: its language, where it begins, and what is in it."""

    language: str
    line: int
    text: str


def read_blocks(page: Path) -> Iterator[Block]:
    text = page.read_text()
    for match in re.finditer(r"^(`{3,})([^\n`]*)\n(.*?)^\1$", text, re.MULTILINE | re.DOTALL):
        yield Block(match[2].strip(), text.count("\n", 0, match.start(3)), match[3])


def read_commands(block: Block) -> list[list[str]]:
    """The words after `$ ddlearn` of each such line; a backslash continues a line."""
    lines = block.text.replace("\\\n", "").splitlines()
    return [shlex.split(line, comments=True)[2:] for line in lines if line.startswith("$ ddlearn")]


def parse(words: list[str]) -> dict[str, Any]:
    """Return the values that a command would get."""
    name, *rest = words
    return typer.main.get_command(app).commands[name].make_context(name, rest).params


def has_inputs(values: dict[str, Any]) -> bool:
    """Whether all that a command reads is there."""
    sources = [str(values[name]) for name in INPUTS if values.get(name) is not None]
    return all(source == "digits" or Path(source).exists() for source in sources)


def name_page(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture
def empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    yield tmp_path
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


LIVE = [page for page in PAGES if "archive" not in page.parts]
SESSIONS = [page for page in LIVE if {"python", "console"} & {block.language for block in read_blocks(page)}]


@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=() if page.name == "README.md" else pytest.mark.docs) for page in SESSIONS],
    ids=map(name_page, SESSIONS),
)
def test_a_page_runs_as_one_session(page, empty_folder):
    names: dict[str, Any] = {"__name__": page.stem}
    only_parsed = []
    for block in read_blocks(page):
        if block.language == "python":  # the empty lines make a traceback point into the page
            exec(compile("\n" * block.line + block.text, page, "exec"), names)
        elif block.language == "console":
            for words in read_commands(block):
                if words[0].startswith("-") or has_inputs(parse(words)):
                    result = CliRunner().invoke(app, words)
                    assert result.exit_code == 0, f"ddlearn {shlex.join(words)}\n{result.output}"
                else:
                    only_parsed.append(shlex.join(words))
    assert page.name not in COMPLETE or not only_parsed


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("learn digits -o m.safetensors", "learn"),
        ("explain m.safetensors", "Missing parameter: data"),
        ("fit digits -o m.safetensors --atoms 3", "--atoms"),
        ("fit digits -o m.safetensors --max-iter many", "not a number"),
    ],
)
def test_a_command_that_does_not_exist_is_noticed(line, message):
    with pytest.raises(Exception, match=message):
        parse(shlex.split(line))


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_no_code_hides_in_blocks_of_another_kind(page):
    # "py", "pycon" or a {code-block} would look the same and not be run.
    languages = {block.language for block in read_blocks(page)}
    assert not {one for one in languages if one not in LANGUAGES and not one.startswith("{")}
    assert not {one for one in languages if one.startswith(("{code", "{literalinclude"))}


@pytest.mark.parametrize("page", PAGES, ids=name_page)
def test_links_and_pictures_exist(page):
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target and not GENERATED & set(Path(target).parts):  # `make docs` looks at those
            assert (page.parent / target).exists(), target
