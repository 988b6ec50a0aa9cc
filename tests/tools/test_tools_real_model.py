"""The real small model meets each tool of knowledge and browsing once. Needs ``WARDROUND_REAL_MODEL=1``."""

from __future__ import annotations

import asyncio

import pytest
from fake_chart import small_chart

from wardround.core import Message
from wardround.models import ModelConfig, ModelSettings, Reply, Request, open_model
from wardround.tools import CLINSEEK_TOOLS, TOOLS, Environment, Toolset, open_toolset

KNOWLEDGE = ("retrieve_pubmed", "retrieve_textbooks", "retrieve_statpearls", "retrieve_wikipedia", "retrieve_handbook")
MET = (*KNOWLEDGE, "retrieve_corpus", "load_ehr", "browser.search", "browser.open", "browser.find")
SETTINGS = ModelSettings(temperature=0.0, top_p=None, max_output_tokens=80)


def asked(url: str, offered: Toolset, way: str = "schema") -> Reply:
    messages = (
        Message(role="system", content="You look up medical knowledge with tools."),
        Message(role="user", content="The patient's sodium is low. Look up what to do about hyponatraemia."),
    )

    async def main() -> Reply:
        model = open_model(ModelConfig(name="openai/smollm2", base_url=url, tool_calls=way))
        try:
            return await model.complete(
                Request(messages=messages, settings=SETTINGS, episode="met", tools=offered.schemas)
            )
        finally:
            await model.close()

    return asyncio.run(main())


@pytest.mark.parametrize("name", MET)
def test_it_calls_each_tool_and_reads_a_result(real_model_url: str, name: str) -> None:
    offered = Toolset((TOOLS.get(name),))
    bound = Environment(small_chart(3), offered)
    if name in ("browser.open", "browser.find"):
        bound.browser.search("sodium", 3, tokens=500)
    reply = asked(real_model_url, offered)
    (call,) = reply.message.tool_calls
    assert call.name == name
    result = bound.call(call.name, call.arguments)
    assert result.text


def test_the_whole_toolset_is_a_grammar_it_is_bound_to(real_model_url: str) -> None:
    offered = open_toolset("clinseek")
    reply = asked(real_model_url, offered)
    called = {call.name for call in reply.message.tool_calls}
    assert reply.finish_reason == "length" or called <= {*CLINSEEK_TOOLS, "get_next_page"}
