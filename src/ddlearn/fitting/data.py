"""The training set in parts: samples and labels, and what the fit knows of each sample (Algorithm 2's unknowns of it).

A part is some consecutive rows.  It goes from step to step of the loop where it lies, and only sums over it come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..classifiers.problem import LabelledCodes
from ..codes import RowCodes
from ..coding import measure_energies
from ..parallel import (
    PART_ROWS,
    DaskParts,
    LocalParts,
    Parts,
    is_on_dask,
    pair_chunks,
    split_rows,
)
from .targets import (
    LabelSet,
    encode_labels,
    find_labels,
    to_array,
)

Floats = NDArray[np.floating]
Labels = NDArray[np.int8]


@dataclass(frozen=True)
class TrainingPart(LabelledCodes):
    """Some consecutive training samples, and the unknowns of Eq. 3 that belong to them."""

    images: Floats  # (n, n_features) the samples as they came
    X: Floats  # what is seen of the samples: themselves, unless they are registered
    misfits: Floats  # (n,) squared residuals, and twice the penalty on the codes
    noise_variance: Floats  # (n,)
    positions: Floats | None = None  # parameters of the maps through which the samples are seen
    first_row: int = 0  # of the part, among all rows

    @classmethod
    def of(cls, X: Floats, labels: Labels, first_row: int = 0) -> TrainingPart:
        """Return a part of which nothing but the data is known."""
        X = np.asarray(X)  # a memory map without its subclass, which Numba does not know
        nothing = np.empty(0, X.dtype)
        return cls(RowCodes.empty(0, 0, X.dtype), labels, X, X, nothing, nothing, first_row=first_row)

    def __len__(self) -> int:
        return len(self.X)

    def __sizeof__(self) -> int:
        # A cluster moves work to where the larger part of its data is.
        data = self.images.nbytes + (0 if self.X is self.images else self.X.nbytes) + self.labels.nbytes
        codes = self.codes.indices.nbytes + self.codes.values.nbytes
        codes += 0 if self.positions is None else self.positions.nbytes
        return data + codes + self.misfits.nbytes + self.noise_variance.nbytes


class RowState(NamedTuple):
    """What a fit knows of rows, beside the data: what a checkpoint holds."""

    codes: RowCodes
    noise_variance: Floats
    positions: Floats | None

    @classmethod
    def join(cls, parts: Sequence[RowState]) -> RowState:
        """Return what is known of all rows."""
        if len(parts) == 1:
            return parts[0]
        positions = None
        if parts[0].positions is not None:
            positions = np.concatenate([part.positions for part in parts if part.positions is not None])
        return cls(
            RowCodes.join([part.codes for part in parts]),
            np.concatenate([part.noise_variance for part in parts]),
            positions,
        )

    def rows(self, rows: slice) -> RowState:
        """Return what is known of some rows, as views."""
        positions = None if self.positions is None else self.positions[rows]
        return RowState(self.codes.rows(rows), self.noise_variance[rows], positions)


def get_row_state(part: TrainingPart) -> RowState:
    """Return what a part knows."""
    return RowState(part.codes, part.noise_variance, part.positions)


def put_row_state(part: TrainingPart, state: RowState) -> TrainingPart:
    """Return a part that knows this."""
    return replace(part, **state._asdict())


class TrainingFacts(NamedTuple):
    """What the loop has to know of the training set as a whole."""

    n_rows: tuple[int, ...]  # of each part
    n_features: int
    dtype: np.dtype
    n_labelled: NDArray[np.int64]  # (n_classes,) samples with a label for each class
    n_positive: NDArray[np.int64]  # (n_classes,) of those, the ones of the class
    n_with_label: int  # samples that are labelled for some class

    @property
    def n_samples(self) -> int:
        """All rows."""
        return sum(self.n_rows)

    @property
    def n_classes(self) -> int:
        """The columns of the labels."""
        return len(self.n_labelled)

    @property
    def row_slices(self) -> list[slice]:
        """Where each part stands among all rows."""
        ends = np.cumsum(self.n_rows).tolist()
        return [slice(end - n_rows, end) for end, n_rows in zip(ends, self.n_rows, strict=True)]


def count_labels(part: TrainingPart) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Return a part's numbers of labels, of positive labels, and of samples with any."""
    labels = part.labels
    n_labelled, n_positive = (np.count_nonzero(flags, axis=0) for flags in (labels, labels > 0))
    return n_labelled, n_positive, int(np.count_nonzero(labels.any(axis=1)))


@dataclass(frozen=True)
class TrainingSet:
    """The parts before the fit, and the facts of them."""

    parts: Parts[TrainingPart]
    facts: TrainingFacts
    X: Any  # all samples, as the caller has them
    is_local: bool = True

    @classmethod
    def of_parts(
        cls, parts: Parts[TrainingPart], n_rows: Sequence[int], X: Any, dtype: np.dtype, is_local: bool
    ) -> TrainingSet:
        """Count what there is to count."""
        return cls(parts, TrainingFacts(tuple(n_rows), X.shape[1], dtype, *parts.add_up(count_labels)), X, is_local)

    @classmethod
    def of_arrays(cls, X: Floats, labels: NDArray[Any], part_rows: int) -> TrainingSet:
        """Cut arrays in this process, which may be memory-mapped, into parts; nothing is copied."""
        labels = labels.astype(np.int8, copy=False)
        blocks = split_rows(len(X), part_rows)
        parts = LocalParts([TrainingPart.of(X[rows], labels[rows], rows.start) for rows in blocks])
        return cls.of_parts(parts, [rows.stop - rows.start for rows in blocks], X, X.dtype, is_local=True)


def collect_labels(training: TrainingSet) -> Labels:
    """Return the labels of all samples."""
    return np.concatenate(training.parts.collect(_get_labels))


def _get_labels(part: TrainingPart) -> Labels:
    return part.labels


def hide_labels(training: TrainingSet, labels: Labels, rows: NDArray[np.intp]) -> TrainingSet:
    """Return a training set in this process without the labels of some rows."""
    labels = labels.copy()
    labels[rows] = 0
    return TrainingSet.of_arrays(training.X, labels, PART_ROWS)


class Targets(NamedTuple):
    """What the labels stand for."""

    classes: NDArray[Any]
    is_multilabel: bool


def cut_into_parts(X: Floats, y: Any, unlabeled: Any) -> tuple[TrainingSet, Targets]:
    """Return the training set of arrays in this process."""
    found = find_labels(y, unlabeled)
    classes = found.get_classes(unlabeled)
    labels = encode_labels(y, classes, unlabeled, found.is_multilabel)
    return TrainingSet.of_arrays(X, labels, PART_ROWS), Targets(classes, found.is_multilabel)


def _find_labels_of(pair: tuple[Any, Any], unlabeled: Any) -> LabelSet:
    return find_labels(pair[1], unlabeled)


def _count_rows(pair: tuple[Any, Any]) -> int:
    samples, target = pair
    if len(samples) != len(target):
        raise ValueError(f"A chunk of X has {len(samples)} rows, but that of y has {len(target)}: chunk them alike.")
    return len(samples)


def _make_part(pair: tuple[Any, Any], how: tuple[int, np.dtype, NDArray[Any], Any, bool]) -> TrainingPart:
    first_row, dtype, *target = how
    samples = np.ascontiguousarray(pair[0], dtype=dtype)
    measure_energies(samples, first_row)  # says which row is not finite
    return TrainingPart.of(samples, encode_labels(pair[1], *target), first_row)


def spread_over_cluster(X: Any, y: Any, unlabeled: Any) -> tuple[TrainingSet, Targets]:
    """Return the training set of Dask arrays: each chunk of rows becomes a part on a worker."""
    pairs = pair_chunks(X, y if y is None or is_on_dask(y) else to_array(y))
    try:
        return _spread_pairs(pairs, X, unlabeled)
    except BaseException:
        pairs.release()  # an error on a worker keeps hold of all that led to it
        raise


def _spread_pairs(pairs: DaskParts[tuple[Any, Any]], X: Any, unlabeled: Any) -> tuple[TrainingSet, Targets]:
    n_rows = pairs.collect(_count_rows)
    pairs = pairs.keep([position for position, n in enumerate(n_rows) if n])
    n_rows = [n for n in n_rows if n]
    if not n_rows:
        raise ValueError("X has no rows: a fit needs samples.")
    found = pairs.add_up(_find_labels_of, unlabeled)
    classes = found.get_classes(unlabeled)
    dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
    first_rows = (np.cumsum(n_rows) - n_rows).tolist()
    parts = pairs.map_each(
        _make_part, [(first_row, dtype, classes, unlabeled, found.is_multilabel) for first_row in first_rows]
    )
    return TrainingSet.of_parts(parts, n_rows, X, dtype, is_local=False), Targets(classes, found.is_multilabel)
