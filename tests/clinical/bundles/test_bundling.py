"""Bundles: what a chart shows by an hour is what the bundles until then tell, in a whole store as in one chart."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest

from wardround.clinical.bundles import BundleStream, EventKind, bundle_text, bundles_of, store_bundles, subject_bundles
from wardround.clinical.bundles.events import HOUR
from wardround.clinical.bundles.reading import played_rows
from wardround.core import UserError, from_microseconds
from wardround.records import Store

CHECKED = 6
"""Subjects looked at, and moments in each record."""


@pytest.fixture(scope="module")
def streams(synthetic_store: Store) -> list[BundleStream]:
    return list(store_bundles(synthetic_store, rows_at_once=20_000))


def chart_rows(store: Store, subject: int, as_of: datetime) -> set[str]:
    """The row ids that a chart shows in the tables whose every row is an event."""
    chart = store.chart(subject, as_of)
    return {row for name in WHOLE for row in chart.table(name).batch.column(0).to_pylist()}


WHOLE = ("labevents", "prescriptions", "microbiologyevents", "diagnoses_icd", "procedures_icd", "outputevents", "emar")


def test_bundles_until_an_hour_tell_the_rows_that_a_chart_shows_at_its_end(
    synthetic_store: Store, streams: list[BundleStream]
) -> None:
    everything = {int(each): stream for stream in streams for each in np.unique(stream.subjects)}
    for subject in sorted(everything)[:CHECKED]:
        events = everything[subject].columns.take(everything[subject].columns.subject == subject)
        hours = np.unique(events.hour)
        rows = np.array(events.row_id.to_pylist())
        for hour in hours[:: max(len(hours) // CHECKED, 1)].tolist():
            as_of = from_microseconds((hour + 1) * HOUR - 1)
            told = {row for row in rows[events.hour <= hour] if row.partition(":")[0] in WHOLE}
            shown = chart_rows(synthetic_store, subject, as_of)
            assert shown <= told
            assert all(row.startswith("microbiologyevents") for row in told - shown)  # orders whose result is in


def test_the_bundles_of_a_chart_are_those_of_the_store_until_its_moment(
    synthetic_store: Store, streams: list[BundleStream]
) -> None:
    for stream in streams:
        subject = int(stream.subjects[0])
        own = stream.columns.take(stream.columns.subject == subject)
        moment = int(np.median(own.known))
        chart = bundles_of(synthetic_store.chart(subject, from_microseconds(moment))).columns
        expected = own.take(own.known <= moment)
        assert [str(each) for each in chart] == [str(each) for each in expected]


def test_a_bundle_is_one_clock_hour_of_one_subject_and_counts_the_hours_between(streams: list[BundleStream]) -> None:
    for stream in streams:
        keys = list(zip(stream.subjects.tolist(), stream.hours.tolist(), strict=True))
        assert len(set(keys)) == len(keys)
        assert keys == sorted(keys)
        assert (stream.columns.event <= stream.columns.known).all()
        for place in range(1, min(len(stream), 200)):
            bundle, before = stream[place], stream[place - 1]
            assert {event.known.replace(minute=0, second=0) for event in bundle.events} == {bundle.hour}
            same = bundle.subject_id == before.subject_id
            assert bundle.gap_hours == ((bundle.hour - before.hour) // timedelta(hours=1) if same else None)


def test_orders_and_stays_end_where_a_chart_learns_of_it(synthetic_store: Store, streams: list[BundleStream]) -> None:
    subject = int(streams[0].subjects[0])
    stream = subject_bundles(synthetic_store, subject)
    stops = [event for bundle in stream for event in bundle.of_kind(EventKind.MEDICATION_STOP)]
    assert stops
    for event in stops:
        before = synthetic_store.chart(subject, event.known - timedelta(seconds=1)).table("prescriptions").batch
        after = synthetic_store.chart(subject, event.known).table("prescriptions").batch
        cells = [
            dict(zip(each.column(0).to_pylist(), each.column("stoptime").to_pylist(), strict=True))
            for each in (before, after)
        ]
        assert (cells[0].get(event.row_id), cells[1][event.row_id]) == (None, event.time)


def test_a_bundle_in_words_folds_normal_panels_and_spells_out_the_rest(streams: list[BundleStream]) -> None:
    texts = [bundle_text(bundle) for bundle in streams[0]]
    assert any("BMP: all normal (" in text for text in texts)
    assert any("(High)" in text for text in texts)
    assert any(text.startswith("[TIME_DELTA: +") for text in texts)
    assert all("[TIME_DELTA" not in text.partition("\n")[2] for text in texts)


def test_a_word_for_no_unit_is_no_unit(synthetic_store: Store, streams: list[BundleStream]) -> None:
    """MIMIC writes "None" as the unit of procedures that count nothing; the same word as a charted value ("O2 Delivery
    Device(s) None") stays."""
    subjects = map(int, synthetic_store.subjects)
    charted = [synthetic_store.chart(one, datetime(2400, 1, 1)).table("procedureevents").batch for one in subjects]
    assert any("None" in batch.column("valueuom").to_pylist() for batch in charted)
    assert "None" not in {unit for stream in streams for unit in stream.columns.unit.to_pylist()}
    lines = [line for stream in streams for bundle in stream for line in bundle_text(bundle).splitlines()]
    procedures = [line for line in lines if line.startswith("Procedures:")]
    assert procedures
    assert not any("None" in line for line in procedures)


def test_the_papers_clocks_have_no_bundles(synthetic_store: Store) -> None:
    chart = synthetic_store.chart(int(synthetic_store.subjects[0]), datetime(2150, 1, 1), policy="published")
    with pytest.raises(UserError, match="the papers' clocks"):
        bundles_of(chart)


def test_every_source_with_roles_has_kinds(synthetic_store: Store) -> None:
    kinds = {each.kind for several in played_rows(synthetic_store.spec).values() for each in several}
    assert {EventKind.LAB, EventKind.VITAL, EventKind.MEDICATION_START, EventKind.INFUSION_START} <= kinds
