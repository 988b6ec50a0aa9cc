"""Lines of a chart whose tables belong together: one a dose, one an order, results with what makes them readable."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from records.omop_tables import omop_store
from wardround.core import UserError
from wardround.records import Store, ingest, load_source_spec
from wardround.synth.dialects.mimiciii import HEADERS, write_table
from wardround.tools.retrieval import EvidenceIndex, LexicalEncoder, RetrievalSettings

NOW = datetime(2150, 1, 3)
FILES = {
    "hosp/patients": ("subject_id,gender,anchor_age,anchor_year,anchor_year_group,dod", "1,F,60,2150,2008 - 2010,"),
    "hosp/admissions": (
        "subject_id,hadm_id,admittime,dischtime,deathtime,admission_type,admission_location,discharge_location",
        "1,5,2150-01-01 00:00:00,,,URGENT,CLINIC,",
    ),
    "hosp/d_labitems": ("itemid,label,fluid,category", "10,Sodium,Blood,Chemistry\n11,Bacteria,Urine,Hematology"),
    "hosp/labevents": (
        (
            "labevent_id,subject_id,hadm_id,specimen_id,itemid,charttime,storetime,value,valuenum,valueuom,"
            "ref_range_lower,ref_range_upper,flag,priority,comments"
        ),
        (
            "1,1,5,7,10,2150-01-01 06:00:00,2150-01-01 07:00:00,129,129,mEq/L,133,145,abnormal,,\n"
            "2,1,5,7,10,2150-01-02 06:00:00,2150-01-02 07:00:00,140,140,mEq/L,133,145,,,___\n"
            "3,1,5,8,11,2150-01-01 06:00:00,2150-01-01 07:00:00,,,,,,abnormal,,MOD*."
        ),
    ),
    "hosp/poe": (
        "poe_id,poe_seq,subject_id,hadm_id,ordertime,order_type,order_subtype,transaction_type",
        "1-1,1,1,5,2150-01-01 01:00:00,Lab,,New\n1-2,2,1,5,2150-01-01 02:00:00,ADT orders,Admit,New",
    ),
    "hosp/poe_detail": ("poe_id,poe_seq,subject_id,field_name,field_value", "1-2,2,1,Admit to,MICU"),
    "hosp/pharmacy": (
        "subject_id,hadm_id,pharmacy_id,poe_id,starttime,stoptime,medication,entertime,route,frequency",
        (
            "1,5,70,,2150-01-01 03:00:00,,Heparin,2150-01-01 03:00:00,IV,BID\n"
            "1,5,71,,2150-01-01 03:30:00,,,2150-01-01 03:30:00,IV,ASDIR"
        ),
    ),
    "hosp/prescriptions": (
        "subject_id,hadm_id,pharmacy_id,starttime,stoptime,drug_type,drug,dose_val_rx,dose_unit_rx,route",
        "1,5,70,2150-01-01 03:00:00,,MAIN,Heparin,5000,UNIT,SC\n1,5,71,2150-01-01 03:30:00,,BASE,D5W,250,mL,IV",
    ),
    "hosp/emar": (
        "subject_id,hadm_id,emar_id,emar_seq,poe_id,pharmacy_id,charttime,medication,event_txt,scheduletime,storetime",
        (
            "1,5,e1,1,,70,2150-01-01 04:00:00,Heparin,Administered,,2150-01-01 04:00:00\n"
            "1,5,e2,2,,71,2150-01-01 05:00:00,,Started,,2150-01-01 05:00:00\n"
            "1,5,e3,3,,,2150-01-01 05:30:00,,Confirmed,,2150-01-01 05:30:00"
        ),
    ),
    "hosp/emar_detail": (
        (
            "subject_id,emar_id,emar_seq,parent_field_ordinal,dose_due,dose_given,dose_given_unit,infusion_rate,"
            "infusion_rate_unit,product_code,product_description"
        ),
        "1,e1,1,,5000,,,,,,\n1,e1,1,1.1,,2500,UNIT,,,HEP,Heparin 2500\n1,e1,1,1.2,,2500,UNIT,,,HEP,Heparin 2500",
    ),
}
LINES = """\
poe: order - ADT orders (value: Admit; Admit to: MICU)
pharmacy: pharmacy order - Heparin (value: BID; 5000 UNIT SC)
pharmacy: pharmacy order - D5W (value: ASDIR; 250 mL IV)
emar: medication given - Heparin (value: Administered; 2500 UNIT)
emar: medication given - D5W (value: Started)
labevents: lab - Sodium (value: 129 mEq/L; abnormal; ref 133-145)
labevents: lab - Bacteria (value: abnormal; MOD*.)
labevents: lab - Sodium (value: 140 mEq/L; ref 133-145)"""


UNIT = {
    "hosp/patients": FILES["hosp/patients"],
    "hosp/admissions": FILES["hosp/admissions"],
    "icu/icustays": (
        "subject_id,hadm_id,stay_id,first_careunit,last_careunit,intime,outtime,los",
        "1,5,8,MICU,MICU,2150-01-01 00:00:00,2150-01-01 20:00:00,0.8\n1,5,9,MICU,MICU,2150-01-02 00:00:00,,",
    ),
    "icu/d_items": (
        "itemid,label,abbreviation,linksto,category,unitname,param_type,lownormalvalue,highnormalvalue",
        "1,Dextrose 5%,,,,,,,\n2,Norepinephrine,,,,,,,\n3,Insertion Date,,,,,,,\n4,Dressing Change,,,,,,,",
    ),
    "icu/inputevents": (
        (
            "subject_id,hadm_id,stay_id,starttime,endtime,storetime,itemid,amount,amountuom,rate,rateuom,orderid,"
            "statusdescription,originalrate"
        ),
        (
            "1,5,8,2150-01-01 03:00:00,2150-01-01 03:01:00,2150-01-01 03:00:00,1,200,ml,,,11,FinishedRunning,0\n"
            "1,5,8,2150-01-01 04:00:00,2150-01-01 04:01:00,2150-01-01 04:00:00,1,50,ml,,None,12,FinishedRunning,60\n"
            "1,5,8,2150-01-01 05:00:00,2150-01-01 07:00:00,2150-01-01 05:00:00,2,1.5,mg,0.1,mcg/kg/min,13,Stopped,0.25"
        ),
    ),
    "icu/datetimeevents": (
        "subject_id,hadm_id,stay_id,charttime,storetime,itemid,value,valueuom,warning",
        (
            "1,5,8,2150-01-01 08:00:00,2150-01-01 13:00:00,3,2150-01-01 02:00:00,,0\n"
            "1,5,8,2150-01-01 10:00:00,2150-01-01 10:00:00,3,2150-01-01 02:00:00,,0\n"
            "1,5,8,2150-01-01 12:00:00,2150-01-01 12:00:00,4,2150-01-01 02:00:00,,0\n"
            "1,5,8,2150-01-01 14:00:00,2150-01-01 14:00:00,3,2150-01-01 13:30:00,,0\n"
            "1,5,8,2150-01-01 16:00:00,2150-01-01 16:00:00,3,2150-01-01 02:00:00,,0\n"
            "1,5,9,2150-01-02 01:00:00,2150-01-02 01:00:00,3,2150-01-01 02:00:00,,0\n"
            "1,5,,2150-01-02 02:00:00,2150-01-02 02:00:00,3,2150-01-01 02:00:00,,0\n"
            "1,5,,2150-01-02 03:00:00,2150-01-02 03:00:00,3,2150-01-01 02:00:00,,0"
        ),
    ),
}


def _made(folder: Path, files: dict[str, tuple[str, str]]) -> Store:
    for name, (head, rows) in files.items():
        file = folder / "raw" / f"{name}.csv"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{head}\n{rows}\n")
    ingest("mimiciv", folder / "raw", folder / "store")
    return Store.open(folder / "store")


@pytest.fixture(scope="module")
def hospital(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return _made(tmp_path_factory.mktemp("lines"), FILES)


@pytest.fixture(scope="module")
def care_unit(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return _made(tmp_path_factory.mktemp("unit"), UNIT)


def index(store: Store, as_of: datetime = NOW, subject: int = 1, **settings: Any) -> EvidenceIndex:
    columns = store.chart(subject, as_of).event_columns()
    return EvidenceIndex(columns, as_of=as_of, encoder=LexicalEncoder(64), settings=RetrievalSettings(**settings))


def test_one_line_a_dose_and_an_order_and_none_that_is_nameless(hospital: Store) -> None:
    found = index(hospital, panels=False)
    passage = found.recent_events()
    tables = [found.columns.table_names[found.columns.table[row]] for row in passage.rows]
    lines = [
        f"{table}: {line.partition('] ')[2]}"
        for table, line in zip(tables, passage.lines, strict=True)
        if table not in ("patients", "admissions")
    ]
    assert "\n".join(lines) == LINES


def test_what_is_of_one_moment_is_one_line_known_by_its_first_row(hospital: Store) -> None:
    passage = index(hospital).recent_events(2)
    assert passage.lines == (
        "[2150-01-01 06:00:00] lab - Sodium: 129 mEq/L, abnormal, ref 133-145; Bacteria: abnormal, MOD*.",
        "[2150-01-02 06:00:00] lab - Sodium (value: 140 mEq/L; ref 133-145)",
    )
    assert len(passage.rows) == 2
    assert index(hospital).recent_events(0).lines == ()


def test_a_line_holds_nothing_of_rows_that_are_not_known_yet(hospital: Store) -> None:
    early = index(hospital, datetime(2150, 1, 1, 6, 30), panels=False).recent_events()
    assert [line for line in early.lines if "lab" in line] == []


def _of_kind(store: Store, as_of: datetime, kind: str, **settings: Any) -> list[str]:
    lines = index(store, as_of, panels=False, **settings).recent_events().lines
    return [line for line in lines if f"] {kind} - " in line]


def test_an_infusion_shows_rate_and_amount_with_their_units_and_no_bare_number(care_unit: Store) -> None:
    """Without rateuom the rate that was set is an amount, a volume or 0: "Dextrose 5%: 0, 200 ml" misled."""
    bags = [
        "[2150-01-01 03:00:00] infusion - Dextrose 5% (value: 200 ml)",
        "[2150-01-01 04:00:00] infusion - Dextrose 5% (value: 50 ml)",
    ]
    drip = "[2150-01-01 05:00:00] infusion - Norepinephrine (value: 0.25 mcg/kg/min"
    assert _of_kind(care_unit, NOW, "infusion") == [*bags, f"{drip}; 1.5 mg)"]
    assert _of_kind(care_unit, NOW, "infusion", lines="all") == [*bags, f"{drip}; 1.5 mg)"]
    assert _of_kind(care_unit, datetime(2150, 1, 1, 6), "infusion") == [*bags, f"{drip})"], "the amount is late"
    assert index(care_unit).indicators == ("Norepinephrine",), "no course of 0 and 60 of dextrose"
    found = "\n".join(passage.text for passage in index(care_unit).text_evidence("Dextrose"))
    assert bags[0] in found, "what has no number to show is evidence in words"


def test_a_charted_date_has_one_line_per_value_and_stay_of_what_is_known(care_unit: Store) -> None:
    def at(charted: str, name: str, value: str) -> str:
        return f"[2150-01-{charted}:00] charted - {name} (value: 2150-01-01 {value}:00)"

    dressing = at("01 12:00", "Dressing Change", "02:00")
    assert _of_kind(care_unit, datetime(2150, 1, 1, 12, 30), "charted") == [
        at("01 10:00", "Insertion Date", "02:00"),
        dressing,
    ], "what was charted at 8 is written down at 13"
    assert _of_kind(care_unit, NOW, "charted") == [
        dressing,
        at("01 14:00", "Insertion Date", "13:30"),
        at("01 16:00", "Insertion Date", "02:00"),
        at("02 01:00", "Insertion Date", "02:00"),
        at("02 02:00", "Insertion Date", "02:00"),
        at("02 03:00", "Insertion Date", "02:00"),
    ], "by stay; rows without a stay are nobody's repetition"
    assert len(_of_kind(care_unit, NOW, "charted", lines="all")) == 8


def test_the_same_holds_for_both_charting_systems_of_mimic_iii(tmp_path: Path) -> None:
    bed = {"subject_id": 1, "hadm_id": 5, "icustay_id": 8}
    bag = bed | {
        "starttime": "2150-01-01 03:00:00",
        "endtime": "2150-01-01 04:00:00",
        "storetime": "2150-01-01 03:00:00",
    }
    point = bed | {"charttime": "2150-01-01 05:00:00", "storetime": "2150-01-01 05:00:00", "itemid": 2}
    date = bed | {"itemid": 3, "value": "2150-01-01 02:00:00"}
    rows: dict[str, list[dict[str, Any]]] = {
        "PATIENTS": [{"subject_id": 1, "gender": "F", "dob": "2090-01-01 00:00:00", "expire_flag": 0}],
        "ADMISSIONS": [{"subject_id": 1, "hadm_id": 5, "admittime": "2150-01-01 00:00:00"}],
        "ICUSTAYS": [bed | {"first_careunit": "MICU", "intime": "2150-01-01 00:00:00"}],
        "D_ITEMS": [
            {"itemid": number, "label": name} for number, name in ((1, "D5W"), (2, "Levophed"), (3, "Inserted"))
        ],
        "INPUTEVENTS_MV": [bag | {"itemid": 1, "orderid": 1, "amount": 200.0, "amountuom": "ml", "originalrate": 0.0}],
        "INPUTEVENTS_CV": [
            point | {"orderid": 1, "amount": 7.0},
            point | {"orderid": 2, "rate": 0.2, "rateuom": "mcgkgmin", "amount": 3.0},
        ],
        "DATETIMEEVENTS": [
            date | {"charttime": f"2150-01-01 {hour}:00:00", "storetime": f"2150-01-01 {hour}:00:00"}
            for hour in (10, 14)
        ],
    }
    for name in HEADERS:
        write_table(tmp_path / "raw", name, rows.get(name, []))
    ingest("mimiciii", tmp_path / "raw", tmp_path / "store")
    lines = index(Store.open(tmp_path / "store"), panels=False).recent_events().lines
    assert [line.partition("] ")[2] for line in lines if "infusion" in line or "charted" in line] == [
        "infusion - D5W (value: 200 ml)",
        "infusion - Levophed",
        "infusion - Levophed (value: 0.2 mcgkgmin)",
        "charted - Inserted (value: 2150-01-01 02:00:00)",
    ]


def test_a_count_of_what_was_handed_out_is_no_dose(tmp_path: Path) -> None:
    drug = {"drug_concept_id": 1112807, "drug_exposure_start_date": "2150-01-03", "drug_type_concept_id": 32838}
    drugs = [drug | {"quantity": 60}, drug | {"quantity": 325, "dose_unit_source_value": "mg"}]
    lines = (
        index(omop_store(tmp_path, {"drug_exposure": drugs}), datetime(2150, 1, 5), panels=False).recent_events().lines
    )
    values = [line.partition(" (value: ")[2] for line in lines if "] medication - " in line]
    assert sorted(values) == ["", "325 mg)"]


def test_details_without_their_row_keep_their_own_line(synthetic_store: Store) -> None:
    """By table: a row is shown in another's line exactly where that row is visible."""
    chart = synthetic_store.chart(int(synthetic_store.subjects[0]), datetime(2300, 1, 1))
    columns = chart.event_columns()
    elsewhere = columns.notes.shown_elsewhere
    for name, on, parent in (("emar_detail", "emar_id", "emar"), ("prescriptions", "pharmacy_id", "pharmacy")):
        known = set(chart.table(parent).batch.column(on).to_pylist())
        own = [key in known for key in chart.table(name).batch.column(on).to_pylist()]
        places = np.flatnonzero(columns.table == columns.table_names.index(name))
        assert elsewhere[places].tolist() == [own[row] for row in columns.row[places].tolist()]
        assert any(own)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ('beside = ["{flagg}"]\n', "no column 'flagg'; did you mean 'flag'?"),
        ('part_of = { table = "emars", on = "subject_id" }\n', "no table 'emars'"),
        ('once_per = ["itemids"]\n', "no column 'itemids'"),
        ('label_from = [{ table = "poe", on = "poe_id", column = "order_type" }]\n', "no column 'poe_id'"),
    ],
)
def test_a_spec_that_names_what_is_not_there_is_refused(wrong: str, said: str, tmp_path: Path) -> None:
    for name, text in load_source_spec("mimiciv").files.items():
        own = text.replace('beside = ["{flag}",', 'was = ["{flag}",') if name.startswith("hosp") else text
        lines = [line for line in own.splitlines() if not line.startswith("was = ")]
        changed = "\n".join(lines).replace("[tables.labevents]\n", f"[tables.labevents]\n{wrong}")
        (tmp_path / name).write_text(changed)
    with pytest.raises(UserError, match="labevents") as error:
        load_source_spec(tmp_path)
    assert said in str(error.value)


USUAL_CHARACTERS = 60_000
"""Those of 1,000 lines of the demo before lines held limits and comments (58,000 to 70,000)."""


def _window(found: EvidenceIndex, characters: int | None = None) -> float:
    """Days that the direct window reaches back, at 1,000 lines and at most so many characters."""
    passage, used, first = found.recent_events(), 0, 0
    for place in range(len(passage.lines) - 1, -1, -1):
        used, first = used + len(passage.lines[place]) + 1, place
        if characters is not None and used >= characters:
            break
    times = found.columns.time[list(passage.rows)]
    dated = times[first:][~found.columns.is_static[list(passage.rows)][first:]]
    return float(times[-1] - dated.min()) / 86_400e6


def test_the_windows_of_the_demo_reach_back_twice_as_far(mimic_demo_store: Store) -> None:
    """The 50 longest records at 1,000 lines, as before this flattener and now; printed, with equal characters too."""
    now = datetime(2300, 1, 1)
    charts = [mimic_demo_store.chart(int(one), now).event_columns() for one in mimic_demo_store.subjects]
    days: list[tuple[float, float, float]] = []
    nameless = short = missed = 0
    for columns in sorted(charts, key=lambda one: -len(one))[:50]:
        settings = [RetrievalSettings(lines="all", panels=False), RetrievalSettings()]
        old, new = (EvidenceIndex(columns, as_of=now, encoder=LexicalEncoder(16), settings=one) for one in settings)
        before = _window(old)
        days.append((before, _window(new), _window(new, USUAL_CHARACTERS)))
        dated = columns.time[~columns.is_static]
        whole = float(dated[-1] - dated[0]) / 86_400e6
        short += days[-1][1] < 2 * before and days[-1][1] < whole
        missed += 2 * before <= whole and days[-1][1] < 2 * before
        heads = [line.partition("] ")[2] for line in new.recent_events().lines]
        kinds = {f"{kind} - {name}" for kind in columns.kinds for name in columns.table_names}
        nameless += sum(head in kinds or head.partition(" (value:")[0] in kinds for head in heads)
        assert not any("ingredientevents" in head or head == "order - Lab" for head in heads)
    before, lines, same = (float(np.median([one[place] for one in days])) for place in range(3))
    print(f"days back, median of 50: {before:.1f} before; {lines:.1f} at 1,000 lines; {same:.1f} at equal characters")  # noqa: T201
    print(f"nameless lines: {nameless}; records of which neither twice as much nor all is reached: {short}")  # noqa: T201
    assert lines >= 2 * before
    assert missed == 0, "a record that is twice as long as what was reached"
    assert short <= 6  # more than half was reached before; whole they are 1,180 to 2,600 moments of a table
    assert nameless == 0
