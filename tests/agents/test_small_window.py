"""A window that is smaller than the budget says: the endpoint's 400 makes prompts fit, over real HTTP."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from doubles import TASK, ListRecorder, PaperChart

from fake_server import Answer, FakeServer, error, tools
from wardround.agents import Limits, Outcome, get_agent, run_episode
from wardround.models import ModelConfig, ModelSettings, open_model


def _window_of(tokens: int, turns: int, *, named: bool = True) -> Callable[[Any], Answer]:
    """A server that reads 120 rows a turn, then finishes, and refuses prompts over its window."""
    asked = 0

    def answer(body: Any) -> Answer:
        nonlocal asked
        size = len(json.dumps(body)) // 3
        if size > tokens:
            figures = f"request ({size} tokens) exceeds the available context size ({tokens} tokens), try increasing it"
            return error(400, figures if named else "the prompt is too long")
        asked += 1
        if asked > turns:
            return tools(("finish", {"response": ["Sepsis"]}))
        return tools(("get_rows", {"table_name": "labevents", "lines": 120}), id=f"c{asked}")

    return answer


def _played(script: Callable[[Any], Answer], recorder: ListRecorder, name: str = "react") -> tuple[Outcome, FakeServer]:
    async def main() -> Outcome:
        model = open_model(ModelConfig(name="openai/test-model", base_url=server.url))
        try:
            return await run_episode(
                get_agent(name),
                model=model,
                environment=PaperChart(),
                prompt=TASK,
                limits=Limits(turns=12, context_tokens=64_000, reply_tokens=500),
                settings=ModelSettings(),
                recorder=recorder,
                episode="e",
            )
        finally:
            await model.close()

    with FakeServer(script, models=("test-model",)) as server:
        return asyncio.run(main()), server


@pytest.mark.parametrize("named", [True, False])
def test_a_prompt_over_the_window_is_made_to_fit(named: bool) -> None:
    recorder = ListRecorder()
    outcome, _ = _played(_window_of(12_000, 6, named=named), recorder)
    assert (outcome.finish, outcome.answer) == ("finish", ("Sepsis",))
    refused = recorder.of("too_long")
    assert refused
    if named:
        assert {note["window"] for note in refused} == {12_000}
        assert refused[0]["context_tokens"] == 12_000
        assert len(refused) <= 2, "what it named was not learnt"
    assert recorder.of("context"), "nothing was taken out of a prompt"


def test_a_prompt_that_cannot_be_made_to_fit_ends_the_episode_with_the_endpoints_words() -> None:
    recorder = ListRecorder()
    outcome, server = _played(_window_of(10, 1), recorder)
    assert outcome.finish == "error"
    assert "exceeds the available context size (10 tokens)" in (outcome.error or "")
    assert len(server.requests) == 4
