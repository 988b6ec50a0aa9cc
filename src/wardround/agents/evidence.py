"""Evidence from a chart: search it, join results over queries, fit them into the prompt's budget."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import zip_longest
from random import Random
from typing import Any

import numpy as np

from wardround.agents.loop.context import MESSAGE_OVERHEAD_TOKENS, TokenCounter, count_message
from wardround.agents.loop.episode import Episode, prompt_text
from wardround.agents.loop.side_reader import Flaw, SideReader, SideReply, none_found
from wardround.core import Message, UserError, derive_seed, to_microseconds
from wardround.records import Chart, ChartTable
from wardround.tasks.answers import CuratedWindow, Question
from wardround.tools.retrieval import EvidenceIndex, IndicatorTrajectory, Passage, RetrievalSettings, merge
from wardround.tools.retrieval.chunks import tells
from wardround.tools.retrieval.event_lines import EventLines, Places, time_texts

# Evidence: what was retrieved from a chart, joined over queries and fitted into the room for it.
#
# The policy, where not everything fits: numeric trajectories first, in their order, up to a share; then passages, best
# first, whole; the first that does not fit keeps its latest events; the others are left out. What is shown is merged in
# time order, each event once (EHR-RAG, eq. 5). What was left out is counted, for the model and for the log.


_NUMERIC_SHARE = 0.4
_FRAME_TOKENS = 120
"""What the headings and counts around the evidence may take."""
_FEWEST_LINES = 3
"""A passage of which fewer events fit is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """``passages`` and ``trajectories``, best first, and the ``queries`` that found them."""

    passages: tuple[Passage, ...] = ()
    trajectories: tuple[IndicatorTrajectory, ...] = ()
    queries: tuple[str, ...] = ()

    @property
    def events(self) -> int:
        """How many events the passages hold, each counted once."""
        return len({row for passage in self.passages for row in passage.rows})

    def joined(self, other: Evidence) -> Evidence:
        """Return the union; the best of both come first, then the second best."""
        pairs = zip_longest(self.passages, other.passages)
        passages = {one.id: one for pair in pairs for one in pair if one is not None}
        trajectories = {(one.name, one.unit): one for one in (*self.trajectories, *other.trajectories)}
        return Evidence(
            passages=tuple(passages.values()),
            trajectories=tuple(trajectories.values()),
            queries=tuple(dict.fromkeys((*self.queries, *other.queries))),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """Evidence as text; empty if nothing fits. ``facts`` count what is included and what is left out."""

    text: str
    facts: dict[str, Any] = field(default_factory=dict)


def best_first(passages: Iterable[Passage]) -> tuple[Passage, ...]:
    """Order passages by score; retrieval gives some of them in time order."""
    return tuple(sorted(passages, key=lambda passage: -passage.score))


def fit(evidence: Evidence, counter: TokenCounter, limit_tokens: int, *, tools: bool = False) -> Fitted:
    """Return evidence as a text of at most ``limit_tokens``. ``tools``: the reader may also look for itself."""
    room = limit_tokens - _FRAME_TOKENS - counter.count("; ".join(evidence.queries)) - MESSAGE_OVERHEAD_TOKENS
    numeric = room if not evidence.passages else int(room * _NUMERIC_SHARE)
    trajectories, used = _whole(evidence.trajectories, counter, numeric)
    passages, cut = _fitting(evidence.passages, counter, room - used)
    shown = merge(*passages)
    facts: dict[str, Any] = {
        "indicators": len(trajectories),
        "indicators_left_out": len(evidence.trajectories) - len(trajectories),
        "passages": len(passages),
        "passages_cut": cut,
        "passages_left_out": len(evidence.passages) - len(passages),
        "events": len(shown),
        "events_left_out": evidence.events - len(shown),
        "limit": limit_tokens,
    }
    if not trajectories and not shown.rows:
        return Fitted(text="", facts={**facts, "tokens": 0})
    text = prompt_text(
        "ehr_rag.excerpts",
        trajectories=[trajectory.text for trajectory in trajectories],
        lines=shown.lines,
        queries=evidence.queries,
        facts=facts,
        tools=tools,
    )
    return Fitted(text=text, facts={**facts, "tokens": counter.count(text)})


def _whole(
    trajectories: Sequence[IndicatorTrajectory], counter: TokenCounter, room: int
) -> tuple[tuple[IndicatorTrajectory, ...], int]:
    """Return the first trajectories that fit, and the tokens they take."""
    used = 0
    for place, one in enumerate(trajectories):
        size = counter.count(one.text) + 1
        if used + size > room:
            return tuple(trajectories[:place]), used
        used += size
    return tuple(trajectories), used


def _fitting(passages: Sequence[Passage], counter: TokenCounter, room: int) -> tuple[list[Passage], int]:
    """Return the passages that fit, the last of them perhaps cut, and how many were cut."""
    kept: list[Passage] = []
    seen: set[int] = set()
    for passage in passages:
        fresh = _without(passage, seen)
        size = counter.count(fresh.text) + 1 if fresh.rows else 0
        if size > room:
            latest = _latest(fresh, counter, room)
            return ([*kept, latest], 1) if latest is not None else (kept, 0)
        kept.append(fresh)
        seen.update(fresh.rows)
        room -= size
    return kept, 0


def _without(passage: Passage, seen: set[int]) -> Passage:
    if seen.isdisjoint(passage.rows):
        return passage
    return _of(passage, [place for place, row in enumerate(passage.rows) if row not in seen])


def _latest(passage: Passage, counter: TokenCounter, room: int) -> Passage | None:
    """Return a passage's latest events that fit, or None if hardly any do."""
    start = len(passage.lines)
    while start and (size := counter.count(passage.lines[start - 1]) + 1) <= room:
        room -= size
        start -= 1
    if len(passage.lines) - start < _FEWEST_LINES:
        return None
    return _of(passage, range(start, len(passage.lines)))


def _of(passage: Passage, places: Sequence[int]) -> Passage:
    lines = tuple(passage.lines[place] for place in places)
    return replace(passage, lines=lines, rows=tuple(passage.rows[place] for place in places))


# How an agent's hooks reach a chart's events: through the index that the environment has of its chart.
#
# Searching blocks (an encoder may be a network away), so it runs off the event loop. What was asked and what came is
# noted: how, for which query, which passages.


_ARGUMENT_SHARE = 0.12
_SEARCH_FRAME_TOKENS, _FRAME_SHARE = 300, 0.05
"""What the words around two arguments take: so many tokens, in a small room so much of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """One retrieval: in which index, by which settings, for which query; ``seed`` is for those that draw."""

    index: EvidenceIndex
    settings: RetrievalSettings
    query: str
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrievalMethod:
    """One way to retrieve. ``find`` may leave the query aside (then ``by_query`` is false), and may block."""

    name: str
    find: Callable[[Lookup], tuple[Passage, ...]]
    by_query: bool = True


class ChartSearch:
    """One episode at work on its chart: index, question, the room for evidence, and a reader beside the actor.

    ``share`` is the part of the free room that all evidence together may take. None: all of it but what two arguments
    need, whether the method argues or not, so that every method of a table reads in one budget.
    """

    def __init__(self, episode: Episode, index: EvidenceIndex, *, share: float | None) -> None:
        self.episode = episode
        self.index = index
        self.settings = index.settings
        self.share = share
        self.question = question_of(episode)
        self.seed = derive_seed("retrieval", episode.id if episode.settings.seed is None else episode.settings.seed)
        self._system = prompt_text("ehr_rag.searcher")
        self._reader = SideReader(episode, role="searcher", system=self._system)

    @classmethod
    async def open(cls, episode: Episode, *, share: float | None = None) -> ChartSearch:
        """Open the environment's index of the episode's chart; reading the chart's events may block."""
        question_of(episode)
        index = await asyncio.to_thread(lambda: episode.environment.evidence)
        if index is None:
            raise UserError(f"agent {episode.agent.name!r} searches the chart, and this environment has none to search")
        search = cls(episode, index, share=share)
        (words, codes), silent = await asyncio.to_thread(lambda: (index.described, index.lines_left_out))
        search.note("chart", events=len(index), codes=codes, described=words, lines_left_out=silent)
        return search

    async def retrieve(self, way: RetrievalMethod, query: str, **detail: Any) -> Evidence:
        """Retrieve passages for a query and note what came."""
        lookup = Lookup(index=self.index, settings=self.settings, query=query, seed=self.seed)
        found = await asyncio.to_thread(way.find, lookup)
        evidence = Evidence(passages=best_first(found), queries=(query,) if way.by_query else ())
        arguments = {"query": query} if way.by_query else {}
        ids = [passage.id for passage in evidence.passages]
        self.note("retrieval", way=way.name, **arguments, passages=ids, events=evidence.events, **detail)
        return evidence

    async def ask(
        self,
        instruction: str,
        *,
        purpose: str,
        evidence: Evidence | None = None,
        flaw: Flaw = none_found,
        **detail: Any,
    ) -> SideReply:
        """Ask beside the actor, with the question, evidence fitted into the room, and an instruction.

        It has no tools and no history; the call is recorded under ``purpose``. ``flaw``: see ``SideReader.ask``.
        """
        messages = []
        if evidence is not None:
            fitted = self._fit(evidence, self._room_beside(instruction))
            messages.append(self._reader.say(fitted.text or prompt_text("ehr_rag.no_excerpts")))
            self.note("evidence", role=purpose, **detail, **fitted.facts)
        limit = self.episode.limits.reply_tokens
        written = await self._reader.ask(instruction, purpose=purpose, limit_tokens=limit, flaw=flaw)
        self._reader.take_out(messages)
        return written

    def room(self) -> int:
        """Return the counted tokens that are free beside the actor's prompt and the pinned messages."""
        episode = self.episode
        pinned = [message for block in episode.history.visible() for message in block.messages]
        return max(0, episode.room() - self._tokens(*episode.history.prompt, *pinned))

    def argument_tokens(self) -> int:
        """Return the most that one argument may take before the actor: a share of the free room, or a whole reply."""
        return min(int(self.room() * _ARGUMENT_SHARE), self.episode.limits.reply_tokens)

    def _evidence_tokens(self) -> int:
        """Return the tokens that all evidence together may take before the actor."""
        room = self.room()
        if self.share is not None:
            return int(room * self.share)
        return room - 2 * self.argument_tokens() - min(_SEARCH_FRAME_TOKENS, int(room * _FRAME_SHARE))

    def pin(self, evidence: Evidence, *, then: str = "") -> None:
        """Put evidence before the actor, and a text after it; note what of the evidence is shown."""
        last = Message(role="user", content=then)
        fitted = self._fit(evidence, self.room() - (self._tokens(last) if then else 0))
        for text in filter(None, (fitted.text, then)):
            self.episode.pin(text)
        self.note("evidence", role="actor", **fitted.facts)

    def _fit(self, evidence: Evidence, most: int) -> Fitted:
        limit = max(0, min(self._evidence_tokens(), most))
        return fit(evidence, self.episode.counter, limit, tools=bool(self.episode.schemas))

    def _room_beside(self, instruction: str) -> int:
        """Return the tokens that evidence may take of a request beside the actor."""
        own = (Message(role="system", content=self._system), Message(role="user", content=instruction))
        return self.episode.room(()) - self._tokens(*own, *self.episode.history.prompt[1:])

    def _tokens(self, *messages: Message) -> int:
        return sum(count_message(self.episode.counter, message) for message in messages)

    def note(self, kind: str, **detail: Any) -> None:
        """Note something in the episode."""
        self.episode.recorder.note(kind, {"turn": self.episode.turn, **detail})


def question_of(episode: Episode) -> Question:
    """Return the question in parts; UserError if the task has none."""
    if episode.question is None:
        raise UserError(f"agent {episode.agent.name!r} searches with the task's queries, and this task has none")
    return episode.question


def _at_random(lookup: Lookup) -> tuple[Passage, ...]:
    """Return chunks drawn at random in a random order: where not all fit, those that do are random too."""
    drawn = lookup.index.uniform(lookup.settings.top_passages, lookup.seed)
    order = list(range(len(drawn)))
    Random(derive_seed(lookup.seed, "order")).shuffle(order)
    return tuple(drawn[place] for place in order)


def _by_code(lookup: Lookup) -> tuple[Passage, ...]:
    """Return the commonest events with a passage per code: where not all fit, the commonest codes do."""
    index = lookup.index
    columns, rows_by_code = index.columns, defaultdict(list)
    for row in index.frequent_events(lookup.settings.recent_events).rows:
        rows_by_code[columns.codes[columns.concept[row]]].append(row)
    return tuple(index.passage(rows, score=float(len(rows))) for rows in rows_by_code.values())


def _recent(lookup: Lookup) -> tuple[Passage, ...]:
    return (lookup.index.recent_events(lookup.settings.recent_events),)


def _nearest(lookup: Lookup) -> tuple[Passage, ...]:
    return lookup.index.nearest(lookup.query, lookup.settings.top_passages)


def _nearest_few(lookup: Lookup) -> tuple[Passage, ...]:
    return lookup.index.nearest(lookup.query, lookup.settings.final)


def _text_evidence(lookup: Lookup) -> tuple[Passage, ...]:
    return lookup.index.text_evidence(lookup.query, lookup.settings.final)


RECENT = RetrievalMethod(name="recent", find=_recent, by_query=False)
FREQUENT = RetrievalMethod(name="frequent", find=_by_code, by_query=False)
UNIFORM = RetrievalMethod(name="uniform", find=_at_random, by_query=False)
NEAREST = RetrievalMethod(name="nearest", find=_nearest)
"""Chunks of all events, as many as vanilla RAG takes at once."""
NEAREST_FEW = RetrievalMethod(name="nearest few", find=_nearest_few)
"""The same, as many as one of several rounds takes."""
TEXT_EVIDENCE = RetrievalMethod(name="ether", find=_text_evidence)
"""The text side of ETHER: chunks of the events without a number, by likeness and time (eq. 2-3)."""


# The curated input of a question: what of a chart an evidence package shows, as text.
#
# EHR-R1's package, on the chart as of the question: who the patient is, the present admission, the previous discharge
# summary, and the latest events of a window, where one event is a run of rows of one table. Tables are found by their
# roles.


LINE_CHARACTERS = 4_000
"""Of one value: a report stands in a package as a whole."""
_HOUR = 3_600_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class CuratedInput:
    """``person`` and ``admission`` are cells as ``name: text``; ``summary`` is the previous discharge summary and when
    it was about. ``events``: a text each, of one line or more, with when each begins in ``begins`` (microseconds);
    ``events_left_out``: those of the window before the shown ones; ``first`` is when the first of all begins."""

    person: tuple[str, ...]
    admission: tuple[str, ...]
    summary: str
    summary_time: str
    events: tuple[str, ...]
    events_left_out: int
    start: datetime
    begins: tuple[int, ...] = ()
    first: int | None = None

    def shown_of(self, moment: int) -> tuple[float, float]:
        """Return the hours before ``moment`` that the shown events reach back, and those of all events."""
        whole = 0.0 if self.first is None else (moment - self.first) / _HOUR
        return (moment - self.begins[0]) / _HOUR if self.begins else 0.0, whole


def curated_input(chart: Chart, window: CuratedWindow) -> CuratedInput:
    """Read the package off a chart; what the chart does not show is not in it."""
    runs = _runs(chart, window)
    shown = runs[-window.most_events :]
    times = chart.event_columns().time
    summary, time = _last_summary(chart)
    return CuratedInput(
        person=_person(chart),
        admission=_admission(chart),
        summary=summary,
        summary_time=time,
        events=tuple(_texts(chart, shown)),
        events_left_out=len(runs) - len(shown),
        start=window.start,
        begins=tuple(int(times[run[0]]) for run in shown),
        first=int(times[runs[0][0]]) if runs else None,
    )


def _person(chart: Chart) -> tuple[str, ...]:
    """Return the cells of the tables without a time, and the age."""
    static = [chart.table(name) for name in chart.table_names if chart.table(name).spec.is_static]
    return tuple(cell for table in static for row in range(table.num_rows) for cell in _cells(table, row))


def _admission(chart: Chart) -> tuple[str, ...]:
    """Return the latest hospital stay that has begun."""
    role = chart.spec.roles.admission
    if role is None or role.table not in chart.table_names:
        return ()
    table = chart.table(role.table)
    return _cells(table, int(np.argmax(table.event_time))) if table.num_rows else ()


def _cells(table: ChartTable, row: int) -> tuple[str, ...]:
    hidden = {"row_id", table.spec.subject}
    names = [name for name in table.columns if name not in hidden]
    cells = ((name, table.batch.column(name)[row].as_py()) for name in names)
    return tuple(f"{name}: {cell}" for name, cell in cells if cell is not None)


def _last_summary(chart: Chart) -> tuple[str, str]:
    """Return the text of the latest discharge summary, and its day."""
    for role in chart.spec.roles.summary:
        if role.table not in chart.table_names or role.text is None:
            continue
        table = chart.table(role.table)
        if table.num_rows:
            last = int(np.argmax(table.event_time))
            return str(table.batch.column(role.text)[last].as_py() or ""), str(table.event_time[last])[:10]
    return "", ""


def _runs(chart: Chart, window: CuratedWindow) -> list[Places]:
    """Return the events of the window, in order.

    Rows of one table that follow each other in time are one event, as EHR-R1 counts. Summaries and admissions end a run
    and are parts of their own. Details that are in the line of another row are not counted as rows.
    """
    columns = chart.event_columns()
    inside = (columns.time >= to_microseconds(window.start)) & ~columns.is_static & ~columns.notes.shown_elsewhere
    places = np.flatnonzero(inside)
    if not len(places):
        return []
    table = columns.table[places]
    apart = {columns.table_names.index(name) for name in _parts_of_their_own(chart, columns.table_names)}
    runs = np.split(places, np.flatnonzero(table[1:] != table[:-1]) + 1)
    return [run for run in runs if int(columns.table[run[0]]) not in apart]


def _texts(chart: Chart, runs: Sequence[Places]) -> Iterator[str]:
    """Return the text of each event: a line for each moment and kind.

    Rows without a name or a value are left out; repetitions stay, as in the published packages. An event without any
    other row shows its kind and the number of its rows.
    """
    columns = chart.event_columns()
    lines = EventLines(columns, line_characters=LINE_CHARACTERS)
    classes = np.array(columns.class_only, dtype=bool)[columns.concept] if len(columns) else np.empty(0, dtype=bool)
    named = tells(columns) | (classes & ~columns.notes.unnamed) | columns.notes.repeated
    for run in runs:
        panel_text = lines.panels(run[named[run]])[1]
        time = time_texts(columns.time[run[:1]], columns.is_static[run[:1]])[0]
        yield (
            "\n".join(panel_text) or f"[{time}] {columns.kinds[columns.concept[run[0]]]} ({len(run):,} without a name)"
        )


def _parts_of_their_own(chart: Chart, names: Sequence[str]) -> list[str]:
    roles = chart.spec.roles
    own = {role.table for role in roles.summary} | ({roles.admission.table} if roles.admission else set())
    return [name for name in names if name in own]
