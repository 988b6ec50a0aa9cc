from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from model_doubles import START, TOOLS, ask

from wardround.core import Message, ProviderError, UserError
from wardround.models import ModelConfig, RelayModel, Reply, Request, open_model


async def answer(folder: Path, number: int, text: str) -> Any:
    """Wait for a request, write a reply the way a careful program does; return the request."""
    request = folder / f"{number}.request.json"
    while not request.exists():
        await asyncio.sleep(0.01)
    part = folder / f".{number}.part"
    part.write_text(text)
    os.replace(part, folder / f"{number}.reply.json")
    return json.loads(request.read_text())


def exchange(folder: Path, text: str, request: Request | None = None) -> tuple[Reply, Any]:
    async def main() -> tuple[Reply, Any]:
        model = open_model(ModelConfig(name=f"relay:{folder}", relay_timeout_seconds=5))
        await model.check()
        reply, asked = await asyncio.gather(model.complete(request or ask(tools=TOOLS)), answer(folder, 1, text))
        await model.close()
        return reply, asked

    return asyncio.run(main())


def test_a_request_is_a_file_and_its_reply_is_awaited(tmp_path: Path) -> None:
    reply, asked = exchange(tmp_path, '{"content": "I would look at the labs."}')
    assert reply.message == Message(role="assistant", content="I would look at the labs.")
    assert (reply.finish_reason, reply.cost, reply.usage_known) == ("stop", None, False)
    assert asked["schema"] == "wardround.relay/1"
    assert asked["messages"] == [message.to_wire() for message in START]
    assert asked["tools"] == [TOOLS[0].to_wire()]
    assert (asked["episode"], asked["ordinal"]) == ("e", 0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.reply.json", "1.request.json", "served.txt"]


SHORT = {"name": "get_latest_records", "arguments": {"table_name": "labevents"}}
FULL = {"id": "x", "type": "function", "function": {**SHORT, "arguments": '{"table_name": "labevents"}'}}
COMPLETION = {
    "choices": [{"message": {"tool_calls": [FULL]}}],
    "usage": {"prompt_tokens": 3, "completion_tokens": 2},
}


@pytest.mark.parametrize("body", [{"tool_calls": [SHORT]}, {"tool_calls": [FULL], "content": None}, COMPLETION])
def test_tool_calls_in_short_and_in_full(tmp_path: Path, body: Any) -> None:
    reply, _ = exchange(tmp_path, json.dumps(body))
    (one,) = reply.message.tool_calls
    assert (one.name, json.loads(one.arguments)) == ("get_latest_records", {"table_name": "labevents"})
    assert one.id
    assert reply.finish_reason == "tool_calls"
    assert reply.usage_known == ("usage" in body)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ('{"content": "half', "1.reply.json: not JSON"),
        ("[1]", "not a JSON object"),
        ('{"text": "x"}', 'neither "content" nor "tool_calls"'),
        ('{"tool_calls": [{"arguments": {}}]}', "a tool call has no name"),
        ('{"tool_calls": "x"}', "tool_calls is not a list"),
    ],
)
def test_a_reply_that_cannot_be_read_is_complained_of_and_awaited_again(tmp_path: Path, bad: str, words: str) -> None:
    async def person() -> str:
        await answer(tmp_path, 1, bad)
        complaint = tmp_path / "1.error.txt"
        while not complaint.exists() or not complaint.read_text():
            await asyncio.sleep(0.01)
        said = complaint.read_text()
        await answer(tmp_path, 1, '{"content": "better"}')
        return said

    async def main() -> tuple[Reply, str]:
        return await asyncio.gather(RelayModel(tmp_path, timeout_seconds=10).complete(ask()), person())

    reply, said = asyncio.run(main())
    assert words in said
    assert said.count("\n") == 1
    assert reply.message.content == "better"
    assert not (tmp_path / "1.error.txt").exists()


def test_a_reply_that_is_being_written_is_not_complained_of(tmp_path: Path) -> None:
    """It grows a little between any two looks, and cannot be read until it is whole."""
    whole = json.dumps({"content": "x" * 300})
    complaints: list[bool] = []

    async def person() -> None:
        while not (tmp_path / "1.request.json").exists():
            await asyncio.sleep(0.001)
        for end in range(1, len(whole) + 1):
            (tmp_path / "1.reply.json").write_text(whole[:end])
            complaints.append((tmp_path / "1.error.txt").exists())
            await asyncio.sleep(0.001)

    async def main() -> Reply:
        reply, _ = await asyncio.gather(RelayModel(tmp_path, timeout_seconds=30).complete(ask()), person())
        return reply

    assert asyncio.run(main()).message.content == "x" * 300
    assert not any(complaints)


def test_nobody_answers(tmp_path: Path) -> None:
    model = open_model(ModelConfig(name=f"relay:{tmp_path}", relay_timeout_seconds=0.1))
    with pytest.raises(ProviderError, match=r"no readable 1\.reply\.json within 0\.1 s"):
        asyncio.run(asyncio.wait_for(model.complete(ask()), 5))


@pytest.mark.parametrize(("said", "known_as"), [({}, "relay"), ({"model": "a-colleague"}, "a-colleague")])
def test_a_reply_is_of_the_model_that_it_names(tmp_path: Path, said: Any, known_as: str) -> None:
    reply, _ = exchange(tmp_path, json.dumps({**COMPLETION, **said}))
    assert reply.model == known_as


def test_a_killed_run_finds_its_open_request_and_the_reply_given_meanwhile(tmp_path: Path) -> None:
    with pytest.raises(ProviderError):
        asyncio.run(RelayModel(tmp_path, timeout_seconds=0.05).complete(ask()))
    (tmp_path / "1.reply.json").write_text('{"content": "meanwhile"}')
    again = RelayModel(tmp_path, timeout_seconds=5)
    assert asyncio.run(again.complete(ask())).message.content == "meanwhile"
    asyncio.run(again.close())
    with pytest.raises(ProviderError, match=r"2\.reply\.json"):
        asyncio.run(RelayModel(tmp_path, timeout_seconds=0.05).complete(ask()))


def test_two_workers_share_a_folder_without_overwriting(tmp_path: Path) -> None:
    async def main() -> list[Reply]:
        workers = [RelayModel(tmp_path, timeout_seconds=10) for _ in range(2)]
        asked = [worker.complete(ask(episode=f"e{n}")) for worker in workers for n in range(5)]
        players = [answer(tmp_path, n, json.dumps({"content": f"reply {n}"})) for n in range(1, 11)]
        return (await asyncio.gather(*asked, *players))[:10]

    assert len({reply.message.content for reply in asyncio.run(main())}) == 10


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot make the folder"):
        RelayModel(tmp_path / "file" / "folder")


def test_a_request_says_whether_a_call_is_wanted(tmp_path: Path) -> None:
    _, asked = exchange(tmp_path, '{"content": "x"}', ask(tools=TOOLS, tool_choice="none"))
    assert asked["tool_choice"] == "none"
    again = tmp_path / "again"
    _, asked = exchange(again, '{"content": "x"}')
    assert asked["tool_choice"] == "auto"


def test_a_run_killed_before_it_wrote_a_reply_down_does_not_ask_again(tmp_path: Path) -> None:
    async def killed() -> Reply:
        model = RelayModel(tmp_path, timeout_seconds=5)
        reply, _ = await asyncio.gather(model.complete(ask(tools=TOOLS)), answer(tmp_path, 1, '{"content": "one"}'))
        return reply  # no close: the process is gone, its log has not written the reply yet

    async def resumed() -> Reply:
        model = RelayModel(tmp_path, timeout_seconds=5)
        reply = await model.complete(ask(tools=TOOLS))
        await model.close()
        return reply

    assert asyncio.run(killed()).message == asyncio.run(resumed()).message
    assert not (tmp_path / "2.request.json").exists()
    assert (tmp_path / "served.txt").read_text() == "1\n"
