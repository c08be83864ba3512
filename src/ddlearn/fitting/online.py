r"""Learning from a stream: Algorithm 2 of the paper on one batch after another, each seen once.

The dictionary is learned as in online dictionary learning (Mairal, Bach, Ponce and Sapiro, JMLR 11, 2010, Algorithms 1
and 2 with mini-batches): a batch is coded with the atoms there are, its sums :math:`\sum_i \sigma_i^{-2} x_i x_i^T` and
:math:`\sum_i \sigma_i^{-2} x_i y_i^T` are added to those of earlier batches, and one sweep of block coordinate descent
finds atoms for all of them.  The rest of Algorithm 2 is treated alike: the costs of earlier batches are remembered as
parabolas in the classifiers (``classifiers/memory.py``), scales as sums.  What is remembered of a batch is never
computed anew, though atoms and classifiers change: that is the approximation.

Earlier samples count less: when n samples have been seen, those that came when it were m count :math:`(m / n)^\rho`.

A batch goes through the steps of one iteration and of the last training on label-free codes, so **one batch is a fit of
one iteration** (with the dictionary update "atom").  Class costs are measured on label-free codes *before* the
classifiers learn from the batch (progressive validation): with fewer samples than atoms, they would be zero afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from numbers import Integral
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..classifiers.memory import CostParabolas, train_with_memory
from ..coding.discriminative import ClassifierState
from ..dictionary import (
    AtomUpdate,
    CodeStatistics,
    WorstSamples,
    rank_of_worst,
)
from ..objective import (
    Floors,
    MapObjective,
    estimate_class_cost,
    sum_class_terms,
)
from ..parallel import PART_ROWS, Parts, single_threaded_blas
from . import steps as steps
from .data import (
    Floats,
    Labels,
    Targets,
    TrainingPart,
    TrainingSet,
)
from .loop import AlternatingFit, FitState, IterationRecord
from .steps import FitSettings
from .targets import encode_labels, find_labels

# An atom that so many samples for each atom have left unused is replaced: with five atoms in a code, they were fifty
# chances on average.
_PATIENCE = 10


@dataclass(frozen=True)
class StreamClassifiers:
    """Classifiers, and what they have learned from."""

    coef: Floats
    intercept: Floats
    class_cost: Floats
    memory: CostParabolas

    def forget_atoms(self, atoms: NDArray[np.intp]) -> StreamClassifiers:
        """Return classifiers that have never seen these atoms."""
        coef = self.coef.copy()
        coef[:, atoms] = 0
        return replace(self, coef=coef, memory=self.memory.forget_atoms(atoms))

    def to_state(self, settings: FitSettings) -> ClassifierState:
        """Return them as judges of codes."""
        return ClassifierState(self.coef, self.intercept, self.class_cost, settings.loss)


@dataclass(frozen=True)
class ScaleSums:
    """Sums over samples that scales are made of."""

    n_noisy: float  # samples that are not themselves atoms
    log_variances: float  # for each of those, the logarithm of its batch's median noise variance
    n_samples: float
    misfits: float
    costs: Floats  # (n_classes,) of label-free codes, before the classifiers learned from them
    pulled_costs: Floats  # (n_classes,) of codes that saw the labels
    n_labelled: Floats  # (n_classes,)
    n_positive: Floats  # (n_classes,)
    n_with_label: float

    @classmethod
    def nothing(cls, n_classes: int) -> ScaleSums:
        """Return the sums over no samples."""
        none = np.zeros(n_classes)
        return cls(0.0, 0.0, 0.0, 0.0, none, none, none, none, 0.0)

    def __add__(self, other: ScaleSums) -> ScaleSums:
        return ScaleSums(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def forget(self, factor: float) -> ScaleSums:
        """Return sums in which all samples count less."""
        return ScaleSums(*(factor * getattr(self, field.name) for field in fields(self)))

    @property
    def median_variance(self) -> float:
        """The geometric mean of the batches' median noise variances."""
        return float(np.exp(self.log_variances / self.n_noisy))

    @property
    def mean_misfit(self) -> float:
        """The mean misfit."""
        return self.misfits / self.n_samples

    @property
    def class_prior(self) -> Floats:
        """The share of each class among the labelled samples; without any, all are alike."""
        if self.n_with_label == 0:
            return np.full(len(self.n_positive), 1 / len(self.n_positive))
        return self.n_positive / self.n_with_label

    def set_floors(self, settings: FitSettings) -> Floors:
        """Return floors relative to the typical scales, as a fit does for its first codes."""
        typical_cost = np.median(self.costs / (self.n_labelled + 1)) or 1.0
        return Floors(settings.noise_floor * self.median_variance, float(settings.cost_floor * typical_cost))


@dataclass(frozen=True)
class Stream:
    """All that is known of the samples so far."""

    dictionary: Floats
    pulling: StreamClassifiers  # those that pull on codes, trained on codes that saw the labels
    judging: StreamClassifiers  # those for new samples, trained on label-free codes
    statistics: CodeStatistics  # in float64
    variance_unit: float  # in which the variances in the statistics are measured
    scales: ScaleSums
    floors: Floors
    n_since_use: NDArray[np.int64]  # (n_components,) samples since an atom was last used
    n_samples: int
    history: list[IterationRecord]

    def forget(self, n_new: int, forgetting: float) -> Stream:
        """Return a stream whose samples count as they shall after so many new ones."""
        if self.n_samples == 0:
            return self
        factor = (self.n_samples / (self.n_samples + n_new)) ** forgetting
        return replace(
            self,
            pulling=replace(self.pulling, memory=self.pulling.memory.forget(factor)),
            judging=replace(self.judging, memory=self.judging.memory.forget(factor)),
            statistics=CodeStatistics(factor * self.statistics.code_gram, factor * self.statistics.data_sums),
            scales=self.scales.forget(factor),
        )

    def get_attributes(self, refit: bool) -> dict[str, Any]:
        """Return the fitted attributes of the model that has come of it, and the stream itself."""
        classifiers = self.judging if refit else self.pulling
        return {
            "stream_": self,
            "history_": self.history,
            "n_iter_": len(self.history) - 1,
            "converged_": False,
            "class_prior_": self.scales.class_prior,
            "n_samples_seen_": self.n_samples,
            "median_noise_variance_": self.scales.median_variance,
            "noise_floor_": self.floors.noise_variance,
            "cost_floor_": self.floors.class_cost,
            "components_": self.dictionary,
            "coef_": classifiers.coef,
            "intercept_": classifiers.intercept,
            "class_cost_": classifiers.class_cost,
        }


class EarlierModel(NamedTuple):
    """A model that a stream goes on from, when nothing else is known of its samples."""

    dictionary: Floats
    coef: Floats
    intercept: Floats
    class_cost: Floats
    class_prior: Floats
    median_variance: float
    floors: Floors
    n_samples: int

    @classmethod
    def of(cls, model: Any) -> EarlierModel:
        """Read the attributes of a fitted estimator."""
        return cls(
            model.components_,
            model.coef_,
            model.intercept_,
            model.class_cost_,
            model.class_prior_,
            model.median_noise_variance_,
            Floors(model.noise_floor_, model.cost_floor_),
            model.n_samples_seen_,
        )


def check_same_model(model: Any, settings: FitSettings) -> None:
    """Raise if a parameter of an estimator has changed that must not, between one batch and the next."""
    n_components = len(model.components_)
    n_asked_for = model.n_components if isinstance(model.n_components, Integral) else n_components
    for name, now, before in (
        ("n_components", n_asked_for, n_components),
        ("loss", type(settings.loss).__name__, type(model.loss_).__name__),
        ("sparse_coder", type(settings.sparse_coder).__name__, type(model.sparse_coder_).__name__),
    ):
        if now != before:
            raise ValueError(
                f"{name} is {now!r} now, but {before!r} in the model that partial_fit is to go on from: "
                "set it back, or begin with a new estimator."
            )


def _measure_code_energy(part: TrainingPart) -> float:
    return float(np.sum(np.square(part.codes.values), dtype=np.float64))


def _measure_energy(part: TrainingPart) -> float:
    return float(np.sum(np.square(part.X, dtype=np.float64)))


class OnlineFit:
    """What is done to a stream for one batch."""

    def __init__(self, training: TrainingSet, settings: FitSettings, forgetting: float):
        trainer, update = settings.classifier_trainer, settings.dictionary_update
        if not trainer.is_additive:
            raise ValueError(
                f"classifier_trainer={trainer!r} needs all samples in one place, but those of earlier batches are "
                "gone: use 'auto', or an additive trainer."
            )
        if settings.registration is not None:
            raise ValueError(
                "align_training=True moves an image a little in each iteration, but partial_fit sees it once: "
                "set align_training=False, or use fit."
            )
        # What earlier samples add to the sums cannot be rescaled together with their codes.
        is_from_sums = update.is_additive and not update.updates_codes
        self.training = training
        self.facts = training.facts
        self.settings = replace(settings, dictionary_update=update if is_from_sums else AtomUpdate())
        self.forgetting = forgetting

    def begin(self, init: str | ArrayLike, n_components: int, rng: np.random.RandomState) -> Stream:
        """Return the stream before its first batch: atoms and first classifiers as a fit on the batch has them."""
        fitting = AlternatingFit(self.training, self.settings, rng)
        progress = fitting.begin(*fitting.initialise(fitting.draw_dictionary(init, n_components)))
        self.settings = fitting.settings  # the first codes may have decided something
        state = progress.state
        nothing = CostParabolas.nothing(self.facts.n_classes, n_components, self.settings.loss)
        classifiers = StreamClassifiers(state.coef, state.intercept, state.class_cost, nothing)
        return Stream(
            dictionary=state.dictionary,
            pulling=classifiers,
            judging=classifiers,
            statistics=CodeStatistics(*(np.zeros((n_components, n)) for n in state.dictionary.shape)),
            variance_unit=progress.floors.noise_variance,
            scales=ScaleSums.nothing(self.facts.n_classes),
            floors=progress.floors,
            n_since_use=np.full(n_components, _PATIENCE * n_components),
            n_samples=0,
            history=progress.history,
        )

    def resume(self, model: EarlierModel) -> Stream:
        """Return a stream that holds atoms and classifiers where they are, as firmly as the model's samples would.

        How these used the atoms is not known: all alike and none together, with codes as large as the batch's.
        """
        fitting = AlternatingFit(self.training, self.settings, np.random.RandomState(0))  # nothing is drawn
        parts = self.training.parts.map(steps.code_label_free, self.settings, model.dictionary)
        state = FitState(model.dictionary, model.coef, model.intercept, model.class_cost, parts)
        progress = fitting.begin(fitting.update_scales(state, model.floors), model.floors)
        n_components, n_past = len(model.dictionary), model.n_samples
        mean_energy = (parts.add_up(_measure_code_energy) / self.facts.n_samples) or 1.0
        squared_norm = n_past * mean_energy / n_components
        n_labelled, n_positive = np.full(self.facts.n_classes, float(n_past)), n_past * model.class_prior
        costs = n_past * model.class_cost
        memory = CostParabolas.of_classifiers(
            np.column_stack([model.coef, model.intercept]).astype(np.float64),
            costs,
            np.array([n_labelled - n_positive, n_positive]),
            squared_norm,
            self.settings.loss,
        )
        classifiers = StreamClassifiers(model.coef, model.intercept, model.class_cost, memory)
        weight = squared_norm * model.floors.noise_variance / model.median_variance
        residual = model.median_variance * (self.facts.n_features + 2)
        return Stream(
            dictionary=model.dictionary,
            pulling=classifiers,
            judging=classifiers,
            statistics=CodeStatistics(weight * np.eye(n_components), weight * model.dictionary.astype(np.float64)),
            variance_unit=model.floors.noise_variance,
            scales=ScaleSums(
                n_past,
                n_past * np.log(model.median_variance),
                n_past,
                n_past * residual,
                costs,
                costs,
                n_labelled,
                n_positive,
                n_past,
            ),
            floors=model.floors,
            n_since_use=np.zeros(n_components, np.int64),
            n_samples=n_past,
            history=progress.history,
        )

    def learn(self, stream: Stream) -> Stream:
        """Return the stream after the batch."""
        # As in a dictionary update: the matrices are small, and on a busy machine more BLAS threads cost tenfold.
        with single_threaded_blas():
            return self._learn(stream)

    def _learn(self, stream: Stream) -> Stream:
        start = perf_counter()
        stream = stream.forget(self.facts.n_samples, self.forgetting)
        parts, stream, label_free_error = self._measure(stream)
        parts, coding = parts.map_and_add_up(
            steps.code_discriminatively,
            self.settings,
            stream.dictionary,
            stream.pulling.coef,
            stream.pulling.intercept,
            np.maximum(stream.pulling.class_cost, stream.floors.class_cost),
        )
        coded = perf_counter()
        stream = replace(stream, pulling=self._train(stream.pulling, parts))
        trained = perf_counter()
        stream, n_replaced = self._update_dictionary(stream, parts)
        improved = perf_counter()
        stream, settled = self._settle(stream, parts)
        measured = perf_counter()
        label_free = self.training.parts.map(steps.code_label_free, self.settings, stream.dictionary)
        recoded = perf_counter()
        judging = self._train(stream.judging, label_free)
        class_cost = estimate_class_cost(stream.scales.costs, stream.scales.n_labelled, stream.floors.class_cost)
        finished = perf_counter()
        record = IterationRecord(
            iteration=len(stream.history),
            objective=settled.objective.total,
            **settled.objective._asdict(),
            floor_share=settled.floor_share,
            n_accepted=coding.n_accepted,
            n_rejected=coding.n_rejected,
            training_error=settled.training_error,
            label_free_error=label_free_error,
            n_replaced=n_replaced,
            coding_seconds=coded - start + recoded - measured,
            classifier_seconds=trained - coded + finished - recoded,
            dictionary_seconds=improved - trained,
            scale_seconds=measured - improved,
        )
        return replace(
            stream,
            judging=replace(judging, class_cost=class_cost),
            n_samples=stream.n_samples + self.facts.n_samples,
            history=[*stream.history, record],
        )

    def _measure(self, stream: Stream) -> tuple[Parts[TrainingPart], Stream, float]:
        """Code the batch without labels, and set scales; return the error before anything is learned from it, too."""
        settings, facts, judging = self.settings, self.facts, stream.judging
        parts = self.training.parts.map(steps.code_label_free, settings, stream.dictionary)
        parts, (sum_of_misfits, costs) = parts.map_and_add_up(
            steps.measure_part, settings, stream.dictionary, judging.coef, judging.intercept
        )
        n_noisy, variance = self._find_median_variance(parts)
        if stream.scales.n_noisy == 0:
            n_noisy = max(n_noisy, 1)  # better a first guess than none
        # What earlier classifiers cost is bounded by what none at all would: an exponential cost can be anything.
        worst = facts.n_labelled * settings.loss.value(np.zeros(1))
        scales = stream.scales + ScaleSums(
            n_noisy,
            n_noisy * float(np.log(variance)),
            facts.n_samples,
            sum_of_misfits,
            np.minimum(costs, worst),
            np.zeros(facts.n_classes),
            facts.n_labelled.astype(np.float64),
            facts.n_positive.astype(np.float64),
            facts.n_with_label,
        )
        floors = scales.set_floors(settings)
        parts = parts.map(steps.estimate_noise, settings, scales.mean_misfit, floors.noise_variance)
        n_wrong, n_judged = parts.add_up(steps.count_mistakes, settings, judging.to_state(settings))
        return parts, replace(stream, scales=scales, floors=floors), _divide(n_wrong, n_judged)

    def _find_median_variance(self, parts: Parts[TrainingPart]) -> tuple[int, float]:
        """Return how many samples are no atoms, and their median noise variance.

        If all are atoms, it is that of samples without a code: nothing is known but their size.
        """
        misfits = np.concatenate(parts.collect(steps.get_misfits))
        noisy = misfits[misfits > np.finfo(misfits.dtype).eps * misfits.max()]
        typical = float(np.median(noisy)) if noisy.size else parts.add_up(_measure_energy) / self.facts.n_samples
        return noisy.size, (typical or 1.0) / (self.facts.n_features + 2)

    def _train(self, classifiers: StreamClassifiers, parts: Parts[TrainingPart]) -> StreamClassifiers:
        settings = self.settings
        coef, intercept, memory = train_with_memory(
            settings.classifier_trainer,
            classifiers.memory,
            parts.collect(steps.get_itself),
            settings.loss,
            classifiers.coef,
            classifiers.intercept,
            fit_intercept=settings.fit_intercept,
            n_jobs=settings.n_jobs,
        )
        return replace(classifiers, coef=coef, intercept=intercept, memory=memory)

    def _update_dictionary(self, stream: Stream, parts: Parts[TrainingPart]) -> tuple[Stream, int]:
        """Add the batch to the sums, and find atoms for all of them; return how many were replaced, too."""
        n_components, n_samples = len(stream.dictionary), self.facts.n_samples
        update: Any = self.settings.dictionary_update
        added, usage = parts.add_up(steps.sum_statistics, self.settings, n_components, stream.variance_unit)
        statistics = stream.statistics + added
        dtype = stream.dictionary.dtype
        sums_as_samples = CodeStatistics(statistics.code_gram, statistics.data_sums.astype(dtype))
        dictionary, _ = update.update_from(sums_as_samples, stream.dictionary)
        n_since_use = np.where(usage > 0, 0, stream.n_since_use + n_samples)
        unused = np.flatnonzero(n_since_use > _PATIENCE * n_components)

        def find_worst(outlier_fraction: float, n_wanted: int) -> WorstSamples:
            errors = np.concatenate(parts.collect(steps.measure_errors, self.settings, dictionary))
            rank = rank_of_worst(n_samples, outlier_fraction)
            largest = float(np.partition(errors, rank)[rank])
            return parts.add_up(steps.find_worst, self.settings, dictionary, n_wanted, largest)

        dictionary, replaced = update.replace_unused(dictionary, unused, find_worst)
        stream = replace(stream, dictionary=dictionary, statistics=statistics, n_since_use=n_since_use)
        return (_replace_atoms(stream, replaced) if replaced.size else stream), len(replaced)

    def _settle(self, stream: Stream, parts: Parts[TrainingPart]) -> tuple[Stream, _Settled]:
        """Measure codes that saw the labels, with the atoms and classifiers they led to."""
        settings, facts, pulling = self.settings, self.facts, stream.pulling
        parts, (sum_of_misfits, costs) = parts.map_and_add_up(
            steps.measure_part, settings, stream.dictionary, pulling.coef, pulling.intercept
        )
        scales = replace(stream.scales, pulled_costs=stream.scales.pulled_costs + costs)
        class_cost = estimate_class_cost(scales.pulled_costs, scales.n_labelled, stream.floors.class_cost)
        pulling = replace(pulling, class_cost=class_cost)
        floor = stream.floors.noise_variance
        parts = parts.map(steps.estimate_noise, settings, sum_of_misfits / facts.n_samples, floor)
        variance = np.concatenate(parts.collect(steps.get_noise_variance))
        weight = settings.classification_weight
        return replace(stream, scales=scales, pulling=pulling), _Settled(
            MapObjective(*parts.add_up(steps.sum_noise), *sum_class_terms(costs, class_cost, facts.n_labelled, weight)),
            float(np.mean(variance <= variance.dtype.type(floor))),
            _divide(*parts.add_up(steps.count_mistakes, settings, pulling.to_state(settings))),
        )


class _Settled(NamedTuple):
    """What the record of a batch tells of it in the end."""

    objective: MapObjective
    floor_share: float
    training_error: float


def _divide(n_wrong: int, n_judged: int) -> float:
    return n_wrong / n_judged if n_judged else float("nan")  # no sample of the batch is labelled


def _replace_atoms(stream: Stream, atoms: NDArray[np.intp]) -> Stream:
    """Return a stream in which no sample has used these atoms."""
    code_gram, data_sums = stream.statistics.code_gram.copy(), stream.statistics.data_sums.copy()
    code_gram[atoms] = code_gram[:, atoms] = data_sums[atoms] = 0
    n_since_use = stream.n_since_use.copy()
    n_since_use[atoms] = 0
    return replace(
        stream,
        pulling=stream.pulling.forget_atoms(atoms),
        judging=stream.judging.forget_atoms(atoms),
        statistics=CodeStatistics(code_gram, data_sums),
        n_since_use=n_since_use,
    )


def read_targets(y: Any, classes: Any, unlabeled: Any, known: Targets | None) -> tuple[Labels, Targets]:
    """Return the labels of a batch.

    Parameters
    ----------
    y : array-like of shape (n_samples,) or (n_samples, n_classes)
        The class of each sample, or a matrix of zeros and ones.
    classes : array-like of shape (n_classes,) or None
        All classes, also those that the batch lacks.
    unlabeled : object
        What marks a sample without label.
    known : Targets or None
        What earlier batches were labelled with, if there were any.

    Returns
    -------
    labels : ndarray of shape (n_samples, n_classes)
        -1, 0 where the label is not known, and +1.
    targets : Targets
        What the columns stand for.

    Examples
    --------
    >>> labels, targets = read_targets(["b"], ["b", "a", "c"], None, None)
    >>> labels, targets.classes.tolist()
    (array([[-1,  1, -1]], dtype=int8), ['a', 'b', 'c'])
    """
    found = find_labels(y, unlabeled)
    targets = known or Targets(
        _find_classes(classes, found.values, unlabeled, found.is_multilabel), found.is_multilabel
    )
    if found.is_multilabel != targets.is_multilabel:
        raise ValueError("y is a matrix of zeros and ones in some batches and one class a sample in others.")
    if known and classes is not None:
        given = _find_classes(classes, found.values, unlabeled, found.is_multilabel)
        if given.tolist() != known.classes.tolist():
            raise ValueError(
                f"`classes={given.tolist()}` is not the same as on last call to partial_fit, was: "
                f"{known.classes.tolist()}."
            )
    if found.is_multilabel and len(found.values) != len(targets.classes):
        raise ValueError(f"y has {len(found.values)} columns, but there are {len(targets.classes)} classes.")
    if len(found.types) > 1:
        raise ValueError(f"y mixes labels of the types {sorted(found.types)}: give all labels the same type.")
    unknown = sorted(set(found.values.tolist()) - set(targets.classes.tolist()))
    if unknown:
        raise ValueError(
            f"The target label(s) {unknown} in y do not exist in the initial classes {targets.classes.tolist()}: "
            "name all classes in the first call of partial_fit."
        )
    return encode_labels(y, targets.classes, unlabeled, targets.is_multilabel), targets


def cut_batch(X: Floats, y: Any, classes: Any, unlabeled: Any, known: Targets | None) -> tuple[TrainingSet, Targets]:
    """Return a batch as a training set, and what its labels stand for; see :func:`read_targets`."""
    labels, targets = read_targets(y, classes, unlabeled, known)
    if known is None and not labels.any():
        raise ValueError(
            f"All {len(labels)} samples of the first batch are marked as unlabelled (unlabeled={unlabeled!r}): "
            "begin with labelled ones, others may follow."
        )
    return TrainingSet.of_arrays(X, labels, PART_ROWS), targets


def _find_classes(classes: Any, columns: NDArray[Any], unlabeled: Any, is_multilabel: bool) -> NDArray[Any]:
    """Return the classes in order."""
    if is_multilabel:
        if classes is not None and sorted(np.asarray(classes).tolist()) != columns.tolist():
            raise ValueError(f"classes of multilabel targets are the column numbers 0 to {len(columns) - 1}, or None.")
        return columns
    if classes is None:
        raise ValueError("classes must be passed on the first call to partial_fit.")
    found = find_labels(classes, unlabeled)
    if len(found.values) < 2:
        raise ValueError(f"classes={classes!r}: a classifier needs at least two classes, all of the same type.")
    return found.values
