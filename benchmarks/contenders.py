"""Who is measured: one small function each, and a registry.

A contender's function takes a problem and the number of threads, does what a user does once and not for each call, and
returns what is timed.  Its own checks and the layout of its output are part of the time, since its users pay for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from .problems import SEED, Penalty, Problem
from .targets import GAPS

N_CLASSES = 10  # of the discriminative step, the paper's C

Run = Callable[[], Any]


@dataclass(frozen=True)
class Contender:
    """Code that can be timed.

    Attributes
    ----------
    label : str
        What the tables call it.
    prepare : callable
        Takes a problem and the number of threads, returns what is timed.
    needs : str or None
        The package without which it cannot run.
    blas_threads : {"own", "all", "one"}
        What the environment of its process allows BLAS: nothing said, as the contender limits BLAS itself; all
        threads of the measurement; or one, as the contender runs several processes.
    is_slow : bool
        Measured in the first round only.
    makes_codes : bool
        Whether there is something to grade.
    takes : callable
        Whether it can solve problems with this penalty on codes, or without one for None.
    """

    label: str
    prepare: Callable[[Problem, int], Run]
    needs: str | None = None
    blas_threads: str = "own"
    is_slow: bool = False
    makes_codes: bool = True
    takes: Callable[[Penalty | None], bool] = lambda penalty: penalty is None

    def why_not(self) -> str | None:
        """Say in words why it cannot run here, None if it can."""
        if self.needs is not None and find_spec(self.needs) is None:
            return f"the package {self.needs} is not installed (pip install 'ddlearn[bench]')"
        return None

    def environment(self, n_threads: int) -> dict[str, str]:
        """Return the variables that a knowledgeable user would set for it."""
        if self.blas_threads == "own":
            return {}
        n_blas = str(n_threads if self.blas_threads == "all" else 1)
        return {"OPENBLAS_NUM_THREADS": n_blas, "OMP_NUM_THREADS": n_blas, "MKL_NUM_THREADS": n_blas}


def collect_codes(result: Any, problem: Problem) -> csr_array:
    """Return what a contender returned as CSR, one row per sample; not timed."""
    if isinstance(result, list):  # one RowCodes per block, of contenders that are given D^T Y
        return vstack([codes.to_csr(len(problem.dictionary)) for codes in result], format="csr")
    return csr_array(result)


def _prepare_product(problem: Problem, n_threads: int) -> Run:
    return lambda: problem.X @ problem.dictionary.T


def _prepare_ours(name: str, n_swaps: int = 0) -> Callable[[Problem, int], Run]:
    def prepare(problem: Problem, n_threads: int) -> Run:
        from ddlearn import sparse_encode
        from ddlearn.coding.encoder import SPARSE_CODERS

        method = SPARSE_CODERS[name](n_swaps=n_swaps)  # type: ignore[call-arg]

        return lambda: sparse_encode(
            problem.X,
            problem.dictionary,
            n_nonzero_coefs=problem.n_nonzero_coefs,
            method=method,
            n_jobs=n_threads,
        )

    return prepare


def _prepare_spams(problem: Problem, n_threads: int) -> Run:
    import spams

    # Transposed views are the column-major arrays it wants. With its default eps float32 codes come out empty.
    return lambda: (
        spams.omp(problem.X.T, problem.dictionary.T, L=problem.n_nonzero_coefs, eps=0.0, numThreads=n_threads).T
    )


def _prepare_dictlearn(problem: Problem, n_threads: int) -> Run:
    from dictlearn import sparse_encode

    # Its kernel is float64 and serial: threads and float32 serve the matrix products only.
    return lambda: sparse_encode(
        problem.X, problem.dictionary, algorithm="omp", n_nonzero_coefs=problem.n_nonzero_coefs
    )


def _prepare_sklearn(problem: Problem, n_threads: int) -> Run:
    from sklearn.decomposition import sparse_encode

    return lambda: sparse_encode(
        problem.X,
        problem.dictionary,
        algorithm="omp",
        n_nonzero_coefs=problem.n_nonzero_coefs,
        n_jobs=n_threads,
    )


@dataclass(frozen=True)
class _Discrimination:
    """What discriminative coding needs beyond the problem: random classifiers, labels, and codes to start from."""

    coef: np.ndarray
    labels: np.ndarray
    start: csr_array
    noise_variance: np.ndarray


def _make_discrimination(problem: Problem, n_threads: int) -> _Discrimination:
    rng = np.random.default_rng(SEED)
    X, dtype = problem.X, problem.X.dtype
    n_samples, n_features = X.shape
    coef = rng.standard_normal((N_CLASSES, len(problem.dictionary))).astype(dtype)
    labels = np.where(rng.integers(N_CLASSES, size=n_samples)[:, None] == np.arange(N_CLASSES), 1, -1).astype(dtype)
    start = _prepare_ours("omp")(problem, n_threads)()
    squared_residual = np.sum((X - start @ problem.dictionary) ** 2, axis=1)
    # The mode of the inverse gamma posterior, as learning sets it; a sample that is an atom has no noise at all.
    noise_variance = np.maximum(squared_residual, 1e-6) / (n_features + 2)
    return _Discrimination(coef, labels, start, noise_variance.astype(dtype))


def _prepare_discriminative_encode(problem: Problem, n_threads: int) -> Run:
    from ddlearn import PrintedCoding, discriminative_encode

    given = _make_discrimination(problem, n_threads)
    return lambda: discriminative_encode(
        problem.X,
        given.labels,
        problem.dictionary,
        given.coef,
        noise_variance=given.noise_variance,
        class_cost=1.0,
        loss="logistic",
        n_nonzero_coefs=problem.n_nonzero_coefs,
        init_codes=given.start,
        label_coding=PrintedCoding(max_iter=1),
        n_jobs=n_threads,
    )[0]


def _prepare_traditional_step(problem: Problem, n_threads: int) -> Run:
    from ddlearn import OMP
    from ddlearn.coding.encoder import Encoder
    from ddlearn.describe.checks import measure_energies
    from ddlearn.parallel import map_blocks, split_rows

    encoder = Encoder.of(problem.dictionary, OMP(n_swaps=0), problem.n_nonzero_coefs, n_threads)
    correlations, energies = encoder.correlate(problem.X), measure_energies(problem.X, 0)
    blocks = split_rows(len(problem.X))

    def encode_block(rows: slice, _: None) -> Any:
        return encoder.solve(correlations[rows], energies=energies[rows])

    return lambda: map_blocks(encode_block, blocks, lambda: None, n_jobs=n_threads)


def _prepare_discriminative_step(problem: Problem, n_threads: int) -> Run:
    # The library has no public call for a single step with D^T Y given, so this uses what `encode` is made of.
    from ddlearn import OMP, PrintedCoding, RowCodes
    from ddlearn.coding.discriminative import DiscriminativeCoder
    from ddlearn.coding.encoder import Encoder
    from ddlearn.describe.checks import measure_energies
    from ddlearn.model.codes import Model
    from ddlearn.model.losses import LOSSES
    from ddlearn.parallel import map_blocks, split_rows

    given = _make_discrimination(problem, n_threads)
    dtype, n_nonzero_coefs = problem.X.dtype, problem.n_nonzero_coefs
    model = Model(problem.dictionary, given.coef, np.zeros(N_CLASSES, dtype), np.ones(N_CLASSES, dtype))
    encoder = Encoder.of(problem.dictionary, OMP(n_swaps=0), n_nonzero_coefs, n_threads)
    coder = DiscriminativeCoder(encoder, model, LOSSES.resolve("logistic"), PrintedCoding(max_iter=1, tol=0.0))
    correlations, energies = encoder.correlate(problem.X), measure_energies(problem.X, 0)
    start = RowCodes.from_csr(given.start, n_nonzero_coefs, dtype)
    blocks = split_rows(len(problem.X))

    def step_block(rows: slice, _: None) -> RowCodes:
        labels, noise_variance = given.labels[rows], given.noise_variance[rows]
        problems = coder.pose(correlations[rows], energies[rows], labels, noise_variance, np.arange(len(labels)))
        coded, _ = coder.coding.descend(problems, start.rows(rows), is_start_traditional=True)
        return RowCodes(coded.indices, coded.values)

    return lambda: map_blocks(step_block, blocks, lambda: None, n_jobs=n_threads)


def _prepare_elastic_net(problem: Problem, n_threads: int) -> Run:
    from ddlearn import ElasticNet, sparse_encode

    lasso, ridge = _get_penalty(problem)
    coder = ElasticNet(lasso + ridge, l1_ratio=lasso / (lasso + ridge), tol=GAPS[problem.X.dtype.name])
    return lambda: sparse_encode(problem.X, problem.dictionary, method=coder, n_jobs=n_threads)


def _prepare_spams_lasso(problem: Problem, n_threads: int) -> Run:
    import spams

    lasso, ridge = _get_penalty(problem)
    return lambda: (
        spams.lasso(problem.X.T, problem.dictionary.T, lambda1=lasso, lambda2=ridge, mode=2, numThreads=n_threads).T
    )


def _prepare_sklearn_lasso(algorithm: str) -> Callable[[Problem, int], Run]:
    def prepare(problem: Problem, n_threads: int) -> Run:
        from sklearn.decomposition import sparse_encode

        lasso, _ = _get_penalty(problem)
        return lambda: sparse_encode(
            problem.X, problem.dictionary, algorithm=algorithm, alpha=lasso, max_iter=10_000, n_jobs=n_threads
        )

    return prepare


def _prepare_celer(problem: Problem, n_threads: int) -> Run:
    from celer import Lasso

    # One sample a call: its multi-task lasso is another problem. Its tolerance is relative to the squared norm.
    lasso, _ = _get_penalty(problem)
    atoms = np.asfortranarray(problem.dictionary.T)
    model = Lasso(lasso / problem.X.shape[1], fit_intercept=False, tol=1e-5, max_iter=1000)
    return lambda: np.array([model.fit(atoms, sample).coef_ for sample in problem.X])


def _get_penalty(problem: Problem) -> Penalty:
    assert problem.penalty is not None
    return problem.penalty


def _is_any(penalty: Penalty | None) -> bool:
    return True


def _is_penalty(penalty: Penalty | None) -> bool:
    return penalty is not None


def _is_lasso(penalty: Penalty | None) -> bool:
    return penalty is not None and penalty.ridge == 0


CONTENDERS = {
    "product": Contender(
        "bare product X @ D.T", _prepare_product, blas_threads="all", makes_codes=False, takes=_is_any
    ),
    "omp": Contender("ddlearn OMP", _prepare_ours("omp")),
    "ormp": Contender("ddlearn ORMP", _prepare_ours("ormp")),
    "ormp_swaps": Contender("ddlearn ORMP with replacement", _prepare_ours("ormp", n_swaps=10)),
    "spams": Contender("spams.omp (ORMP)", _prepare_spams, needs="spams", blas_threads="all"),
    "dictlearn": Contender("dictlearn OMP", _prepare_dictlearn, needs="dictlearn", blas_threads="all"),
    "sklearn": Contender("scikit-learn OMP", _prepare_sklearn, needs="sklearn", blas_threads="one", is_slow=True),
    "omp_given": Contender("ddlearn OMP, D^T Y given", _prepare_traditional_step),
    "dsc_step_given": Contender("ddlearn DSC step, D^T Y given", _prepare_discriminative_step),
    "dsc_encode": Contender("ddlearn DSC encode, 1 iteration", _prepare_discriminative_encode),
    "net": Contender("ddlearn elastic net", _prepare_elastic_net, takes=_is_penalty),
    "spams_lasso": Contender("spams.lasso", _prepare_spams_lasso, needs="spams", blas_threads="all", takes=_is_penalty),
    "lasso_cd": Contender(
        "scikit-learn lasso_cd",
        _prepare_sklearn_lasso("lasso_cd"),
        needs="sklearn",
        blas_threads="one",
        is_slow=True,
        takes=_is_lasso,
    ),
    "lasso_lars": Contender(
        "scikit-learn lasso_lars",
        _prepare_sklearn_lasso("lasso_lars"),
        needs="sklearn",
        blas_threads="one",
        is_slow=True,
        takes=_is_lasso,
    ),
    "celer": Contender("celer Lasso", _prepare_celer, needs="celer", blas_threads="all", is_slow=True, takes=_is_lasso),
}
