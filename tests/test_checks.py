"""The conformance checks: what is registered passes, and of what is spoiled they say what is wrong."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from reference import EVERY_LOSS, SquaredHinge

from ddlearn import (
    OMP,
    ORMP,
    AlternatingErrors,
    AtomUpdate,
    ClassifierTrainer,
    DictionaryUpdate,
    ElasticNet,
    Exponential,
    Logistic,
    LogitBoost,
    Newton,
    RowCodes,
    SparseCoder,
    Square,
    check_classifier_trainer,
    check_dictionary_update,
    check_error_search,
    check_loss,
    check_sparse_coder,
)
from ddlearn.classifiers import CLASSIFIER_TRAINERS
from ddlearn.coding.robust import ERROR_SEARCHES
from ddlearn.dictionary import DICTIONARY_UPDATES


def check_with_fault(check, strategy, message):
    with pytest.raises(ValueError, match=rf"^.* is not a usable [a-z ]+:\n(- .*\n)*- .*{message}"):
        check(strategy)


def spoil(base, **attributes):
    """Return a strategy that differs from one that is right by these attributes."""
    return type(base.__name__, (base,), attributes)()


# -- copies, and the report --------------------------------------------------------------------------------------------


def test_a_copy_must_do_the_same():
    loss = spoil(Logistic, factor=1, value=lambda self, margin: self.factor * Logistic().value(margin))
    loss.factor = 2  # which is no parameter of the constructor
    loss.gradient, loss.curvature = (lambda margin, of=of: 2 * of(margin) for of in (loss.gradient, loss.curvature))
    check_with_fault(check_loss, loss, "its result changes when it is cloned: set all state from the constructor")


CHECKS = {  # with a strategy that is right, by what messages call it
    "loss": (check_loss, SquaredHinge, "Loss"),
    "sparse coder": (check_sparse_coder, OMP, "SparseCoder"),
    "dictionary update": (check_dictionary_update, AtomUpdate, "DictionaryUpdate"),
    "classifier trainer": (partial(check_classifier_trainer, loss="logistic"), LogitBoost, "ClassifierTrainer"),
    "error search": (check_error_search, AlternatingErrors, "ErrorSearch"),
}


@pytest.mark.parametrize("kind", CHECKS)
def test_every_check_pickles(kind):
    check, base, name = CHECKS[kind]
    # Pickle does not find a class that is in no module.
    check_with_fault(check, spoil(base), f"it cannot be pickled .*; derive from {name} and define the class in a")


@pytest.mark.parametrize("kind", CHECKS)
def test_what_is_no_strategy_is_refused_first(kind):
    check, *_ = CHECKS[kind]
    with pytest.raises(ValueError, match=f"'nonsense' is not a known {kind}; choose one of"):
        check("nonsense")
    with pytest.raises(TypeError, match=f"3 is not a usable {kind}: it lacks .*; derive from"):
        check(3)


def test_a_report_has_one_line_per_problem():
    with pytest.raises(ValueError, match="not a usable") as report:
        check_loss(spoil(SquaredHinge, gradient=lambda self, margin: -np.maximum(1 - margin, 0)))
    heading, *lines = str(report.value).splitlines()
    assert heading == "SquaredHinge() is not a usable loss:"
    assert len(lines) == len(set(lines)) == 3  # two derivatives, and pickle
    assert all(line.startswith("- ") and line.endswith(".") for line in lines)


# -- losses ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loss", EVERY_LOSS, ids=repr)
def test_losses_pass(loss):
    check_loss(loss)


FAULTS_OF_LOSSES = {
    "gradient is not the derivative of value": spoil(
        SquaredHinge, gradient=lambda self, margin: -np.maximum(1 - margin, 0)
    ),
    "curvature is not the derivative of gradient": spoil(
        SquaredHinge, curvature=lambda self, margin: (margin < 1).astype(margin.dtype)
    ),
    "not convex": spoil(
        Square,
        is_quadratic=False,
        value=lambda self, margin: 1e9 - (1 - margin) ** 2,
        gradient=lambda self, margin: 2 * (1 - margin),
        curvature=lambda self, margin: np.full_like(margin, -2),
    ),
    "value of float32 margins up to 1000 holds NaN or infinity": spoil(
        Exponential, value=lambda self, margin: np.exp(-margin)
    ),
    "curvature of float32 .* must have the dtype float32, got float64; keep the dtype": spoil(
        SquaredHinge, curvature=lambda self, margin: 2.0 * (margin < 1)
    ),
    "value changes its argument margin in place; work on a copy": spoil(
        SquaredHinge, value=lambda self, margin: np.minimum(np.subtract(margin, 1, out=margin), 0) ** 2
    ),
    r"value .* must be an array of shape \(162, 4\), got \(\)": spoil(
        SquaredHinge, value=lambda self, margin: SquaredHinge().value(margin).sum()
    ),
    "not element-wise": spoil(SquaredHinge, value=lambda self, margin: SquaredHinge().value(margin) / margin.size),
    "is_quadratic": spoil(Logistic, is_quadratic=True),
    "value is negative": spoil(Square, value=lambda self, margin: (1 - margin) ** 2 - 1),
    "surrogate_curvature is below curvature": spoil(
        Logistic, surrogate_curvature=lambda self, margin: self.curvature(margin) / 2
    ),
}


@pytest.mark.parametrize("message", FAULTS_OF_LOSSES)
def test_faults_of_losses_are_named(message):
    check_with_fault(check_loss, FAULTS_OF_LOSSES[message], message)


# -- sparse coders -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "coder",
    [
        OMP(),
        ORMP(),
        OMP(tol=0.1),
        ElasticNet(),
        ElasticNet(0.1),
        ElasticNet(0.1, l1_ratio=1.0),
        ElasticNet(0.1, positive=True),
    ],
    ids=repr,
)
def test_coders_pass(coder):
    check_sparse_coder(coder)


def scale_values(codes, factor):
    return RowCodes(codes.indices, factor * codes.values)


def put(array, place, value):
    array[place] = value
    return array


def has_negative_weights(problem):
    return (problem.weight < 0).any()


# What is returned in place of right codes.
FAULTS_OF_CODERS = {
    "atoms ascending": lambda codes, problem: RowCodes(codes.indices[:, ::-1], codes.values[:, ::-1]),
    "indices of codes must have the dtype int32, got int64": (
        lambda codes, problem: RowCodes(codes.indices.astype(np.int64), codes.values)
    ),
    "costs more than the zero code": lambda codes, problem: scale_values(codes, 10),
    "changes with the other rows": lambda codes, problem: scale_values(codes, 1 + 0.01 * (len(codes.values) > 1)),
    "solve changes its argument correlations in place": (
        lambda codes, problem: (put(problem.correlations, ..., 0), codes)[1]
    ),
    r"indices of codes must be an array of shape \(7, 4\), got \(7, 1\)": (
        lambda codes, problem: RowCodes(codes.indices[:, :1], codes.values[:, :1])
    ),
    "codes use atoms outside 0 to 11": lambda codes, problem: RowCodes(
        put(codes.indices, np.s_[:, -1], 99), codes.values
    ),
    "a zero sample that no class pulls on must get a zero code": (
        lambda codes, problem: RowCodes(codes.indices, put(codes.values, (0, 0), 1e-9))
    ),
    "with negative weights, values of codes holds NaN or infinity": (
        lambda codes, problem: scale_values(codes, np.nan if has_negative_weights(problem) else 1)
    ),
    "with negative weights, a code costs more than the zero code": (
        lambda codes, problem: scale_values(codes, 10 if has_negative_weights(problem) else 1)
    ),
}


class Spoiling(SparseCoder):
    def __init__(self, fault):
        self.fault = fault

    def solve(self, problem):
        return self.fault(OMP().solve(problem._replace(energies=None)), problem)


@pytest.mark.parametrize("message", FAULTS_OF_CODERS)
def test_faults_of_coders_are_named(message):
    check_with_fault(check_sparse_coder, Spoiling(FAULTS_OF_CODERS[message]), message)


def solve_with_directions(change):
    """Return the method of a coder that changes the directions of rows before it takes them into account."""
    return lambda self, problem: OMP().solve(
        problem._replace(directions=np.ascontiguousarray(change(problem.directions)))
    )


def spoil_net(change, method="measure_penalty"):
    """Return an elastic net of which a method returns something else."""
    return spoil(ElasticNet, **{method: lambda self, given: change(getattr(ElasticNet, method)(self, given), given)})


@pytest.mark.parametrize(
    ("coder", "message"),
    [
        (spoil_net(lambda penalty, values: penalty + 1), "must be 0 for zero codes"),
        (
            spoil_net(lambda penalty, values: penalty.sum()),
            r"measure_penalty must be an array of shape \(7,\), got \(\)",
        ),
        (spoil_net(lambda penalty, values: -penalty), "never negative"),
        (
            spoil_net(lambda codes, problem: scale_values(codes, 1 if problem.start is None else 3), "solve"),
            "codes that it starts from get worse",
        ),
        (spoil(OMP, is_adapted=False, adapt=lambda self, *_: self), "adapt must return a coder that is_adapted"),
        (
            spoil(OMP, measure_penalty=lambda self, values: np.abs(values).sum(axis=1)),
            "measure_penalty is not 0, but has_penalty is not set",
        ),
        *(
            (spoil(OMP, solve=solve_with_directions(change)), "with directions, codes differ from those for gram - B'B")
            for change in (lambda directions: directions[:, :0], lambda directions: directions[::-1])
        ),
    ],
)
def test_faults_of_what_a_coder_declares_are_named(coder, message):
    check_with_fault(check_sparse_coder, coder, message)


# -- dictionary updates ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DICTIONARY_UPDATES)
def test_updates_pass(name):
    check_dictionary_update(name)


def draw_atoms(like):
    atoms = np.random.default_rng().standard_normal(like.shape)  # on purpose without a seed
    return (atoms / np.linalg.norm(atoms, axis=1, keepdims=True)).astype(like.dtype)


# What is returned in place of the right result, from that, the given codes and the given dictionary.
FAULTS_OF_UPDATES = {
    "unit norm": lambda updated, codes, given: updated._replace(dictionary=2 * updated.dictionary),
    "weighted error rises": lambda updated, codes, given: updated._replace(dictionary=np.roll(given, 1, axis=0)),
    "updates_codes is not set": lambda updated, codes, given: updated._replace(codes=scale_values(codes, 2)),
    "support of the codes changed": (
        lambda updated, codes, given: updated._replace(codes=RowCodes(0 * codes.indices, 0 * codes.values))
    ),
    "dictionary must have the dtype float64, got float16; keep the dtype": (
        lambda updated, codes, given: updated._replace(dictionary=updated.dictionary.astype(np.float16))
    ),
    "must return an UpdatedDictionary": lambda updated, codes, given: updated[:2],
    "changes its argument dictionary in place": (lambda updated, codes, given: (put(given, ..., -given), updated)[1]),
    "two calls with the same arguments": (lambda updated, codes, given: updated._replace(dictionary=draw_atoms(given))),
}


class Spoiled(DictionaryUpdate):
    is_monotone = True

    def __init__(self, fault):
        self.fault = fault

    def update(self, X, codes, dictionary, precision, *, n_jobs=None):
        return self.fault(AtomUpdate().update(X, codes, dictionary, precision), codes, dictionary)


def test_an_additive_update_needs_the_methods_of_one():
    update = type("Flagged", (Spoiled,), {"is_additive": True})(None)
    with pytest.raises(TypeError, match="it lacks statistics, update_from, replace_unused; derive from AdditiveUpdate"):
        check_dictionary_update(update)


@pytest.mark.parametrize("message", FAULTS_OF_UPDATES)
def test_faults_of_updates_are_named(message):
    check_with_fault(check_dictionary_update, Spoiled(FAULTS_OF_UPDATES[message]), message)


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (
            spoil(AtomUpdate, statistics=lambda self, X, *_, n_jobs: AtomUpdate().statistics(X - X.mean(axis=0), *_)),
            "statistics do not add: two parts give another dictionary",
        ),
        (
            spoil(
                AtomUpdate,
                update=lambda self, X, codes, *_, n_jobs=None: (
                    AtomUpdate().update(X[:40], codes.rows(slice(40)), *_)._replace(codes=codes)
                ),
            ),
            "update_from gives another dictionary than update",
        ),
    ],
)
def test_updates_that_are_not_as_additive_as_they_declare_are_found(update, message):
    check_with_fault(check_dictionary_update, update, message)


# -- classifier trainers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trainer", CLASSIFIER_TRAINERS)
def test_trainers_pass(trainer):
    check_classifier_trainer(trainer)


def test_a_trainer_passes_with_a_loss_of_the_users_own():
    check_classifier_trainer("newton", SquaredHinge())


# What is returned in place of the right classifiers, from these and those to start from.
FAULTS_OF_TRAINERS = {
    "coef must have the dtype float32, got float64": lambda coef, intercept, *start: (coef.astype(float), intercept),
    "raises the penalised cost": lambda coef, intercept, *start: (100 * coef, intercept),
    "train changes its argument coef in place": (lambda coef, intercept, start, _: (put(start, ..., coef), intercept)),
    "no sample uses": lambda coef, intercept, *start: (put(coef, np.s_[:, -1], 1), intercept),
    "flipped": lambda coef, intercept, *start: (put(coef, np.s_[:, 0], coef[:, 0] + 1e-3), intercept),
    r"coef must be an array of shape \(3, 7\), got \(3, 6\)": lambda coef, intercept, *start: (coef[:, :-1], intercept),
    "does not lower the cost": (lambda coef, intercept, *start: (start[0] * (np.arange(7) < 6), start[1].copy())),
    "with fit_intercept=False it must return the intercepts as they were": (
        lambda coef, intercept, *start: (coef, intercept + 1e-3)
    ),
    "its classifiers must follow the order of the classes": (
        lambda coef, intercept, *start: (put(coef, 0, (1 - 1e-3) * coef[0]), intercept)
    ),
    "separable classes become infinite": lambda coef, intercept, start, _: (
        (np.full_like(coef, np.nan) if start.any() and not start[:, 3:].any() else coef),
        intercept,
    ),
}


class Careless(Newton):
    """Trains, then spoils the result."""

    is_additive = False

    def __init__(self, fault=None, *, fit_intercept=True):
        super().__init__(fit_intercept=fit_intercept)
        self.fault = fault

    def train(self, codes, labels, loss, coef, intercept, **options):
        if not np.isfinite(coef).all():
            return coef, intercept
        return self.fault(*super().train(codes, labels, loss, coef, intercept, **options), coef, intercept)


@pytest.mark.parametrize("message", FAULTS_OF_TRAINERS)
def test_faults_of_trainers_are_named(message):
    trainer = Careless(FAULTS_OF_TRAINERS[message])
    check_with_fault(lambda trainer: check_classifier_trainer(trainer, "logistic"), trainer, message)


def test_the_check_asks_for_a_loss_where_it_knows_none():
    class Picky(ClassifierTrainer):
        def supports(self, loss):
            return isinstance(loss, SquaredHinge)

    with pytest.raises(ValueError, match="pass check_classifier_trainer a loss"):
        check_classifier_trainer(Picky())


class WeighsByOthers(LogitBoost):
    """Looks at other samples for the weight of one, and stops before that makes no difference any more."""

    def sample_weights(self, gradient, curvature):
        return np.full_like(curvature, curvature.mean())


def test_a_trainer_that_is_not_as_additive_as_it_says_is_found_out():
    words = r"train_on gives other classifiers for two halves .* \(with Logistic\(\)\)"
    check_with_fault(lambda trainer: check_classifier_trainer(trainer, "logistic"), WeighsByOthers(max_rounds=2), words)


# -- error searches ----------------------------------------------------------------------------------------------------


def find_all(coder, samples, is_known, *arguments):
    """Call everything wrong, missing or not."""
    return *AlternatingErrors().find(coder, samples, is_known, *arguments)[:2], np.ones_like(is_known)


def find_in_missing(coder, samples, is_known, *arguments):
    """Look at features that are missing, and leave a mark."""
    found = AlternatingErrors().find(coder, samples, np.ones_like(is_known), *arguments)
    is_known[:] = True
    return found


def find_flat(*arguments):
    fit, is_kept, is_wrong = AlternatingErrors().find(*arguments)
    return fit, is_kept, is_wrong.ravel()


def find_if_missing_are_large(coder, samples, is_known, *arguments):
    """Call the first known feature wrong if a missing one is large."""
    is_wrong = np.zeros_like(is_known)
    is_wrong[1, np.argmax(is_known[1])] = np.abs(samples).max() > 100
    return *AlternatingErrors().find(coder, samples, is_known, *arguments)[:2], is_wrong


@pytest.mark.parametrize("name", ERROR_SEARCHES)
def test_searches_pass(name):
    check_error_search(name)


@pytest.mark.parametrize(
    ("find", "message"),
    [
        (find_all, "calls more features wrong than the budget"),
        (find_all, "it uses a missing feature, or calls one wrong"),
        (find_in_missing, "find changes its argument is_known in place"),
        (find_in_missing, "must get the code that the coder gives it"),
        (find_flat, r"is_wrong must be an array of shape \(8, 60\), got \(480,\)"),
        (find_if_missing_are_large, "its result depends on the values of missing features"),
    ],
)
def test_faults_of_searches_are_named(find, message):
    check_with_fault(check_error_search, spoil(AlternatingErrors, find=staticmethod(find)), message)
