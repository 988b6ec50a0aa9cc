"""The possible ClinSeek-Bench questions before given moments: they must be the same in another future."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from wardround.core import format_time, from_microseconds, to_microseconds
from wardround.records import Chart, Store
from wardround.tasks.benchmarks.clinseek.build import question_source
from wardround.tasks.benchmarks.clinseek.definitions import RULES
from wardround.tasks.benchmarks.clinseek.timeline import StayQuestion, Timeline
from wardround.tasks.benchmarks.pipeline import BuildSettings


def possible_questions(
    store: Store, moments: Mapping[int, datetime]
) -> tuple[dict[tuple[str, int, str], bool], dict[str, str], dict[str, str]]:
    """Return three tables about the questions that exist by each subject's moment.

    First: by question, whether everything that made it a question was known by then. Second: the tasks that the store
    cannot have, with reasons. Third: by task, the columns that decide whether its questions exist.
    """
    settings = BuildSettings()
    sources = {name: question_source(name, store, settings, None) for name in RULES}
    left_out = {name: reason for name, source in sources.items() if (reason := source.unavailable()) is not None}
    is_settled: dict[tuple[str, int, str], bool] = {}
    subjects = set(store.subjects.tolist())
    for subject, as_of in moments.items():
        if subject not in subjects:
            continue
        timeline, now_us = Timeline(store, subject, "known_at"), to_microseconds(as_of)
        ended_stays = ended_stay_rows(store.chart(subject, as_of))
        for name, source in sources.items():
            if name not in left_out:
                is_settled |= {
                    _key(name, question): question.settled_us <= now_us
                    and (question.stay in ended_stays or not question.kind_is_late)
                    for question in source.questions(timeline)
                    if question.prediction_us <= now_us
                }
    return (
        is_settled,
        left_out,
        {name: source.deciding_columns for name, source in sources.items() if name not in left_out},
    )


def ended_stay_rows(chart: Chart) -> frozenset[str]:
    """Return the row ids of the stays whose end a chart shows."""
    row_ids: set[str] = set()
    for role in (chart.spec.roles.admission, chart.spec.roles.stay, chart.spec.roles.emergency):
        if role is not None and role.table in chart.table_names:
            batch = chart.table(role.table).batch
            ids = batch.column("row_id").to_pylist()
            ends = {part for column in role.ends for part in column.split("|")} & set(batch.schema.names)
            for name in ends:
                row_ids.update(
                    ids[row] for row in batch.column(name).is_valid().to_numpy(zero_copy_only=False).nonzero()[0]
                )
    return frozenset(row_ids)


def _key(task: str, question: StayQuestion) -> tuple[str, int, str]:
    return (
        task,
        question.subject,
        f"{time_text(question.prediction_us)} with input from {time_text(question.curated_from)}",
    )


def time_text(moment: int) -> str:
    """Format a moment in microseconds."""
    return format_time(from_microseconds(moment))
