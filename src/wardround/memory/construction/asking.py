"""Asking a model for a value of a schema: one repair, every call recorded and counted against a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from wardround.core import FormatError, Message
from wardround.memory.extract import Asker
from wardround.models import Reply, ask_for_value

MOST_CALLS = 12
"""The most model calls that the graph of one experience may take, repairs included."""


@dataclass(slots=True, kw_only=True)
class AskingBudget:
    """How many more calls there may be; ``refused`` counts what was not asked for want of them."""

    left: int = MOST_CALLS
    asked: int = 0
    refused: int = 0

    def take(self) -> bool:
        """Take one call, where there is one left."""
        if not self.left:
            self.refused += 1
            return False
        self.left -= 1
        self.asked += 1
        return True


async def ask_value(
    asker: Asker, text: str, schema: Mapping[str, Any], *, purpose: str, budget: AskingBudget | None = None
) -> Any:
    """Ask for a value of a JSON schema; where the reply is none, once more with what is wrong.

    Raises FormatError where the second is none either, or where the budget is spent.
    """

    async def ask(messages: Sequence[Message]) -> Reply:
        if budget is not None and not budget.take():
            raise FormatError("no call was left", correction="no call was left")
        return await asker.ask(messages, purpose=purpose, schema=schema)

    try:
        return await ask_for_value(ask, [Message(role="user", content=text)], schema)
    except FormatError as error:
        raise FormatError(f"{purpose}: {error}", correction=error.correction) from error
