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
    if not len(labels):
        raise ValueError("There are no samples, so there are no errors to measure: give one at least.")
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


def match_types(*names: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Return all as text if they differ and one may be text: a folder is, even where the class is a number."""
    kinds = {some.dtype.kind for some in names}
    return tuple(some.astype(str) for some in names) if len(kinds) > 1 and kinds & {"U", "O"} else names


def check_labels(y: Any, unlabeled: Any = None) -> None:
    """Raise for samples without a label, be it missing or the marker of a model: they are neither right nor wrong.

    It takes y as it was given, since NumPy makes the text "nan" of what is missing in a list of texts.
    """
    for row, label in enumerate(y.tolist() if hasattr(y, "tolist") else y):
        if _is_missing(label):
            raise ValueError(f"y holds {label} in row {row}, which is no class: leave out samples without label.")
        if unlabeled is not None and (label == unlabeled or str(label) == str(unlabeled)):
            raise ValueError(
                f"y holds {label!r} in row {row}, by which the model marks samples without label (its parameter "
                "unlabeled): leave them out, since they are neither right nor wrong."
            )


def _is_missing(label: Any) -> bool:
    """Whether it is None, NaN, which does not equal itself, or NA of pandas, of which that cannot be said."""
    is_itself = label == label
    return label is None or not isinstance(is_itself, bool | np.bool_) or not is_itself
