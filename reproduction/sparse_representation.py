r"""Sparse representation-based classification (SRC) of Wright et al. (PAMI 2009), to compare with.

Every training sample is an atom, every feature an error atom: minimise :math:`\|x\|_1 + \|e\|_1` subject to
:math:`y = A^T x + e`, and take the class whose atoms alone leave the least of :math:`y - e`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.preprocessing import normalize
from sklearn.utils.validation import check_is_fitted, validate_data

from ddlearn.parallel import map_blocks, split_rows

from .images import Floats

# The penalty of the augmented Lagrangian, for samples of unit norm; times sqrt(n_features), since an error is spread
# over the features and has smaller entries the more there are.
_PENALTY = 2.0
# Codes have few and large entries; solved for in this unit, they take a third fewer iterations on faces.
_CODE_UNIT = 10**0.5
_OVER_RELAXATION = 1.6
_CHECK_EVERY = 10  # iterations


class SparseErrors(NamedTuple):
    """Codes and gross errors of some samples, and how well they solve the problem."""

    codes: Floats
    error: Floats
    n_iter: NDArray[np.intp]
    primal_residual: Floats
    dual_residual: Floats


class _ErrorSolver:
    """Alternating direction method of multipliers for rows (code, error), with what all samples share."""

    def __init__(self, atoms: Floats, tol: float, max_iter: int):
        self._atoms = atoms * _CODE_UNIT
        self._tol, self._max_iter = tol, max_iter
        n_atoms, n_features = atoms.shape
        threshold = np.full(n_atoms + n_features, 1 / (_PENALTY * n_features**0.5))
        threshold[:n_atoms] *= _CODE_UNIT
        self._threshold = threshold.astype(atoms.dtype)
        system = np.eye(n_atoms) + self._atoms @ self._atoms.T
        self._inverse = cho_solve(cho_factor(system), np.eye(n_atoms)).astype(atoms.dtype)  # well conditioned

    def _project(self, rows: Floats, samples: Floats) -> Floats:
        """Return the nearest rows at which ``code @ atoms + error`` is the sample."""
        n_atoms = len(self._atoms)
        codes = (rows[:, :n_atoms] + (samples - rows[:, n_atoms:]) @ self._atoms.T) @ self._inverse
        return np.hstack([codes, samples - codes @ self._atoms])

    def solve(self, samples: Floats) -> SparseErrors:
        """Solve for some samples; those that are done leave, so that slow ones do not hold up the rest."""
        n_atoms = len(self._atoms)
        solution = np.zeros((len(samples), len(self._threshold)), samples.dtype)
        n_iter = np.zeros(len(samples), np.intp)
        residuals = np.zeros((2, len(samples)))
        left = np.arange(len(samples))
        sparse, dual = solution.copy(), solution.copy()
        for iteration in range(1, self._max_iter + 1):
            last = sparse
            exact = self._project(sparse - dual, samples)
            shifted = dual + _OVER_RELAXATION * exact + (1 - _OVER_RELAXATION) * sparse
            dual = np.clip(shifted, -self._threshold, self._threshold)
            sparse = shifted - dual
            if iteration % _CHECK_EVERY and iteration < self._max_iter:
                continue
            solution[left], n_iter[left] = sparse, iteration
            residuals[:, left] = _relate(exact - sparse, exact), _relate(sparse - last, dual)
            goes_on = (residuals[:, left] > self._tol).any(axis=0)
            if not goes_on.any():
                break
            left = left[goes_on]
            samples, sparse, dual = samples[goes_on], sparse[goes_on], dual[goes_on]
        return SparseErrors(_CODE_UNIT * solution[:, :n_atoms], solution[:, n_atoms:], n_iter, *residuals)


def _relate(difference: Floats, whole: Floats) -> Floats:
    """Return the length of each row relative to another's."""
    return np.linalg.norm(difference, axis=1) / np.maximum(np.linalg.norm(whole, axis=1), np.finfo(np.float32).tiny)


def solve_sparse_errors(
    samples: Floats,
    atoms: Floats,
    *,
    tol: float = 5e-4,
    max_iter: int = 1000,
    n_jobs: int | None = None,
) -> SparseErrors:
    r"""Write each sample as a sparse combination of atoms and a sparse error.

    Minimises :math:`\|x\|_1 + \|e\|_1` subject to :math:`y = A^T x + e` by the alternating direction method of
    multipliers, for all samples at once: an iteration is two products with the atoms.

    Parameters
    ----------
    samples : ndarray of shape (n_samples, n_features)
        Samples of unit norm.
    atoms : ndarray of shape (n_atoms, n_features)
        Atoms of unit norm, of the same dtype.
    tol : float, default=5e-4
        A sample is done when both its residuals are below: primal, how far the result is from satisfying the
        constraint, and dual, how much it still moves, each relative to the size of the solution.
    max_iter : int, default=1000
        Iterations at most.
    n_jobs : int or None, default=None
        Number of threads, after joblib's conventions.

    Returns
    -------
    SparseErrors
        Codes, errors, and for each sample the iterations done and the residuals reached.
    """
    solver = _ErrorSolver(atoms, tol, max_iter)
    parts = map_blocks(
        lambda rows, _: solver.solve(samples[rows]), split_rows(len(samples)), lambda: None, n_jobs=n_jobs
    )
    return SparseErrors(*(np.concatenate(fields) for fields in zip(*parts, strict=True)))


class SRC(ClassifierMixin, BaseEstimator):
    r"""Sparse representation-based classification with error atoms (Wright et al., 2009).

    Every training sample is an atom.  A sample is written as :math:`y = A^T x + e` with :math:`\|x\|_1 + \|e\|_1`
    smallest, and belongs to the class whose atoms alone leave the least of :math:`y - e`.

    Parameters
    ----------
    tol : float, default=5e-4
        When a sample is done, see :func:`solve_sparse_errors`.
    max_iter : int, default=1000
        Iterations at most.
    n_jobs : int or None, default=None
        Number of threads, after joblib's conventions.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes.
    atoms_ : ndarray of shape (n_samples, n_features)
        The training samples, with unit norm.
    n_features_in_ : int
        Number of features.
    """

    def __init__(self, *, tol: float = 5e-4, max_iter: int = 1000, n_jobs: int | None = None):
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs

    def fit(self, X: ArrayLike, y: ArrayLike) -> SRC:
        """Keep the training samples."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32])
        self.classes_, self._class_index = np.unique(y, return_inverse=True)
        self.atoms_ = normalize(X)
        return self

    def solve(self, X: ArrayLike) -> SparseErrors:
        """Return codes and errors of new samples, scaled to unit norm."""
        check_is_fitted(self)
        X = normalize(validate_data(self, X, dtype=self.atoms_.dtype, reset=False))
        return solve_sparse_errors(X, self.atoms_, tol=self.tol, max_iter=self.max_iter, n_jobs=self.n_jobs)

    def classify(self, solution: SparseErrors) -> NDArray[Any]:
        """Return the class whose atoms come nearest to the samples without their errors."""
        cleaned = solution.codes @ self.atoms_
        residuals = np.empty((len(cleaned), len(self.classes_)))
        for position in range(len(self.classes_)):
            members = self._class_index == position
            residuals[:, position] = np.linalg.norm(cleaned - solution.codes[:, members] @ self.atoms_[members], axis=1)
        return self.classes_[residuals.argmin(axis=1)]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the class of each sample."""
        return self.classify(self.solve(X))
