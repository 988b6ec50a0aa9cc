"""The family trace: stays as ranges of bundles, targets step by step, the corpus counted as the paper counts it."""

from __future__ import annotations

from pathlib import Path

import pytest

from wardround.clinical.bundles import step_targets, subject_bundles
from wardround.core import UserError
from wardround.records import Store
from wardround.tasks.answers import StepAction, StepActions
from wardround.tasks.benchmarks import Benchmark, build_trace


@pytest.fixture(scope="module")
def stays(synthetic_stays_path: Path) -> Benchmark:
    return Benchmark.open(synthetic_stays_path)


def test_a_target_is_what_is_decided_until_the_next_bundle(stays: Benchmark, synthetic_store: Store) -> None:
    for sample in stays.all_samples[:4]:
        stream = subject_bundles(synthetic_store, sample.subject_id)
        targets = step_targets(stream)
        first, stop = sample.facts["first"], sample.facts["stop"]
        expected = [
            str(StepAction(step=place - first, kind=kind, name=name))
            for place in range(first, stop - 1)
            for kind, names in targets.of(place).items()
            for name in names
        ]
        assert list(sample.target) == expected
        assert stream[first].hour <= sample.prediction_time < stream[first + 1].hour


def test_people_are_in_one_split_and_the_same_build_is_the_same(
    stays: Benchmark, synthetic_store: Store, tmp_path: Path
) -> None:
    assert build_trace(synthetic_store, tmp_path / "again").digest == stays.digest
    splits: dict[int, set[str]] = {}
    for sample in stays.all_samples:
        splits.setdefault(sample.person, set()).add(sample.split)
    assert all(len(found) == 1 for found in splits.values())


def test_the_corpus_is_counted_and_its_unit_declared(stays: Benchmark) -> None:
    said = stays.manifest["tasks"]["next_bundle"]
    counted = said["statistics"]
    assert said["unit"] == "stays in intensive care"
    assert counted["events_per_bundle"] == pytest.approx(counted["events"] / counted["bundles"], abs=0.01)
    assert counted["bundles_per_stay"] == pytest.approx(counted["bundles"] / said["stays"], abs=0.1)
    assert stays.context_tokens == 8_000


def test_a_store_without_the_unit_says_so(synthetic_store: Store, tmp_path: Path) -> None:
    hospital = build_trace(synthetic_store, tmp_path / "whole", unit="hospital", per_task=2)
    assert hospital.manifest["tasks"]["next_bundle"]["unit"] == "stays in hospital"
    assert len(hospital.samples(split="train")) == 2
    (tmp_path / "whole" / "more").mkdir()
    with pytest.raises(UserError, match="exists already"):
        build_trace(synthetic_store, tmp_path / "whole")


def test_a_step_action_comes_back_and_the_prior_is_by_type() -> None:
    action = StepAction(step=3, kind="LABS", name="Odd | name")
    assert StepAction.parse(str(action)) == action
    targets = [["00000|LABS|K", "00001|LABS|K", "00001|LABS|Na", "00002|MEDICATIONS|Heparin"], ["00000|LABS|Na"]]
    kind = StepActions(most=1)
    assert kind.prior(targets) == ("*|LABS|K", "*|MEDICATIONS|Heparin")
    assert StepActions(most=2).prior(targets) == ("*|LABS|K", "*|LABS|Na", "*|MEDICATIONS|Heparin")
