"""Algorithm 1 as printed: its steps on the paper's stacked matrices, and when a sample is done."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import every_coder, every_loss, every_pursuit, make_problem
from reference import Counting, dsc_objective, newton_step_stacked

from ddlearn import PrintedCoding, Square, discriminative_encode


def encode(problem, loss, max_iter=100, tol=1e-4, **options):
    """Return codes as a matrix, and the record."""
    coding = PrintedCoding(max_iter, tol)
    codes, record = discriminative_encode(**problem.arguments(), loss=loss, label_coding=coding, **options)
    return codes.toarray(), record


def count_tried(record):
    """Return how many steps of the coder each sample has had, undone ones included."""
    return record.n_steps[:, 1] + record.n_rejected


@every_loss
@every_pursuit
@pytest.mark.parametrize("n_steps", [1, 2, 10])
def test_gram_form_equals_the_papers_stacked_form(problem, loss, sparse_coder, n_steps):
    # Step by step from the same codes: an exponential loss turns the rounding errors of one step into large
    # differences between the parabolas of the next.
    before, _ = encode(problem, loss, n_steps - 1, 0.0, sparse_coder=sparse_coder)
    after, record = encode(problem, loss, n_steps, 0.0, sparse_coder=sparse_coder)
    is_active = count_tried(record) == n_steps
    np.testing.assert_array_equal(after[~is_active], before[~is_active])
    assert n_steps > 1 or is_active.all()
    weight, pull = problem.expand(loss, before, loss.surrogate_curvature)
    for row in np.flatnonzero(is_active):
        x, arguments = before[row], problem.row(row, loss)
        step = newton_step_stacked(x, *arguments, problem.n_nonzero_coefs, is_off_support_norm=sparse_coder == "ormp")
        old, new = (dsc_objective(each, *arguments) for each in (x, step))
        rounding = 1e-12 * abs(old)
        if (after[row] != x).any():
            assert new < old + rounding
            support, (Q, _) = np.flatnonzero(step), problem.quadratic(row, weight, pull)
            condition = np.linalg.cond(Q[np.ix_(support, support)])
            tolerance = 100 * np.finfo(float).eps * condition * np.linalg.norm(step)
            np.testing.assert_allclose(after[row], step, rtol=0, atol=tolerance)
        else:
            assert new > old - rounding


@every_loss
def test_a_sample_is_done_after_the_first_step_that_changes_its_code_by_no_more_than_the_tolerance(problem, loss):
    tol, n_steps = 0.1, 12
    _, record = encode(problem, loss, tol=tol)
    path = [encode(problem, loss, k, 0.0)[0] for k in range(n_steps)]
    n_tried = count_tried(record)
    is_done = n_tried < n_steps
    assert np.mean(is_done) > 0.75
    for n_iter, codes in zip(n_tried[is_done], np.stack(path, axis=1)[is_done], strict=True):
        changes = np.linalg.norm(np.diff(codes, axis=0), axis=1) / np.linalg.norm(codes[:-1], axis=1)
        assert n_iter == 1 + np.argmax(changes <= tol) or loss.is_quadratic


def test_without_the_guard_steps_would_rise():
    # The reason for the guard: if no step were ever rejected, the tests of it would be vacuous.
    _, record = encode(make_problem("random", seed=0, n_samples=300), "logistic", tol=0.0)
    assert record.n_rejected.any()


@every_coder
def test_square_loss_needs_one_step_and_a_second_changes_nothing(problem, sparse_coder):
    codes, record = discriminative_encode(
        **problem.arguments(), loss="square", sparse_coder=sparse_coder, label_coding="printed"
    )
    assert (count_tried(record) == 1).all()
    again, _ = encode(problem, "square", sparse_coder=sparse_coder, init_codes=codes)
    np.testing.assert_allclose(again, codes.toarray(), atol=1e-12)


class UndeclaredSquare(Square):
    is_quadratic = False


def test_square_loss_converges_in_one_step_even_if_it_does_not_say_so(problem):
    np.testing.assert_allclose(encode(problem, UndeclaredSquare())[0], encode(problem, "square")[0], rtol=0, atol=1e-12)


def test_rows_that_are_done_are_left_alone(problem):
    _, record = encode(problem, "logistic")
    n_tried = count_tried(record)
    assert n_tried.max() < 100
    assert len(np.unique(n_tried)) > 1
    coder = Counting()
    encode(problem, "logistic", sparse_coder=coder)
    assert (coder.n_traditional, coder.n_discriminative) == (len(problem.X), n_tried.sum())


@every_loss
def test_only_reselections_are_recorded(problem, loss):
    _, record = encode(problem, loss)
    assert not record.n_steps[:, [0, 2]].any()
    assert record.n_moved["reselect"] == np.count_nonzero(record.objective_after < record.objective_before)
