"""Requests and quick settings the model tests share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from fake_server import Answer, FakeServer
from wardround.core import Message, ToolSchema
from wardround.models import DataUseGuard, Model, ModelConfig, ModelSettings, Reply, Request, RetryPolicy, open_model

QUICK = RetryPolicy(base_seconds=0.01, connect_seconds=2.0, attempt_seconds=5.0, deadline_seconds=10.0)
SYNTHETIC = DataUseGuard(sensitivity="synthetic")
TOOLS = (
    ToolSchema(
        name="get_latest_records",
        description="The latest rows of a table.",
        parameters={"type": "object", "properties": {"table_name": {"type": "string"}}, "required": ["table_name"]},
    ),
)
START = (Message(role="system", content="You are careful."), Message(role="user", content="Wie geht’s? \u2028 😷"))


def ask(messages: tuple[Message, ...] = START, *, ordinal: int = 0, episode: str = "e", **more: Any) -> Request:
    return Request(messages=messages, episode=episode, ordinal=ordinal, **more)


def serving(
    script: Sequence[Answer] | Callable[[Any], Answer],
    use: Callable[[Model, FakeServer], Coroutine[Any, Any, Any]],
    *,
    models: Sequence[str] | None = ("test-model",),
    **options: Any,
) -> Any:
    """Run ``use`` with a model that talks to a scripted server; return what it returns."""

    async def main() -> Any:
        model = open_model(ModelConfig(name="openai/test-model", base_url=server.url, **({"retry": QUICK} | options)))
        try:
            return await use(model, server)
        finally:
            await model.close()

    with FakeServer(script, models=models) as server:
        return asyncio.run(main())


def completed(script: Sequence[Answer], request: Request | None = None, **options: Any) -> tuple[Reply, FakeServer]:
    """One completed request and the server that saw it."""

    async def use(model: Model, server: FakeServer) -> tuple[Reply, FakeServer]:
        return await model.complete(request or ask()), server

    reply, server = serving(script, use, **options)
    return reply, server


NO_SETTINGS = ModelSettings(temperature=None, top_p=None)
