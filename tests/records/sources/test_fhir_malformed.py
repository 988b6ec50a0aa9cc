"""Whatever an export holds, it becomes rows or is set aside with a reason: nothing breaks the ingest."""

from __future__ import annotations

import copy
import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_fhir_properties import Hospital

from effort import drawn, often
from wardround.records import load_source_spec
from wardround.records.reading.flat_tables import FlatTables
from wardround.records.sources.fhir import flatten_fhir
from wardround.records.sources.fhir.context import NAMING_TYPES
from wardround.records.sources.fhir.flattener import MAKERS

SPEC = load_source_spec("fhir").in_zone("America/New_York")
RESOURCES = [body for seed in range(6) for body in Hospital(seed, 2).resources]
RICH = {
    "meta": {"profile": ["http://h.org/x"]},
    "extension": [{"url": "http://h.org/dilution-details", "valueQuantity": {"value": 1, "comparator": "<"}}],
    "identifier": [{"system": "http://h.org/drug-name", "value": "A", "type": {"coding": [{"code": "MR"}]}}],
    "note": [{"text": "x"}],
    "classHistory": [{"class": {"code": "AMB"}, "period": {"start": "2150"}}],
    "class": {"code": "IMP"},
    "communication": [{"language": {"text": "x"}}],
    "medicationReference": {"reference": "#m"},
    "contained": [{"resourceType": "Medication", "id": "m", "code": {"coding": [{"code": "1"}]}}],
    "dosage": {"dose": {"value": 1}, "rateRatio": {"numerator": {"value": 1}, "denominator": {"value": 2}}},
    "dosageInstruction": [
        {"timing": {"repeat": {"frequency": 1, "period": 1, "periodUnit": "d"}}, "doseAndRate": [{}]}
    ],
    "dispenseRequest": {"quantity": {"value": 1}, "numberOfRepeatsAllowed": 2},
    "referenceRange": [{"low": {"value": 1}, "high": {"value": 2}}],
    "valueRange": {"low": {"value": 1}},
    "valueRatio": {"numerator": {"value": 1}},
    "dataAbsentReason": {"coding": [{"code": "x"}]},
    "presentedForm": [{"contentType": "text/plain", "data": "eA=="}],
    "content": [{"attachment": {"contentType": "text/plain", "data": "eA=="}}],
    "ingredient": [{"itemReference": {"reference": "Medication/m"}}],
    "reaction": [{"manifestation": [{"text": "x"}], "severity": "mild", "substance": {"text": "x"}}],
    "protocolApplied": [{"doseNumberPositiveInt": 1}],
    "onsetAge": {"value": 3, "unit": "a"},
    "series": [{"modality": {"code": "CT"}, "bodySite": {"display": "x"}}],
    "modality": [],
    "category": [{"coding": [{"code": "laboratory"}]}],
    "author": [{"display": "x"}],
}
"""Elements of every type, put on resources of every type: what does not belong there is not looked at."""
for kind in (*MAKERS, *NAMING_TYPES):
    RESOURCES.append({**RICH, "resourceType": kind, "id": "rich", "subject": {"reference": "Patient/ann"}})
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=8),
    st.just([]),
    st.just({}),
    st.just([None]),
    st.just([["x"]]),
    st.just({"reference": 7}),
    st.just({"coding": "I10"}),
    st.just({"value": {"value": 1}}),
)


def _places(body: object, trail: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to every element."""
    keys: list[Any] = list(body) if isinstance(body, dict) else list(range(len(body))) if isinstance(body, list) else []
    found = [(*trail, key) for key in keys]
    return found + [place for key, way in zip(keys, found, strict=True) for place in _places(body[key], way)]  # type: ignore[index]


ANYTHING: list[Any] = [None, True, 7, 2**70, 0.5, float("nan"), "x", "", [], {}, [None], [["x"]], {"a": {"b": 1}}]


def _with(body: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Return the resource with one element replaced."""
    body = copy.deepcopy(body)
    inside = body
    for key in place[:-1]:
        inside = inside[key]
    inside[place[-1]] = copy.deepcopy(value)
    return body


def test_every_element_of_every_type_may_be_anything(tmp_path: Path) -> None:
    file = tmp_path / "all.ndjson"
    count = 0
    with file.open("w") as target:
        for body in RESOURCES[-len(MAKERS) - len(NAMING_TYPES) :]:
            for place in _places(body):
                for value in drawn(ANYTHING, 2, seed=count):
                    target.write(json.dumps(_with(body, place, value)) + "\n")
                    count += 1
    flat = FlatTables(SPEC, tmp_path / "flat", tmp_path / "quarantine.jsonl")
    flatten_fhir([file], flat)
    flat.close()
    assert flat.records == count > often(1_500, 10_000)
    assert flat.rows.keys() >= {"patients", "labs", "medication_requests", "documents", "conditions"}
    assert flat.quarantined > often(150, 1_000)


@st.composite
def spoiled(draw: st.DrawFn) -> Any:
    """A resource with one to three elements replaced by something else."""
    body: Any = copy.deepcopy(draw(st.sampled_from(RESOURCES)))
    for _ in range(draw(st.integers(1, 3))):
        body = _with(body, draw(st.sampled_from(_places(body))), draw(JUNK))
    return body


@settings(max_examples=often(50, 1000), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(spoiled(), min_size=1, max_size=4), st.booleans())
def test_every_resource_is_a_row_or_counted(bodies: list[Any], in_a_bundle: bool) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / ("all.json" if in_a_bundle else "all.ndjson")
        if in_a_bundle:
            entries = [{"resource": body} for body in bodies]
            file.write_text(json.dumps({"resourceType": "Bundle", "entry": entries}))
        else:
            file.write_text("".join(f"{json.dumps(body)}\n" for body in bodies))
        flat = FlatTables(SPEC, folder / "flat", folder / "quarantine.jsonl")
        flatten_fhir([file], flat)
        flat.close()
        naming = sum(body.get("resourceType") in NAMING_TYPES for body in bodies)
        assert flat.records == len(bodies)
        assert sum(flat.rows.values()) + flat.quarantined + flat.left_out.total() >= len(bodies) - naming
        lines = (folder / "quarantine.jsonl").read_text().split("\n")[:-1] if flat.quarantined else []
        assert all(json.loads(line)["reason"] for line in lines)
        assert len(lines) == flat.quarantined


@given(st.lists(st.text(max_size=40) | st.recursive(JUNK, lambda inner: st.lists(inner, max_size=3)).map(str)))
@settings(max_examples=often(33, 100), deadline=None)
def test_lines_that_are_no_resources_are_set_aside(lines: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "all.ndjson"
        file.write_text("\n".join(lines), encoding="utf-8", errors="surrogatepass", newline="\n")
        flat = FlatTables(SPEC, Path(name) / "flat", Path(name) / "quarantine.jsonl")
        flatten_fhir([file], flat)
        flat.close()
        assert flat.rows == {}
        assert flat.quarantined == flat.records
