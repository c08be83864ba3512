r"""The classifier update (Section 3.1 of the paper): one linear classifier per class on the sparse codes.

With the codes fixed the classes are independent of each other, and class :math:`j` minimises

.. math:: \sum_i \Omega\bigl(l_{ij} (w_j^T x_i + b_j)\bigr) + \frac{\lambda_j}{2} \|w_j\|^2 .

The paper names a method for each cost: square leverage, AdaBoost, LogitBoost, a linear SVM.  With linear base learners
they are one mechanism: a round weighs the samples, fits a weighted least squares regressor to their working responses
:math:`-\Omega_1 / \text{weight}`, and adds it to the classifier; a sum of linear learners is a linear classifier.  Only
the weights differ.  As in coding, the ratio is never formed: the normal equations need the weights and
:math:`\Omega_1` alone.

The small ridge :math:`\lambda_j` is not in the paper's objective.  It keeps classifiers finite where the classes are
separable, and settles the directions that the codes leave open.  Whatever it does, the cost without it never rises.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_scalar

from ._classifier_kernel import add_gradient, add_hessian, compute_scores
from .blocks import map_blocks, single_threaded_blas
from .codes import RowCodes
from .losses import LOSSES, Exponential, Logistic, Loss, SmoothHinge, SoftplusHinge, resolve_loss
from .strategies import report_problems

__all__ = [
    "CLASSIFIER_TRAINERS",
    "AdaBoost",
    "ClassifierTrainer",
    "LinearSVM",
    "LogitBoost",
    "Newton",
    "SquareLev",
    "check_classifier_trainer",
    "resolve_trainer",
]

Array = NDArray[np.floating]
Solver = Callable[[Array], Array]

# A step must bring this share of the decrease that its slope promises (Armijo's rule with its usual constant).
_SUFFICIENT_DECREASE = 1e-4
# 2^-40 of a step is lost in the rounding of the classifier.
_MAX_HALVINGS = 40
# Shares of the mean diagonal, tried in turn until the Hessian has a Cholesky factor.
_JITTERS = (0.0, 1e-12, 1e-9, 1e-6, 1e-3, 1.0)


class _Iterate(NamedTuple):
    """A classifier, its coefficients and then its intercept, with what it does on the samples."""

    classifier: Array
    scores: Array
    data_cost: float
    penalised_cost: float


class _Problem(NamedTuple):
    """One class: the samples labelled for it, the loss and the penalty.  All sums are in float64."""

    codes: RowCodes
    labels: Array
    loss: Loss
    used: NDArray[np.bool_]
    penalty: float
    fit_intercept: bool

    def scores(self, classifier: Array) -> Array:
        scores = np.empty(len(self.labels))
        compute_scores(self.codes.indices, self.codes.values, classifier, scores)
        return scores

    def evaluate(self, classifier: Array, scores: Array) -> _Iterate:
        data_cost = float(self.loss.value(self.labels * scores).sum())
        coef = classifier[:-1]
        return _Iterate(classifier, scores, data_cost, data_cost + self.penalty / 2 * float(coef @ coef))

    def gradient(self, classifier: Array, margin_slopes: Array) -> Array:
        """Return the gradient of the penalised cost, without the intercept's entry where that is not fitted."""
        gradient = np.append(self.penalty * classifier[:-1], 0.0)
        add_gradient(self.codes.indices, self.codes.values, self.labels * margin_slopes, gradient)
        return gradient if self.fit_intercept else gradient[:-1]

    def factorise(self, weights: Array, hessian: Array) -> Solver:
        """Solve with the penalised Hessian for these weights, which is built in the (K + 1, K + 1) array given."""
        hessian[:] = 0
        add_hessian(self.codes.indices, self.codes.values, weights, hessian)
        diagonal = np.einsum("kk->k", hessian)  # a view that can be written to
        diagonal[:-1] += self.penalty
        diagonal[diagonal == 0] = 1  # no weight, no slope: any number leaves that coefficient where it is
        return _factorise(hessian if self.fit_intercept else hessian[:-1, :-1])

    def factorise_parabola(self, hessian: Array) -> Solver:
        """Do the same for a quadratic loss, whose weights are known before any margin is."""
        return self.factorise(self.loss.curvature(np.zeros_like(self.labels)), hessian)


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


def _mean_curvature(loss: Loss) -> float:
    """Return the mean of the second derivative over the margins from -1 to 1; at a single margin a hinge has none."""
    left, right = loss.gradient(np.array([-1.0, 1.0]))
    return float(right - left) / 2


def _make_problem(
    codes: RowCodes, labels: Array, loss: Loss, ridge: float, n_components: int, fit_intercept: bool
) -> _Problem:
    """Leave out the samples that are not labelled for the class, and scale the ridge to those that are."""
    known = labels != 0
    if not known.all():
        codes, labels = codes.rows(np.flatnonzero(known)), labels[known]
    squares = codes.values.ravel().astype(np.float64) ** 2
    squared_norms = np.bincount(codes.indices.ravel(), weights=squares, minlength=n_components)
    used = squared_norms > 0
    # The reference point is fixed, so that all rounds, and all calls on the same codes, minimise one function.
    penalty = ridge * _mean_curvature(loss) * squared_norms[used].mean() if used.any() else 0.0
    return _Problem(codes, np.ascontiguousarray(labels, np.float64), loss, used, float(penalty), fit_intercept)


def _take_step(problem: _Problem, here: _Iterate, learner: Array, slope: float) -> _Iterate | None:
    """Add the base learner, halved until the penalised cost falls enough; None where it never does."""
    learner_scores = problem.scores(learner)
    for step in 0.5 ** np.arange(_MAX_HALVINGS):
        there = problem.evaluate(here.classifier + step * learner, here.scores + step * learner_scores)
        # False where the cost overflowed
        if there.penalised_cost <= here.penalised_cost + _SUFFICIENT_DECREASE * step * slope:
            return there
    return None


def _add_learners(
    trainer: ClassifierTrainer, problem: _Problem, start: _Iterate, solver: Solver | None, hessian: Array
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
    trainer: ClassifierTrainer, problem: _Problem, given: Array, solver: Solver | None, hessian: Array
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
        problems = (_make_problem(codes, label, loss, self.ridge, n_components, True) for label in labels.T)
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

        def make_problem(j: int) -> _Problem:
            return _make_problem(codes, labels[:, j], loss, self.ridge, n_components, fit_intercept)

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
        How many base learners at most are added for each class; one is enough.
    tol : float, default=1e-4
        A class is done when the next round promises a decrease below this share of its cost.

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
        return bool(getattr(loss, "is_quadratic", False))


class AdaBoost(ClassifierTrainer):
    r"""Gentle AdaBoost for the exponential loss, with linear base learners.

    A round weighs sample i by :math:`e^{-z_i}` and fits the labels themselves: the working response of every margin
    is 1.  Discrete AdaBoost would add signs of linear functions, whose sum is not linear.

    Parameters
    ----------
    ridge : float, default=1e-3
        Penalty on the coefficients, relative to the mean diagonal entry of the Hessian.  The intercept has none.
    max_rounds : int, default=10
        How many base learners at most are added for each class.
    tol : float, default=1e-4
        A class is done when the next round promises a decrease below this share of its cost.

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
        return isinstance(loss, Exponential)


class Newton(ClassifierTrainer):
    r"""Newton's method for any convex loss, guarded by step halving.

    A sample's working response is the change of margin :math:`-\Omega_1/\Omega_2` that Newton's method wishes for it.
    Where the loss is nearly straight, that is huge or infinite; such a sample counts with the larger weight
    :math:`|\Omega_1|/z_{\max}`, which makes the response ``z_max`` and leaves the gradient as it is.

    Parameters
    ----------
    ridge : float, default=1e-3
        Penalty on the coefficients, relative to the mean diagonal entry of the Hessian.  The intercept has none.
    max_rounds : int, default=10
        How many steps at most are taken for each class.
    tol : float, default=1e-4
        A class is done when the next round promises a decrease below this share of its cost.
    z_max : float, default=4.0
        The largest change of margin that a single sample asks for in a round.

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

    def weigh(self, gradient: Array, curvature: Array) -> Array:
        # Were only the response clipped, its product with the weight would no longer be the gradient, and rounds
        # would converge to something else than the minimum.
        return np.maximum(curvature, np.abs(gradient) / self.z_max)


class LogitBoost(Newton):
    r"""LogitBoost for the logistic loss, with linear base learners.

    A round weighs sample i by :math:`p_i (1 - p_i)` and fits the working response :math:`1/p_i`, where :math:`p_i` is
    the probability of its label; on the scale :math:`\ln(1 + e^{-z})` of the paper a learner is added whole, not by
    half.  Responses stop at ``z_max``.  The original keeps the weight of a clipped response; here the weight grows, so
    that their product remains the gradient and rounds converge to logistic regression also where samples are
    misclassified.

    Parameters
    ----------
    ridge : float, default=1e-3
        Penalty on the coefficients, relative to the mean diagonal entry of the Hessian.  The intercept has none.
    max_rounds : int, default=10
        How many base learners at most are added for each class.
    tol : float, default=1e-4
        A class is done when the next round promises a decrease below this share of its cost.
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
    >>> LogitBoost().weigh(loss.gradient(margin), loss.curvature(margin))
    array([0.25, 0.25])
    """

    def supports(self, loss: Loss) -> bool:
        return isinstance(loss, Logistic)


class LinearSVM(Newton):
    r"""Linear support vector machine for the smooth hinges, by Newton's method in the primal.

    In Chapelle's form :math:`\frac{\lambda}{2}\|w\|^2 + \sum_i \Omega(z_i)`; samples beyond the hinge have weight zero.

    Parameters
    ----------
    ridge : float, default=1e-3
        Penalty on the coefficients, relative to the mean diagonal entry of the Hessian.  The intercept has none.
    max_rounds : int, default=10
        How many steps at most are taken for each class.
    tol : float, default=1e-4
        A class is done when the next round promises a decrease below this share of its cost.
    z_max : float, default=4.0
        The largest change of margin that a single sample asks for in a round.

    References
    ----------
    Chapelle, "Training a support vector machine in the primal", Neural Computation 19, 2007.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import SmoothHinge
    >>> from ddlearn.classifiers import LinearSVM
    >>> loss, margin = SmoothHinge(), np.array([-5.0, 1.0, 5.0])
    >>> LinearSVM().weigh(loss.gradient(margin), loss.curvature(margin))
    array([0.25, 1.  , 0.  ])
    """

    def supports(self, loss: Loss) -> bool:
        return isinstance(loss, (SmoothHinge, SoftplusHinge))


# In the order in which "auto" asks them: the one that takes any loss comes last.
CLASSIFIER_TRAINERS: dict[str, type[ClassifierTrainer]] = {
    "square_lev": SquareLev,
    "ada_boost": AdaBoost,
    "logit_boost": LogitBoost,
    "linear_svm": LinearSVM,
    "newton": Newton,
}


def _supports(trainer: ClassifierTrainer, loss: Loss) -> bool:
    """Ask the trainer; one that does not say takes any loss."""
    return not hasattr(trainer, "supports") or trainer.supports(loss)


def _look_up(name: str) -> ClassifierTrainer:
    if name not in CLASSIFIER_TRAINERS:
        raise ValueError(
            f"classifier_trainer={name!r} is not known; choose 'auto', one of {sorted(CLASSIFIER_TRAINERS)}, or pass a "
            "ClassifierTrainer object."
        )
    return CLASSIFIER_TRAINERS[name]()


def resolve_trainer(trainer: str | ClassifierTrainer, loss: str | Loss) -> ClassifierTrainer:
    """Return the trainer of that registered name, or the object itself, if it is for that loss.

    Parameters
    ----------
    trainer : str or ClassifierTrainer
        "auto", a key of ``CLASSIFIER_TRAINERS``, or an object with ``train``.  "auto" is the first registered trainer
        that supports the loss.
    loss : str or Loss
        The loss to train with.

    Returns
    -------
    ClassifierTrainer
        The trainer object.

    Raises
    ------
    ValueError
        If there is no trainer of that name, or it does not support the loss.

    Examples
    --------
    >>> from ddlearn.classifiers import resolve_trainer
    >>> resolve_trainer("auto", "exponential")
    AdaBoost()
    """
    loss = resolve_loss(loss)
    usable = [name for name, registered in CLASSIFIER_TRAINERS.items() if registered().supports(loss)]
    if isinstance(trainer, str):
        trainer = _look_up(usable[0] if trainer == "auto" else trainer)
    if isinstance(trainer, type) or not callable(getattr(trainer, "train", None)):
        raise TypeError(
            f"classifier_trainer={trainer!r} cannot train classifiers: it must be 'auto', a name from "
            f"{sorted(CLASSIFIER_TRAINERS)}, or an object (not a class) with the method train."
        )
    if not _supports(trainer, loss):
        raise ValueError(f"{trainer!r} does not support the loss {loss!r}; use 'auto' or one of {usable} instead.")
    return trainer


# check_classifier_trainer looks at one small problem: 80 samples of 3 overlapping classes, 7 atoms, the last unused.
_TRIAL_CLASSES = np.arange(80) % 3
_TRIAL_ATOMS = 7
# Two runs on the same numbers in another order agree to rounding, times what the stopping rule makes of it.
_AGREEMENT = 1e-6


def _draw_trial(dtype: type = np.float64) -> tuple[RowCodes, Array]:
    rng = np.random.default_rng(0)
    samples = np.arange(len(_TRIAL_CLASSES))
    dense = np.zeros((len(samples), _TRIAL_ATOMS))
    dense[samples, _TRIAL_CLASSES] = 1 + rng.normal(size=len(samples))
    dense[samples, 3 + rng.integers(3, size=len(samples))] = rng.normal(size=len(samples))
    labels: Array = np.where(_TRIAL_CLASSES[:, None] == np.arange(3), 1, -1).astype(dtype)
    return RowCodes.from_csr(csr_array(dense), 2, dtype), labels


def _draw_start(size: float, dtype: type = np.float64) -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    return (size * rng.normal(size=(3, _TRIAL_ATOMS))).astype(dtype), (size * rng.normal(size=3)).astype(dtype)


def _differ(one: tuple[Array, Array], other: tuple[Array, Array]) -> bool:
    return not all(np.allclose(a, b, rtol=_AGREEMENT, atol=_AGREEMENT) for a, b in zip(one, other, strict=True))


def _find_array_problems(trainer: ClassifierTrainer, loss: Loss) -> Iterator[str]:
    for dtype in (np.float64, np.float32):
        (codes, labels), start = _draw_trial(dtype), _draw_start(1, dtype)
        inputs = (*codes, labels, *start)
        kept = [array.copy() for array in inputs]
        trained = trainer.train(codes, labels, loss, *start, fit_intercept=True, n_jobs=1)
        if any(not np.array_equal(array, copy) for array, copy in zip(inputs, kept, strict=True)):
            yield "it changes its arguments in place; return new arrays."
        for name, given, result in zip(("coef", "intercept"), start, trained, strict=True):
            if np.shape(result) != given.shape:
                yield f"{name} must keep its shape {given.shape}, got {np.shape(result)}."
            elif result.dtype != dtype:
                yield f"{name} must keep its dtype {np.dtype(dtype)}, got {result.dtype}."
            elif not np.isfinite(result).all():
                yield f"{name} is not finite."
    intercept = np.array([0.0, 1.0, 2.0])
    trained = trainer.train(*_draw_trial(), loss, _draw_start(0)[0], intercept, fit_intercept=False)
    if not np.array_equal(trained[1], intercept):
        yield "with fit_intercept=False it must return the intercepts as they were."


def _find_cost_problems(trainer: ClassifierTrainer, loss: Loss) -> Iterator[str]:
    codes, labels = _draw_trial()

    def costs(coef: Array, intercept: Array) -> Array:
        return loss.value(labels * (codes.to_csr(_TRIAL_ATOMS) @ coef.T + intercept)).sum(axis=0)

    for size in (0.0, 1.0, 100.0):
        start = _draw_start(size)
        trained = trainer.train(codes, labels, loss, *start)
        before, after = costs(*start), costs(*trained)
        if (after > before * (1 + _AGREEMENT)).any():
            j = int(np.argmax(after - before))
            yield (
                f"from coefficients of size {size:g} it raises the cost of a class from {before[j]:g} to {after[j]:g}; "
                "return a class's classifier as it was if the new one costs more."
            )
        if size == 0 and not (after < before).all():
            yield "from zero it does not lower the cost of every class."
        if trained[0][:, -1].any():
            yield "an atom that no sample uses must have the coefficient 0."


def _find_symmetry_problems(trainer: ClassifierTrainer, loss: Loss) -> Iterator[str]:
    (codes, labels), start = _draw_trial(), _draw_start(0)
    coef, intercept = trainer.train(codes, labels, loss, *start)
    if _differ(trainer.train(codes, -labels, loss, *start), (-coef, -intercept)):
        yield "with all labels flipped its classifiers must flip too."
    if _differ(trainer.train(codes, labels[:, ::-1].copy(), loss, *start), (coef[::-1], intercept[::-1])):
        yield "with the classes in another order its classifiers must only be in another order."
    order = np.random.default_rng(2).permutation(len(labels))
    if _differ(trainer.train(codes.rows(order), labels[order], loss, *start), (coef, intercept)):
        yield "its classifiers must not depend on the order of the samples."
    labels[:20] = 0
    without = trainer.train(codes.rows(slice(20, None)), labels[20:], loss, *start)
    if _differ(trainer.train(codes, labels, loss, *start), without):
        yield "samples with the label 0 must not change anything."


def _find_separable_problems(trainer: ClassifierTrainer, loss: Loss) -> Iterator[str]:
    labels = _draw_trial()[1]
    codes = RowCodes(_TRIAL_CLASSES[:, None].astype(np.int32), np.ones((len(labels), 1)))
    trained = _draw_start(0)
    for _ in range(30):  # as many warm starts as a long fit has
        trained = trainer.train(codes, labels, loss, *trained)
    if not all(np.isfinite(array).all() for array in trained):
        yield "classifiers of separable classes become infinite; limit the rounds or add a penalty."


def _find_copy_problems(trainer: ClassifierTrainer, loss: Loss) -> Iterator[str]:
    data, start = _draw_trial(), _draw_start(0)

    def pickle_trainer(original: ClassifierTrainer) -> ClassifierTrainer:
        return pickle.loads(pickle.dumps(original))

    for word, copy_trainer in (("cloned", clone), ("pickled", pickle_trainer)):
        try:
            copy = copy_trainer(trainer)
        except Exception as error:  # a plug-in may fail in any way; the report names it
            yield f"it cannot be {word} ({type(error).__name__}: {error}); derive from ClassifierTrainer, in a module."
            continue
        if _differ(copy.train(*data, loss, *start), trainer.train(*data, loss, *start)):
            yield f"it trains differently when it is {word}: set all state from the constructor's parameters."


def _find_trainer_problems(trainer: ClassifierTrainer, loss: Loss) -> Iterator[str]:
    problems = list(_find_array_problems(trainer, loss))
    yield from problems
    if not problems:  # costs of something of the wrong shape say nothing
        yield from _find_cost_problems(trainer, loss)
        yield from _find_symmetry_problems(trainer, loss)
        yield from _find_separable_problems(trainer, loss)
        yield from _find_copy_problems(trainer, loss)


def check_classifier_trainer(trainer: str | ClassifierTrainer, loss: str | Loss | None = None) -> None:
    """Verify numerically that an object can serve as a classifier trainer.

    Looks at shapes, dtypes and finiteness, at the cost before and after from good and bad starts, at what must not
    matter (order, unlabelled samples, unused atoms), at separable classes, and at clone and pickle.

    Parameters
    ----------
    trainer : str or ClassifierTrainer
        The trainer to look at.
    loss : str, Loss or None, default=None
        The loss to train with; None stands for every registered loss that the trainer supports.

    Raises
    ------
    ValueError
        With one line for each thing that is wrong.

    Examples
    --------
    >>> from ddlearn.classifiers import LogitBoost, check_classifier_trainer
    >>> check_classifier_trainer(LogitBoost())
    """
    if isinstance(trainer, str):
        trainer = _look_up(trainer)
    losses: list[str | Loss] = (
        [loss] if loss is not None else [name for name in LOSSES if _supports(trainer, resolve_loss(name))]
    )
    if not losses:
        raise ValueError(
            f"{trainer!r} supports none of {sorted(LOSSES)}; pass check_classifier_trainer a loss that it does."
        )
    failing: dict[str, list[str]] = {}  # problem: the losses that show it
    for each in losses:
        for problem in _find_trainer_problems(resolve_trainer(trainer, each), resolve_loss(each)):
            failing.setdefault(problem, []).append(str(each))
    report_problems(trainer, "trainer", [f"{problem} (with {', '.join(names)})" for problem, names in failing.items()])
