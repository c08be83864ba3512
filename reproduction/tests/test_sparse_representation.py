"""The solver of SRC against linear programming and planted truth."""

from __future__ import annotations

import numpy as np
import pytest
from reproduction.disturbances import occlude
from reproduction.sparse_representation import SRC, solve_sparse_errors
from scipy.optimize import linprog
from sklearn.preprocessing import normalize

from .synthetic import N_PIXELS, draw_images


def l1_objective(sample, atoms):
    """Return the least ||x||_1 + ||e||_1 with sample = x @ atoms + e, each split in its positive and negative part."""
    columns = np.hstack([atoms.T, np.eye(len(sample))])
    program = linprog(np.ones(2 * columns.shape[1]), A_eq=np.hstack([columns, -columns]), b_eq=sample)
    assert program.success
    return program.fun


def test_the_solver_finds_the_optimum_of_linear_programming():
    rng = np.random.default_rng(0)
    atoms = normalize(rng.standard_normal((15, 40)))
    samples = normalize(rng.standard_normal((6, 40)))
    found = solve_sparse_errors(samples, atoms, tol=1e-7, max_iter=20000)
    np.testing.assert_allclose(found.codes @ atoms + found.error, samples, atol=1e-5)
    objective = np.abs(found.codes).sum(axis=1) + np.abs(found.error).sum(axis=1)
    np.testing.assert_allclose(objective, [l1_objective(sample, atoms) for sample in samples], rtol=1e-4)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_planted_codes_and_errors_are_found(dtype):
    rng = np.random.default_rng(1)
    atoms = normalize(rng.standard_normal((30, 200))).astype(dtype)
    codes = np.zeros((300, 30), dtype)  # more than a block of rows
    error = np.zeros((300, 200), dtype)
    for row in range(300):
        codes[row, rng.choice(30, 3, replace=False)] = rng.choice([-1, 1], 3) * rng.uniform(0.5, 1, 3)
        error[row, rng.choice(200, 20, replace=False)] = rng.uniform(-0.5, 0.5, 20)
    samples = codes @ atoms + error
    scale = np.linalg.norm(samples, axis=1, keepdims=True)
    found = solve_sparse_errors(samples / scale, atoms, tol=1e-5, max_iter=5000, n_jobs=2)
    assert found.codes.dtype == found.error.dtype == dtype
    assert max(found.primal_residual.max(), found.dual_residual.max()) <= 1e-5
    np.testing.assert_allclose(found.codes, codes / scale, atol=1e-3)
    np.testing.assert_allclose(found.error, error / scale, atol=1e-3)


def test_the_solver_reports_what_it_did_not_reach():
    rng = np.random.default_rng(2)
    atoms, samples = normalize(rng.standard_normal((10, 30))), normalize(rng.standard_normal((4, 30)))
    found = solve_sparse_errors(samples, atoms, tol=1e-12, max_iter=25)
    assert (found.n_iter == 25).all()
    assert (np.maximum(found.primal_residual, found.dual_residual) > 1e-12).all()


def test_src_recognises_occluded_images():
    X_train, y_train = draw_images(8, 1)
    X_test, y_test = draw_images(5, 2)
    model = SRC().fit(X_train.reshape(-1, N_PIXELS), y_train)
    occluded = occlude(X_test, 0.3, np.random.default_rng(0))
    assert model.score(X_test.reshape(-1, N_PIXELS), y_test) == 1
    assert model.score(occluded.reshape(-1, N_PIXELS), y_test) == 1
