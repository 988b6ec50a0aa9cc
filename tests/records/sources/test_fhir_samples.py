"""Real FHIR exports: they come in whole, charts in their middle leak nothing, and MIMIC's agree with its CSV files."""

from __future__ import annotations

import csv
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from effort import LONG, often
from records.fhir_resources import SAMPLES_ZONE
from wardround.audits import audit_leaks
from wardround.records import IngestReport, IngestSettings, Store, ingest
from wardround.records.reading.source_files import subject_number

MIMIC, BULK, BUNDLES = "mimic-iv-demo-fhir-2.1.0", "synthea-bulk-fhir-10", "synthea-fhir-r4"
Made = tuple[Path, Store, IngestReport]


def _made(shared_data: Path, name: str, folder: Path) -> Made:
    raw = shared_data / name
    if not raw.is_dir():
        pytest.skip(f"{name} is not among the open data")
    report = ingest("fhir", raw, folder / "store", settings=IngestSettings(time_zone=SAMPLES_ZONE))
    return raw, Store.open(folder / "store"), report


@pytest.fixture(scope="module")
def mimic(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The export of MIMIC's demo: of every sixth person, at length of all."""
    folder = tmp_path_factory.mktemp("mimic-fhir")
    if LONG or not (shared_data / MIMIC).is_dir():
        return _made(shared_data, MIMIC, folder)
    _write_part(shared_data / MIMIC, folder / "part", every=6)
    return _made(folder, "part", folder)


@pytest.fixture(scope="module")
def bulk(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return _made(shared_data, BULK, tmp_path_factory.mktemp("bulk"))


@pytest.fixture(scope="module")
def bundles(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    return _made(shared_data, BUNDLES, tmp_path_factory.mktemp("bundles"))


def _samples(store: Store, subjects: int, seed: int = 1) -> list[tuple[int, datetime]]:
    """Return moments at, just before and between what becomes known of some subjects."""
    draw, samples = random.Random(seed), []
    for subject in draw.sample(store.subjects.tolist(), min(subjects, len(store.subjects))):
        batches = (store.rows(subject, name) for name in store.table_names)
        times = {row for batch in batches for row in batch.column("_available").to_pylist()}
        known = sorted(time for time in times if datetime(1800, 1, 1) < time < datetime(2900, 1, 1))
        samples += [(subject, known[int(len(known) * part)]) for part in (0.1, 0.5, 0.9)]
        samples.append((subject, draw.choice(known) - timedelta(seconds=1)))
    return samples


def _write_part(raw: Path, folder: Path, every: int) -> None:
    """Write the part of an export that is about some people or about nobody: reading all of it is dear."""
    people = [json.loads(line)["id"].encode() for line in _lines(next(raw.rglob("MimicPatient.ndjson.gz")))]
    others = set(people) - set(people[::every])
    folder.mkdir()
    for path in raw.rglob("*.ndjson.gz"):
        pattern = re.compile(rb'"id": ?"([^"]+)"' if path.name.startswith("MimicPatient") else rb'Patient/([^"]+)"')
        kept = [line for line in _lines(path) if not ((found := pattern.search(line)) and found[1] in others)]
        (folder / path.name.removesuffix(".gz")).write_bytes(b"".join(kept))


def _lines(path: Path) -> list[bytes]:
    return gzip.decompress(path.read_bytes()).splitlines(keepends=True)


@pytest.mark.parametrize("sample", ["mimic", "bulk", "bundles"])
def test_no_leak(sample: str, request: pytest.FixtureRequest) -> None:
    raw, store, _ = request.getfixturevalue(sample)
    samples = _samples(store, often(3, 6))
    report = audit_leaks(store, samples, raw_folder=raw)
    assert (report.rows, report.cells, report.differences) == (0, 0, 0), report.as_text()
    assert report.deletion_samples == len(set(samples)) >= often(10, 20)
    assert report.unmatched_rows == 0


def test_every_resource_of_the_bulk_export_is_somewhere(bulk: Made) -> None:
    _, store, report = bulk
    expected = {"patients": 13, "encounters": 1215, "conditions": 555, "procedures": 2056, "documents": 1215}
    expected |= {"immunizations": 161, "allergies": 11, "medication_requests": 1745, "encounter_locations": 1215}
    assert report.rows == expected
    assert report.quarantined == {}
    assert report.never_visible == {}
    assert report.left_out == {"Practitioner": 43, "PractitionerRole": 43, "Device": 16}
    assert report.unknown_files == ("notes_decoded.jsonl.gz",)
    notes = [row for subject in store.subjects for row in store.rows(int(subject), "documents").to_pylist()]
    assert all(row["text"] for row in notes)


def test_every_resource_of_the_bundles_is_somewhere(bundles: Made) -> None:
    _, store, report = bundles
    whole = {"patients": 15, "encounters": 404, "conditions": 121, "procedures": 342, "immunizations": 201}
    whole |= {"diagnostic_reports": 145, "medication_requests": 109, "imaging_studies": 13, "allergies": 10}
    assert {name: report.rows[name] for name in whole} == whole
    observations = [
        row["component_of"]
        for name in ("labs", "vital_signs", "observations")
        for subject in store.subjects
        for row in store.rows(int(subject), name).to_pylist()
    ]
    assert observations.count(None) == 2118
    assert len(observations) > 2118
    assert report.left_out == {
        "Claim": 513, "ExplanationOfBenefit": 404, "Practitioner": 129, "CarePlan": 60, "Goal": 33,
    }  # fmt: skip
    assert (report.quarantined, report.never_visible) == ({}, {})


def test_results_of_a_report_are_rows_of_the_store(bundles: Made) -> None:
    _, store, _ = bundles
    for subject in map(int, store.subjects):
        tables = ("labs", "vital_signs", "observations")
        there = {key for name in tables for key in store.rows(subject, name).column("observation_id").to_pylist()}
        assert set(store.rows(subject, "report_results").column("observation_id").to_pylist()) <= there


# ------------------------------------------------------------------------------------------------ MIMIC against itself


Table = Callable[[str], list[dict[str, str]]]


@pytest.fixture(scope="module")
def csv_rows(mimic_demo: Path, numbers: dict[str, int]) -> Table:
    """Reads a CSV file's rows of the people in the store."""

    def rows(name: str) -> list[dict[str, str]]:
        with gzip.open(mimic_demo / f"{name}.csv.gz", "rt", encoding="utf-8", newline="") as lines:
            return [row for row in csv.DictReader(lines) if row["subject_id"] in numbers]

    return rows


def _rows(store: Store, table: str) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for subject in map(int, store.subjects):
        for row in store.rows(subject, table).to_pylist():
            yield subject, row


def _time(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def _no_gap(when: datetime | None) -> bool:
    """Say whether a time is not in the hour that clocks skip in March: the publisher moved those times by an hour."""
    return when is None or when.month != 3 or when.hour not in (2, 3)


@pytest.fixture(scope="module")
def numbers(mimic: Made) -> dict[str, int]:
    """MIMIC's number of a person -> the store's."""
    return {row["identifier"]: subject for subject, row in _rows(mimic[1], "patients")}


def test_people_are_the_same(mimic: Made, csv_rows: Table, numbers: dict[str, int]) -> None:
    deaths = {row["subject_id"]: row["dod"] for row in csv_rows("hosp/patients")}
    assert numbers.keys() == deaths.keys()
    assert len(numbers) == often(17, 100)
    for subject, row in _rows(mimic[1], "patients"):
        assert subject == subject_number(row["patient_id"])
        assert (str(row["deceased_time"].date()) if row["deceased_time"] else "") == deaths[row["identifier"]]


def test_stays_begin_and_end_at_the_same_times(mimic: Made, csv_rows: Table, numbers: dict[str, int]) -> None:
    ours = {(s, row["identifier"], row["start_time"], row["end_time"]) for s, row in _rows(mimic[1], "encounters")}
    for name, key, start, end in (
        ("hosp/admissions", "hadm_id", "admittime", "dischtime"),
        ("icu/icustays", "stay_id", "intime", "outtime"),
    ):
        theirs = {(numbers[r["subject_id"]], r[key], _time(r[start]), _time(r[end])) for r in csv_rows(name)}
        assert theirs <= ours


def test_places_are_the_same(mimic: Made, csv_rows: Table) -> None:
    stays = {row["encounter_id"]: row["identifier"] for _, row in _rows(mimic[1], "encounters")}
    admissions = {row["hadm_id"] for row in csv_rows("hosp/admissions")}
    ours = Counter(
        (stays[row["encounter_id"]], row["start_time"], row["end_time"], row["location"])
        for _, row in _rows(mimic[1], "encounter_locations")
        if stays[row["encounter_id"]] in admissions
    )
    theirs = Counter(
        (row["hadm_id"], _time(row["intime"]), _time(row["outtime"]), row["careunit"])
        for row in csv_rows("hosp/transfers")
        if row["hadm_id"] and row["outtime"]
    )
    assert ours == theirs


def test_diagnoses_and_coded_procedures_are_the_same_and_known_at_discharge(
    mimic: Made, csv_rows: Table, numbers: dict[str, int]
) -> None:
    _, store, _ = mimic
    stays = {row["encounter_id"]: row["identifier"] for _, row in _rows(store, "encounters")}
    admissions = csv_rows("hosp/admissions")
    ends = {row["hadm_id"]: _time(row["dischtime"]) for row in admissions}
    deaths = {row["hadm_id"]: _time(row["deathtime"]) for row in admissions if row["deathtime"]}
    for table, name in (("conditions", "hosp/diagnoses_icd"), ("procedures", "hosp/procedures_icd")):
        coded = [
            (subject, stays[row["encounter_id"]], row)
            for subject, row in _rows(store, table)
            if row["icd_version"] and stays[row["encounter_id"]] in ends
        ]
        theirs = Counter(
            (numbers[r["subject_id"]], r["hadm_id"], r["icd_code"].strip(), int(r["icd_version"]))
            for r in csv_rows(name)
        )
        assert Counter((s, stay, row["code"], row["icd_version"]) for s, stay, row in coded) == theirs
        assert all(row["_available"] >= ends[stay] for _, stay, row in coded)
        assert all(row["_available"] >= deaths.get(stay, ends[stay]) for _, stay, row in coded)
        alive = [(stay, row) for _, stay, row in coded if stay not in deaths]
        assert table == "procedures" or all(row["_available"] == ends[stay] for stay, row in alive)


def test_infusions_and_bedside_procedures_are_the_same(mimic: Made, csv_rows: Table, numbers: dict[str, int]) -> None:
    _, store, _ = mimic
    given = [
        (subject, row)
        for subject, row in _rows(store, "medication_administrations")
        if row["code_system"] == "mimic-medication-icu"
    ]
    theirs = [
        (numbers[r["subject_id"]], r["itemid"], _time(r["starttime"]), _time(r["endtime"]))
        for r in csv_rows("icu/inputevents")
    ]
    assert Counter(subject for subject, _ in given) == Counter(subject for subject, *_ in theirs)
    # A push has one time in FHIR, the end of its minute in the CSV file.
    ours = Counter((subject, row["code"], row["end_time"]) for subject, row in given if _no_gap(row["end_time"]))
    assert ours == Counter((s, item, end) for s, item, _, end in theirs if _no_gap(end))
    began = {(s, item, start, end) for s, item, start, end in theirs}
    lasting = [(s, row) for s, row in given if row["end_time"] != row["start_time"] and _no_gap(row["end_time"])]
    assert len(lasting) > often(1_000, 10_000)
    assert all((s, r["code"], r["start_time"], r["end_time"]) in began for s, r in lasting if _no_gap(r["start_time"]))
    done = Counter(
        (subject, row["code"], row["start_time"], row["end_time"])
        for subject, row in _rows(store, "procedures")
        if row["code_system"] == "mimic-d-items"
    )
    procedures = csv_rows("icu/procedureevents")
    assert done == Counter(
        (numbers[r["subject_id"]], r["itemid"], _time(r["starttime"]), _time(r["endtime"])) for r in procedures
    )


def test_doses_of_the_wards_are_given_at_times_of_the_ward_record(
    mimic: Made, csv_rows: Table, numbers: dict[str, int]
) -> None:
    charted = {(numbers[r["subject_id"]], _time(r["charttime"])) for r in csv_rows("hosp/emar")}
    ours = [
        (subject, row["start_time"])
        for subject, row in _rows(mimic[1], "medication_administrations")
        if row["code_system"] != "mimic-medication-icu"
    ]
    assert len(ours) == 36_131 if LONG else len(ours) > 3_000
    assert all(each in charted for each in ours if _no_gap(each[1]))


def test_measurements_have_the_times_of_charting_and_of_storing(
    mimic: Made, csv_rows: Table, numbers: dict[str, int]
) -> None:
    charted = [(s, row) for s, row in _rows(mimic[1], "observations") if row["code_system"] == "mimic-d-items"]
    outputs = [(s, row) for s, row in charted if row["value"] is not None]
    dates = [(s, row) for s, row in charted if row["value_time"] is not None]
    for name, ours, value in (("icu/outputevents", outputs, "value"), ("icu/datetimeevents", dates, "value_time")):
        read = float if value == "value" else _time
        theirs = Counter(
            (numbers[r["subject_id"]], r["itemid"], _time(r["charttime"]), _time(r["storetime"]), read(r["value"]))
            for r in csv_rows(name)
        )
        found = Counter((s, r["code"], r["effective_time"], r["issued_time"], r[value]) for s, r in ours)
        moved = [each for each in (found - theirs) if all(map(_no_gap, (t for t in each if isinstance(t, datetime))))]
        assert found.total() == theirs.total()
        assert moved == []
        assert all(row["_available"] >= row["issued_time"] for _, row in ours)


def test_susceptibilities_are_known_when_the_laboratory_stored_them(
    mimic: Made, csv_rows: Table, numbers: dict[str, int]
) -> None:
    theirs = Counter(
        (numbers[r["subject_id"]], r["ab_itemid"], _time(r["storetime"]))
        for r in csv_rows("hosp/microbiologyevents")
        if r["ab_itemid"]
    )
    ours = Counter((s, row["code"], row["_available"]) for s, row in _rows(mimic[1], "susceptibilities"))
    assert ours == theirs
    for subject, row in _rows(mimic[1], "microbiology"):
        members = [
            each
            for each in mimic[1].rows(subject, "susceptibilities").to_pylist()
            if each["observation_id"] == row["member_id"]
        ]
        assert all(row["_available"] >= each["_available"] for each in members)
        assert row["_available"] >= row["effective_time"] + timedelta(days=7)


def test_nothing_of_mimic_is_lost(mimic: Made) -> None:
    raw, _, report = mimic
    assert (report.quarantined, report.left_out) == ({}, {})
    assert report.rows["medication_dispenses"] == len(_resources(raw, "MimicMedicationDispense*"))
    assert report.rows["specimens"] == len(_resources(raw, "MimicSpecimen*"))
    if LONG:
        _count_all(report)


def _resources(raw: Path, name: str) -> list[bytes]:
    packed, plain = raw.rglob(f"{name}.ndjson.gz"), raw.rglob(f"{name}.ndjson")
    return [
        line for lines in (*map(_lines, packed), *(path.read_bytes().splitlines() for path in plain)) for line in lines
    ]


def _count_all(report: IngestReport) -> None:
    expected = {
        "patients": 100,
        "encounters": 637,
        "conditions": 5051,
        "procedures": 3450,
        "medication_requests": 17552,
    }
    expected |= {"medication_administrations": 56535, "medication_dispenses": 15375, "medication_statements": 2411}
    expected |= {"specimens": 12458, "microbiology": 2231, "susceptibilities": 1036, "observations": 27384}
    assert {name: report.rows[name] for name in expected} == expected
    assert report.rows["vital_signs"] == 6300 + 2 * 1260
    assert report.never_visible == {"specimens": 45}
