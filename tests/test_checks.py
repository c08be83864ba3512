"""The conformance checks: what is registered passes, and of what is spoiled they say what is wrong."""

from __future__ import annotations

import numpy as np
import pytest
from reference import EVERY_LOSS, SquaredHinge

from ddlearn import (
    CLASSIFIER_TRAINERS,
    DICTIONARY_UPDATES,
    ERROR_SEARCHES,
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


@pytest.mark.parametrize(
    ("check", "base", "name"),
    [
        (check_loss, SquaredHinge, "Loss"),
        (check_sparse_coder, OMP, "SparseCoder"),
        (check_dictionary_update, AtomUpdate, "DictionaryUpdate"),
        (lambda trainer: check_classifier_trainer(trainer, "logistic"), LogitBoost, "ClassifierTrainer"),
        (check_error_search, AlternatingErrors, "ErrorSearch"),
    ],
)
def test_every_check_pickles(check, base, name):
    check_with_fault(check, spoil(base), f"it cannot be pickled .*; derive from {name} and define the class in a")


def test_a_report_has_one_line_per_problem():
    with pytest.raises(ValueError, match="not a usable") as report:
        check_loss(spoil(SquaredHinge, gradient=lambda self, margin: -np.maximum(1 - margin, 0)))
    heading, *lines = str(report.value).splitlines()
    assert heading == "SquaredHinge() is not a usable loss:"
    assert len(lines) == len(set(lines)) == 3  # two derivatives, and pickle
    assert all(line.startswith("- ") and line.endswith(".") for line in lines)


@pytest.mark.parametrize(
    ("check", "role"),
    [
        (check_loss, "loss"),
        (check_sparse_coder, "sparse coder"),
        (check_dictionary_update, "dictionary update"),
        (check_classifier_trainer, "classifier trainer"),
        (check_error_search, "error search"),
    ],
)
def test_what_is_no_strategy_is_refused_first(check, role):
    with pytest.raises(ValueError, match=f"'nonsense' is not a known {role}; choose one of"):
        check("nonsense")
    with pytest.raises(TypeError, match=f"3 is not a usable {role}: it lacks .*; derive from"):
        check(3)


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


class Taxing(SparseCoder):
    """Has a penalty that it does not declare."""

    def solve(self, problem):
        return OMP().solve(problem._replace(energies=None))

    def measure_penalty(self, values):
        return np.abs(values).sum(axis=1)


@pytest.mark.parametrize("message", FAULTS_OF_CODERS)
def test_faults_of_coders_are_named(message):
    check_with_fault(check_sparse_coder, Spoiling(FAULTS_OF_CODERS[message]), message)


def test_a_penalty_must_be_declared():
    check_with_fault(check_sparse_coder, Taxing(), "measure_penalty is not 0, but has_penalty is not set")


class Directed(SparseCoder):
    """A coder that declares directions, and takes them into account, mixes up whose they are, or ignores them."""

    projects_directions = True

    def __init__(self, fault="none"):
        self.fault = fault

    def solve(self, problem):
        if self.fault == "rows":
            problem = problem._replace(directions=np.ascontiguousarray(problem.directions[::-1]))
        if self.fault == "ignored":
            problem = problem._replace(directions=problem.directions[:, :0])
        return OMP().solve(problem)


@pytest.mark.parametrize("fault", ["ignored", "rows"])
def test_the_check_finds_directions_that_are_declared_but_not_taken_into_account(fault):
    check_sparse_coder(Directed())
    check_with_fault(check_sparse_coder, Directed(fault), "with directions, codes differ from those for gram - B'B")


class Undeclared(ElasticNet):
    """An elastic net with faults."""

    def __init__(self, fault):
        super().__init__(0.1)
        self.fault = fault

    def adapt(self, samples, dictionary, n_nonzero_coefs):
        return self

    @property
    def is_adapted(self):
        return self.fault != "adapt"

    def measure_penalty(self, values):
        penalty = super().measure_penalty(values)
        return {"offset": penalty + 1, "sum": penalty.sum(), "sign": -penalty}.get(self.fault, penalty)

    def solve(self, problem):
        codes = super().solve(problem)
        if self.fault == "start" and problem.start is not None:
            return RowCodes(codes.indices, 3 * codes.values)
        return codes


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("offset", "must be 0 for zero codes"),
        ("sum", r"measure_penalty must be an array of shape \(7,\), got \(\)"),
        ("sign", "never negative"),
        ("start", "codes that it starts from get worse"),
        ("adapt", "adapt must return a coder that is_adapted"),
    ],
)
def test_faults_of_what_a_coder_declares_are_named(fault, message):
    check_with_fault(check_sparse_coder, Undeclared(fault), message)


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


class TwoWays(AtomUpdate):
    """Has one way with all samples at once, and another with sums."""

    def update(self, X, codes, dictionary, *arguments, **options):
        return super().update(X[:40], codes.rows(slice(40)), dictionary, *arguments, **options)._replace(codes=codes)


class Additive(AtomUpdate):
    def statistics(self, X, codes, precision, n_components, *, n_jobs=None):
        return super().statistics(X - X.mean(axis=0), codes, precision, n_components)


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
        (Additive(), "statistics do not add: two parts give another dictionary"),
        (TwoWays(), "update_from gives another dictionary than update"),
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


class Spendthrift(AlternatingErrors):
    """Calls everything wrong, missing or not."""

    def find(self, coder, samples, is_known, budgets, noise_scale, tangents=None):
        fit, is_kept, _ = super().find(coder, samples, is_known, budgets, noise_scale, tangents)
        return fit, is_kept, np.ones_like(is_known)


class Nosy(AlternatingErrors):
    """Looks at features that are missing, and leaves its mark."""

    def find(self, coder, samples, is_known, budgets, noise_scale, tangents=None):
        found = super().find(coder, samples, np.ones_like(is_known), budgets, noise_scale, tangents)
        is_known[:] = True
        return found


class Flat(AlternatingErrors):
    def find(self, *arguments):
        fit, is_kept, is_wrong = super().find(*arguments)
        return fit, is_kept, is_wrong.ravel()


class Curious(AlternatingErrors):
    """Calls the first known feature wrong if a missing one is large."""

    def find(self, coder, samples, is_known, budgets, *arguments):
        fit, is_kept, _ = super().find(coder, samples, is_known, budgets, *arguments)
        is_wrong = np.zeros_like(is_known)
        is_wrong[1, np.argmax(is_known[1])] = np.abs(samples).max() > 100
        return fit, is_kept, is_wrong


@pytest.mark.parametrize("name", ERROR_SEARCHES)
def test_searches_pass(name):
    check_error_search(name)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        (Spendthrift(), "calls more features wrong than the budget"),
        (Spendthrift(), "it uses a missing feature, or calls one wrong"),
        (Nosy(), "find changes its argument is_known in place"),
        (Nosy(), "must get the code that the coder gives it"),
        (Flat(), r"is_wrong must be an array of shape \(8, 60\), got \(480,\)"),
        (Curious(), "its result depends on the values of missing features"),
    ],
)
def test_faults_of_searches_are_named(search, message):
    check_with_fault(check_error_search, search, message)
