"""Who is asked hangs on nothing of the outcome: faults put back in how questions are chosen are found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from invented import Invented, settings_for

from wardround.audits import Compared
from wardround.audits.outcome_swap import placement_of
from wardround.audits.swap import load_swap_table, write_swapped
from wardround.records import IngestSettings, SpanRole, Store, ingest
from wardround.tasks.benchmarks import (
    AGENTEHR_TASKS,
    CLINSEEK_MM_TASKS,
    CLINSEEK_TASKS,
    EHRSHOT_TASKS,
    agentehr,
    drawing,
    leaks,
    other_futures,
)
from wardround.tasks.benchmarks import other_futures as other_questions
from wardround.tasks.benchmarks.clinseek import risk
from wardround.tasks.benchmarks.clinseek.definitions import RiskRule
from wardround.tasks.benchmarks.clinseek.timeline import Span, Timeline
from wardround.tasks.benchmarks.ehrshot import record
from wardround.tasks.benchmarks.encounters import Encounters
from wardround.tasks.benchmarks.label_events import LabelEvent
from wardround.tasks.benchmarks.leaks import hindsight_of, load_hindsight
from wardround.tasks.benchmarks.other_futures import (
    clinseek_questions,
    differing_answers,
    differing_candidates,
    differing_questions,
)
from wardround.tools.candidates import CandidateSpace, build_candidate_spaces

Futures = tuple[Store, Store, Mapping[int, datetime]]


def _futures(invented: Invented, source: str, folder: Path) -> Futures:
    store = invented.store(source)
    return store, _swapped(store, invented, folder, settings_for(source)), dict(invented.samples(source))


def _swapped(store: Store, invented: Invented, folder: Path, settings: IngestSettings) -> Store:
    source, moments = store.spec.name, dict(invented.samples(store.spec.name))
    copies, _ = write_swapped(
        load_swap_table(source), [invented.raw(source)], folder / "raw", moments, placement=placement_of(store)
    )
    ingest(source, copies, folder / "store", settings=settings)
    return Store.open(folder / "store")


@pytest.fixture(scope="module")
def mimic(invented: Invented, tmp_path_factory: pytest.TempPathFactory) -> Futures:
    return _futures(invented, "mimiciv", tmp_path_factory.mktemp("futures"))


def _found(futures: Futures) -> Compared:
    return differing_questions(*futures)


def _found_in_agentehr(futures: Futures, monkeypatch: pytest.MonkeyPatch) -> Compared:
    """The same of that family's questions alone."""
    for family in ("_ehrshot", "clinseek_questions", "_films"):
        monkeypatch.setattr(other_questions, family, lambda store, moments: other_questions.QuestionSet())
    return _found(futures)


@pytest.fixture(scope="module")
def faultless(mimic: Futures) -> Compared:
    """What is found where no fault was put back."""
    return _found(mimic)


def test_a_stay_that_ends_before_the_death_is_found(
    mimic: Futures, faultless: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its discharge is the midnight before: who lives would be asked about that day, who dies would not."""
    assert faultless.differences == []

    def by_discharge_alone(store: Store, admission: SpanRole, policy: str) -> dict[int, Encounters]:
        return drawing.read_encounters(store, admission, "published")

    monkeypatch.setattr(agentehr, "read_encounters", by_discharge_alone)
    assert any("labevents" in one for one in _found_in_agentehr(mimic, monkeypatch).differences)


def test_a_draw_by_place_among_all_events_is_found(
    mimic: Futures, faultless: Compared, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How many events come later would decide which of the earlier ones is asked about."""

    def in_the_middle(events: list[LabelEvent], seed: int, task: str) -> LabelEvent:
        return events[len(events) // 2]

    assert faultless.declared[leaks.draw_reason()] > 0
    monkeypatch.setattr("wardround.tasks.benchmarks.other_futures.choose_event", in_the_middle)
    assert any("another one is drawn" in one for one in _found_in_agentehr(mimic, monkeypatch).differences)


def test_stays_that_are_asked_about_by_their_length_are_found(mimic: Futures, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "_same_day_reason", lambda start, end: "long" if end - start > 4 * record.DAY else "")
    assert any("guo_los" in one for one in _found(mimic).differences)


def test_moments_that_hang_on_other_rows_are_found(
    invented: Invented, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result without a time of its own is known after the table's usual delay; if measured, later results move it."""
    settings = replace(settings_for("mimiciv"), measure_medians=True)
    ingest("mimiciv", invented.raw("mimiciv"), tmp_path / "measured", settings=settings)
    measured = Store.open(tmp_path / "measured")
    monkeypatch.setattr(Timeline, "_recorded", Timeline.known)
    other = _swapped(measured, invented, tmp_path, settings)
    assert "clinseek.next_event" in _settled_in_one_future((measured, other, dict(invented.samples("mimiciv"))))


def test_risks_that_are_asked_by_how_long_a_stay_will_be_are_found(
    mimic: Futures, monkeypatch: pytest.MonkeyPatch
) -> None:
    def half_way(rule: RiskRule, timeline: Timeline, span: Span) -> tuple[int, int]:
        return span.start, span.start + min(span.end - span.start, 10 * record.DAY) // 2

    monkeypatch.setattr(risk, "_window", half_way)
    assert "clinseek.Inpatient_Mortality" in _settled_in_one_future(mimic)


def _settled_in_one_future(futures: Futures) -> set[str]:
    """The tasks of ClinSeek-Bench with a question that was settled by its moment and is asked in one future only."""
    store, other, moments = futures
    here, there = clinseek_questions(store, moments).settled, clinseek_questions(other, moments).settled
    settled = here | there
    return {question[0] for question in here.keys() ^ there.keys() if settled[question]}


def test_what_is_not_declared_is_a_difference(
    invented: Invented, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    futures = _futures(invented, "omop", tmp_path)
    found = _found(futures)
    assert found.differences == []
    assert sum(found.declared.values()) > 0
    monkeypatch.setattr("wardround.tasks.benchmarks.other_futures.hindsight_of", lambda task, source: None)
    chosen = sum(found.declared.values()) - found.declared[leaks.draw_reason()]
    assert len(_found(futures).differences) == chosen
    monkeypatch.undo()
    monkeypatch.setattr(other_questions._Availability, "_kind_is_late", lambda known, admission: False)
    late = _found_in_agentehr(futures, monkeypatch).differences
    assert any("labevents" in one for one in late), "cells that come late say whether a visit was a stay"


def test_every_task_s_hindsight_is_declared_once_and_no_other() -> None:
    tasks = [*AGENTEHR_TASKS, *EHRSHOT_TASKS, *CLINSEEK_TASKS, *CLINSEEK_MM_TASKS]
    assert {name for one in load_hindsight() for name in one.tasks} <= set(tasks)
    for source in ("mimiciv", "mimiciii", "eicu", "meds", "omop", "fhir"):
        for task in tasks:
            assert sum(one.holds(task, source) for one in load_hindsight()) <= 1
    assert hindsight_of("guo_los", "mimiciv") is None
    assert "kind of visit" in (hindsight_of("guo_los", "omop") or "")


def test_candidates_that_count_the_asked_subject_are_found(mimic: Futures, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the fault nothing is found: test_swap_invented."""
    store, other, moments = mimic

    def whole(each: Store, asked: Mapping[int, datetime]) -> Mapping[str, CandidateSpace]:
        return build_candidate_spaces(each, each.subjects.tolist(), None, {"labevents_candidates"})

    monkeypatch.setattr(other_futures, "_spaces_beside", whole)
    found = differing_candidates(store, other, moments)
    assert any("get_candidates" in one for one in found.differences)
    assert found.places == {"candidate tables": len(found.differences)}


def test_evidence_of_what_is_not_known_is_found(mimic: Futures) -> None:
    store, other, moments = mimic
    subject, as_of = next(iter(moments.items()))
    assert list(differing_answers(store.chart(subject, as_of), other.chart(subject, as_of))) == []
    late = as_of + timedelta(days=400)
    found = list(differing_answers(store.chart(subject, late), other.chart(subject, late)))
    assert any(one.startswith("retrieve_evidence") for one in found)
    assert any(
        one.startswith("run_sql_query SELECT COUNT") and one.endswith("gives a different answer") for one in found
    )
    assert not any("cannot be called" in one for one in found)
