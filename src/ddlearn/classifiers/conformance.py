"""The conformance check of a trainer: what it promises, tried on one small problem."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import clone

from ..codes import RowCodes
from ..losses import LOSSES, Loss, resolve_loss
from ..parallel import LocalParts
from ..strategies import report_problems
from .problem import Floats as Array
from .problem import LabelledCodes
from .trainer import ClassifierTrainer, look_up_trainer, resolve_trainer

# check_classifier_trainer looks at one small problem: 80 samples of 3 overlapping classes, 7 atoms, the last unused.
_TRIAL_CLASSES = np.arange(80) % 3
_TRIAL_ATOMS = 7
# Two runs on the same numbers in another order agree to rounding, times what the stopping rule makes of it.
_AGREEMENT = 1e-6


def _draw_trial(dtype: type = np.float64) -> tuple[RowCodes, Array]:
    rng = np.random.default_rng(0)
    samples = np.arange(len(_TRIAL_CLASSES))
    dense = np.zeros((len(samples), _TRIAL_ATOMS))
    dense[samples, _TRIAL_CLASSES] = 1 + rng.normal(size=len(samples))
    dense[samples, 3 + rng.integers(3, size=len(samples))] = rng.normal(size=len(samples))
    labels: Array = np.where(_TRIAL_CLASSES[:, None] == np.arange(3), 1, -1).astype(dtype)
    return RowCodes.from_csr(csr_array(dense), 2, dtype), labels


def _draw_start(size: float, dtype: type = np.float64) -> tuple[Array, Array]:
    rng = np.random.default_rng(1)
    return (size * rng.normal(size=(3, _TRIAL_ATOMS))).astype(dtype), (size * rng.normal(size=3)).astype(dtype)


def _differ(one: tuple[Array, Array], other: tuple[Array, Array]) -> bool:
    return not all(np.allclose(a, b, rtol=_AGREEMENT, atol=_AGREEMENT) for a, b in zip(one, other, strict=True))


def _find_array_problems(trainer: ClassifierTrainer, loss: Loss) -> Iterator[str]:
    for dtype in (np.float64, np.float32):
        (codes, labels), start = _draw_trial(dtype), _draw_start(1, dtype)
        inputs = (*codes, labels, *start)
        kept = [array.copy() for array in inputs]
        trained = trainer.train(codes, labels, loss, *start, fit_intercept=True, n_jobs=1)
        if any(not np.array_equal(array, copy) for array, copy in zip(inputs, kept, strict=True)):
            yield "it changes its arguments in place; return new arrays."
        for name, given, result in zip(("coef", "intercept"), start, trained, strict=True):
            if np.shape(result) != given.shape:
                yield f"{name} must keep its shape {given.shape}, got {np.shape(result)}."
            elif result.dtype != dtype:
                yield f"{name} must keep its dtype {np.dtype(dtype)}, got {result.dtype}."
            elif not np.isfinite(result).all():
                yield f"{name} is not finite."
    intercept = np.array([0.0, 1.0, 2.0])
    trained = trainer.train(*_draw_trial(), loss, _draw_start(0)[0], intercept, fit_intercept=False)
    if not np.array_equal(trained[1], intercept):
        yield "with fit_intercept=False it must return the intercepts as they were."


def _find_cost_problems(trainer: ClassifierTrainer, loss: Loss) -> Iterator[str]:
    codes, labels = _draw_trial()

    def costs(coef: Array, intercept: Array) -> Array:
        return loss.value(labels * (codes.to_csr(_TRIAL_ATOMS) @ coef.T + intercept)).sum(axis=0)

    for size in (0.0, 1.0, 100.0):
        start = _draw_start(size)
        trained = trainer.train(codes, labels, loss, *start)
        before, after = costs(*start), costs(*trained)
        if (after > before * (1 + _AGREEMENT)).any():
            j = int(np.argmax(after - before))
            yield (
                f"from coefficients of size {size:g} it raises the cost of a class from {before[j]:g} to {after[j]:g}; "
                "return a class's classifier as it was if the new one costs more."
            )
        if size == 0 and not (after < before).all():
            yield "from zero it does not lower the cost of every class."
        if trained[0][:, -1].any():
            yield "an atom that no sample uses must have the coefficient 0."


def _find_symmetry_problems(trainer: ClassifierTrainer, loss: Loss) -> Iterator[str]:
    (codes, labels), start = _draw_trial(), _draw_start(0)
    coef, intercept = trainer.train(codes, labels, loss, *start)
    if _differ(trainer.train(codes, -labels, loss, *start), (-coef, -intercept)):
        yield "with all labels flipped its classifiers must flip too."
    if _differ(trainer.train(codes, labels[:, ::-1].copy(), loss, *start), (coef[::-1], intercept[::-1])):
        yield "with the classes in another order its classifiers must only be in another order."
    order = np.random.default_rng(2).permutation(len(labels))
    if _differ(trainer.train(codes.rows(order), labels[order], loss, *start), (coef, intercept)):
        yield "its classifiers must not depend on the order of the samples."
    labels[:20] = 0
    without = trainer.train(codes.rows(slice(20, None)), labels[20:], loss, *start)
    if _differ(trainer.train(codes, labels, loss, *start), without):
        yield "samples with the label 0 must not change anything."


def _find_additive_problems(trainer: ClassifierTrainer, loss: Loss) -> Iterator[str]:
    if not trainer.is_additive:
        return
    (codes, labels), start = _draw_trial(), _draw_start(0)
    halves = LocalParts([LabelledCodes(codes.rows(rows), labels[rows]) for rows in (slice(0, 33), slice(33, None))])
    whole = trainer.train(codes, labels, loss, *start)
    if _differ(trainer.train_on(halves, loss, *start, fit_intercept=True, n_jobs=1), whole):
        yield (
            "is_additive is declared, but train_on gives other classifiers for two halves of the samples than train "
            "for the whole: a weight may depend on its own sample alone."
        )


def _find_separable_problems(trainer: ClassifierTrainer, loss: Loss) -> Iterator[str]:
    labels = _draw_trial()[1]
    codes = RowCodes(_TRIAL_CLASSES[:, None].astype(np.int32), np.ones((len(labels), 1)))
    trained = _draw_start(0)
    for _ in range(30):  # as many warm starts as a long fit has
        trained = trainer.train(codes, labels, loss, *trained)
    if not all(np.isfinite(array).all() for array in trained):
        yield "classifiers of separable classes become infinite; limit the rounds or add a penalty."


def _find_copy_problems(trainer: ClassifierTrainer, loss: Loss) -> Iterator[str]:
    data, start = _draw_trial(), _draw_start(0)

    def pickle_trainer(original: ClassifierTrainer) -> ClassifierTrainer:
        return pickle.loads(pickle.dumps(original))

    for word, copy_trainer in (("cloned", clone), ("pickled", pickle_trainer)):
        try:
            copy = copy_trainer(trainer)
        except Exception as error:  # a plug-in may fail in any way; the report names it
            yield f"it cannot be {word} ({type(error).__name__}: {error}); derive from ClassifierTrainer, in a module."
            continue
        if _differ(copy.train(*data, loss, *start), trainer.train(*data, loss, *start)):
            yield f"it trains differently when it is {word}: set all state from the constructor's parameters."


def _find_trainer_problems(trainer: ClassifierTrainer, loss: Loss) -> Iterator[str]:
    problems = list(_find_array_problems(trainer, loss))
    yield from problems
    if not problems:  # costs of something of the wrong shape say nothing
        yield from _find_cost_problems(trainer, loss)
        yield from _find_symmetry_problems(trainer, loss)
        yield from _find_additive_problems(trainer, loss)
        yield from _find_separable_problems(trainer, loss)
        yield from _find_copy_problems(trainer, loss)


def check_classifier_trainer(trainer: str | ClassifierTrainer, loss: str | Loss | None = None) -> None:
    """Verify numerically that an object can serve as a classifier trainer.

    Looks at shapes, dtypes and finiteness, at the cost before and after from good and bad starts, at what must not
    matter (order, unlabelled samples, unused atoms, how additive trainers get the samples), at separable classes, and
    at clone and pickle.

    Parameters
    ----------
    trainer : str or ClassifierTrainer
        The trainer to look at.
    loss : str, Loss or None, default=None
        The loss to train with; None stands for every registered loss that the trainer supports.

    Raises
    ------
    ValueError
        With one line for each thing that is wrong.

    Examples
    --------
    >>> from ddlearn.classifiers import LogitBoost, check_classifier_trainer
    >>> check_classifier_trainer(LogitBoost())
    """
    if isinstance(trainer, str):
        trainer = look_up_trainer(trainer)
    losses: list[str | Loss] = (
        [loss] if loss is not None else [name for name in LOSSES if trainer.supports(resolve_loss(name))]
    )
    if not losses:
        raise ValueError(
            f"{trainer!r} supports none of {sorted(LOSSES)}; pass check_classifier_trainer a loss that it does."
        )
    failing: dict[str, list[str]] = {}  # problem: the losses that show it
    for each in losses:
        for problem in _find_trainer_problems(resolve_trainer(trainer, each), resolve_loss(each)):
            failing.setdefault(problem, []).append(str(each))
    report_problems(trainer, "trainer", [f"{problem} (with {', '.join(names)})" for problem, names in failing.items()])
