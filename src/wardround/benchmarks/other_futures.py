"""What else must be the same of a chart in another future of the same past: the answers of tools."""

from __future__ import annotations

from collections.abc import Iterator

from wardround.records import Chart
from wardround.tools import Environment


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
