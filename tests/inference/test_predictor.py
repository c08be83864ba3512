"""New samples through the estimator: what is off by default changes nothing, what is on finds what was planted."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from conftest import make_pursuit, normalise
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_digits

from ddlearn import (
    Alignment,
    AlternatingErrors,
    FullInference,
    GreedyErrors,
    Jitter,
    PrintedCoding,
    Refiner,
    Robustness,
    sparse_encode,
)
from ddlearn.describe.jitter import displace, make_jitter
from ddlearn.inference.predictor import draw_views

SEARCHES = ("alternating", "greedy")
IMAGES = {"image_shape": (8, 8)}
WAYS = [
    {},
    {"inference": "full"},
    {"inference": FullInference(3)},
    {"robustness": 0.1},
    {"robustness": Robustness(5, error_search="greedy")},
    {"alignment": "affine"} | IMAGES,
    {"alignment": "translation", "robustness": 0.1, "inference": FullInference(2)} | IMAGES,
    {"n_views": 3} | IMAGES,
    {"refine": Refiner(jitter="elastic"), "n_views": 2, "inference": FullInference(2)} | IMAGES,
]
MASK = Robustness(missing="mask")
every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: " ".join(map(str, way.values())) or "plain")


@pytest.fixture(scope="module")
def split():
    X, y = load_digits(return_X_y=True)
    X = normalise(X)
    return X[:700], y[:700], X[700:1100], y[700:1100]


@pytest.fixture(scope="module")
def fitted(split):
    X, y, _, _ = split
    return make_pursuit(100, description=None, max_iter=5, random_state=0).fit(X, y)


@pytest.fixture
def model(fitted):
    # A fitted model whose parameters a test may change; `clone` would forget the fit.
    original = fitted.get_params(deep=False)
    yield fitted
    fitted.set_params(**original)


@pytest.mark.bitwise
def test_plain_prediction_uses_the_codes_of_sparse_encode_bitwise(model, split):
    _, _, X, _ = split
    expected = sparse_encode(X, model.components_, n_nonzero_coefs=5, method="ormp")
    np.testing.assert_array_equal(model.transform(X).toarray(), expected.toarray())
    np.testing.assert_array_equal(model.explain(X).codes.toarray(), expected.toarray())


@pytest.mark.parametrize("inference", ["fast", "full"])
@pytest.mark.parametrize("search", SEARCHES)
def test_zero_budget_nothing_missing_and_one_view_are_plain_bitwise(model, split, inference, search):
    _, _, X, _ = split
    plain = model.set_params(inference=inference).decision_function(X)
    nothing = np.zeros(X.shape, bool)
    for changes, mask in (
        ({"robustness": Robustness(0, error_search=search)}, None),
        ({"robustness": 0.0}, nothing),
        ({"robustness": Robustness(missing="mask")}, nothing),
        ({"robustness": Robustness(missing="mask")} | IMAGES, nothing[0]),
        ({"robustness": None, "refine": Refiner(jitter="elastic"), "n_views": 1} | IMAGES, None),
    ):
        np.testing.assert_array_equal(model.set_params(**changes).decision_function(X, mask), plain)


@pytest.mark.bitwise
@every_way
def test_results_do_not_depend_on_the_number_of_threads(model, split, way):
    _, _, X, _ = split
    one, several = (model.set_params(**way, n_jobs=n_jobs).explain(X) for n_jobs in (1, 3))
    for mine, theirs in zip(one, several, strict=True):
        if mine is not None:
            mine, theirs = (array.toarray() if hasattr(array, "toarray") else array for array in (mine, theirs))
            np.testing.assert_array_equal(mine, theirs)


@every_way
def test_the_evidence_of_a_sample_is_its_own(model, split, way):
    # Only matrix products round differently with other rows around; what is chosen and where it moves does not change.
    _, _, X, _ = split
    together = model.set_params(**way).decision_function(X)[:5]
    alone = np.vstack([model.decision_function(x[None]) for x in X[:5]])
    np.testing.assert_allclose(alone, together, rtol=1e-6)


@every_way
def test_float32_stays_and_agrees(model, split, way):
    _, _, X, _ = split
    double, single = (model.set_params(**way).explain(X.astype(dtype)) for dtype in (np.float64, np.float32))
    for array in (single.samples, single.codes, single.reconstruction, single.error):
        assert array.dtype == np.float32
    assert np.mean(double.evidence.argmax(axis=1) == single.evidence.argmax(axis=1)) > 0.98


@every_way
def test_read_only_and_fortran_ordered_samples_are_fine(model, split, way):
    _, _, X, _ = split
    X = X[:20]
    expected = model.set_params(**way).decision_function(X)
    other = np.asfortranarray(X)
    other.setflags(write=False)
    np.testing.assert_array_equal(model.decision_function(other), expected)


@every_way
def test_an_explanation_adds_up_and_probabilities_are_those_of_its_evidence(model, split, way):
    _, _, X, _ = split
    parts = model.set_params(**way).explain(X)
    np.testing.assert_allclose(model.predict_proba(X), softmax(model.decision_function(X), axis=1))
    np.testing.assert_array_equal(model.predict(X), model.classes_[parts.evidence.argmax(axis=1)])
    np.testing.assert_allclose(parts.reconstruction, parts.codes @ model.components_)
    noise = parts.samples - parts.reconstruction - parts.error
    assert not noise[parts.error != 0].any()
    if "alignment" not in way:
        np.testing.assert_array_equal(parts.samples, X)
        assert parts.transforms is None
    else:
        assert parts.transforms.shape == (len(X), 2, 3)


@pytest.mark.parametrize("search", [AlternatingErrors(), GreedyErrors()], ids=SEARCHES)
def test_pixels_set_to_nonsense_are_found_and_undone(model, split, search):
    _, _, X, y = split
    rng = np.random.default_rng(0)
    broken, where = X.copy(), np.zeros(X.shape, bool)
    for row in range(len(X)):
        where[row, rng.choice(64, 4, replace=False)] = True
    broken[where] = rng.choice([-1.0, 1.0], where.sum())
    parts = model.set_params(robustness=Robustness(0.1, error_search=search)).explain(broken)
    assert np.mean(parts.error[where] != 0) > 0.85
    corrected = model.score(broken, y)
    assert corrected > model.set_params(robustness=None).score(broken, y) + 0.3
    assert corrected > model.score(X, y) - 0.2


def test_a_mask_is_nan_is_an_error_whose_place_is_known(model, split):
    _, _, X, y = split
    mask = np.random.default_rng(0).random(X.shape) < 0.3
    by_mask = model.decision_function(np.where(mask, 1e5, X), mask)
    by_nan = model.set_params(robustness=MASK).decision_function(np.where(mask, np.nan, X))
    np.testing.assert_array_equal(by_mask, by_nan)
    in_place = model.explain(np.where(mask, np.nan, X))
    np.testing.assert_array_equal(in_place.is_missing, mask)
    assert not in_place.samples[mask].any()
    known = model.score(np.where(mask, np.nan, X), y)
    assert known > model.score(np.where(mask, 0, X), y) + 0.05
    for row in range(3):  # the code is that of the shorter sample
        short = np.ascontiguousarray(model.components_[:, ~mask[row]])
        expected = sparse_encode(X[row, ~mask[row]][None], short, n_nonzero_coefs=5, method="ormp")
        np.testing.assert_allclose(in_place.codes.toarray()[row], expected.toarray()[0], atol=1e-8)


@pytest.mark.parametrize("inference", ["fast", "full"])
def test_a_sample_without_any_known_feature_is_classified_by_the_prior(model, split, inference):
    _, y_train, X, _ = split
    X = X[:3].copy()
    X[1] = np.nan
    model.set_params(robustness=MASK, inference=inference)
    with pytest.warns(UserWarning, match=r"In 1 sample\(s\) all features are missing"):
        probabilities = model.predict_proba(X)
    np.testing.assert_allclose(probabilities[1], np.bincount(y_train) / len(y_train), rtol=1e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(probabilities[[0, 2]], model.predict_proba(X[[0, 2]]), rtol=1e-8)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"robustness": 64}, "error_budget=64 leaves none of the 64 features to be right"),
        ({"robustness": Robustness(error_search="magic")}, "'magic' is not a known error search"),
        ({"inference": "slow"}, r"'slow' is not a known inference; choose one of \['fast', 'full'\]"),
        ({"inference": FullInference(11)}, "n_candidates=11, but there are only 10 classes"),
        ({"inference": FullInference(-1)}, "n_candidates must be an integer of at least 0"),
        ({"label_coding": PrintedCoding(-4)}, "max_iter of the coding must be an integer of at least 0"),
        ({"alignment": "affine"}, "alignment moves images"),
        ({"image_shape": (9, 9)}, "has 9 x 9 = 81 pixels, but X has 64 features"),
        ({"n_views": 3}, r"jitter distorts images: set image_shape=\(height, width\)"),
        ({"n_views": 0}, "n_views must be an integer of at least 1, got 0: 1 is the sample itself"),
        ({"n_views": 1.5}, "n_views must be an integer"),
        (
            {"refine": Refiner(jitter="blur"), "n_views": 2} | IMAGES,
            r"jitter='blur' is not known; choose one of \['affine', 'elastic'",
        ),
    ],
    ids=str,
)
def test_settings_that_cannot_be_are_refused_by_fit_and_when_they_are_changed(model, split, changes, message):
    X, y, X_test, _ = split
    with pytest.raises(ValueError, match=message):
        make_pursuit(**changes).fit(X, y)
    with pytest.raises(ValueError, match=message):
        model.set_params(**changes).predict(X_test)


@pytest.mark.parametrize(
    "mask", [np.zeros((3, 64), bool), np.zeros(8, bool), np.zeros((400, 64)), [[True]], np.zeros((400, 64), int)]
)
def test_masks_of_the_wrong_shape_or_kind_are_refused(model, split, mask):
    with pytest.raises(ValueError, match=r"mask must be True where a feature is missing, in the shape of X, \(400, 64"):
        model.predict(split[2], mask)


def test_what_is_not_finite_and_not_missing_is_an_error_that_names_the_place(model, split):
    X = split[2].copy()
    X[300, 7] = np.nan
    with pytest.raises(ValueError, match=r"X contains NaN in row 300, feature 7: impute .*missing=\"mask\""):
        model.predict(X)
    X[300, 7] = np.inf
    with pytest.raises(ValueError, match="X contains infinity in row 300, feature 7"):
        model.set_params(robustness=MASK).predict(X)


@pytest.mark.parametrize("inference", ["fast", "full"])
@pytest.mark.parametrize("jitter", ["elastic", Jitter(1.0)], ids=["elastic", "object"])
def test_evidence_is_averaged_over_the_image_and_distorted_copies(model, split, jitter, inference):
    X = split[2][:50]
    plain = model.set_params(inference=inference, refine=Refiner(jitter=jitter), **IMAGES).decision_function(X)
    fields = draw_views(make_jitter(jitter, (8, 8)), (8, 8), 4, X.dtype)
    assert fields.shape == (3, 2, 8, 8)
    copies = [displace(X, np.broadcast_to(field, (len(X), *field.shape))) for field in fields]
    assert min(np.abs(copy - X).max() for copy in copies) > 0.05
    expected = np.mean([plain, *(model.decision_function(copy) for copy in copies)], axis=0)
    np.testing.assert_allclose(model.set_params(n_views=4).decision_function(X), expected, rtol=1e-6, atol=1e-9)


def test_images_that_are_not_whole_have_one_view(model, split):
    X = split[2][:20].copy()
    X[::2, 5] = np.nan
    one = model.set_params(robustness=MASK, **IMAGES).decision_function(X)
    several = model.set_params(n_views=4).decision_function(X)
    np.testing.assert_array_equal(several[::2], one[::2])
    np.testing.assert_allclose(several[1::2], model.decision_function(X[1::2]), rtol=1e-6)
    assert (np.abs(several[1::2] - one[1::2]).max(axis=1) > 1e-3).all()
    # Nor are those with features that are found to be wrong.
    broken = split[2][:5].copy()
    broken[:, :8] = 3.0
    model.set_params(robustness=8)
    several = model.decision_function(broken)
    np.testing.assert_array_equal(several, model.set_params(n_views=1).decision_function(broken))


def test_full_inference_is_for_one_class_a_sample(split):
    X, y, _, _ = split
    several = np.stack([y % 2, y > 4], axis=1).astype(int)
    model = make_pursuit(30, max_iter=1).fit(X, several)
    for refused in (lambda: make_pursuit(inference="full").fit(X, several), lambda: model.predict(X)):
        model.set_params(inference="full")
        with pytest.raises(ValueError, match="multilabel targets: use inference='fast'"):
            refused()


@pytest.mark.parametrize("loss", ["square", "logistic"])
def test_full_inference_takes_samples_of_any_unit_to_the_last_bit(split, loss):
    # Swaps of hypotheses are searched for in single precision, which does not reach as far as double precision.
    X, y, X_new, _ = split
    expected, tiny, huge = (
        make_pursuit(40, loss=loss, description=None, max_iter=1, inference="full", random_state=0)
        .fit(unit * X[:300], y[:300])
        .predict_proba(unit * X_new[:100])
        for unit in (1.0, 2.0**-70, 2.0**70)
    )
    np.testing.assert_array_equal(tiny, expected)
    np.testing.assert_array_equal(huge, expected)


@pytest.mark.parametrize("loss", ["square", "logistic", "exponential"])
def test_atoms_that_the_known_features_do_not_show_are_no_evidence(loss):
    # Full inference used to satisfy any hypothesis with atoms in the missing features, which cost nothing there.
    rng = np.random.default_rng(0)
    atoms, y = np.zeros((6, 20)), np.arange(200) % 2
    atoms[:3, :10], atoms[3:, 10:] = normalise(rng.random((3, 10))), normalise(rng.random((3, 10)))
    X = 2 * atoms[3 * y + rng.integers(3, size=200)] + 0.05 * rng.standard_normal((200, 20))
    model = make_pursuit(6, n_nonzero_coefs=2, init=atoms, max_iter=0, loss=loss).fit(X, y)
    is_second_half = np.arange(20) >= 10
    for inference in ("fast", "full"):
        model.set_params(inference=inference)
        assert (model.predict(X[y == 0], is_second_half) == 0).all()


def test_full_inference_of_a_row_does_not_depend_on_what_its_neighbours_miss(model, split):
    X = split[2][:300].copy()
    model.set_params(inference="full", robustness=MASK)
    before = model.decision_function(X)
    X[7, 3] = np.nan
    after = model.decision_function(X)
    others = np.arange(300) != 7
    np.testing.assert_allclose(after[others], before[others], rtol=1e-9)
    assert (after[7] != before[7]).any()


def test_duplicate_samples_and_zero_samples_get_equal_evidence(model, split):
    X = np.vstack([np.repeat(split[2][:1], 3, axis=0), np.zeros((2, 64))])
    for way in WAYS:
        evidence = model.set_params(**way).decision_function(X)
        assert np.isfinite(evidence).all()
        np.testing.assert_allclose(evidence[1:3], evidence[[0, 0]], rtol=1e-8)
        np.testing.assert_allclose(evidence[4], evidence[3], rtol=1e-8)


def test_parameters_clone_and_search_like_any_others():
    robustness = Robustness(0.1, error_search=GreedyErrors(threshold=4.0))
    model = make_pursuit(alignment=Alignment("similarity", damping=0.1), robustness=robustness)
    copy = clone(model)
    assert copy.get_params()["alignment__damping"] == 0.1
    copy.set_params(robustness__error_search__threshold=7.0)
    assert copy.robustness.error_search.threshold == 7.0
    assert robustness.error_search.threshold == 4.0
