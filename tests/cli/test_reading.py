"""Readers: what was written is read, and what cannot be read is a DataError that names the place."""

from __future__ import annotations

import io
import os
import pickle
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from ddlearn.cli.reading import DataError, read_data
from ddlearn.cli.reading.columns import LABEL_COLUMNS

pyarrow = pytest.importorskip("pyarrow")

IS_NIGHTLY = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"
X = np.array([[1.5, -2.0, 0.25], [3.0, 4.5, 1e-3], [0.0, 7.0, 8.0]])
NAMES = np.array(["rose", "tulip", "rose"])


def write_image(path: Path, pixels: np.ndarray) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)
    return path


def write_file(path: Path, content: str | bytes | np.ndarray | dict) -> Path:
    """Write text, bytes, an array, or the arrays of an archive."""
    if isinstance(content, dict):
        np.savez(path, **content)
    elif isinstance(content, np.ndarray):
        np.save(path, content)
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def save_svmlight(path: Path, labels: np.ndarray) -> Path:
    from sklearn.datasets import dump_svmlight_file

    dump_svmlight_file(X, labels, str(path), zero_based=False)
    return path


# -- arrays ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [("X", "y"), ("data", "target"), ("images", "labels")])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_archives_are_read_as_they_are(tmp_path, names, dtype):
    np.savez(tmp_path / "a.npz", **{names[0]: X.astype(dtype), names[1]: NAMES})
    samples = read_data(tmp_path / "a.npz")
    assert samples.X.dtype == dtype
    np.testing.assert_array_equal(samples.X, X.astype(dtype))
    np.testing.assert_array_equal(samples.labels, NAMES)


def test_images_in_an_archive_become_rows_with_a_shape(tmp_path):
    grey = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    colour = np.arange(2 * 3 * 4 * 3, dtype=np.float64).reshape(2, 3, 4, 3)
    np.savez(tmp_path / "grey.npz", images=grey)
    np.savez(tmp_path / "colour.npz", images=colour)
    samples = read_data(tmp_path / "grey.npz")
    assert samples.image_shape == (3, 4)
    assert samples.labels is None
    np.testing.assert_allclose(samples.X, grey.reshape(2, 12) / 255, rtol=1e-6)  # as pixels of image files are
    samples = read_data(tmp_path / "colour.npz")
    assert samples.image_shape == (3, 4, 3)
    np.testing.assert_array_equal(samples.X, colour.reshape(2, 36))


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(np.uint8, np.float32), (np.int16, np.float32), (np.int32, np.float64), (bool, np.float32), (">f4", np.float32)],
)
def test_integers_become_floats_that_hold_them(tmp_path, dtype, expected):
    np.save(tmp_path / "a.npy", X.astype(dtype))
    samples = read_data(tmp_path / "a.npy")
    assert samples.X.dtype == expected
    np.testing.assert_array_equal(samples.X, X.astype(dtype))


@pytest.mark.parametrize("suffix", [".npy", ".csv", ".txt"])
def test_labels_from_a_file_of_their_own(tmp_path, suffix):
    np.save(tmp_path / "a.npy", X)
    path = write_file(tmp_path / f"labels{suffix}", NAMES if suffix == ".npy" else "\n".join(NAMES) + "\n")
    np.testing.assert_array_equal(read_data(tmp_path / "a.npy", labels=path).labels, NAMES)


class Trap:
    """Unpickled, it would leave a file behind."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("kind", ["npy", "npz", "pickle"])
def test_nothing_is_unpickled(tmp_path, kind):
    trap = np.array([Trap(tmp_path / "sprung")], dtype=object)
    path = tmp_path / ("a.npz" if kind == "npz" else "a.npy")
    if kind == "npz":
        np.savez(path, X=trap)
    elif kind == "npy":
        np.save(path, trap, allow_pickle=True)
    else:
        path.write_bytes(pickle.dumps(trap))
    with pytest.raises(DataError):
        read_data(path)
    assert not (tmp_path / "sprung").exists()


def test_nan_is_left_to_the_estimator(tmp_path):
    missing = np.where(np.eye(3) > 0, np.nan, X)
    np.save(tmp_path / "a.npy", missing)
    np.testing.assert_array_equal(read_data(tmp_path / "a.npy").X, missing)
    path = write_file(tmp_path / "a.csv", "a,b,label\n1,,x\nnan,2,y\n")
    np.testing.assert_array_equal(read_data(path).X, [[1, np.nan], [np.nan, 2]])


# -- parts -------------------------------------------------------------------------------------------------------------


def write_parquet(path: Path, X: np.ndarray, labels: list, names: str = "abc") -> Path:
    from pyarrow import parquet

    parquet.write_table(pyarrow.table(dict(zip(names, X.T, strict=True)) | {"label": labels}), path)
    return path


@pytest.mark.parametrize("kind", ["npy", "npz", "parquet"])
def test_parts_are_the_rows_of_their_files_in_the_order_of_their_numbers(tmp_path, kind):
    expected = np.arange(12 * 3, dtype=np.float32).reshape(12, 3)
    labels = np.array([*map(str, range(10)), "ox", "elephant"])
    for number, row in enumerate(expected):
        path = tmp_path / f"day {number}" / f"X.{kind}"
        path.parent.mkdir()
        if kind == "npy":
            np.save(path, row[None])
            np.save(path.with_name("y.npy"), labels[number : number + 1])
        elif kind == "npz":
            np.savez(path, X=row[None], y=labels[number : number + 1])
        else:  # text in one of them makes all labels text, as in a single file
            write_parquet(path, row[None], labels[number : number + 1].tolist())
    samples = read_data(tmp_path / "**" / f"X.{kind}", labels=tmp_path / "*" / "y.npy" if kind == "npy" else None)
    assert samples.X.dtype == np.float32
    np.testing.assert_array_equal(samples.X, expected)
    np.testing.assert_array_equal(samples.labels, labels)
    assert samples.feature_names == (["a", "b", "c"] if kind == "parquet" else None)


def test_parts_of_images_are_rows_from_0_to_1_in_the_precision_that_holds_all(tmp_path):
    images = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    np.save(tmp_path / "0.npy", images)
    np.save(tmp_path / "1.npy", images / 255)
    samples = read_data(tmp_path / "*.npy", labels=write_file(tmp_path / "y.txt", "kind\n1\n2\n1\n2\n"))
    assert samples.image_shape == (3, 4)
    assert samples.X.dtype == np.float64
    np.testing.assert_allclose(samples.X * 255, np.tile(images.reshape(2, 12), (2, 1)), rtol=1e-6)
    assert samples.labels.tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize(
    ("pattern", "options", "message"),
    [
        ("X-*.npy", {}, r"X-2\.npy has shape \(4, 2\), but .*X-0\.npy \(4, 3\)"),
        ("X-[01].npy", {"labels": "y-[01].npy"}, "has 9 samples, but 8 labels"),
        ("X-[01].npy", {"labels": "y-*", "label_column": "last"}, "give only one"),
        ("X-[01].npy", {"labels": "*.csv"}, r"a\.csv: parts must be \.npy, not '\.csv'"),
        ("X-[01].npy", {"label_column": "last"}, "only tables"),
        ("nothing-*.npy", {}, r"nothing-\*\.npy: there is no such file"),
        ("X-*.np?", {}, r"X-1\.npz is another kind of file than"),
        ("X-[12].npz", {}, r"X-2\.npz has no labels, but .*X-1\.npz has"),
        ("X-[13].npz", {}, r"X-3\.npz cannot be read"),
        ("*.csv", {}, r"a\.csv: parts must be \.npy, \.npz, \.parquet, not '\.csv'"),
        ("t-[01].parquet", {}, r"t-1\.parquet has other columns than .*t-0\.parquet: without 'c' and with 'd'"),
        ("t-[02].parquet", {}, "in another order"),
    ],
)
def test_what_does_not_fit_together_is_named_by_the_part(tmp_path, monkeypatch, pattern, options, message):
    monkeypatch.chdir(tmp_path)
    for number, shape in enumerate([(4, 3), (5, 3), (4, 2)]):
        np.save(f"X-{number}.npy", np.ones(shape))
        np.save(f"y-{number}.npy", np.zeros(4, int))
    np.savez("X-1.npz", X=X, y=[1, 2, 3])
    np.savez("X-2.npz", X=X)
    Path("X-3.npz").write_bytes(b"PK\x03\x04 and no more")
    write_file(Path("a.csv"), "1,2\n")
    for number, names in enumerate(("abc", "abd", "acb")):
        write_parquet(Path(f"t-{number}.parquet"), X, [1, 2, 3], names)
    with pytest.raises(DataError, match=message):
        read_data(pattern, **options)


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(tmp_path):
    np.savez(tmp_path / "a[1].npz", X=X, y=NAMES)
    np.testing.assert_array_equal(read_data(tmp_path / "a[1].npz").X, X)


# -- sparse files ------------------------------------------------------------------------------------------------------


def test_svmlight(tmp_path):
    samples = read_data(save_svmlight(tmp_path / "a.svm", np.array([1, -1, 1])))
    np.testing.assert_allclose(samples.X, X, rtol=1e-6)
    assert samples.labels.tolist() == [1, -1, 1]
    assert samples.labels.dtype == np.int64
    assert read_data(tmp_path / "a.svm", n_features=5).X.shape == (3, 5)


# -- tables ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_text_tables(tmp_path, delimiter, end):
    rows = [["width", "height", "kind"], ["1.5", "2", "rose"], ["-3e2", "4.5", "tulip"]]
    path = tmp_path / "a.csv"
    path.write_bytes(end.join(delimiter.join(row) for row in rows).encode())
    samples = read_data(path)
    assert samples.X.dtype == np.float64
    assert samples.X.tolist() == [[1.5, 2.0], [-300.0, 4.5]]
    assert samples.labels.tolist() == ["rose", "tulip"]
    assert samples.feature_names == ["width", "height"]


KINDS = "width,kind,height\n1,rose,2\n3,tulip,4\n"
LEFT_OUT = "id,a,note,b,label\n7,1,good,2,x\n8,3,bad,4,y\n"
KNOWN = {"n_features": 2, "feature_names": ["a", "b"]}
NOTED = "note,b,kind,a,id\ngood,2,x,1,7\nbad,4,y,3,8\n"


@pytest.mark.parametrize(
    ("text", "options", "rows", "names", "labels"),
    [
        # Headers: none if there are numbers in the first row only, unless it names the labels or stands above numbers.
        ("1,2,rose\n3,4,tulip\n", {}, [[1, 2], [3, 4]], None, ["rose", "tulip"]),
        ("0,1,label\n1,2,rose\n", {}, [[1, 2]], ["0", "1"], ["rose"]),  # as pandas writes them
        ("0,1,kind\n1,2,7\n", {}, [[1, 2]], ["0", "1"], [7]),
        ("\ufeffa,b,c\n1,2,3\n", {}, [[1, 2]], ["a", "b"], [3]),  # as spreadsheets write them
        ("\n\na,b,c\n1,2,3\n", {}, [[1, 2]], ["a", "b"], [3]),
        ("a,a,label\n1,2,x\n", {}, [[1, 2]], ["a", "a"], ["x"]),
        # The label column: by name, number and usual name, or the last.
        *((KINDS, {"label_column": one}, [[1, 2], [3, 4]], ["width", "height"], ["rose", "tulip"])
          for one in ("kind", "1", "-2")),
        *((f"{one.upper()},width\n7,1\n9,2\n", {}, [[1], [2]], ["width"], [7, 9]) for one in LABEL_COLUMNS),
        ("label,width\n7,1\n9,2\n", {"label_column": "last"}, [[7], [9]], ["label"], [1, 2]),
        ("a,b\n1,2\n3,4\n", {"n_features": 2}, [[1, 2], [3, 4]], ["a", "b"], None),  # as many as the model has
        ("a,b\n1,2\n3,4\n", {"n_features": 1}, [[1], [3]], ["a"], [2, 4]),
        # Columns that a model knows, among others.
        (NOTED, KNOWN | {"label_name": "kind"}, [[1, 2], [3, 4]], ["a", "b"], ["x", "y"]),
        (NOTED, KNOWN, [[1, 2], [3, 4]], ["a", "b"], None),  # which column has the labels cannot be known
        (NOTED, KNOWN | {"label_column": "id"}, [[1, 2], [3, 4]], ["a", "b"], [7, 8]),
        ("b,kind,a\n2,x,1\n", KNOWN, [[1, 2]], ["a", "b"], ["x"]),  # one is over, for a model that does not remember
        ("x,1,2\ny,3,4\n", {"n_features": 2, "label_name": "0"}, [[1, 2], [3, 4]], None, ["x", "y"]),
        # Columns that are left out.
        *((LEFT_OUT, {"ignore": ignore}, [[1, 2], [3, 4]], ["a", "b"], ["x", "y"])
          for ignore in (["id", "note"], ["0", "2"], ["-5", "note"])),
        # Decimal commas.
        ("1,5;2;x\n-3,25;4,5;y\n", {}, [[1.5, 2], [-3.25, 4.5]], None, ["x", "y"]),
        ("a;b;label\n1,5;2;x\n-3,25;4,5;y\n", {}, [[1.5, 2], [-3.25, 4.5]], ["a", "b"], ["x", "y"]),
    ],
)  # fmt: skip
def test_columns_of_text_tables(tmp_path, text, options, rows, names, labels):
    samples = read_data(write_file(tmp_path / "a.csv", text), **options)
    assert samples.X.tolist() == rows
    assert samples.feature_names == names
    assert (None if samples.labels is None else samples.labels.tolist()) == labels


@pytest.mark.parametrize("name", ["", "Unnamed: 0"])
def test_an_index_of_pandas_is_no_feature(tmp_path, name):
    path = write_file(tmp_path / "a.csv", f"{name},a,label\n0,5,x\n1,6,y\n")
    samples = read_data(path)
    assert samples.feature_names == ["a"]
    assert "is an index that pandas has written: it is left out" in samples.notes[0]
    # A model that was fitted to it gets it; so does a user who asks for it.
    assert read_data(path, n_features=2, feature_names=[name, "a"]).X.tolist() == [[0, 5], [1, 6]]
    assert read_data(path, label_column="0", ignore=["label"]).labels.tolist() == [0, 1]


@pytest.mark.parametrize("index", [None, "sample"])
def test_an_index_in_parquet_is_neither_feature_nor_label(tmp_path, index):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "kind": ["x", "y"]}, index=pandas.Index([5, 3], name=index))
    frame.to_parquet(tmp_path / "a.parquet")
    samples = read_data(tmp_path / "a.parquet")
    assert (samples.feature_names, samples.label_name) == (["a"], "kind")
    assert "an index that pandas has written" in samples.notes[0]


def test_columns_that_a_model_does_not_know_are_named(tmp_path):
    samples = read_data(write_file(tmp_path / "a.csv", NOTED), **KNOWN, label_name="kind")
    assert "the model does not know column 'note', 'id': ignored" in samples.notes[0]


def test_the_label_column_that_was_taken_is_told(tmp_path):
    def take(text, **options):
        samples = read_data(write_file(tmp_path / "a.csv", text), **options)
        return samples.label_name, samples.is_guessed

    assert take("a,kind\n1,x\n") == ("kind", True)
    assert take("a,label\n1,x\n") == ("label", False)
    assert take("a,kind\n1,x\n", label_column="last") == ("kind", False)
    assert take("1,x\n") == ("1", True)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["3", "-1"], [3, -1]),
        (["3.0", "1."], [3, 1]),
        (["007", "7"], ["007", "7"]),  # a name, not a number
        (["12345678901234567890", "1"], ["12345678901234567890", "1"]),
        (["0.5", "1"], [0.5, 1.0]),
        (["nan", "1"], ["nan", "1"]),
        (["a", ""], ["a", ""]),
        (["1_0", "1"], ["1_0", "1"]),
    ],
    ids=str,
)
def test_labels_are_integers_only_if_all_of_them_are(tmp_path, texts, expected):
    path = write_file(tmp_path / "a.csv", "x,label\n" + "".join(f"1,{text}\n" for text in texts))
    assert read_data(path).labels.tolist() == expected


THREE = {"X.npy": X}
REFUSALS = [  # files, of which the first is read; options; message
    ({"a.npz": {"pixels": X, "classes": NAMES}}, {}, "the arrays pixels, classes; the samples must be called X, data"),
    ({"a.npz": {"X": X, "y": NAMES.astype(object)}}, {}, r"array 'y' holds Python objects, .*: save y\.astype\(str\)"),
    ({"a.npy": np.ones(3)}, {}, r"has shape \(3,\)"),
    ({"a.npy": np.ones((2, 3, 4, 5))}, {}, r"has shape \(2, 3, 4, 5\)"),
    ({"a.npy": np.array([["a", "b"]])}, {}, "has type <U1, not real numbers"),
    ({"a.npy": np.ones((2, 2), complex)}, {}, "has type complex128"),
    ({"a.npy": np.ones((0, 4))}, {}, r"has no samples.*\(0, 4\)"),
    ({"a.npy": np.where(np.eye(4) > 0, np.inf, 1)[2:]}, {}, "row 0, column 2: the value is infinite"),
    ({"a.npy": np.where(np.arange(20_000) == 19_753, -np.inf, 0).reshape(-1, 2)}, {}, "row 9876, column 1"),
    (THREE, {"label_column": "last"}, "only tables .* have a label column"),
    (THREE, {"ignore": ["0"]}, "only tables .* have a column to ignore"),
    (THREE | {"y.csv": "3\n1\n"}, {"labels": "y.csv"}, "has 3 samples, but 2 labels"),
    (THREE | {"y.csv": "3\n1,2\n3\n"}, {"labels": "y.csv"}, r"y\.csv, row 1: there are 2 cells"),
    (THREE | {"y.csv": 'x\n"y\nx\n'}, {"labels": "y.csv"}, "Is a quote not closed"),
    (THREE | {"y.csv": "x\n" + "y" * 100_000 + "\nz\n"}, {"labels": "y.csv"}, "100000 characters"),
    (THREE | {"y.npy": np.array(["y" * 2000, "x", "x"])}, {"labels": "y.npy"}, "labels of up to 2000 characters"),
    (THREE, {"labels": "nothing.npy"}, "no such file of labels"),
    ({"a.svm": "1 1:1 900000000:1\n" * 5}, {}, "5 x 900000000 values, 34 GiB"),
    ({"a.xlsx": "x"}, {}, r"files ending in '\.xlsx' are unknown; use \.npz, \.npy, \.csv"),
    ({"a.csv.gz": b"\x1f\x8b"}, {}, "is compressed: unpack it first"),
    ({"a.csv": "a,label\n1,x\n".encode("utf-16")}, {}, "is UTF-16: save it as UTF-8"),
    ({"a.csv": 'a,b,label\n"1,5",2,x\n'}, {}, "'1,5' is not a number: write numbers with a decimal point"),
    ({"a.csv": "a,b,label\n1,2,x\n3,oops,y\n"}, {}, r"row 1 \(line 3 of the file\), column 'b': 'oops' is not"),
    ({"a.csv": "a,b,label\n1,2,x\n3,oops,y\n"}, {}, "leave the column out by --ignore 'b'"),
    ({"a.csv": "1,2,x\n3,oops,y\n"}, {}, r"row 1 \(line 2 of the file\), column 1: 'oops' is not a number"),
    ({"a.csv": "a,b,label\n1,2,x\n3,-inf,y\n"}, {}, "row 1, column 'b': the value is infinite"),
    ({"a.csv": "a,b,label\n1,2,x\n3,y\n"}, {}, "line 3: Expected 3 columns, got 2"),
    ({"a.csv": "a,b,label\n1,2,x\n3,4,5,y\n"}, {}, "line 3: Expected 3 columns, got 4"),
    ({"a.csv": 'a,b,label\n1,2,x\n3,4,"y\n5,6,x\n7,8,y\n'}, {}, r"begins with 'y\\n5,6,x.* in 3 lines; .* Is a quote"),
    ({"a.csv": "a,b,label\n"}, {}, "has a header, but no rows"),
    ({"a.csv": ""}, {}, "is empty"),
    ({"a.csv": "1" + ",1" * 200_000 + "\n"}, {}, "200,001 columns"),
    ({"a.csv": KINDS}, {"label_column": "hieght"}, "no column 'hieght' among its 3; .*did you mean 'height'"),
    ({"a.csv": KINDS}, {"ignore": ["kid"]}, "no column 'kid' among its 3; .*did you mean 'kind'"),
    ({"a.csv": KINDS}, {"label_column": "3"}, "no column '3'"),
    ({"a.csv": KINDS}, {"label_column": "1", "labels": "y.csv"}, "give only one"),
    ({"a.csv": NOTED}, KNOWN | {"feature_names": ["a", "c"]}, "other columns than the model was .*: without 'c' and"),
]  # fmt: skip


@pytest.mark.parametrize(("files", "options", "message"), REFUSALS, ids=[message[:40] for *_, message in REFUSALS])
def test_what_cannot_be_read_is_refused_with_its_place(tmp_path, monkeypatch, files, options, message):
    monkeypatch.chdir(tmp_path)
    first, *_ = [write_file(Path(name), content) for name, content in files.items()]
    with pytest.raises(DataError, match=message) as failure:
        read_data(first, **options)
    assert first.name in str(failure.value) or "labels" in options


def test_text_far_down_in_a_table_is_found(tmp_path):
    path = write_file(tmp_path / "a.csv", "a,b,label\n" + "1,2,x\n" * 300_000 + "1,?,x\n")
    with pytest.raises(DataError, match=r"row 300000 \(line 300002 of the file\), column 'b': '\?'"):
        read_data(path)


def write_large_table(path: Path, n_rows: int, n_columns: int) -> np.ndarray:
    block = np.random.default_rng(0).integers(-999, 999, (1000, n_columns))
    lines = "".join(",".join(map(str, row)) + f",class{row[0] % 3}\n" for row in block.tolist())
    with path.open("w") as file:
        for _ in range(n_rows // 1000):
            file.write(lines)
    return block


@pytest.mark.parametrize("n_rows", [200_000, pytest.param(1_000_000, marks=pytest.mark.nightly)])
def test_a_large_table_is_read_in_bounded_memory(tmp_path, n_rows):
    block = write_large_table(tmp_path / "a.csv", n_rows, 20)
    tracemalloc.start()
    samples = read_data(tmp_path / "a.csv")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(samples.X[-1000:], block)
    np.testing.assert_array_equal(samples.labels[:1000], [f"class{row[0] % 3}" for row in block])
    # Beside numbers and labels, the block being read and, for a moment, the number of each label's text.
    assert peak < samples.X.nbytes + 2 * samples.labels.nbytes + 2**24
    assert pyarrow.total_allocated_bytes() < 2**25


def test_parquet(tmp_path):
    from pyarrow import parquet

    table = pyarrow.table({"a": X[:, 0], "label": NAMES, "b": X[:, 1].astype(np.float32), "c": [1, None, 3]})
    parquet.write_table(table, tmp_path / "a.parquet")
    samples = read_data(tmp_path / "a.parquet")
    np.testing.assert_array_equal(samples.X, np.column_stack([X[:, :2], [1, np.nan, 3]]))
    assert samples.X.dtype == np.float64
    assert samples.labels.tolist() == NAMES.tolist()
    assert samples.feature_names == ["a", "b", "c"]
    with pytest.raises(DataError, match=r"column 'label' holds .*string, not numbers"):
        read_data(tmp_path / "a.parquet", label_column="a")


def test_parquet_of_single_precision_stays_single(tmp_path):
    samples = read_data(write_parquet(tmp_path / "a.parquet", X.astype(np.float32), [0, 1, 0]))
    assert samples.X.dtype == np.float32
    assert samples.labels.tolist() == [0, 1, 0]


# -- images ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for kind in ("cats", "dogs"):
        for number in range(3):
            write_image(tmp_path / "pets" / kind / f"{number}.png", rng.integers(0, 256, (6, 5), dtype=np.uint8))
    return tmp_path / "pets"


def test_a_folder_of_images_has_a_class_for_each_sub_folder(folder):
    write_file(folder / "cats" / "notes.md", "not an image")
    write_file(folder / "cats" / "._0.png", "what a Macintosh adds to archives")
    write_image(folder / ".cache" / "0.png", np.zeros((6, 5), np.uint8))
    samples = read_data(folder)
    assert samples.sample_names == [f"{kind}/{number}.png" for kind in ("cats", "dogs") for number in range(3)]
    assert samples.labels.tolist() == ["cats"] * 3 + ["dogs"] * 3
    assert samples.image_shape == (6, 5)
    assert not samples.broken
    for name, row in zip(samples.sample_names, samples.X, strict=True):
        np.testing.assert_allclose(row.reshape(6, 5) * 255, np.asarray(Image.open(folder / name)), atol=1e-4)


def test_images_without_sub_folders_have_no_labels(folder):
    samples = read_data(folder / "cats")
    assert samples.labels is None
    assert samples.sample_names == ["0.png", "1.png", "2.png"]
    one = read_data(folder / "cats" / "0.png")
    assert (one.X.shape, one.sample_names) == ((1, 30), ["0.png"])
    write_image(folder / "stray.png", np.zeros((6, 5), np.uint8))
    with pytest.raises(DataError, match=r"images next to the sub-folders of its classes, such as stray\.png"):
        read_data(folder)
    (folder / "empty").mkdir()
    with pytest.raises(DataError, match="has no images"):
        read_data(folder / "empty")


def test_images_of_different_sizes_become_32_by_32(folder):
    write_image(folder / "cats" / "wide.png", np.zeros((10, 40), np.uint8))
    assert read_data(folder).image_shape == (32, 32)
    samples = read_data(folder, image_size=(4, 3))
    assert samples.image_shape == (4, 3)
    assert samples.X.shape == (7, 12)


def test_images_are_cropped_at_the_centre(tmp_path):
    pixels = np.zeros((4, 12), np.uint8)
    pixels[:, 4:8] = 255
    path = write_image(tmp_path / "wide.png", pixels)
    np.testing.assert_array_equal(read_data(path, image_size=(4, 4)).X, np.ones((1, 16)))


def test_colour(tmp_path):
    pixels = np.zeros((2, 2, 3), np.uint8)
    pixels[..., 0] = 255
    path = write_image(tmp_path / "red.png", pixels)
    samples = read_data(path, colour=True)
    assert samples.image_shape == (2, 2, 3)
    np.testing.assert_array_equal(samples.X, [[1, 0, 0] * 4])
    assert read_data(path).X[0, 0] == pytest.approx(76 / 255)


def test_sixteen_bits_a_pixel_are_not_cut_at_255(tmp_path):
    path = write_image(tmp_path / "deep.png", np.array([[0, 256 * 100], [256 * 200, 65535]], np.uint16))
    np.testing.assert_allclose(read_data(path).X[0] * 255, [0, 100, 200, 255], atol=0.01)


def test_broken_images_are_listed_and_fatal_only_if_strict(folder):
    content = (folder / "dogs" / "1.png").read_bytes()
    (folder / "dogs" / "1.png").write_bytes(content[: len(content) // 2])
    (folder / "cats" / "0.png").write_bytes(b"no image")
    samples = read_data(folder)
    assert [name for name, _ in samples.broken] == ["cats/0.png", "dogs/1.png"]
    assert samples.labels.tolist() == ["cats"] * 2 + ["dogs"] * 2
    assert len(samples.X) == len(samples.sample_names) == 4
    with pytest.raises(DataError, match=r"2 of 6 images cannot be read: cats/0\.png .*dogs/1\.png"):
        read_data(folder, strict=True)


# -- names -------------------------------------------------------------------------------------------------------------


def test_data_sets_by_name(tmp_path, monkeypatch):
    from sklearn.datasets import load_digits

    monkeypatch.chdir(tmp_path)
    samples = read_data("digits")
    np.testing.assert_array_equal(samples.X, load_digits().data / 16)
    assert samples.image_shape == (8, 8)
    write_image(tmp_path / "digits" / "one.png", np.zeros((2, 2), np.uint8))
    assert len(read_data("digits").X) == 1  # what is there comes first


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("usps:train", "no such file or folder. Give a file .*, a folder of images, or digits"),
        ("digts", "did you mean 'digits'"),
        ("flower.csv", "did you mean 'flowers.csv'"),
        ("nowhere/data.csv", "no such file or folder, nor a folder nowhere"),
    ],
)
def test_names_that_are_none(name, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_file(tmp_path / "flowers.csv", "a,label")
    with pytest.raises(DataError, match=message):
        read_data(name)


# -- damaged files -----------------------------------------------------------------------------------------------------


def make_good_files() -> dict[str, bytes]:
    archive, array, image = io.BytesIO(), io.BytesIO(), io.BytesIO()
    np.savez_compressed(archive, X=X, y=NAMES)
    np.save(array, X)
    Image.fromarray(np.arange(30, dtype=np.uint8).reshape(6, 5)).save(image, "png")
    return {
        ".npz": archive.getvalue(),
        ".npy": array.getvalue(),
        ".csv": b"a,b,label\n1,2,x\n3,4,y\n",
        ".svm": b"1 1:0.5 3:2\n-1 2:1 # note\n",
        ".png": image.getvalue(),
    }


GOOD_FILES = make_good_files()


@st.composite
def damaged(draw: st.DrawFn, good: bytes) -> bytes:
    """Random bytes, or a good file with a piece replaced by others."""
    noise = draw(st.binary(max_size=64) | st.text("0123456789.,;:eE+-naif\"'\n\r\t #", max_size=64).map(str.encode))
    if draw(st.booleans()):
        return noise
    start = draw(st.integers(0, len(good)))
    return good[:start] + noise + good[draw(st.integers(start, len(good))) :]


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz")


@pytest.mark.parametrize("suffix", GOOD_FILES)
@pytest.mark.filterwarnings("ignore")  # of numbers that overflow, or metadata
@settings(max_examples=10_000 if IS_NIGHTLY else 200)
@given(data=st.data())
def test_damaged_files_give_a_data_error_or_samples(scratch, suffix, data):
    path = scratch / f"a{suffix}"
    path.write_bytes(data.draw(damaged(GOOD_FILES[suffix])))
    samples, message = None, ""
    try:
        samples = read_data(path)
    except DataError as error:
        message = str(error)
    if samples is None:
        assert str(path) in message
    else:
        assert samples.X.ndim == 2
        assert samples.X.dtype in (np.float32, np.float64)
        assert not np.isinf(samples.X).any()


# -- files from strangers ----------------------------------------------------------------------------------------------


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes among files")
@pytest.mark.parametrize("name", ["X.csv", "X.npy", "X.npz", "X.parquet", "X.svm", "X.png", "X-*.npy"])
def test_pipes_and_devices_are_refused_and_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name.replace("*", "1"))
    with pytest.raises(DataError, match=r"not a regular file|cannot be read"):
        read_data(tmp_path / name)
    (tmp_path / "zero.svm").symlink_to("/dev/zero")
    with pytest.raises(DataError, match="not a regular file"):
        read_data(tmp_path / "zero.svm")
    with pytest.raises(DataError, match="not a regular file"):
        read_data("digits", labels=tmp_path / name.replace("*", "1"))


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_links_that_lead_out_of_a_folder_are_not_walked(tmp_path, monkeypatch):
    write_image(tmp_path / "real" / "a.png", np.zeros((2, 2), np.uint8))
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "cat").symlink_to(tmp_path / "real")
    assert read_data(tmp_path / "images").labels.tolist() == ["cat"]
    (tmp_path / "images" / "root").symlink_to("/")
    with pytest.raises(DataError, match="root is a link to /, which holds"):
        read_data(tmp_path / "images")
    for folder in ("days/1", "elsewhere/2"):
        (tmp_path / folder).mkdir(parents=True)
        np.save(tmp_path / folder / "X.npy", np.ones((2, 3)))
    (tmp_path / "days" / "link").symlink_to(tmp_path / "elsewhere")
    assert read_data(tmp_path / "days" / "**" / "*.npy").X.shape == (2, 3)


def test_programs_are_not_run_for_images_of_other_formats(tmp_path, monkeypatch):
    from PIL import EpsImagePlugin

    monkeypatch.setattr(EpsImagePlugin, "Ghostscript", lambda *_, **__: pytest.fail("Ghostscript was called"))
    page = "%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n"
    write_file(tmp_path / "picture.png", page)
    with pytest.raises(DataError, match="UnidentifiedImageError"):
        read_data(tmp_path)


def test_large_parquet_is_refused_by_its_footer(tmp_path, monkeypatch):
    monkeypatch.setattr("ddlearn.cli.reading.samples._MAX_BYTES", 10)
    with pytest.raises(DataError, match=r"GiB in memory: use \.npy"):
        read_data(write_parquet(tmp_path / "a.parquet", np.ones((3, 3)), ["a", "b", "c"]))


def test_long_labels_of_parquet_are_refused(tmp_path):
    with pytest.raises(DataError, match="2000 characters"):
        read_data(write_parquet(tmp_path / "a.parquet", np.ones((2, 3)), ["x", "y" * 2000]))


@pytest.mark.parametrize(
    ("name", "kind", "shape", "message"),
    [
        ("X", "<f8", (2**20, 2**14), "1048576 x 16384 values, 128 GiB in memory"),
        # Compressed, a label of a hundred million characters takes a few bytes: it is refused before it is unpacked.
        ("y", "<U100000000", (2,), "labels of up to 100000000 characters; a label has at most 1000"),
        ("y", "S100000000", (2,), "labels of up to 100000000 characters; a label has at most 1000"),
    ],
)
def test_a_small_archive_cannot_fill_the_memory(tmp_path, name, kind, shape, message):
    header, array = io.BytesIO(), io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": kind, "fortran_order": False, "shape": shape})
    np.save(array, np.ones((2, 3)))
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        for one, content in ({"X": array} | {name: header}).items():
            archive.writestr(f"{one}.npy", content.getvalue())
    with pytest.raises(DataError, match=message):
        read_data(tmp_path / "a.npz")
