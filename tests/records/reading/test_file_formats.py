"""Files as the world writes them: delimiters, encodings, signs, times, text ids, parts, Parquet of other types."""

from __future__ import annotations

import contextlib
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from wardround.core import RecordError, UserError
from wardround.records import IngestReport, Store, ingest, load_source_spec
from wardround.records.reading import csv_cells
from wardround.records.reading.csv_blocks import CsvFile
from wardround.records.reading.source_files import subject_number
from wardround.records.specs.file_format import FileFormat

SPEC = """
[source]
name = "haus"
[source.files]
delimiter = ";"
encoding = "cp1252"
decimal = ","
times = ["%d.%m.%Y %H:%M", "%d.%m.%Y"]
empty = ["k.A."]
[tables.faelle]
path = "Faelle"
key = ["fall"]
subject = "patient"
event_time = "aufnahme"
available_at = "aufnahme"
[tables.faelle.columns]
fall = "text"
patient = "text"
aufnahme = "time"
geboren = "date"
gewicht = "float"
zimmer = "int"
ort = "text"
[tables.faelle.files]
headers = { "geb. am" = "geboren" }
[tables.werte]
path = "Werte"
subject = "patient"
event_time = "am"
available_at = "am"
[tables.werte.columns]
patient = "text"
fall = "text"
am = "time"
wert = "float"
[tables.werte.late]
fall = "known(fall, faelle)"
"""
STAYS = """Fall;Patient;Aufnahme;Geb. am;Gewicht;Zimmer;Ort
F1;P-1/a;03.02.2150 07:05;31.01.2080;71,5;12;München
F2;P-2;28.02.2150 23:59;01.12.2090;k.A.;k.A.;"Köln; Süd"
"""
VALUES = """Patient;Fall;Am;Wert
P-1/a;F1;04.02.2150 08:00;1,25
P-1/a;F9;05.02.2150 08:00;2
P-2;;06.02.2150 08:00;3,5
"""


def made(folder: Path, files: dict[str, str], spec: str = SPEC) -> tuple[Store, IngestReport]:
    raw = folder / "raw"
    for name, text in files.items():
        (raw / name).parent.mkdir(parents=True, exist_ok=True)
        (raw / name).write_bytes(text.encode("cp1252"))
    return ingested(folder, raw, spec)


def ingested(folder: Path, raw: Path, spec: str = SPEC) -> tuple[Store, IngestReport]:
    (folder / "haus.toml").write_text(spec, encoding="utf-8")
    report = ingest(load_source_spec(folder / "haus.toml"), raw, folder / "store")
    return Store.open(folder / "store"), report


def rows(store: Store, table: str) -> list[dict[str, Any]]:
    return [row for _, batch in store.scan(table) for row in batch.to_pylist()]


def test_semicolons_decimal_commas_one_byte_letters_and_german_days(tmp_path: Path) -> None:
    store, report = made(tmp_path, {"faelle.csv": STAYS, "WERTE.CSV": VALUES})
    assert not report.quarantined
    first, second = sorted(rows(store, "faelle"), key=lambda row: str(row["fall"]))
    assert first["ort"] == "München"
    assert second["ort"] == "Köln; Süd"
    assert (first["gewicht"], second["gewicht"], first["zimmer"], second["zimmer"]) == (71.5, None, 12, None)
    assert first["geboren"] == date(2080, 1, 31)
    assert first["aufnahme"] == datetime(2150, 2, 3, 7, 5)
    assert sorted(row["wert"] for row in rows(store, "werte")) == [1.25, 2.0, 3.5]


def test_subjects_named_by_text_have_numbers_that_stay_and_are_shown_as_given(tmp_path: Path) -> None:
    store, _ = made(tmp_path, {"Faelle.csv": STAYS, "Werte.csv": VALUES})
    number = store.subject_of("P-1/a")
    assert store.subjects.tolist() == sorted([number, subject_number("P-2")])
    assert store.subject_key(number) == "P-1/a"
    assert [row["patient"] for row in store.rows(number, "werte").to_pylist()] == ["P-1/a", "P-1/a"]
    assert store.subject_of(str(number)) == number
    with pytest.raises(UserError, match="no subject 'P-3'"):
        store.subject_of("P-3")


def test_a_row_of_nobody_is_set_aside(tmp_path: Path) -> None:
    _, report = made(tmp_path, {"Faelle.csv": STAYS, "Werte.csv": VALUES + " ;;06.02.2150 08:00;3\n"})
    assert report.quarantine_reasons == {"werte": {"patient is missing": 1}}


@pytest.mark.parametrize("cell", ["31.02.2150 08:00", "2150-02-03 08:00", "02/13/2150 08:00"])
def test_a_day_that_does_not_exist_or_is_written_otherwise_is_set_aside(tmp_path: Path, cell: str) -> None:
    text = VALUES + f"P-2;;{cell};9\n"
    store, report = made(tmp_path, {"Faelle.csv": STAYS, "Werte.csv": text})
    assert report.quarantined == {"werte": 1}
    assert len(rows(store, "werte")) == 3


def test_every_day_and_what_is_none_is_read_as_python_reads_it(tmp_path: Path) -> None:
    days = [
        f"{day:02}.{month:02}.{year} 23:59" for year in (2099, 2100, 2096) for month in range(14) for day in range(33)
    ]
    odd = ["1.2.2100 7:05", "01.02.2100 24:00", "01.02.2100 10:60", "04.02.2100 10:00x", "04.02.0100 10:00"]
    text = VALUES + "".join(f"P-2;;{cell};1\n" for cell in (*days, *odd))
    store, _ = made(tmp_path, {"Faelle.csv": STAYS, "Werte.csv": text})
    expected = []
    for cell in (*days, *odd):
        with contextlib.suppress(ValueError):
            expected.append(datetime.strptime(cell, "%d.%m.%Y %H:%M"))
    assert len(expected) == 365 * 2 + 366 + 2
    assert sorted(row["am"] for row in rows(store, "werte") if row["wert"] == 1) == sorted(expected)
    good = [cell for cell in days if _is_time(cell)]
    block = "Patient;Fall;Am;Wert\n" + "".join(f"P-2;;{cell};1\n" for cell in good)
    quick, report = made(tmp_path / "quick", {"Faelle.csv": STAYS, "Werte.csv": block})
    assert not report.quarantined
    assert sorted(row["am"] for row in rows(quick, "werte")) == [
        datetime.strptime(cell, "%d.%m.%Y %H:%M") for cell in sorted(good, key=lambda c: (c[6:10], c[3:5], c[:2]))
    ]


def _is_time(cell: str) -> bool:
    try:
        datetime.strptime(cell, "%d.%m.%Y %H:%M")
    except ValueError:
        return False
    return True


def test_a_number_of_another_notation_is_set_aside_and_not_a_thousand_times_as_large(tmp_path: Path) -> None:
    _, report = made(tmp_path, {"Faelle.csv": STAYS, "Werte.csv": VALUES + "P-2;;06.02.2150 08:00;1.250\n"})
    assert report.quarantine_reasons == {"werte": {"wert is no float": 1}}


def test_bytes_that_are_no_text_of_the_encoding_cost_their_row(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "Faelle.csv").write_bytes(STAYS.encode("cp1252") + b"F3;P-3;03.02.2150 07:05;31.01.2080;1;1;\x81\n")
    (raw / "Werte.csv").write_bytes(VALUES.encode())
    store, report = ingested(tmp_path, raw)
    assert report.quarantined == {"faelle": 1}
    assert len(rows(store, "faelle")) == 2


def test_utf_16_is_read_across_blocks(tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.mkdir()
    (raw / "Faelle.csv").write_bytes(STAYS.encode("utf-16"))
    (raw / "Werte.csv").write_bytes((VALUES + "P-2;;06.02.2150 08:00;1\n" * 40_000).encode("utf-16"))
    store, report = ingested(tmp_path, raw, SPEC.replace("cp1252", "utf-16"))
    assert not report.quarantined
    assert report.rows["werte"] == 40_003
    assert {row["ort"] for row in rows(store, "faelle")} == {"München", "Köln; Süd"}


def test_what_names_no_row_and_what_is_filled_is_counted(tmp_path: Path) -> None:
    _, report = made(tmp_path, {"Faelle.csv": STAYS, "Werte.csv": VALUES})
    assert report.orphans == {"werte": {"fall in faelle": 1}}
    assert report.filled["faelle"] == {
        **dict.fromkeys(("fall", "patient", "aufnahme", "geboren", "ort"), 2),
        "gewicht": 1,
        "zimmer": 1,
    }


def test_a_folder_of_parts_is_a_table(tmp_path: Path) -> None:
    head, *lines = VALUES.splitlines()
    parts = {f"werte/jahr={n}/teil-{n}.csv": f"{head}\n{line}\n" for n, line in enumerate(lines)}
    store, report = made(tmp_path, {"Faelle.csv": STAYS, **parts, "werte/_SUCCESS": "", "werte/_note.csv": "x\n1\n"})
    whole, _ = made(tmp_path / "whole", {"Faelle.csv": STAYS, "Werte.csv": VALUES})
    assert report.rows["werte"] == 3
    assert rows(store, "werte") == rows(whole, "werte")


def test_two_releases_under_one_folder_are_not_mixed(tmp_path: Path) -> None:
    files = {f"{release}/Werte.csv": VALUES for release in ("1.0", "2.0")}
    with pytest.raises(UserError, match=r"both hold 'werte'; give the folder that is meant"):
        made(tmp_path, files)


PARQUET = """
[source]
name = "haus"
[tables.gaben]
path = "gaben"
event_time = "am"
available_at = "am"
[tables.gaben.columns]
subject_id = "int"
am = "time"
ndc = "text"
menge = "float"
"""
GIVEN: dict[str, Any] = {
    "subject_id": pa.array([1, 2]),
    "am": pa.array([datetime(2150, 1, 1), datetime(2150, 1, 2)], pa.timestamp("us")),
    "ndc": pa.array(["051079007820", "058"]),
    "menge": pa.array([1.5, None]),
}


def given(folder: Path, **columns: Any) -> tuple[Store, IngestReport]:
    (folder / "raw").mkdir(parents=True)
    pq.write_table(pa.table({**GIVEN, **columns}), folder / "raw" / "gaben.parquet")
    return ingested(folder, folder / "raw", PARQUET)


@pytest.mark.parametrize(
    ("column", "cells", "read", "cast"),
    [
        ("ndc", pa.array(["058", None]), ["058", None], None),
        ("ndc", pa.array([51079007820.0, None]), ["51079007820", None], "ndc: double as text"),
        ("ndc", pa.array([58, 59]), ["58", "59"], "ndc: int64 as text"),
        ("menge", pa.array(["1.5", "2"]), [1.5, 2.0], "menge: string as float"),
        ("menge", pa.array([1, 2]), [1.0, 2.0], None),
        ("subject_id", pa.array([1.0, 2.0]), [1, 2], "subject_id: double as int"),
        (
            "am",
            pa.array(["2150-01-01 10:00:00", "2150-01-02 00:00:00"]),
            [datetime(2150, 1, 1, 10), datetime(2150, 1, 2)],
            "am: string as time",
        ),
    ],
)
def test_a_parquet_column_of_another_type_is_cast_and_counted(
    tmp_path: Path, column: str, cells: Any, read: list[object], cast: str | None
) -> None:
    store, report = given(tmp_path, **{column: cells})
    found = sorted(rows(store, "gaben"), key=lambda row: int(row["subject_id"]))
    assert [row[column] for row in found] == read
    assert report.casts == ({"gaben": {cast: 2 - cells.null_count}} if cast else {})


@pytest.mark.parametrize(
    ("column", "cells", "why"),
    [
        ("ndc", pa.array([0.5, 1.0]), "double cannot be read as text"),
        ("subject_id", pa.array([1.5, 2.0]), "double cannot be read as int"),
        ("subject_id", pa.array([2601314283911413076.0, 2.0]), "two whole numbers are one float"),
        ("menge", pa.array(["viel", "1"]), "string cannot be read as float"),
        ("am", pa.array([date(2150, 1, 1), date(2150, 1, 2)]), "holds dates without a time"),
    ],
)
def test_a_parquet_column_that_would_lose_something_is_an_error(
    tmp_path: Path, column: str, cells: Any, why: str
) -> None:
    with pytest.raises(RecordError, match=why):
        given(tmp_path, **{column: cells})


def test_dates_of_parquet_are_the_end_of_their_day_where_the_spec_says_so(tmp_path: Path) -> None:
    (tmp_path / "raw").mkdir()
    days = pa.array([date(2150, 1, 1), date(2150, 1, 2)])
    pq.write_table(pa.table({**GIVEN, "am": days}), tmp_path / "raw" / "gaben.parquet")
    said = PARQUET.replace('name = "haus"', 'name = "haus"\nfiles = { bare_dates = "end_of_day" }')
    store, _ = ingested(tmp_path, tmp_path / "raw", said)
    assert {row["am"] for row in rows(store, "gaben")} == {
        datetime(2150, 1, 1, 23, 59, 59),
        datetime(2150, 1, 2, 23, 59, 59),
    }


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('decimal = "!"', "decimal"),
        ('encoding = "latin-99"', "unknown encoding 'latin-99'"),
        ('times = ["%H:%M"]', "must say year, month and day"),
        ('times = ["%d.%m.%Y %H:%M %Z"]', "the letters of a zone"),
        ('time_zone = "Berlin"', "no time zone 'Berlin'"),
        ('delimeter = ";"', "Did you mean delimiter"),
    ],
)
def test_a_format_that_is_none_is_an_error_of_its_place(tmp_path: Path, line: str, why: str) -> None:
    text = PARQUET.replace("[tables.gaben]", f"[source.files]\n{line}\n[tables.gaben]")
    (tmp_path / "haus.toml").write_text(text, encoding="utf-8")
    with pytest.raises(UserError, match=f"source.files.*{why}"):
        load_source_spec(tmp_path / "haus.toml")


def test_days_that_exist_are_not_read_row_by_row(tmp_path: Path) -> None:
    lines = "".join(f"P-2;;{day:02}.01.2100 10:00;1\n" for day in range(1, 32))
    (tmp_path / "werte.csv").write_text(f"Patient;Fall;Am;Wert\n{lines}", encoding="utf-8")
    files = FileFormat(delimiter=";", decimal=",", times=("%d.%m.%Y %H:%M",))
    file = CsvFile(tmp_path / "werte.csv", files)
    block = next(file.blocks())
    table = csv_cells._read_quickly(block, file.columns, {"patient": "text", "am": "time", "wert": "float"}, files)
    assert table is not None
    assert table.column("am").to_pylist() == [datetime(2100, 1, day, 10) for day in range(1, 32)]
