"""What one prediction costs beyond its arithmetic, and what views cost: ``python -m benchmarks.latency``.

Pursuit: one sample of 784 features goes through ``predict`` of a model with 500 atoms, beside the bare product
``X @ D.T`` followed by the bare kernel.  The rest is checks, bookkeeping and the label rule.  Elastic net: one sample
beside its share of a batch, and a batch with 16 views beside one with a single view.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np

from ddlearn import ORMP, DDLClassifier, ElasticNet
from ddlearn.coding.coders import PIVOT_FLOOR
from ddlearn.kernels.pursuit import make_pursuit_workspace, pursue_rows
from ddlearn.parallel import single_threaded_blas

from .problems import make_blobs
from .report import write_results

N_SAMPLES, IMAGE_SHAPE, N_COMPONENTS, N_CLASSES = 1000, (28, 28), 500, 10
BATCH, N_VIEWS = 512, 16
N_ROUNDS, N_BATCH_ROUNDS = 20, 4  # the fastest one counts


def prepare_kernel(dictionary: np.ndarray, n_nonzero_coefs: int, x: np.ndarray) -> Callable[[], np.ndarray]:
    """Return the product and the kernel for one sample, with all that a model computes once made beforehand."""
    n_components, dtype = len(dictionary), dictionary.dtype
    gram, nothing = dictionary @ dictionary.T, np.empty((1, 0), dtype)
    indices, values = np.empty((1, n_nonzero_coefs), np.int32), np.empty((1, n_nonzero_coefs), dtype)
    workspace = make_pursuit_workspace(n_nonzero_coefs, n_components, 0, 0, dtype)
    tolerance = np.array([-np.inf], dtype)
    floors = dtype.type(np.finfo(dtype).eps ** 2), dtype.type(PIVOT_FLOOR[dtype])
    no_rows = np.empty((0, n_components), dtype)

    def run() -> np.ndarray:
        correlations, energies = x @ dictionary.T, np.vecdot(x, x)
        pursue_rows(
            gram,
            correlations,
            *(no_rows, nothing, nothing, no_rows),  # without classes and directions
            energies,
            tolerance,
            *floors,
            True,
            workspace,
            indices,
            values,
        )
        return values

    return run


def time_in_turn(*calls: Callable[[], object], n_calls: int = 50, n_rounds: int = N_ROUNDS) -> list[float]:
    """Return the microseconds of each call, in the fastest of several rounds."""
    best = [np.inf] * len(calls)
    for _ in range(n_rounds):
        for position, call in enumerate(calls):
            start = perf_counter()
            for _ in range(n_calls):
                call()
            best[position] = min(best[position], 1e6 * (perf_counter() - start) / n_calls)
    return best


def make_images(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Return images of unit norm, in classes of images that are alike."""
    rng = np.random.default_rng(0)
    owners = np.arange(N_SAMPLES) % N_CLASSES
    images = make_blobs(N_CLASSES, IMAGE_SHAPE, rng)[owners] + 0.5 * make_blobs(N_SAMPLES, IMAGE_SHAPE, rng)
    return (images / np.linalg.norm(images, axis=1, keepdims=True)).astype(dtype), owners


def measure_pursuit(dtype: np.dtype) -> dict[str, float]:
    """Return what one sample costs, without replacement of atoms (the kernel alone) and with it."""
    X, y = make_images(dtype)
    x = X[:1]
    settings: dict[str, Any] = {"description": None, "refine": None, "max_iter": 1, "random_state": 0}
    plain, replacing = (
        DDLClassifier(N_COMPONENTS, sparse_coder=ORMP(n_swaps=n_swaps), **settings).fit(X, y) for n_swaps in (0, 10)
    )
    kernel = prepare_kernel(plain.components_, plain.n_nonzero_coefs_, x)
    found = np.full(3, np.inf)
    for _ in range(N_ROUNDS):
        times = time_in_turn(lambda: plain.predict(x), lambda: replacing.predict(x), n_rounds=1)
        with single_threaded_blas():  # one thread is what predict has
            times += time_in_turn(kernel, n_rounds=1)
        found = np.minimum(found, times)
    return dict(zip(("predict", "predict_with_replacement", "product_and_kernel"), found.tolist(), strict=True))


def measure_elastic_net(dtype: np.dtype) -> dict[str, float]:
    """Return what one sample costs alone, in a batch, and in a batch with several views."""
    X, y = make_images(dtype)
    settings: dict[str, Any] = {
        "sparse_coder": ElasticNet(0.1, l1_ratio=0.5),
        "description": None,
        "refine": None,
        "max_iter": 1,
    }
    model = DDLClassifier(N_COMPONENTS, image_shape=IMAGE_SHAPE, random_state=0, **settings).fit(X, y)
    batch = X[:BATCH]
    (one,) = time_in_turn(lambda: model.predict(X[:1]))
    (in_batch,) = time_in_turn(lambda: model.predict(batch), n_calls=1, n_rounds=N_BATCH_ROUNDS)
    model.set_params(n_views=N_VIEWS)
    (with_views,) = time_in_turn(lambda: model.predict(batch), n_calls=1, n_rounds=N_BATCH_ROUNDS)
    return {"one": one, "one_in_batch": in_batch / BATCH, "one_in_batch_with_views": with_views / BATCH}


def main() -> None:
    results = {
        dtype: {"pursuit": measure_pursuit(np.dtype(dtype)), "elastic_net": measure_elastic_net(np.dtype(dtype))}
        for dtype in ("float64", "float32")
    }
    print(results)
    write_results("latency", results)


if __name__ == "__main__":
    main()
