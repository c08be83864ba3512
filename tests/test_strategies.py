"""What all strategies share: names and objects, and numbers among parameters."""

from __future__ import annotations

from numbers import Integral, Real

import pytest

from ddlearn.strategies import check_number, resolve


class Base:
    flag = False
    _private = None

    def work(self):
        """Do nothing."""


class Plain(Base):
    pass


REGISTRY = {"plain": Plain, "other": Base}


@pytest.mark.parametrize(("value", "kind"), [(0, Integral), (3, Integral), (0.5, Real), (2, Real)])
def test_numbers_of_at_least_zero_pass(value, kind):
    check_number("name", value, kind)


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (-1, Real),
        (float("nan"), Real),
        (float("inf"), Real),
        (True, Integral),
        (1.5, Integral),
        ("1", Real),
        (None, Real),
    ],
)
def test_others_are_refused_by_name_and_value(value, kind):
    with pytest.raises(ValueError, match=f"name must be an? .* of at least 0, got {value!r}"):
        check_number("name", value, kind)


def test_a_name_gives_a_new_object_of_its_class():
    one, other = (resolve("thing", "plain", REGISTRY, Base) for _ in range(2))
    assert type(one) is type(other) is Plain
    assert one is not other


def test_an_unknown_name_lists_the_known_ones_and_the_closest():
    message = r"^'plane' is not a known thing; choose one of \['other', 'plain'\] or pass an object derived from Base\."
    with pytest.raises(ValueError, match=rf"{message} Did you mean 'plain'\?$"):
        resolve("thing", "plane", REGISTRY, Base)
    with pytest.raises(ValueError, match=r"derived from Base\.$"):
        resolve("thing", "xyz", REGISTRY, Base)


def test_an_object_with_all_that_the_base_class_declares_is_used_as_it_is():
    class Duck:
        flag, work = True, None

    for thing in (Plain(), Duck()):
        assert resolve("thing", thing, REGISTRY, Base) is thing


def test_what_an_object_lacks_is_listed():
    class Half:
        def work(self):
            pass

    with pytest.raises(TypeError, match=r"not a usable thing: it lacks flag; derive from Base, or use one of \['other"):
        resolve("thing", Half(), REGISTRY, Base)
    with pytest.raises(TypeError, match=r"^None is not a usable thing: it lacks flag, work; derive from Base"):
        resolve("thing", None, REGISTRY, Base)


def test_a_class_is_refused():
    with pytest.raises(TypeError, match=r"is not a usable thing, but a class: pass an object, Plain\(\.\.\.\)\.$"):
        resolve("thing", Plain, REGISTRY, Base)
