"""What may be set of an ingest, what of it decides a store, and what a report begins with."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from declared import MISSING, beginnings_of, defaults_of
from wardround.core import UserError, content_hash
from wardround.records.ingest.plan import IngestReport, IngestSettings


def test_nothing_is_lagged_but_results_and_cultures() -> None:
    assert defaults_of(IngestSettings) == {
        "coding_lag": timedelta(0),
        "result_lag": timedelta(days=1),
        "culture_lag": timedelta(days=7),
        "measure_medians": False,
        "median_delays": {},
        "time_zone": None,
        "user_codes": None,
        "memory_bytes": 1024**3,
        "workers": 1,
        "executor": "processes",
        "shards": None,
    }


def test_what_a_report_counts_begins_at_nothing() -> None:
    assert set(beginnings_of(IngestReport).values()) == {MISSING}


@pytest.mark.parametrize(("name", "least"), [("memory_bytes", 64 * 1024 * 1024), ("workers", 1)])
def test_the_least_that_is_taken(name: str, least: int) -> None:
    settings: dict[str, Any] = {name: least}
    assert getattr(IngestSettings(**settings), name) == least
    with pytest.raises(UserError, match=f"{name} must be at least"):
        IngestSettings(**{name: least - 1})


def test_what_decides_a_store_is_told_in_seconds(tmp_path: Path) -> None:
    (tmp_path / "codes").mkdir()
    (tmp_path / "codes" / "b.csv").write_bytes(b"x")
    (tmp_path / "codes" / "a").mkdir()
    (tmp_path / "codes" / "a" / "c.csv").write_bytes(b"y")
    plain = IngestSettings(workers=3, shards=2, memory_bytes=1 << 27)
    assert plain.to_json() == {
        "coding_lag_seconds": 0.0,
        "result_lag_seconds": 86_400.0,
        "culture_lag_seconds": 604_800.0,
        "measure_medians": False,
        "median_delay_seconds": {},
        "user_codes": None,
    }
    told = IngestSettings(
        coding_lag=timedelta(minutes=1),
        measure_medians=True,
        median_delays={"labevents.a.b": (timedelta(hours=2), None)},
        time_zone="Europe/Berlin",
        user_codes=tmp_path / "codes",
    ).to_json()
    assert told == plain.to_json() | {
        "coding_lag_seconds": 60.0,
        "measure_medians": True,
        "median_delay_seconds": {"labevents.a.b": [7200.0, None]},
        "time_zone": "Europe/Berlin",
        "user_codes": content_hash([["a/c.csv", content_hash(b"y")], ["b.csv", content_hash(b"x")]]),
    }
    assert IngestSettings(user_codes=tmp_path / "none").to_json()["user_codes"] == content_hash([])


def test_what_is_assumed_is_said_in_words() -> None:
    spec = cast(Any, SimpleNamespace(assumed={"result_lag": "a result without a time is known after"}))
    said = "assumed: a result without a time is known after: 1 day, 0:00:00 (result_lag)"
    assert IngestSettings().assumptions(spec) == (said,)
    zone = "assumed: times with an offset are of one place: UTC (time_zone)"
    assert IngestSettings(time_zone="UTC").assumptions(spec) == (said, zone)
