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


# -- copies, and the report --------------------------------------------------------------------------------------------


class Forgets(Logistic):
    """Keeps state that is no parameter of the constructor."""

    factor = 1

    def value(self, margin):
        return self.factor * super().value(margin)

    def gradient(self, margin):
        return self.factor * super().gradient(margin)

    def curvature(self, margin):
        return self.factor * super().curvature(margin)


def test_a_copy_must_do_the_same():
    loss = Forgets()
    loss.factor = 2
    check_with_fault(check_loss, loss, "its result changes when it is cloned: set all state from the constructor")


def make_local(base):
    class Local(base):  # pickle does not find a class inside a function
        pass

    return Local()


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
    check_with_fault(check, make_local(base), f"it cannot be pickled .*; derive from {name} and define the class in a")


def test_a_report_has_one_line_per_problem():
    with pytest.raises(ValueError, match="not a usable") as report:
        check_loss(make_local(HalfGradient))
    heading, *lines = str(report.value).splitlines()
    assert heading == "Local() is not a usable loss:"
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


class HalfGradient(SquaredHinge):
    def gradient(self, margin):
        return -np.maximum(1 - margin, 0)


class WrongCurvature(SquaredHinge):
    def curvature(self, margin):
        return (margin < 1).astype(margin.dtype)


class Concave(Square):
    is_quadratic = False

    def value(self, margin):
        return 1e9 - (1 - margin) ** 2

    def gradient(self, margin):
        return 2 * (1 - margin)

    def curvature(self, margin):
        return np.full_like(margin, -2)


class Overflowing(Exponential):
    def value(self, margin):
        return np.exp(-margin)


class Widening(SquaredHinge):
    def curvature(self, margin):
        return 2.0 * (margin < 1)


class InPlace(SquaredHinge):
    def value(self, margin):
        margin -= 1
        return np.minimum(margin, 0) ** 2


class Summing(SquaredHinge):
    def value(self, margin):
        return super().value(margin).sum()


class NotElementwise(SquaredHinge):
    def value(self, margin):
        return super().value(margin) / margin.size


class FalselyQuadratic(Logistic):
    is_quadratic = True


class LowSurrogate(Logistic):
    def surrogate_curvature(self, margin):
        return self.curvature(margin) / 2


class Negative(Square):
    def value(self, margin):
        return (1 - margin) ** 2 - 1


@pytest.mark.parametrize(
    ("loss", "word"),
    [
        (HalfGradient(), "gradient is not the derivative of value"),
        (WrongCurvature(), "curvature is not the derivative of gradient"),
        (Concave(), "not convex"),
        (Overflowing(), "value of float32 margins up to 1000 holds NaN or infinity"),
        (Widening(), "curvature of float32 .* must have the dtype float32, got float64; keep the dtype"),
        (InPlace(), "value changes its argument margin in place; work on a copy"),
        (Summing(), r"value .* must be an array of shape \(162, 4\), got \(\)"),
        (NotElementwise(), "not element-wise"),
        (FalselyQuadratic(), "is_quadratic"),
        (Negative(), "value is negative"),
        (LowSurrogate(), "surrogate_curvature is below curvature"),
    ],
    ids=lambda parameter: parameter if isinstance(parameter, str) else type(parameter).__name__,
)
def test_faults_of_losses_are_named(loss, word):
    check_with_fault(check_loss, loss, word)


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


class Forgetful(SparseCoder):
    """A coder with faults that can be switched on."""

    def __init__(self, fault="none"):
        self.fault = fault

    def solve(self, problem):
        codes = OMP().solve(problem._replace(energies=None))
        has_negative_weights = (problem.weight < 0).any()
        if self.fault == "order":
            return RowCodes(codes.indices[:, ::-1], codes.values[:, ::-1])
        if self.fault == "dtype":
            return RowCodes(codes.indices.astype(np.int64), codes.values)
        if self.fault == "cost":
            return RowCodes(codes.indices, 10 * codes.values)
        if self.fault == "rows":
            return RowCodes(codes.indices, codes.values * (1 + 0.01 * (len(problem.correlations) > 1)))
        if self.fault == "in place":
            problem.correlations[:] *= 0.5
        if self.fault == "places":
            return RowCodes(codes.indices[:, :1], codes.values[:, :1])
        if self.fault == "outside":
            codes.indices[:, -1] = 99
        if self.fault == "empty":
            codes.values[0, 0] = 1e-9
        if self.fault == "root" and has_negative_weights:
            codes.values[0, 0] = np.nan
        if self.fault == "left out" and has_negative_weights:
            return RowCodes(codes.indices, 10 * codes.values)
        return codes

    def measure_penalty(self, values):
        return np.abs(values).sum(axis=1) if self.fault == "penalty" else super().measure_penalty(values)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("order", "atoms ascending"),
        ("dtype", "indices of codes must have the dtype int32, got int64"),
        ("cost", "costs more than the zero code"),
        ("rows", "changes with the other rows"),
        ("in place", "solve changes its argument correlations in place"),
        ("places", r"indices of codes must be an array of shape \(7, 4\), got \(7, 1\)"),
        ("outside", "codes use atoms outside 0 to 11"),
        ("empty", "a zero sample that no class pulls on must get a zero code"),
        ("penalty", "measure_penalty is not 0, but has_penalty is not set"),
        ("root", "with negative weights, values of codes holds NaN or infinity"),
        ("left out", "with negative weights, a code costs more than the zero code"),
    ],
)
def test_faults_of_coders_are_named(fault, message):
    check_sparse_coder(Forgetful())
    check_with_fault(check_sparse_coder, Forgetful(fault), message)


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


class Careless(ElasticNet):
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
    check_with_fault(check_sparse_coder, Careless(fault), message)


# -- dictionary updates ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", DICTIONARY_UPDATES)
def test_updates_pass(name):
    check_dictionary_update(name)


def draw_atoms(like):
    atoms = np.random.default_rng().standard_normal(like.shape)  # on purpose without a seed
    return (atoms / np.linalg.norm(atoms, axis=1, keepdims=True)).astype(like.dtype)


class Spoiled(DictionaryUpdate):
    """An update that does one thing wrong."""

    is_monotone = True

    def __init__(self, fault=None):
        self.fault = fault

    def update(self, X, codes, dictionary, precision, *, n_jobs=None):
        updated = AtomUpdate().update(X, codes, dictionary, precision)
        faults = {
            "length": lambda: updated._replace(dictionary=2 * updated.dictionary),
            "rise": lambda: updated._replace(dictionary=np.roll(dictionary, 1, axis=0)),
            "values": lambda: updated._replace(codes=RowCodes(codes.indices, 2 * codes.values)),
            "support": lambda: updated._replace(codes=RowCodes(0 * codes.indices, 0 * codes.values)),
            "dtype": lambda: updated._replace(dictionary=updated.dictionary.astype(np.float16)),
            "pair": lambda: updated[:2],
            "in place": lambda: (dictionary.__imul__(-1), updated)[1],
            "random": lambda: updated._replace(dictionary=draw_atoms(dictionary)),
        }
        return faults[self.fault]() if self.fault else updated


class TwoWays(AtomUpdate):
    """Has one way with all samples at once, and another with sums."""

    def update(self, X, codes, dictionary, *arguments, **options):
        return super().update(X[:40], codes.rows(slice(40)), dictionary, *arguments, **options)._replace(codes=codes)


class Additive(AtomUpdate):
    def statistics(self, X, codes, precision, n_components, *, n_jobs=None):
        return super().statistics(X - X.mean(axis=0), codes, precision, n_components)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("length", "unit norm"),
        ("rise", "weighted error rises"),
        ("values", "updates_codes is not set"),
        ("support", "support of the codes changed"),
        ("dtype", "dictionary must have the dtype float64, got float16; keep the dtype"),
        ("pair", "must return an UpdatedDictionary"),
        ("in place", "changes its argument dictionary in place"),
        ("random", "two calls with the same arguments"),
    ],
)
def test_faults_of_updates_are_named(fault, message):
    check_dictionary_update(Spoiled())
    check_with_fault(check_dictionary_update, Spoiled(fault), message)


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


class _Careless(Newton):
    """Trains, then spoils the result."""

    is_additive = False

    def __init__(self, spoil=None, *, fit_intercept=True):
        super().__init__(fit_intercept=fit_intercept)
        self.spoil = spoil

    def train(self, codes, labels, loss, coef, intercept, **options):
        if not np.isfinite(coef).all():
            return coef, intercept
        trained = super().train(codes, labels, loss, coef, intercept, **options)
        return self.spoil(coef, intercept, *trained)


def _double(coef, intercept, new_coef, new_intercept):
    return new_coef.astype(np.float64), new_intercept.astype(np.float64)


def _grow(coef, intercept, new_coef, new_intercept):
    return 100 * new_coef, new_intercept


def _overwrite(coef, intercept, new_coef, new_intercept):
    coef[:] = new_coef
    return coef, new_intercept


def _fill_unused(coef, intercept, new_coef, new_intercept):
    new_coef[:, -1] = 1
    return new_coef, new_intercept


def _lean(coef, intercept, new_coef, new_intercept):
    new_coef[:, 0] += 1e-3
    return new_coef, new_intercept


def _narrow(coef, intercept, new_coef, new_intercept):
    return new_coef[:, :-1], new_intercept


def _shift(coef, intercept, new_coef, new_intercept):
    return new_coef, new_intercept + 1e-3


def _prefer(coef, intercept, new_coef, new_intercept):
    new_coef[0] *= 1 - 1e-3
    return new_coef, new_intercept


def _explode(coef, intercept, new_coef, new_intercept):
    return (np.full_like(new_coef, np.nan) if coef.any() and not coef[:, 3:].any() else new_coef), new_intercept


def _sleep(coef, intercept, new_coef, new_intercept):
    return coef.copy() * (np.arange(coef.shape[1]) < coef.shape[1] - 1), intercept.copy()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_double, "coef must have the dtype float32, got float64"),
        (_grow, "raises the penalised cost"),
        (_overwrite, "train changes its argument coef in place"),
        (_fill_unused, "no sample uses"),
        (_lean, "flipped"),
        (_narrow, r"coef must be an array of shape \(3, 7\), got \(3, 6\)"),
        (_sleep, "does not lower the cost"),
        (_shift, "with fit_intercept=False it must return the intercepts as they were"),
        (_prefer, "its classifiers must follow the order of the classes"),
        (_explode, "separable classes become infinite"),
    ],
)
def test_faults_of_trainers_are_named(spoil, words):
    check_with_fault(lambda trainer: check_classifier_trainer(trainer, "logistic"), _Careless(spoil), words)


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
