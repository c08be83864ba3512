"""What one prediction costs beyond its arithmetic: ``python -m benchmarks.latency``.

One sample of 784 features goes through ``predict`` of a model with 500 atoms, beside the bare product ``X @ D.T``
followed by the bare kernel.  The rest is checks, bookkeeping and the label rule.
"""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np

from ddlearn import DDLClassifier
from ddlearn.coding.coders import PIVOT_FLOOR
from ddlearn.kernels.pursuit import make_pursuit_workspace, pursue_rows

N_SAMPLES, N_FEATURES, N_COMPONENTS, N_CLASSES = 1000, 784, 500, 10
N_ROUNDS, N_CALLS = 20, 50  # the fastest round counts


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


def time_in_turn(*calls: Callable[[], object]) -> list[float]:
    """Return the seconds of each call, in the fastest of several rounds."""
    best = [np.inf] * len(calls)
    for _ in range(N_ROUNDS):
        for position, call in enumerate(calls):
            start = perf_counter()
            for _ in range(N_CALLS):
                call()
            best[position] = min(best[position], (perf_counter() - start) / N_CALLS)
    return best


def main() -> None:
    rng = np.random.default_rng(0)
    for dtype in (np.float64, np.float32):
        X = rng.standard_normal((N_SAMPLES, N_FEATURES)).astype(dtype)
        y = np.arange(N_SAMPLES) % N_CLASSES
        model = DDLClassifier(N_COMPONENTS, max_iter=1, random_state=0).fit(X, y)
        x = X[:1]
        bare = prepare_kernel(model.components_, model.n_nonzero_coefs_, x)
        predict, kernel = time_in_turn(lambda x=x, model=model: model.predict(x), bare)
        print(
            f"{np.dtype(dtype)}: predict {1e6 * predict:.0f} us, product and kernel {1e6 * kernel:.0f} us, "
            f"ratio {predict / kernel:.2f}"
        )


if __name__ == "__main__":
    main()
