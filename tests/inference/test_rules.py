"""The label rules against enumeration of all hypotheses."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import normalise
from ddlearn.inference.rules.rules import (
    TEST_NOISE,
    FastInference,
    FullInference,
    LabelModel,
    TrainingNoise,
    compute_evidence,
    count_errors,
    label_probabilities,
)
from scipy.special import softmax

from ddlearn import (
    LOSSES,
    ORMP,
    discriminative_encode,
    sparse_encode,
)
from ddlearn.coding import encode_rows
from ddlearn.coding.discriminative import ClassifierState

every_loss = pytest.mark.parametrize("loss", [loss_class() for loss_class in LOSSES.values()], ids=list(LOSSES))


@every_loss
def test_evidence_equals_enumeration_of_the_classes(loss):
    rng = np.random.default_rng(0)
    scores, class_cost = rng.standard_normal((50, 6)), rng.uniform(0.3, 2, 6)
    log_p = np.empty_like(scores)
    for j in range(6):
        labels = np.where(np.arange(6) == j, 1, -1)
        log_p[:, j] = -np.sum(loss.value(labels * scores) / class_cost, axis=1)
    expected = np.exp(log_p) / np.exp(log_p).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(softmax(compute_evidence(scores, loss, class_cost), axis=1), expected, rtol=1e-10)


@every_loss
def test_label_probabilities_equal_enumeration_of_each_label(loss):
    rng = np.random.default_rng(0)
    scores, class_cost = rng.standard_normal((50, 6)), rng.uniform(0.3, 2, 6)
    plus, minus = (np.exp(-loss.value(label * scores) / class_cost) for label in (1, -1))
    np.testing.assert_allclose(
        label_probabilities(compute_evidence(scores, loss, class_cost)), plus / (plus + minus), rtol=1e-10
    )


def test_class_costs_can_overrule_scores():
    class_cost = np.array([1.0, 0.1])
    evidence = compute_evidence(np.array([[1.0, 0.5]]), LOSSES["square"](), class_cost)
    assert evidence.argmax() == 1


def test_errors_count_labelled_samples_only():
    labels = np.array([[1.0, -1], [-1, 1], [0, 0]])
    evidence = np.array([[1.0, 0], [1.0, 0], [1.0, 0]])
    assert count_errors(labels, evidence, is_multilabel=False) == (1, 2)
    assert count_errors(labels, evidence - 0.5, is_multilabel=True) == (2, 4)


def make_rule(problem, loss, *, noise="per_sample", n_candidates=None, max_coding_iter=100):
    classifiers = ClassifierState(problem.coef, problem.intercept, problem.class_cost, loss)
    return FullInference(
        LabelModel(
            problem.dictionary,
            problem.dictionary @ problem.dictionary.T,
            classifiers,
            ORMP(),
            problem.n_nonzero_coefs,
            max_coding_iter,
            1e-4,
            TEST_NOISE[noise],
            TrainingNoise(floor=0.01, median=0.3),
            len(problem.coef) if n_candidates is None else n_candidates,
        )
    )


def traditional_codes(X, problem):
    return encode_rows(X, problem.dictionary, ORMP(), problem.n_nonzero_coefs)


def brute_force(X, problem, loss, noise, dictionary=None):
    """Eq. 5 as it is printed: suppose every class of every sample, and code it with the public function."""
    dictionary = problem.dictionary if dictionary is None else dictionary
    n_features = X.shape[1]
    start = sparse_encode(X, dictionary, n_nonzero_coefs=problem.n_nonzero_coefs, method="ormp").toarray()
    residual = np.sum((X - start @ dictionary) ** 2, axis=1)
    variance = np.full(len(X), 0.3) if noise == "shared" else np.maximum(residual / (n_features + 2), 0.01)
    evidence = np.empty((len(X), len(problem.coef)))
    for j in range(len(problem.coef)):
        labels = np.tile(np.where(np.arange(len(problem.coef)) == j, 1.0, -1.0), (len(X), 1))
        codes, _ = discriminative_encode(
            X,
            labels,
            dictionary,
            problem.coef,
            problem.intercept,
            noise_variance=variance,
            class_cost=problem.class_cost,
            loss=loss,
            n_nonzero_coefs=problem.n_nonzero_coefs,
            sparse_coder="ormp",
        )
        x = codes.toarray()
        cost = 2 * np.sum(loss.value(labels * (x @ problem.coef.T + problem.intercept)) / problem.class_cost, axis=1)
        squared = np.sum((X - x @ dictionary) ** 2, axis=1)
        if noise == "profiled":
            profiled = np.maximum(squared / (n_features + 2), 0.01)
            cost += squared / profiled + (n_features + 2) * np.log(profiled)
        else:
            cost += squared / variance
        evidence[:, j] = -cost / 2
    return evidence


@every_loss
@pytest.mark.parametrize("noise", ["per_sample", "shared"])
def test_full_inference_equals_brute_force_over_the_classes(problem, loss, noise):
    everything = np.ones(problem.X.shape, bool)
    evidence = make_rule(problem, loss, noise=noise).weigh(problem.X, everything, traditional_codes(problem.X, problem))
    np.testing.assert_allclose(evidence, brute_force(problem.X, problem, loss, noise), rtol=1e-8)


@every_loss
def test_profiled_noise_compares_hypotheses_at_their_own_best_variance(problem, loss):
    everything = np.ones(problem.X.shape, bool)
    codes = traditional_codes(problem.X, problem)
    evidence = make_rule(problem, loss, noise="profiled").weigh(problem.X, everything, codes)
    # A hypothesis whose profiled cost rises while its own objective falls keeps its start.
    at_start = make_rule(problem, loss, noise="profiled", n_candidates=0).weigh(problem.X, everything, codes)
    expected = np.maximum(at_start, brute_force(problem.X, problem, loss, "profiled"))
    np.testing.assert_allclose(evidence, expected, rtol=1e-8)


@every_loss
def test_without_candidates_the_full_rule_is_the_fast_one(problem, loss):
    everything, codes = np.ones(problem.X.shape, bool), traditional_codes(problem.X, problem)
    rule = make_rule(problem, loss, n_candidates=0)
    fast = FastInference(rule.model).weigh(problem.X, everything, codes)
    np.testing.assert_allclose(
        softmax(rule.weigh(problem.X, everything, codes), axis=1), softmax(fast, axis=1), rtol=1e-8
    )


@every_loss
def test_more_candidates_only_raise_evidence_and_the_best_ones_come_first(problem, loss):
    everything, codes = np.ones(problem.X.shape, bool), traditional_codes(problem.X, problem)
    fast = FastInference(make_rule(problem, loss).model).weigh(problem.X, everything, codes)
    order = np.argsort(-fast, axis=1)
    before = make_rule(problem, loss, n_candidates=0).weigh(problem.X, everything, codes)
    for n_candidates in (1, 2, 4):
        evidence = make_rule(problem, loss, n_candidates=n_candidates).weigh(problem.X, everything, codes)
        assert (evidence >= before).all()
        untouched = np.take_along_axis(evidence == before, order, axis=1)
        assert untouched[:, n_candidates:].all()
        before = evidence


def test_rules_agree_when_classes_cost_nothing(problem):
    problem = problem._replace(class_cost=np.full(4, 1e9))
    rule, everything = make_rule(problem, LOSSES["square"]()), np.ones(problem.X.shape, bool)
    codes = traditional_codes(problem.X, problem)
    full, fast = (kind.weigh(problem.X, everything, codes) for kind in (rule, FastInference(rule.model)))
    np.testing.assert_array_equal(full.argmax(axis=1), fast.argmax(axis=1))


@every_loss
def test_features_left_out_are_as_if_they_did_not_exist(problem, loss):
    rng = np.random.default_rng(0)
    is_kept = np.ones(problem.X.shape, bool)
    is_kept[:, rng.choice(20, 6, replace=False)] = False
    shorter = problem.dictionary[:, is_kept[0]]
    codes = encode_rows(problem.X[:, is_kept[0]], np.ascontiguousarray(shorter), ORMP(), problem.n_nonzero_coefs)
    evidence = make_rule(problem, loss).weigh(np.where(is_kept, problem.X, 1e3), is_kept, codes)
    expected = brute_force(problem.X[:, is_kept[0]], problem, loss, "per_sample", np.ascontiguousarray(shorter))
    np.testing.assert_allclose(evidence, expected, rtol=1e-8)


def test_a_hidden_atom_that_one_row_uses_is_not_open_to_the_others(problem):
    dictionary = problem.dictionary.copy()
    dictionary[0] = np.where(np.arange(20) == 19, 1.0, 0.05)
    coef = problem.coef.copy()
    coef[:, 0] *= 20  # worth having, for any hypothesis
    problem = problem._replace(dictionary=normalise(dictionary), coef=coef)
    is_kept = np.tile(np.arange(20) != 19, (len(problem.X), 1))
    shorter = np.ascontiguousarray(problem.dictionary[:, :19])
    codes = encode_rows(problem.X[:, :19], shorter, ORMP(), problem.n_nonzero_coefs)
    uses_it = ((codes.indices == 0) & (codes.values != 0)).any(axis=1)
    codes.indices[0], codes.values[0] = 0, [0.5, 0, 0, 0, 0]
    rule = make_rule(problem, LOSSES["square"]())
    together = rule.weigh(problem.X, is_kept, codes)
    others = np.flatnonzero(~uses_it[1:]) + 1
    alone = rule.weigh(problem.X[others], is_kept[others], codes.rows(others))
    np.testing.assert_allclose(together[others], alone, rtol=1e-8)
