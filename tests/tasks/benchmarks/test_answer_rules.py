"""The rules of the answers in a prompt: counted over training questions when the benchmark is built."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from wardround.tasks.benchmarks import AGENTEHR_TASKS, EHRSHOT_TASKS, Benchmark, Sample, ask
from wardround.tasks.benchmarks.answer_rules import AnswerRules, UsualCount, render_rules
from wardround.tasks.benchmarks.ehrshot.concepts import load_concepts, rules_of


def test_the_usual_count_is_the_middle_half_of_the_training_answers() -> None:
    assert UsualCount.of([1, 1, 1, 2, 2, 3, 3, 3, 9]) == UsualCount(questions=9, low=1, median=2, high=3)
    assert UsualCount.of([1, 2, 3, 4]) is None


def test_a_prompt_says_how_many_answers_are_usual_as_the_manifest_does(synthetic_benchmark_path: Path) -> None:
    benchmark = Benchmark.open(synthetic_benchmark_path)
    sample = benchmark.samples("diagnoses", "test")[0]
    usual = benchmark.manifest["answer_rules"]["diagnoses"]["usual"]
    text = ask(benchmark, sample, rules=True)
    assert f"In the {usual['questions']} questions of this kind from other patients" in text
    assert f"has {usual['median']} names as a rule, half of them {usual['low']} to {usual['high']}" in text
    assert text.startswith(benchmark.prompt(sample))
    changed = tuple(replace(one, target=(*one.target, "made up")) for one in benchmark.all_samples)
    assert ask(replace(benchmark, all_samples=changed), sample, rules=True) == text
    assert ask(benchmark, sample, rules=False) == benchmark.prompt(sample)


def test_how_to_answer_is_said_once_in_a_prompt_of_ours_and_to_an_outside_agent_with_the_question(
    synthetic_benchmark_path: Path,
) -> None:
    benchmark = Benchmark.open(synthetic_benchmark_path)
    sample = benchmark.samples("diagnoses", "test")[0]
    ours, theirs = ask(benchmark, sample, rules=True), ask(benchmark, sample, rules=True, outside=True)
    assert "finish" not in ours
    assert "candidate table `diagnoses_ccs_candidates`" in ours
    assert theirs.startswith(ours)
    assert theirs.removeprefix(ours).count("Call finish once") == 1


def test_a_training_question_is_told_what_is_usual_of_other_people() -> None:
    sizes = [(0, 1)] * 7 + [(1, 9)] * 5 + [(2, 9)]
    rules = AnswerRules.counted(AGENTEHR_TASKS["diagnoses"], sizes)
    assert rules.usual_for(None) == UsualCount(questions=13, low=1, median=1, high=9)
    assert rules.usual_for(0) == UsualCount(questions=6, low=9, median=9, high=9)
    assert rules.usual_for(1) == UsualCount(questions=8, low=1, median=1, high=1)
    assert AnswerRules.from_json(json.loads(json.dumps(rules.to_json()))) == rules
    assert AnswerRules.counted(AGENTEHR_TASKS["transfers"], sizes).usual is None


def test_the_thresholds_of_a_task_are_in_the_manifest_and_no_others() -> None:
    kept = rules_of(load_concepts()["lab_anemia"]).to_json()
    assert kept["thresholds"]["steps"] == ("severe below 70", "moderate below 110", "mild below 120")
    sample = Sample(
        id="lab_anemia-1",
        task="lab_anemia",
        subject_id=1,
        prediction_time=datetime(2150, 1, 1),
        target=("0",),
        split="test",
        stratum="any",
    )
    told = {**kept, "thresholds": {**kept["thresholds"], "steps": ["severe below 1"]}}
    benchmark = Benchmark(manifest={"name": "x", "answer_rules": {"lab_anemia": told}}, all_samples=(sample,))
    assert "severe below 1; otherwise normal" in ask(benchmark, sample, rules=True)


def _render(task: str, sizes: Sequence[int] = ()) -> str:
    if task in EHRSHOT_TASKS:
        return render_rules(EHRSHOT_TASKS[task], "", rules_of(load_concepts().get(task)).thresholds, None)
    rules = AnswerRules.counted(AGENTEHR_TASKS[task], [(0, size) for size in sizes])
    return render_rules(AGENTEHR_TASKS[task], "", rules.thresholds, rules.usual)


def test_a_laboratory_prompt_says_what_a_test_is() -> None:
    text = _render("labevents", [20] * 9)
    for word in ("indices", "calculated", "held", "20 names"):
        assert word in text


@pytest.mark.parametrize("name", [name for name in EHRSHOT_TASKS if name.startswith("lab_")])
def test_a_laboratory_class_is_told_with_its_thresholds(name: str) -> None:
    text = _render(name)
    for step in load_concepts()[name].steps:
        assert f" {step.bound:g}" in text
    assert load_concepts()[name].title in text


def test_thresholds_are_told_in_the_units_of_the_record() -> None:
    assert "in g/L (g/dL times 10): severe below 70; moderate below 110; mild below 120; otherwise normal" in (
        _render("lab_anemia")
    )
    assert "in mmol/L (mg/dL divided by 18): severe below 3;" in _render("lab_hypoglycemia")
    assert "(mg/dL" not in _render("lab_hyperkalemia")


@pytest.mark.parametrize("name", ["guo_los", "new_lupus", "chexpert"])
def test_other_classes_need_no_rules(name: str) -> None:
    assert _render(name) == ""
