"""The copy's files: as the original's in everything but what changed."""

from __future__ import annotations

import csv
import gzip
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from effort import drawn
from wardround.audits.outcome_swap import self_check
from wardround.audits.pipeline.copies import write_part
from wardround.audits.swap import load_swap_table, parse_swap_table, write_swapped
from wardround.audits.swap.change import NewKeys
from wardround.audits.swap.files import files_below, read_records

NOW = datetime(2150, 1, 2)
PAST, LATER = "2150-01-01 10:00:00", "2150-01-02 05:00:00"
TABLE = parse_swap_table(
    """
    source = { name = "x", subject = "who" }
    [anchors]
    stay = { file = "stays", key = "stay_id", latest = "came" }
    [files.stays]
    row = "came"
    key = "stay_id"
    [files.labs]
    row = "time"
    key = "n"
    links = ["stay_id"]
    cells = { stay_id = "stay by stay_id" }
    """
)
ODD = (
    '\ufeffn,"Who",time,value,stay_id\r\n'
    f'1,1,{PAST},"a, ""quoted""",10\r\n'
    f'2,"1",{PAST},5" tube,10\r\n'
    "\r\n"
    f'3,2,{LATER},"two\r\nlines",\r\n'
    "4,1,short\r\n"
    f"5,1,{LATER},umläut,10"
)


def write(folder: Path, name: str, text: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)


def text(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.name.endswith(".gz") else data).decode()


ROWS = (
    ('1,"a, ""b""",c', ["1", 'a, "b"', "c"]),
    ('1,5" tube,c', ["1", '5" tube', "c"]),
    ('1,"a"b,c', ["1", "ab", "c"]),
    ('1,"a""b"c,d', ["1", 'a"bc', "d"]),
    ('1,"",c', ["1", "", "c"]),
    (f'1,"{"x" * 200_000}",c', ["1", "x" * 200_000, "c"]),
    ('1,"a\r\n\nb",c', ["1", "a\r\n\nb", "c"]),
    ('1,2,"never closed', ["1", "2", '"never closed']),
)


@pytest.mark.parametrize(("row", "cells"), ROWS)
def test_a_row_says_what_its_quotes_say_however_they_are_written(tmp_path: Path, row: str, cells: list[str]) -> None:
    write(tmp_path, "labs.csv", f"n,a,b\n{row}\n")
    (found,) = read_records(tmp_path / "labs.csv")
    assert list(found.content.values()) == cells


@pytest.mark.parametrize("name", ["labs.csv", "labs.csv.gz"])
def test_a_copy_in_which_nothing_changes_is_the_same_file(tmp_path: Path, name: str) -> None:
    write(tmp_path / "raw", name, ODD)
    (copy,), _ = write_swapped(TABLE, [tmp_path / "raw"], tmp_path / "copy", {1: None, 2: datetime(2151, 1, 1)})
    assert [path.name for path in copy.iterdir()] == [name]
    assert text(copy / name) == ODD


def test_rows_stay_in_place_with_their_quotes_and_the_rest_of_the_file_as_it_was(tmp_path: Path) -> None:
    write(tmp_path / "raw", "labs.csv", ODD)
    write(tmp_path / "raw", "stays.csv", f"stay_id,who,came\n10,1,{PAST}\n")
    (copy,), _ = write_swapped(TABLE, [tmp_path / "raw"], tmp_path / "copy", {1: NOW, 2: NOW})
    found, before = text(copy / "labs.csv"), ODD
    assert found != before
    assert found.startswith(before[: before.index("3,2,")])  # what was known, in its place, its quotes kept
    assert "4,1,short\r\n" in found
    lines = found.split("\r\n")
    assert [line.split(",")[0] for line in lines if line[:1].isdigit()] == sorted(
        line.split(",")[0] for line in lines if line[:1].isdigit()
    )


def test_in_another_order_nothing_else_changes(tmp_path: Path) -> None:
    rows = [f"{n},{who},{PAST if n < 4 else LATER},v{n},\n" for n, who in enumerate([1, 2, 1, 2, 1, 2, 1, 1, 2, 3])]
    write(tmp_path / "raw", "labs.csv", "n,who,time,value,stay_id\n" + "".join(rows))
    (copy,), _ = write_swapped(TABLE, [tmp_path / "raw"], tmp_path / "copy", {1: NOW, 2: NOW}, order=True)
    after = text(copy / "labs.csv").splitlines(keepends=True)[1:]
    assert after[:4] == rows[:4]
    assert [row[0] for row in after[4:]] == ["7", "8", "6", "4", "5", "9"]  # 4, 6, 7 of person 1; 5, 8 of person 2
    assert sorted(after) == rows


def test_only_named_columns_change_and_other_files_are_copied(tmp_path: Path) -> None:
    rows = "".join(f"{n},1,{LATER},{n},10\n" for n in range(30))
    write(tmp_path / "raw", "labs.csv", "n,who,time,value,stay_id\n" + rows)
    write(tmp_path / "raw", "stays.csv.gz", f"stay_id,who,came\n10,1,{PAST}\n11,1,{LATER}\n")
    folders = [tmp_path / "raw"]
    whole, counts = write_swapped(TABLE, folders, tmp_path / "whole", {1: NOW})
    (copy,) = write_part(folders, whole, tmp_path / "copy", {"labs": ["value"]}, counts.lines)
    assert (copy / "stays.csv.gz").read_bytes() == (tmp_path / "raw" / "stays.csv.gz").read_bytes()
    pairs = list(zip(read(tmp_path / "raw" / "labs.csv"), read(copy / "labs.csv"), strict=True))
    assert all(one | {"value": ""} == other | {"value": ""} for one, other in pairs)
    assert sum(one != other for one, other in pairs) > 20
    found = {row["value"] for row in read(whole[0] / "labs.csv")}
    assert {other["value"] for one, other in pairs if one != other} <= found  # the same future


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(text(path).splitlines()))


def test_links_of_rows_of_the_future_name_rows_that_are_there(tmp_path: Path) -> None:
    """Of twenty stays some are left out; no row names one of those, and none is without a stay."""
    stays = "".join(f"{10 + n},1,{LATER}\n" for n in range(20))
    labs = "".join(f"{n},1,{LATER},5,{10 + n % 20}\n" for n in range(200))
    write(tmp_path / "raw", "stays.csv", f"stay_id,who,came\n9,1,{PAST}\n" + stays)
    write(tmp_path / "raw", "labs.csv", "n,who,time,value,stay_id\n" + labs)
    (copy,), _ = write_swapped(TABLE, [tmp_path / "raw"], tmp_path / "copy", {1: NOW})
    there = {row["stay_id"] for row in read(copy / "stays.csv")}
    assert len({str(n) for n in range(9, 30)} - there) > 1
    assert {row["stay_id"] for row in read(copy / "labs.csv")} <= there - {"9"}
    assert len(read(copy / "labs.csv")) > 150


def test_a_known_row_that_named_one_of_the_future_names_another_or_none(tmp_path: Path) -> None:
    stays = "".join(f"{n},1,{LATER}\n" for n in range(10, 20))
    labs = "".join(f"{n},1,{PAST},{n},12\n" for n in range(9))
    write(tmp_path / "raw", "stays.csv", "stay_id,who,came\n" + stays)
    write(tmp_path / "raw", "labs.csv", "n,who,time,value,stay_id\n" + labs)
    (copy,), _ = write_swapped(TABLE, [tmp_path / "raw"], tmp_path / "copy", {1: NOW})
    found = {row["stay_id"] for row in read(copy / "labs.csv")}
    assert "" in found
    assert "12" not in found
    assert len(found) > 1
    assert found - {""} <= {row["stay_id"] for row in read(copy / "stays.csv")}


DRUGS = {
    "pharmacy": ("pharmacy_id,subject_id,hadm_id,starttime,stoptime,entertime,status,poe_id", 7, LATER),
    "prescriptions": ("subject_id,hadm_id,pharmacy_id,starttime,stoptime,drug,poe_id", 1, None),
}


def test_what_waits_for_a_row_that_is_left_out_goes_with_it(tmp_path: Path) -> None:
    """A pharmacy's row entered later is left out: its prescription's clock fell back to its start, in the past."""
    write(
        tmp_path / "raw",
        "pharmacy.csv",
        DRUGS["pharmacy"][0] + "\n" + "".join(f"{n},1,10,{PAST},{LATER},{LATER},x,\n" for n in range(40)),
    )
    write(
        tmp_path / "raw",
        "prescriptions.csv",
        DRUGS["prescriptions"][0] + "\n" + "".join(f"1,10,{n},{PAST},{LATER},d{n},\n" for n in range(40)),
    )
    table = load_swap_table("mimiciv")
    (copy,), _ = write_swapped(table, [tmp_path / "raw"], tmp_path / "copy", {1: NOW})
    assert self_check(table, [tmp_path / "raw"], [copy], {1: NOW}) == []
    there = {row["pharmacy_id"] for row in read(copy / "pharmacy.csv")}
    assert len(there & {str(n) for n in range(40)}) < 40
    assert {row["pharmacy_id"] for row in read(copy / "prescriptions.csv")} <= there
    assert len(read(copy / "prescriptions.csv")) > 20


def test_the_self_check_names_rows_and_cells_that_one_side_alone_knows(tmp_path: Path) -> None:
    for side, values in (("raw", ("5", "6")), ("copy", ("5", "7"))):
        lines = [f"{n},1,{PAST},{value},\n" for n, value in enumerate(values)]
        write(tmp_path / side, "labs.csv", "n,who,time,value,stay_id\n" + "".join(lines))
    found = self_check(TABLE, [tmp_path / "raw"], [tmp_path / "copy"], {1: NOW, 2: None})
    assert [sentence.split(": {")[0] for sentence in found] == [
        "1 as of 2150-01-02 00:00:00: only in the original of labs",
        "1 as of 2150-01-02 00:00:00: only in the copy of labs",
    ]
    assert '"value": "6"' in found[0]
    assert '"value": "7"' in found[1]
    assert self_check(TABLE, [tmp_path / "raw"], [tmp_path / "copy"], {1: datetime(2150, 1, 1)}) == []


@pytest.mark.parametrize(
    ("held", "made"),
    [
        (["5", "9", "7"], ["10", "11"]),
        ([str(2**31 - 2), "100"], [str(2**31 - 1), "98"]),  # never beyond 32 bits
        ([str(2**31)], [str(2**31 + 1), str(2**31 + 2)]),
        (["-3", "-9"], ["-2", "-1"]),
        ([str(2**31 - 1), "0"], [None, None]),
        (["a-7", "b-12"], ["a-13", "a-14"]),
        (["7c9e6679-7425-40de-944b-e07fc1f90ae7"], ["uuid", "uuid"]),
    ],
)
def test_new_keys_are_nobodys_and_of_the_columns_type(held: list[str], made: list[str | None]) -> None:
    keys = NewKeys()
    for key in held:
        keys.note("id", key)
    found = [keys.other("id", held[0], "1") for _ in made]
    if made[0] == "uuid":
        assert len({len(each or "") for each in [*found, *held]}) == 1
        assert len({*found, *held}) == 3
    else:
        assert found == made


def test_a_number_within_each_person_goes_on_for_each() -> None:
    keys = NewKeys()
    for key in ["1", "2", "3"] * 5:
        keys.note("place", key)
    assert [keys.other("place", "1", who) for who in ("a", "b", "a")] == ["4", "4", "5"]


@pytest.mark.long  # every swap of an invented hospital checks itself
@pytest.mark.parametrize("clocks", ["certain", "strict"])
def test_a_copy_of_the_demo_is_right_with_itself(shared_data: Path, tmp_path: Path, clocks: str) -> None:
    folder = shared_data / "mimic-iv-demo-2.2"
    with gzip.open(folder / "icu" / "icustays.csv.gz", "rt") as stream:
        stays = sorted(csv.DictReader(stream), key=lambda row: row["intime"])
    moments = {int(row["subject_id"]): datetime.fromisoformat(row["intime"]) + timedelta(hours=24) for row in stays}
    chosen: dict[int, datetime | None] = dict(drawn(list(moments.items()), 12))
    table = load_swap_table("mimiciv")
    copies, _ = write_swapped(table, [folder], tmp_path / "copy", chosen, clocks=clocks)  # type: ignore[arg-type]
    assert self_check(table, [folder], copies, chosen) == []
    names = {path.relative_to(folder) for path in files_below(folder) if path.name.endswith((".csv.gz", ".csv"))}
    assert {path.relative_to(copies[0]) for path in files_below(copies[0])} == names
    admissions = [int(row["hadm_id"]) for row in read(copies[0] / "hosp" / "admissions.csv.gz")]
    assert max(admissions) < 2**31
    assert len(set(admissions)) == len(admissions)
