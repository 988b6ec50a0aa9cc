"""One hand-made chart for each trap of a definition: other units, both sides of an edge, decoys beside what counts."""

from __future__ import annotations

from datetime import datetime

import pytest

from clinical.definitions.hand_made import Charts, Ward, at
from wardround.clinical.definitions import score_at

NOREPINEPHRINE, EPINEPHRINE, DOPAMINE, PHENYLEPHRINE, VASOPRESSIN, DOBUTAMINE, SALINE = (
    221906, 221289, 221662, 221749, 222315, 221653, 225158,
)  # fmt: skip
HEART, HEART_ALARM, MEAN_LINE, MEAN_CUFF, SYSTOLIC, BREATHS, CELSIUS, FAHRENHEIT = (
    220045, 220046, 220052, 220181, 220179, 220210, 223762, 223761,
)  # fmt: skip
EYE, VERBAL, MOTOR, FIO2, DEVICE, MODE, WEIGHT, DAILY_WEIGHT = (
    220739, 223900, 223901, 223835, 226732, 223849, 226512, 224639,
)  # fmt: skip
CREATININE, BILIRUBIN, PLATELETS, WHITE_CELLS, INR, SODIUM, BANDS = 50912, 50885, 51265, 51301, 51237, 50983, 51144
CATHETER_DRESSING, IRRIGANT_IN, IRRIGANT_OUT, HEMODIALYSIS, CRRT = 227357, 227488, 227489, 225441, 225802


def _lungs(ward: Ward) -> None:
    ward.person("gas with its own FiO2").charted(FIO2, 0.5, 100).gas(1, 60, "ART.", oxygen=30).gas(
        2, 30, "VEN.", oxygen=100).gas(2, 30, "MIX.", oxygen=100)  # fmt: skip
    ward.person("FiO2 in force").charted(FIO2, -1.5, 21, "%").charted(FIO2, 0, 50, "%").gas(3.9, 150, "ART.").charted(
        FIO2, 4.5, 100, "%")  # fmt: skip
    ward.person("FiO2 as a share").charted(FIO2, 1, 1.0).gas(1.5, 399, "ART.")
    ward.person("FiO2 that is neither").charted(FIO2, 1, 5).gas(1.5, 90, "ART.")
    ward.person("FiO2 of long ago").charted(FIO2, 0, 50, "%").gas(4.1, 150, "ART.")
    ward.person("tube of long ago").charted(DEVICE, 0, "Endotracheal tube").gas(14.1, 99, "ART.", oxygen=100)
    ward.person("gas of no kind").gas(1, 60, None, oxygen=100)
    ward.person("each gas by its own FiO2").gas(1, 60, "ART.", oxygen=21).gas(2, 300, "ART.", oxygen=100)
    tube = ward.person("tube, then taken out").charted(DEVICE, -1, "Endotracheal tube").charted(MODE, -1, "CMV/ASSIST")
    tube.gas(0, 199, "ART.", oxygen=100).charted(DEVICE, 1, "Nasal cannula").gas(2, 99, "ART.", oxygen=100)
    mask = ward.person("tracheostomy").charted(DEVICE, 0, "Trach mask ").gas(1, 150, "ART.", oxygen=100)
    mask.charted(DEVICE, 2, "Tracheostomy tube").charted(MODE, 2, "SIMV").gas(3, 150, "ART.", oxygen=100)
    ward.person("tracheostomy, machine in standby").charted(DEVICE, 0, "Trach mask ").charted(MODE, 0, "Standby").gas(
        1, 150, "ART.", oxygen=100)  # fmt: skip
    ward.person("high flow").charted(DEVICE, 0, "High flow nasal cannula")
    mask = ward.person("mask, then a tube").charted(DEVICE, 0, "Bipap mask ").charted(MODE, 1, "CPAP/PSV")
    mask.charted(MODE, 4, "CMV/ASSIST").charted(MODE, 5, "CPAP/PSV").charted(DEVICE, 6, "Endotracheal tube")
    mask.charted(MODE, 7, "CPAP/PSV").gas(7, 80, "ART.", oxygen=40).gas(8, 30, "VEN.", oxygen=40)
    ward.person("new device").charted(DEVICE, 0, "Nasal cannula").charted(DEVICE, 1, "A new device")
    ward.person("gas of 24 hours ago").gas(-1, 60, "ART.", oxygen=100)


def _circulation(ward: Ward) -> None:
    ward.person("drip").drip(NOREPINEPHRINE, 0, 50, 0.1, "mcg/kg/min").charted(MEAN_LINE, 1, 90, "mmHg")
    ward.person("drip by the minute").drip(NOREPINEPHRINE, 0, 50, 8, "mcg/min", weight=80)
    ward.person("drip by the hour, no weight").drip(NOREPINEPHRINE, 0, 50, 480, "mcg/hour", weight=None)
    ward.person("drip in milligrams").drip(NOREPINEPHRINE, 0, 50, 0.0001, "mg/kg/min")
    ward.person("drip without a unit").drip(NOREPINEPHRINE, 0, 50, 0.1, None).charted(MEAN_LINE, 1, 90, "mmHg")
    ward.person("drip without a rate").drip(NOREPINEPHRINE, 0, 50, None, "mcg/kg/min").charted(MEAN_LINE, 1, 90, "mmHg")
    drips = ward.person("all drips").drip(NOREPINEPHRINE, 0, 9, 0.05, "mcg/kg/min")
    drips.drip(EPINEPHRINE, 0, 9, 0.02, "mcg/kg/min").drip(
        VASOPRESSIN, 0, 9, 0.04, "units/min").drip(PHENYLEPHRINE, 0, 9, 100, "mcg/min", weight=80).drip(
        DOPAMINE, 0, 9, 5, "mcg/kg/min").drip(DOBUTAMINE, 0, 9, 5, "mcg/kg/min")  # fmt: skip
    ward.person("vasopressin").drip(VASOPRESSIN, 0, 9, 2.4, "units/hour").charted(MEAN_LINE, 1, 90, "mmHg")
    ward.person("dopamine").drip(DOPAMINE, 0, 9, 5, "mcg/kg/min")
    ward.person("more dopamine").drip(DOPAMINE, 0, 9, 5.1, "mcg/kg/min")
    ward.person("dose changed").drip(NOREPINEPHRINE, 0, 2, 0.3, "mcg/kg/min").drip(
        NOREPINEPHRINE, 2, 9, 0.05, "mcg/kg/min"
    )
    ward.person("ended on the hour").drip(NOREPINEPHRINE, 0.5, 2, 0.2, "mcg/kg/min")
    ward.person("saline").drip(SALINE, 0, 50, 100, "mL/hour")
    ward.person("nothing infused").charted(MEAN_LINE, 1, 70, "mmHg")
    ward.person("line and cuff").charted(MEAN_LINE, 1, 62, "mmHg").charted(MEAN_CUFF, 1, 78, "mmHg")
    ward.person("low by a little").charted(MEAN_LINE, 1, 69.9, "mmHg").charted(220051, 1, 40, "mmHg")
    ward.person("in kilopascal").charted(MEAN_LINE, 1, 10, "kPa")
    ward.person("pressure of an alarm").charted(220056, 1, 50, "mmHg").charted(MEAN_LINE, 1, 300.5, "mmHg")
    again = (
        ward.newcomer("drip of an earlier stay").admit(-200, -100).drip(NOREPINEPHRINE, -150, -100, 0.5, "mcg/kg/min")
    )
    again.admit().charted(MEAN_LINE, 1, 70, "mmHg")
    ward.newcomer("gone to the ward").admit(-50, -1).drip(SALINE, -20, -2, 100, "mL/hour")


def _laboratory(ward: Ward) -> None:
    ward.person("other units").lab(CREATININE, 1, 107, "umol/L").lab(BILIRUBIN, 1, 20.6, "umol/L").lab(
        PLATELETS, 1, 99_000, "/uL"
    )
    ward.person("just below").lab(CREATININE, 1, 105, "umol/L").lab(BILIRUBIN, 1, 20.4, "umol/L").lab(
        PLATELETS, 1, 150, "K/uL"
    )
    ward.person("of urine, and direct").lab(CREATININE, 0, 1.0, "mg/dL").lab(51082, 1, 90, "mg/dL").lab(
        BILIRUBIN, 1, 1.0, "mg/dL").lab(50883, 1, 7.0, "mg/dL").lab(PLATELETS, 1, 200, "K/uL").lab(
        51266, 1, 10, "K/uL").lab(CREATININE, 1, 1.0, "mg/dL")  # fmt: skip
    ward.person("unreadable unit").lab(CREATININE, 1, 5, "bananas").lab(PLATELETS, 1, 10, "K/uL").lab(
        PLATELETS, -23, 5, "K/uL"
    )
    ward.person("before admission").lab(BILIRUBIN, -10, 12.0, "mg/dL").lab(BILIRUBIN, -22.1, 30.0, "mg/dL")


def _brain(ward: Ward) -> None:
    def coma(name: str, *rows: tuple[float, int, int, int]) -> None:
        person = ward.person(name)
        for hours, *parts in rows:
            for item, points in zip((EYE, VERBAL, MOTOR), parts, strict=True):
                person.charted(item, hours, points)

    coma("never at once", (0, 1, 5, 6), (1, 4, 2, 6), (2, 4, 5, 3))
    coma("fourteen", (0, 4, 4, 6))
    coma("worse for a while", (0, 4, 4, 6), (1, 2, 2, 4), (2, 4, 5, 6))
    coma("fifteen", (0, 4, 5, 6))
    ward.person("six hours apart").charted(EYE, 0, 2).charted(VERBAL, 3, 2).charted(MOTOR, 6, 4)
    ward.person("longer apart").charted(EYE, 0, 2).charted(VERBAL, 3, 2).charted(MOTOR, 6.1, 4)
    ward.person("no movement charted").charted(EYE, 0, 1).charted(VERBAL, 0, 1)
    ward.person("tube in the mouth").charted(EYE, 0, 2).charted(VERBAL, 0, 1, said="No Response-ETT").charted(
        MOTOR, 0, 4
    )
    ward.person("no answer, no tube").charted(EYE, 0, 2).charted(VERBAL, 0, 1, said="No Response").charted(MOTOR, 0, 4)


def _inflammation(ward: Ward) -> None:
    ward.person("38.0 in Fahrenheit").charted(FAHRENHEIT, 0, 100.4, "°F")
    ward.person("38.1 in Fahrenheit").charted(FAHRENHEIT, 0, 100.6, "°F")
    ward.person("Fahrenheit, no unit").charted(FAHRENHEIT, 0, 100.4)
    ward.person("the other unit").charted(FAHRENHEIT, 0, 37.0, "°C").charted(CELSIUS, 1, 98.6, "°F")
    ward.person("36.0").charted(CELSIUS, 0, 36.0, "°C")
    ward.person("35.9").charted(CELSIUS, 0, 35.9, "°C")
    ward.person("fever, then none").charted(CELSIUS, 0, 38.5, "°C").charted(CELSIUS, 1, 37.0, "°C").lab(
        WHITE_CELLS, 0, 3.9, "K/uL").lab(WHITE_CELLS, 1, 8, "K/uL")  # fmt: skip
    ward.person("alarm limits").charted(HEART, 0, 90, "bpm").charted(HEART_ALARM, 0, 130, "bpm").charted(
        224161, 0, 35, "insp/min").charted(BREATHS, 0, 20, "insp/min")  # fmt: skip
    ward.person("just above").charted(HEART, 0, 91, "bpm").charted(BREATHS, 0, 21, "insp/min").charted(
        HEART, 1, 60, "bpm").charted(BREATHS, 1, 12, "insp/min")  # fmt: skip
    ward.person("venous gas").gas(0, 40, "VEN.", carbon=25).gas(0, 90, "ART.", carbon=32)
    ward.person("arterial gas").gas(0, 90, "ART.", carbon=31.9)
    ward.person("cells by the microlitre").lab(WHITE_CELLS, 0, 12_000, "/uL").lab(BANDS, 0, 10, "%")
    ward.person("bands").lab(WHITE_CELLS, 0, 8, "K/uL").lab(BANDS, 0, 11, "%").lab(BANDS, 1, 2, "%")
    ward.person("quick").charted(BREATHS, 0, 22, "insp/min").charted(SYSTOLIC, 0, 100, "mmHg").charted(
        223751, 0, 80, "mmHg"
    )
    ward.person("not so quick").charted(BREATHS, 0, 21, "insp/min").charted(SYSTOLIC, 0, 101, "mmHg").charted(
        220180, 0, 60
    )


def _kidneys(ward: Ward) -> None:
    # against its lowest of 48 hours (+ 0.3) and of 7 days (x 1.5): each window exchanged for the other says otherwise
    ward.person("up by less than 0.3").lab(CREATININE, -100, 0.8, "mg/dL").lab(CREATININE, -20, 1.0, "mg/dL").lab(
        CREATININE, 1, 1.15, "mg/dL"
    )
    ward.person("doubled in 7 days").lab(CREATININE, -100, 0.8, "mg/dL").lab(CREATININE, -20, 1.6, "mg/dL").lab(
        CREATININE, 1, 1.7, "mg/dL"
    )
    ward.person("doubled in 8 days").lab(CREATININE, -192, 0.8, "mg/dL").lab(CREATININE, -20, 1.6, "mg/dL").lab(
        CREATININE, 1, 1.7, "mg/dL"
    )
    ward.person("up by 0.3, other unit").lab(CREATININE, -20, 1.0, "mg/dL").lab(CREATININE, 1, 115.6, "umol/L")
    ward.person("one creatinine").lab(CREATININE, 1, 5.0, "mg/dL")
    ward.person("old creatinine").lab(CREATININE, -90, 1.0, "mg/dL").lab(CREATININE, -40, 3.5, "mg/dL")
    amounts: dict[str, float] = {"0.5": 40, "less than 0.5": 39, "less than 0.3": 23, "none": 0}
    amounts |= {"504 a day": 21, "499 a day": 20.8, "202 a day": 8.4, "199 a day": 8.3}
    for name, amount in amounts.items():
        person = ward.person(f"urine {name}").charted(WEIGHT, -1, 80, "kg").charted(HEART, -1, 80, "bpm")
        for hour in range(-1, 25):
            person.urine(hour, amount)
    weighed = ward.person("weighed again").charted(WEIGHT, 1, 176.37, "lb").charted(DAILY_WEIGHT, 4.5, 40, "kg")
    weighed.charted(DAILY_WEIGHT, 7.2, 20, "kg")
    late = ward.person("weighed at admission, charted late").charted(DAILY_WEIGHT, -1, 40, "kg")
    late.charted(WEIGHT, 3, 80, "kg").urine(-1, 0).urine(5, 280)
    twice = ward.person("weighed twice at admission").charted(WEIGHT, 0, 80, "kg").charted(WEIGHT, 5, 40, "kg")
    for hour in range(-1, 6):
        twice.urine(hour, 40)
    dry = ward.person("dry, then not").charted(WEIGHT, -1, 80, "kg").charted(HEART, -1, 80, "bpm")
    for hour in range(-1, 41):
        dry.urine(hour, 10 if hour < 24 else 100)

    ward.person("every six hours").charted(WEIGHT, -1, 80, "kg").urine(-1, 100).urine(5, 240)
    ward.person("flushed").charted(WEIGHT, -1, 80, "kg").urine(-1, 0).urine(5, 1000, IRRIGANT_OUT).urine(
        5, 800, IRRIGANT_IN
    )
    for hour in range(-1, 8):
        weighed.urine(hour, 40)
    again = ward.newcomer("charted in an earlier stay").admit(-60, -3).charted(WEIGHT, -50, 80, "kg")
    for hour in range(-59, -3):
        again.urine(hour, 1)
    again.admit().charted(WEIGHT, -1, 80, "kg").charted(HEART, -1, 80, "bpm")
    for hour in range(-1, 4):
        again.urine(hour, 20)
    filtered = ward.person("filtered").procedure(CRRT, 0, 60).charted(WEIGHT, -1, 80, "kg")
    filtered.lab(CREATININE, 30, 1.0, "mg/dL").lab(BILIRUBIN, 30, 1.0, "mg/dL").lab(INR, 30, 1.0).lab(
        SODIUM, 30, 137, "mmol/L"
    )
    ward.person("dialysed before").procedure(HEMODIALYSIS, 0, 4).lab(CREATININE, 27, 1.0, "mg/dL").lab(
        CREATININE, 28, 1.0, "mg/dL"
    )
    catheter = ward.person("catheter only").charted(CATHETER_DRESSING, 1, "1").charted(224406, 1, 1.2, "mL")
    catheter.lab(CREATININE, 0, 1.0, "mg/dL").lab(CREATININE, 1, 1.0, "mg/dL")
    liver = ward.person("liver").lab(CREATININE, 1, 2.0, "mg/dL").lab(BILIRUBIN, 1, 3.0, "mg/dL").lab(INR, 1, 1.5)
    liver.lab(SODIUM, 1, 130, "mmol/L").lab(SODIUM, 2, 140, "mEq/L").lab(50824, 2, 110, "mEq/L").lab(
        CREATININE, -23, 4.0, "mg/dL"
    )


def _infection(ward: Ward) -> None:
    old = ward.newcomer("infected a year ago too").admit(-9000, -8900).culture(-8999).drug("Vancomycin", -8998)
    old.admit().culture(0).drug("Unasyn", 5)
    ward.newcomer("infected a year ago").admit(-9000, -8900).culture(-8999).drug("Vancomycin", -8998).admit().drug(
        "Aspirin", 1
    )
    ward.newcomer("infected days ago, in the admission before").admit(-60, -12).culture(-40).drug(
        "Vancomycin", -39).admit().drug("Aspirin", 1)  # fmt: skip
    ward.person("72 hours after").culture(0).drug("CefTRIAXone", 72)
    ward.person("more than 72 hours after").culture(0).drug("CefTRIAXone", 72.5)
    ward.person("24 hours before").drug("Meropenem", 0).culture(24)
    ward.person("more than 24 hours before").drug("Meropenem", 0).culture(24.5)
    ward.person("again after days").culture(0).drug("Vancomycin", 1).culture(80).drug("Meropenem", 81)
    decoys = ward.person("no antibiotic").culture(0)
    for name, route in (("Furosemide", "IV"), ("Mupirocin Ointment 2%", "NU"), ("Ciprofloxacin 0.3% Ophth Soln", "OU"),
                        ("Vancomycin", "OD"), ("Erythromycin", "BOTH EYES"), ("Metronidazole Gel", "TP"),
                        ("Rifaximin", "PO"), ("Heparin", "SC")):  # fmt: skip
        decoys.drug(name, 1, route)
    decoys.drug("Ampicillin", 1, kind="BASE")
    ward.person("ordered before admission").culture(-5).drug("Zosyn", -4, early=True)
    ward.person("only the day known").drug("Linezolid", 60).culture(0, day_only=True)
    ward.person("never cultured").drug("Vancomycin", 1)
    ward.person("no drug ordered").culture(0)
    ward.person("septic then").culture(0).drug("Vancomycin", 1).lab(CREATININE, -10, 4.0, "mg/dL").lab(
        CREATININE, 80, 1.0, "mg/dL"
    )
    for name, hours in (("failing 48 hours before", -71.5), ("failing earlier still", -72.5)):
        ward.newcomer(name).admit(-80).culture(0).drug("Vancomycin", 1).lab(CREATININE, hours, 4.0, "mg/dL")
    ward.person("failing later").culture(0).drug("Vancomycin", 1).lab(CREATININE, 60, 4.0, "mg/dL")
    whole = ward.person("wholly charted").culture(0).drug("Vancomycin", 1).charted(WEIGHT, -1, 80, "kg")
    for hour in range(-48, 25):
        whole.charted(MEAN_LINE, hour, 90, "mmHg").charted(EYE, hour, 4).charted(VERBAL, hour, 5).charted(
            MOTOR, hour, 6
        )
        whole.lab(CREATININE, hour, 1.0, "mg/dL").lab(BILIRUBIN, hour, 0.5, "mg/dL").lab(PLATELETS, hour, 200, "K/uL")
        whole.gas(hour, 100, "ART.", oxygen=21).charted(DEVICE, hour, "None")
    whole.drip(SALINE, -72, 25, 10, "mL/hour")
    for hour in range(-72, 25):
        whole.urine(hour, 80)


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Charts:
    ward = Ward()
    for write in (_lungs, _circulation, _laboratory, _brain, _inflammation, _kidneys, _infection):
        write(ward)
    return ward.open(tmp_path_factory.mktemp("ward"))


@pytest.mark.parametrize(
    ("name", "hours", "part", "points"),
    [
        ("gas with its own FiO2", 3, "respiration", 2), ("FiO2 in force", 5, "respiration", 1),
        ("FiO2 as a share", 2, "respiration", 1), ("FiO2 that is neither", 2, "respiration", None),
        ("gas of no kind", 2, "respiration", None),
        ("FiO2 of long ago", 5, "respiration", None), ("tube of long ago", 15, "respiration", 2),
        ("each gas by its own FiO2", 3, "respiration", 2),
        ("tube, then taken out", 0.5, "respiration", 3), ("tube, then taken out", 3, "respiration", 3),
        ("tube, then taken out", 25, "respiration", 2), ("tracheostomy", 2, "respiration", 2),
        ("tracheostomy", 3, "respiration", 3), ("tracheostomy, machine in standby", 2, "respiration", 2),
        ("gas of 24 hours ago", 22.9, "respiration", 2),
        ("gas of 24 hours ago", 23, "respiration", None),
        ("drip", 3, "circulation", 3), ("drip by the minute", 3, "circulation", 3),
        ("drip in milligrams", 3, "circulation", 3), ("drip without a unit", 3, "circulation", None),
        ("drip without a rate", 3, "circulation", None), ("vasopressin", 3, "circulation", 0),
        ("dopamine", 3, "circulation", 2), ("more dopamine", 3, "circulation", 3),
        ("dose changed", 3, "circulation", 4),
        ("dose changed", 30, "circulation", 3),
        ("ended on the hour", 25, "circulation", 4), ("ended on the hour", 26, "circulation", None),
        ("nothing infused", 2, "circulation", 0),
        ("line and cuff", 2, "circulation", 0), ("low by a little", 2, "circulation", 1),
        ("in kilopascal", 2, "circulation", 0), ("pressure of an alarm", 2, "circulation", None),
        ("drip of an earlier stay", 2, "circulation", 0),
        ("other units", 2, "kidney", 1), ("other units", 2, "liver", 1), ("other units", 2, "coagulation", 2),
        ("just below", 2, "kidney", 0), ("just below", 2, "liver", 0), ("just below", 2, "coagulation", 0),
        ("unreadable unit", 2, "kidney", None), ("unreadable unit", 2, "coagulation", 4),
        ("before admission", 1.9, "liver", 4), ("before admission", 14, "liver", None),
        ("urine none", 24, "kidney", 4), ("urine none", 20.9, "kidney", None),
        ("urine none", 21, "kidney", 4),
        ("urine 504 a day", 24, "kidney", 0), ("urine 499 a day", 24, "kidney", 3),
        ("urine 202 a day", 24, "kidney", 3), ("urine 199 a day", 24, "kidney", 4),
        ("dry, then not", 40, "kidney", 3), ("dry, then not", 54, "kidney", 0),
        ("urine less than 0.3", 24, "kidney", 0),
        ("never at once", 3, "brain", 2), ("no movement charted", 1, "brain", None),
    ],
)  # fmt: skip
def test_sofa(charts: Charts, name: str, hours: float, part: str, points: int | None) -> None:
    found = score_at(charts.of(name, hours), "sofa")
    assert found.parts[part] == points
    assert (part in found.unknown) == (points is None)


@pytest.mark.parametrize(
    ("name", "hours", "dose"),
    [
        ("drip", 3, 0.1), ("drip by the minute", 3, 0.1), ("drip by the hour, no weight", 3, None),
        ("drip in milligrams", 3, 0.1), ("drip without a unit", 3, None), ("drip without a rate", 3, None),
        # 0.05 + 0.02 + 0.04 * 60 * 2.5 / 60 + 100 / 80 / 10 + 5 / 100: dobutamine is no vasopressor
        ("all drips", 3, 0.05 + 0.02 + 0.1 + 0.125 + 0.05), ("vasopressin", 3, 0.1), ("vasopressin", 9, 0.0),
        ("dose changed", 1, 0.3), ("dose changed", 2, 0.05), ("dose changed", 3, 0.05), ("saline", 3, 0.0),
        ("nothing infused", 3, None), ("drip of an earlier stay", 3, None), ("gone to the ward", 0, None),
    ],
)  # fmt: skip
def test_vasopressors(charts: Charts, name: str, hours: float, dose: float | None) -> None:
    assert score_at(charts.of(name, hours), "vasopressors").value == pytest.approx(dose)


def test_vasopressors_of_a_window_are_the_most_that_ran_at_a_full_hour_of_it(charts: Charts) -> None:
    """The rate worked out, known since that stretch ended, is 0.9 of the rate that was set."""
    assert score_at(charts.of("dose changed", 3), "vasopressors", hours=2).value == pytest.approx(0.3 * 0.9)


@pytest.mark.parametrize(
    ("name", "hours", "status"),
    [
        ("tube, then taken out", 0, "invasive"), ("tube, then taken out", 1, "supplemental oxygen"),
        ("mask, then a tube", 1, "non-invasive"), ("mask, then a tube", 4, "invasive"),
        ("mask, then a tube", 7, "invasive"),
        ("tracheostomy", 3, "tracheostomy"), ("high flow", 14, "high-flow"), ("high flow", 14.1, None),
        ("new device", 0.5, "supplemental oxygen"), ("new device", 1.5, None), ("drip", 3, None),
    ],
)  # fmt: skip
def test_ventilation(charts: Charts, name: str, hours: float, status: str | None) -> None:
    assert score_at(charts.of(name, hours), "ventilation").value == status


def test_the_ratio_of_oxygen_is_of_the_newest_arterial_gas(charts: Charts) -> None:
    assert score_at(charts.of("mask, then a tube", 8), "pf_ratio").value == 200
    assert score_at(charts.of("mask, then a tube", 6), "pf_ratio").value is None
    assert score_at(charts.of("mask, then a tube", 14), "pf_ratio").value is None


@pytest.mark.parametrize(
    ("name", "hours", "coma"),
    [
        ("never at once", 0.5, 12), ("never at once", 3, 12), ("fourteen", 1, 14), ("worse for a while", 3, 8),
        ("six hours apart", 7, 8),
        ("longer apart", 7, None), ("no movement charted", 1, None), ("tube in the mouth", 1, 15),
        ("no answer, no tube", 1, 7), ("fourteen", 24, None),
    ],
)  # fmt: skip
def test_coma(charts: Charts, name: str, hours: float, coma: int | None) -> None:
    assert score_at(charts.of(name, hours), "gcs").value == coma


@pytest.mark.parametrize(
    ("name", "score", "part", "points"),
    [
        ("38.0 in Fahrenheit", "sirs", "temperature", 0), ("38.1 in Fahrenheit", "sirs", "temperature", 1),
        ("the other unit", "sirs", "temperature", 0),
        ("Fahrenheit, no unit", "sirs", "temperature", 0), ("36.0", "sirs", "temperature", 0),
        ("35.9", "sirs", "temperature", 1), ("fever, then none", "sirs", "temperature", 1),
        ("fever, then none", "sirs", "white cells", 1), ("alarm limits", "sirs", "heart rate", 0),
        ("alarm limits", "sirs", "breathing", 0), ("just above", "sirs", "heart rate", 1),
        ("just above", "sirs", "breathing", 1), ("venous gas", "sirs", "breathing", 0),
        ("arterial gas", "sirs", "breathing", 1), ("cells by the microlitre", "sirs", "white cells", 0),
        ("bands", "sirs", "white cells", 1), ("quick", "qsofa", "breathing", 1), ("quick", "qsofa", "pressure", 1),
        ("not so quick", "qsofa", "breathing", 0), ("not so quick", "qsofa", "pressure", 0),
        ("fourteen", "qsofa", "consciousness", 1), ("fifteen", "qsofa", "consciousness", 0),
        ("quick", "qsofa", "consciousness", None), ("quick", "sirs", "white cells", None),
    ],
)  # fmt: skip
def test_criteria(charts: Charts, name: str, score: str, part: str, points: int | None) -> None:
    assert score_at(charts.of(name, 2), score).parts[part] == points


@pytest.mark.parametrize(
    ("name", "hours", "part", "stage"),
    [
        ("up by less than 0.3", 2, "creatinine", 0), ("doubled in 7 days", 2, "creatinine", 2),
        ("of urine, and direct", 2, "creatinine", 0),
        ("doubled in 8 days", 2, "creatinine", 0), ("up by 0.3, other unit", 2, "creatinine", 1),
        ("one creatinine", 2, "creatinine", None), ("old creatinine", 0, "creatinine", 3),
        ("old creatinine", 9, "creatinine", None),
        ("urine 0.5", 24, "urine", 0), ("urine less than 0.5", 6, "urine", 1), ("urine less than 0.5", 12, "urine", 2),
        ("urine less than 0.3", 12, "urine", 2), ("urine less than 0.3", 24, "urine", 3),
        ("urine none", 3, "urine", None), ("urine none", 4, "urine", 1),
        ("urine none", 6, "urine", 1), ("urine none", 12, "urine", 3), ("urine none", 30, "urine", 3),
        ("urine none", 30.1, "urine", None), ("every six hours", 5.5, "urine", 0),
        ("charted in an earlier stay", 3.5, "urine", None),
    ],
)  # fmt: skip
def test_kdigo(charts: Charts, name: str, hours: float, part: str, stage: int | None) -> None:
    assert score_at(charts.of(name, hours), "kdigo").parts[part] == stage


@pytest.mark.parametrize(
    ("name", "hours", "rate"),
    [
        ("weighed again", 3.9, None), ("weighed again", 5, 40 * 7 / 40 / 7),
        ("every six hours", 5, 340 / 80 / 7), ("weighed twice at admission", 4.9, 0.5),
        ("weighed twice at admission", 5, 1.0), ("flushed", 5, 200 / 80 / 7), ("urine 0.5", 10, 0.5),
        ("charted in an earlier stay", 3.5, None), ("drip", 10, None),
    ],
)  # fmt: skip
def test_urine(charts: Charts, name: str, hours: float, rate: float | None) -> None:
    """mL/kg/h over the time that the chartings of six hours cover: each since the one before, the first an hour."""
    assert score_at(charts.of(name, hours), "urine_output").value == pytest.approx(rate)


def test_the_weight_of_the_time_counts(charts: Charts) -> None:
    """176.37 lb are 80 kg, charted at 1 and from the beginning on; 40 kg from 4.5 on."""
    assert score_at(charts.of("weighed again", 4.2), "urine_output", hours=4).value == pytest.approx(0.5, rel=1e-4)
    assert score_at(charts.of("weighed again", 5), "urine_output", hours=4).value == pytest.approx(1.0, rel=1e-4)
    assert score_at(charts.of("weighed again", 7.5), "urine_output", hours=4).value == pytest.approx(1.0, rel=1e-4)
    late = charts.of("weighed at admission, charted late", 5)
    assert score_at(late, "urine_output").value == pytest.approx(280 / 40 / 7), "what was weighed at -1 outranks it"


@pytest.mark.parametrize(
    ("name", "hours", "stage"),
    [("filtered", 40, 3), ("filtered", 83, 3), ("filtered", 85, None), ("dialysed before", 27.9, 3),
     ("dialysed before", 28, 0), ("catheter only", 2, 0)],
)  # fmt: skip
def test_renal_replacement(charts: Charts, name: str, hours: float, stage: int | None) -> None:
    assert score_at(charts.of(name, hours), "kdigo").value == stage


@pytest.mark.parametrize(
    ("name", "hours", "points"),
    [("filtered", 40, 20), ("liver", 2.5, 26), ("liver", 0.5, None), ("other units", 2, None)],
)
def test_meld(charts: Charts, name: str, hours: float, points: int | None) -> None:
    """See test_scores for the arithmetic: on dialysis creatinine counts as 4; the lowest sodium of the day counts."""
    assert score_at(charts.of(name, hours), "meld").value == points


@pytest.mark.parametrize(
    ("name", "hours", "suspected"),
    [
        ("infected a year ago too", 6, at(0)), ("infected a year ago too", 4, None), ("infected a year ago", 6, None),
        ("infected days ago, in the admission before", 6, None),
        ("72 hours after", 73, at(0)), ("more than 72 hours after", 73, None), ("24 hours before", 25, at(0)),
        ("more than 24 hours before", 25, None), ("again after days", 50, at(0)), ("again after days", 90, at(80)),
        ("no antibiotic", 2, None), ("ordered before admission", 1, at(-5)), ("only the day known", 90, at(-12)),
        ("never cultured", 2, None), ("no drug ordered", 2, None),
    ],
)  # fmt: skip
def test_suspicion_of_infection(charts: Charts, name: str, hours: float, suspected: datetime | None) -> None:
    assert score_at(charts.of(name, hours), "suspicion_of_infection").value == suspected


@pytest.mark.parametrize(
    ("name", "hours", "sepsis"),
    [
        ("septic then", 2, True), ("septic then", 90, True), ("failing 48 hours before", 2, True),
        ("failing earlier still", 2, None), ("failing later", 2, None), ("failing later", 70, None),
        ("wholly charted", 20, False), ("no antibiotic", 2, False), ("infected a year ago", 6, False),
        ("never cultured", 2, None), ("no drug ordered", 2, None),
    ],
)  # fmt: skip
def test_sepsis(charts: Charts, name: str, hours: float, sepsis: bool | None) -> None:
    assert score_at(charts.of(name, hours), "sepsis3").value is sepsis
