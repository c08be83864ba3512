r"""Settings from the training samples: the penalty on codes, and those on classifiers, :math:`\rho` and :math:`\tau`.

Samples are cut into four folds.  For each, or for as many as hold enough samples, atoms are drawn from the other folds,
and codes found for a few strengths of the penalty on codes, which takes most of the time.  What is left is a convex
problem (:mod:`ddlearn.fitting.convex`), which is solved for one setting after the other: first for each strength, then,
with the best, for smaller and larger :math:`\rho` and :math:`\tau` as long as that lowers the criterion, which is the
mean cost of the samples that were left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from ..codes import Floats
from ..coding.coders import SparseCoder
from ..coding.encoder import Encoder
from ..dictionary import draw_dictionary
from ..losses import count_errors
from .convex import Decays, train_on_codes
from .data import TrainingSet, collect_labels, fetch_candidates, index_classes
from .gradient import TaskGradient
from .loop import FitSettings
from .refine import Refiner

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

    alpha: float
    weight_decay: float
    linear_decay: float
    cost: float
    error: float
    temperature: float
    seconds: float


class _Setting(NamedTuple):
    """What can be chosen; the coder is its place among the candidates."""

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


class _Coded(NamedTuple):
    """The codes of a fold."""

    learned: csr_array
    left_out: csr_array


class SettingsSearch:
    """The search on one training set, which must be in this process."""

    def __init__(
        self,
        training: TrainingSet,
        settings: FitSettings,
        refiner: Refiner,
        init: str | ArrayLike,
        n_components: int,
        rng: np.random.RandomState,
    ):
        self.settings = settings
        self.refiner = refiner
        make_cost = refiner.choose_cost(settings.is_multilabel, settings.loss)
        self.cost = make_cost(settings.loss, np.ones(training.facts.n_classes), settings.classification_weight)
        self.folds = list(_cut(training, init, n_components, rng))
        self.squared_unit = float(np.mean([np.mean(np.vecdot(fold.X, fold.X)) for fold in self.folds] or 1)) or 1.0
        self.coders = settings.sparse_coder.list_candidates(np.sqrt(self.squared_unit))
        self.tried: dict[_Setting, SearchRecord] = {}
        self.coded: dict[int, list[_Coded]] = {}  # by coder

    def run(self) -> list[SearchRecord]:
        """Try settings until none near the best is better; without enough samples there are none."""
        if not self.folds:
            return []
        start = _Setting(0, *self.refiner.decay_precisions())
        best = min((start._replace(coder=coder) for coder in range(len(self.coders))), key=self._try)
        open_names = [name for name in _RANGES if getattr(self.refiner, name) is None]
        for _ in range(_MAX_ROUNDS):
            before = best
            for name in open_names:
                best = self._move(best, name)
            if best == before:
                break
        return list(self.tried.values())

    def choose_coder(self) -> SparseCoder:
        """Return the coder of the lowest cost."""
        return self.coders[min(self.tried, key=self._try).coder]

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
            start = perf_counter()
            coded = self._encode(setting.coder)
            scores = np.concatenate([self._score(*pair, setting) for pair in zip(self.folds, coded, strict=True)])
            labels = np.concatenate([fold.labels_left_out for fold in self.folds])
            n_wrong, n_counted = count_errors(labels, self.cost.evidence(scores), self.settings.is_multilabel)
            self.tried[setting] = SearchRecord(
                float(getattr(self.coders[setting.coder], "alpha", np.nan)),
                setting.weight_decay,
                setting.linear_decay,
                float(np.mean(self.cost.value(scores, labels))),
                n_wrong / max(n_counted, 1),
                self.cost.find_temperature(scores, labels),
                perf_counter() - start,
            )
        return self.tried[setting].cost

    def _score(self, fold: _Fold, coded: _Coded, setting: _Setting) -> Floats:
        """Learn from a fold, and return the scores of the samples that are left out."""
        decays = Decays.of((setting.weight_decay, setting.linear_decay), self.squared_unit, *fold.X.shape)
        arrays = coded.learned, fold.labels, fold.dictionary
        fitted = train_on_codes(*arrays, self.cost, decays, self.settings.fit_intercept)
        return coded.left_out @ fitted.coef_by_atom + fitted.intercept

    def _encode(self, coder: int) -> list[_Coded]:
        if coder not in self.coded:
            self.coded[coder] = [self._encode_fold(fold, self.coders[coder]) for fold in self.folds]
        return self.coded[coder]

    def _encode_fold(self, fold: _Fold, coder: SparseCoder) -> _Coded:
        encoder = Encoder.of(fold.dictionary, coder, self.settings.n_nonzero_coefs, self.settings.n_jobs)
        gradient = TaskGradient(encoder, self.cost, self.settings.n_jobs)
        return _Coded(*(gradient.encode(fold.dictionary, X) for X in (fold.X, fold.X_left_out)))


def _cut(
    training: TrainingSet, init: str | ArrayLike, n_components: int, rng: np.random.RandomState
) -> Iterator[_Fold]:
    """Yield the folds to try settings on, if there are enough samples."""
    labels, dtype = collect_labels(training), training.facts.dtype
    class_index = index_classes(labels)
    shuffled = rng.permutation(np.flatnonzero(class_index >= 0))
    fold_of_row = np.full(len(class_index), -1)
    for index in np.unique(class_index[shuffled]):
        members = shuffled[class_index[shuffled] == index]
        # A class of one sample is always learned from.
        fold_of_row[members] = np.arange(len(members)) % _N_FOLDS if len(members) > 1 else -1
    folds = range(min(_N_FOLDS, -(-_ENOUGH_HELD_OUT * _N_FOLDS // max(len(shuffled), 1))))
    if np.isin(fold_of_row, folds).sum() < _FEWEST_HELD_OUT:
        return
    share = n_components / len(shuffled)
    for fold in folds:
        left_out = shuffled[fold_of_row[shuffled] == fold][:_ENOUGH_HELD_OUT]
        learned = shuffled[fold_of_row[shuffled] != fold][:_MOST_LEARNED]
        part = TrainingSet.of_arrays(np.ascontiguousarray(training.X[learned]), labels[learned])
        n_atoms = max(1, min(round(share * len(learned)), _MOST_ATOMS)) if isinstance(init, str) else n_components
        batches = fetch_candidates(part, n_atoms, rng)
        yield _Fold(
            part.X,
            labels[learned].astype(dtype),
            np.ascontiguousarray(training.X[left_out]),
            labels[left_out].astype(dtype),
            draw_dictionary(init, batches, n_atoms, part.facts.n_features, dtype, rng),
        )


def find_best(tried: list[SearchRecord]) -> SearchRecord | None:
    """Return the settings of the lowest cost, if there are any."""
    return min(tried, key=lambda record: record.cost, default=None)
