"""What else must be the same in another future of the same past: answers of tools, and the questions asked by then."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path

from wardround.benchmarks.ehrshot import build_ehrshot
from wardround.core import UserError
from wardround.records import Chart, Store
from wardround.tools import Environment

_STAY_TASKS = ("guo_los", "guo_icu", "guo_readmission")
_SETTLED_LATE = frozenset({"fhir", "omop"})
"""Sources in which a kind or status of a visit that is known when it ends says whether it is a stay at all (OMOP: an
emergency visit or an admission; FHIR: cancelled): who is asked hangs on it, so questions are not compared."""


def differing_answers(shown: Chart, other: Chart) -> Iterator[str]:
    """Call the record tools of two charts alike and yield, in words, every call whose texts differ."""
    here, there = Environment(shown), Environment(other)
    calls: list[tuple[str, dict[str, str]]] = [("get_event_counts_by_time", {}), ("get_table_names", {})]
    for name in shown.table_names:
        if not shown.table(name).num_rows and not other.table(name).num_rows:
            continue
        calls += [(tool, {"table_name": name}) for tool in ("get_latest_records", "get_table_description")]
        calls.append(("run_sql_query", {"query": f'SELECT COUNT(*) AS rows, MAX(row_id) AS last FROM "{name}"'}))
    for tool, arguments in calls:
        first, second = here.call(tool, arguments), there.call(tool, arguments)
        if first.text != second.text:
            yield f"{tool} {arguments.get('table_name', '')} answers otherwise"
    here.close()
    there.close()


def differing_questions(store: Store, other: Store, moments: Mapping[int, datetime]) -> Iterator[str]:
    """Yield, in words, every question about a stay that is asked by a subject's moment in one of two stores only.

    A question is what is asked and when; its answer lies in the future and may differ.
    """
    if store.spec.name in _SETTLED_LATE:
        return
    first, second = (_questions(each, moments) for each in (store, other))
    for word, only in (("only here", first - second), ("only in the other future", second - first)):
        yield from (f"{subject}: {task} at {asked} is asked {word}" for subject, task, asked in sorted(only))


def _questions(store: Store, moments: Mapping[int, datetime]) -> set[tuple[int, str, str]]:
    with tempfile.TemporaryDirectory(prefix="wardround-questions-") as folder:
        try:
            built = build_ehrshot(store, Path(folder) / "questions", tasks=_STAY_TASKS, per_task=0, allow_missing=True)
        except UserError:  # a source, or a few subjects, without any stay to ask about
            return set()
    return {
        (sample.subject_id, sample.task, str(sample.prediction_time))
        for sample in built.all_samples
        if sample.subject_id in moments and sample.prediction_time <= moments[sample.subject_id]
    }
