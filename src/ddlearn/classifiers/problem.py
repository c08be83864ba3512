r"""The problems of all classes: penalised costs, gradients and Hessians, as sums over parts.

.. math:: \sum_i \omega_i\, \Omega\bigl(l_{ij} (w_j^T x_i + b_j)\bigr) + \frac{\lambda_j}{2} \|w_j\|^2

A sample of weight :math:`\omega_i = 2` counts as two; without weights all are 1.  The Hessian is that of a weighted
least squares problem, with the sample weights of a trainer.  A round solves the normal equations of one class for a
base learner and adds it with the first step of 1, 1/2, 1/4, ... that brings enough of the predicted decrease (Armijo's
rule).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..codes import Floats, RowCodes
from ..kernels.codes import add_gradient, add_hessian, score_class
from ..losses import Loss
from ..parallel import Parts, map_blocks

Solver = Callable[[Floats], Floats]
SampleWeights = Callable[[Floats, Floats], Floats]  # weights from the loss's derivatives at the margins

# Shares of the diagonal, tried in turn until the Hessian has a Cholesky factor.
_JITTERS = (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0)
# What rounding leaves of a sum of costs, relative to it.
_ROUNDING = 16 * np.finfo(np.float64).eps
# A step must bring this share of the decrease that its slope predicts (Armijo's rule with its usual constant).
_SUFFICIENT_DECREASE = 1e-4
# 2^-40 of a step is lost in the rounding of the classifier.
_MAX_HALVINGS = 40
# The mean is this many times the median at most.
_LARGEST_MEAN = 10
# Memory for the Hessians of classes that are trained together; the other classes wait.
_HESSIAN_BYTES = 2**27


class CodeSummary(NamedTuple):
    """What a trainer needs to know before the first round."""

    squared_norms: Floats  # (n_classes, n_components) of the atoms' coefficients
    n_of_label: Floats  # (2, n_classes) number of labels -1, and +1
    n_unknown: int  # labels of 0 among samples that are labelled for another class


class ExpansionRequest(NamedTuple):
    """Which classes to expand, and where."""

    loss: Loss
    curvature: Callable[[Floats], Floats]  # of margins: the loss's own, or that of its surrogate
    sample_weights: SampleWeights | None  # None: the curvature
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
    weights: NDArray[np.float64] | None = field(default=None, kw_only=True)  # (n_samples,), None if all are 1

    def summarise(self, n_components: int) -> CodeSummary:
        """Count labels and add up squared coefficients."""
        squares = self.codes.values.astype(np.float64) ** 2
        if self.weights is not None:
            squares *= self.weights[:, None]
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
            np.array([sum_weights(self.labels == label, self.weights) for label in (-1, 1)], dtype=np.float64),
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
            codes, labels, sample_weight = self._select(request.classes[position])
            with np.errstate(over="ignore", invalid="ignore"):
                margins = labels * _measure_scores(codes, request.classifiers[position])
                values = request.loss.value(margins)
                costs[position] = values.sum() if sample_weight is None else values @ sample_weight
                slopes = request.loss.gradient(margins)
                weights = request.curvature(margins) if request.hessians[position] else None
                if weights is not None and request.sample_weights is not None:
                    weights = request.sample_weights(slopes, weights)
                if sample_weight is not None:
                    slopes = slopes * sample_weight
                    weights = None if weights is None else weights * sample_weight
                add_gradient(codes.indices, codes.values, labels * slopes, gradients[position])
                if weights is not None:
                    add_hessian(codes.indices, codes.values, weights, hessians[places[position]])

        _map_classes(expand_class, range(n_classes), request.n_jobs)
        return Expansion(costs, gradients, hessians)

    def _select(self, class_number: int) -> tuple[RowCodes, Floats, Floats | None]:
        """Return codes, labels and weights of the samples that are labelled for a class; all sums are in float64."""
        labels = self.labels[:, class_number]
        known = labels != 0
        codes = self.codes if known.all() else self.codes.rows(np.flatnonzero(known))
        return (
            RowCodes(np.ascontiguousarray(codes.indices), np.ascontiguousarray(codes.values)),
            np.ascontiguousarray(labels[known], np.float64),
            None if self.weights is None else self.weights[known],
        )


def sum_weights(is_counted: NDArray[np.bool_], weights: NDArray[np.float64] | None) -> NDArray:
    """Return the weight of the rows that are counted, in each column; their number if all weights are 1."""
    return np.count_nonzero(is_counted, axis=0) if weights is None else weights @ is_counted


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


class ClassifierPoint(NamedTuple):
    """A classifier of one class, with the cost there and its derivatives."""

    classifier: Floats
    cost: float  # with the penalty
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
    reference: Floats  # (n_classes, n_components + 1) typical diagonals of the Hessians, the units of gradients
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

    def measure_gradient(self, j: int, point: ClassifierPoint) -> float:
        """Return the norm of a gradient in units that make it the same for any unit of the codes."""
        gradient, reference = point.gradient, self.reference[j, : len(point.gradient)]
        return float(np.sqrt(np.sum(gradient**2 / np.where(reference > 0, reference, 1))))

    def _factorise(self, hessian: Floats, penalty: float) -> Solver:
        diagonal = np.einsum("kk->k", hessian)  # a view that can be written to
        diagonal[:-1] += penalty
        diagonal[diagonal == 0] = 1  # no weight, no slope: any number leaves that coefficient as it is
        return _factorise(hessian if self.fit_intercept else hessian[:-1, :-1])


def _factorise(hessian: Floats) -> Solver:
    """Return a function that solves with the matrix whose lower triangle is given."""
    diagonal = np.einsum("kk->k", hessian)
    first = diagonal.copy()
    for jitter in np.diff(_JITTERS, prepend=0.0):
        diagonal += jitter * first  # of each entry: coefficients and intercept have different units
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
    return ridge * mean_curvature(loss) * np.array([_average_used(norms[norms > 0]) for norms in squared_norms])


def _average_used(squared_norms: Floats) -> float:
    # With fewer features than atoms some codes are huge and cancel each other, which must not shrink all classifiers.
    if squared_norms.size == 0:
        return 0.0
    return float(min(squared_norms.mean(), _LARGEST_MEAN * np.median(squared_norms)))


class Rounds(NamedTuple):
    """How many rounds there are, and what they minimise."""

    sample_weights: SampleWeights
    ridge: float
    max_rounds: int
    tol: float


def train_in_rounds(
    rounds: Rounds,
    parts: Parts[ClassifierPart],
    loss: Loss,
    coef: Floats,
    intercept: Floats,
    fit_intercept: bool,
    penalties: Floats | None,
    n_jobs: int | None,
) -> tuple[Floats, Floats]:
    """Improve the classifiers of all classes; no round raises a penalised cost."""
    given = np.column_stack([coef, intercept]).astype(np.float64)
    groups = _group_classes(*coef.shape)
    # All that the first round needs, in one visit to the samples: with a quadratic loss all classes share one Hessian,
    # unless some labels are unknown.
    wanted = [not loss.is_quadratic or j == 0 for j in groups[0]]
    weights = None if loss.is_quadratic else rounds.sample_weights
    request = ExpansionRequest(loss, loss.curvature, weights, groups[0], given[groups[0]], wanted, n_jobs)
    summary, expansion = parts.add_up(summarise_and_expand, coef.shape[1], request)
    if penalties is None:
        penalties = scale_ridge(rounds.ridge, loss, summary.squared_norms)
    curvatures = mean_curvature(loss) * np.column_stack([summary.squared_norms, summary.n_of_label.sum(axis=0)])
    problems = ClassProblems(
        parts,
        loss,
        rounds.sample_weights,
        fit_intercept,
        n_jobs,
        penalties,
        curvatures + np.append(np.ones(coef.shape[1]), 0) * penalties[:, None],
        has_common_hessian=loss.is_quadratic and summary.n_unknown == 0 and len(set(penalties)) == 1,
    )
    given[:, :-1][summary.squared_norms == 0] = 0  # of atoms that no sample uses, which changes no score
    trained = given.copy()
    for group in groups:
        if group is groups[0] and (all(wanted) or problems.has_common_hessian):
            start = problems.points_from(request._replace(classifiers=given[group]), expansion)
        else:
            start = problems.evaluate(group, given[group])
        points = _choose_start(problems, dict(zip(group, start, strict=True)), summary)
        for j, point in _add_learners(rounds, problems, points, coef.dtype).items():
            trained[j] = point.classifier
    return trained[:, :-1].astype(coef.dtype), trained[:, -1].astype(intercept.dtype)


def _group_classes(n_classes: int, n_components: int) -> list[list[int]]:
    """Return the groups of classes that are trained together."""
    at_once = max(1, _HESSIAN_BYTES // (8 * (n_components + 1) ** 2))
    return [list(range(start, min(start + at_once, n_classes))) for start in range(0, n_classes, at_once)]


def _round(classifiers: Floats, dtype: np.dtype) -> Floats:
    """Round as the result will be, so that costs are those of the returned classifiers."""
    return classifiers.astype(dtype).astype(np.float64)


def _choose_start(
    problems: ClassProblems, points: dict[int, ClassifierPoint], summary: CodeSummary
) -> dict[int, ClassifierPoint]:
    """Start from zero where that costs less than the classifier given, which could take many rounds to recover."""
    zeros = {}
    for j, point in points.items():
        classifier = np.zeros_like(point.classifier)
        if not problems.fit_intercept:
            classifier[-1] = point.classifier[-1]
        n_negative, n_positive = summary.n_of_label[:, j]
        with np.errstate(over="ignore", invalid="ignore"):
            of_negative, of_positive = problems.loss.value(np.array([-classifier[-1], classifier[-1]]))
        if not point.cost <= n_negative * of_negative + n_positive * of_positive:
            zeros[j] = classifier
    if not zeros:
        return points
    return points | dict(zip(zeros, problems.evaluate(list(zeros), np.array(list(zeros.values()))), strict=True))


def _take_steps(
    problems: ClassProblems,
    here: dict[int, ClassifierPoint],
    learners: dict[int, tuple[Floats, float]],
    dtype: np.dtype,
    is_last: bool,
) -> dict[int, ClassifierPoint]:
    """Add base learners, halved until the penalised cost falls enough; leave out classes for which it never does."""
    there: dict[int, ClassifierPoint] = {}
    waiting = list(learners)
    for step in 0.5 ** np.arange(_MAX_HALVINGS):
        classifiers = _round(np.array([here[j].classifier + step * learners[j][0] for j in waiting]), dtype)
        for j, tried in zip(waiting, problems.evaluate(waiting, classifiers, not is_last), strict=True):
            slope, cost = learners[j][1], here[j].cost
            # False where the cost overflowed
            if tried.cost <= cost + _SUFFICIENT_DECREASE * step * slope + _ROUNDING * cost:
                there[j] = tried
        # A step that rounding undoes leads nowhere.
        is_moving = (classifiers != [here[j].classifier for j in waiting]).any(axis=1)
        waiting = [j for j, moves in zip(waiting, is_moving, strict=True) if moves and j not in there]
        if not waiting:
            break
    return there


def _add_learners(
    rounds: Rounds, problems: ClassProblems, here: dict[int, ClassifierPoint], dtype: np.dtype
) -> dict[int, ClassifierPoint]:
    """Return the points of classes after all rounds."""
    first = {j: problems.measure_gradient(j, point) for j, point in here.items()}
    # Of a classifier that is rounded, the cost is known no better.
    resolution = max(_ROUNDING, float(np.finfo(dtype).eps) ** 2)
    active = list(here)
    for round_number in range(rounds.max_rounds):
        found = problems.find_learners(active, [here[j] for j in active])
        learners = {
            j: (learner, slope)
            for j, (learner, slope) in zip(active, found, strict=True)
            if -slope / 2 > resolution * here[j].cost  # half the slope is what a parabola falls by
        }
        if not learners:
            break
        there = _take_steps(problems, here, learners, dtype, is_last=round_number == rounds.max_rounds - 1)
        here = here | there
        active = [j for j, point in there.items() if problems.measure_gradient(j, point) > rounds.tol * first[j]]
        if not active:
            break
    return here
