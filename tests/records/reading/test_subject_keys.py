"""Subjects named by text: one number for one text, everywhere."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from wardround.core import RecordError
from wardround.records.reading import source_files
from wardround.records.reading.source_files import (
    BrokenRow,
    SubjectKeys,
    joined_keys,
    read_keys,
    reason_kinds,
    subject_number,
    write_keys,
    write_quarantine,
)


@pytest.mark.parametrize(("key", "number"), [("1", 1), ("10018078", 10018078), (f"{2**53 - 1}", 2**53 - 1)])
def test_a_whole_number_written_out_stays_itself(key: str, number: int) -> None:
    assert subject_number(key) == number


@pytest.mark.parametrize("key", ["0", "007", f"{2**53}", "12a", "", "٣", "-4", "1.0", "9" * 17])
def test_any_other_key_has_a_number_that_json_keeps(key: str) -> None:
    number = subject_number(key)
    assert 0 < number < 2**53
    assert number == subject_number(key)
    assert str(number) != key


def test_numbers_fill_all_53_bits() -> None:
    numbers = [subject_number(f"patient-{one}") for one in range(200)]
    assert len(set(numbers)) == 200
    assert max(numbers).bit_length() == 53


def test_outer_spaces_do_not_count_and_every_number_keeps_its_key() -> None:
    subjects = SubjectKeys()
    assert subjects.number(" 12 ") == subjects.number("12") == 12
    other = subjects.number("a b")
    assert subjects.keys == {12: "12", other: "a b"}
    assert len(subjects) == 2


def test_two_keys_of_one_number_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source_files, "subject_number", len)
    subjects = SubjectKeys()
    assert subjects.number("ab") == 2
    with pytest.raises(RecordError, match="subjects 'ab' and 'cd' would have one number, 2"):
        subjects.number("cd")


def test_keys_survive_the_disk_in_order_of_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "made" / "keys.arrow"
    write_keys(path, {9: "z", 3: "y"})
    assert list(read_keys(BytesIO(path.read_bytes())).items()) == [(3, "y"), (9, "z")]


def test_the_keys_of_tables_are_joined() -> None:
    assert joined_keys([{5: "5"}, {7: "7", 5: "5"}]) == {5: "5", 7: "7"}


def test_reasons_are_counted_without_the_cell_that_they_quote(tmp_path: Path) -> None:
    rows = [
        BrokenRow(file="a.csv", line=2, reason="age: 'x' is no integer", raw="x"),
        BrokenRow(file="a.csv", line=3, reason='age: "it\'s\nold" is no integer', raw="é"),
        BrokenRow(file="a.csv", line=4, reason="3 cells instead of 4", raw=""),
    ]
    assert reason_kinds(rows) == {"age is no integer": 2, "3 cells instead of 4": 1}
    write_quarantine(tmp_path / "broken", rows[:1])
    write_quarantine(tmp_path / "broken", rows[1:2])
    lines = (tmp_path / "broken").read_text(encoding="utf-8").splitlines()
    assert lines[0] == '{"file": "a.csv", "line": 2, "reason": "age: \'x\' is no integer", "raw": "x"}'
    assert '"raw": "é"' in lines[1]
