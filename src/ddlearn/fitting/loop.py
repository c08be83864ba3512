"""The alternating minimisation (Algorithm 2 of the paper): codes, classifiers, dictionary, scales, and again.

Each step lowers the MAP objective (Eq. 3) in one group of variables and leaves the others alone.  With a monotone
dictionary update and guarded classifier trainers none can raise it; the steps that the paper prints literally can,
and the history shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..codes import RowCodes
from ..coding import SparseCoder, count_stride
from ..dictionary import WorstSamples, draw_dictionary, order_candidates, rank_of_worst
from ..objective import (
    Floors,
    MapObjective,
    estimate_class_cost,
    set_floors,
    sum_class_terms,
)
from ..parallel import Parts, find_median, select_ranks, single_threaded_blas
from . import steps as steps
from .data import (
    Floats,
    RowState,
    TrainingPart,
    TrainingSet,
    get_row_state,
    put_row_state,
)
from .refinement import RefinementProgress
from .steps import FitSettings, StepCounts, Tally

# The error on label-free codes is watched on so many training samples at most: it costs a coding of its own, and a
# standard error of half a per cent, where the error is five per cent, is enough to see the gap.
_N_WATCHED = 2000
# The first atoms are drawn from so many samples, or a few more; of larger classes only every second, third, ... one
# takes part, so that what is known of the candidates fits anywhere.
_MOST_CANDIDATES = 2**20


@dataclass(frozen=True)
class FitState:
    """All unknowns of Eq. 3: those that samples share here, those of each sample in their parts."""

    dictionary: Floats
    coef: Floats
    intercept: Floats
    class_cost: Floats
    parts: Parts[TrainingPart]

    def collect_rows(self) -> RowState:
        """Return the unknowns of all samples; from wherever they are, they come here."""
        return RowState.join(self.parts.collect(get_row_state))

    def put_rows(self, rows: RowState, row_slices: list[slice]) -> FitState:
        """Return a state with these unknowns of the samples."""
        return replace(self, parts=self.parts.map_each(put_row_state, [rows.rows(block) for block in row_slices]))

    @property
    def codes(self) -> RowCodes:
        """The codes of all samples."""
        return self.collect_rows().codes

    @property
    def noise_variance(self) -> Floats:
        """The noise variances of all samples."""
        return self.collect_rows().noise_variance


class IterationRecord(NamedTuple):
    """What one outer iteration did.

    Parameters
    ----------
    iteration : int
        0 for the state before the first iteration.
    objective : float
        The MAP objective, the sum of the next four.
    representation : float
        Misfits (squared residuals, and twice the penalty of the coder if it has one) over twice their variances.
    noise : float
        Logarithms of the variances.
    classification : float
        Classification costs over their scales.
    cost : float
        Logarithms of those scales.
    floor_share : float
        Share of the samples whose noise variance is at its floor.
    n_accepted : int
        Coding steps taken.
    n_rejected : int
        Coding steps undone, since they would have raised a sample's objective.
    training_error : float
        Error on the training samples with the codes that saw their labels.
    label_free_error : float
        Error on (at most 2000) training samples coded as test samples are.  Far above ``training_error``, it shows
        how much the training codes owe to the labels.
    n_replaced : int
        Atoms replaced by samples.
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
    noise: float
    classification: float
    cost: float
    floor_share: float
    n_accepted: int
    n_rejected: int
    training_error: float
    label_free_error: float
    n_replaced: int
    coding_seconds: float
    classifier_seconds: float
    dictionary_seconds: float
    scale_seconds: float


class FitProgress(NamedTuple):
    """Where the loop is, and how it came there: all that it needs to go on, but for the random numbers."""

    state: FitState
    floors: Floors
    history: list[IterationRecord]
    converged: bool = False
    stopped: bool = False  # whether a callback asked to stop

    @property
    def n_iter(self) -> int:
        """Outer iterations done."""
        return len(self.history) - 1

    @property
    def objective(self) -> MapObjective:
        """The terms of the objective at the state."""
        last = self.history[-1]
        return MapObjective(last.representation, last.noise, last.classification, last.cost)


class FinishedLoop(NamedTuple):
    """Where the loop ended, and refinement begins."""

    progress: FitProgress
    rng: np.random.RandomState  # as it was there


class Settled(NamedTuple):
    """A state with scales that suit it, the objective there, and what was counted on the way."""

    state: FitState
    objective: MapObjective
    tally: Tally


class _UpdatedAtoms(NamedTuple):
    """What the dictionary step returns, as :class:`~ddlearn.dictionary.UpdatedDictionary` for samples in parts."""

    dictionary: Floats
    parts: Parts[TrainingPart]
    replaced: NDArray[np.intp]
    atom_scale: Floats


class AlternatingFit:
    """Algorithm 2 on one training set: the four steps, and the loop over them.

    Callbacks get this object when the fit begins.  One that keeps checkpoints sets ``restored`` to where the loop shall
    go on from, puts ``rng`` in the state it had there, and adds to ``keepers`` what is to be told of each iteration.
    The same goes for a refinement that comes after it, with ``restored_refinement`` and ``refinement_keepers``; of
    these, each is told the end of the loop, too, and whether the epoch is the last.
    """

    def __init__(self, training: TrainingSet, settings: FitSettings, rng: np.random.RandomState):
        self.training = training
        self.facts = training.facts
        self.settings = settings
        self.rng = rng
        self.restored: FitProgress | None = None
        self.keepers: list[Callable[[FitProgress], None]] = []
        self.dictionary_sizes: list[Any] = []  # what a search for the number of atoms has tried
        self.restored_refinement: RefinementProgress | None = None
        self.refinement_keepers: list[Callable[[FinishedLoop, RefinementProgress, bool], None]] = []

    def draw_dictionary(self, init: str | ArrayLike, n_components: int) -> Floats:
        """Return the first atoms."""
        facts = self.facts
        batches = self._fetch_candidates(n_components)
        return draw_dictionary(init, batches, n_components, facts.n_features, facts.dtype, self.rng)

    def _fetch_candidates(self, n_at_once: int) -> Iterator[Floats]:
        """Yield samples in the order in which to try them as first atoms."""
        class_index, rows = self._list_candidates()
        order = order_candidates(class_index, self.rng)
        for start in range(0, len(order), n_at_once):
            wanted = rows[order[start : start + n_at_once]]
            samples = np.empty((len(wanted), self.facts.n_features), self.facts.dtype)
            for places, taken in self.training.parts.collect(steps.take_rows, wanted):
                samples[places] = taken
            yield samples

    def _list_candidates(self) -> tuple[NDArray[np.signedinteger], NDArray[np.intp]]:
        """Return the classes and the rows of the samples that may become first atoms."""
        parts, facts = self.training.parts, self.facts
        counts = np.array(parts.collect(steps.count_classes))
        n_of_class = counts.sum(axis=0)
        stride = -(-facts.n_samples // _MOST_CANDIDATES)
        strides = np.where(n_of_class * len(n_of_class) > _MOST_CANDIDATES, stride, 1)
        n_before = np.cumsum(counts, axis=0) - counts
        found = parts.map_each(steps.find_candidates, [(before, strides) for before in n_before])
        candidates = found.collect(steps.get_itself)
        class_index = np.concatenate([each.class_index for each in candidates])
        rows = np.concatenate(
            [block.start + each.rows for block, each in zip(facts.row_slices, candidates, strict=True)]
        )
        return class_index, rows

    def initialise(
        self, dictionary: Floats, coef: Floats | None = None, intercept: Floats | None = None
    ) -> tuple[Settled, Floors]:
        """Code the samples without labels, train classifiers on the codes, and set scales and floors."""
        self.settings = replace(self.settings, sparse_coder=self._adapt_coder(dictionary))
        facts, settings = self.facts, self.settings
        coef = np.zeros((facts.n_classes, len(dictionary)), facts.dtype) if coef is None else coef
        intercept = np.zeros(facts.n_classes, facts.dtype) if intercept is None else intercept
        parts = self.training.parts.map(steps.code_label_free, settings, dictionary)
        if settings.estimate_weight:
            weight = self._estimate_weight(parts, dictionary)
            self.settings = settings = replace(settings, classification_weight=weight, estimate_weight=False)
        state = self.train_classifiers(FitState(dictionary, coef, intercept, np.empty(0), parts))
        state, mean_misfit, costs = self._measure(state)
        floors = set_floors(
            state.parts.map(steps.get_misfits),
            facts.n_samples,
            facts.dtype,
            costs,
            facts.n_labelled,
            facts.n_features,
            noise_floor=settings.noise_floor,
            cost_floor=settings.cost_floor,
        )
        return self._settle(state, floors, mean_misfit, costs), floors

    def _estimate_weight(self, parts: Parts[TrainingPart], dictionary: Floats) -> float:
        """Return how much less the representation tells than white noise would let it.

        Labels move codes, and codes move a sample along atoms.  What residuals have there, relative to their mean over
        all directions, is what the white noise of the model gets wrong.
        """
        facts = self.facts
        stride = -(-facts.n_samples // _N_WATCHED)
        energy, off_atoms, along_atoms = parts.add_up(steps.sum_residual_energy, dictionary, stride)
        if off_atoms <= np.finfo(facts.dtype).eps * energy:
            return 1.0  # samples are atoms, and tell nothing of the noise
        excess = facts.n_features * along_atoms / (len(dictionary) * off_atoms)
        balance = (facts.n_features + 2) / (2 * facts.n_classes)  # where labels and features tell the same
        return float(max(min(excess, balance), 1.0))

    def _adapt_coder(self, dictionary: Floats) -> SparseCoder:
        """Return the coder with the numbers that the samples decide, if there are any."""
        coder, n_samples = self.settings.sparse_coder, self.facts.n_samples
        if getattr(coder, "is_adapted", True):
            return coder
        rows = np.arange(0, n_samples, count_stride(n_samples))
        samples = np.concatenate([taken for _, taken in self.training.parts.collect(steps.take_rows, rows)])
        return coder.adapt(samples, dictionary, self.settings.n_nonzero_coefs)

    def encode(self, state: FitState) -> tuple[FitState, StepCounts]:
        """Discriminative sparse coding, starting from the codes there are."""
        parts, counts = state.parts.map_and_add_up(
            steps.code_discriminatively, self.settings, state.dictionary, state.coef, state.intercept, state.class_cost
        )
        return replace(state, parts=parts), counts

    def train_classifiers(self, state: FitState) -> FitState:
        """One linear classifier per class on the codes, starting from those there are."""
        settings = self.settings
        trainer = settings.classifier_trainer
        start = settings.loss, state.coef, state.intercept
        fit_intercept, n_jobs = settings.fit_intercept, settings.n_jobs
        if trainer.is_additive:
            coef, intercept = trainer.train_on(state.parts, *start, fit_intercept=fit_intercept, n_jobs=n_jobs)
        else:
            labels = np.concatenate(state.parts.collect(steps.get_labels)).astype(self.facts.dtype)
            coef, intercept = trainer.train(state.codes, labels, *start, fit_intercept=fit_intercept, n_jobs=n_jobs)
        return replace(state, coef=coef, intercept=intercept)

    def refit_classifiers(self, state: FitState, floors: Floors) -> FitState:
        """Train on label-free codes, such as new samples have; their costs make the class costs."""
        # Registered from the start, as new samples are.
        parts = state.parts.map(steps.register, self.settings, state.dictionary, None)
        parts = parts.map(steps.code_label_free, self.settings, state.dictionary)
        return self.update_scales(self.train_classifiers(replace(state, parts=parts)), floors).state

    def update_dictionary(self, state: FitState, floors: Floors) -> tuple[FitState, int]:
        """Improve the atoms; return the new state and how many atoms were replaced."""
        is_additive = self.settings.dictionary_update.is_additive
        updated = self._update_from_sums(state, floors) if is_additive else self._update_whole(state)
        coef = state.coef / updated.atom_scale  # scores stay what they were
        coef[:, updated.replaced] = 0  # what a replaced atom said has nothing to do with the new one
        return replace(state, dictionary=updated.dictionary, parts=updated.parts, coef=coef), len(updated.replaced)

    def _update_whole(self, state: FitState) -> _UpdatedAtoms:
        """Give all samples to the update at once, which is possible where they are here."""
        rows = state.collect_rows()
        X = self.collect_samples(state)
        updated = self.settings.dictionary_update.update(
            X, rows.codes, state.dictionary, 1 / rows.noise_variance, n_jobs=self.settings.n_jobs
        )
        new_rows = rows._replace(codes=updated.codes)
        parts = state.put_rows(new_rows, self.facts.row_slices).parts
        return _UpdatedAtoms(updated.dictionary, parts, updated.replaced, updated.atom_scale)

    def _update_from_sums(self, state: FitState, floors: Floors) -> _UpdatedAtoms:
        """Update from sums over the samples; then replace atoms that nobody uses."""
        update = self.settings.dictionary_update
        n_components = len(state.dictionary)
        statistics, usage = state.parts.add_up(steps.sum_statistics, self.settings, n_components, floors.noise_variance)
        # The matrices here are small: more BLAS threads bring little, and on a busy machine they cost tenfold.
        with single_threaded_blas():
            dictionary, atom_scale = update.update_from(statistics, state.dictionary)  # type: ignore[attr-defined]
        parts = state.parts.map(steps.scale_codes, atom_scale) if update.updates_codes else state.parts

        def find_worst(outlier_fraction: float, n_wanted: int) -> WorstSamples:
            errors = parts.map(steps.measure_errors, self.settings, dictionary)
            rank = rank_of_worst(self.facts.n_samples, outlier_fraction)
            largest = float(select_ranks(errors, [rank], self.facts.dtype)[0])
            return parts.add_up(steps.find_worst, self.settings, dictionary, n_wanted, largest)

        dictionary, replaced = update.replace_unused(  # type: ignore[attr-defined]
            dictionary, np.flatnonzero(usage == 0), find_worst
        )
        return _UpdatedAtoms(dictionary, parts, replaced, atom_scale)

    def update_scales(self, state: FitState, floors: Floors) -> Settled:
        """Noise variances and class costs, in closed form; and the objective, which needs the same sums."""
        state, mean_misfit, costs = self._measure(state)
        return self._settle(state, floors, mean_misfit, costs)

    def _settle(self, state: FitState, floors: Floors, mean_misfit: float, costs: Floats) -> Settled:
        """Set the scales from what has been measured."""
        facts = self.facts
        state = replace(state, class_cost=estimate_class_cost(costs, facts.n_labelled, floors.class_cost))
        parts, (noise_terms, tally) = state.parts.map_and_add_up(
            steps.settle_scales,
            self.settings,
            state.dictionary,
            state.coef,
            state.intercept,
            state.class_cost,
            mean_misfit,
            floors.noise_variance,
            -(-facts.n_samples // _N_WATCHED),
        )
        return Settled(replace(state, parts=parts), self._add_terms(noise_terms, state, costs), tally)

    def evaluate(self, state: FitState) -> MapObjective:
        """Return the four terms of Eq. 3."""
        state, _, costs = self._measure(state)
        return self._add_terms(state.parts.add_up(steps.sum_noise), state, costs)

    def _measure(self, state: FitState) -> tuple[FitState, float, Floats]:
        """Measure misfits, which the parts keep; return their mean, and each class's sum of costs."""
        parts, (sum_of_misfits, costs) = state.parts.map_and_add_up(
            steps.measure_part, self.settings, state.dictionary, state.coef, state.intercept
        )
        return replace(state, parts=parts), sum_of_misfits / self.facts.n_samples, costs

    def _add_terms(self, noise_terms: tuple[float, float], state: FitState, costs: Floats) -> MapObjective:
        weight = self.settings.classification_weight
        return MapObjective(*noise_terms, *sum_class_terms(costs, state.class_cost, self.facts.n_labelled, weight))

    def find_median_noise(self, state: FitState) -> float:
        """Return the median of the noise variances."""
        return find_median(state.parts.map(steps.get_noise_variance), self.facts.n_samples, self.facts.dtype)

    def collect_samples(self, state: FitState) -> Floats:
        """Return all samples as they are seen, which must be here."""
        if self.settings.registration is None:
            return self.training.X
        return np.concatenate(state.parts.collect(steps.get_seen))

    def begin(self, settled: Settled, floors: Floors) -> FitProgress:
        """Return the progress before the first iteration."""
        return FitProgress(settled.state, floors, [self._record(0, settled)])

    def run(self, progress: FitProgress, on_iteration: Callable[[FitProgress], bool]) -> FitProgress:
        """Repeat the four steps until the objective settles; ``on_iteration`` may return True to stop."""
        while not self.is_finished(progress):
            progress = self.iterate(progress)
            if on_iteration(progress):
                progress = progress._replace(stopped=True)
            for keep in self.keepers:
                keep(progress)
        return progress

    def is_finished(self, progress: FitProgress) -> bool:
        """Whether there is nothing left to do."""
        return progress.converged or progress.stopped or progress.n_iter >= self.settings.max_iter

    def iterate(self, progress: FitProgress) -> FitProgress:
        """Do the four steps once."""
        start = perf_counter()
        state, coding = self.encode(progress.state)
        coded = perf_counter()
        state = self.train_classifiers(state)
        trained = perf_counter()
        state, n_replaced = self.update_dictionary(state, progress.floors)
        improved = perf_counter()
        settled = self.update_scales(state, progress.floors)
        record = self._record(
            progress.n_iter + 1,
            settled,
            n_accepted=coding.n_accepted,
            n_rejected=coding.n_rejected,
            n_replaced=n_replaced,
            coding_seconds=coded - start,
            classifier_seconds=trained - coded,
            dictionary_seconds=improved - trained,
        )
        record = record._replace(scale_seconds=perf_counter() - improved)
        objective = settled.objective
        change = abs(progress.objective.total - objective.total)
        # The first iteration trades representation for classification, which may cancel by chance.
        converged = progress.n_iter > 0 and change <= self.settings.tol * objective.size
        return FitProgress(settled.state, progress.floors, [*progress.history, record], converged)

    def _record(
        self,
        iteration: int,
        settled: Settled,
        *,
        n_accepted: int = 0,
        n_rejected: int = 0,
        n_replaced: int = 0,
        coding_seconds: float = 0.0,
        classifier_seconds: float = 0.0,
        dictionary_seconds: float = 0.0,
    ) -> IterationRecord:
        objective, tally = settled.objective, settled.tally
        return IterationRecord(
            iteration=iteration,
            objective=objective.total,
            **objective._asdict(),
            floor_share=tally.n_at_floor / self.facts.n_samples,
            n_accepted=n_accepted,
            n_rejected=n_rejected,
            training_error=_divide(tally.n_wrong, tally.n_judged),
            label_free_error=_divide(tally.n_watched_wrong, tally.n_watched),
            n_replaced=n_replaced,
            coding_seconds=coding_seconds,
            classifier_seconds=classifier_seconds,
            dictionary_seconds=dictionary_seconds,
            scale_seconds=0.0,
        )


def _divide(n_wrong: int, n_judged: int) -> float:
    return n_wrong / n_judged if n_judged else float("nan")  # none of the watched samples is labelled
