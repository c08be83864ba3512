"""Gradients as description: what they do not change with, what they turn with, and models of images in every mode."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_digits

from ddlearn import DDLClassifier, ElasticNet, Gradients, Jitter, ModelFileError, Refiner, Robustness, save
from ddlearn.describe.jitter import displace
from ddlearn.fitting.data import TrainingSet
from ddlearn.inference.predictor import draw_views
from ddlearn.refinement.epochs import MiniBatch, Task

SHAPE = (8, 8)
SCALING = Gradients(image_shape=SHAPE)
JITTER = Jitter(0.4, linear=0.4)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X, y


def draw_images(n_images=5, shape=(9, 7), dtype=np.float64):
    return np.random.default_rng(0).random((n_images, shape[0] * shape[1])).astype(dtype)


def make_model(**parameters):
    """Return a model of settings that are given, so that nothing is searched for."""
    refiner = Refiner(2, cost="one_vs_all", weight_decay=0.03, linear_decay=1.0, jitter=JITTER)
    settings = {"description": "gradients", "image_shape": SHAPE, "sparse_coder": ElasticNet(0.1), "refine": refiner}
    return DDLClassifier(60, **(settings | {"random_state": 0} | parameters))


def as_cells(description, scaled):
    return scaled.reshape(len(scaled), description.n_directions, *description._count_cells())


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_scaled_images_have_unit_norm_and_know_neither_contrast_nor_brightness(dtype):
    description, X = Gradients(4, image_shape=(9, 7)), draw_images(dtype=dtype)
    scaled = description.apply(X)
    assert scaled.dtype == dtype
    assert scaled.shape == (5, description.count_features(63)) == (5, 8 * 4 * 3)
    assert (scaled >= 0).all()
    np.testing.assert_allclose(np.vecdot(scaled, scaled), 1, rtol=1e-5)
    np.testing.assert_allclose(description.apply(7 * X + 3), scaled, atol=1e-3 if dtype == np.float32 else 1e-9)
    for power in (2, 100):  # to the last bit, also where squares overflow
        np.testing.assert_array_equal(description.apply(X * 2**power), scaled)
    assert not description.apply(np.full((2, 63), 5.0)).any()  # an even image has no gradient


def test_a_negative_has_the_opposite_directions():
    description, X = Gradients(image_shape=(9, 7)), draw_images()
    positive, negative = (as_cells(description, description.apply(images)) for images in (X, -X))
    np.testing.assert_allclose(negative, np.roll(positive, 4, axis=1), atol=1e-12)


def test_gradients_turn_with_the_image():
    description, images = SCALING, draw_images(5, SHAPE).reshape(-1, *SHAPE)
    turned = np.rot90(images, axes=(1, 2)).reshape(5, -1)  # what pointed to the right points upwards
    expected = np.roll(
        np.rot90(as_cells(description, description.apply(images.reshape(5, -1))), axes=(2, 3)), -2, axis=1
    )
    np.testing.assert_allclose(as_cells(description, description.apply(turned)), expected, atol=1e-12)


def test_a_sketch_looks_like_the_image(digits):
    X = digits[0][:200]
    sketches = SCALING.invert(SCALING.apply(X))
    likeness = [np.corrcoef(pair)[0, 1] for pair in zip(X, sketches, strict=True)]
    assert np.median(likeness) > 0.75
    np.testing.assert_array_equal(SCALING.show(np.zeros((1, 128))), 0)


def test_flagged_cells_are_flagged_pixels():
    description = Gradients(2, n_directions=4, image_shape=(4, 4))
    flags = np.zeros((1, 4, 2, 2), bool)
    flags[0, :3, 0, 0] = True  # most of the directions in the upper left cell
    found = np.isnan(description.invert(np.where(flags.reshape(1, -1), np.nan, 0))).reshape(4, 4)
    assert found[0, 0]
    assert not found[2:].any()
    assert not found[:, 2:].any()


def test_light_from_the_side_deceives_pixels_and_not_gradients(digits):
    X, y = digits
    shade = np.tile(np.linspace(0.2, 2.0, 8), 8)  # darker on the left
    errors = {}
    for description in ("unit", "gradients"):
        model = make_model(description=description, refine="classifiers").fit(X[:1000], y[:1000])
        errors[description] = np.mean(model.predict(X[1000:] * shade + 4) != y[1000:])
    assert errors["gradients"] < 0.06
    assert errors["gradients"] < errors["unit"] / 2


def test_images_are_distorted_before_they_are_described(digits):
    X, labels = digits[0][:30], np.ones((30, 2), np.int8)
    (part,) = TrainingSet.of_arrays(X, labels).describe(SCALING, SHAPE).parts.gather()
    np.testing.assert_array_equal(part.X, SCALING.apply(X))
    task = Task(None, None, 1, False, JITTER, SHAPE, SCALING)
    rows = np.array([3, 1, 20])
    batch = MiniBatch(None, rows, 1.0, (1,))
    shown = task.distort(part, np.arange(3), rows, batch)
    fields = JITTER.draw(3, SHAPE, np.random.default_rng([1]), X.dtype)
    np.testing.assert_array_equal(shown, SCALING.apply(displace(X[rows], fields)))


def test_views_are_described_copies_whose_evidence_is_averaged(digits):
    X, y = digits
    model = make_model().fit(X[:500], y[:500])
    fields = draw_views(JITTER, SHAPE, 3, X.dtype)
    views = [X[500:520], *(displace(X[500:520], np.repeat(field[None], 20, axis=0)) for field in fields)]
    expected = np.mean([model.decision_function(view) for view in views], axis=0)
    np.testing.assert_allclose(model.set_params(n_views=3).decision_function(X[500:520]), expected, atol=1e-4)


@pytest.mark.bitwise
def test_threads_and_blocks_make_no_difference(digits):
    X, y = digits
    one, two = (make_model(n_jobs=n_jobs).fit(X[:600], y[:600]) for n_jobs in (1, 2))
    np.testing.assert_array_equal(one.components_, two.components_)
    np.testing.assert_array_equal(one.decision_function(X), two.decision_function(X))


def test_a_model_of_gradients_explains(digits):
    X, y = digits
    model = make_model(description=Gradients(3)).fit(X[:500], y[:500])
    assert model.components_.shape == (60, 8 * 3 * 3)
    found = model.set_params(robustness=0.2).explain(X[500:510])
    assert {array.shape for array in (found.samples, found.reconstruction, found.error, found.is_used)} == {(10, 64)}


def test_a_file_with_images_of_another_shape_is_refused(digits, tmp_path):
    X, y = digits
    model = make_model().fit(X[:300], y[:300])
    for description in (
        Gradients(image_shape=(4, 4)),
        Gradients(10**9, image_shape=SHAPE),
        Gradients(image_shape=(0, 64)),
    ):
        model.description_ = description
        with pytest.raises((ModelFileError, ValueError)):
            save(model, tmp_path / "model.ddl")


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"image_shape": None, "refine": None}, r"description='gradients' describes images: set image_shape"),
        ({"image_shape": (4, 4)}, r"image_shape=\(4, 4\) has 4 x 4 = 16 pixels, but X has 64"),
        ({"alignment": "affine"}, r"alignment='affine' distorts images, .* use description='unit'"),
        ({"description": Gradients(0)}, "n_cells must be at least 1"),
        ({"description": Gradients(n_directions=2)}, "n_directions must be at least 3"),
    ],
    ids=lambda value: None if isinstance(value, str) else "-".join(value),
)
def test_what_cannot_be_done_is_said(digits, parameters, message):
    with pytest.raises(ValueError, match=message):
        make_model(**parameters).fit(digits[0][:100], digits[1][:100])


def test_missing_pixels_are_refused(digits):
    X, y = digits[0][:200].copy(), digits[1][:200]
    model = make_model(robustness=Robustness(missing="mask")).fit(X, y)
    X[3, 7] = np.nan
    for call in (lambda: model.predict(X), lambda: make_model(robustness=Robustness(missing="mask")).fit(X, y)):
        with pytest.raises(ValueError, match="'gradients' needs all pixels of an image"):
            call()
