"""Corrections planted as rows of a FHIR export with history: the state takes the later value, and the meter counts."""

from __future__ import annotations

import csv
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from wardround.cli import main
from wardround.clinical.bundles import states, subject_bundles
from wardround.clinical.protocols import read_protocol
from wardround.records import IngestSettings, Store, ingest
from wardround.runs import RunSettings, execute, start
from wardround.synth import plant_rules, planted_rules, synthesize, time_zone_of, write_dialect
from wardround.tasks.benchmarks import build_trace

PLANT = """
schema = 1
name = "planted"
[planting]
corrections = 1.0
[[rule]]
id = "ANEMIA"
category = "BLEEDING"
trigger = "Hemoglobin < 10"
actions = ["start Pantoprazole"]
precision = 0.8
[[rule]]
id = "ACID"
category = "RENAL"
trigger = "Bicarbonate < 24"
actions = ["order Lactate"]
[[rule]]
id = "NOT-WHILE-ACID"
category = "SAFETY"
trigger = "Bicarbonate < 22"
actions = ["avoid Pantoprazole"]
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hospital whose hemoglobins below 10 are corrected, as a FHIR export, and its store."""
    place = tmp_path_factory.mktemp("corrected")
    (place / "plant.toml").write_text(PLANT, encoding="utf-8")
    rules = planted_rules(read_protocol(place / "plant.toml"))
    synthesize(place / "plain", patients=50, seed=3, notes=False, compress=False, decoys=False)
    plant_rules(place / "plain", place / "hospital", rules, seed=1, corrections=1.0)
    write_dialect("fhir", place / "hospital", place / "fhir")
    ingest("fhir", place / "fhir", place / "store", settings=IngestSettings(time_zone=time_zone_of("fhir")))
    return place


def corrected(place: Path) -> list[dict[str, str]]:
    """The key's corrections."""
    flips = json.loads((place / "hospital" / "planted.json").read_text(encoding="utf-8"))["flips"]
    return [one for one in flips if one["by"] == "corrected"]


def test_the_states_value_is_the_one_of_the_version_known_then(place: Path) -> None:
    store, followed = Store.open(place / "store"), 0
    with (place / "hospital" / "hosp" / "corrections.csv").open(encoding="utf-8") as lines:
        versions = {f"l{row['labevent_id']}": row for row in csv.DictReader(lines)}
    for subject in sorted({int(one["subject_id"]) for one in corrected(place)})[:3]:
        bundles = subject_bundles(store, subject)
        for bundle, state in zip(bundles, states(bundles), strict=True):
            for reading in (one for trend in state.trends.values() for one in trend.readings):
                version = versions.get(reading.row_id.rpartition(":")[2].rpartition("/")[2])
                if version is not None:
                    is_told = bundle.hour + timedelta(hours=1) > datetime.fromisoformat(version["storetime"])
                    assert (reading.value == float(version["valuenum"])) is is_told
                    followed += is_told
    assert followed > 10


def test_the_meter_counts_corrections_and_the_state_lets_go_in_one_bundle(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    build_trace(Store.open(place / "store"), place / "stays", per_task=8)
    settings = {"protocol": str(place / "plant.toml"), "window_hours": 24.0}
    paths = {"store": str(place / "store"), "benchmark": str(place / "stays")}
    execute(start(place / "run", RunSettings.of(**paths, agents=["trace"], split="train", limit=4, **settings)))
    key = str(place / "hospital" / "planted.json")
    assert main(["protocol", "meter", key, "--run", str(place / "run"), "--json"]) == 0
    counted = json.loads(capsys.readouterr().out)["trace · offline"]
    assert counted["corrected"] > 5
    assert counted["held"] > 5
    assert counted["let_go"] == counted["held"]


def test_a_test_that_forbids_something_is_not_corrected(place: Path) -> None:
    assert {one["rule"] for one in corrected(place)} == {"ANEMIA"}


def test_no_turn_is_counted_again_after_its_correction(place: Path) -> None:
    """What was corrected met the rule no more: the next result turns nothing."""
    flips = json.loads((place / "hospital" / "planted.json").read_text(encoding="utf-8"))["flips"]
    ended = {(one["stay_id"], one["until"]) for one in flips if one["by"] == "corrected"}
    assert ended.isdisjoint((one["stay_id"], one["known"]) for one in flips if one["rule"] == "ANEMIA")


def test_only_a_form_with_versions_has_corrections(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "plant.toml").write_text(PLANT, encoding="utf-8")
    assert main(["synth", str(tmp_path / "out"), "--patients", "5", "--plant", str(tmp_path / "plant.toml")]) == 2
    assert "needs --dialect fhir" in capsys.readouterr().err
