"""The offline policy's plan per task, and its answers to questions with labels."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from typing import Any

from wardround.core import Message
from wardround.models.offline.conversation import Conversation, OfflineFinding, OfflineFindings, Result
from wardround.models.offline.findings import (
    Beliefs,
    care_step,
    drug_step,
    lab_step,
    organism_step,
    place_step,
    plain_name,
    shown,
    stay_step,
    word_step,
)
from wardround.models.offline.plan import (
    TABLES,
    Ask,
    EpisodePlan,
    PlannedAnswer,
    PlanStep,
    Reading,
    columns_step,
    counts,
    held_names,
    hour_of,
    latest,
    load_rules,
    named_rows,
    names,
    number,
    share_of,
    shares,
    since,
    tally,
)
from wardround.records import Roles, RowRole

# The plan of a task: one for all tasks, adapted by ``tasks.toml`` to the task's role.


_PHRASES_PER_SEARCH = 12
_MOST_SEARCHES = 3
_LEAST_SIMILARITY = 0.3
_PRIOR_MOMENTS = 3.0
_NAMES_LOOKED_UP = 20
_FOR_WANT_OF_BETTER = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlan:
    """One task of ``tasks.toml``, which explains the keys."""

    name: str
    role: str
    spaces: tuple[str, ...]
    history: str
    usual: float
    least: float
    most: int
    fewest: int = 1
    lists: tuple[tuple[str, float], ...] = ()
    again: float = 0.0
    limit: float = 1.0
    of_stay: bool = False
    by_hour: bool = False

    def weight(self, note: OfflineFinding) -> float:
        """Return how strongly a finding of the past supports its label."""
        if self.history != "names":
            return self.usual * note.amount
        value = note.value.lower()
        listed = (weight for key, weight in self.lists if any(word in value for word in names(self.name, key)))
        return min(next(listed, self.usual) + self.again * (note.amount - 1), self.limit)

    @property
    def prior(self) -> Mapping[str, float]:
        """The usual labels with their share of moments, before anything is known of the patient."""
        return dict(load_rules().get(self.name, {}).get("usual", ()))


@cache
def task_plans() -> Mapping[str, TaskPlan]:
    """Return every task plan, by name."""
    text = resources.files("wardround.models.offline").joinpath("tasks.toml").read_text(encoding="utf-8")
    return {name: _read_plan(name, body) for name, body in tomllib.loads(text).items()}


def _read_plan(name: str, body: Mapping[str, Any]) -> TaskPlan:
    lists = tuple((key, weight) for key, weight in body.get("lists", ()))
    return TaskPlan(**{**body, "name": name, "spaces": tuple(body["spaces"]), "lists": lists})


def plan_for(space: str, roles: Roles) -> EpisodePlan:
    """Return the plan for a candidate table; for an unknown table, that of the diagnoses."""
    known = task_plans()
    task = next((one for one in known.values() if space in one.spaces), known["diagnoses"])
    name = task.name
    steps = (
        TABLES,
        columns_step(lambda known: _role_tables(roles, known)),
        stay_step(roles),
        place_step(name, roles),
        _past_step(task, roles),
        word_step(name, roles),
        lab_step(name, roles),
        drug_step(name, roles),
        organism_step(name, roles),
        care_step(name, roles),
        _search_step(task, roles),
    )
    return EpisodePlan(task=name, steps=steps, answer=_answering(task))


def _role_tables(roles: Roles, known: OfflineFindings) -> list[str]:
    """Return the tables of the chart with a role that the plan reads."""
    first = (roles.first(name) for name in ("order", "lab", "culture", "diagnosis"))
    rows = [role.table for role in (*roles.transfer, *roles.procedure, *roles.note, *first) if role is not None]
    stays = [roles.admission.table] if roles.admission is not None else []
    return [table for table in dict.fromkeys(stays + rows) if known.table(table)]


def _past_step(task: TaskPlan, roles: Roles) -> PlanStep:
    """Read the task's own role so far."""
    role = roles.first(task.role)

    def ask(known: OfflineFindings) -> list[Ask]:
        one = shown(role, known)
        start = since(known) if task.of_stay else ""
        if one is None or task.history == "place":
            return []
        if task.history == "names" or not one.time:
            return [counts(one, start)]
        return [shares(one, start, hour=hour_of(known) if task.by_hour else None)]

    read = share_of("past", task.prior, _PRIOR_MOMENTS) if task.history == "moments" else tally("past")
    return PlanStep(
        name=f"every {task.role} so far",
        ask=ask,
        read=_plain_names(read, role),
        otherwise=lambda known: [latest(role.table)] if role is not None else [],
    )


def _plain_names(read: Reading, role: RowRole | None) -> Reading:
    def plain(known: OfflineFindings, results: Sequence[Result]) -> list[OfflineFinding]:
        found = read(known, results)
        return found if role is None else [replace(note, value=plain_name(role, note.value)) for note in found]

    return plain


def _habits(task: TaskPlan) -> list[OfflineFinding]:
    """Return the thoughts that are always present."""
    always = load_rules().get(task.name, {}).get("always", ())
    return [OfflineFinding(kind="thought", value=thought, amount=weight) for thought, weight in always]


def _past(task: TaskPlan, known: OfflineFindings) -> list[OfflineFinding]:
    """Return the findings of the past: earlier labels, or the patient's place."""
    if task.history == "place":
        return known.of("unit")[:1]
    return known.of("past") or [
        OfflineFinding(kind="past", value=name, amount=share) for name, share in task.prior.items()
    ]


def _search_step(task: TaskPlan, roles: Roles) -> PlanStep:
    """Search the candidates for the thought-of phrases, likeliest first, several searches in one turn.

    Also look up which past names are official already; without any, one name of the table.
    """

    def as_they_stand(known: OfflineFindings) -> list[str]:
        one = shown(roles.first(task.role), known)
        official = one is not None and one.official and task.role != "order" and task.history != "place"
        return [note.value for note in known.of("past")] if official else []

    def phrases(known: OfflineFindings) -> list[str]:
        past = [] if as_they_stand(known) else [note.value for note in _past(task, known)[:_NAMES_LOOKED_UP]]
        weights = dict.fromkeys([*past, *task.prior], 1.0)
        for note in known.of("thought") + _habits(task):
            weights[note.value] = weights.get(note.value, 0.0) + note.amount
        ranked = sorted(weights, key=lambda phrase: (-weights[phrase], phrase))
        return ranked[: _PHRASES_PER_SEARCH * _MOST_SEARCHES]

    def ask(known: OfflineFindings, tool: str) -> list[Ask]:
        wanted, official_labels = phrases(known), as_they_stand(known)
        chunks = [wanted[at : at + _PHRASES_PER_SEARCH] for at in range(0, len(wanted), _PHRASES_PER_SEARCH)]
        tools = ("get_candidates", tool)  # the usual one, or the papers': what is not offered is not called
        arguments = [{"table_name": known.space, "query": chunk} for chunk in chunks]
        searches = [Ask(tool=tool, arguments=given) for tool in tools for given in arguments]
        return [held_names(known.space, official_labels), *searches]

    return PlanStep(
        name="the official names",
        ask=lambda known: ask(known, "get_candidates_by_semantic_similarity"),
        read=_hits,
        otherwise=lambda known: ask(known, "get_candidates_by_fuzzy_matching"),
    )


def _hits(known: OfflineFindings, results: Sequence[Result]) -> list[OfflineFinding]:
    """Return the best candidate of every query with a near one, and the official names found."""
    best: dict[str, str] = {}
    for result in results:
        for row in result.rows:
            is_lookup = result.call.name == "run_sql_query"
            query = row.get("query") or (row.get("candidate", "") if is_lookup else result.call.arguments)
            if row.get("candidate") and (is_lookup or number(row, "similarity") >= _LEAST_SIMILARITY):
                best.setdefault(query, row["candidate"])
    return [OfflineFinding(kind="name", value=f"{query} => {label}") for query, label in best.items()]


def _named(known: OfflineFindings) -> dict[str, str]:
    """Return official names by phrase; without any search result, every finding stands for itself."""
    pairs = (note.value.partition(" => ") for note in known.of("name"))
    official = {phrase: label for phrase, _, label in pairs if label}
    return official or {note.value: note.value for note in known.of("past") + known.of("unit") + known.of("thought")}


def _answering(task: TaskPlan) -> Callable[[OfflineFindings, float], PlannedAnswer]:
    """Return the answer function: weigh past and thoughts under their official names; others are dropped."""

    def answer(known: OfflineFindings, shift: float) -> PlannedAnswer:
        beliefs, named = Beliefs(), _named(known)
        weighted = [(note, task.weight(note)) for note in _past(task, known)]
        weighted += [(note, note.amount) for note in known.of("thought") + _habits(task)]
        weighted_official = [(note, weight) for note, weight in weighted if note.value in named]
        for note, weight in weighted_official:
            if (label := known.permitted(named[note.value])) is not None:
                beliefs.add(label, weight, note.rows)
        if not weighted_official:
            for label in filter(None, map(known.permitted, named.values())):
                beliefs.add(label, _FOR_WANT_OF_BETTER)
        labels = beliefs.best(least=task.least + shift, most=task.most, fewest=task.fewest)
        evidence = {label: rows for label in labels if (rows := beliefs.rows(label))}
        return PlannedAnswer(labels=tuple(labels), evidence=evidence)

    return answer


# The offline policy on questions with labels: one rule per topic, applied to a text.
#
# It reads only lines with events and measurements, so that neither the question nor a heading counts as evidence.


_EVENT = re.compile(r"^(?:\S+ \| )?\[([\d :-]+|no time)\] (.*)$")
_VALUE = re.compile(r"^(.*?) \(value: ([-+]?[\d.,]+)(?: ([^);]*))?(?:; .*)?\)$")
_MEASURED = re.compile(r"^(?:- )?(.+?)(?: \(([^()]*)\))?: (.*\d{4}-\d\d-\d\d \d\d:\d\d.*)$")
_AT = re.compile(r"([-+]?[\d.]+) at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicValue:
    """One value of a topic's quantity. ``time`` is text that sorts."""

    time: str
    name: str
    value: float
    unit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Topic:
    """One kind of question; see questions.toml."""

    about: str
    indicators: str
    searches: tuple[str, ...]
    keyword: str
    reading: str | None = None
    direction: str = "falling"
    limits: tuple[float, ...] = ()
    factors: Mapping[str, float] = field(default_factory=dict)
    usual: float = 1.0
    signs: tuple[str, ...] = ()
    least: int = 1
    named: bool = False

    def readings(self, lines: Iterable[str]) -> list[TopicValue]:
        """Return the values of its quantity in a text, in order of time."""
        if self.reading is None:
            return []
        pattern = re.compile(self.reading, re.IGNORECASE)
        values = {reading for line in lines for reading in _readings(line) if pattern.search(reading.name)}
        return sorted(values, key=lambda one: (one.time, one.name, one.value))

    def seen(self, lines: Iterable[str]) -> list[str]:
        """Return the signs found in a text, each in its own words, once."""
        text = "\n".join(lines)
        hits = (re.search(sign, text, re.IGNORECASE) for sign in self.signs)
        return [hit.group(0).lower() for hit in hits if hit]

    def severity(self, reading: TopicValue) -> int:
        """Return the number of limits that a value passes."""
        value = reading.value * self.factors.get(reading.unit.lower(), self.usual)
        if self.direction == "rising":
            return sum(value > limit for limit in self.limits)
        return sum(value < limit for limit in self.limits)


def facts_of(text: str) -> list[str]:
    """Return the lines of a text with events, measurements or rows."""
    lines = (line.strip().removeprefix("- fact: ") for line in text.splitlines())
    return [line for line in lines if _EVENT.match(line) or _MEASURED.match(line)]


def topic_of(question: str) -> Topic | None:
    """Return the first topic that a question mentions."""
    return next((topic for topic in topics() if re.search(topic.about, question, re.IGNORECASE)), None)


@cache
def topics() -> tuple[Topic, ...]:
    """Return all topics in search order."""
    text = resources.files("wardround.models.offline").joinpath("questions.toml").read_text(encoding="utf-8")
    rows: list[dict[str, Any]] = tomllib.loads(text)["topic"]
    return tuple(Topic(**{key: _plain(value) for key, value in row.items()}) for row in rows)


def decide(topic: Topic | None, lines: Sequence[str], labels: Mapping[str, str]) -> tuple[list[str], str]:
    """Return the labels that a text supports by a topic's rule, and why; the first label without support."""
    values = list(labels)
    if topic is None:
        return values[:1], "there is no rule for this question, so the first label stands"
    if topic.named:
        text = "\n".join(lines).lower()
        named_values = [value for value, name in labels.items() if value != values[0] and name.lower() in text]
        return named_values or values[
            :1
        ], f"named in the record: {', '.join(labels[value] for value in named_values) or 'none'}"
    readings = topic.readings(lines)
    if readings:
        last = readings[-1]
        index = min(topic.severity(last), len(values) - 1)
        return [values[index]], f"the latest {last.name} is {last.value:g} {last.unit} at {last.time}"
    if topic.reading is not None:
        return values[:1], f"no {topic.keyword} value was shown"
    seen = topic.seen(lines)
    index = 1 if len(seen) >= topic.least and len(values) > 1 else 0
    return [values[index]], f"{len(seen)} signs of at least {topic.least} needed: {', '.join(seen) or 'none'}"


def _readings(line: str) -> list[TopicValue]:
    event = _EVENT.match(line)
    if event:
        value = _VALUE.match(event.group(2).partition(" - ")[2])
        number = _number(value.group(2)) if value else None
        if value is None or number is None:
            return []
        return [TopicValue(time=event.group(1), name=value.group(1), value=number, unit=value.group(3) or "")]
    measured = _MEASURED.match(line)
    if measured is None:
        return []
    name, unit, values = measured.groups()
    return [
        TopicValue(time=time, name=name, value=float(value), unit=unit or "") for value, time in _AT.findall(values)
    ]


def _number(text: str) -> float | None:
    try:
        return float(text.replace(",", ""))
    except ValueError:
        return None


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


# Questions with labels: the offline policy's replies to requests to search, to argue, or to answer.
#
# Without tools it decides from the excerpts in the prompt. With tools it lists tables and columns and reads rows on the
# topic; it keeps what it read as note lines in its own replies.


_LABEL = re.compile(r"^- (\S+): (.+)$", re.MULTILINE)
_ANSWERS = re.compile(r"^Answers there are$", re.MULTILINE)
_ROW_ID = re.compile(r"^\w+:\S+ \| | \[\w+:\d+\]")
_ITEM = re.compile(r"^- (.+)$", re.MULTILINE)
_MOST = re.compile(r"\bChoose the (\d+)\b")
_NOTED = 8


def labels_of(question: str) -> dict[str, str]:
    """Return the labels that a question offers, with meanings; empty for an open question."""
    start = _ANSWERS.search(question)
    if start is None:
        return {}
    listed = question[start.end() :].lstrip("\n").split("\n\n")[0]
    return {value: name.strip() for value, name in _LABEL.findall(listed)}


def job_reply(job: str, messages: Sequence[Message], talk: Conversation) -> Message | None:
    """Answer a retrieval method's request beside the actor; None for any other job."""
    topic, instruction = topic_of(talk.question), messages[-1].content or ""
    if job == "rerank":
        return _say(_chosen(topic, instruction))
    if job in ("refine", "search"):
        first = (topic.keyword,) if topic and job == "search" else ()
        query = _next_search((*first, *(topic.searches if topic else ())), instruction)
        return _say(query if job == "refine" else f"Thought: {_thought(topic, talk)}\nQuery: {query}")
    if job == "argue":
        return _say(_thought(topic, talk))
    return None


def answer_text(talk: Conversation) -> Message:
    """Answer from the excerpts in the prompt, without tools."""
    labels = labels_of(talk.question)
    chosen, reason = decide(topic_of(talk.question), facts_of(talk.shown), labels)
    return _say(f"Reasoning: {reason}.\nAnswer: {', '.join(chosen)}")


def labelled_plan(question: str, roles: Roles) -> EpisodePlan:
    """Return the plan of an agent that reads with tools."""
    topic = topic_of(question)

    def tables(known: OfflineFindings) -> list[str]:
        return [table for table in dict.fromkeys(role.table for role in _relevant_roles(roles)) if known.table(table)]

    def answer(known: OfflineFindings, shift: float) -> PlannedAnswer:
        lines = facts_of(known.shown) + [note.value for note in known.of("fact")]
        return PlannedAnswer(labels=tuple(decide(topic, lines, labels_of(question))[0]))

    return EpisodePlan(task="labels", steps=(TABLES, columns_step(tables), _rows(topic, roles)), answer=answer)


def _relevant_roles(roles: Roles) -> list[RowRole]:
    """Return the roles that matter for questions with labels: results, diagnoses, drugs."""
    return [role for role in map(roles.first, ("lab", "diagnosis", "order")) if role is not None]


def _rows(topic: Topic | None, roles: Roles) -> PlanStep:
    word = topic.keyword if topic else ""

    def ask(known: OfflineFindings) -> list[Ask]:
        asks = []
        for role in _relevant_roles(roles):
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


def _chosen(topic: Topic | None, instruction: str) -> str:
    names = _ITEM.findall(instruction)
    limit = int(found.group(1)) if (found := _MOST.search(instruction)) else len(names)
    first = [name for name in names if topic and re.search(topic.indicators, name, re.IGNORECASE)]
    return json.dumps(list(dict.fromkeys([*first, *names]))[:limit], ensure_ascii=False)


def _next_search(searches: Sequence[str], instruction: str) -> str:
    done = {line.strip().lower() for line in _ITEM.findall(instruction)}
    remaining = [query for query in searches if query.lower() not in done]
    return remaining[0] if remaining else "ENOUGH"


def _thought(topic: Topic | None, talk: Conversation) -> str:
    reason = decide(topic, facts_of(talk.shown), labels_of(talk.question) or {"": ""})[1]
    return f"From the excerpts, {reason}."


def _say(text: str) -> Message:
    return Message(role="assistant", content=text)
