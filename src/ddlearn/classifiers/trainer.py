r"""Classifier trainers: rounds that add weighted least squares regressors, halved until the cost falls.

A round solves the normal equations of one class for a base learner and adds it with the first step of 1, 1/2, 1/4, ...
that brings enough of the predicted decrease (Armijo's rule).  The methods of the paper, square leverage for a quadratic
loss, AdaBoost for the exponential, LogitBoost for the logistic and a linear SVM for the smooth hinges, and Newton's
method for any loss, differ in the weight of a sample: with the loss's derivatives :math:`\Omega_1` and
:math:`\Omega_2` at its margin it is :math:`\Omega_2` for the first two, and
:math:`\max(\Omega_2, |\Omega_1| / z_{\max})` for the others.
"""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_scalar

from ..codes import RowCodes
from ..losses import Loss, resolve_loss
from ..parallel import LocalParts, Parts
from ..strategies import resolve
from .problem import (
    ClassifierPart,
    ClassifierPoint,
    ClassProblems,
    CodeSummary,
    ExpansionRequest,
    Floats,
    LabelledCodes,
    scale_ridge,
    summarise_and_expand,
    weigh_by_curvature,
)

# A step must bring this share of the decrease that its slope predicts (Armijo's rule with its usual constant).
_SUFFICIENT_DECREASE = 1e-4
# 2^-40 of a step is lost in the rounding of the classifier.
_MAX_HALVINGS = 40
# Memory for the Hessians of classes that are trained together; the other classes wait.
_HESSIAN_BYTES = 2**27


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
        if not point.penalised_cost <= n_negative * of_negative + n_positive * of_positive:
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
    trainer: ClassifierTrainer, problems: ClassProblems, here: dict[int, ClassifierPoint], dtype: np.dtype
) -> dict[int, ClassifierPoint]:
    """Return the points of classes after all rounds."""
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


def _check_arrays(codes: RowCodes, labels: Floats, coef: Floats, intercept: Floats) -> None:
    """Check here, because kernels do not."""
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

    Subclasses choose the sample weights of a round (:meth:`sample_weights`) and say which losses they are for
    (:meth:`supports`).  One that overrides :meth:`train` instead must set ``is_additive`` to False, or a fit will not
    call it.

    Parameters
    ----------
    ridge : float, default=1e-3
        Penalty on the coefficients, relative to the mean diagonal entry of the Hessian.  The intercept has none.
    max_rounds : int, default=10
        Maximum number of base learners per class.
    tol : float, default=1e-4
        A class is done when the predicted decrease of the next round is below this share of its cost.

    Attributes
    ----------
    is_additive : bool
        A fit calls :meth:`train_on`, which needs the samples only through sums, so that they may be in several places.

    See Also
    --------
    check_classifier_trainer : Tests a trainer of one's own.

    Examples
    --------
    Any positive sample weights will do, since rounds are guarded by step halving:

    >>> import numpy as np
    >>> from ddlearn.classifiers import ClassifierTrainer, resolve_trainer
    >>> class EqualWeights(ClassifierTrainer):
    ...     def sample_weights(self, gradient, curvature):
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

    def sample_weights(self, gradient: Floats, curvature: Floats) -> Floats:
        """Return the weight of each sample in the next round, not negative, from the loss's derivatives at its margin.

        It must not depend on the other samples, which may be elsewhere.
        """
        return curvature

    def _check_parameters(self) -> None:
        check_scalar(self.ridge, "ridge", Real, min_val=0)
        check_scalar(self.max_rounds, "max_rounds", Integral, min_val=1)
        check_scalar(self.tol, "tol", Real, min_val=0)

    def train(
        self,
        codes: RowCodes,
        labels: Floats,
        loss: Loss,
        coef: Floats,
        intercept: Floats,
        *,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
    ) -> tuple[Floats, Floats]:
        """Improve the classifiers given.

        Parameters
        ----------
        codes : RowCodes
            The codes of the samples.
        labels : ndarray of shape (n_samples, n_classes)
            +1 or -1, or 0 if it is not known.
        loss : Loss
            The cost of a margin.
        coef : ndarray of shape (n_classes, n_components)
            Initial coefficients.
        intercept : ndarray of shape (n_classes,)
            Initial intercepts.
        fit_intercept : bool, default=True
            If False, the intercepts stay as they are.
        n_jobs : int or None, default=None
            Number of threads, as in joblib; each takes one class after another.

        Returns
        -------
        coef : ndarray of shape (n_classes, n_components)
            New coefficients, zero for atoms that no sample uses.
        intercept : ndarray of shape (n_classes,)
            New intercepts.  The sum of costs, without the penalty, rises for no class.
        """
        _check_arrays(codes, labels, coef, intercept)
        parts: LocalParts[ClassifierPart] = LocalParts([LabelledCodes(codes, labels)])
        return self.train_on(parts, loss, coef, intercept, fit_intercept=fit_intercept, n_jobs=n_jobs)

    def train_on(
        self,
        parts: Parts[ClassifierPart],
        loss: Loss,
        coef: Floats,
        intercept: Floats,
        *,
        fit_intercept: bool = True,
        n_jobs: int | None = None,
    ) -> tuple[Floats, Floats]:
        """Do what :meth:`train` does for samples in parts, which may be in several places.

        Each part is a :class:`~ddlearn.classifiers.problem.LabelledCodes` or has the same two methods; only sums over
        parts are collected.  The other arguments are those of :meth:`train`.
        """
        self._check_parameters()
        given = np.column_stack([coef, intercept]).astype(np.float64)
        groups = _group_classes(*coef.shape)
        # All that the first round needs, in one visit to the samples: with a quadratic loss all classes share one
        # Hessian, unless some labels are unknown.
        wanted = [not loss.is_quadratic or j == 0 for j in groups[0]]
        weights = weigh_by_curvature if loss.is_quadratic else self.sample_weights
        request = ExpansionRequest(loss, loss.curvature, weights, groups[0], given[groups[0]], wanted, n_jobs)
        summary, expansion = parts.add_up(summarise_and_expand, coef.shape[1], request)
        problems = ClassProblems(
            parts,
            loss,
            self.sample_weights,
            fit_intercept,
            n_jobs,
            scale_ridge(self.ridge, loss, summary.squared_norms),
            has_common_hessian=loss.is_quadratic and summary.n_unknown == 0,
        )
        given[:, :-1][summary.squared_norms == 0] = 0  # of atoms that no sample uses, which changes no score
        trained = given.copy()
        for group in groups:
            if group is groups[0] and (all(wanted) or problems.has_common_hessian):
                before = problems.points_from(request._replace(classifiers=given[group]), expansion)
            else:
                before = problems.evaluate(group, given[group])
            start = _choose_start(problems, dict(zip(group, before, strict=True)), summary)
            after = _add_learners(self, problems, start, coef.dtype)
            for j, point in zip(group, before, strict=True):
                # Every round lowers the penalised cost; the cost without the penalty may still have risen.
                trained[j] = after[j].classifier if after[j].cost <= point.cost else point.classifier
        return trained[:, :-1].astype(coef.dtype), trained[:, -1].astype(intercept.dtype)


class SquareLev(ClassifierTrainer):
    r"""Square leverage for a quadratic loss, with linear least squares as the base regressor.

    Duffy and Helmbold's SquareLev.R relabels the samples with their residuals :math:`l - f(x)`, fits a base regressor
    and adds it with the best factor.  A linear regressor fitted to all atoms at once leaves residuals that no linear
    function can lower: **one round reaches ridge least squares**, and the factor is 1.  The mean residual, which the
    original adds at the end, is in the unpenalised intercept.

    Parameters
    ----------
    ridge : float, default=1e-3
        Penalty on the coefficients, relative to the mean diagonal entry of the Hessian.  The intercept has none.
    max_rounds : int, default=10
        Maximum number of base learners per class; one is enough.
    tol : float, default=1e-4
        A class is done when the predicted decrease of the next round is below this share of its cost.

    References
    ----------
    Duffy and Helmbold, "Boosting methods for regression", Machine Learning 47, 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from scipy.sparse import csr_array
    >>> from ddlearn import Square
    >>> from ddlearn.classifiers import SquareLev
    >>> from ddlearn.codes import RowCodes
    >>> codes = RowCodes.from_csr(csr_array([[1.0, 0.0], [2.0, 0.0], [0.0, 1.0]]), 1, float)
    >>> labels = np.array([[1.0], [-1.0], [-1.0]])
    >>> coef, intercept = SquareLev(ridge=0).train(codes, labels, Square(), np.zeros((1, 2)), np.zeros(1))
    >>> coef.round(6), intercept.round(6)
    (array([[-2., -4.]]), array([3.]))
    """

    def supports(self, loss: Loss) -> bool:
        return loss.is_quadratic


class AdaBoost(ClassifierTrainer):
    r"""Gentle AdaBoost for the exponential loss, with linear base learners.

    In a round sample i has the weight :math:`e^{-z_i}`, and the learner is fitted to the labels themselves: the working
    response of every margin is 1.  Discrete AdaBoost would add signs of linear functions, whose sum is not linear.

    Parameters
    ----------
    ridge : float, default=1e-3
        Penalty on the coefficients, relative to the mean diagonal entry of the Hessian.  The intercept has none.
    max_rounds : int, default=10
        Maximum number of base learners per class.
    tol : float, default=1e-4
        A class is done when the predicted decrease of the next round is below this share of its cost.

    References
    ----------
    Friedman, Hastie and Tibshirani, "Additive logistic regression", Annals of Statistics 28, 2000, Algorithm 4.

    Examples
    --------
    >>> from ddlearn import Exponential, Logistic
    >>> from ddlearn.classifiers import AdaBoost
    >>> AdaBoost().supports(Exponential()), AdaBoost().supports(Logistic())
    (True, False)
    """

    def supports(self, loss: Loss) -> bool:
        return loss.trainer == "ada_boost"


class Newton(ClassifierTrainer):
    r"""Newton's method for any convex loss, guarded by step halving.

    A sample's working response is the change of its margin, :math:`-\Omega_1/\Omega_2`, in Newton's method.  Where the
    loss is nearly straight, that is huge or infinite; such a sample gets the larger weight
    :math:`|\Omega_1|/z_{\max}`, which makes the response ``z_max`` and leaves the gradient as it is.

    Parameters
    ----------
    ridge : float, default=1e-3
        Penalty on the coefficients, relative to the mean diagonal entry of the Hessian.  The intercept has none.
    max_rounds : int, default=10
        Maximum number of steps per class.
    tol : float, default=1e-4
        A class is done when the predicted decrease of the next round is below this share of its cost.
    z_max : float, default=4.0
        The largest working response of a sample.

    Examples
    --------
    >>> from ddlearn.classifiers import Newton, resolve_trainer
    >>> resolve_trainer("newton", "logistic")
    Newton()
    """

    def __init__(self, ridge: float = 1e-3, max_rounds: int = 10, tol: float = 1e-4, z_max: float = 4.0):
        super().__init__(ridge, max_rounds, tol)
        self.z_max = z_max

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_scalar(self.z_max, "z_max", Real, min_val=0, include_boundaries="neither")

    def sample_weights(self, gradient: Floats, curvature: Floats) -> Floats:
        # If only the response were clipped, its product with the weight would no longer be the gradient, and rounds
        # would not converge to the minimum.
        return np.maximum(curvature, np.abs(gradient) / self.z_max)


class LogitBoost(Newton):
    r"""LogitBoost for the logistic loss, with linear base learners.

    In a round sample i has the weight :math:`p_i (1 - p_i)` and the response :math:`1/p_i`, where :math:`p_i` is
    the probability of its label; on the scale :math:`\ln(1 + e^{-z})` of the paper a learner is added whole, not by
    half.  Responses stop at ``z_max``.  The original keeps the weight of a clipped response; here the weight grows, so
    that their product remains the gradient and rounds converge to logistic regression also where samples are
    misclassified.

    Parameters
    ----------
    ridge : float, default=1e-3
        Penalty on the coefficients, relative to the mean diagonal entry of the Hessian.  The intercept has none.
    max_rounds : int, default=10
        Maximum number of base learners per class.
    tol : float, default=1e-4
        A class is done when the predicted decrease of the next round is below this share of its cost.
    z_max : float, default=4.0
        The largest working response; the original recommends 2 to 4.

    References
    ----------
    Friedman, Hastie and Tibshirani, "Additive logistic regression", Annals of Statistics 28, 2000, Algorithm 3.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import Logistic
    >>> from ddlearn.classifiers import LogitBoost
    >>> loss, margin = Logistic(), np.array([0.0, -1000.0])
    >>> LogitBoost().sample_weights(loss.gradient(margin), loss.curvature(margin))
    array([0.25, 0.25])
    """

    def supports(self, loss: Loss) -> bool:
        return loss.trainer == "logit_boost"


class LinearSVM(Newton):
    r"""Linear support vector machine for the smooth hinges, by Newton's method in the primal.

    In Chapelle's form :math:`\frac{\lambda}{2}\|w\|^2 + \sum_i \Omega(z_i)`; samples beyond the hinge have weight zero.

    Parameters
    ----------
    ridge : float, default=1e-3
        Penalty on the coefficients, relative to the mean diagonal entry of the Hessian.  The intercept has none.
    max_rounds : int, default=10
        Maximum number of steps per class.
    tol : float, default=1e-4
        A class is done when the predicted decrease of the next round is below this share of its cost.
    z_max : float, default=4.0
        The largest working response of a sample.

    References
    ----------
    Chapelle, "Training a support vector machine in the primal", Neural Computation 19, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import SmoothHinge
    >>> from ddlearn.classifiers import LinearSVM
    >>> loss, margin = SmoothHinge(), np.array([-5.0, 1.0, 5.0])
    >>> LinearSVM().sample_weights(loss.gradient(margin), loss.curvature(margin))
    array([0.25, 1.  , 0.  ])
    """

    def supports(self, loss: Loss) -> bool:
        return loss.trainer == "linear_svm"


CLASSIFIER_TRAINERS: dict[str, type[ClassifierTrainer]] = {
    "square_lev": SquareLev,
    "ada_boost": AdaBoost,
    "logit_boost": LogitBoost,
    "linear_svm": LinearSVM,
    "newton": Newton,
}


def resolve_trainer(trainer: str | ClassifierTrainer, loss: str | Loss) -> ClassifierTrainer:
    """Return the trainer registered under a name, or the object itself, if it supports the loss.

    "auto" is the trainer that the loss names, or "square_lev" for a quadratic loss.

    Examples
    --------
    >>> from ddlearn.classifiers import resolve_trainer
    >>> resolve_trainer("auto", "exponential")
    AdaBoost()
    """
    loss = resolve_loss(loss)
    if isinstance(trainer, str) and trainer == "auto":
        trainer = "square_lev" if loss.is_quadratic else loss.trainer
    trainer = resolve("classifier trainer", trainer, CLASSIFIER_TRAINERS, ClassifierTrainer)
    if not trainer.supports(loss):
        usable = [name for name, registered in CLASSIFIER_TRAINERS.items() if registered().supports(loss)]
        raise ValueError(f"{trainer!r} does not support the loss {loss!r}; use 'auto' or one of {usable} instead.")
    return trainer
