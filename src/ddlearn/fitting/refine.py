r"""Task-driven refinement: dictionary and classifiers follow the gradient of the cost of label-free codes.

The MAP fit codes training samples with their labels, new samples are coded without.  Refinement starts from the fit and
lowers the classification cost of the codes that new samples get, in mini-batches of training samples, which may be
distorted anew each time they are seen.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from ..coding.jitter import Jitter, displace
from ..inference.rules import count_errors
from ..kernels.gradient import normalise_rows
from ..losses import Loss
from ..parallel import map_blocks, single_threaded_blas
from ..strategies import check_number
from .costs import REFINEMENT_COSTS, RefinementCost
from .descent import (
    Moments,
    StepSizes,
    anneal,
    descend,
)
from .gradient import RefinedModel, TaskGradient

__all__ = ["EpochRecord", "Refiner", "resolve_refiner"]

Floats = NDArray[np.floating]
Rows = NDArray[np.intp]

_BLOCK_IMAGES = 64  # distorted by one thread at a time
MOST_SEEDS = 2**31 - 1  # the seed of a refinement is below
_HOLD_OUT_SEED = 0
_MOST_JUDGED = 5000  # training samples from which scales are estimated where nothing is held out


class EpochRecord(NamedTuple):
    """What an epoch of refinement did.

    Parameters
    ----------
    epoch : int
        Its number, from 1; 0 is the model before refinement.
    training_cost : float
        Mean cost of the mini-batches, each before its step; NaN before the first epoch.
    training_error : float
        Share of their samples (multilabel: labels) that got a wrong class.
    validation_cost : float
        Mean cost of the samples held out, after the epoch; NaN if there are none.
    validation_error : float
        Share of them that got a wrong class.
    seconds : float
        How long the epoch took.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ddlearn import DDLClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DDLClassifier(n_components=50, max_iter=1, refine=2, random_state=0).fit(X, y)
    >>> [record.epoch for record in model.refinement_]
    [0, 1, 2]
    """

    epoch: int
    training_cost: float
    training_error: float
    validation_cost: float
    validation_error: float
    seconds: float


class Refiner(BaseEstimator):
    """How a fitted model is refined.

    Parameters
    ----------
    epochs : int, default=20
        How often each training sample is seen.
    cost : {"softmax", "one_vs_all"} or None, default=None
        What is lowered: the cross-entropy of the classes, or the loss of the model for each class.  By default softmax
        for samples of one class each, and one-vs-all for multilabel targets and the exponential loss.
    batch_size : int, default=256
        Samples in a mini-batch.
    step_size : float, default=0.06
        The first step in the dictionary, relative to the size of an atom's entries; steps fall along a cosine.
    classifier_step_size : float, default=0.02
        The first step in the classifiers, for samples of unit norm.
    weight_decay : float, default=1e-5
        How much half the squared norm of the classifiers costs, for samples of unit norm.
    averaging : float, default=0.0
        How much of the running average of all models a step keeps, which is what comes out in the end; 0 averages
        nothing, 0.99 is about the last hundred steps.
    validation_fraction : float, default=0.1
        Share of the training samples whose labels are held back, from the fit too, to see which epoch is best; with 0
        the last one is kept.
    patience : int or None, default=None
        Stop after so many epochs that were not better on the samples held out; None stops never.

    See Also
    --------
    Jitter : Distorts images while a model is refined.

    Examples
    --------
    >>> from ddlearn import Refiner
    >>> Refiner(10, cost="one_vs_all")
    Refiner(cost='one_vs_all', epochs=10)
    """

    def __init__(
        self,
        epochs: int = 20,
        *,
        cost: str | None = None,
        batch_size: int = 256,
        step_size: float = 0.06,
        classifier_step_size: float = 0.02,
        weight_decay: float = 1e-5,
        averaging: float = 0.0,
        validation_fraction: float = 0.1,
        patience: int | None = None,
    ):
        self.epochs = epochs
        self.cost = cost
        self.batch_size = batch_size
        self.step_size = step_size
        self.classifier_step_size = classifier_step_size
        self.weight_decay = weight_decay
        self.averaging = averaging
        self.validation_fraction = validation_fraction
        self.patience = patience

    def check_parameters(self) -> None:
        """Raise unless all parameters make sense."""
        for name in ("epochs", "batch_size"):
            check_number(name, getattr(self, name), Integral)
            if getattr(self, name) == 0:
                raise ValueError(f"{name} must be at least 1, got 0.")
        for name in ("step_size", "classifier_step_size", "weight_decay", "averaging", "validation_fraction"):
            check_number(name, getattr(self, name), Real)
        for name in ("averaging", "validation_fraction"):
            if getattr(self, name) >= 1:
                raise ValueError(f"{name} must be below 1, got {getattr(self, name)!r}.")
        if self.patience is not None:
            check_number("patience", self.patience, Integral)
            if self.patience == 0:
                raise ValueError("patience must be at least 1, or None to go through all epochs; got 0.")
        if self.cost is not None and self.cost not in REFINEMENT_COSTS:
            raise ValueError(f"cost={self.cost!r} is not known; choose one of {sorted(REFINEMENT_COSTS)} or None.")

    def hold_out(self, labels: NDArray[np.int8]) -> Rows:
        """Return which of the samples that have labels only judge the epochs: of each class, but never all of it."""
        rows = np.flatnonzero(labels.any(axis=1))
        # The same for every fit, so that one that is resumed holds out the same.
        rows = np.random.default_rng(_HOLD_OUT_SEED).permutation(rows)
        class_index = labels[rows].argmax(axis=1)
        of_class = [rows[class_index == index] for index in range(labels.shape[1])]
        held_out = [
            own[: min(round(self.validation_fraction * len(own)), len(own) - 1)] for own in of_class if len(own)
        ]
        return np.sort(np.concatenate(held_out))

    def choose_cost(self, is_multilabel: bool, loss: Loss) -> type[RefinementCost]:
        """Return the cost that suits targets and loss."""
        suits_softmax = not is_multilabel and loss.has_linear_evidence
        name = self.cost or ("softmax" if suits_softmax else "one_vs_all")
        if is_multilabel and not REFINEMENT_COSTS[name].takes_multilabel:
            raise ValueError(
                f"cost={name!r} supposes one class for each sample, but targets are multilabel: use cost='one_vs_all'."
            )
        return REFINEMENT_COSTS[name]


def resolve_refiner(refine: int | Refiner | None, is_multilabel: bool, loss: Loss) -> Refiner | None:
    """Return how to refine a model of such targets and that loss, if at all."""
    if refine is None or (isinstance(refine, Integral) and refine == 0 and not isinstance(refine, bool)):
        return None
    if isinstance(refine, Integral) and not isinstance(refine, bool):
        refine = Refiner(int(refine))
    if not isinstance(refine, Refiner):
        raise TypeError(f"refine must be None, a number of epochs, or a Refiner object, got {refine!r}.")
    refine.check_parameters()
    refine.choose_cost(is_multilabel, loss)
    return refine


@dataclass(frozen=True)
class RefinementProgress:
    """Where refinement is, and how it came there: all that it needs to go on."""

    model: RefinedModel
    average: RefinedModel
    moments: Moments
    best: RefinedModel
    history: list[EpochRecord]
    seed: int
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
    """The epochs over one training set."""

    def __init__(
        self,
        refiner: Refiner,
        gradient: TaskGradient,
        X: Floats,
        labels: NDArray[np.int8],
        held_out: Rows,
        *,
        is_multilabel: bool,
        fit_intercept: bool,
        jitter: Jitter | None,
        image_shape: tuple[int, int] | None,
    ):
        self.refiner = refiner
        self.gradient = gradient
        self.X = X
        self.labels = labels
        self.held_out = held_out
        self.training = np.setdiff1d(np.flatnonzero(labels.any(axis=1)), held_out)
        self.is_multilabel = is_multilabel
        self.jitter = jitter
        self.fit_intercept = fit_intercept
        self.image_shape = image_shape
        self.keepers: list[Callable[[RefinementProgress, bool], None]] = []  # told of epochs, and which is the last

    def begin(self, model: RefinedModel, seed: int) -> RefinementProgress:
        """Scale the classifiers, and judge the model that there is."""
        some = _spread(self.training)  # not those held out: the first model would be judged by what it was scaled for
        scores = self.gradient.judge(model, self._take(some)).scores
        penalty = self._decay / 2 * float(np.sum(np.square(model.coef_by_atom), dtype=np.float64))
        scale = self.gradient.cost.scale_scores(scores, self._take_labels(some), penalty)
        scale = scores.dtype.type(scale)
        model = RefinedModel(model.dictionary.copy(), model.coef_by_atom * scale, model.intercept * scale)
        record = self._record(0, model, (float("nan"), float("nan")), perf_counter())
        return RefinementProgress(model, model.copy(), Moments.zero(model), model.copy(), [record], seed)

    def run(self, progress: RefinementProgress, on_epoch: Callable[[RefinementProgress], bool]) -> RefinementProgress:
        """Go through the epochs; ``on_epoch`` may return True to stop."""
        while not self._is_finished(progress):
            progress = self.pass_over(progress)
            if on_epoch(progress):
                progress = replace(progress, stopped=True)
            for keep in self.keepers:
                keep(progress, self._is_finished(progress))
        return progress

    def _is_finished(self, progress: RefinementProgress) -> bool:
        patience = self.refiner.patience
        is_idle = patience is not None and progress.n_epochs - progress.best_epoch >= patience
        return progress.stopped or is_idle or progress.n_epochs >= self.refiner.epochs

    def pass_over(self, progress: RefinementProgress) -> RefinementProgress:
        """See all training samples once."""
        start = perf_counter()
        epoch = progress.n_epochs + 1
        model, average, moments, training_result = self._go_down(progress)
        refined = _scale_atoms(average)
        _check_finite(refined, epoch)
        record = self._record(epoch, refined, training_result, start)
        history = [*progress.history, record]
        best = refined if find_best(history).epoch == epoch else progress.best
        return RefinementProgress(model, average, moments, best, history, progress.seed)

    def _go_down(self, progress: RefinementProgress) -> tuple[RefinedModel, RefinedModel, Moments, tuple[float, float]]:
        """Take a step for each mini-batch; return where that leads, and the mean cost and error on the way."""
        # A generator for each epoch, so that a resumed refinement draws what an uninterrupted one does.
        rng = np.random.default_rng([progress.seed, progress.n_epochs + 1])
        model, average, moments = progress.model.copy(), progress.average.copy(), progress.moments.copy()
        n_batches = -(-len(self.training) // self.refiner.batch_size)
        cost, n_wrong, n_judged = 0.0, 0, 0
        with single_threaded_blas():
            for position, rows in enumerate(np.array_split(rng.permutation(self.training), n_batches)):
                labels = self._take_labels(rows)
                gradient, scores = self.gradient.differentiate(model, self._distort(self._take(rows), rng), labels)
                share_done = (progress.n_epochs + position / n_batches) / self.refiner.epochs
                moments = self._step(model, gradient, moments, share_done)
                _move_average(average, model, self.refiner.averaging)
                cost += float(np.sum(self.gradient.cost.value(scores, labels)))
                wrong, judged = self._count_errors(scores, labels)
                n_wrong, n_judged = n_wrong + wrong, n_judged + judged
        return model, average, moments, (cost / len(self.training), n_wrong / max(n_judged, 1))

    def _step(self, model: RefinedModel, gradient: RefinedModel, moments: Moments, share_done: float) -> Moments:
        gradient.coef_by_atom[:] += model.coef_by_atom.dtype.type(self._decay) * model.coef_by_atom
        if not self.fit_intercept:
            gradient.intercept[:] = 0
        left = anneal(share_done)
        sizes = StepSizes(
            left * self.refiner.step_size / np.sqrt(model.dictionary.shape[1]),
            left * self.refiner.classifier_step_size / np.sqrt(self._squared_unit),
            left * self.refiner.classifier_step_size,
        )
        return descend(model, gradient, moments, sizes, self.gradient.n_jobs)

    @property
    def _decay(self) -> float:
        """What half the squared norm of the classifiers costs, for samples of whatever norm."""
        return self.refiner.weight_decay * self._squared_unit

    @cached_property
    def _squared_unit(self) -> float:
        """The mean squared norm of samples that have labels, by which classifiers scale."""
        rows = np.flatnonzero(self.labels.any(axis=1))
        some = self._take(_spread(rows))
        return float(np.mean(np.vecdot(some, some))) or 1.0

    def _choose_judged(self) -> Rows:
        """Return samples to estimate scales from: those held out, or where there are none some others."""
        return _spread(self.held_out if len(self.held_out) else self.training)

    def _take(self, rows: Rows) -> Floats:
        return np.ascontiguousarray(self.X[rows])

    def _take_labels(self, rows: Rows) -> Floats:
        return self.labels[rows].astype(self.X.dtype)

    def _distort(self, X: Floats, rng: np.random.Generator) -> Floats:
        if self.jitter is None or self.image_shape is None:
            return X
        fields = self.jitter.draw(len(X), self.image_shape, rng, X.dtype)
        out = np.empty_like(X)

        def work(rows: slice, _: None) -> None:
            out[rows] = displace(X[rows], fields[rows])

        blocks = [slice(start, start + _BLOCK_IMAGES) for start in range(0, len(X), _BLOCK_IMAGES)]
        map_blocks(work, blocks, lambda: None, n_jobs=self.gradient.n_jobs)
        return out

    def _count_errors(self, scores: Floats, labels: Floats) -> tuple[int, int]:
        return count_errors(labels, self.gradient.cost.weigh(scores), self.is_multilabel)

    def _record(self, epoch: int, model: RefinedModel, training: tuple[float, float], start: float) -> EpochRecord:
        validation = float("nan"), float("nan")
        if len(self.held_out):
            scores = self.gradient.judge(model, self._take(self.held_out)).scores
            labels = self._take_labels(self.held_out)
            n_wrong, n_judged = self._count_errors(scores, labels)
            validation = float(np.mean(self.gradient.cost.value(scores, labels))), n_wrong / max(n_judged, 1)
        return EpochRecord(epoch, *training, *validation, perf_counter() - start)

    def measure(self, model: RefinedModel) -> tuple[Floats, Floats]:
        """Return the class costs that go with a model, and misfits of some samples."""
        some = self._choose_judged()
        judged = self.gradient.judge(model, self._take(some))
        class_cost = self.gradient.cost.set_class_cost(judged.scores, self._take_labels(some))
        return class_cost, judged.misfit


def find_best(history: list[EpochRecord]) -> EpochRecord:
    """Return the record of the epoch whose model is kept.

    It has the lowest cost on the samples held out, which tells more than how many of a few are wrong; it is the last if
    none are held out.
    """
    return min(reversed(history), key=lambda record: record.validation_cost)


def _check_finite(model: RefinedModel, epoch: int) -> None:
    if not all(np.isfinite(array).all() for array in model):
        raise ValueError(
            f"Refinement went astray in epoch {epoch}: there are values that are not finite. Lower the Refiner's "
            "step_size or classifier_step_size."
        )


def _spread(rows: Rows) -> Rows:
    """Return some of the rows, evenly spread: samples may be sorted by class."""
    return rows[:: -(-len(rows) // _MOST_JUDGED)]


def _move_average(average: RefinedModel, model: RefinedModel, keep: float) -> None:
    """Move the average, in place, towards the model."""
    for old, new in zip(average, model, strict=True):
        old *= old.dtype.type(keep)
        old += old.dtype.type(1 - keep) * new


def _scale_atoms(average: RefinedModel) -> RefinedModel:
    """Return an average as a model: means of atoms are shorter than atoms."""
    model = average.copy()
    normalise_rows(model.dictionary)
    return model
