"""The samples of the page: some of each kind of error, some of each class, and those that use each atom most."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from ...estimators.classifier import DDLClassifier
from ...model.measures import measure_reliability
from ..errors import Errors, match_types, measure_errors
from ..summary import Evaluation
from .packing import Json, make_column, pack, pack_rows

Floats = NDArray[np.floating]
Rows = NDArray[np.intp]

_SAMPLE_BYTES = 1_200_000  # room for samples, before they are written as text
_MOST_SAMPLES = 3000
_MOST_WRONG = 10_000  # in the table to download
_N_OF_A_CELL = 12  # samples per cell of the confusion matrix
_N_OF_AN_ATOM = 6  # samples per atom


class Data(NamedTuple):
    """Validated samples, in double precision, as the scripts of the page compute."""

    X: Floats
    labels: NDArray[Any] | None
    name: str | None
    sample_names: list[str] | None
    training: tuple[Floats, NDArray[Any]] | None


def describe_data(model: DDLClassifier, plain: DDLClassifier, data: Data, seen: Evaluation) -> Json:
    """Return predictions and errors of all samples, and some samples with the predictions of the plain model."""
    best, names = seen.probabilities.argmax(axis=1), model.classes_
    probability = seen.probabilities.max(axis=1)
    predictions, labels, errors = best, None, None
    if data.labels is not None:
        given, known = match_types(data.labels, model.classes_)
        errors = measure_errors(given, known[best])
        names = errors.classes
        labels, predictions = np.searchsorted(names, given), np.searchsorted(names, known)[best]
    users = list_users(seen.codes)
    rows, samples = _choose_samples(data.X, [list_cells(predictions if labels is None else labels, predictions), users])
    places = {row: place for place, row in enumerate(rows.tolist())}
    return {
        "name": data.name,
        "n_samples": len(data.X),
        "classes": [str(name) for name in names.tolist()],
        "errors": None if errors is None else _to_json(errors) | _describe_calibration(seen),
        "wrong": None if labels is None else _list_wrong(data, labels, predictions, probability),
        "rows": rows.tolist(),
        "names": None if data.sample_names is None else [data.sample_names[row] for row in rows],
        "labels": None if labels is None else labels[rows].tolist(),
        "predictions": predictions[rows].tolist(),
        "expected": _expect(plain, data.X[rows], seen.codes[rows]),
        "samples": samples,
        "users": [[places[row] for row in of_atom.tolist() if row in places] for of_atom in users],
    }


def _expect(plain: DDLClassifier, X: Floats, codes: csr_array) -> Json:
    """Return what the page must find: classes, their probabilities, and what codes leave of a complete sample."""
    probabilities, left = plain.predict_proba(X), plain.description_.apply(X) - codes @ plain.components_
    return {
        "labels": probabilities.argmax(axis=1).tolist(),
        "probability": pack(probabilities.max(axis=1), "f8"),
        "left": pack(np.vecdot(left, left), "f8"),
    }


def _describe_calibration(seen: Evaluation) -> Json:
    """Return what probabilities are worth, and the points of the reliability curve."""
    curve = measure_reliability(seen.probabilities.max(axis=1), seen.is_right)._asdict()
    return seen.measure_calibration()._asdict() | {"reliability": {name: curve[name].tolist() for name in curve}}


def _list_wrong(data: Data, labels: Rows, predictions: Rows, probability: Floats) -> Json:
    """Return all wrong samples, for a table to download."""
    rows = np.flatnonzero(labels != predictions)[:_MOST_WRONG]
    return {
        "rows": rows.tolist(),
        "names": None if data.sample_names is None else [data.sample_names[row] for row in rows],
        "labels": labels[rows].tolist(),
        "predictions": predictions[rows].tolist(),
        "probability": np.round(probability[rows], 6).tolist(),
    }


def _to_json(errors: Errors) -> Json:
    facts = {
        name: make_column(value) if isinstance(value, np.ndarray) else value for name, value in errors._asdict().items()
    }
    return facts | {"classes": [str(name) for name in errors.classes.tolist()]}


def _choose_samples(X: Floats, groups: list[list[Rows]]) -> tuple[Rows, Json]:
    """Return the rows of as many samples as there is room for, which depends on how they pack, and the samples."""
    for bytes_per_value in (1, 4, 8):
        n_samples = int(np.clip(_SAMPLE_BYTES // (bytes_per_value * X.shape[1]), 1, _MOST_SAMPLES))
        rows = choose(groups, n_samples)
        samples = pack_rows(X[rows])
        if np.dtype(samples["values"]["dtype"]).itemsize <= bytes_per_value:
            break
    return rows, samples


def list_cells(labels: Rows, predictions: Rows) -> list[Rows]:
    """Return some samples of each cell of the confusion matrix, errors first."""
    kinds = np.stack([labels == predictions, labels, predictions])
    cells, cell_of_sample = np.unique(kinds, axis=1, return_inverse=True)
    return [np.flatnonzero(cell_of_sample.ravel() == cell)[:_N_OF_A_CELL] for cell in range(cells.shape[1])]


def list_users(codes: csr_array) -> list[Rows]:
    """Return, for each atom, the samples with the largest coefficients of it."""
    by_atom = abs(codes).tocsc()
    users = []
    for start, stop in zip(by_atom.indptr[:-1], by_atom.indptr[1:], strict=True):
        order = np.argsort(-by_atom.data[start:stop], kind="stable")[:_N_OF_AN_ATOM]
        users.append(by_atom.indices[start:stop][order].astype(np.intp))
    return users


def choose(groups: Iterable[Iterable[Rows]], n_samples: int) -> Rows:
    """Return at most `n_samples` distinct rows: of each group, the first of each list, then the second of each, ..."""
    chosen: dict[int, None] = {}
    for lists in groups:
        for turn in zip_longest(*(rows.tolist() for rows in lists)):
            chosen |= dict.fromkeys(row for row in turn if row is not None)
    return np.array(list(chosen)[:n_samples], np.intp)
