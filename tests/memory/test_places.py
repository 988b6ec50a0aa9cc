"""Conditions on service and unit are compared with the record's columns; a setting is places and problems."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from wardround.clinical.vocabulary.care_units import places_of
from wardround.memory.phrases import Findings, findings_of_chart, read_phrase
from wardround.memory.scope import setting_of
from wardround.records import Store

CCU, MICU, MIXED = "Coronary Care Unit (CCU)", "Medical Intensive Care Unit (MICU)", "Med/Surg ICU (MICU/SICU)"


@dataclass(frozen=True)
class Event:
    kind: str
    description: str
    text_value: str | None = None
    row_id: str = ""
    numeric_value: float | None = None
    unit: str | None = None
    time: None = None


class Chart:
    age = None

    def __init__(self, *events: Event, ended_rows: frozenset[str] = frozenset()) -> None:
        self._events = events
        self.ended_rows = ended_rows

    def events(self):  # type: ignore[no-untyped-def]
        return iter(self._events)


@pytest.mark.parametrize(
    ("phrase", "unit", "truth"),
    [
        ("unit: Coronary Care Unit (CCU)", CCU, True),
        ("patients in the CCU", CCU, True),
        ("admitted to the coronary care unit", CCU, True),
        ("in the MICU", CCU, False),
        ("unit: MICU", MIXED, True),
        ("in the medical ICU", MICU, True),
        ("surgical intensive care unit", MICU, False),
        ("in the ICU", MICU, True),
        ("ICU", "Neuro Stepdown", False),
        ("ICU", "5 West", None),
        ("stepdown unit", MICU, False),
        ("stepdown unit", "Neuro Stepdown", True),
        ("unit: Neurology", "Neuro Stepdown", None),
        ("in the MICU", "", None),
        ("needs transfusion of one unit", MICU, None),
    ],
)
def test_a_unit_is_compared_with_the_record_s_own_name(phrase: str, unit: str, truth: bool | None) -> None:
    check = read_phrase(phrase)
    found = Findings(places={"unit": unit} if unit else {})
    assert (None if check is None else check(found)) is truth


@pytest.mark.parametrize(
    ("phrase", "service", "truth"),
    [
        ("service: CMED", "CMED", True),
        ("service: CMED", "MED", False),
        ("on the cardiology service", "Cardiology", True),
        ("on the cardiology service", "CMED", None),
        ("service: cardiology", "MED", None),
    ],
)
def test_a_service_is_another_only_where_both_are_codes(phrase: str, service: str, truth: bool | None) -> None:
    check = read_phrase(phrase)
    assert check is not None
    assert check(Findings(places={"service": service})) is truth


def test_the_latest_place_counts_and_none_after_discharge() -> None:
    events = [Event("service", "MED"), Event("transfer", CCU, "admit"), Event("transfer", "Cardiology", "transfer")]
    assert places_of(events) == {"service": "MED", "unit": "Cardiology"}
    assert places_of([*events, Event("transfer", "transfers", "discharge")]) == {"service": "MED"}


def test_a_setting_is_service_unit_problems_and_procedures_not_drugs() -> None:
    chart = Chart(
        Event("diagnosis", "Heart failure"),
        Event("procedure", "Cardiac catheterization"),
        Event("service", "CMED"),
        Event("transfer", CCU, "admit"),
        Event("prescription", "Furosemide"),
        Event("prescription", "Metoprolol"),
    )
    assert setting_of(chart) == ("service: CMED", f"unit: {CCU}", "Heart failure", "Cardiac catheterization")
    assert setting_of(Chart(Event("prescription", "Furosemide"))) == ("Furosemide",)


@pytest.mark.parametrize(
    ("phrase", "label"),
    [
        ("arterial line in place", "Arterial Line"),
        ("device: arterial line", "Arterial Line"),
        ("patients with a central line", "Multi Lumen"),
        ("mechanically ventilated patients", "Invasive Ventilation"),
        ("device: invasive ventilation", "Invasive Ventilation"),
    ],
)
def test_a_device_is_in_place_while_its_row_runs_and_unknown_once_it_has_ended(phrase: str, label: str) -> None:
    """Never denied: rows end where a unit stops charting, and the line may stay."""
    check, event = read_phrase(phrase), Event("procedure", label, row_id="line")
    assert check is not None
    assert check(findings_of_chart(Chart(event))) is True
    assert check(findings_of_chart(Chart(event, ended_rows=frozenset({"line"})))) is None
    assert check(findings_of_chart(Chart(event, replace(event, row_id="next"), ended_rows=frozenset({"line"})))) is True
    assert check(findings_of_chart(Chart())) is None


def test_a_chart_names_the_rows_of_procedures_that_have_ended(synthetic_store: Store) -> None:
    """MIMIC-IV's rows are written down once they have ended; what is taken back to its middle runs."""
    subject, rows = next((one, rows) for one, rows in synthetic_store.scan("procedureevents") if rows.num_rows)
    row, stop, known = (rows.column(name)[0].as_py() for name in ("row_id", "endtime", "storetime"))
    assert stop < known
    chart = synthetic_store.chart(subject, known)
    assert row in chart.ended_rows
    middle = replace(chart, as_of=stop - timedelta(minutes=1))
    assert row not in middle.ended_rows
