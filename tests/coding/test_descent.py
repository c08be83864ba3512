"""The descent of Algorithm 1: where it ends, against exhaustive search."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import enumerate_supports, every_loss, every_pursuit, make_problem
from reference import Counting, minimum_on
from scipy.sparse import csr_array

from ddlearn import Descent, ElasticNet, RowCodes, discriminative_encode, sparse_encode
from ddlearn.coding import descent
from ddlearn.coding.discriminative import LABEL_CODINGS
from ddlearn.model.losses import LOSSES

from_scratch = pytest.mark.parametrize("init_codes", [None, csr_array((60, 30))], ids=["traditional", "empty"])


def encode(problem, loss, **options):
    """Return codes as a matrix, and the record."""
    codes, record = discriminative_encode(**problem.arguments(), loss=loss, **options)
    return codes.toarray(), record


@every_loss
@every_pursuit
@from_scratch
def test_the_end_is_the_minimum_on_its_support(problem, loss, sparse_coder, init_codes):
    # A last Newton step would bring at most tol / 100 of F: r'inv(Q)r <= tol / 100 v F, with r the slope and Q the
    # curvature on the support.
    tol = 1e-6
    x, record = encode(problem, loss, sparse_coder=sparse_coder, init_codes=init_codes, label_coding=Descent(tol=tol))
    assert (np.count_nonzero(x, axis=1) <= problem.n_nonzero_coefs).all()
    weight, pull = problem.expand(loss, x)
    for row, objective in enumerate(record.objective_after):
        (Q, c), support = problem.quadratic(row, weight, pull), np.flatnonzero(x[row])
        slope = (c - Q @ x[row])[support]
        decrement = slope @ np.linalg.solve(Q[np.ix_(support, support)], slope)
        assert decrement <= 1.01 * tol / 100 * problem.noise_variance[row] * objective


@every_pursuit
@from_scratch
def test_with_the_square_loss_no_swap_lowers_the_objective(problem, sparse_coder, init_codes):
    loss, tol = LOSSES["square"](), 1e-8
    options = {"sparse_coder": sparse_coder, "init_codes": init_codes}
    x, record = encode(problem, loss, label_coding=Descent(n_swaps=1000, tol=tol), **options)
    weight, pull = problem.expand(loss, x)
    for row, objective in enumerate(record.objective_after[:20]):
        (Q, c), support = problem.quadratic(row, weight, pull), set(np.flatnonzero(x[row]).tolist())
        assert len(support) == problem.n_nonzero_coefs
        here = minimum_on(Q, c, support)[1]
        swaps = [minimum_on(Q, c, support - {out} | {k})[1] for out in support for k in set(range(30)) - support]
        assert here - min(swaps) <= 2 * tol * problem.noise_variance[row] * objective


def shrink(problem, n_components=12, n_nonzero_coefs=2, n_samples=30):
    """Return a smaller problem, of which all supports can be tried."""
    return problem._replace(
        X=problem.X[:n_samples],
        labels=problem.labels[:n_samples],
        noise_variance=problem.noise_variance[:n_samples],
        dictionary=problem.dictionary[:n_components],
        coef=np.ascontiguousarray(problem.coef[:, :n_components]),
        n_nonzero_coefs=n_nonzero_coefs,
    )


@every_loss
@every_pursuit
@pytest.mark.parametrize("kind", ["random", "planted"])
def test_close_to_the_enumeration_of_all_supports_and_never_below(kind, loss, sparse_coder):
    problem = shrink(make_problem(kind, seed=0))
    least = enumerate_supports(problem.make_coder(loss), problem.X, problem.labels, problem.noise_variance)
    _, record = encode(problem, loss, sparse_coder=sparse_coder)
    assert (record.objective_after >= least * (1 - 1e-9)).all()
    assert (record.objective_after - least).mean() <= 0.03 * least.mean()


@every_loss
@every_pursuit
def test_on_average_lower_than_the_printed_algorithm(problem, loss, sparse_coder):
    descent, printed = (
        encode(problem, loss, sparse_coder=sparse_coder, label_coding=coding)[1].objective_after.mean()
        for coding in LABEL_CODINGS
    )
    assert descent < printed


def test_rows_may_be_taken_in_any_order(problem):
    problems, rows = problem.pose(LOSSES["logistic"](), sparse_encode(problem.X, problem.dictionary).toarray())
    for positions in (np.arange(60)[::-1], np.array([5, 3, 5])):
        some = problems.take(positions).place(RowCodes(rows.indices[positions], rows.values[positions]))
        np.testing.assert_array_equal(some.objective, rows.objective[positions])


@every_loss
@from_scratch
def test_every_swap_is_one_step_and_there_are_no_more_than_allowed(problem, loss, init_codes):
    means = []
    for n_swaps in (0, 2, 30):
        _, record = encode(problem, loss, label_coding=Descent(n_swaps=n_swaps), init_codes=init_codes)
        # One call makes all swaps of a parabola.
        assert 0 <= record.n_steps[:, 2].max() <= (min(n_swaps, 1) if loss.is_quadratic else n_swaps)
        assert (record.n_moved["replace"] > 0) == (n_swaps > 0)
        assert (record.objective_after <= record.objective_before).all()
        means.append(record.objective_after.mean())
    assert means[2] <= means[1] < means[0]


@every_loss
def test_codes_of_an_earlier_iteration_are_kicked_and_traditional_ones_are_not(problem, loss, monkeypatch):
    traditional = sparse_encode(problem.X, problem.dictionary, n_nonzero_coefs=problem.n_nonzero_coefs)
    ends = []
    for n_kicks in (0, 3):
        monkeypatch.setattr(descent, "_N_KICKS", n_kicks)
        ends.append([encode(problem, loss, init_codes=init)[1].objective_after for init in (None, traditional)])
    (fresh, warm), (fresh_with_kicks, warm_with_kicks) = ends
    np.testing.assert_array_equal(fresh, fresh_with_kicks)
    assert (warm_with_kicks <= warm).all()
    assert (warm_with_kicks < warm * (1 - 1e-6)).any()


@every_loss
def test_an_empty_start_is_filled(problem, loss):
    x, record = encode(
        problem, loss, init_codes=csr_array((60, 30)), label_coding=Descent(n_swaps=problem.n_nonzero_coefs)
    )
    np.testing.assert_allclose(record.objective_before, problem.objectives(loss, np.zeros_like(x)))
    assert (record.objective_after < record.objective_before).all()
    nothing = problem._replace(X=np.zeros_like(problem.X))  # whose traditional codes are empty
    x, record = encode(nothing, loss)
    np.testing.assert_allclose(record.objective_after, nothing.objectives(loss, x), rtol=1e-10)
    assert (record.objective_after < record.objective_before).mean() > 0.9


def test_a_coder_of_your_own_starts_rows_and_selects_once_for_rows_that_come_with_codes(problem):
    coder = Counting()
    fresh, _ = encode(problem, "logistic", sparse_coder=coder)
    assert (coder.n_traditional, coder.n_discriminative) == (60, 0)
    encode(problem, "logistic", sparse_coder=coder, init_codes=csr_array(fresh))
    assert (coder.n_traditional, coder.n_discriminative) == (60, 60)
    np.testing.assert_array_equal(fresh, encode(problem, "logistic", sparse_coder="omp")[0])


@every_loss
def test_a_second_descent_starts_where_the_first_has_ended(problem, loss):
    x, record = encode(problem, loss, init_codes=csr_array((60, 30)))
    _, again = encode(problem, loss, init_codes=csr_array(x))
    np.testing.assert_allclose(again.objective_before, record.objective_after, rtol=1e-12)
    assert (again.objective_after <= record.objective_after).all()
    # A reselection may still find something, or a swap or kick, by a parabola that is now at the exact minimum.
    assert again.objective_after.mean() > 0.95 * record.objective_after.mean()


# -- with a penalty ---------------------------------------------------------------------------------------------------

NET = ElasticNet(0.15, l1_ratio=0.7, tol=1e-10)


def descend_slowly(problem, loss, x, n_steps=1000):
    """Proximal gradient descent of F with the penalty, all rows at once, with a step length of each row."""
    variance, length = problem.noise_variance[:, None], np.full((len(x), 1), 1.0)
    lasso, ridge = NET.alpha * NET.l1_ratio, NET.alpha * (1 - NET.l1_ratio)

    def smooth(x):
        residual, margin = problem.X - x @ problem.dictionary, problem.labels * (x @ problem.coef.T + problem.intercept)
        value = np.sum(residual**2, axis=1) + ridge * np.sum(x**2, axis=1)
        value += 2 * problem.noise_variance * np.sum(loss.value(margin) / problem.class_cost, axis=1)
        push = problem.labels * loss.gradient(margin) / problem.class_cost
        return value / 2, ridge * x - residual @ problem.dictionary.T + variance * push @ problem.coef

    for _ in range(n_steps):
        value, slope = smooth(x)
        new = x - length * slope
        new = np.sign(new) * np.maximum(np.abs(new) - length * lasso, 0)
        change = new - x
        bound = value + np.sum(slope * change, axis=1) + np.sum(change**2, axis=1) / (2 * length[:, 0])
        is_good = smooth(new)[0] <= bound + 1e-12 * np.abs(bound)
        x = np.where(is_good[:, None], new, x)
        length = np.where(is_good[:, None], length, length / 2)
    return x


@every_loss
@pytest.mark.parametrize("n_used", [0, 3])
def test_with_a_penalty_it_ends_at_the_minimum_of_the_convex_objective(problem, loss, n_used):
    start = sparse_encode(problem.X, problem.dictionary, n_nonzero_coefs=3) * min(n_used, 1)
    x, record = encode(problem._replace(n_nonzero_coefs=30), loss, sparse_coder=NET, init_codes=start)
    np.testing.assert_allclose(record.objective_after, problem.objectives(loss, x, NET), rtol=1e-9)
    assert (record.objective_after <= record.objective_before).all()
    lower = problem.objectives(loss, descend_slowly(problem, loss, x), NET)
    assert (record.objective_after <= lower * (1 + 1e-4)).all()
