"""Held-out samples: of each class its share, and never a whole class."""

from __future__ import annotations

import numpy as np

from ddlearn import Refiner
from ddlearn.refinement.refiner import hold_out


def test_four_folds_hold_out_each_sample_once_but_classes_of_one():
    class_index = np.repeat([0, 1, 2, 3, -1], [40, 7, 2, 1, 10])
    folds = [hold_out(class_index, 0.25, fold) for fold in range(4)]
    held_out = np.concatenate([rows for _, rows in folds])
    np.testing.assert_array_equal(np.sort(held_out), np.flatnonzero(np.isin(class_index, [0, 1, 2])))
    for learned, rows in folds:
        np.testing.assert_array_equal(np.sort(np.append(learned, rows)), np.arange(50))  # those with a label
        np.testing.assert_array_equal(np.bincount(class_index[rows], minlength=3)[:1], [10])
        assert set(class_index[learned]) == {0, 1, 2, 3}
        assert (np.diff(rows) < 0).any()  # shuffled


def test_validation_holds_out_a_share_of_each_class_but_never_all():
    class_index = np.repeat([0, 1, 2], [100, 10, 1])
    for share, expected in ((0.1, [10, 1, 0]), (0.3, [30, 3, 0]), (0.95, [95, 9, 0])):
        held_out = Refiner(validation_fraction=share).hold_out(class_index)
        np.testing.assert_array_equal(np.bincount(class_index[held_out], minlength=3), expected)
        assert (np.diff(held_out) > 0).all()
    class_index[50:] = -1  # of samples without a label there is nothing to hold out
    assert Refiner(validation_fraction=0.1).hold_out(class_index).max() < 50
    assert Refiner().hold_out(class_index).size == 0
