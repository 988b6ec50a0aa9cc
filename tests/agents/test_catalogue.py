"""Which methods stand in which table of their paper."""

from __future__ import annotations

from typing import Literal

import pytest

from wardround.agents.catalogue import list_agents
from wardround.reports.grid import grid_settings

RETROSUM, PARTS = ("retrosum", "retrosum-evolved"), ("actor-only", "summariser-only", "evolved-actor")


@pytest.mark.parametrize("name", [*RETROSUM, *(f"retrosum-{part}" for part in (*PARTS, "evolved-summariser"))])
def test_ablations_stand_in_the_fourth_table_and_the_method_in_the_second_too(name: str) -> None:
    found = {method.name: method.tables for method in list_agents()}
    assert found[name] == ((2, 4) if name in RETROSUM else (4,))


@pytest.mark.parametrize(
    ("ablations", "agents"),
    [
        ("none", ["direct", "rag", "uniform-rag", "rule-rag", "react-rag", "ehr-rag"]),
        ("only", ["rag", "ehr-rag", *(f"ehr-rag-no-{part}" for part in ("ether", "air", "der"))]),
    ],
)
def test_a_grid_plays_the_rows_of_a_paper_s_table(ablations: Literal["none", "only"], agents: list[str]) -> None:
    """EHR-RAG: Table 2 compares methods, Table 4 leaves parts out; ``too`` plays both."""
    assert grid_settings({}, paper="ehr-rag", ablations=ablations)[0]["run"]["agents"] == agents
    both = grid_settings({}, paper="ehr-rag", ablations="too")[0]["run"]["agents"]
    assert set(agents) < set(both)
