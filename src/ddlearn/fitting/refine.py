r"""Task-driven refinement: dictionary and classifiers follow the gradient of the cost of label-free codes.

The MAP fit codes training samples with their labels, while new samples are coded without.  Refinement starts from the
fit and lowers the classification cost of codes as new samples have them, in mini-batches of training samples, which may
be distorted differently each time they are used.

The steps are Adam's (Kingma and Ba, 2015), with step sizes that decrease along a cosine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate
from numbers import Integral, Real
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, vstack
from sklearn.base import BaseEstimator

from ..codes import Floats, RowCodes
from ..coding.coders import SparseCoder
from ..coding.encoder import Encoder
from ..coding.jitter import Jitter, displace
from ..coding.masked import MaskedCoder
from ..coding.missing import fill_with_codes
from ..kernels.gradient import normalise_rows, step_rows
from ..losses import check_number, count_errors
from ..parallel import Parts, add, map_blocks, single_threaded_blas, split_rows
from .convex import Decays, train_on_codes
from .data import Census, Order, TrainingPart, sum_rows
from .gradient import REFINEMENT_COSTS, Measured, Parameters, RefinementCost, TaskGradient

Rows = NDArray[np.intp]

CLASSIFIERS = "classifiers"  # the value of refine that trains only these on label-free codes
_BLOCK_IMAGES = 64  # distorted by one thread at a time
MOST_SEEDS = 2**31 - 1  # seeds are below this
_HOLD_OUT_SEED = 0
_BATCH_SIZE, _FEWEST_BATCHES = 256, 4
_EPOCHS = 10
_DECAYS = (0.03, 1.0)  # where the search for better ones begins
_MOST_MEASURED = 5000  # samples from which scales are estimated
_MOST_STARTED = 20000  # samples on whose codes the first classifiers are trained
# The usual decay rates of Adam's averages, and what keeps its quotient finite.
_KEEP_MEAN = 0.9
_KEEP_SQUARE = 0.999
_TINY = 1e-8
_BLOCK_ATOMS = 256
_MOST_PLACES = 32  # of a code that the next epoch starts from


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
    seconds: float


class Refiner(BaseEstimator):
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
        """Raise unless all parameters make sense."""
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
        rows = np.random.default_rng(_seed_part(first_row, _HOLD_OUT_SEED)).permutation(rows)
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


def resolve_refiner(refine: Any) -> Refiner | None:
    """Return how to refine, or None if only classifiers, or nothing, are to be trained on label-free codes."""
    if refine is None or (isinstance(refine, str) and refine == CLASSIFIERS):
        return None
    if isinstance(refine, str) and refine == "auto":
        return Refiner()
    if isinstance(refine, Integral) and not isinstance(refine, bool):
        refine = Refiner(int(refine))
    if not isinstance(refine, Refiner):
        raise TypeError(
            f"refine must be 'auto', 'classifiers', None, a number of epochs, or a Refiner object, got {refine!r}."
        )
    refine.check_parameters()
    return refine


class Moments(NamedTuple):
    """Adam's running averages of the gradient and its square, and how many gradients they have seen."""

    mean: Parameters
    square: Parameters
    n_steps: int

    @classmethod
    def zero(cls, model: Parameters) -> Moments:
        """Return the averages before the first step."""
        mean, square = (Parameters(*map(np.zeros_like, model)) for _ in range(2))
        return cls(mean, square, 0)

    def copy(self) -> Moments:
        """Return the same in other memory."""
        return Moments(self.mean.copy(), self.square.copy(), self.n_steps)


class StepSizes(NamedTuple):
    """The sizes of a step."""

    dictionary: float
    own_coef: float
    linear_coef: float
    intercept: float


def anneal(share_done: float) -> float:
    """Return the step size as a share of the first."""
    return 0.5 * (1 + np.cos(np.pi * share_done))


def descend(model: Parameters, gradient: Parameters, moments: Moments, sizes: StepSizes, n_jobs: int | None) -> Moments:
    """Change a model in place by one step, with atoms of unit norm after it; return the averages."""
    n_steps = moments.n_steps + 1
    as_number = model.dictionary.dtype.type  # a float64 among float32 would make the kernel compute in float64
    keep = as_number(_KEEP_MEAN), as_number(_KEEP_SQUARE)
    # Averages that began with zero are too small by what they still hold of it.
    scales = as_number(1 / (1 - _KEEP_MEAN**n_steps)), as_number(1 / (1 - _KEEP_SQUARE**n_steps))

    tiny = as_number(_TINY)
    of_atoms, of_own_coef, of_linear_coef, of_intercept = (
        (tuple(map(np.atleast_2d, arrays)), as_number(size))
        for *arrays, size in zip(gradient, moments.mean, moments.square, model, sizes, strict=True)
    )

    def step(arrays: tuple[Floats, ...], size: np.floating, rows: slice) -> None:
        slopes, means, squares, values = (array[rows] for array in arrays)
        step_rows(slopes, means, squares, *keep, *scales, size, tiny, values)

    def step_atoms(atoms: slice, _: None) -> None:
        step(*of_atoms, atoms)
        normalise_rows(model.dictionary[atoms])
        step(*of_own_coef, atoms)

    blocks = split_rows(len(model.dictionary), _BLOCK_ATOMS, unit=_BLOCK_ATOMS)
    map_blocks(step_atoms, blocks, lambda: None, n_jobs=n_jobs)
    step(*of_linear_coef, slice(None))
    step(*of_intercept, slice(None))
    return moments._replace(n_steps=n_steps)


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


# -- steps on one part, wherever it is ---------------------------------------------------------------------------------


class Lesson:
    """How samples are shown to a model, and its costs and gradients; the same for all mini-batches."""

    def __init__(
        self, gradient: TaskGradient, is_multilabel: bool, jitter: Jitter | None, image_shape: tuple[int, int] | None
    ):
        self.gradient = gradient
        self.is_multilabel = is_multilabel
        self.jitter = jitter
        self.image_shape = image_shape
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

    def distort(self, X: Floats, rng: np.random.Generator) -> Floats:
        """Return images distorted at random."""
        if self.jitter is None or self.image_shape is None:
            return X
        fields = self.jitter.draw(len(X), self.image_shape, rng, X.dtype)
        out = np.empty_like(X)

        def work(rows: slice, _: None) -> None:
            out[rows] = displace(X[rows], fields[rows])

        blocks = split_rows(len(X), _BLOCK_IMAGES, unit=_BLOCK_IMAGES)
        map_blocks(work, blocks, lambda: None, n_jobs=self.gradient.n_jobs)
        return out

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


def _seed_part(first_row: int, *seeds: int) -> list[int]:
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
    rng = np.random.default_rng(_seed_part(part.first_row, seed, epoch))
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
    rng = np.random.default_rng(_seed_part(part.first_row, batch.seed, batch.epoch, batch.position))
    labels = part.labels[rows].astype(part.X.dtype)
    samples = lesson.distort(lesson.show(part, rows, batch.model.dictionary), rng)
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


def measure_some(
    part: TrainingPart, lesson: Lesson, model: Parameters, kind: str, stride: int
) -> tuple[Measured, Floats]:
    """Return scores and misfits of some samples, and their labels."""
    rows = _spread(part, kind, stride)
    measured = lesson.gradient.measure(model, lesson.show(part, rows, model.dictionary))
    return measured, _list_labels(part)[rows].astype(part.X.dtype)


def validate(part: TrainingPart, lesson: Lesson, model: Parameters) -> tuple[float, float, float, float]:
    """Return the cost of the held-out samples, their weight, that of misclassified ones, and of those that count."""
    rows = _find_rows(part, "n_held_out")
    if part.held_out is None or not len(rows):
        return 0.0, 0.0, 0.0, 0.0
    scores = lesson.gradient.measure(model, lesson.show(part, rows, model.dictionary)).scores
    labels = part.held_out[rows].astype(part.X.dtype)
    weights = None if part.weights is None else part.weights[rows]
    cost = sum_rows(lesson.gradient.cost.value(scores, labels), weights)
    weight = float(len(rows) if weights is None else weights.sum())
    return cost, weight, *lesson.count_errors(scores, labels, weights)


# -- the epochs --------------------------------------------------------------------------------------------------------


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
        temperature: float | None = None,  # of evidence, as other held-out samples have told
    ):
        self.temperature = temperature
        self.refiner = refiner
        self.lesson = Lesson(gradient, is_multilabel, jitter, image_shape)
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
        how = encoder.sparse_coder, encoder.n_nonzero_coefs, self.lesson.jitter, self.parts.are_here
        kept_codes = RowCodes.empty(self.census.n_rows, count_kept_places(*how), dictionary.dtype)
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
        validation = float("nan"), float("nan")
        if self.census.n_held_out:
            cost, weight, n_wrong, n_counted = self.parts.add_up(validate, self.lesson, model)
            validation = cost / weight, n_wrong / (n_counted or 1)
        return EpochRecord(epoch, *training, *validation, perf_counter() - start)

    def measure(self, model: Parameters) -> tuple[Floats, Floats]:
        """Return the class costs of a model and the misfits of some samples, held-out ones if there are any."""
        kind, cost, is_multilabel = "n_training", self.lesson.gradient.cost, self.lesson.is_multilabel
        if self.census.n_held_out:
            kind = "n_held_out"
        stride = _find_stride(getattr(self.census, kind), _MOST_MEASURED)
        measured, labels = zip(*self.parts.collect(measure_some, self.lesson, model, kind, stride), strict=True)
        temperature = None
        if self.census.n_held_out and not is_multilabel:
            scores = np.concatenate([each.scores for each in measured])
            temperature = cost.find_temperature(scores, np.concatenate(labels))
        elif not is_multilabel:
            temperature = self.temperature or cost.usual_temperature
        return cost.set_class_cost(temperature), np.concatenate([each.misfit for each in measured])


def count_kept_places(sparse_coder: SparseCoder, n_nonzero_coefs: int, jitter: Jitter | None, are_here: bool) -> int:
    """Return how many places of a code the next epoch starts from.

    None if it sees another distortion; and none on a cluster, where parts do not change, so that a lost one has to do
    nothing again but its share of one mini-batch.
    """
    is_of_use = sparse_coder.starts_from_codes and jitter is None and are_here
    return min(n_nonzero_coefs, _MOST_PLACES) if is_of_use else 0


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
