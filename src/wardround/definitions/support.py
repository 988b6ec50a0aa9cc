"""What keeps a person going: vasopressors as norepinephrine, and how they breathe."""

from __future__ import annotations

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
_INVASIVE_MODES = ("cmv", "pcv", "prvc", "simv", "apv", "apr", "psv", "mmv", "cpap/psv", "spont", "assist", "autoflow")


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


def ventilation_status(device: str | None, mode: str | None = None) -> Ventilation | None:
    """How a person breathes, by oxygen device and ventilator mode; unknown where neither is charted or known."""
    by_device = _DEVICES.get(device.strip().lower()) if device else None
    if by_device in ("tracheostomy", "invasive"):
        return by_device
    if mode and any(word in mode.lower() for word in _INVASIVE_MODES):
        return "invasive"
    return by_device
