"""The first run says why it takes long, and a cache that cannot be written or read breaks nothing."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

import ddlearn
from ddlearn import kernels
from ddlearn.kernels import _Notices
from ddlearn.kernels.pursuit import position_of_largest

FOLDER = Path(ddlearn.__file__).parent
is_compiled = pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled")


class Event:
    def __init__(self, dispatcher):
        self.data = {"dispatcher": dispatcher}


class PlainDispatcher:
    """What Numba hands out, also where its compiler is switched off."""

    def __init__(self, function):
        self.py_func = getattr(function, "py_func", function)


def test_compilation_is_announced_once_and_only_our_own(caplog):
    notices = _Notices()
    with caplog.at_level(logging.WARNING, logger="ddlearn"):  # which Python shows by default
        notices.on_start(Event(PlainDispatcher(numba.njit(lambda x: x))))
        assert not caplog.records
        notices.on_start(Event(PlainDispatcher(position_of_largest)))
        notices.on_start(Event(PlainDispatcher(position_of_largest)))
    assert [record.getMessage() for record in caplog.records] == ["Compiling (first run only, up to a minute) ..."]


@pytest.mark.parametrize("path", sorted((FOLDER / "kernels").glob("[a-z]*.py")), ids=lambda path: path.name)
def test_kernels_have_the_cache_that_never_fails(path):
    assert "from numba" not in path.read_text()


def make_kernel(folder, monkeypatch):
    """Return a new kernel with its cache in a folder, as another process would make it."""
    monkeypatch.setattr(kernels, "_NOTICES", _Notices())
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(folder))

    def add_one(x):
        return x + 1

    return kernels.njit(cache=True, nogil=True)(add_one)


@is_compiled
def test_damaged_files_of_the_cache_are_compiled_again(tmp_path, monkeypatch):
    assert make_kernel(tmp_path, monkeypatch)(1) == 2
    files = [path for path in tmp_path.rglob("*") if path.suffix in (".nbi", ".nbc")]
    assert len(files) == 2
    for file in files:
        whole = file.read_bytes()
        for damaged in (b"", whole[: len(whole) // 2], b"no pickle at all"):
            file.write_bytes(damaged)
            assert make_kernel(tmp_path, monkeypatch)(1) == 2
            healed = make_kernel(tmp_path, monkeypatch)
            assert healed(1) == 2
            assert sum(healed.stats.cache_hits.values()) == 1


@is_compiled
def test_a_full_disk_is_said_once_and_the_call_succeeds(tmp_path, monkeypatch, caplog):
    kernel = make_kernel(tmp_path, monkeypatch)

    def fail(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "replace", fail)
    assert kernel(1) == 2
    assert kernel(1.5) == 2.5
    assert [record.getMessage().split(",")[0] for record in caplog.records if "kept" in record.getMessage()] == [
        "Compiled code cannot be kept ([Errno 28] No space left on device)"
    ]


@is_compiled
def test_a_package_without_any_folder_for_a_cache_can_be_used(tmp_path):
    # Every folder is refused, as where the package is read-only and there is no home.
    script = (
        "from numba.core.caching import _CacheLocator\n"
        "def refuse(*_): raise OSError('read-only')\n"
        "_CacheLocator.ensure_cache_path = refuse\n"
        "from ddlearn.kernels.pursuit import position_of_largest\n"
        "import numpy as np\n"
        "print(position_of_largest(np.array([1, 3, 2])))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert run.stdout.split() == ["1"], run.stderr
    assert run.stderr.count("Compiled code cannot be kept") == 1
