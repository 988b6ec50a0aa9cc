"""Agents with a peer's notes: what stands in the actor's prompt, and ReMe's rewriting for the case by a model."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from doubles import TASK, ListRecorder, PaperChart, play
from memory_charts import SOURCE, chart_of, subjects

from wardround.agents import Memory, Prompt, get_agent, kinds_read
from wardround.core import UserError
from wardround.memory import Bank, Experience, PinnedBank, Provenance, Subject, text_key
from wardround.memory.peer import PEERS
from wardround.models import Request, ScriptedModel, call, say
from wardround.models.replay import Line
from wardround.records import Store
from wardround.tools.retrieval import LexicalEncoder

QUESTION = Prompt(user=f"{TASK.user} Consider lactate in shock.", task="diagnoses")


def note(bank: Bank, peer: str, title: str, subject: int) -> Experience:
    origin = Provenance(
        sample=f"sample-{title}",
        subject=bank.subject_hash(Subject(source=SOURCE, subject_id=subject)),
        split="train",
    )
    words = f"{title}: lactate in shock"
    return Experience(
        kind="note",
        tool=peer,
        title=title,
        description=f"When: {words}",
        content=f"{words}, do so.",
        task="treatments",
        provenance=origin,
    )


@pytest.fixture(scope="module")
def memory(synthetic_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    own, *others = subjects(synthetic_store)
    path, encoder = tmp_path_factory.mktemp("peer") / "bank.sqlite", LexicalEncoder()
    with Bank.open(path) as bank:
        for peer in ("reme", "naive-rag"):
            made = [note(bank, peer, f"{peer} {name}", who) for name, who in zip("abc", others, strict=False)]
            for one in (*made, note(bank, peer, f"{peer} own", own)):
                bank.add([one], key=text_key(encoder, one.description))
    opened = Memory(bank=PinnedBank.open(path), encoder=encoder)
    yield opened
    opened.close()


def played(name: str, memory: Memory, store: Store, adapter: str | None = None) -> tuple[list[Request], ListRecorder]:
    def reply(request: Request) -> Line:
        if request.tools:
            return call("finish", response=["x"])
        assert adapter is not None, "no model call"
        return say(adapter)

    environment = PaperChart()
    environment.chart = chart_of(store)  # type: ignore[attr-defined]
    model, recorder = ScriptedModel(reply), ListRecorder()
    agent = get_agent(name, memory=memory)
    assert play(model, agent=agent, environment=environment, recorder=recorder, prompt=QUESTION).answer
    return model.requests, recorder


def shown(requests: list[Request]) -> str:
    (acting,) = [request for request in requests if request.tools]
    return next((text.content or "" for text in acting.messages if "From a memory of" in (text.content or "")), "")


@pytest.mark.parametrize("name", ["naive-rag", "react+naive-rag", "retrosum+naive-rag"])
def test_notes_of_other_patients_stand_before_the_first_turn(name: str, memory: Memory, synthetic_store: Store) -> None:
    requests, recorder = played(name, memory, synthetic_store)
    text = shown(requests)
    assert all(f"naive-rag {letter}" in text for letter in "abc")
    assert "own" not in text
    assert "reme" not in text
    (noted,) = [detail for kind, detail in recorder.notes if kind == "experiences"]
    assert noted["withheld"]["same_subject"] == 1
    assert "rank 1" in noted["served"][0]["why"]


def test_a_model_ranks_and_rewrites_lessons_for_the_case(memory: Memory, synthetic_store: Store) -> None:
    said = [{"lesson": 3, "advice": "First this."}, {"lesson": 1, "advice": "Then that."}, {"lesson": 8, "advice": "?"}]
    requests, recorder = played("reme", memory, synthetic_store, json.dumps(said))
    text = shown(requests)
    assert text.index("First this.") < text.index("Then that.")
    assert "do so" not in text
    assert "?" not in text
    (asked,) = [request for request in requests if not request.tools]
    assert "Lesson 3: reme" in (asked.messages[-1].content or "")
    assert [len(detail["ids"]) for kind, detail in recorder.notes if kind == "adapted"] == [2]


def test_what_cannot_be_read_leaves_the_lessons_as_they_were_recalled(memory: Memory, synthetic_store: Store) -> None:
    requests, recorder = played("reme", memory, synthetic_store, "I would rather talk.")
    assert "lactate in shock, do so." in shown(requests)
    assert [kind for kind, _ in recorder.notes if kind == "not_adapted"] == ["not_adapted"]


def test_vanilla_is_the_loop_of_all_of_them_without_a_memory() -> None:
    vanilla, with_notes = get_agent("vanilla"), PEERS.names
    assert kinds_read("vanilla") == ()
    assert (vanilla.system, vanilla.tools) == (get_agent("react").system, get_agent("react").tools)
    assert all(kinds_read(name) == kinds_read(f"react+{name}") == ("note",) for name in with_notes)
    with pytest.raises(UserError, match="a-mem needs a bank"):
        get_agent("a-mem")
