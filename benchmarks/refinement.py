"""What refinement costs: ``python -m benchmarks.refinement [--full]``.

An epoch beside the bare product of all samples with the atoms, which no coder can do without, and its parts; then whole
fits and predictions beside ``SVC(C=10)`` on the same samples of unit norm.  CPU seconds of one thread, so that other
jobs on the machine hardly matter.
"""

from __future__ import annotations

import argparse
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from time import process_time
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from reproduction.images import DATASETS, load_rows
from sklearn.svm import SVC
from threadpoolctl import threadpool_limits

from ddlearn import DDLClassifier, ElasticNet, Jitter, Refiner

from .elastic_net import draw_spectra
from .problems import normalise
from .report import write_results

N_EPOCHS = 5
MOST_SAMPLES = 10_000  # of an epoch
# The parts of an epoch, by what is called; what other parts in them take is theirs.
PARTS = {
    "coding kernel": ("ddlearn.coding.elastic_net.solve_elastic_net_rows",),
    "around it: workspace, checks": ("ddlearn.coding.encoder.Encoder.solve",),
    "product": ("ddlearn.coding.encoder.Encoder.encode_tile",),
    "Gram matrix": ("ddlearn.coding.encoder.compute_gram",),
    "adjoint on the support": ("ddlearn.refinement.backward.solve_support_rows",),
    "combinations of atoms": ("ddlearn.refinement.backward.combine_atoms",),
    "gradient of D and W": (
        "ddlearn.refinement.backward.add_gradient_rows",
        "ddlearn.refinement.backward.add_outer_rows",
        "ddlearn.refinement.backward.differentiate_scores_rows",
    ),
    "scores, cost and errors": (
        "ddlearn.refinement.backward.score_rows",
        "ddlearn.refinement.costs.OneVsAllCost.gradient",
        "ddlearn.refinement.costs.OneVsAllCost.value",
        "ddlearn.refinement.epochs.Task.count_errors",
    ),
    "Adam's step": ("ddlearn.refinement.adam.Adam.step",),
    "samples, and codes to start from": (
        "ddlearn.refinement.epochs.Task.prepare",
        "ddlearn.refinement.backward.keep_larger_half",
        "ddlearn.model.codes.RowCodes.rows",
    ),
    "distortion": ("ddlearn.refinement.epochs.Task.distort",),
    "validation": ("ddlearn.refinement.epochs.Refinement._record",),
    "the rest, in Python": ("ddlearn.refinement.epochs.Refinement.run_epoch",),
}
WANTED = {"usps": 10, "mnist": 8}  # the most products that an epoch should take
MNIST_RESULTS = "mnist_fit"  # a file of its own, which the short form keeps
GIVEN = {"weight_decay": 0.03, "linear_decay": 1.0}  # so that nothing is searched for


class Data(NamedTuple):
    """Samples of unit norm."""

    X_train: np.ndarray
    y_train: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray

    def head(self, n_samples: int) -> Data:
        """Return the same with fewer training samples."""
        return self._replace(X_train=self.X_train[:n_samples], y_train=self.y_train[:n_samples])


def load(name: str) -> Data:
    if name == "spectra":
        rng = np.random.default_rng(0)
        X, labels = draw_spectra(4000, 36, rng), rng.integers(6, size=4000)
        X += 0.05 * X.mean() * rng.standard_normal((6, 36))[labels]  # classes that overlap
        X = normalise(X).astype(np.float32)
        return Data(X[:3000], labels[:3000], X[3000:], labels[3000:])
    data = load_rows(name, 0)
    return Data(data.X_train, data.y_train, data.X_test, data.y_test)


def time_call(call: Callable[[], Any]) -> tuple[float, Any]:
    start = process_time()
    result = call()
    return process_time() - start, result


class Clock:
    """Adds up the CPU seconds of calls, each without those of the calls inside it."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self.inside = [0.0]

    def watch(self, part: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            self.inside.append(0.0)
            seconds, result = time_call(lambda: call(*args, **kwargs))
            self.seconds[part] += seconds - self.inside.pop()
            self.inside[-1] += seconds
            return result

        return timed


@contextmanager
def watch_parts() -> Iterator[Clock]:
    """Within the context, calls of all parts are timed; the clock belongs to one thread."""
    clock = Clock()
    with ExitStack() as stack:
        for part, names in PARTS.items():
            for name in names:
                stack.enter_context(patch(name, clock.watch(part, pkgutil.resolve_name(name))))
        yield clock


def measure_epoch(name: str, n_components: int, distorts: bool) -> dict[str, Any]:
    """Return the CPU seconds of an epoch after the first, and of its parts, over those of the bare product."""
    data, fit = load(name).head(MOST_SAMPLES), make_fit(name, n_components, distorts)
    fit(1)  # compiles
    with watch_parts() as few:
        short, _ = time_call(lambda: fit(1))
    with watch_parts() as many:
        long, model = time_call(lambda: fit(1 + N_EPOCHS))
    product = min(time_call(lambda: data.X_train @ model.components_.T)[0] for _ in range(5))
    return {
        "what": f"{name}, K={n_components}",
        "distorts": distorts,
        "wanted": WANTED[name],
        "seconds": (long - short) / N_EPOCHS,
        "ratio": (long - short) / N_EPOCHS / product,
        "parts": {part: (many.seconds[part] - few.seconds[part]) / N_EPOCHS / product for part in PARTS},
    }


def make_fit(name: str, n_components: int, distorts: bool) -> Callable[[int], DDLClassifier]:
    """Return a function that refines a dictionary of samples for so many epochs."""
    data = load(name).head(MOST_SAMPLES)
    jitter = Jitter(0.7, linear=0.84, elastic=0.3) if distorts else None
    options: dict[str, Any] = {"description": None, "max_iter": 0, "n_jobs": 1, "random_state": 0}
    if distorts:
        options["image_shape"] = DATASETS[name].image_shape

    def fit(n_epochs: int) -> DDLClassifier:
        refiner = Refiner(n_epochs, jitter=jitter, **GIVEN)
        coder = ElasticNet(0.1, l1_ratio=0.5)
        return DDLClassifier(n_components, sparse_coder=coder, refine=refiner, **options).fit(*data[:2])

    return fit


def measure_fit(name: str, label: str, wanted: float | None, model: DDLClassifier) -> dict[str, Any]:
    """Return the CPU seconds of fit and prediction over those of a support vector machine, and both errors."""
    data = load(name)
    peer = SVC(C=10)
    (fit, _), (peer_fit, _) = (time_call(lambda each=each: each.fit(*data[:2])) for each in (model, peer))
    model.predict(data.X_test[:10])
    (predict, ours), (peer_predict, theirs) = (
        time_call(lambda each=each: each.predict(data.X_test)) for each in (model, peer)
    )
    return {
        "what": f"{name}, {label}",
        "wanted": wanted,
        "fit_seconds": fit,
        "fit_over_svc": fit / peer_fit,
        "predict_faster_than_svc": peer_predict / predict,
        "error": float(np.mean(ours != data.y_test)),
        "svc_error": float(np.mean(theirs != data.y_test)),
    }


def measure_fits() -> Iterator[dict[str, Any]]:
    refiner = Refiner(20, **GIVEN)
    plain = {"n_components": 500, "sparse_coder": ElasticNet(0.1, l1_ratio=0.5), "max_iter": 3, "refine": refiner}
    common: dict[str, Any] = {"n_jobs": 1, "random_state": 0}
    for name in ("usps", "spectra"):
        yield measure_fit(name, "K=500, 20 epochs", 4, DDLClassifier(description=None, **plain, **common))
        yield measure_fit(name, "default", None, DDLClassifier(**common))
    accurate = DDLClassifier.from_preset("accurate", image_shape=(16, 16), **common)
    yield measure_fit("usps", "accurate, image_shape=(16, 16)", 30, accurate)


def measure_mnist() -> dict[str, Any]:
    settings: dict[str, Any] = {"n_components": 1500, "image_shape": (28, 28), "n_jobs": 1, "random_state": 0}
    return measure_fit("mnist", "accurate, K=1500", 1.5, DDLClassifier.from_preset("accurate", **settings))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.refinement", description=__doc__)
    parser.add_argument("--full", action="store_true", help="a fit of all of MNIST too")
    parser.add_argument("--mnist", action="store_true", help="that fit alone, which takes half an hour")
    parser.add_argument("--epochs", action="store_true", help="print the epochs of USPS only")
    options = parser.parse_args()
    problems = [("usps", 300), ("usps", 500), *([] if options.epochs else [("mnist", 400)])]
    results: dict[str, list[dict[str, Any]]] = {"epochs": [], "fits": []}
    with threadpool_limits(1):
        if options.full or options.mnist:
            write_results(MNIST_RESULTS, measure_mnist())
        if options.mnist:
            return
        for name, n_components in problems:
            for distorts in (False, True):
                results["epochs"].append(measure_epoch(name, n_components, distorts))
                print(results["epochs"][-1], flush=True)
        if options.epochs:
            return
        for row in measure_fits():
            results["fits"].append(row)
            print(row, flush=True)
    write_results("refinement", results)


if __name__ == "__main__":
    main()
