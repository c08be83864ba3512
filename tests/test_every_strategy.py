"""What holds for every strategy: a new one is tested as soon as it is registered."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from conftest import make_pursuit
from modes import draw_samples
from sklearn.base import clone

from ddlearn.estimators.settings import ROLES
from ddlearn.model.losses import LOSSES

SHORTHANDS = {"refine": [3, "auto"], "robustness": [None, 2, 0.3], "alignment": ["affine"], "jitter": ["elastic"]}
NAMED = [(role, name) for role, registry in ROLES.items() for name in registry]
EVERY = NAMED + [(role, value) for role, values in SHORTHANDS.items() for value in values]
LEARNED, CHECKED_WITH_SAMPLES, FLAGS = (
    {"energy", "mean", "deviation"},
    {"jitter", "image_shape"},
    {"training", "fit_intercept"},
)
PARAMETERS = [
    (role, value, parameter)
    for role, value in EVERY
    for parameter in ROLES[role].resolve(value).get_params()
    if parameter not in LEARNED | CHECKED_WITH_SAMPLES | FLAGS
]
every_strategy = pytest.mark.parametrize(("role", "value"), EVERY)


def test_every_kind_of_strategy_has_names_or_shorthands():
    assert {role for role, registry in ROLES.items() if not registry} == set(SHORTHANDS)


@every_strategy
def test_a_name_or_shorthand_makes_a_new_object_that_is_used_as_it_is(role, value):
    strategy = ROLES[role].resolve(value)
    assert isinstance(strategy, ROLES[role].base)
    assert strategy is not ROLES[role].resolve(value)
    assert ROLES[role].resolve(strategy) is strategy


@every_strategy
def test_copies_are_alike(role, value):
    strategy = ROLES[role].resolve(value)
    for copy in (clone(strategy), pickle.loads(pickle.dumps(strategy))):
        assert type(copy) is type(strategy)
        assert copy.get_params() == strategy.get_params()
        assert repr(copy) == repr(strategy)


@pytest.mark.parametrize(("role", "value", "parameter"), PARAMETERS)
def test_nonsense_is_refused(role, value, parameter):
    strategy = ROLES[role].resolve(value).set_params(**{parameter: "nonsense"})
    with pytest.raises((TypeError, ValueError), match=f"{parameter}|{parameter.replace('_', ' ')}"):
        ROLES[role].resolve(strategy)


@pytest.mark.parametrize("role", ROLES)
def test_what_is_no_strategy_is_refused(role):
    kind, names = ROLES[role].kind, sorted(ROLES[role])
    with pytest.raises(
        (TypeError, ValueError), match=r"nonsens.* is not known|must be .* got 'nonsense'|is not a known"
    ):
        ROLES[role].resolve("nonsense")
    for unusable in (object(), ROLES[role].base):
        with pytest.raises(TypeError, match=f"is not a usable {kind}" if names else f"{kind} must be"):
            ROLES[role].resolve(unusable)


@pytest.mark.parametrize(("role", "name"), NAMED)
def test_float32_stays_float32(role, name):
    X, y = draw_samples()
    others: dict[str, Any] = {"description": {"image_shape": (4, 3)}}.get(role, {})
    if role == "classifier_trainer":
        trainer = ROLES[role].resolve(name)
        others["loss"] = next(loss for loss in LOSSES if trainer.supports(LOSSES.resolve(loss)))
    if role == "error_search":
        role, name = "robustness", ROLES["robustness"].resolve(2).set_params(error_search=name)
    model = make_pursuit(8, max_iter=1, random_state=0, **{role: name}, **others).fit(X.astype(np.float32), y)
    results = model.components_, model.coef_, model.intercept_, model.codes_, model.noise_variance_
    assert {array.dtype for array in results} == {np.dtype(np.float32)}
    assert {model.transform(X32 := X.astype(np.float32)).dtype, model.predict_proba(X32).dtype} == {
        np.dtype(np.float32)
    }
