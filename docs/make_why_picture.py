"""Draw ``docs/images/why.png``: what a model says about one digit that is easy to misread.

Run ``DDLEARN_DATA=folder PYTHONPATH=. python docs/make_why_picture.py`` in an environment with ``ddlearn[plot]``.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
from benchsets import load_usps
from numpy.typing import NDArray

from ddlearn import DDLClassifier

TARGET = Path(__file__).parent / "images" / "why.png"
N_ATOMS = 6


def show(axes: plt.Axes, image: NDArray, title: str, below: str = "") -> None:
    """Draw an image of 16 x 16 pixels, black on white, with red for what is taken away."""
    limit = np.abs(image).max()
    axes.imshow(image.reshape(16, 16), cmap="RdGy", vmin=-limit, vmax=limit)
    axes.set(title=title, xlabel=below, xticks=[], yticks=[])


def main() -> None:
    """Fit the default model and draw the right digit with the least margin among those that are not quite certain."""
    matplotlib.use("agg")
    X, y = load_usps(return_X_y=True)
    X_train, X_test, y_train, y_test = X[:7291], X[7291:], y[:7291], y[7291:]
    model = DDLClassifier(image_shape=(16, 16), random_state=0, n_jobs=-1).fit(X_train, y_train)
    probabilities = model.predict_proba(X_test)
    sure = np.where(model.predict(X_test) == y_test, probabilities.max(axis=1), 0)
    shown = int(np.argmin(np.abs(sure - 0.9)))  # right, but not certain
    why = model.explain(X_test[[shown]])
    code = why.codes[[0]]
    order = np.argsort(-np.abs(code.data))[:N_ATOMS]
    votes = model.coef_[:, code.indices] * code.data

    figure = plt.figure(figsize=(11, 2.1), layout="constrained")
    grid = figure.add_gridspec(1, N_ATOMS + 5)
    show(figure.add_subplot(grid[0]), why.samples[0], "a digit")
    for column, place in enumerate(order, 1):
        value, atom = code.data[place], code.indices[place]
        favours = model.classes_[np.argmax(votes[:, place])]
        sign = "≈" if column == 1 else "+" if value > 0 else "\N{MINUS SIGN}"
        title = f"{sign} {abs(value):.2f} \N{MULTIPLICATION SIGN}"
        show(figure.add_subplot(grid[column]), model.components_[atom], title, f"votes for {favours}")
    show(figure.add_subplot(grid[N_ATOMS + 1]), why.reconstruction[0], f"+ {code.nnz - N_ATOMS} more", "in all")
    axes = figure.add_subplot(grid[N_ATOMS + 2 :])
    best = np.argsort(-probabilities[shown])[:4]
    bars = axes.barh([str(model.classes_[k]) for k in best], probabilities[shown, best], color="#4b5563")
    bars[0].set_color("#117733")
    axes.bar_label(bars, [f"{probabilities[shown, k]:.0%}" for k in best], padding=3)
    axes.invert_yaxis()
    axes.set(title="probability", xlim=(0, 1.15), xticks=[])
    axes.spines[["top", "right", "bottom"]].set_visible(False)
    figure.savefig(TARGET, dpi=160, facecolor="white")
    print(f"Sample {shown}, a {y_test[shown]}; {1 - model.score(X_test, y_test):.2%} wrong.")


if __name__ == "__main__":
    main()
