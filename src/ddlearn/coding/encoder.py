"""Traditional sparse coding (the paper's TSC): codes without labels, from a dictionary and its Gram matrix."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from sklearn.utils import check_array

from ..describe.checks import measure_energies
from ..kernels.codes import combine_rows
from ..model.codes import Flags, Floats, RowCodes
from ..model.strategies import Registry
from ..parallel import TILE_ROWS, map_blocks, single_threaded_blas, split_rows
from .coders import OMP, ORMP, SparseCoder, Workspaces, check_budget, pose_rows
from .elastic_net import ElasticNet

SPARSE_CODERS: Registry[SparseCoder] = Registry(
    "sparse coder", SparseCoder, {"omp": OMP, "ormp": ORMP, "elastic_net": ElasticNet}
)

# Rows of the products of samples with atoms, of which tiles are made: refinement cuts a mini-batch of one tile for two
# threads, and its codes are to be those of new samples, bit for bit.  Tiles of 256 rows would be 3 % faster.
PRODUCT_ROWS = TILE_ROWS // 2
_GRAM_ROWS = 128  # rows of the Gram matrix that one thread computes at a time
_FEW_ATOMS = 512  # up to this number, one product is as fast as blocks of it on two threads
_MOST_SAMPLES_TO_ADAPT = 1000


def compute_gram(dictionary: Floats, n_jobs: int | None = None) -> Floats:
    """Return the Gram matrix of the atoms, computing each pair once."""
    n_components = len(dictionary)
    if n_components <= _FEW_ATOMS:
        with single_threaded_blas():
            return dictionary @ dictionary.T  # which NumPy knows to be symmetric
    gram = np.empty((n_components, n_components), dictionary.dtype)

    def fill(rows: slice, _: None) -> None:
        gram[rows, rows.start :] = dictionary[rows] @ dictionary[rows.start :].T
        gram[rows.start :, rows] = gram[rows, rows.start :].T

    blocks = split_rows(n_components, _GRAM_ROWS, unit=_GRAM_ROWS)
    map_blocks(fill, blocks, lambda: None, n_jobs=n_jobs)
    return gram


@dataclass(frozen=True)
class Encoder:
    """A dictionary with its Gram matrix, and a sparse coder."""

    dictionary: Floats  # (n_components, n_features)
    gram: Floats  # (n_components, n_components)
    sparse_coder: SparseCoder
    n_nonzero_coefs: int

    sent_by_fields: ClassVar = True  # to a cluster, as a Model is

    @classmethod
    def of(
        cls, dictionary: Floats, sparse_coder: SparseCoder, n_nonzero_coefs: int, n_jobs: int | None = None
    ) -> Encoder:
        """Compute the Gram matrix."""
        return cls(dictionary, compute_gram(dictionary, n_jobs), sparse_coder, n_nonzero_coefs)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}  # without what is cached

    @cached_property
    def atoms_by_feature(self) -> Floats:
        """The dictionary with one row per feature."""
        return np.ascontiguousarray(self.dictionary.T)

    def with_dictionary(self, dictionary: Floats, n_jobs: int | None = None) -> Encoder:
        """Return an encoder with another dictionary."""
        return Encoder.of(dictionary, self.sparse_coder, self.n_nonzero_coefs, n_jobs)

    @cached_property
    def workspaces(self) -> Workspaces:
        """Arrays for the kernels of coders."""
        return {}

    def encode(
        self,
        X: Floats,
        is_known: Flags | None = None,
        start: RowCodes | None = None,
        *,
        n_jobs: int | None = None,
        first_row: int = 0,
    ) -> RowCodes:
        """Return the label-free codes of all samples: every code of training samples and of new ones is made here.

        Features that are not known are left out; samples must be finite there, too.  A coder that can start from codes
        starts from ``start``.  ``first_row`` is added to row numbers in error messages.
        """
        codes = RowCodes.empty(len(X), self.n_nonzero_coefs, X.dtype)

        def encode_rows(rows: slice, _: None) -> None:
            energies = measure_energies(X[rows], first_row + rows.start)
            known = None if is_known is None else is_known[rows]
            some = self.encode_tile(X[rows], known, None if start is None else start.rows(rows), energies=energies)
            codes.indices[rows], codes.values[rows] = some

        map_blocks(encode_rows, split_rows(len(X)), lambda: None, n_jobs=n_jobs)
        return codes

    def encode_tile(
        self,
        X: Floats,
        is_known: Flags | None = None,
        start: RowCodes | None = None,
        *,
        energies: Floats | None = None,
        n_nonzero_coefs: int | None = None,
    ) -> RowCodes:
        """Return the label-free codes of a block of rows that begins where a tile begins.

        ``energies`` are the squared norms of the samples, which have been checked, if they are known.
        """
        classes = self.leave_out(is_known)
        if classes is not None and is_known is not None:
            X, energies = np.where(is_known, X, 0), None
        energies = np.vecdot(X, X) if energies is None else energies
        return self.solve(self.correlate(X), n_nonzero_coefs, classes=classes, energies=energies, start=start)

    def leave_out(self, is_known: Flags | None) -> tuple[Floats, Floats, Floats] | None:
        """Return the classes of a row problem that leave out unknown features, of weight -1; None if all are known."""
        if is_known is None or is_known.all():
            return None
        weight = np.where(is_known, self.gram.dtype.type(0), self.gram.dtype.type(-1))
        return self.atoms_by_feature, weight, np.zeros_like(weight)

    def correlate(self, X: Floats) -> Floats:
        """Return the products of the samples with the atoms, each made of the same rows wherever it is made."""
        n_rows, n_features = X.shape
        out, atoms = np.empty((n_rows, len(self.dictionary)), X.dtype), self.atoms_by_feature
        n_multiplied = n_rows - (n_rows % PRODUCT_ROWS == 1)
        if n_multiplied < n_rows:  # one row by itself does not need BLAS, nor its threads held back
            workspace = np.empty(n_features, X.dtype), np.empty(n_features, np.int32)
            combine_rows(X[-1], atoms, *workspace, out[-1])
        for start in range(0, n_multiplied, PRODUCT_ROWS):
            rows = slice(start, start + PRODUCT_ROWS)
            # BLAS need not turn the atoms around for each tile: 6 % faster in float32, and much more for a few rows.
            np.matmul(X[rows], atoms, out=out[rows])
        return out

    def solve(self, correlations: Floats, n_nonzero_coefs: int | None = None, **terms: Any) -> RowCodes:
        """Return the coder's codes of a block of rows, given their products with the atoms.

        ``terms`` are those of :func:`pose_rows`; the squared norms as ``energies`` make it traditional coding.
        """
        budget = self.n_nonzero_coefs if n_nonzero_coefs is None else n_nonzero_coefs
        atoms = self.dictionary, self.atoms_by_feature
        problem = pose_rows(self.gram, correlations, budget, atoms=atoms, workspaces=self.workspaces, **terms)
        return self.sparse_coder.solve(problem)


def count_stride(n_samples: int) -> int:
    """Return s such that every s-th sample is used to adapt a coder."""
    return -(-n_samples // _MOST_SAMPLES_TO_ADAPT)


def adapt_coder(sparse_coder: SparseCoder, X: Floats, dictionary: Floats, n_nonzero_coefs: int) -> SparseCoder:
    """Return the coder with its open parameters estimated from the samples."""
    if sparse_coder.is_adapted:
        return sparse_coder
    samples = np.ascontiguousarray(X[:: count_stride(len(X))])
    if not np.isfinite(samples).all():
        measure_energies(np.ascontiguousarray(X), 0)  # raises an error that names the row
    return sparse_coder.adapt(samples, dictionary, n_nonzero_coefs)


def make_encoder(
    X: ArrayLike, dictionary: ArrayLike, sparse_coder: SparseCoder, n_nonzero_coefs: int | None, n_jobs: int | None
) -> tuple[Floats, Encoder]:
    """Return samples, not yet checked for NaN, and what codes them: in C order, of the float dtype of the samples."""
    X = check_array(X, dtype=[np.float64, np.float32], order="C", ensure_all_finite=False, input_name="X")
    dictionary = check_array(dictionary, dtype=X.dtype, order="C", input_name="dictionary")
    if X.shape[1] != dictionary.shape[1]:
        raise ValueError(
            f"X has {X.shape[1]} features, but the atoms in dictionary have {dictionary.shape[1]}: "
            "pass one sample or atom per row, with the same features."
        )
    measure_energies(dictionary, 0, name="dictionary")
    budget = check_budget(n_nonzero_coefs, len(dictionary), sparse_coder)
    return X, Encoder.of(dictionary, adapt_coder(sparse_coder, X, dictionary, budget), budget, n_jobs)


def sparse_encode(
    X: ArrayLike,
    dictionary: ArrayLike,
    *,
    n_nonzero_coefs: int | None = None,
    method: str | SparseCoder = "omp",
    tol: float | None = None,
    n_jobs: int | None = None,
) -> csr_array:
    r"""Code each sample with at most T atoms, without labels (the paper's TSC).

    Minimizes :math:`\|y - D^T x\|^2` over codes :math:`x` with at most :math:`T` nonzeros, greedily, or the objective
    of the :class:`ElasticNet`.  For the greedy methods atoms need not have unit norm: the chosen atoms and the
    reconstruction are those of the normalized dictionary.  A code has fewer than T coefficients if its residual is zero
    up to rounding, if no other atom can lower it, or because of a penalty or ``tol``.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The samples, the paper's Y; float32 stays float32.
    dictionary : array-like of shape (n_components, n_features)
        One atom per row, the paper's D.
    n_nonzero_coefs : int or None, default=None
        The paper's T, at most ``n_components``; by default 5 (elastic net: 256), or all atoms if there are fewer.
    method : {"omp", "ormp", "elastic_net"} or SparseCoder, default="omp"
        Orthogonal matching pursuit, orthogonal least squares, the elastic net, or a coder of your own.
    tol : float or None, default=None
        Parameter ``tol`` of a coder given by name: pursuits stop when the squared norm of the residual is at most tol.
    n_jobs : int or None, default=None
        Number of threads; None is 1 unless in a ``joblib.parallel_config`` context, -1 all cores.  Codes do not depend
        on it, to the last bit.

    Returns
    -------
    csr_array of shape (n_samples, n_components)
        The codes, at most T entries per row.

    See Also
    --------
    discriminative_encode : Codes that also depend on labels and classifiers.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import sparse_encode
    >>> atoms = np.array([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0], [0.0, 0.0, 1.0]])
    >>> sparse_encode([[3.0, 4.0, 0.1]], atoms, n_nonzero_coefs=2).toarray()
    array([[3., 2., 0.]])
    """
    if tol is not None and not (isinstance(tol, Real) and tol >= 0):
        raise ValueError(f"tol must be None or a number of at least 0, got {tol!r}.")
    if tol is not None and not isinstance(method, str):
        raise ValueError(f"tol={tol!r} needs the name of a method; pass it to the constructor of {method!r} instead.")
    coder = SPARSE_CODERS.resolve(method)
    if tol is not None:
        coder.set_params(tol=tol)
    X, encoder = make_encoder(X, dictionary, coder, n_nonzero_coefs, n_jobs)
    return encoder.encode(X, n_jobs=n_jobs).to_csr(len(encoder.dictionary))
