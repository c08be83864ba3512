"""The elastic net in terms of features, for a code of more atoms than there are features, in Numba.

The Gram matrix of atoms with few features, the rows of E, has a low rank.  Where more atoms are in use than there are
features, the problem of ``elastic_net.py`` is smaller in terms of v = E'x: minimise

    phi(v) = |v|^2 / 2 + |x(v)|^2 l2 / 2,        x(v) = soft(c - Ev, l1) / l2,

which is smooth, and the dual of the elastic net up to its sign.  With F(x(v)) + phi(v) = |v - E'x(v)|^2 / 2 as the
duality gap, Newton's method with the second derivatives I + E_S'E_S / l2, S the support of x(v), ends after a few steps
(a semismooth Newton method; Li, Sun and Toh 2018).
"""

from typing import NamedTuple

import numpy as np

from . import njit
from .cholesky import eliminate_row, solve_factored
from .codes import add_combination, square_vector
from .pursuit import allocate_rows

# Steps of Newton's method, of which there are five to twenty, and halvings of a step.
_MAX_NEWTON_STEPS = 50
_MAX_HALVINGS = 20


class Features(NamedTuple):
    """What one thread overwrites."""

    v: np.ndarray  # (n_features,)
    excess: np.ndarray  # (n_features,) v - E'x(v)
    step: np.ndarray  # (n_features,)
    next_v: np.ndarray  # (n_features,) after it
    next_slope: np.ndarray  # (n_atoms,) after it
    is_in: np.ndarray  # (n_atoms,) which atoms are in the Hessian
    hessian: np.ndarray  # (n_features, n_features or a few more) E_S'E_S, lower
    factor: np.ndarray  # (n_features, n_features or a few more)


def make_features_workspace(n_features, n_atoms, dtype):
    """Allocate the workspace of one thread; both numbers are 0 where features are not used."""
    next_slope = allocate_rows(1, n_atoms, dtype)[0, :n_atoms]
    hessian, factor = (allocate_rows(n_features, n_features, dtype) for _ in range(2))
    is_in = np.empty(n_atoms, np.bool_)
    return Features(*np.empty((4, n_features), dtype), next_slope, is_in, hessian, factor)  # type: ignore[call-arg]


@njit(cache=True, nogil=True, error_model="numpy")
def _combine_atoms(atoms, active, coefficient, n_active, v):
    # v = E'x.
    for m in range(v.shape[0]):
        v[m] = 0
    add_combination(coefficient, active, n_active, atoms, v)


@njit(cache=True, nogil=True, error_model="numpy")
def _measure_slopes(by_feature, correlation, v, factors, chosen, slope):
    # slope = c - Ev.
    for k in range(slope.shape[0]):
        slope[k] = correlation[k]
    for m in range(v.shape[0]):
        factors[m] = -v[m]
        chosen[m] = m
    add_combination(factors, chosen, v.shape[0], by_feature, slope)


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc", "contract"})
def _measure_phi(v, slope, l1, l2, is_positive):
    total = l1 - l1
    for k in range(slope.shape[0]):
        above = (slope[k] if is_positive else abs(slope[k])) - l1
        above = (above + abs(above)) / 2
        total += above * above
    return (square_vector(v) + total / l2) / 2


@njit(cache=True, nogil=True, error_model="numpy")
def _update_hessian(atoms, slope, l1, is_positive, hessian, is_in, factors, chosen):
    # E_S'E_S gains the atoms that come into S and loses those that leave it, four at a time. Return whether any does.
    zero = l1 - l1
    one = zero + 1
    last = slope.shape[0] - 1
    n_changed = 0
    has_changed = False
    for k in range(slope.shape[0]):
        enters = slope[k] > l1 or (slope[k] < -l1 and not is_positive)
        if enters != is_in[k]:
            is_in[k] = enters
            has_changed = True
            factors[n_changed] = one if enters else -one
            chosen[n_changed] = k
            n_changed += 1
        if n_changed == 4 or (n_changed > 0 and k == last):
            for i in range(n_changed, 4):
                factors[i] = zero
                chosen[i] = k
            n_changed = 0
            a, b, c, d = chosen[0], chosen[1], chosen[2], chosen[3]
            for m in range(atoms.shape[1]):
                factor_a = factors[0] * atoms[a, m]
                factor_b = factors[1] * atoms[b, m]
                factor_c = factors[2] * atoms[c, m]
                factor_d = factors[3] * atoms[d, m]
                for n in range(m + 1):
                    hessian[m, n] += (factor_a * atoms[a, n] + factor_b * atoms[b, n]) + (
                        factor_c * atoms[c, n] + factor_d * atoms[d, n]
                    )
    return has_changed


@njit(cache=True, nogil=True, error_model="numpy")
def _find_newton_step(atoms, slope, features, factors, chosen, l1, l2):
    # The excess v - E'x(v), and the step that would remove it if S stayed the same.
    v, excess, step, is_in = features.v, features.excess, features.step, features.is_in
    hessian, factor = features.hessian, features.factor
    one = l1 / l1
    n_chosen = 0
    for k in range(slope.shape[0]):
        if is_in[k]:
            factors[n_chosen] = (l1 - slope[k] if slope[k] > l1 else -l1 - slope[k]) / l2
            chosen[n_chosen] = k
            n_chosen += 1
    for m in range(v.shape[0]):
        excess[m] = v[m]
    add_combination(factors, chosen, n_chosen, atoms, excess)
    for m in range(v.shape[0]):
        for n in range(m + 1):
            factor[m, n] = hessian[m, n]
        factor[m, m] += l2
        factor[m, m] = one / np.sqrt(eliminate_row(factor, m))
        step[m] = l2 * excess[m]
    solve_factored(factor, step, v.shape[0])


@njit(cache=True, nogil=True, error_model="numpy")
def solve_in_features(
    atoms,  # (n_atoms, n_features)
    by_feature,  # (n_features, n_atoms) the same
    features,  # the workspace
    correlation,  # (n_atoms,) c
    slope,  # out, (n_atoms,) c - Ev for the code that is found
    active,  # in and out, (budget,) the atoms of the code
    coefficient,  # in and out, (budget,) theirs
    n_active,
    factors,  # overwritten, (n_atoms,)
    chosen,  # overwritten, (n_atoms,)
    l1,
    l2,
    is_positive,
    rounding,
    tolerance,
):
    """Minimise phi from v = E'x by Newton's method, until S does not change or nothing is left of the gap.

    The code that it finds becomes the current one if there is room for it.  Return how many atoms the code has.
    """
    v, next_v, next_slope, step = features.v, features.next_v, features.next_slope, features.step
    one = l1 / l1
    features.hessian[:] = 0
    features.is_in[:] = False
    _combine_atoms(atoms, active, coefficient, n_active, v)
    _measure_slopes(by_feature, correlation, v, factors, chosen, slope)
    phi = _measure_phi(v, slope, l1, l2, is_positive)
    for _ in range(_MAX_NEWTON_STEPS):
        if not _update_hessian(atoms, slope, l1, is_positive, features.hessian, features.is_in, factors, chosen):
            break
        _find_newton_step(atoms, slope, features, factors, chosen, l1, l2)
        if square_vector(features.excess) <= tolerance:
            break
        for m in range(v.shape[0]):
            next_v[m] = v[m] - step[m]
        _measure_slopes(by_feature, correlation, next_v, factors, chosen, next_slope)
        next_phi = _measure_phi(next_v, next_slope, l1, l2, is_positive)
        share = one
        limit = phi + rounding * phi
        for _ in range(_MAX_HALVINGS):
            if next_phi <= limit:
                break
            share = share / 2
            for m in range(v.shape[0]):
                next_v[m] = v[m] - share * step[m]
            for k in range(slope.shape[0]):
                next_slope[k] = (slope[k] + next_slope[k]) / 2
            next_phi = _measure_phi(next_v, next_slope, l1, l2, is_positive)
        if next_phi > limit:
            break
        phi = next_phi
        v[:] = next_v
        slope[:] = next_slope
    n_used = 0
    for k in range(slope.shape[0]):
        n_used += slope[k] > l1 or (slope[k] < -l1 and not is_positive)
    if n_used <= active.shape[0]:
        n_active = 0
        for k in range(slope.shape[0]):
            if slope[k] > l1 or (slope[k] < -l1 and not is_positive):
                active[n_active] = k
                coefficient[n_active] = (slope[k] - l1 if slope[k] > l1 else slope[k] + l1) / l2
                n_active += 1
    _combine_atoms(atoms, active, coefficient, n_active, v)
    _measure_slopes(by_feature, correlation, v, factors, chosen, slope)
    return n_active
