"""Rules instead of a model: what they say of a known episode, and that they say it again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from memory_doubles import episode, origin, turns

from wardround.memory import Bank, Kind, Material, Provenance, RuleReflector


@pytest.fixture
def provenance(tmp_path: Path) -> Iterator[Provenance]:
    with Bank.open(tmp_path / "bank.sqlite") as bank:
        yield origin(bank, 1)


def said(material: Material, kind: Kind, provenance: Provenance, maximum: int = 9) -> dict[str, str]:
    found = RuleReflector(maximum=maximum).reflect(material, kind=kind, provenance=provenance)
    assert found == RuleReflector(maximum=maximum).reflect(material, kind=kind, provenance=provenance)
    assert all(one.kind == kind and one.provenance == provenance for one in found)
    return {one.title: one.content for one in found}


def test_actor_items_of_hits_misses_and_wrong_answers(provenance: Provenance) -> None:
    items = said(episode(), "actor", provenance)
    assert "radiology" in items["Start from radiology"]
    assert "Acute renal failure" in items["Weigh every finding that was read"]
    assert "labevents" in items["Weigh every finding that was read"]
    assert "Gout" in items["Search beyond the first tables"]
    assert "Acute renal failure" not in items["Search beyond the first tables"]
    assert "1 of 2 answers were wrong (Asthma)" in items["Leave out what the record does not carry"]
    assert "Look answers up before finishing" in items
    assert "get_latest_records (1)" in items["Check names before calling get_latest_records"]
    assert len(said(episode(), "actor", provenance, maximum=2)) == 2


def test_a_right_and_looked_up_answer_teaches_where_to_start_only(provenance: Provenance) -> None:
    good = episode(
        messages=turns(
            ("get_latest_records", '{"table_name": "radiology"}', "Pneumonia"),
            ("get_candidates_by_keyword", '{"table_name": "diagnoses_ccs_candidates"}', "Gout"),
        ),
        prediction=("pneumonia ",),
        target=("Pneumonia",),
    )
    assert list(said(good, "actor", provenance)) == ["Start from radiology"]


def test_sql_says_which_tables_it_read(provenance: Provenance) -> None:
    query = '{"sql_query": "SELECT * FROM diagnoses_icd d JOIN admissions USING (hadm_id)"}'
    by_sql = episode(messages=turns(("run_sql_query", query, "1 row\nGout")))
    items = said(by_sql, "actor", provenance)
    assert "Rows of admissions, diagnoses_icd named Gout" in items["Weigh every finding that was read"]
    assert "Pneumonia | Acute renal failure" not in items["Weigh every finding that was read"]
    assert "(Acute renal failure)" in items["Search beyond the first tables"]


def test_summariser_items_say_what_the_summary_lost(provenance: Provenance) -> None:
    items = said(episode(), "summariser", provenance)
    assert "Acute renal failure" in items["Keep the names of findings from labevents"]
    assert "Pneumonia" in items["Go on naming findings from radiology"]
    assert "dropped it" in items["Keep the names of findings from labevents"]
    unwritten = said(episode(summary=""), "summariser", provenance)
    assert "has to carry it" in unwritten["Keep the names of findings from labevents, radiology"]


def test_without_the_right_answer_only_habits_are_judged(provenance: Provenance) -> None:
    blind = episode(target=None, prediction=None)
    assert said(blind, "actor", provenance) == {}
    assert said(blind, "summariser", provenance) == {}
    items = said(blind, "reasoning", provenance)
    assert {"Look answers up before finishing", "Finish with a list"} <= set(items)
    assert not any("Gout" in content for content in said(episode(), "reasoning", provenance).values())


def test_repeats_and_refusals_are_advice_on_their_tool(provenance: Provenance) -> None:
    wasteful = turns(
        *[("run_sql_query", '{"sql_query": "SELECT 1"}', "1 row")] * 4,
        ("get_unique_values", "{}", "Error: table_name is missing"),
        ("think", "not json", "noted"),
        ("think", "[]", "noted"),
    )
    found = RuleReflector().reflect(episode(messages=wasteful), kind="tool", provenance=provenance)
    assert {one.tool: one.title for one in found} == {
        "get_unique_values": "Check names before calling get_unique_values",
        "run_sql_query": "Do not repeat a call of run_sql_query",
    }


def test_an_episode_without_turns_teaches_no_falsehood(provenance: Provenance) -> None:
    empty = episode(messages=(), prediction=None)
    assert list(said(empty, "actor", provenance)) == ["Search beyond the first tables", "Finish with a list"]
    assert said(empty, "tool", provenance) == {}
