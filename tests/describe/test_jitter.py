"""Distortions: the kernel against its definition, what a draw is made of, and what distorted images keep."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference import keys

from ddlearn import Jitter
from ddlearn.describe.jitter import JITTERS, _make_bumps, displace, displace_alike, make_jitter

SHAPE = (12, 9)
both_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])
seeds = st.integers(0, 10_000)
sides = st.integers(1, 9)


def draw_images(n_images, shape=SHAPE, seed=0, dtype=np.float64, margin=0):
    """Noise within an empty margin, one image a row."""
    images = np.random.default_rng(seed).standard_normal((n_images, *shape)).astype(dtype)
    inside = np.zeros(shape, bool)
    inside[margin : shape[0] - margin, margin : shape[1] - margin] = True
    return (images * inside).reshape(n_images, -1)


def make_field(shape, along_v, along_u, dtype=np.float64):
    """The same displacement at every pixel of one image."""
    return np.broadcast_to(np.array([along_v, along_u], dtype)[:, None, None], (1, 2, *shape))


def draw_fields(jitter, n_images, shape=SHAPE, seed=0):
    return jitter.draw(n_images, shape, np.random.default_rng(seed), np.float64)


def distort(jitter, X, shape=SHAPE):
    return displace(X, jitter.draw(len(X), shape, np.random.default_rng(0), X.dtype))


def displace_slowly(image, field):
    """Sum the kernel over all pixels of an image, before it is scaled."""
    (height, width), (rows, columns) = image.shape, np.mgrid[: image.shape[0], : image.shape[1]]
    weights_v = keys((rows + field[0])[..., None] - np.arange(height))
    weights_u = keys((columns + field[1])[..., None] - np.arange(width))
    return np.einsum("yxr,rc,yxc->yx", weights_v, image, weights_u)


@given(n_images=st.integers(0, 3), height=sides, width=sides, size=st.sampled_from([0.3, 2.0]), seed=seeds)
def test_equals_the_slow_twin(n_images, height, width, size, seed):
    rng = np.random.default_rng(seed)
    images = rng.standard_normal((n_images, height, width))
    fields = size * rng.standard_normal((n_images, 2, height, width))
    displaced = displace(images.reshape(n_images, height * width), fields).reshape(images.shape)
    for image, field, found in zip(images, fields, displaced, strict=True):
        seen = displace_slowly(image, field)
        norm = np.linalg.norm(seen)
        factor = np.linalg.norm(image) / norm if norm > 0 else 1
        np.testing.assert_allclose(found, factor * seen, atol=1e-12 * max(factor, 1))


@both_dtypes
@pytest.mark.parametrize("shape", [(1, 1), (5, 8), (16, 16), (7, 1)])
def test_no_strength_returns_the_images_to_the_last_bit(dtype, shape):
    X = draw_images(3, shape, dtype=dtype)
    distorted = distort(Jitter(0, linear=0), X, shape)
    assert distorted.dtype == dtype
    np.testing.assert_array_equal(distorted, X)


@both_dtypes
@given(down=st.integers(-3, 3), right=st.integers(-3, 3))
def test_whole_pixels_roll_what_stays_inside(dtype, down, right):
    X = draw_images(1, dtype=dtype, margin=3)
    expected = np.roll(X.reshape(SHAPE), (down, right), (0, 1))
    # A pixel shows what lies where its displacement points: content moves the other way.
    np.testing.assert_array_equal(displace(X, make_field(SHAPE, -down, -right, dtype)).reshape(SHAPE), expected)


def test_what_comes_in_over_the_border_is_zero():
    X = np.ones((1, 108))
    seen = displace(X, make_field(SHAPE, 0, 2)).reshape(SHAPE)
    assert not seen[:, -2:].any()
    np.testing.assert_allclose(seen[:, :-2], np.sqrt(9 / 7))  # what is left has all of the norm


@both_dtypes
def test_every_image_keeps_its_norm(dtype):
    X = draw_images(50, dtype=dtype, margin=2) * np.arange(1, 51, dtype=dtype)[:, None]
    distorted = distort(Jitter(1, linear=1, elastic=1), X)
    assert np.abs(distorted - X).max() > 1
    np.testing.assert_allclose(
        np.linalg.norm(distorted, axis=1), np.linalg.norm(X, axis=1), rtol=50 * np.finfo(dtype).eps
    )


def test_blank_images_stay_blank_and_images_that_leave_become_blank():
    X = draw_images(2)
    X[0] = 0
    assert not distort(Jitter(elastic=1), X[:1]).any()
    assert not displace(X[1:], make_field(SHAPE, 0, 100)).any()


def test_both_types_see_the_same_distortions():
    X, jitter = draw_images(20, margin=2), Jitter(elastic=0.7)
    double, single = (distort(jitter, X.astype(t)) for t in (np.float64, np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, double, atol=1e-5)


@pytest.mark.bitwise
def test_rows_do_not_depend_on_the_block_they_are_in():
    X, jitter = draw_images(10), Jitter(elastic=0.7)
    fields = draw_fields(jitter, 10)
    parts = [displace(X[part], fields[part]) for part in (slice(0, 3), slice(3, 10))]
    np.testing.assert_array_equal(np.concatenate(parts), distort(jitter, X))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("shift", [0.7, 30.0])
@pytest.mark.parametrize("n_images", [1, 9])
def test_images_warped_alike_are_those_with_the_same_field_each(n_images, shift, dtype):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_images, 30)).astype(dtype)
    X[-1] = 0
    for field in Jitter(shift, elastic=0.5).draw(4, (5, 6), rng, dtype):  # a large shift leaves nothing inside
        alike = displace_alike(X, field)
        assert alike.dtype == dtype
        assert alike.flags.c_contiguous
        expected = displace(X, np.broadcast_to(field, (n_images, *field.shape)))
        np.testing.assert_allclose(alike, expected, atol=1e-5 if dtype == np.float32 else 1e-12)


def test_order_in_memory_does_not_matter():
    X, fields = draw_images(6), draw_fields(Jitter(), 6)
    np.testing.assert_array_equal(displace(np.asfortranarray(X), fields), displace(X, fields))
    np.testing.assert_array_equal(displace(X[::2], fields[::2]), displace(X, fields)[::2])


def test_a_draw_repeats_with_its_seed_and_differs_with_another():
    first, again, other = (draw_fields(Jitter(elastic=0.7), 5, seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.isclose(first, other).any()
    assert not np.isclose(first[0], first[1]).all()


@pytest.mark.parametrize("shape", [(9, 9), (5, 9), (9, 5)])
def test_affine_draws_have_the_terms_that_they_should(shape):
    n_images, shift, linear = 8000, 0.6, 0.4
    fields = draw_fields(Jitter(shift, linear=linear), n_images, shape)
    # In units of half the longer side along both axes, so that rotations of a non-square image are rotations.
    v, u = (np.mgrid[: shape[0], : shape[1]] - (np.array(shape)[:, None, None] - 1) / 2) / 4
    terms = np.stack([np.ones(v.size), v.ravel(), u.ravel()], axis=1)
    found, residuals, _, _ = np.linalg.lstsq(terms, fields.reshape(2 * n_images, -1).T)
    assert residuals.max() < 1e-12
    by_image = found.reshape(3, n_images, 2).transpose(1, 2, 0).reshape(n_images, 6)
    np.testing.assert_allclose(by_image.std(axis=0), np.tile([shift, linear, linear], 2), rtol=0.04)
    np.testing.assert_allclose(np.corrcoef(by_image.T), np.eye(6), atol=0.06)


@pytest.mark.parametrize("smoothness", [0.3, 1.5, 4.0, 40.0])
def test_elastic_draws_have_their_root_mean_square_at_every_pixel(smoothness):
    fields = draw_fields(Jitter(0, linear=0, elastic=0.7, smoothness=smoothness), 5000)
    np.testing.assert_allclose(np.sqrt(np.mean(fields**2, axis=0)), 0.7, rtol=0.05)
    assert abs(np.mean(fields[:, 0] * fields[:, 1])) < 0.05 * 0.7**2


@pytest.mark.parametrize("smoothness", [0.1, 1.0, 2.5, 4.0, 30.0])
@pytest.mark.parametrize("side", [1, 2, 9, 28])
def test_bumps_correlate_pixels_as_a_gaussian_filter_of_white_noise_does(side, smoothness):
    bumps, pixels = _make_bumps(side, smoothness), np.arange(side)
    distances = pixels[:, None] - pixels
    expected, atol = np.exp(-(distances**2) / (4 * smoothness**2)), 2e-3 if smoothness >= 1 else 1e-9  # white noise
    np.testing.assert_allclose(bumps @ bumps.T, expected, atol=atol)


def test_all_parts_of_a_field_add_up():
    fields = draw_fields(Jitter(0.5, linear=0.3, elastic=0.7), 5000)
    v, u = (np.mgrid[: SHAPE[0], : SHAPE[1]] - (np.array(SHAPE)[:, None, None] - 1) / 2) / 5.5
    np.testing.assert_allclose(np.mean(fields**2, axis=(0, 1)), 0.5**2 + 0.3**2 * (v**2 + u**2) + 0.7**2, rtol=0.08)


@pytest.mark.parametrize(
    ("jitter", "image_shape", "message"),
    [
        ("rotation", SHAPE, r"jitter='rotation' is not known; choose one of \['affine', 'elastic'\]"),
        ("affine", None, r"jitter distorts images: set image_shape=\(height, width\)"),
        (Jitter(-1), SHAPE, "shift must be a number of at least 0, got -1"),
        (Jitter(linear=np.inf), SHAPE, "linear must be a number of at least 0, got inf"),
        (Jitter(elastic=None), SHAPE, "elastic must be a number of at least 0, got None"),
        (Jitter(smoothness=0), SHAPE, "smoothness must be a number above 0, got 0"),
    ],
)
def test_what_cannot_be_distorted_is_refused_with_what_to_do(jitter, image_shape, message):
    with pytest.raises(ValueError, match=message):
        make_jitter(jitter, image_shape)


def test_names_stand_for_jitters_and_only_one_of_them_bends():
    assert make_jitter(None, SHAPE) is None
    mine = Jitter(2)
    assert make_jitter(mine, SHAPE) is mine
    assert {name: make_jitter(name, SHAPE).elastic > 0 for name in JITTERS} == {"affine": False, "elastic": True}
