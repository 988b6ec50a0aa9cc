"""The card of an episode by hand: who, when, why, and right or wrong by item."""

from __future__ import annotations

from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from score_doubles import scored

from tools.fake_chart import FakeTable
from wardround.clinical.bundles import BundleEvent, EventKind, ValueLevel
from wardround.clinical.codes import LabelSet
from wardround.records import Event
from wardround.reports.episode_card import episode_card, facts_of
from wardround.reports.standing import StandingEvent, StandingRecord
from wardround.tasks.benchmarks import Sample, get_task

MOMENT = datetime(2150, 1, 8, 6, 0)


def event(kind: EventKind, concept: str, hours: float, text: str | None = None) -> StandingEvent:
    """An event so many hours before the moment."""
    time = MOMENT - timedelta(hours=hours)
    one = BundleEvent(
        kind=kind,
        concept=concept,
        value=None,
        text=text,
        unit=None,
        level=ValueLevel.UNKNOWN,
        time=time,
        known=time,
        row_id=f"{concept}:{hours}",
        revision=0,
    )
    return StandingEvent(event=one, low=None, high=None)


def note(table: str, hours: float, text: str) -> Event:
    return SimpleNamespace(table=table, time=MOMENT - timedelta(hours=hours), text_value=text, row_id=table)  # type: ignore[return-value]


def chart(age: int | None, sex: str | None) -> Any:
    table = FakeTable("patients", {"gender": ("text", [sex])})
    return SimpleNamespace(
        age=age,
        spec=SimpleNamespace(roles=SimpleNamespace(person=())),
        table_names=("patients",),
        layouts={"patients": SimpleNamespace(columns=("gender",))},
        table=lambda name: table,
    )


def record(*events: StandingEvent, notes: tuple[Event, ...] = ()) -> StandingRecord:
    return StandingRecord(as_of=MOMENT, events=events, rows={}, documents=notes)


@pytest.mark.parametrize(
    ("age", "sex", "who"),
    [
        (67, "F", "67-year-old woman"),
        (90, "M", "90 years or older, man"),
        (9, "f", "9-year-old girl"),
        (None, "M", "man (age not on record)"),
        (40, None, "40-year-old patient (sex not on record)"),
        (None, None, "patient (age and sex not on record)"),
    ],
)
def test_who(age: int | None, sex: str | None, who: str) -> None:
    found = facts_of(chart(age, sex), record())
    assert found.who == who
    assert found.when == "as of 2150-01-08 06:00; no admission on record by then"
    assert (found.reason, found.problems) == ("", ())


def test_when_and_why_of_a_stay_that_lasts() -> None:
    found = facts_of(
        chart(67, "F"),
        record(
            event(EventKind.DIAGNOSIS, "Asthma", 900),
            event(EventKind.ADMISSION, "admissions", 800, "URGENT"),
            event(EventKind.DISCHARGE, "admissions", 700),
            event(EventKind.DIAGNOSIS, "Gout", 690),
            event(EventKind.DIAGNOSIS, "Asthma", 690),
            event(EventKind.TRANSFER, "Cardiology", 650),
            event(EventKind.ADMISSION, "admissions", 59, "EW EMER."),
            event(EventKind.TRANSFER, "MICU", 50),
            notes=(
                note("discharge", 705, "an old letter"),
                note("admission_note", 58, "long"),
                note("triage", 63, " Chest\npain "),
            ),
        ),
    )
    assert (
        found.when
        == "hospital day 4, 59 hours after admission (2150-01-05 19:00), last in MICU; as of 2150-01-08 06:00"
    )
    assert (found.reason, found.reason_from) == ("Chest pain", "triage 2150-01-05 15:00")
    assert (found.problems, found.problem_count) == (("Asthma", "Gout"), 2)


def test_a_stay_that_is_over_and_one_without_notes() -> None:
    over = facts_of(
        chart(67, "F"), record(event(EventKind.ADMISSION, "a", 100, "URGENT"), event(EventKind.DISCHARGE, "a", 1))
    )
    assert over.when == "as of 2150-01-08 06:00, 60 minutes after discharge (2150-01-04 02:00 to 2150-01-08 05:00)"
    assert (over.reason, over.reason_from) == ("URGENT", "admitted 2150-01-04 02:00")


def sample(task: str, *target: str, **facts: Any) -> Sample:
    return Sample(
        id="s",
        task=task,
        subject_id=1,
        prediction_time=MOMENT,
        target=target,
        split="test",
        stratum="common",
        facts=facts,
    )


def test_items_are_right_as_the_scorer_counts_them() -> None:
    labels = LabelSet(name="tests", labels=("Sodium", "Potassium", "Lactate"), aliases={"Na": "Sodium"})
    score = scored("labevents", 1, 0.5, answer=("na", "Glucose of the moon", "Lactate"))
    score = scored("labevents", 1, 0.5, answer=score.answer, score=_outside(score.score, "Glucose of the moon"))
    found = episode_card(score, sample("labevents", "Sodium", "Potassium"), get_task("labevents"), labels, None)
    assert found.question == "Which laboratory tests will be run on the next collection of specimens?"
    assert [(one.text, one.state) for one in found.answer] == [
        ("na", "right"),
        ("Glucose of the moon", "outside"),
        ("Lactate", "wrong"),
    ]
    assert [(one.text, one.state) for one in found.happened] == [("Sodium", "right"), ("Potassium", "missed")]
    assert found.verdict == "1 of 3 answers are right; 1 of 2 that happened were missed."


def _outside(score: Any, *names: str) -> Any:
    from dataclasses import replace

    return replace(score, outside=names)


def test_a_class_is_told_with_its_meaning_and_a_missing_answer_is_said() -> None:
    task = get_task("guo_icu")
    labels = task.answer.labels(task.name, None)
    wrong = episode_card(scored("guo_icu", 1, 0.0, answer=("0",)), sample("guo_icu", "1"), task, labels, None)
    assert [(one.text, one.state) for one in wrong.happened] == [("1", "missed")]
    assert wrong.happened[0].meaning == task.answer.class_names["1"] != ""
    assert wrong.verdict == "Wrong."
    none = episode_card(scored("guo_icu", 1, 0.0, answer=None), sample("guo_icu", "1"), task, labels, None)
    assert (none.answer, none.verdict) == ((), "No answer was given.")


def test_words_of_its_own_are_shown_for_a_judge_without_right_or_wrong() -> None:
    task = get_task("medr-bench.diagnosis")
    found = episode_card(
        scored(task.name, 1, 0.0, answer=("Gout.",)), sample(task.name, "Acute gout"), task, None, None
    )
    assert [(one.text, one.state) for one in (*found.answer, *found.happened)] == [
        ("Gout.", "judged"),
        ("Acute gout", "judged"),
    ]
    assert found.verdict.startswith("The answer is free text; a judge compares")
    none = episode_card(scored(task.name, 1, 0.0, answer=None), sample(task.name, "Acute gout"), task, None, None)
    assert ([one.text for one in none.answer], none.verdict) == ([], "No answer was given.")
    assert [one.text for one in none.happened] == ["Acute gout"]


def test_a_stay_counts_its_decisions_and_shows_no_items() -> None:
    steps = sample("next_bundle", "00001|LABS|Lactate", "00002|LABS|Sodium")
    found = episode_card(scored("next_bundle", 1, 0.5), steps, get_task("next_bundle"), None, None)
    assert (found.answer, found.happened) == ((), ())
    assert found.verdict.startswith("2 decisions")
