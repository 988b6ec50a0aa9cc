"""Rules planted into a hospital: as often as they say, in the hour after the result, never where they are forbidden."""

from __future__ import annotations

import csv
import gzip
import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from wardround.clinical.protocols import (
    GlobalProtocol,
    ProtocolRule,
    found_rules,
    read_planting,
    read_protocol,
)
from wardround.core import UserError
from wardround.synth import plant_rules, planted_rules


def rule(name: str, trigger: str, *actions: str, precision: float | None = None) -> ProtocolRule:
    return ProtocolRule(id=name, category="ANY", trigger=trigger, actions=actions, precision=precision)


PLANTED = GlobalProtocol(
    name="planted",
    rules=(
        rule("ANEMIA", "Hemoglobin < 10", "perform EKG", precision=0.8),
        rule("NEVER", "Sodium > 100", "start Aspirin", precision=0.0),
        rule("ALWAYS", "Sodium > 100", "order Lactate"),
        rule("NOT", "Creatinine > 1.2", "avoid EKG"),
    ),
)


def rows(folder: Path, table: str) -> list[dict[str, str]]:
    (path,) = folder.glob(f"*/{table}.csv*")
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        return list(csv.DictReader(lines))


@pytest.fixture(scope="module")
def planted(synthetic_hospital: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted") / "hospital"
    assert plant_rules(synthetic_hospital, folder, planted_rules(PLANTED), seed=1) > 0
    return folder


def test_every_planted_row_follows_a_result_that_meets_its_rule(planted: Path, synthetic_hospital: Path) -> None:
    key = json.loads((planted / "planted.json").read_text(encoding="utf-8"))["rows"]
    labels = {row["itemid"]: row["label"] for row in rows(synthetic_hospital, "d_labitems")}
    results: dict[str, list[tuple[str, str, float]]] = {}
    for row in rows(synthetic_hospital, "labevents"):
        if row["valuenum"] and row["storetime"]:
            told = (row["storetime"], labels[row["itemid"]], float(row["valuenum"]))
            results.setdefault(row["subject_id"], []).append(told)
    assert {one["rule"] for one in key} == {"ANEMIA", "ALWAYS"}
    for one in [one for one in key if one["rule"] == "ANEMIA"]:
        when = datetime.fromisoformat(one["time"])
        hour_before = when.replace(minute=0, second=0) - timedelta(hours=1)
        near = [
            (name, value)
            for known, name, value in results[one["subject_id"]]
            if hour_before <= datetime.fromisoformat(known) < hour_before + timedelta(hours=1)
        ]
        assert any(name == "Hemoglobin" and value < 10 for name, value in near)
        assert not any(name == "Creatinine" and value > 1.2 for name, value in near)


def test_a_planted_result_is_known_forty_minutes_after_its_draw(planted: Path) -> None:
    key = json.loads((planted / "planted.json").read_text(encoding="utf-8"))["rows"]
    new = [row for row in rows(planted, "labevents") if int(row["labevent_id"]) > 900_000_000_000]
    assert sorted(row["charttime"] for row in new) == sorted(one["time"] for one in key if one["rule"] == "ALWAYS")
    for row in new:
        drawn, known = (datetime.fromisoformat(row[name]) for name in ("charttime", "storetime"))
        assert known - drawn == timedelta(minutes=40)


def test_the_key_says_when_an_action_was_forbidden_and_when_evidence_turned(
    planted: Path, synthetic_hospital: Path
) -> None:
    body = json.loads((planted / "planted.json").read_text(encoding="utf-8"))
    labels = {row["itemid"]: row["label"] for row in rows(synthetic_hospital, "d_labitems")}
    told = {
        (row["subject_id"], labels[row["itemid"]], row["storetime"]): float(row["valuenum"])
        for row in rows(synthetic_hospital, "labevents")
        if row["valuenum"]
    }
    assert {one["rule"] for one in body["forbidden"]} == {"ANEMIA"}
    for one in body["forbidden"]:
        assert told[one["subject_id"], "Creatinine", one["from"]] > 1.2
        assert datetime.fromisoformat(one["to"]) - datetime.fromisoformat(one["from"]) == timedelta(hours=24)
    turned = [one for one in body["flips"] if one["rule"] == "ANEMIA"]
    assert turned
    assert all(told[one["subject_id"], "Hemoglobin", one["known"]] >= 10 for one in turned)


def test_a_planted_flip_is_a_result_that_turns_the_evidence_before_the_next_one(
    synthetic_hospital: Path, tmp_path: Path
) -> None:
    """Of every second result that met the rule; each is in the key, and no result of the test lies between."""
    plant_rules(synthetic_hospital, tmp_path / "all", planted_rules(PLANTED), seed=1, flips=1.0)
    plant_rules(synthetic_hospital, tmp_path / "half", planted_rules(PLANTED), seed=1, flips=0.5)
    counts = []
    for folder in (tmp_path / "all", tmp_path / "half"):
        body = json.loads((folder / "planted.json").read_text(encoding="utf-8"))
        turned = [one for one in body["flips"] if one["by"] == "planted" and one["rule"] == "ANEMIA"]
        counts.append(len(turned))
        labels = {row["itemid"]: row["label"] for row in rows(folder, "d_labitems")}
        hemoglobin = sorted(
            (row["subject_id"], row["storetime"], float(row["valuenum"]))
            for row in rows(folder, "labevents")
            if labels[row["itemid"]] == "Hemoglobin" and row["valuenum"] and row["storetime"]
        )
        for one in turned:
            place = hemoglobin.index((one["subject_id"], one["known"], 10.0))
            assert hemoglobin[place - 1][0] == one["subject_id"]
            assert hemoglobin[place - 1][2] < 10
            assert one["until"] > one["known"]
    assert 0.3 * counts[0] < counts[1] < 0.7 * counts[0]


def test_a_file_says_how_many_flips_are_planted_beside_its_rules(tmp_path: Path) -> None:
    head = 'schema = 1\nname = "planted"\n'
    (tmp_path / "plain.toml").write_text(head, encoding="utf-8")
    (tmp_path / "flips.toml").write_text(f"{head}[planting]\nflips = 0.25\n", encoding="utf-8")
    (tmp_path / "wrong.toml").write_text(f"{head}[planting]\nflips = 2\n", encoding="utf-8")
    assert [read_planting(tmp_path / f"{name}.toml").flips for name in ("plain", "flips")] == [0.0, 0.25]
    assert len(read_protocol(tmp_path / "flips.toml")) == 0
    with pytest.raises(UserError, match="0 to 1"):
        read_planting(tmp_path / "wrong.toml")


def test_the_same_seed_plants_the_same_and_only_adds(planted: Path, synthetic_hospital: Path, tmp_path: Path) -> None:
    plant_rules(synthetic_hospital, tmp_path / "again", planted_rules(PLANTED), seed=1)
    for table in ("procedureevents", "labevents", "prescriptions"):
        before, after = rows(synthetic_hospital, table), rows(planted, table)
        assert after[: len(before)] == before
        assert rows(tmp_path / "again", table) == after


def test_what_cannot_be_planted_is_said(synthetic_hospital: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="one test"):
        planted_rules(GlobalProtocol(name="x", rules=(rule("A", "Lactate is high", "perform EKG"),)))
    unknown = planted_rules(GlobalProtocol(name="x", rules=(rule("A", "Lactate > 2", "perform Moonwalk"),)))
    with pytest.raises(UserError, match="knows no 'Moonwalk'"):
        plant_rules(synthetic_hospital, tmp_path / "x", unknown)


def test_a_planted_rule_is_found_by_the_same_action_in_the_same_direction() -> None:
    induced = GlobalProtocol(
        name="induced",
        rules=(
            rule("LOW", "Hemoglobin <= 8.7 AND hours since Hemoglobin < 3", "perform EKG"),
            rule("OTHER", "Hematocrit < 25", "order Lactate"),
            rule("WRONG", "Sodium <= 101", "order Lactate"),
        ),
    )
    assert found_rules(induced, PLANTED) == {"ANEMIA": ("LOW",), "NEVER": (), "ALWAYS": ()}
