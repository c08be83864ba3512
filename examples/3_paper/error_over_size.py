"""
Error over the size of the dictionary
=====================================

Figures 2 and 3 of the paper are the test error of the baseline and of DDL on USPS over
the number of atoms (K) and the number of atoms in a code (T), one panel per loss.
``python -m reproduction usps`` makes them in half an hour.  Here is the same for the
square loss on scikit-learn's digits, which need no file, with fewer sizes.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import matplotlib.pyplot as plt
from reproduction.cells import Runner
from reproduction.usps_grid import choose, list_choices, measure_grid

TITLES = {"baseline": "baseline: K-SVD, then classifiers", "ddl": "DDL"}

# %%
# Measuring
# ---------
#
# Every model is fitted to 1000 digits and tried on 797 others; cross-validation inside
# the 1000 gives the error by which K and T may be chosen.  Each finished cell of the
# grid is kept in a file.  Name a folder of your own instead of a temporary one, and a
# second run reads them, or an interrupted one goes on.

with TemporaryDirectory() as folder:
    records = measure_grid(
        Runner(Path(folder), n_jobs=-1),
        dataset="digits",
        sizes=(50, 100, 200, 400),
        budgets=(1, 2, 5),
        losses=("square",),
    )

# %%
# What comes out
# --------------
#
# "Chosen" is the setting of least error in cross-validation, and its test error.  The
# paper reports the smallest test error of its grid instead, which is too good by
# construction, as the same data chose and judged.  And this is one split of a small
# data set: one test image more or less is 0.13 %, and which of two close settings is
# ahead is chance.

for method, title in TITLES.items():
    chosen, smallest = (
        choose(records, method, "square", by)
        for by in ("validation_error", "test_error")
    )
    print(f"{title:34} chosen {chosen.describe()}    smallest {smallest.describe()}")

# %%
# Dots are models, a line is a T; the ring is the chosen one.  More atoms help both
# methods.  With few atoms and short codes, learning atoms and classifiers together
# helps most: that is where the baseline's atoms, which do not know the classes, have to
# do two things at once.  By what cross-validation chose, the baseline is ahead here: it
# did not foresee how well DDL does with T = 1 on these test images.

figure, panels = plt.subplots(1, 2, figsize=(9.5, 4), sharey=True, layout="constrained")
for axes, (method, title) in zip(panels, TITLES.items(), strict=True):
    grid = list_choices(records, method, "square")
    for budget in sorted({choice.n_nonzero_coefs for choice in grid}):
        line = [choice for choice in grid if choice.n_nonzero_coefs == budget]
        sizes, errors = (
            [choice.n_components for choice in line],
            [choice.test_error for choice in line],
        )
        axes.plot(sizes, errors, "o-", label=f"T = {budget}")
    chosen = choose(records, method, "square")
    axes.plot(
        chosen.n_components,
        chosen.test_error,
        "o",
        ms=14,
        mfc="none",
        mec="black",
        label="chosen",
    )
    axes.set_title(title)
    axes.set_xlabel("atoms (K)")
    axes.set_xscale("log")
    axes.set_xticks(sizes, sizes)
    axes.set_xticks([], minor=True)
panels[0].set_ylabel("test error (%)")
panels[0].set_ylim(bottom=0)
panels[1].legend()
plt.show()
