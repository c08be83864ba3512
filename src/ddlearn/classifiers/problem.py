r"""The problems of all classes: penalised costs, gradients and Hessians, as sums over parts.

.. math:: \sum_i \Omega\bigl(l_{ij} (w_j^T x_i + b_j)\bigr) + \frac{\lambda_j}{2} \|w_j\|^2

The Hessian is that of a weighted least squares problem, with the sample weights of a trainer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..codes import RowCodes
from ..kernels.classifiers import add_gradient, add_hessian
from ..kernels.codes import score_class
from ..losses import Loss
from ..parallel import Parts, map_blocks

Floats = NDArray[np.floating]
Solver = Callable[[Floats], Floats]
SampleWeights = Callable[[Floats, Floats], Floats]  # weights from the loss's derivatives at the margins

# Shares of the mean diagonal, tried in turn until the Hessian has a Cholesky factor.
_JITTERS = (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0)


class CodeSummary(NamedTuple):
    """What a trainer needs to know before the first round."""

    squared_norms: Floats  # (n_classes, n_components) of the atoms' coefficients
    n_of_label: Floats  # (2, n_classes) number of labels -1, and +1
    n_unknown: int  # labels of 0 among samples that are labelled for another class


class ExpansionRequest(NamedTuple):
    """Which classes to expand, and where."""

    loss: Loss
    curvature: Callable[[Floats], Floats]  # of margins: the loss's own, or that of its surrogate
    sample_weights: SampleWeights
    classes: Sequence[int]
    classifiers: Floats  # (n, n_components + 1), one per class: coefficients, then the intercept
    hessians: Sequence[bool]  # whether to return the Hessian, for each of the classes
    n_jobs: int | None


class Expansion(NamedTuple):
    """Costs of some classes to second order, without their penalties."""

    costs: Floats  # (n,)
    gradients: Floats  # (n, n_components + 1)
    hessians: Floats  # (n_wanted, n_components + 1, n_components + 1), lower triangles


class ClassifierPart(Protocol):
    """A part that classifiers can be trained on."""

    def summarise(self, n_components: int) -> CodeSummary:
        """Return what the part adds to the summary."""

    def expand(self, request: ExpansionRequest) -> Expansion:
        """Return what the part adds to the expansion."""


@dataclass(frozen=True)
class LabelledCodes:
    """Codes and labels of some samples."""

    codes: RowCodes
    labels: NDArray  # (n_samples, n_classes) of -1, 0 (not known) and +1

    def summarise(self, n_components: int) -> CodeSummary:
        """Count labels and add up squared coefficients."""
        squares = self.codes.values.astype(np.float64) ** 2
        known = self.labels != 0
        labelled = known.any(axis=1)
        norms_of_known = {}  # most often all classes are known for the same samples
        for column in known.T:
            if column.tobytes() not in norms_of_known:
                indices = self.codes.indices[column].ravel()
                norms = np.bincount(indices, weights=squares[column].ravel(), minlength=n_components)
                norms_of_known[column.tobytes()] = norms
        return CodeSummary(
            np.array([norms_of_known[column.tobytes()] for column in known.T]),
            np.array([np.count_nonzero(self.labels == label, axis=0) for label in (-1, 1)], dtype=np.float64),
            int(np.count_nonzero(~known[labelled])),
        )

    def expand(self, request: ExpansionRequest) -> Expansion:
        """Expand the costs of these samples."""
        n_classes, n_places = request.classifiers.shape
        costs, gradients = np.empty(n_classes), np.zeros((n_classes, n_places))
        places = np.cumsum(request.hessians) - 1
        hessians = np.zeros((sum(request.hessians), n_places, n_places))

        def expand_class(block: slice, _: None) -> None:
            position = block.start
            codes, labels = self._select(request.classes[position])
            with np.errstate(over="ignore", invalid="ignore"):
                margins = labels * _measure_scores(codes, request.classifiers[position])
                costs[position] = request.loss.value(margins).sum()
                slopes = request.loss.gradient(margins)
                add_gradient(codes.indices, codes.values, labels * slopes, gradients[position])
                if request.hessians[position]:
                    weights = request.sample_weights(slopes, request.curvature(margins))
                    add_hessian(codes.indices, codes.values, weights, hessians[places[position]])

        _map_classes(expand_class, range(n_classes), request.n_jobs)
        return Expansion(costs, gradients, hessians)

    def _select(self, class_number: int) -> tuple[RowCodes, Floats]:
        """Return the codes and labels of the samples that are labelled for a class; all sums are in float64."""
        labels = self.labels[:, class_number]
        known = labels != 0
        codes = self.codes if known.all() else self.codes.rows(np.flatnonzero(known))
        return (
            RowCodes(np.ascontiguousarray(codes.indices), np.ascontiguousarray(codes.values)),
            np.ascontiguousarray(labels[known], np.float64),
        )


def _measure_scores(codes: RowCodes, classifier: Floats) -> Floats:
    scores = np.empty(len(codes.indices))
    score_class(codes.indices, codes.values, np.ascontiguousarray(classifier), scores)
    return scores


def _map_classes(work: Callable[[slice, None], object], classes: range, n_jobs: int | None) -> list:
    return map_blocks(work, [slice(j, j + 1) for j in classes], lambda: None, n_jobs=n_jobs)


def expand_part(part: ClassifierPart, request: ExpansionRequest) -> Expansion:
    """Return what a part adds to the expansion."""
    return part.expand(request)


def summarise_and_expand(
    part: ClassifierPart, n_components: int, request: ExpansionRequest
) -> tuple[CodeSummary, Expansion]:
    """Do both in one visit."""
    return part.summarise(n_components), part.expand(request)


def weigh_by_curvature(gradient: Floats, curvature: Floats) -> Floats:
    """Return the sample weights of Newton's method."""
    return curvature


class ClassifierPoint(NamedTuple):
    """A classifier of one class, with the cost there and its derivatives."""

    classifier: Floats
    cost: float
    penalised_cost: float
    gradient: Floats  # of the penalised cost, without the intercept's entry if that is not fitted
    hessian: Floats  # empty if all classes share one, or none was requested


@dataclass
class ClassProblems:
    """The problems of all classes on the same parts."""

    parts: Parts[ClassifierPart]
    loss: Loss
    sample_weights: SampleWeights
    fit_intercept: bool
    n_jobs: int | None
    penalties: Floats  # (n_classes,)
    has_common_hessian: bool  # a quadratic loss, and every sample labelled for all classes or none
    common_solver: Solver | None = None

    def evaluate(
        self, classes: Sequence[int], classifiers: Floats, wants_hessians: bool = True
    ) -> list[ClassifierPoint]:
        """Return the points of some classes at these classifiers."""
        wanted = [wants_hessians and self.common_solver is None] * len(classes)
        if self.has_common_hessian:
            wanted[1:] = [False] * (len(classes) - 1)
        loss = self.loss
        request = ExpansionRequest(loss, loss.curvature, self.sample_weights, classes, classifiers, wanted, self.n_jobs)
        return self.points_from(request, self.parts.add_up(expand_part, request))

    def points_from(self, request: ExpansionRequest, expansion: Expansion) -> list[ClassifierPoint]:
        """Return the points, from sums over all parts."""
        hessians = iter(expansion.hessians)
        own = [next(hessians) if wanted else np.empty((0, 0)) for wanted in request.hessians]
        if self.has_common_hessian and self.common_solver is None:
            self.common_solver = self._factorise(own[0], self.penalties[request.classes[0]])
        return [
            self._make_point(*row)
            for row in zip(request.classes, request.classifiers, expansion.costs, expansion.gradients, own, strict=True)
        ]

    def _make_point(
        self, j: int, classifier: Floats, cost: float, gradient: Floats, hessian: Floats
    ) -> ClassifierPoint:
        coef, penalty = classifier[:-1], self.penalties[j]
        gradient = gradient + penalty * np.append(coef, 0.0)
        return ClassifierPoint(
            classifier,
            float(cost),
            float(cost + penalty / 2 * (coef @ coef)),
            gradient if self.fit_intercept else gradient[:-1],
            hessian,
        )

    def find_learners(
        self, classes: Sequence[int], points: Sequence[ClassifierPoint]
    ) -> Iterator[tuple[Floats, float]]:
        """Yield the base learner of each class, and the slope of its cost along it."""

        def solve(block: slice, _: None) -> Floats:
            point = points[block.start]
            solver = self.common_solver or self._factorise(point.hessian, self.penalties[classes[block.start]])
            return solver(-point.gradient)

        for point, step in zip(points, _map_classes(solve, range(len(classes)), self.n_jobs), strict=True):
            learner = np.zeros_like(point.classifier)
            learner[: len(step)] = step
            yield learner, float(point.gradient @ step)

    def _factorise(self, hessian: Floats, penalty: float) -> Solver:
        diagonal = np.einsum("kk->k", hessian)  # a view that can be written to
        diagonal[:-1] += penalty
        diagonal[diagonal == 0] = 1  # no weight, no slope: any number leaves that coefficient as it is
        return _factorise(hessian if self.fit_intercept else hessian[:-1, :-1])


def _factorise(hessian: Floats) -> Solver:
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
    raise FloatingPointError("The Hessian of a classifier is not finite: squares of the codes overflow.")


def mean_curvature(loss: Loss) -> float:
    """Return the mean of the second derivative over the margins from -1 to 1; at a single margin a hinge has none."""
    left, right = loss.gradient(np.array([-1.0, 1.0]))
    return float(right - left) / 2


def scale_ridge(ridge: float, loss: Loss, squared_norms: Floats) -> Floats:
    """Return each class's penalty: relative to the Hessian's mean diagonal entry over the atoms in use.

    The reference point is fixed, so that all rounds, and all calls on the same codes, minimise one function.
    """
    used = squared_norms > 0
    mean_norms = [norms[use].mean() if use.any() else 0.0 for norms, use in zip(squared_norms, used, strict=True)]
    return ridge * mean_curvature(loss) * np.array(mean_norms)
