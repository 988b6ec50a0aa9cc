"""Kidneys and liver: KDIGO stages, urine per weight and hour, MELD."""

from __future__ import annotations

import math
from dataclasses import dataclass

from wardround.vocabulary import Bounds


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
    MIMIC Code Repository's lowest of 7 days stands for the baseline). Unknown where there is none before it."""
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
    """The worse of the two; renal replacement is stage 3. Unknown where neither is known."""
    if replaced:
        return 3
    return max((stage for stage in (by_creatinine, by_urine) if stage is not None), default=None)


def kdigo_bounds(by_creatinine: int | None, rates: UrineRates, *, replaced: bool = False) -> Bounds:
    """The lowest and the highest stage that what is charted leaves open: urine that was not charted for so long may
    have been none."""
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
    """The lowest and the highest MELD that missing tests leave open. ``dialysis``: None where it is not known."""
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
    return Bounds(low or 6, high or 40)
