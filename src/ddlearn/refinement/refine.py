r"""Task-driven refinement: dictionary and classifiers follow the gradient of the cost of label-free codes.

The MAP fit codes training samples with their labels, while new samples are coded without.  Refinement starts from the
fit and lowers the classification cost of codes as new samples have them, in mini-batches of training samples, which may
be distorted differently each time they are used.

What is done to one part of the training set is in ``lesson.py``, and the steps that follow in ``adam.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import accumulate
from numbers import Integral, Real
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import vstack

from ..coding.coders import SparseCoder
from ..describe.base import Description
from ..describe.jitter import Jitter
from ..fitting.data import Census, TrainingPart
from ..kernels.gradient import normalise_rows
from ..model.codes import Floats, RowCodes
from ..model.measures import find_temperature, measure_calibration_error, measure_log_loss
from ..model.strategies import Registry, Strategy, check_number
from ..parallel import Parts, add, single_threaded_blas
from .adam import Moments, StepSizes, anneal, descend
from .backward import REFINEMENT_COSTS, Parameters, RefinementCost, TaskGradient
from .convex import Decays, train_on_codes
from .lesson import (
    Batch,
    Lesson,
    Rows,
    ScoredSome,
    differentiate_part,
    draw_order,
    encode_some,
    join_scored,
    measure_energies,
    measure_some,
    put_census,
    seed_part,
    take_census,
    validate,
)

CLASSIFIERS = "classifiers"  # the value of refine that trains only these on label-free codes
MOST_SEEDS = 2**31 - 1  # seeds are below this
_HOLD_OUT_SEED = 0
_BATCH_SIZE, _FEWEST_BATCHES = 256, 4
_EPOCHS = 10
_DECAYS = (0.03, 1.0)  # where the search for better ones begins
_MOST_MEASURED = 5000  # samples from which scales are estimated
_MOST_STARTED = 20000  # samples on whose codes the first classifiers are trained
_MOST_PLACES = 32  # of a code with fewer atoms than features that the next epoch starts from


class EpochRecord(NamedTuple):
    """What an epoch of refinement did.

    Parameters
    ----------
    epoch : int
        Its number; 0 is the model before refinement.
    training_cost : float
        Mean cost of the mini-batches, each before its step; NaN before the first epoch.
    training_error : float
        Share of their samples (multilabel: labels) that were misclassified.
    validation_cost : float
        Mean cost of the held-out samples after the epoch; NaN if there are none.
    validation_error : float
        Share of the held-out samples that were misclassified.
    validation_log_loss : float
        Mean negative logarithm of the probability of a held-out label, with the temperature that suits it best; NaN for
        multilabel targets.
    validation_calibration_error : float
        Expected difference between the probability of a prediction and how often it is right; NaN likewise.
    seconds : float
        Duration of the epoch.

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
    validation_log_loss: float
    validation_calibration_error: float
    seconds: float


class Refiner(Strategy):
    r"""How a fitted model is refined.

    Parameters
    ----------
    epochs : int or None, default=None
        How often each training sample is seen; with 0 only the classifiers are trained.  By default 10, or 0 where
        held-out training samples say that this is better, if settings are searched for.
    cost : {"one_vs_all", "softmax"} or None, default=None
        What is lowered: the loss of the model for each class, or the cross-entropy of the classes.  By default the one
        that makes held-out training samples likelier, if settings are searched for, otherwise the first.
    batch_size : int or None, default=None
        Samples in a mini-batch; by default 256, or of fewer than 1024 samples a quarter.
    step_size : float, default=0.06
        The first step in the dictionary, relative to the size of an atom's entries; steps fall along a cosine.
    classifier_step_size : float, default=0.005
        The first step in the classifiers, for samples of unit norm.
    weight_decay : float or None, default=None
        Penalty on what atoms say by themselves, :math:`\rho` in the notes.  By default it is chosen by the cost of
        held-out training samples.
    linear_decay : float or None, default=None
        Penalty on the linear classifier that atoms have in common, :math:`\tau` in the notes: 1 is the penalty of
        scikit-learn's ``LogisticRegression`` for features of unit size.  By default it is chosen likewise.
    averaging : float, default=0.0
        Decay of the running average of models, which is the result; 0 disables averaging, 0.99 averages about the last
        hundred steps.
    validation_fraction : float, default=0.0
        Share of the labelled samples to hold out, from the joint fit too, to select the best epoch; with 0 the last
        epoch is kept.
    patience : int or None, default=None
        Epochs without improvement on the held-out samples before stopping; None disables early stopping.
    jitter : {"affine", "elastic"}, Jitter or None, default=None
        How training images are distorted at random each time they are used; test-time views use half of it.

    See Also
    --------
    Jitter : Distorts images while a model is refined.

    Notes
    -----
    Classifiers are a sum, :math:`W = U + D V`: what each atom says by itself, and what a linear classifier :math:`V` of
    samples says of the atom.  With N training samples of M features and mean squared norm :math:`\bar e`, the mean cost
    is lowered together with :math:`\bar e (\rho \|U\|^2 + \tau \|V\|^2 / M) / 2N`.

    Examples
    --------
    >>> from ddlearn import Refiner
    >>> Refiner(5, cost="softmax")
    Refiner(cost='softmax', epochs=5)
    """

    def __init__(
        self,
        epochs: int | None = None,
        *,
        cost: str | None = None,
        batch_size: int | None = None,
        step_size: float = 0.06,
        classifier_step_size: float = 0.005,
        weight_decay: float | None = None,
        linear_decay: float | None = None,
        averaging: float = 0.0,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        jitter: str | Jitter | None = None,
    ):
        self.epochs = epochs
        self.cost = cost
        self.batch_size = batch_size
        self.step_size = step_size
        self.classifier_step_size = classifier_step_size
        self.weight_decay = weight_decay
        self.linear_decay = linear_decay
        self.averaging = averaging
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.jitter = jitter

    def check_parameters(self) -> None:
        check_number("epochs", self.count_epochs(), Integral)
        check_number("batch_size", _BATCH_SIZE if self.batch_size is None else self.batch_size, Integral)
        if self.batch_size == 0:
            raise ValueError("batch_size must be at least 1, got 0.")
        for name in ("step_size", "classifier_step_size", "averaging", "validation_fraction"):
            check_number(name, getattr(self, name), Real)
        for name in ("weight_decay", "linear_decay"):
            if getattr(self, name) is not None:
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

    def hold_out(
        self,
        labels: NDArray[np.int8],
        n_before: NDArray[np.intp] | None = None,
        n_in_all: NDArray[np.intp] | None = None,
        first_row: int = 0,
    ) -> Rows:
        """Return the rows of labelled samples to hold out: some of each class, but never all.

        The labels may be those of a part, given how many samples of each class there are in the parts before, and in
        all.
        """
        rows = np.flatnonzero(labels.any(axis=1))
        # The same seed for every fit, so that a resumed fit holds out the same samples.
        rows = np.random.default_rng(seed_part(first_row, _HOLD_OUT_SEED)).permutation(rows)
        class_index = labels[rows].argmax(axis=1)
        counts = np.bincount(class_index, minlength=labels.shape[1])
        n_before = np.zeros_like(counts) if n_before is None else n_before
        n_in_all = counts if n_in_all is None else n_in_all

        def count_held_out(n_members: NDArray[np.intp]) -> NDArray[np.intp]:
            return np.minimum(np.rint(self.validation_fraction * n_members).astype(np.intp), n_in_all - 1)

        n_held_out = count_held_out(n_before + counts) - count_held_out(n_before)
        held_out = [rows[class_index == index][:n] for index, n in enumerate(n_held_out.tolist()) if counts[index]]
        return np.sort(np.concatenate([rows[:0], *held_out]))

    def count_epochs(self) -> int:
        """Return the number of epochs, the usual one where it is to be chosen."""
        return _EPOCHS if self.epochs is None else self.epochs

    def count_batches(self, n_samples: int) -> int:
        """Return the number of mini-batches in an epoch."""
        if self.batch_size is None:
            return min(max(-(-n_samples // _BATCH_SIZE), _FEWEST_BATCHES), n_samples)
        return -(-n_samples // self.batch_size)

    def decay_precisions(self) -> tuple[float, float]:
        """Return rho and tau, defaults in place of what is to be chosen."""
        given = self.weight_decay, self.linear_decay
        own, linear = (default if decay is None else decay for decay, default in zip(given, _DECAYS, strict=True))
        return own, linear

    def list_costs(self, is_multilabel: bool) -> list[type[RefinementCost]]:
        """Return the costs to choose from: the one that is given, or all that suit the targets."""
        suitable = {name: cost for name, cost in REFINEMENT_COSTS.items() if cost.takes_multilabel or not is_multilabel}
        if self.cost is None:
            return list(suitable.values())
        if self.cost not in suitable:
            raise ValueError(
                f"cost={self.cost!r} needs one class per sample, but targets are multilabel: use cost='one_vs_all'."
            )
        return [suitable[self.cost]]


def _make_refiner(refine: Any) -> Any:
    """Return None if only classifiers, or nothing, are to be trained on label-free codes."""
    if isinstance(refine, str):
        return {CLASSIFIERS: None, "auto": Refiner()}.get(refine, refine)
    is_number = isinstance(refine, Integral) and not isinstance(refine, bool)
    return Refiner(int(refine)) if is_number else refine


REFINEMENT: Registry[Refiner] = Registry(
    "refine",
    Refiner,
    shorthand=_make_refiner,
    expected="'auto', 'classifiers', None, a number of epochs, or a Refiner object",
)


@dataclass(frozen=True)
class RefinementProgress:
    """The state of a refinement: all that it needs to go on."""

    model: Parameters
    average: Parameters
    moments: Moments
    best: Parameters
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
        gradient: TaskGradient,
        parts: Parts[TrainingPart],
        *,
        is_multilabel: bool,
        fit_intercept: bool,
        jitter: Jitter | None,
        image_shape: tuple[int, int] | None,
        description: Description,
        temperature: float | None = None,  # of evidence, as other held-out samples have told
    ):
        self.temperature = temperature
        self.refiner = refiner
        self.lesson = Lesson(gradient, is_multilabel, jitter, image_shape, description)
        self.fit_intercept = fit_intercept
        sums = list(accumulate(parts.collect(take_census), add, initial=Census(0, 0, 0, 0, 0.0)))
        self.census: Census = sums.pop()
        self.parts = parts.map_each(put_census, sums)

    def begin(self, dictionary: Floats, seed: int) -> RefinementProgress:
        """Train classifiers on label-free codes, and measure the model."""
        stride = _find_stride(self.census.n_training, _MOST_STARTED)
        codes, labels, weights = zip(*self.parts.collect(encode_some, self.lesson, dictionary, stride), strict=True)
        decays = self._find_decays(dictionary.shape[1])
        model = train_on_codes(
            vstack(codes, format="csr"),
            np.concatenate(labels),
            dictionary.copy(),
            self.lesson.gradient.cost,
            decays,
            self.fit_intercept,
            None if weights[0] is None else np.concatenate(weights),
        )
        record = self._record(0, model, (float("nan"), float("nan")), perf_counter())
        encoder = self.lesson.gradient.encoder
        budgets = encoder.n_nonzero_coefs, dictionary.shape[1]
        n_places = count_kept_places(encoder.sparse_coder, *budgets, self.lesson.jitter, self.parts.is_local)
        kept_codes = RowCodes.empty(self.census.n_rows, n_places, dictionary.dtype)
        return RefinementProgress(model, model.copy(), Moments.zero(model), model.copy(), [record], seed, kept_codes)

    def run(
        self, progress: RefinementProgress, on_epoch: Callable[[RefinementProgress], RefinementProgress]
    ) -> RefinementProgress:
        """Run the epochs; ``on_epoch`` may mark the progress as stopped."""
        while not self.is_finished(progress):
            progress = on_epoch(self.run_epoch(progress))
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
        model, average, moments, training_result = self._run_batches(progress, codes)
        refined = _scale_atoms(average)
        _check_finite(refined, epoch)
        record = self._record(epoch, refined, training_result, start)
        history = [*progress.history, record]
        best = refined if find_best(history).epoch == epoch else progress.best
        return RefinementProgress(model, average, moments, best, history, progress.seed, codes)

    def _run_batches(
        self, progress: RefinementProgress, codes: RowCodes
    ) -> tuple[Parameters, Parameters, Moments, tuple[float, float]]:
        """Take a step for each mini-batch; return the result, and the mean cost and error of the mini-batches.

        Coding starts from ``codes``, and overwrites them.
        """
        epoch, n_samples = progress.n_epochs + 1, self.census.n_training
        model, average, moments = progress.model.copy(), progress.average.copy(), progress.moments.copy()
        n_batches = self.refiner.count_batches(n_samples)
        parts = self.parts.map(draw_order, progress.seed, epoch, self.census)
        start = codes if codes.values.shape[1] else None
        cost, n_wrong, n_counted = 0.0, 0.0, 0.0
        with single_threaded_blas():
            for position in range(n_batches):
                n_in_batch = n_samples // n_batches + (position < n_samples % n_batches)
                # The arrays of the model change in each step, and a cluster sends each object once: a new object.
                batch = Batch(Parameters(*model), progress.seed, epoch, position, n_batches, n_in_batch)
                sums = parts.add_up(differentiate_part, self.lesson, batch, start)
                share_done = (progress.n_epochs + position / n_batches) / self.refiner.count_epochs()
                moments = self._step(model, sums.gradient, moments, share_done)
                _move_average(average, model, self.refiner.averaging)
                cost, n_wrong, n_counted = cost + sums.cost, n_wrong + sums.n_wrong, n_counted + sums.n_counted
        return model, average, moments, (cost / n_samples, n_wrong / (n_counted or 1))

    def _step(self, model: Parameters, gradient: Parameters, moments: Moments, share_done: float) -> Moments:
        as_number, n_features = model.dictionary.dtype.type, model.dictionary.shape[1]
        decays = self._find_decays(n_features)
        gradient.own_coef[:] += as_number(decays.own) * model.own_coef
        gradient.linear_coef[:] += as_number(decays.linear) * model.linear_coef
        if not self.fit_intercept:
            gradient.intercept[:] = 0
        left = anneal(share_done)
        for_classifiers = left * self.refiner.classifier_step_size
        sizes = StepSizes(
            left * self.refiner.step_size / np.sqrt(n_features),
            for_classifiers / np.sqrt(self._squared_unit),
            for_classifiers / np.sqrt(self._squared_unit),
            for_classifiers,
        )
        return descend(model, gradient, moments, sizes, self.lesson.gradient.n_jobs)

    def _find_decays(self, n_features: int) -> Decays:
        return Decays.of(self.refiner.decay_precisions(), self._squared_unit, self.census.n_training, n_features)

    @cached_property
    def _squared_unit(self) -> float:
        """The mean squared norm of labelled samples, with which classifiers scale."""
        stride = _find_stride(self.census.n_labelled, _MOST_MEASURED)
        return float(np.mean(np.concatenate(self.parts.collect(measure_energies, stride)))) or 1.0

    def _record(self, epoch: int, model: Parameters, training: tuple[float, float], start: float) -> EpochRecord:
        result = calibration = float("nan"), float("nan")
        if self.census.n_held_out:
            stride = _find_stride(self.census.n_held_out, _MOST_MEASURED)
            sums, some = zip(*self.parts.collect(validate, self.lesson, model, stride), strict=True)
            cost, weight, n_wrong, n_counted = reduce(add, sums).tolist()
            result, calibration = (cost / weight, n_wrong / (n_counted or 1)), self._calibrate(some)
        measured = *training, *result, *calibration, perf_counter() - start
        return EpochRecord(epoch, *measured)

    def _calibrate(self, held_out: Sequence[ScoredSome]) -> tuple[float, float]:
        """Return log-loss and calibration error, with the temperature that suits the samples best."""
        if self.lesson.is_multilabel:
            return float("nan"), float("nan")
        scores, labels, weights = join_scored(held_out)
        evidence = self.lesson.gradient.cost.unit_evidence(scores)
        evidence /= find_temperature(evidence, labels, weights)
        log_loss = float(np.average(measure_log_loss(evidence, labels), weights=weights))
        return log_loss, measure_calibration_error(evidence, labels)

    def measure(self, model: Parameters) -> tuple[Floats, Floats]:
        """Return the class costs of a model and the misfits of some samples, held-out ones if there are any."""
        kind, cost, is_multilabel = "n_training", self.lesson.gradient.cost, self.lesson.is_multilabel
        if self.census.n_held_out:
            kind = "n_held_out"
        stride = _find_stride(getattr(self.census, kind), _MOST_MEASURED)
        scored, misfit = zip(*self.parts.collect(measure_some, self.lesson, model, kind, stride), strict=True)
        temperature = None
        if self.census.n_held_out and not is_multilabel:
            scores, labels, weights = join_scored(scored)
            temperature = find_temperature(cost.unit_evidence(scores), labels, weights)
        elif not is_multilabel:
            temperature = self.temperature or cost.usual_temperature
        return cost.set_class_cost(temperature), np.concatenate(misfit)


def count_kept_places(
    sparse_coder: SparseCoder, n_nonzero_coefs: int, n_features: int, jitter: Jitter | None, is_local: bool
) -> int:
    """Return how many places of a code the next epoch starts from.

    None if it sees another distortion; and none on a cluster, where parts do not change, so that a lost one has to do
    nothing again but its share of one mini-batch.
    """
    if not sparse_coder.has_penalty or jitter is not None or not is_local:
        return 0
    # Of more atoms than features, all are kept.
    return n_nonzero_coefs if n_features < n_nonzero_coefs else min(n_nonzero_coefs, _MOST_PLACES)


def find_best(history: list[EpochRecord]) -> EpochRecord:
    """Return the record of the epoch whose model is kept.

    It has the lowest cost on the held-out samples, which is less noisy than their error, or is the last if there are
    none.
    """
    return min(reversed(history), key=lambda record: record.validation_cost)


def _check_finite(model: Parameters, epoch: int) -> None:
    if not all(np.isfinite(array).all() for array in model):
        raise ValueError(
            f"Refinement diverged in epoch {epoch}: the model has values that are not finite. Lower step_size or "
            "classifier_step_size of the Refiner."
        )


def _find_stride(n_samples: int, most: int) -> int:
    """Return s such that every s-th sample is one of at most so many."""
    return max(-(-n_samples // most), 1)


def _move_average(average: Parameters, model: Parameters, keep: float) -> None:
    """Move the average, in place, towards the model."""
    for old, new in zip(average, model, strict=True):
        if keep == 0:
            old[:] = new
        else:
            old *= old.dtype.type(keep)
            old += old.dtype.type(1 - keep) * new


def _scale_atoms(average: Parameters) -> Parameters:
    """Return an average as a model: means of atoms are shorter than atoms."""
    model = average.copy()
    normalise_rows(model.dictionary)
    return model
