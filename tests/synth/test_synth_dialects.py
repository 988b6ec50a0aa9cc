"""The invented people in the forms of other data sets: the same results, stays and ends, read beside the first form."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections import Counter, defaultdict
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from synth_rows import Row

from wardround.synth import DIALECTS, MODULES, synthesize, write_dialect


class Told:
    """One hospital in its first form and in others."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        synthesize(folder / "raw", patients=12, seed=30, decoys=False)  # one dies, one is over 89, some are observed

    def rows(self, table: str) -> list[Row]:
        return _csv(self.folder / "raw" / MODULES[table] / f"{table}.csv.gz")

    def other(self, form: str, table: str) -> list[Row]:
        place = self.folder / form
        if not place.exists():
            write_dialect(form, self.folder / "raw", place)
        (path,) = place.glob(f"{table}.csv*")
        return _csv(path)


def _csv(path: Path) -> list[Row]:
    data = path.read_bytes()
    text = (gzip.decompress(data) if path.suffix == ".gz" else data).decode("utf-8")
    rows = csv.DictReader(io.StringIO(text, newline=""))
    return [{name.lower(): cell for name, cell in row.items()} for row in rows]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    return Told(tmp_path_factory.mktemp("dialects"))


def when(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_hospital_written_at_another_time_is_the_same_bytes(
    dialect: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synthesize(tmp_path / "hospital", patients=2, seed=1, compress=False)
    written = []
    for moment in (1_000_000_000.0, 1_700_000_000.0):
        folder = tmp_path / f"at-{moment:.0f}"
        monkeypatch.setattr("time.time", lambda moment=moment: moment)
        write_dialect(dialect, tmp_path / "hospital", folder)
        written.append({str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()})
    assert written[0] == written[1]
    assert written[0]


def test_every_result_stands_in_every_form(told: Told) -> None:
    """With its person, time and number; in eICU those of a stay, in minutes since it began."""
    labs = [row for row in told.rows("labevents") if row["valuenum"]]
    ours = Counter((row["subject_id"], row["itemid"], row["charttime"], float(row["valuenum"])) for row in labs)
    assert ours.total() > 1_000
    third = told.other("mimiciii", "LABEVENTS")
    assert ours == Counter(
        (row["subject_id"], row["itemid"], row["charttime"], float(row["valuenum"])) for row in third if row["valuenum"]
    )
    measured = told.other("omop", "measurement")
    items = {row["itemid"] for row in labs}
    assert ours == Counter(
        (row["person_id"], row["measurement_source_value"], row["measurement_datetime"], float(row["value_as_number"]))
        for row in measured
        if row["value_as_number"] and row["measurement_source_value"] in items
    )
    people = {row["patientunitstayid"]: row for row in told.other("eicu", "patient")}
    begins = unit_starts(told)
    names = {row["itemid"]: row["label"] for row in told.rows("d_labitems")}
    stays = {row["hadm_id"]: row for row in told.rows("admissions")}
    inside: dict[tuple[str, str, float], list[datetime]] = defaultdict(list)
    for row in labs:
        stay = stays.get(row["hadm_id"])
        if stay is not None and stay["admittime"] <= row["charttime"] <= stay["dischtime"]:
            inside[row["subject_id"], names[row["itemid"]], float(row["valuenum"])].append(when(row["charttime"]))
    found: dict[tuple[str, str, float], list[datetime]] = defaultdict(list)
    for row in told.other("eicu", "lab"):
        time = begins[row["patientunitstayid"]] + timedelta(minutes=int(row["labresultoffset"]))
        found[people[row["patientunitstayid"]]["uniquepid"], row["labname"], float(row["labresult"])].append(time)
    assert {key: len(times) for key, times in found.items()} == {key: len(times) for key, times in inside.items()}
    for key, times in found.items():
        for one, other in zip(sorted(times), sorted(inside[key]), strict=True):
            assert abs(one - other) < timedelta(minutes=1), key


def unit_starts(told: Told) -> dict[str, datetime]:
    """When the minutes of each unit stay of eICU begin: with intensive care, or with the stay in hospital."""
    icu = {str(int(row["stay_id"]) % 100_000_000): when(row["intime"]) for row in told.rows("icustays")}
    stays = {row["hadm_id"]: when(row["admittime"]) for row in told.rows("admissions")}
    begins = {}
    for row in told.other("eicu", "patient"):
        number = row["patientunitstayid"]
        health = int(row["patienthealthsystemstayid"])
        hadm = str(health if str(health) in stays else health + 150_000_000)
        begins[number] = icu.get(number, stays[hadm])
        assert number in icu or int(row["hospitaladmitoffset"]) == 0
    return begins


def test_a_unit_stay_of_eicu_is_one_of_intensive_care_or_the_whole_stay(told: Told) -> None:
    """A stay in which somebody died is numbered before the earlier ones; ages over 89 are not told."""
    stays = {row["hadm_id"]: row for row in told.rows("admissions")}
    people = {row["subject_id"]: row for row in told.rows("patients")}
    with_icu = {row["hadm_id"] for row in told.rows("icustays")}
    begins = unit_starts(told)
    seen: Counter[str] = Counter()
    for row in told.other("eicu", "patient"):
        health = int(row["patienthealthsystemstayid"])
        died = str(health) not in stays
        stay = stays[str(health + 150_000_000) if died else str(health)]
        seen[stay["hadm_id"]] += 1
        assert died == bool(stay["deathtime"]) == (row["hospitaldischargestatus"] == "Expired")
        assert row["unitdischargelocation"] == ("Death" if died else "Floor")
        start = begins[row["patientunitstayid"]]
        admitted = start + timedelta(minutes=int(row["hospitaladmitoffset"]))
        assert abs(admitted - when(stay["admittime"])) < timedelta(minutes=1)
        old = int(people[stay["subject_id"]]["anchor_age"]) > 89
        assert row["age"] == ("> 89" if old else people[stay["subject_id"]]["anchor_age"])
        assert (row["hospitaladmittime24"], row["unitadmittime24"]) == (stay["admittime"][11:], f"{start:%H:%M:%S}")
    assert seen.keys() == stays.keys()
    assert {row["age"] for row in told.other("eicu", "patient")} > {"> 89"}
    assert any(stay["deathtime"] for stay in stays.values())
    icu_stays = Counter(row["hadm_id"] for row in told.rows("icustays"))
    assert all(count == (icu_stays[hadm] if hadm in with_icu else 1) for hadm, count in seen.items())


def test_visits_of_omop_are_stays_from_their_registration_and_visits_that_ended_at_home(told: Told) -> None:
    visits = {row["visit_occurrence_id"]: row for row in told.other("omop", "visit_occurrence")}
    stays = {row["hadm_id"]: row for row in told.rows("admissions")}
    alone = {row["stay_id"]: row for row in told.rows("edstays") if not row["hadm_id"]}
    assert visits.keys() == stays.keys() | alone.keys()
    latest: dict[str, str] = {}
    for number, stay in sorted(stays.items(), key=lambda pair: pair[1]["admittime"]):
        visit = visits[number]
        assert visit["visit_start_datetime"] == (stay["edregtime"] or stay["admittime"])
        assert visit["visit_end_datetime"] == stay["dischtime"]
        kind = {True: "262", False: "9201"}[bool(stay["edregtime"])]
        assert visit["visit_concept_id"] == ("581385" if stay["admission_type"] == "EU OBSERVATION" else kind)
        assert (visit["discharge_to_concept_id"] == "4216643") == bool(stay["deathtime"])
        assert visit["preceding_visit_occurrence_id"] == latest.get(stay["subject_id"], "")
        latest[stay["subject_id"]] = number
    for number, stay in alone.items():
        assert visits[number]["visit_concept_id"] == "9203"
        assert visits[number]["visit_start_datetime"] == stay["intime"]
    people = {row["subject_id"]: row for row in told.rows("patients")}
    for row in told.other("omop", "person"):
        person = people[row["person_id"]]
        assert row["gender_concept_id"] == {"F": "8532", "M": "8507"}[person["gender"]]
        assert int(row["year_of_birth"]) == int(person["anchor_year"]) - int(person["anchor_age"])
    beds = [row for row in told.rows("transfers") if row["hadm_id"] and row["outtime"]]
    assert len(told.other("omop", "visit_detail")) == len(beds)


def test_every_concept_of_omop_is_in_its_vocabulary(told: Told) -> None:
    """0 is "No matching concept": what has only the source's own words."""
    known = {row["concept_id"] for row in told.other("omop", "concept")}
    assert "0" in known
    tables = sorted(path.name.partition(".")[0] for path in (told.folder / "omop").glob("*.csv*"))
    for table in tables:
        for row in told.other("omop", table):
            ids = {cell for name, cell in row.items() if name.endswith("concept_id") and "_type_" not in name and cell}
            assert ids <= known, (table, ids - known)


def test_people_and_moves_of_mimic_iii_are_those_of_mimic_iv(told: Told) -> None:
    """Dates of death by day; ages over 89 as 300 years; no emergency department among the moves."""
    dead = {row["subject_id"]: row["deathtime"][:10] for row in told.rows("admissions") if row["deathtime"]}
    people = {row["subject_id"]: row for row in told.rows("patients")}
    for row in told.other("mimiciii", "PATIENTS"):
        person = people[row["subject_id"]]
        age = int(person["anchor_age"])
        assert row["dob"] == f"{int(person['anchor_year']) - (300 if age > 89 else age)}-03-05 00:00:00"
        at_all, here = person["dod"], dead.get(row["subject_id"], "")
        assert row["dod_hosp"][:10] == here
        assert row["dod"][:10] == (at_all or here)
        assert row["dod_ssn"][:10] == ("" if here else at_all)
        assert row["expire_flag"] == ("1" if at_all or here else "0")
    moves = [row for row in told.rows("transfers") if row["eventtype"] != "ED"]
    others = told.other("mimiciii", "TRANSFERS")
    assert len(others) == len(moves)
    icu = {row["stay_id"]: row for row in told.rows("icustays")}
    inside = 0
    for row in others:
        if row["outtime"]:
            hours = (when(row["outtime"]) - when(row["intime"])).total_seconds() / 3600
            assert float(row["los"]) == pytest.approx(hours, abs=0.006)
        if row["icustay_id"]:
            stay = icu[row["icustay_id"]]
            assert stay["intime"] <= row["intime"] < stay["outtime"]
            assert row["dbsource"] == ("carevue" if int(row["subject_id"]) % 2 else "metavision")
            inside += 1
    assert inside >= len(icu) > 0
    charted = {row["hadm_id"] for row in told.rows("chartevents")}
    for row in told.other("mimiciii", "ADMISSIONS"):
        assert (row["has_chartevents_data"] == "1") == (row["hadm_id"] in charted)
        assert row["admission_type"] == ("EMERGENCY" if row["edregtime"] else "ELECTIVE")
    given = Counter(int(row["subject_id"]) % 2 for row in told.rows("inputevents"))
    assert len(told.other("mimiciii", "INPUTEVENTS_CV")) == given[1]
    assert len(told.other("mimiciii", "INPUTEVENTS_MV")) == given[0] + -(-given[0] // 11), (
        "every eleventh was rewritten"
    )


def test_results_of_fhir_are_those_of_the_tables(told: Told) -> None:
    labs = Counter(
        (row["charttime"].replace(" ", "T"), float(row["valuenum"]))
        for row in told.rows("labevents")
        if row["valuenum"]
    )
    write_dialect("fhir", told.folder / "raw", told.folder / "fhir")
    lines = (told.folder / "fhir" / "ObservationLabevents.ndjson").read_text(encoding="utf-8").splitlines()
    found = Counter(
        (one["effectiveDateTime"][:19], float(one["valueQuantity"]["value"]))
        for one in map(json.loads, lines)
        if "value" in one.get("valueQuantity", {})
    )
    assert sum((labs & found).values()) > 0.9 * labs.total()


def test_events_of_meds_are_the_rows_of_the_tables(told: Told) -> None:
    """Results with their units, stays with their ends, births, and nothing of a person in two splits."""
    write_dialect("meds", told.folder / "raw", told.folder / "meds")
    parts = {
        path.parent.name: pq.read_table(path).to_pylist() for path in (told.folder / "meds").rglob("data/*/*.parquet")
    }
    splits = [{row["subject_id"] for row in rows} for rows in parts.values()]
    people = {int(row["subject_id"]) for row in told.rows("patients")}
    assert sum(map(len, splits)) == len(people)
    events = [row for rows in parts.values() for row in rows]
    labs = Counter(
        (int(row["subject_id"]), row["itemid"], when(row["charttime"]), round(float(row["valuenum"]), 2))
        for row in told.rows("labevents")
        if row["valuenum"]
    )
    found = Counter(
        (row["subject_id"], row["code"].split("//")[1], row["time"], round(row["numeric_value"], 2))
        for row in events
        if row["code"].startswith("LAB//") and row["numeric_value"] is not None
    )
    assert labs - found == Counter()
    stays = told.rows("admissions")
    for code, column in (("HOSPITAL_ADMISSION", "admittime"), ("HOSPITAL_DISCHARGE", "dischtime")):
        times = Counter((row["subject_id"], row["time"]) for row in events if row["code"].startswith(f"{code}//"))
        assert times == Counter((int(row["subject_id"]), when(row[column])) for row in stays)
    assert Counter(row["code"] for row in events)["MEDS_BIRTH"] == len(people)
    dead = {row["subject_id"] for row in events if row["code"] == "MEDS_DEATH"}
    assert dead == {int(row["subject_id"]) for row in told.rows("patients") if row["dod"]}
    metadata = told.folder / "meds" / "metadata"
    assert json.loads((metadata / "dataset.json").read_text())["dataset_name"] == "synthetic hospital"
    assert {
        (row["subject_id"], row["split"]) for row in pq.read_table(metadata / "subject_splits.parquet").to_pylist()
    } == {(row["subject_id"], split) for split, rows in parts.items() for row in rows}
    described = {row["code"]: row["description"] for row in pq.read_table(metadata / "codes.parquet").to_pylist()}
    assert set(described) == {row["code"] for row in events}
    titles = {row["itemid"]: row["label"] for row in told.rows("d_labitems")}
    for code, title in described.items():
        kind, *rest = code.split("//")
        assert title == (titles.get(rest[0]) if kind == "LAB" else None)
