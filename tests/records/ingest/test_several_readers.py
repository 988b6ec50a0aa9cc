"""One file that several processes read: the store has the bytes that it has where one process reads the file whole."""

from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from effort import drawn
from records.small_source import FILES, SPEC, small_spec, write_files
from wardround.core import RecordError, UserError
from wardround.core.executors import EXECUTORS, Job, JobResult, perform
from wardround.records import IngestSettings, ingest
from wardround.records.ingest import buckets
from wardround.records.reading import csv_blocks

HEADER, *LINES = FILES["hosp/labs.csv"].splitlines()
BREAK = "\r\nthen "
BROKEN = {50: "x50,1,,501,,,,,", 51: "1,2,3", 120: "120,,,501,,,,,", 201: '201,1,,501,,,"open,,'}


def labs() -> list[str]:
    """Rows of which some span lines, and some are broken: no number, too few cells, no subject, an open quote."""
    rows = []
    for number in range(300):
        value = f'"a ""word"", and{BREAK}{"x" * (number % 40)}\n"' if number % 3 else "7.1"
        row = f"{number},{1 + number % 7},,501,2150-01-01 07:{number % 60:02d}:00,2150-01-01 09:00:00,{value},7.1,mg/dL"
        broken = {
            50: f"x{number},1,,501,,,,,",
            51: "1,2,3",
            120: f"{number},,,501,,,,,",
            201: f'{number},1,,501,,,"open,,',
        }
        rows.append(broken.get(number, row))
    return rows


def raw_folder(folder: Path, form: str) -> Path:
    triage = "lab_id,complaint\n" + "".join(f'{number},"cough\n{number}"\n' for number in range(0, 400, 2))
    write_files(folder, {**FILES, "ed/triage.csv": triage})
    plain = folder / "hosp" / "labs.csv"
    end = "\r\n" if form == "crlf" else "\n"
    data = end.join([HEADER, *labs(), ""]).encode()
    plain.write_bytes(data)
    if form == "bom":
        plain.write_bytes(b"\xef\xbb\xbf" + data)
    if form in ("gzip", "members"):
        cuts = [0, 4_000, 4_001, 17_000, len(data)] if form == "members" else [0, len(data)]
        members = (gzip.compress(data[at:to]) for at, to in pairwise(cuts))
        (folder / "hosp" / "labs.csv.gz").write_bytes(b"".join(members))
        plain.unlink()
    if form == "parquet":
        ids = pa.array([None if number % 50 == 9 else number for number in range(300)], pa.int64())
        columns = {"subject_id": pa.array([1 + number % 7 for number in range(300)]), "itemid": pa.array([501.0] * 300)}
        table = pa.table({"lab_id": ids, **columns, "charttime": pa.array(["2150-01-01 07:00:00"] * 300)})
        pq.write_table(table, folder / "hosp" / "labs.parquet", row_group_size=7)
        plain.unlink()
    return folder


def whole(store: Path) -> dict[str, bytes]:
    return {path.relative_to(store).as_posix(): path.read_bytes() for path in store.rglob("*") if path.is_file()}


class Elsewhere:
    """An executor as of another machine, in this process: jobs are pickled, the last that was given ends first."""

    spans_machines = True
    jobs: list[bytes] = []

    def __init__(self, workers: int) -> None:
        self._held: list[bytes] = []

    def start(self, job: Job) -> None:
        self._held.append(pickle.dumps(job))
        self.jobs.append(self._held[-1])

    def wait(self, seconds: float) -> Sequence[JobResult]:
        job = pickle.loads(self._held.pop())
        result, error = perform(job, ())
        return [JobResult(job=job, result=result, error=error)]

    def stop(self) -> None:
        self._held.clear()


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Blocks of two or three records and parts of some blocks, so that every kind of row lies at a cut."""
    monkeypatch.setattr(csv_blocks, "_STEP", 61)
    monkeypatch.setattr(csv_blocks, "BLOCK_BYTES", 251)
    monkeypatch.setattr(csv_blocks, "WIDEST_RECORD", 2_000)
    return monkeypatch


def made(
    tiny: pytest.MonkeyPatch, tmp_path: Path, name: str, part_bytes: int, spec: str = SPEC, **settings: int
) -> Path:
    tiny.setattr(buckets, "PART_BYTES", part_bytes)
    one = IngestSettings(shards=3, **settings)  # type: ignore[arg-type]
    ingest(small_spec(tmp_path / "spec", spec), tmp_path / "raw", tmp_path / name, settings=one)
    return tmp_path / name


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    monkeypatch.setattr(EXECUTORS, "get", lambda name: Elsewhere)
    monkeypatch.setattr(Elsewhere, "jobs", [])
    return Elsewhere.jobs


@pytest.mark.parametrize("form", ["plain", "crlf", "bom", "gzip", "members", "parquet"])
def test_the_store_has_the_same_bytes_however_a_file_is_divided(
    tmp_path: Path, form: str, tiny: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    raw_folder(tmp_path / "raw", form)
    expected = whole(made(tiny, tmp_path, "whole", 1 << 30))
    assert expected["quarantine/labs.jsonl"].count(b"\n") >= 4
    assert expected["quarantine/triage.jsonl"].count(b"\n") >= 50
    for size in drawn((1, 700, 4_000), 1):
        assert whole(made(tiny, tmp_path, f"parts-{size}", size)) == expected
    jobs = request.getfixturevalue("elsewhere")
    for workers in drawn((1, 2, 4), 1):
        assert whole(made(tiny, tmp_path, f"workers-{workers}", 1_500, workers=workers)) == expected
    parts = [job for job in jobs if b"TablePart" in job]
    assert len(parts) > 12
    held = sum(b"then xxxx" in job for job in parts)
    assert held > 5 if form in ("gzip", "members") else not held, "bytes go along only where nobody else can read them"


def test_processes_read_one_file_together(tmp_path: Path, tiny: pytest.MonkeyPatch) -> None:
    raw_folder(tmp_path / "raw", "plain")
    spec = SPEC.replace('subject_id = "int"', 'subject_id = "text"')
    expected = whole(made(tiny, tmp_path, "whole", 1 << 30, spec))
    assert "subject_keys.arrow" in " ".join(expected)
    for workers in drawn((2, 3, 4), 1):
        assert whole(made(tiny, tmp_path, f"by-{workers}", 3_000, spec, workers=workers)) == expected


def test_lines_count_from_the_beginning_of_the_file(tmp_path: Path, tiny: pytest.MonkeyPatch) -> None:
    raw_folder(tmp_path / "raw", "plain")
    store = made(tiny, tmp_path, "store", 700)
    rows = [json.loads(line) for line in (store / "quarantine" / "labs.jsonl").read_text().splitlines()]
    before = [sum(row.count("\n") + 1 for row in labs()[:number]) for number in (50, 51, 120, 201)]
    assert [row["line"] for row in rows][:4] == [2 + lines for lines in before]
    assert [row["reason"] for row in rows][:4] == [
        "lab_id: 'x50' is no int",
        "expected 9 cells, found 3",
        "subject_id is missing",
        "a quote is not closed",
    ]


def test_a_small_file_an_empty_table_and_json_lines_are_one_part(tmp_path: Path, elsewhere: list[bytes]) -> None:
    rows = "".join(json.dumps({"itemid": 501, "label": "x" * 100}) + "\n" for _ in range(3))
    write_files(tmp_path / "raw", {**FILES, "hosp/labs.csv": HEADER + "\n", "hosp/d_labs.jsonl": rows})
    ingest(small_spec(tmp_path / "spec"), tmp_path / "raw", tmp_path / "store")
    assert sum(b"TablePart" in job for job in elsewhere) == 7  # a table each; triage is alone after its parent


@pytest.mark.parametrize(("name", "words"), [("labs.csv.gz", "truncated or damaged"), ("labs.csv", "wrong schema")])
def test_errors_are_those_of_one_process(
    tmp_path: Path, name: str, words: str, tiny: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    raw_folder(tmp_path / "raw", "gzip" if name.endswith("gz") else "plain")
    path = tmp_path / "raw" / "hosp" / name
    path.write_bytes(
        path.read_bytes()[:-200] if name.endswith("gz") else path.read_bytes().replace(b"lab_id", b"id", 1)
    )
    with pytest.raises((RecordError, UserError), match=words) as alone:
        made(tiny, tmp_path, "one", 1 << 30)
    request.getfixturevalue("elsewhere")
    with pytest.raises(type(alone.value), match=words) as several:
        made(tiny, tmp_path, "four", 700, workers=4)
    assert str(several.value).replace(str(tmp_path.resolve()), "") == str(alone.value).replace(str(tmp_path), "")


def test_parts_that_were_read_before_a_kill_are_not_read_again(tmp_path: Path, tiny: pytest.MonkeyPatch) -> None:
    raw_folder(tmp_path / "raw", "gzip")
    expected = whole(made(tiny, tmp_path, "whole", 1 << 30))
    seen, flush = list[str](), buckets.BucketWriter.flush

    def stopped(writer: buckets.BucketWriter) -> None:
        seen.append("flush")
        if len(seen) == 12:
            raise KeyboardInterrupt
        flush(writer)

    tiny.setattr(buckets.BucketWriter, "flush", stopped)
    with pytest.raises(KeyboardInterrupt):
        made(tiny, tmp_path, "store", 700)
    assert whole(made(tiny, tmp_path, "store", 700)) == expected
    read = len(seen)
    seen[:] = ["-"] * 100
    made(tiny, tmp_path, "again", 700)
    assert len(seen) - 100 == read - 1
