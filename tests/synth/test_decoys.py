"""Decoys of an ordinary synthetic hospital are there, and no label, chart or definition takes one for an answer."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from wardround.audits import check_labels
from wardround.clinical.bundles import EventKind, ValueLevel, subject_bundles
from wardround.clinical.definitions import score_at
from wardround.records import Store, ingest
from wardround.synth import synthesize
from wardround.tasks.benchmarks import build_clinseek

Row = Mapping[str, str]
POTASSIUM = "50971"
BY_MINUTE, BY_WEIGHT = "mcg/min", "mcg/kg/min"
PRESSORS = {"221906": 1.0, "221749": 0.1}
"""Norepinephrine and phenylephrine, in norepinephrine equivalents."""
ASKED = ("ICU_Mortality_7day", "Inpatient_Mortality", "Readmission_30day", "LengthOfStay_3day", "ED_Hospitalization")
NEXT = ("labevents", "poe")


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decoys") / "raw"
    synthesize(folder, patients=120, seed=3, notes=False, compress=False)
    return folder


@pytest.fixture(scope="module")
def store(raw: Path) -> Store:
    ingest("mimiciv", raw, raw.parent / "store")
    return Store.open(raw.parent / "store")


def rows(raw: Path, table: str) -> Sequence[Row]:
    with next(raw.rglob(f"{table}.csv")).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def told_again(raw: Path) -> list[tuple[Row, Row]]:
    """Potassium of one draw, and what the laboratory said of it later."""
    first: dict[tuple[str, str], Row] = {}
    pairs = []
    for row in rows(raw, "labevents"):
        if row["itemid"] == POTASSIUM and row["hadm_id"]:
            earlier = first.setdefault((row["hadm_id"], row["charttime"]), row)
            if earlier is not row:
                pairs.append((earlier, row))
    return pairs


def test_labels_agree_by_two_paths_beside_the_decoys(raw: Path, store: Store, tmp_path: Path) -> None:
    """Deaths a week after intensive care began, tests just after a stay: an answer counted from the wrong moment, or
    taken from after the end, differs from what the raw files say."""
    bench = build_clinseek(store, tmp_path / "bench", tasks=(*ASKED, *NEXT), per_task=0, allow_missing=True)
    found = check_labels(bench.all_samples, raw)
    assert found.clean, found.as_text()
    assert {task.task for task in found.tasks} == {f"clinseek.{name}" for name in (*ASKED, *NEXT)}
    died = [one for one in bench.all_samples if one.task == "clinseek.ICU_Mortality_7day" and one.target == ("1",)]
    began = {row["subject_id"]: datetime.fromisoformat(row["intime"]) for row in rows(raw, "icustays")}
    days = {row["subject_id"]: row["dod"] for row in rows(raw, "patients")}
    between = [
        one for one in died if days[str(one.subject_id)] == f"{began[str(one.subject_id)] + timedelta(7):%Y-%m-%d}"
    ]
    assert len(between) >= 3


def test_a_result_told_again_is_on_no_chart_before(raw: Path, store: Store) -> None:
    pairs = told_again(raw)
    assert len(pairs) >= 10
    for first, again in pairs:
        if not first["storetime"]:
            continue
        told = datetime.fromisoformat(again["storetime"])
        for moment, wanted in (
            (told - timedelta(seconds=1), {first["valuenum"]}),
            (told, {first["valuenum"], again["valuenum"]}),
        ):
            batch = store.chart(int(first["subject_id"]), moment).table("labevents").batch
            taken = datetime.fromisoformat(first["charttime"])
            shown = {
                f"{row['valuenum']:g}"
                for row in batch.select(["itemid", "charttime", "valuenum"]).to_pylist()
                if row["itemid"] == int(POTASSIUM) and row["charttime"] == taken
            }
            assert shown <= {f"{float(value):g}" for value in wanted}


def test_a_drip_by_the_minute_is_the_dose_by_weight(raw: Path, store: Store) -> None:
    """The same in ug/kg/min, a tenth of phenylephrine's, whatever the unit that the ward charts in."""
    drips = [row for row in rows(raw, "inputevents") if row["itemid"] in PRESSORS]
    assert {row["rateuom"] for row in drips} == {BY_MINUTE, BY_WEIGHT}
    looked = [row for row in drips if row["rateuom"] == BY_MINUTE]
    assert len(looked) >= 10
    for row in looked:
        moment = datetime.fromisoformat(row["starttime"]) + timedelta(minutes=1)
        runs = [
            one
            for one in drips
            if one["stay_id"] == row["stay_id"] and one["starttime"] <= str(moment) < one["endtime"]
        ]
        dose = sum(
            PRESSORS[one["itemid"]]
            * float(one["originalrate"])
            / (float(one["patientweight"]) if one["rateuom"] == BY_MINUTE else 1.0)
            for one in runs
        )
        if all(one["storetime"] <= str(moment) for one in runs):
            found = score_at(store.chart(int(row["subject_id"]), moment), "vasopressors").value
            assert found == pytest.approx(dose, rel=1e-3)


def test_an_order_of_an_emergency_visit_does_not_say_who_is_admitted(raw: Path) -> None:
    home = {row["stay_id"]: row for row in rows(raw, "edstays") if not row["hadm_id"]}
    ordered = [
        visit
        for visit in home.values()
        for row in rows(raw, "poe")
        if row["subject_id"] == visit["subject_id"] and visit["intime"] <= row["ordertime"] <= visit["outtime"]
    ]
    assert len(ordered) >= 5


def test_a_value_on_its_limit_is_normal(raw: Path, store: Store) -> None:
    names = {row["itemid"]: row["label"] for row in rows(raw, "d_labitems")}
    on_limit: dict[int, set[tuple[str, str, float]]] = {}
    for row in rows(raw, "labevents"):
        ends = [float(row[end]) for end in ("ref_range_lower", "ref_range_upper") if row[end]]
        if row["valuenum"] and float(row["valuenum"]) in ends:
            assert not row["flag"]
            key = (names[row["itemid"]], row["charttime"], float(row["valuenum"]))
            on_limit.setdefault(int(row["subject_id"]), set()).add(key)
    assert sum(map(len, on_limit.values())) > 100
    looked = 0
    for subject in sorted(on_limit)[:20]:
        for bundle in subject_bundles(store, subject):
            for event in bundle.of_kind(EventKind.LAB):
                if (event.concept, str(event.time), event.value) in on_limit[subject]:
                    looked += 1
                    assert event.level is ValueLevel.NORMAL
    assert looked > 20
