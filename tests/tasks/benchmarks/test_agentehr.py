"""The builder end to end on the synthetic hospital, checked against its raw files read independently."""

from __future__ import annotations

import csv
import gzip
import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from wardround.clinical.codes import load_ccs
from wardround.core import UserError, parse_time
from wardround.records import Chart, Policy, Store
from wardround.tasks.benchmarks import (
    AGENTEHR_TASKS,
    SPLITS,
    STRATA,
    Benchmark,
    Sample,
    build_agentehr,
    get_task,
    leak_check,
    render_prompt,
    split_of,
)
from wardround.tasks.benchmarks.drawing import sample_weights, strata_of

MINUTE = timedelta(minutes=1)


@pytest.fixture(scope="module", params=["known_at", "published"])
def built(
    request: pytest.FixtureRequest, synthetic_store: Store, tmp_path_factory: pytest.TempPathFactory
) -> Benchmark:
    """Every candidate of every task: nothing is drawn away."""
    return build_agentehr(
        synthetic_store, tmp_path_factory.mktemp("bench") / "b", seed=3, policy=request.param, per_task=10_000
    )


def read(hospital: Path, table: str) -> Iterator[dict[str, str]]:
    (path,) = (hospital / "hosp").glob(f"{table}.csv*")
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    yield from csv.DictReader(text.decode().splitlines())


def admissions(hospital: Path) -> dict[int, tuple[datetime, datetime]]:
    rows = read(hospital, "admissions")
    return {int(row["hadm_id"]): (parse_time(row["admittime"]), parse_time(row["dischtime"])) for row in rows}


def test_all_six_tasks_have_samples(built: Benchmark) -> None:
    assert {task.name for task in built.tasks} == set(AGENTEHR_TASKS)
    assert all("skipped" not in said for said in built.manifest["tasks"].values())


def test_nothing_of_any_answer_is_on_any_chart(built: Benchmark, synthetic_store: Store) -> None:
    assert leak_check(built, synthetic_store) == ()


def test_the_leak_check_finds_a_question_asked_too_late(built: Benchmark, synthetic_store: Store) -> None:
    late = tuple(
        replace(one, prediction_time=one.prediction_time + timedelta(days=400)) for one in built.all_samples[:20]
    )
    found = {leak.sample for leak in leak_check(replace(built, all_samples=late), synthetic_store)}
    assert found == {one.id for one in late}


class Leaking:
    """A store whose charts show a day too much."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def chart(self, subject_id: int, as_of: datetime, **more: Any) -> Chart:
        return self._store.chart(subject_id, as_of + timedelta(days=1), **more)


def test_a_chart_that_shows_what_came_after_the_question_is_found_by_its_rows(
    built: Benchmark, synthetic_store: Store
) -> None:
    asked = built.samples("labevents")[:10]
    leaking = cast(Store, Leaking(synthetic_store))
    found = defaultdict(list)
    for leak in leak_check(replace(built, all_samples=asked), leaking):
        found[leak.sample].append(leak.what)
    assert all(
        f"row {one} of its label is on the chart" in found[sample.id]
        for sample in asked
        for one in sample.facts["row_ids"]
    )
    late = {
        name: [int(what.split()[0]) for what in said if " rows of labevents at or after the event" in what]
        for name, said in found.items()
    }
    if built.policy == "known_at":
        assert all(late[sample.id] >= [len(sample.facts["row_ids"])] for sample in asked)
    else:
        assert not any(late.values()), "these clocks promise nothing of them"


def test_every_question_is_asked_during_its_stay(built: Benchmark, synthetic_hospital: Path) -> None:
    stays = admissions(synthetic_hospital)
    for sample in built.all_samples:
        start, end = stays[sample.facts["encounter"]]
        assert start <= sample.prediction_time < end, sample.id


def test_lab_targets_are_all_tests_of_the_draw(built: Benchmark, synthetic_hospital: Path) -> None:
    names = {row["itemid"]: row["label"] for row in read(synthetic_hospital, "d_labitems")}
    draws = defaultdict(set)
    for row in read(synthetic_hospital, "labevents"):
        draws[int(row["subject_id"]), row["charttime"]].add(names[row["itemid"]])
    samples = built.samples("labevents")
    assert samples
    for sample in samples:
        assert set(sample.target) == draws[sample.subject_id, sample.facts["event_time"]], sample.id
        assert parse_time(sample.facts["event_time"]) - sample.prediction_time == MINUTE


def test_transfer_targets_are_the_unit_of_that_moment(built: Benchmark, synthetic_hospital: Path) -> None:
    units = {(int(row["subject_id"]), row["intime"]): row for row in read(synthetic_hospital, "transfers")}
    for sample in built.samples("transfers"):
        row = units[sample.subject_id, sample.facts["event_time"]]
        assert sample.target == (row["careunit"],)
        assert row["eventtype"] in ("transfer", "admit")


def test_diagnosis_targets_are_all_coded_categories_of_the_stay(built: Benchmark, synthetic_hospital: Path) -> None:
    grouper = load_ccs("diagnoses")
    coded = defaultdict(set)
    for row in read(synthetic_hospital, "diagnoses_icd"):
        category = grouper.category(row["icd_code"], row["icd_version"])
        if category:
            coded[int(row["hadm_id"])].add(category.label)
    stays = admissions(synthetic_hospital)
    before = MINUTE if built.policy == "known_at" else 2 * MINUTE  # the paper's own row time is a minute early already
    for sample in built.samples("diagnoses"):
        assert set(sample.target) == coded[sample.facts["encounter"]]
        assert stays[sample.facts["encounter"]][1] - sample.prediction_time == before


def test_prescriptions_are_asked_by_their_policy_clock(built: Benchmark, synthetic_hospital: Path) -> None:
    entered = {row["pharmacy_id"]: row["entertime"] for row in read(synthetic_hospital, "pharmacy")}
    moments = defaultdict(set)
    for row in read(synthetic_hospital, "prescriptions"):
        clock = entered[row["pharmacy_id"]] if built.policy == "known_at" else row["starttime"]
        moments[int(row["subject_id"])].add(clock)
    for sample in built.samples("prescriptions"):
        assert sample.facts["event_time"] in moments[sample.subject_id]


def test_procedures_are_asked_at_the_start_of_their_day(built: Benchmark, synthetic_hospital: Path) -> None:
    stays = admissions(synthetic_hospital)
    for sample in built.samples("procedures"):
        day = parse_time(sample.facts["event_time"])
        assert (day.hour, day.minute, day.second) == (23, 59, 59)
        start_of_day = day.replace(hour=0, minute=0, second=0)
        known = max(start_of_day, stays[sample.facts["encounter"]][0])
        assert known < day, "a day that was over at admission is none to ask about"
        assert sample.prediction_time == (known if built.policy == "known_at" else day - MINUTE)


def test_reflex_tests_are_not_asked_for_where_only_the_known_counts(built: Benchmark, synthetic_store: Store) -> None:
    patterns = synthetic_store.spec.tables["microbiologyevents"].pending.reflex.patterns  # type: ignore[union-attr]
    targets = {label.casefold() for sample in built.samples("microbiology") for label in sample.target}
    if built.policy == "known_at":
        assert not [label for label in targets if any(pattern in label for pattern in patterns)]


def test_one_question_per_subject_and_task_and_no_subject_in_two_splits(built: Benchmark) -> None:
    splits = defaultdict(set)
    for sample in built.all_samples:
        splits[sample.subject_id].add(sample.split)
        assert sample.split == split_of(sample.subject_id, 3, (0.7, 0.1, 0.2))
    assert all(len(found) == 1 for found in splits.values())
    assert len({(one.task, one.subject_id) for one in built.all_samples}) == len(built.all_samples)


def test_strata_are_those_of_eq_11(built: Benchmark) -> None:
    for task in built.tasks:
        samples = built.samples(task.name)
        weights = sample_weights([one.target for one in samples])
        assert [one.facts["weight"] for one in samples] == pytest.approx(weights)
        assert [one.stratum for one in samples] == strata_of(weights)


def test_unwinnable_labels_are_exactly_those_outside_the_candidates(built: Benchmark) -> None:
    for sample in built.all_samples:
        space = built.spaces_of(sample.person)[built.space(get_task(sample.task)).name]
        outside = tuple(label for label in sample.target if space.labels.resolve(label) is None)
        assert sample.unwinnable == outside
        inside = set(sample.target) - set(outside)
        assert inside <= set(space.labels.labels)


def test_the_manifest_adds_up(built: Benchmark) -> None:
    for name, said in built.manifest["tasks"].items():
        drops = built.manifest["drops"][name]
        pools = [said["pools"][split][stratum]["samples"] for split in SPLITS for stratum in STRATA]
        assert sum(pools) == len(built.samples(name))
        assert said["events"] == said["candidates"] + drops["not_chosen"]
        assert said["candidates"] == sum(pools) + drops["not_drawn"]
    assert built.manifest["policy"] == built.policy
    assert ("label" in built.manifest["clocks"]) == (built.policy == "published")
    subjects = built.manifest["subjects"]
    assert subjects["total"] == subjects["train"] + subjects["dev"] + subjects["test"]


def test_the_prompt_holds_the_subject_and_the_time_and_nothing_of_the_answer(built: Benchmark) -> None:
    for task in built.tasks:
        first, second = built.samples(task.name)[:2]
        text = render_prompt(task, first, built.space(task))
        assert str(first.subject_id) in text
        assert str(first.prediction_time) in text
        assert built.space(task).name in text
        swapped = text.replace(str(first.subject_id), str(second.subject_id))
        swapped = swapped.replace(str(first.prediction_time), str(second.prediction_time))
        assert swapped == render_prompt(task, second, built.space(task))


def test_a_build_survives_the_disk(built: Benchmark) -> None:
    assert built.folder is not None
    opened = Benchmark.open(built.folder)
    assert opened.all_samples == built.all_samples
    assert opened.manifest == json.loads(json.dumps(built.manifest))
    for name, space in built.spaces.items():
        assert opened.spaces[name].labels == space.labels


def digest_of(store: Store, folder: Path, seed: int, per_task: int = 4, policy: Policy = "known_at") -> Benchmark:
    return build_agentehr(store, folder, seed=seed, per_task=per_task, policy=policy, tasks=["labevents", "transfers"])


def test_the_same_seed_gives_the_same_bytes_and_another_seed_does_not(synthetic_store: Store, tmp_path: Path) -> None:
    first = digest_of(synthetic_store, tmp_path / "a", 1)
    again = digest_of(synthetic_store, tmp_path / "b", 1)
    other = digest_of(synthetic_store, tmp_path / "c", 2)
    assert first.manifest == again.manifest
    for path in (tmp_path / "a").rglob("*"):
        if path.is_file():
            assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes(), path.name
    assert other.digest != first.digest


def test_a_smaller_draw_is_part_of_a_larger_one(synthetic_store: Store, tmp_path: Path) -> None:
    small = digest_of(synthetic_store, tmp_path / "small", 1, per_task=3)
    large = digest_of(synthetic_store, tmp_path / "large", 1, per_task=8)
    assert {one.id for one in small.all_samples} < {one.id for one in large.all_samples}
    for task in small.tasks:
        for split in SPLITS:
            for stratum in STRATA:
                assert len(small.samples(task.name, split, stratum)) <= 3


def test_bad_settings_are_named_before_anything_is_built(synthetic_store: Store, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="clock policy"):
        digest_of(synthetic_store, tmp_path / "x", 1, policy="happened_at")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="per_task"):
        digest_of(synthetic_store, tmp_path / "x", 1, per_task=0)
    with pytest.raises(UserError, match="none of the 120 subjects is in train"):
        build_agentehr(synthetic_store, tmp_path / "x", fractions=(0.0, 0.0, 1.0))
    with pytest.raises(UserError, match="three that add up to 1"):
        build_agentehr(synthetic_store, tmp_path / "x", fractions=(float("nan"), 0.5, 0.5))
    with pytest.raises(UserError, match="there is no task"):
        build_agentehr(synthetic_store, tmp_path / "x", tasks=["radiology"])
    assert not (tmp_path / "x").exists()


def test_samples_are_sound(built: Benchmark) -> None:
    def is_sorted(sample: Sample) -> bool:
        return list(sample.target) == sorted(set(sample.target))

    assert all(map(is_sorted, built.all_samples))
    assert [one.id for one in built.all_samples] == sorted(
        (one.id for one in built.all_samples), key=lambda name: (name.split("-")[0], int(name.split("-")[1]))
    )
