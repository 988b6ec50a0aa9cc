"""What FHIR costs to ingest: CPU per resource, of that for making it flat, and peak memory at several input sizes.

Beside it what msgspec needs to decode the same bytes (from memory) to dicts.

Run: python benchmarks/fhir_speed.py [--raw FOLDER ... --time-zone NAME | --patients 200 2000]

``--raw`` names folders of NDJSON or bundles, the smallest first; without it exports of invented people are written, 78
resources each. Every ingest runs in a process of its own, so that its peak memory is its own: it should not grow with
the input.
"""

from __future__ import annotations

import argparse
import gzip
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec

from wardround.core import Progress
from wardround.records import IngestSettings, ingest

_OFFSET = "-05:00"
SUFFIXES = (".ndjson", ".ndjson.gz", ".json", ".json.gz")


def person(number: int) -> Iterator[dict[str, Any]]:
    """Yield the resources of one invented person: a stay, problems, orders, doses and results."""
    about = {"reference": f"Patient/p{number}"}
    start = datetime(2150, 1, 1) + timedelta(hours=number % 5_000)
    stay = {"reference": f"Encounter/e{number}"}

    def at(hours: int) -> str:
        return (start + timedelta(hours=hours)).isoformat() + _OFFSET

    def code(system: str, value: int, words: str) -> dict[str, Any]:
        return {"coding": [{"system": system, "code": str(value), "display": words}], "text": words}

    yield {"resourceType": "Patient", "id": f"p{number}", "gender": "female", "birthDate": "2090-05-05"}
    period = {"start": at(0), "end": at(60)}
    kind = {"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "IMP"}
    yield {"resourceType": "Encounter", "id": f"e{number}", "class": kind, "period": period, "subject": about}
    for place in range(6):
        named = code("http://snomed.info/sct", 1_000 + place, f"Problem number {place}")
        body = {"resourceType": "Condition", "id": f"c{number}-{place}", "code": named, "recordedDate": at(place)}
        yield body | {"subject": about, "encounter": stay}
    for place in range(10):
        named = code("http://www.nlm.nih.gov/research/umls/rxnorm", 2_000 + place, f"Medication number {place}")
        shared = {"medicationCodeableConcept": named, "subject": about, "status": "completed"}
        order = {"resourceType": "MedicationRequest", "id": f"m{number}-{place}", "authoredOn": at(place)}
        yield order | shared | {"encounter": stay, "intent": "order"}
        dose = {"dose": {"value": 5 * place, "unit": "mg"}, "route": {"text": "oral"}}
        given = {
            "resourceType": "MedicationAdministration",
            "id": f"a{number}-{place}",
            "effectiveDateTime": at(place + 2),
        }
        yield given | shared | {"context": stay, "dosage": dose}
    for place in range(50):
        named = code("http://loinc.org", 3_000 + place, f"Laboratory test number {place}")
        result = {"resourceType": "Observation", "id": f"o{number}-{place}", "code": named, "subject": about}
        value = {"valueQuantity": {"value": place + 0.5, "unit": "mg/dL", "system": "http://unitsofmeasure.org"}}
        group = {"category": [{"coding": [{"code": "laboratory"}]}], "status": "final", "encounter": stay}
        yield result | value | group | {"effectiveDateTime": at(place), "issued": at(place + 1)}


def write_export(folder: Path, patients: int) -> Path:
    """Write a bulk export."""
    folder.mkdir(parents=True)
    with gzip.open(folder / "export.ndjson.gz", "wt", compresslevel=1, encoding="utf-8") as target:
        for number in range(patients):
            for body in person(number):
                target.write(json.dumps(body) + "\n")
    return folder


def measure(raw: Path, store: Path, zone: str) -> dict[str, float]:
    """Ingest one folder in this process and say what it took."""
    marks: dict[str, float] = {}

    def note(progress: Progress) -> None:
        used = resource.getrusage(resource.RUSAGE_SELF)
        if progress.label.startswith("flatten"):
            marks.update(flat=used.ru_utime, flat_mb=used.ru_maxrss / 1024)

    before = resource.getrusage(resource.RUSAGE_SELF)
    report = ingest("fhir", raw, store, settings=IngestSettings(time_zone=zone), report=note)
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "resources": json.loads((store / "manifest.json").read_text(encoding="utf-8"))["flattened"]["records"],
        "rows": sum(report.rows.values()),
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "flat": marks["flat"] - before.ru_utime,
        "wall": report.seconds,
        "flat_mb": marks["flat_mb"],
        "peak_mb": after.ru_maxrss / 1024,
    }


def decoding(raw: Path) -> float:
    """Return the CPU seconds that msgspec needs to decode every line, or every whole file that is not NDJSON."""
    decode, seconds = msgspec.json.Decoder().decode, 0.0
    for path in sorted(path for path in raw.rglob("*") if path.name.endswith(SUFFIXES)):
        with gzip.open(path) if path.name.endswith(".gz") else path.open("rb") as file:
            texts = list(file) if ".ndjson" in path.name else [file.read()]
        started = time.process_time()
        for text in texts:
            decode(text)
        seconds += time.process_time() - started
    return seconds


def measure_apart(raw: Path, store: Path, zone: str) -> dict[str, float]:
    """Ingest in a process of its own."""
    command = [sys.executable, __file__, f"--time-zone={zone}", "--one", str(raw), str(store)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return dict(json.loads(answer))


def main() -> None:
    """Measure every input and print one line each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--raw", type=Path, nargs="+")
    parser.add_argument("--time-zone", default=_OFFSET, help="where the exports of --raw are from")
    parser.add_argument("--patients", type=int, nargs="+", default=[200, 2_000])
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(Path(arguments.one[0]), Path(arguments.one[1]), arguments.time_zone)))
        return
    names = f"{'input':26}{'resources':>11}{'rows':>11}{'us each':>9}{'of it flat':>11}{'decode':>8}"
    print(f"{names}{'wall s':>8}{'flat MB':>9}{'peak MB':>9}")
    with tempfile.TemporaryDirectory(prefix="wardround-fhir-") as name:
        inputs = arguments.raw or [write_export(Path(name) / f"{count}-people", count) for count in arguments.patients]
        for number, raw in enumerate(inputs):
            cost = measure_apart(raw, Path(name) / f"store{number}", arguments.time_zone)
            each, flat = (cost[part] / cost["resources"] * 1e6 for part in ("cpu", "flat"))
            decode = decoding(raw) / cost["resources"] * 1e6
            print(
                f"{raw.name:26}{cost['resources']:>11,.0f}{cost['rows']:>11,.0f}{each:>9.0f}{flat:>11.0f}{decode:>8.1f}"
                f"{cost['wall']:>8.1f}{cost['flat_mb']:>9.0f}{cost['peak_mb']:>9.0f}"
            )


if __name__ == "__main__":
    main()
