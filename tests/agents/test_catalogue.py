"""Which methods stand in which table of their paper."""

from __future__ import annotations

import pytest

from wardround.agents.catalogue import list_agents

RETROSUM, PARTS = ("retrosum", "retrosum-evolved"), ("actor-only", "summariser-only", "evolved-actor")


@pytest.mark.parametrize("name", [*RETROSUM, *(f"retrosum-{part}" for part in (*PARTS, "evolved-summariser"))])
def test_ablations_stand_in_the_fourth_table_and_the_method_in_the_second_too(name: str) -> None:
    found = {method.name: method.tables for method in list_agents()}
    assert found[name] == ((2, 4) if name in RETROSUM else (4,))
