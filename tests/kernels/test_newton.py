"""Newton's steps on supports against dense arithmetic."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import make_problem
from hypothesis import given
from hypothesis import strategies as st
from reference import dsc_objective
from scipy.sparse import csr_array

from ddlearn import RowCodes
from ddlearn.kernels.newton import Steps, blend_rows, find_newton_steps, margins_after_steps, take_steps
from ddlearn.model.losses import LOSSES

every_loss = pytest.mark.parametrize("loss", [loss_class() for loss_class in LOSSES.values()], ids=list(LOSSES))


def draw_codes(problem, seed=0):
    """Return random codes of the problem's rows, with 0 to T atoms."""
    rng = np.random.default_rng(seed)
    codes = np.zeros((len(problem.X), len(problem.dictionary)))
    for row, code in enumerate(codes):
        n_used = row % (problem.n_nonzero_coefs + 1)
        code[rng.choice(len(code), n_used, replace=False)] = 0.5 * rng.standard_normal(n_used)
    return codes


def step_on_supports(problem, loss, codes, active):
    problems, rows = problem.pose(loss, codes)
    n_active, budget, n_classes = len(active), rows.values.shape[1], rows.scores.shape[1]
    steps = Steps(np.empty((n_active, budget)), np.empty((n_active, n_classes)), *np.empty((3, n_active)))
    workspace = np.empty((budget + 1, budget)), np.empty((5, max(budget, n_classes)))
    find_newton_steps(active, problems.shared, rows, *problems.expand(rows, active), 1e-10, *workspace, steps)
    return problems, rows, steps


@every_loss
def test_cost_of_rows_is_the_objective_of_the_paper(problem, loss):
    codes = draw_codes(problem)
    _, rows = problem.pose(loss, codes)
    np.testing.assert_allclose(rows.objective, problem.objectives(loss, codes), rtol=1e-12)
    np.testing.assert_allclose(rows.misfit, np.sum((problem.X - codes @ problem.dictionary) ** 2, axis=1), rtol=1e-12)
    np.testing.assert_allclose(rows.scores, codes @ problem.coef.T, atol=1e-13)
    np.testing.assert_array_equal(rows.n_used, np.count_nonzero(codes, axis=1))


def test_unknown_labels_cost_nothing(problem):
    loss, codes = LOSSES["logistic"](), draw_codes(problem)
    labels = problem.labels.copy()
    labels[:, 1] = 0
    _, rows = problem._replace(labels=labels).pose(loss, codes)
    others = [0, 2, 3]
    fewer = problem._replace(
        labels=problem.labels[:, others],
        coef=problem.coef[others],
        intercept=problem.intercept[others],
        class_cost=problem.class_cost[others],
    )
    np.testing.assert_allclose(rows.objective, fewer.objectives(loss, codes), rtol=1e-12)


@every_loss
def test_step_solves_the_parabola_on_the_support(problem, loss):
    codes, active = draw_codes(problem), np.arange(59, 0, -2)  # some rows, in another order
    weight, pull = problem.expand(loss, codes)
    _, rows, steps = step_on_supports(problem, loss, codes, active)
    for a, row in enumerate(active):
        (Q, c), x, n_used = problem.quadratic(row, weight, pull), codes[row], rows.n_used[row]
        support = rows.indices[row, :n_used]
        right = (c - Q @ x)[support]
        step = np.linalg.solve(Q[np.ix_(support, support)], right)
        full = np.zeros_like(x)
        full[support] = step
        change = full @ problem.dictionary
        np.testing.assert_allclose(steps.direction[a, :n_used], step, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(steps.score_change[a], problem.coef @ full, rtol=1e-7, atol=1e-8)
        residual = problem.X[row] - x @ problem.dictionary
        found = steps.linear[a], steps.quadratic[a], steps.decrement[a]
        np.testing.assert_allclose(found, (-change @ residual, change @ change, step @ right), rtol=1e-7, atol=1e-8)


def test_an_atom_that_depends_on_those_before_it_stays():
    problem = make_problem("random", seed=0)
    dictionary, coef = problem.dictionary.copy(), problem.coef.copy()
    dictionary[7], coef[:, 7] = -2 * dictionary[3], -2 * coef[:, 3]
    problem, codes = problem._replace(dictionary=dictionary, coef=coef), np.zeros((60, 30))
    codes[:, [3, 5, 7]] = 0.2, -0.3, 0.4
    _, _, steps = step_on_supports(problem, LOSSES["logistic"](), codes, np.arange(60))
    alone = codes.copy()
    alone[:, 3], alone[:, 7] = 0.2 - 2 * 0.4, 0  # the same sample and scores
    _, _, expected = step_on_supports(problem, LOSSES["logistic"](), alone, np.arange(60))
    assert not steps.direction[:, 2].any()
    np.testing.assert_allclose(steps.direction[:, :2], expected.direction[:, :2], rtol=1e-9)
    np.testing.assert_allclose(steps.decrement, expected.decrement, rtol=1e-9)


@every_loss
@pytest.mark.parametrize("length", [1.0, 0.25])
def test_a_step_is_taken_where_it_brings_enough_and_costs_are_up_to_date(problem, loss, length):
    codes, active, share = draw_codes(problem), np.arange(0, 60, 2), 1e-4
    problems, rows, steps = step_on_supports(problem, loss, codes, active)
    before, margins, is_taken = rows.objective.copy(), np.empty((30, 4)), np.empty(30, bool)
    margins_after_steps(active, problems.shared, rows, steps, length, margins)
    take_steps(active, problems.shared, rows, steps, length, share, loss.value(margins), is_taken)
    after = RowCodes(rows.indices, rows.values).to_csr(30).toarray()
    fresh = problem.objectives(loss, after)
    np.testing.assert_allclose(rows.objective, fresh, rtol=1e-11)
    np.testing.assert_allclose(rows.scores, after @ problem.coef.T, atol=1e-10)
    np.testing.assert_allclose(rows.misfit, np.sum((problem.X - after @ problem.dictionary) ** 2, axis=1), rtol=1e-10)
    for a, row in enumerate(active):
        moved = codes[row].copy()
        moved[rows.indices[row, : rows.n_used[row]]] += length * steps.direction[a, : rows.n_used[row]]
        enough = 2 * share * length * steps.decrement[a] / problem.noise_variance[row]
        new = dsc_objective(moved, *problem.row(row, loss))
        assert abs(new + enough - before[row]) < 1e-12 * before[row] or is_taken[a] == (new <= before[row] - enough)
        np.testing.assert_allclose(after[row], moved if is_taken[a] else codes[row], atol=1e-13)
    np.testing.assert_array_equal(after[1::2], codes[1::2])
    assert is_taken.any()


@given(seed=st.integers(0, 10_000), share=st.sampled_from([0.25, 0.5, 1.0]))
def test_a_blend_lies_between_two_codes_or_is_the_old_one_where_it_has_too_many_atoms(seed, share):
    rng = np.random.default_rng(seed)
    n_atoms, budget = 8, 4
    dense = [np.where(rng.random((6, n_atoms)) < 0.3, rng.standard_normal((6, n_atoms)), 0) for _ in range(2)]
    for codes in dense:
        codes[np.count_nonzero(codes, axis=1) > budget] = 0
    dense[1][0] = -dense[0][0]  # at a share of one half nothing is left
    old, new = (RowCodes.from_csr(csr_array(codes), budget, codes.dtype) for codes in dense)
    found = RowCodes(np.full_like(old.indices, -1), np.full_like(old.values, np.nan))
    blend_rows(*old, *new, share, *found)
    expected = (1 - share) * dense[0] + share * dense[1]
    has_place = np.count_nonzero(expected, axis=1) <= budget
    np.testing.assert_allclose(found.to_csr(n_atoms).toarray(), np.where(has_place[:, None], expected, dense[0]))
    laid_out = found.sort()  # which it is already
    np.testing.assert_array_equal(laid_out.indices, found.indices)
    np.testing.assert_array_equal(laid_out.values, found.values)
