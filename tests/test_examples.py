"""Examples run, and what they say about their results is true."""

from __future__ import annotations

import ast
import re
import runpy
from itertools import pairwise
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SCRIPTS = sorted(EXAMPLES.glob("*/*.py"))
FOLDERS = [EXAMPLES, *sorted({script.parent for script in SCRIPTS})]


def name_path(path: Path) -> str:
    return str(path.relative_to(EXAMPLES))


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run an example in an empty folder, where no data set is found, and return its output; warnings are errors."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    for name in ("DDLEARN_DATA", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    plt.switch_backend("agg")
    monkeypatch.setattr(plt, "show", lambda: plt.close("all"))

    def run(name: str) -> str:
        with matplotlib.rc_context():
            runpy.run_path(str(EXAMPLES / f"{name}.py"), run_name="__main__")
        plt.close("all")
        assert not list(folder.iterdir())  # the reader's folder is not littered
        return capsys.readouterr().out

    return run


def read_numbers(line: str) -> list[float]:
    """All percentages of a line, as numbers."""
    return [float(number) for number in re.findall(r"(-?\d+(?:\.\d+)?) ?%", line)]


def find_numbers(output: str, start: str) -> list[float]:
    """The percentages of the only line that starts so."""
    (line,) = [line for line in output.splitlines() if line.startswith(start)]
    return read_numbers(line.removeprefix(start))


@pytest.mark.parametrize("script", SCRIPTS, ids=name_path)
def test_an_example_opens_with_an_underlined_title(script):
    # The gallery takes its title from there, and the text below it for the tooltip.
    first, title, underline, blank, text, *_ = ast.get_docstring(ast.parse(script.read_text()), clean=False).split("\n")
    assert (first, blank) == ("", "")
    assert title
    assert underline == "=" * len(title)
    assert text


@pytest.mark.parametrize("script", SCRIPTS, ids=name_path)
def test_headings_are_underlined_to_their_end(script):
    lines = script.read_text().splitlines()
    underlined = [(above, below) for above, below in pairwise(lines) if re.fullmatch("# -{3,}", below)]
    assert all(len(above) == len(below) for above, below in underlined)


@pytest.mark.parametrize("folder", FOLDERS, ids=name_path)
def test_a_folder_has_a_title_and_a_text(folder):
    title, underline, blank, text, *_ = (folder / "README.rst").read_text().split("\n")
    assert set(underline) in ({"="}, {"-"})
    assert len(underline) == len(title)
    assert (blank, bool(text)) == ("", True)


def test_pictures_of_examples_exist():
    pattern = r"thumbnail_path = '(.*)'|image:: /(.*)"
    paths = {one or other for script in SCRIPTS for one, other in re.findall(pattern, script.read_text())}
    assert paths
    assert all((EXAMPLES.parent / "docs" / path).exists() for path in paths)


@pytest.mark.docs
def test_joint_learning_is_ahead_on_digits(run):
    output = run("1_quickstart/digits")
    full, default, baseline, plain = (
        find_numbers(output, start)[0]
        for start in (
            "the same, full rule",
            "ddlearn, all defaults",
            "K-SVD, then a classifier",
            "logistic regression",
        )
    )
    assert max(full, default) < min(baseline, plain)


@pytest.mark.docs
def test_five_atoms_make_a_digit(run):
    output = run("1_quickstart/code_of_a_digit")
    coefficients = re.findall(r"([+-]\d\.\d\d) x atom (\d+)", output)
    assert len({atom for _, atom in coefficients}) == 5
    (left_over,) = find_numbers(output, "What is left over has ")
    assert 0 < left_over < 10


@pytest.mark.docs
def test_discriminative_codes_trade_residual_for_errors(run):
    output = run("1_quickstart/sparse_coding")
    rows = {
        line.split()[1]: (float(line.split()[2]), read_numbers(line)[0])
        for line in output.splitlines()
        if line.startswith(("traditional", "discriminative"))
    }
    assert rows["ormp"][0] < rows["square"][0]
    assert rows["ormp"][0] < rows["omp"][0]
    assert all(rows[loss][1] < rows["omp"][1] for loss in rows.keys() - {"omp", "ormp"})


@pytest.mark.docs
def test_alignment_helps_digits_out_of_place(run):
    output = run("2_understanding/misaligned_digits")
    errors = {kind: find_numbers(output, f"alignment={kind}") for kind in ("None", "translation", "affine")}
    assert errors["translation"][1] < errors["affine"][1] < errors["None"][1]
    assert max(in_place for in_place, _ in errors.values()) < 5


@pytest.mark.docs
def test_without_faces_the_example_says_what_to_do(run):
    output = run("2_understanding/occluded_faces")
    assert output.startswith("The faces are not here.")
    assert "yaleb.npz" in output


@pytest.mark.docs
def test_what_is_said_of_a_model_is_true(run):
    output = run("2_understanding/understanding_a_model")
    (right,) = read_numbers(output.splitlines()[0])
    assert right > 95
    groups = ast.literal_eval(re.search(r"{.*}", output)[0])
    assert sum(groups.values()) == 150
    assert set(groups) == set("0123456789")
    first, last = (
        float(number.replace(",", ""))
        for number in re.search(r"Objective from (-[\d,]+) to (-[\d,]+)", output).groups()
    )
    assert last < first
    with_labels, label_free = find_numbers(output, "Training error")
    assert with_labels < label_free
    truth, verdict = re.search(r"is a (\d) and was taken for a (\d)", output).groups()
    assert truth != verdict


@pytest.mark.nightly
def test_each_parameter_does_what_its_section_says(run):
    output = run("2_understanding/what_each_parameter_does")
    sizes, scales, epochs, jitters, missed, rules, moves, budgets = (
        find_numbers(output, f"{name}: ")
        for name in (
            "n_components",
            "description",
            "refine",
            "jitter",
            "class_weight",
            "inference",
            "alignment",
            "robustness",
        )
    )
    assert sizes[0] > 2 * sizes[-1]
    assert scales[0] == min(scales)  # the unit norm suits images
    assert epochs[-1] < epochs[0]
    assert max(jitters[:-1]) < jitters[-1]  # too much
    assert missed[1] < missed[0]
    joint_gain, refined_gain = rules[0] - rules[1], rules[2] - rules[3]
    assert joint_gain > refined_gain
    assert max(moves[1:]) < moves[0] / 2
    clean, covered, clean_with_budget, covered_with_budget = budgets
    assert covered_with_budget < covered / 2
    assert clean < clean_with_budget
    atoms = [int(number) for number in re.findall(r"(\d+) atoms a code", output)]
    assert atoms == sorted(atoms, reverse=True)


@pytest.mark.nightly
def test_larger_lower_the_error(run):
    output = run("3_paper/error_over_size")
    for method in ("baseline", "DDL"):
        (line,) = [line for line in output.splitlines() if line.startswith(method)]
        chosen, smallest = read_numbers(line)
        assert smallest <= chosen < 4
        assert line.count("K = 400") == 2


@pytest.mark.docs
def test_labels_help_and_unlabelled_samples_do_not_matter(run):
    output = run("4_data/semi_supervised")
    pairs = re.findall(r"(-?[\d.]+) \+- ([\d.]+) %", output)  # means and standard errors
    (alone, together, larger, all_labels, gain), errors = zip(*((float(a), float(b)) for a, b in pairs), strict=True)
    assert max(alone, together, larger) + 3 < all_labels
    assert larger > together - 3 * errors[2]  # they do no harm
    assert gain == pytest.approx(together - alone, abs=0.11)  # of rounded numbers
    assert abs(gain) < 3 * errors[-1]  # chance, as the text says


@pytest.mark.docs
def test_codes_tell_properties_that_planes_in_pixels_cannot(run):
    output = run("4_data/multilabel")
    ours, linear, neighbour = (
        find_numbers(output, start) for start in ("ddlearn", "logistic regression", "nearest neighbour")
    )
    assert all(mine < theirs / 2 for mine, theirs in zip(ours, linear, strict=True))
    assert ours[0] < neighbour[0] + 2
    assert ours[0] >= max(ours[1:])  # a sample with any label wrong has at least one wrong


@pytest.mark.docs
def test_a_budget_mends_beats_with_a_loose_electrode(run):
    output = run("4_data/ecg_like_signals")
    linear, broken, masked, mended = (
        find_numbers(output, f"loose, {model}")[0]
        for model in ("linear ", "ddlearn ", "ddlearn, known place", "ddlearn, budget")
    )
    clean, price = (find_numbers(output, f"clean, {model}")[0] for model in ("ddlearn ", "ddlearn, budget"))
    assert max(broken, linear) + 10 < min(masked, mended)
    assert max(mended, price) < clean
    verdicts = re.findall(r"robustness=(\S+): (\d+) values called wrong, verdict (\w+)", output)
    (_, none, wrong), (_, some, right) = verdicts
    assert (none, right) == ("0", "ventricular")
    assert wrong != right
    assert 0 < int(some) <= 0.15 * 90  # the budget is of 90 values


@pytest.mark.docs
def test_vectors_of_a_network_are_classified_as_well_as_by_others(run):
    output = run("4_data/embeddings")
    ours, *others = (
        find_numbers(output, f"{name}:")[0] for name in ("ddlearn", "logistic regression", "SVC", "nearest neighbour")
    )
    assert ours < min(others) + 1


@pytest.mark.docs
def test_dead_channels_cost_less_when_they_are_left_out(run):
    output = run("4_data/spectra")
    ours, linear, neighbour = (
        find_numbers(output, f"{name}:")[0] for name in ("ddlearn", "logistic regression", "nearest neighbour")
    )
    assert max(ours, linear) < neighbour / 3
    masked, filled = (find_numbers(output, f"dead channels, {name}:")[0] for name in ("ddlearn", "logistic regression"))
    assert ours < masked < filled
