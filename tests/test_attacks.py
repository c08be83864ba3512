"""The package as a whole where it is read-only, out of room, killed, forked and shared: run by ``make nightly``."""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from operator import methodcaller
from pathlib import Path

import numpy as np
import pytest
from conftest import make_pursuit
from sklearn.datasets import load_digits

import ddlearn
from ddlearn import load, save

pytestmark = pytest.mark.nightly
SOURCE = Path(ddlearn.__file__).parents[1]
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def may_mount() -> bool:
    if shutil.which("unshare") is None:
        return False
    with_mount = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs none /mnt"]
    return subprocess.run(with_mount, capture_output=True).returncode == 0


needs_mount = pytest.mark.skipif("not may_mount()", reason="only root may mount a file system")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Samples, and a model of them."""
    X, y = load_digits(return_X_y=True)
    path = tmp_path_factory.mktemp("attacks")
    np.savez(path / "data.npz", X=X[:300], y=y[:300])
    save(make_pursuit(60, max_iter=2, image_shape=(8, 8), random_state=0).fit(X[:300], y[:300]), path / "model")
    return path


def run_mounted(mounts: str, command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a command where other file systems are mounted, which vanish with it."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE)} | environment
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{mounts} && {command}"], capture_output=True, text=True, env=environment
    )


# -- where nothing can be written --------------------------------------------------------------------------------------


@needs_mount
@pytest.mark.parametrize("home", [None, "/proc/nowhere", "/"])
def test_a_read_only_package_without_a_home_is_imported_and_predicts(folder, tmp_path, home):
    copy = tmp_path / "site"
    shutil.copytree(SOURCE / "ddlearn", copy / "ddlearn", ignore=shutil.ignore_patterns("__pycache__"))
    script = (
        "import numpy as np, ddlearn\n"
        f"X = np.load({str(folder / 'data.npz')!r})['X']\n"
        f"print(ddlearn.load({str(folder / 'model')!r}).predict(X[:20]).tolist())\n"
    )
    mounts = f"mount --bind {copy} {copy} && mount -o remount,ro,bind {copy}"
    if home == "/":  # a home that is there, but cannot be written
        home = str(copy)
    environment = {"PYTHONPATH": str(copy)} | ({} if home is None else {"HOME": home})
    run = run_mounted(mounts, f"{sys.executable} -c {subprocess.list2cmdline([script])}", **environment)
    assert run.returncode == 0, run.stderr
    X = np.load(folder / "data.npz")["X"]
    assert run.stdout.strip() == str(load(folder / "model").predict(X[:20]).tolist())


@needs_mount
@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("predict {model} {data} -o {room}/old", "old"),
        ("report {model} {data} -o {room}/old.html", "old.html"),
        ("fit {data} -o {room}/old --max-iter 2 --sparse-coder ormp --refine classifiers", "old"),
        ("fit {data} -o {elsewhere}/new --checkpoint {room}/old --max-iter 2 --sparse-coder ormp --refine classifiers",
         "old"),
    ],
)  # fmt: skip
def test_a_disk_without_room_keeps_the_old_file(folder, tmp_path, command, output):
    # A real file system of 100 KB, of which 4 are left.
    room = tmp_path / "room"
    room.mkdir()
    data = tmp_path / "data.npz"
    X, y = (np.load(folder / "data.npz")[name] for name in "Xy")
    np.savez(data, X=np.tile(X, (10, 1)), y=np.tile(y, 10))  # predictions of which do not fit
    # An old checkpoint must be one: nothing else would be replaced.
    old = tmp_path / "old"
    if "--checkpoint" not in command:
        old.write_bytes(b"old" * 1000)
    else:
        make_pursuit(4, max_iter=1).set_callbacks(ddlearn.Checkpoint(old)).fit(X[:20, :4], y[:20] % 2)
    filled = command.format(model=folder / "model", data=data, room=room, elsewhere=tmp_path)
    mounts = f"mount -t tmpfs -o size=100k none {room} && cp {old} {room}/{output}"
    fill = (
        f"dd if=/dev/zero of={room}/filler bs=1k count=$(( $(df --output=avail -k {room} | tail -1) - 4 )) 2>/dev/null"
    )
    after = f"echo rc $? && cmp {old} {room}/{output} && echo same && ls -A {room}"
    run = run_mounted(f"{mounts} && {fill}", f"{sys.executable} -m ddlearn {filled} ; {after}", HOME=str(tmp_path))
    assert run.stdout.split()[-5:] == ["rc", "1", "same", "filler", output], run.stdout + run.stderr
    assert "No space left on device" in " ".join(run.stderr.split())


@needs_mount
def test_a_full_disk_for_compiled_code_breaks_nothing(folder, tmp_path):
    room = tmp_path / "room"
    room.mkdir()
    script = (
        "import numpy as np, ddlearn\n"
        f"X = np.load({str(folder / 'data.npz')!r})['X']\n"
        f"print(ddlearn.load({str(folder / 'model')!r}).predict(X[:20]).shape)\n"
    )
    mounts = f"mount -t tmpfs -o size=40k none {room}"
    run = run_mounted(mounts, f"{sys.executable} -c {subprocess.list2cmdline([script])}", NUMBA_CACHE_DIR=str(room))
    assert run.stdout.strip() == "(20,)", run.stderr
    assert run.stderr.count("Compiled code cannot be kept") == 1


# -- killed ------------------------------------------------------------------------------------------------------------

KILLED = textwrap.dedent(
    """
    import os, random, signal, sys, time, numpy as np
    import ddlearn
    from ddlearn.show.report.writing import write_report

    kind, folder, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with np.load(f"{folder}/data.npz") as data:
        X, y = data["X"], data["y"]
    model = ddlearn.load(f"{folder}/model")
    path, chance = f"{folder}/out.html", random.Random(seed)

    def write():
        write_report(model, path, X=X, y=y) if kind == "report" else ddlearn.save(model, path)

    write()
    begin = time.perf_counter()
    write()
    duration = time.perf_counter() - begin
    for _ in range(40):
        child = os.fork()
        if child == 0:
            while True:
                write()
        time.sleep(chance.uniform(0, 2 * duration))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        content = open(path, "rb").read()
        if kind == "report":
            assert content.endswith(b"</html>\\n") or content.endswith(b"</html>"), content[-100:]
        else:
            ddlearn.load(path)
    print("whole")
    """
)


@needs_fork
@pytest.mark.parametrize("kind", ["save", "report"])
def test_what_is_killed_while_it_writes_leaves_a_whole_file(folder, kind):
    seed = random.randrange(2**32)
    run = subprocess.run([sys.executable, "-c", KILLED, kind, str(folder), str(seed)], capture_output=True, text=True)
    assert run.stdout == "whole\n", f"seed {seed}: {run.stderr}"


@pytest.mark.skipif(os.name == "nt", reason="sends a POSIX signal")
def test_ctrl_c_leaves_the_old_predictions(folder, tmp_path):
    output, chance = tmp_path / "old.csv", random.Random(0)
    output.write_text("old")
    command = [sys.executable, "-m", "ddlearn", "predict", folder / "model", folder / "data.npz", "-o", output]
    for _ in range(8):
        with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            time.sleep(chance.uniform(0, 4))
            process.send_signal(signal.SIGINT)
            process.communicate()
        content = output.read_text()
        assert content == "old" or content.count("\n") == 301
        assert [path.name for path in tmp_path.iterdir()] == ["old.csv"]


# -- shared ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_processes_of_every_kind_predict_the_same_while_threads_work(folder, method):
    X, model = np.load(folder / "data.npz")["X"], load(folder / "model").set_params(n_jobs=2)
    expected, stop = model.predict_proba(X).tolist(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            assert model.predict_proba(X).tolist() == expected

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            with ProcessPoolExecutor(2, multiprocessing.get_context(method)) as pool:
                found = pool.map(methodcaller("predict_proba", X), [model] * 4, timeout=300)
                assert [one.tolist() for one in found] == [expected] * 4
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_threads_fit_and_predict_side_by_side(folder):
    X, y = (np.load(folder / "data.npz")[name] for name in "Xy")
    expected = make_pursuit(30, max_iter=2, random_state=0).fit(X, y)
    found: list = [None] * 8

    def fit(place: int) -> None:
        model = make_pursuit(30, max_iter=2, random_state=0, n_jobs=1 + place % 3).fit(X, y)
        found[place] = model.components_, model.predict_proba(X)

    threads = [threading.Thread(target=fit, args=(place,)) for place in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for components, probability in found:
        np.testing.assert_array_equal(components, expected.components_)
        np.testing.assert_array_equal(probability, expected.predict_proba(X))
