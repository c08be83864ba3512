"""The trainers by name, and which of them a loss gets: ``resolve_trainer``."""

from __future__ import annotations

from ..losses import Loss, resolve_loss
from .methods import (
    AdaBoost,
    LinearSVM,
    LogitBoost,
    Newton,
    SquareLev,
)
from .trainer import ClassifierTrainer

# In the order in which "auto" asks them: the one that takes any loss comes last.
CLASSIFIER_TRAINERS: dict[str, type[ClassifierTrainer]] = {
    "square_lev": SquareLev,
    "ada_boost": AdaBoost,
    "logit_boost": LogitBoost,
    "linear_svm": LinearSVM,
    "newton": Newton,
}


def supports_loss(trainer: ClassifierTrainer, loss: Loss) -> bool:
    """Ask the trainer; one that does not say takes any loss."""
    return not hasattr(trainer, "supports") or trainer.supports(loss)


def look_up_trainer(name: str) -> ClassifierTrainer:
    """Return a new trainer of that registered name, with its default parameters."""
    if name not in CLASSIFIER_TRAINERS:
        raise ValueError(
            f"classifier_trainer={name!r} is not known; choose 'auto', one of {sorted(CLASSIFIER_TRAINERS)}, or pass a "
            "ClassifierTrainer object."
        )
    return CLASSIFIER_TRAINERS[name]()


def resolve_trainer(trainer: str | ClassifierTrainer, loss: str | Loss) -> ClassifierTrainer:
    """Return the trainer of that registered name, or the object itself, if it is for that loss.

    Parameters
    ----------
    trainer : str or ClassifierTrainer
        "auto", a key of ``CLASSIFIER_TRAINERS``, or an object with ``train``.  "auto" is the first registered trainer
        that supports the loss.
    loss : str or Loss
        The loss to train with.

    Returns
    -------
    ClassifierTrainer
        The trainer object.

    Raises
    ------
    ValueError
        If there is no trainer of that name, or it does not support the loss.

    Examples
    --------
    >>> from ddlearn.classifiers import resolve_trainer
    >>> resolve_trainer("auto", "exponential")
    AdaBoost()
    """
    loss = resolve_loss(loss)
    usable = [name for name, registered in CLASSIFIER_TRAINERS.items() if registered().supports(loss)]
    if isinstance(trainer, str):
        trainer = look_up_trainer(usable[0] if trainer == "auto" else trainer)
    if isinstance(trainer, type) or not callable(getattr(trainer, "train", None)):
        raise TypeError(
            f"classifier_trainer={trainer!r} cannot train classifiers: it must be 'auto', a name from "
            f"{sorted(CLASSIFIER_TRAINERS)}, or an object (not a class) with the method train."
        )
    if not supports_loss(trainer, loss):
        raise ValueError(f"{trainer!r} does not support the loss {loss!r}; use 'auto' or one of {usable} instead.")
    return trainer
