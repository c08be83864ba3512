"""From a fitted model and samples to one HTML file that contains its style, script and content.

The page loads nothing and runs nothing else: its content security policy names style and script by their hashes.  Text
from data reaches the page as JSON in an element that is never executed, and the script writes it as text, not as HTML.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Sequence
from datetime import date
from hashlib import sha256
from importlib import import_module
from importlib.resources import files

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_consistent_length, validate_data

from ...coding.robust import ROBUSTNESS
from ...estimators.classifier import DDLClassifier
from ...files.store import write_atomically
from ..displays.base import find_model, preprocess, resolve_image_shape
from ..errors import check_labels
from .content import collect_content
from .packing import Json
from .samples import Data, Floats

_SCRIPTS = (  # in the order of their dependencies
    *("unpack", "scaling", "elastic_net", "pursuit", "gross_errors", "views", "classify", "drawing"),
    *("elements", "pictures", "charts"),
    *("summary", "training", "gallery", "explorer", "chooser", "pad", "features", "results", "check", "main"),
)


def write_report(
    model: DDLClassifier | Pipeline,
    path: str | os.PathLike[str],
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    title: str = "A dictionary that classifies",
    data_name: str | None = None,
    sample_names: Sequence[str] | None = None,
    image_shape: tuple[int, ...] | None = None,
    training: tuple[ArrayLike, ArrayLike] | None = None,
) -> None:
    """Write a fitted model as one interactive HTML page, which any browser opens without a network or a server.

    The page checks the model, shows its errors, its training and its atoms, and codes samples itself: choose a sample,
    change it, or draw an image, and see its atoms, its reconstruction and the evidence for each class.

    Parameters
    ----------
    model : DDLClassifier or Pipeline
        The fitted model, with one label per sample, or a pipeline that ends with it.  Samples of a pipeline are shown,
        and drawn, as its last step receives them.
    path : str or path-like
        The file to write; an existing file is replaced atomically.
    X : array-like of shape (n_samples, n_features) or None, default=None
        Samples to show, preferably held-out ones.  The page contains some of them (about 1 MB), including every kind
        of error; numbers refer to all of them.
    y : array-like of shape (n_samples,) or None, default=None
        True classes, needed to show errors.  Classes unknown to the model count as errors.
    title : str, default="A dictionary that classifies"
        The title of the page.
    data_name : str or None, default=None
        What the data are called.
    sample_names : sequence of str or None, default=None
        One name per sample, such as its file name.
    image_shape : tuple of int or None, default=None
        ``(height, width)`` or ``(height, width, 3)`` of images; by default that of the model, if it has one.
    training : tuple of X and y or None, default=None
        The training samples, from which a logistic regression learns that the model is compared with; by default it
        learns from four fifths of the samples at a time.

    Raises
    ------
    ValueError
        If the model has several labels per sample, the samples do not match it, or y has missing labels.
    TypeError
        If the model is neither a DDLClassifier nor a pipeline that ends with one.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_digits
    >>> from ddlearn import DDLClassifier, write_report
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DDLClassifier(n_components=50, max_iter=2, random_state=0).fit(X[:1000], y[:1000])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "digits.html")
    ...     write_report(model, path, X[1000:], y[1000:], image_shape=(8, 8))
    ...     os.path.getsize(path) < 1_000_000
    True
    """
    classifier: DDLClassifier = find_model(model)
    if classifier.is_multilabel_:
        raise ValueError("A report needs a model with one label per sample, but this one predicts several.")
    shape = resolve_image_shape(image_shape, classifier.n_features_in_, classifier)
    if X is None and not (y is None and sample_names is None):
        raise ValueError("y and sample_names describe samples: pass them as X.")
    data = None
    if X is not None:
        data = _check_data(classifier, preprocess(model, X), y, data_name, sample_names)
        if training is not None:
            learned = _check_samples(classifier, preprocess(model, training[0]))
            data = data._replace(training=(learned, np.asarray(training[1])))
    steps_before = [name for name, _ in model.steps[:-1]] if isinstance(model, Pipeline) else []
    page = _render_page(title, _list_facts(classifier, data), collect_content(classifier, data, shape, steps_before))
    write_atomically(path, page.encode(errors="replace"))  # a title from a file name may not be valid text


def _check_data(
    model: DDLClassifier, X: ArrayLike, y: ArrayLike | None, name: str | None, sample_names: Sequence[str] | None
) -> Data:
    X = _check_samples(model, X)
    labels = None if y is None else np.asarray(y)
    check_consistent_length(X, labels, sample_names)
    if labels is not None:
        if labels.ndim != 1:
            raise ValueError(f"y must contain one class per sample, got an array of shape {labels.shape}.")
        check_labels(y, model.unlabeled)
    return Data(X, labels, name, None if sample_names is None else [str(one) for one in sample_names], None)


def _check_samples(model: DDLClassifier, X: ArrayLike) -> Floats:
    finite = True if ROBUSTNESS.resolve(model.robustness).missing == "error" else "allow-nan"
    return validate_data(model, X, dtype=np.float64, order="C", ensure_all_finite=finite, reset=False)


def _list_facts(model: DDLClassifier, data: Data | None) -> list[str]:
    """Return the facts below the title, which are visible without scripts."""
    version = import_module("ddlearn").__version__  # the package imports this file, so not at the top
    sizes = {"atoms": len(model.components_), "features": model.n_features_in_}
    sizes |= {} if data is None else {"samples": len(data.X)}
    facts = [f"{len(model.classes_)} classes", *(f"{size:,} {name}" for name, size in sizes.items())]
    return [*facts, f"made on {date.today().isoformat()} by ddlearn {version}"]


def _render_page(title: str, facts: list[str], content: Json) -> str:
    try:
        import jinja2
    except ImportError as error:
        raise ImportError('A report needs jinja2: pip install "ddlearn[report]".') from error
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_read), autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True
    )
    style = _read("report.css")
    script = f'"use strict";\n(() => {{\n{"".join(_read(f"{name}.js") for name in _SCRIPTS)}}})();\n'
    parts = {"style": style, "style_hash": _hash(style), "script": script, "script_hash": _hash(script)}
    return environment.get_template("report.html").render(
        title=title, facts=facts, content=_escape_json(content), **parts
    )


def _read(name: str) -> str:
    return files(__package__).joinpath("templates", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return a hash in the notation of content security policies."""
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def _escape_json(content: Json) -> str:
    """Return JSON that an HTML parser cannot mistake for a tag."""
    text = json.dumps(content, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
