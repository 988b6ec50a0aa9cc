"""What else must be the same in another future of the same past: the answers of tools, evidence and candidates too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

from wardround.audits import Compared
from wardround.core import UserError
from wardround.records import Chart, Store
from wardround.tools import Environment, Toolset, open_toolset
from wardround.tools.candidates import CandidateSpace, build_candidate_spaces

EVIDENCE_QUERIES = ("death or discharge", "infection, culture, organism", "last potassium and creatinine")
CANDIDATE_QUERIES = ("sepsis", "CBC", "heparin", "intensive care", "ultrasound")
_LABELS_PER_SPACE = 4
_ASKED, _OTHERS = 0, 1
Call = tuple[str, Mapping[str, object]]


def differing_answers(shown: Chart, other: Chart) -> Iterator[str]:
    """Call the record tools and the search for evidence alike and yield, in words, every call whose texts differ."""
    toolset = open_toolset("agentehr", more=("retrieve_evidence",))
    here, there = Environment(shown, toolset), Environment(other, toolset)
    calls: list[Call] = [("get_event_counts_by_time", {}), ("get_table_names", {})]
    for name in shown.table_names:
        if not shown.table(name).num_rows and not other.table(name).num_rows:
            continue
        calls += [(tool, {"table_name": name}) for tool in ("get_latest_records", "get_table_description")]
        calls.append(("run_sql_query", {"sql_query": f'SELECT COUNT(*) AS rows, MAX(row_id) AS last FROM "{name}"'}))
    calls += [("retrieve_evidence", {"query": query}) for query in EVIDENCE_QUERIES]
    yield from _differing(here, there, calls)
    here.close()
    there.close()


def differing_candidates(store: Store, other: Store, moments: Mapping[int, datetime]) -> Compared:
    """Call the candidate tools alike on the spaces that a question about one of these subjects is asked with, were all
    of them training subjects: made by everybody else, whatever future these have."""
    found = Compared()
    if not set(store.subjects.tolist()) - moments.keys() <= set(other.subjects.tolist()):
        found.left_out["candidates"] = "they are made by everybody, and the other future holds the asked subjects alone"
        return found
    try:
        here, there = (_spaces_beside(each, moments) for each in (store, other))
    except UserError as error:
        found.left_out["candidates"] = str(error)
        return found
    if not here:
        found.left_out["candidates"] = "nobody else is there who has a row of the tables that candidates are made of"
        return found
    for name in sorted(here.keys() ^ there.keys()):
        found.differences.append(f"candidate table {name} is there in one future only")
    subject, as_of = next(iter(moments.items()))
    first, second = (
        Environment(store.chart(subject, as_of), candidates=here),
        Environment(store.chart(subject, as_of), candidates=there),
    )
    calls = [call for name in sorted(here.keys() & there.keys()) for call in _candidate_calls(here[name])]
    found.compared["calls of candidate tools"] += len(calls)
    found.differences += _differing(first, second, calls)
    found.places["candidate tables"] += len(found.differences)
    first.close()
    second.close()
    return found


def _spaces_beside(store: Store, moments: Mapping[int, datetime]) -> dict[str, CandidateSpace]:
    groups = {subject: _ASKED if subject in moments else _OTHERS for subject in store.subjects.tolist()}
    spaces = build_candidate_spaces(store, groups, None)
    return {name: space.without[_ASKED] for name, space in spaces.items() if _ASKED in space.without}


def _candidate_calls(space: CandidateSpace) -> Iterator[Call]:
    """Fixed words and some of its own labels, to every tool; and the whole table by SQL."""
    labels = space.labels.labels
    own = labels[:: max(1, len(labels) // _LABELS_PER_SPACE)]
    for tool in _candidate_tools().names:
        for query in (*CANDIDATE_QUERIES, *own):
            yield tool, {"table_name": space.name, "query": query}
    yield "run_sql_query", {"sql_query": f'SELECT * FROM "{space.name}"'}


def _candidate_tools() -> Toolset:
    return open_toolset("agentehr", more=("get_candidates",)).select(["candidate"])


def _differing(here: Environment, there: Environment, calls: list[Call]) -> Iterator[str]:
    for tool, arguments in calls:
        what = arguments.get("table_name") or arguments.get("query") or arguments.get("sql_query") or ""
        first, second = here.call(tool, arguments), there.call(tool, arguments)
        if first.is_error:
            yield f"{tool} {what} cannot be called: {first.text}"  # two equal errors compare nothing
        elif first.text != second.text:
            yield f"{tool} {what} answers otherwise".replace("  ", " ")
