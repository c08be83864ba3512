"""Parameters and attributes as JSON: what a model file holds of them, and how they come back.

Numbers, strings, None, lists and tuples are stored as they are; arrays go where the writer keeps arrays; strategies
are stored by their registered name and parameters.  Any other object is named only, and whoever reads the file has to
bring it along: nothing in a file is ever executed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import clone

from ..classifiers import CLASSIFIER_TRAINERS
from ..coding import SPARSE_CODERS
from ..coding.alignment import Alignment
from ..coding.errors import ERROR_ROUTES
from ..coding.jitter import Jitter
from ..dictionary import DICTIONARY_UPDATES
from ..fitting.loop import IterationRecord
from ..fitting.refinement import EpochRecord, Refiner
from ..losses import LOSSES

Json = Any
KeepArray = Callable[[str, NDArray[Any]], Json]
Record = TypeVar("Record", IterationRecord, EpochRecord)

REGISTRIES: dict[str, Mapping[str, Any]] = {
    "loss": LOSSES,
    "sparse_coder": SPARSE_CODERS,
    "dictionary_update": DICTIONARY_UPDATES,
    "classifier_trainer": CLASSIFIER_TRAINERS,
    "error_route": ERROR_ROUTES,
    "alignment": {"alignment": Alignment},
    "jitter": {"jitter": Jitter},
    "refine": {"refiner": Refiner},
}
_NUMBERS = "biuf"
_DATES = "Mm"
# Strings in an array all take the room of the longest; a few bytes of JSON must not ask for more than this.
_MOST_STRING_BYTES = 2**28


class NotStorable(TypeError):
    """A value has no place in a file."""


def encode_or_name(name: str, value: Any, keep_array: KeepArray) -> Json:
    """Return a value as JSON, and of an object that cannot be stored its class and parameters.

    Parameters
    ----------
    name : str
        What it is called; arrays are kept under that name.
    value : object
        The value.
    keep_array : callable
        Takes a name and an array of numbers, returns the JSON that stands for it.

    Returns
    -------
    object
        JSON.
    """
    try:
        return encode(name, value, keep_array)
    except NotStorable:
        return {"type": "named", "class": type(value).__name__, "parameters": _encode_parameters(value)}


def encode(name: str, value: Any, keep_array: KeepArray) -> Json:
    """Return a value as JSON.

    Parameters
    ----------
    name : str
        What it is called; arrays are kept under that name.
    value : object
        The value.
    keep_array : callable
        Takes a name and an array of numbers, returns the JSON that stands for it.

    Returns
    -------
    object
        JSON.

    Raises
    ------
    NotStorable
        If it is an object of a class that is not registered, or an array of such objects.
    """
    if isinstance(value, np.generic):
        return {"type": "scalar", "value": _encode_array(name, np.asarray(value), keep_array)}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"type": "float", "value": str(value)}
    if isinstance(value, list) and value and isinstance(value[0], IterationRecord | EpochRecord):
        return encode_history(value)
    if isinstance(value, list | tuple):
        items = [encode(f"{name}.{place}", item, keep_array) for place, item in enumerate(value)]
        return items if type(value) is list else {"type": "tuple", "items": items}
    if isinstance(value, np.ndarray):
        return _encode_array(name, value, keep_array)
    if isinstance(value, csr_array):
        parts = {part: _encode_array(f"{name}.{part}", getattr(value, part), keep_array) for part in _CSR_PARTS}
        return {"type": "csr", "shape": list(value.shape), **parts}
    if isinstance(value, np.random.RandomState):
        return {"type": "random_state", "state": encode_random_state(value)}
    return _encode_strategy(name, value, keep_array)


_CSR_PARTS = ("data", "indices", "indptr")


def _encode_array(name: str, array: NDArray[Any], keep_array: KeepArray) -> Json:
    if array.dtype.kind in _NUMBERS and array.dtype.itemsize <= 8:
        return {"type": "array", "kept": keep_array(name, array.astype(array.dtype.newbyteorder("="), copy=False))}
    if array.dtype.kind in _DATES:
        return {"type": "dates", "dtype": array.dtype.str, "kept": keep_array(name, array.view(np.int64))}
    is_text = array.dtype.kind == "U" or (array.dtype == object and all(isinstance(item, str) for item in array.flat))
    if is_text and array.nbytes <= _MOST_STRING_BYTES:
        return {
            "type": "strings",
            "dtype": array.dtype.str,
            "shape": list(array.shape),
            "items": array.ravel().tolist(),
        }
    raise NotStorable(f"{name} is an array of dtype {array.dtype}, which a file cannot hold.")


def _encode_strategy(name: str, value: Any, keep_array: KeepArray) -> Json:
    for kind, registry in REGISTRIES.items():
        for registered, strategy_class in registry.items():
            if type(value) is strategy_class:  # a subclass may do something else
                parameters = {
                    parameter: encode(f"{name}.{parameter}", inner, keep_array)
                    for parameter, inner in value.get_params(deep=False).items()
                }
                return {"type": "strategy", "kind": kind, "name": registered, "parameters": parameters}
    raise NotStorable(f"{name}={value!r} is not of a registered class.")


def _encode_parameters(value: Any) -> Json:
    """Return the parameters of an object that is only named, None if it has none that can be told."""
    try:
        return {name: encode(name, inner, _no_arrays) for name, inner in value.get_params(deep=False).items()}
    except (AttributeError, TypeError):
        return None


def _no_arrays(name: str, array: NDArray[Any]) -> Json:
    raise NotStorable(f"{name} is an array.")


def encode_random_state(rng: np.random.RandomState) -> Json:
    """Return the state of a random number generator."""
    state: Any = rng.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":
        raise NotStorable(f"A RandomState made of {state['bit_generator']} cannot be stored: make it of a number.")
    return [state["state"]["key"].tolist(), int(state["state"]["pos"]), int(state["has_gauss"]), float(state["gauss"])]


def decode_random_state(state: Json) -> np.random.RandomState:
    """Return a random number generator in that state."""
    key, position, has_gauss, gauss = state
    if not 0 <= position <= 624:
        raise ValueError(f"a random state is at place {position} of 624")
    rng = np.random.RandomState()
    rng.set_state(("MT19937", np.array(key, np.uint32), position, has_gauss, gauss))
    return rng


# What a history may be made of, under the name of the field that numbers the records.
_RECORDS: dict[str, type[IterationRecord] | type[EpochRecord]] = {"iteration": IterationRecord, "epoch": EpochRecord}


def encode_history(history: Sequence[IterationRecord] | Sequence[EpochRecord]) -> Json:
    """Return what the iterations, or epochs, did, one list each."""
    rows = [[encode(name, value, _no_arrays) for name, value in record._asdict().items()] for record in history]
    return {"type": "history", "fields": list(history[0]._fields), "rows": rows}


def decode_history(stored: Json, expected: type[Record] | None = None) -> list[Record]:
    """Return the records of the iterations, or epochs, which must be numbered from 0, and as expected if that is told.

    Parameters
    ----------
    stored : dict
        JSON.
    expected : type or None, default=None
        What the records must be: IterationRecord or EpochRecord.

    Returns
    -------
    list
        The records.
    """
    record_class: Any = _RECORDS.get(stored["fields"][0]) if expected is None else expected
    if record_class is None or tuple(stored["fields"]) != record_class._fields:
        raise ValueError(f"the history has the fields {stored['fields']}")
    decoder = Decoder({}, {})
    history = [record_class(*decoder.decode("history", row)) for row in stored["rows"]]
    if [record[0] for record in history] != list(range(len(history))) or not history:
        raise ValueError("the history has gaps")
    if not all(type(value) in (int, float) for record in history for value in record):
        raise TypeError("the history holds something else than numbers")
    return history


class Decoder:
    """Turns JSON back into values.

    Parameters
    ----------
    arrays : dict of str to ndarray
        The arrays that the JSON refers to.
    brought : dict of str to object
        The objects that a file only names, each under the name of its parameter.
    """

    def __init__(self, arrays: Mapping[str, NDArray[Any]], brought: Mapping[str, Any]):
        self.arrays = arrays
        self.brought = brought
        self.used: set[str] = set()

    def decode(self, name: str, stored: Json) -> Any:
        """Return the value of that parameter."""
        if isinstance(stored, list):
            return [self.decode(name, item) for item in stored]
        if not isinstance(stored, dict):
            return stored
        decoders = {
            "scalar": lambda: self.decode(name, stored["value"])[()],
            "float": lambda: float(stored["value"]),
            "tuple": lambda: tuple(self.decode(name, stored["items"])),
            "array": lambda: self.arrays[stored["kept"]],
            "dates": lambda: self.arrays[stored["kept"]].view(_dtype(stored["dtype"], _DATES)),
            "strings": lambda: self._decode_strings(stored),
            "csr": lambda: self._decode_csr(name, stored),
            "random_state": lambda: decode_random_state(stored["state"]),
            "strategy": lambda: self._decode_strategy(name, stored),
            "history": lambda: decode_history(stored),
            "named": lambda: self._bring(name, stored),
        }
        if stored.get("type") not in decoders:
            raise ValueError(f"{name} is stored as {stored.get('type')!r}, which is not known")
        return decoders[stored["type"]]()

    def _decode_strings(self, stored: Json) -> NDArray[Any]:
        items = stored["items"]
        if not all(isinstance(item, str) for item in items):
            raise TypeError("an array of strings holds something else")
        dtype = _dtype(stored["dtype"], "UO")
        if dtype.itemsize * len(items) > _MOST_STRING_BYTES:
            raise ValueError(f"{len(items)} strings of type {dtype} are too many")
        strings = np.array(items, dtype)
        if strings.tolist() != items:
            raise ValueError(f"there are strings that are too long for the type {dtype}")
        return strings.reshape(stored["shape"])

    def _decode_csr(self, name: str, stored: Json) -> csr_array:
        data, indices, indptr = (self.decode(name, stored[part]) for part in _CSR_PARTS)
        n_rows, n_columns = stored["shape"]
        if not (indices.ndim == indptr.ndim == data.ndim == 1 and indices.dtype.kind == indptr.dtype.kind == "i"):
            raise ValueError(f"the parts of {name} are not those of a sparse matrix")
        if len(indptr) != n_rows + 1 or indptr[0] != 0 or indptr[-1] != len(indices) or (np.diff(indptr) < 0).any():
            raise ValueError(f"the rows of {name} do not begin where they should")
        if len(indices) != len(data) or (indices.size and not 0 <= indices.min() <= indices.max() < n_columns):
            raise ValueError(f"{name} has entries outside of its {n_columns} columns")
        return csr_array((data, indices, indptr), shape=(n_rows, n_columns))

    def _decode_strategy(self, name: str, stored: Json) -> Any:
        registry = REGISTRIES[stored["kind"]]
        if stored["name"] not in registry:
            raise ValueError(
                f"its {name} is the {stored['kind']} registered as {stored['name']!r}, which is not registered here: "
                f"add its class to the registry under that name"
            )
        parameters = {key: self.decode(name, value) for key, value in stored["parameters"].items()}
        strategy = registry[stored["name"]](**parameters)
        getattr(strategy, "check_parameters", lambda: None)()
        return strategy

    def _bring(self, name: str, stored: Json) -> Any:
        """Return the object that was brought along for one that the file only names, with the parameters it had."""
        name = name.removesuffix("_")  # loss_ is made from loss
        self.used.add(name)
        if name not in self.brought:
            raise ValueError(
                f"its {name} is an object of the class {stored['class']}, which a file cannot hold: "
                f"pass one, load(path, {name}={stored['class']}(...))"
            )
        value = self.brought[name]
        if type(value).__name__ != stored["class"]:
            raise ValueError(f"its {name} is an object of the class {stored['class']}, but {name}={value!r} was passed")
        if stored["parameters"] is None:
            return value
        parameters = {key: self.decode(name, inner) for key, inner in stored["parameters"].items()}
        return clone(value, safe=False).set_params(**parameters)


def _dtype(text: str, kinds: str) -> np.dtype:
    dtype = np.dtype(text)
    if dtype.kind not in kinds:
        raise ValueError(f"an array has the dtype {text}")
    return dtype
