"""A time rule of a plug-in: one class in one file, read, checked and evaluated like ours."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.core import UserError, load_plugins
from wardround.records import Store, ingest, load_source_spec
from wardround.records.rules.language import RULES

PLUGIN = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from wardround.records.rules.language import NO_TIME, RULES, Arguments, Frame, Rule, Times

HOUR = 3_600_000_000


@RULES.named("full_hour")
@dataclass(frozen=True, slots=True)
class FullHour(Rule):
    function: ClassVar[str] = "full_hour"
    title: ClassVar[str] = "the next full hour"
    takes: ClassVar[str] = "one rule"

    part: Rule

    def evaluate(self, frame: Frame) -> Times:
        times = self.part.evaluate(frame)
        return np.where(times == NO_TIME, times, -(-times // HOUR) * HOUR)
"""
SPEC = """
[source]
name = "house"
[tables.values]
path = "values"
event_time = "at"
available_at = "full_hour(at)"
[tables.values.columns]
subject_id = "int"
at = "time"
"""


def test_a_rule_of_a_plug_in_is_a_clock(tmp_path: Path) -> None:
    (tmp_path / "hours.py").write_text(PLUGIN, encoding="utf-8")
    load_plugins([tmp_path / "hours.py"])
    assert "full_hour" in RULES
    (tmp_path / "house.toml").write_text(SPEC, encoding="utf-8")
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "values.csv").write_text("subject_id,at\n1,2150-01-01 10:05:00\n1,2150-01-01 12:00:00\n")
    ingest(load_source_spec(tmp_path / "house.toml"), tmp_path / "raw", tmp_path / "store")
    rows = Store.open(tmp_path / "store").rows(1, "values")
    assert [str(each) for each in rows.column("_available").to_pylist()] == [
        "2150-01-01 11:00:00",
        "2150-01-01 12:00:00",
    ]
    (tmp_path / "house.toml").write_text(SPEC.replace("full_hour(at)", "full_hour(att)"), encoding="utf-8")
    with pytest.raises(UserError, match="available_at: no column 'att'; did you mean 'at'"):
        load_source_spec(tmp_path / "house.toml")
    (tmp_path / "house.toml").write_text(SPEC.replace("full_hour(at)", "full_hour(at, at)"), encoding="utf-8")
    with pytest.raises(UserError, match="full_hour takes one rule"):
        load_source_spec(tmp_path / "house.toml")
