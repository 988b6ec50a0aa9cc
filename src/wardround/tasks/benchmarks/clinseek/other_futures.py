"""The questions of ClinSeek-Bench that could be asked by some moments: what must be the same in another future."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from wardround.core import format_time, from_microseconds, to_microseconds
from wardround.records import Chart, Store
from wardround.tasks.benchmarks.clinseek.build import asking_of
from wardround.tasks.benchmarks.clinseek.definitions import RULES
from wardround.tasks.benchmarks.clinseek.timeline import Asking, StayQuestion, Timeline
from wardround.tasks.benchmarks.pipeline import BuildSettings


def possible_questions(
    store: Store, moments: Mapping[int, datetime]
) -> tuple[dict[tuple[str, int, str], bool], dict[str, str], dict[str, str]]:
    """Return every question asked by each subject's moment, with whether what made it be asked was known by then, the
    tasks that the store cannot ask, with the reasons, and by task the columns that its questions hang on."""
    settings = BuildSettings()
    asking = {name: asking_of(name, store, settings, None) for name in RULES}
    left_out = {name: reason for name, one in asking.items() if (reason := one.unavailable()) is not None}
    settled: dict[tuple[str, int, str], bool] = {}
    held = set(store.subjects.tolist())
    for subject, as_of in moments.items():
        if subject not in held:
            continue
        timeline, now = Timeline(store, subject, "known_at"), to_microseconds(as_of)
        over = stays_over(store.chart(subject, as_of))
        for name, one in asking.items():
            if name not in left_out:
                settled |= {
                    _key(name, each): each.settled <= now and (each.stay in over or not each.told_late)
                    for each in _asked_by(one, timeline, now)
                }
    return settled, left_out, {name: one.hangs_on for name, one in asking.items() if name not in left_out}


def stays_over(chart: Chart) -> frozenset[str]:
    """The rows of stays of which a chart shows an end."""
    found: set[str] = set()
    for role in (chart.spec.roles.admission, chart.spec.roles.stay, chart.spec.roles.emergency):
        if role is not None and role.table in chart.table_names:
            batch = chart.table(role.table).batch
            ids = batch.column("row_id").to_pylist()
            ends = {part for named in role.ends for part in named.split("|")} & set(batch.schema.names)
            for name in ends:
                found.update(
                    ids[row] for row in batch.column(name).is_valid().to_numpy(zero_copy_only=False).nonzero()[0]
                )
    return frozenset(found)


def _asked_by(asking: Asking, timeline: Timeline, now: int) -> list[StayQuestion]:
    return [one for one in asking.questions(timeline) if one.asked <= now]


def _key(task: str, one: StayQuestion) -> tuple[str, int, str]:
    return task, one.subject, f"{time_text(one.asked)} with input from {time_text(one.curated_from)}"


def time_text(moment: int) -> str:
    """Write a moment in microseconds as people read it."""
    return format_time(from_microseconds(moment))
