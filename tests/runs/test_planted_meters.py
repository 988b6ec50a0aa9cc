"""A planted hospital from its rows to its meters: flips, forbidden actions, and the curve over tau, by the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from wardround.cli import main
from wardround.clinical.protocols import read_protocol
from wardround.records import Store, ingest
from wardround.runs import RunSettings, execute, start
from wardround.synth import plant_rules, planted_rules
from wardround.tasks.benchmarks import build_trace

PLANT = """
schema = 1
name = "planted"
[planting]
flips = 1.0
[[rule]]
id = "ANEMIA"
category = "BLEEDING"
trigger = "Hemoglobin < 10"
actions = ["start Pantoprazole"]
precision = 0.8
[[rule]]
id = "DRY"
category = "RENAL"
trigger = "Creatinine > 1.1"
actions = ["order Lactate"]
precision = 0.7
[[rule]]
id = "NOT-WHILE-ACID"
category = "SAFETY"
trigger = "Bicarbonate < 24"
actions = ["avoid Pantoprazole"]
"""


@pytest.fixture(scope="module")
def metered(synthetic_hospital: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The key of a planted hospital, and a run on its training stays by the planted rules themselves."""
    place = tmp_path_factory.mktemp("planted")
    rules = place / "plant.toml"
    rules.write_text(PLANT, encoding="utf-8")
    plant_rules(synthetic_hospital, place / "hospital", planted_rules(read_protocol(rules)), seed=1, flips=1.0)
    ingest("mimiciv", place / "hospital", place / "store")
    build_trace(Store.open(place / "store"), place / "stays")
    settings = {"protocol": str(rules), "unsure_by_shares": True, "tau": 0.0, "window_hours": 24.0}
    run = RunSettings.of(
        store=str(place / "store"),
        benchmark=str(place / "stays"),
        agents=["trace", "trace-no-auditor"],
        split="train",
        limit=12,
        **settings,
    )
    execute(start(place / "run", run))
    return place / "hospital" / "planted.json", place / "run"


def said(capsys: pytest.CaptureFixture[str], metered: tuple[Path, Path], *more: str) -> Any:
    key, run = metered
    assert main(["protocol", "meter", str(key), "--run", str(run), "--json", *more]) == 0
    return json.loads(capsys.readouterr().out)


def test_the_state_lets_go_of_every_planted_flip_in_one_bundle(
    metered: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    counted = said(capsys, metered)["trace · offline"]
    assert counted["planted"] > 10
    assert counted["held"] > 10
    assert counted["let_go"] == counted["held"]


def test_audits_forbid_no_less_at_the_same_recall(
    metered: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    counted = said(capsys, metered)
    audited, unaudited = (counted[f"{agent} · offline"] for agent in ("trace", "trace-no-auditor"))
    assert audited["red_flags"] < unaudited["red_flags"]
    curve = said(capsys, metered, "--curve")["trace · offline"]
    assert [curve[0]["looks"], curve[-1]["looks"]] == ["unsure or risky", "never"]
    assert (curve[0]["red_flags"], curve[-1]["red_flags"]) == (audited["red_flags"], unaudited["red_flags"])
    assert curve[0]["recall"] == pytest.approx(curve[-1]["recall"], abs=0.01)
    assert curve[0]["audited"] > curve[-1]["audited"] == 0
    flags = [point["red_flags"] for point in curve]
    assert flags == sorted(flags), "the fewer steps are looked at, the more forbidden actions stand"
