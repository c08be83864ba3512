"""Synthetic images for the tests: those of a class lie in a random subspace of few dimensions."""

from __future__ import annotations

import numpy as np

SIZE = (24, 21)
N_PIXELS = SIZE[0] * SIZE[1]
_N_CLASSES = 4


def draw_images(n_per_class, seed):
    """Return images and their classes; values are positive, as grey levels are."""
    rng = np.random.default_rng(seed)
    bases = np.random.default_rng(0).uniform(0, 1, (_N_CLASSES, 3, N_PIXELS))
    labels = np.repeat(np.arange(_N_CLASSES), n_per_class)
    weights = rng.uniform(0.2, 1, (len(labels), 1, 3))
    return (weights @ bases[labels])[:, 0].reshape(-1, *SIZE).astype(np.float32), labels
