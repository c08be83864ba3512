"""Fixed weights are fixed, and chosen without the test set."""

from __future__ import annotations

from reproduction.claims_on_weights import FIXED, choose_by_seed
from reproduction.images import load_rows
from reproduction.models import make_classifier
from reproduction.trials import PAPER, Trial


def test_fixed_weights_are_fixed():
    # Floors far above the scales make every noise variance, and every class cost, the same.
    data = load_rows("digits", 0)
    settings = PAPER | FIXED | {"tol": 0.0, "max_iter": 3, "random_state": 0}
    model = make_classifier(n_components=24, **settings).fit(data.X_train[:200], data.y_train[:200])
    assert len(set(model.noise_variance_)) == 1
    assert len(set(model.class_cost_)) == 1


def make_record(validation, test, **changes):
    trial = Trial("digits", "ddl", {"classification_weight": 1.0}, **changes)
    result = {"validation": {"fast": validation}, "test": {"fast": {"error": test}}}
    return {"parameters": trial._asdict(), "result": result}


def test_test_errors_have_no_say_in_the_choice_of_lambda():
    records = [make_record(0.3, 0.1, seed=0), make_record(0.2, 0.4, seed=0), make_record(0.5, 0.5, seed=1)]
    assert choose_by_seed(records, "fast") == [records[1], records[2]]
