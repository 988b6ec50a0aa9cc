"""One diagnosis written into the raw files of a long stay years ago is found by a question about it."""

from __future__ import annotations

import csv
import gzip
import shutil
from datetime import datetime
from pathlib import Path

import pytest

from wardround.core import from_microseconds
from wardround.records import Store, ingest
from wardround.tools import Environment, EnvironmentOptions, default_toolset
from wardround.tools.retrieval import EvidenceIndex, LexicalEncoder, RetrievalSettings

TITLE = "Sarcoidosis of lung"


def append(file: Path, row: list[object]) -> None:
    with gzip.open(file, "at", newline="", encoding="utf-8") as stream:
        csv.writer(stream, lineterminator="\n").writerow(row)


@pytest.fixture(scope="module")
def planted(synthetic_hospital: Path, synthetic_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Store:
    """The synthetic hospital with a diagnosis in the first stay of the subject with the longest record."""
    folder = tmp_path_factory.mktemp("planted")
    shutil.copytree(synthetic_hospital, folder / "raw")
    subject = longest(synthetic_store)
    stays = synthetic_store.rows(subject, "admissions")
    first = min(range(stays.num_rows), key=lambda place: stays.column("admittime")[place].as_py())
    stay = stays.column("hadm_id")[first].as_py()
    append(folder / "raw/hosp/d_icd_diagnoses.csv.gz", ["D860", 10, TITLE])
    append(folder / "raw/hosp/diagnoses_icd.csv.gz", [subject, stay, 77, "D860", 10])
    ingest("mimiciv", folder / "raw", folder / "store")
    return Store.open(folder / "store")


def longest(store: Store) -> int:
    late = datetime(2300, 1, 1)
    return max(store.subjects.tolist(), key=lambda subject: len(store.chart(subject, late).event_columns()))


def test_the_needle_is_found_and_only_once_it_is_known(planted: Store) -> None:
    subject = longest(planted)
    columns = planted.chart(subject, datetime(2300, 1, 1)).event_columns()
    place = columns.concept.tolist().index(columns.descriptions.index(TITLE))
    assert len(columns) > 3000
    known = from_microseconds(int(columns.time[place]))
    row_id = columns.row_ids[place]
    end = from_microseconds(int(columns.time[-1]))
    settings = RetrievalSettings(likeness="scaled")
    for as_of, there in ((known, True), (known.replace(year=known.year - 1), False), (end, True)):
        chart = planted.chart(subject, as_of)
        evidence = EvidenceIndex(chart.event_columns(), as_of=as_of, encoder=LexicalEncoder(), settings=settings)
        shown = {one for passage in evidence.text_evidence(TITLE) for one in evidence.row_ids(passage.rows)}
        assert (row_id in shown) is there
        tools = Environment(chart, default_toolset(evidence=True), EnvironmentOptions(retrieval=settings))
        answer = tools.call("retrieve_evidence", {"query": TITLE})
        assert (row_id in answer.row_ids) is there
        assert (f"{row_id} | [{known}] diagnosis - {TITLE}" in answer.text) is there
