"""The elastic-net coder: peers, the strength of its penalty, and the penalty in fits and in both label rules."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import draw_samples, make_pursuit, normalise
from sklearn.base import clone
from sklearn.linear_model import ElasticNet as ScikitElasticNet

from ddlearn import (
    OMP,
    Checkpoint,
    ConjugateScales,
    ElasticNet,
    FullInference,
    MiniBatchDDLClassifier,
    Robustness,
    RowCodes,
    load,
    save,
    sparse_encode,
)
from ddlearn.coding.encoder import Encoder

CODER = ElasticNet(0.15, l1_ratio=0.7, tol=1e-10)


def draw(n_samples=30, n_components=50, n_features=20):
    X, D = draw_samples(n_samples, n_components, n_features)
    return normalise(X), D


def draw_classes(n_samples=120, seed=0):
    """Noisy samples of three classes, and which."""
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=n_samples)
    return normalise(rng.standard_normal((3, 12))[y] + 0.5 * rng.standard_normal((n_samples, 12))), y


def make_model(**parameters):
    return make_pursuit(10, **{"sparse_coder": "elastic_net", "max_iter": 3, "random_state": 0} | parameters)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize(("alpha", "l1_ratio"), [(0.15, 0.7), (0.1, 1.0), (0.03, 0.9)])
def test_equals_scikit_learn(alpha, l1_ratio, positive):
    X, D = draw()
    codes = sparse_encode(X, D, method=ElasticNet(alpha, l1_ratio=l1_ratio, positive=positive, tol=1e-12)).toarray()
    peer = ScikitElasticNet(
        alpha / 20, l1_ratio=l1_ratio, positive=positive, fit_intercept=False, tol=1e-12, max_iter=100_000
    )
    expected = np.array([peer.fit(D.T, x).coef_ for x in X])
    np.testing.assert_allclose(codes, expected, atol=1e-6)
    assert 1 < np.count_nonzero(codes, axis=1).mean() < 20


def test_equals_spams():
    spams = pytest.importorskip("spams", reason="spams is in the bench extra")
    X, D = draw(n_samples=200)
    expected = spams.lasso(np.asfortranarray(X.T), np.asfortranarray(D.T), lambda1=0.1, lambda2=0.05, mode=2)
    codes = sparse_encode(X, D, method=ElasticNet(0.15, l1_ratio=0.1 / 0.15, tol=1e-12))
    np.testing.assert_allclose(codes.toarray(), expected.T.toarray(), atol=1e-6)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"alpha": 0.0}, "alpha must be above 0"),
        ({"alpha": -1.0}, "alpha must be a number of at least 0, got -1"),
        ({"alpha": 0.1, "l1_ratio": 0.0}, "l1_ratio=0.0: alpha must be above 0, and l1_ratio above 0"),
        ({"alpha": 0.1, "norm": 0.0}, "norm above 0"),
        ({"l1_ratio": 1.5}, "at most 1"),
        ({"alpha": 0.1, "tol": None}, "tol must be a number"),
    ],
    ids=str,
)
def test_errors_name_the_value(parameters, message):
    X, D = draw()
    with pytest.raises(ValueError, match=message):
        sparse_encode(X, D, method=ElasticNet(**parameters))


def test_without_alpha_and_without_samples_it_says_what_to_do():
    X, D = draw()
    with pytest.raises(ValueError, match="pass a number, or use the coder that adapt returns"):
        Encoder.of(D, ElasticNet(), 50).encode(X)


@pytest.mark.parametrize("noise", [0.05, 0.1])
def test_alpha_follows_planted_noise(noise):
    rng = np.random.default_rng(0)
    D = normalise(rng.standard_normal((80, 200)))
    codes = np.zeros((300, 80))
    for code in codes:
        code[rng.choice(80, 3, replace=False)] = 5 * rng.choice([-1, 1], 3)
    X = codes @ D + noise * rng.standard_normal((300, 200))
    for l1_ratio in (0.7, 1.0):
        coder = ElasticNet(l1_ratio=l1_ratio).adapt(X, D, 80)
        found = sparse_encode(X, D, method=coder)
        measured = np.sqrt(np.mean((X - found @ D) ** 2))
        assert coder.lasso == pytest.approx(measured * np.sqrt(2 * np.log(80)), rel=0.02)
    # The residual holds the bias of the penalty beside the noise.
    assert noise * np.sqrt(2 * np.log(80)) <= coder.lasso <= 1.3 * noise * np.sqrt(2 * np.log(80))
    assert np.mean((found.toarray() != 0) == (codes != 0)) > 0.98


def test_few_features_are_not_all_noise():
    X, D = draw(n_samples=100, n_components=100, n_features=2)
    coder = ElasticNet().adapt(X, D, 100)
    assert coder.lasso == pytest.approx(0.2)
    assert sparse_encode(X, D, method=coder).nnz >= 100


@pytest.mark.parametrize("exponent", [-40, 40, 60, 300])
def test_both_parts_of_the_penalty_and_codes_scale_with_the_samples(exponent):
    # Were they stored as a sum and a share of it, the ridge would cancel in large units.
    X, D = draw(n_samples=50)
    expected, found = (ElasticNet().adapt(unit * X, D, 50) for unit in (1.0, 2.0**exponent))
    assert found.ridge == expected.ridge > 0
    assert found.lasso == 2.0**exponent * expected.lasso
    codes, scaled = (sparse_encode(unit * X, D, method="elastic_net") for unit in (1.0, 2.0**exponent))
    np.testing.assert_allclose(scaled.toarray() / 2.0**exponent, codes.toarray(), atol=1e-5)


@pytest.mark.parametrize("X", [np.zeros((3, 4)), np.eye(4), np.repeat(np.eye(4), 300, axis=0)], ids=["0", "I", "many"])
def test_alpha_is_never_zero(X):
    coder = ElasticNet().adapt(X, np.eye(4), 4)
    assert np.isfinite(coder.alpha)
    assert coder.alpha > 0
    assert ElasticNet(0.3).adapt(X, np.eye(4), 4).alpha == 0.3


def test_samples_that_are_atoms_do_not_decide_alpha():
    X, D = draw(n_samples=200)
    expected = ElasticNet().adapt(X, D, 50)
    assert ElasticNet().adapt(np.vstack([X, D, D]), D, 50).alpha == pytest.approx(expected.alpha, rel=1e-6)


def test_numbers_are_recalled_only_where_they_are_open():
    numbers = ElasticNet(0.2, l1_ratio=0.6).learned_parameters()
    recalled, expected = ElasticNet(positive=True).with_learned_parameters(numbers), ElasticNet(0.2, l1_ratio=0.6)
    assert recalled.get_params() == expected.get_params() | {"positive": True}
    assert ElasticNet(0.3).with_learned_parameters(numbers).alpha == 0.3
    assert isinstance(OMP().with_learned_parameters(numbers), OMP)


def test_misfit_is_twice_what_is_minimised():
    X, D = draw()
    x = sparse_encode(X, D, method=CODER)
    codes = RowCodes.from_csr(x, 50, np.float64)
    squared = np.sum((X - x @ D) ** 2, axis=1)
    x = x.toarray()
    expected = squared + 2 * 0.105 * np.abs(x).sum(axis=1) + 0.045 * np.sum(x**2, axis=1)
    np.testing.assert_allclose(CODER.measure_misfit(squared, codes), expected)
    assert OMP().measure_misfit(squared, codes) is squared


@pytest.mark.parametrize("noise", ["per_sample", "shared"])
@pytest.mark.parametrize("loss", ["square", "logistic"])
def test_a_fit_never_raises_the_objective(loss, noise):
    X, y = draw_classes()
    model = make_model(loss=loss, scales=ConjugateScales(noise), dictionary_update="atom", max_iter=6, tol=0).fit(X, y)
    totals = np.array([record.objective for record in model.history_])
    assert (np.diff(totals) <= 1e-10 * np.abs(totals[:-1])).all()
    assert model.n_nonzero_coefs_ == 10


def test_the_last_noise_is_that_of_the_misfits():
    X, y = draw_classes()
    model = make_model(description=None, refine=None).fit(X, y)
    codes = RowCodes.from_csr(model.codes_, 10, np.float64)
    squared = np.sum((X - model.codes_ @ model.components_) ** 2, axis=1)
    misfits = model.sparse_coder_.measure_misfit(squared, codes)
    weight, variance = model.priors_[:2]
    np.testing.assert_allclose(model.noise_variance_, (misfits + weight * variance) / (14 + weight))


@pytest.mark.parametrize(
    "settings",
    [
        {"robustness": Robustness(missing="mask")},
        {"robustness": Robustness(missing="mask"), "inference": "full"},
        {"robustness": 2},
        {"robustness": Robustness(2, error_search="greedy")},
        {"inference": FullInference(2)},
        {"alignment": "translation", "image_shape": (3, 4)},
    ],
    ids=str,
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_new_samples_may_be_incomplete_wrong_or_moved(settings, dtype):
    X, y = draw_classes()
    X = X.astype(dtype)
    model = make_model(max_iter=2, **settings).fit(X, y)
    new = X.copy()
    if model.get_params().get("robustness__missing") == "mask":
        new[::2, 3] = np.nan
    probabilities = model.predict_proba(new)
    assert probabilities.dtype == dtype
    assert np.isfinite(probabilities).all()
    assert model.score(new, y) > 0.8


def test_alpha_is_found_once_and_kept_in_files_and_streams(tmp_path):
    X, y = draw_classes()
    model = make_model(max_iter=2).fit(X, y)
    coder = model.sparse_coder_
    assert coder.alpha > 0
    assert model.sparse_coder == "elastic_net"
    save(model, tmp_path / "model")
    restored = load(tmp_path / "model")
    assert restored.sparse_coder_.get_params() == coder.get_params()
    np.testing.assert_array_equal(restored.predict_proba(X), model.predict_proba(X))
    stream = MiniBatchDDLClassifier.go_on_from(restored).partial_fit(5 * X[:30], y[:30])
    assert stream.sparse_coder_.get_params() == coder.get_params()
    stream = clone(stream).partial_fit(X[:60], y[:60], classes=range(3))
    first = stream.sparse_coder_.get_params()
    assert first["alpha"] > 0
    assert stream.partial_fit(X[60:], y[60:]).sparse_coder_.get_params() == first


def test_a_resumed_fit_has_the_alpha_of_the_first_dictionary(tmp_path):
    X, y = draw_classes()
    model = make_model(max_iter=4, tol=0)
    expected = clone(model).fit(X, y)
    checkpoint = Checkpoint(tmp_path / "fit", resume=True)
    clone(model).set_params(max_iter=2).set_callbacks(checkpoint).fit(X, y)
    resumed = clone(model).set_callbacks(Checkpoint(tmp_path / "fit", resume=True)).fit(X, y)
    assert resumed.sparse_coder_.get_params() == expected.sparse_coder_.get_params()
    np.testing.assert_array_equal(resumed.components_, expected.components_)
    np.testing.assert_array_equal(resumed.codes_.toarray(), expected.codes_.toarray())
