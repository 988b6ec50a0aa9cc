"""``wardround corpus``: add, look up, list and remove, through the real command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from wardround.cli import main

pytest.importorskip("tantivy", reason="needs the extra [knowledge]")

LONG = "Magnesium " + "is given slowly " * 40
DOCUMENTS = (
    {"id": "a", "title": "Sodium", "content": "Low sodium\n  is corrected slowly.", "date": "2020-05-01"},
    {"id": "b", "title": "Low sodium again", "content": "Sodium, low sodium.", "date": "2025-02-03"},
    {"id": "c", "title": "Magnesium", "content": LONG, "date": "2021-01-01"},
)


@pytest.fixture
def library(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What every command is told of a library with one corpus of three documents."""
    file = tmp_path / "notes.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in DOCUMENTS))
    told = ["--library", str(tmp_path / "library")]
    words = ["--licence", "invented", "--date", "2026-06-30", "--title", "Ward notes"]
    for _ in range(2):
        assert main(["corpus", "add", "notes", str(file), *words, *told]) == 0
    first, held, again, still = capsys.readouterr().out.splitlines()
    assert first == "notes: 3 documents of 1 files"
    assert again == "notes: 0 documents of 0 files, 1 files were there already"
    assert held == still == "it holds 3 documents; look into it: wardround corpus search notes WORDS"
    return told


def test_a_search_prints_title_day_address_and_the_beginning(
    library: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["corpus", "search", "notes", "magnesium", *library]) == 0
    head, text = capsys.readouterr().out.splitlines()
    assert head.endswith("  Magnesium  (2021-01-01, corpus://notes/c)")
    assert text.strip() == " ".join(LONG.split())[:240] + "..."
    assert main(["corpus", "search", "notes", "corrected", *library]) == 0
    assert capsys.readouterr().out.splitlines()[1].strip() == "Low sodium is corrected slowly."
    assert main(["corpus", "search", "notes", "zebra", *library]) == 0
    assert capsys.readouterr().out == "no document holds one of these words\n"


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ([], {"a", "b"}),
        (["--limit", "1"], {"b"}),
        (["--published-until", "2025-02-03"], {"a", "b"}),
        (["--published-until", "2025-02-02"], {"a"}),
        (["--published-until", "2019-12-31"], set()),
    ],
)
def test_what_is_found_is_as_many_as_asked_and_no_later(
    library: list[str], capsys: pytest.CaptureFixture[str], options: list[str], found: set[str]
) -> None:
    assert main(["corpus", "search", "notes", "low sodium", "--json", *options, *library]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["address"].rpartition("/")[2] for row in rows} == found
    told = {one["id"]: (one["title"], one["date"]) for one in DOCUMENTS}
    for row in rows:
        assert (row["title"], row["published"]) == told[row["address"].rpartition("/")[2]]
    assert [row["score"] for row in rows] == sorted((row["score"] for row in rows), reverse=True)


def test_corpora_are_listed_until_they_are_removed(library: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["corpus", "list", *library]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("notes"))
    assert all(word in line for word in ("3", "2026-06-30", "invented", "Ward notes"))
    assert main(["corpus", "list", "--json", *library]) == 0
    rows = {row["corpus"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == {"handbook", "notes"}
    assert (rows["notes"]["documents"], rows["notes"]["note"]) == (3, "")
    assert rows["handbook"]["note"] == "ships with wardround"
    assert main(["corpus", "remove", "notes", *library]) == 0
    assert capsys.readouterr().out == "removed notes\n"
    assert main(["corpus", "search", "notes", "sodium", *library]) == 2
    assert "'notes'" in capsys.readouterr().err
