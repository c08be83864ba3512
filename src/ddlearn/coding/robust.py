r"""Gross errors and missing features: the paper's testing model, :math:`y \circ \tau = D^T x + e + n`.

A block of rows is first registered (``alignment.py``), without missing features and with a search for errors in each
round, and then coded (``masked.py``).  Samples that need none of this are coded by ``encoder.py``.

The error :math:`e` is sparse, as if the dictionary were augmented by the identity.  Error atoms have a budget of their
own, since an occlusion covers hundreds of features, but a code has only a few atoms.  There are two ways to find the
wrong features:

* *greedy*: matching pursuit over atoms and error atoms together (``kernels/errors.py``);
* *alternating*: code the features that seem right, classify all features by their residual, and repeat.  With a
  fixed number of wrong features these are the concentration steps of least trimmed squares (Rousseeuw and Van Driessen,
  2006).  The code starts with one atom and gets more as wrong features are found: few atoms cannot represent an
  occluder, many can.

Residuals are compared with the spread of right features, estimated per sample: if at most a fraction :math:`\beta` of
the features is wrong, the residual at the quantile :math:`(1 - \beta)/2` is that of a right feature.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from ..kernels.errors import pursue_with_errors
from ..model.codes import Flags, Floats, RowCodes
from ..model.strategies import Registry, Strategy, check_number
from .alignment import Registration
from .coders import MOST_ROUNDS, PIVOT_FLOOR
from .encoder import Encoder
from .masked import MaskedCoder, MaskedFit, Tangents

Counts = NDArray[np.int64]

MISSING = ("error", "mask")
_ROUNDING = 1e-9  # of a budget: 0.29 * 100 is below 29 in floating point
_ROUNDING_ERRORS = 100  # largest residual of a sample that the atoms represent exactly, relative to its largest value
_GROWTH = 1.5  # of the number of atoms
_ROUNDS_PER_SIZE = 2


class ErrorSearch(Strategy, ABC):
    """Finds the features of each sample that are grossly wrong.

    Examples
    --------
    >>> from ddlearn import AlternatingErrors, GreedyErrors
    >>> AlternatingErrors(), GreedyErrors()
    (AlternatingErrors(), GreedyErrors())
    """

    moves_samples = True  # whether tangents are taken into account

    @abstractmethod
    def find(
        self,
        coder: MaskedCoder,
        samples: Floats,
        is_known: Flags,
        budgets: Counts,
        noise_scale: float,
        tangents: Tangents | None = None,
    ) -> tuple[MaskedFit, Flags, Flags]:
        """Code some rows and find their wrong features.

        Parameters
        ----------
        coder : MaskedCoder
            Codes rows without some of their features.
        samples : ndarray of shape (n_rows, n_features)
            The samples; the values of missing features are not used.
        is_known : ndarray of shape (n_rows, n_features), bool
            False where a feature is missing.
        budgets : ndarray of shape (n_rows,)
            Largest number of wrong features per sample.
        noise_scale : float
            Standard deviation of the noise in training, a lower bound of the spread.
        tangents : Tangents or None, default=None
            How samples may move, if the search supports that.

        Returns
        -------
        fit : MaskedFit
            Codes, residuals and moves, as ``coder.solve`` returns them.
        is_kept : ndarray of shape (n_rows, n_features)
            The features that the codes were fitted to.
        is_wrong : ndarray of shape (n_rows, n_features)
            The support of the error e.
        """


class AlternatingErrors(ErrorSearch):
    """Codes the features that seem right, classifies all features by their residuals, and repeats with more atoms.

    Parameters
    ----------
    trim : float, default=1.0
        A feature is left out of the fit if its residual exceeds this multiple of the spread of right features.  Leaving
        out a right feature does little harm, keeping a wrong one much.
    threshold : float, default=3.0
        A feature is wrong if its residual exceeds this multiple of the spread.
    max_iter : int, default=5
        Largest number of repetitions with the full number of atoms.

    See Also
    --------
    GreedyErrors : Selects atoms and wrong features one by one.

    Examples
    --------
    >>> AlternatingErrors(threshold=4.0)
    AlternatingErrors(threshold=4.0)
    """

    def __init__(self, trim: float = 1.0, threshold: float = 3.0, max_iter: int = 5):
        self.trim = trim
        self.threshold = threshold
        self.max_iter = max_iter

    def check_parameters(self) -> None:
        check_number("trim", self.trim, Real)
        check_number("threshold", self.threshold, Real)
        check_number("max_iter", self.max_iter, Integral, most=MOST_ROUNDS)

    def find(
        self,
        coder: MaskedCoder,
        samples: Floats,
        is_known: Flags,
        budgets: Counts,
        noise_scale: float,
        tangents: Tangents | None = None,
    ) -> tuple[MaskedFit, Flags, Flags]:
        most, is_kept, active = coder.encoder.n_nonzero_coefs, is_known.copy(), np.flatnonzero(budgets > 0)

        def classify(rows: NDArray[np.intp] | slice, n_nonzero_coefs: int, limit: float) -> tuple[MaskedFit, Flags]:
            """Code some rows, and return which features are right: their residual is below a multiple of the spread."""
            moving = None if tangents is None else tangents.rows(rows)
            fit = coder.solve(samples[rows], is_kept[rows], moving, n_nonzero_coefs)
            spread = measure_spread(fit.residuals, samples[rows], is_known[rows], budgets[rows], noise_scale)
            return fit, find_right(fit.residuals, is_known[rows], budgets[rows], limit * spread)

        for n_nonzero_coefs in self._schedule(most):
            if active.size == 0:
                break
            _, is_small = classify(active, n_nonzero_coefs, self.trim)
            is_same = (is_small == is_kept[active]).all(axis=1) & (n_nonzero_coefs == most)
            is_kept[active] = is_small
            active = active[~is_same]
        fit, is_right = classify(slice(None), most, self.threshold)
        return fit, is_kept, is_known & ~is_right

    def _schedule(self, n_nonzero_coefs: int) -> Iterator[int]:
        """Yield increasing numbers of atoms, up to all."""
        size = 1
        while size < n_nonzero_coefs:
            for _ in range(_ROUNDS_PER_SIZE):
                yield size
            size = max(size + 1, int(size * _GROWTH))
        for _ in range(self.max_iter):
            yield n_nonzero_coefs


class GreedyErrors(ErrorSearch):
    """Orthogonal matching pursuit over atoms and error atoms together, each with its own budget.

    An early atom that was chosen because of an occluder is kept: on occluded images :class:`AlternatingErrors` is more
    accurate.  Samples are registered before the search, not during it.

    Parameters
    ----------
    threshold : float, default=10.0
        A feature is right if its residual is below this multiple of the noise of the training samples, which is
        smaller than that of new samples, since the dictionary was fitted to them.

    See Also
    --------
    AlternatingErrors : Revises its choices.

    Examples
    --------
    >>> GreedyErrors(threshold=5.0)
    GreedyErrors(threshold=5.0)
    """

    moves_samples = False

    def __init__(self, threshold: float = 10.0):
        self.threshold = threshold

    def check_parameters(self) -> None:
        check_number("threshold", self.threshold, Real)

    def find(
        self,
        coder: MaskedCoder,
        samples: Floats,
        is_known: Flags,
        budgets: Counts,
        noise_scale: float,
        tangents: Tangents | None = None,
    ) -> tuple[MaskedFit, Flags, Flags]:
        start = coder.solve(samples, is_known)
        is_kept, dtype = is_known.copy(), samples.dtype
        thresholds = np.maximum(self.threshold * noise_scale, measure_rounding(samples, is_known)).astype(dtype)
        codes = RowCodes.empty(len(samples), coder.encoder.n_nonzero_coefs, dtype)
        norms = np.sqrt(np.diagonal(coder.encoder.gram))
        inverse_norms = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
        floors = dtype.type(_ROUNDING_ERRORS * np.finfo(dtype).eps), dtype.type(PIVOT_FLOOR[dtype])
        problem = coder.encoder.atoms_by_feature, inverse_norms, np.ascontiguousarray(samples), budgets
        pursue_with_errors(*problem, thresholds, *floors, is_kept, *codes)
        has_budget = (budgets > 0)[:, None]
        codes = RowCodes(*(np.where(has_budget, *pair) for pair in zip(codes.sort(), start.codes, strict=True)))
        return MaskedFit(codes, coder.subtract(samples, codes), start.moves), is_kept, is_known & ~is_kept


def measure_spread(residuals: Floats, samples: Floats, is_known: Flags, budgets: Counts, noise_scale: float) -> Floats:
    """Return the standard deviation of the residuals of right features, estimated from the smallest residuals."""
    n_known = is_known.sum(axis=1)
    middle = (n_known - budgets) // 2
    size = np.sort(np.where(is_known, np.abs(residuals), np.inf), axis=1)
    level = (middle + 0.5) / np.maximum(n_known, 1)
    spread = size[np.arange(len(size)), middle] / ndtri((1 + level) / 2)
    return np.maximum(np.maximum(spread, measure_rounding(samples, is_known)), noise_scale)


def measure_rounding(samples: Floats, is_known: Flags) -> Floats:
    """Return the largest residuals that rounding can cause, per sample."""
    return _ROUNDING_ERRORS * np.finfo(samples.dtype).eps * np.abs(np.where(is_known, samples, 0)).max(axis=1)


def find_right(residuals: Floats, is_known: Flags, budgets: Counts, limit: Floats) -> Flags:
    """Return which features are right: their residual is within the limit, or the budget is spent on larger ones."""
    size = np.where(is_known, np.abs(residuals), np.inf)
    largest_kept = np.sort(size, axis=1)[np.arange(len(size)), is_known.sum(axis=1) - budgets - 1]
    return is_known & (size <= np.maximum(largest_kept, limit)[:, None])


ERROR_SEARCHES: Registry[ErrorSearch] = Registry(
    "error search", ErrorSearch, {"alternating": AlternatingErrors, "greedy": GreedyErrors}
)


class Robustness(Strategy):
    """Errors in new samples, and missing values in new samples and in those of :meth:`DDLClassifier.fit`.

    Parameters
    ----------
    error_budget : int or float, default=0
        Largest number (an integer) or fraction (a float below 1) of the known features that may be grossly wrong, for
        example by occlusion.  They are found and left out.
    error_search : {"alternating", "greedy"} or ErrorSearch, default="alternating"
        How to find them.  "greedy" is matching pursuit in the dictionary augmented by the identity, as in the paper.
    missing : {"error", "mask"}, default="error"
        Whether NaN raises an error or marks a missing feature, which is left out.  Training samples in memory may have
        missing features too, but must be correct.

    Examples
    --------
    >>> from ddlearn import DDLClassifier, Robustness
    >>> DDLClassifier(robustness=Robustness(0.2, missing="mask"))
    DDLClassifier(robustness=Robustness(error_budget=0.2, missing='mask'))

    A fifth of the values is missing, of samples to learn from and of new ones:

    >>> import numpy as np
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    >>> is_known = ~np.isnan(X).all(axis=1)  # a sample of which nothing is known cannot be learned from
    >>> model = DDLClassifier(robustness=Robustness(missing="mask"), random_state=0)
    >>> model.fit(X[is_known], y[is_known]).score(X[is_known], y[is_known]) > 0.85
    True
    """

    def __init__(
        self, error_budget: float = 0, *, error_search: str | ErrorSearch = "alternating", missing: str = "error"
    ):
        self.error_budget = error_budget
        self.error_search = error_search
        self.missing = missing

    def check_parameters(self) -> None:
        if self.missing not in MISSING:
            raise ValueError(f"missing={self.missing!r} is not known; choose one of {sorted(MISSING)}.")
        check_error_budget(self.error_budget)
        ERROR_SEARCHES.resolve(self.error_search)


ROBUSTNESS: Registry[Robustness] = Registry(
    "robustness",
    Robustness,
    shorthand=lambda value: Robustness(value or 0) if value is None or _is_number(value) else value,
    expected="None, an error budget, or a Robustness object",
)


class CodedBlock(NamedTuple):
    """A block of test samples after coding."""

    samples: Floats  # (n_rows, n_features) as they were coded: after alignment, 0 where missing
    codes: RowCodes
    is_kept: Flags  # (n_rows, n_features) the features that the codes were fitted to
    is_wrong: Flags  # (n_rows, n_features) the support of the error
    is_known: Flags  # (n_rows, n_features)
    parameters: Floats  # (n_rows, n_parameters) of the maps found by alignment


class RobustCoder:
    """Codes blocks of samples; all settings have been checked."""

    def __init__(
        self,
        encoder: Encoder,
        robustness: Robustness | None = None,
        noise_scale: float = 0.0,
        registration: Registration | None = None,
    ):
        robustness = Robustness() if robustness is None else robustness
        self.encoder, self.robustness, self.registration = encoder, robustness, registration
        self.noise_scale = noise_scale  # standard deviation of the noise in training
        # Whether samples are taken to be complete, correct and registered.
        self.is_plain = registration is None and robustness.missing == "error" and robustness.error_budget == 0
        self._coder, self._search = MaskedCoder(encoder), ERROR_SEARCHES.resolve(robustness.error_search)

    def find_known(self, X: Floats, mask: Flags | None) -> tuple[Floats, Flags]:
        """Return samples with zeros in place of missing features, and which features are known."""
        is_known = np.ones(X.shape, bool) if mask is None else ~mask
        if self.robustness.missing == "mask":
            is_known &= ~np.isnan(X)
        return (X if is_known.all() else np.where(is_known, X, X.dtype.type(0))), is_known

    def code(self, samples: Floats, is_known: Flags) -> CodedBlock:
        """Register and code a block of rows."""
        parameters = np.zeros((len(samples), 0), samples.dtype)
        if self.registration is not None:
            view = self.registration.register(samples, is_known, self)
            parameters, is_known = view.parameters, view.is_known
            samples = np.where(is_known, view.samples, 0)
        budgets = self._count_budgets(is_known)
        if not budgets.any():
            codes = self.encoder.encode_tile(samples, is_known)
            return CodedBlock(samples, codes, is_known, np.zeros_like(is_known), is_known, parameters)
        fit, is_kept, is_wrong = self._search.find(self._coder, samples, is_known, budgets, self.noise_scale)
        return CodedBlock(samples, fit.codes, is_kept, is_wrong, is_known, parameters)

    def to_affine(self, parameters: Floats) -> Floats | None:
        """Return the affine maps for given parameters, None without alignment."""
        return None if self.registration is None else self.registration.to_affine(parameters)

    def fit(self, samples: Floats, is_known: Flags, tangents: Tangents | None) -> MaskedFit:
        """Code rows while they are being registered."""
        budgets = self._count_budgets(is_known)
        if budgets.any() and self._search.moves_samples:
            return self._search.find(self._coder, samples, is_known, budgets, self.noise_scale, tangents)[0]
        return self._coder.solve(samples, is_known, tangents)

    def measure_cost(self, residuals: Floats, is_known: Flags) -> Floats:
        """Return the cost that registration lowers: the squared residuals without the largest, which may be errors."""
        squared, budgets = np.where(is_known, residuals, 0) ** 2, self._count_budgets(is_known)
        if budgets.any():
            squared.sort(axis=1)
            squared[np.arange(squared.shape[1]) >= squared.shape[1] - budgets[:, None]] = 0
        n_known = np.maximum(is_known.sum(axis=1), 1)  # which changes as an image with missing pixels moves
        return squared.sum(axis=1) * (is_known.shape[1] / n_known)

    def _count_budgets(self, is_known: Flags) -> Counts:
        """Return the largest number of wrong features of each row; at least one must be right."""
        n_known, budget = is_known.sum(axis=1), self.robustness.error_budget
        wanted = budget if isinstance(budget, Integral) else np.floor(budget * n_known + _ROUNDING)
        return np.clip(wanted, 0, np.maximum(n_known - 1, 0)).astype(np.int64)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def check_error_budget(error_budget: float, n_features: float = np.inf) -> None:
    """Raise an error unless the budget is a count below the number of features or a fraction below 1."""
    if not _is_number(error_budget) or not error_budget >= 0:
        raise ValueError(
            "error_budget must be a number of features (an integer) or a fraction of them (a float), "
            f"got {error_budget!r}."
        )
    if isinstance(error_budget, Integral) and error_budget >= n_features:
        raise ValueError(
            f"error_budget={error_budget} leaves none of the {n_features} features to be right: use a smaller number, "
            "or a fraction below 1 such as 0.3."
        )
    if not isinstance(error_budget, Integral) and error_budget >= 1:
        raise ValueError(
            f"error_budget={error_budget!r} is a fraction of the features and must be below 1; for a number of "
            "features use an integer."
        )


def check_mask(mask: ArrayLike | None, shape: tuple[int, int]) -> Flags | None:
    """Return where features are missing, in the shape of the samples."""
    if mask is None:
        return None
    mask = np.asarray(mask)
    if mask.dtype != bool or mask.shape not in (shape, shape[1:]):
        raise ValueError(
            f"mask must be True where a feature is missing, in the shape of X, {shape}, or of one sample, "
            f"{shape[1:]}; got {mask.dtype} values of shape {mask.shape}."
        )
    return np.broadcast_to(mask, shape)
