"""A session: what the tools of one episode work on, the optional assists for models, and results in pages."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from typing import Any

from markupsafe import escape

from wardround.clinical.codes import normalise_label
from wardround.core import Picture, ToolFailure, UserError, content_hash, setting
from wardround.core.errors import unknown
from wardround.models import AskOwnModel, ask_alone
from wardround.records import Chart
from wardround.tools.candidates import CandidateSpace
from wardround.tools.imaging import ChartImages
from wardround.tools.knowledge import Browser, Knowledge
from wardround.tools.retrieval import Encoder, EvidenceIndex, LexicalEncoder, RetrievalSettings
from wardround.tools.sql_gate import SqlGate
from wardround.tools.table_view import TableView


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """The result of a call. The model reads ``text`` and sees ``pictures``.

    ``row_ids`` are the record rows whose content is in the text (grounding checks citations against them);
    ``table`` is the record table they are of (SQL may name several, joined by ", "); ``rows_shown`` of ``rows_total``
    show what a limit cut; ``cursor`` fetches the next page, None at the end.
    ``answer`` and ``evidence`` are set only by ``finish``.
    """

    text: str
    pictures: tuple[Picture, ...] = ()
    is_error: bool = False
    table: str | None = None
    row_ids: tuple[str, ...] = ()
    rows_total: int | None = None
    rows_shown: int | None = None
    cursor: str | None = None
    answer: tuple[str, ...] | None = None
    evidence: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.text)}</pre>"


# Pages of a result: their size, their offset, and the cursors of the next pages.
#
# A cursor's name is derived from what it continues (tool, arguments, offset). The same page always has the same cursor,
# whatever calls came between and in whatever order parallel calls ran. A cursor means a call and an offset, never rows.
# A cursor of another session is unknown.


Continuation = Callable[[], ToolResult]


class Cursors:
    """The cursors handed out in one episode."""

    def __init__(self) -> None:
        self._pages: dict[str, Continuation] = {}

    def name(self, continuation: Continuation, *identity: Any) -> str:
        """Keep a continuation under the name its identity (JSON values) gives it, and return the name."""
        cursor = "c" + content_hash(list(identity))[:9]
        self._pages[cursor] = continuation
        return cursor

    def resume(self, cursor: str) -> ToolResult:
        """Return the page of a cursor."""
        page = self._pages.get(cursor.strip().strip("'\"").removeprefix("cursor="))
        if page is None:
            raise ToolFailure(
                f"there is no cursor {cursor!r} in this session. Copy one letter by letter from an earlier result, "
                "or repeat the call that gave it."
            )
        return page()


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """One page of one result, handed to a tool: it fills at most ``tokens`` (estimated) from ``offset`` on.

    ``short``: leave out what says nothing new (the aid ``short_pages``). ``made_by`` makes the page again from another
    offset; ``identity`` (JSON values) is what its cursors are named by.
    """

    tokens: int
    short: bool
    cursors: Cursors
    made_by: Callable[[Page], ToolResult]
    identity: tuple[Any, ...]
    offset: int = 0

    def cursor(self, offset: int) -> str:
        """Return the cursor of this result from an offset on."""
        return self.cursors.name(partial(self.made_by, replace(self, offset=offset)), *self.identity, offset)

    def of(self, **resolved: Any) -> Page:
        """Return the page of the same call with some arguments spelled as the record spells them."""
        name, arguments = self.identity
        return replace(self, identity=(name, {**arguments, **resolved}))

    def part(self, made_by: Callable[[Page], ToolResult], *identity: Any) -> Page:
        """Return the first page of something that this result shows a piece of: a long cell, a passage."""
        return replace(self, made_by=made_by, identity=identity, offset=0)


# Aids: what a session does for a language model beyond what the papers' tools do. Each can be switched off.


@dataclass(frozen=True, slots=True, kw_only=True)
class Aids:
    """All are on by default and off in a paper's preset (``Aids.none()``, ``--aids none``).

    ``answer_rules``: a prompt says how answers are counted and how many are usual. ``candidate_order``: candidates in
    use come first, a panel is expanded, a clear hit stands alone. ``answer_check``: finish refuses once what is no
    candidate. ``written_calls``: a call written as text is run, an empty reply is never the answer. ``short_pages``:
    pages without the columns that say nothing new; tables with their columns; the task's candidate table only.
    ``bound_labels``: where a reply holds none of a question's labels, one is asked for with the reply bound to them.
    """

    answer_rules: bool = setting(True, "a prompt says how answers are counted and how many are usual")
    candidate_order: bool = setting(True, "candidates in use first, a panel expanded, a clear hit alone")
    answer_check: bool = setting(True, "finish refuses once what is no candidate")
    written_calls: bool = setting(True, "a call written as text is run, an empty reply is never the answer")
    short_pages: bool = setting(True, "pages without what says nothing new; the task's candidate table only")
    bound_labels: bool = setting(True, "an answer without a label is asked for once more, bound to the labels")

    @classmethod
    def none(cls) -> Aids:
        """Return the tools as the papers describe them."""
        return cls(**dict.fromkeys(AID_NAMES, False))

    @classmethod
    def named(cls, names: Iterable[str]) -> Aids:
        """Return those named, and no others; "all" and "none" stand for themselves."""
        wanted = set(names)
        for name in sorted(wanted - {"all", "none", *AID_NAMES}):
            raise UserError(unknown("aid", name, ("all", "none", *AID_NAMES)))
        if wanted & {"all", "none"} and len(wanted) > 1:
            raise UserError("aids are all, none, or some by name")
        return cls(**{name: "all" in wanted or name in wanted for name in AID_NAMES})

    @property
    def names(self) -> tuple[str, ...]:
        """Those that are on."""
        return tuple(name for name, on in asdict(self).items() if on)


AID_NAMES: tuple[str, ...] = tuple(field.name for field in fields(Aids))


# A session: what the tools of one episode work on. One chart, its prepared tables, candidates, SQL and evidence.
#
# The subject and the clock are the chart's; nothing here can change them.


_SMALLEST_BUDGET = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentOptions:
    """What the tools of one episode work with besides the chart; each option is declared here and nowhere else."""

    candidates: Mapping[str, CandidateSpace] = field(default_factory=dict)
    """The candidate spaces that may be searched, by table name."""
    max_result_tokens: int = 2000
    """The most text of a result (estimated; see ``core.tokens``)."""
    encoder: Encoder | None = None
    """What ``evidence`` is found with; None: the lexical encoder."""
    retrieval: RetrievalSettings | None = None
    answer_space: str | None = None
    """The candidate table that answers come from."""
    listed: Collection[str] = ()
    """The names that the question lists."""
    aids: Aids = Aids()
    """What is done for a language model beyond the papers' tools."""
    knowledge: Knowledge | None = None
    """The corpora that may be read; None: the handbook."""
    images: ChartImages | None = None
    """The chart's images; None: there are none."""


NO_OPTIONS = EnvironmentOptions()


class Session:
    """One chart opened for one episode."""

    def __init__(self, chart: Chart, options: EnvironmentOptions = NO_OPTIONS) -> None:
        self.chart = chart
        self.images = options.images or ChartImages(chart, None)
        self.aids = options.aids
        self.knowledge = options.knowledge or Knowledge()
        self.candidates = dict(options.candidates)
        if options.answer_space is not None and self.aids.short_pages:
            self.candidates = {name: space for name, space in self.candidates.items() if name == options.answer_space}
        self.answer_space = self.candidates.get(options.answer_space or "")
        self.listed = frozenset(map(normalise_label, options.listed))
        self.checks_answers = self.aids.answer_check and self.answer_space is not None
        self.ask_model: AskOwnModel = ask_alone
        """How a tool asks a model of its own; an episode that writes it down sets its own way."""
        self.max_result_tokens = max(_SMALLEST_BUDGET, options.max_result_tokens)
        self.cursors = Cursors()
        self._options = options
        self._evidence: EvidenceIndex | None = None
        self._views: dict[str, TableView] = {}
        self._gate: SqlGate | None = None
        self._browser: Browser | None = None
        self._opening = threading.Lock()

    @property
    def table_names(self) -> tuple[str, ...]:
        """Record tables of the chart and candidate tables, as tools name them."""
        return (*self.chart.table_names, *self.candidates)

    def view(self, table_name: str) -> TableView:
        """Return a record table prepared for showing; ToolFailure names the nearest table."""
        found = self._views.get(table_name)  # as the chart writes it: that of most calls
        if found is None:
            name = self._record_table(table_name)
            found = self._views.get(name) or self._views.setdefault(name, TableView(self.chart.table(name)))
        return found

    def column(self, view: TableView, name: str) -> str:
        """Return a column's own spelling; ToolFailure names the nearest column."""
        found = view.resolve(name)
        if found is None:
            raise ToolFailure(unknown(f"column in table {view.name!r} called", name, view.columns))
        return found

    def space(self, table_name: str) -> CandidateSpace:
        """Return a candidate space; ToolFailure names the nearest one."""
        wanted = _plain(table_name)
        for name, space in self.candidates.items():
            if name.casefold() == wanted:
                return space
        if not self.candidates:
            raise ToolFailure("this session has no candidate tables.")
        raise ToolFailure(unknown("candidate table", table_name, self.candidates))

    def is_candidate_table(self, table_name: str) -> bool:
        """Return whether a name is that of a candidate table."""
        return any(name.casefold() == _plain(table_name) for name in self.candidates)

    @property
    def gate(self) -> SqlGate:
        """The SQL gate over the chart's visible rows, opened when first asked for."""
        with self._opening:
            if self._gate is None:
                self._gate = SqlGate(self.chart, candidates=self.candidates)
            return self._gate

    @property
    def evidence(self) -> EvidenceIndex:
        """The index of the chart's events, made when first asked for."""
        with self._opening:
            if self._evidence is None:
                self._evidence = EvidenceIndex(
                    self.chart.event_columns(),
                    as_of=self.chart.as_of,
                    encoder=self._options.encoder or LexicalEncoder(),
                    settings=self._options.retrieval,
                )
            return self._evidence

    @property
    def browser(self) -> Browser:
        """The pages of this episode, none at first."""
        with self._opening:
            if self._browser is None:
                self._browser = self.knowledge.browser(self.chart)
            return self._browser

    def accept_any_answer(self) -> None:
        """Stop checking answers: the next one is the last that can be given."""
        self.checks_answers = False

    def close(self) -> None:
        """Free what the session built. Calling again is harmless; tools called later build anew."""
        with self._opening:
            gate, self._gate = self._gate, None
            self._evidence = None
        if gate is not None:
            gate.close()
        self.images.close()
        self._views.clear()

    def _record_table(self, table_name: str) -> str:
        wanted = _plain(table_name)
        for name in self.chart.table_names:
            if name.casefold() == wanted:
                return name
        tail = wanted.rpartition(".")[2]
        for name in self.chart.table_names:
            if name.casefold() == tail:
                return name
        if any(name.casefold() == wanted for name in self.candidates):
            raise ToolFailure(f"{table_name!r} is a candidate table; look names up in it.")
        raise ToolFailure(unknown("table", table_name, self.chart.table_names))


def _plain(name: str) -> str:
    return name.strip().strip("\"`[]'").casefold()
