"""What keeps a person going: vasopressors as norepinephrine, and how they breathe."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

Ventilation = Literal["tracheostomy", "invasive", "non-invasive", "high-flow", "supplemental oxygen", "none"]
_DEVICES: dict[str, Ventilation] = {
    "tracheostomy tube": "tracheostomy",
    "trach mask": "tracheostomy",
    "endotracheal tube": "invasive",
    "bipap mask": "non-invasive",
    "cpap mask": "non-invasive",
    "high flow nasal cannula": "high-flow",
    "non-rebreather": "supplemental oxygen",
    "face tent": "supplemental oxygen",
    "aerosol-cool": "supplemental oxygen",
    "venti mask": "supplemental oxygen",
    "medium conc mask": "supplemental oxygen",
    "ultrasonic neb": "supplemental oxygen",
    "vapomist": "supplemental oxygen",
    "oxymizer": "supplemental oxygen",
    "high flow neb": "supplemental oxygen",
    "nasal cannula": "supplemental oxygen",
    "none": "none",
}
"""Oxygen devices as the MIMIC Code Repository groups them (concepts/treatment/ventilation)."""
_MODES: dict[str, Ventilation] = {
    **dict.fromkeys(
        ("(s) cmv", "ambient", "apnea ventilation", "aprv", "aprv/biphasic+apnpress", "aprv/biphasic+apnvol",
         "apv (cmv)", "apv (simv)", "asv", "cmv", "cmv/assist", "cmv/assist/autoflow", "cmv/autoflow", "cpap/pps",
         "cpap/psv", "cpap/psv+apn tcpl", "cpap/psv+apnpres", "cpap/psv+apnvol", "mmv", "mmv/autoflow", "mmv/psv",
         "mmv/psv/autoflow", "p-cmv", "p-simv", "pcv+", "pcv+/psv", "pcv+assist", "pres/ac", "prvc/ac", "prvc/simv",
         "psv/sbt", "simv", "simv/autoflow", "simv/pres", "simv/psv", "simv/psv/autoflow", "simv/vol",
         "synchron master", "synchron slave", "vol/ac", "vs"), "invasive"),
    **dict.fromkeys(("duopap", "niv", "niv-st"), "non-invasive"),
}  # fmt: skip
"""Modes of ventilators, as there."""
_ORDER: tuple[Ventilation, ...] = (
    "tracheostomy", "invasive", "non-invasive", "high-flow", "supplemental oxygen", "none",
)  # fmt: skip
"""Of what is charted in one minute the first counts."""


def norepinephrine_equivalent(
    *,
    norepinephrine: float = 0.0,
    epinephrine: float = 0.0,
    phenylephrine: float = 0.0,
    dopamine: float = 0.0,
    vasopressin: float = 0.0,
) -> float:
    """ug/kg/min of norepinephrine (Goradia 2021, as in the MIMIC Code Repository): epinephrine alike, phenylephrine a
    tenth, dopamine a hundredth (all ug/kg/min), vasopressin (units/h) 2.5/60."""
    return norepinephrine + epinephrine + phenylephrine / 10 + dopamine / 100 + vasopressin * 2.5 / 60


def ventilation_status(devices: Iterable[str], modes: Iterable[str] = ()) -> Ventilation | None:
    """How a person breathes, by the oxygen devices and ventilator modes charted in one minute; unknown where none of
    them is known."""
    by_device = {_DEVICES.get(device.strip().lower()) for device in devices}
    by_mode = {_MODES.get(mode.strip().lower()) for mode in modes}
    if "non-invasive" in by_device:  # a machine behind a mask has the same modes as one behind a tube
        by_mode.discard("invasive")
    return next((status for status in _ORDER if status in by_device | by_mode), None)


def is_spontaneous(mode: str) -> bool:
    """Whether a mode leaves the breath to the person, so that a mask may have it."""
    return mode.strip().lower().startswith(("cpap", "psv"))


def inspired_oxygen(value: float | None) -> float | None:
    """FiO2 in percent: up to 1 a share, from 20 on a percentage; what lies between, and less than 20 %, cannot be
    either and is unknown."""
    if value is None:
        return None
    if 0.2 <= value <= 1:
        return value * 100
    return value if 20 <= value <= 100 else None


def is_arterial(specimen: str | None) -> bool:
    """Whether a blood gas's specimen, as the laboratory writes it, is arterial; where none is told it is not known to
    be, and does not count."""
    return specimen is not None and specimen.strip().upper().startswith("ART")


def is_tube(response: str) -> bool:
    """Whether a verbal response, as charted, says that a tube keeps the person from speaking."""
    return any(word in response.lower() for word in ("ett", "et/trach"))
