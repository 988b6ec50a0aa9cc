"""A live stream as the viewer holds it: overview, patients, queries."""

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
from wardround.stream.watching import TOLD

# A live stream as the viewer holds it: where each patient's bundles are told, and what the last of them said.


@dataclass(frozen=True, slots=True, kw_only=True)
class PatientLine:
    """A patient after the last bundle that was told. ``findings``: what the audit held against actions; ``raised``:
    rules that hold and did not after the bundle before; ``alerts``: how many both are; ``proposed``: names of actions.
    """

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
    """A stream as one commit left it. ``clock``: the hour that is open, nothing of it or later is shown; ``open``:
    patients with a bundle that is not closed; ``parked``: lines that lie further ahead than is allowed; ``waiting``:
    bytes of the source's files that are not taken, None where these are not there; ``looked``: when, in seconds of the
    epoch."""

    clock: str | None
    patients: Sequence[PatientLine]
    open: int
    told: int
    lines: int
    refused: int
    parked: int
    finished: bool
    waiting: int | None
    pace: Sequence[PaceMinute]
    looked: float


class ViewedStream:
    """The folder of one stream. UserError: it is none, or of another version. Many threads may ask."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._held: LedgerReading | None = None
        self._begin()
        with watched_ledger(folder) as ledger:
            self.facts = ledger.facts()
        self.look()

    def _begin(self) -> None:
        self._told = OutputReader(self.folder / TOLD)
        self._places: dict[int, array[int]] = {}
        self._patients: dict[int, PatientLine] = {}

    @property
    def name(self) -> str:
        """What its folder is called."""
        return self.folder.resolve().name

    @cached_property
    def rules(self) -> Mapping[str, str]:
        """Its rules in words, by their ids; nothing where it goes by none, or does not say."""
        rules: Mapping[str, str] = json.loads(self.facts.get("rules", "{}"))
        return rules

    @property
    def spec(self) -> SourceSpec:
        """What its rows are. UserError: the source is not known here."""
        return load_source_spec(self.facts["source"])

    @contextmanager
    def ledger(self) -> Iterator[LedgerReading]:
        """The ledger as of now, or of the moment that is held."""
        if self._held is not None:
            yield self._held
            return
        with watched_ledger(self.folder) as ledger:
            yield ledger

    @contextmanager
    def held(self) -> Iterator[None]:
        """Show one moment only, however the stream goes on: for pages that are written one after another."""
        with watched_ledger(self.folder) as ledger:
            self._held = ledger
            try:
                yield
            finally:
                self._held = None

    def look(self) -> StreamMoment:
        """Read on, and return the stream as it is now."""
        with self._lock, self.ledger() as ledger:
            if ledger.length < self._told.place:  # another stream lies here now
                self._begin()
            for place, bundle in self._told.next(ledger.length):
                self._take(place, bundle)
            return self._moment(ledger)

    def patient(self, subject: int) -> tuple[PatientLine, Sequence[int]]:
        """Return a patient and where the bundles are told, oldest first. NotThere: none was told."""
        self.look()
        with self._lock:
            if subject not in self._patients:
                raise NotFound(f"nothing is told of a patient {subject} in the stream {self.name!r}")
            return self._patients[subject], tuple(self._places[subject])

    def bundles(self, places: Sequence[int]) -> list[OutputBundle]:
        """Return what is told at some places."""
        return self._told.at(places)

    def _take(self, place: int, bundle: OutputBundle) -> None:
        before = self._patients.get(bundle.subject)
        self._places.setdefault(bundle.subject, array("q")).append(place)
        self._patients[bundle.subject] = line_of(bundle, before)

    def _moment(self, ledger: LedgerReading) -> StreamMoment:
        return StreamMoment(
            clock=_hour_text(ledger.last_hour()),
            patients=tuple(self._patients.values()),
            open=ledger.open_subjects(),
            told=sum(map(len, self._places.values())),
            lines=ledger.lines,
            refused=ledger.refused,
            parked=ledger.parked(),
            finished=ledger.facts()["finished"] == "yes",
            waiting=_waiting(ledger),
            pace=ledger.pace(),
            looked=time.time(),
        )


def line_of(bundle: OutputBundle, before: PatientLine | None) -> PatientLine:
    """Return a patient after a bundle; what is raised by it hangs on the one before."""
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
        held=was_held if list(was_held) == bundle.held else tuple(bundle.held),  # one for all that say the same
        proposed=tuple(str(one.get("name")) for one in bundle.predicted),
    )


def findings_of(bundle: OutputBundle) -> tuple[str, ...]:
    """Return what the audit held against actions, in words."""
    objections = bundle.audit.get("objections", ())
    return tuple(f"{objection.get('action')}: {objection.get('flaw')}" for objection in objections)


def _hour_text(hour: int | None) -> str | None:
    return None if hour is None else f"{from_microseconds(hour * HOUR):%Y-%m-%d %H:00}"


def _waiting(ledger: LedgerReading) -> int | None:
    """How many bytes of the source's files are not taken yet."""
    folder = Path(ledger.facts().get("lines", ""))
    files = sorted(folder.glob("*.jsonl")) if folder.is_absolute() else []
    if not files:
        return None
    return sum(max(0, file.stat().st_size - ledger.offsets.get(file.name, 0)) for file in files)


# Which patients of a stream are listed: chosen by what the last bundle raised, and those with new alerts first.


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


def listed(moment: StreamMoment, query: PatientQuery, *, rows: int = ROWS) -> ListedPatients:
    """Return the page of the list that is asked for. NotThere: there are not so many."""
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


# What the page of a stream shows: how it keeps up, and its patients, those with new alerts first.


MINUTES = 60
BAR, HEIGHT = 12, 60
"""Width of a minute's bar with the gap beside it, and height of the drawing."""
MOST_RULES = 200
"""So many rules may be chosen from; a protocol of more is asked by its address."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMinute:
    """A minute as a bar; ``told``: in words."""

    x: float
    y: float
    height: float
    told: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnPace:
    """The last hour. ``rate``: bundles a minute over it; ``longest``: seconds; ``ago``: seconds since the last commit,
    None where there was none; ``most``: bundles of the fullest minute."""

    bars: Sequence[DrawnMinute]
    rate: float
    longest: float
    ago: float | None
    most: int


def overview(stream: ViewedStream, moment: StreamMoment, query: PatientQuery, found: ListedPatients) -> dict[str, Any]:
    """Return what the page shows."""
    held = {rule for line in moment.patients for rule in line.held}
    return {
        "stream": stream,
        "moment": moment,
        "looked": told_time(moment.looked),
        "pace": draw_pace(moment),
        "size": (MINUTES * BAR, HEIGHT),
        "query": query,
        "found": found,
        "shows": tuple(SHOWS),
        "orders": ORDERS,
        "rules": sorted(held)[:MOST_RULES],
        "refreshes": REFRESHES,
    }


def told_time(seconds: float) -> str:
    """Say a moment of the wall clock."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"


def draw_pace(moment: StreamMoment) -> DrawnPace:
    """Draw the hour before the moment, minute by minute; of a stream without a commit in it nothing is drawn."""
    last = int(moment.looked // 60)
    by_minute = {each.minute: each for each in moment.pace if last - MINUTES < each.minute <= last}
    most = max((each.told for each in by_minute.values()), default=0)
    return DrawnPace(
        bars=tuple(_bar(by_minute[minute], minute - last + MINUTES - 1, most) for minute in sorted(by_minute)),
        rate=sum(each.told for each in by_minute.values()) / MINUTES,
        longest=max((each.longest for each in by_minute.values()), default=0.0),
        ago=max(0.0, moment.looked - moment.pace[-1].last) if moment.pace else None,
        most=most,
    )


def _bar(minute: PaceMinute, place: int, most: int) -> DrawnMinute:
    height = round((HEIGHT - 2) * minute.told / most, 1) if most else 0.0
    when = datetime.fromtimestamp(minute.minute * 60, UTC)
    told = (
        f"{when:%H:%M} UTC: {minute.told:,} bundles, {minute.lines:,} lines in {minute.commits:,} commits; no line "
        f"waited longer than {minute.longest:.2f} s"
    )
    return DrawnMinute(x=place * BAR, y=round(HEIGHT - height, 1), height=height, told=told)
