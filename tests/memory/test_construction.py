"""Construction: what is drawn from successes and failures, what may stand of a structure, what an edge weighs."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from memory_doubles import Scripted, episode, key, lesson, origin, turns

from wardround.core import FormatError, load_prompt
from wardround.memory import Bank, Entity, Experience, RoleEdge
from wardround.memory.construction import (
    CONSTRUCTION_PROMPTS,
    MOST_CALLS,
    AskingBudget,
    Attempt,
    Case,
    Comparing,
    Drafting,
    LinkSettings,
    NameIndex,
    draw_by_rules,
    edges_of,
    grounded_edges,
    grounded_entities,
    names_answer,
    nearest_success,
    normalise_names,
    relation_by_rule,
    says_the_same,
    with_structure,
)
from wardround.memory.construction.structure import allowed_edges
from wardround.memory.extract import Room

DRAFT = {
    "title": "Look for pus",
    "condition": "septic shock; age > 18",
    "exclusions": ["end of life care"],
    "content": "In septic shock read the culture early because source control changes the outcome.",
    "task_type": "diagnosis",
    "steps": [2],
}
DIVERGENCE = {
    "divergence_step": 1,
    "success_decision": "read the notes",
    "failure_decision": "stopped",
    "why_fatal": "nothing was read",
    "consequence": "missed",
}


@pytest.fixture
def bank(tmp_path: Path) -> Any:
    with Bank.open(tmp_path / "bank.sqlite") as opened:
        yield opened


def attempt(name: str, *, success: bool, tool: str = "get_latest_records", **changes: Any) -> Attempt:
    shown = turns((tool, '{"table_name": "radiology"}', f"radiology: 1 row\nPneumonia seen in {name}"))
    rows = (("radiology:1",), ("labevents:5", "labevents:6"))
    return Attempt(episode=name, material=episode(messages=shown, **changes), success=success, rows=rows)


def case(bank: Bank, *attempts: Attempt) -> Case:
    return Case(provenance=origin(bank, 1), attempts=attempts, setting=("Lisinopril",))


def test_successes_together_give_indications_with_their_evidence(bank: Bank) -> None:
    asker = Scripted(draw_indication=[DRAFT, {**DRAFT, "title": "Second", "steps": [99]}])
    found = asyncio.run(
        Drafting(asker=asker).indications(case(bank, attempt("a", success=True), attempt("b", success=True)))
    )
    assert [(one.kind, one.condition, one.task_type) for one in found] == [
        ("indication", "septic shock; age > 18", "diagnosis")
    ] * 2
    assert [(seen.step, seen.rows) for seen in found[0].evidence] == [
        (1, ("radiology:1",)),
        (2, ("labevents:5", "labevents:6")),
    ], "every row that was shown, once"
    assert [one.facts["cited_steps"] for one in found] == [[2], [99]]
    (asked,) = asker.asked
    assert "Attempt 2:" in asked[1]
    assert "seen in b" in asked[1]
    assert "Lisinopril" in asked[1]
    assert found[0].provenance.prompts.keys() == {"memory/indication"}
    assert asyncio.run(Drafting(asker=asker).indications(case(bank, attempt("a", success=False)))) == ()


def test_every_failure_gives_one_contraindication_by_way_of_its_divergence(bank: Bank) -> None:
    asker = Scripted(find_divergence=DIVERGENCE, draw_contraindication={**DRAFT, "steps": []})
    near, far = attempt("near", success=True), attempt("far", success=True, tool="run_sql")
    failure = attempt("bad", success=False)
    made = asyncio.run(Drafting(asker=asker).contraindication(case(bank, far, near, failure), failure))
    assert made.kind == "contraindication"
    assert made.facts["divergence"] == DIVERGENCE
    assert made.facts["nearest_success"] == "near"
    assert made.facts["cited_steps"] == [1], "the step where it parted"
    assert "Acute renal failure" in asker.asked[0][1], "divergence knows the right answer"
    assert nearest_success(failure, ()) is None


def test_a_case_in_which_nothing_succeeded_is_compared_with_the_right_answer(bank: Bank) -> None:
    asker = Scripted(find_divergence=DIVERGENCE, draw_contraindication=DRAFT)
    failure = attempt("bad", success=False)
    made = asyncio.run(Drafting(asker=asker).contraindication(case(bank, failure), failure))
    assert "No attempt at this question succeeded" in asker.asked[0][1]
    assert (made.facts["nearest_success"], made.facts["successes"]) == ("", 0)


def test_a_reply_is_repaired_once_and_texts_that_name_their_answer_are_known(bank: Bank) -> None:
    replies = iter(["nothing", [{**DRAFT, "content": "It is acute renal failure."}]])
    asker = Scripted(draw_indication=lambda text: next(replies))
    (made,) = asyncio.run(Drafting(asker=asker).indications(case(bank, attempt("a", success=True))))
    assert made.facts["names_answer"] is True
    assert len(asker.asked) == 2
    with pytest.raises(FormatError, match="draw_indication"):
        asyncio.run(Drafting(asker=Scripted(draw_indication="no")).indications(case(bank, attempt("a", success=True))))
    assert not names_answer("renal trouble", ("Acute renal failure",))


def test_of_a_structure_only_what_is_in_the_text_short_and_within_its_role_stands(bank: Bank) -> None:
    made = lesson(
        bank,
        "shock",
        1,
        kind="indication",
        condition="septic shock; old age; fever",
        content="Read cultures and give antibiotics early because delay kills.",
    )
    named = [
        ("Septic  Shock", "condition"),
        ("fevers", "condition"),
        ("old age", "condition"),
        ("septic shock", "action"),
        ("lactate", "condition"),
        ("cultures and give antibiotics", "action"),
        ("antibiotics", "action"),
        ("delay", "rationale"),
    ]
    entities, left_out = grounded_entities([{"entity": name, "role": role} for name, role in named], made)
    assert [(one.name, one.role) for one in entities] == [
        ("septic shock", "condition"),
        ("fevers", "condition"),
        ("antibiotics", "action"),
        ("delay", "rationale"),
    ]
    assert left_out == {"one too many": 1, "named twice": 1, "not in the text": 1, "not 1 to 3 words": 1}
    joined = [("septic shock", "antibiotics"), ("antibiotics", "fevers"), ("delay", "antibiotics"), ("x", "delay")]
    edges, refused = grounded_edges([{"from": one, "to": other} for one, other in joined], entities)
    assert edges == (
        RoleEdge(source="septic shock", target="antibiotics"),
        RoleEdge(source="delay", target="antibiotics"),
    )
    assert refused == {"edge not allowed": 1, "edge of no entity": 1}
    assert len(allowed_edges()) == 15


def test_structure_takes_two_calls_and_a_model_that_writes_none_leaves_the_experience_as_it_is(bank: Bank) -> None:
    made = lesson(bank, "shock", 1, kind="indication", condition="septic shock", content="give antibiotics")
    named = {"entities": [{"entity": "septic shock", "role": "condition"}, {"entity": "antibiotics", "role": "action"}]}
    asker = Scripted(find_entities=named, find_role_edges={"edges": [{"from": "septic shock", "to": "antibiotics"}]})
    budget = AskingBudget()
    parsed = asyncio.run(with_structure(asker, made, budget=budget))
    assert (parsed.id, len(parsed.entities), len(parsed.role_edges), budget.calls) == (made.id, 2, 1, 2)
    bad = Scripted(find_entities="no")
    assert asyncio.run(with_structure(bad, made, budget=AskingBudget())) == made
    assert bad.notes[0][0] == "structure_failed"


def polar(bank: Bank, title: str, kind: str = "indication", names: str = "", **more: Any) -> Experience:
    entities = tuple(
        Entity(name=name, role="condition" if place == 0 else "action")
        for place, name in enumerate(names.split(",") if names else [])
    )
    edges = (RoleEdge(source=entities[0].name, target=entities[1].name),) if len(entities) > 1 else ()
    fields = {"condition": f"{title} seen", "content": f"{title}: do it", **more}
    return lesson(bank, title, 1, kind=kind, entities=entities, role_edges=edges, **fields)


def test_names_are_normalised_as_they_come_by_rule_by_table_and_by_one_question(bank: Bank) -> None:
    asker = Scripted(same_name=lambda text: {"same": [1, 77]})
    names = NameIndex(bank)
    for made in (
        polar(bank, "a", names="septic shock,atrial fibrillation"),
        polar(bank, "b", names="shock septic,acute kidney injury"),
        polar(bank, "c", names="septic shocks,acute renal injury"),
    ):
        bank.add([made])
        asyncio.run(normalise_names(bank, names, made, asker=asker, budget=AskingBudget()))
    graph = bank.graph()
    assert {graph.entity(name) for name in ("septic shock", "shock septic", "septic shocks")} == {"septic shock"}
    assert graph.entity("acute renal injury") == "acute kidney injury"
    assert asker.count("same_name") == 1
    assert "acute renal injury / acute kidney injury" in asker.asked[0][1]


def test_names_are_near_that_share_half_of_their_words(bank: Bank) -> None:
    names = NameIndex(bank)
    for name in ("acute kidney injury", "injury", "acute renal injury of the kidney", "kidney stone", "kidney"):
        names.add(name)
    assert names.near("acute renal injury") == ["acute kidney injury", "acute renal injury of the kidney"]
    assert names.near("kidney stone") == ["kidney"], "one of two words; of four words it would be too few"


def test_a_question_about_names_that_is_not_answered_is_noted_and_joins_nothing(bank: Bank) -> None:
    names = NameIndex(bank)
    for title, meant in (("a", "acute kidney injury"), ("b", "acute renal injury")):
        made = polar(bank, title, names=meant)
        bank.add([made])
        asker = Scripted(same_name="I cannot say")
        budget = AskingBudget()
        assert asyncio.run(normalise_names(bank, names, made, asker=asker, budget=budget)) == 0
    assert [kind for kind, _ in asker.notes] == ["names_failed"]
    assert bank.graph().entity("acute renal injury") == "acute renal injury"


def test_several_attempts_share_the_room_of_one_prompt(bank: Bank) -> None:
    """Four attempts of 30 long turns each: together they fit, and the newest turn of each is still there."""
    shown = turns(*[("run_sql", "{}", f"turn {number} " + "word " * 400) for number in range(30)])
    attempts = [replace(attempt(name, success=True), material=episode(messages=shown)) for name in "abcd"]
    asker = Scripted(draw_indication=[DRAFT])
    room = Room(context_tokens=6_000, reply_tokens=1_000)
    asyncio.run(Drafting(asker=asker, room=room).indications(case(bank, *attempts)))
    ((_, text),) = asker.asked
    assert 2_500 < room.count(text) <= 5_000
    assert text.count("result of run_sql: turn 29") == 4


def test_an_edge_weighs_what_equation_5_says_and_what_nobody_judged_is_left_out(bank: Bank) -> None:
    first = polar(bank, "alpha", names="septic shock,antibiotics")
    second = polar(bank, "alpha beta", names="septic shock,cultures")
    bank.add([first], key=key(1, 0))
    bank.add([second], key=key(1, 0.1))
    parts = Comparing(bank).components(first, second)
    # of 2 experiences both speak of septic shock (idf ln(3/3)+1 = 1), one each of the others (ln(3/2)+1)
    rare = math.log(1.5) + 1
    assert parts.entity == pytest.approx(1 / (1 + rare**2))
    assert parts.structure == pytest.approx(0.1), "the same path of one edge, none longer: 1/10 of equation 14"
    assert parts.task == 1.0
    cheap = LinkSettings(synergy="unjudged")
    edges = asyncio.run(
        edges_of(bank, second, comparing=Comparing(bank), asker=None, settings=cheap, budget=AskingBudget())
    )
    weight = (parts.entity + parts.structure + 1.0) / 3
    assert [(one.source, one.target, one.synergy) for one in edges] == [
        (second.id, first.id, None),
        (first.id, second.id, None),
    ]
    assert edges[0].weight == pytest.approx(weight)
    judged = Scripted(judge_joint_use={"joint_use": 0.2, "relation": "related"})
    (edge, _) = asyncio.run(
        edges_of(bank, second, comparing=Comparing(bank), asker=judged, settings=LinkSettings(), budget=AskingBudget())
    )
    assert edge.weight == pytest.approx((parts.entity + parts.structure + 0.2 + 1.0) / 4)
    assert edge.synergy == 0.2
    high = LinkSettings(threshold=0.9)
    assert (
        asyncio.run(
            edges_of(bank, second, comparing=Comparing(bank), asker=judged, settings=high, budget=AskingBudget())
        )
        == []
    )
    published = Scripted(judge_similarity={"similarity": 1})
    (alike, _) = asyncio.run(
        edges_of(
            bank,
            second,
            comparing=Comparing(bank),
            asker=published,
            settings=LinkSettings(synergy="similarity"),
            budget=AskingBudget(),
        )
    )
    assert alike.synergy == 1.0


def test_nobody_is_asked_about_a_pair_that_no_judgement_could_join(bank: Bank) -> None:
    first = polar(bank, "alpha", task_type="treatment")
    second = polar(bank, "alpha beta gamma")
    bank.add([first])
    bank.add([second])
    asker = Scripted()
    assert (
        asyncio.run(
            edges_of(
                bank, second, comparing=Comparing(bank), asker=asker, settings=LinkSettings(), budget=AskingBudget()
            )
        )
        == []
    )
    assert asker.asked == []


def test_boundaries_and_conflicts_are_edges_whatever_they_weigh(bank: Bank) -> None:
    base = polar(bank, "x", condition="septic shock; lactate > 4", content="give fluids early and measure again")
    against = polar(
        bank,
        "y",
        "contraindication",
        condition="septic shock; lactate > 4",
        content="hold fluids",
        task_type="treatment",
    )
    elsewhere = polar(bank, "z", condition="heart failure", content="give fluids early and measure again")
    assert relation_by_rule(base, against) == "conflict"
    assert relation_by_rule(base, elsewhere) == "boundary"
    assert relation_by_rule(base, polar(bank, "w", condition="gout", content="ask about diet")) == "related"
    for made in (against, elsewhere, base):
        bank.add([made])
    high = LinkSettings(threshold=0.99, synergy="unjudged")
    edges = asyncio.run(
        edges_of(bank, base, comparing=Comparing(bank), asker=None, settings=high, budget=AskingBudget())
    )
    assert {(one.source, one.target): one.relation for one in edges} == {
        (base.id, against.id): "conflict",
        (against.id, base.id): "conflict",
        (base.id, elsewhere.id): "boundary",
        (elsewhere.id, base.id): "boundary",
    }
    asker = Scripted(judge_joint_use={"joint_use": 1, "relation": "conflict"})
    judged = asyncio.run(
        edges_of(bank, base, comparing=Comparing(bank), asker=asker, settings=LinkSettings(), budget=AskingBudget())
    )
    assert {one.relation for one in judged if elsewhere.id in (one.source, one.target)} == {"boundary"}


@pytest.mark.parametrize("bad", [False, True])
def test_an_experience_takes_at_most_twelve_calls_however_large_the_bank_is(bank: Bank, bad: bool) -> None:
    words = ("shock", "fluids", "lactate", "cultures")
    for number in range(40):
        bank.add([polar(bank, f"shock {words[number % 4]} {number}", names=f"shock,{words[number % 4]} {number}")])
    new = polar(bank, "shock fluids", condition="shock fluids", content="shock fluids lactate cultures")
    named = {"entities": [{"entity": "shock", "role": "condition"}, {"entity": "fluids", "role": "action"}]}
    replies: dict[str, Any] = {
        "find_entities": named,
        "find_role_edges": {"edges": [{"from": "shock", "to": "fluids"}]},
        "same_name": {"same": []},
        "judge_joint_use": "unreadable" if bad else {"joint_use": 1},
    }
    asker, budget, settings = Scripted(**replies), AskingBudget(), LinkSettings()

    async def built() -> list[Any]:
        made = await with_structure(asker, new, budget=budget)
        bank.add([made])
        await normalise_names(bank, NameIndex(bank), made, asker=asker, budget=budget)
        return await edges_of(bank, made, comparing=Comparing(bank), asker=asker, settings=settings, budget=budget)

    asyncio.run(built())
    assert len(asker.asked) == budget.calls
    assert 8 < budget.calls <= MOST_CALLS
    assert (budget.refused > 0) == bad


def test_what_says_the_same_is_one(bank: Bank) -> None:
    said = "Give the antibiotics early after cultures were drawn"
    first = polar(bank, "x", condition="septic shock; fever", content=said)
    other = "Give antibiotics early, after the cultures were drawn."
    assert says_the_same(first, polar(bank, "y", condition="fever; septic shock", content=other))
    assert not says_the_same(first, polar(bank, "z", "contraindication", condition=first.condition, content=said))
    assert not says_the_same(first, polar(bank, "z", condition="gout", content=said))
    narrower = polar(bank, "z", condition=first.condition, content=said, exclusions=("allergy",))
    assert not says_the_same(first, narrower)


def test_rules_draw_without_a_model_and_never_write_the_answer(bank: Bank) -> None:
    good = Attempt(episode="a", material=episode(), success=True)
    lazy = turns(("get_latest_records", '{"table_name": "transfers"}', "transfers: 1 row\nWard"))
    bad = Attempt(episode="b", material=episode(messages=lazy), success=False)
    found = draw_by_rules(case(bank, good, bad))
    assert [(one.kind, one.title) for one in found] == [
        ("indication", "Start from labevents, radiology"),
        ("contraindication", "Finishing without labevents, radiology"),
    ]
    assert all(one.provenance.model == "construction-rules-1" for one in found)
    assert all(one.condition == "diagnoses question; Lisinopril" for one in found)
    assert not any(names_answer(f"{one.title} {one.content}", episode().target) for one in found)
    (alone,) = draw_by_rules(case(bank, bad))
    assert alone.title == "Settling after transfers"


def test_every_prompt_of_construction_is_there() -> None:

    assert len({load_prompt("wardround.memory", name).sha256 for name in CONSTRUCTION_PROMPTS}) == 8
