"""What is wrong with a sparse coder of one's own."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..codes import RowCodes
from ..strategies import find_copy_problems, report_problems
from .coders import (
    Floats,
    SparseCoder,
    measure_misfit,
    no_classes,
)
from .registry import resolve_sparse_coder


def _find_layout_problems(codes: RowCodes, correlations: Floats, n_nonzero_coefs: int) -> Iterator[str]:
    n_rows, n_components = correlations.shape
    indices, values = codes
    if indices.shape != (n_rows, n_nonzero_coefs) or values.shape != indices.shape:
        yield f"it must return {n_rows} rows of {n_nonzero_coefs} places, got {indices.shape} and {values.shape}."
        return
    if indices.dtype != np.int32 or values.dtype != correlations.dtype:
        yield f"it must return int32 indices and {correlations.dtype} values, got {indices.dtype} and {values.dtype}."
    if not np.isfinite(values).all():
        yield "it returns coefficients that are not finite."
    if (indices < 0).any() or (indices >= n_components).any():
        yield f"it returns atoms outside 0 to {n_components - 1}."
    is_used = values != 0
    is_ascending = (np.diff(indices, axis=1) > 0) | ~is_used[:, 1:]
    if not is_ascending.all() or (is_used[:, 1:] & ~is_used[:, :-1]).any():
        yield "the used places of a row must come first, their atoms ascending."
    if indices[~is_used].any():
        yield "unused places must hold index 0 and value 0."


def _measure_cost(
    coder: SparseCoder,
    codes: RowCodes,
    gram: Floats,
    correlations: Floats,
    coef: Floats,
    weight: Floats,
    pull: Floats,
) -> Floats:
    """Return what is to be minimised, row by row: 0 for a zero code."""
    x = codes.to_csr(len(gram)).toarray()
    scores = x @ coef.T
    cost = np.sum(x * (x @ gram - 2 * correlations), axis=1) + np.sum(scores * (weight * scores - 2 * pull), axis=1)
    return measure_misfit(coder, cost, codes)


def _exceeds_zero_code(cost: Floats) -> bool:
    return bool((cost > 1e-5 * np.abs(cost).max()).any())


def _find_weight_problems(coder: SparseCoder, atoms: Floats, samples: Floats, n_nonzero_coefs: int) -> Iterator[str]:
    """Leave every third feature out, a different third in each row: the features are classes of weight -1."""
    n_rows, n_features = samples.shape
    is_kept = (np.arange(n_features) + np.arange(n_rows)[:, None]) % 3 > 0
    weight = np.where(is_kept, 0, -1).astype(atoms.dtype)
    samples = np.where(is_kept, samples, 0)
    given = atoms @ atoms.T, samples @ atoms.T, np.ascontiguousarray(atoms.T), weight, np.zeros_like(weight)
    codes = coder.encode(*given, n_nonzero_coefs=n_nonzero_coefs, energies=np.vecdot(samples, samples))
    problems = list(_find_layout_problems(codes, given[1], n_nonzero_coefs))
    yield from problems
    if not problems and _exceeds_zero_code(_measure_cost(coder, codes, *given)):
        yield "a code costs more than the zero code does."


def _find_direction_problems(coder: SparseCoder, atoms: Floats, samples: Floats, n_nonzero_coefs: int) -> Iterator[str]:
    """Project a plane of the features out of each row, and compare with the projected Gram matrix."""
    (n_rows, n_features), n_components, dtype = samples.shape, len(atoms), atoms.dtype
    planes = np.random.default_rng(0).standard_normal((n_rows, n_features, 2))
    basis = np.linalg.qr(planes)[0].astype(dtype)
    directions = np.ascontiguousarray(basis.mT @ atoms.T)
    gram, correlations = atoms @ atoms.T, (samples - (basis @ (basis.mT @ samples[:, :, None]))[:, :, 0]) @ atoms.T
    given = gram, correlations, *no_classes(n_rows, n_components, dtype)
    codes = coder.encode(*given, n_nonzero_coefs=n_nonzero_coefs, directions=directions)
    problems = list(_find_layout_problems(codes, correlations, n_nonzero_coefs))
    yield from problems
    if problems:
        return
    for row, own in enumerate(directions):
        projected = gram - own.T @ own, correlations[[row]], *no_classes(1, n_components, dtype)
        cost = _measure_cost(coder, codes.rows(slice(row, row + 1)), *projected)
        expected = _measure_cost(coder, coder.encode(*projected, n_nonzero_coefs=n_nonzero_coefs), *projected)
        if abs(cost - expected) > 1e-3 * abs(expected):
            yield "codes differ from those for the matrix gram - B'B: take B into account, or drop projects_directions."
            return


def _find_penalty_problems(coder: SparseCoder, codes: RowCodes) -> Iterator[str]:
    penalty = coder.measure_penalty(codes.values)  # type: ignore[attr-defined]
    if np.shape(penalty) != codes.values.shape[:1] or penalty.dtype != codes.values.dtype:
        yield "measure_penalty must return one number a row, in the dtype of the values."
    elif (penalty < 0).any() or coder.measure_penalty(np.zeros_like(codes.values)).any():  # type: ignore[attr-defined]
        yield "measure_penalty must be 0 for zero codes, and never below."


def _find_coder_problems(coder: SparseCoder, dtype: np.dtype) -> Iterator[str]:
    rng = np.random.default_rng(0)
    n_rows, n_components, n_nonzero_coefs = 7, 12, 4
    atoms, samples = (rng.standard_normal((n, 9)).astype(dtype) for n in (n_components, n_rows))
    coef, pull = (rng.standard_normal(shape).astype(dtype) for shape in ((3, n_components), (n_rows, 3)))
    samples[0], pull[0] = 0, 0
    if not getattr(coder, "is_adapted", True):
        coder = coder.adapt(samples, atoms, n_nonzero_coefs)
        if not coder.is_adapted:
            yield "adapt must return a coder that is_adapted."
            return
    given = (atoms @ atoms.T, samples @ atoms.T, coef, np.abs(pull[:, ::-1]).copy(), pull)
    kept = [argument.copy() for argument in given]
    codes = coder.encode(*given, n_nonzero_coefs=n_nonzero_coefs, energies=None)
    if not all(np.array_equal(now, before) for now, before in zip(given, kept, strict=True)):
        yield "it changes its arguments in place; work on copies."
    layout_problems = list(_find_layout_problems(codes, given[1], n_nonzero_coefs))
    yield from layout_problems
    if layout_problems:
        return
    if codes.values[0].any():
        yield "a zero sample that no class pulls on must get a zero code."
    gram, correlations, coef, weight, pull = given
    if hasattr(coder, "measure_penalty"):
        penalty_problems = list(_find_penalty_problems(coder, codes))
        yield from penalty_problems
        if penalty_problems:
            return
    if getattr(coder, "starts_from_codes", False):
        again = coder.encode(*given, n_nonzero_coefs=n_nonzero_coefs, init_codes=codes)
        cost, cost_again = (_measure_cost(coder, each, *given) for each in (codes, again))
        if (cost_again > cost + 1e-3 * np.abs(cost)).any():
            yield "codes that it begins with get worse."
    if _exceeds_zero_code(_measure_cost(coder, codes, *given)):
        yield "a code costs more than the zero code does."
    for row in range(n_rows):
        alone = coder.encode(
            gram, correlations[[row]], coef, weight[[row]], pull[[row]], n_nonzero_coefs=n_nonzero_coefs
        )
        if not np.array_equal(alone.values[0], codes.values[row]):
            yield "a row's code changes with the other rows; each row is a problem of its own."
            break
    terms, energies = no_classes(n_rows, n_components, dtype), np.vecdot(samples, samples)
    traditional = coder.encode(gram, correlations, *terms, n_nonzero_coefs=n_nonzero_coefs, energies=energies)
    for problem in _find_layout_problems(traditional, correlations, n_nonzero_coefs):
        yield f"without classes, {problem}"
    for problem in _find_weight_problems(coder, atoms, samples, n_nonzero_coefs):
        yield f"with negative weights, {problem}"
    if getattr(coder, "projects_directions", False):
        for problem in _find_direction_problems(coder, atoms, samples, n_nonzero_coefs):
            yield f"with directions, {problem}"


def check_sparse_coder(sparse_coder: str | SparseCoder) -> None:
    """Verify numerically that an object can serve as a sparse coder.

    Looks at the layout of the codes, at dtypes, at the cost of the codes against that of the zero code, at the
    independence of rows, at negative weights, at clone and pickle, and at what the coder declares beyond that:
    directions, a penalty, codes to begin with, numbers to adapt.

    Parameters
    ----------
    sparse_coder : str or SparseCoder
        The coder to look at.

    Raises
    ------
    ValueError
        With one line for each thing that is wrong.

    Examples
    --------
    >>> from ddlearn import OMP, check_sparse_coder
    >>> check_sparse_coder(OMP())
    """
    coder = resolve_sparse_coder(sparse_coder)
    problems = [
        f"in {np.dtype(dtype)}: {problem}"
        for dtype in (np.float64, np.float32)
        for problem in _find_coder_problems(coder, np.dtype(dtype))
    ]
    report_problems(coder, "sparse coder", [*problems, *find_copy_problems(coder, "SparseCoder")])
