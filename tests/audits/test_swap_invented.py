"""The outcome swap on the invented hospital: nothing on a chart may hang on what comes after it."""

from __future__ import annotations

import pytest
from invented import Invented

from wardround.audits import audit_swap
from wardround.audits.swap import swap_sources
from wardround.benchmarks.other_futures import differing_answers, differing_questions
from wardround.synth import DIALECTS


def test_every_form_has_a_swap_table() -> None:
    assert set(swap_sources()) == set(DIALECTS)


@pytest.mark.parametrize("source", DIALECTS)
def test_another_future_changes_nothing_that_is_shown(invented: Invented, source: str) -> None:
    report = audit_swap(
        invented.store(source),
        invented.samples(source),
        invented.raw(source),
        charts=[differing_answers],
        stores=[differing_questions],
    )
    assert report.clean, report.as_text()
    assert not report.uncovered
    assert not report.unruled
    assert report.rounds == 1
    assert report.changed_rows > report.raw_rows / 20
