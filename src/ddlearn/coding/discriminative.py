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

For a coder with a penalty on codes, such as the :class:`~ddlearn.ElasticNet`, twice the penalty is added to
:math:`\|y - D^T x\|^2`; the sum is the *misfit*.

The greedy coder may miss the parabola's minimum, and the parabola differs from :math:`F`, so a step can raise
:math:`F`.  Such a step is rejected and the sample keeps its code: no sample's objective ever rises.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator
from sklearn.utils import check_array

from ..codes import Flags, Floats, Model, RowCodes
from ..kernels.codes import change_rows, expand_square_rows
from ..losses import Loss, check_number, resolve_loss
from ..parallel import TILE_ROWS, map_blocks, split_rows
from .coders import SparseCoder, check_budget
from .encoder import Encoder, adapt_coder, check_samples, measure_energies, resolve_sparse_coder


class DiscriminativeCoding(BaseEstimator):
    """When Algorithm 1 stops.

    Parameters
    ----------
    max_iter : int, default=100
        Largest number of Newton steps, the paper's p_max.  A quadratic loss needs one.
    tol : float, default=1e-4
        A code has converged when it changes by at most this much, relative to its norm.

    Examples
    --------
    >>> from ddlearn import DDLClassifier, DiscriminativeCoding
    >>> DDLClassifier(coding=DiscriminativeCoding(max_iter=10)).get_params()["coding__max_iter"]
    10
    """

    def __init__(self, max_iter: int = 100, tol: float = 1e-4):
        self.max_iter = max_iter
        self.tol = tol

    def check_parameters(self) -> None:
        """Raise an error unless both are numbers of at least 0."""
        check_number("max_iter of the coding", self.max_iter, Integral)
        check_number("tol of the coding", self.tol, Real)


@dataclass(frozen=True)
class CodingRecord:
    """Steps and objective of a run of discriminative coding.

    Parameters
    ----------
    n_iter : ndarray of shape (n_samples,)
        Newton steps tried per sample.
    n_accepted : int
        Steps that lowered the objective of their sample.
    n_rejected : int
        Steps that would have raised it and were undone.  A last step within the tolerance may count as neither.
    objective_before : ndarray of shape (n_samples,)
        The objective F of each sample at its initial code.
    objective_after : ndarray of shape (n_samples,)
        The objective F of each sample at the returned code.

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


class RowProblems(NamedTuple):
    """The problems of the rows of a block."""

    correlations: Floats  # (n_rows, n_components)
    energies: Floats  # (n_rows,)
    labels: Floats  # (n_rows, n_classes)
    noise_variance: Floats  # (n_rows,)

    def take(self, positions: NDArray[np.intp]) -> RowProblems:
        """Return the problems of some of the rows."""
        return self if len(positions) == len(self.energies) else RowProblems(*(array[positions] for array in self))


class Point(NamedTuple):
    """Codes of the rows of a block, with their scores and costs."""

    codes: RowCodes
    scores: Floats  # (n_rows, n_classes) without intercept
    misfit: Floats  # (n_rows,) squared residual plus twice the penalty on the code
    objective: Floats  # (n_rows,)

    def take(self, positions: NDArray[np.intp]) -> Point:
        """Return some of the rows."""
        return Point(self.codes.rows(positions), *(array[positions] for array in self[1:]))

    def put(self, positions: NDArray[np.intp], other: Point, is_chosen: Flags) -> None:
        """Overwrite rows at these positions with the chosen rows of another point."""
        rows = positions[is_chosen]
        for array, new in zip((*self.codes, *self[1:]), (*other.codes, *other[1:]), strict=True):
            array[rows] = new[is_chosen]


@dataclass(frozen=True)
class DiscriminativeCoder:
    """Algorithm 1 for one dictionary and one set of classifiers; all arguments have been checked."""

    encoder: Encoder
    model: Model  # with the weight of the labels in its class costs
    loss: Loss
    coding: DiscriminativeCoding

    def encode(
        self,
        X: Floats,
        labels: Floats,
        noise_variance: Floats,
        init_codes: RowCodes | None = None,
        *,
        n_jobs: int | None = None,
        block_rows: int = TILE_ROWS,
    ) -> tuple[RowCodes, CodingRecord]:
        """Code all rows, as :func:`discriminative_encode` does."""
        encoder = self.encoder
        shape = (len(X), encoder.n_nonzero_coefs)
        codes = RowCodes(np.empty(shape, np.int32), np.empty(shape, X.dtype))
        n_steps = np.empty((3, len(X)), np.int32)
        before, after = np.empty((2, len(X)), X.dtype)
        blocks = split_rows(len(X), block_rows)

        def encode_rows(rows: slice, workspace: Floats) -> None:
            energies = measure_energies(X[rows], rows.start)
            correlations = encoder.correlate(X[rows], workspace)
            problems = RowProblems(correlations, energies, labels[rows], noise_variance[rows])
            is_new = init_codes is None
            start = encoder.encode_block(correlations, energies) if is_new else init_codes.rows(rows)  # type: ignore[union-attr]
            point, n_steps[:, rows], before[rows] = self.descend(problems, start, is_start_traditional=is_new)
            codes.indices[rows], codes.values[rows], after[rows] = *point.codes, point.objective

        map_blocks(encode_rows, blocks, encoder.make_workspace(blocks), n_jobs=n_jobs)
        n_accepted, n_rejected = n_steps[1:].sum(axis=1).tolist()
        return codes, CodingRecord(n_steps[0], n_accepted, n_rejected, before, after)

    def descend(
        self, problems: RowProblems, start: RowCodes, *, is_start_traditional: bool
    ) -> tuple[Point, NDArray[np.int32], Floats]:
        """Take Newton steps while they lower the objective; return also their numbers, and the objective before.

        The numbers of steps are those tried, accepted and rejected, of shape (3, n_rows).
        """
        point = self.evaluate(problems, RowCodes(start.indices.copy(), start.values.copy()))
        objective_before = point.objective.copy()
        n_steps = np.zeros((3, len(objective_before)), np.int32)
        is_labelled = problems.labels.any(axis=1)
        if not is_start_traditional:  # rows without labels get their traditional code
            self._try(self._encode_label_free, problems, point, np.flatnonzero(~is_labelled), n_steps)
        active = np.flatnonzero(is_labelled)
        # One step solves a quadratic problem.
        for _ in range(min(self.coding.max_iter, 1) if self.loss.is_quadratic else self.coding.max_iter):
            active = self._try(self._step, problems, point, active, n_steps)
        return point, n_steps, objective_before

    def _try(
        self,
        propose: Callable[[RowProblems, Point], RowCodes],
        problems: RowProblems,
        point: Point,
        positions: NDArray[np.intp],
        n_steps: NDArray[np.int32],
    ) -> NDArray[np.intp]:
        """Accept proposed codes that lower the objective of their row; return the rows that have not converged."""
        if positions.size == 0:
            return positions
        current, tried = point.take(positions), problems.take(positions)
        proposal = self.evaluate(tried, propose(tried, current))
        is_lower = proposal.objective < current.objective
        squared_change, squared_size = np.empty((2, len(positions)), current.misfit.dtype)
        change_rows(*current.codes, *proposal.codes, squared_change, squared_size)
        is_same = squared_change <= self.coding.tol**2 * squared_size
        point.put(positions, proposal, is_lower)
        n_steps[:, positions] += np.stack([np.ones_like(is_lower), is_lower, ~is_lower & ~is_same])
        return positions[is_lower & ~is_same]

    def _encode_label_free(self, problems: RowProblems, _: Point) -> RowCodes:
        return self.encoder.encode_block(problems.correlations, problems.energies)

    def _step(self, problems: RowProblems, current: Point) -> RowCodes:
        """Minimize the parabola at the current scores."""
        encoder = self.encoder
        weight, pull = expand_loss(self.model, self.loss, problems, current.scores)
        start: dict[str, Any] = {"init_codes": current.codes} if encoder.sparse_coder.starts_from_codes else {}
        problem = encoder.gram, problems.correlations, self.model.coef, weight, pull
        return encoder.sparse_coder.encode(*problem, n_nonzero_coefs=encoder.n_nonzero_coefs, **start)

    def evaluate(self, problems: RowProblems, codes: RowCodes) -> Point:
        """Compute scores and the objective F of codes."""
        scores = self.model.scores_without_intercept(codes)
        squared_residual = np.empty_like(problems.energies)
        expand_square_rows(self.encoder.gram, problems.correlations, *codes, squared_residual)
        squared_residual += problems.energies
        np.maximum(squared_residual, 0, out=squared_residual)  # below zero only by rounding
        misfit, sparse_coder = squared_residual, self.encoder.sparse_coder
        if sparse_coder.has_penalty:
            misfit = sparse_coder.measure_misfit(squared_residual, codes)
        # A label of 0 is unknown and has no cost.
        margin = problems.labels * (scores + self.model.intercept)
        cost = np.abs(problems.labels) * self.loss.value(margin)
        objective = misfit / problems.noise_variance + 2 * np.sum(cost / self.model.class_cost, axis=1)
        return Point(codes, scores, misfit, objective)


def expand_loss(model: Model, loss: Loss, problems: RowProblems, scores: Floats) -> tuple[Floats, Floats]:
    r"""Return the class weights :math:`h` and pulls :math:`p` of the parabola at the current scores."""
    labels = problems.labels
    margin = labels * (scores + model.intercept)
    scale = problems.noise_variance[:, None] / model.class_cost
    weight = scale * np.abs(labels) * loss.surrogate_curvature(margin)
    pull = weight * scores - scale * labels * loss.gradient(margin)
    return weight, pull


def _check_model(dictionary: Floats, coef: ArrayLike, intercept: ArrayLike, class_cost: ArrayLike) -> Model:
    coef = check_array(coef, dtype=dictionary.dtype, order="C", input_name="coef")
    if coef.shape[1] != len(dictionary):
        raise ValueError(
            f"coef has {coef.shape[1]} columns, but there are {len(dictionary)} atoms: "
            "pass one row per class, one column per atom."
        )
    intercept = _fill(intercept, len(coef), "intercept", "classes", dictionary.dtype)
    class_cost = _fill(class_cost, len(coef), "class_cost", "classes", dictionary.dtype, positive=True)
    return Model(dictionary, coef, intercept, class_cost)


def _fill(values: ArrayLike, length: int, name: str, what: str, dtype: np.dtype, *, positive: bool = False) -> Floats:
    """Return one finite value per class or sample; a scalar is repeated."""
    array = np.asarray(values, dtype=dtype)
    if array.shape not in {(), (length,)}:
        raise ValueError(f"{name} has shape {array.shape}, but there are {length} {what}: pass one value, or one each.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} contains values that are not finite: {array[~np.isfinite(array)][:3]}.")
    array = np.ascontiguousarray(np.broadcast_to(array, (length,)))
    if positive and (array <= 0).any():
        worst = int(np.argmin(array))
        raise ValueError(f"{name} must be positive, got {array[worst]:g} at position {worst}: set a floor on it.")
    return array


def _check_labels(labels: ArrayLike, n_samples: int, n_classes: int, dtype: np.dtype) -> Floats:
    labels = check_array(labels, dtype=dtype, order="C", input_name="labels")
    if labels.shape != (n_samples, n_classes):
        raise ValueError(
            f"labels has shape {labels.shape}, expected ({n_samples}, {n_classes}): "
            "pass one row per sample, one column per class."
        )
    is_wrong = ~np.isin(labels, (-1, 0, 1))
    if is_wrong.any():
        row, column = np.argwhere(is_wrong)[0]
        raise ValueError(
            f"labels contains {labels[row, column]:g} in row {row}, column {column}; "
            "it must be +1 (of the class), -1 (not of it) or 0 (unknown)."
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
    r"""Code samples such that they are well represented *and* well classified (the paper's DSC, Algorithm 1).

    Lowers, for each sample,

    .. math:: F(x) = \|y - D^T x\|^2 / \sigma^2 + 2 \sum_j \Omega(l_j (w_j^T x + b_j)) / \gamma_j

    over codes with at most T nonzeros, by Newton steps, each of which is a sparse coding problem.  A step that would
    raise a sample's :math:`F` is undone, so no sample's objective rises.  Twice the penalty of an :class:`ElasticNet`
    is added to the squared residual.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        The samples, the paper's Y; float32 stays float32.
    labels : array-like of shape (n_samples, n_classes)
        +1, -1, or 0 where the label is unknown; a row of zeros is coded without classifiers.
    dictionary : array-like of shape (n_components, n_features)
        One atom per row, the paper's D.
    coef : array-like of shape (n_classes, n_components)
        One classifier per row, the paper's W.
    intercept : float or array-like of shape (n_classes,), default=0.0
        The classifiers' intercepts.
    noise_variance : float or array-like of shape (n_samples,)
        The paper's :math:`\sigma_i^2`, positive.
    class_cost : float or array-like of shape (n_classes,)
        The paper's :math:`\gamma_j`, positive; the larger, the less a class influences codes.
    loss : str or Loss
        The classification cost: a name such as "logistic", or an object.
    n_nonzero_coefs : int or None, default=None
        The paper's T, at most ``n_components``; by default 5 (elastic net: 256), or all atoms if there are fewer.
    sparse_coder : {"omp", "ormp", "elastic_net"} or SparseCoder, default="omp"
        The solver of each step.
    init_codes : sparse matrix of shape (n_samples, n_components) or None, default=None
        Codes to start from; by default those of :func:`sparse_encode`.
    max_coding_iter : int, default=100
        Largest number of Newton steps.  A quadratic loss needs one.
    coding_tol : float, default=1e-4
        A sample is done when its code changes by at most this much, relative to its norm.
    n_jobs : int or None, default=None
        Number of threads; None is 1 unless in a ``joblib.parallel_config`` context, -1 all cores.  Codes do not depend
        on it, to the last bit.

    Returns
    -------
    codes : csr_array of shape (n_samples, n_components)
        The codes, at most T entries per row.
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
    model = _check_model(dictionary, coef, intercept, class_cost)
    labels = _check_labels(labels, n_samples, len(model.coef), X.dtype)
    noise_variance = _fill(noise_variance, n_samples, "noise_variance", "samples", X.dtype, positive=True)
    check_number("max_coding_iter", max_coding_iter, Integral)
    check_number("coding_tol", coding_tol, Real)
    if init_codes is not None:
        init_codes = check_array(init_codes, accept_sparse="csr", dtype=X.dtype, input_name="init_codes")
        if init_codes.shape != (n_samples, n_components):
            raise ValueError(f"init_codes has shape {init_codes.shape}, expected {(n_samples, n_components)}.")
        init_codes = RowCodes.from_csr(init_codes, n_nonzero_coefs, X.dtype)
    encoder = Encoder.of(dictionary, adapt_coder(coder, X, dictionary, n_nonzero_coefs), n_nonzero_coefs, n_jobs)
    coding = DiscriminativeCoding(max_coding_iter, coding_tol)
    discriminative_coder = DiscriminativeCoder(encoder, model, resolve_loss(loss), coding)
    codes, record = discriminative_coder.encode(X, labels, noise_variance, init_codes, n_jobs=n_jobs)
    return codes.to_csr(n_components), record
