"""How often predictions are wrong, and where: numbers for tables and reports."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.metrics import precision_recall_fscore_support


class Errors(NamedTuple):
    """The errors of some predictions."""

    n_samples: int
    n_wrong: int
    error: float
    error_interval: list[float]  # Wilson's, of 95 %
    classes: NDArray[Any]  # all that are labels or predictions
    n_samples_of_class: NDArray[np.intp]
    precision: NDArray[np.floating]  # NaN for a class that is never predicted
    recall: NDArray[np.floating]  # NaN for a class without samples
    f1: NDArray[np.floating]
    confusion: NDArray[np.intp]  # a row for each class, a column for each prediction


def measure_errors(labels: NDArray[Any], predictions: NDArray[Any]) -> Errors:
    """Compare predictions with labels of the same type."""
    classes = np.unique(np.concatenate([labels, predictions]))
    n_wrong = int(np.count_nonzero(labels != predictions))
    interval = binomtest(n_wrong, len(labels)).proportion_ci(0.95, method="wilson")
    precision, recall, f1, support = precision_recall_fscore_support(
        labels, predictions, labels=classes, zero_division=np.nan
    )
    return Errors(
        n_samples=len(labels),
        n_wrong=n_wrong,
        error=n_wrong / len(labels),
        error_interval=[interval.low, interval.high],
        classes=classes,
        n_samples_of_class=support,
        precision=precision,
        recall=recall,
        f1=f1,
        confusion=_count_pairs(classes, labels, predictions),
    )


def _count_pairs(classes: NDArray[Any], labels: NDArray[Any], predictions: NDArray[Any]) -> NDArray[np.intp]:
    """Return the confusion matrix, also of a single class, of which scikit-learn's function warns."""
    counts = np.zeros((len(classes), len(classes)), np.intp)
    np.add.at(counts, (np.searchsorted(classes, labels), np.searchsorted(classes, predictions)), 1)
    return counts


def match_types(labels: NDArray[Any], classes: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return both as text if one may be: a folder is named by text even where the class is a number."""
    if labels.dtype.kind != classes.dtype.kind and {labels.dtype.kind, classes.dtype.kind} & {"U", "O"}:
        return labels.astype(str), classes.astype(str)
    return labels, classes
