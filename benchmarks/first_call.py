"""How long a new process waits: import, then the first call; prints one line of JSON.

Imports nothing else before it starts the clock, as the user's process does not either.
"""

import json
import sys
from time import perf_counter


def main(dtype: str) -> None:
    start = perf_counter()
    from ddlearn import sparse_encode

    imported = perf_counter()
    import numpy as np

    X = np.random.default_rng(0).standard_normal((1000, 64)).astype(dtype)
    ready = perf_counter()
    sparse_encode(X, X[:200], n_nonzero_coefs=5)
    print(json.dumps({"import_seconds": imported - start, "call_seconds": perf_counter() - ready}))


if __name__ == "__main__":
    main(sys.argv[1])
