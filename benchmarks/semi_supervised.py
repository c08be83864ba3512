"""Do unlabelled samples help? ``python -m benchmarks.semi_supervised`` tries it on digits."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
from sklearn.model_selection import train_test_split

from ddlearn import DDLClassifier

from .labelled import read_digits

RESULTS = Path(__file__).parent / "results" / "semi_supervised.json"
N_TRAINING = 1000
UNLABELED = -1


def measure(share: float, n_components: int | None, seed: int) -> tuple[float, float, float]:
    """Return the test accuracy with most labels hidden, with the labelled samples alone, and with all labels."""
    X, y = read_digits()
    X_train, X_test, y_train, y_test = train_test_split(X, y, train_size=N_TRAINING, stratify=y, random_state=seed)
    labelled, hidden = train_test_split(np.arange(N_TRAINING), train_size=share, stratify=y_train, random_state=seed)
    partly = y_train.copy()
    partly[hidden] = UNLABELED
    fits = ((X_train, partly), (X_train[labelled], y_train[labelled]), (X_train, y_train))
    models = [
        DDLClassifier(n_components, description=None, unlabeled=UNLABELED, n_jobs=-1, random_state=seed).fit(*data)
        for data in fits
    ]
    return tuple(model.score(X_test, y_test) for model in models)


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    n_splits = parser.parse_args().splits
    results = {}
    print("| labelled | atoms | labelled + unlabelled | labelled alone | all labelled | wins |")
    print("| --- | --- | --- | --- | --- | --- |")
    for share in (0.05, 0.1, 0.3):
        for n_components in (50, None):
            cells = np.array([measure(share, n_components, seed) for seed in range(n_splits)])
            results[f"{share} {n_components}"] = cells.tolist()
            wins = int(np.sum(cells[:, 0] > cells[:, 1]))
            numbers = " | ".join(
                f"{mean:.2%} ± {error:.2%}"
                for mean, error in zip(cells.mean(axis=0), cells.std(axis=0) / np.sqrt(n_splits), strict=True)
            )
            print(f"| {share:.0%} | {n_components or 'default'} | {numbers} | {wins} of {n_splits} |", flush=True)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
