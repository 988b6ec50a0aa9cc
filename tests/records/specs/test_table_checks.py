"""Every mistake that a table of a spec can hold, one at a time, against a table without any."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from wardround.core import UserError
from wardround.records.rules.language import ALWAYS, Column, parse_rule
from wardround.records.specs.spec import (
    AgeColumns,
    Amendments,
    Derivation,
    DictionaryJoin,
    DictionarySpec,
    GroupJoin,
    PendingRows,
    PublishedClock,
    ReflexTests,
    SubjectFrom,
    TableSpec,
)
from wardround.records.specs.spec_check import available_order, check_source, check_table

COLUMNS: Any = {"who": "int", "lab": "int", "stay": "int", "at": "time", "day": "date", "word": "text", "size": "float"}
STAYS = TableSpec(
    name="stays",
    module="m",
    path="stays",
    columns={"who": "int", "stay": "int", "start": "time", "end": "time", "why": "text"},
    event_time=Column("start"),
    available_at=Column("start"),
    key=("stay",),
    subject="who",
    late={"why": Column("end")},
)
LABS = TableSpec(
    name="labs",
    module="m",
    path="labs",
    columns=COLUMNS,
    event_time=Column("at"),
    available_at=Column("day"),
    key=("lab",),
    subject="who",
    joined={"label": "text"},
    dictionary=(DictionaryJoin(table="d", on=("lab",), add={"label": "title"}),),
)
WORDS = DictionarySpec(name="d", path="d", columns={"id": "int", "title": "text"}, key=("id",))
ICD = GroupJoin(system="ccs-diagnoses", code="word", name="ccs_label", fixed_version=10)
PENDING = PendingRows(group=("lab",), columns=("label", "who"), at=Column("at"), until=Column("day"))
NO_KEY: dict[str, Any] = {"key": ()}


def check(**changes: Any) -> None:
    table = replace(LABS, **changes)
    check_table(table, {"labs": table, "stays": STAYS}, {"d": WORDS})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"subject": "word"},
        {"version": "at", "amended": Amendments(status="word")},
        {**NO_KEY, "version": "at", "amended": Amendments(status="word", row="lab")},
        {**NO_KEY, "unique": ("lab",)},
        {**NO_KEY, "id_columns": ("lab",)},
        {"code": "label", "text": "label", "default_columns": ("label", "lab")},
        {"age": AgeColumns(birth="day"), "default_columns": ("age",), "describe": {"age": "in years"}},
        {"group": ICD},
        {"group": replace(ICD, fixed_version=None, version="lab")},
        {"group": GroupJoin(system="atc", code="word", name="atc_label")},
        {"group": GroupJoin(system="atc", code="word", name="atc_label", version="lab", fixed_version=9)},
        {"pending": PENDING},
        {"first": {"any": ("word", "label")}},
        {"subject": None, "subject_from": SubjectFrom(key="stay", table="stays")},
        {"derive": Derivation(source="stays", function="f", text="text", where={"why": "x"})},
        {"available_at": parse_rule("when(word, 'a', at, day)")},
        {"available_at": parse_rule("when(lab, '7', '-3', at, day)")},
        {"available_at": parse_rule("when(lab, '', at, day)")},
        {"available_at": parse_rule("when(size, '', at, day)")},
        {"available_at": parse_rule("lag(at, culture_lag)")},
        {"available_at": parse_rule("max(known(stay, stays), ref(stay, stays, end), cell(stay, stays, why))")},
    ],
)
def test_what_a_table_may_say(changes: dict[str, Any]) -> None:
    check(**changes)


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"joined": {"word": "text", "at": "time"}}, "labs: joined columns have names of the file's own: at, word"),
        ({"subject": "at"}, r"labs\.subject: at must be int or text, not time"),
        (
            {"amended": Amendments(status="word")},
            "amended: needs a key of one column, or without one 'row', and 'version'",
        ),
        (
            {"key": ("lab", "who"), "version": "at", "amended": Amendments(status="word")},
            "amended: needs a key of one column, or without one 'row', and 'version', which says since when",
        ),
        ({"version": "at", "amended": Amendments(status="word", row="lab")}, "amended: needs a key of one column, or"),
        ({"unique": ("lab",)}, "unique is for tables without a key"),
        ({"id_columns": ("who",)}, "id_columns are for tables without a key"),
        ({"key": ("label",)}, r"labs\.key: no column 'label'"),
        ({**NO_KEY, "id_columns": ("label",)}, r"labs\.id_columns: no column 'label'"),
        ({"subject": "label"}, r"labs\.subject: no column 'label'"),
        ({"encounter": "stya"}, r"labs\.encounter: no column 'stya'; did you mean 'stay'\?"),
        ({"death": "label"}, r"labs\.death: no column 'label'"),
        ({"required": ("label",)}, r"labs\.required: no column"),
        ({"version": "label"}, r"labs\.version: no column"),
        ({"version": "at", "amended": Amendments(status="label")}, r"labs\.amended: no column"),
        ({"code": "xyz"}, r"labs\.code: no column 'xyz'; known are at, day, lab, label, size, stay, who, word"),
        ({"code_system_column": "xyz"}, r"labs\.code_system_column: no column"),
        ({"label": "xyz"}, r"labs\.label: no column"),
        ({"value": "xyz"}, r"labs\.value: no column"),
        ({"text": "xyz"}, r"labs\.text: no column"),
        ({"unit": "xyz"}, r"labs\.unit: no column"),
        ({"withhold": ("age",)}, r"labs\.withhold: no column"),
        ({"planned": ("age",)}, r"labs\.planned: no column"),
        ({"default_columns": ("age",)}, r"labs\.default_columns: no column"),
        ({"describe": {"age": "x"}}, r"labs\.describe: no column"),
        ({"late": {"xyz": ALWAYS}}, r"labs\.late: no column"),
        ({"published": PublishedClock(hide=("xyz",))}, r"labs\.published\.hide: no column"),
        ({"age": AgeColumns(birth="label")}, r"labs\.age: no column"),
        ({"pending": replace(PENDING, group=("label",))}, r"labs\.pending: no column"),
        ({"pending": replace(PENDING, reflex=ReflexTests(column="label"))}, r"labs\.pending: no column"),
        ({"pending": replace(PENDING, columns=("xyz",))}, r"labs\.pending\.columns: no column"),
        ({"pending": replace(PENDING, until=Column("word"))}, r"labs\.pending\.until: labs\.word is 'text'"),
        ({"first": {"any": ("word", "xyz")}}, r"first\.any: no column"),
        ({"first": {"any": ("word", "lab", "at")}}, "only text columns can be used, lab is not"),
        ({"dictionary": (DictionaryJoin(table="e", on=("lab",), add={}),)}, "no dictionary 'e'; known are d"),
        ({"dictionary": (DictionaryJoin(table="d", on=("label",), add={}),)}, r"labs\.dictionary: no column 'label'"),
        ({"dictionary": (DictionaryJoin(table="d", on=("lab",), add={"label": "word"}),)}, "no column 'word'"),
        (
            {"dictionary": (DictionaryJoin(table="d", on=("lab", "who"), add={}),)},
            "'on' must match the key of d: id",
        ),
        ({"group": replace(ICD, code="label")}, r"labs\.group: no column"),
        ({"group": replace(ICD, fixed_version=None, version="label")}, r"labs\.group: no column"),
        ({"group": GroupJoin(system="atc", code="word", name="x", ndc="label")}, r"labs\.group: no column"),
        ({"group": replace(ICD, fixed_version=None)}, "ccs-diagnoses needs 'version', the column of the ICD version"),
        ({"group": replace(ICD, version="lab")}, "ccs-diagnoses needs 'version'"),
        ({"late": {"lab": ALWAYS}}, "row ids must hold no late cell, but lab is late"),
        ({**NO_KEY, "id_columns": ("who",), "late": {"who": ALWAYS}}, "no late cell, but who is late"),
        ({"withhold": ("lab",)}, "row ids must hold no withheld cell, but lab is withheld"),
        ({**NO_KEY, "id_columns": ("day",), "age": AgeColumns(birth="day")}, "no withheld cell, but day is withheld"),
        ({"subject": None, "subject_from": SubjectFrom(key="label", table="stays")}, r"subject_from: no column"),
        (
            {"subject": None, "subject_from": SubjectFrom(key="stay", table="stay")},
            "no table 'stay'; did you mean 'stays'",
        ),
        (
            {"subject": None, "subject_from": SubjectFrom(key="stay", table="xyz")},
            "no table 'xyz'; known are labs, stays",
        ),
        (
            {"subject": None, "subject_from": SubjectFrom(key="lab", table="labs")},
            "labs has no subject column of its own",
        ),
        ({"derive": Derivation(source="xyz", function="f", text="text")}, "derive: no table 'xyz'"),
        ({"derive": Derivation(source="stays", function="f", text="text", where={"word": "x"})}, "where: no column"),
        ({"event_time": Column("word")}, r"event_time: labs\.word is 'text', a rule needs a time or a date"),
        ({"available_at": parse_rule("when(at, '7', at, day)")}, r"needs a text or int column, labs\.at is not"),
        ({"available_at": parse_rule("when(size, '', '1', at, day)")}, r"text or int column, labs\.size is not"),
        ({"available_at": parse_rule("when(lab, '7', 'x', at, day)")}, "is int, so when.* whole numbers in quotes"),
        ({"available_at": parse_rule("lag(at, lab_lag)")}, "known are coding_lag, result_lag, culture_lag"),
        ({"available_at": parse_rule("known(word, stays)")}, r"labs\.word is 'text' but stays\.stay is 'int'"),
        ({"available_at": parse_rule("cell(stay, stays, end)")}, "no column 'end'"),
        (
            {"available_at": parse_rule("closed(at, lab, 'a', 'b')")},
            r"closed\(\) needs a text column, labs\.lab is not",
        ),
        ({"available_at": parse_rule("around(xyz, at, start, end)")}, "no table 'xyz'"),
        ({"late": {"word": parse_rule("ref(stay, stays, why)")}}, r"late\.word: stays\.why is 'text'"),
    ],
)
def test_what_a_table_may_not_say(changes: dict[str, Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        check(**changes)


def test_a_table_that_is_referred_to_has_a_key_of_one_column() -> None:
    for key in ((), ("stay", "who")):
        table = replace(LABS, available_at=parse_rule("known(stay, stays)"))
        with pytest.raises(UserError, match="stays must have a primary key of one column to be referred to"):
            check_table(table, {"labs": table, "stays": replace(STAYS, key=key)}, {"d": WORDS})


def test_a_dictionary_has_a_key_of_its_own_columns() -> None:
    with pytest.raises(UserError, match=r"dictionaries\.d: a dictionary needs a key"):
        check_source({"stays": STAYS}, {"d": replace(WORDS, key=())})
    with pytest.raises(UserError, match=r"dictionaries\.d\.key: no column 'titel'; did you mean 'title'"):
        check_source({"stays": STAYS}, {"d": replace(WORDS, key=("titel",))})
    labs = replace(LABS, available_at=parse_rule("known(stay, stays)"))
    assert check_source({"labs": labs, "stays": STAYS}, {"d": WORDS}) == ("stays", "labs")


def test_tables_stand_after_what_their_clocks_need_and_a_circle_is_shown_whole() -> None:
    def needing(name: str, *others: str) -> TableSpec:
        rules = ", ".join(("at", *(f"known(stay, {other})" for other in others)))
        return replace(LABS, name=name, available_at=parse_rule(f"max({rules})"))

    tables = {name: needing(name, *others) for name, others in (("a", "cb"), ("b", "d"), ("c", "d"), ("d", ""))}
    assert available_order(tables) == ("d", "b", "c", "a")
    tables["d"] = needing("d", "c")
    with pytest.raises(UserError, match="goes in a circle: d -> c -> d"):
        available_order({"a": tables["a"], "b": tables["b"], "d": tables["d"], "c": tables["c"]})
