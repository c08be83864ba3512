"""Run the tests marked ``bitwise`` with several of OpenBLAS's kernels, which round differently.

``python tests/every_blas.py Haswell`` runs them with the kernels for processors with AVX2; ``--threads 1 2`` with one
and with two BLAS threads.  Kernels that this processor cannot run, or whose like was there before, are left out, and
those of NumPy's default setting, with which all tests run anyway, unless threads are named.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

# What NumPy multiplies with: nothing if it is not OpenBLAS, and an illegal instruction if the processor lacks it.
_PROBE = """
import numpy, threadpoolctl
assert (numpy.ones((50, 50)) @ numpy.ones((50, 50)))[0, 0] == 50
found = [blas for blas in threadpoolctl.threadpool_info() if blas["internal_api"] == "openblas"]
print(found[0]["architecture"] if found else "")
"""
_TESTS = ["pytest", "-q", "-m", "bitwise", "--numprocesses", "2", "--dist", "loadfile"]


def find_architecture(settings: dict[str, str]) -> str:
    """Return the name of the kernels that NumPy has with these environment variables, or nothing."""
    probe = subprocess.run([sys.executable, "-c", _PROBE], env=settings, capture_output=True, text=True)
    return probe.stdout.strip() if probe.returncode == 0 else ""


def main() -> int:
    """Return the number of runs that failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="+", help="values of OPENBLAS_CORETYPE")
    parser.add_argument("--threads", nargs="+", default=[], help="values of OPENBLAS_NUM_THREADS")
    options = parser.parse_args()
    seen = {""} if options.threads else {"", find_architecture(dict(os.environ))}
    n_failed = 0
    for kernel in options.kernels:
        settings = os.environ | {"OPENBLAS_CORETYPE": kernel}
        architecture = find_architecture(settings)
        if architecture in seen:
            print(f"{kernel}: left out, as this machine has no such kernels or has just run them", flush=True)
            continue
        seen.add(architecture)
        for threads in options.threads or [None]:
            chosen = settings | ({} if threads is None else {"OPENBLAS_NUM_THREADS": threads})
            print(f"{kernel}, BLAS threads: {threads or 'as they are'}", flush=True)
            n_failed += subprocess.run([sys.executable, "-m", *_TESTS], env=chosen).returncode != 0
    return n_failed


if __name__ == "__main__":
    sys.exit(main())
