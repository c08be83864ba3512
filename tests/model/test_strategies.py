"""Names and objects, and numbers among parameters."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
import pytest

from ddlearn.model.strategies import Registry, Strategy, check_number


class Base(Strategy):
    flag = False
    _private = None

    def work(self):
        """Do nothing."""


class Plain(Base):
    pass


REGISTRY: Registry[Base] = Registry("thing", Base, {"plain": Plain, "other": Base})


@pytest.mark.parametrize(("value", "kind"), [(0, Integral), (3, Integral), (0.5, Real), (2, Real)])
def test_numbers_of_at_least_zero_pass(value, kind):
    check_number("name", value, kind)


REFUSED = [(-1, Real), (np.nan, Real), (np.inf, Real), (True, Integral), (1.5, Integral), ("1", Real), (None, Real)]


@pytest.mark.parametrize(
    ("value", "kind", "message"),
    [
        *((value, kind, f"of at least 0, got {value!r}") for value, kind in REFUSED),
        # Any integer is below infinity, but to compute with this one raises an OverflowError.
        *((10**400, kind, "is too large") for kind in (Integral, Real)),
    ],
)
def test_others_are_refused_by_name_and_value(value, kind, message):
    with pytest.raises(ValueError, match=f"name must be an? .* {message}"):
        check_number("name", value, kind)


def test_a_name_gives_a_new_object_of_its_class():
    one, other = (REGISTRY.resolve("plain") for _ in range(2))
    assert type(one) is type(other) is Plain
    assert one is not other


def test_an_unknown_name_lists_the_known_ones_and_the_closest():
    message = r"^'plane' is not a known thing; choose one of \['other', 'plain'\] or pass an object derived from Base\."
    with pytest.raises(ValueError, match=rf"{message} Did you mean 'plain'\?$"):
        REGISTRY.resolve("plane")
    with pytest.raises(ValueError, match=r"derived from Base\.$"):
        REGISTRY.resolve("xyz")


def test_an_object_with_all_that_the_base_class_declares_is_used_as_it_is():
    class Duck:
        flag, work, check_parameters = True, None, lambda self: None

    for thing in (Plain(), Duck()):
        assert REGISTRY.resolve(thing) is thing


def test_what_an_object_lacks_is_listed_and_a_class_is_refused():
    class Half:
        def work(self):
            pass

    for value, message in (
        (Half(), r"lacks flag, check_parameters; derive from Base, or use one of \['other"),
        (None, "^None is not a usable thing: it lacks flag, work, check_parameters;"),
        (Plain, r"is not a usable thing, but a class: pass an object, Plain\(\.\.\.\)\.$"),
    ):
        with pytest.raises(TypeError, match=message):
            REGISTRY.resolve(value)
