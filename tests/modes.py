"""What each constructor parameter does where the samples are in memory, come in batches, or are on a Dask cluster.

Each row of :data:`CASES` is one value of a parameter, other than that of ``make_pursuit`` or ``make_stream``.  For each
mode it names what the value changes, or says that it is refused; None where another row holds for that mode.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from conftest import make_pursuit, make_stream, normalise
from scipy.sparse import csr_array
from sklearn.preprocessing import MinMaxScaler

from ddlearn import Alignment, ConjugateScales, DDLClassifier, PrintedCoding, Robustness, SquareLev

MODES = ("memory", "batches", "dask")
REFUSED = "refused"  # by an error that names the parameter
NOTHING = "nothing"  # of the model changes
EVIDENCE, CODES = "decision_function", "transform"  # what new samples get; otherwise an attribute changes
IMAGES = {"image_shape": (4, 3)}


class WholeTrainer(SquareLev):
    """A trainer that wants all samples at once."""

    is_additive = False

    def train(self, *arguments: Any, **options: Any) -> Any:
        return super().train(*arguments, **options)


class Case(NamedTuple):
    """One value of a parameter."""

    name: str
    value: Any
    memory: str | None
    batches: str | None
    dask: str | None
    others: dict[str, Any] = {}  # noqa: RUF012 - parameters that it needs, in the model to compare with, too

    def make_models(self, mode: str) -> tuple[Any, Any]:
        """Return the model to compare with, and the one with this value."""
        common, make = {"random_state": 0} | self.others, make_stream if mode == "batches" else make_pursuit
        return make(**common), make(**common | {self.name: self.value})


CASES = [
    Case("n_components", 7, *["components_"] * 3),
    Case("n_components", "auto", "search_", REFUSED, REFUSED),
    Case("description", "standard", *["components_"] * 3),
    Case("description", MinMaxScaler(), "components_", "components_", REFUSED),
    Case("n_nonzero_coefs", 2, *["n_nonzero_coefs_"] * 3),
    Case("loss", "logistic", *["coef_"] * 3),
    Case("sparse_coder", "omp", *["components_"] * 3),
    Case("sparse_coder", "elastic_net", *["components_"] * 3),
    Case("label_coding", PrintedCoding(max_iter=0), *["components_"] * 3),
    Case("dictionary_update", "exact_ksvd", "components_", REFUSED, REFUSED),
    Case("dictionary_update", "block_coordinate", "components_", "components_", None),
    Case("dictionary_update", "atom", "components_", None, "components_"),
    Case("classifier_trainer", SquareLev(ridge=0.5), *["coef_"] * 3),
    Case("classifier_trainer", WholeTrainer(ridge=0.5), "coef_", REFUSED, REFUSED),
    Case("init", "gaussian", *["components_"] * 3),
    Case("classifier_trainer", SquareLev(fit_intercept=False), *["intercept_"] * 3),
    Case("class_weight", {0: 9.0}, *["coef_"] * 3),
    Case("class_weight", "balanced", None, REFUSED, None),
    Case("classification_weight", 5.0, *["components_"] * 3),
    Case("scales", ConjugateScales("shared"), *["components_"] * 3),
    Case("forgetting", 0, None, "components_", None),
    Case("batch_size", 40, None, NOTHING, None),  # which only fit reads
    Case("max_iter", 1, "n_iter_", None, "n_iter_"),
    Case("tol", 0.9, "n_iter_", None, "n_iter_"),
    Case("refine", None, "coef_", None, "coef_"),
    Case("refine", 1, "refinement_", None, "refinement_"),
    Case("refine", "auto", "refinement_", None, "refinement_"),
    Case("inference", "full", *[EVIDENCE] * 3),
    Case("robustness", 1, *[EVIDENCE] * 3),
    Case("robustness", Robustness(missing="mask"), *[NOTHING] * 3),  # of complete samples; coding/test_missing.py
    Case("alignment", "translation", *[EVIDENCE] * 3, IMAGES),
    Case("alignment", Alignment("translation", training=True), "components_", REFUSED, "components_", IMAGES),
    Case("image_shape", (2, 6), *[EVIDENCE] * 3, IMAGES | {"n_views": 3}),
    Case("n_views", 3, *[EVIDENCE] * 3, IMAGES),
    Case("unlabeled", 0, *["classes_"] * 3),
    Case("warm_start", True, "components_", None, "components_"),
    Case("verbose", 1, *[NOTHING] * 3),
    Case("n_jobs", 2, *[NOTHING] * 3),
    Case("random_state", 1, *["components_"] * 3),
]


def list_cases(mode: str) -> list[Case]:
    """Return the cases of a mode; together they cover every parameter."""
    return [case for case in CASES if getattr(case, mode) is not None]


def draw_samples() -> tuple[np.ndarray, np.ndarray]:
    """Return noisy samples of three classes."""
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    return normalise(rng.standard_normal((3, 12))[y] + 0.7 * rng.standard_normal((120, 12))), y


def see(model: DDLClassifier, what: str, X: np.ndarray) -> Any:
    """Return what a parameter changes, as something to compare; None for an attribute that the model has not."""
    if what == CODES:
        return type(model.transform(X)).__name__
    seen = model.decision_function(X) if what == EVIDENCE else getattr(model, what, None)
    if isinstance(seen, csr_array):
        return seen.toarray()
    return [record[:2] for record in seen] if isinstance(seen, list) else seen  # without times


def is_same(model: DDLClassifier, other: DDLClassifier, what: str, X: np.ndarray) -> bool:
    """Whether two models agree in what a parameter changes, or in all of it."""
    if what == NOTHING:
        names = ("components_", "coef_", "intercept_", "class_cost_", "n_iter_", "codes_", EVIDENCE, CODES)
        return all(is_same(model, other, name, X) for name in names)
    one, two = see(model, what, X), see(other, what, X)
    return one is two if one is None or two is None else bool(np.array_equal(one, two))
