"""What a fit learns from: samples with labels, in parts.

A part is some consecutive rows.  It goes through the steps of a fit wherever it is, in this process or on a worker, and
only sums over it come back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..classifiers.problem import sum_weights
from ..describe.base import IDENTITY, Description
from ..describe.checks import check_finite, has_missing
from ..describe.choice import fit_description
from ..describe.missing import describe_and_fill
from ..dictionary import order_candidates
from ..model.codes import Flags, Floats
from ..parallel import PART_ROWS, Parts, is_on_dask, pair_chunks, split_rows
from .labels import Labels, LabelSet, Targets, encode_labels, find_labels, index_classes, read_targets, to_array

Weights = NDArray[np.float64]

_LARGEST_WEIGHT = 1e15  # whose squares are far from the end of float64

# The first atoms are drawn from about this many samples: larger classes are subsampled with a fixed stride, to bound
# memory.
_MOST_CANDIDATES = 2**20


@dataclass(frozen=True, kw_only=True)
class TrainingPart:
    """Some consecutive training samples: rows of what is passed to fit, described."""

    X: Floats  # (n, n_features) where features are missing, filled
    labels: Labels  # (n, n_classes) of -1, 0 (not known) and +1
    weights: Weights | None = None  # (n,), None if all are 1
    first_row: int = 0  # the number of the part's first row
    is_known: Flags | None = None  # (n, n_features) where features are not missing, None if none is
    images: Floats | None = None  # (n, n_image_features) before description, if the described samples are no images
    held_out: Labels | None = None  # labels that are hidden and select the best epoch of refinement, 0 for the others

    @classmethod
    def of(cls, X: Floats, labels: Labels, first_row: int = 0, weights: Weights | None = None) -> TrainingPart:
        """Return a part with samples, labels and weights only."""
        # A memory map without its subclass, which Numba does not know.
        return cls(X=np.asarray(X), labels=labels, weights=weights, first_row=first_row)

    def __len__(self) -> int:
        return len(self.X)

    def find(self, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return which of the rows are in the part, as positions in ``rows``, and their numbers in the part."""
        positions = np.flatnonzero((rows >= self.first_row) & (rows < self.first_row + len(self)))
        return positions, rows[positions] - self.first_row

    @property
    def samples(self) -> Floats:
        """The samples as they are coded."""
        return self.X

    @property
    def n_known(self) -> int | NDArray[np.intp]:
        """The number of known features of each sample, or of all if none is missing."""
        return self.X.shape[1] if self.is_known is None else self.is_known.sum(axis=1)

    def __sizeof__(self) -> int:
        # A cluster moves work to where the larger part of its data is.
        return sum(getattr(value, "nbytes", 0) for value in vars(self).values())


class TrainingFacts(NamedTuple):
    """Sizes of the training set."""

    n_rows: tuple[int, ...]  # of each part
    n_samples: int
    n_features: int
    n_classes: int
    dtype: np.dtype
    n_labelled: NDArray[Any]  # (n_classes,) samples with a known label for the class, each by its weight
    n_positive: NDArray[Any]  # (n_classes,) samples of the class, each by its weight
    n_with_label: int  # samples with a known label for at least one class
    label_weight: float  # the weight of these
    weight: float  # of all samples
    n_missing: float = 0.0  # missing features of a sample, the mean by weight

    @property
    def n_known(self) -> float:
        """Known features of a sample, the mean by weight."""
        return self.n_features - self.n_missing

    @property
    def row_slices(self) -> list[slice]:
        """The rows of each part among all rows."""
        ends = np.cumsum(self.n_rows).tolist()
        return [slice(end - n_rows, end) for end, n_rows in zip(ends, self.n_rows, strict=True)]


def count_labels(part: TrainingPart) -> tuple[NDArray[Any], NDArray[Any], int, float, float]:
    """Return how many labels per class are known and positive, how many samples have any, their weight, and of all."""
    labels, weights = part.labels, part.weights
    n_labelled, n_positive = sum_weights(labels != 0, weights), sum_weights(labels > 0, weights)
    has_label = np.asarray(labels.any(axis=1))
    n_with_label, weight = int(np.count_nonzero(has_label)), float(sum_weights(has_label, weights))
    return n_labelled, n_positive, n_with_label, weight, float(len(labels) if weights is None else weights.sum())


def sum_rows(values: Floats, weights: Weights | None) -> float:
    """Return a sum over samples, each by its weight, in float64."""
    return float(np.sum(values if weights is None else weights @ values.astype(np.float64), dtype=np.float64))


@dataclass(frozen=True)
class TrainingSet:
    """The parts before the fit, and their sizes."""

    parts: Parts[TrainingPart]
    facts: TrainingFacts
    X: Any  # all samples, if they are in this process
    labels: Labels | None  # all labels, if the samples are in this process
    description: Description = IDENTITY  # of the samples
    weights: Weights | None = None  # all weights, if the samples are in this process; None if all are 1
    is_known: Flags | None = None  # which features of described samples are; None if all are
    held_out: Labels | None = None  # hidden labels, if the samples are in this process and there are any

    @classmethod
    def of_arrays(
        cls,
        X: Floats,
        labels: NDArray[Any],
        part_rows: int | None = None,
        description: Description = IDENTITY,
        weights: Weights | None = None,
        is_known: Flags | None = None,
        held_out: Labels | None = None,
    ) -> TrainingSet:
        """Cut arrays in this process, which may be memory-mapped, into parts without a copy."""
        labels, part_rows = labels.astype(np.int8, copy=False), part_rows or PART_ROWS
        starts = range(0, len(X), part_rows)
        blocks = [slice(start, start + part_rows) for start in starts]
        parts = Parts(
            [
                TrainingPart.of(X[rows], labels[rows], rows.start, None if weights is None else weights[rows])
                for rows in blocks
            ]
        )
        n_missing = 0.0
        if is_known is not None:
            parts = parts.map_each(_mark_known, [is_known[rows] for rows in blocks])
            n_missing = float(np.average((~is_known).sum(axis=1), weights=weights))
        if held_out is not None:
            parts = parts.map_each(_mark_held_out, [held_out[rows] for rows in blocks])
        n_rows = tuple(np.diff([*starts, len(X)]).tolist())
        counts = parts.add_up(count_labels)
        facts = TrainingFacts(n_rows, len(X), X.shape[1], labels.shape[1], X.dtype, *counts, n_missing=n_missing)
        return cls(parts, facts, X, labels, description, weights, is_known, held_out)

    def weigh(self, sample_weight: Weights | None, class_weight: Any, targets: Targets) -> TrainingSet:
        """Return the set with weights of samples, which must be in this process, times those of their classes."""
        training = self
        if sample_weight is not None and not (sample_weight == 1).all():
            training = TrainingSet.of_arrays(self.X, collect_labels(self), weights=sample_weight)
        if class_weight is None:
            return training
        parts = training.parts.map(_weigh_part, list_class_weights(class_weight, targets, training.facts))
        if training.labels is not None:
            weights = np.concatenate(parts.gather("weights"))
            return TrainingSet.of_arrays(training.X, training.labels, weights=weights)
        return training._with_labels(parts)

    def _with_labels(self, parts: Parts[TrainingPart]) -> TrainingSet:
        """Return the set with other labels or weights, which are counted."""
        facts = self.facts
        n_labelled, n_positive, n_with_label, label_weight, weight = parts.add_up(count_labels)
        counts = TrainingFacts(*facts[:5], n_labelled, n_positive, n_with_label, label_weight, weight, facts.n_missing)
        return replace(self, parts=parts, facts=counts)

    def hold_out(self, rows: NDArray[np.intp]) -> TrainingSet:
        """Return the set without the labels of some rows, which refinement holds out."""
        parts = self.parts.map(_hide_labels, rows)
        if self.labels is None:
            return self._with_labels(parts)
        labels, held_out = (np.concatenate(parts.gather(name)) for name in ("labels", "held_out"))
        return TrainingSet.of_arrays(
            self.X, labels, description=self.description, weights=self.weights, held_out=held_out
        )

    def take(self, rows: NDArray[np.intp]) -> TrainingSet:
        """Return a set of some rows, which are ascending, in this process."""
        taken = self.parts.collect(_take_columns, rows)
        X, labels, weights, is_known = map(_join_column, zip(*taken, strict=True))
        return TrainingSet.of_arrays(X, labels, weights=weights, is_known=is_known)

    def describe(self, description: Any, image_shape: tuple[int, int] | None) -> TrainingSet:
        """Return the set with described samples; a description that has learned nothing yet learns from them.

        Missing features, which were NaN, are filled.
        """
        description = fit_description(description, self.parts, self.facts.n_samples, image_shape)
        if self.labels is None:
            parts = self.parts.map(_describe_part, description)
            n_features: int = parts.collect(_count_features)[0]
            return replace(self, parts=parts, facts=self.facts._replace(n_features=n_features), description=description)
        if has_missing(self.X):
            X, is_known = describe_and_fill(description, np.asarray(self.X))
            return TrainingSet.of_arrays(X, self.labels, None, description, self.weights, is_known, self.held_out)
        X = _describe_rows(self.X, description)
        if X is self.X:
            return replace(self, description=description)
        described = TrainingSet.of_arrays(X, self.labels, None, description, self.weights, held_out=self.held_out)
        if description.images != "described":
            return described
        images = [self.X[rows] for rows in described.facts.row_slices]
        return replace(described, parts=described.parts.map_each(_put_images, images))


def list_class_weights(class_weight: Any, targets: Targets, facts: TrainingFacts) -> Weights:
    """Return the weight of each class, and last that of samples without label, which is 1.

    "balanced" is N / (C N_j): all classes weigh the same, and all samples together what they did.
    """
    if targets.is_multilabel:
        raise ValueError("class_weight needs one class per sample, but targets are multilabel: use sample_weight.")
    if isinstance(class_weight, str) and class_weight == "balanced":
        return np.append(facts.label_weight / (facts.n_classes * np.maximum(facts.n_positive, 1)), 1.0)
    if not isinstance(class_weight, dict):
        raise ValueError(f"class_weight must be a dict of weights by class, 'balanced' or None, got {class_weight!r}.")
    unknown = [name for name in class_weight if name not in targets.classes.tolist()]
    if unknown:
        raise ValueError(f"class_weight names {unknown}, but the classes are {targets.classes.tolist()}.")
    for name, weight in class_weight.items():
        if not isinstance(weight, Real) or not 0 < float(weight) < np.inf:
            raise ValueError(f"class_weight is {weight!r} for the class {name!r}: weights are numbers above 0.")
        check_weight("class_weight", float(weight))
    return np.array([*(float(class_weight.get(name, 1)) for name in targets.classes.tolist()), 1.0])


def check_weight(name: str, weight: float) -> None:
    """Raise if sums of squares of such weights, times others, might overflow."""
    if weight > _LARGEST_WEIGHT:
        raise ValueError(
            f"{name} has the value {weight:g}: weights are at most {_LARGEST_WEIGHT:g}, so divide all of them by a "
            "number."
        )


def _mark_known(part: TrainingPart, is_known: Flags) -> TrainingPart:
    return replace(part, is_known=is_known)


def _weigh_part(part: TrainingPart, class_weights: Weights) -> TrainingPart:
    weights = class_weights[index_classes(part.labels)]  # -1, no label, is the last
    return replace(part, weights=weights if part.weights is None else weights * part.weights)


def is_mapped(X: Any) -> bool:
    """Whether samples are in a file, from which they are read as they are needed."""
    while X is not None and not isinstance(X, np.memmap):
        X = getattr(X, "base", None)
    return X is not None


def _describe_rows(X: Floats, description: Description) -> Floats:
    """Return described samples; those of a memory-mapped array are mapped too, from a file that goes with them."""
    described = X
    for tile in split_rows(len(X)):
        samples = np.asarray(X[tile])
        rows = description.apply(samples)
        if rows is samples:
            return X  # as they are
        if described is X:
            described = _make_rows(len(X), rows.shape[1], X)
        described[tile] = rows
    return described


def _make_rows(n_rows: int, n_features: int, X: Floats) -> Floats:
    """Return room for rows in the memory or in a file, where X is."""
    if not is_mapped(X):
        return np.empty((n_rows, n_features), X.dtype)
    with TemporaryFile() as file:  # the map keeps it open
        return np.memmap(file, X.dtype, "w+", shape=(n_rows, n_features))


def _describe_part(part: TrainingPart, description: Description) -> TrainingPart:
    X = _describe_rows(part.X, description)
    return replace(part, X=X, images=part.X if description.images == "described" else None)


def _count_features(part: TrainingPart) -> int:
    return part.X.shape[1]


def _put_images(part: TrainingPart, images: Floats) -> TrainingPart:
    return replace(part, images=np.asarray(images))


def collect_labels(training: TrainingSet) -> Labels:
    """Return the labels of all samples."""
    return np.concatenate(training.parts.gather("labels")) if training.labels is None else training.labels


def _mark_held_out(part: TrainingPart, held_out: Labels) -> TrainingPart:
    return replace(part, held_out=held_out)


def collect_classes(training: TrainingSet) -> NDArray[np.intp]:
    """Return the class of each sample, as :func:`index_classes` does."""
    return np.concatenate(training.parts.collect(_index_classes))


def _index_classes(part: TrainingPart) -> NDArray[np.intp]:
    return index_classes(part.labels)


def _hide_labels(part: TrainingPart, rows: NDArray[np.intp]) -> TrainingPart:
    _, own_rows = part.find(rows)
    labels, held_out = part.labels.copy(), np.zeros_like(part.labels)
    held_out[own_rows], labels[own_rows] = labels[own_rows], 0
    return replace(part, labels=labels, held_out=held_out)


def _take_columns(part: TrainingPart, rows: NDArray[np.intp]) -> tuple[NDArray[Any] | None, ...]:
    _, own_rows = part.find(rows)
    columns = part.X, part.labels, part.weights, part.is_known
    return tuple(None if column is None else column[own_rows] for column in columns)


def bring(parts: Parts[TrainingPart]) -> Parts[TrainingPart]:
    """Return parts in this process, cut as arrays in memory are, so that results do not depend on the chunks."""
    if parts.is_local:
        return parts
    names = ("X", "labels", "weights", "images", "held_out")
    taken = parts.gather()
    columns: dict[str, Any] = {name: _join_column([getattr(part, name) for part in taken]) for name in names}

    def cut(start: int) -> TrainingPart:
        own: dict[str, Any] = {
            name: None if column is None else column[start : start + PART_ROWS] for name, column in columns.items()
        }
        part = TrainingPart.of(own["X"], own["labels"], start, own["weights"])
        return replace(part, images=own["images"], held_out=own["held_out"])

    return Parts([cut(start) for start in range(0, sum(map(len, taken)), PART_ROWS)])


def _join_column(pieces: Sequence[Any]) -> Any:
    return None if pieces[0] is None else np.concatenate(pieces)


def cut_into_parts(X: Floats, y: Any, unlabeled: Any) -> tuple[TrainingSet, Targets]:
    """Return the training set of arrays in this process."""
    found = find_labels(y, unlabeled)
    classes = found.get_classes(unlabeled)
    labels = encode_labels(y, classes, unlabeled, found.is_multilabel)
    return TrainingSet.of_arrays(X, labels), Targets(classes, found.is_multilabel)


def _find_labels_of(pair: tuple[Any, Any], unlabeled: Any) -> LabelSet:
    return find_labels(pair[1], unlabeled)


def _count_rows(pair: tuple[Any, Any]) -> int:
    samples, target = pair
    if len(samples) != len(target):
        raise ValueError(f"A chunk of X has {len(samples)} rows, but that of y has {len(target)}: chunk them alike.")
    return len(samples)


def _make_part(pair: tuple[Any, Any], how: tuple[int, np.dtype, NDArray[Any], Any, bool]) -> TrainingPart:
    first_row, dtype, *target = how
    samples = np.require(pair[0], dtype, ["C", "ALIGNED"])  # what Dask has moved is at odd addresses
    check_finite(samples, first_row, remedy="a Dask array must be complete, so remove or impute such values")
    return TrainingPart.of(samples, encode_labels(pair[1], *target), first_row)


def spread_over_cluster(X: Any, y: Any, unlabeled: Any) -> tuple[TrainingSet, Targets]:
    """Return the training set of Dask arrays: each chunk of rows becomes a part on a worker."""
    pairs = pair_chunks(X, y if y is None or is_on_dask(y) else to_array(y))
    session = pairs.session
    try:
        n_rows = pairs.collect(_count_rows)
        pairs = pairs.keep([position for position, n in enumerate(n_rows) if n])
        n_rows = [n for n in n_rows if n]
        if not n_rows:
            raise ValueError("X has no rows: a fit needs samples.")
        found = pairs.add_up(_find_labels_of, unlabeled)
        classes = found.get_classes(unlabeled)
        dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
        target = classes, unlabeled, found.is_multilabel
        first_rows = (np.cumsum(n_rows) - n_rows).tolist()
        parts = pairs.map_each(_make_part, [(first_row, dtype, *target) for first_row in first_rows])
        del pairs  # which the workers may forget, one after another
        counts = parts.add_up(count_labels)
    except BaseException:
        session.release()  # an error on a worker keeps hold of all that led to it
        raise
    facts = TrainingFacts(tuple(n_rows), sum(n_rows), X.shape[1], len(classes), dtype, *counts)
    return TrainingSet(parts, facts, X, labels=None), Targets(classes, found.is_multilabel)


def cut_batch(X: Floats, y: Any, classes: Any, unlabeled: Any, known: Targets | None) -> tuple[TrainingSet, Targets]:
    """Return a batch as a training set, and what its labels mean; see :func:`read_targets`."""
    labels, targets = read_targets(y, classes, unlabeled, known)
    if known is None and not labels.any():
        raise ValueError(
            f"All {len(labels)} samples of the first batch are marked as unlabelled (unlabeled={unlabeled!r}): "
            "begin with labelled ones, others may follow."
        )
    return TrainingSet.of_arrays(X, labels), targets


def count_classes(part: TrainingPart) -> NDArray[np.int64]:
    """Return the number of samples per class, after that of unlabelled ones."""
    return np.bincount(index_classes(part.labels) + 1, minlength=part.labels.shape[1] + 2)


class Candidates(NamedTuple):
    """Samples that may become first atoms."""

    rows: NDArray[np.int32]  # of the part
    class_index: NDArray[np.signedinteger]


def find_candidates(part: TrainingPart, request: tuple[NDArray[np.int64], NDArray[np.int64]]) -> Candidates:
    """Return every s-th sample of each class, with a stride s per class, counted on from the parts before."""
    n_before, strides = request
    index = index_classes(part.labels)
    is_candidate = np.zeros(len(index), bool)
    for position, stride in enumerate(strides):
        rows = np.flatnonzero(index == position - 1)
        is_candidate[rows[-n_before[position] % stride :: stride]] = True
    # In few bytes, since these come from all parts to one place.
    smallest = np.min_scalar_type(-len(strides))
    return Candidates(np.flatnonzero(is_candidate).astype(np.int32), index[is_candidate].astype(smallest))


def take_rows(part: TrainingPart, rows: NDArray[np.intp]) -> tuple[NDArray[np.intp], Floats]:
    """Return which of the rows are in a part, as positions in ``rows``, and their samples."""
    positions, own_rows = part.find(rows)
    return positions, part.X[own_rows]


def fetch_candidates(training: TrainingSet, n_at_once: int, rng: np.random.RandomState) -> Iterator[Floats]:
    """Yield samples in the order in which they are tried as first atoms."""
    class_index, rows = _list_candidates(training)
    order = order_candidates(class_index, rng)
    for start in range(0, len(order), n_at_once):
        wanted = rows[order[start : start + n_at_once]]
        yield _take_from_parts(training, wanted) if training.labels is None else np.asarray(training.X[wanted])


def _take_from_parts(training: TrainingSet, rows: NDArray[np.intp]) -> Floats:
    samples = np.empty((len(rows), training.facts.n_features), training.facts.dtype)
    for positions, taken in training.parts.collect(take_rows, rows):
        samples[positions] = taken
    return samples


def _list_candidates(training: TrainingSet) -> tuple[NDArray[np.signedinteger], NDArray[np.intp]]:
    """Return the classes and rows of the samples that may become first atoms."""
    parts, facts = training.parts, training.facts
    if training.labels is not None and facts.n_samples <= _MOST_CANDIDATES:
        return index_classes(training.labels), np.arange(facts.n_samples)
    counts = np.array(parts.collect(count_classes))
    n_of_class = counts.sum(axis=0)
    stride = -(-facts.n_samples // _MOST_CANDIDATES)
    strides = np.where(n_of_class * len(n_of_class) > _MOST_CANDIDATES, stride, 1)
    n_before = np.cumsum(counts, axis=0) - counts
    found = parts.map_each(find_candidates, [(before, strides) for before in n_before]).gather()
    class_index = np.concatenate([candidates.class_index for candidates in found])
    rows = [block.start + candidates.rows for block, candidates in zip(facts.row_slices, found, strict=True)]
    return class_index, np.concatenate(rows)
