"""What a model tells: dictionaries of facts, which --json prints and tables show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .model import predict_best
from .terminal import Terminal

if TYPE_CHECKING:
    from ..estimators.classifier import DDLClassifier
    from .reading import Samples


def collect_fit_facts(data: str, model: DDLClassifier, settings: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Tell how a fit went."""
    last = model.history_[-1]
    facts = {
        "data": data,
        "n_samples": model.n_samples_seen_,
        "n_features": model.n_features_in_,
        "classes": model.classes_,
        "settings": settings,
        "n_components": len(model.components_),
        "n_nonzero_coefs": model.n_nonzero_coefs_,
        "n_iter": model.n_iter_,
        "max_iter": model.max_iter,
        "converged": model.converged_,
        "objective": last.objective,
        "training_error": last.training_error,
        "label_free_error": last.label_free_error,
        "seconds": seconds,
    }
    if hasattr(model, "refinement_"):
        facts["refinement"] = _collect_refinement_facts(model)
    return facts


def _collect_refinement_facts(model: DDLClassifier) -> dict[str, Any]:
    from ..fitting.refinement import find_best

    best = find_best(model.refinement_)
    return {
        "n_epochs": len(model.refinement_) - 1,
        "best_epoch": best.epoch,
        "validation_error": best.validation_error,
        "validation_error_before": model.refinement_[0].validation_error,
    }


def match_labels(terminal: Terminal, model: DDLClassifier, labels: Any) -> tuple[Any, Any]:
    """Return labels and the model's classes as the same type, and tell of labels that are none of the classes."""
    import numpy as np

    from ..show.errors import check_labels, match_types

    check_labels(labels, model.unlabeled)
    labels, known = match_types(labels, model.classes_)
    unknown = np.setdiff1d(labels, known)
    if unknown.size:
        terminal.note(f"Labels that the model does not know, and so gets wrong: {', '.join(map(str, unknown[:10]))}")
    return labels, known


def collect_errors(terminal: Terminal, model: DDLClassifier, X: Any, labels: Any) -> dict[str, Any]:
    """Tell how often a model is wrong, and where."""
    from ..show.errors import measure_errors

    labels, known = match_labels(terminal, model, labels)
    positions, _ = predict_best(terminal, model, X)
    return measure_errors(labels, known[positions])._asdict()


def collect_reasons(model: DDLClassifier, samples: Samples, row: int) -> dict[str, Any]:
    """Tell why a sample gets its class."""
    import numpy as np
    from scipy.special import softmax

    found = model.explain(samples.X[row : row + 1])
    evidence = found.evidence[0]
    best, second = np.argsort(-evidence, kind="stable")[:2]
    order = np.argsort(-np.abs(found.codes.data), kind="stable")
    atoms, coefficients = found.codes.indices[order], found.codes.data[order]
    return {
        "row": row,
        "sample": samples.sample_names[row] if samples.sample_names else str(row),
        "label": None if samples.labels is None else samples.labels[row],
        "prediction": model.classes_[best],
        "runner_up": model.classes_[second],
        "atoms": atoms,
        "coefficients": coefficients,
        "votes_for_prediction": coefficients * model.coef_[best, atoms],
        "votes_for_runner_up": coefficients * model.coef_[second, atoms],
        "classes": model.classes_,
        "evidence": evidence,
        "probability": softmax(evidence),
        "n_wrong_features": int(np.count_nonzero(found.error)),
        "n_missing_features": int(np.count_nonzero(found.is_missing)),
        "explained": float(
            1
            - np.sum((found.samples - found.reconstruction - found.error) ** 2)
            / max(np.sum(found.samples**2), np.finfo(float).tiny)
        ),
    }
