"""Transformers of scikit-learn as descriptions: what they may refuse, and what files hold of them."""

from __future__ import annotations

import numpy as np
import pytest
from described import draw_table, quick
from sklearn.datasets import load_wine
from sklearn.preprocessing import FunctionTransformer, PowerTransformer

from ddlearn import save


@pytest.mark.parametrize("transformer", [PowerTransformer("box-cox"), FunctionTransformer(np.log, np.exp)], ids=str)
@pytest.mark.parametrize("refine", [None, 1])
def test_a_transformer_may_refuse_what_is_not_positive(transformer, refine):
    X, y = load_wine(return_X_y=True)  # whose values are; a row of zeros was transformed to count features
    model = quick(description=transformer, refine=refine).fit(X, y)
    assert model.score(X, y) > 0.8
    np.testing.assert_allclose(model.explain(X).samples, X, rtol=1e-6)


def test_files_do_not_hold_other_transformers(tmp_path):
    X, y = draw_table()
    with pytest.raises(
        ValueError, match=r"describes samples by PowerTransformer\(\), while files hold MaxAbsScaler, .* use"
    ):
        save(quick(description=PowerTransformer()).fit(X, y), tmp_path / "model.safetensors")
