"""scikit-learn's handwritten digits through both coders of the paper: residuals, nonzeros and speed."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

import numpy as np
from scipy.sparse import csr_array
from sklearn.datasets import load_digits
from sklearn.linear_model import Ridge
from sklearn.preprocessing import normalize

from ddlearn import discriminative_encode, sparse_encode
from ddlearn.losses import LOSSES

N_ATOMS = 200
N_NONZERO_COEFS = 5
N_REPEATS = 5


def _time(encode: Callable) -> tuple[csr_array, float]:
    """Return the codes and the best of several times, the first call (which compiles) left out."""
    codes = encode()
    seconds = []
    for _ in range(N_REPEATS):
        start = perf_counter()
        encode()
        seconds.append(perf_counter() - start)
    return codes, min(seconds)


def _print_row(name: str, X: np.ndarray, atoms: np.ndarray, codes: csr_array, errors: float, seconds: float) -> None:
    residual = np.sum((X - codes @ atoms) ** 2, axis=1)
    print(f"{name:34}{residual.mean():10.4f}{codes.nnz / len(X):10.2f}{errors:12.1%}{len(X) / seconds:12,.0f}")


def main() -> None:
    """Code the digits and print residuals, nonzeros, training errors and speed."""
    X, y = load_digits(return_X_y=True)
    X = normalize(X)
    rng = np.random.default_rng(0)
    atoms = X[rng.choice(len(X), N_ATOMS, replace=False)]
    labels = np.where(y[:, None] == np.arange(10), 1.0, -1.0)

    print(f"{len(X)} digits of 8 x 8 pixels, {N_ATOMS} of them as atoms, at most {N_NONZERO_COEFS} atoms a digit\n")
    print(f"{'':34}{'residual':>10}{'nonzeros':>10}{'train error':>12}{'rows/s':>12}")
    traditional = {}
    for method in ("omp", "ormp"):

        def encode(method: str = method) -> csr_array:
            return sparse_encode(X, atoms, n_nonzero_coefs=N_NONZERO_COEFS, method=method, n_jobs=-1)

        traditional[method], seconds = _time(encode)
        classifier = Ridge(alpha=0.1).fit(traditional[method], labels)
        errors = np.mean(classifier.predict(traditional[method]).argmax(axis=1) != y)
        _print_row(f"traditional, {method}", X, atoms, traditional[method], errors, seconds)

    start = traditional["omp"]
    classifier = Ridge(alpha=0.1).fit(start, labels)
    noise_variance = np.maximum(np.sum((X - start @ atoms) ** 2, axis=1) / (X.shape[1] + 2), 1e-4)
    scores = classifier.predict(start)
    for name, loss_class in LOSSES.items():
        loss = loss_class()
        class_cost = loss.value(labels * scores).mean(axis=0)

        def encode(loss: object = loss, class_cost: np.ndarray = class_cost) -> csr_array:
            codes, _ = discriminative_encode(
                X,
                labels,
                atoms,
                classifier.coef_,
                classifier.intercept_,
                noise_variance=noise_variance,
                class_cost=class_cost,
                loss=loss,
                n_nonzero_coefs=N_NONZERO_COEFS,
                init_codes=start,
                n_jobs=-1,
            )
            return codes

        codes, seconds = _time(encode)
        errors = np.mean(classifier.predict(codes).argmax(axis=1) != y)
        _print_row(f"discriminative, {name}", X, atoms, codes, errors, seconds)
    print(
        "\nDiscriminative codes see the labels: their training error says how well they fit, not how they generalise."
    )


if __name__ == "__main__":
    main()
