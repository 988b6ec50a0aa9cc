"""The two sets of phrases that were written before the code, each in a half to tune on and a half to look at last."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path


def lines_of(path: Path, *, kept: bool) -> list[str]:
    """The lines of a set: those put away (``kept``), or those that were tuned on; which, its hash says."""
    rows = [line for line in path.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    return [row for row in rows if bool(sha256(row.encode()).digest()[0] % 2) == kept]
