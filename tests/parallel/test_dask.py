"""Dask: the same model as in memory, whatever happens to the workers, and nothing of the data on the client."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from typing import ClassVar
from uuid import uuid4

import numpy as np
import pytest
from conftest import Callback, make_pursuit, make_refiner, normalise
from modes import NOTHING, REFUSED, draw_samples, is_same, list_cases
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.datasets import load_digits

from ddlearn import (
    KSVD,
    Checkpoint,
    ClassifierTrainer,
    ConjugateScales,
    DDLClassifier,
    ElasticNet,
    LostClusterError,
    ModelFileError,
    Refiner,
    Robustness,
    Standard,
    UnitNorm,
    load,
    save,
)
from ddlearn.files.store import locate
from ddlearn.fitting import loop
from ddlearn.parallel import pair_chunks
from ddlearn.parallel.dask import ClusterSession

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
distributed = pytest.importorskip("distributed")

PART_ROWS = 256
N_SAMPLES = 700  # three parts on two workers
ARRAYS = ("components_", "coef_", "intercept_", "class_cost_", "class_prior_")


@contextmanager
def start_cluster(**options):
    # Nothing listens on a fixed port, so that several runs do not meet.
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": ":0"} | options
    without_profile = dask.config.set({"distributed.worker.profile.enabled": False})  # a fifth of the time
    with without_profile, distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def clients():
    """Clients of workers in threads, which cost least, by the protocol of their cluster."""
    with ExitStack() as running:
        yield cache(lambda protocol: running.enter_context(start_cluster(processes=False, protocol=protocol)))


@pytest.fixture
def client(clients):
    """Current in each test, whatever other clusters there are by now."""
    with clients("inproc").as_current():
        yield clients("inproc")


@pytest.fixture
def tcp_client(clients):
    """What is sent to these workers is packed as for processes."""
    with clients("tcp").as_current():
        yield clients("tcp")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return normalise(X[:N_SAMPLES]), y[:N_SAMPLES]


def on_dask(X, y, chunk=PART_ROWS):
    return da.from_array(X, chunks=(chunk, -1)), da.from_array(y, chunks=chunk)


def make_model(**changes):
    settings = {"n_components": 40, "max_iter": 1, "tol": 0, "dictionary_update": "block_coordinate", "random_state": 0}
    return make_pursuit(**settings | changes)


def assert_same_model(one, other, **tolerance):
    for name in ARRAYS:
        compare = np.testing.assert_allclose if tolerance else np.testing.assert_array_equal
        compare(getattr(one, name), getattr(other, name), **tolerance)
    assert one.n_iter_ == other.n_iter_
    assert one.n_samples_seen_ == other.n_samples_seen_
    assert one.classes_.tolist() == other.classes_.tolist()
    errors = [[record.training_error for record in model.history_] for model in (one, other)]
    assert errors[0] == (pytest.approx(errors[1]) if tolerance else errors[1])  # weights do not add up exactly
    assert [r.n_swapped for r in one.history_] == [r.n_swapped for r in other.history_]


@pytest.mark.bitwise
@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({}, marks=pytest.mark.nightly),  # as is that of processes, one of them killed
        {"loss": "logistic", "dictionary_update": "atom", "scales": ConjugateScales("shared")},
        pytest.param({"loss": "smooth_hinge", "unlabeled": 3}, marks=pytest.mark.nightly),
        {"n_components": 150, "n_nonzero_coefs": 1, "init": "gaussian"},  # atoms that nobody uses are replaced
    ],
    ids=["square", "logistic", "unlabelled", "unused"],
)
def test_the_model_is_bitwise_that_of_memory_for_the_same_parts(client, digits, changes, monkeypatch):
    monkeypatch.setattr("ddlearn.fitting.data.PART_ROWS", PART_ROWS)
    here = make_model(max_iter=2, **changes).fit(*digits)
    there = make_model(max_iter=2, **changes).fit(*on_dask(*digits))
    assert_same_model(there, here)
    assert there.median_noise_variance_ == here.median_noise_variance_
    for mine, theirs in zip(there.priors_, here.priors_, strict=True):
        np.testing.assert_array_equal(mine, theirs)
    if changes.get("init") == "gaussian":
        assert sum(record.n_replaced for record in here.history_) > 0


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({}, lambda y: y),
        ({"class_weight": "balanced"}, lambda y: y),
        ({}, lambda y: np.stack([y % 2, y > 4], axis=1).astype(int)),  # several labels a sample
        ({"unlabeled": np.nan}, lambda y: [f"digit {label}" if label else float("nan") for label in y]),
    ],
    ids=["digits", "weights", "several labels", "text"],
)
def test_the_model_is_that_of_memory_to_1e_8_for_other_parts(client, digits, changes, name):
    X, labels = digits[0], name(digits[1])
    here = make_model(**changes).fit(X, labels)  # one part
    lazy_X = on_dask(X, digits[1], chunk=300)[0]  # not even whole tiles
    there = make_model(**changes).fit(lazy_X, labels)
    assert_same_model(there, here, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(there.class_prior_, here.class_prior_)
    np.testing.assert_array_equal(there.predict(lazy_X).compute(), here.predict(X))
    if here.is_multilabel_:
        assert here.score(*on_dask(X, labels)) == pytest.approx(here.score(X, labels))


@pytest.mark.parametrize(
    "description", [pytest.param("auto", marks=pytest.mark.nightly), "standard"]
)  # the first is that of unit norm
def test_scaling_is_learned_from_sums_over_the_parts(client, digits, description):
    X = digits[0] * np.linspace(1, 100, 64) + 5
    here, there = (
        make_model(description=description).fit(X, digits[1]),
        make_model(description=description).fit(*on_dask(X, digits[1], chunk=300)),
    )
    assert type(here.description_) is type(there.description_) is {"auto": UnitNorm, "standard": Standard}[description]
    for name, value in here.description_.get_params().items():
        np.testing.assert_allclose(there.description_.get_params()[name], value, rtol=1e-10, atol=1e-12)
    assert_same_model(there, here, rtol=1e-6, atol=1e-6)
    lazy = there.transform(on_dask(X, digits[1])[0])
    assert lazy.shape == (N_SAMPLES, 40)
    np.testing.assert_array_equal(there.predict(on_dask(X, digits[1])[0]).compute(), there.predict(X))


def test_an_outlier_on_a_worker_is_named(client, digits):
    X, y = digits
    X = X + np.random.default_rng(0).standard_normal(X.shape)
    X[300, 7] = 1e60
    with pytest.warns(UserWarning, match=r"X is 1e\+60 in row 300, feature 7"):
        make_model(description="standard").fit(*on_dask(X, y))


def test_float32_stays_float32_and_text_stays_text(client, digits):
    X, y = digits
    names = np.array([f"digit {label}" for label in y])
    model = make_model().fit(*on_dask(X.astype(np.float32), names))
    assert model.components_.dtype == np.float32
    assert model.classes_.tolist() == [f"digit {label}" for label in range(10)]
    assert model.score(*on_dask(X.astype(np.float32), names)) > 0.8


def look_at_arrays(pair, value):
    return [array.flags.aligned for array in (*pair, *value[1:])], value[1:]


def test_arrays_arrive_aligned_wherever_they_go(tcp_client, digits):
    # At odd addresses BLAS takes another routine, and a fit in float32 was another model each time.
    X, y = digits
    parts = pair_chunks(*on_dask(X.astype(np.float32), y)).map(shift_addresses)
    for n_bytes in range(1, 8):
        value = "x" * n_bytes, np.ones((3, 5), np.float32), np.ones(7)
        for are_aligned, back in parts.collect(look_at_arrays, value):
            assert all(are_aligned)
            assert all(array.flags.aligned for array in back)
    parts.release()


def shift_addresses(pair):
    return tuple(np.require(array, requirements="A") for array in pair)


@pytest.mark.bitwise
@pytest.mark.parametrize("is_scaled", [True, pytest.param(False, marks=pytest.mark.nightly)])
def test_float32_is_bitwise_that_of_memory_and_of_another_run(tcp_client, digits, is_scaled, monkeypatch):
    monkeypatch.setattr("ddlearn.fitting.data.PART_ROWS", PART_ROWS)
    X, y = digits[0].astype(np.float32), digits[1]
    model = make_model(description="auto" if is_scaled else None)
    here = model.fit(X, y).components_
    for _ in range(2):
        np.testing.assert_array_equal(model.fit(*on_dask(X, y)).components_, here)


@pytest.mark.nightly
def test_float32_fits_on_processes_are_one_model_also_after_losses(digits, tmp_path):
    X, y = load_digits(return_X_y=True)
    data, path = on_dask(X.astype(np.float32), y), tmp_path / "fit"
    with start_cluster() as client:
        expected = make_model(max_iter=4).fit(*data)
        for _ in range(4):
            assert_same_model(make_model(max_iter=4).fit(*data), expected)
        model = make_model(max_iter=4).set_callbacks(Checkpoint(path), Disaster(2, lambda: kill_a_worker(client)))
        assert_same_model(model.fit(*data), expected)
    with start_cluster(n_workers=3):
        interrupted = make_model(max_iter=4).set_callbacks(Checkpoint(path), Disaster(1, interrupt))
        with pytest.raises(KeyboardInterrupt):
            interrupted.fit(*data)
    with start_cluster(n_workers=1):
        resumed = make_model(max_iter=4).set_callbacks(Checkpoint(path, resume=True))
        assert_same_model(resumed.fit(*data), expected)


def test_chunks_of_unknown_size_some_of_them_empty(client, digits):
    X, y = digits
    is_kept = (y > 2) & (np.arange(len(y)) < 512)  # none of the last chunk's rows
    lazy_X, lazy_y = on_dask(X, y)
    kept = da.from_array(is_kept, chunks=PART_ROWS)
    lazy_X, lazy_y = lazy_X[kept], lazy_y[kept]
    assert np.isnan(lazy_X.shape[0])
    model = make_model().fit(lazy_X, lazy_y)
    assert model.n_samples_seen_ == is_kept.sum()
    assert_same_model(model, make_model().fit(X[is_kept], y[is_kept]), rtol=1e-8, atol=1e-8)
    np.testing.assert_array_equal(model.predict(lazy_X).compute(), model.predict(X[is_kept]))


@pytest.mark.nightly
def test_chunks_of_columns_and_other_chunks_of_labels(client, digits):
    X, y = digits
    expected = make_model().fit(*on_dask(X, y))
    wide = make_model().fit(da.from_array(X, chunks=(PART_ROWS, 10)), da.from_array(y, chunks=100))
    assert_same_model(wide, expected)
    assert_same_model(make_model().fit(on_dask(X, y)[0], y.tolist()), expected)


@pytest.mark.bitwise
def test_predictions_wait_and_are_those_of_memory(tcp_client, digits):
    X, y = digits
    model = make_model().fit(X, y)
    lazy_X = on_dask(X, y)[0]
    for name in ("predict", "predict_proba", "predict_log_proba", "decision_function", "transform"):
        lazy, expected = getattr(model, name)(lazy_X), getattr(model, name)(X)
        assert isinstance(lazy, da.Array)
        assert lazy.shape == expected.shape
        assert lazy.dtype == expected.dtype
        computed = lazy.compute()
        assert type(computed) is type(expected)
        if isinstance(expected, csr_array):
            computed, expected = computed.toarray(), expected.toarray()
        np.testing.assert_array_equal(computed, expected)
    assert model.score(lazy_X, y) == model.score(X, y)
    weight = np.arange(len(y))
    assert model.score(lazy_X, y, weight) == pytest.approx(model.score(X, y, weight))
    mask = np.arange(64) < 8
    for form in (mask, np.broadcast_to(mask, X.shape)):
        np.testing.assert_array_equal(model.predict(lazy_X, form).compute(), model.predict(X, mask))


def test_a_model_that_changes_does_not_change_what_was_asked_before(client, digits):
    X, y = digits
    model = make_model().fit(X, y)
    expected = model.predict(X)
    lazy = model.predict(on_dask(X, y)[0])
    model.set_params(random_state=1, n_components=5).fit(X, y)
    assert (model.predict(X) != expected).any()
    np.testing.assert_array_equal(lazy.compute(), expected)


@pytest.mark.nightly
def test_a_model_from_dask_is_saved_and_loaded_without_the_names_of_earlier_features(client, digits, tmp_path):
    pd = pytest.importorskip("pandas")
    model = make_model().fit(pd.DataFrame(digits[0]).add_prefix("pixel"), digits[1])
    assert len(model.feature_names_in_) == 64
    model.fit(*on_dask(*digits))
    assert not hasattr(model, "feature_names_in_")
    assert not hasattr(model, "codes_")
    save(model, tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert loaded.n_samples_seen_ == len(digits[0])
    np.testing.assert_array_equal(loaded.predict(digits[0]), model.predict(digits[0]))


def list_keys(client):
    return {key for keys in client.has_what().values() for key in keys}


def wait_until_only(client, keys):
    deadline = time.monotonic() + 120  # far more than it takes, also on a busy machine
    while list_keys(client) - keys:
        assert time.monotonic() < deadline
        time.sleep(0.05)


class Hold(Callback):
    """A callback that keeps hold of the loop, and with it of all parts; and cannot be sent anywhere."""

    def __init__(self):
        self.loops, self.lock = [], threading.Lock()

    def on_fit_task_begin(self, estimator, context, *, metadata):
        self.loops.append(metadata)


def test_nothing_is_left_on_the_workers(tcp_client, digits):
    data = tcp_client.persist(on_dask(*digits))
    distributed.wait(data)
    before = list_keys(tcp_client)
    hold = Hold()
    make_model().set_callbacks(hold).fit(*data)
    assert hold.loops
    wait_until_only(tcp_client, before)


def test_data_on_another_cluster_are_named_as_a_cause(client, clients, digits):
    data = clients("tcp").persist(on_dask(digits[0] + 1, digits[1]))
    with pytest.raises(LostClusterError, match="persisted on another cluster than that of the current client"):
        make_model().fit(*data)


def test_nothing_is_left_on_the_workers_when_a_fit_cannot_begin(client, digits):
    X, y = digits
    broken = X.copy()
    broken[300, 3] = np.nan  # in the middle chunk
    before = list_keys(client)
    with pytest.raises(ValueError, match="X contains NaN in row 300, feature 3: a Dask array must be complete"):
        make_model(robustness=Robustness(missing="mask")).fit(*on_dask(broken, y))
    wait_until_only(client, before)


def test_scores_of_labels_in_other_forms(client, digits):
    X, y = digits
    model = make_model().fit(X, y)
    lazy_X, lazy_y = on_dask(X, y)
    for form in (lazy_y[:, None], y[:, None], lazy_y.rechunk(100)):
        assert model.score(lazy_X, form) == pytest.approx(model.score(X, y))
    for wrong, message in (
        (y[:-1], "inconsistent numbers of samples"),
        (y.astype(str), "give labels of one type"),
        (np.eye(10)[y], "y has shape"),
    ):
        with pytest.raises(ValueError, match=message):
            model.score(lazy_X, wrong)


def test_callbacks_stay_at_home(tcp_client, digits):
    X, y = digits
    model = make_model().set_callbacks(Hold()).fit(X, y)
    np.testing.assert_array_equal(model.predict(on_dask(X, y)[0]).compute(), model.predict(X))


def test_fits_in_several_threads(client, digits):
    before = dask.config.get("distributed.admin.large-graph-warning-threshold")
    data = on_dask(*digits)
    with ThreadPoolExecutor(2) as threads:
        assert_same_model(*threads.map(lambda _: make_model().fit(*data), range(2)))
    assert dask.config.get("distributed.admin.large-graph-warning-threshold") == before


def fit_inside(X, y):
    return make_model().fit(*on_dask(X, y))


@pytest.mark.nightly
def test_a_fit_inside_a_task_does_not_wait_for_itself(digits):
    with start_cluster(n_workers=1) as client:
        model = client.submit(fit_inside, *digits).result()
        assert_same_model(model, make_model().fit(*on_dask(*digits)))


@contextmanager
def count_bytes(monkeypatch):
    """Count what the client and the scheduler, which is in this process too, read and write."""
    from distributed.comm import tcp

    counted = []

    def read(frames, *arguments, original=tcp.from_frames, **options):
        counted.append(sum(memoryview(frame).nbytes for frame in frames))
        return original(frames, *arguments, **options)

    async def write(*arguments, original=tcp.to_frames, **options):
        frames = await original(*arguments, **options)
        counted.append(sum(memoryview(frame).nbytes for frame in frames))
        return frames

    with monkeypatch.context() as patches:
        patches.setattr(tcp, "from_frames", read)
        patches.setattr(tcp, "to_frames", write)
        yield counted


def draw_chunk(block_info):
    """Draw samples of two classes, on a worker."""
    (start, stop), _ = block_info[None]["array-location"]
    rng = np.random.default_rng(start)
    return rng.standard_normal((stop - start, 50)) + 3 * (np.arange(start, stop)[:, None] % 2) * (np.arange(50) < 9)


@pytest.mark.nightly
def test_traffic_does_not_grow_with_the_number_of_samples(monkeypatch):
    sizes, per_iteration, in_all = (8192, 65536), [], []
    with start_cluster():  # of processes: what workers tell each other is not counted
        for n_samples in sizes:
            chunks = ((n_samples // 2,) * 2, (50,))
            X = da.map_blocks(draw_chunk, chunks=chunks, dtype=float, meta=np.empty((0, 0)))
            y = da.arange(n_samples, chunks=n_samples // 2) % 2
            n_bytes = []
            for max_iter in (1, 5):
                with count_bytes(monkeypatch) as counted:
                    make_model(max_iter=max_iter, n_components=20).fit(X, y)
                n_bytes.append(sum(counted))
            per_iteration.append((n_bytes[1] - n_bytes[0]) / 4)
            in_all.append(n_bytes[1])
    assert per_iteration[0] > 10_000  # something does travel
    assert per_iteration[1] < 1.15 * per_iteration[0]  # heartbeats come when they like
    # Which class each sample has, for the draw of the first atoms, is all that is known of samples here.
    assert in_all[1] - in_all[0] < 20 * (sizes[1] - sizes[0])  # a sample has 400 bytes


@dataclass(frozen=True)
class Weights:
    """Arguments of a step that are sent field by field."""

    sent_by_fields: ClassVar[bool] = True

    matrix: np.ndarray
    offset: float
    row: np.ndarray


@dataclass(frozen=True)
class Steps:
    """A bundle in a bundle."""

    sent_by_fields: ClassVar[bool] = True

    weights: Weights
    exponent: int


def apply_steps(pair, steps, also):
    weights = steps.weights
    return ((pair[0] @ weights.matrix + weights.offset) ** steps.exponent + weights.row + also).sum(axis=0)


def test_only_fields_that_have_changed_are_sent_again(client, digits, monkeypatch):
    X, y = digits
    sent = []
    run = ClusterSession.run

    def record(session, graph, keys):
        sent.append([value for value, _ in graph.shared.values()])
        return run(session, graph, keys)

    monkeypatch.setattr(ClusterSession, "run", record)
    parts = pair_chunks(*on_dask(X, y))
    rng = np.random.default_rng(0)
    steps = Steps(Weights(rng.standard_normal((64, 5)), 1.5, np.arange(5.0)), 2)
    changed = replace(steps, weights=replace(steps.weights, row=np.ones(5), offset=2.5))
    new = [[steps.weights.matrix, steps.weights.row], [changed.weights.row], []]
    for each, arrays in zip((steps, changed, replace(changed, exponent=3)), new, strict=True):
        sent.clear()
        total = parts.add_up(apply_steps, each, each.weights.row)
        np.testing.assert_allclose(total, apply_steps((X, y), each, each.weights.row), rtol=1e-10)
        assert [[id(value) for value in values] for values in sent] == [[id(array) for array in arrays]]
    parts.release()


def test_attributes_of_parts_on_workers(client, digits):
    parts = pair_chunks(*on_dask(*digits)).map(make_bundle)
    n_rows = [len(bundle.matrix) for bundle in parts.gather()]
    assert sum(n_rows) == N_SAMPLES
    np.testing.assert_array_equal(np.concatenate(parts.gather("matrix")), digits[0])
    assert parts.map(attrgetter("row")).add_up(np.size) == N_SAMPLES
    assert parts.map(attrgetter("offset")).gather() == parts.gather("offset")  # a step without a name
    kept, n = parts.map_and_add_up(keep_and_count)
    assert n == N_SAMPLES
    assert kept.gather("offset") == parts.gather("offset")
    parts.release()


def make_bundle(pair):
    return Weights(pair[0], float(len(pair[0])), pair[1])


def keep_and_count(bundle):
    return bundle, len(bundle.row)


# -- what cannot be ----------------------------------------------------------------------------------------------------


class OwnTrainer(ClassifierTrainer):
    is_additive = False

    def train(self, codes, labels, loss, coef, intercept, *, penalties=None, n_jobs=None):
        return coef, intercept


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"dictionary_update": "ksvd"}, "dictionary_update='ksvd' needs all samples in one place.*'block_coordinate'"),
        ({"dictionary_update": "exact_ksvd"}, "use 'auto' or 'atom' or"),
        ({"classifier_trainer": OwnTrainer()}, "use 'auto', or derive it from ClassifierTrainer"),
    ],
    ids=["ksvd", "exact", "trainer"],
)
def test_strategies_that_need_all_samples_are_refused_before_any_work(digits, changes, message):
    with pytest.raises(ValueError, match=message):
        make_model(**changes).fit(*on_dask(*digits))


def test_what_cannot_work_on_dask_does_not_collect_it(digits):
    frames = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    X, _ = on_dask(*digits)
    frame = frames.from_pandas(pd.DataFrame(digits[0]), npartitions=2)
    model = make_model().fit(*digits)
    for refuses in (model.explain, KSVD(5).fit):
        with pytest.raises(TypeError, match=r"in memory or memory-mapped, not a Dask array"):
            refuses(X)
    with pytest.raises(TypeError, match="to_dask_array"):
        make_model().fit(frame, digits[1])


@pytest.mark.nightly
def test_without_a_client_the_message_says_how_to_get_one(digits):
    script = (
        "import dask.array as da, numpy as np\nfrom ddlearn import DDLClassifier\n"
        "X = da.ones((4, 2), chunks=2)\n"
        "DDLClassifier(dictionary_update='atom').fit(X, np.array([0, 1, 0, 1]))"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "ValueError: X is a Dask array, but there is no Dask client that could fit it: make one" in result.stderr


def fail_to_read(chunk):
    raise TimeoutError("the storage did not answer")


def test_what_goes_wrong_in_a_task_is_not_a_lost_cluster(client, digits):
    X, y = on_dask(*digits)
    with pytest.raises(TimeoutError, match="the storage did not answer") as failure:
        make_model().fit(X.map_blocks(fail_to_read, dtype=float, meta=np.empty((0, 0))), y)
    assert not isinstance(failure.value, LostClusterError)


def test_bad_data_are_named_and_the_model_is_as_before(client, digits):
    X, y = digits
    model = make_model().fit(X, y)
    before = model.components_.copy()
    cases = [
        ((on_dask(X, y)[0], y[:-1]), "inconsistent numbers of samples"),
        (on_dask(X, np.zeros(len(y), int)), "y holds only one class, 0"),
        ((on_dask(X, y)[0][:, 0], y), "X must have rows of samples"),
        ((on_dask(X, y)[0].astype(str), y), "not real numbers"),
        ((on_dask(X, y)[0], None), "y must be a Dask array"),
        ((on_dask(X, y)[0][:0], y[:0]), "X has no rows"),
        ((on_dask(X, y)[0], [1, "a"] * (len(y) // 2)), "y mixes labels of the types"),
        (
            (*on_dask(X, y), np.ones(len(y))),
            "sample_weight needs .* not a Dask array: use class_weight",
        ),
    ]
    for data, message in cases:
        with pytest.raises(ValueError, match=message):
            model.fit(*data)
        np.testing.assert_array_equal(model.components_, before)
        assert model.n_features_in_ == 64
    with pytest.raises(ValueError, match="expecting 64 features"):
        model.predict(da.ones((4, 3)))


# -- faults ------------------------------------------------------------------------------------------------------------


class Disaster(Callback):
    """A callback that does something once, after some iteration or epoch."""

    def __init__(self, iteration, strike, task="iteration"):
        self.iteration, self.strike, self.task = iteration, strike, task

    def on_fit_task_end(self, estimator, context):
        if context.task_name == self.task and context.task_id == self.iteration:
            self.strike()


def interrupt():
    raise KeyboardInterrupt


def kill_a_worker(client, n_workers=1):
    for process in list(client.run(os.getpid).values())[:n_workers]:
        os.kill(process, signal.SIGKILL)


def test_a_killed_worker_does_not_change_the_model(digits, monkeypatch):
    monkeypatch.setattr("ddlearn.fitting.data.PART_ROWS", PART_ROWS)
    expected = make_model(max_iter=2).fit(*digits)
    with start_cluster() as client:
        victims = client.run(os.getpid)

        def strike():
            address = next(iter(victims))
            assert any("scale_part" in str(key) for key in client.has_what()[address])  # parts, which will be lost
            kill_a_worker(client)

        model = make_model(max_iter=2).set_callbacks(Disaster(0, strike)).fit(*on_dask(*digits))
        assert set(client.run(os.getpid).values()) != set(victims.values())  # somebody did die
    assert_same_model(model, expected)


@pytest.mark.nightly
@pytest.mark.usefixtures("on_workers")
@pytest.mark.parametrize("fault", ["while coding", "while training", "while refining", "two at once", "one more"])
def test_whatever_happens_to_workers_the_model_is_the_same(digits, fault, monkeypatch):
    data, model = on_dask(*digits), make_model(max_iter=3, refine=make_refiner(2, validation_fraction=0.1))
    with start_cluster(n_workers=3) as client:
        expected = clone(model).fit(*data)
        steps = {"while training": "summarise_and_expand", "while refining": "differentiate"}
        run, struck = ClusterSession.run, []

        def run_and_strike(session, graph, keys):
            futures = run(session, graph, keys)
            if graph.name.startswith(steps.get(fault, "code_discriminatively")) and not struck:
                struck.append(graph.name)
                if fault == "one more":
                    client.cluster.scale(4)
                else:
                    kill_a_worker(client, 2 if fault == "two at once" else 1)
            return futures

        monkeypatch.setattr(ClusterSession, "run", run_and_strike)
        assert_same_model(clone(model).fit(*data), expected)
        assert struck


def test_without_workers_a_fit_says_so_and_gives_up_with_its_checkpoint(client, digits, tmp_path):
    data, path = on_dask(*digits), tmp_path / "fit"
    expected = make_model(max_iter=2).fit(*data)
    patience = {"ddlearn.warn-after": "1 minute", "ddlearn.give-up-after": "10 minutes"}  # as it is anyway
    with start_cluster(n_workers=1, processes=False) as client, dask.config.set(patience):

        def close_the_worker():
            client.cluster.sync(client.cluster.workers[0].close)
            dask.config.set(dict.fromkeys(patience, "0.1s"))  # from now on

        model = make_model(max_iter=2).set_callbacks(Checkpoint(path), Disaster(0, close_the_worker))
        with (
            pytest.warns(UserWarning, match="No worker of the Dask cluster answers"),
            pytest.raises(LostClusterError, match=r"No worker .* has answered for .* ddlearn\.give-up-after"),
        ):
            model.fit(*data)
        assert not hasattr(model, "components_")
    resumed = make_model(max_iter=2).set_callbacks(Checkpoint(path, resume=True)).fit(*data)
    assert_same_model(resumed, expected)


@pytest.mark.nightly
def test_a_worker_that_freezes_is_named_and_others_take_over(digits):
    data = on_dask(*digits)
    settings = {"ddlearn.warn-after": "2s", "distributed.scheduler.worker-ttl": "8s"}
    with dask.config.set(settings), start_cluster() as client:
        expected = make_model(max_iter=2).fit(*data)
        address, process = next(iter(client.run(os.getpid).items()))
        model = make_model(max_iter=2).set_callbacks(Disaster(0, lambda: os.kill(process, signal.SIGSTOP)))
        with pytest.warns(UserWarning, match=f"The Dask worker {address} does not answer"):
            assert_same_model(model.fit(*data), expected)
        with suppress(ProcessLookupError):  # Dask has ended it
            os.kill(process, signal.SIGKILL)


@pytest.mark.nightly
def test_a_client_that_goes_away_leaves_nothing_behind(client, digits):
    before = list_keys(client)
    data = on_dask(*digits)
    with distributed.Client(client.scheduler.address, set_as_default=False) as other, other.as_current():
        model = make_model(max_iter=3).set_callbacks(Disaster(1, other.close))
        with pytest.raises(LostClusterError):
            model.fit(*data)
    assert not hasattr(model, "components_")
    wait_until_only(client, before)


@pytest.mark.usefixtures("on_workers")
def test_classes_that_are_absent_from_some_chunks(client, digits):
    X, y = digits
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]  # each chunk has some of the classes
    refined = {"refine": make_refiner(validation_fraction=0.1)}
    here, there = make_model(**refined).fit(X, y), make_model(**refined).fit(*on_dask(X, y))
    assert there.classes_.tolist() == list(range(10))
    np.testing.assert_allclose(there.class_prior_, here.class_prior_)
    assert abs(there.score(X, y) - here.score(X, y)) < 0.05


@pytest.mark.bitwise
def test_a_fit_on_dask_goes_on_from_its_checkpoint_on_other_workers(client, digits, tmp_path):
    data, path = on_dask(*digits), tmp_path / "fit"
    expected = make_model(max_iter=3).fit(*data)
    model = make_model(max_iter=3).set_callbacks(Checkpoint(path), Disaster(1, interrupt))
    with start_cluster(n_workers=1, processes=False), pytest.raises(KeyboardInterrupt):
        model.fit(*data)
    assert len(list((tmp_path / "fit.rows").iterdir())) == 3  # a file for each part, of the last iteration
    resumed = make_model(max_iter=3).set_callbacks(Checkpoint(path, resume=True))
    assert_same_model(resumed.fit(*data), expected)
    other = da.from_array(digits[0] + 2, chunks=(PART_ROWS, -1))
    with pytest.raises(ValueError, match=r"X was .* and is"):
        resumed.fit(other, data[1])
    with pytest.raises(ValueError, match=r"X was .* in 3 parts .* and is .* in . parts"):
        resumed.fit(*on_dask(*digits, chunk=512))
    for file in (tmp_path / "fit.rows").iterdir():
        file.write_bytes(file.read_bytes()[:-9] + b"123456789")
    with pytest.raises(ModelFileError, match="damaged"):
        make_model(max_iter=4).set_callbacks(Checkpoint(path, resume=True)).fit(*data)


def test_a_checkpoint_in_an_object_store_goes_on_on_other_workers(client, digits):
    data, address = on_dask(*digits), f"memory://{uuid4().hex}/fit"  # of this process, and so of its workers
    expected = make_model(max_iter=3).fit(*data)
    model = make_model(max_iter=3).set_callbacks(Checkpoint(address), Disaster(2, interrupt))
    with start_cluster(n_workers=1, processes=False), pytest.raises(KeyboardInterrupt):
        model.fit(*data)
    files, folder = locate(f"{address}.rows")
    assert len(files.ls(folder, detail=False)) == 3  # of two moments, the later one
    assert_same_model(make_model(max_iter=3).set_callbacks(Checkpoint(address, resume=True)).fit(*data), expected)


def test_rows_that_workers_have_written_elsewhere_are_missed(client, digits, tmp_path, monkeypatch):
    monkeypatch.setattr("ddlearn.files.checkpoint._write_part", lambda part, store: str(tmp_path / "elsewhere"))
    with pytest.raises(FileNotFoundError, match="a folder that this process shares with all workers"):
        make_model().set_callbacks(Checkpoint(tmp_path / "fit")).fit(*on_dask(*digits))


def count_tasks(dask_scheduler):
    return len(dask_scheduler.tasks)


@pytest.mark.nightly
def test_what_led_to_a_checkpoint_is_forgotten(client, digits, tmp_path):
    # A late loss costs no more than the iterations since, and the scheduler keeps no earlier dictionary.
    counts = {}
    for name, callbacks in {"without": [], "checkpoint": [Checkpoint(tmp_path / "fit")]}.items():
        seen = counts[name] = []
        looks = [Disaster(n, lambda seen=seen: seen.append(client.run_on_scheduler(count_tasks))) for n in (1, 4)]
        make_model(max_iter=5).set_callbacks(*callbacks, *looks).fit(*on_dask(*digits))
    assert counts["without"][1] > 1.3 * counts["without"][0]
    assert counts["checkpoint"][1] < 1.1 * counts["checkpoint"][0]


def test_a_late_loss_costs_the_iterations_since_the_last_checkpoint(digits, tmp_path, monkeypatch):
    codings, make_coder = [], loop.DiscriminativeCoder  # one entry for each time that a part was coded, by threads

    def count(*arguments):
        codings.append(threading.get_ident())
        return make_coder(*arguments)

    monkeypatch.setattr(loop, "DiscriminativeCoder", count)
    data, n_iter, n_parts = on_dask(*digits, chunk=128), 7, 6
    with start_cluster(n_workers=3, processes=False) as client:

        def close_worker():
            client.cluster.sync(next(worker for worker in client.cluster.workers.values() if worker.data).close)

        expected = make_model(max_iter=n_iter).fit(*data)
        assert len(codings) == n_parts * n_iter
        model = make_model(max_iter=n_iter)
        model.set_callbacks(Checkpoint(tmp_path / "fit", every=2), Disaster(4, close_worker))
        assert_same_model(model.fit(*data), expected)
    # Five iterations were done, and a checkpoint written after the fourth: a lost part needs one of them again.
    assert 0 < len(codings) - 2 * n_parts * n_iter < n_parts


# -- refinement --------------------------------------------------------------------------------------------------------


@pytest.fixture
def on_workers():
    """Keep samples on the workers for refinement, as if there were too many for the client."""
    with dask.config.set({"ddlearn.bring-at-most": "10 kiB"}):
        yield


REFINED = [
    {"refine": make_refiner(2, validation_fraction=0.1)},
    pytest.param({"refine": make_refiner(jitter="affine"), "image_shape": (8, 8)}, marks=pytest.mark.nightly),
    {"refine": make_refiner(batch_size=200), "class_weight": {3: 2.0}, "unlabeled": 5},
]


@pytest.mark.bitwise
@pytest.mark.usefixtures("on_workers")
@pytest.mark.parametrize("changes", REFINED, ids=["held out", "jitter", "weights"])
def test_a_refined_model_is_bitwise_that_of_memory_for_the_same_parts(client, digits, changes, monkeypatch):
    monkeypatch.setattr("ddlearn.fitting.data.PART_ROWS", PART_ROWS)
    here, there = make_model(**changes).fit(*digits), make_model(**changes).fit(*on_dask(*digits))
    assert_same_model(there, here)
    for mine, theirs in zip(there.refinement_, here.refinement_, strict=True):
        np.testing.assert_array_equal(mine[:-1], theirs[:-1])  # without the time
    assert there.median_noise_variance_ == here.median_noise_variance_


@pytest.mark.nightly
@pytest.mark.usefixtures("on_workers")
def test_a_refined_elastic_net_is_that_of_memory_to_1e_8(client, digits, monkeypatch):
    # In memory, an epoch starts from the codes of the one before; on workers it does not. The minima are the same.
    monkeypatch.setattr("ddlearn.fitting.data.PART_ROWS", PART_ROWS)
    changes = {"refine": make_refiner(2), "sparse_coder": ElasticNet(0.1, tol=1e-14), "n_nonzero_coefs": 30}
    here, there = make_model(**changes).fit(*digits), make_model(**changes).fit(*on_dask(*digits))
    assert_same_model(there, here, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("most", ["1 MiB", "10 kiB"], ids=["here", "on workers"])
def test_samples_come_to_be_refined_if_they_are_small(client, digits, most, monkeypatch):
    monkeypatch.setattr("ddlearn.fitting.data.PART_ROWS", PART_ROWS)
    changes = {
        "refine": make_refiner(2, validation_fraction=0.1),
        "sparse_coder": "elastic_net",
        "description": "standard",
    }
    steps, run = [], ClusterSession.run

    def record(session, graph, keys):
        steps.append(graph.name.split("-")[0])
        return run(session, graph, keys)

    monkeypatch.setattr(ClusterSession, "run", record)
    with dask.config.set({"ddlearn.bring-at-most": most}):
        there = make_model(**changes).fit(*on_dask(*digits))
    assert ("differentiate" in steps) == (most == "10 kiB")
    if most == "1 MiB":
        assert_same_model(there, make_model(**changes).fit(*digits))


@pytest.mark.nightly
@pytest.mark.parametrize("most", ["1 MiB", "10 kiB"], ids=["here", "on workers"])
def test_a_refinement_on_dask_goes_on_from_its_checkpoint(client, digits, tmp_path, most):
    data, path = on_dask(*digits), tmp_path / "fit"
    model = make_model(refine=make_refiner(2), sparse_coder="elastic_net")
    with dask.config.set({"ddlearn.bring-at-most": most}):
        expected = clone(model).fit(*data)
        with pytest.raises(KeyboardInterrupt):
            clone(model).set_callbacks(Checkpoint(path), Disaster(2, interrupt, "epoch")).fit(*data)
        assert_same_model(clone(model).set_callbacks(Checkpoint(path, resume=True)).fit(*data), expected)


IN_CHUNKS = {
    "as it is": {},
    "weights": {"class_weight": {3: 2.0}, "refine": 2},
    "held out": {"refine": Refiner(validation_fraction=0.1)},
    "jitter": {"refine": Refiner(2, jitter="elastic"), "image_shape": (8, 8)},
}


@pytest.mark.parametrize("changes", IN_CHUNKS.values(), ids=IN_CHUNKS)
def test_the_default_fit_of_a_dask_array_is_that_of_memory_whatever_the_chunks(client, changes):
    # Mini-batches were drawn from each part once: atoms differed by 0.2.
    X, y = (array[:400] for array in load_digits(return_X_y=True))
    here = DDLClassifier(random_state=0, **changes).fit(X, y)
    for chunks in ((400,), (150, 250), (7, 93, 300), (50,) * 8):
        data = da.from_array(X, chunks=(chunks, -1)), da.from_array(y, chunks=(chunks,))
        there = DDLClassifier(random_state=0, **changes).fit(*data)
        assert_same_model(there, here, rtol=0, atol=1e-6)
        assert len(there.refinement_) == len(here.refinement_)


@pytest.mark.usefixtures("on_workers")
def test_mini_batches_on_workers_are_those_of_memory_whatever_the_chunks(client, digits):
    X, y = digits
    changes = {"refine": make_refiner(2, validation_fraction=0.1, jitter="elastic"), "image_shape": (8, 8)}
    here = make_model(**changes).fit(X, y)
    for chunks in ((150, 550), (7, 393, 300)):
        there = make_model(**changes).fit(da.from_array(X, chunks=(chunks, -1)), da.from_array(y, chunks=(chunks,)))
        assert_same_model(there, here, rtol=0, atol=1e-6)


# -- memory ------------------------------------------------------------------------------------------------------------


def count_spilled(dask_worker):
    return len(dask_worker.data.slow)


def count_managed(dask_scheduler):
    return sum(worker.nbytes for worker in dask_scheduler.workers.values())


def test_samples_are_in_memory_once(digits):
    X, y = np.tile(digits[0], 4), digits[1]
    # What there is: samples, labels of ten classes, and for each sample five coefficients with their atoms, a variance
    # and a misfit.  Until the end of an iteration, there are also those of the one before.
    truth = X.nbytes + len(X) * (10 + 5 * 12 + 16)
    memory = {f"distributed.worker.memory.{name}": False for name in ("spill", "pause", "terminate")}
    options = {"n_workers": 1, "processes": False, "memory_limit": int(1.5 * truth)}
    with dask.config.set(memory | {"distributed.worker.memory.target": 0.99}), start_cluster(**options) as client:
        seen = []

        def look():
            seen.append(client.run_on_scheduler(count_managed))
            seen.extend(client.run(count_spilled).values())

        make_model(max_iter=2).set_callbacks(Disaster(1, look)).fit(*on_dask(X, y))
        managed, n_spilled = seen
        assert truth / 2 < managed < 1.5 * truth
        assert n_spilled == 0


# -- the scheduler -----------------------------------------------------------------------------------------------------


def run_command(*arguments):
    command = [sys.executable, "-m", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


@pytest.mark.nightly  # the client waits for the scheduler to come back
def test_a_scheduler_that_goes_away_is_named_and_the_checkpoint_stays(digits, tmp_path):
    file, path = tmp_path / "scheduler.json", tmp_path / "fit"
    options = ["--scheduler-file", str(file), "--no-dashboard"]
    scheduler = run_command("distributed.cli.dask_scheduler", "--port", "0", *options)
    worker = run_command("distributed.cli.dask_worker", *options, "--nworkers", "1", "--nthreads", "1", "--no-nanny")
    try:
        with distributed.Client(scheduler_file=str(file), timeout=30, heartbeat_interval="1s") as client:
            client.wait_for_workers(1, timeout=30)

            def kill_the_scheduler():
                scheduler.kill()
                scheduler.wait()

            model = make_model(max_iter=4).set_callbacks(Checkpoint(path), Disaster(2, kill_the_scheduler))
            with pytest.raises(LostClusterError, match="The Dask scheduler went away"):
                model.fit(*on_dask(*digits))
            assert not hasattr(model, "components_")
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait()
    with start_cluster():
        resumed = make_model(max_iter=4).set_callbacks(Checkpoint(path, resume=True)).fit(*on_dask(*digits))
        assert_same_model(resumed, make_model(max_iter=4).fit(*on_dask(*digits)))


@pytest.mark.nightly
def test_the_defaults_fit_a_dask_array(client, digits):
    X, y = (array[:200] for array in digits)
    model = make_pursuit(max_iter=2, random_state=0).fit(*on_dask(X, y, chunk=100))
    assert model.score(X, y) > 0.9
    assert not hasattr(model, "codes_")


@pytest.fixture(scope="module")
def default_fits():
    return {}  # by the parameters that a case needs besides its own


# What is learned from sums over the parts, or done to each part with more than its own rows.
AT_ONCE = {"description", "class_weight", "refine", "robustness", "alignment"}


def mark_case(case):
    is_quick = case.dask == REFUSED or case.name in AT_ONCE
    return pytest.param(case, id=f"{case.name}={case.value}", marks=() if is_quick else pytest.mark.nightly)


@pytest.mark.parametrize("case", [mark_case(case) for case in list_cases("dask")])
def test_every_parameter_is_honoured_or_refused_on_dask(client, default_fits, case):
    X, y = draw_samples()
    data = da.from_array(X, chunks=(60, -1)), da.from_array(y, chunks=60)
    n_iter = {"max_iter": 2, "tol": 4}.get(case.name, 1)
    default, changed = case.make_models("dask")
    default.set_params(max_iter=n_iter)
    if case.name != "max_iter":
        changed.set_params(max_iter=n_iter)
    if case.dask == REFUSED:
        with pytest.raises((TypeError, ValueError), match=case.name):
            changed.fit(*data)
        return
    key = repr((case.others, n_iter))
    if key not in default_fits:
        default_fits[key] = default.fit(*data)
    changed.fit(*data)
    if case.name == "warm_start":  # the first fit has nothing to begin with
        changed.fit(*data)
    assert is_same(default_fits[key], changed, case.dask, X) == (case.dask == NOTHING)
