"""What is done at the bedside: doses as ordered, drips by weight, ventilators and scales that agree with themselves."""

from __future__ import annotations

from collections import Counter, defaultdict
from datetime import datetime
from itertools import pairwise

import pytest
from synth_rows import PATIENTS, SEED, Reader, Row

from wardround.synth.catalog import load_catalog
from wardround.synth.person import draw_subject

_ALLOWED = {
    "Heparin IV Infusion": {"Started", "Confirmed", "Stopped"},
    "IV Infusion": {"Started", "Confirmed", "Stopped"},
    "IV Flush": {"Flushed", "Not Flushed"},
    "Insulin SC Fixed Dose": {"Administered", "Delayed Administered", "Hold Dose", "Not Given"},
    "Insulin SC Sliding Scale": {"Administered", "Not Given per Sliding Scale"},
    "Standard Maintenance Medication": {"Administered", "Delayed Administered", "Hold Dose", "Not Given"},
}
_GIVEN = {"Administered", "Delayed Administered", "Flushed", "Started", "Confirmed"}
_CLOCK = {
    "DAILY": (8,), "DAILY16": (16,), "Q24H": (10,), "QHS": (22,), "QPM": (20,), "BID": (8, 20), "Q12H": (8, 20),
    "TID": (8, 14, 20), "Q8H": (6, 14, 22), "QID": (6, 12, 18, 22), "Q6H": (0, 6, 12, 18), "ASDIR": (8, 12, 18, 22),
}  # fmt: skip
"""When a ward gives what is ordered so."""
_LABELS = {
    "PEEP set": "peep", "Inspired O2 Fraction": "fraction", "Ventilator Mode": "mode", "Heart Rate": "heart_rate",
    "O2 Delivery Device(s)": "device", "Braden Activity": "braden",
    "Tidal Volume (set)": "volume_set", "Tidal Volume (observed)": "volume_seen", "Minute Volume": "minute_volume",
    "Respiratory Rate (Set)": "rate_set", "Respiratory Rate (Total)": "rate_total", "Peak Insp. Pressure": "peak",
    "Plateau Pressure": "plateau", "O2 Flow": "flow", "GCS - Eye Opening": "eye", "GCS - Verbal Response": "verbal",
    "GCS - Motor Response": "motor", "Richmond-RAS Scale": "rass", "Heart Rhythm": "rhythm", "Pain Level": "pain",
    "Temperature Fahrenheit": "temperature", "Code Status": "code_status", "Height (cm)": "height",
    "Arterial Blood Pressure systolic": "systolic", "Arterial Blood Pressure diastolic": "diastolic",
    "Arterial Blood Pressure mean": "mean", "Non Invasive Blood Pressure systolic": "systolic",
    "Non Invasive Blood Pressure diastolic": "diastolic", "Non Invasive Blood Pressure mean": "mean",
}  # fmt: skip
_FIBRILLATES = "AF (Atrial Fibrillation)"


def _when(text: str) -> datetime:
    return datetime.fromisoformat(text)


def _hours(row: Row) -> float:
    return (_when(row["endtime"]) - _when(row["starttime"])).total_seconds() / 3600


def _charted(rows: Reader) -> dict[tuple[str, str], dict[str, Row]]:
    """By stay and time: what was charted then, under short names."""
    names = {row["itemid"]: _LABELS.get(row["label"], "") for row in rows("d_items")}
    found: dict[tuple[str, str], dict[str, Row]] = defaultdict(dict)
    for row in rows("chartevents"):
        if names[row["itemid"]]:
            found[row["stay_id"], row["charttime"]][names[row["itemid"]]] = row
    return found


def _doses(rows: Reader) -> list[tuple[Row, Row, list[Row]]]:
    """Each dose with its product and its details."""
    details: dict[str, list[Row]] = defaultdict(list)
    for row in rows("emar_detail"):
        details[row["emar_id"]].append(row)
    products = {row["pharmacy_id"]: row for row in rows("pharmacy")}
    return [(dose, products[dose["pharmacy_id"]], details[dose["emar_id"]]) for dose in rows("emar")]


def test_a_dose_is_what_its_kind_of_order_can_become(rows: Reader) -> None:
    """A first line says what was due, a second what was given, where anything was."""
    seen: dict[str, set[str]] = defaultdict(set)
    for dose, product, (due, *given) in _doses(rows):
        kind, event = due["administration_type"], dose["event_txt"]
        seen[kind].add(event)
        assert len(given) == (event in _GIVEN)
        assert (due["parent_field_ordinal"], [row["parent_field_ordinal"] for row in given]) == (
            "",
            ["1.1"] * len(given),
        )
        assert (kind == "Heparin IV Infusion") == (
            product["frequency"] == "INFUSION" and "Heparin" in dose["medication"]
        )
        for row in given:
            assert row["pharmacy_id"] == dose["pharmacy_id"]
            assert row["product_description"] == dose["medication"] == product["medication"]
            drips = kind.endswith("IV Infusion")
            assert (
                bool(row["infusion_rate"]) == drips == bool(row["infusion_rate_adjustment"]) != bool(row["dose_given"])
            )
            assert (row["new_iv_bag_hung"] == "Y") == (event == "Started")
            if kind in ("Standard Maintenance Medication", "Insulin SC Fixed Dose", "IV Flush"):
                assert row["dose_given"] == due["dose_due"]
            elif kind == "Insulin SC Sliding Scale":
                assert float(row["dose_given"]) in (2, 4, 6, 8, 10)
            elif event == "Started":
                assert row["infusion_rate"] == due["dose_due"]
    assert seen == _ALLOWED


def test_doses_are_due_by_the_clock_of_their_order(rows: Reader) -> None:
    """Or at once, where the next hour of the clock is more than five hours away; each once, within its order."""
    due: dict[str, list[str]] = defaultdict(list)
    products = {}
    for dose, product, _ in _doses(rows):
        due[product["pharmacy_id"]].append(dose["scheduletime"])
        products[product["pharmacy_id"]] = product
    seen: Counter[str] = Counter()
    for key, times in due.items():
        product = products[key]
        hours = _CLOCK.get(product["frequency"])
        assert all(product["starttime"] <= time <= product["stoptime"] for time in times)
        if hours is None:
            continue
        assert len(times) == len(set(times))
        first = min(times)
        for time in map(_when, times):
            if time.minute or time.hour not in hours:
                assert f"{time}" == first == product["starttime"]
            seen[product["frequency"]] += 1
        ahead = [
            time
            for hour in hours
            if (time := _when(product["starttime"]).replace(hour=hour, minute=0, second=0))
            >= _when(product["starttime"])
        ]
        if ahead and first != product["starttime"] and product["frequency"] != "ASDIR":
            assert _when(first) <= min(ahead)
    assert seen.keys() == _CLOCK.keys()


def test_a_drip_gives_its_rate_for_as_long_as_it_runs(rows: Reader) -> None:
    """Of one dosed by weight, ug/kg/min times the kilograms; rates of one drip follow each other without a gap."""
    drips: dict[tuple[str, str, str], list[Row]] = defaultdict(list)
    for row in rows("inputevents"):
        if row["rate"]:
            rate, hours = float(row["rate"]), _hours(row)
            factor = {"mcg/kg/min": float(row["patientweight"]) * 60 / 1000}.get(row["rateuom"], 1.0)
            assert float(row["amount"]) == pytest.approx(rate * factor * hours, rel=0.01, abs=0.01), row
            drips[row["stay_id"], row["linkorderid"], row["itemid"]].append(row)
        else:
            assert _hours(row) == pytest.approx(1 / 60)
            assert row["amount"] == row["originalamount"] == row["originalrate"]
    assert max(map(len, drips.values())) > 3
    for several in drips.values():
        several.sort(key=lambda row: row["starttime"])
        for one, after in pairwise(several):
            assert (one["endtime"], one["statusdescription"]) == (after["starttime"], "ChangeDose/Rate")
        assert several[0]["orderid"] == several[0]["linkorderid"]
        assert several[-1]["statusdescription"] in ("Stopped", "FinishedRunning")


def test_what_a_ventilator_shows_agrees_with_how_it_is_set(rows: Reader) -> None:
    """Weaned people breathe by themselves at a PEEP of 5: nothing is set. 6 to 7.2 ml are set per kilogram of the body
    that somebody of the height should have (ARDSNet: 50 kg for a man of 152.4 cm, 0.91 a cm, women 4.5 less)."""
    catalog = load_catalog()
    people = {str(90_000_000 + number): draw_subject(SEED, number, catalog)[0] for number in range(PATIENTS)}
    modes: Counter[str] = Counter()
    for said in _charted(rows).values():
        if "device" not in said:
            continue
        value = {name: float(row["valuenum"]) for name, row in said.items() if row["valuenum"]}
        device = said["device"]["value"]
        assert ("mode" in said) == (device == "Endotracheal tube")
        assert ("flow" in said) == ("cannula" in device)
        if device != "Endotracheal tube":
            assert value.get("flow", 0) in {"None": {0}, "Nasal cannula": {1, 2, 3, 4, 5}}.get(device, {40})
            continue
        mode = said["mode"]["value"]
        modes[mode] += 1
        assert (said["verbal"]["value"], value["verbal"]) == ("No Response-ETT", 1)
        assert "pain" not in said
        assert value["rass"] in (-1, -2, -3)
        assert value["minute_volume"] == pytest.approx(value["volume_seen"] * value["rate_total"] / 1000, abs=0.1)
        assert ({"volume_set", "rate_set", "plateau"} <= said.keys()) == (mode != "PSV/SBT")
        if mode == "PSV/SBT":
            assert (value["peep"], value["fraction"] in (40, 50), "volume_set" in said) == (5, True, False)
            continue
        assert value["rate_set"] <= value["rate_total"] <= value["rate_set"] + 2
        assert 0.91 <= value["volume_seen"] / value["volume_set"] <= 1.11
        who = people[said["mode"]["subject_id"]]
        ideal = 50 + 0.91 * (who.height_cm - 152.4) - (4.5 if who.sex == "F" else 0)
        assert 6 * ideal - 5 <= value["volume_set"] <= 7.2 * ideal + 5, "in tens of ml"
    assert min(modes["PSV/SBT"], modes["CMV/ASSIST/AutoFlow"]) > 10


def test_nobody_who_dies_is_to_be_resuscitated(rows: Reader) -> None:
    dead = {row["hadm_id"] for row in rows("admissions") if row["deathtime"]}
    seen = set()
    for said in _charted(rows).values():
        if "code_status" in said:
            is_dead = said["code_status"]["hadm_id"] in dead
            assert said["code_status"]["value"] == ("DNR / DNI" if is_dead else "Full code")
            seen.add(is_dead)
    assert seen == {True, False}


def test_scales_and_pressures_are_possible(rows: Reader) -> None:
    words: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    rhythms: dict[str, list[float]] = defaultdict(list)
    for said in _charted(rows).values():
        if "mean" in said:
            low, mean, high = (float(said[name]["value"]) for name in ("diastolic", "mean", "systolic"))
            assert low >= 28
            assert mean == pytest.approx(low + (high - low) / 3, abs=1.1)
        if "rhythm" in said:
            rate = float(said["heart_rate"]["value"])
            rhythms[said["rhythm"]["value"].strip()].append(rate)
        for name in ("eye", "verbal", "motor", "rass", "pain", "braden"):
            if name in said:
                words[name][said[name]["valuenum"]].add(said[name]["value"])
    usual, fast = rhythms["SR (Sinus Rhythm)"], rhythms["ST (Sinus Tachycardia)"]
    assert rhythms.keys() <= {"SR (Sinus Rhythm)", "ST (Sinus Tachycardia)", "SB (Sinus Bradycardia)", _FIBRILLATES}
    assert min(fast) > 85, "above 100 but for what is charted beside it"
    assert min(map(len, (usual, fast))) > 50
    assert max(usual) < 115
    assert {int(number) for number in words["eye"]} <= set(range(1, 5))
    assert {int(number) for number in words["verbal"]} <= set(range(1, 6))
    assert {int(number) for number in words["motor"]} <= set(range(1, 7))
    assert {int(number) for number in words["pain"]} <= set(range(11))
    for name, by_number in words.items():
        several = {"verbal": {"1"}}.get(name, set())  # no words with a tube, or for want of them
        assert all(len(said) == 1 or number in several for number, said in by_number.items()), name
    assert words["eye"]["4"] == {"Spontaneously"}
    assert words["motor"]["6"] == {"Obeys Commands"}
    assert words["rass"]["0"] == {" 0  Alert and calm"}
    assert words["verbal"]["5"] == {"Oriented"}
    assert words["braden"] == {"1": {"Bedfast"}, "2": {"Chairfast"}}
    assert (words["pain"]["0"], words["pain"]["5"]) == ({"None"}, {"Moderate"})


def test_a_chest_tube_is_read_in_steps_of_ten_and_may_drain_nothing(rows: Reader) -> None:
    read = [float(row["value"]) for row in rows("outputevents") if row["itemid"] == "226588"]
    assert {volume % 10 for volume in read} == {0.0}
    assert min(read) == 0


def test_pain_is_a_number_up_to_ten_or_a_word_for_why_there_is_none(rows: Reader) -> None:
    for table in ("triage", "vitalsign"):
        assert {row["pain"] for row in rows(table)} == {*map(str, range(11)), "", "unable", "UTA", "asleep"}


def test_hemolysis_raises_potassium_and_is_said(rows: Reader) -> None:
    """By 0.7 beside the same person's others, on average of many."""
    catalog = load_catalog()
    item = str(catalog.analytes["potassium"].itemid)
    of_person: dict[str, list[float]] = defaultdict(list)
    spoilt: list[tuple[str, float]] = []
    for row in rows("labevents"):
        if row["itemid"] == item and row["valuenum"]:
            if row["comments"] == "HEMOLYSIS FALSELY ELEVATES THIS TEST.":
                spoilt.append((row["subject_id"], float(row["valuenum"])))
            else:
                of_person[row["subject_id"]].append(float(row["valuenum"]))
    above = [value - sum(of_person[who]) / len(of_person[who]) for who, value in spoilt if of_person[who]]
    assert len(above) > 20
    assert 0.5 < sum(above) / len(above) < 0.9


def test_red_cells_run_in_within_three_hours_each(rows: Reader) -> None:
    (item,) = {row["itemid"] for row in rows("d_items") if row["label"] == "Packed Red Blood Cells"}
    given = [row for row in rows("inputevents") if row["itemid"] == item]
    assert given, "some of those who are transfused lie in intensive care"
    for row in given:
        assert (float(row["amount"]), row["amountuom"]) == (350.0, "ml")
        length = datetime.fromisoformat(row["endtime"]) - datetime.fromisoformat(row["starttime"])
        assert 80 <= length.total_seconds() / 60 < 170
        assert float(row["rate"]) == pytest.approx(350 / (length.total_seconds() / 3600), rel=0.01)
