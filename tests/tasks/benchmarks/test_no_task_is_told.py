"""Of every task of ours: what answers it without reading stands on its card, and each answer that it offers occurs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import timedelta
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from effort import often
from wardround.core import parse_time
from wardround.records import Store, ingest
from wardround.reports.baseline_card import baseline_card
from wardround.synth import synthesize
from wardround.tasks.benchmarks import Benchmark, Sample, Task, build_agentehr, build_clinseek
from wardround.tasks.scoring import trivial_scores

TASKS = ("ED_Hospitalization", "LengthOfStay_3day", "transfers", "services", "labevents", "emar", "next_event")


def _new_rows(store: Store, samples: Sequence[Sample]) -> dict[str, np.ndarray]:
    """How many rows of each table a question's chart shows that the one at its window's beginning does not."""

    @lru_cache
    def counts(subject: int, moment: str) -> dict[str, int]:
        chart = store.chart(subject, parse_time(moment))
        return {name: chart.table(name).num_rows for name in chart.table_names}

    found = []
    for one in samples:
        begun = one.facts.get("curated_from", str(one.moment - timedelta(days=1)))
        chart = one.chart(store)
        earlier = counts(one.subject_id, begun)
        found.append({name: chart.table(name).num_rows - earlier[name] for name in chart.table_names})
    return {name: np.array([one[name] for one in found], float) for name in store.table_names}


def _usual(targets: Sequence[tuple[str, ...]], several: bool) -> set[str]:
    """The commonest names, as many as targets usually have."""
    counts = Counter(name for target in targets for name in target)
    size = round(np.mean([len(target) for target in targets])) if several else 1
    return {name for name, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0]))[: max(1, size)]}


def _f1(samples: Sequence[Sample], answers: Sequence[set[str]]) -> np.ndarray:
    pairs = [(set(one.target), answer) for one, answer in zip(samples, answers, strict=True)]
    return np.array([2 * len(target & answer) / (len(target) + len(answer)) for target, answer in pairs])


def _telling_table(task: Task, samples: Sequence[Sample], rows: dict[str, np.ndarray]) -> tuple[str, float]:
    """The table whose having a new row answers best among training people, and the lower bound of what it adds to the
    prior among all others."""
    trains = np.array([one.split == "train" for one in samples])
    training = [one.target for one in samples if one.split == "train"]
    several = task.answer.several
    prior = _f1(samples, [_usual(training, several)] * len(samples))
    gains = {}
    for name, column in rows.items():
        has = column > 0
        parts = {
            part: [s.target for s, is_, t in zip(samples, has, trains, strict=True) if t and is_ == part]
            for part in (True, False)
        }
        if min(map(len, parts.values())) < 5:
            continue
        usual = {part: _usual(targets, several) for part, targets in parts.items()}
        gains[name] = _f1(samples, [usual[bool(one)] for one in has]) - prior
    if not gains:
        return "", -1.0
    best = max(gains, key=lambda name: (gains[name][trains].mean(), name))
    people = np.array([one.person for one in samples])[~trains]
    of_people = [gains[best][~trains][people == one] for one in np.unique(people)]
    if not of_people:
        return best, -1.0
    draws = np.random.default_rng(5).integers(0, len(of_people), (300, len(of_people)))
    means = [np.concatenate([of_people[one] for one in draw]).mean() for draw in draws]
    return best, float(np.quantile(means, 0.025))


def _check(store: Store, benches: Sequence[Benchmark]) -> None:
    untold = []
    for bench in benches:
        card = {
            row.task: row
            for row in baseline_card(trivial_scores(bench, {one.id for one in bench.all_samples}), intervals=False)
        }
        for task in bench.tasks:
            samples = [one for one in bench.all_samples if one.task == task.name]
            if task.answer.label_values:
                missing = set(task.answer.label_values) - {name for one in samples for name in one.target}
                noted = bench.manifest["tasks"][task.name]
                assert missing == {*noted.get("never_the_answer", ()), *noted.get("never_drawn", ())}, task.name
            if sum(one.split == "train" for one in samples) < 10 or all(one.split == "train" for one in samples):
                assert not card[task.name].by_moment
                continue
            row = card[task.name]
            assert row.by_moment, task.name
            assert len(row.by_existence) == 5, task.name
            table, low = _telling_table(task, samples, _new_rows(store, samples))
            named = [str(one["what"]) for one in row.by_existence]
            if low > 0 and row.warning is None and not any(table in what for what in named):
                untold.append((task.name, table, low, named))
    assert not untold


@pytest.mark.parametrize("seed", often([2], [1, 2, 3]))
def test_a_table_that_answers_by_being_there_is_on_the_card(tmp_path: Path, seed: int) -> None:
    """Its own fit, read from charts, in three hospitals."""
    synthesize(tmp_path / "raw", patients=60, seed=seed, compress=False, notes=False)
    ingest("mimiciv", tmp_path / "raw", tmp_path / "store")
    store = Store.open(tmp_path / "store")
    count = often(25, 60)
    asked = build_clinseek(store, tmp_path / "clinseek", per_task=count, tasks=TASKS, allow_missing=True)
    _check(store, [build_agentehr(store, tmp_path / "agentehr", per_task=count), asked])


@pytest.mark.long
def test_so_it_is_in_the_open_demo(mimic_demo_store: Store, tmp_path: Path) -> None:
    built = build_clinseek(mimic_demo_store, tmp_path / "clinseek", per_task=60, tasks=TASKS[1:], allow_missing=True)
    _check(mimic_demo_store, [build_agentehr(mimic_demo_store, tmp_path / "agentehr", per_task=60), built])
