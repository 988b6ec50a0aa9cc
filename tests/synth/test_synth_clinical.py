"""A clinician must not laugh: ranges, arithmetic, sex, allergies, trends, cultures, versions."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import suppress

from synth_rows import PATIENTS, SEED, Reader, Row

from wardround.synth.catalog import load_catalog
from wardround.synth.person import draw_subject

_PLAUSIBLE = {
    50983: (105, 170), 50971: (2.0, 8.0), 50912: (0.2, 15), 51006: (2, 200), 50931: (30, 1000), 51222: (3.5, 20),
    51265: (4, 1200), 51301: (0.1, 100), 50813: (0.3, 25), 50820: (6.7, 7.7), 50882: (3, 48), 51237: (0.8, 12),
    50868: (4, 45), 50902: (70, 135), 51221: (11, 60), 51250: (58, 128),
}  # fmt: skip
_VITALS = {
    220045: (25, 190),
    220277: (50, 100),
    220210: (4, 60),
    223761: (90, 107),
    220179: (45, 240),
    223835: (21, 100),
}
_PENICILLIN = re.compile("penicillin|piperacillin|ampicillin|amoxicillin", re.IGNORECASE)
_FEMALE, _MALE = re.compile("ovar|female", re.IGNORECASE), re.compile("prostat", re.IGNORECASE)


def _draws(rows: Reader) -> dict[tuple[str, str], dict[str, float]]:
    """(specimen, time) -> item -> value."""
    draws: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in rows("labevents"):
        if row["valuenum"]:
            draws[row["specimen_id"], row["charttime"]][row["itemid"]] = float(row["valuenum"])
    return draws


def test_values_are_those_of_living_people_with_their_units(rows: Reader) -> None:
    units: dict[str, set[str]] = defaultdict(set)
    for row in rows("labevents"):
        units[row["itemid"]].add(row["valueuom"])
        bounds = _PLAUSIBLE.get(int(row["itemid"]))
        if bounds is not None and row["valuenum"]:
            assert bounds[0] <= float(row["valuenum"]) <= bounds[1], row
    assert all(len(found) == 1 for found in units.values())
    assert units["50912"] == {"mg/dL"}
    for row in rows("chartevents"):
        limits = _VITALS.get(int(row["itemid"]))
        if limits is not None:
            assert limits[0] <= float(row["valuenum"]) <= limits[1], row


def test_flags_follow_the_reference_range(rows: Reader) -> None:
    flagged = 0
    for row in rows("labevents"):
        if row["valuenum"] and (row["ref_range_lower"] or row["ref_range_upper"]):
            value = float(row["valuenum"])
            low, high = float(row["ref_range_lower"] or "-inf"), float(row["ref_range_upper"] or "inf")
            assert (row["flag"] == "abnormal") == (value < low or value > high), row
            flagged += row["flag"] == "abnormal"
    assert 0.15 < flagged / len(rows("labevents")) < 0.6


def test_flags_of_a_dipstick_begin_above_a_trace_and_at_a_positive_nitrite(rows: Reader) -> None:
    normal = {
        "51478": {"NEG", "100"},  # glucose
        "51487": {"NEG"},  # nitrite
        "51486": {"NEG", "TR"},  # leukocytes
        "51463": {"NONE", "FEW"},  # bacteria
    }
    seen: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for row in rows("labevents"):
        if row["itemid"] in normal and row["value"] != "___":
            seen[row["itemid"]].add((row["value"], row["flag"]))
    for item, unflagged in normal.items():
        assert unflagged <= {value for value, _ in seen[item]}, "each value that is no finding is in the data"
        assert {value for value, flag in seen[item] if not flag} == unflagged
    assert ("POS", "abnormal") in seen["51487"]
    assert {("SM", "abnormal"), ("MOD", "abnormal")} <= seen["51486"]


def test_numbers_that_must_agree_agree(rows: Reader) -> None:
    gaps, ratios = [], []
    for values in _draws(rows).values():
        if {"50983", "50971", "50902", "50882", "50868"} <= set(values):
            gap = values["50983"] + values["50971"] - values["50902"] - values["50882"]
            gaps.append(abs(gap - values["50868"]))
        if {"51221", "51222"} <= set(values):
            ratios.append(values["51221"] / values["51222"])
    assert max(gaps) <= 3.5, (
        "anion gap is sodium + potassium - chloride - bicarbonate; 0.7 of potassium may be haemolysis"
    )
    assert 2.8 < min(ratios) <= max(ratios) < 3.3


_RELATIONS: dict[str, tuple[Callable[[dict[str, float]], float], float]] = {
    "MCV": (lambda v: v["Hematocrit"] * 10 / v["Red Blood Cells"], 0.015),
    "MCH": (lambda v: v["Hemoglobin"] * 10 / v["Red Blood Cells"], 0.015),
    "MCHC": (lambda v: v["Hemoglobin"] * 100 / v["Hematocrit"], 0.015),
    "Neutrophils": (
        lambda v: 100 - v["Lymphocytes"] - v["Monocytes"] - v["Eosinophils"] - v["Basophils"],
        0.005,
    ),
    "Absolute Neutrophil Count": (lambda v: v["White Blood Cells"] * v["Neutrophils"] / 100, 0.015),
    "Absolute Lymphocyte Count": (lambda v: v["White Blood Cells"] * v["Lymphocytes"] / 100, 0.02),
    "Cholesterol, Total": (
        lambda v: v["Cholesterol, LDL, Calculated"] + v["Cholesterol, HDL"] + v["Triglycerides"] / 5,
        0.02,
    ),
    "Calculated Total CO2": (lambda v: v["Bicarbonate"] + 0.03 * v["pCO2"], 0.045),
    "pH": (lambda v: 6.1 + math.log10(v["Bicarbonate"] / (0.0307 * v["pCO2"])), 0.004),
    "PT": (lambda v: 11.1 * v["INR(PT)"], 0.07),
}
"""What a laboratory works out of its other results (pH by Henderson and Hasselbalch, cholesterol by Friedewald), and by
which share the roundings may part them."""


def test_small_red_cells_hold_less_hemoglobin(rows: Reader) -> None:
    names = {row["itemid"]: row["label"] for row in rows("d_labitems")}
    draws: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in rows("labevents"):
        if row["valuenum"] and names[row["itemid"]] in ("MCHC", "MCV"):
            draws[row["subject_id"], row["charttime"]][names[row["itemid"]]] = float(row["valuenum"])
    cells = [(values["MCV"], values["MCHC"]) for values in draws.values() if len(values) == 2]
    usual, small = ([held for size, held in cells if low <= size < high] for low, high in ((80, 130), (0, 72)))
    assert 32.8 <= min(usual) <= max(usual) <= 33.8, "a clinic's 32 to 36 g/dL, whatever their size above 80 fL"
    assert min(map(len, (usual, small))) > 10
    assert max(small) < 33.2


def test_what_is_worked_out_of_other_results_is_what_it_says(rows: Reader) -> None:
    names = {row["itemid"]: row["label"] for row in rows("d_labitems") if row["fluid"] == "Blood"}
    draws: dict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for row in rows("labevents"):
        if row["valuenum"] and row["itemid"] in names:
            draws[row["subject_id"], row["charttime"]][names[row["itemid"]]] = float(row["valuenum"])
    found: dict[str, list[float]] = defaultdict(list)
    for values in draws.values():
        for name, (formula, _) in _RELATIONS.items():
            with suppress(KeyError, ZeroDivisionError):
                found[name].append(abs(formula(values) / values[name] - 1))
    for name, (_, share) in _RELATIONS.items():
        assert len(found[name]) > 100, name
        assert max(found[name]) <= share, name
    excess = [
        values["Base Excess"] - _van_slyke(0.0307 * values["pCO2"] * 10 ** (values["pH"] - 6.1), values["pH"])
        for values in draws.values()
        if {"Base Excess", "pCO2", "pH"} <= values.keys()
    ]
    assert len(excess) > 100
    assert max(map(abs, excess)) < 1.2, "half of it from a rounded excess, the rest from a rounded pH"
    assert abs(sum(excess) / len(excess)) < 0.2


def _van_slyke(bicarbonate: float, ph: float) -> float:
    """Base excess in mmol/L by the Van Slyke equation of Siggaard-Andersen (1977)."""
    return 0.9287 * (bicarbonate - 24.4 + 14.83 * (ph - 7.4))


def test_sex_and_diagnosis_agree(rows: Reader) -> None:
    titles = {(row["icd_code"], row["icd_version"]): row["long_title"] for row in rows("d_icd_diagnoses")}
    sexes = {row["subject_id"]: row["gender"] for row in rows("patients")}
    seen: Counter[str] = Counter()
    for row in rows("diagnoses_icd"):
        title, sex = titles[row["icd_code"], row["icd_version"]], sexes[row["subject_id"]]
        if _FEMALE.search(title):
            assert sex == "F", title
            seen["F"] += 1
        if _MALE.search(title):
            assert sex == "M", title
            seen["M"] += 1
    assert seen["F"]
    assert seen["M"]


def test_the_allergic_get_no_penicillin(rows: Reader) -> None:
    catalog = load_catalog()
    allergic = {
        str(90_000_000 + index)
        for index in range(PATIENTS)
        if "penicillin" in draw_subject(SEED, index, catalog)[0].allergies
    }
    given = {row["subject_id"] for row in rows("prescriptions") if _PENICILLIN.search(row["drug"])}
    given |= {row["subject_id"] for row in rows("pyxis") if _PENICILLIN.search(row["name"])}
    assert len(allergic) > 5
    assert given
    assert not allergic & given


def test_nobody_takes_two_of_what_one_takes_one(rows: Reader) -> None:
    statins = re.compile("statin$", re.IGNORECASE)
    running: dict[str, list[Row]] = defaultdict(list)
    for row in rows("pharmacy"):
        if statins.search(row["medication"]) or row["medication"] in ("Lisinopril", "Losartan Potassium"):
            running[row["hadm_id"]].append(row)
    for courses in running.values():
        for one in courses:
            for two in courses:
                if one["medication"] < two["medication"] and one["medication"][:2] != two["medication"][:2]:
                    pair = {one["medication"], two["medication"]}
                    assert pair != {"Lisinopril", "Losartan Potassium"}
                    assert not all(statins.search(name) for name in pair) or one["stoptime"] <= two["starttime"], pair


def test_only_positive_tests_have_several_rows(rows: Reader) -> None:
    tests: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for row in rows("microbiologyevents"):
        tests[row["micro_specimen_id"], row["test_seq"]].append(row)
    several = [group for group in tests.values() if len(group) > 1]
    assert several
    assert all(row["org_name"] and row["ab_name"] for group in several for row in group)
    positive = {key[0] for key, group in tests.items() if group[0]["org_name"]}
    for (specimen, _), group in tests.items():
        if "Bottle Gram Stain" in group[0]["test_name"]:
            assert specimen in positive
            culture = next(g[0] for (other, _), g in tests.items() if other == specimen and g[0]["org_name"])
            assert not culture["storetime"] or group[0]["storetime"] < culture["storetime"]


def test_icd_version_changes_with_the_era_and_is_one_per_stay(rows: Reader) -> None:
    versions: dict[str, set[str]] = defaultdict(set)
    for table in ("diagnoses_icd", "procedures_icd"):
        for row in rows(table):
            versions[row["hadm_id"]].add(row["icd_version"])
    assert all(len(found) == 1 for found in versions.values())
    assert {version for found in versions.values() for version in found} == {"9", "10"}
    seen: dict[str, str] = {}
    for stay in rows("admissions"):
        version = next(iter(versions[stay["hadm_id"]]))
        assert seen.get(stay["subject_id"]) in (None, "9", version), "a subject goes from 9 to 10, never back"
        seen[stay["subject_id"]] = version


def _paths(rows: Reader, code: str, item: str) -> list[list[float]]:
    """Values of an item through the stays with a diagnosis, in time order, deaths left out."""
    dead = {row["hadm_id"] for row in rows("admissions") if row["deathtime"]}
    stays = {row["hadm_id"] for row in rows("diagnoses_icd") if row["icd_code"] in code.split()} - dead
    paths: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for row in rows("labevents"):
        if row["hadm_id"] in stays and row["itemid"] == item and row["valuenum"]:
            paths[row["hadm_id"]].append((row["charttime"], float(row["valuenum"])))
    return [[value for _, value in sorted(path)] for path in paths.values()]


def test_creatinine_rises_and_falls_in_kidney_injury(rows: Reader) -> None:
    paths = [path for path in _paths(rows, "5849 N179", "50912") if len(path) >= 4]
    assert len(paths) >= 10
    assert sum(max(path) >= 1.4 * min(path) for path in paths) > 0.8 * len(paths)
    assert sum(path[-1] <= max(path) for path in paths) == len(paths)
    assert sum(path[-1] < 0.95 * max(path) for path in paths) > 0.6 * len(paths)


def test_lactate_clears_in_sepsis(rows: Reader) -> None:
    paths = [path for path in _paths(rows, "99591 A419", "50813") if len(path) >= 3]
    assert len(paths) >= 5
    assert sum(path[0] for path in paths) / len(paths) > 2.2
    assert sum(path[-1] < path[0] for path in paths) >= 0.75 * len(paths)


def test_hemoglobin_dips_in_bleeding(rows: Reader) -> None:
    paths = [path for path in _paths(rows, "53140 K254 45620 I8511", "51222") if len(path) >= 4]
    assert len(paths) >= 4
    assert sum(min(path) < path[0] - 0.4 for path in paths) >= 0.6 * len(paths)


def test_the_dead_are_not_better_on_their_last_day(rows: Reader) -> None:
    dead = {row["hadm_id"] for row in rows("admissions") if row["deathtime"]}
    last: dict[str, float] = {}
    for row in rows("labevents"):
        if row["hadm_id"] in dead and row["itemid"] == "50882" and row["valuenum"]:
            last[row["hadm_id"]] = float(row["valuenum"])
    assert last
    assert sum(last.values()) / len(last) < 22


def test_films_have_ids_of_the_form_that_the_real_ones_have(rows: Reader) -> None:
    films = rows("cxr_images")
    assert films
    for film in films:
        assert re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{8}){4}", film["dicom_id"])
        assert 50_000_000 <= int(film["study_id"]) < 60_000_000
    for name in ("dicom_id", "study_id", "sop_instance_uid"):
        assert len({film[name] for film in films}) == len(films)


def test_ids_are_unique_and_nobodys(rows: Reader) -> None:
    keys = {"admissions": "hadm_id", "labevents": "labevent_id", "microbiologyevents": "microevent_id", "poe": "poe_id",
            "pharmacy": "pharmacy_id", "emar": "emar_id", "transfers": "transfer_id", "discharge": "note_id",
            "radiology": "note_id", "icustays": "stay_id", "edstays": "stay_id"}  # fmt: skip
    for table, key in keys.items():
        values = [row[key] for row in rows(table)]
        assert len(values) == len(set(values)), table
    assert min(int(row["subject_id"]) for row in rows("patients")) >= 90_000_000


def test_every_code_used_is_named(rows: Reader) -> None:
    for used, table, names in (
        ("labevents", "d_labitems", ("itemid",)),
        ("chartevents", "d_items", ("itemid",)),
        ("inputevents", "d_items", ("itemid",)),
        ("procedureevents", "d_items", ("itemid",)),
        ("diagnoses_icd", "d_icd_diagnoses", ("icd_code", "icd_version")),
        ("procedures_icd", "d_icd_procedures", ("icd_code", "icd_version")),
        ("emar", "", ()),
    ):
        if table:
            known = {tuple(row[name] for name in names) for row in rows(table)}
            assert {tuple(row[name] for name in names) for row in rows(used)} <= known, used
    clinicians = {row["provider_id"] for row in rows("provider")}
    assert {row["order_provider_id"] for row in rows("poe")} <= clinicians
    assert {row["caregiver_id"] for row in rows("chartevents")} <= {row["caregiver_id"] for row in rows("caregiver")}


def test_future_bearing_columns_are_filled(rows: Reader) -> None:
    for table, columns in {
        "admissions": ("dischtime", "discharge_location"), "pharmacy": ("stoptime", "verifiedtime", "expirationdate"),
        "poe": ("order_status", "discontinued_by_poe_id"), "inputevents": ("statusdescription", "originalamount"),
        "icustays": ("los", "last_careunit"), "edstays": ("disposition", "outtime"),
    }.items():  # fmt: skip
        for column in columns:
            assert any(row[column] for row in rows(table)), (table, column)


def test_summaries_have_their_sections_in_varying_case_some_missing(rows: Reader) -> None:
    texts = [row["text"] for row in rows("discharge")]
    usual = sum("\nHistory of Present Illness:\n" in text for text in texts)
    loud = sum("\nHISTORY OF PRESENT ILLNESS:\n" in text for text in texts)
    quiet = sum("\nhistory of present illness:\n" in text for text in texts)
    assert usual > loud > 0 < quiet
    assert usual + loud + quiet < len(texts)
    assert all("___" in text for text in texts)
    dead = {row["hadm_id"] for row in rows("admissions") if row["deathtime"]}
    told = {row["hadm_id"]: "died peacefully" in row["text"] for row in rows("discharge")}
    assert any(told.values())
    assert all(died == (stay in dead) for stay, died in told.items())


def test_men_have_the_blood_and_the_limits_of_men(rows: Reader) -> None:
    """Hemoglobin: a laboratory's limits are higher for men, and so is what they have while they are well."""
    sexes = {row["subject_id"]: row["gender"] for row in rows("patients")}
    lowest, best = defaultdict(set), defaultdict(dict)
    for row in rows("labevents"):
        if row["itemid"] == "51222" and row["valuenum"]:
            sex = sexes[row["subject_id"]]
            lowest[sex].add(float(row["ref_range_lower"]))
            value = float(row["valuenum"])
            best[sex][row["subject_id"]] = max(value, best[sex].get(row["subject_id"], 0.0))
    assert max(lowest["F"]) < min(lowest["M"])
    means = {sex: sum(found.values()) / len(found) for sex, found in best.items()}
    assert means["F"] + 0.5 < means["M"]
