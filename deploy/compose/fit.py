"""Fit samples that are made on the workers of a Dask cluster: python fit.py ADDRESS FOLDER [ROWS]."""

from __future__ import annotations

import os
import sys

import dask.array as da
import numpy as np
from dask.distributed import Client

from ddlearn import Checkpoint, DDLClassifier, save

N_CLASSES, N_FEATURES, CHUNK_ROWS = 4, 32, 16_384


def draw_chunk(block_info: dict) -> np.ndarray:
    """Return noisy copies of a pattern for each class; the same ones if a worker has to make them again."""
    (start, stop), _ = block_info[None]["array-location"]
    patterns = np.random.default_rng(0).standard_normal((N_CLASSES, N_FEATURES))
    rng = np.random.default_rng([1, start])
    return patterns[np.arange(start, stop) % N_CLASSES] + rng.standard_normal((stop - start, N_FEATURES))


def main(address: str, folder: str, n_rows: str = "200000") -> None:
    """Fit, save, and say how good the model is."""
    with Client(address) as client:
        client.wait_for_workers(1)
        y = da.arange(int(n_rows), chunks=CHUNK_ROWS) % N_CLASSES
        X = da.map_blocks(draw_chunk, chunks=(y.chunks[0], (N_FEATURES,)), dtype=float, meta=np.empty((0, 0)))
        # Killed and started again, the fit goes on where it was.
        checkpoint = Checkpoint(os.path.join(folder, "fit.checkpoint"), resume=True)
        model = DDLClassifier(n_components=64, random_state=0).set_callbacks(checkpoint).fit(X, y)
        save(model, os.path.join(folder, "model.safetensors"))
        print(f"{len(client.nthreads())} workers, {int(n_rows):,} rows: {model.score(X, y):.1%} correct")


if __name__ == "__main__":
    main(*sys.argv[1:])
