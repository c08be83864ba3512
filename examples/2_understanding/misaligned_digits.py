"""
Digits out of place
===================

A dictionary of digits knows them where the training images had them.  A digit that is a
pixel further to the left is something else to it.  ``alignment`` registers each new
image to the dictionary while it is coded: the image may move, if that makes it cheaper
to explain.

The digits are those of scikit-learn, of 8 x 8 pixels; the picture above this page in
the gallery has digits of USPS, drawn by ``python -m reproduction pictures``.
"""

# sphinx_gallery_thumbnail_path = 'images/misaligned_digits.png'
from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from ddlearn import DDLClassifier
from ddlearn.coding.alignment import warp_images
from ddlearn.datasets import load_digits_images

X, y = load_digits_images(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X, y, train_size=1000, stratify=y, random_state=0
)
side = 8
print(f"{len(X_train)} images to learn from, {len(X_test)} others to test with")

# %%
# With and without alignment
# --------------------------
#
# The model is fitted as ever; ``alignment`` says how new images are treated, and can be
# changed after the fit.  The test images are tried as they are, and moved by up to a
# pixel along columns and along rows, each its own way.

maps = np.tile(np.eye(2, 3), (len(X_test), 1, 1))
maps[:, :, 2] = np.random.default_rng(0).uniform(-1, 1, (len(X_test), 2))
moved = normalize(warp_images(X_test, maps, (side, side))[0])

model = DDLClassifier(image_shape=(side, side), random_state=0, n_jobs=-1).fit(
    normalize(X_train), y_train
)
labels = {}
for alignment in (None, "translation", "affine"):
    labels[alignment] = model.set_params(alignment=alignment).predict(moved)
    errors = (
        1 - model.score(normalize(X_test), y_test),
        np.mean(labels[alignment] != y_test),
    )
    print(
        f"alignment={alignment!s:12} error {errors[0]:6.2%}, "
        f"digits moved by up to a pixel {errors[1]:6.2%}"
    )

# %%
# The first column is what alignment does to images that are in place already: on some
# data it costs a little there.  ``"affine"`` can also turn, stretch and shear, which is
# more than these images need.
#
# Where they went
# ---------------
#
# The first moved digit of each class: as it comes, as it was registered by translation,
# and what the model makes of it.  Above is the label without and with alignment.

shown = np.unique(y_test, return_index=True)[1]
found = model.set_params(alignment="translation").explain(moved[shown])
rows = {
    "moved": moved[shown],
    "registered": found.samples,
    "rebuilt": found.reconstruction,
}
figure, panels = plt.subplots(
    len(rows), len(shown), figsize=(11, 4), layout="constrained"
)
for line, (title, images) in zip(panels, rows.items(), strict=True):
    for axes, image in zip(line, images, strict=True):
        axes.imshow(image.reshape(side, side), cmap="gray_r", vmin=0)
        axes.set_xticks([])
        axes.set_yticks([])
    line[0].set_ylabel(title, fontsize=13)
for axes, position in zip(panels[0], shown, strict=True):
    before, after, truth = (
        labels[None][position],
        labels["translation"][position],
        y_test[position],
    )
    color = "tab:red" if after != truth else "tab:green" if before != truth else "black"
    axes.set_title(f"{before} → {after}", color=color)
figure.suptitle("Label without and with alignment (green: mended, red: wrong)")
plt.show()
