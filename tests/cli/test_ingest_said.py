"""What ``wardround ingest`` says of files that have everything wrong with them that it goes on with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wardround.cli import main

TABLE = """
[tables.{name}]
path = "{name}"
key = ["id"]
subject = "person"
event_time = "at"
available_at = "at"
columns = {{ id = "int", person = "int", at = "time", value = "float", words = "text", stay = "int" }}
"""
SPEC = '[source]\nname = "ward"\ntitle = "A ward"\nsensitivity = "synthetic"\n' + "".join(
    TABLE.format(name=name) for name in ("labs", "visits", "notes", "orders")
)
LABS = """id,person,at,value,colour,stay
1,1,2150-01-01 08:00,5.5,red,
2,1,2150-01-01 09:00,many,red,
3,1,yesterday,1,red,
4,,2150-01-01 09:00,1,red,
5,2,2150-01-01 10:00,2,red,
5,2,2150-01-01 10:00,2,red,
6,2,,3,red,
"""


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    (tmp_path / "raw").mkdir()
    (tmp_path / "ward.toml").write_text(SPEC)
    for name, text in {
        "labs": LABS,
        "notes": "",
        "orders": "id,person,at,value,words,stay\n",
        "else": "a\n1\n",
    }.items():
        (tmp_path / "raw" / f"{name}.csv").write_text(text)
    return ["ingest", str(tmp_path / "ward.toml"), str(tmp_path / "raw"), "--store", str(tmp_path / "store")]


def test_all_that_was_not_taken_is_said(words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 1, "rows were set aside"
    first, took, *said = capsys.readouterr().out.splitlines()
    assert first == f"2 subjects, 3 rows in 2 tables: {tmp_path / 'store'}"
    assert took.startswith("took ")
    assert said == [
        f"WARNING: set aside 3 broken rows (labs 3); see {tmp_path / 'store' / 'quarantine'}",
        "  labs: 3 of 6 rows: value is no float 1; at is no time 1; person is missing 1",
        "WARNING: empty files, treated as missing: notes.csv",
        "tables with a header and no row: orders",
        "duplicate rows, kept once: labs 1",
        "empty columns of labs: stay",
        "no availability time, so no chart shows these rows: labs 1",
        "missing tables: notes, visits",
        "missing columns of labs: words",
        "unused columns of labs: colour",
        "unused files: else.csv",
    ]


def test_the_same_as_json_and_how_far_columns_are_filled(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--fill"]) == 1
    (filled,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("filled in labs"))
    assert filled == "filled in labs: id 100%, person 100%, at 75%, value 100%, stay 0%"
    assert main([*words[:-1], f"{words[-1]}-2", "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert (found["subjects"], found["rows"], found["quarantined"]) == (2, {"labs": 3, "orders": 0}, {"labs": 3})
    assert found["missing_tables"] == ["notes", "visits"]
