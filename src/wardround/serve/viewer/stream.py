"""A live stream in the viewer: overview, patients, queries."""

from __future__ import annotations

import json
import threading
import time
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from wardround.clinical.bundles.events import HOUR
from wardround.core import from_microseconds
from wardround.records import SourceSpec, load_source_spec
from wardround.serve.viewer.run import NotFound
from wardround.stream import OutputBundle, OutputReader, watched_ledger
from wardround.stream.ledger import LedgerReading, PaceMinute
from wardround.stream.watching import BUNDLES_FILE

# A live stream in the viewer: where each patient's bundles are recorded, and the content of the last one.


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientLine:
    """A patient after the last recorded bundle. ``findings``: objections of the audit to actions; ``raised``: rules
    that are true now and were not after the bundle before; ``alerts``: the number of both; ``proposed``: names of
    actions."""

    subject: int
    hour: str
    bundles: int
    amended: bool
    abnormal: int
    running: int
    findings: tuple[str, ...]
    raised: tuple[str, ...]
    held: tuple[str, ...]
    proposed: tuple[str, ...]
    alerts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMoment:
    """A stream as of one commit.

    ``clock``: the open hour; nothing of it or later is shown. ``open``: patients with a bundle that is not closed;
    ``parked``: lines further in the future than allowed; ``waiting``: bytes of the source's files not read yet, None if
    the files are missing; ``looked``: when, in seconds since 1970.
    """

    clock: str | None
    patients: Sequence[PatientLine]
    open: int
    bundles: int
    lines: int
    refused: int
    parked: int
    finished: bool
    waiting: int | None
    pace: Sequence[PaceMinute]
    looked: float


class ViewedStream:
    """The folder of one stream. UserError: it is not one, or has another version. Safe to share between threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._held: LedgerReading | None = None
        self._begin()
        with watched_ledger(folder) as ledger:
            self.facts = ledger.facts()
        self.look()

    def _begin(self) -> None:
        self._output = OutputReader(self.folder / BUNDLES_FILE)
        self._places: dict[int, array[int]] = {}
        self._patients: dict[int, PatientLine] = {}

    @property
    def name(self) -> str:
        """The name of its folder."""
        return self.folder.resolve().name

    @cached_property
    def rules(self) -> Mapping[str, str]:
        """Its rules in words, by their ids; empty if it uses none, or does not record them."""
        rules: Mapping[str, str] = json.loads(self.facts.get("rules", "{}"))
        return rules

    @property
    def spec(self) -> SourceSpec:
        """The spec of its rows. UserError: the source is unknown here."""
        return load_source_spec(self.facts["source"])

    @contextmanager
    def ledger(self) -> Iterator[LedgerReading]:
        """The ledger as of now, or of the fixed moment."""
        if self._held is not None:
            yield self._held
            return
        with watched_ledger(self.folder) as ledger:
            yield ledger

    @contextmanager
    def held(self) -> Iterator[None]:
        """Show only one moment, even if the stream continues: for pages that are written one after another."""
        with watched_ledger(self.folder) as ledger:
            self._held = ledger
            try:
                yield
            finally:
                self._held = None

    def look(self) -> StreamMoment:
        """Read new data, and return the stream as it is now."""
        with self._lock, self.ledger() as ledger:
            if ledger.length < self._output.place:  # the folder now has another stream
                self._begin()
            for place, bundle in self._output.next(ledger.length):
                self._take(place, bundle)
            return self._moment(ledger)

    def patient(self, subject: int) -> tuple[PatientLine, Sequence[int]]:
        """Return a patient and where the bundles are recorded, oldest first. NotFound: no such patient."""
        self.look()
        with self._lock:
            if subject not in self._patients:
                raise NotFound(f"the stream {self.name!r} has no bundle of a patient {subject}")
            return self._patients[subject], tuple(self._places[subject])

    def bundles(self, places: Sequence[int]) -> list[OutputBundle]:
        """Return the records at some places."""
        return self._output.at(places)

    def _take(self, place: int, bundle: OutputBundle) -> None:
        before = self._patients.get(bundle.subject)
        self._places.setdefault(bundle.subject, array("q")).append(place)
        self._patients[bundle.subject] = line_of(bundle, before)

    def _moment(self, ledger: LedgerReading) -> StreamMoment:
        return StreamMoment(
            clock=_hour_text(ledger.last_hour()),
            patients=tuple(self._patients.values()),
            open=ledger.open_subjects(),
            bundles=sum(map(len, self._places.values())),
            lines=ledger.lines,
            refused=ledger.refused,
            parked=ledger.parked(),
            finished=ledger.facts()["finished"] == "yes",
            waiting=_waiting(ledger),
            pace=ledger.pace(),
            looked=time.time(),
        )


def line_of(bundle: OutputBundle, before: PatientLine | None) -> PatientLine:
    """Return a patient after a bundle; which rules are new depends on the bundle before."""
    was_held = () if before is None else before.held
    findings, raised = findings_of(bundle), tuple(rule for rule in bundle.held if rule not in was_held)
    return PatientLine(
        subject=bundle.subject,
        hour=bundle.hour,
        bundles=1 if before is None else before.bundles + 1,
        amended=bundle.amended,
        abnormal=len(bundle.abnormal),
        running=bundle.running,
        findings=findings,
        raised=raised,
        alerts=len(findings) + len(raised),
        held=was_held if list(was_held) == bundle.held else tuple(bundle.held),  # one object for equal values
        proposed=tuple(str(one.get("name")) for one in bundle.predicted),
    )


def findings_of(bundle: OutputBundle) -> tuple[str, ...]:
    """Return the objections of the audit to actions, in words."""
    objections = bundle.audit.get("objections", ())
    return tuple(f"{objection.get('action')}: {objection.get('flaw')}" for objection in objections)


def _hour_text(hour: int | None) -> str | None:
    return None if hour is None else f"{from_microseconds(hour * HOUR):%Y-%m-%d %H:00}"


def _waiting(ledger: LedgerReading) -> int | None:
    """Return how many bytes of the source's files are not read yet."""
    folder = Path(ledger.facts().get("lines", ""))
    files = sorted(folder.glob("*.jsonl")) if folder.is_absolute() else []
    if not files:
        return None
    return sum(max(0, file.stat().st_size - ledger.offsets.get(file.name, 0)) for file in files)


# Which patients of a stream are listed: chosen by the alerts of the last bundle, those with new alerts first.


PATIENTS = 100
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
    """The query of a list, from an address; ``refresh``: seconds, empty for never."""

    show: str = ""
    rule: str = ""
    patient: str = ""
    sort: str = "alerts"
    page: int = 1
    refresh: str = ""

    def address(self, **other: object) -> str:
        """Return the address of the same list with some parameters changed."""
        asked = {name: getattr(self, name) for name in _ASKED} | other
        plain = {"sort": "alerts", "page": 1}
        query = {name: value for name, value in asked.items() if value and value != plain.get(name)}
        return "index.html" + (f"?{urlencode(query)}" if query else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedPatients:
    """The patients of one page; ``fitting``: how many match the filters; ``newest``: since when an alert is new."""

    rows: Sequence[PatientLine]
    fitting: int
    pages: int
    page: int
    newest: str


def read_patient_query(asked: Mapping[str, str]) -> PatientQuery:
    """Read an address's parameters; empty ones are ignored. NotFound: a value that the list does not have."""
    given = {name: value for name, value in asked.items() if value}
    for name in given:
        if name not in _ASKED:
            raise NotFound(f"patients cannot be chosen by {name!r}, only by {', '.join(_ASKED)}")
    for name, known in (("show", SHOWS), ("sort", ORDERS), ("refresh", REFRESHES)):
        if name in given and given[name] not in known:
            raise NotFound(f"no {name} {given[name]!r}, only {', '.join(known)}")
    page = given.get("page", "1")
    if not page.isdecimal():
        raise NotFound(f"no page {page!r}")
    return PatientQuery(
        show=given.get("show", ""),
        rule=given.get("rule", ""),
        patient=given.get("patient", ""),
        sort=given.get("sort", "alerts"),
        page=int(page),
        refresh=given.get("refresh", ""),
    )


def listed_patients(moment: StreamMoment, query: PatientQuery, *, rows: int = PATIENTS) -> ListedPatients:
    """Return the requested page of the list. NotFound: no such page."""
    fitting = [line for line in moment.patients if _fits(line, query)]
    pages = max(1, -(-len(fitting) // rows))
    if not 1 <= query.page <= pages:
        raise NotFound(f"the list has {pages} pages, not {query.page}")
    newest = _newest(moment)
    ordered = sorted(fitting, key=lambda line: line.subject)
    ordered.sort(key=_rank(query.sort, newest), reverse=query.sort != "patient")
    shown = ordered[(query.page - 1) * rows : query.page * rows]
    return ListedPatients(rows=shown, fitting=len(fitting), pages=pages, page=query.page, newest=newest)


def _newest(moment: StreamMoment) -> str:
    """Return the hour, as text, since which an alert is new."""
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
    """Return a row's sort key, the highest first: new alerts, then the hour, then their number."""
    ranks: Mapping[str, Callable[[PatientLine], Any]] = {
        "alerts": lambda line: (bool(line.alerts) and line.hour >= newest, line.hour, line.alerts, line.abnormal),
        "hour": lambda line: line.hour,
        "abnormal": lambda line: (line.abnormal, line.hour),
        "bundles": lambda line: line.bundles,
        "patient": lambda line: line.subject,
    }
    return ranks[order]


# The content of a stream's page: its progress, and its patients, those with new alerts first.


MINUTES = 60
BAR, HEIGHT = 12, 60
"""Width of a minute's bar with the gap beside it, and height of the drawing."""
MOST_RULES = 200
"""At most this number of rules is offered in the form; of a larger protocol, others are chosen by the address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMinute:
    """A minute as a bar; ``tooltip``: in words."""

    x: float
    y: float
    height: float
    tooltip: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPace:
    """The last hour. ``rate``: bundles a minute; ``longest``: seconds; ``ago``: seconds since the last commit, None
    without one; ``most``: bundles of the minute with most."""

    bars: Sequence[DrawnMinute]
    rate: float
    longest: float
    ago: float | None
    most: int


def overview(stream: ViewedStream, moment: StreamMoment, query: PatientQuery, found: ListedPatients) -> dict[str, Any]:
    """Return the content of the page."""
    held = {rule for line in moment.patients for rule in line.held}
    return {
        "stream": stream,
        "moment": moment,
        "looked": time_text(moment.looked),
        "pace": draw_pace(moment),
        "size": (MINUTES * BAR, HEIGHT),
        "query": query,
        "found": found,
        "shows": tuple(SHOWS),
        "orders": ORDERS,
        "rules": sorted(held)[:MOST_RULES],
        "refreshes": REFRESHES,
    }


def time_text(seconds: float) -> str:
    """Write a time in UTC."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def draw_pace(moment: StreamMoment) -> DrawnPace:
    """Draw the hour before the moment, minute by minute; None for a stream without a commit in it."""
    last = int(moment.looked // 60)
    by_minute = {each.minute: each for each in moment.pace if last - MINUTES < each.minute <= last}
    most = max((each.bundles for each in by_minute.values()), default=0)
    return DrawnPace(
        bars=tuple(_bar(by_minute[minute], minute - last + MINUTES - 1, most) for minute in sorted(by_minute)),
        rate=sum(each.bundles for each in by_minute.values()) / MINUTES,
        longest=max((each.longest for each in by_minute.values()), default=0.0),
        ago=max(0.0, moment.looked - moment.pace[-1].last) if moment.pace else None,
        most=most,
    )


def _bar(minute: PaceMinute, place: int, most: int) -> DrawnMinute:
    height = round((HEIGHT - 2) * minute.bundles / most, 1) if most else 0.0
    when = datetime.fromtimestamp(minute.minute * 60, UTC)
    tooltip = (
        f"{when:%H:%M} UTC: {minute.bundles:,} bundles, {minute.lines:,} lines in {minute.commits:,} commits; no line "
        f"waited longer than {minute.longest:.2f} s"
    )
    return DrawnMinute(x=place * BAR, y=round(HEIGHT - height, 1), height=height, tooltip=tooltip)
