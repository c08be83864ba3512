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
def add_outer_products(factors, chosen, n_chosen, atoms, out):
    """Add the sum of factors[i] e_i e_i', e_i the chosen atoms, to the lower triangle of ``out``, four at a time."""
    zero = out.dtype.type(0)
    last = n_chosen - 1
    for i in range(0, n_chosen, 4):
        a = chosen[i]
        b = chosen[min(i + 1, last)]
        c = chosen[min(i + 2, last)]
        d = chosen[min(i + 3, last)]
        factor_a = factors[i]
        factor_b = factors[i + 1] if i + 1 <= last else zero
        factor_c = factors[i + 2] if i + 2 <= last else zero
        factor_d = factors[i + 3] if i + 3 <= last else zero
        for m in range(atoms.shape[1]):
            scaled_a = factor_a * atoms[a, m]
            scaled_b = factor_b * atoms[b, m]
            scaled_c = factor_c * atoms[c, m]
            scaled_d = factor_d * atoms[d, m]
            for n in range(m + 1):
                out[m, n] += (scaled_a * atoms[a, n] + scaled_b * atoms[b, n]) + (
                    scaled_c * atoms[c, n] + scaled_d * atoms[d, n]
                )


@njit(cache=True, nogil=True, error_model="numpy")
def _update_hessian(atoms, slope, l1, is_positive, hessian, is_in, factors, chosen):
    # E_S'E_S gains the atoms that come into S and loses those that leave it. Return whether any does.
    one = l1 / l1
    n_changed = 0
    for k in range(slope.shape[0]):
        enters = slope[k] > l1 or (slope[k] < -l1 and not is_positive)
        if enters != is_in[k]:
            is_in[k] = enters
            factors[n_changed] = one if enters else -one
            chosen[n_changed] = k
            n_changed += 1
    add_outer_products(factors, chosen, n_changed, atoms, hessian)
    return n_changed > 0


@njit(cache=True, nogil=True, error_model="numpy")
def _measure_excess(atoms, slope, v, l1, l2, is_positive, factors, chosen, excess):
    # excess = v - E'x(v).
    n_chosen = 0
    for k in range(slope.shape[0]):
        if slope[k] > l1 or (slope[k] < -l1 and not is_positive):
            factors[n_chosen] = (l1 - slope[k] if slope[k] > l1 else -l1 - slope[k]) / l2
            chosen[n_chosen] = k
            n_chosen += 1
    for m in range(v.shape[0]):
        excess[m] = v[m]
    add_combination(factors, chosen, n_chosen, atoms, excess)


@njit(cache=True, nogil=True, error_model="numpy")
def _find_newton_step(hessian, excess, l2, factor, step):
    # The step that would remove the excess if S stayed the same.
    one = l2 / l2
    for m in range(step.shape[0]):
        for n in range(m + 1):
            factor[m, n] = hessian[m, n]
        factor[m, m] += l2
        factor[m, m] = one / np.sqrt(eliminate_row(factor, m))
        step[m] = l2 * excess[m]
    solve_factored(factor, step, step.shape[0])


@njit(cache=True, nogil=True, error_model="numpy")
def _begin(atoms, features, correlation, slope, active, coefficient, n_active, factors, l1, l2, is_positive, chosen):
    # The v that is best for the support and the signs of a code. (That of its coefficients, E'x, is a worse start: what
    # they lack in digits is multiplied by E_S'E_S / l2.)
    v, excess, hessian = features.v, features.excess, features.hessian
    hessian[:] = 0
    features.is_in[:] = False
    slope[:] = 0
    for a in range(n_active):
        if coefficient[a] != 0:
            slope[active[a]] = 2 * l1 if coefficient[a] > 0 else -2 * l1
    _update_hessian(atoms, slope, l1, is_positive, hessian, features.is_in, factors, chosen)
    for a in range(n_active):
        factors[a] = (correlation[active[a]] - slope[active[a]] / 2) / l2 if coefficient[a] != 0 else l1 - l1
    _combine_atoms(atoms, active, factors, n_active, excess)
    _find_newton_step(hessian, excess, l2, features.factor, v)


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
    """Minimise phi from the support of a code by Newton's method, until the gap is nothing or S does not change.

    The code that it finds becomes the current one if there is room for it.  Return how many atoms the code has, and its
    duality gap, infinite if there was no room.
    """
    v, next_v, next_slope, step = features.v, features.next_v, features.next_slope, features.step
    hessian, factor, excess, is_in = features.hessian, features.factor, features.excess, features.is_in
    one = l1 / l1
    _begin(atoms, features, correlation, slope, active, coefficient, n_active, factors, l1, l2, is_positive, chosen)
    _measure_slopes(by_feature, correlation, v, factors, chosen, slope)
    phi = _measure_phi(v, slope, l1, l2, is_positive)
    gap = phi
    for _ in range(_MAX_NEWTON_STEPS):
        _measure_excess(atoms, slope, v, l1, l2, is_positive, factors, chosen, excess)
        gap = square_vector(excess) / 2
        if gap <= rounding * tolerance:  # nothing is left, so that the support is that of the solution
            break
        if not _update_hessian(atoms, slope, l1, is_positive, hessian, is_in, factors, chosen):
            break
        _find_newton_step(hessian, excess, l2, factor, step)
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
        if not next_phi <= limit:  # which may be NaN
            break
        phi = next_phi
        v[:] = next_v
        slope[:] = next_slope
    n_used = 0
    for k in range(slope.shape[0]):
        n_used += slope[k] > l1 or (slope[k] < -l1 and not is_positive)
    if n_used > active.shape[0]:
        gap = phi + np.inf
    else:
        n_active = 0
        for k in range(slope.shape[0]):
            if slope[k] > l1 or (slope[k] < -l1 and not is_positive):
                active[n_active] = k
                coefficient[n_active] = (slope[k] - l1 if slope[k] > l1 else slope[k] + l1) / l2
                n_active += 1
    if not gap <= tolerance:
        _combine_atoms(atoms, active, coefficient, n_active, v)
        _measure_slopes(by_feature, correlation, v, factors, chosen, slope)
    return n_active, gap
