"""Questions with labels: what the offline policy says when asked to search, to argue, or to answer.

Without tools it decides from the excerpts it was shown. With tools it looks at the tables, at their columns, and reads
what bears on the topic; it remembers what it read as note lines in its own replies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from wardround.core import Message
from wardround.models.offline.conversation import Conversation, Result
from wardround.models.offline.findings import shown
from wardround.models.offline.notes import OfflineFinding, OfflineFindings
from wardround.models.offline.plan import TABLES, EpisodePlan, PlannedAnswer, PlanStep, columns_step
from wardround.models.offline.queries import Ask, named_rows
from wardround.models.offline.topics import Topic, decide, facts_of, topic_of
from wardround.records import Roles, RowRole

_LABEL = re.compile(r"^- (\S+): (.+)$", re.MULTILINE)
_ANSWERS = re.compile(r"^Answers there are$", re.MULTILINE)
_ROW_ID = re.compile(r"^\w+:\S+ \| | \[\w+:\d+\]")
_ITEM = re.compile(r"^- (.+)$", re.MULTILINE)
_MOST = re.compile(r"\bChoose the (\d+)\b")
_NOTED = 8


def labels_of(question: str) -> dict[str, str]:
    """Return the labels that a question offers, with their meanings; none for an open one."""
    start = _ANSWERS.search(question)
    if start is None:
        return {}
    listed = question[start.end() :].lstrip("\n").split("\n\n")[0]
    return {value: name.strip() for value, name in _LABEL.findall(listed)}


def job_reply(job: str, messages: Sequence[Message], talk: Conversation) -> Message | None:
    """Answer what a retrieval method asks for beside the actor; None for any other job."""
    topic, asked = topic_of(talk.question), messages[-1].content or ""
    if job == "rerank":
        return _say(_chosen(topic, asked))
    if job in ("refine", "search"):
        first = (topic.keyword,) if topic and job == "search" else ()
        query = _next_search((*first, *(topic.searches if topic else ())), asked)
        return _say(query if job == "refine" else f"Thought: {_thought(topic, talk)}\nQuery: {query}")
    if job == "argue":
        return _say(_thought(topic, talk))
    return None


def answer_text(talk: Conversation) -> Message:
    """Answer from what was shown, without tools."""
    labels = labels_of(talk.question)
    chosen, reason = decide(topic_of(talk.question), facts_of(talk.shown), labels)
    return _say(f"Reasoning: {reason}.\nAnswer: {', '.join(chosen)}")


def labelled_plan(question: str, roles: Roles) -> EpisodePlan:
    """Return the plan of an agent that reads with tools."""
    topic = topic_of(question)

    def tables(known: OfflineFindings) -> list[str]:
        return [table for table in dict.fromkeys(role.table for role in _read(roles)) if known.table(table)]

    def answer(known: OfflineFindings, shift: float) -> PlannedAnswer:
        lines = facts_of(known.shown) + [note.value for note in known.of("fact")]
        return PlannedAnswer(labels=tuple(decide(topic, lines, labels_of(question))[0]))

    return EpisodePlan(task="labels", steps=(TABLES, columns_step(tables), _rows(topic, roles)), answer=answer)


def _read(roles: Roles) -> list[RowRole]:
    """What bears on a question with labels: results, diagnoses, drugs."""
    return [role for role in map(roles.first, ("lab", "diagnosis", "order")) if role is not None]


def _rows(topic: Topic | None, roles: Roles) -> PlanStep:
    word = topic.keyword if topic else ""

    def ask(known: OfflineFindings) -> list[Ask]:
        asks = []
        for role in _read(roles):
            one = shown(role, known)
            if one is not None:
                asks.append(named_rows(role, one, known.columns(role.table), word))
        return [*asks, Ask(tool="retrieve_evidence", arguments={"query": word})] if word else asks

    def read(known: OfflineFindings, results: Sequence[Result]) -> list[OfflineFinding]:
        lines = [line for result in results for line in _lines(result)]
        telling = [line for line in lines if topic is not None and (topic.readings([line]) or topic.seen([line]))]
        return [OfflineFinding(kind="fact", value=line) for line in telling[-_NOTED:]]

    return PlanStep(name="what bears on the question", ask=ask, read=read)


def _lines(result: Result) -> list[str]:
    """Return a result as event lines, the latest last."""
    if result.call.name == "retrieve_evidence":
        return [_ROW_ID.sub("", line) for line in facts_of(result.text)]
    return sorted(filter(None, map(_line, result.rows)))


def _line(row: Mapping[str, str]) -> str:
    number, unit = row.get("number", ""), row.get("unit", "")
    value = f" (value: {number}{' ' + unit if unit else ''})" if number else ""
    return f"[{row.get('time') or 'no time'}] row - {row['label']}{value}" if row.get("label") else ""


def _chosen(topic: Topic | None, asked: str) -> str:
    names = _ITEM.findall(asked)
    most = int(found.group(1)) if (found := _MOST.search(asked)) else len(names)
    first = [name for name in names if topic and re.search(topic.indicators, name, re.IGNORECASE)]
    return json.dumps(list(dict.fromkeys([*first, *names]))[:most], ensure_ascii=False)


def _next_search(searches: Sequence[str], asked: str) -> str:
    made = {line.strip().lower() for line in _ITEM.findall(asked)}
    left = [query for query in searches if query.lower() not in made]
    return left[0] if left else "ENOUGH"


def _thought(topic: Topic | None, talk: Conversation) -> str:
    reason = decide(topic, facts_of(talk.shown), labels_of(talk.question) or {"": ""})[1]
    return f"From the excerpts, {reason}."


def _say(text: str) -> Message:
    return Message(role="assistant", content=text)
