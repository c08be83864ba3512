"""The steps of refinement on one part of the training set, wherever the part is.

Mini-batches are drawn from each part; ``refine.py`` adds up what the parts contribute to a gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..coding.encoder import Encoder
from ..coding.masked import MaskedCoder
from ..describe.base import Description
from ..describe.jitter import Jitter, displace
from ..describe.missing import fill_with_codes
from ..fitting.data import Census, Order, TrainingPart, sum_rows
from ..model.codes import Floats, RowCodes
from ..model.measures import count_errors
from ..parallel import map_blocks, split_rows
from .backward import Parameters, TaskGradient

Rows = NDArray[np.intp]

_BLOCK_IMAGES = 64  # distorted by one thread at a time


class Lesson:
    """How samples are shown to a model, and its costs and gradients; the same for all mini-batches."""

    def __init__(
        self,
        gradient: TaskGradient,
        is_multilabel: bool,
        jitter: Jitter | None,
        image_shape: tuple[int, int] | None,
        description: Description,
    ):
        self.gradient = gradient
        self.is_multilabel = is_multilabel
        self.jitter = jitter
        self.image_shape = image_shape
        self.description = description
        self._latest: tuple[Batch, Encoder] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_latest": None}

    def make_encoder(self, batch: Batch) -> Encoder:
        """Return the encoder of a mini-batch, which all parts in this process share."""
        if self._latest is None or self._latest[0] is not batch:
            self._latest = batch, self.gradient.make_encoder(batch.model.dictionary)
        return self._latest[1]

    def show(self, part: TrainingPart, rows: Rows, dictionary: Floats) -> Floats:
        """Return samples with missing features filled by codes of the others, as new samples have them.

        The codes of filled samples are then these.  The gradient takes the fill for constant.
        """
        X = np.ascontiguousarray(part.X[rows])
        if part.is_known is None:
            return X
        is_known, n_jobs = part.is_known[rows], self.gradient.n_jobs
        gaps = np.flatnonzero(~is_known.all(axis=1))
        if gaps.size:
            coder = MaskedCoder(self.gradient.make_encoder(dictionary))
            codes = coder.encode_all(X[gaps], is_known[gaps], n_jobs=n_jobs)
            X[gaps] = fill_with_codes(X[gaps], is_known[gaps], codes, dictionary, n_jobs)
        return X

    def show_distorted(self, part: TrainingPart, rows: Rows, dictionary: Floats, rng: np.random.Generator) -> Floats:
        """Return randomly distorted samples; images of which the description keeps none are distorted before."""
        if self.jitter is None or self.image_shape is None:
            return self.show(part, rows, dictionary)
        images = self.show(part, rows, dictionary) if part.images is None else np.ascontiguousarray(part.images[rows])
        fields = self.jitter.draw(len(rows), self.image_shape, rng, images.dtype)
        samples = np.empty((len(rows), part.X.shape[1]), images.dtype)

        def work(block: slice, _: None) -> None:
            distorted = displace(images[block], fields[block])
            samples[block] = distorted if part.images is None else self.description.apply(distorted)

        blocks = split_rows(len(rows), _BLOCK_IMAGES, unit=_BLOCK_IMAGES)
        map_blocks(work, blocks, lambda: None, n_jobs=self.gradient.n_jobs)
        return samples

    def count_errors(
        self, scores: Floats, labels: Floats, weights: NDArray[np.float64] | None = None
    ) -> tuple[float, float]:
        """Return the weight of misclassified samples (multilabel: labels), and of all."""
        return count_errors(labels, self.gradient.cost.evidence(scores), self.is_multilabel, weights)


class Batch(NamedTuple):
    """One mini-batch: some samples of each part."""

    model: Parameters
    seed: int
    epoch: int
    position: int  # in the epoch
    n_batches: int
    n_samples: int


class BatchSums(NamedTuple):
    """What mini-batches tell; the sum of two holds what both tell."""

    gradient: Parameters
    cost: float
    n_wrong: float
    n_counted: float


def seed_part(first_row: int, *seeds: int) -> list[int]:
    """Return the seed of random numbers of a part; the first part, and samples in one part, have no number."""
    return [*seeds, first_row] if first_row else [*seeds]


def _list_labels(part: TrainingPart) -> NDArray[np.int8]:
    """Return the labels of all samples, those that are held out too."""
    return part.labels if part.held_out is None else part.labels + part.held_out


def _find_rows(part: TrainingPart, kind: str) -> Rows:
    """Return the rows of samples of a kind that a census counts."""
    labels = {"n_labelled": _list_labels(part), "n_training": part.labels, "n_held_out": part.held_out}[kind]
    return np.flatnonzero(labels.any(axis=1)) if labels is not None else np.empty(0, np.intp)


def _spread(part: TrainingPart, kind: str, stride: int) -> Rows:
    """Return every so many-th sample of a kind, counted over all parts: samples may be sorted by class."""
    assert part.before is not None
    return _find_rows(part, kind)[-getattr(part.before, kind) % stride :: stride]


def take_census(part: TrainingPart) -> Census:
    """Count the samples of a part."""
    n_labelled, training, n_held_out = (_find_rows(part, kind) for kind in ("n_labelled", "n_training", "n_held_out"))
    weight = float(len(training) if part.weights is None else part.weights[training].sum())
    return Census(len(part), len(n_labelled), len(training), len(n_held_out), weight)


def put_census(part: TrainingPart, before: Census) -> TrainingPart:
    """Tell a part what is in the parts before."""
    return replace(part, before=before)


def draw_order(part: TrainingPart, seed: int, epoch: int, in_all: Census) -> TrainingPart:
    """Draw the samples of an epoch: each once, or if there are weights in proportion to these."""
    assert part.before is not None
    rows, before = _find_rows(part, "n_training"), part.before
    # A generator for each epoch, so that a resumed refinement draws what an uninterrupted one does.
    rng = np.random.default_rng(seed_part(part.first_row, seed, epoch))
    if part.weights is None:
        return replace(part, order=Order(rng.permutation(rows), before.n_training))
    # Systematic sampling: each occurs as often as its weight says, up to rounding, and in random order.
    shift = (rng if part.first_row == 0 else np.random.default_rng([seed, epoch])).random()
    n_samples, weights = in_all.n_training, part.weights[rows]
    ends = before.weight, before.weight + float(weights.sum())
    first, last = (min(int(np.ceil(end * n_samples / in_all.weight - shift)), n_samples) for end in ends)
    places = (np.arange(first, last) + shift) * in_all.weight / n_samples
    drawn = np.searchsorted(before.weight + np.cumsum(weights), places)
    return replace(part, order=Order(rng.permutation(rows[np.minimum(drawn, len(rows) - 1)]), first))


def _cut(order: Order, position: int, n_batches: int) -> Rows:
    """Return the samples of a mini-batch.

    If they cannot be divided evenly, some mini-batches get one more, the first of them next to the last of the part
    before: so mini-batches of all parts together have the sizes of ``np.array_split``.
    """
    n_each, n_more = divmod(len(order.rows), n_batches)
    first = order.n_before % n_batches
    n_more_at_end = min(n_more, n_batches - first)

    def count_until(position: int) -> int:
        at_end = min(max(position - first, 0), n_more_at_end)
        return position * n_each + at_end + min(position, n_more - n_more_at_end)

    return order.rows[count_until(position) : count_until(position + 1)]


def differentiate_part(part: TrainingPart, lesson: Lesson, batch: Batch, codes: RowCodes | None) -> BatchSums:
    """Return what a part adds to the gradient of a mini-batch.

    Coding starts from ``codes``, of all samples in this process, and overwrites them.
    """
    assert part.order is not None
    rows = _cut(part.order, batch.position, batch.n_batches)
    if not len(rows):
        return BatchSums(Parameters(*map(np.zeros_like, batch.model)), 0.0, 0.0, 0.0)
    rng = np.random.default_rng(seed_part(part.first_row, batch.seed, batch.epoch, batch.position))
    labels = part.labels[rows].astype(part.X.dtype)
    samples = lesson.show_distorted(part, rows, batch.model.dictionary, rng)
    own_codes = None if codes is None else codes.rows(part.first_row + rows)
    gradient, scores = lesson.gradient.differentiate(
        batch.model, samples, labels, own_codes, batch.n_samples, lesson.make_encoder(batch)
    )
    if codes is not None and own_codes is not None:
        codes.indices[part.first_row + rows], codes.values[part.first_row + rows] = own_codes
    cost = float(np.sum(lesson.gradient.cost.value(scores, labels)))
    return BatchSums(gradient, cost, *lesson.count_errors(scores, labels))


class _CodedSome(NamedTuple):
    codes: csr_array
    labels: Floats
    weights: NDArray[np.float64] | None


def encode_some(part: TrainingPart, lesson: Lesson, dictionary: Floats, stride: int) -> _CodedSome:
    """Return label-free codes of some training samples."""
    rows = _spread(part, "n_training", stride)
    codes = lesson.gradient.encode(dictionary, lesson.show(part, rows, dictionary))
    weights = None if part.weights is None else part.weights[rows]
    return _CodedSome(codes, part.labels[rows].astype(part.X.dtype), weights)


def measure_energies(part: TrainingPart, stride: int) -> Floats:
    """Return the squared norms of some labelled samples."""
    some = np.ascontiguousarray(part.X[_spread(part, "n_labelled", stride)])
    return np.vecdot(some, some)


class ScoredSome(NamedTuple):
    """Scores of some samples, and what they are compared with."""

    scores: Floats
    labels: Floats
    weights: NDArray[np.float64] | None


def join_scored(parts: Sequence[ScoredSome]) -> ScoredSome:
    """Return the samples of all parts."""
    scores, labels, weights = zip(*parts, strict=True)
    has_weights = weights[0] is not None
    return ScoredSome(np.concatenate(scores), np.concatenate(labels), np.concatenate(weights) if has_weights else None)


def _score(part: TrainingPart, lesson: Lesson, model: Parameters, rows: Rows) -> tuple[ScoredSome, Floats]:
    """Return the scores of samples, and their misfits."""
    measured = lesson.gradient.measure(model, lesson.show(part, rows, model.dictionary))
    labels = _list_labels(part)[rows].astype(part.X.dtype)
    weights = None if part.weights is None else part.weights[rows]
    return ScoredSome(measured.scores, labels, weights), measured.misfit


def measure_some(
    part: TrainingPart, lesson: Lesson, model: Parameters, kind: str, stride: int
) -> tuple[ScoredSome, Floats]:
    """Return the scores of some samples, and their misfits."""
    return _score(part, lesson, model, _spread(part, kind, stride))


def validate(
    part: TrainingPart, lesson: Lesson, model: Parameters, stride: int
) -> tuple[NDArray[np.float64], ScoredSome]:
    """Return the cost of the held-out samples, their weight, that of misclassified ones, and of those that count.

    And the scores of some of them, from which probabilities are judged.
    """
    rows = _find_rows(part, "n_held_out")
    scored, _ = _score(part, lesson, model, rows)
    scores, labels, weights = scored
    some = np.isin(rows, _spread(part, "n_held_out", stride))
    cost = sum_rows(lesson.gradient.cost.value(scores, labels), weights)
    weight = float(len(rows) if weights is None else weights.sum())
    sums = np.array([cost, weight, *lesson.count_errors(scores, labels, weights)])
    return sums, ScoredSome(scores[some], labels[some], None if weights is None else weights[some])
