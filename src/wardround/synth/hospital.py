"""Making the hospital: subjects in batches, on one or more processes, written in order with flat memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from wardround.core import Progress, Reporter, UserError, silent
from wardround.core.executors import starting
from wardround.synth.catalog import Catalog, load_catalog
from wardround.synth.coding import extra_codes
from wardround.synth.output import MODULES, Files, Packed, TableLines, pack, quoted
from wardround.synth.patient_life import Modules, write_subject
from wardround.synth.person import MOST_PATIENTS, caregivers, providers

# The tables that only name things: d_*, provider, caregiver. Made from the catalog, so that every code has a name.


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


def dictionary_lines(catalog: Catalog) -> dict[str, list[str]]:
    """Return the lines of every dictionary table, sorted by key."""
    labs = sorted(catalog.analytes.values(), key=lambda analyte: analyte.itemid)
    return {
        "d_hcpcs": [",".join(quoted(cell) for cell in row) + "\n" for row in sorted(_HCPCS)],
        "d_icd_diagnoses": _code_lines(_diagnoses(catalog)),
        "d_icd_procedures": _code_lines(
            (row[key][0], version, row[key][1])
            for row in catalog.procedures.values()
            for key, version in (("icd9", 9), ("icd10", 10))
        ),
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


# Subjects in batches.


BATCH = 40
"""Subjects per batch; part of the file format, because a batch is one gzip member."""
MANIFEST = "synth_manifest.json"
SCHEMA = 1
RARER, DECOYS = "rarer-courses", "decoys"
"""The names of optional parts in a manifest's modules."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SynthManifest:
    """What was made. ``rows``, ``bytes`` (before compression) and ``crc32`` (of the file) are by table.

    On disk ``complete`` is false until everything is written.
    """

    schema: int
    complete: bool
    patients: int
    seed: int
    modules: tuple[str, ...]
    compress: bool
    catalog_sha256: str
    rows: dict[str, int]
    bytes: dict[str, int]
    crc32: dict[str, str]


def _write_manifest(folder: Path, content: dict[str, Any]) -> None:
    text = json.dumps(content, indent=1, sort_keys=True) + "\n"
    (folder / MANIFEST).write_text(text, encoding="utf-8")


def _claim(folder: Path) -> None:
    """Make the folder ours: new, empty, or an earlier synthetic hospital, whose tables are removed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        strangers = any(folder.iterdir()) and not (folder / MANIFEST).exists()
        if strangers:
            raise UserError(f"{str(folder)!r} is not empty and holds no synthetic hospital; choose another folder")
        _write_manifest(folder, {"schema": SCHEMA, "complete": False})
        for table, module in MODULES.items():
            for ending in (".csv", ".csv.gz"):
                (folder / module / f"{table}{ending}").unlink(missing_ok=True)
    except OSError as error:
        raise UserError(f"cannot write to {str(folder)!r}: {error.strerror}; choose another folder") from error


def make_batch(number: int, *, patients: int, seed: int, modules: Modules, compress: bool) -> Packed:
    """Make batch ``number``: the packed lines of its subjects."""
    lines, catalog = TableLines(), load_catalog()
    for index in range(number * BATCH, min(patients, (number + 1) * BATCH)):
        write_subject(lines, seed, index, catalog, modules)
    return pack(lines.tables, compress=compress)


def _batches(work: partial[Packed], count: int, workers: int) -> Iterator[Packed]:
    """Yield all batches in order, never holding more than a few per process."""
    if workers == 1:
        yield from map(work, range(count))
        return
    waiting: list[Future[Packed]] = []
    with ProcessPoolExecutor(workers, mp_context=starting(work)) as pool:
        for number in range(count):
            waiting.append(pool.submit(work, number))
            if len(waiting) > 2 * workers:
                yield waiting.pop(0).result()
        for future in waiting:
            yield future.result()


def synthesize(
    folder: Path | str,
    *,
    patients: int,
    seed: int,
    workers: int = 1,
    compress: bool = True,
    icu: bool = True,
    ed: bool = True,
    notes: bool = True,
    films: bool = False,
    rarer: bool = False,
    decoys: bool = True,
    report: Reporter = silent,
) -> SynthManifest:
    """Write a MIMIC-IV shaped hospital of invented subjects below ``folder`` and return its manifest.

    The files are the same bytes for the same seed, number of patients and modules, whatever ``workers``. Subject ``i``
    is the same in a smaller and a larger hospital of that seed. ``films`` adds rows about chest radiographs, and
    :func:`wardround.synth.radiographs.write_films` draws them. ``rarer`` adds courses that a small hospital lacks
    (:mod:`wardround.synth.planning`). ``decoys`` adds rows that only look like an answer
    (:mod:`wardround.synth.patient_life`). With ``workers`` above 1, call it below
    ``if __name__ == "__main__"``: processes are spawned.
    Raises UserError when the folder holds something else, cannot be written, or the numbers make no sense.
    """
    if not 1 <= patients <= MOST_PATIENTS or workers < 1:
        raise UserError(f"patients must be 1 to {MOST_PATIENTS:,} and workers at least 1, not {patients} and {workers}")
    if films and not notes:
        raise UserError("films come with the reports about them: leave out --no-notes")
    folder = Path(folder)
    wanted = {"hosp": True, "icu": icu, "ed": ed, "note": notes, "cxr": films}
    chosen = {name for name, parts in wanted.items() if parts}
    modules = Modules(icu=icu, ed=ed, notes=notes, films=films, rarer=rarer, decoys=decoys)
    parts = ({RARER} if rarer else set()) | ({DECOYS} if decoys else set())
    work = partial(make_batch, patients=patients, seed=seed, modules=modules, compress=compress)
    count = -(-patients // BATCH)
    _claim(folder)
    with Files(folder, chosen, compress=compress) as files:
        files.append(pack(dictionary_lines(load_catalog()), compress=compress))
        for number, packed in enumerate(_batches(work, count, workers), 1):
            files.append(packed)
            report(
                Progress(
                    label="synthetic hospital", done=min(number * BATCH, patients), total=patients, unit="patients"
                )
            )
        manifest = SynthManifest(
            schema=SCHEMA,
            complete=True,
            patients=patients,
            seed=seed,
            modules=tuple(sorted(chosen | parts)),
            compress=compress,
            catalog_sha256=load_catalog().sha256,
            rows=files.rows,
            bytes=files.bytes,
            crc32=files.checksums(),
        )
    _write_manifest(folder, asdict(manifest))
    return manifest
