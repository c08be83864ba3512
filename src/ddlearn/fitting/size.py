r"""How many atoms: the paper's K, from the training samples alone (its stated future work, Section 5).

Sizes are tried from small to large.  Each gets a short fit to three quarters of the samples; the others are coded
without labels, and what their labels cost then is the criterion: up to a constant, the length in nats of a code for
them, :math:`\sum_j N_j \ln \frac{1}{N_j} \sum_i \Omega(l_{ij} (w_j^T x_i + b_j))`, which is the part of the objective
(Eq. 3) that belongs to labels, with the class costs that suit it.  Since the samples are new to the model, atoms and
classifiers need no price of their own (predictive code length: Dawid 1984, Rissanen 1986).  The search ends where more
atoms do not shorten the code, so most of its time goes to sizes near the one that is chosen.
"""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..coding.discriminative import ClassifierState
from ..losses import Loss
from ..objective import compute_scores
from ..parallel import PART_ROWS
from . import steps as steps
from .data import TrainingPart, TrainingSet, collect_labels
from .loop import AlternatingFit, FitState
from .steps import FitSettings

__all__ = ["DictionarySize"]

# One labelled sample in so many is judged, not learned from; by fewer than these many, nothing is known.
_JUDGED = 4
_FEWEST_JUDGED = 10
# Of more samples, these many are enough to rank sizes.
_MOST_LEARNED = 15000
_MOST_JUDGED = 5000
# There are no more atoms than labelled samples, and no more than this, since a fit takes eight times as long as with
# 500.  Smaller sizes halve, so often at most.
_MOST_ATOMS = 2000
_MOST_HALVINGS = 6
# A short fit stops when the objective changes by less than this, relative to the size of its terms; a fit, by default,
# at a thirtieth of it.
_SHORT_FIT_TOL = 0.03
# A class whose labels cost less than this share of what they cost without classifiers is solved, and how well does not
# count.
_SOLVED = 0.01


class DictionarySize(NamedTuple):
    """One size that was tried, and what it is worth.

    Parameters
    ----------
    n_components : int
        Number of atoms.
    code_length : float
        The criterion: nats for the labels of a sample that the short fit did not see, up to a constant.
    standard_error : float
        That of its difference from the shortest code of all sizes; 0 for that one.
    error : float
        Share of these samples whose class is wrong.
    seconds : float
        How long it took.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ddlearn import DDLClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DDLClassifier("auto", max_iter=2, random_state=0).fit(X[:300], y[:300])
    >>> tried = [size.n_components for size in model.dictionary_sizes_]
    >>> len(model.components_) in tried
    True
    """

    n_components: int
    code_length: float
    standard_error: float
    error: float
    seconds: float


class _Judged(NamedTuple):
    """What a size costs each judged sample."""

    n_components: int
    code_length: float
    influence: NDArray[np.float64]  # (n_judged,) of each sample on the code length, times their number
    error: float
    seconds: float = 0.0


class SizeSearch:
    """The search on one training set, which must be in this process."""

    def __init__(self, training: TrainingSet, settings: FitSettings, init: str | ArrayLike, rng: np.random.RandomState):
        self.settings = replace(settings, tol=max(settings.tol, _SHORT_FIT_TOL))
        self.init = init
        self.facts = training.facts
        self.seed = rng.randint(np.iinfo(np.int32).max)
        self.learned, self.judged = _split(training, rng)

    def run(self) -> list[DictionarySize]:
        """Try sizes until more atoms do not help."""
        if self.judged.facts.n_samples < _FEWEST_JUDGED:
            return []
        tried: list[_Judged] = []
        for n_components in self._list_sizes():
            tried.append(self._try(n_components))
            if _has_passed_best(tried):
                break
        best = tried[_find_best(tried)]
        return [
            DictionarySize(size.n_components, size.code_length, _measure_doubt(size, best), size.error, size.seconds)
            for size in tried
        ]

    def _list_sizes(self) -> list[int]:
        """Return sizes from small to large; the last is the largest that may be."""
        # A coder with a penalty has no budget, but room, of which some may stay free.
        has_budget = not self.settings.sparse_coder.has_penalty
        smallest = max(self.settings.n_nonzero_coefs if has_budget else 1, self.facts.n_classes)
        largest = max(min(self.facts.n_with_label, _MOST_ATOMS), smallest)
        sizes = [largest >> n_halvings for n_halvings in range(_MOST_HALVINGS, -1, -1)]
        return [size for size in sizes if size >= smallest]

    def _try(self, n_components: int) -> _Judged:
        """Fit for a moment, and judge."""
        start = perf_counter()
        # The same random numbers for all: smaller dictionaries begin with atoms of larger ones.
        fitting = AlternatingFit(self.learned, self.settings, np.random.RandomState(self.seed))
        n_tried = min(n_components, self.learned.facts.n_samples)
        progress = fitting.begin(*fitting.initialise(fitting.draw_dictionary(self.init, n_tried)))
        progress = fitting.run(progress, lambda _: False)
        state = fitting.refit_classifiers(progress.state, progress.floors)
        # The settings of the fit, which may have estimated some of them.
        return self._judge(n_components, state, fitting.settings)._replace(seconds=perf_counter() - start)

    def _judge(self, n_components: int, state: FitState, settings: FitSettings) -> _Judged:
        parts = self.judged.parts.map(steps.register, settings, state.dictionary, None)
        parts = parts.map(steps.code_label_free, settings, state.dictionary)
        classifiers = ClassifierState(state.coef, state.intercept, state.class_cost, settings.loss)
        n_wrong, n_judged = parts.add_up(steps.count_mistakes, settings, classifiers)
        costs = np.concatenate(parts.collect(_measure_costs, classifiers))
        n_known = self.judged.facts.n_labelled
        mean = np.maximum(costs.sum(axis=0) / np.maximum(n_known, 1), _SOLVED * _cost_at_zero(settings.loss))
        code_length = float(n_known @ np.log(mean) / len(costs))
        return _Judged(n_components, code_length, (costs / mean).sum(axis=1), n_wrong / n_judged)


def _cost_at_zero(loss: Loss) -> float:
    return float(loss.value(np.zeros(1))[0])


def _measure_costs(part: TrainingPart, classifiers: ClassifierState) -> NDArray[np.float64]:
    labels = part.labels.astype(part.X.dtype)
    scores = compute_scores(part.codes, classifiers.coef, classifiers.intercept)
    return (np.abs(labels) * classifiers.loss.value(labels * scores)).astype(np.float64)


def _find_best(tried: list[_Judged]) -> int:
    return min(range(len(tried)), key=lambda position: tried[position].code_length)


def _measure_doubt(size: _Judged, best: _Judged) -> float:
    """Return the standard error of the difference of two code lengths, of the same samples."""
    difference = size.influence - best.influence
    return float(difference.std() / np.sqrt(len(difference)))


def _has_passed_best(tried: list[_Judged]) -> bool:
    """Return whether two sizes beyond the best have been tried, or one that is clearly worse."""
    position = _find_best(tried)
    last, best, n_beyond = tried[-1], tried[position], len(tried) - 1 - position
    return n_beyond > 1 or (n_beyond == 1 and last.code_length - best.code_length > _measure_doubt(last, best))


def choose_size(tried: list[DictionarySize], default: int) -> int:
    """Return the size with the shortest code; if none has been tried, the default."""
    return min(tried, key=lambda size: size.code_length).n_components if tried else default


def _split(training: TrainingSet, rng: np.random.RandomState) -> tuple[TrainingSet, TrainingSet]:
    """Return the samples to learn from and those to judge by: of each class, one in four."""
    class_index = np.concatenate(training.parts.collect(steps.index_classes))
    shuffled = rng.permutation(len(class_index))
    by_class = shuffled[np.argsort(class_index[shuffled], kind="stable")]
    _, first, class_of_row = np.unique(class_index[by_class], return_index=True, return_inverse=True)
    turn = np.arange(len(by_class)) - first[class_of_row]
    is_judged = np.zeros(len(class_index), bool)
    is_judged[by_class] = (turn % _JUDGED == _JUDGED - 1) & (class_index[by_class] >= 0)
    judged, learned = shuffled[is_judged[shuffled]], shuffled[~is_judged[shuffled]]
    return _take(training, learned[:_MOST_LEARNED]), _take(training, judged[:_MOST_JUDGED])


def _take(training: TrainingSet, rows: NDArray[np.intp]) -> TrainingSet:
    rows = np.sort(rows)
    return TrainingSet.of_arrays(np.asarray(training.X[rows]), collect_labels(training)[rows], PART_ROWS)
