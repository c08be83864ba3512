r"""Coding of test samples under the paper's testing model, :math:`y \circ \tau = D^T x + e + n`.

A test sample can be out of register (``alignment.py``), have grossly wrong features (``errors.py``), and miss features,
which are wrong features known beforehand.  A block of rows is first registered, without missing features and with a
search for errors in each round, and then coded.  Samples that need none of this are coded by ``encoder.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ..model.codes import Flags, Floats, RowCodes
from ..model.strategies import Registry, Strategy
from .alignment import Registration
from .errors import ERROR_SEARCHES, Counts, ErrorSearch
from .masked import MaskedCoder, MaskedFit, Tangents, trim_cost

_ROUNDING = 1e-9  # 0.29 * 100 is below 29 in floating point
MISSING = ("error", "mask")


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


@dataclass(frozen=True)
class RobustCoder:
    """Codes blocks of test samples; all settings have been checked."""

    coder: MaskedCoder
    robustness: Robustness
    noise_scale: float  # standard deviation of the noise in training
    registration: Registration | None = None

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
            codes = self.coder.encoder.encode_tile(samples, is_known)
            return CodedBlock(samples, codes, is_known, np.zeros_like(is_known), is_known, parameters)
        found = self._search.find(self.coder, samples, is_known, budgets, self.noise_scale)
        return CodedBlock(samples, found.fit.codes, found.is_kept, found.is_wrong, is_known, parameters)

    def to_affine(self, parameters: Floats) -> Floats | None:
        """Return the affine maps for given parameters, None without alignment."""
        return None if self.registration is None else self.registration.to_affine(parameters)

    def fit(self, samples: Floats, is_known: Flags, tangents: Tangents | None) -> MaskedFit:
        """Code rows while they are being registered."""
        budgets = self._count_budgets(is_known)
        if budgets.any() and self._search.moves_samples:
            return self._search.find(self.coder, samples, is_known, budgets, self.noise_scale, tangents).fit
        return self.coder.solve(samples, is_known, tangents)

    def measure_cost(self, residuals: Floats, is_known: Flags) -> Floats:
        """Return the cost that registration lowers: the squared residuals without the largest, which may be errors."""
        n_known = np.maximum(is_known.sum(axis=1), 1)  # which changes as an image with missing pixels moves
        return trim_cost(residuals, is_known, self._count_budgets(is_known)) * (is_known.shape[1] / n_known)

    @property
    def _search(self) -> ErrorSearch:
        return ERROR_SEARCHES.resolve(self.robustness.error_search)

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
