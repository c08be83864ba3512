"""The dictionary updates that go by a name."""

from __future__ import annotations

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
    """Return the dictionary update of that registered name, or the object itself.

    Parameters
    ----------
    update : str or DictionaryUpdate
        A key of ``DICTIONARY_UPDATES``, or an object with a method ``update``.

    Returns
    -------
    DictionaryUpdate
        The update object.

    Examples
    --------
    >>> resolve_dictionary_update("atom")
    AtomUpdate()
    """
    if isinstance(update, str):
        if update not in DICTIONARY_UPDATES:
            raise ValueError(
                f"dictionary_update={update!r} is not known; choose one of {sorted(DICTIONARY_UPDATES)} "
                "or pass a DictionaryUpdate object."
            )
        return DICTIONARY_UPDATES[update]()
    if isinstance(update, type) or not callable(getattr(update, "update", None)):
        raise TypeError(
            f"dictionary_update={update!r} cannot serve as a dictionary update: it must be a name from "
            f"{sorted(DICTIONARY_UPDATES)} or an object (not a class) with the method update."
        )
    return update
