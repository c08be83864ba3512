"""Which samples go into the page: some of each kind of error, some of each class, and those that use each atom most."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Rows = NDArray[np.intp]

_N_OF_A_CELL = 12  # samples of one cell of the confusion matrix
_N_OF_AN_ATOM = 6  # samples that use an atom most


def list_cells(labels: NDArray[np.intp], predictions: NDArray[np.intp]) -> list[Rows]:
    """Return some samples of each cell of the confusion matrix, cells of errors first."""
    n_classes = int(max(labels.max(), predictions.max())) + 1
    cells = labels * n_classes + predictions
    is_error = {int(cell): cell // n_classes != cell % n_classes for cell in np.unique(cells)}
    return [
        np.flatnonzero(cells == cell)[:_N_OF_A_CELL]
        for cell in sorted(is_error, key=lambda cell: (not is_error[cell], cell))
    ]


def list_users(codes: csr_array) -> list[Rows]:
    """Return, for each atom, the samples whose coefficients of it are largest."""
    by_atom = abs(codes).tocsc()
    users = []
    for start, stop in zip(by_atom.indptr[:-1], by_atom.indptr[1:], strict=True):
        order = np.argsort(-by_atom.data[start:stop], kind="stable")[:_N_OF_AN_ATOM]
        users.append(by_atom.indices[start:stop][order].astype(np.intp))
    return users


def choose(groups: Iterable[Iterable[Rows]], n_samples: int) -> Rows:
    """Return different rows, as many as there may be: the first of each list, the second of each, and so on."""
    chosen: dict[int, None] = {}
    for lists in groups:
        for row in _take_turns(lists):
            if len(chosen) >= n_samples:
                return np.array(list(chosen), np.intp)
            chosen[row] = None
    return np.array(list(chosen), np.intp)


def _take_turns(lists: Iterable[Rows]) -> Iterator[int]:
    for turn in zip_longest(*(rows.tolist() for rows in lists)):
        yield from (row for row in turn if row is not None)
