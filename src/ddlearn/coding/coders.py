r"""Sparse coders: solvers of the row problems of sparse coding, and the two greedy ones, OMP and ORMP.

For a dictionary :math:`D` with atoms as rows and a sample :math:`y`, traditional sparse coding (TSC) is the paper's

.. math:: \min_x \|y - D^T x\|^2 \quad\text{subject to}\quad \|x\|_0 \le T .

A coder solves the slightly larger row problem of discriminative coding (``discriminative.py``), of which this is the
case without classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ..kernels.pursuit import make_pursuit_workspace, pursue_rows
from ..kernels.swaps import make_replacement_workspace, replace_rows
from ..model.codes import Floats, RowCodes
from ..model.strategies import Strategy, check_number

MOST_ROUNDS = 100_000  # that a parameter may ask for, on each sample; a model file must not make a prediction endless
# A correlation, relative to the largest one of the sample, and a squared residual, relative to the squared norm of the
# sample, are rounding errors below these multiples of the machine epsilon.
_ROUNDING_ERRORS_OF_CORRELATION = 100
_ROUNDING_ERRORS_OF_RESIDUAL = 4
# An atom is linearly dependent on others if a smaller fraction of its squared norm lies outside their span: half the
# digits and a margin, since coefficients lose twice as many digits as this fraction.
PIVOT_FLOOR = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}
# In traditional coding a swap must lower the squared residual by more than this share of what the code explains.
_SMALLEST_GAIN = {np.dtype(np.float64): 1e-6, np.dtype(np.float32): 1e-5}


# Workspaces of kernels that nobody uses at the moment, by what made them and the sizes: to make one takes as long as to
# code a sample. One that is taken out has one user, so that several threads may share them.
Workspaces = dict[tuple[Any, ...], Any]


class RowProblem(NamedTuple):
    """The problems of a block of rows, see :class:`SparseCoder`; all arrays are C-contiguous and of one dtype."""

    gram: Floats  # (n_components, n_components) products of the atoms with each other
    correlations: Floats  # (n_rows, n_components) products of the samples with the atoms
    coef: Floats  # (n_classes, n_components) the classifiers; in traditional sparse coding there are no classes
    weight: Floats  # (n_rows, n_classes) of each class in each row's problem
    pull: Floats  # (n_rows, n_classes) the linear term of each class in each row's problem
    directions: Floats  # (n_rows, n_directions, n_components) to project out
    n_nonzero_coefs: int  # the budget T
    energies: Floats | None = None  # (n_rows,) squared norms of the samples, in traditional sparse coding
    start: RowCodes | None = None  # codes that a coder may start from
    # The atoms, of which the products are the Gram matrix: one row per atom, and one row per feature.
    atoms: tuple[Floats, Floats] | None = None
    workspaces: Workspaces | None = None  # to be used again


def pose_rows(
    gram: Floats,
    correlations: Floats,
    n_nonzero_coefs: int,
    classes: tuple[Floats, Floats, Floats] | None = None,
    directions: Floats | None = None,
    **others: Any,
) -> RowProblem:
    """Return row problems, by default without classes and without directions; ``others`` are fields of the problem."""
    n_rows, n_components = correlations.shape
    if classes is None:
        no_terms = np.empty((n_rows, 0), gram.dtype)
        classes = np.empty((0, n_components), gram.dtype), no_terms, no_terms
    if directions is None:
        directions = np.empty((n_rows, 0, n_components), gram.dtype)
    return RowProblem(gram, correlations, *classes, directions, n_nonzero_coefs, **others)


class SparseCoder(Strategy, ABC):
    r"""Solves the row problems of sparse coding.

    For each row, with :math:`G` the Gram matrix of the atoms and :math:`W` the classifiers as rows,

    .. math::
        \min_x\; x^T (G + W^T \mathrm{diag}(h) W - B^T B)\, x - 2 (c + W^T p)^T x
        \quad\text{subject to}\quad \|x\|_0 \le T,

    with the row's correlations :math:`c`, class weights :math:`h` and class pull :math:`p`.  A coder that sets
    ``projects_directions`` also accepts directions :math:`B`, different in each row, which alignment projects out of
    the problem.  Weights may be negative, as for missing features, but the matrix in brackets is always positive
    semidefinite.

    A coder that sets ``has_penalty`` adds a penalty on the code, see :meth:`measure_penalty`.  A coder with parameters
    to be estimated from data implements :meth:`adapt`.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import OMP
    >>> from ddlearn.coding.coders import pose_rows
    >>> OMP().solve(pose_rows(np.eye(3), np.array([[0.5, 3.0, -2.0]]), n_nonzero_coefs=2))
    RowCodes(indices=array([[1, 2]], dtype=int32), values=array([[ 3., -2.]]))
    """

    projects_directions = False
    has_penalty = False
    ridge = 0.0  # added by a penalty to the squared norms of the atoms
    is_adapted = True  # False while a parameter has to be estimated from data
    default_budget = 5  # default of n_nonzero_coefs

    @abstractmethod
    def solve(self, problem: RowProblem) -> RowCodes:
        """Return the codes of a block of rows, at most T entries per row.

        Parameters
        ----------
        problem : RowProblem
            A named tuple, of which a coder takes what it needs; all arrays are C-contiguous and of one dtype.  The
            problem is ``gram`` :math:`G`, ``correlations``, the classes' ``coef`` :math:`W`, ``weight`` :math:`h` and
            ``pull`` :math:`p` (in traditional sparse coding there are no classes), ``directions`` (only of coders that
            set ``projects_directions`` there are any) and ``n_nonzero_coefs``.  What may help to solve it, or is None:
            ``energies``, the squared norms of the samples,
            in traditional sparse coding; ``start``, the current codes of the samples; and ``atoms``, of which the
            products are the Gram matrix, with one row per atom and with one row per feature.

        Returns
        -------
        RowCodes
            New arrays; those of the problem must not be changed.
        """

    def measure_penalty(self, values: Floats) -> Floats:
        """Return the penalty on each row of coefficients, in units of half the squared residual; 0 by default."""
        return np.zeros(len(values), values.dtype)

    def measure_misfit(self, squared_residuals: Floats, codes: RowCodes) -> Floats:
        """Return the cost that coding minimizes, per row: the squared residual plus twice the penalty."""
        return squared_residuals + 2 * self.measure_penalty(codes.values) if self.has_penalty else squared_residuals

    def adapt(self, samples: Floats, dictionary: Floats, n_nonzero_coefs: int) -> SparseCoder:
        """Return a coder whose open parameters are estimated from data, or itself if there are none.

        Parameters
        ----------
        samples : ndarray of shape (n_samples, n_features)
            Some of the samples to be coded, at most about 1000.
        dictionary : ndarray of shape (n_components, n_features)
            The initial dictionary.
        n_nonzero_coefs : int
            The budget T.
        """
        return self

    def list_candidates(self, norm: float) -> list[SparseCoder]:
        """Return coders to choose from, for samples of this norm; one whose parameters are all known is alone."""
        return [self]

    def learned_parameters(self) -> dict[str, float]:
        """Return the numeric parameters by name, which files store for :meth:`with_learned_parameters`."""
        return {name: value for name, value in self.get_params().items() if type(value) is float}

    def with_learned_parameters(self, values: dict[str, float]) -> SparseCoder:
        """Return a coder with the parameters of an earlier :meth:`adapt`, or itself if it has no open parameters."""
        if self.is_adapted:
            return self
        known = self.get_params()
        return clone(self).set_params(**{name: value for name, value in values.items() if name in known})


def check_budget(n_nonzero_coefs: int | None, n_components: int, sparse_coder: SparseCoder | None = None) -> int:
    """Return T as an int; by default that of the coder, or all atoms if there are fewer."""
    if n_nonzero_coefs is None:
        return min((sparse_coder or SparseCoder).default_budget, n_components)
    if not isinstance(n_nonzero_coefs, Integral) or isinstance(n_nonzero_coefs, bool) or n_nonzero_coefs < 1:
        raise ValueError(f"n_nonzero_coefs must be an integer of at least 1, got {n_nonzero_coefs!r}.")
    if n_nonzero_coefs > n_components:
        raise ValueError(
            f"n_nonzero_coefs={n_nonzero_coefs} exceeds the {n_components} atoms of the dictionary: a code cannot use "
            "more atoms than there are. Lower n_nonzero_coefs or use a larger dictionary."
        )
    return int(n_nonzero_coefs)


@cache
def _find_floors(dtype: np.dtype) -> tuple[Any, Any, Any, Any]:
    """Return the rounding errors of squared residuals and correlations, the pivot floor and the smallest gain."""
    eps = np.finfo(dtype).eps
    correlation = (_ROUNDING_ERRORS_OF_CORRELATION * eps) ** 2
    floors = _ROUNDING_ERRORS_OF_RESIDUAL * eps, correlation, PIVOT_FLOOR[dtype], _SMALLEST_GAIN[dtype]
    return tuple(map(dtype.type, floors))


class _Pursuit(SparseCoder):
    """Greedy choice of atoms, with least squares on those chosen, then swaps: what OMP and ORMP share."""

    projects_directions = True
    uses_residual_norm: bool

    def __init__(self, tol: float | None = None, *, n_swaps: int = 10):
        self.tol = tol
        self.n_swaps = n_swaps

    def check_parameters(self) -> None:
        check_number("n_swaps", self.n_swaps, Integral, most=MOST_ROUNDS)
        if self.tol is not None:
            check_number("tol", self.tol, Real)

    def solve(self, problem: RowProblem) -> RowCodes:
        (n_rows, n_components), dtype, energies = problem.correlations.shape, problem.gram.dtype, problem.energies
        budget, (_, n_directions, _) = problem.n_nonzero_coefs, problem.directions.shape
        spare = {} if problem.workspaces is None else problem.workspaces
        sizes, (residual, correlation, pivot, gain) = (budget, n_components, len(problem.coef)), _find_floors(dtype)
        if energies is None:
            tolerances = np.full(n_rows, -np.inf, dtype)
        else:
            tolerances = residual * energies
            if self.tol:
                tolerances = np.maximum(tolerances, dtype.type(self.tol))
        is_small = len(problem.coef) == 0  # missing features are as many classes as there are features
        codes = RowCodes(np.zeros((n_rows, budget), np.int32), np.zeros((n_rows, budget), dtype))
        limits: tuple[Any, ...] = np.zeros(n_rows, dtype) if energies is None else energies, tolerances
        limits += correlation, pivot
        directions = problem.directions.reshape(-1, n_components)
        key = make_pursuit_workspace, *sizes, n_directions, dtype
        workspace = spare.pop(key, None) or make_pursuit_workspace(*key[1:])
        pursue_rows(*problem[:5], directions, *limits, self.uses_residual_norm, workspace, *codes)
        if is_small:
            spare[key] = workspace
        if energies is not None and self.n_swaps > 0 and budget > 1:
            chosen = np.take_along_axis(problem.correlations, codes.indices.astype(np.intp), 1)
            limits = gain * np.abs(np.vecdot(chosen, codes.values)), pivot, self.n_swaps, 0, False
            key = make_replacement_workspace, *sizes, dtype
            workspace = spare.pop(key, None) or make_replacement_workspace(*key[1:])
            replace_rows(*problem[:5], np.arange(n_rows), *limits, workspace, *codes, np.empty(n_rows, np.int32))
            if is_small:
                spare[key] = workspace
        return codes


class OMP(_Pursuit):
    """Orthogonal matching pursuit: each step takes the atom most correlated with the residual.

    Parameters
    ----------
    tol : float or None, default=None
        Stop when the squared norm of the residual is at most tol; only in traditional sparse coding.
    n_swaps : int, default=0
        How many atoms of a code are replaced afterwards at most, as for :class:`ORMP`.

    See Also
    --------
    ORMP : The atom that lowers the error most.

    Examples
    --------
    >>> OMP(tol=0.1)
    OMP(tol=0.1)
    """

    uses_residual_norm = False

    def __init__(self, tol: float | None = None, *, n_swaps: int = 0):
        super().__init__(tol, n_swaps=n_swaps)


class ORMP(_Pursuit):
    """Orthogonal least squares (order recursive matching pursuit): each step takes the atom that lowers the error most.

    Its residuals are lower than those of :class:`OMP`, by a few per cent on digits and by more on correlated atoms
    such as faces, for a little more time.

    Parameters
    ----------
    tol : float or None, default=None
        Stop when the squared norm of the residual is at most tol; only in traditional sparse coding.
    n_swaps : int, default=10
        How many atoms of a code are replaced afterwards at most, each by the swap that lowers the error most; only in
        traditional sparse coding.  0 is the pursuit alone, for about half of the time.

    See Also
    --------
    OMP : The atom most correlated with the residual.

    Examples
    --------
    >>> ORMP()
    ORMP()
    """

    uses_residual_norm = True
