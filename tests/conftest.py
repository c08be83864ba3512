"""Small problems that several test files share."""

from __future__ import annotations

import os
import pickle
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from reference import dsc_objective
from scipy.sparse import csr_array
from sklearn.datasets import load_digits

from ddlearn import OMP, ORMP, DDLClassifier, Descent, MiniBatchDDLClassifier, Refiner, RowCodes
from ddlearn.coding.descent import refit
from ddlearn.coding.discriminative import LABEL_CODINGS, DiscriminativeCoder
from ddlearn.coding.encoder import SPARSE_CODERS, Encoder
from ddlearn.model.codes import Model
from ddlearn.model.losses import LOSSES

settings.register_profile("default", deadline=None, max_examples=60)  # the first example compiles
settings.register_profile("nightly", deadline=None, max_examples=2000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

every_loss = pytest.mark.parametrize("loss", [loss_class() for loss_class in LOSSES.values()], ids=list(LOSSES))
every_coder = pytest.mark.parametrize("sparse_coder", sorted(SPARSE_CODERS))
every_pursuit = pytest.mark.parametrize("sparse_coder", sorted(set(SPARSE_CODERS) - {"elastic_net"}))
every_coding = pytest.mark.parametrize("coding", sorted(LABEL_CODINGS))
both_dtypes = pytest.mark.parametrize("dtype", [np.float64, np.float32])


class Problem(NamedTuple):
    """A coding problem with classes."""

    X: np.ndarray
    labels: np.ndarray
    dictionary: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    noise_variance: np.ndarray
    class_cost: np.ndarray
    n_nonzero_coefs: int

    def arguments(self) -> dict:
        return self._asdict()

    def astype(self, dtype: type) -> Problem:
        return Problem(*(value.astype(dtype) if isinstance(value, np.ndarray) else value for value in self))

    def row(self, row, loss):
        """Return the arguments of `dsc_objective` after the code."""
        own, shared = (self.X[row], self.labels[row]), (self.dictionary, self.coef, self.intercept)
        return *own, *shared, self.noise_variance[row], self.class_cost, loss

    def objectives(self, loss, codes, sparse_coder=OMP):
        """Return F of all rows, for a matrix of codes, with twice the penalty of a coder."""
        penalty = 0.0 if not sparse_coder.has_penalty else sparse_coder.measure_penalty(codes) / self.noise_variance
        return np.array([dsc_objective(x, *self.row(row, loss)) for row, x in enumerate(codes)]) + 2 * penalty

    def make_coder(self, loss, label_coding=None, sparse_coder=None):
        model = Model(self.dictionary, self.coef, self.intercept, self.class_cost)
        encoder = Encoder.of(self.dictionary, sparse_coder or ORMP(), self.n_nonzero_coefs)
        return DiscriminativeCoder(encoder, model, loss, label_coding or Descent())

    def pose(self, loss, codes, sparse_coder=None):
        """Return the problems of all rows, and the rows at the codes of a matrix."""
        coder, energies = self.make_coder(loss, sparse_coder=sparse_coder), np.vecdot(self.X, self.X)
        rows = np.arange(len(self.X))
        problems = coder.pose(coder.encoder.correlate(self.X), energies, self.labels, self.noise_variance, rows)
        budget = max(self.n_nonzero_coefs, np.count_nonzero(codes, axis=1).max(initial=0))
        return problems, problems.place(RowCodes.from_csr(csr_array(codes), budget, self.X.dtype))

    def expand(self, loss, codes, curvature=None):
        """Return class weights and pulls of the parabolas of all rows at the codes of a matrix."""
        problems, rows = self.pose(loss, codes)
        return problems.make_parabolas(rows, np.arange(len(self.X)), curvature)

    def quadratic(self, row, weight, pull):
        """Return Q and c of the parabola of a row."""
        Q = self.dictionary @ self.dictionary.T + self.coef.T @ (weight[row][:, None] * self.coef)
        return Q, self.dictionary @ self.X[row] + self.coef.T @ pull[row]


def normalise(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def draw_samples(n_samples=50, n_components=40, n_features=20, seed=0, dtype=np.float64):
    """Return samples that nothing fits, and a dictionary."""
    rng = np.random.default_rng(seed)
    X, D = rng.standard_normal((n_samples, n_features)), rng.standard_normal((n_components, n_features))
    return X.astype(dtype), normalise(D).astype(dtype)


def measure_residuals(X, D, codes):
    return np.sum((X - codes @ D) ** 2, axis=1)


def make_problem(kind: str, seed: int, n_samples: int = 60) -> Problem:
    """`random`: nothing fits anything. `planted`: samples are sparse in the dictionary and codes tell the classes."""
    rng = np.random.default_rng(seed)
    n_features, n_components, n_classes, n_nonzero_coefs = 20, 30, 4, 5
    dictionary = normalise(rng.standard_normal((n_components, n_features)))
    classes = rng.integers(n_classes, size=n_samples)
    if kind == "random":
        X = rng.standard_normal((n_samples, n_features))
        coef = rng.standard_normal((n_classes, n_components))
    else:
        owner = np.arange(n_components) % n_classes  # the class that an atom speaks for
        coef = np.where(owner == np.arange(n_classes)[:, None], 1.0, -0.5) + 0.1 * rng.standard_normal((n_classes, 30))
        codes = np.zeros((n_samples, n_components))
        for code, class_ in zip(codes, classes, strict=True):
            code[rng.choice(np.flatnonzero(owner == class_), 3, replace=False)] = 1 + rng.random(3)
        X = codes @ dictionary + 0.1 * rng.standard_normal((n_samples, n_features))
    return Problem(
        X=X,
        labels=np.where(classes[:, None] == np.arange(n_classes), 1.0, -1.0),
        dictionary=dictionary,
        coef=coef,
        intercept=0.3 * rng.standard_normal(n_classes),
        noise_variance=0.5 + rng.random(n_samples),
        class_cost=0.3 + rng.random(n_classes),
        n_nonzero_coefs=n_nonzero_coefs,
    )


@pytest.fixture(params=["random", "planted"])
def problem(request: pytest.FixtureRequest) -> Problem:
    return make_problem(request.param, seed=0)


def enumerate_supports(coder, X, labels, noise_variance):
    """Return the least objective of each sample over all supports of T atoms."""
    n_components, n_samples = len(coder.encoder.gram), len(X)
    supports = np.array(list(combinations(range(n_components), coder.encoder.n_nonzero_coefs)), np.int32)
    rows = np.repeat(np.arange(n_samples), len(supports))
    correlations, energies = coder.encoder.correlate(X), np.vecdot(X, X)
    problems = coder.pose(correlations, energies, labels[rows], noise_variance[rows], rows)
    indices = np.tile(supports, (n_samples, 1))
    placed = problems.place(RowCodes(indices, np.full(indices.shape, 1e-6)))
    refit(problems, placed, np.arange(len(rows)), 1e-12, 30)
    return placed.objective.reshape(n_samples, -1).min(axis=1)


def draw_row_problems(n_rows, n_atoms, n_features, n_classes, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    atoms, X = rng.standard_normal((n_atoms, n_features)), rng.standard_normal((n_rows, n_features))
    atoms *= rng.uniform(0.1, 10, (n_atoms, 1))
    coef, pull = rng.standard_normal((n_classes, n_atoms)), rng.standard_normal((n_rows, n_classes))
    weight = rng.uniform(0, 2, (n_rows, n_classes))
    return [array.astype(dtype) for array in (atoms @ atoms.T, X @ atoms.T, coef, weight, pull)]


def row_problem(gram, correlations, coef, weight, pull, row):
    return gram + coef.T @ (weight[row][:, None] * coef), correlations[row] + coef.T @ pull[row]


def leave_out(atoms, X, is_kept):
    """Return the row problems of samples of which only some features count: the features are the classes."""
    weight = np.where(is_kept, 0, -1).astype(X.dtype)
    return atoms @ atoms.T, (X * is_kept) @ atoms.T, np.ascontiguousarray(atoms.T), weight, np.zeros_like(weight)


class Callback:
    """A callback that does nothing yet."""

    def setup(self, estimator, context):
        pass

    def on_fit_task_begin(self, estimator, context):
        pass

    def on_fit_task_end(self, estimator, context):
        pass

    def teardown(self, estimator, context):
        pass


def make_pursuit(n_components=None, **parameters) -> DDLClassifier:
    """Return a model with codes by pursuit that is not refined: the joint fit of the paper, of which much is known."""
    return DDLClassifier(n_components, **{"sparse_coder": "ormp", "refine": "classifiers"} | parameters)


def make_stream(n_components=None, **parameters) -> MiniBatchDDLClassifier:
    """Return a model with codes by pursuit that learns from batches."""
    return MiniBatchDDLClassifier(n_components, **{"sparse_coder": "ormp"} | parameters)


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """600 digits of unit norm, and their classes."""
    X, y = load_digits(return_X_y=True)
    return normalise(X)[:600], y[:600]


@pytest.fixture(scope="session")
def stored_model(digits) -> bytes:
    return pickle.dumps(make_pursuit(60, max_iter=3, random_state=0).fit(*digits))


@pytest.fixture
def small_model(stored_model) -> DDLClassifier:
    """A fit to the digits by pursuit, which a test may change; it has predicted nothing yet."""
    return pickle.loads(stored_model)


def make_refiner(epochs=1, **parameters) -> Refiner:
    """Return a refiner with decays, so that a model with a scale and codes by pursuit leaves nothing to search for."""
    return Refiner(epochs, **{"weight_decay": 0.1, "linear_decay": 1.0} | parameters)
