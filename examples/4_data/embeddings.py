"""
Vectors from another model
==========================

A neural network turns an image into a vector, an *embedding*, in which similar things
are close. A small classifier on top of such vectors is a common way to learn new
classes from few examples. Here the network is a small one of scikit-learn's that has
only ever seen the digits 0 to 4, and we learn the digits 5 to 9 from its vectors.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from ddlearn import DDLClassifier

images, y = load_digits(return_X_y=True)
images = images / 16

# %%
# The other model
# ---------------
#
# Its hidden layer is the embedding: 100 numbers that are never negative. Yours may come
# from any model, as an array with one row a sample.

is_known = y < 5
network = MLPClassifier(100, max_iter=60, early_stopping=True, random_state=0)
network.fit(images[is_known], y[is_known])


def embed(samples: np.ndarray) -> np.ndarray:
    """Return the outputs of the hidden layer."""
    return np.maximum(samples @ network.coefs_[0] + network.intercepts_[0], 0)


X_train, X_test, y_train, y_test = train_test_split(
    images[~is_known],
    y[~is_known],
    train_size=250,
    stratify=y[~is_known],
    random_state=0,
)
E_train, E_test = embed(X_train), embed(X_test)

# %%
# Classifiers of the vectors
# --------------------------
#
# ``description="auto"``, the default, finds out whether the length of a vector matters.

models = {
    "ddlearn": DDLClassifier(random_state=0),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression()),
    "SVC": make_pipeline(StandardScaler(), SVC()),
    "nearest neighbour": KNeighborsClassifier(1),
}
for name, model in models.items():
    error = 1 - model.fit(E_train, y_train).score(E_test, y_test)
    print(f"{name}: {error:.1%} of the new digits are wrong")

# %%
# Why?
# ----
#
# Nobody can look at 100 numbers. But an atom can be shown by the training image that
# uses it most, so an explanation is a list of images: what the network finds the new
# one to be made of.

model = models["ddlearn"]
shown = [int(np.flatnonzero(y_test == digit)[0]) for digit in range(5, 10)]
codes, learned = model.transform(E_test[shown]), model.transform(E_train).tocsc()
N_ATOMS = 5

figure, grid = plt.subplots(5, N_ATOMS + 1, figsize=(7, 6.4), layout="constrained")
for row, panels in enumerate(grid):
    panels[0].imshow(X_test[shown[row]].reshape(8, 8), cmap="gray_r")
    panels[0].set_title("new", fontsize=9)
    code = codes[[row]]
    order = np.argsort(-np.abs(code.data))[:N_ATOMS]
    for place, axes in zip(order, panels[1:], strict=False):
        column = learned[:, [code.indices[place]]].toarray().ravel()
        example = np.argmax(np.abs(column))
        axes.imshow(X_train[example].reshape(8, 8), cmap="gray_r")
        axes.set_title(f"{code.data[place]:+.2f}, a {y_train[example]}", fontsize=9)
for axes in grid.flat:
    axes.set_axis_off()
plt.show()
