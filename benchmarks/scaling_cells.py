"""What the scaling benchmark measures: iterations of a fit, in memory and on workers, each in a process of its own.

Rows are made where they are needed, chunk by chunk, each from a seed of its own.
"""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable, Sequence
from functools import partial
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, time
from typing import Any
from unittest.mock import patch

import numpy as np
import psutil
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.datasets import load_digits

from ddlearn import Checkpoint, DDLClassifier, Refiner

from .labelled import training_part
from .traffic import Traffic, start_cluster, start_counting

N_FEATURES, N_COMPONENTS, N_NONZERO, N_CLASSES, NOISE = 64, 100, 5, 10, 0.1
CHUNK_ROWS = 65536
LARGE_CHUNK_ROWS = 16 * CHUNK_ROWS
TILE_ROWS = 256  # chunks of whole tiles give bitwise the results of memory
N_ITERATIONS = 4  # the first is not counted
N_REPEATS = 3
SETTINGS: dict[str, Any] = {
    "description": None,
    "sparse_coder": "ormp",
    "tol": 0,
    "refine": None,
    "dictionary_update": "block_coordinate",
    "random_state": 0,
}


def make_model(**changes: Any) -> DDLClassifier:
    """Return the model whose iterations are measured."""
    sizes = {"n_components": N_COMPONENTS, "n_nonzero_coefs": N_NONZERO, "max_iter": N_ITERATIONS}
    return DDLClassifier(**sizes | SETTINGS | changes)


# -- rows --------------------------------------------------------------------------------------------------------------


def cut_evenly(n_rows: int, n_workers: int, chunk_rows: int = CHUNK_ROWS) -> list[int]:
    """Return sizes of chunks, none above ``chunk_rows``, as many for each worker, and as equal as whole tiles allow."""
    n_tiles, most_tiles = -(-n_rows // TILE_ROWS), max(chunk_rows // TILE_ROWS, 1)
    n_chunks = -(-n_tiles // (most_tiles * n_workers)) * n_workers
    step = -(-n_tiles // n_chunks) * TILE_ROWS
    return [min(step, n_rows - start) for start in range(0, n_rows, step)]


def make_chunk(seed: int, n_rows: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return planted samples and classes: a positive atom of the own class, the others negative where they are not."""
    atoms = np.random.default_rng(0).standard_normal((N_COMPONENTS, N_FEATURES), dtype=np.float32)
    atoms /= np.linalg.norm(atoms, axis=1, keepdims=True)
    rng = np.random.default_rng([1, seed])
    y = rng.integers(N_CLASSES, size=n_rows)
    used = rng.integers(N_COMPONENTS, size=(n_rows, N_NONZERO))
    used[:, 0] += (y - used[:, 0]) % N_CLASSES - N_CLASSES * (used[:, 0] >= N_COMPONENTS - N_CLASSES)
    sizes = rng.uniform(1, 2, used.shape) * np.where(used % N_CLASSES == y[:, None], 1, -1)
    ends = np.arange(0, used.size + 1, N_NONZERO)
    codes = csr_array((sizes.astype(np.float32).ravel(), used.ravel(), ends), shape=(n_rows, N_COMPONENTS))
    return codes @ atoms + np.float32(NOISE) * rng.standard_normal((n_rows, N_FEATURES), dtype=np.float32), y


def read_mnist_rows(start: int, n_rows: int) -> tuple[NDArray[np.float64], NDArray[np.integer]]:
    """Return some of the training images, and what they show."""
    X, y = training_part("mnist")
    rows = slice(start, start + n_rows)
    return X[rows].astype(np.float64), y[rows]


def make_lazy_rows(
    make: Callable[[int, int], tuple[Any, Any]], arguments: Sequence[int], sizes: Sequence[int]
) -> tuple[Any, Any]:
    """Return Dask arrays of samples and classes, which no process has yet: chunks are ``make(argument, size)``."""
    import dask.array as da
    from dask import delayed

    sample, label = make(0, 1)
    pairs = [(delayed(make)(argument, size), size) for argument, size in zip(arguments, sizes, strict=True)]
    X = [da.from_delayed(pair[0], (size, sample.shape[1]), sample.dtype) for pair, size in pairs]
    y = [da.from_delayed(pair[1], (size,), label.dtype) for pair, size in pairs]
    return da.concatenate(X), da.concatenate(y)


# -- measuring ---------------------------------------------------------------------------------------------------------


class Moments:
    """A callback that notes when each iteration was over, and calls a function then."""

    def __init__(self, look: Callable[[int], Any] = lambda iteration: None) -> None:
        self.moments: list[float] = []
        self.look = look

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing to do."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing to do."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Note the time."""
        if context.task_name == "iteration":
            self.moments.append(time())
            self.look(len(self.moments))

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing to do."""


def peak_bytes() -> int:
    """Return the most memory that this process ever had."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def used_bytes() -> int:
    """Return the memory that this process has."""
    return psutil.Process().memory_info().rss


def _iteration_seconds(model: DDLClassifier) -> float:
    records = model.history_[2:]
    return median(
        record.coding_seconds + record.classifier_seconds + record.dictionary_seconds + record.scale_seconds
        for record in records
    )


def measure_in_memory(n_rows: int, n_jobs: int) -> dict[str, Any]:
    """Fit rows of this process."""
    sizes = cut_evenly(n_rows, n_jobs)
    model = make_model(n_jobs=n_jobs).fit(*make_chunk(0, 2048))  # compiles
    base = used_bytes()
    X, y = np.empty((n_rows, N_FEATURES), np.float32), np.empty(n_rows, np.int64)
    for seed, size in enumerate(sizes):
        rows = slice(sizes[0] * seed, sizes[0] * seed + size)
        X[rows], y[rows] = make_chunk(seed, size)
    model.fit(X, y)
    return {
        "iteration_seconds": _iteration_seconds(model),
        "memory_bytes": peak_bytes() - base,
        "label_free_error": model.history_[-1].label_free_error,
    }


def measure_on_workers(n_rows: int, n_workers: int, chunk_rows: int = CHUNK_ROWS) -> dict[str, Any]:
    """Fit rows of workers; count what goes over the wires."""
    from distributed import wait

    sizes = cut_evenly(n_rows, n_workers, chunk_rows)
    with start_cluster(n_workers) as client:
        start_counting()
        client.run(start_counting)
        client.run_on_scheduler(start_counting)
        make_model().fit(*make_lazy_rows(make_chunk, range(2 * n_workers), [1024] * 2 * n_workers))  # compiles
        base, scheduler_base, client_base = client.run(used_bytes), client.run_on_scheduler(used_bytes), used_bytes()
        data = client.persist(make_lazy_rows(make_chunk, range(len(sizes)), sizes))
        wait(data)
        managed_before = client.run_on_scheduler(_count_managed_bytes)
        managed: list[int] = []
        moments = Moments(lambda _: managed.append(client.run_on_scheduler(_count_managed_bytes)))
        model = make_model().set_callbacks(moments).fit(*data)
        peaks = client.run(peak_bytes)
        traffic = Traffic.of(client)
        spans = [traffic.look_at(*pair)._asdict() for pair in zip(moments.moments, moments.moments[1:], strict=False)]
        return {
            "iteration_seconds": _iteration_seconds(model),
            "memory_bytes": sum(peaks.values()) - sum(base.values()),
            "managed_bytes": max(managed) - managed_before,
            "scheduler_memory_bytes": client.run_on_scheduler(peak_bytes) - scheduler_base,
            "client_memory_bytes": peak_bytes() - client_base,
            "label_free_error": model.history_[-1].label_free_error,
            "n_parts": len(sizes),
            "n_tasks": median(span["n_tasks"] for span in spans),
            "n_bytes": _take_medians([span["n_bytes"] for span in spans]),
            "cpu_seconds": _take_medians([span["cpu_seconds"] for span in spans]),
        }


def _count_managed_bytes(dask_scheduler: Any) -> int:
    """Return what Dask believes to have in the memory of all workers."""
    return sum(worker.nbytes for worker in dask_scheduler.workers.values())


def _take_medians(measured: list[dict[str, float]]) -> dict[str, float]:
    names = dict.fromkeys(name for one in measured for name in one)
    return {name: median(one.get(name, 0) for one in measured) for name in names}


def measure_refined(n_workers: int, batch_size: int) -> dict[str, Any]:
    """Refine MNIST for an epoch in memory and on workers; return the times of the epoch, and of processors in all."""
    from distributed import wait

    X, y = read_mnist_rows(0, 60_000)
    sizes = cut_evenly(len(X), n_workers)
    refiner = Refiner(1, batch_size=batch_size, weight_decay=0.1, linear_decay=1.0)
    model = make_model(n_components=500, max_iter=0, refine=refiner, n_jobs=n_workers)
    result: dict[str, dict[str, float]] = {"epoch_seconds": {}, "cpu_seconds": {}}
    with start_cluster(n_workers) as client:
        data = client.persist(make_lazy_rows(read_mnist_rows, [sizes[0] * part for part in range(len(sizes))], sizes))
        wait(data)
        for place, samples in {"memory": (X, y), "workers": data}.items():
            few = [array[: 2 * n_workers * TILE_ROWS] for array in samples]
            model.fit(*few)  # compiles
            cpu_start = _count_cpu_seconds(client)
            result["epoch_seconds"][place] = model.fit(*samples).refinement_[-1].seconds
            result["cpu_seconds"][place] = _count_cpu_seconds(client) - cpu_start
    return result


def _count_cpu_seconds(client: Any) -> float:
    """Return what client, scheduler and workers have used of processors."""
    return process_time() + client.run_on_scheduler(process_time) + sum(client.run(process_time).values())


def measure_mnist(n_workers: int) -> dict[str, Any]:
    """Fit MNIST in memory and on workers in turn; return the best times, and how models of the same parts differ."""
    from distributed import wait

    X, y = read_mnist_rows(0, 60_000)
    sizes = cut_evenly(len(X), n_workers)
    here, there = make_model(n_components=500, n_jobs=n_workers), make_model(n_components=500)
    with start_cluster(n_workers) as client:
        data = client.persist(make_lazy_rows(read_mnist_rows, [sizes[0] * part for part in range(len(sizes))], sizes))
        wait(data)
        fits = {"memory": partial(here.fit, X, y), "workers": partial(there.fit, *data)}
        times: dict[str, list[tuple[float, ...]]] = {place: [] for place in fits}
        for _ in range(N_REPEATS + 1):
            for place, fit in fits.items():
                start, cpu_start = perf_counter(), _count_cpu_seconds(client)
                model = fit()
                cpu_seconds = _count_cpu_seconds(client) - cpu_start
                times[place].append((perf_counter() - start, _iteration_seconds(model), cpu_seconds))
    with patch("ddlearn.fitting.data.PART_ROWS", sizes[0]):  # the sums in the same order
        here.fit(X, y)
    best = {place: np.min(taken[1:], axis=0).tolist() for place, taken in times.items()}  # the first compiles
    names = ("components_", "coef_", "intercept_", "class_cost_")
    return {
        "chunk_rows": sizes[0],
        **{
            name: {place: taken[position] for place, taken in best.items()}
            for position, name in enumerate(("fit_seconds", "iteration_seconds", "cpu_seconds"))
        },
        "largest_difference": max(float(np.abs(getattr(here, name) - getattr(there, name)).max()) for name in names),
    }


def measure_default(n_workers: int) -> dict[str, Any]:
    """Fit the digits of scikit-learn with all defaults, in memory and on workers in turn; return the best times."""
    import dask.array as da

    X, y = load_digits(return_X_y=True)
    rows = cut_evenly(len(X), n_workers)[0]
    times: dict[str, list[tuple[float, float]]] = {"memory": [], "workers": []}
    with start_cluster(n_workers):
        data = {"memory": (X, y), "workers": (da.from_array(X, chunks=(rows, -1)), da.from_array(y, chunks=rows))}
        for _ in range(N_REPEATS + 1):
            for place, samples in data.items():
                start = perf_counter()
                model = DDLClassifier(random_state=0).fit(*samples)
                times[place].append((perf_counter() - start, model.refinement_[-1].seconds))
    best = {place: np.min(taken[1:], axis=0).tolist() for place, taken in times.items()}  # the first compiles
    return {
        name: {place: taken[position] for place, taken in best.items()}
        for position, name in enumerate(("fit_seconds", "epoch_seconds"))
    }


def measure_keeping(n_rows: int, n_workers: int) -> dict[str, Any]:
    """Fit rows of workers that keep nothing, or a checkpoint, after each iteration."""
    from distributed import wait

    sizes = cut_evenly(n_rows, n_workers)
    result: dict[str, Any] = {"n_parts": len(sizes)}
    with start_cluster(n_workers) as client, TemporaryDirectory() as folder:
        start_counting()
        client.run(start_counting)
        client.run_on_scheduler(start_counting)
        data = client.persist(make_lazy_rows(make_chunk, range(len(sizes)), sizes))
        wait(data)
        make_model(max_iter=1).fit(*data)  # compiles
        for name, keepers in {"nothing": [], "checkpoint": [Checkpoint(f"{folder}/fit")]}.items():
            moments = Moments()
            make_model().set_callbacks(*keepers, moments).fit(*data)
            pairs = list(zip(moments.moments, moments.moments[1:], strict=False))
            spans = [Traffic.of(client).look_at(*pair) for pair in pairs]
            result[name] = {
                "iteration_seconds": median(end - start for start, end in pairs),
                "cpu_seconds": median(sum(span.cpu_seconds.values()) for span in spans),
                "scheduler_bytes": median(
                    sum(n_bytes for way, n_bytes in span.n_bytes.items() if "scheduler" in way) for span in spans
                ),
            }
    return result


MEASURES = {
    "default": measure_default,
    "keeping": measure_keeping,
    "memory": measure_in_memory,
    "workers": measure_on_workers,
    "mnist": measure_mnist,
    "refined": measure_refined,
}


if __name__ == "__main__":
    print(json.dumps(MEASURES[sys.argv[1]](**json.loads(sys.argv[2]))))
