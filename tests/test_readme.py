"""The README's code runs as it stands."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_code_blocks_run(block):
    exec(compile(block, "<page>", "exec"), {})


@pytest.mark.parametrize("name", ["digits", "sparse_coding"])
def test_the_first_examples_run(name):
    # `make demo` is the first thing that a newcomer sees, and broke once when callbacks changed.
    run = subprocess.run(
        [sys.executable, ROOT / "examples" / "1_quickstart" / f"{name}.py"], capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert "%" in run.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_exist(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target
