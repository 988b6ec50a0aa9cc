"""Every method on the real log: cut off after any model call, it plays on to the same end without asking twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from doubles import PaperChart, play, settings_of
from memory_charts import TASK as TASK_NAME
from memory_charts import chart_of, filled_memory
from questions import READMISSION

from wardround.agents import Limits, Memory, Prompt, get_agent, list_agents
from wardround.log import EpisodeLog, LogReader
from wardround.models import Reply, Request, ScriptedModel, call, recorded_replies, resumed, say
from wardround.records import Store
from wardround.tools.retrieval import EvidenceIndex, LexicalEncoder

PROMPT = Prompt(user="Name the diagnoses.", task=TASK_NAME)
ASKED = replace(PROMPT, user="Will the patient be readmitted?", question=READMISSION)
EVIDENCE = ("react+rag", "retrosum+ether", *(method.name for method in list_agents() if method.paper == "ehr-rag"))
LIMITS = Limits(turns=7, context_tokens=6000, reply_tokens=600)
SETTINGS = {"window": 2, "final_summary": True}


@pytest.fixture(scope="module")
def memory(synthetic_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Memory:
    return filled_memory(synthetic_store, tmp_path_factory.mktemp("bank") / "bank.sqlite")


def speaking(request: Request) -> Reply:
    """Another action at every call, so that samples and reviews differ."""
    asked = request.messages[-1].content or ""
    if asked.startswith("Your task now: choose."):
        return say("Choice: 2")
    if asked.startswith("Your task now: rerank."):
        return say('["Hemoglobin", "Creatinine", "no such thing"]')
    if not request.tools and not asked.startswith("Your task now:"):
        return say(f"Answer: {request.ordinal % 2}")
    if not request.tools:
        return say(f"Written at call {request.ordinal}.")
    if len(request.tools) == 1:
        return call("finish", response=[str(request.ordinal % 2)])
    return call("get_rows", table_name=f"t{request.ordinal}", lines=60)


def chart(store: Store) -> PaperChart:
    environment = PaperChart()
    environment.chart = seen = chart_of(store)  # type: ignore[attr-defined]
    environment.evidence = EvidenceIndex(  # type: ignore[attr-defined]
        seen.event_columns(), as_of=seen.as_of, encoder=LexicalEncoder()
    )
    return environment


@pytest.mark.parametrize("name", dict.fromkeys([*(method.name for method in list_agents()), *EVIDENCE]))
def test_what_was_played_is_read_back_and_played_on_from_any_call(
    name: str, memory: Memory, synthetic_store: Store, tmp_path: Path
) -> None:
    agent = get_agent(name, settings_of(name, **SETTINGS), memory=memory)
    model = ScriptedModel(speaking)
    with EpisodeLog(tmp_path / "log.sqlite") as log:
        recorder = log.begin("e1", {})
        given = {"agent": agent, "limits": LIMITS, "prompt": ASKED if name in EVIDENCE else PROMPT}
        outcome = play(model, environment=chart(synthetic_store), recorder=recorder, **given)  # type: ignore[arg-type]
        recorder.finish(outcome.to_json())
    with LogReader(tmp_path / "log.sqlite") as reader:
        trajectory = reader.trajectory("e1")
        replies = recorded_replies(reader, "e1")
    assert [turn.prompt for turn in trajectory.turns] == [request.messages for request in model.requests]
    assert [turn.ordinal for turn in trajectory.turns] == list(range(outcome.model_calls)), "every call is recorded"
    assert sum(turn.purpose == "act" for turn in trajectory.turns) >= outcome.turns
    for kept in range(0, len(replies) + 1, 3):
        live = ScriptedModel(speaking)
        again = play(resumed(live, replies[:kept]), environment=chart(synthetic_store), **given)  # type: ignore[arg-type]
        assert (again.answer, again.turns, again.model_calls) == (outcome.answer, outcome.turns, outcome.model_calls)
        assert [request.messages for request in live.requests] == [r.messages for r in model.requests[kept:]]
