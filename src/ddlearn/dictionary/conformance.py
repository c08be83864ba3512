"""Does a dictionary update keep what it declares?  One small problem, and what it does with it."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ..codes import RowCodes
from ..strategies import report_problems
from .updates import DictionaryUpdate, UpdatedDictionary, resolve_dictionary_update
from .upkeep import Floats as Array


class _Problem(NamedTuple):
    """The arguments of an update."""

    X: Array
    codes: RowCodes
    dictionary: Array
    precision: Array


def _make_problem(dtype: type[np.floating]) -> _Problem:
    """Return a problem with all that happens: unequal precisions, a zero sample, an unused atom, nearly equal atoms."""
    rng = np.random.RandomState(0)
    n_samples, n_features, n_components = 80, 6, 9
    dictionary = rng.standard_normal((n_components, n_features))
    dictionary[1] = dictionary[0] + 0.01 * dictionary[1]
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    dense = rng.standard_normal((n_samples, n_components))
    dense[:, -1] = 0
    dense[rng.standard_normal(dense.shape).argsort(axis=1) > 1] = 0
    X = dense @ dictionary + 0.3 * rng.standard_normal((n_samples, n_features))
    X[3] = dense[3] = 0
    codes = RowCodes.empty(n_samples, 2, dtype)
    for row, code in enumerate(dense):
        support = np.flatnonzero(code)
        codes.indices[row, : len(support)] = support
        codes.values[row, : len(support)] = code[support]
    return _Problem(X.astype(dtype), codes, dictionary.astype(dtype), rng.uniform(0.2, 5, n_samples).astype(dtype))


def _run(update: DictionaryUpdate, problem: _Problem) -> UpdatedDictionary:
    return update.update(*problem, n_jobs=1)


def _weighted_error(problem: _Problem, codes: RowCodes, dictionary: Array) -> float:
    residuals = problem.X - codes.to_csr(len(dictionary)) @ dictionary
    return float(problem.precision @ (residuals**2).sum(axis=1))


def _find_form_problems(update: DictionaryUpdate, dtype: type[np.floating]) -> Iterator[str]:
    problem = _make_problem(dtype)
    result = _run(update, problem)
    untouched = _make_problem(dtype)
    for name, given, kept in zip(
        ("X", "codes.indices", "codes.values", "dictionary", "precision"),
        (problem.X, *problem.codes, *problem[2:]),
        (untouched.X, *untouched.codes, *untouched[2:]),
        strict=True,
    ):
        if not np.array_equal(given, kept):
            yield f"update changes its argument {name} in place; work on a copy."
    try:
        new, codes, replaced, atom_scale = result
        shapes_agree = new.shape == problem.dictionary.shape and codes.values.shape == problem.codes.values.shape
        shapes_agree &= atom_scale.shape == new.shape[:1] and np.asarray(replaced).ndim == 1
    except (TypeError, ValueError, AttributeError):
        shapes_agree = False
    if not shapes_agree:
        yield "update must return an UpdatedDictionary, its dictionary and codes in the shapes of the arguments."
        return
    for name, array in (("dictionary", new), ("codes.values", codes.values), ("atom_scale", atom_scale)):
        if array.dtype != dtype:
            yield f"{name} has dtype {array.dtype} for {np.dtype(dtype)} samples; keep the dtype of X."
        if not np.isfinite(array).all():
            yield f"{name} holds NaN or infinity."
    if not np.allclose(np.linalg.norm(new, axis=1), 1, atol=1e-5):
        yield "atoms are not of unit norm."
    if not np.array_equal(new, _run(update, problem).dictionary):
        yield "two calls with the same arguments differ."


def _find_code_problems(update: DictionaryUpdate) -> Iterator[str]:
    problem = _make_problem(np.float64)
    new, codes, replaced, atom_scale = _run(update, problem)
    used = codes.values != 0
    if (used[:, 1:] & ~used[:, :-1]).any() or codes.indices[~used].any():
        yield "codes: unused places must come last in a row and hold index 0 and value 0."
    if (used[:, 1:] & (np.diff(codes.indices, axis=1) <= 0)).any():
        yield "codes: the indices of a row must ascend."
    before, after = problem.codes.to_csr(len(new)).toarray(), codes.to_csr(len(new)).toarray()
    if after[:, replaced].any():
        yield "codes still use replaced atoms; remove these entries."
    expected = before.copy()
    expected[:, replaced] = 0
    if ((after != 0) != (expected != 0)).any():
        yield "the support of the codes changed; only the entries of replaced atoms may go, and none may come."
    elif not getattr(update, "updates_codes", False) and not np.array_equal(after, expected):
        yield "values of the codes changed, but updates_codes is not set."
    if not (atom_scale > 0).all():
        yield "atom_scale is not positive: classifier coefficients could not be divided by it."
    if getattr(update, "is_monotone", False):
        old_error = _weighted_error(problem, problem.codes, problem.dictionary)
        new_error = _weighted_error(problem, codes, new)
        if new_error > old_error * (1 + 1e-10):
            yield f"is_monotone is set, but the weighted error rises from {old_error:.6g} to {new_error:.6g}."
        if not np.allclose(after / atom_scale, before):
            yield "is_monotone is set, but codes divided by atom_scale differ from the old ones: margins would change."


def _find_statistics_problems(update: Any) -> Iterator[str]:
    X, codes, dictionary, precision = _make_problem(np.float64)
    n_components = len(dictionary)
    whole = update.statistics(X, codes, precision, n_components, n_jobs=1)
    first, second = slice(0, 30), slice(30, None)
    halves = [
        update.statistics(X[part], codes.rows(part), precision[part], n_components, n_jobs=1)
        for part in (first, second)
    ]
    from_whole, scale = update.update_from(whole, dictionary)
    from_halves, _ = update.update_from(halves[0] + halves[1], dictionary)
    if not np.allclose(from_whole, from_halves):
        yield "statistics do not add: two blocks give another dictionary than all samples at once."
    new, _, replaced, atom_scale = _run(update, _make_problem(np.float64))
    remaining = np.setdiff1d(np.arange(n_components), replaced)
    if not np.allclose(from_whole[remaining], new[remaining]) or not np.allclose(scale, atom_scale):
        yield "update_from gives another dictionary or another atom_scale than update."


def _find_copy_problems(update: DictionaryUpdate) -> Iterator[str]:
    def clone_update() -> DictionaryUpdate:
        return clone(update)

    def pickle_update() -> DictionaryUpdate:
        return pickle.loads(pickle.dumps(update))

    problem = _make_problem(np.float64)
    for word, copy_update in (("cloned", clone_update), ("pickled", pickle_update)):
        try:
            copy = copy_update()
        except Exception as error:  # a plug-in may fail in any way; the report names it
            yield (
                f"it cannot be {word} ({type(error).__name__}: {error}); derive from ddlearn.DictionaryUpdate, "
                "define it in a module."
            )
            continue
        if not np.array_equal(_run(copy, problem).dictionary, _run(update, problem).dictionary):
            yield f"its result changes when it is {word}: set all state from the constructor's parameters."


def check_dictionary_update(update: str | DictionaryUpdate) -> None:
    """Verify numerically that an object can serve as a dictionary update.

    Looks at shapes, dtypes and unit norms, at whether arguments and the support of the codes are left alone, at what
    the object declares (codes, monotone, additive), and at clone and pickle.

    Parameters
    ----------
    update : str or DictionaryUpdate
        The update to look at.

    Raises
    ------
    ValueError
        With one line for each thing that is wrong.

    Examples
    --------
    >>> check_dictionary_update("weighted_ksvd")
    """
    update = resolve_dictionary_update(update)
    problems = [*_find_form_problems(update, np.float64), *_find_form_problems(update, np.float32)]
    if not problems:  # of results of the wrong form nothing else can be said
        problems += _find_code_problems(update)
        if update.is_additive:
            problems += _find_statistics_problems(update)
        problems += _find_copy_problems(update)
    report_problems(update, "dictionary update", problems)
