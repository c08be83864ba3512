"""Targets: labels of -1, 0 (unknown) and +1 with one column per class (the paper's l).

The target may be in several places: each reports its labels (:func:`find_labels`), together they make the classes
(:meth:`LabelSet.get_targets`), and each is encoded by those (:meth:`Targets.encode`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from ..parallel import warn_user

Labels = NDArray[np.int8]


@dataclass(frozen=True)
class LabelSet:
    """The labels that occur in a target; the sum of two holds those that occur in either."""

    values: NDArray[Any]  # unique and sorted; for multilabel targets the column numbers
    types: frozenset[str]
    is_multilabel: bool
    n_samples: int

    def __add__(self, other: LabelSet) -> LabelSet:
        if self.is_multilabel != other.is_multilabel or (self.is_multilabel and len(self.values) != len(other.values)):
            raise ValueError("y has another number of columns in one part than in another.")
        types, values = self.types | other.types, self.values
        if not self.is_multilabel and len(types) == 1:  # several types cannot be sorted, and are refused in the end
            values = np.unique(np.concatenate([labels.values for labels in (self, other) if labels.types]))
        return LabelSet(values, types, self.is_multilabel, self.n_samples + other.n_samples)

    def get_targets(self, unlabeled: Any) -> Targets:
        """Return the classes, or raise if there are none to learn; warn of -1, scikit-learn's mark of no label."""
        if self.is_multilabel:
            return Targets(self.values, True)
        if not self.types:
            raise ValueError(
                f"All {self.n_samples} samples are marked as unlabelled (unlabeled={unlabeled!r}): "
                "label at least two classes, or use KSVD for a dictionary without classes."
            )
        self.check_types()
        if len(self.values) < 2:
            raise ValueError(
                f"y holds only one class, {self.values.tolist()[0]!r}: "
                "a classifier needs samples of at least two classes."
            )
        first, second, *others = self.values[:3].tolist()
        if unlabeled is None and self.values.dtype.kind == "i" and others and first == -1 and second >= 0:
            warn_user(
                "y contains -1, which is learned as a class of its own. If it marks samples without a label, set "
                "unlabeled=-1.",
            )
        return Targets(self.values, False)

    def check_types(self) -> None:
        """Raise if there are labels of several types."""
        if len(self.types) > 1:
            raise ValueError(f"y mixes labels of the types {sorted(self.types)}: give all labels the same type.")


def find_labels(y: Any, unlabeled: Any) -> LabelSet:
    """Return the labels that occur in a target.

    >>> find_labels(["b", "a", "?"], "?").values.tolist()
    ['a', 'b']
    """
    if y is None:
        raise ValueError("A classifier requires y to be passed, but the target y is None.")
    y = to_array(y)
    if _is_indicator(y):
        _check_indicator(y)
        return LabelSet(np.arange(y.shape[1]), frozenset({"int"}), True, len(y))
    y = column_or_1d(y, warn=True)
    is_labelled = ~_equals(y, unlabeled)
    if y.dtype.kind == "f" and not np.isfinite(y[is_labelled]).all():
        row = np.flatnonzero(is_labelled & ~np.isfinite(y))[0]
        word = "NaN" if np.isnan(y[row]) else "infinity"
        raise ValueError(f"Input y contains {word} in row {row}; mark samples without label by `unlabeled`.")
    known = y[is_labelled]
    types = frozenset(type(value).__name__ for value in known.tolist())
    if len(types) != 1:
        return LabelSet(known[:0], types, False, len(y))
    known = _unify(known)
    check_classification_targets(known)
    return LabelSet(np.unique(known), types, False, len(y))


def to_array(y: Any) -> NDArray[Any]:
    """Return the target as an array; NumPy alone would make strings of a list such as ["a", nan] or [1, "a"]."""
    if hasattr(y, "toarray"):  # a sparse matrix
        return y.toarray()
    if hasattr(y, "dtype") or np.asarray(y, dtype=object).ndim > 1:
        return np.asarray(y)
    return np.asarray(y, dtype=object)


def _equals(y: NDArray[Any], marker: Any) -> NDArray[np.bool_]:
    """Where y is the marker; NaN equals NaN."""
    if isinstance(marker, float | np.floating) and np.isnan(marker):
        return np.array([isinstance(value, float) and np.isnan(value) for value in y.tolist()])
    return np.array([value is marker or value == marker for value in y.tolist()], dtype=bool)


def _unify(known: NDArray[Any]) -> NDArray[Any]:
    """Return labels of one type as an array of that type; text may be of any length, so it stays as it is."""
    is_text = known.dtype != object or (len(known) and isinstance(known[0], str))
    return known if is_text else np.array(known.tolist())


def _is_indicator(y: NDArray[Any]) -> bool:
    return y.ndim == 2 and y.shape[1] > 1


def _check_indicator(y: NDArray[Any]) -> NDArray[Any]:
    indicator = check_array(y, ensure_all_finite=True, dtype=None, input_name="y")
    if not np.isin(indicator, (0, 1)).all():
        raise ValueError(
            f"y has {indicator.shape[1]} columns, but holds values other than 0 and 1: "
            "give one class per sample, or a matrix of zeros and ones."
        )
    return indicator


class Targets(NamedTuple):
    """What the columns of the labels mean.

    >>> Targets(np.array(["a", "b"]), False).encode(["b", "?"], "?")
    array([[-1,  1],
           [ 0,  0]], dtype=int8)
    """

    classes: NDArray[Any]
    is_multilabel: bool

    def encode(self, y: Any, unlabeled: Any) -> Labels:
        """Return labels of -1, 0 (unknown) and +1, one column per class."""
        y = to_array(y)
        if self.is_multilabel:
            return np.where(_check_indicator(y) == 1, np.int8(1), np.int8(-1))
        y = column_or_1d(y)
        is_labelled = ~_equals(y, unlabeled)
        labels = np.zeros((len(y), len(self.classes)), np.int8)
        positions = np.searchsorted(self.classes, _unify(y[is_labelled]))
        labels[is_labelled] = -1
        labels[np.flatnonzero(is_labelled), positions] = 1
        return labels


def read_targets(y: Any, classes: Any, unlabeled: Any, known: Targets | None) -> tuple[Labels, Targets]:
    """Return the labels of a batch, and what their columns mean; ``known`` are the targets of earlier batches.

    >>> labels, targets = read_targets(["b"], ["b", "a", "c"], None, None)
    >>> labels, targets.classes.tolist()
    (array([[-1,  1, -1]], dtype=int8), ['a', 'b', 'c'])
    """
    found = find_labels(y, unlabeled)
    if known and found.is_multilabel != known.is_multilabel:
        raise ValueError("y is a matrix of zeros and ones in some batches and one class per sample in others.")
    named = known.classes if known and classes is None else _find_classes(classes, found, unlabeled)
    targets = known or Targets(named, found.is_multilabel)
    if named.tolist() != targets.classes.tolist():
        raise ValueError(
            f"`classes={named.tolist()}` is not the same as on last call to partial_fit, was: "
            f"{targets.classes.tolist()}."
        )
    if found.is_multilabel and len(found.values) != len(targets.classes):
        raise ValueError(f"y has {len(found.values)} columns, but there are {len(targets.classes)} classes.")
    found.check_types()
    unknown = sorted(set(found.values.tolist()) - set(targets.classes.tolist()))
    if unknown:
        raise ValueError(
            f"The target label(s) {unknown} in y do not exist in the initial classes {targets.classes.tolist()}: "
            "name all classes in the first call of partial_fit."
        )
    labels = targets.encode(y, unlabeled)
    if known is None and not labels.any():
        raise ValueError(
            f"All {len(labels)} samples of the first batch are marked as unlabelled (unlabeled={unlabeled!r}): "
            "begin with labelled ones, others may follow."
        )
    return labels, targets


def _find_classes(classes: Any, found: LabelSet, unlabeled: Any) -> NDArray[Any]:
    """Return the classes that are named for a target, in order."""
    if found.is_multilabel:
        last = len(found.values) - 1
        if classes is not None and sorted(np.asarray(classes).tolist()) != found.values.tolist():
            raise ValueError(f"classes of multilabel targets are the column numbers 0 to {last}, or None.")
        return found.values
    if classes is None:
        raise ValueError("classes must be passed on the first call to partial_fit.")
    named = find_labels(classes, unlabeled).values
    if len(named) < 2:
        raise ValueError(f"classes={classes!r}: a classifier needs at least two classes, all of the same type.")
    return named
