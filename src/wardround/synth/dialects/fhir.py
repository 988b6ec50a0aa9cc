"""The synthetic hospital as a bulk export of FHIR R4."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from wardround.synth.dialects.source import HospitalTables, Row, later, some_twice

# What a FHIR export adds to resources after they were written: dated parts, and statuses as they turned out.


Resource = dict[str, Any]
TIME_ZONE = "-05:00"
"""Where the hospital is, whose clock is never changed: every time says so."""
_EVERY = 9
_LATER = {
    "Encounter": ("status", "cancelled"),
    "MedicationRequest": ("status", "entered-in-error"),
    "MedicationAdministration": ("status", "entered-in-error"),
    "Procedure": ("status", "entered-in-error"),
    "Observation": ("status", "entered-in-error"),
}
_NOTED = ("MedicationRequest", "Condition", "Observation", "Procedure", "MedicationAdministration")


def hindsight(resources: Iterable[Resource]) -> Iterator[Resource]:
    """Yield resources, some with a note written days later, a few with a status that was given when it was all over."""
    for place, resource in enumerate(resources):
        kind = resource["resourceType"]
        if kind in _NOTED and place % _EVERY == 2 and (start := _start(resource)):
            resource["note"] = [{"time": _moved(start, 3), "text": "Looked at again: stopped, the person was worse."}]
        if kind == "Encounter" and place % (2 * _EVERY) != 5:
            pass
        elif kind in _LATER and place % (4 * _EVERY) == 5:
            name, status = _LATER[kind]
            resource[name] = status
        elif kind == "Condition" and place % _EVERY == 5:
            resource["verificationStatus"] = _coded("condition-ver-status", "refuted")
        yield resource


def _start(resource: Resource) -> str | None:
    """Return when a resource begins, as it says itself."""
    period = resource.get("effectivePeriod") or resource.get("performedPeriod") or {}
    for at in (resource.get("authoredOn"), resource.get("effectiveDateTime"), resource.get("performedDateTime")):
        if at:
            return str(at)
    return period.get("start")


def _moved(at: str, days: float) -> str:
    text = later(at[:19].replace("T", " ") if len(at) > 10 else f"{at} 00:00:00", days=days)
    return f"{text[:10]}T{text[11:19]}{TIME_ZONE}"


def _added_at(text: str) -> str:
    return f"{text[:10]}T{text[11:19]}{TIME_ZONE}"


def _coded(system: str, code: str) -> Resource:
    return {"coding": [{"system": f"http://terminology.hl7.org/CodeSystem/{system}", "code": code}]}


def dated_additions(source: HospitalTables) -> Iterator[Resource]:
    """Yield, for some stays, a problem, allergy, specimen, vaccine, imaging study, document and infusion with parts
    that came later than the rest, or that never ended."""
    for place, (key, row) in enumerate(source.admissions.items()):
        if place % 3:
            continue
        start, after = row["admittime"], 2.5 + place % 4
        person = {"reference": f"Patient/{row['subject_id']}"}
        stay = {"encounter": {"reference": f"Encounter/{key}"}}
        noted = {"note": [{"time": _moved(start, after), "text": "Seen again."}]}
        yield {
            "resourceType": "AllergyIntolerance",
            "id": f"a{key}",
            "patient": person,
            "recordedDate": _added_at(start),
            "code": {"text": "Penicillin"},
            "verificationStatus": _coded("allergyintolerance-verification", "refuted" if place % 2 else "confirmed"),
            "reaction": [
                {"manifestation": [{"text": "rash"}]},
                {"onset": _moved(start, after), "manifestation": [{"text": "anaphylaxis"}], "severity": "severe"},
            ],
            **noted,
        }
        yield {
            "resourceType": "Condition",
            "id": f"problem{key}",
            "subject": person,
            "recordedDate": _added_at(start),
            "category": [_coded("condition-category", "problem-list-item")],
            "code": {"text": "Pulmonary embolism"},
            "verificationStatus": _coded("condition-ver-status", "refuted" if place % 2 else "confirmed"),
            **stay,
        }
        yield {
            "resourceType": "ImagingStudy",
            "id": f"x{key}",
            "subject": person,
            "status": "available",
            "started": _added_at(start),
            "series": [
                {"uid": f"1.{key}.1", "started": _added_at(start), "modality": {"code": "CR"}},
                {"uid": f"1.{key}.2", "started": _moved(start, after), "modality": {"code": "CT"}},
            ],
            **stay,
        }
        yield {
            "resourceType": "DocumentReference",
            "id": f"d{key}",
            "subject": person,
            "status": "current",
            "date": _added_at(start),
            "type": {"text": "Note"},
            "content": [
                {"attachment": {"title": "first", "creation": _added_at(start), "contentType": "text/plain"}},
                {"attachment": {"title": "addendum", "creation": _moved(start, after), "contentType": "text/plain"}},
            ],
        }
        yield {
            "resourceType": "Specimen",
            "id": f"sp{key}",
            "subject": person,
            "type": {"text": "Blood"},
            "collection": {"collectedDateTime": _added_at(start)},
            **noted,
        }
        yield {
            "resourceType": "Immunization",
            "id": f"im{key}",
            "patient": person,
            "status": "completed",
            "occurrenceDateTime": _added_at(start),
            "vaccineCode": {"text": "Influenza"},
            **noted,
        }
        yield {
            "resourceType": "MedicationAdministration",
            "id": f"run{key}",
            "subject": person,
            "context": {"reference": f"Encounter/{key}"},
            "status": "in-progress" if place % 2 else "completed",
            "medicationCodeableConcept": {"text": "Norepinephrine"},
            "effectivePeriod": {"start": _added_at(start)} | ({} if place % 2 else {"end": _moved(start, after)}),
            "dosage": {"rateQuantity": {"value": 3.5, "unit": "ug/min"}},
        }


def isolates(source: HospitalTables) -> Iterator[Resource]:
    """Yield of every stay a sample of what grew in another, dated like the draw, and its result, at the end."""
    for key, row in source.admissions.items():
        about = {"subject": {"reference": f"Patient/{row['subject_id']}"}}
        collection = {"collection": {"collectedDateTime": _added_at(row["admittime"])}}
        yield {"resourceType": "Specimen", "id": f"draw{key}", "type": {"text": "Sample"}, **about, **collection}
        origin = {"parent": [{"reference": f"Specimen/draw{key}"}]}
        yield {
            "resourceType": "Specimen",
            "id": f"isolate{key}",
            "type": {"text": "Isolate"},
            **about,
            **collection,
            **origin,
        }
        yield {
            "resourceType": "Observation",
            "id": f"grown{key}",
            "status": "final",
            "code": {"text": "Organism"},
            "effectiveDateTime": _added_at(row["admittime"]),
            "issued": _added_at(row["dischtime"]),
            "specimen": {"reference": f"Specimen/isolate{key}"},
            **about,
        }


# The synthetic hospital as a bulk export of FHIR R4 resources, in the profiles that MIMIC-IV was published in.
#
# Its traps (`fhir_additions.py`): notes, reactions, series and attachments that came later, statuses as at export.


_CODES = "http://terminology.hl7.org/CodeSystem"
_MIMIC = "http://mimic.mit.edu/fhir/mimic/CodeSystem"


def write_fhir(hospital: Path, folder: Path) -> None:
    """Write an NDJSON file for each kind of resource."""
    source = HospitalTables(hospital)
    files: dict[str, Iterable[Resource]] = {
        "Patient": _patients(source),
        "Encounter": hindsight([*_encounters(source), *_unit_encounters(source)]),
        "Condition": hindsight(_conditions(source)),
        "Procedure": hindsight(_procedures(source)),
        "ObservationLabevents": hindsight(_labs(source)),
        "ObservationOutputevents": _outputs(source),
        "ObservationMicro": _cultures(source),
        "MedicationRequest": hindsight(_requests(source)),
        "MedicationAdministration": hindsight([*_given(source), *_infused(source)]),
        "Additions": dated_additions(source),
        "Isolates": isolates(source),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, resources in files.items():
        _write(folder / f"{name}.ndjson", some_twice(resources))
    if source.rows("corrections"):
        # none twice: of versions that claim one moment the first known stays
        _write(folder / "ObservationCorrected.ndjson", _corrected(source))


def _write(path: Path, resources: Iterable[Resource]) -> None:
    with path.open("w", encoding="utf-8") as target:
        target.writelines(json.dumps(resource) + "\n" for resource in resources)


def _resource(kind: str, key: str, row: Row, **elements: Any) -> Resource:
    """Return a resource of a row's person, in the row's stay."""
    body: Resource = {"resourceType": kind, "id": key, "subject": {"reference": f"Patient/{row['subject_id']}"}}
    if row.get("hadm_id") and kind != "Encounter":
        context = "context" if kind.startswith("MedicationAdm") else "encounter"
        body[context] = {"reference": f"Encounter/{row['hadm_id']}"}
    return body | {name: value for name, value in elements.items() if value is not None}


def _code(value: str, display: str = "", system: str = "") -> Resource:
    coding = {"system": system or f"{_MIMIC}/mimic-d-items", "code": value}
    return {"coding": [coding | ({"display": display} if display else {})]}


def _at(text: str) -> str | None:
    """Return a time as FHIR writes it; None for none."""
    return f"{text[:10]}T{text[11:19]}{TIME_ZONE}" if len(text) > 10 else text or None


def _period(start: str, end: str) -> Resource:
    return {name: at for name, text in (("start", start), ("end", end)) if (at := _at(text)) is not None}


def _patients(source: HospitalTables) -> Iterator[Resource]:
    died = {row["subject_id"]: row["deathtime"] for row in source.admissions.values() if row["deathtime"]}
    for key, row in source.patients.items():
        death = _at(died.get(key) or row["dod"])
        yield {
            "resourceType": "Patient",
            "id": key,
            "gender": "female" if row["gender"] == "F" else "male",
            "birthDate": f"{source.born(row)}-01-01",
            "identifier": [{"value": key, "system": "http://mimic.mit.edu/fhir/mimic/identifier/patient"}],
        } | ({"deceasedDateTime": death} if death else {})


def _encounters(source: HospitalTables) -> Iterator[Resource]:
    beds: dict[str, list[Resource]] = {}
    for row in source.rows("transfers"):
        if row["hadm_id"] and row["eventtype"] != "discharge":
            place: Resource = {"reference": "Location/0", "display": row["careunit"]}
            beds.setdefault(row["hadm_id"], []).append(
                {"location": place, "period": _period(row["intime"], row["outtime"])}
            )
    for key, row in source.admissions.items():
        yield _resource(
            "Encounter",
            key,
            row,
            status="finished",
            **{"class": {"system": f"{_CODES}/v3-ActCode", "code": "IMP", "display": "inpatient encounter"}},
            period=_period(row["admittime"], row["dischtime"]),
            location=beds.get(key),
            serviceType=_code("MED", system=f"{_MIMIC}/mimic-services"),
            priority=_code(row["admission_type"], system=f"{_MIMIC}/mimic-admission-type"),
            hospitalization={
                "admitSource": _code(row["admission_location"], system=f"{_MIMIC}/mimic-admit-source"),
                "dischargeDisposition": _code(
                    row["discharge_location"] or "HOME", system=f"{_MIMIC}/mimic-discharge-disposition"
                ),
            },
        )


def _unit_encounters(source: HospitalTables) -> Iterator[Resource]:
    for table, code in (("edstays", "EMER"), ("icustays", "ACUTE")):
        for row in source.rows(table):
            if row["stay_id"] in source.admissions:
                continue
            yield _resource(
                "Encounter",
                f"{table}-{row['stay_id']}",
                row,
                status="finished",
                **{"class": {"system": f"{_CODES}/v3-ActCode", "code": code}},
                period=_period(row["intime"], row["outtime"]),
                partOf={"reference": f"Encounter/{row['hadm_id']}"} if row["hadm_id"] else None,
            )


def _conditions(source: HospitalTables) -> Iterator[Resource]:
    titles = source.titles("d_icd_diagnoses", "icd_code", "long_title")
    category = [_code("encounter-diagnosis", system=f"{_CODES}/condition-category")]
    for row in source.rows("diagnoses_icd"):
        code = _code(
            row["icd_code"], titles.get(row["icd_code"], ""), f"{_MIMIC}/mimic-diagnosis-icd{row['icd_version']}"
        )
        yield _resource("Condition", f"c{row['hadm_id']}-{row['seq_num']}", row, category=category, code=code)


def _procedures(source: HospitalTables) -> Iterator[Resource]:
    for row in source.rows("procedures_icd"):
        code = _code(row["icd_code"], system=f"{_MIMIC}/mimic-procedure-icd{row['icd_version']}")
        key = f"p{row['hadm_id']}-{row['seq_num']}"
        done = f"{row['chartdate'][:10]}T00:00:00{TIME_ZONE}"
        yield _resource("Procedure", key, row, status="completed", code=code, performedDateTime=done)
    for place, row in enumerate(source.rows("procedureevents")):
        period = _period(row["starttime"], row["endtime"])
        yield _resource(
            "Procedure", f"pe{place}", row, status="completed", code=_code(row["itemid"]), performedPeriod=period
        )


def _labs(source: HospitalTables) -> Iterator[Resource]:
    names = source.titles("d_labitems", "itemid", "label")
    corrected = {row["labevent_id"] for row in source.rows("corrections")}
    for row in source.rows("labevents"):
        if row["labevent_id"] not in corrected:
            yield _lab(row, names)


def _corrected(source: HospitalTables) -> Iterator[Resource]:
    """Yield both versions of every result that was corrected, as an export with history does."""
    names = source.titles("d_labitems", "itemid", "label")
    first = {row["labevent_id"]: row for row in source.rows("labevents")}
    for correction in source.rows("corrections"):
        row = first[correction["labevent_id"]]
        yield _lab(row, names) | {"meta": {"versionId": "1", "lastUpdated": _at(row["storetime"])}}
        meta = {"versionId": "2", "lastUpdated": _at(correction["storetime"])}
        yield _lab(row | {"valuenum": correction["valuenum"]}, names) | {"status": "corrected", "meta": meta}


def _lab(row: Row, names: Mapping[str, str]) -> Resource:
    value: Resource = {"valueString": row["value"]}
    if row["valuenum"]:
        value = {"valueQuantity": {"value": float(row["valuenum"]), "unit": row["valueuom"]}}
    return _resource(
        "Observation",
        f"l{row['labevent_id']}",
        row,
        status="final",
        category=[_code("laboratory", system=f"{_CODES}/observation-category")],
        code=_code(row["itemid"], names.get(row["itemid"], ""), f"{_MIMIC}/mimic-d-labitems"),
        effectiveDateTime=_at(row["charttime"]),
        issued=_at(row["storetime"]),
        **value,
    )


def _outputs(source: HospitalTables) -> Iterator[Resource]:
    category = [_code("Output", system=f"{_MIMIC}/mimic-observation-category")]
    for place, row in enumerate(source.rows("outputevents")):
        yield _resource(
            "Observation",
            f"o{place}",
            row,
            status="final",
            category=category,
            code=_code(row["itemid"]),
            effectiveDateTime=_at(row["charttime"]),
            issued=_at(row["storetime"]),
            valueQuantity={"value": float(row["value"] or 0), "unit": row["valueuom"]},
        )


def _cultures(source: HospitalTables) -> Iterator[Resource]:
    """Yield a test for each culture, an organism for each that grew, a susceptibility for each antibiotic."""
    category = [_code("laboratory", system=f"{_CODES}/observation-category"), _code("MB", system=f"{_CODES}/v2-0074")]
    written: set[str] = set()
    for row in source.rows("microbiologyevents"):
        taken_at = _at(row["charttime"] or row["chartdate"][:10])
        test = f"m{row['micro_specimen_id']}-{row['test_seq']}"
        common = {"status": "final", "category": category}
        if test not in written:
            written.add(test)
            code = _code(row["test_itemid"], row["test_name"], f"{_MIMIC}/mimic-microbiology-test")
            yield _resource("Observation", test, row, code=code, effectiveDateTime=taken_at, **common)
        organism = f"{test}-{row['org_itemid']}-{row['isolate_num']}"
        if row["org_itemid"] and organism not in written:
            written.add(organism)
            code = _code(row["org_itemid"], row["org_name"], f"{_MIMIC}/mimic-microbiology-organism")
            origin = [{"reference": f"Observation/{test}"}]
            yield _resource(
                "Observation", organism, row, code=code, effectiveDateTime=taken_at, derivedFrom=origin, **common
            )
        if row["ab_itemid"]:
            code = _code(row["ab_itemid"], row["ab_name"], f"{_MIMIC}/mimic-microbiology-antibiotic")
            found = {"valueCodeableConcept": _code(row["interpretation"] or "S")}
            origin = [{"reference": f"Observation/{organism}"}]
            key, read = f"s{row['microevent_id']}", _at(row["storetime"])
            yield _resource(
                "Observation", key, row, code=code, effectiveDateTime=read, derivedFrom=origin, **common, **found
            )


def _requests(source: HospitalTables) -> Iterator[Resource]:
    drugs = {row["pharmacy_id"]: row["drug"] for row in source.rows("prescriptions")}
    for row in source.rows("pharmacy"):
        yield _resource(
            "MedicationRequest",
            f"r{row['pharmacy_id']}",
            row,
            status="stopped" if row["status"].startswith("Discontinued") else "completed",
            intent="order",
            authoredOn=_at(row["entertime"]),
            medicationCodeableConcept=_code(
                drugs.get(row["pharmacy_id"], row["medication"]), system=f"{_MIMIC}/mimic-medication-name"
            ),
            dispenseRequest={"validityPeriod": _period(row["starttime"], row["stoptime"])},
        )


def _given(source: HospitalTables) -> Iterator[Resource]:
    for row in source.rows("emar"):
        yield _resource(
            "MedicationAdministration",
            f"e{row['emar_id']}",
            row,
            status="completed",
            effectiveDateTime=_at(row["charttime"]),
            medicationCodeableConcept=_code(row["medication"], system=f"{_MIMIC}/mimic-medication-name"),
            request={"reference": f"MedicationRequest/r{row['pharmacy_id']}"} if row["pharmacy_id"] else None,
        )


def _infused(source: HospitalTables) -> Iterator[Resource]:
    for place, row in enumerate(source.rows("inputevents")):
        dose = {"dose": {"value": float(row["amount"] or 0), "unit": row["amountuom"]}}
        yield _resource(
            "MedicationAdministration",
            f"i{place}",
            row,
            status="completed",
            effectivePeriod=_period(row["starttime"], row["endtime"]),
            medicationCodeableConcept=_code(row["itemid"], system=f"{_MIMIC}/mimic-medication-icu"),
            dosage=dose,
        )
