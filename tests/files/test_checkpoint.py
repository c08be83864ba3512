"""A fit that is interrupted and resumed ends as if nothing had happened."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
import textwrap
import threading
from copy import deepcopy
from functools import cache

import numpy as np
import pytest
from conftest import Callback, make_pursuit, make_refiner, normalise
from sklearn.datasets import load_digits, make_multilabel_classification

from ddlearn import (
    KSVD,
    Alignment,
    AlternatingErrors,
    Checkpoint,
    ConjugateScales,
    DDLClassifier,
    ElasticNet,
    FullInference,
    Jitter,
    KSVDUpdate,
    ModelFileError,
    PrintedCoding,
    Refiner,
    Robustness,
    SmoothHinge,
    SquareLev,
    save,
)
from ddlearn.dictionary import DICTIONARY_UPDATES
from ddlearn.files import format as container
from ddlearn.files.format import CHECKPOINT, read_container, write_container
from ddlearn.model.losses import LOSSES

SECONDS = ("coding_seconds", "classifier_seconds", "dictionary_seconds", "scale_seconds", "seconds")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return normalise(X)[:150], y[:150]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.checkpoint"


def leave_out(X):
    """Return samples with missing features."""
    return np.where(np.random.default_rng(0).random(X.shape) < 0.2, np.nan, X)


def quick(**parameters) -> DDLClassifier:
    fixed = {"n_components": 30, "description": "unit", "max_iter": 5, "tol": 0, "random_state": 0}
    return make_pursuit(**fixed | parameters)


def refined(epochs: int, **parameters) -> DDLClassifier:
    return quick(refine=make_refiner(epochs), **parameters)


@pytest.fixture(scope="module")
def model(digits):
    """The model of a fit that was never stopped, to compare with."""
    return quick().fit(*digits)


KEPT = {
    "plain": {},
    "hinge": {"loss": SmoothHinge(3.0)},
    "refined": {"refine": make_refiner(2)},
    "jitter": {"refine": make_refiner(2, jitter="affine"), "image_shape": (8, 8)},
}


@pytest.fixture(scope="module")
def keep(digits, tmp_path_factory):
    """Return what an interrupted fit has left in its file; each is fitted once."""

    @cache
    def keep(name: str) -> bytes:
        path = tmp_path_factory.mktemp("kept") / "checkpoint"
        where = {"at": 2, "task": "epoch"} if "refine" in KEPT[name] else {}
        interrupt(quick(**KEPT[name]), *digits, Checkpoint(path), **where)
        return path.read_bytes()

    return keep


class Watcher(Callback):
    """A callback that notes iterations, or epochs, and may stop the fit or break it off."""

    def __init__(self, stop_at: int | None = None, break_at: int | None = None, task: str = "iteration"):
        self.stop_at = stop_at
        self.break_at = break_at
        self.task = task
        self.iterations: list[int] = []

    def on_fit_task_end(self, estimator, context, *, fitted_estimator):
        if context.task_name == self.task:
            history = fitted_estimator.history_ if self.task == "iteration" else fitted_estimator.refinement_
            iteration = history[-1][0]
            self.iterations.append(iteration)
            if iteration == self.break_at:
                raise KeyboardInterrupt
            return iteration == self.stop_at
        return False


def interrupt(model, X, y, *callbacks, at=3, task="iteration"):
    with pytest.raises(KeyboardInterrupt):
        model.set_callbacks(*callbacks, Watcher(break_at=at, task=task)).fit(X, y)


def resume(model, X, y, path, *callbacks):
    return model.set_callbacks(Checkpoint(path, resume=True), *callbacks).fit(X, y)


def assert_same_model(one, other):
    """Compare all that two fits left, bit by bit."""
    for name, value in vars(one).items():
        if not name.endswith("_"):
            continue
        there = getattr(other, name)
        if name == "codes_":
            for part in ("data", "indices", "indptr"):
                np.testing.assert_array_equal(getattr(value, part), getattr(there, part))
        elif name == "search_":
            for column in set(value) - {"seconds"}:
                np.testing.assert_array_equal(value[column], there[column])
        elif name in ("history_", "refinement_"):
            np.testing.assert_array_equal([untimed(record) for record in value], [untimed(record) for record in there])
        elif isinstance(value, np.ndarray):
            assert value.dtype == there.dtype
            np.testing.assert_array_equal(value, there)
        elif name == "priors_":
            for mine, theirs in zip(value, there, strict=True):
                np.testing.assert_array_equal(mine, theirs)
        elif name == "description_":
            np.testing.assert_equal(value.get_params(), there.get_params())
        elif name not in ("loss_", "sparse_coder_"):
            assert value == there, name


def untimed(record):
    return record._replace(**{name: 0.0 for name in SECONDS if hasattr(record, name)})


class OwnLoss(SmoothHinge):
    """A user's loss, which files only name."""


class NoisyUpdate(KSVDUpdate):
    """A user's update that adds noise."""

    def update(self, X, codes, dictionary, precision, *, n_jobs=None):
        noise = np.random.RandomState(0).standard_normal(dictionary.shape).astype(X.dtype)
        return super().update(X, codes, normalise(dictionary + 0.01 * noise), precision, n_jobs=n_jobs)


# -- interrupted and resumed -------------------------------------------------------------------------------------------

CASES = {
    **{f"loss {name}": {"loss": name} for name in LOSSES},
    **{f"update {name}": {"dictionary_update": name} for name in DICTIONARY_UPDATES},
    "random update": {"dictionary_update": NoisyUpdate()},
    "aligned": {"alignment": Alignment("translation", training=True), "image_shape": (8, 8)},
    "aligned, no refit": {"alignment": Alignment(training=True), "image_shape": (8, 8), "refine": None},
    "no refit": {"refine": None},
    "standardised": {"description": "standard"},
    "shared noise": {"scales": ConjugateScales("shared"), "label_coding": PrintedCoding(10)},
    "no intercept": {"classifier_trainer": SquareLev(fit_intercept=False)},
    "elastic net": {"sparse_coder": "elastic_net"},
    "sizes": {"n_components": "auto", "init": "gaussian"},  # samples as atoms would leave nothing to do
    "own loss": {"loss": OwnLoss()},
    "converges": {"tol": 0.002, "max_iter": 50, "dictionary_update": "atom"},
    "refined": {"refine": make_refiner(5), "dictionary_update": NoisyUpdate()},
}
# Small mini-batches, so that moments and averages have something to remember.
REFINED = {
    "plain": {"refine": make_refiner(3, batch_size=32)},
    "jitter": {"refine": make_refiner(3, batch_size=32, jitter="elastic"), "image_shape": (8, 8)},
    "one vs all": {"refine": make_refiner(3, batch_size=32, cost="one_vs_all")},
    "nothing held out": {
        "refine": make_refiner(3, batch_size=32, validation_fraction=0),
        "dictionary_update": NoisyUpdate(),
    },
    "aligned": {
        "refine": make_refiner(3),
        "alignment": Alignment("translation", training=True),
        "image_shape": (8, 8),
    },
    "no loop, but a search for settings": {"refine": 3, "max_iter": 0},
    # The looser the tolerance, the more depends on the codes that an epoch starts from.
    "codes to start from": {"refine": make_refiner(3, batch_size=32), "sparse_coder": ElasticNet(0.1, tol=0.1)},
}


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_fit_ends_bitwise_as_one_that_was_never_stopped(digits, path, case):
    X, y = digits
    expected = quick(**CASES[case]).fit(X, y)
    interrupt(quick(**CASES[case]), X, y, Checkpoint(path))
    watcher = Watcher()
    resumed = quick(**CASES[case]).set_callbacks(Checkpoint(path, resume=True), watcher).fit(X, y)
    assert watcher.iterations[0] == 3  # two were in the file
    assert_same_model(resumed, expected)


@pytest.mark.bitwise
@pytest.mark.parametrize(("task", "refine"), [("iteration", "classifiers"), ("epoch", make_refiner(3, batch_size=32))])
def test_other_samples_and_targets(digits, path, task, refine):
    X, Y = make_multilabel_classification(n_samples=100, n_features=20, n_classes=4, random_state=0)
    digits_y = np.where(np.arange(150) % 3 == 0, "?", digits[1].astype(str))
    for samples, target, parameters in (
        (X, Y, {}),
        (digits[0].astype(np.float32), digits_y, {"unlabeled": "?"}),
        (digits[0].astype(np.float32), digits[1], CASES["aligned"]),
        (leave_out(digits[0]), digits[1], {"robustness": Robustness(missing="mask")}),
    ):
        expected = quick(refine=refine, **parameters).fit(samples, target)
        interrupt(quick(refine=refine, **parameters), samples, target, Checkpoint(path), task=task)
        assert_same_model(resume(quick(refine=refine, **parameters), samples, target, path), expected)


@pytest.mark.bitwise
@pytest.mark.parametrize("case", REFINED)
def test_a_resumed_refinement_ends_bitwise_as_one_that_was_never_stopped(digits, path, case):
    expected = quick(**REFINED[case]).fit(*digits)
    interrupt(quick(**REFINED[case]), *digits, Checkpoint(path), task="epoch")
    iterations, epochs = Watcher(), Watcher(task="epoch")
    resumed = resume(quick(**REFINED[case]), *digits, path, iterations, epochs)
    assert iterations.iterations == []  # the end of the loop was in the file
    assert epochs.iterations == [3]  # and two epochs
    assert_same_model(resumed, expected)


def test_a_refined_fit_that_was_interrupted_in_the_loop_is_refined_as_if_it_had_not_been(digits, path):
    parameters = REFINED["jitter"] | {"refine": make_refiner(2, batch_size=32, jitter="elastic")}
    expected = quick(**parameters).fit(*digits)
    interrupt(quick(**parameters), *digits, Checkpoint(path))
    epochs = Watcher(task="epoch")
    resumed = resume(quick(**parameters), *digits, path, epochs)
    assert epochs.iterations == [1, 2]
    assert_same_model(resumed, expected)


def test_a_finished_refinement_is_finished_at_once(digits, path):
    model = refined(2).set_callbacks(Checkpoint(path)).fit(*digits)
    before = path.read_bytes()
    epochs = Watcher(task="epoch")
    again = resume(refined(2), *digits, path, epochs)
    assert epochs.iterations == []
    assert_same_model(again, model)
    assert path.read_bytes() == before


def test_a_refinement_that_a_callback_stopped_is_finished(digits, path):
    for callbacks in (
        [Checkpoint(path, every=5), Watcher(stop_at=1, task="epoch")],
        [Watcher(stop_at=1, task="epoch"), Checkpoint(path, every=5)],
    ):
        stopped = refined(3).set_callbacks(*callbacks).fit(*digits)
        assert len(stopped.refinement_) == 2
        assert_same_model(resume(refined(3), *digits, path), stopped)


def test_with_more_iterations_the_loop_goes_on_and_the_model_is_refined_anew(digits, path):
    parameters = {"refine": make_refiner(2, batch_size=32), "dictionary_update": NoisyUpdate()}
    quick(**parameters, max_iter=3).set_callbacks(Checkpoint(path)).fit(*digits)
    iterations, epochs = Watcher(), Watcher(task="epoch")
    model = quick(**parameters, max_iter=5).set_callbacks(Checkpoint(path, resume=True), iterations, epochs)
    resumed = model.fit(*digits)
    assert iterations.iterations == [4, 5]
    assert epochs.iterations == [1, 2]
    assert_same_model(resumed, quick(**parameters, max_iter=5).fit(*digits))


def test_epochs_are_kept_as_often_as_iterations(digits, path):
    def last_epoch():
        content = read_container(path, CHECKPOINT).content
        return content["refinement"]["history"]["rows"][-1][0] if "refinement" in content else None

    interrupt(refined(5), *digits, Checkpoint(path, every=2), at=2, task="epoch")
    assert last_epoch() is None  # the end of the loop is kept
    interrupt(refined(5), *digits, Checkpoint(path, every=2), at=4, task="epoch")
    assert last_epoch() == 2
    refined(5).set_callbacks(Checkpoint(path, every=2)).fit(*digits)
    assert last_epoch() == 5


def test_a_generator_of_the_user_is_left_as_if_nothing_had_happened(digits, path):
    expected = np.random.RandomState(3)
    parameters = {"dictionary_update": NoisyUpdate(), "refine": make_refiner(2)}
    model = quick(**parameters, random_state=expected).fit(*digits)
    for task in ("iteration", "epoch"):
        broken, resumed = (np.random.RandomState(3) for _ in range(2))
        interrupt(quick(**parameters, random_state=broken), *digits, Checkpoint(path), at=2, task=task)
        other = resume(quick(**parameters, random_state=resumed), *digits, path)
        assert_same_model(other, model)
        assert resumed.randint(2**31) == deepcopy(expected).randint(2**31)


def test_numpys_own_generator_is_left_alone(digits, path):
    parameters = {"dictionary_update": NoisyUpdate(), "random_state": None}
    interrupt(quick(**parameters), *digits, Checkpoint(path))
    before = np.random.get_state()[1:]  # noqa: NPY002
    models = [resume(quick(**parameters), *digits, path)]
    np.testing.assert_equal(np.random.get_state()[1:], before)  # noqa: NPY002
    models.append(resume(quick(**parameters), *digits, path))
    assert_same_model(*models)


def test_without_a_file_a_fit_begins_anew(digits, path, model):
    watcher = Watcher()
    fitted = resume(quick(), *digits, path, watcher)
    assert watcher.iterations == [1, 2, 3, 4, 5]
    assert_same_model(fitted, model)


def test_without_resume_a_fit_begins_anew_and_replaces_the_file(digits, path, keep):
    path.write_bytes(keep("hinge"))
    watcher = Watcher()
    model = quick().set_callbacks(Checkpoint(path), watcher).fit(*digits)
    assert watcher.iterations == [1, 2, 3, 4, 5]
    assert_same_model(resume(quick(), *digits, path), model)


@pytest.mark.parametrize("parameters", [{}, {"tol": 0.02, "max_iter": 50, "dictionary_update": "atom"}], ids=str)
def test_a_finished_fit_is_finished_at_once(digits, path, parameters):
    model = quick(**parameters).set_callbacks(Checkpoint(path)).fit(*digits)
    before = path.read_bytes()
    watcher = Watcher()
    again = resume(quick(**parameters), *digits, path, watcher)
    assert watcher.iterations == []
    assert_same_model(again, model)
    assert path.read_bytes() == before


def test_a_fit_that_a_callback_stopped_is_finished(digits, path):
    # The callback may come after the checkpoint, which must store the decision of all callbacks.
    for callbacks in ([Checkpoint(path), Watcher(stop_at=2)], [Watcher(stop_at=2), Checkpoint(path)]):
        stopped = quick().set_callbacks(*callbacks).fit(*digits)
        assert stopped.n_iter_ == 2
        assert_same_model(resume(quick(), *digits, path), stopped)


def test_max_iter_may_be_raised_but_not_below_what_is_done(digits, path, model):
    quick(max_iter=3).set_callbacks(Checkpoint(path)).fit(*digits)
    resumed = resume(quick(max_iter=5), *digits, path)
    assert_same_model(resumed, model)
    with pytest.raises(ValueError, match="has done 5 iterations, more than max_iter=4"):
        resume(quick(max_iter=4), *digits, path)


def test_it_writes_every_few_iterations_and_at_the_end(digits, path):
    def last_iteration():
        return read_container(path, CHECKPOINT).content["history"]["rows"][-1][0]

    interrupt(quick(), *digits, Checkpoint(path, every=3), at=3)
    assert not path.exists()
    interrupt(quick(), *digits, Checkpoint(path, every=3), at=5)
    assert last_iteration() == 3
    quick().set_callbacks(Checkpoint(path, every=3)).fit(*digits)
    assert last_iteration() == 5


def test_it_goes_with_other_callbacks(digits, path, keep, model):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    path.write_bytes(keep("plain"))
    resumed = quick().set_callbacks(ProgressBar(), Checkpoint(path, resume=True)).fit(*digits)
    assert_same_model(resumed, model)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kept", "changes", "message"),
    [
        ("hinge", {"loss": "logistic"}, r"loss was SmoothHinge\(sharpness=3.0\) and is 'logistic' now"),
        ("hinge", {"loss": SmoothHinge(4.0)}, r"\(sharpness=3.0\) and is SmoothHinge\(sharpness=4.0\) now"),
        ("hinge", {"n_components": 20}, "n_components was 30 and is 20 now"),
        ("hinge", {"random_state": 1, "tol": 1e-3}, r"random_state was 0 and is 1 now; tol was 0 and is 0.001 now"),
        ("hinge", {"init": np.eye(30, 64)}, r"init was 'samples' and is array\(\[\[1"),
        ("hinge", {"dictionary_update": NoisyUpdate()}, r"dictionary_update was 'auto' and is NoisyUpdate\(\) now"),
        (
            "hinge",
            {"alignment": Alignment("affine", training=True), "image_shape": (8, 8)},
            r"cannot be resumed: alignment was None and is Alignment\(training=True\) now",
        ),
        ("hinge", {"scales": ConjugateScales("shared")}, r"scales was 'conjugate' and is ConjugateScales\(noise='shar"),
        ("hinge", {"label_coding": PrintedCoding(3)}, r"coding was 'descent' and is PrintedCoding\(max_iter=3\) now"),
        ("hinge", {"refine": 3}, "refine was 'classifiers' and is 3 now"),
        ("jitter", {"refine": 3}, r"resumed: refine was Refiner\(epochs=2, jitter='affine', .*\) and is 3 now"),
        (
            "jitter",
            {"refine": Refiner(2, jitter=Jitter(0.3))},
            r"is Refiner\(epochs=2, jitter=Jitter\(shift=0.3\)\) now",
        ),
        ("jitter", {"image_shape": (4, 16)}, r"resumed: image_shape was \(8, 8\) and is \(4, 16\) now"),
    ],
    ids=str,
)
def test_other_parameters_are_refused_by_name(digits, path, keep, kept, changes, message):
    path.write_bytes(keep(kept))
    with pytest.raises(ValueError, match=message):
        resume(quick(**KEPT[kept] | changes), *digits, path)
    assert path.read_bytes() == keep(kept)


def test_what_does_not_concern_a_refinement_may_differ(digits, path, keep, model):
    expected = refined(2).fit(*digits)
    path.write_bytes(keep("refined"))
    other = refined(2, image_shape=(8, 8), n_jobs=2, inference="full")
    assert_same_model(other.set_callbacks(Checkpoint(path, resume=True)).fit(*digits), expected)
    # If nothing is refined, only new images are distorted.
    path.write_bytes(keep("plain"))
    other = quick(image_shape=(8, 8), n_views=4).set_callbacks(Checkpoint(path, resume=True))
    assert_same_model(other.fit(*digits), model)


def test_other_data_are_refused(digits, path, keep):
    X, y = digits
    path.write_bytes(keep("plain"))
    changed = X.copy()
    changed[7, 7] += 1e-15
    for samples, target, message in (
        (X[:-1], y[:-1], r"X was float64 of shape \(150, 64\) .* and is float64 of shape \(149, 64\)"),
        (X.astype(np.float32), y, r"X was float64 .* and is float32"),
        (changed, y, r"resumed: X was .* with SHA-256 \w{8} and is .* with SHA-256 \w{8} now\. Use"),
        (X, np.roll(y, 1), r"resumed: y was int8 of shape \(150, 10\)"),
    ):
        with pytest.raises(ValueError, match=message):
            quick().set_callbacks(Checkpoint(path, resume=True)).fit(samples, target)


def test_what_concerns_only_new_samples_may_differ(digits, path, keep, model):
    path.write_bytes(keep("plain"))
    other = quick(
        n_jobs=2,
        inference=FullInference(2),
        robustness=Robustness(0.1, error_search=AlternatingErrors(trim=2.0), missing="mask"),
        alignment="affine",
        image_shape=(8, 8),
        n_components=np.int64(30),  # the same number
    )
    assert_same_model(other.set_callbacks(Checkpoint(path, resume=True)).fit(*digits), model)


@pytest.mark.parametrize("resume", [True, False])
def test_a_damaged_or_foreign_file_is_refused_and_stays(digits, path, keep, model, resume):
    whole = keep("plain")
    save(model, path)
    for content in (whole[:-10], whole[:3000] + b"?" + whole[3001:], b"my,data\n1,2\n", path.read_bytes()):
        path.write_bytes(content)
        model = quick()
        with pytest.raises(ModelFileError, match="remove it, or give Checkpoint another path"):
            model.set_callbacks(Checkpoint(path, resume=resume)).fit(*digits)
        assert path.read_bytes() == content
        assert not hasattr(model, "components_")


@pytest.mark.parametrize(
    ("kept", "damage"),
    [
        ("plain", lambda content, arrays: arrays.update(coef=arrays["coef"][:, :-1])),
        ("plain", lambda content, arrays: arrays.update(dictionary=arrays["dictionary"].astype(np.float32))),
        ("plain", lambda content, arrays: arrays.update(noise_variance=arrays["noise_variance"] * np.nan)),
        ("plain", lambda content, arrays: arrays.update(code_indices=arrays["code_indices"] + 1)),
        ("plain", lambda content, arrays: arrays.update(code_indices=arrays["code_indices"] - 1)),
        ("plain", lambda content, arrays: arrays.update(positions=np.zeros((150, 2)))),
        ("plain", lambda content, arrays: arrays.update(unknown=np.zeros(3))),
        ("plain", lambda content, arrays: arrays.pop("intercept")),
        ("plain", lambda content, arrays: content.update(coder=3)),
        ("plain", lambda content, arrays: content.update(priors=[1.0])),
        ("plain", lambda content, arrays: content["priors"].pop("ridge")),
        ("plain", lambda content, arrays: content["priors"].update(ridge=[1.0, 2.0])),
        ("plain", lambda content, arrays: content["priors"].update(noise_variance=0.0)),
        ("plain", lambda content, arrays: content["priors"].update(cost_weight="a")),
        ("plain", lambda content, arrays: content["priors"].update(cost_floor=-1.0)),
        ("plain", lambda content, arrays: content.update(random_numbers=[[1, 2], 0, 0, 0.0])),
        ("plain", lambda content, arrays: content["random_numbers"]["state"].__setitem__(1, 10**6)),
        ("plain", lambda content, arrays: content["history"]["rows"].pop(1)),
        ("plain", lambda content, arrays: content["history"]["rows"].clear()),
        ("plain", lambda content, arrays: content["history"]["rows"][1].__setitem__(1, "high")),
        ("plain", lambda content, arrays: content["fingerprint"].pop("X")),
        ("refined", lambda content, arrays: arrays.pop("refinement.best.dictionary")),
        ("refined", lambda content, arrays: arrays.update({"refinement.other.intercept": np.zeros(10)})),
        ("refined", lambda content, arrays: arrays.update({"refinement.model.coef_by_atom": np.zeros((10, 30))})),
        ("refined", lambda content, arrays: arrays.update({"refinement.average.intercept": np.zeros(10, np.float32)})),
        ("refined", lambda content, arrays: arrays.update({"refinement.gradient_mean.intercept": np.full(10, np.nan)})),
        ("refined", lambda content, arrays: arrays.update({"refinement.gradient_square.intercept": np.full(10, -1.0)})),
        ("refined", lambda content, arrays: content.pop("refinement")),
        ("refined", lambda content, arrays: content["refinement"].pop("stopped")),
        ("refined", lambda content, arrays: content["refinement"].update(seed=-1)),
        ("refined", lambda content, arrays: content["refinement"].update(seed=2**40)),
        ("refined", lambda content, arrays: content["refinement"].update(n_steps=1.5)),
        ("refined", lambda content, arrays: content["refinement"].update(n_steps=None)),
        ("refined", lambda content, arrays: content["refinement"].update(history=content["history"])),
        ("refined", lambda content, arrays: content["refinement"]["history"]["rows"].pop(0)),
        ("refined", lambda content, arrays: content["refinement"]["history"]["rows"][1].__setitem__(3, "low")),
        ("refined", lambda content, arrays: content.update(history=content["refinement"]["history"])),
    ],
)
def test_a_state_that_does_not_fit_is_refused_though_its_hash_is_right(digits, path, keep, kept, damage):
    path.write_bytes(keep(kept))
    content, arrays = read_container(path, CHECKPOINT)
    damage(content, arrays)
    write_container(path, CHECKPOINT, content, arrays)
    with pytest.raises(ModelFileError):
        resume(quick(**KEPT[kept]), *digits, path)


def test_a_full_disk_ends_the_fit_and_leaves_the_last_checkpoint(digits, path, monkeypatch):
    interrupt(quick(), *digits, Checkpoint(path))
    before = path.read_bytes()
    model = quick().fit(*digits)
    components = model.components_

    def fail(*paths):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="No space left on device; an existing file is unchanged"):
        model.set_callbacks(Checkpoint(path, resume=True)).fit(*digits)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
    assert model.components_ is components


def test_only_fits_of_the_classifier_can_be_kept(path):
    with pytest.raises(TypeError, match="Checkpoint stores fits of DDLClassifier, not of KSVD"):
        Checkpoint(path).setup(KSVD(), None)


@pytest.mark.parametrize("every", [0, -1, 1.5, True, None])
def test_bad_intervals_are_named(path, every):
    with pytest.raises(ValueError, match="every must be"):
        Checkpoint(path, every=every)


def test_two_fits_with_one_path_leave_one_whole_file(digits, path):
    models = [quick(random_state=seed).set_callbacks(Checkpoint(path)) for seed in range(3)]
    threads = [threading.Thread(target=model.fit, args=digits) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seed = int(read_container(path, CHECKPOINT).content["fingerprint"]["random_state"]["text"])
    resumed = resume(quick(random_state=seed), *digits, path)
    assert_same_model(resumed, models[seed])
    assert os.listdir(path.parent) == [path.name]


# -- killed ------------------------------------------------------------------------------------------------------------

# One process that has compiled everything, and a child of it for each fit that will be killed.
KILLER = textwrap.dedent(
    """
    import os, random, signal, sys, time
    from test_checkpoint import CASES, make_long_fit
    from ddlearn import Checkpoint

    case, path, n_kills, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    chance = random.Random(seed)
    model, X, y = make_long_fit(case)
    model.fit(X, y)
    begin = time.perf_counter()
    model.fit(X, y)
    duration = time.perf_counter() - begin
    n_killed = 0
    for _ in range(n_kills):
        child = os.fork()
        if child == 0:
            model.set_callbacks(Checkpoint(path, resume=True)).fit(X, y)
            os._exit(0)
        time.sleep(chance.uniform(0, 2 * duration / n_kills))
        os.kill(child, signal.SIGKILL)
        n_killed += os.WIFSIGNALED(os.waitpid(child, 0)[1])
    print(n_killed)
    """
)


def make_long_fit(case: str):
    X, y = load_digits(return_X_y=True)
    return quick(**{"n_components": 50, "max_iter": 30} | CASES[case]), X[:400], y[:400]


def kill_and_resume(case, path, n_kills, seed):
    folder = os.path.dirname(__file__)  # pytest imports test files without adding their folder to the path
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([folder, *sys.path])}
    run = subprocess.run(
        [sys.executable, "-c", KILLER, case, str(path), str(n_kills), str(seed)],
        capture_output=True,
        text=True,
        env=environment,
    )
    assert run.returncode == 0, run.stderr
    model, X, y = make_long_fit(case)
    resumed = model.set_callbacks(Checkpoint(path, resume=True)).fit(X, y)
    expected, _, _ = make_long_fit(case)
    assert_same_model(resumed, expected.fit(X, y))
    return int(run.stdout)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fit_killed_three_times_ends_with_the_same_model(path):
    assert kill_and_resume("refined", path, 3, seed=random.randrange(2**32)) > 0


@pytest.mark.nightly
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("case", CASES)
def test_a_fit_killed_many_times_ends_with_the_same_model(path, case):
    assert kill_and_resume(case, path, 20, seed=random.randrange(2**32)) > 0


def test_a_checkpoint_of_an_earlier_format_cannot_be_resumed(digits, path, monkeypatch):
    monkeypatch.setattr(container, "FORMAT_VERSION", 1)
    interrupt(quick(), *digits, Checkpoint(path))
    monkeypatch.undo()
    with pytest.raises(
        ModelFileError, match=r"old format version 1.*use the version of ddlearn that wrote it, or fit again"
    ):
        resume(quick(), *digits, path)


def test_labels_that_refinement_holds_back_are_part_of_the_fingerprint(digits, path):
    X, y = digits
    model = quick(refine=make_refiner(1, validation_fraction=0.3), description="unit", max_iter=1)
    model.set_callbacks(Checkpoint(path)).fit(X, y)
    for changed in (0, len(y) // 2, len(y) - 1):
        other = y.copy()
        other[changed] = (other[changed] + 1) % 10
        with pytest.raises(ValueError, match="y was"):
            model.set_callbacks(Checkpoint(path, resume=True)).fit(X, other)
