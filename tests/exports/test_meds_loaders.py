"""A MEDS export opened by the loaders of others, in a Python of their own (``make test-exports``)."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import wardround as wd
from wardround.exports.meds import export_meds
from wardround.records import Store

READER = Path(__file__).parents[1] / "readers" / "read_meds.py"
Event = tuple[int, datetime | None, str, float | None]


VARIABLES = {"meds_reader": "WARDROUND_READERS", "pyhealth": "WARDROUND_PYHEALTH"}


@pytest.fixture(scope="module", params=VARIABLES)
def reader(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A Python that has a loader, and the loader's name."""
    python = os.environ.get(VARIABLES[request.param])
    if python is None:
        pytest.skip(f"needs {VARIABLES[request.param]}, a Python with {request.param} (make test-exports)")
    return python, request.param


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """A hospital of few patients: each loader converts all of it."""
    place = tmp_path_factory.mktemp("loaders")
    wd.synthesize(place / "hospital", patients=8, seed=3)
    wd.ingest("mimiciv", place / "hospital", place / "store")
    return Store.open(place / "store")


def loaded(reader: tuple[str, str], folder: Path, place: Path) -> list[Event]:
    python, loader = reader
    words = [python, str(READER), loader, str(folder), str(place / "cache"), str(place / "events.json")]
    subprocess.run(words, check=True, capture_output=True)
    return [
        (subject, None if time is None else datetime.fromisoformat(time), code, number)
        for subject, time, code, number in json.loads((place / "events.json").read_text())
    ]


def test_a_loader_gives_every_event_at_the_time_since_when_a_chart_shows_it(
    reader: tuple[str, str], store: Store, tmp_path: Path
) -> None:
    export_meds(store, tmp_path / "meds")
    events = loaded(reader, tmp_path / "meds", tmp_path)
    tables = [pq.read_table(file) for file in sorted((tmp_path / "meds" / "data").rglob("*.parquet"))]
    columns = pa.concat_tables(tables).select(["subject_id", "time", "code", "numeric_value"]).columns
    written = zip(*(column.to_pylist() for column in columns), strict=True)
    assert Counter(map(_by_millisecond, events)) == Counter(map(_by_millisecond, written))
    for subject in store.subjects.tolist():
        labs = [one for one in events if one[0] == subject and one[1] is not None and one[2].startswith("mimic-lab//")]
        for _, time, code, number in labs[:3]:
            assert time is not None
            shown, before = (
                [(one.code, _in_32_bits(one.numeric_value)) for one in store.chart(subject, moment).events()]
                for moment in (time, time - timedelta(seconds=1))
            )
            assert shown.count((code, number)) > before.count((code, number)), (subject, time, code)


def _by_millisecond(event: Event) -> Event:
    """PyHealth keeps milliseconds."""
    subject, time, code, number = event
    return subject, time and time.replace(microsecond=time.microsecond // 1000 * 1000), code, number


def _in_32_bits(number: float | None) -> float | None:
    return None if number is None else float(np.float32(number))
