"""One person under several Patients: links of every type and shared identifiers make one, in splits and banks too."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from records.fhir_resources import Resource, ndjson, patient
from wardround.core import UserError
from wardround.exports import export_meds
from wardround.memory import Subject
from wardround.records import Store, ingest, load_source_spec
from wardround.records.reading.source_files import subject_number
from wardround.tasks.benchmarks.drawing import DEFAULT_FRACTIONS, split_of

MRN = "http://hospital.example/mrn"


def person(key: str, *links: str, **elements: Any) -> Resource:
    """A Patient, with links written TYPE:ID."""
    named = (each.split(":") for each in links)
    parts = [{"type": kind, "other": {"reference": f"Patient/{other}"}} for kind, other in named]
    return {**patient(key), **({"link": parts} if parts else {}), **elements}


def number(value: str, system: str | None = MRN) -> dict[str, Any]:
    return {"identifier": [{"value": value, **({"system": system} if system else {})}]}


def people(folder: Path, resources: list[Resource]) -> dict[str, int]:
    ndjson(folder / "raw" / "a.ndjson", resources)
    ingest("fhir", folder / "raw", folder / "store")
    store = Store.open(folder / "store")
    return {key: store.person_of(subject_number(key)) for key in (str(each["id"]) for each in resources)}


@pytest.mark.parametrize("kind", ["replaced-by", "replaces", "refer", "seealso"])
def test_linked_patients_are_one_person(tmp_path: Path, kind: str) -> None:
    found = people(tmp_path, [person("z"), person("b", f"{kind}:z"), person("c")])
    assert found["b"] == found["z"] != found["c"] == subject_number("c")


def test_chains_of_links_and_identifiers_are_followed_and_placeholders_are_not(tmp_path: Path) -> None:
    resources = [
        person("a", "replaced-by:b", **number("77")),
        person("b", "replaced-by:c"),
        person("c", "replaced-by:a"),
        person("d", **number("77")),
        person("e", "seealso:gone"),
        person("f", "refer:gone"),
        person("g", **number("77", "http://other.example")),
        person("h", **number("77", None)),
        *(person(f"x{n}", **number("000")) for n in range(12)),
    ]
    found = people(tmp_path, resources)
    assert found["a"] == found["b"] == found["c"] == found["d"]
    assert found["e"] == found["f"] != found["a"]
    alone = ["g", "h", *(f"x{n}" for n in range(12))]
    assert len({found["a"], found["e"], *(found[key] for key in alone)}) == len(alone) + 2


def test_forty_people_under_two_ids_stand_in_one_split_each_and_keep_their_bank(tmp_path: Path) -> None:
    """19 of 40 stood in two, 11 of them in training and in test."""
    twice = [(f"p{n}", f"q{n}") for n in range(40)]
    links = [person(one, f"replaced-by:{other}") for one, other in twice]
    found = people(tmp_path, [*links, *(person(other) for _, other in twice)])
    store = Store.open(tmp_path / "store")
    splits = {key: split_of(number, 3, DEFAULT_FRACTIONS) for key, number in found.items()}
    assert all(splits[one] == splits[other] for one, other in twice)
    day = datetime(2150, 1, 1)
    hashes = [
        {Subject.of_chart(store.chart(subject_number(key), day)).hashed(b"key") for key in pair} for pair in twice
    ]
    assert all(len(pair) == 1 for pair in hashes)
    assert "person" not in store.chart(subject_number("p1"), day).table("patients").columns


def test_after_an_export_and_an_ingest_a_person_is_known_to_a_bank(synthetic_store: Store, tmp_path: Path) -> None:
    """12 of 12 of a person's own experiences were offered to that person, by another name of the source."""
    export_meds(synthetic_store, tmp_path / "meds")
    ingest("meds", tmp_path / "meds", tmp_path / "store")
    meds = Store.open(tmp_path / "store")
    assert (meds.spec.name, meds.spec.people) == ("meds", "mimiciv")
    day = datetime(2150, 1, 1)
    for subject in meds.subjects[:12].tolist():
        here, there = (Subject.of_chart(store.chart(subject, day)) for store in (synthetic_store, meds))
        assert here.hashed(b"key") == there.hashed(b"key")
    again = tmp_path / "again"
    export_meds(meds, again)
    ingest("meds", again, tmp_path / "third")
    assert Store.open(tmp_path / "third").spec.people == "mimiciv"


def test_who_is_one_person_stays_so_after_an_export_and_an_ingest(tmp_path: Path) -> None:
    """Two linked Patients were two people of the exported data set: in two splits, and unknown to a bank."""
    found = people(tmp_path, [person("a", "replaced-by:b"), person("b"), person("c")])
    export_meds(Store.open(tmp_path / "store"), tmp_path / "meds")
    ingest("meds", tmp_path / "meds", tmp_path / "again")
    again = Store.open(tmp_path / "again")
    assert {again.person_of(subject_number(key)) for key in "ab"} == {found["a"]} == {found["b"]}
    assert again.person_of(subject_number("c")) == found["c"] == subject_number("c")
    export_meds(again, tmp_path / "twice")
    ingest("meds", tmp_path / "twice", tmp_path / "third")
    assert Store.open(tmp_path / "third").person_of(subject_number("b")) == found["b"]


def test_exports_of_two_sources_are_no_one_store(synthetic_store: Store, tmp_path: Path) -> None:
    people(tmp_path, [person("a")])
    export_meds(Store.open(tmp_path / "store"), tmp_path / "one")
    export_meds(synthetic_store, tmp_path / "two")
    with pytest.raises(UserError, match="exported from several sources"):
        ingest("meds", [tmp_path / "one", tmp_path / "two"], tmp_path / "both")


MERGES = """
[source]
name = "haus"
person = "people.merged_into"
[tables.people]
path = "people"
subject = "number"
key = ["number"]
event_time = "always"
available_at = "always"
[tables.people.columns]
number = "text"
merged_into = "text"
"""


def test_a_hospitals_chain_of_merges_is_followed_to_its_end(tmp_path: Path) -> None:
    (tmp_path / "haus.toml").write_text(MERGES, encoding="utf-8")
    (tmp_path / "raw").mkdir()
    rows = ["K1,K2", "K2,K3", "K3,", "K4,", "K5,K6", "K6,K7", "K7,K5", "K8,K3"]
    (tmp_path / "raw" / "people.csv").write_text("\n".join(["number,merged_into", *rows]) + "\n", encoding="utf-8")
    ingest(load_source_spec(tmp_path / "haus.toml"), tmp_path / "raw", tmp_path / "store")
    store = Store.open(tmp_path / "store")
    found = [store.person_of(store.subject_of(f"K{n}")) for n in range(1, 9)]
    assert found[0] == found[1] == found[2] == found[7] == subject_number("K3")
    assert found[4] == found[5] == found[6]
    assert len(set(found)) == 3
