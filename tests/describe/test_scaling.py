"""Description: equivariance, agreement with scikit-learn, missing features, outliers, and models in every mode."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_pursuit
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.preprocessing import (
    FunctionTransformer,
    MinMaxScaler,
    Normalizer,
    PowerTransformer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
    normalize,
)

from ddlearn import (
    KSVD,
    DDLClassifier,
    Identity,
    Refiner,
    Robustness,
    Standard,
    Transformed,
    UnitNorm,
    load,
    save,
)
from ddlearn.describe.base import describe_known
from ddlearn.describe.choice import DESCRIPTIONS, choose_description, fit_description
from ddlearn.describe.missing import describe_and_fill
from ddlearn.fitting.data import TrainingPart
from ddlearn.parallel import LocalParts

SCALES = ("unit", "standard", None, MinMaxScaler())


def in_parts(X, y=None, n_rows=50):
    """Return samples as the parts of a fit."""
    y = np.zeros(len(X), int) if y is None else y
    labels = np.where(y[:, None] == np.arange(y.max() + 1), 1, -1).astype(np.int8)
    starts = range(0, len(X), n_rows)
    return LocalParts(
        [TrainingPart.of(X[start : start + n_rows], labels[start : start + n_rows], start) for start in starts]
    )


def learn(description, X, y=None, n_rows=50):
    return fit_description(description, in_parts(X, y, n_rows), len(X), image_shape=None)


def draw_table(n_samples=200, n_features=6, dtype=np.float64):
    """Return columns of different units, and classes that depend on two of them."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, n_features))
    y = (X[:, 0] + X[:, 1] > 0).astype(int)
    return (X * np.logspace(-2, 3, n_features) + np.logspace(1, -2, n_features)).astype(dtype), y


def quick(**parameters) -> DDLClassifier:
    return make_pursuit(**{"n_components": 30, "max_iter": 2, "random_state": 0} | parameters)


# -- the formulae ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_unit_norm_is_that_of_scikit_learn(dtype):
    X = draw_table(dtype=dtype)[0]
    X[3] = 0
    scaled = learn("unit", X).apply(X)
    assert scaled.dtype == dtype
    np.testing.assert_allclose(scaled, normalize(X), rtol=10 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("constant", [0.0, 0.5, 1.0])
def test_standardised_features_are_those_of_scikit_learn_with_a_mean_squared_norm_of_one(dtype, constant):
    X = draw_table(dtype=dtype)[0]
    scaled = learn(Standard(constant), X).apply(X)
    assert scaled.dtype == dtype
    expected = StandardScaler().fit_transform(X.astype(float)) / np.sqrt(6 * (1 + constant**2))
    np.testing.assert_allclose(scaled[:, :6], expected, atol=100 * np.finfo(dtype).eps * 1e2)
    assert scaled.shape[1] == 6 + (constant > 0)
    np.testing.assert_allclose(np.mean(np.sum(scaled.astype(float) ** 2, axis=1)), 1, rtol=1e-4)
    if constant:
        np.testing.assert_allclose(scaled[:, 6], constant / np.sqrt(1 + constant**2), rtol=1e-6)


@pytest.mark.parametrize("description", ["unit", "standard"])
def test_what_is_learned_does_not_depend_on_how_samples_are_cut(description):
    X, y = draw_table()
    X += 1e6  # sums of squares would lose all digits of the first column
    whole, parts = learn(description, X, y, 1000).get_params(), learn(description, X, y, 7).get_params()
    for name, value in whole.items():
        np.testing.assert_allclose(parts[name], value, rtol=1e-8)


def test_moments_keep_their_digits_where_the_mean_is_large():
    values = np.arange(1000.0).reshape(-1, 1)
    description = learn("standard", values + 2.0**40, n_rows=64)
    np.testing.assert_allclose(description.deviation, values.std(axis=0), rtol=1e-12)


@pytest.mark.parametrize("description", SCALES, ids=str)
def test_inversion_undoes_scaling(description):
    X, y = draw_table()
    description = learn(description, X, y)
    np.testing.assert_allclose(description.measure_norms(X) * description.invert(description.apply(X)), X, rtol=1e-9)
    # Atoms add up: what a combination of them shows is the sum of what each of them shows.
    atoms = description.apply(X[:3])
    shown = description.invert(np.sum(atoms, axis=0)[None]) - description.invert(0 * atoms[:1])
    np.testing.assert_allclose(np.sum(description.show(atoms), axis=0), shown[0], rtol=1e-9, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_feature_that_varies_by_rounding_alone_says_nothing(dtype):
    X = draw_table(dtype=dtype)[0]
    X[:, 2] = 0.1
    X[:, 3] = np.where(np.arange(len(X)) % 2, 0.1, np.nextafter(dtype(0.1), dtype(1)))
    description = learn("standard", X)
    assert (description.deviation == 0).tolist() == [False, False, True, True, False, False]
    new = X.copy()
    new[:, 2:4] = 1e6
    np.testing.assert_array_equal(description.apply(new), description.apply(X))


@pytest.mark.parametrize("description", ["unit", "standard"])
def test_scaling_is_learned_from_known_features(description):
    X, y = draw_table(3000)
    X = np.abs(X) if description == "unit" else X
    gaps = np.where(np.random.default_rng(1).random(X.shape) < 0.3, np.nan, X)
    gaps[:50, 2] = np.nan  # in the whole first part
    whole, known = learn(description, X, y), learn(description, gaps, y)
    if description == "standard":
        np.testing.assert_allclose(known.mean, np.nanmean(gaps, axis=0), rtol=1e-12)
        np.testing.assert_allclose(known.deviation, np.nanstd(gaps, axis=0), rtol=1e-12)
    else:
        np.testing.assert_allclose(known.energy.sum(), 1, rtol=1e-12)
        assert np.abs(known.energy - whole.energy).max() < 0.1


def test_training_samples_with_missing_features_are_scaled_as_new_ones():
    X, y = draw_table()
    X[3, 2] = X[5, 0] = np.nan
    model = quick(description="unit", robustness=Robustness(missing="mask")).fit(X, y)
    rows, is_known = describe_and_fill(model.description_, X)
    new = np.where(is_known, X, 0)
    expected, _ = describe_known(model.description_, new, is_known, remedy="")
    np.testing.assert_array_equal(is_known, ~np.isnan(X))
    np.testing.assert_array_equal(rows[is_known], expected[is_known])


def test_outliers_are_named_among_missing_features():
    X, y = draw_table()
    X[::3, 4] = np.nan
    X[7, 4] = 1e12
    with pytest.warns(UserWarning, match=r"X is 1e\+12 in row 7, feature 4"):
        learn("standard", X, y)


def test_the_norm_of_a_sample_with_missing_features_is_estimated_from_the_others():
    rng = np.random.default_rng(0)
    X = rng.gamma(2.0, 1.0, (400, 30)) * np.linspace(1, 3, 30)
    description = learn("unit", X)
    np.testing.assert_allclose(description.energy.sum(), 1)
    is_known = rng.random(X.shape) < 0.7
    estimated = description.measure_norms(np.where(is_known, X, np.nan))[:, 0]
    ratio = estimated / np.linalg.norm(X, axis=1)
    assert abs(ratio.mean() - 1) < 0.02  # the norm of what is known would be 16 % too small
    assert ratio.std() < 0.1


# -- the choice --------------------------------------------------------------------------------------------------------


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


def test_objects_names_and_transformers_are_scalings():
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


# -- outliers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_sample_of_any_size_does_not_matter_for_unit_norm(dtype):
    X, y = load_digits(return_X_y=True)
    X = X[:300].astype(dtype)
    huge = X.copy()
    huge[7] *= dtype(1e30)
    model, other = quick(description="unit").fit(X, y[:300]), quick(description="unit").fit(huge, y[:300])
    np.testing.assert_allclose(other.components_, model.components_, atol=1e-3 if dtype is np.float32 else 1e-8)
    np.testing.assert_array_equal(other.predict(huge), model.predict(X))


def test_a_value_that_decides_a_deviation_alone_is_named():
    X, y = draw_table()
    X[17, 4] = 1e100
    with pytest.warns(UserWarning, match=r"X is 1e\+100 in row 17, feature 4, while nine of ten .* \(1 features"):
        quick(description="standard").fit(X, y)
    X[17, 4] = 1e200
    with pytest.raises(ValueError, match=r"Row 17 of X has values as large as 1e\+200"):
        quick(description="standard").fit(X, y)
    X[:, 4] = np.arange(len(X)) == 3  # a rare property is no outlier
    quick(description="standard").fit(X, y)


# -- models ------------------------------------------------------------------------------------------------------------


def test_the_units_of_columns_do_not_matter_for_a_standardised_model():
    X, y = draw_table()
    model = quick(description="standard").fit(X, y)
    factors = np.array([1000.0, 1, 0.5, 7, 1, 1e-4])
    other = quick(description="standard").fit(factors * X + 3, y)
    np.testing.assert_allclose(other.decision_function(factors * X + 3), model.decision_function(X), rtol=1e-5)
    np.testing.assert_allclose(other.components_, model.components_, atol=1e-7)
    assert model.components_.shape == (30, 7)
    assert model.n_features_in_ == 6


def test_the_norms_of_samples_do_not_matter_for_unit_norm():
    X, y = load_digits(return_X_y=True)
    model = quick(description="unit").fit(X[:400], y[:400])
    factors = np.random.default_rng(0).choice([0.125, 0.5, 7.0, 64.0], (400, 1))
    other = quick(description="unit").fit(factors * X[:400], y[:400])
    np.testing.assert_allclose(other.components_, model.components_, atol=1e-8)
    np.testing.assert_array_equal(model.predict(7 * X[400:]), model.predict(X[400:]))


@pytest.mark.parametrize("read", [load_iris, load_wine, load_breast_cancer])
def test_scaling_outside_and_inside_is_the_same(read):
    X, y = read(return_X_y=True)
    description = learn("standard", X, n_rows=len(X))
    inside = quick(description="standard").fit(X, y)
    outside = quick(description=None).fit(description.apply(X), y)
    np.testing.assert_array_equal(inside.components_, outside.components_)
    np.testing.assert_array_equal(inside.decision_function(X), outside.decision_function(description.apply(X)))


def test_a_constant_is_what_pursuits_need_to_tell_centred_classes_apart():
    rng = np.random.default_rng(0)
    y = np.arange(600) % 5
    X = 3 * rng.standard_normal((5, 2))[y] + 0.5 * rng.standard_normal((600, 2))
    scores = [
        make_pursuit(description=Standard(c), random_state=0).fit(X[:300], y[:300]).score(X[300:], y[300:])
        for c in (0, 1)
    ]
    assert scores[1] > scores[0] + 0.1


@pytest.mark.parametrize("description", [*SCALES, "auto"], ids=str)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_explanations_are_in_the_units_of_the_samples(description, dtype):
    X, y = draw_table(dtype=dtype)
    model = quick(description=description).fit(X, y)
    found = model.explain(X)
    assert found.samples.dtype == found.reconstruction.dtype == dtype
    tolerance = {"rtol": 1e-3, "atol": 1e-2} if dtype is np.float32 else {"rtol": 1e-7, "atol": 1e-7}
    np.testing.assert_allclose(found.samples, X, **tolerance)
    assert found.reconstruction.shape == found.error.shape == found.is_missing.shape == found.is_used.shape == X.shape
    size = found.norms[:, None]
    np.testing.assert_allclose(
        found.reconstruction, model.inverse_transform(found.codes) * (size if description == "unit" else 1), **tolerance
    )
    assert (model.transform(X) != found.codes).nnz == 0


@pytest.mark.parametrize("description", ["unit", "standard"])
def test_missing_features_are_left_out_of_scaling_too(description):
    X, y = load_digits(return_X_y=True)
    model = quick(description=description, robustness=Robustness(missing="mask"), n_components=100).fit(
        X[:1000], y[:1000]
    )
    rng = np.random.default_rng(0)
    mask = rng.random(X[1000:].shape) < 0.3
    broken = np.where(mask, np.nan, X[1000:])
    found = model.explain(broken)
    np.testing.assert_array_equal(found.is_missing, mask)
    assert not found.samples[mask].any()
    np.testing.assert_allclose(found.samples[~mask], X[1000:][~mask], rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(model.decision_function(np.where(mask, 1e5, X[1000:]), mask), found.evidence)
    assert model.score(broken, y[1000:]) > 0.8
    assert np.linalg.norm((found.reconstruction - X[1000:])[mask]) < 0.6 * np.linalg.norm(X[1000:][mask])


def test_the_size_of_a_sample_does_not_depend_on_wrong_features():
    X, y = load_digits(return_X_y=True)
    model = quick(description="unit", n_components=100).fit(X[:1000], y[:1000]).set_params(robustness=0.1)
    broken = X[1000:1200].copy()
    broken[:, 20] = 1e4
    found = model.explain(broken)
    assert np.mean(found.error[:, 20] > 5e3) > 0.95
    np.testing.assert_allclose(found.norms, np.linalg.norm(X[1000:1200], axis=1), rtol=0.3)
    assert model.score(broken, y[1000:1200]) > model.score(X[1000:1200], y[1000:1200]) - 0.1


@pytest.mark.parametrize(
    "images", [{"alignment": "translation"}, {"n_views": 3}, {"refine": Refiner(1, jitter="affine")}], ids=str
)
def test_images_are_distorted_after_unit_norm_and_not_after_standardisation(images):
    X, y = load_digits(return_X_y=True)
    X, y = X[:200], y[:200]
    model = quick(image_shape=(8, 8), **images).fit(X, y)
    assert isinstance(model.description_, UnitNorm)
    np.testing.assert_allclose(model.predict_proba(4 * X), model.predict_proba(X))
    with pytest.raises(ValueError, match=rf"^{next(iter(images))}=.* distorts images, .* use description='unit'"):
        quick(image_shape=(8, 8), description="standard", **images).fit(X, y)


def test_atoms_may_be_given_as_samples_or_as_atoms():
    X, y = draw_table()
    model = quick(description="standard", n_components=None, init=X[:20], max_iter=0).fit(X, y)
    scaled = model.description_.apply(X[:20])
    np.testing.assert_allclose(model.components_, normalize(scaled))
    again = quick(description="standard", n_components=None, init=model.components_, max_iter=0).fit(X, y)
    np.testing.assert_allclose(again.components_, model.components_)


def test_a_warm_start_keeps_the_scaling_that_its_atoms_have():
    X, y = draw_table()
    model = quick(warm_start=True).fit(X, y)
    before = model.description_
    assert model.fit(2 * X, y).description_ is before


def test_a_stream_is_scaled_as_its_first_batch_was():
    X, y = draw_table(400)
    model = make_pursuit(30, description="standard", random_state=0).partial_fit(X[:200], y[:200], classes=[0, 1])
    first = model.description_
    np.testing.assert_allclose(first.mean, X[:200].mean(axis=0))
    model.partial_fit(X[200:], y[200:])
    assert model.description_ is first
    assert model.score(X, y) > 0.85
    with pytest.raises(ValueError, match="description is 'UnitNorm' now, but 'Standard'"):
        model.set_params(description="unit").partial_fit(X, y)
    with pytest.raises(ValueError, match="cannot be learned from 1 sample: begin with more"):
        make_pursuit(description="standard").partial_fit(X[:1], y[:1], classes=[0, 1])
    assert isinstance(make_pursuit().partial_fit(X[:1], y[:1], classes=[0, 1]).description_, UnitNorm)


@pytest.mark.parametrize("description", ["unit", "standard", "auto", None])
def test_files_hold_the_scaling(description, tmp_path):
    X, y = draw_table()
    model = quick(description=description).fit(X, y)
    save(model, tmp_path / "model.safetensors")
    restored = load(tmp_path / "model.safetensors")
    assert restored.description == description
    assert repr(restored.description_) == repr(model.description_)
    np.testing.assert_array_equal(restored.predict_proba(X), model.predict_proba(X))
    assert restored.partial_fit(X, y).n_samples_seen_ == 400


@pytest.mark.parametrize(
    "scaler", [MinMaxScaler(), QuantileTransformer(n_quantiles=20), RobustScaler(with_centering=False)]
)
def test_files_hold_scalers_of_scikit_learn_with_what_they_have_learned(scaler, tmp_path):
    X, y = draw_table()
    model = quick(description=scaler).fit(X, y)
    save(model, tmp_path / "model.safetensors")
    restored = load(tmp_path / "model.safetensors")
    assert repr(restored.description) == repr(scaler)
    np.testing.assert_array_equal(restored.predict_proba(X), model.predict_proba(X))


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


def test_a_memory_mapped_array_is_scaled_into_a_file(tmp_path):
    X, y = draw_table()
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(quick().fit(mapped, y).components_, quick().fit(X, y).components_)


def test_other_estimators_do_not_scale():
    assert not hasattr(KSVD(5, max_iter=1).fit(draw_table()[0]), "description_")
