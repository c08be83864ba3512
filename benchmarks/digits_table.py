"""Accuracy on scikit-learn's digits beside dictlearn's classifiers: ``python -m benchmarks.digits_table``.

Random splits of 1000 training images and dictionaries of the same size for all.  ddlearn runs with its defaults.  The
weights of dictlearn's label terms have defaults that do badly, so "tuned" chooses them by cross-validation on the
training images of each split.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
from reproduction.baseline import make_baseline
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split

from ddlearn import DDLClassifier

from .labelled import read_digits

RESULTS = Path(__file__).parent / "results" / "digits.json"
N_TRAINING = 1000
N_ATOMS = 500  # what DDLClassifier takes by default for 1000 samples
N_NONZERO_COEFS = 5
N_CLASSES = 10
LABEL_WEIGHTS = [0.1, 1.0, 10.0]


def make_dksvd(seed: int) -> BaseEstimator:
    from dictlearn.classification import DDLClassifier as DKSVD

    model = DKSVD(N_ATOMS, n_nonzero_coefs=N_NONZERO_COEFS, init_method="trained", max_iter=20, random_state=seed)
    return GridSearchCV(model, {"alpha": LABEL_WEIGHTS}, cv=3)


def make_untuned_dksvd(seed: int) -> BaseEstimator:
    from dictlearn.classification import DDLClassifier as DKSVD

    return DKSVD(N_ATOMS, n_nonzero_coefs=N_NONZERO_COEFS, random_state=seed)


def make_lcksvd(seed: int) -> BaseEstimator:
    from dictlearn.classification import LCDLClassifier

    model = LCDLClassifier(
        N_ATOMS // N_CLASSES,
        n_nonzero_coefs=N_NONZERO_COEFS,
        init_method="trained",
        max_iter=20,
        random_state=seed,
    )
    pairs = [{"alpha": [weight], "beta": [weight]} for weight in LABEL_WEIGHTS]  # all nine would take ten minutes
    return GridSearchCV(model, pairs, cv=3)


def make_untuned_lcksvd(seed: int) -> BaseEstimator:
    from dictlearn.classification import LCDLClassifier

    return LCDLClassifier(N_ATOMS // N_CLASSES, n_nonzero_coefs=N_NONZERO_COEFS, random_state=seed)


def make_dpl(seed: int) -> BaseEstimator:
    from dictlearn.classification import DPLClassifier

    model = DPLClassifier(N_ATOMS // N_CLASSES, max_iter=20, random_state=seed)
    return GridSearchCV(model, {"tau": [0.005, 0.05, 0.5], "theta": [0.0003, 0.003, 0.03]}, cv=3)


def make_untuned_dpl(seed: int) -> BaseEstimator:
    from dictlearn.classification import DPLClassifier

    return DPLClassifier(N_ATOMS // N_CLASSES, random_state=seed)


MODELS: dict[str, Callable[[int], BaseEstimator]] = {
    "ddlearn, all defaults": lambda seed: DDLClassifier(n_jobs=-1, random_state=seed),
    "K-SVD, then classifiers (reproduction.baseline)": lambda seed: make_baseline(
        N_ATOMS, n_jobs=-1, random_state=seed
    ),
    "the same with OMP and the logistic loss": lambda seed: make_baseline(
        N_ATOMS, loss="logistic", sparse_coder="omp", n_jobs=-1, random_state=seed
    ),
    "D-KSVD (dictlearn), its defaults": make_untuned_dksvd,
    "LC-KSVD (dictlearn), its defaults": make_untuned_lcksvd,
    "DPL (dictlearn), its defaults": make_untuned_dpl,
    "D-KSVD (dictlearn), tuned": make_dksvd,
    "LC-KSVD (dictlearn), tuned": make_lcksvd,
    "DPL (dictlearn), tuned": make_dpl,
    "logistic regression on the pixels (C=100)": lambda seed: LogisticRegression(C=100, max_iter=1000),
}


def measure(make: Callable[[int], BaseEstimator], seed: int) -> tuple[float, float]:
    """Return test accuracy and seconds to fit (with the search, where there is one) on one split."""
    X, y = read_digits()
    X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=N_TRAINING, stratify=y, random_state=seed)
    start = perf_counter()
    model = make(seed).fit(X_train, y_train)
    return float(np.mean(model.predict(X_test) == y_test)), perf_counter() - start


def main() -> None:
    """Measure all models on all splits and print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0, help="seed of the first split")
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    arguments = parser.parse_args()
    n_splits = arguments.splits
    seeds = range(arguments.first_seed, arguments.first_seed + n_splits)
    results = {name: [measure(MODELS[name], seed) for seed in seeds] for name in arguments.models}
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1))
    print(f"| {n_splits} splits, {N_TRAINING} training images | correct (%) | deviation | seconds to fit |")
    print("| --- | --- | --- | --- |")
    for name, cells in results.items():
        accuracy, seconds = np.array(cells).T
        print(f"| {name} | {100 * accuracy.mean():.2f} | {100 * accuracy.std():.2f} | {seconds.mean():.2f} |")


if __name__ == "__main__":
    main()
