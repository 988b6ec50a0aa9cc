"""``+probabilities``: every label is scored once after the answer, on what was read and nothing that was said."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

import pytest
from doubles import ListRecorder, play

from wardround.agents import Outcome, Prompt, get_agent
from wardround.core import ProviderError
from wardround.models import Reply, Request, ScriptedModel, call, say
from wardround.tasks.answers import AnswerKind, Candidates, OneClass, Question, SeveralClasses

YES_OR_NO = OneClass(classes=(("0", "no"), ("1", "yes")))


def prompt_for(kind: AnswerKind) -> Prompt:
    question = Question(
        name="icu",
        title="ICU",
        category="stay",
        description="Will the patient be in intensive care?",
        factual_query="shock",
        counterfactual_query="stable",
        prediction_time=datetime(2150, 1, 1),
        answer=kind,
    )
    return Prompt(user="Will the patient be in intensive care?", question=question)


def scoring_model(
    probability: Callable[[str], float | None] = lambda label: 0.3 if label == "1" else 0.1,
) -> ScriptedModel:
    """Reads once, finishes with "1", and holds each label as probable as it is told."""

    def line(request: Request) -> Reply:
        if request.response_schema is None:
            return call("get_rows", table_name="vitals") if request.ordinal == 0 else call("finish", response=["1"])
        (label,) = request.response_schema["enum"]
        value = probability(label)
        return replace(say(json.dumps(label)), token_logprobs=None if value is None else (math.log(value), 0.0))

    return ScriptedModel(line)


def played(
    model: ScriptedModel, kind: AnswerKind = YES_OR_NO, agent: str = "react+probabilities"
) -> tuple[Outcome, ListRecorder]:
    recorder = ListRecorder()
    return play(model, agent=get_agent(agent), prompt=prompt_for(kind), recorder=recorder), recorder


def test_labels_are_scored_after_the_answer_on_what_was_read() -> None:
    model = scoring_model()
    outcome, recorder = played(model)
    assert outcome.answer == ("1",)
    (note,) = recorder.of("probabilities")
    assert note["labels"] == pytest.approx({"0": 0.25, "1": 0.75})
    _, finished, *asked = model.requests
    assert [request.ordinal for request in asked] == [2, 3]
    for request in asked:
        assert request.messages[:-1] == finished.messages  # what was read, and not the call that answered
        assert '"1" (yes)' in str(request.messages[-1].content)
    assert [purpose for *_, purpose in recorder.turns] == ["act", "act", "label", "label"]
    assert outcome.model_calls == 4
    assert outcome.turns == 2


def test_where_the_endpoint_gives_none_the_reason_is_noted_and_one_call_is_lost() -> None:
    outcome, recorder = played(scoring_model(lambda label: None))
    assert outcome.answer == ("1",)
    assert recorder.of("probabilities") == [
        {"turn": 2, "unavailable": "the endpoint reports no log-probabilities of tokens"}
    ]
    assert outcome.model_calls == 3


def test_an_endpoint_that_fails_there_does_not_cost_the_answer() -> None:
    def line(request: Request) -> Reply | Exception:
        if request.response_schema is not None:
            return ProviderError("gone", status=500, attempts=1)
        return call("finish", response=["1"])

    outcome, recorder = played(ScriptedModel(line))
    assert outcome.answer == ("1",)
    assert outcome.finish == "finish"
    assert "gone" in recorder.of("probabilities")[0]["unavailable"]


@pytest.mark.parametrize(
    "kind", [Candidates(tables=("candidates",)), SeveralClasses(classes=(("0", "none"), ("1", "a"), ("2", "b")))]
)
def test_nothing_is_asked_where_no_one_label_holds(kind: AnswerKind) -> None:
    model = scoring_model()
    _, recorder = played(model, kind)
    assert not recorder.of("probabilities")
    assert all(request.response_schema is None for request in model.requests)


def test_methods_with_their_own_evidence_may_have_it() -> None:
    agent = get_agent("direct+probabilities")
    assert agent.title.endswith("with the probability of every label")
    assert "agents/ehr_rag" in agent.manifest()["prompts"]
