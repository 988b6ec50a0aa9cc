"""The parts the outcome swap is made of: which rules are a row's, minutes as times, files with tabs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from wardround.audits.outcome_swap import untested_columns
from wardround.audits.swap import load_swap_table, swap_sources
from wardround.audits.swap.files import files_below, read_records, write_records
from wardround.audits.swap.knowledge import Clockwork, KnowledgeRule, SwapTable, fits
from wardround.audits.swap.raw_records import TableRow
from wardround.records import load_source_spec
from wardround.records.rules import Column

LABS, NOTES = (KnowledgeRule(where={}, row=()),), (KnowledgeRule(where={}, row=(), outcome=True),)
TABLE = SwapTable(
    name="invented",
    form="tables",
    subject="person",
    subject_by=None,
    minutes_of=None,
    fixed=("d_*", "staff"),
    anchors=(),
    rules={"lab*": LABS, "notes": NOTES},
)


def test_a_rule_is_for_a_row_in_which_every_column_matches_one_of_its_words() -> None:
    where = {"kind": ("death*", "hospice"), "place": ("ward", "")}
    assert fits(where, TableRow({"kind": "Hospice", "place": "ward"}))
    assert fits(where, TableRow({"kind": "Death at home", "place": ""}))
    assert not fits(where, TableRow({"kind": "home", "place": "ward"}))
    assert not fits(where, TableRow({"kind": "hospice", "place": "theatre"}))


@pytest.mark.parametrize(("name", "rules"), [("Labs_2", LABS), ("notes", NOTES), ("NOTES", NOTES), ("drugs", None)])
def test_a_file_has_the_rules_of_the_pattern_that_its_name_fits(
    name: str, rules: tuple[KnowledgeRule, ...] | None
) -> None:
    assert TABLE.of(name) is rules


def test_a_file_is_fixed_if_one_of_the_patterns_fits() -> None:
    assert [TABLE.is_fixed(name) for name in ("D_items", "staff", "labs")] == [True, True, False]


def test_only_offsets_are_minutes_since_the_rows_zero() -> None:
    work = Clockwork(minutes_of="stay", zeros={"7": datetime(2150, 1, 1, 8)})
    row = TableRow({"stay": "7", "laboffset": "90", "charttime": "2150-01-02 03:04:05"})
    assert work.moment(row, "laboffset") == datetime(2150, 1, 1, 9, 30)
    assert work.moment(row, "charttime") == datetime(2150, 1, 2, 3, 4, 5)


@pytest.mark.parametrize("separator", [",", "\t"])
def test_a_file_is_read_and_written_with_its_own_separator(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "labs.csv"
    path.write_text("Person\tValue\n1\ta b\n".replace("\t", separator))
    rows = list(read_records(path))
    assert [row.texts("person") + row.texts("value") for row in rows] == [("1", "a b")]
    write_records(path, tmp_path / "out" / "labs.csv", rows)
    assert (tmp_path / "out" / "labs.csv").read_text() == path.read_text()


def test_folders_that_are_links_are_entered_once(tmp_path: Path) -> None:
    """As ingest does: a release whose modules lie elsewhere. A link back up is no way round for ever."""
    (tmp_path / "elsewhere" / "deep").mkdir(parents=True)
    (tmp_path / "elsewhere" / "deep" / "labs.csv").write_text("person\n1\n")
    (tmp_path / "release").mkdir()
    (tmp_path / "release" / "notes.csv").write_text("person\n1\n")
    (tmp_path / "release" / "hosp").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "up").symlink_to(tmp_path / "elsewhere")
    found = [path.relative_to(tmp_path / "release").as_posix() for path in files_below(tmp_path / "release")]
    assert found == ["notes.csv", "hosp/deep/labs.csv"]
    (tmp_path / "link").symlink_to(tmp_path / "release")
    assert [path.name for path in files_below(tmp_path / "link")] == ["notes.csv", "labs.csv"]


@pytest.mark.parametrize("source", swap_sources())
def test_a_table_names_every_late_column_of_its_source(source: str) -> None:
    unnamed = list(untested_columns(load_source_spec(source), load_swap_table(source)))
    page = "docs/extend/source-spec.md (the knowledge table)"
    assert not unnamed, (
        f"say under `cells` in audits/swap/tables/{source}.toml, from clinical sense, by {page}: {unnamed}"
    )


def test_a_late_column_that_no_table_names_is_listed() -> None:
    """With an invented late cell and nothing said of it in the table, the audit cannot see its clock."""
    spec, table = load_source_spec("mimiciv"), load_swap_table("mimiciv")
    labs = spec.tables["labevents"]
    verified = replace(
        labs,
        columns={**labs.columns, "an_invented_cell": "text"},
        late={**labs.late, "an_invented_cell": Column(name="storetime")},
    )
    changed = replace(spec, tables={**spec.tables, "labevents": verified})
    assert list(untested_columns(changed, table)) == ["labevents.an_invented_cell"]
