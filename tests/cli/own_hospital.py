"""An own hospital: the export of three tables of a house that speaks German, and the spec that says what plays what."""

from __future__ import annotations

import csv
import random
from datetime import datetime, timedelta
from pathlib import Path

SPEC = """
[source]
name = "haus"
title = "Haus"
sensitivity = "synthetic"

[tables.faelle]
kind = "Fall"
path = "faelle"
description = "Faelle: stationaer oder ambulant, von der Aufnahme bis zur Entlassung."
key = ["fall"]
subject = "patient"
encounter = "fall"
event_time = "aufnahme"
available_at = "aufnahme"
[tables.faelle.columns]
patient = "int"
fall = "int"
art = "text"
aufnahme = "time"
entlassung = "time"
[tables.faelle.late]
entlassung = "entlassung"

[tables.labor]
kind = "Labor"
path = "labor"
subject = "patient"
encounter = "fall"
event_time = "abnahme"
available_at = "befund"
label = "test"
value = "wert"
unit = "einheit"
[tables.labor.columns]
patient = "int"
fall = "int"
abnahme = "time"
befund = "time"
test = "text"
wert = "float"
einheit = "text"
von = "float"
bis = "float"
[tables.labor.late]
"wert, einheit, von, bis, befund" = "befund"

[tables.verordnungen]
kind = "Verordnung"
path = "verordnungen"
subject = "patient"
encounter = "fall"
event_time = "beginn"
available_at = "beginn"
label = "arznei"
[tables.verordnungen.columns]
patient = "int"
fall = "int"
beginn = "time"
arznei = "text"

[roles.admission]
table = "faelle"
id = "fall"
start = "aufnahme"
ends = ["entlassung"]
kind = "art"
where = [{ art = ["stationaer"] }]
no_stays = ["ambulant"]

[roles.lab]
table = "labor"
label = "test"
time = "abnahme"
value = "wert"
unit = "einheit"
low = "von"
high = "bis"

[roles.order]
table = "verordnungen"
label = "arznei"
time = "beginn"
"""
TESTS = {"Kreatinin": (0.6, 1.2, "mg/dl"), "Kalium": (3.5, 5.1, "mmol/l"), "Haemoglobin": (12.0, 16.0, "g/dl")}
DRUGS = ("Ramipril", "Metoprolol", "Pantoprazol", "Enoxaparin", "Torasemid")
PATIENTS = 40


def write_hospital(folder: Path, *, patients: int = PATIENTS, seed: int = 4) -> Path:
    """Write the three tables and the spec; return the spec's file."""
    chance = random.Random(seed)
    cases, results, orders = [], [], []
    for patient in range(1, patients + 1):
        start = datetime(2021, 1, 1) + timedelta(days=chance.randrange(300), hours=chance.randrange(24), minutes=7)
        for visit, kind in enumerate(("ambulant", "stationaer", "stationaer")):
            case, days = patient * 10 + visit, 0.2 if kind == "ambulant" else chance.choice((3, 5, 9))
            end = start + timedelta(days=days)
            cases.append((patient, case, kind, start, end))
            moment = start + timedelta(hours=2)
            while moment < end:
                for name, (low, high, unit) in TESTS.items():
                    value = round(chance.uniform(low * 0.8, high * 1.2), 1)
                    results.append((patient, case, moment, moment + timedelta(hours=3), name, value, unit, low, high))
                orders.append((patient, case, moment + timedelta(minutes=50), chance.choice(DRUGS)))
                moment += timedelta(hours=22, minutes=13)
            start = end + timedelta(days=chance.randrange(10, 60))
    _write(folder / "faelle.csv", "patient fall art aufnahme entlassung", cases)
    _write(folder / "labor.csv", "patient fall abnahme befund test wert einheit von bis", results)
    _write(folder / "verordnungen.csv", "patient fall beginn arznei", orders)
    spec = folder.parent / "haus.toml"
    spec.write_text(SPEC, encoding="utf-8")
    return spec


def _write(file: Path, header: str, rows: list[tuple[object, ...]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding="utf-8") as lines:
        writer = csv.writer(lines)
        writer.writerow(header.split())
        writer.writerows(rows)
