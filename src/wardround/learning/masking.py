"""Rows as tokens with loss masks, and chat templates for training and serving."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any, Protocol

from wardround.core import UserError
from wardround.learning.rows import TrainingRow

# Rows as tokens: one pass of a tokenizer over the rendered template gives the ids and exactly which are learnt.
#
# The template marks what an assistant writes (``{% generation %}``), so the mask comes from where characters lie, not
# from rendering every prefix again.


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRow:
    """A row's token ids and, beside each, 1 where it is learnt."""

    ids: tuple[int, ...]
    mask: tuple[int, ...]


class ChatTokenizer(Protocol):
    """The interface of a tokenizer of the package transformers."""

    def apply_chat_template(self, conversation: Any, **options: Any) -> Any: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RowTokenizer:
    """A tokenizer with its chat template."""

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
    """Return the only row of a batch of one."""
    rows = values[0] if len(values) and isinstance(values[0], Sequence) else values
    return tuple(int(value) for value in rows)


# Chat templates for training, and the same text for serving: servers do not know the training marks.


_GENERATION = re.compile(r"\{%-?\s*(?:end)?generation\s*-?%\}")
_VERSION = re.compile(r"\A\{#\s*version:\s*\d+\s*#\}\n")
OURS = ("wardround_compact",)
"""Templates that come with wardround: ``wardround_compact`` lists a tool in one line, for small windows."""


def training_template(name: str) -> str:
    """Return the source of one of our templates by its name, or of a file; UserError where it marks nothing."""
    text = _source(name)
    if not _GENERATION.search(text):
        raise UserError(f"the template {name!r} has no {{% generation %}}: nothing says what the model is to learn")
    return text


def serving_template(text: str) -> str:
    """Return a training template without its marks: the same text of the same messages.

    >>> serving_template("a{%- generation %}b{% endgeneration -%} c")
    'a{%- if true %}b{% endif -%} c'
    """
    return _GENERATION.sub(_as_condition, text)


def _as_condition(mark: re.Match[str]) -> str:
    """A condition that always holds, so that white space is trimmed as it was."""
    return mark.group().replace("endgeneration", "endif").replace("generation", "if true")


def _source(name: str) -> str:
    if name in OURS:
        return _VERSION.sub("", resources.files("wardround.learning").joinpath("prompts", f"{name}.jinja").read_text())
    if not Path(name).is_file():
        raise UserError(f"there is no template {name!r}; ours: {', '.join(OURS)}; or give a file")
    return Path(name).read_text(encoding="utf-8")
