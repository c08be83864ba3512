"""What the claims on the fit count and compare."""

from __future__ import annotations

import numpy as np
from reproduction.claims_on_fitting import SamePriors, compare_dictionaries, count_iterations
from reproduction.images import load_rows
from reproduction.models import make_classifier


def test_iterations_are_counted_to_where_the_slower_start_is_after_twenty():
    slow, quick = [float(30 - n) for n in range(25)], [float(30 - 3 * n) for n in range(25)]
    result = {"samples": {"objective": quick}, "gaussian": {"objective": slow}}
    assert count_iterations(result, "gaussian") == 20
    assert count_iterations(result, "samples") == 7  # 30 - 3 * 7 = 9 is the first not above 10


def test_dictionaries_are_compared_up_to_order_and_sign():
    atoms = np.eye(4)[:3]
    assert compare_dictionaries(atoms, -atoms[::-1]) == 1
    assert compare_dictionaries(atoms, np.eye(4)[3:]) == 0


def test_both_starts_lower_the_same_objective():
    # Priors depend on the first codes: with its own, a Gaussian start once ended lower and classified worse.
    data = load_rows("digits", 0)

    def fit(**settings):
        model = make_classifier(n_components=20, max_iter=2, random_state=0, **settings)
        return model.fit(data.X_train[:200], data.y_train[:200])

    priors = fit().priors_
    own, same = fit(init="gaussian"), fit(init="gaussian", scales=SamePriors(priors))
    assert own.priors_.noise_variance != priors.noise_variance
    for mine, others in zip(same.priors_, priors, strict=True):
        np.testing.assert_array_equal(mine, others)
