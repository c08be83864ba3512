"""Algorithm 2 of the paper: codes, classifiers, dictionary and scales are improved in turn until the objective settles.

Each step lowers the MAP objective (Eq. 3 with priors) in one group of variables and leaves the others alone.  Only
dictionary updates that change codes can raise it, as the one that the paper prints; a guarded one is undone then, so
that the objective never rises.

What a step does to one part of the training set is in ``steps.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter, methodcaller
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..classifiers.problem import scale_ridge
from ..coding.coders import SparseCoder
from ..coding.encoder import Encoder, count_stride
from ..dictionary import WorstSamples, rank_of_worst
from ..model.codes import Floats, Model, RowCodes
from ..model.objective import MapObjective, sum_class_terms
from ..model.scales import Priors, find_unit
from ..parallel import Parts, find_median, select_ranks, single_threaded_blas
from .data import TrainingFacts, TrainingPart, TrainingSet, take_rows
from .steps import (
    CodingCounts,
    Counts,
    FitSettings,
    RowState,
    code_discriminatively,
    code_label_free,
    find_worst,
    get_row_state,
    measure_part,
    measure_part_residuals,
    put_row_state,
    register,
    scale_part,
    sum_misfits,
    sum_statistics,
)

# The label-free error is monitored on at most this many samples, since it needs an extra coding pass. Where it is five
# per cent, its standard error is then half a per cent.
_N_MONITORED = 2000
# A rise by no more than this share of the size of the terms is rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class FitState:
    """All unknowns of Eq. 3: those that samples share, and those of each sample in their parts."""

    model: Model
    encoder: Encoder  # of the model's dictionary
    parts: Parts[TrainingPart]

    def collect_rows(self) -> RowState:
        """Return the unknowns of all samples, wherever they are."""
        return self.parts.add_up(get_row_state)

    def put_rows(self, rows: RowState, row_slices: list[slice]) -> FitState:
        """Return a state with these unknowns of the samples; each part is sent its own."""
        positions = rows.positions
        of_parts = [
            RowState(
                rows.codes.rows(block),
                rows.noise_variance[block],
                None if positions is None else positions[block],
                block.start,
            )
            for block in row_slices
        ]
        return replace(self, parts=self.parts.map_each(put_row_state, of_parts))

    def with_dictionary(self, model: Model, n_jobs: int | None) -> FitState:
        """Return a state with another dictionary, whose Gram matrix is computed here."""
        encoder = Encoder.of(model.dictionary, self.encoder.sparse_coder, self.encoder.n_nonzero_coefs, n_jobs)
        return replace(self, model=model, encoder=encoder)


class IterationRecord(NamedTuple):
    """What one outer iteration did.

    Parameters
    ----------
    iteration : int
        0 for the state before the first iteration.
    objective : float
        The MAP objective, the sum of the next five.
    representation : float
        Misfits (squared residuals plus twice the penalty of the coder) over twice their variances.
    log_noise : float
        Logarithms of the variances.
    classification : float
        Classification costs over the class costs.
    log_class_cost : float
        Logarithms of the class costs.
    prior : float
        What the priors of scales and classifiers add.
    floor_share : float
        Share of the samples whose noise variance is at its floor, if there is one.
    n_refitted : int
        Samples whose code was improved on the atoms that it had.
    n_reselected : int
        Samples whose atoms were selected anew.
    n_swapped : int
        Samples of whose atoms some were replaced.
    n_rejected : int
        Selections and replacements undone because they would have raised a sample's objective.
    coding_decrease : float
        By how much coding lowered the objective.
    training_error : float
        Error on the training samples with codes that saw their labels.
    label_free_error : float
        Error on at most 2000 training samples coded as test samples are.  If it is far above ``training_error``, the
        training codes owe much to the labels.
    n_replaced : int
        Atoms replaced by samples.
    is_undone : bool
        Whether the dictionary update would have raised the objective, and was undone.
    coding_seconds : float
        Time spent on codes.
    classifier_seconds : float
        Time spent on classifiers.
    dictionary_seconds : float
        Time spent on the dictionary.
    scale_seconds : float
        Time spent on scales, the objective and the errors.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ddlearn import DDLClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DDLClassifier(n_components=50, max_iter=2, random_state=0).fit(X, y)
    >>> [record.iteration for record in model.history_]
    [0, 1, 2]
    """

    iteration: int
    objective: float
    representation: float
    log_noise: float
    classification: float
    log_class_cost: float
    prior: float
    floor_share: float
    n_refitted: int
    n_reselected: int
    n_swapped: int
    n_rejected: int
    coding_decrease: float
    training_error: float
    label_free_error: float
    n_replaced: int
    is_undone: bool
    coding_seconds: float
    classifier_seconds: float
    dictionary_seconds: float
    scale_seconds: float


class FitProgress(NamedTuple):
    """Where the loop is, and how it came there: all that it needs to go on."""

    settings: FitSettings  # with all that was estimated from the first codes
    state: FitState
    priors: Priors
    history: list[IterationRecord]
    converged: bool = False
    stopped: bool = False  # whether a callback asked to stop

    @property
    def n_iter(self) -> int:
        """The number of iterations done."""
        return len(self.history) - 1

    @property
    def is_finished(self) -> bool:
        """Whether there is nothing left to do."""
        return self.converged or self.stopped or self.n_iter >= self.settings.max_iter


class ScaledState(NamedTuple):
    """A state with the scales that minimise the objective, the objective, and what was counted."""

    state: FitState
    priors: Priors
    objective: MapObjective
    counts: Counts


def begin(
    training: TrainingSet,
    settings: FitSettings,
    dictionary: Floats,
    coef: Floats | None = None,
    intercept: Floats | None = None,
) -> FitProgress:
    """Code the samples without labels, train classifiers on the codes, and set priors and scales.

    With a guarded dictionary update and without classifiers to start from, the four steps are done once before the
    objective is recorded, unless there are to be no iterations.  The first atoms are samples, which represent
    themselves: the objective rewards that, and to make them atoms that serve others, too, may raise it.  Undone for
    that, they would stay samples for ever.
    """
    facts = training.facts
    settings = replace(settings, sparse_coder=_adapt_coder(training, settings, dictionary))
    is_new = coef is None
    coef = np.zeros((facts.n_classes, len(dictionary)), facts.dtype) if coef is None else coef
    intercept = np.zeros(facts.n_classes, facts.dtype) if intercept is None else intercept
    encoder = Encoder.of(dictionary, settings.sparse_coder, settings.n_nonzero_coefs, settings.n_jobs)
    parts = training.parts.map(code_label_free, settings, encoder)
    state = FitState(Model(dictionary, coef, intercept, np.empty(0)), encoder, parts)
    scaled = update_scales(train_classifiers(state, settings, training), settings, training)
    if is_new and settings.dictionary_update.is_guarded and settings.max_iter:
        state, _ = encode(scaled.state, settings)
        state = train_classifiers(state, settings, training, scaled.priors.ridge)
        scaled = _improve_atoms(state, settings, training, scaled.priors).scaled
    return FitProgress(settings, scaled.state, scaled.priors, [make_record(0, scaled, facts.n_samples)])


def _adapt_coder(training: TrainingSet, settings: FitSettings, dictionary: Floats) -> SparseCoder:
    """Return the coder with the parameters filled in that are estimated from the samples."""
    coder, n_samples = settings.sparse_coder, training.facts.n_samples
    if coder.is_adapted:
        return coder
    rows = np.arange(0, n_samples, count_stride(n_samples))
    samples = np.concatenate([taken for _, taken in training.parts.collect(take_rows, rows)])
    return coder.adapt(samples, dictionary, settings.n_nonzero_coefs)


def run(
    progress: FitProgress, training: TrainingSet, on_iteration: Callable[[FitProgress], FitProgress]
) -> FitProgress:
    """Repeat the four steps until the objective settles; ``on_iteration`` may mark the progress as stopped."""
    while not progress.is_finished:
        progress = on_iteration(iterate(progress, training))
    return progress


def iterate(progress: FitProgress, training: TrainingSet) -> FitProgress:
    """Do the four steps once."""
    settings, priors, last = progress.settings, progress.priors, progress.history[-1]
    start = perf_counter()
    state, coding = encode(progress.state, settings)
    coded = perf_counter()
    state = train_classifiers(state, settings, training, priors.ridge)
    trained = perf_counter()
    step = _improve_atoms(state, settings, training, priors)
    is_undone = False
    if settings.dictionary_update.is_guarded and step.exceeds(last.objective):
        kept = _DictionaryStep(update_scales(state, settings, training, priors), 0, step.scale_seconds)
        # It is not higher yet, unless samples were moved by alignment.
        is_undone = sum(kept.scaled.objective) < sum(step.scaled.objective)
        step = kept if is_undone else step
    record = make_record(
        progress.n_iter + 1,
        step.scaled,
        training.facts.n_samples,
        **coding._asdict(),
        n_replaced=step.n_replaced,
        is_undone=is_undone,
        coding_seconds=coded - start,
        classifier_seconds=trained - coded,
        dictionary_seconds=perf_counter() - trained - step.scale_seconds,
        scale_seconds=step.scale_seconds,
    )
    history = [*progress.history, record]
    return FitProgress(settings, step.scaled.state, priors, history, _has_settled(history, settings, training.facts))


class _DictionaryStep(NamedTuple):
    """Steps 3 and 4."""

    scaled: ScaledState
    n_replaced: int
    scale_seconds: float

    def exceeds(self, objective: float) -> bool:
        """Whether the objective has risen above this by more than rounding."""
        return sum(self.scaled.objective) - objective > _ROUNDING * sum(map(abs, self.scaled.objective))


def _improve_atoms(state: FitState, settings: FitSettings, training: TrainingSet, priors: Priors) -> _DictionaryStep:
    state, n_replaced = update_dictionary(state, settings, training, priors)
    improved = perf_counter()
    scaled = update_scales(state, settings, training, priors)
    return _DictionaryStep(scaled, n_replaced, perf_counter() - improved)


def _has_settled(history: list[IterationRecord], settings: FitSettings, facts: TrainingFacts) -> bool:
    """Whether two iterations have lowered the objective too little.

    Were all scales smaller by a share ``tol``, their logarithms alone would lower it by ``tol`` times the unit.
    """
    if len(history) < 3:  # the first iteration trades representation for classification, and they may cancel
        return False
    best = np.minimum.accumulate(list(map(attrgetter("objective"), history)))
    n_places = facts.weight * (facts.n_known + 2) / 2
    unit = n_places + settings.classification_weight * float(np.sum(facts.n_labelled + 1))
    return bool((best[-3] - best[-1]) / 2 <= settings.tol * unit)


def encode(state: FitState, settings: FitSettings) -> tuple[FitState, CodingCounts]:
    """Step 1, discriminative sparse coding, starting from the current codes."""
    parts, counts = state.parts.map_and_add_up(code_discriminatively, settings, state.encoder, state.model)
    return replace(state, parts=parts), counts


def train_classifiers(
    state: FitState, settings: FitSettings, training: TrainingSet, penalties: Floats | None = None
) -> FitState:
    """Step 2, one linear classifier per class on the codes, starting from the current ones.

    By default, the penalties are those for the current codes.
    """
    trainer, model = settings.classifier_trainer, state.model
    start = settings.loss, model.coef, model.intercept
    options: dict[str, Any] = {"penalties": penalties, "n_jobs": settings.n_jobs}
    if trainer.is_additive:
        coef, intercept = trainer.train_on(state.parts, *start, **options)
    else:
        if training.weights is not None:
            raise ValueError(f"{trainer!r} needs all samples at once, and takes no weights: use 'auto'.")
        labels = np.concatenate(state.parts.gather("labels")).astype(training.facts.dtype)
        coef, intercept = trainer.train(state.collect_rows().codes, labels, *start, **options)
    return replace(state, model=replace(model, coef=coef, intercept=intercept))


def refit_classifiers(state: FitState, settings: FitSettings, training: TrainingSet, priors: Priors) -> FitState:
    """Train on label-free codes, as new samples have them; the class costs are then those of such codes."""
    # Registered from scratch, as new samples are.
    parts = state.parts.map(register, settings, state.encoder, None).map(code_label_free, settings, state.encoder)
    state = train_classifiers(replace(state, parts=parts), settings, training, priors.ridge)
    return update_scales(state, settings, training, priors).state


def update_dictionary(
    state: FitState, settings: FitSettings, training: TrainingSet, priors: Priors
) -> tuple[FitState, int]:
    """Step 3, improve the atoms; return the new state and how many atoms were replaced."""
    update = _update_from_sums if settings.dictionary_update.is_additive else _update_from_samples
    dictionary, parts, replaced = update(state, settings, training, priors)
    coef = state.model.coef.copy()
    coef[:, replaced] = 0  # the coefficients of a replaced atom mean nothing for the new one
    model = replace(state.model, dictionary=dictionary, coef=coef)
    return replace(state, parts=parts).with_dictionary(model, settings.n_jobs), len(replaced)


class _UpdatedAtoms(NamedTuple):
    """As :class:`~ddlearn.UpdatedDictionary`, for samples in parts."""

    dictionary: Floats
    parts: Parts[TrainingPart]
    replaced: NDArray[np.intp]


def _update_from_samples(
    state: FitState, settings: FitSettings, training: TrainingSet, priors: Priors
) -> _UpdatedAtoms:
    """Pass all samples to the update at once, which is possible only in this process."""
    rows = state.collect_rows()
    X = collect_samples(state, settings, training)
    if training.weights is not None:  # weighted least squares are those of rows times the roots of their weights
        roots = np.sqrt(training.weights).astype(X.dtype)[:, None]
        X, rows = X * roots, replace(rows, codes=RowCodes(rows.codes.indices, rows.codes.values * roots))
    updated = settings.dictionary_update.update(
        X, rows.codes, state.model.dictionary, 1 / rows.noise_variance, n_jobs=settings.n_jobs
    )
    codes = updated.codes
    if training.weights is not None:
        codes = RowCodes(codes.indices, codes.values / roots)
    parts = state.parts.map(put_row_state, replace(rows, codes=codes))
    return _UpdatedAtoms(updated.dictionary, parts, updated.replaced)


def _update_from_sums(state: FitState, settings: FitSettings, training: TrainingSet, priors: Priors) -> _UpdatedAtoms:
    """Update from sums over the samples, then replace unused atoms."""
    update: Any = settings.dictionary_update
    old = state.model.dictionary
    statistics, usage = state.parts.add_up(sum_statistics, settings, len(old), priors.noise_variance)
    # The matrices here are small: more BLAS threads bring little, and on a busy machine they cost tenfold.
    with single_threaded_blas():
        dictionary = update.update_from(statistics, old)
    dictionary, replaced = replace_unused(np.flatnonzero(usage == 0), dictionary, state.parts, settings, training)
    return _UpdatedAtoms(dictionary, state.parts, replaced)


def replace_unused(
    unused: NDArray[np.intp],
    dictionary: Floats,
    parts: Parts[TrainingPart],
    settings: FitSettings,
    training: TrainingSet,
) -> tuple[Floats, NDArray[np.intp]]:
    """Put badly represented samples in the places of unused atoms; return the atoms that were replaced, too."""

    def find(outlier_fraction: float, n_wanted: int) -> WorstSamples:
        errors = parts.map(measure_part_residuals, settings, dictionary)
        rank = rank_of_worst(training.facts.n_samples, outlier_fraction)
        largest = float(select_ranks(errors, [rank], training.facts.dtype)[0])
        return parts.add_up(find_worst, settings, dictionary, n_wanted, largest)

    return settings.dictionary_update.replace_unused(dictionary, unused, find)  # type: ignore[attr-defined]


def update_scales(
    state: FitState, settings: FitSettings, training: TrainingSet, priors: Priors | None = None
) -> ScaledState:
    """Step 4, noise variances and class costs in closed form; and the objective, which needs the same sums.

    Without priors, the codes are the first of a fit, and priors are set from them.
    """
    facts, weight, is_first = training.facts, settings.classification_weight, priors is None
    parts, (sum_of_misfits, costs) = state.parts.map_and_add_up(measure_part, settings, state.model)
    mean_misfit, stride = sum_of_misfits / facts.weight, -(-facts.n_samples // _N_MONITORED)
    if priors is None:
        priors = _set_priors(replace(state, parts=parts), settings, training, mean_misfit, costs)
    class_cost = priors.estimate_class_cost(costs, state.model.coef, facts.n_labelled)
    class_terms = sum_class_terms(costs, state.model.coef, class_cost, facts.n_labelled, priors, weight)
    model = replace(state.model, class_cost=class_cost)
    parts, (noise_terms, counts) = parts.map_and_add_up(
        scale_part, settings, state.encoder, model, (mean_misfit, facts.n_known), priors, stride, is_first
    )
    objective = MapObjective.of(noise_terms, class_terms)
    return ScaledState(replace(state, model=model, parts=parts), priors, objective, counts)


def _set_priors(
    state: FitState, settings: FitSettings, training: TrainingSet, mean_misfit: float, costs: Floats
) -> Priors:
    """Return the priors for the rest of the fit."""
    facts, parts, model = training.facts, state.parts, state.model
    sums = parts.add_up(sum_misfits, find_unit(mean_misfit), facts.n_known)

    def find_median_misfit() -> float:
        return find_median(parts.map(attrgetter("misfits")), facts.n_samples, facts.dtype, sums.eps)

    summary = parts.add_up(methodcaller("summarise", len(model.dictionary)))
    # A trainer of one's own need not have a ridge.
    ridge = scale_ridge(getattr(settings.classifier_trainer, "ridge", 0.0), settings.loss, summary.squared_norms)
    return settings.scales.set_priors(
        sums, find_median_misfit, costs, model.coef, facts.n_labelled, ridge, settings.loss
    )


def collect_samples(state: FitState, settings: FitSettings, training: TrainingSet) -> Floats:
    """Return all samples as they are coded; they must be in this process."""
    is_same = settings.registration is None and training.is_known is None
    return training.X if is_same else np.concatenate(state.parts.gather("X"))


_NOT_MEASURED: dict[str, Any] = {
    **dict.fromkeys(("n_refitted", "n_reselected", "n_swapped", "n_rejected", "n_replaced"), 0),
    "coding_decrease": 0.0,
    "is_undone": False,
    **dict.fromkeys(("coding_seconds", "classifier_seconds", "dictionary_seconds", "scale_seconds"), 0.0),
}


def make_record(iteration: int, scaled: ScaledState, n_samples: int, **measured: Any) -> IterationRecord:
    """Return the record of an iteration; what was not measured is zero."""
    counts = scaled.counts
    return IterationRecord(
        iteration=iteration,
        objective=sum(scaled.objective),
        floor_share=counts.n_at_floor / n_samples,
        training_error=divide(counts.n_wrong, counts.n_labelled),
        label_free_error=divide(counts.n_monitored_wrong, counts.n_monitored),
        **_NOT_MEASURED | scaled.objective._asdict() | measured,
    )


def divide(n_wrong: float, n_labelled: float) -> float:
    """Return an error, NaN if no sample is labelled."""
    return n_wrong / n_labelled if n_labelled else float("nan")
