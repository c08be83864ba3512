"""Elastic-net codes in many regimes beside SPAMS, worst first: ``python -m benchmarks.elastic_net``.

Sizes, likeness of the atoms and penalties vary.  ``spams.lasso`` takes no more atoms into a code than there are
features and then stops, far from the solution where a ridge lets more share in it; so it is also given the ridge as
further features of the atoms, ``[D, sqrt(ridge) I]``, with which it solves the same problem.

CPU time of one thread, products with the atoms and their Gram matrix included, best of several rounds in turn.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ddlearn import ElasticNet, sparse_encode

from .problems import Floats, Penalty, Problem, find_data_folder, grade, make_blobs, make_problem, normalise
from .run import RESULTS

TOL = {"float64": 1e-6, "float32": 1e-4}  # largest relative gap
N_ROUNDS = 3


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


REGIMES = [
    Regime("spectra", 36, 500, draw_spectra),
    Regime("spectra", 36, 2000, draw_spectra),
    Regime("spectra", 150, 500, draw_spectra),
    Regime("standardised spectra", 36, 500, draw_standardised),
    Regime("standardised spectra", 150, 500, draw_standardised),
    Regime("images", 64, 300, draw_images),
    Regime("images", 256, 500, draw_images),
    Regime("images", 256, 2000, draw_images),
    Regime("noise", 36, 500, draw_noise),
    Regime("noise", 256, 500, draw_noise),
]
PENALTIES = {f"{alpha:g}, ratio {ratio:g}": Penalty(alpha * ratio, alpha * (1 - ratio))
             for ratio in (0.5, 1.0) for alpha in (0.1, 0.01, 0.001)}  # fmt: skip
REAL = ("usps-300-net", "usps-1000-net", "mnist-500-net")


def make_problems(n_samples: int, is_quick: bool) -> Iterator[tuple[str, Problem]]:
    """Yield the problems by name, the real ones if there are any."""
    for regime in REGIMES[:1] if is_quick else REGIMES:
        rng = np.random.default_rng(0)
        rows = normalise(regime.draw(n_samples + regime.n_components, regime.n_features, rng))
        for name, penalty in PENALTIES.items():
            label = f"{regime.name}, M={regime.n_features}, K={regime.n_components}, {name}"
            yield label, Problem(rows[:n_samples], rows[n_samples:], regime.n_components, penalty)
    if not is_quick and (folder := find_data_folder()) is not None:
        for name in REAL:
            yield name, make_problem(name, folder=folder).head(n_samples)


def prepare_ours(problem: Problem, penalty: Penalty, tol: float) -> Callable[[], Any]:
    alpha = penalty.lasso + penalty.ridge
    coder = ElasticNet(alpha, l1_ratio=penalty.lasso / alpha, tol=tol)
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
    return lambda: spams.lasso(X, dictionary, **options).T


def measure(name: str, problem: Problem, dtype: str) -> dict[str, Any]:
    """Return times in microseconds a sample, gaps, and how many times as fast we are."""
    penalty = problem.penalty
    assert penalty is not None
    problem = Problem(problem.X.astype(dtype), problem.dictionary.astype(dtype), problem.n_nonzero_coefs, penalty)
    runs = {"ours": prepare_ours(problem, penalty, TOL[dtype]), "spams": prepare_spams(problem, penalty, False)}
    if penalty.ridge > 0:
        runs["spams, same problem"] = prepare_spams(problem, penalty, True)
    grades = {key: grade(problem, run()) for key, run in runs.items()}
    seconds = dict.fromkeys(runs, np.inf)
    for _ in range(N_ROUNDS):
        for key, run in runs.items():
            start = process_time()
            run()
            seconds[key] = min(seconds[key], process_time() - start)
    solved = [key for key in runs if key != "ours" and grades[key].largest_gap <= 10 * TOL[dtype]]
    return {
        "problem": name,
        "dtype": dtype,
        "microseconds": {key: 1e6 * value / len(problem.X) for key, value in seconds.items()},
        "gap": {key: value.largest_gap for key, value in grades.items()},
        "nonzeros": {key: value.mean_nonzeros for key, value in grades.items()},
        "ratio": min(seconds[key] for key in solved or runs) / seconds["ours"] if solved else None,
        "ratio_to_unsolved": seconds["spams"] / seconds["ours"],
    }


def format_row(cell: dict[str, Any]) -> str:
    times, gap, nonzeros = cell["microseconds"], cell["gap"], cell["nonzeros"]
    ratio = "-" if cell["ratio"] is None else f"{cell['ratio']:.1f}"
    columns = (
        *(cell["problem"], cell["dtype"], ratio, f"{times['ours']:.0f}", f"{times['spams']:.0f}"),
        *(
            f"{cell['ratio_to_unsolved']:.1f}",
            f"{gap['spams']:.0e}",
            f"{nonzeros['ours']:.0f} / {nonzeros['spams']:.0f}",
        ),
    )
    return f"| {' | '.join(columns)} |"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.elastic_net", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one regime only, for a look")
    parser.add_argument("--dtypes", nargs="+", choices=list(TOL), default=list(TOL))
    options = parser.parse_args()
    cells = []
    with threadpool_limits(1):
        for name, problem in make_problems(100 if options.quick else 400, options.quick):
            for dtype in options.dtypes:
                cells.append(measure(name, problem, dtype))
                print(format_row(cells[-1]), flush=True)
    cells.sort(key=lambda cell: np.inf if cell["ratio"] is None else cell["ratio"])
    print("\nWorst first: how many times as fast as SPAMS at the same gap.\n")
    head = "same gap | ours (us) | spams.lasso (us) | ratio to it | its gap | nonzeros, ours / its"
    print(f"| problem | dtype | {head} |\n|{' --- |' * 8}")
    print("\n".join(map(format_row, cells)))
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "elastic_net.json").write_text(json.dumps(cells, indent=2) + "\n")


if __name__ == "__main__":
    main()
