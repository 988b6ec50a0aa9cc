"""The loop and its parts: one episode's control flow, its state, its history and context, tool calls, tokens."""

from wardround.agents.loop.context import count_message, count_schemas
from wardround.agents.loop.side_reader import read_text
from wardround.agents.loop.steps import STEP_NOTE, ChartScore, SubjectScore

__all__ = [
    "STEP_NOTE",
    "ChartScore",
    "SubjectScore",
    "count_message",
    "count_schemas",
    "read_text",
]
