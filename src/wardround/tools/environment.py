"""An environment: a toolset bound to one chart. What an agent, or an MCP client, calls.

The subject and the clock are the chart's; no argument can change them. A model's mistake is a result with
``is_error``, never an exception; a bug in our code is an exception, never a result. Calls may run on many threads.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from wardround.core import ToolFailure, ToolSchema
from wardround.core.errors import unknown
from wardround.models import AskOwnModel, ask_alone
from wardround.records import Chart, TextCaseRecord
from wardround.tools.definition import Tool, clean_text, read_arguments
from wardround.tools.finish import Citation, Grounding
from wardround.tools.record_tools import load_ehr
from wardround.tools.session import NO_OPTIONS, EnvironmentOptions, Page, Session, ToolResult
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
            tool = self.toolset.by_name.get(name) or self._other_tool(name)
            values, notes = read_arguments(tool, arguments, subject_id=self.chart.subject_id)
            first = Page(
                tokens=self.max_result_tokens,
                short=self.aids.short_pages,
                cursors=self.cursors,
                made_by=partial(tool.function, self, **values),
                identity=(tool.name, values),
            )
            result = first.made_by(first)
        except ToolFailure as failure:
            text = f"Error: {failure}"
            limit = self.max_result_tokens * 3
            rest = f" [{len(text) - limit:,} more characters]" if len(text) > limit else ""
            return ToolResult(text=text[:limit] + rest, is_error=True)
        self._read.update(result.row_ids)
        if result.pictures:
            self._seen.update(result.row_ids)
        if notes:
            result = replace(result, text="\n".join((result.text, *(f"Note: {note}" for note in notes))))
        return result

    async def call_async(self, name: str, arguments: str | Mapping[str, Any]) -> ToolResult:
        """Run one call in a worker thread, so that the event loop goes on."""
        return await asyncio.to_thread(self.call, name, arguments)

    def check_evidence(self, answers: Sequence[str], evidence: Mapping[str, Iterable[str]]) -> tuple[Citation, ...]:
        """Check every cited row: on the chart, read in this episode, mentioning or coding for its answer; of an image,
        looked at."""
        return self._grounding.check(answers, evidence, read=self._read, seen=self._seen)

    def _other_tool(self, name: str) -> Tool:
        """Return the tool that is meant by a name which none has; ToolFailure names the nearest."""
        own = self.toolset.own_name(name)
        if own in self.toolset.by_name:
            return self.toolset.by_name[own]
        if own == load_ehr.name:
            raise ToolFailure("load_ehr is not needed: the chart is open, and its subject and time cannot be changed.")
        raise ToolFailure(unknown("tool", clean_text(name), self.toolset.names))


class NoChartEnvironment:
    """An environment without a chart. It has the interface of every environment and nothing to look up."""

    def __init__(self, text_case: TextCaseRecord) -> None:
        self.text_case = text_case
        self.toolset = Toolset(())
        self.ask_model: AskOwnModel = ask_alone

    @property
    def chart(self) -> None:
        """None: no chart."""

    @property
    def evidence(self) -> None:
        """None: nothing to search."""

    async def call_async(self, name: str, arguments: str | Mapping[str, Any]) -> ToolResult:
        """Return the message that there is no tool."""
        return ToolResult(text="Error: this question has no tools; the case stands in it.", is_error=True)

    def check_evidence(self, answers: Sequence[str], evidence: Mapping[str, Iterable[str]]) -> tuple[Citation, ...]:
        """Return nothing: there are no rows to cite."""
        return ()

    def accept_any_answer(self) -> None:
        """No answer is refused anyway."""

    def close(self) -> None:
        """Free nothing."""
