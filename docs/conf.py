"""Settings of the documentation: ``make docs`` builds it into ``docs/_build/html``.

The site works without a network: mathematics, fonts and icons are files of the site, and nothing is fetched.
"""

from __future__ import annotations

import os
import re
import sys
from importlib.resources import files
from pathlib import Path

from sphinx.application import Sphinx

import ddlearn
from ddlearn.cli import app as commands

DOCS = Path(__file__).parent
EXAMPLES = DOCS.parent / "examples"
sys.path.insert(0, str(DOCS / "api"))

from reference import write_reference  # noqa: E402  (its folder was added one line above)

project = "ddlearn"
author = "The ddlearn developers"
copyright = "2026, The ddlearn developers"
version = release = ddlearn.__version__

extensions = [
    "myst_parser",  # pages are Markdown
    "numpydoc",  # docstrings
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_design",  # cards and tabs
    "sphinx_gallery.gen_gallery",  # examples, run while the site is built
]
exclude_patterns = ["_build"]
nitpicky = True  # a reference to nothing is a warning, and a warning is an error

# Markdown
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3  # headings can be linked to: page.md#heading
math_eqref_format = "({number})"

# Docstrings: numpydoc's sections already tell the types of parameters, so signatures do without them.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = False  # api/reference.py writes these pages
numpydoc_show_class_members = False
add_module_names = False
toc_object_entries_show_parents = "hide"  # the margin has room for transform(), not for DDLClassifier.transform()

# MathJax as one file, with all its TeX packages and no fonts to load, from a package that is there for the files alone.
MATHJAX = files("sphinx-mathjax-offline") / "static" / "mathjax"
mathjax_path = "tex-svg-full.js"
html_static_path = ["_static", str(MATHJAX / mathjax_path)]

html_theme = "pydata_sphinx_theme"
html_title = "ddlearn"
html_logo = "_static/logo.svg"
html_favicon = "_static/logo.svg"
html_css_files = ["ddlearn.css"]
html_show_sourcelink = False
html_copy_source = False
html_context = {"default_mode": "auto"}  # light or dark, as the reader's system has it
html_theme_options = {
    "logo": {"text": "ddlearn"},
    "header_links_before_dropdown": 6,
    "show_toc_level": 2,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
# Pages without siblings need no list of them.
html_sidebars = {"why": [], "install": [], "tutorial": [], "faq": [], "changelog": [], "contributing": []}


def needs_real_data(path: Path) -> bool:
    """Whether an example loads images that are not in the package."""
    return re.search(r"\bload_(usps|mnist|yaleb)\b", path.read_text(encoding="utf-8")) is not None


def list_examples_to_run() -> list[Path]:
    """Return the examples that are run; the others are shown with the pictures that they have in docs/images."""
    paths = sorted(EXAMPLES.glob("*/*.py"))
    return [path for path in paths if "DDLEARN_DATA" in os.environ or not needs_real_data(path)]


sphinx_gallery_conf = {
    "examples_dirs": str(EXAMPLES),
    "gallery_dirs": "gallery",
    "filename_pattern": "|".join(re.escape(str(path)) for path in list_examples_to_run()),
    "within_subsection_order": "FileNameSortKey",
    "doc_module": ("ddlearn",),
    "backreferences_dir": "gallery/backreferences",
    "remove_config_comments": True,
    "image_srcset": ["2x"],  # sharp on screens with small pixels
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
}


def skip_metadata_routing(app: Sphinx, what: str, name: str, *_: object) -> bool | None:
    """Leave out set_score_request and the like, which scikit-learn adds to every estimator."""
    return True if re.fullmatch(r"set_\w+_request", name) else None


def write_demo_report(app: Sphinx, error: Exception | None) -> None:
    """Write the report that the front page links to, demo_report.html, of a model that is fitted here and now."""
    if error is None and app.builder.format == "html":
        commands(["demo", "--output", str(app.outdir / "demo_report.html")], standalone_mode=False)


def setup(app: Sphinx) -> None:
    """Write the API reference before the pages are read, and the report after."""
    write_reference(DOCS / "api" / "generated")
    app.connect("build-finished", write_demo_report)
    app.connect("autodoc-skip-member", skip_metadata_routing)
