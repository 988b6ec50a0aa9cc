"""Calls of a tool to its own model, from the tool's worker thread, recorded in the episode.

They run on an own event loop or on that of the episode. There they are recorded, paid for and replayed like every
other call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import Any, Protocol

from wardround.core import ToolFailure, run_to_end
from wardround.models.protocol import Model, Reply, Request
from wardround.models.replay import beside
from wardround.models.schema import ReadReplyText, complete_structured

PURPOSE = "tool"
"""The purpose under which these calls are recorded."""
_OVER = "the episode is over."


class AskOwnModel(Protocol):
    """Calls a tool's own model."""

    def __call__(
        self, model: Model, request: Request, schema: Mapping[str, Any], read: ReadReplyText | None = None
    ) -> Any:
        """Call a model, close it, and return the JSON value in its reply.

        ``read`` parses the reply, where JSON alone is not enough. It blocks, so call it off the event loop. Raises
        ProviderError and FormatError; ToolFailure: the episode is over.
        """
        ...


def ask_alone(model: Model, request: Request, schema: Mapping[str, Any], read: ReadReplyText | None = None) -> Any:
    """Call the model on an own event loop, without a record."""
    return run_to_end(_value(model, model, request, schema, lambda request, reply: None, read))


class EpisodeQuestions:
    """Calls models on the event loop of the episode.

    ``player``: the episode's model; its recordings come first. ``ordinal`` returns the number of the episode's next
    call; ``record`` is called with each answered call. Calls come one at a time: such tools are not ``reads_only``.
    """

    def __init__(
        self,
        episode: str,
        *,
        player: Model | None,
        ordinal: Callable[[], int],
        record: Callable[[Request, Reply], None],
    ) -> None:
        self._episode = episode
        self._player = player
        self._ordinal = ordinal
        self._record = record
        self._loop = asyncio.get_running_loop()
        self._running: set[asyncio.Task[Any] | None] = set()
        self._over = False

    def __call__(
        self, model: Model, request: Request, schema: Mapping[str, Any], read: ReadReplyText | None = None
    ) -> Any:
        """Call the model from a tool's thread."""
        future = asyncio.run_coroutine_threadsafe(self._ask(model, request, schema, read), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise ToolFailure(_OVER) from None

    async def _ask(self, model: Model, request: Request, schema: Mapping[str, Any], read: ReadReplyText | None) -> Any:
        if self._over:
            raise ToolFailure(_OVER)
        task = asyncio.current_task()
        self._running.add(task)
        recorded_model = model if self._player is None else beside(self._player, model)
        numbered_request = replace(request, episode=self._episode, ordinal=self._ordinal())
        try:
            return await _value(recorded_model, model, numbered_request, schema, self._record, read)
        finally:
            self._running.discard(task)

    def end(self) -> None:
        """Cancel running calls; nothing is called or recorded afterwards."""
        self._over = True
        for task in self._running:
            if task is not None:
                task.cancel()


async def _value(
    model: Model,
    opened_model: Model,
    request: Request,
    schema: Mapping[str, Any],
    record: Callable[[Request, Reply], None],
    read: ReadReplyText | None,
) -> Any:
    """Call ``model``; close ``opened_model``, whose connections belong to this loop."""
    try:
        return (await complete_structured(model, request, schema, record=record, read=read)).value
    finally:
        await opened_model.close()
