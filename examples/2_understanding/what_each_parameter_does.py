"""
What each parameter does
========================

One picture for each parameter, on few and small digits, where a fit takes a second:
the error of new digits over the values of the parameter, everything else the same.
Other data will have other curves; how to read them stays the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from ddlearn import DDLClassifier, ElasticNet, Jitter, Refiner

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=400, stratify=y, random_state=0
)
# Given penalties save the search for them, so that every fit is quick.
PENALTIES = {"weight_decay": 0.03, "linear_decay": 1.0}
SETTINGS = {
    "n_components": 100,
    "description": "unit",
    "sparse_coder": ElasticNet(0.15),
    "refine": Refiner(10, **PENALTIES),
    "random_state": 0,
}


def fit(**changed: Any) -> DDLClassifier:
    """Return a model with some settings changed."""
    return DDLClassifier(**SETTINGS | changed).fit(X_train, y_train)


def draw(parameter: str, errors: Mapping[str, float], unit: str = "error") -> None:
    """Draw one bar a value, and print the numbers."""
    _, axes = plt.subplots(figsize=(7, 2.6), layout="constrained")
    bars = axes.bar(list(errors), [100 * error for error in errors.values()], 0.6)
    axes.bar_label(bars, fmt="%.1f")
    axes.set(title=parameter, ylabel=f"{unit} (%)")
    axes.spines[["top", "right"]].set_visible(False)
    cells = ", ".join(f"{name} {error:.1%}" for name, error in errors.items())
    print(f"{parameter}: {cells}")


def measure(model: DDLClassifier, samples: np.ndarray = X_test) -> float:
    """Return the share of new digits that are wrong."""
    return 1 - model.score(samples, y_test)


# %%
# Basic: the number of atoms
# --------------------------
#
# ``n_components``. More atoms are better up to a point, and cost time and memory. The
# default is half as many as labelled samples, at most 500.

sizes = (10, 25, 50, 100, 200)
draw("n_components", {str(size): measure(fit(n_components=size)) for size in sizes})

# %%
# Basic: the description
# ----------------------
#
# ``description``. "unit" divides each sample by its norm, so that the brightness of an
# image says nothing; "standard" makes all features equally important, which is right
# for tables. By default the model tries both. Here they see the digits as they are.

kinds = {"unit": "unit", "standard": "standard", "None": None}
draw(
    "description",
    {name: measure(fit(description=kind)) for name, kind in kinds.items()},
)

# %%
# Basic: refinement
# -----------------
#
# ``refine``. None keeps the model of the joint fit, "classifiers" trains the
# classifiers again on codes without labels, and a number is that of the epochs in which
# the dictionary learns, too.

unrefined = {str(kind): fit(refine=kind) for kind in (None, "classifiers")}
refined = {
    str(epochs): fit(refine=Refiner(epochs, **PENALTIES)) for epochs in (2, 10, 30)
}
draw("refine", {name: measure(model) for name, model in (unrefined | refined).items()})

# %%
# Basic: distorted images
# -----------------------
#
# ``jitter`` of ``Refiner``, in pixels. A little teaches the model which changes do not
# matter; too much turns one digit into another.

pixels = (0.0, 0.1, 0.2, 0.4, 0.8)
jittered = {
    str(shift): fit(
        refine=Refiner(20, **PENALTIES, jitter=Jitter(shift, linear=shift)),
        image_shape=(8, 8),
    )
    for shift in pixels
}
draw("jitter", {name: measure(model) for name, model in jittered.items()})

# %%
# Basic: rare classes
# -------------------
#
# ``class_weight``. Here only five eights are among the samples to learn from, and the
# bars are the eights that are missed.

is_kept = (y_train != 8) | (np.cumsum(y_train == 8) <= 5)
eights = X_test[y_test == 8]
missed = {}
for weight in (None, "balanced"):
    model = DDLClassifier(**SETTINGS, class_weight=weight)
    model.fit(X_train[is_kept], y_train[is_kept])
    missed[str(weight)] = np.mean(model.predict(eights) != 8)
draw("class_weight", missed, "missed eights")

# %%
# New samples: views
# ------------------
#
# ``n_views``. The evidence of several distorted copies of a new image is averaged, for
# as many times the time. It can be changed after the fit, like everything that begins
# with *New samples*.

model = jittered["0.2"]
views = {str(n): measure(model.set_params(n_views=n)) for n in (1, 4, 16)}
draw("n_views", views)

# %%
# New samples: the label rule
# ---------------------------
#
# ``inference``. "full" codes a new sample once for each class. It helps models that
# were not refined, and brings little to those that were.

rules = {
    f"{name}, {rule}": measure(one.set_params(inference=rule))
    for name, one in {"joint fit": unrefined["None"], "refined": refined["10"]}.items()
    for rule in ("fast", "full")
}
draw("inference", rules)

# %%
# New samples: alignment
# ----------------------
#
# ``alignment``. Here the new digits are shifted by a pixel to the right, which no
# training digit is.

shifted = np.roll(X_test.reshape(-1, 8, 8), 1, axis=2).reshape(X_test.shape)
model = fit(image_shape=(8, 8))
moves = {
    str(kind): measure(model.set_params(alignment=kind), shifted)
    for kind in (None, "translation", "affine")
}
draw("alignment", moves, "error, shifted digits")

# %%
# New samples: gross errors
# -------------------------
#
# ``robustness``: the share of the features that may be wrong. Here a bright bar covers
# one row of each new digit. The price is a higher error where nothing is wrong.

model.set_params(alignment=None)
covered = X_test.copy()
covered[:, 24:32] = 40
budgets = {
    f"{budget}, {name}": measure(model.set_params(robustness=budget or None), samples)
    for budget in (0, 0.15)
    for name, samples in {"clean": X_test, "covered": covered}.items()
}
draw("robustness", budgets)

# %%
# Expert: the penalty on codes
# ----------------------------
#
# ``sparse_coder=ElasticNet(alpha)``. A large ``alpha`` allows few atoms in a code. By
# default it is chosen on held-out samples.

alphas = (0.02, 0.05, 0.15, 0.3, 0.6)
coded = {str(alpha): fit(sparse_coder=ElasticNet(alpha)) for alpha in alphas}
draw("alpha", {name: measure(model) for name, model in coded.items()})
for name, model in coded.items():
    print(f"alpha={name}: {model.transform(X_test).nnz / len(X_test):.0f} atoms a code")

# %%
# Expert: the loss
# ----------------
#
# ``loss``. The default, the square, is quick and good; others matter mostly where
# labels are wrong, or for the joint fit of the paper.

losses = ("square", "logistic", "exponential", "smooth_hinge")
draw("loss", {name: measure(fit(loss=name)) for name in losses})
plt.show()
