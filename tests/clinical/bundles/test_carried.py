"""What a store has: the units of its measurements decide how bare numbers are read, and nobody's own future does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from records.mimic_tables import write_folder
from wardround.agents.stays.charted import StateFacts
from wardround.clinical.bundles import Carried, EventKind, carried_by, states, store_bundles, subject_bundles
from wardround.clinical.bundles.reading import played_rows
from wardround.clinical.protocols import compile_trigger
from wardround.clinical.vocabulary import clinical_name
from wardround.records import Store, ingest, load_source_spec

HGB, LACTATE = "51222", "50813"


def lab(subject: int, number: int, item: str, value: float, unit: str, hour: int = 9) -> dict[str, Any]:
    moment = f"2150-03-10 {hour:02}:00:00"
    return {
        "labevent_id": str(number), "subject_id": str(subject), "hadm_id": str(subject), "itemid": item,
        "specimen_id": str(number), "charttime": moment, "storetime": moment, "value": str(value),
        "valuenum": str(value), "valueuom": unit,
    }  # fmt: skip


def store_of(folder: Path, *labs: dict[str, Any]) -> Store:
    people = sorted({row["subject_id"] for row in labs})
    tables = {
        "patients": [{"subject_id": one, "gender": "F", "anchor_age": "60", "anchor_year": "2150"} for one in people],
        "admissions": [
            {
                "subject_id": one, "hadm_id": one, "admittime": "2150-03-10 08:00:00",
                "dischtime": "2150-03-12 08:00:00", "admission_type": "EW EMER.",
            }
            for one in people
        ],
        "labevents": labs,
        "d_labitems": [
            {"itemid": HGB, "label": "Hemoglobin", "fluid": "Blood", "category": "Hematology"},
            {"itemid": LACTATE, "label": "Lactate", "fluid": "Blood", "category": "Blood Gas"},
        ],
    }  # fmt: skip
    ingest("mimiciv", write_folder(folder / "raw", tables), folder / "store")
    return Store.open(folder / "store")


def told(store: Store, subject: int, trigger: str) -> bool | None:
    """What a trigger comes to after the bundle of nine o'clock."""
    bundles = list(subject_bundles(store, subject))
    state = next(one for one in states(bundles) if one.hour is not None and one.hour.hour == 9)
    assert state.hour is not None
    node = compile_trigger(trigger).node
    assert node is not None
    facts = StateFacts(state, state.hour, window_hours=6, carried=carried_by(store).for_subject(subject))
    return node.holds(facts)


def test_a_bare_reading_is_compared_where_the_store_has_one_unit(tmp_path: Path) -> None:
    bare = lab(1, 1, LACTATE, 4.5, "")
    one = store_of(tmp_path / "one", bare, lab(2, 2, LACTATE, 1.0, "mmol/L"), lab(3, 3, LACTATE, 2.0, "mmol/L"))
    assert told(one, 1, "lactate > 4 mmol/L") is True
    two = store_of(tmp_path / "two", bare, lab(2, 2, LACTATE, 1.0, "mmol/L"), lab(3, 3, LACTATE, 20.0, "mg/dL"))
    assert told(two, 1, "lactate > 4 mmol/L") is None
    none = store_of(tmp_path / "none", bare, lab(2, 2, LACTATE, 1.0, ""))
    assert told(none, 1, "lactate > 4 mmol/L") is None


def test_a_bare_threshold_is_compared_where_the_store_has_one_unit(tmp_path: Path) -> None:
    labs = [lab(1, 1, HGB, 9.0, "g/dL"), lab(2, 2, HGB, 9.0, "g/dL")]
    assert told(store_of(tmp_path / "one", *labs), 1, "hemoglobin < 7") is False
    two = store_of(tmp_path / "two", *labs, lab(3, 3, HGB, 5.6, "mmol/L"))
    assert told(two, 1, "hemoglobin < 7") is None
    assert told(two, 1, "hemoglobin < 7 g/dL") is False


def test_a_unit_of_somebodys_own_later_reading_says_nothing_before(tmp_path: Path) -> None:
    """The leak: the only other unit in the store is one that this patient is charted in tomorrow."""
    now, others = lab(1, 1, LACTATE, 4.5, ""), [lab(2, 2, LACTATE, 1.0, "mmol/L"), lab(3, 3, LACTATE, 1.0, "mmol/L")]
    cut = store_of(tmp_path / "cut", now, *others)
    whole = store_of(tmp_path / "whole", now, *others, lab(1, 4, LACTATE, 40.0, "mg/dL", hour=20))
    asked = "lactate > 4 mmol/L"
    assert told(cut, 1, asked) is told(whole, 1, asked) is True
    assert carried_by(whole).units["lactate"] == {"mmol/L": -1, "mg/dL": 1}
    assert carried_by(whole).for_subject(1).units["lactate"] == {"mmol/L": -1}


def test_units_are_those_of_the_rows_of_bundles(synthetic_store: Store) -> None:
    """The oracle: every event, one by one."""
    found: dict[str, set[str]] = {}
    for stream in store_bundles(synthetic_store):
        for event in stream.columns:
            if event.kind in (EventKind.LAB, EventKind.VITAL, EventKind.OUTPUT) and event.value is not None:
                found.setdefault(event.concept, set()).update([event.unit] if event.unit else [])
    carried = carried_by(synthetic_store)
    assert isinstance(carried, Carried)
    assert len(carried.units) > 20
    for name, units in found.items():
        assert units <= set(carried.units.get(clinical_name(name), {})), name


def test_monitors_values_of_eicu_have_the_units_that_its_spec_declares() -> None:
    roles = [each.role for each in played_rows(load_source_spec("eicu"))["vitalperiodic"]]
    assert [role.units["systemicmean"] for role in roles] == ["mmHg"]
    assert all(set(role.measures) == set(role.units) for role in roles)
