"""Images seen through affine maps, with their slopes, in Numba.

Pixel (row v, column u) of the output shows the input at

    u' = a00 (u - cu) + a01 (v - cv) + a02 + cu,        v' = a10 (u - cu) + a11 (v - cv) + a12 + cv,

coordinates counted from the centre (cu, cv) of the image.  Between pixels the image is the cubic convolution of Keys
(1981), also known as Catmull-Rom: it passes through the pixels, so the identity map returns the image itself, to the
last bit, and it has slopes everywhere.  Beyond its border an image goes on as it ends.
"""

import numpy as np

from . import njit


@njit(cache=True, nogil=True, error_model="numpy")
def _fill_weights(t, weights, changes):
    # Keys' kernel at -1 - t, -t, 1 - t and 2 - t, and its derivative there.
    one = weights.dtype.type(1)
    half = weights.dtype.type(0.5)
    weights[0] = ((one - half * t) * t - half) * t
    weights[1] = (3 * half * t - 5 * half) * t * t + one
    weights[2] = ((2 * one - 3 * half * t) * t + half) * t
    weights[3] = (half * t - half) * t * t
    changes[0] = (2 * one - 3 * half * t) * t - half
    changes[1] = (9 * half * t - 5 * one) * t
    changes[2] = (4 * one - 9 * half * t) * t + half
    changes[3] = (3 * half * t - one) * t


@njit(cache=True, nogil=True, error_model="numpy")
def warp_rows(
    images,  # (n_rows, height, width)
    affine,  # (n_rows, 2, 3) always float64: in pixels, float32 would be coarse
    warped,  # out, (n_rows, height, width)
    slopes_u,  # out, (n_rows, height, width) derivative of the input along u where the output shows it
    slopes_v,  # out, the same along v
):
    """Show every image through its map."""
    n_rows, height, width = images.shape
    dtype = images.dtype.type
    centre_u, centre_v = 0.5 * (width - 1), 0.5 * (height - 1)
    weights_u = np.empty(4, images.dtype)
    weights_v = np.empty(4, images.dtype)
    changes_u = np.empty(4, images.dtype)
    changes_v = np.empty(4, images.dtype)
    columns = np.empty(4, np.int64)
    for i in range(n_rows):
        for row in range(height):
            for column in range(width):
                du, dv = column - centre_u, row - centre_v
                u = affine[i, 0, 0] * du + affine[i, 0, 1] * dv + affine[i, 0, 2] + centre_u
                v = affine[i, 1, 0] * du + affine[i, 1, 1] * dv + affine[i, 1, 2] + centre_v
                first_u, first_v = int(np.floor(u)), int(np.floor(v))
                _fill_weights(dtype(u - first_u), weights_u, changes_u)
                _fill_weights(dtype(v - first_v), weights_v, changes_v)
                for b in range(4):
                    columns[b] = min(max(first_u - 1 + b, 0), width - 1)
                value = dtype(0)
                slope_u = dtype(0)
                slope_v = dtype(0)
                for a in range(4):
                    source = min(max(first_v - 1 + a, 0), height - 1)
                    across = dtype(0)
                    change = dtype(0)
                    for b in range(4):
                        pixel = images[i, source, columns[b]]
                        across += weights_u[b] * pixel
                        change += changes_u[b] * pixel
                    value += weights_v[a] * across
                    slope_u += weights_v[a] * change
                    slope_v += changes_v[a] * across
                warped[i, row, column] = value
                slopes_u[i, row, column] = slope_u
                slopes_v[i, row, column] = slope_v


@njit(cache=True, nogil=True, error_model="numpy")
def differentiate_rows(
    slopes,  # (2, n_rows, n_features)
    coordinates,  # (3, n_features) u, v and 1 of each pixel
    maps,  # (n_rows, n_parameters, 2, 3) derivatives of the affine maps
    derivatives,  # out, (n_rows, n_parameters, n_features)
):
    """Chain rule: derivatives of what is seen by the parameters of the maps."""
    n_rows, n_parameters, n_features = derivatives.shape
    zero = derivatives.dtype.type(0)
    for i in range(n_rows):
        for p in range(n_parameters):
            for m in range(n_features):
                derivatives[i, p, m] = zero
            for a in range(2):
                for b in range(3):
                    factor = maps[i, p, a, b]
                    if factor != zero:
                        for m in range(n_features):
                            derivatives[i, p, m] += factor * slopes[a, i, m] * coordinates[b, m]


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})  # sums in vectors: 3x
def factor_rows(
    basis,  # in: tangents J of each row, out: inv(L) J, (n_rows, n_parameters, n_features)
    damping,  # (n_rows,) positive, or dependent tangents give NaN
    factor,  # out, (n_rows, n_parameters, n_parameters) L, lower triangle of J J' + damping I = L L'
):
    """Cholesky factors of the normal equations of the moves, and the tangents in the basis that they make."""
    n_rows, n_parameters, n_features = basis.shape
    for i in range(n_rows):
        for p in range(n_parameters):
            for q in range(p + 1):
                total = basis.dtype.type(0)
                for m in range(n_features):
                    total += basis[i, p, m] * basis[i, q, m]
                factor[i, p, q] = total
        for p in range(n_parameters):
            for q in range(p + 1):
                total = factor[i, p, q]
                if p == q:
                    total += damping[i]
                for r in range(q):
                    total -= factor[i, p, r] * factor[i, q, r]
                factor[i, p, q] = np.sqrt(total) if p == q else total / factor[i, q, q]
        for p in range(n_parameters):
            for q in range(p):
                share = factor[i, p, q]
                for m in range(n_features):
                    basis[i, p, m] -= share * basis[i, q, m]
            inverse = 1 / factor[i, p, p]
            for m in range(n_features):
                basis[i, p, m] *= inverse


@njit(cache=True, nogil=True, error_model="numpy", fastmath={"reassoc"})  # sums in vectors: 3x
def pull_rows(
    basis,  # (n_rows, n_parameters, n_features) inv(L) J
    factor,  # (n_rows, n_parameters, n_parameters) L
    damping,  # (n_rows,)
    position,  # (n_rows, n_parameters)
    samples,  # (n_rows, n_features)
    pull,  # out, (n_rows, n_parameters) inv(L) (J sample + damping position)
):
    """Right-hand sides of the normal equations, in the basis."""
    n_rows, n_parameters, n_features = basis.shape
    held = np.empty(n_parameters, basis.dtype)
    for i in range(n_rows):
        for p in range(n_parameters):
            total = damping[i] * position[i, p]
            for q in range(p):
                total -= factor[i, p, q] * held[q]
            held[p] = total / factor[i, p, p]
            total = basis.dtype.type(0)
            for m in range(n_features):
                total += basis[i, p, m] * samples[i, m]
            pull[i, p] = total + held[p]


@njit(cache=True, nogil=True, error_model="numpy")
def solve_rows(factor, pull, moves):
    """moves[i] = -inv(L') pull[i]."""
    n_rows, n_parameters = pull.shape
    for i in range(n_rows):
        for p in range(n_parameters - 1, -1, -1):
            total = -pull[i, p]
            for q in range(p + 1, n_parameters):
                total -= factor[i, q, p] * moves[i, q]
            moves[i, p] = total / factor[i, p, p]
