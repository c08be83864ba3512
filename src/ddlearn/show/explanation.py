"""Why samples got their classes: the parts of a sample, as a table in notebooks, and for the plots of shap."""

from __future__ import annotations

from html import escape
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ..model.codes import Flags, Floats

_MOST_ROWS, _MOST_VOTES = 10, 6  # of the table


class Explanation(NamedTuple):
    r"""Why samples got their classes: the parts of :math:`y \circ \tau = D^T x + e + n`, in the units of the samples.

    Parameters
    ----------
    samples : ndarray of shape (n_samples, n_features)
        The samples as they were coded: after alignment, with zeros in place of missing features.
    codes : csr_array of shape (n_samples, n_components)
        The label-free codes, the paper's x; the full rule starts from them.
    reconstruction : ndarray of shape (n_samples, n_features)
        The samples that the codes represent.
    error : ndarray of shape (n_samples, n_features)
        The gross errors found, the paper's e: sample less reconstruction where a feature is wrong, 0 elsewhere.
    is_missing : ndarray of shape (n_samples, n_features)
        The missing features.
    is_used : ndarray of shape (n_samples, n_features)
        The features that the codes were fitted to; the search for errors leaves out more than it calls wrong.
    evidence : ndarray of shape (n_samples, n_classes)
        The evidence for each class.
    norms : ndarray of shape (n_samples,)
        By what the description has divided the samples: their norms for "unit", 1 otherwise.
    transforms : ndarray of shape (n_samples, 2, 3) or None
        The affine maps found by alignment: a pixel at (u, v) from the centre of the image, columns first, shows what
        was at ``transforms[i] @ (u, v, 1)``.
    coef : ndarray of shape (n_classes, n_components)
        The classifiers: a coefficient of a code times ``coef[j]`` is its vote for class j.
    intercept : ndarray of shape (n_classes,)
        Their intercepts; votes and intercept add up to the score of a class.
    classes : ndarray of shape (n_classes,)
        The classes.

    Notes
    -----
    Notebooks show an explanation as a table; :meth:`to_shap` makes one that the plots of shap take.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ddlearn import DDLClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DDLClassifier(n_components=100, random_state=0).fit(X[100:], y[100:])
    >>> broken = X[:1].copy()
    >>> broken[0, :8] = 30.0  # the upper row of the image
    >>> found = model.set_params(robustness=0.2).explain(broken)
    >>> bool((found.error[0, :8] > 10).all())
    True
    """

    samples: Floats
    codes: csr_array
    reconstruction: Floats
    error: Floats
    is_missing: Flags
    is_used: Flags
    evidence: Floats
    norms: Floats
    transforms: Floats | None
    coef: Floats
    intercept: Floats
    classes: NDArray[Any]

    def to_shap(self) -> Any:
        """Return the votes of the atoms as a ``shap.Explanation``, whose values and base value add up to scores.

        Returns
        -------
        shap.Explanation
            Values of shape (n_samples, n_components, n_classes), with codes as data and atoms as features.
        """
        try:
            import shap
        except ImportError as error:
            raise ImportError("to_shap needs shap: pip install shap.") from error
        codes = self.codes.toarray()
        return shap.Explanation(
            values=codes[:, :, None] * self.coef.T,
            base_values=np.tile(self.intercept, (len(codes), 1)),
            data=codes,
            feature_names=[f"atom {atom}" for atom in range(codes.shape[1])],
            output_names=[str(name) for name in self.classes],
        )

    def _repr_html_(self) -> str:
        """Return a table of the first samples, for notebooks."""
        header = "".join(
            f"<th>{name}</th>" for name in ("sample", "class", "runner-up", "margin", "atoms and their votes")
        )
        rows = "".join(self._make_html_row(row) for row in range(min(len(self.evidence), _MOST_ROWS)))
        n_more = len(self.evidence) - _MOST_ROWS
        more = f"<p>and {n_more:,} more samples</p>" if n_more > 0 else ""
        return f"<table><thead><tr>{header}</tr></thead><tbody>{rows}</tbody></table>{more}"

    def _make_html_row(self, row: int) -> str:
        best, second = np.argsort(-self.evidence[row], kind="stable")[:2]
        code = self.codes[[row]]
        votes = code.data * self.coef[best, code.indices]
        strongest = np.argsort(-np.abs(votes), kind="stable")[:_MOST_VOTES]
        told = ", ".join(f"{code.indices[place]}: {votes[place]:+.3g}" for place in strongest)
        told += f" and {len(votes) - _MOST_VOTES} more" if len(votes) > _MOST_VOTES else ""
        names = (escape(str(self.classes[place])) for place in (best, second))
        margin = f"{self.evidence[row, best] - self.evidence[row, second]:.3g}"
        return "<tr>" + "".join(f"<td>{cell}</td>" for cell in (row, *names, margin, told)) + "</tr>"
