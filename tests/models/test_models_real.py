"""The real small model behind our client: what no stub shows. Needs ``WARDROUND_REAL_MODEL=1``."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from model_doubles import ask

from wardround.core import Message
from wardround.models import ModelConfig, ModelSettings, Reply, complete_structured, open_model, score_labels
from wardround.tools import default_toolset

NAME = "openai/smollm2"
GREEDY = ModelSettings(temperature=0.0, top_p=None, max_output_tokens=60)
ASKED = (
    Message(role="system", content="You read one patient's record with tools."),
    Message(role="user", content="Which tables are there? Use get_table_names."),
)
FEW = tuple(
    schema for schema in default_toolset().schemas if schema.name in ("get_table_names", "get_latest_records")
)  # without finish: so small a model fills its list of answers up to the limit of tokens


def _complete(url: str, messages: tuple[Message, ...] = ASKED, *, way: str = "native", **more: Any) -> Reply:
    async def main() -> Reply:
        model = open_model(ModelConfig(name=NAME, base_url=url, tool_calls=way))
        try:
            await model.check()
            return await model.complete(ask(messages, settings=GREEDY, **more))
        finally:
            await model.close()

    return asyncio.run(main())


def test_its_template_ignores_tools_and_auto_finds_that_out(real_model_url: str) -> None:
    bare, native = _complete(real_model_url), _complete(real_model_url, tools=FEW)
    assert native.usage.input_tokens == bare.usage.input_tokens
    assert native.message.tool_calls == ()
    found = _complete(real_model_url, tools=FEW, way="auto")
    (call,) = found.message.tool_calls
    assert call.name in {schema.name for schema in FEW}
    assert found.finish_reason == "tool_calls"


def test_every_tool_schema_of_ours_is_taken_as_a_grammar(real_model_url: str) -> None:
    reply = _complete(real_model_url, tools=default_toolset(evidence=True).schemas, way="schema")
    assert reply.message.tool_calls or reply.finish_reason == "length"


def test_a_reply_is_bound_to_a_schema(real_model_url: str) -> None:
    schema = {
        "type": "object",
        "properties": {"answer": {"enum": ["0", "1"]}},
        "required": ["answer"],
        "additionalProperties": False,
    }

    async def main() -> Any:
        model = open_model(ModelConfig(name=NAME, base_url=real_model_url))
        try:
            return await complete_structured(model, ask(ASKED, settings=GREEDY), schema)
        finally:
            await model.close()

    given = asyncio.run(main())
    assert given.value["answer"] in ("0", "1")
    assert len(given.exchanges) == 1


def test_its_labels_have_probabilities_and_the_likeliest_is_what_it_says_when_free_to_choose(
    real_model_url: str,
) -> None:
    question = (Message(role="user", content="Is the sky blue on a clear day? Answer with yes or no."),)
    labels = ("no", "yes")

    async def main() -> Any:
        model = open_model(ModelConfig(name=NAME, base_url=real_model_url))
        try:
            scores = await score_labels(model, ask(question, settings=GREEDY), labels)
            free = await complete_structured(model, ask(question, settings=GREEDY), {"type": "string", "enum": labels})
            return scores, free.value
        finally:
            await model.close()

    scores, said = asyncio.run(main())
    assert not scores.unavailable
    assert sum(scores.probabilities.values()) == pytest.approx(1.0)
    assert max(scores.probabilities, key=scores.probabilities.get) == said
