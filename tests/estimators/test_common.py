"""scikit-learn's own checks, with every loss, update, trainer and coder in one of the models."""

from __future__ import annotations

from itertools import chain, cycle, repeat

import pytest
from conftest import make_refiner
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from ddlearn import KSVD, ConjugateScales, DDLClassifier, ElasticNet, MiniBatchDDLClassifier, Robustness
from ddlearn.classifiers import CLASSIFIER_TRAINERS, resolve_trainer
from ddlearn.coding.encoder import SPARSE_CODERS
from ddlearn.dictionary import DICTIONARY_UPDATES
from ddlearn.model.losses import LOSSES

# One iteration: the checks ask for behaviour, not for accuracy.
QUICK = {"max_iter": 1, "random_state": 0}
# Of the first models with an update of their own; their losses and coders come again.
OPTIONS = (
    {"classifier_trainer": "newton", "scales": ConjugateScales("shared"), "description": "standard"},
    {"scales": "jeffreys", "description": None, "robustness": Robustness(missing="mask")},
)


def make_estimators():
    """Yield models that have every loss, update, coder and kind of option between them."""
    yield DDLClassifier(refine=make_refiner(), sparse_coder=ElasticNet(0.1), description="unit", **QUICK)
    pursuits = cycle(sorted(set(SPARSE_CODERS) - {DDLClassifier().sparse_coder}))
    # "auto" chooses all trainers but the general one, which is there for losses of one's own.
    options = chain(OPTIONS, repeat({}))
    for update, loss, coder, others in zip(DICTIONARY_UPDATES, cycle(LOSSES), pursuits, options, strict=False):
        yield DDLClassifier(dictionary_update=update, loss=loss, sparse_coder=coder, refine=None, **others, **QUICK)
    yield DDLClassifier(description=StandardScaler(), refine=None, **QUICK)
    yield MiniBatchDDLClassifier(random_state=0)
    yield MiniBatchDDLClassifier(sparse_coder="ormp", dictionary_update="block_coordinate", random_state=0)
    yield KSVD(**QUICK)


def test_auto_chooses_every_trainer_but_the_general_one():
    chosen = {type(resolve_trainer("auto", loss)) for loss in LOSSES}
    assert chosen == set(CLASSIFIER_TRAINERS.values()) - {CLASSIFIER_TRAINERS["newton"]}


def list_refused(estimator):
    """Return the checks that cannot hold, and why."""
    if isinstance(estimator, KSVD):
        return {}
    # tests/fitting/test_weights.py compares fits from the same atoms
    repeated = "the number of atoms, and which samples are drawn as such, depend on the number of samples"
    return {"check_sample_weight_equivalence_on_dense_data": repeated}


@parametrize_with_checks(list(make_estimators()), expected_failed_checks=list_refused, xfail_strict=True)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.nightly  # each fit searches for settings, which takes most of the time
@parametrize_with_checks([DDLClassifier(random_state=0)], expected_failed_checks=list_refused, xfail_strict=True)
def test_scikit_learn_with_the_defaults(estimator, check):
    check(estimator)
