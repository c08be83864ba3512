"""The dictionary updates that go by a name."""

from __future__ import annotations

from ..strategies import resolve
from .fixed_codes import AtomUpdate, BlockCoordinateUpdate, MODUpdate
from .interface import DictionaryUpdate
from .ksvd import ExactKSVDUpdate, KSVDUpdate, WeightedKSVDUpdate

DICTIONARY_UPDATES: dict[str, type[DictionaryUpdate]] = {
    "ksvd": KSVDUpdate,
    "exact_ksvd": ExactKSVDUpdate,
    "weighted_ksvd": WeightedKSVDUpdate,
    "atom": AtomUpdate,
    "block_coordinate": BlockCoordinateUpdate,
    "mod": MODUpdate,
}


def resolve_dictionary_update(update: str | DictionaryUpdate) -> DictionaryUpdate:
    """Return the update registered under a name, or the object itself.

    Examples
    --------
    >>> resolve_dictionary_update("atom")
    AtomUpdate()
    """
    return resolve("dictionary update", update, DICTIONARY_UPDATES, DictionaryUpdate)
