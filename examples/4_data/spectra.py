"""
Spectra
=======

A spectrum is a sum of peaks, and that is what atoms are good at. These spectra are
made up: four substances, each with two weak peaks of its own among six that all of
them share, of different heights, on a background, with noise, and each measured with
another exposure.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer
from sklearn.svm import SVC

from ddlearn import DDLClassifier, Robustness

CHANNELS = np.arange(150)
SUBSTANCES = np.array(["A", "B", "C", "D"])


def make_spectra(n_samples: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return spectra and their substances."""
    places = np.random.default_rng(1)  # where peaks are does not depend on the seed
    shared, own = places.uniform(10, 140, 6), places.uniform(10, 140, (4, 2))
    rng = np.random.default_rng(seed)
    kinds = np.arange(n_samples) % 4
    centres = np.concatenate([np.tile(shared, (n_samples, 1)), own[kinds]], axis=1)
    centres += rng.standard_normal(centres.shape)
    heights = rng.gamma(3.0, 0.3, centres.shape) * np.r_[np.ones(6), np.full(2, 0.5)]
    shapes = np.exp(-(((CHANNELS - centres[..., None]) / 4) ** 2) / 2)
    spectra = np.einsum("np,npc->nc", heights, shapes)
    spectra += rng.gamma(2.0, 0.2, (n_samples, 1)) * (1 - CHANNELS / 300)
    spectra += 0.08 * rng.standard_normal(spectra.shape)
    exposure = rng.gamma(10.0, 0.1, (n_samples, 1))
    return exposure * spectra, SUBSTANCES[kinds]


X, y = make_spectra(1000, seed=0)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=400, stratify=y, random_state=0
)

# %%
# Which substance?
# ----------------
#
# ``description="unit"``: the exposure says nothing. (By default the model would find
# that out on held-out spectra, which takes a little longer.)

models = {
    "ddlearn": DDLClassifier(description="unit", random_state=0),
    "logistic regression": make_pipeline(Normalizer(), LogisticRegression(C=100)),
    "SVC(C=10)": make_pipeline(Normalizer(), SVC(C=10)),
    "nearest neighbour": make_pipeline(Normalizer(), KNeighborsClassifier(1)),
}
for name, model in models.items():
    error = 1 - model.fit(X_train, y_train).score(X_test, y_test)
    print(f"{name}: {error:.1%} wrong")

# %%
# Dead channels
# -------------
#
# A linear model does as well on whole spectra. But now a detector loses a fifth of its
# channels. Marked by NaN, they are left out by ddlearn, and nothing is fitted again;
# other models need something in their place, such as the mean of the training spectra.

broken = X_test.copy()
broken[:, 60:90] = np.nan
filled = np.where(np.isnan(broken), X_train.mean(axis=0), broken)
model = models["ddlearn"].set_params(robustness=Robustness(missing="mask"))
print(f"dead channels, ddlearn: {1 - model.score(broken, y_test):.1%} wrong")
linear = models["logistic regression"]
print(
    f"dead channels, logistic regression: {1 - linear.score(filled, y_test):.1%} wrong"
)
model.set_params(robustness=None)

# %%
# What the model saw
# ------------------
#
# One spectrum of each substance, and the three atoms of its code that speak most for
# its class.

figure, panels = plt.subplots(4, 1, figsize=(7.5, 7), sharex=True, layout="constrained")
for row, (axes, substance) in enumerate(zip(panels, SUBSTANCES, strict=True)):
    sample = X_test[y_test == substance][[0]]
    why = model.explain(sample)
    code = why.codes[[0]]
    axes.plot(CHANNELS, sample[0], color="0.6", label="spectrum")
    axes.plot(CHANNELS, why.reconstruction[0], color="black", lw=1, label="its code")
    votes = model.coef_[row, code.indices] * code.data
    for place in np.argsort(-votes)[:3]:
        atom = code.data[place] * why.norms[0] * model.components_[code.indices[place]]
        axes.fill_between(CHANNELS, atom, alpha=0.5, label=f"vote {votes[place]:+.2f}")
    axes.set_title(f"substance {substance}", loc="left", fontsize=10)
    axes.legend(fontsize=8, ncols=2, frameon=False, loc="upper right")
panels[-1].set_xlabel("channel")
plt.show()
