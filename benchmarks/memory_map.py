"""How much memory a fit of a memory-mapped file takes: ``python -m benchmarks.memory_map 2000000``."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

# What a process of its own does with a file: its memory beyond the page cache, before and at most.
MEASURE = """
import re, sys, threading, time
import numpy as np
from ddlearn import DDLClassifier

path, update = sys.argv[1:]
X = np.load(path, mmap_mode="r")
y = np.arange(len(X)) % 10
how = {"sparse_coder": "ormp", "refine": "classifiers", "random_state": 0, "n_jobs": 2}
model = DDLClassifier(50, max_iter=2, tol=0, dictionary_update=update, **how)
model.fit(np.asarray(X[:2000]), y[:2000])  # compiled


def get_anonymous_bytes():
    with open("/proc/self/status") as status:
        return 1024 * int(re.search(r"RssAnon:\\s+(\\d+)", status.read())[1])


def watch():
    while not is_done.is_set():
        memory.append(get_anonymous_bytes())
        time.sleep(0.005)


memory, is_done = [get_anonymous_bytes()], threading.Event()
watcher = threading.Thread(target=watch)
watcher.start()
model.fit(X, y)
model.predict(X)
is_done.set()
watcher.join()
print(max(memory) - memory[0])
"""


def measure_memory(path: Path, n_samples: int, update: str) -> int:
    """Return by how many bytes, beyond the page cache, the memory of a process grows in a fit and a prediction."""
    rng = np.random.default_rng(0)
    X = np.lib.format.open_memmap(path, "w+", np.float32, (n_samples, 256))
    for start in range(0, n_samples, 10_000):
        X[start : start + 10_000] = rng.standard_normal(X[start : start + 10_000].shape, np.float32)
    del X
    result = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path), update], capture_output=True, text=True, check=True
    )
    return int(result.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n_samples", type=int, help="rows of 256 numbers in float32, which are 1 kB each on the disk")
    parser.add_argument("--update", default="block_coordinate", help="the dictionary update")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        n_bytes = measure_memory(Path(folder, "X.npy"), arguments.n_samples, arguments.update)
    print(f"{arguments.n_samples:,} samples, {arguments.update}: {n_bytes / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
