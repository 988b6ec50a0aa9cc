"""A database's tables become the same store as the same tables in files; a real server where it is installed."""

from __future__ import annotations

import csv
import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

pytest.importorskip("adbc_driver_postgresql", reason="needs the extra [postgres]")

from adbc_driver_postgresql import dbapi

from records.omop_tables import PERSON, VISIT, write_omop
from wardround.cli import main
from wardround.core import UserError
from wardround.records import Store, load_source_spec
from wardround.records.reading.postgres import Database, copy_tables

_INTEGERS = ("year_of_birth", "month_of_birth", "day_of_birth")
TYPES = {"value_as_number": "numeric(8,2)", **dict.fromkeys(_INTEGERS, "integer")}
MEASURED = {
    "measurement_id": 1,
    "measurement_concept_id": 3023103,
    "measurement_date": "2150-01-03",
    "measurement_datetime": "2150-01-03 06:00:00",
    "value_as_number": "7.40",
    "unit_concept_id": 8753,
    "visit_occurrence_id": 10,
}
TABLES = {
    "person": [PERSON],
    "visit_occurrence": [VISIT],
    "measurement": [MEASURED, {**MEASURED, "measurement_id": 2, "value_as_number": ""}],
    'odd "name"': [],
}


def kind_of(column: str) -> str:
    if column.endswith("_datetime"):
        return "timestamp"
    if column.endswith("_date"):
        return "date"
    if column in ("domain_id", "vocabulary_id", "concept_class_id"):
        return "varchar"
    return TYPES.get(column, "bigint" if column.endswith("_id") else "varchar")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a PostgreSQL server of our own, in /tmp: it will not run as root, nor in root's own folders."""
    for needed in ("initdb", "postgres"):
        if shutil.which(needed) is None:
            pytest.skip(f"needs {needed} of PostgreSQL (Debian: postgresql)")
    data = Path(
        subprocess.run(["mktemp", "-d", "-p", "/tmp"], capture_output=True, check=True, text=True).stdout.strip()
    )
    who = "postgres" if os.geteuid() == 0 else None
    if who is not None:
        shutil.chown(data, who)
    subprocess.run(
        ["initdb", "-D", data / "data", "-U", "owner", "--auth=trust", "--no-sync"],
        check=True,
        stdout=subprocess.DEVNULL,
        user=who,
    )
    words = ["postgres", "-D", data / "data", "-k", data, "-c", "listen_addresses=", "-c", "fsync=off"]
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, user=who) as process:
        assert process.stderr is not None
        any("ready to accept connections" in line for line in process.stderr)
        yield f"postgresql:///postgres?host={data}&user=owner"
        process.terminate()
        process.stderr.read()
    shutil.rmtree(data)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tables = {name: rows for name, rows in TABLES.items() if rows}
    return write_omop(tmp_path_factory.mktemp("omop"), tables)


@pytest.fixture(scope="module")
def database(server: str, exported: Path) -> Database:
    """The exported tables in a schema of their own, and one that no source knows."""
    with dbapi.connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA cdm")
        for file in exported.glob("*.csv"):
            with file.open(newline="") as lines:
                header, *rows = csv.reader(lines)
            fill(cursor, file.stem, header, rows)
        cursor.execute('CREATE TABLE cdm."odd ""name""" (a int)')
        connection.commit()
    return Database(url=server, schema="cdm")


def fill(cursor: dbapi.Cursor, name: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    cursor.execute(f"CREATE TABLE cdm.{name} ({', '.join(f'{column} {kind_of(column)}' for column in header)})")
    for row in rows:
        cells = ", ".join("NULL" if not cell else "'" + cell.replace("'", "''") + "'" for cell in row)
        cursor.execute(f"INSERT INTO cdm.{name} VALUES ({cells})")


def test_the_store_is_that_of_the_same_tables_in_files(exported: Path, database: Database, tmp_path: Path) -> None:
    asked = ["--database", database.url, "--schema", "cdm", "--store", str(tmp_path / "database")]
    main(["ingest", "omop", *asked])
    main(["ingest", "omop", str(exported), "--store", str(tmp_path / "files")])
    ours, others = Store.open(tmp_path / "database"), Store.open(tmp_path / "files")
    assert ours.subjects.tolist() == others.subjects.tolist() == [1]
    assert ours.table_names == others.table_names
    for table in ours.table_names:
        assert ours.rows(1, table).to_pylist() == others.rows(1, table).to_pylist(), table
    assert set(ours.rows(1, "measurement").column("value_as_number").to_pylist()) == {7.4, None}
    assert not (tmp_path / "database.tables").exists(), "what was copied is not left behind"


def test_a_row_that_was_filled_in_later_stands_where_it_did(database: Database, tmp_path: Path) -> None:
    """PostgreSQL moves a row to the end when it is updated, as when a stay's end becomes known: nothing may show it."""
    seen = []
    for name in ("before", "after"):
        main(["ingest", "omop", "--database", database.url, "--schema", "cdm", "--store", str(tmp_path / name)])
        store = Store.open(tmp_path / name)
        seen.append({table: store.rows(1, table).to_pylist() for table in store.table_names})
        with dbapi.connect(database.url) as connection, connection.cursor() as cursor:
            cursor.execute("UPDATE cdm.measurement SET unit_concept_id = unit_concept_id WHERE measurement_id = 1")
            cursor.execute("SELECT measurement_id FROM cdm.measurement")
            moved = [row[0] for row in cursor.fetchall()]
            connection.commit()
    assert moved == [2, 1], "the database tells it in another order now"
    assert seen[0] == seen[1]


def test_identifiers_of_19_digits_are_what_they_are(server: str, tmp_path: Path) -> None:
    """Declared as whole numerics they were doubles on the way, and two people one."""
    with dbapi.connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA wide")
        cursor.execute("CREATE TABLE wide.person (person_id numeric(20), year_of_birth int, gender_concept_id int)")
        for number in (2601314283911413076, 2601314283911413077):
            cursor.execute(f"INSERT INTO wide.person VALUES ({number}, 1950, 8507)")
        connection.commit()
    main(["ingest", "omop", "--database", server, "--schema", "wide", "--store", str(tmp_path / "store")])
    assert Store.open(tmp_path / "store").subjects.tolist() == [2601314283911413076, 2601314283911413077]


def test_a_zoned_column_is_read_on_the_hospitals_clock_whatever_the_session_is_in(
    server: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``timestamptz`` beside ``timestamp``: without a zone refused; the session's own zone decides nothing."""
    with dbapi.connect(server) as connection, connection.cursor() as cursor:
        cursor.execute("CREATE SCHEMA zoned")
        cursor.execute("CREATE TABLE zoned.person (person_id bigint, year_of_birth int, gender_concept_id int)")
        cursor.execute("INSERT INTO zoned.person VALUES (1, 1950, 8507)")
        cursor.execute(
            "CREATE TABLE zoned.visit_occurrence (person_id bigint, visit_occurrence_id bigint, "
            "visit_start_datetime timestamp, visit_end_datetime timestamptz, "
            "visit_concept_id int, visit_start_date date, visit_end_date date)"
        )
        cursor.execute(
            "INSERT INTO zoned.visit_occurrence VALUES (1, 10, '2150-06-01 08:00', '2150-06-03 12:00+00'), "
            "(1, 11, '2150-10-25 00:10', '2150-10-25 01:30+00'), (1, 12, '2150-11-01 00:10', 'infinity')"
        )
        cursor.execute("ALTER ROLE owner SET timezone TO 'Asia/Tokyo'")
        connection.commit()
    asked = ["ingest", "omop", "--database", server, "--schema", "zoned", "--store"]
    assert main([*asked, str(tmp_path / "unsaid")]) == 2
    assert "visit_end_datetime: times of the type timestamp[us, tz=UTC]; say the hospital's" in capsys.readouterr().err
    main([*asked, str(tmp_path / "store"), "--time-zone", "Europe/Berlin"])
    visits = Store.open(tmp_path / "store").rows(1, "visit_occurrence").to_pylist()
    assert {row["visit_occurrence_id"]: str(row["visit_end_datetime"]) for row in visits} == {
        10: "2150-06-03 14:00:00",
        11: "2150-10-25 03:00:00",
        12: "None",
    }


def test_all_tables_are_seen_as_of_one_moment(database: Database, tmp_path: Path) -> None:
    seen = []

    def write_meanwhile(progress: object) -> None:
        if not seen:
            seen.append(progress)
            with dbapi.connect(database.url) as connection, connection.cursor() as cursor:
                cursor.execute("INSERT INTO cdm.visit_occurrence (person_id, visit_occurrence_id) VALUES (2, 20)")
                cursor.execute("INSERT INTO cdm.measurement (person_id, measurement_id) VALUES (2, 3)")
                connection.commit()

    try:
        rows = copy_tables(load_source_spec("omop"), database, tmp_path / "tables", report=write_meanwhile)
    finally:
        with dbapi.connect(database.url) as connection, connection.cursor() as cursor:
            cursor.execute("DELETE FROM cdm.visit_occurrence WHERE person_id = 2")
            cursor.execute("DELETE FROM cdm.measurement WHERE person_id = 2")
            connection.commit()
    assert seen
    assert (rows["visit_occurrence"], rows["measurement"]) == (1, 2), "as of the moment it began"
    assert copy_tables(load_source_spec("omop"), database, tmp_path / "tables") == rows, "a finished copy is kept"


def test_a_copy_that_was_interrupted_is_begun_anew(database: Database, tmp_path: Path) -> None:
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "death.parquet").write_bytes(b"half")
    copy_tables(load_source_spec("omop"), database, tmp_path / "tables")
    assert not (tmp_path / "tables" / "death.parquet").exists()


@pytest.mark.parametrize("url", ["postgresql://a:secret@host/cdm", "postgresql://host/cdm?user=a&password=secret"])
def test_a_password_is_not_taken_from_the_command_line(url: str) -> None:
    with pytest.raises(UserError, match="PGPASSWORD") as refused:
        Database(url=url)
    assert "secret" not in str(refused.value)


def test_mistakes_are_one_line(database: Database, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ["--store", str(tmp_path / "store")]
    assert main(["ingest", "omop", "--database", "postgresql:///cdm?host=/nowhere", *store]) == 2
    assert main(["ingest", "omop", "--database", database.url, *store]) == 2
    assert main(["ingest", "omop", str(tmp_path), "--database", database.url, *store]) == 2
    said = capsys.readouterr().err
    assert "could not be read" in said
    assert "holds no table of 'omop'" in said
    assert "or folders, not both" in said
    assert "Traceback" not in said
