r"""Coding of test samples under the paper's testing model, :math:`y \circ \tau = D^T x + e + n`.

The three things that can come between a test sample and its code, each of which may be absent: an image out of
register (``alignment.py``), features that are grossly wrong (``gross_errors.py``) and features that are missing, which
are wrong features that are known beforehand.  A block of rows goes through them in that order: the image is
registered, leaving out what is missing and looking for errors as it moves; then it is coded where it has come to stand.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from ..codes import RowCodes
from ..parallel import map_blocks, split_rows
from . import Floats, measure_energies
from .alignment import Registration
from .errors import AlternatingErrors, Counts, ErrorRoute
from .masked import (
    Flags,
    MaskedCoder,
    MaskedFit,
    Tangents,
    trim_cost,
)

Result = TypeVar("Result")

_ROUNDING = 1e-9  # 0.29 of 100 features are 29, though not in floating point
MISSING = ("error", "mask")  # what NaN in a new sample is
_REMEDY = 'impute such values, or have NaN left out by missing="mask"'


class CodedBlock(NamedTuple):
    """A block of test samples after coding."""

    samples: Floats  # (n_rows, n_features) as they are seen in the end; 0 where missing
    codes: RowCodes
    is_kept: Flags  # (n_rows, n_features) the features that the codes were fitted to
    is_wrong: Flags  # (n_rows, n_features) the support of the error
    is_known: Flags  # (n_rows, n_features)
    parameters: Floats  # (n_rows, n_parameters) of the maps through which the samples are seen


@dataclass(frozen=True)
class NoisyCoder:
    """Codes blocks of test samples; all settings have been checked."""

    coder: MaskedCoder
    error_route: ErrorRoute = field(default_factory=AlternatingErrors)
    error_budget: float = 0  # features that may be wrong: a count, or if not an integer a share of those known
    noise_scale: float = 0.0  # standard deviation of the noise in training
    registration: Registration | None = None
    n_jobs: int | None = None

    def map(
        self, finish: Callable[[CodedBlock], Result], X: Floats, mask: Flags | None, is_nan_missing: bool
    ) -> list[Result]:
        """Code all rows, block by block, and return what ``finish`` makes of each block."""

        def work(block: slice, _: None) -> Result:
            samples, is_known = _find_known(X[block], None if mask is None else mask[block], is_nan_missing)
            measure_energies(samples, block.start, remedy=_REMEDY)  # says which row is not finite
            return finish(self.code(samples, is_known))

        return map_blocks(work, split_rows(len(X)), lambda: None, n_jobs=self.n_jobs)

    def code(self, samples: Floats, is_known: Flags) -> CodedBlock:
        """Register and code a block of rows."""
        parameters = np.zeros((len(samples), 0), samples.dtype)
        if self.registration is not None:
            view = self.registration.register(samples, is_known, self)
            parameters, is_known = view.parameters, view.is_known
            samples = np.where(is_known, view.samples, 0)
        budgets = self._count_budgets(is_known)
        if not budgets.any():
            codes = self.coder.encode(samples, is_known)
            return CodedBlock(samples, codes, is_known, np.zeros_like(is_known), is_known, parameters)
        found = self.error_route.find(self.coder, samples, is_known, budgets, self.noise_scale)
        return CodedBlock(samples, found.fit.codes, found.is_kept, found.is_wrong, is_known, parameters)

    def to_affine(self, parameters: Floats) -> Floats | None:
        """Return the affine maps of parameters, None without alignment."""
        return None if self.registration is None else self.registration.frame.to_affine(parameters)

    def fit(self, samples: Floats, is_known: Flags, tangents: Tangents | None) -> MaskedFit:
        """Code rows while they are being registered."""
        budgets = self._count_budgets(is_known)
        if budgets.any() and getattr(self.error_route, "moves_samples", False):
            return self.error_route.find(self.coder, samples, is_known, budgets, self.noise_scale, tangents).fit
        return self.coder.solve(samples, is_known, tangents)

    def measure_cost(self, residuals: Floats, is_known: Flags) -> Floats:
        """Return what registration lowers: the squared residuals of the features that cannot all be wrong.

        Scaled to all features: as an image with missing pixels moves, their number changes, which is no gain.
        """
        n_known = np.maximum(is_known.sum(axis=1), 1)
        return trim_cost(residuals, is_known, self._count_budgets(is_known)) * (is_known.shape[1] / n_known)

    def _count_budgets(self, is_known: Flags) -> Counts:
        """Return how many features of each row may be wrong; one at least must be right."""
        n_known = is_known.sum(axis=1)
        is_count = isinstance(self.error_budget, Integral)
        wanted = self.error_budget if is_count else np.floor(self.error_budget * n_known + _ROUNDING)
        return np.clip(wanted, 0, np.maximum(n_known - 1, 0)).astype(np.int64)


def check_error_budget(error_budget: float, n_features: int) -> float:
    """Return a budget that is a count below the number of features or a share below one, or say why it is not."""
    is_number = isinstance(error_budget, Real) and not isinstance(error_budget, bool) and error_budget >= 0
    if not is_number:
        raise ValueError(
            "error_budget must be a number of features (an integer) or a share of them (a float), "
            f"got {error_budget!r}."
        )
    if isinstance(error_budget, Integral) and error_budget >= n_features:
        raise ValueError(
            f"error_budget={error_budget} leaves none of the {n_features} features to be right: give a smaller number, "
            "or a share below 1 such as 0.3."
        )
    if not isinstance(error_budget, Integral) and error_budget >= 1:
        raise ValueError(
            f"error_budget={error_budget!r} is a share of the features and must be below 1; for a number of features "
            "give an integer."
        )
    return error_budget


def check_mask(mask: ArrayLike | None, shape: tuple[int, int]) -> Flags | None:
    """Return where features are missing, in the shape of the samples, or say why that cannot be told."""
    if mask is None:
        return None
    mask = np.asarray(mask)
    if mask.dtype != bool or mask.shape not in (shape, shape[1:]):
        raise ValueError(
            f"mask must hold True where a feature is missing, in the shape of X, {shape}, or of one sample, "
            f"{shape[1:]}; got {mask.dtype} values of shape {mask.shape}."
        )
    return np.broadcast_to(mask, shape)


def _find_known(X: Floats, mask: Flags | None, is_nan_missing: bool) -> tuple[Floats, Flags]:
    """Return samples with zeros where features are missing, and which features are known."""
    is_known = np.ones(X.shape, bool) if mask is None else ~mask
    if is_nan_missing:
        is_known &= ~np.isnan(X)
    return (X if is_known.all() else np.where(is_known, X, X.dtype.type(0))), is_known
