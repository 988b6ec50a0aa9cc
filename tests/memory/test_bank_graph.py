"""What the graph of a bank says comes back, as of any revision; a bank of another schema is refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from memory_doubles import key, lesson, origin, patient, served_hash, titles

from wardround.core import UserError
from wardround.memory import (
    Bank,
    Edge,
    Entity,
    Experience,
    PinnedBank,
    RecallQuestion,
    RoleEdge,
    SeenIn,
    render_experiences,
)


def scoped(bank: Bank, title: str, subject: int, **more: object) -> Experience:
    entities = (Entity(name="Ectopic Pregnancy", role="condition"), Entity(name="surgery", role="action"))
    fields = {
        "kind": "indication",
        "condition": "failed methotrexate",
        "exclusions": ("hemodynamic instability",),
        "task_type": "treatment",
        "entities": entities,
        "role_edges": (RoleEdge(source="ectopic  pregnancy", target="Surgery"),),
        "evidence": (SeenIn(step=3, rows=("labevents:12", "labevents:13")),),
    }
    return lesson(bank, title, subject, **{**fields, **more})  # type: ignore[arg-type]


def test_polarity_scope_structure_and_evidence_come_back(tmp_path: Path) -> None:
    path = tmp_path / "bank.sqlite"
    with Bank.open(path) as bank:
        made = [scoped(bank, "do", 1), scoped(bank, "avoid", 2, kind="contraindication", exclusions=())]
        bank.add(made, key=key(1, 0))
        before = bank.revision
        bank.revise(made[0].id, condition="failed methotrexate twice", exclusions=("rupture",), reason="narrowed")
    with Bank.open(path, writable=False) as bank:
        do, avoid = bank.experiences()
        assert avoid == made[1]
        assert (do.condition, do.exclusions) == ("failed methotrexate twice", ("rupture",))
        assert (do.entities, do.role_edges, do.evidence) == (made[0].entities, made[0].role_edges, made[0].evidence)
        assert bank.at(revision=before).experiences[0] == made[0]
        assert [Experience.from_json(one.to_json()) for one in (do, avoid)] == [do, avoid]
        text = render_experiences([do]).text
        assert all(part in text for part in (do.condition, "Not when: rupture", do.content))
        assert "Not when" not in render_experiences([avoid]).text


def test_what_no_experience_can_be_is_refused(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        backwards = (RoleEdge(source="surgery", target="ectopic pregnancy"),)
        for wrong in (
            {"condition": ""},
            {"task_type": "cooking"},
            {"exclusions": (" ",)},
            {"kind": "actor"},
            {"entities": (), "role_edges": backwards},
            {"role_edges": backwards},
            {"entities": (Entity(name="a", role="action"), Entity(name=" A", role="outcome")), "role_edges": ()},
        ):
            with pytest.raises(ValueError, match="experience"):
                scoped(bank, "t", 1, **wrong)


def test_quality_and_edges_are_facts_of_a_revision(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        bank.add([scoped(bank, name, number) for number, name in enumerate("abc")], key=key(1, 0))
        a, b, c = (one.id for one in bank.experiences())
        start = bank.revision
        ab = Edge(source=a, target=b, weight=0.5, entity=0.4, structure=0.6, task=1.0)
        ac = Edge(source=a, target=c, weight=0.7, relation="conflict")
        first = bank.set_graph(qualities={a: 0.6, b: 0.5}, edges=[ab, ac], reason="built")
        taken = Edge(source=a, target=c, weight=0.7, relation="conflict", live=False)
        second = bank.set_graph(qualities={a: 0.7}, edges=[taken], reason="episode e")
        assert (first, second) == (start + 1, start + 2)
        assert bank.revision == second
        third = bank.revise(b, content="Better", reason="seen")
        assert third == second + 1, "one clock"
        assert {edge.target: edge for edge in bank.graph(revision=first).edges(a)} == {b: ab, c: ac}
        assert bank.graph(revision=start).edges(a) == ()
        assert bank.graph().edges(a) == (ab,)
        assert bank.graph().edges(a)[0].synergy is None
        qualities = [bank.graph(revision=number).quality(a) for number in (start, first, second, third)]
        assert qualities == [None, 0.6, 0.7, 0.7]
        assert bank.quality_history(a) == ((first, 0.6), (second, 0.7))
        assert len(bank.at(revision=second)) == 3
        assert bank.at(revision=second).revision == second
        with pytest.raises(UserError, match="no experience 'x'"):
            bank.set_graph(qualities={"x": 0.5}, reason="")
        for wrong in (1.5, float("nan")):
            with pytest.raises(ValueError, match="between 0 and 1"):
                bank.set_graph(qualities={a: wrong}, reason="")
            with pytest.raises(ValueError, match="between 0 and 1"):
                Edge(source=a, target=b, weight=wrong)
        assert bank.revision == third


def test_names_that_mean_the_same_lead_to_the_same_experiences(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        names = ("MI", "myocardial infarction", "heart attack")
        bank.add(
            [
                scoped(bank, name, number, entities=(Entity(name=name, role="condition"),), role_edges=())
                for number, name in enumerate(names)
            ]
        )
        mi, infarction, attack = (one.id for one in bank.experiences())
        before = bank.revision
        bank.add_alias("MI", of="Myocardial  Infarction", reason="same")
        bank.add_alias("myocardial infarction", of="heart attack", reason="same")
        graph = bank.graph()
        assert {graph.entity(name) for name in names} == {"heart attack"}
        assert set(graph.mentions("heart attack")) == {mi, infarction, attack}
        assert bank.graph(revision=before).mentions("heart attack") == (attack,)
        assert bank.graph(revision=before + 1).entity("mi") == "myocardial infarction"


def test_feedback_of_one_episode_counts_once(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        bank.add([lesson(bank, "one", 1)], key=key(1, 0))
        one = bank.experiences()[0].id
        assert bank.add_feedback(one, "outcome", value=1.0, episode="e1")
        assert not bank.add_feedback(one, "outcome", value=0.0, episode="e1")
        assert bank.add_feedback(one, "outcome", value=0.0, episode="e2")
        assert [(said.episode, said.value) for said in bank.feedback(one)] == [("e1", 1.0), ("e2", 0.0)]


def test_a_taught_scope_is_kept_from_the_teacher_too(tmp_path: Path) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        made = scoped(bank, "do", 1)
        bank.add([made], key=key(1, 0))
        bank.revise(made.id, exclusions=("rupture",), by=origin(bank, 2), reason="seen")
        for subject in (1, 2):
            assert titles(bank.search(key(1, 0), kind="indication", for_subject=patient(subject))) == []
        assert titles(bank.search(key(1, 0), kind="indication", for_subject=patient(3))) == ["do"]


@pytest.mark.parametrize("version", [0, 2])
def test_a_bank_of_another_schema_is_refused_in_one_line(version: int, tmp_path: Path) -> None:
    path = tmp_path / "bank.sqlite"
    Bank.open(path).close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE schema SET version = ?", (version,))
    connection.commit()
    connection.close()
    for opened in (Bank.open, PinnedBank.open):
        with pytest.raises(UserError, match=rf"bank schema {version}, this wardround reads 1: build it again"):
            opened(path)


def test_a_pinned_bank_reads_its_own_revision_whatever_is_written_since(tmp_path: Path) -> None:
    path = tmp_path / "bank.sqlite"
    asked = RecallQuestion(text="lactate shock", entities=("shock",))
    with Bank.open(path) as bank:
        made = [scoped(bank, title, number) for number, title in enumerate(("lactate rising", "shock"), start=1)]
        bank.add(made, key=key(0, 1))
        first, second = (one.id for one in made)
        bank.set_graph(qualities={first: 0.7}, edges=[Edge(source=first, target=second, weight=0.5)], reason="built")
        with PinnedBank.open(path) as pinned:
            before = pinned.content_hash()
            recalled = pinned.seeds(asked, for_subject=patient(9))
            bank.revise(first, content="nothing of the kind", reason="r")
            bank.retire(second, reason="r")
            bank.set_graph(qualities={first: 0.1}, edges=[Edge(source=second, target=first, weight=1)], reason="r")
            bank.add_alias("shock", of="circulatory failure", reason="r")
            assert pinned.content_hash() == before
            assert pinned.seeds(asked, for_subject=patient(9)) == recalled
            assert (pinned.graph().quality(first), pinned.graph().edges(second)) == (0.7, ())
            assert pinned.graph().entity("shock") == "shock"
            fetch = pinned.served_to(patient(9))
            assert (fetch(first), fetch(second)) == (made[0], made[1])
            assert pinned.served_to(patient(1))(first) is None, "its own subject"
            assert pinned.evaluate_on([patient(2)]) == 1
            assert pinned.served_to(patient(9))(second) is None, "a subject that is evaluated on"
            assert pinned.content_hash() == before
        with PinnedBank.open(path, revision=pinned.revision) as again:
            assert again.content_hash() == before
        with PinnedBank.open(path) as now:
            assert now.content_hash() != before
        with pytest.raises(UserError, match="older"):
            PinnedBank.open(path, revision=bank.revision + 1)


@pytest.mark.parametrize("what", ["quality", "weight", "alias"])
def test_the_hash_of_a_bank_sees_qualities_weights_and_aliases(tmp_path: Path, what: str) -> None:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        made = [scoped(bank, title, number) for number, title in enumerate(("lactate rising", "shock"), start=1)]
        bank.add(made)
        first, second = (one.id for one in made)
        bank.set_graph(qualities={first: 0.7}, edges=[Edge(source=first, target=second, weight=0.5)], reason="built")
        before = served_hash(bank)
        if what == "quality":
            bank.set_graph(qualities={first: 0.70001}, reason="r")
        elif what == "weight":
            bank.set_graph(edges=[Edge(source=first, target=second, weight=0.50001)], reason="r")
        else:
            bank.add_alias("mi", of="myocardial infarction", reason="r")
        assert served_hash(bank) != before
