"""With the libraries that users have beside this one: a short example of each, skipped where one is missing."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from conftest import make_pursuit
from modes import draw_samples
from sklearn import config_context
from sklearn.model_selection import cross_validate

X, y = draw_samples()


def make_model(**parameters):
    return make_pursuit(9, max_iter=1, random_state=0, **parameters)


def test_metadata_routing():
    weight = np.where(y == 0, 9.0, 1.0)
    with config_context(enable_metadata_routing=True):
        weighted = make_model().set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        found = cross_validate(weighted, X, y, cv=2, params={"sample_weight": weight}, return_estimator=True)
        plain = cross_validate(make_model(), X, y, cv=2, return_estimator=True)
    pairs = zip(found["estimator"], plain["estimator"], strict=True)
    assert all(not np.allclose(ours.coef_, other.coef_) for ours, other in pairs)


def test_polars_in_and_out():
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(X, schema=[f"x{j}" for j in range(X.shape[1])])
    model = make_model().fit(frame, polars.Series("kind", y))
    assert model.feature_names_in_[1] == "x1"
    assert model.target_name_ == "kind"
    np.testing.assert_array_equal(model.predict(frame), make_model().fit(X, y).predict(X))
    codes = model.set_output(transform="polars").transform(frame)
    assert isinstance(codes, polars.DataFrame)
    assert codes.columns[0] == "ddlclassifier0"


def test_pandas_frames_out():
    pandas = pytest.importorskip("pandas")
    codes = make_model().fit(X, y).set_output(transform="pandas").transform(X)
    assert isinstance(codes, pandas.DataFrame)
    assert codes.shape == (len(X), 9)


def test_skops_names_what_it_has_to_trust():
    io = pytest.importorskip("skops.io")
    model = make_model().fit(X, y)
    data = io.dumps(model)
    types = io.get_untrusted_types(data=data)
    assert all(name.startswith(("ddlearn.", "scipy.sparse.")) for name in types)
    np.testing.assert_array_equal(io.loads(data, trusted=types).predict_proba(X), model.predict_proba(X))


def test_prediction_sets_of_mapie():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own imports
        classification = pytest.importorskip("mapie.classification")
        conformal = classification.SplitConformalClassifier(make_model().fit(X, y), confidence_level=0.9, prefit=True)
        conformal.conformalize(X[:60], y[:60])
        _, sets = conformal.predict_set(X[60:])
    covered = sets[np.arange(60), y[60:], 0]
    assert covered.mean() > 0.7


def test_votes_for_shap():
    pytest.importorskip("shap", exc_type=ImportError)
    model = make_model().fit(X, y)
    found = model.explain(X[:5])
    votes = found.to_shap()
    assert votes.values.shape == (5, 9, 3)
    scores = votes.values.sum(axis=1) + votes.base_values
    np.testing.assert_allclose(scores, found.codes @ model.coef_.T + model.intercept_)
    saved = (model.loss_.value(-scores) - model.loss_.value(scores)) / model.class_cost_
    np.testing.assert_allclose(saved, found.evidence)
    assert votes.output_names == ["0", "1", "2"]


def test_notebooks_show_explanations():
    names = np.array(["<b>", "oak & elm", "pine"])
    model = make_model().fit(X, names[y])
    html = model.explain(X[:12])._repr_html_()
    assert "oak &amp; elm" in html
    assert "<b>" not in html
    assert html.count("<tr>") == 11
    assert "and 2 more samples" in html


@pytest.mark.parametrize("method", ["fit", "predict", "transform"])
def test_images_are_told_how_to_become_rows(method):
    images = X.reshape(len(X), 3, 4)
    model = make_model() if method == "fit" else make_model().fit(X, y)
    arguments = (images, y) if method == "fit" else (images,)
    with pytest.raises(ValueError, match=r"X\.reshape\(len\(X\), -1\) and image_shape=\(3, 4\)"):
        getattr(model, method)(*arguments)


def test_a_mark_of_scikit_learn_is_no_class():
    marked = np.where(np.arange(len(y)) % 4 == 0, -1, y)
    with pytest.warns(UserWarning, match="y contains -1.*unlabeled=-1"):
        make_model().fit(X, marked)
    make_model(unlabeled=-1).fit(X, marked)
    make_model().fit(X, np.where(y > 0, 1, -1))  # two classes by their signs


def test_many_atoms_for_few_samples_are_told():
    with pytest.warns(UserWarning, match=r"n_components=130 is more than 20 atoms for each of the 6 labelled samples"):
        make_pursuit(130, max_iter=0, random_state=0).fit(X[:6], y[:6])
