"""Algorithm 2 of the paper: codes, classifiers, dictionary and scales are improved in turn until the objective settles.

Each step lowers the MAP objective (Eq. 3 with priors) in one group of variables and leaves the others alone.  Only
dictionary updates that change codes can raise it, as the one that the paper prints; a guarded one is undone then, so
that the objective never rises.

Samples are in parts, wherever these are.  What a step does to one part is a function of the part and of what all parts
share, which returns a new part, summands, or both; in the order of the steps, these functions precede the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import attrgetter, methodcaller
from time import perf_counter
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..classifiers import ClassifierTrainer
from ..classifiers.problem import LabelledCodes, scale_ridge
from ..coding.alignment import Registration
from ..coding.coders import SparseCoder
from ..coding.discriminative import CodingRecord, DiscriminativeCoder
from ..coding.encoder import Encoder, count_stride
from ..coding.robust import RobustCoder
from ..coding.rows import DiscriminativeCoding
from ..describe.missing import fill_with_codes
from ..dictionary import DictionaryUpdate, WorstSamples, count_users, rank_of_worst
from ..model.codes import Flags, Floats, Model, RowCodes, measure_residuals
from ..model.losses import Loss, compute_evidence
from ..model.measures import count_errors
from ..model.objective import MapObjective, Terms, sum_class_terms, sum_costs, sum_noise_terms
from ..model.scales import MisfitSums, Priors, Scales, find_unit, penalise
from ..parallel import Parts, find_median, select_ranks, single_threaded_blas
from .data import TrainingFacts, TrainingPart, TrainingSet, Weights, list_columns

# A rise by no more than this share of the size of the terms is rounding.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class FitSettings:
    """How to fit: strategies and checked numbers."""

    loss: Loss
    sparse_coder: SparseCoder
    n_nonzero_coefs: int
    label_coding: DiscriminativeCoding
    dictionary_update: DictionaryUpdate
    classifier_trainer: ClassifierTrainer
    fit_intercept: bool  # whether classifiers have an intercept
    scales: Scales
    classification_weight: float
    is_multilabel: bool
    max_iter: int
    tol: float
    registration: Registration | None  # of training samples
    n_jobs: int | None


class IterationRecord(NamedTuple):
    """What one outer iteration did.

    Parameters
    ----------
    iteration : int
        0 for the state before the first iteration.
    objective : float
        The MAP objective, the sum of the next five.
    representation, log_noise, classification, log_class_cost, prior : float
        The terms, those of :class:`MapObjective`.
    floor_share : float
        Share of the samples whose noise variance is at its floor, if there is one.
    n_refitted, n_reselected, n_swapped : int
        Samples whose code was improved on the atoms that it had, whose atoms were selected anew, and of whose atoms
        some were replaced.
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
    coding_seconds, classifier_seconds, dictionary_seconds, scale_seconds : float
        Time spent on codes, on classifiers, on the dictionary, and on scales, the objective and the errors.

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
    floor_share: float = 0.0
    n_refitted: int = 0
    n_reselected: int = 0
    n_swapped: int = 0
    n_rejected: int = 0
    coding_decrease: float = 0.0
    training_error: float = float("nan")
    label_free_error: float = float("nan")
    n_replaced: int = 0
    is_undone: bool = False
    coding_seconds: float = 0.0
    classifier_seconds: float = 0.0
    dictionary_seconds: float = 0.0
    scale_seconds: float = 0.0

    @property
    def terms(self) -> MapObjective:
        """The terms of the objective."""
        return MapObjective(*self[2:7])


@dataclass(frozen=True, kw_only=True)
class CodedPart(TrainingPart, LabelledCodes):
    """Some consecutive training samples, and the unknowns of Eq. 3 that belong to them."""

    codes: RowCodes
    noise_variance: Floats = field(default_factory=lambda: np.empty(0))  # (n,), empty until it is estimated
    misfits: Floats = field(default_factory=lambda: np.empty(0))  # (n,) squared residuals plus twice the penalty
    positions: Floats | None = None  # parameters of the maps found by registration
    adjusted: Floats | None = None  # (n, n_features) samples as they are coded, if registered or filled by their codes

    @property
    def samples(self) -> Floats:
        """The samples as they are coded."""
        return self.X if self.adjusted is None else self.adjusted

    def as_registered(self) -> TrainingPart:
        """Return the part with its samples as they are coded, and without the unknowns."""
        return TrainingPart(**list_columns(self) | {"X": self.samples}, first_row=self.first_row)


@dataclass(frozen=True)
class Unknowns:
    """The unknowns of some consecutive rows, which a checkpoint stores."""

    codes: RowCodes
    noise_variance: Floats
    positions: Floats | None


def get_unknowns(part: CodedPart) -> Unknowns:
    """Return the unknowns of a part."""
    return Unknowns(part.codes, part.noise_variance, part.positions)


def put_unknowns(part: TrainingPart, unknowns: Unknowns, first_row: int = 0) -> CodedPart:
    """Return the part with its unknowns, which are among those of the rows from the first one on."""
    rows = slice(part.first_row - first_row, part.first_row - first_row + len(part))
    positions = None if unknowns.positions is None else unknowns.positions[rows]
    mine = Unknowns(unknowns.codes.rows(rows), unknowns.noise_variance[rows], positions)
    return CodedPart(**vars(part) | vars(mine))


@dataclass(frozen=True)
class State:
    """Where the loop is, and how it came there: all that it needs to go on."""

    model: Model
    encoder: Encoder  # of the model's dictionary
    parts: Parts[CodedPart]
    priors: Priors
    history: list[IterationRecord]
    converged: bool = False
    stopped: bool = False  # whether a callback asked to stop

    @property
    def n_iter(self) -> int:
        """The number of iterations done."""
        return len(self.history) - 1

    def collect_unknowns(self) -> Unknowns:
        """Return the unknowns of all samples, wherever they are."""
        each = self.parts.collect(get_unknowns)
        positions = [some.positions for some in each if some.positions is not None]
        return Unknowns(
            RowCodes.join([some.codes for some in each]),
            np.concatenate([some.noise_variance for some in each]),
            np.concatenate(positions) if positions else None,
        )


def register(
    part: TrainingPart, settings: FitSettings, encoder: Encoder, positions: Floats | None, n_rounds: int | None
) -> dict[str, Any]:
    """Return the columns that registration of images sets, if there is any.

    That takes n_rounds rounds from their positions; without these as many as it needs, from scratch.
    """
    if settings.registration is None:
        return {}
    X, positions = settings.registration.register_all(
        part.X, RobustCoder(encoder), positions, n_rounds, settings.n_jobs
    )
    return {"adjusted": X, "positions": positions}


def code_label_free(part: TrainingPart, settings: FitSettings, encoder: Encoder, **registered: Any) -> CodedPart:
    """Code samples, as they are or registered, as new ones are: without their labels."""
    samples = registered.get("adjusted", part.samples)
    codes = encoder.encode(samples, part.is_known, n_jobs=settings.n_jobs, first_row=part.first_row)
    return CodedPart(**vars(part) | registered | {"codes": codes})


def code_as_new(part: TrainingPart, settings: FitSettings, encoder: Encoder) -> CodedPart:
    """Register samples from scratch until that converges, and code them without their labels."""
    return code_label_free(part, settings, encoder, **register(part, settings, encoder, None, None))


def fill(part: CodedPart, settings: FitSettings, dictionary: Floats) -> CodedPart:
    """Put reconstructions in place of missing features, with which the others alone make the objective."""
    if part.is_known is None:
        return part
    filled = fill_with_codes(part.X, part.is_known, part.codes, dictionary, settings.n_jobs)
    return replace(part, adjusted=filled)


def _sum_rows(values: Floats, weights: Weights) -> float:
    """Return a sum over samples, each by its weight, in float64."""
    return float(np.sum(weights * values.T))


# What coding counts, of the fields of a record.
_CODING = ("n_refitted", "n_reselected", "n_swapped", "n_rejected", "coding_decrease")


def code_discriminatively(
    part: CodedPart, settings: FitSettings, encoder: Encoder, model: Model
) -> tuple[CodedPart, tuple[float, ...]]:
    """Discriminative sparse coding (Algorithm 1), starting from the current codes; return the counts of a record."""
    part = replace(part, **register(part, settings, encoder, part.positions, 1))
    dtype = part.X.dtype
    coder = DiscriminativeCoder(
        encoder, model.weigh_labels(settings.classification_weight).astype(dtype), settings.loss, settings.label_coding
    )
    if part.is_known is not None:
        part, record = _code_known(part, settings, coder)
    else:
        codes, record = coder.encode(
            part.samples, part.labels.astype(dtype), part.noise_variance, part.codes, n_jobs=settings.n_jobs
        )
        part = replace(part, codes=codes)
    decrease = _sum_rows(record.decrease, part.weights) / 2  # F is twice what the sample adds to the objective
    return part, (*record.n_moved.values(), int(record.n_rejected.sum()), decrease)


def _code_known(part: CodedPart, settings: FitSettings, coder: DiscriminativeCoder) -> tuple[CodedPart, CodingRecord]:
    """Code samples with missing features, and fill them.

    A fill by the current codes holds on to these: a pursuit would hardly ever select other atoms.  So there is a second
    start, from label-free codes of the known features, which no fill takes part in.  The better codes are kept.
    """
    encoder, labels = coder.encoder, part.labels.astype(part.X.dtype)

    def descend(part: CodedPart) -> tuple[RowCodes, CodingRecord]:
        filled = fill(part, settings, encoder.dictionary).samples
        return coder.encode(filled, labels, part.noise_variance, part.codes, n_jobs=settings.n_jobs)

    codes, record = descend(part)
    others, other = descend(code_label_free(part, settings, encoder))
    is_better = other.objective_after < record.objective_after
    other.n_steps[:, 1] += 1  # to start with them is to select atoms anew
    other.decrease[:, 1] += record.objective_before - other.objective_before

    def choose(mine: NDArray, theirs: NDArray) -> NDArray:
        return np.where(is_better if mine.ndim == 1 else is_better[:, None], theirs, mine)

    codes = RowCodes(*map(choose, codes, others))
    record = CodingRecord(*map(choose, vars(record).values(), vars(other).values()))
    return fill(replace(part, codes=codes), settings, encoder.dictionary), record


def sum_statistics(
    part: CodedPart, settings: FitSettings, n_components: int, variance_unit: float
) -> tuple[Any, NDArray[np.intp]]:
    """Return the statistics that an additive dictionary update needs, and how many samples use each atom."""
    precision = variance_unit / part.noise_variance  # only ratios matter, and these fit in any dtype
    precision *= part.weights.astype(precision.dtype)
    statistics = settings.dictionary_update.statistics(  # type: ignore[attr-defined]
        part.samples, part.codes, precision, n_components, n_jobs=settings.n_jobs
    )
    return statistics, count_users(part.codes, n_components)


def measure_part_residuals(part: CodedPart, settings: FitSettings, dictionary: Floats) -> Floats:
    """Return squared residuals for another dictionary."""
    return measure_residuals(part.samples, part.codes, dictionary, settings.n_jobs)


def find_worst(
    part: CodedPart, settings: FitSettings, dictionary: Floats, n_wanted: int, largest_error: float
) -> WorstSamples:
    """Return the worst represented samples of a part."""
    errors = measure_part_residuals(part, settings, dictionary)
    return WorstSamples.find(part.samples, errors, part.first_row, n_wanted, largest_error)


def measure_part(
    part: CodedPart, settings: FitSettings, encoder: Encoder, model: Model
) -> tuple[CodedPart, tuple[float, NDArray[np.float64]]]:
    """Measure misfits; return their sum, and the sum of costs per class."""
    part = fill(part, settings, model.dictionary)
    misfits, scores = model.measure(part.samples, part.codes, settings.n_jobs)
    if encoder.sparse_coder.has_penalty:
        misfits = encoder.sparse_coder.measure_misfit(misfits, part.codes)
    costs = sum_costs(part.labels.astype(part.X.dtype), scores, settings.loss, part.weights)
    return replace(part, misfits=misfits), (_sum_rows(misfits, part.weights), costs)


def is_own_atom(part: CodedPart) -> Flags:
    """Return which samples are copies of an atom: their misfits are rounding errors and say nothing of the noise."""
    return part.misfits <= np.finfo(part.X.dtype).eps * np.vecdot(part.samples, part.samples)


def sum_misfits(part: CodedPart, unit: float, mean_known: float) -> MisfitSums:
    """Return the sums from which the prior of the noise is estimated, as if all samples had as many known features."""
    is_noisy = ~is_own_atom(part)
    logs = np.log(part.misfits[is_noisy].astype(np.float64) / unit)
    if part.is_known is not None:
        logs += np.log(mean_known / part.is_known.sum(axis=1)[is_noisy])
    n_noisy, weighted = float(part.weights[is_noisy].sum()), part.weights[is_noisy] * logs
    energy = _sum_rows(np.vecdot(part.samples, part.samples), part.weights)
    eps, sums = float(np.finfo(part.X.dtype).eps), (float(weighted.sum()), float(weighted @ logs))
    return MisfitSums(mean_known, eps, unit, float(part.weights.sum()), n_noisy, *sums, energy)


def estimate_noise(
    part: CodedPart,
    settings: FitSettings,
    means: tuple[float, float],  # misfit and number of known features
    priors: Priors,
    is_first: bool = False,
) -> tuple[CodedPart, Terms]:
    """Set the noise variances from the misfits of the samples, or from their mean; return the terms they are in.

    Only known features count; a variance that all samples share counts as many as they have on average.  At first
    codes, copies of an atom get the typical variance.  With the one of least objective, which is tiny, they would hold
    their atoms where they are.
    """
    mean_misfit, mean_known = means
    is_copy = is_own_atom(part) if is_first else None
    n_features: Any = mean_known if settings.scales.noise == "shared" else part.n_known
    variance = settings.scales.estimate_noise(part.misfits, mean_misfit, n_features, priors, is_copy)
    terms = sum_noise_terms(part.misfits, variance, n_features, priors, part.weights)
    return replace(part, noise_variance=variance), terms


def count_wrong(part: CodedPart, settings: FitSettings, model: Model) -> tuple[float, float]:
    """Return how many samples (multilabel: labels) are misclassified from their codes, and how many are labelled."""
    if not part.labels.any():
        return 0, 0
    evidence = compute_evidence(model.scores(part.codes), settings.loss, model.class_cost)
    return count_errors(part.labels, evidence, settings.is_multilabel, part.weights)


def scale_part(
    part: CodedPart,
    settings: FitSettings,
    encoder: Encoder,
    model: Model,
    means: tuple[float, float],
    priors: Priors,
    stride: int,
    is_first: bool,
) -> tuple[CodedPart, tuple[Terms, tuple[float, ...]]]:
    """Set the noise variances; return their terms of the objective, and what is counted.

    That are samples at the noise floor, and wrong and labelled ones: with codes that saw the labels, and with codes as
    new samples have them, for every ``stride``-th row, or none.
    """
    # A view: to draw samples would copy them.
    monitored = slice(-part.first_row % stride, None, stride) if stride else slice(0)
    some = part.as_registered().take(monitored)
    label_free = count_wrong(code_label_free(some, settings, encoder), settings, model) if len(some) else (0, 0)
    n_wrong = count_wrong(part, settings, model)
    part, terms = estimate_noise(part, settings, means, priors, is_first)
    n_at_floor = int(np.count_nonzero(part.noise_variance <= part.noise_variance.dtype.type(priors.noise_floor)))
    return part, (terms, (n_at_floor, *n_wrong, *label_free))


def set_priors(
    settings: FitSettings,
    sums: MisfitSums,
    find_median: Callable[[], float],
    squared_norms: Floats,
    costs: Floats,
    coef: Floats,
    n_labelled: Floats,
) -> Priors:
    """Return the priors for first codes, their sums, costs and squared norms, and the classifiers for them."""
    # A trainer of one's own need not have a ridge.
    ridge = scale_ridge(getattr(settings.classifier_trainer, "ridge", 0.0), settings.loss, squared_norms)
    costs = costs + penalise(coef, ridge)
    return settings.scales.set_priors(sums, find_median, costs, n_labelled, ridge, settings.loss)


def divide(n_wrong: float, n_labelled: float) -> float:
    """Return an error, NaN if no sample is labelled."""
    return n_wrong / n_labelled if n_labelled else float("nan")


@dataclass
class Loop:
    """The fit of one training set, with the same settings in each iteration."""

    training: TrainingSet
    settings: FitSettings

    # The label-free error is monitored on at most this many samples, since it needs an extra coding pass. Where it is
    # five per cent, its standard error is then half a per cent.
    n_monitored: ClassVar[int] = 2000

    @property
    def facts(self) -> TrainingFacts:
        """The sizes of the training set."""
        return self.training.facts

    def start(self, dictionary: Floats, coef: Floats | None = None, intercept: Floats | None = None) -> State:
        """Code the samples without labels, train classifiers on the codes, and set priors and scales.

        With a guarded dictionary update and without classifiers to start from, the four steps are done once before the
        objective is recorded, unless there are to be no iterations.  The first atoms are samples, which represent
        themselves: the objective rewards that, and to make them atoms that serve others, too, may raise it.  Were this
        first update undone, atoms would remain samples.
        """
        facts, settings, is_new = self.facts, self.settings, coef is None
        coef = np.zeros((facts.n_classes, len(dictionary)), facts.dtype) if coef is None else coef
        intercept = np.zeros(facts.n_classes, facts.dtype) if intercept is None else intercept
        coder = settings.sparse_coder
        if not coder.is_adapted:
            samples = self.training.take_samples(np.arange(0, facts.n_samples, count_stride(facts.n_samples)))
            coder = coder.adapt(samples, dictionary, settings.n_nonzero_coefs)
        encoder = Encoder.of(dictionary, coder, settings.n_nonzero_coefs, settings.n_jobs)
        model, priors = Model(dictionary, coef, intercept, np.empty(0)), Priors.flat(facts.n_classes)
        state = State(model, encoder, self.training.parts.map(code_label_free, settings, encoder), priors, [])
        state, record = self.update_scales(self.train_classifiers(state, is_first=True), is_first=True)
        if is_new and settings.dictionary_update.is_guarded and settings.max_iter:
            state, _ = self.encode(state)
            state, _ = self.update_dictionary(self.train_classifiers(state))
            state, record = self.update_scales(state)
        return replace(state, history=[record])

    def is_finished(self, state: State) -> bool:
        """Whether there is nothing left to do."""
        return state.converged or state.stopped or state.n_iter >= self.settings.max_iter

    def run(self, state: State, on_iteration: Callable[[State], State] = lambda state: state) -> State:
        """Repeat the four steps until the objective settles; ``on_iteration`` may mark the state as stopped."""
        while not self.is_finished(state):
            state = on_iteration(self.iterate(state))
        return state

    def iterate(self, state: State) -> State:
        """Do the four steps once."""
        history, start = state.history, perf_counter()
        state, coding = self.encode(state)
        coded = perf_counter()
        state = self.train_classifiers(state)
        trained = perf_counter()
        improved, replaced = self.update_dictionary(state)
        scale_seconds = -perf_counter()
        improved, record = self.update_scales(improved)
        scale_seconds += perf_counter()
        record = record._replace(n_replaced=len(replaced))
        if self.settings.dictionary_update.is_guarded and self.exceeds(record, history[-1]):
            kept, other = self.update_scales(state)
            # It is not higher yet, unless samples were moved by alignment.
            if other.objective < record.objective:
                improved, record = kept, other._replace(is_undone=True)
        record = record._replace(
            **coding,
            coding_seconds=coded - start,
            classifier_seconds=trained - coded,
            dictionary_seconds=perf_counter() - trained - scale_seconds,
            scale_seconds=scale_seconds,
        )
        history = [*history, record]
        return replace(improved, history=history, converged=self.has_settled(history))

    def exceeds(self, record: IterationRecord, last: IterationRecord) -> bool:
        """Whether the objective has risen by more than rounding."""
        return record.objective - last.objective > _ROUNDING * sum(map(abs, record.terms))

    def has_settled(self, history: list[IterationRecord]) -> bool:
        """Whether two iterations have lowered the objective too little.

        Were all scales smaller by a share ``tol``, their logarithms alone would lower it by ``tol`` times the unit.
        """
        if len(history) < 3:  # the first iteration trades representation for classification, and they may cancel
            return False
        facts, settings = self.facts, self.settings
        best = np.minimum.accumulate(list(map(attrgetter("objective"), history)))
        n_places = facts.weight * (facts.n_known + 2) / 2
        unit = n_places + settings.classification_weight * float(np.sum(facts.n_labelled + 1))
        return bool((best[-3] - best[-1]) / 2 <= settings.tol * unit)

    def encode(self, state: State) -> tuple[State, dict[str, Any]]:
        """Step 1, discriminative sparse coding, starting from the current codes; return what it did, too."""
        parts, counts = state.parts.map_and_add_up(code_discriminatively, self.settings, state.encoder, state.model)
        return replace(state, parts=parts), dict(zip(_CODING, counts, strict=True))

    def train_classifiers(self, state: State, is_first: bool = False) -> State:
        """Step 2, one linear classifier per class on the codes, starting from the current ones.

        The penalties are those of the priors, or at first codes those for these.
        """
        settings, model = self.settings, state.model
        trainer, start = settings.classifier_trainer, (settings.loss, model.coef, model.intercept)
        penalties = None if is_first else state.priors.ridge
        options: dict[str, Any] = {"penalties": penalties, "n_jobs": settings.n_jobs}
        if trainer.is_additive:
            coef, intercept = trainer.train_on(state.parts, *start, **options)
        else:
            if self.facts.is_weighted:
                raise ValueError(f"{trainer!r} needs all samples at once, and takes no weights: use 'auto'.")
            labels = np.concatenate(state.parts.gather("labels")).astype(self.facts.dtype)
            coef, intercept = trainer.train(state.collect_unknowns().codes, labels, *start, **options)
        return replace(state, model=replace(model, coef=coef, intercept=intercept))

    def refit_classifiers(self, state: State) -> State:
        """Train on label-free codes, as new samples have them; the class costs are then those of such codes."""
        parts = state.parts.map(code_as_new, self.settings, state.encoder)
        return self.update_scales(self.train_classifiers(replace(state, parts=parts)))[0]

    def update_dictionary(self, state: State) -> tuple[State, NDArray[np.intp]]:
        """Step 3, improve the atoms; return which were replaced, too."""
        update = self._update_from_sums if self.settings.dictionary_update.is_additive else self._update_from_samples
        dictionary, parts, replaced = update(state)
        coef = state.model.coef.copy()
        coef[:, replaced] = 0  # the coefficients of a replaced atom mean nothing for the new one
        encoder = state.encoder.with_dictionary(dictionary, self.settings.n_jobs)
        model = replace(state.model, dictionary=dictionary, coef=coef)
        return replace(state, model=model, encoder=encoder, parts=parts), replaced

    def _update_from_samples(self, state: State) -> tuple[Floats, Parts[CodedPart], NDArray[np.intp]]:
        """Pass all samples to the update at once, which is possible only in this process."""
        whole, unknowns, is_weighted = self.training.whole, state.collect_unknowns(), self.facts.is_weighted
        assert whole is not None
        is_same = self.settings.registration is None and whole.is_known is None
        X, codes = whole.X if is_same else np.concatenate(state.parts.gather("samples")), unknowns.codes
        if is_weighted:  # weighted least squares are those of rows times the roots of their weights
            roots = np.sqrt(whole.weights).astype(X.dtype)[:, None]
            X, codes = X * roots, RowCodes(codes.indices, codes.values * roots)
        dictionary, codes, replaced = self.settings.dictionary_update.update(
            X, codes, state.model.dictionary, 1 / unknowns.noise_variance, n_jobs=self.settings.n_jobs
        )
        if is_weighted:
            codes = RowCodes(codes.indices, codes.values / roots)
        return dictionary, state.parts.map(put_unknowns, replace(unknowns, codes=codes)), replaced

    def _update_from_sums(self, state: State) -> tuple[Floats, Parts[CodedPart], NDArray[np.intp]]:
        """Update from sums over the samples, then replace unused atoms."""
        update: Any = self.settings.dictionary_update
        parts, settings, facts = state.parts, self.settings, self.facts
        statistics, unused = self.sum_statistics(state)
        # The matrices here are small: more BLAS threads bring little, and on a busy machine they cost tenfold.
        with single_threaded_blas():
            dictionary = update.update_from(statistics, state.model.dictionary)

        def find(outlier_fraction: float, n_wanted: int) -> WorstSamples:
            errors = parts.map(measure_part_residuals, settings, dictionary)
            rank = rank_of_worst(facts.n_samples, outlier_fraction)
            largest = float(select_ranks(errors, [rank], facts.dtype)[0])
            return parts.add_up(find_worst, settings, dictionary, n_wanted, largest)

        dictionary, replaced = update.replace_unused(dictionary, unused, find)
        return dictionary, parts, replaced

    def sum_statistics(self, state: State) -> tuple[Any, NDArray[np.intp]]:
        """Return the sums for an additive update, and the atoms that no sample uses."""
        n_components, unit = len(state.model.dictionary), state.priors.noise_variance
        statistics, usage = state.parts.add_up(sum_statistics, self.settings, n_components, unit)
        return statistics, np.flatnonzero(usage == 0)

    def update_scales(self, state: State, is_first: bool = False) -> tuple[State, IterationRecord]:
        """Step 4, noise variances and class costs in closed form; and the objective, which needs the same sums.

        Priors are set from the first codes of a fit.
        """
        facts, settings, model = self.facts, self.settings, state.model
        parts, (misfit, costs) = state.parts.map_and_add_up(measure_part, settings, state.encoder, model)
        state, mean_misfit = replace(state, parts=parts), misfit / facts.weight
        if is_first:
            state = replace(state, priors=self._set_priors(state, mean_misfit, costs))
        class_cost = self.estimate_class_cost(state, costs)
        class_terms = sum_class_terms(
            costs, model.coef, class_cost, facts.n_labelled, state.priors, settings.classification_weight
        )
        model, means = replace(model, class_cost=class_cost), (mean_misfit, facts.n_known)
        stride = -(-facts.n_samples // self.n_monitored) if self.n_monitored else 0
        parts, (noise_terms, counts) = parts.map_and_add_up(
            scale_part, settings, state.encoder, model, means, state.priors, stride, is_first
        )
        n_at_floor, n_wrong, n_labelled, n_monitored_wrong, n_monitored = counts
        objective = MapObjective.of(noise_terms, class_terms)
        record = IterationRecord(
            len(state.history),
            objective.total,
            *objective,
            floor_share=n_at_floor / facts.n_samples,
            training_error=divide(n_wrong, n_labelled),
            label_free_error=divide(n_monitored_wrong, n_monitored),
        )
        return replace(state, model=model, parts=parts), record

    def estimate_class_cost(self, state: State, costs: Floats) -> Floats:
        """Return the class costs, given each class's sum of classification costs."""
        return state.priors.estimate_class_cost(costs, state.model.coef, self.facts.n_labelled)

    def _set_priors(self, state: State, mean_misfit: float, costs: Floats) -> Priors:
        """Return the priors for the rest of the fit."""
        facts, settings, parts, model = self.facts, self.settings, state.parts, state.model
        sums = parts.add_up(sum_misfits, find_unit(mean_misfit), facts.n_known)

        def find_median_misfit() -> float:
            return find_median(parts.map(attrgetter("misfits")), facts.n_samples, facts.dtype, sums.eps)

        squared_norms = parts.add_up(methodcaller("summarise", len(model.dictionary))).squared_norms
        return set_priors(settings, sums, find_median_misfit, squared_norms, costs, model.coef, facts.n_labelled)
