"""One invented hospital, traps planted, in six forms: its stores, and for every subject a moment that matters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from wardround.records import IngestSettings, SourceSpec, Store, ingest, load_source_spec
from wardround.synth import DIALECTS, plant_traps, synthesize, time_zone_of, write_dialect
from wardround.synth.dialects.source import HospitalTables, minutes_between, moment

PATIENTS = 15


@dataclass(frozen=True, slots=True)
class Invented:
    """The folders of all forms, their stores, and moments by subject."""

    folder: Path
    moments: Mapping[int, datetime]

    def raw(self, source: str) -> Path:
        """Where a form's files lie."""
        return self.folder / source

    def store(self, source: str) -> Store:
        """The store of a form, as the source's own spec makes it."""
        return Store.open(self.folder / f"{source}-store")

    def samples(self, source: str) -> list[tuple[int, datetime]]:
        """Moments to audit at; of a source that invents its days, by what its store says of stays."""
        if source == "eicu":
            return _unit_moments(self.store(source))
        return sorted(self.moments.items())


def invent(folder: Path) -> None:
    """Make the hospital and its six stores."""
    synthesize(folder / "plain", patients=PATIENTS, seed=3, compress=False, decoys=False)
    trapped = plant_traps(folder / "plain", folder / "trapped")
    for source in DIALECTS:
        write_dialect(source, trapped, folder / source)
        ingest(source, folder / source, folder / f"{source}-store", settings=settings_for(source))


def settings_for(source: str) -> IngestSettings:
    """Return the settings that a form's files are ingested with."""
    return IngestSettings(time_zone=time_zone_of(source))


def open_invented(folder: Path) -> Invented:
    """Return what was made in a folder."""
    return Invented(folder, _moments(HospitalTables(folder / "trapped")))


def _moments(hospital: HospitalTables) -> dict[int, datetime]:
    """Of each person in turn: just after the registration, half of the last stay, before leaving; in an infusion."""
    last = {row["subject_id"]: row for row in sorted(hospital.rows("admissions"), key=lambda row: row["admittime"])}
    infused: dict[str, datetime] = {}
    for row in hospital.rows("inputevents"):
        if row["rate"] and minutes_between(row["starttime"], row["endtime"]) > 60:
            infused[row["subject_id"]] = moment(row["starttime"]) + timedelta(minutes=30)
    found = {}
    for place, (subject, row) in enumerate(sorted(last.items())):
        start, end = moment(row["admittime"]), moment(row["deathtime"] or row["dischtime"])
        half = start + (end - start) / 2
        arrived = moment(row["edregtime"]) + timedelta(minutes=2) if row["edregtime"] else half
        leaving = end - timedelta(minutes=20)
        found[int(subject)] = (
            leaving if row["deathtime"] else infused.get(subject) or (arrived, half, leaving, half)[place % 4]
        )
    return found


def _unit_moments(store: Store) -> list[tuple[int, datetime]]:
    found = []
    for place, subject in enumerate(store.subjects.tolist()):
        stays = store.rows(subject, "hospital_stay").to_pylist()
        stay = stays[place % len(stays)]
        end = stay["deathtime"] or stay["hospitaldischargetime"] or stay["hospitaladmittime"]
        shares = (0.1, 0.5, 0.95)
        away = (end - stay["hospitaladmittime"]) * shares[place % 3]
        found.append((subject, stay["hospitaladmittime"] + max(away, timedelta(hours=2))))
    return found


def altered(source: str, folder: Path, changes: Mapping[str, str]) -> SourceSpec:
    """Return a source's spec with parts of its text exchanged; each part must be there."""
    folder.mkdir(parents=True)
    left = dict(changes)
    for name, text in load_source_spec(source).files.items():
        for old, new in changes.items():
            if old in text:
                text = text.replace(old, new)
                left.pop(old, None)
        (folder / name).write_text(text, encoding="utf-8")
    assert not left, f"not in the spec of {source}: {list(left)}"
    return load_source_spec(folder)
