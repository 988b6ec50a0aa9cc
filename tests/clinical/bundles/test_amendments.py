"""Amendments: a chart shows the version known at its moment, and the state is never that of an older one."""

from __future__ import annotations

import csv
import random
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from effort import often
from exports.test_meds_export import seen
from wardround.clinical.bundles import (
    BASELINE_RISE,
    EventKind,
    PatientState,
    ValueLevel,
    batch_states,
    states,
    store_bundles,
    subject_bundles,
)
from wardround.clinical.bundles.futures import differing_bundles, differing_records
from wardround.exports.meds import export_meds
from wardround.records import Store, ingest, load_source_spec
from wardround.reports.stay_pages import stay_hours
from wardround.stream import FollowSettings, follow, write_replay
from wardround.stream.follow import states_of
from wardround.tasks.benchmarks import Sample

START = datetime(2150, 3, 1)
SUBJECTS = often(12, 500)
CASCADES = 20
"""Results of a subject, each of which may be corrected and withdrawn: 10,000 in make long."""
WINDOW = timedelta(hours=24)
SPEC = """
[source]
name = "corrected"
[tables.results]
path = "results"
key = ["result_id"]
version = "written"
amended = { status = "status", withdrawn = ["error"] }
event_time = "taken"
available_at = "max(taken, stored)"
label = "test"
value = "value"
unit = "unit"
[tables.results.columns]
subject_id = "int"
result_id = "text"
taken = "time"
stored = "time"
written = "time"
test = "text"
value = "float"
unit = "text"
status = "text"
[[roles.lab]]
table = "results"
label = "test"
time = "taken"
value = "value"
unit = "unit"
"""


@dataclass(frozen=True)
class Version:
    subject: int
    result: str
    taken: datetime
    stored: datetime
    written: datetime
    value: float
    status: str


def cascades(subjects: int, seed: int) -> list[Version]:
    """Results, corrections and withdrawals at random times, some within one hour; what was withdrawn may come back."""
    dice = random.Random(seed)
    made = []
    for subject in range(1, subjects + 1):
        for number in range(CASCADES):
            taken = START + timedelta(minutes=dice.randrange(48 * 60))
            written = stored = taken + timedelta(minutes=dice.randrange(1, 180))
            for version in range(dice.choice((1, 1, 2, 3, 4))):
                status = "error" if version > 0 and dice.random() < 0.3 else "final"
                value = round(dice.uniform(1, 9), 1)
                made.append(Version(subject, f"{subject}-{number}", taken, stored, written, value, status))
                written += timedelta(minutes=dice.randrange(1, 600))
    dice.shuffle(made)
    return made


def stored(folder: Path, versions: list[Version]) -> Store:
    (folder / "raw").mkdir(parents=True)
    (folder / "corrected.toml").write_text(SPEC, encoding="utf-8")
    with (folder / "raw" / "results.csv").open("w", newline="", encoding="utf-8") as target:
        writer = csv.writer(target)
        writer.writerow(["subject_id", "result_id", "taken", "stored", "written", "test", "value", "unit", "status"])
        for each in versions:
            times = [f"{time:%Y-%m-%d %H:%M:%S}" for time in (each.taken, each.stored, each.written)]
            writer.writerow([each.subject, each.result, *times, "Lactate", each.value, "mmol/L", each.status])
    ingest(load_source_spec(folder / "corrected.toml"), folder / "raw", folder / "store")
    return Store.open(folder / "store")


@pytest.fixture(scope="module")
def versions() -> list[Version]:
    return cascades(SUBJECTS, seed=7)


@pytest.fixture(scope="module")
def store(versions: list[Version], tmp_path_factory: pytest.TempPathFactory) -> Store:
    return stored(tmp_path_factory.mktemp("amended"), versions)


def known_then(versions: list[Version], subject: int, as_of: datetime) -> dict[str, Version]:
    """By result, the version that was known at a moment, worked out from the versions as they were made."""
    found: dict[str, Version] = {}
    for each in sorted((each for each in versions if each.subject == subject), key=lambda each: each.written):
        if each.written <= as_of:
            found[each.result] = each
    return {result: each for result, each in found.items() if each.status != "error"}


def test_a_chart_shows_the_version_known_at_its_moment(store: Store, versions: list[Version]) -> None:
    moments = sorted({each.written for each in versions})
    for subject in range(1, SUBJECTS + 1, max(SUBJECTS // 6, 1)):
        for as_of in moments[:: max(len(moments) // 40, 1)]:
            for moment in (as_of, as_of - timedelta(seconds=1)):
                batch = store.chart(subject, moment).table("results").batch
                shown = dict(zip(batch.column(0).to_pylist(), batch.column("value").to_pylist(), strict=True))
                assert shown == {f"results:{k}": v.value for k, v in known_then(versions, subject, moment).items()}


def test_versions_go_out_as_meds_and_come_back(store: Store, versions: list[Version], tmp_path: Path) -> None:
    """A chart made of our own export shows at every moment what the store's own does: corrected, or withdrawn."""
    export_meds(store, tmp_path / "meds")
    ingest("meds", tmp_path / "meds", tmp_path / "store")
    again = Store.open(tmp_path / "store")
    moments = sorted({each.written for each in versions})
    for subject in range(1, SUBJECTS + 1, max(SUBJECTS // 6, 1)):
        for moment in moments[:: max(len(moments) // 40, 1)]:
            assert seen(again.chart(subject, moment)) == seen(store.chart(subject, moment))
            assert len(seen(store.chart(subject, moment))) == len(known_then(versions, subject, moment))


def test_the_audit_of_futures_sees_what_differs_by_a_moment_and_nothing_later(tmp_path: Path) -> None:
    times = [START + timedelta(hours=hours) for hours in (1, 9)]
    first, last = (Version(1, f"1-{time.hour}", START, time, time, 5.0, "final") for time in times)
    shown = stored(tmp_path / "shown", [first, last])
    moments = {1: START + timedelta(hours=5)}
    for changed, is_seen in ([first, replace(last, value=1.0)], False), ([replace(first, value=1.0), last], True):
        other = stored(tmp_path / f"other-{is_seen}", changed)
        records = differing_records(shown, other, moments)
        assert records.compared == {"bundles of whole records": 1}
        assert bool(records.differences) == is_seen
        charts = differing_bundles(shown.chart(1, moments[1]), other.chart(1, moments[1]))
        assert bool(list(charts)) == is_seen


def test_no_state_is_stale_after_a_correction_or_a_withdrawal(store: Store, versions: list[Version]) -> None:
    stale = 0
    for subject in range(1, SUBJECTS + 1):
        stream = subject_bundles(store, subject)
        for bundle, state in zip(stream, states(stream), strict=True):
            end = bundle.hour + timedelta(hours=1, microseconds=-1)
            stale += sorted(readings(state)) != sorted(fresh(versions, subject, end))
    assert stale == 0


def readings(state: PatientState) -> list[tuple[datetime, float, ValueLevel]]:
    trend = state.trend("Lactate")
    return [] if trend is None else [(each.time, each.value, each.level) for each in trend.readings]


def fresh(versions: list[Version], subject: int, as_of: datetime) -> list[tuple[datetime, float, ValueLevel]]:
    """The trend and its levels worked out anew from what was known: the first value known is the baseline."""
    rows = list(known_then(versions, subject, as_of).values())
    if not rows:
        return []
    first_in = {each.result: each.stored.replace(minute=0) for each in rows}
    base = min(rows, key=lambda each: (first_in[each.result], each.taken, each.result))
    newest = max(each.taken for each in rows)
    within = [each for each in rows if each.taken >= newest - WINDOW]
    return [(each.taken, each.value, level(each, base)) for each in within]


def level(each: Version, base: Version) -> ValueLevel:
    if each is base:
        return ValueLevel.UNKNOWN
    if each.value > base.value * BASELINE_RISE:
        return ValueLevel.ABOVE_BASELINE
    return ValueLevel.BELOW_BASELINE if each.value < base.value / BASELINE_RISE else ValueLevel.AT_BASELINE


def test_what_a_later_version_brings_back_is_gone_until_then(tmp_path: Path) -> None:
    """Cut before it comes back, the record has the same bundles: what is told hangs on nothing that comes later."""
    kinds = ["final", "error", "error", "final", "error"]
    times = [START + timedelta(hours=hours) for hours in (1, 3, 5, 7, 9)]
    made = [Version(1, "a", START, times[0], time, 5.0, kind) for time, kind in zip(times, kinds, strict=True)]
    whole = list(subject_bundles(stored(tmp_path / "whole", made), 1))
    told = [(bundle.hour, [event.kind for event in bundle.events]) for bundle in whole]
    lab, gone = [EventKind.LAB], [EventKind.RETRACTION]
    assert told == [(times[0], lab), (times[1], gone), (times[3], lab), (times[4], gone)]
    now = [(state.hour, [trend.last.value for trend in state.trends.values()]) for state in states(whole)]
    assert now == [(times[0], [5.0]), (times[1], []), (times[3], [5.0]), (times[4], [])], (
        "it is then, with nothing left"
    )
    for number, many in ((1, 1), (2, 2), (3, 2), (4, 3), (5, 4)):
        cut = list(subject_bundles(stored(tmp_path / str(number), made[:number]), 1))
        assert [(bundle.hour, bundle.events) for bundle in cut] == [(b.hour, b.events) for b in whole[:many]]


def test_the_batch_state_follows_amendments_as_the_fold_does(store: Store) -> None:
    for stream in store_bundles(store):
        batch = batch_states(stream)
        for subject in (1, SUBJECTS // 2, SUBJECTS):
            *_, folded = states(bundle for bundle in stream if bundle.subject_id == subject)
            assert readings(batch.of(subject)) == readings(folded)
            assert batch.of(subject).actions == folded.actions


def test_what_two_rows_say_of_one_moment_is_a_contradiction(tmp_path: Path) -> None:
    """The version time cannot tell them apart: both are set aside, as before there were versions."""
    one = Version(1, "r", START, START, START, 1.0, "final")
    two = Version(1, "r", START, START, START, 2.0, "final")
    other = Version(2, "s", START, START, START, 3.0, "final")
    store = stored(tmp_path, [one, two, other])
    assert store.chart(2, START).table("results").num_rows == 1
    assert store.manifest["tables"]["results"]["quarantined"] or 1 not in store.subjects.tolist()


def test_a_later_contradiction_takes_nothing_back(tmp_path: Path) -> None:
    """Corrected after two hours, and after five in two ways at once: until then the first correction stands."""
    told = [
        Version(1, "r", START, START, START + timedelta(hours=hours), value, "final")
        for hours, value in ((0, 1.0), (2, 2.0), (5, 3.0), (5, 4.0), (8, 5.0))
    ]
    whole, before = (stored(tmp_path / str(count), told[:count]) for count in (5, 2))
    for hours, value in ((1, 1.0), (3, 2.0), (6, 2.0), (9, 5.0)):
        moment = START + timedelta(hours=hours)
        shown = whole.chart(1, moment).table("results").batch
        assert shown.column("value").to_pylist() == [value]
        if hours < 5:
            assert shown.equals(before.chart(1, moment).table("results").batch)
    assert whole.manifest["tables"]["results"]["quarantined"] == 2


def test_a_version_given_twice_is_one(tmp_path: Path) -> None:
    """A copy contradicts nothing: exports repeat what a later page holds again."""
    one = Version(1, "r", START, START, START, 1.0, "final")
    corrected = Version(1, "r", START, START, START + timedelta(hours=2), 2.0, "final")
    other = Version(1, "s", START, START, START, 3.0, "final")
    store = stored(tmp_path, [corrected, one, other, corrected, one])
    for hours, values in ((1, {1.0, 3.0}), (3, {2.0, 3.0})):
        shown = store.chart(1, START + timedelta(hours=hours)).table("results").batch
        assert set(shown.column("value").to_pylist()) == values
    assert not store.manifest["tables"]["results"]["quarantined"]


def test_a_stays_page_names_what_was_amended_and_what_it_did_to_the_state(tmp_path: Path) -> None:
    """A result at nine, corrected two hours later, and withdrawn after two more."""
    times = [START + timedelta(hours=hours) for hours in (9, 11, 13)]
    versions = [
        Version(1, "r", times[0], times[0], written, value, status)
        for written, value, status in zip(times, (5.0, 1.0, 1.0), ("final", "final", "error"), strict=True)
    ]
    store = stored(tmp_path, [*versions, Version(2, "s", START, START, START, 3.0, "final")])
    sample = cast(Sample, SimpleNamespace(subject_id=1, facts={"first": 0, "stop": 4}))
    first, corrected, withdrawn = stay_hours(store, sample)
    assert (first.changes, first.amended) == (("Lactate 5 mmol/L",), ())
    assert "Lactate 5" in first.bundle
    assert corrected.changes == ("Lactate 1 mmol/L",)
    assert [said.startswith("Lactate 1 mmol/L") for said in corrected.amended] == [True]
    assert withdrawn.changes == ("trend − Lactate",)
    assert withdrawn.amended == ("Lactate withdrawn",)


def test_a_live_stream_with_nothing_in_memory_follows_every_cascade(store: Store, tmp_path: Path) -> None:
    """Snapshots between a result and its correction: what is read back is refolded from all versions."""
    write_replay(store, tmp_path / "lines")
    settings = FollowSettings(once=True, finish=True, lines_per_commit=50, entries_in_memory=0)
    follow(store.spec, tmp_path / "lines", tmp_path / "live", settings=settings)
    live = states_of(store.spec, tmp_path / "live")
    for stream in store_bundles(store):
        batch = batch_states(stream)
        for subject in set(stream.subjects.tolist()):
            assert readings(live[subject]) == readings(batch.of(subject))
    assert len(live) == SUBJECTS
