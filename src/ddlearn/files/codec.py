"""Parameters and attributes as JSON, and back.

Numbers, strings, None, lists and tuples are stored as they are, and arrays by reference to the arrays of the file.
Objects of the classes in :func:`list_storable` are stored by name and parameters, which may be such objects again;
scikit-learn's scalers are among them, with what they have learned.
Of any other object only the class and parameters are stored, and the reader of the file has to pass an object of that
class: nothing in a file is ever executed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, clone
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    Normalizer,
    QuantileTransformer,
    RobustScaler,
    StandardScaler,
)

from ..describe.base import Identity
from ..describe.transformer import Transformed
from ..estimators.settings import ROLES
from ..fitting.loop import IterationRecord
from ..model.scales import Priors
from ..refinement.refiner import EpochRecord
from .format import Arrays, Json

# Transformers that are nothing but their parameters, and numbers and arrays that they have learned.
STORABLE_SCALERS: dict[str, type[BaseEstimator]] = {
    cls.__name__: cls
    for cls in (MaxAbsScaler, MinMaxScaler, Normalizer, QuantileTransformer, RobustScaler, StandardScaler)
}
_RECORDS: dict[str, Any] = {cls.__name__: cls for cls in (IterationRecord, EpochRecord)}
_COUNTERS = ("iteration", "epoch")  # fields that number the records of a history
_CSR_PARTS = ("data", "indices", "indptr")
_NUMBERS, _DATES = "biuf", "Mm"  # kinds of dtypes
# All strings of an array take the space of the longest; a few bytes of JSON must not allocate more than this, in one
# array and in the arrays of a file together.
_MOST_STRING_BYTES = 2**26
_MOST_STRING_BYTES_OF_FILE = 2**27


class NotStorable(TypeError):
    """A value that a file cannot hold."""


def list_storable() -> dict[str, type]:
    """Return the classes whose objects a file can hold, by the name under which it stores them."""
    storable: dict[str, Any] = {"transformed": Transformed, "identity": Identity, **STORABLE_SCALERS}
    named = chain.from_iterable((one or {one.base.__name__.lower(): one.base}).items() for one in ROLES.values())
    for name, added in named:  # also those of users
        if storable.setdefault(name, added) is not added:
            raise ValueError(
                f"{name!r} is registered for {storable[name].__name__} and for {added.__name__}, which files could not "
                "tell apart: register one of them under another name"
            )
    return storable


def encode_or_name(name: str, value: Any, arrays: Arrays) -> Json:
    """Return a value as JSON, and if a file cannot hold it, its class and parameters."""
    try:
        return encode(name, value, arrays)
    except NotStorable:
        parameters = None  # of an object that has none, or some that a file cannot hold
        if isinstance(value, BaseEstimator):
            with suppress(NotStorable):
                parameters = _encode_parameters(name, value, encode, arrays)
        return {"type": "named", "class": type(value).__name__, "parameters": parameters}


def encode(name: str, value: Any, arrays: Arrays) -> Json:
    """Return a value as JSON, or raise NotStorable; arrays are added to those of the file, under the name."""
    match value:
        case np.generic():
            return {"type": "scalar", "value": _encode_array(name, np.asarray(value), arrays)}
        case None | bool() | int() | str():
            return value
        case float():
            return encode_float(value)
        case Priors():
            return {"type": "priors"} | {key: np.asarray(one, float).tolist() for key, one in value._asdict().items()}
        case list() if value and type(value[0]) in _RECORDS.values():
            return encode_records(value, type(value[0]))
        case list() | tuple():
            items = [encode(f"{name}.{place}", item, arrays) for place, item in enumerate(value)]
            return items if type(value) is list else {"type": "tuple", "items": items}
        case dict():
            return {"type": "dict", "items": encode(name, [list(pair) for pair in value.items()], arrays)}
        case np.ndarray():
            return _encode_array(name, value, arrays)
        case csr_array():
            parts = {part: _encode_array(f"{name}.{part}", getattr(value, part), arrays) for part in _CSR_PARTS}
            return {"type": "csr", "shape": list(value.shape), **parts}
        case np.random.RandomState():
            return _encode_random_state(value)
    names = [key for key, storable_class in list_storable().items() if type(value) is storable_class]
    if not names:  # or a subclass of a storable class, which may do something else
        raise NotStorable(f"{name}={value!r} is an object of a class that files do not store.")
    _check_parameters(value)
    stored: Json = {"type": "strategy", "name": names[0]}
    stored["parameters"] = _encode_parameters(name, value, encode_or_name, arrays)
    if names[0] in STORABLE_SCALERS:
        learned = {key: inner for key, inner in vars(value).items() if key.endswith("_")}
        stored["learned"] = {key: encode(f"{name}.{key}", inner, arrays) for key, inner in learned.items()}
    return stored


def _check_parameters(value: Any) -> None:
    """Raise if a parameter of an object is invalid, as a fit would."""
    (value._validate_params if type(value) in STORABLE_SCALERS.values() else value.check_parameters)()


def _encode_array(name: str, array: NDArray[Any], arrays: Arrays) -> Json:
    if array.dtype.kind in _NUMBERS and array.dtype.itemsize <= 8:
        arrays[name] = array.astype(array.dtype.newbyteorder("="), copy=False)
        return {"type": "array", "kept": name}
    if array.dtype.kind in _DATES:
        arrays[name] = array.view(np.int64)
        return {"type": "dates", "dtype": array.dtype.str, "kept": name}
    is_text = array.dtype.kind == "U" or (array.dtype == object and all(isinstance(item, str) for item in array.flat))
    if is_text and array.nbytes <= _MOST_STRING_BYTES:
        items = array.ravel().tolist()
        return {"type": "strings", "dtype": array.dtype.str, "shape": list(array.shape), "items": items}
    raise NotStorable(f"{name} is an array of dtype {array.dtype}, which a file cannot hold.")


def _encode_parameters(name: str, value: Any, encode_one: Callable[..., Json], arrays: Arrays) -> Json:
    parameters = value.get_params(deep=False).items()
    return {key: encode_one(f"{name}.{key}", inner, arrays) for key, inner in parameters}


def encode_float(value: float) -> Json:
    """Return a number as JSON, which has no numbers that are not finite."""
    return value if math.isfinite(value) else {"type": "float", "value": str(value)}


def _encode_random_state(rng: np.random.RandomState) -> Json:
    state: Any = rng.get_state(legacy=False)
    if state["bit_generator"] != "MT19937":
        raise NotStorable(f"A RandomState of {state['bit_generator']} cannot be stored: use RandomState(seed).")
    numbers = [state["state"]["key"].tolist(), state["state"]["pos"], state["has_gauss"], state["gauss"]]
    return {"type": "random_state", "state": numbers}


def _decode_random_state(state: Json) -> np.random.RandomState:
    key, position, has_gauss, gauss = state
    if not 0 <= position <= 624:
        raise ValueError(f"a random state is at position {position} of 624")
    rng = np.random.RandomState()
    rng.set_state(("MT19937", np.array(key, np.uint32), position, has_gauss, gauss))
    return rng


def encode_records(records: Sequence[tuple[Any, ...]], record_class: Any) -> Json:
    """Return named tuples of numbers as lists, with the names of the fields once."""
    rows = [list(map(encode_float, record)) for record in records]
    return {"type": "records", "class": record_class.__name__, "fields": record_class._fields, "rows": rows}


def decode_records(stored: Json, record_class: Any) -> list[Any]:
    """Return the named tuples; those of iterations and epochs must be numbered from 0 without gaps."""
    fields = record_class._fields
    if stored["class"] != record_class.__name__ or tuple(stored["fields"]) != fields:
        raise ValueError(f"a {stored['class']} has the fields {stored['fields']}, not a {record_class.__name__}")
    decoder = Decoder({}, {})
    records = [record_class(*decoder.decode("number", row)) for row in stored["rows"]]
    if not all(type(value) in (int, float, bool) for record in records for value in record):
        raise TypeError(f"a {record_class.__name__} holds a value that is not a number")
    if fields[0] in _COUNTERS and ([record[0] for record in records] != list(range(len(records))) or not records):
        raise ValueError(f"the numbers of the {fields[0]}s have gaps")
    return records


def _decode_priors(stored: Json) -> Priors:
    numbers = {name: np.array(value, np.float64) for name, value in stored.items() if name != "type"}
    fields: Any = {name: value if value.ndim else float(value) for name, value in numbers.items()}
    return Priors(**fields)


def check_priors(priors: Priors, n_classes: int) -> None:
    """Raise unless priors for this number of classes make sense."""
    for name, value in priors._asdict().items():
        shape = (n_classes,) if name in ("class_cost", "ridge") else ()
        if np.shape(value) != shape or not (np.isfinite(value) & (np.asarray(value) >= 0)).all():
            raise ValueError(f"{name} of the priors is {value}")
    if priors.noise_variance == 0:
        raise ValueError("noise_variance of the priors is 0")


class Decoder:
    """Turns JSON back into values: with the arrays of the file, and the objects that its reader passed by name."""

    def __init__(self, arrays: Arrays, passed: Mapping[str, Any]):
        self.arrays = arrays
        self.passed = passed
        self.used: set[str] = set()
        self.n_string_bytes = 0

    def decode(self, name: str, stored: Json) -> Any:
        """Return the value of the parameter or attribute of that name."""
        if isinstance(stored, list):
            return [self.decode(name, item) for item in stored]
        if not isinstance(stored, dict):
            return stored
        match stored.get("type"):
            case "scalar":
                return self.decode(name, stored["value"])[()]
            case "float":
                return float(stored["value"])
            case "tuple":
                return tuple(self.decode(name, stored["items"]))
            case "dict":
                return dict(self.decode(name, stored["items"]))
            case "array":
                return self.arrays[stored["kept"]]
            case "dates":
                return self.arrays[stored["kept"]].view(_make_dtype(stored["dtype"], _DATES))
            case "strings":
                return self._decode_strings(stored)
            case "csr":
                return self._decode_csr(name, stored)
            case "random_state":
                return _decode_random_state(stored["state"])
            case "priors":
                return _decode_priors(stored)
            case "records":
                return decode_records(stored, _RECORDS[stored["class"]])
            case "strategy":
                return self._decode_strategy(name, stored)
            case "named":
                return self._take_passed(name, stored)
        raise ValueError(f"{name} is stored as {stored.get('type')!r}, which is not known")

    def _decode_strings(self, stored: Json) -> NDArray[Any]:
        items, dtype = stored["items"], _make_dtype(stored["dtype"], "UO")
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise TypeError("an array of strings holds a value that is not a string")
        n_bytes = dtype.itemsize * len(items)
        self.n_string_bytes += n_bytes
        if n_bytes > _MOST_STRING_BYTES or self.n_string_bytes > _MOST_STRING_BYTES_OF_FILE:
            raise ValueError(f"{len(items)} strings of type {dtype} are too large")
        strings = np.array(items, dtype)
        if strings.tolist() != items:
            raise ValueError(f"there are strings that are too long for the type {dtype}")
        return strings.reshape(stored["shape"])

    def _decode_csr(self, name: str, stored: Json) -> csr_array:
        data, indices, indptr = (self.decode(name, stored[part]) for part in _CSR_PARTS)
        if not indices.dtype.kind == indptr.dtype.kind == "i" or len(indices) != len(data):
            raise ValueError(f"the arrays of {name} are not those of a sparse matrix")
        matrix = csr_array((data, indices, indptr), shape=stored["shape"])
        matrix.check_format(full_check=True)
        return matrix

    def _decode_strategy(self, name: str, stored: Json) -> Any:
        storable = list_storable()
        if stored["name"] not in storable:
            raise ValueError(
                f"its {name} is of a class registered as {stored['name']!r}, which is not registered here: add the "
                "class to its registry under that name"
            )
        strategy = storable[stored["name"]](**self._decode_parameters(name, stored))
        _check_parameters(strategy)
        for key, value in stored.get("learned", {}).items():
            if stored["name"] not in STORABLE_SCALERS or not key.endswith("_"):
                raise ValueError(f"its {name}, {stored['name']!r}, cannot have learned {key}")
            setattr(strategy, key, self.decode(f"{name}.{key}", value))
        return strategy

    def _decode_parameters(self, name: str, stored: Json) -> dict[str, Any]:
        return {key: self.decode(f"{name}__{key}", value) for key, value in stored["parameters"].items()}

    def _take_passed(self, name: str, stored: Json) -> Any:
        """Return the object that was passed for one that the file only names, with the parameters it had."""
        name = name.removesuffix("_")  # the attribute loss_ comes from the parameter loss
        self.used.add(name)
        if name not in self.passed:
            raise ValueError(
                f"its {name} is an object of the class {stored['class']}, which a file cannot hold: "
                f"pass one, load(path, {name}={stored['class']}(...))"
            )
        value = self.passed[name]
        if type(value).__name__ != stored["class"]:
            raise ValueError(f"its {name} is an object of the class {stored['class']}, but {name}={value!r} was passed")
        return (
            value
            if stored["parameters"] is None
            else clone(value, safe=False).set_params(**self._decode_parameters(name, stored))
        )


def _make_dtype(text: str, kinds: str) -> np.dtype:
    dtype = np.dtype(text)
    if dtype.kind not in kinds:
        raise ValueError(f"an array has the dtype {text}")
    return dtype
