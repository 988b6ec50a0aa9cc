"""List every definition with its name, publication, unit and variant."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ClinicalDefinition:
    """One definition. ``hours``: the window over which the worst value counts, as published; ``variant``: its name, if
    there are several."""

    name: str
    title: str
    doi: str
    unit: str
    hours: int = 24
    variant: str = ""


DEFINITIONS: dict[str, ClinicalDefinition] = {
    one.name: one
    for one in (
        ClinicalDefinition(name="gcs", title="Glasgow coma scale", doi="10.1016/S0140-6736(74)91639-0",
                           unit="points, 3 to 15", variant="MIMIC Code Repository: 15 while a tube bars speech"),
        ClinicalDefinition(name="sofa", title="Sequential organ failure assessment", doi="10.1007/BF01709751",
                           unit="points, 0 to 24", variant="MIMIC Code Repository: worst values of 24 hours"),
        ClinicalDefinition(name="qsofa", title="Quick SOFA", doi="10.1001/jama.2016.0288", unit="points, 0 to 3"),
        ClinicalDefinition(name="sirs", title="Systemic inflammatory response", doi="10.1378/chest.101.6.1644",
                           unit="criteria, 0 to 4"),
        ClinicalDefinition(name="kdigo", title="Stage of acute kidney injury", doi="10.1038/kisup.2012.1",
                           unit="stage, 0 to 3", variant="MIMIC Code Repository: lowest creatinine of 7 days"),
        ClinicalDefinition(name="meld", title="Model for end-stage liver disease", doi="10.1056/NEJMoa0801209",
                           unit="points, 6 to 40", variant="UNOS 2016, with sodium"),
        ClinicalDefinition(name="urine_output", title="Urine output rate", doi="10.1038/kisup.2012.1",
                           unit="mL/kg/h", hours=6),
        ClinicalDefinition(name="vasopressors", title="Vasopressors in norepinephrine equivalents",
                           doi="10.1016/j.jcrc.2020.11.002", unit="ug/kg/min", hours=0,
                           variant="MIMIC Code Repository: vasopressin 2.5/60 per unit/h"),
        ClinicalDefinition(name="ventilation", title="Ventilation status", doi="10.1093/jamia/ocx084", unit="status",
                           hours=14, variant="MIMIC Code Repository, concepts/treatment/ventilation"),
        ClinicalDefinition(name="pf_ratio", title="PaO2/FiO2", doi="10.1001/jama.2012.5669", unit="mmHg", hours=6,
                           variant="newest arterial gas, by the FiO2 in force then"),
        ClinicalDefinition(name="suspicion_of_infection", title="Suspicion of infection",
                           doi="10.1001/jama.2016.0288", unit="time",
                           variant="the newest of this admission; antibiotics that act on the whole body"),
        ClinicalDefinition(name="sepsis3", title="Sepsis-3", doi="10.1001/jama.2016.0287", unit="yes or no",
                           variant="about the newest suspicion; SOFA before it counts as 0"),
    )
}  # fmt: skip
"""By name."""
