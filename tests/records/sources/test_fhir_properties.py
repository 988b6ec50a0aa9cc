"""Properties of FHIR charts: a chart now is the chart of an export made now, and nothing shown is taken back."""

from __future__ import annotations

import base64
import random
import tempfile
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from effort import often
from exports.test_meds_export import seen
from records.fhir_past import export_as_of
from records.fhir_resources import (
    ANN,
    ANN_NUMBER,
    SAMPLES_ZONE,
    code,
    everything,
    made,
    ndjson,
    patient,
    reference,
    resource,
)
from wardround.audits import audit_leaks
from wardround.exports.meds import export_meds
from wardround.records import IngestSettings, Store, ingest
from wardround.records.specs.wall_clock import WallClock

Resource = dict[str, Any]
MODEST = settings(
    max_examples=often(4, 100),
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow],
)
"""Every example is an ingest or more, and a seed does not shrink."""
NOTED = {"Condition", "Observation", "Procedure", "MedicationRequest", "MedicationAdministration", "MedicationDispense"}
NOTED |= {"MedicationStatement", "Immunization", "AllergyIntolerance", "Specimen", "ImagingStudy"}
START = datetime(2150, 3, 10)
MOMENTS = [START + timedelta(hours=6 * step) for step in range(20)] + [START + timedelta(days=8)]
ICD10PCS = "http://hl7.org/fhir/sid/icd-10-pcs"
BOSTON = WallClock.named(SAMPLES_ZONE)
HERE = IngestSettings(time_zone=SAMPLES_ZONE)
CATEGORIES = ["laboratory", "vital-signs", "survey", "imaging", "MB"]


class Hospital:
    """Resources of one person with whatever elements a draw gives them."""

    def __init__(self, seed: int, most: int) -> None:
        self._draw = random.Random(seed)
        kinds = [name.removeprefix("_make_") for name in dir(self) if name.startswith("_make_")]
        self.keys = {kind: [f"{kind}{number}" for number in range(self._draw.randint(0, most))] for kind in kinds}
        self.resources: list[Resource] = [patient(**self._some(deceasedDateTime=self._time))]
        for kind, keys in self.keys.items():
            for key in keys:
                elements = getattr(self, f"_make_{kind}")() | self._some(meta=lambda: {"lastUpdated": self._instant()})
                if kind in NOTED:
                    elements |= self._some(note=self._notes)
                if kind != "Encounter" and self._draw.random() < 0.8:
                    elements |= self._encounter(kind)
                self.resources.append(resource(kind, key, **elements))

    def _time(self) -> str:
        moment = self._draw.choice(MOMENTS)
        if self._draw.random() < 0.2:
            return moment.date().isoformat()
        return self._written(moment + timedelta(milliseconds=self._draw.choice([0, 250])))

    def _instant(self) -> str:
        return self._written(self._draw.choice(MOMENTS))

    def _written(self, moment: datetime) -> str:
        """A time of the hospital, whose clock is :data:`BOSTON`, as one of several systems writes it."""
        away = timezone(timedelta(hours=self._draw.choice([0, -5, 2])))
        return moment.replace(tzinfo=BOSTON.zone).astimezone(away).isoformat()

    def _notes(self) -> list[Resource]:
        return [{"text": self._word()} | self._some(time=self._time) for _ in range(self._draw.randint(1, 3))]

    def _some(self, **makers: Any) -> Resource:
        return {name: make() for name, make in makers.items() if self._draw.random() < 0.7}

    def _period(self) -> Resource:
        return self._some(start=self._time, end=self._time)

    def _of(self, kind: str) -> Resource:
        return reference(f"{kind}/{self._draw.choice([*self.keys[kind], 'lost'])}")

    def _encounter(self, kind: str) -> Resource:
        named = self._of("Encounter")
        if kind == "DocumentReference":
            return {}
        return {"context" if kind.startswith("Medication") and kind != "MedicationRequest" else "encounter": named}

    def _word(self) -> str:
        return self._draw.choice(["a", "b", "c"])

    def _code(self) -> Resource:
        return code(self._word(), self._word())

    def _codes(self) -> list[Resource]:
        return [self._code() for _ in range(self._draw.randint(1, 2))]

    def _group(self) -> list[Resource]:
        return [{"coding": [{"code": self._draw.choice(CATEGORIES)}]}]

    def _make_Encounter(self) -> Resource:
        places = [
            {"location": {"display": self._word()}, "period": self._period()} for _ in range(self._draw.randint(0, 3))
        ]
        period = {"start": self._time()} | self._some(end=self._time)
        stay = self._some(dischargeDisposition=lambda: code(self._draw.choice(["home", "exp"])), admitSource=self._code)
        diagnoses = [{"condition": self._of("Condition")} for _ in range(self._draw.randint(0, 2))]
        late = self._some(
            type=self._codes, reasonCode=self._codes, serviceType=self._code, length=lambda: {"value": 3, "code": "h"}
        )
        shown = {
            "status": self._draw.choice(["finished", "cancelled", "entered-in-error"]),
            "period": period,
            "location": places,
            "hospitalization": stay,
        }
        return shown | late | {"diagnosis": diagnoses, "partOf": self._of("Encounter"), "class": {"code": "IMP"}}

    def _make_Condition(self) -> Resource:
        kinds = [{"coding": [{"code": self._draw.choice(["encounter-diagnosis", "problem-list-item"])}]}]
        times = self._some(recordedDate=self._time, onsetDateTime=self._time, abatementDateTime=self._time)
        statuses = self._some(clinicalStatus=self._code, verificationStatus=self._verified)
        return {"code": self._code(), "category": kinds} | times | statuses

    def _verified(self) -> Resource:
        return {"coding": [{"code": self._draw.choice(["confirmed", "refuted", "entered-in-error"])}]}

    def _make_Observation(self) -> Resource:
        value = {"valueQuantity": {"value": self._draw.randint(1, 9), "unit": "u"}}
        links = {"hasMember": [self._of("Observation") for _ in range(self._draw.randint(0, 2))]}
        links |= {"derivedFrom": [self._of("Observation")], "specimen": self._of("Specimen")}
        times = self._some(effectiveDateTime=self._time, issued=self._time)
        more = self._some(category=self._group, component=lambda: [{"code": self._code(), "valueString": "x"}])
        system = self._draw.choice(["http://loinc.org", "http://loinc.org", "http://h.org/antibiotic"])
        named = code(self._word(), self._word(), system)
        return (
            {"code": named, "status": self._draw.choice(["final", "amended", "entered-in-error"])}
            | value
            | links
            | times
            | more
        )

    def _make_DiagnosticReport(self) -> Resource:
        results = {"result": [self._of("Observation") for _ in range(self._draw.randint(0, 2))]}
        times = self._some(effectiveDateTime=self._time, issued=self._time)
        return {"code": self._code(), "conclusion": self._word()} | results | times | self._some(category=self._group)

    def _make_Procedure(self) -> Resource:
        when: Resource = self._draw.choice([{"performedPeriod": self._period()}, {"performedDateTime": self._time()}])
        named = code(self._word(), self._word(), self._draw.choice([ICD10PCS, "http://snomed.info/sct"]))
        more = self._some(outcome=self._code, complication=self._codes)
        return when | more | {"code": named, "status": "completed", "reasonReference": [self._of("Condition")]}

    def _make_MedicationRequest(self) -> Resource:
        supply = {"dispenseRequest": {"validityPeriod": self._period()}}
        drug = {"medicationCodeableConcept": self._code(), "status": "stopped"}
        return drug | supply | self._some(authoredOn=self._time) | {"reasonReference": [self._of("Condition")]}

    def _make_MedicationAdministration(self) -> Resource:
        when: Resource = self._draw.choice([{"effectivePeriod": self._period()}, {"effectiveDateTime": self._time()}])
        when |= self._some(dosage=lambda: {"dose": {"value": 3}}) | {"status": self._word()}
        return when | {"medicationCodeableConcept": self._code(), "request": self._of("MedicationRequest")}

    def _make_MedicationDispense(self) -> Resource:
        orders = {
            "authorizingPrescription": [self._of("MedicationRequest")],
            "status": self._draw.choice(["completed", "preparation"]),
        }
        return orders | self._some(whenHandedOver=self._time, whenPrepared=self._time)

    def _make_MedicationStatement(self) -> Resource:
        return {"status": "active", "effectivePeriod": self._period()} | self._some(dateAsserted=self._time)

    def _make_Immunization(self) -> Resource:
        times = self._some(occurrenceDateTime=self._time, recorded=self._time)
        return {"vaccineCode": self._code(), "status": "completed"} | times

    def _make_AllergyIntolerance(self) -> Resource:
        reactions = [{"manifestation": self._codes()} | self._some(onset=self._time) for _ in range(2)]
        return {"code": self._code(), "reaction": reactions, "verificationStatus": self._verified()} | self._some(
            recordedDate=self._time, onsetDateTime=self._time, lastOccurrence=self._time
        )

    def _make_Specimen(self) -> Resource:
        taken = {"collection": self._some(collectedDateTime=self._time)}
        return {"type": self._code()} | taken | self._some(receivedTime=self._time)

    def _make_DocumentReference(self) -> Resource:
        data = base64.b64encode(self._word().encode()).decode()
        context = {"period": self._period(), "encounter": [self._of("Encounter")]}
        file = {"contentType": "text/plain", "data": data}
        content = [{"attachment": file | self._some(creation=self._time)} for _ in range(self._draw.randint(1, 2))]
        return {"type": self._code(), "content": content, "context": context} | self._some(date=self._time)

    def _make_ImagingStudy(self) -> Resource:
        series = [{"modality": {"code": self._word()}} | self._some(started=self._time) for _ in range(2)]
        return {"modality": [{"code": "CT"}], "series": series} | self._some(started=self._time)


def _rows(store: Store, as_of: datetime) -> dict[str, list[Mapping[str, Any]]]:
    return {name: found for name, found in everything(store.chart(ANN_NUMBER, as_of)).items() if found}


@MODEST
@example(seed=354, most=3, as_of=datetime(2150, 3, 13, 18))
@example(seed=669, most=2, as_of=datetime(2150, 3, 14, 18))
@given(seed=st.integers(0, 2**32), most=st.integers(1, 4), as_of=st.sampled_from(MOMENTS))
def test_a_chart_is_that_of_an_export_made_at_its_moment(seed: int, most: int, as_of: datetime) -> None:
    resources = Hospital(seed, most).resources
    with tempfile.TemporaryDirectory() as name:
        now, _ = made(Path(name) / "now", resources, HERE)
        then, _ = made(Path(name) / "then", export_as_of(BOSTON.read(resources), as_of), HERE)
        shown, expected = _rows(now, as_of), _rows(then, as_of)
        assert shown.keys() == expected.keys()
        for table, found in shown.items():
            assert found == expected[table], table


@MODEST
@given(st.integers(0, 2**32), st.integers(1, 5), st.sets(st.sampled_from(MOMENTS), min_size=1, max_size=4))
def test_the_audit_of_any_export_is_clean(seed: int, most: int, moments: set[datetime]) -> None:
    with tempfile.TemporaryDirectory() as name:
        raw = ndjson(Path(name) / "raw" / "export.ndjson", Hospital(seed, most).resources).parent
        ingest("fhir", raw, Path(name) / "store", settings=HERE)
        store = Store.open(Path(name) / "store")
        report = audit_leaks(store, [(ANN_NUMBER, moment) for moment in moments], raw_folder=raw)
    assert report.clean, report.as_text()
    assert report.unmatched_rows == 0


@MODEST
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_nothing_once_shown_is_taken_back_or_changed_but_what_was_withdrawn(seed: int, most: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        store, _ = made(Path(name), Hospital(seed, most).resources, HERE)
        shown: dict[str, Mapping[str, Any]] = {}
        for as_of in sorted(MOMENTS):
            now = {row["row_id"]: row for found in _rows(store, as_of).values() for row in found}
            for row_id, row in shown.items():
                if row_id not in now:
                    assert _withdrawn(store, row_id) <= as_of
                    continue
                for column, cell in row.items():
                    assert cell is None or column == "age" or now[row_id][column] == cell, (row_id, column, as_of)
            shown = now


@MODEST
@given(st.integers(0, 2**32), st.integers(1, 5))
def test_versions_withdrawals_and_cancellations_come_back_from_meds(seed: int, most: int) -> None:
    with tempfile.TemporaryDirectory() as name:
        store, _ = made(Path(name) / "fhir", Hospital(seed, most).resources, HERE)
        export_meds(store, Path(name) / "meds")
        ingest("meds", Path(name) / "meds", Path(name) / "again")
        again = Store.open(Path(name) / "again")
        for as_of in sorted(MOMENTS) if ANN_NUMBER in store.subjects and ANN_NUMBER in again.subjects else ():
            assert seen(again.chart(ANN_NUMBER, as_of)) == seen(store.chart(ANN_NUMBER, as_of)), as_of


def _withdrawn(store: Store, row_id: str) -> datetime:
    """When the store says that a row was taken back."""
    rows = store.rows(ANN_NUMBER, row_id.partition(":")[0]).to_pylist()
    return next(row["_until"] for row in rows if row["row_id"] == row_id)


def test_subjects_are_named_alike_in_every_spelling() -> None:
    assert ANN_NUMBER > 0
    with tempfile.TemporaryDirectory() as name:
        spellings = [f"Patient/{ANN}", f"https://h.org/fhir/Patient/{ANN}", f"Patient/{ANN}/_history/2"]
        problems = [resource("Condition", f"c{n}", about=url, recordedDate="2150") for n, url in enumerate(spellings)]
        store, report = made(Path(name), [patient(), *problems], HERE)
    assert store.subjects.tolist() == [ANN_NUMBER]
    assert report.rows["conditions"] == 3
