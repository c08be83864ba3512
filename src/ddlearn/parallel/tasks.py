"""What the workers of a Dask cluster do: steps on parts, and sums of what these return.

A step changes little of a part.  Beside a settled part only what differs from it is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pickle import PickleBuffer
from typing import Any, NamedTuple

from .parts import fold
from .threads import single_threaded_blas


class Packed:
    """A value that Dask does not look into (it takes tuples for tasks, and text for keys), pickled in one piece.

    Arrays that are sent as buffers of their own arrive at odd addresses.  For unaligned arrays NumPy takes other
    routines, which round differently, so that results would depend on where a value has been.  Unpacked where it is
    used, not by the scheduler on the way.
    """

    def __init__(self, value: Any, data: Any = None):
        self._value = value
        self._data = data

    @property
    def value(self) -> Any:
        """The value."""
        if (data := self._data) is not None:
            from distributed.protocol.pickle import loads

            self._value = loads(data)
            self._data = None
        return self._value

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        from distributed.protocol.pickle import dumps

        data = dumps(self._value) if self._data is None else bytes(self._data)
        return Packed, (None, PickleBuffer(data) if protocol >= 5 else data)

    def __sizeof__(self) -> int:
        from dask.sizeof import sizeof

        return sizeof(self._value if self._data is None else self._data)


class Changes(NamedTuple):
    """What a step has made of a settled part: the fields that it has replaced."""

    fields: dict[str, Any]


class PartAndSummand(NamedTuple):
    """A part together with what it adds to a sum: to extract the part would be one more task."""

    part: Any
    summand: Any


# How an argument is made of the values sent: None for one value as it is, or a class and the layouts of its fields.
Layout = tuple[type, list[Any]] | None


def join(settled: Packed | None, packed: Packed) -> Any:
    """Return a part."""
    part = packed.value.part if isinstance(packed.value, PartAndSummand) else packed.value
    return replace(settled.value, **part.fields) if settled is not None and isinstance(part, Changes) else part


def divide(settled: Packed | None, result: Any) -> Any:
    """Return what must be stored of a result beside the settled part."""
    if settled is None or type(result) is not type(settled.value):
        return result
    values = {field.name: getattr(result, field.name) for field in fields(result) if field.init}
    return Changes({name: new for name, new in values.items() if new is not getattr(settled.value, name)})


def _assemble(layout: Layout, values: Iterator[Packed]) -> Any:
    if layout is None:
        return next(values).value
    kind, layouts = layout
    return kind(*[_assemble(each, values) for each in layouts])


def _run_step(step: Packed, settled: Packed | None, part: Packed, values: Sequence[Packed]) -> Any:
    function, layouts = step.value
    remaining = iter(values)
    with single_threaded_blas():  # as a fit in memory has it, whatever the worker's setting
        return function(join(settled, part), *[_assemble(layout, remaining) for layout in layouts])


def change_part(step: Packed, settled: Packed | None, part: Packed, *values: Packed) -> Packed:
    """Return the part that a step makes of one, or what is stored of it."""
    return Packed(divide(settled, _run_step(step, settled, part, values)))


def look_at_part(step: Packed, settled: Packed | None, part: Packed, *values: Packed) -> Packed:
    """Return what a step finds in a part."""
    return Packed(_run_step(step, settled, part, values))


def change_and_measure(step: Packed, settled: Packed | None, part: Packed, *values: Packed) -> Packed:
    """Return both, of a step that returns a pair."""
    new_part, summand = _run_step(step, settled, part, values)
    return Packed(PartAndSummand(divide(settled, new_part), summand))


def take_summand(packed: Packed) -> Packed:
    """Return the summand alone, which travels."""
    return Packed(packed.value.summand)


def add_results(*results: Packed) -> Packed:
    """Return the sum of some results, from the first to the last."""
    return Packed(fold([result.value for result in results]))


def hand_on(value: Packed) -> Packed:
    """Return a value that all parts share: the task that has it inside."""
    return value
