"""What the moment of a question and the existence of rows tell: read as a chart shows it, fitted, and named."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from wardround.records import Store
from wardround.reports.baseline_card import baseline_card
from wardround.tasks.answers import OneClass
from wardround.tasks.benchmarks import Benchmark, Sample, build_clinseek, get_task
from wardround.tasks.benchmarks.clinseek import risk
from wardround.tasks.benchmarks.clinseek.definitions import RiskRule
from wardround.tasks.benchmarks.clinseek.timeline import HOUR, Span, Timeline
from wardround.tasks.benchmarks.small_models import area, area_with_interval, neighbours, shares, spread
from wardround.tasks.benchmarks.without_reading import MOMENT, MomentReader, _gain, _Targets, without_reading
from wardround.tasks.scoring import trivial_scores

ED = "clinseek.ED_Hospitalization"


def test_the_area_is_the_share_of_pairs_in_the_right_order() -> None:
    values, positive = np.array([1.0, 2.0, 2.0, 5.0]), np.array([False, False, True, True])
    assert area(values, positive) == (0.5 + 1 + 1 + 1) / 4
    assert area(-values, positive) == pytest.approx(1 - 3.5 / 4)
    assert np.isnan(area(values, np.ones(4, bool)))
    alone = area_with_interval(values, np.ones(4, bool), np.arange(4))
    assert (alone.value, alone.low, alone.high) == (0.5, 0.0, 1.0)


def test_an_interval_is_over_people_and_not_over_their_questions() -> None:
    """A hundred questions of each of four people say as much as one of each."""
    values, positive = np.tile([0.1, 0.9, 0.4, 0.6], 100), np.tile([False, True, True, False], 100)
    people = np.tile(np.arange(4), 100)
    found = area_with_interval(values, positive, people)
    assert found.value == 0.75
    assert found.high - found.low > 0.4


def test_ranks_have_no_unit_and_what_is_missing_lies_outside() -> None:
    rows = np.array([[1.0], [10.0], [1000.0], [np.nan]])
    assert spread(rows, rows).ravel().tolist() == pytest.approx([1 / 6, 3 / 6, 5 / 6, -0.5])


def test_a_fit_finds_what_lies_in_the_middle_and_what_is_missing() -> None:
    rng = np.random.default_rng(1)
    rows = rng.uniform(0, 1, (300, 2))
    middle = np.abs(rows[:, 0] - 0.5) < 0.25
    told = shares(rows[:200], middle[:200].astype(np.int64), rows[200:], 2)
    assert told.sum(axis=1) == pytest.approx(1)
    assert area(told[:, 1], middle[200:]) > 0.9
    noise = shares(rows[:200], (rng.uniform(size=200) < 0.5).astype(np.int64), rows[200:], 2)
    assert abs(area(noise[:, 1], middle[200:]) - 0.5) < 0.3
    rows[middle, 1] = np.nan
    assert area(shares(rows[:200, 1:], middle[:200].astype(np.int64), rows[200:, 1:], 2)[:, 1], middle[200:]) > 0.99
    assert neighbours(rows[:200, :1], rows[:1, :1], 3)[0, 0] == 0


def test_moments_and_existence_are_what_the_chart_shows(synthetic_store: Store, clinseek_path: Path) -> None:
    """Counted again on charts: another way of reading the same clocks."""
    asked = [one for one in Benchmark.open(clinseek_path).all_samples if one.task == "clinseek.LengthOfStay_3day"]
    asked += [replace(one, facts={}) for one in Benchmark.open(clinseek_path).samples("clinseek.emar")[:3]]
    readings = MomentReader(synthetic_store).read(asked, existence=True)
    column = {name: readings.moment[:, place] for place, name in enumerate(MOMENT)}
    for place, one in enumerate(asked):
        chart = synthetic_store.chart(one.subject_id, one.moment)
        tables = {name: chart.table(name) for name in chart.table_names}
        pending = sum(each.num_rows for each in tables.values() if each.spec.pending is not None)
        rows = sum(each.num_rows for each in tables.values() if not each.spec.is_static)
        assert rows - pending <= column["rows so far"][place] <= rows  # a test that runs is shown as one pending row
        assert column["hour of day"][place] == one.moment.hour
        stay = max(row["admittime"] for row in tables["admissions"].batch.to_pylist())
        assert column["minutes since admission"][place] == (one.moment - stay).total_seconds() / 60
        ordered = [row["ordertime"] for row in tables["poe"].batch.to_pylist()]
        named = {name: readings.existence[place, n] for n, name in enumerate(readings.names)}
        since = one.facts.get("curated_from", str(one.moment - timedelta(days=1, microseconds=-1)))
        assert named["poe"] == sum(str(time) >= since for time in ordered)
        assert named.get("poe.order_subtype", 0) <= named["poe"]


def test_a_moment_that_hangs_on_the_answer_is_found_and_the_task_as_it_is_asked_is_not(
    synthetic_store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who will be admitted is asked about an hour earlier than the others."""
    ask = {"per_task": 0, "tasks": ["ED_Hospitalization"], "balanced": False}
    as_asked = build_clinseek(synthetic_store, tmp_path / "hours", **ask)  # type: ignore[arg-type]
    said = as_asked.manifest["tasks"][ED]
    assert said["when"]["low"] < 0.6
    assert {"what", "auc", "low", "high"} <= set(said["existence"][0])

    def by_the_answer(rule: RiskRule, timeline: Timeline, span: Span) -> tuple[int, int] | str:
        hours = 1 if risk.led_to(timeline, span) is not None else 2
        return span.start, span.start + hours * HOUR

    monkeypatch.setattr(risk, "_window", by_the_answer)
    leaking = build_clinseek(synthetic_store, tmp_path / "leaking", **ask)  # type: ignore[arg-type]
    assert leaking.manifest["tasks"][ED]["when"]["low"] > 0.6
    (row,) = baseline_card(trivial_scores(leaking, {one.id for one in leaking.samples(split="test")}), intervals=False)
    assert row.warning is not None
    assert "the moment alone answers with AUC" in row.warning
    assert Benchmark.open(tmp_path / "leaking").when == leaking.when


class OneColumn(MomentReader):
    """A reader whose only telling thing is the existence of one table."""

    def read(self, samples, *, existence):  # type: ignore[no-untyped-def]
        found = super().read(samples, existence=existence)
        told = np.array([[float(one.target == ("1",)), 1.0] for one in samples])
        return replace(found, names=("poe", "vitalsign"), existence=told)


def test_the_existence_that_tells_most_is_named_and_has_its_figure(synthetic_store: Store, clinseek_path: Path) -> None:
    real = Benchmark.open(clinseek_path).samples("clinseek.LengthOfStay_3day")[0]
    subjects = synthetic_store.subjects.tolist()[:60]
    samples = [
        Sample(
            id=f"s{n}", task=ED, subject_id=subject, prediction_time=real.moment, target=(str(n % 2),), stratum="any",
            split="train" if n < 40 else "test",
        )
        for n, subject in enumerate(subjects)
    ]  # fmt: skip
    task = replace(get_task(ED), answer=OneClass(classes=(("0", "no"), ("1", "yes"))))
    facts = without_reading(OneColumn(synthetic_store), task, samples).facts
    assert facts["existence"][0]["what"] == "poe has a row"
    assert facts["existence"][0]["auc"] == 1.0
    few = without_reading(OneColumn(synthetic_store), task, samples[:5])
    assert "nothing to fit" in str(few.when)


class OneMoment(MomentReader):
    """A reader of two moments: nobody with a 1 was ever admitted, the others up to two minutes ago; and
    whoever has a 1 has more rows as a rule."""

    def read(self, samples, *, existence):  # type: ignore[no-untyped-def]
        moment = np.zeros((len(samples), len(MOMENT)))
        for row, one in enumerate(samples):
            yes = one.target == ("1",)
            moment[row, MOMENT.index("minutes since admission")] = np.nan if yes else row % 3
            moment[row, MOMENT.index("rows so far")] = row % 7 + 2 * yes
        return replace(super().read(samples, existence=existence), moment=moment)


def test_what_never_happened_before_the_question_comes_before_all_that_did(
    synthetic_store: Store, clinseek_path: Path
) -> None:
    real = Benchmark.open(clinseek_path).samples("clinseek.LengthOfStay_3day")[0]
    samples = [
        Sample(
            id=f"s{n}", task=ED, subject_id=subject, prediction_time=real.moment, target=(str(n % 2),), stratum="any",
            split="train" if n < 40 else "test",
        )
        for n, subject in enumerate(synthetic_store.subjects.tolist()[:60])
    ]  # fmt: skip
    task = replace(get_task(ED), answer=OneClass(classes=(("0", "no"), ("1", "yes"))))
    assert without_reading(OneMoment(synthetic_store), task, samples).facts["when"]["most_by"] == (
        "minutes since admission"
    )


def test_a_number_answers_with_the_prior_of_its_own_part() -> None:
    """Eight training questions by hand: ``a`` where a row exists, ``b`` and ``c`` where none does."""
    table = np.array([[1, 0, 0]] * 5 + [[0, 1, 1]] * 5 + [[1, 0, 0], [0, 1, 1], [0, 1, 0]], float)
    targets = _Targets(table=table, sizes=table.sum(axis=1), is_single=False)
    fit, asked = np.arange(10), np.array([10, 11, 12])
    values = np.array([1.0] * 5 + [0.0] * 5 + [1.0, 0.0, 0.0])
    # Names are as common as each other: all three give 2*1/4 and 2*2/5, (0.5 + 0.8) / 2 = 0.65; `a` alone 0.5,
    # `a` and `b` (0.67 + 0.5) / 2 = 0.58.
    assert targets.by_prior(fit, asked).tolist() == pytest.approx([0.5, 0.8, 0.5])
    assert targets.by_number(values, fit, asked).tolist() == pytest.approx([1.0, 1.0, 2 / 3])
    assert targets.by_number(np.full(13, np.nan), fit, asked).tolist() == pytest.approx([0.5, 0.8, 0.5])
    alone = _Targets(table=table, sizes=table.sum(axis=1), is_single=True)
    assert alone.by_prior(fit, asked).tolist() == pytest.approx([1.0, 0.0, 0.0])


def test_a_gain_is_over_people() -> None:
    found = _gain(np.array([1.0, 1.0, 0.0, 0.5]), np.array([0.5, 0.5, 0.5, 0.5]), np.array([1, 1, 2, 3]))
    assert (found["f1"], found["prior"], found["gain"]) == (0.625, 0.5, 0.125)
    assert (found["low"], found["high"]) == (-0.5, 0.5)


@pytest.mark.parametrize("classes", [3, 12])
def test_of_many_classes_what_exists_is_named_with_its_gain(
    synthetic_store: Store, clinseek_path: Path, classes: int
) -> None:
    """The table exists where the answer is the second class; of the others nothing says which."""
    real = Benchmark.open(clinseek_path).samples("clinseek.LengthOfStay_3day")[0]
    samples = [
        Sample(
            id=f"s{n}", task=ED, subject_id=subject, prediction_time=real.moment, stratum="any",
            target=("1",) if n % 2 else (str(n // 2 % (classes - 1) * 2 % classes if n // 2 % (classes - 1) else 0),),
            split="train" if n < 60 else "test",
        )
        for n, subject in enumerate(synthetic_store.subjects.tolist()[:90])
    ]  # fmt: skip
    task = replace(get_task(ED), answer=OneClass(classes=tuple((str(n), f"class {n}") for n in range(classes))))
    facts = without_reading(OneColumn(synthetic_store), task, samples).facts
    first = facts["existence"][0]
    assert (first["what"], first["low"] >= 0, first["samples"]) == ("poe has a row", True, len(samples) - 60)
    assert first["gain"] > 0.02
    assert {"f1", "prior", "gain", "low", "high", "most_by"} <= set(facts["when"])
