"""Small real things the agent tests share: a toolset of a few tools, an environment without a chart, a recorder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any

from wardround.agents import AgentSpec, Limits, Outcome, Prompt, get_agent, get_method, run_episode
from wardround.core import Message, ToolFailure
from wardround.log import ToolRecord
from wardround.memory import MemorySettings
from wardround.models.protocol import Model, ModelSettings, Reply, Request
from wardround.tools import ToolResult
from wardround.tools.definition import Tool
from wardround.tools.toolset import Toolset

TASK = Prompt(user="Name the patient's diagnoses. The candidates are in diagnoses_ccs_candidates.")
_ROWS = {
    "type": "object",
    "properties": {"table_name": {"type": "string"}, "lines": {"type": "integer"}},
    "required": ["table_name"],
}
_FINISH = {
    "type": "object",
    "properties": {"response": {"type": "array", "items": {"type": "string"}}, "evidence": {"type": "object"}},
    "required": ["response"],
}


_ANY = {"type": "object"}
Function = Callable[..., ToolResult]


def _tool(
    name: str, parameters: dict[str, Any], function: Callable[..., ToolResult], *, reads_only: bool = True
) -> Tool:
    return Tool(
        name=name,
        category="record",
        description=f"{name}.",
        parameters=parameters,
        function=function,
        reads_only=reads_only,
    )


class PaperChart:
    """An environment whose rows are made of paper: ``rows`` gives numbered lines, ``write`` is not read-only."""

    checks_answers = False
    chart = None
    evidence = None
    text_case = None

    def __init__(self, *, line: str = "labevents:{n} | 2150-01-01 08:00:00 | Creatinine | 1.2 | mg/dL") -> None:
        self.line = line
        self.calls: list[tuple[str, str]] = []
        self.side_by_side = 0
        self.most_side_by_side = 0
        self.toolset = Toolset(
            (
                _tool("get_rows", _ROWS, self._rows),
                _tool("think", _ANY, _think),
                _tool("write", _ANY, _think, reads_only=False),
                _tool("finish", _FINISH, _finish),
            )
        )

    def call(self, name: str, arguments: str | Mapping[str, Any]) -> ToolResult:
        self.calls.append((name, str(arguments)))
        tool = self.toolset.by_name.get(name)
        if tool is None:
            return ToolResult(text=f"Error: there is no tool {name!r}. Did you mean 'get_rows'?", is_error=True)
        try:
            given = json.loads(arguments) if isinstance(arguments, str) and arguments.strip() else arguments or {}
            if not isinstance(given, dict):
                return ToolResult(text="Error: arguments must be a JSON object", is_error=True)
            return tool.function(self, None, **given)
        except (ValueError, TypeError, ToolFailure) as error:
            return ToolResult(text=f"Error: the arguments are wrong ({error})", is_error=True)

    async def call_async(self, name: str, arguments: str | Mapping[str, Any]) -> ToolResult:
        self.side_by_side += 1
        self.most_side_by_side = max(self.most_side_by_side, self.side_by_side)
        await asyncio.sleep(0)
        try:
            return self.call(name, arguments)
        finally:
            self.side_by_side -= 1

    def check_evidence(self, answers: Sequence[str], evidence: Mapping[str, Iterable[str]]) -> tuple[()]:
        return ()

    def accept_any_answer(self) -> None:
        pass

    def _rows(self, session: object, page: object, table_name: str, lines: int = 3) -> ToolResult:
        body = "\n".join(self.line.format(n=n) for n in range(lines))
        cursor = "c1" if lines < 1000 else None
        return ToolResult(
            text=f"{table_name}: showing {lines} of 1,000 rows\n{body}",
            table=table_name,
            rows_shown=lines,
            rows_total=1000,
            cursor=cursor,
        )


def _think(session: object, page: object, **given: Any) -> ToolResult:
    return ToolResult(text="noted")


def _finish(
    session: object, page: object, response: list[str], evidence: dict[str, list[str]] | None = None
) -> ToolResult:
    if not response:
        raise ToolFailure("response is empty")
    cited = {answer: tuple(rows) for answer, rows in (evidence or {}).items()}
    return ToolResult(text="finished", answer=tuple(response), evidence=cited)


class ListRecorder:
    """Keeps what it is told, in order."""

    def __init__(self) -> None:
        self.turns: list[tuple[Request, Reply, tuple[ToolRecord, ...], str]] = []
        self.notes: list[tuple[str, dict[str, Any]]] = []

    def turn(self, request: Request, reply: Reply, results: Sequence[ToolRecord] = (), *, purpose: str = "act") -> None:
        self.turns.append((request, reply, tuple(results), purpose))

    def note(self, kind: str, detail: Mapping[str, Any]) -> None:
        self.notes.append((kind, dict(detail)))

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [detail for noted, detail in self.notes if noted == kind]


def play(
    model: Model,
    *,
    environment: Any = None,
    recorder: Any = None,
    agent: AgentSpec | None = None,
    limits: Limits | None = None,
    prompt: Prompt = TASK,
    settings: ModelSettings | None = None,
) -> Outcome:
    """Run one episode to its end."""
    return asyncio.run(
        run_episode(
            agent or get_agent("react"),
            model=model,
            environment=environment or PaperChart(),
            prompt=prompt,
            limits=limits or Limits(),
            settings=settings or ModelSettings(),
            recorder=recorder or ListRecorder(),
            episode="e1",
        )
    )


def check_wire(messages: Sequence[Message]) -> None:
    """Every call has exactly one result right after its turn, in order; no result without a call; ids are unique;
    arguments are JSON objects; nothing is empty."""
    seen: set[str] = set()
    position = 0
    assert [message.role for message in messages[:2]] == ["system", "user"]
    while position < len(messages):
        message = messages[position]
        position += 1
        assert message.role != "tool", "a tool result without its call"
        assert message.content or message.tool_calls
        for call in message.tool_calls:
            assert call.id
            assert call.id not in seen
            seen.add(call.id)
            assert call.name
            assert isinstance(json.loads(call.arguments), dict)
            answer = messages[position]
            assert answer.role == "tool"
            assert answer.tool_call_id == call.id
            assert answer.content
            position += 1


def settings_of(name: str, **given: Any) -> object:
    """An agent's own settings, of those given the ones that it has."""
    kind = get_method(name).settings
    return kind(**{one.name: given[one.name] for one in fields(kind) if one.name in given})


def recall_of(**given: Any) -> MemorySettings:
    """The same of what is served from a bank."""
    return MemorySettings(**{name: given[name] for name in ("k", "advice") if name in given})
