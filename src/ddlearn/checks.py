"""Numerical checks of losses, sparse coders, dictionary updates, classifier trainers and error searches of your own.

Each check tries the strategy on a small seeded problem, clones and pickles it, and reports all that is wrong as one
ValueError with one line per problem.  A *trial* holds the arguments of the method under test, by name.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from operator import methodcaller
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone

from .classifiers import CLASSIFIER_TRAINERS, ClassifierTrainer, resolve_trainer
from .classifiers.problem import LabelledCodes
from .coding.coders import ORMP, RowProblem, SparseCoder, pose_rows
from .coding.encoder import SPARSE_CODERS, Encoder
from .coding.masked import MaskedCoder
from .coding.robust import ERROR_SEARCHES, ErrorSearch
from .dictionary import DICTIONARY_UPDATES, DictionaryUpdate, UpdatedDictionary
from .model.codes import RowCodes
from .model.losses import LOSSES, Loss
from .model.strategies import Registry
from .parallel import Parts

Array = NDArray[np.floating]
Trial = dict[str, Any]

_DOUBLE = np.dtype(np.float64)
_DTYPES = (_DOUBLE, np.dtype(np.float32))
# Two runs on the same numbers in another order agree to rounding, times what a stopping rule makes of it.
_AGREEMENT = 1e-6


def _select(is_wrong: dict[str, Any]) -> list[str]:
    return [sentence for sentence, applies in is_wrong.items() if applies]


def _find_first(*stages: Iterable[str]) -> Iterator[str]:
    """Yield the problems of the first stage that has any; each stage relies on what the stages before it verified."""
    for stage in stages:
        problems = list(stage)
        yield from problems
        if problems:
            return


def _differ(one: Any, other: Any, tolerance: float = _AGREEMENT) -> bool:
    """Compare two results: arrays, or tuples of them."""
    if isinstance(one, tuple | list):
        return any(_differ(*pair, tolerance) for pair in zip(one, other, strict=True))
    return one is not other and not np.allclose(one, other, rtol=tolerance, atol=tolerance)


def _find_changes(method: str, trial: Trial, untouched: Trial) -> list[str]:
    changed = [name for name in trial if _differ(trial[name], untouched[name], 0)]
    return [f"{method} changes its argument {name} in place; work on a copy." for name in changed]


def _find_form_problems(name: str, array: Any, shape: tuple[int, ...], dtype: Any) -> list[str]:
    if not isinstance(array, np.ndarray) or array.shape != shape:
        return [f"{name} must be an array of shape {shape}, got {np.shape(array)}."]
    if array.dtype != dtype:
        return [f"{name} must have the dtype {np.dtype(dtype)}, got {array.dtype}; keep the dtype of the arguments."]
    return [] if np.isfinite(array).all() else [f"{name} holds NaN or infinity."]


def _find_copy_problems(strategy: Any, registry: Registry, run: Callable[[Any], Any]) -> Iterator[str]:
    """Clone and pickle the strategy, as grid searches and worker processes do, and compare what the copies return."""
    for word in ("cloned", "pickled"):
        try:
            copy = clone(strategy) if word == "cloned" else pickle.loads(pickle.dumps(strategy))
        except Exception as error:  # a plug-in may fail in any way; the report names it
            reason, base = f"{type(error).__name__}: {error}", registry.base.__name__
            yield f"it cannot be {word} ({reason}); derive from {base} and define the class in a module."
            continue
        if _differ(run(copy), run(strategy)):
            yield f"its result changes when it is {word}: set all state from the constructor's parameters."


def _report(registry: Registry, strategy: Any, run: Callable[[Any], Any], *stages: Iterable[str]) -> None:
    """Raise if a stage finds problems, those of copies included; ``run`` returns what copies must return too."""
    with np.errstate(all="ignore"):  # an overflow is reported in words
        found = list(_find_first(*stages))
        same = run if not found else lambda each: None  # wrong results need not be compared
        found += _find_copy_problems(strategy, registry, same)
    if found:
        raise ValueError("\n- ".join([f"{strategy!r} is not a usable {registry.kind}:", *dict.fromkeys(found)]))


# Losses: densely around the margins that occur, then out to where exponentials overflow.
_COMMON = np.linspace(-8, 8, 641)
_MARGINS = np.array([-1000.0, -300.0, -80.0, -40.0, *_COMMON, 80.0, 300.0, 1000.0])
# A difference quotient over 2e-6 is exact to about 1e-9; a wrong factor of two is off by far more than this.
_STEP, _SLACK = 1e-6, 1e-4


def _find_output_problems(loss: Loss, dtype: np.dtype) -> Iterator[str]:
    margins = _MARGINS.astype(dtype).reshape(-1, 4)
    for name in ("value", "gradient", "curvature"):
        method, given = getattr(loss, name), margins.copy()
        result = method(given)
        yield from _find_changes(name, {"margin": given}, {"margin": margins})
        form = _find_form_problems(f"{name} of {dtype} margins up to 1000", result, margins.shape, dtype)
        yield from form
        if not form and _differ(result[:1], method(margins[:1].copy())):
            yield f"{name} is not element-wise: an element's result changes with the other elements."


def _differs_from_slope(function: Callable, derivative: Callable) -> NDArray[np.bool_]:
    """Where the derivative lies outside the left and right difference quotients (they differ at a corner)."""
    before, here, after = (function(_COMMON + step) for step in (-_STEP, 0, _STEP))
    slopes = np.sort([(here - before) / _STEP, (after - here) / _STEP], axis=0)
    slack = _SLACK * (1 + np.abs(slopes).max(axis=0))
    return (derivative(_COMMON) < slopes[0] - slack) | (derivative(_COMMON) > slopes[1] + slack)


def _find_derivative_problems(loss: Loss) -> Iterator[str]:
    curvature = loss.curvature(_MARGINS)
    is_wrong = {
        "value is negative at {}: the mean cost could not serve as a scale.": loss.value(_MARGINS) < 0,
        "curvature is negative at {}: the loss is not convex.": curvature < 0,
        "gradient decreases after {}: the loss is not convex.": np.diff(loss.gradient(_MARGINS)) < -_SLACK,
        "surrogate_curvature is below curvature at {}: it must be an upper bound.": (
            ~(loss.surrogate_curvature(_MARGINS) >= (1 - _SLACK) * curvature)
        ),
        "gradient is not the derivative of value at {}.": _differs_from_slope(loss.value, loss.gradient),
        "curvature is not the derivative of gradient at {}.": _differs_from_slope(loss.gradient, loss.curvature),
    }
    for sentence, wrong in is_wrong.items():
        margins = _COMMON if len(wrong) == len(_COMMON) else _MARGINS
        yield from (sentence.format(f"margin {margin:g}") for margin in margins[: len(wrong)][wrong][:1])
    if loss.is_quadratic and np.ptp(curvature) > 0:
        yield "is_quadratic is set, but the curvature is not constant."


def check_loss(loss: str | Loss) -> None:
    """Verify numerically that an object can serve as a loss; raise a ValueError with one line per problem.

    Tests shapes, dtypes and finiteness for margins up to 1000 in size, both derivatives against difference quotients,
    convexity, and clone and pickle.

    Parameters
    ----------
    loss : str or Loss
        The loss to check.

    Examples
    --------
    >>> from ddlearn import check_loss, Logistic
    >>> check_loss(Logistic())
    """
    loss = LOSSES.resolve(loss)
    outputs = chain.from_iterable(_find_output_problems(loss, dtype) for dtype in _DTYPES)
    _report(LOSSES, loss, methodcaller("value", _COMMON), outputs, _find_derivative_problems(loss))


# Sparse coders: 7 samples, the first of them zero, 12 atoms, 3 classes.
_BUDGET = 4


def _draw_rows(dtype: np.dtype) -> tuple[Array, Array, RowProblem]:
    """Return atoms, samples, and the problem."""
    rng = np.random.default_rng(0)
    atoms, samples = (rng.standard_normal((n, 9)).astype(dtype) for n in (12, 7))
    coef, pull = (rng.standard_normal(shape).astype(dtype) for shape in ((3, 12), (7, 3)))
    samples[0], pull[0] = 0, 0
    classes = coef, np.abs(pull[:, ::-1]).copy(), pull
    return atoms, samples, pose_rows(atoms @ atoms.T, samples @ atoms.T, _BUDGET, classes)


def _adapt(coder: SparseCoder, dtype: np.dtype) -> SparseCoder:
    atoms, samples, _ = _draw_rows(dtype)
    return coder if coder.is_adapted else coder.adapt(samples, atoms, _BUDGET)


def _find_layout_problems(codes: RowCodes, shape: tuple[int, ...], dtype: np.dtype, n_components: int) -> list[str]:
    form = _find_form_problems("indices of codes", codes.indices, shape, np.int32)
    if form := form + _find_form_problems("values of codes", codes.values, shape, dtype):
        return form
    indices, is_used = codes.indices, codes.values != 0
    is_out_of_order = is_used[:, 1:] & (~is_used[:, :-1] | (np.diff(indices, axis=1) <= 0))
    is_wrong = {
        f"codes use atoms outside 0 to {n_components - 1}.": ((indices < 0) | (indices >= n_components)).any(),
        "codes: the used places of a row must come first, with their atoms ascending.": is_out_of_order.any(),
        "codes: unused places must hold index 0 and value 0.": indices[~is_used].any(),
    }
    return _select(is_wrong)


def _measure_cost(coder: SparseCoder, codes: RowCodes, problem: RowProblem) -> Array:
    """Return what each row's code is to minimise: 0 for a zero code."""
    gram, correlations, coef, weight, pull = problem[:5]
    x = codes.to_csr(len(gram)).toarray()
    scores = x @ coef.T
    cost = np.sum(x * (x @ gram - 2 * correlations), axis=1) + np.sum(scores * (weight * scores - 2 * pull), axis=1)
    return coder.measure_misfit(cost, codes)


def _find_code_problems(coder: SparseCoder, problem: RowProblem, codes: RowCodes) -> list[str]:
    if layout := _find_layout_problems(codes, (7, _BUDGET), problem.gram.dtype, 12):
        return layout
    penalty, of_zeros = coder.measure_penalty(codes.values), coder.measure_penalty(np.zeros_like(codes.values))
    if form := _find_form_problems("measure_penalty", penalty, (7,), codes.values.dtype):
        return form
    cost = _measure_cost(coder, codes, problem)
    is_wrong = {
        "measure_penalty must be 0 for zero codes, and never negative.": np.any(of_zeros) or (penalty < 0).any(),
        "measure_penalty is not 0, but has_penalty is not set.": penalty.any() and not coder.has_penalty,
        "a code costs more than the zero code does.": (cost > 1e-5 * np.abs(cost).max()).any(),
    }
    return _select(is_wrong)[:1]


def _find_row_problems(coder: SparseCoder, problem: RowProblem, codes: RowCodes) -> Iterator[str]:
    if codes.values[0].any():
        yield "a zero sample that no class pulls on must get a zero code."
    again = coder.solve(problem._replace(start=codes))
    before, after = (_measure_cost(coder, each, problem) for each in (codes, again))
    if (after > before + 1e-3 * np.abs(before)).any():
        yield "codes that it starts from get worse."
    gram, correlations, coef, weight, pull = problem[:5]
    for i in range(len(codes.values)):
        alone = pose_rows(gram, correlations[[i]], _BUDGET, (coef, weight[[i]], pull[[i]]))
        if not np.array_equal(coder.solve(alone).values[0], codes.values[i]):
            yield "a row's code changes with the other rows; each row is a problem of its own."


def _find_variant_problems(coder: SparseCoder, dtype: np.dtype) -> Iterator[str]:
    """Try coding without classes, with features left out, and with directions projected out."""
    atoms, samples, (gram, correlations, *_) = _draw_rows(dtype)
    # Every third feature is left out, a different third in each row: the features are classes of weight -1.
    is_kept = (np.arange(9) + np.arange(7)[:, None]) % 3 > 0
    weight, kept = np.where(is_kept, 0, -1).astype(dtype), np.where(is_kept, samples, 0)
    classes = np.ascontiguousarray(atoms.T), weight, np.zeros_like(weight)
    variants = {
        "without classes": pose_rows(gram, correlations, _BUDGET, energies=np.vecdot(samples, samples)),
        "with negative weights": pose_rows(gram, kept @ atoms.T, _BUDGET, classes, energies=np.vecdot(kept, kept)),
    }
    for prefix, each in variants.items():
        yield from (f"{prefix}, {found}" for found in _find_code_problems(coder, each, coder.solve(each)))
    if coder.projects_directions:
        yield from (f"with directions, {found}" for found in _find_direction_problems(coder, atoms, samples))


def _find_direction_problems(coder: SparseCoder, atoms: Array, samples: Array) -> Iterator[str]:
    """Project a plane of the features out of each row, and compare with the projected Gram matrix."""
    basis = np.linalg.qr(np.random.default_rng(0).standard_normal((7, 9, 2)))[0].astype(atoms.dtype)
    directions, gram = np.ascontiguousarray(basis.mT @ atoms.T), atoms @ atoms.T
    correlations = (samples - (basis @ (basis.mT @ samples[:, :, None]))[:, :, 0]) @ atoms.T
    codes = coder.solve(pose_rows(gram, correlations, _BUDGET, directions=directions))
    yield from (layout := _find_layout_problems(codes, (7, _BUDGET), atoms.dtype, 12))
    for i, own in enumerate(directions if not layout else ()):
        problem = pose_rows(gram - own.T @ own, correlations[[i]], _BUDGET)
        mine, theirs = codes.rows(slice(i, i + 1)), coder.solve(problem)
        cost, expected = (_measure_cost(coder, each, problem) for each in (mine, theirs))
        if abs(cost - expected) > 1e-3 * abs(expected):
            yield "codes differ from those for gram - B'B: take B into account, or drop projects_directions."


def _find_coder_problems(coder: SparseCoder, dtype: np.dtype) -> Iterator[str]:
    coder, (*_, problem), (*_, untouched) = _adapt(coder, dtype), _draw_rows(dtype), _draw_rows(dtype)
    if not coder.is_adapted:
        yield "adapt must return a coder that is_adapted."
        return
    codes = coder.solve(problem)
    yield from _find_changes("solve", problem._asdict(), untouched._asdict())
    others = chain(_find_row_problems(coder, problem, codes), _find_variant_problems(coder, dtype))
    yield from _find_first(_find_code_problems(coder, problem, codes), others)


def check_sparse_coder(sparse_coder: str | SparseCoder) -> None:
    """Verify numerically that an object can serve as a sparse coder; raise a ValueError with one line per problem.

    Tests the layout and dtypes of the codes, their cost against that of the zero code, the independence of rows,
    negative weights, clone and pickle, and what the coder declares: directions, a penalty, codes to start from,
    parameters to adapt.

    Parameters
    ----------
    sparse_coder : str or SparseCoder
        The coder to check.

    Examples
    --------
    >>> from ddlearn import OMP, check_sparse_coder
    >>> check_sparse_coder(OMP())
    """
    coder = SPARSE_CODERS.resolve(sparse_coder)
    problems = (f"in {dtype}: {problem}" for dtype in _DTYPES for problem in _find_coder_problems(coder, dtype))
    problem = _draw_rows(_DOUBLE)[-1]
    _report(SPARSE_CODERS, coder, lambda each: _adapt(each, _DOUBLE).solve(problem), problems)


def _draw_update(dtype: np.dtype) -> Trial:
    """Return arguments of ``update``: unequal precisions, a zero sample, an unused atom, nearly equal atoms."""
    rng = np.random.RandomState(0)
    dictionary = rng.standard_normal((9, 6))
    dictionary[1] = dictionary[0] + 0.01 * dictionary[1]
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    dense = rng.standard_normal((80, 9))
    dense[:, -1] = 0
    dense[rng.standard_normal(dense.shape).argsort(axis=1) > 1] = 0
    X = dense @ dictionary + 0.3 * rng.standard_normal((80, 6))
    X[3] = dense[3] = 0
    codes, precision = RowCodes.from_csr(csr_array(dense), 2, dtype), rng.uniform(0.2, 5, 80).astype(dtype)
    return {"X": X.astype(dtype), "codes": codes, "dictionary": dictionary.astype(dtype), "precision": precision}


def _find_result_problems(update: DictionaryUpdate, dtype: np.dtype) -> Iterator[str]:
    trial = _draw_update(dtype)
    result = update.update(*trial.values(), n_jobs=1)
    yield from _find_changes("update", trial, _draw_update(dtype))
    if not isinstance(result, UpdatedDictionary) or np.ndim(result.replaced) != 1:
        yield "update must return an UpdatedDictionary whose replaced is an array of positions."
        return
    new, codes, _ = result
    form = _find_form_problems("dictionary", new, (9, 6), dtype) + _find_layout_problems(codes, (80, 2), dtype, 9)
    yield from form
    if not form and not np.allclose(np.linalg.norm(new, axis=1), 1, atol=1e-5):
        yield "atoms do not have unit norm."
    if not form and not np.array_equal(new, update.update(*trial.values(), n_jobs=1).dictionary):
        yield "two calls with the same arguments differ."


def _find_declared_problems(update: Any) -> Iterator[str]:
    """Compare the update with its declarations, an additive one also with the update from sums over the samples."""
    X, given, dictionary, precision = (trial := _draw_update(_DOUBLE)).values()
    new, codes, replaced = update.update(*trial.values(), n_jobs=1)
    before, after = (each.to_csr(len(new)).toarray() for each in (given, codes))
    expected = before.copy()
    expected[:, replaced] = 0
    old_error, new_error = (precision @ ((X - x @ D) ** 2).sum(axis=1) for x, D in ((before, dictionary), (after, new)))
    has_new_support = ((after != 0) != (expected != 0)).any()
    has_new_values = not update.updates_codes and not has_new_support and not np.array_equal(after, expected)
    is_wrong = {
        "codes still use replaced atoms; remove these entries.": after[:, replaced].any(),
        "the support of the codes changed; drop only the entries of replaced atoms.": has_new_support,
        "values of the codes changed, but updates_codes is not set.": has_new_values,
    }
    if update.is_monotone:
        is_wrong |= {
            f"is_monotone is set, but the weighted error rises from {old_error:.6g} to {new_error:.6g}.": (
                new_error > old_error * (1 + 1e-10)
            ),
            "is_monotone is set, but codes differ from the old codes: margins would change.": (
                not np.allclose(after, before)
            ),
        }
    if update.is_additive:
        whole, first, second = (
            update.statistics(X[rows], given.rows(rows), precision[rows], len(dictionary), n_jobs=1)
            for rows in (slice(None), slice(0, 30), slice(30, None))
        )
        atoms, of_parts = (update.update_from(each, dictionary) for each in (whole, first + second))
        remaining = np.setdiff1d(np.arange(len(new)), replaced)
        is_wrong |= {
            "is_additive is set, but sums over the samples leave codes as they are: drop updates_codes.": (
                update.updates_codes
            ),
            "statistics do not add: two parts give another dictionary than all samples.": _differ(atoms, of_parts),
            "update_from gives another dictionary than update; mend it, or drop is_additive.": _differ(
                atoms[remaining], new[remaining]
            ),
        }
    yield from _select(is_wrong)


def check_dictionary_update(update: str | DictionaryUpdate) -> None:
    """Verify numerically that an object can update a dictionary; raise a ValueError with one line per problem.

    Tests shapes, dtypes and unit norms, that the arguments and the support of the codes do not change, what the update
    declares (``updates_codes``, ``is_monotone``, ``is_additive``), and clone and pickle.

    Parameters
    ----------
    update : str or DictionaryUpdate
        The update to check.

    Examples
    --------
    >>> from ddlearn import check_dictionary_update
    >>> check_dictionary_update("atom")
    """
    update = DICTIONARY_UPDATES.resolve(update)
    results = chain.from_iterable(_find_result_problems(update, dtype) for dtype in _DTYPES)
    run = methodcaller("update", *_draw_update(_DOUBLE).values())
    _report(DICTIONARY_UPDATES, update, run, results, _find_declared_problems(update))


def _draw_training(loss: Loss, size: float = 0, dtype: np.dtype = _DOUBLE) -> Trial:
    """Return arguments of ``train``: 80 samples of 3 overlapping classes, 7 atoms, the last unused; starts by size."""
    rng, start = np.random.default_rng(0), np.random.default_rng(1)
    samples, classes = np.arange(80), np.arange(80) % 3
    dense = np.zeros((80, 7))
    dense[samples, classes] = 1 + rng.normal(size=80)
    dense[samples, 3 + rng.integers(3, size=80)] = rng.normal(size=80)
    return {
        "codes": RowCodes.from_csr(csr_array(dense), 2, dtype),
        "labels": np.where(classes[:, None] == np.arange(3), 1, -1).astype(dtype),
        "loss": loss,
        "coef": (size * start.normal(size=(3, 7))).astype(dtype),
        "intercept": (size * start.normal(size=3)).astype(dtype),
    }


def _find_classifier_problems(trainer: ClassifierTrainer, loss: Loss) -> Iterator[str]:
    for dtype in _DTYPES:
        trial = _draw_training(loss, 1, dtype)
        coef, intercept = trainer.train(*trial.values(), penalties=np.zeros(3), n_jobs=1)
        yield from _find_changes("train", trial, _draw_training(loss, 1, dtype))
        yield from _find_form_problems("coef", coef, (3, 7), dtype)
        yield from _find_form_problems("intercept", intercept, (3,), dtype)


def _find_descent_problems(trainer: ClassifierTrainer, loss: Loss) -> Iterator[str]:
    for size in (0.0, 1.0, 100.0):
        codes, labels, _, *start = (trial := _draw_training(loss, size)).values()
        x, penalties = codes.to_csr(7), np.array([0.1, 1.0, 10.0])
        trained = trainer.train(*trial.values(), penalties=penalties)
        before, after = (
            loss.value(labels * (x @ w.T + b)).sum(axis=0) + penalties / 2 * np.sum(w**2, axis=1)
            for w, b in (start, trained)
        )
        j = np.argmax(after - before)
        rise = (
            f"from coefficients of size {size:g} it raises the penalised cost of a class from {before[j]:g} to "
            f"{after[j]:g}; return its classifier as it was if the new one costs more."
        )
        is_wrong = {
            rise: after[j] > before[j] * (1 + _AGREEMENT),
            "from zero it does not lower the cost of every class.": size == 0 and not (after < before).all(),
            "an atom that no sample uses must have the coefficient 0.": trained[0][:, -1].any(),
        }
        yield from _select(is_wrong)


def _find_symmetry_problems(trainer: ClassifierTrainer, loss: Loss) -> Iterator[str]:
    codes, labels, _, *start = (trial := _draw_training(loss)).values()
    coef, intercept = whole = trainer.train(*trial.values())
    order, first, second = np.random.default_rng(2).permutation(80), slice(0, 33), slice(33, None)
    partly, swapped = np.where(np.arange(80)[:, None] < 33, 0, labels), labels[:, ::-1].copy()
    of_second = trainer.train(*(trial | {"codes": codes.rows(second), "labels": labels[second]}).values())
    for sentence, (changed, changed_labels, expected) in {
        "with all labels flipped its classifiers must flip too.": (codes, -labels, (-coef, -intercept)),
        "its classifiers must follow the order of the classes.": (codes, swapped, (coef[::-1], intercept[::-1])),
        "its classifiers must not depend on the order of the samples.": (codes.rows(order), labels[order], whole),
        "samples with the label 0 must not change anything.": (codes, partly, of_second),
    }.items():
        if _differ(trainer.train(*(trial | {"codes": changed, "labels": changed_labels}).values()), expected):
            yield sentence
    halves = Parts([LabelledCodes(codes.rows(rows), labels[rows]) for rows in (first, second)])
    if trainer.is_additive and _differ(trainer.train_on(halves, loss, *start, n_jobs=1), whole):
        yield (
            "is_additive is set, but train_on gives other classifiers for two halves of the samples than train for the "
            "whole: a weight may depend on its own sample alone; if train is your own, set is_additive = False."
        )


def _find_edge_problems(trainer: ClassifierTrainer, loss: Loss) -> Iterator[str]:
    trial = _draw_training(loss) | {"intercept": np.array([0.0, 1.0, 2.0])}
    if "fit_intercept" in trainer.get_params() and not np.array_equal(
        clone(trainer).set_params(fit_intercept=False).train(*trial.values())[1], [0, 1, 2]
    ):
        yield "with fit_intercept=False it must return the intercepts as they were."
    separable = RowCodes((np.arange(80) % 3)[:, None].astype(np.int32), np.ones((80, 1)))
    trial = _draw_training(loss) | {"codes": separable}
    for _ in range(30):  # as many warm starts as a long fit has
        trial["coef"], trial["intercept"] = trainer.train(*trial.values())
    if not (np.isfinite(trial["coef"]).all() and np.isfinite(trial["intercept"]).all()):
        yield "classifiers of separable classes become infinite; limit the rounds or add a penalty."


def _find_trainer_problems(trainer: ClassifierTrainer, losses: list[Loss]) -> Iterator[str]:
    failing: dict[str, list[str]] = {}  # problem: the losses that show it
    for loss in losses:
        later = (find(trainer, loss) for find in (_find_descent_problems, _find_symmetry_problems, _find_edge_problems))
        for problem in _find_first(_find_classifier_problems(trainer, loss), chain.from_iterable(later)):
            failing.setdefault(problem, []).append(repr(loss))
    yield from (f"{problem} (with {', '.join(names)})" for problem, names in failing.items())


def check_classifier_trainer(trainer: str | ClassifierTrainer, loss: str | Loss | None = None) -> None:
    """Verify numerically that an object can train classifiers; raise a ValueError with one line per problem.

    Tests shapes, dtypes and finiteness, the cost before and after from good and bad starts, what must not matter
    (order, unlabelled samples, unused atoms, parts of the samples), separable classes, and clone and pickle.

    Parameters
    ----------
    trainer : str or ClassifierTrainer
        The trainer to check.
    loss : str, Loss or None, default=None
        The loss to train with; None means every registered loss that the trainer supports.

    Examples
    --------
    >>> from ddlearn import LogitBoost, check_classifier_trainer
    >>> check_classifier_trainer(LogitBoost())
    """
    trainer = CLASSIFIER_TRAINERS.resolve(trainer)
    supported = [name for name in LOSSES if trainer.supports(LOSSES.resolve(name))]
    losses = [LOSSES.resolve(each) for each in (supported if loss is None else [loss])]
    if not losses:
        raise ValueError(f"{trainer!r} supports none of {sorted(LOSSES)}; pass check_classifier_trainer a loss.")
    resolve_trainer(trainer, losses[0])  # raises, and names other trainers, if it does not support the loss
    run = methodcaller("train", *_draw_training(losses[0]).values())
    _report(CLASSIFIER_TRAINERS, trainer, run, _find_trainer_problems(trainer, losses))


def _draw_errors() -> Trial:
    """Return arguments of ``find``: samples near atoms, a tenth of the features missing, no budget for row 0."""
    rng = np.random.default_rng(0)
    dictionary = rng.standard_normal((20, 60))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    samples = dictionary[rng.integers(20, size=8)] + 0.01 * rng.standard_normal((8, 60))
    is_known, budgets = rng.random((8, 60)) > 0.1, np.append(0, np.full(7, 5))
    coder = MaskedCoder(Encoder.of(dictionary, ORMP(), 3))
    return {"coder": coder, "samples": samples, "is_known": is_known, "budgets": budgets, "noise_scale": 0.01}


def _find_search_problems(search: ErrorSearch) -> Iterator[str]:
    coder, samples, is_known, budgets, _ = (trial := _draw_errors()).values()
    given = trial | {"samples": samples.copy(), "is_known": is_known.copy(), "budgets": budgets.copy()}
    fit, is_kept, is_wrong = search.find(*given.values())
    yield from _find_changes("find", given, trial)
    form = _find_form_problems("is_kept", is_kept, (8, 60), bool)
    form += _find_form_problems("is_wrong", is_wrong, (8, 60), bool)
    form += _find_form_problems("residuals", fit.residuals, (8, 60), _DOUBLE)
    if form := form + _find_form_problems("values of codes", fit.codes.values, (8, 3), _DOUBLE):
        yield from form
        return
    plain = coder.solve(samples[:1], is_known[:1]).codes
    _, _, filled = search.find(*(trial | {"samples": np.where(is_known, samples, 1e3)}).values())
    problems = {
        "it uses a missing feature, or calls one wrong.": ((is_kept | is_wrong) & ~is_known).any(),
        "it calls more features wrong than the budget of a row allows.": (is_wrong.sum(axis=1) > budgets).any(),
        "a row without budget must get the code that the coder gives it.": _differ(fit.codes.rows(slice(1)), plain),
        "its result depends on the values of missing features.": _differ(filled, is_wrong),
    }
    yield from _select(problems)


def check_error_search(error_search: str | ErrorSearch) -> None:
    """Verify numerically that an object can search for gross errors; raise a ValueError with one line per problem.

    Tests shapes, budgets, missing features, rows without a budget, and clone and pickle.

    Parameters
    ----------
    error_search : str or ErrorSearch
        The search to check.

    Examples
    --------
    >>> from ddlearn import AlternatingErrors, check_error_search
    >>> check_error_search(AlternatingErrors())
    """
    search, run = ERROR_SEARCHES.resolve(error_search), methodcaller("find", *_draw_errors().values())
    _report(ERROR_SEARCHES, search, run, _find_search_problems(search))
