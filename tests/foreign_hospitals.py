"""Two hospitals of nobody's: German names, monthly files, JSON lines, merged patients, tables without keys.

``kreisklinik``: tables with numbers, a row for each case. ``stadtspital``: texts as keys, movements instead of cases
(an end is a row, there is no table of discharges), rows that say only which stay they belong to. How a stay ends is
drawn by a fair coin, so that nothing on an honest chart foretells it.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

Rows = list[dict[str, Any]]
FOREIGN = Path(__file__).parent / "foreign"
"""Their specs, and what a second person says could be known when."""
HOUR = timedelta(hours=1)
UNITS = ("Innere Medizin", "Chirurgie", "Geriatrie", "Neurologie")
GOING = ("nach Hause", "Pflegeheim", "Reha")
TESTS = ("Kreatinin", "Kalium", "Laktat")
DRUGS = ("Ramipril", "Pantoprazol", "Torasemid", "Enoxaparin")


def _stays(chance: random.Random, patients: int) -> Rows:
    """Draw stays of two a person: what every table is made from. The end depends on nothing that comes before."""
    stays: Rows = []
    for patient in range(1, patients + 1):
        arrival = datetime(2021, 1, 3) + timedelta(days=chance.randrange(60), hours=chance.randrange(24), minutes=11)
        for visit in range(2):
            days, died = chance.choice((2, 3, 4, 8, 9, 10)), visit == 1 and chance.random() < 0.5
            stays.append(
                {
                    "patient": patient,
                    "case": 7000 + patient * 10 + visit,
                    "arrival": arrival,
                    "admission": arrival + 3 * HOUR,
                    "end": arrival + timedelta(days=days, hours=5),
                    "days": days,
                    "died": died,
                    "unit": chance.choice(UNITS),
                    "last_unit": chance.choice(UNITS),
                    "going": "verstorben" if died else chance.choice(GOING),
                }
            )
            arrival = stays[-1]["end"] + timedelta(days=chance.randrange(6, 20))
    return stays


def kreisklinik(folder: Path, *, patients: int = 24, seed: int = 5) -> Path:
    """Write the first hospital's files; return their folder."""
    chance, number = random.Random(seed), iter(range(10**6))
    stays = _stays(chance, patients)
    people: Rows = [
        {
            "PATNR": patient,
            "Geburtsjahr": 1930 + patient,
            "Geschlecht": "wm"[patient % 2],
            "Verstorben am": next(
                (f"{s['end']:%d.%m.%Y %H:%M}" for s in stays if s["patient"] == patient and s["died"]), ""
            ),
        }
        for patient in range(1, patients + 1)
    ]
    cases: Rows = []
    visits: Rows = []
    results: dict[str, Rows] = {}
    orders: Rows = []
    reports: Rows = []
    moves: Rows = []
    vitals: Rows = []
    for stay in stays:
        own = {"PATNR": stay["patient"], "Fallnr": stay["case"]}
        cases.append(
            own
            | {
                "Aufnahme": f"{stay['admission']:%d.%m.%Y %H:%M}",
                "Aufnahmeart": chance.choice(("elektiv", "Notfall")),
                "Entlassung": f"{stay['end']:%d.%m.%Y %H:%M}",
                "Fachabteilung": stay["last_unit"],
                "Verweildauer": stay["days"],
                "Entlassungsart": stay["going"],
            }
        )
        visits.append(
            own
            | {
                "NA_Nr": next(number) + 500,
                "Ankunft": f"{stay['arrival']:%d.%m.%Y %H:%M}",
                "Abgang": f"{stay['admission']:%d.%m.%Y %H:%M}",
                "Triage": chance.choice("ABC"),
                "Verbleib": chance.choice(("Station", "Intensiv")),
            }
        )
        half = stay["admission"] + (stay["end"] - stay["admission"]) * chance.uniform(0.05, 0.95)
        for begin, end, unit, after in (
            (stay["admission"], half, stay["unit"], stay["last_unit"]),
            (half, stay["end"], stay["last_unit"], stay["going"]),
        ):
            move = {"Von": f"{begin:%d.%m.%Y %H:%M}", "Bis": f"{end:%d.%m.%Y %H:%M}", "Station": unit, "Ziel": after}
            moves.append(own | move)
        moment = stay["admission"] + 2 * HOUR
        while moment < stay["end"] - 8 * HOUR:
            for test in TESTS:
                results.setdefault(f"{moment:%Y_%m}", []).append(
                    own
                    | {
                        "Labornr": next(number) + 10_000,
                        "Abnahme": f"{moment:%d.%m.%Y %H:%M}",
                        "Befund am": "" if chance.random() < 0.02 else f"{moment + 5 * HOUR:%d.%m.%Y %H:%M}",
                        "Analyt": test,
                        "Wert": f"{chance.uniform(0.5, 6):.2f}".replace(".", ","),
                        "Einheit": "mmol/l",
                    }
                )
            stop = min(moment + chance.choice((20, 40)) * HOUR, stay["end"])
            orders.append(
                {
                    "vo_nr": next(number) + 90_000,
                    "patnr": stay["patient"],
                    "fallnr": stay["case"],
                    "angeordnet": f"{moment + HOUR:%d.%m.%Y %H:%M}",
                    "beendet": f"{stop:%d.%m.%Y %H:%M}",
                    "arznei": chance.choice(DRUGS),
                    "status": chance.choice(("abgesetzt", "gegeben", "umgestellt")),
                }
            )
            vitals.append(own | {"Zeit": f"{moment + 7 * HOUR:%d.%m.%Y %H:%M}", "Puls": chance.randrange(55, 120)})
            moment += 13 * HOUR
        taken = stay["admission"] + 6 * HOUR
        reports.append(
            own
            | {
                "Bericht": next(number) + 70_000,
                "Untersucht": f"{taken:%d.%m.%Y %H:%M}",
                "Befundet": f"{taken + 9 * HOUR:%d.%m.%Y %H:%M}",
                "Art": "Thorax",
                "Befundtext": f"Kein Erguss; Nr. {next(number)}.",
            }
        )
    _csv(folder / "Patienten.csv", people)
    _csv(folder / "Faelle.csv", cases)
    _csv(folder / "Notaufnahme.csv", visits)
    _csv(folder / "Verlegungen.csv", moves)
    _csv(folder / "Vitalwerte.csv", vitals)
    _csv(folder / "Berichte.csv", reports)
    _csv(folder / "Zusammenfuehrungen.csv", [{"Alte_PATNR": 901, "PATNR": 3, "Am": "01.02.2021 08:00"}])
    for month, rows in results.items():
        _csv(folder / f"Labor_{month}.csv", rows)
    _json_lines(folder / "verordnungen.jsonl", orders)
    return folder


def stadtspital(folder: Path, *, patients: int = 24, seed: int = 6) -> Path:
    """Write the second hospital's files; return their folder."""
    chance, months = random.Random(seed), ("jan", "feb", "mrz", "apr", "mai", "jun")
    people: Rows = []
    stays: Rows = []
    moves: Rows = []
    values: dict[str, Rows] = {}
    orders: Rows = []
    for stay in _stays(chance, patients):
        pid, number = f"P-{stay['patient']:03}", f"A{stay['case']}"
        if stay["case"] % 10 == 0:
            people.append({"pid": pid, "jahrgang": 1940 + stay["patient"], "fuehrende_pid": None})
        if stay["died"]:
            people[-1]["todestag"] = f"{stay['end']:%Y-%m-%d}"
        stays.append({"aufenthalt": number, "pid": pid, "beginn": f"{stay['admission']:%Y-%m-%dT%H:%M}"})
        half = stay["admission"] + (stay["end"] - stay["admission"]) * chance.uniform(0.05, 0.95)
        for at, what, unit, to in (
            (stay["admission"], "Aufnahme", stay["unit"], ""),
            (half, "Verlegung", stay["unit"], stay["last_unit"]),
            (stay["end"], "Entlassung", stay["last_unit"], stay["going"]),
        ):
            move = {"zeit": f"{at:%Y-%m-%dT%H:%M}", "art": what, "station": unit, "nach": to}
            moves.append({"aufenthalt": number, "pid": pid} | move)
        moment = stay["admission"] + HOUR
        while moment < stay["end"] - 9 * HOUR:
            for test in TESTS:
                values.setdefault(months[min(moment.month, 6) - 1], []).append(
                    {
                        "aufenthalt": number,
                        "entnommen": f"{moment:%Y-%m-%dT%H:%M}",
                        "freigegeben": f"{moment + 4 * HOUR:%Y-%m-%dT%H:%M}",
                        "parameter": test,
                        "ergebnis": f"{chance.uniform(1, 9):.1f}",
                    }
                )
            orders.append(
                {
                    "nr": f"V{len(orders):05}",
                    "aufenthalt": number,
                    "arznei": {"name": chance.choice(DRUGS), "dosis": chance.choice((5, 7.5, 40))},
                    "zeiten": {"von": f"{moment + HOUR:%Y-%m-%dT%H:%M}", "bis": f"{moment + 21 * HOUR:%Y-%m-%dT%H:%M}"},
                }
            )
            moment += 11 * HOUR
    people.append({"pid": "P-900", "jahrgang": 1944, "fuehrende_pid": "P-004"})
    _json_lines(folder / "personen.jsonl", people)
    _csv(folder / "aufenthalte.csv", stays, delimiter=",", encoding="utf-8")
    _csv(folder / "bewegungen.csv", moves, delimiter=",", encoding="utf-8")
    for month, rows in values.items():
        _csv(folder / f"werte-{month}.csv", rows, delimiter=",", encoding="utf-8")
    _json_lines(folder / "anordnungen.jsonl", orders)
    return folder


def _csv(file: Path, rows: Sequence[Mapping[str, Any]], delimiter: str = ";", encoding: str = "cp1252") -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("w", newline="", encoding=encoding) as lines:
        writer = csv.DictWriter(lines, list(rows[0]), delimiter=delimiter)
        writer.writeheader()
        writer.writerows(rows)


def _json_lines(file: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
