"""What a draft guesses of columns it has seen: times and their days, subjects, keys, roles; on looks made by hand."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from wardround.core import UserError
from wardround.records.drafts.draft import Draft, _format, _list, _most, _quoted, draft_spec, role_lines
from wardround.records.drafts.guesses import Guesses, _agreed, _key, _subject
from wardround.records.drafts.look import ColumnLook, FileLook, TimeFormats, spelt, time_formats


@pytest.mark.parametrize(
    ("cells", "formats", "others"),
    [
        (["2150-01-31"], ("%Y-%m-%d",), ()),
        (["31.01.2150 10:00", "01.02.2150 11:30"], ("%d.%m.%Y %H:%M",), ()),
        (["31/01/2150"], ("%d/%m/%Y",), ()),
        (["01/31/2150"], ("%m/%d/%Y",), ()),
        (["01/02/2150"], ("%d/%m/%Y",), ("%m/%d/%Y",)),
        (["01-02-2150 10:00:00"], ("%d-%m-%Y %H:%M:%S",), ("%m-%d-%Y %H:%M:%S",)),
        (["01/02/2150 01:00 PM"], ("%d/%m/%Y %I:%M %p",), ("%m/%d/%Y %I:%M %p",)),
        (["21500131"], ("%Y%m%d",), ()),
        (["31-Jan-2150"], ("%d-%b-%Y",), ()),
        (["2150-01-02 10:00:00", "2150-01-03 10:00:00", "2150-01-04"], ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d"), ()),
    ],
)
def test_times_are_read_in_the_formats_that_read_all_of_them(
    cells: list[str], formats: tuple[str, ...], others: tuple[str, ...]
) -> None:
    assert time_formats(cells) == TimeFormats(formats=formats, others=others)


@pytest.mark.parametrize(
    "cells", [["2150-01-01", "soon.."], ["12345"], ["x" * 33], ["2150-01-01" + " " * 23], ["January"], ["2150-13-01"]]
)
def test_what_is_no_time_has_no_format(cells: list[str]) -> None:
    assert time_formats(cells) is None


@pytest.mark.parametrize(("cell", "formats"), [("1.1.50", ("%d.%m.%y",)), ("1.1.5", None)])
def test_six_signs_are_the_shortest_time(cell: str, formats: tuple[str, ...] | None) -> None:
    found = time_formats([cell])
    assert (None if found is None else found.formats) == formats


def column(
    name: str, kind: Any = "int", cells: str = "", *, full: bool = True, unique: bool = False, **more: Any
) -> Any:
    held = frozenset(cells.split())
    return ColumnLook(name=name, header=name, kind=kind, cells=held, is_full=full, is_unique=unique, **more)


def look(name: str, *columns: ColumnLook, **more: Any) -> FileLook:
    return FileLook(name=name, path=name, shown=f"{name}.csv", rows=9, columns=columns, **more)


def test_the_subject_is_called_a_patient_or_shared_by_most_files_and_names_the_fewest() -> None:
    a, b = look("a", column("nr", cells="1 2"), column("fall", cells="1 2 3")), look("b", column("fall", cells="1 4"))
    assert _subject([a, b]) == "fall"
    assert _subject([a, look("b", column("fall", cells="1"), column("nr", cells="1 2"))]) == "nr"
    assert _subject([a, b, look("c", column("pat_nr", cells="1 2 3 4 5 6"))]) == "pat_nr"
    assert _subject([look("a", column("x")), look("b", column("y"))]) is None
    assert _subject([look("a", column("when", "time")), look("b", column("when", "time"))]) is None
    three = [look(name, column("fall", cells="1 2"), *more) for name, more in
             (("a", ()), ("b", (column("nr", cells="1"),)), ("c", (column("nr", cells="1"),)))]  # fmt: skip
    assert _subject(three) == "fall"


@pytest.mark.parametrize(
    ("columns", "key"),
    [
        ((column("who", unique=True), column("nr", unique=True)), "nr"),
        ((column("who", unique=True), column("nr")), "who"),
        ((column("nr", unique=True, full=False),), None),
        ((column("at_id", "time", unique=True), column("m_id", "text", unique=True)), "m_id"),
        ((column("nr"),), None),
        ((column("who", unique=True), column("year", unique=True)), "who"),
        ((column("year", unique=True),), None),
        ((column("other", unique=True), column("result_no", unique=True)), "result_no"),
        ((column("other", unique=True),), "other"),
        ((column("who", unique=True), column("verordnung", unique=True)), "verordnung"),
    ],
)
def test_a_key_is_filled_and_different_in_all_rows_and_called_like_one(
    columns: tuple[ColumnLook, ...], key: str | None
) -> None:
    table = look("verordnungen", *columns)
    assert _key(table, [table, look("others", column("other"), column("who"))], "who") == key


def test_a_key_that_is_text_in_one_file_is_text_in_all() -> None:
    looks = [look("a", column("nr", cells="1"), column("n")), look("b", column("nr", "text", "x"), column("n", "text"))]
    assert [[one.kind for one in each.columns] for each in _agreed(looks)] == [["text", "int"], ["text", "text"]]
    empty = [look("a", column("nr", cells="1")), look("b", column("nr", "text"))]
    assert [each.columns[0].kind for each in _agreed(empty)] == ["int", "text"]
    real = [look("a", column("nr", "float", "1.5")), look("b", column("nr", "text", "x"))]
    assert _agreed(real)[0].columns[0].kind == "float"


def test_a_column_that_is_another_tables_key_names_its_rows() -> None:
    stays = look("stays", column("stay"), column("who"))
    labs = look("labs", column("lab"), column("stay"), column("who"))
    keys = {"stays": "stay", "labs": "lab", "people": "who"}
    guesses = Guesses(tables=(stays, labs), subject="who", keys=keys)
    assert guesses.parents(labs) == {"stay": "stays"}
    assert guesses.parents(stays) == {}
    assert (guesses.encounter(labs), guesses.owner(look("x", column("stay")))) == ("stay", ("stay", "stays"))


def draft_of(*tables: FileLook) -> Draft:
    return Draft(name="d", guesses=Guesses(tables=tables, subject=None, keys={}), notes={})


def test_what_most_files_have_is_said_for_all() -> None:
    tables = (
        look("a", delimiter=";", encoding="cp1252"),
        look("b", delimiter=",", encoding=""),
        look("c", delimiter=";"),
    )
    draft = draft_of(*tables)
    assert (draft.delimiter, draft.encoding) == (";", "cp1252")
    assert draft_of(*tables[1:]).encoding == "utf-8"
    assert [_most([]), _most([], "x"), _most("abb"), _most("ab")] == ["", "x", "b", "a"]
    assert _list(['a"b', "c\\d", "e\tf"]) == r'["a\"b", "c\\d", "e\tf"]'
    assert _quoted("") == '""'


def lines_of(*columns: ColumnLook, empty: frozenset[str] = frozenset()) -> list[str]:
    table = look("t", *columns, delimiter=",", empty=empty)
    return list(_format(draft_of(table)))


def timed(name: str, kind: Any, formats: tuple[str, ...], others: tuple[str, ...] = ()) -> ColumnLook:
    found: ColumnLook = column(name, kind, times=TimeFormats(formats=formats, others=others))
    return found


def test_how_files_are_written_is_guessed_and_what_cannot_be_told_is_asked() -> None:
    assert lines_of(column("n")) == [
        'delimiter = ","   # guessed',
        'encoding = "utf-8"   # guessed',
        'decimal = "."   # guessed',
    ]
    comma = look("t", column("n", "float", "1,5 2,25", has_comma=True), delimiter=";")
    assert 'decimal = ","   # guessed' in _format(draft_of(comma))
    assert lines_of(empty=frozenset(("n/a", "-")))[3] == (
        'empty = ["-", "n/a"]   # guessed: words that stand for an empty cell'
    )
    assert len(lines_of(timed("a", "time", ("%Y-%m-%d %H:%M",)))) == 3
    both = timed("a", "time", ("%d.%m.%Y", "%d.%m.%Y %H:%M"))
    asked = (
        "some cells are dates without a time of day; refuse (set such rows aside) or end_of_day (known at 23:59:59)?"
    )
    assert lines_of(both)[3:] == [
        'times = ["%d.%m.%Y %H:%M", "%d.%m.%Y"]   # guessed',
        f'bare_dates = "TODO: a: {asked}"',
    ]
    unsure = timed("b", "date", ("%d/%m/%Y",), ("%m/%d/%Y",))
    question = "the rows that were read do not show which number is the day and which the month"
    assert lines_of(unsure)[3:] == [f'times = ["TODO: {question}: one of %d/%m/%Y, %m/%d/%Y"]']
    assert lines_of(unsure, timed("c", "date", ("%d/%m/%Y",)))[3:] == ['times = ["%d/%m/%Y"]   # guessed']


@pytest.mark.parametrize(
    ("cells", "delimiter", "decimal"),
    [
        (("1,5 2,25",), ";", ","),
        (("1.5 2",), ";", "."),
        (("1 2",), ";", ""),
        (("1,5", "2.5"), ";", "TODO: c0 has commas in its numbers, c1 has points: which is the decimal sign? "),
        (
            ("1,234 12,500",),
            ";",
            "TODO: c0: is 1,234 a number between 1 and 2 (write ,) or more than a thousand (declare it as text)?",
        ),
        (("1,234", "1,5"), ";", ","),
        (("1,5",), ",", "TODO: c0 has commas in its numbers and between cells: declare it as text"),
    ],
)
def test_the_decimal_sign_is_that_of_the_numbers_or_a_question(
    cells: tuple[str, ...], delimiter: str, decimal: str
) -> None:
    kinds = ["float" if {".", ","} & set(each) else "int" for each in cells]
    columns = [column(f"c{n}", kinds[n], each, has_comma="," in each) for n, each in enumerate(cells)]
    found = look("t", *columns, delimiter=delimiter).decimal
    assert found == decimal if not decimal.endswith(" ") else found.startswith(decimal)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("Größe (cm)", "groesse_cm"),
        ("Prénom", "prenom"),
        ("Pre\u0301nom", "prenom"),
        ("Naïveté", "naivete"),
        ("Łódź", "lodz"),
        ("Sœur", "soeur"),
        ("Bølge/Ægir", "bolge_aegir"),
        ("CO₂ µmol", "co_umol"),
        ("n°2", "n_2"),
        ("2nd", "c_2nd"),
        ("Ώρα", "c"),
    ],
)
def test_a_header_loses_its_accents_and_keeps_its_letters(header: str, name: str) -> None:
    assert spelt(header) == name


def test_roles_are_offered_by_the_words_in_a_tables_name() -> None:
    stays = look("aufenthalte", column("fall"), column("von", "time"), column("bis", "time"), column("um", "time"))
    labs = look(
        "laborwerte",
        column("who", "text", "a b"),
        column("lab", "text", "x y", unique=True),
        column("code", "text", "1 2"),
        column("what", "text", "Hb Na"),
        column("unit", "text", "g"),
        column("value", "float"),
        column("low", "float"),
        column("at", "time"),
    )
    lines = list(role_lines(Guesses(tables=(labs, stays), subject="who", keys={"aufenthalte": "fall"})))
    assert [line for line in lines[1:] if not line.startswith("# [")] == [
        '# table = "aufenthalte"',
        '# id = "fall"',
        '# start = "von"',
        '# ends = ["bis"]',
        '# table = "laborwerte"',
        '# label = "what"',
        '# time = "at"',
        '# value = "value"',
        '# unit = "unit"',
    ]
    orders = list(role_lines(draft_of(look("orders", column("n"), column("dose", "float"))).guesses))
    assert orders[2:] == ['# table = "orders"', '# label = "COLUMN"']
    assert len(list(role_lines(draft_of(look("people", column("n"))).guesses))) == 1
    died = list(role_lines(draft_of(look("people", column("verstorben_am", "time"))).guesses))
    assert died[2:] == ['# table = "people"', '# time = "verstorben_am"']
    visits = look("notaufnahmen", column("nr")), look("stays", column("nr"))
    found = Guesses(tables=visits, subject=None, keys={"notaufnahmen": "nr", "stays": "nr"}).stays
    assert found is visits[1], "a visit to the emergency department is no stay"


def test_a_folder_of_no_tables_is_refused_and_one_name_is_taken_once(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(UserError, match=r"there is no \.csv, \.tsv, \.parquet or \.jsonl file"):
        draft_spec(tmp_path)
    (tmp_path / "Werte.csv").write_text("a,b\n1,2\n")
    (tmp_path / "werte .csv").write_text("a,b\n1,2\n")
    assert re.findall(r"^\[tables\.(\w+)\]", draft_spec(tmp_path), re.MULTILINE) == ["werte", "werte_1"]


def test_of_two_tables_with_one_key_the_larger_is_named() -> None:
    stays = look("stays", column("stay", cells="1 2 3", unique=True), column("who", cells="7 8"))
    drips = look("drips", column("stay", cells="1 3", unique=True), column("drug", "text", "a b"))
    labs = look("labs", column("stay", cells="1 2"), column("what", "text", "Hb Na"))
    keys = {"stays": "stay", "drips": "stay", "people": "who"}
    guesses = Guesses(tables=(stays, drips, labs), subject="who", keys=keys)
    assert guesses.parents(labs) == {"stay": "stays"}
    assert guesses.owner(drips) == ("stay", "stays"), "at most one drip a stay: whose it is stands with the stays"
    assert guesses.parents(stays) == {}


def test_a_text_of_persons_numbers_alone_may_say_who_somebody_became() -> None:
    people = look(
        "people", column("who", "text", "01 02 03", unique=True), column("gone_into", "text", "02"),
        column("doctor", "text", "Weiss"), column("empty", "text"),
    )  # fmt: skip
    assert Guesses(tables=(people,), subject="who", keys={"people": "who"}).merged == ("people.gone_into",)


def test_an_order_stops_where_a_columns_name_says_so() -> None:
    orders = look("orders", column("given", "time"), column("begin", "time"), column("ende", "time"))
    assert list(role_lines(draft_of(orders).guesses))[-1] == '# stop = "ende"'
    assert list(role_lines(draft_of(look("orders", *orders.columns[:2])).guesses))[-1] == '# time = "given"'
