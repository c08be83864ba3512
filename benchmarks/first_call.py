"""How long a new process waits: import, first prediction of a model file, first coding; prints a line of JSON.

Imports nothing else before it starts the clock, as the user's process does not either.
"""

import json
import sys
from time import perf_counter


def main(dtype: str, model_file: str) -> None:
    start = perf_counter()
    from ddlearn import load, sparse_encode

    imported = perf_counter()
    import numpy as np

    X = np.random.default_rng(0).standard_normal((1000, 64)).astype(dtype)
    ready = perf_counter()
    load(model_file).predict(X[:1])
    predicted = perf_counter()
    sparse_encode(X, X[:200], n_nonzero_coefs=5)
    times = {
        "import_seconds": imported - start,
        "predict_seconds": predicted - ready,
        "call_seconds": perf_counter() - predicted,
    }
    print(json.dumps(times))


if __name__ == "__main__":
    main(*sys.argv[1:])
