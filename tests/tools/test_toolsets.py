"""Toolsets by name, and the names under which other systems know our tools."""

from __future__ import annotations

import pytest
from fake_chart import small_chart

from wardround.clinical.codes import LabelSet
from wardround.core import UserError
from wardround.tools import CLINSEEK_TOOLS, TOOLS, Environment, EnvironmentOptions, default_toolset, open_toolset
from wardround.tools.candidates import CandidateSpace


def test_clinseek_is_the_twenty_of_table_1_and_the_next_page() -> None:
    assert len(set(CLINSEEK_TOOLS)) == 20
    assert open_toolset("clinseek").names == (*CLINSEEK_TOOLS, "get_next_page")


def test_the_usual_toolset_is_what_it_was() -> None:
    assert open_toolset().names == default_toolset().names
    assert open_toolset(more=("browser.search",)).names == default_toolset(more=("browser.search",)).names
    with pytest.raises(UserError, match="There are: usual, agentehr, clinseek"):
        open_toolset("clinsek")


def test_agentehr_is_table_6_and_the_next_page() -> None:
    names = open_toolset("agentehr").names
    assert (len(names), len([name for name in names if name.startswith("get_candidates_by_")])) == (16, 3)
    assert [name for name in open_toolset().names if name.startswith("get_candidates")] == ["get_candidates"]


def test_a_tool_that_a_model_remembers_is_the_one_that_stands_for_it() -> None:
    usual, published = open_toolset(), open_toolset("agentehr")
    for name in ("get_candidates_by_keyword", "ehr.get_candidates_by_fuzzy_matching"):
        assert usual.own_name(name) == "get_candidates"
        assert published.own_name(name) == name.removeprefix("ehr.")
    assert usual.own_name("get_table_description") == "get_column_names"


def test_a_lookup_of_names_is_offered_where_there_are_names() -> None:
    space = CandidateSpace(name="labs", labels=LabelSet(name="labs", labels=("Sodium",)))
    assert (
        "get_candidates"
        in Environment(small_chart(3), options=EnvironmentOptions(candidates={"labs": space})).toolset.names
    )
    bare = Environment(small_chart(3)).toolset.names
    assert not [name for name in bare if name.startswith("get_candidates")]


def test_names_with_ehr_before_them_are_taken() -> None:
    bound = Environment(small_chart(3), open_toolset("clinseek"))
    plain = bound.call("get_latest_records", {"table_name": "labevents"})
    assert bound.call("ehr.get_latest_records", {"table_name": "labevents"}).text == plain.text
    assert bound.call("ehr.finish", {"response": ["x"]}).answer == ("x",)
    assert bound.call("ehr.browser.search", {"query": "x"}).is_error
    assert bound.toolset.own_name("ehr.think") == "think"


@pytest.mark.parametrize("written", ["browser_find", "browser__find", "browser-find", " browser_find "])
def test_a_dot_is_taken_under_other_marks(written: str) -> None:
    assert open_toolset("clinseek").own_name(written) == "browser.find"


def test_load_ehr_opens_nothing_else() -> None:
    bound = Environment(small_chart(3), open_toolset("clinseek"))
    said = bound.call("ehr.load_ehr", {"subject_id": "7", "timestamp": "2190-01-01 00:00:00"}).text
    assert said.startswith("The record of subject 7 is open as of 2150-06-01 12:00:00; neither can be changed.")
    assert bound.call("ehr.load_ehr", {"subject_id": 8}).is_error


def test_what_keeps_a_state_or_asks_a_model_is_not_run_side_by_side() -> None:
    assert [name for name in open_toolset("clinseek").names if not TOOLS.get(name).reads_only] == [
        "finish",
        "browser.search",
        "browser.open",
        "browser.find",
        "image.chest_xray_report_generator",
        "image.xray_phrase_grounding",
    ]


def test_browser_tools_take_numbers_as_models_write_them() -> None:
    bound = Environment(small_chart(3), open_toolset("clinseek"))
    pytest.importorskip("tantivy", reason="needs the extra [knowledge]")
    assert bound.call("browser.search", {"query": "sepsis lactate", "topn": "2"}).text.startswith("[0] sepsis lactate")
    assert bound.call("browser.open", {"id": "0"}).text.startswith("[1] Sepsis")
    assert bound.call("browser.open", {"id": 0, "cursor": 0, "loc": "5", "num_lines": 2}).text.count("\nL") == 2
    found = bound.call("browser.find", {"pattern": "lactate", "cursor": 1}).text
    assert "【0†match at L" in found
    assert bound.call("browser.open", {"id": "corpus://handbook/sepsis"}).text.startswith("[4] Sepsis")
    assert "source of Sepsis" in bound.call("browser.open", {"view_source": True}).text
