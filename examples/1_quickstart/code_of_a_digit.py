"""
The code of a digit
===================

A sparse code says which atoms of a dictionary a sample is made of, and how much of
each.  Here the atoms are digits themselves, one in nine of scikit-learn's, and a digit
that is not among them is written as a sum of five.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from ddlearn import sparse_encode

digits = load_digits()
X = normalize(digits.data)
is_atom = np.arange(len(X)) % 9 == 0
atoms, samples = X[is_atom], X[~is_atom]
atom_labels, sample_labels = digits.target[is_atom], digits.target[~is_atom]

# %%
# Coding
# ------
#
# ``sparse_encode`` returns a sparse matrix with one row a sample.  ``"ormp"``,
# orthogonal least squares, adds the atom that lowers the residual most, one at a time,
# and then fits all coefficients anew.

SHOWN = 10
code = sparse_encode(samples[[SHOWN]], atoms, n_nonzero_coefs=5, method="ormp")
rebuilt = (code @ atoms)[0]
residual = np.sum((samples[SHOWN] - rebuilt) ** 2)  # the digit itself has a norm of 1
print(
    f"A {sample_labels[SHOWN]} out of {len(atoms)} atoms, of which {code.nnz} are used:"
)
for atom, value in zip(code.indices, code.data, strict=True):
    print(f"  {value:+.2f} x atom {atom}, a {atom_labels[atom]}")
print(f"What is left over has {residual:.1%} of the digit's energy.")

# %%
# The picture
# -----------
#
# Red is positive, blue is negative.  Digits and these atoms have no negative pixels;
# but two of the atoms are taken away, and so the sum has some.

MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"


def draw(axes: plt.Axes, image: np.ndarray, title: str) -> None:
    """Show one image of 8 x 8 pixels."""
    limit = np.abs(image).max()
    axes.imshow(image.reshape(8, 8), cmap="RdBu_r", vmin=-limit, vmax=limit)
    axes.set_title(title, fontsize=11)
    axes.set_xticks([])
    axes.set_yticks([])


figure, panels = plt.subplots(1, code.nnz + 2, figsize=(11, 1.9), layout="tight")
draw(panels[0], samples[SHOWN], "a digit")
for axes, atom, value, sign in zip(
    panels[1:], code.indices, code.data, "≈++++", strict=False
):
    draw(axes, atoms[atom], f"{sign if value > 0 else MINUS} {abs(value):.2f} {TIMES}")
draw(panels[-1], rebuilt, "= its code")
plt.show()
