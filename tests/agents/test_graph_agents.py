"""GSEM's agents: what is walked to, by rule and by a model, for whom, and how it stands in the actor's prompt."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from doubles import TASK, ListRecorder, PaperChart, check_wire, play
from memory_charts import SOURCE, chart_of, subjects

from wardround.agents import Memory, Prompt, get_agent, kinds_read
from wardround.core import UserError
from wardround.memory import (
    Bank,
    Edge,
    Experience,
    GraphRecallSettings,
    MemorySettings,
    PinnedBank,
    Provenance,
    Subject,
    text_key,
)
from wardround.models import Request, ScriptedModel, call, say
from wardround.models.replay import Line
from wardround.records import Store
from wardround.tools.retrieval import LexicalEncoder

ALL = MemorySettings(graph=GraphRecallSettings(serve_unchecked=True))
"""Conditions of invented experiences cannot be checked."""
QUESTION = Prompt(user=f"{TASK.user} Consider lactate in shock.", task="diagnoses")


def experience(bank: Bank, title: str, subject: int, **more: Any) -> Experience:
    fields: dict[str, Any] = {"kind": "indication", "condition": f"{title} suspected", "split": "train", **more}
    origin = Provenance(
        sample=f"sample-{title}",
        subject=bank.subject_hash(Subject(source=SOURCE, subject_id=subject)),
        split=fields.pop("split"),
    )
    return Experience(
        title=title,
        description="",
        content=f"{title}: do so.",
        task="treatments",
        task_type="treatment",
        provenance=origin,
        **fields,
    )


class Filled:
    """A bank in which one seed leads to everything: a good neighbour, its opposite, its boundary, and three that the
    first patient may not be offered."""

    def __init__(self, store: Store, path: Path) -> None:
        own, near, far, _ = subjects(store)
        encoder = LexicalEncoder()
        with Bank.open(path) as bank:
            self.seed = experience(bank, "lactate shock", near)
            self.good = experience(bank, "early source control", near, exclusions=("moribund",))
            self.opposite = experience(
                bank, "late source control", far, kind="contraindication", condition="source control is thought of"
            )
            self.boundary = experience(bank, "pressors", far, condition="shock of the heart")
            self.own = experience(bank, "own lesson", own)
            self.tested = experience(bank, "tested lesson", far, split="test")
            self.excluded = experience(bank, "excluded lesson", far, exclusions=("age >= 0",))
            made = [self.seed, self.good, self.opposite, self.boundary, self.own, self.tested, self.excluded]
            for one in made:
                bank.add([one], key=text_key(encoder, f"{one.condition} {one.content}"))
            edges = [Edge(source=self.seed.id, target=one.id, weight=0.9) for one in made[1:]]
            edges.append(Edge(source=self.good.id, target=self.opposite.id, weight=0.5, relation="conflict"))
            edges.append(Edge(source=self.good.id, target=self.boundary.id, weight=0.5, relation="boundary"))
            bank.set_graph(qualities={one.id: 0.9 for one in made} | {self.good.id: 0.95}, edges=edges, reason="r")
        self.memory = Memory(bank=PinnedBank.open(path), encoder=encoder)

    @property
    def barred(self) -> set[str]:
        return {self.own.id, self.tested.id, self.excluded.id}


@pytest.fixture(scope="module")
def filled(synthetic_store: Store, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    made = Filled(synthetic_store, tmp_path_factory.mktemp("graph") / "bank.sqlite")
    yield made
    made.memory.close()


def played(
    name: str, filled: Filled, store: Store, walker: Iterator[dict[str, str] | str] | None = None
) -> tuple[ScriptedModel, ListRecorder]:
    def reply(request: Request) -> Line:
        if request.tools:
            return call("finish", response=["x"])
        assert walker is not None, "no model call"
        step = next(walker)
        return say(step if isinstance(step, str) else json.dumps(step))

    environment = PaperChart()
    environment.chart = chart_of(store)  # type: ignore[attr-defined]
    model, recorder = ScriptedModel(reply), ListRecorder()
    agent = get_agent(name, memory=filled.memory, recall=ALL)
    assert play(model, agent=agent, environment=environment, recorder=recorder, prompt=QUESTION).answer
    for request in model.requests:
        check_wire(request.messages)
    return model, recorder


def noted(recorder: ListRecorder, kind: str) -> list[dict[str, Any]]:
    return [dict(detail) for name, detail in recorder.notes if name == kind]


def shown(model: ScriptedModel) -> str:
    (acting,) = [request for request in model.requests if request.tools]
    return next((message.content or "" for message in acting.messages if "INDICATION" in (message.content or "")), "")


@pytest.mark.parametrize("name", ["gsem-walk", "react+gsem-walk", "retrosum+gsem-walk"])
def test_the_walk_asks_no_model_and_the_actor_sees_polarity_scope_and_boundaries(
    name: str, filled: Filled, synthetic_store: Store
) -> None:
    model, recorder = played(name, filled, synthetic_store)
    assert len(model.requests) == 1
    text = shown(model)
    assert "INDICATION: early source control" in text
    assert "Not when: moribund [not checked]" in text
    assert "Boundary: something like it was learnt for another condition (shock of the heart)" in text
    assert "late source control" not in text, "of a conflict the better side"
    assert not re.search("own lesson|tested lesson|excluded lesson", text)
    (note,) = noted(recorder, "experiences")
    served = [one["id"] for one in note["served"]]
    assert {filled.seed.id, filled.good.id} <= set(served)
    assert not filled.barred & set(served)
    assert note["barred"][filled.excluded.id] == "age >= 0"
    because = {one["id"]: one["because"] for one in note["walk"]["passed"] if one["reason"] == "conflict"}
    assert because == {filled.opposite.id: filled.good.id}
    assert all(one["why"] for one in note["served"])


def test_the_model_walks_sees_ids_and_conditions_only_and_conflicts_it_collects_are_marked(
    filled: Filled, synthetic_store: Store
) -> None:
    # every path but the first stops at once; the first collects both sides of a conflict
    seeds = 4
    script = iter(
        [{"action": "COLLECT"}, *[{"action": "STOP"}] * (seeds - 1), {"action": "STOP"}],
    )
    model, recorder = played("gsem", filled, synthetic_store, script)
    steps = noted(recorder, "walk")
    assert [step["action"] for step in steps] == ["COLLECT", "STOP", "STOP", "STOP", "STOP"]
    walking = [request for request in model.requests if not request.tools]
    asked = [request.messages[-1].content or "" for request in walking]
    assert all(text.startswith("Your task now: walk.") for text in asked)
    assert filled.seed.content in asked[0]
    assert not any(one.id in text for text in asked for one in (filled.own, filled.tested, filled.excluded))
    (note,) = noted(recorder, "experiences")
    assert [one["id"] for one in note["served"]] == [steps[0]["at"]]
    assert (note["steps"], note["unreadable"], note["walker"]) == (5, 0, "model")
    assert "collected by the model" in note["served"][0]["why"]
    assert "INDICATION" in shown(model)


def test_both_sides_of_a_conflict_are_marked_where_the_model_collects_them(
    filled: Filled, synthetic_store: Store
) -> None:
    wanted = {filled.good.id, filled.opposite.id}

    def walker() -> Iterator[dict[str, str]]:
        while True:
            yield {"action": "COLLECT"} if place["here"] in wanted and place["may"] else {"action": "STOP"}

    place: dict[str, Any] = {}
    environment = PaperChart()
    environment.chart = chart_of(synthetic_store)  # type: ignore[attr-defined]
    steps = walker()

    def reply(request: Request) -> Line:
        if request.tools:
            return call("finish", response=["x"])
        text = request.messages[-1].content or ""
        place["here"] = re.search(r"stand at experience (\w+)", text)[1]  # type: ignore[index]
        place["may"] = "actions: COLLECT" in text
        return say(json.dumps(next(steps)))

    model = ScriptedModel(reply)
    recorder = ListRecorder()
    agent = get_agent("gsem", memory=filled.memory, recall=ALL)
    prompt = Prompt(user="early source control, late source control, lactate", task="diagnoses")
    assert play(model, agent=agent, environment=environment, recorder=recorder, prompt=prompt).answer
    text = shown(model)
    assert "INDICATION: early source control" in text
    assert "CONTRAINDICATION: late source control" in text
    assert len(re.findall(r"CONFLICT: number \d says the opposite", text)) == 2


def test_a_place_with_nothing_left_to_do_asks_no_model(filled: Filled, synthetic_store: Store) -> None:
    """Where every experience is collected as it is met, the paths come to places that can only be left."""
    script: Iterator[dict[str, str]] = iter([{"action": "COLLECT"}] * 99)
    environment = PaperChart()
    environment.chart = chart_of(synthetic_store)  # type: ignore[attr-defined]

    def reply(request: Request) -> Line:
        if request.tools:
            return call("finish", response=["x"])
        text = request.messages[-1].content or ""
        assert "Possible actions: STOP." not in text
        forward = re.search(r"EXPLORE one of:\n- (\w+):", text)
        if "actions: COLLECT" in text:
            return say(json.dumps(next(script)))
        return say(json.dumps({"action": "EXPLORE", "target": forward[1]} if forward else {"action": "STOP"}))

    recorder = ListRecorder()
    agent = get_agent("gsem", memory=filled.memory, recall=ALL)
    prompt = Prompt(user="early source control, late source control, lactate", task="diagnoses")
    assert play(ScriptedModel(reply), agent=agent, environment=environment, recorder=recorder, prompt=prompt).answer
    assert {"action": "STOP"}.items() <= noted(recorder, "walk")[-1].items()


def test_a_reply_that_cannot_be_used_is_asked_again_once_and_then_ends_its_path(
    filled: Filled, synthetic_store: Store
) -> None:
    script: Iterator[dict[str, str] | str] = iter(
        ["I would explore", {"action": "EXPLORE", "target": "nothing"}, *[{"action": "STOP"}] * 9]
    )
    model, recorder = played("gsem", filled, synthetic_store, script)
    first = noted(recorder, "walk")[0]
    assert first["action"] == "STOP"
    assert "EXPLORE is not possible here" in first["problem"]
    assert "could not be used" in (model.requests[1].messages[-1].content or "")
    (note,) = noted(recorder, "experiences")
    assert (note["unreadable"], note["served"]) == (1, [])


def test_who_reads_a_bank_is_known_by_name_and_needs_one(filled: Filled) -> None:
    assert kinds_read("react+gsem") == kinds_read("gsem-walk") == ("indication", "contraindication")
    assert kinds_read("retrosum-evolved+gsem") == ("actor", "summariser", "indication", "contraindication")
    assert kinds_read("react+rag") == ()
    with pytest.raises(UserError, match="needs a bank"):
        get_agent("react+gsem")
    prompts = get_agent("gsem", memory=filled.memory, recall=ALL).manifest()["prompts"]
    assert {"agents/gsem", "memory/served_graph"} <= set(prompts)
