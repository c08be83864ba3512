"""The rows of the ablation."""

from __future__ import annotations

from reproduction.ablation import CHANGES
from reproduction.models import make_classifier
from reproduction.trials import PAPER, RULES


def test_every_row_but_the_reference_changes_something():
    reference, *others = CHANGES
    paper = PAPER | RULES["full"]  # the rule that reads all settings
    assert reference.fit_settings == reference.test_settings == {}
    for change in others:
        assert change.fit_settings or change.test_settings
        for fitted, changed in ((paper, change.fit_settings), (paper | change.fit_settings, change.test_settings)):
            before, after = (make_classifier(**settings) for settings in (fitted, fitted | changed))
            assert (repr(before) != repr(after)) == bool(changed), change.title
