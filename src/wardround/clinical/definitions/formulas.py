"""Published scores as formulas: SOFA, qSOFA, SIRS, GCS, KDIGO, MELD, Sepsis-3, vasopressor dose."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal

from wardround.clinical.vocabulary import Bounds, any_of, is_drug

# SOFA and its six parts, qSOFA, SIRS and the coma scale, as published; each lists the parts that were not charted.
#
# A part whose measurement is not charted is unknown (None), never 0. A total is the sum of the known parts, and so the
# least that the score can be; ``bounds`` also give the most.


MOST_POINTS = 4
"""The most points of one part of SOFA."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialScore:
    """A sum of parts. ``unknown`` names the parts that were not charted. ``within``: by part the least and the most
    that it can be; a part that is known by one of two measurements may be higher by the other."""

    parts: Mapping[str, int | None]
    within: Mapping[str, Bounds]

    @property
    def total(self) -> int | None:
        """The sum of the known parts; None if none is known."""
        known = [value for value in self.parts.values() if value is not None]
        return sum(known) if known else None

    @property
    def bounds(self) -> Bounds:
        """The least and the most that the true score can be."""
        return Bounds(
            sum(part_bounds.low for part_bounds in self.within.values()),
            sum(part_bounds.high for part_bounds in self.within.values()),
        )

    @property
    def unknown(self) -> tuple[str, ...]:
        """The parts that were not charted."""
        return tuple(name for name, value in self.parts.items() if value is None)


def coma_scale(eye: int | None, verbal: int | None, motor: int | None, *, intubated: bool = False) -> int | None:
    """Glasgow coma scale, 3 to 15 (Teasdale and Jennett 1974). Of an intubated person it is 15, as the MIMIC Code
    Repository takes it: the tube, not the brain, keeps them from speaking."""
    if intubated:
        return 15
    if eye is None or verbal is None or motor is None:
        return None
    return eye + verbal + motor


def sofa_respiration(ratio: float | None, *, ventilated: bool | None) -> int | None:
    """Points of PaO2/FiO2 in mmHg (Vincent 1996). 3 and 4 need respiratory support; without it 2 are the most."""
    if ratio is None:
        return None
    if ratio < 200 and ventilated:
        return 4 if ratio < 100 else 3
    return 2 if ratio < 300 else 1 if ratio < 400 else 0


def sofa_coagulation(platelets: float | None) -> int | None:
    """Points of platelets in 10^3/uL."""
    return None if platelets is None else sum(platelets < bound for bound in (150, 100, 50, 20))


def sofa_liver(bilirubin: float | None) -> int | None:
    """Points of total bilirubin in mg/dL."""
    return None if bilirubin is None else sum(bilirubin >= bound for bound in (1.2, 2.0, 6.0, 12.0))


def sofa_circulation(
    mean_pressure: float | None,
    *,
    dopamine: float = 0.0,
    epinephrine: float = 0.0,
    norepinephrine: float = 0.0,
    dobutamine: float = 0.0,
) -> int | None:
    """Points of mean arterial pressure in mmHg and of pressors in ug/kg/min. A drug that runs tells enough without a
    pressure; without either it is unknown."""
    if dopamine > 15 or epinephrine > 0.1 or norepinephrine > 0.1:
        return 4
    if dopamine > 5 or epinephrine > 0 or norepinephrine > 0:
        return 3
    if dopamine > 0 or dobutamine > 0:
        return 2
    return None if mean_pressure is None else int(mean_pressure < 70)


def sofa_brain(coma: int | None) -> int | None:
    """Points of the Glasgow coma scale."""
    return None if coma is None else sum(coma < bound for bound in (15, 13, 10, 6))


def sofa_kidney(creatinine: float | None, urine_of_day: float | None) -> int | None:
    """Points of creatinine in mg/dL and of urine in mL over 24 hours, the worse of the two."""
    found = []
    if creatinine is not None:
        found.append(sum(creatinine >= bound for bound in (1.2, 2.0, 3.5, 5.0)))
    if urine_of_day is not None:
        found.append(4 if urine_of_day < 200 else 3 if urine_of_day < 500 else 0)
    return max(found, default=None)


def quick_sofa(breaths: float | None, systolic: float | None, coma: int | None) -> PartialScore:
    """qSOFA (Seymour 2016): breaths a minute >= 22, systolic pressure <= 100 mmHg, coma scale below 15."""
    return _criteria(
        {
            "breathing": (None if breaths is None else breaths >= 22,),
            "pressure": (None if systolic is None else systolic <= 100,),
            "consciousness": (None if coma is None else coma < 15,),
        }
    )


def inflammatory_response(
    *,
    temperature: float | None = None,
    heart_rate: float | None = None,
    breaths: float | None = None,
    carbon_dioxide: float | None = None,
    white_cells: float | None = None,
    bands: float | None = None,
) -> PartialScore:
    """SIRS (Bone 1992): temperature in degC above 38 or below 36; heart rate above 90; breaths above 20 or PaCO2 below
    32 mmHg; white cells above 12 or below 4 (10^3/uL) or more than 10 % bands. Without PaCO2 or bands a criterion that
    its other measurement does not meet counts 0, and may be 1."""
    return _criteria(
        {
            "temperature": (None if temperature is None else temperature > 38 or temperature < 36,),
            "heart rate": (None if heart_rate is None else heart_rate > 90,),
            "breathing": (
                None if breaths is None else breaths > 20,
                None if carbon_dioxide is None else carbon_dioxide < 32,
            ),
            "white cells": (
                None if white_cells is None else white_cells > 12 or white_cells < 4,
                None if bands is None else bands > 10,
            ),
        }
    )


def _criteria(criteria: Mapping[str, tuple[bool | None, ...]]) -> PartialScore:
    """Count criteria, each met where one of its measurements meets it."""
    parts, within = {}, {}
    for name, each in criteria.items():
        known = [one for one in each if one is not None]
        parts[name] = int(any(known)) if known else None
        within[name] = Bounds(int(any(known)), int(any(known) or len(known) < len(each)))
    return PartialScore(parts=parts, within=within)


# Kidneys and liver: KDIGO stages, urine per weight and hour, MELD.


@dataclass(frozen=True, slots=True, kw_only=True)
class UrineRates:
    """Urine in mL/kg/h over 6, 12 and 24 hours; None where it was not charted for so long, or more seldom than that."""

    hours_6: float | None = None
    hours_12: float | None = None
    hours_24: float | None = None


def urine_rate(millilitres: float, weight: float, hours: float) -> float:
    """mL/kg/h; weight in kg. ValueError: no weight or no time."""
    if weight <= 0 or hours <= 0:
        raise ValueError("a rate needs a weight and a time above 0")
    return millilitres / weight / hours


def kdigo_creatinine(now: float | None, *, lowest_48: float | None, lowest_7: float | None) -> int | None:
    """Stage by creatinine in mg/dL against the lowest before it of 48 hours and of 7 days (KDIGO 2012, section 2.1; the
    MIMIC Code Repository's lowest of 7 days is the baseline). Unknown without an earlier value."""
    if now is None or lowest_7 is None:
        return None
    low = now if lowest_48 is None else lowest_48
    risen = now >= low + 0.3 or now >= 1.5 * lowest_7
    if now >= 3 * lowest_7 or (now >= 4.0 and risen):
        return 3
    return 2 if now >= 2 * lowest_7 else 1 if risen else 0


def kdigo_urine(rates: UrineRates) -> int | None:
    """Stage by urine: below 0.5 mL/kg/h for 6 hours is 1, for 12 hours 2; below 0.3 for 24 or none for 12 is 3."""
    known = [rate for rate in (rates.hours_6, rates.hours_12, rates.hours_24) if rate is not None]
    if not known:
        return None
    if (rates.hours_24 is not None and rates.hours_24 < 0.3) or rates.hours_12 == 0:
        return 3
    if rates.hours_12 is not None and rates.hours_12 < 0.5:
        return 2
    return int(rates.hours_6 is not None and rates.hours_6 < 0.5)


def kdigo_stage(by_creatinine: int | None, by_urine: int | None, *, replaced: bool = False) -> int | None:
    """Return the worse of the two stages; renal replacement is stage 3. Unknown if both are unknown."""
    if replaced:
        return 3
    return max((stage for stage in (by_creatinine, by_urine) if stage is not None), default=None)


def kdigo_bounds(by_creatinine: int | None, rates: UrineRates, *, replaced: bool = False) -> Bounds:
    """Return the lowest and the highest stage that the chart leaves open. Hours without charted urine may have had
    none."""
    none = UrineRates(hours_6=rates.hours_6 or 0, hours_12=rates.hours_12 or 0, hours_24=rates.hours_24 or 0)
    low = kdigo_stage(by_creatinine, kdigo_urine(rates), replaced=replaced) or 0
    high = kdigo_stage(3 if by_creatinine is None else by_creatinine, kdigo_urine(none), replaced=replaced) or 0
    return Bounds(low, high)


def meld(
    creatinine: float | None,
    bilirubin: float | None,
    inr: float | None,
    sodium: float | None,
    *,
    dialysis: bool = False,
) -> int | None:
    """MELD with sodium, 6 to 40 (Kim 2008, UNOS 2016; the MIMIC Code Repository's variant): values below 1 count as 1,
    creatinine (mg/dL) 4 at most, and 4 on dialysis; sodium (mmol/L) between 125 and 137, and only above 11 points."""
    if bilirubin is None or inr is None or sodium is None or (creatinine is None and not dialysis):
        return None
    kidney = 4.0 if dialysis else min(max(creatinine or 1.0, 1.0), 4.0)
    logs = 0.957 * math.log(kidney) + 0.378 * math.log(max(bilirubin, 1.0)) + 1.120 * math.log(max(inr, 1.0)) + 0.643
    plain = round(logs, 1) * 10
    if plain > 11:
        lacking = 137 - min(max(sodium, 125.0), 137.0)
        plain += 1.32 * lacking - 0.033 * plain * lacking
    return min(max(round(plain), 6), 40)


def meld_bounds(
    creatinine: float | None,
    bilirubin: float | None,
    inr: float | None,
    sodium: float | None,
    *,
    dialysis: bool | None = False,
) -> Bounds:
    """Return the lowest and the highest MELD that missing tests leave open. ``dialysis``: None if unknown."""
    low = meld(
        creatinine or 1.0, bilirubin or 1.0, inr or 1.0, 137.0 if sodium is None else sodium, dialysis=dialysis is True
    )
    high = meld(
        creatinine or 4.0,
        bilirubin or math.exp(99),
        inr or math.exp(99),
        125.0 if sodium is None else sodium,
        dialysis=dialysis is not False,
    )
    assert low is not None  # everything was given
    assert high is not None
    return Bounds(low, high)


# Suspicion of infection and Sepsis-3: antibiotics and cultures near each other, and organs failing about then.


AFTER_CULTURE = timedelta(hours=72)
AFTER_ANTIBIOTIC = timedelta(hours=24)
BEFORE_SUSPICION = timedelta(hours=48)
AFTER_SUSPICION = timedelta(hours=24)
SEPSIS_POINTS = 2
_LOCAL_ROUTES = frozenset({"ou", "os", "od", "au", "as", "ad", "tp", "topical", "vag", "vaginal"})
_LOCAL_WORDS = ("ear", "eye", "ophth")
_LOCAL_FORMS = ("cream", "gel", "ointment", "ophth", "desensitization", "rifaximin", "neomycin", "sulfasalazine")


@dataclass(frozen=True, slots=True, kw_only=True)
class Culture:
    """A culture taken. ``time`` is None where only the day is known."""

    day: date
    time: datetime | None = None


def suspected_infection(antibiotics: Iterable[datetime], cultures: Sequence[Culture]) -> datetime | None:
    """Return when infection was suspected (Seymour 2016), the newest time.

    It is the first culture of the 72 hours before an antibiotic, or an antibiotic that a culture followed within 24
    hours. Days are compared if a culture's hour is unknown.
    """
    found = (_suspected(antibiotic, cultures) for antibiotic in antibiotics)
    return max((moment for moment in found if moment is not None), default=None)


def is_sepsis(suspected: datetime | None, scores: Iterable[tuple[datetime, Bounds]]) -> bool | None:
    """Sepsis-3 (Singer 2016): a SOFA of 2 or more from 48 hours before to 24 hours after the suspicion; that before
    counts as 0, as in the MIMIC Code Repository. ``scores``: by time the least and the most points; where they leave it
    open, and without a score near it, the answer is unknown."""
    if suspected is None:
        return False
    near = [points for when, points in scores if suspected - BEFORE_SUSPICION <= when <= suspected + AFTER_SUSPICION]
    return any_of(points.holds(">=", SEPSIS_POINTS) for points in near) if near else None


def is_antibiotic(drug: str, route: str | None) -> bool:
    """Return whether a drug is an antibiotic for the whole body: none for the skin, an eye, an ear or the gut, and none
    given to desensitize."""
    if any(form in drug.lower() for form in _LOCAL_FORMS):
        return False
    route_text = (route or "").lower()
    local = route_text in _LOCAL_ROUTES or any(word in route_text for word in _LOCAL_WORDS)
    return not local and is_drug(drug, "antibiotics")


def _suspected(antibiotic: datetime, cultures: Sequence[Culture]) -> datetime | None:
    """Return the first culture before an antibiotic; on one day, cultures with a known hour first. Without a culture,
    return the antibiotic."""
    before = []
    after = False
    for culture in cultures:
        if culture.time is None:
            days = (antibiotic.date() - culture.day).days
            is_before, is_after = 0 <= days <= 3, days == -1
        else:
            wait = antibiotic - culture.time
            is_before, is_after = timedelta(0) <= wait <= AFTER_CULTURE, timedelta(0) < -wait <= AFTER_ANTIBIOTIC
        before += [(culture.day, culture.time or datetime.max)] if is_before else []
        after = after or is_after
    if before:
        day, time = min(before)
        return datetime.combine(day, datetime.min.time()) if time == datetime.max else time
    return antibiotic if after else None


# What keeps a person going: vasopressors as norepinephrine, and how they breathe.


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
"""Modes of ventilators, from the same source."""
_ORDER: tuple[Ventilation, ...] = (
    "tracheostomy", "invasive", "non-invasive", "high-flow", "supplemental oxygen", "none",
)  # fmt: skip
"""Of several statuses in one minute the first in this order counts."""


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
    """Return how a person breathes, by the oxygen devices and ventilator modes charted in one minute; unknown if no
    device or mode is known."""
    by_device = {_DEVICES.get(device.strip().lower()) for device in devices}
    by_mode = {_MODES.get(mode.strip().lower()) for mode in modes}
    if "non-invasive" in by_device:  # a machine behind a mask has the same modes as one behind a tube
        by_mode.discard("invasive")
    return next((status for status in _ORDER if status in by_device | by_mode), None)


def is_spontaneous(mode: str) -> bool:
    """Return whether a mode leaves the breath to the person, so that a mask may have it."""
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
    """Return whether a blood gas's specimen, as the laboratory writes it, is arterial; a gas without a specimen does
    not count."""
    return specimen is not None and specimen.strip().upper().startswith("ART")


def is_tube(response: str) -> bool:
    """Return whether a verbal response, as charted, says that a tube keeps the person from speaking."""
    return any(word in response.lower() for word in ("ett", "et/trach"))
