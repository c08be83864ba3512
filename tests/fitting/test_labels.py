"""Targets become labels, also where they are in several places."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ddlearn.fitting.labels import Targets, find_labels

LABELS = {
    "integers": st.integers(-5, 5),
    "text": st.text(max_size=3),
    "numbers": st.integers(-5, 5).map(float),
    "flags": st.booleans(),
}


@pytest.mark.parametrize("kind", LABELS)
@given(data=st.data())
def test_classes_and_labels_of_two_parts_are_those_of_the_whole(kind, data):
    y = data.draw(st.lists(LABELS[kind], min_size=1, max_size=12))
    cut = data.draw(st.integers(0, len(y)))
    unlabeled = y[-1] if data.draw(st.booleans()) else None
    parts = [np.array(part, dtype=object) for part in (y[:cut], y[cut:]) if part]
    whole = find_labels(y, unlabeled)
    found = sum((find_labels(part, unlabeled) for part in parts[1:]), start=find_labels(parts[0], unlabeled))
    assert found.n_samples == len(y)
    assert found.values.tolist() == whole.values.tolist() == sorted({label for label in y if label != unlabeled})
    if found.values.size:
        targets = Targets(whole.values, False)
        labels = np.concatenate([targets.encode(part, unlabeled) for part in parts])
        np.testing.assert_array_equal(labels, targets.encode(y, unlabeled))
        for label, row in zip(y, labels, strict=True):
            expected = [0 if label == unlabeled else 1 if label == value else -1 for value in whole.values.tolist()]
            assert row.tolist() == expected


def test_types_that_differ_between_parts_are_refused():
    both = find_labels(np.array([1, 2]), None) + find_labels(np.array(["a", "b"]), None)
    with pytest.raises(ValueError, match=r"y mixes labels of the types \['int', 'str'\]"):
        both.get_targets(None)


def test_a_part_without_labels_adds_nothing():
    some, none = find_labels(np.array([2, 1]), -1), find_labels(np.array([-1, -1]), -1)
    for both in (some + none, none + some):
        assert both.get_targets(-1).classes.tolist() == [1, 2]
    with pytest.raises(ValueError, match="All 4 samples are marked as unlabelled"):
        (none + none).get_targets(-1)


def test_columns_that_differ_between_parts_are_refused():
    with pytest.raises(ValueError, match="another number of columns"):
        find_labels(np.eye(2), None) + find_labels(np.eye(3), None)
    with pytest.raises(ValueError, match="another number of columns"):
        find_labels(np.eye(2), None) + find_labels(np.array([0, 1]), None)
