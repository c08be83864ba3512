"""The label rules against enumeration of all hypotheses."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from conftest import enumerate_supports, every_coding, every_loss, make_pursuit, normalise
from scipy.special import softmax
from sklearn.datasets import load_digits

from ddlearn import ORMP, Descent, ElasticNet, FullInference, PrintedCoding, discriminative_encode, sparse_encode
from ddlearn.coding.discriminative import LABEL_CODINGS, DiscriminativeCoder
from ddlearn.coding.encoder import Encoder
from ddlearn.inference import rules
from ddlearn.inference.rules import FastInference, LabelModel, label_probabilities
from ddlearn.model.codes import Model
from ddlearn.model.losses import LOSSES, compute_evidence
from ddlearn.model.measures import count_errors
from ddlearn.model.scales import Priors


@every_loss
def test_evidence_equals_enumeration_of_the_classes(loss):
    rng = np.random.default_rng(0)
    scores, class_cost = rng.standard_normal((50, 6)), rng.uniform(0.3, 2, 6)
    log_p = np.empty_like(scores)
    for j in range(6):
        labels = np.where(np.arange(6) == j, 1, -1)
        log_p[:, j] = -np.sum(loss.value(labels * scores) / class_cost, axis=1)
    expected = np.exp(log_p) / np.exp(log_p).sum(axis=1, keepdims=True)
    evidence = compute_evidence(scores, loss, class_cost)
    np.testing.assert_allclose(softmax(evidence, axis=1), expected, rtol=1e-10)
    plus, minus = (np.exp(-loss.value(label * scores) / class_cost) for label in (1, -1))  # of each label alone
    np.testing.assert_allclose(label_probabilities(evidence), plus / (plus + minus), rtol=1e-10)


def test_errors_count_labelled_samples_only():
    labels = np.array([[1.0, -1], [-1, 1], [0, 0]])
    evidence = np.array([[1.0, 0], [1.0, 0], [1.0, 0]])
    assert count_errors(labels, evidence, is_multilabel=False) == (1, 2)
    assert count_errors(labels, evidence - 0.5, is_multilabel=True) == (2, 4)


def make_encoder(problem, dictionary=None, sparse_coder=None):
    dictionary = problem.dictionary if dictionary is None else np.ascontiguousarray(dictionary)
    return Encoder.of(dictionary, sparse_coder or ORMP(), problem.n_nonzero_coefs)


PRIORS = Priors.flat(2)._replace(noise_weight=3.0, noise_variance=0.1, noise_floor=0.01)


def estimate_variance(misfit, n_features):
    return np.maximum((misfit + 3.0 * 0.1) / (n_features + 2 + 3.0), 0.01)


def make_model(problem, loss, label_coding=None, sparse_coder=None):
    return LabelModel(problem.make_coder(loss, label_coding, sparse_coder), PRIORS)


def weigh(rule, problem, loss, label_coding=None, sparse_coder=None):
    """Return the evidence of a rule for the samples of a problem."""
    codes = make_encoder(problem, sparse_coder=sparse_coder).encode(problem.X)
    return rule.evidence(make_model(problem, loss, label_coding, sparse_coder), problem.X, codes)


def brute_force(X, problem, loss, dictionary=None, label_coding="descent", sparse_coder=None):
    """Eq. 5 as it is printed: suppose every class of every sample, and code it with the public function."""
    dictionary = problem.dictionary if dictionary is None else dictionary
    coder = sparse_coder or ORMP()
    start = sparse_encode(X, dictionary, n_nonzero_coefs=problem.n_nonzero_coefs, method=coder).toarray()
    residual = np.sum((X - start @ dictionary) ** 2, axis=1)
    misfit = residual + 2 * coder.measure_penalty(start) if coder.has_penalty else residual
    problem = problem._replace(X=X, dictionary=dictionary, noise_variance=estimate_variance(misfit, X.shape[1]))
    evidence = []
    for signs in 2.0 * np.eye(len(problem.coef)) - 1:
        supposed = problem._replace(labels=np.tile(signs, (len(X), 1)))
        codes, _ = discriminative_encode(
            **supposed.arguments(), loss=loss, sparse_coder=coder, label_coding=label_coding
        )
        evidence.append(-supposed.objectives(loss, codes.toarray(), coder) / 2)
    return np.transpose(evidence)


@every_loss
@every_coding
@pytest.mark.parametrize("coder", [ORMP(), ElasticNet(0.15, tol=1e-10)], ids=repr)
def test_full_inference_equals_coding_with_every_label_in_turn(problem, loss, coding, coder):
    # The descent gives up hypotheses that will not become the best of their sample.
    problem = problem._replace(n_nonzero_coefs=30) if coder.has_penalty else problem
    evidence = weigh(FullInference(), problem, loss, LABEL_CODINGS[coding](), coder)
    expected = brute_force(problem.X, problem, loss, label_coding=coding, sparse_coder=coder)
    if coding == "printed":
        np.testing.assert_allclose(evidence, expected, rtol=1e-8)
    else:
        assert (evidence <= expected + 1e-8 * np.abs(expected)).all()
        best, expected_best = evidence.max(axis=1), expected.max(axis=1)
        assert np.mean(best >= expected_best + 1e-6 * expected_best) >= 0.98


@every_loss
def test_without_candidates_the_full_rule_is_the_fast_one(problem, loss):
    full, fast = (softmax(weigh(rule, problem, loss), axis=1) for rule in (FullInference(0), FastInference()))
    np.testing.assert_allclose(full, fast, rtol=1e-8)


@every_loss
@every_coding
def test_no_hypothesis_costs_more_than_its_start_and_the_best_are_the_candidates(problem, loss, coding):
    order = np.argsort(-weigh(FastInference(), problem, loss), axis=1)
    start = before = weigh(FullInference(0), problem, loss)
    for n_candidates in (1, 2, 4):
        evidence = weigh(FullInference(n_candidates), problem, loss, LABEL_CODINGS[coding]())
        assert (evidence >= before).all()
        before = evidence if coding == "printed" else start  # the descent gives up hypotheses when it compares more
        untouched = np.take_along_axis(evidence == start, order, axis=1)
        assert untouched[:, n_candidates:].all()
        assert not untouched[:, :n_candidates].all()


@every_loss
@every_coding
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_evidence_does_not_depend_on_the_other_samples_to_the_last_bit(problem, loss, coding, dtype, monkeypatch):
    problem = problem.astype(dtype)
    expected = weigh(FullInference(), problem, loss, LABEL_CODINGS[coding]())
    for at_once in (4, 28):  # hypotheses: of one sample, of seven
        monkeypatch.setattr(rules, "_HYPOTHESES_AT_ONCE", at_once)
        np.testing.assert_array_equal(weigh(FullInference(), problem, loss, LABEL_CODINGS[coding]()), expected)


@every_loss
def test_other_names_of_the_classes_change_nothing(problem, loss):
    order = np.array([2, 0, 3, 1])
    renamed = problem._replace(
        coef=problem.coef[order], intercept=problem.intercept[order], class_cost=problem.class_cost[order]
    )
    evidence, expected = weigh(FullInference(), renamed, loss), weigh(FullInference(), problem, loss)[:, order]
    np.testing.assert_allclose(evidence, expected, rtol=1e-6)


@cache
def compare_with_enumeration(loss_name):
    """Return F of every hypothesis about some digits by the full rule, and the least F over all supports."""
    loss, (X, y) = LOSSES[loss_name](), load_digits(return_X_y=True)
    X = normalise(X)
    model = make_pursuit(20, n_nonzero_coefs=2, loss=loss, max_iter=8, refine=None, random_state=0)
    model.set_params(inference="full").fit(X[:800], y[:800])
    new = X[1000:1070]
    fitted = Model(model.components_, model.coef_, model.intercept_, model.class_cost_)
    coder = DiscriminativeCoder(Encoder.of(model.components_, ORMP(), 2), fitted, loss, Descent())
    misfit = np.sum((new - model.inverse_transform(model.transform(new))) ** 2, axis=1)
    variance = model.priors_.estimate_noise(misfit, 64)
    labels = 2 * np.eye(10) - 1
    least = [enumerate_supports(coder, new, np.tile(row, (len(new), 1)), variance) for row in labels]
    return -2 * model.decision_function(new), np.transpose(least)


@pytest.mark.parametrize("loss", LOSSES)
def test_the_full_rule_agrees_with_the_enumeration_of_all_supports(loss):
    found, least = compare_with_enumeration(loss)
    assert (found >= least * (1 - 1e-8)).all()
    assert np.mean(found.argmin(axis=1) == least.argmin(axis=1)) >= 0.97
    assert (found - least).mean() <= 0.05 * least.mean()
    best, least_best = found.min(axis=1), least.min(axis=1)
    assert (best - least_best).mean() <= 0.03 * least_best.mean()


def test_rules_agree_when_classes_cost_nothing(problem):
    problem = problem._replace(class_cost=np.full(4, 1e9))
    full, fast = (weigh(rule, problem, LOSSES["square"]()) for rule in (FullInference(), FastInference()))
    np.testing.assert_array_equal(full.argmax(axis=1), fast.argmax(axis=1))


@every_loss
def test_features_left_out_are_as_if_they_did_not_exist(problem, loss):
    rng = np.random.default_rng(0)
    is_kept = np.ones(problem.X.shape, bool)
    is_kept[:, rng.choice(20, 6, replace=False)] = False
    shorter = np.ascontiguousarray(problem.dictionary[:, is_kept[0]])
    samples = np.ascontiguousarray(problem.X[:, is_kept[0]])
    codes = make_encoder(problem, shorter).encode(samples)
    model = make_model(problem, loss, PrintedCoding())  # which does not compare hypotheses
    evidence = FullInference().evidence(model, np.where(is_kept, problem.X, 1e3), codes, is_kept)
    expected = brute_force(samples, problem, loss, shorter, "printed")
    np.testing.assert_allclose(evidence, expected, rtol=1e-8)


def test_codes_with_more_atoms_than_features_use_the_atoms_of_the_features_that_are_kept(problem):
    # An elastic net then solves in terms of features, whose products must be the Gram matrix.
    is_kept = np.tile(np.arange(20) < 12, (len(problem.X), 1))
    loss, coder = LOSSES["square"](), ElasticNet(1e-3, l1_ratio=0.02)
    problem = problem._replace(n_nonzero_coefs=30)
    some = problem._replace(X=problem.X[:, :12].copy(), dictionary=problem.dictionary[:, :12].copy())
    codes = Encoder.of(some.dictionary, coder, 30).encode(some.X)
    assert np.count_nonzero(codes.values, axis=1).max() > 20
    evidence, expected = (
        FullInference().evidence(LabelModel(each.make_coder(loss, sparse_coder=coder), PRIORS), each.X, codes, kept)
        for each, kept in ((problem, is_kept), (some, None))
    )
    np.testing.assert_allclose(evidence, expected, rtol=1e-3)


def test_a_hidden_atom_that_one_row_uses_is_not_open_to_the_others(problem):
    dictionary = problem.dictionary.copy()
    dictionary[0] = np.where(np.arange(20) == 19, 1.0, 0.05)
    coef = problem.coef.copy()
    coef[:, 0] *= 20  # worth having, for any hypothesis
    problem = problem._replace(dictionary=normalise(dictionary), coef=coef)
    is_kept = np.tile(np.arange(20) != 19, (len(problem.X), 1))
    codes = make_encoder(problem, problem.dictionary[:, :19]).encode(np.ascontiguousarray(problem.X[:, :19]))
    uses_it = ((codes.indices == 0) & (codes.values != 0)).any(axis=1)
    codes.indices[0], codes.values[0] = 0, [0.5, 0, 0, 0, 0]
    model = make_model(problem, LOSSES["square"]())
    together = FullInference().evidence(model, problem.X, codes, is_kept)
    others = np.flatnonzero(~uses_it[1:]) + 1
    alone = FullInference().evidence(model, problem.X[others], codes.rows(others), is_kept[others])
    np.testing.assert_allclose(together[others], alone, rtol=1e-8)
