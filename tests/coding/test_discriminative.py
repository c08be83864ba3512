"""Discriminative coding, Algorithm 1: its parabolas, its guard, and codes that no thread or block size changes."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_problem
from reference import dsc_objective, newton_step_stacked
from scipy.sparse import csr_array
from test_losses import SquaredHinge

from ddlearn import (
    LOSSES,
    SPARSE_CODERS,
    Logistic,
    Loss,
    SparseCoder,
    Square,
    discriminative_encode,
    sparse_encode,
)
from ddlearn.codes import Model
from ddlearn.coding.discriminative import DiscriminativeCoder, DiscriminativeCoding, RowProblems, expand_loss
from ddlearn.coding.encoder import Encoder
from ddlearn.parallel import TILE_ROWS

every_loss = pytest.mark.parametrize("loss", [loss_class() for loss_class in LOSSES.values()], ids=list(LOSSES))
every_coder = pytest.mark.parametrize("sparse_coder", sorted(SPARSE_CODERS))
# What holds with a penalty in place of the paper's constraint is in test_elastic_net.py.
every_pursuit = pytest.mark.parametrize("sparse_coder", sorted(set(SPARSE_CODERS) - {"elastic_net"}))


def row_arguments(problem, loss, row):
    return (
        problem.X[row],
        problem.labels[row],
        problem.dictionary,
        problem.coef,
        problem.intercept,
        problem.noise_variance[row],
        problem.class_cost,
        loss,
    )


def make_model(problem):
    return Model(problem.dictionary, problem.coef, problem.intercept, problem.class_cost)


def expand(problem, loss, rows, scores):
    """Return weights and pulls of the parabolas of some rows at given scores."""
    nothing = np.empty(0)  # an expansion needs labels and variances alone
    problems = RowProblems(nothing, nothing, problem.labels[rows], problem.noise_variance[rows])
    return expand_loss(make_model(problem), loss, problems, scores)


def objectives(problem, loss, codes):
    return np.array([dsc_objective(x, *row_arguments(problem, loss, row)) for row, x in enumerate(codes.toarray())])


def conditioning(problem, loss, row, x, support):
    """Return the condition number of the parabola at x on a support."""
    weight, _ = expand(problem, loss, [row], (problem.coef @ x)[None])
    Q = problem.dictionary @ problem.dictionary.T + problem.coef.T @ (weight[0][:, None] * problem.coef)
    return np.linalg.cond(Q[np.ix_(support, support)])


@every_loss
@every_pursuit
@pytest.mark.parametrize("n_steps", [1, 2, 10])
def test_gram_form_equals_the_papers_stacked_form(problem, loss, sparse_coder, n_steps):
    # Step by step from the same codes: an exponential loss turns the rounding errors of one step into large
    # differences between the parabolas of the next.
    def encode(max_coding_iter):
        arguments = problem.arguments() | {"loss": loss, "sparse_coder": sparse_coder, "coding_tol": 0.0}
        codes, record = discriminative_encode(**arguments, max_coding_iter=max_coding_iter)
        return codes.toarray(), record

    (before, _), (after, record) = encode(n_steps - 1), encode(n_steps)
    is_active = record.n_iter == n_steps
    np.testing.assert_array_equal(after[~is_active], before[~is_active])
    assert n_steps > 1 or is_active.all()
    for row in np.flatnonzero(is_active):
        x, arguments = before[row], row_arguments(problem, loss, row)
        step = newton_step_stacked(x, *arguments, problem.n_nonzero_coefs, is_off_support_norm=sparse_coder == "ormp")
        old, new = (dsc_objective(each, *arguments) for each in (x, step))
        rounding = 1e-12 * abs(old)
        if (after[row] != x).any():
            assert new < old + rounding
            condition = conditioning(problem, loss, row, x, np.flatnonzero(step))
            tolerance = 100 * np.finfo(float).eps * condition * np.linalg.norm(step)
            np.testing.assert_allclose(after[row], step, rtol=0, atol=tolerance)
        else:
            assert new > old - rounding


@every_loss
def test_a_sample_is_done_after_the_first_step_that_changes_its_code_by_no_more_than_the_tolerance(problem, loss):
    arguments, tol, n_steps = problem.arguments() | {"loss": loss}, 0.1, 12
    _, record = discriminative_encode(**arguments, coding_tol=tol)
    path = [discriminative_encode(**arguments, coding_tol=0.0, max_coding_iter=k)[0].toarray() for k in range(n_steps)]
    is_done = record.n_iter < n_steps
    assert np.mean(is_done) > 0.8
    for n_iter, codes in zip(record.n_iter[is_done], np.stack(path, axis=1)[is_done], strict=True):
        changes = np.linalg.norm(np.diff(codes, axis=0), axis=1) / np.linalg.norm(codes[:-1], axis=1)
        assert n_iter == 1 + np.argmax(changes <= tol) or loss.is_quadratic


@every_loss
def test_parabola_has_the_gradient_of_the_objective(problem, loss):
    # With the paper's printed weight, half of Omega_2 / gamma, this fails by several units.
    rng = np.random.default_rng(0)
    x = 0.3 * rng.standard_normal(len(problem.dictionary))
    for row in range(5):
        arguments = row_arguments(problem, loss, row)
        variance = problem.noise_variance[row]
        weight, pull = expand(problem, loss, [row], (problem.coef @ x)[None])
        Q = problem.dictionary @ problem.dictionary.T + problem.coef.T @ (weight[0][:, None] * problem.coef)
        c = problem.dictionary @ problem.X[row] + problem.coef.T @ pull[0]
        step = 1e-6
        slopes = [
            (dsc_objective(x + step * e, *arguments) - dsc_objective(x - step * e, *arguments)) / (2 * step)
            for e in np.eye(len(x))
        ]
        np.testing.assert_allclose(2 * (Q @ x - c) / variance, slopes, rtol=1e-5, atol=1e-5)


@every_loss
@every_pursuit
def test_no_samples_objective_rises(problem, loss, sparse_coder):
    start = sparse_encode(problem.X, problem.dictionary, n_nonzero_coefs=problem.n_nonzero_coefs)
    codes, record = discriminative_encode(
        **problem.arguments(), loss=loss, sparse_coder=sparse_coder, init_codes=start, coding_tol=0.0
    )
    before, after = objectives(problem, loss, start), objectives(problem, loss, codes)
    np.testing.assert_allclose(record.objective_before, before, rtol=1e-10)
    np.testing.assert_allclose(record.objective_after, after, rtol=1e-10)
    assert (record.objective_after <= record.objective_before).all()
    assert record.n_accepted + record.n_rejected <= record.n_iter.sum()
    assert record.n_accepted > 0


def test_without_the_guard_steps_would_rise():
    # The reason for the guard: if no step were ever rejected, the tests above would be vacuous.
    problem = make_problem("random", seed=0, n_samples=300)
    _, record = discriminative_encode(**problem.arguments(), loss="logistic", coding_tol=0.0)
    assert record.n_rejected > 0


@every_coder
def test_square_loss_needs_one_iteration_and_a_second_changes_nothing(problem, sparse_coder):
    codes, record = discriminative_encode(**problem.arguments(), loss="square", sparse_coder=sparse_coder)
    assert (record.n_iter == 1).all()
    again, _ = discriminative_encode(**problem.arguments(), loss="square", sparse_coder=sparse_coder, init_codes=codes)
    np.testing.assert_allclose(again.toarray(), codes.toarray(), atol=1e-12)


class UndeclaredSquare(Square):
    is_quadratic = False


def test_square_loss_converges_in_one_step_even_if_it_does_not_say_so(problem):
    declared, _ = discriminative_encode(**problem.arguments(), loss="square")
    iterated, _ = discriminative_encode(**problem.arguments(), loss=UndeclaredSquare())
    np.testing.assert_allclose(iterated.toarray(), declared.toarray(), atol=1e-12)


@every_loss
@every_coder
def test_without_class_weight_it_is_traditional_coding(problem, loss, sparse_coder):
    arguments = problem.arguments() | {"class_cost": 1e30}
    codes, _ = discriminative_encode(**arguments, loss=loss, sparse_coder=sparse_coder)
    expected = sparse_encode(
        problem.X, problem.dictionary, n_nonzero_coefs=problem.n_nonzero_coefs, method=sparse_coder
    )
    np.testing.assert_allclose(codes.toarray(), expected.toarray(), atol=1e-8)


@every_loss
@every_pursuit
def test_code_is_the_minimiser_of_its_parabola_on_its_support(problem, loss, sparse_coder):
    start = sparse_encode(problem.X, problem.dictionary, n_nonzero_coefs=problem.n_nonzero_coefs)
    codes, record = discriminative_encode(
        **problem.arguments(), loss=loss, sparse_coder=sparse_coder, init_codes=start, max_coding_iter=1
    )
    moved = np.flatnonzero(record.objective_after < record.objective_before)
    assert moved.size > 0
    weight, pull = expand(problem, loss, slice(None), start @ problem.coef.T)
    x = codes.toarray()
    gradient = (x @ problem.dictionary - problem.X) @ problem.dictionary.T
    gradient += (weight * (x @ problem.coef.T) - pull) @ problem.coef
    assert (np.count_nonzero(x, axis=1) <= problem.n_nonzero_coefs).all()
    size = 1 + np.abs(pull @ problem.coef).max(axis=1, keepdims=True)  # exponential weights reach thousands
    np.testing.assert_allclose((gradient / size)[moved][x[moved] != 0], 0, atol=1e-10)


@every_loss
def test_unlabelled_rows_are_coded_traditionally(problem, loss):
    labels = problem.labels.copy()
    labels[::3] = 0
    arguments = problem.arguments() | {"labels": labels}
    codes, record = discriminative_encode(**arguments, loss=loss)
    traditional = sparse_encode(problem.X, problem.dictionary, n_nonzero_coefs=problem.n_nonzero_coefs)
    np.testing.assert_array_equal(codes.toarray()[::3], traditional.toarray()[::3])
    assert not record.n_iter[::3].any()
    labelled, _ = discriminative_encode(**problem.arguments(), loss=loss)
    np.testing.assert_array_equal(codes.toarray()[1::3], labelled.toarray()[1::3])


def test_a_single_unknown_label_leaves_out_its_class():
    problem = make_problem("planted", seed=0)
    labels = problem.labels.copy()
    labels[:, 2] = 0
    others = [0, 1, 3]
    codes, _ = discriminative_encode(**problem.arguments() | {"labels": labels}, loss="logistic")
    expected, _ = discriminative_encode(
        **problem.arguments()
        | {
            "labels": problem.labels[:, others],
            "coef": problem.coef[others],
            "intercept": problem.intercept[others],
            "class_cost": problem.class_cost[others],
        },
        loss="logistic",
    )
    np.testing.assert_allclose(codes.toarray(), expected.toarray(), atol=1e-10)


def test_unlabelled_rows_keep_better_codes_that_they_come_with(problem):
    # OMP can be worse than codes from an earlier iteration: the guard holds for rows without labels too.
    better = sparse_encode(problem.X, problem.dictionary, n_nonzero_coefs=problem.n_nonzero_coefs, method="ormp")
    arguments = problem.arguments() | {"labels": np.zeros_like(problem.labels)}
    _, record = discriminative_encode(**arguments, loss="square", sparse_coder="omp", init_codes=better)
    assert (record.objective_after <= record.objective_before).all()
    assert record.n_rejected > 0


def test_unlabelled_rows_stop_on_the_coders_tolerance_with_and_without_earlier_codes(problem):
    arguments = problem.arguments() | {"labels": np.zeros_like(problem.labels), "loss": "square"}
    coder = SPARSE_CODERS["omp"](tol=5.0)
    fresh, _ = discriminative_encode(**arguments, sparse_coder=coder)
    again, _ = discriminative_encode(**arguments, sparse_coder=coder, init_codes=csr_array(fresh.shape))
    np.testing.assert_array_equal(again.toarray(), fresh.toarray())


def test_rows_that_are_done_are_left_alone(problem):
    _, record = discriminative_encode(**problem.arguments(), loss="logistic")
    assert record.n_iter.max() < 100
    assert len(np.unique(record.n_iter)) > 1

    class Counting(SparseCoder):
        n_rows = 0

        def encode(self, *arguments, **options):
            codes = SPARSE_CODERS["omp"]().encode(*arguments, **options)
            Counting.n_rows += len(codes.indices)
            return codes

    discriminative_encode(**problem.arguments(), loss="logistic", sparse_coder=Counting())
    assert Counting.n_rows == record.n_iter.sum() + len(problem.X)  # the start is one coding of every row


@every_loss
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bitwise_equal_for_every_number_of_threads_and_block_size(loss, dtype):
    problem = make_problem("random", seed=0, n_samples=2 * TILE_ROWS + 77).astype(dtype)
    encoder = Encoder.of(problem.dictionary, SPARSE_CODERS["omp"](), problem.n_nonzero_coefs)
    coder = DiscriminativeCoder(encoder, make_model(problem), loss, DiscriminativeCoding(max_iter=20))
    results = [
        coder.encode(problem.X, problem.labels, problem.noise_variance, n_jobs=n_jobs, block_rows=block_rows)
        for n_jobs in (1, 2, 3)
        for block_rows in (TILE_ROWS, 3 * TILE_ROWS)
    ]
    (expected, expected_record), *others = results
    for codes, record in others:
        np.testing.assert_array_equal(codes.indices, expected.indices)
        np.testing.assert_array_equal(codes.values, expected.values)
        np.testing.assert_array_equal(record.objective_after, expected_record.objective_after)
        assert (record.n_accepted, record.n_rejected) == (expected_record.n_accepted, expected_record.n_rejected)


@every_loss
def test_float32_is_kept_and_close_to_float64(problem, loss):
    single, single_record = discriminative_encode(**problem.astype(np.float32).arguments(), loss=loss)
    _, double_record = discriminative_encode(**problem.arguments(), loss=loss)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single_record.objective_before, double_record.objective_before, rtol=1e-3)
    # A near tie may send a sample down another path; on the whole nothing changes.
    assert single_record.objective_after.mean() == pytest.approx(double_record.objective_after.mean(), rel=1e-2)


@every_loss
def test_scaling_samples_atoms_and_noise_together_changes_nothing(problem, loss):
    scale = 7.0
    codes, _ = discriminative_encode(**problem.arguments(), loss=loss)
    scaled, _ = discriminative_encode(
        **problem.arguments()
        | {
            "X": scale * problem.X,
            "dictionary": scale * problem.dictionary,
            "noise_variance": scale**2 * problem.noise_variance,
        },
        loss=loss,
    )
    np.testing.assert_allclose(scaled.toarray(), codes.toarray(), atol=1e-8)


def test_a_users_loss_runs(problem):
    codes, record = discriminative_encode(**problem.arguments(), loss=SquaredHinge())
    assert (record.objective_after <= record.objective_before).all()
    assert objectives(problem, SquaredHinge(), codes).sum() < record.objective_before.sum()


class Bare(Loss):
    """A loss with nothing but the three methods."""

    value, gradient, curvature = (
        staticmethod(getattr(Logistic(), name)) for name in ("value", "gradient", "curvature")
    )


def test_three_methods_are_enough_for_a_loss(problem):
    codes, _ = discriminative_encode(**problem.arguments(), loss=Bare())
    expected, _ = discriminative_encode(**problem.arguments(), loss="logistic")
    np.testing.assert_array_equal(codes.toarray(), expected.toarray())


@every_loss
def test_extreme_pulls_stay_finite(problem, loss):
    arguments = problem.arguments() | {"coef": 1e3 * problem.coef, "class_cost": 1e-6}
    codes, record = discriminative_encode(**arguments, loss=loss)
    assert np.isfinite(codes.data).all()
    assert (record.objective_after <= record.objective_before).all()


def test_read_only_arguments():
    problem = make_problem("random", seed=0)
    for value in problem:
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    start = sparse_encode(problem.X, problem.dictionary, n_nonzero_coefs=5)
    kept = start.copy()
    discriminative_encode(**problem.arguments(), loss="logistic", init_codes=start)
    np.testing.assert_array_equal(start.toarray(), kept.toarray())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": np.ones((60, 3))}, r"labels has shape \(60, 3\), expected \(60, 4\)"),
        ({"labels": np.full((60, 4), 2)}, "labels contains 2 in row 0, column 0"),
        ({"coef": np.ones((4, 29))}, "coef has 29 columns, but there are 30 atoms"),
        ({"intercept": np.ones(3)}, "intercept has shape"),
        ({"intercept": np.nan}, "intercept contains values that are not finite"),
        ({"noise_variance": 0.0}, "noise_variance must be positive, got 0"),
        ({"noise_variance": np.ones(59)}, "noise_variance has shape .*60 samples"),
        ({"class_cost": [1.0, 1.0, -2.0, 1.0]}, "class_cost must be positive, got -2 at position 2"),
        ({"loss": "hinge"}, "'hinge' is not (a )?known"),
        ({"n_nonzero_coefs": 31}, "exceeds the 30 atoms"),
        ({"max_coding_iter": -1}, "max_coding_iter"),
        ({"coding_tol": -1e-3}, "coding_tol"),
        ({"init_codes": csr_array((60, 29))}, "init_codes has shape"),
        ({"init_codes": csr_array(np.ones((60, 30)))}, "Row 0 of the codes has 30 nonzeros"),
        ({"init_codes": csr_array(np.where(np.eye(60, 30) == 1, np.nan, 0))}, "init_codes contains NaN"),
        ({"X": np.full((60, 20), np.nan)}, "X contains NaN in row 0"),
    ],
    ids=str,
)
def test_errors_name_the_value_and_the_remedy(change, message):
    arguments = make_problem("random", seed=0).arguments() | {"loss": "logistic"} | change
    with pytest.raises(ValueError, match=message):
        discriminative_encode(**arguments)
