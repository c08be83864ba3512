"""Greedy coders: at most T atoms, one after the other, and least squares on those chosen."""

from __future__ import annotations

import numpy as np

from ..codes import RowCodes
from ..kernels.pursuit import make_pursuit_workspace, pursue_rows
from .coders import Floats, SparseCoder

# A correlation this many rounding errors small, relative to the sample's largest, is a rounding error itself; so is a
# squared residual, the difference of the sample's energy and what the atoms explain, relative to that energy.
_ROUNDING_ERRORS_OF_CORRELATION = 100
_ROUNDING_ERRORS_OF_RESIDUAL = 4
# An atom is dependent on others when so small a share of its squared norm lies outside their span: half the digits and
# a margin, since coefficients lose twice as many digits as the share has.
PIVOT_FLOOR = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}


class _Pursuit(SparseCoder):
    """What OMP and ORMP share: a greedy choice of atoms, least squares on those chosen."""

    projects_directions = True
    is_off_support_norm: bool

    def __init__(self, tol: float | None = None):
        self.tol = tol

    def encode(
        self,
        gram: Floats,
        correlations: Floats,
        coef: Floats,
        weight: Floats,
        pull: Floats,
        *,
        n_nonzero_coefs: int,
        energies: Floats | None = None,
        directions: Floats | None = None,
        init_codes: RowCodes | None = None,
    ) -> RowCodes:
        dtype = gram.dtype
        n_rows, n_components = correlations.shape
        directions = np.empty((n_rows, 0, n_components), dtype) if directions is None else directions
        if energies is None:
            energies, tolerances = np.zeros(n_rows, dtype), np.full(n_rows, -np.inf, dtype)
        else:
            floor = dtype.type(_ROUNDING_ERRORS_OF_RESIDUAL * np.finfo(dtype).eps)
            tolerances = np.maximum(floor * energies, dtype.type(self.tol or 0))
        codes = RowCodes(
            np.empty((n_rows, n_nonzero_coefs), np.int32),
            np.empty((n_rows, n_nonzero_coefs), dtype),
        )
        pursue_rows(
            gram,
            correlations,
            coef,
            weight,
            pull,
            directions.reshape(-1, n_components),
            energies,
            tolerances,
            dtype.type((_ROUNDING_ERRORS_OF_CORRELATION * np.finfo(dtype).eps) ** 2),
            dtype.type(PIVOT_FLOOR[dtype]),
            self.is_off_support_norm,
            make_pursuit_workspace(n_nonzero_coefs, n_components, len(coef), directions.shape[1], dtype),
            codes.indices,
            codes.values,
        )
        return codes


class OMP(_Pursuit):
    """Orthogonal matching pursuit: each step takes the atom most correlated with the residual.

    Parameters
    ----------
    tol : float or None, default=None
        Stop when the squared norm of the residual is no larger; only in traditional sparse coding.

    See Also
    --------
    ORMP : The atom that lowers the error most.

    Examples
    --------
    >>> OMP(tol=0.1)
    OMP(tol=0.1)
    """

    is_off_support_norm = False


class ORMP(_Pursuit):
    """Orthogonal least squares (order recursive matching pursuit): each step takes the atom that lowers the error most.

    Its residuals are lower than those of :class:`OMP`, by a few per cent on digits and by more on correlated atoms
    such as faces, for a little more time.

    Parameters
    ----------
    tol : float or None, default=None
        Stop when the squared norm of the residual is no larger; only in traditional sparse coding.

    See Also
    --------
    OMP : The atom most correlated with the residual.

    Examples
    --------
    >>> ORMP()
    ORMP()
    """

    is_off_support_norm = True
