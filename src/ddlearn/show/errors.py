"""Error tables: how often predictions are wrong, per class and pair of classes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest
from sklearn.metrics import precision_recall_fscore_support


class Errors(NamedTuple):
    """Errors of predictions, in total and per class."""

    n_samples: int
    n_wrong: int
    error: float
    error_interval: list[float]  # Wilson's 95 % confidence interval
    classes: NDArray[Any]  # those that occur in labels or predictions, sorted
    n_samples_of_class: NDArray[np.intp]
    precision: NDArray[np.floating]  # NaN for a class that is never predicted
    recall: NDArray[np.floating]  # NaN for a class without samples
    f1: NDArray[np.floating]
    confusion: NDArray[np.intp]  # one row per class, one column per predicted class


def measure_errors(labels: NDArray[Any], predictions: NDArray[Any]) -> Errors:
    """Compare predictions with labels of the same type."""
    n_samples, n_wrong = len(labels), int(np.count_nonzero(labels != predictions))
    interval = binomtest(n_wrong, n_samples).proportion_ci(0.95, method="wilson")
    classes, cells = np.unique(np.concatenate([labels, predictions]), return_inverse=True)
    confusion = np.zeros((len(classes), len(classes)), np.intp)  # scikit-learn's function warns of a single class
    np.add.at(confusion, tuple(cells.reshape(2, n_samples)), 1)
    precision, recall, f1, support = precision_recall_fscore_support(
        labels, predictions, labels=classes, zero_division=np.nan
    )
    error, ends = n_wrong / n_samples, [float(interval.low), float(interval.high)]
    return Errors(n_samples, n_wrong, error, ends, classes, support, precision, recall, f1, confusion)


def find_positions(classes: NDArray[Any], labels: NDArray[Any]) -> NDArray[np.intp]:
    """Return the places of labels among the classes, -1 for labels that are none of them."""
    places = {name: place for place, name in enumerate(classes.tolist())}
    return np.array([places.get(label, -1) for label in labels.tolist()], np.intp)


def match_types(*names: NDArray[Any]) -> tuple[NDArray[Any], ...]:
    """Convert all to text if types differ and one may be text: folder names are text, even if classes are numbers."""
    kinds = {some.dtype.kind for some in names}
    return tuple(some.astype(str) for some in names) if len(kinds) > 1 and kinds & {"U", "O"} else names


def check_labels(y: Any, unlabeled: Any = None) -> None:
    """Raise an error unless there are samples and all have a label, neither missing nor the model's marker `unlabeled`.

    Pass y unconverted: NumPy turns missing values in a list of texts into the text "nan".
    """
    labels = y.tolist() if hasattr(y, "tolist") else y
    if not len(labels):
        raise ValueError("y is empty: pass at least one sample.")
    for row, label in enumerate(labels):
        if _is_missing(label):
            raise ValueError(f"y contains {label} in row {row}: leave out samples without a label.")
        if unlabeled is not None and (label == unlabeled or str(label) == str(unlabeled)):
            raise ValueError(
                f"y contains {label!r} in row {row}, which marks samples without a label (parameter unlabeled of the "
                "model): leave them out, since their predictions are neither right nor wrong."
            )


def _is_missing(label: Any) -> bool:
    """Return whether a label is None, NaN (not equal to itself) or NA of pandas (whose comparison is no bool)."""
    is_itself = label == label
    return label is None or not isinstance(is_itself, bool | np.bool_) or not is_itself
