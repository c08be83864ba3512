r"""How a model is refined: the parameters, the records of the epochs, and which samples are held out."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..describe.jitter import Jitter
from ..model.strategies import Registry, Strategy, check_number
from .costs import REFINEMENT_COSTS, RefinementCost

CLASSIFIERS = "classifiers"  # the value of refine that trains only these on label-free codes
_BATCH_SIZE, _FEWEST_BATCHES = 256, 4
_EPOCHS = 10
_DECAYS = (0.03, 1.0)  # where the search for better ones begins
_SEED = 0  # of what is held out, the same for every fit, so that a resumed fit holds out the same samples


def hold_out(class_index: NDArray[np.intp], share: float, first: int = 0) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return the rows of labelled samples to learn from, and of a share of each class to hold out, both shuffled.

    In the order in which samples are shuffled, ``first`` is the first of each class to be held out: with a share of 1/4
    the numbers 0 to 3 make four folds.  Other than by scikit-learn's ``StratifiedKFold``, which refuses classes with
    fewer samples than folds, a class of one sample is always learned from.  The class of a sample without label is -1.
    """
    rows = np.random.RandomState(_SEED).permutation(np.flatnonzero(class_index >= 0))
    by_class = rows[np.argsort(class_index[rows], kind="stable")]
    _, start, place, n_members = np.unique(
        class_index[by_class], return_index=True, return_inverse=True, return_counts=True
    )
    turn = np.arange(len(rows)) - start[place] - first
    is_held_out = np.zeros(len(class_index), bool)
    is_held_out[by_class] = (np.ceil((turn + 1) * share) > np.ceil(turn * share)) & (n_members[place] > 1)
    return rows[~is_held_out[rows]], rows[is_held_out[rows]]


class EpochRecord(NamedTuple):
    """What an epoch of refinement did.

    Parameters
    ----------
    epoch : int
        Its number; 0 is the model before refinement.
    training_cost : float
        Mean cost of the mini-batches, each before its step; NaN before the first epoch.
    training_error : float
        Share of their samples (multilabel: labels) that were misclassified.
    validation_cost : float
        Mean cost of the held-out samples after the epoch; NaN if there are none.
    validation_error : float
        Share of the held-out samples that were misclassified.
    validation_log_loss : float
        Mean negative logarithm of the probability of a held-out label, with the temperature that suits it best; NaN for
        multilabel targets.
    validation_calibration_error : float
        Expected difference between the probability of a prediction and how often it is right; NaN likewise.
    seconds : float
        Duration of the epoch.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from ddlearn import DDLClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = DDLClassifier(n_components=50, max_iter=1, refine=2, random_state=0).fit(X, y)
    >>> [record.epoch for record in model.refinement_]
    [0, 1, 2]
    """

    epoch: int
    training_cost: float
    training_error: float
    validation_cost: float
    validation_error: float
    validation_log_loss: float
    validation_calibration_error: float
    seconds: float


class Refiner(Strategy):
    r"""How a fitted model is refined.

    Parameters
    ----------
    epochs : int or None, default=None
        How often each training sample is seen; with 0 only the classifiers are trained.  By default 10, or 0 where
        held-out training samples say that this is better, if settings are searched for.
    cost : {"one_vs_all", "softmax"} or None, default=None
        What is lowered: the loss of the model for each class, or the cross-entropy of the classes.  By default the one
        that makes held-out training samples likelier, if settings are searched for, otherwise the first.
    batch_size : int or None, default=None
        Samples in a mini-batch; by default 256, or of fewer than 1024 samples a quarter.
    step_size : float, default=0.06
        The first step in the dictionary, relative to the size of an atom's entries; steps fall along a cosine.
    classifier_step_size : float, default=0.005
        The first step in the classifiers, for samples of unit norm.
    weight_decay : float or None, default=None
        Penalty on what atoms say by themselves, :math:`\rho` in the notes.  By default it is chosen by the cost of
        held-out training samples.
    linear_decay : float or None, default=None
        Penalty on the linear classifier that atoms have in common, :math:`\tau` in the notes: 1 is the penalty of
        scikit-learn's ``LogisticRegression`` for features of unit size.  By default it is chosen likewise.
    validation_fraction : float, default=0.0
        Share of the labelled samples to hold out, from the joint fit too, to select the best epoch; with 0 the last
        epoch is kept.
    patience : int or None, default=None
        Epochs without improvement on the held-out samples before stopping; None disables early stopping.
    jitter : {"affine", "elastic"}, Jitter or None, default=None
        How training images are distorted at random each time they are used; test-time views use half of it.

    See Also
    --------
    Jitter : Distorts images while a model is refined.

    Notes
    -----
    Classifiers are a sum, :math:`W = U + D V`: what each atom says by itself, and what a linear classifier :math:`V` of
    samples says of the atom.  With N training samples of M features and mean squared norm :math:`\bar e`, the mean cost
    is lowered together with :math:`\bar e (\rho \|U\|^2 + \tau \|V\|^2 / M) / 2N`.

    Examples
    --------
    >>> from ddlearn import Refiner
    >>> Refiner(5, cost="softmax")
    Refiner(cost='softmax', epochs=5)
    """

    def __init__(
        self,
        epochs: int | None = None,
        *,
        cost: str | None = None,
        batch_size: int | None = None,
        step_size: float = 0.06,
        classifier_step_size: float = 0.005,
        weight_decay: float | None = None,
        linear_decay: float | None = None,
        validation_fraction: float = 0.0,
        patience: int | None = None,
        jitter: str | Jitter | None = None,
    ):
        self.epochs = epochs
        self.cost = cost
        self.batch_size = batch_size
        self.step_size = step_size
        self.classifier_step_size = classifier_step_size
        self.weight_decay = weight_decay
        self.linear_decay = linear_decay
        self.validation_fraction = validation_fraction
        self.patience = patience
        self.jitter = jitter

    def check_parameters(self) -> None:
        check_number("epochs", self.count_epochs(), Integral)
        check_number("batch_size", _BATCH_SIZE if self.batch_size is None else self.batch_size, Integral)
        if self.batch_size == 0:
            raise ValueError("batch_size must be at least 1, got 0.")
        for name in ("step_size", "classifier_step_size", "validation_fraction"):
            check_number(name, getattr(self, name), Real)
        for name in ("weight_decay", "linear_decay"):
            if getattr(self, name) is not None:
                check_number(name, getattr(self, name), Real)
        if self.validation_fraction >= 1:
            raise ValueError(f"validation_fraction must be below 1, got {self.validation_fraction!r}.")
        if self.patience is not None:
            check_number("patience", self.patience, Integral)
            if self.patience == 0:
                raise ValueError("patience must be at least 1, or None to go through all epochs; got 0.")
        if self.cost is not None and self.cost not in REFINEMENT_COSTS:
            raise ValueError(f"cost={self.cost!r} is not known; choose one of {sorted(REFINEMENT_COSTS)} or None.")

    def hold_out(self, class_index: NDArray[np.intp]) -> NDArray[np.intp]:
        """Return the rows of labelled samples to hold out; the class of a sample without label is -1."""
        # About half of those that share a held-out sample come before it, but at least one: no class has none to learn.
        first = max(int(0.5 / (self.validation_fraction or 1)), 1)
        return np.sort(hold_out(class_index, self.validation_fraction, first)[1])

    def count_epochs(self) -> int:
        """Return the number of epochs, the usual one where it is to be chosen."""
        return _EPOCHS if self.epochs is None else self.epochs

    def count_batches(self, n_samples: int) -> int:
        """Return the number of mini-batches in an epoch."""
        if self.batch_size is None:
            return min(max(-(-n_samples // _BATCH_SIZE), _FEWEST_BATCHES), n_samples)
        return -(-n_samples // self.batch_size)

    def decay_precisions(self) -> tuple[float, float]:
        """Return rho and tau, defaults in place of what is to be chosen."""
        given = self.weight_decay, self.linear_decay
        own, linear = (default if decay is None else decay for decay, default in zip(given, _DECAYS, strict=True))
        return own, linear

    def list_costs(self, is_multilabel: bool) -> list[type[RefinementCost]]:
        """Return the costs to choose from: the one that is given, or all that suit the targets."""
        suitable = {name: cost for name, cost in REFINEMENT_COSTS.items() if cost.takes_multilabel or not is_multilabel}
        if self.cost is None:
            return list(suitable.values())
        if self.cost not in suitable:
            raise ValueError(
                f"cost={self.cost!r} needs one class per sample, but targets are multilabel: use cost='one_vs_all'."
            )
        return [suitable[self.cost]]


def _make_refiner(refine: Any) -> Any:
    """Return None if only classifiers, or nothing, are to be trained on label-free codes."""
    if isinstance(refine, str):
        return {CLASSIFIERS: None, "auto": Refiner()}.get(refine, refine)
    is_number = isinstance(refine, Integral) and not isinstance(refine, bool)
    return Refiner(int(refine)) if is_number else refine


REFINEMENT: Registry[Refiner] = Registry(
    "refine",
    Refiner,
    shorthand=_make_refiner,
    expected="'auto', 'classifiers', None, a number of epochs, or a Refiner object",
)


def find_best(history: list[EpochRecord]) -> EpochRecord:
    """Return the record of the epoch whose model is kept.

    It has the lowest cost on the held-out samples, which is less noisy than their error, or is the last if there are
    none.
    """
    return min(reversed(history), key=lambda record: record.validation_cost)
