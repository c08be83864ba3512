"""
Refining a model
================

A fit codes training samples with their labels; a new sample is coded without.
``refine`` goes on after the fit and lowers the cost of label-free codes, which is what
counts in the end.  Here it does so for small models of scikit-learn's digits, once with
the images as they are and once with images that are distorted anew in each epoch.
"""

# sphinx_gallery_thumbnail_number = 1
from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from ddlearn import DDLClassifier, Jitter, Refiner

N_EPOCHS = 20
N_SPLITS = 3
X, y = load_digits(return_X_y=True)
splits = [
    train_test_split(normalize(X), y, train_size=1000, stratify=y, random_state=split)
    for split in range(N_SPLITS)
]
# For images of 8 x 8 pixels, less than jitter="elastic", which suits larger ones.
ways = {
    "as they are": None,
    "distorted": Jitter(0.2, linear=0.2, elastic=0.2),
}


def make_model(**parameters: Any) -> DDLClassifier:
    """Return a small model with elastic-net codes, which refinement works best with."""
    return DDLClassifier(
        100,
        sparse_coder="elastic_net",
        max_iter=5,
        image_shape=(8, 8),
        random_state=0,
        **parameters,
    )


# %%
# Errors over the epochs
# ----------------------
#
# Of 1000 training images 100 are held out: neither fit nor refinement sees their
# labels, and their cost decides which epoch is best.  ``refinement_`` has it for each.
# For the picture a callback asks for the error of the test images too: that of the
# model which would be kept if this epoch were the last.  It decides nothing.


class Watch:
    """Remembers the error of the model after each epoch."""

    def __init__(self, X_test: np.ndarray, y_test: np.ndarray):
        self.samples = X_test, y_test
        self.errors: list[float] = []

    def setup(self, estimator: DDLClassifier, context: Any) -> None:
        """Need nothing."""

    def teardown(self, estimator: DDLClassifier, context: Any) -> None:
        """Leave nothing."""

    def on_fit_task_begin(self, estimator: DDLClassifier, context: Any) -> None:
        """Wait for the end of the epoch."""

    def on_fit_task_end(
        self, estimator: DDLClassifier, context: Any, *, fitted_estimator: DDLClassifier
    ) -> bool:
        """Test the model; go on in any case."""
        if context.task_name == "epoch":
            self.errors.append(1 - fitted_estimator.score(*self.samples))
        return False


# Steps of size zero: the same images are held out, and nothing is learned.
at_rest = Refiner(1, step_size=0, classifier_step_size=0)
starts = [
    make_model(refine=at_rest).fit(X_train, y_train)
    for X_train, _, y_train, _ in splits
]
first_errors = [
    1 - start.score(X_test, y_test)
    for start, (_, X_test, _, y_test) in zip(starts, splits, strict=True)
]
print(f"{'before':12} test error {np.mean(first_errors):.1%}")

# A fit that is not refined holds nothing out, and learns from all labels.
alone_errors = [
    1 - make_model().fit(X_train, y_train).score(X_test, y_test)
    for X_train, X_test, y_train, y_test in splits
]
print(f"{'fit alone':12} test error {np.mean(alone_errors):.1%}")

refined = {}
held_out, tested = {}, {}
for way, jitter in ways.items():
    models, watches = [], []
    for X_train, X_test, y_train, y_test in splits:
        watch = Watch(X_test, y_test)
        model = make_model(refine=Refiner(N_EPOCHS, jitter=jitter))
        model.set_callbacks(watch)
        models.append(model.fit(X_train, y_train))
        watches.append(watch)
    held_out[way] = np.mean(
        [[record.validation_error for record in m.refinement_] for m in models], axis=0
    )
    tested[way] = np.mean(
        [
            [before, *watch.errors]
            for before, watch in zip(first_errors, watches, strict=True)
        ],
        axis=0,
    )
    refined[way] = models
    print(f"{way:12} test error {tested[way][-1]:.1%}")

figure, panels = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True, layout="constrained")
titles = ("Held out, after each epoch", "Test, with the best epoch so far")
for axes, errors, title in zip(panels, (held_out, tested), titles, strict=True):
    for way, curve in errors.items():
        axes.plot(100 * curve, "o-", markersize=4, label=f"images {way}")
    axes.set_title(title)
    axes.set_xlabel("epoch (0: the fit)")
    axes.set_xticks(range(0, N_EPOCHS + 1, 5))
panels[0].set_ylabel(f"error in %, mean of {N_SPLITS} splits")
panels[0].set_ylim(0)
panels[1].legend()
plt.show()

# %%
# Views of new images
# -------------------
#
# A model can look at a new image several times, each time slightly distorted, and
# average the evidence.  This can be changed after the fit.

for n_views in (1, 8):
    errors = [
        1 - model.set_params(n_views=n_views).score(X_test, y_test)
        for model, (_, X_test, _, y_test) in zip(
            refined["distorted"], splits, strict=True
        )
    ]
    print(f"n_views={n_views}: test error {np.mean(errors):.1%}")

# %%
# Atoms before and after
# ----------------------
#
# Atoms of the first split, from the one that has turned least on the left to the one
# that has turned most.  An atom of the fit has to help to rebuild images, and some look
# like digits, or what is left of one.  Refinement asks only that classes can be told
# apart: most atoms stay recognisable, but whole digits lose their clean outlines.

before, after = (model.components_ for model in (starts[0], refined["distorted"][0]))
cosine = np.vecdot(before, after)
order = np.argsort(-cosine)
shown = order[np.linspace(0, len(order) - 1, 12).astype(int)]
print(f"The median atom turned by {np.degrees(np.arccos(np.median(cosine))):.0f}°.")
rows = {
    "before": before,
    "as they are": refined["as they are"][0].components_,
    "distorted": after,
}
figure, panels = plt.subplots(
    len(rows), len(shown), figsize=(10, 2.9), layout="constrained"
)
for line, (title, atoms) in zip(panels, rows.items(), strict=True):
    for axes, atom in zip(line, atoms[shown], strict=True):
        limit = np.abs(atom).max()
        axes.imshow(atom.reshape(8, 8), cmap="gray", vmin=-limit, vmax=limit)
        axes.set_xticks([])
        axes.set_yticks([])
    line[0].set_ylabel(title)
plt.show()
