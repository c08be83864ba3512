"""Figure 1 of the paper: what it shows is checked with losses whose curvature is known."""

from __future__ import annotations

import numpy as np
import pytest
from reproduction.cells import Runner
from reproduction.loss_curves import relate_curvature, run_losses
from reproduction.trials import LOSSES

from ddlearn import Logistic, SmoothHinge, Square

pytest.importorskip("matplotlib", reason="draws figures")


@pytest.fixture(scope="module")
def losses(tmp_path_factory):
    output = tmp_path_factory.mktemp("losses")
    return output, {record["parameters"]["loss"]: record["result"] for record in run_losses(Runner(output))}


def read_files(output):
    return {path.name: path.read_bytes() for path in output.iterdir() if path.is_file()}


def test_the_loss_table_has_all_files_and_a_second_run_gives_the_same(losses):
    output, results = losses
    assert tuple(results) == LOSSES
    before = read_files(output)
    assert before.keys() == {f"losses.{ending}" for ending in ("md", "csv", "json", "svg", "png")}
    run_losses(Runner(output))
    assert read_files(output) == before


def test_curvature_of_the_square_is_constant(losses):
    relation = losses[1]["square"]["relation"]
    assert (relation["kind"], relation["curvature"]) == ("constant", 2)


def test_curvature_of_the_exponential_is_its_value(losses):
    result = losses[1]["exponential"]
    assert result["relation"]["kind"] == "proportional"
    assert result["relation"]["factor"] == pytest.approx(1)
    assert result["curvature"] == pytest.approx(result["value"])
    assert result["slope"] == pytest.approx({margin: -value for margin, value in result["value"].items()})


def test_curvature_of_the_logistic_is_largest_at_a_cost_of_ln_2(losses):
    relation = losses[1]["logistic"]["relation"]
    assert relation["kind"] == "peak"
    assert relation["cost"] == pytest.approx(np.log(2), abs=1e-5)
    assert relation["curvature"] == pytest.approx(1 / 4)
    # As a function of its cost c the curvature is exp(-c) (1 - exp(-c)), whose derivative vanishes at ln 2.
    margins = np.linspace(-3, 3, 7)
    share = np.exp(-Logistic().value(margins))
    np.testing.assert_allclose(Logistic().curvature(margins), share * (1 - share))


@pytest.mark.parametrize("sharpness", [1.0, 2.0, 4.0])
def test_the_smooth_hinge_is_curved_in_a_band_around_1(sharpness):
    relation = relate_curvature(SmoothHinge(sharpness))
    assert relation["kind"] == "band"
    assert relation["margins"] == pytest.approx([1 - 1 / sharpness, 1 + 1 / sharpness], abs=2e-3)
    assert relation["costs"] == pytest.approx([0, 1 / sharpness], abs=2e-3)
    assert relation["curvature"] == relation["coding_curvature"] == sharpness / 2


def test_a_factor_does_not_change_the_kind_of_relation():
    class Double(Square):
        def value(self, margin):
            return 2 * np.exp(-margin)

        def curvature(self, margin):
            return 6 * np.exp(-margin)

    relation = relate_curvature(Double())
    assert relation["kind"] == "proportional"
    assert relation["factor"] == pytest.approx(3)
