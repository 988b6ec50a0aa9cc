"""Prove per sample that the chart does not show the answer; declared hindsight; other clocks."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from pathlib import Path

import numpy as np

from wardround.core import UserError, parse_time, row_id
from wardround.records import Chart, Policy, RowRole, Store
from wardround.tasks.benchmarks.benchmark import CLOCKS, Benchmark
from wardround.tasks.benchmarks.sample import Sample
from wardround.tasks.benchmarks.task import Task, get_task

# Check for each sample that no part of the answer is on the chart of the question.


@dataclass(frozen=True, slots=True, kw_only=True)
class Leak:
    """A part of a sample's answer that its chart shows."""

    sample: str
    what: str


def leak_check(benchmark: Benchmark, store: Store) -> tuple[Leak, ...]:
    """Return every leak of every sample: empty if the benchmark is sound.

    The check uses the chart that an agent would get: the rows and cells with the answer are hidden, and the question
    comes before the event (an event with only a day: at its start). If the label consists of a table's rows, their
    twins in other tables are hidden too, and under ``known_at`` the table shows no row at or after the event's time;
    the published clocks make no such promise.
    """
    return tuple(leak for sample in benchmark.all_samples for leak in _leaks(sample, store, benchmark.policy))


def names_its_answer(sample: Sample) -> bool:
    """Return whether a sample names the rows of its answer; a TRACE stay does not."""
    return "row_ids" in sample.facts


def _leaks(sample: Sample, store: Store, policy: Policy) -> Iterator[Leak]:
    chart = sample.chart(store, policy)
    role = store.spec.roles.first(name) if (name := get_task(sample.task).role) else None
    yield from _shown(sample, chart, has_only_days=role is not None and role.precision == "day")
    if role is not None:
        yield from _leaks_of_rows(sample, store, chart, role, policy)


def _leaks_of_rows(sample: Sample, store: Store, chart: Chart, role: RowRole, policy: Policy) -> Iterator[Leak]:
    """Yield leaks of a label that consists of a table's rows.

    The rows must be named, have no visible twins, and the chart must show no row of their time.
    """
    if not sample.facts["row_ids"]:
        yield Leak(sample=sample.id, what="the sample names no row of its label, so nothing can be proved")
    if role.twin and role.twin.table in chart.table_names:
        for shown in sorted(_twin_ids(sample, store, role) & _row_ids(chart, role.twin.table)):
            yield Leak(sample=sample.id, what=f"row {shown} shows its label")
    event_time = parse_time(sample.facts["event_time"])
    if policy != "known_at" or event_time <= sample.moment:
        return
    late = int(np.count_nonzero(chart.table(role.table).event_time >= np.datetime64(event_time, "us")))
    if late:
        yield Leak(sample=sample.id, what=f"{late} rows of {role.table} at or after the event are on the chart")


def _shown(sample: Sample, chart: Chart, *, has_only_days: bool) -> Iterator[Leak]:
    """Yield visible rows and filled cells of the answer; a negative answer has neither."""
    event_time = sample.facts["event_time"]
    if event_time is not None and parse_time(event_time) <= sample.moment and not has_only_days:
        yield Leak(sample=sample.id, what="the question comes after the event")
    for hidden in sample.facts["row_ids"]:
        if hidden in _row_ids(chart, hidden.partition(":")[0]):
            yield Leak(sample=sample.id, what=f"row {hidden} of its label is on the chart")
    for hidden, columns in sample.facts.get("late_cells", {}).items():
        batch = chart.table(hidden.partition(":")[0]).batch
        rows = [row for row, shown in enumerate(batch.column("row_id").to_pylist()) if shown == hidden]
        for column in {part for name in columns for part in name.split("|")} & set(batch.schema.names):
            if any(batch.column(column)[row].as_py() is not None for row in rows):
                yield Leak(sample=sample.id, what=f"{column} of row {hidden} is on the chart")


def _row_ids(chart: Chart, table: str) -> set[str]:
    return set(chart.table(table).batch.column("row_id").to_pylist())


def _twin_ids(sample: Sample, store: Store, role: RowRole) -> set[str]:
    """Return the rows of another table with the same content as the label's rows."""
    if role.twin is None or role.twin.table not in store.table_names:
        return set()
    rows = store.rows(sample.subject_id, role.table)
    hidden = set(sample.facts["row_ids"])
    pairs = zip(rows.column("row_id").to_pylist(), rows.column(role.twin.column).to_pylist(), strict=True)
    return {row_id(role.twin.table, key) for name, key in pairs if name in hidden and key is not None}


# Questions that depend on later events: declared in ``hindsight.toml``, with the reason.


@dataclass(frozen=True, slots=True, kw_only=True)
class Hindsight:
    """A reason why questions of some tasks may depend on later events; empty ``sources`` means all."""

    name: str
    tasks: tuple[str, ...]
    reason: str
    sources: tuple[str, ...] = ()

    def holds(self, task: str, source: str) -> bool:
        """Return whether it applies to a task in a source."""
        return task in self.tasks and (not self.sources or source in self.sources)


def hindsight_of(task: str, source: str) -> str | None:
    """Return why a task's questions may depend on later events, None where they may not."""
    return next((one.reason for one in load_hindsight() if one.holds(task, source)), None)


def hindsight_facts(tasks: Sequence[Task], source: str) -> dict[str, str]:
    """Return the tasks whose questions depend on later events, with reasons, for a manifest."""
    reasons = {task.name: hindsight_of(task.name, source) for task in tasks}
    return {name: reason for name, reason in reasons.items() if reason is not None}


def draw_reason() -> str:
    """Return why another event of a subject may be drawn in another future."""
    return next(one.reason for one in load_hindsight() if one.name == "one event of a subject")


@cache
def load_hindsight() -> tuple[Hindsight, ...]:
    """Return every declared reason."""
    text = resources.files("wardround.tasks.benchmarks").joinpath("hindsight.toml").read_text(encoding="utf-8")
    return tuple(
        Hindsight(
            name=body["name"],
            tasks=tuple(body["tasks"]),
            reason=body["reason"],
            sources=tuple(body.get("sources", ())),
        )
        for body in tomllib.loads(text)["hindsight"]
    )


# The same questions on other clocks: how much an agent gains from rows that were not available yet.


def reclock(benchmark: Benchmark, policy: Policy, folder: Path) -> Benchmark:
    """Save a copy of a benchmark for the charts of another clock policy.

    Samples and candidates stay the same: two runs, one on each, differ only by what the clocks show. UserError: the
    benchmark has that policy already.
    """
    if benchmark.policy == policy:
        raise UserError(f"the benchmark {benchmark.name!r} uses the clocks {policy!r} already")
    manifest = {
        **benchmark.manifest,
        "policy": policy,
        "clocks": CLOCKS[policy],
        "reclocked": {"from": benchmark.policy, "samples": benchmark.digest},
    }
    return replace(benchmark, manifest=manifest, folder=None).save(folder)
