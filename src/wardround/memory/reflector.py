"""Draw experiences without a language model, by rules over an episode, for offline runs and as a baseline.

A rule states what can be counted: tables that named a correct answer, correct answers that were read and not given,
calls that were repeated or refused, answers that were not looked up with a candidate tool. The text contains labels of
the correct answer, as a model's reflections do. They belong to the training sample, and training may use them.
Provenance withholds the experience from that patient, and keeps its split out of every evaluation. Labels are written
as what to look up and where it was, not as an answer to give, because another patient's answer is no evidence.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from wardround.clinical.codes import normalise_label
from wardround.core import Message
from wardround.memory.experience import Experience, Kind, Provenance
from wardround.memory.extract import ParsedItem, as_experience
from wardround.memory.material import Material

_MOST_LABELS = 5
_REPEATS = 3
_READS = re.compile(r"\b(?:from|join)\s+[\"`\[]?(\w+)", re.IGNORECASE)
_NAME = "rules-1"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Call:
    """One call and what came back, in normal form for matching."""

    tool: str
    tables: tuple[str, ...]
    arguments: str
    result: str

    @property
    def refused(self) -> bool:
        return self.result.startswith("error:")


class RuleReflector:
    """Draws experiences of every kind from a finished episode. Deterministic: the same episode, the same items."""

    name = _NAME

    def __init__(self, *, candidate_prefix: str = "get_candidates", maximum: int = 5) -> None:
        self._candidate_prefix = candidate_prefix
        self._maximum = maximum

    def reflect(self, material: Material, *, kind: Kind, provenance: Provenance) -> tuple[Experience, ...]:
        """Return at most ``maximum`` experiences of one kind; kinds but ``reasoning`` need the target and give none
        without it."""
        calls = tuple(_calls(material.messages))
        if kind == "tool":
            return self._tool_advice(material, calls, provenance)
        facts = _Facts(material, calls)
        if kind == "reasoning":
            items = [*self._habits(material, calls), *_waste(calls)]
        elif material.target is None:
            items = []
        elif kind == "summariser":
            items = list(_losses(material, facts))
        else:
            items = [*_answers(material, facts), *self._habits(material, calls), *_waste(calls)]
        return tuple(as_experience(item, kind, material, provenance) for item in items[: self._maximum])

    def _habits(self, material: Material, calls: Sequence[_Call]) -> Iterator[ParsedItem]:
        if calls and not any(call.tool.startswith(self._candidate_prefix) for call in calls):
            yield ParsedItem(
                title="Look answers up before finishing",
                description=f"When an answer to a {material.task} question is about to be given.",
                content="No candidate tool was called in this case, so no answer was sure to be spelt as in the "
                "candidate table. Look up every intended answer first.",
            )
        if material.prediction is None:
            yield ParsedItem(
                title="Finish with a list",
                description="When turns run short.",
                content="This case ended without an answer that could be read. Call finish with the best list so far.",
            )

    def _tool_advice(
        self, material: Material, calls: Sequence[_Call], provenance: Provenance
    ) -> tuple[Experience, ...]:
        advice = []
        for tool in sorted({call.tool for call in calls}):
            own = [call for call in calls if call.tool == tool]
            items = list(_waste(own))
            advice += [as_experience(item, "tool", material, provenance, tool=tool) for item in items[:1]]
        return tuple(advice[: self._maximum])


def tables_naming_answers(material: Material) -> tuple[str, ...]:
    """Return the record tables whose rows name a correct answer, those with most of them first."""
    facts = _Facts(material, tuple(_calls(material.messages)))
    label_counts = Counter(table for label in (*facts.hits, *facts.missed) for table in facts.named_in(label))
    return tuple(table for table, _ in sorted(label_counts.items(), key=lambda pair: (-pair[1], pair[0])))


def tables_read(material: Material) -> tuple[str, ...]:
    """Return the names of the record tables that were read."""
    return tuple(_Facts(material, tuple(_calls(material.messages))).tables)


class _Facts:
    """What was right, what was found, and in which tables it was named."""

    def __init__(self, material: Material, calls: Sequence[_Call]) -> None:
        given = {normalise_label(answer) for answer in material.prediction or ()}
        right = {normalise_label(label): label for label in material.target or ()}
        self.hits = [label for name, label in right.items() if name in given]
        self.missed = [label for name, label in right.items() if name not in given]
        self.extra = [answer for answer in material.prediction or () if normalise_label(answer) not in right]
        self._calls = [
            replace(call, tables=tuple(table for table in call.tables if not table.endswith("_candidates")))
            for call in calls
        ]
        self.tables = sorted({table for call in self._calls for table in call.tables})

    def named_in(self, label: str) -> list[str]:
        """Return the record tables whose results contain a label."""
        name = normalise_label(label)
        return sorted({table for call in self._calls if name in call.result for table in call.tables})


def _answers(material: Material, facts: _Facts) -> Iterator[ParsedItem]:
    """Actor items from the answer and the right answer."""
    seen = {label: facts.named_in(label) for label in facts.missed}
    overlooked = [label for label, tables in seen.items() if tables]
    unmet = [label for label, tables in seen.items() if not tables]
    label_counts = Counter(table for label in facts.hits for table in facts.named_in(label))
    if label_counts:
        tables = ", ".join(table for table, _ in sorted(label_counts.items(), key=lambda pair: (-pair[1], pair[0])))
        yield ParsedItem(
            title=f"Start from {tables}",
            description=f"When a {material.task} question begins.",
            content=f"In this case rows of {tables} named what was right ({_some(facts.hits)}). Read them early.",
        )
    if overlooked:
        tables = ", ".join(sorted({table for label in overlooked for table in seen[label]}))
        yield ParsedItem(
            title="Weigh every finding that was read",
            description=f"When rows of {tables} have been read for a {material.task} question.",
            content=f"Rows of {tables} named {_some(overlooked)}, which was right and was not answered. Go through the "
            "findings once more before finishing and look each one up.",
        )
    if unmet:
        read = ", ".join(facts.tables) or "no record table"
        yield ParsedItem(
            title="Search beyond the first tables",
            description=f"When a {material.task} question seems settled after {read}.",
            content=f"What was right ({_some(unmet)}) was never named in what was read ({read}). Consider what other "
            "tables, earlier encounters and notes may imply, and query for it.",
        )
    if facts.extra:
        yield ParsedItem(
            title="Leave out what the record does not carry",
            description=f"When the answer list of a {material.task} question is closed.",
            content=f"{len(facts.extra)} of {len(material.prediction or ())} answers were wrong "
            f"({_some(facts.extra)}). Keep an answer only if a row speaks for it now.",
        )


def _losses(material: Material, facts: _Facts) -> Iterator[ParsedItem]:
    """Summariser items: right answers that rows named, and whether the summary still did."""
    summary = normalise_label(material.summary)
    named = [label for label in (*facts.hits, *facts.missed) if facts.named_in(label)]
    lost = [label for label in named if normalise_label(label) not in summary]
    kept = [label for label in named if normalise_label(label) in summary]
    became = "the summary dropped it" if summary else "a summary has to carry it"
    for labels, title, end in (
        (lost, "Keep the names of findings", f"{became}. Name each finding of these tables."),
        (kept, "Go on naming findings", "the summary carried it, which is worth its room."),
    ):
        if labels:
            tables = ", ".join(sorted({table for label in labels for table in facts.named_in(label)}))
            yield ParsedItem(
                title=f"{title} from {tables}",
                description=f"When rows of {tables} are summarised for a {material.task} question.",
                content=f"Rows of {tables} named {_some(labels)}, which was right; {end}",
            )


def _waste(calls: Sequence[_Call]) -> Iterator[ParsedItem]:
    """Items from repeated and refused calls; they need no target."""
    repeated = Counter((call.tool, call.arguments) for call in calls)
    tools = sorted({tool for (tool, _), times in repeated.items() if times >= _REPEATS})
    if tools:
        yield ParsedItem(
            title=f"Do not repeat a call of {', '.join(tools)}",
            description="When a result has been read already.",
            content=f"The same call was made {max(repeated.values())} times in this case and gave the same rows. "
            "Change the table, the time range or the keyword, or go on.",
        )
    refused = Counter(call.tool for call in calls if call.refused)
    if refused:
        named = ", ".join(f"{tool} ({times})" for tool, times in sorted(refused.items()))
        yield ParsedItem(
            title=f"Check names before calling {', '.join(sorted(refused))}",
            description="When a table or column has not been listed yet.",
            content=f"Calls were refused in this case: {named}. List the tables and columns first; the refusal says "
            "what would be right.",
        )


def _calls(messages: Iterable[Message]) -> Iterator[_Call]:
    open_calls: dict[str, tuple[str, str]] = {}
    for message in messages:
        for call in message.tool_calls:
            open_calls[call.id] = (call.name, call.arguments)
        if message.role == "tool" and message.tool_call_id in open_calls:
            name, arguments = open_calls.pop(message.tool_call_id)
            result = normalise_label(message.content or "")
            yield _Call(tool=name, tables=_tables(arguments), arguments=arguments, result=result)


def _tables(arguments: str) -> tuple[str, ...]:
    """Return the tables that a call names: its ``table_name``, or those its SQL reads."""
    try:
        given = json.loads(arguments)
        named, sql = given.get("table_name", ""), given.get("sql_query", "")
    except (ValueError, AttributeError, RecursionError):
        return ()
    found = _READS.findall(sql) if isinstance(sql, str) else []
    return tuple(dict.fromkeys([named] if isinstance(named, str) and named else [table.lower() for table in found]))


def _some(labels: Sequence[str]) -> str:
    more = len(labels) - _MOST_LABELS
    return " | ".join(labels[:_MOST_LABELS]) + (f" | and {more} more" if more > 0 else "")
