"""An allergy that stands among the diagnoses, by its title or code, is an allergy to whoever checks a drug."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest
from stay_doubles import facts
from test_stay_audits import drug, rule

from records.fhir_resources import ANN_NUMBER, encounter, made, patient, resource
from records.fhir_rows import coded, words
from records.mimic_tables import write_folder
from wardround.agents.stays.auditor import find_objections, find_unchecked
from wardround.agents.stays.batch.facts import BatchFacts
from wardround.agents.stays.charted import StateFacts
from wardround.clinical.bundles import PatientState, batch_states, bundle_text, bundles_of, states, subject_bundles
from wardround.clinical.vocabulary import conflicts, records_allergy
from wardround.memory.phrases import findings_of_chart
from wardround.records import Store, ingest

ICD_10, ICD_9 = "http://hl7.org/fhir/sid/icd-10-cm", "http://hl7.org/fhir/sid/icd-9-cm"
LATER = datetime(2150, 6, 1)
TITLES = {
    "Z880": "Allergy status to penicillin",
    "Z881": "Allergy status to other antibiotic agents status",
    "Z889": "Allergy status to unspecified drugs, medicaments and biological substances status",
    "Z91040": "Latex allergy status",
    "I10": "Essential (primary) hypertension",
    "J309": "Allergic rhinitis, unspecified",
}


def mimic(folder: Path, *codes: str) -> Store:
    """A first stay with some diagnoses, and a second one after it."""
    stay = {"subject_id": 1, "hadm_id": 100}
    admissions = [
        stay | {"admittime": "2150-03-10 08:00:00", "dischtime": "2150-03-15 14:00:00", "hospital_expire_flag": 0},
        {"subject_id": 1, "hadm_id": 200, "admittime": "2150-05-10 08:00:00", "dischtime": "2150-05-15 14:00:00"}
        | {"hospital_expire_flag": 0},
    ]
    diagnoses = [
        stay | {"seq_num": place, "icd_code": code, "icd_version": 10} for place, code in enumerate(codes, start=1)
    ]
    titles = [{"icd_code": code, "icd_version": 10, "long_title": TITLES[code]} for code in codes]
    person = {"subject_id": 1, "gender": "F", "anchor_age": 60, "anchor_year": 2151}
    tables = {"patients": [person], "admissions": admissions, "diagnoses_icd": diagnoses, "d_icd_diagnoses": titles}
    source = write_folder(folder / "mimic", tables)
    ingest("mimiciv", source, folder / "store")
    return Store.open(folder / "store")


def fhir(folder: Path, *resources: dict[str, object]) -> Store:
    stay = encounter("e1", "2150-03-10T08:00:00", "2150-03-15T14:00:00")
    return made(folder, [patient(), stay, *resources])[0]


def condition(key: str, **code: object) -> dict[str, object]:
    elements = {"code": code, "recordedDate": "2150-03-10T09:00:00", "encounter": {"reference": "Encounter/e1"}}
    return resource("Condition", key, **elements)


def last_state(store: Store, subject: int) -> PatientState:
    return list(states(bundles_of(store.chart(subject, LATER))))[-1]


def facts_of(store: Store, subject: int) -> StateFacts:
    return facts(allergies=last_state(store, subject).allergies)


def flaws(store: Store, subject: int, *names: str) -> list[str]:
    found = find_objections([drug(name) for name in names], facts_of(store, subject), [], [])
    return [one.action.name for one in found if one.flaw == "allergy"]


def unchecked(store: Store, subject: int, *names: str) -> list[str]:
    found = find_unchecked([drug(name) for name in names], facts_of(store, subject))
    return [one.action.name for one in found if "allergy" in one.because]


def test_a_coded_penicillin_allergy_of_mimic_forbids_amoxicillin_and_leaves_ceftriaxone_unchecked(
    tmp_path: Path,
) -> None:
    store = mimic(tmp_path, "Z880", "I10", "J309")
    state = last_state(store, 1)
    assert list(state.allergies) == ["Allergy status to penicillin"]
    assert set(state.problems) == {TITLES["Z880"], TITLES["I10"], TITLES["J309"]}
    names = ("Amoxicillin", "Unasyn", "Ceftriaxone", "Vancomycin")
    assert flaws(store, 1, *names) == ["Amoxicillin", "Unasyn"]
    assert unchecked(store, 1, *names) == ["Ceftriaxone"]
    text = "\n".join(map(bundle_text, bundles_of(store.chart(1, LATER))))
    assert "Allergies: Allergy status to penicillin" in text
    assert batch_states(subject_bundles(store, 1)).of(1).allergies == state.allergies


def test_a_diagnosis_says_nothing_of_allergies_that_it_does_not_name(tmp_path: Path) -> None:
    store = mimic(tmp_path, "Z91040")
    assert facts_of(store, 1).allergic_to("penicillin") is None, "a code is no list of allergies"
    stream = subject_bundles(store, 1)
    yes, no = BatchFacts(stream=stream, window_hours=6).allergic_to("penicillin")
    assert (yes.any(), no.any()) == (False, False)


def test_an_allergy_to_a_class_that_names_no_drug_leaves_that_class_unchecked(tmp_path: Path) -> None:
    store = mimic(tmp_path, "Z881")
    names = ("Vancomycin", "Ceftriaxone", "Metoprolol")
    assert flaws(store, 1, *names) == []
    assert unchecked(store, 1, *names) == ["Vancomycin", "Ceftriaxone"]
    unnamed = mimic(tmp_path / "unnamed", "Z889")
    assert unchecked(unnamed, 1, *names) == list(names)


def test_conditions_and_allergies_of_fhir_are_allergies(tmp_path: Path) -> None:
    by_code = fhir(tmp_path / "code", condition("c1", coding=[{"system": ICD_10, "code": "Z88.0"}]))
    assert flaws(by_code, ANN_NUMBER, "Ampicillin", "Vancomycin") == ["Ampicillin"]
    older = fhir(
        tmp_path / "icd9", condition("c1", **coded(ICD_9, "V14.0", "Personal history of allergy to penicillin"))
    )
    assert flaws(older, ANN_NUMBER, "Ampicillin", "Vancomycin") == ["Ampicillin"]
    told = fhir(tmp_path / "told", condition("c1", text="History of anaphylaxis to ceftriaxone"))
    assert flaws(told, ANN_NUMBER, "Ceftriaxone", "Cefepime", "Vancomycin") == ["Ceftriaxone", "Cefepime"]
    listed = resource("AllergyIntolerance", "a1", code=words("Penicillin"), recordedDate="2150-03-10T09:00:00")
    charted = fhir(tmp_path / "listed", listed)
    assert flaws(charted, ANN_NUMBER, "Amoxicillin", "Vancomycin") == ["Amoxicillin"]
    assert facts_of(charted, ANN_NUMBER).allergic_to("vancomycin") is False, "a list names the others too"


def test_a_rule_that_avoids_a_drug_and_a_memorys_scope_see_a_coded_allergy(tmp_path: Path) -> None:
    store = mimic(tmp_path, "Z880")
    known = facts_of(store, 1)
    avoids = rule("R1", "avoid penicillins")
    found = find_objections([drug("Piperacillin-Tazobactam")], known, [avoids], [])
    assert [one.flaw for one in found] == ["allergy", "contraindication"]
    scope = findings_of_chart(store.chart(1, LATER))
    assert (scope.allergic_to("amoxicillin"), scope.allergic_to("ceftriaxone")) == (True, None)
    other = findings_of_chart(mimic(tmp_path / "other", "Z881").chart(1, LATER))
    assert other.allergic_to("vancomycin") is None


@pytest.mark.parametrize(
    ("title", "is_one"),
    [
        ("V14.2", True), ("Z88.4", True), ("Z91.013", True), ("V15.08", True), ("T88.6XXA", True),
        ("Personal history of anaphylaxis", True),
        ("Anaphylactic reaction due to adverse effect of correct drug, initial encounter", True),
        ("Allergic reaction to cefazolin", True),
        ("Adverse reaction to lisinopril", True),
        ("Lisinopril intolerance", True),
        ("Allergic rhinitis due to pollen", False), ("Allergic purpura", False), ("Glucose intolerance", False),
        ("Exercise intolerance", False), ("Family history of allergy to penicillin", False),
        ("Encounter for allergy testing", False), ("Vaccination not carried out because of allergy to vaccine", False),
        ("Poisoning by antiallergic and antiemetic drugs", False), ("Hypersensitivity pneumonitis", False),
        ("Z79.4", False), ("V58.61", False), ("Z91.19", False), ("Z91.5", False), ("V15.82", False),
    ],
)  # fmt: skip
def test_titles_and_codes_that_record_an_allergy(title: str, is_one: bool) -> None:
    assert records_allergy(title) is is_one


@pytest.mark.parametrize(
    ("allergen", "drug_name", "verdict"),
    [
        ("Z88.0", "amoxicillin", True), ("Z88.0", "ceftriaxone", None), ("V14.2", "Bactrim", True),
        ("V14.2", "furosemide", False), ("Z88.5", "morphine", None), ("Z88.5", "vancomycin", False),
        ("Z88.9", "vancomycin", None), ("Z91.041", "iohexol", True), ("Z91.010", "vancomycin", False),
        ("Allergy to substance (finding)", "vancomycin", None), ("Personal history of anaphylaxis", "aspirin", None),
        ("Allergy status to analgesic agent status", "ketorolac", None),
        ("Allergy status, other than to drugs and biological substances", "vancomycin", False),
    ],
)  # fmt: skip
def test_what_a_coded_allergy_forbids(allergen: str, drug_name: str, verdict: bool | None) -> None:
    assert conflicts(drug_name, allergen) is verdict
