"""The drawing of a record as of a moment: stays, tests, drugs, documents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time, timedelta
from fnmatch import fnmatchcase
from math import isfinite

from wardround.clinical.bundles import EventKind, ValueLevel
from wardround.clinical.bundles.text import LEVEL_WORDS, panel_of
from wardround.records import Event
from wardround.reports.standing import StandingEvent, StandingRecord, event_label

# The as-of timeline: stays, measurements as small charts, drugs and procedures as bars.
#
# Only the record as of the moment is drawn (``reports/standing.py``); the right edge is that moment.


SHORTEST, USUAL, LONGEST = timedelta(hours=6), timedelta(days=7), timedelta(days=90)
"""The window: the latest stay with the day before it, until the prediction time, within the first and the last; where
no stay is on record, the second."""
BEFORE_STAY = timedelta(hours=24)
MOST_PANELS, MOST_BARS = 40, 40
"""Charts and bars of a section at most."""
MOST_MARKS, FEWEST_MARKS = 600, 8
"""At most this number of results is drawn as marks, at least one per test: cited ones, those read, the latest."""
WIDTH, HEIGHT, MARGIN = 280, 84, 8
"""Size of a test's drawing; bars are drawn on a width of ``WIDTH`` and stretched."""
_BEGINS = {
    EventKind.MEDICATION_START: EventKind.MEDICATION_STOP,
    EventKind.INFUSION_START: EventKind.INFUSION_STOP,
}
_MOST_POINTS, _MOST_DAYS = 60, 14
_ABNORMAL = (ValueLevel.LOW, ValueLevel.HIGH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """The rows that the agent was shown, and for those that it cited the number in the citation table."""

    read: Collection[str]
    cited: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMark:
    """A result: its place, its text, whether the agent read it, its citation's number if it was cited."""

    row_id: str
    x: float
    y: float
    tooltip: str
    is_read: bool
    cite: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnBar:
    """A stay, an order or an infusion: its start ``x`` and its width; ``is_open`` if no end is known yet."""

    row_id: str
    name: str
    x: float
    width: float
    tooltip: str
    is_open: bool
    is_read: bool
    cite: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTest:
    """One measurement: its results, the line through all of them, their number, and the reference limits of its last
    row, as top and height of a band.

    ``least`` and ``most``: the values at the lower and upper edge; ``abnormal``: how many results are outside the
    limits; ``level``: low or high for the last one, empty if it is normal or unknown.
    """

    name: str
    unit: str
    last: str
    last_time: datetime
    level: str
    abnormal: int
    marks: tuple[DrawnMark, ...]
    line: str
    results: int
    band: tuple[float, float] | None
    least: str
    most: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartSection:
    """Charts under a heading, of ``total``; ``groups``: panels by name, those with abnormal values first."""

    title: str
    groups: tuple[tuple[str, tuple[DrawnTest, ...]], ...]
    total: int

    @property
    def panels(self) -> tuple[DrawnTest, ...]:
        """All of its charts."""
        return tuple(panel for _, panels in self.groups for panel in panels)


@dataclass(frozen=True, slots=True, kw_only=True)
class BarSection:
    """Bars under a heading, of ``total``."""

    title: str
    bars: tuple[DrawnBar, ...]
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOfTimeline:
    """Everything that is drawn, and how much there is. ``days``: places of midnights in the window."""

    first: datetime
    start: datetime
    end: datetime
    days: tuple[float, ...]
    stays: tuple[DrawnBar, ...]
    charts: tuple[ChartSection, ...]
    spans: tuple[BarSection, ...]

    @property
    def marks(self) -> list[DrawnMark | DrawnBar]:
        """Everything drawn for a row."""
        results = (mark for section in self.charts for panel in section.panels for mark in panel.marks)
        return [*self.stays, *results, *(bar for section in self.spans for bar in section.bars)]

    @property
    def drawn(self) -> Mapping[str, int]:
        """The number in the citation table of every cited row that is drawn."""
        return {mark.row_id: mark.cite for mark in self.marks if mark.cite is not None}

    @property
    def read(self) -> int:
        """The number of drawn rows that the agent read."""
        return len({mark.row_id for mark in self.marks if mark.is_read})


def draw_timeline(record: StandingRecord, interest: Interest) -> AsOfTimeline:
    """Lay out a record up to its moment."""
    events, end = record.events, record.as_of
    first = min((event.event.time for event in events), default=end - USUAL)
    start = window_start(events, end)
    whole, window = TimeScale(start=min(first, end - SHORTEST), end=end), TimeScale(start=start, end=end)
    ranked = {title: _panels(several, window, interest) for title, several in measured(events).items()}
    count = sum(min(len(panels), MOST_PANELS) for panels in ranked.values())
    share = MOST_MARKS // max(1, count)
    sections = (
        ("Drugs and infusions", {**_BEGINS}, frozenset[str]()),
        ("Procedures, lines and ventilation", {EventKind.PROCEDURE: EventKind.PROCEDURE_STOP}, record.moments),
    )
    return AsOfTimeline(
        first=whole.start,
        start=start,
        end=end,
        days=tuple(_days(window)),
        stays=tuple(_bars(events, {EventKind.ADMISSION: EventKind.DISCHARGE}, whole, interest)),
        charts=tuple(_chart_section(title, panels, share) for title, panels in ranked.items()),
        spans=tuple(
            _bar_section(title, _bars(events, kinds, window, interest, moments)) for title, kinds, moments in sections
        ),
    )


def _chart_section(title: str, ranked: Sequence[DrawnTest], share: int) -> ChartSection:
    """Choose the charts by rank, then group them by panel: those outside their limits first."""
    groups: dict[str, list[DrawnTest]] = {}
    for panel in ranked[:MOST_PANELS]:
        fewer = replace(panel, marks=_most_wanted(panel.marks, share))
        groups.setdefault((title == LABORATORY and panel_of(panel.name)) or OTHER, []).append(fewer)
    for panels in groups.values():
        panels.sort(key=lambda panel: (not panel.level, not panel.abnormal, panel.name))
    order = sorted(groups, key=lambda name: (name == OTHER, -sum(bool(one.level) for one in groups[name]), name))
    return ChartSection(title=title, groups=tuple((name, tuple(groups[name])) for name in order), total=len(ranked))


def _bar_section(title: str, bars: Iterable[DrawnBar]) -> BarSection:
    inside = sorted(
        (bar for bar in bars if bar.x + bar.width > 0),
        key=lambda bar: (bar.cite is None, not bar.is_read, bar.x, bar.name),
    )
    return BarSection(title=title, bars=tuple(inside[:MOST_BARS]), total=len(inside))


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeScale:
    """Maps times to places on a drawing."""

    start: datetime
    end: datetime

    def x(self, moment: datetime, margin: float = 0) -> float:
        """The place of a moment; before 0 what is older than the scale."""
        share = (moment - self.start) / (self.end - self.start)
        return round(margin + share * (WIDTH - 2 * margin), 1)


def window_start(events: Iterable[StandingEvent], end: datetime) -> datetime:
    """Return the start of the window: that of the latest stay, or the first event of the day before it."""
    every = [(event.event.kind, event.event.time) for event in events]
    admitted = max((time for kind, time in every if kind is EventKind.ADMISSION), default=None)
    if admitted is None:
        return end - USUAL
    first = min(time for _, time in every if admitted - BEFORE_STAY <= time <= admitted)
    return max(min(first, end - SHORTEST), end - LONGEST)


def _days(window: TimeScale) -> Iterator[float]:
    """Return the places of midnights; only every n-th of many."""
    day = datetime.combine(window.start.date(), time()) + timedelta(days=1)
    step = timedelta(days=1 + (window.end - window.start).days // _MOST_DAYS)
    while day < window.end:
        yield window.x(day, MARGIN)
        day += step


def _bars(
    events: Sequence[StandingEvent],
    kinds: Mapping[EventKind, EventKind],
    scale: TimeScale,
    interest: Interest,
    moments: Collection[str] = (),
) -> Iterable[DrawnBar]:
    """Yield bars. ``moments``: tables whose rows have no end; they are drawn as a mark."""
    ends = {event.event.row_id: event.event.time for event in events if event.event.kind in kinds.values()}
    dated = "%Y-%m-%d" if EventKind.ADMISSION in kinds else "%m-%d %H:%M"
    for event in (event.event for event in events if event.event.kind in kinds):
        is_moment = event.row_id.partition(":")[0] in moments
        stop = event.time if is_moment else ends.get(event.row_id)
        left, right = scale.x(event.time), scale.x(stop or scale.end)
        shown = max(left, 0.0)
        yield DrawnBar(
            row_id=event.row_id,
            name=f"{event.concept}, {event.time:{dated}}",
            x=min(shown, WIDTH - 2.0),
            width=round(max(right - shown, 2.0), 1) if right > 0 else 0.0,
            tooltip=event_label(event)
            + ("" if is_moment else f", ended {stop:%Y-%m-%d %H:%M}" if stop else ", no end known"),
            is_open=stop is None,
            is_read=event.row_id in interest.read,
            cite=interest.cited.get(event.row_id),
        )


LABORATORY, VITALS, OXYGEN, OUTPUT = (
    "Laboratory tests",
    "Vital signs and scores",
    "Oxygen and ventilation",
    "Intake and output",
)
OTHER = ""
_SECTIONS = {
    EventKind.LAB: LABORATORY,
    EventKind.VITAL: VITALS,
    EventKind.OUTPUT: OUTPUT,
    EventKind.INTAKE: OUTPUT,
}
_OF_OXYGEN = (
    *("*o2*", "*oxygen*", "*peep*", "*ventilat*", "*tidal*", "*minute volume*", "*airway*", "*inspired*", "*ett*"),
    *("*respiratory rate*", "*inspiratory*", "*expiratory*", "*spo2*", "*mode*"),
)
"""Words of bedside measurements of breathing, in any case."""


def measured(events: Iterable[StandingEvent]) -> Mapping[str, list[StandingEvent]]:
    """Return the measurements of each section that have a number."""
    found: dict[str, list[StandingEvent]] = {title: [] for title in (LABORATORY, VITALS, OXYGEN, OUTPUT)}
    for event in events:
        title = _SECTIONS.get(event.event.kind)
        if title is not None and event.event.value is not None and isfinite(event.event.value):
            breathes = title == VITALS and any(fnmatchcase(event.event.concept.casefold(), like) for like in _OF_OXYGEN)
            found[OXYGEN if breathes else title].append(event)
    return found


def _panels(events: Iterable[StandingEvent], scale: TimeScale, interest: Interest) -> list[DrawnTest]:
    """Return the measurements of the window: cited ones first, then those read most, then those most often outside
    limits."""
    tests: dict[tuple[str, str], list[StandingEvent]] = {}
    for event in events:
        if event.event.time >= scale.start:
            tests.setdefault((event.event.concept, event.event.unit or ""), []).append(event)
    ranked = sorted(tests.items(), key=lambda item: (*_test_rank(item[1], interest), item[0]))
    return [_panel(name, unit, results, scale, interest) for (name, unit), results in ranked]


def _test_rank(results: Sequence[StandingEvent], interest: Interest) -> tuple[int, int, int, int]:
    rows = [result.event.row_id for result in results]
    cited, read = sum(row in interest.cited for row in rows), sum(row in interest.read for row in rows)
    return -cited, -read, -sum(result.event.level in _ABNORMAL for result in results), -len(rows)


def _panel(name: str, unit: str, results: Sequence[StandingEvent], scale: TimeScale, interest: Interest) -> DrawnTest:
    values = [result.event.value or 0.0 for result in results]
    limits = [limit for limit in (results[-1].low, results[-1].high) if limit is not None]
    least, most = min([*values, *limits]), max([*values, *limits])
    span = (most - least) or 1.0

    def y(value: float) -> float:
        return round(MARGIN + (most - value) / span * (HEIGHT - 2 * MARGIN), 1)

    marks = [
        DrawnMark(
            row_id=one.event.row_id,
            x=scale.x(one.event.time, MARGIN),
            y=y(value),
            tooltip=event_label(one.event),
            is_read=one.event.row_id in interest.read,
            cite=interest.cited.get(one.event.row_id),
        )
        for one, value in zip(results, values, strict=True)
    ]
    band = (y(max(limits)), round(y(min(limits)) - y(max(limits)), 1)) if len(limits) == 2 else None
    return DrawnTest(
        name=name,
        unit=unit,
        last=f"{values[-1]:g}",
        last_time=results[-1].event.time,
        level=LEVEL_WORDS[results[-1].event.level] if results[-1].event.level in _ABNORMAL else "",
        abnormal=sum(result.event.level in _ABNORMAL for result in results),
        marks=tuple(marks),
        line=_line(marks),
        results=len(marks),
        band=band,
        least=f"{least:g}",
        most=f"{most:g}",
    )


def _most_wanted(marks: Sequence[DrawnMark], share: int) -> tuple[DrawnMark, ...]:
    most = max(share, FEWEST_MARKS)
    wanted = sorted(marks, key=lambda mark: (mark.cite is None, not mark.is_read, -mark.x))[:most]
    rows = {mark.row_id for mark in wanted}
    return tuple(mark for mark in marks if mark.row_id in rows)


def _line(marks: Sequence[DrawnMark]) -> str:
    """Return the points of the line; of very many results every n-th and the last."""
    step = 1 + len(marks) // _MOST_POINTS
    points = [*marks[::step], *([marks[-1]] if (len(marks) - 1) % step else [])]
    return " ".join(f"{mark.x},{mark.y}" for mark in points)


# Notes and images, as marks on the timeline.


MOST_DOCUMENTS = 20
_EXCERPT = 800
_TITLE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnDocument:
    """A note or an image: its place, the beginning of its text, whether the agent read or cited it."""

    row_id: str
    x: float
    is_image: bool
    when: str
    title: str
    text: str
    is_cut: bool
    is_read: bool
    cite: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnDocuments:
    """The drawn documents in order of time, and the number of all."""

    shown: tuple[DrawnDocument, ...]
    total: int


def draw_documents(
    documents: Sequence[Event], images: set[str], start: datetime, end: datetime, interest: Interest
) -> DrawnDocuments:
    """Lay out notes and images between two moments: those cited and those read first, then the latest."""
    scale = TimeScale(start=start, end=end)
    ranked = sorted(documents, key=lambda document: document.time or start, reverse=True)
    ranked.sort(key=lambda one: (one.row_id not in interest.cited, one.row_id not in interest.read))
    chosen = sorted(ranked[:MOST_DOCUMENTS], key=lambda one: (one.time or start, one.row_id))
    shown = []
    for event in chosen:
        text, said = event.text_value or "", event.description or event.code
        shown.append(
            DrawnDocument(
                row_id=event.row_id,
                x=0.0 if event.time is None else scale.x(event.time, margin=4),
                is_image=event.table in images,
                when="" if event.time is None else f"{event.time:%Y-%m-%d %H:%M}",
                title=event.table if said == event.table else f"{event.table}: {said[:_TITLE]}",
                text=text[:_EXCERPT],
                is_cut=len(text) > _EXCERPT,
                is_read=event.row_id in interest.read,
                cite=interest.cited.get(event.row_id),
            )
        )
    return DrawnDocuments(shown=tuple(shown), total=len(documents))
