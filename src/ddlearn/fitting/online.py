r"""Learning from a stream: Algorithm 2 of the paper on one batch after another, each used once.

The dictionary is learned as in online dictionary learning (Mairal, Bach, Ponce and Sapiro, JMLR 11, 2010, Algorithms 1
and 2 with mini-batches): a batch is coded with the present atoms, its sums :math:`\sum_i \sigma_i^{-2} x_i x_i^T` and
:math:`\sum_i \sigma_i^{-2} x_i y_i^T` are added to those of earlier batches, and an additive update finds atoms for all
of them.  The rest of Algorithm 2 is treated alike: the costs of earlier batches are remembered as parabolas in the
classifiers (``classifiers/memory.py``), scales as sums.  What is remembered of a batch is never computed again, though
atoms and classifiers change: that is the approximation.

Earlier samples count less: after n samples, the m-th counts :math:`(m / n)^\rho`.

A batch goes through the steps of one iteration of ``loop.py`` and of the final training on label-free codes, so **one
batch is a fit of one iteration** (with the same dictionary update).  Class costs are measured on label-free codes
*before* the classifiers learn from the batch (progressive validation): with fewer samples than atoms, they would be
zero afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from operator import methodcaller
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..classifiers.memory import CostParabolas, train_with_memory
from ..classifiers.problem import scale_ridge
from ..coding.encoder import Encoder
from ..dictionary import CodeStatistics
from ..model.codes import Floats, Model
from ..model.objective import MapObjective, sum_class_terms
from ..model.scales import MisfitSums, Priors, find_unit
from ..parallel import Parts, single_threaded_blas
from .data import TrainingSet
from .loop import (
    CodedPart,
    FitSettings,
    IterationRecord,
    Loop,
    State,
    code_label_free,
    count_wrong,
    divide,
    estimate_noise,
    measure_part,
    sum_misfits,
    sum_statistics,
)

# An atom that _PATIENCE * n_components samples have not used is replaced: with five atoms per code it had fifty chances
# on average.
_PATIENCE = 10


@dataclass(frozen=True)
class Taught:
    """A model, and a memory of the samples that its classifiers have learned from."""

    model: Model
    memory: CostParabolas

    def with_dictionary(self, dictionary: Floats, replaced: NDArray[np.intp]) -> Taught:
        """Return the model with another dictionary, as if no sample had used the replaced atoms."""
        if not replaced.size:
            return replace(self, model=replace(self.model, dictionary=dictionary))
        coef = self.model.coef.copy()
        coef[:, replaced] = 0
        model = replace(self.model, dictionary=dictionary, coef=coef)
        return Taught(model, self.memory.forget_atoms(replaced))

    def with_class_cost(self, class_cost: Floats) -> Taught:
        """Return the model with other class costs."""
        return replace(self, model=replace(self.model, class_cost=class_cost))


@dataclass(frozen=True)
class ScaleSums:
    """Sums over samples from which scales are computed."""

    noise: MisfitSums  # of label-free codes
    log_medians: float  # over samples that are no copies of an atom, the logarithm of their batch's median misfit
    misfits: float
    costs: Floats  # (n_classes,) of label-free codes, before the classifiers learned from them
    pulled_costs: Floats  # (n_classes,) of codes that saw the labels
    n_labelled: Floats  # (n_classes,)
    n_positive: Floats  # (n_classes,)
    n_with_label: float

    @classmethod
    def nothing(cls, noise: MisfitSums, n_classes: int) -> ScaleSums:
        """Return the sums over no samples."""
        none = np.zeros(n_classes)
        return cls(noise, 0.0, 0.0, none, none, none, none, 0.0)

    def __add__(self, other: ScaleSums) -> ScaleSums:
        return ScaleSums(*(getattr(self, field.name) + getattr(other, field.name) for field in fields(self)))

    def forget(self, factor: float) -> ScaleSums:
        """Return sums in which all samples count less."""
        others = (factor * getattr(self, field.name) for field in fields(self)[1:])
        return ScaleSums(self.noise.forget(factor), *others)

    def find_median_misfit(self) -> float:
        """Return the geometric mean of the batches' medians; if all samples are atoms, only their size is known."""
        if self.noise.n_noisy == 0:
            return self.noise.energy / self.noise.n_samples or 1.0
        return float(np.exp(self.log_medians / self.noise.n_noisy))

    @property
    def mean_misfit(self) -> float:
        """The mean misfit."""
        return self.misfits / self.noise.n_samples

    @property
    def class_prior(self) -> Floats:
        """The share of each class among the labelled samples; without any, all classes have the same."""
        if self.n_with_label == 0:
            return np.full(len(self.n_positive), 1 / len(self.n_positive))
        return self.n_positive / self.n_with_label


@dataclass(frozen=True)
class Stream:
    """All that is known of the samples so far."""

    encoder: Encoder
    pulling: Taught  # its classifiers pull on codes; trained on codes that saw the labels
    judging: Taught  # its classifiers predict; trained on label-free codes
    statistics: CodeStatistics  # in float64
    scales: ScaleSums
    priors: Priors
    n_since_use: NDArray[np.int64]  # (n_components,) samples since an atom was last used
    n_samples: int
    history: list[IterationRecord]

    def forget(self, n_new: int, forgetting: float) -> Stream:
        """Return a stream whose samples count as they do after ``n_new`` more samples."""
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

    def attributes(self) -> dict[str, Any]:
        """Return the fitted attributes, and the stream itself."""
        model = self.judging.model
        return {
            "stream_": self,
            "history_": self.history,
            "n_iter_": len(self.history) - 1,
            "converged_": False,
            "class_prior_": self.scales.class_prior,
            "n_samples_seen_": self.n_samples,
            "median_noise_variance_": self.scales.find_median_misfit() / (model.dictionary.shape[1] + 2),
            "priors_": self.priors,
            "components_": model.dictionary,
            "coef_": model.coef,
            "intercept_": model.intercept,
            "class_cost_": model.class_cost,
        }


def begin_stream(state: State, settings: FitSettings) -> Stream:
    """Return the stream before its first batch: atoms and first classifiers as at the start of a fit to the batch."""
    model, encoder = state.model, state.encoder
    (n_components, n_features), n_classes = model.dictionary.shape, len(model.coef)
    taught = Taught(model, CostParabolas.nothing(n_classes, n_components, settings.loss))
    eps = float(np.finfo(model.dictionary.dtype).eps)
    noise = MisfitSums(n_features, eps, find_unit(state.priors.noise_variance))
    return Stream(
        encoder=encoder,
        pulling=taught,
        judging=taught,
        statistics=CodeStatistics(*(np.zeros((n_components, n)) for n in (n_components, n_features))),
        scales=ScaleSums.nothing(noise, n_classes),
        priors=state.priors,
        n_since_use=np.full(n_components, _PATIENCE * n_components),
        n_samples=0,
        history=state.history,
    )


class PastFit(NamedTuple):
    """A fitted model to go on from when nothing else is known of its samples."""

    model: Model
    class_prior: Floats
    median_variance: float
    priors: Priors
    n_samples: int


def _measure_code_energy(part: CodedPart) -> float:
    return float(np.sum(np.square(part.codes.values), dtype=np.float64))


def resume_stream(past: PastFit, training: TrainingSet, settings: FitSettings) -> Stream:
    """Return a stream that holds atoms and classifiers where they are, as firmly as the samples of the model would.

    How these used the atoms is not known: all alike and none together, with codes as large as those of the batch.
    """
    model, n_past, facts = past.model, past.n_samples, training.facts
    encoder = Encoder.of(model.dictionary, settings.sparse_coder, settings.n_nonzero_coefs, settings.n_jobs)
    parts = training.parts.map(code_label_free, settings, encoder)
    _, record = Loop(training, settings).update_scales(State(model, encoder, parts, past.priors, []))
    n_components = len(model.dictionary)
    squared_norm = n_past * ((parts.add_up(_measure_code_energy) / facts.n_samples) or 1.0) / n_components
    n_labelled, n_positive = np.full(facts.n_classes, float(n_past)), n_past * past.class_prior
    costs = n_past * model.class_cost
    memory = CostParabolas.of_classifiers(
        np.column_stack([model.coef, model.intercept]).astype(np.float64),
        costs,
        np.array([n_labelled - n_positive, n_positive]),
        squared_norm,
        settings.loss,
        getattr(settings.classifier_trainer, "ridge", 0.0),
    )
    unit, misfit = find_unit(past.median_variance), past.median_variance * (facts.n_features + 2)
    eps = float(np.finfo(facts.dtype).eps)
    weight = squared_norm * unit / past.median_variance
    return Stream(
        encoder=encoder,
        pulling=Taught(model, memory),
        judging=Taught(model, memory),
        statistics=CodeStatistics(weight * np.eye(n_components), weight * model.dictionary.astype(np.float64)),
        scales=ScaleSums(
            noise=MisfitSums.expected(n_past, past.priors, facts.n_features, eps, unit),
            log_medians=n_past * np.log(misfit),
            misfits=n_past * misfit,
            costs=costs,
            pulled_costs=costs,
            n_labelled=n_labelled,
            n_positive=n_positive,
            n_with_label=n_past,
        ),
        priors=past.priors,
        n_since_use=np.zeros(n_components, np.int64),
        n_samples=n_past,
        history=[record],
    )


# As in a dictionary update: the matrices are small, and on a busy machine more BLAS threads cost tenfold.
@single_threaded_blas()
def learn_batch(stream: Stream, training: TrainingSet, settings: FitSettings, forgetting: float) -> Stream:
    """Return the stream after one more batch."""
    n_samples = training.facts.n_samples
    start = perf_counter()
    parts, stream, label_free_error = _measure(stream.forget(n_samples, forgetting), training, settings)
    pulling = stream.pulling.model
    pulling = replace(pulling, class_cost=np.maximum(pulling.class_cost, stream.priors.cost_floor))
    loop = Loop(training, settings)
    state, coding = loop.encode(State(pulling, stream.encoder, parts, stream.priors, []))
    coded = perf_counter()
    stream = replace(stream, pulling=_train(stream.pulling, state.parts, settings, stream.priors))
    trained = perf_counter()
    stream, n_replaced = _update_dictionary(stream, state.parts, training, settings)
    improved = perf_counter()
    stream, measured = _set_scales(stream, state.parts, training, settings)
    scaled = perf_counter()
    label_free = training.parts.map(code_label_free, settings, stream.encoder)
    recoded = perf_counter()
    judging = _train(stream.judging, label_free, settings, stream.priors)
    scales = stream.scales
    class_cost = stream.priors.estimate_class_cost(scales.costs, judging.model.coef, scales.n_labelled)
    finished = perf_counter()
    record = IterationRecord(
        iteration=len(stream.history),
        label_free_error=label_free_error,
        **measured,
        **coding,
        n_replaced=n_replaced,
        coding_seconds=coded - start + recoded - scaled,
        classifier_seconds=trained - coded + finished - recoded,
        dictionary_seconds=improved - trained,
        scale_seconds=scaled - improved,
    )
    return replace(
        stream,
        judging=judging.with_class_cost(class_cost),
        n_samples=stream.n_samples + n_samples,
        history=[*stream.history, record],
    )


def _measure(stream: Stream, training: TrainingSet, settings: FitSettings) -> tuple[Parts[CodedPart], Stream, float]:
    """Code the batch without labels, and set scales; return the error before anything is learned from it, too."""
    facts, model = training.facts, stream.judging.model
    parts = training.parts.map(code_label_free, settings, stream.encoder)
    parts, (sum_of_misfits, costs) = parts.map_and_add_up(measure_part, settings, stream.encoder, model)
    noise = parts.add_up(sum_misfits, stream.scales.noise.unit, facts.n_features)
    # The costs of earlier classifiers are bounded by those of none at all: an exponential cost can be anything.
    worst = facts.n_labelled * settings.loss.value(np.zeros(1))
    scales = stream.scales + ScaleSums(
        noise=noise,
        log_medians=noise.n_noisy * _find_log_median(parts),
        misfits=sum_of_misfits,
        costs=np.minimum(costs, worst),
        pulled_costs=np.zeros(facts.n_classes),
        n_labelled=facts.n_labelled.astype(np.float64),
        n_positive=facts.n_positive.astype(np.float64),
        n_with_label=facts.label_weight,
    )
    stream = replace(stream, scales=scales)
    stream = replace(stream, priors=_set_priors(stream, parts, settings))
    parts, _ = parts.map_and_add_up(
        estimate_noise, settings, (scales.mean_misfit, facts.n_features), stream.priors, True
    )
    error = divide(*parts.add_up(count_wrong, settings, model))
    return parts, stream, error


def _find_log_median(parts: Parts[CodedPart]) -> float:
    """Return the logarithm of the median misfit of the samples that are no atoms; 0 if all are."""
    misfits = np.concatenate(parts.gather("misfits"))
    noisy = misfits[misfits > np.finfo(misfits.dtype).eps * misfits.max()]
    return float(np.log(np.median(noisy))) if noisy.size else 0.0


def _set_priors(stream: Stream, parts: Parts[CodedPart], settings: FitSettings) -> Priors:
    """Return the priors for all samples so far, from label-free codes."""
    scales = stream.scales
    summary = parts.add_up(methodcaller("summarise", len(stream.encoder.dictionary)))
    squared_norms = stream.judging.memory.squared_norms + summary.squared_norms
    ridge = scale_ridge(getattr(settings.classifier_trainer, "ridge", 0.0), settings.loss, squared_norms)
    coef = stream.judging.model.coef
    return settings.scales.set_priors(
        scales.noise, scales.find_median_misfit, scales.costs, coef, scales.n_labelled, ridge, settings.loss
    )


def _train(taught: Taught, parts: Parts[CodedPart], settings: FitSettings, priors: Priors) -> Taught:
    coef, intercept, memory = train_with_memory(
        settings.classifier_trainer,
        taught.memory,
        parts.gather(),
        settings.loss,
        taught.model.coef,
        taught.model.intercept,
        penalties=priors.ridge,
        n_jobs=settings.n_jobs,
    )
    return Taught(replace(taught.model, coef=coef, intercept=intercept), memory)


def _update_dictionary(
    stream: Stream, parts: Parts[CodedPart], training: TrainingSet, settings: FitSettings
) -> tuple[Stream, int]:
    """Add the batch to the sums, and find atoms for all of them; return how many were replaced, too."""
    old, update = stream.encoder.dictionary, settings.dictionary_update
    added, usage = parts.add_up(sum_statistics, settings, len(old), stream.scales.noise.unit)
    statistics = stream.statistics + added
    sums = CodeStatistics(statistics.code_gram, statistics.data_sums.astype(old.dtype))
    dictionary = update.update_from(sums, old)  # type: ignore[attr-defined]
    n_since_use = np.where(usage > 0, 0, stream.n_since_use + training.facts.n_samples)
    unused = np.flatnonzero(n_since_use > _PATIENCE * len(old))
    dictionary, replaced = Loop(training, settings).replace_unused(parts, dictionary, unused)
    if replaced.size:  # as if no sample had used these atoms
        code_gram, data_sums = statistics.code_gram.copy(), statistics.data_sums.copy()
        code_gram[replaced] = code_gram[:, replaced] = data_sums[replaced] = 0
        statistics = CodeStatistics(code_gram, data_sums)
        n_since_use[replaced] = 0
    return replace(
        stream,
        encoder=stream.encoder.with_dictionary(dictionary, settings.n_jobs),
        pulling=stream.pulling.with_dictionary(dictionary, replaced),
        judging=stream.judging.with_dictionary(dictionary, replaced),
        statistics=statistics,
        n_since_use=n_since_use,
    ), len(replaced)


def _set_scales(
    stream: Stream, parts: Parts[CodedPart], training: TrainingSet, settings: FitSettings
) -> tuple[Stream, dict[str, Any]]:
    """Measure codes that saw the labels, with the new atoms and classifiers; return what the record says of it, too."""
    facts, priors, coef = training.facts, stream.priors, stream.pulling.model.coef
    parts, (sum_of_misfits, costs) = parts.map_and_add_up(measure_part, settings, stream.encoder, stream.pulling.model)
    scales = replace(stream.scales, pulled_costs=stream.scales.pulled_costs + costs)
    class_cost = priors.estimate_class_cost(scales.pulled_costs, coef, scales.n_labelled)
    stream = replace(stream, scales=scales, pulling=stream.pulling.with_class_cost(class_cost))
    parts, noise_terms = parts.map_and_add_up(
        estimate_noise, settings, (sum_of_misfits / facts.weight, facts.n_features), priors
    )
    variance = np.concatenate(parts.gather("noise_variance"))
    weight = settings.classification_weight
    class_terms = sum_class_terms(costs, coef, class_cost, facts.n_labelled, priors, weight)
    objective = MapObjective.of(noise_terms, class_terms)
    return stream, {
        "objective": objective.total,
        **objective._asdict(),
        "is_undone": False,
        "floor_share": float(np.mean(variance <= variance.dtype.type(priors.noise_floor))),
        "training_error": divide(*parts.add_up(count_wrong, settings, stream.pulling.model)),
    }
