r"""Settings from the samples: description, penalties on codes and classifiers (:math:`\rho`, :math:`\tau`), cost and K.

Samples are cut into four folds.  For each, or for as many as hold enough samples, atoms are drawn from the other folds,
and codes found for each description and a few strengths of the penalty on codes.  The rest is a convex problem
(``convex``), which is solved for one setting after the other: for each description, from strong to weak penalties on
codes; then, with the best, for smaller and larger :math:`\rho` and :math:`\tau`, as long as that helps.
The first cost of refinement decides the description; the rest is done for each cost, and the best of each is refined,
too, with these :math:`\rho` and :math:`\tau` and with the usual ones, unless it is hopeless.  With each fold, half of
the refined ones drop out.

All are compared by one criterion, the log-loss of the samples that were left out, with the temperature that suits them
best.  Unlike the costs themselves it has the same meaning for each of them, and a single sample far from all others
cannot decide it.  The temperature of the winner is that of the model.  Of large sets trials use only a part, with fewer
atoms than the model will have, and whether to refine is no question: there the cost itself decides what is refined.

With few samples, the best of many settings is best by chance.  Therefore one of them goes first, which is nearly a
logistic regression of standardised features: it is taken unless another is better by two standard errors.

How many atoms, the paper's K (its stated future work, Section 5), is searched for last, if it is open: from small to
large, each size gets a short fit, whose label-free codes of left-out samples are judged by the same criterion.  Since
the samples are new to the model, atoms and classifiers need no price of their own (predictive code length: Dawid 1984,
Rissanen 1986).  The search ends where more atoms do not help, so most of its time goes to sizes near the best.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import clone

from ..coding.coders import SparseCoder
from ..coding.encoder import Encoder
from ..describe.base import Description
from ..dictionary import draw_dictionary
from ..fitting.data import TrainingPart, TrainingSet, collect_classes, describe_part, fetch_candidates
from ..fitting.loop import CodedPart, FitSettings, Loop, code_as_new
from ..model.codes import Floats, Model
from ..parallel import Parts
from .convex import Decays, train_on_codes
from .costs import OneVsAllCost, RefinementCost, measure_worth
from .epochs import Refinement, Task
from .refiner import Refiner, hold_out

RowNumbers = NDArray[np.intp]
Split = tuple[RowNumbers, RowNumbers]  # to learn from, and left out
Init = str | ArrayLike  # the parameter of this name

_SEED = 0
_N_FOLDS = 4
_ENOUGH_HELD_OUT = 500  # samples; of large sets not all folds are needed
_MOST_HELD_OUT = 2000  # in a fold; more would cost time and hardly sharpen the estimate
_FEWEST_HELD_OUT = 10  # with fewer there is no search
_MOST_LEARNED = 1500
_MOST_TRIAL_ATOMS = 500
_FACTOR = 10.0  # between neighbouring decays
_RANGES = {"weight_decay": (3e-4, 30.0), "linear_decay": (1e-2, 1e3)}
_MAX_ROUNDS = 2
_ENOUGH_REFINED = 250  # samples that are left out of trial refinements
_MOST_EPOCHS = 10  # of a trial refinement
# Short fits for K need more samples to rank sizes, at most these.
_MOST_FITTED, _MOST_HELD_OUT_OF_FIT = 15000, 5000
# At most as many atoms as labelled samples, and at most this many, with which a fit takes eight times as long as with
# 500. Smaller sizes are halves of it, down to this many halvings.
_MOST_ATOMS, _MOST_HALVINGS = 2000, 6
# The tolerance of a short fit, a hundred times the default: it ends after two or three iterations.
_SHORT_FIT_TOL = 0.1
# What is told of each trial, with the types of the columns of ``search_``.
COLUMNS: dict[str, type] = {
    "description": str,
    "n_components": int,
    "alpha": float,
    "weight_decay": float,
    "linear_decay": float,
    "cost": str,
    "epochs": int,
    **dict.fromkeys(("mean_cost", "log_loss", "calibration_error", "error", "temperature", "seconds"), float),
}

Row = dict[str, Any]  # of the table of trials, by the names of columns


def tabulate(rows: Sequence[Row]) -> dict[str, NDArray[Any]]:
    """Return the attribute ``search_``: for each column an array."""
    return {name: np.array([row[name] for row in rows], kind) for name, kind in COLUMNS.items()}


class _Setting(NamedTuple):
    """What can be chosen beside K."""

    described: _DescribedFolds
    coder: SparseCoder
    cost: RefinementCost
    weight_decay: float
    linear_decay: float


class Trial(NamedTuple):
    """What was tried, its row of the table, and the criterion for each sample that was left out."""

    choice: Any  # a setting, or a number of atoms
    row: Row
    losses: Floats

    @classmethod
    def of(
        cls,
        choice: Any,
        row: Row,
        cost: RefinementCost,
        scores: Floats,
        left_out: Sequence[TrainingPart],
        *,
        is_multilabel: bool,
        counts_cost: bool = False,
    ) -> Trial:
        """Judge scores of left-out samples by their log-loss, or by the cost itself."""
        labels = np.concatenate([some.labels for some in left_out])
        weights = np.concatenate([some.weights for some in left_out])
        weights = weights / weights.mean()
        worth, costs, log_losses = measure_worth(scores, labels, weights, cost, is_multilabel)
        row = row | worth._asdict() | {"cost": cost.name, "mean_cost": worth.cost}
        return cls(choice, row, weights * (costs if is_multilabel or counts_cost else log_losses))

    def mean_loss(self) -> float:
        """Return the criterion."""
        return float(self.losses.mean())

    def is_clearly_better(self, other: Trial, n_errors: float = 2.0) -> bool:
        """Whether the criterion is lower, by more than so many standard errors of the difference."""
        gain = other.losses - self.losses
        return bool(gain.mean() > n_errors * gain.std() / np.sqrt(len(gain)))

    def of_first(self, n_samples: int) -> Trial:
        """Return the trial as the first samples judge it."""
        return self._replace(losses=self.losses[:n_samples])


def take_best(trials: Iterable[Trial], is_costly: bool = False) -> Trial:
    """Return the best trial of a path, which ends after two no better ones, or if costly after a clearly worse one."""
    best, n_beyond = None, 0
    for trial in trials:
        if best is None or trial.mean_loss() < best.mean_loss():
            best, n_beyond = trial, 0
            continue
        n_beyond += 1
        if n_beyond > 1 or (is_costly and best.is_clearly_better(trial, 1.0)):
            break
    assert best is not None
    return best


class ChosenSettings(NamedTuple):
    """The settings that were chosen, and the rows of all trials, theirs last."""

    description: Description
    sparse_coder: SparseCoder
    refiner: Refiner
    temperature: float | None
    tried: list[Row]


class _Fold(NamedTuple):
    """Described samples to learn from, those that are left out, and the atoms for both."""

    learned: TrainingPart
    left_out: TrainingPart
    dictionary: Floats


class _DescribedFolds:
    """The folds with one description of the samples, and the coders to choose from."""

    def __init__(self, description: Description, folds: list[_Fold], settings: FitSettings):
        self.description = description
        self.folds = folds
        self.settings = settings
        self.squared_unit = float(np.mean([np.mean(np.vecdot(*[fold.learned.X] * 2)) for fold in folds])) or 1.0
        self.coders = settings.sparse_coder.list_candidates(np.sqrt(self.squared_unit))
        self.codes: dict[SparseCoder, list[tuple[csr_array, csr_array]]] = {}

    def encode(self, coder: SparseCoder) -> list[tuple[csr_array, csr_array]]:
        """Return the codes of all folds, found once for a coder: of samples to learn from, and of those left out."""
        if coder not in self.codes:
            self.codes[coder] = [
                (self.code(fold.learned, fold.dictionary, coder), self.code(fold.left_out, fold.dictionary, coder))
                for fold in self.folds
            ]
        return self.codes[coder]

    def code(self, part: TrainingPart, dictionary: Floats, coder: SparseCoder) -> csr_array:
        """Code samples as new ones are, also those with missing features."""
        n_jobs = self.settings.n_jobs
        encoder = Encoder.of(dictionary, coder, self.settings.n_nonzero_coefs, n_jobs)
        return encoder.encode(part.X, part.is_known, n_jobs=n_jobs).to_csr(len(dictionary))


class SettingsSearch:
    """The search on one training set, not yet described, of which the samples of the folds are taken to this process.

    It has random numbers of its own, so that the fit is the same as with these settings given, and a resumed fit finds
    the same.
    """

    def __init__(
        self,
        training: TrainingSet,
        descriptions: Sequence[Description],
        settings: FitSettings,
        refiner: Refiner,
        n_components: int,
        init: str | Callable[[Description], ArrayLike],  # the parameter init for a description
    ):
        splits = _cut_folds(collect_classes(training))
        self.decays = refiner.decay_precisions()  # where the search begins
        self.settings = settings
        self.refiner = refiner
        self.costs = [
            make_cost(settings.loss, np.ones(training.facts.n_classes), settings.classification_weight)
            for make_cost in refiner.list_costs(settings.is_multilabel)
        ]
        n_labelled = training.facts.n_with_label
        self.atoms_per_sample = n_components / n_labelled
        self.sees_all = bool(splits) and sum(map(len, splits[0])) == n_labelled
        self.described: list[_DescribedFolds] = []
        if splits:
            used = np.unique(np.concatenate([some for split in splits for some in split]))
            splits = [(np.searchsorted(used, learned), np.searchsorted(used, left_out)) for learned, left_out in splits]
            whole = training.take_rows(used)
            self.described = [self._describe(whole, splits, each, n_components, init) for each in descriptions]
        self.tried: dict[_Setting, Trial] = {}
        self.refined: list[Trial] = []

    def run(self, on_trial: Callable[[Row], None] | None = None) -> ChosenSettings | None:
        """Try settings until none near the best is better; without enough samples there are none."""
        if not self.described:
            return None
        self.on_trial = on_trial
        first = min((self._choose_coder(described, self.costs[0]) for described in self.described), key=self._measure)
        others = [self._choose_coder(first.described, cost) for cost in self.costs[1:]]
        best = self._decide([(setting, self._improve(setting)) for setting in (first, *others)])
        refiner = clone(self.refiner).set_params(
            epochs=best.row["epochs"] if self.refiner.epochs is None else self.refiner.epochs,
            weight_decay=best.choice.weight_decay,
            linear_decay=best.choice.linear_decay,
            cost=best.row["cost"],
        )
        rows = [trial.row for trial in (*self.tried.values(), *self.refined)]
        return ChosenSettings(
            best.choice.described.description,
            best.choice.coder,
            refiner,
            None if self.settings.is_multilabel else best.row["temperature"],
            [*(row for row in rows if row is not best.row), best.row],
        )

    def _choose_coder(self, described: _DescribedFolds, cost: RefinementCost) -> _Setting:
        """Return the best penalty on codes for a description, from strong to weak, with which codes need more time."""
        return take_best(self._try(_Setting(described, coder, cost, *self.decays)) for coder in described.coders).choice

    def _improve(self, best: _Setting) -> _Setting:
        """Return the best setting that smaller and larger decays lead to."""
        open_names = [name for name in _RANGES if getattr(self.refiner, name) is None]
        for _ in range(_MAX_ROUNDS):
            before = best
            for name in open_names:
                best = self._move(best, name)
            if best == before:
                break
        return best

    def _move(self, setting: _Setting, name: str) -> _Setting:
        """Return the setting with a smaller or larger decay, as long as that lowers the cost."""
        smallest, largest = _RANGES[name]
        for factor in (1 / _FACTOR, _FACTOR):
            # Rounded, so that the way back leads to what has been tried.
            while smallest <= (moved := float(f"{getattr(setting, name) * factor:.6g}")) <= largest:
                changed: dict[str, Any] = {name: moved}
                neighbour = setting._replace(**changed)
                if self._measure(neighbour) >= self._measure(setting):
                    break
                setting = neighbour
        return setting

    def _measure(self, setting: _Setting) -> float:
        """Return the criterion for a setting without refinement."""
        return self._try(setting).mean_loss()

    def _try(self, setting: _Setting) -> Trial:
        """Train with a setting, without one of the folds after the other."""
        if setting not in self.tried:
            start, folds = perf_counter(), setting.described.folds
            codes = setting.described.encode(setting.coder)
            scores = [self._score(*pair, setting) for pair in zip(folds, codes, strict=True)]
            self.tried[setting] = self._judge(setting, folds, scores, 0, perf_counter() - start)
            if self.on_trial is not None:
                self.on_trial(self.tried[setting].row)
        return self.tried[setting]

    def _decide(self, finalists: list[tuple[_Setting, _Setting]]) -> Trial:
        """Return the best trial, given for each cost the setting with the usual decays and the one with the best.

        Trials that learn from a part of the samples cannot show what refinement gains from all of them: there the first
        cost must be clearly worse to lose.
        """
        unrefined = [self._try(best) for _, best in finalists]
        leader = min(unrefined, key=Trial.mean_loss)
        is_hopeless = [self.sees_all and leader.is_clearly_better(trial) for trial in unrefined]
        hopeful = [pair for pair, skips in zip(finalists, is_hopeless, strict=True) if not skips]
        if self.sees_all:
            best = self._refine([setting for pair in hopeful for setting in pair])
        else:
            best, *others = map(self._refine, hopeful)
            for other in others:
                best = other if other.is_clearly_better(best, 1.0) else best
        if self.refiner.epochs is not None or not self.sees_all:
            return best
        n_judged = len(best.losses)
        linear = self._try(self._make_linear()).of_first(n_judged)
        best = min([best, *(trial.of_first(n_judged) for trial in unrefined)], key=Trial.mean_loss)
        return best if best.is_clearly_better(linear) else linear

    def _make_linear(self) -> _Setting:
        """Return what is nearest to logistic regression: hardly penalised codes of standardised features."""
        standard = (folds for folds in self.described if "deviation" in folds.description.learned)
        described = next(standard, self.described[0])
        own, linear = self.decays
        if self.refiner.weight_decay is None:
            own = _RANGES["weight_decay"][1]
        return _Setting(described, described.coders[-1], self.costs[-1], own, linear)

    def _refine(self, settings: Sequence[_Setting]) -> Trial:
        """Refine with settings, and return the best trial.

        This is successive halving over some of the folds: only the better half of the settings goes on to the next.
        """
        folds = settings[0].described.folds
        folds = folds[: -(-_ENOUGH_REFINED // len(folds[0].left_out))]
        epochs = min(self.refiner.count_epochs(), _MOST_EPOCHS)
        scores: dict[_Setting, list[Floats]] = {setting: [] for setting in settings}
        seconds, left, trials = dict.fromkeys(scores, 0.0), list(scores), []
        for n_seen, fold in enumerate(folds, 1):
            for setting in left:
                start = perf_counter()
                scores[setting].append(self._score_refined(fold, setting, epochs))
                seconds[setting] += perf_counter() - start
            judged = (self._judge(key, folds[:n_seen], scores[key], epochs, seconds[key]) for key in left)
            trials = sorted(judged, key=Trial.mean_loss)
            n_left = -(-len(left) // 2) if n_seen < len(folds) else 0
            for trial in trials[n_left:]:
                self.refined.append(trial)
                if self.on_trial is not None:
                    self.on_trial(trial.row)
            left = [trial.choice for trial in trials[:n_left]]
        return trials[0]

    def _judge(
        self, setting: _Setting, folds: Sequence[_Fold], scores: Sequence[Floats], epochs: int, seconds: float
    ) -> Trial:
        """Judge the scores of the samples that are left out of some folds."""
        row = {
            "description": type(setting.described.description).__name__,
            "n_components": len(folds[0].dictionary),
            "alpha": getattr(setting.coder, "alpha", np.nan),
            "weight_decay": setting.weight_decay,
            "linear_decay": setting.linear_decay,
            "epochs": epochs,
            "seconds": seconds,
        }
        return Trial.of(
            setting,
            row,
            setting.cost,
            np.concatenate(scores),
            [fold.left_out for fold in folds],
            is_multilabel=self.settings.is_multilabel,
            counts_cost=not (epochs or self.sees_all),
        )

    def _score(self, fold: _Fold, codes: tuple[csr_array, csr_array], setting: _Setting) -> Floats:
        """Learn from a fold, and return the scores of the samples that are left out."""
        decays = Decays.of(setting[-2:], setting.described.squared_unit, *fold.learned.X.shape)
        fit_intercept, learned = self.settings.fit_intercept, fold.learned
        arrays: Any = codes[0], learned.labels, fold.dictionary, setting.cost, decays, fit_intercept, learned.weights
        model = train_on_codes(*arrays)
        return codes[1] @ model.coef_by_atom + model.intercept

    def _score_refined(self, fold: _Fold, setting: _Setting, epochs: int) -> Floats:
        """Learn from a fold and refine, and return the scores of the samples that are left out."""
        decays = {"weight_decay": setting.weight_decay, "linear_decay": setting.linear_decay}
        settings, described = self.settings, setting.described
        encoder = Encoder.of(fold.dictionary, setting.coder, settings.n_nonzero_coefs, settings.n_jobs)
        refinement = Refinement(
            clone(self.refiner).set_params(epochs=epochs, **decays),
            Task(encoder, setting.cost, settings.n_jobs, settings.is_multilabel),
            Parts([fold.learned]),
            fit_intercept=settings.fit_intercept,
        )
        model = refinement.run(refinement.start(fold.dictionary, _SEED)).best
        return described.code(fold.left_out, model.dictionary, setting.coder) @ model.coef_by_atom + model.intercept

    def _describe(
        self,
        whole: TrainingPart,
        splits: Sequence[Split],
        description: Description,
        n_components: int,
        init: str | Callable[[Description], ArrayLike],
    ) -> _DescribedFolds:
        """Return the folds with described samples, and a dictionary drawn from those to learn from."""
        rng, folds = np.random.RandomState(_SEED), []
        for rows, others in splits:
            learned, left_out = whole.take(rows), whole.take(others)
            fitted = description.learn(Parts([learned]))
            learned, left_out = describe_part(learned, fitted), describe_part(left_out, fitted)
            atoms: Init
            if isinstance(init, str):
                atoms = init
                n_atoms = max(1, min(round(self.atoms_per_sample * len(learned)), _MOST_TRIAL_ATOMS))
            else:
                atoms, n_atoms = init(fitted), n_components
            dictionary = _draw_atoms(TrainingSet.of_arrays(learned.X, learned.labels), atoms, n_atoms, rng)
            folds.append(_Fold(learned, left_out, dictionary))
        return _DescribedFolds(description, folds, self.settings)


def _cut_folds(class_index: RowNumbers) -> list[Split]:
    """Return the folds to try settings on, with the classes in proportion, if there are enough samples."""
    n_labelled = int(np.count_nonzero(class_index >= 0))
    n_folds = min(_N_FOLDS, -(-_ENOUGH_HELD_OUT * _N_FOLDS // max(n_labelled, 1)))
    learned, left_out = zip(*[hold_out(class_index, 1 / _N_FOLDS, fold) for fold in range(n_folds)], strict=True)
    if sum(map(len, left_out)) < _FEWEST_HELD_OUT:
        return []
    return [(rows[:_MOST_LEARNED], others[:_MOST_HELD_OUT]) for rows, others in zip(learned, left_out, strict=True)]


def _draw_atoms(training: TrainingSet, init: Init, n_atoms: int, rng: np.random.RandomState) -> Floats:
    facts, batches = training.facts, fetch_candidates(training, n_atoms, rng)
    return draw_dictionary(init, batches, n_atoms, facts.n_features, facts.dtype, rng)


# -- K -----------------------------------------------------------------------------------------------------------------


def choose_size(
    training: TrainingSet, settings: FitSettings, init: Init, on_trial: Callable[[Row], None] | None = None
) -> tuple[int, list[Row]] | None:
    """Return the number of atoms, and the rows of all that were tried, its own last; None without enough samples.

    The set is in this process and described.  The random numbers are those of the search for settings.
    """
    class_index = collect_classes(training)
    learned, left_out = hold_out(class_index, 1 / _N_FOLDS, _N_FOLDS - 1)
    if len(left_out) < _FEWEST_HELD_OUT:
        return None
    learned = np.append(learned, np.flatnonzero(class_index < 0))  # the dictionary learns from unlabelled ones, too
    sets = training.take(np.sort(learned[:_MOST_FITTED])), training.take(np.sort(left_out[:_MOST_HELD_OUT_OF_FIT]))
    settings = replace(settings, tol=max(settings.tol, _SHORT_FIT_TOL))
    tried: list[Trial] = []

    def try_size(n_components: int) -> Trial:
        tried.append(_try_size(n_components, *sets, settings, init))
        if on_trial is not None:
            on_trial(tried[-1].row)
        return tried[-1]

    best = take_best(map(try_size, _list_sizes(training, settings)), is_costly=True)
    return best.choice, [*(trial.row for trial in tried if trial is not best), best.row]


def _list_sizes(training: TrainingSet, settings: FitSettings) -> list[int]:
    """Return sizes from small to large."""
    # For a coder with a penalty, n_nonzero_coefs is only room in memory.
    budget = 1 if settings.sparse_coder.has_penalty else settings.n_nonzero_coefs
    smallest = max(budget, training.facts.n_classes)
    largest = max(min(training.facts.n_with_label, _MOST_ATOMS), smallest)
    sizes = [largest >> n_halvings for n_halvings in range(_MOST_HALVINGS, -1, -1)]
    return [size for size in sizes if size >= smallest]


def _try_size(
    n_components: int, learned: TrainingSet, left_out: TrainingSet, settings: FitSettings, init: Init
) -> Trial:
    """Run a short fit, and judge it on the samples that are left out."""
    start = perf_counter()
    # The same random numbers for all: smaller dictionaries begin with atoms of larger ones.
    n_atoms = min(n_components, learned.facts.n_samples)
    dictionary = _draw_atoms(learned, init, n_atoms, np.random.RandomState(_SEED))
    loop = Loop(learned, settings)
    state = loop.refit_classifiers(loop.run(loop.start(dictionary)))
    parts = left_out.parts.map(code_as_new, settings, state.encoder)
    row = {
        "description": type(learned.description).__name__,
        "n_components": n_components,
        "alpha": getattr(state.encoder.sparse_coder, "alpha", np.nan),
        "weight_decay": np.nan,
        "linear_decay": np.nan,
        "epochs": 0,
        "seconds": perf_counter() - start,
    }
    cost = OneVsAllCost(settings.loss, state.model.class_cost, settings.classification_weight)
    scores = np.concatenate(parts.collect(_compute_scores, state.model))
    trial = Trial.of(n_components, row, cost, scores, left_out.parts.gather(), is_multilabel=settings.is_multilabel)
    return trial._replace(row=trial.row | {"temperature": np.nan})  # of this fit, not of the model


def _compute_scores(part: CodedPart, model: Model) -> Floats:
    return model.scores(part.codes)
