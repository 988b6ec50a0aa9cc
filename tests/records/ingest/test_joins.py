"""Labels beside a code: the dictionary's row, whatever its key is made of, and a grouper's label."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from wardround.records.ingest import joins
from wardround.records.ingest.joins import DictionaryIndex, GroupLabels
from wardround.records.specs.spec import DictionaryJoin, GroupJoin


def places(keys: dict[str, Any], cells: dict[str, Any]) -> list[int | None]:
    index = DictionaryIndex(pa.table(keys), list(keys))
    join = DictionaryJoin(table="d", on=tuple(cells), add={})
    found = index.places(pa.record_batch(cells), join)
    assert found.type == pa.int32()
    return found.to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize("cells", [[7, None, 9, 3, 8], [7, None, 9, 3, 8] * 3])
def test_a_whole_number_is_looked_up_wherever_it_stands(cells: list[int | None]) -> None:
    found = [1, None, 0, 2, None] * (len(cells) // 5)
    assert places({"id": [9, 7, 3]}, {"id": cells}) == found
    assert places({"id": [9, 7, 3, None]}, {"id": cells}) == found  # a key that is none is nobody's
    assert places({"id": [9, 7, 3]}, {"id": [100, -1, 0]}) == [None] * 3
    assert places({"id": pa.array([], pa.int64())}, {"id": cells}) == [None] * len(cells)


def test_of_a_key_given_twice_the_first_counts() -> None:
    assert places({"id": [5, 4, 5]}, {"id": [5, 4]}) == [0, 1]
    assert places({"id": ["b", "a", "b"]}, {"id": ["b", "a"]}) == [0, 1]


@pytest.mark.parametrize("count", [1, 3])
def test_codes_compare_as_text_without_outer_spaces(count: int) -> None:
    assert (
        places({"code": ["A1 ", "B2"]}, {"code": [" A1", "B2", "b2", None, "A 1"] * count})
        == [
            0,
            1,
            None,
            None,
            None,
        ]
        * count
    )


def test_a_key_of_two_columns_is_matched_in_both() -> None:
    keys = {"code": ["10", "1", "10"], "version": [9, 9, 10]}
    cells = {"code": ["10 ", "10", "1", "1", None], "version": [10, 9, 9, 10, 9]}
    assert places(keys, cells) == [2, 0, 1, None, None]
    assert places({"a": ["1", "11"], "b": ["12", "2"]}, {"a": ["11", "1", "1"], "b": ["2", "12", "2"]}) == [1, 0, None]


class Grouper:
    """Labels a code by itself and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str | None]] = []

    def label(self, name: str, ndc: str | None) -> str | None:
        self.asked.append((name, ndc))
        return None if name == "unknown" else f"{name}/{ndc}"

    def category(self, code: str, version: str) -> Any:
        self.asked.append((code, version))
        return None if code == "unknown" else type("Category", (), {"label": f"{code}.{version}"})


@pytest.fixture
def groupers(monkeypatch: pytest.MonkeyPatch) -> dict[str, Grouper]:
    made = {"diagnoses": Grouper(), "procedures": Grouper(), "drugs": Grouper()}
    monkeypatch.setattr(joins, "load_ccs", lambda kind, user_codes: made[kind])
    monkeypatch.setattr(joins, "load_drugs", lambda user_codes: made["drugs"])
    return made


def test_a_code_is_grouped_once_by_its_version(groupers: dict[str, Grouper]) -> None:
    batch = pa.record_batch({"code": ["A1 ", "A1 ", "unknown", None, "A1 "], "version": [9, 9, 9, 9, None]})
    labels = GroupLabels(None)
    for system, kind in (("ccs-diagnoses", "diagnoses"), ("ccs-procedures", "procedures")):
        join = GroupJoin(system=system, code="code", name="label", version="version")
        assert labels.labels(batch, join).to_pylist() == ["A1.9", "A1.9", None, None, None]
        assert labels.labels(batch, join).to_pylist() == ["A1.9", "A1.9", None, None, None]
        assert groupers[kind].asked == [("A1", "9"), ("unknown", "9")]


def test_a_source_may_have_one_version_for_all(groupers: dict[str, Grouper]) -> None:
    join = GroupJoin(system="ccs-diagnoses", code="code", name="label", fixed_version=10)
    assert GroupLabels(None).labels(pa.record_batch({"code": ["I10"]}), join).to_pylist() == ["I10.10"]


def test_a_drug_has_a_label_with_and_without_its_number(groupers: dict[str, Grouper]) -> None:
    batch = pa.record_batch({"drug": ["aspirin", "aspirin", "unknown", None], "ndc": [123, None, 5, 6]})
    numbered = GroupJoin(system="atc", code="drug", name="label", ndc="ndc")
    assert GroupLabels(None).labels(batch, numbered).to_pylist() == ["aspirin/123", "aspirin/None", None, None]
    absent = GroupJoin(system="atc", code="drug", name="label", ndc="no_such_column")
    assert GroupLabels(None).labels(batch, absent).to_pylist() == ["aspirin/None", "aspirin/None", None, None]
    assert groupers["diagnoses"].asked == []
