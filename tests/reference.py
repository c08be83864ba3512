"""Slow and plain versions of the algorithms, written from the paper, for comparison; and a user's loss and coder."""

from __future__ import annotations

import numpy as np

from ddlearn import OMP, Loss, SmoothHinge, SoftplusHinge, SparseCoder
from ddlearn.model.losses import LOSSES

EVERY_LOSS = [*(loss() for loss in LOSSES.values()), SmoothHinge(sharpness=8.0), SoftplusHinge(sharpness=0.5)]


class SquaredHinge(Loss):
    """A user's loss: three NumPy methods."""

    def value(self, margin):
        return np.maximum(1 - margin, 0) ** 2

    def gradient(self, margin):
        return -2 * np.maximum(1 - margin, 0)

    def curvature(self, margin):
        return 2 * (margin < 1).astype(margin.dtype)


class Counting(SparseCoder):
    """A user's coder: OMP that counts its rows, of traditional and of discriminative problems."""

    def __init__(self):
        self.n_traditional = self.n_discriminative = 0

    def solve(self, problem):
        if len(problem.coef) == 0:
            self.n_traditional += len(problem.correlations)
        else:
            self.n_discriminative += len(problem.correlations)
        return OMP().solve(problem)


def pursue(Q, c, n_nonzero_coefs, *, is_off_support_norm=False):
    """Minimise x'Qx - 2c'x greedily with a dense Q: the atom that offers most, then least squares on all chosen."""
    support: list[int] = []
    x = np.zeros(len(c))
    for _ in range(n_nonzero_coefs):
        correlation = c - Q @ x
        norms = np.diag(Q).copy()
        if is_off_support_norm and support:
            norms -= np.sum(Q[:, support] * np.linalg.solve(Q[np.ix_(support, support)], Q[support]).T, axis=1)
        score = np.zeros(len(c))
        free = np.setdiff1d(np.flatnonzero(norms > 1e-10 * np.diag(Q)), support)
        score[free] = correlation[free] ** 2 / norms[free]
        if score.max() <= 1e-24 * np.max(c**2, initial=0):
            break
        support.append(int(np.argmax(score)))
        x = np.zeros(len(c))
        x[support] = np.linalg.solve(Q[np.ix_(support, support)], c[support])
    return x


def pursue_stacked(A, b, n_nonzero_coefs, *, is_off_support_norm=False):
    """TSC of the paper on an explicit matrix with atoms as columns, which need not have unit norm."""
    support: list[int] = []
    x = np.zeros(A.shape[1])
    residual = b
    for _ in range(n_nonzero_coefs):
        if is_off_support_norm and support:
            basis, _ = np.linalg.qr(A[:, support])
            off_support = A - basis @ (basis.T @ A)
        else:
            off_support = A
        norms = np.linalg.norm(off_support, axis=0)
        score = np.abs(residual @ A) / np.where(norms > 1e-8, norms, np.inf)
        score[support] = 0
        support.append(int(np.argmax(score)))
        x = np.zeros(A.shape[1])
        x[support] = np.linalg.lstsq(A[:, support], b, rcond=None)[0]
        residual = b - A @ x
    return x


def pursue_with_errors(y, dictionary, n_nonzero_coefs, n_errors, threshold, is_known):
    """OMP over the columns of [D' I] on the known features, with a budget of atoms and one of errors.

    Returns the code and the wrong features.  Norms are those of the whole atoms.  Of an atom and a feature that are
    equally correlated the atom is chosen.
    """
    known = np.flatnonzero(is_known)
    A = np.hstack([dictionary[:, known].T, np.eye(len(known))])
    n_atoms = len(dictionary)
    norms = np.concatenate([np.linalg.norm(dictionary, axis=1), np.ones(len(known))])
    support: list[int] = []
    z = np.zeros(A.shape[1])
    first = np.max(np.abs(y[known] @ A[:, :n_atoms]) / norms[:n_atoms])
    while True:
        score = np.abs((y[known] - A @ z) @ A) / norms
        score[support] = 0
        atom, error = int(np.argmax(score[:n_atoms])), n_atoms + int(np.argmax(score[n_atoms:]))
        n_chosen = sum(column < n_atoms for column in support)
        may_use = n_chosen < n_nonzero_coefs and score[atom] > 1e-13 * first
        may_be_wrong = len(support) - n_chosen < n_errors and score[error] > threshold
        if may_use and not (may_be_wrong and score[error] > score[atom]):
            support.append(atom)
        elif may_be_wrong:
            support.append(error)
        else:
            return z[:n_atoms], known[[column - n_atoms for column in support if column >= n_atoms]]
        z = np.zeros(A.shape[1])
        z[support] = np.linalg.lstsq(A[:, support], y[known], rcond=None)[0]


def dsc_objective(x, y, labels, dictionary, coef, intercept, noise_variance, class_cost, loss):
    """Eq. 4 of the paper for one sample, with intercepts."""
    residual = y - x @ dictionary
    margin = labels * (coef @ x + intercept)
    return residual @ residual / noise_variance + 2 * np.sum(loss.value(margin) / class_cost)


def newton_step_stacked(x, y, labels, dictionary, coef, intercept, noise_variance, class_cost, loss, T, **options):
    """One pass of the loop of Algorithm 1, on its stacked matrices, with the derived weight Omega_2 / gamma."""
    sigma = np.sqrt(noise_variance)
    G = (labels[:, None] * coef).T
    margin = G.T @ x + labels * intercept
    curvature = loss.surrogate_curvature(margin)
    delta = margin - loss.gradient(margin) / curvature  # the margin that the parabola wants
    H = np.diag(np.sqrt(curvature / class_cost))
    A = np.vstack([dictionary.T / sigma, H @ G.T])
    b = np.concatenate([y / sigma, H @ (delta - labels * intercept)])
    return pursue_stacked(A, b, T, **options)


def minimum_on(Q, c, support):
    """Return the code that minimises x'Qx - 2c'x on a support, and the minimum."""
    support = sorted(support)
    x = np.zeros(len(c))
    x[support] = np.linalg.solve(Q[np.ix_(support, support)], c[support])
    return x, -c @ x


def replace_atoms(Q, c, support, n_nonzero_coefs, smallest_gain, n_swaps, *, n_kicks=0, may_grow=False, norms=None):
    """Improve a support by the best of all swaps, each solved afresh; return the code and the number of swaps.

    An atom may enter only if more than 1e-10 of its squared norm lies off the support that it comes to, and if it has
    one.  With `may_grow` an atom enters without another leaving while there is room.  Where no swap is left, some atoms
    are kicked.
    """
    support, norms = set(support), np.diag(Q) if norms is None else norms
    for n_taken in range(n_swaps):
        _, here = minimum_on(Q, c, support)
        has_room = may_grow and len(support) < n_nonzero_coefs
        leaving = [set()] if has_room else [{out} for out in support]
        best = find_swap(Q, c, support, leaving, norms)
        if not here - minimum_on(Q, c, best)[1] > smallest_gain:
            best = kick_atoms(Q, c, support, smallest_gain, n_kicks, norms)
        if best == support:
            return minimum_on(Q, c, support)[0], n_taken
        support = best
    return minimum_on(Q, c, support)[0], n_swaps


def find_swap(Q, c, support, leaving, norms, banned=frozenset()):
    """Return the best support with one atom more, instead of one of the sets of atoms that may leave."""
    used = sorted(support)
    off = np.diag(Q) - np.sum(Q[:, used] * np.linalg.solve(Q[np.ix_(used, used)], Q[used]).T, axis=1)
    others = set(np.flatnonzero(off > 1e-10 * norms).tolist()) - support - banned
    trials = [support - out | {k} for k in others for out in leaving]
    return min(trials, key=lambda trial: minimum_on(Q, c, trial)[1], default=support)


def kick_atoms(Q, c, support, smallest_gain, n_kicks, norms):
    """Return the first support with a lower minimum that follows when an atom is banned, or the support itself.

    The atoms that are the least to lose are banned in turn.  A swap must make up for a fifth of what is still lost.
    """
    _, start = minimum_on(Q, c, support)
    by_loss = sorted(support, key=lambda out: minimum_on(Q, c, support - {out})[1])
    for out in by_loss[:n_kicks]:
        trial = find_swap(Q, c, support, [{out}], norms)
        for _ in range(len(support)):
            _, here = minimum_on(Q, c, trial)
            best = find_swap(Q, c, trial, [{atom} for atom in trial], norms, {out})
            if not here - minimum_on(Q, c, best)[1] > max(smallest_gain, 0.2 * (here - start)):
                break
            trial = best
        if start - minimum_on(Q, c, trial)[1] > smallest_gain:
            return trial
    return support


def keys(s):
    """The kernel of cubic convolution, as Keys (1981) writes it."""
    s = np.abs(s)
    near, far = 1.5 * s**3 - 2.5 * s**2 + 1, -0.5 * s**3 + 2.5 * s**2 - 4 * s + 2
    return np.where(s < 1, near, np.where(s < 2, far, 0))
