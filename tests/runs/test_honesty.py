"""The baseline card: answers without reading, scored by hand, looked up on the chart, and beaten or not."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from wardround.records import Store
from wardround.reports.baseline_card import against_trivial, baseline_card
from wardround.tasks.answers import Candidates, OneClass, SeveralClasses
from wardround.tasks.benchmarks import Benchmark, Sample, build_ehrshot
from wardround.tasks.scoring import trivial_scores

NAMES = Candidates(tables=("x",))
YES_NO = OneClass(classes=(("0", "no"), ("1", "yes")))


@pytest.mark.parametrize(
    ("targets", "prior"),
    [
        ([("a",), ("a",), ("a", "b")], ("a",)),  # a: (1 + 1 + 2/3) / 3 = 0.89; a and b: (2/3 + 2/3 + 1) / 3 = 0.78
        ([("a", "b"), ("a", "b"), ("b", "c")], ("b", "a")),  # b: 2/3; b and a: (1 + 1 + 1/2) / 3 = 0.83; all: 0.8
        ([("b",), ("a",)], ("a", "b")),  # as common: by name; a: 1/2; both: 2/3
    ],
)
def test_the_prior_of_names_is_as_many_of_the_commonest_as_score_best(
    targets: list[tuple[str, ...]], prior: tuple[str, ...]
) -> None:
    assert NAMES.prior(targets) == prior
    assert NAMES.constant(targets) == prior[:1]


def test_the_prior_of_classes_is_the_commonest_and_the_constant_the_negative_one() -> None:
    targets = [("1",), ("1",), ("0",)]
    assert (YES_NO.prior(targets), YES_NO.constant(targets)) == (("1",), ("0",))
    several = SeveralClasses(classes=(("0", "none"), ("1", "edema"), ("2", "pneumonia")))
    assert several.prior([("1", "2"), ("1", "2"), ("2",)]) == ("2", "1")


def a_sample(number: int, target: str, split: str) -> Sample:
    return Sample.from_json(
        {
            "id": f"s{number}",
            "task": "guo_los",
            "subject_id": number,
            "prediction_time": datetime(2150, 1, 1).isoformat(" "),
        }
        | {"target": [target], "split": split, "stratum": "any", "facts": {"event_time": None, "row_ids": []}}
    )


@pytest.fixture
def small() -> Benchmark:
    """Training says 1 twice and 0 once; of four test stays three are long; of two the last one's length is known."""
    samples = [a_sample(1, "1", "train"), a_sample(2, "1", "train"), a_sample(3, "0", "train")]
    samples += [a_sample(4, "1", "test"), a_sample(5, "1", "test"), a_sample(6, "1", "test"), a_sample(7, "0", "test")]
    last = {"guo_los": {"s6": ("0",), "s7": ("0",)}}
    return Benchmark(manifest={"name": "ehrshot", "policy": "known_at"}, all_samples=tuple(samples), last=last)


def test_the_card_by_hand(small: Benchmark) -> None:
    (scores,) = trivial_scores(small, {"s4", "s5", "s6", "s7"})
    assert scores.means == {"nothing": 0, "constant": 0.25, "prior": 0.75, "last": 0.75, "oracle": 1}
    assert (scores.best, scores.metric) == ("prior", "accuracy")
    (row,) = baseline_card([scores], seed=1)
    assert (row.n, row.best, row.intervals["prior"].estimate) == (4, "prior", 0.75)


def test_a_training_sample_is_not_answered_by_its_own_target(small: Benchmark) -> None:
    (scores,) = trivial_scores(small, {"s1", "s3"})
    answers = {one.sample: one.answer for one in scores.scores["prior"]}
    assert answers == {"s1": ("0",), "s3": ("1",)}  # without s1: one each, the first by name; without s3: 1 twice


def test_a_benchmark_that_was_built_without_last_answers_says_so(small: Benchmark) -> None:
    (scores,) = trivial_scores(replace(small, last={}), {"s4"})
    assert "build it again" in scores.unavailable["last"]
    assert "last" not in scores.means


def test_every_contender_is_paired_with_the_best_trivial_one(small: Benchmark) -> None:
    trivial = trivial_scores(small, {"s4", "s5", "s6", "s7"})
    groups = {name: trivial[0].scores[name] for name in ("prior", "oracle", "nothing")}
    found = {row.contender: row.test.difference.estimate for row in against_trivial(groups, trivial, seed=1)}
    assert found == {"prior": 0, "oracle": 0.25, "nothing": -0.75}


def test_a_difference_to_the_best_trivial_one_is_corrected_for_all_contenders() -> None:
    """Of eight test stays five are long; always long is right in five, and a patient is one of eight coins."""
    samples = [a_sample(1, "1", "train"), *(a_sample(2 + n, "01"[n < 5], "test") for n in range(8))]
    bench = Benchmark(manifest={"name": "ehrshot", "policy": "known_at"}, all_samples=tuple(samples), last={})
    (trivial,) = trivial_scores(bench, {f"s{2 + n}" for n in range(8)})
    groups = {name: trivial.scores[name] for name in ("oracle", "nothing", "constant")}
    rows = {row.contender: row for row in against_trivial(groups, [trivial], seed=1)}
    own = {name: row.test.p_value for name, row in rows.items()}
    assert own["oracle"] == 2 / 2**3, "three patients, whose signs must all be alike"
    assert own["nothing"] == 2 / 2**5
    for name, row in rows.items():
        assert row.adjusted_p is not None
        assert row.adjusted_p >= (own[name] or 0.0)
    assert (rows["oracle"].adjusted_p or 0.0) > 2 / 2**3, "one of three is less remarkable than one alone"


def test_the_last_answer_is_one_that_the_chart_shows(synthetic_benchmark_path: Path, synthetic_store: Store) -> None:
    bench = Benchmark.open(synthetic_benchmark_path)
    names = bench.last["labevents"]
    assert not isinstance(names, str)
    assert names
    for sample_id, answer in names.items():
        sample = bench.sample(sample_id)
        shown = synthetic_store.chart(sample.subject_id, sample.prediction_time).table("labevents")
        times, labels = shown.event_time, shown.batch.column("label").to_pylist()
        drawn = {time: {labels[place] for place in range(len(labels)) if times[place] == time} for time in set(times)}
        assert set(answer) in drawn.values()


def test_the_last_class_is_of_an_answer_that_had_come_about(synthetic_store: Store, tmp_path: Path) -> None:
    bench = build_ehrshot(synthetic_store, tmp_path / "bench", tasks=("guo_los", "lab_anemia"), per_task=0)
    assert Benchmark.open(tmp_path / "bench").last == bench.last
    for task in ("guo_los", "lab_anemia"):
        known = bench.last[task]
        assert not isinstance(known, str)
        for sample in bench.samples(task)[::9]:
            before = [
                one
                for one in bench.samples(task)
                if one.subject_id == sample.subject_id and one.facts["event_time"] <= str(sample.prediction_time)
            ]
            told = {one.target for one in before if _is_shown(one, synthetic_store, sample.prediction_time)}
            assert (sample.id in known) == bool(told)
            assert known.get(sample.id, next(iter(told), None)) in (told or {None})


def _is_shown(answered: Sample, store: Store, moment: datetime) -> bool:
    """Whether the chart as of a moment shows the row or the cells that give an answer."""
    chart = store.chart(answered.subject_id, moment)
    for row in answered.facts["row_ids"]:
        return row in chart.table(row.partition(":")[0]).batch.column("row_id").to_pylist()
    (row,) = answered.facts["late_cells"]
    stays = chart.table(row.partition(":")[0]).batch
    place = stays.column("row_id").to_pylist().index(row)
    return stays.column("dischtime")[place].as_py() is not None
