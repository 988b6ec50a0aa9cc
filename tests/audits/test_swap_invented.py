"""The outcome swap on the invented hospital: nothing on a chart may hang on what comes after it."""

from __future__ import annotations

import pytest
from invented import Invented

from effort import often
from wardround.audits import audit_swap
from wardround.audits.swap import swap_sources
from wardround.clinical.bundles.futures import differing_bundles, differing_records
from wardround.synth import DIALECTS
from wardround.tasks.benchmarks import AGENTEHR_TASKS, EHRSHOT_TASKS
from wardround.tasks.benchmarks.leaks import load_hindsight
from wardround.tasks.benchmarks.other_futures import differing_answers, differing_candidates, differing_questions
from wardround.tasks.benchmarks.own.family import DifferingMoments
from wardround.tasks.benchmarks.own.files import task_of_text

_OTHERS = 3
"""So many are not asked about: of their records the candidates are made."""
OWN = """
name = "own"
title = "A result by tomorrow"
question = { description = "Will a laboratory result follow within a day?" }
answer = { kind = "one-class", classes = [["0", "no"], ["1", "yes"]] }
asked = { role = "admission", after = "12h" }
label = { rule = { role = "lab", within = "24h" } }
"""
"""A task of a user's own that speaks of roles alone: the same file for every source."""


def test_every_form_has_a_swap_table() -> None:
    assert set(swap_sources()) == set(DIALECTS)


@pytest.mark.parametrize("source", often(["mimiciv", "fhir", "omop"], list(DIALECTS)))
def test_another_future_changes_nothing_that_is_shown(invented: Invented, source: str) -> None:
    asked = invented.samples(source)[_OTHERS:]
    own = task_of_text(OWN, invented.store(source).spec, "own", source="own").question_rule
    report = audit_swap(
        invented.store(source),
        asked,
        invented.raw(source),
        charts=[differing_answers, differing_bundles],
        stores=[differing_questions, differing_candidates, differing_records, DifferingMoments(rules={"own": own})],
    )
    assert report.clean, report.as_text()
    assert report.compared["questions of own"] > 3 or source == "fhir"  # its encounters are written down when they end
    assert report.compared["calls of candidate tools"] > 20
    assert report.compared["bundles of whole records"] > 20
    told = {what.removeprefix("questions of ") for what in report.compared}
    assert told | report.left_out.keys() >= (set(EHRSHOT_TASKS) | (set(AGENTEHR_TASKS) if "mimic" in source else set()))
    assert report.left_out.keys().isdisjoint(told)
    assert report.declared.keys() <= {one.reason for one in load_hindsight() if source in (one.sources or [source])}
    assert not report.uncovered
    assert not report.unruled
    assert report.rounds == 1
    assert report.changed_rows > report.raw_rows / 20


@pytest.mark.parametrize("source", ["fhir", "omop"])
def test_rows_given_twice_are_among_what_the_audits_look_at(invented: Invented, source: str) -> None:
    tables = invented.store(source).manifest["tables"].values()
    assert sum(table["repeated_rows"] for table in tables) > 20
    assert not sum(table["quarantined"] for table in tables)
