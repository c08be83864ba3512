"""Outer iterations beside dictlearn and beside K-SVD + logistic regression: ``python -m benchmarks.fit [--full]``.

Every contender runs in its own process, compiled before it is timed.  The time of one outer iteration is the
difference of two fits, so that what each does once, at the start and at the end, does not count.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from .labelled import Labelled, training_part
from .report import write_results

N_JOBS = 2
N_REPEATS = 3
# name: data set, atoms, nonzeros
SIZES = {"usps-300-3": ("usps", 300, 3), "mnist-500-5": ("mnist", 500, 5), "yale-600-20": ("yale", 600, 20)}
SCALING_ROWS = (5_000, 50_000, 500_000)
# The models of the paper: joint learning with codes of T atoms.
JOINT: dict[str, Any] = {"description": None, "sparse_coder": "ormp", "refine": None, "tol": 0, "random_state": 0}


def _fit_ddlearn(data: Labelled, n_components: int, n_nonzero_coefs: int, max_iter: int, **settings: Any) -> None:
    from ddlearn import DDLClassifier

    how = {"n_nonzero_coefs": n_nonzero_coefs, "max_iter": max_iter, "n_jobs": N_JOBS}
    DDLClassifier(n_components, **JOINT, **how, **settings).fit(*data)


def _fit_dksvd(data: Labelled, n_components: int, n_nonzero_coefs: int, max_iter: int) -> None:
    from dictlearn.classification import DDLClassifier

    DDLClassifier(n_components, n_nonzero_coefs=n_nonzero_coefs, max_iter=max_iter, random_state=0).fit(*data)


def _fit_lcksvd(data: Labelled, n_components: int, n_nonzero_coefs: int, max_iter: int) -> None:
    from dictlearn.classification import LCDLClassifier

    n_classes = len(np.unique(data.y))
    LCDLClassifier(n_components // n_classes, n_nonzero_coefs=n_nonzero_coefs, max_iter=max_iter, random_state=0).fit(
        *data
    )


def _fit_ksvd_regression(data: Labelled, n_components: int, n_nonzero_coefs: int, max_iter: int) -> None:
    from ddlearn import KSVD

    ksvd = KSVD(n_components, n_nonzero_coefs=n_nonzero_coefs, max_iter=max_iter, tol=0, n_jobs=N_JOBS, random_state=0)
    make_pipeline(ksvd, LogisticRegression(max_iter=200)).fit(*data)


def _iteration_seconds(
    fit: Callable[..., None], few: int, many: int, **settings: Any
) -> Callable[..., dict[str, float]]:
    """Return what measures an iteration of ``fit`` as the difference of two fits."""

    def measure(data: Labelled, n_components: int, n_nonzero_coefs: int) -> dict[str, float]:
        small = data.take(max(1000, 3 * len(np.unique(data.y))))
        fit(small, min(n_components, 100), n_nonzero_coefs, few, **settings)  # compile
        times = {few: np.inf, many: np.inf}
        for _ in range(N_REPEATS if len(data.y) < 20_000 else 1):
            for max_iter in times:
                start = perf_counter()
                fit(data, n_components, n_nonzero_coefs, max_iter, **settings)
                times[max_iter] = min(times[max_iter], perf_counter() - start)
        return {"iteration": (times[many] - times[few]) / (many - few)}

    return measure


def _measure_products(data: Labelled, n_components: int, n_nonzero_coefs: int) -> dict[str, float]:
    """Time the bare product D^T Y, all BLAS threads."""
    dictionary = data.X[:n_components].copy()
    seconds = []
    for _ in range(5):
        start = perf_counter()
        data.X @ dictionary.T
        seconds.append(perf_counter() - start)
    return {"iteration": min(seconds)}


def _measure_memory(data: Labelled, n_components: int, n_nonzero_coefs: int) -> dict[str, float]:
    """Return the peak of memory beyond data and codes, logistic loss, as a share of the data."""
    how: dict[str, Any] = {"loss": "logistic", "max_iter": 2}  # two iterations reach the peak
    _fit_ddlearn(data.take(1000), n_components, n_nonzero_coefs, **how)  # compile
    extra = measure_peak(lambda: _fit_ddlearn(data, n_components, n_nonzero_coefs, **how))
    codes = len(data.y) * n_nonzero_coefs * (4 + data.X.itemsize)
    return {"memory": (extra - codes) / data.X.nbytes, "data_bytes": data.X.nbytes}


def measure_peak(work: Callable[[], object]) -> int:
    """Return the bytes that a call adds to resident memory at its peak, those of Numba and BLAS too (Linux)."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what earlier calls have freed must not serve this one unseen
    Path("/proc/self/clear_refs").write_text("5")  # the peak is the present from here on
    before = _read_memory("VmRSS")
    work()
    return _read_memory("VmHWM") - before


def _read_memory(name: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(name))


def _encode(data: Labelled, n_components: int, n_nonzero_coefs: int) -> tuple[Any, Any]:
    """Return first atoms, and codes to update them with."""
    from ddlearn import OMP
    from ddlearn.coding.encoder import Encoder
    from ddlearn.dictionary import init_dictionary

    dictionary = init_dictionary("samples", data.X, data.y, n_components, np.random.RandomState(0))
    return dictionary, Encoder.of(dictionary, OMP(), n_nonzero_coefs, N_JOBS).encode(data.X, n_jobs=N_JOBS)


def _measure_sweep(data: Labelled, n_components: int, n_nonzero_coefs: int) -> dict[str, float]:
    """Time one approximate K-SVD sweep of ours, one thread."""
    from ddlearn import KSVDUpdate

    dictionary, codes = _encode(data, n_components, n_nonzero_coefs)
    update, precision = KSVDUpdate(), np.ones(len(data.y), data.X.dtype)
    seconds = []
    for _ in range(6):
        start = perf_counter()
        update.update(data.X, codes, dictionary, precision, n_jobs=1)
        seconds.append(perf_counter() - start)
    return {"iteration": min(seconds)}


def _measure_dictlearn_sweep(data: Labelled, n_components: int, n_nonzero_coefs: int) -> dict[str, float]:
    """Time one approximate K-SVD sweep of dictlearn on the same codes."""
    from dictlearn._update._aksvd import aksvd_update_atom
    from dictlearn._update._driver import atom_sweep  # what DictionaryLearning(fit_algorithm="aksvd") runs
    from dictlearn._update._ops import LinearOps

    dictionary, codes = _encode(data, n_components, n_nonzero_coefs)
    dense = codes.to_csr(n_components).toarray().T.copy()
    samples, atoms = data.X.T.astype(np.float64).copy(), dictionary.T.astype(np.float64).copy()
    seconds = []
    for _ in range(3):
        arguments = samples.copy(), atoms.copy(), dense.copy()
        start = perf_counter()
        atom_sweep(*arguments, ops=LinearOps(), update_atom=aksvd_update_atom, rng=np.random.default_rng(0))
        seconds.append(perf_counter() - start)
    return {"iteration": min(seconds)}


CONTENDERS: dict[str, Callable[[Labelled, int, int], dict[str, float]]] = {
    "product": _measure_products,
    "ddlearn (square)": _iteration_seconds(_fit_ddlearn, 1, 6, loss="square"),
    "ddlearn (logistic)": _iteration_seconds(_fit_ddlearn, 1, 6, loss="logistic"),
    "D-KSVD (dictlearn)": _iteration_seconds(_fit_dksvd, 1, 3),
    "LC-KSVD (dictlearn)": _iteration_seconds(_fit_lcksvd, 1, 3),
    "K-SVD, then logistic regression": _iteration_seconds(_fit_ksvd_regression, 1, 6),
    "K-SVD sweep (ddlearn)": _measure_sweep,
    "AK-SVD sweep (dictlearn)": _measure_dictlearn_sweep,
    "memory": _measure_memory,
}
SHORT_CONTENDERS = ("product", "ddlearn (square)", "ddlearn (logistic)", "D-KSVD (dictlearn)")
# What the short form measures of each size.
SHORT = {
    "usps-300-3": (*SHORT_CONTENDERS, "K-SVD sweep (ddlearn)", "AK-SVD sweep (dictlearn)", "memory"),
    "yale-600-20": (*SHORT_CONTENDERS, "memory"),
    "mnist-500-5": ("memory",),
}


def make_synthetic(n_samples: int) -> Labelled:
    """Return sparse combinations of random atoms, with the class of the first one, for the scaling of cost with N."""
    rng = np.random.default_rng(0)
    atoms = rng.standard_normal((100, 64)).astype(np.float32)
    owners = rng.integers(100, size=(n_samples, 3))
    X = atoms[owners].sum(axis=1) + 0.1 * rng.standard_normal((n_samples, 64), dtype=np.float32)
    return Labelled(X, owners[:, 0] % 10)


def measure_scaling() -> dict[str, float]:
    """Return seconds per row and outer iteration for growing numbers of rows."""
    measure = _iteration_seconds(_fit_ddlearn, 1, 4)
    return {str(n): measure(make_synthetic(n), 100, 3)["iteration"] / n for n in SCALING_ROWS}


def _measure_in_process(*arguments: str) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.fit", "--worker", *arguments]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        print(f"{' '.join(arguments)} failed: {run.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return {}
    return json.loads(run.stdout)


def main() -> None:
    """Measure everything, or one contender on one size as a worker."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--worker", nargs=2, metavar=("CONTENDER", "SIZE"), help=argparse.SUPPRESS)
    parser.add_argument("--full", action="store_true", help="MNIST, all contenders and growing numbers of rows too")
    options = parser.parse_args()
    if options.worker:
        contender, size = options.worker
        name, n_components, n_nonzero_coefs = SIZES[size]
        data = training_part(name)
        data = Labelled(data.X.astype(np.float64), data.y)
        print(json.dumps(CONTENDERS[contender](data, n_components, n_nonzero_coefs)))
        return
    plan = dict.fromkeys(SIZES, tuple(CONTENDERS)) if options.full else SHORT
    results: dict[str, Any] = {"sizes": {size: {} for size in plan}}
    for size, contenders in plan.items():
        for contender in contenders:
            results["sizes"][size][contender] = _measure_in_process(contender, size)
            print(size, contender, results["sizes"][size][contender], flush=True)
    if options.full:
        results["scaling"] = measure_scaling()
        print(results["scaling"])
    write_results("fit", results)


if __name__ == "__main__":
    main()
