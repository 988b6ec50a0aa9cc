"""ReasoningBank and evolved RetroSum: what was retrieved, for whom, and where it stands in the rendered prompts."""

from __future__ import annotations

import re

import pytest
from doubles import TASK, ListRecorder, PaperChart, check_wire, play, recall_of, settings_of
from memory_charts import chart_of, filled_memory
from test_nothing_to_reach import reached

from wardround.agents import Limits, Memory, Prompt, get_agent
from wardround.core import UserError
from wardround.memory import BankReader
from wardround.models import Request, ScriptedModel, call, say
from wardround.models.replay import Line
from wardround.records import Store


@pytest.fixture(scope="module")
def memory(synthetic_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    return filled_memory(synthetic_store, tmp_path_factory.mktemp("bank") / "bank.sqlite")


def six_turns(request: Request) -> Line:
    if not request.tools:
        return say("<summary>S</summary>")
    return (
        call("finish", response=["x"]) if request.ordinal >= 8 else call("get_rows", table_name=f"t{request.ordinal}")
    )


def played(
    name: str, memory: Memory, store: Store, *, task: str = "diagnoses", limits: Limits | None = None, **settings: int
) -> tuple[ScriptedModel, ListRecorder]:
    environment = PaperChart()
    environment.chart = chart_of(store)  # type: ignore[attr-defined]
    model, recorder = ScriptedModel(six_turns), ListRecorder()
    agent = get_agent(name, settings_of(name, window=3, **settings), memory=memory, recall=recall_of(**settings))
    prompt = Prompt(user=TASK.user, task=task)
    assert play(model, agent=agent, environment=environment, recorder=recorder, prompt=prompt, limits=limits).answer
    for request in model.requests:
        check_wire(request.messages)
    return model, recorder


def lessons(request: Request) -> list[str]:
    """The titles a request shows."""
    text = "\n".join(message.content or "" for message in request.messages)
    return re.findall(r"^\d+\. (.+)$", text, re.MULTILINE)


def split(model: ScriptedModel) -> tuple[list[Request], list[Request]]:
    """The actor's requests and the summariser's."""
    return [r for r in model.requests if r.tools], [r for r in model.requests if not r.tools]


@pytest.mark.parametrize(
    ("name", "actor", "summariser"),
    [
        ("retrosum", [], []),
        ("retrosum-evolved", ["actor lesson near"], ["summariser lesson near"]),
        ("retrosum-evolved-actor", ["actor lesson near"], []),
        ("retrosum-evolved-summariser", [], ["summariser lesson near"]),
    ],
)
def test_experiences_of_both_kinds_stand_in_the_rendered_prompts(
    name: str, actor: list[str], summariser: list[str], memory: Memory, synthetic_store: Store
) -> None:
    model, recorder = played(name, memory, synthetic_store)
    acting, summarising = split(model)
    assert len(summarising) == 2
    assert all(lessons(request) == actor for request in acting), "in every prompt of the actor (eq. 10)"
    assert all(lessons(request) == summariser for request in summarising), "in every one of the summariser (eq. 9)"
    assert len(recorder.of("experiences")) == bool(actor) + bool(summariser)


def test_reasoningbank_pins_the_strategies_of_the_nearest_case(memory: Memory, synthetic_store: Store) -> None:
    model, recorder = played("reasoningbank", memory, synthetic_store)
    assert all(lessons(request) == ["strategy near"] for request in model.requests)
    assert [message.role for message in model.requests[0].messages] == ["system", "user", "user"]
    [note] = recorder.of("experiences")
    assert (note["kind"], note["k"], len(note["served"])) == ("reasoning", 1, 1)
    assert note["served"][0]["similarity"] == pytest.approx(1.0)
    assert note["withheld"] == {"same_subject": 1, "split": 0}


def test_more_cases_are_retrieved_when_k_says_so_but_never_the_patients_own_or_a_test_samples(
    memory: Memory, synthetic_store: Store
) -> None:
    model, recorder = played("retrosum-evolved", memory, synthetic_store, k=10)
    acting, _ = split(model)
    assert lessons(acting[0]) == ["actor lesson near", "actor lesson far"]
    noted = {note["kind"]: note["withheld"] for note in recorder.of("experiences")}
    assert noted == {"actor": {"same_subject": 1, "split": 1}, "summariser": {"same_subject": 1, "split": 0}}
    served = {one["id"] for note in recorder.of("experiences") for one in note["served"]}
    titles = {one.id: one.title for one in memory.bank.experiences()}  # type: ignore[attr-defined]
    assert {titles[one] for one in served} == {
        "actor lesson near",
        "actor lesson far",
        "summariser lesson near",
        "summariser lesson far",
    }


def test_experiences_of_another_task_are_not_asked_for(memory: Memory, synthetic_store: Store) -> None:
    model, _ = played("retrosum-evolved", memory, synthetic_store, task="transfers")
    acting, summarising = split(model)
    assert lessons(acting[0]) == ["of another task"]
    assert lessons(summarising[0]) == []


@pytest.mark.parametrize(
    ("name", "whose"), [("retrosum-evolved-actor", 0), ("retrosum-evolved-summariser", 1)], ids=["actor", "summariser"]
)
def test_what_has_no_room_is_left_out_whole_and_noted(
    name: str, whose: int, memory: Memory, synthetic_store: Store
) -> None:
    limits = Limits(context_tokens=1800, reply_tokens=1000)
    model, recorder = played(name, memory, synthetic_store, limits=limits, k=10)
    shown = lessons(split(model)[whose][0])
    left_out = recorder.of("experiences_left_out")
    assert len(shown) + len(left_out[0]["left_out"]) == 2
    assert len(left_out[0]["left_out"]) >= 1


def test_an_environment_without_a_chart_is_told(memory: Memory) -> None:
    with pytest.raises(UserError, match="this environment has none"):
        play(ScriptedModel([]), agent=get_agent("reasoningbank", memory=memory))


@pytest.mark.parametrize("name", ["retrosum-evolved", "gsem-walk", "naive-rag"])
def test_an_agents_hooks_lead_to_no_bank(name: str, memory: Memory) -> None:
    """An episode has its agent and so its hooks: ``agent.hooks[0].args[0].bank`` offered anybody's experiences."""
    assert any(isinstance(one, BankReader) for one in reached(memory)), "the search finds one"
    agent = get_agent(name, memory=memory)
    held = reached(agent, [hook() for hook in agent.hooks])
    assert not [one for one in held if isinstance(one, Memory | BankReader)]
