"""The mechanism of all trainers: rounds that add weighted least squares regressors, halved until the cost falls.

A round solves the normal equations of one class for a base learner and adds it with the first step of 1, 1/2, 1/4, ...
that brings enough of the promised decrease (Armijo's rule).
"""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_scalar

from ..codes import RowCodes
from ..losses import Loss
from ..parallel import LocalParts, Parts
from .problem import (
    Array,
    ClassProblems,
    ExpansionRequest,
    HasLabelledCodes,
    LabelledCodes,
    Standing,
    Survey,
    scale_ridge,
    survey_and_expand,
    survey_part,
    weigh_by_curvature,
)

# A step must bring this share of the decrease that its slope promises (Armijo's rule with its usual constant).
_SUFFICIENT_DECREASE = 1e-4
# 2^-40 of a step is lost in the rounding of the classifier.
_MAX_HALVINGS = 40


# Hessians of classes that are trained together take no more memory than this; the other classes wait.
_HESSIAN_BYTES = 2**27


def _group_classes(n_classes: int, n_components: int) -> list[list[int]]:
    """Return which classes are trained together."""
    at_once = max(1, _HESSIAN_BYTES // (8 * (n_components + 1) ** 2))
    return [list(range(start, min(start + at_once, n_classes))) for start in range(0, n_classes, at_once)]


def _round(classifiers: Array, dtype: np.dtype) -> Array:
    """Return classifiers as they will be stored, so that what is measured is what is returned."""
    return classifiers.astype(dtype).astype(np.float64)


def _leave_worse_than_none(
    problems: ClassProblems, standings: dict[int, Standing], survey: Survey
) -> dict[int, Standing]:
    """Return where to start: a classifier that is worse than none would take many rounds to come back from."""
    none = {}
    for j, standing in standings.items():
        classifier = np.zeros_like(standing.classifier)
        if not problems.fit_intercept:
            classifier[-1] = standing.classifier[-1]
        n_negative, n_positive = survey.n_of_label[:, j]
        with np.errstate(over="ignore", invalid="ignore"):
            of_negative, of_positive = problems.loss.value(np.array([-classifier[-1], classifier[-1]]))
        if not standing.penalised_cost <= n_negative * of_negative + n_positive * of_positive:
            none[j] = classifier
    if not none:
        return standings
    return standings | dict(zip(none, problems.stand_at(list(none), np.array(list(none.values()))), strict=True))


def _take_steps(
    problems: ClassProblems,
    here: dict[int, Standing],
    learners: dict[int, tuple[Array, float]],
    dtype: np.dtype,
    is_last: bool,
) -> dict[int, Standing]:
    """Add base learners, halved until the penalised cost falls enough; classes for which it never does are left out."""
    there: dict[int, Standing] = {}
    waiting = list(learners)
    for step in 0.5 ** np.arange(_MAX_HALVINGS):
        classifiers = _round(np.array([here[j].classifier + step * learners[j][0] for j in waiting]), dtype)
        for j, tried in zip(waiting, problems.stand_at(waiting, classifiers, not is_last), strict=True):
            slope = learners[j][1]
            # False where the cost overflowed
            if tried.penalised_cost <= here[j].penalised_cost + _SUFFICIENT_DECREASE * step * slope:
                there[j] = tried
        # A step that rounding undoes leads nowhere.
        is_moving = (classifiers != [here[j].classifier for j in waiting]).any(axis=1)
        waiting = [j for j, moves in zip(waiting, is_moving, strict=True) if moves and j not in there]
        if not waiting:
            break
    return there


def _add_learners(
    trainer: ClassifierTrainer, problems: ClassProblems, here: dict[int, Standing], dtype: np.dtype
) -> dict[int, Standing]:
    """Return where classes stand after all rounds."""
    active = list(here)
    for round_number in range(trainer.max_rounds):
        found = problems.find_learners(active, [here[j] for j in active])
        learners = {
            j: (learner, slope)
            for j, (learner, slope) in zip(active, found, strict=True)
            if -slope / 2 > trainer.tol * here[j].penalised_cost  # half the slope is what a parabola falls by
        }
        if not learners:
            break
        there = _take_steps(problems, here, learners, dtype, is_last=round_number == trainer.max_rounds - 1)
        here = here | there
        active = list(there)
        if not active:
            break
    return here


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

    Subclasses say which losses they are for (:meth:`supports`) and how a round weighs the samples (:meth:`weigh`), or
    implement :meth:`train` and set ``is_additive = False``.  :func:`ddlearn.check_classifier_trainer` verifies a
    trainer numerically.

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
        There is :meth:`train_on`: the samples are needed only through sums over them, so they may lie in several
        places.

    See Also
    --------
    check_classifier_trainer : Verify a trainer of your own.

    Examples
    --------
    A trainer of one's own may weigh each sample as it likes, since rounds are guarded by step halving:

    >>> import numpy as np
    >>> from ddlearn.classifiers import ClassifierTrainer, resolve_trainer
    >>> class EqualWeights(ClassifierTrainer):
    ...     def weigh(self, gradient, curvature):
    ...         return np.full_like(curvature, 0.25)
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
        """Return each sample's weight in the next round, not negative, from the loss's derivatives at its margin.

        It must not depend on the other samples, which may lie elsewhere.
        """
        return curvature

    def _check_parameters(self) -> None:
        check_scalar(self.ridge, "ridge", Real, min_val=0)
        check_scalar(self.max_rounds, "max_rounds", Integral, min_val=1)
        check_scalar(self.tol, "tol", Real, min_val=0)

    def penalties(self, codes: RowCodes, labels: Array, loss: Loss, n_components: int) -> Array:
        r"""Return the :math:`\lambda_j` that training on these samples uses, an array of shape (n_classes,)."""
        survey = survey_part(LabelledCodes(codes, labels), n_components)
        return scale_ridge(self.ridge, loss, survey.squared_norms)

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
        _check_arrays(codes, labels, coef, intercept)
        return self.train_on(
            LocalParts([LabelledCodes(codes, labels)]),
            loss,
            coef,
            intercept,
            fit_intercept=fit_intercept,
            n_jobs=n_jobs,
        )

    def train_on(
        self,
        parts: Parts[HasLabelledCodes],
        loss: Loss,
        coef: Array,
        intercept: Array,
        *,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
    ) -> tuple[Array, Array]:
        """Do what :meth:`train` does for samples in parts, which may lie in several places.

        Parameters
        ----------
        parts : Parts
            Each with ``codes`` and ``labels``; only sums over them are asked for.
        loss : Loss
            The cost of a margin.
        coef : ndarray of shape (n_classes, n_components)
            Where to start.
        intercept : ndarray of shape (n_classes,)
            Where to start.
        fit_intercept : bool, default=True
            Without it the intercepts stay as they are.
        n_jobs : int or None, default=None
            How many threads, here and where the parts are.

        Returns
        -------
        coef : ndarray of shape (n_classes, n_components)
            New coefficients.
        intercept : ndarray of shape (n_classes,)
            New intercepts.
        """
        self._check_parameters()
        given = np.column_stack([coef, intercept]).astype(np.float64)
        is_quadratic = getattr(loss, "is_quadratic", False)
        groups = _group_classes(*coef.shape)
        # All that the first round needs, in one visit to the samples: with a quadratic loss one Hessian is, as a rule,
        # that of all classes.
        wanted = [not is_quadratic or j == 0 for j in groups[0]]
        weigh = weigh_by_curvature if is_quadratic else self.weigh
        request = ExpansionRequest(loss, weigh, groups[0], given[groups[0]], wanted, n_jobs)
        survey, expansion = parts.add_up(survey_and_expand, coef.shape[1], request)
        problems = ClassProblems(
            parts,
            loss,
            self.weigh,
            fit_intercept,
            n_jobs,
            scale_ridge(self.ridge, loss, survey.squared_norms),
            has_common_hessian=is_quadratic and survey.n_unknown == 0,
        )
        given[:, :-1][survey.squared_norms == 0] = 0  # of atoms that no sample uses, which changes no score
        trained = given.copy()
        for group in groups:
            if group is groups[0] and (all(wanted) or problems.has_common_hessian):
                before = problems.read(request._replace(classifiers=given[group]), expansion)
            else:
                before = problems.stand_at(group, given[group])
            start = _leave_worse_than_none(problems, dict(zip(group, before, strict=True)), survey)
            after = _add_learners(self, problems, start, coef.dtype)
            for j, standing in zip(group, before, strict=True):
                # Every round lowers the penalised cost; the cost without the penalty may still have risen.
                trained[j] = after[j].classifier if after[j].cost <= standing.cost else standing.classifier
        return trained[:, :-1].astype(coef.dtype), trained[:, -1].astype(intercept.dtype)
