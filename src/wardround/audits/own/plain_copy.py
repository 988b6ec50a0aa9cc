"""The raw files of some subjects as the outcome swap reads them: one plain CSV file a table, and whose each row is."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from wardround.audits.own.answers import OWN_SUBJECT
from wardround.audits.raw_subjects import Folders, RawSubjects, one_file
from wardround.records.store import Store

_STRANGERS = 40
"""So many subjects more are written: their rows say what else a column may hold."""


def write_plain(store: Store, folders: Folders, target: Path, subjects: Collection[int]) -> Path:
    """Write the rows of some subjects, and of some others, in UTF-8 with commas, ISO times and decimal points.

    The column ``_subject`` holds the store's number of whose a row is. Read with ``plainly_written(store)``.
    """
    wanted = {*subjects, *(int(one) for one in store.subjects[: len(subjects) + _STRANGERS])}
    raw = RawSubjects.read(store, folders, wanted)
    for name, table in raw.tables.items():
        rows = ((str(subject), *row) for subject, own in sorted(table.rows.items()) for row in own)
        _write(target / f"{one_file(store.spec.tables[name])}.csv", (OWN_SUBJECT, *table.header), rows)
    for name, (header, entries) in raw.dictionaries.items():
        _write(target / f"{store.spec.dictionaries[name].path}.csv", header, entries)
    return target


def _write(path: Path, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as target:
        writer = csv.writer(target, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)
