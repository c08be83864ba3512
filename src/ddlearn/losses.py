r"""The classification costs :math:`\Omega(z)` of the paper (Section 3.1, Fig. 1).

The margin of a sample for one class is :math:`z = l\,(w^T x + b)`.  Discriminative sparse coding needs a cost and its
derivatives :math:`\Omega_1` and :math:`\Omega_2`, element by element.  The ratio :math:`\Omega_1/\Omega_2` of the paper
is never formed: for the logistic cost it overflows where both derivatives are harmless.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from numbers import Real

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, clone

from .strategies import report_problems

__all__ = [
    "LOSSES",
    "Exponential",
    "Logistic",
    "Loss",
    "SmoothHinge",
    "SoftplusHinge",
    "Square",
    "check_loss",
    "resolve_loss",
]

Margins = NDArray[np.floating]


class Loss(BaseEstimator, ABC):
    r"""A convex classification cost :math:`\Omega(z)` and its two derivatives.

    Subclasses implement :meth:`value`, :meth:`gradient` and :meth:`curvature`.  Each maps an array of margins to an
    array of the same shape and dtype, finite for every finite margin.  :func:`check_loss` tests them.

    Attributes
    ----------
    is_quadratic : bool
        The cost is a parabola, so one Newton step of discriminative sparse coding is exact.
    has_linear_evidence : bool
        :math:`\Omega(-s) - \Omega(s)` grows no faster than the score, so that scores can be refined by softmax.
    trainer : str
        The classifier trainer that "auto" chooses, a key of ``CLASSIFIER_TRAINERS``; "square_lev" if quadratic.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import Loss
    >>> class SquaredHinge(Loss):
    ...     def value(self, margin):
    ...         return np.maximum(1 - margin, 0) ** 2
    ...     def gradient(self, margin):
    ...         return -2 * np.maximum(1 - margin, 0)
    ...     def curvature(self, margin):
    ...         return 2 * (margin < 1).astype(margin.dtype)
    >>> SquaredHinge().value(np.array([-1.0, 0.0, 2.0]))
    array([4., 1., 0.])
    """

    is_quadratic = False
    has_linear_evidence = True
    trainer = "newton"

    @abstractmethod
    def value(self, margin: Margins) -> Margins:
        r"""Return the cost :math:`\Omega(z)`, not negative."""

    @abstractmethod
    def gradient(self, margin: Margins) -> Margins:
        r"""Return the first derivative :math:`\Omega_1(z)`."""

    @abstractmethod
    def curvature(self, margin: Margins) -> Margins:
        r"""Return the second derivative :math:`\Omega_2(z)`, not negative."""

    def check_parameters(self) -> None:
        """Raise a ValueError if a constructor parameter is invalid; called before the loss is used."""

    def surrogate_curvature(self, margin: Margins) -> Margins:
        r"""Return the curvature of the parabola that replaces the cost in one coding step.

        By default :math:`\Omega_2(z)`, as in Newton's method.  A loss whose second derivative vanishes on intervals
        returns an upper bound of it instead, so that the parabola is a majoriser of the cost.
        """
        return self.curvature(margin)


class Square(Loss):
    r"""Square cost, :math:`\Omega(z) = (1 - z)^2`.

    Examples
    --------
    >>> import numpy as np
    >>> Square().value(np.array([-1.0, 0.0, 1.0]))
    array([4., 1., 0.])
    """

    is_quadratic = True
    trainer = "square_lev"

    def value(self, margin: Margins) -> Margins:
        return (1 - margin) ** 2

    def gradient(self, margin: Margins) -> Margins:
        return -2 * (1 - margin)

    def curvature(self, margin: Margins) -> Margins:
        return np.full_like(margin, 2)


class Exponential(Loss):
    r"""Exponential cost of AdaBoost, :math:`\Omega(z) = e^{-z}`.

    Below a margin of -30 the exponential is continued by its second-order Taylor polynomial, so that cost and
    derivatives stay finite, continuous and convex for every margin.  A cost of :math:`e^{30} \approx 10^{13}`
    times that of a sample on the decision boundary has no meaning that the continuation could spoil.

    Examples
    --------
    >>> import numpy as np
    >>> Exponential().value(np.array([0.0, np.log(2.0)]))
    array([1. , 0.5])
    """

    has_linear_evidence = False
    trainer = "ada_boost"
    largest_exponent = 30.0

    def _split(self, margin: Margins) -> tuple[Margins, Margins]:
        exponent = np.minimum(-margin, self.largest_exponent)
        return np.exp(exponent), -margin - exponent

    def value(self, margin: Margins) -> Margins:
        exponential, excess = self._split(margin)
        return exponential * (1 + excess + excess**2 / 2)

    def gradient(self, margin: Margins) -> Margins:
        exponential, excess = self._split(margin)
        return -exponential * (1 + excess)

    def curvature(self, margin: Margins) -> Margins:
        return self._split(margin)[0]


class Logistic(Loss):
    r"""Logistic cost of LogitBoost, :math:`\Omega(z) = \ln(1 + e^{-z})`.

    Examples
    --------
    >>> import numpy as np
    >>> Logistic().value(np.array([-1000.0, 1000.0]))
    array([1000.,    0.])
    """

    trainer = "logit_boost"

    def value(self, margin: Margins) -> Margins:
        return np.logaddexp(0, -margin)

    def gradient(self, margin: Margins) -> Margins:
        return -expit(-margin)

    def curvature(self, margin: Margins) -> Margins:
        return expit(margin) * expit(-margin)


class SmoothHinge(Loss):
    r"""Hinge cost with a rounded corner: :math:`\max(0, 1 - z)` except for :math:`|1 - z| < 1/\rho`.

    Inside that band it is the parabola :math:`\frac{\rho}{4}(1 - z + 1/\rho)^2`, outside it is the hinge itself;
    the gap to the hinge is at most :math:`1/(4\rho)`.  Its second derivative is zero outside the band, so coding
    uses the bound :math:`\rho/2` everywhere: the same weight for every sample, as the paper says of the hinge.

    Parameters
    ----------
    sharpness : float, default=2.0
        The paper's :math:`\rho`; larger is closer to the hinge.

    See Also
    --------
    SoftplusHinge : The strictly convex form.

    Examples
    --------
    >>> import numpy as np
    >>> SmoothHinge(sharpness=2.0).value(np.array([-1.0, 1.0, 2.0]))
    array([2.   , 0.125, 0.   ])
    """

    trainer = "linear_svm"

    def __init__(self, sharpness: float = 2.0):
        self.sharpness = sharpness

    def check_parameters(self) -> None:
        _check_sharpness(self.sharpness)

    def _depth(self, margin: Margins) -> Margins:
        """How far the margin is inside the band, from 0 at its right end to 2 / sharpness at its left."""
        return np.clip(1 - margin + 1 / self.sharpness, 0, 2 / self.sharpness)

    def value(self, margin: Margins) -> Margins:
        beyond_band = np.maximum(1 - margin - 1 / self.sharpness, 0)
        return self.sharpness / 4 * self._depth(margin) ** 2 + beyond_band

    def gradient(self, margin: Margins) -> Margins:
        return -self.sharpness / 2 * self._depth(margin)

    def curvature(self, margin: Margins) -> Margins:
        inside_band = np.abs(1 - margin) < 1 / self.sharpness
        return self.sharpness / 2 * inside_band.astype(margin.dtype)

    def surrogate_curvature(self, margin: Margins) -> Margins:
        return np.full_like(margin, self.sharpness / 2)


class SoftplusHinge(Loss):
    r"""Strictly convex smooth hinge, :math:`\Omega(z) = \ln(1 + e^{\rho(1 - z)})/\rho`.

    Parameters
    ----------
    sharpness : float, default=5.0
        The paper's :math:`\rho`; the gap to the hinge is at most :math:`\ln 2/\rho`.

    See Also
    --------
    SmoothHinge : The form that equals the hinge outside a band.

    Examples
    --------
    >>> import numpy as np
    >>> SoftplusHinge(sharpness=100.0).value(np.array([-1.0, 3.0])).round(6)
    array([2., 0.])
    """

    trainer = "linear_svm"

    def __init__(self, sharpness: float = 5.0):
        self.sharpness = sharpness

    def check_parameters(self) -> None:
        _check_sharpness(self.sharpness)

    def value(self, margin: Margins) -> Margins:
        return np.logaddexp(0, self.sharpness * (1 - margin)) / self.sharpness

    def gradient(self, margin: Margins) -> Margins:
        return -expit(self.sharpness * (1 - margin))

    def curvature(self, margin: Margins) -> Margins:
        exponent = self.sharpness * (1 - margin)
        return self.sharpness * expit(exponent) * expit(-exponent)


def _check_sharpness(sharpness: float) -> None:
    if not (isinstance(sharpness, Real) and 0 < sharpness < np.inf):
        raise ValueError(f"sharpness must be a positive number, got {sharpness!r}.")


LOSSES: dict[str, type[Loss]] = {
    "square": Square,
    "exponential": Exponential,
    "logistic": Logistic,
    "smooth_hinge": SmoothHinge,
    "softplus_hinge": SoftplusHinge,
}


def resolve_loss(loss: str | Loss) -> Loss:
    """Return the loss of that registered name, or the object itself.

    Parameters
    ----------
    loss : str or Loss
        A key of ``LOSSES``, or a loss object.

    Returns
    -------
    Loss
        The loss object.

    Examples
    --------
    >>> resolve_loss("logistic")
    Logistic()
    """
    if isinstance(loss, str):
        if loss not in LOSSES:
            raise ValueError(f"loss={loss!r} is not known; choose one of {sorted(LOSSES)} or pass a Loss object.")
        return LOSSES[loss]()
    missing = [name for name in vars(Loss) if not name.startswith("_") and not hasattr(loss, name)]
    if missing or isinstance(loss, type):
        raise TypeError(
            f"loss={loss!r} cannot serve as a loss: it must be a name from {sorted(LOSSES)} or an object (not a class) "
            f"that derives from Loss{'; missing: ' + ', '.join(missing) if missing else ''}."
        )
    loss.check_parameters()
    return loss


_DTYPES: list[np.dtype[np.floating]] = [np.dtype(np.float64), np.dtype(np.float32)]
# Where check_loss looks: densely around the margins that occur, then out to where exponentials overflow.
_COMMON_MARGINS = np.linspace(-8, 8, 641)
_EXTREME_MARGINS = np.array([-1000.0, -300.0, -80.0, -40.0, 40.0, 80.0, 300.0, 1000.0])
# A difference quotient over 2e-6 is exact to about 1e-9; a wrong factor of two is off by far more than this.
_STEP = 1e-6
_DERIVATIVE_TOLERANCE = 1e-4


def _differs_from_slope(function: Callable, derivative: Margins) -> NDArray[np.bool_]:
    """Where the derivative lies outside the left and right difference quotients (they differ at a corner)."""
    here = function(_COMMON_MARGINS)
    right = (function(_COMMON_MARGINS + _STEP) - here) / _STEP
    left = (here - function(_COMMON_MARGINS - _STEP)) / _STEP
    slack = _DERIVATIVE_TOLERANCE * (1 + np.maximum(np.abs(left), np.abs(right)))
    return (derivative < np.minimum(left, right) - slack) | (derivative > np.maximum(left, right) + slack)


def _first(margins: Margins, wrong: NDArray[np.bool_]) -> str:
    return f"margin {margins[wrong][0]:g}"


def _find_output_problems(loss: Loss) -> Iterator[str]:
    for name in ("value", "gradient", "curvature"):
        method = getattr(loss, name)
        for dtype in _DTYPES:
            margins = np.array([*_EXTREME_MARGINS, *_COMMON_MARGINS[:640]], dtype).reshape(-1, 4)
            kept = margins.copy()
            result = method(margins)
            if not np.array_equal(margins, kept):
                yield f"{name} changes its argument in place; work on a copy."
                continue
            if not isinstance(result, np.ndarray) or result.shape != margins.shape:
                yield f"{name} must return an array of the margin's shape {margins.shape}, got {np.shape(result)}."
                continue
            if result.dtype != dtype:
                yield f"{name} of {dtype} margins has dtype {result.dtype}; keep the margin's dtype."
            finite = np.isfinite(result)
            if not finite.all():
                yield f"{name} is not finite ({result[~finite][0]}) in {dtype} at {_first(margins, ~finite)}."
            if not np.array_equal(method(margins[:1]), result[:1]):
                yield f"{name} is not element-wise: an element's result changes with the other elements."


def _find_derivative_problems(loss: Loss) -> Iterator[str]:
    margins = np.concatenate([_EXTREME_MARGINS[:4], _COMMON_MARGINS, _EXTREME_MARGINS[4:]])
    wrong = loss.value(margins) < 0
    if wrong.any():
        yield f"value is negative at {_first(margins, wrong)}: the costs' mean would be no scale."
    wrong = loss.curvature(margins) < 0
    if wrong.any():
        yield f"curvature is negative at {_first(margins, wrong)}: the loss is not convex."
    wrong = np.diff(loss.gradient(margins)) < -_DERIVATIVE_TOLERANCE
    if wrong.any():
        yield f"gradient decreases after {_first(margins[:-1], wrong)}: the loss is not convex."
    surrogate = loss.surrogate_curvature(margins)
    wrong = ~(surrogate >= (1 - _DERIVATIVE_TOLERANCE) * loss.curvature(margins))
    if wrong.any():
        yield f"surrogate_curvature is below curvature at {_first(margins, wrong)}: it must be an upper bound."
    wrong = _differs_from_slope(loss.value, loss.gradient(_COMMON_MARGINS))
    if wrong.any():
        yield f"gradient is not the derivative of value at {_first(_COMMON_MARGINS, wrong)}."
    wrong = _differs_from_slope(loss.gradient, loss.curvature(_COMMON_MARGINS))
    if wrong.any():
        yield f"curvature is not the derivative of gradient at {_first(_COMMON_MARGINS, wrong)}."
    if loss.is_quadratic and np.ptp(loss.curvature(margins)) > 0:
        yield "is_quadratic is set, but the curvature is not constant."


def _find_copy_problems(loss: Loss) -> Iterator[str]:
    def clone_loss() -> Loss:
        return clone(loss)

    def pickle_loss() -> Loss:
        return pickle.loads(pickle.dumps(loss))

    for word, copy_loss in (("cloned", clone_loss), ("pickled", pickle_loss)):
        try:
            copy = copy_loss()
        except Exception as error:  # a plug-in may fail in any way; the report names it
            reason = f"{type(error).__name__}: {error}"
            yield f"it cannot be {word} ({reason}); derive from ddlearn.Loss and define it in a module."
            continue
        if not np.array_equal(copy.value(_COMMON_MARGINS), loss.value(_COMMON_MARGINS)):
            yield f"its value changes when it is {word}: set all state from the constructor's parameters."


def check_loss(loss: str | Loss) -> None:
    """Verify numerically that an object can serve as a loss.

    Looks at shapes, dtypes and finiteness for margins up to 1000 in size, at both derivatives against difference
    quotients, at convexity, and at clone and pickle.

    Parameters
    ----------
    loss : str or Loss
        The loss to look at.

    Raises
    ------
    ValueError
        With one line for each thing that is wrong.

    Examples
    --------
    >>> from ddlearn import check_loss, Logistic
    >>> check_loss(Logistic())
    """
    loss = resolve_loss(loss)
    with np.errstate(all="ignore"):  # an overflow is reported in words below
        problems = list(_find_output_problems(loss))
        if not problems:  # derivatives of something of the wrong shape say nothing
            problems += _find_derivative_problems(loss)
            problems += _find_copy_problems(loss)
    report_problems(loss, "loss", problems)
