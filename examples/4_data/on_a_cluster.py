"""
On a cluster, from files
========================

When samples lie in many files, or are too many for one machine, ``fit`` takes Dask
arrays: each chunk of rows stays on a worker, and only the dictionary, the classifiers
and sums over the samples travel.  This example goes the whole way on one machine: parts
on disk, lazy arrays, a fit on two workers, lazy predictions, the score.  Then it
compares the model with that of the same samples in memory.

On a real cluster only one line changes, the client: :doc:`/cluster`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
from dask.distributed import Client

from ddlearn import DDLClassifier
from ddlearn.datasets import make_planted

# %%
# Parts on disk
# -------------
#
# Samples that are sparse in a known dictionary, in eight files of 2,048 rows, and their
# classes in eight more; the last two are for the test.  Think of them as made by
# somebody who never had all of them at once.

N_PARTS, PART_ROWS = 8, 2048
planted = make_planted(
    N_PARTS * PART_ROWS, 64, 60, 5, n_nonzero_coefs=4, noise=0.1, random_state=0
)
folder = tempfile.TemporaryDirectory()
for part in range(N_PARTS):
    rows = slice(part * PART_ROWS, (part + 1) * PART_ROWS)
    split = "train" if part < N_PARTS - 2 else "test"
    np.save(Path(folder.name, f"{split}-X-{part}.npy"), planted.data[rows])
    np.save(Path(folder.name, f"{split}-y-{part}.npy"), planted.target[rows])

# %%
# Lazy arrays
# -----------
#
# Only the headers of the files are read here.  A file becomes a chunk of rows, or
# several if it is long; 65,536 rows are a good size for real data.


def read_parts(name: str) -> da.Array:
    """Return the rows of some files, by name, without reading them."""
    paths = sorted(Path(folder.name).glob(f"{name}-*.npy"))
    parts = (np.load(path, mmap_mode="r") for path in paths)
    return da.concatenate([da.from_array(part, chunks="auto") for part in parts])


X_train, y_train = read_parts("train-X"), read_parts("train-y")
X_test, y_test = read_parts("test-X"), read_parts("test-y")
print(f"{len(X_train):,} training samples in chunks of {X_train.chunks[0]} rows")

# %%
# Two workers
# -----------
#
# ``Client("tcp://...")`` would be a cluster elsewhere.  Here the workers are threads of
# this process (``processes=False``), because scripts of this gallery are run inside
# another program, where new processes cannot import them again.  In a script of your
# own leave that out, and put what starts workers below ``if __name__ == "__main__":``.

client = Client(
    n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
)

# %%
# The fit
# -------
#
# The samples stay on the workers, which send only sums over them.  This is the joint
# fit of the paper, with at most four atoms in a code; ``dictionary_update="auto"`` is
# "block_coordinate" for it here.  ``DDLClassifier()`` itself, which searches for its
# settings and refines the model, works on a cluster too, and takes longer.

settings = {
    "n_components": 60,
    "sparse_coder": "ormp",
    "n_nonzero_coefs": 4,
    "refine": "classifiers",
    "max_iter": 10,
    "random_state": 0,
}
model = DDLClassifier(**settings).fit(X_train, y_train)
for record in model.history_:
    print(
        f"iteration {record.iteration}: objective {record.objective:12,.0f}, "
        f"{record.label_free_error:.1%} of the watched samples wrong"
    )

# %%
# Predictions wait
# ----------------
#
# The result is a Dask array.  Nothing is computed until it is needed, and then chunk by
# chunk on the workers; ``to_zarr`` or ``to_npy_stack`` would write it without bringing
# it here.  ``score`` computes.

labels = model.predict(X_test)
print(labels)
print(f"accuracy on the test parts: {model.score(X_test, y_test):.2%}")
print(f"the first ten: {labels[:10].compute().tolist()}")

# %%
# The same in memory
# ------------------
#
# The same samples as one array, with the same dictionary update, where "auto" would be
# "ksvd".  Sums are added up in other groups, so numbers differ in their last digits.
# If the samples were cut at the same rows, the numbers would not differ at all.

here = DDLClassifier(dictionary_update="block_coordinate", **settings)
here.fit(X_train.compute(), y_train.compute())
for name in ("components_", "coef_", "class_cost_"):
    difference = np.abs(getattr(here, name) - getattr(model, name)).max()
    print(f"{name:12} differs by {difference:.0e} at most")
is_same = here.predict(X_test.compute()) == labels.compute()
print(f"{is_same.mean():.2%} of the predictions are the same")

client.close()
folder.cleanup()

# %%
# What was learned
# ----------------
#
# The largest correlation of each planted atom with a learned one: 1 where it was found.

found = np.abs(planted.dictionary @ model.components_.T).max(axis=1)
figure, axes = plt.subplots(figsize=(8, 3), layout="constrained")
axes.bar(np.arange(len(found)), np.sort(found), color="tab:blue")
axes.set_xlabel("planted atoms, sorted")
axes.set_ylabel("best correlation")
plt.show()
