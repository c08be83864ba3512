"""Settings of cells, under the names they were measured with, as parameters of the present constructor."""

from __future__ import annotations

import pytest
from reproduction.models import (
    apply_variant,
    make_classifier,
    make_former_model,
    nest,
    translate,
    translate_variant,
)
from reproduction.trials import FORMER, LITERAL, PAPER, RULES, align

from ddlearn import (
    ORMP,
    Alignment,
    ConjugateScales,
    Descent,
    FullInference,
    JeffreysScales,
    Jitter,
    LogitBoost,
    PrintedCoding,
    Refiner,
)


def test_ddl_in_the_tables_is_the_library_without_scaling_and_the_final_refit():
    assert repr(make_classifier(**PAPER)) == (
        "DDLClassifier(description=None, max_iter=50, refine=None, sparse_coder='ormp')"
    )


@pytest.mark.parametrize("model", [make_classifier(**FORMER), make_former_model(max_coding_iter=100)])
def test_former_settings_are_the_printed_algorithm(model):
    assert repr(model.label_coding) == repr(PrintedCoding(max_iter=100))
    assert (model.scales, model.dictionary_update) == ("jeffreys", "ksvd")


def test_options_of_objects_that_depend_on_other_parameters():
    model = make_classifier(loss="logistic", ridge=1e-3, n_swaps=0, label_coding="descent", n_coding_swaps=0)
    assert repr(model.classifier_trainer) == repr(LogitBoost(ridge=1e-3))
    assert repr(model.sparse_coder) == repr(ORMP(n_swaps=0))
    assert repr(model.label_coding) == repr(Descent(n_swaps=0))


def test_a_name_decides_which_object_has_the_options():
    assert repr(make_classifier(scales="conjugate", noise="shared").scales) == repr(ConjugateScales("shared"))
    assert repr(make_classifier(noise="shared").scales) == repr(JeffreysScales("shared"))  # as in former cells


def test_a_variant_is_set_on_the_model():
    model = make_classifier(n_components=8)
    assert apply_variant(model, {"n_components": 8}, {"n_views": 4}) is model
    assert (model.n_components, model.n_views) == (8, 4)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, {}),
        ({"n_components": 30, "loss": "square", "tol": 0.0}, {"n_components": 30, "loss": "square", "tol": 0.0}),
        (PAPER, {"init": "samples", "refine": None}),
        (
            FORMER,
            {"max_iter": 20, "label_coding__max_iter": 100, "init": "samples", "refine": None}
            | {"scales": "jeffreys", "dictionary_update": "ksvd"},
        ),
        ({"refit": True}, {"refine": "classifiers"}),
        ({"refine": None}, {"refine": "classifiers"}),
        ({"refit": False, "refine": 3}, {"refine": 3}),
        ({"refine": 3, "jitter": "affine"}, {"refine": 3, "refine__jitter": "affine"}),
        (
            LITERAL,
            {"sparse_coder": "omp", "sparse_coder__n_swaps": 0, "label_coding": "printed", "dictionary_update": "ksvd"}
            | {"classification_weight": 0.5, "tol": 0.0, "max_iter": 20}
            | {"scales": "jeffreys", "scales__noise_floor": 1e-4, "scales__cost_floor": 1e-3},
        ),
        (
            {"noise": "shared", "coding_tol": 0.1, "error_route": "greedy", "missing": "nan"},
            {
                "scales__noise": "shared",
                "label_coding__tol": 0.1,
                "robustness__error_search": "greedy",
                "robustness__missing": "nan",
            },
        ),
        (
            {"inference": "full", "n_candidates": 2, "test_noise": "shared"},
            {"inference": "full", "inference__n_candidates": 2},
        ),
        ({"inference": "fast", "n_candidates": 2}, {"inference": "fast"}),  # where it would say nothing
        ({"test_noise": "shared"}, {}),
        (
            {"alignment": "affine", "image_shape": (8, 8), "align_training": True},
            {"alignment": "affine", "image_shape": (8, 8), "alignment__training": True},
        ),
    ],
)
def test_settings_have_their_new_names(settings, expected):
    before = dict(settings)
    assert translate(settings) == expected
    assert settings == before


@pytest.mark.parametrize(
    ("settings", "variant", "expected"),
    [
        ({"loss": "square"}, {}, {}),
        (PAPER, RULES["full"], {"inference": "full"}),
        (
            {"inference": "full", "n_candidates": 2},
            {"inference": "full", "n_candidates": 3},
            {"inference": "full", "inference__n_candidates": 3},
        ),
        (PAPER, {"test_noise": "profiled"}, {}),
        (PAPER | {"classification_weight": 0.5}, {"classification_weight": 1.0}, {"classification_weight": 1.0}),
        (align("usps") | {"align_training": True}, RULES["full"], {"inference": "full"}),
        (PAPER, align("usps"), {"alignment": "affine", "image_shape": (16, 16)}),
        (
            {"error_budget": 0.5, "missing": "nan"},
            {"error_budget": 0.0},
            {"robustness__error_budget": 0.0, "robustness__missing": "nan"},
        ),
    ],
)
def test_a_variant_is_what_it_changes_with_all_options_of_the_same_object(settings, variant, expected):
    assert translate_variant(settings, variant) == expected


def test_options_are_gathered_into_their_objects():
    nested = nest(translate({"noise_floor": 1e-4, "max_coding_iter": 7, "inference": "full", "n_candidates": 2}))
    assert nested.keys() == {"scales", "label_coding", "inference", "dictionary_update"}
    assert repr(nested["scales"]) == repr(JeffreysScales(noise_floor=1e-4))
    assert nested["label_coding"].max_iter == 7
    assert repr(nested["inference"]) == repr(FullInference(n_candidates=2))


def test_a_name_or_a_number_is_the_first_argument():
    nested = nest(translate({"alignment": "affine", "align_training": True, "refine": 3, "jitter": "affine"}))
    assert repr(nested["alignment"]) == repr(Alignment("affine", training=True))
    assert repr(nested["refine"]) == repr(Refiner(3, jitter="affine"))


def test_the_jitter_of_a_cell_does_not_change_its_refiner():
    # The settings are part of the identity of a cell, as the repr of their objects.
    settings = {"refine": Refiner(3), "jitter": Jitter(elastic=0.3)}
    before = repr(settings)
    assert make_classifier(**settings).refine.jitter.elastic == 0.3
    assert repr(settings) == before == "{'refine': Refiner(epochs=3), 'jitter': Jitter(elastic=0.3)}"


def test_an_object_is_copied_before_an_option_is_set():
    alignment = Alignment("affine")
    nested = nest({"alignment": alignment, "alignment__n_rounds": 7})
    assert nested["alignment"].n_rounds == 7
    assert alignment.n_rounds == Alignment().n_rounds


def test_without_options_nothing_is_made():
    refiner, jitter = Refiner(3), Jitter()
    parameters = {"refine": refiner, "alignment": "affine", "inference": "full", "n_components": 8, "other": jitter}
    assert nest(parameters) == parameters
