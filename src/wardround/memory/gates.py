"""What held-out evidence said of a revision of a bank, by task: kept in the bank, heeded where it is served."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from wardround.memory.bank_file import BankFile
from wardround.memory.experience import utc_now
from wardround.memory.rows import json_text

GateUse = Literal["heed", "require", "ignore"]
"""``heed``: a task whose gate is not open is served nothing. ``require``: nor is one that was never judged."""
_LAST = "SELECT max(number) FROM gate WHERE number <= ?"
_OF = "SELECT task, verdict FROM gate WHERE number = ? ORDER BY task"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRecord:
    """The last verdicts at or before a revision. ``revision`` is the one that was judged, None where none was."""

    revision: int | None = None
    verdicts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def lets(self, task: str, use: GateUse) -> bool:
        """Whether a task is served."""
        verdict = self.verdicts.get(task)
        if use == "ignore" or (verdict is None and use == "heed"):
            return True
        return verdict is not None and verdict["state"] == "open"


def read_gate(file: BankFile, revision: int) -> GateRecord:
    """The verdicts that hold at a revision."""
    (judged,) = file.rows(_LAST, (revision,))[0]
    if judged is None:
        return GateRecord()
    return GateRecord(revision=judged, verdicts={task: json.loads(text) for task, text in file.rows(_OF, (judged,))})


def write_gate(file: BankFile, revision: int, verdicts: Mapping[str, Mapping[str, Any]]) -> None:
    """Write what was found of a revision; what was said of it before is replaced."""
    rows = [(revision, task, json_text(dict(verdict)), utc_now()) for task, verdict in verdicts.items()]
    file.connection.executemany("INSERT OR REPLACE INTO gate VALUES (?, ?, ?, ?)", rows)
