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

How :math:`F` is lowered is a strategy: :class:`Descent` (``descent.py``) comes close to its minimum,
:class:`PrintedCoding` (``printed.py``) is the algorithm that the paper prints.  Neither ever raises it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from sklearn.utils import check_array

from ..describe.checks import measure_energies
from ..model.codes import Floats, Model, RowCodes
from ..model.losses import LOSSES, Loss
from ..model.strategies import Registry
from ..parallel import map_blocks, split_rows
from .coders import SparseCoder
from .descent import Descent
from .encoder import SPARSE_CODERS, Encoder, make_encoder
from .printed import PrintedCoding
from .rows import STEP_KINDS, DiscriminativeCoding, RowProblems

LABEL_CODINGS: Registry[DiscriminativeCoding] = Registry(
    "label_coding", DiscriminativeCoding, {"descent": Descent, "printed": PrintedCoding}
)


@dataclass(frozen=True)
class CodingRecord:
    """What discriminative coding did to each sample.

    Steps are of three kinds: "refit" on the atoms that a code has, "reselect" by the sparse coder, and "replace", the
    swap of one atom.

    Parameters
    ----------
    n_steps : ndarray of shape (n_samples, 3)
        Steps of each kind that were taken.
    decrease : ndarray of shape (n_samples, 3)
        By how much each kind lowered the objective F of the sample.
    n_rejected : ndarray of shape (n_samples,)
        Reselections and swaps that were tried, and undone because they would have raised F.
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
    >>> record.n_moved
    {'refit': 1, 'reselect': 0, 'replace': 1}
    """

    n_steps: NDArray[np.int32]
    decrease: Floats
    n_rejected: NDArray[np.int32]
    objective_before: Floats
    objective_after: Floats

    @property
    def n_moved(self) -> dict[str, int]:
        """How many samples each kind of step has moved."""
        return dict(zip(STEP_KINDS, np.count_nonzero(self.n_steps, axis=0).tolist(), strict=True))


@dataclass(frozen=True)
class DiscriminativeCoder:
    """Algorithm 1 for one dictionary and one set of classifiers; all arguments have been checked."""

    encoder: Encoder
    model: Model  # with the weight of the labels in its class costs
    loss: Loss
    label_coding: DiscriminativeCoding

    def encode(
        self,
        X: Floats,
        labels: Floats,
        noise_variance: Floats,
        init_codes: RowCodes | None = None,
        *,
        n_jobs: int | None = None,
    ) -> tuple[RowCodes, CodingRecord]:
        """Code all rows, as :func:`discriminative_encode` does."""
        encoder = self.encoder

        def encode_rows(rows: slice, _: None) -> tuple[NDArray[Any], ...]:
            energies, correlations = measure_energies(X[rows], rows.start), encoder.correlate(X[rows])
            problems = self.pose(correlations, energies, labels[rows], noise_variance[rows], np.arange(len(energies)))
            start = encoder.solve(correlations, energies=energies) if init_codes is None else init_codes.rows(rows)
            coded, moves = self.label_coding.descend(problems, start, is_start_traditional=init_codes is None)
            return coded.indices, coded.values, *moves, problems.place(start).objective, coded.objective

        blocks = map_blocks(encode_rows, split_rows(len(X)), lambda: None, n_jobs=n_jobs)
        indices, values, *record = map(np.concatenate, zip(*blocks, strict=True))
        return RowCodes(indices, values), CodingRecord(*record)

    def pose(
        self, correlations: Floats, energies: Floats, labels: Floats, noise_variance: Floats, sources: NDArray[np.intp]
    ) -> RowProblems:
        """Return the problems of some rows, each of one of the samples whose correlations and energies are given."""
        return RowProblems(self.encoder, self.model, self.loss, correlations, energies, labels, noise_variance, sources)


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
    array = np.array(np.broadcast_to(array, (length,)))  # which can be written to: kernels compile once for all
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
    label_coding: str | DiscriminativeCoding = "descent",
    n_jobs: int | None = None,
) -> tuple[csr_array, CodingRecord]:
    r"""Code samples such that they are well represented *and* well classified (the paper's DSC, Algorithm 1).

    Lowers, for each sample,

    .. math:: F(x) = \|y - D^T x\|^2 / \sigma^2 + 2 \sum_j \Omega(l_j (w_j^T x + b_j)) / \gamma_j

    over codes with at most T nonzeros.  No sample's objective rises.  Twice the penalty of an :class:`ElasticNet` is
    added to the squared residual.

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
        What selects atoms.
    init_codes : sparse matrix of shape (n_samples, n_components) or None, default=None
        Codes to start from; by default those of :func:`sparse_encode`.
    label_coding : {"descent", "printed"} or DiscriminativeCoding, default="descent"
        How :math:`F` is lowered: close to its minimum, or by the steps that the paper prints.
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
    X, encoder = make_encoder(X, dictionary, SPARSE_CODERS.resolve(sparse_coder), n_nonzero_coefs, n_jobs)
    n_samples, n_components = len(X), len(encoder.dictionary)
    model = _check_model(encoder.dictionary, coef, intercept, class_cost)
    labels = _check_labels(labels, n_samples, len(model.coef), X.dtype)
    noise_variance = _fill(noise_variance, n_samples, "noise_variance", "samples", X.dtype, positive=True)
    if init_codes is not None:
        init_codes = check_array(init_codes, accept_sparse="csr", dtype=X.dtype, input_name="init_codes")
        if init_codes.shape != (n_samples, n_components):
            raise ValueError(f"init_codes has shape {init_codes.shape}, expected {(n_samples, n_components)}.")
        init_codes = RowCodes.from_csr(init_codes, encoder.n_nonzero_coefs, X.dtype)
    coder = DiscriminativeCoder(encoder, model, LOSSES.resolve(loss), LABEL_CODINGS.resolve(label_coding))
    codes, record = coder.encode(X, labels, noise_variance, init_codes, n_jobs=n_jobs)
    return codes.to_csr(n_components), record
