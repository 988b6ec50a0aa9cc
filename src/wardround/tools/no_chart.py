"""What surrounds an episode whose question tells the case in words: no chart, so no tool and nothing to cite."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from wardround.models import AskOwnModel, ask_alone
from wardround.records import TextCaseRecord
from wardround.tools.definition import ToolResult
from wardround.tools.grounding import Citation
from wardround.tools.toolset import Toolset


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
