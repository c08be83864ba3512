"""A transformer of scikit-learn as a description."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from ..model.codes import Floats
from ..parallel import Parts
from .base import Description, Rows


class Transformed(Description):
    """Describes samples by a transformer of scikit-learn, which is fitted to the training samples.

    Where it centres the samples, nothing is put in place of the origin, as :class:`Standard` does.  Model files hold
    scikit-learn's scalers, such as ``MinMaxScaler``, and no other transformers.

    Parameters
    ----------
    transformer : object
        With ``fit``, ``transform`` and ``inverse_transform``.

    Examples
    --------
    >>> from sklearn.preprocessing import MinMaxScaler
    >>> from ddlearn import DDLClassifier
    >>> model = DDLClassifier(description=MinMaxScaler(), random_state=0)
    >>> model = model.fit([[0, 1], [2, 3], [9, 1], [9, 2]], [0, 0, 1, 1])
    >>> model.description_
    Transformed(transformer=MinMaxScaler())
    """

    needs_all_samples = True

    def __init__(self, transformer: Any):
        self.transformer = transformer

    def check_parameters(self) -> None:
        missing = [name for name in ("fit", "transform", "inverse_transform") if not hasattr(self.transformer, name)]
        if missing:
            raise TypeError(
                f"description={self.transformer!r} has no {' and no '.join(missing)}: use 'auto', 'unit', 'standard', "
                "None, or a transformer that can be inverted, so that atoms and reconstructions can be shown."
            )

    def learn(self, parts: Parts[Rows]) -> Transformed:
        X = np.concatenate([rows.X for rows in parts.gather()])
        return Transformed(clone(self.transformer).fit(X))  # which takes NaN, or says that it does not

    def apply(self, X: Floats) -> Floats:
        return np.ascontiguousarray(self.transformer.transform(X), dtype=X.dtype)

    def invert(self, rows: Floats) -> Floats:
        is_lost = np.isnan(rows)
        rows = np.where(is_lost, rows.dtype.type(0), rows)  # since some transformers take NaN, but not back
        samples = np.array(self.transformer.inverse_transform(rows), dtype=rows.dtype, order="C")
        samples[is_lost if samples.shape == rows.shape else is_lost.any(axis=1)] = np.nan
        return samples
