"""Steps of Adam: the published ones, on unit atoms."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import normalise

from ddlearn.refinement.adam import Adam, anneal
from ddlearn.refinement.backward import RefinedModel

SIZES = (0.1, 0.02, 0.05, 0.3)


def draw_model(rng, n_components=150, dtype=np.float64):
    dictionary = normalise(rng.standard_normal((n_components, 7)))
    arrays = dictionary, *(rng.standard_normal(shape) for shape in ((n_components, 3), (7, 3), 3))
    return RefinedModel(*(array.astype(dtype) for array in arrays))


def step_plainly(values, slopes, size):
    """Adam (Kingma and Ba, 2015, Algorithm 1) for given gradients, with unit rows of a dictionary after each step."""
    mean, square = np.zeros_like(values), np.zeros_like(values)
    for t, slope in enumerate(slopes, start=1):
        mean = 0.9 * mean + (1 - 0.9) * slope
        square = 0.999 * square + (1 - 0.999) * slope**2
        values = values - size * (mean / (1 - 0.9**t)) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8)
        if values.shape[-1] == 7:
            values = normalise(values)
    return values


def test_steps_are_those_of_adam():
    rng = np.random.default_rng(0)
    start = draw_model(rng)
    gradients = [draw_model(rng) for _ in range(5)]
    adam = Adam.of(start.copy())
    for gradient in gradients:
        adam.step(gradient, SIZES, n_jobs=1)
    assert adam.n_steps == 5
    for found, first, slopes, size in zip(adam.model, start, zip(*gradients, strict=True), SIZES, strict=True):
        np.testing.assert_allclose(found, step_plainly(first, slopes, size), rtol=0, atol=1e-12)


@pytest.mark.bitwise
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_steps_are_bitwise_the_same_on_two_threads_and_in_the_precision_of_the_model(dtype):
    models = []
    for n_jobs in (1, 2):
        rng = np.random.default_rng(0)
        adam = Adam.of(draw_model(rng, dtype=dtype))
        for _ in range(3):
            adam.step(draw_model(rng, dtype=dtype), SIZES, n_jobs)
        models.append([*adam.model, *adam.mean, *adam.square])
    for one, other in zip(*models, strict=True):
        assert one.dtype == dtype
        np.testing.assert_array_equal(one, other)


def test_a_copy_does_not_move_with_the_state():
    model = draw_model(np.random.default_rng(0))
    adam = Adam.of(model)
    kept = adam.copy()
    adam.step(model.copy(), SIZES, n_jobs=1)
    assert (model.dictionary != kept.model.dictionary).any()
    assert adam.mean.dictionary.any()
    assert not any(array.any() for array in (*kept.mean, *kept.square))


def test_steps_fall_along_a_cosine():
    assert anneal(0) == 1
    assert anneal(0.5) == pytest.approx(0.5)
    assert anneal(1) == pytest.approx(0)
    shares = np.array([anneal(share) for share in np.linspace(0, 1, 11)])
    assert (np.diff(shares) < 0).all()
    np.testing.assert_allclose(shares + shares[::-1], 1)
