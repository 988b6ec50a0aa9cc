"""Births and deaths of an export, by hand."""

from __future__ import annotations

from datetime import date, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wardround.core import from_microseconds, to_microseconds
from wardround.exports.meds import ExportSettings, export_meds
from wardround.exports.meds_events import CodeBook, EventCounts, EventRows, births_of, first_deaths, plain_events
from wardround.exports.parquet import write_store_tables
from wardround.records import Store, ingest, load_source_spec


def events(subjects: list[int], known: list[datetime], event: list[datetime] | None = None) -> EventRows:
    times = np.array([to_microseconds(moment) for moment in known])
    happened = times if event is None else np.array([to_microseconds(moment) for moment in event])
    return plain_events(
        subject=np.array(subjects),
        event=happened,
        known=times,
        time=times,
        concept=np.zeros(len(subjects), np.int64),
        codes=("X",),
        row_id=pa.array([f"r{subject}" for subject in subjects]),
    )


def test_a_birth_so_long_before_the_own_first_event_hides_an_age_and_is_left_out() -> None:
    """People get 125 years old, of 365 days. Of the fifth nothing happened; the fourth has no birthday."""
    counts = EventCounts()
    oldest = timedelta(days=125 * 365)
    first = {1: datetime(2150, 1, 1), 2: datetime(2160, 6, 1), 3: datetime(2050, 1, 1), 4: datetime(2150, 1, 1)}
    seen = events([3, 2, 1, 4, 2], [first[3], first[2], first[1], first[4], first[2] + timedelta(days=9)])
    born: list[date | None] = [date(1850, 1, 1), (first[2] - oldest).date(), (first[3] - oldest).date(), None]
    born[2] = born[2] and born[2] - timedelta(days=1)
    made = births_of(
        np.array([1, 2, 3, 4, 5]), [*born, date(1850, 1, 1)], pa.array(list("abcde")), [seen], CodeBook(), counts
    )
    assert made.subject.tolist() == [2, 5]
    assert made.row_id.to_pylist() == ["b", "e"]
    assert made.time.tolist() == [to_microseconds(first[2] - oldest), to_microseconds(datetime(1850, 1, 1))]
    assert (counts.births, counts.masked_births) == (2, 2)


def test_the_death_that_is_known_first_is_the_one_told() -> None:
    """The ward's time of death comes before the register's day, which ends later; of two known at once the earlier."""
    counts = EventCounts()
    day_end, at_night = datetime(2150, 1, 2, 23, 59, 59), datetime(2150, 1, 2, 3, 10)
    register = events([1, 2, 3], [day_end] * 3, [day_end] * 3)
    ward = events([3, 1], [day_end, at_night], [at_night, at_night])
    (made,) = first_deaths([register, ward], CodeBook(), counts)
    known, event = ([from_microseconds(one) for one in times.tolist()] for times in (made.known, made.event))
    assert list(zip(made.subject.tolist(), known, event, strict=True)) == [
        (1, at_night, at_night),
        (2, day_end, day_end),
        (3, day_end, at_night),
    ]
    assert made.row_id.to_pylist() == ["r1", "r2", "r3"]
    assert made.codes == ("MEDS_DEATH",)
    assert counts.deaths == 3


WARD = """
[source]
name = "ward"
title = "A ward"
sensitivity = "synthetic"
[tables.people]
path = "people"
key = ["person"]
subject = "person"
event_time = "always"
available_at = "always"
death = "died"
columns = { person = "int", died = "time", told = "time", of = "text", until = "text", after = "text" }
late = { after = "shift(told, 60)", "died, until" = "told" }
"""


@pytest.mark.parametrize("rule", ["told", "max(told, told)"])
def test_a_death_is_told_when_somebody_heard_of_it_and_never_where_nobody_did(rule: str, tmp_path: Path) -> None:
    """Of who is known to have died nothing else that came late stands among the things that never change."""
    rows = ["1,2150-01-05 10:00,2150-02-01 12:00,town,a,d", "2,2150-01-05 10:00,,town,b,e", "3,,2150-02-01 12:00,,c,f"]
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "people.csv").write_text("\n".join(["person,died,told,of,until,after", *rows]) + "\n")
    (tmp_path / "ward.toml").write_text(WARD.replace('= "told" }', f'= "{rule}" }}'))
    ingest(load_source_spec(tmp_path / "ward.toml"), tmp_path / "raw", tmp_path / "store")
    for mode, at in (("known", datetime(2150, 2, 1, 12)), ("event", datetime(2150, 1, 5, 10))):
        settings = ExportSettings(time=mode)  # type: ignore[arg-type]
        export_meds(Store.open(tmp_path / "store"), tmp_path / mode, settings=settings)
        (path,) = (tmp_path / mode / "data").rglob("*.parquet")
        assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"
        rows_of = {(row["subject_id"], row["code"]): row for row in pq.read_table(path).to_pylist()}
        assert {key: row["time"] for key, row in rows_of.items() if key[1] == "MEDS_DEATH"} == {(1, "MEDS_DEATH"): at}
        told = {key: (row["time"], row["available_at"]) for key, row in rows_of.items() if "//" in key[1]}
        assert told == dict.fromkeys([(1, "OF//town"), (2, "OF//town")], (None, None))
    write_store_tables(Store.open(tmp_path / "store"), tmp_path / "tables")
    names = pq.read_schema(tmp_path / "tables" / "people.parquet").names
    assert "told" in names, "a column that is a clock, too, keeps its name"
    assert [name for name in names if name.startswith("known_at:")] == (
        ["known_at:after"] if rule == "told" else ["known_at:after", "known_at:died+until"]
    )
