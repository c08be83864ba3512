r"""Settings from the samples: scaling, the penalty on codes, and those on classifiers, :math:`\rho` and :math:`\tau`.

Samples are cut into four folds.  For each, or for as many as hold enough samples, atoms are drawn from the other folds,
and codes found for each scaling and a few strengths of the penalty on codes, which takes most of the time.  The rest
is a convex problem (:mod:`ddlearn.fitting.convex`), which is solved for one setting after the other: for each scaling,
from strong to weak penalties on codes as long as that lowers the criterion, which is the mean cost of the samples that
were left out; then, with the best, for smaller and larger :math:`\rho` and :math:`\tau` likewise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import clone

from ..codes import Flags, Floats
from ..coding.coders import SparseCoder
from ..coding.encoder import Encoder
from ..coding.masked import MaskedCoder
from ..coding.scaling import Scaling, Standard
from ..dictionary import draw_dictionary
from ..losses import count_errors
from .convex import Decays, train_on_codes
from .data import Labels, TrainingSet, collect_labels, fetch_candidates, index_classes
from .gradient import TaskGradient
from .loop import FitSettings
from .refine import Refiner

_SEED = 0
_N_FOLDS = 4
_ENOUGH_HELD_OUT = 500  # samples; of large sets not all folds are needed
_FEWEST_HELD_OUT = 10  # with fewer there is no search
_MOST_LEARNED = 1500
_MOST_ATOMS = 500
_FACTOR = 10.0  # between neighbouring decays
_RANGES = {"weight_decay": (3e-4, 30.0), "linear_decay": (1e-2, 1e3)}
_MAX_ROUNDS = 2


class SearchRecord(NamedTuple):
    """What one setting costs held-out samples.

    Parameters
    ----------
    is_standardised : bool
        Whether features were standardised; otherwise samples had unit norm, or the scaling that was given.
    alpha : float
        Strength of the penalty on codes; NaN for coders without one.
    weight_decay : float
        Penalty on what atoms say by themselves.
    linear_decay : float
        Penalty on the linear classifier that atoms have in common.
    cost : float
        The criterion: mean cost of a held-out sample.
    error : float
        Share of the held-out samples that were misclassified.
    temperature : float
        By what evidence is divided for the likeliest probabilities of the held-out samples.
    seconds : float
        Duration.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ddlearn import DDLClassifier
    >>> model = DDLClassifier(sparse_coder="elastic_net", refine=1, random_state=0).fit(*load_iris(return_X_y=True))
    >>> best = min(model.search_, key=lambda record: record.cost)
    >>> best.alpha == model.sparse_coder_.alpha
    True
    """

    is_standardised: bool
    alpha: float
    weight_decay: float
    linear_decay: float
    cost: float
    error: float
    temperature: float
    seconds: float


class _Setting(NamedTuple):
    """What can be chosen; view and coder are places in lists."""

    view: int
    coder: int
    weight_decay: float
    linear_decay: float


class _Fold(NamedTuple):
    """Samples to learn from, those that are left out, and the atoms for both."""

    X: Floats
    labels: Floats
    X_left_out: Floats
    labels_left_out: Floats
    dictionary: Floats
    is_known: Flags | None  # which features are; None if all are
    is_known_left_out: Flags | None
    weights: NDArray[np.float64] | None
    weights_left_out: NDArray[np.float64] | None


class _Coded(NamedTuple):
    """The codes of a fold."""

    learned: csr_array
    left_out: csr_array


class _View(NamedTuple):
    """The samples as one scaling shows them."""

    scaling: Scaling
    folds: list[_Fold]
    squared_unit: float
    coders: list[SparseCoder]


class SettingsSearch:
    """The search on one training set, not yet scaled, which must be in this process.

    It has random numbers of its own, so that the fit is the same as with these settings given, and a resumed fit finds
    the same.
    """

    def __init__(
        self,
        training: TrainingSet,
        scalings: Sequence[Scaling],
        settings: FitSettings,
        refiner: Refiner,
        n_components: int,
        draw_init: Callable[[Scaling], str | ArrayLike],  # the parameter init for a scaling
    ):
        self.settings = settings
        self.refiner = refiner
        make_cost = refiner.choose_cost(settings.is_multilabel, settings.loss)
        self.cost = make_cost(settings.loss, np.ones(training.facts.n_classes), settings.classification_weight)
        rows = list(_cut(collect_labels(training)))
        self.views = [self._scale(training, rows, scaling, n_components, draw_init) for scaling in scalings if rows]
        self.tried: dict[_Setting, SearchRecord] = {}
        self.coded: dict[tuple[int, int], list[_Coded]] = {}  # by view and coder

    def run(self) -> Found | None:
        """Try settings until none near the best is better; without enough samples there are none."""
        if not self.views:
            return None
        best = min((self._follow_path(position) for position in range(len(self.views))), key=self._try)
        open_names = [name for name in _RANGES if getattr(self.refiner, name) is None]
        for _ in range(_MAX_ROUNDS):
            before = best
            for name in open_names:
                best = self._move(best, name)
            if best == before:
                break
        decays = {"weight_decay": best.weight_decay, "linear_decay": best.linear_decay}
        return Found(
            self.views[best.view].scaling,
            self.views[best.view].coders[best.coder],
            clone(self.refiner).set_params(**decays),
            self.tried[best].temperature,
            list(self.tried.values()),
        )

    def _follow_path(self, position: int) -> _Setting:
        """Return the best penalty on codes for a scaling, from strong to weak, with which codes need more time."""
        best = _Setting(position, 0, *self.refiner.decay_precisions())
        for coder in range(1, len(self.views[position].coders)):
            weaker = best._replace(coder=coder)
            if self._try(best) <= self._try(weaker):
                break
            best = weaker
        return best

    def _move(self, setting: _Setting, name: str) -> _Setting:
        """Return the setting with a smaller or larger decay, as long as that lowers the cost."""
        smallest, largest = _RANGES[name]
        for factor in (1 / _FACTOR, _FACTOR):
            while smallest <= (moved := getattr(setting, name) * factor) <= largest:
                neighbour = setting._replace(**{name: moved})
                if self._try(neighbour) >= self._try(setting):
                    break
                setting = neighbour
        return setting

    def _try(self, setting: _Setting) -> float:
        """Return the mean cost of the samples that are left out."""
        if setting not in self.tried:
            start, view = perf_counter(), self.views[setting.view]
            coded = self._encode(setting)
            scores = np.concatenate([self._score(*pair, setting) for pair in zip(view.folds, coded, strict=True)])
            labels = np.concatenate([fold.labels_left_out for fold in view.folds])
            weights = None
            if view.folds[0].weights_left_out is not None:
                weights = np.concatenate([fold.weights_left_out for fold in view.folds])
            is_multilabel = self.settings.is_multilabel
            n_wrong, n_counted = count_errors(labels, self.cost.evidence(scores), is_multilabel, weights)
            self.tried[setting] = SearchRecord(
                isinstance(view.scaling, Standard),
                float(getattr(view.coders[setting.coder], "alpha", np.nan)),
                setting.weight_decay,
                setting.linear_decay,
                float(np.average(self.cost.value(scores, labels), weights=weights)),
                n_wrong / (n_counted or 1),
                self.cost.find_temperature(scores, labels),
                perf_counter() - start,
            )
        return self.tried[setting].cost

    def _score(self, fold: _Fold, coded: _Coded, setting: _Setting) -> Floats:
        """Learn from a fold, and return the scores of the samples that are left out."""
        precisions, unit = (setting.weight_decay, setting.linear_decay), self.views[setting.view].squared_unit
        decays = Decays.of(precisions, unit, *fold.X.shape)
        arrays = coded.learned, fold.labels, fold.dictionary
        fitted = train_on_codes(*arrays, self.cost, decays, self.settings.fit_intercept, fold.weights)
        return coded.left_out @ fitted.coef_by_atom + fitted.intercept

    def _encode(self, setting: _Setting) -> list[_Coded]:
        place, view = setting[:2], self.views[setting.view]
        if place not in self.coded:
            self.coded[place] = [self._encode_fold(fold, view.coders[setting.coder]) for fold in view.folds]
        return self.coded[place]

    def _encode_fold(self, fold: _Fold, coder: SparseCoder) -> _Coded:
        encoder = Encoder.of(fold.dictionary, coder, self.settings.n_nonzero_coefs, self.settings.n_jobs)
        gradient = TaskGradient(encoder, self.cost, self.settings.n_jobs)

        def encode(X: Floats, is_known: Flags | None) -> csr_array:
            """Code samples as new ones are, also those with missing features."""
            if is_known is None:
                return gradient.encode(fold.dictionary, X)
            codes = MaskedCoder(encoder).encode_all(X, is_known, n_jobs=self.settings.n_jobs)
            return codes.to_csr(len(fold.dictionary))

        return _Coded(encode(fold.X, fold.is_known), encode(fold.X_left_out, fold.is_known_left_out))

    def _scale(
        self,
        training: TrainingSet,
        rows: list[_Rows],
        scaling: Scaling,
        n_components: int,
        draw_init: Callable[[Scaling], str | ArrayLike],
    ) -> _View:
        """Return the folds with scaled samples, and a dictionary drawn from those to learn from."""
        rng, labels, folds = np.random.RandomState(_SEED), collect_labels(training), []
        share = n_components / np.count_nonzero(labels.any(axis=1))
        for learned, left_out in rows:
            part = TrainingSet.of_arrays(np.ascontiguousarray(training.X[learned]), labels[learned])
            fitted = scaling.learn(part.parts)
            X, is_known = fitted.apply_and_fill(part.X)
            part = TrainingSet.of_arrays(X, labels[learned])
            init, facts = draw_init(fitted), part.facts
            n_atoms = max(1, min(round(share * len(learned)), _MOST_ATOMS)) if isinstance(init, str) else n_components
            batches = fetch_candidates(part, n_atoms, rng)
            dictionary = draw_dictionary(init, batches, n_atoms, facts.n_features, facts.dtype, rng)
            X_left_out, is_known_left_out = fitted.apply_and_fill(np.ascontiguousarray(training.X[left_out]))
            X_left_out = np.ascontiguousarray(X_left_out)
            labels_of = (labels[some].astype(facts.dtype) for some in (learned, left_out))
            weights = (None if training.weights is None else training.weights[some] for some in (learned, left_out))
            samples = part.X, next(labels_of), X_left_out, next(labels_of)
            folds.append(_Fold(*samples, dictionary, is_known, is_known_left_out, *weights))
        squared_unit = float(np.mean([np.mean(np.vecdot(fold.X, fold.X)) for fold in folds])) or 1.0
        return _View(scaling, folds, squared_unit, self.settings.sparse_coder.list_candidates(np.sqrt(squared_unit)))


class Found(NamedTuple):
    """The settings of the lowest cost, and all that were tried."""

    scaling: Scaling
    sparse_coder: SparseCoder
    refiner: Refiner
    temperature: float
    tried: list[SearchRecord]


class _Rows(NamedTuple):
    """The rows of a fold."""

    learned: NDArray[np.intp]
    left_out: NDArray[np.intp]


def _cut(labels: Labels) -> Iterator[_Rows]:
    """Yield the folds to try settings on, with the classes in proportion, if there are enough samples."""
    class_index = index_classes(labels)
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
        yield _Rows(shuffled[~left_out][:_MOST_LEARNED], shuffled[left_out][:_ENOUGH_HELD_OUT])
