"""A model file restores the model that was saved or raises an error; it never yields another model."""

from __future__ import annotations

import copy
import hashlib
import json
import os
import pickle
import re
import signal
import struct
import threading
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from conftest import make_pursuit, make_refiner, normalise
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from reference import SquaredHinge
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from ddlearn import (
    KSVD,
    OMP,
    Alignment,
    AlternatingErrors,
    Checkpoint,
    ConjugateScales,
    DDLClassifier,
    FullInference,
    GreedyErrors,
    JeffreysScales,
    Jitter,
    Loss,
    ModelFileError,
    PrintedCoding,
    Refiner,
    Robustness,
    SmoothHinge,
    SquareLev,
    __version__,
    load,
    save,
)
from ddlearn.classifiers import CLASSIFIER_TRAINERS
from ddlearn.coding.encoder import SPARSE_CODERS
from ddlearn.dictionary import DICTIONARY_UPDATES
from ddlearn.files import format as container
from ddlearn.files.format import MODEL, read_container, write_container
from ddlearn.files.models import _ATTRIBUTES
from ddlearn.inference.rules import FastInference
from ddlearn.model.losses import LOSSES
from ddlearn.refinement.refiner import EpochRecord

# The default profile's 60 examples say little about a file of thousands of bytes, and one takes a few milliseconds.
IS_NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
fuzzed = settings(max_examples=10_000 if IS_NIGHTLY else 200, suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return normalise(X)[:150], y[:150]


def quick(**parameters) -> DDLClassifier:
    return make_pursuit(**{"n_components": 30, "max_iter": 2, "random_state": 0} | parameters)


def begin(loss) -> DDLClassifier:
    """Return a model of which only the classifiers are trained, and once: losses of one's own take many rounds."""
    return quick(loss=loss, max_iter=0, refine=None)


@pytest.fixture(scope="module")
def model(digits):
    return quick().fit(*digits)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def assert_same(one, other):
    """Compare everything that two estimators hold, bit by bit and type by type."""
    assert type(one) is type(other)
    assert_same_values(one.get_params(deep=False), other.get_params(deep=False))
    fitted = [{name: value for name, value in vars(m).items() if name.endswith("_")} for m in (one, other)]
    assert_same_values(*fitted)


def assert_same_values(one, other):
    assert set(one) == set(other)
    for name, value in one.items():
        there = other[name]
        assert type(value) is type(there), name
        if name == "codes_":
            parts = ("data", "indices", "indptr")
            assert_same_values(*({part: getattr(codes, part) for part in parts} for codes in (value, there)))
        elif name == "refinement_":
            assert {type(record) for record in there} == {EpochRecord}
            np.testing.assert_array_equal(value, there)  # NaN in the first record
        elif name == "search_":
            assert_same_values(value, there)
        elif name == "priors_":
            assert_same_values(value._asdict(), there._asdict())
        elif isinstance(value, np.ndarray):
            assert value.dtype == there.dtype, name
            np.testing.assert_array_equal(value, there)
        elif hasattr(value, "get_params"):
            assert_same_values(value.get_params(deep=False), there.get_params(deep=False))
        elif isinstance(value, np.random.RandomState):
            assert value.get_state()[2:] == there.get_state()[2:]
            np.testing.assert_array_equal(value.get_state()[1], there.get_state()[1])
        elif value == value:  # NaN is as it should be by its type alone
            assert value == there, name


def round_trip(model, path, **strategies):
    save(model, path)
    restored = load(path, **strategies)
    assert_same(restored, model)
    return restored


def supported_loss(trainer: str) -> str:
    return next(name for name, loss in LOSSES.items() if CLASSIFIER_TRAINERS[trainer]().supports(loss()))


# -- what comes back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        *({"loss": name} for name in LOSSES),
        *({"sparse_coder": name} for name in SPARSE_CODERS),
        *({"dictionary_update": name} for name in DICTIONARY_UPDATES),
        *({"classifier_trainer": name, "loss": supported_loss(name)} for name in CLASSIFIER_TRAINERS),
        {"loss": SmoothHinge(sharpness=3.0), "sparse_coder": OMP(tol=0.01), "classifier_trainer": "newton"},
        {"classifier_trainer": SquareLev(ridge=0.1), "robustness": 0.1, "inference": FastInference()},
        {"robustness": Robustness(0.1, error_search=GreedyErrors(threshold=5.0))},
        {"alignment": Alignment("translation", max_shift=1.0, training=True), "image_shape": (8, 8)},
        {"robustness": Robustness(3, error_search=AlternatingErrors(trim=2.0), missing="mask"), "inference": "full"},
        {"inference": FullInference(2), "label_coding": PrintedCoding(10, tol=0.01)},
        {"scales": ConjugateScales("shared"), "refine": None, "description": "standard"},
        {"classifier_trainer": SquareLev(fit_intercept=False)},
        {
            "n_components": np.int64(20),
            "scales": JeffreysScales(np.str_("shared"), cost_floor=np.float32(0.3)),
            "unlabeled": np.nan,
        },
        {"random_state": np.random.RandomState(3)},
        {"max_iter": 0},
        {"classification_weight": 0.5, "inference": "full"},
        {"refine": 2},
        {"refine": Refiner(2, cost="one_vs_all", validation_fraction=0.0, patience=1), "loss": "logistic"},
        {"refine": Refiner(1, jitter=Jitter(0.3, elastic=0.5)), "image_shape": (8, 8), "n_views": 3},
    ],
    ids=lambda parameters: re.sub(" at 0x[0-9A-F]+", "", str(parameters)),  # the same in every process
)
def test_every_strategy_comes_back_and_predicts_the_same(digits, path, parameters):
    X, y = digits
    model = quick(**parameters).fit(X, y)
    restored = round_trip(model, path)
    np.testing.assert_array_equal(restored.predict_proba(X), model.predict_proba(X))
    for part, expected in zip(restored.explain(X[:5]), model.explain(X[:5]), strict=True):
        np.testing.assert_array_equal(*(p.toarray() if hasattr(p, "toarray") else p for p in (part, expected)))
    assert abs(restored.transform(X) - model.transform(X)).max() == 0


@pytest.mark.parametrize(
    "classes",
    [
        np.arange(10),
        np.arange(10, dtype=np.uint8),
        np.arange(10) - 2.0,
        np.arange(10, dtype=np.float16),
        np.arange(10, dtype=">i4"),
        np.array([f'digit {i} \N{SNOWMAN} "\\\n' for i in range(10)]),
        np.array([f"digit {i}" for i in range(10)], dtype=object),
        np.arange(10) % 2 == 0,
        np.arange("2020-01", "2020-11", dtype="datetime64[M]"),
    ],
    ids=lambda classes: str(classes.dtype),
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_classes_of_any_type_and_both_precisions(digits, path, classes, dtype):
    X, y = digits[0].astype(dtype), classes[digits[1]]
    model = quick(max_iter=1).fit(X, y)
    save(model, path)
    restored = load(path)
    assert restored.predict(X).dtype == model.classes_.dtype.newbyteorder("=")
    np.testing.assert_array_equal(restored.predict(X), model.predict(X))
    assert restored.components_.dtype == dtype


def test_multilabel_targets(path):
    X, Y = make_multilabel_classification(n_samples=100, n_features=20, n_classes=4, random_state=0)
    model = quick().fit(normalise(X), Y)
    restored = round_trip(model, path)
    np.testing.assert_array_equal(restored.predict(normalise(X)), model.predict(normalise(X)))


def test_feature_names(digits, path):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(digits[0], columns=[f"pixel {i}" for i in range(64)])
    restored = round_trip(quick().fit(frame, digits[1]), path)
    with pytest.raises(ValueError, match="feature names"):
        restored.predict(frame[frame.columns[::-1]])


def test_initial_dictionaries_weights_and_unlabelled_samples(digits, path):
    X, y = digits
    target = np.where(np.arange(len(y)) < 20, y, -1)
    round_trip(quick(init=X[:30], unlabeled=-1).fit(X, target), path)
    # Numbers of NumPy are stored as arrays, and all weights once had the name of the last.
    round_trip(quick(init=X[:30].tolist(), class_weight={n: np.float64(1 + n) for n in range(10)}).fit(X, y), path)
    round_trip(quick(init=np.asfortranarray(X[:30])).fit(X, y), path)


def test_an_error_that_was_not_measured_is_nan_again(digits, path):
    # Of many samples only some are monitored, and these may have no labels.
    model = quick().fit(*digits)
    model.history_[-1] = model.history_[-1]._replace(label_free_error=float("nan"))
    save(model, path)
    assert np.isnan(load(path).history_[-1].label_free_error)


def test_ksvd_is_saved(digits, path):
    X, _ = digits
    for dtype in (np.float32, np.float64):
        ksvd = KSVD(20, max_iter=2, sparse_coder=OMP(tol=0.1), random_state=0).fit(X.astype(dtype))
        restored = round_trip(ksvd, path)
        assert abs(restored.transform(X) - ksvd.transform(X)).max() == 0


def test_warm_start_goes_on_from_a_loaded_model(digits, path):
    X, y = digits
    model = quick(warm_start=True).fit(X, y)
    restored = round_trip(model, path)
    np.testing.assert_array_equal(restored.fit(X, y).components_, model.fit(X, y).components_)


def test_codes_may_have_been_dropped(digits, path):
    model = quick().fit(*digits)
    del model.codes_, model.noise_variance_
    restored = round_trip(model, path)
    assert not hasattr(restored, "codes_")


def test_a_model_that_was_not_refined_has_no_trace_of_it(digits, model, path):
    refined = quick(refine=make_refiner(2), description="unit").fit(*digits)
    restored = round_trip(refined, path)
    assert [record.epoch for record in restored.refinement_] == [0, 1, 2]
    assert np.isnan(restored.refinement_[0].training_cost)
    assert not hasattr(round_trip(refined.set_params(refine=None).fit(*digits), path), "refinement_")
    assert not hasattr(round_trip(model, path), "refinement_")


def test_the_summary_has_the_epoch_that_was_kept(digits, path):
    model = quick(refine=make_refiner(3, validation_fraction=0.1), description="unit").fit(*digits)
    save(model, path)
    summary = read_container(path, MODEL).content["summary"]
    errors = [record.validation_error for record in model.refinement_]
    assert summary["n_epochs"] == 3
    assert summary["validation_error"] == min(errors) == errors[summary["best_epoch"]]
    save(model.set_params(refine=Refiner(3)).fit(*digits), path)
    summary = read_container(path, MODEL).content["summary"]
    assert summary["best_epoch"] == 3
    assert "validation_error" not in summary


def test_the_layout_of_arrays_comes_back_too(path):
    # BLAS may round products of a matrix and of its transposed copy differently.
    rows = np.arange(6.0).reshape(2, 3)
    arrays = {"rows": rows, "columns": rows.T, "every other": rows[:, ::2]}
    write_container(path, MODEL, {}, arrays)
    restored = read_container(path, MODEL).arrays
    for name, array in arrays.items():
        np.testing.assert_array_equal(restored[name], array)
        assert restored[name].flags.writeable
    assert restored["columns"].flags.fnc
    assert restored["rows"].flags.c_contiguous


def test_the_same_model_gives_the_same_bytes(model, path):
    save(model, path)
    before = path.read_bytes()
    save(load(path), path)
    assert path.read_bytes() == before


def test_any_tool_for_safetensors_can_look_into_the_file(model, path):
    save(model, path)
    with safetensors.safe_open(path, "np") as file:
        header = json.loads(file.metadata()["ddlearn"])
        np.testing.assert_array_equal(file.get_tensor("components_"), model.components_)
    assert header["library_version"] == __version__
    last = model.history_[-1]
    assert header["content"]["summary"] == {
        "n_samples": 150,
        "n_features": 64,
        "n_components": 30,
        "n_classes": 10,
        "n_iter": 2,
        "converged": False,
        "description": type(model.description_).__name__,
        "objective": last.objective,
        "training_error": last.training_error,
        "label_free_error": last.label_free_error,
    }


# -- strategies of the user -------------------------------------------------------------------------------------------


class Hinge(SquaredHinge):
    """A user's loss with a parameter."""

    def __init__(self, steepness: float = 1.0):
        self.steepness = steepness

    def value(self, margin):
        return self.steepness * super().value(margin)


def test_a_users_loss_must_be_passed_and_gets_its_parameters_back(digits, path):
    X, y = digits
    model = begin(Hinge(2.0)).fit(X, y)
    save(model, path)
    with pytest.raises(ModelFileError, match=r"an object of the class Hinge.*load\(path, loss=Hinge\(\.\.\.\)\)"):
        load(path)
    restored = load(path, loss=Hinge())
    assert_same(restored, model)
    np.testing.assert_array_equal(restored.predict_proba(X), model.predict_proba(X))
    with pytest.raises(ModelFileError, match=r"of the class Hinge, but loss=SquaredHinge\(\) was passed"):
        load(path, loss=SquaredHinge())


def test_a_subclass_of_a_registered_class_is_not_taken_for_it(digits, path):
    class Louder(SmoothHinge):
        def value(self, margin):
            return 2 * super().value(margin)

    save(begin(Louder()).fit(*digits), path)
    with pytest.raises(ModelFileError, match="pass one"):
        load(path)
    assert type(load(path, loss=Louder()).loss_) is Louder


def test_a_loss_without_parameters_of_scikit_learn(digits, path):
    names = [name for name in (*vars(Loss), "check_parameters") if name[0] != "_"]
    Plain = type("Plain", (), {name: getattr(SquaredHinge, name) for name in names})
    loss = Plain()
    save(begin(loss).fit(*digits), path)
    assert load(path, loss=loss).loss_ is loss


def test_the_loss_of_the_fit_is_not_the_loss_of_the_next_fit(digits, path):
    model = begin(SmoothHinge(2.0)).fit(*digits).set_params(loss__sharpness=9.0)
    assert round_trip(model, path).loss_.sharpness == 2.0
    model = begin(Hinge(2.0)).fit(*digits).set_params(loss="square")
    assert round_trip(model, path, loss=Hinge()).loss_.steepness == 2.0


def test_a_registered_loss_must_be_registered_where_it_is_loaded(digits, path, monkeypatch):
    monkeypatch.setitem(LOSSES, "hinge", Hinge)
    save(begin(Hinge(2.0)).fit(*digits), path)
    assert load(path).loss_.steepness == 2.0
    monkeypatch.undo()
    with pytest.raises(ModelFileError, match="registered as 'hinge', which is not registered here"):
        load(path)


def test_a_nested_object_is_passed_under_its_nested_name(digits, path):
    class Impatient(AlternatingErrors):
        pass

    model = quick(robustness=Robustness(0.1, error_search=Impatient(max_iter=1))).fit(*digits)
    save(model, path)
    with pytest.raises(ModelFileError, match=r"load\(path, robustness__error_search=Impatient\(\.\.\.\)\)"):
        load(path)
    assert_same(load(path, robustness__error_search=Impatient()), model)


def test_one_name_for_two_classes_is_refused(model, path, monkeypatch):
    monkeypatch.setitem(LOSSES, "greedy", Hinge)
    with pytest.raises(ValueError, match="'greedy' is registered for Hinge and for GreedyErrors"):
        save(model, path)


def test_what_is_in_the_file_cannot_be_passed(model, path):
    save(model, path)
    for strategies in ({"loss": Hinge()}, {"los": Hinge()}):
        with pytest.raises(TypeError, match="cannot be passed"):
            load(path, **strategies)


# -- what cannot be saved ----------------------------------------------------------------------------------------------


def test_what_cannot_be_saved_is_named(digits, model, path):
    with pytest.raises(NotFittedError):
        save(make_pursuit(), path)
    with pytest.raises(TypeError, match=r"StandardScaler cannot be saved, only DDLClassifier, .*, KSVD"):
        save(StandardScaler().fit(digits[0]), path)
    with pytest.raises(TypeError, match=r"classes_ is an array of dtype .*, which a file cannot hold"):
        save(quick(max_iter=0).fit(digits[0], digits[1].astype(np.longdouble)), path)
    broken = quick(max_iter=0).fit(*digits)
    broken.coef_[0, 0] = np.nan
    with pytest.raises(ValueError, match="cannot be saved: coef_ has values that are not finite"):
        save(broken, path)
    assert not path.exists()


def test_names_that_would_not_fit_into_a_header_are_not_written(digits, path, monkeypatch):
    monkeypatch.setattr(container, "MAX_HEADER_BYTES", 2000)
    with pytest.raises(ValueError, match="more than the 2000"):
        save(quick(max_iter=0).fit(*digits), path)
    assert not path.exists()


def test_two_fits_with_one_path_end_with_one_whole_file(digits, path):
    models = [quick(random_state=seed).fit(*digits) for seed in range(3)]
    threads = [threading.Thread(target=save, args=(model, path)) for model in models]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert load(path).random_state in range(3)


# -- damaged and foreign files -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a small model, and a place to damage them."""
    X, y = load_digits(return_X_y=True)
    path = tmp_path_factory.mktemp("fuzz") / "model"
    model = make_pursuit(6, n_nonzero_coefs=2, max_iter=1, refine=1, random_state=0)
    save(model.fit(X[:20, :20], y[:20] % 2), path)
    return path.read_bytes(), path


def reread(whole):
    """Return what the whole file holds."""
    whole[1].write_bytes(whole[0])
    return read_container(whole[1], MODEL)


def refuse(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(ModelFileError):
        load(path)


@fuzzed
@given(share=st.floats(0, 1, exclude_max=True))
def test_truncated_files_are_refused(whole, share):
    data, path = whole
    refuse(path, data[: int(share * len(data))])


@fuzzed
@given(share=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_flipped_bits_are_refused(whole, share, bit):
    data, path = whole
    damaged = bytearray(data)
    damaged[int(share * len(data))] ^= 1 << bit
    refuse(path, damaged)


@fuzzed
@given(data=st.data())
def test_other_bytes_in_the_header_are_refused(whole, data):
    content, path = whole
    n_header = 8 + int.from_bytes(content[:8], "little")
    damaged = bytearray(content)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, n_header - 1))
        # Printable characters most of the time: others seldom get past the first parser.
        damaged[place] = data.draw(st.one_of(st.integers(32, 126), st.integers(0, 255)))
    if damaged != content:
        refuse(path, damaged)


@fuzzed
@given(garbage=st.binary(max_size=300), n_header=st.none() | st.integers(0, 2**64 - 1))
def test_garbage_is_refused(whole, garbage, n_header):
    refuse(whole[1], garbage if n_header is None else struct.pack("<Q", n_header) + garbage)


@fuzzed
@given(garbage=st.binary(min_size=1, max_size=20))
def test_bytes_too_many_are_refused(whole, garbage):
    refuse(whole[1], whole[0] + garbage)


ODD_VALUES = [
    *(None, True, 0, -1, 3, 10**30, 1.5, -1.5, "", "KSVD", "ormp", "square", [], [None, None], {}),
    *({"type": kind} for kind in (None, [])),
    *({"type": kind} for kind in ("array", "csr", "named", "scalar", "strategy", "strings", "tuple", "other")),
    {"type": "array", "kept": "no such array"},
    {"type": "array", "kept": "components_"},
    {"type": "csr", "shape": [20, 6], "data": 1, "indices": 2, "indptr": 3},
    {"type": "dates", "dtype": "<f8", "kept": "coef_"},
    {"type": "float", "value": "nan"},
    {"fields": [], "rows": []},
    {"type": "named", "class": "Hinge", "parameters": {}},
    {"type": "random_state", "state": []},
    {"type": "scalar", "value": 3},
    {"type": "strategy", "name": "smooth_hinge", "parameters": {"sharpness": -1.0}},
    {"type": "strategy", "name": "square", "parameters": {"sharpness": 1.0}},
    {"type": "strategy", "name": "alignment", "parameters": {}},
    {"type": "strategy", "name": "os.system", "parameters": {"command": "true"}},
    {"type": "strings", "dtype": "<U1", "shape": [2], "items": ["a", "bc"]},
    {"type": "strings", "dtype": "<U1000000000", "shape": [2], "items": ["a", "b"]},
    {"type": "strings", "dtype": "O", "shape": [2], "items": ["a", "a"]},
    {"type": "strings", "dtype": "<U1", "shape": [3], "items": ["a", "b"]},
    {"type": "strings", "dtype": "<f8", "shape": [2], "items": ["a", "b"]},
    {"type": "tuple", "items": [1, 2]},
]


STORED = ["class", *sorted(_ATTRIBUTES["DDLClassifier"] - {"feature_names_in_"})]


@fuzzed
@given(name=st.sampled_from(STORED), value=st.sampled_from(ODD_VALUES))
@example(name="history_", value={"type": "strings", "dtype": "O", "shape": [2], "items": ["a", "a"]})
def test_content_of_another_type_is_refused_though_its_hash_is_right(whole, name, value):
    path = whole[1]
    content, arrays = reread(whole)
    # Attributes are all checked; parameters are the user's own until they are used.
    branch = content["attributes"] | {"class": content["class"]}
    plausible = {"n_nonzero_coefs_": 3, "median_noise_variance_": 1.5}
    plausible |= {"converged_": True, "is_multilabel_": True}
    is_harmless = name == "target_name_" and isinstance(value, str)
    if value == branch.get(name, "absent") or (name in plausible and value is plausible[name]) or is_harmless:
        return
    (content if name == "class" else content["attributes"])[name] = value
    write_container(path, MODEL, content, arrays)
    with pytest.raises(ModelFileError):
        load(path)


@fuzzed
@given(data=st.data())
def test_arrays_of_another_shape_or_type_are_refused_though_their_hash_is_right(whole, data):
    path = whole[1]
    content, arrays = reread(whole)
    name = data.draw(st.sampled_from(sorted(arrays)))
    array = arrays[name]
    damaged = data.draw(
        st.sampled_from(
            [
                array[:-1],
                np.concatenate([array, array[-1:]]),
                array[None],
                array.ravel()[:0],
                array.astype(np.float16),
                array.astype(np.complex64),
                np.zeros((0, 2**20)),
                -1 - array if array.dtype.kind == "i" else np.full_like(array, np.nan),
                10 + array if name.endswith(("indices", "indptr")) else np.full_like(array, np.inf, dtype=float),
            ]
        )
    )
    if name == "classes_" and damaged.shape == array.shape and len(np.unique(damaged)) == len(array):
        return  # other names for classes are as good as these
    if name.startswith("search_") and damaged.shape == array.shape and np.isnan(damaged).all():
        return  # a column of the search that no setting has
    write_container(path, MODEL, content, arrays | {name: damaged})
    with pytest.raises(ModelFileError):
        load(path)


# Numbers that would make work endless or results infinite, and values of all types, in any place.
EXTREMES = [0, -1, 2, 10**5 + 1, 10**9, 10**18, 2**70, 0.0, -1.0, 1e-308, 1e308]
EXTREMES += ["full", "mask", "affine", "", None, True, [1, 2], {"type": "float", "value": "inf"}]
EXTREMES += [{"type": "tuple", "items": [4, 5]}, {"type": "tuple", "items": []}]
STRATEGIES = {
    "alignment": {"n_rounds": 10**9, "tol": 0},
    "elastic_net": {"alpha": None, "max_rounds": 2**70},
    "full": {"n_candidates": 1},
    "jitter": {"shift": 1e300},
    "omp": {"tol": "abc", "n_swaps": 10**18},
    "printed": {"max_iter": 10**18, "tol": 0},
    "refiner": {"jitter": "elastic"},
    "robustness": {"error_budget": 3, "missing": "mask"},
    "smooth_hinge": {"sharpness": 1e-308},
    "standard": {},
}
FACTORS = [0, -1, 1e-320, 1e20, 1e154, 1e300, np.inf]


def list_places(node, path=()):
    """Yield the path of every value in JSON."""
    for key, value in node.items() if isinstance(node, dict) else enumerate(node):
        yield (*path, key)
        if isinstance(value, dict | list):
            yield from list_places(value, (*path, key))


def change(content, arrays, rng):
    """Change one value, or one array, in a way that a stranger might."""
    if rng.random() < 0.25:
        name = rng.choice(sorted(arrays))
        array = np.array(arrays[name])
        if array.dtype.kind != "f":
            array = array[::-1].copy()
        elif rng.random() < 0.5:
            array.flat[rng.integers(array.size)] = rng.choice(FACTORS)
        else:
            with np.errstate(all="ignore"):
                array *= array.dtype.type(rng.choice(FACTORS))
        arrays[name] = array
        return
    branch = content[rng.choice(["parameters", "attributes"], p=[0.7, 0.3])]
    places = list(list_places(branch))
    *path, key = places[rng.integers(len(places))]
    for step in path:
        branch = branch[step]
    kind = rng.integers(6)
    if kind == 0 and isinstance(branch, dict):
        branch[f"{key}x" if rng.random() < 0.5 else "n_jobs"] = branch.pop(key)
    elif kind == 1:
        name = rng.choice(sorted(STRATEGIES))
        branch[key] = {"type": "strategy", "name": str(name), "parameters": dict(STRATEGIES[name])}
    else:
        pool = EXTREMES if kind < 5 else ODD_VALUES
        branch[key] = copy.deepcopy(pool[rng.integers(len(pool))])


def test_a_file_from_a_stranger_is_refused_or_predicts(whole):
    # The hash is right in each of them.
    path = whole[1]
    X = np.random.default_rng(0).standard_normal((4, 20))
    outcomes = {"refused": 0, "predicts": 0}
    for seed in range(10_000 if IS_NIGHTLY else 150):
        rng = np.random.default_rng(seed)
        content, arrays = reread(whole)
        for _ in range(rng.integers(1, 4)):
            change(content, arrays, rng)
        write_container(path, MODEL, content, arrays)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                restored = load(path)
            except ModelFileError:
                outcomes["refused"] += 1
                continue
            try:
                found = restored.predict_proba(X)
            except Exception as error:
                if "rescale the data" not in str(error):  # these samples have other units than the model
                    raise AssertionError(f"seed {seed}: {error!r} in predict") from error
                continue
        assert np.isfinite(found).all(), seed
        assert len(restored.predict(X)) == 4
        save(restored, path)  # what was loaded can be saved
        outcomes["predicts"] += 1
    assert min(outcomes.values()) > 20


def make_text(dtype, items=("a",)):
    return {"type": "strings", "dtype": dtype, "shape": [len(items)], "items": items}


def make_strategy(name, **parameters):
    return {"type": "strategy", "name": name, "parameters": parameters}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_views", 10**9, "n_views must be at most 1000"),
        ("n_jobs", "abc", "n_jobs must be None or an integer"),
        ("inference", ["fast"], "inference"),
        ("classification_weight", 1e308, "classification_weight"),
        ("label_coding", make_strategy("printed", max_iter=10**18), "max_iter"),
        ("unlabeled", make_text("<U67108863"), "too large"),
        ("unlabeled", [make_text("<U9000000")] * 9, "too large"),
        ("unlabeled", ["a"] * 99_000, "unlabeled is a list of several values, not a label"),
        ("init", [[]] * 200_000, "more than 100000 lists"),
        ("init", [[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]], "nested deeper than 20"),
        ("sparse_coder_", make_strategy("elastic_net"), "penalty is not known"),
        ("sparse_coder_", make_strategy("omp", tol="abc"), "tol must be"),
        ("sparse_coder_", make_strategy("omp", tol=10**400), "tol .* too large"),
        ("loss_", make_strategy("softplus_hinge", sharpness=1e-308), "sharpness"),
        ("loss_", make_strategy("square") | {"learned": {"value": 1}}, "cannot have learned value"),
        ("loss_", "square", "not an object"),
        ("classes_", make_text("O", {"a": "b", "c": "d"}), "not a string"),
        ("target_name_", ["x"] * 99_000, r"target_name_ is \['x', .* \.\.\. .*'x'\]\.$"),
        ("class_cost_", 0.0, "out of range"),
        ("class_cost_", -1.0, "out of range"),
        ("class_prior_", 2.0, "not probabilities"),
        ("coef_", 1e308, "out of range"),
        ("coef_", 1e154, "out of range"),  # its square is finite, that of a score need not be
        ("components_", 1e200, "out of range"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_would_break_a_prediction_is_refused_in_few_words(whole, name, value, message):
    content, arrays = reread(whole)
    if name in arrays and isinstance(value, float):
        arrays[name] = np.full_like(arrays[name], value)
    else:
        content["attributes" if name.endswith("_") else "parameters"][name] = value
    write_container(whole[1], MODEL, content, arrays)
    with pytest.raises(ModelFileError, match=message) as refusal:
        load(whole[1])
    assert len(str(refusal.value)) < 1500  # whatever the file holds


@pytest.mark.parametrize(
    ("scaler", "key", "value", "message"),
    [
        # Zeros alone may pass; then every prediction would blame the user's samples.
        *((StandardScaler(with_mean=False), "scale_", n, "zeros and ones") for n in (0.0, np.nan, 1e-308)),
        # Where scikit-learn takes them for granted, after a fit, it raises an UnboundLocalError.
        *((QuantileTransformer(n_quantiles=5), "output_distribution", how, "parameter of Quant") for how in ("zz", 5)),
    ],
)
def test_a_stored_scaler_that_would_break_a_prediction_is_refused(digits, path, scaler, key, value, message):
    save(quick(description=scaler, max_iter=1).fit(*digits), path)
    content, arrays = read_container(path, MODEL)
    if key.endswith("_"):
        arrays[f"description_.transformer.{key}"][:] = value
    else:
        content["attributes"]["description_"]["parameters"]["transformer"]["parameters"][key] = value
    write_container(path, MODEL, content, arrays)
    with pytest.raises(ModelFileError, match=message):
        load(path)


def test_so_many_atoms_that_their_products_would_take_all_memory_are_refused(whole):
    content, arrays = reread(whole)
    n_atoms = 40_000
    arrays |= {"components_": np.ones((n_atoms, 21)), "coef_": np.ones((2, n_atoms))}
    content["attributes"].pop("codes_")
    write_container(whole[1], MODEL, content, {name: array for name, array in arrays.items() if "codes_" not in name})
    with pytest.raises(ModelFileError, match="40000 atoms"):
        load(whole[1])


@pytest.mark.skipif(os.name == "nt", reason="needs sparse files")
def test_a_model_that_was_made_longer_is_not_read(whole):
    path = whole[1]
    path.write_bytes(whole[0])
    os.truncate(path, 2**36)  # 64 GB that take no room on the disk
    with pytest.raises(ModelFileError, match=f"68719476736 bytes instead of {len(whole[0])}"):
        load(path)
    path.write_bytes(b"")


def header_of(data: bytes) -> bytes:
    return data[8 : 8 + int.from_bytes(data[:8], "little")]


@pytest.mark.parametrize("claim", [2**62, 2**64 - 1, 2**40, container.MAX_HEADER_BYTES + 1])
def test_a_header_that_claims_to_be_huge_is_not_read(whole, claim):
    data, path = whole
    path.write_bytes(struct.pack("<Q", claim) + data[8:])
    with pytest.raises(ModelFileError, match=f"claims a header of {claim} bytes"):
        load(path)


def test_deep_nesting_and_foreign_files_are_refused(model, tmp_path):
    deep = [b"[" * 100_000, b'{"a":' * 100_000, b"9" * 100_000]
    tensors = [
        safetensors.numpy.save({"weight": np.zeros(3)}, entry) for entry in (None, {"format": "pt"}, {"ddlearn": "1"})
    ]
    for content in (
        *(struct.pack("<Q", len(text)) + text for text in deep),
        *(b"", b"5.1,3.5,1.4,0.2,setosa\n" * 100, pickle.dumps(model), bytes(1000), *tensors),
    ):
        refuse(tmp_path / "foreign", content)
    np.savez(tmp_path / "arrays.npz", model.components_)
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("model", "model")
    np.save(tmp_path / "array.npy", model.components_)
    for name in ("arrays.npz", "archive.zip", "array.npy"):
        with pytest.raises(ModelFileError):
            load(tmp_path / name)


def test_folders_pipes_and_missing_files(tmp_path):
    with pytest.raises(ModelFileError, match="is not a file but a folder"):
        load(tmp_path)
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "missing")
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(ModelFileError, match="is not a file"):
            load(tmp_path / "pipe")


@pytest.mark.skipif(os.name == "nt", reason="needs sparse files")
def test_a_huge_foreign_file_is_not_read(tmp_path):
    # 8 GB that take no room on the disk.
    path = tmp_path / "huge"
    data = safetensors.numpy.save({"weight": np.zeros(3)})
    with path.open("wb") as file:
        file.write(data)
        file.truncate(2**33)
    with pytest.raises(ModelFileError, match="not that of a ddlearn file"):
        load(path)


def test_the_hash_is_that_of_the_file_with_zeros_in_its_place(whole):
    data, _ = whole
    digest = json.loads(json.loads(header_of(data))["__metadata__"]["ddlearn"])["sha256"]
    assert hashlib.sha256(data.replace(digest.encode(), b"0" * 64, 1)).hexdigest() == digest


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (7, f"format version 7, written by ddlearn {__version__}.*upgrade ddlearn"),
        (0, "there is no format version 0"),
        (5, r"old format version 5.*use the version of ddlearn that wrote it"),
    ],
)
def test_newer_and_unknown_formats_say_what_to_do(model, path, monkeypatch, version, message):
    with monkeypatch.context() as patches:
        patches.setattr(container, "FORMAT_VERSION", version)
        save(model, path)
    with pytest.raises(ModelFileError, match=message):
        load(path)


def test_a_checkpoint_is_not_a_model(digits, path):
    quick().set_callbacks(Checkpoint(path)).fit(*digits)
    with pytest.raises(ModelFileError, match=r"it is a checkpoint, not a model: resume it with ddlearn\.Checkpoint"):
        load(path)


def test_a_save_that_is_interrupted_leaves_the_old_model(digits, model, path, monkeypatch):
    save(model, path)
    before = path.read_bytes()
    other = quick(random_state=1).fit(*digits)
    monkeypatch.setattr(os, "replace", lambda *paths: signal.raise_signal(signal.SIGINT))
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            save(other, path)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert path.read_bytes() == before
    assert os.listdir(path.parent) == [path.name]
