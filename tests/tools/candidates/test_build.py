"""The six spaces from a small MIMIC-shaped store: training subjects only, one row per label."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.clinical.codes import add_user_codes
from wardround.records import Store, ingest
from wardround.tools.candidates import CandidateSpace, build_candidate_spaces

TABLES = {
    "patients": "subject_id,gender,anchor_age,anchor_year,anchor_year_group,dod\n1,F,60,2150,2014 - 2016,\n"
    "2,M,70,2150,2014 - 2016,\n3,M,50,2150,2014 - 2016,\n",
    "admissions": "subject_id,hadm_id,admittime,dischtime,deathtime,admission_type\n"
    + "".join(f"{n},{n}0,2150-01-01 08:00:00,2150-01-05 08:00:00,,URGENT\n" for n in (1, 2, 3)),
    "transfers": "subject_id,hadm_id,transfer_id,eventtype,careunit,intime,outtime\n"
    "1,10,101,ED,Emergency Department,2150-01-01 06:00:00,2150-01-01 08:00:00\n"
    "1,10,102,admit,Medicine,2150-01-01 08:00:00,2150-01-02 08:00:00\n"
    "1,10,103,transfer,MEDICINE,2150-01-02 08:00:00,2150-01-03 08:00:00\n"
    "2,20,201,transfer,UNKNOWN,2150-01-01 08:00:00,2150-01-02 08:00:00\n"
    "2,20,202,transfer,Coronary Care Unit (CCU),2150-01-02 08:00:00,2150-01-05 08:00:00\n"
    "2,20,203,discharge,,2150-01-05 08:00:00,\n"
    "3,30,301,admit,Psychiatry,2150-01-01 08:00:00,2150-01-05 08:00:00\n",
    "prescriptions": "subject_id,hadm_id,pharmacy_id,starttime,stoptime,drug_type,drug,ndc,route\n"
    "1,10,1,2150-01-01 09:00:00,2150-01-02 09:00:00,MAIN,Furosemide,00000000000,IV\n"
    "1,10,2,2150-01-01 09:00:00,2150-01-02 09:00:00,MAIN,Furosemide 40 mg Tab,0,PO\n"
    "2,20,3,2150-01-01 09:00:00,2150-01-02 09:00:00,MAIN,Metoprolol Tartrate,0,PO\n"
    "2,20,4,2150-01-01 09:00:00,2150-01-02 09:00:00,BASE,Bag,0,IV\n"
    "3,30,5,2150-01-01 09:00:00,2150-01-02 09:00:00,MAIN,Warfarin,0,PO\n",
    "microbiologyevents": "microevent_id,subject_id,hadm_id,micro_specimen_id,chartdate,charttime,spec_type_desc,"
    "test_seq,storedate,storetime,test_name,comments\n"
    "1,1,10,1,2150-01-01 00:00:00,2150-01-01 09:00:00,SPUTUM,1,2150-01-02 00:00:00,2150-01-02 09:00:00,"
    "RESPIRATORY CULTURE,x\n"
    "2,3,30,2,2150-01-01 00:00:00,2150-01-01 09:00:00,URINE,1,2150-01-02 00:00:00,2150-01-02 09:00:00,"
    "URINE CULTURE,x\n",
    "d_labitems": 'itemid,label,fluid,category\n50971,Potassium,Blood,Chemistry\n50822,"Potassium, Whole Blood",Blood,'
    "Blood Gas\n51100,Potassium,Urine,Chemistry\n51221,Hematocrit,Blood,Hematology\n",
    "d_icd_diagnoses": "icd_code,icd_version,long_title\nQ87610,10,Zymurgian gastric glow\n"
    "K3189,10,Zymurgian gastric glow\n",
}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("raw")
    (folder / "hosp").mkdir()
    for name, text in TABLES.items():
        (folder / "hosp" / f"{name}.csv").write_text(text, encoding="utf-8")
    path = tmp_path_factory.mktemp("store") / "store"
    ingest("mimiciv", folder, path)
    return Store.open(path)


@pytest.fixture(scope="module")
def spaces(store: Store) -> dict[str, CandidateSpace]:
    return build_candidate_spaces(store, [1, 2], None)


def test_the_names_of_the_spaces(spaces: dict[str, CandidateSpace]) -> None:
    assert sorted(spaces) == [
        "diagnoses_ccs_candidates",
        "labevents_candidates",
        "microbiologyevents_candidates",
        "prescriptions_drug_candidates",
        "procedures_ccs_candidates",
        "transfers_candidates",
    ]
    assert all(space.name == name for name, space in spaces.items())


def test_only_training_subjects_are_counted(spaces: dict[str, CandidateSpace]) -> None:
    assert spaces["prescriptions_drug_candidates"].labels.labels == ("furosemide", "metoprolol")
    assert spaces["microbiologyevents_candidates"].labels.labels == ("RESPIRATORY CULTURE",)


def test_units_are_those_moved_to_one_spelling_each(spaces: dict[str, CandidateSpace]) -> None:
    labels = spaces["transfers_candidates"].labels
    assert len(labels) == 2
    assert "medicine" in labels
    assert "Coronary Care Unit (CCU)" in labels
    assert spaces["transfers_candidates"].by_meaning("CCU", 1)[0].label == "Coronary Care Unit (CCU)"


def test_laboratory_labels_come_from_the_dictionary_once_each(spaces: dict[str, CandidateSpace]) -> None:
    assert spaces["labevents_candidates"].labels.labels == ("Hematocrit", "Potassium", "Potassium, Whole Blood")
    assert spaces["labevents_candidates"].by_meaning("K", 1)[0].label == "Potassium"


def test_the_store_s_own_titles_are_searched(spaces: dict[str, CandidateSpace]) -> None:
    found = spaces["diagnoses_ccs_candidates"].by_meaning("zymurgian glow", 1)
    assert found[0].label == "Other disorders of stomach and duodenum"
    assert len(spaces["diagnoses_ccs_candidates"].labels) == 283
    assert len(spaces["procedures_ccs_candidates"].labels) == 231


def test_specimens_lead_to_tests(spaces: dict[str, CandidateSpace]) -> None:
    assert spaces["microbiologyevents_candidates"].by_meaning("sputum", 1)[0].label == "RESPIRATORY CULTURE"


def test_an_atc_map_changes_the_drug_space(store: Store, tmp_path: Path) -> None:
    for kind, text in {
        "drug-atc": "drug,atc_code\nFurosemide,C03CA01\n",
        "atc-names": "atc_code,atc_name\nC03CA01,furosemide (loop)\n",
    }.items():
        (tmp_path / f"{kind}.csv").write_text(text, encoding="utf-8")
        add_user_codes(kind, tmp_path / f"{kind}.csv", tmp_path / "home")
    spaces = build_candidate_spaces(store, [1, 2], tmp_path / "home")
    assert "prescriptions_drug_candidates" not in spaces
    assert spaces["prescriptions_atc_candidates"].labels.labels == ("furosemide (loop)",)


def test_no_training_subject_leaves_the_record_spaces_out(store: Store) -> None:
    spaces = build_candidate_spaces(store, [], None)
    assert sorted(spaces) == ["diagnoses_ccs_candidates", "labevents_candidates", "procedures_ccs_candidates"]


def test_two_builds_are_the_same_bytes(store: Store, spaces: dict[str, CandidateSpace], tmp_path: Path) -> None:
    again = build_candidate_spaces(store, [2, 1, 1], None)
    for name, space in spaces.items():
        space.save(tmp_path / "a")
        again[name].save(tmp_path / "b")
        assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
