"""Occlusion and corruption change what they say, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
from reproduction.disturbances import DISTURBANCES, Condition, corrupt, occlude

from .synthetic import N_PIXELS, draw_images


@pytest.mark.parametrize("disturb", [occlude, corrupt])
def test_as_many_pixels_change_as_the_level_says(disturb):
    images, _ = draw_images(5, 3)
    for level in (0.1, 0.25, 0.5):
        share = np.mean(disturb(images, level, np.random.default_rng(0)) != images, axis=(1, 2))
        side = np.floor(np.sqrt(level * N_PIXELS))
        expected = side**2 / N_PIXELS if disturb is occlude else round(level * N_PIXELS) / N_PIXELS
        np.testing.assert_allclose(share, expected, atol=1e-6)


@pytest.mark.parametrize("disturb", [occlude, corrupt])
def test_level_zero_changes_nothing_and_the_input_is_never_changed(disturb):
    images, _ = draw_images(2, 3)
    before = images.copy()
    np.testing.assert_array_equal(disturb(images, 0.0, np.random.default_rng(0)), before)
    disturb(images, 0.5, np.random.default_rng(0))
    np.testing.assert_array_equal(images, before)


def test_an_occlusion_is_one_square_that_moves():
    images, _ = draw_images(10, 3)
    changed = occlude(images, 0.2, np.random.default_rng(0)) != images
    side = int(np.sqrt(0.2 * N_PIXELS))
    corners = set()
    for image in changed:
        rows, columns = np.flatnonzero(image.any(axis=1)), np.flatnonzero(image.any(axis=0))
        assert len(rows) == len(columns) == side
        assert image[rows[0] : rows[0] + side, columns[0] : columns[0] + side].all()
        corners.add((rows[0], columns[0]))
    assert len(corners) > 10


def test_random_values_stay_within_the_image():
    images, _ = draw_images(3, 3)
    images *= np.linspace(0.1, 1, len(images), dtype=np.float32)[:, None, None]
    corrupted = corrupt(images, 0.8, np.random.default_rng(0))
    assert (corrupted >= 0).all()
    assert (corrupted.max(axis=(1, 2)) <= images.max(axis=(1, 2))).all()


def test_a_condition_gives_the_same_images_every_time_and_others_at_other_levels():
    images, _ = draw_images(3, 3)
    for kind in DISTURBANCES:
        first, again = (Condition(kind, 0.3).apply(images) for _ in range(2))
        np.testing.assert_array_equal(first, again)
        assert (first != Condition(kind, 0.4).apply(images)).any()
