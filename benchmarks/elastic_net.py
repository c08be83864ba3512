"""Elastic-net codes in many regimes beside SPAMS, worst first: ``python -m benchmarks.elastic_net [--full]``.

Sizes, likeness of the atoms and penalties vary.  ``spams.lasso`` takes no more atoms into a code than there are
features and then stops, far from the solution where a ridge lets more share in it; so it is also given the ridge as
further features of the atoms, ``[D, sqrt(ridge) I]``, with which it solves the same problem.

CPU time of one thread, products with the atoms and their Gram matrix included, best of several rounds in turn.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ddlearn import ElasticNet, sparse_encode

from .problems import Floats, Penalty, Problem, find_data_folder, grade, make_blobs, make_problem, normalise
from .report import write_results
from .targets import GAPS

N_ROUNDS, ROUND_SECONDS = 3, 1.0  # the most rounds; none begins after so long


class Regime(NamedTuple):
    """A family of samples and atoms."""

    name: str
    n_features: int
    n_components: int
    draw: Callable[[int, int, np.random.Generator], Floats]  # from the number of rows and that of features


def draw_spectra(n_rows: int, n_features: int, rng: np.random.Generator) -> Floats:
    """Return positive mixtures of four profiles with noise, all much alike: their Gram matrix has nearly rank four."""
    profiles = 0.5 + rng.uniform(size=(4, n_features))
    mixtures = rng.gamma(2, size=(n_rows, 4)) @ profiles
    return np.maximum(mixtures + 0.02 * mixtures.mean() * rng.standard_normal(mixtures.shape), 0)


def draw_standardised(n_rows: int, n_features: int, rng: np.random.Generator) -> Floats:
    """Return the same, standardised."""
    spectra = draw_spectra(n_rows, n_features, rng)
    return (spectra - spectra.mean(axis=0)) / spectra.std(axis=0)


def draw_images(n_rows: int, n_features: int, rng: np.random.Generator) -> Floats:
    """Return smooth images."""
    side = round(np.sqrt(n_features))
    return make_blobs(n_rows, (side, side), rng)


def draw_noise(n_rows: int, n_features: int, rng: np.random.Generator) -> Floats:
    """Return samples that point in all directions."""
    return rng.standard_normal((n_rows, n_features))


# Each with all penalties; the short form has the first ones, with some.
REGIMES = [
    Regime("spectra", 36, 500, draw_spectra),
    Regime("standardised spectra", 36, 500, draw_standardised),
    Regime("images", 256, 500, draw_images),
    Regime("noise", 256, 500, draw_noise),
    Regime("spectra", 36, 2000, draw_spectra),
    Regime("spectra", 150, 500, draw_spectra),
    Regime("standardised spectra", 150, 500, draw_standardised),
    Regime("images", 64, 300, draw_images),
    Regime("images", 256, 2000, draw_images),
    Regime("noise", 36, 500, draw_noise),
]
N_SHORT = 4
ALPHAS, RATIOS = (0.1, 0.01, 0.001), (0.5, 1.0)
# Real images: the name in ``problems``, and penalties in place of its own, weak ones for faces.
REAL: list[tuple[str, tuple[float, ...]]] = [
    ("usps-300-net", ()),
    ("usps-1000-net", ()),
    ("mnist-500-net", ()),
    ("usps-2000-net", ()),
    ("yale-600-5", (0.01, 0.001)),
]


def make_penalty(alpha: float, ratio: float) -> Penalty:
    return Penalty(alpha * ratio, alpha * (1 - ratio))


def make_problems(n_samples: int, is_full: bool) -> Iterator[tuple[str, Problem]]:
    """Yield the problems by name, the real ones if there are any."""
    for regime in REGIMES if is_full else REGIMES[:N_SHORT]:
        rng = np.random.default_rng(0)
        n_rows = max(n_samples, regime.n_components)  # or the Gram matrix takes most of the time
        rows = normalise(regime.draw(n_rows + regime.n_components, regime.n_features, rng))
        name = f"{regime.name}, M={regime.n_features}, K={regime.n_components}"
        problem = Problem(rows[:n_rows], rows[n_rows:], regime.n_components)
        yield from vary_penalty(name, problem, is_full or regime is REGIMES[0])
    if (folder := find_data_folder()) is not None:
        for name, alphas in REAL:
            problem = make_problem(name, folder=folder)
            if not alphas:
                yield name, problem
            faces = problem.head(n_samples)
            for alpha in alphas:
                yield f"{name[:8]}, {alpha:g}, ratio 0.5", replace(faces, penalty=make_penalty(alpha, 0.5))


def vary_penalty(name: str, problem: Problem, has_all: bool) -> Iterator[tuple[str, Problem]]:
    """Yield a problem with several penalties, and with codes that may not be negative."""
    for ratio in RATIOS:
        for alpha in ALPHAS if has_all or ratio < 1 else ALPHAS[1:2]:
            yield f"{name}, {alpha:g}, ratio {ratio:g}", replace(problem, penalty=make_penalty(alpha, ratio))
    positive = replace(problem, penalty=make_penalty(ALPHAS[1], RATIOS[0]), is_positive=True)
    yield f"{name}, {ALPHAS[1]:g}, ratio {RATIOS[0]:g}, positive", positive


def prepare_ours(problem: Problem, penalty: Penalty, tol: float) -> Callable[[], Any]:
    alpha = penalty.lasso + penalty.ridge
    coder = ElasticNet(alpha, l1_ratio=penalty.lasso / alpha, positive=problem.is_positive, tol=tol)
    n_components = len(problem.dictionary)
    return lambda: sparse_encode(problem.X, problem.dictionary, method=coder, n_nonzero_coefs=n_components)


def prepare_spams(problem: Problem, penalty: Penalty, augments: bool) -> Callable[[], Any]:
    import spams

    X, dictionary, ridge = problem.X, problem.dictionary, penalty.ridge
    if augments:
        n_components, dtype = len(dictionary), X.dtype
        X = np.hstack([X, np.zeros((len(X), n_components), dtype)])
        dictionary = np.hstack([dictionary, dtype.type(np.sqrt(ridge)) * np.eye(n_components, dtype=dtype)])
        ridge = 0.0
    X, dictionary = np.asfortranarray(X.T), np.asfortranarray(dictionary.T)
    options = {"lambda1": penalty.lasso, "lambda2": ridge, "mode": 2, "L": dictionary.shape[1], "numThreads": 1}
    options["pos"] = problem.is_positive
    return lambda: spams.lasso(X, dictionary, **options).T


def measure(name: str, problem: Problem, dtype: str) -> dict[str, Any]:
    """Return times in microseconds a sample, gaps, and how many times as fast we are."""
    penalty, tol = problem.penalty, GAPS[dtype]
    assert penalty is not None
    problem = replace(problem, X=problem.X.astype(dtype), dictionary=problem.dictionary.astype(dtype))
    runs = {"ours": prepare_ours(problem, penalty, tol), "spams": prepare_spams(problem, penalty, False)}
    if penalty.ridge > 0:
        runs["spams, same problem"] = prepare_spams(problem, penalty, True)
    grades = {key: grade(problem, run()) for key, run in runs.items()}
    seconds = {key: measure_best(run) for key, run in runs.items()}
    solved = [key for key in runs if key != "ours" and grades[key].largest_gap <= 10 * tol]
    return {
        "problem": name,
        "dtype": dtype,
        "microseconds": {key: 1e6 * value / len(problem.X) for key, value in seconds.items()},
        "gap": {key: value.largest_gap for key, value in grades.items()},
        "nonzeros": {key: value.mean_nonzeros for key, value in grades.items()},
        "ratio": min(seconds[key] for key in solved) / seconds["ours"] if solved else None,
        "ratio_to_unsolved": seconds["spams"] / seconds["ours"],
    }


def measure_best(run: Callable[[], Any]) -> float:
    """Return the CPU seconds of the fastest of some rounds."""
    times: list[float] = []
    while len(times) < N_ROUNDS and sum(times) < ROUND_SECONDS:
        start = process_time()
        run()
        times.append(process_time() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.elastic_net", description=__doc__)
    parser.add_argument("--full", action="store_true", help="all regimes, penalties and precisions")
    options = parser.parse_args()
    cells = []
    with threadpool_limits(1):
        for name, problem in make_problems(400, options.full):
            for dtype in GAPS if options.full or not name.startswith(("images", "noise")) else ["float64"]:
                cells.append(measure(name, problem, dtype))
                print(cells[-1], flush=True)
    write_results("elastic_net", cells)


if __name__ == "__main__":
    main()
