"""A saved pipeline predicts what the pipeline predicts, or its step that cannot be saved is named."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_pursuit
from modes import draw_samples
from sklearn.decomposition import PCA
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, Normalizer, RobustScaler, StandardScaler

from ddlearn import load, save


@pytest.fixture(scope="module")
def samples():
    X, y = draw_samples()
    return 10 * X + np.arange(X.shape[1]), y


@pytest.mark.parametrize("description", ["standard", None])
@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler()],
        [StandardScaler(with_mean=False)],
        [MinMaxScaler(), "passthrough"],
        [MaxAbsScaler(), RobustScaler(with_centering=False)],
        [RobustScaler(), StandardScaler(with_std=False)],
    ],
    ids=str,
)
def test_scalers_become_part_of_the_model(samples, tmp_path, steps, description):
    X, y = samples
    pipeline = make_pipeline(*steps, make_pursuit(9, max_iter=1, description=description, random_state=0)).fit(X, y)
    before = pipeline[-1].description_
    save(pipeline, tmp_path / "m")
    np.testing.assert_allclose(load(tmp_path / "m").predict_proba(X), pipeline.predict_proba(X), rtol=1e-6, atol=1e-9)
    assert pipeline[-1].description_ is before


def test_unit_norm_and_names(samples, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = samples
    frame = pandas.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    pipeline = make_pipeline(Normalizer(), make_pursuit(9, max_iter=1, description="unit", random_state=0)).fit(
        frame, y
    )
    save(pipeline, tmp_path / "m")
    np.testing.assert_array_equal(load(tmp_path / "m").predict(frame), pipeline.predict(frame))


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (
            [PCA(3), make_pursuit(6, max_iter=1)],
            r"The step 'pca' of the pipeline, PCA.* leave it to the model",
        ),
        ([MinMaxScaler(clip=True), make_pursuit(6, max_iter=1)], "The step 'minmaxscaler'"),
        (
            [StandardScaler(), make_pursuit(6, max_iter=1, description="unit")],
            "by UnitNorm after the step 'standardscaler'",
        ),
        (
            [StandardScaler(), LogisticRegression()],
            "The last step of the pipeline is LogisticRegression.*, not a DDLClassifier",
        ),
    ],
    ids=str,
)
def test_what_cannot_be_saved_is_named(samples, tmp_path, steps, message):
    pipeline = make_pipeline(*steps).fit(*samples)
    with pytest.raises(TypeError, match=message):
        save(pipeline, tmp_path / "m")
    assert not (tmp_path / "m").exists()
