"""Makes a small invented hospital whose export looks nothing like ours: German names, semicolons, decimal commas,
Latin letters of one byte, subjects named by text, days written dd.mm.yyyy.

    python examples/own_hospital/make_hospital.py hospital
"""

from __future__ import annotations

import csv
import random
import sys
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from pathlib import Path

WARDS = ("Innere Medizin", "Chirurgie", "Kardiologie", "Geriatrie", "Gefäßchirurgie")
LABS = {
    "Hämoglobin": ("g/dl", 8.0, 16.0),
    "Kreatinin": ("mg/dl", 0.5, 4.0),
    "Kalium": ("mmol/l", 3.0, 5.9),
    "Natrium": ("mmol/l", 128.0, 148.0),
    "CRP": ("mg/l", 1.0, 180.0),
    "Leukozyten": ("/nl", 3.0, 19.0),
}
DRUGS = ("Metoprolol", "Furosemid", "Pantoprazol", "Heparin", "Ceftriaxon", "Paracetamol", "Ramipril", "Insulin")
START = datetime(2140, 1, 4, 6, 30)


def main(folder: Path, people: int = 40, seed: int = 9) -> None:
    """Write Aufenthalte.csv, Laborwerte.csv and Verordnungen.csv."""
    folder.mkdir(parents=True, exist_ok=True)
    dice = random.Random(seed)
    stays: list[Sequence[object]] = []
    labs: list[Sequence[object]] = []
    drugs: list[Sequence[object]] = []
    for number in range(people):
        patient = f"P-{number:03d}/{dice.randrange(10, 99)}"
        admitted = START + timedelta(days=dice.randrange(900), minutes=dice.randrange(900))
        for _ in range(dice.choice((1, 1, 2, 3))):
            discharged = admitted + timedelta(days=dice.randrange(2, 12), minutes=dice.randrange(600))
            stay = f"F{len(stays):05d}"
            how = dice.choice(("nach Hause", "Pflegeheim", "verlegt"))
            stays.append((stay, patient, _time(admitted), _time(discharged), dice.choice(WARDS), how))
            labs += _labs(dice, stay, patient, admitted, discharged, len(labs))
            drugs += _drugs(dice, stay, patient, admitted, discharged, len(drugs))
            admitted = discharged + timedelta(days=dice.randrange(9, 200), minutes=dice.randrange(600))
    _write(folder / "Aufenthalte.csv", "Fallnummer;Patient;Aufnahme;Entlassung;Station;Entlassungsart", stays)
    _write(folder / "Laborwerte.csv", "Labornummer;Patient;Fallnummer;Abnahme;Befund am;Analyt;Wert;Einheit", labs)
    _write(folder / "Verordnungen.csv", "Verordnung;Patient;Fallnummer;Angeordnet;Wirkstoff;Dosis in mg", drugs)


def _labs(
    dice: random.Random, stay: str, patient: str, start: datetime, end: datetime, first: int
) -> Iterable[Sequence[object]]:
    number = first
    drawn = start + timedelta(minutes=dice.randrange(20, 120))
    while drawn < end:
        for name in dice.sample(sorted(LABS), 3):
            unit, low, high = LABS[name]
            value = f"{dice.uniform(low, high):.1f}".replace(".", ",")
            resulted = drawn + timedelta(minutes=dice.randrange(30, 180))
            yield f"{number:07d}", patient, stay, _time(drawn), _time(resulted), name, value, unit
            number += 1
        drawn += timedelta(hours=dice.randrange(10, 30))


def _drugs(
    dice: random.Random, stay: str, patient: str, start: datetime, end: datetime, first: int
) -> Iterable[Sequence[object]]:
    ordered = start + timedelta(minutes=dice.randrange(30, 200))
    number = first
    while ordered < end:
        dose = f"{dice.choice((2.5, 5, 10, 40, 100)):.1f}".replace(".", ",")
        yield f"V{number:06d}", patient, stay, _time(ordered), dice.choice(DRUGS), dose
        number += 1
        ordered += timedelta(hours=dice.randrange(8, 40))


def _time(moment: datetime) -> str:
    return f"{moment:%d.%m.%Y %H:%M}"


def _write(path: Path, header: str, rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", encoding="cp1252", newline="") as target:
        writer = csv.writer(target, delimiter=";", lineterminator="\r\n")
        writer.writerow(header.split(";"))
        writer.writerows(rows)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
