r"""Settings from the samples: description, penalties on codes and classifiers (:math:`\rho`, :math:`\tau`) and cost.

Samples are cut into four folds.  For each, or for as many as hold enough samples, atoms are drawn from the other folds,
and codes found for each description and a few strengths of the penalty on codes.  The rest is a convex problem
(``convex``), which is solved for one setting after the other: for each description, from strong to weak penalties on
codes; then, with the best, for smaller and larger :math:`\rho` and :math:`\tau`, as long as that helps.
The first cost of refinement decides the description; the rest is done for each cost, and the best of each is refined,
too, with these :math:`\rho` and :math:`\tau` and with the usual ones, unless it is hopeless.  With each fold, half of
the refined ones drop out.

All are compared by one criterion, the log-loss of the samples that were left out, with the temperature that suits them
best.  Unlike the costs themselves it has the same meaning for each of them, and a single sample far from all others
cannot decide it.  The temperature of the winner is that of the model.  Of large sets trials see only a part, with fewer
atoms than the model will have, and whether to refine is no question: there the cost itself decides what is refined.

With few samples, the best of many settings is best by chance.  Therefore one of them goes first, which is nearly a
logistic regression of standardised features: it is taken unless another is better by two standard errors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import clone

from ..coding.coders import SparseCoder
from ..coding.encoder import Encoder
from ..describe.base import Description
from ..describe.missing import describe_and_fill
from ..dictionary import draw_dictionary
from ..fitting.data import TrainingSet, collect_classes, fetch_candidates
from ..fitting.loop import FitSettings
from ..model.codes import Flags, Floats
from ..model.measures import count_errors, find_temperature, measure_calibration_error, measure_log_loss
from .backward import TaskGradient
from .convex import Decays, train_on_codes
from .costs import SoftmaxCost
from .epochs import Refinement
from .refiner import Refiner

_SEED = 0
_N_FOLDS = 4
_ENOUGH_HELD_OUT = 500  # samples; of large sets not all folds are needed
_MOST_HELD_OUT = 2000  # in a fold; more cost less time than they tell
_FEWEST_HELD_OUT = 10  # with fewer there is no search
_MOST_LEARNED = 1500
_MOST_ATOMS = 500
_FACTOR = 10.0  # between neighbouring decays
_RANGES = {"weight_decay": (3e-4, 30.0), "linear_decay": (1e-2, 1e3)}
_MAX_ROUNDS = 2
_ENOUGH_REFINED = 250  # samples that are left out of trial refinements
_MOST_EPOCHS = 10  # of a trial refinement


class SearchRecord(NamedTuple):
    """What one setting costs held-out samples.

    Parameters
    ----------
    is_standardised : bool
        Whether features were standardised; otherwise samples had unit norm, or the description that was given.
    alpha : float
        Strength of the penalty on codes; NaN for coders without one.
    weight_decay : float
        Penalty on what atoms say by themselves.
    linear_decay : float
        Penalty on the linear classifier that atoms have in common.
    is_softmax : bool
        Whether cross-entropy was lowered; otherwise the loss of the model for each class.
    epochs : int
        For how many epochs dictionary and classifiers were refined.
    cost : float
        Mean cost of a held-out sample, by which settings are compared for multilabel targets.
    log_loss : float
        Mean negative logarithm of the probability of a held-out label, by which settings are compared otherwise.
    calibration_error : float
        Expected difference between the probability of a prediction and how often it is right.
    error : float
        Share of the held-out samples that were misclassified.
    temperature : float
        By what evidence is divided for the likeliest probabilities of the held-out samples.  For multilabel targets
        this, the log-loss and the calibration error are NaN.
    seconds : float
        Duration.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ddlearn import DDLClassifier
    >>> model = DDLClassifier(sparse_coder="elastic_net", refine=1, random_state=0).fit(*load_iris(return_X_y=True))
    >>> model.search_[-1].alpha == model.sparse_coder_.alpha
    True
    """

    is_standardised: bool
    alpha: float
    weight_decay: float
    linear_decay: float
    is_softmax: bool
    epochs: int
    cost: float
    log_loss: float
    calibration_error: float
    error: float
    temperature: float
    seconds: float


class _Setting(NamedTuple):
    """What can be chosen; view, coder and cost are places in lists."""

    view: int
    coder: int
    cost: int
    weight_decay: float
    linear_decay: float


class _Trial(NamedTuple):
    """A setting that was tried, and the criterion for each sample that was left out."""

    setting: _Setting
    record: SearchRecord
    losses: Floats

    def mean_loss(self) -> float:
        """Return the criterion."""
        return float(self.losses.mean())

    def is_clearly_better(self, other: _Trial, n_errors: float = 2.0) -> bool:
        """Whether the criterion is lower, by more than so many standard errors of the difference."""
        gain = other.losses - self.losses
        return bool(gain.mean() > n_errors * gain.std() / np.sqrt(len(gain)))

    def of_first(self, n_samples: int) -> _Trial:
        """Return the trial as the first samples judge it."""
        return self._replace(losses=self.losses[:n_samples])


class _Fold(NamedTuple):
    """Samples to learn from, those that are left out, and the atoms for both."""

    X: Floats
    labels: Floats
    X_left_out: Floats
    labels_left_out: Floats
    dictionary: Floats
    is_known: Flags | None  # which features are; None if all are
    is_known_left_out: Flags | None
    weights: NDArray[np.float64]
    weights_left_out: NDArray[np.float64]


class _Coded(NamedTuple):
    """The codes of a fold."""

    learned: csr_array
    left_out: csr_array


class _View(NamedTuple):
    """The samples as one description shows them."""

    description: Description
    folds: list[_Fold]
    squared_unit: float
    coders: list[SparseCoder]


class SettingsSearch:
    """The search on one training set, not yet scaled, of which the samples of the folds are taken to this process.

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
        draw_init: Callable[[Description], str | ArrayLike],  # the parameter init for a description
    ):
        self.settings = settings
        self.refiner = refiner
        self.costs = [
            make_cost(settings.loss, np.ones(training.facts.n_classes), settings.classification_weight)
            for make_cost in refiner.list_costs(settings.is_multilabel)
        ]
        n_labelled = training.facts.n_with_label
        self.atoms_per_sample = n_components / n_labelled
        rows = list(_cut(collect_classes(training)))
        self.sees_all = bool(rows) and sum(map(len, rows[0])) == n_labelled
        if rows:
            used = np.unique(np.concatenate([some for fold in rows for some in fold]))
            training = training.take(used)
            rows = [_Rows(*(np.searchsorted(used, some) for some in fold)) for fold in rows]
        self.views = [
            self._describe(training, rows, description, n_components, draw_init) for description in descriptions if rows
        ]
        self.tried: dict[_Setting, _Trial] = {}
        self.refined: list[_Trial] = []
        self.coded: dict[tuple[int, int], list[_Coded]] = {}  # by view and coder

    def run(self, on_trial: Callable[[SearchRecord], None] = lambda record: None) -> Found | None:
        """Try settings until none near the best is better; without enough samples there are none."""
        if not self.views:
            return None
        self.on_trial = on_trial
        first = min((self._follow_path(position, 0) for position in range(len(self.views))), key=self._measure)
        others = [self._follow_path(first.view, cost) for cost in range(1, len(self.costs))]
        best = self._decide([(setting, self._improve(setting)) for setting in (first, *others)])
        refiner = clone(self.refiner).set_params(
            epochs=best.record.epochs if self.refiner.epochs is None else self.refiner.epochs,
            weight_decay=best.record.weight_decay,
            linear_decay=best.record.linear_decay,
            cost=self.costs[best.setting.cost].name,
        )
        records = [trial.record for trial in (*self.tried.values(), *self.refined)]
        return Found(
            self.views[best.setting.view].description,
            self.views[best.setting.view].coders[best.setting.coder],
            refiner,
            None if self.settings.is_multilabel else best.record.temperature,
            [*(record for record in records if record is not best.record), best.record],
        )

    def _follow_path(self, view: int, cost: int) -> _Setting:
        """Return the best penalty on codes for a description, from strong to weak, with which codes need more time."""
        best = _Setting(view, 0, cost, *self.refiner.decay_precisions())
        for coder in range(1, len(self.views[view].coders)):
            weaker = best._replace(coder=coder)
            if self._measure(best) > self._measure(weaker):
                best = weaker
            elif coder > best.coder + 1:
                break  # two in a row are no better
        return best

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

    def _try(self, setting: _Setting) -> _Trial:
        """Train with a setting, without one of the folds after the other."""
        if setting not in self.tried:
            start, view = perf_counter(), self.views[setting.view]
            coded = self._encode(setting)
            scores = [self._score(*pair, setting) for pair in zip(view.folds, coded, strict=True)]
            self.tried[setting] = self._judge(setting, view.folds, scores, 0, perf_counter() - start)
            self.on_trial(self.tried[setting].record)
        return self.tried[setting]

    def _decide(self, finalists: list[tuple[_Setting, _Setting]]) -> _Trial:
        """Return the best trial, given for each cost the setting with the usual decays and the one with the best.

        If trials learn from a part of the samples, they do not tell what refinement gains from all, and the first cost
        must be clearly worse to lose.
        """
        unrefined = [self._try(best) for _, best in finalists]
        leader = min(unrefined, key=_Trial.mean_loss)
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
        best = min([best, *(trial.of_first(n_judged) for trial in unrefined)], key=_Trial.mean_loss)
        return best if best.is_clearly_better(linear) else linear

    def _make_linear(self) -> _Setting:
        """Return what is nearest to logistic regression: hardly penalised codes of standardised features."""
        standard = (place for place, view in enumerate(self.views) if _is_standardised(view.description))
        view = next(standard, 0)
        own, linear = self.refiner.decay_precisions()
        if self.refiner.weight_decay is None:
            own = _RANGES["weight_decay"][1]
        return _Setting(view, len(self.views[view].coders) - 1, len(self.costs) - 1, own, linear)

    def _refine(self, settings: Sequence[_Setting]) -> _Trial:
        """Refine with settings, and return the best trial.

        This is successive halving over some of the folds: only the better half of the settings goes on to the next.
        """
        folds = self.views[settings[0].view].folds
        folds = folds[: -(-_ENOUGH_REFINED // len(folds[0].labels_left_out))]
        epochs = min(self.refiner.count_epochs(), _MOST_EPOCHS)
        scores: dict[_Setting, list[Floats]] = {setting: [] for setting in settings}
        seconds, left, trials = dict.fromkeys(scores, 0.0), list(scores), []
        for n_seen, fold in enumerate(folds, 1):
            for setting in left:
                start = perf_counter()
                scores[setting].append(self._score_refined(fold, setting, epochs))
                seconds[setting] += perf_counter() - start
            judged = (self._judge(key, folds[:n_seen], scores[key], epochs, seconds[key]) for key in left)
            trials = sorted(judged, key=_Trial.mean_loss)
            n_left = -(-len(left) // 2) if n_seen < len(folds) else 0
            for trial in trials[n_left:]:
                self.refined.append(trial)
                self.on_trial(trial.record)
            left = [trial.setting for trial in trials[:n_left]]
        return trials[0]

    def _judge(
        self, setting: _Setting, folds: list[_Fold], scores_of_folds: list[Floats], epochs: int, seconds: float
    ) -> _Trial:
        """Judge the scores of the samples that are left out of some folds."""
        cost, view, is_multilabel = self.costs[setting.cost], self.views[setting.view], self.settings.is_multilabel
        scores, labels = np.concatenate(scores_of_folds), np.concatenate([fold.labels_left_out for fold in folds])
        weights = np.concatenate([fold.weights_left_out for fold in folds])
        weights = weights / weights.mean()
        n_wrong, n_counted = count_errors(labels, cost.evidence(scores), is_multilabel, weights)
        losses = costs = cost.value(scores, labels)
        temperature = log_loss = calibration_error = np.nan
        if not is_multilabel:
            evidence = cost.unit_evidence(scores)
            temperature = find_temperature(evidence, labels, weights)
            log_losses = measure_log_loss(evidence / temperature, labels)
            log_loss = float(np.mean(log_losses * weights))
            losses = log_losses if epochs or self.sees_all else costs
            calibration_error = measure_calibration_error(evidence / temperature, labels)
        record = SearchRecord(
            _is_standardised(view.description),
            float(getattr(view.coders[setting.coder], "alpha", np.nan)),
            setting.weight_decay,
            setting.linear_decay,
            isinstance(cost, SoftmaxCost),
            epochs,
            float(np.mean(costs * weights)),
            log_loss,
            calibration_error,
            n_wrong / (n_counted or 1),
            temperature,
            seconds,
        )
        return _Trial(setting, record, losses * weights)

    def _score(self, fold: _Fold, coded: _Coded, setting: _Setting) -> Floats:
        """Learn from a fold, and return the scores of the samples that are left out."""
        precisions, unit = (setting.weight_decay, setting.linear_decay), self.views[setting.view].squared_unit
        decays = Decays.of(precisions, unit, *fold.X.shape)
        arrays = coded.learned, fold.labels, fold.dictionary
        cost, fit_intercept = self.costs[setting.cost], self.settings.fit_intercept
        fitted = train_on_codes(*arrays, cost, decays, fit_intercept, fold.weights)
        return coded.left_out @ fitted.coef_by_atom + fitted.intercept

    def _score_refined(self, fold: _Fold, setting: _Setting, epochs: int) -> Floats:
        """Learn from a fold and refine, and return the scores of the samples that are left out."""
        decays = {"weight_decay": setting.weight_decay, "linear_decay": setting.linear_decay}
        refiner = clone(self.refiner).set_params(epochs=epochs, **decays)
        settings, coder = self.settings, self.views[setting.view].coders[setting.coder]
        encoder = Encoder.of(fold.dictionary, coder, settings.n_nonzero_coefs, settings.n_jobs)
        gradient = TaskGradient(encoder, self.costs[setting.cost], settings.n_jobs)
        refinement = Refinement(
            refiner,
            gradient,
            TrainingSet.of_arrays(fold.X, fold.labels, weights=fold.weights, is_known=fold.is_known).parts,
            is_multilabel=settings.is_multilabel,
            fit_intercept=settings.fit_intercept,
            jitter=None,
            image_shape=None,
            description=self.views[setting.view].description,
        )
        model = refinement.run(refinement.start(fold.dictionary, _SEED), lambda progress: progress).best
        codes = self._encode_samples(fold.X_left_out, fold.is_known_left_out, model.dictionary, coder)
        return codes @ model.coef_by_atom + model.intercept

    def _encode(self, setting: _Setting) -> list[_Coded]:
        place, view = setting[:2], self.views[setting.view]
        if place not in self.coded:
            self.coded[place] = [self._encode_fold(fold, view.coders[setting.coder]) for fold in view.folds]
        return self.coded[place]

    def _encode_fold(self, fold: _Fold, coder: SparseCoder) -> _Coded:
        return _Coded(
            self._encode_samples(fold.X, fold.is_known, fold.dictionary, coder),
            self._encode_samples(fold.X_left_out, fold.is_known_left_out, fold.dictionary, coder),
        )

    def _encode_samples(self, X: Floats, is_known: Flags | None, dictionary: Floats, coder: SparseCoder) -> csr_array:
        """Code samples as new ones are, also those with missing features."""
        n_jobs = self.settings.n_jobs
        encoder = Encoder.of(dictionary, coder, self.settings.n_nonzero_coefs, n_jobs)
        return encoder.encode(X, is_known, n_jobs=n_jobs).to_csr(len(dictionary))

    def _describe(
        self,
        training: TrainingSet,
        rows: list[_Rows],
        description: Description,
        n_components: int,
        draw_init: Callable[[Description], str | ArrayLike],
    ) -> _View:
        """Return the folds with scaled samples, and a dictionary drawn from those to learn from."""
        rng, whole, folds = np.random.RandomState(_SEED), training.whole, []
        assert whole is not None
        labels = whole.labels
        for learned, left_out in rows:
            X = np.ascontiguousarray(whole.X[learned])
            fitted = description.learn(TrainingSet.of_arrays(X, labels[learned]).parts)
            X, is_known = describe_and_fill(fitted, X)
            part = TrainingSet.of_arrays(X, labels[learned])
            init, facts = draw_init(fitted), part.facts
            n_atoms = (
                max(1, min(round(self.atoms_per_sample * len(learned)), _MOST_ATOMS))
                if isinstance(init, str)
                else n_components
            )
            batches = fetch_candidates(part, n_atoms, rng)
            dictionary = draw_dictionary(init, batches, n_atoms, facts.n_features, facts.dtype, rng)
            X_left_out, is_known_left_out = describe_and_fill(fitted, np.ascontiguousarray(whole.X[left_out]))
            X_left_out = np.ascontiguousarray(X_left_out)
            labels_of = (labels[some].astype(facts.dtype) for some in (learned, left_out))
            weights = (whole.weights[some] for some in (learned, left_out))
            samples = X, next(labels_of), X_left_out, next(labels_of)
            folds.append(_Fold(*samples, dictionary, is_known, is_known_left_out, *weights))
        squared_unit = float(np.mean([np.mean(np.vecdot(fold.X, fold.X)) for fold in folds])) or 1.0
        return _View(
            description, folds, squared_unit, self.settings.sparse_coder.list_candidates(np.sqrt(squared_unit))
        )


def _is_standardised(description: Description) -> bool:
    return "deviation" in description.learned


class Found(NamedTuple):
    """The settings that were chosen, and the records of all, theirs last."""

    description: Description
    sparse_coder: SparseCoder
    refiner: Refiner
    temperature: float | None
    tried: list[SearchRecord]


class _Rows(NamedTuple):
    """The rows of a fold."""

    learned: NDArray[np.intp]
    left_out: NDArray[np.intp]


def _cut(class_index: NDArray[np.intp]) -> Iterator[_Rows]:
    """Yield the folds to try settings on, with the classes in proportion, if there are enough samples."""
    shuffled = np.random.RandomState(_SEED).permutation(np.flatnonzero(class_index >= 0))
    fold_of_row = np.full(len(class_index), -1)
    for index in np.unique(class_index[shuffled]):
        members = shuffled[class_index[shuffled] == index]
        # A class of one sample is always learned from.
        fold_of_row[members] = np.arange(len(members)) % _N_FOLDS if len(members) > 1 else -1
    folds = range(min(_N_FOLDS, -(-_ENOUGH_HELD_OUT * _N_FOLDS // max(len(shuffled), 1))))
    if np.isin(fold_of_row, folds).sum() < _FEWEST_HELD_OUT:
        return
    for fold in folds:
        left_out = fold_of_row[shuffled] == fold
        yield _Rows(shuffled[~left_out][:_MOST_LEARNED], shuffled[left_out][:_MOST_HELD_OUT])
