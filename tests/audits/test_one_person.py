"""Stores of one person: which tables and columns there are may not say what will come."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from datetime import datetime
from fnmatch import fnmatch
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from invented import Invented, settings_for

from wardround.audits.leaks import ChartFindings, compare_charts
from wardround.audits.outcome_swap import placement_of
from wardround.audits.swap import load_swap_table, write_swapped
from wardround.records import Store, ingest
from wardround.synth import DIALECTS
from wardround.tools import Environment

_WHO = ("patients", "patient", "person", "admissions", "visit_occurrence", "d_*", "concept")
"""Files that say who somebody is and that there was a stay; of the others only the headers are left."""


@pytest.mark.parametrize("source", DIALECTS)
def test_a_person_s_tables_and_columns_are_there_before_their_rows(
    invented: Invented, tmp_path: Path, source: str
) -> None:
    whole, begun = tmp_path / "whole", tmp_path / "begun"
    subject = _alone(invented, source, whole)
    _alone(invented, source, begun)
    for path in sorted(path for path in begun.rglob("*") if path.is_file()):
        _FORGET[path.suffix](path)
    charts = []
    for folder in (whole, begun):
        ingest(source, folder / "0", folder / "store", settings=settings_for(source))
        charts.append(Store.open(folder / "store").chart(subject, datetime(1900, 1, 1)))
    found = ChartFindings(policy="known_at")
    compare_charts(found, *charts, "in a record that ends here")
    assert [name for name, leaks in found.tables.items() if not leaks.clean] == []
    listed = [Environment(chart).call("get_table_names", {}).text for chart in charts]
    assert listed[0] == listed[1]


def _alone(invented: Invented, source: str, folder: Path) -> int:
    """Write the files of one person, one of many events, as they are."""
    store = invented.store(source)
    subject = max(
        store.subjects.tolist(), key=lambda each: sum(store.rows(each, t).num_rows for t in store.table_names)
    )
    write_swapped(
        load_swap_table(source),
        [invented.raw(source)],
        folder,
        {subject: None},
        placement=placement_of(store),
        others=False,
    )
    return subject


def _keep_header(path: Path) -> None:
    if not any(fnmatch(path.name.partition(".")[0].lower(), name) for name in _WHO):
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt") as lines:
            header = lines.readline()
        with opened(path, "wt") as target:
            target.write(header)


def _keep_person(path: Path) -> None:
    lines = path.read_text().splitlines()
    path.write_text("".join(f"{line}\n" for line in lines if json.loads(line)["resourceType"] == "Patient"))


def _keep_first_event(path: Path) -> None:
    table = pq.read_table(path)
    pq.write_table(table.slice(0, 1) if "time" in table.column_names else table, path)


_FORGET: dict[str, Callable[[Path], None]] = {
    ".csv": _keep_header,
    ".gz": _keep_header,
    ".ndjson": _keep_person,
    ".parquet": _keep_first_event,
    ".json": lambda path: None,  # what is said of the data set, of nobody
}
