"""Rows as tokens: one pass of a tokenizer over the rendered template gives the ids and exactly which are learnt.

The template marks what an assistant writes (``{% generation %}``), so the mask comes from where characters lie, not
from rendering every prefix again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from wardround.core import UserError
from wardround.training.rows import TrainingRow


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """A row's token ids and, beside each, 1 where it is learnt."""

    ids: tuple[int, ...]
    mask: tuple[int, ...]


class ChatTokenizer(Protocol):
    """What is asked of a tokenizer of the package transformers."""

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTokenizer:
    """A tokenizer with the template that renders for it."""

    tokenizer: ChatTokenizer
    template: str

    def encode(self, row: TrainingRow) -> TokenRow:
        """Return a row's tokens. Raises UserError where the template marks nothing as learnt, though it should."""
        encoded = self.tokenizer.apply_chat_template(
            [dict(message) for message in row.messages],
            tools=[dict(tool) for tool in row.tools] or None,
            chat_template=self.template,
            tokenize=True,
            return_dict=True,
            return_assistant_tokens_mask=True,
        )
        ids, mask = _flat(encoded["input_ids"]), _flat(encoded["assistant_masks"])
        if row.learnt and not any(mask):
            raise UserError(
                "the chat template marks no token as an assistant's; it needs {% generation %} around what the model "
                "writes: take --template wardround_compact"
            )
        return TokenRow(ids=ids, mask=mask)


def _flat(values: Sequence[Any]) -> tuple[int, ...]:
    """A batch of one, or its only row."""
    rows = values[0] if len(values) and isinstance(values[0], Sequence) else values
    return tuple(int(value) for value in rows)
