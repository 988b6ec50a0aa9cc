"""Tools that touch no record: think, finish, and the next page of an earlier result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from wardround.core import ToolFailure
from wardround.tools.arguments import clean_text
from wardround.tools.tool import Tool, ToolResult

if TYPE_CHECKING:
    from wardround.tools.candidates import CandidateSpace
    from wardround.tools.environment import Environment

_NAMED = 20


def think(environment: Environment, *, response: str) -> ToolResult:
    """Keep a thought in the conversation; nothing else happens."""
    return ToolResult(text="Thought noted.")


def finish(environment: Environment, *, response: Sequence[str], evidence: Any = None) -> ToolResult:
    """End the episode with an answer and, optionally, the rows that support it."""
    answer = tuple(dict.fromkeys(item.strip() for item in response if item.strip()))
    if environment.checks_answers:
        _check_answer(environment, answer)
    cited = read_evidence(evidence)
    noun = "item" if len(answer) == 1 else "items"
    rows = sum(map(len, cited.values()))
    text = f"Answer recorded: {len(answer)} {noun}" + (f", {rows} cited rows." if cited else ".")
    return ToolResult(text=text, answer=answer, evidence=cited)


def _check_answer(environment: Environment, answer: Sequence[str]) -> None:
    """Refuse, once, an answer with names that are no candidates, and say the nearest ones."""
    space = environment.answer_space
    strange = [name for name in answer if space is not None and space.labels.resolve(name) is None]
    if space is None or not strange:
        return
    environment.accept_any_answer()
    lines = [_nearest(space, name) for name in strange[:_NAMED]]
    if len(strange) > _NAMED:
        lines.append(f"and {len(strange) - _NAMED} more")
    raise ToolFailure(
        f"not recorded: {len(strange)} of {len(answer)} names are not in {space.name!r}. Nearest names there:\n"
        + "\n".join(lines)
        + "\nCall finish again with the names you mean, spelt as there. This is said once: the next answer is taken."
    )


def _nearest(space: CandidateSpace, name: str) -> str:
    found = [repr(match.label) for match in space.by_meaning(name, 3, in_use=True)]
    return f"{name!r}: {', '.join(found) or 'nothing like it'}"


def read_evidence(evidence: Any) -> dict[str, tuple[str, ...]]:
    """Read ``{answer: [row ids]}`` or ``[{"answer": ..., "row_ids": [...]}]``; ToolFailure says what is wrong."""
    if not evidence:
        return {}
    if isinstance(evidence, Mapping) and not {"answer", "row_ids"} <= set(evidence):
        pairs = [(str(answer), rows) for answer, rows in evidence.items()]
    else:
        entries = [evidence] if isinstance(evidence, Mapping) else evidence
        pairs = [_entry(entry, index) for index, entry in enumerate(entries)]
    cited: dict[str, tuple[str, ...]] = {}
    for written, rows in pairs:
        answer = clean_text(written).strip()
        known = cited.get(answer, ())
        cited[answer] = tuple(dict.fromkeys((*known, *_row_ids(answer, rows))))
    return cited


def _entry(entry: Any, index: int) -> tuple[str, Any]:
    if isinstance(entry, Mapping) and "answer" in entry and "row_ids" in entry:
        return str(entry["answer"]), entry["row_ids"]
    raise ToolFailure(
        f'finish: evidence item {index} must be {{"answer": "...", "row_ids": ["table:id", ...]}}, got {entry!r:.80}.'
    )


def _row_ids(answer: str, rows: Any) -> tuple[str, ...]:
    if isinstance(rows, str):
        rows = [rows]
    if not isinstance(rows, list | tuple) or not all(isinstance(row, str) for row in rows):
        raise ToolFailure(f"finish: the evidence for {answer!r} must be a list of row ids such as 'labevents:12345'.")
    return tuple(clean_text(row).strip() for row in rows)


def get_next_page(environment: Environment, *, cursor: str) -> ToolResult:
    """Go on where an earlier result stopped."""
    return environment.cursors.resume(cursor)


_EVIDENCE = (
    "Optional: for each answer the row ids (first column of the tool results) that support it. "
    'Either {"answer": ["table:id", ...], ...} or [{"answer": "...", "row_ids": ["table:id", ...]}, ...].'
)

INNER_TOOLS: tuple[Tool, ...] = (
    Tool(
        name="get_next_page",
        category="inner",
        description="Continue an earlier result (rows, or a long text) from the cursor it gave.",
        parameters={
            "type": "object",
            "properties": {"cursor": {"type": "string", "description": "The cursor, copied from that result."}},
            "required": ["cursor"],
        },
        function=get_next_page,
    ),
    Tool(
        name="think",
        category="inner",
        description="Write down a thought: what is known so far, what is missing, what to look up next. Reads nothing.",
        parameters={
            "type": "object",
            "properties": {"response": {"type": "string", "description": "The thought."}},
            "required": ["response"],
        },
        function=think,
    ),
    Tool(
        name="finish",
        category="inner",
        description="Give the final answer and end the episode. Call it once, when the answer is complete.",
        parameters={
            "type": "object",
            "properties": {
                "response": {
                    "type": "array",
                    "items": {"type": "string"},
                    "description": "The final answer: a list of strings, spelled as in the candidate table.",
                },
                "evidence": {"type": ["object", "array"], "description": _EVIDENCE},
            },
            "required": ["response"],
        },
        function=finish,
        reads_only=False,
    ),
)
