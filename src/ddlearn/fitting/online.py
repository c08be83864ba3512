r"""Learning from a stream: Algorithm 2 of the paper on one batch after another, each used once.

The dictionary is learned as in online dictionary learning (Mairal, Bach, Ponce and Sapiro, JMLR 11, 2010, Algorithms 1
and 2 with mini-batches): a batch is coded with the present atoms, its sums :math:`\sum_i \sigma_i^{-2} x_i x_i^T` and
:math:`\sum_i \sigma_i^{-2} x_i y_i^T` are added to those of earlier batches, and an additive update finds atoms for all
of them.  The rest of Algorithm 2 is treated alike: the costs of earlier batches are remembered as parabolas in the
classifiers (``classifiers/memory.py``), scales as sums.  What is remembered of a batch is never computed again, though
atoms and classifiers change: that is the approximation.

Earlier samples count less: after n samples, the m-th counts :math:`(m / n)^\rho`.

A batch goes through one iteration of ``loop.py`` and the final training on label-free codes, so **one batch is a fit of
one iteration** (with the same dictionary update).  Class costs are measured on label-free codes *before* classifiers
learn from the batch (progressive validation): with fewer samples than atoms, they would be zero afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import methodcaller
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..classifiers.memory import CostParabolas, train_with_memory
from ..coding.encoder import Encoder
from ..dictionary import CodeStatistics
from ..model.codes import Floats, Model
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
    set_priors,
    sum_misfits,
    sum_statistics,
)

# An atom that _PATIENCE * n_components samples have not used is replaced: with five atoms per code it had fifty chances
# on average.
_PATIENCE = 10


@dataclass(frozen=True)
class Taught:
    """A model, and what is remembered of the samples that its classifiers have learned from."""

    model: Model
    memory: CostParabolas
    costs: Floats  # (n_classes,) from which class costs are estimated

    def forget(self, factor: float) -> Taught:
        """Return the model with a memory in which all samples count less."""
        return Taught(self.model, self.memory.forget(factor), factor * self.costs)

    def with_dictionary(self, dictionary: Floats, replaced: NDArray[np.intp]) -> Taught:
        """Return the model with another dictionary, as if no sample had used the replaced atoms."""
        coef = self.model.coef.copy()
        coef[:, replaced] = 0
        model = replace(self.model, dictionary=dictionary, coef=coef)
        return Taught(model, self.memory.forget_atoms(replaced), self.costs)


@dataclass(frozen=True, kw_only=True)
class Stream:
    """All that is remembered of the samples so far."""

    encoder: Encoder
    with_labels: Taught  # its classifiers are those of the objective, trained on codes that saw the labels
    label_free: Taught  # its classifiers predict; trained on label-free codes, costs are from before that
    statistics: CodeStatistics  # in float64, of variances in the unit of the misfits
    misfits: MisfitSums  # of label-free codes
    sum_of_misfits: float = 0.0
    log_medians: float = 0.0  # over samples that are no copies of an atom, the logarithm of their batch's median misfit
    n_labelled: Floats  # (n_classes,)
    n_positive: Floats  # (n_classes,)
    label_weight: float = 0.0
    priors: Priors
    n_since_use: NDArray[np.int64]  # (n_components,) samples since an atom was last used
    n_samples: int = 0
    history: list[IterationRecord]

    def forget(self, n_new: int, forgetting: float) -> Stream:
        """Return a stream whose samples count as they do after ``n_new`` more samples."""
        factor = (self.n_samples / (self.n_samples + n_new)) ** forgetting
        return replace(
            self,
            with_labels=self.with_labels.forget(factor),
            label_free=self.label_free.forget(factor),
            statistics=CodeStatistics(factor * self.statistics.code_gram, factor * self.statistics.data_sums),
            misfits=self.misfits.forget(factor),
            sum_of_misfits=factor * self.sum_of_misfits,
            log_medians=factor * self.log_medians,
            n_labelled=factor * self.n_labelled,
            n_positive=factor * self.n_positive,
            label_weight=factor * self.label_weight,
        )

    def with_dictionary(self, encoder: Encoder, replaced: NDArray[np.intp]) -> Stream:
        """Return a stream with other atoms, as if no sample had used those that were replaced."""
        code_gram, data_sums = self.statistics.code_gram.copy(), self.statistics.data_sums.copy()
        n_since_use = self.n_since_use.copy()
        code_gram[replaced] = code_gram[:, replaced] = data_sums[replaced] = n_since_use[replaced] = 0
        return replace(
            self,
            encoder=encoder,
            with_labels=self.with_labels.with_dictionary(encoder.dictionary, replaced),
            label_free=self.label_free.with_dictionary(encoder.dictionary, replaced),
            statistics=CodeStatistics(code_gram, data_sums),
            n_since_use=n_since_use,
        )

    def find_median_misfit(self) -> float:
        """Return the geometric mean of the batches' medians; if all samples are atoms, only their size is known."""
        if self.misfits.n_noisy == 0:
            return self.misfits.energy / self.misfits.n_samples or 1.0
        return float(np.exp(self.log_medians / self.misfits.n_noisy))

    @property
    def class_prior(self) -> Floats:
        """The share of each class among the labelled samples; without any, all classes have the same."""
        if self.label_weight == 0:
            return np.full(len(self.n_positive), 1 / len(self.n_positive))
        return self.n_positive / self.label_weight

    def attributes(self) -> dict[str, Any]:
        """Return the fitted attributes, and the stream itself."""
        model = self.label_free.model
        return {
            "stream_": self,
            "history_": self.history,
            "n_iter_": len(self.history) - 1,
            "converged_": False,
            "class_prior_": self.class_prior,
            "n_samples_seen_": self.n_samples,
            "median_noise_variance_": self.find_median_misfit() / (model.dictionary.shape[1] + 2),
            "priors_": self.priors,
            "components_": model.dictionary,
            "coef_": model.coef,
            "intercept_": model.intercept,
            "class_cost_": model.class_cost,
        }


def start_stream(state: State, settings: FitSettings) -> Stream:
    """Return the stream before its first batch: atoms and first classifiers as at the start of a fit to the batch."""
    model = state.model
    (n_components, n_features), n_classes = model.dictionary.shape, len(model.coef)
    none = np.zeros(n_classes)
    taught = Taught(model, CostParabolas.nothing(n_classes, n_components, settings.loss), none)
    eps = float(np.finfo(model.dictionary.dtype).eps)
    return Stream(
        encoder=state.encoder,
        with_labels=taught,
        label_free=taught,
        statistics=CodeStatistics(*(np.zeros((n_components, n)) for n in (n_components, n_features))),
        misfits=MisfitSums(n_features, eps, find_unit(state.priors.noise_variance)),
        n_labelled=none,
        n_positive=none,
        priors=state.priors,
        n_since_use=np.full(n_components, _PATIENCE * n_components),
        history=state.history,
    )


def _measure_code_energy(part: CodedPart) -> float:
    return float(np.sum(np.square(part.codes.values), dtype=np.float64))


def resume_stream(
    training: TrainingSet,
    settings: FitSettings,
    model: Model,
    *,
    class_prior: Floats,
    median_variance: float,
    priors: Priors,
    n_samples: int,
) -> Stream:
    """Return a stream that holds atoms and classifiers where they are, as firmly as the samples of the model would.

    How these used the atoms is not known: all alike and none together, with codes as large as those of the batch.
    """
    facts, n_past = training.facts, n_samples
    encoder = Encoder.of(model.dictionary, settings.sparse_coder, settings.n_nonzero_coefs, settings.n_jobs)
    parts = training.parts.map(code_label_free, settings, encoder)
    _, record = Loop(training, settings).update_scales(State(model, encoder, parts, priors, []))
    n_components = len(model.dictionary)
    squared_norm = n_past * ((parts.add_up(_measure_code_energy) / facts.n_samples) or 1.0) / n_components
    n_labelled, n_positive = np.full(facts.n_classes, float(n_past)), n_past * class_prior
    costs = n_past * model.class_cost
    memory = CostParabolas.of_classifiers(
        np.column_stack([model.coef, model.intercept]).astype(np.float64),
        costs,
        np.array([n_labelled - n_positive, n_positive]),
        squared_norm,
        settings.loss,
        getattr(settings.classifier_trainer, "ridge", 0.0),
    )
    taught = Taught(model, memory, costs)
    unit, misfit = find_unit(median_variance), median_variance * (facts.n_features + 2)
    eps = float(np.finfo(facts.dtype).eps)
    weight = squared_norm * unit / median_variance
    return Stream(
        encoder=encoder,
        with_labels=taught,
        label_free=taught,
        statistics=CodeStatistics(weight * np.eye(n_components), weight * model.dictionary.astype(np.float64)),
        misfits=MisfitSums.expected(n_past, priors, facts.n_features, eps, unit),
        sum_of_misfits=n_past * misfit,
        log_medians=n_past * np.log(misfit),
        n_labelled=n_labelled,
        n_positive=n_positive,
        label_weight=n_past,
        priors=priors,
        n_since_use=np.zeros(n_components, np.int64),
        n_samples=n_past,
        history=[record],
    )


class BatchLoop(Loop):
    """The loop over one batch, whose sums are added to those of the stream before anything is computed from them."""

    n_monitored = 0  # the label-free error is that of the whole batch, before anything is learned from it

    def __init__(self, training: TrainingSet, settings: FitSettings, stream: Stream, forgetting: float):
        super().__init__(training, settings)
        self.stream = stream.forget(training.facts.n_samples, forgetting)  # each step adds its sums

    # As in a dictionary update: the matrices are small, and on a busy machine more BLAS threads cost tenfold.
    @single_threaded_blas()
    def learn(self) -> Stream:
        """Return the stream with the batch."""
        start = perf_counter()
        state, label_free_error = self._start_batch()
        started = perf_counter()
        state = self.iterate(state)
        finished = perf_counter()
        parts = self.training.parts.map(code_label_free, self.settings, state.encoder)
        coded = perf_counter()
        label_free = self._train(self.stream.label_free, parts, state.priors)
        class_cost = state.priors.estimate_class_cost(label_free.costs, label_free.model.coef, self.stream.n_labelled)
        record = state.history[-1]
        record = record._replace(
            label_free_error=label_free_error,
            coding_seconds=record.coding_seconds + started - start + coded - finished,
            classifier_seconds=record.classifier_seconds + perf_counter() - coded,
        )
        return replace(
            self.stream,
            with_labels=replace(self.stream.with_labels, model=state.model),
            label_free=replace(label_free, model=replace(label_free.model, class_cost=class_cost)),
            n_samples=self.stream.n_samples + self.facts.n_samples,
            history=[*self.stream.history, record],
        )

    def _start_batch(self) -> tuple[State, float]:
        """Code the batch without labels, and set scales; return the error before anything is learned from it, too."""
        facts, settings, stream, model = self.facts, self.settings, self.stream, self.stream.label_free.model
        parts = self.training.parts.map(code_label_free, settings, stream.encoder)
        parts, (misfit, costs) = parts.map_and_add_up(measure_part, settings, stream.encoder, model)
        misfits = parts.add_up(sum_misfits, stream.misfits.unit, facts.n_features)
        # The costs of earlier classifiers are bounded by those of none at all: an exponential cost can be anything.
        worst = facts.n_labelled * settings.loss.value(np.zeros(1))
        stream = replace(
            stream,
            label_free=replace(stream.label_free, costs=stream.label_free.costs + np.minimum(costs, worst)),
            misfits=stream.misfits + misfits,
            sum_of_misfits=stream.sum_of_misfits + misfit,
            log_medians=stream.log_medians + misfits.n_noisy * _find_log_median(parts),
            n_labelled=stream.n_labelled + facts.n_labelled,
            n_positive=stream.n_positive + facts.n_positive,
            label_weight=stream.label_weight + facts.label_weight,
        )
        summary, taught = parts.add_up(methodcaller("summarise", len(model.dictionary))), stream.label_free
        squared_norms = taught.memory.squared_norms + summary.squared_norms
        sums = squared_norms, taught.costs, model.coef, stream.n_labelled
        priors = set_priors(settings, stream.misfits, stream.find_median_misfit, *sums)
        self.stream = replace(stream, priors=priors)
        means = stream.sum_of_misfits / stream.misfits.n_samples, facts.n_features
        parts, _ = parts.map_and_add_up(estimate_noise, settings, means, priors, True)
        error = divide(*parts.add_up(count_wrong, settings, model))
        model = stream.with_labels.model
        model = replace(model, class_cost=np.maximum(model.class_cost, priors.cost_floor))
        return State(model, stream.encoder, parts, priors, stream.history), error

    def exceeds(self, record: IterationRecord, last: IterationRecord) -> bool:
        """Whether the objective has risen is not known: that of the last batch is one of other samples."""
        return False

    def train_classifiers(self, state: State, is_first: bool = False) -> State:
        """Step 2, on the codes of the batch and the costs that are remembered."""
        taught = self._train(replace(self.stream.with_labels, model=state.model), state.parts, state.priors)
        self.stream = replace(self.stream, with_labels=taught)
        return replace(state, model=taught.model)

    def _train(self, taught: Taught, parts: Parts[CodedPart], priors: Priors) -> Taught:
        settings, model = self.settings, taught.model
        start = settings.loss, model.coef, model.intercept
        options: dict[str, Any] = {"penalties": priors.ridge, "n_jobs": settings.n_jobs}
        coef, intercept, memory = train_with_memory(
            settings.classifier_trainer, taught.memory, parts.gather(), *start, **options
        )
        return Taught(replace(model, coef=coef, intercept=intercept), memory, taught.costs)

    def update_dictionary(self, state: State) -> tuple[State, NDArray[np.intp]]:
        """Step 3, from the sums over all samples so far."""
        state, replaced = super().update_dictionary(state)
        self.stream = self.stream.with_dictionary(state.encoder, replaced)
        return state, replaced

    def sum_statistics(self, state: State) -> tuple[CodeStatistics, NDArray[np.intp]]:
        """Add the batch to the sums; an atom is unused if it has been for long."""
        old = state.model.dictionary
        added, usage = state.parts.add_up(sum_statistics, self.settings, len(old), self.stream.misfits.unit)
        statistics = self.stream.statistics + added
        n_since_use = np.where(usage > 0, 0, self.stream.n_since_use + self.facts.n_samples)
        self.stream = replace(self.stream, statistics=statistics, n_since_use=n_since_use)
        sums = CodeStatistics(statistics.code_gram, statistics.data_sums.astype(old.dtype))
        return sums, np.flatnonzero(n_since_use > _PATIENCE * len(old))

    def estimate_class_cost(self, state: State, costs: Floats) -> Floats:
        """Return the class costs for the sums over all samples so far."""
        taught = replace(self.stream.with_labels, costs=self.stream.with_labels.costs + costs)
        self.stream = replace(self.stream, with_labels=taught)
        return state.priors.estimate_class_cost(taught.costs, state.model.coef, self.stream.n_labelled)


def _find_log_median(parts: Parts[CodedPart]) -> float:
    """Return the logarithm of the median misfit of the samples that are no atoms; 0 if all are."""
    misfits = np.concatenate(parts.gather("misfits"))
    noisy = misfits[misfits > np.finfo(misfits.dtype).eps * misfits.max()]
    return float(np.log(np.median(noisy))) if noisy.size else 0.0
