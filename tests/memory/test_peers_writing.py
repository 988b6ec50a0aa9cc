"""What each peer does to its memory and finds in it, by hand: links, evolution, merging, pruning, communities."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_doubles import Scripted, episode, origin, patient, turns

from wardround.memory import Bank, Experience, RecallQuestion, Subject, text_key, withdraw
from wardround.memory.construction import Attempt, Case
from wardround.memory.peer import (
    PEERS,
    USED,
    NewNote,
    NoteChanges,
    PeerAsking,
    PeerCase,
    PeerMemory,
    PeerSettings,
    Remembered,
    case_document,
    fused,
    note_of,
)
from wardround.memory.peers.a_mem import Attributes
from wardround.memory.peers.rag import communities_of
from wardround.tools.retrieval import LexicalEncoder

ENCODER = LexicalEncoder()


@pytest.fixture
def bank(tmp_path: Path) -> Iterator[Bank]:
    with Bank.open(tmp_path / "bank.sqlite") as opened:
        yield opened


def case_of(bank: Bank, subject: int, *, successes: int = 1, failures: int = 0, **changes: Any) -> Case:
    shown = turns(("get_latest_records", '{"table_name": "labevents"}', "labevents: 1 row\nPneumonia"))
    material = episode(messages=shown, **changes)
    outcomes = [True] * successes + [False] * failures
    attempts = tuple(
        Attempt(episode=f"e{number}", material=material, success=success, rows=((f"labevents:{subject}",),))
        for number, success in enumerate(outcomes)
    )
    return Case(provenance=origin(bank, subject), attempts=attempts, setting=("Lisinopril",))


def memory_of(bank: Bank, peer: str) -> PeerMemory:
    return PeerMemory(peer=peer, bank=bank, encoder=ENCODER, keyed_by=PEERS.get(peer).keyed_by)


def asking(**answers: Any) -> PeerAsking:
    return PeerAsking(asker=Scripted(**answers), model="scripted")


def settle(memory: PeerMemory, note: Experience, asked: PeerAsking | None = None) -> NoteChanges:
    changes = asyncio.run(PEERS.get(memory.peer).settle(note, memory, asked))
    memory.apply(changes)
    return changes


def remembered(bank: Bank, peer: str, text: str, subject: Subject | None = None, k: int = 5) -> list[Experience]:
    question = RecallQuestion(text=text, key=text_key(ENCODER, text))
    asked = PeerCase(
        peer=peer, bank=bank, subject=subject or patient(99), question=question, settings=PeerSettings(k=k)
    )
    return [one.note for one in PEERS.get(peer).recall(asked)][:k]


def test_a_document_tells_the_case_without_its_identifiers_within_its_room(bank: Bank) -> None:
    case = replace(
        case_of(bank, 1, failures=1, question="Which diagnoses has patient 10006?"), description="old " * 900
    )
    text = case_document(case, max_tokens=200)
    assert "Which diagnoses has patient #?" in text
    assert "(1 of 2 attempts succeeded)" in text
    assert "Right answer: Pneumonia | Acute renal" in text
    assert len(text) < 5 * 200


def test_ranks_are_fused_by_their_reciprocals(bank: Bank) -> None:
    one, two, three = (note_of(case_of(bank, n), "naive-rag", title=f"t{n}", content=f"c{n}") for n in (1, 2, 3))

    def ranked(*notes: Experience) -> list[Remembered]:
        return [Remembered(note=note, score=1.0, why="w") for note in notes]

    found = fused([ranked(one, two), ranked(two, three)])
    assert [(place.note.title, round(place.score, 6)) for place in found] == [
        ("t2", round(1 / 62 + 1 / 61, 6)),
        ("t1", round(1 / 61, 6)),
        ("t3", round(1 / 62, 6)),
    ]


# Links and evolution (A-Mem)


def a_note(bank: Bank, subject: int, keywords: Sequence[str], tags: Sequence[str]) -> Experience:
    attributes = Attributes(context=f"Case {subject}.", keywords=tuple(keywords), tags=tuple(tags))
    return note_of(case_of(bank, subject), "a-mem", title="A case", description=attributes.text, content="sepsis shock")


def test_by_rules_notes_that_share_two_keywords_are_linked_and_the_older_takes_over_tags(bank: Bank) -> None:
    memory = memory_of(bank, "a-mem")
    first = a_note(bank, 1, ["lactate", "pressors", "pus"], ["solved"])
    other = a_note(bank, 2, ["lactate", "fracture"], ["solved"])
    new = a_note(bank, 3, ["lactate", "pressors"], ["not solved"])
    for note in (first, other, new):
        settle(memory, note)
    live = {one.provenance.sample: one for one in memory.notes()}
    assert Attributes.of(live["sample-1"]).tags == ("solved", "not solved")
    assert live["sample-1"].facts["evolved_from"] == first.id
    assert live["sample-2"].id == other.id, "one shared keyword links nothing"
    assert [edge.target for edge in memory.links(new.id)] == [live["sample-1"].id]
    assert [edge.target for edge in memory.links(live["sample-1"].id)] == [new.id]
    assert {hand.sample for hand in memory.hands(live["sample-1"].id)} == {"sample-1", "sample-3"}
    assert memory.links(other.id) == ()


def test_a_model_links_and_rewrites_what_is_there_and_the_evolved_is_kept_from_both_patients(bank: Bank) -> None:
    memory = memory_of(bank, "a-mem")
    settle(memory, a_note(bank, 1, ["pus"], ["old"]))
    said = {"links": [1, 9], "evolved": [{"note": 1, "context": "Now known.", "tags": ["new"]}]}
    settle(memory, a_note(bank, 2, ["bone"], ["x"]), asking(a_mem_evolve=said))
    first, second = (next(one for one in memory.notes() if one.provenance.sample == f"sample-{n}") for n in (1, 2))
    assert first.description == "Now known.\nKeywords: pus\nTags: new"
    assert [edge.target for edge in memory.links(first.id)] == [second.id]
    for subject, seen in ((1, {second.id}), (2, set()), (99, {first.id, second.id})):
        assert {one.id for one in remembered(bank, "a-mem", "sepsis shock pus", patient(subject))} == seen


def test_links_move_with_a_note_that_evolves_again(bank: Bank) -> None:
    memory = memory_of(bank, "a-mem")
    keywords = ["lactate", "pressors"]
    for subject, tag in ((1, "a"), (2, "b"), (3, "c")):
        settle(memory, a_note(bank, subject, keywords, [tag]))
    live = {one.id: Attributes.of(one).tags for one in memory.notes()}
    assert sorted(live.values()) == [("a", "b", "c"), ("b", "c"), ("c",)]
    for one, other in combinations(live, 2):
        assert other in {edge.target for edge in memory.links(one)}
        assert one in {edge.target for edge in memory.links(other)}
    assert len(remembered(bank, "a-mem", "sepsis", k=2)) == 2, "the linked count among the k"


# Lessons, validated and pruned (ReMe)


def lesson(title: str, content: str) -> dict[str, str]:
    return {"source": "success", "title": title, "when_to_use": f"when {title}", "content": content}


def test_lessons_are_judged_before_they_are_kept(bank: Bank) -> None:
    asked = asking(reme_distil=[lesson("pus", "look"), lesson("bone", "film")], reme_validate=[0.29, 0.3])
    kept = asyncio.run(PEERS.get("reme").draw(case_of(bank, 1, failures=1), asked, PeerSettings()))
    assert [(one.title, one.facts["value"]) for one in kept] == [("bone", 0.3)]
    assert kept[0].provenance.model == "scripted"
    assert set(kept[0].provenance.prompts) == {"memory/reme_distil", "memory/reme_validate"}


def test_what_is_said_already_is_not_said_twice_and_what_does_not_help_is_dropped(bank: Bank) -> None:
    memory = memory_of(bank, "reme")

    def drawn(subject: int, content: str) -> Experience:
        return note_of(case_of(bank, subject), "reme", title="t", description="When: fever", content=content)

    helpful, harmful, young = (drawn(n, text) for n, text in enumerate(("culture the blood", "stop all", "wait"), 1))
    for note in (helpful, harmful, young, drawn(4, "Culture the blood.")):
        settle(memory, note)
    assert len(memory.notes()) == 3
    for note, outcomes in ((helpful, (1, 1, 1, 0, 0)), (harmful, (1, 1, 0, 0, 0)), (young, (0, 0, 0, 0))):
        for number, value in enumerate(outcomes):
            bank.add_feedback(note.id, USED, value=float(value), episode=f"e{number}")
    memory.apply(asyncio.run(PEERS.get("reme").close(memory, None)))
    assert {one.id for one in memory.notes()} == {helpful.id, young.id}
    assert bank.history(harmful.id)[-1].reason == "helped 2 of 5 times"


# The library (FLEX)


def item(bank: Bank, subject: int, zone: str, level: str, content: str) -> Experience:
    place = {"zone": zone, "level": level}
    return note_of(case_of(bank, subject), "flex", title=f"{zone} {level}", content=content, facts=place)


def test_items_are_added_under_the_level_above_and_merged_on_their_own_shelf(bank: Bank) -> None:
    memory = memory_of(bank, "flex")
    strategy = item(bank, 1, "golden", "strategy", "sepsis questions begin with cultures")
    pattern = item(bank, 2, "golden", "pattern", "in sepsis with pus read the cultures")
    warned = item(bank, 3, "warning", "pattern", "in sepsis with pus read the cultures")
    for note in (strategy, pattern, warned):
        settle(memory, note)
    assert [edge.target for edge in memory.links(pattern.id)] == [strategy.id]
    assert memory.links(warned.id) == (), "another zone is another shelf"
    new = item(bank, 4, "golden", "pattern", "sepsis with pus: cultures, then a scan")
    settle(memory, new, asking(flex_update={"action": "merge", "into": 1, "content": "cultures and a scan"}))
    (merged,) = [one for one in memory.notes() if one.content == "cultures and a scan"]
    assert {hand.sample for hand in memory.hands(merged.id)} == {"sample-2", "sample-4"}
    assert [edge.target for edge in memory.links(merged.id)] == [strategy.id], "it takes the place of what it replaces"
    assert not bank.liveness()(pattern.id)
    settle(memory, item(bank, 5, "golden", "pattern", "nothing"), asking(flex_update={"action": "skip"}))
    assert len(memory.notes()) == 3


def test_reading_goes_down_the_levels(bank: Bank) -> None:
    memory = memory_of(bank, "flex")
    texts = {
        "strategy": ("sepsis questions", "bone questions"),
        "pattern": ("sepsis pus cultures", "bone fracture film"),
        "case": ("sepsis pus cultures of an old man", "bone fracture film of a child"),
    }
    made = {}
    for level, contents in texts.items():
        for subject, content in enumerate(contents, start=1):
            made[content] = item(bank, subject, "golden", level, content)
            settle(memory, made[content])
    found = [one.content for one in remembered(bank, "flex", "sepsis pus", k=3)]
    assert found == ["sepsis questions", "sepsis pus cultures", "sepsis pus cultures of an old man"]


# Triplets (Mem0-graph)


def triplet(bank: Bank, subject: int, source: str, relation: str, target: str) -> Experience:
    facts = {"source": source, "relation": relation, "target": target}
    title = f"{source} - {relation} - {target}"
    return note_of(case_of(bank, subject), "mem0-graph", title=title, content=title, facts=facts)


def test_a_triplet_stands_once_and_goes_where_a_model_finds_it_contradicted(bank: Bank) -> None:
    memory = memory_of(bank, "mem0-graph")
    first, far = triplet(bank, 1, "sepsis", "is led by", "cultures"), triplet(bank, 1, "bone", "needs", "film")
    for note in (first, far, triplet(bank, 2, "sepsis", "is led by", "cultures")):
        settle(memory, note)
    assert [one.id for one in memory.notes()] == [first.id, far.id]
    asked = asking(mem0_graph_conflicts=[1, 7])
    new = triplet(bank, 3, "sepsis", "is not led by", "cultures")
    changes = settle(memory, new, asked)
    assert dict(changes.dropped) == {first.id: f"obsolete since {new.id}"}
    assert "bone" not in asked.asker.asked[0][1], "only what shares an end can be contradicted"
    assert [one.id for one in memory.notes()] == [far.id, new.id]


def test_triplets_are_found_by_the_entities_that_are_named_and_one_step_on(bank: Bank) -> None:
    memory = memory_of(bank, "mem0-graph")
    named = triplet(bank, 1, "sepsis", "shows", "lactate")
    beyond = triplet(bank, 2, "lactate", "rises with", "shock liver")
    elsewhere = triplet(bank, 3, "fracture", "shows on", "film")
    for note in (elsewhere, beyond, named):
        settle(memory, note)
    assert [one.id for one in remembered(bank, "mem0-graph", "What after sepsis?", k=2)] == [named.id, beyond.id]


def test_an_entity_is_named_where_all_of_its_words_are(bank: Bank) -> None:
    """The decoy shares more words with the question, and names none of its own entities in full."""
    memory = memory_of(bank, "mem0-graph")
    named = triplet(bank, 1, "septic shock", "shows", "high lactate in blood")
    decoy = triplet(bank, 2, "fluid given old people", "shows", "question given fluid")
    for note in (decoy, named):
        settle(memory, note)
    asked = "Which fluid is given to old men after a shock that is septic?"
    assert [one.id for one in remembered(bank, "mem0-graph", asked, k=2)] == [named.id, decoy.id]


# Communities and their reports (GraphRAG)


def test_two_triangles_joined_by_one_edge_are_two_communities() -> None:
    triangles = {pair: 1.0 for names in ("abc", "xyz") for pair in combinations(names, 2)}
    assert communities_of({**triangles, ("c", "x"): 1.0}) == [frozenset("abc"), frozenset("xyz")]
    assert communities_of({**triangles, ("c", "x"): 1.0, ("p", "q"): 0.1})[-1] == frozenset("pq")
    assert communities_of({}) == []


@given(st.permutations([*combinations("abcd", 2), *combinations("wxyz", 2), ("d", "w")]))
def test_communities_do_not_depend_on_the_order_of_edges(edges: list[tuple[str, str]]) -> None:
    assert communities_of(dict.fromkeys(edges, 1.0)) == [frozenset("abcd"), frozenset("wxyz")]


def graph_note(bank: Bank, subject: int, *names: str) -> Experience:
    relations = [[one, "with", other, 1.0] for one, other in combinations(sorted(names), 2)]
    facts = {"level": "case", "entities": list(names), "relations": relations}
    content = f"a case of {' and '.join(names)}"
    return note_of(case_of(bank, subject), "graphrag", title=f"Case {subject}", content=content, facts=facts)


def close(memory: PeerMemory, asked: PeerAsking | None = None) -> NoteChanges:
    changes = asyncio.run(PEERS.get("graphrag").close(memory, asked))
    memory.apply(changes)
    return changes


def reports(memory: PeerMemory) -> list[Experience]:
    return [one for one in memory.notes() if one.facts["level"] == "report"]


def test_a_community_that_cases_join_gets_one_report_and_a_new_one_when_it_grows(bank: Bank) -> None:
    memory = memory_of(bank, "graphrag")
    for subject, names in ((1, ("sepsis", "lactate")), (2, ("sepsis", "lactate")), (3, ("bone", "film"))):
        settle(memory, graph_note(bank, subject, *names))
    asked = asking(graphrag_report={"title": "Septic", "report": "They go together."})
    close(memory, asked)
    (first,) = reports(memory)
    assert (first.title, first.content) == ("Septic", "They go together.")
    assert first.facts["entities"] == ["lactate", "sepsis"]
    assert {hand.sample for hand in memory.hands(first.id)} == {"sample-1", "sample-2"}
    assert {row for seen in first.evidence for row in seen.rows} == {"labevents:1", "labevents:2"}
    again = close(memory, asked)
    assert (again.new, dict(again.dropped), asked.asker.count("graphrag_report")) == ((), {}, 1)
    settle(memory, graph_note(bank, 4, "sepsis", "pus"))
    close(memory)
    (second,) = reports(memory)
    assert second.facts["entities"] == ["lactate", "pus", "sepsis"]
    assert second.content == "lactate, with, sepsis (2). pus, with, sepsis (1)"


def test_a_report_by_rules_has_the_twelve_strongest_relations(bank: Bank) -> None:
    memory = memory_of(bank, "graphrag")
    names = ("f", "e", "d", "c", "b", "a")  # fifteen pairs
    for subject, some in ((1, names), (2, names), (3, ("e", "f"))):
        settle(memory, graph_note(bank, subject, *some))
    close(memory)
    (report,) = reports(memory)
    said = report.content.split(". ")
    assert (len(said), said[0], said[1]) == (12, "e, with, f (3)", "a, with, b (2)")


def test_a_report_goes_with_any_case_it_speaks_of_and_is_kept_from_all_their_patients(bank: Bank) -> None:
    memory = memory_of(bank, "graphrag")
    for subject in (1, 2):
        settle(memory, graph_note(bank, subject, "sepsis", "lactate"))
    close(memory)
    (report,) = reports(memory)
    for subject, seen in ((1, False), (2, False), (3, True)):
        found = remembered(bank, "graphrag", "sepsis lactate", patient(subject))
        assert (report.id in {one.id for one in found}) is seen
    assert found[0].id == report.id, "reports first"
    withdraw(bank, "sample-2", reason="asked to")
    assert [one.provenance.sample for one in memory.notes()] == ["sample-1"]


def test_local_search_puts_first_what_the_question_names_and_says_so(bank: Bank) -> None:
    """Words and vectors alone would put first the case that repeats the question's other words."""
    memory = memory_of(bank, "graphrag")
    facts: dict[str, Any] = {"level": "case", "relations": []}
    for subject, content, names in (
        (1, "what comes next what comes next", ("bone film", "next stone")),
        (2, "an old case", ("septic shock", "lactate")),
        (3, "another old case", ("septic shock",)),
    ):
        own = {**facts, "entities": list(names)}
        settle(memory, note_of(case_of(bank, subject), "graphrag", title=f"Case {subject}", content=content, facts=own))
    text = "Lactate in septic shock: what comes next"
    question = RecallQuestion(text=text, key=text_key(ENCODER, text))
    asked = PeerCase(peer="graphrag", bank=bank, subject=patient(99), question=question, settings=PeerSettings())
    found = [(one.note.title, one.why.rpartition("names ")[2]) for one in PEERS.get("graphrag").recall(asked)]
    assert found[:2] == [("Case 2", "septic shock, lactate"), ("Case 3", "septic shock")]
    assert found[2][0] == "Case 1"
    assert "stone" not in found[2][1]


def test_of_a_case_its_first_twelve_entities_stand_and_relations_between_them(bank: Bank) -> None:
    names = [f"Finding {number}" for number in range(1, 15)]
    pairs = (("finding 1", "Finding 12"), ("Finding 12", "Finding 13"), ("Finding 1", "stranger"))
    relations = [{"source": one, "relation": "with", "target": other, "strength": 3} for one, other in pairs]
    asked = asking(graphrag_extract={"entities": names, "relations": relations})
    (note,) = asyncio.run(PEERS.get("graphrag").draw(case_of(bank, 1), asked, PeerSettings()))
    assert note.facts["entities"] == [f"finding {number}" for number in range(1, 13)]
    assert note.facts["relations"] == [["finding 1", "with", "finding 12", 3.0]]


def test_a_step_is_done_once_under_its_mark_and_all_of_it_or_nothing(bank: Bank) -> None:
    memory = memory_of(bank, "naive-rag")
    note = note_of(case_of(bank, 1), "naive-rag", title="t", content="c")
    changes = NoteChanges(new=(NewNote(note=note),))
    assert memory.apply(changes, mark="m")
    revision = bank.revision
    assert not memory.apply(changes, mark="m")
    assert bank.revision == revision
    other = note_of(case_of(bank, 2), "naive-rag", title="u", content="d")
    with pytest.raises(Exception, match="no experience"):
        memory.apply(NoteChanges(new=(NewNote(note=other),), dropped={"nobody": "why"}), mark="n")
    assert [one.id for one in memory.notes()] == [note.id]
