"""Registration: moved images come back, costs fall, maps stay within their limits."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_pursuit, normalise
from scipy.ndimage import gaussian_filter, zoom
from sklearn.datasets import load_digits

from ddlearn import ORMP, Alignment, Robustness, SparseCoder
from ddlearn.coding.alignment import (
    TRANSFORMS,
    Registration,
    make_registration,
    warp_images,
)
from ddlearn.coding.encoder import Encoder
from ddlearn.coding.robust import RobustCoder

SHAPE = (20, 18)
every_transform = pytest.mark.parametrize("transform", sorted(TRANSFORMS))


def draw_atoms(n_atoms, seed=0, levels=(0, 0, 0, 1, 1)):
    """Blots with an empty border, smooth enough for tangents to speak for a pixel."""
    rng = np.random.default_rng(seed)
    images = np.zeros((n_atoms, *SHAPE))
    images[:, 5:-5, 5:-5] = rng.choice(levels, (n_atoms, SHAPE[0] - 10, SHAPE[1] - 10))
    return normalise(gaussian_filter(images, (0, 1.2, 1.2)).reshape(n_atoms, -1))


def make_coder(atoms, alignment, n_nonzero_coefs=1, error_budget=0, noise_scale=0.0, image_shape=SHAPE):
    encoder, registration = Encoder.of(atoms, ORMP(), n_nonzero_coefs), Registration(alignment, image_shape)
    return RobustCoder(encoder, Robustness(error_budget), noise_scale, registration)


def register(X, atoms, alignment, **options):
    coder = make_coder(atoms, alignment, **options)
    view = coder.registration.register(X, np.ones(X.shape, bool), coder)
    return view, coder.to_affine(view.parameters)


def shift(X, along_columns, along_rows):
    maps = np.tile(np.eye(2, 3), (len(X), 1, 1))
    maps[:, 0, 2], maps[:, 1, 2] = -along_columns, -along_rows
    return warp_images(X, maps, SHAPE)[0]


@every_transform
@pytest.mark.parametrize("moved", [(0.7, -0.4), (-1.3, 0.9), (1.5, 1.5)])
def test_a_shifted_atom_is_brought_back_to_within_a_tenth_of_a_pixel(transform, moved):
    atoms = draw_atoms(12)
    _, maps = register(shift(atoms, *moved), atoms, Alignment(transform, n_rounds=10, damping=1e-4, tol=0.0))
    np.testing.assert_allclose(maps[:, :, 2], np.tile(moved, (12, 1)), atol=0.1)


TURN = np.array([[np.cos(0.14), -np.sin(0.14)], [np.sin(0.14), np.cos(0.14)]])  # by eight degrees


@pytest.mark.parametrize(
    ("transform", "moved"),
    [("euclidean", TURN), ("similarity", TURN), ("affine", TURN), ("similarity", 1.1 * np.eye(2))],
)
def test_a_rotated_or_shrunken_atom_is_brought_back(transform, moved):
    atoms, maps = draw_atoms(12), np.tile(np.hstack([moved, np.zeros((2, 1))]), (12, 1, 1))
    alignment = Alignment(transform, n_rounds=10, damping=1e-4, tol=0.0)
    _, found = register(warp_images(atoms, maps, SHAPE)[0], atoms, alignment)
    np.testing.assert_allclose(found[:, :, :2], np.tile(np.linalg.inv(moved), (12, 1, 1)), atol=0.015)


def test_real_images_come_back_with_default_settings():
    images = normalise(np.array([zoom(image, 2, order=1).ravel() for image in load_digits().images[:100]]))
    maps = np.tile(np.eye(2, 3), (100, 1, 1))
    maps[:, 0, 2] = -0.8
    moved = warp_images(images, maps, (16, 16))[0]
    coder = make_coder(images, Alignment("translation"), image_shape=(16, 16))
    view = coder.registration.register(moved, np.ones(moved.shape, bool), coder)
    off = np.abs(view.parameters - [0.8, 0]).max(axis=1)
    assert np.mean(off < 0.1) > 0.9


@every_transform
@pytest.mark.parametrize("levels", [(0, 1), (-1, 0, 1)])
def test_an_image_that_is_an_atom_stays_bitwise(transform, levels):
    # Of costs that are rounding errors one can be lower: such an image moved by 1e-9 of a pixel.
    atoms = draw_atoms(8, levels=levels)
    view, _ = register(atoms, atoms, Alignment(transform))
    np.testing.assert_array_equal(view.samples, atoms)
    assert not view.parameters.any()


@every_transform
def test_more_rounds_lower_the_cost(transform):
    rng = np.random.default_rng(1)
    atoms, X = draw_atoms(12), shift(draw_atoms(40, seed=5), 0.8, 0.3) + 0.02 * rng.standard_normal((40, 360))
    before = np.full(40, np.inf)
    for n_rounds in (1, 2, 4):
        alignment = Alignment(transform, n_rounds=n_rounds, tol=0.0)
        view, _ = register(X, atoms, alignment, n_nonzero_coefs=3)
        codes = Encoder.of(atoms, ORMP(), 3).encode(view.samples, view.is_known)
        residual = np.sum((view.samples - codes.to_csr(12) @ atoms) ** 2, axis=1)
        cost = residual + alignment.damping * np.sum(X**2, axis=1) * np.sum(view.parameters**2, axis=1)
        # The guard compares costs at the code that was found while moving; coding anew can only lower them, up to
        # what greedy choice misses.
        assert np.mean(cost) < np.mean(before)
        before = cost
    plain = Encoder.of(atoms, ORMP(), 3).encode(X)
    assert np.mean(before) < 0.9 * np.mean(np.sum((X - plain.to_csr(12) @ atoms) ** 2, axis=1))


@every_transform
def test_maps_stay_within_their_limits(transform):
    X = np.random.default_rng(0).standard_normal((60, 360))
    view, maps = register(X, draw_atoms(12), Alignment(transform, n_rounds=8, damping=1e-6, max_shift=1.5))
    assert view.parameters.any()
    assert np.abs(maps[:, :, 2]).max() <= 1.5 + 1e-12
    assert np.abs(np.diagonal(maps[:, :, :2], axis1=1, axis2=2) - 1).max() <= 0.15 + 1e-12
    assert np.abs(maps[:, 0, 1]).max() <= np.deg2rad(15) + 1e-12


@every_transform
def test_derivatives_of_maps_are_those_of_the_maps(transform):
    family = TRANSFORMS[transform]
    parameters = 0.1 * np.random.default_rng(0).standard_normal((5, len(family.limits)))
    for p in range(parameters.shape[1]):
        step = 1e-6 * np.eye(parameters.shape[1])[p]
        numerical = (family.to_affine(parameters + step) - family.to_affine(parameters - step)) / 2e-6
        np.testing.assert_allclose(family.derivatives(parameters)[:, p], numerical, atol=1e-8)


def test_results_scale_with_the_images():
    atoms, X = draw_atoms(12), shift(draw_atoms(20, seed=3), 0.8, 0.3)
    once, twice = (register(factor * X, atoms, Alignment("affine"), n_nonzero_coefs=3)[0] for factor in (1, 4))
    np.testing.assert_allclose(once.parameters, twice.parameters, atol=1e-10)


def test_missing_pixels_have_no_part_in_registration():
    atoms = draw_atoms(12)
    X, is_known = shift(atoms, 0.7, -0.4), np.ones((12, 360), bool)
    is_known.reshape(-1, *SHAPE)[:, 2:8, 3:9] = False
    alignment = Alignment("translation", n_rounds=10, damping=1e-4, tol=0.0)
    coder = make_coder(atoms, alignment)
    views = [coder.registration.register(np.where(is_known, X, filling), is_known, coder) for filling in (0.0, 0.3)]
    for view in views:
        np.testing.assert_allclose(view.parameters, np.tile([0.7, -0.4], (12, 1)), atol=0.1)
    np.testing.assert_array_equal(views[0].is_known, views[1].is_known)


def test_scattered_missing_pixels_do_not_eat_the_image():
    # Each missing pixel used to make unknown whatever it had a part in, 16 pixels, and that lowered the cost.
    atoms = draw_atoms(12, levels=(-1, 0, 1))
    is_known = np.random.default_rng(0).random((12, 360)) > 0.2
    coder = make_coder(atoms, Alignment("translation", n_rounds=10, damping=1e-4, tol=0.0))
    coded = coder.code(np.where(is_known, shift(atoms, 0.7, -0.4), 0), is_known)
    np.testing.assert_allclose(coded.parameters, np.tile([0.7, -0.4], (12, 1)), atol=0.15)
    np.testing.assert_array_equal(coded.codes.indices[:, 0], np.arange(12))
    assert coded.is_known.mean() > 0.75


def test_registration_and_gross_errors_together():
    atoms = draw_atoms(12, levels=(-1, 0, 1))  # not so much alike that a blot makes one look like another
    X = shift(atoms, 0.7, -0.4)
    X.reshape(-1, *SHAPE)[:, 6:10, 6:9] += 0.25
    coder = make_coder(
        atoms, Alignment("translation", n_rounds=10, damping=1e-4, tol=0.0), error_budget=0.15, noise_scale=0.02
    )
    coded = coder.code(X, np.ones(X.shape, bool))
    off = np.abs(coded.parameters - [0.7, -0.4]).max(axis=1)
    assert np.mean(off < 0.11) > 0.9
    assert np.mean(coded.codes.indices[:, 0] == np.arange(12)) > 0.9
    # Without looking for errors the blot pulls.
    plain, _ = register(X, atoms, Alignment("translation", n_rounds=10, damping=1e-4, tol=0.0))
    assert np.median(np.abs(plain.parameters - [0.7, -0.4]).max(axis=1)) > 3 * np.median(off)


def test_a_blank_image_stays_where_it_is():
    view, _ = register(np.zeros((3, 360)), draw_atoms(4), Alignment("affine"))
    assert not view.parameters.any()
    assert not view.samples.any()


@pytest.mark.parametrize(
    ("alignment", "image_shape", "message"),
    [
        ("rigid", (20, 18), "transform='rigid' is not known; choose one of"),
        ("affine", None, r"alignment moves images: set image_shape=\(height, width\)"),
        (Alignment(n_rounds=0), (20, 18), "n_rounds must be an integer of at least 1, at most 100000, got 0"),
        (Alignment(damping=0), (20, 18), "damping must be a number above 0, got 0"),
        (Alignment(max_shift=-1), (20, 18), "max_shift must be a number above 0, got -1"),
        (Alignment(tol=-1), (20, 18), "tol must be a number of at least 0, got -1"),
    ],
)
def test_what_cannot_be_aligned_is_refused_with_what_to_do(alignment, image_shape, message):
    with pytest.raises(ValueError, match=message):
        make_registration(alignment, image_shape, ORMP())


def test_a_coder_that_cannot_project_directions_is_refused():
    class Plain(SparseCoder):
        def solve(self, problem):
            raise AssertionError

    with pytest.raises(ValueError, match="does not declare projects_directions: use sparse_coder='ormp'"):
        make_registration("affine", SHAPE, Plain())


def make_moved_classes(n_samples, seed):
    """Two classes of blots, each image moved by up to a pixel and a half."""
    rng = np.random.default_rng(seed)
    atoms, y = draw_atoms(6), rng.integers(2, size=n_samples)
    codes = np.zeros((n_samples, 6))
    codes[np.arange(n_samples), 3 * y + rng.integers(3, size=n_samples)] = 1
    maps = np.tile(np.eye(2, 3), (n_samples, 1, 1))
    maps[:, :, 2] = rng.uniform(-1.5, 1.5, (n_samples, 2))
    return warp_images(codes @ atoms, maps, SHAPE)[0] + 0.01 * rng.standard_normal((n_samples, 360)), y


def test_registered_training_learns_sharper_atoms():
    X, y = make_moved_classes(200, seed=0)
    settings = {"n_components": 12, "n_nonzero_coefs": 1, "random_state": 0, "image_shape": SHAPE, "max_iter": 10}
    plain = make_pursuit(**settings).fit(X, y)
    aligned = make_pursuit(**settings, alignment=Alignment("translation", training=True)).fit(X, y)
    # Two atoms for each of the six blots: what is left over is noise, where plain atoms have to blur.
    assert aligned.median_noise_variance_ < 0.5 * plain.median_noise_variance_
    X_test, y_test = make_moved_classes(200, seed=1)
    assert aligned.score(X_test, y_test) >= plain.score(X_test, y_test)
