"""The tables that only name things: d_*, provider, caregiver. Made from the catalog, so that every code has a name."""

from __future__ import annotations

from collections.abc import Iterable

from wardround.synth.catalog import Catalog
from wardround.synth.coding import extra_codes
from wardround.synth.output import quoted
from wardround.synth.person import caregivers, providers

_HCPCS = (
    ("G0378", "", "Hospital observation service, per hour", "Hospital observation per hr"),
    ("93454", "3", "Catheter placement in coronary artery(s) for coronary angiography", "Cardiovascular"),
    ("43235", "3", "Esophagogastroduodenoscopy, diagnostic", "Digestive system"),
    ("27447", "3", "Arthroplasty, knee, total", "Musculoskeletal system"),
    ("47562", "3", "Laparoscopy, surgical; cholecystectomy", "Digestive system"),
)


def _diagnoses(catalog: Catalog) -> Iterable[tuple[str, int, str]]:
    for condition in catalog.conditions.values():
        for version, codes in ((9, condition.icd9 + condition.severe9), (10, condition.icd10 + condition.severe10)):
            yield from ((code, version, title) for code, title in codes)
    yield from extra_codes()


def _procedures(catalog: Catalog) -> Iterable[tuple[str, int, str]]:
    for row in catalog.procedures.values():
        yield (*_split(row["icd9"], 9),)
        yield (*_split(row["icd10"], 10),)


def _split(pair: list[str], version: int) -> tuple[str, int, str]:
    return pair[0], version, pair[1]


def dictionary_lines(catalog: Catalog) -> dict[str, list[str]]:
    """Return the lines of every dictionary table, sorted by key."""
    labs = sorted(catalog.analytes.values(), key=lambda analyte: analyte.itemid)
    return {
        "d_hcpcs": [",".join(quoted(cell) for cell in row) + "\n" for row in sorted(_HCPCS)],
        "d_icd_diagnoses": _code_lines(_diagnoses(catalog)),
        "d_icd_procedures": _code_lines(_procedures(catalog)),
        "d_labitems": [f"{a.itemid},{a.label},{a.fluid},{a.category}\n" for a in labs],
        "d_items": _item_lines(catalog),
        "provider": [f"{code}\n" for code in providers()],
        "caregiver": [f"{code}\n" for code in caregivers()],
    }


def _code_lines(rows: Iterable[tuple[str, int, str]]) -> list[str]:
    return [f"{code},{version},{quoted(title)}\n" for code, version, title in sorted(set(rows))]


def _item_lines(catalog: Catalog) -> list[str]:
    lines = []
    for linked, rows in catalog.items.items():
        for row in rows.values():
            if isinstance(row, dict) and "id" in row:
                cells = (row["label"], row.get("short", row["label"]), linked, row.get("category", ""))
                numbers = (row.get("unit", ""), row.get("type", "Numeric"), row.get("low", ""), row.get("high", ""))
                lines.append((row["id"], ",".join(quoted(str(cell)) for cell in (row["id"], *cells, *numbers)) + "\n"))
    return [line for _, line in sorted(lines)]
