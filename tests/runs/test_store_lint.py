"""A protocol held against a store: what is never seen, what is in other units, and where it would have held."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from records.mimic_tables import write_folder
from wardround.agents.stays.router import Router, RuleMemory
from wardround.cli import main
from wardround.clinical.bundles import carried_by, states, subject_bundles
from wardround.clinical.definitions import score_at
from wardround.clinical.protocols import GlobalProtocol, ProtocolRule, RuleIndex, write_protocol
from wardround.records import Store, ingest
from wardround.runs.stays import chart_score, store_score
from wardround.runs.store_lint import faults_in_store, lint_in_store

RULES = {
    "HIGH": "potassium > 4.5 mmol/L AND NOT on heparin",
    "RISE": "creatinine rises by >= 0.6 mg/dL within 48 h AND sofa >= 2",
    "NEVER": '"Factor of the moon" > 3 OR on teicoplanin',
    "UNITS": 'sodium > 100 "bananas"',
    "ALLERGY": "allergy penicillins",
    "OLD": "potassium > 5.5 mmol/L AND age >= 40 AND NOT sirs < 1",
}


def ward() -> GlobalProtocol:
    rules = [ProtocolRule(id=name, category="C", trigger=one, actions=("order pH",)) for name, one in RULES.items()]
    return GlobalProtocol(name="ward", rules=tuple(rules))


def test_each_rule_held_where_one_bundle_after_another_says_so(synthetic_store: Store) -> None:
    """The oracle: states folded one by one, rules asked of each."""
    found = {one.rule: one for one in lint_in_store(ward(), synthetic_store)}
    index, carried = RuleIndex(ward()), carried_by(synthetic_store)
    held: dict[str, list[tuple[int, object]]] = {name: [] for name in RULES}
    for subject in synthetic_store.subjects[:5].tolist():
        score = partial(store_score(synthetic_store), subject)
        router = Router(index=index, memory=RuleMemory(), carried=carried, score=score)
        bundles = list(subject_bundles(synthetic_store, subject))
        for bundle, state in zip(bundles, states(bundles), strict=True):
            for rule in router.held(router.facts(state, bundle.hour, window_hours=6)):
                held[rule.id].append((subject, bundle.hour))
    for name, hours in held.items():
        keys = [(synthetic_store.subject_key(subject), hour) for subject, hour in hours]
        assert list(found[name].first)[: len(keys)] == keys[:5][: len(found[name].first)], name
        assert found[name].held >= len(hours)
        assert found[name].patients >= len({subject for subject, _ in hours})
    assert found["HIGH"].held > 0
    assert found["OLD"].held > 0
    assert found["NEVER"].held == 0
    assert found["UNITS"].held == 0


def test_what_was_never_seen_and_other_units_are_said(synthetic_store: Store) -> None:
    said = dict(faults_in_store(lint_in_store(ward(), synthetic_store)))
    assert "never seen" in said["NEVER"]
    assert "cannot be compared: mEq/L" in said["UNITS"]
    assert "HIGH" not in said


def test_a_stay_asks_scores_of_its_chart_as_of_the_moment(synthetic_store: Store) -> None:
    told = 0
    for subject in synthetic_store.subjects[:5].tolist():
        last = list(subject_bundles(synthetic_store, subject))[-1].hour
        for name in ("sirs", "gcs", "urine_output", "suspicion_of_infection"):
            found = chart_score(synthetic_store.chart(subject, last), name, 6.0 if name == "urine_output" else None)
            told_at = score_at(synthetic_store.chart(subject, last), name)
            assert found == told_at.bounds
            if isinstance(told_at.value, int | float):
                assert found is not None
                assert found.low <= told_at.value <= found.high
                told += 1
    assert told


def test_the_command_prints_both(
    synthetic_store_path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_protocol(tmp_path / "ward.toml", ward())
    assert main(["protocol", "lint", str(tmp_path / "ward.toml"), "--store", str(synthetic_store_path)]) == 0
    out = capsys.readouterr().out
    assert "note: in this store: NEVER:" in out
    assert "hours held" in out


PATIENT = {"subject_id": 7, "hadm_id": 1}
RECORD = {
    "patients": [{"subject_id": 7, "gender": "F", "anchor_age": 50, "anchor_year": 2150}],
    "admissions": [
        {**PATIENT, "admittime": "2150-01-01 08:00:00", "dischtime": "2150-01-05 08:00:00", "admission_type": "URGENT"}
    ],
    "labevents": [
        {**PATIENT, "labevent_id": n, "specimen_id": n, "itemid": item, "charttime": f"2150-01-01 {9 + n:02}:00:00"}
        | {"storetime": f"2150-01-01 {9 + n:02}:30:00", "value": value, "valuenum": value, "valueuom": unit}
        for n, (item, value, unit) in enumerate(
            [(50813, 2.5, "mmol/L"), (50813, 5, "mmol/L"), (50813, 45, "mg/dL"), (50813, "", ""), (50983, 140, "mEq/L")]
        )
    ],
    "d_labitems": [
        {"itemid": item, "label": label, "fluid": "Blood", "category": "Chemistry"}
        for item, label in ((50813, "Lactate"), (50983, "Sodium"))
    ],
    "prescriptions": [
        {**PATIENT, "pharmacy_id": n, "poe_id": f"7-{n}", "drug": drug, "dose_val_rx": "5", "dose_unit_rx": "mg"}
        | {"starttime": f"2150-01-02 0{n}:00:00", "stoptime": "2150-01-04 08:00:00"}
        for n, drug in enumerate(("Heparin", "Heparin", "Furosemide"), 1)
    ],
    "pharmacy": [
        {**PATIENT, "pharmacy_id": n, "poe_id": f"7-{n}", "entertime": f"2150-01-02 0{n}:00:00"} for n in (1, 2, 3)
    ],
    "microbiologyevents": [
        {**PATIENT, "microevent_id": 1, "micro_specimen_id": 1, "test_seq": 1, "charttime": "2150-01-02 09:00:00"}
        | {"chartdate": "2150-01-02 00:00:00", "storetime": "2150-01-03 09:00:00", "storedate": "2150-01-03 00:00:00"}
        | {"test_name": "Blood Culture, Routine", "spec_type_desc": "BLOOD CULTURE", "test_itemid": 90201}
    ],
    "diagnoses_icd": [{**PATIENT, "seq_num": 1, "icd_code": "A419", "icd_version": 10}],
    "d_icd_diagnoses": [{"icd_code": "A419", "icd_version": 10, "long_title": "Sepsis, unspecified organism"}],
}
"""Three lactates in two units and one without a number, two orders of heparin, a culture, a sepsis."""


@pytest.fixture(scope="module")
def one_patient(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("one")
    ingest("mimiciv", write_folder(folder / "raw", RECORD), folder / "store")
    return Store.open(folder / "store")


LACTATES = {"mmol/L": 2, "mg/dL": 1}


@pytest.mark.parametrize(
    ("trigger", "seen", "units"),
    [
        ("lactate > 4 mmol/L", 3, LACTATES),
        ("any lactate > 4 mmol/L in last 12 h", 3, LACTATES),
        ("lactate rises by >= 1 mmol/L within 6 h", 3, LACTATES),
        ("lactate is high", 3, LACTATES),
        ("count of lactate in last 24 h >= 2", 3, LACTATES),
        ("done lactate in last 6 h", 4, {}),
        ("count of blood culture in last 24 h >= 2", 2, {}),  # taken, and resulted
        ("done blood culture", 2, {}),
        ("on heparin", 2, {}),
        ("on vancomycin", 0, {}),
        ("problem sepsis", 1, {}),
        ("problem pneumonia", 0, {}),
        ("allergy penicillins", 0, {}),
        ("hours since stay > 3", None, {}),
    ],
)
def test_how_often_what_a_condition_asks_for_was_seen(
    trigger: str, seen: int | None, units: dict[str, int], one_patient: Store
) -> None:
    rule = ProtocolRule(id="R", category="C", trigger=trigger, actions=("order pH",))
    (found,) = lint_in_store(GlobalProtocol(name="ward", rules=(rule,)), one_patient)
    (part,) = found.parts
    assert (part.seen, dict(part.units), part.other_units, part.is_unknown) == (seen, units, (), False)
