r"""Task-driven refinement: dictionary and classifiers follow the gradient of the cost of label-free codes.

The MAP fit codes training samples with their labels, while new samples are coded without.  Refinement starts from the
fit and lowers the classification cost of codes as new samples have them, in mini-batches of training samples, which may
be distorted differently each time they are used.

The numbers of the samples in each mini-batch are drawn in this process, for all parts of the training set together.  A
part, wherever it is, finds its own samples among them and returns what they add to the gradient, so that a model does
not depend, but for rounding, on how samples are cut into parts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack

from ..coding.coders import SparseCoder
from ..coding.encoder import Encoder
from ..describe.base import IDENTITY, Description
from ..describe.jitter import Jitter, displace
from ..describe.missing import fill_with_codes
from ..fitting.data import TrainingPart
from ..kernels.backward import normalise_rows
from ..model.codes import Floats, RowCodes
from ..model.measures import count_errors, find_temperature
from ..parallel import Parts, map_blocks, single_threaded_blas, split_rows
from .adam import Adam, anneal
from .backward import RefinedModel, TaskGradient
from .convex import Decays, train_on_codes
from .costs import measure_worth
from .refiner import EpochRecord, Refiner, find_best

RowNumbers = NDArray[np.intp]  # of samples in the whole training set, unless they are called own rows of a part

MOST_SEEDS = 2**31 - 1  # seeds are below this
_MOST_MEASURED = 5000  # samples from which scales are estimated
_MOST_STARTED = 20000  # samples on whose codes the first classifiers are trained
_MOST_PLACES = 32  # of a code with fewer atoms than features that the next epoch starts from
_BLOCK_IMAGES = 64  # distorted by one thread at a time


# -- on one part -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Task(TaskGradient):
    """What refinement lowers: a cost of samples that are prepared as new ones are, or distorted before that."""

    is_multilabel: bool
    jitter: Jitter | None = None
    image_shape: tuple[int, int] | None = None
    description: Description = IDENTITY

    def prepare(self, part: TrainingPart, own_rows: RowNumbers, dictionary: Floats) -> Floats:
        """Return samples with missing features filled by codes of the others, as new samples have them.

        The codes of filled samples are then these.  The gradient takes the fill for constant.
        """
        X = np.ascontiguousarray(part.X[own_rows])
        if part.is_known is None:
            return X
        is_known, n_jobs = part.is_known[own_rows], self.n_jobs
        gaps = np.flatnonzero(~is_known.all(axis=1))
        if gaps.size:
            codes = self.encoder.with_dictionary(dictionary, n_jobs).encode(X[gaps], is_known[gaps], n_jobs=n_jobs)
            X[gaps] = fill_with_codes(X[gaps], is_known[gaps], codes, dictionary, n_jobs)
        return X

    def distort(self, part: TrainingPart, places: RowNumbers, own_rows: RowNumbers, batch: MiniBatch) -> Floats:
        """Return randomly distorted samples; images of which the description keeps none are distorted before.

        The samples have some places in a mini-batch, for all of which random numbers are drawn.
        """
        if self.jitter is None or self.image_shape is None:
            return self.prepare(part, own_rows, batch.model.dictionary)
        if part.images is None:
            images = self.prepare(part, own_rows, batch.model.dictionary)
        else:
            images = np.ascontiguousarray(part.images[own_rows])
        rng = np.random.default_rng(batch.seed)
        fields = self.jitter.draw(len(batch.rows), self.image_shape, rng, images.dtype, places)
        samples = np.empty((len(own_rows), part.X.shape[1]), images.dtype)

        def work(block: slice, _: None) -> None:
            distorted = displace(images[block], fields[block])
            samples[block] = distorted if part.images is None else self.description.apply(distorted)

        blocks = split_rows(len(own_rows), _BLOCK_IMAGES, unit=_BLOCK_IMAGES)
        map_blocks(work, blocks, lambda: None, n_jobs=self.n_jobs)
        return samples

    def count_errors(self, scores: Floats, labels: Floats, weights: NDArray[np.float64]) -> tuple[float, float]:
        """Return the weight of misclassified samples (multilabel: labels), and of all."""
        return count_errors(labels, self.cost.evidence(scores), self.is_multilabel, weights)


@dataclass
class MiniBatch:
    """The samples of one step, and the model before it."""

    model: RefinedModel
    rows: RowNumbers
    mean_weight: float  # of all samples to learn from
    seed: tuple[int, int, int]  # of distortions
    _encoder: Encoder | None = None

    def get_encoder(self, task: Task) -> Encoder:
        """Return the encoder, made once for all parts in this process."""
        if self._encoder is None:
            self._encoder = task.encoder.with_dictionary(self.model.dictionary, task.n_jobs)
        return self._encoder


class BatchSums(NamedTuple):
    """Sums over samples of a mini-batch, each by its weight; the mean weight of all samples is 1."""

    gradient: RefinedModel
    cost: float
    n_wrong: float
    n_counted: float


def differentiate(part: TrainingPart, task: Task, batch: MiniBatch, codes: RowCodes | None) -> BatchSums:
    """Return what a part adds to the gradient of the mean cost of a mini-batch.

    Coding starts from ``codes``, of all samples in this process, and overwrites them.
    """
    places, own_rows = part.find(batch.rows)
    if not len(own_rows):
        return BatchSums(RefinedModel(*map(np.zeros_like, batch.model)), 0.0, 0.0, 0.0)
    rows = batch.rows[places]
    labels, weights = part.labels[own_rows].astype(part.X.dtype), part.weights[own_rows] / batch.mean_weight
    samples, encoder = task.distort(part, places, own_rows, batch), batch.get_encoder(task)
    own_codes = None if codes is None else codes.rows(rows)
    gradient, scores = task.differentiate(batch.model, samples, labels, weights, own_codes, len(batch.rows), encoder)
    if codes is not None and own_codes is not None:
        codes.indices[rows], codes.values[rows] = own_codes
    cost = float(np.sum(weights * task.cost.value(scores, labels)))
    return BatchSums(gradient, cost, *task.count_errors(scores, labels, weights))


def _get_labels(part: TrainingPart, own_rows: RowNumbers) -> Floats:
    """Return labels, those that are held out too."""
    labels = part.labels[own_rows]
    return (labels if part.held_out is None else labels + part.held_out[own_rows]).astype(part.X.dtype)


def _list_rows(part: TrainingPart) -> tuple[int, RowNumbers, RowNumbers, NDArray[np.float64]]:
    """Return the number of rows, which are to learn from and which held out, and the weights of the former."""
    training, held_out = (
        np.empty(0, np.intp) if labels is None else np.flatnonzero(labels.any(axis=1))
        for labels in (part.labels, part.held_out)
    )
    return len(part), training + part.first_row, held_out + part.first_row, part.weights[training]


def _encode(
    part: TrainingPart, task: Task, dictionary: Floats, rows: RowNumbers
) -> tuple[csr_array, Floats, NDArray[np.float64]]:
    """Return label-free codes of some samples, their labels and weights."""
    _, own_rows = part.find(rows)
    encoder, samples = task.encoder.with_dictionary(dictionary, task.n_jobs), task.prepare(part, own_rows, dictionary)
    codes = encoder.encode(samples, n_jobs=task.n_jobs).to_csr(len(dictionary))
    return codes, _get_labels(part, own_rows), part.weights[own_rows]


def _score(
    part: TrainingPart, task: Task, model: RefinedModel, rows: RowNumbers
) -> tuple[Floats, Floats, NDArray[np.float64], Floats]:
    """Return the scores of some samples, their labels and weights, and the misfits of their codes."""
    _, own_rows = part.find(rows)
    scores, misfit = task.measure(model, task.prepare(part, own_rows, model.dictionary))
    return scores, _get_labels(part, own_rows), part.weights[own_rows], misfit


def _measure_energies(part: TrainingPart, rows: RowNumbers) -> Floats:
    """Return the squared norms of some samples."""
    some = np.ascontiguousarray(part.X[part.find(rows)[1]])
    return np.vecdot(some, some)


# -- on all parts ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RefinementProgress:
    """The state of a refinement: all that it needs to go on."""

    adam: Adam  # with the model
    best: RefinedModel
    history: list[EpochRecord]
    seed: int
    codes: RowCodes  # of all samples, from which the next epoch starts; without places if images are distorted
    stopped: bool = False  # whether a callback asked to stop

    @property
    def n_epochs(self) -> int:
        """Epochs done."""
        return len(self.history) - 1

    @property
    def best_epoch(self) -> int:
        """The epoch whose model is kept."""
        return find_best(self.history).epoch


class Refinement:
    """The epochs over one training set, in parts that may be elsewhere."""

    def __init__(
        self,
        refiner: Refiner,
        task: Task,
        parts: Parts[TrainingPart],
        *,
        fit_intercept: bool,
        temperature: float | None = None,  # of the evidence, estimated on samples that the search held out
    ):
        self.refiner = refiner
        self.task = task
        self.parts = parts
        self.fit_intercept = fit_intercept
        self.temperature = temperature
        n_rows, training, held_out, weights = zip(*parts.collect(_list_rows), strict=True)
        self.n_rows = sum(n_rows)
        self.training, self.held_out = np.concatenate(training), np.concatenate(held_out)
        self.mean_weight = float(np.mean(np.concatenate(weights)))

    def start(self, dictionary: Floats, seed: int) -> RefinementProgress:
        """Train classifiers on label-free codes, and measure the model."""
        some = _take_evenly(self.training, _MOST_STARTED)
        codes, labels, weights = zip(*self.parts.collect(_encode, self.task, dictionary, some), strict=True)
        model = train_on_codes(
            vstack(codes, format="csr"),
            np.concatenate(labels),
            dictionary.copy(),
            self.task.cost,
            self._find_decays(dictionary.shape[1]),
            self.fit_intercept,
            np.concatenate(weights),
        )
        record = self._record(0, model, (float("nan"), float("nan")), perf_counter())
        encoder = self.task.encoder
        budgets = encoder.n_nonzero_coefs, dictionary.shape[1]
        n_places = count_kept_places(encoder.sparse_coder, *budgets, self.task.jitter, self.parts.is_local)
        kept_codes = RowCodes.empty(self.n_rows, n_places, dictionary.dtype)
        return RefinementProgress(Adam.of(model), model, [record], seed, kept_codes)

    def run(
        self,
        progress: RefinementProgress,
        on_epoch: Callable[[RefinementProgress], RefinementProgress] | None = None,
    ) -> RefinementProgress:
        """Run the epochs; ``on_epoch`` may mark the progress as stopped."""
        while not self.is_finished(progress):
            progress = self.run_epoch(progress)
            if on_epoch is not None:
                progress = on_epoch(progress)
        return progress

    def is_finished(self, progress: RefinementProgress) -> bool:
        """Whether there is nothing left to do."""
        patience = self.refiner.patience
        is_idle = patience is not None and progress.n_epochs - progress.best_epoch >= patience
        return progress.stopped or is_idle or progress.n_epochs >= self.refiner.count_epochs()

    def run_epoch(self, progress: RefinementProgress) -> RefinementProgress:
        """Use all training samples once."""
        start = perf_counter()
        epoch = progress.n_epochs + 1
        codes = RowCodes(progress.codes.indices.copy(), progress.codes.values.copy())
        adam, training_result = self._run_batches(progress, codes)
        refined = adam.model.copy()
        normalise_rows(refined.dictionary)  # whose norms are 1 but for the rounding of the last step
        _check_finite(refined, epoch)
        history = [*progress.history, self._record(epoch, refined, training_result, start)]
        best = refined if find_best(history).epoch == epoch else progress.best
        return RefinementProgress(adam, best, history, progress.seed, codes)

    def draw_batches(self, seed: int, epoch: int) -> list[RowNumbers]:
        """Return the mini-batches of an epoch, which has a generator of its own, so that it can be resumed."""
        order = np.random.default_rng([seed, epoch]).permutation(self.training)
        return np.array_split(order, self.refiner.count_batches(len(order)))

    def _run_batches(self, progress: RefinementProgress, codes: RowCodes) -> tuple[Adam, tuple[float, float]]:
        """Take a step for each mini-batch; return the last state, and the mean cost and error of the mini-batches.

        Coding starts from ``codes``, and overwrites them.
        """
        seed, epoch = progress.seed, progress.n_epochs + 1
        batches, adam = self.draw_batches(seed, epoch), progress.adam.copy()
        start = codes if codes.values.shape[1] else None
        cost, n_wrong, n_counted = 0.0, 0.0, 0.0
        with single_threaded_blas():
            for position, rows in enumerate(batches):
                # The arrays of the model change in each step, and a cluster sends each object once: a new object.
                batch = MiniBatch(RefinedModel(*adam.model), rows, self.mean_weight, (seed, epoch, position))
                sums = self.parts.add_up(differentiate, self.task, batch, start)
                share_done = (progress.n_epochs + position / len(batches)) / self.refiner.count_epochs()
                self._step(adam, sums.gradient, share_done)
                cost, n_wrong, n_counted = cost + sums.cost, n_wrong + sums.n_wrong, n_counted + sums.n_counted
        return adam, (cost / len(self.training), n_wrong / (n_counted or 1))

    def _step(self, adam: Adam, gradient: RefinedModel, share_done: float) -> None:
        """Take a step against the gradient of the cost and of the penalty, smaller the more is done."""
        as_number, n_features = adam.model.dictionary.dtype.type, adam.model.dictionary.shape[1]
        decays = self._find_decays(n_features)
        gradient.own_coef[:] += as_number(decays.own) * adam.model.own_coef
        gradient.linear_coef[:] += as_number(decays.linear) * adam.model.linear_coef
        if not self.fit_intercept:
            gradient.intercept[:] = 0
        share = anneal(share_done)
        of_atoms = share * self.refiner.step_size / np.sqrt(n_features)
        of_intercepts = share * self.refiner.classifier_step_size
        of_classifiers = of_intercepts / np.sqrt(self._squared_unit)
        adam.step(gradient, (of_atoms, of_classifiers, of_classifiers, of_intercepts), self.task.n_jobs)

    def _find_decays(self, n_features: int) -> Decays:
        return Decays.of(self.refiner.decay_precisions(), self._squared_unit, len(self.training), n_features)

    @cached_property
    def _squared_unit(self) -> float:
        """The mean squared norm of labelled samples, with which classifiers scale."""
        some = _take_evenly(np.sort(np.append(self.training, self.held_out)), _MOST_MEASURED)
        return float(np.mean(np.concatenate(self.parts.collect(_measure_energies, some)))) or 1.0

    def _score(self, model: RefinedModel, rows: RowNumbers) -> list[NDArray[Any]]:
        columns = zip(*self.parts.collect(_score, self.task, model, rows), strict=True)
        return list(map(np.concatenate, columns))

    def _record(self, epoch: int, model: RefinedModel, training: tuple[float, float], start: float) -> EpochRecord:
        worth: Any = (float("nan"),) * 4
        if len(self.held_out):
            scores, labels, weights, _ = self._score(model, self.held_out)
            worth = measure_worth(scores, labels, weights, self.task.cost, self.task.is_multilabel)[0][:4]
        measured = *training, *worth, perf_counter() - start
        return EpochRecord(epoch, *measured)

    def measure(self, model: RefinedModel) -> tuple[Floats, Floats]:
        """Return the class costs of a model and the misfits of some samples, held-out ones if there are any."""
        cost, has_held_out = self.task.cost, len(self.held_out) > 0
        some = _take_evenly(self.held_out if has_held_out else self.training, _MOST_MEASURED)
        scores, labels, weights, misfit = self._score(model, some)
        temperature = None
        if not self.task.is_multilabel:
            temperature = self.temperature or cost.usual_temperature
            if has_held_out:
                temperature = find_temperature(cost.unit_evidence(scores), labels, weights)
        return cost.set_class_cost(temperature), misfit


def count_kept_places(
    sparse_coder: SparseCoder, n_nonzero_coefs: int, n_features: int, jitter: Jitter | None, is_local: bool
) -> int:
    """Return how many places of a code the next epoch starts from.

    0 with jitter, since the next epoch sees other images; 0 on a cluster, so that a lost part costs one mini-batch.
    """
    if not sparse_coder.has_penalty or jitter is not None or not is_local:
        return 0
    # Of more atoms than features, all are kept.
    return n_nonzero_coefs if n_features < n_nonzero_coefs else min(n_nonzero_coefs, _MOST_PLACES)


def _check_finite(model: RefinedModel, epoch: int) -> None:
    if not all(np.isfinite(array).all() for array in model):
        raise ValueError(
            f"Refinement diverged in epoch {epoch}: the model has values that are not finite. Lower step_size or "
            "classifier_step_size of the Refiner."
        )


def _take_evenly(samples: NDArray[Any], most: int) -> NDArray[Any]:
    """Return every s-th of some samples, which may be sorted by class, so that there are at most so many."""
    return samples[:: max(-(-len(samples) // most), 1)]
