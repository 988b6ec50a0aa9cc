"""Questions that a tool asks a model of its own: from the worker thread the tool runs in, on a loop of its own or on
that of the episode the tool serves, where they are recorded, paid for and served from recordings like every other call.
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
"""What these calls are recorded under."""
_OVER = "the episode is over."


class AskOwnModel(Protocol):
    """Asks a model of a tool's own."""

    def __call__(
        self, model: Model, request: Request, schema: Mapping[str, Any], read: ReadReplyText | None = None
    ) -> Any:
        """Ask a model, which is closed again, and return the value of the JSON schema that its reply holds.

        ``read`` reads the reply, where not only JSON will do. It blocks, so it is called off the event loop. Raises
        ProviderError and FormatError; ToolFailure: the episode is over.
        """
        ...


def ask_alone(model: Model, request: Request, schema: Mapping[str, Any], read: ReadReplyText | None = None) -> Any:
    """Ask on a loop of its own; nobody writes it down."""
    return run_to_end(_value(model, model, request, schema, lambda request, reply: None, read))


class EpisodeQuestions:
    """Asks on the loop it was made on. ``player`` plays the episode: its recordings answer first.

    ``ordinal`` says the number of the episode's next call, ``record`` is told of each as it is answered. Questions come
    one at a time: tools that ask are not ``reads_only``.
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
        self._asking: set[asyncio.Task[Any] | None] = set()
        self._over = False

    def __call__(
        self, model: Model, request: Request, schema: Mapping[str, Any], read: ReadReplyText | None = None
    ) -> Any:
        """Ask, from a tool's thread."""
        future = asyncio.run_coroutine_threadsafe(self._ask(model, request, schema, read), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise ToolFailure(_OVER) from None

    async def _ask(self, model: Model, request: Request, schema: Mapping[str, Any], read: ReadReplyText | None) -> Any:
        if self._over:
            raise ToolFailure(_OVER)
        task = asyncio.current_task()
        self._asking.add(task)
        asked = model if self._player is None else beside(self._player, model)
        named = replace(request, episode=self._episode, ordinal=self._ordinal())
        try:
            return await _value(asked, model, named, schema, self._record, read)
        finally:
            self._asking.discard(task)

    def end(self) -> None:
        """Break off what is still being asked; nothing is asked or recorded from now on."""
        self._over = True
        for task in self._asking:
            if task is not None:
                task.cancel()


async def _value(
    asked: Model,
    opened: Model,
    request: Request,
    schema: Mapping[str, Any],
    record: Callable[[Request, Reply], None],
    read: ReadReplyText | None,
) -> Any:
    """Ask ``asked``; close ``opened``, whose connections belong to this loop."""
    try:
        return (await complete_structured(asked, request, schema, record=record, read=read)).value
    finally:
        await opened.close()
