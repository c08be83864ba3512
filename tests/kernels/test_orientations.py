"""The kernel of gradients beside a slow twin, which writes each step as a product with a matrix."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import correlate1d

from ddlearn.describe.gradients import _find_cells, _spread_cells
from ddlearn.kernels.orientations import pool_gradients_rows


def pool_slowly(image, n_cells, n_directions, least):
    """Return gradients added up over cells, by direction."""
    slopes = [
        correlate1d(correlate1d(image, [-1, 0, 1], axis=axis, mode="nearest"), [1, 2, 1], axis=1 - axis, mode="nearest")
        for axis in (1, 0)
    ]
    sizes = np.hypot(*slopes)
    down, right = (_spread_cells(*pair) for pair in zip(image.shape, n_cells, strict=True))
    means = (down @ sizes @ right.T) / np.outer(down.sum(axis=1), right.sum(axis=1))
    unit = down.T @ means @ right + least * sizes.mean()
    angles = 2 * np.pi * np.arange(n_directions) / n_directions
    directions = np.stack([np.cos(angles), np.sin(angles)])
    along = np.zeros((n_directions, *image.shape))
    for place in np.ndindex(image.shape):
        gradient = np.array([slope[place] for slope in slopes]) / unit[place]
        first = int(np.arctan2(gradient[1], gradient[0]) // (2 * np.pi / n_directions)) % n_directions
        pair = [first, (first + 1) % n_directions]
        along[(pair, *place)] = np.linalg.solve(directions[:, pair], gradient)
    return down @ along @ right.T


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(
    ("shape", "n_cells", "n_directions"), [((6, 9), (3, 4), 8), ((5, 5), (5, 5), 4), ((4, 7), (1, 2), 5)]
)
def test_the_kernel_is_its_slow_twin(shape, n_cells, n_directions, dtype):
    images = np.random.default_rng(0).standard_normal((3, *shape))
    angles = 2 * np.pi * np.arange(n_directions) / n_directions
    (down, share_down), (right, share_right) = map(_find_cells, shape, n_cells)
    weights = np.outer(*(_spread_cells(*pair).sum(axis=1) for pair in zip(shape, n_cells, strict=True)))
    pooled = np.zeros((3, n_directions, *n_cells), dtype)
    directions = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(dtype)
    images, share_down, share_right, weights = (a.astype(dtype) for a in (images, share_down, share_right, weights))
    workspace = np.empty((2, *shape), dtype), np.empty(n_cells, dtype)
    arguments = images, down, share_down, right, share_right, directions, weights, dtype(0.1), *workspace
    pool_gradients_rows(*arguments, pooled)
    expected = [pool_slowly(image, n_cells, n_directions, 0.1) for image in images]
    np.testing.assert_allclose(pooled, expected, rtol=0, atol=1e-10 if dtype is np.float64 else 1e-4)
