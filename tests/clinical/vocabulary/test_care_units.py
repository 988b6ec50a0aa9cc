"""Names of care units: class and services, each only where the name says it."""

from __future__ import annotations

import pytest

from wardround.clinical.vocabulary import read_care_unit, service_class


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


@pytest.mark.parametrize(
    ("codes", "found"),
    [
        ("MED CMED NMED OMED", "medical"),
        ("SURG CSURG NSURG ORTHO PSURG TSURG VSURG", "surgical"),
        ("OBS", "obstetric"),
        ("NB NBB", "newborn"),
        ("PSYCH", "psychiatric"),
        ("ENT GU GYN DENT EYE TRAUM", None),  # the documentation does not say whether they operate
        ("XMED SURGERY N", None),
    ],
)
def test_a_service_is_of_the_class_that_mimic_s_documentation_names(codes: str, found: str | None) -> None:
    """The 21 codes of mimic.mit.edu/docs/iv/modules/hosp/services, and some that are none."""
    assert {service_class(code) for code in codes.split()} == {found}
    assert service_class(f" {codes.split()[0].lower()} ") == found
    assert service_class("") is None
