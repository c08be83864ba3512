"""Places of files: the same on a disk and in an object store."""

from __future__ import annotations

import sys
from uuid import uuid4

import numpy as np
import pytest
from conftest import make_pursuit
from sklearn.datasets import load_digits

from ddlearn import Checkpoint, ModelFileError, load, save
from ddlearn.files.storage import DiskPlace, RemotePlace, find_place, make_absolute


@pytest.fixture(params=["path", "file", "memory"])
def folder(request, tmp_path):
    """A place for files that nobody else uses."""
    if request.param == "path":
        return str(tmp_path)
    pytest.importorskip("fsspec")
    return f"file://{tmp_path}" if request.param == "file" else f"memory://{uuid4().hex}"


def test_what_is_written_is_there_completely_until_it_is_removed(folder):
    place = find_place(f"{folder}/sub/file")
    assert isinstance(place, RemotePlace if folder.startswith("memory") else DiskPlace)  # a disk replaces in one step
    find_place(f"{folder}/sub").make_folder()
    find_place(f"{folder}/sub").make_folder()
    assert not place.exists()
    for data in (b"old", bytearray(b"newer")):
        place.write(data)
        assert place.find_kind() == ("file", len(data))
        with place.open() as file:
            assert file.read(2) + file.read() == data
    assert find_place(f"{folder}/sub").find_kind()[0] == "directory"
    assert find_place(f"{folder}/sub").list_folder() == ["file"]
    place.remove()
    assert not place.exists()


def test_what_others_write_is_seen():
    class Files:
        """An object store that remembers what it has listed."""

        seen = 0

        def invalidate_cache(self):
            self.seen = None

    assert RemotePlace(Files(), "bucket/file").files.seen is None


def test_addresses_are_absolute():
    assert make_absolute("s3://bucket/fit") == "s3://bucket/fit"
    assert make_absolute("fit") != "fit"


def test_without_fsspec_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(ImportError, match=r"s3://bucket/fit needs fsspec.*ddlearn\[dask\]"):
        find_place("s3://bucket/fit")


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
    find_place(f"{folder}/model").write(b"something else")
    with pytest.raises(ModelFileError, match="model cannot be read"):
        load(f"{folder}/model")
    with pytest.raises(ModelFileError, match="is not a file but a folder"):
        load(folder)
