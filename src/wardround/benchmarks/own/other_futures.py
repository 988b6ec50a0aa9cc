"""Whether the questions of a user's own tasks are the same in another future of the same past."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from wardround.audits import Compared
from wardround.benchmarks.benchmark import Benchmark
from wardround.benchmarks.own.asking import AfterRows
from wardround.benchmarks.own.questions import AskingRule, Moment
from wardround.records import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferingMoments:
    """Compares, by task, the moments asked of two stores by each subject's own; there is no excuse for a difference."""

    asked: Mapping[str, AskingRule]

    def __call__(self, store: Store, other: Store, moments: Mapping[int, datetime]) -> Compared:
        found = Compared()
        for task, asked in self.asked.items():
            here, there = (_asked_by_then(asked, each, moments) for each in (store, other))
            found.compared[f"questions of {task}"] += len(here | there)
            for one in here ^ there:
                where = "only here" if one in here else "only in the other future"
                found.differences.append(f"{one.subject_id}: {task} at {one.prediction_time} is asked {where}")
                found.places[f"own: {task}"] += 1
        return found


def asked_of(benchmark: Benchmark) -> DifferingMoments:
    """Return the comparison for the tasks of a benchmark whose manifest says when they are asked by the record."""
    said = {name: told["asked"] for name, told in benchmark.manifest.get("tasks", {}).items() if "asked" in told}
    return DifferingMoments(
        asked={name: AfterRows.from_facts(facts) for name, facts in said.items() if "table" in facts}
    )


def _asked_by_then(asked: AskingRule, store: Store, moments: Mapping[int, datetime]) -> set[Moment]:
    every = asked.moments(store, "known_at", Counter())
    return {one for one in every if one.prediction_time <= moments.get(one.subject_id, datetime.min)}
