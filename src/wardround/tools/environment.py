"""An environment: a toolset bound to one chart. What an agent, or an MCP client, calls.

The subject and the clock are the chart's; no argument can change them. A model's mistake is a result with
``is_error``, never an exception; a bug in our code is an exception, never a result. Calls may run on many threads.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from wardround.core import ToolFailure, ToolSchema
from wardround.core.suggestions import unknown
from wardround.retrieval import Encoder, EvidenceIndex, LexicalEncoder, RetrievalSettings
from wardround.tools.aids import Aids
from wardround.tools.arguments import clean_text, read_arguments
from wardround.tools.grounding import Citation, Grounding
from wardround.tools.paging import Cursors
from wardround.tools.render import text_page
from wardround.tools.sql_gate import SqlGate
from wardround.tools.table_view import TableView
from wardround.tools.tool import Tool, ToolResult
from wardround.tools.toolset import Toolset, default_toolset

if TYPE_CHECKING:
    from wardround.records import Chart
    from wardround.tools.candidates import CandidateSpace

_SMALLEST_BUDGET = 200
DEFAULT_AIDS = Aids()


class Environment:
    """A toolset bound to one chart for one episode.

    ``candidates`` are the candidate spaces the session may search, by table name. ``max_result_tokens`` bounds the text
    of every result (estimated; see ``core.tokens``). ``encoder`` (default: lexical) and ``retrieval`` are what
    ``evidence`` is found with. ``answer_space`` names the candidate table that answers come from, ``aids`` what is done
    for a language model beyond the papers' tools.
    """

    def __init__(
        self,
        chart: Chart,
        toolset: Toolset | None = None,
        candidates: Mapping[str, CandidateSpace] = MappingProxyType({}),
        *,
        max_result_tokens: int = 2000,
        encoder: Encoder | None = None,
        retrieval: RetrievalSettings | None = None,
        answer_space: str | None = None,
        aids: Aids = DEFAULT_AIDS,
    ) -> None:
        self.chart = chart
        self.toolset = default_toolset() if toolset is None else toolset
        self.aids = aids
        self.candidates = dict(candidates)
        if answer_space is not None and aids.short_pages:
            self.candidates = {name: space for name, space in candidates.items() if name == answer_space}
        self.answer_space = self.candidates.get(answer_space or "")
        self.checks_answers = aids.answer_check and self.answer_space is not None
        self.max_result_tokens = max(_SMALLEST_BUDGET, max_result_tokens)
        self.cursors = Cursors()
        self._encoder = encoder
        self._retrieval = retrieval
        self._evidence: EvidenceIndex | None = None
        self._views: dict[str, TableView] = {}
        self._read: set[str] = set()
        self._gate: SqlGate | None = None
        self._opening = threading.Lock()
        self._grounding: Grounding | None = None

    @property
    def schemas(self) -> tuple[ToolSchema, ...]:
        """What a model is told of the tools."""
        return self.toolset.schemas

    @property
    def read_row_ids(self) -> frozenset[str]:
        """The rows whose content this episode has been shown."""
        return frozenset(self._read)

    def call(self, name: str, arguments: str | Mapping[str, Any]) -> ToolResult:
        """Run one call; a model's mistake comes back as a result with ``is_error``."""
        try:
            tool = self._tool(name)
            values = read_arguments(tool, arguments, subject_id=self.chart.subject_id)
            result = tool.function(self, **values)
        except ToolFailure as failure:
            return ToolResult(text=self._clip(f"Error: {failure}"), is_error=True)
        self._read.update(result.row_ids)
        return result

    async def call_async(self, name: str, arguments: str | Mapping[str, Any]) -> ToolResult:
        """Run one call in a worker thread, so that the event loop goes on."""
        return await asyncio.to_thread(self.call, name, arguments)

    def check_evidence(self, answers: Sequence[str], evidence: Mapping[str, Iterable[str]]) -> tuple[Citation, ...]:
        """Check every cited row: on the chart, read in this episode, mentioning or coding for its answer."""
        if self._grounding is None:
            self._grounding = Grounding()
        return self._grounding.check(self, answers, evidence)

    def accept_any_answer(self) -> None:
        """Stop checking answers: the next one is the last that can be given."""
        self.checks_answers = False

    def close(self) -> None:
        """Free what the episode built. Calling again is harmless; tools called later build anew."""
        with self._opening:
            gate, self._gate = self._gate, None
            self._evidence = None
        if gate is not None:
            gate.close()
        self._views.clear()

    @property
    def table_names(self) -> tuple[str, ...]:
        """Record tables of the chart and candidate tables, as tools name them."""
        return (*self.chart.table_names, *self.candidates)

    def view(self, table_name: str) -> TableView:
        """Return a record table prepared for showing; ToolFailure names the nearest table."""
        name = self._record_table(table_name)
        found = self._views.get(name)
        if found is None:
            found = self._views.setdefault(name, TableView(self.chart.table(name)))
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
                    encoder=self._encoder or LexicalEncoder(),
                    settings=self._retrieval,
                )
            return self._evidence

    def is_candidate_table(self, table_name: str) -> bool:
        """Whether a name is that of a candidate table."""
        return any(name.casefold() == _plain(table_name) for name in self.candidates)

    def continuation(self, function: Callable[..., ToolResult], arguments: Mapping[str, Any]) -> Callable[[int], str]:
        """Return what names the cursor of a call's result from an offset on."""

        def cursor_at(offset: int) -> str:
            page = partial(function, self, **arguments, offset=offset)
            return self.cursors.name(page, function.__name__, dict(arguments), offset)

        return cursor_at

    def text_cursor(self, table_name: str, row: int, column: str, offset: int) -> str:
        """Return the cursor of a text cell from a character on."""
        page = partial(self._text_page, table_name, row, column, offset)
        return self.cursors.name(page, "text", table_name, row, column, offset)

    def _text_page(self, table_name: str, row: int, column: str, offset: int) -> ToolResult:
        return text_page(self, self.view(table_name), row, column, offset)

    def _tool(self, name: str) -> Tool:
        tool = self.toolset.get(name)
        if tool is None and name == "load_ehr":
            raise ToolFailure("load_ehr is not needed: the chart is open, and its subject and time cannot be changed.")
        if tool is None:
            raise ToolFailure(unknown("tool", clean_text(name), self.toolset.names))
        return tool

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
            raise ToolFailure(f"{table_name!r} is a candidate table; search it with the get_candidates_* tools.")
        raise ToolFailure(unknown("table", table_name, self.chart.table_names))

    def _clip(self, text: str) -> str:
        limit = self.max_result_tokens * 3
        return text if len(text) <= limit else text[:limit] + f" [{len(text) - limit:,} more characters]"


def _plain(name: str) -> str:
    return name.strip().strip("\"`[]'").casefold()
