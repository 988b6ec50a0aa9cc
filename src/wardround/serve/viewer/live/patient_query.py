"""Which patients of a stream are listed: chosen by what the last bundle raised, and those with new alerts first."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from wardround.serve.viewer.live.viewed_stream import PatientLine, StreamMoment
from wardround.serve.viewer.viewed_run import NotThere

ROWS = 100
NEW_HOURS = 24
"""An alert is new for so long after its bundle, by the stream's clock."""
REFRESHES = ("10", "30", "60")
"""Seconds after which a reader may have the page ask for itself again."""
SHOWS: Mapping[str, Callable[[PatientLine], bool]] = {
    "alerts": lambda line: line.alerts > 0,
    "proposals": lambda line: bool(line.proposed),
    "abnormal": lambda line: line.abnormal > 0,
    "amended": lambda line: line.amended,
}
_ASKED = ("show", "rule", "patient", "sort", "page", "refresh")
ORDERS = ("alerts", "hour", "abnormal", "bundles", "patient")


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientQuery:
    """What an address asks of the list; ``refresh``: seconds, empty for never."""

    show: str = ""
    rule: str = ""
    patient: str = ""
    sort: str = "alerts"
    page: int = 1
    refresh: str = ""

    def address(self, **other: object) -> str:
        """Return the address of the same list with something else asked."""
        asked = {name: getattr(self, name) for name in _ASKED} | other
        plain = {"sort": "alerts", "page": 1}
        told = {name: value for name, value in asked.items() if value and value != plain.get(name)}
        return "index.html" + (f"?{urlencode(told)}" if told else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPatients:
    """The patients of one page; ``fitting``: how many the filters leave; ``newest``: since when an alert is new."""

    rows: Sequence[PatientLine]
    fitting: int
    pages: int
    page: int
    newest: str


def read_query(asked: Mapping[str, str]) -> PatientQuery:
    """Read an address's parameters; empty ones ask for nothing. NotThere: one asks for what no list has."""
    given = {name: value for name, value in asked.items() if value}
    for name in given:
        if name not in _ASKED:
            raise NotThere(f"patients cannot be chosen by {name!r}, only by {', '.join(_ASKED)}")
    for name, known in (("show", SHOWS), ("sort", ORDERS), ("refresh", REFRESHES)):
        if name in given and given[name] not in known:
            raise NotThere(f"no {name} {given[name]!r}, only {', '.join(known)}")
    page = given.get("page", "1")
    if not page.isdecimal():
        raise NotThere(f"no page {page!r}")
    return PatientQuery(
        show=given.get("show", ""),
        rule=given.get("rule", ""),
        patient=given.get("patient", ""),
        sort=given.get("sort", "alerts"),
        page=int(page),
        refresh=given.get("refresh", ""),
    )


def listed(moment: StreamMoment, query: PatientQuery, *, rows: int = ROWS) -> ListedPatients:
    """Return the page of the list that is asked for. NotThere: there are not so many."""
    fitting = [line for line in moment.patients if _fits(line, query)]
    pages = max(1, -(-len(fitting) // rows))
    if not 1 <= query.page <= pages:
        raise NotThere(f"the list has {pages} pages, not {query.page}")
    newest = _newest(moment)
    ordered = sorted(fitting, key=lambda line: line.subject)
    ordered.sort(key=_rank(query.sort, newest), reverse=query.sort != "patient")
    shown = ordered[(query.page - 1) * rows : query.page * rows]
    return ListedPatients(rows=shown, fitting=len(fitting), pages=pages, page=query.page, newest=newest)


def _newest(moment: StreamMoment) -> str:
    """The hour, as it is written, from which on an alert is new."""
    if moment.clock is None:
        return ""
    clock = datetime.strptime(moment.clock, "%Y-%m-%d %H:%M")
    return f"{clock - timedelta(hours=NEW_HOURS):%Y-%m-%d %H:%M}"


def _fits(line: PatientLine, query: PatientQuery) -> bool:
    return (
        (not query.show or SHOWS[query.show](line))
        and (not query.rule or query.rule in line.held)
        and (not query.patient or query.patient == str(line.subject))
    )


def _rank(order: str, newest: str) -> Callable[[PatientLine], Any]:
    """What a row is ordered by, the highest first: of alerts, whether they are new, then the hour, then how many."""
    ranks: Mapping[str, Callable[[PatientLine], Any]] = {
        "alerts": lambda line: (bool(line.alerts) and line.hour >= newest, line.hour, line.alerts, line.abnormal),
        "hour": lambda line: line.hour,
        "abnormal": lambda line: (line.abnormal, line.hour),
        "bundles": lambda line: line.bundles,
        "patient": lambda line: line.subject,
    }
    return ranks[order]
