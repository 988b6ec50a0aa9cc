"""The package mem0ai behind our model, encoder and bank: what it adds, changes, deletes; nothing is sent."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any

import pytest
from memory_doubles import Conversations

from extras import needs
from wardround.core import ProviderError
from wardround.memory import Bank

pytestmark = needs("mem0")


def actions(*said: tuple[str, str, str]) -> dict[str, Any]:
    return {"memory": [{"id": number, "text": text, "event": event} for number, text, event in said]}


def test_facts_are_added_updated_with_both_hands_and_deleted_and_nothing_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[Any] = []
    monkeypatch.setattr(socket.socket, "connect", lambda *arguments: sent.append(arguments))
    monkeypatch.setattr(socket, "getaddrinfo", lambda *arguments, **_: sent.append(arguments))
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        talk = Conversations(bank, "mem0")
        first = talk.told(
            1,
            mem0_extract={"facts": ["lactate guides sepsis", "films show bones"]},
            mem0_update=actions(("0", "lactate guides sepsis", "ADD"), ("1", "films show bones of 1234567", "ADD")),
        )
        assert [purpose for purpose, _ in first.asked] == ["mem0_extract", "mem0_update"]
        assert set(talk.facts) == {"lactate guides sepsis", "films show bones of #"}
        second = talk.told(
            2,
            mem0_extract={"facts": ["lactate and cultures guide sepsis"]},
            mem0_update=actions(("0", "lactate and cultures guide sepsis", "UPDATE"), ("1", "films", "DELETE")),
        )
        assert "lactate guides sepsis" in second.asked[1][1], "it is shown what is near in our bank"
        (fact,) = talk.facts.values()
        assert fact.content == "lactate and cultures guide sepsis"
        assert {hand.sample for hand in bank.hands(fact.id)} == {"sample-1", "sample-2"}
        assert fact.evidence
    assert sent == []
    assert "MEM0_DIR" not in os.environ


def test_an_endpoint_that_fails_is_told_of_although_the_package_keeps_it_to_itself(tmp_path: Path) -> None:
    def fails(_: str) -> Any:
        raise ProviderError("the endpoint is gone")

    with Bank.open(tmp_path / "bank.sqlite") as bank:
        talk = Conversations(bank, "mem0")
        with pytest.raises(ProviderError, match="is gone"):
            talk.told(1, mem0_extract={"facts": ["a fact"]}, mem0_update=fails)
        assert talk.facts == {}


def test_what_the_package_cannot_read_gives_nothing(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        talk = Conversations(bank, "mem0")
        talk.told(1, mem0_extract="no JSON at all", mem0_update={})
        assert talk.facts == {}
