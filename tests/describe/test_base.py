"""What every description keeps to, those of users too: rows, the way back, missing features, and models of them."""

from __future__ import annotations

import pickle

import dask.array as da
import numpy as np
import pytest
from described import TwoSided, draw_table, learn, quick
from distributed import Client
from sklearn.base import clone
from sklearn.preprocessing import MinMaxScaler, QuantileTransformer, normalize

from ddlearn import KSVD, DDLClassifier, Refiner, Robustness, load, save, write_report
from ddlearn.describe.base import describe, describe_known
from ddlearn.describe.choice import DESCRIPTIONS, is_learned_from, make_description
from ddlearn.describe.missing import describe_and_fill

SHAPE = (3, 2)
TABLE = [*DESCRIPTIONS, None, MinMaxScaler(), QuantileTransformer(n_quantiles=20), TwoSided()]
LEARNED = [kind for kind in TABLE if make_description(kind, SHAPE).learned]
# Those from which samples can be had again, and whose features may be missing.
TO_AND_FRO = [kind for kind in TABLE if kind != "gradients"]
every = pytest.mark.parametrize("kind", TABLE, ids=str)
each_way = pytest.mark.parametrize("kind", TO_AND_FRO, ids=str)
both_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@both_dtypes
@every
def test_rows_have_the_precision_of_the_samples_and_each_depends_on_its_sample_alone(kind, dtype):
    X, y = draw_table(dtype=dtype)
    before = X.copy()
    description = learn(kind, X, y, image_shape=SHAPE)
    rows = description.apply(X)
    assert rows.dtype == dtype
    assert rows.shape == (len(X), description.count_features(X.shape[1]))
    np.testing.assert_allclose(np.vstack([description.apply(X[[i]]) for i in range(9)]), rows[:9], rtol=1e-5, atol=1e-6)
    described, energies = describe(description, X)
    np.testing.assert_array_equal(described, rows)
    np.testing.assert_allclose(energies, np.vecdot(rows, rows))
    np.testing.assert_array_equal(X, before)


@every
def test_what_is_learned_is_another_object_that_copies_and_travels(kind):
    X, y = draw_table()
    new = make_description(kind, SHAPE)
    parameters = repr(new.get_params())
    learned = learn(new, X, y)
    assert repr(new.get_params()) == parameters
    for copy in (clone(learned, safe=False) if learned.learned else learned, pickle.loads(pickle.dumps(learned))):
        np.testing.assert_array_equal(copy.apply(X), learned.apply(X))


@pytest.mark.parametrize("kind", LEARNED, ids=str)
def test_what_is_learned_does_not_depend_on_how_samples_are_cut(kind):
    X, y = draw_table()
    X += 1e6  # sums of squares would lose all digits of the first column
    whole, parts = learn(kind, X, y, 1000), learn(kind, X, y, 7)
    assert whole.learned
    for name in whole.learned:
        assert getattr(whole, name).shape == (X.shape[1],)
        np.testing.assert_allclose(getattr(parts, name), getattr(whole, name), rtol=1e-8)


@every
def test_training_samples_are_told_in_any_order_by_what_was_learned(kind):
    X, y = draw_table()
    description = learn(kind, X, y, image_shape=SHAPE)
    assert is_learned_from(description, X[::-1]) == bool(description.learned)
    assert not is_learned_from(description, X[:150])


@each_way
def test_inversion_undoes_the_description(kind):
    X, y = draw_table()
    description = learn(kind, X, y)
    rows = description.apply(X)
    np.testing.assert_allclose(description.measure_norms(X) * description.invert(rows), X, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", [kind for kind in TO_AND_FRO if not isinstance(kind, QuantileTransformer)], ids=str)
def test_what_a_combination_of_atoms_shows_is_the_sum_of_what_each_of_them_shows(kind):
    X, y = draw_table()
    description = learn(kind, X, y)
    atoms = description.apply(X[:3])
    shown = description.invert(np.sum(atoms, axis=0)[None]) - description.invert(0 * atoms[:1])
    np.testing.assert_allclose(np.sum(description.show(atoms), axis=0), shown[0], rtol=1e-9, atol=1e-6)


@each_way
def test_missing_features_are_missing_in_rows_and_on_the_way_back(kind):
    X, y = draw_table()
    description = learn(kind, X, y)
    is_known = np.random.default_rng(0).random(X.shape) < 0.7
    zeroed = np.where(is_known, X, 0)
    rows, is_known_row = describe_known(description, zeroed, is_known, remedy="")
    np.testing.assert_array_equal(np.isnan(description.invert(np.where(is_known_row, rows, np.nan))), ~is_known)
    assert np.isfinite(rows).all()
    filled, is_filled = describe_and_fill(description, np.where(is_known, X, np.nan))  # as training samples are
    np.testing.assert_array_equal(is_filled, is_known_row)
    np.testing.assert_array_equal(filled[is_filled], rows[is_known_row])
    assert describe_and_fill(description, X)[1] is None


@every
def test_numbers_for_other_languages_define_the_rows(kind):
    X, y = draw_table()
    description = learn(kind, X, y, image_shape=SHAPE)
    numbers = description.export()
    if numbers is None:
        assert kind not in (None, "unit", "standard")
        return
    rows = (X - numbers.get("mean", 0)) / np.where(numbers.get("spread", 1), numbers.get("spread", 1), np.inf)
    rows = normalize(rows) if "energy" in numbers else rows
    constant = np.tile(numbers.get("constant", []), (len(X), 1))
    np.testing.assert_allclose(np.hstack([rows, constant]), description.apply(X), rtol=1e-9, atol=1e-12)


# -- models ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [*TO_AND_FRO, "auto"], ids=str)
@both_dtypes
def test_explanations_are_in_the_units_of_the_samples(kind, dtype):
    X, y = draw_table(dtype=dtype)
    model = quick(description=kind).fit(X, y)
    found = model.explain(X)
    assert found.samples.dtype == found.reconstruction.dtype == dtype
    tolerance = {"rtol": 1e-3, "atol": 1e-2} if dtype is np.float32 else {"rtol": 1e-7, "atol": 1e-7}
    np.testing.assert_allclose(found.samples, X, **tolerance)
    assert found.reconstruction.shape == found.error.shape == found.is_missing.shape == found.is_used.shape == X.shape
    of_codes = model.inverse_transform(found.codes) * found.norms[:, None]
    np.testing.assert_allclose(found.reconstruction, of_codes, **tolerance)
    assert (model.transform(X) != found.codes).nnz == 0


@each_way
def test_missing_and_wrong_features_of_new_samples_are_those_of_rows(kind):
    X, y = draw_table()
    model = quick(description=kind, robustness=Robustness(0.2, missing="mask")).fit(X, y)
    broken = np.where(np.arange(X.size).reshape(X.shape) % 7 == 0, np.nan, X)
    found = model.explain(broken)
    np.testing.assert_array_equal(found.is_missing, np.isnan(broken))
    assert not found.samples[found.is_missing].any()
    np.testing.assert_allclose(found.samples[~found.is_missing], X[~found.is_missing], rtol=1e-7, atol=1e-7)
    assert not (found.error[found.is_missing]).any()
    by_mask = model.decision_function(np.where(np.isnan(broken), 1e5, X), np.isnan(broken))
    np.testing.assert_array_equal(by_mask, found.evidence[:, 1] - found.evidence[:, 0])


@each_way
def test_a_sample_of_which_nothing_is_known_gets_the_class_frequencies(kind):
    X, y = draw_table()
    model = quick(description=kind, robustness=Robustness(missing="mask")).fit(X, y)
    X[3] = np.nan
    with pytest.warns(UserWarning, match=r"In 1 sample\(s\) all features are missing"):
        found = model.explain(X)
    np.testing.assert_allclose(found.evidence[3], np.log(model.class_prior_))
    assert found.is_missing[3].all()
    assert not found.codes[[3]].nnz


@every
def test_files_hold_the_description(kind, tmp_path):
    X, y = draw_table()
    model = quick(description=kind, image_shape=SHAPE).fit(X, y)
    save(model, tmp_path / "m")
    restored = load(tmp_path / "m", **({"description": TwoSided()} if isinstance(kind, TwoSided) else {}))
    assert repr(restored.description_) == repr(model.description_)
    np.testing.assert_array_equal(restored.predict_proba(X), model.predict_proba(X))


def test_a_description_of_a_user_is_learned_refined_and_shown(tmp_path):
    X, y = draw_table()
    X -= X.mean(axis=0)
    model = DDLClassifier(20, description=TwoSided(), refine=Refiner(1), random_state=0).fit(X, y)
    assert model.components_.shape == (20, 12)
    assert model.score(X, y) > 0.9
    assert "TwoSided" in str(model.summary(X, y))
    write_report(model, tmp_path / "page.html", X, y)
    assert (tmp_path / "page.html").stat().st_size > 10_000


@pytest.mark.parametrize("kind", ["gradients", TwoSided()], ids=str)
def test_on_a_cluster_features_are_counted_where_the_rows_are(kind):
    X, y = draw_table()
    model = quick(description=kind, image_shape=SHAPE, dictionary_update="block_coordinate", max_iter=1)
    with Client(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=":0"):
        there = clone(model).fit(da.from_array(X, chunks=(100, -1)), da.from_array(y, chunks=100))
    assert there.components_.shape == (30, there.description_.count_features(6))
    np.testing.assert_allclose(there.decision_function(X), model.fit(X, y).decision_function(X), atol=1e-6)


def test_atoms_may_be_given_as_samples_or_as_atoms():
    X, y = draw_table()
    model = quick(description="standard", n_components=None, init=X[:20], max_iter=0).fit(X, y)
    np.testing.assert_allclose(model.components_, normalize(model.description_.apply(X[:20])))
    again = quick(description="standard", n_components=None, init=model.components_, max_iter=0).fit(X, y)
    np.testing.assert_allclose(again.components_, model.components_)


def test_a_warm_start_keeps_the_description_that_its_atoms_have():
    X, y = draw_table()
    model = quick(warm_start=True).fit(X, y)
    before = model.description_
    assert model.fit(2 * X, y).description_ is before


@every
def test_samples_in_any_memory_are_described(kind, tmp_path):
    X, y = draw_table()
    np.save(tmp_path / "X.npy", X)
    model = quick(description=kind, image_shape=SHAPE)
    expected = clone(model).fit(X, y).components_
    for samples in (np.asfortranarray(X), np.load(tmp_path / "X.npy", mmap_mode="r")):
        np.testing.assert_array_equal(clone(model).fit(samples, y).components_, expected)


def test_other_estimators_do_not_describe():
    assert not hasattr(KSVD(5, max_iter=1).fit(draw_table()[0]), "description_")
