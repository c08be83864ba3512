"""The alternating minimisation (Algorithm 2 of the paper): codes, classifiers, dictionary, scales, and again.

Each step lowers the MAP objective (Eq. 3) in one group of variables and leaves the others alone.  With a monotone
dictionary update and guarded classifier trainers none can raise it; the steps that the paper prints literally can,
and the history shows it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .alignment import Registration
from .classifiers import ClassifierTrainer
from .codes import RowCodes
from .dictionary import DictionaryUpdate
from .discriminative_coding import ClassifierState, CodingRecord, DiscriminativeCoder
from .inference import compute_evidence, count_errors
from .losses import Loss
from .masked_coding import MaskedCoder
from .noisy_coding import NoisyCoder
from .objective import (
    NOISE_MODELS,
    Floors,
    MapObjective,
    compute_scores,
    estimate_class_cost,
    evaluate_objective,
    measure_residuals,
    set_floors,
    sum_costs,
)
from .sparse_coding import SparseCoder, encode_rows

Floats = NDArray[np.floating]

# The error on label-free codes is watched on so many training samples at most: it costs a coding of its own, and a
# standard error of half a per cent, where the error is five per cent, is enough to see the gap.
_N_WATCHED = 2000


@dataclass(frozen=True)
class FitSettings:
    """How to fit; all of it checked and resolved."""

    loss: Loss
    sparse_coder: SparseCoder
    dictionary_update: DictionaryUpdate
    classifier_trainer: ClassifierTrainer
    noise: str
    n_nonzero_coefs: int
    fit_intercept: bool
    is_multilabel: bool
    max_iter: int
    tol: float
    max_coding_iter: int
    coding_tol: float
    noise_floor: float
    cost_floor: float
    classification_weight: float
    n_jobs: int | None
    registration: Registration | None = None  # of training samples


@dataclass(frozen=True)
class FitState:
    """All unknowns of Eq. 3."""

    dictionary: Floats
    codes: RowCodes
    coef: Floats
    intercept: Floats
    noise_variance: Floats
    class_cost: Floats
    positions: Floats | None = None  # parameters of the maps through which the samples are seen


class IterationRecord(NamedTuple):
    """What one outer iteration did.

    Parameters
    ----------
    iteration : int
        0 for the state before the first iteration.
    objective : float
        The MAP objective, the sum of the next four.
    representation : float
        Squared residuals over twice their variances.
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


class _Misfit(NamedTuple):
    """The sums that scales and objective are made of."""

    residuals: Floats  # (n_samples,) squared
    costs: Floats  # (n_classes,)


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


class AlternatingFit:
    """Algorithm 2 on one training set: the four steps, and the loop over them.

    Callbacks get this object when the fit begins.  One that keeps checkpoints sets ``restored`` to where the loop shall
    go on from, puts ``rng`` in the state it had there, and adds to ``keepers`` what is to be told of each iteration.
    """

    def __init__(self, X: Floats, labels: Floats, settings: FitSettings, rng: np.random.RandomState):
        self.images = X  # as they came; X is what is seen of them when they are registered
        self.X = X
        self.labels = labels
        self.settings = settings
        self.rng = rng
        self.restored: FitProgress | None = None
        self.keepers: list[Callable[[FitProgress], None]] = []
        self.watched = slice(None, None, -(-len(X) // _N_WATCHED))  # a view: to draw samples would copy them

    def initialise(
        self, dictionary: Floats, coef: Floats | None = None, intercept: Floats | None = None
    ) -> tuple[FitState, Floors, MapObjective]:
        """Code the samples without labels, train classifiers on the codes, and set scales and floors."""
        X, labels, settings = self.X, self.labels, self.settings
        n_classes = labels.shape[1]
        coef = np.zeros((n_classes, len(dictionary)), X.dtype) if coef is None else coef
        intercept = np.zeros(n_classes, X.dtype) if intercept is None else intercept
        codes = encode_rows(X, dictionary, settings.sparse_coder, settings.n_nonzero_coefs, n_jobs=settings.n_jobs)
        state = FitState(dictionary, codes, coef, intercept, np.empty(0), np.empty(0))
        state = self.train_classifiers(state)
        floors = set_floors(
            *self._measure(state),
            labels,
            X.shape[1],
            noise_floor=settings.noise_floor,
            cost_floor=settings.cost_floor,
        )
        state, objective = self.update_scales(state, floors)
        return state, floors, objective

    def align(self, state: FitState) -> FitState:
        """One more round of registration of the samples, where that is asked for; ``X`` is what is seen then."""
        if self.settings.registration is None:
            return state
        return replace(state, positions=self._register(self.settings.registration, state, state.positions, n_rounds=1))

    def _register(
        self, registration: Registration, state: FitState, positions: Floats | None, n_rounds: int | None
    ) -> Floats:
        """Register the samples from given positions on; return where they are then."""
        settings = self.settings
        coder = MaskedCoder(state.dictionary, settings.sparse_coder, settings.n_nonzero_coefs, settings.n_jobs)
        self.X, positions = registration.register_all(
            self.images, NoisyCoder(coder), positions, n_rounds, settings.n_jobs
        )
        return positions

    def encode(self, state: FitState) -> tuple[FitState, CodingRecord]:
        """Discriminative sparse coding, starting from the codes there are."""
        settings = self.settings
        class_cost = (state.class_cost / settings.classification_weight).astype(self.X.dtype)
        coder = DiscriminativeCoder(
            state.dictionary,
            ClassifierState(state.coef, state.intercept, class_cost, settings.loss),
            settings.sparse_coder,
            settings.n_nonzero_coefs,
            settings.max_coding_iter,
            settings.coding_tol,
            settings.n_jobs,
        )
        codes, record = coder.encode(self.X, self.labels, state.noise_variance, state.codes)
        return replace(state, codes=codes), record

    def train_classifiers(self, state: FitState) -> FitState:
        """One linear classifier per class on the codes, starting from those there are."""
        coef, intercept = self.settings.classifier_trainer.train(
            state.codes,
            self.labels,
            self.settings.loss,
            state.coef,
            state.intercept,
            fit_intercept=self.settings.fit_intercept,
            n_jobs=self.settings.n_jobs,
        )
        return replace(state, coef=coef, intercept=intercept)

    def refit_classifiers(self, state: FitState, floors: Floors) -> FitState:
        """Train on label-free codes, such as new samples have; their costs make the class costs."""
        settings = self.settings
        if settings.registration is not None:  # from the start, as new samples are
            self._register(settings.registration, state, positions=None, n_rounds=None)
        codes = encode_rows(
            self.X, state.dictionary, settings.sparse_coder, settings.n_nonzero_coefs, n_jobs=settings.n_jobs
        )
        state = self.train_classifiers(replace(state, codes=codes))
        return self.update_scales(state, floors)[0]

    def update_dictionary(self, state: FitState) -> tuple[FitState, int]:
        """Improve the atoms; return the new state and how many atoms were replaced."""
        updated = self.settings.dictionary_update.update(
            self.X, state.codes, state.dictionary, 1 / state.noise_variance, self.rng, n_jobs=self.settings.n_jobs
        )
        coef = state.coef / updated.atom_scale  # scores stay what they were
        coef[:, updated.replaced] = 0  # what a replaced atom said has nothing to do with the new one
        new_state = replace(state, dictionary=updated.dictionary, codes=updated.codes, coef=coef)
        return new_state, len(updated.replaced)

    def update_scales(self, state: FitState, floors: Floors) -> tuple[FitState, MapObjective]:
        """Noise variances and class costs, in closed form; and the objective, which needs the same sums."""
        misfit = self._measure(state)
        state = replace(
            state,
            noise_variance=NOISE_MODELS[self.settings.noise](misfit.residuals, self.X.shape[1], floors.noise_variance),
            class_cost=estimate_class_cost(misfit.costs, self.labels, floors.class_cost),
        )
        return state, self._evaluate(state, misfit)

    def evaluate(self, state: FitState) -> MapObjective:
        """Return the four terms of Eq. 3."""
        return self._evaluate(state, self._measure(state))

    def _measure(self, state: FitState) -> _Misfit:
        scores = compute_scores(state.codes, state.coef, state.intercept)
        return _Misfit(
            measure_residuals(self.X, state.codes, state.dictionary, self.settings.n_jobs),
            sum_costs(self.labels, scores, self.settings.loss),
        )

    def _evaluate(self, state: FitState, misfit: _Misfit) -> MapObjective:
        return evaluate_objective(
            misfit.residuals,
            state.noise_variance,
            misfit.costs,
            state.class_cost,
            self.labels,
            self.X.shape[1],
            self.settings.classification_weight,
        )

    def training_error(self, state: FitState) -> float:
        """Return the error with the codes that saw the labels."""
        return self._error(state, state.codes, self.labels)

    def label_free_error(self, state: FitState) -> float:
        """Return the error of the watched samples when they are coded as test samples are."""
        settings = self.settings
        codes = encode_rows(
            self.X[self.watched],
            state.dictionary,
            settings.sparse_coder,
            settings.n_nonzero_coefs,
            n_jobs=settings.n_jobs,
        )
        return self._error(state, codes, self.labels[self.watched])

    def _error(self, state: FitState, codes: RowCodes, labels: Floats) -> float:
        if not labels.any():
            return float("nan")  # none of the watched samples is labelled
        scores = compute_scores(codes, state.coef, state.intercept)
        evidence = compute_evidence(scores, self.settings.loss, state.class_cost)
        return count_errors(labels, evidence, self.settings.is_multilabel)

    def begin(self, state: FitState, floors: Floors, objective: MapObjective) -> FitProgress:
        """Return the progress before the first iteration."""
        return FitProgress(state, floors, [self._record(0, state, floors, objective)])

    def run(self, progress: FitProgress, on_iteration: Callable[[FitProgress], bool]) -> FitProgress:
        """Repeat the four steps until the objective settles; ``on_iteration`` may return True to stop."""
        while not (progress.converged or progress.stopped) and progress.n_iter < self.settings.max_iter:
            progress = self.iterate(progress)
            if on_iteration(progress):
                progress = progress._replace(stopped=True)
            for keep in self.keepers:
                keep(progress)
        return progress

    def iterate(self, progress: FitProgress) -> FitProgress:
        """Do the four steps once."""
        start = perf_counter()
        state, coding = self.encode(self.align(progress.state))
        coded = perf_counter()
        state = self.train_classifiers(state)
        trained = perf_counter()
        state, n_replaced = self.update_dictionary(state)
        improved = perf_counter()
        state, objective = self.update_scales(state, progress.floors)
        record = self._record(
            progress.n_iter + 1,
            state,
            progress.floors,
            objective,
            n_accepted=coding.n_accepted,
            n_rejected=coding.n_rejected,
            n_replaced=n_replaced,
            coding_seconds=coded - start,
            classifier_seconds=trained - coded,
            dictionary_seconds=improved - trained,
        )
        record = record._replace(scale_seconds=perf_counter() - improved)
        change = abs(progress.objective.total - objective.total)
        # The first iteration trades representation for classification, which may cancel by chance.
        converged = progress.n_iter > 0 and change <= self.settings.tol * objective.size
        return FitProgress(state, progress.floors, [*progress.history, record], converged)

    def _record(
        self,
        iteration: int,
        state: FitState,
        floors: Floors,
        objective: MapObjective,
        *,
        n_accepted: int = 0,
        n_rejected: int = 0,
        n_replaced: int = 0,
        coding_seconds: float = 0.0,
        classifier_seconds: float = 0.0,
        dictionary_seconds: float = 0.0,
    ) -> IterationRecord:
        at_floor = state.noise_variance <= state.noise_variance.dtype.type(floors.noise_variance)
        return IterationRecord(
            iteration=iteration,
            objective=objective.total,
            **objective._asdict(),
            floor_share=float(np.mean(at_floor)),
            n_accepted=n_accepted,
            n_rejected=n_rejected,
            training_error=self.training_error(state),
            label_free_error=self.label_free_error(state),
            n_replaced=n_replaced,
            coding_seconds=coding_seconds,
            classifier_seconds=classifier_seconds,
            dictionary_seconds=dictionary_seconds,
            scale_seconds=0.0,
        )
