r"""Discriminative sparse coding (DSC, Algorithm 1 of the paper): codes that represent *and* classify.

For a sample :math:`y` with labels :math:`l_j \in \{-1, +1\}`, noise variance :math:`\sigma^2` and class costs
:math:`\gamma_j` (Eq. 4 of the paper, atoms as rows of :math:`D`, intercepts :math:`b_j` outside the budget):

.. math::
    F(x) = \frac{\|y - D^T x\|^2}{\sigma^2} + 2 \sum_j \frac{\Omega(z_j)}{\gamma_j},
    \qquad z_j = l_j (w_j^T x + b_j), \qquad \|x\|_0 \le T.

Each Newton step replaces :math:`\Omega` by its parabola at the current code, which makes :math:`\sigma^2 F` the row
problem of a :class:`~ddlearn.SparseCoder` with

.. math::
    h_j = \sigma^2\, \Omega_2(z_j) / \gamma_j, \qquad
    p_j = \sigma^2 \left(\Omega_2(z_j)\, w_j^T x - l_j\, \Omega_1(z_j)\right) / \gamma_j .

The paper prints half of that weight, :math:`H_{jj}^2 = \Omega_2/(2\gamma_j)`.  Completing the square in its own Eq. 4
gives :math:`\Omega_2/\gamma_j`: only then does the parabola have the gradient of :math:`F`.

A coder with a penalty on codes, such as the :class:`~ddlearn.ElasticNet`, has :math:`\|y - D^T x\|^2` plus twice that
penalty, the *misfit*, in its place: the scale of the prior on codes is tied to the noise of the sample.

The greedy coder may miss the parabola's minimum, and the parabola is not :math:`F`, so a step can raise :math:`F`.
Such a step is rejected and the sample keeps its code: no sample's objective ever rises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.utils import check_array

from ..codes import RowCodes
from ..kernels.codes import change_rows, expand_square_rows, score_rows
from ..losses import Loss, resolve_loss
from ..parallel import TILE_ROWS, map_blocks, split_rows
from . import (
    Floats,
    SparseCoder,
    adapt_coder,
    check_budget,
    check_samples,
    compute_gram,
    correlate,
    make_correlations,
    measure_energies,
    measure_misfit,
    no_classes,
    resolve_sparse_coder,
)

__all__ = ["CodingRecord", "discriminative_encode"]


@dataclass(frozen=True)
class CodingRecord:
    """What discriminative coding did.

    Parameters
    ----------
    n_iter : ndarray of shape (n_samples,)
        Newton steps tried for each sample.
    n_accepted : int
        Steps that lowered the objective of their sample.
    n_rejected : int
        Steps that would have raised it and were undone.  A last step that only confirms the code within
        ``coding_tol`` may count as neither.
    objective_before : ndarray of shape (n_samples,)
        Each sample's objective F at the code it started from.
    objective_after : ndarray of shape (n_samples,)
        The same at the code returned.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import discriminative_encode
    >>> _, record = discriminative_encode(
    ...     [[1.0, 0.9]], [[-1, 1]], np.eye(2), [[1.0, -1.0], [-1.0, 1.0]],
    ...     noise_variance=1.0, class_cost=1.0, loss="square", n_nonzero_coefs=1,
    ... )
    >>> record.n_iter, record.n_accepted, record.n_rejected
    (array([1], dtype=int32), 1, 0)
    """

    n_iter: NDArray[np.int32]
    n_accepted: int
    n_rejected: int
    objective_before: Floats
    objective_after: Floats


@dataclass(frozen=True)
class ClassifierState:
    """What all rows of a discriminative coding share besides the dictionary: W, b, gamma and Omega."""

    coef: Floats  # (n_classes, n_components)
    intercept: Floats  # (n_classes,)
    class_cost: Floats  # (n_classes,)
    loss: Loss

    @property
    def is_quadratic(self) -> bool:
        return self.loss.is_quadratic


class Rows(NamedTuple):
    """What belongs to the rows of a block."""

    gram: Floats  # (n_components, n_components) shared by all rows
    correlations: Floats  # (n_rows, n_components)
    energies: Floats  # (n_rows,)
    labels: Floats  # (n_rows, n_classes)
    noise_variance: Floats  # (n_rows,)

    def take(self, positions: NDArray[np.intp]) -> Rows:
        if len(positions) == len(self.energies):
            return self
        return Rows(self.gram, *(array[positions] for array in self[1:]))


class Point(NamedTuple):
    """Codes of the rows of a block, with what is computed from them."""

    codes: RowCodes
    scores: Floats  # (n_rows, n_classes) without intercept
    misfit: Floats  # (n_rows,) squared residual, and twice the penalty on the code
    objective: Floats  # (n_rows,)

    def take(self, positions: NDArray[np.intp]) -> Point:
        return Point(self.codes.rows(positions), *(array[positions] for array in self[1:]))

    def put(self, positions: NDArray[np.intp], other: Point, chosen: NDArray[np.bool_]) -> None:
        """Overwrite some rows with those of `other` that are chosen."""
        for mine, theirs in (
            (self.codes.indices, other.codes.indices),
            (self.codes.values, other.codes.values),
            (self.scores, other.scores),
            (self.misfit, other.misfit),
            (self.objective, other.objective),
        ):
            mine[positions[chosen]] = theirs[chosen]


@dataclass
class _Tally:
    """What a :class:`CodingRecord` counts."""

    n_iter: NDArray[np.int32]
    n_accepted: int = 0
    n_rejected: int = 0


class DiscriminativeCoder:
    """Algorithm 1 on row blocks, for one dictionary and one set of classifiers that have been checked."""

    def __init__(
        self,
        dictionary: Floats,
        classifiers: ClassifierState,
        sparse_coder: SparseCoder,
        n_nonzero_coefs: int,
        max_coding_iter: int,
        coding_tol: float,
        n_jobs: int | None = None,
        gram: Floats | None = None,
    ):
        self.dictionary = dictionary
        self.gram = compute_gram(dictionary, n_jobs) if gram is None else gram
        self.classifiers = classifiers
        self.coef_by_atom = np.ascontiguousarray(classifiers.coef.T)
        self.sparse_coder = sparse_coder
        self.n_nonzero_coefs = n_nonzero_coefs
        self.max_coding_iter = max_coding_iter
        self.coding_tol = coding_tol
        self.n_jobs = n_jobs

    def encode(
        self,
        X: Floats,
        labels: Floats,
        noise_variance: Floats,
        init_codes: RowCodes | None = None,
        block_rows: int = TILE_ROWS,
    ) -> tuple[RowCodes, CodingRecord]:
        """Code all rows; :func:`discriminative_encode` for arguments that have been checked."""
        codes = RowCodes.empty(len(X), self.n_nonzero_coefs, X.dtype)
        blocks = split_rows(len(X), block_rows)

        def encode_block(block: slice, correlations: Floats) -> CodingRecord:
            rows = Rows(
                self.gram,
                correlate(X[block], self.dictionary, correlations),
                measure_energies(X[block], block.start),
                labels[block],
                noise_variance[block],
            )
            start = self._start(rows) if init_codes is None else init_codes.rows(block)
            point, record = self.descend(rows, start, is_start_traditional=init_codes is None)
            codes.indices[block] = point.codes.indices
            codes.values[block] = point.codes.values
            return record

        workspace = make_correlations(blocks, len(self.dictionary), X.dtype)
        records = map_blocks(encode_block, blocks, workspace, n_jobs=self.n_jobs)
        return codes, _join_records(records)

    def _start(self, rows: Rows) -> RowCodes:
        """Traditional codes, with which a sample without earlier codes begins."""
        n_rows, n_components = rows.correlations.shape
        terms = no_classes(n_rows, n_components, rows.correlations.dtype)
        return self.sparse_coder.encode(
            rows.gram, rows.correlations, *terms, n_nonzero_coefs=self.n_nonzero_coefs, energies=rows.energies
        )

    def descend(self, rows: Rows, start: RowCodes, is_start_traditional: bool) -> tuple[Point, CodingRecord]:
        """Take guarded Newton steps; a row that converged, or whose step was rejected, leaves the active set."""
        point = self.measure(rows, RowCodes(start.indices.copy(), start.values.copy()))
        objective_before = point.objective.copy()
        tally = _Tally(np.zeros(len(rows.energies), np.int32))
        is_labelled = rows.labels.any(axis=1)
        if not is_start_traditional:  # without labels, a traditional code is all there is to try
            self._try(lambda rows, _: self._start(rows), rows, point, np.flatnonzero(~is_labelled), tally)
        # One step solves a problem that is quadratic as it stands.
        max_iter = min(self.max_coding_iter, 1) if self.classifiers.is_quadratic else self.max_coding_iter
        active = np.flatnonzero(is_labelled)
        for _ in range(max_iter):
            active = self._try(self._step, rows, point, active, tally)
        return point, CodingRecord(tally.n_iter, tally.n_accepted, tally.n_rejected, objective_before, point.objective)

    def _try(
        self,
        propose: Callable[[Rows, Point], RowCodes],
        rows: Rows,
        point: Point,
        positions: NDArray[np.intp],
        tally: _Tally,
    ) -> NDArray[np.intp]:
        """Move rows to the codes proposed where that lowers their objective; return those worth going on with."""
        if positions.size == 0:
            return positions
        current, tried = point.take(positions), rows.take(positions)
        proposal = self.measure(tried, propose(tried, current))
        is_lower = proposal.objective < current.objective
        is_same = self._is_same(current.codes, proposal.codes)
        point.put(positions, proposal, is_lower)
        tally.n_iter[positions] += 1
        tally.n_accepted += int(np.count_nonzero(is_lower))
        tally.n_rejected += int(np.count_nonzero(~is_lower & ~is_same))
        return positions[is_lower & ~is_same]

    def _step(self, rows: Rows, current: Point) -> RowCodes:
        """Solve the parabola at the current scores."""
        classifiers = self.classifiers
        weight, pull = expand_loss(classifiers, rows.labels, rows.noise_variance, current.scores)
        start: dict[str, Any] = {}
        if getattr(self.sparse_coder, "starts_from_codes", False):
            start["init_codes"] = current.codes
        return self.sparse_coder.encode(
            rows.gram, rows.correlations, classifiers.coef, weight, pull, n_nonzero_coefs=self.n_nonzero_coefs, **start
        )

    def measure(self, rows: Rows, codes: RowCodes) -> Point:
        """Compute scores and the objective F of codes."""
        classifiers = self.classifiers
        scores = np.empty((len(codes.indices), len(classifiers.coef)), rows.gram.dtype)
        score_rows(codes.indices, codes.values, self.coef_by_atom, scores)
        squared_residual = np.empty_like(rows.energies)
        expand_square_rows(rows.gram, rows.correlations, codes.indices, codes.values, squared_residual)
        squared_residual += rows.energies
        np.maximum(squared_residual, 0, out=squared_residual)  # below zero only by rounding
        misfit = measure_misfit(self.sparse_coder, squared_residual, codes)
        # A label of 0 says nothing about its class, and costs nothing.
        cost = np.abs(rows.labels) * classifiers.loss.value(rows.labels * (scores + classifiers.intercept))
        objective = misfit / rows.noise_variance + 2 * np.sum(cost / classifiers.class_cost, axis=1)
        return Point(codes, scores, misfit, objective)

    def _is_same(self, old: RowCodes, new: RowCodes) -> NDArray[np.bool_]:
        """Whether a code has changed by no more than ``coding_tol``, relative to its size."""
        squared_change, squared_size = np.empty((2, len(old.indices)), old.values.dtype)
        change_rows(old.indices, old.values, new.indices, new.values, squared_change, squared_size)
        return squared_change <= self.coding_tol**2 * squared_size


def expand_loss(
    classifiers: ClassifierState, labels: Floats, noise_variance: Floats, scores: Floats
) -> tuple[Floats, Floats]:
    r"""Return the class weights :math:`h` and pulls :math:`p` of the parabola at the current scores."""
    loss = classifiers.loss
    margin = labels * (scores + classifiers.intercept)
    curvature = loss.surrogate_curvature(margin)
    scale = noise_variance[:, None] / classifiers.class_cost
    weight = scale * np.abs(labels) * curvature
    pull = weight * scores - scale * labels * loss.gradient(margin)
    return weight, pull


def _join_records(records: list[CodingRecord]) -> CodingRecord:
    return CodingRecord(
        n_iter=np.concatenate([record.n_iter for record in records]),
        n_accepted=sum(record.n_accepted for record in records),
        n_rejected=sum(record.n_rejected for record in records),
        objective_before=np.concatenate([record.objective_before for record in records]),
        objective_after=np.concatenate([record.objective_after for record in records]),
    )


def _check_classifiers(
    coef: ArrayLike, intercept: ArrayLike, class_cost: ArrayLike, loss: str | Loss, dictionary: Floats
) -> ClassifierState:
    dtype = dictionary.dtype
    coef = check_array(coef, dtype=dtype, order="C", input_name="coef")
    if coef.shape[1] != len(dictionary):
        raise ValueError(
            f"coef has {coef.shape[1]} columns, but there are {len(dictionary)} atoms: "
            "one row per class, one column per atom."
        )
    n_classes = len(coef)
    intercept = _fill(intercept, n_classes, "intercept", "classes", dtype)
    class_cost = _fill(class_cost, n_classes, "class_cost", "classes", dtype)
    _check_positive(class_cost, "class_cost")
    return ClassifierState(coef, intercept, class_cost, resolve_loss(loss))


def _fill(values: ArrayLike, length: int, name: str, what: str, dtype: np.dtype) -> Floats:
    """Return one finite value per class or sample; a scalar stands for all of them."""
    array = np.asarray(values, dtype=dtype)
    if array.shape not in {(), (length,)}:
        raise ValueError(f"{name} has shape {array.shape}, but there are {length} {what}: give one value, or one each.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} holds values that are not finite: {array[~np.isfinite(array)][:3]}.")
    return np.ascontiguousarray(np.broadcast_to(array, (length,)))


def _check_positive(values: Floats, name: str) -> None:
    if (values <= 0).any():
        worst = int(np.argmin(values))
        raise ValueError(f"{name} must be positive, got {values[worst]:g} at position {worst}: set a floor on it.")


def _check_labels(labels: ArrayLike, n_samples: int, n_classes: int, dtype: np.dtype) -> Floats:
    labels = check_array(labels, dtype=dtype, order="C", input_name="labels")
    if labels.shape != (n_samples, n_classes):
        raise ValueError(
            f"labels has shape {labels.shape}, expected ({n_samples}, {n_classes}): "
            "one row per sample, one column per class."
        )
    is_wrong = ~np.isin(labels, (-1, 0, 1))
    if is_wrong.any():
        row, column = np.argwhere(is_wrong)[0]
        raise ValueError(
            f"labels holds {labels[row, column]:g} in row {row}, column {column}; "
            "it must be +1 (of the class), -1 (not of it) or 0 (not known)."
        )
    return labels


def discriminative_encode(
    X: ArrayLike,
    labels: ArrayLike,
    dictionary: ArrayLike,
    coef: ArrayLike,
    intercept: ArrayLike = 0.0,
    *,
    noise_variance: ArrayLike,
    class_cost: ArrayLike,
    loss: str | Loss,
    n_nonzero_coefs: int | None = None,
    sparse_coder: str | SparseCoder = "omp",
    init_codes: csr_array | None = None,
    max_coding_iter: int = 100,
    coding_tol: float = 1e-4,
    n_jobs: int | None = None,
) -> tuple[csr_array, CodingRecord]:
    r"""Code samples so that they are well represented *and* well classified (the paper's DSC, Algorithm 1).

    Lowers, for each sample,

    .. math:: F(x) = \|y - D^T x\|^2 / \sigma^2 + 2 \sum_j \Omega(l_j (w_j^T x + b_j)) / \gamma_j

    over codes with at most T nonzeros, by Newton steps each of which is a sparse coding problem.  A step that would
    raise a sample's :math:`F` is undone, so no sample's objective rises.  The penalty of an :class:`ElasticNet`, twice,
    is added to the squared residual.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The samples, the paper's Y; float32 stays float32.
    labels : array-like of shape (n_samples, n_classes)
        +1, -1, or 0 where the label is not known; a row of zeros is coded without classifiers.
    dictionary : array-like of shape (n_components, n_features)
        One atom a row, the paper's D.
    coef : array-like of shape (n_classes, n_components)
        One classifier a row, the paper's W.
    intercept : float or array-like of shape (n_classes,), default=0.0
        The classifiers' intercepts; not part of the code and outside its budget.
    noise_variance : float or array-like of shape (n_samples,)
        The paper's :math:`\sigma_i^2`, positive.
    class_cost : float or array-like of shape (n_classes,)
        The paper's :math:`\gamma_j`, positive: the larger, the less a class pulls.
    loss : str or Loss
        The classification cost: a name such as "logistic", or an object.
    n_nonzero_coefs : int or None, default=None
        The paper's T, at most ``n_components``.  By default 5, for the elastic net 256, or all atoms if there are
        fewer.
    sparse_coder : {"omp", "ormp", "elastic_net"} or SparseCoder, default="omp"
        What solves each step.
    init_codes : sparse matrix of shape (n_samples, n_components) or None, default=None
        Codes to start from; by default those of :func:`sparse_encode`.
    max_coding_iter : int, default=100
        Newton steps at most.  A quadratic loss needs one.
    coding_tol : float, default=1e-4
        A sample is done when its code changes by no more, relative to its size.
    n_jobs : int or None, default=None
        Number of threads; None is 1 unless a ``joblib.parallel_config`` says otherwise, -1 all cores.  The codes are
        bitwise the same for every number.

    Returns
    -------
    codes : csr_array of shape (n_samples, n_components)
        The codes, at most T entries a row.
    record : CodingRecord
        Steps taken and the objective before and after.

    See Also
    --------
    sparse_encode : Codes without labels.

    Examples
    --------
    >>> import numpy as np
    >>> from ddlearn import discriminative_encode
    >>> atoms = np.eye(2)
    >>> codes, record = discriminative_encode(
    ...     [[1.0, 0.9]], [[-1, 1]], atoms, [[1.0, -1.0], [-1.0, 1.0]],
    ...     noise_variance=1.0, class_cost=1.0, loss="square", n_nonzero_coefs=1,
    ... )
    >>> codes.toarray().round(2)  # without labels the first atom would win
    array([[0.  , 0.98]])
    """
    X, dictionary = check_samples(X, dictionary)
    n_samples, n_components = len(X), len(dictionary)
    coder = resolve_sparse_coder(sparse_coder)
    n_nonzero_coefs = check_budget(n_nonzero_coefs, n_components, coder)
    classifiers = _check_classifiers(coef, intercept, class_cost, loss, dictionary)
    labels = _check_labels(labels, n_samples, len(classifiers.coef), X.dtype)
    noise_variance = _fill(noise_variance, n_samples, "noise_variance", "samples", X.dtype)
    _check_positive(noise_variance, "noise_variance")
    if not isinstance(max_coding_iter, Integral) or max_coding_iter < 0:
        raise ValueError(f"max_coding_iter must be an integer of at least 0, got {max_coding_iter!r}.")
    if not isinstance(coding_tol, Real) or not coding_tol >= 0:
        raise ValueError(f"coding_tol must be a number of at least 0, got {coding_tol!r}.")
    if init_codes is not None:
        init_codes = check_array(init_codes, accept_sparse="csr", dtype=X.dtype, input_name="init_codes")
        if init_codes.shape != (n_samples, n_components):
            raise ValueError(f"init_codes has shape {init_codes.shape}, expected {(n_samples, n_components)}.")
        init_codes = RowCodes.from_csr(init_codes, n_nonzero_coefs, X.dtype)
    coder = adapt_coder(coder, X, dictionary, n_nonzero_coefs)
    discriminative_coder = DiscriminativeCoder(
        dictionary, classifiers, coder, n_nonzero_coefs, max_coding_iter, coding_tol, n_jobs
    )
    codes, record = discriminative_coder.encode(X, labels, noise_variance, init_codes)
    return codes.to_csr(n_components), record
