"""Names of care units: class and services, each only where the name says it."""

from __future__ import annotations

import pytest

from wardround.clinical.vocabulary import read_care_unit


@pytest.mark.parametrize(
    ("name", "level", "services"),
    [
        ("Neuro Stepdown", "intermediate care", "neurology"),
        ("Neurology", "ward", "neurology"),
        ("Neuro Surgical Intensive Care Unit (Neuro SICU)", "intensive care", "neurology surgery"),
        ("Medical/Surgical Intensive Care Unit (MICU/SICU)", "intensive care", "medicine surgery"),
        ("CSRU", "intensive care", "cardiology surgery"),
        ("Critical Care Unit (CCU)", "intensive care", ""),
        ("ICU", "intensive care", ""),
        ("Step-Down Unit (SDU)", "intermediate care", ""),
        ("Emergency Department Observation", "emergency", ""),
        ("Labor & Delivery", "delivery", "obstetrics"),
        ("Acute Care/Floor", "ward", ""),
        ("ICU to SDU", None, ""),
        ("Telemetry", None, ""),
        ("5 West", None, ""),
        ("Unknown", None, ""),
        ("", None, ""),
    ],
)
def test_a_care_unit_is_of_a_class_and_services_where_its_name_says_so(
    name: str, level: str | None, services: str
) -> None:
    unit = read_care_unit(name)
    assert (unit.level, unit.services) == (level, frozenset(services.split()))
