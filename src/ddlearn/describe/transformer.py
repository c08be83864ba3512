"""A transformer of scikit-learn as a description."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from ..model.codes import Flags, Floats
from ..parallel import Parts
from .base import Description, Rows


class Transformed(Description):
    """Scales by a transformer of scikit-learn, which is fitted to the training samples.

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

    sees_all = True

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

    def count_features(self, n_features: int) -> int:
        return self.apply(np.zeros((1, n_features))).shape[1]

    def apply(self, X: Floats, sizes: Floats | None = None) -> Floats:
        return np.ascontiguousarray(self.transformer.transform(X), dtype=X.dtype)

    def apply_to_known(self, X: Floats, is_known: Flags, sizes: Floats) -> tuple[Floats, Flags]:
        scaled = self.apply(X)
        if scaled.shape != is_known.shape:
            if not is_known.all():
                raise ValueError(
                    f"{self.transformer!r} makes {scaled.shape[1]} features of {X.shape[1]}, so that none is known if "
                    "one is missing: impute missing features, or use description='standard'."
                )
            return scaled, np.ones(scaled.shape, bool)
        return np.where(is_known, scaled, scaled.dtype.type(0)), is_known

    def invert(self, scaled: Floats, sizes: Floats | None = None) -> Floats:
        return np.ascontiguousarray(self.transformer.inverse_transform(scaled), dtype=scaled.dtype)
