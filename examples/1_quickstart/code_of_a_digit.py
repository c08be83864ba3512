"""Draw a digit, the atoms of its code and their sum. Needs matplotlib; writes docs/images/code_of_a_digit.png."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from ddlearn import sparse_encode

N_NONZERO_COEFS = 5
MINUS, TIMES = "\N{MINUS SIGN}", "\N{MULTIPLICATION SIGN}"
TARGET = Path(__file__).parents[2] / "docs" / "images" / "code_of_a_digit.png"


def draw(axis: plt.Axes, image: np.ndarray, title: str) -> None:
    """Show one image of 8 x 8 pixels."""
    limit = np.abs(image).max()
    axis.imshow(image.reshape(8, 8), cmap="RdBu_r", vmin=-limit, vmax=limit)
    axis.set_title(title, fontsize=11)
    axis.set_xticks([])
    axis.set_yticks([])


def main() -> None:
    """Code a digit that is not an atom itself."""
    X = normalize(load_digits().data)
    atoms, samples = X[::9], np.delete(X, np.s_[::9], axis=0)
    sample = samples[[10]]
    code = sparse_encode(sample, atoms, n_nonzero_coefs=N_NONZERO_COEFS, method="ormp")

    figure, axes = plt.subplots(1, N_NONZERO_COEFS + 2, figsize=(11, 1.9))
    draw(axes[0], sample[0], "a digit")
    for axis, atom, value, sign in zip(axes[1:], code.indices, code.data, "≈++++", strict=False):
        draw(axis, atoms[atom], f"{sign if value > 0 else MINUS} {abs(value):.2f} {TIMES}")
    draw(axes[-1], (code @ atoms)[0], "= its code")
    figure.tight_layout()
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(TARGET, dpi=110)


if __name__ == "__main__":
    main()
