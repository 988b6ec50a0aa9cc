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

from wardround.exports.meds import export_meds
from wardround.records import Store

READER = Path(__file__).parents[1] / "readers" / "read_meds.py"
Event = tuple[int, datetime | None, str, float | None]


def loaded(loader: str, folder: Path, place: Path) -> list[Event]:
    variable = {"meds_reader": "WARDROUND_READERS", "pyhealth": "WARDROUND_PYHEALTH"}[loader]
    python = os.environ.get(variable)
    if python is None:
        pytest.skip(f"needs {variable}, a Python with {loader}")
    words = [python, str(READER), loader, str(folder), str(place / "cache"), str(place / "events.json")]
    subprocess.run(words, check=True, capture_output=True)
    return [
        (subject, None if time is None else datetime.fromisoformat(time), code, number)
        for subject, time, code, number in json.loads((place / "events.json").read_text())
    ]


@pytest.mark.parametrize("loader", ["meds_reader", "pyhealth"])
def test_a_loader_gives_every_event_at_the_time_since_when_a_chart_shows_it(
    loader: str, synthetic_store: Store, tmp_path: Path
) -> None:
    export_meds(synthetic_store, tmp_path / "meds")
    events = loaded(loader, tmp_path / "meds", tmp_path)
    tables = [pq.read_table(file) for file in sorted((tmp_path / "meds" / "data").rglob("*.parquet"))]
    columns = pa.concat_tables(tables).select(["subject_id", "time", "code", "numeric_value"]).columns
    written = zip(*(column.to_pylist() for column in columns), strict=True)
    assert Counter(map(_by_millisecond, events)) == Counter(map(_by_millisecond, written))
    for subject in synthetic_store.subjects[:5].tolist():
        labs = [one for one in events if one[0] == subject and one[1] is not None and one[2].startswith("mimic-lab//")]
        for _, time, code, number in labs[:3]:
            assert time is not None
            shown, before = (
                [(one.code, _in_32_bits(one.numeric_value)) for one in synthetic_store.chart(subject, moment).events()]
                for moment in (time, time - timedelta(seconds=1))
            )
            assert shown.count((code, number)) > before.count((code, number)), (subject, time, code)


def _by_millisecond(event: Event) -> Event:
    """PyHealth keeps milliseconds."""
    subject, time, code, number = event
    return subject, time and time.replace(microsecond=time.microsecond // 1000 * 1000), code, number


def _in_32_bits(number: float | None) -> float | None:
    return None if number is None else float(np.float32(number))
