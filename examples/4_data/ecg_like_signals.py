"""
Heartbeats with a bad electrode
===============================

Dictionaries are not for images alone.  Here the samples are heartbeats, 0.9 seconds of
an electrocardiogram (ECG) around each beat, of three kinds.  The question is what
becomes of a classifier when an electrode comes loose for a moment.

**The beats are synthetic**: sums of Gaussian waves with the names and about the places
that P, Q, R, S and T waves have.  They look like heartbeats and are far more regular;
nothing here is a statement about patients.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import recall_score
from sklearn.model_selection import train_test_split

from ddlearn import DDLClassifier, DictionaryDisplay
from ddlearn.show.colors import get_class_color

# %%
# Making beats
# ------------
#
# A wave is a centre and a width in seconds, and a height in millivolts.  A ventricular
# beat has no P wave and a wide QRS complex; an atrial premature beat has an ordinary
# QRS complex and an odd P wave.  Each beat has its own stretch, waves that vary, a
# baseline that wanders as the chest moves, and noise.

TIME = np.arange(-0.35, 0.55, 0.01)  # seconds from the R wave
QRS = ((-0.03, 0.009, -0.12), (0.0, 0.011, 1.1), (0.03, 0.009, -0.25))
WAVES = {
    "normal": ((-0.17, 0.022, 0.15), *QRS, (0.27, 0.05, 0.3)),
    "ventricular": ((-0.02, 0.04, 1.2), (0.07, 0.045, -0.45), (0.3, 0.07, -0.4)),
    "atrial": ((-0.12, 0.018, -0.15), *QRS, (0.27, 0.05, 0.3)),
}
SHARES = {"normal": 0.8, "ventricular": 0.12, "atrial": 0.08}


def make_beat(kind: str, rng: np.random.Generator) -> np.ndarray:
    """Return one beat in millivolts."""
    stretch = rng.normal(1, 0.06)
    breathing = np.sin(2 * np.pi * (0.3 * TIME + rng.uniform()))
    beat = rng.normal(0, 0.08) + rng.normal(0, 0.08) * breathing
    beat += rng.normal(0, 0.03, len(TIME))
    for centre, width, height in WAVES[kind]:
        centre = centre * stretch + rng.normal(0, 0.006)
        width, height = width * rng.lognormal(0, 0.12), height * rng.lognormal(0, 0.2)
        beat += height * np.exp(-0.5 * ((TIME - centre) / width) ** 2)
    return beat


rng = np.random.default_rng(7)
y = rng.choice(list(SHARES), 3000, p=list(SHARES.values()))
X = np.array([make_beat(kind, rng) for kind in y])
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=0.5, stratify=y, random_state=0
)

# %%
# Learning
# --------
#
# Sixty atoms.  The beats are not scaled nor is the baseline removed: atoms take care of
# it.  ``description="auto"`` would standardise them, after which a burst is hard to
# find: the budget below then brings back little of what the burst costs.

model = DDLClassifier(60, description=None, random_state=0, n_jobs=-1).fit(
    X_train, y_train
)
peer = LogisticRegression(max_iter=5000).fit(X_train, y_train)

# %%
# A loose electrode
# -----------------
#
# For a tenth of a second or so, somewhere in each test beat, the signal is nonsense.
# If the place is not known, ``robustness=0.15`` says that up to 15 % of the values may
# be wrong, and the model looks for them.  If it is known, pass it as ``mask``, and the
# values are left out.

BURST = 12  # values, a hundredth of a second each
starts = rng.integers(len(TIME) - BURST, size=len(X_test))
places = np.arange(len(TIME)) - starts[:, None]
is_broken = (places >= 0) & (places < BURST)
broken = X_test + is_broken * rng.normal(0, 1.5, X_test.shape)


def report(name: str, predicted: np.ndarray) -> None:
    """Print the accuracy, and the share of the beats of each kind that are found."""
    recalls = recall_score(y_test, predicted, average=None, labels=model.classes_)
    shares = (np.mean(predicted == y_test), *recalls)
    print(f"{name:30}" + "".join(f"{share:12.1%}" for share in shares))


print(f"{len(X_test)} test beats: correct, and how many of each kind are found\n")
print(" " * 30 + "".join(f"{head:>12}" for head in ("all", *model.classes_)))
report("clean, linear", peer.predict(X_test))
report("clean, ddlearn", model.predict(X_test))
report("loose, linear", peer.predict(broken))
report("loose, ddlearn", model.predict(broken))
report("loose, ddlearn, known place", model.predict(broken, mask=is_broken))
model.set_params(robustness=0.15)
report("loose, ddlearn, budget", model.predict(broken))
report("clean, ddlearn, budget", model.predict(X_test))

# %%
# On clean beats the two models are close, and a linear model is the simpler one.  With
# a loose electrode both fail, ddlearn more often, and the budget brings most of it
# back.  The last row is its price.
#
# A beat, taken apart
# -------------------
#
# A ventricular beat with a burst, as the model explains it without and with a budget.
# The reconstruction that may leave values out follows the rest of the beat instead of
# the burst, and the evidence changes with it.  Evidence is the log-probability of a
# class up to a constant; only differences count.

is_telling = (y_test == "ventricular") & (
    model.set_params(robustness=None).predict(broken) != y_test
)
shown = np.flatnonzero(is_telling)[[0]]
figure, panels = plt.subplots(
    2, 2, figsize=(10, 5.5), width_ratios=(2.2, 1), layout="constrained"
)
for (curve, bars), budget in zip(panels, (0, 0.15), strict=True):
    found = model.set_params(robustness=budget).explain(broken[shown])
    evidence = found.evidence[0]
    verdict, n_wrong = model.classes_[evidence.argmax()], np.count_nonzero(found.error)
    print(f"robustness={budget}: {n_wrong} values called wrong, verdict {verdict}")
    curve.axvspan(
        *TIME[is_broken[shown[0]]][[0, -1]], color="0.9", label="electrode loose"
    )
    curve.plot(TIME, X_test[shown[0]], color="0.6", lw=4, label="beat as it was")
    curve.plot(TIME, broken[shown[0]], color="black", lw=0.8, label="as recorded")
    curve.plot(
        TIME, found.reconstruction[0], color="tab:orange", lw=2, label="reconstruction"
    )
    wrong = found.error[0] != 0
    curve.plot(
        TIME[wrong], broken[shown[0], wrong], "x", color="tab:red", label="called wrong"
    )
    curve.set_title(f"a {y_test[shown[0]]} beat, robustness={budget}")
    curve.set_ylabel("mV")
    bars.barh(
        model.classes_,
        evidence,
        color=[get_class_color(position) for position in range(len(evidence))],
    )
    bars.axvline(0, color="black", lw=0.8)
    bars.invert_yaxis()  # the first class on top
    bars.set_title("evidence")
panels[1, 0].set_xlabel("seconds")
panels[1, 0].legend(fontsize=8, loc="upper right")
plt.show()

# %%
# The dictionary
# --------------
#
# Atoms are curves of unit norm, each with the kind of beat that it speaks for, the most
# telling first.  Ventricular atoms have the wide complex.  The others differ before it:
# a small hump for normal beats, a small dip for atrial ones.

DictionaryDisplay.from_estimator(model, max_atoms=42)
plt.show()
