"""What a run's settings allow and nobody is likely to want is said when it begins, and of agents that it is true of."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.runs import RunSettings, start
from wardround.runs.notes import notes_on


@pytest.mark.parametrize(("agent", "says"), [("react", True), ("static-rag", False)])
def test_tools_take_room_only_where_an_agent_is_offered_them(
    agent: str,
    says: bool,
    synthetic_benchmark_path: Path,
    synthetic_stays_path: Path,
    synthetic_store_path: Path,
    tmp_path: Path,
) -> None:
    benchmark = synthetic_benchmark_path if agent == "react" else synthetic_stays_path
    there = {"benchmark": str(benchmark), "store": str(synthetic_store_path)}
    settings = RunSettings.of(**there, agents=(agent,), limit=1, context_tokens=2_000, reply_tokens=500)
    notes = [note for note in notes_on(start(tmp_path / "run", settings)) if "and the tools" in note]
    assert bool(notes) == says
