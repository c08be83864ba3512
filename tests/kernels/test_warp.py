"""Warps against their definition, finite differences and what they must reproduce; moves against numpy.linalg."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import keys

from ddlearn.kernels.warp import differentiate_rows, factor_rows, pull_rows, solve_rows, warp_rows

IDENTITY = np.eye(2, 3)
both_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])
seeds = st.integers(0, 10_000)
sides = st.integers(1, 9)


def show(images, affine):
    """Return the images seen through their maps, and the slopes along u and v."""
    warped, slopes_u, slopes_v = np.full((3, *images.shape), np.nan, images.dtype)
    warp_rows(images, affine, warped, slopes_u, slopes_v)
    return warped, np.stack([slopes_u, slopes_v])


def draw_maps(n_rows, rng, size=0.2):
    """Return affine maps near the identity with shifts of a few pixels."""
    affine = IDENTITY + size * rng.standard_normal((n_rows, 2, 3))
    affine[:, :, 2] *= 10
    return affine


def centred(shape):
    """Return u and v of each pixel, from the centre."""
    height, width = shape
    v, u = np.mgrid[:height, :width]
    return u - (width - 1) / 2, v - (height - 1) / 2


def seen_at(shape, affine):
    """Return where in the input each pixel looks, in pixels from the corner."""
    u, v = centred(shape)
    height, width = shape
    return (
        affine[0, 0] * u + affine[0, 1] * v + affine[0, 2] + (width - 1) / 2,
        affine[1, 0] * u + affine[1, 1] * v + affine[1, 2] + (height - 1) / 2,
    )


def warp_slowly(image, affine):
    """Sum the kernel over all pixels of an image that goes on as it ends."""
    u, v = seen_at(image.shape, affine)
    margin = int(max(np.abs(u).max(), np.abs(v).max())) + 3
    rows, columns = (np.arange(-margin, side + margin) for side in image.shape)
    return np.einsum(
        "yxr,rc,yxc->yx", keys(v[..., None] - rows), np.pad(image, margin, mode="edge"), keys(u[..., None] - columns)
    )


@given(n_rows=st.integers(0, 3), height=sides, width=sides, seed=seeds)
def test_equals_the_slow_twin(n_rows, height, width, seed):
    rng = np.random.default_rng(seed)
    images, affine = rng.standard_normal((n_rows, height, width)), draw_maps(n_rows, rng)
    warped, _ = show(images, affine)
    for row in range(n_rows):
        np.testing.assert_allclose(warped[row], warp_slowly(images[row], affine[row]), atol=1e-10)


@both_dtypes
@pytest.mark.parametrize("shape", [(1, 1), (5, 8), (16, 16), (7, 1)])
def test_the_identity_returns_the_image_to_the_last_bit(dtype, shape):
    images = np.random.default_rng(0).standard_normal((3, *shape)).astype(dtype)
    warped, _ = show(images, np.tile(IDENTITY, (3, 1, 1)))
    np.testing.assert_array_equal(warped, images)


@both_dtypes
@given(height=sides, width=sides, shift_u=st.integers(-12, 12), shift_v=st.integers(-12, 12))
def test_whole_pixels_shift_an_image_that_goes_on_as_it_ends(dtype, height, width, shift_u, shift_v):
    image = np.random.default_rng(0).standard_normal((height, width)).astype(dtype)
    affine = np.array([[1.0, 0, shift_u], [0, 1, shift_v]])
    padded = np.pad(image, 12, mode="edge")
    expected = padded[12 + shift_v :, 12 + shift_u :][:height, :width]
    np.testing.assert_array_equal(show(image[None], affine[None])[0][0], expected)


@both_dtypes
@given(height=sides, width=sides, size=st.sampled_from([0.1, 1.0, 100.0]), seed=seeds)
def test_a_constant_image_stays_constant_and_flat_under_any_map(dtype, height, width, size, seed):
    images = np.full((1, height, width), 3.7, dtype)
    warped, slopes = show(images, draw_maps(1, np.random.default_rng(seed), size))
    tolerance = 20 * np.finfo(dtype).eps
    np.testing.assert_allclose(warped, images, rtol=tolerance)
    np.testing.assert_allclose(slopes, 0, atol=5 * tolerance)


@given(height=st.integers(5, 12), width=st.integers(5, 12), seed=seeds)
def test_quadratic_images_and_their_slopes_are_reproduced_in_the_interior(height, width, seed):
    rng = np.random.default_rng(seed)
    polynomial = np.polynomial.Polynomial
    along_u, along_v = polynomial(rng.standard_normal(3)), polynomial(rng.standard_normal(3))
    affine = draw_maps(1, rng, 0.1)
    columns, rows = np.arange(width), np.arange(height)
    image = along_v(rows)[:, None] * along_u(columns)
    warped, (slopes_u, slopes_v) = show(image[None], affine)
    u, v = seen_at(image.shape, affine[0])
    inside = (u >= 1) & (u < width - 2) & (v >= 1) & (v < height - 2)
    u, v, size = u[inside], v[inside], 1e-12 * np.abs(image).max()
    np.testing.assert_allclose(warped[0][inside], along_v(v) * along_u(u), atol=size)
    np.testing.assert_allclose(slopes_u[0][inside], along_v(v) * along_u.deriv()(u), atol=10 * size)
    np.testing.assert_allclose(slopes_v[0][inside], along_v.deriv()(v) * along_u(u), atol=10 * size)


@given(height=sides, width=sides, seed=seeds)
def test_slopes_are_those_of_small_shifts(height, width, seed):
    rng = np.random.default_rng(seed)
    images, affine, step = rng.standard_normal((2, height, width)), draw_maps(2, rng), 1e-6
    _, slopes = show(images, affine)
    for axis in range(2):
        shift = np.zeros((2, 3))
        shift[axis, 2] = step
        numerical = (show(images, affine + shift)[0] - show(images, affine - shift)[0]) / (2 * step)
        # Second derivatives jump at the pixels, by some tens of the largest value at most.
        np.testing.assert_allclose(slopes[axis], numerical, atol=50 * step)


@given(height=sides, width=sides, n_parameters=st.integers(1, 6), seed=seeds)
def test_derivatives_by_the_parameters_of_the_maps_are_those_of_small_steps(height, width, n_parameters, seed):
    rng = np.random.default_rng(seed)
    images, affine, step = rng.standard_normal((2, height, width)), draw_maps(2, rng), 1e-6
    maps = rng.standard_normal((2, n_parameters, 2, 3)) * rng.integers(0, 2, (2, n_parameters, 2, 3))
    _, slopes = show(images, affine)
    u, v = centred((height, width))
    coordinates = np.stack([u.ravel(), v.ravel(), np.ones(u.size)])
    derivatives = np.full((2, n_parameters, height * width), np.nan)
    differentiate_rows(slopes.reshape(2, 2, -1), coordinates, maps, derivatives)
    for p in range(n_parameters):
        change = show(images, affine + step * maps[:, p])[0] - show(images, affine - step * maps[:, p])[0]
        numerical = change.reshape(2, -1) / (2 * step)
        reach = np.linalg.norm(maps[:, p] @ coordinates, axis=1)  # pixels that a point moves by, per parameter
        assert (np.abs(derivatives[:, p] - numerical) <= 1e-7 + 50 * step * reach**2).all()


@given(
    n_rows=st.integers(0, 3),
    n_parameters=st.integers(1, 6),
    n_features=st.integers(1, 30),
    damping=st.sampled_from([0.01, 1.0, 1e6]),
    is_blank=st.booleans(),
    seed=seeds,
)
def test_moves_solve_the_normal_equations(n_rows, n_parameters, n_features, damping, is_blank, seed):
    rng = np.random.default_rng(seed)
    J, samples = rng.standard_normal((n_rows, n_parameters, n_features)), rng.standard_normal((n_rows, n_features))
    position = rng.standard_normal((n_rows, n_parameters))
    if is_blank:
        J[:, 0] = 0  # nothing speaks for the first parameter
    dampings = damping * rng.uniform(1, 2, n_rows)
    basis = J.copy()
    factor = np.full((n_rows, n_parameters, n_parameters), np.nan)  # what is above the diagonal must not matter
    pull, moves = np.full((2, n_rows, n_parameters), np.nan)
    factor_rows(basis, dampings, factor)
    pull_rows(basis, factor, dampings, position, samples, pull)
    solve_rows(factor, pull, moves)
    for row in range(n_rows):
        normal = J[row] @ J[row].T + dampings[row] * np.eye(n_parameters)
        right = J[row] @ samples[row] + dampings[row] * position[row]
        cholesky = np.linalg.cholesky(normal)
        np.testing.assert_allclose(np.tril(factor[row]), cholesky, rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(basis[row], np.linalg.solve(cholesky, J[row]), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(pull[row], np.linalg.solve(cholesky, right), rtol=1e-9, atol=1e-8)
        np.testing.assert_allclose(moves[row], -np.linalg.solve(normal, right), rtol=1e-7, atol=1e-7)
