"""
Several labels per sample
=========================

When ``y`` is a matrix of zeros and ones, each column is a label of its own, and a
sample has any number of them.  All labels share the dictionary and the code of a
sample; each has a linear classifier of its own.

Here the labels are properties of scikit-learn's digits.  They overlap, and none of them
is a shape: even digits do not look alike.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import normalize

from ddlearn import DDLClassifier
from ddlearn.show.colors import get_class_color

PROPERTIES = {
    "even": (0, 2, 4, 6, 8),
    "5 or more": (5, 6, 7, 8, 9),
    "has a loop": (0, 6, 8, 9),
    "prime": (2, 3, 5, 7),
}

X, digit = load_digits(return_X_y=True)
Y = np.array([np.isin(digit, members) for members in PROPERTIES.values()], int).T
X_train, X_test, Y_train, Y_test = train_test_split(
    normalize(X), Y, train_size=1000, stratify=digit, random_state=0
)

# %%
# Choosing T
# ----------
#
# Codes with at most T atoms are those of a pursuit, ``"ormp"``.  The model is a
# scikit-learn estimator, so ``GridSearchCV`` chooses how many atoms a code may have.
# The score of multilabel targets is strict: a sample counts as right only if all its
# labels are.

model = DDLClassifier(
    sparse_coder="ormp", max_iter=5, refine="classifiers", random_state=0, n_jobs=-1
)
search = GridSearchCV(model, {"n_nonzero_coefs": [1, 2, 3, 5]}, cv=3)
search.fit(X_train, Y_train)
results = search.cv_results_
for budget, score in zip(
    results["param_n_nonzero_coefs"], results["mean_test_score"], strict=True
):
    print(f"T = {budget}: {1 - score:6.2%} of the samples have a wrong label")
model = search.best_estimator_

# %%
# Beside two simple models
# ------------------------
#
# One-vs-rest logistic regression draws one plane in the space of pixels for each
# property, which is not enough.  The nearest neighbour keeps all training images and
# looks the answer up, which is hard to beat on images that are so alike; the model has
# half as many atoms.

peers = {
    "ddlearn": model,
    "logistic regression": OneVsRestClassifier(
        LogisticRegression(C=100, max_iter=1000)
    ).fit(X_train, Y_train),
    "nearest neighbour": KNeighborsClassifier(1).fit(X_train, Y_train),
}
print(
    f"\n{'test error':22}{'any label':>12}"
    + "".join(f"{name:>12}" for name in PROPERTIES)
)
errors = {}
for name, peer in peers.items():
    is_wrong = peer.predict(X_test) != Y_test
    errors[name] = is_wrong.mean(axis=0)
    print(
        f"{name:22}{is_wrong.any(axis=1).mean():12.2%}"
        + "".join(f"{error:12.2%}" for error in errors[name])
    )

# %%
# Atoms of a label
# ----------------
#
# On the right are the atoms that say most for each property: mean coefficient in the
# codes, times weight in its classifier.  "Even" is made of several shapes, which is why
# a plane in the space of pixels cannot find it, and one on the codes can.

N_SHOWN = 7
use = np.asarray(model.codes_.mean(axis=0)).ravel()
# An atom that codes take away, rather than add, is turned.
atoms = model.components_ * np.sign(use)[:, None]
figure = plt.figure(figsize=(11, 4), layout="constrained")
left, right = figure.subfigures(1, 2, width_ratios=(1, 1.15))
axes = left.subplots()
for number, (name, values) in enumerate(errors.items()):
    axes.bar(
        np.arange(len(values)) + 0.27 * (number - 1),
        100 * values,
        0.25,
        label=name,
        color=f"C{number}",
    )
axes.set_xticks(np.arange(len(PROPERTIES)), PROPERTIES)
axes.set_ylabel("test images with this label wrong (%)")
axes.legend()
panels = right.subplots(len(PROPERTIES), N_SHOWN)
for label, (name, line) in enumerate(zip(PROPERTIES, panels, strict=True)):
    loudest = np.argsort(-use * model.coef_[label])[:N_SHOWN]
    for axes, atom in zip(line, loudest, strict=True):
        axes.imshow(atoms[atom].reshape(8, 8), cmap="gray_r", vmin=0)
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set(color=get_class_color(label), linewidth=2)
    line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize=11)
plt.show()
