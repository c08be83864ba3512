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

from ..dictionary import draw_dictionary
from ..fitting.data import TrainingSet, collect_classes, fetch_candidates
from ..fitting.loop import CodedPart, FitSettings, Loop, State, code_as_new, count_wrong
from ..model.codes import Model
from ..model.losses import Loss

# Every fourth labelled sample is held out; with fewer than ten held-out samples the search is skipped.
_HELD_OUT = 4
_FEWEST_HELD_OUT = 10
# Larger sets are cut to this many samples, which are enough to rank sizes.
_MOST_LEARNED = 15000
_MOST_HELD_OUT = 5000
# At most as many atoms as labelled samples, and at most this many, with which a fit takes eight times as long as with
# 500. Smaller sizes are halves of it, down to this many halvings.
_MOST_ATOMS = 2000
_MOST_HALVINGS = 6
# The tolerance of a short fit, a hundred times the default: it ends after two or three iterations.
_SHORT_FIT_TOL = 0.1
# A class whose labels cost less than this share of their cost without classifiers is solved; how well does not count.
_SOLVED = 0.01


class DictionarySize(NamedTuple):
    """The result of trying one size.

    Parameters
    ----------
    n_components : int
        Number of atoms.
    code_length : float
        The criterion: nats for the labels of a held-out sample, up to a constant.
    standard_error : float
        Of the difference from the shortest code length; 0 for the size that has it.
    error : float
        Share of the held-out samples that were misclassified.
    seconds : float
        Duration.

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


class _Trial(NamedTuple):
    """What a size costs each held-out sample."""

    n_components: int
    code_length: float
    influence: NDArray[np.float64]  # (n_held_out,) of each sample on the code length, times their number
    error: float
    seconds: float = 0.0


class SizeSearch:
    """The search on one training set, which must be in this process."""

    def __init__(self, training: TrainingSet, settings: FitSettings, init: str | ArrayLike, rng: np.random.RandomState):
        self.settings = replace(settings, tol=max(settings.tol, _SHORT_FIT_TOL))
        self.init = init
        self.facts = training.facts
        self.seed = rng.randint(np.iinfo(np.int32).max)
        self.learned, self.held_out = _split(training, rng)

    def run(self) -> list[DictionarySize]:
        """Try sizes until more atoms do not help."""
        if self.held_out.facts.n_samples < _FEWEST_HELD_OUT:
            return []
        tried: list[_Trial] = []
        for n_components in self._list_sizes():
            tried.append(self._try(n_components))
            if _has_passed_best(tried):
                break
        best = tried[_find_best(tried)]
        return [
            DictionarySize(size.n_components, size.code_length, _standard_error(size, best), size.error, size.seconds)
            for size in tried
        ]

    def _list_sizes(self) -> list[int]:
        """Return sizes from small to large."""
        # For a coder with a penalty, n_nonzero_coefs is only room in memory.
        budget = 1 if self.settings.sparse_coder.has_penalty else self.settings.n_nonzero_coefs
        smallest = max(budget, self.facts.n_classes)
        largest = max(min(self.facts.n_with_label, _MOST_ATOMS), smallest)
        sizes = [largest >> n_halvings for n_halvings in range(_MOST_HALVINGS, -1, -1)]
        return [size for size in sizes if size >= smallest]

    def _try(self, n_components: int) -> _Trial:
        """Run a short fit, and measure it on the held-out samples."""
        start = perf_counter()
        # The same random numbers for all: smaller dictionaries begin with atoms of larger ones.
        rng, facts = np.random.RandomState(self.seed), self.learned.facts
        n_atoms = min(n_components, facts.n_samples)
        batches = fetch_candidates(self.learned, n_atoms, rng)
        dictionary = draw_dictionary(self.init, batches, n_atoms, facts.n_features, facts.dtype, rng)
        loop = Loop(self.learned, self.settings)
        state = loop.refit_classifiers(loop.run(loop.start(dictionary)))
        return self._measure(n_components, state)._replace(seconds=perf_counter() - start)

    def _measure(self, n_components: int, state: State) -> _Trial:
        settings = self.settings
        parts = self.held_out.parts.map(code_as_new, settings, state.encoder)
        n_wrong, n_counted = parts.add_up(count_wrong, settings, state.model)
        costs = np.concatenate(parts.collect(_measure_costs, settings, state.model))
        n_known = self.held_out.facts.n_labelled
        mean = np.maximum(costs.sum(axis=0) / np.maximum(n_known, 1), _SOLVED * _cost_at_zero(settings.loss))
        code_length = float(n_known @ np.log(mean) / len(costs))
        return _Trial(n_components, code_length, (costs / mean).sum(axis=1), n_wrong / n_counted)


def _cost_at_zero(loss: Loss) -> float:
    return float(loss.value(np.zeros(1))[0])


def _measure_costs(part: CodedPart, settings: FitSettings, model: Model) -> NDArray[np.float64]:
    labels = part.labels.astype(part.X.dtype)
    costs = (np.abs(labels) * settings.loss.value(labels * model.scores(part.codes))).astype(np.float64)
    return costs * part.weights[:, None]


def _find_best(tried: list[_Trial]) -> int:
    return min(range(len(tried)), key=lambda position: tried[position].code_length)


def _standard_error(size: _Trial, best: _Trial) -> float:
    """Return the standard error of the difference of two code lengths, of the same samples."""
    difference = size.influence - best.influence
    return float(difference.std() / np.sqrt(len(difference)))


def _has_passed_best(tried: list[_Trial]) -> bool:
    """Return whether two sizes beyond the best have been tried, or one that is clearly worse."""
    position = _find_best(tried)
    last, best, n_beyond = tried[-1], tried[position], len(tried) - 1 - position
    return n_beyond > 1 or (n_beyond == 1 and last.code_length - best.code_length > _standard_error(last, best))


def choose_size(tried: list[DictionarySize], default: int) -> int:
    """Return the size with the shortest code; if none has been tried, the default."""
    return min(tried, key=lambda size: size.code_length).n_components if tried else default


def _split(training: TrainingSet, rng: np.random.RandomState) -> tuple[TrainingSet, TrainingSet]:
    """Return the samples to learn from and the held-out ones, one in four of each class."""
    class_index = collect_classes(training)
    shuffled = rng.permutation(len(class_index))
    by_class = shuffled[np.argsort(class_index[shuffled], kind="stable")]
    _, first, class_of_row = np.unique(class_index[by_class], return_index=True, return_inverse=True)
    turn = np.arange(len(by_class)) - first[class_of_row]
    is_held_out = np.zeros(len(class_index), bool)
    is_held_out[by_class] = (turn % _HELD_OUT == _HELD_OUT - 1) & (class_index[by_class] >= 0)
    held_out, learned = shuffled[is_held_out[shuffled]], shuffled[~is_held_out[shuffled]]
    return training.take(np.sort(learned[:_MOST_LEARNED])), training.take(np.sort(held_out[:_MOST_HELD_OUT]))
