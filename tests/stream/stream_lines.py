"""Lines of invented patients, and what a stream says of each."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any


def lab(subject: int, known: str, value: float, row: str, **more: Any) -> str:
    """A lactate, known at a time of the record."""
    cells = {"row_id": row, "subject_id": subject, "label": "Lactate", "valuenum": value, "valueuom": "mmol/L"}
    return json.dumps({"table": "labevents", "row": cells, "known": known, "time": known, **more})


def written(folder: Path, lines: list[str]) -> Path:
    """Write lines into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "a.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return folder


def written_of(folder: Path) -> dict[int, list[bytes]]:
    """Return what is told of every patient, line by line as it stands in the file."""
    found = defaultdict(list)
    for line in (folder / "bundles.jsonl").read_bytes().splitlines():
        found[json.loads(line)["subject"]].append(line)
    return found


def hours_of(lines: list[bytes]) -> list[str]:
    """Return the hours of what is told."""
    return [json.loads(line)["hour"][5:] for line in lines]
