"""Displays draw the numbers of the model: complete, counted once, with the same color for a class everywhere."""

from __future__ import annotations

import sys

import matplotlib as mpl
import numpy as np
import pytest
from conftest import make_pursuit
from matplotlib.colors import to_hex
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from ddlearn import (
    KSVD,
    CodeDisplay,
    ConfusionDisplay,
    ConvergenceDisplay,
    DictionaryDisplay,
    EvidenceDisplay,
    load,
    save,
)
from ddlearn.datasets import make_planted
from ddlearn.show.colors import get_class_color

mpl.use("agg")
import matplotlib.pyplot as plt


@pytest.fixture(autouse=True)
def close_figures(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("a display must not show anything")

    monkeypatch.setattr(plt, "show", refuse)
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


@pytest.fixture(scope="module")
def model(digits):
    X, y = digits
    return make_pursuit(60, max_iter=3, image_shape=(8, 8), random_state=0).fit(X[:600], y[:600])


@pytest.fixture(scope="module")
def two_class_model(digits):
    X, y = digits
    rows = np.flatnonzero(np.isin(y, (3, 8)))[:200]
    names = np.where(y[rows] == 3, "$three", "eight$_of_$")
    return make_pursuit(12, max_iter=2, random_state=0).fit(X[rows].astype(np.float32), names)


@pytest.fixture
def ksvd(digits):
    return KSVD(20, max_iter=2, random_state=0).fit(digits[0][:200])


@pytest.fixture(scope="module")
def planted():
    planted = make_planted(760, 25, 76, 38, noise=0.05, random_state=0)
    planted.target = np.array([f"person {number}" for number in planted.target])
    return planted


@pytest.fixture(scope="module")
def many_class_model(planted):
    return make_pursuit(76, max_iter=2, random_state=0).fit(planted.data, planted.target)


@pytest.fixture(scope="module")
def multilabel():
    X, y = make_multilabel_classification(120, 15, n_classes=4, random_state=0)
    return X, y, make_pursuit(20, max_iter=2, random_state=0).fit(X, y)


def as_pipeline(model, X):
    """A pipeline that ends with a model fitted already."""
    return make_pipeline(StandardScaler(with_mean=False, with_std=False).fit(X), model)


def texts(ax):
    return [text.get_text() for text in ax.texts if text.get_text()]


# Dictionary


@pytest.mark.parametrize("has_codes", [True, False])
def test_groups_cover_all_atoms_once_by_largest_evidence(model, tmp_path, has_codes):
    save(model, tmp_path / "model")
    model = load(tmp_path / "model")
    mean = np.ones(60)
    if has_codes:
        mean = np.asarray(model.codes_.mean(axis=0)).ravel()
    else:
        del model.codes_
    display = DictionaryDisplay.from_estimator(model)
    assert sorted(np.concatenate([atoms for _, atoms in display.groups_])) == list(range(60))
    evidence = mean * model.coef_
    for position, atoms in display.groups_:
        if position >= 0:
            assert (evidence[:, atoms].argmax(axis=0) == position).all()
            assert (np.diff(evidence[position, atoms]) <= 0).all()


def test_atoms_that_no_code_uses_are_a_group_of_their_own(model, digits):
    display = DictionaryDisplay.from_estimator(model, digits[0][:8])
    used = np.unique(model.transform(digits[0][:8]).indices)
    position, atoms = display.groups_[-1]
    assert position == -1
    assert sorted(atoms) == sorted(set(range(60)) - set(used))
    assert texts(display.ax_)[-1] == "not used"


def test_atoms_are_turned_so_that_their_mean_coefficient_is_not_negative(ksvd, digits):
    X, _ = digits
    ksvd.components_[::2] *= -1
    display = DictionaryDisplay.from_estimator(ksvd, X[:200], image_shape=(8, 8))
    signs = np.vecdot(display.components, ksvd.components_)
    np.testing.assert_allclose(np.abs(signs), 1)
    mean = np.asarray(ksvd.transform(X[:200]).mean(axis=0)).ravel()
    assert (mean < 0).any()
    assert (signs * mean >= 0).all()


def test_without_classes_atoms_are_sorted_by_use_if_codes_tell(ksvd, digits):
    X, _ = digits
    [(position, atoms)] = DictionaryDisplay.from_estimator(ksvd, X[:200]).groups_
    use = np.abs(ksvd.transform(X[:200]).toarray()).mean(axis=0)
    assert position == -1
    assert (np.diff(use[atoms]) <= 0).all()
    [(_, atoms)] = DictionaryDisplay.from_estimator(ksvd).groups_
    assert list(atoms) == list(range(20))


def test_too_many_atoms_are_cut_in_every_group_alike(planted):
    atom_class = np.repeat([0, 1, 2], [60, 15, 1])
    display = DictionaryDisplay(
        planted.dictionary, atom_class=atom_class, weight=np.arange(76), classes=list("abc"), max_atoms=21
    ).plot()
    assert [list(atoms) for _, atoms in display.groups_] == [list(range(59, 49, -1)), list(range(74, 64, -1)), [75]]
    assert display.ax_.get_title() == "Dictionary: 21 of 76 atoms"
    display = DictionaryDisplay(np.tile(planted.dictionary, (2, 1))).plot()
    assert display.ax_.get_title() == "Dictionary: 100 of 152 atoms"


def test_pictures_have_the_values_of_the_atoms_on_one_scale_around_zero():
    atoms = np.zeros((2, 12))
    atoms[0, 0], atoms[1, 5] = 1.0, -1.0
    display = DictionaryDisplay(atoms, image_shape=(3, 4)).plot()
    first, second = (np.asarray(image.get_array()) for image in display.ax_.images)
    np.testing.assert_array_equal(first, 0.5 + 0.5 * atoms[0].reshape(3, 4))  # from black to white, zero is gray
    np.testing.assert_array_equal(second, 0.5 + 0.5 * atoms[1].reshape(3, 4))
    colours = DictionaryDisplay(atoms, image_shape=(2, 2, 3)).plot().ax_.images[0].get_array()
    assert colours.shape == (2, 2, 3)
    assert colours[0, 0, 0] == 1


@pytest.mark.parametrize(("fixture", "shape", "n_atoms"), [("model", (8, 8), 60), ("many_class_model", (5, 5), 76)])
def test_pictures_do_not_overlap(fixture, shape, n_atoms, request):
    display = DictionaryDisplay.from_estimator(request.getfixturevalue(fixture), image_shape=shape)
    boxes = np.array([image.get_extent() for image in display.ax_.images])  # left, right, bottom, top
    left, right, bottom, top = (boxes[:, [side]] for side in range(4))
    overlaps = (left < right.T) & (right > left.T) & (top < bottom.T) & (bottom > top.T)
    assert len(boxes) == n_atoms
    assert overlaps.sum() == n_atoms  # each with itself
    (x_low, x_high), (y_high, y_low) = display.ax_.get_xlim(), display.ax_.get_ylim()
    assert left.min() >= x_low
    assert right.max() <= x_high
    assert top.min() >= y_low
    assert bottom.max() <= y_high


@pytest.mark.parametrize(
    ("draw", "message"),
    [
        *((lambda *_, shape=shape: DictionaryDisplay(np.eye(15), image_shape=shape),
           r"image_shape=\(.*\) does not match 15 features: pass \(height, width\)")
          for shape in ((4, 5), (5, 3, 1), (-5, -3), (15,))),
        (lambda *_: DictionaryDisplay(np.eye(3), weight=[1, 2]), r"weight has shape \(2,\), but there are 3 atoms"),
        (lambda *_: DictionaryDisplay(np.eye(3), atom_class=[0, 1, 2], classes=["a", "b"]),
         "atom_class contains 2, but classes has 2 names"),
        (lambda *_: DictionaryDisplay(np.eye(3), max_atoms=0), "max_atoms must be at least 1, got 0"),
        (lambda *_: DictionaryDisplay([]), r"components has shape \(0,\): pass at least one atom"),
        (lambda *_: DictionaryDisplay(np.empty((0, 9))), r"components has shape \(0, 9\): pass at least one atom"),
        (lambda *_: DictionaryDisplay(np.eye(200)).plot(plt.figure().add_axes([0, 0, 0.01, 0.01])),
         "too small for this dictionary"),
        (lambda model, x: EvidenceDisplay.from_estimator(model, x, max_atoms=0), "max_atoms must be at least 1, got 0"),
        (lambda model, x: EvidenceDisplay.from_estimator(model, x, max_classes=0), "max_classes must be at least 1"),
        (lambda model, x: EvidenceDisplay.from_estimator(model, [x] * 3), r"one sample, got shape \(3, 64\)"),
        (lambda model, x: CodeDisplay.from_estimator(model, x[:63]), "63 features, but DDLClassifier is expecting 64"),
    ],
)  # fmt: skip
def test_inconsistent_arguments_raise_errors(model, digits, draw, message):
    with pytest.raises(ValueError, match=message):
        draw(model, digits[0][0])


# The history of a fit, and its scales


def test_convergence_draws_the_history(model):
    history = pytest.importorskip("pandas").DataFrame(model.history_)
    display = ConvergenceDisplay.from_estimator(model)
    drawn = [panel.lines[0].get_ydata() for panel in display.axes_.flat]
    for name, values in zip(
        ("objective", "representation", "log_noise", "classification", "log_class_cost"), drawn[:-1], strict=True
    ):
        np.testing.assert_array_equal(values, history[name])
    # The objective is the sum of the four and of what the priors add.
    np.testing.assert_allclose(drawn[0], np.sum(drawn[1:5], axis=0) + history["prior"])
    errors = [line.get_ydata() for line in display.axes_[-1, -1].lines]
    np.testing.assert_allclose(errors, 100 * history[["training_error", "label_free_error"]].T)


def test_convergence_divides_the_place_of_the_axes_it_is_given(model):
    figure, (left, right) = plt.subplots(1, 2)
    place = left.get_position()
    display = ConvergenceDisplay.from_estimator(model, ax=left)
    assert display.figure_ is figure
    assert all(place.x0 <= panel.get_position().x0 <= panel.get_position().x1 <= place.x1 + 1e-9
               for panel in display.axes_.flat)  # fmt: skip
    assert not right.lines
    with pytest.raises(ValueError, match=r"pass axes created by plt.subplots"):
        ConvergenceDisplay.from_estimator(model, ax=figure.add_axes((0, 0, 1, 1)))


def test_a_fit_without_iterations_has_a_history_of_one(digits):
    X, y = digits
    model = make_pursuit(20, max_iter=0, random_state=0).fit(X[:200], y[:200])
    display = ConvergenceDisplay.from_estimator(model)
    assert len(display.axes_[0, 0].lines[0].get_ydata()) == 1
    display.figure_.canvas.draw()


# One sample


@pytest.mark.parametrize("image_shape", [None, (8, 8)])
def test_code_is_a_sum_of_what_is_drawn(model, digits, image_shape):
    X, _ = digits
    display = CodeDisplay.from_estimator(model, X[700], image_shape=image_shape)
    code = model.transform(X[700:701]).toarray()[0]
    np.testing.assert_allclose(np.linalg.norm(X[700]) * code[display.atom_numbers], display.coefficients)
    assert len(display.atom_numbers) == np.count_nonzero(code)
    assert (np.diff(np.abs(display.coefficients)) <= 0).all()
    np.testing.assert_allclose(display.reconstruction, np.linalg.norm(X[700]) * code @ model.components_)
    np.testing.assert_allclose(display.reconstruction + display.rest, X[700])
    assert display.error is None


def test_gross_errors_are_a_part_of_their_own(model, digits):
    x = digits[0][700].copy()
    x[:8] = 5.0
    tolerant = load_copy(model).set_params(robustness=0.25)
    display = CodeDisplay.from_estimator(tolerant, x)
    np.testing.assert_array_equal(display.error, tolerant.explain([x]).error[0])
    assert (display.error[:8] > 2).all()
    np.testing.assert_allclose(display.reconstruction + display.error + display.rest, x)
    assert "gross error" in texts(display.ax_)
    assert "gross error" not in texts(CodeDisplay.from_estimator(model, x).ax_)


def load_copy(model):
    copy = make_pursuit(**model.get_params(deep=False))
    copy.__dict__.update(vars(model))
    return copy


@pytest.mark.parametrize("mask", [np.arange(64) < 20, np.ones(64, bool)], ids=["some", "all"])
@pytest.mark.filterwarnings("ignore:In 1 sample")
def test_missing_features_are_blank(model, digits, mask):
    display = CodeDisplay.from_estimator(model, digits[0][700], mask=mask)
    np.testing.assert_array_equal(np.isnan(display.sample), mask)
    assert np.isfinite(display.reconstruction).all()
    display.figure_.canvas.draw()
    colours = CodeDisplay(np.r_[np.nan, np.ones(11)], np.eye(12)[:1], [1.0], image_shape=(2, 2, 3)).plot()
    assert colours.ax_.images[0].get_array()[0, 0, 0] == 1  # white, as the page is
    colours.figure_.canvas.draw()


def test_a_sample_of_zeros_has_no_atoms(model):
    display = CodeDisplay.from_estimator(model, np.zeros(64))
    assert len(display.atoms) == 0
    assert not display.rest.any()
    evidence = EvidenceDisplay.from_estimator(model, np.zeros(64))
    np.testing.assert_array_equal(evidence.scores, model.intercept_)


def test_code_of_ksvd(ksvd, digits):
    X, _ = digits
    display = CodeDisplay.from_estimator(ksvd, X[0])
    np.testing.assert_allclose(display.reconstruction, ksvd.inverse_transform(ksvd.transform(X[:1]))[0])
    with pytest.raises(ValueError, match="KSVD codes complete samples only"):
        CodeDisplay.from_estimator(ksvd, X[0], mask=np.ones(64, bool))


@pytest.mark.parametrize("max_atoms", [8, 3])
@pytest.mark.parametrize("inference", ["fast", "full"])
def test_contributions_sum_to_the_score(model, digits, max_atoms, inference):
    x = digits[0][700]
    model = load_copy(model).set_params(inference=inference)
    display = EvidenceDisplay.from_estimator(model, x, max_atoms=max_atoms)
    code = model.transform([x]).toarray()[0]
    np.testing.assert_allclose(display.scores, model.coef_ @ code + model.intercept_, rtol=1e-12)
    np.testing.assert_allclose(display.evidence, model.decision_function([x])[0])
    assert model.classes_[display.is_predicted] == model.predict([x])
    table = display.ax_.images[-1].get_array()  # what is drawn: atoms, the sum of others, intercept
    assert table.shape == (10, min(max_atoms, 5) + 1)
    np.testing.assert_allclose(table.sum(axis=1), display.scores, rtol=1e-12)


def test_evidence_follows_from_the_scores(two_class_model, digits):
    x = digits[0][3].astype(np.float32)
    display = EvidenceDisplay.from_estimator(two_class_model, x, "$three")
    evidence = (1 + display.scores) ** 2 - (1 - display.scores) ** 2
    np.testing.assert_allclose(display.evidence, evidence / two_class_model.class_cost_, rtol=1e-4)
    lead = display.evidence[1] - display.evidence[0]
    assert lead == pytest.approx(two_class_model.decision_function([x])[0], rel=1e-4)


def test_of_many_classes_the_best_and_the_true_one_are_shown(many_class_model, planted):
    evidence = many_class_model.decision_function(planted.data[:1])[0]
    worst = evidence.argmin()
    display = EvidenceDisplay.from_estimator(many_class_model, planted.data[0], many_class_model.classes_[worst])
    assert set(display.shown_classes_) == {*np.argsort(-evidence)[:12], worst}
    assert "13 of 38 classes" in display.ax_.get_title()
    assert {"predicted", "true"} <= set(texts(display.ax_))
    with pytest.raises(ValueError, match="true_label='nobody' is not one of the classes"):
        EvidenceDisplay.from_estimator(many_class_model, planted.data[0], "nobody")


def test_evidence_of_several_labels(multilabel):
    X, y, model = multilabel
    row = np.flatnonzero(model.predict(X).sum(axis=1) == 2)[0]
    display = EvidenceDisplay.from_estimator(model, X[row], y[row])
    np.testing.assert_array_equal(display.is_predicted, model.predict(X[row : row + 1])[0])
    marks = [text for text in texts(display.ax_) if "predicted" in text or "true" in text]
    expected = sorted(
        "\n".join(word for word, holds in (("predicted", guess), ("true", truth)) if holds)
        for guess, truth in zip(display.is_predicted, y[row], strict=True)
        if guess or truth
    )
    assert sorted(marks) == expected


def test_a_row_of_a_data_frame_is_a_sample(digits):
    pd = pytest.importorskip("pandas")
    X, y = digits
    frame = pd.DataFrame(X[:100], columns=[f"pixel {number}" for number in range(64)])
    model = make_pursuit(15, max_iter=1, random_state=0).fit(frame, y[:100])  # names that are missing make it warn
    rows = (frame.iloc[3], frame.iloc[[3]])
    first, second = (EvidenceDisplay.from_estimator(model, row).evidence for row in rows)
    np.testing.assert_array_equal(first, second)


# Confusion


def test_confusion_counts_and_shows_the_most_convincing_mistake(model, digits):
    X, y = digits[0][600:], digits[1][600:]
    display = ConfusionDisplay.from_estimator(model, X, y)
    np.testing.assert_array_equal(display.counts, confusion_matrix(y, model.predict(X)))
    assert set(display.examples) == {*zip(*np.nonzero(display.counts * (1 - np.eye(10))), strict=True)}
    evidence, everyone = model.decision_function(X), np.arange(len(y))
    for (truth, guess), image in display.examples.items():
        mistakes = everyone[(y == truth) & (model.predict(X) == guess)]
        best = mistakes[np.argmax(evidence[mistakes, guess] - evidence[mistakes, truth])]
        np.testing.assert_array_equal(image.ravel(), X[best])
    assert len(display.ax_.images) == 1 + len(display.examples)
    numbers = sorted(map(int, texts(display.ax_)))
    assert numbers == sorted(display.counts[display.counts > 0])


def test_confusion_of_two_classes(two_class_model, digits):
    X, y = digits
    rows = np.flatnonzero(np.isin(y, (3, 8)))[200:]
    names = np.where(y[rows] == 3, "$three", "eight$_of_$")
    display = ConfusionDisplay.from_estimator(two_class_model, X[rows].astype(np.float32), names, image_shape=(8, 8))
    assert np.trace(display.counts) == np.count_nonzero(two_class_model.predict(X[rows]) == names)
    display.figure_.canvas.draw()  # dollar signs would fail here


def test_classes_that_the_model_does_not_know_come_last(model, digits):
    """As in the report they are rows of errors; at the end, so that the others keep their colours."""
    X, y = digits[0][600:], digits[1][600:]
    strange = np.where(y == 4, -4, y)
    display = ConfusionDisplay.from_estimator(model, X, strange)
    assert display.classes.tolist() == [*range(10), -4]
    known = confusion_matrix(y, model.predict(X))
    np.testing.assert_array_equal(display.counts[10, :10], known[4])
    assert not display.counts[4].any()
    assert not display.counts[:, 10].any()
    evidence = model.decision_function(X)
    for guess in np.flatnonzero(known[4]):  # the example of a mistake is the one that the model is surest of
        mistakes = np.flatnonzero((y == 4) & (model.predict(X) == guess))
        best = mistakes[evidence[mistakes, guess].argmax()]
        np.testing.assert_array_equal(display.examples[10, guess].ravel(), X[best])
    display = ConfusionDisplay.from_predictions(["c", "e"], ["c", "d"], labels=list("dcba"))
    assert display.classes.tolist() == list("dcbae")  # those that do not occur keep their place, too
    assert display.counts[4, 0] == display.counts[1, 1] == 1
    assert display.counts.sum() == 2


@pytest.mark.parametrize("kind", [str, object])
def test_labels_as_text_for_a_model_of_numbers(model, digits, kind):
    """Folders are named by text, and a column of a data frame may hold objects: "3" is 3, as in the report."""
    X, y = digits[0][600:], digits[1][600:]
    display = ConfusionDisplay.from_estimator(model, X, y.astype(str).astype(kind))
    assert display.classes.tolist() == [str(j) for j in range(10)]
    np.testing.assert_array_equal(display.counts, confusion_matrix(y, model.predict(X)))


def test_a_single_class_is_a_confusion_without_a_warning(model, digits):
    """scikit-learn's confusion_matrix warns of it, but there is nothing wrong with samples of one class."""
    assert ConfusionDisplay.from_predictions([3, 3], [3, 3]).counts.tolist() == [[2]]
    sure = digits[0][[np.flatnonzero(model.predict(digits[0]) == 3)[0]]]
    assert ConfusionDisplay.from_estimator(model, sure, [3]).counts[3, 3] == 1


def test_samples_without_a_label_raise_errors(model, digits):
    X, y = digits[0][:3], digits[1][:3]
    with pytest.raises(ValueError, match="y contains None in row 2"):
        ConfusionDisplay.from_estimator(model, X, [0, 1, None])
    with pytest.raises(ValueError, match="row 1, which marks samples without a label"):
        ConfusionDisplay.from_estimator(load_copy(model).set_params(unlabeled=1), X, y)
    with pytest.raises(ValueError, match="y is empty"):
        ConfusionDisplay.from_predictions([], [])


def test_images_may_be_given_as_images():
    images = np.arange(24.0).reshape(2, 3, 4)
    display = ConfusionDisplay.from_predictions([0, 1], [1, 1], images=images)
    np.testing.assert_array_equal(display.examples[0, 1], images[0])


def test_many_classes_have_numbers_only(many_class_model, planted):
    display = ConfusionDisplay.from_estimator(many_class_model, planted.data, planted.target, image_shape=(5, 5))
    assert len(display.ax_.images) == 1
    assert len(texts(display.ax_)) == np.count_nonzero(display.counts) < 38**2
    sizes = [text.get_fontsize() for text in [*display.ax_.texts, *display.ax_.get_xticklabels()]]
    assert min(sizes) >= 8


def test_other_classifiers_have_a_confusion_too(digits):
    X, y = digits
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(X[:300, :32], y[:300])
    display = ConfusionDisplay.from_estimator(classifier, X[600:, :32], y[600:], image_shape=(4, 8))
    np.testing.assert_array_equal(display.counts, confusion_matrix(y[600:], classifier.predict(X[600:, :32])))
    assert display.examples


def test_several_labels_have_no_confusion(multilabel):
    X, y, model = multilabel
    with pytest.raises(ValueError, match="one label per sample"):
        ConfusionDisplay.from_estimator(model, X, y)
    assert ConfusionDisplay.from_predictions(y[:, 0], model.predict(X)[:, 0]).counts.sum() == 120


# What holds for all


def draw_all(model, X, y, ax=None):
    """Every display of a model, each on axes of its own if there are some."""
    places = iter(np.ravel(ax)) if ax is not None else iter([None] * 4)
    return [
        DictionaryDisplay.from_estimator(model, ax=next(places)),
        CodeDisplay.from_estimator(model, X[0], ax=next(places)),
        EvidenceDisplay.from_estimator(model, X[0], y[0], ax=next(places)),
        ConfusionDisplay.from_estimator(model, X, y, ax=next(places)),
    ]


def test_displays_draw_on_the_axes_they_are_given(model, digits):
    figure, axes = plt.subplots(2, 2, figsize=(12, 12))
    displays = draw_all(model, digits[0][600:], digits[1][600:], axes)
    assert [display.ax_ for display in displays] == figure.axes
    assert all(display.figure_ is figure for display in displays)
    assert plt.get_fignums() == [figure.number]
    assert all(display.plot(ax=axes[0, 0]) is display for display in displays)


def test_a_pipeline_draws_what_its_last_step_does(model, digits):
    X, y = digits[0][600:], digits[1][600:]
    pipeline = as_pipeline(model, X)
    for own, other in zip(draw_all(model, X, y), draw_all(pipeline, X, y), strict=True):
        assert texts(own.ax_) == texts(other.ax_)
        assert len(own.ax_.images) == len(other.ax_.images)


def test_pipelines_are_shown_what_their_model_sees(digits):
    X, y = digits
    pipeline = make_pipeline(StandardScaler(), make_pursuit(20, max_iter=1, random_state=0)).fit(X[:200], y[:200])
    display = CodeDisplay.from_estimator(pipeline, X[0])
    np.testing.assert_allclose(display.reconstruction + display.rest, pipeline[:-1].transform(X[:1])[0])


def test_a_class_has_one_colour_everywhere(model, digits):
    dictionary, _, evidence, confusion = draw_all(model, digits[0][600:], digits[1][600:])
    expected = [get_class_color(position) for position in range(10)]
    for display in (dictionary, evidence):
        drawn = [to_hex(area.get_facecolor()[0]) for area in display.ax_.collections]
        assert [color.upper() for color in drawn[:10]] == expected
    drawn = [to_hex(area.get_facecolor()[0]).upper() for area in confusion.ax_.collections]
    assert drawn == [color for color in expected for _ in range(2)]  # along both edges


def test_letters_can_be_read_at_half_size(model, many_class_model, planted, digits):
    of_many = draw_all(many_class_model, planted.data, planted.target)
    for display in [*draw_all(model, digits[0][600:], digits[1][600:]), *of_many]:
        ax = display.ax_
        letters = [*ax.texts, ax.title, ax.xaxis.label, *ax.get_xticklabels(), *ax.get_yticklabels()]
        assert min(text.get_fontsize() for text in letters) >= 8


def test_dollar_signs_in_names_are_no_formulas(two_class_model, digits):
    X = digits[0][:1].astype(np.float32)
    for display in draw_all(two_class_model, X, ["$three"]):
        display.figure_.canvas.draw()  # "eight$_of_$" as a formula cannot be drawn


@pytest.mark.parametrize(
    "draw",
    [
        lambda model: DictionaryDisplay.from_estimator(model),
        lambda model: ConvergenceDisplay.from_estimator(model),
        lambda model: CodeDisplay.from_estimator(model, np.zeros(64)),
        lambda model: EvidenceDisplay.from_estimator(model, np.zeros(64)),
        lambda model: ConfusionDisplay.from_estimator(model, np.zeros((1, 64)), [0]),
    ],
)
def test_models_must_be_fitted(draw):
    for model in (make_pursuit(), make_pipeline(StandardScaler(), make_pursuit())):
        with pytest.raises(NotFittedError):
            draw(model)


def test_other_models_raise_errors_with_advice(model, digits):
    with pytest.raises(
        TypeError,
        match=r"Expected a fitted DDLClassifier or .* or a pipeline that ends with one, got LogisticRegression",
    ):
        ConvergenceDisplay.from_estimator(LogisticRegression())
    search = GridSearchCV(make_pursuit(15, max_iter=1), {"n_nonzero_coefs": [3]}, cv=2)
    search.fit(digits[0][:100], digits[1][:100] > 4)
    with pytest.raises(TypeError, match="Pass its best_estimator_"):
        ConvergenceDisplay.from_estimator(search)


def test_without_matplotlib_the_extra_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    for draw in (DictionaryDisplay.from_estimator, ConvergenceDisplay.from_estimator):
        with pytest.raises(ImportError, match=r'pip install "ddlearn\[plot\]"'):
            draw(model)


def test_letters_shrink_with_the_room_that_is_given(model, digits):
    def find_overlaps(display):
        display.figure_.canvas.draw()
        boxes = [text.get_window_extent() for text in display.ax_.texts if text.get_text()]
        return sum(box.overlaps(other) for number, box in enumerate(boxes) for other in boxes[:number])

    for draw in (CodeDisplay.from_estimator, EvidenceDisplay.from_estimator):
        assert find_overlaps(draw(model, digits[0][700])) == 0
        assert find_overlaps(draw(model, digits[0][700], ax=plt.figure(figsize=(4, 3)).add_subplot())) == 0
