"""What a fitted model is, how wrong it is, and what to do about it: facts, the error, and checks with remedies.

The checks need no samples, but tell more with labelled ones that the model has not seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import softmax
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_consistent_length

from ..describe.choice import is_learned_from
from ..estimators.classifier import DDLClassifier
from ..model.codes import Floats
from ..model.measures import Calibration, measure_calibration
from ..refinement.refiner import find_best
from .errors import find_positions

GOOD, WARNING, UNKNOWN = "good", "warning", "unknown"

_LARGE_GAP = 0.05  # between two errors
_MANY_UNUSED = 0.1  # of the atoms
_FEW_SAMPLES = 10  # of a class
_SMALL_SHARE = 0.1  # of a class, relative to classes of equal size
_LARGE_CALIBRATION_ERROR = 0.03
_CHANCE_FACTOR = 2.0  # a calibration error that is smaller than this times what chance alone makes says nothing
_MANY_AT_FLOOR = 0.1
_HEAVY_PRIOR = 0.9  # in a noise variance
_SAME_NUMBERS = 1e-5  # relative, of scales at their floors
_LEVEL = 0.05  # of significance
_N_FOLDS = 5
_MOST_ROWS, _FEWEST_ROWS, _MOST_PRODUCTS = 2000, 200, 10_000_000  # of a logistic regression, which is to take seconds


class Check(NamedTuple):
    """One question about a model and its answer."""

    name: str  # of what was looked at
    verdict: str  # "good", "warning", or "unknown" if samples are needed that were not given
    finding: str  # with numbers
    remedy: str = ""  # what to do; empty if there is nothing to do


Answer = tuple[str, ...]  # verdict, finding and perhaps remedy


@dataclass(frozen=True, repr=False)
class Summary:
    """What a model is, how wrong it is, and what to do about it.

    Parameters
    ----------
    facts : dict of str to str
        Size, settings and training of the model.
    error : float or None
        The best estimate there is of the error on new samples; None if there is none.
    error_source : str
        On which samples it was measured.
    checks : list of Check
        Questions about the model, with answers and remedies.

    See Also
    --------
    DDLClassifier.summary : Makes one.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from ddlearn import DDLClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DDLClassifier(10, sparse_coder="ormp", refine=None, random_state=0).fit(X, y)
    >>> model.summary().facts["data"]
    '150 training samples, 4 features, 3 classes'
    >>> [check.verdict for check in model.summary(X, y).checks if check.name == "Training data"]
    ['warning']
    """

    facts: dict[str, str]
    error: float | None
    error_source: str
    checks: list[Check]

    @classmethod
    def of(
        cls,
        model: DDLClassifier,
        X: ArrayLike | None = None,
        y: ArrayLike | None = None,
        training: tuple[ArrayLike, ArrayLike] | None = None,
    ) -> Summary:
        """Return the summary of a fitted model; see :meth:`DDLClassifier.summary`."""
        if X is None:
            return summarise(model)
        X, _ = model._check_new(X, None)
        labels = None
        if y is not None and not model.is_multilabel_:
            check_consistent_length(X, y)
            labels = find_positions(model.classes_, np.asarray(y))
        if training is not None:
            training = model._check_new(training[0], None)[0], np.asarray(training[1])
        predictor = model._predictor(X.dtype)
        codes = predictor.encode(X).to_csr(len(model.components_))
        return summarise(model, Evaluation(X, labels, softmax(predictor.evidence(X), axis=1), codes, training))

    def __str__(self) -> str:
        error = "not measured" if self.error is None else f"{100 * self.error:.2f} % {self.error_source}"
        rows = self.facts | {"error": error}
        width = max(len(name) for name in (*rows, *(check.name for check in self.checks)))
        lines = [f"{name:<{width}}  {value}" for name, value in rows.items()]
        lines += ["", "Checks"]
        marks = {GOOD: "ok", WARNING: "!!", UNKNOWN: "? "}
        for name, verdict, finding, remedy in self.checks:
            lines.append(f"{marks[verdict]} {name:<{width}}  {finding}")
            if remedy:
                lines.append(f"   {'':<{width}}  -> {remedy}")
        return "\n".join(lines)

    __repr__ = __str__


class Evaluation(NamedTuple):
    """Samples, and what a model makes of them."""

    X: Floats
    labels: NDArray[np.intp] | None  # positions among the classes, -1 for one that the model does not know
    probabilities: Floats
    codes: csr_array
    training: tuple[Floats, NDArray[Any]] | None  # what the model was fitted to, if it is at hand

    @property
    def is_right(self) -> NDArray[np.bool_]:
        """Whether each prediction is right."""
        return self.probabilities.argmax(axis=1) == self.labels

    def measure_calibration(self) -> Calibration:
        """Return what the probabilities are worth; an unknown label had none."""
        assert self.labels is not None
        largest = self.probabilities.max(axis=1)
        of_label = np.where(self.labels < 0, 0, self.probabilities[np.arange(len(largest)), self.labels])
        return measure_calibration(of_label, largest, self.is_right)


def summarise(model: DDLClassifier, seen: Evaluation | None = None) -> Summary:
    """Return the summary of a fitted model, with what it makes of some samples."""
    error, source = _estimate_error(model, seen)
    answers = {name: check(model, seen) for name, check in _CHECKS.items()}
    checks = [Check(name, *answer) for name, answer in answers.items() if answer is not None]
    return Summary(_list_facts(model), error, source, checks)


def _percent(share: Any) -> str:
    return f"{100 * share:.1f} %"


def _list_facts(model: DDLClassifier) -> dict[str, str]:
    coder, alpha = type(model.sparse_coder_).__name__, getattr(model.sparse_coder_, "alpha", None)
    budget = f"at most {model.n_nonzero_coefs_} per sample"
    facts = {
        "data": f"{model.n_samples_seen_:,} training samples, {model.n_features_in_:,} features, "
        f"{len(model.classes_):,} classes",
        "atoms": f"{len(model.components_):,}, {budget}",
        "sparse coder": coder if alpha is None else f"{coder}, alpha {alpha:.3g}",
        "description": type(model.description_).__name__,
        "loss": type(model.loss_).__name__,
        "iterations": f"{model.n_iter_}" + (", converged" if model.converged_ else ""),
    }
    if hasattr(model, "refinement_"):
        best = find_best(model.refinement_)
        facts["refinement"] = describe_refinement(len(model.refinement_) - 1, best.epoch)
    if hasattr(model, "search_"):
        facts["search"] = f"{len(model.search_['error'])} settings tried"
    return facts


def describe_refinement(n_epochs: int, best_epoch: int) -> str:
    """Return how long a model was refined."""
    return f"{n_epochs} epochs, best after epoch {best_epoch}" if n_epochs else "none: it did not help in trials"


def _estimate_error(model: DDLClassifier, seen: Evaluation | None) -> tuple[float | None, str]:
    """Return the best estimate of the error on new samples, and where it comes from."""
    if seen is not None and seen.labels is not None:
        return float(1 - np.mean(seen.is_right)), f"of {len(seen.X):,} given samples"
    if hasattr(model, "refinement_"):
        best = find_best(model.refinement_)
        if np.isfinite(best.validation_error):
            return best.validation_error, "of the samples held out of refinement"
        if hasattr(model, "search_"):
            return float(model.search_["error"][-1]), "of held-out training samples, in trials of the chosen settings"
        return None, ""
    error = model.history_[-1].label_free_error
    return (error, "of training samples, coded like new ones") if np.isfinite(error) else (None, "")


def _check_gap(model: DDLClassifier, seen: Evaluation | None) -> Answer | None:
    error, source = _estimate_error(model, seen)
    if hasattr(model, "refinement_"):
        learned = find_best(model.refinement_).training_error
        what = "of the training samples are wrong"
        remedy = "More training samples, fewer atoms or, for images, Refiner(jitter='affine') may help."
    else:
        learned = model.history_[-1].training_error
        what = "of the training samples are wrong if coded with their labels"
        remedy = "The codes owe much to the labels, which new samples lack: refine the model (refine='auto')."
    if error is None or not np.isfinite(learned):
        return UNKNOWN, "There are no held-out samples to compare with.", "Give labelled samples."
    finding = f"{_percent(learned)} {what}, and {_percent(error)} {source}."
    return (WARNING, finding, remedy) if error - learned > _LARGE_GAP else (GOOD, finding)


def _check_atoms(model: DDLClassifier, seen: Evaluation | None) -> Answer | None:
    # The stored codes are those of the joint fit: refinement has changed the dictionary since.
    known = None if hasattr(model, "refinement_") else getattr(model, "codes_", None)
    codes = known if seen is None else seen.codes
    if codes is None:
        return UNKNOWN, "Samples tell which atoms are used.", "Give samples."
    n_atoms = len(model.components_)
    n_unused = n_atoms - len(np.unique(codes.indices[codes.data != 0]))
    whose = "training samples" if seen is None else "given samples"
    finding = f"{n_unused:,} of {n_atoms:,} atoms are in no code of the {codes.shape[0]:,} {whose}."
    if n_unused <= _MANY_UNUSED * n_atoms or codes.shape[0] < n_atoms:
        return GOOD, finding
    remedy = f"A smaller dictionary is likely to do: n_components={n_atoms - n_unused}."
    return WARNING, finding, remedy


def _check_classes(model: DDLClassifier, _: Evaluation | None) -> Answer | None:
    if model.is_multilabel_:
        return None
    smallest = int(model.class_prior_.argmin())
    share, n_classes = float(model.class_prior_[smallest]), len(model.classes_)
    if model.class_weight is not None:  # which the shares contain
        return GOOD, "The classes are weighted by class_weight."
    n_samples = round(share * model.n_samples_seen_)
    finding = (
        f"The smallest class, {model.classes_[smallest]}, has {n_samples:,} of {model.n_samples_seen_:,} "
        "training samples."
    )
    if n_samples < _FEW_SAMPLES:
        remedy = "Collect more of them: so few say little about their class, and a held-out part has hardly any."
        return WARNING, finding, remedy
    if share * n_classes < _SMALL_SHARE:
        return WARNING, finding, "If it matters as much as others, use class_weight='balanced'."
    return GOOD, finding


def _check_calibration(model: DDLClassifier, seen: Evaluation | None) -> Answer | None:
    if model.is_multilabel_:
        return None
    remedy = "Use scikit-learn's CalibratedClassifierCV(method='temperature')"
    remedy += "." if is_calibrated(model) else ", or refine the model (refine='auto')."
    if seen is None or seen.labels is None:
        if is_calibrated(model):
            return GOOD, "A temperature was fitted to held-out training samples."
        return UNKNOWN, "Probabilities are those of the model, not calibrated.", remedy
    largest, error = seen.probabilities.max(axis=1), seen.measure_calibration().calibration_error
    finding = f"Probabilities are off by {_percent(error)} on average."
    chance = float(np.sqrt(2 / np.pi * np.sum(largest * (1 - largest)))) / len(largest)
    if error <= max(_LARGE_CALIBRATION_ERROR, _CHANCE_FACTOR * chance):
        return GOOD, finding
    direction = "too sure" if largest.mean() > seen.is_right.mean() else "not sure enough"
    return WARNING, f"{finding} The model is {direction}.", remedy


def is_calibrated(model: DDLClassifier) -> bool:
    """Return whether a temperature was fitted to samples that the search for settings held out."""
    return hasattr(model, "search_") and bool(np.isfinite(model.search_["temperature"][-1]))


def _check_baseline(model: DDLClassifier, seen: Evaluation | None) -> Answer | None:
    if model.is_multilabel_:
        return None
    if seen is None or seen.labels is None:
        return UNKNOWN, "Not compared with a linear classifier.", "Give labelled samples."
    if np.isnan(seen.X).any():
        return UNKNOWN, "Not compared with a linear classifier, which needs complete samples."
    rows = _thin_out(len(seen.X), seen.X.shape[1] * len(model.classes_))
    X, labels = seen.X[rows], seen.labels[rows]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of convergence, and of classes with fewer samples than folds
        try:
            predictions, how = _predict_linearly(model, X, labels, seen.training)
        except ValueError:  # a single class, or no class with a sample for each fold
            return UNKNOWN, "There are too few samples for a comparison with a linear classifier."
    is_worse, is_better = ~seen.is_right[rows] & (predictions == labels), seen.is_right[rows] & (predictions != labels)
    n_worse, n_better = int(is_worse.sum()), int(is_better.sum())
    finding = (
        f"Logistic regression ({how}) gets {_percent(np.mean(predictions != labels))} of {len(rows):,} samples wrong, "
        f"this model {_percent(1 - np.mean(seen.is_right[rows]))}."
    )
    if n_worse > n_better and binomtest(n_worse, n_worse + n_better).pvalue < _LEVEL:  # McNemar's test
        remedy = "Use logistic regression, or try preset 'accurate', more atoms or another description."
        return WARNING, finding, remedy
    return GOOD, finding + (" The difference may be chance." if n_worse > n_better else "")


def _predict_linearly(
    model: DDLClassifier, X: Floats, labels: NDArray[np.intp], training: tuple[Floats, NDArray[Any]] | None
) -> tuple[NDArray[np.intp], str]:
    """Return predictions of a logistic regression that has not seen the sample, and what it has learned from."""
    linear = make_pipeline(StandardScaler(), LogisticRegression())
    if training is None:
        folds = StratifiedKFold(_N_FOLDS, shuffle=True, random_state=0)
        return cross_val_predict(linear, X, labels, cv=folds), "trained on four fifths of these samples"
    rows = _thin_out(len(training[0]), X.shape[1] * len(model.classes_))
    learned, positions = training[0][rows], find_positions(model.classes_, training[1][rows])
    is_labelled = (positions >= 0) & np.isfinite(learned).all(axis=1)
    linear.fit(learned[is_labelled], positions[is_labelled])
    return linear.predict(X), f"trained on {np.count_nonzero(is_labelled):,} of the training samples"


def _thin_out(n_samples: int, n_products: int) -> NDArray[np.intp]:
    """Return evenly spaced rows, as many as a logistic regression learns from in seconds."""
    n_rows = int(np.clip(_MOST_PRODUCTS // n_products, _FEWEST_ROWS, _MOST_ROWS))
    return np.arange(0, n_samples, -(-n_samples // n_rows))


def _check_training_data(model: DDLClassifier, seen: Evaluation | None) -> Answer | None:
    if seen is None or seen.labels is None:
        return None
    if is_training_data(model, seen.X):
        remedy = "Evaluate on samples that the model has not seen."
        return WARNING, "The given samples are those that the model was fitted to.", remedy
    return GOOD, "The given samples are not the training samples as a whole."


def is_training_data(model: DDLClassifier, X: Floats) -> bool:
    """Return whether X are the training samples, in any order, as the description learned from them tells.

    Models without description, and parts of the training samples, are not recognised.
    """
    if len(X) != model.n_samples_seen_ or np.isnan(X).any():
        return False
    return is_learned_from(model.description_, np.asarray(X, np.float64))


def _check_scales(model: DDLClassifier, _: Evaluation | None) -> Answer | None:
    priors, share = model.priors_, model.history_[-1].floor_share
    n_low = int(np.sum(model.class_cost_ <= priors.cost_floor * (1 + _SAME_NUMBERS))) if priors.cost_floor else 0
    if share > _MANY_AT_FLOOR or n_low:
        n_costs = len(model.class_cost_)
        finding = f"{_percent(share)} of the noise variances and {n_low} of {n_costs} class costs are at their floors."
        remedy = "The model fits its samples too closely: use fewer atoms, shorter codes or scales='conjugate'."
        return WARNING, finding, remedy
    weight = priors.noise_weight / (model.n_features_in_ + 2 + priors.noise_weight)
    finding = f"No scale is at a floor; the prior has {100 * weight:.0f} % of the weight in a noise variance."
    if weight > _HEAVY_PRIOR and not hasattr(model, "refinement_"):  # after which noise hardly matters
        remedy = "All samples get nearly the same noise. If some are much noisier than others, try scales='jeffreys'."
        return WARNING, finding, remedy
    return GOOD, finding


def _check_end(model: DDLClassifier, _: Evaluation | None) -> Answer | None:
    if hasattr(model, "refinement_"):
        best, last = find_best(model.refinement_), model.refinement_[-1]
        if np.isfinite(best.validation_cost) and best.epoch == last.epoch:
            finding = f"The last of {last.epoch} epochs was the best on held-out samples."
            return WARNING, finding, f"Try more epochs: refine={2 * max(last.epoch, 1)}."
        return GOOD, f"Refinement: {describe_refinement(last.epoch, best.epoch)}."
    if model.converged_:
        return GOOD, f"The objective settled after {model.n_iter_} iterations."
    finding = f"The fit stopped after {model.n_iter_} iterations, before the objective had settled."
    return WARNING, finding, "Raise max_iter."


_CHECKS: dict[str, Callable[[DDLClassifier, Evaluation | None], Answer | None]] = {
    "Training data": _check_training_data,
    "Overfitting": _check_gap,
    "Logistic regression": _check_baseline,
    "Calibration": _check_calibration,
    "Class sizes": _check_classes,
    "Unused atoms": _check_atoms,
    "Floors and priors": _check_scales,
    "Training length": _check_end,
}
