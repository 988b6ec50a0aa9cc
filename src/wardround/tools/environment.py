"""An environment: a toolset bound to one chart. What an agent, or an MCP client, calls.

The subject and the clock are the chart's; no argument can change them. A model's mistake is a result with
``is_error``, never an exception; a bug in our code is an exception, never a result. Calls may run on many threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from wardround.core import ToolFailure, ToolSchema
from wardround.core.errors import unknown
from wardround.records import Chart
from wardround.tools.definition import Tool, ToolResult
from wardround.tools.grounding import Citation, Grounding
from wardround.tools.inner_tools import load_ehr
from wardround.tools.page import Page
from wardround.tools.session import NO_OPTIONS, EnvironmentOptions, Session
from wardround.tools.signature import clean_text, read_arguments
from wardround.tools.toolset import Toolset, default_toolset


class Environment(Session):
    """A session with the toolset that an episode may call; None: the usual one."""

    def __init__(self, chart: Chart, toolset: Toolset | None = None, options: EnvironmentOptions = NO_OPTIONS) -> None:
        super().__init__(chart, options)
        self.toolset = (default_toolset() if toolset is None else toolset).having(
            {*self.images.abilities.names, *(("candidates",) if self.candidates else ())}
        )
        self._read: set[str] = set()
        self._seen: set[str] = set()
        self._grounding = Grounding(self)

    @property
    def text_case(self) -> None:
        """None: the chart is the case."""

    @property
    def schemas(self) -> tuple[ToolSchema, ...]:
        """The schemas of the tools that a model reads."""
        return self.toolset.schemas

    @property
    def read_row_ids(self) -> frozenset[str]:
        """The rows whose content this episode has been shown."""
        return frozenset(self._read)

    def call(self, name: str, arguments: str | Mapping[str, Any]) -> ToolResult:
        """Run one call; a model's mistake comes back as a result with ``is_error``."""
        try:
            tool = self._tool(name)
            values, notes = read_arguments(tool, arguments, subject_id=self.chart.subject_id)
            result = self._run(tool, values)
            if notes:
                result = replace(result, text="\n".join((result.text, *(f"Note: {note}" for note in notes))))
        except ToolFailure as failure:
            return ToolResult(text=self._clip(f"Error: {failure}"), is_error=True)
        self._read.update(result.row_ids)
        if result.pictures:
            self._seen.update(result.row_ids)
        return result

    async def call_async(self, name: str, arguments: str | Mapping[str, Any]) -> ToolResult:
        """Run one call in a worker thread, so that the event loop goes on."""
        return await asyncio.to_thread(self.call, name, arguments)

    def check_evidence(self, answers: Sequence[str], evidence: Mapping[str, Iterable[str]]) -> tuple[Citation, ...]:
        """Check every cited row: on the chart, read in this episode, mentioning or coding for its answer; of an image,
        looked at."""
        return self._grounding.check(answers, evidence, read=self._read, seen=self._seen)

    def _run(self, tool: Tool, values: Mapping[str, Any]) -> ToolResult:
        def made_by(page: Page) -> ToolResult:
            return tool.function(self, page, **values)

        first = Page(
            tokens=self.max_result_tokens,
            short=self.aids.short_pages,
            cursors=self.cursors,
            made_by=made_by,
            identity=(tool.name, values),
        )
        return made_by(first)

    def _tool(self, name: str) -> Tool:
        own = self.toolset.own_name(name)
        tool = self.toolset.get(own)
        if tool is None and own == load_ehr.name:
            raise ToolFailure("load_ehr is not needed: the chart is open, and its subject and time cannot be changed.")
        if tool is None:
            raise ToolFailure(unknown("tool", clean_text(name), self.toolset.names))
        return tool

    def _clip(self, text: str) -> str:
        limit = self.max_result_tokens * 3
        return text if len(text) <= limit else text[:limit] + f" [{len(text) - limit:,} more characters]"
