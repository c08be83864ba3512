"""What a fit learns from: samples with labels and weights, in parts.

A part is some consecutive rows.  It goes through the steps of a fit wherever it is, in this process or on a worker, and
only sums over it come back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Real
from tempfile import TemporaryFile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..describe.base import IDENTITY, Description
from ..describe.checks import check_finite, has_missing
from ..describe.choice import fit_description
from ..describe.missing import describe_and_fill
from ..dictionary import order_candidates
from ..model.codes import Flags, Floats
from ..parallel import PART_ROWS, Parts, add_in_tree, is_on_dask, pair_chunks, split_rows
from .labels import Labels, LabelSet, Targets, find_labels, to_array

Weights = NDArray[np.float64]
RowNumbers = NDArray[np.intp]

_LARGEST_WEIGHT = 1e15  # whose squares are far from the end of float64

# The first atoms are drawn from about this many samples: larger classes are subsampled with a fixed stride, to bound
# memory.
_MOST_CANDIDATES = 2**20


@dataclass(frozen=True, kw_only=True)
class TrainingPart:
    """Some consecutive training samples: columns of what is passed to fit, described."""

    X: Floats  # (n, n_features) where features are missing, filled
    labels: Labels  # (n, n_classes) of -1, 0 (not known) and +1
    weights: Weights  # (n,)
    first_row: int = 0  # the number of the part's first row
    is_known: Flags | None = None  # (n, n_features) where features are not missing, None if none is
    images: Floats | None = None  # (n, n_image_features) before description, if the described samples are no images
    held_out: Labels | None = None  # labels that are hidden and select the best epoch of refinement, 0 for the others

    @classmethod
    def of(cls, X: Floats, labels: Labels, weights: Weights | None = None, **columns: Any) -> TrainingPart:
        """Return a part whose samples weigh 1, unless they have weights."""
        weights = np.ones(len(labels)) if weights is None else weights
        # A memory map without its subclass, which Numba does not know.
        return cls(X=np.asarray(X), labels=labels, weights=weights, **columns)

    def __len__(self) -> int:
        return len(self.X)

    def find(self, rows: RowNumbers) -> tuple[RowNumbers, RowNumbers]:
        """Return which of the rows are in the part, as positions in ``rows``, and their numbers in the part."""
        positions = np.flatnonzero((rows >= self.first_row) & (rows < self.first_row + len(self)))
        return positions, rows[positions] - self.first_row

    def take(self, own_rows: slice | RowNumbers, first_row: int = 0) -> TrainingPart:
        """Return some of the rows, numbered anew."""
        columns = list_columns(self).items()
        taken: Any = {name: None if column is None else column[own_rows] for name, column in columns}
        return TrainingPart(**taken, first_row=first_row)

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


def list_columns(part: TrainingPart) -> dict[str, Any]:
    """Return the columns of the input by name."""
    return {field.name: getattr(part, field.name) for field in fields(TrainingPart) if field.name != "first_row"}


def _join(parts: Sequence[TrainingPart]) -> TrainingPart:
    """Return all rows in one part."""
    joined: Any = {}
    for name, column in list_columns(parts[0]).items():
        joined[name] = None if column is None else np.concatenate([getattr(part, name) for part in parts])
    return TrainingPart(**joined)


def _cut(whole: TrainingPart, n_rows: int) -> Parts[TrainingPart]:
    """Return parts of so many rows, without a copy."""
    starts = range(0, len(whole), n_rows)
    return Parts([whole.take(slice(start, start + n_rows), start) for start in starts])


def bring(parts: Parts[TrainingPart]) -> Parts[TrainingPart]:
    """Return parts in this process, cut as arrays in memory are, so that results do not depend on the chunks."""
    return parts if parts.is_local else _cut(_join(parts.gather()), PART_ROWS)


class TrainingFacts(NamedTuple):
    """Sizes of the training set."""

    n_rows: tuple[int, ...]  # of each part
    n_features: int
    n_classes: int
    dtype: np.dtype
    is_weighted: bool  # whether a weight is not 1
    n_with_label: int  # samples with a known label for at least one class
    n_labelled: Floats  # (n_classes,) samples with a known label for the class, each by its weight
    n_positive: Floats  # (n_classes,) samples of the class, each by its weight
    label_weight: float  # the weight of samples with a label
    weight: float  # of all samples
    n_known: float  # features of a sample, the mean by weight

    @classmethod
    def of(cls, parts: Parts[TrainingPart]) -> TrainingFacts:
        """Return the sizes of all parts together."""
        n_rows, shapes, is_weighted, counts = zip(*parts.collect(_measure), strict=True)
        sums: tuple[Any, ...] = add_in_tree(counts)
        n_features, n_classes, dtype = shapes[0]
        *others, weight, missing_weight = sums
        n_known = n_features - missing_weight / weight
        sizes: Any = n_features, n_classes, dtype, any(is_weighted), *others, weight, n_known
        return cls(n_rows, *sizes)

    @property
    def n_samples(self) -> int:
        """The number of samples."""
        return sum(self.n_rows)


def _measure(part: TrainingPart) -> tuple[int, tuple[int, int, np.dtype], bool, tuple[Any, ...]]:
    """Return the number of rows, what all parts have in common, whether a weight is not 1, and what is added up."""
    labels, weights, is_labelled = part.labels, part.weights, np.asarray(part.labels.any(axis=1))
    counts = (
        int(np.count_nonzero(is_labelled)),
        weights @ (labels != 0),
        weights @ (labels > 0),
        float(weights @ is_labelled),
        float(weights.sum()),
        float(np.sum(weights * (part.X.shape[1] - part.n_known))),
    )
    return len(part), (part.X.shape[1], labels.shape[1], part.X.dtype), bool((weights != 1).any()), counts


@dataclass(frozen=True)
class TrainingSet:
    """The samples of a fit in parts, and their sizes."""

    parts: Parts[TrainingPart]
    facts: TrainingFacts
    whole: TrainingPart | None = None  # all rows, if they are in this process
    description: Description = IDENTITY  # of the samples

    @classmethod
    def of_arrays(cls, X: Floats, labels: NDArray[Any], part_rows: int | None = None, **columns: Any) -> TrainingSet:
        """Cut arrays in this process, which may be memory-mapped, into parts without a copy."""
        whole = TrainingPart.of(X, labels.astype(np.int8, copy=False), **columns)
        parts = _cut(whole, part_rows or PART_ROWS)
        return cls(parts, TrainingFacts.of(parts), whole)

    def map(self, step: Callable[..., TrainingPart], *shared: Any) -> TrainingSet:
        """Return the set of the rows ``step(rows, *shared)``, wherever they are: the only way to another set."""
        if self.whole is None:
            parts: Parts[TrainingPart] = self.parts.map(step, *shared)
            return replace(self, parts=parts, facts=TrainingFacts.of(parts))
        whole = step(self.whole, *shared)
        parts = _cut(whole, self.facts.n_rows[0])
        return replace(self, parts=parts, facts=TrainingFacts.of(parts), whole=whole)

    def weigh_classes(self, class_weight: Any, targets: Targets) -> TrainingSet:
        """Return the set with weights of samples times those of their classes."""
        return self.map(_weigh_classes, list_class_weights(class_weight, targets, self.facts))

    def hold_out(self, rows: RowNumbers) -> TrainingSet:
        """Return the set without the labels of some rows, which refinement holds out."""
        return self.map(_hide_labels, rows)

    def describe(self, description: Any, image_shape: tuple[int, int] | None) -> TrainingSet:
        """Return the set with described samples; a description that has learned nothing yet learns from them.

        Missing features, which were NaN, are filled.
        """
        description = fit_description(description, self.parts, self.facts.n_samples, image_shape)
        return replace(self.map(describe_part, description), description=description)

    def take_rows(self, rows: RowNumbers) -> TrainingPart:
        """Return some rows, which are ascending, in this process."""
        return self.whole.take(rows) if self.whole is not None else _join(self.parts.collect(_take, rows))

    def take(self, rows: RowNumbers) -> TrainingSet:
        """Return a set of some rows, which are ascending, in this process."""
        whole = self.take_rows(rows)
        parts = _cut(whole, PART_ROWS)
        return TrainingSet(parts, TrainingFacts.of(parts), whole, self.description)

    def take_samples(self, rows: RowNumbers) -> Floats:
        """Return the samples in some rows, in their order."""
        if self.whole is not None:
            return self.whole.X[rows]
        samples = np.empty((len(rows), self.facts.n_features), self.facts.dtype)
        for positions, taken in self.parts.collect(_take_samples, rows):
            samples[positions] = taken
        return samples


def _weigh_classes(part: TrainingPart, class_weights: Weights) -> TrainingPart:
    return replace(part, weights=class_weights[_index_classes(part)] * part.weights)  # -1, no label, is the last


def _hide_labels(part: TrainingPart, rows: RowNumbers) -> TrainingPart:
    _, own_rows = part.find(rows)
    labels, held_out = part.labels.copy(), np.zeros_like(part.labels)
    held_out[own_rows], labels[own_rows] = labels[own_rows], 0
    return replace(part, labels=labels, held_out=held_out)


def describe_part(part: TrainingPart, description: Description) -> TrainingPart:
    """Return the rows with described samples, missing features filled.

    Those of a memory-mapped array are mapped too, from a file that goes with them.
    """
    if has_missing(part.X):
        X, is_known = describe_and_fill(description, part.X)
        return replace(part, X=X, is_known=is_known)
    X = described = part.X
    for tile in split_rows(len(X)):
        samples = np.asarray(X[tile])
        rows = description.apply(samples)
        if rows is samples:
            break  # as they are
        if described is X:
            shape = len(X), rows.shape[1]
            described = _map_rows(shape, X.dtype) if is_mapped(X) else np.empty(shape, X.dtype)
        described[tile] = rows
    return replace(part, X=described, images=X if description.images == "described" else None)


def _take(part: TrainingPart, rows: RowNumbers) -> TrainingPart:
    return part.take(part.find(rows)[1])


def _take_samples(part: TrainingPart, rows: RowNumbers) -> tuple[RowNumbers, Floats]:
    positions, own_rows = part.find(rows)
    return positions, part.X[own_rows]


def _index_classes(part: TrainingPart) -> NDArray[np.signedinteger]:
    """Return the class of each sample, -1 for an unlabelled one.

    Of several labels the first counts.  Samples with none of the labels are a class too, unlabelled ones are not.
    """
    labels = part.labels
    first_label = np.where((labels > 0).any(axis=1), labels.argmax(axis=1), labels.shape[1])
    # In few bytes, since these come from all parts to one place.
    return np.where(labels.any(axis=1), first_label, -1).astype(np.min_scalar_type(-labels.shape[1] - 1))


def is_mapped(X: Any) -> bool:
    """Whether samples are in a file, from which they are read as they are needed."""
    while X is not None and not isinstance(X, np.memmap):
        X = getattr(X, "base", None)
    return X is not None


def _map_rows(shape: tuple[int, int], dtype: np.dtype) -> Floats:
    """Return room for rows in a file."""
    with TemporaryFile() as file:  # the map keeps it open
        return np.memmap(file, dtype, "w+", shape=shape)


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


def cut_into_parts(X: Floats, y: Any, unlabeled: Any, weights: Weights | None = None) -> tuple[TrainingSet, Targets]:
    """Return the training set of arrays in this process."""
    targets = find_labels(y, unlabeled).get_targets(unlabeled)
    return TrainingSet.of_arrays(X, targets.encode(y, unlabeled), weights=weights), targets


def _find_labels_of(pair: tuple[Any, Any], unlabeled: Any) -> LabelSet:
    return find_labels(pair[1], unlabeled)


def _count_rows(pair: tuple[Any, Any]) -> int:
    samples, target = pair
    if len(samples) != len(target):
        raise ValueError(f"A chunk of X has {len(samples)} rows, but that of y has {len(target)}: chunk them alike.")
    return len(samples)


def _make_part(pair: tuple[Any, Any], how: tuple[int, np.dtype, Targets, Any]) -> TrainingPart:
    first_row, dtype, targets, unlabeled = how
    samples = np.require(pair[0], dtype, ["C", "ALIGNED"])  # what Dask has moved is at odd addresses
    check_finite(samples, first_row, remedy="a Dask array must be complete, so remove or impute such values")
    return TrainingPart.of(samples, targets.encode(pair[1], unlabeled), first_row=first_row)


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
        targets = pairs.add_up(_find_labels_of, unlabeled).get_targets(unlabeled)
        dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
        first_rows = (np.cumsum(n_rows) - n_rows).tolist()
        parts = pairs.map_each(_make_part, [(first_row, dtype, targets, unlabeled) for first_row in first_rows])
        del pairs  # which the workers may forget, one after another
        facts = TrainingFacts.of(parts)
    except BaseException:
        session.release()  # an error on a worker keeps hold of all that led to it
        raise
    return TrainingSet(parts, facts), targets


def collect_classes(training: TrainingSet) -> NDArray[np.signedinteger]:
    """Return the class of each sample, the first of several, -1 for an unlabelled one."""
    return np.concatenate(training.parts.collect(_index_classes))


def fetch_candidates(training: TrainingSet, n_at_once: int, rng: np.random.RandomState) -> Iterator[Floats]:
    """Yield samples in the order in which they are tried as first atoms: every s-th of each large class."""
    class_index = collect_classes(training)
    n_kinds = training.facts.n_classes + 2  # and samples with none of the labels, and unlabelled ones
    is_candidate, stride = np.ones(len(class_index), bool), -(-len(class_index) // _MOST_CANDIDATES)
    for kind in range(-1, n_kinds - 1):
        rows = np.flatnonzero(class_index == kind)
        if len(rows) * n_kinds > _MOST_CANDIDATES:
            is_candidate[rows] = False
            is_candidate[rows[::stride]] = True
    candidates = np.flatnonzero(is_candidate)
    candidates = candidates[order_candidates(class_index[candidates], rng)]
    for start in range(0, len(candidates), n_at_once):
        yield training.take_samples(candidates[start : start + n_at_once])
