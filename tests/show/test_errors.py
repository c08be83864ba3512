"""Error tables: counts per sample, and Wilson's confidence interval."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import classification_report

from ddlearn.show.errors import check_labels, match_types, measure_errors

pairs = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("abcd")), min_size=1, max_size=40)


def divide(part: int, whole: int) -> float:
    return part / whole if whole else np.nan


@given(pairs)
def test_all_numbers_are_counts_of_samples(pairs):
    labels, predictions = map(np.array, zip(*pairs, strict=True))
    errors = measure_errors(labels, predictions)
    assert errors.classes.tolist() == sorted({name for pair in pairs for name in pair})
    assert errors.n_samples == len(pairs)
    assert errors.n_wrong == sum(label != prediction for label, prediction in pairs)
    assert errors.error == errors.n_wrong / len(pairs)
    for j, name in enumerate(errors.classes):
        of_class = [prediction for label, prediction in pairs if label == name]
        predicted = [label for label, prediction in pairs if prediction == name]
        assert errors.n_samples_of_class[j] == len(of_class)
        assert errors.confusion[j].tolist() == [of_class.count(other) for other in errors.classes]
        precision, recall = divide(predicted.count(name), len(predicted)), divide(of_class.count(name), len(of_class))
        np.testing.assert_allclose([errors.precision[j], errors.recall[j]], [precision, recall], equal_nan=True)
        f1 = divide(2 * of_class.count(name), len(of_class) + len(predicted))
        assert errors.f1[j] == pytest.approx(f1)


@given(st.integers(1, 500), st.data())
def test_the_ends_of_the_interval_are_where_the_share_is_just_not_surprising(n_samples, data):
    """Wilson: a true share p is inside if the share seen is within z standard deviations of it, those of p."""
    n_wrong = data.draw(st.integers(0, n_samples))
    errors = measure_errors(np.zeros(n_samples, int), np.arange(n_samples) < n_wrong)
    z = 1.959963984540054
    assert 0 <= errors.error_interval[0] <= errors.error <= errors.error_interval[1] <= 1
    for end in errors.error_interval:
        assert abs(errors.error - end) == pytest.approx(z * np.sqrt(end * (1 - end) / n_samples), abs=1e-7)


def test_a_single_class_without_errors():
    errors = measure_errors(np.array([3, 3]), np.array([3, 3]))  # scikit-learn's confusion_matrix warns of it
    assert errors.confusion.tolist() == [[2]]
    assert errors.n_wrong == 0


def test_numbers_are_those_of_scikit_learn():
    X, y = load_iris(return_X_y=True)
    predictions = LogisticRegression(C=0.01).fit(X, y).predict(X)
    errors, expected = measure_errors(y, predictions), classification_report(y, predictions, output_dict=True)
    for name in ("precision", "recall", "f1"):
        key = "f1-score" if name == "f1" else name
        assert getattr(errors, name) == pytest.approx([expected[str(j)][key] for j in range(3)])
    assert 1 - errors.error == pytest.approx(expected["accuracy"])


NUMBERS, TEXT = np.array([9, 10, 2]), np.array(["9", "10", "2"])


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (TEXT, NUMBERS),  # folders, for a model of an archive
        (NUMBERS, TEXT),
        (TEXT.astype(object), NUMBERS),
        (NUMBERS.astype(object), TEXT),  # a column of a data frame; text and numbers cannot be sorted together
        (TEXT, NUMBERS.astype(object)),
        (TEXT.astype(object), TEXT),
    ],
)
def test_text_and_numbers_are_compared_as_text(labels, classes):
    given, known = match_types(labels, classes)
    assert (given == known).all()
    assert [str(name) for name in known] == ["9", "10", "2"]
    assert measure_errors(given, known[[0, 0, 2]]).n_wrong == 1


@pytest.mark.parametrize("values", [NUMBERS, TEXT, NUMBERS == 9])
def test_equal_types_stay(values):
    given, known = match_types(values, values.copy())
    assert given is values
    assert known.dtype == values.dtype


def test_of_any_number_of_arrays_all_become_text_or_none():
    assert [some.dtype.kind for some in match_types(NUMBERS, TEXT, NUMBERS[:0])] == ["U", "U", "U"]
    assert [some.dtype.kind for some in match_types(NUMBERS, NUMBERS / 2, NUMBERS == 9)] == ["i", "f", "b"]


@pytest.mark.parametrize("y", [[], NUMBERS[:0]])
def test_errors_need_at_least_one_sample(y):
    with pytest.raises(ValueError, match="y is empty: pass at least one sample"):
        check_labels(y)


@pytest.mark.parametrize(
    "y",
    [
        np.array([1.0, 2.0, np.nan]),
        np.array([1, 2, None]),
        ["a", "b", None],
        ["a", "b", float("nan")],  # as an array of NumPy it would be the text "nan", a class like any other
        np.array(["a", "b", np.nan], object),
    ],
)
def test_a_sample_without_label_is_named_by_its_row(y):
    with pytest.raises(ValueError, match=r"y contains (nan|None) in row 2: leave out samples"):
        check_labels(y)


def test_what_pandas_calls_missing_is_no_label():
    pandas = pytest.importorskip("pandas")
    for series in (
        pandas.Series(["a", None]),
        pandas.Series(["a", None], dtype="string"),
        pandas.Series([1, None], dtype="Int64"),
    ):
        with pytest.raises(ValueError, match="in row 1: leave out samples without a label"):
            check_labels(series)


@pytest.mark.parametrize(("y", "marker"), [([0, -1], -1), ([0.0, -1.0], -1), (["0", "-1"], -1), (["a", "?"], "?")])
def test_the_marker_of_no_label_is_no_class(y, marker):
    """A sample without label would be an error of every model; as folders have names, -1 may be a text."""
    with pytest.raises(ValueError, match=r"in row 1, which marks samples without a label .*: leave them"):
        check_labels(np.array(y), marker)
    check_labels(np.array(y))  # a class like any other, if the model has no marker


def test_labels_of_all_types_are_labels():
    for y in (NUMBERS, TEXT, NUMBERS == 9, ["nan", "None"], [np.str_("a"), np.int64(3)], np.array(["nan"], object)):
        check_labels(y, "no such label")
