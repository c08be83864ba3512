"""The baseline is K-SVD and then classifiers."""

import numpy as np
import pytest
from reproduction.baseline import CodeClassifier, lay_out, make_baseline
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import normalize

from ddlearn import KSVD, LogitBoost
from ddlearn.classifiers.problem import LabelledCodes, scale_ridge
from ddlearn.model.losses import LOSSES


@pytest.mark.parametrize("loss", sorted(LOSSES))
def test_the_baseline_classifies_digits(loss):
    X, y = load_digits(return_X_y=True)
    model = make_baseline(80, loss=loss, max_iter=5, random_state=0).fit(normalize(X)[:1000], y[:1000].astype(str))
    assert model.score(normalize(X)[1000:], y[1000:].astype(str)) > 0.8


def test_code_classifier_equals_logistic_regression_at_the_same_penalty():
    X, y = load_digits(return_X_y=True)
    codes = KSVD(40, max_iter=2, random_state=0).fit_transform(normalize(X))
    trainer = LogitBoost(ridge=1e-2, max_rounds=100, tol=1e-12)
    model = CodeClassifier("logistic", classifier_trainer=trainer).fit(codes, y == 3)
    labels = np.where(y[:, None] == 3, 1.0, -1.0)
    norms = LabelledCodes(lay_out(codes), labels).summarise(40).squared_norms
    penalty = scale_ridge(trainer.ridge, LOSSES["logistic"](), norms)[0]
    expected = LogisticRegression(C=1 / penalty, tol=1e-10, max_iter=10_000).fit(codes, y == 3)
    np.testing.assert_allclose(model.coef_[1], expected.coef_[0], atol=1e-3)
    np.testing.assert_allclose(model.coef_[0], -model.coef_[1], atol=1e-6)
