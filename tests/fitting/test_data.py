"""Samples become parts: views of arrays that may be on disk, and little memory for large ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.memory_map import measure_memory

from ddlearn.fitting.data import (
    TrainingSet,
    cut_into_parts,
    fetch_candidates,
)
from ddlearn.parallel import PART_ROWS


def test_parts_are_views_of_the_samples(tmp_path):
    path = tmp_path / "X.npy"
    np.save(path, np.arange(1200.0).reshape(600, 2))
    X = np.load(path, mmap_mode="r")
    training, targets = cut_into_parts(X, np.arange(600) % 3, None)
    (part,) = training.parts.parts
    assert np.shares_memory(part.X, X)
    assert type(part.X) is np.ndarray  # Numba does not know memory maps
    assert targets.classes.tolist() == [0, 1, 2]
    several = TrainingSet.of_arrays(X, part.labels, 256)
    assert [len(part) for part in several.parts.parts] == [256, 256, 88]
    assert [part.first_row for part in several.parts.parts] == [0, 256, 512]
    assert all(np.shares_memory(part.X, X) for part in several.parts.parts)


def test_facts_count_labels():
    labels = np.array([[1, -1], [-1, 1], [0, 0], [-1, 0]])
    facts = TrainingSet.of_arrays(np.zeros((4, 3)), labels, 256).facts
    assert facts.n_labelled.tolist() == [3, 2]
    assert facts.n_positive.tolist() == [1, 1]
    assert facts.n_with_label == 3
    assert (facts.n_samples, facts.n_features, facts.n_classes) == (4, 3, 2)


def test_first_atoms_come_from_all_classes_also_where_only_some_samples_are_candidates(monkeypatch):
    monkeypatch.setattr("ddlearn.fitting.data._MOST_CANDIDATES", 100)
    X = np.eye(500) + 1.0
    y = np.minimum(np.arange(500) // 100, 3) * (np.arange(500) != 7) + 4 * (np.arange(500) == 7)  # class 4 is rare
    labels = np.where(y[:, None] == np.arange(5), 1, -1)
    found = []
    for part_rows in (256, 1024):
        training = TrainingSet.of_arrays(X, labels, part_rows)
        fetched = np.concatenate(list(fetch_candidates(training, 30, np.random.RandomState(0))))
        rows = np.unique(fetched.argmax(axis=1))
        assert len(rows) == len(fetched)
        assert np.bincount(y[rows]).tolist() == [20, 20, 20, 40, 1]
        found.append(fetched)
    np.testing.assert_array_equal(*found)


needs_proc = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")


@needs_proc
def test_a_memory_mapped_fit_needs_less_memory_than_its_data(tmp_path):
    n_samples = PART_ROWS + 1000
    assert measure_memory(tmp_path / "X.npy", n_samples, "block_coordinate") < n_samples * 256 * 4


@needs_proc
@pytest.mark.nightly
@pytest.mark.parametrize("update", ["ksvd", "block_coordinate"])
def test_a_large_memory_mapped_fit_stays_below_its_cap(tmp_path, update):
    # 2 million such rows, 2 GB on disk, must take less than 1 GB: 500 bytes per row. A fifth of them is tried here.
    n_samples = 400_000
    assert measure_memory(tmp_path / "X.npy", n_samples, update) < 500 * n_samples
