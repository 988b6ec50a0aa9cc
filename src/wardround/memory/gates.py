"""Read and write the verdicts of held-out evidence on a bank, by task."""

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
UNJUDGED, CHANGED = "never judged", "the bank changed since it was judged"
_LAST = "SELECT look, number, content FROM gate WHERE number <= ? ORDER BY look DESC LIMIT 1"
_OF = "SELECT task, verdict FROM gate WHERE look = ? ORDER BY task"
_LOOKS = "SELECT look, verdict FROM gate ORDER BY look"


@dataclass(frozen=True, slots=True, kw_only=True)
class GateRecord:
    """The verdicts of one look at a bank. ``revision`` and ``content`` (the hash of what it serves) say what was
    judged; None and empty where nothing was."""

    revision: int | None = None
    content: str = ""
    look: int = 0
    verdicts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def state(self, task: str, content: str) -> str:
        """Return what is known about a bank with this content for a task: ``open``, or why it is not."""
        verdict = self.verdicts.get(task)
        if verdict is None:
            return UNJUDGED
        return str(verdict["state"]) if content == self.content else CHANGED

    def allows(self, task: str, use: GateUse, content: str) -> bool:
        """Return whether a task is served out of a bank that serves a content."""
        state = self.state(task, content)
        return use == "ignore" or state == "open" or (state == UNJUDGED and use == "heed")


def read_gate(file: BankFile, revision: int) -> GateRecord:
    """Return the verdicts of the last look at or before a revision."""
    rows = file.rows(_LAST, (revision,))
    if not rows:
        return GateRecord()
    look, judged, content = rows[0]
    verdicts = {task: json.loads(text) for task, text in file.rows(_OF, (look,))}
    return GateRecord(revision=judged, content=content, look=look, verdicts=verdicts)


def look_of(file: BankFile, without: str, with_it: str) -> int:
    """Return the number of the look that judges by two runs: the number it had before, or the next one."""
    looks = [(look, json.loads(text)) for look, text in file.rows(_LOOKS)]
    same = [look for look, verdicts in looks if (verdicts.get("without"), verdicts.get("with")) == (without, with_it)]
    return same[0] if same else max((look for look, _ in looks), default=0) + 1


def write_gate(file: BankFile, record: GateRecord) -> None:
    """Write the verdicts of a look; earlier verdicts of the same look are replaced."""
    rows = [
        (record.look, record.revision, record.content, task, json_text(dict(verdict)), utc_now())
        for task, verdict in record.verdicts.items()
    ]
    file.connection.executemany("INSERT OR REPLACE INTO gate VALUES (?, ?, ?, ?, ?, ?)", rows)
