"""The mechanism of all trainers: rounds that add weighted least squares regressors, halved until the cost falls.

A round solves the normal equations of one class for a base learner and adds it with the first step of 1, 1/2, 1/4, ...
that brings enough of the promised decrease (Armijo's rule).
"""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_scalar

from ..blocks import map_blocks, single_threaded_blas
from ..codes import RowCodes
from ..losses import Loss
from .problem import Array, Iterate, Problem, Solver, pose_problem

# A step must bring this share of the decrease that its slope promises (Armijo's rule with its usual constant).
_SUFFICIENT_DECREASE = 1e-4
# 2^-40 of a step is lost in the rounding of the classifier.
_MAX_HALVINGS = 40


def _take_step(problem: Problem, here: Iterate, learner: Array, slope: float) -> Iterate | None:
    """Add the base learner, halved until the penalised cost falls enough; None where it never does."""
    learner_scores = problem.scores(learner)
    for step in 0.5 ** np.arange(_MAX_HALVINGS):
        there = problem.evaluate(here.classifier + step * learner, here.scores + step * learner_scores)
        # False where the cost overflowed
        if there.penalised_cost <= here.penalised_cost + _SUFFICIENT_DECREASE * step * slope:
            return there
    return None


def _add_learners(
    trainer: ClassifierTrainer, problem: Problem, start: Iterate, solver: Solver | None, hessian: Array
) -> Array:
    """Return the classifier after all rounds; without a ``solver`` every round factorises its own Hessian."""
    here = start
    for _ in range(trainer.max_rounds):
        margins = problem.labels * here.scores
        margin_slopes = problem.loss.gradient(margins)
        gradient = problem.gradient(here.classifier, margin_slopes)
        solve = solver
        if solve is None:
            solve = problem.factorise(trainer.weigh(margin_slopes, problem.loss.curvature(margins)), hessian)
        learner = np.zeros_like(here.classifier)
        learner[: len(gradient)] = solve(-gradient)
        slope = float(gradient @ learner[: len(gradient)])
        if -slope / 2 <= trainer.tol * here.penalised_cost:  # half the slope is what a parabola falls by
            break
        there = _take_step(problem, here, learner, slope)
        if there is None:
            break
        here = there
    return here.classifier


def _train_class(
    trainer: ClassifierTrainer, problem: Problem, given: Array, solver: Solver | None, hessian: Array
) -> Array:
    """Return the classifier of one class, with a data cost not above that of the given one."""
    classifier = np.append(np.where(problem.used, given[:-1], 0), given[-1]).astype(np.float64)
    zero = np.append(np.zeros(len(given) - 1), 0.0 if problem.fit_intercept else classifier[-1])
    with np.errstate(over="ignore", invalid="ignore"):  # where a cost overflows, it is not accepted
        before = problem.evaluate(classifier, problem.scores(classifier))
        no_classifier = problem.evaluate(zero, problem.scores(zero))
        # A warm start worse than no classifier at all would take many rounds to come back from.
        start = before if before.penalised_cost <= no_classifier.penalised_cost else no_classifier
        trained = _add_learners(trainer, problem, start, solver, hessian).astype(given.dtype).astype(np.float64)
        after = problem.evaluate(trained, problem.scores(trained))
    # Every round lowers the penalised cost; the cost without the penalty, or after rounding, may still have risen.
    return trained if after.data_cost <= before.data_cost else before.classifier


def _keep_labelled(codes: RowCodes, labels: Array) -> tuple[RowCodes, Array]:
    """Leave out the samples that are labelled for no class."""
    labelled = labels.any(axis=1)
    if not labelled.all():
        codes, labels = codes.rows(np.flatnonzero(labelled)), labels[labelled]
    return RowCodes(np.ascontiguousarray(codes.indices), np.ascontiguousarray(codes.values)), labels


def _check_arrays(codes: RowCodes, labels: Array, coef: Array, intercept: Array) -> None:
    """Kernels trust what they are given, so look here."""
    n_samples, n_classes, n_components = len(codes.indices), *coef.shape
    if labels.shape != (n_samples, n_classes) or intercept.shape != (n_classes,):
        raise ValueError(
            f"{n_samples} codes and coef of shape {coef.shape} need labels of shape {(n_samples, n_classes)} and "
            f"intercept of shape {(n_classes,)}, got {labels.shape} and {intercept.shape}."
        )
    if codes.indices.size and not 0 <= codes.indices.min() <= codes.indices.max() < n_components:
        raise ValueError(f"The codes use atom {codes.indices.max()}, but coef is for {n_components} atoms.")
    if not ((labels == 0) | (np.abs(labels) == 1)).all():
        raise ValueError("labels must be -1, +1, or 0 where a sample is not labelled for a class.")
    for name, array in (("coef", coef), ("intercept", intercept)):
        if not np.issubdtype(array.dtype, np.floating) or not np.isfinite(array).all():
            raise ValueError(f"{name} must hold finite floating-point numbers.")


class ClassifierTrainer(BaseEstimator):
    r"""Trains one linear classifier per class by adding linear base learners.

    A round adds to each class's classifier the weighted ridge regressor of the working responses.  It is halved until
    the penalised cost

    .. math:: \sum_i \Omega\bigl(l_{ij} (w_j^T x_i + b_j)\bigr) + \frac{\lambda_j}{2} \|w_j\|^2

    falls.  Here :math:`\lambda_j` is ``ridge`` times the mean diagonal entry of the Hessian over the atoms in use, at
    the loss's mean curvature between the margins -1 and 1, so that it does not change from round to round.
    Rounds are in float64 for codes of either precision.

    Subclasses say which losses they are for (:meth:`supports`) and how a round weighs the samples (:meth:`weigh`).
    A class need not derive from this one: an object with ``train`` is a trainer.
    :func:`check_classifier_trainer` says what is wrong with one.

    Parameters
    ----------
    ridge : float, default=1e-3
        Penalty on the coefficients, relative to the mean diagonal entry of the Hessian.  The intercept has none.
    max_rounds : int, default=10
        How many base learners at most are added for each class.
    tol : float, default=1e-4
        A class is done when the next round promises a decrease below this share of its cost.

    Attributes
    ----------
    is_additive : bool
        A round needs the samples only through sums over them, so they may lie in several places.

    See Also
    --------
    check_classifier_trainer : Says what is wrong with a trainer of one's own.

    Examples
    --------
    A trainer of one's own may weigh as it likes, since rounds are guarded by step halving:

    >>> from ddlearn.classifiers import ClassifierTrainer, resolve_trainer
    >>> class EqualWeights(ClassifierTrainer):
    ...     def weigh(self, gradient, curvature):
    ...         return 0 * curvature + curvature.mean()
    >>> resolve_trainer(EqualWeights(max_rounds=50), "logistic")
    EqualWeights(max_rounds=50)
    """

    is_additive = True

    def __init__(self, ridge: float = 1e-3, max_rounds: int = 10, tol: float = 1e-4):
        self.ridge = ridge
        self.max_rounds = max_rounds
        self.tol = tol

    def supports(self, loss: Loss) -> bool:
        """Return whether this trainer is for that loss."""
        return True

    def weigh(self, gradient: Array, curvature: Array) -> Array:
        """Return each sample's weight in the next round, not negative, from the loss's derivatives at its margin."""
        return curvature

    def _check_parameters(self) -> None:
        check_scalar(self.ridge, "ridge", Real, min_val=0)
        check_scalar(self.max_rounds, "max_rounds", Integral, min_val=1)
        check_scalar(self.tol, "tol", Real, min_val=0)

    def penalties(self, codes: RowCodes, labels: Array, loss: Loss, n_components: int) -> Array:
        r"""Return the :math:`\lambda_j` that training on these samples uses, an array of shape (n_classes,)."""
        problems = (pose_problem(codes, label, loss, self.ridge, n_components, True) for label in labels.T)
        return np.array([problem.penalty for problem in problems])

    def train(
        self,
        codes: RowCodes,
        labels: Array,
        loss: Loss,
        coef: Array,
        intercept: Array,
        *,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
    ) -> tuple[Array, Array]:
        """Improve the classifiers given.

        Parameters
        ----------
        codes : RowCodes
            The codes of the samples.
        labels : ndarray of shape (n_samples, n_classes)
            +1 or -1; 0 leaves a sample out of that class.
        loss : Loss
            The cost of a margin.
        coef : ndarray of shape (n_classes, n_components)
            Where to start.
        intercept : ndarray of shape (n_classes,)
            Where to start.
        fit_intercept : bool, default=True
            Without it the intercepts stay as they are.
        n_jobs : int or None, default=None
            How many threads, after joblib's conventions; each takes one class after another.

        Returns
        -------
        coef : ndarray of shape (n_classes, n_components)
            New coefficients, zero for atoms that no sample uses.
        intercept : ndarray of shape (n_classes,)
            New intercepts.  For no class is the sum of costs, without the penalty, above what it was.
        """
        self._check_parameters()
        _check_arrays(codes, labels, coef, intercept)
        codes, labels = _keep_labelled(codes, labels)
        n_classes, n_components = coef.shape

        def make_problem(j: int) -> Problem:
            return pose_problem(codes, labels[:, j], loss, self.ridge, n_components, fit_intercept)

        def make_hessian() -> Array:
            return np.empty((n_components + 1, n_components + 1))

        shared_solver = None
        if getattr(loss, "is_quadratic", False) and labels.all():  # all classes have the same Hessian
            with single_threaded_blas():
                shared_solver = make_problem(0).factorise_parabola(make_hessian())

        def train_class(block: slice, hessian: Array) -> Array:
            j = block.start
            return _train_class(self, make_problem(j), np.append(coef[j], intercept[j]), shared_solver, hessian)

        one_class_each = [slice(j, j + 1) for j in range(n_classes)]
        classifiers = np.array(map_blocks(train_class, one_class_each, make_hessian, n_jobs=n_jobs))
        return classifiers[:, :-1].astype(coef.dtype), classifiers[:, -1].astype(intercept.dtype)
