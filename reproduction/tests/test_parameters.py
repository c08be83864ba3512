"""Figure 4 of the paper: what it shows is checked with samples whose truth is known."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from reproduction.cells import Runner
from reproduction.parameters import (
    Correlation,
    compare_densities,
    correlate,
    find_speakers,
    fit_inverse,
    fit_log_slope,
    judge_inverse,
    run_parameters,
)
from reproduction.setups import Setup
from reproduction.trials import LOSSES

pytest.importorskip("matplotlib", reason="draws figures")
SMALL = Setup("digits", 30, 2, (0,), max_train=150, max_test=200)


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    output = tmp_path_factory.mktemp("parameters")
    return output, run_parameters(Runner(output), digits=SMALL)


def read_tables(output, name):
    return [(output / f"{name}.{ending}").read_bytes() for ending in ("md", "csv")]


def draw_inverse(n_values, least, largest, seed=0):
    """Draw from the density proportional to 1/x: the logarithm is uniform."""
    return np.exp(np.random.default_rng(seed).uniform(np.log(least), np.log(largest), n_values))


def test_all_files_of_the_parameters_are_written(learned):
    output, records = learned
    for name in ("parameters_sigma", "parameters_gamma", "parameters_dictionary"):
        assert (output / f"{name}.svg").stat().st_size > 1000
        assert (output / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    stored = json.loads((output / "parameters.json").read_text())
    assert len(stored) == len(records) == 2 * len(LOSSES)
    assert all("dictionary" not in record["result"] for record in stored)
    assert (output / "parameters.json").stat().st_size < 200_000
    with (output / "parameters.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [float(row["gamma.0"]) for row in rows] == [record["result"]["gamma"]["0"] for record in records]


def test_a_second_run_fits_nothing_and_writes_the_same(learned, measure_nothing, no_figures):
    output, records = learned
    before = read_tables(output, "parameters")
    assert run_parameters(Runner(output), digits=SMALL) == records
    assert read_tables(output, "parameters") == before


def test_every_atom_and_sample_is_counted_once(learned):
    for record in learned[1]:
        result = record["result"]
        for counts in result["atoms"].values():
            assert sum(counts.values()) == SMALL.n_components
        assert sum(result["sigma"]["counts"]) + result["sigma"]["n_at_floor"] == SMALL.max_train
        assert result["sigma"]["n_at_floor"] == round(result["sigma"]["floor_share"] * SMALL.max_train)


def test_class_costs_are_between_those_of_the_first_codes_and_the_mean_costs(learned):
    for record in learned[1]:
        result = record["result"]
        gamma, mean_cost, first = (
            np.array(list(result[name].values())) for name in ("gamma", "mean_cost", "first_gamma")
        )
        weight = 0.3 if record["parameters"]["priors"] == "conjugate" else 0.0
        np.testing.assert_allclose(gamma, (mean_cost + weight * first) / (1 + weight), rtol=1e-3)


def test_recalls_add_up_to_the_accuracy(learned):
    for record in learned[1]:
        result = record["result"]
        found = sum(result["recall"][name] * share for name, share in result["test_share"].items())
        assert found == pytest.approx(1 - result["test_error"])


def test_the_kept_dictionary_is_of_unit_norm_and_of_one_fit(learned):
    kept = [record for record in learned[1] if "dictionary" in record["result"]]
    assert [(record["parameters"]["settings"]["loss"], record["parameters"]["priors"]) for record in kept] == [
        ("square", "conjugate")
    ]
    dictionary = kept[0]["result"]["dictionary"]
    atoms = np.array([atom.split() for atom in dictionary["atoms"]], float) / 1000
    np.testing.assert_allclose(np.linalg.norm(atoms, axis=1), 1, atol=4e-3)
    names, counts = np.unique(dictionary["classes"], return_counts=True)
    speaking = kept[0]["result"]["atoms"]["speaks for"]
    assert dict(zip(names, counts, strict=True)) == {name: count for name, count in speaking.items() if count}


def test_an_atom_speaks_for_the_class_whose_cost_its_weight_exceeds_most():
    class Model:
        classes_ = np.array(["a", "b"])
        coef_ = np.array([[3.0, 1.0, -1.0], [2.0, 2.0, -0.1]])
        class_cost_ = np.array([1.0, 0.5])

    names, strengths = find_speakers(Model())
    assert names.tolist() == ["b", "b", "b"]  # without the costs the first atom would speak for "a"
    np.testing.assert_allclose(strengths, [4, 4, -0.2])


@pytest.mark.parametrize("ends", [(0.01, 0.1), (1.0, 1000.0)])
def test_samples_of_one_over_x_are_known_as_such(ends):
    values = draw_inverse(5000, *ends)
    likelihoods = compare_densities(values)
    assert max(likelihoods, key=likelihoods.get) == "1/x"
    assert judge_inverse(likelihoods) == "holds"
    # The expectation of -ln x - ln ln(b/a) when ln x is uniform.
    expected = -np.log(ends).mean() - np.log(np.log(ends[1] / ends[0]))
    assert likelihoods["1/x"] == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("name", ["log-normal", "gamma"])
def test_samples_of_other_densities_contradict_one_over_x(name):
    rng = np.random.default_rng(0)
    values = rng.lognormal(-4, 0.4, 5000) if name == "log-normal" else rng.gamma(4, 0.01, 5000)
    likelihoods = compare_densities(values)
    assert max(likelihoods, key=likelihoods.get) == name
    assert judge_inverse(likelihoods).startswith(f"is contradicted ({name} ")


def test_densities_do_not_depend_on_the_unit():
    values = np.random.default_rng(0).gamma(4, 1, 2000)
    once, twice = compare_densities(values), compare_densities(1000 * values)
    for name, likelihood in once.items():
        assert twice[name] == pytest.approx(likelihood - np.log(1000), abs=1e-6)


def test_a_histogram_of_one_over_x_has_slope_minus_one():
    edges = np.linspace(1, 9, 41)
    counts = np.rint(1e6 * np.log(edges[1:] / edges[:-1])).astype(int)  # the integral of 1/x over each bin
    assert fit_log_slope(counts, edges) == pytest.approx(-1, abs=0.01)
    factor, explained = fit_inverse(counts, edges)
    assert factor == pytest.approx(1e6 * 0.2, rel=0.01)  # a bin is 0.2 wide
    assert explained == pytest.approx(1, abs=1e-3)


def test_the_slope_is_taken_past_the_mode_without_empty_bins():
    edges = np.arange(0.5, 6)  # centres 1 to 5
    assert fit_log_slope(np.array([1, 400, 0, 100, 64]), edges) == pytest.approx(-2)  # 1600 / x^2 past the mode
    assert np.isnan(fit_log_slope(np.array([1, 2, 3, 4, 5]), edges))


def test_a_rising_histogram_is_nearer_to_its_mean_than_to_one_over_x():
    assert fit_inverse(np.arange(1, 21), np.linspace(1, 2, 21))[1] < 0


def test_claims_of_inverse_relation_are_judged_by_sign_and_certainty():
    numbers = {str(name): float(name) for name in range(10)}
    opposite = {name: np.exp(-number) for name, number in numbers.items()}
    assert correlate(numbers, opposite).rho == pytest.approx(-1)
    assert correlate(numbers, opposite).judge() == "holds"
    assert correlate(numbers, numbers).judge() == "is contradicted"
    assert correlate(numbers, dict.fromkeys(numbers, 1.0)).judge() == "cannot be seen"
    assert Correlation(-0.6, 0.07).judge() == "cannot be seen"
    assert Correlation(-0.4, 0.001).judge() == "cannot be seen"
