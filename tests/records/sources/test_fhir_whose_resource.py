"""Whose a resource is, and which are nobody's or malformed."""

from __future__ import annotations

from pathlib import Path

import pytest

from records.fhir_resources import Resource, reference, resource
from records.fhir_rows import ANN, only, read
from wardround.records.sources.fhir.context import NobodysResource
from wardround.records.sources.fhir.values import Malformed


@pytest.mark.parametrize(
    ("subject", "number"),
    [
        (reference("Patient/ann"), ANN["subject_id"]),
        (reference("urn:uuid:ann"), ANN["subject_id"]),
        (reference("http://x/fhir/Patient/ann/_history/3"), ANN["subject_id"]),
        (reference("Patient/ann|2"), ANN["subject_id"]),
    ],
)
def test_a_resource_is_its_subjects_in_every_spelling(tmp_path: Path, subject: Resource, number: int) -> None:
    body = resource("Specimen", "s1", about=None, subject=subject)
    assert only(body, tmp_path)["subject_id"] == number
    bundle = {"urn:uuid:7": "Patient/ann"}
    named = resource("Specimen", "s1", about=None, subject=reference("urn:uuid:7"))
    assert read(named, tmp_path, bundle)[0][0][1]["subject_id"] == number


@pytest.mark.parametrize(
    ("subject", "why"),
    [(None, "subject: missing"), (reference("Patient?x=1"), "has no id"), ({"display": "A"}, "has no id")],
)
def test_a_resource_of_nobody_is_malformed(tmp_path: Path, subject: Resource | None, why: str) -> None:
    with pytest.raises(Malformed, match=why):
        read(resource("Specimen", "s1", about=None, **({"subject": subject} if subject else {})), tmp_path)


def test_a_resource_of_a_group_is_nobodys(tmp_path: Path) -> None:
    with pytest.raises(NobodysResource):
        read(resource("Specimen", "s1", about="Group/1"), tmp_path)


@pytest.mark.parametrize("key", [None, "", 7])
def test_a_resource_without_an_id_is_malformed(tmp_path: Path, key: object) -> None:
    body = resource("Specimen", "s1")
    body["id"] = key
    with pytest.raises(Malformed, match="id: missing"):
        read(body, tmp_path)
