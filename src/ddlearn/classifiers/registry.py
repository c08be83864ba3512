"""The trainers by name, and which of them "auto" means for a loss."""

from __future__ import annotations

from ..losses import Loss, resolve_loss
from ..strategies import resolve
from .methods import (
    AdaBoost,
    LinearSVM,
    LogitBoost,
    Newton,
    SquareLev,
)
from .trainer import ClassifierTrainer

# "auto" is the first that supports the loss; the one that supports any comes last.
CLASSIFIER_TRAINERS: dict[str, type[ClassifierTrainer]] = {
    "square_lev": SquareLev,
    "ada_boost": AdaBoost,
    "logit_boost": LogitBoost,
    "linear_svm": LinearSVM,
    "newton": Newton,
}


def resolve_trainer(trainer: str | ClassifierTrainer, loss: str | Loss) -> ClassifierTrainer:
    """Return the trainer registered under a name, or the object itself; "auto" is the first that supports the loss.

    Examples
    --------
    >>> resolve_trainer("auto", "exponential")
    AdaBoost()
    """
    loss = resolve_loss(loss)
    usable = [name for name, registered in CLASSIFIER_TRAINERS.items() if registered().supports(loss)]
    if isinstance(trainer, str) and trainer == "auto":
        trainer = usable[0]
    trainer = resolve("classifier trainer", trainer, CLASSIFIER_TRAINERS, ClassifierTrainer)
    if not trainer.supports(loss):
        raise ValueError(f"{trainer!r} does not support the loss {loss!r}; use 'auto' or one of {usable} instead.")
    return trainer
