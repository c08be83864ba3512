"""Discriminative coding, Algorithm 1: what holds however the objective is lowered."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest
from conftest import every_coder, every_coding, every_loss, make_problem
from reference import SquaredHinge, dsc_objective
from scipy.sparse import csr_array

from ddlearn import OMP, ORMP, Descent, ElasticNet, PrintedCoding, discriminative_encode, sparse_encode
from ddlearn.coding.discriminative import LABEL_CODINGS
from ddlearn.coding.encoder import SPARSE_CODERS
from ddlearn.parallel import TILE_ROWS

NET = ElasticNet(0.15, l1_ratio=0.7, tol=1e-10)


@every_loss
def test_parabola_has_the_gradient_of_the_objective(problem, loss):
    # With the paper's printed weight, half of Omega_2 / gamma, this fails by several units.
    x = 0.3 * np.random.default_rng(0).standard_normal(len(problem.dictionary))
    weight, pull = problem.expand(loss, np.tile(x, (len(problem.X), 1)))
    for row in range(5):
        arguments, (Q, c) = problem.row(row, loss), problem.quadratic(row, weight, pull)
        step = 1e-6
        slopes = [
            (dsc_objective(x + step * e, *arguments) - dsc_objective(x - step * e, *arguments)) / (2 * step)
            for e in np.eye(len(x))
        ]
        np.testing.assert_allclose(2 * (Q @ x - c) / problem.noise_variance[row], slopes, rtol=1e-5, atol=1e-5)


@every_loss
@pytest.mark.parametrize(
    ("sparse_coder", "n_nonzero_coefs"),
    [(OMP(), 5), (ORMP(), 5), *((NET, places) for places in (1, 4, 8, 30))],  # places that a penalty needs, or fewer
    ids=str,
)
@every_coding
def test_no_samples_objective_rises(problem, loss, sparse_coder, n_nonzero_coefs, coding):
    problem = problem._replace(n_nonzero_coefs=n_nonzero_coefs)
    start = sparse_encode(problem.X, problem.dictionary, n_nonzero_coefs=min(n_nonzero_coefs, 5))
    codes, record = discriminative_encode(
        **problem.arguments(), loss=loss, sparse_coder=sparse_coder, init_codes=start, label_coding=coding
    )
    before, after = (problem.objectives(loss, x.toarray(), sparse_coder) for x in (start, codes))
    np.testing.assert_allclose(record.objective_before, before, rtol=1e-9)
    np.testing.assert_allclose(record.objective_after, after, rtol=1e-9)
    assert (np.diff(codes.indptr) <= n_nonzero_coefs).all()
    assert (record.objective_after <= record.objective_before).all()
    decrease = record.objective_before - record.objective_after
    np.testing.assert_allclose(record.decrease.sum(axis=1), decrease, atol=1e-9 * record.objective_before.max())
    assert ((record.decrease > 0) == (record.n_steps > 0)).all()
    assert list(record.n_moved.values()) == [np.count_nonzero(record.n_steps[:, kind]) for kind in range(3)]
    assert record.n_moved["reselect"] > 0 or (sparse_coder is not NET and any(record.n_moved.values()))


@every_loss
@every_coder
@every_coding
def test_without_class_weight_it_is_traditional_coding(problem, loss, sparse_coder, coding):
    arguments = problem.arguments() | {"class_cost": 1e30}
    # The descent replaces atoms, which OMP does only on request.
    coder = OMP(n_swaps=10) if sparse_coder == "omp" and coding == "descent" else sparse_coder
    codes, _ = discriminative_encode(**arguments, loss=loss, sparse_coder=coder, label_coding=coding)
    expected = sparse_encode(problem.X, problem.dictionary, n_nonzero_coefs=problem.n_nonzero_coefs, method=coder)
    np.testing.assert_allclose(codes.toarray(), expected.toarray(), atol=1e-8)


@every_loss
@every_coding
def test_unlabelled_rows_are_coded_traditionally(problem, loss, coding):
    labels = problem.labels.copy()
    labels[::3] = 0
    arguments = problem.arguments() | {"labels": labels}
    codes, record = discriminative_encode(**arguments, loss=loss, label_coding=coding)
    traditional = sparse_encode(problem.X, problem.dictionary, n_nonzero_coefs=problem.n_nonzero_coefs)
    np.testing.assert_array_equal(codes.toarray()[::3], traditional.toarray()[::3])
    assert not record.n_steps[::3].any()
    labelled, _ = discriminative_encode(**problem.arguments(), loss=loss, label_coding=coding)
    np.testing.assert_array_equal(codes.toarray()[1::3], labelled.toarray()[1::3])


@every_coding
def test_a_single_unknown_label_leaves_out_its_class(coding):
    problem = make_problem("planted", seed=0)
    labels = problem.labels.copy()
    labels[:, 2] = 0
    others = [0, 1, 3]
    fewer = {name: getattr(problem, name)[others] for name in ("coef", "intercept", "class_cost")}
    codes, expected = (
        discriminative_encode(**problem.arguments() | change, loss="logistic", label_coding=coding)[0].toarray()
        for change in ({"labels": labels}, {"labels": labels[:, others]} | fewer)
    )
    np.testing.assert_allclose(codes, expected, atol=1e-10)


@every_coding
def test_unlabelled_rows_keep_better_codes_that_they_come_with(problem, coding):
    # A pursuit can be worse than codes from an earlier iteration: the guard holds for rows without labels too.
    better = sparse_encode(problem.X, problem.dictionary, n_nonzero_coefs=problem.n_nonzero_coefs, method="ormp")
    arguments = problem.arguments() | {"labels": np.zeros_like(problem.labels)}
    options = {"loss": "square", "sparse_coder": OMP(n_swaps=0), "init_codes": better, "label_coding": coding}
    _, record = discriminative_encode(**arguments, **options)
    assert (record.objective_after <= record.objective_before).all()
    assert record.n_rejected.any()


def test_unlabelled_rows_stop_on_the_coders_tolerance_with_and_without_earlier_codes(problem):
    arguments = problem.arguments() | {"labels": np.zeros_like(problem.labels), "loss": "square"}
    coder = SPARSE_CODERS["omp"](tol=5.0)
    fresh, _ = discriminative_encode(**arguments, sparse_coder=coder)
    again, _ = discriminative_encode(**arguments, sparse_coder=coder, init_codes=csr_array(fresh.shape))
    np.testing.assert_array_equal(again.toarray(), fresh.toarray())


@pytest.mark.bitwise
@every_loss
@every_coding
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_bitwise_equal_for_every_number_of_threads(loss, coding, dtype):
    problem = make_problem("random", seed=0, n_samples=2 * TILE_ROWS + 77).astype(dtype)
    coder = problem.make_coder(loss, LABEL_CODINGS[coding](), OMP())
    results = [coder.encode(problem.X, problem.labels, problem.noise_variance, n_jobs=n_jobs) for n_jobs in (1, 2, 3)]
    expected, *others = ([*codes, *astuple(record)] for codes, record in results)
    for arrays in others:
        for array, expected_array in zip(arrays, expected, strict=True):
            np.testing.assert_array_equal(array, expected_array)


@every_loss
@every_coding
def test_float32_is_kept_and_close_to_float64(problem, loss, coding):
    options = {"loss": loss, "label_coding": coding}
    single, single_record = discriminative_encode(**problem.astype(np.float32).arguments(), **options)
    _, double_record = discriminative_encode(**problem.arguments(), **options)
    assert single.dtype == np.float32
    np.testing.assert_allclose(single_record.objective_before, double_record.objective_before, rtol=1e-3)
    # A near tie may send a sample down another path; on the whole nothing changes.
    assert single_record.objective_after.mean() == pytest.approx(double_record.objective_after.mean(), rel=1e-2)


@every_loss
@every_coding
def test_scaling_samples_atoms_and_noise_together_changes_nothing(problem, loss, coding):
    scale, options = 7.0, {"loss": loss, "label_coding": coding}
    scaled = problem._replace(
        X=scale * problem.X, dictionary=scale * problem.dictionary, noise_variance=scale**2 * problem.noise_variance
    )
    codes, other = (discriminative_encode(**each.arguments(), **options)[0].toarray() for each in (problem, scaled))
    np.testing.assert_allclose(other, codes, atol=1e-8)


@every_coding
def test_a_users_loss_of_three_methods_runs(problem, coding):
    codes, record = discriminative_encode(**problem.arguments(), loss=SquaredHinge(), label_coding=coding)
    assert (record.objective_after <= record.objective_before).all()
    assert problem.objectives(SquaredHinge(), codes.toarray()).sum() < record.objective_before.sum()


@every_loss
@every_coding
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_extreme_pulls_stay_finite(problem, loss, coding, dtype):
    arguments = problem.astype(dtype).arguments() | {"coef": 1e3 * problem.coef, "class_cost": 1e-6}
    codes, record = discriminative_encode(**arguments, loss=loss, label_coding=coding)
    assert np.isfinite(codes.data).all()
    assert (record.objective_after <= record.objective_before).all()


def test_arguments_are_left_as_they_are():
    # Compared with copies: Numba compiles all kernels once more for arrays that are marked as read-only.
    problem = make_problem("random", seed=0)
    start = sparse_encode(problem.X, problem.dictionary, n_nonzero_coefs=5)
    kept = make_problem("random", seed=0), start.copy()
    discriminative_encode(**problem.arguments(), loss="logistic", init_codes=start)
    for value, before in zip(problem, kept[0], strict=True):
        np.testing.assert_array_equal(value, before)
    np.testing.assert_array_equal(start.toarray(), kept[1].toarray())


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
        ({"label_coding": PrintedCoding(-1)}, "max_iter of the coding must be an integer of at least 0"),
        ({"label_coding": PrintedCoding(tol=-1e-3)}, "tol of the coding must be a number of at least 0"),
        ({"label_coding": Descent(1.5)}, "n_swaps of the coding must be an integer of at least 0"),
        ({"label_coding": Descent(tol=np.nan)}, "tol of the coding must be a number of at least 0"),
        ({"label_coding": "descend"}, "'descend' is not a known label_coding; .* Did you mean 'descent'"),
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
