"""The classifier update: what each trainer minimises, what must not matter to it, and what it promises."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from reference import SquaredHinge
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, Ridge

from ddlearn.classifiers import (
    CLASSIFIER_TRAINERS,
    ClassifierTrainer,
    LogitBoost,
    Newton,
    SquareLev,
    resolve_trainer,
)
from ddlearn.classifiers.problem import LabelledCodes, scale_ridge
from ddlearn.kernels.codes import add_gradient, add_hessian, score_class
from ddlearn.model.codes import RowCodes
from ddlearn.model.losses import LOSSES, Logistic, Loss, Square
from ddlearn.parallel import Parts

N_SAMPLES, N_COMPONENTS, N_CLASSES, BUDGET = 150, 12, 3, 4
UNUSED_ATOM = 5

# Every trainer with every loss that it is for.
PAIRS = [
    pytest.param(trainer(), loss(), id=f"{name}-{loss_name}")
    for name, trainer in CLASSIFIER_TRAINERS.items()
    for loss_name, loss in LOSSES.items()
    if trainer().supports(loss())
]
every_pair = pytest.mark.parametrize(("trainer", "loss"), PAIRS)


class HalfSquare(Loss):
    """A user's quadratic loss."""

    is_quadratic = True

    def value(self, margin):
        return (1 - margin) ** 2 / 2

    def gradient(self, margin):
        return margin - 1

    def curvature(self, margin):
        return np.ones_like(margin)


def draw_codes(n_samples=N_SAMPLES, n_components=N_COMPONENTS, budget=BUDGET, seed=0, dtype=np.float64):
    """Codes with 0 to ``budget`` entries a row, so that unused places occur."""
    rng = np.random.default_rng(seed)
    codes = RowCodes.empty(n_samples, budget, dtype)
    for i in range(n_samples):
        n_entries = rng.integers(min(budget, n_components) + 1)
        codes.indices[i, :n_entries] = np.sort(rng.choice(n_components, n_entries, replace=False))
        codes.values[i, :n_entries] = rng.normal(size=n_entries)
    return codes


def draw_problem(seed=0, dtype=np.float64):
    """Overlapping classes on sparse codes; one atom is not used by any sample."""
    codes = draw_codes(seed=seed, dtype=dtype)
    codes.indices[codes.indices == UNUSED_ATOM] = UNUSED_ATOM - 1
    codes = RowCodes.from_csr(codes.to_csr(N_COMPONENTS), BUDGET, dtype)  # sums the entries that now coincide
    rng = np.random.default_rng(seed + 1)
    scores = codes.to_csr(N_COMPONENTS) @ rng.normal(size=(N_COMPONENTS, N_CLASSES))
    scores += rng.normal(size=scores.shape)
    return codes, np.where(scores > 0.3, 1, -1).astype(dtype)


def draw_start(size=0.0, seed=7, dtype=np.float64):
    rng = np.random.default_rng(seed)
    coef = size * rng.normal(size=(N_CLASSES, N_COMPONENTS))
    return coef.astype(dtype), (size * rng.normal(size=N_CLASSES)).astype(dtype)


def penalties_of(trainer, codes, labels, loss):
    return scale_ridge(trainer.ridge, loss, LabelledCodes(codes, labels).summarise(N_COMPONENTS).squared_norms)


def converged(name):
    return CLASSIFIER_TRAINERS[name]().set_params(max_rounds=500, tol=1e-15)


def data_costs(codes, labels, loss, coef, intercept):
    scores = codes.to_csr(coef.shape[1]).astype(np.float64) @ coef.T.astype(np.float64) + intercept
    return loss.value(labels.astype(np.float64) * scores).sum(axis=0)


def measure_gradients(codes, labels, loss, penalties, coef, intercept):
    """Return the norm of the gradient of each class's penalised cost, over coefficients, and over the intercept."""
    dense = codes.to_csr(coef.shape[1]).toarray().astype(float)
    slopes = labels * loss.gradient(labels * (dense @ coef.T + intercept).astype(float))
    return np.linalg.norm(slopes.T @ dense + penalties[:, None] * coef, axis=1), np.abs(slopes.sum(axis=0))


def assert_same(found, expected, **tolerance):
    for one, other in zip(found, expected, strict=True):
        assert_allclose(one, other, **{"rtol": 0, "atol": 0} | tolerance)


# What is minimised


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("trainer", ["square_lev", "newton"])
def test_square_loss_is_ridge_regression_after_one_round(trainer, fit_intercept):
    codes, labels = draw_problem()
    dense = codes.to_csr(N_COMPONENTS).toarray()
    trainer = CLASSIFIER_TRAINERS[trainer](ridge=0.01, max_rounds=1, fit_intercept=fit_intercept)
    coef, intercept = trainer.train(codes, labels, Square(), *draw_start())

    # The normal equations with a column of ones, which is not penalised.
    design = np.column_stack([dense, np.ones(N_SAMPLES)])[:, : N_COMPONENTS + fit_intercept]
    squared_norms = (dense**2).sum(axis=0)
    penalty = 0.01 * squared_norms[squared_norms > 0].mean()
    penalties = np.diag(np.append(np.full(N_COMPONENTS, penalty), 0.0)[: design.shape[1]])
    expected = np.linalg.solve(design.T @ design + penalties, design.T @ labels).T
    assert_allclose(coef, expected[:, :N_COMPONENTS], atol=1e-12)
    if fit_intercept:
        assert_allclose(intercept, expected[:, -1], atol=1e-12)
    peer = Ridge(alpha=penalty, fit_intercept=fit_intercept).fit(dense, labels)
    assert_allclose(coef, peer.coef_, atol=1e-10)


@pytest.fixture(params=["each", "shared"])
def each_hessian_or_a_shared_one(request, monkeypatch):
    """Let classes have Hessians of their own, or too little memory for that."""
    if request.param == "shared":
        monkeypatch.setattr("ddlearn.classifiers.problem._HESSIAN_BYTES", 1)


@pytest.mark.usefixtures("each_hessian_or_a_shared_one")
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("trainer", ["logit_boost", "newton"])
def test_logistic_loss_is_logistic_regression(trainer, fit_intercept):
    codes, labels = draw_problem()
    loss, trainer = Logistic(), converged(trainer).set_params(fit_intercept=fit_intercept)
    coef, intercept = trainer.train(codes, labels, loss, *draw_start())
    penalties = penalties_of(trainer, codes, labels, loss)
    dense = codes.to_csr(N_COMPONENTS).toarray()
    for j in range(N_CLASSES):
        peer = LogisticRegression(C=1 / penalties[j], fit_intercept=fit_intercept, tol=1e-10, max_iter=10_000)
        peer.fit(dense, labels[:, j])
        assert_allclose(coef[j], peer.coef_[0], atol=1e-5)
        assert_allclose(intercept[j], peer.intercept_[0] if fit_intercept else 0, atol=1e-5)


def test_misclassified_samples_clip_the_response_but_not_the_minimum():
    # In the problem above few margins are below -ln 3, where the response of LogitBoost is clipped; here many are.
    codes, labels = draw_problem()
    labels[:40] *= -1
    coef, intercept = converged("logit_boost").set_params(ridge=1e-8).train(codes, labels, Logistic(), *draw_start())
    margins = labels * (codes.to_csr(N_COMPONENTS) @ coef.T + intercept)
    assert (margins < -np.log(3)).sum() > 10
    unclipped = converged("newton").set_params(ridge=1e-8, z_max=1e12)
    assert_allclose(coef, unclipped.train(codes, labels, Logistic(), *draw_start())[0], atol=1e-6)


@pytest.mark.usefixtures("each_hessian_or_a_shared_one")
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize(("trainer", "loss"), [*PAIRS, (Newton(), SquaredHinge())])
def test_gradient_of_the_penalised_cost_vanishes_at_the_end(trainer, loss, fit_intercept):
    codes, labels = draw_problem()
    trainer = clone(trainer).set_params(max_rounds=500, tol=1e-15, fit_intercept=fit_intercept)
    coef, intercept = trainer.train(codes, labels, loss, *draw_start())
    penalties = penalties_of(trainer, codes, labels, loss)
    of_coef, of_intercept = measure_gradients(codes, labels, loss, penalties, coef, intercept)
    assert of_coef.max() <= 1e-5
    assert not fit_intercept or of_intercept.max() <= 1e-5


@every_pair
def test_each_round_lowers_the_penalised_cost(trainer, loss):
    codes, labels = draw_problem()
    trainer = clone(trainer).set_params(max_rounds=1, tol=0)
    penalties = penalties_of(trainer, codes, labels, loss)
    classifiers = draw_start()
    costs = []
    for _ in range(8):
        costs.append(data_costs(codes, labels, loss, *classifiers) + penalties / 2 * (classifiers[0] ** 2).sum(axis=1))
        classifiers = trainer.train(codes, labels, loss, *classifiers)
    assert (np.diff(costs, axis=0) <= 1e-12 * np.abs(costs[1:])).all()
    assert (costs[-1] < costs[0]).all()


def test_rounds_of_adaboost_fit_the_labels_themselves():
    # Gentle AdaBoost as published: a weighted least squares fit of the labels, added whole.
    codes, labels = draw_problem()
    dense = np.column_stack([codes.to_csr(N_COMPONENTS).toarray(), np.ones(N_SAMPLES)])
    dense = np.delete(dense, UNUSED_ATOM, axis=1)  # least squares without a penalty does not say what it should be
    classifier = np.zeros(N_COMPONENTS)
    for _ in range(3):
        weights = np.exp(-labels[:, 0] * (dense @ classifier))
        root = np.sqrt(weights)
        classifier = classifier + np.linalg.lstsq(root[:, None] * dense, root * labels[:, 0], rcond=None)[0]
    trainer = CLASSIFIER_TRAINERS["ada_boost"](ridge=0, max_rounds=3, tol=0)
    coef, intercept = trainer.train(codes, labels, LOSSES.resolve("exponential"), *draw_start())
    assert_allclose(np.append(np.delete(coef[0], UNUSED_ATOM), intercept[0]), classifier, atol=1e-10)


# What must not matter


@every_pair
def test_labels_classes_and_the_order_of_samples_are_all_alike(trainer, loss):
    codes, labels = draw_problem()
    (start, start_intercept), classes = draw_start(1.0), [2, 0, 1]
    order = np.random.default_rng(3).permutation(N_SAMPLES)
    coef, intercept = trainer.train(codes, labels, loss, start, start_intercept)
    of_order = trainer.train(codes.rows(order), labels[order], loss, start, start_intercept)
    of_classes = trainer.train(codes, labels[:, classes], loss, start[classes], start_intercept[classes])
    flipped = trainer.train(codes, -labels, loss, -start, -start_intercept)
    # To rounding: some of OpenBLAS's kernels round a column of a product by its place.
    assert_same(of_order, (coef, intercept), rtol=1e-7, atol=1e-9)
    assert_same(of_classes, (coef[classes], intercept[classes]), rtol=1e-7, atol=1e-12)
    assert_same(flipped, (-coef, -intercept), rtol=1e-7, atol=1e-12)


@every_pair
def test_unlabelled_rows_are_as_if_left_out(trainer, loss):
    codes, labels = draw_problem()
    labels[::3] = 0
    known = labels[:, 0] != 0
    trained = trainer.train(codes, labels, loss, *draw_start())
    without = trainer.train(codes.rows(np.flatnonzero(known)), labels[known], loss, *draw_start())
    assert_same(trained, without)


@every_pair
def test_labels_may_be_missing_for_some_classes_only(trainer, loss):
    codes, labels = draw_problem()
    complete = trainer.train(codes, labels, loss, *draw_start())
    labels[::3, 0] = 0
    known = labels[:, 0] != 0
    coef, intercept = trainer.train(codes, labels, loss, *draw_start())
    first = [start[:1] for start in draw_start()]
    alone = trainer.train(codes.rows(np.flatnonzero(known)), labels[known, :1], loss, *first)
    assert_allclose(coef[0], alone[0][0], atol=1e-12)
    assert_allclose(coef[1:], complete[0][1:], atol=1e-12)
    assert_allclose(intercept, [alone[1][0], *complete[1][1:]], atol=1e-12)


@every_pair
def test_atoms_in_no_code_have_coefficient_zero(trainer, loss):
    codes, labels = draw_problem()
    for size in (0.0, 1.0):
        coef, _ = trainer.train(codes, labels, loss, *draw_start(size))
        assert_array_equal(coef[:, UNUSED_ATOM], 0)
        assert (coef[:, :UNUSED_ATOM] != 0).all()


@every_pair
def test_more_unused_atoms_change_nothing(trainer, loss):
    codes, labels = draw_problem()
    coef, intercept = trainer.train(codes, labels, loss, *draw_start())
    wider_start = np.ones((N_CLASSES, N_COMPONENTS + 3))
    wider_start[:, :N_COMPONENTS] = 0
    wider_coef, wider_intercept = trainer.train(codes, labels, loss, wider_start, draw_start()[1])
    assert_allclose(wider_coef[:, :N_COMPONENTS], coef, atol=1e-10)
    assert_allclose(wider_intercept, intercept, atol=1e-10)
    assert_array_equal(wider_coef[:, N_COMPONENTS:], 0)


@pytest.mark.bitwise
@pytest.mark.usefixtures("each_hessian_or_a_shared_one")
@every_pair
def test_threads_give_the_same_bits(trainer, loss):
    codes, labels = draw_problem()
    assert_same(*(trainer.train(codes, labels, loss, *draw_start(), n_jobs=n_jobs) for n_jobs in (1, 3)))


@every_pair
def test_float32_is_close_to_float64(trainer, loss):
    double = trainer.train(*draw_problem(), loss, *draw_start())
    single = trainer.train(*draw_problem(dtype=np.float32), loss, *draw_start(dtype=np.float32))
    assert single[0].dtype == single[1].dtype == np.float32
    assert_same(single, double, rtol=1e-3, atol=1e-3)


def test_memory_layout_does_not_matter():
    codes, labels = draw_problem()
    fortran = RowCodes(np.asfortranarray(codes.indices), np.asfortranarray(codes.values))
    for array in (*fortran, labels):
        array.setflags(write=False)
    start = draw_start()
    expected = LogitBoost().train(codes, labels, Logistic(), *start)
    trained = LogitBoost().train(fortran, np.asfortranarray(labels), Logistic(), *start)
    assert_array_equal(trained[0], expected[0])


# What is promised


@pytest.mark.usefixtures("each_hessian_or_a_shared_one")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("size", [1e-3, 1.0, 30.0, 1e4])
@every_pair
def test_the_penalised_cost_never_rises(trainer, loss, size, dtype):
    codes, labels = draw_problem(dtype=dtype)
    start = draw_start(size, dtype=dtype)
    penalties = np.array([0.1, 2.0, 30.0])
    before, after = (
        data_costs(codes, labels, loss, coef, intercept) + penalties / 2 * (coef.astype(float) ** 2).sum(axis=1)
        for coef, intercept in (start, trainer.train(codes, labels, loss, *start, penalties=penalties))
    )
    assert (after <= before * (1 + 1e-12)).all()
    assert (after < before).any()


@pytest.mark.usefixtures("each_hessian_or_a_shared_one")
@every_pair
def test_a_start_worse_than_none_is_not_used(trainer, loss):
    codes, labels = draw_problem()
    trainer = clone(trainer).set_params(max_rounds=2)
    from_zero = trainer.train(codes, labels, loss, *draw_start())
    from_afar = trainer.train(codes, labels, loss, *draw_start(1e4))
    assert_same(from_afar, from_zero, rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("trainer", ["logit_boost", "linear_svm", "newton"])
def test_responses_are_newtons_up_to_z_max(trainer, loss):
    # Also where the loss is straight, and Newton's response infinite.
    margins = np.linspace(-20, 20, 401)
    gradient, curvature = LOSSES.resolve(loss).gradient(margins), LOSSES.resolve(loss).curvature(margins)
    weights = CLASSIFIER_TRAINERS[trainer](z_max=3.0).sample_weights(gradient, curvature)
    assert (np.abs(gradient) <= 3.0 * weights * (1 + 1e-12)).all()
    is_clipped = np.abs(gradient) > 3.0 * curvature
    assert_array_equal(weights[~is_clipped], curvature[~is_clipped])
    assert_allclose(np.abs(gradient[is_clipped]) / weights[is_clipped], 3.0)


@pytest.mark.usefixtures("each_hessian_or_a_shared_one")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("start", [0.0, 1.0, "warm"])
@every_pair
def test_a_step_leaves_a_thousandth_of_the_gradient(trainer, loss, start, dtype):
    codes, labels = draw_problem(dtype=dtype)
    penalties = penalties_of(trainer, codes, labels, loss)
    if start == "warm":  # where other codes of the same samples left it, as in a fit
        noise = np.random.default_rng(3).normal(size=codes.values.shape)
        moved = RowCodes(codes.indices, (codes.values * (1 + 0.1 * noise)).astype(dtype))
        first = trainer.train(moved, labels, loss, *draw_start(dtype=dtype), penalties=penalties)
    else:
        first = draw_start(start, dtype=dtype)
    last = trainer.train(codes, labels, loss, *first, penalties=penalties)
    before, after = (np.hypot(*measure_gradients(codes, labels, loss, penalties, *each)) for each in (first, last))
    assert (after <= 1e-3 * before).all()


@pytest.mark.usefixtures("each_hessian_or_a_shared_one")
@pytest.mark.parametrize("factor", [1e-3, 0.25, 1e4])
@every_pair
def test_the_unit_of_the_codes_does_not_matter(trainer, loss, factor):
    codes, labels = draw_problem()
    scaled = RowCodes(codes.indices, factor * codes.values)
    one, other = (trainer.train(each, labels, loss, *draw_start()) for each in (codes, scaled))
    assert_same((factor * other[0], other[1]), one, rtol=1e-7, atol=1e-9)
    if factor == 0.25:
        assert_array_equal(factor * other[0], one[0])


@every_pair
def test_penalties_are_those_given_or_relative_to_the_codes(trainer, loss):
    codes, labels = draw_problem()
    trainer = clone(trainer).set_params(ridge=0.2)
    own = penalties_of(trainer, codes, labels, loss)
    by_default, given, strict = (
        trainer.train(codes, labels, loss, *draw_start(), penalties=penalties)[0]
        for penalties in (None, own, own * [1.0, 10.0, 100.0])
    )
    assert_array_equal(by_default, given)
    assert_allclose(strict[0], given[0], atol=1e-12)
    assert (np.linalg.norm(strict[1:], axis=1) < np.linalg.norm(given[1:], axis=1)).all()


@pytest.mark.parametrize("ridge", [0.0, 1e-3])
@every_pair
def test_separable_classes_stay_finite(trainer, loss, ridge):
    labels = np.repeat([[1.0, -1.0, -1.0], [-1.0, 1.0, -1.0], [-1.0, -1.0, 1.0]], 20, axis=0)
    codes = RowCodes(np.repeat(np.arange(3, dtype=np.int32), 20)[:, None], np.ones((60, 1)))
    trainer = clone(trainer).set_params(ridge=ridge, max_rounds=200, tol=0)
    coef, intercept = np.zeros((3, 4)), np.zeros(3)
    for _ in range(3):
        coef, intercept = trainer.train(codes, labels, loss, coef, intercept)
    assert np.isfinite(coef).all()
    assert np.isfinite(intercept).all()
    assert (labels * (codes.to_csr(4) @ coef.T + intercept) > 0).all()


@pytest.mark.usefixtures("each_hessian_or_a_shared_one")
@pytest.mark.parametrize("ridge", [0.0, 1e-3])
@every_pair
def test_equal_atoms_and_more_atoms_than_samples(trainer, loss, ridge):
    dense = draw_codes(n_samples=6, n_components=20, budget=3).to_csr(20).toarray()
    codes = RowCodes.from_csr(csr_array(np.repeat(dense, 2, axis=1)), 6, np.float64)
    labels = np.where(np.arange(6)[:, None] % 3 == np.arange(3), 1.0, -1.0)
    trainer = clone(trainer).set_params(ridge=ridge)
    start = np.zeros((3, 40)), np.zeros(3)
    trained = trainer.train(codes, labels, loss, *start)
    assert np.isfinite(trained[0]).all()
    assert (data_costs(codes, labels, loss, *trained) < data_costs(codes, labels, loss, *start)).all()


@pytest.mark.usefixtures("each_hessian_or_a_shared_one")
@every_pair
def test_a_class_without_labels_or_with_one_label_only(trainer, loss):
    codes, labels = draw_problem()
    labels[:, 0], labels[:, 1] = 0, 1
    coef, intercept = trainer.train(codes, labels, loss, *draw_start(0.1))
    assert_array_equal(coef[0], 0)
    assert intercept[0] == draw_start(0.1)[1][0]
    assert np.isfinite(coef).all()
    assert (codes.to_csr(N_COMPONENTS) @ coef[1] + intercept[1] > 0).all()


# Choosing a trainer


@pytest.mark.parametrize(
    ("loss", "trainer"),
    [
        ("square", "SquareLev"),
        ("exponential", "AdaBoost"),
        ("logistic", "LogitBoost"),
        ("smooth_hinge", "LinearSVM"),
        ("softplus_hinge", "LinearSVM"),
        (SquaredHinge(), "Newton"),
        (HalfSquare(), "SquareLev"),
    ],
)
def test_auto_is_the_method_that_the_paper_names(loss, trainer):
    assert type(resolve_trainer("auto", loss)).__name__ == trainer


def test_a_trainer_that_does_not_suit_the_loss_names_one_that_does():
    with pytest.raises(ValueError, match=r"AdaBoost\(\) does not support the loss Logistic\(\).*logit_boost.*newton"):
        resolve_trainer("ada_boost", "logistic")
    with pytest.raises(ValueError, match="does not support"):
        resolve_trainer(SquareLev(), "logistic")


def test_objects_are_used_as_they_are():
    trainer = Newton(ridge=0.5)
    assert resolve_trainer(trainer, "logistic") is trainer

    class OnlyTrains(ClassifierTrainer):
        is_additive = False

        def __init__(self, ridge=0.1):  # it need not have parameters that only the rounds read
            self.ridge = ridge

        def train(self, codes, labels, loss, coef, intercept, *, penalties=None, n_jobs=None):
            return coef, intercept

    assert isinstance(resolve_trainer(OnlyTrains(), "logistic"), OnlyTrains)
    with pytest.raises(ValueError, match="ridge == -1"):
        resolve_trainer(OnlyTrains(ridge=-1), "logistic")


# Wrong input is met with words


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"labels": np.ones((N_SAMPLES, 2))}, "need labels of shape"),
        ({"labels": np.full((N_SAMPLES, N_CLASSES), 2.0)}, "labels must be -1"),
        ({"intercept": np.zeros(2)}, "intercept of shape"),
        ({"coef": np.zeros((N_CLASSES, 4))}, "coef is for 4 atoms"),
        ({"coef": np.full((N_CLASSES, N_COMPONENTS), np.nan)}, "coef must hold finite"),
        ({"intercept": np.zeros(N_CLASSES, int)}, "intercept must hold finite floating"),
        *(({name: value}, name) for name, value in (("ridge", -1.0), ("max_rounds", 0), ("tol", -1.0), ("z_max", 0.0))),
    ],
)
def test_wrong_arguments_are_named(change, words):
    (codes, labels), (coef, intercept) = draw_problem(), draw_start()
    arguments = {"labels": labels, "coef": coef, "intercept": intercept}
    trainer = LogitBoost(**{name: value for name, value in change.items() if name not in arguments})
    arguments |= {name: value for name, value in change.items() if name in arguments}
    with pytest.raises(ValueError, match=words):
        trainer.train(codes, loss=Logistic(), **arguments)


# Kernels and their slow twins


@st.composite
def kernel_inputs(draw):
    n_samples, n_components = draw(st.integers(0, 8)), draw(st.integers(1, 6))
    budget, seed = draw(st.integers(1, 6)), draw(st.integers(0, 2**16))
    codes = draw_codes(n_samples, n_components, budget, seed, draw(st.sampled_from([np.float64, np.float32])))
    rng = np.random.default_rng(seed)
    per_sample = rng.normal(size=n_samples) * rng.integers(2, size=n_samples)  # zeros are skipped
    return codes, np.column_stack([codes.to_csr(n_components).toarray(), np.ones(n_samples)]), per_sample


@settings(max_examples=50, deadline=None)
@given(kernel_inputs())
def test_kernel_sums_equal_dense_products(inputs):
    codes, dense, per_sample = inputs
    size = dense.shape[1]
    weights = np.abs(per_sample)

    hessian = np.full((size, size), 3.0)
    add_hessian(codes.indices, codes.values, weights, hessian)
    assert_allclose(np.tril(hessian), np.tril(3 + (dense.T * weights) @ dense), atol=1e-12)
    assert_array_equal(hessian[np.triu_indices(size, 1)], 3)

    gradient = np.full(size, 3.0)
    add_gradient(codes.indices, codes.values, per_sample, gradient)
    assert_allclose(gradient, 3 + dense.T @ per_sample, atol=1e-12)

    classifier, scores = np.linspace(-1, 1, size), np.empty(len(dense))
    score_class(codes.indices, codes.values, classifier, scores)
    assert_allclose(scores, dense @ classifier, atol=1e-12)


@pytest.mark.usefixtures("each_hessian_or_a_shared_one")
@pytest.mark.parametrize("loss", [loss_class() for loss_class in LOSSES.values()], ids=list(LOSSES))
@pytest.mark.parametrize("is_partly_labelled", [False, True], ids=["labelled", "partly"])
def test_samples_in_parts_give_the_classifiers_of_the_whole(loss, is_partly_labelled):
    codes, labels = draw_problem()
    if is_partly_labelled:
        labels[::3, 0] = 0  # now the classes have different Hessians even with a quadratic loss
        labels[::7] = 0
    trainer = resolve_trainer("auto", loss)
    cuts = [slice(0, 1), slice(1, 1), slice(1, 50), slice(50, None)]
    parts = Parts([LabelledCodes(codes.rows(rows), labels[rows].astype(np.int8)) for rows in cuts])
    whole = trainer.train(codes, labels, loss, *draw_start(1.0))
    in_parts = trainer.train_on(parts, loss, *draw_start(1.0))
    assert_same(in_parts, whole, rtol=1e-8, atol=1e-10)


def test_a_few_huge_codes_that_cancel_each_other_do_not_set_the_penalty():
    # On two features and many atoms, nearly parallel atoms get such codes; the mean alone shrank all classifiers.
    norms = np.ones((1, 100))
    norms[0, :2] = 1e6
    expected, found = (scale_ridge(0.03, LOSSES["square"](), each) for each in (np.ones((1, 100)), norms))
    assert found <= 10 * expected
    spread = np.random.default_rng(0).uniform(1, 5, (3, 100))
    np.testing.assert_allclose(scale_ridge(0.03, LOSSES["square"](), spread), 0.03 * 2 * spread.mean(axis=1))
