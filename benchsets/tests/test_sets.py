"""The image sets: found, verified and converted as promised; splits are disjoint."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import socket
import sys
import threading
import zipfile
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from benchsets import CorruptDatasetError, DatasetNotFoundError, find_datasets, load_mnist, load_usps, load_yaleb
from benchsets.files import compute_digest, list_folders, read_files
from benchsets.originals import SHA256, SOURCES, _halve, _read_pgm
from benchsets.sets import _draw_halves

REAL_FOLDER = os.environ.get("DDLEARN_DATA")
USPS_COUNTS = {
    "train": [1194, 1005, 731, 658, 652, 556, 664, 645, 542, 644],
    "test": [359, 264, 198, 166, 200, 160, 170, 147, 166, 177],
}
MNIST_COUNTS = {
    "train": [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949],
    "test": [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009],
}
LOADERS = {"usps": load_usps, "mnist": load_mnist, "yaleb": load_yaleb}


def needs(name):
    """Skip unless the real data are there."""
    is_there = REAL_FOLDER is not None and (Path(REAL_FOLDER) / f"{name}.npz").is_file()
    return pytest.mark.skipif(not is_there, reason=f"DDLEARN_DATA names no folder with {name}.npz")


needs_each = pytest.mark.parametrize("name", [pytest.param(name, marks=needs(name)) for name in LOADERS])


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """No test sees the folders, the proxies or the mirrors of this machine's user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DDLEARN_DATA", raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name, source in SOURCES.items():
        monkeypatch.setitem(SOURCES, name, replace(source, mirrors=()))
    folder = tmp_path / "cache" / "ddlearn"
    folder.mkdir(parents=True)
    return folder


# Small sets in place of the real ones.


def small_arrays(name):
    rng = np.random.default_rng(0)
    if name == "yaleb":
        # in the order of file names: "+" comes before "-"
        azimuth, elevation = np.repeat([0, 35, 110, -20, -70], 2), np.tile([10, -10], 5)
        return {
            "X": rng.integers(256, size=(30, 96, 84)).astype(np.uint8),
            "y": np.repeat([0, 1, 2], 10).astype(np.uint8),
            "subject": np.repeat([1, 13, 15], 10).astype(np.uint8),
            "azimuth": np.tile(azimuth, 3).astype(np.int16),
            "elevation": np.tile(elevation, 3).astype(np.int16),
        }
    images = {
        "usps": lambda n: ((rng.integers(-1000, 1001, (n, 256)) / 1000).astype(np.float32) + 1) / 2,
        "mnist": lambda n: rng.integers(256, size=(n, 28, 28)).astype(np.uint8),
    }[name]
    labels = {part: rng.integers(10, size=n).astype(np.uint8) for part, n in {"train": 12, "test": 5}.items()}
    arrays = {f"X_{part}": images(len(y)) for part, y in labels.items()}
    return arrays | {f"y_{part}": y for part, y in labels.items()}


def write_archive(folder, name, arrays):
    path = folder / f"{name}.npz"
    np.savez_compressed(path, **arrays)
    return path


def write_originals(folder, name, arrays):
    {"usps": write_usps, "mnist": write_mnist, "yaleb": write_yaleb}[name](folder, arrays)


def write_usps(folder, arrays):
    for part in ("train", "test"):
        values = np.round(2 * arrays[f"X_{part}"].astype(float) - 1, 3)
        text = io.StringIO()
        np.savetxt(text, np.column_stack([arrays[f"y_{part}"], values]), fmt="%.4f", newline=" \n")
        (folder / f"zip.{part}.gz").write_bytes(gzip.compress(text.getvalue().encode(), 1))


def write_mnist(folder, arrays):
    for part, prefix in {"train": "train", "test": "t10k"}.items():
        for array, suffix in {"X": "images-idx3", "y": "labels-idx1"}.items():
            values = arrays[f"{array}_{part}"]
            header = bytes([0, 0, 8, values.ndim]) + np.array(values.shape, ">u4").tobytes()
            (folder / f"{prefix}-{suffix}-ubyte.gz").write_bytes(gzip.compress(header + values.tobytes(), 1))


def face_name(subject, azimuth, elevation):
    return f"yaleB{subject:02}_P00A{azimuth:+04}E{elevation:+03}.pgm"


def write_yaleb(folder, arrays):
    with zipfile.ZipFile(folder / "CroppedYale.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for i in reversed(range(len(arrays["y"]))):  # the order in the archive does not matter
            subject = int(arrays["subject"][i])
            name = face_name(subject, int(arrays["azimuth"][i]), int(arrays["elevation"][i]))
            pixels = arrays["X"][i].repeat(2, axis=0).repeat(2, axis=1)
            archive.writestr(f"CroppedYale/yaleB{subject:02}/{name}", b"P5\n168 192\n255\n" + pixels.tobytes())
        archive.writestr("CroppedYale/yaleB01/yaleB01_P00_Ambient.pgm", b"not a face of the set")
        archive.writestr("CroppedYale/yaleB11/yaleB11_P00A+050E-40.pgm.bad", b"not a face of the set")
        archive.writestr("CroppedYale/yaleB01/yaleB01_P00.info", b"not a face of the set")
        archive.writestr("__MACOSX/CroppedYale/yaleB01/._yaleB01_P00A+000E+00.pgm", b"not a face of the set")


@pytest.fixture(params=sorted(LOADERS))
def small(request, monkeypatch, tmp_path):
    """Replace a set by a small one: its name, loader, arrays, and a folder that holds the archive."""
    name = request.param
    arrays = small_arrays(name)
    folder = tmp_path / "given"
    folder.mkdir()
    archive = write_archive(folder, name, arrays)
    monkeypatch.setitem(SHA256, archive.name, hashlib.sha256(archive.read_bytes()).hexdigest())
    for file, keys in SOURCES[name].originals.items():
        monkeypatch.setitem(SHA256, file, compute_digest(arrays[key] for key in keys))
    return name, LOADERS[name], arrays, folder


def all_targets(arrays):
    return arrays["y"] if "y" in arrays else np.concatenate([arrays["y_train"], arrays["y_test"]])


# Where files are looked for.


def test_folder_of_the_environment_is_searched_first(small, cache, monkeypatch):
    name, load, arrays, folder = small
    (cache / f"{name}.npz").write_bytes(b"never read")
    monkeypatch.setenv("DDLEARN_DATA", str(folder))
    np.testing.assert_array_equal(load().target, all_targets(arrays))


def test_cache_is_searched_next(small, cache, monkeypatch, tmp_path):
    name, load, arrays, folder = small
    (folder / f"{name}.npz").rename(cache / f"{name}.npz")
    np.testing.assert_array_equal(load().target, all_targets(arrays))
    monkeypatch.setenv("DDLEARN_DATA", str(tmp_path / "does not have it"))
    np.testing.assert_array_equal(load().target, all_targets(arrays))


def test_data_home_overrides_both(small, monkeypatch, tmp_path):
    _, load, arrays, folder = small
    np.testing.assert_array_equal(load(data_home=folder).target, all_targets(arrays))
    monkeypatch.setenv("DDLEARN_DATA", str(folder))
    with pytest.raises(DatasetNotFoundError):
        load(data_home=tmp_path)


def test_what_is_found_is_told(small, monkeypatch, tmp_path):
    name, _, arrays, folder = small
    for other, source in SOURCES.items():
        monkeypatch.setitem(SOURCES, other, replace(source, mirrors=("https://example.org/",)))
    monkeypatch.setenv("DDLEARN_DATA", str(folder))
    archive = folder / f"{name}.npz"
    good = {"where": str(archive), "bytes": archive.stat().st_size, "checksum": "good", "advice": None}
    found = find_datasets()
    assert list(found) == list(LOADERS)
    assert found[name] == good
    nowhere = find_datasets(data_home=tmp_path / "empty")[name]
    assert nowhere.items() >= {"where": None, "bytes": None, "checksum": ""}.items()
    assert f"put {name}.npz, or " in nowhere["advice"]
    assert f"into {tmp_path / 'empty'}; or name" in nowhere["advice"]
    assert not (tmp_path / "empty").exists()  # nothing is made or downloaded
    archive.write_bytes(b"damaged")
    damaged = find_datasets()[name]
    assert (damaged["where"], damaged["bytes"], damaged["checksum"]) == (str(archive), 7, "wrong")
    assert "is damaged or another version" in damaged["advice"]
    archive.unlink()
    write_originals(folder, name, arrays)
    files = [folder / file for file in SOURCES[name].originals]
    assert find_datasets()[name] == {
        "where": str(files[0] if len(files) == 1 else folder),
        "bytes": sum(file.stat().st_size for file in files),
        "checksum": "good",
        "advice": None,
    }


def test_default_cache_is_in_the_home_folder(monkeypatch):
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert list_folders(None) == [Path.home() / ".cache" / "ddlearn"]


def test_original_files_give_the_same_as_the_archive(small, cache):
    name, load, arrays, folder = small
    write_originals(cache, name, arrays)
    from_archive, from_originals = load(data_home=folder), load()
    assert from_archive.keys() == from_originals.keys()
    for key, value in from_archive.items():
        np.testing.assert_array_equal(from_originals[key], value)
        assert getattr(from_originals[key], "dtype", None) == getattr(value, "dtype", None)


def test_gzip_that_the_server_undid_is_no_problem(small, cache):
    name, load, arrays, _ = small
    write_originals(cache, name, arrays)
    for path in cache.glob("*.gz"):
        path.write_bytes(gzip.decompress(path.read_bytes()))
    np.testing.assert_array_equal(load().target, all_targets(arrays))


# Damaged files.


def damage(content, how):
    middle = len(content) // 2
    return {
        "empty": b"",
        "cut short": content[:middle],
        "one bit": content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :],
        "foreign": b"<html>Not found</html>",
    }[how]


DAMAGES = pytest.mark.parametrize("how", ["empty", "cut short", "one bit", "foreign"])


@DAMAGES
def test_damaged_archive_is_refused(small, how):
    name, load, _, folder = small
    path = folder / f"{name}.npz"
    path.write_bytes(damage(path.read_bytes(), how))
    with pytest.raises(CorruptDatasetError, match="SHA-256") as caught:
        load(data_home=folder)
    assert str(path) in str(caught.value)
    assert SHA256[f"{name}.npz"] in str(caught.value)
    assert "delete it" in str(caught.value)


@DAMAGES
def test_damaged_original_is_refused(small, cache, how):
    name, load, arrays, _ = small
    write_originals(cache, name, arrays)
    for file in SOURCES[name].originals:
        path = cache / file
        good = path.read_bytes()
        path.write_bytes(damage(good, how))
        with pytest.raises(CorruptDatasetError, match="damaged or another version") as caught:
            load()
        assert str(path) in str(caught.value)
        path.write_bytes(good)


def test_original_of_other_numbers_is_refused(small, cache):
    name, load, arrays, _ = small
    write_originals(cache, name, arrays | {key: values[::-1] for key, values in arrays.items() if key[0] == "X"})
    with pytest.raises(CorruptDatasetError, match=r"SHA-256 of its arrays is \w+, expected \w+"):
        load()


def test_pickles_are_never_loaded(cache, monkeypatch):
    path = write_archive(cache, "usps", {"X_train": np.array([{}], object)})
    monkeypatch.setitem(SHA256, path.name, hashlib.sha256(path.read_bytes()).hexdigest())
    with pytest.raises(ValueError, match="allow_pickle=False"):
        load_usps(subset="train")


# Downloads.


class QuietHandler(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path):
    """Serve a folder on this machine: the folder and its address."""
    folder = tmp_path / "served"
    folder.mkdir()
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(folder))) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield folder, f"http://127.0.0.1:{http.server_port}/"
        http.shutdown()
        thread.join()


def set_mirrors(monkeypatch, name, *mirrors):
    monkeypatch.setitem(SOURCES, name, replace(SOURCES[name], mirrors=mirrors))


def unused_address():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/"


def test_missing_files_are_downloaded_once(small, cache, server, monkeypatch):
    pytest.importorskip("pooch", reason="pooch is in the test extra")
    name, load, arrays, _ = small
    folder, address = server
    write_originals(folder, name, arrays)
    set_mirrors(monkeypatch, name, unused_address(), f"{address}not/here/", address)
    np.testing.assert_array_equal(load().target, all_targets(arrays))
    assert sorted(os.listdir(cache)) == sorted(os.listdir(folder))
    set_mirrors(monkeypatch, name, unused_address())
    np.testing.assert_array_equal(load().target, all_targets(arrays))


def test_data_home_is_where_downloads_go(small, cache, server, monkeypatch, tmp_path):
    pytest.importorskip("pooch", reason="pooch is in the test extra")
    name, load, arrays, _ = small
    folder, address = server
    write_originals(folder, name, arrays)
    set_mirrors(monkeypatch, name, address)
    load(data_home=tmp_path / "new" / "home")
    assert sorted(os.listdir(tmp_path / "new" / "home")) == sorted(os.listdir(folder))
    assert not os.listdir(cache)


def test_an_interrupted_download_goes_on_where_it_stopped(small, cache, server, monkeypatch):
    pytest.importorskip("pooch", reason="pooch is in the test extra")
    name, load, arrays, _ = small
    folder, address = server
    write_originals(folder, name, arrays)
    names = list(SOURCES[name].originals)
    for done in names[:-1]:
        (folder / done).rename(cache / done)
    set_mirrors(monkeypatch, name, address)
    np.testing.assert_array_equal(load().target, all_targets(arrays))


@DAMAGES
def test_a_damaged_download_never_reaches_the_cache(small, cache, server, monkeypatch, how):
    pytest.importorskip("pooch", reason="pooch is in the test extra")
    name, load, arrays, _ = small
    folder, address = server
    write_originals(folder, name, arrays)
    last = folder / [*SOURCES[name].originals][-1]
    last.write_bytes(damage(last.read_bytes(), how))
    set_mirrors(monkeypatch, name, address)
    with pytest.raises(DatasetNotFoundError, match=f"{address}{last.name}: "):
        load()
    assert not (cache / last.name).exists()
    assert not [path for path in cache.iterdir() if path.name.startswith("tmp")]


def test_offline_says_what_to_put_where(small, cache, monkeypatch, tmp_path):
    pytest.importorskip("pooch", reason="pooch is in the test extra")
    name, load, _, _ = small
    address = unused_address()
    set_mirrors(monkeypatch, name, address)
    monkeypatch.setenv("DDLEARN_DATA", str(tmp_path / "empty"))
    with pytest.raises(FileNotFoundError) as caught:
        load()
    assert type(caught.value) is DatasetNotFoundError
    first = next(iter(SOURCES[name].originals))
    for part in (f"{name}.npz", first, str(tmp_path / "empty"), str(cache), "export DDLEARN_DATA=", address):
        assert part in str(caught.value)


def test_without_pooch_the_error_says_how_to_install_it(small, monkeypatch):
    name, load, _, _ = small
    set_mirrors(monkeypatch, name, unused_address())
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DatasetNotFoundError, match="pip install pooch"):
        load()


# What is in a set.


def test_bunch(small):
    _, load, arrays, folder = small
    bunch = load(data_home=folder)
    n_samples = len(all_targets(arrays))
    assert bunch.images.shape == (n_samples, *bunch.image_shape)
    np.testing.assert_array_equal(bunch.data, bunch.images.reshape(n_samples, -1))
    assert bunch.data.dtype == np.float32
    assert bunch.target.dtype == np.int64
    assert bunch.data.flags.c_contiguous
    assert bunch.data.flags.writeable
    assert 0 <= bunch.data.min() < bunch.data.max() <= 1
    assert isinstance(bunch.DESCR, str)
    assert bunch.target.max() < len(bunch.target_names)
    X, y = load(data_home=folder, return_X_y=True)
    np.testing.assert_array_equal(X, bunch.data)
    np.testing.assert_array_equal(y, bunch.target)


@pytest.mark.parametrize("small", ["usps", "mnist"], indirect=True)
def test_subsets_of_an_official_split(small):
    _, load, arrays, folder = small
    both, train, test = (load(data_home=folder, subset=subset) for subset in ("all", "train", "test"))
    assert [len(train.data), len(test.data)] == [len(arrays["y_train"]), len(arrays["y_test"])]
    np.testing.assert_array_equal(both.data, np.concatenate([train.data, test.data]))
    np.testing.assert_array_equal(both.target, np.concatenate([train.target, test.target]))
    with pytest.raises(ValueError, match="subset must be 'train', 'test' or 'all', got 'validation'"):
        load(data_home=folder, subset="validation")


@pytest.fixture
def faces(cache, monkeypatch):
    """A folder of small faces: three people, ten lights each."""
    path = write_archive(cache, "yaleb", small_arrays("yaleb"))
    monkeypatch.setitem(SHA256, path.name, hashlib.sha256(path.read_bytes()).hexdigest())
    return small_arrays("yaleb")


@pytest.mark.parametrize("size", [(96, 84), (48, 42), (32, 28), (24, 21), (16, 14), (8, 7)])
def test_face_sizes_are_means_of_blocks(faces, size):
    bunch = load_yaleb(size=size)
    side = 96 // size[0]
    expected = faces["X"].reshape(30, size[0], side, size[1], side).mean((2, 4)) / 255
    assert bunch.image_shape == size
    np.testing.assert_allclose(bunch.images, expected, rtol=2e-7)


def test_face_size_that_does_not_fit_is_refused(faces):
    with pytest.raises(ValueError, match=r"\(96, 84\), .*\(24, 21\).*, got \(24, 24\)"):
        load_yaleb(size=(24, 24))
    with pytest.raises(ValueError, match="got 24"):
        load_yaleb(size=24)


def rows_of(bunch, faces):
    """The positions of images in the set, all of which differ."""
    positions = {image.tobytes(): i for i, image in enumerate(faces["X"])}
    return [positions[np.rint(255 * image).astype(np.uint8).tobytes()] for image in bunch.images]


@pytest.mark.parametrize("options", [{"split": "half"}, {"split": "lighting"}], ids=str)
def test_parts_of_a_face_split_are_disjoint(faces, options):
    both, train, test = (
        rows_of(load_yaleb(size=(96, 84), subset=subset, **options), faces) for subset in ("all", "train", "test")
    )
    assert not set(train) & set(test)
    assert sorted(train + test) == both


def test_halves_are_random_by_seed(faces):
    halves = [load_yaleb(size=(96, 84), split="half", subset="train", random_state=seed) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(np.bincount(halves[0].target), [5, 5, 5])
    assert rows_of(halves[0], faces) == rows_of(halves[1], faces) != rows_of(halves[2], faces)


def test_odd_numbers_give_the_larger_half_to_training():
    in_train = _draw_halves(np.repeat([0, 1], [7, 4]), 0)
    assert [in_train[:7].sum(), in_train[7:].sum()] == [4, 2]


def test_lights_choose_the_images(faces):
    assert set(load_yaleb().lighting) == {1, 2, 3, 4, 5}
    assert set(load_yaleb(split="lighting", subset="train").lighting) == {1, 2}
    assert set(load_yaleb(split="lighting", subset="test").lighting) == {3}
    chosen = load_yaleb(split="lighting", subset="test", train_lights=1, test_lights=[4, 5])
    assert set(chosen.lighting) == {4, 5}
    assert set(chosen.azimuth) == {-70, 110}
    assert set(chosen.target_names[chosen.target]) == {"yaleB01", "yaleB13", "yaleB15"}
    np.testing.assert_array_equal(chosen.subject, np.array([1, 13, 15])[chosen.target])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "thirds"}, "split must be 'half', 'lighting' or None, got 'thirds'"),
        ({"subset": "train"}, "subset='train' needs a split"),
        ({"subset": "some"}, "subset must be 'train', 'test' or 'all', got 'some'"),
        ({"split": "half", "random_state": None}, "random_state must be an integer for split='half', got None"),
        ({"test_lights": (6,)}, r"test_lights must be lighting subsets from 1 to 5, got \[6\]"),
        ({"train_lights": ()}, "train_lights must be lighting subsets"),
        ({"train_lights": (1, 2), "test_lights": (2, 3)}, r"train_lights and test_lights share \[2\]"),
    ],
    ids=str,
)
def test_face_errors(options, message):
    with pytest.raises(ValueError, match=message):
        load_yaleb(**options)


def test_faces_are_halved_by_means_rounded_half_up():
    image = np.array([[0, 1, 255, 255], [0, 1, 255, 254], [0, 0, 3, 0], [0, 1, 0, 0]], np.uint8)
    # means 0.5, 254.75, 0.25, 0.75
    np.testing.assert_array_equal(_halve(image), [[1, 255], [0, 1]])


def test_pgm_may_hold_a_comment():
    pixels = np.arange(192 * 168, dtype=np.uint32).astype(np.uint8)
    image = _read_pgm(b"P5\n# made by hand\n168 192\n255\n" + pixels.tobytes())
    np.testing.assert_array_equal(image, pixels.reshape(192, 168))


# The real sets.


@needs("usps")
@pytest.mark.parametrize("subset", ["train", "test"])
def test_usps(subset):
    usps = load_usps(subset=subset, data_home=REAL_FOLDER)
    np.testing.assert_array_equal(np.bincount(usps.target), USPS_COUNTS[subset])
    first = {"train": [6, 5, 4, 7, 3, 6, 3, 1, 0, 1], "test": [9, 6, 3, 6, 6, 0, 0, 0, 6, 9]}
    np.testing.assert_array_equal(usps.target[:10], first[subset])
    assert (usps.data.min(), usps.data.max()) == (0, 1)


@needs("mnist")
@pytest.mark.parametrize("subset", ["train", "test"])
def test_mnist(subset):
    mnist = load_mnist(subset=subset, data_home=REAL_FOLDER)
    np.testing.assert_array_equal(np.bincount(mnist.target), MNIST_COUNTS[subset])
    first = {"train": [5, 0, 4, 1, 9, 2, 1, 3, 1, 4], "test": [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]}
    np.testing.assert_array_equal(mnist.target[:10], first[subset])
    assert (mnist.data.min(), mnist.data.max()) == (0, 1)


@needs("yaleb")
def test_yaleb():
    faces = load_yaleb(data_home=REAL_FOLDER)
    assert faces.data.shape == (2414, 504)
    few = {11: 60, 12: 59, 13: 60, 15: 63, 16: 62, 17: 63, 18: 63}
    numbers = [number for number in range(1, 40) if number != 14]
    np.testing.assert_array_equal(np.bincount(faces.target), [few.get(number, 64) for number in numbers])
    np.testing.assert_array_equal(np.array(numbers)[faces.target], faces.subject)
    np.testing.assert_array_equal(np.bincount(faces.lighting)[1:], [263, 456, 455, 526, 714])


@needs("yaleb")
def test_yaleb_splits():
    load = partial(load_yaleb, data_home=REAL_FOLDER)
    train, test = (load(split="half", subset=subset, random_state=3) for subset in ("train", "test"))
    difference = np.bincount(train.target) - np.bincount(test.target)
    assert set(difference) == {0, 1}
    assert len(train.data) + len(test.data) == 2414
    assert [len(load(split="lighting", subset=subset).data) for subset in ("train", "test")] == [719, 455]


@needs_each
def test_real_originals_give_the_archive(name, tmp_path):
    with np.load(Path(REAL_FOLDER) / f"{name}.npz") as archive:
        write_originals(tmp_path, name, dict(archive))
        converted = read_files(SOURCES[name], [tmp_path / file for file in SOURCES[name].originals])
        assert converted.keys() == set(archive)
        for key, values in converted.items():
            assert values.dtype == archive[key].dtype
            np.testing.assert_array_equal(values, archive[key])
