r"""The problems of all classes: penalised costs, gradients and Hessians, as sums over parts.

.. math:: \sum_i \omega_i\, \Omega\bigl(l_{ij} (w_j^T x_i + b_j)\bigr) + \frac{\lambda_j}{2} \|w_j\|^2

A sample of weight :math:`\omega_i = 2` counts as two; by default all are 1.  The Hessian is that of a weighted
least squares problem, with the sample weights of a trainer.  A round solves the normal equations of one class for a
base learner and adds it with the first step of 1, 1/2, 1/4, ... that brings enough of the predicted decrease (Armijo's
rule).

Hessians of many classes and atoms cost far more than gradients.  Such classes share the mean of their Hessians, which
is factorised once, and each corrects it by what its own steps have shown (L-BFGS; Nocedal and Wright, "Numerical
Optimization", Algorithm 7.4).  Those that this does not bring to the end go on with their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from operator import methodcaller
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from ..kernels.codes import add_gradient, add_hessian, score_class
from ..model.codes import Floats, RowCodes
from ..model.losses import Loss
from ..parallel import Parts, map_blocks, single_threaded_blas

Solver = Callable[[Floats], Floats]
WantedHessians = Literal["each", "mean", "none"]
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
# Memory for the Hessians of classes that are trained together. If those of all classes need more, they share one.
_HESSIAN_BYTES = 2**26
# Rounds with a shared Hessian, and steps that correct it. A loss with a smooth curvature needs about 20 rounds.
_MAX_SHARED_ROUNDS = 30
_MAX_SECANTS = 10


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
    hessians: WantedHessians  # those of the classes, the mean of them, or none
    n_jobs: int | None


class Expansion(NamedTuple):
    """Costs of some classes to second order, without their penalties."""

    costs: Floats  # (n,)
    gradients: Floats  # (n, n_components + 1)
    hessians: Floats  # (n_hessians, n_components + 1, n_components + 1), lower triangles


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
    weights: NDArray[np.float64] | float = field(default=1.0, kw_only=True)  # (n_samples,), or that of all

    def summarise(self, n_components: int) -> CodeSummary:
        """Count labels and add up squared coefficients."""
        known, weights = self.labels != 0, np.broadcast_to(self.weights, len(self.labels))
        squares = weights[:, None] * self.codes.values.astype(np.float64) ** 2
        norms_of_known = {}  # most often all classes are known for the same samples
        for column in known.T:
            if column.tobytes() not in norms_of_known:
                indices = self.codes.indices[column].ravel()
                norms = np.bincount(indices, weights=squares[column].ravel(), minlength=n_components)
                norms_of_known[column.tobytes()] = norms
        return CodeSummary(
            np.array([norms_of_known[column.tobytes()] for column in known.T]),
            np.array([weights @ (self.labels == label) for label in (-1, 1)]),
            int(np.count_nonzero(~known[known.any(axis=1)])),
        )

    def expand(self, request: ExpansionRequest) -> Expansion:
        """Expand the costs of these samples; sums are in float64."""
        n_classes, n_places = request.classifiers.shape
        costs, gradients = np.empty(n_classes), np.zeros((n_classes, n_places))
        n_hessians = {"each": n_classes, "mean": 1, "none": 0}[request.hessians]
        hessians = np.zeros((n_hessians, n_places, n_places))
        all_weights = np.broadcast_to(self.weights, len(self.labels))
        curvatures = np.zeros((n_classes if request.hessians == "mean" else 0, len(self.labels)))

        def expand_class(block: slice, _: None) -> None:
            place = block.start
            labels, codes, weights = self.labels[:, request.classes[place]], self.codes, all_weights
            is_known = labels != 0
            if not is_known.all():
                rows = np.flatnonzero(is_known)
                labels, codes, weights = labels[rows], codes.rows(rows), weights[rows]
            labels, arrays = labels.astype(np.float64), [*map(np.ascontiguousarray, codes)]
            scores = np.empty(len(labels))
            score_class(*arrays, np.ascontiguousarray(request.classifiers[place]), scores)
            with np.errstate(over="ignore", invalid="ignore"):
                margins = labels * scores
                values, slopes = request.loss.value(margins), request.loss.gradient(margins)
                costs[place] = np.sum(weights * values)
                add_gradient(*arrays, labels * (weights * slopes), gradients[place])
                if request.hessians != "none":
                    curvature = request.curvature(margins)
                    if request.sample_weights is not None:
                        curvature = request.sample_weights(slopes, curvature)
                    if request.hessians == "each":
                        add_hessian(*arrays, weights * curvature, hessians[place])
                    else:
                        curvatures[place, is_known] = weights * curvature

        _map_classes(expand_class, n_classes, request.n_jobs)
        if request.hessians == "mean":
            add_hessian(*map(np.ascontiguousarray, self.codes), curvatures.mean(axis=0), hessians[0])
        return Expansion(costs, gradients, hessians)


def _map_classes(work: Callable[[slice, None], object], n_classes: int, n_jobs: int | None) -> list:
    return map_blocks(work, [slice(j, j + 1) for j in range(n_classes)], lambda: None, n_jobs=n_jobs)


def summarise_and_expand(part: ClassifierPart, request: ExpansionRequest) -> tuple[CodeSummary, Expansion]:
    """Return the summary and the expansion of a part, in one visit."""
    return part.summarise(request.classifiers.shape[1] - 1), part.expand(request)


class ClassifierPoint(NamedTuple):
    """A classifier of one class, with the cost there and its derivatives."""

    classifier: Floats
    cost: float  # with the penalty
    gradient: Floats  # of the penalised cost, without the intercept's entry if that is not fitted
    hessian: Floats | None  # None if all classes share one, or none was requested


@dataclass
class ClassProblems:
    """The problems of all classes on the same parts."""

    parts: Parts[ClassifierPart]
    loss: Loss
    sample_weights: SampleWeights | None
    fit_intercept: bool
    n_jobs: int | None
    penalties: Floats  # (n_classes,)
    reference: Floats  # (n_classes, n_components + 1) typical diagonals of the Hessians, the units of gradients
    shared_solver: Solver | None = None  # with the mean of the Hessians, if classes share that
    # Of the last rounds with a shared Hessian: the steps of all classes, and the changes of their gradients.
    secants: list[tuple[Floats, Floats]] = field(default_factory=list)

    def evaluate(
        self, classes: Sequence[int], classifiers: Floats, wants_hessians: bool = True
    ) -> dict[int, ClassifierPoint]:
        """Return the points of some classes at these classifiers."""
        wanted: WantedHessians = "each" if wants_hessians and self.shared_solver is None else "none"
        loss = self.loss
        request = ExpansionRequest(loss, loss.curvature, self.sample_weights, classes, classifiers, wanted, self.n_jobs)
        return self.points_from(request, self.parts.add_up(methodcaller("expand", request)))

    def points_from(self, request: ExpansionRequest, expansion: Expansion) -> dict[int, ClassifierPoint]:
        """Return the points, from sums over all parts."""
        points = {}
        for place, (j, classifier) in enumerate(zip(request.classes, request.classifiers, strict=True)):
            coef, penalty = classifier[:-1], self.penalties[j]
            cost = float(expansion.costs[place] + penalty / 2 * (coef @ coef))
            gradient = expansion.gradients[place] + penalty * np.append(coef, 0.0)
            hessian = expansion.hessians[place] if request.hessians == "each" else None
            points[j] = ClassifierPoint(classifier, cost, gradient[: self.n_fitted], hessian)
        return points

    @property
    def n_fitted(self) -> int:
        """The number of entries of a classifier that are fitted: all, or all but the intercept."""
        return self.reference.shape[1] - (not self.fit_intercept)

    def find_steps(self, classes: Sequence[int], points: Sequence[ClassifierPoint]) -> Floats | list[Floats]:
        """Return the base learner of each class, as far as it is fitted."""
        if self.shared_solver is not None:
            return self._correct_steps(self.shared_solver, classes, points)

        def solve(block: slice, _: None) -> Floats:
            point = points[block.start]
            return self.factorise(point.hessian, self.penalties[classes[block.start]])(-point.gradient)

        return _map_classes(solve, len(classes), self.n_jobs)

    def _correct_steps(self, solver: Solver, classes: Sequence[int], points: Sequence[ClassifierPoint]) -> Floats:
        rest = -np.array([point.gradient for point in points])
        secants = [(steps[classes], changes[classes]) for steps, changes in self.secants]
        shares = []
        for steps, changes in reversed(secants):
            shares.append(np.vecdot(steps, rest) * _invert(np.vecdot(steps, changes)))
            rest -= shares[-1][:, None] * changes
        with single_threaded_blas():
            found = solver(rest.T).T
            if secants:
                # Each class has its own scale, that of its last step.
                in_units = np.vecdot(changes := secants[-1][1], solver(changes.T).T)
                scales = np.vecdot(*secants[-1]) * _invert(in_units)
                found = found * np.where(scales > 0, scales, 1)[:, None]
        for (steps, changes), share in zip(secants, reversed(shares), strict=True):
            found += (share - np.vecdot(changes, found) * _invert(np.vecdot(steps, changes)))[:, None] * steps
        return found

    def remember(self, here: dict[int, ClassifierPoint], there: dict[int, ClassifierPoint]) -> None:
        """Keep what steps with a shared Hessian have shown."""
        if self.shared_solver is None:
            return
        steps, changes = np.zeros((2, len(self.penalties), self.n_fitted))
        for j, point in there.items():
            steps[j] = (point.classifier - here[j].classifier)[: self.n_fitted]
            changes[j] = point.gradient - here[j].gradient
        self.secants = [*self.secants, (steps, changes)][-_MAX_SECANTS:]

    def measure_gradient(self, j: int, point: ClassifierPoint) -> float:
        """Return the norm of a gradient in units that make it the same for any unit of the codes."""
        reference = self.reference[j, : self.n_fitted]
        return float(np.sqrt(np.sum(point.gradient**2 / np.where(reference > 0, reference, 1))))

    def factorise(self, hessian: Floats, penalty: float) -> Solver:
        """Return a function that solves with the Hessian of a penalised cost; the array is overwritten."""
        diagonal = np.einsum("kk->k", hessian)  # a view that can be written to
        diagonal[:-1] += penalty
        diagonal[diagonal == 0] = 1  # no weight, no slope: any number leaves that coefficient as it is
        return _factorise(hessian[: self.n_fitted, : self.n_fitted])


def _invert(curvatures: Floats) -> Floats:
    """Return inverses, and zero where rounding has left no curvature."""
    return np.divide(1, curvatures, out=np.zeros_like(curvatures), where=curvatures > 0)


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
    used = [norms[norms > 0] for norms in squared_norms]
    # With fewer features than atoms some codes are huge and cancel each other, which must not shrink all classifiers.
    means = [min(norms.mean(), _LARGEST_MEAN * np.median(norms)) if norms.size else 0.0 for norms in used]
    return ridge * mean_curvature(loss) * np.array(means)


def train_in_rounds(
    trainer: Any,  # a ClassifierTrainer, whose file imports this one
    parts: Parts[ClassifierPart],
    loss: Loss,
    coef: Floats,
    intercept: Floats,
    penalties: Floats | None,
    n_jobs: int | None,
) -> tuple[Floats, Floats]:
    """Improve the classifiers of all classes; no round raises a penalised cost."""
    given = np.column_stack([coef, intercept]).astype(np.float64)
    problems, here = _pose(trainer, parts, loss, given, penalties, n_jobs)
    goals = {j: trainer.tol * problems.measure_gradient(j, point) for j, point in here.items()}
    unfinished, n_rounds = list(here), trainer.max_rounds
    if problems.shared_solver is not None:
        unfinished = _add_learners(problems, here, goals, min(n_rounds, _MAX_SHARED_ROUNDS), coef.dtype)
        problems.shared_solver, n_rounds = None, n_rounds - _MAX_SHARED_ROUNDS
    for group in _group_classes(unfinished, coef.shape[1]) if n_rounds > 0 else []:
        points = {j: here.pop(j) for j in group}
        if points[group[0]].hessian is None:
            classifiers = np.array([point.classifier for point in points.values()])
            points = problems.evaluate(group, classifiers)
        _add_learners(problems, points, goals, n_rounds, coef.dtype)
        here |= points
    trained = np.array([here[j].classifier for j in range(len(coef))])
    return trained[:, :-1].astype(coef.dtype), trained[:, -1].astype(intercept.dtype)


def _pose(
    trainer: Any, parts: Parts[ClassifierPart], loss: Loss, given: Floats, penalties: Floats | None, n_jobs: int | None
) -> tuple[ClassProblems, dict[int, ClassifierPoint]]:
    """Return the problems of all classes, and where they start: at the classifiers given, or at zero."""
    classes, n_components = range(len(given)), given.shape[1] - 1
    has_many = len(_group_classes(classes, n_components)) > 1
    # All that the first round needs, in one visit to the samples.
    wanted: WantedHessians = "mean" if loss.is_quadratic or has_many else "each"
    weights = None if loss.is_quadratic else trainer.sample_weights
    request = ExpansionRequest(loss, loss.curvature, weights, classes, given, wanted, n_jobs)
    summary, expansion = parts.add_up(summarise_and_expand, request)
    if penalties is None:
        penalties = scale_ridge(trainer.ridge, loss, summary.squared_norms)
    curvatures = mean_curvature(loss) * np.column_stack([summary.squared_norms, summary.n_of_label.sum(axis=0)])
    reference = curvatures + np.append(np.ones(n_components), 0) * penalties[:, None]
    problems = ClassProblems(parts, loss, weights, trainer.fit_intercept, n_jobs, penalties, reference)
    given[:, :-1][summary.squared_norms == 0] = 0  # of atoms that no sample uses, which changes no score
    # With a quadratic loss all classes have the same Hessian, unless some labels are unknown.
    has_common = loss.is_quadratic and summary.n_unknown == 0 and len(set(penalties)) == 1
    shares = has_common or has_many
    if shares or wanted == "each":
        points = problems.points_from(request._replace(classifiers=given), expansion)
    else:
        points = problems.evaluate(classes, given)
    here = _choose_start(problems, points, summary, wants_hessians=not shares)
    if shares:
        start = np.array([here[j].classifier for j in classes])
        if not loss.is_quadratic and not np.array_equal(start, given):
            expansion = parts.add_up(methodcaller("expand", request._replace(classifiers=start)))
        problems.shared_solver = problems.factorise(expansion.hessians[0], penalties.mean())
    return problems, here


def _group_classes(classes: Sequence[int], n_components: int) -> list[list[int]]:
    """Return the groups of classes whose Hessians are in memory together."""
    at_once = max(1, _HESSIAN_BYTES // (8 * (n_components + 1) ** 2))
    return [list(classes[start : start + at_once]) for start in range(0, len(classes), at_once)]


def _choose_start(
    problems: ClassProblems, points: dict[int, ClassifierPoint], summary: CodeSummary, wants_hessians: bool
) -> dict[int, ClassifierPoint]:
    """Start from zero where that costs less than the classifier given, which could take many rounds to recover."""
    zeros = {}
    for j, point in points.items():
        classifier = np.where(np.arange(len(point.classifier)) < problems.n_fitted, 0, point.classifier)
        n_negative, n_positive = summary.n_of_label[:, j]
        with np.errstate(over="ignore", invalid="ignore"):
            of_negative, of_positive = problems.loss.value(np.array([-classifier[-1], classifier[-1]]))
        if not point.cost <= n_negative * of_negative + n_positive * of_positive:
            zeros[j] = classifier
    if not zeros:
        return points
    return points | problems.evaluate(list(zeros), np.array(list(zeros.values())), wants_hessians)


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
        moved = [here[j].classifier + step * learners[j][0] for j in waiting]
        classifiers = np.array(moved).astype(dtype).astype(np.float64)  # with the costs of what is returned
        for j, tried in problems.evaluate(waiting, classifiers, not is_last).items():
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
    problems: ClassProblems, here: dict[int, ClassifierPoint], goals: dict[int, float], n_rounds: int, dtype: np.dtype
) -> list[int]:
    """Move the points of classes through all rounds; return the classes that more rounds would improve."""
    # Of a classifier that is rounded, the cost is known no better.
    resolution = max(_ROUNDING, float(np.finfo(dtype).eps) ** 2)
    active = list(here)
    for round_number in range(n_rounds):
        learners = {}
        for j, step in zip(active, problems.find_steps(active, [here[j] for j in active]), strict=True):
            slope = float(here[j].gradient @ step)
            if -slope / 2 > resolution * here[j].cost:  # half the slope is what a parabola falls by
                learners[j] = np.append(step, np.zeros(len(here[j].classifier) - len(step))), slope
        for j in active:  # makes room for the Hessians of the next round
            here[j] = here[j]._replace(hessian=None)
        if not learners:
            return []
        there = _take_steps(problems, here, learners, dtype, is_last=round_number == n_rounds - 1)
        problems.remember(here, there)
        here |= there
        active = [j for j, point in there.items() if problems.measure_gradient(j, point) > goals[j]]
        if not active:
            break
    return active
