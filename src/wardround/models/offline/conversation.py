"""Reading a request as an agent's model does: question, findings so far, step of the plan, newest results."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from wardround.core import Message, ToolCall

# Findings as lines of text: ``- drug: Furosemide x3 [prescriptions:1 prescriptions:2]``, written and read back.


_LINE = re.compile(r"^- ([a-z]+): (.+?)(?: x(\d+(?:\.\d+)?))?(?: \[((?:\w+:[^\s\]]+ ?)+)\])?$", re.MULTILINE)
_ROWS_KEPT = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class OfflineFinding:
    """One finding: what kind, what, how much of it, and the rows it was read from."""

    kind: str
    value: str
    amount: float = 1.0
    rows: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The finding as text."""
        amount = "" if self.amount == 1 else f" x{self.amount:g}"
        rows = f" [{' '.join(self.rows[:_ROWS_KEPT])}]" if self.rows else ""
        return f"- {self.kind}: {' '.join(self.value.split())}{amount}{rows}"


def read_notes(text: str) -> list[OfflineFinding]:
    """Return the findings in a text."""
    return [
        OfflineFinding(kind=kind, value=value, amount=float(amount or 1), rows=tuple((rows or "").split()))
        for kind, value, amount, rows in _LINE.findall(text)
    ]


class OfflineFindings:
    """All findings so far, by kind, in the order they were made."""

    def __init__(
        self, notes: Iterable[OfflineFinding], *, now: str, space: str, listed: Iterable[str] = (), shown: str = ""
    ) -> None:
        self._notes: dict[str, list[OfflineFinding]] = {}
        self.now = now
        """The time of the question, as the prompt gives it."""
        self.space = space
        """The candidate table of the question."""
        self._listed = {name.casefold(): name for name in listed}
        self.shown = shown
        """The text in the prompt beside the question."""
        self.add(notes)

    def add(self, notes: Iterable[OfflineFinding]) -> None:
        """Take in more findings."""
        for note in notes:
            self._notes.setdefault(note.kind, []).append(note)

    def permitted(self, label: str) -> str | None:
        """Return a label as the question lists it; None if it does not; unchanged if the question lists no names."""
        return self._listed.get(label.casefold()) if self._listed else label

    def of(self, kind: str) -> list[OfflineFinding]:
        """Return the findings of a kind."""
        return self._notes.get(kind, [])

    def first(self, kind: str, default: str = "") -> str:
        """Return the first value of a kind."""
        notes = self.of(kind)
        return notes[0].value if notes else default

    def has(self, kind: str, value: str) -> bool:
        """Return whether a value of a kind was found."""
        return any(note.value == value for note in self.of(kind))

    def table(self, name: str) -> bool:
        """Return whether the chart has rows in a table; without a list of tables, assume so."""
        return not self.of("tables") or name in self.first("tables").split()

    def columns(self, table: str) -> tuple[str, ...]:
        """Return the columns of a table, none where nobody looked."""
        listed = (note.value.split() for note in self.of("columns"))
        return next((tuple(columns) for name, *columns in listed if name == table), ())

    @property
    def everything(self) -> list[OfflineFinding]:
        """Return all findings."""
        return [note for notes in self._notes.values() for note in notes]


# The request.


_STEP = re.compile(r"\bStep (\d+) of \d+\b")
_NOW = re.compile(r"\b(\d{4}-\d{2}-\d{2} \d{2}:\d{2}(?::\d{2})?)\b")
_SPACE = re.compile(r"\b([a-z_]+_candidates)\b")
_LISTED = re.compile(r"^Names to answer with\b.* The right ones are among them\.\n((?:- .+\n?)+)", re.MULTILINE)
_JOB = re.compile(r"\AYour task now: (\w+)")
_MEMORY = re.compile(r"\A[^\n]{0,80}\bcases of other patients\b")
"""A message of served experiences: the policy reads nothing that a memory serves."""
_TURN = re.compile(r"\A\[turn \d+\]\n")
_WRITTEN = re.compile(r"^\[call\] (\w+)\((.*)\)\n\[result\]\n", re.MULTILINE)
_CONSTANT = re.compile(r"(\w+)=(.*?)(?=, \w+=|; empty:|; left out:|; \" is|$)")
DITTO = '"'
"""Stands on a page for the time of the row above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """One tool result as a table. ``error`` is its text when the call failed."""

    call: ToolCall
    caption: str = ""
    rows: tuple[dict[str, str], ...] = ()
    error: str | None = None
    text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """The content of a request.

    ``space``: the candidate table, from the question, else among the tables that were found; ``listed``: the names that
    may be answered, empty if the question does not limit them; ``step``: the last step done, 0 before the first;
    ``shown``: texts after the question from others, such as excerpts and summaries.
    """

    question: str
    now: str
    space: str
    listed: tuple[str, ...]
    step: int
    notes: tuple[OfflineFinding, ...]
    results: tuple[Result, ...]
    shown: str = ""

    def findings(self) -> OfflineFindings:
        """Return the findings so far."""
        return OfflineFindings(self.notes, now=self.now, space=self.space, listed=self.listed, shown=self.shown)


def asked_job(messages: tuple[Message, ...]) -> str:
    """Return what the last message asks for instead of the next action (summarise, choose ...), or nothing."""
    found = _JOB.match(messages[-1].content or "") if messages and messages[-1].role == "user" else None
    return found.group(1) if found else ""


def read_conversation(messages: tuple[Message, ...]) -> Conversation:
    """Read a request's messages."""
    opening = next((place for place, message in enumerate(messages) if message.role == "user"), 0)
    question = messages[opening].content or "" if messages else ""
    later = tuple(message for message in messages[opening + 1 :] if not _is_memory(message))
    spoken = [_said(message) for message in later if message.role in ("assistant", "user")]
    steps = [int(step) for text in spoken for step in _STEP.findall(text)]
    notes = tuple(dict.fromkeys(note for text in spoken for note in read_notes(text)))
    tables = " ".join(note.value for note in notes if note.kind == "tables")
    now, space, listed = (
        _NOW.search(question),
        _SPACE.search(question) or _SPACE.search(tables),
        _LISTED.search(question),
    )
    return Conversation(
        question=question,
        now=now.group(1) if now else "",
        space=space.group(1) if space else "",
        listed=tuple(line.removeprefix("- ") for line in listed.group(1).splitlines()) if listed else (),
        step=steps[-1] if steps else 0,
        notes=notes,
        results=_newest_results(later),
        shown="\n".join(message.content or "" for message in later if message.role == "user"),
    )


def _is_memory(message: Message) -> bool:
    return message.role == "user" and _MEMORY.match(message.content or "") is not None


def _said(message: Message) -> str:
    """Return the text of a message; for a turn in a transcript, the text before its calls."""
    text = message.content or ""
    return text.partition("\n[call] ")[0] if _TURN.match(text) else text


def _newest_results(messages: tuple[Message, ...]) -> tuple[Result, ...]:
    written = [message.content or "" for message in messages if _TURN.match(message.content or "")]
    if written:
        _, *parts = _WRITTEN.split(written[-1])
        turn = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
        return tuple(
            read_result(ToolCall(id="", name=name, arguments=given), text.strip("\n")) for name, given, text in turn
        )
    last = max((place for place, message in enumerate(messages) if message.role == "assistant"), default=-1)
    if last < 0:
        return ()
    calls = {call.id: call for call in messages[last].tool_calls}
    answers = [message for message in messages[last + 1 :] if message.tool_call_id in calls]
    return tuple(read_result(calls[answer.tool_call_id or ""], answer.content or "") for answer in answers)


def read_result(call: ToolCall, text: str) -> Result:
    """Read the text of a tool result: caption, perhaps a line of constant columns, header, rows."""
    lines = text.split("\n")
    if text.startswith(("Error", "[")):
        return Result(call=call, error=text)
    constants: dict[str, str] = {}
    body = lines[1:]
    if body and body[0].startswith(("constant: ", "empty: ", "left out: ")):
        constants = dict(_CONSTANT.findall(body[0].removeprefix("constant: ")))
        body = body[1:]
    if not body:
        return Result(call=call, caption=lines[0], text=text)
    header = body[0].split(" | ")
    rows: list[dict[str, str]] = []
    for cells in _cells(body[1:], len(header)):
        row = dict(zip(header, cells, strict=True))
        above = rows[-1] if rows else {}
        rows.append(constants | {name: above.get(name, "") if cell == DITTO else cell for name, cell in row.items()})
    return Result(call=call, caption=lines[0], rows=tuple(rows), text=text)


def _cells(lines: list[str], width: int) -> list[list[str]]:
    """The lines of a page that are rows; a remark in brackets, of what was cut, is none."""
    split = [line.split(" | ") if width > 1 else [line] for line in lines if not line.startswith("[cut ")]
    return [cells for cells in split if len(cells) == width]
