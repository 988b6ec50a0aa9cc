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
from wardround.models.offline.notes import Known, Note
from wardround.models.offline.plan import TABLES, Step
from wardround.models.offline.queries import Ask, sql
from wardround.models.offline.steps import Answer, Plan
from wardround.models.offline.topics import Topic, decide, facts_of, topic_of

_LABEL = re.compile(r"^- (\S+): (.+)$", re.MULTILINE)
_ANSWERS = re.compile(r"^Answers there are$", re.MULTILINE)
_ROW_ID = re.compile(r"^\w+:\S+ \| | \[\w+:\d+\]")
_ITEM = re.compile(r"^- (.+)$", re.MULTILINE)
_MOST = re.compile(r"\bChoose the (\d+)\b")
_TABLES = ("labevents", "measurement", "results", "lab", "event", "observation", "diagnos", "condition", "admission")
_TIMES = ("charttime", "time", "starttime", "admittime", "measurement_datetime", "dischtime")
_NAMES = ("label", "description", "code", "long_title", "drug", "text", "measurement_concept_name", "name")
_MOST_TABLES = 3
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


def labelled_plan(question: str) -> Plan:
    """Return the plan of an agent that reads with tools."""
    topic = topic_of(question)

    def answer(known: Known, shift: float) -> Answer:
        lines = facts_of(known.shown) + [note.value for note in known.of("fact")]
        return Answer(labels=tuple(decide(topic, lines, labels_of(question))[0]))

    return Plan(task="labels", steps=(TABLES, _columns(), _rows(topic)), answer=answer)


def _columns() -> Step:
    def ask(known: Known) -> list[Ask]:
        return [Ask(tool="get_column_names", arguments={"table_name": table}) for table in _wanted(known)]

    def read(known: Known, results: Sequence[Result]) -> list[Note]:
        pairs = zip(_wanted(known), results, strict=False)
        listed = [(table, [row.get("column", "") for row in result.rows]) for table, result in pairs]
        return [Note(kind="columns", value=f"{table} {' '.join(columns)}") for table, columns in listed if columns]

    return Step(name="which columns these tables have", ask=ask, read=read)


def _rows(topic: Topic | None) -> Step:
    word = topic.keyword if topic else ""

    def ask(known: Known) -> list[Ask]:
        asks = [_latest(note.value.split(), word) for note in known.of("columns")]
        return [*asks, Ask(tool="retrieve_evidence", arguments={"query": word})] if word else asks

    def read(known: Known, results: Sequence[Result]) -> list[Note]:
        lines = [line for result in results for line in _lines(result)]
        telling = [line for line in lines if topic is not None and (topic.readings([line]) or topic.seen([line]))]
        return [Note(kind="fact", value=line) for line in telling[-_NOTED:]]

    return Step(name="what bears on the question", ask=ask, read=read)


def _wanted(known: Known) -> list[str]:
    held = known.first("tables").split()
    ranked = [table for part in _TABLES for table in held if part in table.lower()]
    return list(dict.fromkeys([*ranked, *held]))[:_MOST_TABLES]


def _latest(table_and_columns: Sequence[str], word: str) -> Ask:
    """Ask for the latest rows of a table that name a word, where it has a column for names and one for times."""
    table, *columns = table_and_columns
    name = next((one for one in _NAMES if one in columns), None)
    time = next((one for one in _TIMES if one in columns), None)
    if name is None or time is None:
        return Ask(tool="get_latest_records", arguments={"table_name": table})
    return sql(f"SELECT * FROM {table} WHERE {name} LIKE '%{word}%' ORDER BY {time} DESC LIMIT 12")


def _lines(result: Result) -> list[str]:
    """Return a result as event lines, the latest last."""
    if result.call.name == "retrieve_evidence":
        return [_ROW_ID.sub("", line) for line in facts_of(result.text)]
    lines = [line for row in result.rows if (line := _line(row))]
    return sorted(lines)


def _line(row: Mapping[str, str]) -> str:
    time = next((row[one] for one in _TIMES if row.get(one)), "no time")
    name = next((row[one] for one in _NAMES if row.get(one)), "")
    number = next((row[one] for one in ("valuenum", "numeric_value", "value_as_number", "value") if row.get(one)), "")
    unit = next((row[one] for one in ("valueuom", "unit", "unit_source_value") if row.get(one)), "")
    value = f" (value: {number}{' ' + unit if unit else ''})" if number else ""
    return f"[{time}] row - {name}{value}" if name else ""


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
