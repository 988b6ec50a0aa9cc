"""Drugs, who gets which and for how long; registration, emergency charts, billing, cultures: row beside row."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from synth_rows import Reader, Row

from wardround.synth.catalog import load_catalog

HOUR = timedelta(hours=1)
CATALOG = load_catalog()


def when(text: str) -> datetime:
    return datetime.fromisoformat(text)


def by(rows: list[Row], *columns: str) -> dict[tuple[str, ...], list[Row]]:
    found: dict[tuple[str, ...], list[Row]] = defaultdict(list)
    for row in rows:
        found[tuple(row[name] for name in columns)].append(row)
    return found


def kinds_of(name: str) -> frozenset[str]:
    return frozenset().union(*(drug.kinds for drug in CATALOG.drugs.values() if drug.name == name))


def test_no_product_and_no_second_anticoagulant_is_given_twice_at_once(rows: Reader) -> None:
    thins = {row["medication"] for row in rows("pharmacy") if "anticoagulant" in kinds_of(row["medication"])}
    for columns, chosen, least in (
        (("hadm_id", "medication", "route"), {row["medication"] for row in rows("pharmacy")}, 50),
        (("hadm_id",), thins, 1),
    ):
        seen = 0
        for group in by([row for row in rows("pharmacy") if row["medication"] in chosen], *columns).values():
            group.sort(key=lambda row: row["starttime"])
            for one, after in pairwise(group):
                assert one["stoptime"] <= after["starttime"], (one, after)
                seen += 1
        assert seen >= least


def test_how_an_order_ended_is_when_it_ended(rows: Reader) -> None:
    """With the stay, in its last four hours; else before, and what was changed goes on in another dose at once."""
    stays = {row["hadm_id"]: when(row["dischtime"]) for row in rows("admissions")}
    doses = {row["pharmacy_id"]: row["dose_val_rx"] for row in rows("prescriptions") if row["drug_type"] == "MAIN"}
    seen: Counter[str] = Counter()
    for (hadm, _name), several in by(rows("pharmacy"), "hadm_id", "medication").items():
        for row in several:
            left = stays[hadm] - when(row["stoptime"])
            seen[row["status"]] += 1
            if row["status"] == "Discontinued via patient discharge":
                assert timedelta(0) <= left < HOUR
            elif row["status"] == "Expired":
                assert when(row["stoptime"]) - when(row["starttime"]) == HOUR
                assert (row["duration"], row["duration_interval"]) == ("1", "Doses")
            elif row["status"] == "Inactive (Due to a change order)":
                (after,) = (one for one in several if one["starttime"] == row["stoptime"])
                assert doses[after["pharmacy_id"]] != doses[row["pharmacy_id"]]
                assert when(after["stoptime"]) - when(row["starttime"]) > 30 * HOUR
            else:
                assert left > 3 * HOUR, (row, stays[hadm])
    assert min(seen[name] for name in ("Expired", "Discontinued", "Inactive (Due to a change order)")) > 20


def test_a_product_is_told_as_it_is_given(rows: Reader) -> None:
    daily = {"DAILY": 1, "Q24H": 1, "QHS": 1, "QPM": 1, "BID": 2, "Q12H": 2, "TID": 3, "Q8H": 3, "QID": 4, "Q6H": 4}
    drugs = defaultdict(list)
    for drug in CATALOG.drugs.values():
        drugs[drug.name, drug.freq].append(drug)
    for row in rows("pharmacy"):
        (drug, *_) = drugs[row["medication"], row["frequency"]]
        if row["frequency"] in daily:
            assert row["doses_per_24_hrs"] == str(daily[row["frequency"]])
        life = when(row["expirationdate"]) - when(row["starttime"])
        assert life == (36 * HOUR if row["route"].startswith("IV") else timedelta(days=365))
        assert (row["infusion_type"] == "C") == (drug.kind == "infusion")
        assert bool(row["sliding_scale"]) == ("insulin" in drug.kinds)
        assert (row["sliding_scale"] == "Y") == (drug.kind == "sliding")
        assert (row["proc_type"] == "IV Large Volume") == (drug.kind in ("infusion", "fluid"))
    for (_, kind), several in by(rows("prescriptions"), "pharmacy_id", "drug_type").items():
        assert len(several) == 1
        assert kind in ("MAIN", "BASE")
    products = {row["pharmacy_id"]: row for row in rows("pharmacy")}
    for row in rows("prescriptions"):
        product = products[row["pharmacy_id"]]
        assert (row["starttime"], row["stoptime"]) == (product["starttime"], product["stoptime"])
        if row["drug_type"] == "MAIN":
            (drug, *_) = drugs[product["medication"], product["frequency"]]
            assert row["drug"] == product["medication"]
            if drug.kind not in ("infusion", "sliding"):
                pieces = float(row["dose_val_rx"]) / drug.per
                assert float(row["form_val_disp"]) == pytest.approx(pieces, abs=0.006)
            assert (row["dose_val_rx"] == "0") == (drug.kind == "sliding"), "how much is read off the scale"
        else:
            assert float(row["dose_val_rx"]) in (50, 100, 250)


def test_low_potassium_and_magnesium_are_replaced_after_their_result(rows: Reader) -> None:
    """Within four hours and the time of an order; in intensive care by vein."""
    names = {row["itemid"]: row["label"] for row in rows("d_labitems")}
    low: dict[tuple[str, str], list[datetime]] = defaultdict(list)
    for row in rows("labevents"):
        name, limit = names[row["itemid"]], {"Potassium": 3.5, "Magnesium": 1.6}
        if name in limit and row["valuenum"] and float(row["valuenum"]) <= limit[name]:
            low[row["subject_id"], name].append(when(row["charttime"]))
    icu = by(rows("icustays"), "hadm_id")
    follows: dict[str, list[bool]] = defaultdict(list)
    for row in rows("pharmacy"):
        name = row["medication"].partition(" ")[0]
        if name not in ("Potassium", "Magnesium") or row["status"] != "Expired":
            continue
        entered = when(row["entertime"])
        waits = [entered - drawn for drawn in low[row["subject_id"], name]]
        follows[name].append(any(1.5 * HOUR <= wait <= 4.4 * HOUR for wait in waits))
        if name == "Potassium" and follows[name][-1]:
            inside = any(one["intime"] <= row["entertime"] <= one["outtime"] for one in icu.get((row["hadm_id"],), ()))
            assert inside == row["route"].startswith("IV"), row
    assert len(follows["Magnesium"]) > 20
    assert all(follows["Magnesium"])
    assert sum(follows["Potassium"]) > 0.7 * len(follows["Potassium"]), "some with insulin, whatever it is"


def test_sedatives_run_while_a_ventilator_does(rows: Reader) -> None:
    ventilated = {
        row["hadm_id"]: (row["starttime"], row["endtime"])
        for row in rows("procedureevents")
        if row["itemid"] == "225792"
    }
    seen = 0
    for row in rows("pharmacy"):
        if "sedative" in kinds_of(row["medication"]) and row["frequency"].startswith("TITRATE"):
            begin, end = (when(text) for text in ventilated[row["hadm_id"]])
            assert begin - HOUR <= when(row["starttime"]) < when(row["stoptime"]) <= end + HOUR
            seen += 1
    assert seen > 4


@pytest.mark.parametrize(
    ("codes", "withheld"),
    [
        ("578 531 456 K92 K25 K26 K27 I850 I851 430 431 432 I60 I61 I62", {"oral_anticoagulant", "antiplatelet"}),
    ],
)
def test_who_bleeds_gets_no_blood_thinner_of_home(codes: str, withheld: set[str], rows: Reader) -> None:
    bleeding = {row["hadm_id"] for row in rows("diagnoses_icd") if row["icd_code"].startswith(tuple(codes.split()))}
    given = {row["hadm_id"] for row in rows("pharmacy") if kinds_of(row["medication"]) & withheld}
    assert len(bleeding) > 5
    assert len(given - bleeding) > 20
    assert len(bleeding & given) == 0


def test_registration_is_of_one_mind(rows: Reader) -> None:
    people = {row["subject_id"]: row for row in rows("patients")}
    first_year: dict[str, int] = {}
    for row in sorted(rows("admissions") + rows("edstays"), key=lambda row: row.get("admittime") or row["intime"]):
        first_year.setdefault(row["subject_id"], int((row.get("admittime") or row["intime"])[:4]))
    for person in people.values():
        assert int(person["anchor_year"]) == first_year[person["subject_id"]]
        assert int(person["anchor_age"]) <= 89 or person["anchor_age"] == "91"
        begin, end = map(int, person["anchor_year_group"].split(" - "))
        assert end - begin == 2
        assert begin in (2008, 2011, 2014, 2017, 2020)
    for row in rows("admissions"):
        person = people[row["subject_id"]]
        age = int(person["anchor_age"]) + int(row["admittime"][:4]) - int(person["anchor_year"])
        if age >= 67:
            assert row["insurance"] in ("Medicare", "Other")
        assert (row["discharge_location"] == "DIED") == bool(row["deathtime"]) == (row["hospital_expire_flag"] == "1")
        assert row["deathtime"] in ("", row["dischtime"])
        assert bool(row["edregtime"]) == bool(row["edouttime"])
        if row["edregtime"]:
            assert row["edregtime"] < row["admittime"] < row["edouttime"]
            assert row["admission_type"] in ("EW EMER.", "OBSERVATION ADMIT", "URGENT", "EU OBSERVATION")
            if row["admission_type"] == "EU OBSERVATION":
                assert when(row["dischtime"]) - when(row["admittime"]) < 48 * HOUR
                assert not row["deathtime"]
        elif row["admission_location"] == "TRANSFER FROM HOSPITAL":
            assert row["admission_type"] == "URGENT"
        else:
            assert row["admission_type"] in ("DIRECT EMER.", "SURGICAL SAME DAY ADMISSION", "ELECTIVE")
    for (_,), several in by(rows("services"), "hadm_id").items():
        assert (several[0]["prev_service"], len(several) <= 2) == ("", True)
        for one, after in pairwise(several):
            assert (one["curr_service"], after["prev_service"]) == ("MED", "MED")
            assert after["curr_service"] in ("CMED", "SURG", "NMED")
            assert one["transfertime"] < after["transfertime"]
    admitted = {row["hadm_id"]: when(row["admittime"]) for row in rows("admissions")}
    firsts = {hadm: when(several[0]["transfertime"]) for (hadm,), several in by(rows("services"), "hadm_id").items()}
    assert {firsts[hadm] - admitted[hadm] for hadm in admitted} == {timedelta(seconds=61)}


def test_emergency_charts_are_numbered_and_possible(rows: Reader) -> None:
    stays = {row["stay_id"]: row for row in rows("edstays")}
    for row in rows("triage"):
        if row["acuity"] == "1":
            assert stays[row["stay_id"]]["arrival_transport"] == "AMBULANCE"
        assert row["acuity"] in ("", "1", "2", "3", "4")
    for table in ("triage", "vitalsign"):
        for row in rows(table):
            if row["sbp"]:
                assert float(row["dbp"]) >= 28
                if float(row["dbp"]) > 28:
                    assert 0.48 <= float(row["dbp"]) / float(row["sbp"]) <= 0.64
            assert bool(row["sbp"]) == bool(row["dbp"])
    for (_,), several in by(rows("pyxis"), "stay_id").items():
        assert [row["med_rn"] for row in several] == [str(n) for n in range(1, len(several) + 1)]
        assert [row["charttime"] for row in several] == sorted(row["charttime"] for row in several)
    for (_,), several in by(rows("diagnosis"), "stay_id").items():
        assert [row["seq_num"] for row in several] == [str(n) for n in range(1, len(several) + 1)]
        assert len({row["icd_code"] for row in several}) == len(several)
        assert len({row["icd_version"] for row in several}) == 1
    for (stay,), several in by(rows("vitalsign"), "stay_id").items():
        times = [when(row["charttime"]) for row in several]
        assert times[0] - when(stays[stay]["intime"]) <= timedelta(minutes=21)
        assert all(timedelta(minutes=41) <= after - one <= 2.61 * HOUR for one, after in pairwise(times))


def test_billing_is_numbered_and_graded(rows: Reader) -> None:
    for table in ("diagnoses_icd", "procedures_icd"):
        for several in by(rows(table), "hadm_id").values():
            assert [row["seq_num"] for row in several] == [str(n) for n in range(1, len(several) + 1)]
            assert table == "procedures_icd" or len({row["icd_code"] for row in several}) == len(several)
    grades: dict[bool, list[int]] = {True: [], False: []}
    dead = {row["hadm_id"] for row in rows("admissions") if row["deathtime"]}
    for (hadm,), several in by(rows("drgcodes"), "hadm_id").items():
        assert [row["drg_type"] for row in several] == ["APR", "HCFA"]
        apr, hcfa = several
        assert (hcfa["drg_severity"], hcfa["drg_mortality"]) == ("", "")
        assert {apr["drg_severity"], apr["drg_mortality"]} <= set("1234")
        grades[hadm in dead].append(int(apr["drg_severity"]))
    assert {1, 2, 3, 4} >= set(grades[False]) >= {2, 3}
    assert sum(grades[True]) / len(grades[True]) > sum(grades[False]) / len(grades[False]) + 0.7
    allergic = {row["hadm_id"] for row in rows("diagnoses_icd") if row["icd_code"] in ("V140", "Z880")}
    assert allergic
    unresuscitated = {row["hadm_id"] for row in rows("diagnoses_icd") if row["icd_code"] in ("V4986", "Z66")}
    ages = {row["subject_id"]: (int(row["anchor_age"]), int(row["anchor_year"])) for row in rows("patients")}
    for row in rows("admissions"):
        if row["hadm_id"] in unresuscitated - dead:
            age, year = ages[row["subject_id"]]
            assert age + int(row["admittime"][:4]) - year >= 78


def test_clinic_measurements_are_those_of_one_body(rows: Reader) -> None:
    """BMI by weight and height of the same day: pounds over square inches times 703."""
    seen = 0
    for several in by(rows("omr"), "subject_id", "chartdate").values():
        value = {row["result_name"]: row["result_value"] for row in several}
        if {"BMI (kg/m2)", "Weight (Lbs)", "Height (Inches)"} <= value.keys():
            weight, height = float(value["Weight (Lbs)"]), float(value["Height (Inches)"])
            assert float(value["BMI (kg/m2)"]) == pytest.approx(703 * weight / height**2, rel=0.005)
            seen += 1
        if "Blood Pressure" in value:
            high, low = map(int, value["Blood Pressure"].split("/"))
            assert 0.5 <= low / high <= 0.65
        for name, same in by(several, "result_name").items():
            assert {row["seq_num"] for row in same} in ({"1"}, {"1", "2"}), name
    assert seen > 30


def test_a_culture_is_read_in_the_hours_of_its_test(rows: Reader) -> None:
    letters: Counter[str] = Counter()
    for (_, _), several in by(rows("microbiologyevents"), "micro_specimen_id", "test_seq").items():
        assert len({(row["charttime"], row["chartdate"], row["storetime"]) for row in several}) == 1
        row = several[0]
        assert row["chartdate"].endswith(" 00:00:00")
        if row["charttime"]:
            assert row["charttime"][:10] == row["chartdate"][:10]
            assert not row["storetime"] or row["charttime"] < row["storetime"]
        assert not row["storetime"] or row["storetime"][:10] == row["storedate"][:10]
        for one in several:
            if one["interpretation"]:
                letters[one["interpretation"]] += 1
                text = one["dilution_text"]
                if text:
                    sign = one["dilution_comparison"].strip()
                    assert text == (one["dilution_value"] if sign == "=" else sign + one["dilution_value"])
            assert bool(one["org_itemid"]) == bool(one["org_name"])
    for (_,), several in by(rows("microbiologyevents"), "micro_specimen_id").items():
        numbers = sorted({int(row["test_seq"]) for row in several})
        assert numbers == list(range(1, len(numbers) + 1))
    assert letters["S"] > letters["R"] > letters["I"] >= 0
