r"""Traditional sparse coding (TSC): the best code of a sample with at most T nonzeros.

For a dictionary :math:`D` with atoms as rows and a sample :math:`y`,

.. math:: \min_x \|y - D^T x\|^2 \quad\text{subject to}\quad \|x\|_0 \le T,

solved greedily.  A :class:`SparseCoder` solves the slightly larger row problem of discriminative coding, in which the
classifiers pull on the code too (Algorithm 1 of the paper, ``discriminative_coding.py``); TSC is the case without
classes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from ._omp_kernel import make_pursuit_workspace, pursue_rows
from .blocks import TILE_ROWS, map_blocks, split_rows
from .codes import RowCodes
from .strategies import find_copy_problems, report_problems

__all__ = ["OMP", "ORMP", "SPARSE_CODERS", "SparseCoder", "check_sparse_coder", "resolve_sparse_coder", "sparse_encode"]

Floats = NDArray[np.floating]

# A correlation this many rounding errors small, relative to the sample's largest, is a rounding error itself; so is a
# squared residual, the difference of the sample's energy and what the atoms explain, relative to that energy.
_ROUNDING_ERRORS_OF_CORRELATION = 100
_ROUNDING_ERRORS_OF_RESIDUAL = 4
# An atom is dependent on others when so small a share of its squared norm lies outside their span: half the digits and
# a margin, since coefficients lose twice as many digits as the share has.
PIVOT_FLOOR = {np.dtype(np.float64): 1e-10, np.dtype(np.float32): 1e-5}
_FEW_NONZERO_COEFS = 5
# Rows of the Gram matrix that one thread computes at a time, and atoms below which one thread is faster than several.
_GRAM_ROWS = 64
_FEW_ATOMS = 400


class SparseCoder(BaseEstimator, ABC):
    r"""Solves the row problems of sparse coding.

    For each row, with :math:`G` the Gram matrix of the atoms and :math:`W` the classifiers as rows,

    .. math::
        \min_x\; x^T (G + W^T \mathrm{diag}(h) W - B^T B)\, x - 2 (c + W^T p)^T x
        \quad\text{subject to}\quad \|x\|_0 \le T,

    with the row's correlations :math:`c`, class weights :math:`h` and class pull :math:`p`.  A coder that sets
    ``projects_directions`` also takes directions :math:`B`, different in each row, which alignment projects out of the
    problem; the others are never given any.  Weights may be negative, as those of missing features are, but the matrix
    in brackets never has a negative eigenvalue.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import OMP
    >>> gram, correlations = np.eye(3), np.array([[0.5, 3.0, -2.0]])
    >>> no_classes = np.empty((0, 3)), np.empty((1, 0)), np.empty((1, 0))
    >>> OMP().encode(gram, correlations, *no_classes, n_nonzero_coefs=2)
    RowCodes(indices=array([[1, 2]], dtype=int32), values=array([[ 3., -2.]]))
    """

    projects_directions = False

    @abstractmethod
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
    ) -> RowCodes:
        """Return the codes of some rows; all arrays are C-contiguous and of one dtype.

        Parameters
        ----------
        gram : ndarray of shape (n_components, n_components)
            Products of the atoms with each other.
        correlations : ndarray of shape (n_rows, n_components)
            Products of the samples with the atoms.
        coef : ndarray of shape (n_classes, n_components)
            The classifiers; no rows for traditional sparse coding.
        weight : ndarray of shape (n_rows, n_classes)
            Weight of each class in each row's problem.
        pull : ndarray of shape (n_rows, n_classes)
            Linear term of each class in each row's problem.
        n_nonzero_coefs : int
            The budget T.
        energies : ndarray of shape (n_rows,) or None, default=None
            Squared norms of the samples, given where a coder may stop on the residual: in traditional sparse coding,
            whether or not features are left out.
        directions : ndarray of shape (n_rows, n_directions, n_components) or None, default=None
            Directions to project out, given only to coders that set ``projects_directions``.

        Returns
        -------
        RowCodes
            At most T entries a row.
        """


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


SPARSE_CODERS: dict[str, type[SparseCoder]] = {"omp": OMP, "ormp": ORMP}


def resolve_sparse_coder(sparse_coder: str | SparseCoder, **parameters: Any) -> SparseCoder:
    """Return the coder of that registered name, or the object itself.

    Parameters
    ----------
    sparse_coder : str or SparseCoder
        A key of ``SPARSE_CODERS``, or an object with ``encode``.
    **parameters : dict
        Constructor parameters, if it is a name.

    Returns
    -------
    SparseCoder
        The coder.

    Examples
    --------
    >>> resolve_sparse_coder("omp")
    OMP()
    """
    if isinstance(sparse_coder, str):
        if sparse_coder not in SPARSE_CODERS:
            raise ValueError(
                f"{sparse_coder!r} is not a known sparse coder; choose one of {sorted(SPARSE_CODERS)} or pass a "
                "SparseCoder object."
            )
        return SPARSE_CODERS[sparse_coder](**parameters)
    if isinstance(sparse_coder, type) or not callable(getattr(sparse_coder, "encode", None)):
        raise TypeError(
            f"{sparse_coder!r} cannot serve as a sparse coder: it must be a name from {sorted(SPARSE_CODERS)} or an "
            "object (not a class) with the method encode."
        )
    return sparse_coder


def check_samples(X: ArrayLike, dictionary: ArrayLike) -> tuple[Floats, Floats]:
    """Return samples and atoms as C-contiguous arrays of one float dtype, that of the samples.

    The samples' values are looked at later, block by block, by :func:`measure_energies`.
    """
    X = check_array(X, dtype=[np.float64, np.float32], order="C", ensure_all_finite=False, input_name="X")
    dictionary = check_array(dictionary, dtype=X.dtype, order="C", input_name="dictionary")
    if X.shape[1] != dictionary.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} features, but the atoms in dictionary have {dictionary.shape[1]}: "
            "both hold one sample or atom a row, with the same features."
        )
    measure_energies(dictionary, 0, name="dictionary")
    return X, dictionary


def check_budget(n_nonzero_coefs: int | None, n_components: int) -> int:
    """Return T as an int, or say why it cannot be one; None is a few atoms, but no more than there are."""
    if n_nonzero_coefs is None:
        return min(_FEW_NONZERO_COEFS, n_components)
    if not isinstance(n_nonzero_coefs, Integral) or isinstance(n_nonzero_coefs, bool) or n_nonzero_coefs < 1:
        raise ValueError(f"n_nonzero_coefs must be an integer of at least 1, got {n_nonzero_coefs!r}.")
    if n_nonzero_coefs > n_components:
        raise ValueError(
            f"n_nonzero_coefs={n_nonzero_coefs} exceeds the {n_components} atoms of the dictionary: a code cannot use "
            "more atoms than there are. Lower n_nonzero_coefs or use a larger dictionary."
        )
    return int(n_nonzero_coefs)


def measure_energies(
    X: Floats, first_row: int, *, name: str = "X", remedy: str = "remove or impute such values"
) -> Floats:
    """Return the squared norm of each row; raise if a row is not finite or its square leaves the range of its dtype."""
    with np.errstate(over="ignore", invalid="ignore"):
        energies = np.vecdot(X, X)
    limits = np.finfo(X.dtype)
    # Below the smallest normal number over eps, products lose digits without a sign of it.
    smallest, largest = limits.tiny / limits.eps, limits.max * limits.eps
    if energies.min() >= smallest and energies.max() <= largest:
        return energies
    for position in np.flatnonzero(~((energies >= smallest) & (energies <= largest))):
        row = X[position]
        if not np.isfinite(row).all():
            feature = int(np.flatnonzero(~np.isfinite(row))[0])
            word = "NaN" if np.isnan(row[feature]) else "infinity"
            raise ValueError(f"{name} contains {word} in row {first_row + position}, feature {feature}: {remedy}.")
        if row.any():
            raise ValueError(
                f"Row {first_row + position} of {name} has values as large as {np.abs(row).max():.3g}, whose squares "
                f"leave the range of {X.dtype}: rescale the data."
            )
    return energies


def correlate(X: Floats, dictionary: Floats, out: Floats) -> Floats:
    """Fill ``out`` with the samples' products with the atoms, tile by tile."""
    out = out[: len(X)]
    for tile in split_rows(len(X), TILE_ROWS):
        np.matmul(X[tile], dictionary.T, out=out[tile])
    return out


def compute_gram(dictionary: Floats, n_jobs: int | None = None) -> Floats:
    """Return the products of the atoms with each other; each pair is computed once."""
    n_components = len(dictionary)
    gram = np.empty((n_components, n_components), dictionary.dtype)

    def fill(rows: slice, _: None) -> None:
        gram[rows, rows.start :] = dictionary[rows] @ dictionary[rows.start :].T
        gram[rows.start :, rows] = gram[rows, rows.start :].T

    starts = range(0, n_components, _GRAM_ROWS)
    blocks = [slice(start, min(start + _GRAM_ROWS, n_components)) for start in starts]
    map_blocks(fill, blocks, lambda: None, n_jobs=n_jobs if n_components > _FEW_ATOMS else 1)
    return gram


def no_classes(n_rows: int, n_components: int, dtype: np.dtype) -> tuple[Floats, Floats, Floats]:
    """Return the class terms (coef, weight, pull) of traditional sparse coding."""
    return np.empty((0, n_components), dtype), np.empty((n_rows, 0), dtype), np.empty((n_rows, 0), dtype)


def encode_rows(
    X: Floats,
    dictionary: Floats,
    coder: SparseCoder,
    n_nonzero_coefs: int,
    *,
    n_jobs: int | None = None,
    block_rows: int = TILE_ROWS,
    first_row: int = 0,
) -> RowCodes:
    """Code samples without the labels: :func:`sparse_encode` for arguments that have been checked.

    ``first_row`` is where the samples stand among all, to name one that cannot be coded.
    """
    n_components = len(dictionary)
    gram = compute_gram(dictionary, n_jobs)
    codes = RowCodes.empty(len(X), n_nonzero_coefs, X.dtype)
    blocks = split_rows(len(X), block_rows)

    def encode_block(rows: slice, correlations: Floats) -> None:
        block = codes.rows(rows)
        encoded = coder.encode(
            gram,
            correlate(X[rows], dictionary, correlations),
            *no_classes(len(block.indices), n_components, X.dtype),
            n_nonzero_coefs=n_nonzero_coefs,
            energies=measure_energies(X[rows], first_row + rows.start),
        )
        block.indices[:] = encoded.indices
        block.values[:] = encoded.values

    map_blocks(encode_block, blocks, make_correlations(blocks, n_components, X.dtype), n_jobs=n_jobs)
    return codes


def make_correlations(blocks: list[slice], n_components: int, dtype: np.dtype) -> Callable[[], Floats]:
    """Return what allocates one thread's correlations: as many rows as the largest block, the first, has."""
    return lambda: np.empty((blocks[0].stop, n_components), dtype)


def sparse_encode(
    X: ArrayLike,
    dictionary: ArrayLike,
    *,
    n_nonzero_coefs: int,
    method: str | SparseCoder = "omp",
    tol: float | None = None,
    n_jobs: int | None = None,
) -> csr_array:
    r"""Code each sample with at most T atoms, without labels (the paper's TSC).

    Minimises :math:`\|y - D^T x\|^2` over codes :math:`x` with at most :math:`T` nonzeros, greedily.  Atoms need not
    have unit norm: the atoms chosen, and the reconstruction, are those of the normalised dictionary.  A sample may get
    fewer than T coefficients: when its residual is zero to rounding, when no other atom can lower it, or by ``tol``.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The samples, the paper's Y; float32 stays float32.
    dictionary : array-like of shape (n_components, n_features)
        One atom a row, the paper's D.
    n_nonzero_coefs : int
        The paper's T, at most ``n_components``.
    method : {"omp", "ormp"} or SparseCoder, default="omp"
        Orthogonal matching pursuit, orthogonal least squares, or a coder of your own.
    tol : float or None, default=None
        Stop a sample when the squared norm of its residual is no larger.
    n_jobs : int or None, default=None
        Number of threads; None is 1 unless a ``joblib.parallel_config`` says otherwise, -1 all cores.  The codes are
        bitwise the same for every number.

    Returns
    -------
    csr_array of shape (n_samples, n_components)
        The codes, at most T entries a row.

    See Also
    --------
    discriminative_encode : Codes that the classifiers pull on.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import sparse_encode
    >>> atoms = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    >>> sparse_encode([[3.0, 4.0, 0.1]], atoms, n_nonzero_coefs=2).toarray()
    array([[3., 2., 0.]])
    """
    X, dictionary = check_samples(X, dictionary)
    n_nonzero_coefs = check_budget(n_nonzero_coefs, len(dictionary))
    if tol is not None and not (isinstance(tol, Real) and tol >= 0):
        raise ValueError(f"tol must be None or a number of at least 0, got {tol!r}.")
    if tol is not None and not isinstance(method, str):
        raise ValueError(f"tol={tol!r} goes with a method's name; give it to the constructor of {method!r} instead.")
    coder = resolve_sparse_coder(method, **({} if tol is None else {"tol": tol}))
    return encode_rows(X, dictionary, coder, n_nonzero_coefs, n_jobs=n_jobs).to_csr(len(dictionary))


def _find_layout_problems(codes: RowCodes, correlations: Floats, n_nonzero_coefs: int) -> Iterator[str]:
    n_rows, n_components = correlations.shape
    indices, values = codes
    if indices.shape != (n_rows, n_nonzero_coefs) or values.shape != indices.shape:
        yield f"it must return {n_rows} rows of {n_nonzero_coefs} places, got {indices.shape} and {values.shape}."
        return
    if indices.dtype != np.int32 or values.dtype != correlations.dtype:
        yield f"it must return int32 indices and {correlations.dtype} values, got {indices.dtype} and {values.dtype}."
    if not np.isfinite(values).all():
        yield "it returns coefficients that are not finite."
    if (indices < 0).any() or (indices >= n_components).any():
        yield f"it returns atoms outside 0 to {n_components - 1}."
    is_used = values != 0
    is_ascending = (np.diff(indices, axis=1) > 0) | ~is_used[:, 1:]
    if not is_ascending.all() or (is_used[:, 1:] & ~is_used[:, :-1]).any():
        yield "the used places of a row must come first, their atoms ascending."
    if indices[~is_used].any():
        yield "unused places must hold index 0 and value 0."


def _measure_cost(
    codes: RowCodes, gram: Floats, correlations: Floats, coef: Floats, weight: Floats, pull: Floats
) -> Floats:
    """Return what is to be minimised, row by row: 0 for a zero code."""
    x = codes.to_csr(len(gram)).toarray()
    scores = x @ coef.T
    return np.sum(x * (x @ gram - 2 * correlations), axis=1) + np.sum(scores * (weight * scores - 2 * pull), axis=1)


def _exceeds_zero_code(cost: Floats) -> bool:
    return bool((cost > 1e-5 * np.abs(cost).max()).any())


def _find_weight_problems(coder: SparseCoder, atoms: Floats, samples: Floats, n_nonzero_coefs: int) -> Iterator[str]:
    """Leave every third feature out, a different third in each row: the features are classes of weight -1."""
    n_rows, n_features = samples.shape
    is_kept = (np.arange(n_features) + np.arange(n_rows)[:, None]) % 3 > 0
    weight = np.where(is_kept, 0, -1).astype(atoms.dtype)
    samples = np.where(is_kept, samples, 0)
    given = atoms @ atoms.T, samples @ atoms.T, np.ascontiguousarray(atoms.T), weight, np.zeros_like(weight)
    codes = coder.encode(*given, n_nonzero_coefs=n_nonzero_coefs, energies=np.vecdot(samples, samples))
    problems = list(_find_layout_problems(codes, given[1], n_nonzero_coefs))
    yield from problems
    if not problems and _exceeds_zero_code(_measure_cost(codes, *given)):
        yield "a code costs more than the zero code does."


def _find_direction_problems(coder: SparseCoder, atoms: Floats, samples: Floats, n_nonzero_coefs: int) -> Iterator[str]:
    """Project a plane of the features out of each row, and compare with the projected Gram matrix."""
    (n_rows, n_features), n_components, dtype = samples.shape, len(atoms), atoms.dtype
    planes = np.random.default_rng(0).standard_normal((n_rows, n_features, 2))
    basis = np.linalg.qr(planes)[0].astype(dtype)
    directions = np.ascontiguousarray(basis.mT @ atoms.T)
    gram, correlations = atoms @ atoms.T, (samples - (basis @ (basis.mT @ samples[:, :, None]))[:, :, 0]) @ atoms.T
    given = gram, correlations, *no_classes(n_rows, n_components, dtype)
    codes = coder.encode(*given, n_nonzero_coefs=n_nonzero_coefs, directions=directions)
    problems = list(_find_layout_problems(codes, correlations, n_nonzero_coefs))
    yield from problems
    if problems:
        return
    for row, own in enumerate(directions):
        projected = gram - own.T @ own, correlations[[row]], *no_classes(1, n_components, dtype)
        cost = _measure_cost(codes.rows(slice(row, row + 1)), *projected)
        expected = _measure_cost(coder.encode(*projected, n_nonzero_coefs=n_nonzero_coefs), *projected)
        if abs(cost - expected) > 1e-3 * abs(expected):
            yield "codes differ from those for the matrix gram - B'B: take B into account, or drop projects_directions."
            return


def _find_coder_problems(coder: SparseCoder, dtype: np.dtype) -> Iterator[str]:
    rng = np.random.default_rng(0)
    n_rows, n_components, n_nonzero_coefs = 7, 12, 4
    atoms, samples = (rng.standard_normal((n, 9)).astype(dtype) for n in (n_components, n_rows))
    coef, pull = (rng.standard_normal(shape).astype(dtype) for shape in ((3, n_components), (n_rows, 3)))
    samples[0], pull[0] = 0, 0
    given = (atoms @ atoms.T, samples @ atoms.T, coef, np.abs(pull[:, ::-1]).copy(), pull)
    kept = [argument.copy() for argument in given]
    codes = coder.encode(*given, n_nonzero_coefs=n_nonzero_coefs, energies=None)
    if not all(np.array_equal(now, before) for now, before in zip(given, kept, strict=True)):
        yield "it changes its arguments in place; work on copies."
    layout_problems = list(_find_layout_problems(codes, given[1], n_nonzero_coefs))
    yield from layout_problems
    if layout_problems:
        return
    if codes.values[0].any():
        yield "a zero sample that no class pulls on must get a zero code."
    gram, correlations, coef, weight, pull = given
    if _exceeds_zero_code(_measure_cost(codes, *given)):
        yield "a code costs more than the zero code does."
    for row in range(n_rows):
        alone = coder.encode(
            gram, correlations[[row]], coef, weight[[row]], pull[[row]], n_nonzero_coefs=n_nonzero_coefs
        )
        if not np.array_equal(alone.values[0], codes.values[row]):
            yield "a row's code changes with the other rows; each row is a problem of its own."
            break
    terms, energies = no_classes(n_rows, n_components, dtype), np.vecdot(samples, samples)
    traditional = coder.encode(gram, correlations, *terms, n_nonzero_coefs=n_nonzero_coefs, energies=energies)
    for problem in _find_layout_problems(traditional, correlations, n_nonzero_coefs):
        yield f"without classes, {problem}"
    for problem in _find_weight_problems(coder, atoms, samples, n_nonzero_coefs):
        yield f"with negative weights, {problem}"
    if getattr(coder, "projects_directions", False):
        for problem in _find_direction_problems(coder, atoms, samples, n_nonzero_coefs):
            yield f"with directions, {problem}"


def check_sparse_coder(sparse_coder: str | SparseCoder) -> None:
    """Verify numerically that an object can serve as a sparse coder.

    Looks at the layout of the codes, at dtypes, at the cost of the codes against that of the zero code, at the
    independence of rows, at negative weights, at directions if it declares ``projects_directions``, and at clone and
    pickle.

    Parameters
    ----------
    sparse_coder : str or SparseCoder
        The coder to look at.

    Raises
    ------
    ValueError
        With one line for each thing that is wrong.

    Examples
    --------
    >>> from ddlearn import OMP, check_sparse_coder
    >>> check_sparse_coder(OMP())
    """
    coder = resolve_sparse_coder(sparse_coder)
    problems = [
        f"in {np.dtype(dtype)}: {problem}"
        for dtype in (np.float64, np.float32)
        for problem in _find_coder_problems(coder, np.dtype(dtype))
    ]
    report_problems(coder, "sparse coder", [*problems, *find_copy_problems(coder, "SparseCoder")])
