"""Rows that could not be read: kept with their place and the reason, never dropped in silence."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

_QUOTED = re.compile(r": ['\"].*['\"] is no ", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenRow:
    """One row of a source file that is not what its spec says. ``line`` counts from 1, the header being line 1."""

    file: str
    line: int
    reason: str
    raw: str


def reason_kinds(rows: Iterable[BrokenRow]) -> Counter[str]:
    """Count rows by reason, without the cell that a reason quotes."""
    return Counter(_QUOTED.sub(" is no ", row.reason) for row in rows)


def write_quarantine(path: Path, rows: Iterable[BrokenRow]) -> None:
    """Append rows as JSON lines."""
    with path.open("a", encoding="utf-8") as target:
        for row in rows:
            target.write(json.dumps(asdict(row), ensure_ascii=False) + "\n")
