"""The rules of the answers in a prompt: counted over training questions, thresholds as the labels were made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wardround.benchmarks import AGENTEHR_TASKS, EHRSHOT_TASKS, Benchmark, ask
from wardround.benchmarks.answer_rules import UsualCount, render_rules
from wardround.benchmarks.ehrshot.concepts import load_concepts


def test_the_usual_count_is_the_middle_half_of_the_training_answers() -> None:
    assert UsualCount.of([1, 1, 1, 2, 2, 3, 3, 3, 9]) == UsualCount(questions=9, low=1, median=2, high=3)
    assert UsualCount.of([1, 2, 3, 4]) is None


def test_a_prompt_says_how_many_answers_are_usual_and_the_test_split_decides_none_of_it(
    synthetic_benchmark_path: Path,
) -> None:
    benchmark = Benchmark.open(synthetic_benchmark_path)
    sample = benchmark.samples("diagnoses", "test")[0]
    sizes = [len(one.target) for one in benchmark.samples("diagnoses", "train")]
    text = ask(benchmark, sample, rules=True)
    assert f"In the {len(sizes)} questions of this kind from other patients" in text
    assert f"has {int(np.quantile(sizes, 0.5, method='nearest'))} names" in text
    assert text.startswith(benchmark.prompt(sample))
    changed = tuple(
        replace(one, target=(*one.target, "made up")) if one.split != "train" else one for one in benchmark.all_samples
    )
    other = replace(benchmark, all_samples=changed)
    assert ask(other, other.sample(sample.id), rules=True) == text
    assert ask(benchmark, sample, rules=False) == benchmark.prompt(sample)


def test_a_laboratory_prompt_says_what_a_test_is() -> None:
    text = render_rules(AGENTEHR_TASKS["labevents"], "", [20] * 9)
    for word in ("indices", "calculated", "held", "20 names"):
        assert word in text


@pytest.mark.parametrize("name", [name for name in EHRSHOT_TASKS if name.startswith("lab_")])
def test_a_laboratory_class_is_told_with_its_thresholds(name: str) -> None:
    text = render_rules(EHRSHOT_TASKS[name], "", [])
    for step in load_concepts()[name].steps:
        assert f" {step.bound:g}" in text
    assert load_concepts()[name].title in text


def test_thresholds_are_told_in_the_units_of_the_record() -> None:
    assert "in g/L (g/dL times 10): severe below 70; moderate below 110; mild below 120; otherwise normal" in (
        render_rules(EHRSHOT_TASKS["lab_anemia"], "", [])
    )
    assert "in mmol/L (mg/dL divided by 18): severe below 3;" in render_rules(EHRSHOT_TASKS["lab_hypoglycemia"], "", [])
    assert "(mg/dL" not in render_rules(EHRSHOT_TASKS["lab_hyperkalemia"], "", [])


@pytest.mark.parametrize("name", ["guo_los", "new_lupus", "chexpert"])
def test_other_classes_need_no_rules(name: str) -> None:
    assert render_rules(EHRSHOT_TASKS[name], "", []) == ""
