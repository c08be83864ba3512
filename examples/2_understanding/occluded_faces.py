"""
Faces of which a part is hidden
===============================

The paper's model of a sample is a sparse code, noise, and a sparse gross error.  With
an error budget, ``robustness=0.5``, the model looks for features that no code can
explain, and leaves them out of the verdict.  This is made for faces behind something.

.. image:: /images/occluded_faces.png
    :alt: Faces: original, occluded, error found, reconstruction, and evidence

``python -m reproduction pictures`` draws this picture.  The run below needs Extended
Yale B (``benchsets.load_yaleb`` says where to put it); without the data it says
so, and ends.
"""

# sphinx_gallery_thumbnail_path = 'images/occluded_faces.png'
from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from benchsets import find_datasets, load_yaleb
from reproduction.disturbances import occlude
from sklearn.preprocessing import normalize

from ddlearn import DDLClassifier

SIZE = (48, 42)
LEVELS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
BUDGETS = {0: "no budget", 0.5: "robustness=0.5"}

# %%
# Learning
# --------
#
# 38 people, lit from the front.  The test images are lit from further aside, and an
# unrelated picture, a square somewhere in the image, hides a part of them.


def fit() -> DDLClassifier:
    """Learn the faces that are lit from the front."""
    X, y = load_yaleb(size=SIZE, split="lighting", subset="train", return_X_y=True)
    return DDLClassifier(
        n_components=570,
        sparse_coder="ormp",
        n_nonzero_coefs=20,
        refine="classifiers",
        random_state=0,
        n_jobs=-1,
    ).fit(normalize(X), y)


def load_hidden(level: float, step: int = 5) -> tuple[np.ndarray, np.ndarray]:
    """Return some of the test faces, evenly spaced, partly hidden, with labels."""
    X, y = load_yaleb(size=SIZE, split="lighting", subset="test", return_X_y=True)
    images = occlude(X[::step].reshape(-1, *SIZE), level, np.random.default_rng(0))
    return normalize(images.reshape(len(images), -1)), y[::step]


# %%
# One face
# --------
#
# ``explain`` takes a sample apart: its code, the reconstruction, the gross error, and
# the evidence for each class.


def explain_one(model: DDLClassifier, position: int = 20) -> None:
    """Print the best guesses for a face of which a third is hidden."""
    X, y = load_hidden(0.33)
    for budget in BUDGETS:
        found = model.set_params(robustness=budget).explain(X[[position]])
        print(f"\nWith robustness={budget} (true person: {y[position]})")
        for best in np.argsort(-found.evidence[0])[:3]:
            evidence = found.evidence[0, best]
            print(f"  person {model.classes_[best]:2}: evidence {evidence:10,.0f}")
        print(f"  {np.mean(found.error[0] != 0):.0%} of the pixels are called wrong")


# %%
# How much may be hidden
# ----------------------
#
# The budget is an upper bound, so that one setting does for all of these.  It is no
# free lunch: it costs time, and on images whose content is itself sparse,
# such as digits, it costs accuracy.


def draw_recognition(model: DDLClassifier) -> None:
    """Draw and print how many faces are recognised, over how much is hidden."""
    axes = plt.figure(figsize=(6.5, 4), layout="constrained").subplots()
    print("\nhidden            " + "".join(f"{level:8.0%}" for level in LEVELS))
    for budget, title in BUDGETS.items():
        model.set_params(robustness=budget)
        correct = [model.score(*load_hidden(level)) for level in LEVELS]
        print(f"{title:18}" + "".join(f"{share:8.1%}" for share in correct))
        axes.plot(
            [100 * level for level in LEVELS],
            [100 * share for share in correct],
            "o-",
            label=title,
        )
    axes.set_xlabel("hidden pixels (%)")
    axes.set_ylabel("faces recognised (%)")
    axes.set_ylim(0, 103)
    axes.legend()


if find_datasets()["yaleb"]["where"]:
    model = fit()
    explain_one(model)
    draw_recognition(model)
    plt.show()
else:
    print(f"The faces are not here. {find_datasets()['yaleb']['advice']}")
