"""Rows and resources as the swap changes them."""

from __future__ import annotations

from typing import Any

import pytest

from wardround.audits.swap.raw_records import Resource, TableRow


def resource() -> Resource:
    return Resource(
        {
            "resourceType": "Thing",
            "id": "x",
            "meta": {"lastUpdated": "2150"},
            "status": "final",
            "subject": {"reference": "Patient/1", "display": "A"},
            "code": [{"text": "one", "system": "s", "url": "u"}, {"text": "two", "n": None}],
            "period": {"start": "2150-01-01"},
            "value": 2,
            "ratio": 0.5,
            "flag": True,
            "notes": [{"text": "a"}, {"text": "b"}],
        }
    )


def test_a_row_has_the_texts_of_its_filled_cells() -> None:
    row = TableRow({"a": "1", "b": ""})
    assert (row.texts("a"), row.texts("b"), row.texts("c"), row.paths()) == (("1",), (), (), ("a", "b"))
    twin = row.copy()
    for path in ("a", "b", "c"):
        twin.change(path, lambda text: text + "!")
    assert twin.cells == {"a": "1!", "b": ""}
    twin.fill("b", "2")
    twin.fill("c", "3")
    assert twin.cells == {"a": "1!", "b": "2"}
    assert row.cells == {"a": "1", "b": ""}
    assert row.items("a") == ()


def test_a_row_that_was_read_is_as_one_made_of_its_cells_and_as_its_line_until_it_changes() -> None:
    for fill in (False, True):
        row = TableRow.read({"a": 0, "b": 1}, ["1", ""], "1,\n")
        assert (row.texts("a"), row.texts("b"), row.texts("c"), row.is_read, row.is_blank) == (
            ("1",),
            (),
            (),
            True,
            False,
        )
        assert (row.content, row.paths(), row.texts("a")) == ({"a": "1", "b": ""}, ("a", "b"), ("1",))
        twin = row.copy()
        assert (twin.content, twin.line, twin.is_read) == (row.content, "1,\n", False)
        row.fill("c", "3")
        row.change("b", lambda text: "2")
        assert row.is_read  # it has no such column, and an empty cell is not changed
        if fill:
            row.fill("b", "2")
        else:
            row.change("a", lambda text: "1")
        assert not row.is_read
        assert row.texts("b") == (("2",) if fill else ())
    assert TableRow({}, "\n").is_blank


def test_a_resource_has_the_texts_of_all_leaves_below_a_path() -> None:
    one = resource()
    assert one.texts("code") == ["one", "s", "u", "two"]
    assert one.texts("code.text") == ["one", "two"]
    assert one.texts("period.start") == ["2150-01-01"]
    assert (one.texts("value"), one.texts("nothing"), one.texts("nothing.at.all")) == (["2"], [], [])
    assert "resourceType" not in one.paths()
    assert one.paths()[:2] == ("status", "subject")
    assert {"id", "meta"}.isdisjoint(one.paths())


def test_leaves_change_and_references_systems_and_addresses_stay() -> None:
    one = resource()
    for path in ("subject", "code", "flag", "value", "ratio"):
        one.change(path, lambda text: f"{text}!")
    assert one.body["subject"] == {"reference": "Patient/1", "display": "A!"}
    assert one.body["code"] == [{"text": "one!", "system": "s", "url": "u"}, {"text": "two!", "n": "None!"}]
    assert one.body["flag"] is False
    assert (one.body["value"], one.body["ratio"]) == (5, 2.0)  # no number any more: twice and one


def test_numbers_stay_numbers_and_an_empty_text_takes_a_leaf_away() -> None:
    one = resource()
    one.change("value", lambda text: "7.9")
    one.change("ratio", lambda text: "7")
    one.change("status", lambda text: "")
    one.change("notes.text", lambda text: "")
    assert (one.body["value"], one.body["ratio"]) == (7, 7.0)
    assert isinstance(one.body["value"], int)
    assert isinstance(one.body["ratio"], float)
    assert "status" not in one.body
    assert one.body["notes"] == [{}, {}]
    names = Resource({"given": ["a", "b"]})
    names.change("given", lambda text: "")
    assert names.body == {"given": ["", ""]}  # places of a list are kept


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("period.end", True),
        ("issuedTime", True),
        ("deceasedDate", True),
        ("onsetOccurrence", True),
        ("subject.status", True),
        ("period.length", False),
        ("absent.end", False),
        ("code.end", False),  # no leaf is put into a list
        ("value.end", False),
    ],
)
def test_only_leaves_of_one_text_are_filled(path: str, there: bool) -> None:
    one = resource()
    before: dict[str, Any] = one.copy().body
    one.fill(path, "new")
    assert (one.texts(path) == ["new"]) is there
    assert (one.body != before) is there


def test_parts_of_lists_are_records_and_can_go() -> None:
    one, twin = resource(), resource()
    first, second = one.items("notes")
    assert (first.texts("text"), second.texts("text")) == (["a"], ["b"])
    one.remove("notes", first)
    assert one.body["notes"] == [{"text": "b"}]
    one.remove("notes", second)
    assert "notes" not in one.body
    assert [part.texts("start") for part in twin.items("period")] == [["2150-01-01"]]
    assert list(twin.items("nothing")) == []
    twin.remove("period", twin.items("period")[0])
    assert "period" in twin.body  # not a list: it stays


def test_a_copy_is_its_own() -> None:
    one = resource()
    one.copy().change("code", lambda text: "x")
    assert one.texts("code.text") == ["one", "two"]
