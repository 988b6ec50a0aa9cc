"""What the hospital knows: analytes, conditions, drugs, cultures, procedures, units, read from ``data/*.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from wardround.core import content_hash
from wardround.synth.output import quoted

Effect = tuple[str, float, str, float]
"""(op "+" or "x", amount, shape, hours)."""
Codes = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Analyte:
    """A laboratory item or vital sign. Pairs are (male, female); ``label`` and ``unit`` are ready as CSV cells."""

    key: str
    itemid: int
    label: str
    unit: str
    fluid: str
    category: str
    low: tuple[str, str]
    high: tuple[str, str]
    base: tuple[float, float]
    spread: float
    cv: float
    digits: int
    floor: float
    ceiling: float
    soft: float
    grades: tuple[str, ...]
    derived: bool
    below: float | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LabPanel:
    """Analytes drawn together; ``minutes`` from draw to result."""

    key: str
    members: tuple[str, ...]
    minutes: tuple[float, float]
    tube: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Drug:
    """One orderable product. ``kind``: scheduled, prn, once, infusion, sliding, replacement, fluid or flush."""

    key: str
    name: str
    dose: tuple[float, ...]
    unit: str
    route: str
    freq: str
    form: str
    per: float
    strength: str
    base: str
    kinds: frozenset[str]
    kind: str
    instead: str
    therapy: str
    home: str
    code: str
    gsn: str
    ndc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A disease and everything that follows from it; see ``data/conditions`` for the meaning of each field."""

    key: str
    kind: str
    title: str
    icd9: Codes
    icd10: Codes
    severe9: Codes
    severe10: Codes
    labs: Mapping[str, Effect]
    vitals: Mapping[str, Effect]
    more: Mapping[str, Any]

    def get(self, name: str, default: Any = ()) -> Any:
        """Return any other field of the data file."""
        return self.more.get(name, default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Catalog:
    """All of it, loaded once. ``sha256`` names the data files' content."""

    analytes: Mapping[str, Analyte]
    vitals: Mapping[str, Analyte]
    panels: Mapping[str, LabPanel]
    conditions: Mapping[str, Condition]
    drugs: Mapping[str, Drug]
    procedures: Mapping[str, Mapping[str, Any]]
    cultures: Mapping[str, Any]
    units: Mapping[str, list[str]]
    services: Mapping[str, str]
    items: Mapping[str, Any]
    people: Mapping[str, Any]
    notes: Mapping[str, Any]
    sha256: str


def _pair(value: Any) -> tuple[Any, Any]:
    return (value[0], value[1]) if isinstance(value, list) else (value, value)


def _analyte(key: str, row: Mapping[str, Any], group: Mapping[str, Any]) -> Analyte:
    base = _pair(row["base"])
    low, high = _pair(row.get("low", "")), _pair(row.get("high", ""))
    return Analyte(
        key=key,
        itemid=row.get("id", 0),
        label=quoted(row.get("label", key)),
        unit=quoted(row.get("unit", "")),
        fluid=group.get("fluid", "Blood"),
        category=group.get("category", ""),
        low=(str(low[0]), str(low[1])),
        high=(str(high[0]), str(high[1])),
        base=(float(base[0]), float(base[1])),
        spread=row.get("spread", 0.0),
        cv=row.get("cv", 0.0),
        digits=row.get("digits", 0),
        floor=row.get("floor", 0.0),
        ceiling=row.get("ceiling", 1e9),
        soft=row.get("soft", 0.0),
        grades=tuple(row.get("grades", ())),
        derived=row.get("derived", False),
        below=row.get("below"),
        note=quoted(row.get("note", "")),
    )


def _drug(key: str, row: Mapping[str, Any]) -> Drug:
    digest = content_hash(key)
    letters = "".join(c for c in row["name"].upper() if c.isalpha())
    frequency = row["freq"]
    return Drug(
        key=key,
        name=quoted(row["name"]),
        dose=tuple(row["dose"]),
        unit=row["unit"],
        route=row["route"],
        freq=quoted(frequency),
        form=row["form"],
        per=float(row["per"]),
        strength=quoted(row["strength"]),
        base=quoted(row.get("base", "")),
        kinds=frozenset(row["class"]),
        kind=row.get("kind", "prn" if frequency.endswith("PRN") else "scheduled"),
        instead=row.get("instead", ""),
        therapy=quoted(row.get("therapy", "")),
        home=quoted(row.get("home", "")),
        code=f"{letters[:4]}{int(digest[:4], 16) % 90 + 10}",
        gsn=f"{int(digest[4:12], 16) % 80000 + 1000:06d}",
        ndc=f"99{int(digest[12:20], 16) % 1_000_000_000:09d}",
    )


def _condition(key: str, row: Mapping[str, Any]) -> Condition:
    codes = {name: tuple((c, t) for c, t in row.get(name, ())) for name in ("icd9", "icd10", "severe9", "severe10")}
    known = {"kind", "title", "labs", "vitals", *codes}
    return Condition(
        key=key,
        kind=row["kind"],
        title=row["title"],
        labs={name: tuple(effect) for name, effect in row.get("labs", {}).items()},
        vitals={name: tuple(effect) for name, effect in row.get("vitals", {}).items()},
        more={name: value for name, value in row.items() if name not in known},
        **codes,
    )


@cache
def load_catalog() -> Catalog:
    """Read every data file of the package."""
    folder = resources.files("wardround.synth").joinpath("data")
    texts = {
        path.name: path.read_text(encoding="utf-8")
        for place in (folder, folder.joinpath("conditions"))
        for path in sorted(place.iterdir(), key=lambda entry: entry.name)
        if path.name.endswith(".toml")
    }
    files = {name.removesuffix(".toml"): tomllib.loads(text) for name, text in texts.items()}
    labs, vitals = files.pop("labs"), files.pop("vitals")["vitals"]
    shared = {name: files.pop(name) for name in ("panels", "drugs", "microbiology", "wards", "procedures")}
    items, people, notes = (files.pop(name, {}) for name in ("items", "people", "notes"))
    groups = ((group, key, row) for group in labs.values() for key, row in group.items() if isinstance(row, dict))
    return Catalog(
        analytes={key: _analyte(key, row, group) for group, key, row in groups},
        vitals={key: _analyte(key, row, {}) for key, row in vitals.items()},
        panels={
            key: LabPanel(
                key=key, members=tuple(row["members"]), minutes=tuple(row["minutes"]), tube=row.get("tube", "chemistry")
            )
            for key, row in shared["panels"].items()
        },
        conditions={key: _condition(key, row) for name in sorted(files) for key, row in files[name].items()},
        drugs={key: _drug(key, row) for key, row in shared["drugs"]["drugs"].items()},
        procedures=shared["procedures"]["procedures"],
        cultures=shared["microbiology"],
        units=shared["wards"]["units"],
        services=shared["wards"]["services"],
        items=items,
        people=people,
        notes=notes,
        sha256=content_hash(texts),
    )
