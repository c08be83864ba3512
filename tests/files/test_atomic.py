"""A file is written whole or not at all, whatever happens on the way."""

from __future__ import annotations

import errno
import os
import stat
import threading

import pytest

from ddlearn.files.atomic import make_sure_of_room, write_atomically

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


@root_ignores_permissions
def test_a_read_only_file_is_respected(path):
    path.chmod(0o444)
    with pytest.raises(PermissionError, match="read-only"):
        write_atomically(path, NEW)
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


def test_long_names_and_bytearrays_are_fine(tmp_path):
    path = tmp_path / ("x" * 255)
    write_atomically(path, bytearray(NEW))
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
