"""Conditions on service and unit are compared with the record's columns; a setting is places and problems."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from wardround.memory.phrases import Findings, read_phrase
from wardround.memory.places import places_of
from wardround.memory.scope import setting_of

CCU, MICU, MIXED = "Coronary Care Unit (CCU)", "Medical Intensive Care Unit (MICU)", "Med/Surg ICU (MICU/SICU)"


@dataclass(frozen=True)
class Event:
    kind: str
    description: str
    text_value: str | None = None


class Chart:
    def __init__(self, *events: Event) -> None:
        self._events = events

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
