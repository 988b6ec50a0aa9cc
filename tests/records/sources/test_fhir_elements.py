"""Elements of FHIR resources are decoded once, and nobody can see it in the rows."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from records.fhir_resources import code, encounter, patient, resource
from wardround.records import load_source_spec
from wardround.records.reading.flat_tables import FlatTables
from wardround.records.sources.fhir import files as remembered
from wardround.records.sources.fhir import flatten_fhir
from wardround.records.sources.fhir.files import Elements, once, parsed_resources
from wardround.records.specs import WallClock

NEW_YORK = load_source_spec("fhir").in_zone("America/New_York")


def flat(folder: Path, text: str, name: str = "x.ndjson") -> tuple[dict[str, list[dict[str, Any]]], FlatTables]:
    """The rows of one file by table, and what was counted."""
    (folder / name).write_text(text, encoding="utf-8")
    tables = FlatTables(NEW_YORK, folder / "flat", folder / "quarantine.jsonl")
    flatten_fhir([folder / name], tables)
    tables.close()
    return {table: pq.read_table(folder / "flat" / f"{table}.parquet").to_pylist() for table in tables.rows}, tables


def result(number: int, **more: Any) -> dict[str, Any]:
    """A laboratory result, at a minute of its own."""
    at = f"2024-07-01T12:{number % 60:02}:00Z"
    value = {"valueQuantity": {"value": number, "unit": "mg/dL"}, "category": [{"coding": [{"code": "laboratory"}]}]}
    return resource("Observation", f"o{number}", code=code("1"), effectiveDateTime=at, **value, **more)


@pytest.mark.parametrize(
    ("written", "local"),
    [
        ("2024-07-01T12:00:00Z", "2024-07-01T08:00:00"),
        ("2024-07-01T12:00:00.250-04:00", "2024-07-01T12:00:00.250"),
        ("2024-01-31T23:30:00-08:00", "2024-02-01T02:30:00"),
        ("2024-07-01T12:00+00:00", "2024-07-01T08:00:00"),
        ("2024-03-10T06:59:59Z", "2024-03-10T01:59:59"),
        ("2024-03-10T07:00:00Z", "2024-03-10T03:00:00"),
        ("2024-11-03T05:30:00Z", "2024-11-03T01:30:00"),
        ("2024-11-03T06:30:00Z", "2024-11-03T02:00:00"),
        ("2024-11-03T07:30:00Z", "2024-11-03T02:30:00"),
        ("2024-02-30T12:00:00Z", "2024-02-30T12:00:00"),
        ("2024-07-01T12:00:00+99:99", "2024-07-01T12:00:00"),
        ("2024-07-01T12:00:00", "2024-07-01T12:00:00"),
        ("2024-07-01", "2024-07-01"),
    ],
)
def test_times_are_local_whether_a_clock_change_is_near_or_far(written: str, local: str) -> None:
    # By hand: New York is 4 hours behind UTC from 10 March 2024, 07:00 UTC, to 3 November 2024, 06:00 UTC, else 5.
    # Times of the second pass of a repeated hour become its end. What is no time loses only its offset.
    text = json.dumps({"resourceType": "Observation", "a": written, "b": [{"c": written}]}).encode()
    elements = Elements(WallClock.named("America/New_York"))
    for _ in range(2):
        (found,) = parsed_resources(Path("x"), 1, text, elements)
        assert found.resource == {"resourceType": "Observation", "a": local, "b": [{"c": local}]}


def test_rows_do_not_depend_on_what_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "\n".join(json.dumps(body) for body in [patient(), *(result(number % 50) for number in range(200))])
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    much, _ = flat(tmp_path / "a", text)
    monkeypatch.setattr(remembered, "_MOST", 3)
    little, _ = flat(tmp_path / "b", text)
    assert much == little
    assert [row["value"] for row in much["labs"]] == [number % 50 for number in range(200)]
    assert much["labs"][7]["effective_time"] == datetime(2024, 7, 1, 8, 7)


def test_equal_elements_are_one_object_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remembered, "_MOST", 4)
    monkeypatch.setattr(remembered, "_LONGEST", 100)
    elements = Elements()

    def read(body: dict[str, Any]) -> dict[str, Any]:
        (found,) = parsed_resources(Path("x"), 1, json.dumps({"resourceType": "X", **body}).encode(), elements)
        return found.resource

    first, second = read({"a": {"b": 1}}), read({"c": {"b": 1}})
    assert first["a"] is second["c"]
    assert read({"a": {"b": "x" * 200}})["a"] is not read({"a": {"b": "x" * 200}})["a"]
    for number in range(10):
        read({"a": {"b": number + 2}})
    assert read({"a": {"b": 1}})["a"] is not first["a"]


def test_an_element_is_read_once_and_what_raises_is_read_again() -> None:
    calls = []

    @once
    def read(element: dict[str, Any]) -> int:
        calls.append(element)
        return 10 // int(element["b"])

    elements = Elements()
    kept, zero, plain = elements.kept({"b": 5}), elements.kept({"b": 0}), {"b": 5}
    assert [read(kept), read(kept), read(plain), read(plain)] == [2, 2, 2, 2]
    assert calls == [kept, plain, plain]
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            read(zero)
    assert calls[3:] == [zero, zero]


def test_what_the_fast_decoder_refuses_is_read_by_the_other(tmp_path: Path) -> None:
    lines = [
        json.dumps(patient()),
        json.dumps(result(1, extra=float("nan"))),
        json.dumps(result(2, extra="half a character: \ud800")),
        json.dumps(result(3)).replace('"Observation"', '"Obs\\u0065rvation"'),
        json.dumps({"resourceType": "Bundle", "entry": [{"resource": result(4)}]}).replace("Bundle", "Bundl\\u0065"),
        json.dumps(result(5))[:-1],
    ]
    rows, counted = flat(tmp_path, "\n".join(lines))
    assert [row["observation_id"] for row in rows["labs"]] == ["o1", "o3", "o4"]
    aside = [json.loads(line) for line in (tmp_path / "quarantine.jsonl").read_text().splitlines()]
    assert [(each["line"], each["reason"][:9]) for each in aside] == [(3, "not JSON:"), (6, "not JSON:")]
    assert counted.records == 6


def test_a_bundle_with_a_wrong_entry_is_read_but_for_that_entry(tmp_path: Path) -> None:
    entries = [{"fullUrl": "urn:uuid:p", "resource": patient()}, 5, {"resource": None}, {"resource": {"id": "x"}}]
    stay = encounter("e1", "2024-07-01T12:00:00Z", "2024-07-02T12:00:00Z")
    whole = {"resourceType": "Bundle", "entry": [*entries, {"fullUrl": 7, "resource": stay}]}
    rows, counted = flat(tmp_path, json.dumps(whole), "x.json")
    assert [row["start_time"] for row in rows["encounters"]] == [datetime(2024, 7, 1, 8)]
    assert (len(rows["patients"]), counted.quarantined, counted.records) == (1, 2, 4)
