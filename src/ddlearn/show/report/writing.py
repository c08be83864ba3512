"""From a fitted model and samples to a file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import date
from importlib import import_module

import numpy as np
from numpy.typing import ArrayLike
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_consistent_length, validate_data

from ...estimators.classifier import DDLClassifier
from ...files.atomic import write_atomically
from ..displays.base import find_model, preprocess, resolve_image_shape
from ..errors import check_labels
from .content import Data, collect_content
from .page import render_page

__all__ = ["write_report"]


def write_report(
    model: DDLClassifier | Pipeline,
    path: str | os.PathLike[str],
    X: ArrayLike | None = None,
    y: ArrayLike | None = None,
    *,
    title: str = "A dictionary that classifies",
    data_name: str = "the samples",
    sample_names: Sequence[str] | None = None,
    image_shape: tuple[int, ...] | None = None,
) -> None:
    """Write a fitted model as one interactive page, which any browser opens without a network or a server.

    The page shows the errors, the training and the atoms, and codes samples itself: choose one, change it, or for
    images draw one, and see its atoms, its reconstruction and the evidence for each class.

    Parameters
    ----------
    model : DDLClassifier or Pipeline
        The model, with one label a sample, or a pipeline that ends with it: samples are then shown, and drawn, as the
        steps before it leave them.
    path : str or path-like
        The file; one that is there is replaced in one step.
    X : array-like of shape (n_samples, n_features) or None, default=None
        Samples to show, best those that the model was not fitted to.  A page has room for some of them (about 1 MB),
        of every kind of error; numbers are those of all.
    y : array-like of shape (n_samples,) or None, default=None
        Their classes; without them there are no errors to show.  Classes that the model does not know are errors.
    title : str, default="A dictionary that classifies"
        What stands above the page.
    data_name : str, default="the samples"
        What the samples are called.
    sample_names : sequence of str or None, default=None
        A name for each sample, such as that of its file.
    image_shape : tuple of int or None, default=None
        Height and width of images, or height, width and 3 for colour.  By default that of the model, if it has one.

    Raises
    ------
    ValueError
        If the model has several labels a sample, the samples do not fit it, or one of them has no label though there
        is a y.
    TypeError
        If the model is none, but a search for instance.

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
        raise ValueError("A report shows models with one label a sample; this one was fitted to several.")
    shape = resolve_image_shape(image_shape, classifier.n_features_in_, classifier)
    if X is None and not (y is None and sample_names is None):
        raise ValueError("y and sample_names tell of samples: give them as X.")
    data = None if X is None else _check_data(classifier, preprocess(model, X), y, data_name, sample_names)
    steps_before = [name for name, _ in model.steps[:-1]] if isinstance(model, Pipeline) else []
    content = collect_content(classifier, data, shape, steps_before)
    page = render_page(title, content, _list_facts(classifier, data))
    write_atomically(path, page.encode(errors="replace"))  # a title from a file's name may hold what is no character


def _check_data(
    model: DDLClassifier, X: ArrayLike, y: ArrayLike | None, name: str, sample_names: Sequence[str] | None
) -> Data:
    X = validate_data(
        model,
        X,
        dtype=[np.float64, np.float32],
        order="C",
        ensure_all_finite=True if model.missing == "error" else "allow-nan",
        reset=False,
    )
    labels = None if y is None else np.asarray(y)
    check_consistent_length(X, labels, sample_names)
    if labels is not None and labels.ndim != 1:
        raise ValueError(f"y must hold one class for each sample, got an array of shape {labels.shape}.")
    if labels is not None:
        check_labels(y, model.unlabeled)
    return Data(X, labels, name, None if sample_names is None else [str(one) for one in sample_names])


def _list_facts(model: DDLClassifier, data: Data | None) -> list[str]:
    """Return what stands under the title, for readers whose browser runs no scripts too."""
    version = import_module("ddlearn").__version__  # the package imports this file, so only now
    n_atoms, n_features = model.components_.shape
    facts = [f"{len(model.classes_)} classes", f"{n_atoms:,} atoms", f"{n_features:,} features"]
    if data is not None:
        facts.append(f"{len(data.X):,} samples")
    return [*facts, f"made on {date.today().isoformat()} by ddlearn {version}"]
