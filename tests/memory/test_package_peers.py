"""The packages graphiti-core (Zep) and langmem behind our model, encoder and bank: what they add, change and drop;
nothing is sent. In a Python of their own (``make test-exports``)."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from memory_doubles import Conversations

from extras import needs
from wardround.core import FormatError, ProviderError, UserError
from wardround.memory import Bank
from wardround.memory.peer import PeerAsking, PeerMemory
from wardround.memory.peers.packages import FactChanges, package_peer

with_zep = needs("graphiti_core", "kuzu")
with_langmem = needs("langmem")
SCRATCH = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    with Bank.open(tmp_path / "bank.sqlite") as one:
        yield one


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing looks for a host."""
    looked_up: list[Any] = []
    monkeypatch.setattr(socket, "getaddrinfo", lambda *arguments, **_: looked_up.append(arguments))
    yield
    assert looked_up == []


class Graph:
    """What a model says of one relation, step by step, as the package's prompts ask."""

    def __init__(self, fact: str, *, since: str | None = None, ends: str = "") -> None:
        self.fact, self.since, self.ends = fact, since, ends

    def __call__(self, prompt: str) -> Any:
        if '"title": "ExtractedEntities"' in prompt:
            return {"extracted_entities": [{"name": name, "entity_type_id": 0} for name in ("lactate", "sepsis")]}
        if '"title": "ExtractedEdges"' in prompt:
            ends = {"source_entity_name": "lactate", "target_entity_name": "sepsis"}
            return {"edges": [{**ends, "relation_type": "GUIDES", "fact": self.fact}]}
        if '"title": "EdgeDuplicate"' in prompt:
            facts = re.findall(r"'idx': (\d+), 'fact': '([^']*)'", prompt)
            ended = [int(number) for number, fact in facts if fact == self.ends]
            return {"duplicate_facts": [], "contradicted_facts": ended}
        assert '"title": "EdgeTimestamps"' in prompt, prompt[-400:]
        return {"valid_at": self.since, "invalid_at": None}


@pytest.mark.parametrize("peer", [("zep", "graphiti_core"), ("langmem", "langmem")])
def test_without_its_package_a_peer_names_the_extra(bank: Bank, peer: tuple[str, str]) -> None:
    name, package = peer
    if find_spec(package) is not None:
        pytest.skip("the package is there")
    with pytest.raises(UserError, match=rf"filling this memory by a model .* needs the extra \[{name}\]"):
        Conversations(bank, name).told(1)


def test_what_a_package_adds_changes_and_deletes_becomes_notes(bank: Bank) -> None:
    async def write(content: str, memory: PeerMemory, asking: PeerAsking) -> FactChanges:
        known = {note.content: note.id for note in memory.notes()}
        if not known:
            return FactChanges(added={"lactate guides sepsis of 1234567": {"about": "sepsis"}, "films": {}, "age": {}})
        updated = {known["lactate guides sepsis of #"]: "cultures guide sepsis"}
        return FactChanges(added={"rest": {}}, updated=updated, deleted={known["films"]: "contradicted"})

    talk = Conversations(bank, package_peer("mine", write, title="Mine", differences=("none",)))
    talk.told(1)
    assert {text: dict(fact.facts) for text, fact in talk.facts.items()} == {
        "lactate guides sepsis of #": {"extracted": True, "about": "sepsis"},
        "films": {"extracted": True},
        "age": {"extracted": True},
    }
    talk.told(2)
    assert set(talk.facts) == {"cultures guide sepsis", "age", "rest"}
    assert {hand.sample for hand in bank.hands(talk.facts["cultures guide sepsis"].id)} == {"sample-1", "sample-2"}
    assert {hand.sample for hand in bank.hands(talk.facts["age"].id)} == {"sample-1"}


@with_zep
@SCRATCH
def test_zep_adds_facts_and_ends_those_that_a_later_case_contradicts(bank: Bank) -> None:
    talk = Conversations(bank, "zep")
    talk.told(1, zep=Graph("lactate alone guides sepsis of 1234567"))
    (fact,) = talk.facts.values()
    assert fact.content == "lactate alone guides sepsis of #"
    assert {name: fact.facts[name] for name in ("source", "relation", "target")} == {
        "source": "lactate",
        "relation": "GUIDES",
        "target": "sepsis",
    }
    assert fact.evidence
    talk.told(2, zep=Graph("cultures guide sepsis beside lactate"))
    assert set(talk.facts) == {"lactate alone guides sepsis of #", "cultures guide sepsis beside lactate"}
    ends = "lactate alone guides sepsis of #"
    talk.told(3, zep=Graph("lactate never guides sepsis alone", since="2001-01-01T00:00:00Z", ends=ends))
    assert set(talk.facts) == {"lactate never guides sepsis alone", "cultures guide sepsis beside lactate"}


@with_zep
@SCRATCH
def test_zep_reports_what_cannot_be_read_and_what_an_endpoint_raises(bank: Bank) -> None:
    def fails(_: str) -> Any:
        raise ProviderError("the endpoint is gone")

    talk = Conversations(bank, "zep")
    with pytest.raises(FormatError, match="zep"):
        talk.told(1, zep="no JSON at all")
    with pytest.raises(ProviderError, match="is gone"):
        talk.told(1, zep=fails)
    assert talk.facts == {}


@with_langmem
@SCRATCH
def test_langmem_adds_patches_and_removes(bank: Bank) -> None:
    talk = Conversations(bank, "langmem")
    added = [
        {"name": "Memory", "args": json.dumps({"content": text})}
        for text in ("lactate guides sepsis of 1234567", "films")
    ]
    first = talk.told(1, langmem_calls=added)
    assert set(talk.facts) == {"lactate guides sepsis of #", "films"}
    assert '"name": "Memory"' in first.asked[0][1]
    lactate, films = (talk.facts[text].id for text in ("lactate guides sepsis of #", "films"))
    patch = {"op": "replace", "path": "/content", "value": "lactate and cultures guide sepsis"}
    patched = {"json_doc_id": lactate, "planned_edits": "add cultures", "patches": [patch]}
    calls = [
        {"name": "PatchDoc", "args": json.dumps(patched)},
        {"name": "RemoveDoc", "args": json.dumps({"json_doc_id": films})},
    ]
    second = talk.told(2, langmem_calls=calls)
    assert "lactate guides sepsis" in second.asked[0][1], "it is shown what is near in our bank"
    (fact,) = talk.facts.values()
    assert fact.content == "lactate and cultures guide sepsis"
    assert {hand.sample for hand in bank.hands(fact.id)} == {"sample-1", "sample-2"}
    talk.told(3, langmem_calls=[])
    assert set(talk.facts) == {"lactate and cultures guide sepsis"}


@with_langmem
@SCRATCH
def test_langmem_reports_what_cannot_be_read_and_what_an_endpoint_raises(bank: Bank) -> None:
    def fails(_: str) -> Any:
        raise ProviderError("the endpoint is gone")

    talk = Conversations(bank, "langmem")
    with pytest.raises(FormatError, match="langmem_calls"):
        talk.told(1, langmem_calls="no JSON at all")
    with pytest.raises(ProviderError, match="is gone"):
        talk.told(1, langmem_calls=fails)
    assert talk.facts == {}
    memory = {"name": "Memory", "args": json.dumps({"content": "films"})}
    talk.told(1, langmem_calls=[memory])
    broken = [memory, {"name": "PatchDoc", "args": "json_doc_id"}]  # what a small model wrote, again and again
    with pytest.raises(FormatError, match="no JSON object"):
        talk.told(2, langmem_calls=broken)
    with pytest.raises(ProviderError, match="is gone"):
        talk.told(2, langmem_calls=fails)
    assert set(talk.facts) == {"films"}
