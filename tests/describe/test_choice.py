"""Names, objects and transformers as descriptions, and the choice by nearest neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from described import in_parts, quick
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.preprocessing import Normalizer, StandardScaler

from ddlearn import Identity, Standard, UnitNorm
from ddlearn.describe.choice import DESCRIPTIONS, choose_description
from ddlearn.describe.transformer import Transformed


@pytest.mark.parametrize(
    ("read", "expected"), [(load_digits, UnitNorm), (load_wine, Standard), (load_breast_cancer, Standard)]
)
def test_auto_takes_unit_norm_for_images_and_standardises_tables(read, expected):
    X, y = read(return_X_y=True)
    parts = in_parts(X, y)
    assert type(choose_description(parts, len(X), are_images=False)) is expected
    assert type(choose_description(parts, len(X), are_images=True)) is UnitNorm


def test_auto_ignores_samples_without_labels_and_does_with_none():
    X, y = load_wine(return_X_y=True)
    model = quick(unlabeled=-1).fit(X, np.where(np.arange(len(y)) % 3, y, -1))
    assert isinstance(model.description_, Standard)
    multilabel = (y[:, None] == np.arange(3)).astype(int)
    assert isinstance(quick().fit(X, multilabel).description_, Standard)


def test_objects_names_and_transformers_are_descriptions():
    standard = Standard(0.5)
    assert DESCRIPTIONS.resolve(standard) is standard
    assert isinstance(DESCRIPTIONS.resolve(None), Identity)
    assert isinstance(DESCRIPTIONS.resolve(StandardScaler()), Transformed)
    with pytest.raises(ValueError, match="Did you mean 'unit'"):
        DESCRIPTIONS.resolve("units")
    with pytest.raises(TypeError, match=r"no inverse_transform: use 'auto', 'unit'"):
        DESCRIPTIONS.resolve(Normalizer())
    with pytest.raises(ValueError, match="constant"):
        DESCRIPTIONS.resolve(Standard(-1.0))
