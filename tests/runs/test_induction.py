"""Induction: counts by hand, rules by precision, only training people, and a run on them refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.benchmarks import Benchmark
from wardround.cli import main
from wardround.core import UserError
from wardround.protocols import read_protocol
from wardround.records import Store
from wardround.runs import RunSettings, start
from wardround.runs.induction import InductionSettings, induce_protocol
from wardround.runs.induction.coded_reflector import reflect
from wardround.runs.induction.counting import TriggerCounts, cut_points

EKG, HEPARIN = ("PROCEDURES", "EKG"), ("MEDICATIONS", "Heparin")


def counted() -> TriggerCounts:
    """100 steps: after a low value in 10 of them an EKG follows 8 times; heparin follows anything 10 times."""
    counts = TriggerCounts()
    for step in range(100):
        low = step < 10
        decided = [EKG] if step < 8 else []
        decided += [HEPARIN] if step % 10 == 9 else []
        counts.add(["always", *(["Hemoglobin < 9"] if low else [])], decided, [])
    return counts


def test_counts_by_hand() -> None:
    counts = counted()
    assert counts.precision("Hemoglobin < 9", EKG) == pytest.approx(0.8)
    assert counts.lift("Hemoglobin < 9", EKG) == pytest.approx(0.8 / 0.08)
    assert counts.precision("always", HEPARIN) == pytest.approx(0.1)


def test_the_precise_trigger_is_the_rule_and_what_it_covers_is_no_gain_to_another() -> None:
    rules = reflect(counted(), InductionSettings(support=5, hits=2))
    assert [(one.trigger, one.actions) for one in rules if one.category != "PRIOR"] == [
        ("Hemoglobin < 9", ("perform EKG",)),
        ("always", ("start Heparin",)),
    ]
    assert rules[0].precision == pytest.approx(0.8)
    assert rules[0].support == 10


def test_what_was_foretold_teaches_nothing() -> None:
    counts = TriggerCounts()
    for _ in range(20):
        counts.add(["t"], [EKG], [EKG])
    assert [one.category for one in reflect(counts, InductionSettings())] == ["PRIOR"]


def test_no_more_rules_than_the_budget() -> None:
    rules = reflect(counted(), InductionSettings(support=5, hits=2, rules=1))
    assert [one.trigger for one in rules if one.category != "PRIOR"] == ["Hemoglobin < 9"]


def test_cut_points_are_shares_of_training_values_and_need_twenty() -> None:
    cuts = cut_points({"a": [float(n) for n in range(101)], "b": [1.0] * 19})
    assert set(cuts) == {"a"}
    assert cuts["a"][0] == pytest.approx(5)
    assert cuts["a"][-1] == pytest.approx(95)


@pytest.fixture(scope="module")
def induced(synthetic_store: Store, synthetic_stays_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("induced") / "induced.toml"
    words = ["protocol", "induce", str(path), "--benchmark", str(synthetic_stays_path), "--limit", "6"]
    assert main([*words, "--store", str(synthetic_store.path)]) == 0
    return path


def test_an_induced_file_is_a_protocol_that_says_whom_it_came_from(induced: Path, synthetic_store: Store) -> None:
    protocol = read_protocol(induced)
    assert protocol.induced is not None
    assert (protocol.induced.stays, protocol.induced.source) == (6, "mimiciv")
    assert len(protocol) > 3
    assert main(["protocol", "lint", str(induced)]) in (0, 1)
    text = induced.read_text(encoding="utf-8")
    assert not any(str(subject) in text for subject in synthetic_store.subjects.tolist())


def test_a_run_on_the_people_it_came_from_is_refused(
    induced: Path, synthetic_store_path: Path, synthetic_stays_path: Path, tmp_path: Path
) -> None:
    settings = {
        "store": str(synthetic_store_path),
        "benchmark": str(synthetic_stays_path),
        "agents": ["trace"],
        "protocol": str(induced),
    }
    with pytest.raises(UserError, match="was induced from people of this split"):
        start(tmp_path / "train", RunSettings.of(**settings, split="train"))
    start(tmp_path / "test", RunSettings.of(**settings, split="test"))


def test_a_benchmark_without_stays_teaches_nothing(synthetic_store: Store, synthetic_benchmark_path: Path) -> None:
    with pytest.raises(UserError, match="no training stays"):
        induce_protocol(Benchmark.open(synthetic_benchmark_path), synthetic_store, InductionSettings())
