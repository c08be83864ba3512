"""
Learn handwritten digits
========================

Learn scikit-learn's digits, watch the fit converge, and compare the result with the
obvious alternatives.  This is what ``make demo`` runs.
"""

# sphinx_gallery_thumbnail_path = 'images/report.png'
from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

from ddlearn import KSVD, DDLClassifier

SEED = 0

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    normalize(X), y, train_size=1000, stratify=y, random_state=SEED
)
print(
    f"Learning {len(np.unique(y))} digits from {len(X_train)} images of 8 x 8 pixels.\n"
)

# %%
# Watching a fit
# --------------
#
# ``DDLClassifier`` takes scikit-learn's callbacks.  This one prints a line for each
# iteration of the joint fit that the paper describes: the objective and its four terms,
# and the training error.  The codes of training samples saw the labels, so their error
# is soon near zero and says little; the number in brackets is the error of the same
# samples when they are coded as new ones are.

COLUMNS = (
    "objective",
    "representation",
    "log_noise",
    "classification",
    "log_class_cost",
)


class PrintProgress:
    """A scikit-learn callback that prints one line an iteration."""

    def setup(self, estimator: BaseEstimator, context: Any) -> None:
        """Print the head of the table."""
        print(
            "iteration"
            + "".join(f"{name:>16}" for name in COLUMNS)
            + "   training error (label-free)"
        )

    def on_fit_task_begin(self, estimator: BaseEstimator, context: Any) -> None:
        """Wait for the end of the iteration."""

    def on_fit_task_end(
        self, estimator: BaseEstimator, context: Any, *, fitted_estimator: DDLClassifier
    ) -> None:
        """Print the objective, and the error with and without the labels' help."""
        if context.task_name == "iteration":
            record = fitted_estimator.history_[-1]
            terms = "".join(f"{getattr(record, name):16,.0f}" for name in COLUMNS)
            errors = f"{record.training_error:12.1%} ({record.label_free_error:.1%})"
            print(f"{record.iteration:9}{terms}{errors}", flush=True)

    def teardown(self, estimator: BaseEstimator, context: Any) -> None:
        """Leave a blank line."""
        print()


def evaluate(name: str, fit: Callable[[], BaseEstimator]) -> str:
    """Fit, and return a line with the test error and the time."""
    start = perf_counter()
    model = fit()
    seconds = perf_counter() - start
    return f"{name:46}{1 - model.score(X_test, y_test):10.2%}{seconds:9.2f} s"


joint = DDLClassifier(
    sparse_coder="ormp", refine="classifiers", n_jobs=-1, random_state=SEED
).set_callbacks(PrintProgress())
lines = [
    evaluate("joint dictionary, not refined", lambda: joint.fit(X_train, y_train)),
    evaluate(
        "the same, full rule (Eq. 5 of the paper)",
        lambda: joint.set_params(inference="full"),
    ),
]

# %%
# The default
# -----------
#
# By default the model has elastic-net codes, chooses its settings on held-out training
# images, and refines what one iteration has learned.

default = DDLClassifier(n_jobs=-1, random_state=SEED)
lines.append(evaluate("ddlearn, all defaults", lambda: default.fit(X_train, y_train)))

# %%
# Beside the alternatives
# -----------------------
#
# A baseline learns a dictionary without the labels (K-SVD), and a classifier on its
# codes afterwards; logistic regression knows nothing of dictionaries.  What joint
# learning is worth shows with the full rule, which codes an image once for each class
# as if it were of that class, and compares the costs.  One split of a small data set is
# no proof: the page on the defaults has other data.

n_atoms, n_nonzero = len(joint.components_), joint.n_nonzero_coefs_
ksvd = KSVD(n_atoms, n_nonzero_coefs=n_nonzero, n_jobs=-1, random_state=SEED)
baseline = make_pipeline(ksvd, LogisticRegression(C=100, max_iter=1000))
lines.append(
    evaluate("K-SVD, then a classifier", lambda: baseline.fit(X_train, y_train))
)
plain = LogisticRegression(C=100, max_iter=1000)
lines.append(
    evaluate("logistic regression on the pixels", lambda: plain.fit(X_train, y_train))
)

print(
    f"On {len(X_test)} other images, with {n_atoms} atoms, and but for the default "
    f"at most {n_nonzero} of them in a code:\n"
)
print(f"{'':46}{'test error':>10}{'fit':>9}")
print("\n".join(lines))
print(
    "\n(The first fit on a machine compiles, which takes some seconds; run it again.)"
)
