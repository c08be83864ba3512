"""A file is written whole or not at all, whatever happens on the way, on a disk and in an object store."""

from __future__ import annotations

import errno
import os
import stat
import sys
import threading
from uuid import uuid4

import numpy as np
import pytest
from conftest import make_pursuit
from sklearn.datasets import load_digits

from ddlearn import Checkpoint, ModelFileError, load, save
from ddlearn.files.store import Disk, locate, make_absolute, make_sure_of_room, write_atomically

OLD, NEW = b"old" * 1000, b"new" * 1000
root_ignores_permissions = pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() == 0, reason="permissions do not bind root"
)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(OLD)
    return path


def fail_with(code):
    def fail(*arguments, **options):
        raise OSError(code, os.strerror(code))

    return fail


def test_content_is_replaced_and_nothing_else_is_left(path):
    write_atomically(path, NEW)
    assert path.read_bytes() == NEW
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("step", ["open", "fdopen", "chmod", "fsync", "replace"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failing_step_leaves_the_old_file(path, monkeypatch, step, code):
    monkeypatch.setattr(os, step, fail_with(code))
    with pytest.raises(OSError, match=r"Cannot write the file .* an existing file is unchanged") as caught:
        write_atomically(path, NEW)
    monkeypatch.undo()
    assert caught.value.errno == code
    assert caught.value.filename == str(path)
    assert path.read_bytes() == OLD
    assert os.listdir(path.parent) == ["file"]


def test_ctrl_c_in_the_middle_leaves_the_old_file(path, monkeypatch):
    def interrupt(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(path, NEW)
    assert path.read_bytes() == OLD
    assert os.listdir(path.parent) == ["file"]


def test_a_full_disk_says_so(path):
    resource = pytest.importorskip("resource")
    # A limit on the size of files is a full disk that needs no permission to set up.
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large; an existing file is unchanged"):
            write_atomically(path, bytes(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == OLD
    assert os.listdir(path.parent) == ["file"]


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"folder .*nowhere does not exist: create it first"):
        write_atomically(tmp_path / "nowhere" / "file", NEW)


def test_a_folder_is_not_a_file(tmp_path):
    with pytest.raises(IsADirectoryError, match="not a regular file"):
        write_atomically(tmp_path, NEW)


@root_ignores_permissions
def test_a_read_only_folder_is_respected(path):
    path.parent.chmod(0o555)
    try:
        with pytest.raises(PermissionError, match="Permission denied"):
            write_atomically(path, NEW)
    finally:
        path.parent.chmod(0o755)
    assert path.read_bytes() == OLD


def test_a_read_only_file_is_respected_for_every_user(path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda target, mode: False)
    with pytest.raises(PermissionError, match="read-only"):
        write_atomically(path, NEW)
    assert path.read_bytes() == OLD


@pytest.mark.skipif(os.name == "nt", reason="POSIX permissions")
def test_permissions_are_those_of_the_old_file_or_of_the_umask(path):
    path.chmod(0o640)
    write_atomically(path, NEW)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    before = os.umask(0o027)
    try:
        write_atomically(path.with_name("other"), NEW)
    finally:
        os.umask(before)
    assert stat.S_IMODE(path.with_name("other").stat().st_mode) == 0o640


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_link_stays_a_link(path):
    link = path.with_name("link")
    link.symlink_to(path)
    write_atomically(link, NEW)
    assert link.is_symlink()
    assert path.read_bytes() == NEW


def test_long_names_are_fine(tmp_path):
    path = tmp_path / ("x" * 255)
    write_atomically(path, NEW)
    assert path.read_bytes() == NEW


def test_of_two_writers_one_wins_whole(tmp_path):
    path = tmp_path / "file"
    contents = [bytes([number]) * 500_000 for number in range(4)]
    threads = [threading.Thread(target=write_atomically, args=(path, content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_bytes() in contents
    assert os.listdir(tmp_path) == ["file"]


def test_what_a_killed_process_left_is_removed_by_a_later_write(path):
    left, busy = (path.with_name(f".ddlearn-{name}.tmp") for name in ("0123", "4567"))
    left.write_bytes(b"half")
    os.utime(left, (0, 0))
    busy.write_bytes(b"another process writes to this one")
    write_atomically(path, NEW)
    assert {one.name for one in path.parent.iterdir()} == {"file", busy.name}


def test_room_is_tried_and_given_back(path, monkeypatch):
    make_sure_of_room(path, 10_000)
    assert path.read_bytes() == OLD
    assert os.listdir(path.parent) == ["file"]
    monkeypatch.setattr(os, "fsync", fail_with(errno.ENOSPC))
    with pytest.raises(OSError, match=r"Cannot write the file .*No space left"):
        make_sure_of_room(path, 10_000)
    assert os.listdir(path.parent) == ["file"]


# -- the same on a disk and in an object store -------------------------------------------------------------------------


@pytest.fixture(params=["path", "file", "memory"])
def folder(request, tmp_path):
    """A place for files that nobody else uses."""
    if request.param == "path":
        return str(tmp_path)
    pytest.importorskip("fsspec")
    return f"file://{tmp_path}" if request.param == "file" else f"memory://{uuid4().hex}"


def test_what_is_written_is_there_completely_until_it_is_removed(folder):
    files, place = locate(f"{folder}/sub")
    assert isinstance(files, Disk) == (not folder.startswith("memory"))  # a disk replaces in one step
    path = f"{place}/file"
    files.makedirs(place, exist_ok=True)
    files.makedirs(place, exist_ok=True)
    assert not files.exists(path)
    for data in (b"old", b"newer"):
        files.pipe_file(path, data)
        assert {name: files.info(path)[name] for name in ("type", "size")} == {"type": "file", "size": len(data)}
        with files.open(path, "rb") as file:
            assert file.read(2) + file.read() == data
    assert files.info(place)["type"] == "directory"
    assert files.ls(place, detail=False) == [path]
    files.rm_file(path)
    assert not files.exists(path)


def test_what_others_write_is_seen(monkeypatch):
    fsspec = pytest.importorskip("fsspec")
    forgotten = []  # by a file system that remembers what it has listed
    monkeypatch.setattr(
        fsspec.get_filesystem_class("memory"), "invalidate_cache", lambda files: forgotten.append(files)
    )
    assert forgotten == [locate("memory://bucket/file")[0]]


def test_addresses_are_absolute():
    assert make_absolute("s3://bucket/fit") == "s3://bucket/fit"
    assert make_absolute("fit") != "fit"


def test_without_fsspec_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ImportError, match=r"s3://bucket/fit needs fsspec.*ddlearn\[dask\]"):
        locate("s3://bucket/fit")


def test_models_and_checkpoints_are_written_and_read(folder):
    def make_model(max_iter):
        return make_pursuit(20, max_iter=max_iter, tol=0, random_state=0)

    X, y = load_digits(return_X_y=True)
    X, y = X[:200] / 16, y[:200]
    checkpoint = Checkpoint(f"{folder}/fit", resume=True)
    first = make_model(1).set_callbacks(checkpoint).fit(X, y)
    resumed = make_model(2).set_callbacks(checkpoint).fit(X, y)
    assert resumed.history_[:2] == first.history_  # the times too: they were not done again
    np.testing.assert_array_equal(resumed.components_, make_model(2).fit(X, y).components_)
    save(resumed, f"{folder}/model")
    np.testing.assert_array_equal(load(f"{folder}/model").predict(X), resumed.predict(X))
    files, place = locate(f"{folder}/model")
    files.pipe_file(place, b"something else")
    with pytest.raises(ModelFileError, match="model cannot be read"):
        load(f"{folder}/model")
    with pytest.raises(ModelFileError, match="is not a file but a folder"):
        load(folder)
