"""The record at a moment as places on a drawing: stays, tests, drugs, documents."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from wardround.clinical.bundles import EventKind, ValueLevel
from wardround.records import Event
from wardround.reports.standing import StandingEvent, StandingRecord, told

# The as-of timeline as places on a drawing: stays, laboratory tests as small multiples, drugs and infusions as bars.
#
# Only what stands on the record at the prediction time is drawn (``standing.py``); the right edge is that moment.


SHORTEST, LONGEST = timedelta(days=7), timedelta(days=90)
"""The window of tests and drugs: the latest stay until the prediction time, within these."""
USUAL_PANELS, MOST_PANELS, MOST_BARS = 12, 40, 40
"""So many tests are drawn where the agent read fewer, so many at most; and bars at most."""
MOST_MARKS, FEWEST_MARKS = 400, 8
"""So many results are drawn as marks, shared among the tests, of one at least: those cited, those read, the latest."""
WIDTH, HEIGHT, MARGIN = 280, 84, 8
"""Size of a test's drawing; bars are drawn on a width of ``WIDTH`` and stretched."""
_BEGINS = {
    EventKind.MEDICATION_START: EventKind.MEDICATION_STOP,
    EventKind.INFUSION_START: EventKind.INFUSION_STOP,
}
_MOST_POINTS = 200
_ABNORMAL = (ValueLevel.LOW, ValueLevel.HIGH)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interest:
    """The rows that the agent was shown, and the number in the citation table of those that it cited."""

    read: Collection[str]
    cited: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnMark:
    """A result: its place, what it says, whether the agent read it, its citation's number if it was cited."""

    row_id: str
    x: float
    y: float
    told: str
    is_read: bool
    cite: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnBar:
    """A stay, an order or an infusion: from ``x``, so wide; ``is_open`` where no end is known yet."""

    row_id: str
    name: str
    x: float
    width: float
    told: str
    is_open: bool
    is_read: bool
    cite: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnTest:
    """One laboratory test: its results, the line through all of them, how many there are, and the reference limits of
    its last row, as top and height of a band."""

    name: str
    unit: str
    last: str
    marks: tuple[DrawnMark, ...]
    line: str
    results: int
    band: tuple[float, float] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AsOfTimeline:
    """All that is drawn, and how much of it there is: tests and bars beyond the most that are drawn are counted."""

    first: datetime
    start: datetime
    end: datetime
    stays: tuple[DrawnBar, ...]
    panels: tuple[DrawnTest, ...]
    bars: tuple[DrawnBar, ...]
    tests: int
    orders: int

    @property
    def marks(self) -> list[DrawnMark | DrawnBar]:
        """Everything that stands for a row."""
        results = (mark for panel in self.panels for mark in panel.marks)
        return [*self.stays, *results, *self.bars]

    @property
    def drawn(self) -> Mapping[str, int]:
        """The number in the citation table of every cited row that is drawn."""
        return {one.row_id: one.cite for one in self.marks if one.cite is not None}

    @property
    def read(self) -> int:
        """How many rows that the agent read are drawn."""
        return len({one.row_id for one in self.marks if one.is_read})


def draw_timeline(record: StandingRecord, interest: Interest) -> AsOfTimeline:
    """Lay out a record up to its moment."""
    events, end = record.events, record.as_of
    first = min((one.event.time for one in events), default=end - SHORTEST)
    start = _window_start(events, end)
    whole, window = TimeScale(start=min(first, end - SHORTEST), end=end), TimeScale(start=start, end=end)
    stays = list(_bars(events, {EventKind.ADMISSION: EventKind.DISCHARGE}, whole, interest))
    bars = [bar for bar in _bars(events, _BEGINS, window, interest) if bar.x + bar.width > 0]
    panels = _panels(events, window, interest)
    met = sum(any(mark.is_read or mark.cite is not None for mark in panel.marks) for panel in panels)
    drawn = panels[: min(max(USUAL_PANELS, met), MOST_PANELS)]
    return AsOfTimeline(
        first=whole.start,
        start=start,
        end=end,
        stays=tuple(stays),
        panels=tuple(replace(one, marks=_most_wanted(one.marks, MOST_MARKS // len(drawn))) for one in drawn),
        bars=tuple(sorted(bars, key=_bar_rank)[:MOST_BARS]),
        tests=len(panels),
        orders=len(bars),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeScale:
    """From moments to places on a drawing."""

    start: datetime
    end: datetime

    def x(self, moment: datetime, margin: float = 0) -> float:
        """The place of a moment; before 0 what is older than the scale."""
        share = (moment - self.start) / (self.end - self.start)
        return round(margin + share * (WIDTH - 2 * margin), 1)


def _window_start(events: Iterable[StandingEvent], end: datetime) -> datetime:
    stays = [one.event.time for one in events if one.event.kind is EventKind.ADMISSION]
    return max(min(max(stays, default=end), end - SHORTEST), end - LONGEST)


def _bars(
    events: Sequence[StandingEvent], kinds: Mapping[EventKind, EventKind], scale: TimeScale, interest: Interest
) -> Iterable[DrawnBar]:
    ends = {one.event.row_id: one.event.time for one in events if one.event.kind in kinds.values()}
    for event in (one.event for one in events if one.event.kind in kinds):
        stop = ends.get(event.row_id)
        left, right = scale.x(event.time), scale.x(stop or scale.end)
        shown = max(left, 0.0) if right > 0 else left
        yield DrawnBar(
            row_id=event.row_id,
            name=f"{event.concept}, {event.time:%Y-%m-%d}",
            x=min(shown, WIDTH - 2.0),
            width=round(max(right - shown, 2.0), 1) if right > 0 else 0.0,
            told=told(event) + (f", ended {stop:%Y-%m-%d %H:%M}" if stop else ", no end known"),
            is_open=stop is None,
            is_read=event.row_id in interest.read,
            cite=interest.cited.get(event.row_id),
        )


def _bar_rank(bar: DrawnBar) -> tuple[bool, bool, float, str]:
    return bar.cite is None, not bar.is_read, bar.x, bar.name


def _panels(events: Iterable[StandingEvent], scale: TimeScale, interest: Interest) -> list[DrawnTest]:
    """The tests of the window: cited ones first, then those read most, then those most often out of their limits."""
    tests: dict[tuple[str, str], list[StandingEvent]] = {}
    for one in events:
        event = one.event
        if event.kind is EventKind.LAB and event.value is not None and event.time >= scale.start:
            tests.setdefault((event.concept, event.unit or ""), []).append(one)
    ranked = sorted(tests.items(), key=lambda item: (*_test_rank(item[1], interest), item[0]))
    return [_panel(name, unit, results, scale, interest) for (name, unit), results in ranked]


def _test_rank(results: Sequence[StandingEvent], interest: Interest) -> tuple[int, int, int, int]:
    rows = [one.event.row_id for one in results]
    cited, read = sum(row in interest.cited for row in rows), sum(row in interest.read for row in rows)
    return -cited, -read, -sum(one.event.level in _ABNORMAL for one in results), -len(rows)


def _panel(name: str, unit: str, results: Sequence[StandingEvent], scale: TimeScale, interest: Interest) -> DrawnTest:
    values = [one.event.value or 0.0 for one in results]
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
            told=told(one.event),
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
        marks=tuple(marks),
        line=_line(marks),
        results=len(marks),
        band=band,
    )


def _most_wanted(marks: Sequence[DrawnMark], share: int) -> tuple[DrawnMark, ...]:
    most = max(share, FEWEST_MARKS)
    wanted = sorted(marks, key=lambda mark: (mark.cite is None, not mark.is_read, -mark.x))[:most]
    rows = {mark.row_id for mark in wanted}
    return tuple(mark for mark in marks if mark.row_id in rows)


def _line(marks: Sequence[DrawnMark]) -> str:
    """The points of the line; of very many results every so-manieth and the last."""
    step = 1 + len(marks) // _MOST_POINTS
    points = [*marks[::step], *([marks[-1]] if (len(marks) - 1) % step else [])]
    return " ".join(f"{mark.x},{mark.y}" for mark in points)


# Notes and images that stand on a record at a moment, as marks on a line over the whole of it.


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
    """Those that are drawn, in order of time, of how many there are."""

    shown: tuple[DrawnDocument, ...]
    total: int


def draw_documents(
    documents: Sequence[Event], images: set[str], start: datetime, end: datetime, interest: Interest
) -> DrawnDocuments:
    """Lay out notes and images between two moments: those cited and those read first, then the latest."""
    scale = TimeScale(start=start, end=end)
    ranked = sorted(documents, key=lambda one: one.time or start, reverse=True)
    ranked.sort(key=lambda one: (one.row_id not in interest.cited, one.row_id not in interest.read))
    chosen = sorted(ranked[:MOST_DOCUMENTS], key=lambda one: (one.time or start, one.row_id))
    shown = tuple(_drawn(one, one.table in images, scale, interest) for one in chosen)
    return DrawnDocuments(shown=shown, total=len(documents))


def _drawn(event: Event, is_image: bool, scale: TimeScale, interest: Interest) -> DrawnDocument:
    text = event.text_value or ""
    said = event.description or event.code
    return DrawnDocument(
        row_id=event.row_id,
        x=0.0 if event.time is None else scale.x(event.time, margin=4),
        is_image=is_image,
        when="" if event.time is None else f"{event.time:%Y-%m-%d %H:%M}",
        title=event.table if said == event.table else f"{event.table}: {said[:_TITLE]}",
        text=text[:_EXCERPT],
        is_cut=len(text) > _EXCERPT,
        is_read=event.row_id in interest.read,
        cite=interest.cited.get(event.row_id),
    )
