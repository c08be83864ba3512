r"""The problems of all classes: penalised costs, gradients and Hessians, as sums over samples that may lie apart.

.. math:: \sum_i \Omega\bigl(l_{ij} (w_j^T x_i + b_j)\bigr) + \frac{\lambda_j}{2} \|w_j\|^2

The Hessian is that of a weighted least squares problem: a trainer gives the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import singledispatch
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..codes import RowCodes
from ..kernels.classifiers import add_gradient, add_hessian
from ..kernels.codes import score_class
from ..losses import Loss
from ..parallel import Parts, map_blocks

Array = NDArray[np.floating]
Solver = Callable[[Array], Array]
Weigh = Callable[[Array, Array], Array]  # a sample's weight in a round, from the loss's derivatives at its margin

# Shares of the mean diagonal, tried in turn until the Hessian has a Cholesky factor.
_JITTERS = (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0)


class LabelledCodes(NamedTuple):
    """Codes and labels of some samples: what a trainer needs of a part."""

    codes: RowCodes
    labels: NDArray  # (n_samples, n_classes) of -1, 0 and +1


class HasLabelledCodes(Protocol):
    """A part of whatever kind that has both."""

    @property
    def codes(self) -> RowCodes:
        """The codes of its samples."""

    @property
    def labels(self) -> NDArray:
        """Their labels."""


def _select(part: HasLabelledCodes, class_number: int) -> tuple[RowCodes, Array]:
    """Return the codes and labels of the samples that are labelled for a class; all sums are in float64."""
    labels = part.labels[:, class_number]
    known = labels != 0
    codes = part.codes if known.all() else part.codes.rows(np.flatnonzero(known))
    return (
        RowCodes(np.ascontiguousarray(codes.indices), np.ascontiguousarray(codes.values)),
        np.ascontiguousarray(labels[known], np.float64),
    )


def _measure_scores(codes: RowCodes, classifier: Array) -> Array:
    scores = np.empty(len(codes.indices))
    score_class(codes.indices, codes.values, np.ascontiguousarray(classifier), scores)
    return scores


def weigh_by_curvature(gradient: Array, curvature: Array) -> Array:
    """Return the weights of Newton's method."""
    return curvature


class ExpansionRequest(NamedTuple):
    """Which classes to expand, and where."""

    loss: Loss
    weigh: Weigh
    classes: Sequence[int]
    classifiers: Array  # (n, n_components + 1), one for each: coefficients, then the intercept
    hessians: Sequence[bool]  # of which of them the Hessian is wanted
    n_jobs: int | None


class Expansion(NamedTuple):
    """Costs of some classes to second order, without their penalties."""

    costs: Array  # (n,)
    gradients: Array  # (n, n_components + 1)
    hessians: Array  # (n_wanted, n_components + 1, n_components + 1), lower triangles


@singledispatch
def expand_part(part: Any, request: ExpansionRequest) -> Expansion:
    """Return what a part adds to the expansions; by default one that has labelled codes."""
    n_classes, n_places = request.classifiers.shape
    costs, gradients = np.empty(n_classes), np.zeros((n_classes, n_places))
    places = np.cumsum(request.hessians) - 1
    hessians = np.zeros((sum(request.hessians), n_places, n_places))

    def expand(block: slice, _: None) -> None:
        position = block.start
        codes, labels = _select(part, request.classes[position])
        with np.errstate(over="ignore", invalid="ignore"):
            margins = labels * _measure_scores(codes, request.classifiers[position])
            costs[position] = request.loss.value(margins).sum()
            slopes = request.loss.gradient(margins)
            add_gradient(codes.indices, codes.values, labels * slopes, gradients[position])
            if request.hessians[position]:
                weights = request.weigh(slopes, request.loss.curvature(margins))
                add_hessian(codes.indices, codes.values, weights, hessians[places[position]])

    _map_classes(expand, range(n_classes), request.n_jobs)
    return Expansion(costs, gradients, hessians)


class Survey(NamedTuple):
    """What is to be known before the first round."""

    squared_norms: Array  # (n_classes, n_components) of the atoms' coefficients
    n_of_label: Array  # (2, n_classes) how often each class's label is -1, and +1
    n_unknown: int  # labels of 0 among samples that are labelled for another class


@singledispatch
def survey_part(part: Any, n_components: int) -> Survey:
    """Look at a part's codes and labels, by default."""
    squares = part.codes.values.astype(np.float64) ** 2
    known = part.labels != 0
    labelled = known.any(axis=1)
    norms_of_known = {}  # as a rule all classes are known of the same samples
    for column in known.T:
        if column.tobytes() not in norms_of_known:
            indices = part.codes.indices[column].ravel()
            norms = np.bincount(indices, weights=squares[column].ravel(), minlength=n_components)
            norms_of_known[column.tobytes()] = norms
    return Survey(
        np.array([norms_of_known[column.tobytes()] for column in known.T]),
        np.array([np.count_nonzero(part.labels == label, axis=0) for label in (-1, 1)], dtype=np.float64),
        int(np.count_nonzero(~known[labelled])),
    )


def survey_and_expand(part: HasLabelledCodes, n_components: int, request: ExpansionRequest) -> tuple[Survey, Expansion]:
    """Do both in one visit."""
    return survey_part(part, n_components), expand_part(part, request)


def _map_classes(work: Callable[[slice, None], object], classes: range, n_jobs: int | None) -> list:
    return map_blocks(work, [slice(j, j + 1) for j in classes], lambda: None, n_jobs=n_jobs)


class Standing(NamedTuple):
    """A class's classifier, with what it costs and where to go from it."""

    classifier: Array
    cost: float
    penalised_cost: float
    gradient: Array  # of the penalised cost, without the intercept's entry where that is not fitted
    hessian: Array  # empty where all classes have the same one, or nobody asked


@dataclass
class ClassProblems:
    """The problems of all classes on the same parts."""

    parts: Parts[HasLabelledCodes]
    loss: Loss
    weigh: Weigh
    fit_intercept: bool
    n_jobs: int | None
    penalties: Array  # (n_classes,)
    has_common_hessian: bool  # a quadratic loss, and every sample labelled for all classes or none
    common_solver: Solver | None = None

    def stand_at(self, classes: Sequence[int], classifiers: Array, wants_hessians: bool = True) -> list[Standing]:
        """Return where classes stand with these classifiers."""
        wanted = [wants_hessians and self.common_solver is None] * len(classes)
        if self.has_common_hessian:
            wanted[1:] = [False] * (len(classes) - 1)
        request = ExpansionRequest(self.loss, self.weigh, classes, classifiers, wanted, self.n_jobs)
        return self.read(request, self.parts.add_up(expand_part, request))

    def read(self, request: ExpansionRequest, expansion: Expansion) -> list[Standing]:
        """Return where classes stand, from sums over all parts."""
        hessians = iter(expansion.hessians)
        own = [next(hessians) if wanted else np.empty((0, 0)) for wanted in request.hessians]
        if self.has_common_hessian and self.common_solver is None:
            self.common_solver = self._factorise(own[0], self.penalties[request.classes[0]])
        return [
            self._stand(*row)
            for row in zip(request.classes, request.classifiers, expansion.costs, expansion.gradients, own, strict=True)
        ]

    def _stand(self, j: int, classifier: Array, cost: float, gradient: Array, hessian: Array) -> Standing:
        coef, penalty = classifier[:-1], self.penalties[j]
        gradient = gradient + penalty * np.append(coef, 0.0)
        return Standing(
            classifier,
            float(cost),
            float(cost + penalty / 2 * (coef @ coef)),
            gradient if self.fit_intercept else gradient[:-1],
            hessian,
        )

    def find_learners(self, classes: Sequence[int], standings: Sequence[Standing]) -> Iterator[tuple[Array, float]]:
        """Yield the base learner of each class, and the slope of its cost along it."""

        def solve(block: slice, _: None) -> Array:
            standing = standings[block.start]
            solver = self.common_solver or self._factorise(standing.hessian, self.penalties[classes[block.start]])
            return solver(-standing.gradient)

        for standing, step in zip(standings, _map_classes(solve, range(len(classes)), self.n_jobs), strict=True):
            learner = np.zeros_like(standing.classifier)
            learner[: len(step)] = step
            yield learner, float(standing.gradient @ step)

    def _factorise(self, hessian: Array, penalty: float) -> Solver:
        diagonal = np.einsum("kk->k", hessian)  # a view that can be written to
        diagonal[:-1] += penalty
        diagonal[diagonal == 0] = 1  # no weight, no slope: any number leaves that coefficient where it is
        return _factorise(hessian if self.fit_intercept else hessian[:-1, :-1])


def _factorise(hessian: Array) -> Solver:
    """Return a function that solves with the matrix whose lower triangle is given."""
    diagonal = np.einsum("kk->k", hessian)
    scale = diagonal.mean()
    for jitter in np.diff(_JITTERS, prepend=0.0):
        diagonal += jitter * scale
        try:
            # The transpose is in Fortran order, LAPACK's own, and its upper triangle is the one that is filled.
            factor = cho_factor(hessian.T, lower=False, check_finite=False)
        except LinAlgError:
            continue
        return lambda right_side: cho_solve(factor, right_side, check_finite=False)
    raise FloatingPointError("A classifier's Hessian is not finite: the codes hold values that overflow when squared.")


def mean_curvature(loss: Loss) -> float:
    """Return the mean of the second derivative over the margins from -1 to 1; at a single margin a hinge has none."""
    left, right = loss.gradient(np.array([-1.0, 1.0]))
    return float(right - left) / 2


def scale_ridge(ridge: float, loss: Loss, squared_norms: Array) -> Array:
    """Return each class's penalty: relative to the Hessian's mean diagonal entry over the atoms in use.

    The reference point is fixed, so that all rounds, and all calls on the same codes, minimise one function.
    """
    used = squared_norms > 0
    mean_norms = [norms[use].mean() if use.any() else 0.0 for norms, use in zip(squared_norms, used, strict=True)]
    return ridge * mean_curvature(loss) * np.array(mean_norms)
