"""
What a fitted model knows
=========================

A fitted model is a dictionary, a linear classifier for each class, and two kinds of
scales.  All of it can be looked at, and so can the reasons for a single verdict.  This
example goes through the displays of ddlearn with a model of scikit-learn's digits.
Each takes a fitted model, or a pipeline that ends with one; ``ddlearn report`` puts
them on one interactive page.
"""

# sphinx_gallery_thumbnail_number = 1
from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from ddlearn import (
    CodeDisplay,
    ConfusionDisplay,
    ConvergenceDisplay,
    DDLClassifier,
    DictionaryDisplay,
    EvidenceDisplay,
)

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    normalize(X), y, train_size=1000, stratify=y, random_state=0
)
# Only displays and alignment need to know that samples are images.  The model is that
# of the paper, without epochs of refinement, which has short codes and one cost for
# each class.
model = DDLClassifier(
    n_components=150,
    sparse_coder="ormp",
    refine="classifiers",
    image_shape=(8, 8),
    random_state=0,
    n_jobs=-1,
).fit(X_train, y_train)
predicted = model.predict(X_test)
print(f"{np.mean(predicted == y_test):.1%} of {len(y_test)} test images are right.")

# %%
# The dictionary
# --------------
#
# Each atom stands with the class that it speaks for most, the most telling atoms first.
# Light is positive, dark is negative, and grey is zero; an atom's sign is that with
# which codes use it on average.  Most look like a digit of their class.  A dark one is
# something that codes take away: a 3 that is missing speaks for another digit.

display = DictionaryDisplay.from_estimator(model)
print(
    {
        str(model.classes_[position]): len(atoms)
        for position, atoms in display.groups_
        if position >= 0
    }
)
plt.show()

# %%
# How the fit went
# ----------------
#
# The objective has four terms, and each has a panel.  The last one tells two training
# errors apart: that of the codes that saw the labels, and that of the same samples
# coded as new ones are.  A wide gap means that codes owe much to the labels.

ConvergenceDisplay.from_estimator(model)
first, last = model.history_[0], model.history_[-1]
print(
    f"Objective from {first.objective:,.0f} to {last.objective:,.0f} "
    f"in {model.n_iter_} iterations."
)
print(
    f"Training error {last.training_error:.1%}, label-free {last.label_free_error:.1%}."
)
plt.show()

# %%
# The scales
# ----------
#
# Sigma says how badly a training sample fits the dictionary: to the far right are odd
# samples, or wrong ones.  Gamma says how costly a class's mistakes are on average: a
# class with a large gamma is hard to tell from the others, and evidence for it counts
# less.  Both are estimated, not set.

figure, (left, right) = plt.subplots(1, 2, figsize=(13, 4.5), layout="constrained")
left.hist(np.sqrt(model.noise_variance_), bins=40)
left.set(xlabel=r"noise level $\sigma$", ylabel="training samples")
right.barh(model.classes_.astype(str), model.class_cost_)
right.set(xlabel=r"class cost $\gamma$ (larger: harder to separate)", ylabel="class")
hardest, easiest = (
    model.classes_[find(model.class_cost_)] for find in (np.argmax, np.argmin)
)
print(f"Hardest to tell: {hardest}; easiest: {easiest}.")
plt.show()

# %%
# The samples of largest sigma are worth a look: it is a cheap way to find oddities in
# training data.

oddest = np.argsort(-model.noise_variance_)[:10]
figure, panels = plt.subplots(1, len(oddest), figsize=(10, 1.5), layout="constrained")
for axes, position in zip(panels, oddest, strict=True):
    axes.imshow(X_train[position].reshape(8, 8), cmap="gray_r")
    axes.set_title(f"a {y_train[position]}")
    axes.set_axis_off()
plt.show()

# %%
# Why a sample got its class
# --------------------------
#
# Take the mistake that the model is most sure of.  First its code: the image as a sum
# of atoms, and what that leaves.

evidence = model.decision_function(X_test)
truth = np.searchsorted(model.classes_, y_test)
of_truth = evidence[np.arange(len(truth)), truth]
lead = evidence.max(axis=1) - of_truth  # of the verdict over the truth
worst = int(lead.argmax())
print(
    f"Test image {worst} is a {y_test[worst]} and was taken for a {predicted[worst]}."
)
CodeDisplay.from_estimator(model, X_test[worst])
plt.show()

# %%
# Then the reasons.  A column is an atom of the code, a row is a class, and a cell is
# what that atom adds to the score of that class.  With the intercept they sum to the
# score, and evidence is the score on the scale of the class cost.  So it can be read
# off which atom is to blame.

EvidenceDisplay.from_estimator(model, X_test[worst], y_test[worst])
plt.show()

# %%
# Which classes are taken for which
# ---------------------------------
#
# A row is a true class, a column a predicted one, and in each cell off the diagonal is
# the most convincing mistake of that kind.

display = ConfusionDisplay.from_estimator(model, X_test, y_test)
mistakes = display.counts - np.diag(np.diag(display.counts))
row, column = np.unravel_index(mistakes.argmax(), mistakes.shape)
print(
    f"Most frequent: a {model.classes_[row]} taken for a {model.classes_[column]}, "
    f"{mistakes.max()} times."
)
plt.show()
