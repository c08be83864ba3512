"""
Few labels, many samples
========================

Labels cost time, samples often do not.  Samples without a label can still shape the
dictionary: mark them in ``y`` and say so by ``unlabeled``.  How much does it bring?
Here a hundred of a thousand of scikit-learn's digits have a label, over five random
splits, since one split would say nothing.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from ddlearn import DDLClassifier, Refiner

N_SPLITS, N_TRAINING, N_LABELLED = 5, 1000, 100
NO_LABEL = -1

X, y = load_digits(return_X_y=True)
X = normalize(X)

# %%
# Four ways to learn
# ------------------
#
# All with as many atoms as the default gives to a hundred labelled samples, half of
# them, except the third, which has as many as five hundred labelled samples would get.
# Penalties on classifiers are those of the preset "fast", so that twenty fits need not
# search for them.

SETTINGS = {
    "unlabeled": NO_LABEL,
    "description": "unit",
    "refine": Refiner(10, weight_decay=0.03, linear_decay=1.0),
    "n_jobs": -1,
}
METHODS = (
    "100 labels alone",
    "100 labels + 900 unlabelled",
    "the same, 250 atoms",
    "all 1000 labels",
)


def measure(seed: int) -> list[float]:
    """Return the test accuracy of each way to learn."""
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, train_size=N_TRAINING, stratify=y, random_state=seed
    )
    labelled, hidden = train_test_split(
        np.arange(N_TRAINING),
        train_size=N_LABELLED,
        stratify=y_train,
        random_state=seed,
    )
    y_partly = y_train.copy()
    y_partly[hidden] = NO_LABEL
    fits = (
        (50, X_train[labelled], y_train[labelled]),
        (50, X_train, y_partly),
        (250, X_train, y_partly),
        (50, X_train, y_train),
    )
    return [
        DDLClassifier(n_atoms, random_state=seed, **SETTINGS)
        .fit(*data)
        .score(X_test, y_test)
        for n_atoms, *data in fits
    ]


accuracy = np.array([measure(seed) for seed in range(N_SPLITS)])

# %%
# What it brings
# --------------
#
# The standard error is over splits, which share images, so that it is a rough one.
# Read the last line before the first ones: the unlabelled samples bring nothing that
# can be told from chance.  Refinement learns from labelled samples alone, and changes
# the atoms that the others have shaped.  More atoms than the default gives do no harm
# here; what is missing is labels.


def describe(values: np.ndarray) -> str:
    """Return mean and standard error in per cent."""
    error = values.std(ddof=1) / np.sqrt(len(values))
    return f"{100 * values.mean():5.1f} +- {100 * error:.1f} %"


for name, values in zip(METHODS, accuracy.T, strict=True):
    print(f"{name:30}{describe(values)}")
alone, together = accuracy[:, 0], accuracy[:, 1]
print(
    f"\nThe unlabelled samples bring {describe(together - alone)}; "
    f"they help in {np.sum(together > alone)} of {N_SPLITS} splits."
)

# %%
# Each line is a split.

figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
positions = np.arange(len(METHODS))
axes.plot(positions, 100 * accuracy.T, "o-", color="tab:gray", alpha=0.45, lw=1, ms=4)
axes.errorbar(
    positions,
    100 * accuracy.mean(axis=0),
    100 * accuracy.std(axis=0, ddof=1) / np.sqrt(N_SPLITS),
    fmt="D",
    color="tab:blue",
    ms=8,
    capsize=5,
    label="mean and standard error",
)
axes.set_xticks(
    positions, [name.replace(" + ", "\n+ ").replace(", ", ",\n") for name in METHODS]
)
axes.set_ylabel("test accuracy (%)")
axes.legend(loc="lower right")
plt.show()
