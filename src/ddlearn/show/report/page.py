"""The page: one HTML file with style, script and content inside, which may load nothing and run nothing else.

The content security policy names the style and the script by their hashes: what does not belong to the page cannot run,
wherever it came from.  Text that comes from data reaches the page as JSON in an element that is never executed, and the
script writes it as text, never as HTML.
"""

from __future__ import annotations

import json
from base64 import b64encode
from hashlib import sha256
from importlib.resources import files
from typing import Any

from .packing import Json

# In the order in which one uses another.
_SCRIPTS = (
    *("unpack", "pursuit", "gross_errors", "classify", "drawing", "elements", "pictures", "charts"),
    *("summary", "training", "gallery", "explorer", "chooser", "pad", "results", "main"),
)


def render_page(title: str, content: Json, facts: list[str]) -> str:
    """Return the page as text."""
    environment = _make_environment()
    style = _read("report.css")
    script = f'"use strict";\n(() => {{\n{"".join(_read(f"{name}.js") for name in _SCRIPTS)}}})();\n'
    return environment.get_template("report.html").render(
        title=title,
        facts=facts,
        style=style,
        script=script,
        style_hash=_hash(style),
        script_hash=_hash(script),
        content=_escape_json(content),
    )


def _make_environment() -> Any:
    try:
        import jinja2
    except ImportError as error:
        raise ImportError('A report needs jinja2: pip install "ddlearn[report]".') from error
    return jinja2.Environment(
        loader=jinja2.FunctionLoader(_read), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )


def _read(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return a hash as content security policies write it."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _escape_json(content: Json) -> str:
    """Return JSON that no HTML parser can take for the end of its element, or for the beginning of another."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
